// The compiler of reads: from a plan to the SQL of a page, by offset or with cursors, and to that of a stream.
import {
  boundText,
  EMPTY,
  join,
  LARGE,
  literal,
  Parameters,
  raw,
  sql,
  value,
  type Fragment,
} from '../db/fragment.ts';
import { createStatement, isTrue, text, type RawRow, type Statement } from '../db/rows.ts';
import { isKeyless, partsOf, reference } from '../db/schema/model.ts';
import type { SqlCache } from '../db/sql-cache.ts';
import { afterBoundary, backward, checkTables } from './after-boundary.ts';
import { conditionSql, isUncancelable } from './condition-sql.ts';
import { isByKey, ROOT, type ListPlan, type Projection, type ReadPlan, type RowVisibility } from './plan.ts';
import { joinsSql, source, wholeRows } from './source.ts';

/** PostgreSQL's largest OFFSET. */
const MAX_OFFSET = 2n ** 63n - 1n;
/** Up to this offset, reading the skipped rows in full costs less than looking up the page's rows in a second step. */
const NEAR_OFFSET = 1000n;
/** Maximum rows of a page that is certain to be short to read and to send. */
const SHORT_ROWS = 25;
/** Up to this many short rows, only the size of the page is checked. That is much faster, but PostgreSQL holds all of them in memory. */
const MAX_ROWS_WITHOUT_SUM = 25;
/** Bytes of a page above which its records are rows of their own, see `isSplit`. */
const SPLIT_ABOVE = 2 * LARGE;
/** Maximum bytes of the values that a cursor holds, which is a part of a URL: those of the longest key, and 2 KiB. */
const MAX_KEY_BYTES = 6144;

function fromWhereWith({ from }: Pick<BoundParts, 'from'>, conditions: readonly Fragment[]): Fragment {
  const where = conditions.length > 0 ? sql` where ${join(conditions, ' and ')}` : EMPTY;
  return sql` from ${from}${where}`;
}

const fromOf = ({ model, joins, visibility }: ListPlan): Fragment =>
  sql`${source(model, ROOT, visibility)}${joinsSql(joins, visibility)}`;

/**
 * The plan's FROM and WHERE. Filters see what the caller sees; rules about writing see all values of the same rows.
 * @param isWhole whether the rows have all values
 */
export function fromWhere(plan: ListPlan, isWhole = plan.where.some((one) => 'rule' in one)): Fragment {
  const { model, visibility, where } = plan;
  if (!isWhole || !visibility.rows(model)?.columns)
    return fromWhereWith({ from: fromOf(plan) }, where.map(conditionSql));
  const key = join(
    partsOf(model.primaryKey).map((part) => reference(ROOT, part)),
    ', ',
  );
  const rules = where.filter((one) => 'rule' in one);
  const found = fromWhere({ ...plan, where: where.filter((one) => !('rule' in one)) });
  return fromWhereWith({ from: wholeRows(model, ROOT, visibility) }, [
    sql`(${key}) in (select ${key}${found})`,
    ...rules.map(conditionSql),
  ]);
}

/**
 * The ORDER BY of a list. Without a key and an ordering there is none.
 * @param expressions what each ordering sorts by at this place of the statement
 */
function orderBy({ orderings }: ListPlan, expressions: readonly Fragment[]): Fragment {
  const list = orderings.map(
    ({ descending }, index) => sql`${expressions[index] ?? EMPTY}${descending ? raw(' desc') : EMPTY}`,
  );
  return list.length === 0 ? EMPTY : sql` order by ${join(list, ', ')}`;
}

const sortColumns = ({ orderings }: ListPlan): Fragment[] =>
  orderings.map(({ alias, column }) => reference(alias, column));

/** The value of an ordering in a row that a subselect chooses. Columns do not have such names in practice. */
const sortKey = (index: number): Fragment => raw(`"#${index}"`);

const sortKeys = ({ orderings }: ListPlan): Fragment[] =>
  orderings.map((_, index) => sql`p.${sortKey(index)}`);

