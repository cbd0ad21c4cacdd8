// Keeps admins from locking themselves out.
import { addError, type FieldErrors } from '../../errors.ts';
import type { JsonFields } from '../../resources/records/json-fields.ts';
import type { ResourceContext } from '../web/admin-context.ts';

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
 * @param reason the second half of the message
 */
export function addLockOut(
  errors: FieldErrors,
  fields: JsonFields,
  reason = 'ask another admin to do this',
): void {
  for (const key of REQUIRED_COLUMNS) {
    const field = fields.get(key);
    if (field && field.value !== true) addError(errors, key, `would lock you out: ${reason}`);
  }
}
