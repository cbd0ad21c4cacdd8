// CSV: the SQL of exports, guarded against spreadsheet formulas, the SQL of imports, and a reader for their files.
import { setImmediate } from 'node:timers/promises';
import { cast } from '../../db/types/column-types.ts';
import { join, raw, sql, table, valueList, type Fragment } from '../../db/fragment.ts';
import { type RawRow, type Statement, createStatement, number, text as textOf } from '../../db/rows.ts';
import { hasSeveral } from '../../db/schema/composite-key.ts';
import { output, reference, type Column, type Model } from '../../db/schema/model.ts';
import { ROOT } from '../plan.ts';
import { recordJson } from './record-json.ts';

/**
 * Code point ranges of characters that spreadsheets may ignore before a formula: whitespace and invisible characters (no-break
 * and zero-width spaces, byte order mark, control characters, direction marks).
 */
const IGNORED = [
  [0x01, 0x20], [0x7f, 0xa0], [0xad, 0xad], [0x34f, 0x34f], [0x61c, 0x61c], [0x115f, 0x1160], [0x1680, 0x1680],
  [0x17b4, 0x17b5], [0x180b, 0x180f], [0x2000, 0x200f], [0x2028, 0x202f], [0x205f, 0x206f], [0x2800, 0x2800], [0x3000, 0x3000],
  [0x3164, 0x3164], [0xfe00, 0xfe0f], [0xfeff, 0xfeff], [0xffa0, 0xffa0], [0xfff0, 0xfffb], [0x1bca0, 0x1bca3],
  [0x1d173, 0x1d17a], [0xe0000, 0xe0fff],
] as const; // prettier-ignore
/** Code point ranges of characters that start a formula: tab, line breaks, and = + - @ in normal, small and full width. */
const FORMULA_SIGNS = [
  [0x09, 0x0a], [0x0d, 0x0d], [0x2b, 0x2b], [0x2d, 0x2d], [0x3d, 0x3d], [0x40, 0x40],
  [0xfe62, 0xfe63], [0xfe66, 0xfe66], [0xfe6b, 0xfe6b], [0xff0b, 0xff0b], [0xff0d, 0xff0d], [0xff1d, 0xff1d],
  [0xff20, 0xff20],
] as const; // prettier-ignore

type Escape = (hex: string) => string;
const IN_JAVASCRIPT: Escape = (hex) => `\\u{${hex}}`;
const IN_POSTGRESQL: Escape = (hex) => `\\U${hex.padStart(8, '0')}`;

/** A character class. It uses escapes, because not every database encoding has the characters. */
const characterSet = (ranges: readonly (readonly [number, number])[], escape: Escape): string =>
  ranges.map((range) => range.map((code) => escape(code.toString(16))).join('-')).join('');

/**
 * Matches texts that get an apostrophe in front, because a spreadsheet would read them as a formula. It includes texts that start
 * with apostrophes already, so that `withoutGuard` can remove exactly one.
 */
const formulaStart = (escape: Escape): string =>
  `[${escape('27')}${characterSet(IGNORED, escape)}]*[${characterSet(FORMULA_SIGNS, escape)}]`;
const FORMULA = raw(`'^${formulaStart(IN_POSTGRESQL)}'`);
const IS_GUARDED = new RegExp(`^'${formulaStart(IN_JAVASCRIPT)}`, 'u');

/** Removes the apostrophe that `csvRow` puts before texts that look like formulas. */
export const withoutGuard = (text: string): string => (IS_GUARDED.test(text) ? text.slice(1) : text);

/** Whether a column holds free text, unlike numbers, dates and the like. A key of several columns does if one of them does. */
export const isFreeText = ({ type, parts }: Column): boolean =>
  parts ? parts.some(isFreeText) : type.json === 'escaped' ? !type.bounded : type.input.json === 'json';

