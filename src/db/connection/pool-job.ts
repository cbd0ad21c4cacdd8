// The statements of a pool and their counters, and whether one may have taken effect when its answer is lost.
import type { BoundSql } from '../fragment.ts';
import type { Histogram } from '../histogram.ts';
import type { RawRow } from '../rows.ts';
import type { Requester } from '../scheduling/requester.ts';
import type { Query } from './driver.ts';
import type { Connection } from './pool-connections.ts';
import type { Reached } from './server-guard.ts';

/** A statement that can be canceled. */
export interface Execution {
  readonly rows: Promise<RawRow[]>;
  /** Ends the statement, on the server too if it has a connection to itself. `rows` then rejects with the reason. */
  readonly cancel: (reason: Error) => void;
  /** PostgreSQL's number of the process that runs it, once it was sent. */
  readonly process: () => number | undefined;
}

/** A statement from the call to its answer. */
export interface Job {
  readonly statement: BoundSql;
  /** Cleared with the answer: a finished statement must not keep the request in memory. */
  requester: Pick<Requester, 'park'> | undefined;
  /** False after PostgreSQL refused the prepared form because tables have changed. */
  prepare: boolean;
  /** How many more times it may be sent again after a deadlock or serialization failure. */
  retries: number;
  readonly deadline: number;
  /** When it was sent last. */
  started: number;
  readonly resolve: (rows: RawRow[]) => void;
  readonly reject: (error: Error) => void;
  connection?: Connection;
  /** What the server must have reached when it answers; see `ServerGuard`. */
  required?: Reached;
  query?: Query;
  /** Why it was canceled. */
  canceled?: Error;
}

/** The counters of a pool, for the metrics. */
export interface PoolState {
  readonly connections: number;
  /** Statements that were sent and have no answer yet. */
  readonly running: number;
  /** Statements that wait for a connection. */
  readonly waiting: number;
  /** Statements refused because too many were pending. */
  readonly refused: number;
  /** Statements abandoned without an answer. */
  readonly abandoned: number;
  /** Statements canceled because their client disconnected or their time was over. */
  readonly canceled: number;
  /** Seconds from sending a statement to its answer. */
  readonly durations: Histogram;
}

/** Errors of statements that were sent and whose answers were lost. */
export const unanswered = new WeakSet<Error>();

/** Whether the statement of this error may have taken effect: it was sent, and its answer was lost. */
export const isUnanswered = (error: unknown): boolean => error instanceof Error && unanswered.has(error);
