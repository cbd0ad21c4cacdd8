// Queues statements and runs them over some connections: pipelined, or one at a time on each.
import { unavailable } from '../../errors.ts';
import type { BoundSql } from '../fragment.ts';
import type { RawRow, SentStatement } from '../rows.ts';
import {
  isAnswer,
  isStalePrepared,
  connectionLost,
  takeUnreplicated,
  whenSent,
  withoutGaps,
  type Query,
} from './driver.ts';
import { Histogram } from '../histogram.ts';
import { isRetryable, isConnectionError, isReadOnlyError } from './database-errors.ts';
import { notePrepared, PoolConnections, type Connection } from './pool-connections.ts';
import {
  newJob,
  sendAll,
  SessionChanged,
  unanswered,
  type Execution,
  type Job,
  type PoolOptions,
  type PoolState,
} from './pool-job.ts';
import { hasChangedSettings } from '../session-state.ts';
import { beginGuarded, hasReached, WrongServer } from './server-guard.ts';

export class Pool {
  readonly #options: PoolOptions;
  readonly #connections: PoolConnections;
  /** Waiting and running statements, the oldest first. */
  readonly #pending = new Set<Job>();
  readonly #waiting: Job[] = [];
  readonly #durations = new Histogram();
  #refused = 0;

  constructor(options: PoolOptions) {
    this.#options = options;
    this.#connections = new PoolConnections({
      open: options.open,
      count: options.connections,
      depth: options.depth,
      onFree: () => this.#startNext(),
      onLost: (connection) => this.#recover(connection),
    });
  }

  get state(): PoolState {
    const waiting = this.#waiting.length;
    return {
      running: this.#pending.size - waiting,
      waiting,
      refused: this.#refused,
      durations: this.#durations,
    };
  }

  /** Whether a statement would be sent at once. */
  get hasRoom(): boolean {
    return this.#connections.free() !== undefined;
  }

  run(statement: BoundSql, prepare: boolean): Promise<RawRow[]> {
    return new Promise((resolve, reject) => this.#add(statement, prepare, resolve, reject));
  }

  execute(statement: SentStatement, prepare: boolean): Execution {
    let job: Job | undefined;
    let sent: Promise<void> | undefined;
    const rows = new Promise<RawRow[]>((resolve, reject) => {
      const added = (job = this.#add(statement, prepare, resolve, reject));
      if (added && !added.connection?.hasAnswered) sent = new Promise((report) => (added.onSent = report));
    });
    return {
      rows,
      sent,
      cancel: (reason) => job && this.#cancel(job, reason),
    };
  }

  /**
   * Abandons statements past their deadline. PostgreSQL itself ends a statement sooner, so a connection that still owes an
   * answer is dead and gets replaced.
   */
  sweep(now: number): void {
    this.#connections.replaceOld(now);
    const { depth } = this.#options;
    for (const job of this.#pending) {
      if (job.deadline > now) return; // A Set keeps the order of insertion, so the oldest comes first.
      const { connection, query } = job;
      this.#abandon(job, unavailable('The database took too long. Try again.'));
      if (!connection) this.#waiting.splice(this.#waiting.indexOf(job), 1);
      // A statement alone on its connection was delayed by nothing else. One that was never sent waits for a connection
      // that cannot be made, and must not run once it is. The question of a guard is no job, so no other deadline ends it.
      else if (depth === 1 || query?.active || !query?.state || connection.answeredAt < job.started) {
        if (query && !query.state) this.#takeBack(job, query);
        this.#connections.replace(connection, true);
        this.#connections.replaceIdle();
      }
    }
  }

  /** Replaces all connections, each as soon as it has no statement. */
  reconnect(): void {
    this.#connections.replaceAll();
  }

  async close(): Promise<void> {
    await this.#connections.close();
  }

  #add(
    statement: SentStatement,
    prepare: boolean,
    resolve: Job['resolve'],
    reject: Job['reject'],
  ): Job | undefined {
    if (this.#pending.size >= this.#options.maxPending) {
      this.#refused += 1;
      reject(unavailable('The service is overloaded. Try again.'));
      return undefined;
    }
    const deadline = performance.now() + this.#options.deadline;
    const job = newJob(statement, prepare, deadline, resolve, reject);
    this.#pending.add(job);
    this.#startOrWait(job);
    return job;
  }

  #startOrWait(job: Job): void {
    const connection = this.#connections.free();
    if (connection) this.#start(job, connection);
    else {
      job.connection = undefined;
      this.#waiting.push(job);
    }
  }

  #startNext(): void {
    const connection = this.#waiting.length > 0 ? this.#connections.free() : undefined;
    const job = connection && this.#waiting.shift();
    if (job) this.#start(job, connection);
  }

  #start(job: Job, connection: Connection): void {
    const { statement, prepare } = job;
    job.started = performance.now();
    if (prepare && !statement.fixed) notePrepared(connection, statement.text);
    const { guard } = this.#options;
    if (guard) job.required = beginGuarded(connection, guard);
    connection.underway += 1;
    job.connection = connection;
    const { query: first, answer } = sendAll(connection.sql, statement, prepare, {
      onNext: (next) => {
        if (job.query === query) job.query = query = next;
      },
      onLeftOpen: () => this.#connections.replace(connection, false),
    });
    let query = first;
    job.query = query;
    if (connection.hasAnswered) job.onSent?.();
    else whenSent(first, () => job.onSent?.());
    answer.then(
      (rows) => {
        const isValid = !job.required || hasReached(connection.reached, job.required);
        if (!this.#cleanUp(connection, statement)) this.#fail(job, connection, query, new SessionChanged());
        else if (isAnswer(rows) && isValid && !takeUnreplicated(connection.sql))
          this.#succeed(job, connection, withoutGaps(rows));
        else this.#fail(job, connection, query, isValid ? connectionLost() : new WrongServer());
      },
      (reason: unknown) => {
        const error = reason instanceof Error ? reason : new Error(String(reason));
        const isClean = isConnectionError(error) || this.#cleanUp(connection, statement);
        this.#fail(job, connection, query, isClean ? error : new SessionChanged());
      },
    );
    if (this.#isExclusive && !statement.isPlain && !statement.followUp) this.#connections.reset(connection);
  }

  /** Whether no other statement is on a connection together with one, nor between two. */
  get #isExclusive(): boolean {
    return this.#options.isDirect === true && this.#options.depth === 1;
  }

  /**
   * Keeps what a statement has left in its session from the next one. Most statements are followed by a reset at once; a transaction
   * has to end first. Plain statements should leave nothing, but their tables may have changed since the start.
   * @returns false if the answer may be wrong, because another statement has left something before
   */
  #cleanUp(connection: Connection, { isPlain, followUp }: SentStatement): boolean {
    const isChanged = hasChangedSettings(connection.sql);
    if (!this.#isExclusive) {
      if (isChanged) this.#connections.replace(connection, false);
      return !isChanged || this.#options.depth === 1;
    }
    if (followUp || (isPlain && isChanged)) this.#connections.reset(connection);
    return true;
  }

  #succeed(job: Job, connection: Connection, rows: RawRow[]): void {
    connection.answeredAt = performance.now();
    this.#connections.markAnswered(connection);
    this.#finish(job, connection);
    job.resolve(rows);
  }

  #fail(job: Job, connection: Connection, query: Query, error: Error): void {
    // The statement was taken back, and has started again or was canceled.
    if (job.query !== query) return this.#release(connection);
    const mayRetry = !job.canceled && this.#pending.has(job);
    if (isStalePrepared(error) && job.prepare && mayRetry) {
      job.prepare = false; // Other connections may have prepared it for the same tables.
      this.#connections.replace(connection, false);
      return this.#retry(job, connection);
    }
    // A standby ends what conflicts with its replay, and would end it again: the primary runs it.
    if (isRetryable(error) && job.retries > 0 && mayRetry && !job.required) {
      job.retries -= 1;
      return this.#retry(job, connection);
    }
    // The driver would pass the server's last message to the next statement, and could lose that statement.
    if (isConnectionError(error)) {
      if (query.state) unanswered.add(error);
      this.#connections.replace(connection, true);
    } else if (isReadOnlyError(error, this.#options.isDirect) && this.#connections.isCurrent(connection))
      this.#options.onReadOnly?.();
    this.#finish(job, connection);
    // If the connection was lost, it is unknown whether the statement took effect, even if it was canceled.
    job.reject(isConnectionError(error) ? error : (job.canceled ?? error));
  }

  #retry(job: Job, connection: Connection): void {
    this.#release(connection);
    job.query = undefined; // While it waits again, it is not sent.
    this.#startOrWait(job);
  }

  /** Frees the connection of a statement that was answered. */
  #release(connection: Connection): void {
    this.#connections.release(connection);
  }

  #finish(job: Job, connection: Connection): void {
    this.#release(connection);
    // An abandoned statement is counted already, and the end of its connection is no answer.
    if (this.#pending.delete(job)) this.#durations.observe((performance.now() - job.started) / 1000);
    this.#connections.replaceIfFull(connection);
    this.#startNext();
  }

  #cancel(job: Job, reason: Error): void {
    if (job.canceled || !this.#pending.has(job)) return;
    const { connection, query } = job;
    // PostgreSQL's cancel request names a connection and not a statement, so it could cancel another one.
    if (query?.state && this.#options.depth > 1) return;
    job.canceled = reason;
    if (connection && query?.state) return this.#connections.cancel(connection, query);
    this.#pending.delete(job);
    if (connection && query) {
      // While it connects, the driver cannot forget a statement and still use the connection.
      this.#takeBack(job, query);
      this.#connections.replace(connection, true);
    } else this.#waiting.splice(this.#waiting.indexOf(job), 1);
    job.reject(reason);
  }

  #abandon(job: Job, error: Error): void {
    this.#pending.delete(job);
    if (job.query?.state) unanswered.add(error);
    job.reject(error);
  }

  /**
   * Handles the statements of a lost connection, because the driver does not report its end to every one. Those that were not
   * sent are taken back, or the driver would connect again for them. They start again unless no connection was ever made.
   */
  #recover(connection: Connection): void {
    for (const job of [...this.#pending].filter((one) => one.connection === connection)) {
      const { query } = job;
      const isSent = query?.state !== null;
      if (isSent || !connection.hasAnswered) this.#abandon(job, connectionLost());
      if (isSent) continue;
      this.#takeBack(job, query);
      if (this.#pending.has(job)) this.#startOrWait(job);
    }
  }

  /** Removes a statement that was not sent from the driver's queue. */
  #takeBack(job: Job, query: Query): void {
    job.query = undefined;
    query.cancel();
  }
}
