// Who asks. The only place that compares access levels, roles and scopes.
import { randomBytes } from 'node:crypto';
import { ACCESS_LEVELS, type AccessLevel, type Level } from '../../config.ts';
import type { Identity } from '../../db/session-state.ts';
import { Problem } from '../../errors.ts';
import { messageOf } from '../../messages.ts';
import type { Author } from '../../query/statements/history-sql.ts';
import type { Method } from '../definition/resource.ts';

/** The caller's own record, for `$me` in the rules of rows: the key, or with a name the value of a column. */
export type Me = (column?: string) => string | null;

/** Without credentials, no record is the caller's. */
export const NO_ONE: Me = () => null;

/** What a token may do of what its user may do: undefined stands for all models, or all methods. */
export interface Scope {
  readonly models: readonly string[] | undefined;
  readonly methods: readonly Method[] | undefined;
}

/**
 * The authenticated user of a request, as the database holds it. It has a precondition when an earlier request authenticated the
 * caller: a condition that the writing statement checks again (see CallerChanged).
 */
export interface Caller extends Author {
  readonly admin: boolean;
  /** The roles of the registry that the user has, in alphabetical order. */
  readonly roles: readonly string[];
  /** The columns that the rules of rows name. */
  readonly values?: ReadonlyMap<string, string | null> | undefined;
  /** The roles and these columns as they are stored. */
  readonly facts?: string | undefined;
  /** Only in the admin area, of a user with a second factor: whether this session gave a code lately, or it is due. */
  readonly secondFactor?: 'confirmed' | 'due' | undefined;
  /** Undefined for a caller who has sent a password, and in the admin area, which no token opens. */
  readonly scope?: Scope | undefined;
}

/** The caller with one batch for all changes of an operation. */
export const inBatch = (caller: Caller, batch = randomBytes(9).toString('base64url')): Caller => ({
  ...caller,
  origin: { ...caller.origin, batch: caller.origin?.batch ?? batch },
});

/** The caller's row has changed since the authentication, so the statement wrote nothing. */
export class CallerChanged extends Error {}

/** Who asks for a resource: a caller of the API, or one in the admin area. */
export interface Access {
  /** What an access sees is resolved once for each key. Only `me` differs between accesses of one key. */
  readonly key: string;
  readonly surface: 'api' | 'admin';
  /** The highest level that the caller meets; `default` without credentials. */
  readonly level: AccessLevel;
  readonly roles: readonly string[];
  /** Only of a token. */
  readonly scope?: Scope | undefined;
  /** Undefined without credentials. */
  readonly me?: Me | undefined;
}

const ofApi = (level: AccessLevel): Access => ({ key: level, surface: 'api', level, roles: [] });

export const ANYONE = ofApi('default');
export const USER = ofApi('user');
export const ADMIN = ofApi('admin');
/** The admin area as admins see it: the levels and owners of the API do not apply. */
export const ADMIN_AREA: Access = { key: 'admin area', surface: 'admin', level: 'admin', roles: [] };

type User = Omit<Caller, 'name'>;

const meOf =
  ({ id, values }: User): Me =>
  (column) =>
    column === undefined ? id : (values?.get(column) ?? null);

const withRoles = (access: Access, roles: readonly string[], me?: Me): Access => ({
  ...access,
  key: roles.length === 0 ? access.key : `${access.key}:${roles.join()}`,
  roles,
  me,
});

/** Callers remembered from earlier requests have the same access, and so the same views. */
const known = new WeakMap<User, Access>();

/** The access of an API request. @param caller undefined without credentials */
export function accessOf(caller: User | undefined): Access {
  if (!caller) return ANYONE;
  const access = known.get(caller) ?? resolveAccess(caller);
  known.set(caller, access);
  return access;
}

function resolveAccess(caller: User): Access {
  const { admin, roles, scope } = caller;
  const access = withRoles(admin ? ADMIN : USER, roles, meOf(caller));
  if (!scope) return access;
  const { models, methods } = scope;
  return { ...access, key: `${access.key} token ${models?.join() ?? '*'} ${methods?.join() ?? '*'}`, scope };
}

