// Decides when admins must confirm a change with their own password and a code, verifies both, and checks new passwords.
import { findColumn, type Column } from '../../db/schema/model.ts';
import { Problem, addError, errorOf, type FieldErrors } from '../../errors.ts';
import { messageOf } from '../../messages.ts';
import { mayEnter } from '../../resources/access/access.ts';
import type { Login } from '../../http/auth/authentication.ts';
import { Unauthorized, type ApiRequest } from '../../http/message/message.ts';
import type { AdminView } from '../../resources/access/admin-view.ts';
import type { LabeledRecord } from '../../resources/records/labeled-record.ts';
import type { JsonFields } from '../../resources/records/json-fields.ts';
import { minimumLength, passwordFault, type PasswordRules } from '../../resources/users/password-rules.ts';
import type { AdminContext, LoginServices, ResourceContext } from '../web/admin-context.ts';
import type { Form } from '../web/form-data.ts';
import { html, type Html } from '../web/html.ts';
import { t } from '../web/language.ts';
import { passwordFields } from '../web/widgets.ts';
import { assertSameCaller } from './assert-session.ts';

/** Columns of the users' table, as far as a resource has them. */
type UserColumns = Readonly<Record<'username' | 'active' | 'admin' | 'role', Column | undefined>>;

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
  const privileged = [active, admin, role, isNew ? undefined : username];
  return columns.some((column) => privileged.includes(column));
}

/** Whether a change of these columns changes how someone logs in, and what they may do then. */
export const changesLogin = (context: ResourceContext, columns: readonly Column[]): boolean =>
  hasPrivilegeColumn(context, columns, false) ||
  (showsUsers(context) && columns.some(({ isPassword }) => isPassword));

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

/** Why a form is shown again, and the status and headers of the response. */
export interface Refusal {
  readonly errors: FieldErrors;
  /** A message about the whole form. */
  readonly notice?: string | undefined;
  readonly status: number;
  readonly headers?: Problem['headers'];
}

/** What must confirm an action. */
export interface Needs {
  /** Why the admin's own password is needed. True where the form has a field for it already. */
  readonly password?: string | boolean;
  /** Whether those who have a second factor must give a code. Where a password is needed, they must. */
  readonly code?: boolean;
}

/**
 * Verifies the name and the password of a user who may enter. A client that disconnects leaves the queue.
 * @throws Unauthorized; Problem 429, 503
 */
export async function verifyPassword(
  { authentication, admitted }: LoginServices,
  request: ApiRequest,
  name: string,
  password: string,
): Promise<Login> {
  const login = await authentication.logIn({ name, password }, request.client().network, (callback) =>
    request.requester.onGone(callback),
  );
  if (!mayEnter(login.caller, admitted)) throw new Unauthorized();
  return login;
}

/**
 * Verifies the password of the admin who is logged in, and not of another user who has taken over the name.
 * @throws Unauthorized; Problem 429, 503
 */
export async function verifyCaller(context: AdminContext, password: string): Promise<Login> {
  const { caller, request } = context;
  const login = await verifyPassword(context, request, caller.name, password);
  if (login.caller.id !== caller.id) throw new Unauthorized();
  return login;
}

