// Limits the work of a query that PostgreSQL cannot cancel: patterns, and values searched in JSON and arrays.
import { DigitBudget } from '../../db/types/exponents.ts';

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
  takePatterns(patterns: readonly string[]): string | undefined {
    this.#patterns += patterns.length;
    for (const pattern of patterns) this.#characters += [...pattern].length;
    if (this.#patterns > MAX_PATTERNS)
      return `is pattern ${this.#patterns} of the query; at most ${MAX_PATTERNS} are allowed`;
    if (this.#characters > MAX_CHARACTERS)
      return `makes the patterns of the query ${this.#characters} characters long; at most ${MAX_CHARACTERS} are allowed`;
    return undefined;
  }

  /** Counts the JSON values of a `contains` filter. @returns an error message if it exceeds the limit */
  takeJson(texts: readonly string[]): string | undefined {
    for (const text of texts) this.#jsonValues += jsonValues(text);
    if (this.#jsonValues <= MAX_JSON_VALUES) return undefined;
    return `makes the query look for ${this.#jsonValues} values in JSON; at most ${MAX_JSON_VALUES} are allowed`;
  }

  /** Counts the array elements of a `contains` filter. @returns an error message if they exceed the limit */
  takeElements(count = 0): string | undefined {
    this.#elements += count;
    if (this.#elements <= MAX_ELEMENTS) return undefined;
    return `makes the query look for ${this.#elements} elements of arrays; at most ${MAX_ELEMENTS} are allowed`;
  }
}

/** The error message of a search that exceeds the limits. */
export const SEARCH_TOO_LONG = `is too long: a search has at most ${MAX_PATTERNS} words and ${MAX_CHARACTERS} characters (each word adds two, and the patterns of filters count too)`;

/** Whether these patterns alone fit the limits of one query. */
export const fitsBudget = (patterns: readonly string[]): boolean =>
  new QueryBudget().takePatterns(patterns) === undefined;
