import type { EventLoopUtilization } from 'node:perf_hooks';
import { OVERLOADED, TOO_MANY, type Problem } from '../../errors.ts';
import { LoopClock } from './loop-clock.ts';
import { ClientGone, type Requester } from './requester.ts';
import { ATTEMPT, classify, COSTLY, isVaried, OVERRUN, type Shape } from '../statement-shapes.ts';
import { increment, SlowClients } from './slow-clients.ts';
import { ClassQueue, type QueueClient, type WaitingStatement } from './class-queue.ts';
import { forEachClass, isWrong, READS, type WorkClass } from './work-class.ts';

/** The exclusive connections. */
export const CONNECTIONS = 17;

/** Milliseconds that a statement may wait for a connection; what is expected to wait longer is refused at once. */
const MAX_WAIT = 2_000;
/** Statements of one class that may wait, whatever the expected wait. */
const MAX_WAITING = 1_000;
/** Reads of one stranger who may try to deceive that may wait: rests make their waits longer than the mean says. */
const MAX_WAITING_OF_SUSPECT = 8;

/** A stranger's read that takes this long (milliseconds), though it was not known to be slow, may have been made to deceive. */
const SUSPICIOUS = 1_000;

/** Slow statements that run at once, those included that turned out to be slow: further ones end and wait for their turn. */
const MAX_OVERRUNNING = 4;

/** Milliseconds of an attempt while others wait for theirs, whose client had no brief one before. */
const CROWDED_ATTEMPT = 75;

/**
 * Milliseconds after which a write may be ended because others wait for a connection: most of those that take so long wait for a
 * lock. The older half goes on, so that writes that simply take long are done one after the other.
 */
const LONG_WRITE = 500;

/** Classes in which a stranger may have to rest. */
const RESTING: readonly WorkClass[] = [...READS, 'slow'];

/** What the scheduler does and has done. */
export interface ClassState {
  readonly running: number;
  readonly waiting: number;
  /** Statements refused because they would have waited too long. */
  readonly refused: number;
}

/** A statement that has a connection. */
export interface Running {
  /** The client as it was when the statement began: its key changes when the user becomes known. */
  readonly caller: QueueClient;
  readonly isStranger: boolean;
  /** Of a read. */
  readonly shape: Shape | undefined;
  /** By the scheduler's clock. */
  readonly since: number;
  /** The class in which it began. */
  readonly first: ClassQueue;
  /** The class that it counts for: the same, or `slow` since it has taken long. */
  work: ClassQueue;
  /** Milliseconds that the statement was expected to take in this class. */
  expected: number;
  /** How busy the process was, from when the statement counted as slow. */
  utilization?: EventLoopUtilization;
  /** Ends the statement, which then begins anew as what it is. */
  preempt?: () => void;
}

/**
 * Decides which statement gets an exclusive connection next: by class, so that each kind of work has its share, and within a
 * class by client, so that a client with many statements waits behind itself.
 */
export class Scheduler {
  readonly #slow = new SlowClients();
  readonly #classes = forEachClass((name) => new ClassQueue(name, this.#slow));
  readonly #all = Object.values(this.#classes);
  /** Connections that are in use, or kept for a class. */
  #taken = this.#all.reduce((sum, { taken }) => sum + taken, 0);
  /** Reads that are not known to be slow, in the order in which they began. */
  readonly #watched = new Set<Running>();
  /** The same of reads that are known to be slow with other values. */
  readonly #attempts = new Set<Running>();
  /** Writes, in the order in which they began. */
  readonly #writes = new Set<Running>();
  /** Checks waiting and running statements: a timer for each would cost more than most of them. */
  readonly clock = new LoopClock(() => {
    this.#refuseLate();
    this.#endAttempts();
    this.#endLongWrites();
    this.#moveOverruns();
  });

  get state(): Readonly<Record<WorkClass, ClassState>> {
    return forEachClass((name) => {
      const { running, waiting, refused } = this.#classes[name];
      return { running, waiting, refused };
    });
  }

  /**
   * The class of a read. What a stranger asks who may try to deceive stays apart, whatever it has cost others. What is costly
   * only with some values is tried for a moment, so that nobody can make it slow for others.
   */
  classOf(shape: Shape, { key, origin }: QueueClient): WorkClass {
    const name = classify(shape);
    if (name === 'slow') return isVaried(shape) && this.#slow.mayAttempt(key) ? 'attempt' : 'slow';
    return origin === 'anonymous' && this.#slow.isSuspect(key) ? 'trial' : name;
  }

