import postgres from 'postgres';
import { unavailable } from '../errors.ts';
import type { Statement } from './fragment.ts';

/** One row as it came off the wire: a column's text as bytes, or null. */
export type RawRow = readonly (Buffer | null)[];

/**
 * `quick` statements are certain to be short (by key, a first page) and are pipelined over few connections, which is
 * fastest; `work` may be slow or wait for a lock, so each has a connection to itself and never holds up the others.
 */
export type LaneName = 'quick' | 'work';

export interface Database {
  readonly run: (statement: Statement, lane: LaneName) => Promise<RawRow[]>;
  /** Runs statements of the program's own, one after the other, in one transaction. */
  readonly transaction: <T>(
    work: (run: (text: string, values?: readonly string[]) => Promise<RawRow[]>) => Promise<T>,
  ) => Promise<T>;
  readonly close: () => Promise<void>;
}

const CONNECTIONS: Record<LaneName, number> = { quick: 1, work: 8 };
/** How many statements may wait or run at once, so that overload is answered and not queued without end. */
const MOST_PENDING: Record<LaneName, number> = { quick: 4000, work: 1000 };
/** Milliseconds after which PostgreSQL itself ends a statement, and one that waits for a lock. */
const STATEMENT_TIMEOUT = 10_000;
const LOCK_TIMEOUT = 5_000;
/** Milliseconds after which we stop waiting for an answer, queueing included; a dead network gives none at all. */
const DEADLINE = 15_000;
/** Prepared statements are never evicted and cost the server memory on each connection. */
const MOST_PREPARED = 200;

/** An option of postgres.js that its type declarations leave out. */
const NO_PIPELINE = { max_pipeline: 0 } as object;

interface Pending {
  readonly deadline: number;
  /** Whether a connection works on it, so that it does not just wait for its turn. */
  readonly isActive: () => boolean;
  readonly expire: () => void;
}

const options = (connections: number): postgres.Options<Record<string, never>> => ({
  max: connections,
  fetch_types: false,
  connect_timeout: 5,
  // The default waits up to 20 s between two tries; a database that is back should be used at once.
  backoff: () => 0.25,
  onnotice: () => undefined,
  connection: {
    application_name: 'vitrine',
    // What `::text` makes of dates and times depends on these two.
    TimeZone: 'UTC',
    DateStyle: 'ISO, YMD',
    statement_timeout: STATEMENT_TIMEOUT,
    lock_timeout: LOCK_TIMEOUT,
  },
});

/** A pool of connections for statements of one kind, and what is under way on it. */
class Lane {
  readonly #open: () => postgres.Sql;
  readonly #mostPending: number;
  readonly #pending = new Set<Pending>();
  #sql: postgres.Sql;

  constructor(open: () => postgres.Sql, mostPending: number) {
    this.#open = open;
    this.#mostPending = mostPending;
    this.#sql = open();
  }

  run({ text, values }: Statement, prepare: boolean): Promise<RawRow[]> {
    if (this.#pending.size >= this.#mostPending) {
      return Promise.reject(unavailable('The service is overloaded. Try again.'));
    }
    return new Promise((resolve, reject) => {
      const query = this.#sql.unsafe(text, values as string[], { prepare }).raw();
      const entry: Pending = {
        deadline: Date.now() + DEADLINE,
        isActive: () => (query as unknown as { active: boolean }).active,
        expire: () => reject(unavailable('The database took too long. Try again.')),
      };
      this.#pending.add(entry);
      query.then(
        (rows) => {
          this.#pending.delete(entry);
          resolve(rows);
        },
        (error: unknown) => {
          this.#pending.delete(entry);
          reject(error instanceof Error ? error : new Error(String(error)));
        },
      );
    });
  }

  /**
   * Gives up what has waited too long. PostgreSQL itself ends a statement sooner: where one has no answer by then, its
   * connection is dead, so new ones are made, and those there are may finish what they still can.
   */
  sweep(now: number): void {
    let isDead = false;
    for (const entry of this.#pending) {
      if (entry.deadline > now) break; // a Set keeps the order of insertion, so the oldest comes first
      isDead ||= entry.isActive();
      entry.expire();
      this.#pending.delete(entry);
    }
    if (!isDead) return;
    const old = this.#sql;
    this.#sql = this.#open();
    void old.end({ timeout: STATEMENT_TIMEOUT / 1000 });
  }

  close(): Promise<void> {
    return this.#sql.end({ timeout: 1 });
  }
}

/** Opens the two lanes; no connection is made before the first statement. */
export function openDatabase(url: string): Database {
  const lanes: Record<LaneName, Lane> = {
    quick: new Lane(() => postgres(url, options(CONNECTIONS.quick)), MOST_PENDING.quick),
    work: new Lane(() => postgres(url, { ...options(CONNECTIONS.work), ...NO_PIPELINE }), MOST_PENDING.work),
  };
  const prepared = new Set<string>();
  const sweep = setInterval(() => {
    const now = Date.now();
    lanes.quick.sweep(now);
    lanes.work.sweep(now);
  }, 1000).unref();

  function isPrepared({ text, fixed }: Statement): boolean {
    if (fixed || prepared.has(text)) return true;
    if (prepared.size >= MOST_PREPARED) return false;
    prepared.add(text);
    return true;
  }

  return {
    run: (statement, lane) => lanes[lane].run(statement, isPrepared(statement)),
    transaction: async (work) => {
      // A connection of its own: a lane that does not pipeline cannot hold a transaction.
      const sql = postgres(url, options(1));
      try {
        return (await sql.begin(async (transaction) => {
          // Schema changes on large tables take their time.
          await transaction.unsafe('set local statement_timeout = 0; set local lock_timeout = 0');
          return work(
            async (query, values = []) =>
              await transaction.unsafe(query, values as string[], { prepare: false }).raw(),
          );
        })) as never;
      } finally {
        await sql.end({ timeout: 5 });
      }
    },
    close: async () => {
      clearInterval(sweep);
      await Promise.all([lanes.quick.close(), lanes.work.close()]);
    },
  };
}

/** The text of a column, or null. */
export const text = (cell: Buffer | null | undefined): string | null => (cell ? cell.toString() : null);
