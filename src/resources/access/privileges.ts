// The database privileges that the service needs on each table, and those that it revokes on its history.
import type { Settings } from '../../config.ts';
import type { CatalogTable } from '../../db/schema/catalog.ts';
import { mayChangeStatement, revokeChanges } from '../../db/schema/grants.ts';
import { tableOf } from '../../db/schema/model-definition.ts';
import type { Model } from '../../db/schema/model.ts';
import type { Privilege } from '../../db/schema/missing-privileges.ts';
import {
  HISTORY,
  REQUEST_KEY,
  SECOND_FACTOR,
  SESSION,
  SYSTEM_TABLES,
  TOKEN,
  VIEW,
} from '../definition/system-tables.ts';
import { ACTIONS, type AdminAction, type Method, type Resource } from '../definition/resource.ts';
import { hasLogins, type ResourceView, type ResourceViews } from './resource-view.ts';

/** Makes the history append-only: the service's role revokes its own right to change it. Superusers keep every right. */
export const REVOKE_HISTORY_CHANGES = revokeChanges(HISTORY.model);

/**
 * Asks whether the service's role owns the history and may still change it. This is so for a new table, and
 * after a restore, because a dump does not hold the owner's own revoked rights.
 */
export const MAY_CHANGE_HISTORY = mayChangeStatement(HISTORY.model);

/** The privileges that each method needs. DELETE locks the record first, for which PostgreSQL requires UPDATE. */
const NEEDS: Readonly<Record<Method, readonly Privilege[]>> = {
  GET: ['SELECT'],
  POST: ['SELECT', 'INSERT'],
  PUT: ['SELECT', 'UPDATE'],
  DELETE: ['SELECT', 'UPDATE', 'DELETE'],
};
/** Whether the service's role has the privileges for the action of the admin area. Pages do not offer other actions. */
export const isGranted = (action: AdminAction, table: CatalogTable | undefined): boolean =>
  NEEDS[METHOD_OF[action]].every((privilege) => table?.privileges.includes(privilege));

const METHOD_OF: Readonly<Record<AdminAction, Method>> = { add: 'POST', change: 'PUT', delete: 'DELETE' };

/**
 * The actions that the registry allows in the admin area. For views these depend on the methods, as PostgreSQL may refuse the others.
 * So does adding to a table with a required column that the registry lacks.
 */
export const allowedActions = (
  { admin, methods }: Resource,
  { isTable, unfilled }: Pick<Model, 'isTable' | 'unfilled'>,
): readonly AdminAction[] =>
  (admin?.allow ?? ACTIONS).filter((action) => {
    const isUnfilled = action === 'add' && unfilled.length > 0 && methods !== undefined;
    return (isTable && !isUnfilled) || methods?.includes(METHOD_OF[action]);
  });

/** Whether admins can add records in the admin area. */
export const mayAdminsAdd = (
  resource: Resource,
  served: ResourceView | undefined,
  table: CatalogTable | undefined,
): boolean =>
  served !== undefined &&
  resource.admin?.hidden !== true &&
  allowedActions(resource, served.model).includes('add') &&
  isGranted('add', table);

const ORDER: readonly Privilege[] = ['SELECT', 'INSERT', 'UPDATE', 'DELETE'];

/** The privileges that the API needs on a resource's table. Without them the service does not start. */
export function apiPrivileges({ hasCallers, methods }: ResourceView): readonly Privilege[] {
  const used = [...methods].filter(hasCallers);
  return sorted(['SELECT', ...used.flatMap((method) => NEEDS[method])]);
}

/** The privileges on a system table. The history is append-only, and a secret never changes. */
export const systemPrivileges = ({ model }: Resource): readonly Privilege[] =>
  DELETES_FROM.includes(model) ? sorted([...NEEDS.POST, ...NEEDS.DELETE]) : NEEDS.POST;

const DELETES_FROM: readonly string[] = [SESSION, TOKEN, REQUEST_KEY, SECOND_FACTOR, VIEW].map(
  ({ model }) => model,
);

const sorted = (privileges: readonly Privilege[]): Privilege[] =>
  ORDER.filter((one) => privileges.includes(one));

/** The privileges that the admin area needs on a resource's table, and that `vitrine user` needs on the users' table. */
function adminPrivileges(
  resource: Resource,
  { model: served }: ResourceView,
  { userModel }: Pick<Settings, 'userModel'>,
) {
  const { model, admin = {} } = resource;
  const actions = admin.hidden === true ? [] : allowedActions(resource, served);
  // Admins change their own passwords, and `vitrine user add` adds users, even where the registry allows neither on pages.
  const methods = [
    ...actions.map((action) => METHOD_OF[action]),
    ...(model === userModel && served.isTable ? (['POST', 'PUT'] as const) : []),
  ];
  return methods.flatMap((method) => NEEDS[method]);
}

/** All privileges that the service may need, by table name, system tables included. */
export function allPrivileges(
  resources: readonly Resource[],
  served: ResourceViews,
  settings: Pick<Settings, 'userModel'>,
): ReadonlyMap<string, readonly Privilege[]> {
  const hasUsers = hasLogins(resources, settings);
  const privileges = new Map<string, readonly Privilege[]>();
  for (const resource of resources) {
    const one = served.get(resource.model);
    const forAdmins = hasUsers && one ? adminPrivileges(resource, one, settings) : [];
    const table = tableOf(resource);
    const others = privileges.get(table) ?? [];
    if (one) privileges.set(table, sorted([...others, ...apiPrivileges(one), ...forAdmins]));
  }
  if (hasUsers)
    for (const definition of SYSTEM_TABLES) privileges.set(tableOf(definition), systemPrivileges(definition));
  return privileges;
}
