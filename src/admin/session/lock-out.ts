// Keeps admins from locking themselves out.
import { addError, type FieldErrors } from '../../errors.ts';
import type { AdminResource } from '../../resources/serve/admin-resource.ts';
import type { JsonFields } from '../../resources/records/json-fields.ts';
import type { Caller } from '../../resources/serve/served-resource.ts';
import type { AdminContext } from '../web/admin-context.ts';

/** Columns that must be true for a user to use the admin area. */
const REQUIRED_COLUMNS = ['active', 'admin'];

/** Whether the record is the admin's own user. */
export const isOwnUser = (
  { settings }: AdminContext,
  { name }: AdminResource,
  id: string | undefined,
  caller: Caller,
): boolean => name === settings.userModel && id === caller.id;

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
