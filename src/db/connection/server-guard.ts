// Checks that the server behind a connection has reached a state, before an answer from it counts.
import type postgres from 'postgres';
import type { BoundSql } from '../fragment.ts';
import type { RawRow } from '../rows.ts';
import { sendStatement, withoutGaps } from './driver.ts';

/** What a server has replayed: all changes up to a position of the write-ahead log. A failover starts a new timeline. */
export interface Reached {
  readonly timeline: number;
  readonly position: bigint;
}

/** Whether a server that has reached a state also has the required one. Positions of two timelines do not compare. */
export const hasReached = (reached: Reached | undefined, required: Reached): boolean =>
  reached?.timeline === required.timeline && reached.position >= required.position;

export interface ServerGuard {
  /** What a server must have reached to answer the statements that are sent now. */
  readonly required: () => Reached;
  /** Asks a server what it has reached. */
  readonly question: () => BoundSql;
  /** @returns undefined if the server must not answer, such as one of another system */
  readonly readAnswer: (rows: readonly RawRow[]) => Reached | undefined;
}

/** The server behind a connection has not reached the required state, or is not the right one. */
export class WrongServer extends Error {
  constructor() {
    super('the server behind the connection lacks changes that it must have');
  }
}

/** A connection, and what its server had reached when it was asked last. Its server stays the same until it is closed. */
interface GuardedConnection {
  readonly sql: postgres.Sql;
  reached: Reached | undefined;
}

/**
 * Begins a statement: asks the server first if it is not known to be far enough. Its answer comes before that of the statement,
 * whose snapshot is later. The statement could not ask itself, because its snapshot is older than what its functions return.
 * @returns what the server must have reached when the statement is answered
 */
export function beginGuarded(connection: GuardedConnection, guard: ServerGuard): Reached {
  const required = guard.required();
  if (!hasReached(connection.reached, required))
    // Without a promise in between, this runs before what waits for the statement, even if both answers come at once.
    sendStatement(connection.sql, guard.question(), true).then(
      (rows) => (connection.reached = guard.readAnswer(withoutGaps(rows))),
      () => undefined, // The statement behind it fails, too, or counts as answered by a wrong server.
    );
  return required;
}

/** @throws WrongServer */
export async function assertReached(sql: postgres.Sql, guard: ServerGuard): Promise<void> {
  const required = guard.required();
  const rows = await sendStatement(sql, guard.question(), true);
  if (!hasReached(guard.readAnswer(withoutGaps(rows)), required)) throw new WrongServer();
}
