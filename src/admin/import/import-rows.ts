// Imports the rows of a file: which record each of them matches, and what it changes there.
import type { Transaction } from '../../db/connection/transactions.ts';
import type { YieldIfDue } from '../../db/lanes/requester.ts';
import { joinKey } from '../../db/schema/composite-key.ts';
import { hasNaturalKey, type Column } from '../../db/schema/model.ts';
import { Problem, addError, errorOf, type FieldErrors } from '../../errors.ts';
import { messageOf } from '../../messages.ts';
import { equalValuesStatement } from '../../query/statements/conflict-statements.ts';
import {
  fetchRecords,
  matchedRecordsStatement,
  openCursor,
  recordsInOrderStatement,
  type MatchedRecord,
} from '../../query/statements/records-by-key.ts';
import type { Caller } from '../../resources/access/access.ts';
import type { AdminView } from '../../resources/access/admin-view.ts';
import { checkBody, parseField } from '../../resources/records/checked-body.ts';
import {
  parseJsonFields,
  parseJsonFieldsInTurns,
  type JsonField,
  type JsonFields,
} from '../../resources/records/json-fields.ts';
import { LARGE_RECORD, textOfColumn } from '../../resources/records/labeled-record.ts';
import type { Operations } from '../../resources/records/operations.ts';
import { keyFields, parseId, type KeyField } from '../../resources/records/read-record.ts';
import { FormField } from '../fields/form-field.ts';
import { addLockOut } from '../session/password-confirmation.ts';
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
const CURSOR = 'import_records';

/** The fields of a record. Lets other requests run while it parses a large one. */
const parseRecord = (json: string): JsonFields | Promise<JsonFields> =>
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

/** The columns of a file whose values a row matches by. */
const matchedBy = ({ by }: Mapping): readonly Column[] => (by ? [by, ...(by.parts ?? [])] : []);

/** The row without the blanks around the values by which it matches. */
function bareRow(mapping: Mapping, row: ImportRow): ImportRow {
  const matched = matchedBy(mapping).map((column) => mapping.columns.indexOf(column));
  const bare = row.values.map((value, at) =>
    matched.includes(at) && value !== '' ? value?.trim() || null : value,
  );
  return bare.some((value, at) => value !== row.values[at]) ? { ...row, values: bare } : row;
}

/** A row, and its value by which it may match a record, as PostgreSQL compares it. */
interface KeyedRow {
  readonly rowIndex: number;
  readonly row: ImportRow;
  readonly key: string;
}

/** The valid values by which the rows may match records: without blanks around them, and as they are, because stored ones may have some. */
async function keyedRows(
  mapping: Mapping,
  rows: readonly ImportRow[],
  yieldIfDue: YieldIfDue,
): Promise<KeyedRow[]> {
  const { columns, by } = mapping;
  const keyed: KeyedRow[] = [];
  for (const [rowIndex, original] of rows.entries()) {
    await yieldIfDue();
    for (const row of new Set([bareRow(mapping, original), original])) {
      const isFaulty = matchedBy(mapping).some(({ key }) => row.faults[key]);
      const text = by && !isFaulty ? textOf(columns, row, by) : undefined;
      const key = text === undefined ? undefined : by?.type.parse(text, by);
      if (key && key.fault === undefined) keyed.push({ rowIndex, row, key: key.value });
    }
  }
  return keyed;
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
  yieldIfDue: YieldIfDue,
): AsyncGenerator<MatchedRow[], void> {
  const { may, model, visibility } = resource;
  const { primaryKey } = model;
  const { columns, by } = mapping;
  const keyed = await keyedRows(mapping, rows, yieldIfDue);
  const keys = keyed.map(({ key }) => key);
  const found = new Map<number, MatchedRecord & KeyedRow>();
  if (by && keys.length > 0)
    for (const record of await run(
      matchedRecordsStatement(model, by, columns, keys, may.has('change'), visibility),
    )) {
      const one = keyed[record.index];
      if (one && (one.row === rows[one.rowIndex] || !found.has(one.rowIndex)))
        found.set(one.rowIndex, { ...record, ...one });
    }
  const present = [...found.keys()].sort((one, other) => one - other);
  const ids = present.map((rowIndex) => parseId(resource, found.get(rowIndex)?.id ?? '') ?? '');
  const recordsOf = await openRecords(run, resource, mapping, present, ids);
  const isByKey = by === primaryKey;
  /** Whether a new record can have the value by which a row matched none. */
  const mayBeNew =
    isByKey && !by.parts
      ? hasNaturalKey(model)
      : (by?.parts ?? [by]).every((part) => part && isSettable(part, resource));
  /** The first line with each value, or with the record that it has. */
  const lines = new Map<string, number>();

  function match(row: ImportRow, record: JsonFields | undefined, storedId: string): MatchedRow {
    const text = by && textOf(columns, row, by);
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
    const missing = record || mayBeNew ? undefined : messageOf('noSuchRecord');
    const fault = line === undefined ? missing : t('alreadyInLine', { line: String(line) });
    return { row, id, record, errors: fault === undefined ? undefined : errorOf(by.key, fault) };
  }

  for (let start = 0; start < rows.length;) {
    const end = endOfGroup(start, rows.length, found);
    const records = await recordsOf(start, end);
    const group = rows.slice(start, end);
    yield group.map((row, offset) => {
      const rowIndex = start + offset;
      const one = found.get(rowIndex);
      return match(one?.row ?? bareRow(mapping, row), records.get(rowIndex), one?.id ?? '');
    });
    start = end;
  }
}

