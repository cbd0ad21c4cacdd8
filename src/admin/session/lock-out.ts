import { addError, type FieldErrors } from '../../errors.ts';
import type { AdminResource } from '../../resources/serve/admin-resource.ts';
import type { JsonFields } from '../../resources/records/json-fields.ts';
import type { Caller } from '../../resources/serve/served-resource.ts';
import type { AdminContext } from '../web/admin-context.ts';

/** What a user must be to use the admin area. */
const NEEDED = ['active', 'admin'];

/** Whether the record is the admin's own user. */
export const isOneself = (
  { settings }: AdminContext,
  { name }: AdminResource,
  id: string | undefined,
  caller: Caller,
): boolean => name === settings.userModel && id === caller.id;

/**
 * Refuses what admins must not do to their own user, since they would shut themselves out, and after the last one nobody could
 * let them in again.
 * @param reason why, behind what it would do
 */
export function addLockOut(
  errors: FieldErrors,
  members: JsonFields,
  reason = 'let another admin do this',
): void {
  for (const key of NEEDED) {
    const member = members.get(key);
    if (member && member.value !== true) addError(errors, key, `would lock you out: ${reason}`);
  }
}
