// Connections that run statements: pipelined, or one at a time on each. The outcome of every statement is known.
import type postgres from 'postgres';
import { unavailable } from '../../errors.ts';
import type { RawRow, SentStatement } from '../rows.ts';
import { hasChangedSettings } from '../session-state.ts';
import { isConnectionError, isReadOnlyError, isRetryable } from './database-errors.ts';
import {
  CANCEL_TIMEOUT,
  cancelOnServer,
  ConnectionLost,
  isAnswer,
  isStalePrepared,
  noteUnanswered,
  resetSession,
  takeUnreplicated,
  whenSent,
  withoutGaps,
  type OpenClient,
  type Query,
} from './driver.ts';
import { sendAll } from './follow-up.ts';
import { beginGuarded, hasReached, WrongServer, type Reached, type ServerGuard } from './server-guard.ts';
import { messageOf } from '../../messages.ts';

/** Maximum retries after a deadlock or serialization failure. */
const MAX_RETRIES = 3;
/**
 * The driver cannot forget a prepared statement, and PostgreSQL keeps a plan of each in memory, whose size grows with the text. A
 * connection that has prepared more than this, in statements or in characters, is replaced.
 */
const MAX_PREPARED = 400;
const MAX_PREPARED_LENGTH = 512 * 1024;
/** Milliseconds that PostgreSQL may take to reset a session, which takes less than one. Without an answer by then, the connection is dead. */
const RESET_TIMEOUT = 5_000;
/** A token bucket: how often all connections may be replaced in a row, and milliseconds until one more time is allowed. */
const MAX_REPLACED = 8;
const REPLACE_PAUSE = 1_000;
/**
 * Milliseconds after which a connection is replaced. PostgreSQL's memory of a session only grows, and no state that a function of the
 * database leaves there should last.
 */
export const MAX_LIFETIME = 30 * 60_000;

export interface ConnectionOptions {
  readonly open: OpenClient;
  /** Maximum connections. */
  readonly count: number;
  /** Maximum statements on a connection at once: with more than one they are pipelined. */
  readonly depth: number;
  /** Milliseconds after which a statement without an answer is abandoned. */
  readonly deadline: number;
  readonly guard?: ServerGuard | undefined;
  /** Whether no pooler gives the server's connection to others between two statements. */
  readonly isDirect?: boolean;
  /** Runs after an answer that the connection is read-only. */
  readonly onReadOnly?: () => void;
}

/** An earlier statement of the connection has changed a setting, so that an answer may be wrong. */
export class SessionChanged extends Error {}

/** The connection was lost before the statement was sent, so another one may run it. */
export class NotSent extends Error {}

/** A statement that was passed to a connection. */
export interface Execution {
  /** Rejects with the errors of PostgreSQL, Problem 503, SessionChanged or NotSent. */
  readonly rows: Promise<RawRow[]>;
  /** Resolves when it is sent, if the connection has to open first; perhaps never. */
  readonly sent: Promise<void> | undefined;
  /** Ends the statement, on the server too if it has a connection to itself. `rows` then rejects with the reason. */
  readonly cancel: (reason: Error) => void;
  /** Calls back when its connection may run another statement, or has ended. */
  readonly whenFree: (callback: () => void) => void;
}

/** Cancels a statement some milliseconds after it was sent. @returns a function that stops this */
export function cancelLate({ sent, cancel }: Execution, limit: number, late: Error): () => void {
  let timer: NodeJS.Timeout | undefined;
  let isOver = false;
  const start = (): void => {
    if (!isOver) timer = setTimeout(() => cancel(late), limit);
  };
  if (sent) void sent.then(start);
  else start();
  return () => {
    isOver = true;
    clearTimeout(timer);
  };
}

interface ConnectionEvents {
  /** It must get no more statements. */
  readonly onRetired: (connection: Connection) => void;
  readonly onEnded: (connection: Connection) => void;
}

/** A statement from the call to its answer. It has all its properties at once: to add some later would take longer. */
interface Job {
  readonly statement: SentStatement;
  /** False after PostgreSQL refused the prepared form because tables have changed. */
  prepare: boolean;
  /** How many more times it may be sent again after a deadlock or serialization failure. */
  retries: number;
  readonly deadline: number;
  /** When it was passed to the driver last. */
  started: number;
  /** Runs when the driver sends it, if that was not at once. */
  onSent: (() => void) | undefined;
  readonly resolve: (rows: RawRow[]) => void;
  readonly reject: (error: Error) => void;
  /** What the server must have reached when it answers; see `ServerGuard`. */
  required: Reached | undefined;
  query: Query | undefined;
  /** Why it was canceled. */
  canceled: Error | undefined;
}