export type RowKind = 'new' | 'changed' | 'unchanged' | 'faulty';

/** The value of a column before and after the import; null for no value. */
interface ColumnChange {
  readonly column: Column;
  readonly before: string | null;
  readonly after: string | null;
}

/** What a row changes, or its errors. */
export interface RowOutcome {
  readonly kind: RowKind;
  readonly changes: readonly ColumnChange[];
  readonly errors: FieldErrors;
}

export const faulty = (errors: FieldErrors): RowOutcome => ({ kind: 'faulty', changes: [], errors });

/** Maximum characters of a cell. Parsing and escaping a longer one would block the event loop. */
const MAX_CELL_LENGTH = 1024 * 1024;

/**
 * The fields that a row sets: those that differ from the record, or all values of a new record. Faults go to `errors`.
 * Spreadsheets save an empty string as an empty cell, like NULL. So in a column without NULL, an empty cell means the default of a
 * new record, and in a text column of a stored one the empty string, if the form allows it or the record has it already.
 */
async function fieldsOfRow(
  formFields: readonly (FormField | undefined)[],
  { values, faults, meant }: ImportRow,
  present: JsonFields | undefined,
  errors: FieldErrors,
): Promise<Map<string, JsonField>> {
  const fields = new Map<string, JsonField>();
  for (const [at, formField] of formFields.entries()) {
    if (!formField) continue;
    const { column } = formField;
    const { key, nullable, maxLength } = column;
    const text = values[at] ?? null;
    const stored = present && textOfColumn(present, column);
    const mayBeLeftOut = text === null && !nullable && (!present || stored === '');
    if (faults[key]) {
      // Of several records with one label, the file cannot name another than the present one.
      if (!meant.get(key)?.includes(stored ?? '')) errors[key] = faults[key];
    } else if (text !== stored && !mayBeLeftOut) {
      const typed = { text: text ?? '', isNull: text === null && nullable };
      const { length } = typed.text;
      const long = t('tooLongForImport', { max: MAX_CELL_LENGTH, got: length });
      const isLong = length > MAX_CELL_LENGTH && maxLength === undefined;
      const field = isLong ? { fault: long } : await formField.json(typed);
      if ('fault' in field) addError(errors, key, field.fault);
      else fields.set(key, field);
    }
  }
  return fields;
}

const changesBetween = (
  columns: readonly Column[],
  before: JsonFields | undefined,
  after: JsonFields,
): ColumnChange[] =>
  columns.flatMap((column) => {
    // Parsing two large values takes long.
    if (before?.get(column.key)?.source === after.get(column.key)?.source) return [];
    const was = before ? textOfColumn(before, column) : null;
    const is = textOfColumn(after, column);
    return was === is ? [] : [{ column, before: was, after: is }];
  });

