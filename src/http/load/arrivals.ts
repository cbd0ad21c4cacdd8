// Lets the process accept all connections that wait for it before it works on requests.
import { setImmediate as nextIteration } from 'node:timers/promises';

/** Milliseconds. */
const MAX_WAIT = 50;
/** Maximum milliseconds for which queued requests leave the iterations to new connections. */
const MAX_HELD = 20;
/** Milliseconds for which they then have them, so that a flood of connections does not take all of the time. */
const MIN_FREE = 5;
/** New connections are many if there are more of them per millisecond, beyond so many at once. At most so many more are counted. */
const MANY = { rate: 0.05, atOnce: 10, counted: 50 };

/**
 * Node accepts one connection in each iteration of the event loop. The system hands them over in the order of their arrival, so if
 * each iteration also works on a request, a client that opens many connections lets all others wait. Iterations without work are
 * short: they empty the queue of the system, and the requests then wait where clients take turns.
 */
export class Arrivals {
  readonly #maxWait: number;
  #hasAccepted = false;
  #end: Promise<void> | undefined;
  /** How many connections were accepted, in all and when `holdsQueue` was last called. */
  #count = 0;
  #countBefore = 0;
  /** How many connections were beyond the rate of `MANY` when the latest one was accepted, and when that was. */
  #excess = 0;
  #acceptedAt = -Infinity;
  /** Until when the queue is held at most; undefined while it is not. */
  #heldUntil: number | undefined;
  /** Until when it is not held again. */
  #freeUntil = -Infinity;

  /** @param maxWait milliseconds for which requests wait at most */
  constructor(maxWait = MAX_WAIT) {
    this.#maxWait = maxWait;
  }

  /** Reports a new connection. */
  accepted(): void {
    const now = performance.now();
    this.#excess = Math.min(this.#excessAt(now) + 1, MANY.atOnce + MANY.counted);
    this.#acceptedAt = now;
    this.#hasAccepted = true;
    this.#count += 1;
  }

  /**
   * Whether many connections have been accepted lately. Then others may wait in the system for longer than their clients do, also
   * while the process itself has little to do: several processes may all wait for a processor.
   */
  areMany(now: number): boolean {
    return this.#excessAt(now) > MANY.atOnce;
  }

  /**
   * Whether queued requests must leave this iteration to new connections: some were accepted since the last call, so more may wait.
   * Otherwise, requests of clients that have given up would delay all others, while newer connections wait in the system.
   * Must be called once in each iteration with queued requests.
   */
  holdsQueue(now: number): boolean {
    const isArriving = this.#count !== this.#countBefore;
    this.#countBefore = this.#count;
    if (!isArriving || now < this.#freeUntil) {
      this.#heldUntil = undefined;
      return false;
    }
    this.#heldUntil ??= now + MAX_HELD;
    if (now < this.#heldUntil) return true;
    this.#heldUntil = undefined;
    this.#freeUntil = now + MIN_FREE;
    return false;
  }

  /**
   * @returns undefined if no request needs to wait; else a promise that resolves after an iteration that has accepted no
   * connection, at the latest after `maxWait`
   */
  settled(): Promise<void> | undefined {
    if (!this.#hasAccepted) return this.#end;
    this.#end ??= this.#wait().finally(() => (this.#end = undefined));
    return this.#end;
  }

  #excessAt(now: number): number {
    return Math.max(0, this.#excess - (now - this.#acceptedAt) * MANY.rate);
  }

  async #wait(): Promise<void> {
    const until = performance.now() + this.#maxWait;
    await nextIteration();
    while (this.#hasAccepted && performance.now() < until) {
      this.#hasAccepted = false;
      await nextIteration();
    }
    this.#hasAccepted = false;
  }
}