/**
 * Each connection is a separate postgres.js client, because the queues of a client with several connections grow for as long as
 * the client is never idle.
 */
export class Connection {
  readonly #options: ConnectionOptions;
  readonly #events: ConnectionEvents;
  readonly #sql: postgres.Sql;
  /** Statements without an answer, the oldest first. */
  readonly #jobs = new Set<Job>();
  /** The texts of its prepared statements, except `fixed` ones, whose number is bounded, and the characters of these texts. */
  readonly #prepared = new Set<string>();
  #preparedLength = 0;
  /** See `ServerGuard`. */
  readonly #guarded: { readonly sql: postgres.Sql; reached: Reached | undefined };
  #whenFree: (() => void)[] = [];
  /** Statements without an answer, requests to cancel one, and resets of the session. */
  #underway = 0;
  /** Whether it gets no more statements. It ends once it owes no answer. */
  #isRetired = false;
  #isEnded = false;
  /** When it was made, when its first answer came, and the last one, perhaps an error (milliseconds of `performance.now`). */
  readonly madeAt = performance.now();
  #openedAt = Infinity;
  #answeredAt = -Infinity;

  constructor(options: ConnectionOptions, events: ConnectionEvents) {
    this.#options = options;
    this.#events = events;
    this.#sql = options.open(() => this.#lose());
    this.#guarded = { sql: this.#sql, reached: undefined };
  }

  get underway(): number {
    return this.#underway;
  }

  /** Whether it has answered and runs nothing. */
  get isIdle(): boolean {
    return this.#hasAnswered && this.#underway === 0;
  }

  isOld(now: number): boolean {
    return now - this.#openedAt > MAX_LIFETIME;
  }

