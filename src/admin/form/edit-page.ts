import type { Column } from '../../db/schema/model.ts';
import { Problem } from '../../errors.ts';
import type { Reply } from '../../http/message/message.ts';
import type { AdminResource } from '../../resources/serve/admin-resource.ts';
import type { RecordEntry } from '../../resources/records/browsing.ts';
import { confirmCaller, needsConfirmation, newPasswordFault } from '../session/password-confirmation.ts';
import { isChoice, resolved, showConflict } from './conflict-page.ts';
import type { AdminContext } from '../web/admin-context.ts';
import { addPassword, attempt, bodyOf, type FormBody } from '../fields/form-body.ts';
import { boundedForm } from '../fields/form-bounds.ts';
import type { Form } from '../web/form-data.ts';
import { editableColumns, formPage } from '../fields/form-page.ts';
import {
  heldBy,
  holdable,
  initialValues,
  storedValues,
  typedValues,
  type TypedValues,
} from '../fields/form-values.ts';
import { links, Parameters } from '../web/admin-links.ts';
import { addLockOut, isOneself } from '../session/lock-out.ts';
import { addOnce } from '../web/submit-once.ts';
import { showLookup, withKeys } from '../fields/references.ts';
import { afterSave } from './after-save.ts';
import { shortened } from '../web/display-text.ts';
import type { AdminRequest } from '../web/admin-request.ts';

type Stored = RecordEntry & { readonly version: string };

export async function showAdd(
  context: AdminContext,
  adminRequest: AdminRequest,
  resource: AdminResource,
): Promise<Reply> {
  const given = Parameters.parse(adminRequest.request.query);
  const columns = editableColumns(resource, true);
  const typed = initialValues(columns, ({ name, key }) => given.get(name) ?? given.get(key));
  return formPage(context, adminRequest, { resource, typed, stored: undefined });
}

export async function showRecord(
  context: AdminContext,
  adminRequest: AdminRequest,
  resource: AdminResource,
  id: string,
): Promise<Reply> {
  const stored = await context.browsing.read(resource, id);
  const typed = storedValues(stored, holdable(stored, editableColumns(resource, false)));
  return formPage(context, adminRequest, { resource, stored, typed });
}

/**
 * Adds to a body's errors that the admin has not confirmed by password what needs it.
 * @returns the status of the answer, where that refuses the form
 */
async function addConfirmation(
  context: AdminContext,
  adminRequest: AdminRequest,
  resource: AdminResource,
  stored: RecordEntry | undefined,
  body: FormBody,
  form: Form,
): Promise<{ readonly status?: number }> {
  if (!needsConfirmation(context, resource, stored, body.members)) return {};
  const refusal = await confirmCaller(context, adminRequest, form);
  if (!refusal) return {};
  Object.assign(body.errors, refusal.errors);
  return { status: refusal.status };
}

async function create(
  context: AdminContext,
  adminRequest: AdminRequest,
  resource: AdminResource,
  typed: TypedValues,
  form: Form,
): Promise<Reply> {
  const body = bodyOf(typed, undefined);
  addPassword(body, resource, form, (column, password) =>
    newPasswordFault(context, resource, column, password, body.members),
  );
  const status = await addConfirmation(context, adminRequest, resource, undefined, body, form);
  const { caller } = adminRequest;
  const outcome = await attempt(
    body,
    resource,
    { operations: context.operations, writing: { id: undefined, caller } },
    () =>
      addOnce(context, adminRequest, form, (operations) => operations.create(resource, body.members, caller)),
  );
  if (!outcome.done)
    return formPage(context, adminRequest, {
      resource,
      typed,
      stored: undefined,
      sent: form,
      ...outcome,
      ...status,
    });
  const { id, isRepeated } = outcome.done;
  return afterSave(context, adminRequest, resource, id, form, isRepeated ? 'repeated' : 'added');
}

async function update(
  context: AdminContext,
  adminRequest: AdminRequest,
  resource: AdminResource,
  stored: Stored,
  sent: TypedValues,
  form: Form,
): Promise<Reply> {
  const typed = resolved({ resource, stored, typed: sent, form });
  const body = bodyOf(typed, stored);
  if (body.members.size === 0 && Object.keys(body.errors).length === 0)
    return afterSave(context, adminRequest, resource, stored.id, form, 'kept');
  const { caller } = adminRequest;
  if (isOneself(context, resource, stored.id, caller)) addLockOut(body.errors, body.members);
  const status = await addConfirmation(context, adminRequest, resource, stored, body, form);
  try {
    const outcome = await attempt(
      body,
      resource,
      { operations: context.operations, writing: { id: stored.id, caller } },
      () => context.operations.update(resource, stored.id, body.members, caller, [stored.version]),
    );
    if (!outcome.done)
      return await formPage(context, adminRequest, {
        resource,
        typed,
        stored,
        sent: form,
        ...outcome,
        ...status,
      });
  } catch (error) {
    if (!(error instanceof Problem) || error.status !== 412) throw error;
    const now = await context.browsing.read(resource, stored.id);
    // The page repeats the form as it was sent, so the choices are made again for all of it.
    return showConflict(context, adminRequest, { resource, stored: now, typed: sent, form });
  }
  return afterSave(context, adminRequest, resource, stored.id, form, 'changed');
}

