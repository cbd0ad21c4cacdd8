import type { Statement } from './fragment.ts';
import type { RawRow } from './pool.ts';

/** Bytes from which on an answer is large: many of them in a row delay what is behind them. */
const LARGE = 256 * 1024;
/** Milliseconds for which a text counts as large after a large answer, whatever later answers are. */
const LARGE_FOR = 10 * 60_000;
/** How many texts are remembered of each kind. */
const MAX_TEXTS = 1_000;

/** The first value of an answer is nearly all of it. A page that would be too large for `MAX_PAGE` is null. */
function isLarge({ isPage }: Statement, rows: readonly RawRow[]): boolean {
  const value = rows[0]?.[0];
  return value ? value.length > LARGE : isPage === true && value === null;
}

function limitSize(collection: Map<string, unknown> | Set<string>): void {
  const oldest = collection.size > MAX_TEXTS ? collection.keys().next() : undefined;
  if (oldest && !oldest.done) collection.delete(oldest.value);
}

/** What is known of `quick` statements: whether one may be pipelined, where a slow or large answer delays all behind it. */
export class QuickTexts {
  /** Texts that were slow the last time. */
  readonly #slow = new Set<string>();
  /** When texts had a large answer. */
  readonly #large = new Map<string, number>();
  /** Texts of pages whose answers were small so far. A page can be large, so the first one goes another way. */
  readonly #proven = new Set<string>();

  mayPipeline({ text, isPage }: Statement): boolean {
    if (this.#slow.size > 0 && this.#slow.has(text)) return false;
    if (this.#large.size > 0 && this.#isKnownAsLarge(text)) return false;
    return !isPage || this.#proven.has(text);
  }

  /** Notes the size of an answer. */
  noteAnswer(statement: Statement, rows: readonly RawRow[]): void {
    const { text, isPage } = statement;
    if (isLarge(statement, rows)) {
      this.#large.delete(text);
      this.#large.set(text, performance.now());
      limitSize(this.#large);
      this.#proven.delete(text);
    } else if (isPage && !this.#proven.has(text) && !this.#isKnownAsLarge(text)) {
      this.#proven.add(text);
      limitSize(this.#proven);
    }
  }

  /** Notes whether a statement took long by itself. */
  noteTime({ text }: Statement, isSlow: boolean): void {
    if (isSlow) {
      this.#slow.add(text);
      limitSize(this.#slow);
    } else this.#slow.delete(text);
  }

  #isKnownAsLarge(text: string): boolean {
    const at = this.#large.get(text);
    return at !== undefined && performance.now() - at < LARGE_FOR;
  }
}
