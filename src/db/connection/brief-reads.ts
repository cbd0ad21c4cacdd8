// Pipelines reads that have been fast so far. PostgreSQL ends those that are not, because they delay the reads behind them.
import type { ClientPresence } from '../client-presence.ts';
import { withoutLarge } from '../fragment.ts';
import { weightOfRead, type HeavyStatements } from '../scheduling/heavy-statements.ts';
import type { RawRow } from '../rows.ts';
import { Exclusions } from '../exclusions.ts';
import { increment } from '../counts.ts';
import type { Requester } from '../scheduling/requester.ts';
import type { Shape } from '../statement-shapes.ts';
import { isConnectionError, isDatabaseError, QUERY_CANCELED } from './database-errors.ts';
import type { OpenClient } from './driver.ts';
import { Pool } from './pool.ts';
import type { PoolState } from './pool-job.ts';
import { isLeftOut, mayPipeline, noteAnswer } from './quick-shapes.ts';
import type { ServerGuard } from './server-guard.ts';
import type { ShapedStatement } from './shared-reads.ts';

const CONNECTIONS = 3;
/** Maximum statements on a connection at once. */
const DEPTH = 8;
/** Milliseconds after which PostgreSQL cancels a statement. */
export const BRIEF_TIMEOUT = 50;
/** Mean milliseconds of a shape above which its statements delay others too much. */
const MAX_MEAN = 10;
/** The weight of the newest time in the mean. */
const NEWEST_WEIGHT = 0.05;
/** Maximum statements of one client while other clients are present. */
const MAX_AMONG_OTHERS = 8;
/** Milliseconds without these connections after one was lost or could not be opened. */
const UNAVAILABLE_FOR = 5_000;

export interface BriefReadsOptions {
  readonly presence: ClientPresence;
  readonly heavy: HeavyStatements;
  /** Called when a heavy statement has ended, so that another one may start elsewhere. */
  readonly onHeavyEnd: () => void;
  /** Opens connections whose statements end after `BRIEF_TIMEOUT`. */
  readonly open: OpenClient;
  /** Milliseconds after which a statement without an answer is abandoned. */
  readonly deadline: number;
  readonly guard?: ServerGuard | undefined;
  readonly onReadOnly: () => void;
}

export class BriefReads {
  readonly #pool: Pool;
  readonly #shapes = new Exclusions<Shape>();
  readonly #clients = new Exclusions<string>();
  /** How many statements of each client are running here. */
  readonly #runningOf = new Map<string, number>();
  readonly #presence: ClientPresence;
  readonly #heavy: HeavyStatements;
  readonly #onHeavyEnd: () => void;
  #unavailableUntil = -Infinity;

  constructor({ presence, heavy, onHeavyEnd, open, deadline, guard, onReadOnly }: BriefReadsOptions) {
    this.#presence = presence;
    this.#heavy = heavy;
    this.#onHeavyEnd = onHeavyEnd;
    this.#pool = new Pool({
      open,
      connections: CONNECTIONS,
      depth: DEPTH,
      maxPending: 1_000, // `mayJoin` limits what is sent. Statements of lost connections count, too.
      deadline,
      guard,
      isDirect: true,
      onReadOnly,
      onAnswer: (statement, rows, milliseconds) => {
        const { shape } = statement;
        if (!shape) return;
        noteAnswer(shape, statement, rows);
        this.#shapes.noteSuccess(shape);
        shape.pipelinedMean += (milliseconds - shape.pipelinedMean) * NEWEST_WEIGHT;
        if (shape.pipelinedMean > MAX_MEAN) this.#exclude(shape);
      },
    });
  }

  get state(): PoolState {
    return this.#pool.state;
  }

  /** Whether a read may join: PostgreSQL can cancel it, statements of its shape were fast and their pages small, and there is room without waiting. */
  mayJoin(statement: ShapedStatement, { key }: Requester): boolean {
    const { shape, isPage, isPlain, mayBlock } = statement;
    if (!isPage || !isPlain || mayBlock || shape.isEstimate || !mayPipeline(shape, statement)) return false;
    if (shape.mean === undefined || shape.mean >= BRIEF_TIMEOUT / 2) return false;
    if (this.#shapes.isExcluded(shape) || this.#clients.isExcluded(key)) return false;
    const now = performance.now();
    if (now < this.#unavailableUntil || !this.#pool.hasRoom || this.#pool.isStalled) return false;
    this.#presence.note(key, now);
    if (!this.#heavy.mayStart('reads', key, weightOfRead(shape))) return false;
    return !this.#presence.hasSeveral(now) || (this.#runningOf.get(key) ?? 0) < MAX_AMONG_OTHERS;
  }

  /** @returns undefined if the statement must run elsewhere: it took too long, its page is large, or its connection was lost */
  async run(
    statement: ShapedStatement,
    prepare: boolean,
    requester: Requester,
  ): Promise<RawRow[] | undefined> {
    const { key } = requester;
    increment(this.#runningOf, key, 1);
    const weight = this.#heavy.begin('reads', key, weightOfRead(statement.shape));
    try {
      const rows = await this.#pool.run(withoutLarge(statement), prepare, requester);
      this.#clients.noteSuccess(key);
      return isLeftOut(statement, rows) ? undefined : rows;
    } catch (error) {
      const isCanceled = isDatabaseError(error) && error.code === QUERY_CANCELED;
      const isLost = !isDatabaseError(error) || isConnectionError(error);
      if (!isCanceled && !isLost) throw error;
      if (isLost) this.#unavailableUntil = performance.now() + UNAVAILABLE_FOR;
      else {
        this.#exclude(statement.shape);
        this.#clients.noteDelay(key);
      }
      return undefined; // A read may run again.
    } finally {
      increment(this.#runningOf, key, -1);
      weight?.end();
      if (weight) this.#onHeavyEnd();
    }
  }

  sweep(now: number): void {
    this.#pool.sweep(now);
  }

  reconnect(): void {
    this.#pool.reconnect();
  }

  close(): Promise<void> {
    return this.#pool.close();
  }

  #exclude(shape: Shape): void {
    this.#shapes.noteDelay(shape);
    shape.pipelinedMean = 0;
  }
}
