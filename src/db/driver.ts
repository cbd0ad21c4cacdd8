// What the driver does otherwise than statements that follow each other on one connection need.
import type postgres from 'postgres';
import type { Statement } from './fragment.ts';

/** One row as it came off the wire: a column's text as bytes, or null. */
export type RawRow = readonly (Buffer | null)[];

/** A statement that was given to the driver. */
export interface Query extends PromiseLike<RawRow[]> {
  /** Whether the connection works on it, so that it does not just stand behind another one. */
  readonly active: boolean;
  /** The connection's, once it has gone to the server. */
  readonly state: object | null;
}

/** Options of `unsafe` that its type declarations leave out: without values it would use the protocol that cannot prepare. */
const extended = (prepare: boolean): postgres.UnsafeQueryOptions => ({ prepare, simple: false }) as object;

/**
 * Gives a statement to the driver. It is kept from running by itself anew what the server no longer takes as it was prepared:
 * it would do so in steps, between which the answers of statements that were sent meanwhile go to those that did not ask for
 * them. See `isOutdated`.
 */
export function send(sql: postgres.Sql, { text, values }: Statement, prepare: boolean): Query {
  const query = sql.unsafe(text, values as string[], extended(prepare)).raw() as unknown as Query & {
    prepared: boolean;
  };
  let state: object | null = null;
  return Object.defineProperty(query, 'state', {
    get: () => state,
    // It is set when the statement is about to be written, for which the driver has to know that it is prepared.
    set: (connection: object) => {
      state = connection;
      queueMicrotask(() => (query.prepared = false));
    },
  });
}

/**
 * The driver counts rows where they come in, and does not begin anew when an error ends a statement whose first rows were
 * there: those of the next statement on the connection then stand further back, behind places without any.
 */
export const withoutGaps = (rows: RawRow[]): RawRow[] =>
  rows.length > 0 && rows[0] === undefined ? rows.filter(Boolean) : rows;

/**
 * Whether the connection has ended, which every error tells that is no answer of the server to the statement. Its client is not
 * used again: the driver would give what the server said at last to the next statement, and could lose that altogether.
 */
export function isCut(error: Error): boolean {
  const { severity } = error as { readonly severity?: unknown };
  return severity === undefined || severity === 'FATAL' || severity === 'PANIC';
}

/** The functions of PostgreSQL that say so, though some of them say other things as well. */
const OUTDATED = new Set(['FetchPreparedStatement', 'RevalidateCachedQuery', 'transformAssignedExpr']);

/** Whether the server may not have taken a statement because it was prepared for tables that were other ones then. */
export const isOutdated = (error: Error): boolean =>
  OUTDATED.has(String((error as { readonly routine?: unknown }).routine));
