import { createHash } from 'node:crypto';
import type { AccessLevel, Settings } from '../../config.ts';
import type { Fragment, Statement } from '../../db/fragment.ts';
import type { Column, Model } from '../../db/schema/model.ts';
import { findColumn } from '../../db/schema/model.ts';
import type { FieldErrors } from '../../errors.ts';
import { parseOrdering, type OrderingQuery, type PageLimits } from '../../query/parse/grammar.ts';
import { planList, type View } from '../../query/plan.ts';
import { plainRecord, recordStatement } from '../../query/statements/read-statements.ts';
import { METHODS, type Method, type Resource } from '../definition/resource.ts';

/** Whoever makes the request, as the database has it. */
export interface Caller {
  readonly id: string;
  readonly name: string;
  readonly admin: boolean;
  /** Of a caller who is known from an earlier request: what must still hold in the statement that writes, see CallerChanged. */
  readonly precondition?: Fragment;
}

/** Nothing was written, since the user's row no longer says what it said at an earlier request. */
export class CallerChanged extends Error {}

/** Where a request comes in, for the history. */
export type ChangeSource = 'api' | 'admin' | 'command';

/** A resource as it is served at one of its doors: its names resolved to columns, its defaults filled in. */
export interface ServedResource extends PageLimits {
  readonly name: string;
  readonly model: Model;
  readonly access: AccessLevel;
  readonly read: AccessLevel;
  /** The level that queries known to be costly, and streams, need. */
  readonly costly: AccessLevel;
  readonly methods: ReadonlySet<Method>;
  /** The key and the columns that are not excluded, in output order. */
  readonly output: readonly Column[];
  /** A mark of the output's keys, so that a change of the registry changes every record's version. */
  readonly shape: string;
  /** The statement that reads one record by its key. */
  readonly byKey: (id: string) => Statement;
  readonly excluded: ReadonlySet<Column>;
  readonly readonly: ReadonlySet<Column>;
  readonly owner: Column | undefined;
  /** The user model's `username`: what cannot stand in Basic credentials must not stand there. */
  readonly loginName: Column | undefined;
  readonly ordering: readonly OrderingQuery[];
  readonly source: ChangeSource;
  /** The columns whose changes are written down, those that the admin area shows; undefined where the history is off. */
  readonly recorded: readonly Column[] | undefined;
}

export type ServedResources = ReadonlyMap<string, ServedResource>;

/** Whether a caller, or none, meets a level. Nobody meets `default` for writing: see `http/api.ts`. */
export function meets(level: AccessLevel, caller: Caller | undefined): boolean {
  if (level === 'default') return true;
  return caller !== undefined && (level === 'user' || caller.admin);
}

/** The level that a GET of the model needs, or undefined where there is none. */
function readLevel(resources: ServedResources, model: Model): AccessLevel | undefined {
  const resource = resources.get(model.name);
  return resource?.methods.has('GET') ? resource.read : undefined;
}

/** What a caller may see: a join reaches only into a resource that the same request could GET. */
export function viewOf(resources: ServedResources, mayRead: (level: AccessLevel) => boolean): View {
  return {
    find: (model, name) => {
      const column = findColumn(model, name);
      return column && !resources.get(model.name)?.excluded.has(column) ? column : undefined;
    },
    joinable: (model) => {
      const level = readLevel(resources, model);
      return level !== undefined && mayRead(level);
    },
  };
}

const shapeOf = (output: readonly Column[]): string =>
  `-${createHash('sha256')
    .update(output.map(({ key }) => key).join())
    .digest('hex')
    .slice(0, 6)}`;

/** The columns that the admin area shows: all but passwords and those that `admin.exclude` names; none of a hidden resource. */
export function adminColumns({ admin }: Resource, model: Model): readonly Column[] {
  if (admin?.hidden === true) return [];
  const isShown = ({ name, isPassword }: Column): boolean => !isPassword && !admin?.exclude?.includes(name);
  return [model.primaryKey, ...model.columns.filter(isShown)];
}

/** The resources by name, as the API serves them. The models come with the facts of the database, once it has been read. */
export function serveResources(
  definitions: readonly Resource[],
  models: ReadonlyMap<string, Model>,
  settings: Pick<Settings, 'access' | 'userModel'>,
): ServedResources {
  const served = new Map<string, ServedResource>();
  for (const definition of definitions) {
    const model = models.get(definition.model);
    if (!model) continue;
    const named = (names: readonly string[] = []): Set<Column> =>
      new Set(model.columns.filter((column) => names.includes(column.name)));
    const excluded = named(definition.exclude);
    const output = [model.primaryKey, ...model.columns.filter((column) => !excluded.has(column))];
    served.set(definition.model, {
      name: definition.model,
      model,
      access: definition.access ?? settings.access,
      read: definition.read ?? 'default',
      costly: definition.costly ?? 'default',
      methods: new Set(definition.methods ?? METHODS),
      output,
      shape: shapeOf(output),
      byKey: recordStatement(model, plainRecord(output)),
      excluded,
      readonly: new Set([
        ...named(definition.readonly),
        ...model.columns.filter(({ generated }) => generated),
      ]),
      owner: model.columns.find(({ name }) => name === definition.owner),
      loginName:
        definition.model === settings.userModel
          ? model.columns.find(({ name }) => name === 'username')
          : undefined,
      limit: definition.limit ?? Math.min(20, definition.maxLimit ?? 1000),
      maxLimit: definition.maxLimit ?? 1000,
      ordering: definition.ordering === undefined ? [] : parseOrdering(definition.ordering),
      source: 'api',
      recorded: definition.history === false ? undefined : adminColumns(definition, model),
    });
  }
  return served;
}

const LEVELS: readonly AccessLevel[] = ['default', 'user', 'admin'];

/** Whether who may read at a level may read at another. A level that there is not is told already, and hides nothing. */
export const covers = (own: AccessLevel, other: AccessLevel): boolean =>
  !LEVELS.includes(own) || LEVELS.indexOf(other) <= LEVELS.indexOf(own);

/** The faults of default orderings: each must be one that whoever may read the resource could ask for. */
export function checkOrderings(resources: ServedResources): string[] {
  return [...resources.values()].flatMap((resource) => {
    const errors: FieldErrors = {};
    const view = viewOf(resources, (level) => covers(resource.read, level));
    const query = { filters: [], orderings: undefined, page: 1n, limit: 1, link: '' };
    planList(query, resource.model, view, resource.ordering, errors);
    return [...new Set(errors['ordering'])].map((text) => `${resource.name}: ordering: ${text}`);
  });
}

/** Why the registry needs a user model, or undefined where every resource can do without. */
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

/** The columns that people log in with, and the types that each may have. */
export const LOGIN_COLUMNS: Readonly<Record<string, readonly string[]>> = {
  username: ['string', 'text'],
  password: ['password'],
  active: ['boolean'],
  admin: ['boolean'],
};

/** Whether the registry has a user model that people can log in with, needed or not. */
export function hasLogins(
  resources: readonly Resource[],
  { userModel }: Pick<Settings, 'userModel'>,
): boolean {
  const columns = resources.find(({ model }) => model === userModel)?.columns ?? {};
  return Object.entries(LOGIN_COLUMNS).every(([name, types]) => types.includes(columns[name]?.type ?? ''));
}
