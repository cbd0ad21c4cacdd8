// Parses an imported CSV file and checks its form, but not its values.
import { findColumn, type Column } from '../../db/schema/model.ts';
import type { YieldIfDue } from '../../db/scheduling/requester.ts';
import { parseCsvInTurns, type CsvRow } from '../../query/csv/csv-parser.ts';
import type { AdminResource } from '../../resources/serve/admin-resource.ts';
import { counted, grouped, shortened } from '../web/display-text.ts';

/** Maximum size of a CSV file (bytes). The preview form holds it in Base64, which takes a third more. */
export const MAX_FILE_BYTES = 5 * 1024 * 1024;
export const MAX_ROWS = 10_000;
/** Maximum number of cells. Empty ones take more memory than characters. */
const MAX_CELLS = 1_000_000;
/** Other separators that spreadsheets write. */
const OTHER_SEPARATOR = /[;\t]/;
const NEEDS_COMMAS = 'The file must be separated by commas. Export it again with the comma as the separator.';
/** PostgreSQL's own limit is 1,600 columns per table. */
const MAX_COLUMNS = 2000;
/** The maximum number of faults listed for a file. */
const MAX_FAULTS = 10;

/** A row with one cell per column, unless it has a fault. */
export interface FileRow extends CsvRow {
  /** Why its cells do not match the columns. */
  readonly fault: string | undefined;
}

/** A CSV file with a valid first line. */
export interface ImportFile {
  readonly columns: readonly Column[];
  readonly rows: readonly FileRow[];
}

/** Whether an import sets the column. A file may contain other columns, as an export does, but they are ignored. */
export const isSettable = (column: Column, { readonly, model }: AdminResource): boolean =>
  column !== model.primaryKey && !readonly.has(column);

/** Whether every record needs a password. Passwords are not imported, so an import cannot add such records. */
export const needsPassword = ({ model }: AdminResource): boolean =>
  model.columns.some(({ isPassword, nullable, hasDefault }) => isPassword && !nullable && !hasDefault);

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
function readHeader(
  cells: CsvRow['cells'],
  resource: AdminResource,
): Column[] | { readonly faults: string[] } {
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
  if (faults.length > 0 && cells.length === 1 && OTHER_SEPARATOR.test(cells[0] ?? ''))
    return { faults: [NEEDS_COMMAS] };
  if (faults.length === 0 && !columns.some((column) => isSettable(column, resource)))
    faults.push('The file has no column that an import can set.');
  return faults.length > 0 ? { faults: firstFaults(faults) } : columns;
}

/** Parses a CSV file and finds its columns. The faults are sentences for people. */
export async function readImportFile(
  text: string,
  resource: AdminResource,
  yieldIfDue: YieldIfDue,
): Promise<ImportFile | { readonly faults: readonly string[] }> {
  if (text === '') return { faults: ['Choose a file or paste its text.'] };
  const bytes = Buffer.byteLength(text);
  if (bytes > MAX_FILE_BYTES)
    return {
      faults: [`The file must be at most ${grouped(MAX_FILE_BYTES)} bytes (got ${grouped(bytes)}).`],
    };
  // The first line, and one row more than the limit to notice that there are too many.
  const parsed = await parseCsvInTurns(text, { rows: MAX_ROWS + 2, cells: MAX_CELLS }, yieldIfDue);
  if (parsed === 'tooManyCells')
    return {
      faults: [`The file must have at most ${grouped(MAX_CELLS)} cells. Split it into several files.`],
    };
  if ('faultyLine' in parsed) {
    const [firstLine = ''] = text.split(/[\r\n]/, 1);
    if (!firstLine.includes(',') && OTHER_SEPARATOR.test(firstLine)) return { faults: [NEEDS_COMMAS] };
    return {
      faults: [
        `Line ${parsed.faultyLine}: a quoted cell is not closed, or a quote inside a cell is not doubled.`,
      ],
    };
  }
  const [header, ...rows] = parsed;
  if (!header) return { faults: ['The file is empty.'] };
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
  return { columns, rows: rows.map(fileRow) };
}
