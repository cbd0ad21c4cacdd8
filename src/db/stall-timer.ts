// Detects that a statement on a pipelined connection delays those behind it.

/** How many ticks without an answer count as a stall, and the length of a tick (milliseconds). */
const STALL_TICKS = 4;
const TICK = 25;

/**
 * Counts ticks of a timer and not time, so that answers that a busy event loop has not read yet do not count as missing.
 */
export class StallTimer {
  readonly #timer: NodeJS.Timeout;
  #ticks = 0;

  /** @param onStalled runs with every tick of a stall */
  constructor(onStalled: () => void) {
    this.#timer = setInterval(() => {
      this.#ticks += 1;
      if (this.isStalled) onStalled();
    }, TICK).unref();
  }

  get isStalled(): boolean {
    return this.#ticks > STALL_TICKS;
  }

  /** Starts over, with an answer or with the first statement after none was running. */
  restart(): void {
    this.#ticks = 0;
  }

  stop(): void {
    clearInterval(this.#timer);
  }
}
