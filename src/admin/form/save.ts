// Saves a form: what it writes to its records, why a write was refused, and the message after it.
import { asProblem, isDatabaseError } from '../../db/connection/database-errors.ts';
import type { Column } from '../../db/schema/model.ts';
import { addError, errorOf, Problem, type FieldErrors } from '../../errors.ts';
import type { Reply } from '../../http/message/message.ts';
import type { Caller } from '../../resources/access/access.ts';
import { BrokenRule, ruleFaults } from '../../resources/records/explain.ts';
import { jsonFieldInTurns, type JsonField } from '../../resources/records/json-fields.ts';
import type { Operations } from '../../resources/records/operations.ts';
import { byFormField, rulesOf, typedPassword, type Refusal } from '../session/password-confirmation.ts';
import type { ResourceContext } from '../web/admin-context.ts';
import { redirectChanged } from '../history/history-entry.ts';
import { links } from '../web/admin-links.ts';
import { redirectFailed, shownProblem } from '../web/admin-request.ts';
import { shortened } from '../web/display-text.ts';
import { keyOfField, type Form } from '../web/form-data.ts';
import { t } from '../web/language.ts';
import { mergedRow } from './conflict.ts';
import { bodyOf, isSaved, storedRecord, type FormRecord } from './form-record.ts';
import { isTouched, rowName, touchedFields, type InlineRow } from './inline-rows.ts';
import { nextInList } from './place-in-list.ts';

/** What a save does with one record. A deletion has no fields. */
interface Write {
  readonly record: FormRecord;
  readonly fields?: Map<string, JsonField>;
  /** The foreign key of a new row to the record of the page. */
  readonly parent?: Column;
}

/** What saving a form does with its records. */
export interface Save {
  readonly record: FormRecord;
  /** What it sets in the record of the page. */
  readonly fields: Map<string, JsonField>;
  /** The record of the page, if it is new or has changes, then its rows: deletions first, because they may make room for others. */
  readonly writes: readonly Write[];
  /** The faults that are known before any statement runs. */
  readonly errors: FieldErrors;
  /** The rows to show, if the form is shown again. */
  readonly rows: readonly InlineRow[];
  /** The status of a form with errors. */
  readonly status: number;
  /** The record whose write runs, or has failed. */
  current: FormRecord;
}

/** Whether a save writes rows, in one batch with their record. */
export const writesRows = ({ writes, record }: Save): boolean =>
  writes.some((write) => write.record !== record);

/** What saving a form does. A row that has changed since the form was made, and was touched, is an error. */
export async function saveOf(
  context: ResourceContext,
  record: FormRecord,
  sent: readonly InlineRow[],
): Promise<Save> {
  const conflicts: FieldErrors = {};
  const rows: InlineRow[] = [];
  for (const row of sent) {
    const { stored, isGone, table } = row;
    if (isGone) addError(conflicts, rowName(row), t(table.may.has('add') ? 'rowIsGone' : 'rowIsGoneToCopy'));
    const isOutdated = stored && row.version !== stored.version && isTouched(row);
    if (!isOutdated) rows.push(row);
    else if (!row.isDeleted && (await isSaved(context, { ...row, fields: touchedFields(row) })))
      rows.push(storedRecord(row, stored));
    else rows.push(mergedRow(row, stored, conflicts));
  }
  const { fields, errors } = await bodyOf(record);
  const deletions: Write[] = [];
  const changes: Write[] = [];
  const additions: Write[] = [];
  for (const row of rows) {
    const { stored, table } = row;
    if (row.isGone || !isTouched(row)) continue;
    if (row.isDeleted) {
      if (table.may.has('delete')) deletions.push({ record: row });
      continue;
    }
    const body = await bodyOf(row);
    Object.assign(errors, body.errors);
    if (!stored) additions.push({ record: row, fields: body.fields, parent: table.column });
    else if (body.fields.size > 0) changes.push({ record: row, fields: body.fields });
  }
  const own = !record.stored || fields.size > 0 ? [{ record, fields }] : [];
  return {
    ...{ record, fields, rows, current: record, writes: [...own, ...deletions, ...changes, ...additions] },
    errors: { ...errors, ...conflicts },
    status: Object.keys(conflicts).length > 0 ? 409 : 400,
  };
}