/** Names the columns that the form of the other record did not hold: a new record is without their values. */
function leftOut(resource: AdminResource, typed: TypedValues): string {
  const titles = editableColumns(resource, false).flatMap((column) =>
    typed.has(column) ? [] : [column.title],
  );
  if (titles.length === 0) return '';
  return ` Too long to be copied: ${titles.join(', ')}.`;
}

/**
 * The values of a form as a new record. Where that needs more than was typed (a key of its own, a password, or another thought
 * because the record is gone), the form of a new record comes first.
 */
function asNew(
  context: AdminContext,
  adminRequest: AdminRequest,
  resource: AdminResource,
  typed: TypedValues,
  form: Form,
  notice?: string,
): Promise<Reply> {
  const columns = editableColumns(resource, true);
  const copied = new Map(columns.map((column) => [column, typed.get(column) ?? { text: '', isNull: true }]));
  const needsMore = resource.passwords.length > 0 || copied.size > typed.size;
  if (notice === undefined && !needsMore) return create(context, adminRequest, resource, copied, form);
  return formPage(context, adminRequest, {
    resource,
    typed: copied,
    stored: undefined,
    notice: `${notice ?? 'This will be a new record. Fill in what it does not share with the other one.'}${leftOut(resource, typed)}`,
    status: notice === undefined ? 200 : 409,
    sent: form,
  });
}

/** Shows a form again that was sent at a moment when it could not be taken, with everything that was typed. */
export async function showSent(
  context: AdminContext,
  adminRequest: AdminRequest,
  resource: AdminResource,
  id: string | undefined,
  sent: Form,
  status: number,
): Promise<Reply> {
  const isNew = id === undefined;
  const stored = isNew ? undefined : await context.browsing.read(resource, id);
  const columns = editableColumns(resource, isNew);
  const form = boundedForm(sent, columns);
  const typed = typedValues(form, heldBy(form, columns), isNew);
  // Choices between two people's values are made again, against what is stored by now.
  if (stored && form.entries.some(([name]) => isChoice(name)))
    return showConflict(context, adminRequest, { resource, stored, typed, form });
  const notice = 'Nothing was saved yet: you had to log in in between. Look it over, and save it again.';
  return formPage(context, adminRequest, { resource, typed, stored, sent: form, notice, status });
}

/** Reads the record that a form is about, or undefined where it is gone. */
async function readStored(
  context: AdminContext,
  resource: AdminResource,
  id: string,
): Promise<Stored | undefined> {
  try {
    return await context.browsing.read(resource, id);
  } catch (error) {
    if (error instanceof Problem && error.status === 404) return undefined;
    throw error;
  }
}

/**
 * What a form asks for: a step between, or to save.
 * @param id undefined for a new record
 */
export async function saveRecord(
  context: AdminContext,
  adminRequest: AdminRequest,
  resource: AdminResource,
  id: string | undefined,
  form: Form,
): Promise<Reply> {
  const isNew = id === undefined;
  const columns = heldBy(form, editableColumns(resource, isNew));
  const stored = isNew ? undefined : await readStored(context, resource, id);
  const sent = typedValues(form, columns, isNew);
  const find = (key: string | undefined): Column | undefined => columns.find((column) => column.key === key);

  const lookedFor = find(form.get('_lookup'));
  if (lookedFor) {
    const crumbs = [
      { text: resource.title, href: links.list(resource.name) },
      { text: shortened(stored?.label ?? 'Add', 40) },
    ];
    return showLookup(context, adminRequest, lookedFor, form, crumbs);
  }
  const [chosenFor, chosen] = [find(form.get('_for')), form.get('_choose')];
  if (chosenFor && chosen !== undefined) {
    const changed = new Map(sent).set(chosenFor, { text: chosen, isNull: chosen === '' });
    return formPage(context, adminRequest, { resource, typed: changed, stored, sent: form });
  }
  const typed = await withKeys(context, sent, stored);
  if (isNew) return create(context, adminRequest, resource, typed, form);
  if (!stored) {
    const gone =
      'This record was deleted in the meantime. What you typed is still here: saving adds it anew.';
    return asNew(context, adminRequest, resource, typed, form, gone);
  }
  if (form.get('_save') === 'new' && resource.may.has('add'))
    return asNew(context, adminRequest, resource, typed, form);
  // The same form once more: what it asks for is there.
  const isThere = bodyOf(typed, stored).members.size === 0;
  if (form.get('_version') !== stored.version && !isThere)
    return showConflict(context, adminRequest, { resource, stored, typed, form });
  return update(context, adminRequest, resource, stored, typed, form);
}
