// The forms that add, change and copy a record: from the request to the saved record or the form with its errors.
import type { Column } from '../../db/schema/model.ts';
import { splitKey } from '../../db/schema/composite-key.ts';
import { Problem, notFound } from '../../errors.ts';
import type { Reply } from '../../http/message/message.ts';
import { inBatch } from '../../resources/access/access.ts';
import type { AdminView } from '../../resources/access/admin-view.ts';
import type { LabeledRecord, StoredRecord } from '../../resources/records/labeled-record.ts';
import type { Operations } from '../../resources/records/operations.ts';
import type { Parameter } from '../../query/parse/grammar.ts';
import { sessionCaller } from '../session/assert-session.ts';
import {
  addLockOut,
  confirmCaller,
  isOwnUser,
  needsConfirmation,
  showsUsers,
  type Refusal,
} from '../session/password-confirmation.ts';
import { isChoice, resolveConflict, showConflict } from './conflict-page.ts';
import type { RecordContext, ResourceContext } from '../web/admin-context.ts';
import { createForm, type Form } from '../web/form-data.ts';
import {
  boundedForm,
  fieldsOf,
  originIn,
  originOf,
  valuesOf,
  type FormField,
  type TypedValues,
} from '../fields/form-field.ts';
import { html } from '../web/html.ts';
import { listCrumb, pageReply } from '../web/layout.ts';
import { t } from '../web/language.ts';
import { LinkParameters } from '../web/admin-links.ts';
import { shownTime } from '../web/time-zone.ts';
import { NO_VALUES, changeOf, valuesToPutBack } from '../history/history-entry.ts';
import { saveOnce } from '../web/submit-once.ts';
import { renderLongTexts, showLookup, withKeys } from '../fields/references.ts';
import { listQuery } from '../web/admin-request.ts';
import { shortened } from '../web/display-text.ts';
import {
  fieldsOfSent,
  isTouched,
  rowsOfCopy,
  rowsWithKeys,
  sentRows,
  tablesOf,
  withMoreRows,
  type InlineRow,
} from './inline-rows.ts';
import { recordForm, type RecordForm } from './record-form.ts';
import { RowWrites, trySave } from './row-writes.ts';
import { addPassword, afterSave, bodyOf, isSaved, type FormBody } from './save.ts';

/** How many times a form is read while others change its record. */
const MAX_ATTEMPTS = 3;

/** A request for the form of a record, new without an `id`. */
type FormContext = ResourceContext & { readonly id?: string };

/** The values that the records of a list have in common, because its filters require them. */
function filteredValues({ find }: AdminView, list = ''): ReadonlyMap<Column, string> {
  const { filters } = LinkParameters.parseOrEmpty(list);
  const isOnly = ({ name }: Parameter): boolean => filters.filter((one) => one.name === name).length === 1;
  return new Map(
    filters.filter(isOnly).flatMap(({ name, value }): (readonly [Column, string])[] => {
      const { path, column } = find(name.split('__')) ?? {};
      if (!column || path?.length !== 0) return [];
      const { parts, type } = column;
      if (parts) {
        const texts = splitKey(value, parts);
        return 'fault' in texts ? [] : parts.map((part, index) => [part, texts[index] ?? '']);
      }
      const parsed = type.parse(value, column);
      return parsed.fault === undefined ? [[column, type.element ? value : parsed.value]] : [];
    }),
  );
}

export async function showAdd(context: ResourceContext): Promise<Reply> {
  const given = LinkParameters.parse(context.request.query);
  const empty = new Set(given.get(NO_VALUES)?.split(' '));
  const { ownedBy } = context.resource;
  const filtered = filteredValues(context.resource, listQuery(context));
  const typed = valuesOf(fieldsOf(context.resource, true), (field) => {
    const { name, key } = field.column;
    const own = field.column === ownedBy ? context.caller.id : undefined;
    const preset = given.get(name) ?? given.get(key) ?? filtered.get(field.column) ?? own;
    return field.initial(empty.has(key) ? null : preset);
  });
  return recordForm(context, { typed, stored: undefined });
}

