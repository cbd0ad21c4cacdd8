// What an access may do with a resource: the grants of its roles, of which the rules of the resource are some.
import type { Level, Settings } from '../../config.ts';
import type { Fragment } from '../../db/fragment.ts';
import { partsOf, recordColumns, type Column, type Model } from '../../db/schema/model.ts';
import {
  columnsOf,
  columnsOfMe,
  namesMe,
  ruleSql,
  type ReadRule,
  type RowRule,
} from '../../query/row-rules.ts';
import { METHODS, type Method, type Resource } from '../definition/resource.ts';
import {
  ALL_MODELS,
  GRANTED,
  namedRoles,
  type Action,
  type GrantLimits,
  type Roles,
} from '../definition/roles.ts';
import type { UserFacts } from '../../query/statements/user-statements.ts';
import { HISTORY, SHOWN_SYSTEM_TABLES } from '../definition/system-tables.ts';
import { ANYONE, isForAdmins, isInScope, isOpen, meets, rolesOf, type Access, type Me } from './access.ts';

/** One action on some records of a resource. */
export interface Grant {
  /** Of `read`: the columns that exist for the caller. Of `create` and `update`: those that may be set. */
  readonly columns: ReadonlySet<Column>;
  /** Of the rules of a resource for writes: the columns in the answer, which they do not limit. Otherwise those of `columns`. */
  readonly shown?: ReadonlySet<Column>;
  /** The records match one text of each rule; all of them without rules. */
  readonly rules: readonly (readonly string[])[];
}

/** What an access may do: an action without grants is not allowed. */
export type Rights = Readonly<Record<Action, readonly Grant[]>>;

/** What decides who may do what, besides the resources. */
export interface AccessSettings extends Pick<Settings, 'access' | 'read' | 'userModel'> {
  /** The columns of the user model that rules about rows name: whoever sets them decides which rows a user sees. */
  readonly ofRules?: readonly string[];
  readonly roles?: Roles | undefined;
}

/** The methods of the API that do an action. */
const METHOD_OF: { readonly [A in Action]?: Method } = {
  read: 'GET',
  create: 'POST',
  update: 'PUT',
  delete: 'DELETE',
};
export const methodOf = (action: Action): Method | undefined => METHOD_OF[action];

const WRITES = { create: 'POST', update: 'PUT', delete: 'DELETE' } as const;

export const readLevelOf = ({ read }: Resource, settings: Pick<Settings, 'read'>): Level =>
  read ?? settings.read;

/** Who may write with a method. A method that the registry leaves out of an object is for no one. */
export function writeLevelOf(
  { access }: Resource,
  method: Exclude<Method, 'GET'>,
  settings: Pick<Settings, 'access'>,
): Level {
  if (access === undefined) return settings.access;
  return typeof access === 'object' && !Array.isArray(access)
    ? ((access as Partial<Record<Method, Level>>)[method] ?? 'default')
    : (access as Level);
}

export const methodsOf = ({ methods }: Resource, { isTable }: Model): readonly Method[] =>
  methods ?? (isTable ? METHODS : ['GET']);

/** The texts of a rule about rows. */
export const listOf = (rows: string | readonly string[] = []): readonly string[] =>
  typeof rows === 'string' ? [rows] : rows;

/**
 * The columns of the user model that only a grant that names them allows to set, and a token never: each of them would give its
 * holder all rights.
 */
export const POWERFUL: readonly string[] = ['password', 'admin', 'role'];

/** Where a grant ends; undefined if it allows nothing. */
export const limitsOf = (grant: boolean | GrantLimits | undefined): GrantLimits | undefined =>
  grant === undefined || grant === false ? undefined : grant === true ? {} : grant;

/** What the roles of the registry grant for a model. */
export function grantsFor(
  role: string,
  model: string,
  roles: Roles,
): readonly (readonly [Action, GrantLimits])[] {
  // The history has no grants of its own: it shows what is granted of the other models. Events are for admins.
  return (SHOWN_SYSTEM_TABLES.some((one) => one.model === model) ? [] : [ALL_MODELS, model]).flatMap(
    (name) => {
      const grants = roles[role]?.grants?.[name] ?? {};
      return GRANTED.flatMap((action) => {
        const limits = limitsOf(grants[action]);
        return limits ? [[action, limits] as const] : [];
      });
    },
  );
}

