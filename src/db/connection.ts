import { isIP } from 'node:net';
import { checkServerIdentity, type PeerCertificate } from 'node:tls';
import postgres from 'postgres';
import { unavailable } from '../errors.ts';
import type { Statement } from './fragment.ts';
import { openLine, type OpenClient } from './driver.ts';
import { Lane, type LaneState, type RawRow } from './lane.ts';

export type { RawRow };

/** The rows of a statement, and the names of their columns where it has rows to give. */
export type RawRows = RawRow[] & { readonly columns?: readonly { readonly name: string }[] };

/**
 * `quick` statements are certain to be short (by key, a first page) and are pipelined over one connection where that can be,
 * which is fastest; `work` may be slow or wait for a lock, so each has a connection to itself and never holds up the others. It takes
 * the place of `quick` while that is held up.
 */
export type LaneName = 'quick' | 'work';

export interface Database {
  readonly run: (statement: Statement, lane: LaneName) => Promise<RawRow[]>;
  /**
   * Runs statements one after the other in one transaction, on a connection of its own; an error rolls it back.
   * @param patience how long it may take: see PATIENCE
   */
  readonly transaction: <T>(
    work: (run: (text: string, values?: Statement['values']) => Promise<RawRows>) => Promise<T>,
    patience: keyof typeof PATIENCE,
  ) => Promise<T>;
  /**
   * The rows of a statement, some at a time, so that any number of them needs little memory.
   * @param mostAtOnce rows; fewer where they are long
   * @param mostOpen how many cursors there may be with this one
   * @throws Problem 503 when too many are being read
   */
  readonly cursor: (
    statement: Statement,
    mostAtOnce: number,
    mostOpen?: number,
  ) => AsyncGenerator<RawRow[], void>;
  /** What the lanes do and have done. */
  readonly lanes: () => Readonly<Record<LaneName, LaneState>>;
  readonly close: () => Promise<void>;
}

/** Milliseconds after which PostgreSQL itself ends a statement, and one that waits for a lock. */
const STATEMENT_TIMEOUT = 10_000;
const LOCK_TIMEOUT = 5_000;
/** Milliseconds after which a statement without an answer is given up: PostgreSQL would have ended it. */
const DEADLINE = 15_000;
/** Prepared statements are never evicted and cost the server memory on each connection. */
const MOST_PREPARED = 200;

/**
 * What a transaction may take: changes of the schema on large tables their time, and to wait for their turn; people's changes of
 * many records a while; and what a panel of the start page asks for but a moment, and no change at all.
 */
const PATIENCE = {
  schema: 'set local statement_timeout = 0; set local lock_timeout = 0',
  people: "set local statement_timeout = '5min'; set local lock_timeout = '5s'",
  panel: "set transaction read only; set local statement_timeout = '3s'; set local lock_timeout = '1s'",
};
/** How many cursors may be open at once. */
const MOST_CURSORS = 4;
/** Bytes that a cursor reads at once, about, and the rows that it begins with while it does not know how long they are. */
const BYTES_AT_ONCE = 65_536;
const FIRST_ROWS = 10;

const OPTIONS: postgres.Options<Record<string, never>> = {
  max: 1,
  fetch_types: false,
  connect_timeout: 5,
  // The default ends connections that are well after half an hour, streams and long changes of the schema with them.
  max_lifetime: null,
  // The default waits up to 20 s between two tries; a database that is back should be used at once.
  backoff: () => 0.25,
  onnotice: () => undefined,
  connection: {
    application_name: 'vitrine',
    // What `::text` makes of dates and times depends on these two.
    TimeZone: 'UTC',
    DateStyle: 'ISO, YMD',
    // Texts in our own SQL are written with it.
    standard_conforming_strings: 'on',
    statement_timeout: STATEMENT_TIMEOUT,
    lock_timeout: LOCK_TIMEOUT,
  },
};

/**
 * How strict TLS is, where the address leaves the driver no way to be right: for a server that it names by a number, Node would
 * compare the certificate with `localhost`.
 */
function strictness(url: string): Pick<postgres.Options<Record<string, never>>, 'ssl'> {
  const { hostname, searchParams } = new URL(url);
  const host = hostname.replace(/^\[|\]$/g, '');
  if (isIP(host) === 0 || !searchParams.get('sslmode')?.startsWith('verify-')) return {};
  return {
    ssl: {
      checkServerIdentity: (_: string, certificate: PeerCertificate) =>
        checkServerIdentity(host, certificate),
    },
  };
}

