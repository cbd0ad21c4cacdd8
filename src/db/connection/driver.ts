// Workarounds that make pipelining, canceling and dedicated connections over postgres.js 3.4 safe.
import postgres from 'postgres';
import { unavailable, type Problem } from '../../errors.ts';
import type { Statement } from '../fragment.ts';
import { UNAVAILABLE } from './database-errors.ts';

/** One row as received: the text of each column as bytes, or null. */
export type RawRow = readonly (Buffer | null)[];

/** Opens connections to PostgreSQL. Nothing else does. */
export const openPostgres = (
  url: string,
  options: postgres.Options<Record<string, postgres.PostgresType>>,
): postgres.Sql => postgres(url, options);

/** A statement that was passed to the driver. */
export interface Query extends PromiseLike<RawRow[]> {
  /** Whether PostgreSQL runs it now, and not an earlier one. */
  readonly active: boolean;
  /** The connection's process and secret, once the statement was sent. */
  readonly state: object | null;
  /** Removes a statement that was not sent from the driver's queue, and rejects it. */
  readonly cancel: () => unknown;
}

/**
 * Passes a statement to the driver. Disables the driver's own retry of stale prepared statements, which can deliver results to
 * the wrong query; see `isStalePrepared`.
 */
export function sendStatement(sql: postgres.Sql, { text, values }: Statement, prepare: boolean): Query {
  // The type declarations lack these options. Without `simple: false`, a statement without values could not be prepared.
  // `onexecute` runs when a pipelined statement was written. It clears `prepared`, without which the driver does not retry.
  const options: object = { prepare, simple: false, onexecute: () => !(query.prepared = false) };
  const query = sql.unsafe(text, values as string[], options).raw() as unknown as Query & {
    prepared: boolean;
  };
  return query;
}

/**
 * Sends PostgreSQL's request to cancel what the connection of a statement is running. Resolves when the request is over: before
 * that it could hit the next statement. The driver's own `cancel` discards this promise.
 */
export function cancelOnServer(query: Query): Promise<unknown> {
  const { canceller } = query as unknown as { canceller?: (query: Query) => Promise<unknown> };
  return canceller ? canceller(query) : Promise.resolve();
}

/** Milliseconds after which a request to cancel counts as lost, and its connection is ended. */
export const CANCEL_TIMEOUT = 5_000;

/** The 503 for a statement whose connection has ended. */
export const connectionLost = (): Problem => unavailable(UNAVAILABLE);

/** Creates a driver client with one connection, which is opened by the first statement. */
export type OpenClient = (onEnd: () => void) => postgres.Sql;

/**
 * Whether the server has answered. The driver loses a statement that it gets while its connection ends: the statement is never
 * answered, or it resolves without rows after the next connect.
 */
export const isAnswer = (rows: RawRow[]): boolean =>
  typeof (rows as { readonly command?: unknown }).command === 'string';

/** A connection for one stream or transaction, whose statements run one after the other. */
export interface DedicatedConnection {
  /**
   * Runs a statement. It rejects when the connection ends.
   * @param timeout milliseconds after which the statement is canceled and the connection ends
   * @throws Problem 503
   */
  readonly run: <T>(start: (sql: postgres.Sql) => PromiseLike<T>, timeout?: number) => Promise<T>;
  /** Cancels the running statement on the server and ends the connection; `run` then rejects with the reason. */
  readonly abort: (reason: Error) => void;
  /** @param timeout seconds after which the connection is closed even if a statement is running */
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
  const sql = open(() => lose(connectionLost()));

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
        stopWaiting = () => reject(lost ?? connectionLost());
        // The driver would open a new connection, which lacks the transaction of the old one.
        if (lost) return stopWaiting();
        const timer = timeout === undefined ? undefined : setTimeout(abort, timeout, connectionLost());
        const query = start(sql);
        running = query as unknown as Query;
        void Promise.resolve(query)
          .then(resolve, reject)
          .finally(() => {
            // The next statement may have begun already.
            if (running === (query as unknown as Query)) running = undefined;
            clearTimeout(timer);
          });
      }),
    abort,
    end: (timeout) => sql.end({ timeout: lost ? 0 : timeout }),
  };
}

/**
 * Drops leading holes. The driver does not reset its row index when an error ends a statement after its first rows, so the rows
 * of the next statement start at a later index.
 */
export const withoutGaps = (rows: RawRow[]): RawRow[] =>
  rows.length > 0 && rows[0] === undefined ? rows.filter(Boolean) : rows;

/** PostgreSQL functions that report a stale prepared statement. Some of them report other errors as well. */
const STALE = new Set(['FetchPreparedStatement', 'RevalidateCachedQuery', 'transformAssignedExpr']);

/** Whether PostgreSQL may have refused a prepared statement because its tables have changed since. */
export const isStalePrepared = (error: Error): boolean =>
  STALE.has(String((error as { readonly routine?: unknown }).routine));
