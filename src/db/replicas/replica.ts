// One replica: how far it is, whether it may answer reads, and the reads that run on it.
import { parseAddress } from '../../database-address.ts';
import { Problem, Refusal, unavailable } from '../../errors.ts';
import { openConnection, openDatabase, type Database } from '../connection/database.ts';
import {
  isConnectionError,
  isDatabaseError,
  isTemporarilyUnavailable,
  reasonOf,
} from '../connection/database-errors.ts';
import { isUnanswered, sendStatement, type DedicatedConnection } from '../connection/driver.ts';
import { hasReached, WrongServer, type Reached, type ServerGuard } from '../connection/server-guard.ts';
import type { PrimaryPositions } from './primary-positions.ts';
import { identityMismatch, replicaQuestion, type Identity, type ReplicaAnswer } from './server-state.ts';
import { messageOf, textOf } from '../../messages.ts';

/** Milliseconds in which a replica must say how far it is. */
const ASK_TIMEOUT = 2_000;
/**
 * A refused read is blamed on the replica, not on the number of reads, in two cases: its last answer is older than LATE, or it
 * failed to answer within RECOVERY (milliseconds). Statements without an answer are abandoned within RECOVERY.
 */
const LATE = 1_000;
const RECOVERY = 15_000;
/** How long a replica stays out after a read has lost its connection (milliseconds); twice as long each further time. */
const FIRST_PAUSE = 1_000;
const MAX_PAUSE = 30_000;
/** Milliseconds without a lost connection after which the pauses begin again. */
const CALM = 60_000;

/** SQLSTATEs of errors that a statement has everywhere: wrong values, limits, timeouts, and what triggers raise. */
const OWN_ERRORS = /^(2[123]|44|54|57014|P0)/;

/** A read has failed on a replica, and may run on the primary. */
export class ReplicaFailed extends Error {
  constructor(cause: Error) {
    super(`the replica failed: ${cause.message}`, { cause });
  }
}

/** Whether the primary may answer where a replica has failed. Refusals to a client count there as well. */
function isFaultOfReplica(error: unknown): boolean {
  // PostgreSQL would have ended a slow statement itself, so one without an answer is lost.
  if (error instanceof WrongServer || isUnanswered(error)) return true;
  if (error instanceof Problem)
    return error.status === 503 && error.message === textOf(messageOf('unavailable'));
  return isDatabaseError(error) && (isConnectionError(error) || !OWN_ERRORS.test(error.code));
}

/** Whether an error is the end of a connection, or the lack of one. */
const isLost = (error: unknown): boolean =>
  error instanceof Problem || (isDatabaseError(error) && isConnectionError(error));

export interface ReplicaState {
  readonly name: string;
  readonly isInRotation: boolean;
  /** Bytes of the write-ahead log that it has not replayed; undefined if it does not answer. */
  readonly lagBytes: number | undefined;
  /** Milliseconds; undefined if it does not answer. */
  readonly lag: number | undefined;
  /** Reads that it has answered, and those that the primary has answered in its place. */
  readonly reads: number;
  readonly failures: number;
}

export interface ReplicaOptions {
  readonly url: string;
  /** See `openDatabase`. */
  readonly slowTimeout: number;
  /** Milliseconds. */
  readonly maxLag: number;
  readonly primary: PrimaryPositions;
  readonly identity: Identity;
  /** Reports that it has left the rotation, for a reason, or has come back. */
  readonly onChange: (replica: Replica, reason: string | undefined) => void;
}

export class Replica implements ServerGuard {
  readonly name: string;
  readonly #options: ReplicaOptions;
  readonly #database: Database;
  #connection: DedicatedConnection | undefined;
  /** Its last answer, and when it came (milliseconds of `performance.now`). */
  #answer: ReplicaAnswer | undefined;
  #answeredAt = 0;
  #failedAt = -Infinity;
  /** Why it does not answer. */
  #fault = 'it was not asked yet';
  /** Whether the primary, when it was asked later, had less than this one: it follows another server then. Undefined until it is known. */
  #isAhead: boolean | undefined;
  /** See `ServerGuard`: the most that a read on it has required on this timeline. */
  #required: Reached = { timeline: 0, position: 0n };
  #isInRotation = false;
  /** What was reported last. */
  #status: string | undefined;
  readonly #running = new Set<(error: Error) => void>();
  #reads = 0;
  #failures = 0;
  #pause = FIRST_PAUSE;
  #pausedUntil = -Infinity;

  constructor(options: ReplicaOptions) {
    this.#options = options;
    const { host = '', port, path } = parseAddress(options.url)?.servers[0] ?? {};
    const name = host.includes(':') ? `[${host}]` : host;
    this.name = path !== undefined ? 'local' : port === 5432 ? name : `${name}:${port}`;
    this.#database = openDatabase(options.url, options.slowTimeout, this);
  }

  get state(): ReplicaState {
    const position = this.#answer?.position;
    const latest = this.#options.primary.latest;
    const isKnown = position !== undefined && latest !== undefined;
    return {
      name: this.name,
      isInRotation: this.#isInRotation,
      lagBytes: isKnown ? Math.max(0, Number(latest.position - position)) : undefined,
      lag: isKnown ? this.#options.primary.lagOf(position) : undefined,
      reads: this.#reads,
      failures: this.#failures,
    };
  }

  get running(): number {
    return this.#running.size;
  }

  readonly required = (): Reached => this.#required;

  readonly question: ServerGuard['question'] = () => this.#question;

