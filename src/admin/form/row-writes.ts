// Saves the rows of a form in the transaction of their record: what they change, conflicts, and why a row was refused.
import { addError, Problem, type FieldErrors } from '../../errors.ts';
import type { Caller } from '../../resources/access/access.ts';
import { jsonFieldInTurns, type JsonField } from '../../resources/records/json-fields.ts';
import type { StoredRecord } from '../../resources/records/labeled-record.ts';
import type { Operations } from '../../resources/records/operations.ts';
import { byFormField, type Refusal } from '../session/password-confirmation.ts';
import { digestOf, digestsIn, isSame, type FormField } from '../fields/form-field.ts';
import type { ResourceContext } from '../web/admin-context.ts';
import { shortened } from '../web/display-text.ts';
import { isTouched, nameInRow, rowName, storedRow, touchedFields, type InlineRow } from './inline-rows.ts';
import { bodyOf, isSaved, refusalOf, type FormBody } from './save.ts';
import { t } from '../web/language.ts';

/** What a row changes. A deletion has no fields. */
interface RowWrite {
  readonly row: InlineRow;
  readonly fields: ReadonlyMap<string, JsonField> | undefined;
}

/** The errors of a row under the names of its fields; those of columns without a field are about the row. */
function errorsOfRow(row: InlineRow, errors: FieldErrors): FieldErrors {
  const placed: FieldErrors = {};
  for (const [key, messages] of Object.entries(errors)) {
    const name = nameInRow(row, key);
    const column = row.table.resource.model.columns.find((one) => one.key === key);
    for (const message of messages)
      if (row.fields.some((field) => field.name === name)) addError(placed, name, message);
      else addError(placed, rowName(row), column ? `${column.title}: ${message}` : message);
  }
  return placed;
}

/** A row whose record has changed since the form was loaded, with the values of both sides, and what the user must look at. */
function mergedRow(row: InlineRow, stored: StoredRecord, errors: FieldErrors): InlineRow {
  const { table, index, fields, typed } = row;
  const origins = digestsIn(row.origin);
  const touched = touchedFields(row);
  const isTheirs = (field: FormField): boolean => {
    const theirs = field.stored(stored);
    return theirs !== undefined && digestOf(theirs) !== origins.get(field.column.key);
  };
  const now = storedRow(table, index, stored);
  // What has changed is not shown.
  if (fields.length > 0 && !fields.some(isTheirs)) return { ...now, typed, isDeleted: row.isDeleted };
  const both = touched.filter(
    (field) => isTheirs(field) && !isSame(typed.get(field.column), field.stored(stored)),
  );
  addError(errors, rowName(row), t('rowHasChanged'));
  for (const { column, name } of row.isDeleted ? [] : both) {
    const text = stored.labels[column.key] ?? now.typed.get(column)?.text ?? '';
    addError(errors, name, t('isNow', { text: shortened(text, 40) }));
  }
  const mine = touched.flatMap(({ column }) => {
    const value = typed.get(column);
    return value && !row.isDeleted ? [[column, value] as const] : [];
  });
  return { ...now, typed: new Map([...now.typed, ...mine]) };
}

/** What the rows of a form change. */
export class RowWrites {
  /** The rows to show, if the form is shown again. */
  readonly rows: readonly InlineRow[];
  /** What is wrong before any statement runs. */
  readonly errors: FieldErrors;
  readonly #context: ResourceContext;
  readonly #writes: readonly RowWrite[];
  readonly #hasConflict: boolean;
  /** The row whose write runs, or has failed. */
  #current: RowWrite | undefined;

  private constructor(
    context: ResourceContext,
    rows: readonly InlineRow[],
    writes: readonly RowWrite[],
    errors: FieldErrors,
    hasConflict: boolean,
  ) {
    this.#context = context;
    this.#writes = writes;
    this.#hasConflict = hasConflict;
    this.rows = rows;
    this.errors = errors;
  }

  static async of(context: ResourceContext, sent: readonly InlineRow[]): Promise<RowWrites> {
    const conflicts: FieldErrors = {};
    const errors: FieldErrors = {};
    const writes: RowWrite[] = [];
    const rows: InlineRow[] = [];
    for (const row of sent) {
      const { stored, isGone, table, index } = row;
      if (isGone)
        addError(conflicts, rowName(row), t(table.may.has('add') ? 'rowIsGone' : 'rowIsGoneToCopy'));
      if (!stored || !isTouched(row) || row.version === stored.version) rows.push(row);
      else if (
        !row.isDeleted &&
        (await isSaved(context, table.resource, touchedFields(row), row.typed, stored))
      )
        rows.push(storedRow(table, index, stored));
      else rows.push(mergedRow(row, stored, conflicts));
    }
    for (const row of rows) {
      const { stored, fields, typed, table } = row;
      if (row.isGone || !isTouched(row)) continue;
      if (row.isDeleted) {
        if (table.may.has('delete')) writes.push({ row, fields: undefined });
        continue;
      }
      const body = await bodyOf(fields, typed, stored);
      Object.assign(errors, body.errors);
      if (!stored || body.fields.size > 0) writes.push({ row, fields: body.fields });
    }
    const hasConflict = Object.keys(conflicts).length > 0;
    return new RowWrites(context, rows, writes, { ...errors, ...conflicts }, hasConflict);
  }

