import {
  compile,
  EMPTY,
  identifier,
  join,
  raw,
  sql,
  table,
  type Fragment,
  type Statement,
} from '../../db/fragment.ts';
import { reference, typed, type Model } from '../../db/schema/model.ts';
import { changedValues, logged, returningLog, wholeRow, type Recording } from './history-sql.ts';
import { ROOT, type ListPlan } from '../plan.ts';
import { source } from './read-statements.ts';
import type { Change } from './change.ts';

/** The plan for these records alone, of those that it matches. */
export function chosenOnly(plan: ListPlan, ids: readonly string[]): ListPlan {
  const key = { alias: ROOT, column: plan.model.primaryKey };
  return { ...plan, where: [...plan.where, { ...key, operator: 'in', values: ids, negated: false }] };
}

/**
 * The rows that the plan matches, all pages of it, locked. What it asks of them is asked again of a row that another transaction
 * has changed meanwhile, because it stands beside the lock.
 */
const chosen = (plan: ListPlan, lock: 'update' | 'no key update'): Fragment =>
  sql`chosen as materialized (select ${raw(ROOT)}.*${source(plan)} for ${raw(lock)} of ${raw(ROOT)})`;

const sameRow = (model: Model): Fragment =>
  sql`${reference(ROOT, model.primaryKey)} = ${reference('f', model.primaryKey)}`;

/** Deletes everything that the plan matches. @returns one row: how many records it matches, and how many are gone */
export function bulkDeleteStatement(plan: ListPlan, recording?: Recording): Statement {
  const { model } = plan;
  const returning = recording
    ? returningLog(ROOT, model.primaryKey, wholeRow(ROOT, recording), raw('null'))
    : EMPTY;
  const gone = sql`gone as (delete from ${table(model.table)} ${raw(ROOT)} using chosen f where ${sameRow(model)} returning true${returning})`;
  const log = recording ? logged(recording, 'delete', 'gone') : EMPTY;
  return compile(
    sql`with ${chosen(plan, 'update')}, ${gone}${log} select ${raw('(select count(*) from chosen), (select count(*) from gone)')}`,
  );
}

/**
 * Gives columns new values in everything that the plan matches.
 * @returns one row: how many records it matches, in how many of them something would change, and in how many it does
 */
export function bulkUpdateStatement(
  plan: ListPlan,
  changes: readonly Change[],
  recording?: Recording,
): Statement {
  const { model } = plan;
  const fresh = ({ column, value }: Change): Fragment => {
    const text = typed(value, column);
    return column.type.assign?.(text, reference('f', column), column) ?? text;
  };
  const sets = changes.map((change) => sql`${identifier(change.column.field)} = ${fresh(change)}`);
  const differs = (alias: string): Fragment => {
    const each = changes.map(
      (change) => sql`${reference(alias, change.column)}::text is distinct from (${fresh(change)})::text`,
    );
    return join(each, ' or ');
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
  const log = recording ? logged(recording, 'update', 'changed') : EMPTY;
  const counts = sql`(select count(*) from chosen), (select count(*) from chosen f where ${differs('f')}), (select count(*) from changed)`;
  return compile(sql`with ${chosen(plan, 'no key update')}, ${changed}${log} select ${counts}`);
}

/** How many records the plan matches, counted no further than one past the cap. */
export const cappedCountStatement = (plan: ListPlan, cap: number): Statement =>
  compile(sql`select count(*) from (select${source(plan)} limit ${raw(String(cap + 1))}) c`);

/** PostgreSQL's own guess of how many records the plan matches: one row of JSON text. */
export function estimateStatement(plan: ListPlan): Statement {
  const { text, values } = compile(sql`select${source(plan)}`);
  return { text: `explain (format json) ${text}`, values };
}
