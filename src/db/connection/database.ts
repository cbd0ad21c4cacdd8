import { isIP } from 'node:net';
import { checkServerIdentity, type PeerCertificate } from 'node:tls';
import postgres from 'postgres';
import { createCursors } from './cursors.ts';
import type { OpenClient, RawRow } from './driver.ts';
import type { Statement } from '../fragment.ts';
import type { PoolState } from './pool.ts';
import { SERVICE, type Requester } from '../scheduling/requester.ts';
import { Runner, type RunOptions, type StatementKind } from './runner.ts';
import type { ClassState } from '../scheduling/class-queues.ts';
import type { WorkClass } from '../scheduling/work-class.ts';
import { createTransactions, type RunInTransaction, type TransactionLimits } from './transactions.ts';

export type { RawRow };

export interface Database {
  /** The same database on behalf of a client: its statements take turns with those of others, and end when it leaves. */
  readonly for: (requester: Requester) => Database;
  /**
   * @throws Problem 503 or 429 when the statement would wait too long; CostlyStatement; ClientGone when the client leaves; the
   * errors of PostgreSQL
   */
  readonly run: (statement: Statement, kind: StatementKind, options?: RunOptions) => Promise<RawRow[]>;
  /** Runs statements one after the other in one transaction; an error rolls it back. */
  readonly transaction: <T>(
    work: (run: RunInTransaction) => Promise<T>,
    limits: TransactionLimits,
  ) => Promise<T>;
  /**
   * The rows of a statement in batches, so that any number of them needs little memory.
   * @param maxRows in a batch; fewer where they are long
   * @throws Problem 429 when the client reads another stream, 503 when too many are running
   */
  readonly cursor: (statement: Statement, maxRows: number) => AsyncGenerator<RawRow[], void>;
  /** What the pools do and have done. */
  readonly pools: () => Readonly<Record<'quick' | 'work', PoolState>>;
  /** What the classes of statements with exclusive connections do and have done. */
  readonly classes: () => Readonly<Record<WorkClass, ClassState>>;
  readonly close: () => Promise<void>;
}

/** Milliseconds after which PostgreSQL itself ends a statement, and one that waits for a lock. */
const STATEMENT_TIMEOUT = 10_000;
const LOCK_TIMEOUT = 5_000;

const OPTIONS: postgres.Options<Record<string, never>> = {
  max: 1,
  fetch_types: false,
  connect_timeout: 5,
  // The default ends healthy connections after half an hour, and with them streams and long schema changes.
  max_lifetime: null,
  // The default waits up to 20 s between two tries; a database that is back should be used at once.
  backoff: () => 0.25,
  onnotice: () => undefined,
  connection: {
    application_name: 'vitrine',
    // The text of dates and times depends on these two.
    TimeZone: 'UTC',
    DateStyle: 'ISO, YMD',
    // String literals in our own SQL rely on it.
    standard_conforming_strings: 'on',
    statement_timeout: STATEMENT_TIMEOUT,
    lock_timeout: LOCK_TIMEOUT,
  },
};

/**
 * TLS strictness for an address that is an IP number and not a name: the driver would let Node compare the certificate with
 * `localhost`.
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

/**
 * Whether statements may be sent before the answers to earlier ones. The driver sends a new statement with values in two steps.
 * A transaction pooler may give the connection away between them, so an address with `prepare=false` is not pipelined.
 */
const mayPipeline = (url: string): boolean =>
  !['false', 'disable'].includes(new URL(url).searchParams.get('prepare') ?? '');

/** What the databases of all requesters share. */
interface Shared {
  readonly runner: Runner;
  readonly transaction: ReturnType<typeof createTransactions>;
  readonly cursor: ReturnType<typeof createCursors>;
}

/** The database on behalf of one requester. */
class RequesterDatabase implements Database {
  readonly #shared: Shared;
  readonly #requester: Requester;

  constructor(shared: Shared, requester: Requester) {
    this.#shared = shared;
    this.#requester = requester;
  }

  for(requester: Requester): Database {
    return new RequesterDatabase(this.#shared, requester);
  }

  run(statement: Statement, kind: StatementKind, options?: RunOptions): Promise<RawRow[]> {
    return this.#shared.runner.run(statement, kind, this.#requester, options);
  }

  transaction<T>(work: (run: RunInTransaction) => Promise<T>, limits: TransactionLimits): Promise<T> {
    return this.#shared.transaction(work, limits, this.#requester);
  }

  cursor(statement: Statement, maxRows: number): AsyncGenerator<RawRow[], void> {
    return this.#shared.cursor(statement, maxRows, this.#requester);
  }

  pools(): ReturnType<Database['pools']> {
    return this.#shared.runner.pools;
  }

  classes(): ReturnType<Database['classes']> {
    return this.#shared.runner.classes;
  }

  close(): Promise<void> {
    return this.#shared.runner.close();
  }
}

/**
 * Opens the database for the service itself; no connection is made before the first statement.
 * @param slowTimeout milliseconds after which a read of an anonymous client is canceled, and the first batch of its stream
 */
export function openDatabase(url: string, slowTimeout = 3_000): Database {
  const options = { ...OPTIONS, ...strictness(url) };
  const open: OpenClient = (onclose) => postgres(url, { ...options, onclose });
  const shared: Shared = {
    runner: new Runner({ open, isPipelined: mayPipeline(url), slowTimeout }),
    transaction: createTransactions(url, options),
    cursor: createCursors(open, slowTimeout),
  };
  return new RequesterDatabase(shared, SERVICE);
}

/** The text of a column, or null. */
export const text = (cell: Buffer | null | undefined): string | null => (cell ? cell.toString() : null);
