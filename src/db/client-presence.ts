// Notices whether more than one client is present.

/** Milliseconds for which a client counts as present after its last request. */
const PRESENCE_TIME = 1_000;

export class ClientPresence {
  #latest: string | undefined;
  #othersUntil = -Infinity;

  /** Notes a request of a client. @param now milliseconds, as of `performance.now` */
  note(key: string, now: number): void {
    if (key !== (this.#latest ?? key)) this.#othersUntil = now + PRESENCE_TIME;
    this.#latest = key;
  }

  /** Whether several clients are present. */
  hasSeveral(now: number): boolean {
    return now < this.#othersUntil;
  }
}
