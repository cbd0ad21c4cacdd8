// Divides work that comes all at once among several turns of the event loop.

/** Milliseconds of each turn. Work beyond them waits for the next turns. */
const TURN = 5;

/** Does work in turns that leave the event loop to other work after 5 ms. */
export class Turns {
  readonly #waiting: (() => void)[] = [];
  #used = 0;
  #isScheduled = false;

  /** Does the work at once if this turn has time for it, else in one of the next turns. */
  take(work: () => void): void {
    if (this.#used < TURN && this.#waiting.length === 0) this.#run(work);
    else this.#waiting.push(work);
    this.#schedule();
  }

  #run(work: () => void): void {
    const start = performance.now();
    work();
    this.#used += performance.now() - start;
  }

  #schedule(): void {
    if (this.#isScheduled) return;
    this.#isScheduled = true;
    setImmediate(() => {
      this.#isScheduled = false;
      this.#used = 0;
      for (let work; this.#used < TURN && (work = this.#waiting.shift());) this.#run(work);
      if (this.#waiting.length > 0) this.#schedule();
    });
  }
}
