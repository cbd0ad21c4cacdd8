// Resources as the API serves them: the registry's rules, resolved against the models.
import { createHash } from 'node:crypto';
import type { Level, Settings } from '../../config.ts';
import { isIsoType, isoTypeOf } from '../../db/types/array-types.ts';
import {
  type Column,
  type Model,
  findColumn,
  foreignKeysOf,
  isKeyless,
  partsOf,
  recordColumns,
} from '../../db/schema/model.ts';
import { createSqlCache, type SqlCache } from '../../db/sql-cache.ts';
import type { Fault, FieldErrors } from '../../errors.ts';
import { parseOrdering, type OrderingQuery, type PageLimits } from '../../query/parse/grammar.ts';
import { planList, type Projection, type Visibility, type VisibleRows } from '../../query/plan.ts';
import { parseRule, visibleRows, type RowRule } from '../../query/row-rules.ts';
import { EVERY_ROW } from '../../query/source.ts';
import { recordStatement, type MakeRecordStatement } from '../../query/statements/records-by-key.ts';
import { plainRecord } from '../../query/statements/record-json.ts';
import { edgesBelow } from '../../db/schema/cascades.ts';
import { recordsCascades, type Cascade, type Recording } from '../../query/statements/history-sql.ts';
import { createWriteTarget } from '../../query/statements/write.ts';
import type { WriteTarget } from '../../query/statements/write-plan.ts';
import { METHODS, type Method, type Resource } from '../definition/resource.ts';
import { BUILT_IN_ROLES, namedRoles, type Roles } from '../definition/roles.ts';
import { HISTORY, SECOND_FACTOR, SHOWN_SYSTEM_TABLES, TOKEN, VIEW } from '../definition/system-tables.ts';
import { ADMIN, isForAdmins, isOpen, lowestOf, NO_ONE, rolesOf, type Access, type Me } from './access.ts';
import { LazyMap, type Named } from './lazy-map.ts';
import {
  adminColumns,
  allRights,
  existingOf,
  grantsFor,
  methodOf,
  methodsOf,
  permissionsOf,
  readLevelOf,
  readRuleOf,
  rightsOf,
  shownColumns,
  userFactsOf,
  writeLevelOf,
  type AccessSettings,
  type Permissions,
} from './rights.ts';

/** Turns the versions of rows into those that clients see, and back. */
export interface VersionCipher {
  readonly encrypt: (version: string) => string;
  /** @returns undefined for a text that is no version */
  readonly decrypt: (text: string) => string | undefined;
}

/** For `xmin`, which shows nothing of the row. */
const PLAIN_VERSIONS: VersionCipher = { encrypt: (version) => version, decrypt: (text) => text };

