/** A queue that serves its clients in turn, so that a client with many entries delays only itself. */
export class FairQueue<T> {
  /** The entries of each client, the oldest first. Clients are in the order in which they are served next. */
  readonly #clients = new Map<string, Set<T>>();
  #size = 0;

  get size(): number {
    return this.#size;
  }

  /** How many clients have entries. */
  get clients(): number {
    return this.#clients.size;
  }

  /** How many entries a client has. */
  sizeOf(key: string): number {
    return this.#clients.get(key)?.size ?? 0;
  }

  /** How many entries are served before a new one of this client. */
  ahead(key: string): number {
    const own = this.sizeOf(key);
    const clients = this.#clients.size + (own === 0 ? 1 : 0);
    return Math.min(this.#size, own * clients + clients - 1);
  }

  push(key: string, entry: T): void {
    const entries = this.#clients.get(key);
    if (entries) entries.add(entry);
    else this.#clients.set(key, new Set([entry]));
    this.#size += 1;
  }

  /** @returns whether the entry was in the queue */
  remove(key: string, entry: T): boolean {
    const entries = this.#clients.get(key);
    if (!entries?.delete(entry)) return false;
    this.#size -= 1;
    if (entries.size === 0) this.#clients.delete(key);
    return true;
  }

  /**
   * Takes the oldest entry of the next client.
   * @param mayRun skips clients for which it is false
   */
  shift(mayRun: (key: string) => boolean): T | undefined {
    for (const [key, entries] of this.#clients) {
      if (!mayRun(key)) continue;
      const first = entries.values().next();
      if (first.done === true) continue;
      const entry = first.value;
      entries.delete(entry);
      this.#size -= 1;
      // Nobody else is waiting: the order stays as it is.
      if (this.#clients.size === 1 && entries.size > 0) return entry;
      // The client moves to the end of the order.
      this.#clients.delete(key);
      if (entries.size > 0) this.#clients.set(key, entries);
      return entry;
    }
    return undefined;
  }

  /** All entries, in no particular order. */
  *entries(): Iterable<readonly [key: string, entry: T]> {
    for (const [key, entries] of this.#clients) for (const entry of entries) yield [key, entry];
  }
}
