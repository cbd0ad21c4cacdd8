// Limits the LIKE patterns of one query, because a long match blocks a PostgreSQL connection.

/**
 * Maximum total length of the patterns. PostgreSQL cannot cancel a match, which costs text length times pattern length.
 * With this limit, a text of 1 MB takes less than a second.
 */
const MAX_CHARACTERS = 256;
/** Maximum number of patterns. Each reads the text once, and `ilike` copies it to lower case. */
const MAX_PATTERNS = 20;

/** Counts the patterns of one query: those of filters, and the words of a search. */
export class PatternBudget {
  #patterns = 0;
  #characters = 0;

  /** Counts these patterns. @returns an error message if they exceed the limits */
  take(patterns: readonly string[]): string | undefined {
    this.#patterns += patterns.length;
    for (const pattern of patterns) this.#characters += [...pattern].length;
    if (this.#patterns > MAX_PATTERNS)
      return `is pattern ${this.#patterns} of the query; at most ${MAX_PATTERNS} are allowed`;
    if (this.#characters > MAX_CHARACTERS)
      return `makes the patterns of the query ${this.#characters} characters long; at most ${MAX_CHARACTERS} are allowed`;
    return undefined;
  }
}

/** The error message of a search that exceeds the limits. */
export const SEARCH_TOO_LONG = `is too long: a search has at most ${MAX_PATTERNS} words and ${MAX_CHARACTERS} characters (each word adds two, and the patterns of filters count too)`;

/** Whether a query may have these patterns and no others. */
export const fitsBudget = (patterns: readonly string[]): boolean =>
  new PatternBudget().take(patterns) === undefined;
