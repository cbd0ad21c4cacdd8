// Statements that read: a page, a record, a count, the bounds of a column.
import { compile, EMPTY, join, raw, sql, table, value, type Fragment } from '../../db/fragment.ts';
import {
  type RawRow,
  type Statement,
  createStatement,
  isTrue,
  number,
  oneCell,
  text,
} from '../../db/rows.ts';
import { reference, typed, type Column, type Model } from '../../db/schema/model.ts';
import { conditionSql } from './condition-sql.ts';
import { recordJson } from './record-json.ts';
import { ROOT, type ListPlan, type Ordering } from '../plan.ts';

/** PostgreSQL's largest OFFSET. */
const MAX_OFFSET = 2n ** 63n - 1n;
/** Up to this offset, computing the skipped rows costs less than looking up the page's rows in a second step. */
const NEAR_OFFSET = 1000n;

/**
 * The version of a row, for ETag: the id of the transaction that wrote it. It changes with every update. Unlike a hash of the
 * row, it reveals nothing about excluded columns.
 */
export const version = (alias: string): Fragment => raw(`${alias}.xmin::text`);

/** The table, or the subselect that takes its place in reads. */
const rowsFrom = ({ relation, table: name }: Model): Fragment => relation ?? table(name);

const direction = ({ descending }: Ordering): Fragment => (descending ? raw(' desc') : EMPTY);

/** The plan's FROM and WHERE. A foreign key refers to at most one row, so joins never multiply rows. */
export function fromWhere({ model, joins, where }: ListPlan): Fragment {
  const tables = joins.map(({ alias, from, column, model: target }) => {
    const on = sql`${reference(alias, target.primaryKey)} = ${reference(from, column)}`;
    return sql` left join ${table(target.table)} ${raw(alias)} on ${on}`;
  });
  const conditions = where.length > 0 ? sql` where ${join(where.map(conditionSql), ' and ')}` : EMPTY;
  return sql` from ${rowsFrom(model)} ${raw(ROOT)}${join(tables, '')}${conditions}`;
}

/**
 * LIMIT and OFFSET. One record more than the page shows whether there is a next page.
 * The limit is a literal, because PostgreSQL's generic plan of a prepared statement does not know parameters.
 */
function limitAndOffset({ limit, offset }: ListPlan): Fragment {
  const rows = raw(` limit ${limit + 1}`);
  if (offset === 0n) return rows;
  return sql`${rows} offset ${value(String(offset < MAX_OFFSET ? offset : MAX_OFFSET))}::int8`;
}

/** How a page outputs each row of alias ROOT: one text, and the joins that it needs. */
export interface RowOutput {
  readonly value: Fragment;
  readonly joins: Fragment;
}

/** The record's JSON as the API outputs it. */
export const plainRecord = (columns: readonly Column[]): RowOutput => ({
  value: recordJson(ROOT, columns),
  joins: EMPTY,
});

/** Maximum rows of a small page, which is fast to read and to send. */
const SMALL_PAGE = 100;

/** Whether the statement is certain to be fast: a small page near the start, in the order of the key. */
export const isQuick = ({ where, orderings, offset, limit }: ListPlan): boolean =>
  where.length === 0 && orderings.length === 1 && offset <= NEAR_OFFSET && limit <= SMALL_PAGE;

/** Whether it is a quick plan's first page, whose statement has no parameters. */
export const isFirstQuickPage = (plan: ListPlan): boolean => plan.offset === 0n && isQuick(plan);

/** The page's records in order, plus one more if there is one. */
function rowsOf(plan: ListPlan, { value: shown, joins }: RowOutput): Fragment {
  const { model, orderings, offset } = plan;
  const order = (expression: (ordering: Ordering, index: number) => Fragment): Fragment =>
    join(
      orderings.map((ordering, index) => sql`${expression(ordering, index)}${direction(ordering)}`),
      ', ',
    );
  const sorted = sql` order by ${order(({ alias, column }) => reference(alias, column))}`;
  if (orderings.length === 1 && offset <= NEAR_OFFSET) {
    const page = sql`(select ${raw(ROOT)}.*${fromWhere(plan)}${sorted}${limitAndOffset(plan)}) ${raw(ROOT)}`;
    // A join does not keep the order of rows.
    const sortedAgain = joins === EMPTY ? EMPTY : sorted;
    return sql`select ${shown} from ${page}${joins}${sortedAgain}`;
  }
  // Far from the start, or with another order, choosing the ids first avoids reading skipped rows in full.
  const sortKeys = orderings.map(
    ({ alias, column }, index) => sql`${reference(alias, column)} as ${raw(`s${index}`)}`,
  );
  const id = raw(`p.s${orderings.length - 1}`); // the primary key is the last ordering
  const chosen = sql`select ${join(sortKeys, ', ')}${fromWhere(plan)}${sorted}${limitAndOffset(plan)}`;
  const on = sql`${reference(ROOT, model.primaryKey)} = ${id}`;
  const rows = sql`(${chosen}) p join ${rowsFrom(model)} ${raw(ROOT)} on ${on}`;
  return sql`select ${shown} from ${rows}${joins} order by ${order((_, index) => raw(`p.s${index}`))}`;
}

