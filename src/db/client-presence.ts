// Notices whether more than one client is present.

/** Milliseconds for which a client counts as present after its last request. */
const PRESENCE_TIME = 1_000;

export class ClientPresence {
  #latest: string | undefined;
  #latestAt = -Infinity;
  /** Since when all requests are of the latest client. */
  #since = -Infinity;
  #othersUntil = -Infinity;

  /** Notes a request of a client. @param now milliseconds, as of `performance.now` */
  note(key: string, now: number): void {
    if (key !== this.#latest) {
      if (this.#latest !== undefined) this.#othersUntil = now + PRESENCE_TIME;
      this.#since = now;
    }
    this.#latest = key;
    this.#latestAt = now;
  }

  /** Whether no other client has been present for some time. */
  isAlone(key: string, now: number): boolean {
    return key === this.#latest && now - this.#since >= PRESENCE_TIME && !this.hasSeveral(now);
  }

  /** Whether another client is present. */
  hasOther(key: string, now: number): boolean {
    return this.hasSeveral(now) || (key !== this.#latest && now - this.#latestAt < PRESENCE_TIME);
  }

  /** Whether several clients are present. */
  hasSeveral(now: number): boolean {
    return now < this.#othersUntil;
  }
}
