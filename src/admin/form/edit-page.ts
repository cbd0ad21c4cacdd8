// The forms that add, change and copy a record: from the request to the saved record or the form with its errors.
import type { Column } from '../../db/schema/model.ts';
import { splitKey } from '../../db/schema/composite-key.ts';
import { notFound, Problem } from '../../errors.ts';
import type { Reply } from '../../http/message/message.ts';
import type { AdminView } from '../../resources/access/admin-view.ts';
import type { LabeledRecord, StoredRecord } from '../../resources/records/labeled-record.ts';
import type { Parameter } from '../../query/parse/grammar.ts';
import { sessionCaller } from '../session/assert-session.ts';
import {
  confirmCaller,
  needsConfirmation,
  showsUsers,
  type ConfirmationRefusal,
} from '../session/password-confirmation.ts';
import { isChoice, resolveConflict, showConflict, type Conflict } from './conflict-page.ts';
import type { RecordContext, ResourceContext } from '../web/admin-context.ts';
import { addPassword, trySave, bodyOf, type FormBody } from '../fields/form-body.ts';
import { boundedForm } from '../fields/form-bounds.ts';
import type { Form } from '../web/form-data.ts';
import { renderLongTexts, unsavedRow } from '../fields/form-fields.ts';
import { editableColumns, formPage } from '../fields/form-page.ts';
import {
  columnsIn,
  initialValues,
  NO_VALUES,
  originIn,
  originOf,
  storedValues,
  typedValues,
  type TypedValues,
} from '../fields/form-values.ts';
import { html } from '../web/html.ts';
import { pageReply } from '../web/layout.ts';
import { links, LinkParameters } from '../web/admin-links.ts';
import { shownTime } from '../web/time-zone.ts';
import { changeOf, valuesToPutBack } from '../history/history-entry.ts';
import { addLockOut, isOwnUser } from '../session/lock-out.ts';
import { addOnce } from '../web/submit-once.ts';
import { showLookup, withKeys } from '../fields/references.ts';
import { listQuery } from '../web/admin-request.ts';
import { afterSave } from './after-save.ts';
import { shortened } from '../web/display-text.ts';

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
  const columns = editableColumns(context.resource, true);
  const empty = new Set(given.get(NO_VALUES)?.split(' '));
  const filtered = filteredValues(context.resource, listQuery(context));
  const typed = initialValues(columns, (column) =>
    empty.has(column.key) ? null : (given.get(column.name) ?? given.get(column.key) ?? filtered.get(column)),
  );
  return formPage(context, { typed, stored: undefined });
}