/** The columns that the admin area shows: all but passwords and `admin.exclude`; none of a hidden resource. */
export function adminColumns({ admin }: Resource, model: Model): readonly Column[] {
  if (admin?.hidden === true) return [];
  const isShown = ({ name, isPassword }: Column): boolean => !isPassword && !admin?.exclude?.includes(name);
  return recordColumns(model).filter(isShown);
}

const levelOf = ({ columns }: Resource, { name }: Column, action: 'read' | 'write'): Level =>
  (Object.hasOwn(columns, name) ? columns[name] : undefined)?.[action] ?? 'default';

/** The columns whose level the access meets, without those that the API excludes. */
export const shownColumns = (access: Access, definition: Resource, all: readonly Column[]): Column[] =>
  all.filter(
    (column) =>
      definition.exclude?.includes(column.name) !== true &&
      meets(access, levelOf(definition, column, 'read')),
  );

/** Whether an access has something of the history. */
const seesHistory = (access: Access, roles: Roles): boolean =>
  rolesOf(access).some((role) =>
    Object.values(roles[role]?.grants ?? {}).some((grants) => limitsOf(grants?.history)),
  );

/** The same grant for callers who are not known: the rules that name the caller match no record. */
export const withoutMe = ({ rules, ...grant }: Grant): Grant => ({
  ...grant,
  rules: rules.map((texts) => texts.filter((text) => !namesMe(text))),
});

/**
 * What callers may do. A token may do what its user may, in its scope. Outside of it, the token may do what anyone may, but nothing with
 * `identity`, because PostgreSQL would know its user.
 */
export function rightsOf(
  access: Access,
  definition: Resource,
  model: Model,
  settings: AccessSettings,
): Rights {
  const { scope } = access;
  const rights = rightsOfUser(access, definition, model, settings);
  if (!scope) return rights;
  const ofAnyone = rightsOfUser(ANYONE, definition, model, settings);
  const isHidden = definition.identity === true;
  const isUsers = definition.model === settings.userModel;
  const withoutPowers = (grant: Grant): Grant => ({
    ...grant,
    columns: new Set([...grant.columns].filter(({ name }) => !POWERFUL.includes(name))),
  });
  return Object.fromEntries(
    GRANTED.map((action) => {
      const isAllowed = isInScope(scope, definition.model, METHOD_OF[action]);
      const allowed = isAllowed ? rights[action] : isHidden ? [] : ofAnyone[action].map(withoutMe);
      const isSet = action === 'create' || action === 'update';
      return [action, isUsers && isSet ? allowed.map(withoutPowers) : allowed];
    }),
  ) as unknown as Rights;
}

/**
 * The grants that decide which records exist, with which columns. For a token that may write and not read, they are those of its user:
 * what does not exist for the user does not exist for the token.
 */
export const existingOf = (
  rights: Rights,
  access: Access,
  definition: Resource,
  model: Model,
  settings: AccessSettings,
): readonly Grant[] =>
  rights.read.length > 0 || !access.scope
    ? rights.read
    : rightsOfUser({ ...access, scope: undefined }, definition, model, settings).read;

