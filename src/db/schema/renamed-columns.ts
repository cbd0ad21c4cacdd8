// Columns that the registry has renamed, and that the database still has under a name before.
import { quotedName } from '../fragment.ts';
import { isTable, type Catalog, type CatalogTable } from './catalog.ts';
import { fieldOf, jsonKeyOf, keyFieldsOf, tableOf, type ModelDefinition } from './model-definition.ts';

/** The columns of a table that no resource has. */
export function leftOverFields(found: CatalogTable, definitions: readonly ModelDefinition[]): string[] {
  const served = definitions
    .filter((one) => tableOf(one) === found.name)
    .flatMap((one) => [
      ...keyFieldsOf(one),
      ...Object.entries(one.columns).map(([name, column]) => fieldOf(name, column)),
    ]);
  return found.columns.map(({ field }) => field).filter((field) => !served.includes(field));
}

/** What a column that the table lacks is called there, if that is a name that it had before, as any resource of the table says. */
export function formerField(
  name: string,
  { columns }: ModelDefinition,
  definitions: readonly ModelDefinition[],
  found: CatalogTable | undefined,
): string | undefined {
  const column = columns[name];
  if (!column || !found || !isTable(found)) return undefined;
  const present = fieldOf(name, column);
  if (found.columns.some(({ field }) => field === present)) return undefined;
  const former = definitions
    .filter((one) => tableOf(one) === found.name)
    .flatMap((one) => Object.entries(one.columns))
    .filter(([other, one]) => fieldOf(other, one) === present)
    .flatMap(([, one]) => (one.formerly ?? []).map((old) => jsonKeyOf(old, one)));
  const unused = former.length === 0 ? [] : leftOverFields(found, definitions);
  return former.find((field) => unused.includes(field));
}

/** The change of a table that renames a column. */
export const renameClause = (from: string, to: string): string =>
  `rename column ${quotedName(from)} to ${quotedName(to)}`;

/** A column of a table that has a new name. */
interface Rename {
  readonly table: string;
  readonly from: string;
  readonly to: string;
}

/** Once for each column, however many resources say it. */
export function renamesOf(definitions: readonly ModelDefinition[], catalog: Catalog): Rename[] {
  const renames = definitions.flatMap((definition) => {
    const table = tableOf(definition);
    return Object.entries(definition.columns).flatMap(([name, column]) => {
      const from = formerField(name, definition, definitions, catalog.get(table));
      return from === undefined ? [] : [{ table, from, to: fieldOf(name, column) }];
    });
  });
  return [...new Map(renames.map((one) => [`${one.table} ${one.from}`, one])).values()];
}

/** The catalog as it is once these columns have their new names, so that nothing else is missing because of them. */
export function afterRenames(renames: readonly Rename[], catalog: Catalog): Catalog {
  const namesIn = (table: string | null) => (fields: readonly string[]) =>
    fields.map((field) => renames.find((one) => one.table === table && one.from === field)?.to ?? field);
  return new Map(
    [...catalog].map(([table, found]) => {
      const names = namesIn(table);
      const after = {
        ...found,
        columns: found.columns.map((one) => ({ ...one, field: names([one.field]).join('') })),
        indexes: found.indexes.map((one) => ({ ...one, fields: names(one.fields) })),
        foreignKeys: found.foreignKeys.map((one) => ({
          ...one,
          fields: names(one.fields),
          targetFields: namesIn(one.target)(one.targetFields),
        })),
        unenforced: found.unenforced.map(names),
      };
      return [table, after];
    }),
  );
}
