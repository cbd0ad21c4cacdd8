// Parses an imported CSV file and checks its form, but not its values.
import { findColumn, type Column } from '../../db/schema/model.ts';
import type { YieldIfDue } from '../../db/lanes/requester.ts';
import { decodeUtf8 } from '../../http/message/text-decoding.ts';
import { findSeparator, parseCsvInTurns, type CsvRow, type Separator } from '../../query/csv/csv-parser.ts';
import { isFreeText, withoutGuard } from '../../query/csv/csv-rows.ts';
import type { AdminView } from '../../resources/access/admin-view.ts';
import { counted, grouped, shortened } from '../web/display-text.ts';
import { PIECE } from '../web/html.ts';

/** Maximum size of a CSV file (bytes). The preview form holds it in Base64, which takes a third more. */
export const MAX_FILE_BYTES = 5 * 1024 * 1024;
export const MAX_ROWS = 10_000;
/** Maximum number of cells. Empty ones take more memory than characters. */
const MAX_CELLS = 1_000_000;
/** PostgreSQL's own limit is 1,600 columns per table. */
const MAX_COLUMNS = 2000;
/** The maximum number of faults listed for a file. */
const MAX_FAULTS = 10;

/** A row with one cell per column, unless it has a fault. */
export interface FileRow extends CsvRow {
  /** Why its cells do not match the columns. */
  readonly fault: string | undefined;
}

type Encoding = 'UTF-8' | 'UTF-16' | 'Windows-1252';

/** A CSV file with a valid first line. */
export interface ImportFile {
  readonly columns: readonly Column[];
  readonly rows: readonly FileRow[];
  readonly separator: Separator;
  readonly encoding: Encoding;
}

/** Whether an import sets the column. A file may contain other columns, as an export does, but they are ignored. */
export const isSettable = (column: Column, { readonly, settable, model }: AdminView): boolean =>
  column !== model.primaryKey &&
  !readonly.has(column) &&
  (settable.create.has(column) || settable.update.has(column));

/** Whether every record needs a password. Passwords are not imported, so an import cannot add such records. */
export const needsPassword = ({ model }: AdminView): boolean =>
  model.columns.some(({ isPassword, nullable, hasDefault }) => isPassword && !nullable && !hasDefault);

/** The value of a cell as text; null for no value. An empty quoted cell is an empty string only in a text column. */
export function cellText(cell: string | null, column: Column): string | null {
  if (cell === null) return null;
  const text = isFreeText(column) ? withoutGuard(cell) : cell.trim();
  if (column.type.input.json === 'json') return ['', 'null'].includes(text.trim()) ? null : text.trim();
  return text === '' && !isFreeText(column) ? null : text;
}

/** Removes the empty cells that spreadsheets append to a row. */
function trimmed(cells: CsvRow['cells'], width: number): CsvRow['cells'] {
  let length = cells.length;
  while (length > width && cells[length - 1] === null) length -= 1;
  return length === cells.length ? cells : cells.slice(0, length);
}

/** Cuts a long list of faults and adds the number of the others. */
const firstFaults = (faults: readonly string[]): string[] =>
  faults.length <= MAX_FAULTS
    ? [...faults]
    : [...faults.slice(0, MAX_FAULTS), `… and ${counted(faults.length - MAX_FAULTS, 'more error')}.`];

