import {
  compile,
  EMPTY,
  join,
  raw,
  sql,
  table,
  value,
  type Fragment,
  type Statement,
} from '../../db/fragment.ts';
import { reference, typed, type Column, type Model } from '../../db/schema/model.ts';
import { conditionSql } from './condition-sql.ts';
import { record } from './record-json.ts';
import { ROOT, type ListPlan, type Ordering } from '../plan.ts';

/** PostgreSQL's largest OFFSET. */
const MAX_OFFSET = 2n ** 63n - 1n;
/** Up to here computing the skipped rows costs less than looking the page's rows up a second time. */
const NEAR = 1000n;

/**
 * What tells one state of a row from the next, for ETag: the transaction that wrote it. Any change of any column makes a
 * new one, and unlike a hash of the row it says nothing about columns that are excluded from the output.
 */
export const version = (alias: string): Fragment => raw(`${alias}.xmin::text`);

/** What a read takes the model's rows from. */
const rowsFrom = ({ relation, table: name }: Model): Fragment => relation ?? table(name);

const direction = ({ descending }: Ordering): Fragment => (descending ? raw(' desc') : EMPTY);

/** The plan's FROM and WHERE. Foreign keys lead to one row at most, so joins never multiply rows. */
export function source({ model, joins, where }: ListPlan): Fragment {
  const tables = joins.map(({ alias, from, column, model: target }) => {
    const on = sql`${reference(alias, target.primaryKey)} = ${reference(from, column)}`;
    return sql` left join ${table(target.table)} ${raw(alias)} on ${on}`;
  });
  const conditions = where.length > 0 ? sql` where ${join(where.map(conditionSql), ' and ')}` : EMPTY;
  return sql` from ${rowsFrom(model)} ${raw(ROOT)}${join(tables, '')}${conditions}`;
}

/** One record more than the page has tells whether there is a next page. The limit is a literal: a plan that is kept must know it. */
function window({ limit, offset }: ListPlan): Fragment {
  const rows = raw(` limit ${limit + 1}`);
  if (offset === 0n) return rows;
  return sql`${rows} offset ${value(String(offset < MAX_OFFSET ? offset : MAX_OFFSET))}::int8`;
}

/** What a page shows of each of its rows, which go by the alias ROOT: one text, and the joins that it needs. */
export interface Shown {
  readonly value: Fragment;
  readonly joins: Fragment;
}

/** The record's JSON, as the API outputs it. */
export const plainRecord = (columns: readonly Column[]): Shown => ({
  value: record(ROOT, columns),
  joins: EMPTY,
});

/** Rows of a page that are short to read and to send. */
const FEW = 100;

/** Whether the statement of the plan is certain to be short: a small page near the start, in the order of the key. */
export const isQuick = ({ where, orderings, offset, limit }: ListPlan): boolean =>
  where.length === 0 && orderings.length === 1 && offset <= NEAR && limit <= FEW;

/** Whether it is the first of the pages that are certain to be short: its statement has no values. */
export const isFirst = (plan: ListPlan): boolean => plan.offset === 0n && isQuick(plan);

/** The page's records in their order, one more than the page has where there is one. */
function rowsOf(plan: ListPlan, { value: shown, joins }: Shown): Fragment {
  const { model, orderings, offset } = plan;
  const order = (expression: (ordering: Ordering, index: number) => Fragment): Fragment =>
    join(
      orderings.map((ordering, index) => sql`${expression(ordering, index)}${direction(ordering)}`),
      ', ',
    );
  const sorted = sql` order by ${order(({ alias, column }) => reference(alias, column))}`;
  if (orderings.length === 1 && offset <= NEAR) {
    const page = sql`(select ${raw(ROOT)}.*${source(plan)}${sorted}${window(plan)}) ${raw(ROOT)}`;
    // A join may change the order in which the rows of the page come.
    const again = joins === EMPTY ? EMPTY : sorted;
    return sql`select ${shown} from ${page}${joins}${again}`;
  }
  // Far from the start, or sorted, the ids of the page are chosen first and only its own rows are looked up.
  const sortKeys = orderings.map(
    ({ alias, column }, index) => sql`${reference(alias, column)} as ${raw(`s${index}`)}`,
  );
  const last = raw(`p.s${orderings.length - 1}`); // the key
  const chosen = sql`select ${join(sortKeys, ', ')}${source(plan)}${sorted}${window(plan)}`;
  const on = sql`${reference(ROOT, model.primaryKey)} = ${last}`;
  const rows = sql`(${chosen}) p join ${rowsFrom(model)} ${raw(ROOT)} on ${on}`;
  return sql`select ${shown} from ${rows}${joins} order by ${order((_, index) => raw(`p.s${index}`))}`;
}