  /**
   * Gives a statement its connection: at once, or resolves when it may begin. `leave` must follow.
   * @param shape of a read, which counts as slow when it takes long
   * @param since when the statement began to wait, also in another class
   * @returns undefined for a read that belongs to another class, as is known since it began to wait
   * @throws Problem 503, or 429 for a client whose own statements are the reason, at once where the wait would be too long;
   * ClientGone when the client leaves while it waits
   */
  enter(
    name: WorkClass,
    requester: Requester,
    shape?: Shape,
    since?: number,
  ): Running | Promise<Running | undefined> {
    const one = this.#classes[name];
    if (one.waiting > 0 || !one.mayRun(requester) || !this.#isFree(one))
      return this.#wait(one, requester, shape, since ?? performance.now());
    return this.#begin(one, this.#callerOf(one, requester), shape);
  }

  /** The client as it is now: what a requester says of itself changes. */
  #callerOf({ name }: ClassQueue, { key, origin }: Requester): QueueClient {
    return { key, origin, isPreferred: name === 'attempt' && this.#slow.isPreferred(key) };
  }

  #begin(work: ClassQueue, caller: QueueClient, shape: Shape | undefined): Running {
    const expected = this.#enter(work, caller, shape?.mean);
    const isStranger = caller.origin === 'anonymous';
    const since = this.clock.now();
    const running: Running = { caller, isStranger, shape, since, first: work, work, expected };
    if (work.name === 'write') this.#writes.add(running);
    if (shape && work.name === 'attempt' && classify(shape) === 'slow') this.#attempts.add(running);
    else if (shape && work.name !== 'slow') this.#watched.add(running);
    else if (shape && isStranger) running.utilization = performance.eventLoopUtilization();
    return running;
  }

  /**
   * Takes back the connection of a statement that is over.
   * @param isComplete whether it was answered
   */
  leave(running: Running, isComplete = false): void {
    const { shape, caller, since, first, work, isStranger } = running;
    const milliseconds = this.clock.now() - since;
    this.#watched.delete(running);
    this.#writes.delete(running);
    if (this.#attempts.delete(running) && isComplete) this.#slow.passAttempt(caller.key);
    this.#leave(running, milliseconds);
    if (work.name === 'slow') {
      const hasOverrun = work !== first;
      if (hasOverrun) increment(this.#slow.overruns, caller.key, -1);
      if (isStranger) this.#rest(running, milliseconds, hasOverrun && milliseconds >= SUSPICIOUS);
    }
    if (shape && isWrong(first.name, this.classOf(shape, caller))) this.#reclassify();
    this.#startNext();
  }

  /** Does some work between `enter` and `leave`. */
  async run<T>(
    name: WorkClass,
    requester: Requester,
    work: (running: Running | undefined) => Promise<T>,
  ): Promise<T> {
    const entered = this.enter(name, requester);
    const running = entered instanceof Promise ? await entered : entered;
    try {
      return await work(running);
    } finally {
      if (running) this.leave(running);
    }
  }

  #rest({ caller: { key }, utilization }: Running, milliseconds: number, isSuspect: boolean): void {
    const busy = performance.eventLoopUtilization(utilization).utilization;
    this.#slow.rest(key, milliseconds, busy, isSuspect, () => this.#startNext());
    if (isSuspect) this.#slow.suspect(key);
    this.#refuseResting(key);
  }

  /** What its client's rest keeps waiting for too long is refused now, and not when it has waited. */
  #refuseResting(key: string): void {
    const begins = performance.now() + this.#slow.restOf(key);
    for (const name of RESTING) {
      if (!this.#slow.isResting(key, name)) continue;
      const one = this.#classes[name];
      let before = 0;
      one.refused += one.end(
        ({ requester, since }) => {
          if (requester.key !== key) return false;
          const isLate = begins + before * one.meanOf(requester) > since + MAX_WAIT;
          if (!isLate) before += 1;
          return isLate;
        },
        () => TOO_MANY,
      );
    }
  }

  /** Ends attempts that were not brief: they wait for their turn as slow statements. */
  #endAttempts(): void {
    const now = this.clock.now();
    const crowded = this.#classes.attempt.waiting > 0 ? CROWDED_ATTEMPT : ATTEMPT;
    for (const attempt of this.#attempts) {
      const { since, caller, preempt } = attempt;
      if (now - since < (caller.isPreferred === true ? ATTEMPT : crowded)) continue;
      this.#attempts.delete(attempt);
      this.#slow.failAttempt(caller.key);
      preempt?.();
    }
  }

