// Builds a registry from the catalog of an existing database.
import { sameFields } from '../../db/schema/catalog-keys.ts';
import { isView, type Catalog, type CatalogColumn, type CatalogTable } from '../../db/schema/catalog.ts';
import { FILLED_BY_DATABASE } from '../../db/schema/model-definition.ts';
import type { Relation } from '../../db/schema/relations.ts';
import { inheritance } from '../../db/schema/schema-differences.ts';
import type { ColumnType } from '../../db/types/column-type.ts';
import { KEY_TYPES } from '../../db/types/column-types.ts';
import { checkValues } from '../../resources/check/check-column.ts';
import { SYSTEM_TABLES } from '../../resources/definition/system-tables.ts';
import {
  linkOf,
  namedForeignKeys,
  compositeForeignKeyOf,
  withColumnKeys,
  type Link,
  type PrintedForeignKey,
  type Served,
} from './existing-foreign-keys.ts';
import { keyOf, viewKeyOf, type KeylessReason } from './existing-keys.ts';
import { isSecret, listNames, nameColumn, nameModel, uniqueName } from './model-names.ts';
import { proposedKey, type ReadRelations } from './proposed-keys.ts';
import { defaultOf, readChecks, typeFor, type NamedType, type Printed } from './stored-columns.ts';
import { fillingTrigger, unclearTriggers } from '../../db/schema/trigger-columns.ts';

interface IntrospectedColumn {
  readonly name: string;
  readonly definition: Readonly<Record<string, Printed>>;
}

/** A resource for an existing table, with notes for its author. */
export interface IntrospectedResource {
  readonly model: string;
  /** As written in the registry. */
  readonly table: string;
  readonly comment: string | undefined;
  readonly primaryKey: Readonly<Record<string, Printed>> | false | undefined;
  /** Why it has no key; undefined if it has one. */
  readonly keyless: KeylessReason | undefined;
  /** The names of the columns that may be its key. */
  readonly proposed: readonly string[];
  readonly columns: readonly IntrospectedColumn[];
  /** Foreign keys of several columns, by name. */
  readonly foreignKeys: Readonly<Record<string, PrintedForeignKey>>;
  readonly readonly: readonly string[];
  /** Whether it is a view, a materialized view or a foreign table. */
  readonly isView: boolean;
  /** Whether it is only read: a view, a foreign table, or a table without a key. */
  readonly isReadOnly: boolean;
  /** Whether records can be added: false if a column that is left out must be set. */
  readonly isAddable: boolean;
  /** Columns whose names suggest secrets. */
  readonly secrets: readonly string[];
  /** Whether a new record needs a value for one of them. */
  readonly hasRequiredSecret: boolean;
  /** Whether row-level security is on, whose policies may ask who the caller is. */
  readonly hasPolicies: boolean;
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

/** The name of a table in a registry: with its schema when the search path does not find it. */
export const tableName = ({ schema, name, isHidden }: Relation): string =>
  isHidden ? `${schema}.${name}` : name;

/** Whether a registry can name the table. */
export const hasServableName = (relation: Relation): boolean =>
  !relation.name.includes('.') && !(relation.isHidden && relation.schema.includes('.'));

/** A relation with its key, if it has one, or why it cannot be served, and what would help. */
function servable(relation: Relation, catalog: Catalog, read: ReadRelations): Omit<Served, 'model'> | string {
  const found = hasServableName(relation) ? catalog.get(tableName(relation)) : undefined;
  if (SYSTEM_TABLES.some(({ model }) => model === relation.name))
    return 'the name is reserved for a system table of the service. Rename it to serve it.';
  if (!hasServableName(relation))
    return 'its name contains a dot. A view of it with another name can be served.';
  if (!found?.hasUsage) return 'the database role may not see it. Grant it usage on the schema.';
  if (!relation.isReadable) return 'the database role may not read it. Grant it select on the table.';
  const key =
    found.childTables.length > 0
      ? { fault: inheritance(found) }
      : isView(found)
        ? viewKeyOf(relation, found, proposedKey(relation, read))
        : keyOf(found, catalog);
  if ('fault' in key && key.isSecret) return `${key.fault}. ${key.help}`;
  return 'fault' in key
    ? { relation, found, key: { fields: [], type: undefined }, keyless: key }
    : { relation, found, key, keyless: undefined };
}

/** Whether a foreign key says that a column has the same values as one that suggests a secret. */
const copiesSecret = ({ foreignKeys }: CatalogTable, field: string): boolean =>
  foreignKeys.some(({ fields, targetFields }) => isSecret(targetFields[fields.indexOf(field)] ?? ''));

/** The definition of a column, its keys in the usual order. */
function defineColumn(
  stored: CatalogColumn,
  name: string,
  { name: type, of: element, type: columnType }: NamedType,
  link: Link | undefined,
  { relation, found, key }: Served,
  choices: readonly Printed[] | undefined,
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
    ...(choices ? { choices } : {}),
    // Nothing in the database says that the key of a view is never NULL.
    ...(stored.nullable && !key.fields.includes(stored.field) ? { null: true } : {}),
    ...(isUnique && !sameFields(key.fields, [stored.field]) ? { unique: true } : {}),
    ...(about?.comment ? { help: about.comment } : {}),
  };
  const initial = about?.isGenerated ? undefined : defaultOf(about?.default ?? null, type, columnType);
  if (initial === undefined) return definition;
  const withDefault = { ...definition, default: initial };
  const faults = checkValues(withDefault, columnType);
  return faults.some(({ key }) => key === 'default') ? definition : withDefault;
}

