import type { Settings } from '../../config.ts';
import { identifier } from '../../db/fragment.ts';
import { tableOf } from '../../db/schema/model-definition.ts';
import type { Privilege } from '../../db/schema/schema-differences.ts';
import { HISTORY, SYSTEM_TABLES } from '../definition/system-tables.ts';
import type { AdminAction, Method, Resource } from '../definition/resource.ts';
import { hasLogins, type ServedResource } from './served-resource.ts';

/** What is written down stays: the service's own role gives up the right to change it. A superuser has every right anyway. */
export const APPEND_ONLY = `revoke update, delete, truncate on ${identifier(HISTORY.model).text.join('')} from current_user`;

/**
 * Whether the service's role owns the history and has not given that right up yet: the table is new, or was restored from a
 * backup, which has no memory of the owner's own rights. Gives one boolean.
 */
export const MAY_GIVE_UP = `select exists (select from pg_class c cross join aclexplode(coalesce(c.relacl, acldefault('r', c.relowner))) a
  where c.oid = to_regclass('${identifier(HISTORY.model).text.join('')}') and pg_get_userbyid(c.relowner) = current_user
    and a.grantee = c.relowner and a.privilege_type in ('UPDATE', 'DELETE', 'TRUNCATE'))`;

/** What the service does with each table. A record is locked before it is deleted, which PostgreSQL counts as UPDATE. */
const NEEDS: Readonly<Record<Method, readonly Privilege[]>> = {
  GET: ['SELECT'],
  POST: ['SELECT', 'INSERT'],
  PUT: ['SELECT', 'UPDATE'],
  DELETE: ['SELECT', 'UPDATE', 'DELETE'],
};
/** What an action of the admin area needs of a table, beside looking at it. */
export const actionPrivileges = (action: AdminAction): readonly Privilege[] => NEEDS[METHOD_OF[action]];

const METHOD_OF: Readonly<Record<AdminAction, Method>> = { add: 'POST', change: 'PUT', delete: 'DELETE' };
const ORDER: readonly Privilege[] = ['SELECT', 'INSERT', 'UPDATE', 'DELETE'];

/** What the API does with the table of a resource: without these privileges the service does not start. */
export function apiPrivileges({ access, methods }: ServedResource): readonly Privilege[] {
  const used = [...methods].filter((method) => method === 'GET' || access !== 'default');
  return sorted(['SELECT', ...used.flatMap((method) => NEEDS[method])]);
}

/** What the service does with its own tables: the history only grows. */
export const systemPrivileges = ({ model }: Resource): readonly Privilege[] =>
  model === HISTORY.model ? NEEDS.POST : sorted([...NEEDS.POST, ...NEEDS.DELETE]);

const sorted = (privileges: readonly Privilege[]): Privilege[] =>
  ORDER.filter((one) => privileges.includes(one));

/** What the admin area does with the table of a resource, and `vitrine user` with that of the users. */
function peoplePrivileges({ model, admin = {} }: Resource, { userModel }: Pick<Settings, 'userModel'>) {
  const actions = admin.hidden === true ? [] : (admin.allow ?? (['add', 'change', 'delete'] as const));
  // Admins set their own passwords, and `vitrine user add` makes users, whatever the registry allows on pages.
  const methods = [
    ...actions.map((action) => METHOD_OF[action]),
    ...(model === userModel ? (['POST', 'PUT'] as const) : []),
  ];
  return methods.flatMap((method) => NEEDS[method]);
}

/** Everything that the service may come to do with each table, by its name, its own tables among them. */
export function allPrivileges(
  resources: readonly Resource[],
  served: ReadonlyMap<string, ServedResource>,
  settings: Pick<Settings, 'userModel'>,
): ReadonlyMap<string, readonly Privilege[]> {
  const hasUsers = hasLogins(resources, settings);
  const privileges = new Map<string, readonly Privilege[]>();
  for (const resource of resources) {
    const one = served.get(resource.model);
    const forPeople = hasUsers ? peoplePrivileges(resource, settings) : [];
    if (one) privileges.set(tableOf(resource), sorted([...apiPrivileges(one), ...forPeople]));
  }
  if (hasUsers) for (const own of SYSTEM_TABLES) privileges.set(tableOf(own), systemPrivileges(own));
  return privileges;
}
