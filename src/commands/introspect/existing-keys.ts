// The key of an existing table or view, as the registry can name it.
import { isKey, isUnique, sameFields, VIEW_KINDS, type CatalogTable } from '../../db/schema/catalog.ts';
import type { Relation } from '../../db/schema/relations.ts';
import type { KeyTypeName } from '../../db/types/column-types.ts';
import { isSecret } from './model-names.ts';
import { keyTypeFor, typeFor } from './stored-types.ts';

export interface Key {
  /** One column, or several. */
  readonly fields: readonly string[];
  /** Undefined for several columns, each of which has its type. */
  readonly type: KeyTypeName | undefined;
}

/** Maximum columns of a key, see `checkCompositeKey`. */
const MAX_PARTS = 8;

/** The columns that serve as the key of a view: those that are known to identify a row, else the most likely one. */
export function viewKeyOf(
  { keys, kind }: Relation,
  found: CatalogTable,
): { readonly key: Key; readonly isProven: boolean } | string {
  const usable = found.columns.flatMap((column) => {
    const type = keyTypeFor(column);
    return type && !isSecret(column.field) ? [{ fields: [column.field], type }] : [];
  });
  const proven = usable.find(({ fields: [field = ''] }) =>
    kind === 'm' ? isUnique(found, field) : keys.some((key) => sameFields(key, [field])),
  );
  if (proven) return { key: proven, isProven: true };
  const several =
    kind === 'm'
      ? found.indexes.filter(({ unique, partial }) => unique && !partial).map(({ fields }) => fields)
      : keys;
  for (const fields of several)
    if (fields.length > 1 && severalFault(found, fields) === undefined)
      return { key: { fields, type: undefined }, isProven: true };
  const key = usable.find(({ fields: [field] }) => field === 'id') ?? usable[0];
  return key ? { key, isProven: false } : `it is ${VIEW_KINDS[kind]}, and none of its columns can be its key`;
}

/** The column that serves as the primary key, or why there is none. */
export function keyOf(found: CatalogTable): Key | { readonly fault: string } {
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