/** Verifies a field of the form; undefined if it is right. @param wrong the error if it is not */
async function verifyField(
  form: Form,
  field: '_current' | '_code',
  wrong: string,
  check: (text: string) => Promise<unknown>,
): Promise<Refusal | undefined> {
  const text = form.get(field) ?? '';
  if (text === '') return { errors: { [field]: [t('requiredToConfirm')] }, status: 400 };
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
async function confirmCode(context: AdminContext, form: Form): Promise<Refusal | undefined> {
  const { authentication, secondFactors, caller, request, token } = context;
  if (!isCodeDue(context) || !secondFactors) return undefined;
  return verifyField(form, '_code', t('wrongOrUsed'), async (code) => {
    const { network } = request.client();
    await authentication.checkCode(caller, network, () => secondFactors.take(caller.id, code));
    await secondFactors.confirm(caller.id, token);
  });
}

/**
 * Verifies the admin's own password in the form, and the code where one is due; undefined if they are right.
 * @throws CallerChanged if the session has ended while the password waited, perhaps because the form was sent twice
 */
export async function confirmCaller(
  context: AdminContext,
  form: Form,
  { password = false, code = false }: Needs,
): Promise<Refusal | undefined> {
  if (password === false) return code ? confirmCode(context, form) : undefined;
  const refusal = await verifyField(form, '_current', t('notYourPassword'), (text) =>
    verifyCaller(context, text),
  );
  await assertSameCaller(context);
  return refusal ?? confirmCode(context, form);
}

/**
 * The fields for the admin's own password and a code that is due, on a form that may need them. Password managers take the text field
 * before a password as the user name. Without one for them they would fill in a field of the record. It has no name, so it is not sent.
 */
export const confirmationField = (
  context: AdminContext,
  errors: FieldErrors,
  { password = false, code = false }: Needs,
  isRequired = true,
): Html =>
  html`${
    typeof password === 'string' &&
    html`<p class="hint">${password}</p>
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
  ${(password !== false || code) && isCodeDue(context) && passwordFields(['_code'], errors)}`;

/** The rules for a new password of a record. @param fields of the record, for its user name */
export function rulesOf(context: ResourceContext, fields?: JsonFields): PasswordRules {
  const { minPassword } = context.settings;
  const columns = userColumns(context);
  if (!columns) return { minPassword };
  const name = columns.username && fields?.get(columns.username.key)?.value;
  return { minPassword, name: typeof name === 'string' ? name : '' };
}

/** A new password, which the form has twice, or why it is refused. */
export function typedPassword(
  form: Form,
  column: Column,
  rules: PasswordRules,
): { readonly text: string; readonly refusal: Refusal | undefined } {
  const text = form.get('_password') ?? '';
  const refuse = (errors: FieldErrors): Refusal => ({ errors, status: 400 });
  if (text !== (form.get('_repeat') ?? ''))
    return { text, refusal: refuse({ _repeat: [t('doesNotMatch')] }) };
  const fault = text === '' ? messageOf('required') : passwordFault(text, column, rules);
  return { text, refusal: fault === undefined ? undefined : refuse(errorOf('_password', fault)) };
}

/** Why the new password of a form was refused. @throws the error itself if it is about something else */
export function refusedPassword(error: unknown, { key }: Column): Refusal {
  if (!(error instanceof Problem) || error.status !== 400) throw error;
  return { errors: { _password: error.errors?.[key] ?? [error.message] }, status: 400 };
}

/** Moves the errors of the password column that a form sets to its field `_password`. Further password columns have no field. */
export const byFormField = (errors: FieldErrors, { passwords: [column] }: AdminView): FieldErrors =>
  Object.fromEntries(
    Object.entries(errors).map(([key, messages]) => [key === column?.key ? '_password' : key, messages]),
  );

/**
 * The fields for a new password, and for the admin's own one if it is needed.
 * @param user for whom password managers keep what is typed
 */
export const newPasswordFields = (
  column: Column,
  rules: PasswordRules,
  errors: FieldErrors,
  user: string,
  isConfirmed = false,
): Html =>
  html`<input type="hidden" name="username" value="${user}" autocomplete="username" />
    ${passwordFields([...(isConfirmed ? ['_current' as const] : []), '_password', '_repeat'], errors, { hint: passwordHint(column, rules) })}`;

/** The hint beside the field for a new password. */
export function passwordHint(column: Column, rules: PasswordRules): string {
  const isUser = rules.name !== undefined;
  return t(isUser ? 'userPasswordHint' : 'passwordHint', { count: minimumLength(column, rules) });
}

/** Columns that must be true for a user to use the admin area. */
const REQUIRED_COLUMNS = ['active', 'admin'];

/** Whether the resource is the user model. */
export const isUserModel = ({ settings, resource }: ResourceContext): boolean =>
  resource.name === settings.userModel;

/** Whether the record is the admin's own user. */
export const isOwnUser = (context: ResourceContext, id: string | undefined): boolean =>
  isUserModel(context) && id === context.caller.id;

/** Whether the caller may see and end what users have: sessions, tokens. */
export const mayManageAccess = (context: ResourceContext): boolean =>
  context.caller.admin && isUserModel(context);

/**
 * Adds an error for each change that would lock admins out of the admin area. If the last admin did this, no admin could undo it.
 * @param fault the message
 */
export function addLockOut(errors: FieldErrors, fields: JsonFields, fault = t('wouldLockYouOut')): void {
  for (const key of REQUIRED_COLUMNS) {
    const field = fields.get(key);
    if (field && field.value !== true) addError(errors, key, fault);
  }
}
