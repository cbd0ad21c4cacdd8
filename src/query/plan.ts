// Plans of reads, and how the names of a list query become columns and joins. Only this file resolves them for SQL. The admin area
// resolves the paths of filters, too, but to describe them.
import type { Fragment } from '../db/fragment.ts';
import type { Operator } from '../db/types/column-type.ts';
import { partsOf, type Column, type Model } from '../db/schema/model.ts';
import { addError, excerpt, type FieldErrors } from '../errors.ts';
import { filterValues, OPERATORS } from './parse/filter-values.ts';
import {
  elementsInstead,
  guessed,
  guessName,
  unknownName,
  unknownRest,
  withGuess,
  type Fault,
} from './parse/guesses.ts';
import type { FilterQuery, ListQuery, OrderingQuery } from './parse/grammar.ts';
import { QueryBudget, SEARCH_TOO_LONG } from './parse/query-budget.ts';
import { messageOf, type Message } from '../messages.ts';

/** Maximum number of foreign keys that a path may follow. */
export const MAX_PATH_KEYS = 4;
/** Maximum number of joined tables. With many more, planning takes longer than reading. */
export const MAX_JOINED_TABLES = 20;

/** The rows of a model that the caller may see, as SQL about the row of alias ROOT. */
export interface VisibleRows {
  readonly where: Fragment;
  /** All columns of the model, with NULL for values that the caller may see only in other rows; undefined if there are none. */
  readonly columns: Fragment | undefined;
  /** The columns with such values. */
  readonly partial: ReadonlySet<Column>;
  /** Whether the conditions read only the row itself. */
  readonly isPlain: boolean;
}

/** The columns, models and rows that the caller may see. A plan treats everything else as if it did not exist. */
export interface Visibility {
  /** The column with this name in the API, unless it is excluded. */
  readonly find: (model: Model, name: string) => Column | undefined;
  /** Whether paths may lead into this model. */
  readonly joinable: (model: Model) => boolean;
  /** Which rows of the model exist for the caller; undefined for all of them. */
  readonly rows: (model: Model) => VisibleRows | undefined;
}

/** Which rows exist for the caller. */
export type RowVisibility = Pick<Visibility, 'rows'>;

export interface Join {
  /** The alias of the joined table. */
  readonly alias: string;
  /** The alias of the table that has the foreign key. */
  readonly from: string;
  /** The foreign key. */
  readonly column: Column;
  /** The joined model. */
  readonly model: Model;
}

/** A column and the alias of its table. */
export interface ResolvedColumn {
  readonly alias: string;
  readonly column: Column;
}

export interface Condition extends ResolvedColumn {
  readonly operator: Operator;
  readonly values: readonly string[];
  readonly negated: boolean;
  /** For `ilike`: the text without the marks of its letters matches, and has any. */
  readonly isFolded?: boolean;
}

/** True if one of its conditions is true: a search looks for a word in several columns. */
export interface AnyOf {
  readonly anyOf: readonly Condition[];
}

/** A rule about rows. */
export interface RowCondition {
  readonly rule: Fragment;
}

/** A search: a record matches if each word is in at least one of the columns. */
export interface Search {
  readonly words: readonly string[];
  /** The paths of text columns: `['user', 'username']`. */
  readonly paths: readonly (readonly string[])[];
}

export interface Ordering extends ResolvedColumn {
  readonly descending: boolean;
}

/** The records of a list, with names resolved and access applied. Only the database can still fail. */
export interface ListPlan {
  readonly model: Model;
  /** Whose rows exist for the caller. */
  readonly visibility: Visibility;
  readonly joins: readonly Join[];
  readonly where: readonly (Condition | AnyOf | RowCondition)[];
  /** Ends with the columns of the primary key, so that the order is total. Empty without a key and an ordering. */
  readonly orderings: readonly Ordering[];
  /** The records and the offset of one page. */
  readonly limit: number;
  readonly offset: bigint;
}

