// Matches the rows of a file to records, and imports single rows.
import type { Transaction } from '../../db/connection/transactions.ts';
import { joinKey, splitKey } from '../../db/schema/composite-key.ts';
import { hasNaturalKey, partsOf, type Column } from '../../db/schema/model.ts';
import { Problem, type FieldErrors } from '../../errors.ts';
import { existingRecordsStatement } from '../../query/statements/csv.ts';
import type { AdminResource } from '../../resources/serve/admin-resource.ts';
import { checkBody } from '../../resources/records/checked-body.ts';
import { textOfField } from '../../resources/records/record-entry.ts';
import { parseJsonFields, type JsonField, type JsonFields } from '../../resources/records/json-fields.ts';
import type { Operations } from '../../resources/records/operations.ts';
import { parseId } from '../../resources/records/read-record.ts';
import type { Caller } from '../../resources/serve/served-resource.ts';
import { cellField, cellText, fieldsOfRow, storedText } from './import-cells.ts';
import { needsPassword, type FileRow, type ImportFile } from './import-file.ts';
import { addLockOut } from '../session/lock-out.ts';

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
  readonly line: number;
  /** The record's key; undefined if the database generates it. */
  readonly id: string | undefined;
  readonly changes: readonly ColumnChange[];
  readonly errors: FieldErrors;
}

/** A row and the record that its key identifies. */
export interface MatchedRow {
  readonly row: FileRow;
  /** The key of the record, or of the new record; undefined if the row has none. */
  readonly id: string | undefined;
  readonly record: JsonFields | undefined;
  /** Errors of the key or of the whole row. */
  readonly errors: FieldErrors | undefined;
}

/** The field name for errors that belong to no column. */
export const WHOLE_ROW = '';

export const faulty = ({ row: { line }, id }: MatchedRow, errors: FieldErrors): RowOutcome => ({
  kind: 'faulty',
  line,
  id,
  changes: [],
  errors,
});

/** Locks the records of the rows in the order of their keys, which avoids deadlocks. */
export async function lockMatched(
  run: Transaction['run'],
  resource: AdminResource,
  rows: readonly MatchedRow[],
): Promise<void> {
  const { model, may } = resource;
  const keys = rows.flatMap(({ record, id }) =>
    record && id !== undefined ? (parseId(resource, id) ?? []) : [],
  );
  if (keys.length > 0 && may.has('change'))
    await run(existingRecordsStatement(model, [model.primaryKey], keys, true));
}

/** The key of a row: its `id`, or the cells of the columns that make up the key. */
function keyOfRow(
  columns: readonly Column[],
  cells: FileRow['cells'],
  primaryKey: Column,
): string | undefined {
  const textOf = (column: Column): string | undefined =>
    cellText(cells[columns.indexOf(column)] ?? null, column) ?? undefined;
  const id = textOf(primaryKey);
  if (id !== undefined || !primaryKey.parts) return id;
  const texts = primaryKey.parts.flatMap((part) => textOf(part) ?? []);
  return texts.length === primaryKey.parts.length ? joinKey(texts) : undefined;
}

/**
 * Finds the records that the rows identify.
 * @param isLocked whether to lock them until the end of the transaction
 */
export async function matchRows(
  run: Transaction['run'],
  resource: AdminResource,
  { columns, rows }: ImportFile,
  isLocked: boolean,
): Promise<MatchedRow[]> {
  const { may, model, output } = resource;
  const { primaryKey } = model;
  const ids = rows.map(({ cells, fault }) =>
    fault === undefined ? keyOfRow(columns, cells, primaryKey) : undefined,
  );
  const records = new Map<number, JsonFields>();
  const known = ids.flatMap((id, index) => {
    const key = id === undefined ? undefined : parseId(resource, id);
    return key === undefined ? [] : [{ key, index }];
  });
  if (known.length > 0) {
    const keys = known.map(({ key }) => key);
    const statement = existingRecordsStatement(model, output, keys, isLocked && may.has('change'));
    for (const { index: place, json } of await run(statement)) {
      const index = known[place]?.index;
      if (index !== undefined) records.set(index, parseJsonFields(json));
    }
  }
  const lines = new Map<string, number>();
  return rows.map((row, index) => {
    const cell = ids[index];
    if (cell === undefined) {
      const errors = row.fault === undefined ? undefined : { [WHOLE_ROW]: [row.fault] };
      return { row, id: undefined, record: undefined, errors };
    }
    const record = records.get(index);
    const parsed = primaryKey.type.parse(cell, primaryKey);
    const id = (record && textOfField(record, 'id')) ?? (primaryKey.parts ? cell : (parsed.value ?? cell));
    const line = lines.get(id);
    lines.set(id, line ?? row.line);
    const isMissing = !record && !hasNaturalKey(model) && !primaryKey.parts;
    const repeated = line === undefined ? undefined : `is already in line ${line}`;
    const fault = parsed.fault ?? repeated ?? (isMissing ? 'there is no such record' : undefined);
    return { row, id, record, errors: fault === undefined ? undefined : { id: [fault] } };
  });
}

