// Limits the work of a query that PostgreSQL cannot cancel: patterns, and values searched in JSON and arrays.
import { DigitBudget } from '../../db/types/exponents.ts';
import { messageOf, type Message } from '../../messages.ts';

/**
 * Maximum total length of the patterns. PostgreSQL cannot cancel a match, which costs text length times pattern length.
 * With this limit, a text of 1 MB takes less than a second.
 */
export const MAX_CHARACTERS = 256;
/** Maximum number of patterns. Each reads the text once, and `ilike` copies it to lower case. */
export const MAX_PATTERNS = 20;
/** Maximum number of JSON values in `contains` filters. PostgreSQL compares each with each value of the record, and cannot be canceled. */
export const MAX_JSON_VALUES = 50;
/** Maximum number of array elements in `contains` filters. PostgreSQL compares each with each element of the record, and cannot be canceled. */
export const MAX_ELEMENTS = 100;

/** The number of scalars, arrays and objects in a JSON text. */
const jsonValues = (json: string): number =>
  1 + (json.replace(/"(?:[^"\\]|\\.)*"/g, '""').match(/[[{](?!\s*[\]}])|,/g)?.length ?? 0);

/** Counts what the filters and the words of the search of one query ask for. */
export class QueryBudget {
  /** The digits that the exponents of numbers add: PostgreSQL outputs 1e999 with 1,000 digits. */
  readonly digits = new DigitBudget('query');
  #patterns = 0;
  #characters = 0;
  #jsonValues = 0;
  #elements = 0;

  /** Counts these patterns. @returns an error message if they exceed the limits */
  takePatterns(patterns: readonly string[]): Message | undefined {
    this.#patterns += patterns.length;
    for (const pattern of patterns) this.#characters += [...pattern].length;
    if (this.#patterns > MAX_PATTERNS)
      return messageOf('tooManyPatterns', { count: this.#patterns, max: MAX_PATTERNS });
    if (this.#characters > MAX_CHARACTERS)
      return messageOf('longPatterns', { count: this.#characters, max: MAX_CHARACTERS });
    return undefined;
  }

  /** Counts the JSON values of a `contains` filter. @returns an error message if it exceeds the limit */
  takeJson(texts: readonly string[]): Message | undefined {
    for (const text of texts) this.#jsonValues += jsonValues(text);
    if (this.#jsonValues <= MAX_JSON_VALUES) return undefined;
    return messageOf('tooManyJsonValues', { count: this.#jsonValues, max: MAX_JSON_VALUES });
  }

  /** Counts the array elements of a `contains` filter. @returns an error message if they exceed the limit */
  takeElements(count = 0): Message | undefined {
    this.#elements += count;
    if (this.#elements <= MAX_ELEMENTS) return undefined;
    return messageOf('tooManyFilterElements', { count: this.#elements, max: MAX_ELEMENTS });
  }
}

/** The error message of a search that exceeds the limits. */
export const SEARCH_TOO_LONG = messageOf('longSearch', { words: MAX_PATTERNS, characters: MAX_CHARACTERS });

/** Whether these patterns alone fit the limits of one query. */
export const fitsBudget = (patterns: readonly string[]): boolean =>
  new QueryBudget().takePatterns(patterns) === undefined;
