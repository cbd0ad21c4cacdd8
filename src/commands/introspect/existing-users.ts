// Whether an existing table can be the user model of the service.
import { checkUserModel, otherUserModel } from '../../resources/check/check-across-resources.ts';
import type { Resource } from '../../resources/definition/resource.ts';

/** The user model of a service without the setting USER_MODEL. */
const USER_MODEL = 'user';

/**
 * Why the service cannot use a table named `user` for its users. Undefined if it can, or if there is no such table.
 * @param names the tables that were read, also those that are not served
 */
export function userRemark(resources: readonly Resource[], names: readonly string[]): string | undefined {
  const isServed = resources.some(({ model }) => model === USER_MODEL);
  if (!isServed && !names.includes(USER_MODEL)) return undefined;
  if (!isServed)
    return `${USER_MODEL} cannot be the user model, because it is not served. ${otherUserModel(USER_MODEL)}.`;
  const faults = checkUserModel(resources, '', USER_MODEL).map(({ key, text }) => `${key} ${text}`);
  return faults.length === 0 ? undefined : `${USER_MODEL} cannot be the user model: ${faults.join('; ')}.`;
}
