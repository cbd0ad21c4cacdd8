/** A queue that serves its clients in turn, so that a client with many entries delays only itself (round robin). */
export class FairQueue<T> {
  /** The clients in the order in which they are served, with their entries, the oldest first. */
  readonly #byClient = new Map<string, Set<T>>();
  #size = 0;

  get size(): number {
    return this.#size;
  }

  /** How many entries a client has. */
  sizeOf(client: string): number {
    return this.#byClient.get(client)?.size ?? 0;
  }

  /** All entries, those of each client together. */
  *[Symbol.iterator](): Generator<T> {
    for (const entries of this.#byClient.values()) yield* entries;
  }

  push(client: string, entry: T): void {
    const entries = this.#byClient.get(client);
    if (entries) entries.add(entry);
    else this.#byClient.set(client, new Set([entry]));
    this.#size += 1;
  }

  /** @returns whether the entry was in the queue */
  remove(client: string, entry: T): boolean {
    const entries = this.#byClient.get(client);
    if (!entries?.delete(entry)) return false;
    this.#size -= 1;
    if (entries.size === 0) this.#byClient.delete(client);
    return true;
  }

  /** Takes the oldest entry that may run of the next client that has one. The client moves to the end of the order. */
  shift(mayRun: (entry: T) => boolean = () => true): T | undefined {
    for (const [client, entries] of this.#byClient) {
      for (const entry of entries) {
        if (!mayRun(entry)) continue;
        this.remove(client, entry);
        if (this.#byClient.delete(client)) this.#byClient.set(client, entries);
        return entry;
      }
    }
    return undefined;
  }

  /** Takes the newest entry of the client with the most entries, if these are more than `count`. */
  takeFromLongest(count: number): T | undefined {
    let longest: string | undefined;
    let most = count;
    for (const [client, { size }] of this.#byClient) if (size > most) [longest, most] = [client, size];
    if (longest === undefined) return undefined;
    const newest = [...(this.#byClient.get(longest) ?? [])].at(-1);
    if (newest !== undefined) this.remove(longest, newest);
    return newest;
  }
}
