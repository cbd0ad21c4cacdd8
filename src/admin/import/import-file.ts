import { findColumn, type Column } from '../../db/schema/model.ts';
import { parseCsvInTurns, type CsvRow } from '../../query/statements/csv.ts';
import type { AdminResource } from '../../resources/serve/admin-resource.ts';
import { counted, grouped, shortened } from '../web/display-text.ts';

/** Bytes of the CSV itself. The text goes to the browser and back in Base64, which takes a third more. */
export const MOST_BYTES = 5 * 1024 * 1024;
export const MOST_ROWS = 10_000;
/** What some spreadsheets write between cells. */
const OTHER_SEPARATOR = /[;\t]/;
const NEEDS_COMMAS =
  'The names in the first line must have commas between them, and so must the cells below.';
/** PostgreSQL's tables have at most 1,600 columns. */
const MAX_COLUMNS = 2000;
/** How many faults of one kind are told. */
const MOST_TOLD = 10;

/** A row, with a cell for each of the columns unless it is faulty. */
export interface FileRow extends CsvRow {
  /** Why its cells cannot be told apart. */
  readonly fault: string | undefined;
}

/** A CSV file whose head has been understood. */
export interface ImportFile {
  readonly columns: readonly Column[];
  readonly rows: readonly FileRow[];
}

/** Columns that a file may have, though their values are not used: what was exported can be imported. */
export const isSettable = (column: Column, { readonly, model }: AdminResource): boolean =>
  column !== model.primaryKey && !readonly.has(column);

/** Whether every record has a password: passwords are not imported, so no new record can be. */
export const needsPassword = ({ model }: AdminResource): boolean =>
  model.columns.some(({ isPassword, nullable, hasDefault }) => isPassword && !nullable && !hasDefault);

/** Spreadsheets fill rows up with empty cells. */
function trimmed(cells: CsvRow['cells'], width: number): CsvRow['cells'] {
  let length = cells.length;
  while (length > width && cells[length - 1] === null) length -= 1;
  return length === cells.length ? cells : cells.slice(0, length);
}

/** At most so many of the faults, and how many more there are. */
const told = (faults: readonly string[]): string[] =>
  faults.length <= MOST_TOLD
    ? [...faults]
    : [...faults.slice(0, MOST_TOLD), `… and ${grouped(faults.length - MOST_TOLD)} more of this kind.`];

/** The columns that the head names, or what is wrong with it. */
function readHead(cells: CsvRow['cells'], resource: AdminResource): Column[] | { readonly faults: string[] } {
  const { model, output, passwords } = resource;
  const columns: Column[] = [];
  const faults: string[] = [];
  if (cells.length > MAX_COLUMNS)
    return {
      faults: [
        `The first line has ${grouped(cells.length)} columns; at most ${grouped(MAX_COLUMNS)} can be read.`,
      ],
    };
  const titled = new Map(output.toReversed().map((column) => [column.title.toLowerCase(), column]));
  for (const [index, cell] of trimmed(cells, 0).entries()) {
    const name = cell?.trim() ?? '';
    const column = findColumn(model, name);
    const quoted = `“${shortened(name, 60)}”`;
    if (name === '') faults.push(`Column ${index + 1} has no name.`);
    else if (column && passwords.includes(column))
      faults.push(`The column ${quoted} cannot be imported: passwords are set on a page of their own.`);
    else if (!column || !output.includes(column)) {
      const meant = titled.get(name.toLowerCase());
      faults.push(`There is no column ${quoted}.${meant ? ` Its name in a file is “${meant.key}”.` : ''}`);
    } else if (columns.includes(column)) faults.push(`The column ${quoted} stands there twice.`);
    else columns.push(column);
  }
  if (faults.length > 0 && cells.length === 1 && OTHER_SEPARATOR.test(cells[0] ?? ''))
    return { faults: [NEEDS_COMMAS] };
  if (faults.length === 0 && !columns.some((column) => isSettable(column, resource)))
    faults.push('No column of the file is one that can be set.');
  return faults.length > 0 ? { faults: told(faults) } : columns;
}

/** Understands a CSV file as far as that goes without its values; else tells everything that is wrong with it. */
export async function readImportFile(
  text: string,
  resource: AdminResource,
): Promise<ImportFile | { readonly faults: readonly string[] }> {
  if (text === '') return { faults: ['Choose a file or paste its text.'] };
  const bytes = Buffer.byteLength(text);
  if (bytes > MOST_BYTES)
    return {
      faults: [
        `The file has ${grouped(bytes)} bytes; at most ${grouped(MOST_BYTES)} can be imported at once.`,
      ],
    };
  // One row more than can be imported, and the line with the names of the columns.
  const parsed = await parseCsvInTurns(text, MOST_ROWS + 2);
  if ('faultyLine' in parsed) {
    const [head = ''] = text.split(/[\r\n]/, 1);
    if (!head.includes(',') && OTHER_SEPARATOR.test(head)) return { faults: [NEEDS_COMMAS] };
    return {
      faults: [
        `Line ${parsed.faultyLine}: the quotes around a cell are not closed, or stand inside of it alone.`,
      ],
    };
  }
  const [head, ...rows] = parsed;
  if (!head) return { faults: ['The file is empty.'] };
  const columns = readHead(head.cells, resource);
  if ('faults' in columns) return columns;
  if (rows.length === 0)
    return { faults: ['There is nothing below the line with the names of the columns.'] };
  if (rows.length > MOST_ROWS)
    return {
      faults: [
        `The file has more than ${grouped(MOST_ROWS)} rows, which is the most that can be imported at once.`,
      ],
    };
  const width = columns.length;
  const fileRow = ({ line, cells: all }: CsvRow): FileRow => {
    const cells = trimmed(all, width);
    const has = `has ${counted(cells.length, 'cell')}, where the first line has ${width}`;
    return { line, cells, fault: cells.length === width ? undefined : `the row ${has}` };
  };
  return { columns, rows: rows.map(fileRow) };
}
