import { scanJson, skipSpace, type JsonFacts } from '../../db/types/json-scanner.ts';
import type { Column } from '../../db/schema/model.ts';
import { isStorable, STORABLE } from '../../db/types/json-values.ts';
import { Problem } from '../../errors.ts';

/** One member of a JSON object: its value, and its text as it was sent, where a number still has all its digits. */
export interface JsonField {
  /** For an array or an object an empty object: only json columns take these, and they use the text. */
  readonly value: unknown;
  readonly source: string;
}

export type JsonFields = ReadonlyMap<string, JsonField>;

/** The most fields of a body. PostgreSQL's tables have at most 1,600 columns. */
const MAX_FIELDS = 10_000;

const CONTAINER = Object.freeze({});

/** A member that parses its value when it is needed. Building nested arrays is what makes JSON.parse slow. */
class ParsedMember implements JsonField {
  readonly source: string;
  #value: unknown;

  /** @param facts of a text that holds the source, which save another scan of it */
  constructor(source: string, facts: JsonFacts) {
    this.source = source;
    if (source.startsWith('{') || source.startsWith('['))
      this.#value = isStorable(facts) ? STORABLE : CONTAINER;
  }

  get value(): unknown {
    return (this.#value ??= JSON.parse(this.source) as unknown);
  }
}

/** A text as a member, without parsing the JSON that it becomes. */
class StringMember implements JsonField {
  readonly value: string;

  constructor(value: string) {
    this.value = value;
  }

  get source(): string {
    return JSON.stringify(this.value);
  }
}

/** Where the string that starts at `from` ends: behind the first quote that an even number of backslashes precedes. */
function endOfString(text: string, from: number): number {
  for (let at = from; ;) {
    at = text.indexOf('"', at + 1);
    let backslashes = 0;
    while (text[at - 1 - backslashes] === '\\') backslashes += 1;
    if (backslashes % 2 === 0) return at + 1;
  }
}

/** Where the value that starts at `from` ends, in a text that is known to be JSON. */
function endOfValue(text: string, from: number): number {
  let depth = 0;
  for (let at = from; at < text.length; at += 1) {
    const character = text[at];
    if (character === '"') at = endOfString(text, at) - 1;
    else if (character === '{' || character === '[') depth += 1;
    else if (depth === 0 && (character === ',' || character === '}' || character === ']')) return at;
    else if (character === '}' || character === ']') depth -= 1;
  }
  return text.length;
}

/**
 * The members of a JSON object; of a repeated key the last. JavaScript's numbers would lose digits of a
 * bigint, a decimal or a number inside a json column, so each member keeps its text.
 * @throws Problem 400 for a text that is not a JSON object, and for one with too many fields
 */
export function parseJsonFields(text: string): JsonFields {
  const members = new Map<string, JsonField>();
  const facts = scanJson(text, (key, start, end, factsSoFar) => {
    if (members.size >= MAX_FIELDS) throw new Problem(400, `The body has more than ${MAX_FIELDS} fields.`);
    members.set(key, new ParsedMember(text.slice(start, end), factsSoFar));
  });
  if (!facts) throw new Problem(400, 'The body is not JSON.');
  if (text[skipSpace(text, 0)] !== '{')
    throw new Problem(400, 'The body must be a JSON object of fields and values.');
  return members;
}

/** From this depth on lines move no further to the right: indentation must not make a small text a huge one. */
const DEEPEST = 12;
const NEW_LINES = Array.from({ length: DEEPEST + 1 }, (_, level) => `\n${'  '.repeat(level)}`);

/**
 * JSON on many lines, its tokens as they are: keys keep their order and numbers their digits.
 * @param depth of the value within a larger text
 */
export function indentJson(text: string, depth = 0): string {
  // Slices between tokens in a list: joining them takes a tenth of the time that adding up tokens does.
  const parts: string[] = [];
  let level = depth;
  let from = skipSpace(text, 0);
  const newLine = (): string => NEW_LINES[Math.min(level, DEEPEST)] ?? '';
  for (let at = from; at < text.length;) {
    const token = text[at] ?? '';
    if (token === '"') {
      at = endOfString(text, at);
      continue;
    }
    let end = at + 1;
    if (token === '{' || token === '[') {
      const next = skipSpace(text, end);
      const isEmpty = text[next] === '}' || text[next] === ']';
      if (isEmpty) end = next + 1;
      else level += 1;
      parts.push(text.slice(from, at), token, isEmpty ? (text[next] ?? '') : newLine());
    } else if (token === '}' || token === ']') {
      level -= 1;
      parts.push(text.slice(from, at), newLine(), token);
    } else if (token === ',') {
      parts.push(text.slice(from, end), newLine());
    } else if (token === ':') {
      parts.push(text.slice(from, end), ' ');
    } else if (' \n\r\t'.includes(token)) {
      parts.push(text.slice(from, at));
    } else {
      at = end;
      continue;
    }
    at = skipSpace(text, end);
    from = at;
  }
  parts.push(text.slice(from));
  return parts.join('');
}

/** The texts of JSON values that stand one after the other with commas between them. */
export function splitValues(text: string): string[] {
  const values: string[] = [];
  for (let at = 0; at < text.length;) {
    const end = endOfValue(text, at);
    values.push(text.slice(at, end));
    at = end + 1;
  }
  return values;
}

const JSON_NUMBER = /^-?(0|[1-9]\d*)(\.\d+)?(e[+-]?\d+)?$/i;

/** A typed text as a member of a JSON body; a text that is no JSON is a fault. */
export function jsonFieldOf(column: Column, text: string): JsonField | { readonly fault: string } {
  const string: JsonField = new StringMember(text);
  switch (column.type.input.json) {
    case 'string':
      return string;
    case 'number':
      return JSON_NUMBER.test(text) ? { value: Number(text), source: text } : string;
    case 'boolean':
      return text === 'true' || text === 'false' ? { value: text === 'true', source: text } : string;
    case 'json': {
      const facts = scanJson(text);
      return facts ? new ParsedMember(text, facts) : { fault: 'must be JSON' };
    }
  }
}
