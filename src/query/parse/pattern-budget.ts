/**
 * PostgreSQL cannot be canceled while it matches one text against a pattern, and takes up to the product of both lengths: for
 * 1 MB and these limits less than a second. A text can be that long whatever its column, so the sum of a query counts.
 */
const MAX_CHARACTERS = 256;
/** Each pattern reads the text once, and `ilike` makes a copy of it in lower case. */
const MAX_PATTERNS = 20;

/** Counts the patterns of one query: those of filters, and the words of a search. */
export class PatternBudget {
  #patterns = 0;
  #characters = 0;

  /** @returns why the query cannot have these patterns as well */
  take(patterns: readonly string[]): string | undefined {
    this.#patterns += patterns.length;
    for (const pattern of patterns) this.#characters += [...pattern].length;
    if (this.#patterns > MAX_PATTERNS)
      return `is pattern ${this.#patterns} of the query; ${MAX_PATTERNS} are allowed`;
    if (this.#characters > MAX_CHARACTERS)
      return `makes the patterns of the query ${this.#characters} characters long; ${MAX_CHARACTERS} are allowed`;
    return undefined;
  }
}

/** What is wrong with the words of a search that the budget has no room for. */
export const SEARCH_TOO_LONG = `is too long: a search has at most ${MAX_PATTERNS} words and ${MAX_CHARACTERS} characters, two more for each word, and the patterns of filters count as well`;

/** Whether a query may have these patterns. */
export const fitBudget = (patterns: readonly string[]): boolean =>
  new PatternBudget().take(patterns) === undefined;
