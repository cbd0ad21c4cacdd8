// Splits JSON into fields that keep their text, so that numbers lose no digits.
import type { YieldIfDue } from '../../db/lanes/requester.ts';
import {
  isShortJson,
  jsonErrorAt,
  scanFields,
  scanFieldsInTurns,
  scanJson,
  scanJsonInTurns,
  skipSpace,
  type JsonFacts,
  type OnField,
} from '../../db/types/json-scanner.ts';
import type { Column } from '../../db/schema/model.ts';
import { ScannedJson } from '../../db/types/json-values.ts';
import { Problem } from '../../errors.ts';
import { messageOf, type Message } from '../../messages.ts';

/** One field of a JSON object: its value, and its text as it was sent, in which numbers keep all digits. */
export interface JsonField {
  /** An empty object for arrays and objects: only `json` columns accept those, and they use `source`. */
  readonly value: unknown;
  readonly source: string;
  /** Of a value in an address: its text with the fractions of a second, which bodies do not have. */
  readonly exact?: string | undefined;
}

export type JsonFields = ReadonlyMap<string, JsonField>;

/** Maximum fields of a body. PostgreSQL's tables have at most 1,600 columns. */
const MAX_FIELDS = 10_000;

/** A field that parses its value on first use. JSON.parse is slow mainly for nested arrays, which it never builds. */
class ParsedField implements JsonField {
  readonly source: string;
  #value: unknown;

  /** @param facts from the scan of the text, so that it is not scanned again */
  constructor(source: string, facts: JsonFacts) {
    this.source = source;
    if (source.startsWith('{') || source.startsWith('[')) this.#value = new ScannedJson(facts);
  }

  get value(): unknown {
    return (this.#value ??= JSON.parse(this.source) as unknown);
  }
}

/** A field whose value is a known string, so that there is nothing to parse. */
class StringField implements JsonField {
  readonly value: string;

  constructor(value: string) {
    this.value = value;
  }

