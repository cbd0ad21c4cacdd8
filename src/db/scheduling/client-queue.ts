/** A queue with one list of entries per client. */
export abstract class ClientQueue<T> {
  /** The entries of each client, the oldest first. Subclasses decide which client is next. */
  protected readonly byClient = new Map<string, Set<T>>();
  #size = 0;

  get size(): number {
    return this.#size;
  }

  /** How many clients have entries. */
  get clients(): number {
    return this.byClient.size;
  }

  /** How many entries a client has. */
  sizeOf(key: string): number {
    return this.byClient.get(key)?.size ?? 0;
  }

  push(key: string, entry: T): void {
    const entries = this.byClient.get(key);
    if (entries) entries.add(entry);
    else this.byClient.set(key, new Set([entry]));
    this.#size += 1;
  }

  /** @returns whether the entry was in the queue */
  remove(key: string, entry: T): boolean {
    const entries = this.byClient.get(key);
    if (!entries?.delete(entry)) return false;
    this.#size -= 1;
    if (entries.size === 0) this.byClient.delete(key);
    return true;
  }

  /** The oldest entry of a client. */
  protected first(key: string): T | undefined {
    return this.byClient.get(key)?.values().next().value;
  }

  /**
   * The oldest entry of a client that may run.
   * @param mayBePassed whether later entries of the same client may overtake an entry that may not run
   */
  protected firstReady(
    key: string,
    mayRun: (entry: T) => boolean,
    mayBePassed: (entry: T) => boolean,
  ): T | undefined {
    for (const entry of this.byClient.get(key) ?? []) {
      if (mayRun(entry)) return entry;
      if (!mayBePassed(entry)) return undefined;
    }
    return undefined;
  }

  /** The most entries of one client. */
  get longest(): number {
    let most = 0;
    for (const { size } of this.byClient.values()) most = Math.max(most, size);
    return most;
  }

  /** The client with the most entries, if these are more than `count`. */
  protected longestKey(count: number): string | undefined {
    let longest: string | undefined;
    let most = count;
    for (const [key, { size }] of this.byClient) if (size > most) [longest, most] = [key, size];
    return longest;
  }

  /** Takes the newest entry of the client with the most entries, if these are more than `count`. */
  takeFromLongest(count: number): T | undefined {
    const longest = this.longestKey(count);
    if (longest === undefined) return undefined;
    const newest = [...(this.byClient.get(longest) ?? [])].at(-1);
    if (newest !== undefined) this.remove(longest, newest);
    return newest;
  }

  /** All entries, in no particular order. */
  *entries(): Iterable<readonly [key: string, entry: T]> {
    for (const [key, entries] of this.byClient) for (const entry of entries) yield [key, entry];
  }
}
