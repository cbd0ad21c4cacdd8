// The connection to the database: the interface that all other code uses to run SQL.
import type postgres from 'postgres';
import { BRIEF_TIMEOUT } from './brief-reads.ts';
import { createCursors, createStreamCooldowns } from './cursors.ts';
import {
  openDedicated,
  openPostgres,
  supportsPipelining,
  type DedicatedConnection,
  type OpenClient,
} from './driver.ts';
import type { DIRECT_SETTINGS, SESSION_SETTINGS } from '../../setting-values.ts';
import { type Statement } from '../rows.ts';
import type { PoolState } from './pool-job.ts';
import { SESSION } from '../session-state.ts';
import { SERVICE, type Requester } from '../scheduling/requester.ts';
import type { RunOptions, StatementKind } from '../statement-kinds.ts';
import { Runner, type PoolName } from './runner.ts';
import type { ClassState, DatabaseLimits } from '../scheduling/class-queues.ts';
import { SlowClients } from '../scheduling/slow-clients.ts';
import type { WorkClass } from '../scheduling/work-class.ts';
import type { ServerGuard } from './server-guard.ts';
import {
  createTransactions,
  type Transaction,
  type TransactionLimits,
  type Transactions,
} from './transactions.ts';

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
  /** The counters of the pools. */
  readonly pools: () => Readonly<Record<PoolName, PoolState>>;
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
  readonly cursor: ReturnType<typeof createCursors>;
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
    return this.#shared.cursor(statement, maxRows, this.#requester);
  }

  pools(): ReturnType<Database['pools']> {
    return this.#shared.runner.pools;
  }

  classes(): ReturnType<Database['classes']> {
    return this.#shared.runner.classes;
  }

  async close(): Promise<void> {
    await Promise.all([this.#shared.transactions.close(), this.#shared.runner.close()]);
  }
}

/** For a database whose clients have cooldowns of their own. */
export const createCooldowns = (): Pick<DatabaseLimits, 'cooldowns' | 'slowClients'> => ({
  cooldowns: createStreamCooldowns(),
  slowClients: new SlowClients(),
});

/**
 * The database on behalf of the service itself. The first statement opens the first connection.
 * @param guard for a replica: what its server must have reached
 */
export function openDatabase(
  url: string,
  limits: DatabaseLimits = { slowTimeout: 3_000, processes: 1, ...createCooldowns() },
  guard?: ServerGuard,
): Database {
  const isPipelined = supportsPipelining(url);
  const connection = { ...OPTIONS.connection, ...(isPipelined ? DIRECT : {}) };
  const brief = { ...connection, statement_timeout: BRIEF_TIMEOUT };
  const open: OpenClient = (onclose) => openPostgres(url, { ...OPTIONS, connection, onclose });
  const openBrief: OpenClient = (onclose) => openPostgres(url, { ...OPTIONS, connection: brief, onclose });
  const runner = new Runner({ open, openBrief, isPipelined, limits, guard });
  const shared: Shared = {
    runner,
    transactions: createTransactions(open, runner.endless, isPipelined),
    cursor: createCursors({ open, limits, presence: runner.presence, endless: runner.endless, guard }),
  };
  return new RequesterDatabase(shared, SERVICE);
}

/** A connection outside of the pools, for statements that must not wait behind others. */
export const openConnection = (url: string): DedicatedConnection =>
  openDedicated((onclose) => openPostgres(url, { ...OPTIONS, onclose }));
