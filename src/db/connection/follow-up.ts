// Sends a statement with what follows it in the same transaction: see `FollowUp`.
import type postgres from 'postgres';
import type { SentStatement } from '../rows.ts';
import { RESET_IN_TRANSACTION } from '../session-state.ts';
import { isConnectionError, isDatabaseError } from './database-errors.ts';
import {
  commandOf,
  ConnectionLost,
  isAnswer,
  noteUnanswered,
  sendStatement,
  withoutGaps,
  type Query,
  type RawRows,
} from './driver.ts';

/** SQLSTATE of a statement in a transaction that an error has ended. */
const ABORTED_TRANSACTION = '25P02';

/** The error of a statement that may have taken effect. Its connection is replaced. */
function unknownOutcome(): Error {
  const error = new ConnectionLost();
  noteUnanswered(error);
  return error;
}

/** What was sent first, and the answer to the statement and to what follows it. */
export interface Sent {
  readonly query: Query;
  readonly answer: PromiseLike<RawRows>;
}

/** What a connection wants to hear of a transaction. */
export interface TransactionEvents {
  /** Receives each further query, because a request to cancel must name the running one. */
  readonly onNext: (query: Query) => void;
  /** Runs when the transaction may still be open, so that no other statement may use the connection. */
  readonly onLeftOpen: () => void;
}

/** Sends a statement; with a preamble, a follow-up or a snapshot, all in one transaction. */
export function sendAll(
  sql: postgres.Sql,
  statement: SentStatement,
  prepare: boolean,
  events: TransactionEvents,
): Sent {
  const { followUp, preamble, isSnapshot } = statement;
  const isAlone = followUp === undefined && preamble === undefined && isSnapshot !== true;
  const begin = isSnapshot ? 'begin isolation level repeatable read' : 'begin';
  if (isAlone) {
    const query = sendStatement(sql, statement, prepare);
    return { query, answer: query };
  }
  const opening = sql.unsafe(preamble === undefined ? begin : `${begin}; ${preamble}`) as unknown as Query;
  const begun = errorOf(opening);
  const written = sendStatement(sql, statement, prepare);
  void begun.then(() => events.onNext(written));
  const answer = followUp
    ? complete(sql, begun, written, followUp, prepare, events)
    : commitAfter(sql, begun, written, events);
  return { query: opening, answer };
}

/** Sends the commit at once, to save a round trip: after an error, PostgreSQL rolls back instead. */
async function commitAfter(
  sql: postgres.Sql,
  begun: PromiseLike<unknown>,
  query: Query,
  { onNext, onLeftOpen }: TransactionEvents,
): Promise<RawRows> {
  // The driver sends a statement when someone waits for it, so the order counts.
  const answer = settled(query);
  const commit = sql.unsafe('commit').raw() as unknown as Query;
  const ended = settled(commit);
  const { rows, error } = await answer;
  onNext(commit);
  if (error && isConnectionError(error)) throw error;
  const end = await ended;
  if (end.error && !isConnectionError(end.error) && !(await isDone(sql.unsafe('rollback')))) onLeftOpen();
  if (error) throw await causeOf(error, begun);
  if (!rows || !isAnswer(rows)) return rows ?? [];
  if (end.error) throw end.error;
  // Without BEGIN it had no preamble, but has changed something perhaps.
  if ((await begun) !== undefined || commandOf(end.rows ?? []) !== 'COMMIT') throw unknownOutcome();
  return rows;
}

const settled = (query: Query): PromiseLike<{ readonly rows?: RawRows; readonly error?: Error }> =>
  query.then(
    (rows) => ({ rows }),
    (error: unknown) => ({ error: error instanceof Error ? error : new Error(String(error)) }),
  );

const errorOf = (command: PromiseLike<unknown>): PromiseLike<unknown> =>
  command.then(
    () => undefined,
    (error: unknown) => error,
  );

const isDone = async (command: PromiseLike<unknown>): Promise<boolean> =>
  (await errorOf(command)) === undefined;

/** The error of a statement; that of BEGIN and the preamble if it has kept the statement from running. */
const causeOf = async (error: unknown, begun: PromiseLike<unknown>): Promise<unknown> =>
  isDatabaseError(error) && error.code === ABORTED_TRANSACTION ? ((await begun) ?? error) : error;

/** @param begun the error of BEGIN: a request to cancel may hit each of the commands */
async function complete(
  sql: postgres.Sql,
  begun: PromiseLike<unknown>,
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
    // Without BEGIN the statement was a separate transaction.
    isCommitted = (await begun) !== undefined;
    const next = followUp(withoutGaps(rows));
    let all: RawRows = rows;
    if (next) {
      // Not earlier, because deferred checks of the write may rely on what its other triggers do.
      const settled = sendCommand(`set constraints all immediate; ${RESET_IN_TRANSACTION}`);
      const second = sendStatement(sql, next.statement, prepare);
      const [, read] = await Promise.all([settled.then(() => onNext(second)), second]);
      if (!isAnswer(read)) return read;
      all = Object.assign(next.merge(withoutGaps(read)), { command: commandOf(rows) });
      const last = next.last?.(all);
      if (last) {
        const third = sendStatement(sql, last, prepare);
        onNext(third);
        const done = await third;
        if (!isAnswer(done)) return done;
      }
    }
    const ended = await sendCommand('commit');
    if (commandOf(ended) !== 'COMMIT') throw unknownOutcome();
    return all;
  } catch (error) {
    // The change is made, and the error is only of what followed.
    if (isCommitted) throw unknownOutcome();
    if (isConnectionError(error as Error)) throw error;
    if (!(await isDone(sql.unsafe('rollback')))) onLeftOpen();
    throw await causeOf(error, begun);
  }
}
