// The statement of a page for cursors: the records after a boundary, or before it.
import { badQuery } from '../../errors.ts';
import { boundText, EMPTY, join, Parameters, raw, sql, type Fragment } from '../../db/fragment.ts';
import { isTrue, text, type RawRow, type Statement } from '../../db/rows.ts';
import { mayBeNull, typed } from '../../db/schema/model.ts';
import type { SqlCache } from '../../db/sql-cache.ts';
import { MAX_JOINED_TABLES, ROOT, type ListPlan, type Ordering } from '../plan.ts';
import {
  bind,
  chosenColumns,
  columnOf,
  COMMA,
  countSql,
  fromWhereWith,
  inFull,
  isPlainRead,
  mayBlock,
  objectsOf,
  orderList,
  pageLimit,
  smallSql,
  sortKey,
  splitRows,
  type BoundParts,
  type PageOutput,
} from '../statements/page-statements.ts';
import type { Boundary } from './cursor-token.ts';

/** Maximum bytes of the values that a cursor holds, which is a part of a URL: those of the longest key, and 2 KiB. */
const MAX_KEY_BYTES = 6144;

/**
 * Maximum number of tables that a page reads, over all conditions of `recordsAfter`. Eight columns and a key of one column make
 * at most 18 conditions, or 19 for a view, whose key may be NULL.
 */
const MAX_TABLES_READ = 19 * (MAX_JOINED_TABLES + 1);

const orderingMayBeNull = ({ alias, column }: Ordering): boolean => alias !== ROOT || mayBeNull(column);

/** Whether one comparison of rows is enough for all of these columns. */
const isUniform = (orderings: readonly Ordering[]): boolean =>
  orderings.every((one) => one.descending === orderings[0]?.descending && !orderingMayBeNull(one));

const backward = (orderings: readonly Ordering[]): readonly Ordering[] =>
  orderings.map((one) => ({ ...one, descending: !one.descending }));

/** A column that the list is ordered by, and the value of the record at the boundary; undefined for NULL. */
interface BoundaryKey {
  readonly ordering: Ordering;
  readonly key: Fragment | undefined;
}

/**
 * The records after a boundary as conditions that exclude each other. The records of each come before those of the next one, and
 * an index on the columns finds where they begin. NULL is greater than every value, as in PostgreSQL.
 */
function recordsAfter(boundaryKeys: readonly BoundaryKey[], isInclusive: boolean): Fragment[] {
  const [first, ...rest] = boundaryKeys;
  if (!first) return isInclusive ? [raw('true')] : [];
  const { ordering, key } = first;
  const symbol = raw(ordering.descending ? '<' : '>');
  const column = columnOf(ordering);
  if (boundaryKeys.length > 1 && isUniform(boundaryKeys.map((one) => one.ordering))) {
    const keys = boundaryKeys.map((one) => one.key ?? raw('null'));
    const all = sql`(${join(
      boundaryKeys.map((one) => columnOf(one.ordering)),
      ', ',
    )}) ${symbol}`;
    return [sql`${all}${raw(isInclusive ? '=' : '')} (${join(keys, ', ')})`];
  }
  const same = key ? sql`${column} = ${key}` : sql`${column} is null`;
  const conditions = recordsAfter(rest, isInclusive).map((after) => sql`${same} and ${after}`);
  if (key) {
    conditions.push(sql`${column} ${symbol} ${key}`);
    if (!ordering.descending && orderingMayBeNull(ordering)) conditions.push(sql`${column} is null`);
  } else if (ordering.descending) conditions.push(sql`${column} is not null`);
  return conditions;
}

/** The largest number of conditions that `recordsAfter` makes for these columns. */
function mostConditions([first, ...rest]: readonly Ordering[]): number {
  if (!first || (rest.length > 0 && isUniform([first, ...rest]))) return 1;
  return mostConditions(rest) + (!first.descending && orderingMayBeNull(first) ? 2 : 1);
}

/**
 * Limits the number of tables that a page reads, because each condition is a separate query. The number is the same for all pages
 * of a list, so that every link works.
 * @throws Problem 400 if there are too many
 */
function checkTables({ joins, orderings }: ListPlan): void {
  const conditions = Math.max(mostConditions(orderings), mostConditions(backward(orderings)));
  const count = conditions * (joins.length + 1);
  if (count <= MAX_TABLES_READ) return;
  const fault = `makes a page with cursors read ${count} tables; at most ${MAX_TABLES_READ} are allowed: order by fewer columns`;
  throw badQuery({ ordering: [fault] });
}

const readPage = (rows: readonly RawRow[]) => {
  const [row] = rows;
  return {
    /** See `objectsOf`. */
    objects: objectsOf(rows),
    /** Whether there are more records in the direction of the page. */
    hasMore: isTrue(row?.[1]),
    /** The first and the last record as `Boundary.keys`; undefined if there is none, `[]` if they are too long. */
    firstKeys: parseKeys(text(row?.[2])),
    lastKeys: parseKeys(text(row?.[3])),
    total: text(row?.[4]) ?? undefined,
  };
};

const parseKeys = (json: string | null): readonly (string | null)[] | undefined =>
  json === null ? undefined : (JSON.parse(json) as (string | null)[]);

export type KeysetPage = ReturnType<typeof readPage>;

