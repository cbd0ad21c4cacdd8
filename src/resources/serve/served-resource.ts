// Resources as the API serves them: the registry's rules, resolved against the models.
import { createHash } from 'node:crypto';
import { ACCESS_LEVELS, type AccessLevel, type Settings } from '../../config.ts';
import { isIsoType, isoTypeOf } from '../../db/types/array-types.ts';
import type { Column, Model } from '../../db/schema/model.ts';
import { findColumn, partsOf } from '../../db/schema/model.ts';
import type { Fault, FieldErrors } from '../../errors.ts';
import { parseOrdering, type OrderingQuery, type PageLimits } from '../../query/parse/grammar.ts';
import { planList, type Visibility } from '../../query/plan.ts';
import { recordStatement, type MakeRecordStatement } from '../../query/statements/records-by-key.ts';
import { plainRecord, type RowOutput } from '../../query/statements/record-json.ts';
import type { Recording } from '../../query/statements/history-sql.ts';
import type { Author } from '../../query/statements/change.ts';
import { WriteStatements } from '../../query/statements/write-statements.ts';
import { METHODS, type Method, type Resource } from '../definition/resource.ts';
import { HISTORY } from '../definition/system-tables.ts';

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
export interface VersionSeal {
  readonly seal: (version: string) => string;
  /** @returns undefined for a text that is no version */
  readonly open: (text: string) => string | undefined;
}

/** For `xmin`, which shows nothing of the row. */
const PLAIN_VERSIONS: VersionSeal = { seal: (version) => version, open: (text) => text };

/** The entry point of a change, for the history. */
export type ChangeSource = 'api' | 'admin' | 'command';

/** A resource as the API or the admin area serves it: column names resolved, defaults filled in. */
export interface ServedResource extends PageLimits {
  readonly name: string;
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
  /** The primary key, then all columns that are not excluded, in output order. */
  readonly output: readonly Column[];
  /** The same columns, as the API formats them. */
  readonly formatted: readonly Column[];
  /** How the versions of its rows become those that clients see. */
  readonly seal: VersionSeal;
  /** A digest of the output's JSON keys and formats. It is part of each record's version, so ETags change with the registry. */
  readonly outputDigest: string;
  /** The record's JSON as SQL. */
  readonly plain: RowOutput;
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
  /** The statements that write a record. */
  readonly writes: WriteStatements;
}

export type ServedResources = ReadonlyMap<string, ServedResource>;

/** Whether a caller (undefined: anonymous) meets a level. `http/api/api.ts` refuses writes at `default` separately. */
export function meets(level: AccessLevel, caller: Caller | undefined): boolean {
  if (level === 'default') return true;
  return caller !== undefined && (level === 'user' || caller.admin);
}

/** The level that a GET of the model needs; undefined where its resource has no GET. */
function readLevel(resources: ServedResources, model: Model): AccessLevel | undefined {
  const resource = resources.get(model.name);
  return resource?.methods.has('GET') ? resource.read : undefined;
}

/** What a caller may see. A join may reach only a resource that the same request could GET. */
export function visibilityFor(
  resources: ServedResources,
  mayRead: (level: AccessLevel) => boolean,
): Visibility {
  return {
    find: (model, name) => {
      const column = findColumn(model, name);
      const excluded = resources.get(model.name)?.excluded;
      return column && !partsOf(column).some((part) => excluded?.has(part)) ? column : undefined;
    },
    joinable: (model) => {
      const level = readLevel(resources, model);
      return level !== undefined && mayRead(level);
    },
  };
}

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
  return [model.primaryKey, ...model.columns.filter(isShown)];
}

/** The columns that the admin area shows of each model that it shows. */
export function adminColumnsByModel(
  definitions: readonly Resource[],
  models: ReadonlyMap<string, Model>,
): ReadonlyMap<Model, readonly Column[]> {
  const columnsOf = new Map<Model, readonly Column[]>();
  for (const definition of definitions) {
    const model = models.get(definition.model);
    if (model && definition.admin?.hidden !== true) columnsOf.set(model, adminColumns(definition, model));
  }
  return columnsOf;
}

function withIsoDates(column: Column): Column {
  const type = isoTypeOf(column.type);
  return type ? { ...column, type } : column;
}

