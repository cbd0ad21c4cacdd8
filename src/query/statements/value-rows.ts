// Rows of values in a statement. The text of the statement is the same for any number of them above one.
import { join, raw, sql, value, valueList, type Fragment } from '../../db/fragment.ts';

/** The values of one column in all rows, as one parameter. */
export const cellOf = (values: readonly (string | null)[]): Fragment =>
  values.length === 1 ? value(values[0] ?? null) : valueList(values);

/** The name of a column of the rows. */
export const cellAlias = (index: number): Fragment => raw(`v${index}`);

/**
 * An item of FROM: rows of texts, and their `position`. PostgreSQL reads one row faster without arrays.
 * @param cells the values of each column, see `cellOf`. Several rows need at least one column
 */
export function valueRows(alias: string, cells: readonly Fragment[], size: number): Fragment {
  if (size === 1) {
    const named = cells.map((cell, index) => sql`${cell} as ${cellAlias(index)}, `);
    return sql`(select ${join(named, '')}1 as position) ${raw(alias)}`;
  }
  const names = cells.map((_, index) => cellAlias(index));
  return sql`unnest(${join(cells, ', ')}) with ordinality ${raw(alias)} (${join(names, ', ')}, position)`;
}
