import type postgres from 'postgres';
import { unavailable } from '../errors.ts';
import type { Statement } from './fragment.ts';
import {
  isAnswer,
  isOutdated,
  outOfReach,
  send,
  withoutGaps,
  type OpenClient,
  type Query,
  type RawRow,
} from './driver.ts';
import { Histogram } from './histogram.ts';
import { isCollision, isCut, isReadOnly } from './sqlstate.ts';

export type { RawRow };

export interface LaneOptions {
  readonly open: OpenClient;
  readonly connections: number;
  /** How many statements a connection takes at once: more than one are pipelined. */
  readonly depth: number;
  /** How many statements may wait or run at once, so that overload is answered and not queued without end. */
  readonly mostPending: number;
  /** Milliseconds after which we stop waiting for an answer, queueing included; a dead network gives none at all. */
  readonly deadline: number;
}

/** What a lane does and has done. */
export interface LaneState {
  /** Connections that it may have. */
  readonly connections: number;
  /** Statements that were sent and have no answer yet. */
  readonly running: number;
  /** Statements that wait for a connection. */
  readonly waiting: number;
  /** Statements that were refused because too many were pending. */
  readonly shed: number;
  /** Statements that were given up without an answer. */
  readonly abandoned: number;
  /** Seconds from sending a statement to its answer. */
  readonly durations: Histogram;
}

interface Connection {
  readonly sql: postgres.Sql;
  underway: number;
  /** Whether there has been an answer on it. */
  isMade: boolean;
}

interface Job {
  readonly statement: Statement;
  /** Not where that has failed, since the tables are other ones now. */
  prepare: boolean;
  /** How many more times it may be sent after it has met another statement. */
  retries: number;
  readonly deadline: number;
  readonly resolve: (rows: RawRow[]) => void;
  readonly reject: (error: Error) => void;
  connection?: Connection;
  query?: Query;
}

/** Errors that came in place of the answer to a statement that had been sent. */
const unanswered = new WeakSet<Error>();

/** Whether the statement of this error may have been carried out: it had been sent, and its answer was lost. */
export const isUnanswered = (error: unknown): boolean => error instanceof Error && unanswered.has(error);

/** Milliseconds without an answer after which whatever a lane works on is not short, or waits for a lock. */
const STALL = 100;
/** How often a statement is sent anew that PostgreSQL has ended, and undone, for the sake of another. */
const MOST_RETRIES = 3;

/**
 * Connections for statements of one kind. Each is a pool of its own for postgres.js, whose queues grow with every statement
 * as long as a pool of several connections never comes to rest.
 */
export class Lane {
  readonly #options: LaneOptions;
  readonly #connections: Connection[];
  /** Connections in whose place there is another one, and that still owe answers. */
  readonly #retired = new Set<Connection>();
  readonly #pending = new Set<Job>();
  readonly #waiting: Job[] = [];
  readonly #durations = new Histogram();
  /** When it last had an answer, or a statement after it had none to work on. */
  #progress = 0;
  #shed = 0;
  #abandoned = 0;
  #isClosed = false;

  constructor(options: LaneOptions) {
    this.#options = options;
    this.#connections = Array.from({ length: options.connections }, () => this.#connect());
  }

  get state(): LaneState {
    const waiting = this.#waiting.length;
    return {
      connections: this.#connections.length,
      running: this.#pending.size - waiting,
      waiting,
      shed: this.#shed,
      abandoned: this.#abandoned,
      durations: this.#durations,
    };
  }

  /** Whether what it works on holds up what is behind it, so that the next statement had better go elsewhere. */
  get isStalled(): boolean {
    return this.#pending.size > 0 && performance.now() - this.#progress > STALL;
  }

  run(statement: Statement, prepare: boolean): Promise<RawRow[]> {
    if (this.#pending.size >= this.#options.mostPending) {
      this.#shed += 1;
      return Promise.reject(unavailable('The service is overloaded. Try again.'));
    }
    return new Promise((resolve, reject) => {
      const deadline = Date.now() + this.#options.deadline;
      const job: Job = { statement, prepare, retries: MOST_RETRIES, deadline, resolve, reject };
      this.#pending.add(job);
      this.#begin(job);
    });
  }

