// Runs each statement on one of three pools, by its kind, its cost and its requester.
import { OVERLOADED } from '../../errors.ts';
import { ClientPresence } from '../client-presence.ts';
import { HeavyStatements, weightOfRead } from '../scheduling/heavy-statements.ts';
import { longWrite, tooLong } from './database-errors.ts';
import type { OpenClient } from './driver.ts';
import { withoutLarge, type BoundSql } from '../fragment.ts';
import type { RawRow, SentStatement } from '../rows.ts';
import { CostlyStatement, type RunOptions, type StatementKind } from '../statement-kinds.ts';
import { TimeLimits } from '../time-limits.ts';
import { Pool } from './pool.ts';
import { isUnanswered, SessionChanged, type PoolState } from './pool-job.ts';
import { isLargeRecord, isLeftOut, mayPipeline, noteAnswer } from './quick-shapes.ts';
import { cancelWhenGone, type Requester } from '../scheduling/requester.ts';
import { BriefReads } from './brief-reads.ts';
import { EndlessStatements } from '../endless-statements.ts';
import type { ServerGuard } from './server-guard.ts';
import { SharedReads, withShape, type ShapedStatement } from './shared-reads.ts';
import type { Demand } from '../scheduling/class-queue.ts';
import type { ClassState, DatabaseLimits } from '../scheduling/class-queues.ts';
import type { RunningStatement } from '../scheduling/running-statements.ts';
import { Scheduler } from '../scheduling/scheduler.ts';
import { classify, COSTLY, noteEstimate, Shapes } from '../statement-shapes.ts';
import { CONNECTIONS, LOST_AFTER, type WorkClass } from '../scheduling/work-class.ts';

type Timed = Pick<RunningStatement, 'sentAt'>;

export type PoolName = 'quick' | 'brief' | 'work';

export interface RunnerOptions {
  readonly open: OpenClient;
  /** Opens connections for brief reads, see `BriefReads`. */
  readonly openBrief: OpenClient;
  /** Whether statements may be sent before the answers to earlier ones. */
  readonly isPipelined: boolean;
  readonly limits: DatabaseLimits;
  readonly guard?: ServerGuard | undefined;
}

/** Milliseconds after which a statement without an answer is abandoned: PostgreSQL would have ended it by then. */
const DEADLINE = 15_000;

/** Characters above which the text of a write is not remembered. */
const MAX_WRITE_LENGTH = 16_384;
/** Why a read was canceled that must wait again as a slow one. */
const PREEMPTED = new Error('preempted');
/** Milliseconds for which a preempted read starts again, so that a request ends even if others always need its connection. */
const MAX_RESTARTED = 10_000;

/** A read whose connection was changed by another statement runs again, on a connection to itself. */
function unlessChanged(error: unknown): undefined {
  if (!(error instanceof SessionChanged)) throw error;
}

