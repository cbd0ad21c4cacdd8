// Resources as the API serves them: the registry's rules, resolved against the models.
import { createHash } from 'node:crypto';
import type { AccessLevel, Settings } from '../../config.ts';
import { isIsoType, isoTypeOf } from '../../db/types/array-types.ts';
import type { Column, Model } from '../../db/schema/model.ts';
import { findColumn, isKeyless, partsOf, recordColumns } from '../../db/schema/model.ts';
import type { Fault, FieldErrors } from '../../errors.ts';
import { parseOrdering, type OrderingQuery, type PageLimits } from '../../query/parse/grammar.ts';
import { planList, type Projection, type Visibility } from '../../query/plan.ts';
import { recordStatement, type MakeRecordStatement } from '../../query/statements/records-by-key.ts';
import { plainRecord } from '../../query/statements/record-json.ts';
import type { Recording } from '../../query/statements/history-sql.ts';
import { createWriteTarget } from '../../query/statements/write.ts';
import type { Author, WriteTarget } from '../../query/statements/write-plan.ts';
import { METHODS, type Method, type Resource } from '../definition/resource.ts';
import { HISTORY } from '../definition/system-tables.ts';
import { ADMIN, ANYONE, isOpen, meets, USER, type Access } from './access.ts';

/**
 * The authenticated user of a request, as the database holds it. It has a precondition when an earlier request authenticated the
 * caller: a condition that the writing statement checks again (see CallerChanged).
 */
export interface Caller extends Author {
  readonly admin: boolean;
}

/** The caller's row has changed since the authentication, so the statement wrote nothing. */
export class CallerChanged extends Error {}

/** Turns the versions of rows into those that clients see, and back. */
export interface VersionCipher {
  readonly encrypt: (version: string) => string;
  /** @returns undefined for a text that is no version */
  readonly decrypt: (text: string) => string | undefined;
}

/** For `xmin`, which shows nothing of the row. */
const PLAIN_VERSIONS: VersionCipher = { encrypt: (version) => version, decrypt: (text) => text };