/** A resource as one access sees it: column names resolved, defaults filled in. */
export interface ResourceView extends PageLimits, Permissions {
  readonly name: string;
  /** Who sees it so. */
  readonly seenBy: Access;
  /** The same resource as another access sees it, which must have it. */
  readonly for: (access: Access) => ResourceView;
  /** The roles of the registry. */
  readonly roles: readonly string[];
  /** Whether what callers read depends on who they are, beyond the level. */
  readonly isPersonal: boolean;
  /** Whether its statements may reach a table for which PostgreSQL must know the caller. */
  readonly hasIdentity: boolean;
  /** The same for deletions, which reach the records that refer to the deleted ones. */
  readonly deletesIdentity: boolean;
  /** All resources as this access sees them. */
  readonly all: ResourceViews;
  /** What paths of this access may lead to. A join may reach only a resource that the same request could GET. */
  readonly visibility: Visibility;
  /** Whether foreign keys may name records of the model: those of models that the access does not see at all can still be set. */
  readonly mayRead: (model: Model) => boolean;
  readonly model: Model;
  readonly hasCursors: boolean;
  /** Who may write, as the registry says it. */
  readonly access: NonNullable<Resource['access']>;
  readonly read: Level;
  /** The level that a method needs without a grant of a role. */
  readonly needed: (method: Method) => Level;
  /** Whether there is anyone who may use the method. */
  readonly hasCallers: (method: Method) => boolean;
  /** The level that streams and costly queries need. */
  readonly costly: Level;
  /** See `Resource`. */
  readonly maxCount: number | undefined;
  readonly countLevel: Level;
  /** Maximum bytes of a value that is written. */
  readonly maxValue: number;
  readonly databaseErrors: 'hidden' | 'shown';
  readonly constraints: ReadonlyMap<string, string>;
  /** How long caches may keep what anonymous clients read (seconds). */
  readonly cache: number | undefined;
  readonly methods: ReadonlySet<Method>;
  /** The primary key, if there is one, then all columns that are not excluded, in output order. */
  readonly output: readonly Column[];
  /** The same columns, as the API formats them. */
  readonly formatted: readonly Column[];
  /** How the versions of its rows become those that clients see. */
  readonly versionCipher: VersionCipher;
  /** A digest of the output's JSON keys and formats. It is part of each record's version, so ETags change with the registry. */
  readonly outputDigest: string;
  /** The record's JSON as SQL. */
  readonly plain: Projection;
  /** Reads one record by its key. */
  readonly byKey: MakeRecordStatement;
  readonly excluded: ReadonlySet<Column>;
  readonly readonly: ReadonlySet<Column>;
  /** A part of the keys of caches: what this access sees is the same wherever it is the same. */
  readonly sqlKey: string;
  readonly owner: Column | undefined;
  /** The user model's `username`: its values must work in Basic credentials. */
  readonly loginName: Column | undefined;
  readonly ordering: readonly OrderingQuery[];
  /** The columns whose changes the history records: those that the admin area shows. Undefined where the history is off. */
  readonly recorded: readonly Column[] | undefined;
  /** What the history records of a change; undefined where it records nothing, and for a service without a history. */
  readonly recording: Recording | undefined;
  /** What the statements that write its records need. */
  readonly writes: WriteTarget;
}

export type ResourceViews = Named<ResourceView>;

/** Whether the caller sees the column in all records that exist for it. */
export const isAlwaysShown = (
  { excluded, model, visibility }: Pick<ResourceView, 'excluded' | 'model' | 'visibility'>,
  column: Column,
): boolean => !excluded.has(column) && visibility.rows(model)?.partial.has(column) !== true;

/** What an access sees: each resource, by name. */
export type Views = (access: Access) => ResourceViews;

/** What the registry decides about a column's JSON: an `int4`, for example, is a number as `integer` and a string as `bigint`. */
function formatOf({ key, type }: Column): string {
  if (isIsoType(type)) return `${key} iso`;
  const { json, input } = type.element ?? type;
  return json === 'quoted' && input.control === 'number' ? `${key} quoted` : key;
}

const digestOf = (formatted: readonly Column[]): string =>
  `-${createHash('sha256').update(formatted.map(formatOf).join()).digest('hex').slice(0, 6)}`;

function withIsoDates(column: Column): Column {
  const type = isoTypeOf(column.type);
  return type ? { ...column, type } : column;
}

/** What all accesses with the same columns see alike. */
type Base = Omit<
  ResourceView,
  | 'seenBy'
  | 'for'
  | 'isPersonal'
  | 'hasIdentity'
  | 'deletesIdentity'
  | 'all'
  | 'visibility'
  | 'mayRead'
  | keyof Permissions
>;

type ViewSettings = AccessSettings & Partial<Pick<Settings, 'datetimeFormat' | 'maxBody'>>;

/** What the registry and the settings say of a resource, the same for every caller. */
function rulesOf(definition: Resource, model: Model, settings: ViewSettings, versionCipher: VersionCipher) {
  const { roles = {} } = settings;
  const needed = (method: Method): Level =>
    method === 'GET' ? readLevelOf(definition, settings) : writeLevelOf(definition, method, settings);
  const methods = methodsOf(definition, model);
  const granted = [...BUILT_IN_ROLES, ...Object.keys(roles)].flatMap((role) =>
    grantsFor(role, definition.model, roles).map(([action]) => action),
  );
  return {
    name: definition.model,
    model,
    roles: namedRoles(roles),
    access: definition.access ?? settings.access,
    read: needed('GET'),
    needed,
    hasCallers: (method: Method): boolean =>
      methods.includes(method) &&
      (method === 'GET' || !isOpen(needed(method)) || granted.some((action) => methodOf(action) === method)),
    costly: definition.costly ?? 'default',
    maxCount: definition.maxCount,
    maxValue: settings.maxBody ?? Infinity,
    countLevel: definition.countLevel ?? 'admin',
    cache: definition.cache,
    constraints: new Map(Object.entries(definition.constraints ?? {})),
    versionCipher: model.version === 'xmin' ? PLAIN_VERSIONS : versionCipher,
    loginName:
      definition.model === settings.userModel
        ? model.columns.find(({ name }) => name === 'username')
        : undefined,
    limit: definition.limit ?? Math.min(20, definition.maxLimit ?? 1000),
    ordering: definition.ordering === undefined ? [] : parseOrdering(definition.ordering),
  };
}

