import type { Operator } from '../db/types/column-type.ts';
import type { Column, Model } from '../db/schema/model.ts';
import { addError, excerpt, type FieldErrors } from '../errors.ts';
import { filterValues, OPERATORS } from './parse/filter-values.ts';
import type { FilterQuery, ListQuery, OrderingQuery } from './parse/grammar.ts';
import { PatternBudget, SEARCH_TOO_LONG } from './parse/pattern-budget.ts';

/** How many foreign keys a path may follow. */
const MAX_JOINS = 4;

/** What the caller may see of the models: the plan reaches nothing else, and what is hidden is as if it were not there. */
export interface View {
  /** The column by the name that the client uses, unless it is excluded. */
  readonly find: (model: Model, name: string) => Column | undefined;
  /** Whether paths may go into this model. */
  readonly joinable: (model: Model) => boolean;
}

export interface Join {
  readonly alias: string;
  /** The alias and the foreign key that it follows. */
  readonly from: string;
  readonly column: Column;
  readonly model: Model;
}

export interface SearchPath {
  readonly alias: string;
  readonly column: Column;
}

export interface Condition extends SearchPath {
  readonly operator: Operator;
  readonly values: readonly string[];
  readonly negated: boolean;
}

/** Holds where one of its conditions does: what a search asks of several columns. */
export interface AnyOf {
  readonly anyOf: readonly Condition[];
}

/** Words, all of which a record must have, each in any of the columns. */
export interface Search {
  readonly words: readonly string[];
  /** Columns of text by their paths: `['user', 'username']`. */
  readonly paths: readonly (readonly string[])[];
}

export interface Ordering extends SearchPath {
  readonly descending: boolean;
}

/** A page with names resolved and access applied: nothing of it can fail any more but the database. */
export interface ListPlan {
  readonly model: Model;
  readonly joins: readonly Join[];
  readonly where: readonly (Condition | AnyOf)[];
  /** The key is always the last, so that the order is total. */
  readonly orderings: readonly Ordering[];
  readonly limit: number;
  readonly offset: bigint;
}

export const ROOT = 't';
const NO_SUCH_COLUMN = 'there is no such column';

/** Collects the joins of one plan: the same path is joined once, whoever asks. */
class Joins {
  readonly list: Join[] = [];

  follow(from: string, column: Column, model: Model): string {
    const known = this.list.find((join) => join.from === from && join.column === column);
    if (known) return known.alias;
    const alias = `j${this.list.length + 1}`;
    this.list.push({ alias, from, column, model });
    return alias;
  }
}

interface Resolved extends SearchPath {
  /** The parts that are left, after the columns. */
  readonly rest: readonly string[];
}

/**
 * Follows the columns of a path, as many of its parts as are columns ("a column's name is tried before an operator's").
 * @returns the place where they end, or what is wrong
 */
function resolvePath(
  parts: readonly string[],
  model: Model,
  view: View,
  joins: Joins,
): Resolved | { fault: string } {
  let alias = ROOT;
  let column = view.find(model, parts[0] ?? '');
  if (!column) return { fault: NO_SUCH_COLUMN };
  for (let index = 1; index < parts.length; index += 1) {
    const target: Model | undefined = column.references;
    const part = parts[index] ?? '';
    const next: Column | undefined = target && view.find(target, part);
    const isOperator = !next && index === parts.length - 1 && OPERATORS.has(part);
    // Whether the model may be entered is asked before it matters that it has no such column: who may not, learns nothing.
    if (!target || isOperator || !view.joinable(target) || !next)
      return { alias, column, rest: parts.slice(index) };
    if (index > MAX_JOINS) return { fault: `follows more than ${MAX_JOINS} foreign keys` };
    // The related record's key is the foreign key itself.
    if (next === target.primaryKey) return { alias, column, rest: parts.slice(index + 1) };
    alias = joins.follow(alias, column, target);
    column = next;
  }
  return { alias, column, rest: [] };
}