/** One cell. As in PostgreSQL's CSV, NULL is empty and an empty text is `""`. */
function cell(alias: string, column: Column): Fragment {
  const shown = sql`(${output(alias, column)})::text`;
  const mayBeFormula = isFreeText(column);
  // The values of a key of several columns are separated by commas.
  if (!mayBeFormula && !hasSeveral(column)) return sql`coalesce(${shown}, '')`;
  // Regular expressions and `replace` do not support nondeterministic collations.
  const text = sql`(${shown} collate "C")`;
  const harmless = mayBeFormula
    ? sql`case when ${text} ~ ${FORMULA} then '''' || ${text} else ${text} end`
    : text;
  return sql`coalesce('"' || replace(${harmless}, '"', '""') || '"', '')`;
}

/** A row of RFC 4180 with its line break. */
export const csvRow = (alias: string, columns: readonly Column[]): Fragment =>
  sql`array_to_string(array[${join(
    columns.map((column) => cell(alias, column)),
    ', ',
  )}], ',') || e'\\r\\n'`;

/** A record whose id is in a list. */
export interface FoundRecord {
  /** The position of the id, from 0. */
  readonly index: number;
  /** The key as the API outputs it. */
  readonly id: string;
  /** The approximate size of its values in bytes. */
  readonly bytes: number;
}

const keysOf = (ids: readonly string[]): Fragment =>
  sql`unnest(${valueList(ids)}) with ordinality k (id, place)`;

const hasKey = ({ primaryKey }: Model): Fragment =>
  sql`${reference(ROOT, primaryKey)} = ${cast(raw('k.id'), primaryKey)}`;

/** Approximate bytes of a short value and its column's name in JSON. */
const COLUMN_BYTES = 32;

/** Finds the records with these ids, without their values. @param columns the columns that count for the size */
export function foundRecordsStatement(
  model: Model,
  columns: readonly Column[],
  ids: readonly string[],
  isLocked: boolean,
): Statement<FoundRecord[]> {
  const { table: name, primaryKey, isLockable } = model;
  const sizes = columns
    .filter(({ type }) => type.long === true)
    .map((column) => sql`coalesce(octet_length(${output(ROOT, column)}::text), 0)::bigint`);
  const bytes = sizes.length > 0 ? join(sizes, ' + ') : raw('0');
  const lock = raw(isLocked && isLockable ? ` for no key update of ${ROOT}` : '');
  return createStatement(
    sql`select k.place::text, (${output(ROOT, primaryKey)})::text, (${bytes})::text from ${keysOf(ids)} join ${table(name)} ${raw(ROOT)} on ${hasKey(model)} order by ${reference(ROOT, primaryKey)}${lock}`,
    (rows) =>
      rows.map(([place, id, size]) => ({
        index: number(place) - 1,
        id: textOf(id) ?? '',
        bytes: number(size) + columns.length * COLUMN_BYTES,
      })),
  );
}

/** A record and the position of its id in a list, from 0. */
export interface PlacedRecord {
  readonly index: number;
  readonly json: string;
}

const placedRecords = (rows: readonly RawRow[]): PlacedRecord[] =>
  rows.map(([place, json]) => ({ index: number(place) - 1, json: textOf(json) ?? '{}' }));

/** No column of a table has this name. */
const PLACE = raw('"#place"');

/** The records with these ids, in the order of the list. The JSON is formatted after sorting. */
export function recordsStatement(
  model: Model,
  columns: readonly Column[],
  ids: readonly string[],
): Statement<PlacedRecord[]> {
  const rows = sql`select k.place as ${PLACE}, ${raw(ROOT)}.* from ${keysOf(ids)} join ${table(model.table)} ${raw(ROOT)} on ${hasKey(model)} order by k.place`;
  return createStatement(
    sql`select ${PLACE}::text, ${recordJson(ROOT, columns)} from (${rows}) ${raw(ROOT)}`,
    placedRecords,
  );
}

/** Opens a cursor. It outputs the records as they were then, even if the transaction changes them later. */
export function openCursor({ text, values }: Statement<unknown>, name: string): Statement<void> {
  return { text: `declare ${name} no scroll cursor for ${text}`, values, decode: () => undefined };
}

/** Reads further records from a cursor over `recordsStatement`. */
export const fetchRecords = (name: string, count: number): Statement<PlacedRecord[]> => ({
  text: `fetch ${count} from ${name}`,
  values: [],
  decode: placedRecords,
});

