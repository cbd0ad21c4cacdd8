// Divides work that comes all at once among several iterations of the event loop.

/** Milliseconds of work in one iteration. Further work waits for the next ones. */
const TURN = 5;

/** Does work in turns that leave the event loop to other work after 5 ms. */
export class Turns {
  readonly #waiting: (() => void)[] = [];
  #used = 0;
  #isScheduled = false;

  /** Does the work at once if this iteration has time for it, else in one of the next ones. */
  take(work: () => void): void {
    if (this.#used < TURN && this.#waiting.length === 0) {
      const start = performance.now();
      work();
      this.#used += performance.now() - start;
    } else this.#waiting.push(work);
    this.#schedule();
  }

  /** Resolves in an iteration that has time for it. What the caller then does before its next wait counts as work. */
  next(): Promise<void> {
    return new Promise((resolve) => {
      this.#waiting.push(resolve);
      this.#schedule();
    });
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
    work();
    // A tick that a microtask has queued runs after all other microtasks.
    queueMicrotask(() =>
      process.nextTick(() => {
        this.#used += performance.now() - start;
        if (this.#used < TURN) this.#run();
        else if (this.#waiting.length > 0) this.#schedule();
      }),
    );
  };
}