  get source(): string {
    return JSON.stringify(this.value);
  }
}

/** The end of the string that starts at `from`: after the first quote with an even number of backslashes before it. */
function endOfString(text: string, from: number): number {
  for (let at = from; ;) {
    at = text.indexOf('"', at + 1);
    let backslashes = 0;
    while (text[at - 1 - backslashes] === '\\') backslashes += 1;
    if (backslashes % 2 === 0) return at + 1;
  }
}

/** The end of the value that starts at `from`, in valid JSON. */
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
 * The fields of a JSON object; the last one of a repeated key. Each field keeps its text, because JavaScript's numbers would
 * lose digits of a bigint, a decimal or a number inside a json column.
 * @throws Problem 400 for a text that is not a JSON object, and for too many fields
 */
export function parseJsonFields(text: string): JsonFields {
  const { fields, add } = collectFields(text);
  return checkFields(text, fields, scanFields(text, add));
}

/** Like `parseJsonFields`, but parses long texts in many iterations of the event loop. @throws Problem 400, or rejects with it */
export function parseJsonFieldsInTurns(
  text: string,
  yieldIfDue?: YieldIfDue,
): JsonFields | Promise<JsonFields> {
  if (isShortJson(text)) return parseJsonFields(text);
  const { fields, add } = collectFields(text);
  return scanFieldsInTurns(text, add, yieldIfDue).then((scanned) => checkFields(text, fields, scanned));
}

/** Maximum fields of all records in one body. */
const MAX_ALL_FIELDS = 100_000;

/** A body: one record, or several ones; undefined stands for an element that is not an object. */
export type JsonBody =
  | { readonly record: JsonFields; readonly records?: never }
  | { readonly record?: never; readonly records: readonly (JsonFields | undefined)[] };

/**
 * Parses a JSON object, or an array of objects, in many iterations of the event loop for a long text.
 * @param maxRecords maximum elements of an array
 * @throws Problem 400
 */
export async function parseJsonBodyInTurns(
  text: string,
  maxRecords: number,
  yieldIfDue: YieldIfDue,
): Promise<JsonBody> {
  const start = skipSpace(text, 0);
  if (text[start] !== '[') return { record: await parseJsonFieldsInTurns(text, yieldIfDue) };
  assertJson(text, await scanJsonInTurns(text, yieldIfDue));
  const end = text.lastIndexOf(']');
  const records: (JsonFields | undefined)[] = [];
  let fieldsLeft = MAX_ALL_FIELDS;
  for (let at = skipSpace(text, start + 1); at < end;) {
    const pause = yieldIfDue();
    if (pause) await pause;
    if (records.length === maxRecords)
      throw new Problem(400, messageOf('tooManyRecords', { max: maxRecords }));
    const next = endOfValue(text, at);
    const isObject = text[at] === '{';
    const fields = isObject ? await parseJsonFieldsInTurns(text.slice(at, next), yieldIfDue) : undefined;
    fieldsLeft -= fields?.size ?? 0;
    if (fieldsLeft < 0) throw new Problem(400, messageOf('tooManyFields', { max: MAX_ALL_FIELDS }));
    records.push(fields);
    at = skipSpace(text, next + 1);
  }
  if (records.length === 0) throw new Problem(400, messageOf('noRecords'));
  return { records };
}

function collectFields(text: string) {
  const fields = new Map<string, JsonField>();
  const add: OnField = (key, start, end, facts) => {
    if (fields.size >= MAX_FIELDS) throw new Problem(400, messageOf('tooManyFields', { max: MAX_FIELDS }));
    fields.set(key, new ParsedField(text.slice(start, end), facts));
  };
  return { fields, add };
}

/** @throws Problem 400 if the scan of a body has found an error */
function assertJson(text: string, scanned: JsonFacts | number): void {
  if (typeof scanned !== 'number') return;
  if (skipSpace(text, 0) === text.length) throw new Problem(400, messageOf('emptyBody'));
  throw new Problem(400, messageOf('bodyNotJson', { reason: jsonErrorAt(text, scanned) }));
}

function checkFields(text: string, fields: JsonFields, scanned: JsonFacts | number): JsonFields {
  assertJson(text, scanned);
  if (text[skipSpace(text, 0)] !== '{') throw new Problem(400, messageOf('bodyNotObject'));
  return fields;
}

/** Maximum levels of indentation. Without a limit, deep nesting would make a small text huge. */
const MAX_INDENT = 12;
const NEW_LINES = Array.from({ length: MAX_INDENT + 1 }, (_, level) => `\n${'  '.repeat(level)}`);

/**
 * Indents JSON without changing its tokens, so that keys keep their order and numbers their digits.
 * @param depth the indentation level of the value within a larger text
 */
export function indentJson(text: string, depth = 0): string {
  // Collecting slices and joining them is ten times as fast as appending each token to a string.
  const parts: string[] = [];
  let level = depth;
  let from = skipSpace(text, 0);
  const newLine = (): string => NEW_LINES[Math.min(level, MAX_INDENT)] ?? '';
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

/** The texts of JSON values that are separated by commas. Finds each when it is needed, because there may be many megabytes. */
export function* splitValues(text: string): Generator<string, void> {
  for (let at = skipSpace(text, 0); at < text.length;) {
    const end = endOfValue(text, at);
    yield text.slice(at, end);
    at = end + 1;
  }
}

const JSON_NUMBER = /^-?(0|[1-9]\d*)(\.\d+)?(e[+-]?\d+)?$/i;

/** Spells a number that PostgreSQL accepts as JSON does: `+1`, `007`, `.5` and `5.` become `1`, `7`, `0.5` and `5`. */
const asJsonNumber = (text: string): string =>
  text
    .replace(/^\+(?=[\d.])/, '')
    .replace(/^(-?)0+(?=\d)/, '$1')
    .replace(/^-?(?=\.\d)/, '$&0')
    .replace(/(?<=\d)\.(?=e|$)/i, '');

/** The text of a form or import as a JSON field. Text for a `json` column that is not valid JSON is a fault. */
export function jsonFieldOf(
  { type, references }: Pick<Column, 'type'> & Partial<Pick<Column, 'references'>>,
  text: string,
): JsonField | { readonly fault: Message } {
  const string: JsonField = new StringField(text);
  switch (type.input.json) {
    case 'string':
      return string;
    case 'number': {
      // In a foreign key, `007` is not the key 7: it may be the name of another record.
      const source = references ? text : asJsonNumber(text);
      return JSON_NUMBER.test(source) ? { value: Number(source), source } : string;
    }
    case 'boolean':
      return text === 'true' || text === 'false' ? { value: text === 'true', source: text } : string;
    case 'json':
      return jsonField(text, scanJson(text));
  }
}

/** Like `jsonFieldOf`, but scans JSON in many iterations of the event loop. */
export async function jsonFieldInTurns(
  column: Column,
  text: string,
): Promise<JsonField | { readonly fault: Message }> {
  if (column.type.input.json !== 'json') return jsonFieldOf(column, text);
  return jsonField(text, await scanJsonInTurns(text));
}

const jsonField = (text: string, scanned: JsonFacts | number): JsonField | { readonly fault: Message } =>
  typeof scanned === 'number'
    ? { fault: messageOf('notJson', { reason: jsonErrorAt(text, scanned) }) }
    : new ParsedField(text, scanned);
