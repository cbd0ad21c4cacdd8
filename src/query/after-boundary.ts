// The conditions of the records after a boundary, or before it, for pages with cursors.
import { badQuery, errorOf } from '../errors.ts';
import { join, raw, sql, type Binder, type Fragment } from '../db/fragment.ts';
import { mayBeNull, reference, typed } from '../db/schema/model.ts';
import { MAX_JOINED_TABLES, ROOT, type Boundary, type ListPlan, type Ordering } from './plan.ts';
import { messageOf } from '../messages.ts';

/**
 * Maximum number of tables that a page reads, over all conditions of `recordsAfter`. Eight columns and a key of one column make
 * at most 18 conditions, or 19 for a view, whose key may be NULL.
 */
const MAX_TABLES_READ = 19 * (MAX_JOINED_TABLES + 1);

const orderingMayBeNull = ({ alias, column }: Ordering): boolean => alias !== ROOT || mayBeNull(column);

/** Whether one comparison of rows is enough for all of these columns. */
const isUniform = (orderings: readonly Ordering[]): boolean =>
  orderings.every((one) => one.descending === orderings[0]?.descending && !orderingMayBeNull(one));

export const backward = (orderings: readonly Ordering[]): readonly Ordering[] =>
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
  const columnOf = ({ alias, column }: Ordering): Fragment => reference(alias, column);
  const column = columnOf(ordering);
  if (boundaryKeys.length > 1 && isUniform(boundaryKeys.map((one) => one.ordering))) {
    const columns = boundaryKeys.map((one) => columnOf(one.ordering));
    const keys = boundaryKeys.map((one) => one.key ?? raw('null'));
    return [sql`(${join(columns, ', ')}) ${symbol}${raw(isInclusive ? '=' : '')} (${join(keys, ', ')})`];
  }
  const same = key ? sql`${column} = ${key}` : sql`${column} is null`;
  const conditions = recordsAfter(rest, isInclusive).map((after) => sql`${same} and ${after}`);
  if (key) {
    conditions.push(sql`${column} ${symbol} ${key}`);
    if (!ordering.descending && orderingMayBeNull(ordering)) conditions.push(sql`${column} is null`);
  } else if (ordering.descending) conditions.push(sql`${column} is not null`);
  return conditions;
}

/**
 * The conditions that select the records of a page next to a boundary; at least one.
 * @param orderings in the direction of the page
 */
export function afterBoundary(
  { keys, isInclusive }: Boundary,
  orderings: readonly Ordering[],
  parameters: Pick<Binder, 'take'>,
): readonly Fragment[] {
  const boundaryKeys = keys.flatMap((key, index): BoundaryKey[] => {
    const ordering = orderings[index];
    if (!ordering) return [];
    return [{ ordering, key: key === null ? undefined : parameters.take(typed(key, ordering.column)) }];
  });
  const conditions = recordsAfter(boundaryKeys, isInclusive);
  // No condition is left if all values of the boundary are NULL and sort last, as only those of a view can. No record follows.
  return conditions.length === 0 ? [raw('false')] : conditions;
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
export function checkTables({ joins, orderings }: Pick<ListPlan, 'joins' | 'orderings'>): void {
  const conditions = Math.max(mostConditions(orderings), mostConditions(backward(orderings)));
  const count = conditions * (joins.length + 1);
  if (count <= MAX_TABLES_READ) return;
  const fault = messageOf('tooManyTables', { count, max: MAX_TABLES_READ });
  throw badQuery(errorOf('ordering', fault));
}
