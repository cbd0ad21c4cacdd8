// Which columns of a table identify its rows.
import type { CatalogTable } from './catalog.ts';

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

/** Whether the columns can be the key: they are unique together, and never NULL. */
export const isKey = (found: CatalogTable, fields: readonly string[]): boolean =>
  areUnique(found, fields) &&
  fields.every((field) =>
    found.columns.some((column) => column.field === field && !column.nullable && !column.mayHoldNulls),
  );