/** How a read outputs each row of alias ROOT: one text, and the joins that it needs. */
export interface Projection {
  readonly value: Fragment;
  readonly joins: Fragment;
  /** The approximate size of the row's values in bytes, computed without reading long ones; undefined if it is certainly small. */
  readonly size?: Fragment | undefined;
}

/** The record next to which a page begins, or ends if `isBackward`. It may be deleted by now. */
export interface Boundary {
  /** The record's values in the columns of the ordering, as texts. */
  readonly keys: readonly (string | null)[];
  /** Whether the page has the records before the boundary, and not those after it. */
  readonly isBackward: boolean;
  /** Whether the page includes the record of the boundary. */
  readonly isInclusive: boolean;
}

/** One page of a list, and how it is output. */
export interface ReadPlan {
  readonly list: ListPlan;
  readonly columns: Projection;
  /** Maximum bytes of the records. */
  readonly maxBytes: number;
  /** The text between two records; a comma by default. */
  readonly separator?: '' | ',';
  /** For links with cursors: where the page begins, null for its offset. Undefined for a page without cursors. */
  readonly boundary?: Boundary | null | undefined;
  /** Counts the matching records up to this number: Infinity for no limit. It is a part of the statement, to use one connection. */
  readonly countTo?: number | undefined;
  /**
   * Whether each record of a long page is one row, without separators. The driver and the response then hold no single value of
   * megabytes, which would take the event loop long to copy.
   */
  readonly isSplit?: boolean;
}

/** Whether the order is that of the primary key alone. */
export const isByKey = ({ model, orderings }: ListPlan): boolean =>
  orderings.length === partsOf(model.primaryKey).length;

/**
 * Whether PostgreSQL's estimate for the plan would reveal rows that it does not list, for example of a model that shows only a part
 * of its table (`relation`).
 */
export const mayHideRows = ({
  model,
  joins,
  visibility,
}: Pick<ListPlan, 'model' | 'joins' | 'visibility'>): boolean =>
  [model, ...joins.map((join) => join.model)].some(
    (one) => one.mayHideRows || one.relation !== undefined || visibility.rows(one) !== undefined,
  );

/** The alias of the listed model's own table. */
export const ROOT = 't';

/** Collects joins. Each path is joined once: filters, orderings and the search share it, and so do the labels of a record. */
export class Joins {
  readonly list: Join[] = [];
  readonly #prefix: string;
  readonly #max: number;

  constructor(prefix: string, max = Infinity) {
    this.#prefix = prefix;
    this.#max = max;
  }

