// One process of WORKERS, as the process that has started it sees it.
import cluster, { type Worker as ClusterWorker } from 'node:cluster';
import { WORKER_VARIABLE } from '../processes.ts';
import type { ToParent, ToWorker, WorkerStart } from './messages.ts';
import { createOutbox, type Outbox } from './outbox.ts';

/** Milliseconds that a process may take to end after SIGTERM: 10 s for requests, and some for the database. */
const MAX_STOP = 15_000;

/** How a process ended. */
export interface Ending {
  readonly code: number;
  /** The exit code or the signal, for messages. */
  readonly reason: string;
  /** Whether the operating system started it at all. If not, it has logged nothing. */
  readonly wasStarted: boolean;
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

/** @returns an error if Node.js throws it: it emits only some of those that the operating system reports */
function fork(number: number): ClusterWorker | Error {
  try {
    return cluster.fork({ [WORKER_VARIABLE]: String(number) });
  } catch (error) {
    return error as Error;
  }
}

/** The end of a process that could not be started, for example because there are too many processes or open files. */
const notStarted = ({ message }: Error): Ending => ({
  code: 1,
  reason: `cannot be started: ${message}`,
  wasStarted: false,
});

/**
 * Starts a process. If that fails, it ends at once.
 * @param onJoin called when it receives messages
 */
export function startWorker(
  start: WorkerStart,
  onJoin: (worker: Worker) => void,
  onMessage: (worker: Worker, message: WorkerMessage) => void,
): Worker {
  const { number } = start;
  const forked = fork(number);
  const child = forked instanceof Error ? undefined : forked;
  const gone = new AbortController();
  let readyAt: number | undefined;
  let hasJoined = false;
  let isStopping = false;
  const send = (message: ToWorker, onWritten?: () => void): void => {
    // The callback also receives the error if the process has just ended.
    if (child?.isConnected()) child.process.send(message, () => onWritten?.());
  };
  const ended = new Promise<Ending>((resolve) => {
    const end = (ending: Ending): void => {
      gone.abort();
      resolve(ending);
    };
    if (forked instanceof Error) return end(notStarted(forked));
    forked.once('exit', (code: number | null, signal: string | null) =>
      end({ code: code ?? 1, reason: signal ?? `exit code ${code}`, wasStarted: true }),
    );
    forked.on('error', (error) => {
      if (forked.process.pid !== undefined) return; // a message to a process that has just ended
      delete cluster.workers?.[forked.id]; // Node.js does so only after `exit`
      end(notStarted(error));
    });
  });
  const ready = new Promise<string | undefined>((resolve) => {
    void ended.then(() => resolve(undefined));
    child?.on('message', (message: ToParent) => {
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
      // Without an id, the signal would reach this process and its group.
      const kill = (signal: NodeJS.Signals): void => {
        if (child?.process.pid !== undefined) child.process.kill(signal);
      };
      kill('SIGTERM');
      const timer = setTimeout(() => kill('SIGKILL'), MAX_STOP);
      return ended.finally(() => clearTimeout(timer));
    },
  };
  return worker;
}
