import { ClientQueue } from './client-queue.ts';

/** How many clients are remembered: those that were served last. */
const MAX_KNOWN = 64;
/** Maximum lead of known clients over new ones, or the reverse (milliseconds). */
const MAX_LEAD = 100;
/** The least time that an entry counts for (milliseconds), so that known and new clients alternate even at no cost. */
const MIN_COST = 0.01;

/**
 * A queue that gives its clients equal time, not equal turns (start-time fair queueing). The next entry belongs to the client
 * that has had the least time. So a client with brief work hardly waits for clients with long work.
 *
 * A client cannot save up time: when it begins to wait, it counts as having had as much time as the client served last.
 *
 * New clients share half of the time in order of arrival. So a client with many addresses, each used once, cannot shut out
 * known clients.
 */
export class TimeQueue<T> extends ClientQueue<T> {
  /** The time that known clients have had (milliseconds), least recently served first. */
  readonly #usedTime = new Map<string, number>();
  /** The used time of the known client that was served last. */
  #virtualTime = 0;
  /** The client whose entry was taken last and has not begun. */
  #taken: string | undefined;
  /** The time that known clients have had beyond that of new ones; negative if they had less (milliseconds). */
  #lead = 0;

  /**
   * Estimates how many entries are served before a new one of this client.
   * @param mean milliseconds that an entry is expected to take
   */
  ahead(key: string, mean: number): number {
    const isKnown = this.#usedTime.has(key);
    const own = this.sizeOf(key);
    const start = this.#usedBy(key) + own * mean;
    let sameKind = own;
    let otherKind = 0;
    for (const [other, entries] of this.waiting) {
      if (other === key) continue;
      if (this.#usedTime.has(other) !== isKnown) otherKind += entries.size;
      else if (!isKnown) sameKind += 1;
      else {
        const before = start - this.#usedBy(other);
        if (before >= 0) sameKind += Math.min(entries.size, 1 + Math.floor(before / mean));
      }
    }
    return sameKind + Math.min(otherKind, sameKind + 1);
  }

  override push(key: string, entry: T): void {
    if (!this.waiting.has(key) && this.#usedTime.has(key)) this.#usedTime.set(key, this.#usedBy(key));
    super.push(key, entry);
  }

  /**
   * Takes the next entry. The caller must then call `begin`.
   * @param mayRun skips clients for which it is false
   */
  shift(mayRun: (key: string) => boolean): T | undefined {
    let least = Infinity;
    let known: string | undefined;
    let newClient: string | undefined;
    for (const key of this.waiting.keys()) {
      const used = this.#usedTime.get(key);
      if (used === undefined ? newClient !== undefined : used >= least) continue;
      if (!mayRun(key)) continue;
      if (used === undefined) newClient = key;
      else [known, least] = [key, used];
    }
    const next = this.#lead >= 0 ? (newClient ?? known) : (known ?? newClient);
    if (next === undefined) return undefined;
    this.#taken = next;
    return this.takeFirst(next);
  }

  /**
   * Records that work of a client begins, from the queue or at once.
   * @param expected milliseconds that it will take
   */
  begin(key: string, expected: number): void {
    const used = (this.#taken === key ? this.#usedTime.get(key) : undefined) ?? this.#usedBy(key);
    this.#taken = undefined;
    this.#virtualTime = Math.max(this.#virtualTime, used);
    const cost = Math.max(MIN_COST, expected);
    const lead = this.#lead + (this.#usedTime.delete(key) ? cost : -cost);
    this.#lead = Math.max(-MAX_LEAD, Math.min(MAX_LEAD, lead));
    if (this.#usedTime.size >= MAX_KNOWN) this.#forgetOldest();
    this.#usedTime.set(key, used + expected);
  }

  /** @param milliseconds that the work took beyond the expected time; negative if it took less */
  correct(key: string, milliseconds: number): void {
    const used = this.#usedTime.get(key);
    if (used !== undefined) this.#usedTime.set(key, used + milliseconds);
  }

  /** A client that waits keeps the value from when it began to wait. */
  #usedBy(key: string): number {
    const used = this.#usedTime.get(key) ?? this.#virtualTime;
    return this.waiting.has(key) ? used : Math.max(this.#virtualTime, used);
  }

  /** A client that waits is not forgotten: it would lose its place. */
  #forgetOldest(): void {
    for (const key of this.#usedTime.keys()) {
      if (this.waiting.has(key)) continue;
      this.#usedTime.delete(key);
      return;
    }
  }
}
