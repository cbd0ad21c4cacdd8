// Parses an imported CSV file: its encoding, its separator, the line with the titles, and the rows. It knows no columns of a model.
import type { YieldIfDue } from '../../db/lanes/requester.ts';
import { decodeUtf8 } from '../../http/message/text-decoding.ts';
import { findSeparator, parseCsvInTurns, type CsvRow, type Separator } from '../../query/csv/csv-parser.ts';
import { digestOf } from '../fields/form-field.ts';
import type { Form } from '../web/form-data.ts';
import { t } from '../web/language.ts';
import { PIECE } from '../web/html.ts';

/** Maximum size of a CSV file (bytes). The preview form holds it in Base64, which takes a third more. */
export const MAX_FILE_BYTES = 5 * 1024 * 1024;
export const MAX_ROWS = 10_000;
/** Maximum number of cells. Empty ones take more memory than characters. */
const MAX_CELLS = 1_000_000;
/** PostgreSQL's own limit is 1,600 columns per table. */
const MAX_COLUMNS = 2000;
/** The titles are in one of the first rows: spreadsheets may have a heading above them. */
const MAX_HEADINGS = 10;

/** A row. Spreadsheets leave out its last cells if they are empty. */
export interface FileRow extends CsvRow {
  /** Why its cells do not match the titles: it has more. */
  readonly fault: string | undefined;
}

/** A parsed CSV file. */
export interface ImportFile {
  /** The cells of the line with the titles; some may be empty. */
  readonly titles: readonly string[];
  readonly titleLine: number;
  /** The first lines, one of which has the titles. */
  readonly headings: readonly Heading[];
  /** Whether hardly a cell of that line is a title, and nobody has chosen it. */
  readonly isUnsure: boolean;
  /** The rows below the titles. */
  readonly rows: readonly FileRow[];
  readonly separator: Separator;
  readonly encoding: 'UTF-8' | 'UTF-16' | 'Windows-1252';
}

/** A line that may have the titles. */
interface Heading {
  readonly line: number;
  readonly titles: readonly string[];
  /** How many of its cells are not empty, and how many of these are titles. */
  readonly filled: number;
  readonly known: number;
}

/** Identifies the titles of a file: for others, what a form has chosen does not count. */
export const titlesDigest = (titles: readonly string[]): string =>
  digestOf({ text: titles.join('\n'), isNull: false });

/** Removes the empty cells that spreadsheets append to a row. */
function trimmed(cells: CsvRow['cells'], width: number): CsvRow['cells'] {
  let length = cells.length;
  while (length > width && cells[length - 1] === null) length -= 1;
  return length === cells.length ? cells : cells.slice(0, length);
}

/** The first lines. @param isTitle whether a cell names a column */
async function readHeadings(
  lines: readonly CsvRow[],
  isTitle: (cell: string) => boolean,
  yieldIfDue: YieldIfDue,
): Promise<Heading[]> {
  const headings: Heading[] = [];
  for (const { line, cells } of lines.slice(0, MAX_HEADINGS)) {
    const titles = trimmed(cells, 0).map((cell) => cell?.trim() ?? '');
    const filled = titles.slice(0, MAX_COLUMNS).filter((title) => title !== '');
    let known = 0;
    for (const title of filled) {
      if (isTitle(title)) known += 1;
      await yieldIfDue();
    }
    headings.push({ line, titles, filled: filled.length, known });
  }
  return headings;
}

/** The characters from 0x80 to 0x9F in Windows-1252, which is otherwise Latin-1. Five bytes have no character. */
const WINDOWS_1252 = '€\0‚ƒ„…†‡ˆ‰Š‹Œ\0Ž\0\0‘’“”•–—˜™š›œ\0žŸ';
/** These bytes, and NUL, which binary files have. */
const NOT_WINDOWS_1252 = /[\0\x81\x8d\x8f\x90\x9d]/;

/** Whether most of the characters beyond ASCII are valid UTF-8. They seldom are by chance. */
function isMostlyUtf8(bytes: Buffer): boolean {
  const text = bytes.toString();
  let [valid, invalid] = [0, 0];
  for (let at = 0; at < text.length; at += 1) {
    const code = text.charCodeAt(at);
    if (code === 0xfffd) invalid += 1;
    else if (code > 0x7f) valid += 1;
  }
  return valid >= invalid;
}

