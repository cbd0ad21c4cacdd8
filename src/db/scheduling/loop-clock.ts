/** How often the clock is set (milliseconds). */
const TICK = 50;
/** The most that one turn of the event loop counts for (milliseconds). */
const LONGEST_TURN = 2 * TICK;

/**
 * Time as the event loop sees it: a turn that holds it for long counts as a short one. Answers that wait to be read meanwhile
 * must not look as if the database had been slow.
 */
export class LoopClock {
  readonly #onTick: () => void;
  readonly #timer = setInterval(() => this.#tick(), TICK).unref();
  #elapsed = 0;
  #set = performance.now();

  /** @param onTick is called about 20 times a second */
  constructor(onTick: () => void) {
    this.#onTick = onTick;
  }

  /** Milliseconds since the clock was started. */
  now(): number {
    return this.#elapsed + Math.min(performance.now() - this.#set, LONGEST_TURN);
  }

  close(): void {
    clearInterval(this.#timer);
  }

  #tick(): void {
    this.#elapsed = this.now();
    this.#set = performance.now();
    this.#onTick();
  }
}
