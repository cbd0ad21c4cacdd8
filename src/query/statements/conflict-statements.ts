// Statements that find out why the database rejected a write: duplicate values, or references to the record.
import { EMPTY, join, sql, table, type Fragment } from '../../db/fragment.ts';
import { type Statement, booleans, createStatement, oneCell } from '../../db/rows.ts';
import { reference, typed, type Column, type Model } from '../../db/schema/model.ts';
import type { Change } from './change.ts';

/** Asks which conditions hold for any row `r` of their table. @returns the answers in the order of the conditions */
const anyRow = (conditions: readonly { model: Model; condition: Fragment }[]): Statement<boolean[]> => {
  const each = conditions.map(
    ({ model, condition }) => sql`exists (select from ${table(model.table)} r where ${condition})`,
  );
  return createStatement(sql`select array[${join(each, ', ')}]::bool[]`, oneCell(booleans));
};

const isOther = ({ primaryKey }: Model, id: string): Fragment =>
  sql` and ${reference('r', primaryKey)} <> ${typed(id, primaryKey)}`;

/**
 * Asks which of these combinations of values another record has already.
 * @param id the record that is being changed, which is not its own duplicate
 */
export function duplicatesStatement(
  model: Model,
  id: string | undefined,
  combinations: readonly (readonly Change[])[],
): Statement<boolean[]> {
  const other = id === undefined ? EMPTY : isOther(model, id);
  const conditions = combinations.map((changes) => {
    const same = changes.map(({ column, value }) => sql`${reference('r', column)} = ${typed(value, column)}`);
    return { model, condition: sql`${join(same, ' and ')}${other}` };
  });
  return anyRow(conditions);
}

/** Asks which of these foreign keys refer to the record from another row. A record that refers to itself can be deleted. */
export const referrersStatement = (
  foreignKeys: readonly { model: Model; column: Column }[],
  id: string,
): Statement<boolean[]> =>
  anyRow(
    foreignKeys.map(({ model, column }) => {
      const other = model === column.references ? isOther(model, id) : EMPTY;
      return { model, condition: sql`${reference('r', column)} = ${typed(id, column)}${other}` };
    }),
  );
