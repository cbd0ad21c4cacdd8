import type { AccessLevel } from '../../config.ts';
import { parseLabel } from '../serve/admin-resource.ts';
import { headOf } from './check-admin.ts';
import { isForeignKey, without } from './check-column.ts';
import { isObject } from '../definition/is-object.ts';
import { METHODS, type Method, type Resource } from '../definition/resource.ts';
import { covers } from '../serve/served-resource.ts';

/** What can still be said of a resource that has faults: its keys without the faulty ones. */
export interface PartialResource {
  readonly resource: Resource;
  /** Whether a key of the resource, such as `columns.user.type`, was found to be faulty. */
  readonly isFaulty: (key: string) => boolean;
  /** The columns of no known type. They stand as texts, of which every use is right that is right of any type but a date. */
  readonly untyped: ReadonlySet<string>;
}

type Loose = Readonly<Record<string, unknown>>;

/** Whether it is a list of methods, though it may name one twice. */
export const areMethods = (value: unknown): value is Method[] =>
  Array.isArray(value) &&
  value.length > 0 &&
  Array.from(value as Method[]).every((method) => METHODS.includes(method));

/** Of a list of names those that are right stay right. */
const namesIn = (list: unknown): string[] | undefined =>
  Array.isArray(list) ? Array.from(list).filter((name) => typeof name === 'string') : undefined;

/** A column without its faulty keys; undefined where its type is not known, and it refers to no model. */
function soundColumn(column: unknown, path: string, faulty: ReadonlySet<string>): Loose | undefined {
  if (!isObject(column)) return undefined;
  const sound = without(column, path, faulty);
  // Whatever the type should have been, what refers to a model is a foreign key.
  if (isForeignKey(column)) return { ...sound, type: 'foreignKey' };
  return faulty.has(`${path}type`) ? undefined : sound;
}

/** What `admin` says of columns that are there; that others are not is told already. */
function soundAdmin(admin: Loose, columns: Loose, faulty: ReadonlySet<string>): Loose {
  const isThere = (name: string): boolean => name === 'id' || Object.hasOwn(columns, name);
  return {
    ...without(admin, 'admin.', faulty),
    list: namesIn(admin['list'])?.filter(isThere),
    search: namesIn(admin['search'])?.filter((path) => isThere(headOf(path))),
    filters: namesIn(admin['filters'])?.filter((path) => isThere(headOf(path))),
    exclude: namesIn(admin['exclude']),
  };
}

/**
 * @param name by which its faults are told: its model, or its place where it has none
 * @param faulty the keys that were found to be faulty
 */
export function partialResource(entry: Loose, name: string, faulty: ReadonlySet<string>): PartialResource {
  const { columns, primaryKey, admin, exclude, readonly, owner, methods } = entry;
  const untyped = new Set<string>();
  const soundColumns = Object.entries(isObject(columns) ? columns : {}).map(([key, column]) => {
    const path = `columns.${key}.`;
    const sound = soundColumn(column, path, faulty);
    if (!sound) untyped.add(key);
    return [key, sound ?? { ...(isObject(column) ? without(column, path, faulty) : {}), type: 'text' }];
  });
  const resource = {
    ...without(entry, '', faulty),
    model: name,
    columns: Object.fromEntries(soundColumns) as Loose,
    primaryKey: isObject(primaryKey) ? without(primaryKey, 'primaryKey.', faulty) : undefined,
    // Without columns nothing was said of what names some.
    admin: isObject(columns) && isObject(admin) ? soundAdmin(admin, columns, faulty) : undefined,
    exclude: namesIn(exclude),
    readonly: namesIn(readonly),
    methods: areMethods(methods) ? methods : undefined,
    // An owner that is none needs a user model all the same.
    owner,
  };
  return { resource: resource as unknown as Resource, isFaulty: (key) => faulty.has(key), untyped };
}

/**
 * What can be said of the column to which a path leads. `open`: nothing, since the path comes upon a fault that is told already,
 * and only when that is mended it is right or wrong. `untyped`: that it is there. `known`: all, also that it is not there.
 */
