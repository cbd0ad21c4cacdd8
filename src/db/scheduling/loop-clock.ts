// A clock that does not count long blocks of the event loop.

/** How often the clock is set (milliseconds). */
const TICK = 50;
/** Maximum time that one turn of the event loop counts for (milliseconds). */
const MAX_TURN = 2 * TICK;

/**
 * Measures the durations of statements. While the event loop is blocked, answers wait to be read, and the database must not look
 * slow for that.
 */
export class LoopClock {
  readonly #onTick: () => void;
  readonly #timer = setInterval(() => this.#tick(), TICK).unref();
  #elapsed = 0;
  #setAt = performance.now();

  /** @param onTick runs about 20 times a second */
  constructor(onTick: () => void) {
    this.#onTick = onTick;
  }

  /** Milliseconds since the clock was started. */
  now(): number {
    return this.#elapsed + Math.min(performance.now() - this.#setAt, MAX_TURN);
  }

  close(): void {
    clearInterval(this.#timer);
  }

  #tick(): void {
    this.#elapsed = this.now();
    this.#setAt = performance.now();
    this.#onTick();
  }
}