export class Runner {
  readonly #quick: Pool;
  readonly #brief: BriefReads;
  readonly #work: Pool;
  readonly presence = new ClientPresence();
  readonly #heavy: HeavyStatements;
  readonly #scheduler: Scheduler;
  readonly #isPipelined: boolean;
  readonly #shapes = new Shapes();
  readonly #shared = new SharedReads({
    presence: this.presence,
    send: (statement, requester) => this.#quick.run(statement, this.#isPrepared(statement), requester),
    sendApart: (statement, requester) => this.#runShort(statement, requester),
    maySend: (shape) => !shape.wasSlow && !this.#quick.isStalled,
  });
  readonly endless = new EndlessStatements((statement) => this.#quick.run(statement, this.#isPipelined));
  /** Of the reads of anonymous clients. */
  readonly #timeLimits: TimeLimits;
  readonly #sweep: NodeJS.Timeout;

  constructor({ open, openBrief, isPipelined, limits, guard }: RunnerOptions) {
    this.#isPipelined = isPipelined;
    const pools = () => [this.#quick, this.#brief, this.#work];
    // The server has become a standby. All pools reconnect, so that reads do not stay on it. A replica is always a standby.
    const onReadOnly = (): void => {
      if (!guard) pools().forEach((pool) => pool.reconnect());
    };
    this.#timeLimits = new TimeLimits(limits.slowTimeout);
    this.#heavy = new HeavyStatements(this.presence, limits.processes);
    this.#scheduler = new Scheduler(this.presence, this.#heavy, limits);
    const quick = isPipelined ? { connections: 1, depth: 1000 } : { connections: 4, depth: 1 };
    const common = { open, deadline: DEADLINE, guard, isDirect: isPipelined, onReadOnly };
    const { presence } = this;
    const brief = { open: openBrief, presence, heavy: this.#heavy, onHeavyEnd: this.#scheduler.startNext };
    this.#brief = new BriefReads({ ...common, ...brief });
    this.#quick = new Pool({
      ...common,
      ...quick,
      maxPending: 4000,
      onAnswer: (statement, rows, milliseconds) =>
        statement.shape && noteAnswer(statement.shape, statement, rows, milliseconds),
      onStalled: ({ shape }) => {
        if (shape) shape.wasSlow = true;
        this.#shared.disperse(shape);
      },
    });
    this.#work = new Pool({ ...common, connections: CONNECTIONS, depth: 1, maxPending: 1000 });
    const sweep = (): void => pools().forEach((pool) => pool.sweep(performance.now()));
    this.#sweep = setInterval(sweep, 1000).unref();
  }

  get pools(): Readonly<Record<PoolName, PoolState>> {
    return { quick: this.#quick.state, brief: this.#brief.state, work: this.#work.state };
  }

  get classes(): Readonly<Record<WorkClass, ClassState>> {
    return this.#scheduler.state;
  }

  run(
    statement: SentStatement,
    kind: StatementKind,
    requester: Requester,
    options?: RunOptions,
  ): Promise<RawRow[]> {
    // A write of many records has a long text that is hardly repeated.
    const isRemembered = kind !== 'write' || statement.text.length <= MAX_WRITE_LENGTH;
    const shaped = withShape(statement, this.#shapes, isRemembered);
    if (kind === 'quick') return this.#runQuick(shaped, requester, options);
    if (kind === 'read') return this.#runRead(shaped, requester, options);
    return this.#runWrite(shaped, requester);
  }

  async close(): Promise<void> {
    clearInterval(this.#sweep);
    this.#timeLimits.close();
    this.endless.close();
    this.#scheduler.close();
    await Promise.all([this.#quick.close(), this.#brief.close(), this.#work.close()]);
  }

  /** A record or page that may be large runs like other reads: it may turn out to be slow. */
  async #runQuick(
    statement: ShapedStatement,
    requester: Requester,
    options: RunOptions | undefined,
  ): Promise<RawRow[]> {
    const { shape, many, isPage, isPlain } = statement;
    const isPipelined = isPlain === true && mayPipeline(shape, statement);
    if (isPipelined && !this.#quick.isStalled) {
      const resumed = requester.resume();
      if (resumed) await resumed;
      const isShared = many !== undefined || isPage === true;
      const rows = isShared
        ? await this.#shared.run(statement, requester)
        : await this.#quick.run(statement, this.#isPrepared(statement), requester).catch(unlessChanged);
      if (rows) return rows;
    }
    if (isPage ? mayPipeline(shape, statement) : !isLargeRecord(shape, statement)) {
      const rows = await this.#runShort(statement, requester);
      if (!isLeftOut(statement, rows)) return rows;
    }
    const rows = await this.#runRead(statement, requester, options);
    noteAnswer(shape, statement, rows);
    if (isPage) shape.wasSlow = classify(shape) === 'slow';
    return rows;
  }

  /** Runs a short read on a connection to itself. If its table may be locked, those of its shape leave the connections to others. */
  #runShort(statement: ShapedStatement, requester: Requester): Promise<RawRow[]> {
    const { shape } = statement;
    const { clock } = this.#scheduler;
    const work = async (timed: Timed = { sentAt: clock.now() }): Promise<RawRow[]> => {
      const sent = withoutLarge(statement);
      const rows = await this.#execute(sent, requester, this.#isPrepared(statement), undefined, timed);
      const milliseconds = clock.now() - timed.sentAt;
      shape.wasSlow = milliseconds >= COSTLY;
      noteAnswer(shape, sent, rows, milliseconds);
      return rows;
    };
    const obstacle = shape.wasSlow || this.#quick.isStalled ? shape.text : undefined;
    return this.#scheduler.run('short', requester, work, { obstacle });
  }

  #runWrite(statement: ShapedStatement, requester: Requester): Promise<RawRow[]> {
    const { key } = requester;
    const weight = this.#heavy.weightOfWrite(statement, key);
    const note = (rows: RawRow[]): RawRow[] => this.#heavy.noteWritten(key, rows);
    return this.#runIn('write', statement, requester, { weight, obstacle: statement.record }).then(note);
  }

  #runIn(
    name: 'write' | 'admin',
    statement: ShapedStatement,
    requester: Requester,
    demand?: Demand,
  ): Promise<RawRow[]> {
    const work = (running?: RunningStatement): Promise<RawRow[]> =>
      this.#execute(statement, requester, this.#isPrepared(statement), running);
    return this.#scheduler.run(name, requester, work, demand);
  }

  #runRead(statement: ShapedStatement, requester: Requester, options?: RunOptions): Promise<RawRow[]> {
    return requester.clientKind === 'admin'
      ? this.#runIn('admin', statement, requester)
      : this.#runClassified(statement, requester, options);
  }

  /** Runs a read in the class for the cost of its shape. PostgreSQL estimates the cost for the first statement of a shape. */
  async #runClassified(
    statement: ShapedStatement,
    requester: Requester,
    options?: RunOptions,
  ): Promise<RawRow[]> {
    const { shape } = statement;
    const begun = performance.now();
    /** When it began to wait; for a user, as if it had not run in between. */
    let since = begun;
    for (;;) {
      const isUnknown = shape.cost === undefined;
      const name = this.#scheduler.classOf(shape, requester);
      if (options?.refuseCostly === true && classify(shape) === 'slow') throw new CostlyStatement();
      const isCheap = name === 'brief' || name === 'read';
      if (isCheap && this.#isPipelined && this.#brief.mayJoin(statement, requester)) {
        const rows = await this.#brief.run(statement, this.#isPrepared(statement), requester);
        if (rows) return rows;
        continue;
      }
      const weight = isLargeRecord(shape, statement) ? 1 : weightOfRead(shape);
      const entered = this.#scheduler.enter(name, requester, shape, since, { weight });
      const running = entered instanceof Promise ? await entered : entered;
      if (!running) continue;
      let isComplete: boolean | undefined;
      let started = 0;
      try {
        if (shape.cost === undefined) {
          const plan = options?.isExplain ? '[]' : await this.#explain(statement, requester, running);
          noteEstimate(shape, plan, this.#scheduler.clock.now() - running.sentAt);
        }
        if (isUnknown && this.#scheduler.classOf(shape, requester) !== name) continue;
        isComplete = false;
        started = this.#scheduler.clock.now();
        const rows = await this.#execute(statement, requester, this.#isPrepared(statement), running);
        isComplete = true;
        noteAnswer(shape, statement, rows);
        return rows;
      } catch (error) {
        if (error !== PREEMPTED) throw error;
        if (performance.now() - begun > MAX_RESTARTED) throw OVERLOADED;
        if (!running.isAnonymous) since += this.#scheduler.clock.now() - started;
      } finally {
        const milliseconds = this.#scheduler.clock.now() - Math.max(started, running.sentAt);
        if (isComplete !== undefined && milliseconds >= 0 && milliseconds < LOST_AFTER)
          this.#shapes.measure(shape, milliseconds, isComplete);
        this.#scheduler.leave(running, isComplete === true);
      }
    }
  }

  async #explain(
    { text, values }: BoundSql,
    requester: Requester,
    running: RunningStatement,
  ): Promise<string> {
    const explain = { text: `explain (format json) ${text}`, values };
    const [row] = await this.#execute(explain, requester, false, running);
    return row?.[0]?.toString() ?? '[]';
  }

  /**
   * Runs a statement on an exclusive connection, until its client disconnects.
   * @param running makes it preemptible, and limits the time of an anonymous read
   * @param timed receives when it is sent, if that is not at once
   */
  async #execute(
    statement: BoundSql,
    requester: Requester,
    prepare: boolean,
    running?: RunningStatement,
    timed: Timed | undefined = running,
  ): Promise<RawRow[]> {
    const { rows, sent, cancel, process } = this.#work.execute(statement, prepare);
    const stopListening = cancelWhenGone(requester, cancel);
    const isRead = running?.shape !== undefined;
    const isLimited = isRead && running.isAnonymous;
    const liftLimit = isLimited ? this.#timeLimits.start(() => cancel(tooLong()), sent) : undefined;
    if (sent && timed) {
      timed.sentAt = Infinity;
      void sent.then(() => (timed.sentAt = this.#scheduler.clock.now()));
    }
    if (running) {
      running.preempt = () => cancel(isRead ? PREEMPTED : longWrite());
      running.isComputing = () => this.endless.isComputing(this.#isPipelined ? process() : undefined);
    }
    try {
      return await rows;
    } catch (error) {
      const number = running && isUnanswered(error) ? process() : undefined;
      if (running && number !== undefined) running.stopped = this.endless.ended(number);
      throw error;
    } finally {
      stopListening();
      liftLimit?.();
    }
  }

  /** For what may block, PostgreSQL must know the values: the plan of a prepared statement may compare with each of them. */
  #isPrepared({ shape, fixed, mayBlock }: ShapedStatement): boolean {
    return fixed === true || (mayBlock !== true && this.#shapes.prepare(shape));
  }
}
