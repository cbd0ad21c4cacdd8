// Statements about all records that a plan matches: counts, also of each value of a column.
import { join, raw, sql, type Fragment } from '../../db/fragment.ts';
import { type Statement, createStatement, isTrue, json, number, oneCell, text } from '../../db/rows.ts';
import { output, type Column } from '../../db/schema/model.ts';
import { ROOT, type ListPlan } from '../plan.ts';
import { fromWhere, mayBlock } from '../read.ts';

/** The plan restricted to the records with these ids. */
export function chosenOnly(plan: ListPlan, ids: readonly string[]): ListPlan {
  const key = { alias: ROOT, column: plan.model.primaryKey };
  return { ...plan, where: [...plan.where, { ...key, operator: 'in', values: ids, negated: false }] };
}

/** Counts the records that the plan matches, up to one more than the cap. */
export const cappedCountStatement = (plan: ListPlan, cap: number): Statement<number> =>
  createStatement(
    sql`select count(*) from (select${fromWhere(plan)} limit ${raw(String(cap + 1))}) c`,
    oneCell(number),
  );

/** Which of these rules the record that the plan matches meets; undefined is met by all records. */
export const metRulesStatement = (
  plan: ListPlan,
  rules: readonly (Fragment | undefined)[],
): Statement<boolean[]> =>
  createStatement(
    sql`select ${join(
      rules.map((rule) => (rule ? sql`coalesce(${rule}, false)` : raw('true'))),
      ', ',
    )}${fromWhere(plan)}`,
    ([row = []]) => row.map(isTrue),
  );

type Explained = readonly { readonly Plan?: { readonly 'Plan Rows'?: number } }[];

/** The query planner's estimate of how many records the plan matches. */
export const estimateStatement = (plan: ListPlan): Statement<number> =>
  createStatement(sql`explain (format json) select${fromWhere(plan)}`, ([row]) => {
    const [first] = json<Explained>(row?.[0]);
    return first?.Plan?.['Plan Rows'] ?? 0;
  });

/** Counts the records that the plan matches. */
export const countStatement = (plan: ListPlan): Statement<number> => ({
  ...createStatement(sql`select count(*)${fromWhere(plan)}`, oneCell(number)),
  mayBlock: mayBlock(plan),
});

/**
 * How many of the records that the plan matches have each value of a column, by its text.
 * @returns undefined for more records than the cap
 */
export const valueCountsStatement = (
  plan: ListPlan,
  column: Column,
  cap: number,
): Statement<ReadonlyMap<string | null, number> | undefined> =>
  createStatement(
    sql`select value, count(*) from (select (${output(ROOT, column)})::text as value${fromWhere(plan)} limit ${raw(String(cap + 1))}) c group by value`,
    (rows) => {
      const counts = new Map(rows.map(([value, count]) => [text(value), Number(text(count))] as const));
      const all = [...counts.values()].reduce((sum, count) => sum + count, 0);
      return all > cap ? undefined : counts;
    },
  );