  /** The alias of the record that a foreign key of `from` refers to; undefined if this is one table too many. */
  follow(from: string, column: Column): string | undefined {
    const existing = this.list.find((join) => join.from === from && join.column === column);
    if (existing) return existing.alias;
    const { references } = column;
    if (!references || this.list.length >= this.#max) return undefined;
    const alias = `${this.#prefix}${this.list.length + 1}`;
    this.list.push({ alias, from, column, model: references });
    return alias;
  }
}

interface ResolvedPath extends ResolvedColumn {
  /** The parts after the last column: an operator, or unknown names. */
  readonly rest: readonly string[];
}

/**
 * Follows the parts of a path as long as they are columns. A column's name takes precedence over an operator's.
 * @returns the last column, or an error message
 */
function resolvePath(
  parts: readonly string[],
  model: Model,
  visibility: Visibility,
  joins: Joins,
): ResolvedPath | { fault: Message } {
  let alias = ROOT;
  let column = visibility.find(model, parts[0] ?? '');
  if (!column) return { fault: messageOf('noColumn') };
  for (let index = 1; index < parts.length; index += 1) {
    const target: Model | undefined = column.references;
    const part = parts[index] ?? '';
    const next: Column | undefined = target && visibility.find(target, part);
    const isOperator = !next && index === parts.length - 1 && OPERATORS.has(part);
    // The order matters: an operator must not call `joinable`, because `Listing.needsCaller` takes each call as a join. A hidden
    // model and a missing column give the same answer.
    if (!target || isOperator || !visibility.joinable(target) || !next)
      return { alias, column, rest: parts.slice(index) };
    if (index > MAX_PATH_KEYS) return { fault: messageOf('longPath', { max: MAX_PATH_KEYS }) };
    // The foreign key already holds the related record's key, so no join is needed.
    if (next === target.primaryKey) return { alias, column, rest: parts.slice(index + 1) };
    const joined = joins.follow(alias, column);
    if (joined === undefined) return { fault: messageOf('tooManyJoins', { max: MAX_JOINED_TABLES }) };
    alias = joined;
    column = next;
  }
  return { alias, column, rest: [] };
}

/** The names that the caller may use in paths. */
const namesIn = (model: Model, { find }: Visibility): string[] =>
  ['id', ...[...model.columns, ...model.foreignKeys].map(({ name }) => name)].filter((name) =>
    find(model, name),
  );

function planFilter(
  filter: FilterQuery,
  model: Model,
  visibility: Visibility,
  joins: Joins,
  budget: QueryBudget,
): Condition | Fault {
  const resolved = resolvePath(filter.parts, model, visibility, joins);
  if ('fault' in resolved)
    return resolved.fault.code === 'noColumn'
      ? unknownName(filter.parts, () => namesIn(model, visibility))
      : resolved;
  const { alias, column, rest } = resolved;
  const operator = (rest[0] ?? 'eq') as Operator;
  if (rest.length > 1 || !OPERATORS.has(operator)) {
    const { references } = column;
    const names = (): string[] =>
      references && visibility.joinable(references) ? namesIn(references, visibility) : [];
    return unknownRest(rest, column.type.operators, names);
  }
  if (!column.type.operators.has(operator)) return unknownRest(rest, column.type.operators);
  const parsed = filterValues(operator, filter.values, column);
  if ('fault' in parsed) return elementsInstead(parsed.fault, filter, rest, column);
  const { values } = parsed;
  let fault = budget.digits.take(parsed.addedDigits);
  if (operator === 'like' || operator === 'ilike') fault ??= budget.takePatterns(values);
  if (operator === 'contains')
    fault ??= column.elementFacts ? budget.takeElements(parsed.elementCount) : budget.takeJson(values);
  return fault === undefined ? { alias, column, operator, values, negated: filter.negated } : { fault };
}

function planOrdering(
  ordering: OrderingQuery,
  model: Model,
  visibility: Visibility,
  joins: Joins,
): Ordering | { fault: Message } {
  const name = excerpt(ordering.parts.join('__'));
  const resolved = resolvePath(ordering.parts, model, visibility, joins);
  if ('fault' in resolved) {
    if (name === '') return { fault: messageOf('noColumns') };
    const guess = guessName(ordering.parts[0] ?? '', namesIn(model, visibility));
    const isUnknown = resolved.fault.code === 'noColumn';
    return {
      fault: messageOf('named', { name, fault: withGuess(resolved.fault, isUnknown ? guess : undefined) }),
    };
  }
  if (resolved.rest.length > 0) return { fault: messageOf('named', { name, fault: messageOf('noColumn') }) };
  if (resolved.column.type.unordered) return { fault: messageOf('notSortable', { name }) };
  return { alias: resolved.alias, column: resolved.column, descending: ordering.descending };
}

/** Escapes a text for a LIKE pattern, so that it matches itself only. */
export const escapePattern = (text: string): string => text.replace(/[\\%_]/g, '\\$&');

/** The LIKE pattern of all texts that contain this text. */
export const containing = (text: string): string => `%${escapePattern(text)}%`;

/** A text in the form of `foldedText`, before its letters become small. */
const fold = (text: string): string => text.normalize('NFKD').replace(/[\u0300-\u036f]/g, '');

/** One condition for each word: a column contains it, perhaps with other marks, or it is the record's key. */
function planSearch({ words, paths }: Search, model: Model, visibility: Visibility, joins: Joins): AnyOf[] {
  if (words.length === 0) return [];
  const resolvedColumns = paths.flatMap((path) => {
    const resolved = resolvePath(path, model, visibility, joins);
    return 'fault' in resolved || resolved.rest.length > 0 ? [] : [resolved];
  });
  const key = model.primaryKey;
  return words.map((word) => {
    const id = key.type.parse(word, key);
    const folded = fold(word);
    const isFolded = folded.trim() !== '' && folded.length <= 2 * word.length;
    const anyOf = resolvedColumns.flatMap(({ alias, column }): Condition[] => {
      const condition = { alias, column, operator: 'ilike', negated: false } as const;
      const texts = isFolded ? [...new Set([word, folded])] : [word];
      const plain = texts.map((text) => ({ ...condition, values: [containing(text)] }));
      return isFolded ? [...plain, { ...condition, values: [containing(folded)], isFolded }] : plain;
    });
    if (id.fault === undefined)
      anyOf.push({ alias: ROOT, column: key, operator: 'eq', values: [id.value], negated: false });
    return { anyOf };
  });
}

const eachPart = ({ alias, column, descending }: Ordering): Ordering[] =>
  partsOf(column).map((part) => ({ alias, column: part, descending }));

/** A column has no effect on the order after its first occurrence. */
const withoutRepeats = (orderings: readonly Ordering[]): Ordering[] =>
  orderings.filter(
    ({ alias, column }, index) =>
      orderings.findIndex((one) => one.alias === alias && one.column === column) === index,
  );

/**
 * Resolves the names of a list query.
 * @param defaultOrdering the resource's ordering, for a request without one
 * @param errors receives error messages by parameter; a plan with errors must not run
 */
export function planList(
  query: ListQuery,
  model: Model,
  visibility: Visibility,
  defaultOrdering: readonly OrderingQuery[],
  errors: FieldErrors,
  search?: Search,
): ListPlan {
  const joins = new Joins('j', MAX_JOINED_TABLES);
  const budget = new QueryBudget();
  const where: (Condition | AnyOf)[] = [];
  // First, because a search skips columns that it cannot join.
  const searched = search ? planSearch(search, model, visibility, joins) : [];
  for (const filter of query.filters) {
    const condition = planFilter(filter, model, visibility, joins, budget);
    if ('fault' in condition) addError(errors, filter.parameter, guessed(condition, errors));
    else where.push(condition);
  }
  const words = search?.words ?? [];
  if (words.length > 0 && budget.takePatterns(words.map(containing)) !== undefined)
    addError(errors, '_search', SEARCH_TOO_LONG);
  else where.push(...searched);
  const orderings: Ordering[] = [];
  for (const ordering of query.orderings ?? defaultOrdering) {
    const planned = planOrdering(ordering, model, visibility, joins);
    if (!('fault' in planned)) orderings.push(planned);
    // Of the default ordering, a caller gets what they may see.
    else if (query.orderings) addError(errors, 'ordering', planned.fault);
  }
  const isKey = ({ alias, column }: ResolvedColumn): boolean => alias === ROOT && column === model.primaryKey;
  const keyIndex = orderings.findIndex(isKey);
  // The key is unique, so orderings after it have no effect.
  const before = keyIndex < 0 ? orderings : orderings.slice(0, keyIndex);
  const byKey = orderings[keyIndex] ?? { alias: ROOT, column: model.primaryKey, descending: false };
  return {
    model,
    visibility,
    joins: joins.list,
    where,
    orderings: [...withoutRepeats(before.flatMap(eachPart)), ...eachPart(byKey)],
    limit: query.limit,
    offset: (query.page - 1n) * BigInt(query.limit),
  };
}
