// Notices whether more than one client is present.

export class ClientPresence {
  readonly #presenceTime: number;
  #latest: string | undefined;
  #latestAt = -Infinity;
  /** Since when all requests are of the latest client. */
  #since = -Infinity;
  #othersUntil = -Infinity;

  /**
   * @param presenceTime milliseconds for which a client counts as present after its last request. For PostgreSQL these are many, so
   * that a client that asks every few seconds finds room, too.
   */
  constructor(presenceTime = 10_000) {
    this.#presenceTime = presenceTime;
  }

  /** Notes a request of a client. @param now milliseconds, as of `performance.now` */
  note(key: string, now: number): void {
    if (key !== this.#latest) {
      if (this.#latest !== undefined) this.#othersUntil = now + this.#presenceTime;
      this.#since = now;
    }
    this.#latest = key;
    this.#latestAt = now;
  }

  /** Whether no other client has been present for some time. */
  isAlone(key: string, now: number): boolean {
    return key === this.#latest && now - this.#since >= this.#presenceTime && !this.hasSeveral(now);
  }

  /** Whether another client is present. */
  hasOther(key: string, now: number): boolean {
    return this.hasSeveral(now) || (key !== this.#latest && now - this.#latestAt < this.#presenceTime);
  }

  /** Whether several clients are present. */
  hasSeveral(now: number): boolean {
    return now < this.#othersUntil;
  }
}
