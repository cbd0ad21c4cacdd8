// Parses CSV. Large files are parsed in turns, so that other requests are served in between.
import type { YieldIfDue } from '../../db/lanes/requester.ts';

export interface CsvRow {
  /** The line where the row starts, from 1. */
  readonly line: number;
  /** Null for an empty cell without quotes. */
  readonly cells: readonly (string | null)[];
}

export type Separator = ',' | ';' | '\t' | '|';

/** Matches a cell without quotes. Between tabs, where programs seldom quote cells, it may contain quotes. */
const UNQUOTED: Readonly<Record<Separator, RegExp>> = {
  ',': /[^",\r\n]*/y,
  ';': /[^";\r\n]*/y,
  '\t': /[^\t\r\n]*/y,
  '|': /[^"|\r\n]*/y,
};

/** A first line that declares the separator, as Excel writes it. */
const DECLARATION = /^\uFEFF?("?)sep=([,;\t|])\1(?=[\r\n]|$)/i;
/** The first line that has more than separators. */
const HEADER = /[^\uFEFF\r\n,;\t][^\r\n]*/;
/** Maximum characters of the first line that `findSeparator` looks at. */
const MAX_HEADER = 131_072;

/** The separator that the first line declares, or otherwise has most often outside of quotes. */
export function findSeparator(text: string): { readonly separator: Separator; readonly isDeclared: boolean } {
  const declared = DECLARATION.exec(text)?.[2];
  if (declared !== undefined) return { separator: declared as Separator, isDeclared: true };
  const header = (HEADER.exec(text)?.[0] ?? text).slice(0, MAX_HEADER).replace(/"[^"]*"/g, '');
  let [separator, most]: [Separator, number] = [',', 0];
  for (const one of [',', ';', '\t'] as const) {
    const count = header.split(one).length - 1;
    if (count > most) [separator, most] = [one, count];
  }
  return { separator, isDeclared: false };
}

/** Characters to read before yielding to other requests. */
const YIELD_INTERVAL = 16_384;

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

function unquotedAt(text: string, from: number, separator: Separator): string {
  const cell = UNQUOTED[separator];
  cell.lastIndex = from;
  return cell.exec(text)?.[0] ?? '';
}

type ParsedCsv = CsvRow[] | { readonly faultyLine: number } | 'tooManyCells';

interface CsvLimits {
  /** Parsing stops after this many rows. */
  readonly rows: number;
  readonly cells: number;
}
const UNLIMITED: CsvLimits = { rows: Infinity, cells: Infinity };

/** Reads CSV as `parseCsv` does, and yields from time to time so that the caller can serve other requests. */
function* readCsv(
  text: string,
  limits: CsvLimits,
  separator: Separator = ',',
): Generator<undefined, ParsedCsv> {
  const csv = text.replace(/^\uFEFF/, '');
  const rows: CsvRow[] = [];
  let cells: (string | null)[] = [];
  let cellCount = 0;
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
      const unquoted = unquotedAt(csv, at, separator);
      cells.push(unquoted === '' ? null : unquoted);
      at += unquoted.length;
    }
    cellCount += 1;
    if (cellCount > limits.cells) return 'tooManyCells';
    const next = csv[at];
    if (next !== undefined && next !== separator && next !== '\r' && next !== '\n')
      return { faultyLine: line };
    at += next === '\r' && csv[at + 1] === '\n' ? 2 : 1;
    if (next === separator) continue;
    if (cells.some((cell) => cell === '' || cell?.trim())) {
      rows.push({ line: rowStart, cells });
      if (rows.length >= limits.rows) return rows;
    } else cellCount -= cells.length; // Spreadsheets write cleared rows as separators, and blanks are invisible there.
    cells = [];
    line += 1;
    rowStart = line;
  }
  return rows;
}

/**
 * Parses CSV: commas, doubled quotes inside quotes, any line break, an optional byte order mark. Cells may have any length; a
 * regular expression for quoted cells would overflow the stack.
 * @returns the rows without those of separators and blanks only, or the line with the first syntax error
 */
export function parseCsv(text: string): Exclude<ParsedCsv, 'tooManyCells'> {
  const steps = readCsv(text, UNLIMITED);
  for (;;) {
    const { done, value } = steps.next();
    if (done) return value as Exclude<ParsedCsv, 'tooManyCells'>;
  }
}

/**
 * Parses CSV as `parseCsv` does.
 * @param yieldIfDue lets other requests run in between
 * @returns also `tooManyCells`, as soon as there are more than the limit
 */
export async function parseCsvInTurns(
  text: string,
  limits: CsvLimits,
  yieldIfDue: YieldIfDue,
  separator?: Separator,
): Promise<ParsedCsv> {
  const steps = readCsv(text, limits, separator);
  for (;;) {
    const { done, value } = steps.next();
    if (done) return value;
    await yieldIfDue();
  }
}