/** Adds the password of a new record. An empty one is left out where the column is nullable. */
export function addPassword({ fields, errors }: Save, context: ResourceContext, form: Form): void {
  const [column] = context.resource.passwords;
  if (!column) return;
  const { text, refusal } = typedPassword(form, column, rulesOf(context, fields));
  if (text !== '' || refusal?.errors['_repeat'] || !column.nullable) Object.assign(errors, refusal?.errors);
  if (text !== '') fields.set(column.key, { value: text, source: JSON.stringify(text) });
}

/** Writes the records of a form. @returns the key of the record of the page */
export async function writeRecords(
  save: Save,
  operations: Operations,
  caller: Caller,
): Promise<{ readonly id: string }> {
  let id = save.record.stored?.id ?? '';
  for (const { record, fields, parent } of save.writes) {
    const { resource, stored } = record;
    save.current = record;
    if (stored && fields) await operations.update(resource, stored.id, fields, caller, [stored.version]);
    else if (stored) await operations.remove(resource, stored.id, caller, [stored.version]);
    else {
      const key = parent && (await jsonFieldInTurns(parent, id));
      const isKnown = parent && key && !('fault' in key);
      const added = new Map([...(fields ?? []), ...(isKnown ? [[parent.key, key] as const] : [])]);
      const made = await operations.create(resource, added, caller);
      if (!parent) ({ id } = made);
    }
  }
  save.current = save.record;
  return { id };
}

/** The errors of a record under the names of its fields; those of a row's columns without a field are about the row. */
function namedErrors({ resource, prefix, fields }: FormRecord, errors: FieldErrors): FieldErrors {
  if (prefix === '') return byFormField(errors, resource);
  const named: FieldErrors = {};
  for (const [key, messages] of Object.entries(errors)) {
    const hasField = fields.some(({ name }) => name === prefix + key);
    const title = resource.model.columns.find((column) => column.key === key)?.title;
    for (const message of messages)
      if (hasField) addError(named, prefix + key, message);
      else
        addError(
          named,
          `${prefix}_row`,
          title === undefined ? message : t('labeled', { label: title, value: message }),
        );
  }
  return named;
}

/** All faults of a form that can be found without writing. @param refused a record whose fault is known */
async function faultsOf(
  { operations, caller }: ResourceContext,
  save: Save,
  refused?: FormRecord,
): Promise<FieldErrors> {
  const found: FieldErrors = {};
  for (const { record, fields, parent } of save.writes) {
    if (!fields || record === refused) continue;
    const id = record.stored?.id;
    const errors = Object.entries(await operations.faults(record.resource, fields, { id, caller }));
    // The record of the page may not exist yet.
    const others = errors.filter(([key]) => key !== parent?.key);
    Object.assign(found, namedErrors(record, Object.fromEntries(others)));
  }
  return { ...found, ...save.errors };
}

/**
 * Why a write was refused, as its form shows it: the errors by column, with one at each column of the database rule that refused it,
 * or a notice about the whole. The notice names the rule.
 * @param columns that the form sets
 * @throws the error itself, if it is not about the values
 */
export function refusalOf(context: ResourceContext, error: unknown, columns: readonly Column[]): Refusal {
  const { resource } = context;
  const problem = shownProblem(context, error);
  if (!problem || ![400, 409, 500, 503].includes(problem.status)) throw error;
  const { errors, message: notice, status } = problem;
  const cause = error instanceof Problem ? error.cause : error;
  const marked = isDatabaseError(cause) ? ruleFaults(cause, { model: resource.model, columns }) : {};
  if (!errors || Object.keys(marked).length > 0) return { errors: marked, notice, status };
  return { errors: byFormField(errors, resource), ...(problem instanceof BrokenRule && { notice }), status };
}

