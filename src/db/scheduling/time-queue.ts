import { ClientQueue } from './client-queue.ts';

/** Clients that count as known: those that were served last. */
const MAX_KNOWN = 64;
/** Milliseconds by which known clients, or new ones, may be ahead: what they had while the others did not wait is forgotten. */
const MAX_LEAD = 100;
/** What counts of work that is expected to take no time, so that known clients and new ones still take turns. */
const LEAST = 0.01;

/**
 * A queue that gives its clients equal time, not equal turns: the next entry is one of the client that has had the least. A client
 * with brief work hardly waits for any number of clients with long work (start-time fair queueing). Nobody saves up time by not
 * asking for it: a client that begins to wait counts as having had as much as the one that is served at the moment.
 *
 * That holds for known clients. New ones get half of the time, in the order in which they came: a client with any number of
 * addresses, each used once, shuts out neither those that are there nor the next new one.
 */
export class TimeQueue<T> extends ClientQueue<T> {
  /** The time that known clients have had (milliseconds), those first that were served longest ago. */
  readonly #had = new Map<string, number>();
  /** What the known client had that was served last: the clock of this queue. */
  #now = 0;
  /** The client whose entry was taken last and has not begun. */
  #taken: string | undefined;
  /** The time that known clients were given beyond that of new ones, or less than 0 (milliseconds). */
  #lead = 0;

  /**
   * How many entries are probably served before a new one of this client.
   * @param mean milliseconds that an entry is expected to take
   */
  ahead(key: string, mean: number): number {
    const isKnown = this.#had.has(key);
    const own = this.sizeOf(key);
    const begins = this.#hadBy(key) + own * mean;
    let same = own;
    let others = 0;
    for (const [other, entries] of this.waiting) {
      if (other === key) continue;
      if (this.#had.has(other) !== isKnown) others += entries.size;
      else if (!isKnown) same += 1;
      else {
        const before = begins - this.#hadBy(other);
        if (before >= 0) same += Math.min(entries.size, 1 + Math.floor(before / mean));
      }
    }
    return same + Math.min(others, same + 1);
  }

  override push(key: string, entry: T): void {
    if (!this.waiting.has(key) && this.#had.has(key)) this.#had.set(key, this.#hadBy(key));
    super.push(key, entry);
  }

  /**
   * Takes the next entry. `begin` must follow.
   * @param mayRun skips clients for which it is false
   */
  shift(mayRun: (key: string) => boolean): T | undefined {
    let least = Infinity;
    let known: string | undefined;
    let newOne: string | undefined;
    for (const key of this.waiting.keys()) {
      const had = this.#had.get(key);
      if (had === undefined ? newOne !== undefined : had >= least) continue;
      if (!mayRun(key)) continue;
      if (had === undefined) newOne = key;
      else [known, least] = [key, had];
    }
    const next = this.#lead >= 0 ? (newOne ?? known) : (known ?? newOne);
    if (next === undefined) return undefined;
    this.#taken = next;
    return this.takeFirst(next);
  }

  /**
   * Notes that work of a client begins, from the queue or at once.
   * @param expected milliseconds that it will take
   */
  begin(key: string, expected: number): void {
    const had = (this.#taken === key ? this.#had.get(key) : undefined) ?? this.#hadBy(key);
    this.#taken = undefined;
    this.#now = Math.max(this.#now, had);
    const given = Math.max(LEAST, expected);
    const lead = this.#lead + (this.#had.delete(key) ? given : -given);
    this.#lead = Math.max(-MAX_LEAD, Math.min(MAX_LEAD, lead));
    if (this.#had.size >= MAX_KNOWN) this.#forgetOldest();
    this.#had.set(key, had + expected);
  }

  /** @param milliseconds that the work took longer than expected, or less than 0 */
  correct(key: string, milliseconds: number): void {
    const had = this.#had.get(key);
    if (had !== undefined) this.#had.set(key, had + milliseconds);
  }

  /** One that waits keeps what it had when it began to. */
  #hadBy(key: string): number {
    const had = this.#had.get(key) ?? this.#now;
    return this.waiting.has(key) ? had : Math.max(this.#now, had);
  }

  /** One that waits is not forgotten: it would lose its place. */
  #forgetOldest(): void {
    for (const key of this.#had.keys()) {
      if (this.waiting.has(key)) continue;
      this.#had.delete(key);
      return;
    }
  }
}
