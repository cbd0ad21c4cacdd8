import { findColumn, type Column } from '../../db/schema/model.ts';
import { Problem, type FieldErrors } from '../../errors.ts';
import { Unauthorized } from '../../http/message/message.ts';
import type { AdminResource } from '../../resources/serve/admin-resource.ts';
import type { RecordEntry } from '../../resources/records/record-entry.ts';
import type { JsonFields } from '../../resources/records/json-fields.ts';
import {
  leastCharacters,
  passwordFault,
  type PasswordRules,
} from '../../resources/passwords/password-rules.ts';
import type { AdminContext } from '../web/admin-context.ts';
import type { Form } from '../web/form-data.ts';
import { html, type Html } from '../web/html.ts';
import { passwordFields } from '../web/widgets.ts';
import type { AdminRequest } from '../web/admin-request.ts';

/** The columns of the users' table that matter here, as far as a resource has them. */
interface UserColumns {
  readonly username: Column | undefined;
  readonly active: Column | undefined;
  readonly admin: Column | undefined;
}

/** The columns of the users' table, whichever resource shows that table; undefined for another table. */
function userColumns(
  { settings, resources }: AdminContext,
  { name, model }: AdminResource,
): UserColumns | undefined {
  const users = resources.get(settings.userModel)?.model;
  if (name !== settings.userModel && users?.table !== model.table) return undefined;
  const find = (wanted: string): Column | undefined => {
    const field = (users && findColumn(users, wanted)?.field) ?? wanted;
    return model.columns.find((column) => column.field === field);
  };
  return { username: find('username'), active: find('active'), admin: find('admin') };
}

/** Whether one of the columns decides what users may do. */
export function hasPowers(
  context: AdminContext,
  resource: AdminResource,
  columns: readonly Column[],
): boolean {
  const { active, admin } = userColumns(context, resource) ?? {};
  return columns.some((column) => column === active || column === admin);
}

/** Whether a record may be an admin's user. A column that is hidden could hold anything. */
export function isAdminRecord(
  context: AdminContext,
  resource: AdminResource,
  { members }: RecordEntry,
): boolean {
  const columns = userColumns(context, resource);
  if (!columns) return false;
  const admin = columns.admin && members.get(columns.admin.key);
  return admin === undefined || (admin.value !== false && admin.value !== null);
}

/**
 * Whether a form asks for something that a stolen session must not do: to make an admin, or to change whether an admin is active.
 * @param stored the record that it changes; undefined for a new one
 */
export function needsConfirmation(
  context: AdminContext,
  resource: AdminResource,
  stored: RecordEntry | undefined,
  members: JsonFields,
): boolean {
  const columns = userColumns(context, resource);
  if (!columns) return false;
  const { active, admin } = columns;
  const sent = admin && members.get(admin.key);
  if (!stored) return (sent ? sent.value : admin?.initial) === true;
  if (sent) return true;
  return active !== undefined && members.has(active.key) && isAdminRecord(context, resource, stored);
}

/** Why a form is refused that must carry the current password of the admin who sends it. */
export interface ConfirmationRefusal {
  readonly errors: FieldErrors;
  readonly status: number;
}

/** Verifies the admin's own password, which the form carries; undefined where it is right. */
export async function confirmCaller(
  { authentication }: AdminContext,
  { caller, request }: AdminRequest,
  form: Form,
): Promise<ConfirmationRefusal | undefined> {
  const password = form.get('_current') ?? '';
  if (password === '') return { errors: { _current: ['is required for this'] }, status: 400 };
  const wrong = { errors: { _current: ['is not your password'] }, status: 400 };
  try {
    const { caller: verified } = await authentication.logIn(
      { name: caller.name, password },
      request.client().address,
      (callback) => request.requester.onGone(callback),
    );
    return verified.id === caller.id && verified.admin ? undefined : wrong;
  } catch (error) {
    if (error instanceof Unauthorized) return wrong;
    if (!(error instanceof Problem) || ![429, 503].includes(error.status)) throw error;
    return { errors: { _current: [error.message] }, status: error.status };
  }
}

/** The field for the admin's own password, on a form that may need it. */
export const confirmationField = (errors: FieldErrors, hint: string, isRequired: boolean): Html =>
  html`<p class="hint">${hint}</p>
    ${passwordFields(['_current'], errors, { isRequired })}`;

/** @param members of the record; without them a user's name is not known */
function rulesOf(context: AdminContext, resource: AdminResource, members?: JsonFields): PasswordRules {
  const { minPassword } = context.settings;
  const columns = userColumns(context, resource);
  if (!columns) return { minPassword };
  const name = columns.username && members?.get(columns.username.key)?.value;
  return { minPassword, name: typeof name === 'string' ? name : '' };
}

/** What is wrong with a new password of a record with these members. */
export const newPasswordFault = (
  context: AdminContext,
  resource: AdminResource,
  column: Column,
  password: string,
  members: JsonFields,
): string | undefined => passwordFault(password, column, rulesOf(context, resource, members));

/** What people read beside the field for a new password. */
export function passwordHint(context: AdminContext, resource: AdminResource): string {
  const [column] = resource.passwords;
  const rules = rulesOf(context, resource);
  const least = column ? leastCharacters(column, rules) : 1;
  const isUser = rules.name !== undefined;
  return `At least ${least} ${least === 1 ? 'character' : 'characters'}${isUser ? ', and not the user name' : ''}.`;
}