const COMMA = raw(`','`);

/** Keeps the texts up to the budget and makes NULL of the rest, so that PostgreSQL does not hold them either. */
function withinBudget(rows: Fragment, maxBytes: Fragment): Fragment {
  const total = raw('sum(octet_length(text)) over (rows unbounded preceding)');
  return sql`select case when ${total} <= ${maxBytes} then text end from (${rows}) rows (text)`;
}

/**
 * The page. Rows that are skipped are never formatted.
 * @param between what stands between two records, in SQL
 * @param isCounted whether it also counts what the filters match; in one statement, so that it takes one connection
 * @returns one row: the texts of its records, or NULL where they have more bytes than `maxBytes`; whether there are more; the
 * count
 */
export function pageStatement(
  plan: ListPlan,
  shown: Shown,
  maxBytes: number,
  between = COMMA,
  isCounted = false,
): Statement {
  const limit = raw(String(plan.limit));
  const most = raw(String(maxBytes));
  const rows = rowsOf(plan, shown);
  const objects = sql`array_to_string(records[1:${limit}], ${between})`;
  const hasMore = sql`cardinality(records) > ${limit}`;
  const count = isCounted ? sql`, (select count(*)${source(plan)})::text` : EMPTY;
  // `offset 0` keeps PostgreSQL from computing a value once for each time that it is named.
  if (plan.limit <= FEW) {
    const page = sql`(select array(${rows}) as records offset 0) records`;
    const texts = sql`(select ${objects} as objects, ${hasMore} as more from ${page} offset 0) page`;
    return compile(
      sql`select case when octet_length(objects) <= ${most} then objects end as objects, more${count} from ${texts}`,
    );
  }
  const page = sql`(select array(${withinBudget(rows, most)}) as records offset 0) page`;
  const last = sql`records[least(cardinality(records), ${limit})]`;
  const fits = sql`cardinality(records) = 0 or ${last} is not null`;
  return compile(
    sql`select case when ${fits} then ${objects} end as objects, ${hasMore}${count} from ${page}`,
  );
}

/** How many records the filters match: one row, one column. */
export const countStatement = (plan: ListPlan): Statement => compile(sql`select count(*)${source(plan)}`);

/** Days that every calendar knows: neither infinite, nor before year 1, nor after 9999. */
const ORDINARY = { gte: '0001-01-01', lte: '9999-12-31' } as const;

/**
 * The least and the greatest value of a column of dates or moments, as the output has them: one row, both NULL where there is
 * none. The odd ones among them do not count.
 */
export function boundsStatement(all: ListPlan, column: Column): Statement {
  const limits = (['gte', 'lte'] as const).map((operator) => ({
    alias: ROOT,
    column,
    operator,
    values: [ORDINARY[operator]],
    negated: false,
  }));
  const plan = { ...all, where: [...all.where, ...limits] };
  const [least, greatest] = ['min', 'max'].map((name) =>
    column.type.output(sql`${raw(name)}(${reference(ROOT, column)})`, column),
  );
  return compile(sql`select ${least ?? EMPTY}, ${greatest ?? EMPTY}${source(plan)}`);
}

/** The statement that reads one record by its key, what is shown of it and its version; made once for a resource. */
export function recordStatement(model: Model, { value: shown, joins }: Shown): (id: string) => Statement {
  const key = sql`${reference(ROOT, model.primaryKey)} = ${typed('', model.primaryKey)}`;
  const { text } = compile(
    sql`select ${shown}, ${version(ROOT)} from ${rowsFrom(model)} ${raw(ROOT)}${joins} where ${key}`,
  );
  return (id) => ({ text, values: [id], fixed: true });
}
