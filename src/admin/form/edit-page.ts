// The forms that add, change and copy a record: from the request to the saved record or the form with its errors.
import type { Column } from '../../db/schema/model.ts';
import { splitKey } from '../../db/schema/composite-key.ts';
import { Problem, notFound } from '../../errors.ts';
import type { Reply } from '../../http/message/message.ts';
import type { AdminView } from '../../resources/access/admin-view.ts';
import type { StoredRecord } from '../../resources/records/labeled-record.ts';
import type { Operations } from '../../resources/records/operations.ts';
import type { Parameter } from '../../query/parse/grammar.ts';
import { assertSameCaller, sessionCaller } from '../session/assert-session.ts';
import {
  addLockOut,
  confirmCaller,
  isOwnUser,
  needsConfirmation,
  showsUsers,
  type Refusal,
} from '../session/password-confirmation.ts';
import type { RecordContext, ResourceContext } from '../web/admin-context.ts';
import { createForm, type Form } from '../web/form-data.ts';
import { boundedForm, valuesOf, type FormField } from '../fields/form-field.ts';
import { html } from '../web/html.ts';
import { listCrumb, pageReply } from '../web/layout.ts';
import { t } from '../web/language.ts';
import { LinkParameters } from '../web/admin-links.ts';
import { shownTime } from '../web/time-zone.ts';
import { NO_VALUES, changeOf, valuesToPutBack } from '../history/history-entry.ts';
import { inBatchOf, saveOnce } from '../web/submit-once.ts';
import { chosenOn, renderLongTexts, showLookup, withKeys } from '../fields/references.ts';
import { listQuery } from '../web/admin-request.ts';
import { shortened } from '../web/display-text.ts';
import { isChoice, resolveConflict, showConflict } from './conflict.ts';
import {
  isEdited,
  isSaved,
  newRecord,
  pageFields,
  sentRecord,
  storedRecord,
  type FormRecord,
} from './form-record.ts';
import {
  fieldsOfSent,
  isTouched,
  rowsOfCopy,
  sentRows,
  tablesOf,
  withMoreRows,
  type InlineRow,
} from './inline-rows.ts';
import { recordForm, type RecordForm } from './record-form.ts';
import { addPassword, afterSave, saveOf, trySave, writeRecords, writesRows, type Save } from './save.ts';

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
  const record = newRecord(pageFields(context.resource, true), (field) => {
    const { name, key } = field.column;
    const own = field.column === ownedBy ? context.caller.id : undefined;
    const preset = given.get(name) ?? given.get(key) ?? filtered.get(field.column) ?? own;
    return field.initial(empty.has(key) ? null : preset);
  });
  return recordForm(context, { record });
}

/** A stored record with a field for each column that the caller may change in it. */
async function readRecord({ resource, browsing, id }: RecordContext): Promise<FormRecord> {
  const stored = await browsing.read(resource, id);
  const page = pageFields(resource, false);
  const columns = page.fields.map(({ column }) => column);
  const changeable = new Set(await browsing.changeable(resource, stored.id, columns));
  return storedRecord(
    { ...page, fields: page.fields.filter(({ column }) => changeable.has(column)) },
    stored,
  );
}

export async function showRecord(context: RecordContext): Promise<Reply> {
  const { resource, browsing, request } = context;
  const record = await readRecord(context);
  const entry = new URLSearchParams(request.query).get('_entry');
  if (entry === null || !resource.may.has('change')) return recordForm(context, { record });
  if (!resource.allows.has('history')) throw notFound(t('noPage'));
  const change = changeOf(await browsing.preview(context.historyOf(resource), entry), context);
  if (change.record !== record.stored?.id || change.unreadable !== undefined)
    throw notFound(t('noSuchChange'));
  const earlier = valuesToPutBack(change);
  const known = record.fields.filter(({ column }) => earlier.has(column.key));
  const before = valuesOf(known, (field) => field.stored({ fields: earlier }));
  const typed = new Map([...record.typed].map(([column, value]) => [column, before.get(column) ?? value]));
  const left = known.filter(({ column }) => !before.has(column) || !typed.has(column));
  const time = shownTime(change.at, ' UTC');
  const notice = t(change.action === 'create' ? 'valuesAsAdded' : 'valuesBeforeChange', { time });
  const columns = left.map(({ label }) => label).join(', ');
  return recordForm(context, {
    record: { ...record, typed },
    notice: left.length === 0 ? notice : t('notPutBack', { notice, columns }),
  });
}

/**
 * Verifies the admin's own password and the code where the change requires them, and adds the error of a failed confirmation to the body.
 * @returns the status and headers of the answer where the confirmation failed
 */
