// The connection to the database: the interface that all other code uses to run SQL.
import { isIP } from 'node:net';
import { checkServerIdentity, type PeerCertificate } from 'node:tls';
import type postgres from 'postgres';
import { createCursors } from './cursors.ts';
import { openPostgres, type OpenClient, type RawRow } from './driver.ts';
import type { Statement } from '../fragment.ts';
import type { PoolState } from './pool.ts';
import { SERVICE, type Requester } from '../scheduling/requester.ts';
import { Runner, type RunOptions, type StatementKind } from './runner.ts';
import type { ClassState } from '../scheduling/class-queues.ts';
import type { WorkClass } from '../scheduling/work-class.ts';
import { createTransactions, type RunInTransaction, type TransactionLimits } from './transactions.ts';

export type { RawRow };

export interface Database {
  /** The same database on behalf of a client: its statements are scheduled as its own, and end when it disconnects. */
  readonly for: (requester: Requester) => Database;
  /**
   * @throws Problem 503 or 429 when the statement would wait too long; CostlyStatement; ClientGone when the client disconnects;
   * the errors of PostgreSQL
   */
  readonly run: (statement: Statement, kind: StatementKind, options?: RunOptions) => Promise<RawRow[]>;
  /** Runs statements one after the other in one transaction; an error rolls it back. */
  readonly transaction: <T>(
    work: (run: RunInTransaction) => Promise<T>,
    limits: TransactionLimits,
  ) => Promise<T>;
  /**
   * The rows of a statement in batches, so that a result of any size needs little memory.
   * @param maxRows maximum rows of a batch; it has fewer if they are long
   * @throws Problem 429 when the client reads another stream, 503 when too many are running
   */
  readonly cursor: (statement: Statement, maxRows: number) => AsyncGenerator<RawRow[], void>;
  /** The counters of the pools. */
  readonly pools: () => Readonly<Record<'quick' | 'work', PoolState>>;
  /** The counters of the work classes, whose statements use exclusive connections. */
  readonly classes: () => Readonly<Record<WorkClass, ClassState>>;
  readonly close: () => Promise<void>;
}

/** Milliseconds after which PostgreSQL itself ends a statement. */
const STATEMENT_TIMEOUT = 10_000;
/** Milliseconds that a statement may wait for a lock. */
const LOCK_TIMEOUT = 5_000;

const OPTIONS: postgres.Options<Record<string, never>> = {
  max: 1,
  fetch_types: false,
  connect_timeout: 5,
  // By default, connections end after half an hour, and with them streams and long schema changes.
  max_lifetime: null,
  // Reconnect quickly: by default, up to 20 s pass between two tries.
  backoff: () => 0.25,
  onnotice: () => undefined,
  connection: {
    application_name: 'vitrine',
    // These two determine the text of dates and times.
    TimeZone: 'UTC',
    DateStyle: 'ISO, YMD',
    // String literals in the generated SQL rely on it.
    standard_conforming_strings: 'on',
    statement_timeout: STATEMENT_TIMEOUT,
    lock_timeout: LOCK_TIMEOUT,
  },
};

/**
 * Checks the certificate of a server given by IP address, if `sslmode` asks for it. The driver would let Node compare the
 * certificate with `localhost`.
 */
function certificateCheck(url: string): Pick<postgres.Options<Record<string, never>>, 'ssl'> {
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

/**
 * Whether statements may be sent before the answers to earlier ones. Not behind a transaction pooler (`prepare=false`): the driver
 * sends a new statement with values in two steps, and the pooler may give the connection to another client between them.
 */
const mayPipeline = (url: string): boolean =>
  !['false', 'disable'].includes(new URL(url).searchParams.get('prepare') ?? '');

/**
 * The database on behalf of the service itself. The first statement opens the first connection.
 * @param slowTimeout milliseconds after which an anonymous client's read, or the first batch of its stream, is canceled
 */
export function openDatabase(url: string, slowTimeout = 3_000): Database {
  const options = { ...OPTIONS, ...certificateCheck(url) };
  const open: OpenClient = (onclose) => openPostgres(url, { ...options, onclose });
  const runner = new Runner({ open, isPipelined: mayPipeline(url), slowTimeout });
  const transaction = createTransactions(url, options);
  const cursor = createCursors(open, slowTimeout);
  const forRequester = (requester: Requester): Database => ({
    for: forRequester,
    run: (statement, kind, runOptions) => runner.run(statement, kind, requester, runOptions),
    transaction: (work, limits) => transaction(work, limits, requester),
    cursor: (statement, maxRows) => cursor(statement, maxRows, requester),
    pools: () => runner.pools,
    classes: () => runner.classes,
    close: () => runner.close(),
  });
  return forRequester(SERVICE);
}

/** The text of a column, or null. */
export const text = (cell: Buffer | null | undefined): string | null => (cell ? cell.toString() : null);