export interface CsvRow {
  /** The line where the row starts, from 1. */
  readonly line: number;
  /** Null for an empty cell without quotes. */
  readonly cells: readonly (string | null)[];
}

const UNQUOTED = /[^",\r\n]*/y;

/** Characters to read before yielding to other requests. */
const YIELD_INTERVAL = 65_536;

/** The number of line breaks in a part of a text. */
function countLineBreaks(text: string, from: number, to: number): number {
  let count = 0;
  for (let at = from; at < to; at += 1) {
    const code = text.charCodeAt(at);
    if (code === 0x0a || (code === 0x0d && text.charCodeAt(at + 1) !== 0x0a)) count += 1;
  }
  return count;
}

/**
 * Reads the quoted cell that starts at `from`.
 * @returns its text, its end, and the number of line breaks in it; undefined if the closing quote is missing
 */
function* readQuotedCell(
  text: string,
  from: number,
): Generator<undefined, [value: string, end: number, lineBreaks: number] | undefined> {
  let value = '';
  let lineBreaks = 0;
  let start = from + 1;
  for (let at = start; ; at += 2) {
    at = text.indexOf('"', at);
    if (at < 0) return undefined;
    const isEnd = text[at + 1] !== '"';
    if (!isEnd && at - start < YIELD_INTERVAL) continue;
    // The slice ends before a quote pair, so it never splits one.
    // Several times faster than `replaceAll`, whose result V8 must flatten on the next read.
    value += text.slice(start, at).split('""').join('"');
    lineBreaks += countLineBreaks(text, start, at);
    if (isEnd) return [value, at + 1, lineBreaks];
    start = at;
    yield;
  }
}

function unquotedAt(text: string, from: number): string {
  UNQUOTED.lastIndex = from;
  return UNQUOTED.exec(text)?.[0] ?? '';
}

type ParsedCsv = CsvRow[] | { readonly faultyLine: number };

/** Reads CSV as `parseCsv` does, and yields from time to time so that the caller can serve other requests. */
function* readCsv(text: string, maxRows: number): Generator<undefined, ParsedCsv> {
  const csv = text.replace(/^\uFEFF/, '');
  const rows: CsvRow[] = [];
  let cells: (string | null)[] = [];
  let line = 1;
  let rowStart = 1;
  let nextYield = YIELD_INTERVAL;
  for (let at = 0; at < csv.length || cells.length > 0;) {
    if (at > nextYield) {
      nextYield = at + YIELD_INTERVAL;
      yield;
    }
    if (csv[at] === '"') {
      const quoted = yield* readQuotedCell(csv, at);
      if (!quoted) return { faultyLine: line };
      const [value, end, lineBreaks] = quoted;
      cells.push(value);
      line += lineBreaks;
      at = end;
    } else {
      const unquoted = unquotedAt(csv, at);
      cells.push(unquoted === '' ? null : unquoted);
      at += unquoted.length;
    }
    const next = csv[at];
    if (next !== undefined && next !== ',' && next !== '\r' && next !== '\n') return { faultyLine: line };
    at += next === '\r' && csv[at + 1] === '\n' ? 2 : 1;
    if (next === ',') continue;
    if (cells.length > 1 || cells[0] !== null) {
      rows.push({ line: rowStart, cells });
      if (rows.length >= maxRows) return rows;
    }
    cells = [];
    line += 1;
    rowStart = line;
  }
  return rows;
}

/**
 * Parses CSV: commas, doubled quotes inside quotes, any line break, an optional byte order mark. Cells may have any length; a
 * regular expression for quoted cells would overflow the stack.
 * @returns the rows without empty lines, or the line with the first syntax error
 */
export function parseCsv(text: string): ParsedCsv {
  const steps = readCsv(text, Infinity);
  for (;;) {
    const { done, value } = steps.next();
    if (done) return value;
  }
}

/**
 * Parses CSV as `parseCsv` does, and lets other requests run in between.
 * @param maxRows stops after this many rows
 */
export async function parseCsvInTurns(text: string, maxRows: number): Promise<ParsedCsv> {
  const steps = readCsv(text, maxRows);
  for (;;) {
    const { done, value } = steps.next();
    if (done) return value;
    await setImmediate();
  }
}
