import { unavailable } from '../errors.ts';
import type { OpenClient } from './driver.ts';
import type { Statement } from './fragment.ts';
import { Pool, type PoolState, type RawRow } from './pool.ts';
import { QuickTexts } from './quick-texts.ts';
import { ClientGone, type Requester } from './requester.ts';
import { CONNECTIONS, Reclassified, Scheduler, type ClassState } from './scheduler.ts';
import { classify, COSTLY, noteEstimate, Shapes, type Shape } from './shapes.ts';
import type { WorkClass } from './work-class.ts';

/**
 * `quick` statements are certain to be short (by key, a first page) and are pipelined over one connection, which is fastest.
 * `read` statements may be slow, `write` statements may wait for a lock: each has a connection to itself.
 */
export type StatementKind = 'quick' | 'read' | 'write';

/** A read that may not run for this caller because statements of its shape are costly. */
export class CostlyStatement extends Error {}

export interface RunOptions {
  /** Throws CostlyStatement in place of running a costly read. */
  readonly refuseCostly?: boolean;
}

export interface RunnerOptions {
  readonly open: OpenClient;
  /** Whether statements may be sent before the answers to earlier ones. */
  readonly isPipelined: boolean;
  /** Milliseconds after which a read of an anonymous client is canceled. */
  readonly slowTimeout: number;
}

/** Milliseconds after which a statement without an answer is abandoned: PostgreSQL would have ended it. */
const DEADLINE = 15_000;
/** Keeps a costly query to one process of PostgreSQL, so that it leaves processors to others. */
const PRELUDE = 'set max_parallel_workers_per_gather = 0';

interface ExecuteOptions {
  readonly prepare: boolean;
  readonly timeout?: number | undefined;
}

/** Runs single statements: each by its kind, its cost and its requester, on one of two pools. */
export class Runner {
  readonly #quick: Pool;
  readonly #work: Pool;
  readonly #scheduler = new Scheduler();
  readonly #slowTimeout: number;
  readonly #shapes = new Shapes();
  readonly #texts = new QuickTexts();
  readonly #sweep: NodeJS.Timeout;

