// Divides work that comes all at once among several iterations of the event loop.

/** Milliseconds of work in one iteration. Further work waits for the next ones. */
const TURN = 5;

interface Work {
  readonly run: () => void;
  /** Receives the milliseconds that the work has taken, up to its next wait for something else. */
  readonly ended?: ((milliseconds: number) => void) | undefined;
}

/** Does work in turns that leave the event loop to other work after 5 ms. */
export class Turns {
  readonly #waiting: Work[] = [];
  #used = 0;
  #isScheduled = false;

  /** Does the work at once if this iteration has time for it, else in one of the next ones. */
  take(run: () => void): void {
    if (this.#used < TURN && this.#waiting.length === 0) {
      const start = performance.now();
      run();
      this.#used += performance.now() - start;
    } else this.#waiting.push({ run });
    this.#schedule();
  }

  /**
   * Resolves in one of the next iterations. What the caller then does before its next wait counts as work.
   * @param ended receives the milliseconds that this has taken
   */
  next(ended?: Work['ended']): Promise<void> {
    return new Promise((run) => {
      this.#waiting.push({ run, ended });
      this.#schedule();
    });
  }

  /**
   * For work that may become possible for many callers at the same moment.
   * @returns undefined for the first of an iteration, which may go on at once; else see `next`
   */
  enter(ended?: Work['ended']): Promise<void> | undefined {
    if (this.#isScheduled || this.#waiting.length > 0) return this.next(ended);
    this.#schedule();
    return undefined;
  }

  #schedule(): void {
    if (this.#isScheduled) return;
    this.#isScheduled = true;
    setImmediate(() => {
      this.#isScheduled = false;
      this.#used = 0;
      this.#run();
    });
  }

  readonly #run = (): void => {
    const work = this.#waiting.shift();
    if (!work) return;
    const start = performance.now();
    work.run();
    // A tick that a microtask has queued runs after all other microtasks.
    queueMicrotask(() =>
      process.nextTick(() => {
        const took = performance.now() - start;
        this.#used += took;
        work.ended?.(took);
        if (this.#used < TURN) this.#run();
        else if (this.#waiting.length > 0) this.#schedule();
      }),
    );
  };
}