function planFilter(
  filter: FilterQuery,
  model: Model,
  view: View,
  joins: Joins,
  patterns: PatternBudget,
): Condition | { fault: string } {
  const place = resolvePath(filter.parts, model, view, joins);
  if ('fault' in place) return place;
  const { alias, column, rest } = place;
  const operator = (rest[0] ?? 'eq') as Operator;
  if (rest.length > 1 || !OPERATORS.has(operator)) {
    return { fault: `"${excerpt(rest.join('__'))}" is neither a column nor an operator here` };
  }
  if (!column.type.operators.has(operator))
    return { fault: `the operator ${operator} does not fit this column` };
  const parsed = filterValues(operator, filter.values, column);
  if ('fault' in parsed) return parsed;
  const { values } = parsed;
  const isPattern = operator === 'like' || operator === 'ilike';
  const fault = isPattern ? patterns.take(values) : undefined;
  return fault === undefined ? { alias, column, operator, values, negated: filter.negated } : { fault };
}

function planOrdering(
  ordering: OrderingQuery,
  model: Model,
  view: View,
  joins: Joins,
): Ordering | { fault: string } {
  const name = excerpt(ordering.parts.join('__'));
  const place = resolvePath(ordering.parts, model, view, joins);
  if ('fault' in place) return { fault: name === '' ? 'must name columns' : `${name}: ${place.fault}` };
  if (place.rest.length > 0) return { fault: `${name}: ${NO_SUCH_COLUMN}` };
  if (place.column.type.unordered) return { fault: `${name}: this column has no order` };
  return { alias: place.alias, column: place.column, descending: ordering.descending };
}

/** A text as it stands in a pattern, where it means itself. */
export const escapePattern = (text: string): string => text.replace(/[\\%_]/g, '\\$&');

/** The pattern of the texts that have this text in them. */
export const containing = (text: string): string => `%${escapePattern(text)}%`;

/** One condition for each word: it stands in one of the columns, or it is the record's key. */
function planSearch({ words, paths }: Search, model: Model, view: View, joins: Joins): AnyOf[] {
  const places = paths.flatMap((path) => {
    const place = resolvePath(path, model, view, joins);
    return 'fault' in place || place.rest.length > 0 ? [] : [place];
  });
  const key = model.primaryKey;
  return words.map((word) => {
    const id = key.type.parse(word, key);
    const anyOf = places.map(({ alias, column }): Condition => {
      const values = [containing(word)];
      return { alias, column, operator: 'ilike', values, negated: false };
    });
    if (id.fault === undefined)
      anyOf.push({ alias: ROOT, column: key, operator: 'eq', values: [id.value], negated: false });
    return { anyOf };
  });
}

/**
 * Resolves the names of a list query.
 * @param defaultOrdering the resource's, for a request without one
 * @param errors takes what is wrong, by parameter; a plan made with errors must not be run
 */
export function planList(
  query: ListQuery,
  model: Model,
  view: View,
  defaultOrdering: readonly OrderingQuery[],
  errors: FieldErrors,
  search?: Search,
): ListPlan {
  const joins = new Joins();
  const patterns = new PatternBudget();
  const where: (Condition | AnyOf)[] = [];
  for (const filter of query.filters) {
    const condition = planFilter(filter, model, view, joins, patterns);
    if ('fault' in condition) addError(errors, filter.parameter, condition.fault);
    else where.push(condition);
  }
  if (search && search.words.length > 0) {
    if (patterns.take(search.words.map(containing)) !== undefined)
      addError(errors, '_search', SEARCH_TOO_LONG);
    else where.push(...planSearch(search, model, view, joins));
  }
  const orderings: Ordering[] = [];
  for (const ordering of query.orderings ?? defaultOrdering) {
    const planned = planOrdering(ordering, model, view, joins);
    if ('fault' in planned) addError(errors, 'ordering', planned.fault);
    else orderings.push(planned);
  }
  const isKey = ({ alias, column }: SearchPath): boolean => alias === ROOT && column === model.primaryKey;
  const keyAt = orderings.findIndex(isKey);
  // Whatever stands behind the key can change nothing.
  const total =
    keyAt < 0
      ? [...orderings, { alias: ROOT, column: model.primaryKey, descending: false }]
      : orderings.slice(0, keyAt + 1);
  return {
    model,
    joins: joins.list,
    where,
    orderings: total,
    limit: query.limit,
    offset: (query.page - 1n) * BigInt(query.limit),
  };
}
