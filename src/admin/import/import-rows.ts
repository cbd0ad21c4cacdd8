// Imports single rows: what their cells mean, and what they change.
import type { Transaction } from '../../db/connection/transactions.ts';
import type { Column } from '../../db/schema/model.ts';
import { Problem, addError, type FieldErrors } from '../../errors.ts';
import { equalValuesStatement } from '../../query/statements/conflict-statements.ts';
import { recordsInOrderStatement } from '../../query/statements/records-by-key.ts';
import type { Caller } from '../../resources/access/access.ts';
import type { AdminView } from '../../resources/access/admin-view.ts';
import { checkBody, parseField } from '../../resources/records/checked-body.ts';
import type { JsonField, JsonFields } from '../../resources/records/json-fields.ts';
import { textOfField } from '../../resources/records/labeled-record.ts';
import type { Operations } from '../../resources/records/operations.ts';
import { keyFields, parseId, type KeyField } from '../../resources/records/read-record.ts';
import { FormField } from '../fields/form-field.ts';
import { addLockOut } from '../session/password-confirmation.ts';
import { t } from '../web/language.ts';
import { isSettable, needsPassword, type Mapping } from './import-mapping.ts';
import { parseRecord, type MatchedRow } from './import-matches.ts';
import { WHOLE_ROW, type ImportRow } from './import-values.ts';

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

/** A record's value as the text of a cell; null for no value. */
function storedText(record: JsonFields, column: Column): string | null {
  if (column.type.input.json !== 'json') return textOfField(record, column.key);
  const source = record.get(column.key)?.source ?? 'null';
  return source === 'null' ? null : source;
}

/** Maximum characters of a cell. Parsing and escaping a longer one would block the event loop. */
const MAX_CELL_LENGTH = 1024 * 1024;

/**
 * The fields that a row sets: those that differ from the record, or all values of a new record. Faults go to `errors`.
 * Spreadsheets save an empty string as an empty cell, like NULL. So in a column without NULL, an empty cell means the default of a
 * new record, and in a text column of a stored one the empty string, if the form allows it or the record has it already.
 */
async function fieldsOfRow(
  formFields: readonly (FormField | undefined)[],
  { values, faults }: ImportRow,
  present: JsonFields | undefined,
  errors: FieldErrors,
): Promise<Map<string, JsonField>> {
  const fields = new Map<string, JsonField>();
  for (const [at, formField] of formFields.entries()) {
    if (!formField) continue;
    const { column } = formField;
    const { key, nullable, maxLength } = column;
    const text = values[at] ?? null;
    const stored = present && storedText(present, column);
    const mayBeLeftOut = text === null && !nullable && (!present || stored === '');
    if (faults[key]) errors[key] = faults[key];
    else if (text !== stored && !mayBeLeftOut) {
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

export const faulty = ({ row: { line }, id }: MatchedRow, errors: FieldErrors): RowOutcome => ({
  kind: 'faulty',
  line,
  id,
  changes: [],
  errors,
});

const changesBetween = (
  columns: readonly Column[],
  before: JsonFields | undefined,
  after: JsonFields,
): ColumnChange[] =>
  columns.flatMap((column) => {
    // Parsing two large values takes long.
    if (before?.get(column.key)?.source === after.get(column.key)?.source) return [];
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
  run: Transaction['run'],
  resource: AdminView,
  caller: Caller,
  { columns: imported }: Mapping,
  isOwn: (id: string | undefined) => boolean,
): (matched: MatchedRow) => Promise<RowOutcome> {
  const { may, model, output, visibility } = resource;
  const cannotAdd = needsPassword(resource);
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

  async function write(
    { row: { line }, id, record }: MatchedRow,
    fields: Map<string, JsonField>,
  ): Promise<RowOutcome> {
    if (record && id !== undefined) {
      const before = await complete(record, id);
      const { json } = await operations.update(resource, id, fields, caller, undefined);
      const changes = changesBetween(columns, before, await parseRecord(json.toString()));
      return { kind: changes.length > 0 ? 'changed' : 'unchanged', line, id, changes, errors: {} };
    }
    const { json } = await operations.create(resource, fields, caller);
    const changes = changesBetween(columns, undefined, await parseRecord(json.toString()));
    return { kind: 'new', line, id, changes, errors: {} };
  }

  return async (matched) => {
    const { row, id, record } = matched;
    if (matched.errors) return faulty(matched, matched.errors);
    if (!record && cannotAdd && may.has('add'))
      return faulty(matched, { [WHOLE_ROW]: [t('recordsNeedPassword')] });
    const errors: FieldErrors = {};
    const fields = await fieldsOfRow(formFields, row, record, errors);
    if (!record && id !== undefined) await addKey(fields, id, errors);
    if (record && isOwn(id)) addLockOut(errors, fields);
    if (Object.keys(errors).length > 0) {
      const others = (await checkBody(fields, resource, { id: record && id, caller })).errors;
      return faulty(matched, { ...others, ...errors });
    }
    if (record && fields.size === 0) return { kind: 'unchanged', line: row.line, id, changes: [], errors };
    if (!may.has(record ? 'change' : 'add'))
      return faulty(matched, { [WHOLE_ROW]: [t(record ? 'cannotChangeHere' : 'cannotAddHere')] });
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
