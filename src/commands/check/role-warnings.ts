// The warnings of `vitrine check` about roles that do less than they seem to.
import type { Model } from '../../db/schema/model.ts';
import { ofRole, ofRoleInArea, type Access } from '../../resources/access/access.ts';
import type { Views } from '../../resources/access/resource-view.ts';
import {
  rightsOf,
  userFactsOf,
  type AccessSettings,
  type Grant,
  type Rights,
} from '../../resources/access/rights.ts';
import { listsOf } from '../../resources/check/check-roles.ts';
import type { Resource } from '../../resources/definition/resource.ts';
import {
  ALL_MODELS,
  GRANTED,
  namedRoles,
  type Action,
  type Grants,
  type Roles,
} from '../../resources/definition/roles.ts';
import type { Warning } from './risk-warnings.ts';

interface RoleInput {
  readonly resources: readonly Resource[];
  readonly models: ReadonlyMap<string, Model>;
  readonly views: Views;
  readonly settings: AccessSettings;
}

/** The actions of the API. */
const IN_API: readonly Action[] = ['read', 'create', 'update', 'delete'];

/** The grants of a role: the model and the action of each. */
const grantsOf = (roles: Roles, role: string): [model: string, action: Action][] =>
  Object.entries(roles[role]?.grants ?? {}).flatMap(([model, grants = {}]) =>
    GRANTED.filter((action) => grants[action] !== undefined && grants[action] !== false).map(
      (action): [string, Action] => [model, action],
    ),
  );

function withoutGrant(roles: Roles, role: string, model: string, action: Action): Roles {
  const { grants = {}, ...rest } = roles[role] ?? {};
  const others: Grants = { ...grants[model], [action]: false };
  return { ...roles, [role]: { ...rest, grants: { ...grants, [model]: others } } };
}

/** Whether a grant contains another one. Rules with different texts are different. */
const contains = (grant: Grant, other: Grant): boolean =>
  [...other.columns].every((column) => grant.columns.has(column)) &&
  (grant.rules.length === 0 || JSON.stringify(grant.rules) === JSON.stringify(other.rules));

const containsAll = (rights: Rights, others: Rights, actions: readonly Action[]): boolean =>
  actions.every((action) =>
    others[action].every((other) => rights[action].some((grant) => contains(grant, other))),
  );

/** The grants without which the users of the role may do the same. */
function idleGrants(role: string, { resources, models, settings }: RoleInput): [string, Action][] {
  const { roles = {} } = settings;
  // A user can have a role that enters the admin area besides this one.
  const hasArea = userFactsOf(resources, roles).admitted.length > 0 && namedRoles(roles).includes(role);
  const accesses: [Access, readonly Action[]][] = [
    [ofRole(role), IN_API],
    ...(hasArea ? [[ofRoleInArea(role), GRANTED] as [Access, readonly Action[]]] : []),
  ];
  return grantsOf(roles, role).filter(([model, action]) => {
    const others = { ...settings, roles: withoutGrant(roles, role, model, action) };
    return resources.every((resource) => {
      const found = models.get(resource.model);
      if (!found || (model !== ALL_MODELS && model !== resource.model)) return true;
      return accesses.every(([access, actions]) =>
        containsAll(
          rightsOf(access, resource, found, others),
          rightsOf(access, resource, found, settings),
          actions,
        ),
      );
    });
  });
}

/** Roles that give their users nothing, and grants that add nothing to what the users of a role may do anyway. */
export function roleWarnings(input: RoleInput): Warning[] {
  const { resources, views, settings } = input;
  const { roles = {} } = settings;
  const { admitted } = userFactsOf(resources, roles);
  const inLists = new Set(
    resources.flatMap((resource) =>
      listsOf(resource).flatMap(([, level]) => (typeof level === 'object' ? level : [])),
    ),
  );
  const empty = namedRoles(roles).flatMap((role): Warning[] => {
    if (admitted.includes(role)) {
      const area = views(ofRoleInArea(role));
      if (resources.some(({ model }) => area.get(model)?.isReadable === true)) return [];
      const text = `role ${role}: admin: true lets its users enter the admin area, where they see nothing: grant read of some models`;
      return [{ kind: 'empty-admin-area', text }];
    }
    if (grantsOf(roles, role).length > 0 || inLists.has(role)) return [];
    const text = `role ${role}: it has no grants, and no list of roles names it, so its users may do nothing more than others`;
    return [{ kind: 'empty-role', text }];
  });
  const idle = Object.keys(roles).flatMap((role) =>
    idleGrants(role, input).map(([model, action]): Warning => {
      const text = `role ${role}: grants.${model}.${action} adds nothing: its users may do this anyway, and a grant takes nothing away`;
      return { kind: 'idle-grant', text };
    }),
  );
  return [...empty, ...idle];
}
