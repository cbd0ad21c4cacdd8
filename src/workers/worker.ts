// One process of WORKERS, as the process that has started it sees it.
import cluster, { type Worker as ClusterWorker } from 'node:cluster';
import type { Readable } from 'node:stream';
import { WORKER_VARIABLE } from '../processes.ts';
import { createChannel, type Channel, type ChannelTopic } from './channel.ts';
import type { WorkerStart } from './worker-link.ts';

/** Milliseconds that a process may take to end after SIGTERM: 10 s for requests, and some for the database. */
const MAX_STOP = 15_000;

/** How a process ended. */
export interface Ending {
  /** Undefined if the operating system did not start it, so that it has logged nothing. */
  readonly code: number | undefined;
  readonly reason: string;
}

/** Passes on the log of a process in whole lines, so that those of several do not mix. It reads no faster than others read from it. */
async function passOn(log: Readable): Promise<void> {
  let rest = '';
  for await (const text of log.setEncoding('utf8') as AsyncIterable<string>) {
    rest += text;
    const lines = rest.slice(0, rest.lastIndexOf('\n') + 1);
    rest = rest.slice(lines.length);
    await new Promise((done) => process.stderr.write(lines, done));
  }
  if (rest !== '') process.stderr.write(`${rest}\n`);
}

export type AnswerWorker = (worker: Worker, topic: ChannelTopic, data: unknown) => unknown;

export class Worker {
  /** Resolves with its text when it serves, or with undefined if it ends before. */
  readonly ready: Promise<string | undefined>;
  readonly ended: Promise<Ending>;
  /** Undefined if it could not be started. */
  channel: Channel | undefined;
  /** When it began to serve, as of `performance.now`. */
  readyAt: number | undefined;
  /** The latest known ones. */
  metrics = '';
  /** Whether it serves and has not been asked to stop. */
  isServing = false;
  #child: ClusterWorker | undefined;

  /** Starts a process. If that fails, it ends at once. */
  constructor(start: WorkerStart, answer: AnswerWorker) {
    let becomeReady: (text?: string) => void;
    this.ready = new Promise((resolve) => (becomeReady = resolve));
    this.ended = new Promise<Ending>((resolve) => {
      const fail = ({ message }: Error): void =>
        resolve({ code: undefined, reason: `cannot be started: ${message}` });
      try {
        const child = (this.#child = cluster.fork({ [WORKER_VARIABLE]: JSON.stringify(start) }));
        child.once('exit', (code: number | null, signal: string | null) =>
          resolve({ code: code ?? 1, reason: signal ?? `exit code ${code}` }),
        );
        // Later errors are those of messages to a process that has just ended.
        child.on('error', (error) => child.process.pid === undefined && fail(error));
        if (child.process.stderr) passOn(child.process.stderr).catch(() => undefined);
        this.channel = createChannel(child.process, (topic, data) => {
          if (topic !== 'ready') return answer(this, topic, data);
          this.readyAt = performance.now();
          this.isServing = true;
          becomeReady(data as string);
        });
      } catch (error) {
        fail(error as Error); // Node.js emits only some of the errors of the operating system
      }
    });
    void this.ended.then(() => {
      this.isServing = false;
      becomeReady();
    });
  }

  /** Lets the process finish its requests, and kills it if it takes too long. */
  stop(): Promise<Ending> {
    this.isServing = false;
    // Without an id, the signal would reach this process and its group.
    const kill = (signal: NodeJS.Signals): void => {
      if (this.#child?.process.pid !== undefined) this.#child.process.kill(signal);
    };
    kill('SIGTERM');
    const timer = setTimeout(() => kill('SIGKILL'), MAX_STOP);
    return this.ended.finally(() => clearTimeout(timer));
  }
}