/**
 * Returns a function that validates and imports one row with the same operations as the pages and the API.
 * @param isOwn whether a key is that of the importing admin's own user
 */
export function createImporter(
  operations: Operations,
  run: Transaction['run'],
  resource: AdminView,
  caller: Caller,
  { columns: imported }: Mapping,
  isOwn: (id: string | undefined) => boolean,
): (matched: MatchedRow) => Promise<RowOutcome> {
  const { may, model, output, visibility } = resource;
  // Passwords are not imported.
  const needsPassword = model.columns.some((one) => one.isPassword && !one.nullable && !one.hasDefault);
  const columns = output.filter((column) => column !== model.primaryKey);
  const missing = columns.filter((column) => !imported.includes(column));
  const formFields = imported.map((column) =>
    isSettable(column, resource) ? new FormField(column, false) : undefined,
  );

  /** Whether the cell of a column has the same value as the `id` of its row. */
  async function isOfKey(cell: JsonField, { column, field }: KeyField): Promise<boolean> {
    // The cell, like a body, has no fractions of a second.
    const one = parseField({ value: cell.value, source: cell.source }, column).value;
    const other = parseField({ value: field.value, source: field.source }, column).value;
    if (one === other || one === undefined || other === undefined) return true;
    const [isEqual = false] = await run(equalValuesStatement([{ column, one, other }]));
    return isEqual;
  }

  /** Adds the key of a new record to its fields. */
  async function addKey(fields: Map<string, JsonField>, id: string, errors: FieldErrors): Promise<void> {
    for (const part of keyFields(id, model.primaryKey)) {
      const { key } = part.column;
      const cell = fields.get(key);
      if (cell && !(await isOfKey(cell, part))) addError(errors, 'id', t('mustEqualCell', { key }));
      else if (part.fault !== undefined) addError(errors, key, part.fault);
      else if (!cell || parseField(cell, part.column).fault === undefined) fields.set(key, part.field);
    }
  }

  /** Adds the columns that the file lacks to a record. A trigger may change them. */
  async function complete(record: JsonFields, id: string): Promise<JsonFields> {
    const key = missing.length > 0 ? parseId(resource, id) : undefined;
    if (key === undefined) return record;
    const [other] = await run(recordsInOrderStatement(model, missing, [key], visibility));
    return other ? new Map([...record, ...(await parseRecord(other.json))]) : record;
  }

  async function write({ id, record }: MatchedRow, fields: JsonFields): Promise<RowOutcome> {
    const isStored = record !== undefined && id !== undefined;
    const before = isStored ? await complete(record, id) : undefined;
    const { json } = isStored
      ? await operations.update(resource, id, fields, caller, undefined)
      : await operations.create(resource, fields, caller);
    const changes = changesBetween(columns, before, await parseRecord(json.toString()));
    const kind = !before ? 'new' : changes.length > 0 ? 'changed' : 'unchanged';
    return { kind, changes, errors: {} };
  }

  return async (matched) => {
    const { row, id, record } = matched;
    if (matched.errors) return faulty(matched.errors);
    if (!record && needsPassword && may.has('add'))
      return faulty({ [WHOLE_ROW]: [t('recordsNeedPassword')] });
    const errors: FieldErrors = {};
    const fields = await fieldsOfRow(formFields, row, record, errors);
    if (!record && id !== undefined) await addKey(fields, id, errors);
    if (record && isOwn(id)) addLockOut(errors, fields);
    if (Object.keys(errors).length > 0) {
      const others = (await checkBody(fields, resource, { id: record && id, caller })).errors;
      return faulty({ ...others, ...errors });
    }
    if (record && fields.size === 0) return { kind: 'unchanged', changes: [], errors };
    if (!may.has(record ? 'change' : 'add'))
      return faulty({ [WHOLE_ROW]: [t(record ? 'cannotChangeHere' : 'cannotAddHere')] });
    try {
      return await write(matched, fields);
    } catch (error) {
      // Without a database error as the cause nothing was written, so the transaction can continue.
      if (error instanceof Problem && error.status === 400 && error.errors && error.cause === undefined)
        return faulty(error.errors);
      throw error;
    }
  };
}
