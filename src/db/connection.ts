import postgres from 'postgres';
import type { Statement } from './fragment.ts';
import { Lane, type RawRow } from './lane.ts';

export type { RawRow };

/**
 * `quick` statements are certain to be short (by key, a first page) and are pipelined over one connection, which is
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

/** Milliseconds after which PostgreSQL itself ends a statement, and one that waits for a lock. */
const STATEMENT_TIMEOUT = 10_000;
const LOCK_TIMEOUT = 5_000;
/** Milliseconds after which a statement without an answer is given up: PostgreSQL would have ended it. */
const DEADLINE = 15_000;
/** Prepared statements are never evicted and cost the server memory on each connection. */
const MOST_PREPARED = 200;

const OPTIONS: postgres.Options<Record<string, never>> = {
  max: 1,
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
};

/** Opens the two lanes; no connection is made before the first statement. */
export function openDatabase(url: string): Database {
  const open = (): postgres.Sql => postgres(url, OPTIONS);
  const lanes: Record<LaneName, Lane> = {
    quick: new Lane({ open, connections: 1, depth: 1000, mostPending: 4000, deadline: DEADLINE }),
    work: new Lane({ open, connections: 8, depth: 1, mostPending: 1000, deadline: DEADLINE }),
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
      const sql = postgres(url, OPTIONS);
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
