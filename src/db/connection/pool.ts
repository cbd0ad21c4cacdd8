import type postgres from 'postgres';
import { unavailable } from '../../errors.ts';
import type { Statement } from '../fragment.ts';
import type { Requester } from '../scheduling/requester.ts';
import {
  CANCEL_TIMEOUT,
  cancelOnServer,
  isAnswer,
  isOutdated,
  outOfReach,
  sendStatement,
  withoutGaps,
  type OpenClient,
  type Query,
  type RawRow,
} from './driver.ts';
import { Histogram } from '../histogram.ts';
import { isCollision, isCut, isReadOnly } from './database-errors.ts';

export type { RawRow };

export interface PoolOptions {
  readonly open: OpenClient;
  readonly connections: number;
  /** How many statements a connection takes at once: with more than one they are pipelined. */
  readonly depth: number;
  /** How many statements may wait or run at once. */
  readonly maxPending: number;
  /** Milliseconds after which a statement without an answer is abandoned, its time in the queue included. */
  readonly deadline: number;
  /** A statement that sets up each connection, after the first answer on it. */
  readonly prelude?: string;
  /** Is called with every answer. */
  readonly onAnswer?: (statement: Statement, rows: readonly RawRow[]) => void;
  /** Is called after a statement that has taken long by itself. */
  readonly onSlow?: (statement: Statement) => void;
}

/** What a pool does and has done. */
export interface PoolState {
  readonly connections: number;
  /** Statements that were sent and have no answer yet. */
  readonly running: number;
  /** Statements that wait for a connection. */
  readonly waiting: number;
  /** Statements refused because too many were pending. */
  readonly refused: number;
  /** Statements abandoned without an answer. */
  readonly abandoned: number;
  /** Statements canceled because their client was gone or their time was over. */
  readonly canceled: number;
  /** Seconds from sending a statement to its answer. */
  readonly durations: Histogram;
}

/** A statement on its way. */
export interface Execution {
  readonly rows: Promise<RawRow[]>;
  /** Ends the statement, on the server too where it has a connection to itself; `rows` then rejects with the reason. */
  readonly cancel: (reason: Error) => void;
}

interface Connection {
  readonly sql: postgres.Sql;
  underway: number;
  /** Whether a statement was answered on it. */
  isMade: boolean;
  /** The texts that were prepared on it, except those of a bounded number. */
  readonly prepared: Set<string>;
}

interface Job {
  readonly statement: Statement;
  /** Until the answer; a finished statement must not keep the request in memory. */
  requester: Requester | undefined;
  /** False after PostgreSQL refused the prepared form because tables have changed. */
  prepare: boolean;
  /** How many more times it may be sent again after a deadlock or serialization failure. */
  retries: number;
  readonly deadline: number;
  /** When it was sent last. */
  started: number;
  readonly resolve: (rows: RawRow[]) => void;
  readonly reject: (error: Error) => void;
  connection?: Connection;
  query?: Query;
  /** Why it was canceled. */
  canceled?: Error;
}

/** Errors that stand for the lost answer of a statement that had been sent. */
const unanswered = new WeakSet<Error>();

/** Whether the statement of this error may have been carried out: it was sent, and its answer was lost. */
export const isUnanswered = (error: unknown): boolean => error instanceof Error && unanswered.has(error);

/**
 * A pool counts as stalled when this many ticks of a timer (milliseconds) have passed without an answer. Ticks and not time, so
 * that answers which a busy event loop has not read yet do not count.
 */
const STALL_TICKS = 4;
const TICK = 25;
/** Maximum retries after a deadlock or serialization failure. */
const MAX_RETRIES = 3;
/**
 * The driver cannot forget a prepared statement, and PostgreSQL keeps each in memory. A connection that has prepared this many
 * is replaced by a new one.
 */
const MAX_PREPARED = 400;

/**
 * Connections for statements of one kind. Each is a client of its own for postgres.js, because the queues of a client with
 * several connections grow as long as the client is never idle.
 */
export class Pool {
  readonly #options: PoolOptions;
  readonly #connections: Connection[];
  /** Connections that were replaced and still owe answers. */
  readonly #retired = new Set<Connection>();
  readonly #pending = new Set<Job>();
  readonly #waiting: Job[] = [];
  readonly #durations = new Histogram();
  /** Ticks since the last answer, or since a statement was sent while none was running. */
  #ticks = 0;
  readonly #timer: NodeJS.Timeout;
  #refused = 0;
  #abandoned = 0;
  #canceled = 0;
  #isClosed = false;

  constructor(options: PoolOptions) {
    this.#options = options;
    this.#connections = Array.from({ length: options.connections }, () => this.#connect());
    this.#timer = setInterval(() => this.#tick(), TICK).unref();
  }

  get state(): PoolState {
    const waiting = this.#waiting.length;
    return {
      connections: this.#connections.length,
      running: this.#pending.size - waiting,
      waiting,
      refused: this.#refused,
      abandoned: this.#abandoned,
      canceled: this.#canceled,
      durations: this.#durations,
    };
  }

