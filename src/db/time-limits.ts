// Ends statements past their time limit.

/** How often the limits are checked (milliseconds). */
const CHECK = 50;

interface Limited {
  /** Milliseconds, as of `performance.now`. */
  readonly until: number;
  readonly end: () => void;
}

/** A timer for each statement would cost more than most of them. All get the same limit, so the oldest ends first. */
export class TimeLimits {
  readonly #limit: number;
  /** In the order in which they began. */
  readonly #limited = new Set<Limited>();
  readonly #check = setInterval(() => this.#endLate(), CHECK).unref();

  /** @param limit milliseconds */
  constructor(limit: number) {
    this.#limit = limit;
  }

  /**
   * Calls `end` once the limit is over.
   * @param sent resolves when the limit begins; undefined if that is now
   * @returns lifts the limit
   */
  start(end: () => void, sent?: Promise<void>): () => void {
    let isLifted = false;
    let limited: Limited | undefined;
    const begin = (): void => {
      if (isLifted) return;
      limited = { until: performance.now() + this.#limit, end };
      this.#limited.add(limited);
    };
    if (sent) void sent.then(begin);
    else begin();
    return () => {
      isLifted = true;
      if (limited) this.#limited.delete(limited);
    };
  }

  close(): void {
    clearInterval(this.#check);
  }

  #endLate(): void {
    const now = performance.now();
    for (const limited of this.#limited) {
      if (limited.until > now) return; // A Set keeps the order of insertion.
      this.#limited.delete(limited);
      limited.end();
    }
  }
}