const COMMA = raw(`','`);

/** Replaces the texts past the byte limit by NULL, so that PostgreSQL does not keep them in memory either. */
function withinBudget(rows: Fragment, maxBytes: Fragment): Fragment {
  const total = raw('sum(octet_length(text)) over (rows unbounded preceding)');
  return sql`select case when ${total} <= ${maxBytes} then text end from (${rows}) rows (text)`;
}

/** The records of a page: undefined if they exceed the byte limit. The total is there if it was requested. */
const readPage = ([row]: readonly RawRow[]) => ({
  objects: row?.[0] ?? undefined,
  hasNext: isTrue(row?.[1]),
  total: text(row?.[2]) ?? undefined,
});

export type Page = ReturnType<typeof readPage>;

/**
 * One page. Skipped rows are never formatted.
 * @param between the SQL of the separator between two records
 * @param isCounted whether to count all matching records too; in the same statement, so that it needs one connection
 */
export function pageStatement(
  plan: ListPlan,
  shown: RowOutput,
  maxBytes: number,
  between = COMMA,
  isCounted = false,
): Statement<Page> {
  const limit = raw(String(plan.limit));
  const most = raw(String(maxBytes));
  const rows = rowsOf(plan, shown);
  const objects = sql`array_to_string(records[1:${limit}], ${between})`;
  const hasMore = sql`cardinality(records) > ${limit}`;
  const count = isCounted ? sql`, (select count(*)${fromWhere(plan)})::text` : EMPTY;
  // `offset 0` keeps PostgreSQL from computing a value once per use.
  if (plan.limit <= SMALL_PAGE) {
    const page = sql`(select array(${rows}) as records offset 0) records`;
    const texts = sql`(select ${objects} as objects, ${hasMore} as more from ${page} offset 0) page`;
    const query = sql`select case when octet_length(objects) <= ${most} then objects end as objects, more${count} from ${texts}`;
    return createStatement(query, readPage);
  }
  const page = sql`(select array(${withinBudget(rows, most)}) as records offset 0) page`;
  const last = sql`records[least(cardinality(records), ${limit})]`;
  const fits = sql`cardinality(records) = 0 or ${last} is not null`;
  const query = sql`select case when ${fits} then ${objects} end as objects, ${hasMore}${count} from ${page}`;
  return createStatement(query, readPage);
}

/** Counts the records that the filters match. */
export const countStatement = (plan: ListPlan): Statement<number> =>
  createStatement(sql`select count(*)${fromWhere(plan)}`, oneCell(number));

/** Ordinary dates: not infinite, and within the years 1 to 9999. */
const CALENDAR_RANGE = { gte: '0001-01-01', lte: '9999-12-31' } as const;

/**
 * The earliest and the latest value of a date or date-time column, within the years 1 to 9999.
 * @returns both as in the output; undefined if there are none
 */
export function boundsStatement(
  all: ListPlan,
  column: Column,
): Statement<readonly [string, string] | undefined> {
  const limits = (['gte', 'lte'] as const).map((operator) => ({
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

/** A record as PostgreSQL wrote it, and the version of its row. */
export interface FoundRecord {
  readonly json: Buffer;
  readonly version: string;
}

/** Reads one record by its key, for each id with the same text. */
export type RecordStatement = (id: string) => Statement<FoundRecord | undefined>;

const readFound = ([row]: readonly RawRow[]): FoundRecord | undefined =>
  row?.[0] ? { json: row[0], version: text(row[1]) ?? '' } : undefined;

export function recordStatement(model: Model, { value: shown, joins }: RowOutput): RecordStatement {
  const key = sql`${reference(ROOT, model.primaryKey)} = ${typed('', model.primaryKey)}`;
  const { text: select } = compile(
    sql`select ${shown}, ${version(ROOT)} from ${rowsFrom(model)} ${raw(ROOT)}${joins} where ${key}`,
  );
  return (id) => ({ text: select, values: [id], fixed: true, decode: readFound });
}
