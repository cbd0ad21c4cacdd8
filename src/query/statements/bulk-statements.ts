// Statements about all records that a plan matches: counts, and the bounds of a column.
import { EMPTY, join, raw, sql, type Fragment } from '../../db/fragment.ts';
import { type Statement, createStatement, isTrue, json, number, oneCell, text } from '../../db/rows.ts';
import { reference, type Column } from '../../db/schema/model.ts';
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

/** Ordinary dates: not infinite, and within the years 1 to 9999. */
const CALENDAR_RANGE = { gte: '0001-01-01', lt: '10000-01-01' } as const;

/**
 * The earliest and the latest value of a date or date-time column, within the years 1 to 9999.
 * @returns both as in the output; undefined if there are none
 */
export function boundsStatement(
  all: ListPlan,
  column: Column,
): Statement<readonly [string, string] | undefined> {
  const limits = (['gte', 'lt'] as const).map((operator) => ({
    alias: ROOT,
    column,
    operator,
    values: [CALENDAR_RANGE[operator]],
    negated: false,
  }));
  const plan = { ...all, where: [...all.where, ...limits] };
  const [least, greatest] = ['min', 'max'].map((name) =>
    column.type.output(sql`${raw(name)}(${reference(ROOT, column)})`, column),
  );
  return createStatement(sql`select ${least ?? EMPTY}, ${greatest ?? EMPTY}${fromWhere(plan)}`, ([row]) => {
    const [first, last] = [text(row?.[0]), text(row?.[1])];
    return first !== null && last !== null ? [first, last] : undefined;
  });
}