/** The resources as the API serves them, by name. */
export function serveResources(
  definitions: readonly Resource[],
  models: ReadonlyMap<string, Model>,
  settings: Pick<Settings, 'access' | 'userModel'> & Partial<Pick<Settings, 'datetimeFormat'>>,
  seal: VersionSeal = PLAIN_VERSIONS,
): ServedResources {
  const served = new Map<string, ServedResource>();
  const history = models.get(HISTORY.model);
  for (const definition of definitions) {
    const model = models.get(definition.model);
    if (!model) continue;
    const named = (names: readonly string[] = []): Set<Column> =>
      new Set(model.columns.filter((column) => names.includes(column.name)));
    const excluded = named(definition.exclude);
    const output = [model.primaryKey, ...model.columns.filter((column) => !excluded.has(column))];
    const formatted = settings.datetimeFormat === 'iso' ? output.map(withIsoDates) : output;
    const plain = plainRecord(formatted);
    const owner = model.columns.find(({ name }) => name === definition.owner);
    const recorded =
      definition.history === false || !model.isTable ? undefined : adminColumns(definition, model);
    const source: ChangeSource = 'api';
    const recording = history && recorded && { history, columns: recorded, model: model.name, source };
    served.set(definition.model, {
      name: definition.model,
      model,
      access: definition.access ?? settings.access,
      read: definition.read ?? 'default',
      costly: definition.costly ?? 'default',
      maxCount: definition.maxCount,
      countLevel: definition.countLevel ?? 'admin',
      cache: definition.cache,
      databaseErrors: definition.databaseErrors ?? 'hidden',
      constraints: new Map(Object.entries(definition.constraints ?? {})),
      methods: new Set(definition.methods ?? (model.isTable ? METHODS : ['GET'])),
      output,
      formatted,
      outputDigest: digestOf(formatted),
      plain,
      seal: model.version === 'xmin' ? PLAIN_VERSIONS : seal,
      byKey: recordStatement(model, plain),
      excluded,
      readonly: new Set([
        ...named(definition.readonly),
        ...model.columns.filter((column) => column.generated || column === model.version),
      ]),
      owner,
      loginName:
        definition.model === settings.userModel
          ? model.columns.find(({ name }) => name === 'username')
          : undefined,
      // A table may have had a column with this name before there were cursors.
      hasCursors: findColumn(model, 'cursor') === undefined,
      limit: definition.limit ?? Math.min(20, definition.maxLimit ?? 1000),
      maxLimit: definition.maxLimit ?? 1000,
      ordering: definition.ordering === undefined ? [] : parseOrdering(definition.ordering),
      recorded,
      recording,
      writes: new WriteStatements({ model, formatted, owner, recording }),
    });
  }
  return served;
}

/** Whether every caller who meets the level `own` also meets `other`. */
const covers = (own: AccessLevel, other: AccessLevel): boolean =>
  ACCESS_LEVELS.indexOf(other) <= ACCESS_LEVELS.indexOf(own);

/** The faults of default orderings. Every caller who may read the resource must also be able to request its ordering. */
export function checkOrderings(resources: ServedResources): Fault[] {
  return [...resources.values()].flatMap((resource) => {
    const errors: FieldErrors = {};
    const visibility = visibilityFor(resources, (level) => covers(resource.read, level));
    const query = { filters: [], orderings: undefined, page: 1n, cursor: undefined, limit: 1, link: '' };
    planList(query, resource.model, visibility, resource.ordering, errors);
    return [...new Set(errors['ordering'])].map((text) => ({ model: resource.name, key: 'ordering', text }));
  });
}

/** Why the registry needs a user model; undefined where it needs none. */
export function neededUserModel(
  resources: readonly Resource[],
  settings: Pick<Settings, 'access'>,
): string | undefined {
  const one = resources.find(
    ({ access, read }) => (access ?? settings.access) !== 'default' || (read ?? 'default') !== 'default',
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
export const hasChosenKey = ({ model: { primaryKey }, readonly }: ServedResource): boolean =>
  primaryKey.parts
    ? !primaryKey.parts.some((part) => part.generated || readonly.has(part))
    : !primaryKey.hasDefault;

/** Whether anyone may write through the API: a view, for example, may have no method that writes. */
export const hasWriters = ({ access, methods }: ServedResource): boolean =>
  access !== 'default' && [...methods].some((method) => method !== 'GET');
