// The forms that add, change and copy a record: from the request to the saved record or the form with its errors.
import type { Column } from '../../db/schema/model.ts';
import { splitKey } from '../../db/schema/composite-key.ts';
import { Problem, notFound } from '../../errors.ts';
import type { Reply } from '../../http/message/message.ts';
import type { AdminView } from '../../resources/access/admin-view.ts';
import type { LabeledRecord, StoredRecord } from '../../resources/records/labeled-record.ts';
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
import { isChoice, resolveConflict, showConflict, type Conflict } from './conflict-page.ts';
import type { RecordContext, ResourceContext } from '../web/admin-context.ts';
import type { Form } from '../web/form-data.ts';
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
import { LinkParameters } from '../web/admin-links.ts';
import { shownTime } from '../web/time-zone.ts';
import { NO_VALUES, changeOf, valuesToPutBack } from '../history/history-entry.ts';
import { addOnce } from '../web/submit-once.ts';
import { renderLongTexts, showLookup, withKeys } from '../fields/references.ts';
import { listQuery } from '../web/admin-request.ts';
import { shortened } from '../web/display-text.ts';
import { recordForm } from './record-form.ts';
import { addPassword, afterSave, bodyOf, isSaved, trySave, type FormBody } from './save.ts';

/** How many times a form is read while others change its record. */
const MAX_ATTEMPTS = 3;
const GONE = 'This record has been deleted. Your values are kept here: save to add them as a new record.';

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
  if (!resource.allows.has('history')) throw notFound('There is no such page.');
  const change = changeOf(await browsing.preview(context.historyOf(resource), entry), context);
  if (change.record !== stored.id) throw notFound('There is no such change of this record.');
  const earlier = valuesToPutBack(change);
  const known = editable.filter(({ column }) => earlier.has(column.key));
  const before = valuesOf(known, (field) => field.stored({ fields: earlier }));
  const put = new Map([...typed].map(([column, value]) => [column, before.get(column) ?? value]));
  const left = known.filter(({ column }) => !before.has(column) || !typed.has(column));
  const notice = `These are the values ${change.action === 'create' ? 'as added' : 'before the change'} on ${shownTime(change.at, ' UTC')}. Check them: nothing is changed until you save.`;
  const tooLong = left.map(({ label }) => label).join(', ');
  return recordForm(context, {
    stored,
    typed: put,
    notice: tooLong === '' ? notice : `${notice} Not put back, because the value is too long: ${tooLong}.`,
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

async function create(context: ResourceContext, typed: TypedValues, form: Form): Promise<Reply> {
  const { resource } = context;
  const body = await bodyOf(fieldsOf(resource, true), typed, undefined);
  addPassword(body, context, form);
  const confirmation = await addConfirmation(context, undefined, body, form);
  const caller = sessionCaller(context);
  const outcome = await trySave(context, undefined, body, () =>
    addOnce(context, form, (operations) => operations.create(resource, body.fields, caller)),
  );
  if (!('done' in outcome))
    return recordForm(context, { typed, stored: undefined, sent: form, ...outcome, ...confirmation });
  const { id, isRepeated } = outcome.done;
  return afterSave(context, id, form, isRepeated ? 'repeated' : 'added');
}

/** @param attempt how many times the form was read; again where another request changed the record before the write */
async function update(
  context: RecordContext,
  { typed: mine, stored, form }: Conflict,
  attempt: number,
): Promise<Reply> {
  const { resource, operations } = context;
  const typed = resolveConflict(resource, { stored, typed: mine, form });
  const body = await bodyOf(fieldsOf(resource, false), typed, stored);
  if (body.fields.size === 0 && Object.keys(body.errors).length === 0)
    return afterSave(context, stored.id, form, 'unchanged');
  if (isOwnUser(context, stored.id)) addLockOut(body.errors, body.fields);
  const confirmation = await addConfirmation(context, stored, body, form);
  try {
    const outcome = await trySave(context, stored.id, body, () =>
      operations.update(resource, stored.id, body.fields, sessionCaller(context), [stored.version]),
    );
    if ('done' in outcome) return await afterSave(context, stored.id, form, 'changed');
    return await recordForm(context, { typed, stored, sent: form, ...outcome, ...confirmation });
  } catch (error) {
    const hasChanged = error instanceof Problem && [404, 412].includes(error.status);
    if (!hasChanged || attempt === MAX_ATTEMPTS) throw error;
    return saveRecord(context, form, attempt + 1);
  }
}

/** A sentence that names the columns whose values were too long for the form, so that a copy lacks them. */
function notCopiedText(resource: AdminView, typed: TypedValues): string {
  const missing = fieldsOf(resource, false).filter(({ column }) => !typed.has(column));
  if (missing.length === 0) return '';
  return ` Not copied, because the value is too long: ${missing.map(({ label }) => label).join(', ')}.`;
}

/**
 * Saves the values of a form as a new record. It shows the form of a new record first where values are missing (a key, a
 * password) or the user must confirm, because the record was deleted.
 */
function asNew(context: ResourceContext, typed: TypedValues, form: Form, notice?: string): Promise<Reply> {
  const { resource } = context;
  const none = { text: '', isNull: true };
  const copied = valuesOf(fieldsOf(resource, true), ({ column }) => typed.get(column) ?? none);
  const lacksValues = resource.passwords.length > 0 || copied.size > typed.size;
  if (notice === undefined && !lacksValues) return create(context, copied, form);
  return recordForm(context, {
    typed: copied,
    stored: undefined,
    notice: `${notice ?? 'This will be saved as a new record. Fill in the fields that were not copied.'}${notCopiedText(resource, typed)}`,
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
async function showGone(context: ResourceContext, typed: TypedValues, form: Form): Promise<Reply> {
  const { title, may } = context.resource;
  if (may.has('add')) return asNew(context, typed, form, GONE);
  const longTexts = await renderLongTexts(typed);
  const body = html`<p class="notice" role="alert">
      This record has been deleted, and records cannot be added here. Nothing was saved. Copy the values that
      you need.
    </p>
    <div class="record">
      ${fieldsOf(context.resource, false).map((field) => {
        const value = typed.get(field.column);
        return value && field.renderCopy(value, longTexts.get(field.column));
      })}
    </div>`;
  return pageReply(context, {
    title: `Deleted from ${title}`,
    crumbs: [listCrumb(context.resource), 'Deleted'],
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
}

async function readForm(context: FormContext, submitted: Form): Promise<Submitted> {
  const { resource, id } = context;
  const stored = id === undefined ? undefined : await readStored({ ...context, id });
  const fields = fieldsOf(resource, id === undefined);
  const form = boundedForm(submitted, fields);
  const typed = valuesOf(fields, (field) => (field.isIn(form) ? field.read(form) : undefined));
  return { form, fields, typed, stored };
}

/** Shows a form from an earlier session again, with everything that the user typed. */
export async function showUnsaved(context: FormContext, sent: Form, status: number): Promise<Reply> {
  const { form, typed, stored } = await readForm(context, sent);
  if (context.id !== undefined && !stored) return showGone(context, typed, form);
  // The user resolves a conflict again, against the record as it is now.
  if (stored && form.entries.some(([name]) => isChoice(name)))
    return showConflict(context, { stored, typed, form });
  const notice =
    'This form is from an earlier session, so nothing was saved. Check the values and save again.';
  return recordForm(context, { typed, stored, sent: form, notice, status });
}

/** Handles a sent form: looks up or chooses a related record, or saves. @throws Problem 404 where it may not */
export async function saveRecord(context: FormContext, submitted: Form, attempt = 1): Promise<Reply> {
  const { resource, id } = context;
  if (!resource.may.has(id === undefined ? 'add' : 'change')) throw notFound('There is no such page.');
  const { form, fields, typed: sent, stored } = await readForm(context, submitted);
  const find = (name: string | undefined): FormField | undefined =>
    fields.find((field) => field.name === name && sent.has(field.column));

  const lookupField = find(form.get('_lookup'));
  if (lookupField) {
    const crumbs = [listCrumb(resource), shortened(stored?.label ?? 'Add', 40)];
    return showLookup(context, lookupField, form, crumbs);
  }
  const [choiceField, chosen] = [find(form.get('_for')), form.get('_choose')];
  if (choiceField && chosen !== undefined) {
    const changed = new Map(sent).set(choiceField.column, { text: chosen, isNull: chosen === '' });
    return recordForm(context, { typed: changed, stored, sent: form });
  }
  const previewed = find(form.get('_preview'));
  if (previewed && (id === undefined || stored))
    return recordForm(context, { typed: sent, stored, sent: form, previewed });
  const typed = await withKeys(context, sent, stored);
  if (id === undefined) return create(context, typed, form);
  if (!stored) return showGone(context, typed, form);
  if (form.get('_save') === 'new' && resource.may.has('add')) return asNew(context, typed, form);
  const conflict = { stored, typed, form };
  if (form.get('_version') === stored.version) return update({ ...context, id }, conflict, attempt);
  if (!(await isSaved(context, resource, fields, resolveConflict(resource, conflict), stored)))
    return showConflict(context, conflict);
  // A form that was sent twice, unless it changed nothing the first time.
  const isUnchanged = originIn(form, fields) === originOf(typed);
  return afterSave(context, id, form, isUnchanged ? 'unchanged' : 'changed');
}
