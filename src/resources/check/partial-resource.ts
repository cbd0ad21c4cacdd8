// Resources without their faulty keys, so that one fault does not cause further, derived ones.
import type { AccessLevel } from '../../config.ts';
import { parseLabel } from '../serve/admin-resource.ts';
import { firstColumnOf } from './check-admin.ts';
import { withoutFaulty } from './check-column.ts';
import { isIn, isObject, type Loose } from '../definition/check-keys.ts';
import { METHODS, type Method, type Resource } from '../definition/resource.ts';
import { covers } from '../serve/served-resource.ts';

/** A resource without its faulty keys. */
export interface PartialResource {
  readonly resource: Resource;
  /** Whether a key of the resource, such as `columns.user.type`, is faulty. */
  readonly isFaulty: (key: string) => boolean;
  /** The columns of unknown type, which the checks leave out. */
  readonly untyped: ReadonlySet<string>;
}

/** Whether it is a non-empty list of methods. It may name a method twice. */
export const areMethods = (value: unknown): value is Method[] =>
  Array.isArray(value) && value.length > 0 && Array.from(value as unknown[]).every(isIn(METHODS));

/** The strings of a list; undefined if it is not a list. */
const namesIn = (list: unknown): string[] | undefined =>
  Array.isArray(list) ? Array.from(list).filter((name) => typeof name === 'string') : undefined;

/** `admin` without faulty keys and without columns that do not exist, which are reported already. */
function partialAdmin(admin: Loose, columns: Loose, foreignKeys: Loose, faulty: ReadonlySet<string>): Loose {
  const exists = (name: string): boolean =>
    name === 'id' || Object.hasOwn(columns, name) || Object.hasOwn(foreignKeys, name);
  return {
    ...withoutFaulty(admin, 'admin.', faulty),
    list: namesIn(admin['list'])?.filter(exists),
    search: namesIn(admin['search'])?.filter((path) => exists(firstColumnOf(path))),
    filters: namesIn(admin['filters'])?.filter((path) => exists(firstColumnOf(path))),
    exclude: namesIn(admin['exclude']),
  };
}

/** The foreign keys without any fault. */
function partialForeignKeys(foreignKeys: Loose, faulty: ReadonlySet<string>): Loose {
  const isFaulty = (name: string): boolean =>
    [...faulty].some((key) => `${key}.`.startsWith(`foreignKeys.${name}.`));
  return Object.fromEntries(Object.entries(foreignKeys).filter(([name]) => !isFaulty(name)));
}

/**
 * The resource without its faulty keys.
 * @param name of the resource in messages: its model, or its position if it has no valid one
 * @param faulty the paths of its faulty keys
 */
export function partialResource(entry: Loose, name: string, faulty: ReadonlySet<string>): PartialResource {
  const { columns, primaryKey, foreignKeys, admin, exclude, readonly, owner, methods } = entry;
  const several = isObject(foreignKeys) ? partialForeignKeys(foreignKeys, faulty) : {};
  const untyped = new Set<string>();
  // `elements` is left out with its faulty keys.
  const faultyKeys = new Set(
    [...faulty].flatMap((path) => [path, path.replace(/\.elements\.\w*$/, '.elements')]),
  );
  const partialColumns = Object.entries(isObject(columns) ? columns : {}).map(([key, column]) => {
    const path = `columns.${key}.`;
    const partial = isObject(column) ? withoutFaulty(column, path, faultyKeys) : {};
    const isTyped = partial['type'] === 'array' ? partial['of'] !== undefined : partial['type'] !== undefined;
    if (isTyped) return [key, partial];
    untyped.add(key);
    return [key, { ...partial, type: 'text' }];
  });
  const resource = {
    ...withoutFaulty(entry, '', faulty),
    model: name,
    columns: Object.fromEntries(partialColumns) as Loose,
    primaryKey: isObject(primaryKey) ? withoutFaulty(primaryKey, 'primaryKey.', faulty) : undefined,
    foreignKeys: several,
    // Without columns, the names in `admin` were not checked.
    admin: isObject(columns) && isObject(admin) ? partialAdmin(admin, columns, several, faulty) : undefined,
    exclude: namesIn(exclude),
    readonly: namesIn(readonly),
    methods: areMethods(methods) ? methods : undefined,
    // A faulty owner stays, because it still requires a user model.
    owner,
  };
  return { resource: resource as unknown as Resource, isFaulty: (key) => faulty.has(key), untyped };
}

