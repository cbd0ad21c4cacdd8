// Builds a registry from the catalog of an existing database.
import {
  isKey,
  isUnique,
  isView,
  sameFields,
  VIEW_KINDS,
  type Catalog,
  type CatalogColumn,
  type CatalogForeignKey,
  type CatalogTable,
} from '../../db/schema/catalog.ts';
import { ARRAY_TYPES, type ElementTypeName } from '../../db/types/array-types.ts';
import {
  COLUMN_TYPES,
  KEY_TYPE_NAMES,
  KEY_TYPES,
  type KeyTypeName,
  type TypeName,
} from '../../db/types/column-types.ts';
import type { ColumnType } from '../../db/types/column-type.ts';
import type { Relation } from '../../db/schema/relations.ts';
import { inheritance } from '../../db/schema/schema-differences.ts';
import { checkValues } from '../../resources/check/check-column.ts';
import { SYSTEM_TABLES } from '../../resources/definition/system-tables.ts';
import { isSecret, nameColumn, nameModel, uniqueName } from './model-names.ts';
import { defaultOf, type Printed } from './default-value.ts';

interface IntrospectedColumn {
  readonly name: string;
  readonly definition: Readonly<Record<string, Printed>>;
}

type PrintedForeignKey = Readonly<Record<string, Printed>> & { readonly columns: readonly string[] };

/** A resource for an existing table, with notes for its author. */
export interface IntrospectedResource {
  readonly model: string;
  /** As written in the registry. */
  readonly table: string;
  readonly comment: string | undefined;
  readonly primaryKey: Readonly<Record<string, Printed>> | undefined;
  readonly columns: readonly IntrospectedColumn[];
  /** Foreign keys of several columns, by name. */
  readonly foreignKeys: Readonly<Record<string, PrintedForeignKey>>;
  readonly readonly: readonly string[];
  /** Whether records can be added: false if a column that is left out must be set. */
  readonly isAddable: boolean;
  /** The view's kind if nothing proves its key: it is printed as a comment. */
  readonly unproven: string | undefined;
  /** Columns whose names suggest secrets. */
  readonly secrets: readonly string[];
  /** Why columns are left out or served as a plainer type. One sentence each. */
  readonly notes: readonly string[];
}

export interface Introspection {
  readonly resources: readonly IntrospectedResource[];
  /** Which tables cannot be served and why. One sentence each. */
  readonly notes: readonly string[];
  /** What else the author should know. One sentence each. */
  readonly remarks: readonly string[];
}

/** The column types of the registry; `accepts` lists the PostgreSQL types of each. */
const TYPES = Object.entries(COLUMN_TYPES).filter(([name]) => name !== 'password') as [
  TypeName,
  ColumnType,
][];
const ARRAYS = Object.entries(ARRAY_TYPES) as [ElementTypeName, ColumnType][];

/** The name of a table in a registry: with its schema when the search path does not find it. */
export const tableName = ({ schema, name, isHidden }: Relation): string =>
  isHidden ? `${schema}.${name}` : name;

/** Whether a registry can name the table. */
export const hasServableName = (relation: Relation): boolean =>
  !relation.name.includes('.') && !(relation.isHidden && relation.schema.includes('.'));

/** A column type of a registry: its name, and for an array that of its elements. */
interface NamedType {
  readonly name: TypeName | 'array' | 'foreignKey';
  readonly of?: ElementTypeName;
  readonly type: ColumnType;
}

/** The simplest column type for a stored column; undefined when no type accepts it. */
function typeFor({ type }: CatalogColumn): NamedType | undefined {
  if (type === 'text') return { name: 'text', type: COLUMN_TYPES.text };
  if (type === 'text[]') return { name: 'array', of: 'text', type: ARRAY_TYPES.text };
  const found = TYPES.find(([, { accepts }]) => accepts.includes(type));
  if (found) return { name: found[0], type: found[1] };
  const array = ARRAYS.find(([, { accepts }]) => accepts.includes(type));
  return array && { name: 'array', of: array[0], type: array[1] };
}

const keyTypeFor = ({ type }: CatalogColumn): KeyTypeName | undefined =>
  KEY_TYPE_NAMES.find((name) => (KEY_TYPES[name].accepts as readonly string[]).includes(type));

interface Key {
  /** One column, or several. */
  readonly fields: readonly string[];
  /** Undefined for several columns, which have types of their own. */
  readonly type: KeyTypeName | undefined;
}

/** Maximum columns of a key, see `checkCompositeKey`. */
const MAX_PARTS = 8;

