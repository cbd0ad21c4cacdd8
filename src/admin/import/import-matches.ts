// Matches the rows of a file to records, in groups of limited size.
import { setImmediate } from 'node:timers/promises';
import type { Transaction } from '../../db/connection/transactions.ts';
import { joinKey } from '../../db/schema/composite-key.ts';
import { hasNaturalKey, type Column } from '../../db/schema/model.ts';
import { errorOf, type FieldErrors } from '../../errors.ts';
import {
  fetchRecords,
  matchedRecordsStatement,
  openCursor,
  recordsInOrderStatement,
  type MatchedRecord,
} from '../../query/statements/records-by-key.ts';
import {
  parseJsonFields,
  parseJsonFieldsInTurns,
  type JsonFields,
} from '../../resources/records/json-fields.ts';
import { parseId } from '../../resources/records/read-record.ts';
import { LARGE_RECORD } from '../../resources/records/labeled-record.ts';
import type { AdminView } from '../../resources/access/admin-view.ts';
import { cellText, isSettable, type FileRow, type ImportFile } from './import-file.ts';

/** A row and the record that its key identifies. */
export interface MatchedRow {
  readonly row: FileRow;
  /** The key of the record, or of the new record; undefined if the row has none. */
  readonly id: string | undefined;
  /** The record's columns that the file has. */
  readonly record: JsonFields | undefined;
  /** Errors of the key or of the whole row. */
  readonly errors: FieldErrors | undefined;
}

/** The field name for errors that belong to no column. */
export const WHOLE_ROW = '';

/** The number of rows per savepoint. Savepoints slow down other transactions, so one for each row would be too many. */
const GROUP_SIZE = 64;
/** Maximum bytes of the records of a group, unless a single record has more. */
const GROUP_BYTES = 262_144;
/** Rows whose keys are checked before other requests may run. */
const KEYS_AT_ONCE = 1_000;
const CURSOR = 'import_records';

/** The fields of a record. Lets other requests run while it parses a large one. */
export const parseRecord = (json: string): JsonFields | Promise<JsonFields> =>
  json.length < LARGE_RECORD ? parseJsonFields(json) : parseJsonFieldsInTurns(json);

/** The key of a row: its `id`, or the cells of the columns that make up the key. */
function keyOfRow(
  columns: readonly Column[],
  { cells, fault }: FileRow,
  primaryKey: Column,
): string | undefined {
  if (fault !== undefined) return undefined;
  const textOf = (column: Column): string | undefined =>
    cellText(cells[columns.indexOf(column)] ?? null, column) ?? undefined;
  const id = textOf(primaryKey);
  if (id !== undefined || !primaryKey.parts) return id;
  const texts = primaryKey.parts.flatMap((part) => textOf(part) ?? []);
  return texts.length === primaryKey.parts.length ? joinKey(texts) : undefined;
}

/** The keys of the rows, as the file has them and as PostgreSQL compares them. */
async function parseKeys(resource: AdminView, { columns, rows }: ImportFile) {
  const ids: (string | undefined)[] = [];
  /** The rows with a valid key. */
  const rowIndexes: number[] = [];
  const keys: string[] = [];
  for (const [rowIndex, row] of rows.entries()) {
    if (rowIndex % KEYS_AT_ONCE === KEYS_AT_ONCE - 1) await setImmediate();
    const id = keyOfRow(columns, row, resource.model.primaryKey);
    const key = id === undefined ? undefined : parseId(resource, id);
    ids.push(id);
    if (key === undefined) continue;
    rowIndexes.push(rowIndex);
    keys.push(key);
  }
  return { ids, rowIndexes, keys };
}

/** The end of the group of rows that begins at an index. */
function endOfGroup(start: number, total: number, found: ReadonlyMap<number, MatchedRecord>): number {
  let end = start;
  for (let bytes = 0; end < total && end - start < GROUP_SIZE; end += 1) {
    bytes += found.get(end)?.bytes ?? 0;
    if (bytes > GROUP_BYTES && end > start) break;
  }
  return end;
}

