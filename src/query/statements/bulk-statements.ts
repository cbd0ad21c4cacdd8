// Statements about all records that a plan matches: update, delete, count, and the bounds of a column.
import { EMPTY, exactText, identifier, join, raw, sql, value, type Fragment } from '../../db/fragment.ts';
import {
  type RawRow,
  type Statement,
  booleans,
  createStatement,
  json,
  number,
  oneCell,
  text,
} from '../../db/rows.ts';
import { reference, servedRow, typed, type Column, type Model } from '../../db/schema/model.ts';
import { writtenTable } from '../source.ts';
import {
  authorSql,
  changedValues,
  historyInsert,
  returningHistory,
  wholeRow,
  type Recording,
} from './history-sql.ts';
import { ROOT, type ListPlan } from '../plan.ts';
import { fromWhere, mayBlock } from '../read.ts';
import type { Author, Change } from './change.ts';
import { assigned, bindCheck, checkSql, FOUND, type Check } from './check-statements.ts';

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
  sql`chosen as materialized (select ${servedRow(ROOT, plan.model)}${fromWhere(plan)}${plan.model.isLockable ? raw(` for ${lock} of ${ROOT}`) : EMPTY})`;

/**
 * Reads all chosen rows and the new values before any row changes. A trigger of the first row may change settings that determine how
 * PostgreSQL reads them.
 */
const given = (values: readonly Fragment[] = []): Fragment =>
  sql`given as materialized (select count(*)${join(
    values.map((one, index) => sql`, ${one} as ${givenAlias(index)}`),
    '',
  )} from chosen)`;

const givenAlias = (index: number): Fragment => raw(`v${index}`);

/** A row of the CTE, under the alias that checks use. */
const CHOSEN_ROW = raw(`chosen ${FOUND}, given`);

const sameRow = (model: Model): Fragment =>
  sql`${reference(ROOT, model.primaryKey)} = ${reference(FOUND, model.primaryKey)}`;

/** Numbers of records: those that the plan matches, those that should change, and those that changed. Then the results of checks. */
const readCounts = ([row]: readonly RawRow[]) => ({
  matched: number(row?.[0]),
  attempted: number(row?.[1]),
  done: number(row?.[2]),
  results: booleans(row?.[3]),
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
    ? returningHistory(ROOT, model.primaryKey, wholeRow(ROOT, recording), raw('null'))
    : EMPTY;
  const deleted = sql`deleted as (delete from ${writtenTable(model)} ${raw(ROOT)} using ${CHOSEN_ROW} where ${sameRow(model)} returning true${returning})`;
  const intoHistory = recording ? historyInsert(recording, authorSql(author), 'delete', 'deleted') : EMPTY;
  const counts = raw(
    '(select count(*) from chosen), (select count(*) from chosen), (select count(*) from deleted)',
  );
  return createStatement(
    sql`with ${chosen(plan, 'update')}, ${given()}, ${deleted}${intoHistory} select ${counts}`,
    readCounts,
  );
}

/**
 * Updates all records that the plan matches and whose values differ.
 * @param checks whether all records that change satisfy each; the update does not depend on the results
 */
export function bulkUpdateStatement(
  plan: ListPlan,
  changes: readonly Change[],
  checks: readonly Check[],
  author: Author,
  recording: Recording | undefined,
): Statement<BulkCounts> {
  const { model } = plan;
  const newValue = ({ column }: Change, index: number): Fragment =>
    assigned(sql`given.${givenAlias(index)}`, column);
  const sets = changes.map(
    (change, index) => sql`${identifier(change.column.field)} = ${newValue(change, index)}`,
  );
  // Compares with the locked row: the statement's snapshot may have an older version.
  const conditions = changes.map(
    (change, index) =>
      sql`${exactText(reference(FOUND, change.column))} is distinct from ${exactText(newValue(change, index))}`,
  );
  const differs = join(conditions, ' or ');
  const states = [FOUND, ROOT] as const;
  const returning = recording
    ? returningHistory(
        ROOT,
        model.primaryKey,
        changedValues(FOUND, changes, recording, states),
        changedValues(ROOT, changes, recording, states),
      )
    : EMPTY;
  const changed = sql`changed as (update ${writtenTable(model)} ${raw(ROOT)} set ${join(sets, ', ')} from ${CHOSEN_ROW} where ${sameRow(model)} and (${differs}) returning true${returning})`;
  const intoHistory = recording ? historyInsert(recording, authorSql(author), 'update', 'changed') : EMPTY;
  const attempted = sql`from ${CHOSEN_ROW} where (${differs})`;
  const results = checks.map(
    (check) => sql`not exists (select ${attempted} and not ${checkSql(bindCheck(check, value))})`,
  );
  const counts = sql`(select count(*) from chosen), (select count(*) ${attempted}), (select count(*) from changed), array[${join(results, ', ')}]::bool[]`;
  const values = given(changes.map(({ column, value }) => typed(value, column)));
  const query = sql`with ${chosen(plan, 'no key update')}, ${values}, ${changed}${intoHistory} select ${counts}`;
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