/** The columns that serve as the key of a view: those that are known to identify a row, else the most likely one. */
function viewKeyOf(
  { keys, kind }: Relation,
  found: CatalogTable,
): { readonly key: Key; readonly isProven: boolean } | string {
  const usable = found.columns.flatMap((column) => {
    const type = keyTypeFor(column);
    return type && !isSecret(column.field) ? [{ fields: [column.field], type }] : [];
  });
  const proven = usable.find(({ fields: [field = ''] }) =>
    kind === 'm' ? isUnique(found, field) : keys.includes(field),
  );
  if (proven) return { key: proven, isProven: true };
  const several = kind === 'm' ? found.indexes.filter(({ unique, partial }) => unique && !partial) : [];
  for (const { fields } of several)
    if (fields.length > 1 && severalFault(found, fields) === undefined)
      return { key: { fields, type: undefined }, isProven: true };
  const key = usable.find(({ fields: [field] }) => field === 'id') ?? usable[0];
  return key ? { key, isProven: false } : `it is ${VIEW_KINDS[kind]}, and none of its columns can be its key`;
}

/** The column that serves as the primary key, or why there is none. */
function keyOf(found: CatalogTable): Key | { readonly fault: string } {
  const primary = found.indexes.find((index) => index.primary)?.fields ?? [];
  const keys = [...(primary.length === 1 ? primary : []), ...found.columns.map(({ field }) => field)];
  const faults: string[] = [];
  for (const field of keys.filter((one) => isKey(found, [one]))) {
    const column = found.columns.find((one) => one.field === field);
    const type = column && keyTypeFor(column);
    if (isSecret(field))
      faults.push(`the name of its key ${field} suggests a secret, and everyone would see it as id`);
    else if (type) return { fields: [field], type };
    else faults.push(`its key ${field} is ${column?.printed ?? '?'}, which no key type supports`);
  }
  const several = [primary, ...found.indexes.map(({ fields }) => fields)].filter(
    (fields) => fields.length > 1 && isKey(found, fields),
  );
  for (const fields of several) {
    const fault = severalFault(found, fields);
    if (fault === undefined) return { fields, type: undefined };
    faults.push(`its key (${fields.join(', ')}) ${fault}`);
  }
  return { fault: faults[0] ?? 'it has no key: neither a primary key nor unique NOT NULL columns' };
}

/** Why several columns cannot be the key. */
function severalFault(found: CatalogTable, fields: readonly string[]): string | undefined {
  if (fields.length > MAX_PARTS) return `has more than ${MAX_PARTS} columns`;
  for (const field of fields) {
    const column = found.columns.find((one) => one.field === field);
    const type = column && typeFor(column);
    if (isSecret(field))
      return `has the column ${field}, whose name suggests a secret, and everyone would see it in the id`;
    if (!type || ['json', 'array'].includes(type.name))
      return `has the column ${field} of type ${column?.printed ?? '?'}, which cannot be a part of a key`;
  }
  return undefined;
}

interface Served {
  readonly relation: Relation;
  readonly found: CatalogTable;
  readonly model: string;
  readonly key: Key;
  readonly isProven: boolean;
}

/** A relation with its key, or why it cannot be served. */
function serve(relation: Relation, found: CatalogTable | undefined): Omit<Served, 'model'> | string {
  if (SYSTEM_TABLES.some(({ model }) => model === relation.name))
    return 'the name is reserved for a system table of the service';
  if (!hasServableName(relation)) return 'its name contains a dot';
  if (!found) return 'the database role may not see it';
  if (!relation.isReadable) return 'the database role may not read it';
  if (found.childTables.length > 0) return inheritance(found);
  if (isView(found)) {
    const view = viewKeyOf(relation, found);
    return typeof view === 'string' ? view : { relation, found, ...view };
  }
  const key = keyOf(found);
  return 'fault' in key ? key.fault : { relation, found, key, isProven: true };
}

interface Link {
  readonly target: Served | undefined;
  readonly onDelete: string;
  /** Why it cannot be a foreign key in the registry, as the end of "... refers to ..."; undefined when it can. */
  readonly fault: string | undefined;
}