/** Decodes a file as spreadsheets write it: UTF-8, UTF-16 with a byte order mark, or Windows-1252. */
async function decodeFile(
  bytes: Buffer,
  yieldIfDue: YieldIfDue,
): Promise<{ text: string; encoding: ImportFile['encoding'] } | undefined> {
  const latin1 = bytes.toString('latin1');
  const isBigEndian = latin1.startsWith('\xfe\xff');
  if (isBigEndian || latin1.startsWith('\xff\xfe')) {
    if (bytes.length % 2 === 1) return undefined;
    const text = (isBigEndian ? Buffer.from(bytes).swap16() : bytes).toString('utf16le');
    return text.isWellFormed() ? { text, encoding: 'UTF-16' } : undefined;
  }
  const utf8 = decodeUtf8(bytes);
  if (utf8 !== undefined) return { text: utf8, encoding: 'UTF-8' };
  if (latin1.startsWith('\xef\xbb\xbf') || NOT_WINDOWS_1252.test(latin1) || isMostlyUtf8(bytes))
    return undefined;
  let text = '';
  for (let at = 0; at < latin1.length; at += PIECE) {
    text += latin1
      .slice(at, at + PIECE)
      .replace(/[\x80-\x9f]/g, (byte) => WINDOWS_1252[byte.charCodeAt(0) - 0x80] ?? byte);
    await yieldIfDue();
  }
  return { text, encoding: 'Windows-1252' };
}

/**
 * Decodes and parses a CSV file.
 * @param form in which the line with the titles may be chosen
 * @param isTitle whether a cell names a column
 * @returns or a fault, as a sentence for people
 */
export async function readImportFile(
  bytes: Buffer,
  form: Form,
  isTitle: (cell: string) => boolean,
  yieldIfDue: YieldIfDue,
): Promise<ImportFile | { readonly fault: string }> {
  if (bytes.length === 0) return { fault: t('chooseFile') };
  if (bytes.length > MAX_FILE_BYTES)
    return { fault: t('fileTooLarge', { max: MAX_FILE_BYTES, got: bytes.length }) };
  const decoded = await decodeFile(bytes, yieldIfDue);
  if (!decoded) return { fault: t('notAText') };
  const { text, encoding } = decoded;
  const { separator, isDeclared } = findSeparator(text);
  // The declaration, the first line, and one row more than the limit to notice that there are too many.
  const limits = { rows: MAX_ROWS + 3, cells: MAX_CELLS };
  const parsed = await parseCsvInTurns(text, limits, yieldIfDue, separator);
  if (parsed === 'tooManyCells') return { fault: t('tooManyCells', { max: MAX_CELLS }) };
  if ('faultyLine' in parsed) return { fault: t('faultyQuotes', { line: String(parsed.faultyLine) }) };
  const lines = isDeclared ? parsed.slice(1) : parsed;
  const headings = await readHeadings(lines, isTitle, yieldIfDue);
  const isChosen = headings.some(({ titles }) => titlesDigest(titles) === form.get('_titles'));
  const chosen = headings.find(({ line }) => isChosen && String(line) === form.get('_line'));
  // One cell can be a title by chance, so a later line needs more than the first, and most of its cells.
  const least = Math.max(1, headings[0]?.known ?? 0);
  const later = headings.filter(({ known, filled }) => known > least && 2 * known >= filled);
  const likely = later.sort((one, other) => other.known - one.known)[0] ?? headings[0];
  const header = chosen ?? likely;
  if (!header) return { fault: t('fileIsEmpty') };
  const { titles, line: titleLine, filled, known } = header;
  // UTF-16 without a byte order mark.
  if (titles.some((title) => title.includes('\0'))) return { fault: t('notAText') };
  const width = titles.length;
  if (width > MAX_COLUMNS) return { fault: t('tooManyColumns', { max: MAX_COLUMNS, got: width }) };
  const rows = lines.filter(({ line }) => line > titleLine);
  if (rows.length === 0) return { fault: t('fileHasNoRows') };
  if (rows.length > MAX_ROWS) return { fault: t('tooManyRows', { max: MAX_ROWS }) };
  const fileRow = ({ line, cells: all }: CsvRow): FileRow => {
    const cells = trimmed(all, width);
    const isLong = cells.length > width;
    const fault = isLong ? t('otherCellCount', { count: cells.length, width: String(width) }) : undefined;
    return { line, cells, fault };
  };
  const isUnsure = !chosen && known === 1 && filled > 2;
  return { titles, titleLine, headings, isUnsure, rows: rows.map(fileRow), separator, encoding };
}
