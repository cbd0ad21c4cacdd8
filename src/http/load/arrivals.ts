// Lets the process accept all connections that wait for it before it works on requests.
import { setImmediate as nextIteration } from 'node:timers/promises';

/** Milliseconds. */
const MAX_WAIT = 50;

/**
 * Node accepts one connection in each iteration of the event loop. The system hands them over in the order of their arrival, so if
 * each iteration also works on a request, a client that opens many connections lets all others wait. Iterations without work are
 * short: they empty the queue of the system, and the requests then wait where clients take turns.
 */
export class Arrivals {
  readonly #maxWait: number;
  #hasAccepted = false;
  #end: Promise<void> | undefined;

  /** @param maxWait milliseconds for which requests wait at most */
  constructor(maxWait = MAX_WAIT) {
    this.#maxWait = maxWait;
  }

  /** Reports a new connection. */
  accepted(): void {
    this.#hasAccepted = true;
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
