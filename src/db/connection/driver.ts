// Workarounds that make pipelining, canceling and dedicated connections over postgres.js 3.4 safe.
import type postgres from 'postgres';
import { unavailable, type Problem } from '../../errors.ts';
import type { Statement } from '../fragment.ts';
import { AWAY } from './database-errors.ts';

/** One row as it came off the wire: the text of each column as bytes, or null. */
export type RawRow = readonly (Buffer | null)[];

/** A statement that was given to the driver. */
export interface Query extends PromiseLike<RawRow[]> {
  /** Whether the connection works on it now, and not on an earlier one. */
  readonly active: boolean;
  /** The connection's process and secret, once the statement was sent. */
  readonly state: object | null;
  /** Removes a statement that was not sent from the driver's queue, and rejects it. */
  readonly cancel: () => unknown;
}

/**
 * Gives a statement to the driver. Disables the driver's own retry of stale prepared statements, which can deliver results to
 * the wrong query; see `isOutdated`.
 */
export function sendStatement(sql: postgres.Sql, { text, values }: Statement, prepare: boolean): Query {
  // The type declarations leave these options out. Without `simple: false`, a statement without values could not be prepared.
  // The driver calls `onexecute` after writing a pipelined statement; from then on it must not know that it was prepared.
  const options: object = { prepare, simple: false, onexecute: () => !(query.prepared = false) };
  const query = sql.unsafe(text, values as string[], options).raw() as unknown as Query & {
    prepared: boolean;
  };
  return query;
}

/**
 * Sends the protocol's request to cancel what the connection of a statement is running. The driver's `cancel` discards the
 * promise of its end, and without it the request could reach the next statement on the connection.
 */
export function cancelOnServer(query: Query): Promise<unknown> {
  const { canceller } = query as unknown as { canceller?: (query: Query) => Promise<unknown> };
  return canceller ? canceller(query) : Promise.resolve();
}

/** Milliseconds after which a connection is reused or ended even if the request to cancel its statement got no answer. */
export const CANCEL_TIMEOUT = 5_000;

/** The answer to a client when a connection has ended. */
export const outOfReach = (): Problem => unavailable(AWAY);

/** Opens a client of one connection, which is made with the first statement. */
export type OpenClient = (onEnd: () => void) => postgres.Sql;

/**
 * Whether the server has answered. The driver loses a statement that is given to it while its connection ends: it is never
 * answered, or it resolves without rows after the next connect.
 */
export const isAnswer = (rows: RawRow[]): boolean =>
  typeof (rows as { readonly command?: unknown }).command === 'string';

/** A dedicated connection, whose statements run one after the other. */
export interface DedicatedConnection {
  /**
   * Runs a statement, and stops waiting for its answer when the connection ends.
   * @param timeout milliseconds after which the statement is canceled and the connection ends
   * @throws Problem 503
   */
  readonly run: <T>(start: (sql: postgres.Sql) => PromiseLike<T>, timeout?: number) => Promise<T>;
  /** Cancels the running statement on the server and ends the connection; `run` then rejects with the reason. */
  readonly abort: (reason: Error) => void;
  /** @param timeout seconds in which it may end by itself */
  readonly end: (timeout: number) => Promise<void>;
}

export function openDedicated(open: OpenClient): DedicatedConnection {
  let lost: Error | undefined;
  let stopWaiting: (() => void) | undefined;
  let running: Query | undefined;
  const lose = (reason: Error): void => {
    lost ??= reason;
    stopWaiting?.();
  };
  const sql = open(() => lose(outOfReach()));

  function abort(reason: Error): void {
    const canceled = running?.state ? cancelOnServer(running) : Promise.resolve();
    lose(reason);
    const end = (): void => {
      clearTimeout(timer);
      void sql.end({ timeout: 0 });
    };
    const timer = setTimeout(end, CANCEL_TIMEOUT).unref();
    canceled.then(end, end);
  }

  return {
    run: (start, timeout) =>
      new Promise((resolve, reject) => {
        stopWaiting = () => reject(lost ?? outOfReach());
        // A new connection would not have the transaction of the old one.
        if (lost) return stopWaiting();
        const timer = timeout === undefined ? undefined : setTimeout(abort, timeout, outOfReach());
        const query = start(sql);
        running = query as unknown as Query;
        void Promise.resolve(query)
          .then(resolve, reject)
          .finally(() => {
            // The next statement may have begun by now.
            if (running === (query as unknown as Query)) running = undefined;
            clearTimeout(timer);
          });
      }),
    abort,
    end: (timeout) => sql.end({ timeout: lost ? 0 : timeout }),
  };
}

/**
 * The driver does not reset its row index when an error ends a statement after its first rows. The rows of the next statement
 * then start further back, so leading holes are dropped.
 */
export const withoutGaps = (rows: RawRow[]): RawRow[] =>
  rows.length > 0 && rows[0] === undefined ? rows.filter(Boolean) : rows;

/** Functions of PostgreSQL that report a stale prepared statement, though some of them report other errors as well. */
const OUTDATED = new Set(['FetchPreparedStatement', 'RevalidateCachedQuery', 'transformAssignedExpr']);

/** Whether PostgreSQL may have refused a statement because it was prepared before a change of its tables. */
export const isOutdated = (error: Error): boolean =>
  OUTDATED.has(String((error as { readonly routine?: unknown }).routine));
