// The types of a pool: its options, its counters, and a job, which is one statement from the call to its answer. Also sends a job.
import type postgres from 'postgres';
import type { Histogram } from '../histogram.ts';
import type { RawRow, SentStatement } from '../rows.ts';
import { isConnectionError } from './database-errors.ts';
import {
  commandOf,
  connectionLost,
  isAnswer,
  sendStatement,
  withoutGaps,
  type OpenClient,
  type Query,
  type RawRows,
} from './driver.ts';
import type { Connection } from './pool-connections.ts';
import { RESET_IN_TRANSACTION } from '../session-state.ts';
import type { Reached, ServerGuard } from './server-guard.ts';

/** A statement that can be canceled. */
export interface Execution {
  readonly rows: Promise<RawRow[]>;
  /** Resolves when it is sent, if it has to wait for a connection, or for the connection to open. */
  readonly sent: Promise<void> | undefined;
  /** Ends the statement, on the server too if it has a connection to itself. `rows` then rejects with the reason. */
  readonly cancel: (reason: Error) => void;
}

/** A statement from the call to its answer. */
export interface Job {
  readonly statement: SentStatement;
  /** False after PostgreSQL refused the prepared form because tables have changed. */
  prepare: boolean;
  /** How many more times it may be sent again after a deadlock or serialization failure. */
  retries: number;
  readonly deadline: number;
  /** When it was passed to the driver last. */
  started: number;
  /** Runs when the driver sends it, if that was not at once. */
  onSent: (() => void) | undefined;
  readonly resolve: (rows: RawRow[]) => void;
  readonly reject: (error: Error) => void;
  connection: Connection | undefined;
  /** What the server must have reached when it answers; see `ServerGuard`. */
  required: Reached | undefined;
  query: Query | undefined;
  /** Why it was canceled. */
  canceled: Error | undefined;
}

/** Maximum retries after a deadlock or serialization failure. */
const MAX_RETRIES = 3;

/**
 * A job that was not sent. It has all its properties at once, because to add some later would take longer than the rest of the pool's
 * own work.
 */
export const newJob = (
  statement: SentStatement,
  prepare: boolean,
  deadline: number,
  resolve: Job['resolve'],
  reject: Job['reject'],
): Job => ({
  statement,
  prepare,
  retries: MAX_RETRIES,
  deadline,
  started: 0,
  onSent: undefined,
  resolve,
  reject,
  connection: undefined,
  required: undefined,
  query: undefined,
  canceled: undefined,
});

export interface PoolOptions {
  readonly open: OpenClient;
  readonly connections: number;
  /** Maximum statements on a connection at once: with more than one they are pipelined. */
  readonly depth: number;
  /** Maximum statements that wait or run at once. */
  readonly maxPending: number;
  /** Milliseconds after which a statement without an answer is abandoned, including its time in the queue. */
  readonly deadline: number;
  readonly guard?: ServerGuard | undefined;
  /** Whether no pooler gives the server's connection to others between two statements. */
  readonly isDirect?: boolean;
  /** Runs after an answer that the connection is read-only. */
  readonly onReadOnly?: () => void;
}

/** The counters of a pool, for the metrics. */
export interface PoolState {
  /** Statements that were sent and have no answer yet. */
  readonly running: number;
  /** Statements that wait for a connection. */
  readonly waiting: number;
  /** Statements refused because too many were pending. */
  readonly refused: number;
  /** Seconds from sending a statement to its answer. */
  readonly durations: Histogram;
}

/** Errors of statements that were sent and whose answers were lost. */
export const unanswered = new WeakSet<Error>();

/** Whether the statement of this error may have taken effect: it was sent, and its answer was lost. */
export const isUnanswered = (error: unknown): boolean => error instanceof Error && unanswered.has(error);

/** The error of a statement that may have taken effect. The pool replaces its connection. */
function unknownOutcome(): Error {
  const error = connectionLost();
  unanswered.add(error);
  return error;
}

/** A statement that was sent, and the answer to it and to what follows it. */
export interface Sent {
  readonly query: Query;
  readonly answer: PromiseLike<RawRows>;
}

/** An earlier statement of the connection has changed a setting, so that an answer may be wrong. */
export class SessionChanged extends Error {}

/** What a pool wants to hear of a transaction. */
export interface TransactionEvents {
  /** Receives each further query, because a request to cancel must name the running one. */
  readonly onNext: (query: Query) => void;
  /** Runs when the transaction may still be open, so that no other statement may use the connection. */
  readonly onLeftOpen: () => void;
}

/** Sends a statement; with a follow-up, both in one transaction. */
export function sendAll(
  sql: postgres.Sql,
  statement: SentStatement,
  prepare: boolean,
  events: TransactionEvents,
): Sent {
  const { followUp } = statement;
  const begun = followUp && isDone(sql.unsafe('begin'));
  const query = sendStatement(sql, statement, prepare);
  return { query, answer: begun ? complete(sql, begun, query, followUp, prepare, events) : query };
}

const isDone = (command: PromiseLike<unknown>): PromiseLike<boolean> =>
  command.then(
    () => true,
    () => false,
  );

/** @param begun whether BEGIN had no error: a request to cancel may hit each of the commands */
async function complete(
  sql: postgres.Sql,
  begun: PromiseLike<boolean>,
  query: Query,
  followUp: NonNullable<SentStatement['followUp']>,
  prepare: boolean,
  { onNext, onLeftOpen }: TransactionEvents,
): Promise<RawRows> {
  const sendCommand = (text: string): Query => {
    const command = sql.unsafe(text).raw() as unknown as Query;
    onNext(command);
    return command;
  };
  let isCommitted = false;
  try {
    const rows = await query;
    if (!isAnswer(rows)) return rows;
    // Without BEGIN the statement was a transaction of its own.
    isCommitted = !(await begun);
    const next = followUp(withoutGaps(rows));
    let all: RawRows = rows;
    if (next) {
      // Not earlier, because deferred checks of the write may rely on what its other triggers do.
      const settled = sendCommand(`set constraints all immediate; ${RESET_IN_TRANSACTION}`);
      const second = sendStatement(sql, next.statement, prepare);
      const [, read] = await Promise.all([settled.then(() => onNext(second)), second]);
      if (!isAnswer(read)) return read;
      all = Object.assign(next.merge(withoutGaps(read)), { command: commandOf(rows) });
    }
    const ended = await sendCommand('commit');
    if (commandOf(ended) !== 'COMMIT') throw unknownOutcome();
    return all;
  } catch (error) {
    // The change is made, and the error is only of what followed.
    if (isCommitted) throw unknownOutcome();
    if (isConnectionError(error as Error)) throw error;
    if (!(await isDone(sql.unsafe('rollback')))) onLeftOpen();
    throw error;
  }
}