/** In the admin area, levels for all users and the rules of the API's methods do not apply. */
function rightsOfUser(access: Access, definition: Resource, model: Model, settings: AccessSettings): Rights {
  const { roles = {} } = settings;
  const isArea = access.surface === 'admin';
  const all = isArea ? adminColumns(definition, model) : recordColumns(model);
  const key = [model.primaryKey, ...partsOf(model.primaryKey)];
  const methods = isArea ? METHODS : methodsOf(definition, model);
  /** Whether the access meets the level of an action: in the admin area, only by a role. */
  const meetsOf = (level: Level): boolean => (!isArea || typeof level !== 'string') && meets(access, level);
  const { owner, rows = {} } = definition;
  const read = shownColumns(access, definition, all);
  const settable = recordColumns(model).filter((column) =>
    meets(access, levelOf(definition, column, 'write')),
  );
  const isBound = !isForAdmins(access.level);
  const rightsByAction = Object.fromEntries(GRANTED.map((action) => [action, [] as Grant[]])) as Record<
    Action,
    Grant[]
  >;
  if (methods.includes('GET') && meetsOf(readLevelOf(definition, settings)))
    rightsByAction.read.push({
      columns: new Set(read),
      rules: isBound && rows.read !== undefined ? [listOf(rows.read)] : [],
    });
  for (const action of ['create', 'update', 'delete'] as const) {
    const method = WRITES[action];
    const level = writeLevelOf(definition, method, settings);
    if (!methods.includes(method) || isOpen(level) || !meetsOf(level)) continue;
    rightsByAction[action].push({
      columns: new Set(settable.filter((column) => column.name !== owner)),
      shown: new Set(read),
      rules: [
        ...(owner !== undefined && action !== 'create' ? [[`${owner}=$me`]] : []),
        ...(isBound && rows.write !== undefined ? [listOf(rows.write)] : []),
      ],
    });
  }
  if (definition.model === HISTORY.model && seesHistory(access, roles))
    rightsByAction.read.push({ columns: new Set(read), rules: [] });
  for (const role of rolesOf(access))
    for (const [action, limits] of grantsFor(role, definition.model, roles)) {
      const method = METHOD_OF[action];
      if (method && !methods.includes(method)) continue;
      const grant = grantOf(action, limits, { all, read, settable }, definition, settings);
      // Every record has its key.
      const columns = action === 'read' ? [...key, ...grant.columns] : grant.columns;
      rightsByAction[action].push({ ...grant, columns: new Set(columns) });
    }
  return rightsByAction;
}

function grantOf(
  action: Action,
  { columns, exclude = [], rows }: GrantLimits,
  own: {
    readonly all: readonly Column[];
    readonly read: readonly Column[];
    readonly settable: readonly Column[];
  },
  { model }: Resource,
  { userModel, ofRules = [] }: AccessSettings,
): Grant {
  const isSet = action === 'create' || action === 'update';
  const isImplied = ({ name, key }: Column): boolean =>
    !isSet || model !== userModel || ![...POWERFUL, ...ofRules].some((one) => one === name || one === key);
  const chosen = columns
    ? own.all.filter((column) => columns.includes(column.name))
    : (isSet ? own.settable : own.read).filter(isImplied);
  return {
    columns: new Set(chosen.filter(({ name }) => !exclude.includes(name))),
    rules: rows === undefined ? [] : [listOf(rows)],
  };
}

/** The rights of admins in the admin area. @param shown the columns that it shows */
export function allRights(model: Model, shown: readonly Column[]): Rights {
  const [seen, set] = [shown, recordColumns(model)].map((columns) => [
    { columns: new Set(columns), rules: [] },
  ]);
  return Object.fromEntries(
    GRANTED.map((action) => [action, action === 'create' || action === 'update' ? set : seen]),
  ) as unknown as Rights;
}

type ParseRule = (text: string) => RowRule;

/** The rule of grants, of which one must allow a record; undefined if one of them allows all. */
function ruleOf(grants: readonly Grant[], parse: ParseRule): RowRule | undefined {
  if (grants.some(({ rules }) => rules.length === 0)) return undefined;
  return {
    anyOf: grants.map(({ rules }) => ({ allOf: rules.map((texts) => ({ anyOf: texts.map(parse) })) })),
  };
}

/** @returns undefined if all records exist, with all columns */
export function readRuleOf(
  grants: readonly Grant[],
  output: readonly Column[],
  parse: ParseRule,
): ReadRule | undefined {
  if (grants.length === 0) return undefined;
  const columns = new Map<Column, RowRule>();
  for (const column of output) {
    const own = grants.filter((grant) => grant.columns.has(column));
    const rule = own.length < grants.length ? ruleOf(own, parse) : undefined;
    if (rule && own.length > 0) columns.set(column, rule);
  }
  const where = ruleOf(grants, parse);
  return where || columns.size > 0 ? { where, columns } : undefined;
}

type WriteAction = 'create' | 'update' | 'delete';

/** What an access may do with the records of a resource. */
export interface Permissions {
  readonly rights: Rights;
  /** What it may do at least with some records. */
  readonly allows: ReadonlySet<Action>;
  readonly isReadable: boolean;
  /** The columns that it may set. */
  readonly settable: { readonly create: ReadonlySet<Column>; readonly update: ReadonlySet<Column> };
  /**
   * Which records of alias ROOT it may write; undefined for all of them.
   * @param changed for an update: the columns that it changes
   */
  readonly allowed: (action: 'update' | 'delete', changed?: readonly Column[]) => Fragment | undefined;
  /** What a record of alias ROOT must be after the write; undefined if it can be anything. */
  readonly required: (action: 'create' | 'update', changed: readonly Column[]) => Fragment | undefined;
}

