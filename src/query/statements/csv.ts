import { setImmediate } from 'node:timers/promises';
import { cast } from '../../db/types/column-types.ts';
import {
  compile,
  join,
  raw,
  sql,
  table,
  valueList,
  type Fragment,
  type Statement,
} from '../../db/fragment.ts';
import { output, reference, type Column, type Model } from '../../db/schema/model.ts';
import { ROOT, type ListPlan } from '../plan.ts';
import { source } from './read-statements.ts';
import { record } from './record-json.ts';

/**
 * What spreadsheets may drop before a formula: whitespace and characters that are not visible (no-break and zero-width spaces,
 * byte order mark, controls, marks of direction). Ranges of code points.
 */
const SKIPPED = [
  [0x01, 0x20], [0x7f, 0xa0], [0xad, 0xad], [0x34f, 0x34f], [0x61c, 0x61c], [0x115f, 0x1160], [0x1680, 0x1680],
  [0x180b, 0x180f], [0x2000, 0x200f], [0x2028, 0x202f], [0x205f, 0x206f], [0x3000, 0x3000], [0x3164, 0x3164],
  [0xfe00, 0xfe0f], [0xfeff, 0xfeff], [0xffa0, 0xffa0], [0xfff0, 0xfffb],
] as const; // prettier-ignore
/** What begins a formula: tab, line breaks, and = + - @ in their usual, small and full widths. */
const SIGNS = [
  [0x09, 0x0a], [0x0d, 0x0d], [0x2b, 0x2b], [0x2d, 0x2d], [0x3d, 0x3d], [0x40, 0x40],
  [0xfe62, 0xfe63], [0xfe66, 0xfe66], [0xfe6b, 0xfe6b], [0xff0b, 0xff0b], [0xff0d, 0xff0d], [0xff1d, 0xff1d],
  [0xff20, 0xff20],
] as const; // prettier-ignore

/** A set of characters for a pattern of JavaScript or PostgreSQL. By their codes, since not every database can store them. */
function characterSet(ranges: readonly (readonly [number, number])[]): string {
  const escape = (code: number): string => `\\u${code.toString(16).padStart(4, '0')}`;
  return ranges.map(([first, last]) => `${escape(first)}-${escape(last)}`).join('');
}

/**
 * Texts that a spreadsheet would take for a formula get an apostrophe in front; so does what begins with apostrophes before
 * such a text, so that one can be taken away again without doubt.
 */
const FORMULA_START = `[\\u0027${characterSet(SKIPPED)}]*[${characterSet(SIGNS)}]`;
const FORMULA = raw(`'^${FORMULA_START}'`);
const IS_GUARDED = new RegExp(`^'${FORMULA_START}`);

/** Undoes what `csvRow` does to texts that look like formulas. */
export const withoutGuard = (text: string): string => (IS_GUARDED.test(text) ? text.slice(1) : text);

/** Whether a column's values are texts of people's own, as against numbers, dates and the like. */
export const isFree = ({ type }: Column): boolean =>
  type.json === 'escaped' ? !type.bounded : type.input.json === 'json';

/** One cell: NULL is nothing at all, and an empty text is `""`, as PostgreSQL's own CSV has it. */
function cell(alias: string, column: Column): Fragment {
  const shown = sql`(${output(alias, column)})::text`;
  if (!isFree(column)) return sql`coalesce(${shown}, '')`;
  // By bytes, since patterns and replacements fail under a collation that takes different texts for equal.
  const text = sql`(${shown} collate "C")`;
  const harmless = sql`case when ${text} ~ ${FORMULA} then '''' || ${text} else ${text} end`;
  return sql`coalesce('"' || replace(${harmless}, '"', '""') || '"', '')`;
}

/** A row of RFC 4180 with its line break. */
export const csvRow = (alias: string, columns: readonly Column[]): Fragment =>
  sql`array_to_string(array[${join(
    columns.map((column) => cell(alias, column)),
    ', ',
  )}], ',') || e'\\r\\n'`;

/** All records that the plan matches, whatever its page: a row of one text each. Rows are formatted once they are sorted. */
export function exportStatement(plan: ListPlan, format: (alias: string) => Fragment): Statement {
  const order = plan.orderings.map(({ alias, column, descending }) =>
    descending ? sql`${reference(alias, column)} desc` : reference(alias, column),
  );
  const rows = sql`select ${raw(ROOT)}.*${source(plan)} order by ${join(order, ', ')}`;
  return compile(sql`select ${format(ROOT)} from (${rows}) ${raw(ROOT)}`);
}

