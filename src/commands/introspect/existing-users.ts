// Whether an existing table can be the user model of the service.
import { LOGIN_COLUMNS } from '../../resources/serve/served-resource.ts';
import type { IntrospectedResource } from './introspection.ts';
import { listNames, uniqueName } from './model-names.ts';

/** The user model of a service without the setting USER_MODEL. */
const USER_MODEL = 'user';

/** Why the resource cannot be the user model, and whether only the type of its password is the reason. */
function faultsOf({ columns, primaryKey }: IntrospectedResource): { faults: string[]; isUsable: boolean } {
  const definitions = new Map(columns.map(({ name, definition }) => [name, definition]));
  const names = Object.keys(LOGIN_COLUMNS);
  const missing = names.filter((name) => !definitions.has(name));
  const mistyped = names.filter((name) => {
    const type = definitions.get(name)?.['type'];
    return typeof type === 'string' && !LOGIN_COLUMNS[name]?.includes(type);
  });
  const username = definitions.get('username');
  const faults = [
    ...(primaryKey && 'columns' in primaryKey ? ['its key is not one plain column'] : []),
    ...(missing.length > 0 ? [`besides its key, it has no ${listNames(missing)}`] : []),
    ...mistyped.map((name) => `${name} is not of the type ${LOGIN_COLUMNS[name]?.join(' or ')}`),
    ...(username && username['unique'] !== true ? ['username is not unique'] : []),
  ];
  return { faults, isUsable: faults.length === 1 && mistyped[0] === 'password' };
}

/**
 * Why the service cannot use a table named `user` for its users, and how it gets users then. Undefined if it can, or if there is
 * no such table.
 * @param names the tables that were read, also those that are not served
 */
export function userRemark(
  resources: readonly IntrospectedResource[],
  names: readonly string[],
): string | undefined {
  const found =
    resources.find(({ model }) => model === USER_MODEL) ??
    resources.find(({ table }) => table === USER_MODEL);
  if (!found && !names.includes(USER_MODEL)) return undefined;
  const { faults, isUsable } = found ? faultsOf(found) : { faults: ['it is not served'], isUsable: false };
  if (faults.length === 0) return undefined;
  const other = uniqueName('login', (name) =>
    [...resources.map(({ model }) => model), ...names].includes(name),
  );
  const columns = listNames(Object.keys(LOGIN_COLUMNS));
  const addition = `add a model ${other} with the columns ${columns}, and set USER_MODEL=${other}`;
  return isUsable
    ? `${found?.table}: if its column password has argon2 hashes, give it the type 'password', and the service can use this table for its users. Otherwise, ${addition}.`
    : `${found?.table ?? USER_MODEL} cannot be the user model: ${faults.join('; ')}. To get users, ${addition}.`;
}
