// Decides when admins must confirm a change with their own password and a code, verifies both, and checks new passwords.
import { findColumn, type Column } from '../../db/schema/model.ts';
import { errorOf, type FieldErrors, Problem } from '../../errors.ts';
import { mayEnter } from '../../resources/access/access.ts';
import type { Login } from '../../http/auth/authentication.ts';
import { Unauthorized } from '../../http/message/message.ts';
import type { AdminView } from '../../resources/access/admin-view.ts';
import type { LabeledRecord } from '../../resources/records/labeled-record.ts';
import type { JsonFields } from '../../resources/records/json-fields.ts';
import { minimumLength, passwordFault, type PasswordRules } from '../../resources/users/password-rules.ts';
import type { AdminContext, ResourceContext } from '../web/admin-context.ts';
import type { Form } from '../web/form-data.ts';
import { html, type Html } from '../web/html.ts';
import { verifyPassword } from './login.ts';
import { passwordFields } from '../web/widgets.ts';

/** Columns of the users' table, as far as a resource has them. */
interface UserColumns {
  readonly username: Column | undefined;
  readonly active: Column | undefined;
  readonly admin: Column | undefined;
  readonly role: Column | undefined;
}

/** The columns, for any resource that shows the users' table; undefined for other tables. */
function userColumns({ settings, users, resource }: ResourceContext): UserColumns | undefined {
  const { name, model } = resource;
  if (name !== settings.userModel && users.model.table !== model.table) return undefined;
  const find = (wanted: string): Column | undefined => {
    const field = findColumn(users.model, wanted)?.field ?? wanted;
    return model.columns.find((column) => column.field === field);
  };
  const hasRoles = Object.keys(settings.roles ?? {}).length > 0;
  return {
    username: find('username'),
    active: find('active'),
    admin: find('admin'),
    role: hasRoles ? find('role') : undefined,
  };
}

/**
 * Whether one of the columns is the users' `active`, `admin` or `role`, or the `username` of existing users. Another name locks a user
 * out, too.
 */
export function hasPrivilegeColumn(
  context: ResourceContext,
  columns: readonly Column[],
  isNew: boolean,
): boolean {
  const { username, active, admin, role } = userColumns(context) ?? {};
  return columns.some(
    (column) =>
      [active, admin, role].includes(column) || (column !== undefined && column === username && !isNew),
  );
}

/** Whether a record may be an admin. If the column is hidden, it counts as one. */
export function isAdminRecord(context: ResourceContext, { fields }: LabeledRecord): boolean {
  const columns = userColumns(context);
  if (!columns) return false;
  const admin = columns.admin && fields.get(columns.admin.key);
  return admin === undefined || (admin.value !== false && admin.value !== null);
}

/**
 * Whether a form needs the admin's password: it makes an admin, gives a role, renames an admin, or changes whether one is active. A stolen session
 * alone must not do that.
 * @param stored the record that the form changes; undefined for a new one
 */
export function needsConfirmation(
  context: ResourceContext,
  stored: LabeledRecord | undefined,
  fields: JsonFields,
): boolean {
  const columns = userColumns(context);
  if (!columns) return false;
  const { username, active, admin, role } = columns;
  const given = role && fields.get(role.key);
  if (given && (stored !== undefined || given.value !== null)) return true;
  const sent = admin && fields.get(admin.key);
  if (!stored) return (sent ? sent.value : admin?.initial) === true;
  if (sent) return true;
  return (
    [username, active].some((column) => column && fields.has(column.key)) && isAdminRecord(context, stored)
  );
}

/** Whether the resource shows users. Changing them needs a code of those who have a second factor. */
export const showsUsers = (context: ResourceContext): boolean => userColumns(context) !== undefined;

/** Why the confirmation of a form failed, and the status and headers of the response. */
export interface ConfirmationRefusal {
  readonly errors: FieldErrors;
  readonly status: number;
  readonly headers?: Problem['headers'];
}

/**
 * Verifies the password of the admin who is logged in, and not of another user who has taken over the name.
 * @throws Unauthorized; Problem 429, 503
 */
export async function verifyCaller(context: AdminContext, password: string): Promise<Login> {
  const { caller, request } = context;
  const login = await verifyPassword(context, request, caller.name, password);
  if (login.caller.id !== caller.id || !mayEnter(login.caller, context.admitted)) throw new Unauthorized();
  return login;
}