/** What the author should complete by the check constraints that the registry does not say. */
const checkNote = (check: string, name: string, { bounded }: ColumnType): string =>
  `${name}: PostgreSQL checks ${check}.${bounded ? ' Add min and max if it bounds the value.' : ''}`;

/** What the author should complete by triggers that may fill required columns. */
const triggerNote = (triggers: readonly string[], required: readonly string[]): string =>
  `Before an INSERT, the ${triggers.length === 1 ? 'trigger' : 'triggers'} ${listNames(triggers)} may fill ${listNames(required)}: add default: 'database' to what is always filled.`;

function introspectRelation(one: Served, served: readonly Served[]): IntrospectedResource {
  const { relation, found, model, key, keyless } = one;
  const isReadOnly = isView(found) || keyless !== undefined;
  const columns: IntrospectedColumn[] = [];
  const notes: string[] = [];
  const secrets: string[] = [];
  let isAddable = true;
  let hasRequiredSecret = false;
  const readonly: string[] = [];
  const required: string[] = [];
  const names = new Set<string>();
  const namesByField = new Map<string, string>();
  for (const stored of found.columns) {
    const { field } = stored;
    const link = linkOf(stored, one, served);
    if (link?.fault !== undefined) notes.push(`${field} refers to ${link.fault}.`);
    const isRequired = !isReadOnly && !stored.nullable && !stored.hasDefault && !stored.generated;
    const filling = isRequired ? fillingTrigger(found.triggers, field) : undefined;
    if (key.type && sameFields(key.fields, [field])) continue;
    const isForeignKey = link !== undefined && link.fault === undefined;
    const keyType = KEY_TYPES[link?.target?.key.type ?? 'integer'];
    const type: NamedType | undefined = isForeignKey
      ? { name: 'foreignKey', type: keyType }
      : typeFor(stored);
    if (!type) {
      const isLost = isRequired && filling === undefined;
      isAddable &&= !isLost;
      const consequence = isLost
        ? ' It is required, so no record can be added: a default in SQL would help.'
        : filling === undefined
          ? ''
          : ` The trigger ${filling} fills it.`;
      notes.push(`${field} is left out: no column type supports ${stored.printed}.${consequence}`);
      continue;
    }
    const fields = found.columns.map((other) => other.field);
    // A foreign key `id` is named after its target.
    const from = isForeignKey && field === 'id' ? link.target?.model : undefined;
    const name = nameColumn(from ?? field, isForeignKey, names, fields);
    names.add(name);
    if (isForeignKey) names.add(`${name}_id`);
    namesByField.set(field, name);
    if (filling !== undefined) notes.push(`The trigger ${filling} fills ${name}.`);
    else if (isRequired) required.push(name);
    const about = relation.columns.find((other) => other.field === field);
    const hasLimits = !isForeignKey && !stored.generated;
    const checks = readChecks(hasLimits ? (about?.checks ?? []) : [], type.type);
    notes.push(...checks.others.map((check) => checkNote(check, name, type.type)));
    const choices = stored.labels ?? checks.choices;
    const definition = defineColumn(stored, name, type, link, one, choices);
    columns.push({
      name,
      definition: filling === undefined ? definition : { ...definition, default: FILLED_BY_DATABASE },
    });
    if (!isReadOnly && (stored.generated || (about?.identity ?? '') !== '')) readonly.push(name);
    if (isSecret(field) || copiesSecret(found, field)) {
      secrets.push(name);
      hasRequiredSecret ||= isRequired && filling === undefined;
    }
  }
  const unclear = unclearTriggers(found.triggers);
  if (unclear.length > 0 && required.length > 0) notes.push(triggerNote(unclear, required));
  const nameOf = (field: string): string | undefined => namesByField.get(field);
  const foreignKeys: Record<string, PrintedForeignKey> = {};
  for (const foreignKey of namedForeignKeys(one, served)) {
    const link = compositeForeignKeyOf(foreignKey, served, nameOf);
    if (typeof link === 'string') notes.push(`(${foreignKey.fields.join(', ')}) refers to ${link}.`);
    else {
      const name = uniqueName(link.model, (one) => names.has(one) || names.has(`${one}_id`));
      names.add(name);
      foreignKeys[name] = link.definition;
    }
  }
  const [field = 'id'] = key.fields;
  const isDefaultKey = key.type === 'integer' && field === 'id';
  const namesOf = (fields: readonly string[]): string[] => fields.flatMap((one) => nameOf(one) ?? []);
  return {
    model,
    table: tableName(relation),
    comment: relation.comment ?? undefined,
    primaryKey: keyless
      ? false
      : isDefaultKey && !isView(found)
        ? undefined
        : key.type
          ? { type: key.type, ...(field === 'id' ? {} : { column: field }) }
          : { columns: namesOf(key.fields) },
    keyless,
    proposed: namesOf(keyless?.proposed?.fields ?? []),
    columns,
    foreignKeys,
    readonly,
    isView: isView(found),
    isReadOnly,
    isAddable: isAddable || isReadOnly,
    secrets,
    hasRequiredSecret,
    hasPolicies: relation.hasPolicies,
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

/** What was read of the relations that can be served. */
const byOid = (relations: readonly Relation[], catalog: Catalog): ReadRelations =>
  new Map(
    relations.flatMap((relation) => {
      const found = hasServableName(relation) ? catalog.get(tableName(relation)) : undefined;
      return found ? [[found.oid, { relation, found }] as const] : [];
    }),
  );

/** Builds a registry for the existing tables, at the access level `default`: everyone reads, no one writes. */
export function introspect(relations: readonly Relation[], catalog: Catalog): Introspection {
  const notes: string[] = [];
  const remarks: string[] = [];
  const served: Served[] = [];
  const partitions = partitionCounts(relations);
  const read = byOid(relations, catalog);
  const hasNamesake = ({ name, schema }: Relation): boolean =>
    relations.some((other) => other.name === name && other.schema !== schema && !other.isPartition);
  for (const relation of relations.filter(({ isPartition }) => !isPartition)) {
    const name = tableName(relation);
    const found = servable(relation, catalog, read);
    const count = relation.partitions;
    partitions.delete(pathOf(relation));
    if (typeof found === 'string') {
      const neither =
        count > 0 ? ` Neither ${count === 1 ? 'is' : 'are'} its ${plural(count, 'partition')}.` : '';
      notes.push(`${name} is not served: ${found}${neither}`);
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
        `${name} has row-level security. Its policies see one role, that of the service: with identity they can ask for current_setting('vitrine.user', true).`,
      );
  }
  for (const [root, count] of partitions)
    notes.push(
      `${plural(count, 'partition')} of ${root} ${count === 1 ? 'is' : 'are'} not served: that table was not read.`,
    );
  const keyed = withColumnKeys(served);
  return { resources: keyed.map((one) => introspectRelation(one, keyed)), notes, remarks };
}
