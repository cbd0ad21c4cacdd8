import { compile, EMPTY, join, sql, table, type Statement } from '../../db/fragment.ts';
import { reference, typed, type Model } from '../../db/schema/model.ts';
import type { Change } from './change.ts';

/**
 * Which of these combinations of values a record has already: an array of booleans in their order.
 * @param id the record that is being changed, which is not its own duplicate
 */
export function duplicatesStatement(
  model: Model,
  id: string | undefined,
  combinations: readonly (readonly Change[])[],
): Statement {
  const { primaryKey } = model;
  const isOther =
    id === undefined ? EMPTY : sql` and ${reference('r', primaryKey)} <> ${typed(id, primaryKey)}`;
  const each = combinations.map((changes) => {
    const same = changes.map(({ column, value }) => sql`${reference('r', column)} = ${typed(value, column)}`);
    return sql`exists (select from ${table(model.table)} r where ${join(same, ' and ')}${isOther})`;
  });
  return compile(sql`select array[${join(each, ', ')}]::bool[]`);
}