/** Why the write of a record was refused. What the service or the database cannot do is not the fault of a row. */
function refusalAt(context: ResourceContext, record: FormRecord, error: unknown): Refusal {
  const { resource, prefix, fields } = record;
  if (prefix !== '' && error instanceof Problem && error.status === 403)
    return { errors: { [`${prefix}_row`]: [error.message] }, status: 403 };
  const columns = fields.map(({ column }) => column);
  const { errors, notice, status } = refusalOf({ ...context, resource }, error, columns);
  const [text = '', ...others] = Object.values(errors).flat();
  // The values of a row that another one has, too, are one fault.
  const isOne = prefix !== '' && status === 409 && others.length > 0;
  const named = isOne ? errorOf(`${prefix}_row`, text) : namedErrors(record, errors);
  if (prefix === '' || notice === undefined || status >= 500) return { errors: named, notice, status };
  addError(named, `${prefix}_row`, notice);
  return { errors: named, status };
}

/**
 * Runs the write of a save. If the form already has errors, or another record has one of the values, validates the rest, so that all
 * errors are reported at once.
 */
export async function trySave<T>(
  context: ResourceContext,
  save: Save,
  write: () => Promise<T>,
): Promise<{ readonly done: T } | Refusal> {
  try {
    if (Object.keys(save.errors).length === 0) return { done: await write() };
    return { errors: await faultsOf(context, save), status: save.status };
  } catch (error) {
    const refusal = refusalAt(context, save.current, error);
    const isPartial = [400, 409].includes(refusal.status) && Object.keys(refusal.errors).length > 0;
    return isPartial
      ? { ...refusal, errors: { ...(await faultsOf(context, save, save.current)), ...refusal.errors } }
      : refusal;
  }
}

/** The message after a form was saved, by what the form did with its record, and that for a record which was deleted since. */
const OUTCOME_TEXTS = {
  added: ['recordWasAdded', 'addedThenDeleted'],
  repeated: ['recordWasAddedOnce', 'addedThenDeleted'],
  changed: ['recordWasChanged', 'changedThenDeleted'],
  unchanged: ['noChangesToSave', 'recordHasBeenDeleted'],
} as const;

/** The label of a saved record; undefined where the record no longer exists, null where the label cannot be read. */
async function labelOf(
  { browsing, resource }: ResourceContext,
  id: string,
): Promise<string | null | undefined> {
  try {
    const [label] = (await browsing.labelsOf(resource, new Set([id]))).values();
    return label;
  } catch (error) {
    // The change is committed. An error page would suggest that it was not.
    if (!asProblem(error) && !isDatabaseError(error)) throw error;
    return null;
  }
}

/** Redirects after a save as the pressed button asks: to the list, to the record, to the next one, or to the form of another new one. */
export async function afterSave(
  context: ResourceContext,
  id: string,
  form: Form,
  outcome: keyof typeof OUTCOME_TEXTS,
  caller = context.caller,
): Promise<Reply> {
  const { name, title } = context.resource;
  const button = form.get('_save');
  const list = form.get('_list');
  const nextId = button === 'next' ? form.get('_next') : undefined;
  const [label, next] = await Promise.all([
    labelOf(context, id),
    list !== undefined && nextId !== undefined && nextInList(context, list, keyOfField(nextId)),
  ]);
  const [saved, savedThenDeleted] = OUTCOME_TEXTS[outcome];
  if (label === undefined) return redirectFailed(context, links.back(name, list), t(savedThenDeleted));
  const staysOnRecord = button === 'stay' || button === 'new';
  const shown = staysOnRecord ? id : next && next.id;
  const to = shown
    ? links.inList(name, shown, list)
    : button === 'another'
      ? links.from(list, links.action(name, 'add'))
      : links.back(name, list);
  const record = label === null ? t('someRecord') : t('quoted', { text: shortened(label, 80) });
  const isLast = button === 'next' && !next;
  const done = t(saved, { title, record });
  const text = isLast ? t('noNextRecord', { done }) : done;
  return redirectChanged(context, to, text, caller, staysOnRecord ? undefined : links.record(name, id));
}