/** Whether a condition of the plan may block its connection. */
export const mayBlock = ({ where }: ListPlan): boolean =>
  where.some((one) =>
    'rule' in one ? false : 'anyOf' in one ? one.anyOf.some(isUncancelable) : isUncancelable(one),
  );

/** Whether the statement is certain to be short: a first page of few rows, in the order of the key. It has no parameters. */
export const isShort = (plan: ListPlan): boolean =>
  plan.model.isFast &&
  plan.visibility.rows(plan.model) === undefined &&
  plan.where.length === 0 &&
  isByKey(plan) &&
  plan.offset === 0n &&
  plan.limit <= SHORT_ROWS;

/** See `isPlain`. The output may join any tables. */
export const isPlainRead = (
  { model, joins, visibility }: Pick<ListPlan, 'model' | 'joins'> & { readonly visibility: RowVisibility },
  output: Projection,
): boolean =>
  output.joins === EMPTY &&
  [model, ...joins.map((join) => join.model)].every(
    (one) => !one.mayHideRows && one.relation === undefined && visibility.rows(one)?.isPlain !== false,
  );

/** The parts of a page's SQL that have values, with parameters in their place. */
interface BoundParts {
  /** The listed rows and the joins. */
  readonly from: Fragment;
  /** The listed rows alone. */
  readonly rows: Fragment;
  readonly conditions: readonly Fragment[];
  readonly offset: Fragment;
  /** The conditions of the records after the boundary, each for a separate query; undefined without a boundary. */
  readonly after: readonly Fragment[] | undefined;
}

function bind({ list, boundary }: ReadPlan, parameters: Parameters): BoundParts {
  const { model, joins, visibility, where, offset, orderings } = list;
  const skipped = value(String(offset < MAX_OFFSET ? offset : MAX_OFFSET));
  const rows = parameters.take(source(model, ROOT, visibility));
  return {
    rows,
    from: sql`${rows}${parameters.take(joinsSql(joins, visibility))}`,
    conditions: where.map((condition) => parameters.take(conditionSql(condition))),
    offset: offset === 0n ? EMPTY : parameters.take(sql` offset ${skipped}::int8`),
    after: boundary ? afterBoundary(boundary, orderings, parameters) : undefined,
  };
}

/** The rows of the page, and one more if there is one, which shows that there is a next page. @param columns of each row */
function rowsSql(plan: ListPlan, columns: Fragment, parts: BoundParts): Fragment {
  const { conditions, after, offset } = parts;
  // A literal, because PostgreSQL's generic plan of a prepared statement does not know parameters.
  const limit = raw(` limit ${plan.limit + 1}`);
  const order = orderBy(plan, sortColumns(plan));
  const rowsWhere = (more: readonly Fragment[]): Fragment =>
    sql`select ${columns}${fromWhereWith(parts, [...conditions, ...more])}${order}${limit}${offset}`;
  const [only, ...others] = after ?? [];
  if (others.length === 0) return rowsWhere(only ? [only] : []);
  const each = (after ?? []).map((condition) => sql`(${rowsWhere([condition])})`);
  const sorted = orderBy(
    plan,
    plan.orderings.map((_, index) => sortKey(index)),
  );
  return sql`select * from (${join(each, ' union all ')}) parts${sorted}${limit}`;
}

/**
 * The rows of the page as ROOT: their keys are chosen first, as `p`, so that skipped rows are not read in full. The key of a view
 * may be NULL or repeated, so its rows are chosen in full, as are those without a key.
 */
function chosenRows(plan: ListPlan, parts: BoundParts): Fragment {
  const { model, orderings } = plan;
  const isWhole = model.primaryKey.isUnchecked === true || isKeyless(model);
  const keys = sortColumns(plan).map((key, index) => sql`${key} as ${sortKey(index)}`);
  const chosen = rowsSql(plan, join(isWhole ? [...keys, raw(`${ROOT}.*`)] : keys, ', '), parts);
  if (isWhole) return sql`(${chosen}) p cross join lateral (select p.*) ${raw(ROOT)}`;
  const key = partsOf(model.primaryKey);
  const first = orderings.length - key.length;
  const same = key.map((part, index) => sql`${reference(ROOT, part)} = p.${sortKey(first + index)}`);
  return sql`(${chosen}) p join ${parts.rows} on ${join(same, ' and ')}`;
}

