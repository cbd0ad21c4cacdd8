// Resources without their faulty keys, so that one fault does not cause further, derived ones.
import type { AccessLevel } from '../../config.ts';
import { parseLabel } from '../serve/admin-resource.ts';
import { firstColumnOf } from './check-admin.ts';
import { isForeignKey, withoutFaulty } from './check-column.ts';
import { isObject } from '../definition/is-object.ts';
import { METHODS, type Method, type Resource } from '../definition/resource.ts';
import { covers } from '../serve/served-resource.ts';

/** A resource without its faulty keys. */
export interface PartialResource {
  readonly resource: Resource;
  /** Whether a key of the resource, such as `columns.user.type`, is faulty. */
  readonly isFaulty: (key: string) => boolean;
  /** The columns of unknown type. They count as text columns, which every use allows except as dates. */
  readonly untyped: ReadonlySet<string>;
}

type Loose = Readonly<Record<string, unknown>>;

/** Whether it is a non-empty list of methods. It may name a method twice. */
export const areMethods = (value: unknown): value is Method[] =>
  Array.isArray(value) &&
  value.length > 0 &&
  Array.from(value as Method[]).every((method) => METHODS.includes(method));

/** The strings of a list; undefined if it is not a list. */
const namesIn = (list: unknown): string[] | undefined =>
  Array.isArray(list) ? Array.from(list).filter((name) => typeof name === 'string') : undefined;

/** A column without its faulty keys. Undefined if its type is unknown, unless it is meant as a foreign key. */
function partialColumn(column: unknown, path: string, faulty: ReadonlySet<string>): Loose | undefined {
  if (!isObject(column)) return undefined;
  const partial = withoutFaulty(column, path, faulty);
  if (isForeignKey(column)) return { ...partial, type: 'foreignKey' };
  return faulty.has(`${path}type`) ? undefined : partial;
}

/** `admin` without faulty keys and without columns that do not exist, which are reported already. */
function partialAdmin(admin: Loose, columns: Loose, faulty: ReadonlySet<string>): Loose {
  const exists = (name: string): boolean => name === 'id' || Object.hasOwn(columns, name);
  return {
    ...withoutFaulty(admin, 'admin.', faulty),
    list: namesIn(admin['list'])?.filter(exists),
    search: namesIn(admin['search'])?.filter((path) => exists(firstColumnOf(path))),
    filters: namesIn(admin['filters'])?.filter((path) => exists(firstColumnOf(path))),
    exclude: namesIn(admin['exclude']),
  };
}

/**
 * The resource without its faulty keys.
 * @param name of the resource in messages: its model, or its position if it has no valid one
 * @param faulty the paths of its faulty keys
 */
export function partialResource(entry: Loose, name: string, faulty: ReadonlySet<string>): PartialResource {
  const { columns, primaryKey, admin, exclude, readonly, owner, methods } = entry;
  const untyped = new Set<string>();
  const partialColumns = Object.entries(isObject(columns) ? columns : {}).map(([key, column]) => {
    const path = `columns.${key}.`;
    const partial = partialColumn(column, path, faulty);
    if (!partial) untyped.add(key);
    return [
      key,
      partial ?? { ...(isObject(column) ? withoutFaulty(column, path, faulty) : {}), type: 'text' },
    ];
  });
  const resource = {
    ...withoutFaulty(entry, '', faulty),
    model: name,
    columns: Object.fromEntries(partialColumns) as Loose,
    primaryKey: isObject(primaryKey) ? withoutFaulty(primaryKey, 'primaryKey.', faulty) : undefined,
    // Without columns, the names in `admin` were not checked.
    admin: isObject(columns) && isObject(admin) ? partialAdmin(admin, columns, faulty) : undefined,
    exclude: namesIn(exclude),
    readonly: namesIn(readonly),
    methods: areMethods(methods) ? methods : undefined,
    // A faulty owner stays, because it still requires a user model.
    owner,
  };
  return { resource: resource as unknown as Resource, isFaulty: (key) => faulty.has(key), untyped };
}

/**
 * What is known of the column at the end of a path.
 * `uncertain`: nothing, because the path crosses a key whose fault is reported already.
 * `untyped`: that it exists. `known`: everything, also that it does not exist.
 */
