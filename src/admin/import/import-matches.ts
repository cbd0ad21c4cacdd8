// Matches the rows of a file to records by their values in a column, in groups of limited size.
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
import { messageOf } from '../../messages.ts';
import { t } from '../web/language.ts';
import { isSettable, type Mapping } from './import-mapping.ts';
import { WHOLE_ROW, type ImportRow } from './import-values.ts';

/** A row and the record that it matches. */
export interface MatchedRow {
  readonly row: ImportRow;
  /** The key of the record, or of the new record; undefined if the row has none. */
  readonly id: string | undefined;
  /** The record's columns that the file has. */
  readonly record: JsonFields | undefined;
  /** Errors of the key or of the whole row. */
  readonly errors: FieldErrors | undefined;
}

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

/** The value of a row in a column; for a key of several columns also that of their cells. */
function textOf(
  columns: readonly Column[],
  { values, fault }: ImportRow,
  column: Column,
): string | undefined {
  if (fault !== undefined) return undefined;
  const cellOf = (one: Column): string | undefined => values[columns.indexOf(one)] ?? undefined;
  const text = cellOf(column);
  if (text !== undefined || !column.parts) return text;
  const texts = column.parts.flatMap((part) => cellOf(part) ?? []);
  return texts.length === column.parts.length ? joinKey(texts) : undefined;
}

/** The values by which the rows match records, as the file has them and as PostgreSQL compares them. */
async function parseKeys({ columns, by }: Mapping, rows: readonly ImportRow[]) {
  const texts: (string | undefined)[] = [];
  /** The rows with a valid value. */
  const rowIndexes: number[] = [];
  const keys: string[] = [];
  for (const [rowIndex, row] of rows.entries()) {
    if (rowIndex % KEYS_AT_ONCE === KEYS_AT_ONCE - 1) await setImmediate();
    const text = by && textOf(columns, row, by);
    const parsed = text === undefined || !by || row.faults[by.key] ? undefined : by.type.parse(text, by);
    texts.push(text);
    if (parsed === undefined || parsed.fault !== undefined) continue;
    rowIndexes.push(rowIndex);
    keys.push(parsed.value);
  }
  return { texts, rowIndexes, keys };
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
  { columns }: Mapping,
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
 * Yields the rows in groups, each row with the record that it matches. The records are locked in the order of their keys, which
 * avoids deadlocks, and are as they were before the import.
 */
export async function* matchRows(
  run: Transaction['run'],
  resource: AdminView,
  mapping: Mapping,
  rows: readonly ImportRow[],
): AsyncGenerator<MatchedRow[], void> {
  const { may, model, visibility } = resource;
  const { primaryKey } = model;
  const { columns, by } = mapping;
  const { texts, rowIndexes, keys } = await parseKeys(mapping, rows);
  const found = new Map<number, MatchedRecord>();
  if (by && keys.length > 0)
    for (const record of await run(
      matchedRecordsStatement(model, by, columns, keys, may.has('change'), visibility),
    ))
      found.set(rowIndexes[record.index] ?? -1, record);
  const present = rowIndexes.filter((rowIndex) => found.has(rowIndex));
  const ids = present.map((rowIndex) => parseId(resource, found.get(rowIndex)?.id ?? '') ?? '');
  const recordsOf = await openRecords(run, resource, mapping, present, ids);
  const isByKey = by === primaryKey;
  /** Whether a new record can have the value by which a row matched none. */
  const isOwn =
    isByKey && !by.parts
      ? hasNaturalKey(model)
      : (by?.parts ?? [by]).every((part) => part && isSettable(part, resource));
  /** The first line with each value, or with the record that it has. */
  const lines = new Map<string, number>();

  function match(
    row: ImportRow,
    text: string | undefined,
    record: JsonFields | undefined,
    storedId: string,
  ): MatchedRow {
    if (row.fault !== undefined)
      return { row, id: undefined, record: undefined, errors: { [WHOLE_ROW]: [row.fault] } };
    // Clients may set the key of a new record that another column has not matched.
    const sentId = isByKey ? text : hasNaturalKey(model) ? textOf(columns, row, primaryKey) : undefined;
    const parsed = record || sentId === undefined ? undefined : primaryKey.type.parse(sentId, primaryKey);
    const id = record ? storedId : primaryKey.parts ? sentId : (parsed?.value ?? sentId);
    if (parsed?.fault !== undefined) return { row, id, record, errors: errorOf('id', parsed.fault) };
    if (text === undefined || !by) return { row, id, record, errors: undefined };
    const value = `${record ? 'record' : 'new'} ${record || isByKey ? id : text}`;
    const line = lines.get(value);
    lines.set(value, line ?? row.line);
    const missing = record || isOwn ? undefined : messageOf('noSuchRecord');
    const fault = line === undefined ? missing : t('alreadyInLine', { line: String(line) });
    return { row, id, record, errors: fault === undefined ? undefined : errorOf(by.key, fault) };
  }

  for (let start = 0; start < rows.length;) {
    const end = endOfGroup(start, rows.length, found);
    const records = await recordsOf(start, end);
    const group = rows.slice(start, end);
    yield group.map((row, offset) => {
      const rowIndex = start + offset;
      return match(row, texts[rowIndex], records.get(rowIndex), found.get(rowIndex)?.id ?? '');
    });
    start = end;
  }
}