/**
 * Opens a cursor over records.
 * @param rowIndexes the rows of the records
 * @returns a function that reads the records of the rows from `start` to before `end`, group after group
 */
async function openRecords(
  run: Transaction['run'],
  { model, output, visibility }: AdminView,
  { columns }: ImportFile,
  rowIndexes: readonly number[],
  keys: readonly string[],
): Promise<(start: number, end: number) => Promise<ReadonlyMap<number, JsonFields>>> {
  if (keys.length === 0) return () => Promise.resolve(new Map());
  const read = output.filter((column) => column === model.primaryKey || columns.includes(column));
  await run(openCursor(recordsInOrderStatement(model, read, keys, visibility), CURSOR));
  const records = new Map<number, JsonFields>();
  let next = 0;
  return async (start, end) => {
    for (const rowIndex of records.keys()) if (rowIndex < start) records.delete(rowIndex);
    let last = next;
    while ((rowIndexes[last] ?? Infinity) < end) last += 1;
    while (next < last) {
      const fetched = await run(fetchRecords(CURSOR, last - next));
      for (const { index, json } of fetched) {
        records.set(rowIndexes[index] ?? -1, await parseRecord(json));
        next = index + 1;
      }
      // The last records may have been deleted meanwhile.
      if (fetched.length === 0) next = last;
    }
    return records;
  };
}

/**
 * Yields the rows in groups, each row with the record that its key identifies. The records are locked in the order of their keys,
 * which avoids deadlocks, and are as they were before the import.
 */
export async function* matchRows(
  run: Transaction['run'],
  resource: AdminView,
  file: ImportFile,
): AsyncGenerator<MatchedRow[], void> {
  const { may, model, visibility } = resource;
  const { primaryKey } = model;
  const { columns, rows } = file;
  const { ids, rowIndexes, keys } = await parseKeys(resource, file);
  const found = new Map<number, MatchedRecord>();
  if (keys.length > 0)
    for (const record of await run(
      matchedRecordsStatement(model, columns, keys, may.has('change'), visibility),
    ))
      found.set(rowIndexes[record.index] ?? -1, record);
  const present = rowIndexes.flatMap((rowIndex, index) => (found.has(rowIndex) ? [index] : []));
  const recordsOf = await openRecords(
    run,
    resource,
    file,
    present.map((index) => rowIndexes[index] ?? -1),
    present.map((index) => keys[index] ?? ''),
  );
  const isGenerated = primaryKey.parts?.some((part) => !isSettable(part, resource)) ?? !hasNaturalKey(model);
  /** The first line with each key. */
  const lines = new Map<string, number>();

  function match(
    row: FileRow,
    sentId: string | undefined,
    record: JsonFields | undefined,
    storedId: string,
  ): MatchedRow {
    if (sentId === undefined) {
      const errors = row.fault === undefined ? undefined : { [WHOLE_ROW]: [row.fault] };
      return { row, id: undefined, record: undefined, errors };
    }
    const parsed = primaryKey.type.parse(sentId, primaryKey);
    const id = record ? storedId : primaryKey.parts ? sentId : (parsed.value ?? sentId);
    const line = lines.get(id);
    lines.set(id, line ?? row.line);
    const isMissing = !record && isGenerated;
    const repeated = line === undefined ? undefined : `is already in line ${line}`;
    const fault = parsed.fault ?? repeated ?? (isMissing ? 'there is no such record' : undefined);
    return { row, id, record, errors: fault === undefined ? undefined : errorOf('id', fault) };
  }

  for (let start = 0; start < rows.length;) {
    const end = endOfGroup(start, rows.length, found);
    const records = await recordsOf(start, end);
    const group = rows.slice(start, end);
    yield group.map((row, offset) => {
      const rowIndex = start + offset;
      return match(row, ids[rowIndex], records.get(rowIndex), found.get(rowIndex)?.id ?? '');
    });
    start = end;
  }
}