export async function showRecord(context: RecordContext): Promise<Reply> {
  const { resource, id, browsing, request } = context;
  const stored = await browsing.read(resource, id);
  const editable = fieldsOf(resource, false);
  const typed = valuesOf(editable, (field) => field.stored(stored));
  const entry = new URLSearchParams(request.query).get('_entry');
  if (entry === null || !resource.may.has('change')) return recordForm(context, { stored, typed });
  if (!resource.allows.has('history')) throw notFound(t('noPage'));
  const change = changeOf(await browsing.preview(context.historyOf(resource), entry), context);
  if (change.record !== stored.id) throw notFound(t('noSuchChange'));
  const earlier = valuesToPutBack(change);
  const known = editable.filter(({ column }) => earlier.has(column.key));
  const before = valuesOf(known, (field) => field.stored({ fields: earlier }));
  const put = new Map([...typed].map(([column, value]) => [column, before.get(column) ?? value]));
  const left = known.filter(({ column }) => !before.has(column) || !typed.has(column));
  const time = shownTime(change.at, ' UTC');
  const notice = t(change.action === 'create' ? 'valuesAsAdded' : 'valuesBeforeChange', { time });
  const tooLong = left.map(({ label }) => label).join(', ');
  return recordForm(context, {
    stored,
    typed: put,
    notice: tooLong === '' ? notice : t('notPutBack', { notice, columns: tooLong }),
  });
}

/**
 * Verifies the admin's own password and the code where the change requires them, and adds the error of a failed confirmation to the body.
 * @returns the status and headers of the answer where the confirmation failed
 */
async function addConfirmation(
  context: ResourceContext,
  stored: LabeledRecord | undefined,
  body: FormBody,
  form: Form,
): Promise<Partial<Pick<Refusal, 'status' | 'headers'>>> {
  const password = needsConfirmation(context, stored, body.fields);
  const refusal = await confirmCaller(context, form, { password, code: showsUsers(context) });
  if (!refusal) return {};
  const { errors, ...answer } = refusal;
  Object.assign(body.errors, errors);
  return answer;
}

/** The values of a form that are saved as a new record. */
type Copied = Pick<Submitted, 'typed' | 'form' | 'rows'>;

/** The fields that say which records the rows of a form are, and what happens to them. */
const ROW_CHOICES = /\._(?:id|delete)$/;

/**
 * What a form saves, to recognize it when it is sent again, as it was or as it was shown after an error. So keys count in place of
 * the words that mean them, and rows that were not touched do not count.
 * @param id of the record that the form changes: *Save as new* is another save of the same form
 */
function contentOf({ typed, form, rows }: Copied, fields: readonly FormField[], id?: string): Form {
  const touched = rows.filter((row) => isTouched(row) && !row.isDeleted);
  const carried = [{ fields, typed }, ...touched].flatMap((one) =>
    one.fields.flatMap((field) => {
      const value = one.typed.get(field.column);
      return value ? field.carried(value) : [];
    }),
  );
  const isKept = (name: string): boolean =>
    name.startsWith('_') || (id !== undefined && ROW_CHOICES.test(name));
  const changed = id === undefined ? [] : [['_id', id] as const];
  return createForm([...changed, ...form.entries.filter(([name]) => isKept(name)), ...carried]);
}

async function create(context: ResourceContext, copied: Copied): Promise<Reply> {
  const { resource } = context;
  const { typed, form, rows: sent } = copied;
  const fields = fieldsOf(resource, true);
  const rows = await RowWrites.of(context, sent);
  const body = await bodyOf(fields, typed, undefined);
  addPassword(body, context, form);
  const confirmation = await addConfirmation(context, undefined, body, form);
  const caller = rows.isEmpty ? sessionCaller(context) : inBatch(sessionCaller(context));
  const save = async (operations: Operations): Promise<{ readonly id: string }> => {
    const record = await operations.create(resource, body.fields, caller);
    await rows.write(operations, record.id, caller);
    return record;
  };
  const write = () => saveOnce(context, contentOf(copied, fields), save);
  const outcome = await trySave(context, undefined, body, write, rows);
  if (!('done' in outcome)) {
    const shown = { typed, stored: undefined, sent: form, rows: rows.rows };
    return recordForm(context, { ...shown, ...outcome, ...confirmation });
  }
  const { id, isRepeated } = outcome.done;
  return afterSave(context, id, form, isRepeated ? 'repeated' : 'added');
}

