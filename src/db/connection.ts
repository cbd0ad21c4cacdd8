import postgres from 'postgres';
import { unavailable } from '../errors.ts';
import type { Statement } from './fragment.ts';

/** One row as it came off the wire: a column's text as bytes, or null. */
export type RawRow = readonly (Buffer | null)[];

/**
 * `quick` statements are certain to be short (by key, a first page) and are pipelined over few connections, which is
 * fastest; `work` may be slow or wait for a lock, so each has a connection to itself and never holds up the others.
 */
export type Lane = 'quick' | 'work';

export interface Database {
  /**
   * Runs one statement. `fixed` says that its text is one of few, whatever clients ask, so that it is always prepared;
   * other texts are prepared while there is room for them.
   */
  run: (statement: Statement, lane: Lane, fixed?: boolean) => Promise<RawRow[]>;
  /** Runs statements of the program's own, one after the other, in one transaction. */
  transaction: <T>(
    work: (run: (text: string, values?: readonly string[]) => Promise<RawRow[]>) => Promise<T>,
  ) => Promise<T>;
  close: () => Promise<void>;
}

const CONNECTIONS: Record<Lane, number> = { quick: 2, work: 8 };
/** How many statements may wait or run at once, so that overload is answered and not queued without end. */
const MOST_PENDING: Record<Lane, number> = { quick: 4000, work: 1000 };
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

/** Opens the two lanes; no connection is made before the first statement. */
export function openDatabase(url: string): Database {
  const lanes: Record<Lane, postgres.Sql> = {
    quick: postgres(url, options(CONNECTIONS.quick)),
    work: postgres(url, { ...options(CONNECTIONS.work), ...NO_PIPELINE }),
  };
  const pending: Record<Lane, Set<Pending>> = { quick: new Set(), work: new Set() };
  const prepared = new Set<string>();

  const sweep = setInterval(() => {
    const now = Date.now();
    for (const lane of [pending.quick, pending.work]) {
      for (const entry of lane) {
        if (entry.deadline > now) break; // a Set keeps the order of insertion, so the oldest comes first
        entry.expire();
      }
    }
  }, 1000).unref();

  function isPrepared(text: string, fixed: boolean): boolean {
    if (fixed || prepared.has(text)) return true;
    if (prepared.size >= MOST_PREPARED) return false;
    prepared.add(text);
    return true;
  }

  function run({ text, values }: Statement, lane: Lane, fixed = false): Promise<RawRow[]> {
    const waiting = pending[lane];
    if (waiting.size >= MOST_PENDING[lane])
      return Promise.reject(unavailable('The service is overloaded. Try again.'));
    return new Promise((resolve, reject) => {
      const query = lanes[lane].unsafe(text, values as string[], { prepare: isPrepared(text, fixed) }).raw();
      const entry: Pending = {
        deadline: Date.now() + DEADLINE,
        expire: () => {
          waiting.delete(entry);
          reject(unavailable('The database took too long. Try again.'));
          query.cancel();
        },
      };
      waiting.add(entry);
      query.finally(() => waiting.delete(entry)).then(resolve, reject);
    });
  }

  return {
    run,
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
      await Promise.all([lanes.quick.end({ timeout: 5 }), lanes.work.end({ timeout: 5 })]);
    },
  };
}

/** The text of a column, or null. */
export const text = (cell: Buffer | null | undefined): string | null => (cell ? cell.toString() : null);