  readonly readAnswer: ServerGuard['readAnswer'] = (rows) => this.#reachedIn(this.#question.decode(rows));

  /**
   * Asks the server how far it is.
   * @returns why it cannot be used, if waiting does not help
   */
  async ask(): Promise<string | undefined> {
    const connection = (this.#connection ??= openConnection(this.#options.url));
    try {
      const rows = await connection.run((sql) => sendStatement(sql, this.#question, true), ASK_TIMEOUT);
      this.#answer = this.#question.decode(rows);
      this.#answeredAt = performance.now();
    } catch (error) {
      this.#connection = undefined;
      void connection.end(0);
      this.#answer = undefined;
      this.#isAhead = undefined;
      this.#failedAt = performance.now();
      this.#fault = isDatabaseError(error) ? reasonOf(error) : 'it does not answer';
      this.#abandon();
      this.#update();
      return isDatabaseError(error) && !isTemporarilyUnavailable(error) ? this.#fault : undefined;
    }
    if (this.#status !== undefined) this.#update();
    return identityMismatch(this.#answer, this.#options.identity);
  }

  /** Compares its last answer with what the primary has answered since. */
  compare(): void {
    const { latest } = this.#options.primary;
    const reached = this.#answer && this.#reachedIn(this.#answer);
    if (latest && latest.at > this.#answeredAt)
      this.#isAhead = reached?.timeline === latest.timeline ? latest.position < reached.position : undefined;
    this.#update();
  }

  /** Whether the replica may answer reads now, and is known to have replayed what is required. */
  has(required: Reached): boolean {
    const isReady = this.#isInRotation && performance.now() >= this.#pausedUntil;
    return isReady && this.#answer !== undefined && hasReached(this.#reachedIn(this.#answer), required);
  }

  /**
   * Runs a read.
   * @param required what the server must have reached; `has` has confirmed it
   * @throws ReplicaFailed if the primary may run it instead; errors that it would have there, too
   */
  async read<T>(required: Reached, work: (database: Database) => Promise<T>): Promise<T> {
    if (!hasReached(this.#required, required)) this.#required = required;
    let lose: ((error: Error) => void) | undefined;
    try {
      const result = await new Promise<T>((resolve, reject) => {
        this.#running.add((lose = reject));
        work(this.#database).then(resolve, reject);
      });
      this.#reads += 1;
      return result;
    } catch (error) {
      const isRefused = error instanceof Refusal && this.#isStuck();
      if (!isRefused && !isFaultOfReplica(error)) throw error;
      this.#failures += 1;
      if (isLost(error)) this.#rest();
      throw new ReplicaFailed(error as Error);
    } finally {
      if (lose) this.#running.delete(lose);
    }
  }

  async close(): Promise<void> {
    await Promise.all([this.#connection?.end(0), this.#database.close()]);
  }

  get #question(): ReturnType<typeof replicaQuestion> {
    return replicaQuestion(this.#options.identity);
  }

  /** What a server has reached by its answer; undefined if it must not answer reads. */
  #reachedIn(answer: ReplicaAnswer): Reached | undefined {
    const { isStandby, position } = answer;
    const timeline = answer.timeline ?? this.#options.primary.latest?.timeline;
    const isRight = isStandby && identityMismatch(answer, this.#options.identity) === undefined;
    return isRight && position !== undefined && timeline !== undefined ? { timeline, position } : undefined;
  }

  /** Why it may not answer reads now. */
  #reason(): string | undefined {
    const answer = this.#answer;
    if (!answer) return this.#fault;
    const { identity, primary, maxLag } = this.#options;
    const difference = identityMismatch(answer, identity);
    if (difference !== undefined) return difference;
    if (!answer.isStandby) return 'it is not a standby';
    const reached = this.#reachedIn(answer);
    if (!reached) return 'it does not say what it has replayed';
    // Against leaving and coming back again and again.
    const needed = primary.since(this.#isInRotation ? maxLag : maxLag / 2);
    if (!needed) return 'the primary does not answer';
    if (reached.timeline !== needed.timeline)
      return `it follows timeline ${reached.timeline}, and the primary is on timeline ${needed.timeline}`;
    if (this.#isAhead === undefined) return 'it was not compared with the primary yet';
    if (this.#isAhead) return 'it is ahead of the primary';
    return hasReached(reached, needed) ? undefined : `it lags more than ${maxLag / 1000} s behind`;
  }

  #update(): void {
    const reason = this.#reason();
    this.#isInRotation = reason === undefined;
    // One line each way, and one more if it turns out to be another server than at the start.
    const difference = this.#answer && identityMismatch(this.#answer, this.#options.identity);
    const status = reason === undefined ? 'in' : (difference ?? 'out');
    if (status === this.#status) return;
    this.#status = status;
    this.#options.onChange(this, reason);
  }

  /** Stays out of the rotation for a while, although it answers. */
  #rest(): void {
    const now = performance.now();
    if (now < this.#pausedUntil) return; // reads that ran at the same time
    this.#pause = now > this.#pausedUntil + CALM ? FIRST_PAUSE : Math.min(2 * this.#pause, MAX_PAUSE);
    this.#pausedUntil = now + this.#pause;
  }

  /** Whether reads may wait here because of the server. */
  #isStuck(): boolean {
    const now = performance.now();
    return now - this.#answeredAt > LATE || now - this.#failedAt < RECOVERY;
  }

  /** Lets the primary answer what is running here: a server that is gone may never answer. */
  #abandon(): void {
    for (const lose of [...this.#running]) lose(unavailable(messageOf('unavailable')));
  }
}