export async function showRecord(context: RecordContext): Promise<Reply> {
  const { resource, id, browsing, request } = context;
  const stored = await browsing.read(resource, id);
  const columns = editableColumns(resource, false);
  const typed = storedValues(stored, columns);
  const entry = new URLSearchParams(request.query).get('_entry');
  if (entry === null || !resource.may.has('change')) return formPage(context, { stored, typed });
  if (!resource.allows.has('history')) throw notFound('There is no such page.');
  const change = changeOf(await browsing.preview(context.historyOf(resource), entry), context);
  if (change.record !== stored.id) throw notFound('There is no such change of this record.');
  const fields = valuesToPutBack(change);
  const known = columns.filter(({ key }) => fields.has(key));
  const earlier = storedValues({ fields }, known);
  const put = new Map([...typed].map(([column, value]) => [column, earlier.get(column) ?? value]));
  const left = known.filter((column) => !earlier.has(column) || !typed.has(column));
  const notice = `These are the values ${change.action === 'create' ? 'as added' : 'before the change'} on ${shownTime(change.at, ' UTC')}. Check them: nothing is changed until you save.`;
  const tooLong = left.map(({ title }) => title).join(', ');
  return formPage(context, {
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
): Promise<Partial<Pick<ConfirmationRefusal, 'status' | 'headers'>>> {
  const password = needsConfirmation(context, stored, body.fields);
  const refusal = await confirmCaller(context, form, { password, code: showsUsers(context) });
  if (!refusal) return {};
  const { errors, ...answer } = refusal;
  Object.assign(body.errors, errors);
  return answer;
}

async function create(context: ResourceContext, typed: TypedValues, form: Form): Promise<Reply> {
  const body = await bodyOf(typed, undefined);
  addPassword(body, context, form);
  const confirmation = await addConfirmation(context, undefined, body, form);
  const { resource } = context;
  const caller = sessionCaller(context);
  const outcome = await trySave(context, undefined, body, () =>
    addOnce(context, form, (operations) => operations.create(resource, body.fields, caller)),
  );
  if (!outcome.done)
    return formPage(context, { typed, stored: undefined, sent: form, ...outcome, ...confirmation });
  const { id, isRepeated } = outcome.done;
  return afterSave(context, id, form, isRepeated ? 'repeated' : 'added');
}

/** Whether the record already has all values of a form, as after a form that is sent twice. */
async function isSaved(context: ResourceContext, conflict: Conflict): Promise<boolean> {
  const { stored } = conflict;
  const { fields, errors } = await bodyOf(resolveConflict(conflict), stored);
  if (Object.keys(errors).length > 0) return false;
  const { browsing, resource } = context;
  return fields.size === 0 || browsing.hasValues(resource, stored.id, fields, sessionCaller(context));
}

async function update(
  context: ResourceContext,
  stored: StoredRecord,
  sent: TypedValues,
  form: Form,
): Promise<Reply> {
  const typed = resolveConflict({ stored, typed: sent, form });
  const body = await bodyOf(typed, stored);
  if (body.fields.size === 0 && Object.keys(body.errors).length === 0)
    return afterSave(context, stored.id, form, 'unchanged');
  const { resource, operations, browsing } = context;
  if (isOwnUser(context, stored.id)) addLockOut(body.errors, body.fields);
  const confirmation = await addConfirmation(context, stored, body, form);
  try {
    const outcome = await trySave(context, stored.id, body, () =>
      operations.update(resource, stored.id, body.fields, sessionCaller(context), [stored.version]),
    );
    if (!outcome.done)
      return await formPage(context, { typed, stored, sent: form, ...outcome, ...confirmation });
  } catch (error) {
    if (!(error instanceof Problem) || error.status !== 412) throw error;
    const now = await browsing.read(resource, stored.id);
    // A form that was sent twice at the same time.
    if (await isSaved(context, { stored: now, typed: sent, form }))
      return afterSave(context, stored.id, form, 'changed');
    // The conflict page repeats the form as it was sent, so the user chooses again for all fields.
    return showConflict(context, { stored: now, typed: sent, form });
  }
  return afterSave(context, stored.id, form, 'changed');
}

/** A sentence that names the columns whose values were too long for the form, so that a copy lacks them. */
function notCopiedText(resource: AdminView, typed: TypedValues): string {
  const titles = editableColumns(resource, false).flatMap((column) =>
    typed.has(column) ? [] : [column.title],
  );
  if (titles.length === 0) return '';
  return ` Not copied, because the value is too long: ${titles.join(', ')}.`;
}

/**
 * Saves the values of a form as a new record. It shows the form of a new record first where values are missing (a key, a
 * password) or the user must confirm, because the record was deleted.
 */
function asNew(context: ResourceContext, typed: TypedValues, form: Form, notice?: string): Promise<Reply> {
  const { resource } = context;
  const columns = editableColumns(resource, true);
  const copied = new Map(columns.map((column) => [column, typed.get(column) ?? { text: '', isNull: true }]));
  const lacksValues = resource.passwords.length > 0 || copied.size > typed.size;
  if (notice === undefined && !lacksValues) return create(context, copied, form);
  return formPage(context, {
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
  const { title, name, may } = context.resource;
  if (may.has('add')) return asNew(context, typed, form, GONE);
  const longTexts = await renderLongTexts(typed);
  const body = html`<p class="notice" role="alert">
      This record has been deleted, and records cannot be added here. Nothing was saved. Copy the values that
      you need.
    </p>
    <div class="record">
      ${[...typed].map(([column, { text }]) => unsavedRow(column, text, longTexts.get(column)))}
    </div>`;
  return pageReply(context, {
    title: `Deleted from ${title}`,
    crumbs: [{ text: title, href: links.list(name) }, { text: 'Deleted' }],
    kind: 'form',
    status: 409,
    body,
  });
}

/** Shows a form from an earlier session again, with everything that the user typed. */
export async function showUnsaved(context: FormContext, sent: Form, status: number): Promise<Reply> {
  const { resource, id } = context;
  const isNew = id === undefined;
  const stored = isNew ? undefined : await readStored({ ...context, id });
  const columns = editableColumns(resource, isNew);
  const form = boundedForm(sent, columns);
  const typed = typedValues(form, isNew ? columns : columnsIn(form, columns), isNew);
  if (!isNew && !stored) return showGone(context, typed, form);
  // The user resolves a conflict again, against the record as it is now.
  if (stored && form.entries.some(([name]) => isChoice(name)))
    return showConflict(context, { stored, typed, form });
  const notice =
    'This form is from an earlier session, so nothing was saved. Check the values and save again.';
  return formPage(context, { typed, stored, sent: form, notice, status });
}

/** Handles a sent form: looks up or chooses a related record, or saves. */
export async function saveRecord(context: FormContext, submitted: Form): Promise<Reply> {
  const { resource, id } = context;
  const isNew = id === undefined;
  const editable = editableColumns(resource, isNew);
  const form = boundedForm(submitted, editable);
  const columns = isNew ? editable : columnsIn(form, editable);
  const stored = isNew ? undefined : await readStored({ ...context, id });
  const sent = typedValues(form, columns, isNew);
  const find = (key: string | undefined): Column | undefined => columns.find((column) => column.key === key);

  const lookupColumn = find(form.get('_lookup'));
  if (lookupColumn) {
    const crumbs = [
      { text: resource.title, href: links.list(resource.name) },
      { text: shortened(stored?.label ?? 'Add', 40) },
    ];
    return showLookup(context, lookupColumn, form, crumbs);
  }
  const [choiceColumn, chosen] = [find(form.get('_for')), form.get('_choose')];
  if (choiceColumn && chosen !== undefined) {
    const changed = new Map(sent).set(choiceColumn, { text: chosen, isNull: chosen === '' });
    return formPage(context, { typed: changed, stored, sent: form });
  }
  const typed = await withKeys(context, sent, stored);
  if (isNew) return create(context, typed, form);
  if (!stored) return showGone(context, typed, form);
  if (form.get('_save') === 'new' && resource.may.has('add')) return asNew(context, typed, form);
  if (form.get('_version') !== stored.version) {
    const conflict = { stored, typed, form };
    if (!(await isSaved(context, conflict))) return showConflict(context, conflict);
    // A form that was sent twice, unless it changed nothing the first time.
    const isUnchanged = originIn(form, editable) === originOf(typed);
    return afterSave(context, id, form, isUnchanged ? 'unchanged' : 'changed');
  }
  return update(context, stored, typed, form);
}
