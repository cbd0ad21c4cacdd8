/** How much of the time a client may use without being counted as costly, as a share. */
const FORGIVEN = 0.25;
/** How much is remembered at most, as a multiple of what is allowed. */
const REMEMBERED = 20;
const MAX_CLIENTS = 1_000;

interface Level {
  readonly milliseconds: number;
  readonly at: number;
}

/** The time that each client's long pieces of work have taken lately. */
export class Usage {
  readonly #allowed: number;
  readonly #levels = new Map<string, Level>();
  /** Until when a client may be costly (milliseconds, as of `performance.now`). */
  until = -Infinity;

  /** @param allowed milliseconds beyond its share of the time that a client may use at once */
  constructor(allowed: number) {
    this.#allowed = allowed;
  }

  /** Whether the client uses more than its share. */
  isCostly(key: string, now: number): boolean {
    return this.#level(key, now) > this.#allowed;
  }

  charge(key: string, milliseconds: number, now: number): void {
    const level = Math.min(this.#level(key, now) + milliseconds, this.#allowed * REMEMBERED);
    this.#levels.delete(key); // the latest is the last, so that the oldest makes room
    if (this.#levels.size >= MAX_CLIENTS)
      for (const first of this.#levels.keys()) {
        this.#levels.delete(first);
        break;
      }
    this.#levels.set(key, { milliseconds: level, at: now });
    this.until = Math.max(this.until, now + (level - this.#allowed) / FORGIVEN);
  }

  #level(key: string, now: number): number {
    const level = this.#levels.get(key);
    return level ? Math.max(0, level.milliseconds - (now - level.at) * FORGIVEN) : 0;
  }
}
