// Whether this process is one of several, and of which kind.
import cluster from 'node:cluster';

/** Set by `vitrine serve` for the processes of WORKERS. */
export const WORKER_VARIABLE = 'VITRINE_WORKER';

/** Whether `vitrine serve` with WORKERS has started this process. It then shares its counts with the others. */
export const isWorker = cluster.isWorker && process.env[WORKER_VARIABLE] !== undefined;

/** Whether another program has started this process as one of several, such as PM2 in cluster mode. They share no counts. */
export const isForeignWorker = cluster.isWorker && !isWorker;
