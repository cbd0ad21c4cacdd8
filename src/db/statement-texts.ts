// Decides which statements are prepared: each connection keeps those that it has prepared.
import { RecentMap } from './recent-map.ts';

/** Maximum texts that were used once lately, and that are prepared. */
const MAX_SEEN = 500;
const MAX_PREPARED = 200;
/** Longer texts are not remembered: clients can make texts of more than 100,000 characters. */
export const MAX_TEXT = 8 * 1024;

export class StatementTexts {
  readonly #seen = new RecentMap<string, true>(MAX_SEEN);
  readonly #prepared = new RecentMap<string, true>(MAX_PREPARED);

  /** Counts a use. @returns whether to prepare the statement: from its second use on, so that a single use displaces no other */
  use(text: string): boolean {
    if (text.length > MAX_TEXT) return false;
    if (!this.#prepared.get(text)) {
      if (!this.#seen.get(text)) {
        this.#seen.set(text, true);
        return false;
      }
      this.#seen.delete(text);
    }
    this.#prepared.set(text, true); // also if it is there, so that the least recently used makes room
    return true;
  }
}
