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
    const { references, unique, column: field } = isObject(column) ? column : {};
    // Whatever the type should have been, what refers to a model is a foreign key.
    const refers = typeof references === 'string' && !faulty.has(`${path}.references`);
    const placeholder = {
      ...(refers ? { type: 'foreignKey', references } : { type: 'text' }),
      ...(typeof field === 'string' && !faulty.has(`${path}.column`) ? { column: field } : {}),
      unique: unique === true,
      null: true,
    };
    return [key, isTyped ? without(column, `${path}.`, faulty) : placeholder] as const;
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

/**
 * Whether a path of columns can be followed as far as it leads without coming upon a fault that is told already: only then is it
 * right or wrong by itself.
 */
function isClear(path: string, from: SoundPart, parts: ReadonlyMap<string, SoundPart>): boolean {
  let at: SoundPart | undefined = from;
  for (const step of path.split('__')) {
    if (!at || at.isFaulty('columns')) return false;
    const { columns } = at.resource;
    const name = Object.hasOwn(columns, step) ? step : step.replace(/_id$/, '');
    const column = Object.hasOwn(columns, name) ? columns[name] : undefined;
    // A foreign key leads where it leads, whatever is wrong with its name.
    if (at.doubtful.has(name) && column?.type !== 'foreignKey') return false;
    if (column?.type !== 'foreignKey') return true;
    at = parts.get(column.references);
  }
  return true;
}

/** The resource without what it says of doubtful columns. */
export function withoutDoubt(part: SoundPart, parts: ReadonlyMap<string, SoundPart>): Resource {
  const { resource, isFaulty } = part;
  const clearly = (path: string): boolean => isClear(path, part, parts);
  const { ordering = '', admin = {} } = resource;
  const { label, list, search, filters, dates, ...others } = admin;
  const paths = (given: readonly string[] | undefined): readonly string[] | undefined =>
    given?.filter(clearly);
  const clear = {
    ...others,
    list: paths(list),
    search: paths(search),
    filters: paths(filters),
    label: label?.split(/[{}]/).every(clearly) ? label : undefined,
    dates: dates !== undefined && clearly(dates) ? dates : undefined,
  };
  const orderings = ordering.split(',').filter((path) => clearly(path.replace(/^-/, '')));
  const kept = isFaulty('columns') ? undefined : orderings.join(',') || undefined;
  return { ...resource, ordering: kept, admin: clear } as Resource;
}