/** Whether what callers read of the resource depends on who they are, beyond its level. */
const isPersonal = ({ model, rows, columns }: Resource, roles: Roles): boolean =>
  rows?.read !== undefined ||
  Object.values(columns).some(({ read }) => read !== undefined) ||
  [...BUILT_IN_ROLES, ...Object.keys(roles)].some((role) =>
    grantsFor(role, model, roles).some(([action]) => action === 'read'),
  );

/** Sees all columns: those that a rule may name are checked at the start. */
export const ALL_COLUMNS: Visibility = { ...EVERY_ROW, find: findColumn, joinable: () => true };

/** The models from which foreign keys lead to a resource with `identity`, and these models themselves. */
function modelsWithIdentity(
  definitions: readonly Resource[],
  models: ReadonlyMap<string, Model>,
): ReadonlySet<string> {
  const found = new Set(definitions.filter(({ identity }) => identity).map(({ model }) => model));
  for (let size = -1; found.size > size;) {
    size = found.size;
    for (const model of models.values())
      if (foreignKeysOf(model).some(({ references }) => references && found.has(references.name)))
        found.add(model.name);
  }
  return found;
}

/** A resource as the accesses of one key see it, but for the values of the caller. */
interface Seen {
  readonly base: Base;
  readonly permissions: ReturnType<typeof permissionsOf>;
  /** The SQL of writes. Accesses with rules about rows have their own. */
  readonly sql: SqlCache;
}

/** What the accesses of one key see. */
interface SeenByAll {
  /** As a caller without a record of its own sees them. */
  readonly views: ResourceViews;
  /** Whether what callers see depends on their own records. */
  readonly hasRules: boolean;
  /** As a caller sees one of them. */
  readonly view: (name: string, access: Access) => ResourceView | undefined;
}

/** Keys of accesses that are resolved at a time. Users have few combinations of roles, but they choose the scopes of their tokens. */
const MAX_KEYS = 200;
const MAX_SCOPED_KEYS = 100;

/**
 * What an access sees of the registry's resources, and in the admin area of the history. The API's `exclude`, `readonly`, owners and
 * formats do not apply in the admin area, which has its own: every user of it is an admin.
 */