/** @param attempt how many times the form was read; again where another request changed the record or a row before the write */
async function update(
  context: RecordContext,
  { typed: mine, form, rows: sent }: Copied,
  stored: StoredRecord,
  attempt: number,
): Promise<Reply> {
  const { resource, operations } = context;
  const typed = resolveConflict(resource, { stored, typed: mine, form });
  const body = await bodyOf(fieldsOf(resource, false), typed, stored);
  const rows = await RowWrites.of(context, sent);
  const isSame = body.fields.size === 0 && Object.keys(body.errors).length === 0;
  if (isSame && rows.isEmpty) return afterSave(context, stored.id, form, 'unchanged');
  if (isOwnUser(context, stored.id)) addLockOut(body.errors, body.fields);
  const confirmation = await addConfirmation(context, stored, body, form);
  const caller = rows.isEmpty ? sessionCaller(context) : inBatch(sessionCaller(context));
  const save = async (by: Operations): Promise<{ readonly id: string }> => {
    if (body.fields.size > 0) await by.update(resource, stored.id, body.fields, caller, [stored.version]);
    await rows.write(by, stored.id, caller);
    return stored;
  };
  const content = contentOf({ typed, form, rows: sent }, fieldsOf(resource, false), stored.id);
  const write = (): Promise<unknown> => (rows.isEmpty ? save(operations) : saveOnce(context, content, save));
  try {
    const outcome = await trySave(context, stored.id, body, write, rows);
    if ('done' in outcome) return await afterSave(context, stored.id, form, 'changed');
    const shown = { typed, stored, sent: form, rows: rows.rows };
    return await recordForm(context, { ...shown, ...outcome, ...confirmation });
  } catch (error) {
    const hasChanged = error instanceof Problem && [404, 412].includes(error.status);
    if (!hasChanged || attempt === MAX_ATTEMPTS) throw error;
    return saveRecord(context, form, attempt + 1);
  }
}

/** Names the columns whose values were too long for the form, so that a copy lacks them. */
function copyNotice(notice: string, resource: AdminView, typed: TypedValues): string {
  const missing = fieldsOf(resource, false).filter(({ column }) => !typed.has(column));
  if (missing.length === 0) return notice;
  return t('notCopied', { notice, columns: missing.map(({ label }) => label).join(', ') });
}

/**
 * Saves the values of a form as a new record. It shows the form of a new record first where values are missing (a key, a
 * password) or the user must confirm, because the record was deleted.
 */
function asNew(context: ResourceContext, { typed, form, rows }: Copied, notice?: string): Promise<Reply> {
  const { resource } = context;
  const copiedRows = rowsOfCopy(rows, tablesOf(context, true));
  const none = { text: '', isNull: true };
  const copied = valuesOf(fieldsOf(resource, true), ({ column }) => typed.get(column) ?? none);
  const lacksValues = resource.passwords.length > 0 || copied.size > typed.size;
  if (notice === undefined && !lacksValues) return create(context, { typed: copied, form, rows: copiedRows });
  return recordForm(context, {
    typed: copied,
    stored: undefined,
    notice: copyNotice(notice ?? t('willBeNew'), resource, typed),
    status: notice === undefined ? 200 : 409,
    sent: form,
    rows: copiedRows,
  });
}

/** Reads the record of a form; undefined where it no longer exists. */
async function readStored({ browsing, resource, id }: RecordContext): Promise<StoredRecord | undefined> {
  try {
    return await browsing.read(resource, id);
  } catch (error) {
    if (error instanceof Problem && error.status === 404) return undefined;
    throw error;
  }
}

/** Shows the values of a form whose record is gone: as a new record, or only to copy if records cannot be added. */
async function showGone(context: ResourceContext, copied: Copied): Promise<Reply> {
  const { title, may } = context.resource;
  if (may.has('add')) return asNew(context, copied, t('deletedValuesKept'));
  const { typed: own, rows } = copied;
  const copies = [{ fields: fieldsOf(context.resource, false), typed: own }, ...rows].map(
    async ({ fields, typed }) => {
      const longTexts = await renderLongTexts(typed);
      return fields.map((field) => {
        const value = typed.get(field.column);
        return value && field.renderCopy(value, longTexts.get(field.column));
      });
    },
  );
  const body = html`<p class="notice" role="alert">${t('deletedCopyValues')}</p>
    <div class="record">${(await Promise.all(copies)).flat()}</div>`;
  return pageReply(context, {
    title: t('deletedFrom', { title }),
    crumbs: [listCrumb(context.resource), t('deletedCrumb')],
    kind: 'form',
    status: 409,
    body,
  });
}