  get isEmpty(): boolean {
    return this.#writes.length === 0 && Object.keys(this.errors).length === 0;
  }

  /** The status of a form with errors. */
  get status(): number {
    return this.#hasConflict ? 409 : 400;
  }

  async #fieldsOf(
    { row, fields = new Map() }: RowWrite,
    id: string,
  ): Promise<ReadonlyMap<string, JsonField>> {
    if (row.stored) return fields;
    const { column } = row.table;
    const key = await jsonFieldInTurns(column, id);
    return 'fault' in key ? fields : new Map([...fields, [column.key, key]]);
  }

  /**
   * Writes the rows: first deletions, which may make room for others.
   * @param id of the record that they belong to
   */
  async write(operations: Operations, id: string, caller: Caller): Promise<void> {
    const rank = ({ row, fields }: RowWrite): number => (fields ? (row.stored ? 1 : 2) : 0);
    for (const write of this.#writes.toSorted((one, other) => rank(one) - rank(other))) {
      const { row, fields } = write;
      const { stored, table } = row;
      const { resource } = table;
      this.#current = write;
      if (stored && !fields) await operations.remove(resource, stored.id, caller, [stored.version]);
      else if (stored && fields)
        await operations.update(resource, stored.id, new Map(fields), caller, [stored.version]);
      else await operations.create(resource, await this.#fieldsOf(write, id), caller);
    }
    this.#current = undefined;
  }

  /** All faults of the rows that can be found without writing them. */
  async faults(): Promise<FieldErrors> {
    const { operations, caller } = this.#context;
    const found: FieldErrors = {};
    for (const { row, fields } of this.#writes) {
      if (!fields) continue;
      const { table, stored } = row;
      const errors = await operations.faults(table.resource, fields, { id: stored?.id, caller });
      // The record may not exist yet.
      const others = Object.entries(errors).filter(([key]) => stored || key !== table.column.key);
      Object.assign(found, errorsOfRow(row, Object.fromEntries(others)));
    }
    return { ...found, ...this.errors };
  }

  /** Why the write of a row was refused, at the row; undefined if it was no row. @throws the error itself, if it is not about the row */
  refusalOf(error: unknown): Refusal | undefined {
    const { row } = this.#current ?? {};
    if (!row) return undefined;
    if (error instanceof Problem && error.status === 403)
      return { errors: { [rowName(row)]: [error.message] }, status: 403 };
    const columns = row.fields.map(({ column }) => column);
    const context = { ...this.#context, resource: row.table.resource };
    const { errors, notice, status } = refusalOf(context, error, columns);
    const placed = errorsOfRow(row, errors);
    // What the service or the database cannot do is not the fault of a row.
    if (status >= 500) return { errors: placed, notice, status };
    if (notice !== undefined) addError(placed, rowName(row), notice);
    return { errors: placed, status };
  }
}

/**
 * Runs a write. If the form already has errors, or another record has one of the values, validates the rest, so that all errors are
 * reported at once.
 * @param id of the record that the form changes; undefined for a new one
 * @param rows what the write does with the rows of child tables
 */
export async function trySave<T>(
  context: ResourceContext,
  id: string | undefined,
  { fields, errors }: FormBody,
  write: () => Promise<T>,
  rows: RowWrites,
): Promise<{ readonly done: T } | Refusal> {
  const { operations, caller, resource } = context;
  const { output, readonly } = resource;
  const settable = output.filter((column) => !readonly.has(column));
  const faults = async (): Promise<FieldErrors> => {
    const own = byFormField(await operations.faults(resource, fields, { id, caller }), resource);
    return { ...own, ...errors, ...(await rows.faults()) };
  };
  try {
    const isValid = [errors, rows.errors].every((one) => Object.keys(one).length === 0);
    if (isValid) return { done: await write() };
    return { errors: await faults(), status: rows.status };
  } catch (error) {
    const refusal = rows.refusalOf(error) ?? refusalOf(context, error, settable);
    const isPartial = [400, 409].includes(refusal.status) && Object.keys(refusal.errors).length > 0;
    return isPartial ? { ...refusal, errors: { ...(await faults()), ...refusal.errors } } : refusal;
  }
}
