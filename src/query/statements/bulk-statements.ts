// Statements about all records that a plan matches: counts, the place of a record, and what a change would touch.
import { EMPTY, exactText, IN_PLACE, join, raw, sql, value, type Fragment } from '../../db/fragment.ts';
import {
  type Statement,
  createStatement,
  isTrue,
  json,
  nothing,
  number,
  oneCell,
  text,
} from '../../db/rows.ts';
import { output, reference, type Column } from '../../db/schema/model.ts';
import { afterBoundary, backward } from '../after-boundary.ts';
import { ROOT, type Boundary, type ListPlan } from '../plan.ts';
import { fromWhere, mayBlock } from '../read.ts';
import { countedBytes, faultsSql, newValue } from './new-values.ts';
import type { Change } from './write-plan.ts';

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

/** The number of a record in a list, from 1, and how many records the list has. */
export interface Place {
  readonly number: number;
  readonly count: number;
}

/**
 * The place of a record in a list.
 * @param keys the record's values in the columns of the ordering
 * @returns undefined for a record that the list does not have, and for a list of more records than the cap
 */
export function placeStatement(
  plan: ListPlan,
  keys: Boundary['keys'],
  cap: number,
): Statement<Place | undefined> {
  const isBefore = (isInclusive: boolean): Fragment => {
    const boundary = { keys, isBackward: true, isInclusive };
    const conditions = afterBoundary(boundary, backward(plan.orderings), IN_PLACE);
    return sql`(${join(conditions, ' or ')})`;
  };
  const rows = sql`select ${isBefore(false)} as before, ${isBefore(true)} as until${fromWhere(plan)} limit ${raw(String(cap + 1))}`;
  return createStatement(
    sql`select count(*) filter (where before), count(*) filter (where until), count(*) from (${rows}) r`,
    ([row = []]) => {
      const [before = 0, until = 0, count = 0] = row.map(number);
      return until > before && count <= cap ? { number: until, count } : undefined;
    },
  );
}

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

/** The keys of the first records that the plan matches. */
export const keysStatement = (plan: ListPlan, max: number): Statement<string[]> => {
  const { primaryKey } = plan.model;
  return createStatement(
    sql`select ${output(ROOT, primaryKey)}::text${fromWhere(plan)} order by ${reference(ROOT, primaryKey)} limit ${raw(String(max))}`,
    (rows) => rows.map(([key]) => text(key) ?? ''),
  );
};

/** Locks the records that the plan matches, so that no other transaction changes them. */
export const lockRecordsStatement = (plan: ListPlan): Statement<void> => {
  const { primaryKey } = plan.model;
  return createStatement(
    sql`select true${fromWhere(plan)} order by ${reference(ROOT, primaryKey)} for no key update of ${raw(ROOT)}`,
    nothing,
  );
};

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

/** The records that a change of a selection would touch. */
export interface ChangePreview {
  /** How many there are. */
  readonly count: number;
  /** See `faultsSql`. */
  readonly faults: string;
  /** The first of them by their key, with the present value of each changed column. Long texts are cut around the first match. */
  readonly records: readonly { readonly id: string; readonly before: readonly (string | null)[] }[];
}

/** Maximum records of a preview, characters of a value, and characters of them before the text that is replaced. */
const MAX_PREVIEWED = raw('20');
const PREVIEWED_CHARACTERS = raw('300');
const BEFORE_MATCH = raw('60');

/** What a change of the records that the plan matches would touch. */
export function changePreviewStatement(plan: ListPlan, changes: readonly Change[]): Statement<ChangePreview> {
  const parameter = (text: string | null): Fragment => sql`${value(text)}::text`;
  const values = changes.map((change) => {
    const { find } = change;
    return newValue(ROOT, change, parameter(change.value), find === undefined ? undefined : parameter(find));
  });
  const shown = changes.map(({ column, find }) => {
    if (find === undefined) return sql`left(${output(ROOT, column)}::text, ${PREVIEWED_CHARACTERS})`;
    const present = exactText(reference(ROOT, column));
    const start = sql`greatest(1, strpos(${present}, ${value(find)}) - ${BEFORE_MATCH})`;
    return sql`case when ${start} > 1 then '…' else '' end || substr(${present}, ${start}, ${PREVIEWED_CHARACTERS})`;
  });
  const named = (kind: string): Fragment[] => changes.map((_, index) => raw(`"${kind} ${index}"`));
  const [faults, befores] = [named('fault'), named('before')];
  const cells = values.map(
    ({ fault }, index) =>
      sql`, ${fault} as ${faults[index] ?? EMPTY}, ${shown[index] ?? EMPTY} as ${befores[index] ?? EMPTY}`,
  );
  const differs = join(
    values.map((one) => one.differs),
    ' or ',
  );
  const { primaryKey } = plan.model;
  const rows = sql`select ${output(ROOT, primaryKey)}::text as key, ${reference(ROOT, primaryKey)} as place, ${differs} as differs, ${countedBytes(values)} as bytes${join(cells, '')}${fromWhere(plan)}`;
  return {
    ...createStatement(
      sql`select key, count(*) over (), ${faultsSql(faults, raw('bytes'), raw(' over ()'))}, ${join(befores, ', ')} from (${rows}) p where differs order by place limit ${MAX_PREVIEWED}`,
      (found): ChangePreview => ({
        count: number(found[0]?.[1]),
        faults: text(found[0]?.[2]) ?? '',
        records: found.map(([key, , , ...before]) => ({ id: text(key) ?? '', before: before.map(text) })),
      }),
    ),
    mayBlock: mayBlock(plan),
  };
}
