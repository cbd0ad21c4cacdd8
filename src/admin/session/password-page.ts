// The page that sets the password of a record, usually of a user.
import type { Column } from '../../db/schema/model.ts';
import { notFound, Problem, type FieldErrors } from '../../errors.ts';
import type { Reply } from '../../http/message/message.ts';
import { parseJsonFields } from '../../resources/records/json-fields.ts';
import type { LabeledRecord } from '../../resources/records/labeled-record.ts';
import {
  confirmationField,
  confirmCaller,
  isAdminRecord,
  passwordHint,
  rulesOf,
  showsUsers,
  typedPassword,
  type ConfirmationRefusal,
} from './password-confirmation.ts';
import { sessionCaller } from './assert-session.ts';
import { isOwnUser } from './lock-out.ts';
import { redirectReopened } from './account-page.ts';
import type { RecordContext, ResourceContext } from '../web/admin-context.ts';
import type { Form } from '../web/form-data.ts';
import { html } from '../web/html.ts';
import { pageReply } from '../web/layout.ts';
import { links } from '../web/admin-links.ts';
import { redirectDone } from '../web/admin-request.ts';
import { errorSummary, PASSWORD_LABELS, passwordFields } from '../web/widgets.ts';

const OVERTAKEN =
  'was not set: the record has changed in the meantime, perhaps because this form was sent twice';

/** Whether the column of this record is the admin's own password. A further password column ends no session. */
const isOwnPassword = (context: ResourceContext, { id }: LabeledRecord, { name }: Column): boolean =>
  isOwnUser(context, id) && name === 'password';

/** Shows the form. It never contains a stored or a typed password. */
export async function showPassword(
  context: RecordContext,
  { errors, status, headers }: ConfirmationRefusal = { errors: {}, status: 200 },
): Promise<Reply> {
  const { resource, id } = context;
  const [column] = resource.passwords;
  if (!column) throw notFound('There is no such page.');
  const { name, title } = resource;
  const stored = await context.browsing.preview(resource, id);
  const { label } = stored;
  const isAdmins = isAdminRecord(context, stored);
  const fields = isAdmins
    ? (['_current', '_password', '_repeat'] as const)
    : (['_password', '_repeat'] as const);
  const body = html` ${errorSummary(errors, PASSWORD_LABELS)}
    <form method="post" action="${links.part(name, id, 'password')}" class="record">
      <input type="hidden" name="_csrf" value="${context.csrf}" />
      <input
        type="hidden"
        name="username"
        value="${isAdmins ? context.caller.name : label}"
        autocomplete="username"
      />
      ${passwordFields(fields, errors, { hint: passwordHint(column, rulesOf(context)) })}
      ${confirmationField(context, errors, false, true, showsUsers(context))}
      <p class="hint">
        ${isOwnPassword(context, stored, column) ? 'Changing your password ends all your other sessions.' : 'Setting a password ends all sessions of the user.'}
      </p>
      <div class="buttons">
        <button class="primary">Set password</button>
        <a class="button" href="${links.record(name, id)}">Cancel</a>
      </div>
    </form>`;
  const page = {
    title: `Password of ${label}`,
    crumbs: [
      { text: title, href: links.list(name) },
      { text: label, href: links.record(name, id) },
      { text: 'Password' },
    ],
    kind: 'form',
    status,
    body,
  } as const;
  return pageReply(context, page, headers);
}

/** Sets the password. @throws Problem 404 */
export async function setPassword(context: RecordContext, form: Form): Promise<Reply> {
  const { resource, id } = context;
  const [column] = resource.passwords;
  if (!column) throw notFound('There is no such page.');
  const refuse = (errors: FieldErrors, status = 400): Promise<Reply> =>
    showPassword(context, { errors, status });
  const stored = await context.browsing.preview(resource, id);
  const { text, errors } = typedPassword(form, column, rulesOf(context, stored.fields));
  if (Object.keys(errors).length > 0) return refuse(errors);
  const isAdmins = isAdminRecord(context, stored);
  const refusal = await confirmCaller(context, form, { password: isAdmins, code: showsUsers(context) });
  if (refusal) return showPassword(context, refusal);
  const fields = parseJsonFields(JSON.stringify({ [column.key]: text }));
  try {
    // The version check fails if the user has become an admin since, so the confirmation cannot be bypassed.
    const versions = isAdmins ? undefined : [stored.version];
    await context.operations.update(resource, id, fields, sessionCaller(context), versions);
  } catch (error) {
    if (!(error instanceof Problem) || ![400, 412].includes(error.status)) throw error;
    if (error.status === 412) return refuse({ _password: [OVERTAKEN] }, 409);
    return refuse({ _password: error.errors?.[column.key] ?? [error.message] });
  }
  const page = links.record(resource.name, id);
  if (isOwnPassword(context, stored, column)) return redirectReopened(context, text, page);
  return redirectDone(context, page, 'The password was set.');
}