  /** Whether the statement in front takes so long that the next one should use another pool. */
  get isStalled(): boolean {
    return this.#pending.size > 0 && this.#ticks > STALL_TICKS;
  }

  run(statement: Statement, prepare: boolean, requester?: Requester): Promise<RawRow[]> {
    return new Promise((resolve, reject) => this.#add(statement, prepare, requester, resolve, reject));
  }

  execute(statement: Statement, prepare: boolean): Execution {
    let job: Job | undefined;
    const rows = new Promise<RawRow[]>((resolve, reject) => {
      job = this.#add(statement, prepare, undefined, resolve, reject);
    });
    return { rows, cancel: (reason) => job && this.#cancel(job, reason) };
  }

  /** @param requester is parked when the statement in front takes long */
  #add(
    statement: Statement,
    prepare: boolean,
    requester: Requester | undefined,
    resolve: Job['resolve'],
    reject: Job['reject'],
  ): Job | undefined {
    if (this.#pending.size >= this.#options.maxPending) {
      this.#refused += 1;
      reject(unavailable('The service is overloaded. Try again.'));
      return undefined;
    }
    const deadline = Date.now() + this.#options.deadline;
    const job = {
      statement,
      prepare,
      requester,
      retries: MAX_RETRIES,
      deadline,
      started: 0,
      resolve,
      reject,
    };
    this.#pending.add(job);
    this.#begin(job);
    return job;
  }

  /**
   * Abandons statements past their deadline. PostgreSQL itself ends a statement sooner, so a connection that still owes an
   * answer is dead and gets replaced.
   */
  sweep(now: number): void {
    for (const job of this.#pending) {
      if (job.deadline > now) return; // A Set keeps the order of insertion, so the oldest comes first.
      this.#abandoned += 1;
      const { connection, query } = job;
      this.#abandon(job, unavailable('The database took too long. Try again.'));
      if (!connection) this.#waiting.splice(this.#waiting.indexOf(job), 1);
      // Alone on its connection, nothing else can have delayed it. One that was never sent waits for a connection that
      // cannot be made, and must not run once it is.
      else if (this.#options.depth === 1 || query?.active || !query?.state) {
        if (query && !query.state) this.#takeBack(job, query);
        this.#replace(connection, true);
      }
    }
  }

  #tick(): void {
    this.#ticks += 1;
    if (this.#ticks > STALL_TICKS) for (const { requester } of this.#pending) requester?.park();
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    clearInterval(this.#timer);
    const all = [...this.#connections, ...this.#retired];
    await Promise.all(all.map(({ sql }) => sql.end({ timeout: 1 })));
  }

  #connect(): Connection {
    const connection: Connection = {
      sql: this.#options.open(() => this.#lose(connection)),
      underway: 0,
      isMade: false,
      prepared: new Set(),
    };
    return connection;
  }

  /**
   * Handles the end of a connection, which the driver does not report to every statement. Statements that were not sent are
   * taken back, or the driver would connect again for them; they start again unless no connection was ever made.
   */
  #lose(connection: Connection): void {
    this.#replace(connection, true);
    for (const job of [...this.#pending].filter((one) => one.connection === connection)) {
      const { query } = job;
      const isSent = query?.state !== null;
      if (isSent || !connection.isMade) this.#abandon(job, outOfReach());
      if (isSent) continue;
      this.#takeBack(job, query);
      if (this.#pending.has(job)) this.#begin(job);
    }
  }

  /** Removes a statement that was not sent from the driver's queue. */
  #takeBack(job: Job, query: Query): void {
    delete job.query;
    query.cancel();
  }

  #abandon(job: Job, error: Error): void {
    this.#pending.delete(job);
    if (job.query?.state) unanswered.add(error);
    job.reject(error);
  }

  #cancel(job: Job, reason: Error): void {
    if (job.canceled || !this.#pending.has(job)) return;
    const { connection, query } = job;
    // The cancel request of the protocol names a connection and not a statement, so it could end another one.
    if (query?.state && this.#options.depth > 1) return;
    job.canceled = reason;
    this.#canceled += 1;
    if (connection && query?.state) return this.#cancelOnServer(connection, query);
    this.#pending.delete(job);
    if (connection && query) {
      // While it connects, the driver cannot forget a statement and still use the connection.
      delete job.query;
      this.#replace(connection, true);
    } else this.#waiting.splice(this.#waiting.indexOf(job), 1);
    job.reject(reason);
  }

  /** Cancels what runs on a connection, and keeps the next statement away until the request to cancel is over. */
  #cancelOnServer(connection: Connection, query: Query): void {
    connection.underway += 1;
    let isOver = false;
    const end = (): void => {
      if (isOver) return;
      isOver = true;
      clearTimeout(timer);
      this.#leave(connection);
      this.#next();
    };
    // A request without an answer may still reach PostgreSQL, and would end another statement of this connection.
    const drop = (): void => {
      if (!isOver) this.#replace(connection, true);
      end();
    };
    const timer = setTimeout(drop, CANCEL_TIMEOUT).unref();
    cancelOnServer(query).then(end, drop);
  }

  /** The connection with the fewest statements, unless all are full. */
  #free(): Connection | undefined {
    let free: Connection | undefined;
    for (const connection of this.#connections) {
      if (connection.underway < (free?.underway ?? this.#options.depth)) free = connection;
    }
    return free;
  }

  #begin(job: Job): void {
    const connection = this.#free();
    if (connection) this.#start(job, connection);
    else {
      delete job.connection;
      this.#waiting.push(job);
    }
  }

  #leave(connection: Connection): void {
    connection.underway -= 1;
    if (connection.underway === 0) this.#end(connection);
  }