/** What a submitted form is about. */
interface Submitted {
  readonly form: Form;
  readonly fields: readonly FormField[];
  readonly typed: TypedValues;
  /** Undefined for a new record, and for one that no longer exists. */
  readonly stored: StoredRecord | undefined;
  /** The rows of child tables. */
  readonly rows: readonly InlineRow[];
}

async function readForm(context: FormContext, submitted: Form): Promise<Submitted> {
  const { resource, id } = context;
  const stored = id === undefined ? undefined : await readStored({ ...context, id });
  const fields = fieldsOf(resource, id === undefined);
  const tables = tablesOf(context, id === undefined);
  const form = boundedForm(submitted, [...fields, ...fieldsOfSent(submitted, tables)]);
  const rows = await sentRows(context, tables, form, stored?.id);
  const typed = valuesOf(fields, (field) => (field.isIn(form) ? field.read(form) : undefined));
  return { form, fields, typed, stored, rows };
}

/** Shows a form from an earlier session again, with everything that the user typed. */
export async function showUnsaved(context: FormContext, sent: Form, status: number): Promise<Reply> {
  const { form, typed, stored, rows } = await readForm(context, sent);
  if (context.id !== undefined && !stored) return showGone(context, { typed, form, rows });
  // The user resolves a conflict again, against the record as it is now.
  if (stored && form.entries.some(([name]) => isChoice(name)))
    return showConflict(context, { stored, typed, form });
  const notice = t('earlierSession');
  return recordForm(context, { typed, stored, sent: form, rows, notice, status });
}

/** Handles a sent form: looks up or chooses a related record, shows more rows, or saves. @throws Problem 404 where it may not */
export async function saveRecord(context: FormContext, submitted: Form, attempt = 1): Promise<Reply> {
  const { resource, id } = context;
  if (!resource.may.has(id === undefined ? 'add' : 'change')) throw notFound(t('noPage'));
  const { form, fields, typed: sent, stored, rows: typedRows } = await readForm(context, submitted);
  const page = { typed: sent, stored, sent: form, rows: typedRows };
  const again = (changes: Partial<RecordForm>): Promise<Reply> => {
    const shown = { ...page, ...changes };
    return id === undefined || stored ? recordForm(context, shown) : showGone(context, { ...shown, form });
  };
  const find = (name: string | undefined): FormField | undefined =>
    fields.find((field) => field.name === name && sent.has(field.column)) ??
    typedRows.flatMap((row) => row.fields).find((field) => field.name === name);

  const lookupField = find(form.get('_lookup'));
  if (lookupField) {
    const crumbs = [listCrumb(resource), shortened(stored?.label ?? t('add'), 40)];
    return showLookup(context, lookupField, form, crumbs);
  }
  const [choiceField, chosen] = [find(form.get('_for')), form.get('_choose')];
  if (choiceField && chosen !== undefined) {
    const withChoice = (values: TypedValues): TypedValues =>
      new Map(values).set(choiceField.column, { text: chosen, isNull: chosen === '' });
    if (fields.includes(choiceField)) return again({ typed: withChoice(sent) });
    const rows = typedRows.map((row) =>
      row.fields.includes(choiceField) ? { ...row, typed: withChoice(row.typed) } : row,
    );
    return again({ rows });
  }
  const previewed = find(form.get('_preview'));
  if (previewed) return again({ previewed });
  if (form.get('_more') !== undefined)
    return again({ rows: withMoreRows(typedRows, tablesOf(context, id === undefined), form) });
  const [typed, rows] = await Promise.all([
    withKeys(context, sent, stored),
    rowsWithKeys(context, typedRows),
  ]);
  const copied = { typed, form, rows };
  if (id === undefined) return create(context, copied);
  if (!stored) return showGone(context, copied);
  if (form.get('_save') === 'new' && resource.may.has('add')) return asNew(context, copied);
  if (form.get('_version') !== stored.version) {
    const mine = resolveConflict(resource, { stored, typed, form });
    if (!(await isSaved(context, resource, fields, mine, stored)))
      return showConflict(context, { stored, typed, form });
    // A form that was sent twice, unless it changed nothing the first time. Its rows may not be saved yet.
    const isUnchanged = originIn(form, fields) === originOf(typed);
    if (!rows.some(isTouched)) return afterSave(context, id, form, isUnchanged ? 'unchanged' : 'changed');
  }
  return update({ ...context, id }, copied, stored, attempt);
}
