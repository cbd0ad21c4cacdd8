// A process of WORKERS: its connection to the process that has started it, and through it to the others.
import cluster from 'node:cluster';
import type { Settings } from '../config.ts';
import { createSharedCounts, type Counts, type SharedCounts } from '../http/auth/shared-counts.ts';
import { WORKER_VARIABLE, type Siblings } from '../processes.ts';
import { createChannel, type ChannelTopic } from './channel.ts';

/** Milliseconds that answers of other processes may take. */
const MAX_ANSWER_TIME = 2_000;

/** What a process must know at its start. It is in its environment. */
export interface WorkerStart {
  /** 1 for the first of them, which logs warnings. A process that replaces another has its number. */
  readonly number: number;
  readonly processes: number;
  /** The embedded database, if there is one. */
  readonly embeddedUrl: string | undefined;
  /** Whether the service starts with it: no other process listens, and an embedded database may be new and empty. */
  readonly isInitial: boolean;
  /** File descriptor of the passed socket in the parent process. */
  readonly passed: number | undefined;
  /** Base64. */
  readonly secret: string;
}

/** What a service shares with the other processes. */
export interface Sharing {
  /** How many processes share the memory. */
  readonly processes: number;
  /** The same in all processes. */
  readonly secret: Buffer;
  readonly counts: SharedCounts;
  readonly siblings: Siblings;
}

/** The connection of a worker to its parent process. */
export interface WorkerLink {
  readonly start: WorkerStart;
  readonly sharing: Sharing;
  /** Reports that the process serves, and the text that says where. */
  readonly ready: (text: string) => void;
  /** Hands over the last metrics. */
  readonly end: (metrics: string) => Promise<unknown>;
}

/** If the parent process ends, this one gets a SIGTERM: it finishes its requests, and ends as well. */
export function joinParent(settings: Settings): WorkerLink {
  const start = JSON.parse(process.env[WORKER_VARIABLE] ?? '') as WorkerStart;
  const answers = new Map<ChannelTopic, (data: never) => unknown>();
  const channel = createChannel(process, (topic, data) => answers.get(topic)?.(data as never));
  const counts = createSharedCounts(settings, (counted) => channel.ask('counts', counted));
  answers.set('counts', (counted: Counts) => counts.add(counted));
  const siblings: Siblings = {
    onQuestion: (topic, answer) => void answers.set(topic, answer),
    ask: async (topic, data) =>
      ((await channel.ask(topic, data, MAX_ANSWER_TIME)) ?? []) as readonly unknown[],
  };
  process.on('SIGHUP', () => undefined); // only the parent process reloads
  // Otherwise Node.js ends the process at once, without finishing its requests.
  if (cluster.worker) cluster.worker.exitedAfterDisconnect = true;
  process.once('disconnect', () => process.kill(process.pid, 'SIGTERM'));
  const { processes, secret } = start;
  return {
    start,
    sharing: { processes, secret: Buffer.from(secret, 'base64'), counts, siblings },
    ready: (text) => void channel.ask('ready', text),
    end: (metrics) => channel.ask('ended', metrics, MAX_ANSWER_TIME),
  };
}
