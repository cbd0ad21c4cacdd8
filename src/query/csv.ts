import { cast } from '../db/column-types.ts';
import { compile, join, raw, sql, table, valueList, type Fragment, type Statement } from '../db/fragment.ts';
import { output, reference, type Column, type Model } from '../db/model.ts';
import { ROOT, type ListPlan } from './plan.ts';
import { source } from './read.ts';
import { record } from './record.ts';

/**
 * Texts that a spreadsheet would take for a formula get an apostrophe in front; so does what begins with apostrophes before
 * such a text, so that one can be taken away again without doubt. Spreadsheets may drop spaces at the start.
 */
const FORMULA = raw(`'^['' ]*[=+@\\t\\r\\n-]'`);
const IS_GUARDED = /^'[' ]*[=+@\t\r\n-]/;

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

/** Where the cell in quotes that starts at `from` ends, or -1. */
function endOfQuoted(text: string, from: number): number {
  for (let at = from + 1; ; at += 2) {
    at = text.indexOf('"', at);
    if (at < 0 || text[at + 1] !== '"') return at < 0 ? at : at + 1;
  }
}

function plainAt(text: string, from: number): string {
  PLAIN.lastIndex = from;
  return PLAIN.exec(text)?.[0] ?? '';
}

/**
 * Reads CSV: commas, quotes doubled inside quotes, any line break, a byte order mark at the start. Cells may be of any length:
 * a regular expression for those in quotes would run out of stack.
 * @returns the rows, empty lines left out, or the line at which it cannot be read
 */
export function parseCsv(text: string): CsvRow[] | { readonly faultyLine: number } {
  const csv = text.replace(/^\uFEFF/, '');
  const rows: CsvRow[] = [];
  let cells: (string | null)[] = [];
  let line = 1;
  let start = 1;
  for (let at = 0; at < csv.length || cells.length > 0;) {
    if (csv[at] === '"') {
      const end = endOfQuoted(csv, at);
      if (end < 0) return { faultyLine: line };
      const quoted = csv.slice(at + 1, end - 1);
      cells.push(quoted.replaceAll('""', '"'));
      line += quoted.match(/\r\n|\n|\r/g)?.length ?? 0;
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
    if (cells.length > 1 || cells[0] !== null) rows.push({ line: start, cells });
    cells = [];
    line += 1;
    start = line;
  }
  return rows;
}
