// Excludes what has delayed others, for a time that doubles with each delay.
import { RecentMap } from './recent-map.ts';

/** Milliseconds of the first exclusion, and of the longest. */
const FIRST = 2_000;
const LONGEST = 10 * 60_000;
/** How many good events undo one delay. */
const EVENTS_PER_DELAY = 500;
/** Maximum number of remembered keys. */
const MAX_KEYS = 1_000;

interface Record {
  /** Delays that good events have not undone yet. */
  delays: number;
  /** Milliseconds, as of `performance.now`. */
  until: number;
}

export class Exclusions<K> {
  readonly #records = new RecentMap<K, Record>(MAX_KEYS);

  isExcluded(key: K): boolean {
    const record = this.#records.get(key);
    return record !== undefined && performance.now() < record.until;
  }

  noteDelay(key: K): void {
    const record = this.#records.get(key) ?? { delays: 0, until: 0 };
    record.until = performance.now() + Math.min(FIRST * 2 ** record.delays, LONGEST);
    record.delays += 1;
    this.#records.set(key, record);
  }

  noteSuccess(key: K): void {
    const record = this.#records.get(key);
    if (!record) return;
    record.delays -= 1 / EVENTS_PER_DELAY;
    if (record.delays <= 0) this.#records.delete(key);
  }
}
