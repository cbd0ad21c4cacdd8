// Statements about all records that a plan matches: update, delete, count.
import { EMPTY, identifier, join, raw, sql, table, type Fragment } from '../../db/fragment.ts';
import { type RawRow, type Statement, createStatement, json, number, oneCell } from '../../db/rows.ts';
import { reference, typed, type Model } from '../../db/schema/model.ts';
import {
  authorSql,
  changedValues,
  logInsert,
  returningLog,
  wholeRow,
  type Recording,
} from './history-sql.ts';
import { ROOT, type ListPlan } from '../plan.ts';
import { fromWhere } from './read-statements.ts';
import type { Author, Change } from './change.ts';

/** The plan restricted to the records with these ids. */
export function chosenOnly(plan: ListPlan, ids: readonly string[]): ListPlan {
  const key = { alias: ROOT, column: plan.model.primaryKey };
  return { ...plan, where: [...plan.where, { ...key, operator: 'in', values: ids, negated: false }] };
}

/**
 * Locks all rows that the plan matches, on all pages. Conditions and lock share one select, so PostgreSQL checks the conditions
 * again if another transaction has changed the row.
 */
const chosen = (plan: ListPlan, lock: 'update' | 'no key update'): Fragment =>
  sql`chosen as materialized (select ${raw(ROOT)}.*${fromWhere(plan)}${plan.model.isLockable ? raw(` for ${lock} of ${ROOT}`) : EMPTY})`;

const sameRow = (model: Model): Fragment =>
  sql`${reference(ROOT, model.primaryKey)} = ${reference('f', model.primaryKey)}`;

/** Numbers of records: those that the plan matches, those that should change, and those that changed. */
const readCounts = ([row]: readonly RawRow[]) => ({
  matched: number(row?.[0]),
  attempted: number(row?.[1]),
  done: number(row?.[2]),
});

export type BulkCounts = ReturnType<typeof readCounts>;

/** Deletes all records that the plan matches. */
export function bulkDeleteStatement(
  plan: ListPlan,
  author: Author,
  recording: Recording | undefined,
): Statement<BulkCounts> {
  const { model } = plan;
  const returning = recording
    ? returningLog(ROOT, model.primaryKey, wholeRow(ROOT, recording), raw('null'))
    : EMPTY;
  const gone = sql`gone as (delete from ${table(model.table)} ${raw(ROOT)} using chosen f where ${sameRow(model)} returning true${returning})`;
  const log = recording ? logInsert(recording, authorSql(author), 'delete', 'gone') : EMPTY;
  const counts = raw(
    '(select count(*) from chosen), (select count(*) from chosen), (select count(*) from gone)',
  );
  return createStatement(sql`with ${chosen(plan, 'update')}, ${gone}${log} select ${counts}`, readCounts);
}

/** Updates all records that the plan matches and whose values differ. */
export function bulkUpdateStatement(
  plan: ListPlan,
  changes: readonly Change[],
  author: Author,
  recording: Recording | undefined,
): Statement<BulkCounts> {
  const { model } = plan;
  const newValue = ({ column, value }: Change): Fragment => {
    const text = typed(value, column);
    return column.type.assign?.(text, reference('f', column), column) ?? text;
  };
  const sets = changes.map((change) => sql`${identifier(change.column.field)} = ${newValue(change)}`);
  const differs = (alias: string): Fragment => {
    const conditions = changes.map(
      (change) => sql`${reference(alias, change.column)}::text is distinct from (${newValue(change)})::text`,
    );
    return join(conditions, ' or ');
  };
  const states = ['f', ROOT] as const;
  const returning = recording
    ? returningLog(
        ROOT,
        model.primaryKey,
        changedValues('f', changes, recording, states),
        changedValues(ROOT, changes, recording, states),
      )
    : EMPTY;
  const changed = sql`changed as (update ${table(model.table)} ${raw(ROOT)} set ${join(sets, ', ')} from chosen f where ${sameRow(model)} and (${differs(ROOT)}) returning true${returning})`;
  const log = recording ? logInsert(recording, authorSql(author), 'update', 'changed') : EMPTY;
  const counts = sql`(select count(*) from chosen), (select count(*) from chosen f where ${differs('f')}), (select count(*) from changed)`;
  const query = sql`with ${chosen(plan, 'no key update')}, ${changed}${log} select ${counts}`;
  return createStatement(query, readCounts);
}

/** Counts the records that the plan matches, up to one more than the cap. */
export const cappedCountStatement = (plan: ListPlan, cap: number): Statement<number> =>
  createStatement(
    sql`select count(*) from (select${fromWhere(plan)} limit ${raw(String(cap + 1))}) c`,
    oneCell(number),
  );

type Explained = readonly { readonly Plan?: { readonly 'Plan Rows'?: number } }[];

/** The query planner's estimate of how many records the plan matches. */
export const estimateStatement = (plan: ListPlan): Statement<number> =>
  createStatement(sql`explain (format json) select${fromWhere(plan)}`, ([row]) => {
    const [first] = json<Explained>(row?.[0]);
    return first?.Plan?.['Plan Rows'] ?? 0;
  });