async function addConfirmation(
  context: ResourceContext,
  { record, fields, errors }: Save,
  form: Form,
): Promise<Partial<Pick<Refusal, 'status' | 'headers'>>> {
  const password = needsConfirmation(context, record.stored, fields);
  const refusal = await confirmCaller(context, form, { password, code: showsUsers(context) });
  if (!refusal) return {};
  const { errors: refused, ...answer } = refusal;
  Object.assign(errors, refused);
  return answer;
}

/** A form that was sent. */
interface Submitted {
  readonly form: Form;
  readonly record: FormRecord;
  /** The rows of child tables. */
  readonly rows: readonly InlineRow[];
}

/** The fields that say which records the rows of a form are, and what happens to them. */
const ROW_CHOICES = /\._(?:id|delete)$/;

/**
 * What a form saves, to recognize it when it is sent again, as it was or as it was shown after an error. So keys count in place of
 * the words that mean them, and rows that were not touched do not count.
 * the words that mean them, and rows that were not touched do not count. *Save as new* is another save of the same form.
 */
function contentOf({ record, form, rows }: Submitted): Form {
  const id = record.stored?.id;
  const touched = rows.filter((row) => isTouched(row) && !row.isDeleted);
  const carried = [record, ...touched].flatMap(({ fields, typed }) =>
    fields.flatMap((field) => {
      const value = typed.get(field.column);
      return value ? field.carried(value) : [];
    }),
  );
  const isKept = (name: string): boolean =>
    name.startsWith('_') || (id !== undefined && ROW_CHOICES.test(name));
  const changed = id === undefined ? [] : [['_id', id] as const];
  return createForm([...changed, ...form.entries.filter(([name]) => isKept(name)), ...carried]);
}

/** @param attempt how many times the form was read; again where another request changed the record or a row before the write */
async function save(context: FormContext, submitted: Submitted, attempt = 1): Promise<Reply> {
  const { form, record } = submitted;
  const { stored } = record;
  const writing = await saveOf(context, record, submitted.rows);
  const { fields, errors, writes, rows } = writing;
  if (!stored) addPassword(writing, context, form);
  else if (writes.length === 0 && Object.keys(errors).length === 0)
    return afterSave(context, stored.id, form, 'unchanged');
  if (stored && isOwnUser(context, stored.id)) addLockOut(errors, fields);
  const confirmation = await addConfirmation(context, writing, form);
  const hasRows = writesRows(writing);
  const content = contentOf(submitted);
  const session = sessionCaller(context);
  const caller = hasRows ? await inBatchOf(context, session, content) : session;
  const write = async (operations: Operations) => writeRecords(writing, operations, caller);
  try {
    const outcome = await trySave(context, writing, () =>
      stored && !hasRows
        ? write(context.operations).then(({ id }) => ({ id, isRepeated: false }))
        : saveOnce(context, content, async (operations) => {
            const saved = await write(operations);
            await assertSameCaller(context);
            return saved;
          }),
    );
    if (!('done' in outcome))
      return await recordForm(context, { record, rows, sent: form, ...outcome, ...confirmation });
    const { id, isRepeated } = outcome.done;
    return await afterSave(context, id, form, stored ? 'changed' : isRepeated ? 'repeated' : 'added', caller);
  } catch (error) {
    const hasChanged = stored && error instanceof Problem && [404, 412].includes(error.status);
    if (!hasChanged || attempt === MAX_ATTEMPTS) throw error;
    return saveRecord(context, form, attempt + 1);
  }
}

/** Names the columns whose values were too long for the form, so that a copy lacks them. */
function copyNotice(notice: string, { fields, typed }: FormRecord): string {
  const missing = fields.filter(({ column }) => !typed.has(column));
  if (missing.length === 0) return notice;
  return t('notCopied', { notice, columns: missing.map(({ label }) => label).join(', ') });
}

/**
 * Saves the values of a form as a new record. It shows the form of a new record first where values are missing (a key, a
 * password) or the user must confirm, because the record was deleted.
 */
