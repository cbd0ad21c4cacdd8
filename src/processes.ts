// The processes of one service: of which kind this one is, and what it can ask the others.
import cluster from 'node:cluster';

/** Set by `vitrine serve` for the processes of WORKERS. */
export const WORKER_VARIABLE = 'VITRINE_WORKER';

/** Whether `vitrine serve` with WORKERS has started this process. It then shares its counts with the others. */
export const isWorker = cluster.isWorker && process.env[WORKER_VARIABLE] !== undefined;

/** Whether another program has started this process as one of several, such as PM2 in cluster mode. They share no counts. */
export const isForeignWorker = cluster.isWorker && !isWorker;

/** What processes can ask each other. */
export type Topic = 'metrics';

/** The other processes that `WORKERS` has started. A process that is alone has none. */
export interface Siblings {
  /** Asks all other processes. @returns the answers that came in time, without the undefined ones */
  readonly ask: (topic: Topic, data: string) => Promise<readonly unknown[]>;
  /** Sets the function that answers the questions of other processes. It must be quick, and its answer small. */
  readonly onQuestion: (topic: Topic, answer: (data: string) => unknown) => void;
}

export interface EmbeddedDatabase {
  readonly url: string;
  /** Stops the server, unless another process still uses it. */
  stop: () => Promise<void>;
}
