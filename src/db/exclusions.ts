// Excludes what has delayed others, for a time that doubles with each delay.
import { RecentMap } from './recent-map.ts';

/** Milliseconds of the first exclusion, and of the longest. */
const FIRST = 2_000;
const LONGEST = 10 * 60_000;
/** How many good events undo one delay. */
const EVENTS_PER_DELAY = 500;
/** Maximum number of remembered keys. */
const MAX_KEYS = 1_000;

interface Entry {
  /** Delays that good events have not undone yet. */
  delays: number;
  /** Milliseconds, as of `performance.now`. */
  until: number;
}

export class Exclusions<K> {
  readonly #entries = new RecentMap<K, Entry>(MAX_KEYS);

  isExcluded(key: K): boolean {
    const entry = this.#entries.get(key);
    return entry !== undefined && performance.now() < entry.until;
  }

  noteDelay(key: K): void {
    const entry = this.#entries.get(key) ?? { delays: 0, until: 0 };
    entry.until = performance.now() + Math.min(FIRST * 2 ** entry.delays, LONGEST);
    entry.delays += 1;
    this.#entries.set(key, entry);
  }

  noteSuccess(key: K): void {
    const entry = this.#entries.get(key);
    if (!entry) return;
    entry.delays -= 1 / EVENTS_PER_DELAY;
    if (entry.delays <= 0) this.#entries.delete(key);
  }
}
