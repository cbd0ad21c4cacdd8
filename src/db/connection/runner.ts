// Runs each statement in a lane: short reads pipelined, all others on a connection to themselves.
import { ConnectionLost, countLosses, type OpenClient } from './driver.ts';
import { longWrite, tooLong } from './database-errors.ts';
import { cancelLate, Connections, NotSent, type Execution } from './connections.ts';
import type { ServerGuard } from './server-guard.ts';
import { Exclusions } from '../exclusions.ts';
import { Histogram } from '../histogram.ts';
import { RecentMap } from '../recent-map.ts';
import type { RawRow, SentStatement } from '../rows.ts';
import { cancelWhenGone, type Requester } from '../lanes/requester.ts';
import { CostlyStatement, type RunOptions, type StatementKind } from '../statement-kinds.ts';
import { MAX_TEXT, StatementTexts } from '../statement-texts.ts';
import { Lane, type LaneState } from '../lanes/lane.ts';
import { PipelinedReads } from './pipelined-reads.ts';
import { messageOf } from '../../messages.ts';

/** Milliseconds that a statement waits for a connection, and that a slow read does. */
const MAX_WAIT = 2_000;
const MAX_SLOW_WAIT = 10_000;

/** The lanes of statements with a connection to themselves. `large` is for writes of many bytes or records. */
const LANES = {
  read: { connections: 4, maxWait: MAX_WAIT },
  slow: { connections: 3, maxWait: MAX_SLOW_WAIT },
  write: { connections: 8, maxWait: MAX_WAIT },
  large: { connections: 2, maxWait: MAX_SLOW_WAIT },
  admin: { connections: 4, maxWait: MAX_SLOW_WAIT },
};
/** The connections for reads that share them. Behind a transaction pooler, each runs one statement at a time. */
const PIPELINED = { keys: { count: 1, depth: 1_000 }, filters: { count: 3, depth: 8 } };
const UNPIPELINED = { keys: { count: 4, depth: 1 }, filters: { count: 3, depth: 1 } };
const CONNECTIONS = Object.values(LANES).reduce((sum, { connections }) => sum + connections, 0);

/** Milliseconds after which pipelined reads end: by key or the first page, and with filters. */
export const PIPELINED_TIMEOUT = { keys: 250, filters: 50 };
/** Milliseconds after which a read in the lane `read` goes on in the lane `slow`, where it starts again. */
const READ_TIME = 300;
/** A write that takes longer than this (milliseconds), probably because of a lock, ends when others wait for its connection. */
const MAX_WRITE = 500;
/** Milliseconds after which a statement without an answer is abandoned: PostgreSQL would have ended it by then. */
const DEADLINE = 15_000;
/** Writes of more bytes of values, or of more records, use the lane `large`. */
const LARGE_BYTES = 16 * 1024;
const LARGE_ROWS = 50;

type WorkLane = keyof typeof LANES;
export type LaneName = 'keys' | 'filters' | WorkLane;

export interface RunnerOptions {
  readonly open: OpenClient;
  /** Open connections whose statements end after `PIPELINED_TIMEOUT`. */
  readonly openKeys: OpenClient;
  readonly openFilters: OpenClient;
  /** Whether statements may be sent before the answers to earlier ones. */
  readonly isPipelined: boolean;
  /** Milliseconds after which an anonymous client's read is canceled. */
  readonly slowTimeout: number;
  readonly guard?: ServerGuard | undefined;
}

/** The counters of a lane, and the seconds from sending each statement to its answer. */
export type RunnerState = LaneState & { readonly durations: Histogram };

interface Limits {
  /** Milliseconds after which the statement is canceled, with an error. */
  readonly limit?: number;
  readonly late?: Error;
  /** The record that a write locks. */
  readonly lock?: string | undefined;
  readonly isWrite?: boolean;
}

/** Why a read was canceled that goes on as a slow one. */
const OVERRUN = new Error('overrun');

export class Runner {
  readonly #keys: PipelinedReads;
  readonly #filters: PipelinedReads;
  readonly #work: Connections;
  readonly #lanes: Readonly<Record<WorkLane, Lane>>;
  readonly #durations: Readonly<Record<WorkLane, Histogram>>;
  readonly #texts = new StatementTexts();
  /** Clients whose reads were slow, and the texts of reads that were not: these go on in the lane `read`. */
  readonly #slowClients = new Exclusions<string>();
  readonly #shortTexts = new RecentMap<string, true>(200);
  readonly #options: RunnerOptions;
  readonly #sweep: NodeJS.Timeout;