const changesBetween = (
  columns: readonly Column[],
  before: JsonFields | undefined,
  after: JsonFields,
): ColumnChange[] =>
  columns.flatMap((column) => {
    const was = before ? storedText(before, column) : null;
    const is = storedText(after, column);
    return was === is ? [] : [{ column, before: was, after: is }];
  });

/**
 * Returns a function that validates and imports one row with the same operations as the pages and the API.
 * @param isOwn whether a key is that of the importing admin's own user
 */
export function createImporter(
  operations: Operations,
  resource: AdminResource,
  caller: Caller,
  file: ImportFile,
  isOwn: (id: string | undefined) => boolean,
): (matched: MatchedRow) => Promise<RowOutcome> {
  const { may, model, output } = resource;
  const cannotAdd = needsPassword(resource);
  const columns = output.filter((column) => column !== model.primaryKey);

  /** Adds the key of a new record to its fields. */
  async function addKey(fields: Map<string, JsonField>, id: string): Promise<void> {
    const { primaryKey } = model;
    const texts = primaryKey.parts ? splitKey(id, primaryKey.parts) : [id];
    if ('fault' in texts) return;
    for (const [index, part] of partsOf(primaryKey).entries()) {
      const field = fields.get(part.key) ?? (await cellField(part, texts[index] ?? ''));
      if (!('fault' in field)) fields.set(part.key, field);
    }
  }

  async function write(
    { row: { line }, id, record }: MatchedRow,
    fields: Map<string, JsonField>,
  ): Promise<RowOutcome> {
    if (record && id !== undefined) {
      const { json } = await operations.update(resource, id, fields, caller, undefined);
      const changes = changesBetween(columns, record, parseJsonFields(json.toString()));
      return { kind: changes.length > 0 ? 'changed' : 'unchanged', line, id, changes, errors: {} };
    }
    if (id !== undefined) await addKey(fields, id);
    const { json } = await operations.create(resource, fields, caller);
    const changes = changesBetween(columns, undefined, parseJsonFields(json.toString()));
    return { kind: 'new', line, id, changes, errors: {} };
  }

  return async (matched) => {
    const { row, id, record } = matched;
    if (matched.errors) return faulty(matched, matched.errors);
    if (!record && cannotAdd && may.has('add'))
      return faulty(matched, { [WHOLE_ROW]: ['new records cannot be imported: they need a password'] });
    const errors: FieldErrors = {};
    const fields = await fieldsOfRow(file, row, resource, record, errors);
    if (record && isOwn(id)) addLockOut(errors, fields);
    if (Object.keys(errors).length > 0) {
      const others = (await checkBody(fields, resource, { id, caller })).errors;
      return faulty(matched, { ...others, ...errors });
    }
    if (record && fields.size === 0) return { kind: 'unchanged', line: row.line, id, changes: [], errors };
    if (!may.has(record ? 'change' : 'add'))
      return faulty(matched, { [WHOLE_ROW]: [`records cannot be ${record ? 'changed' : 'added'} here`] });
    try {
      return await write(matched, fields);
    } catch (error) {
      // Without a database error as the cause nothing was written, so the transaction can continue.
      if (error instanceof Problem && error.status === 400 && error.errors && error.cause === undefined)
        return faulty(matched, error.errors);
      throw error;
    }
  };
}
