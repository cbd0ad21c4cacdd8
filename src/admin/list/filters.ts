// Filters in words: the comparisons that the panel offers, and what a filter of the URL means.
import type { Operator } from '../../db/types/column-type.ts';
import type { Column } from '../../db/schema/model.ts';
import type { Parameter } from '../../query/parse/grammar.ts';
import { filterValues, OPERATORS } from '../../query/parse/filter-values.ts';
import { containing, escapePattern } from '../../query/plan.ts';
import type { AdminView } from '../../resources/access/admin-view.ts';
import { keyText } from '../../db/schema/composite-key.ts';
import { textsOf } from '../fields/form-field.ts';
import type { Content } from '../web/html.ts';
import { isDateTime, localText } from '../web/time-zone.ts';

/** A filter in words: the column, the comparison, and the value, which is null if the comparison has none. */
export interface FilterText {
  readonly what: string;
  readonly how: string;
  readonly value: Content;
}

/** A comparison that the panel offers, and the parameter of the API's grammar that it becomes. */
export interface FilterComparison {
  readonly key: string;
  readonly text: string;
  readonly takesValue: boolean;
  readonly parameter: (path: string, value: string) => Parameter;
}

/** @param nameOf the parameter's name, by the column's path */
const comparison = (
  key: string,
  text: string,
  nameOf: (path: string) => string,
  valueOf: (value: string) => string = (value) => value,
): FilterComparison => ({
  key,
  text,
  takesValue: true,
  parameter: (path, value) => ({ name: nameOf(path), value: valueOf(value) }),
});

const plain = (operator: Operator, text: string): FilterComparison =>
  comparison(operator, text, (path) => (operator === 'eq' ? path : `${path}__${operator}`));

/** A comparison without a value. */
const presence = (key: string, text: string, sign: '' | '-'): FilterComparison => ({
  ...comparison(
    key,
    text,
    (path) => `${sign}${path}__is`,
    () => 'null',
  ),
  takesValue: false,
});

/** Trims the items of a list, since people type a space after a comma. Quoted items stay as they are. */
function trimItems(list: string): string {
  const items: string[] = [];
  let start = 0;
  let isQuoted = false;
  for (let index = 0; index <= list.length; index += 1) {
    if (list[index] === '"') isQuoted = !isQuoted;
    if (index < list.length && (isQuoted || list[index] !== ',')) continue;
    items.push(list.slice(start, index).trim());
    start = index + 1;
  }
  return items.join(',');
}

const CONTAINS = comparison('contains', 'contains', (path) => `${path}__ilike`, containing);
const BEGINS = comparison(
  'begins',
  'begins with',
  (path) => `${path}__ilike`,
  (value) => `${escapePattern(value)}%`,
);
const HAS = comparison('contains', 'contains (a, b)', (path) => `${path}__contains`, trimItems);
const HAS_JSON = comparison('contains', 'contains (JSON)', (path) => `${path}__contains`);
const ONE_OF = comparison('in', 'is one of (a, b)', (path) => `${path}__in`, trimItems);
const EMPTY = presence('empty', 'has no value', '');
const FILLED = presence('filled', 'has a value', '-');

const NUMBER_WORDS: Readonly<Partial<Record<Operator, string>>> = {
  lt: 'is less than',
  lte: 'is at most',
  gt: 'is more than',
  gte: 'is at least',
};
const TIME_WORDS: typeof NUMBER_WORDS = {
  lt: 'is before',
  lte: 'is at or before',
  gt: 'is after',
  gte: 'is at or after',
};
const isTemporal = ({ type }: Column): boolean =>
  ['date', 'datetime-local', 'time'].includes(type.input.control);

/** All comparisons for a column, by the operators of its type. */
export function comparisonsOf(column: Column): FilterComparison[] {
  const { operators, input, castType } = column.type;
  const isChosen = input.control === 'checkbox' || textsOf(column) !== undefined;
  const isText = operators.has('ilike') && !isChosen && !column.references;
  const words = isTemporal(column) ? TIME_WORDS : NUMBER_WORDS;
  // The order of UUIDs is meaningless, and that of texts depends on the database.
  const isOrdered = !column.references && !operators.has('ilike') && castType !== 'uuid';
  const orders = (['gte', 'lte', 'gt', 'lt'] as const).filter(
    (operator) => isOrdered && operators.has(operator),
  );
  const isArray = column.type.element !== undefined;
  return [
    ...(isText ? [CONTAINS, BEGINS] : []),
    ...(operators.has('contains') ? [isArray ? HAS : HAS_JSON] : []),
    plain('eq', isArray ? 'is (["a", "b"])' : 'is'),
    plain('ne', isArray ? 'is not (["a", "b"])' : 'is not'),
    ...orders.map((operator) => plain(operator, words[operator] ?? operator)),
    ...(isChosen || isArray ? [] : [ONE_OF]),
    ...(isText ? [plain('ilike', 'matches the pattern (%, _)')] : []),
    ...(column.nullable ? [EMPTY, FILLED] : []),
  ];
}

/** Whether people can type several values: a date or time control takes only one, and keys are hard to remember. */
const takesSeveral = ({ references, type: { input } }: Column): boolean =>
  !references && input.json !== 'json' && input.control !== 'date' && input.control !== 'time';

/** With a day, these would compare a `datetime` column with midnight. Filters cannot express "not on this day". */
const MISLEADING_WITH_DAYS: ReadonlySet<string> = new Set(['ne', 'in']);

