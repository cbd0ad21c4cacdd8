import { text, type RawRow } from '../../db/connection/database.ts';
import type { Statement } from '../../db/fragment.ts';
import type { Column } from '../../db/schema/model.ts';
import { Problem, type FieldErrors } from '../../errors.ts';
import { existingRecordsStatement } from '../../query/statements/csv.ts';
import type { AdminResource } from '../../resources/serve/admin-resource.ts';
import { checkBody } from '../../resources/records/checked-body.ts';
import { textOfField } from '../../resources/records/browsing.ts';
import { parseJsonFields, type JsonField, type JsonFields } from '../../resources/records/json-fields.ts';
import { parseId, type Operations } from '../../resources/records/operations.ts';
import type { Caller } from '../../resources/serve/served-resource.ts';
import { cellMember, cellText, membersOf, storedText } from './import-cells.ts';
import { needsPassword, type FileRow, type ImportFile } from './import-file.ts';
import { addLockOut } from '../session/lock-out.ts';

export type RowKind = 'new' | 'changed' | 'unchanged' | 'faulty';

/** A column of a record before and after the import; null for no value. */
export interface ColumnChange {
  readonly column: Column;
  readonly before: string | null;
  readonly after: string | null;
}

/** What a row of the file does, or why it cannot. */
export interface RowOutcome {
  readonly kind: RowKind;
  readonly line: number;
  /** The record's key; undefined where the database is to give one. */
  readonly id: string | undefined;
  readonly changes: readonly ColumnChange[];
  readonly errors: FieldErrors;
}

/** A row, and the record that it names. */
export interface NamedRow {
  readonly row: FileRow;
  /** As the file has it, or as the record has it. */
  readonly id: string | undefined;
  readonly record: JsonFields | undefined;
  /** What is wrong with the key, or with the whole row. */
  readonly errors: FieldErrors | undefined;
}

/** The field of faults that are of no column. */
export const ROW = '';

export const faulty = ({ row: { line }, id }: NamedRow, errors: FieldErrors): RowOutcome => ({
  kind: 'faulty',
  line,
  id,
  changes: [],
  errors,
});

/** Locks the records that rows name, in the order of their keys. */
export async function lockNamed(
  run: (statement: Statement) => Promise<RawRow[]>,
  { model, may }: AdminResource,
  rows: readonly NamedRow[],
): Promise<void> {
  const keys = rows.flatMap(({ record, id }) => (record && id !== undefined ? [id] : []));
  if (keys.length > 0 && may.has('change'))
    await run(existingRecordsStatement(model, [model.primaryKey], keys, true));
}

/** The records that the rows name, where wanted locked until the end of the transaction. */
export async function findNamed(
  run: (statement: Statement) => Promise<RawRow[]>,
  resource: AdminResource,
  { columns, rows }: ImportFile,
  isLocked: boolean,
): Promise<NamedRow[]> {
  const { may, model, output } = resource;
  const { primaryKey } = model;
  const at = columns.indexOf(primaryKey);
  const told = rows.map(({ cells, fault }) =>
    fault === undefined ? (cellText(cells[at] ?? null, primaryKey) ?? undefined) : undefined,
  );
  const records = new Map<number, JsonFields>();
  const known = told.flatMap((id, index) => {
    const key = id === undefined ? undefined : parseId(resource, id);
    return key === undefined ? [] : [{ key, index }];
  });
  if (known.length > 0) {
    const keys = known.map(({ key }) => key);
    for (const found of await run(
      existingRecordsStatement(model, output, keys, isLocked && may.has('change')),
    )) {
      const index = known[Number(text(found[0])) - 1]?.index;
      if (index !== undefined) records.set(index, parseJsonFields(text(found[1]) ?? '{}'));
    }
  }
  const lines = new Map<string, number>();
  return rows.map((row, index) => {
    const cell = told[index];
    if (cell === undefined) {
      const errors = row.fault === undefined ? undefined : { [ROW]: [row.fault] };
      return { row, id: undefined, record: undefined, errors };
    }
    const record = records.get(index);
    const parsed = primaryKey.type.parse(cell, primaryKey);
    const id = (record && textOfField(record, 'id')) ?? parsed.value ?? cell;
    const line = lines.get(id);
    lines.set(id, line ?? row.line);
    const isMissing = !record && primaryKey.hasDefault;
    const twice = line === undefined ? undefined : `stands in line ${line} already`;
    const fault = parsed.fault ?? twice ?? (isMissing ? 'there is no such record' : undefined);
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
 * Gives a function that decides about one row and does it, by the very operations of the pages and the API.
 * @param isOwn whether a key is that of the user who imports
 */
export function createImporter(
  operations: Operations,
  resource: AdminResource,
  caller: Caller,
  file: ImportFile,
  isOwn: (id: string | undefined) => boolean,
): (named: NamedRow) => Promise<RowOutcome> {
  const { may, model, output } = resource;
  const isOnlyChanged = needsPassword(resource);
  const columns = output.filter((column) => column !== model.primaryKey);

  async function write(
    { row: { line }, id, record }: NamedRow,
    members: Map<string, JsonField>,
  ): Promise<RowOutcome> {
    if (record && id !== undefined) {
      const { json } = await operations.update(resource, id, members, caller, undefined);
      const changes = changesBetween(columns, record, parseJsonFields(json.toString()));
      return { kind: changes.length > 0 ? 'changed' : 'unchanged', line, id, changes, errors: {} };
    }
    if (id !== undefined) members.set('id', cellMember(model.primaryKey, id) as JsonField);
    const { json } = await operations.create(resource, members, caller);
    const changes = changesBetween(columns, undefined, parseJsonFields(json.toString()));
    return { kind: 'new', line, id, changes, errors: {} };
  }

  return async (named) => {
    const { row, id, record } = named;
    if (named.errors) return faulty(named, named.errors);
    if (!record && isOnlyChanged && may.has('add'))
      return faulty(named, { [ROW]: ['New records cannot be imported here: they need a password.'] });
    const errors: FieldErrors = {};
    const members = membersOf(file, row, resource, record, errors);
    if (record && isOwn(id)) addLockOut(errors, members);
    if (Object.keys(errors).length > 0) {
      const others = checkBody(members, resource, { id, caller }).errors;
      return faulty(named, { ...others, ...errors });
    }
    if (record && members.size === 0) return { kind: 'unchanged', line: row.line, id, changes: [], errors };
    if (!may.has(record ? 'change' : 'add'))
      return faulty(named, { [ROW]: [`Records may not be ${record ? 'changed' : 'added'} here.`] });
    try {
      return await write(named, members);
    } catch (error) {
      // Values that are refused by the operation itself, which leave the transaction as it was.
      if (error instanceof Problem && error.status === 400 && error.errors)
        return faulty(named, error.errors);
      throw error;
    }
  };
}