function asNew(
  context: ResourceContext,
  { record, form, rows: sent }: Submitted,
  notice?: string,
): Promise<Reply> {
  const { resource } = context;
  const rows = rowsOfCopy(sent, tablesOf(context, true));
  const none = { text: '', isNull: true };
  const copy = newRecord(pageFields(resource, true), ({ column }) => record.typed.get(column) ?? none);
  const lacksValues = resource.passwords.length > 0 || copy.typed.size > record.typed.size;
  if (notice === undefined && !lacksValues) return save(context, { record: copy, form, rows });
  return recordForm(context, {
    record: copy,
    rows,
    notice: copyNotice(notice ?? t('willBeNew'), record),
    status: notice === undefined ? 200 : 409,
    sent: form,
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
async function showGone(context: ResourceContext, submitted: Submitted): Promise<Reply> {
  const { title, may } = context.resource;
  if (may.has('add')) return asNew(context, submitted, t('deletedValuesKept'));
  const copies = [submitted.record, ...submitted.rows].map(async ({ fields, typed }) => {
    const longTexts = await renderLongTexts(typed);
    return fields.map((field) => {
      const value = typed.get(field.column);
      return value && field.renderCopy(value, longTexts.get(field.column));
    });
  });
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

async function readForm(context: FormContext, sent: Form): Promise<Submitted> {
  const { resource, id } = context;
  const stored = id === undefined ? undefined : await readStored({ ...context, id });
  const page = pageFields(resource, id === undefined);
  const tables = tablesOf(context, id === undefined);
  const form = boundedForm(sent, [...page.fields, ...fieldsOfSent(sent, tables)]);
  const rows = await sentRows(context, tables, form, stored?.id);
  return { form, rows, record: sentRecord(page, stored, form) };
}

/** Shows a form from an earlier session again, with everything that the user typed. */
export async function showUnsaved(context: FormContext, sent: Form, status: number): Promise<Reply> {
  const submitted = await readForm(context, sent);
  const { form, record, rows } = submitted;
  if (context.id !== undefined && !record.stored) return showGone(context, submitted);
  // The user resolves a conflict again, against the record as it is now.
  if (record.stored && form.entries.some(([name]) => isChoice(name)))
    return showConflict(context, record, record.stored, form);
  return recordForm(context, { record, rows, sent: form, notice: t('earlierSession'), status });
}

/** Handles a sent form: looks up or chooses a related record, shows more rows, or saves. @throws Problem 404 where it may not */
export async function saveRecord(context: FormContext, sent: Form, attempt = 1): Promise<Reply> {
  const { resource, id } = context;
  const isNew = id === undefined;
  if (!resource.may.has(isNew ? 'add' : 'change')) throw notFound(t('noPage'));
  const submitted = await readForm(context, sent);
  const { form, record, rows } = submitted;
  const { stored } = record;
  const again = (changes: Partial<RecordForm>): Promise<Reply> => {
    const shown = { record, rows, ...changes };
    return isNew || stored
      ? recordForm(context, { ...shown, sent: form })
      : showGone(context, { ...shown, form });
  };
  const find = (name: string | undefined): FormField | undefined =>
    [record, ...rows]
      .flatMap(({ fields, typed }) => fields.filter(({ column }) => typed.has(column)))
      .find((field) => field.name === name);

  const lookupField = find(form.get('_lookup'));
  if (lookupField) {
    const crumbs = [listCrumb(resource), shortened(stored?.label ?? t('add'), 40)];
    return showLookup(context, lookupField, form, crumbs);
  }
  const [choiceField, chosen] = [find(form.get('_for')), form.get('_choose')];
  if (choiceField && chosen !== undefined) {
    const withChoice = <T extends FormRecord>(one: T): T => {
      const value = chosenOn(chosen);
      return one.fields.includes(choiceField)
        ? { ...one, typed: new Map(one.typed).set(choiceField.column, value) }
        : one;
    };
    return again({ record: withChoice(record), rows: rows.map(withChoice) });
  }
  const [[keyed = record], keyedRows] = await Promise.all([
    withKeys(context, [record]),
    withKeys(context, rows),
  ]);
  const previewed = find(form.get('_preview'));
  if (previewed) return again({ record: keyed, rows: keyedRows, previewed });
  if (form.get('_more') !== undefined)
    return again({ record: keyed, rows: withMoreRows(keyedRows, tablesOf(context, isNew), form) });
  const saved = { form, record: keyed, rows: keyedRows };
  if (isNew) return save(context, saved);
  if (!stored) return showGone(context, saved);
  if (form.get('_save') === 'new' && resource.may.has('add')) return asNew(context, saved);
  const resolved = resolveConflict(keyed, form);
  if (record.version !== stored.version) {
    if (!(await isSaved(context, resolved))) return showConflict(context, keyed, stored, form);
    // A form that was sent twice, unless it changed nothing the first time. Its rows may not be saved yet.
    if (!rows.some(isTouched)) return afterSave(context, id, form, isEdited(keyed) ? 'changed' : 'unchanged');
  }
  return save(context, { ...saved, record: resolved }, attempt);
}
