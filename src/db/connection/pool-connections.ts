// The connections of a pool: opens, replaces and closes them.
import type postgres from 'postgres';
import { CANCEL_TIMEOUT, cancelOnServer, resetSession, type OpenClient, type Query } from './driver.ts';
import type { Reached } from './server-guard.ts';

/** One connection of a pool. */
export interface Connection {
  readonly sql: postgres.Sql;
  /** Statements without an answer, requests to cancel one, and resets of the session. */
  underway: number;
  /** Whether it has answered a statement. */
  hasAnswered: boolean;
  /** When its first answer came (milliseconds of `performance.now`). */
  openedAt: number;
  /** When its last answer came (milliseconds of `performance.now`). */
  answeredAt: number;
  /** The texts of its prepared statements, except `fixed` ones, whose number is bounded. */
  readonly prepared: Set<string>;
  /** The characters of these texts. */
  preparedLength: number;
  /** See `ServerGuard`. */
  reached: Reached | undefined;
}

export interface ConnectionOptions {
  readonly open: OpenClient;
  readonly count: number;
  /** Maximum statements on a connection at once. */
  readonly depth: number;
  /** Runs when a connection may have room for a waiting statement. */
  readonly onFree: () => void;
  /** Runs when a connection has ended and was replaced. */
  readonly onLost: (connection: Connection) => void;
}

/**
 * The driver cannot forget a prepared statement, and PostgreSQL keeps a plan of each in memory, whose size grows with the text. A
 * connection that has prepared more than this, in statements or in characters, is replaced.
 */
const MAX_PREPARED = 400;
const MAX_PREPARED_LENGTH = 512 * 1024;

/** A token bucket: how often all connections may be replaced in a row, and milliseconds until one more time is allowed. */
const MAX_REPLACED = 8;
const REPLACE_PAUSE = 1_000;

/**
 * Milliseconds after which a connection is replaced. PostgreSQL's memory of a session only grows, and no state that a function of the
 * database leaves there should last.
 */
export const MAX_LIFETIME = 30 * 60_000;

/** Records that a connection prepares a statement. */
export function notePrepared(connection: Connection, text: string): void {
  const { prepared } = connection;
  const before = prepared.size;
  if (prepared.add(text).size > before) connection.preparedLength += text.length;
}

/**
 * Each connection is a postgres.js client of its own, because the queues of a client with several connections grow for as long as
 * the client is never idle.
 */
export class PoolConnections {
  readonly #options: ConnectionOptions;
  readonly #current: Connection[];
  /** Connections that were replaced and still owe answers. */
  readonly #retired = new Set<Connection>();
  #isClosed = false;
  /** The tokens that are left, and when they were counted. */
  #tokens = MAX_REPLACED;
  #tokensAt = performance.now();
  /** Replaces all when there is a token again. */
  #replacement: NodeJS.Timeout | undefined;

  constructor(options: ConnectionOptions) {
    this.#options = options;
    this.#current = Array.from({ length: options.count }, () => this.#connect());
  }

  get count(): number {
    return this.#current.length;
  }

  /** The connection with the fewest statements, or undefined if all are full. */
  free(): Connection | undefined {
    let free: Connection | undefined;
    for (const connection of this.#current) {
      if (connection.underway < (free?.underway ?? this.#options.depth)) free = connection;
    }
    return free;
  }

  /** Counts one statement less on a connection. */
  release(connection: Connection): void {
    connection.underway -= 1;
    if (connection.underway === 0) this.#end(connection);
  }

  /** Records that a connection has answered a statement. */
  markAnswered(connection: Connection): void {
    if (!connection.hasAnswered) connection.openedAt = performance.now();
    connection.hasAnswered = true;
  }

  /**
   * Puts a new connection in the place of an old one.
   * @param isDead whether the old one gives no more answers; otherwise it stays open for those that it owes
   */
  replace(old: Connection, isDead: boolean): void {
    const index = this.#current.indexOf(old);
    // After the pool is closed, a new connection would keep the process from ending.
    if (index >= 0 && !this.#isClosed) {
      this.#current[index] = this.#connect();
      this.#retired.add(old);
    }
    if (isDead) this.#end(old);
    if (index >= 0) this.#options.onFree();
  }

  isCurrent(connection: Connection): boolean {
    return this.#current.includes(connection);
  }

  /** Replaces all of them; later, if that was done often lately: on a server that stays read-only, every write asks for it. */
  replaceAll(): void {
    const now = performance.now();
    const tokens = Math.min(MAX_REPLACED, this.#tokens + (now - this.#tokensAt) / REPLACE_PAUSE);
    this.#tokens = tokens < 1 ? tokens : tokens - 1;
    this.#tokensAt = now;
    if (tokens < 1) {
      if (this.#replacement) return;
      this.#replacement = setTimeout(() => {
        this.#replacement = undefined;
        if (!this.#isClosed) this.replaceAll();
      }, REPLACE_PAUSE).unref();
      return;
    }
    for (const connection of [...this.#current]) this.replace(connection, connection.underway === 0);
  }

  /** Replaces the idle connections: when one has died silently, the others may have, too. */
  replaceIdle(): void {
    for (const connection of [...this.#current])
      if (connection.hasAnswered && connection.underway === 0) this.replace(connection, true);
  }

  replaceIfFull(connection: Connection): void {
    const { prepared, preparedLength } = connection;
    if (prepared.size > MAX_PREPARED || preparedLength > MAX_PREPARED_LENGTH)
      this.replace(connection, connection.underway === 0);
  }

  /** Replaces a connection that is past its lifetime: one at a time, so that not all open anew at once. */
  replaceOld(now: number): void {
    const old = this.#current.find(
      ({ hasAnswered, openedAt }) => hasAnswered && now - openedAt > MAX_LIFETIME,
    );
    if (old) this.replace(old, old.underway === 0);
  }

  /** Cancels what runs on a connection, and keeps the next statement away until the request to cancel is over. */
  cancel(connection: Connection, query: Query): void {
    // A request without an answer may still reach PostgreSQL, and would cancel another statement of this connection.
    const late = new Promise<never>((_, reject) => setTimeout(reject, CANCEL_TIMEOUT).unref());
    this.#hold(connection, Promise.race([cancelOnServer(query), late]));
  }

  /** Resets the session of a connection after what it is running, and keeps the next statement away until then. */
  reset(connection: Connection): void {
    this.#hold(connection, resetSession(connection.sql));
  }

  /** Keeps statements away from a connection until the work is done. It is replaced if that fails. */
  #hold(connection: Connection, work: Promise<unknown>): void {
    connection.underway += 1;
    const free = (): void => {
      this.release(connection);
      this.#options.onFree();
    };
    work.then(free, () => {
      this.replace(connection, true);
      free();
    });
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    const all = [...this.#current, ...this.#retired];
    await Promise.all(all.map(({ sql }) => sql.end({ timeout: 1 })));
  }

  #connect(): Connection {
    const connection: Connection = {
      sql: this.#options.open(() => {
        this.replace(connection, true);
        this.#options.onLost(connection);
      }),
      underway: 0,
      hasAnswered: false,
      openedAt: Infinity,
      answeredAt: -Infinity,
      prepared: new Set(),
      preparedLength: 0,
      reached: undefined,
    };
    return connection;
  }

  /** Ends a connection that was replaced. */
  #end(old: Connection): void {
    if (this.#retired.delete(old)) void old.sql.end({ timeout: 0 });
  }
}