const isSameList = <T>(one: readonly T[], other: readonly T[]): boolean =>
  one.length === other.length && one.every((item, index) => item === other[index]);

interface WriteRules {
  readonly rules: readonly RowRule[];
  readonly atRisk: readonly RowRule[];
}

/** What an access may do, alike for all callers and for one of them. */
export function permissionsOf(
  rights: Rights,
  {
    model,
    owner,
    readonly,
  }: { readonly model: Model; readonly owner: Column | undefined; readonly readonly: ReadonlySet<Column> },
  parse: ParseRule,
) {
  const settableBy = (grants: readonly Grant[]): ReadonlySet<Column> =>
    new Set(recordColumns(model).filter((column) => grants.some((grant) => grant.columns.has(column))));
  const settable = { create: settableBy(rights.create), update: settableBy(rights.update) };
  /** Each column that a write sets needs a grant for the column and the record. The service itself may set the owner. */
  const mayChange = (column: Column): boolean => settable.update.has(column) && !readonly.has(column);
  /** The rules of a write, and those that it may break: a rule about columns that it cannot change holds as before. */
  const withRisk = (action: WriteAction, rules: readonly RowRule[]): WriteRules => ({
    rules,
    atRisk:
      action === 'create' ? rules : rules.filter((rule) => columnsOf(rule).flatMap(partsOf).some(mayChange)),
  });
  const ofAllColumns = new Map<WriteAction, WriteRules>();
  function rulesFor(action: WriteAction, set: readonly Column[]): WriteRules {
    const grants = rights[action];
    if (grants.length <= 1) {
      // The most frequent case: the columns make no difference.
      const known = ofAllColumns.get(action) ?? withRisk(action, [ruleOf(grants, parse) ?? []].flat());
      ofAllColumns.set(action, known);
      return known;
    }
    const byColumn = set
      .filter((column) => column !== owner || (action !== 'delete' && settable[action].has(column)))
      .map((column) => grants.filter((grant) => grant.columns.has(column)));
    const different = byColumn.filter(
      (one, index) => byColumn.findIndex((other) => isSameList(one, other)) === index,
    );
    const some = different.length > 0 ? different : [grants];
    return withRisk(
      action,
      some.flatMap((one) => ruleOf(one, parse) ?? []),
    );
  }
  return {
    ofAll: {
      rights,
      allows: new Set(GRANTED.filter((action) => rights[action].length > 0)),
      isReadable: rights.read.length > 0,
      settable,
    },
    ofCaller: (me: Me): Pick<Permissions, 'allowed' | 'required'> => {
      const known = new WeakMap<readonly RowRule[], Fragment>();
      const sqlOf = (rules: readonly RowRule[]): Fragment | undefined => {
        if (rules.length === 0) return undefined;
        const condition = known.get(rules) ?? ruleSql({ allOf: rules }, me);
        known.set(rules, condition);
        return condition;
      };
      return {
        allowed: (action, changed = []) => sqlOf(rulesFor(action, changed).rules),
        required: (action, changed) => sqlOf(rulesFor(action, changed).atRisk),
      };
    },
  };
}

/** All texts of rules about rows. */
const ruleTexts = (resources: readonly Resource[], roles: Roles): string[] => [
  ...resources.flatMap(({ rows = {} }) => [...listOf(rows.read), ...listOf(rows.write)]),
  ...Object.values(roles).flatMap((role) =>
    Object.values(role?.grants ?? {}).flatMap((grants) =>
      Object.values(grants ?? {}).flatMap((grant) => (typeof grant === 'object' ? listOf(grant.rows) : [])),
    ),
  ),
];

/** What the rules of a registry need to know of a user. */
export const userFactsOf = (resources: readonly Resource[], roles: Roles): UserFacts => ({
  roles: new Set(namedRoles(roles)),
  admitted: Object.keys(roles).filter((name) => roles[name]?.admin === true),
  columns: columnsOfMe(ruleTexts(resources, roles)),
});
