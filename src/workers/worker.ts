// One process of WORKERS, as the process that has started it sees it.
import cluster, { type Worker as ClusterWorker } from 'node:cluster';
import { WORKER_VARIABLE } from '../http/message/process-role.ts';
import type { ToParent, ToWorker, WorkerStart } from './messages.ts';
import { createOutbox, type Outbox } from './outbox.ts';

/** Milliseconds that a process may take to end after SIGTERM: 10 s for requests, and some for the database. */
const MAX_STOP = 15_000;

/** How a process ended. */
export interface Ending {
  readonly code: number;
  /** The exit code or the signal, for messages. */
  readonly reason: string;
}

/** One process. */
export interface Worker {
  readonly number: number;
  /** For the counts of the other processes. */
  readonly outbox: Outbox;
  /** Whether it receives messages. */
  readonly hasJoined: () => boolean;
  /** Milliseconds, as of `performance.now`; undefined before it serves. */
  readonly readyAt: () => number | undefined;
  /** Whether it serves and has not been asked to stop. */
  readonly isServing: () => boolean;
  /** Resolves when the process serves, with its text, or with undefined if it ends before. */
  readonly ready: Promise<string | undefined>;
  readonly ended: Promise<Ending>;
  /** Aborted when the process has ended. */
  readonly gone: AbortSignal;
  readonly send: (message: ToWorker) => void;
  /** Lets the process finish its requests, and kills it if it takes too long. */
  readonly stop: () => Promise<Ending>;
}

/** The messages that are not about the start. */
export type WorkerMessage = Exclude<ToParent, { kind: 'join' | 'ready' }>;

/**
 * Starts a process.
 * @param onJoin called when it receives messages
 */
export function startWorker(
  start: WorkerStart,
  onJoin: (worker: Worker) => void,
  onMessage: (worker: Worker, message: WorkerMessage) => void,
): Worker {
  const { number } = start;
  const child: ClusterWorker = cluster.fork({ [WORKER_VARIABLE]: String(number) });
  const gone = new AbortController();
  let readyAt: number | undefined;
  let hasJoined = false;
  let isStopping = false;
  const send = (message: ToWorker, onWritten?: () => void): void => {
    // The callback also receives the error if the process has just ended.
    if (child.isConnected()) child.process.send(message, () => onWritten?.());
  };
  const ended = new Promise<Ending>((resolve) => {
    child.once('exit', (code: number | null, signal: string | null) => {
      gone.abort();
      resolve({ code: code ?? 1, reason: signal ?? `exit code ${code}` });
    });
  });
  const ready = new Promise<string | undefined>((resolve) => {
    void ended.then(() => resolve(undefined));
    child.on('message', (message: ToParent) => {
      if (message.kind === 'join') {
        hasJoined = true;
        send({ kind: 'start', start });
        onJoin(worker);
      } else if (message.kind === 'ready') {
        readyAt = performance.now();
        resolve(message.text);
      } else onMessage(worker, message);
    });
  });
  child.on('error', () => undefined); // a message to a process that has just ended
  const worker: Worker = {
    number,
    outbox: createOutbox((batch, onWritten) => send({ kind: 'batch', batch }, onWritten)),
    hasJoined: () => hasJoined,
    readyAt: () => readyAt,
    isServing: () => readyAt !== undefined && !isStopping && !gone.signal.aborted,
    ready,
    ended,
    gone: gone.signal,
    send,
    stop: () => {
      isStopping = true;
      child.process.kill('SIGTERM');
      const timer = setTimeout(() => child.process.kill('SIGKILL'), MAX_STOP);
      return ended.finally(() => clearTimeout(timer));
    },
  };
  return worker;
}
