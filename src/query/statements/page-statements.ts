// Statements that read a page.
import {
  boundText,
  EMPTY,
  join,
  LARGE,
  Parameters,
  raw,
  sql,
  value,
  type Fragment,
  type SmallSql,
} from '../../db/fragment.ts';
import { type RawRow, type Statement, isTrue, text } from '../../db/rows.ts';
import { partsOf, reference, foreignReference } from '../../db/schema/model.ts';
import { conditionSql, isUncancelable } from './condition-sql.ts';
import type { RowOutput } from './record-json.ts';
import { isByKey, mayHideRows, ROOT, type ListPlan, type Ordering } from '../plan.ts';
import { source } from '../source.ts';
import type { SqlCache } from '../../db/sql-cache.ts';

/** PostgreSQL's largest OFFSET. */
const MAX_OFFSET = 2n ** 63n - 1n;
/** Up to this offset, reading the skipped rows in full costs less than looking up the page's rows in a second step. */
const NEAR_OFFSET = 1000n;

/** The column that an ordering sorts by. */
export const columnOf = ({ alias, column }: Ordering): Fragment => reference(alias, column);

/** The list of ORDER BY. @param expression what an ordering sorts by at this place of the statement */
export const orderList = (
  orderings: readonly Ordering[],
  expression: (ordering: Ordering, index: number) => Fragment,
): Fragment =>
  join(
    orderings.map((one, index) => sql`${expression(one, index)}${one.descending ? raw(' desc') : EMPTY}`),
    ', ',
  );

/** A literal, because PostgreSQL's generic plan of a prepared statement does not know parameters. */
export const pageLimit = ({ limit }: ListPlan): Fragment => raw(` limit ${limit + 1}`);

/** FROM and WHERE. A foreign key refers to at most one row, so joins never multiply rows. */
export function fromWhereWith({ model, joins }: ListPlan, conditions: readonly Fragment[]): Fragment {
  const tables = joins.map(({ alias, from, column, model: target }) => {
    const on = sql`${reference(alias, target.primaryKey)} = ${foreignReference(from, column)}`;
    return sql` left join ${source(target, alias)} on ${on}`;
  });
  const where = conditions.length > 0 ? sql` where ${join(conditions, ' and ')}` : EMPTY;
  return sql` from ${source(model, ROOT)}${join(tables, '')}${where}`;
}

/** The plan's FROM and WHERE. */
export const fromWhere = (plan: ListPlan): Fragment => fromWhereWith(plan, plan.where.map(conditionSql));

/** The parts of a page's SQL that have values, with parameters in their place. */
export interface BoundParts {
  readonly conditions: readonly Fragment[];
  readonly offset: Fragment;
}

export function bind({ where, offset }: ListPlan, parameters: Parameters): BoundParts {
  const skipped = value(String(offset < MAX_OFFSET ? offset : MAX_OFFSET));
  return {
    conditions: where.map((condition) => parameters.take(conditionSql(condition))),
    offset: offset === 0n ? EMPTY : parameters.take(sql` offset ${skipped}::int8`),
  };
}

/** Whether a condition of the plan may block its connection. */
export const mayBlock = ({ where }: ListPlan): boolean =>
  where.some((one) => ('anyOf' in one ? one.anyOf.some(isUncancelable) : isUncancelable(one)));

/** Maximum rows of a page that is certain to be short to read and to send. */
const SHORT_ROWS = 25;
/** Up to this many short rows, only the size of the page is checked. This is faster, but PostgreSQL holds all of them in memory. */
const MAX_ROWS_WITHOUT_BUDGET = 25;

/** Whether the statement is certain to be short: a first page of few rows, in the order of the key. It has no parameters. */
export const isShort = (plan: ListPlan): boolean =>
  plan.model.isFast &&
  plan.where.length === 0 &&
  isByKey(plan) &&
  plan.offset === 0n &&
  plan.limit <= SHORT_ROWS;

/** The page's records in order, plus one more if there is one, which shows that there is a next page. */
function rowsOf(
  plan: ListPlan,
  { conditions, offset }: BoundParts,
  { value: shown, joins }: RowOutput,
): Fragment {
  const { orderings } = plan;
  const sorted = sql` order by ${orderList(orderings, columnOf)}`;
  const tail = sql`${fromWhereWith(plan, conditions)}${sorted}${pageLimit(plan)}${offset}`;
  if (isByKey(plan) && plan.offset <= NEAR_OFFSET) {
    const page = sql`(select ${raw(ROOT)}.*${tail}) ${raw(ROOT)}`;
    // A join does not keep the order of rows.
    const sortedAgain = joins === EMPTY ? EMPTY : sorted;
    return sql`select ${shown} from ${page}${joins}${sortedAgain}`;
  }
  // Far from the start, or with another order, choosing the ids first avoids reading skipped rows in full.
  const rows = inFull(plan, sql`select ${chosenColumns(plan)}${tail}`);
  return sql`select ${shown} from ${rows}${joins} order by ${orderList(orderings, (_, index) => sql`p.${sortKey(index)}`)}`;
}

