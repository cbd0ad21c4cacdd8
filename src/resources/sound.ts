import { isObject, without } from './check-column.ts';
import type { Resource } from './resource.ts';

/** What can still be said of a resource that has faults: its keys without the faulty ones. */
export interface SoundPart {
  readonly resource: Resource;
  /** Whether a key of the resource, such as `columns.user.type`, was found to be faulty. */
  readonly isFaulty: (key: string) => boolean;
  /** The columns of which the name or the type is faulty, so that a mention of them can be neither right nor wrong. */
  readonly doubtful: ReadonlySet<string>;
}

type Loose = Readonly<Record<string, unknown>>;

/**
 * @param name by which its faults are told: its model, or its place where it has none
 * @param faulty the keys that were found to be faulty
 */
export function soundPart(entry: Loose, name: string, faulty: ReadonlySet<string>): SoundPart {
  const { columns, primaryKey, admin, exclude, readonly } = entry;
  const doubtful = new Set<string>();
  const soundColumns = Object.entries(isObject(columns) ? columns : {}).map(([key, column]) => {
    const path = `columns.${key}`;
    const isTyped = isObject(column) && !faulty.has(`${path}.type`) && !faulty.has(`${path}.references`);
    if (!isTyped || faulty.has(path)) doubtful.add(key);
    return [key, isTyped ? without(column, `${path}.`, faulty) : { type: 'text', null: true }] as const;
  });
  const resource = {
    ...without(entry, '', faulty),
    model: name,
    columns: Object.fromEntries(soundColumns),
    primaryKey: isObject(primaryKey) ? without(primaryKey, 'primaryKey.', faulty) : undefined,
    // Without columns nothing was said of what names some.
    admin: isObject(columns) && isObject(admin) ? without(admin, 'admin.', faulty) : undefined,
    // Of a list of names those that are right stay right.
    exclude: Array.isArray(exclude) ? exclude : undefined,
    readonly: Array.isArray(readonly) ? readonly : undefined,
  };
  return { resource: resource as unknown as Resource, isFaulty: (key) => faulty.has(key), doubtful };
}

/** The names of all columns that a path cannot be followed to or through for a fault that is told already. */
export function doubtfulNames(parts: readonly SoundPart[]): ReadonlySet<string> {
  const known = new Set(
    parts.filter(({ isFaulty }) => !isFaulty('columns')).map(({ resource }) => resource.model),
  );
  const leadNowhere = parts.flatMap(({ resource }) =>
    Object.entries(resource.columns).flatMap(([name, column]) =>
      column.type === 'foreignKey' && !known.has(column.references) ? [name] : [],
    ),
  );
  const names = [...leadNowhere, ...parts.flatMap(({ doubtful }) => [...doubtful])];
  return new Set(names.flatMap((name) => [name, `${name}_id`]));
}

/** The resource without what it says of doubtful columns. */
export function withoutDoubt({ resource, isFaulty }: SoundPart, names: ReadonlySet<string>): Resource {
  const isClear = (path: string): boolean => !path.split('__').some((part) => names.has(part));
  const { ordering = '', admin = {} } = resource;
  const { label, list, search, filters, dates, ...others } = admin;
  const paths = (given: readonly string[] | undefined): readonly string[] | undefined =>
    given?.filter(isClear);
  const clear = {
    ...others,
    list: paths(list),
    search: paths(search),
    filters: paths(filters),
    label: label?.split(/[{}]/).every(isClear) ? label : undefined,
    dates: dates !== undefined && isClear(dates) ? dates : undefined,
  };
  const orderings = ordering.split(',').filter((path) => isClear(path.replace(/^-/, '')));
  const kept = isFaulty('columns') ? undefined : orderings.join(',') || undefined;
  return { ...resource, ordering: kept, admin: clear } as Resource;
}