export function createViews(
  definitions: readonly Resource[],
  models: ReadonlyMap<string, Model>,
  settings: ViewSettings,
  versionCipher: VersionCipher = PLAIN_VERSIONS,
): Views {
  const { roles = {} } = settings;
  const history = models.get(HISTORY.model);
  const sample = sampleOfMe(definitions, models, settings);
  const ofRules = userFactsOf(definitions, roles).columns;
  const identified = modelsWithIdentity(definitions, models);
  const all = [...models.values()];
  const ownedByUser = [TOKEN, SECOND_FACTOR, VIEW].flatMap((table) => models.get(table.model) ?? []);
  const deleting = new Set(
    all.filter((model) => edgesBelow(model, all).some((edge) => identified.has(edge.model.name))),
  );
  const personal = new Set(definitions.map(({ model }) => model).filter((name) => identified.has(name)));
  for (const one of definitions) if (isPersonal(one, roles)) personal.add(one.model);
  const parsed = new Map<string, RowRule>();
  const parserFor =
    (model: Model) =>
    (text: string): RowRule => {
      const key = `${model.name} ${text}`;
      const rule = parsed.get(key) ?? parseRule(text, model, ALL_COLUMNS, sample, {});
      parsed.set(key, rule);
      return rule;
    };

  function recordingOf(source: Access['surface'], definition: Resource, model: Model) {
    const recorded =
      definition.history === false || !model.isTable ? undefined : adminColumns(definition, model);
    const recording = history && recorded && { history, columns: recorded, model: model.name, source };
    return { recorded, recording };
  }

  /** What the database changes when it deletes records of the model. */
  function cascadesOf(surface: Access['surface'], model: Model): readonly Cascade[] {
    if (!history || !recordsCascades(history)) return [];
    const cascades = edgesBelow(model, all)
      .filter(({ column }) => column.onDelete !== 'restrict')
      .map((edge) => {
        const definition = definitions.find((one) => one.model === edge.model.name);
        return { ...edge, recording: definition && recordingOf(surface, definition, edge.model).recording };
      });
    return cascades.some(({ recording }) => recording) ? cascades : [];
  }

  function baseOf(
    surface: Access['surface'],
    definition: Resource,
    model: Model,
    output: readonly Column[],
  ): Base {
    const isArea = surface === 'admin';
    const { admin = {} } = definition;
    const rules = rulesOf(definition, model, settings, versionCipher);
    const named = (names: readonly string[] = []): Column[] =>
      model.columns.filter((column) => names.includes(column.name));
    const formatted = !isArea && settings.datetimeFormat === 'iso' ? output.map(withIsoDates) : output;
    const plain = plainRecord(formatted);
    const { recorded, recording } = recordingOf(surface, definition, model);
    const maxLimit = definition.maxLimit ?? 1000;
    return {
      ...rules,
      databaseErrors: isArea ? 'shown' : (definition.databaseErrors ?? 'hidden'),
      methods: new Set(isArea ? METHODS : methodsOf(definition, model)),
      output,
      formatted,
      outputDigest: digestOf(formatted),
      plain,
      byKey: recordStatement(model, plain, EVERY_ROW),
      excluded: new Set(model.columns.filter((column) => !output.includes(column))),
      readonly: new Set([
        ...named(isArea ? admin.readonly : definition.readonly),
        ...model.columns.filter((column) => column.generated || column === model.version),
      ]),
      owner: isArea ? undefined : named([definition.owner ?? ''])[0],
      // A table may have had a column with this name before there were cursors.
      hasCursors: !isArea && !isKeyless(model) && findColumn(model, 'cursor') === undefined,
      maxLimit: isArea ? Math.max(rules.limit, 200) : maxLimit,
      recorded,
      recording,
      writes: createWriteTarget({
        model,
        formatted,
        visibility: EVERY_ROW,
        recording,
        cascades: cascadesOf(surface, model),
        ownedByUser: model.name === settings.userModel ? ownedByUser : [],
      }),
      sqlKey: `${model.name} ${surface} ${bases.size}`,
    };
  }

  /** By the columns. Accesses that see the same share the SQL of their statements. */
  const bases = new Map<string, Base>();
  function sharedBase(
    surface: Access['surface'],
    definition: Resource,
    model: Model,
    output: readonly Column[],
  ): Base {
    const key = `${surface} ${model.name} ${output.map((column) => column.key).join()}`;
    const base = bases.get(key) ?? baseOf(surface, definition, model, output);
    bases.set(key, base);
    return base;
  }

  const shownIn = (more: readonly Resource[], isShown: (definition: Resource) => boolean) =>
    new Map(
      [...definitions, ...more].filter(isShown).flatMap((definition) => {
        const model = models.get(definition.model);
        return model ? [[model.name, { definition, model }] as const] : [];
      }),
    );
  const shown = {
    api: shownIn([], () => true),
    admin: shownIn(SHOWN_SYSTEM_TABLES, ({ admin }) => admin?.hidden !== true),
  };

  /** Resolves what an access sees of each resource when it is first asked for: users choose the scopes of their tokens. */
  function seenBy(access: Access): SeenByAll {
    const { surface, key } = access;
    const names = shown[surface];
    const isWhole = surface === 'admin' && isForAdmins(access.level);
    /** What it may do with a resource, and what of it exists. */
    const permitted = new LazyMap(names, ({ definition, model }) => {
      const rights = isWhole
        ? allRights(model, adminColumns(definition, model))
        : rightsOf(access, definition, model, { ...settings, ofRules });
      const { create, update } = rights;
      const read = existingOf(rights, access, definition, model, { ...settings, ofRules });
      // The answer to a write shows the record also to those who may not read others.
      const isReader = read.length > 0;
      const columns = recordColumns(model);
      const visible = isReader ? columns : shownColumns(access, definition, columns);
      const grants = isReader ? [read] : [create, update].filter(({ length }) => length > 0);
      const isGranted = (column: Column): boolean =>
        grants.length > 0 &&
        grants.every((some) => some.some(({ columns: own, shown = own }) => shown.has(column)));
      const output = columns.filter(
        (column) => column === model.primaryKey || (visible.includes(column) && isGranted(column)),
      );
      return { definition, model, rights, output, readRule: readRuleOf(read, output, parserFor(model)) };
    });
    // Only these may have rules, so the others need not be resolved to know.
    const limited = [...names.values()].filter(({ definition: { model, rows, owner } }) => {
      const isGranted = (role: string): boolean => grantsFor(role, model, roles).length > 0;
      return !isWhole && (rows !== undefined || owner !== undefined || rolesOf(access).some(isGranted));
    });
    const resolved = limited.flatMap(({ model }) => permitted.get(model.name) ?? []);
    const isRestricted = resolved.some(({ readRule }) => readRule !== undefined);
    const hasRules =
      (surface === 'api' && identified.size > 0) ||
      resolved.some(({ rights }) =>
        Object.values(rights).some((grants) => grants.some(({ rules }) => rules.length > 0)),
      );
    const resources = new LazyMap(permitted, ({ definition, model, rights, output }): Seen => {
      const base = sharedBase(surface, definition, model, output);
      const sql = isRestricted ? createSqlCache() : base.writes.sql;
      return { base, permissions: permissionsOf(rights, base, parserFor(model)), sql };
    });

    function visibilityOf(me: Me): Visibility {
      const known = new Map<Model, VisibleRows>();
      return {
        find: (model, name) => {
          const column = findColumn(model, name);
          const excluded = resources.get(model.name)?.base.excluded;
          return column && !partsOf(column).some((part) => excluded?.has(part)) ? column : undefined;
        },
        joinable: (model) => views.get(model.name)?.isReadable === true,
        rows: (model) => {
          const rule = permitted.get(model.name)?.readRule;
          const rows = known.get(model) ?? (rule && visibleRows(rule, model, me));
          if (rows) known.set(model, rows);
          return rows;
        },
      };
    }

    /** What depends on the caller. */
    function ofCaller({ base, permissions, sql }: Seen, me: Me, asks: Access, visibility: Visibility) {
      const { model, plain, writes, sqlKey } = base;
      return {
        ...permissions.ofCaller(me),
        seenBy: asks,
        visibility,
        ...(isRestricted && {
          byKey: (id: string) => recordStatement(model, plain, visibility)(id),
          writes: createWriteTarget({ ...writes, visibility }, sql),
          sqlKey: `${sqlKey} ${key}`,
        }),
      };
    }

    function viewOf(seen: Seen): ResourceView {
      const { base, permissions } = seen;
      const { name } = base;
      const known = new WeakMap<Access, ResourceView>();
      return {
        ...base,
        ...permissions.ofAll,
        isPersonal: personal.has(name),
        hasIdentity: identified.has(name),
        deletesIdentity: deleting.has(base.model),
        all: views,
        mayRead: ({ name: other }) => views.get(other)?.isReadable !== false,
        for: (other) => {
          const view = known.get(other) ?? seenByKey(other).view(name, other);
          if (!view) throw new Error(`${other.key} has no ${name}`);
          known.set(other, view);
          return view;
        },
        ...ofCaller(seen, NO_ONE, access, ofNoOne),
      };
    }

    const ofNoOne = visibilityOf(NO_ONE);
    const views: ResourceViews = new LazyMap(resources, viewOf);
    return {
      views,
      hasRules,
      view: (name, asks) => {
        const { me } = asks;
        const [seen, view] = [resources.get(name), views.get(name)];
        if (!seen || !view || !me || !hasRules) return view;
        // Copying all of the view would take longer than the rest of a request.
        const own = Object.create(view) as ResourceView;
        return Object.assign(own, ofCaller(seen, me, asks, isRestricted ? visibilityOf(me) : ofNoOne));
      },
    };
  }

  const ofUsers = new Map<string, SeenByAll>();
  const ofTokens = new Map<string, SeenByAll>();
  function seenByKey(access: Access): SeenByAll {
    const [known, maxKeys] = access.scope ? [ofTokens, MAX_SCOPED_KEYS] : [ofUsers, MAX_KEYS];
    const existing = known.get(access.key);
    if (existing) return existing;
    const [oldest] = known.keys();
    if (known.size >= maxKeys && oldest !== undefined) known.delete(oldest);
    // Callers share it, so it must not have the values of one.
    const seen = seenBy({ ...access, me: undefined });
    known.set(access.key, seen);
    return seen;
  }
  return (access) => {
    const { views, view, hasRules } = seenByKey(access);
    if (!access.me || !hasRules) return views;
    return new LazyMap(views, (own) => view(own.name, access) ?? own);
  };
}

