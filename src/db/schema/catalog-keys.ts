// Which columns of a table identify its rows.
import { KEY_TYPE_NAMES, KEY_TYPES, type KeyTypeName } from '../types/column-types.ts';
import type { CatalogColumn, CatalogTable } from './catalog.ts';
import { fieldOf, keyFieldsOf, keyTypeOf, type ModelDefinition } from './model-definition.ts';

export const sameFields = (one: readonly string[], other: readonly string[]): boolean =>
  one.length === other.length && one.every((field, index) => field === other[index]);

/** Whether no two rows have the same value in the column, other than NULL. */
export const isUnique = ({ indexes }: CatalogTable, field: string): boolean =>
  indexes.some(({ unique, partial, fields }) => unique && !partial && sameFields(fields, [field]));

/** Whether a unique index has these columns, in any order. */
export const areUnique = ({ indexes }: CatalogTable, wanted: readonly string[]): boolean =>
  indexes.some(
    ({ unique, partial, fields }) => unique && !partial && sameFields(fields.toSorted(), wanted.toSorted()),
  );

/** Whether the column is in the primary key of the table. */
export const isInPrimaryKey = ({ indexes }: CatalogTable, field: string): boolean =>
  indexes.some(({ primary, fields }) => primary && fields.includes(field));

/** Whether the columns can be the key: they are unique together, and never NULL. */
export const isKey = (found: CatalogTable, fields: readonly string[]): boolean =>
  areUnique(found, fields) &&
  fields.every((field) =>
    found.columns.some((column) => column.field === field && !column.nullable && !column.mayHoldNulls),
  );

/** The type of a key; undefined when no key type accepts it. */
export const keyTypeFor = ({ type }: CatalogColumn): KeyTypeName | undefined =>
  KEY_TYPE_NAMES.find((name) => (KEY_TYPES[name].accepts as readonly string[]).includes(type));

/**
 * The `primaryKey` that makes these columns the key of a model. A key with a type cannot be a column of the model, too, and only
 * some types are types of a key.
 */
export function keyAdvice(
  { columns }: ModelDefinition,
  found: CatalogTable,
  fields: readonly string[],
): string {
  const nameOf = (field: string): string | undefined =>
    Object.entries(columns).find(([name, column]) => fieldOf(name, column) === field)?.[0];
  const missing = fields.filter((field) => nameOf(field) === undefined);
  const [only, ...others] = fields;
  const stored =
    others.length === 0 && missing.length > 0 ? found.columns.find(({ field }) => field === only) : undefined;
  const type = stored && keyTypeFor(stored);
  if (type) return `primaryKey: { type: '${type}', column: '${only}' }`;
  const names = fields.map((field) => `'${nameOf(field) ?? field}'`).join(', ');
  const added = missing.length > 0 ? `, by their names in columns (add ${missing.join(', ')})` : '';
  return `primaryKey: { columns: [${names}] }${added}`;
}

/** Whether the database makes a key of one column. The catalog does not say whether the table of a view does. */
export function isKeyMade(definition: ModelDefinition, found: CatalogTable | undefined): boolean {
  const [key = ''] = keyFieldsOf(definition);
  const stored = found?.columns.find(({ field }) => field === key);
  return stored && found?.kind !== 'v' ? stored.hasDefault : keyTypeOf(definition) !== 'string';
}
