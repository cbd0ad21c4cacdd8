// Lets the process accept all connections that wait for it before it works on requests.
import { setImmediate as nextIteration } from 'node:timers/promises';

/** Maximum milliseconds for which a request waits for the end of a burst of connections. */
const MAX_WAIT = 50;
/** Maximum milliseconds for which queued requests wait while new connections keep arriving. */
const MAX_HELD = 20;
/** Minimum milliseconds between two such waits, so that a flood of connections does not stop all requests. */
const MIN_FREE = 5;
/**
 * A burst: more connections per millisecond than `rate`, beyond the first `allowance`. At most `maxExcess` of them count, so that a
 * burst ends after a second without new connections.
 */
const BURST = { rate: 0.05, allowance: 10, maxExcess: 50 };

/**
 * Node accepts one connection in each iteration of the event loop, in the order of their arrival. If each iteration also works on a
 * request, a client that opens many connections delays all others. Iterations without work are short: they accept all waiting
 * connections, whose requests then queue where clients take turns.
 */
export class Arrivals {
  readonly #maxWait: number;
  #hasAccepted = false;
  #end: Promise<void> | undefined;
  /** How many connections were accepted, in all and when `decideHold` was last called. */
  #count = 0;
  #countBefore = 0;
  /** How many connections were beyond the rate of `BURST` when the latest one was accepted, and when that was. */
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
    this.#excess = Math.min(this.#excessAt(now) + 1, BURST.allowance + BURST.maxExcess);
    this.#acceptedAt = now;
    this.#hasAccepted = true;
    this.#count += 1;
  }

  /**
   * Whether many connections were accepted recently. Then others may wait in the system's queue for longer than their clients do,
   * even if this process has little to do: several processes may wait for one processor.
   */
  isBurst(now: number): boolean {
    return this.#excessAt(now) > BURST.allowance;
  }

  /**
   * Whether queued requests must leave this iteration to new connections: some were accepted since the last call, so more may wait.
   * Otherwise, requests of clients that have disconnected would delay all others, while newer connections wait in the system.
   * Must be called once in each iteration with queued requests.
   */
  decideHold(now: number): boolean {
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
  afterBurst(): Promise<void> | undefined {
    if (!this.#hasAccepted) return this.#end;
    this.#end ??= this.#wait().finally(() => (this.#end = undefined));
    return this.#end;
  }

  #excessAt(now: number): number {
    return Math.max(0, this.#excess - (now - this.#acceptedAt) * BURST.rate);
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
