import { createStatement, EMPTY, join, sql, table, type Statement } from '../../db/fragment.ts';
import { booleans, oneCell } from '../../db/rows.ts';
import { reference, typed, type Model } from '../../db/schema/model.ts';
import type { Change } from './change.ts';

/**
 * Asks which of these combinations of values another record has already.
 * @param id the record that is being changed, which is not its own duplicate
 * @returns the answers in the order of the combinations
 */
export function duplicatesStatement(
  model: Model,
  id: string | undefined,
  combinations: readonly (readonly Change[])[],
): Statement<boolean[]> {
  const { primaryKey } = model;
  const isOther =
    id === undefined ? EMPTY : sql` and ${reference('r', primaryKey)} <> ${typed(id, primaryKey)}`;
  const each = combinations.map((changes) => {
    const same = changes.map(({ column, value }) => sql`${reference('r', column)} = ${typed(value, column)}`);
    return sql`exists (select from ${table(model.table)} r where ${join(same, ' and ')}${isOther})`;
  });
  return createStatement(sql`select array[${join(each, ', ')}]::bool[]`, oneCell(booleans));
}