/** The comparisons that the panel of a list offers. */
export const offeredComparisons = (column: Column): FilterComparison[] =>
  comparisonsOf(column).filter((comparison) =>
    isDateTime(column)
      ? !MISLEADING_WITH_DAYS.has(comparison.key)
      : takesSeveral(column) || comparison !== ONE_OF,
  );

/**
 * A comparison of a `datetime` column with a whole day, as filters from midnight to midnight.
 * @param next the day after `day`
 * @returns undefined for the comparisons that already mean the start of the day (`gte`, `lt`), and for those without a value
 */
export function dayFilters(path: string, how: string, day: string, next: string): Parameter[] | undefined {
  const [from, to] = [
    { name: `${path}__gte`, value: day },
    { name: `${path}__lt`, value: next },
  ];
  return { eq: [from, to], lte: [to], gt: [{ name: `${path}__gte`, value: next }] }[how];
}

/** The column at the end of a path; undefined if the admin area does not show it. */
export const columnAt = (path: string, resource: AdminView): Column | undefined =>
  resource.find(path.split('__'))?.column;

/** The title of a path of columns: `Album › Artist › Name`. */
export function pathTitle(parts: readonly string[], resource: AdminView): string {
  const found = resource.find(parts);
  if (!found) return parts.join(' › ');
  return [...found.path, found.column].map(({ title }) => title).join(' › ');
}

/** Splits a filter's name into its path and operator, and finds the column. */
function parseFilterName(
  name: string,
  resource: AdminView,
): { path: readonly string[]; operator: Operator; column: Column | undefined; negated: boolean } {
  const negated = name.startsWith('-');
  const parts = (negated ? name.slice(1) : name).split('__');
  const last = parts.at(-1) ?? '';
  const hasOperator = parts.length > 1 && OPERATORS.has(last) && !resource.find(parts);
  const path = hasOperator ? parts.slice(0, -1) : parts;
  const operator = (hasOperator ? last : 'eq') as Operator;
  return { path, operator, column: resource.find(path)?.column, negated };
}

/** The unescaped text of a pattern; undefined if the pattern has another form. */
const textInPattern = (pattern: RegExp, value: string): string | undefined =>
  pattern.exec(value)?.[1]?.replace(/\\(.)/g, '$1');
const containedText = (value: string): string | undefined => textInPattern(/^%((?:[^%_\\]|\\.)*)%$/, value);
const prefixText = (value: string): string | undefined => textInPattern(/^((?:[^%_\\]|\\.)*)%$/, value);

/** The values of the panel's form that produce a filter; undefined if the form cannot express it. */
export function filterFormValues(
  { name, value }: Parameter,
  resource: AdminView,
): { readonly path: string; readonly comparison: FilterComparison; readonly text: string } | undefined {
  const { path: parts, column } = parseFilterName(name, resource);
  if (!column) return undefined;
  const path = parts.join('__');
  for (const comparison of offeredComparisons(column)) {
    for (const text of [containedText(value), prefixText(value), value]) {
      const parameter = text !== undefined && comparison.parameter(path, text);
      if (parameter && parameter.name === name && parameter.value === value)
        return { path, comparison, text: comparison.takesValue ? text : '' };
    }
  }
  return undefined;
}

/** The keys in a filter by a foreign key; undefined for other columns and other comparisons. */
export function referencedKeys(
  { name, value }: Parameter,
  resource: AdminView,
): { readonly column: Column; readonly keys: readonly string[] } | undefined {
  const { operator, column } = parseFilterName(name, resource);
  if (!column?.references || !['eq', 'ne', 'in'].includes(operator)) return undefined;
  const found = filterValues(operator, [value], column);
  return 'fault' in found ? undefined : { column, keys: found.values.map((key) => keyText(key, column)) };
}

/** The values of a list with the labels of choices. */
const labeledList = (value: string, column: Column | undefined): string =>
  column?.choiceLabels
    ? value
        .split(',')
        .map((one) => column.choiceLabels?.get(one) ?? one)
        .join(', ')
    : value;

/** Describes a filter of the URL. An invalid one appears as it was sent. */
export function describeFilter({ name, value }: Parameter, resource: AdminView): FilterText {
  const { path, operator, column, negated } = parseFilterName(name, resource);
  const what = pathTitle(path, resource);
  if (operator === 'is' && /^(null|none)$/i.test(value))
    return { what, how: negated ? 'has a value' : 'has no value', value: null };
  const not = negated ? 'not: ' : '';
  if (operator === 'ilike') {
    const [substring, prefix] = [containedText(value), prefixText(value)];
    const how =
      substring !== undefined ? 'contains' : prefix !== undefined ? 'begins with' : 'matches the pattern';
    return { what, how: not + how, value: `“${substring ?? prefix ?? value}”` };
  }
  const words = column && isTemporal(column) ? TIME_WORDS : NUMBER_WORDS;
  const how = {
    eq: 'is',
    ne: 'is not',
    in: 'is one of',
    is: 'is',
    like: 'matches the pattern',
    contains: 'contains',
    ...words,
  }[operator];
  const isYesNo = column?.type.input.control === 'checkbox';
  const label = column?.choiceLabels?.get(value);
  const yesOrNo =
    isYesNo && /^(true|false)$/i.test(value)
      ? value.toLowerCase().replace('true', 'yes').replace('false', 'no')
      : undefined;
  const shown =
    label ?? yesOrNo ?? `“${column && isDateTime(column) ? localText(value) : labeledList(value, column)}”`;
  return { what, how: not + how, value: shown };
}