/** The text of a row, or NULL past the byte limit, so that PostgreSQL does not keep it in memory. */
const withinLimit = ({ maxBytes }: ReadPlan, order: Fragment): Fragment =>
  sql`case when sum(octet_length(text)) over (${order}) <= ${raw(String(maxBytes))} then text end`;

/** The records of a page by offset in order, with the one after the page. */
function recordsAtOffset(plan: ReadPlan, parts: BoundParts, isSummed: boolean): Fragment {
  const { list, columns } = plan;
  const { value: shown, joins } = columns;
  const isNear = isByKey(list) && list.offset <= NEAR_OFFSET;
  const rows = isNear
    ? sql`(${rowsSql(list, raw(`${ROOT}.*`), parts)}) ${raw(ROOT)}`
    : chosenRows(list, parts);
  // A join does not keep the order of rows.
  const isSorted = isNear && joins === EMPTY;
  const order = orderBy(list, isNear ? sortColumns(list) : sortKeys(list));
  const texts = sql`select ${shown} from ${rows}${joins}${isSorted ? EMPTY : order}`;
  const records = isSummed
    ? sql`select ${withinLimit(plan, raw('rows unbounded preceding'))} from (${texts}) rows (text)`
    : texts;
  return sql`select array(${records}) as records`;
}

/** The records of a page with cursors in order, whether there are more in its direction, and the keys of the first and the last. */
function recordsWithKeys(plan: ReadPlan, parts: BoundParts, isSummed: boolean): Fragment {
  const { list, columns, boundary } = plan;
  const texts = sortKeys(list).map((key) => sql`${key}::text`);
  const keys = sql`json_build_array(${join(texts, ', ')})::text`;
  const rows = sql`select row_number() over (${orderBy(list, sortKeys(list))}) as n, ${keys} as keys, ${columns.value} as text from ${chosenRows(list, parts)}${columns.joins}`;
  const shortKeys = sql`case when octet_length(keys) <= ${raw(String(MAX_KEY_BYTES))} then keys else '[]' end`;
  // `offset 0` keeps PostgreSQL from computing a value once per use.
  const bounded = isSummed ? withinLimit(plan, raw('order by n')) : raw('text');
  const page = sql`(select n, ${shortKeys} as keys, ${bounded} as text from (${rows} offset 0) rows) page`;
  const [first, last] = boundary?.isBackward === true ? [raw(' desc'), EMPTY] : [EMPTY, raw(' desc')];
  const collected = (name: string, order: Fragment): Fragment =>
    sql`array_agg(${raw(name)} order by n${order}) filter (where n <= ${raw(String(list.limit))})`;
  const more = sql`coalesce(bool_or(n > ${raw(String(list.limit))}), false)`;
  return sql`select coalesce(${collected('text', first)}, '{}') as records, ${more} as more, (${collected('keys', first)})[1] as first, (${collected('keys', last)})[1] as last from ${page}`;
}

