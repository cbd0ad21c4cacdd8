import { unavailable } from '../../errors.ts';
import type { OpenClient } from './driver.ts';
import type { Statement } from '../fragment.ts';
import { Pool, type PoolState, type RawRow } from './pool.ts';
import { mayPipeline, noteAnswer } from './quick-shapes.ts';
import { ClientGone, type Requester } from '../scheduling/requester.ts';
import type { ClassState } from '../scheduling/class-queues.ts';
import type { RunningStatement } from '../scheduling/running-statements.ts';
import { Scheduler } from '../scheduling/scheduler.ts';
import { classify, COSTLY, noteEstimate, Shapes, type Shape } from '../statement-shapes.ts';
import { CONNECTIONS, type WorkClass } from '../scheduling/work-class.ts';

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

/** How often the reads of anonymous clients are looked at (milliseconds). */
const CHECK = 50;

/** Milliseconds from when a client leaves until its statement is canceled. */
const SOON = 30;
/** Why a write ended that has probably waited for a lock, while others waited for its connection. */
const lockedOut = (): Error =>
  unavailable(
    'The change took too long while others waited, perhaps for a record that is locked. Try again.',
  );
/** Why a read ended that has to wait for its turn as a slow one. */
const PREEMPTED = new Error('preempted');

/** A statement that ends when its time is over. */
interface Limited {
  /** Milliseconds, as of `performance.now`. */
  readonly until: number;
  readonly cancel: (reason: Error) => void;
}

type Shaped = Statement & { readonly shape: Shape };

/** Runs single statements: each by its kind, its cost and its requester, on one of two pools. */
export class Runner {
  readonly #quick: Pool;
  readonly #work: Pool;
  readonly #scheduler = new Scheduler();
  readonly #slowTimeout: number;
  readonly #shapes = new Shapes();
  /** The reads of anonymous clients, in the order in which they began. */
  readonly #limited = new Set<Limited>();
  readonly #sweep: NodeJS.Timeout;
  readonly #check = setInterval(() => this.#endLimited(), CHECK).unref();

