// What the driver does otherwise than statements that follow each other on one connection need.
import type postgres from 'postgres';
import { unavailable, type Problem } from '../errors.ts';
import type { Statement } from './fragment.ts';
import { AWAY } from './sqlstate.ts';

/** One row as it came off the wire: a column's text as bytes, or null. */
export type RawRow = readonly (Buffer | null)[];

/** A statement that was given to the driver. */
export interface Query extends PromiseLike<RawRow[]> {
  /** Whether the connection works on it, so that it does not just stand behind another one. */
  readonly active: boolean;
  /** The connection's, once it has gone to the server. */
  readonly state: object | null;
  /** Takes one that has not been sent out of the driver's own queue, and rejects it. */
  readonly cancel: () => unknown;
}

/**
 * Gives a statement to the driver. It is kept from running by itself anew what the server no longer takes as it was prepared:
 * it would do so in steps, between which the answers of statements that were sent meanwhile go to those that did not ask for
 * them. See `isOutdated`.
 */
export function send(sql: postgres.Sql, { text, values }: Statement, prepare: boolean): Query {
  // What the type declarations leave out: without values the driver would use the protocol that cannot prepare; and it tells when
  // it has written a statement behind which more may be sent, and need not know any more that this one was prepared.
  const options: object = { prepare, simple: false, onexecute: () => !(query.prepared = false) };
  const query = sql.unsafe(text, values as string[], options).raw() as unknown as Query & {
    prepared: boolean;
  };
  return query;
}

/** What is told where a connection has ended. */
export const outOfReach = (): Problem => unavailable(AWAY);

/** Opens a client of one connection, which is made with the first statement. */
export type OpenClient = (onEnd: () => void) => postgres.Sql;

/**
 * Whether the server has answered. A statement that comes in the moment in which a connection ends is left behind by the driver:
 * it is never answered, or, as soon as the client is connected anew, with no rows at all.
 */
export const isAnswer = (rows: RawRow[]): boolean =>
  typeof (rows as { readonly command?: unknown }).command === 'string';

/** A connection of its own, for statements of which each waits for the one before. */
export interface Line {
  /**
   * Gives a statement to the driver, and waits for its answer no longer than there is a connection.
   * @param deadline milliseconds after which the wait is over, too
   * @throws Problem 503
   */
  readonly run: <T>(start: (sql: postgres.Sql) => PromiseLike<T>, deadline?: number) => Promise<T>;
  /** @param patience seconds in which it may end by itself */
  readonly end: (patience: number) => Promise<void>;
}

export function openLine(open: OpenClient): Line {
  let isLost = false;
  let giveUp: (() => void) | undefined;
  const sql = open(() => {
    isLost = true;
    giveUp?.();
  });
  return {
    run: (start, deadline) =>
      new Promise((resolve, reject) => {
        giveUp = () => reject(outOfReach());
        // A new connection would know nothing of what came before.
        if (isLost) return giveUp();
        const timer = deadline === undefined ? undefined : setTimeout(giveUp, deadline);
        void Promise.resolve(start(sql))
          .then(resolve, reject)
          .finally(() => clearTimeout(timer));
      }),
    end: (patience) => sql.end({ timeout: isLost ? 0 : patience }),
  };
}

/**
 * The driver counts rows where they come in, and does not begin anew when an error ends a statement whose first rows were
 * there: those of the next statement on the connection then stand further back, behind places without any.
 */
export const withoutGaps = (rows: RawRow[]): RawRow[] =>
  rows.length > 0 && rows[0] === undefined ? rows.filter(Boolean) : rows;

/** The functions of PostgreSQL that say so, though some of them say other things as well. */
const OUTDATED = new Set(['FetchPreparedStatement', 'RevalidateCachedQuery', 'transformAssignedExpr']);

/** Whether the server may not have taken a statement because it was prepared for tables that were other ones then. */
export const isOutdated = (error: Error): boolean =>
  OUTDATED.has(String((error as { readonly routine?: unknown }).routine));