type Certainty = 'uncertain' | 'untyped' | 'known';

function certaintyOf(
  path: string,
  from: PartialResource,
  parts: ReadonlyMap<string, PartialResource>,
  isHidden: (resource: Resource, name: string) => boolean,
  isClosed: (resource: Resource) => boolean = () => false,
): Certainty {
  const steps = path.split('__');
  // A path cannot continue after a primary key.
  if (steps.slice(0, -1).includes('id')) return 'known';
  let at: PartialResource | undefined = from;
  for (const [index, step] of steps.entries()) {
    if (at && index > 0 && isClosed(at.resource)) return 'known';
    if (!at || at.isFaulty('columns')) return 'uncertain';
    const { resource, untyped }: PartialResource = at;
    const name = Object.hasOwn(resource.columns, step) ? step : step.replace(/_id$/, '');
    const column = Object.hasOwn(resource.columns, name) ? resource.columns[name] : undefined;
    if (step === 'id') return isKeyTypeKnown(at) ? 'known' : 'untyped';
    // A hidden column counts as one that does not exist, even if it is faulty.
    if (!column || isHidden(resource, name)) return 'known';
    // A foreign key can be followed even if its name is faulty.
    if (column.type === 'foreignKey') at = parts.get(column.references);
    else if (isUncertain(at, name)) return 'uncertain';
    else return untyped.has(name) && step === name && index === steps.length - 1 ? 'untyped' : 'known';
  }
  return at && isKeyTypeKnown(at) ? 'known' : 'untyped';
}

/** Whether nothing is known of a column: its type is unknown, and its name is faulty or its value is not an object. */
export const isUncertain = ({ isFaulty, untyped }: PartialResource, name: string): boolean =>
  untyped.has(name) && isFaulty(`columns.${name}`);

/** Whether the table's name is known: from `table`, or from the model. */
export const isTableKnown = ({ resource, isFaulty }: PartialResource): boolean =>
  !isFaulty('table') && (resource.table !== undefined || !isFaulty('model'));

/** Whether the type of the primary key is known. */
export const isKeyTypeKnown = ({ isFaulty }: PartialResource): boolean =>
  !isFaulty('primaryKey') && !isFaulty('primaryKey.type');

const isExcluded = ({ exclude }: Resource, name: string): boolean => exclude?.includes(name) === true;
const isNotInAdmin = ({ admin }: Resource, name: string): boolean =>
  admin?.hidden === true || admin?.exclude?.includes(name) === true;

/** The resource without names of columns of which too little is known to check them. */
export function withoutUncertain(
  part: PartialResource,
  parts: ReadonlyMap<string, PartialResource>,
): Resource {
  const { resource, isFaulty } = part;
  const { ordering = '', admin = {} } = resource;
  const { label, list, search, filters, dates } = admin;
  const inAdmin = (path: string): Certainty => certaintyOf(path, part, parts, isNotInAdmin);
  const isCertain = (path: string): boolean => inAdmin(path) !== 'uncertain';
  const isKnown = (path: string): boolean => inAdmin(path) === 'known';
  const names = (label === undefined ? [] : parseLabel(label)).map((one) =>
    typeof one !== 'string' && isCertain(one.name) ? `{${one.name}}` : '',
  );
  const certainAdmin = {
    ...admin,
    list: list?.filter(isCertain),
    search: search?.filter(isKnown),
    filters: filters?.filter(isCertain),
    label: names.join('') || undefined,
    dates: dates !== undefined && isKnown(dates) ? dates : undefined,
  };
  const read = (isFaulty('read') ? 'faulty' : (resource.read ?? 'default')) as AccessLevel;
  const isClosed = (other: Resource): boolean =>
    !covers(read, other.read ?? 'default') || other.methods?.includes('GET') === false;
  const orderings = ordering
    .split(',')
    .filter((path) => certaintyOf(path.replace(/^-/, ''), part, parts, isExcluded, isClosed) !== 'uncertain');
  const kept = isFaulty('columns') ? undefined : orderings.join(',') || undefined;
  return { ...resource, read, ordering: kept, admin: certainAdmin } as Resource;
}
