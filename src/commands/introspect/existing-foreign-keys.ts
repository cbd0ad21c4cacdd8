// The foreign keys of existing tables, as the registry can name them.
import {
  sameFields,
  type CatalogColumn,
  type CatalogForeignKey,
  type CatalogTable,
} from '../../db/schema/catalog.ts';
import type { Relation } from '../../db/schema/relations.ts';
import { KEY_TYPES } from '../../db/types/column-types.ts';
import type { Printed } from './default-value.ts';
import type { Key } from './existing-keys.ts';

export type PrintedForeignKey = Readonly<Record<string, Printed>> & { readonly columns: readonly string[] };

/** A table or view that is served. */
export interface Served {
  readonly relation: Relation;
  readonly found: CatalogTable;
  readonly model: string;
  readonly key: Key;
  readonly isProven: boolean;
}

export interface Link {
  readonly target: Served | undefined;
  readonly onDelete: string;
  /** Why it cannot be a foreign key in the registry, as the end of "... refers to ..."; undefined when it can. */
  readonly fault: string | undefined;
}

/** The foreign key of a column, preferring one that the registry can express. */
export function linkOf(
  stored: CatalogColumn,
  { found, key }: Served,
  served: readonly Served[],
): Link | undefined {
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
export function severalOf(
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