/**
 * Whether a path can be checked. Not if it leads to or across something of which a fault is reported already: columns and keys of
 * unknown type, models that do not exist.
 */
function isCheckable(
  path: string,
  from: PartialResource,
  parts: ReadonlyMap<string, PartialResource>,
  isHidden: (resource: Resource, name: string) => boolean,
  isClosed: (resource: Resource) => boolean = () => false,
): boolean {
  const steps = path.split('__');
  // A path cannot continue after a primary key.
  if (steps.slice(0, -1).includes('id')) return true;
  let at: PartialResource | undefined = from;
  for (const [index, step] of steps.entries()) {
    if (at && index > 0 && isClosed(at.resource)) return true;
    if (!at || at.isFaulty('columns')) return false;
    const { resource, untyped }: PartialResource = at;
    if (step === 'id') return isKeyTypeKnown(at);
    const several = resource.foreignKeys?.[step];
    if (several) {
      at = parts.get(several.references);
      continue;
    }
    const name = Object.hasOwn(resource.columns, step) ? step : step.replace(/_id$/, '');
    const column = Object.hasOwn(resource.columns, name) ? resource.columns[name] : undefined;
    // A hidden column counts as one that does not exist, even if it is faulty.
    if (!column || isHidden(resource, name)) return true;
    if (untyped.has(name)) return false;
    if (column.type !== 'foreignKey') return true;
    at = parts.get(column.references);
  }
  return at !== undefined && isKeyTypeKnown(at);
}

/** Whether the table's name is known: from `table`, or from the model. */
export const isTableKnown = ({ resource, isFaulty }: PartialResource): boolean =>
  !isFaulty('table') && (resource.table !== undefined || !isFaulty('model'));

/** Whether the type of the primary key is known. */
export const isKeyTypeKnown = ({ isFaulty }: PartialResource): boolean =>
  !['primaryKey', 'primaryKey.type', 'primaryKey.columns'].some(isFaulty);

const isExcluded = ({ exclude }: Resource, name: string): boolean => exclude?.includes(name) === true;
const isNotInAdmin = ({ admin }: Resource, name: string): boolean =>
  admin?.hidden === true || admin?.exclude?.includes(name) === true;

/** The resource without the paths that cannot be checked. */
export function withoutUncertain(
  part: PartialResource,
  parts: ReadonlyMap<string, PartialResource>,
): Resource {
  const { resource, isFaulty } = part;
  const { ordering = '', admin = {} } = resource;
  const { label, list, search, filters, dates } = admin;
  const inAdmin = (path: string): boolean => isCheckable(path, part, parts, isNotInAdmin);
  const names = (label === undefined ? [] : parseLabel(label)).map((one) =>
    typeof one !== 'string' && inAdmin(one.name) ? `{${one.name}}` : '',
  );
  const checkableAdmin = {
    ...admin,
    list: list?.filter(inAdmin),
    search: search?.filter(inAdmin),
    filters: filters?.filter(inAdmin),
    label: names.join('') || undefined,
    dates: dates !== undefined && inAdmin(dates) ? dates : undefined,
  };
  const read = (isFaulty('read') ? 'faulty' : (resource.read ?? 'default')) as AccessLevel;
  const isClosed = (other: Resource): boolean =>
    !covers(read, other.read ?? 'default') || other.methods?.includes('GET') === false;
  const orderings = ordering
    .split(',')
    .filter((path) => isCheckable(path.replace(/^-/, ''), part, parts, isExcluded, isClosed));
  const kept = isFaulty('columns') ? undefined : orderings.join(',') || undefined;
  return { ...resource, read, ordering: kept, admin: checkableAdmin } as Resource;
}