/** The value of an ordering in a row that a subselect chooses. Columns do not have such names in practice. */
export const sortKey = (index: number): Fragment => raw(`"#${index}"`);

/** What a subselect outputs to choose rows for `inFull`. */
export function chosenColumns({ model: { primaryKey }, orderings }: ListPlan): Fragment {
  const keys = orderings.map(
    ({ alias, column }, index) => sql`${reference(alias, column)} as ${sortKey(index)}`,
  );
  return join(primaryKey.isUnchecked ? [...keys, raw(`${ROOT}.*`)] : keys, ', ');
}

/** Reads the chosen rows `p` in full as ROOT. The key of a view may be NULL or repeated, so its rows are chosen in full. */
export function inFull({ model, orderings }: ListPlan, chosen: Fragment): Fragment {
  const { primaryKey } = model;
  if (primaryKey.isUnchecked) return sql`(${chosen}) p cross join lateral (select p.*) ${raw(ROOT)}`;
  const parts = partsOf(primaryKey);
  const first = orderings.length - parts.length;
  const same = parts.map((part, index) => sql`${reference(ROOT, part)} = p.${sortKey(first + index)}`);
  return sql`(${chosen}) p join ${source(model, ROOT)} on ${join(same, ' and ')}`;
}

export const COMMA = raw(`','`);

/** Replaces the texts past the byte limit by NULL, so that PostgreSQL does not keep them in memory. */
function withinBudget(rows: Fragment, maxBytes: Fragment): Fragment {
  const total = raw('sum(octet_length(text)) over (rows unbounded preceding)');
  return sql`select case when ${total} <= ${maxBytes} then text end from (${rows}) rows (text)`;
}

/** Bytes of a page above which its records are rows of their own, see `isSplit`. */
const SPLIT_ABOVE = 2 * LARGE;

/**
 * The first cells of all rows. Together they are the records of the page, in order: all in one cell, or one in each, see
 * `isSplit`. Undefined if the records exceed the byte limit.
 */
export function objectsOf(rows: readonly RawRow[]): readonly Buffer[] | undefined {
  const [first] = rows;
  return first?.[0] ? rows.map(([cell]) => cell ?? EMPTY_CELL) : undefined;
}

const EMPTY_CELL = Buffer.alloc(0);

/** The records of a page: undefined if they exceed the byte limit. The total is there if it was requested. */
const readPage = (rows: readonly RawRow[]) => ({
  objects: objectsOf(rows),
  hasNext: isTrue(rows[0]?.[1]),
  total: text(rows[0]?.[2]) ?? undefined,
});

export type Page = ReturnType<typeof readPage>;

/** How a page outputs its records. */
export interface PageOutput {
  readonly row: RowOutput;
  /** Maximum bytes of the records. */
  readonly maxBytes: number;
  /** The SQL of the separator between two records; a comma by default. */
  readonly between?: Fragment;
  /** Counts the matching records up to this number: Infinity for no limit. It is a part of the statement, to use one connection. */
  readonly countTo?: number | undefined;
  /** Whether PostgreSQL checks sizes before it formats. If a record may be large, its row and the whole page are NULL. */
  readonly checksSizesFirst?: boolean;
  /**
   * Whether each record of a long page is one row, without separators. The driver and the response then hold no single value of
   * megabytes, which would take the event loop long to copy.
   */
  readonly isSplit?: boolean;
}

/**
 * The rows of a page: one with all `objects`, or, if these are long, one for each of its `records`.
 * @param more the other columns of the page. They are NULL in all rows but the first
 */
export function splitRows(page: Fragment, more: readonly string[]): Fragment {
  const once = join(
    more.map((name) => raw(`case when part.n = 1 then ${name} end as ${name}`)),
    ', ',
  );
  return sql`select part.text as objects, ${once} from (${page} offset 0) page cross join lateral unnest(case when octet_length(objects) > ${raw(String(SPLIT_ABOVE))} then records else array[objects] end) with ordinality part (text, n)`;
}

/** Counts the records as text. Past the limit the text is the limit with a plus sign. */
export function countSql(rows: Fragment, limit: number): Fragment {
  if (limit === Infinity) return sql`(select count(*)${rows})::text`;
  const [max, next] = [raw(String(limit)), raw(String(limit + 1))];
  const counted = sql`(select${rows} limit ${next}) counted`;
  return sql`(select case when count(*) > ${max} then '${max}+' else count(*)::text end from ${counted})`;
}

/**
 * The SQL of a page for shared connections. A page of more than LARGE bytes becomes NULL. With `isSummed`, PostgreSQL adds up the
 * sizes of all records. Without it, each record may have an equal part of LARGE, which is faster to check.
 * @param compiled builds the SQL of the page with another output, and caches it by `kind`
 * @returns undefined if no page can be that large
 */
