// The connection to the database: the interface that all other code uses to run SQL.
import type postgres from 'postgres';
import { Cursors } from './cursors.ts';
import {
  openDedicated,
  openPostgres,
  supportsPipelining,
  type DedicatedConnection,
  type OpenClient,
} from './driver.ts';
import type { DIRECT_SETTINGS, SESSION_SETTINGS } from '../../setting-values.ts';
import type { BoundSql } from '../fragment.ts';
import { type Statement } from '../rows.ts';
import { identitySql, SESSION, type Identity } from '../session-state.ts';
import { SERVICE, type Requester } from '../lanes/requester.ts';
import type { RunOptions, StatementKind } from '../statement-kinds.ts';
import { Runner, PIPELINED_TIMEOUT, type LaneName, type RunnerState } from './runner.ts';
import type { LaneState } from '../lanes/lane.ts';
import type { ServerGuard } from './server-guard.ts';
import {
  createTransactions,
  type Transaction,
  type TransactionLimits,
  type Transactions,
} from './transactions.ts';

/** The counters of the lanes, and of the streams. */
export type Lanes = Readonly<Record<LaneName, RunnerState>> & { readonly streams: LaneState };

export interface Database {
  /** The same database on behalf of a client: its statements are scheduled as its own, and end when it disconnects. */
  readonly for: (requester: Requester) => Database;
  /**
   * @throws Problem 503 or 429 when the statement would wait too long; CostlyStatement; ClientGone when the client disconnects;
   * the errors of PostgreSQL
   */
  readonly run: <T>(statement: Statement<T>, kind: StatementKind, options?: RunOptions) => Promise<T>;
  /** Runs statements one after the other in one transaction; an error rolls it back. */
  readonly transaction: <T>(
    work: (transaction: Transaction) => Promise<T>,
    limits: TransactionLimits,
  ) => Promise<T>;
  /**
   * The rows of a statement in batches, each decoded by itself, so that a result of any size needs little memory.
   * @param maxRows maximum rows of a batch; it has fewer if they are long
   * @throws Problem 429 when the client reads another stream, 503 when too many are running
   */
  readonly cursor: <T>(statement: Statement<T>, maxRows: number) => AsyncGenerator<T, void>;
  /** The counters of the lanes. */
  readonly lanes: () => Lanes;
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
  // With the driver's own limit, streams and long schema changes would end, too. See `MAX_LIFETIME` for the pools.
  max_lifetime: null,
  // Reconnect quickly: by default, up to 20 s pass between two tries.
  backoff: () => 0.25,
  connection: {
    application_name: 'vitrine',
    ...SESSION,
    statement_timeout: STATEMENT_TIMEOUT,
    lock_timeout: LOCK_TIMEOUT,
  } satisfies Record<(typeof SESSION_SETTINGS)[number] | 'application_name', string | number>,
};

/**
 * Settings of connections without a pooler, which would refuse them. Without parallel workers, a costly query uses one processor
 * only. PostgreSQL cannot cancel a compilation (JIT). An error that names the parameters of its statement looks like one of a
 * function.
 */
const DIRECT = {
  max_parallel_workers_per_gather: '0',
  jit: 'off',
  log_parameter_max_length_on_error: '0',
} satisfies Record<(typeof DIRECT_SETTINGS)[number], string>;

/** The parts that the databases of all requesters share. */
interface Shared {
  readonly runner: Runner;
  readonly transactions: Transactions;
  readonly cursors: Cursors;
}

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

  async run<T>(statement: Statement<T>, kind: StatementKind, options?: RunOptions): Promise<T> {
    return statement.decode(await this.#shared.runner.run(statement, kind, this.#requester, options));
  }

  transaction<T>(work: (transaction: Transaction) => Promise<T>, limits: TransactionLimits): Promise<T> {
    return this.#shared.transactions.run(work, limits, this.#requester);
  }

  cursor<T>(statement: Statement<T>, maxRows: number): AsyncGenerator<T, void> {
    return this.#shared.cursors.read(statement, maxRows, this.#requester);
  }

  lanes(): Lanes {
    const { runner, cursors } = this.#shared;
    return { ...runner.state, streams: cursors.state };
  }

  async close(): Promise<void> {
    await Promise.all([this.#shared.transactions.close(), this.#shared.runner.close()]);
  }
}

/**
 * The database on behalf of the service itself. The first statement opens the first connection.
 * @param slowTimeout milliseconds after which an anonymous client's read, or the first batch of its stream, is canceled
 * @param guard for a replica: what its server must have reached
 */
export function openDatabase(url: string, slowTimeout = 3_000, guard?: ServerGuard): Database {
  const isPipelined = supportsPipelining(url);
  const connection = { ...OPTIONS.connection, ...(isPipelined ? DIRECT : {}) };
  const openWith =
    (statement_timeout: number): OpenClient =>
    (onclose) =>
      openPostgres(url, { ...OPTIONS, connection: { ...connection, statement_timeout }, onclose });
  const open = openWith(STATEMENT_TIMEOUT);
  const openKeys = openWith(PIPELINED_TIMEOUT.keys);
  const openFilters = openWith(PIPELINED_TIMEOUT.filters);
  const shared: Shared = {
    runner: new Runner({ open, openKeys, openFilters, isPipelined, slowTimeout, guard }),
    transactions: createTransactions(open, isPipelined),
    cursors: new Cursors({ open, slowTimeout, guard }),
  };
  return new RequesterDatabase(shared, SERVICE);
}

/** A connection outside of the pools, for statements that must not wait behind others. */
export const openConnection = (url: string): DedicatedConnection =>
  openDedicated((onclose) => openPostgres(url, { ...OPTIONS, onclose }));

/** The same database for statements that PostgreSQL runs with an identity. */
export function withIdentity(database: Database, identity: Identity): Database {
  const set = identitySql(identity);
  const withSet = <T extends BoundSql>(statement: T): T => ({
    ...statement,
    preamble: statement.preamble === undefined ? set : `${set}; ${statement.preamble}`,
  });
  return {
    for: (requester) => withIdentity(database.for(requester), identity),
    run: (statement, kind, options) => database.run(withSet(statement), kind, options),
    transaction: (work, limits) =>
      database.transaction(async (transaction) => {
        await transaction.send(set);
        return work(transaction);
      }, limits),
    cursor: (statement, maxRows) => database.cursor(withSet(statement), maxRows),
    lanes: () => database.lanes(),
    close: () => database.close(),
  };
}
