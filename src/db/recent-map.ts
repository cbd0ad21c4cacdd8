/** A map that forgets the entry that was not set for longest when it is full. */
export class RecentMap<K, V> {
  readonly #entries = new Map<K, V>();
  readonly #maxSize: number;

  constructor(maxSize: number) {
    this.#maxSize = maxSize;
  }

  get(key: K): V | undefined {
    return this.#entries.get(key);
  }

  set(key: K, value: V): void {
    this.#entries.delete(key); // Reinserted last, so that the first is always the oldest.
    if (this.#entries.size >= this.#maxSize)
      for (const oldest of this.#entries.keys()) {
        this.#entries.delete(oldest);
        break;
      }
    this.#entries.set(key, value);
  }

  delete(key: K): void {
    this.#entries.delete(key);
  }
}