/** Counts the records as text. Past the limit the text is the limit with a plus sign. */
function countSql(rows: Fragment, limit: number): Fragment {
  if (limit === Infinity) return sql`(select count(*)${rows})::text`;
  const [max, next] = [raw(String(limit)), raw(String(limit + 1))];
  const counted = sql`(select${rows} limit ${next}) counted`;
  return sql`(select case when count(*) > ${max} then '${max}+' else count(*)::text end from ${counted})`;
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

/**
 * The SQL of a page. Skipped rows are never formatted.
 * @param isSmall whether each record's size is checked before PostgreSQL formats it, so that it need not add up the texts
 */
function pageSql(plan: ReadPlan, parts: BoundParts, isSmall: boolean): Fragment {
  const { list, columns, maxBytes, separator = ',', boundary, countTo } = plan;
  const hasCursors = boundary !== undefined;
  const isLong = columns.size !== undefined && !isSmall;
  const isSummed = isLong || (list.limit > MAX_ROWS_WITHOUT_SUM && !isSmall);
  const isSplit = isLong && plan.isSplit === true;
  const edges = hasCursors ? raw(', first, last') : EMPTY;
  const collected = (hasCursors ? recordsWithKeys : recordsAtOffset)(plan, parts, isSummed);
  const limit = raw(String(list.limit));
  const [records, more] = hasCursors
    ? [raw('records'), raw('more')]
    : [sql`records[1:${limit}]`, sql`cardinality(records) > ${limit}`];
  const objects = sql`case when array_position(${records}, null) is null then array_to_string(${records}, ${literal(separator)}) end`;
  const joined = sql`select ${objects} as objects, ${more} as more${edges}${isSplit ? sql`, ${records} as records` : EMPTY} from (${collected} offset 0) page`;
  const page = isSummed
    ? joined
    : sql`select case when octet_length(objects) <= ${raw(String(maxBytes))} then objects end as objects, more${edges} from (${joined} offset 0) page`;
  if (!hasCursors && countTo === undefined) return isSplit ? splitRows(page, ['more']) : page;
  const total =
    countTo === undefined
      ? raw('null')
      : sql`case when objects is not null then ${countSql(fromWhereWith(parts, parts.conditions), countTo)} end`;
  const whole = sql`select objects, more, ${total} as total${edges}${isSplit ? raw(', records') : EMPTY} from (${page} offset 0) page`;
  return isSplit ? splitRows(whole, ['more', 'total', ...(hasCursors ? ['first', 'last'] : [])]) : whole;
}

/**
 * The same page for shared connections: NULL if its records have more than LARGE bytes. With `isSummed`, PostgreSQL adds up the
 * sizes of all records. Without it, each record may have an equal part of LARGE, which is faster to check.
 */
function smallPage(plan: ReadPlan, size: Fragment, isSummed: boolean): ReadPlan {
  const { list, columns, maxBytes } = plan;
  const isSmall = isSummed
    ? sql`sum(${size}) over () <= ${raw(String(LARGE))}`
    : sql`${size} <= ${raw(String(Math.floor(LARGE / (list.limit + 1))))}`;
  const shown = sql`case when ${isSmall} then ${columns.value} end`;
  return { ...plan, columns: { ...columns, value: shown }, maxBytes: Math.min(maxBytes, LARGE) };
}

/** What the SQL of a page depends on besides its output. JSON keys have no spaces or punctuation, which separate the parts. */
function pageKey({ list, boundary }: ReadPlan, parts: BoundParts): string {
  const { from, conditions, after, offset } = parts;
  const { model, joins, orderings, visibility, limit, offset: skipped } = list;
  let key = `${limit} ${skipped <= NEAR_OFFSET}`;
  // The values of a caller decide which alternatives of a rule are left out.
  if ([model, ...joins.map((join) => join.model)].some((one) => visibility.rows(one) !== undefined))
    key += ` from ${boundText(from)}`;
  if (boundary !== undefined) key += ` cursors ${boundary?.isBackward === true}`;
  for (const { from, column } of joins) key += ` ${from}.${column.key}`;
  for (const { alias, column, descending } of orderings) key += ` ${alias}.${column.key}:${descending}`;
  for (const condition of conditions) key += ` and ${boundText(condition)}`;
  for (const condition of after ?? []) key += ` after ${boundText(condition)}`;
  return key + boundText(offset);
}

const NO_TEXT = Buffer.alloc(0);

const parseKeys = (json: string | null): readonly (string | null)[] | undefined =>
  json === null ? undefined : (JSON.parse(json) as (string | null)[]);

function readPage(rows: readonly RawRow[]) {
  const [row] = rows;
  return {
    /**
     * Together the records of the page, in order: all in one cell, or one in each, see `isSplit`. Undefined if they exceed the byte
     * limit.
     */
    objects: row?.[0] ? rows.map(([cell]) => cell ?? NO_TEXT) : undefined,
    /** Whether there are more records in the direction of the page. */
    hasMore: isTrue(row?.[1]),
    /** The number of matching records if it was requested. */
    total: text(row?.[2]) ?? undefined,
    /** For cursors: the first and the last record as `Boundary.keys`; undefined if there is none, `[]` if they are too long. */
    firstKeys: parseKeys(text(row?.[3])),
    lastKeys: parseKeys(text(row?.[4])),
  };
}

export type Page = ReturnType<typeof readPage>;

/**
 * One page.
 * @param cache of the SQL. Its keys leave out the output, so each output needs its own cache
 * @throws Problem 400 if the pages of a list with cursors read too many tables
 */
export function pageStatement(asked: ReadPlan, cache: SqlCache = (_, build) => build()): Statement<Page> {
  const { list, columns, boundary } = asked;
  if (boundary !== undefined) checkTables(list);
  /** In the direction of the page. */
  const plan = boundary?.isBackward
    ? { ...asked, list: { ...list, orderings: backward(list.orderings) } }
    : asked;
  const parameters = new Parameters();
  const parts = bind(plan, parameters);
  const bound = { ...plan, columns: { ...columns, joins: parameters.take(columns.joins) } };
  const key = pageKey(plan, parts);
  const compiled = (kind: string, read: () => ReadPlan): string =>
    cache(`${kind} ${key}`, () => parameters.compile(pageSql(read(), parts, kind !== '')));
  const { size } = columns;
  return {
    text: compiled('', () => bound),
    small:
      size && ((isSummed) => compiled(isSummed ? 'summed' : 'each', () => smallPage(bound, size, isSummed))),
    values: parameters.values,
    isPage: true,
    isPlain: isPlainRead(list, columns),
    mayBlock: mayBlock(list),
    decode: readPage,
  };
}

/** A record of a stream or an export, or a part of a long one. */
export interface RecordPart {
  readonly bytes: Buffer;
  /** Whether it continues the record of the previous part. */
  readonly isContinued: boolean;
}

/** Bytes of a part. Records that are not longer have one part. */
const PART_BYTES = 16_384;

const partOf = ([bytes, number]: RawRow): RecordPart => ({
  bytes: bytes ?? NO_TEXT,
  isContinued: number !== null,
});

/** The offset in the column `long` of the last character that begins at or before `offset`. A character has at most 4 bytes. */
function characterAt(offset: Fragment): Fragment {
  const begins = (back: number): Fragment =>
    sql`get_byte(long, ${offset} - ${raw(String(back))}) & 192 <> 128 then ${raw(String(back))}`;
  return sql`${offset} - case when ${offset} >= octet_length(long) then 0 when ${begins(0)} when ${begins(1)} when ${begins(2)} else 3 end`;
}

/**
 * All records that the plan matches, on all pages. Rows are formatted after sorting. PostgreSQL divides long records, so that the
 * rows of a batch are never large. It divides their bytes (`long`): finding a character takes longer the farther it is. Each part
 * is then a text again, because the output of `bytea` is longer and depends on `bytea_output`.
 * @param shown the text of a row of alias ROOT
 */
export function streamStatement(plan: ListPlan, shown: Fragment): Statement<readonly RecordPart[]> {
  const rows = sql`select ${raw(ROOT)}.*${fromWhere(plan)}${orderBy(plan, sortColumns(plan))}`;
  const size = raw(String(PART_BYTES));
  // `offset 0` keeps PostgreSQL from computing a value once per use.
  const texts = sql`(select ${shown} as whole from (${rows}) ${raw(ROOT)} offset 0) texts`;
  const long = sql`case when octet_length(whole) > ${size} then convert_to(whole, 'UTF8') end`;
  const records = sql`(select whole, ${long} as long from ${texts} offset 0) records`;
  const parts = sql`(select whole, long, generate_series(0, coalesce((octet_length(long) - 1) / ${size}, 0)) as n from ${records}) parts`;
  const [first, next] = [characterAt(sql`n * ${size}`), characterAt(sql`(n + 1) * ${size}`)];
  const part = sql`convert_from(substring(long from ${first} + 1 for ${next} - (${first})), 'UTF8')`;
  return createStatement(
    sql`select case when long is null then whole else ${part} end, nullif(n, 0) from ${parts}`,
    (found) => found.map(partOf),
  );
}
