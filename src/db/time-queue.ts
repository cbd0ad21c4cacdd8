import { ClientQueue } from './client-queue.ts';

/** Clients whose time is remembered while they do not wait. */
const MAX_CLIENTS = 10_000;

/**
 * A queue that gives its clients equal time, not equal turns: the next entry is one of the client that has had the least. A client
 * with brief work hardly waits for any number of clients with long work (start-time fair queueing). Nobody saves up time by not
 * asking for it: a client that begins to wait counts as having had as much as the one that is served at the moment. A credit would
 * let many new clients shut out those that are there.
 */
export class TimeQueue<T> extends ClientQueue<T> {
  /** The time that clients have had (milliseconds). */
  readonly #had = new Map<string, number>();
  /** What the client had that was served last: the clock of this queue. */
  #now = 0;
  /** The client whose entry was taken last and has not begun. */
  #taken: string | undefined;

  /**
   * How many entries are probably served before a new one of this client.
   * @param mean milliseconds that an entry is expected to take
   */
  ahead(key: string, mean: number): number {
    const own = this.sizeOf(key);
    const begins = this.#hadBy(key) + own * mean;
    let ahead = own;
    for (const [other, entries] of this.waiting) {
      const before = begins - this.#hadBy(other);
      if (other !== key && before >= 0) ahead += Math.min(entries.size, 1 + Math.floor(before / mean));
    }
    return ahead;
  }

  override push(key: string, entry: T): void {
    if (!this.waiting.has(key)) this.#note(key, this.#hadBy(key));
    super.push(key, entry);
  }

  /**
   * Takes the oldest entry of the client that has had the least time. `begin` must follow.
   * @param mayRun skips clients for which it is false
   */
  shift(mayRun: (key: string) => boolean): T | undefined {
    let least = Infinity;
    let next: string | undefined;
    for (const key of this.waiting.keys()) {
      const had = this.#hadBy(key);
      if (had >= least || !mayRun(key)) continue;
      least = had;
      next = key;
    }
    if (next === undefined) return undefined;
    this.#taken = next;
    return this.takeFirst(next);
  }

  /**
   * Notes that work of a client begins, from the queue or at once.
   * @param expected milliseconds that it will take
   */
  begin(key: string, expected: number): void {
    const had = this.#taken === key ? (this.#had.get(key) ?? 0) : this.#hadBy(key);
    this.#taken = undefined;
    this.#now = Math.max(this.#now, had);
    this.#note(key, had + expected);
  }

  /** @param milliseconds that the work took longer than expected, or less than 0 */
  correct(key: string, milliseconds: number): void {
    const had = this.#had.get(key);
    if (had !== undefined) this.#had.set(key, had + milliseconds);
  }

  /** One that waits keeps what it had when it began to. */
  #hadBy(key: string): number {
    const had = this.#had.get(key) ?? 0;
    return this.waiting.has(key) ? had : Math.max(this.#now, had);
  }

  #note(key: string, had: number): void {
    if (this.#had.size >= MAX_CLIENTS && !this.#had.has(key)) this.#forget();
    this.#had.set(key, had);
  }

  /** Forgets what no longer counts, or else all but what those have had that wait. */
  #forget(): void {
    for (const [key, had] of this.#had) if (had <= this.#now && !this.waiting.has(key)) this.#had.delete(key);
    if (this.#had.size < MAX_CLIENTS) return;
    for (const key of this.#had.keys()) if (!this.waiting.has(key)) this.#had.delete(key);
  }
}