  constructor({ open, isPipelined, slowTimeout }: RunnerOptions) {
    this.#slowTimeout = slowTimeout;
    const shape = isPipelined ? { connections: 1, depth: 1000 } : { connections: 4, depth: 1 };
    this.#quick = new Pool({
      open,
      ...shape,
      maxPending: 4000,
      deadline: DEADLINE,
      onAnswer: (statement, rows) => this.#texts.noteAnswer(statement, rows),
      onSlow: (statement) => this.#texts.noteTime(statement, true),
    });
    const work = { connections: CONNECTIONS, depth: 1, maxPending: 1000, deadline: DEADLINE };
    // Behind a transaction pooler the setting would stay with a connection that is not ours.
    this.#work = new Pool({ open, ...work, ...(isPipelined ? { prelude: PRELUDE } : {}) });
    this.#sweep = setInterval(() => {
      const now = Date.now();
      this.#quick.sweep(now);
      this.#work.sweep(now);
    }, 1000).unref();
  }

  get pools(): Readonly<Record<'quick' | 'work', PoolState>> {
    return { quick: this.#quick.state, work: this.#work.state };
  }

  get classes(): Readonly<Record<WorkClass, ClassState>> {
    return this.#scheduler.state;
  }

  run(
    statement: Statement,
    kind: StatementKind,
    requester: Requester,
    options?: RunOptions,
  ): Promise<RawRow[]> {
    if (kind === 'quick') return this.#runQuick(statement, requester, options);
    if (kind === 'read' && requester.origin !== 'admin') return this.#runRead(statement, requester, options);
    return this.#scheduler.run(kind === 'read' ? 'admin' : 'write', requester, () =>
      this.#execute(statement, requester, { prepare: this.#isPrepared(statement) }),
    );
  }

  async close(): Promise<void> {
    clearInterval(this.#sweep);
    this.#scheduler.close();
    await Promise.all([this.#quick.close(), this.#work.close()]);
  }

  #runQuick(statement: Statement, requester: Requester, options: RunOptions | undefined): Promise<RawRow[]> {
    const prepare = this.#isPrepared(statement);
    const mayPipeline = this.#texts.mayPipeline(statement);
    if (mayPipeline && !this.#quick.isStalled) return this.#quick.run(statement, prepare, requester);
    // A page that may be large is a read like any other: it may turn out to be slow, and its client waits for its turn.
    if (!mayPipeline && statement.isPage) return this.#runPage(statement, requester, options);
    return this.#scheduler.run('short', requester, async () => {
      const started = performance.now();
      const rows = await this.#execute(statement, requester, { prepare });
      this.#texts.noteTime(statement, performance.now() - started >= COSTLY);
      this.#texts.noteAnswer(statement, rows);
      return rows;
    });
  }

  async #runPage(
    statement: Statement,
    requester: Requester,
    options: RunOptions | undefined,
  ): Promise<RawRow[]> {
    const rows = await this.#runRead(statement, requester, options);
    this.#texts.noteTime(statement, classify(this.#shapes.use(statement.text)) === 'slow');
    this.#texts.noteAnswer(statement, rows);
    return rows;
  }

  /** Runs a read in the class of what its shape costs. PostgreSQL estimates that for the first statement of a shape. */
  async #runRead(
    statement: Statement,
    requester: Requester,
    { refuseCostly = false }: RunOptions = {},
  ): Promise<RawRow[]> {
    const shape = this.#shapes.use(statement.text);
    const work = async (): Promise<RawRow[]> => {
      if (shape.cost === undefined) {
        noteEstimate(shape, await this.#explain(statement, requester));
        if (classify(shape) !== 'read') throw new Reclassified();
      }
      return this.#measured(statement, shape, requester);
    };
    for (;;) {
      const name = classify(shape);
      if (name === 'slow' && refuseCostly) throw new CostlyStatement();
      try {
        return await this.#scheduler.run(name, requester, work, shape);
      } catch (error) {
        if (!(error instanceof Reclassified)) throw error;
      }
    }
  }

  async #measured(statement: Statement, shape: Shape, requester: Requester): Promise<RawRow[]> {
    const timeout = requester.origin === 'anonymous' ? this.#slowTimeout : undefined;
    const prepare = statement.fixed === true || this.#shapes.prepare(shape);
    const started = performance.now();
    const measure = (isComplete: boolean): void =>
      this.#shapes.measure(shape, performance.now() - started, isComplete);
    try {
      const rows = await this.#execute(statement, requester, { prepare, timeout });
      measure(true);
      return rows;
    } catch (error) {
      measure(false);
      throw error;
    }
  }

  async #explain({ text, values }: Statement, requester: Requester): Promise<string> {
    const explain = { text: `explain (format json) ${text}`, values };
    const [row] = await this.#execute(explain, requester, { prepare: false });
    return row?.[0]?.toString() ?? '[]';
  }

  /** Runs a statement on a free connection. It ends when its client leaves, or when its time is over. */
  async #execute(
    statement: Statement,
    requester: Requester,
    { prepare, timeout }: ExecuteOptions,
  ): Promise<RawRow[]> {
    const { rows, cancel } = this.#work.execute(statement, prepare);
    const stopListening = requester.onGone(() => cancel(new ClientGone()));
    const end = (): void => cancel(unavailable('This query takes too long. Ask for less.', 5));
    const timer = timeout === undefined ? undefined : setTimeout(end, timeout);
    try {
      return await rows;
    } finally {
      stopListening();
      clearTimeout(timer);
    }
  }

  #isPrepared({ text, fixed }: Statement): boolean {
    return fixed === true || this.#shapes.prepare(this.#shapes.use(text));
  }
}