/** For parameters whose type PostgreSQL infers: they stay the text that they are, which the driver would turn into other values. */
const AS_TEXT = { to: 25, from: [16, 17, 114, 1082, 1114, 1184, 3802], serialize: String, parse: String };

/** Without values the driver would use the protocol that takes several statements for one; its type declarations leave this out. */
const ONE_STATEMENT = { prepare: false, simple: false } as postgres.UnsafeQueryOptions;

/**
 * Whether statements may follow each other before there are answers. Of a statement with values the driver sends a part, and the
 * rest as soon as that is answered: a pooler that hands out connections by the transaction gives the connection away in between,
 * where the answer to another statement seems to be the last. Such a pooler is why an address says `prepare=false`.
 */
const mayPipeline = (url: string): boolean =>
  !['false', 'disable'].includes(new URL(url).searchParams.get('prepare') ?? '');

/** Opens the two lanes; no connection is made before the first statement. */
export function openDatabase(url: string): Database {
  const options = { ...OPTIONS, ...strictness(url) };
  const open: OpenClient = (onclose) => postgres(url, { ...options, onclose });
  const quick = mayPipeline(url) ? { connections: 1, depth: 1000 } : { connections: 4, depth: 1 };
  const lanes: Record<LaneName, Lane> = {
    quick: new Lane({ open, ...quick, mostPending: 4000, deadline: DEADLINE }),
    work: new Lane({ open, connections: 8, depth: 1, mostPending: 1000, deadline: DEADLINE }),
  };
  const prepared = new Set<string>();
  let cursors = 0;
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
    run: (statement, lane) => {
      // A large record, or a lock on a whole table, can make long what should be short.
      const free = lane === 'quick' && lanes.quick.isStalled ? 'work' : lane;
      return lanes[free].run(statement, isPrepared(statement));
    },
    transaction: async (work, patience) => {
      // A lane that does not pipeline cannot hold a transaction; the driver's own `begin` would send its rollback on a connection
      // that is lost, which ends the process.
      const line = openLine((onclose) => postgres(url, { ...options, types: { text: AS_TEXT }, onclose }));
      // The connection ends with the transaction, so what it has prepared does not stay.
      const run = (query: string, values: Statement['values'] = []): Promise<RawRow[]> =>
        line.run((sql) =>
          sql.unsafe(query, values as string[], { ...ONE_STATEMENT, prepare: values.length > 0 }).raw(),
        );
      try {
        await line.run((sql) => sql.unsafe(`begin; ${PATIENCE[patience]}`), DEADLINE);
        const result = await work(run);
        await run('commit');
        return result;
      } catch (error) {
        await line.run((sql) => sql.unsafe('rollback'), LOCK_TIMEOUT).catch(() => undefined);
        throw error;
      } finally {
        await line.end(5);
      }
    },
    async *cursor({ text: query, values }, mostAtOnce, mostOpen = MOST_CURSORS) {
      if (cursors >= mostOpen)
        throw unavailable('Too many streams and exports are under way. Try again.', 10);
      cursors += 1;
      const line = openLine(open);
      try {
        // One connection is all that this client has, so that nothing has to be reserved (which a client without types never gets).
        await line.run((sql) => sql.unsafe(`begin read only; ${PATIENCE.people}`), DEADLINE);
        await line.run((sql) => sql.unsafe(`declare c no scroll cursor for ${query}`, values as string[]));
        for (let count = Math.min(FIRST_ROWS, mostAtOnce); ;) {
          const rows: RawRow[] = await line.run((sql) => sql.unsafe(`fetch ${count} from c`).raw());
          if (rows.length === 0) return;
          const bytes = rows.flat().reduce((sum, cell) => sum + (cell?.length ?? 0), 1);
          count = Math.min(mostAtOnce, Math.max(1, Math.floor((rows.length * BYTES_AT_ONCE) / bytes)));
          yield rows;
        }
      } finally {
        cursors -= 1;
        await line.end(0);
      }
    },
    lanes: () => ({ quick: lanes.quick.state, work: lanes.work.state }),
    close: async () => {
      clearInterval(sweep);
      await Promise.all([lanes.quick.close(), lanes.work.close()]);
    },
  };
}

/** The text of a column, or null. */
export const text = (cell: Buffer | null | undefined): string | null => (cell ? cell.toString() : null);