  execute(statement: SentStatement, prepare: boolean): Execution {
    let sent: Promise<void> | undefined;
    let cancel: (reason: Error) => void = () => undefined;
    const rows = new Promise<RawRow[]>((resolve, reject) => {
      const job: Job = {
        statement,
        prepare,
        retries: MAX_RETRIES,
        deadline: performance.now() + this.#options.deadline,
        started: 0,
        onSent: undefined,
        resolve,
        reject,
        required: undefined,
        query: undefined,
        canceled: undefined,
      };
      this.#underway += 1;
      this.#jobs.add(job);
      this.#send(job);
      if (!this.#hasAnswered) sent = new Promise((report) => (job.onSent = report));
      cancel = (reason) => this.#cancel(job, reason);
    });
    return { rows, sent, cancel, whenFree: (callback) => this.#callWhenFree(callback) };
  }

  /** @param isDead whether it gives no more answers; otherwise it stays open for those that it owes */
  retire(isDead = this.#underway === 0): void {
    if (!this.#isRetired) {
      this.#isRetired = true;
      this.#events.onRetired(this);
    }
    if (isDead) this.#end();
  }

  /**
   * Abandons statements past their deadline, and a reset. PostgreSQL itself ends a statement sooner, so a connection that still owes
   * an answer is dead.
   * @returns whether it is
   */
  sweep(now: number): boolean {
    const { depth } = this.#options;
    for (const job of this.#jobs) {
      if (job.deadline > now) return false;
      const { query } = job;
      this.#abandon(job, unavailable(messageOf('statementLate')));
      // A statement alone on its connection was delayed by nothing else. One that was never sent waits for a connection
      // that cannot be made, and must not run once it is. The question of a guard is no job, so no other deadline ends it.
      if (depth > 1 && !query?.active && query?.state && this.#answeredAt >= job.started) continue;
      if (query && !query.state) takeBack(job, query);
      this.retire(true);
      return true;
    }
    const isResetting = depth === 1 && this.#underway > 0 && this.#jobs.size === 0;
    const isStuck = isResetting && now - this.#answeredAt > RESET_TIMEOUT;
    if (isStuck) this.retire(true);
    return isStuck;
  }

  async close(): Promise<void> {
    await this.#sql.end({ timeout: 1 });
  }

  get #hasAnswered(): boolean {
    return this.#openedAt !== Infinity;
  }

  /** Whether no other statement is on the connection together with one, nor between two. */
  get #isExclusive(): boolean {
    return this.#options.isDirect === true && this.#options.depth === 1;
  }

  #send(job: Job): void {
    const { statement, prepare } = job;
    job.started = performance.now();
    if (prepare && !statement.fixed) this.#notePrepared(statement.text);
    const { guard } = this.#options;
    if (guard) job.required = beginGuarded(this.#guarded, guard);
    const { query: first, answer } = sendAll(this.#sql, statement, prepare, {
      onNext: (next) => {
        if (job.query === query) job.query = query = next;
      },
      onLeftOpen: () => this.retire(false),
    });
    let query = first;
    job.query = query;
    if (!this.#hasAnswered) whenSent(first, () => job.onSent?.());
    answer.then(
      (rows) => {
        const isValid = !job.required || hasReached(this.#guarded.reached, job.required);
        if (!this.#cleanUp(statement)) this.#fail(job, query, new SessionChanged());
        else if (isAnswer(rows) && isValid && !takeUnreplicated(this.#sql))
          this.#succeed(job, withoutGaps(rows));
        else this.#fail(job, query, isValid ? new ConnectionLost() : new WrongServer());
      },
      (reason: unknown) => {
        const error = reason instanceof Error ? reason : new Error(String(reason));
        const isClean = isConnectionError(error) || this.#cleanUp(statement);
        this.#fail(job, query, isClean ? error : new SessionChanged());
      },
    );
    if (this.#isExclusive && !statement.isPlain && !statement.followUp) this.#reset();
  }

  /**
   * Keeps what a statement has left in its session from the next one. Most statements are followed by a reset at once; a transaction
   * has to end first. Plain statements should leave nothing, but their tables may have changed since the start.
   * @returns false if the answer may be wrong, because another statement has left something before
   */
  #cleanUp({ isPlain, followUp }: SentStatement): boolean {
    const isChanged = hasChangedSettings(this.#sql);
    if (!this.#isExclusive) {
      if (isChanged) this.retire(false);
      return !isChanged || this.#options.depth === 1;
    }
    if (followUp || (isPlain && isChanged)) this.#reset();
    return true;
  }

  #succeed(job: Job, rows: RawRow[]): void {
    if (!this.#hasAnswered) this.#openedAt = performance.now();
    this.#finish(job);
    job.resolve(rows);
  }

  #fail(job: Job, query: Query, error: Error): void {
    if (job.query !== query) return this.#release(); // it was taken back
    const mayRetry = !job.canceled && this.#jobs.has(job);
    if (isStalePrepared(error) && job.prepare && mayRetry) {
      job.prepare = false; // other connections may have prepared it for the same tables
      this.#send(job);
      return this.retire(false);
    }
    // A standby ends what conflicts with its replay, and would end it again: the primary runs it.
    if (isRetryable(error) && job.retries > 0 && mayRetry && !job.required) {
      job.retries -= 1;
      return this.#send(job);
    }
    this.#jobs.delete(job);
    // The driver would pass the server's last message to the next statement, and could lose that statement.
    if (isConnectionError(error)) {
      if (query.state) noteUnanswered(error);
      this.retire(true);
    } else if (isReadOnlyError(error, this.#options.isDirect) && !this.#isRetired)
      this.#options.onReadOnly?.();
    this.#finish(job);
    // If the connection was lost, it is unknown whether the statement took effect, even if it was canceled.
    job.reject(isConnectionError(error) ? error : (job.canceled ?? error));
  }

  #finish(job: Job): void {
    this.#jobs.delete(job);
    this.#answeredAt = performance.now();
    if (this.#prepared.size > MAX_PREPARED || this.#preparedLength > MAX_PREPARED_LENGTH) this.retire(false);
    this.#release();
  }

  #notePrepared(text: string): void {
    const before = this.#prepared.size;
    if (this.#prepared.add(text).size > before) this.#preparedLength += text.length;
  }

  #cancel(job: Job, reason: Error): void {
    if (job.canceled || !this.#jobs.has(job)) return;
    const { query } = job;
    // PostgreSQL's cancel request names a connection and not a statement, so it could cancel another one.
    if (query?.state && this.#options.depth > 1) return;
    job.canceled = reason;
    if (query?.state) return this.#cancelOnServer(query);
    this.#jobs.delete(job);
    // While it connects, the driver cannot forget a statement and still use the connection.
    if (query) takeBack(job, query);
    this.retire(true);
    job.reject(reason);
  }

  #cancelOnServer(query: Query): void {
    // A request without an answer may still reach PostgreSQL, and would cancel another statement of this connection.
    const late = new Promise<never>((_, reject) => setTimeout(reject, CANCEL_TIMEOUT).unref());
    this.#hold(Promise.race([cancelOnServer(query), late]));
  }

  #reset(): void {
    this.#hold(resetSession(this.#sql));
  }

  /** Keeps statements away until the work is done. The connection ends if that fails. */
  #hold(work: Promise<unknown>): void {
    this.#underway += 1;
    work.then(
      () => this.#release(),
      () => {
        this.retire(true);
        this.#release();
      },
    );
  }

  #release(): void {
    this.#underway -= 1;
    if (this.#underway > 0) return;
    if (this.#isRetired) this.#end();
    else this.#reportFree();
  }

  #callWhenFree(callback: () => void): void {
    if (this.#underway === 0 || this.#isEnded) callback();
    else this.#whenFree.push(callback);
  }

  #reportFree(): void {
    const callbacks = this.#whenFree;
    this.#whenFree = [];
    for (const callback of callbacks) callback();
  }

  #end(): void {
    if (this.#isEnded) return;
    this.#isEnded = true;
    void this.#sql.end({ timeout: 0 });
    this.#events.onEnded(this);
    this.#abandonAll();
    this.#reportFree();
  }

  #abandon(job: Job, error: Error): void {
    this.#jobs.delete(job);
    if (job.query?.state) noteUnanswered(error);
    job.reject(error);
  }

  #lose(): void {
    this.retire(true);
    this.#abandonAll();
  }

  /**
   * Handles the statements of a lost connection, because the driver does not report its end to every one. Those that were not sent
   * are taken back, or the driver would connect again for them.
   */
  #abandonAll(): void {
    for (const job of [...this.#jobs]) {
      const { query } = job;
      const isSent = query?.state !== null;
      // Without any connection, another one would not be made either.
      this.#abandon(job, isSent || !this.#hasAnswered ? new ConnectionLost() : new NotSent());
      if (!isSent) takeBack(job, query);
    }
  }
}

/** Removes a statement that was not sent from the driver's queue. */
function takeBack(job: Job, query: Query): void {
  job.query = undefined;
  query.cancel();
}

export class Connections {
  readonly #options: ConnectionOptions;
  readonly #current: Connection[] = [];
  #isClosed = false;
  /** Connections that get no more statements, and still owe answers. */
  readonly #retired = new Set<Connection>();
  /** The tokens that are left, and when they were counted. */
  #tokens = MAX_REPLACED;
  #tokensAt = performance.now();
  /** Replaces all when there is a token again. */
  #replacement: NodeJS.Timeout | undefined;

  constructor(options: ConnectionOptions) {
    this.#options = options;
  }

  /** Statements that were sent and have no answer yet. */
  get running(): number {
    return this.#current.reduce((sum, { underway }) => sum + underway, 0);
  }

  /** Whether there is a connection for one more statement. */
  get hasRoom(): boolean {
    const { count, depth } = this.#options;
    return this.#current.length < count || this.#current.some(({ underway }) => underway < depth);
  }

  /**
   * The connection with the fewest statements, or a new one; undefined if all are full.
   * @param since only one that was made since then, in place of an idle one (milliseconds of `performance.now`)
   */
  free(since = -Infinity): Connection | undefined {
    const { count, depth } = this.#options;
    let free: Connection | undefined;
    for (const connection of this.#current)
      if (connection.madeAt >= since && connection.underway < (free?.underway ?? depth)) free = connection;
    if (free?.underway === 0 || this.#isClosed) return free;
    if (this.#current.length >= count) {
      const idle = this.#current.find(({ madeAt, underway }) => madeAt < since && underway === 0);
      if (!idle) return free;
      idle.retire();
    }
    const connection = new Connection(this.#options, {
      onRetired: (retired) => {
        this.#current.splice(this.#current.indexOf(retired), 1);
        this.#retired.add(retired);
      },
      onEnded: (ended) => this.#retired.delete(ended),
    });
    this.#current.push(connection);
    return connection;
  }

  sweep(now: number): void {
    // One at a time, so that not all reopen at the same time.
    this.#current.find((connection) => connection.isOld(now))?.retire();
    const isAnyDead =
      [...this.#current, ...this.#retired].filter((connection) => connection.sweep(now)).length > 0;
    // When one has died silently, the idle ones may have, too.
    if (isAnyDead)
      for (const connection of [...this.#current]) if (connection.isIdle) connection.retire(true);
  }

  /** Replaces all of them; later, if that was done often lately: on a server that stays read-only, every write asks for it. */
  replaceAll(): void {
    const now = performance.now();
    const tokens = Math.min(MAX_REPLACED, this.#tokens + (now - this.#tokensAt) / REPLACE_PAUSE);
    this.#tokens = tokens < 1 ? tokens : tokens - 1;
    this.#tokensAt = now;
    if (tokens >= 1) return [...this.#current].forEach((connection) => connection.retire());
    if (this.#replacement) return;
    this.#replacement = setTimeout(() => {
      this.#replacement = undefined;
      if (!this.#isClosed) this.replaceAll();
    }, REPLACE_PAUSE).unref();
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    await Promise.all([...this.#current, ...this.#retired].map((connection) => connection.close()));
  }
}