/**
 * A page next to a boundary; without one, the page at the plan's offset.
 * @param cache of the SQL. Its keys leave out the output, so each output needs its own cache
 * @throws Problem 400 if the pages of this list read too many tables
 */
export function keysetStatement(
  plan: ListPlan,
  boundary: Boundary | undefined,
  output: PageOutput,
  cache: SqlCache,
): Statement<KeysetPage> {
  checkTables(plan);
  const parameters = new Parameters();
  const isBackward = boundary?.isBackward === true;
  const orderings = isBackward ? backward(plan.orderings) : plan.orderings;
  const parts = bind(plan, parameters);
  const boundaryKeys = boundary?.keys.flatMap((key, index): BoundaryKey[] => {
    const ordering = orderings[index];
    if (!ordering) return [];
    return [{ ordering, key: key === null ? undefined : parameters.take(typed(key, ordering.column)) }];
  });
  const following = boundaryKeys && recordsAfter(boundaryKeys, boundary?.isInclusive === true);
  // No condition is left if all values of the boundary are NULL and sort last, as only those of a view can. No record follows.
  const after = following?.length === 0 ? [raw('false')] : following;
  const shape = [
    isBackward,
    plan.limit,
    ...plan.joins.map(({ from, column }) => `${from}.${column.key}`),
    ...orderings.map(({ alias, column, descending }) => `${alias}.${column.key}:${descending}`),
    ...[...parts.conditions, ...(after ?? []), parts.offset].map(boundText),
  ].join(' ');
  const compiled = (kind: string, shown: () => PageOutput): string =>
    cache(`keyset ${kind} ${shape}`, () =>
      parameters.compile(keysetSql({ ...plan, orderings }, { ...parts, after, isBackward }, shown())),
    );
  const small = smallSql(output, plan, compiled);
  const { values } = parameters;
  const text = compiled('', () => output);
  const isPlain = isPlainRead(plan, output.row);
  return { text, small, values, isPage: true, isPlain, mayBlock: mayBlock(plan), decode: readPage };
}

interface Parts extends BoundParts {
  /** The conditions of `recordsAfter`; undefined without a boundary. */
  readonly after: readonly Fragment[] | undefined;
  readonly isBackward: boolean;
}

function keysetSql(
  plan: ListPlan,
  { conditions, after, offset, isBackward }: Parts,
  output: PageOutput,
): Fragment {
  const { orderings } = plan;
  const { row, maxBytes, between = COMMA, countTo, isSplit = false } = output;
  const sorted = orderList(orderings, (_, index) => sortKey(index));
  const limit = pageLimit(plan);
  const branch = (condition: readonly Fragment[], skipped: Fragment): Fragment =>
    sql`select ${chosenColumns(plan)}${fromWhereWith(plan, [...conditions, ...condition])} order by ${orderList(orderings, columnOf)}${limit}${skipped}`;
  const branches = after?.map((condition) => sql`(${branch([condition], EMPTY)})`);
  const chosen =
    branches && branches.length !== 1
      ? sql`select * from (${join(branches, ' union all ')}) parts order by ${sorted}${limit}`
      : (branches?.[0] ?? branch([], offset));
  const keys = sql`json_build_array(${join(
    orderings.map((_, index) => sql`p.${sortKey(index)}::text`),
    ', ',
  )})::text`;
  const rows = sql`select row_number() over (order by ${orderList(orderings, (_, index) => sql`p.${sortKey(index)}`)}) as n, ${keys} as keys, ${row.value} as text from ${inFull(plan, chosen)}${row.joins}`;
  const max = raw(String(maxBytes));
  // Texts past the byte limit become NULL, so that PostgreSQL does not keep them in memory. `offset 0` keeps it from computing them twice.
  const bounded = sql`select n, case when octet_length(keys) <= ${raw(String(MAX_KEY_BYTES))} then keys else '[]' end as keys, case when sum(octet_length(text)) over (order by n) <= ${max} then text end as text from (${rows} offset 0) rows`;
  const onPage = raw(`filter (where n <= ${plan.limit})`);
  const [first, last] = isBackward ? [raw(' desc'), EMPTY] : [EMPTY, raw(' desc')];
  const edge = (way: Fragment): Fragment => sql`(array_agg(keys order by n${way}) ${onPage})[1]`;
  const records = sql`array_agg(text order by n${first}) ${onPage}`;
  const fits = sql`coalesce(bool_and(text is not null) ${onPage}, true)`;
  const isMore = sql`coalesce(bool_or(n > ${raw(String(plan.limit))}), false)`;
  const collected = sql`select ${records} as records, ${fits} as fits, ${isMore} as more, ${edge(first)} as first, ${edge(last)} as last from (${bounded}) page`;
  const objects = sql`case when fits then coalesce(array_to_string(records, ${between}), '') end`;
  const page = sql`select ${objects} as objects, more, first, last, records from (${collected} offset 0) page`;
  const count =
    countTo === undefined
      ? EMPTY
      : sql`, case when objects is not null then ${countSql(fromWhereWith(plan, conditions), countTo)} end as total`;
  const counted = sql`select objects, more, first, last${count}${isSplit ? raw(', records') : EMPTY} from (${page} offset 0) page`;
  return isSplit
    ? splitRows(counted, ['more', 'first', 'last', ...(countTo === undefined ? [] : ['total'])])
    : counted;
}