/** The foreign key of a column, preferring one that the registry can express. */
function linkOf(stored: CatalogColumn, { found, key }: Served, served: readonly Served[]): Link | undefined {
  const links = found.foreignKeys
    .filter(({ fields }) => sameFields(fields, [stored.field]))
    .map((foreignKey): Link => {
      const { onDelete } = foreignKey;
      const target = served.find(({ found: other }) => other.name === foreignKey.target);
      const link = (fault?: string): Link => ({ target, onDelete, fault });
      if (!target) return link('a table that is not served');
      if (!target.key.type || !sameFields(foreignKey.targetFields, target.key.fields))
        return link(
          `${foreignKey.targetFields.join(', ')} of ${target.model}, which is not the key that serves as its id`,
        );
      if (sameFields(key.fields, [stored.field]))
        return link(`${target.model}, but a primary key cannot also be a foreign key`);
      if (onDelete === 'setDefault') return link(`${target.model} on delete set default`);
      if (onDelete === 'setNull' && stored.nullable === false)
        return link(`${target.model} on delete set null, but is NOT NULL`);
      const type = KEY_TYPES[target.key.type];
      const widths = type.accepts.includes('int4') ? ['int8'] : [];
      return [...type.accepts, ...widths].includes(stored.type)
        ? link()
        : link(`${target.model}, whose key is of another type`);
    });
  return links.find(({ fault }) => fault === undefined) ?? links[0];
}

/** A foreign key of several columns as the registry defines it, or why it cannot, as the end of "... refers to ...". */
function severalOf(
  { fields, target: table, targetFields, onDelete }: CatalogForeignKey,
  served: readonly Served[],
  nameOf: (field: string) => string | undefined,
): { readonly model: string; readonly definition: PrintedForeignKey } | string {
  const target = served.find(({ found }) => found.name === table);
  if (!target) return 'a table that is not served';
  const { model, key } = target;
  if (!sameFields(key.fields.toSorted(), targetFields.toSorted()))
    return `${targetFields.join(', ')} of ${model}, which is not the key that serves as its id`;
  if (onDelete === 'setDefault') return `${model} on delete set default`;
  const columns = key.fields.flatMap((field) => nameOf(fields[targetFields.indexOf(field)] ?? '') ?? []);
  if (columns.length < fields.length) return `${model}, with a column that is left out`;
  return {
    model,
    definition: { columns, references: model, ...(onDelete === 'restrict' ? {} : { onDelete }) },
  };
}

/** The definition of a column, its keys in the usual order. */
function defineColumn(
  stored: CatalogColumn,
  name: string,
  { name: type, of: element, type: columnType }: NamedType,
  link: Link | undefined,
  { relation, found }: Served,
): Record<string, Printed> {
  const about = relation.columns.find(({ field }) => field === stored.field);
  const target = type === 'foreignKey' ? link?.target : undefined;
  const isUnique = found.indexes.some(
    ({ unique, partial, fields }) => unique && !partial && sameFields(fields, [stored.field]),
  );
  const definition: Record<string, Printed> = {
    type,
    ...(element ? { of: element } : {}),
    ...(target ? { references: target.model } : {}),
    ...(target && link?.onDelete !== 'restrict' ? { onDelete: link?.onDelete ?? '' } : {}),
    ...((target ? `${name}_id` : name) === stored.field ? {} : { column: stored.field }),
    ...(stored.labels ? { choices: stored.labels } : {}),
    ...(stored.nullable ? { null: true } : {}),
    ...(isUnique ? { unique: true } : {}),
    ...(about?.comment ? { help: about.comment } : {}),
  };
  const initial = about?.isGenerated ? undefined : defaultOf(about?.default ?? null, type, columnType);
  if (initial === undefined) return definition;
  const withDefault = { ...definition, default: initial };
  const faults = checkValues(withDefault, columnType);
  return faults.some(({ key }) => key === 'default') ? definition : withDefault;
}