/** Verifies a field of the form; undefined if it is right. @param wrong the error if it is not */
async function verifyField(
  form: Form,
  field: '_current' | '_code',
  wrong: string,
  check: (text: string) => Promise<unknown>,
): Promise<ConfirmationRefusal | undefined> {
  const text = form.get(field) ?? '';
  if (text === '') return { errors: { [field]: ['is required to confirm this change'] }, status: 400 };
  try {
    await check(text);
    return undefined;
  } catch (error) {
    if (error instanceof Unauthorized) return { errors: { [field]: [wrong] }, status: 400 };
    if (!(error instanceof Problem) || ![429, 503].includes(error.status)) throw error;
    const { message, status, headers } = error;
    return { errors: { [field]: [message] }, status, headers };
  }
}

/** Whether those who have a second factor must give a code now. The last one confirms what the session does for some minutes. */
export const isCodeDue = ({ caller }: Pick<AdminContext, 'caller'>): boolean => caller.secondFactor === 'due';

/** Verifies the code in the form, if one is due. */
export async function confirmCode(
  context: AdminContext,
  form: Form,
): Promise<ConfirmationRefusal | undefined> {
  const { authentication, secondFactors, caller, request, token } = context;
  if (!isCodeDue(context) || !secondFactors) return undefined;
  return verifyField(form, '_code', 'is wrong, or was used before', async (code) => {
    const { network } = request.client();
    await authentication.checkCode(caller, network, () => secondFactors.take(caller.id, code));
    await secondFactors.confirm(caller.id, token);
  });
}

/**
 * Verifies the admin's own password in the form, and the code where one is due; undefined if they are right.
 * @param needs what the change needs: by default both
 */
export async function confirmCaller(
  context: AdminContext,
  form: Form,
  { password = true, code = true } = {},
): Promise<ConfirmationRefusal | undefined> {
  const refusal = password
    ? await verifyField(form, '_current', 'is not your password', (text) => verifyCaller(context, text))
    : undefined;
  return refusal ?? (password || code ? confirmCode(context, form) : undefined);
}

/**
 * The fields for the admin's own password and a code that is due, on a form that may need them. Password managers take the text field
 * before a password as the user name. Without one for them they would fill in a field of the record. It has no name, so it is not sent.
 * @param hint why the password is needed; false if it is not
 */
export const confirmationField = (
  context: AdminContext,
  errors: FieldErrors,
  hint: string | false,
  isRequired = true,
  code = true,
): Html =>
  html`${
    hint !== false &&
    html`<p class="hint">${hint}</p>
      <input
        type="text"
        class="hidden"
        value="${context.caller.name}"
        autocomplete="username"
        readonly
        tabindex="-1"
        aria-hidden="true"
      />
      ${passwordFields(['_current'], errors, { isRequired })}`
  }
  ${code && isCodeDue(context) && passwordFields(['_code'], errors)}`;

/** The rules for a new password of a record. @param fields of the record, for its user name */
export function rulesOf(context: ResourceContext, fields?: JsonFields): PasswordRules {
  const { minPassword } = context.settings;
  const columns = userColumns(context);
  if (!columns) return { minPassword };
  const name = columns.username && fields?.get(columns.username.key)?.value;
  return { minPassword, name: typeof name === 'string' ? name : '' };
}

/**
 * A new password, which the form has twice.
 * @returns its text, and the errors by form field
 */
export function typedPassword(
  form: Form,
  column: Column,
  rules: PasswordRules,
): { readonly text: string; readonly errors: FieldErrors } {
  const text = form.get('_password') ?? '';
  if (text !== (form.get('_repeat') ?? ''))
    return { text, errors: { _repeat: ['does not match the new password'] } };
  const fault = text === '' ? 'is required' : passwordFault(text, column, rules);
  return { text, errors: fault === undefined ? {} : errorOf('_password', fault) };
}

/** Moves the errors of the password column that a form sets to its field `_password`. Further password columns have no field. */
export const byFormField = (errors: FieldErrors, { passwords: [column] }: AdminView): FieldErrors =>
  Object.fromEntries(
    Object.entries(errors).map(([key, messages]) => [key === column?.key ? '_password' : key, messages]),
  );

/** The hint beside the field for a new password. */
export function passwordHint(column: Column, rules: PasswordRules): string {
  const least = minimumLength(column, rules);
  const isUser = rules.name !== undefined;
  return `At least ${least} ${least === 1 ? 'character' : 'characters'}${isUser ? ', not the user name, and not a common password' : ''}.`;
}