/** A resource as one access sees it: column names resolved, defaults filled in. */
export interface ResourceView extends PageLimits {
  readonly name: string;
  /** Who sees it so. */
  readonly seenBy: Access;
  /** The same resource as another access sees it, which must have it. */
  readonly for: (access: Access) => ResourceView;
  /** Whether this access may read its records. */
  readonly isReadable: boolean;
  /** All resources as this access sees them. */
  readonly all: ResourceViews;
  /** What paths of this access may lead to. A join may reach only a resource that the same request could GET. */
  readonly visibility: Visibility;
  /** Whether foreign keys may name records of the model: those of models that the access does not see at all can still be set. */
  readonly mayRead: (model: Model) => boolean;
  readonly model: Model;
  readonly hasCursors: boolean;
  readonly access: AccessLevel;
  readonly read: AccessLevel;
  /** The level that streams and costly queries need. */
  readonly costly: AccessLevel;
  /** See `Resource`. */
  readonly maxCount: number | undefined;
  readonly countLevel: AccessLevel;
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

export type ResourceViews = ReadonlyMap<string, ResourceView>;

/** What an access sees: each resource, by name. */
export type Views = (access: Access) => ResourceViews;

/** What an access may see of the models. */
const visibilityOf = (resources: ResourceViews): Visibility => ({
  find: (model, name) => {
    const column = findColumn(model, name);
    const excluded = resources.get(model.name)?.excluded;
    return column && !partsOf(column).some((part) => excluded?.has(part)) ? column : undefined;
  },
  joinable: (model) => resources.get(model.name)?.isReadable === true,
});

/** What the registry decides about a column's JSON: an `int4`, for example, is a number as `integer` and a string as `bigint`. */
function formatOf({ key, type }: Column): string {
  if (isIsoType(type)) return `${key} iso`;
  const { json, input } = type.element ?? type;
  return json === 'quoted' && input.control === 'number' ? `${key} quoted` : key;
}

const digestOf = (formatted: readonly Column[]): string =>
  `-${createHash('sha256').update(formatted.map(formatOf).join()).digest('hex').slice(0, 6)}`;

/** The columns that the admin area shows: all but passwords and `admin.exclude`; none of a hidden resource. */
function adminColumns({ admin }: Resource, model: Model): readonly Column[] {
  if (admin?.hidden === true) return [];
  const isShown = ({ name, isPassword }: Column): boolean => !isPassword && !admin?.exclude?.includes(name);
  return recordColumns(model).filter(isShown);
}

function withIsoDates(column: Column): Column {
  const type = isoTypeOf(column.type);
  return type ? { ...column, type } : column;
}

/** What all accesses of a surface see alike. */
type Base = Omit<ResourceView, 'seenBy' | 'for' | 'isReadable' | 'all' | 'visibility' | 'mayRead'>;

/** What the registry and the settings say of a resource, the same for every caller. */
function rulesOf(
  definition: Resource,
  model: Model,
  settings: Pick<Settings, 'access' | 'userModel'>,
  versionCipher: VersionCipher,
) {
  return {
    name: definition.model,
    model,
    access: definition.access ?? settings.access,
    read: definition.read ?? 'default',
    costly: definition.costly ?? 'default',
    maxCount: definition.maxCount,
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

/**
 * What an access sees of the registry's resources, and in the admin area of the history. The API's `exclude`, `readonly`, owners and formats do not apply in the admin area, which has its own: every
 * user of it is an admin.
 */
export function createViews(
  definitions: readonly Resource[],
  models: ReadonlyMap<string, Model>,
  settings: Pick<Settings, 'access' | 'userModel'> & Partial<Pick<Settings, 'datetimeFormat'>>,
  versionCipher: VersionCipher = PLAIN_VERSIONS,
): Views {
  const history = models.get(HISTORY.model);

  function baseOf(surface: Access['surface'], definition: Resource, model: Model): Base {
    const isArea = surface === 'admin';
    const { admin = {} } = definition;
    const rules = rulesOf(definition, model, settings, versionCipher);
    const named = (names: readonly string[] = []): Column[] =>
      model.columns.filter((column) => names.includes(column.name));
    const hidden = new Set(named(definition.exclude));
    const output = isArea
      ? adminColumns(definition, model)
      : recordColumns(model).filter((column) => !hidden.has(column));
    const formatted = !isArea && settings.datetimeFormat === 'iso' ? output.map(withIsoDates) : output;
    const plain = plainRecord(formatted);
    const owner = isArea ? undefined : named([definition.owner ?? ''])[0];
    const recorded =
      definition.history === false || !model.isTable ? undefined : adminColumns(definition, model);
    const recording = history &&
      recorded && { history, columns: recorded, model: model.name, source: surface };
    const methods = definition.methods ?? (model.isTable ? METHODS : ['GET' as const]);
    const maxLimit = definition.maxLimit ?? 1000;
    return {
      ...rules,
      databaseErrors: isArea ? 'shown' : (definition.databaseErrors ?? 'hidden'),
      methods: new Set(isArea ? METHODS : methods),
      output,
      formatted,
      outputDigest: digestOf(formatted),
      plain,
      byKey: recordStatement(model, plain),
      excluded: new Set(model.columns.filter((column) => !output.includes(column))),
      readonly: new Set([
        ...named(isArea ? admin.readonly : definition.readonly),
        ...model.columns.filter((column) => column.generated || column === model.version),
      ]),
      owner,
      // A table may have had a column with this name before there were cursors.
      hasCursors: !isArea && !isKeyless(model) && findColumn(model, 'cursor') === undefined,
      maxLimit: isArea ? Math.max(rules.limit, 200) : maxLimit,
      recorded,
      recording,
      writes: createWriteTarget({ model, formatted, owner, recording }),
    };
  }

  function basesOf(surface: Access['surface']): Base[] {
    const all: readonly Resource[] = surface === 'api' ? definitions : [...definitions, HISTORY];
    const shown = all.filter(({ admin }) => surface === 'api' || admin?.hidden !== true);
    return shown.flatMap((definition) => {
      const model = models.get(definition.model);
      return model ? [baseOf(surface, definition, model)] : [];
    });
  }

  const bases: Partial<Record<Access['surface'], Base[]>> = {};
  const known = new Map<string, ResourceViews>();
  const views: Views = (access) => {
    const existing = known.get(access.key);
    if (existing) return existing;
    const resources = new Map<string, ResourceView>();
    known.set(access.key, resources);
    const visibility = visibilityOf(resources);
    for (const base of (bases[access.surface] ??= basesOf(access.surface))) {
      const resource: ResourceView = {
        ...base,
        seenBy: access,
        isReadable: base.methods.has('GET') && meets(access, base.read),
        all: resources,
        visibility,
        mayRead: ({ name }) => resources.get(name)?.isReadable !== false,
        for: (other) => {
          const seen = views(other).get(base.name);
          if (!seen) throw new Error(`${other.key} has no ${base.name}`);
          return seen;
        },
      };
      resources.set(base.name, resource);
    }
    return resources;
  };
  return views;
}

/** The faults of default orderings. Every caller who may read the resource must also be able to request its ordering. */
export function checkOrderings(views: Views): Fault[] {
  return [...views(ADMIN).values()].flatMap(({ name, read, for: seenBy }) => {
    const errors: FieldErrors = {};
    const lowest = [ANYONE, USER].find((access) => meets(access, read)) ?? ADMIN;
    const { model, visibility, ordering } = seenBy(lowest);
    const query = { filters: [], orderings: undefined, page: 1n, cursor: undefined, limit: 1, link: '' };
    planList(query, model, visibility, ordering, errors);
    return [...new Set(errors['ordering'])].map((text) => ({ model: name, key: 'ordering', text }));
  });
}

/** Why the registry needs a user model; undefined where it needs none. */
export function neededUserModel(
  resources: readonly Resource[],
  settings: Pick<Settings, 'access'>,
): string | undefined {
  const one = resources.find(
    ({ access = settings.access, read = 'default' }) => !isOpen(access) || !isOpen(read),
  );
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
export const hasWriters = ({ access, methods }: ResourceView): boolean =>
  !isOpen(access) && [...methods].some((method) => method !== 'GET');