/**
 * The records that have these keys.
 * @returns a row for each: where its key stands among the keys, from 1, and its JSON
 */
export function presentStatement(
  { table: name, primaryKey }: Model,
  columns: readonly Column[],
  ids: readonly string[],
  isLocked: boolean,
): Statement {
  const keys = sql`unnest(${valueList(ids)}) with ordinality k (id, place)`;
  const on = sql`${reference(ROOT, primaryKey)} = ${cast(raw('k.id'), primaryKey)}`;
  const lock = raw(isLocked ? ` for no key update of ${ROOT}` : '');
  return compile(
    sql`select k.place::text, ${record(ROOT, columns)} from ${keys} join ${table(name)} ${raw(ROOT)} on ${on} order by ${reference(ROOT, primaryKey)}${lock}`,
  );
}

export interface CsvRow {
  /** Where it begins, counted from 1. */
  readonly line: number;
  /** Null for a cell without anything in it, not even quotes. */
  readonly cells: readonly (string | null)[];
}

const PLAIN = /[^",\r\n]*/y;

/** Characters that are read between two chances for other requests. */
const MOST_IN_TURN = 65_536;

/** How many lines begin within a part of a text. */
function lineBreaksIn(text: string, from: number, to: number): number {
  let count = 0;
  for (let at = from; at < to; at += 1) {
    const code = text.charCodeAt(at);
    if (code === 0x0a || (code === 0x0d && text.charCodeAt(at + 1) !== 0x0a)) count += 1;
  }
  return count;
}

/**
 * Reads the cell in quotes that starts at `from`.
 * @returns its text, where it ends, and how many lines begin in it; undefined for a cell without an end
 */
function* quotedAt(
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
    if (!isEnd && at - start < MOST_IN_TURN) continue;
    // Two quotes are never split, since this is behind the last ones.
    // Several times faster than `replaceAll`, whose answer is a tree of pieces that the next reader must put together.
    value += text.slice(start, at).split('""').join('"');
    lineBreaks += lineBreaksIn(text, start, at);
    if (isEnd) return [value, at + 1, lineBreaks];
    start = at;
    yield;
  }
}

function plainAt(text: string, from: number): string {
  PLAIN.lastIndex = from;
  return PLAIN.exec(text)?.[0] ?? '';
}

type ParsedCsv = CsvRow[] | { readonly faultyLine: number };

/** Reads CSV, and yields where other requests may be served. See `parseCsv`. */
function* readCsv(text: string, mostRows: number): Generator<undefined, ParsedCsv> {
  const csv = text.replace(/^\uFEFF/, '');
  const rows: CsvRow[] = [];
  let cells: (string | null)[] = [];
  let line = 1;
  let start = 1;
  let turn = MOST_IN_TURN;
  for (let at = 0; at < csv.length || cells.length > 0;) {
    if (at > turn) {
      turn = at + MOST_IN_TURN;
      yield;
    }
    if (csv[at] === '"') {
      const quoted = yield* quotedAt(csv, at);
      if (!quoted) return { faultyLine: line };
      const [value, end, lineBreaks] = quoted;
      cells.push(value);
      line += lineBreaks;
      at = end;
    } else {
      const plain = plainAt(csv, at);
      cells.push(plain === '' ? null : plain);
      at += plain.length;
    }
    const next = csv[at];
    if (next !== undefined && next !== ',' && next !== '\r' && next !== '\n') return { faultyLine: line };
    at += next === '\r' && csv[at + 1] === '\n' ? 2 : 1;
    if (next === ',') continue;
    if (cells.length > 1 || cells[0] !== null) {
      rows.push({ line: start, cells });
      if (rows.length >= mostRows) return rows;
    }
    cells = [];
    line += 1;
    start = line;
  }
  return rows;
}

/**
 * Reads CSV: commas, quotes doubled inside quotes, any line break, a byte order mark at the start. Cells may be of any length:
 * a regular expression for those in quotes would run out of stack.
 * @returns the rows, empty lines left out, or the line at which it cannot be read
 */
export function parseCsv(text: string): ParsedCsv {
  const steps = readCsv(text, Infinity);
  for (;;) {
    const { done, value } = steps.next();
    if (done) return value;
  }
}

/**
 * The same, while other requests are served.
 * @param mostRows stops after so many rows
 */
export async function parseCsvInTurns(text: string, mostRows: number): Promise<ParsedCsv> {
  const steps = readCsv(text, mostRows);
  for (;;) {
    const { done, value } = steps.next();
    if (done) return value;
    await setImmediate();
  }
}