  constructor({ open, isPipelined, slowTimeout }: RunnerOptions) {
    this.#slowTimeout = slowTimeout;
    const shape = isPipelined ? { connections: 1, depth: 1000 } : { connections: 4, depth: 1 };
    this.#quick = new Pool({
      open,
      ...shape,
      maxPending: 4000,
      deadline: DEADLINE,
      onAnswer: (statement, rows) => statement.shape && noteAnswer(statement.shape, statement, rows),
      onSlow: ({ shape }) => {
        if (shape) shape.wasSlow = true;
      },
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
    const shape = this.#shapes.use(statement.text, statement.fixed);
    // With the text of the shape, which is the same object each time, whatever looks it up is faster.
    const { values, fixed, isPage } = statement;
    const shaped = { text: shape.text, values, fixed, isPage, shape };
    if (kind === 'quick') return this.#runQuick(shaped, requester, options);
    if (kind === 'read' && requester.origin !== 'admin') return this.#runRead(shaped, requester, options);
    return this.#scheduler.run(kind === 'read' ? 'admin' : 'write', requester, (running) =>
      this.#execute(shaped, requester, this.#isPrepared(shaped), running),
    );
  }

  async close(): Promise<void> {
    clearInterval(this.#sweep);
    clearInterval(this.#check);
    this.#scheduler.close();
    await Promise.all([this.#quick.close(), this.#work.close()]);
  }

  #runQuick(statement: Shaped, requester: Requester, options: RunOptions | undefined): Promise<RawRow[]> {
    const { shape } = statement;
    const prepare = this.#isPrepared(statement);
    const isPipelined = mayPipeline(shape, statement);
    if (isPipelined && !this.#quick.isStalled) return this.#quick.run(statement, prepare, requester);
    // A page that may be large is a read like any other: it may turn out to be slow, and its client waits for its turn.
    if (!isPipelined && statement.isPage) return this.#runPage(statement, requester, options);
    return this.#scheduler.run('short', requester, async () => {
      const started = performance.now();
      const rows = await this.#execute(statement, requester, prepare);
      shape.wasSlow = performance.now() - started >= COSTLY;
      noteAnswer(shape, statement, rows);
      return rows;
    });
  }

  async #runPage(
    statement: Shaped,
    requester: Requester,
    options: RunOptions | undefined,
  ): Promise<RawRow[]> {
    const { shape } = statement;
    const rows = await this.#runRead(statement, requester, options);
    shape.wasSlow = classify(shape) === 'slow';
    noteAnswer(shape, statement, rows);
    return rows;
  }

  /** Runs a read in the class of what its shape costs. PostgreSQL estimates that for the first statement of a shape. */
  async #runRead(statement: Shaped, requester: Requester, options?: RunOptions): Promise<RawRow[]> {
    const { shape } = statement;
    const since = performance.now();
    for (;;) {
      const isUnknown = shape.cost === undefined;
      const name = this.#scheduler.classOf(shape, requester);
      if (options?.refuseCostly === true && classify(shape) === 'slow') throw new CostlyStatement();
      const entered = this.#scheduler.enter(name, requester, shape, since);
      const running = entered instanceof Promise ? await entered : entered;
      if (!running) continue;
      let isComplete: boolean | undefined;
      let started = 0;
      try {
        if (shape.cost === undefined) noteEstimate(shape, await this.#explain(statement, requester));
        if (isUnknown && this.#scheduler.classOf(shape, requester) !== name) continue;
        isComplete = false;
        started = this.#scheduler.clock.now();
        const rows = await this.#execute(statement, requester, this.#isPrepared(statement), running);
        isComplete = true;
        return rows;
      } catch (error) {
        if (error !== PREEMPTED) throw error;
      } finally {
        if (isComplete !== undefined)
          this.#shapes.measure(shape, this.#scheduler.clock.now() - started, isComplete);
        this.#scheduler.leave(running, isComplete === true);
      }
    }
  }

  async #explain({ text, values }: Statement, requester: Requester): Promise<string> {
    const explain = { text: `explain (format json) ${text}`, values };
    const [row] = await this.#execute(explain, requester, false);
    return row?.[0]?.toString() ?? '[]';
  }

  /**
   * Runs a statement on a free connection. It ends when its client leaves.
   * @param running what the scheduler knows of it: it can be preempted, and a read ends after the time that anonymous clients get
   */
  async #execute(
    statement: Statement,
    requester: Requester,
    prepare: boolean,
    running?: RunningStatement,
  ): Promise<RawRow[]> {
    const { rows, cancel } = this.#work.execute(statement, prepare);
    let timer: NodeJS.Timeout | undefined;
    const stopListening = requester.onGone(() => {
      // PostgreSQL starts a process for each request to cancel, which costs more than what is over soon anyway.
      timer = setTimeout(() => cancel(new ClientGone()), SOON).unref();
    });
    const isRead = running?.shape !== undefined;
    const isLimited = isRead && running.isAnonymous;
    const limited = isLimited ? { until: performance.now() + this.#slowTimeout, cancel } : undefined;
    if (limited) this.#limited.add(limited);
    if (running) running.preempt = () => cancel(isRead ? PREEMPTED : lockedOut());
    try {
      return await rows;
    } finally {
      clearTimeout(timer);
      stopListening();
      if (limited) this.#limited.delete(limited);
    }
  }

  /** Ends the reads of anonymous clients whose time is over: a timer for each would cost more than most of them. */
  #endLimited(): void {
    const now = performance.now();
    for (const limited of this.#limited) {
      if (limited.until > now) return; // A Set keeps the order of insertion.
      this.#limited.delete(limited);
      limited.cancel(unavailable('This query takes too long. Ask for less.', 5));
    }
  }

  #isPrepared({ shape, fixed }: Shaped): boolean {
    return fixed === true || this.#shapes.prepare(shape);
  }
}