function describe(one: Served, served: readonly Served[]): IntrospectedResource {
  const { relation, found, model, key, isProven } = one;
  const columns: IntrospectedColumn[] = [];
  const notes: string[] = [];
  const secrets: string[] = [];
  let isAddable = true;
  const readonly: string[] = [];
  const names = new Set<string>();
  const namesByField = new Map<string, string>();
  for (const stored of found.columns) {
    const { field } = stored;
    const link = linkOf(stored, one, served);
    if (link?.fault !== undefined) notes.push(`${field} refers to ${link.fault}.`);
    if (sameFields(key.fields, [field])) continue;
    const isForeignKey = link !== undefined && link.fault === undefined;
    const keyType = KEY_TYPES[link?.target?.key.type ?? 'integer'];
    const type: NamedType | undefined = isForeignKey
      ? { name: 'foreignKey', type: keyType }
      : typeFor(stored);
    if (!type) {
      const isRequired = !stored.nullable && !stored.hasDefault;
      isAddable &&= !isRequired;
      const consequence = isRequired && !isView(found) ? ' It is required, so no record can be added.' : '';
      notes.push(`${field} is left out: no column type supports ${stored.printed}.${consequence}`);
      continue;
    }
    const fields = found.columns.map((other) => other.field);
    const name = nameColumn(field, isForeignKey, names, fields);
    names.add(name);
    if (isForeignKey) names.add(`${name}_id`);
    namesByField.set(field, name);
    columns.push({ name, definition: defineColumn(stored, name, type, link, one) });
    const about = relation.columns.find((other) => other.field === field);
    // No method writes to a view.
    if (!isView(found) && (stored.generated || (about?.identity ?? '') !== '')) readonly.push(name);
    if (isSecret(field)) secrets.push(name);
  }
  const nameOf = (field: string): string | undefined => namesByField.get(field);
  const foreignKeys: Record<string, PrintedForeignKey> = {};
  for (const foreignKey of found.foreignKeys.filter(({ fields }) => fields.length > 1)) {
    const link = severalOf(foreignKey, served, nameOf);
    if (typeof link === 'string') notes.push(`(${foreignKey.fields.join(', ')}) refers to ${link}.`);
    else {
      const name = uniqueName(link.model, (one) => names.has(one) || names.has(`${one}_id`));
      names.add(name);
      foreignKeys[name] = link.definition;
    }
  }
  const [field = 'id'] = key.fields;
  const isDefaultKey = key.type === 'integer' && field === 'id';
  const partNames = key.fields.flatMap((one) => nameOf(one) ?? []);
  return {
    model,
    table: tableName(relation),
    comment: relation.comment ?? undefined,
    primaryKey:
      isDefaultKey && !isView(found)
        ? undefined
        : key.type
          ? { type: key.type, ...(field === 'id' ? {} : { column: field }) }
          : { columns: partNames },
    columns,
    foreignKeys,
    readonly,
    isAddable: isAddable || isView(found),
    unproven: isProven ? undefined : VIEW_KINDS[relation.kind],
    secrets,
    notes: [...new Set(notes)],
  };
}

const plural = (count: number, name: string): string => (count === 1 ? name : `${count} ${name}s`);

/** How many partitions each partitioned table has, by its schema and name. */
function partitionCounts(relations: readonly Relation[]): Map<string, number> {
  const counts = new Map<string, number>();
  for (const { root } of relations) {
    const key = root && pathOf(root);
    if (key !== null) counts.set(key, (counts.get(key) ?? 0) + 1);
  }
  return counts;
}

const pathOf = ({ schema, name }: Pick<Relation, 'schema' | 'name'>): string => `${schema}.${name}`;

/** Builds a registry for the existing tables, at the access level `default`: everyone reads, no one writes. */
export function introspect(relations: readonly Relation[], catalog: Catalog): Introspection {
  const notes: string[] = [];
  const remarks: string[] = [];
  const served: Served[] = [];
  const partitions = partitionCounts(relations);
  const hasNamesake = ({ name, schema }: Relation): boolean =>
    relations.some((other) => other.name === name && other.schema !== schema && !other.isPartition);
  for (const relation of relations.filter(({ isPartition }) => !isPartition)) {
    const name = tableName(relation);
    const found = serve(relation, hasServableName(relation) ? catalog.get(name) : undefined);
    const count = partitions.get(pathOf(relation)) ?? 0;
    partitions.delete(pathOf(relation));
    if (typeof found === 'string') {
      const neither =
        count > 0 ? ` Neither ${count === 1 ? 'is' : 'are'} its ${plural(count, 'partition')}.` : '';
      notes.push(`${name} is not served: ${found}.${neither}`);
      continue;
    }
    const plain = hasNamesake(relation) ? `${relation.schema}_${relation.name}` : relation.name;
    served.push({ ...found, model: nameModel(plain, (model) => served.some((one) => one.model === model)) });
    if (count > 0)
      remarks.push(
        `${name}: its ${plural(count, 'partition')} ${count === 1 ? 'is' : 'are'} served with it.`,
      );
    if (relation.hasPolicies)
      remarks.push(
        `${name} has row-level security: it applies to the database role of the service, not to its users.`,
      );
  }
  for (const [root, count] of partitions)
    notes.push(
      `${plural(count, 'partition')} of ${root} ${count === 1 ? 'is' : 'are'} not served: that table was not read.`,
    );
  return { resources: served.map((one) => describe(one, served)), notes, remarks };
}
