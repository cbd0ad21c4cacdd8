// The foreign keys of existing tables, as the registry can name them.
import { sameFields } from '../../db/schema/catalog-keys.ts';
import {
  isTable,
  type CatalogColumn,
  type CatalogForeignKey,
  type CatalogTable,
} from '../../db/schema/catalog.ts';
import type { Relation } from '../../db/schema/relations.ts';
import { KEY_TYPES } from '../../db/types/column-types.ts';
import { defaultOf, type Printed } from './stored-columns.ts';
import type { Key, KeylessReason } from './existing-keys.ts';

export type PrintedForeignKey = Readonly<Record<string, Printed>> & { readonly columns: readonly string[] };

/** A table or view that is served. */
export interface Served {
  readonly relation: Relation;
  readonly found: CatalogTable;
  readonly model: string;
  readonly key: Key;
  /** Why it has no key; undefined if it has one. */
  readonly keyless: KeylessReason | undefined;
}

export interface Link {
  readonly target: Served | undefined;
  readonly onDelete: string;
  /** Why it cannot be a foreign key in the registry, as the end of "... refers to ..."; undefined when it can. */
  readonly fault: string | undefined;
}

/** The foreign key of a column, preferring one that the registry can express. */
export function linkOf(stored: CatalogColumn, one: Served, served: readonly Served[]): Link | undefined {
  const { found, key } = one;
  const named = namedForeignKeys(one, served);
  const links = found.foreignKeys
    .filter((foreignKey) => sameFields(foreignKey.fields, [stored.field]) && !named.includes(foreignKey))
    .map((foreignKey): Link => {
      const { onDelete } = foreignKey;
      const target = served.find(({ found: other }) => other.name === foreignKey.target);
      const link = (fault?: string): Link => ({ target, onDelete, fault });
      if (!target) return link('a table that is not served');
      if (!target.key.type || !sameFields(foreignKey.targetFields, target.key.fields))
        return link(
          `${foreignKey.targetFields.join(', ')} of ${target.model}, which is not the key that serves as its id`,
        );
      if (key.type && sameFields(key.fields, [stored.field]))
        return link(
          `${target.model}. It is the key that other tables refer to, so it cannot be served as a foreign key too`,
        );
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

const refersTo =
  ({ found, key }: Served) =>
  ({ target, targetFields }: CatalogForeignKey): boolean =>
    target === found.name && sameFields(targetFields, key.fields);

/** Whether the default of a key is a value, such as an empty text: the database does not make the key. */
function hasPlainDefault({ relation, key: { fields, type } }: Served): boolean {
  const [field] = fields;
  const stored = relation.columns.find((one) => one.field === field);
  return type !== undefined && defaultOf(stored?.default ?? null, type, KEY_TYPES[type]) !== undefined;
}

/**
 * Some keys become `primaryKey: { columns }`. A key that is also a foreign key can then be followed, unless other tables refer
 * to it: their foreign keys are followed instead. A key with a plain default can be set by clients.
 */
export function withColumnKeys(served: readonly Served[]): Served[] {
  return served.map((one) => {
    const { found, key } = one;
    const isForeign = found.foreignKeys.some(
      (link) =>
        sameFields(link.fields, key.fields) &&
        served.some((other) => other.key.type !== undefined && refersTo(other)(link)),
    );
    const isReferenced = served.some((other) => other.found.foreignKeys.some(refersTo(one)));
    const isOfColumns = (isForeign && !isReferenced) || hasPlainDefault(one);
    return isOfColumns && isTable(found) ? { ...one, key: { ...key, type: undefined } } : one;
  });
}

/** The foreign keys that the registry names in `foreignKeys`: of several columns, or to `primaryKey: { columns }`. */
export const namedForeignKeys = ({ found }: Served, served: readonly Served[]): CatalogForeignKey[] =>
  found.foreignKeys.filter(
    (link) =>
      link.fields.length > 1 || served.some((other) => other.key.type === undefined && refersTo(other)(link)),
  );

/** A foreign key of several columns as the registry defines it, or why it cannot, as the end of "... refers to ...". */
export function compositeForeignKeyOf(
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