type Certainty = 'open' | 'untyped' | 'known';

function certaintyOf(
  path: string,
  from: PartialResource,
  parts: ReadonlyMap<string, PartialResource>,
  isHidden: (resource: Resource, name: string) => boolean,
  isClosed: (resource: Resource) => boolean = () => false,
): Certainty {
  const steps = path.split('__');
  // Nothing follows a key.
  if (steps.slice(0, -1).includes('id')) return 'known';
  let at: PartialResource | undefined = from;
  for (const [index, step] of steps.entries()) {
    if (at && index > 0 && isClosed(at.resource)) return 'known';
    if (!at || at.isFaulty('columns')) return 'open';
    const { resource, untyped }: PartialResource = at;
    const name = Object.hasOwn(resource.columns, step) ? step : step.replace(/_id$/, '');
    const column = Object.hasOwn(resource.columns, name) ? resource.columns[name] : undefined;
    if (step === 'id') return hasKey(at) ? 'known' : 'untyped';
    // What is hidden is as if it were not there, whatever it is.
    if (!column || isHidden(resource, name)) return 'known';
    // A foreign key leads where it leads, whatever is wrong with its name.
    if (column.type === 'foreignKey') at = parts.get(column.references);
    else if (isUnknown(at, name)) return 'open';
    else return untyped.has(name) && step === name && index === steps.length - 1 ? 'untyped' : 'known';
  }
  return at && hasKey(at) ? 'known' : 'untyped';
}

/** Whether what should be a column is nothing of which anything can be said. */
export const isUnknown = ({ isFaulty, untyped }: PartialResource, name: string): boolean =>
  untyped.has(name) && isFaulty(`columns.${name}`);

/** Whether the table of a resource is known: its own, or that of its model's name. */
export const hasTable = ({ resource, isFaulty }: PartialResource): boolean =>
  !isFaulty('table') && (resource.table !== undefined || !isFaulty('model'));

/** Whether the type of a resource's key is known. */
export const hasKey = ({ isFaulty }: PartialResource): boolean =>
  !isFaulty('primaryKey') && !isFaulty('primaryKey.type');

const isExcluded = ({ exclude }: Resource, name: string): boolean => exclude?.includes(name) === true;
const isNotInAdmin = ({ admin }: Resource, name: string): boolean =>
  admin?.hidden === true || admin?.exclude?.includes(name) === true;

/** The resource without what it says of columns of which nothing is certain. */
export function withoutDoubt(part: PartialResource, parts: ReadonlyMap<string, PartialResource>): Resource {
  const { resource, isFaulty } = part;
  const { ordering = '', admin = {} } = resource;
  const { label, list, search, filters, dates } = admin;
  const inAdmin = (path: string): Certainty => certaintyOf(path, part, parts, isNotInAdmin);
  const isThere = (path: string): boolean => inAdmin(path) !== 'open';
  const isKnown = (path: string): boolean => inAdmin(path) === 'known';
  const names = (label === undefined ? [] : parseLabel(label)).map((one) =>
    typeof one !== 'string' && isThere(one.name) ? `{${one.name}}` : '',
  );
  const clear = {
    ...admin,
    list: list?.filter(isThere),
    search: search?.filter(isKnown),
    filters: filters?.filter(isThere),
    label: names.join('') || undefined,
    dates: dates !== undefined && isKnown(dates) ? dates : undefined,
  };
  const read = (isFaulty('read') ? 'faulty' : (resource.read ?? 'default')) as AccessLevel;
  const isClosed = (other: Resource): boolean =>
    !covers(read, other.read ?? 'default') || other.methods?.includes('GET') === false;
  const orderings = ordering
    .split(',')
    .filter((path) => certaintyOf(path.replace(/^-/, ''), part, parts, isExcluded, isClosed) !== 'open');
  const kept = isFaulty('columns') ? undefined : orderings.join(',') || undefined;
  return { ...resource, read, ordering: kept, admin: clear } as Resource;
}
