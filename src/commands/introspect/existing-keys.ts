// The key of an existing table or view, as the registry can name it.
import { isKey, keyTypeFor, sameFields } from '../../db/schema/catalog-keys.ts';
import { VIEW_KINDS, type Catalog, type CatalogTable } from '../../db/schema/catalog.ts';
import { quotedName, quotedTable } from '../../db/fragment.ts';
import type { Relation } from '../../db/schema/relations.ts';
import type { KeyTypeName } from '../../db/types/column-types.ts';
import { isSecret } from './model-names.ts';
import type { ProposedKey } from './proposed-keys.ts';
import { typeFor } from './stored-columns.ts';

export interface Key {
  /** One column, several, or none if nothing proves which columns identify a row. */
  readonly fields: readonly string[];
  /** Undefined for `primaryKey: { columns }`, where each column has its type: several, a foreign key, or a date. */
  readonly type: KeyTypeName | undefined;
}

/** Maximum columns of a key, see `checkCompositeKey`. */
const MAX_PARTS = 8;

/** Why a relation has no key, and what would help. */
export interface KeylessReason {
  readonly fault: string;
  readonly help?: string;
  /** The columns that may be its key, and the tables whose keys they are. */
  readonly proposed?: ProposedKey;
  /** Its key suggests a secret, such as that of a session: it is not served even without. */
  readonly isSecret?: boolean;
}

/** What a relation is, for people. A table with a foreign partition is served like a foreign table. */
export function kindOf(
  { kind, isUnanswered }: Pick<Relation, 'kind' | 'isUnanswered'>,
  found: CatalogTable,
): string | undefined {
  if (kind === 'p') return 'a partitioned table with a foreign partition';
  const name = VIEW_KINDS[found.kind];
  return isUnanswered ? `${name} that cannot be read now (without data, being refreshed, or slow)` : name;
}

/**
 * The columns that serve as the key of a view: those that are known to identify a row. Else the most likely ones are proposed.
 * @param proposed the keys of the tables where its columns come from
 */
export function viewKeyOf(
  relation: Pick<Relation, 'keys' | 'kind' | 'isUnanswered'>,
  found: CatalogTable,
  proposed: ProposedKey | undefined,
): Key | KeylessReason {
  const { keys } = relation;
  const usable = found.columns.flatMap((column) => {
    const type = keyTypeFor(column);
    return type && !isSecret(column.field) ? [{ fields: [column.field], type }] : [];
  });
  const proven = usable.find(({ fields }) => keys.some((key) => sameFields(key, fields)));
  if (proven) return proven;
  for (const fields of keys)
    if (fields.length > 1 && compositeKeyFault(found, fields) === undefined)
      return { fields, type: undefined };
  const fault = `it is ${kindOf(relation, found)}, and nothing proves which columns identify a row`;
  if (proposed && compositeKeyFault(found, proposed.fields) === undefined) return { fault, proposed };
  const likely = usable.find(({ fields: [field] }) => field === 'id') ?? usable[0];
  return likely ? { fault, proposed: { fields: likely.fields, tables: [] } } : { fault };
}

/**
 * The columns that serve as the primary key, or why there are none. Of several keys it is the one that most foreign keys refer
 * to, so that they can be followed, else the first: the primary key, one column before several.
 */
export function keyOf(found: CatalogTable, catalog: Catalog): Key | KeylessReason {
  const primary = found.indexes.find((index) => index.primary)?.fields ?? [];
  const single = [...(primary.length === 1 ? primary : []), ...found.columns.map(({ field }) => field)];
  const several = [primary, ...found.indexes.map(({ fields }) => fields)].filter(({ length }) => length > 1);
  const candidates = [...single.map((field) => [field]), ...several].filter((fields) => isKey(found, fields));
  const references = [...catalog.values()].flatMap(({ foreignKeys }) =>
    foreignKeys.filter(({ target }) => target === found.name),
  );
  const count = (fields: readonly string[]): number =>
    references.filter(({ targetFields }) => sameFields(targetFields.toSorted(), fields.toSorted())).length;
  const faults: KeylessReason[] = [];
  for (const fields of candidates.toSorted((one, other) => count(other) - count(one))) {
    const key = asKey(found, fields);
    if (!('fault' in key)) return key;
    faults.push(key);
  }
  return faults[0] ?? withoutKey(found);
}

/** These columns as the key, or why they cannot be it. */
function asKey(found: CatalogTable, fields: readonly string[]): Key | KeylessReason {
  const [field = ''] = fields;
  const column = found.columns.find((one) => one.field === field);
  const isSingle = fields.length === 1;
  if (isSingle && isSecret(field))
    return {
      fault: `the name of its key ${field} suggests a secret, and everyone would see it as id`,
      help: 'If it is not secret, rename the column, or describe the table yourself.',
      isSecret: true,
    };
  const type = isSingle && column ? keyTypeFor(column) : undefined;
  const fault = type ? undefined : compositeKeyFault(found, fields);
  if (fault === undefined) return { fields, type };
  if (!isSingle)
    return { fault: `its key (${fields.join(', ')}) ${fault}`, help: 'A unique NOT NULL column would help.' };
  const text =
    column?.type === 'bytea' ? `encode(${quotedName(field)}, 'hex')` : `${quotedName(field)}::text`;
  return {
    fault: `its key ${field} is ${column?.printed ?? '?'}, which no key type supports`,
    help: `It can be read through a view: create view ${quotedTable(`${found.name}_view`)} as select ${text} as record_key, * from ${quotedTable(found.name)}.`,
  };
}

function withoutKey({ name, columns, indexes }: CatalogTable): KeylessReason {
  const isNullable = (field: string): boolean =>
    columns.some((column) => column.field === field && column.nullable);
  const almost = indexes.find(
    ({ unique, partial, fields }) => unique && !partial && fields.length <= MAX_PARTS,
  );
  const nullable = almost?.fields.filter(isNullable) ?? [];
  const has = (field: string): boolean => columns.some((column) => column.field === field);
  const added = ['id', 'row_id'].find((field) => !has(field)) ?? 'record_id';
  const changes =
    nullable.length > 0
      ? nullable.map((field) => `alter column ${quotedName(field)} set not null`).join(', ')
      : `add column ${added} bigint generated always as identity primary key`;
  return {
    fault: 'it has no key: neither a primary key nor unique NOT NULL columns',
    help: `This would help: alter table ${quotedTable(name)} ${changes}.`,
  };
}

/** Why columns cannot be `primaryKey: { columns }`. */
function compositeKeyFault(found: CatalogTable, fields: readonly string[]): string | undefined {
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