  /** Ends writes that have taken long, one for each client that waits for its connection. */
  #endLongWrites(): void {
    const { write } = this.#classes;
    if (write.waiting === 0 || this.#isFree(write)) return;
    const latest = this.clock.now() - LONG_WRITE;
    const younger = [...this.#writes].slice(Math.ceil(write.running / 2));
    const long = younger.filter(({ since }) => since <= latest).slice(0, write.waitingClients);
    for (const running of long) {
      this.#writes.delete(running);
      running.preempt?.();
    }
  }

  /**
   * Counts reads as slow once they have taken long. Their clients start nothing further of their class
   * meanwhile, or many reads whose cost was underestimated could take all connections.
   */
  #moveOverruns(): void {
    const latest = this.clock.now() - OVERRUN;
    let isAny = false;
    for (const running of this.#watched) {
      if (running.since > latest) break;
      isAny = true;
      const { caller, shape } = running;
      this.#watched.delete(running);
      if (shape) {
        shape.cost = Math.max(COSTLY, shape.cost ?? 0);
        shape.isEstimate = false;
      }
      if (this.#classes.slow.running >= MAX_OVERRUNNING && running.preempt) {
        running.preempt();
        if (running.isStranger) this.#slow.suspect(caller.key);
        continue;
      }
      this.#leave(running, OVERRUN);
      running.work = this.#classes.slow;
      running.utilization = performance.eventLoopUtilization();
      running.expected = this.#enter(running.work, caller);
      increment(this.#slow.overruns, caller.key, 1);
    }
    if (!isAny) return;
    this.#reclassify();
    this.#startNext();
  }

  #enter(one: ClassQueue, caller: QueueClient, cost?: number): number {
    this.#taken -= one.taken;
    const expected = one.enter(caller, cost);
    this.#taken += one.taken;
    return expected;
  }

  #leave({ work, caller, expected }: Running, milliseconds: number): void {
    this.#taken -= work.taken;
    work.leave(caller, milliseconds, expected);
    this.#taken += work.taken;
  }

  close(): void {
    this.clock.close();
  }

  /** Whether a connection is left for the class besides those that are kept for others. */
  #isFree(one: ClassQueue): boolean {
    const others = this.#taken - one.taken;
    return one.running < one.share.most && others + one.running < CONNECTIONS;
  }

  #wait(
    one: ClassQueue,
    requester: Requester,
    shape: Shape | undefined,
    since: number,
  ): Promise<Running | undefined> {
    const caller = this.#callerOf(one, requester);
    const problem = this.#refusal(one, caller, shape?.mean ?? shape?.cost);
    if (problem) {
      one.refused += 1;
      return Promise.reject(problem);
    }
    requester.park();
    const queue = one.queueOf(caller);
    const { key } = caller;
    return new Promise((resolve, reject) => {
      const end = (error?: Error): void => {
        stopListening();
        if (error) reject(error);
        else resolve(undefined);
      };
      const start = (): void => {
        stopListening();
        resolve(this.#begin(one, caller, shape));
      };
      const entry: WaitingStatement = { requester, shape, since, start, end };
      queue.push(key, entry);
      const stopListening = requester.onGone(() => {
        if (queue.remove(key, entry)) reject(new ClientGone());
      });
      // Those that wait may all be of clients that have what they may have, while a connection is free for this one.
      this.#startNext();
    });
  }

  #refusal(one: ClassQueue, caller: QueueClient, cost?: number): Problem | undefined {
    const { key, origin } = caller;
    const isSuspect = origin === 'anonymous' && one.name === 'trial' && this.#slow.isSuspect(key);
    if (isSuspect && one.queueOf(caller).sizeOf(key) >= MAX_WAITING_OF_SUSPECT) return TOO_MANY;
    if (one.waiting < MAX_WAITING && one.expectedWait(caller, cost) <= MAX_WAIT) return undefined;
    return one.isOwnFault(caller) ? TOO_MANY : OVERLOADED;
  }

  #startNext(): void {
    for (const one of this.#all) {
      while (one.waiting > 0 && this.#isFree(one)) {
        const entry = one.next();
        if (!entry) break;
        entry.start();
      }
    }
  }

  /** Sends waiting reads to the class of what is known of their shapes by now. */
  #reclassify(): void {
    for (const name of READS) {
      this.#classes[name].end(
        ({ shape, requester }) => shape !== undefined && isWrong(name, this.classOf(shape, requester)),
        () => undefined,
      );
    }
  }

  #refuseLate(): void {
    const latest = performance.now() - MAX_WAIT;
    for (const one of this.#all) {
      if (one.waiting === 0) continue;
      one.refused += one.end(
        ({ since }) => since <= latest,
        ({ requester }) => (one.isOwnFault(requester) ? TOO_MANY : OVERLOADED),
      );
    }
  }
}