/** Finds the columns that the first line names. */
function readHeader(cells: CsvRow['cells'], resource: AdminView): Column[] | { readonly faults: string[] } {
  const { model, output, passwords } = resource;
  const columns: Column[] = [];
  const faults: string[] = [];
  if (cells.length > MAX_COLUMNS)
    return {
      faults: [
        `The first line must have at most ${grouped(MAX_COLUMNS)} columns (got ${grouped(cells.length)}).`,
      ],
    };
  const titled = new Map(output.toReversed().map((column) => [column.title.toLowerCase(), column]));
  for (const [index, cell] of trimmed(cells, 0).entries()) {
    const name = cell?.trim() ?? '';
    const column = findColumn(model, name);
    const quoted = `“${shortened(name, 60)}”`;
    if (name === '') faults.push(`Column ${index + 1} has no name.`);
    else if (column && passwords.includes(column))
      faults.push(`The column ${quoted} cannot be imported: set passwords on the password page of a record.`);
    else if (!column || !output.includes(column)) {
      const similar = titled.get(name.toLowerCase());
      faults.push(`There is no column ${quoted}.${similar ? ` Use its name “${similar.key}”.` : ''}`);
    } else if (columns.includes(column)) faults.push(`The column ${quoted} appears twice.`);
    else columns.push(column);
  }
  if (faults.length === 0 && !columns.some((column) => isSettable(column, resource)))
    faults.push('The file has no column that an import can set.');
  return faults.length > 0 ? { faults: firstFaults(faults) } : columns;
}

/** The characters from 0x80 to 0x9F in Windows-1252, which is otherwise Latin-1. Five bytes have no character. */
const WINDOWS_1252 = '€\0‚ƒ„…†‡ˆ‰Š‹Œ\0Ž\0\0‘’“”•–—˜™š›œ\0žŸ';
/** These bytes, and NUL, which binary files have. */
const NOT_WINDOWS_1252 = /[\0\x81\x8d\x8f\x90\x9d]/;
const NOT_A_TEXT = 'The file is not text in UTF-8, UTF-16 or Windows-1252. Save it as CSV in UTF-8.';

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
): Promise<{ text: string; encoding: Encoding } | undefined> {
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

/** Decodes and parses a CSV file and finds its columns. The faults are sentences for people. */
export async function readImportFile(
  bytes: Buffer,
  resource: AdminView,
  yieldIfDue: YieldIfDue,
): Promise<ImportFile | { readonly faults: readonly string[] }> {
  if (bytes.length === 0) return { faults: ['Choose a file or paste its text.'] };
  if (bytes.length > MAX_FILE_BYTES)
    return {
      faults: [`The file must be at most ${grouped(MAX_FILE_BYTES)} bytes (got ${grouped(bytes.length)}).`],
    };
  const decoded = await decodeFile(bytes, yieldIfDue);
  if (!decoded) return { faults: [NOT_A_TEXT] };
  const { text, encoding } = decoded;
  const { separator, isDeclared } = findSeparator(text);
  // The declaration, the first line, and one row more than the limit to notice that there are too many.
  const limits = { rows: MAX_ROWS + 3, cells: MAX_CELLS };
  const parsed = await parseCsvInTurns(text, limits, yieldIfDue, separator);
  if (parsed === 'tooManyCells')
    return {
      faults: [`The file must have at most ${grouped(MAX_CELLS)} cells. Split it into several files.`],
    };
  if ('faultyLine' in parsed)
    return {
      faults: [
        `Line ${parsed.faultyLine}: a quoted cell is not closed, or a quote inside a cell is not doubled.`,
      ],
    };
  const [header, ...rows] = isDeclared ? parsed.slice(1) : parsed;
  if (!header) return { faults: ['The file is empty.'] };
  // UTF-16 without a byte order mark.
  if (header.cells.some((cell) => cell?.includes('\0'))) return { faults: [NOT_A_TEXT] };
  const columns = readHeader(header.cells, resource);
  if ('faults' in columns) return columns;
  if (rows.length === 0) return { faults: ['The file has column names, but no rows.'] };
  if (rows.length > MAX_ROWS)
    return {
      faults: [`The file must have at most ${grouped(MAX_ROWS)} rows. Split it into several files.`],
    };
  const width = columns.length;
  const fileRow = ({ line, cells: all }: CsvRow): FileRow => {
    const cells = trimmed(all, width);
    const isFaulty = cells.length !== width;
    const fault = isFaulty
      ? `the row has ${counted(cells.length, 'cell')}, but the first line has ${width}`
      : undefined;
    return { line, cells, fault };
  };
  return { columns, rows: rows.map(fileRow), separator, encoding };
}