  constructor(options: RunnerOptions) {
    const { open, openKeys, openFilters, isPipelined, guard } = options;
    this.#options = options;
    const all = () => [this.#keys.connections, this.#filters.connections, this.#work];
    // The server has become a standby. All reconnect, so that reads do not stay on it. A replica is always a standby.
    const onReadOnly = (): void => {
      if (!guard) all().forEach((connections) => connections.replaceAll());
    };
    const common = { deadline: DEADLINE, guard, isDirect: isPipelined, onReadOnly };
    const isPrepared = (statement: SentStatement): boolean => this.#isPrepared(statement);
    const keys = { open: openKeys, limit: PIPELINED_TIMEOUT.keys };
    const filters = { open: openFilters, limit: PIPELINED_TIMEOUT.filters };
    const shared = isPipelined ? PIPELINED : UNPIPELINED;
    this.#keys = new PipelinedReads({ ...common, ...keys, ...shared.keys, isPrepared });
    this.#filters = new PipelinedReads({ ...common, ...filters, ...shared.filters, isPrepared });
    this.#work = new Connections({ ...common, open, count: CONNECTIONS, depth: 1 });
    const forEach = <T>(make: (name: WorkLane) => T): Record<WorkLane, T> =>
      Object.fromEntries(Object.keys(LANES).map((name) => [name, make(name as WorkLane)])) as Record<
        WorkLane,
        T
      >;
    this.#lanes = forEach((name) => new Lane({ ...LANES[name], own: messageOf('tooManyWaiting') }));
    this.#durations = forEach(() => new Histogram());
    const sweep = (): void => all().forEach((connections) => connections.sweep(performance.now()));
    this.#sweep = setInterval(sweep, 1_000).unref();
  }

  get state(): Readonly<Record<LaneName, RunnerState>> {
    const lanes = Object.entries(this.#lanes).map(([name, { state }]) => [
      name,
      { ...state, durations: this.#durations[name as WorkLane] },
    ]);
    return {
      keys: this.#keys.state,
      filters: this.#filters.state,
      ...(Object.fromEntries(lanes) as Record<WorkLane, RunnerState>),
    };
  }

  async run(
    statement: SentStatement,
    kind: StatementKind,
    requester: Requester,
    { refuseCostly = false }: RunOptions = {},
  ): Promise<RawRow[]> {
    if (kind === 'write') {
      const name = isLarge(statement) ? 'large' : 'write';
      return this.#runIn(name, statement, requester, { lock: statement.record, isWrite: true });
    }
    // What has a preamble is not shared, and needs a transaction.
    const short =
      statement.preamble !== undefined ? undefined : await this.#runShort(statement, kind, requester);
    if (short) return short;
    const { key, clientKind } = requester;
    if (clientKind === 'admin') return this.#runIn('admin', statement, requester);
    const { text } = statement;
    if (refuseCostly || this.#shortTexts.get(text) || !this.#slowClients.isExcluded(key))
      try {
        const rows = await this.#runIn('read', statement, requester, { limit: READ_TIME, late: OVERRUN });
        this.#slowClients.noteSuccess(key);
        if (text.length <= MAX_TEXT) this.#shortTexts.set(text, true);
        return rows;
      } catch (error) {
        if (error !== OVERRUN) throw error;
        this.#lanes.read.moved += 1;
        this.#shortTexts.delete(text);
        this.#slowClients.noteDelay(key);
      }
    if (refuseCostly) throw new CostlyStatement();
    const limits = clientKind === 'anonymous' ? { limit: this.#options.slowTimeout, late: tooLong() } : {};
    return this.#runIn('slow', statement, requester, limits);
  }

  async close(): Promise<void> {
    clearInterval(this.#sweep);
    await Promise.all(
      [this.#keys.connections, this.#filters.connections, this.#work].map((one) => one.close()),
    );
  }

  /** Runs a read that is probably short. @returns undefined if it must run elsewhere */
  async #runShort(
    statement: SentStatement,
    kind: StatementKind,
    { key, clientKind }: Requester,
  ): Promise<RawRow[] | undefined> {
    if (kind === 'quick') {
      const rows =
        statement.many !== undefined || statement.isPage === true
          ? await this.#keys.share(statement)
          : this.#keys.mayJoin(statement)
            ? await this.#keys.run(statement)
            : undefined;
      if (rows) return rows;
    }
    const mayJoin = clientKind !== 'admin' && statement.isPage && !statement.mayBlock;
    return mayJoin && this.#filters.mayJoin(statement, key) ? this.#filters.run(statement, key) : undefined;
  }

  /**
   * Runs a statement on a connection to itself, until its client disconnects. A read whose connection is lost runs again, on one that
   * was opened later: what has ended the first one may be about to end the others.
   */
  async #runIn(
    name: WorkLane,
    statement: SentStatement,
    requester: Requester,
    { limit, late, lock, isWrite = false }: Limits = {},
  ): Promise<RawRow[]> {
    // A replica does not try: the primary does in its place.
    const mayRepeat = isWrite || this.#options.guard ? undefined : countLosses();
    let lostAt = -Infinity;
    let begun = Infinity;
    let execution: Execution | undefined;
    const holder = {
      mayEnd: () => performance.now() - begun > MAX_WRITE,
      end: () => execution?.cancel(longWrite()),
    };
    const leave = await this.#lanes[name].enter(requester, lock, name === 'write' ? holder : undefined);
    const stopListening = cancelWhenGone(requester, (reason) => execution?.cancel(reason));
    let stopTimer: (() => void) | undefined;
    begun = performance.now();
    try {
      for (;;) {
        execution = this.#work.free(lostAt)?.execute(statement, this.#isPrepared(statement));
        if (!execution) throw new ConnectionLost();
        begun = performance.now();
        stopTimer?.();
        if (limit !== undefined && late) stopTimer = cancelLate(execution, limit, late);
        try {
          return await execution.rows;
        } catch (error) {
          if (error instanceof NotSent) continue;
          if (!mayRepeat?.(error)) throw error;
          lostAt = performance.now();
        }
      }
    } finally {
      stopTimer?.();
      stopListening();
      this.#durations[name].observe((performance.now() - begun) / 1000);
      if (execution) execution.whenFree(leave);
      else leave();
    }
  }

  /** For what may block, PostgreSQL must know the values: the plan of a prepared statement may compare with each of them. */
  #isPrepared({ text, fixed, mayBlock }: SentStatement): boolean {
    return fixed === true || (mayBlock !== true && this.#texts.use(text));
  }
}

function isLarge({ values, rows = 1 }: SentStatement): boolean {
  let size = 0;
  for (const value of values) size += value?.length ?? 0;
  return size > LARGE_BYTES || rows > LARGE_ROWS;
}