/** Texts that columns of all types accept. */
const SAMPLES = ['1', 'x', 'true', '2000-01-01', '00:00:00', '00000000-0000-0000-0000-000000000000', '127.0.0.1', '08:00:2b:01:02:03', '{}']; // prettier-ignore

/** Values in place of those of a caller, to check and to plan rules. */
export function sampleOfMe(
  definitions: readonly Resource[],
  models: ReadonlyMap<string, Model>,
  { userModel }: Pick<Settings, 'userModel'>,
): (column: string | undefined) => string | undefined {
  const model = definitions.some((one) => one.model === userModel) ? models.get(userModel) : undefined;
  return (name) => {
    const column = model && (name === undefined ? model.primaryKey : findColumn(model, name));
    return column && SAMPLES.find((text) => column.type.parse(text, column).fault === undefined);
  };
}

/** The faults of default orderings. Every caller who may read the resource must also be able to request its ordering. */
export function checkOrderings(views: Views): Fault[] {
  return [...views(ADMIN).values()].flatMap(({ name, read, for: seenBy }) => {
    const errors: FieldErrors = {};
    const { model, visibility, ordering } = seenBy(lowestOf(read));
    const query = { filters: [], page: 1n, cursor: undefined, limit: 1, link: '' };
    planList({ ...query, orderings: ordering }, model, visibility, [], errors);
    return [...new Set(errors['ordering'])].map((text) => ({ model: name, key: 'ordering', text }));
  });
}