  /**
   * Gives up what has waited too long. PostgreSQL itself ends a statement sooner: where one has no answer by then, its
   * connection is dead and a new one takes its place.
   */
  sweep(now: number): void {
    for (const job of this.#pending) {
      if (job.deadline > now) return; // a Set keeps the order of insertion, so the oldest comes first
      this.#abandoned += 1;
      this.#giveUp(job, unavailable('The database took too long. Try again.'));
      if (!job.connection) this.#waiting.splice(this.#waiting.indexOf(job), 1);
      // Where it was alone nothing else can have held it up, whatever the driver thinks of it.
      // One that has not even been sent waits for a connection that is not to be had.
      else if (this.#options.depth === 1 || job.query?.active || !job.query?.state)
        this.#replace(job.connection, true);
    }
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    const all = [...this.#connections, ...this.#retired];
    await Promise.all(all.map(({ sql }) => sql.end({ timeout: 1 })));
  }

  #connect(): Connection {
    const open = (): postgres.Sql => this.#options.open(() => this.#lose(connection));
    const connection: Connection = { sql: open(), underway: 0, isMade: false };
    return connection;
  }

  /**
   * A connection has ended, of which the driver does not tell every statement. Those that it has not sent are taken from it, or it
   * would connect anew for them; they can begin again, unless there never was a connection.
   */
  #lose(connection: Connection): void {
    this.#replace(connection, true);
    for (const job of [...this.#pending].filter((one) => one.connection === connection)) {
      const { query } = job;
      const isSent = query?.state !== null;
      if (isSent || !connection.isMade) this.#giveUp(job, outOfReach());
      if (isSent) continue;
      delete job.query;
      query.cancel();
      if (this.#pending.has(job)) this.#begin(job);
    }
  }

  #giveUp(job: Job, error: Error): void {
    this.#pending.delete(job);
    if (job.query?.state) unanswered.add(error);
    job.reject(error);
  }

  /** The connection that has least to do, unless all have their fill. */
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
    else this.#waiting.push(job);
  }

  #start(job: Job, connection: Connection): void {
    const { statement, prepare, resolve, reject } = job;
    const started = performance.now();
    if (this.#pending.size === 1) this.#progress = started;
    const query = send(connection.sql, statement, prepare);
    connection.underway += 1;
    job.connection = connection;
    job.query = query;
    const leave = (): void => {
      connection.underway -= 1;
      this.#progress = performance.now();
      if (connection.underway === 0) this.#end(connection);
    };
    const settle = (): void => {
      leave();
      // What was given up counts as that; its connection ends, which is no answer.
      if (this.#pending.delete(job)) this.#durations.observe((this.#progress - started) / 1000);
      this.#next();
    };
    const fail = (error: Error): void => {
      // It was taken back, and has begun again.
      if (job.query !== query) return leave();
      if (isOutdated(error) && job.prepare && this.#pending.has(job)) {
        job.prepare = false; // other connections may have prepared it for the same tables
        this.#replace(connection, false);
        leave();
        return this.#begin(job);
      }
      if (isCollision(error) && job.retries > 0 && this.#pending.has(job)) {
        job.retries -= 1;
        leave();
        return this.#begin(job);
      }
      // The driver would give what the server said at last to the next statement, and could lose that altogether.
      if (isCut(error)) {
        if (query.state) unanswered.add(error);
        this.#replace(connection, true);
      } else if (isReadOnly(error)) {
        for (const one of [...this.#connections]) this.#replace(one, one.underway === 0);
      }
      settle();
      reject(error);
    };
    query.then(
      (rows) => {
        if (!isAnswer(rows)) return fail(outOfReach());
        connection.isMade = true;
        settle();
        resolve(withoutGaps(rows));
      },
      (reason: unknown) => fail(reason instanceof Error ? reason : new Error(String(reason))),
    );
  }

  #next(): void {
    const connection = this.#waiting.length > 0 ? this.#free() : undefined;
    const job = connection && this.#waiting.shift();
    if (job) this.#start(job, connection);
  }

  /**
   * Puts a new connection in the place of one.
   * @param isDead whether it gives no more answers; else it is left to those that it owes some
   */
  #replace(old: Connection, isDead: boolean): void {
    const at = this.#connections.indexOf(old);
    // Past the end of the lane, a new one would keep the process from ending.
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