export function smallSql(
  output: PageOutput,
  { limit }: ListPlan,
  compiled: (kind: string, output: () => PageOutput) => string,
): SmallSql | undefined {
  const { value: shown, size } = output.row;
  if (!size) return undefined;
  return (isSummed) =>
    compiled(isSummed ? 'summed' : 'each', () => {
      const isSmall = isSummed
        ? sql`sum(${size}) over () <= ${raw(String(LARGE))}`
        : sql`${size} <= ${raw(String(Math.floor(LARGE / (limit + 1))))}`;
      const row = { ...output.row, value: sql`case when ${isSmall} then ${shown} end` };
      const maxBytes = Math.min(output.maxBytes, LARGE);
      return { ...output, row, maxBytes, checksSizesFirst: true, isSplit: false };
    });
}

/** See `isPlain`. The output may join any tables. */
export const isPlainRead = (plan: Pick<ListPlan, 'model' | 'joins'>, { joins }: RowOutput): boolean =>
  joins === EMPTY && !mayHideRows(plan);

/** The SQL of a page. Skipped rows are never formatted. */
function pageSql(plan: ListPlan, parts: BoundParts, output: PageOutput): Fragment {
  const { row, maxBytes, between = COMMA, countTo, checksSizesFirst = false } = output;
  // Records without long values need no check of their size, and make no long page.
  const isSplit = output.isSplit === true && row.size !== undefined;
  const limit = raw(String(plan.limit));
  const max = raw(String(maxBytes));
  const rows = rowsOf(plan, parts, row);
  const objects = sql`array_to_string(records[1:${limit}], ${between})`;
  const hasMore = sql`cardinality(records) > ${limit}`;
  const counted = (page: Fragment): Fragment => {
    const count =
      countTo === undefined ? undefined : countSql(fromWhereWith(plan, parts.conditions), countTo);
    const total = count ? sql`, case when objects is not null then ${count} end as total` : EMPTY;
    if (!isSplit) return count ? sql`select objects, more${total} from (${page} offset 0) page` : page;
    const whole = count ? sql`select objects, more${total}, records from (${page} offset 0) page` : page;
    return splitRows(whole, count ? ['more', 'total'] : ['more']);
  };
  // Three ways to keep the byte limit: sizes first, a running sum (always for many rows), or only the total of a few short rows.
  const isBudgeted = plan.limit > MAX_ROWS_WITHOUT_BUDGET || (row.size !== undefined && !checksSizesFirst);
  const records = isBudgeted ? withinBudget(rows, max) : rows;
  // `offset 0` keeps PostgreSQL from computing a value once per use.
  if (checksSizesFirst || !isBudgeted) {
    const page = sql`(select array(${records}) as records offset 0) records`;
    const whole = checksSizesFirst
      ? sql`case when array_position(records, null) is null then ${objects} end`
      : objects;
    const texts = sql`(select ${whole} as objects, ${hasMore} as more from ${page} offset 0) page`;
    const fitting = sql`case when octet_length(objects) <= ${max} then objects end`;
    return counted(sql`select ${fitting} as objects, more from ${texts}`);
  }
  const page = sql`(select array(${records}) as records offset 0) page`;
  const last = sql`records[least(cardinality(records), ${limit})]`;
  const fits = sql`case when cardinality(records) = 0 or ${last} is not null then ${objects} end`;
  const split = isSplit ? sql`, records[1:${limit}] as records` : EMPTY;
  return counted(sql`select ${fits} as objects, ${hasMore} as more${split} from ${page}`);
}

/** What the SQL of a page depends on besides its output. JSON keys have no spaces or punctuation, which separate the parts. */
function pageShape(
  { joins, orderings, limit, offset: skipped }: ListPlan,
  { conditions, offset }: BoundParts,
): string {
  let shape = `${limit} ${skipped <= NEAR_OFFSET}`;
  for (const { from, column } of joins) shape += ` ${from}.${column.key}`;
  for (const { alias, column, descending } of orderings) shape += ` ${alias}.${column.key}:${descending}`;
  for (const condition of conditions) shape += ` and ${boundText(condition)}`;
  return shape + boundText(offset);
}

/**
 * One page.
 * @param cache of the SQL. Its keys leave out the output, so each output needs its own cache
 */
export function pageStatement(
  plan: ListPlan,
  output: PageOutput,
  cache: SqlCache = (_, build) => build(),
): Statement<Page> {
  const parameters = new Parameters();
  const parts = bind(plan, parameters);
  const shape = pageShape(plan, parts);
  const compiled = (kind: string, shown: () => PageOutput): string =>
    cache(`${kind} ${shape}`, () => parameters.compile(pageSql(plan, parts, shown())));
  const text = compiled('', () => output);
  const small = smallSql(output, plan, compiled);
  const { values } = parameters;
  const isPlain = isPlainRead(plan, output.row);
  return { text, small, values, isPage: true, isPlain, mayBlock: mayBlock(plan), decode: readPage };
}