  #start(job: Job, connection: Connection): void {
    const { statement, prepare } = job;
    job.started = performance.now();
    if (this.#pending.size === 1) this.#ticks = 0;
    if (prepare && !statement.fixed) connection.prepared.add(statement.text);
    const query = sendStatement(connection.sql, statement, prepare);
    connection.underway += 1;
    job.connection = connection;
    job.query = query;
    query.then(
      (rows) => {
        if (isAnswer(rows)) this.#answer(job, connection, rows);
        else this.#fail(job, connection, query, outOfReach());
      },
      (reason: unknown) =>
        this.#fail(job, connection, query, reason instanceof Error ? reason : new Error(String(reason))),
    );
  }

  #answer(job: Job, connection: Connection, rows: RawRow[]): void {
    this.#options.onAnswer?.(job.statement, rows);
    if (!connection.isMade) this.#prime(connection);
    connection.isMade = true;
    this.#settle(job, connection);
    job.resolve(withoutGaps(rows));
  }

  /** Counts an answer. */
  #finish({ statement }: Job, connection: Connection): void {
    if (this.#ticks > STALL_TICKS) this.#options.onSlow?.(statement);
    this.#ticks = 0;
    this.#leave(connection);
  }

  #settle(job: Job, connection: Connection): void {
    this.#finish(job, connection);
    job.requester = undefined;
    // An abandoned statement counts as that, and the end of its connection is no answer.
    if (this.#pending.delete(job)) this.#durations.observe((performance.now() - job.started) / 1000);
    if (connection.prepared.size > MAX_PREPARED) this.#replace(connection, connection.underway === 0);
    this.#next();
  }

  #retry(job: Job, connection: Connection): void {
    this.#finish(job, connection);
    this.#begin(job);
  }

  #fail(job: Job, connection: Connection, query: Query, error: Error): void {
    // It was taken back, and has started again or was canceled.
    if (job.query !== query) return this.#finish(job, connection);
    const mayRetry = !job.canceled && this.#pending.has(job);
    if (isOutdated(error) && job.prepare && mayRetry) {
      job.prepare = false; // Other connections may have prepared it for the same tables.
      this.#replace(connection, false);
      return this.#retry(job, connection);
    }
    if (isCollision(error) && job.retries > 0 && mayRetry) {
      job.retries -= 1;
      return this.#retry(job, connection);
    }
    // The driver would hand the server's last message to the next statement, and could lose that one altogether.
    if (isCut(error)) {
      if (query.state) unanswered.add(error);
      this.#replace(connection, true);
    } else if (isReadOnly(error)) {
      for (const one of [...this.#connections]) this.#replace(one, one.underway === 0);
    }
    this.#settle(job, connection);
    // Whether a statement was carried out whose connection is lost is not known, even where it was to end.
    job.reject(isCut(error) ? error : (job.canceled ?? error));
  }

  #prime(connection: Connection): void {
    const { prelude } = this.#options;
    if (prelude === undefined) return;
    connection.underway += 1;
    const end = (): void => {
      this.#leave(connection);
      this.#next();
    };
    // It may have been hit by a cancel that was meant for the statement before it.
    const drop = (): void => {
      this.#replace(connection, true);
      end();
    };
    connection.sql.unsafe(prelude).then(end, drop);
  }

  #next(): void {
    const connection = this.#waiting.length > 0 ? this.#free() : undefined;
    const job = connection && this.#waiting.shift();
    if (job) this.#start(job, connection);
  }

  /**
   * Puts a new connection in the place of an old one.
   * @param isDead whether it gives no more answers; otherwise it stays open for the answers that it owes
   */
  #replace(old: Connection, isDead: boolean): void {
    const at = this.#connections.indexOf(old);
    // After the pool is closed, a new connection would keep the process from ending.
    if (at >= 0 && !this.#isClosed) {
      this.#connections[at] = this.#connect();
      this.#retired.add(old);
    }
    if (isDead) this.#end(old);
    if (at >= 0) this.#next();
  }

  /** Ends a connection that was replaced. */
  #end(old: Connection): void {
    if (this.#retired.delete(old)) void old.sql.end({ timeout: 0 });
  }
}