/** Whether a scope allows a method on a model. */
export const isInScope = ({ models, methods }: Scope, model: string, method: Method | undefined): boolean =>
  (models?.includes(model) ?? true) &&
  (methods === undefined || (method !== undefined && methods.includes(method)));

/** Whose levels count when an access reads a model: outside of its scope, a token may what anyone may. */
export const readerOf = (access: Access, model: string): Access =>
  access.scope === undefined || isInScope(access.scope, model, 'GET') ? access : ANYONE;

/** The admin area for those who are not admins. */
const AREA: Access = { key: 'area', surface: 'admin', level: 'user', roles: [] };

/** The access of a request to the admin area. Those who are not admins have only what their roles grant. */
export const areaAccessOf = (caller: User): Access =>
  caller.admin ? { ...ADMIN_AREA, me: meOf(caller) } : withRoles(AREA, caller.roles, meOf(caller));

/** What the same callers see in the API. */
export const inApi = ({ level, roles }: Access): Access => withRoles(ofApi(level), roles);

const BUILT_IN = new Map<string, Access>([
  ['anyone', ANYONE],
  ['user', USER],
  ['admin', ADMIN],
]);

/** The access of those who have a role, and no other that is not built in. */
export const ofRole = (role: string): Access => BUILT_IN.get(role) ?? withRoles(USER, [role]);

/** The access of the users of a role to the admin area. */
export const ofRoleInArea = (role: string): Access => withRoles(AREA, [role]);

/** Whether callers may enter the admin area. @param admitted the roles whose users may, besides admins */
export const mayEnter = (
  { admin, roles }: Pick<Caller, 'admin' | 'roles'>,
  admitted: readonly string[],
): boolean => admin || roles.some((role) => admitted.includes(role));

/** Who the caller is for PostgreSQL. @param request the id of the request */
export const identityOf = ({ me, roles, level }: Access, request: string): Identity => ({
  user: me?.() ?? '',
  roles: isForAdmins(level) ? ['admin', ...roles] : roles,
  request,
});

export const meets = ({ level, roles }: Access, needed: Level): boolean =>
  typeof needed === 'string'
    ? ACCESS_LEVELS.indexOf(needed) <= ACCESS_LEVELS.indexOf(level)
    : isForAdmins(level) || needed.some((role) => roles.includes(role));

/** Whether reads at this level need no credentials. No one may write at it. */
export const isOpen = (level: Level): boolean => meets(ANYONE, level);

/** Whether every admin meets the level, and no one else. */
export const isForAdmins = (level: Level): boolean => typeof level === 'string' && !meets(USER, level);

/** The problem for a caller who does not meet a level. @param forAdmins what it says if only admins do */
export const forbidden = (
  level: Level,
  forAdmins: 'adminsOnly' | 'adminsWrite',
  { scope }: Pick<Access, 'scope'>,
): Problem =>
  new Problem(403, messageOf(scope ? 'scopeForbids' : isForAdmins(level) ? forAdmins : 'rolesForbid'));

/** @throws Problem 403 for a token, where only a password will do */
export function assertPassword({ scope }: Pick<Caller, 'scope'>): void {
  if (scope) throw new Problem(403, messageOf('noTokens'));
}

/** The level that everyone meets who meets this one: roles are those of users. */
export const levelOf = (level: Level): AccessLevel => (typeof level === 'string' ? level : 'user');

/** The lowest access that meets a level. */
export const lowestOf = (level: Level): Access =>
  typeof level === 'string' ? ofApi(level) : level[0] === undefined ? ADMIN : ofRole(level[0]);

/** The built-in roles of an access and those of its own, whose grants it has. */
export const rolesOf = ({ surface, level, roles }: Access): readonly string[] =>
  surface === 'admin'
    ? roles
    : ['anyone', ...(isOpen(level) ? [] : ['user']), ...(isForAdmins(level) ? ['admin'] : []), ...roles];