/** Why the registry needs a user model; undefined where it needs none. */
export function neededUserModel(
  resources: readonly Resource[],
  settings: AccessSettings,
): string | undefined {
  if (Object.keys(settings.roles ?? {}).length > 0) return 'the roles need one';
  const one = resources.find((resource) => {
    const levels = [readLevelOf(resource, settings), ...(['POST', 'PUT', 'DELETE'] as const).map((method) => writeLevelOf(resource, method, settings))]; // prettier-ignore
    return levels.some((level) => !isOpen(level));
  });
  if (one) return `the access levels of ${one.model} need one`;
  const owned = resources.find(({ owner }) => owner !== undefined);
  return owned ? `the owner of ${owned.model} needs one` : undefined;
}

/** The columns that a user model must have, and the types that each may have. */
export const LOGIN_COLUMNS: Readonly<Record<string, readonly string[]>> = {
  username: ['string', 'text'],
  password: ['password'],
  active: ['boolean'],
  admin: ['boolean'],
};

/** Whether the registry has a user model with all columns that a login needs. */
export function hasLogins(
  resources: readonly Resource[],
  { userModel }: Pick<Settings, 'userModel'>,
): boolean {
  const columns = resources.find(({ model }) => model === userModel)?.columns ?? {};
  return Object.entries(LOGIN_COLUMNS).every(([name, types]) => types.includes(columns[name]?.type ?? ''));
}

/** Whether a client may choose the key of a new record by its address: a natural key, or columns that clients may set. */
export const hasChosenKey = ({ model: { primaryKey }, readonly }: ResourceView): boolean =>
  primaryKey.parts
    ? !primaryKey.parts.some((part) => part.generated || readonly.has(part))
    : !primaryKey.hasDefault;

/** Whether anyone may write through the API: a view, for example, may have no method that writes. */
export const hasWriters = ({ hasCallers }: ResourceView): boolean =>
  METHODS.some((method) => method !== 'GET' && hasCallers(method));
