// Filters in words: the comparisons that people can choose, and what a filter of the address means.
import type { Operator } from '../../db/types/column-type.ts';
import type { Column } from '../../db/schema/model.ts';
import type { Parameter } from '../../query/parse/grammar.ts';
import { filterValues, OPERATORS } from '../../query/parse/filter-values.ts';
import { containing, escapePattern } from '../../query/plan.ts';
import type { AdminView } from '../../resources/access/admin-view.ts';
import { keyText } from '../../db/schema/composite-key.ts';
import type { Content } from '../web/html.ts';
import { t, type PlainCode } from '../web/language.ts';
import { isDateTime, localText } from '../web/time-zone.ts';

/** A filter in words: the column, the comparison, and the value, which is null if the comparison has none. */
export interface FilterText {
  readonly what: string;
  readonly how: string;
  readonly value: Content;
}

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

/** The comparisons that people can choose, and the parameters of the API's grammar that they become. The list reports misfits. */
export const COMPARISONS: Readonly<
  Record<string, readonly [text: PlainCode, parameter: (path: string, value: string) => Parameter]>
> = {
  eq: ['is', (path, value) => ({ name: path, value })],
  ne: ['isNot', (path, value) => ({ name: `${path}__ne`, value })],
  contains: ['contains', (path, value) => ({ name: `${path}__ilike`, value: containing(value) })],
  begins: ['beginsWith', (path, value) => ({ name: `${path}__ilike`, value: `${escapePattern(value)}%` })],
  ilike: ['matchesPatternOf', (path, value) => ({ name: `${path}__ilike`, value })],
  in: ['isOneOfList', (path, value) => ({ name: `${path}__in`, value: trimItems(value) })],
  gte: ['isAtLeast', (path, value) => ({ name: `${path}__gte`, value })],
  lte: ['isAtMost', (path, value) => ({ name: `${path}__lte`, value })],
  gt: ['isMoreThan', (path, value) => ({ name: `${path}__gt`, value })],
  lt: ['isLessThan', (path, value) => ({ name: `${path}__lt`, value })],
  empty: ['hasNoValue', (path) => ({ name: `${path}__is`, value: 'null' })],
  filled: ['hasValue', (path) => ({ name: `-${path}__is`, value: 'null' })],
};

/** The comparison of a text field, in words. */
export const usualWords = ({ type }: Column): string =>
    t(type.element ? 'containsList' : type.operators.has('contains') ? 'containsJson' : type.operators.has('ilike') ? 'contains' : 'is'); // prettier-ignore

/** The filter of a text field. */
export function usualFilter({ type }: Column, path: string, text: string): Parameter {
  if (type.operators.has('contains'))
    return { name: `${path}__contains`, value: type.element ? trimItems(text) : text };
  const [, parameter] = COMPARISONS[type.operators.has('ilike') ? 'contains' : 'eq'] ?? [];
  return parameter?.(path, text) ?? { name: path, value: text };
}

/** Whether a range of the column's values means something: the order of UUIDs does not, and that of texts depends on the database. */
export const hasRange = ({ references, type }: Column): boolean =>
  !references &&
  !type.element &&
  type.operators.has('gte') &&
  !type.operators.has('ilike') &&
  type.castType !== 'uuid';

const WORDS = {
  eq: 'is',
  ne: 'isNot',
  in: 'isOneOf',
  is: 'is',
  like: 'matchesPattern',
  contains: 'contains',
  lt: 'isLessThan',
  lte: 'isAtMost',
  gt: 'isMoreThan',
  gte: 'isAtLeast',
} as const satisfies Partial<Record<Operator, PlainCode>>;
const TIME_WORDS = {
  ...WORDS,
  lt: 'isBefore',
  lte: 'isAtOrBefore',
  gt: 'isAfter',
  gte: 'isAtOrAfter',
} as const;
const isTemporal = ({ type }: Column): boolean =>
  ['date', 'datetime-local', 'time'].includes(type.input.control);

/** The title of a path of columns: `Album › Artist › Name`. */
export function pathTitle(parts: readonly string[], resource: AdminView): string {
  const found = resource.find(parts);
  if (!found) return parts.join(' › ');
  return [...found.path, found.column].map(({ title }) => title).join(' › ');
}

/** A filter's name, split into its path and operator, and the column if the admin area shows it. */
interface FilterName {
  readonly path: readonly string[];
  readonly operator: Operator;
  readonly column: Column | undefined;
  readonly negated: boolean;
}

export function parseFilterName(name: string, resource: AdminView): FilterName {
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
export const containedText = (value: string): string | undefined =>
  textInPattern(/^%((?:[^%_\\]|\\.)*)%$/, value);
const prefixText = (value: string): string | undefined => textInPattern(/^((?:[^%_\\]|\\.)*)%$/, value);

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
    return { what, how: t(negated ? 'hasValue' : 'hasNoValue'), value: null };
  const comparison = (code: PlainCode): string => (negated ? t('not', { comparison: t(code) }) : t(code));
  if (operator === 'ilike') {
    const [substring, prefix] = [containedText(value), prefixText(value)];
    const how = substring !== undefined ? 'contains' : prefix !== undefined ? 'beginsWith' : 'matchesPattern';
    return {
      what,
      how: comparison(how),
      value: t('quoted', { text: substring ?? prefix ?? value }),
    };
  }
  const how = comparison((column && isTemporal(column) ? TIME_WORDS : WORDS)[operator]);
  const isYesNo = column?.type.input.control === 'checkbox';
  const label = column?.choiceLabels?.get(value);
  const yesOrNo =
    isYesNo && /^(true|false)$/i.test(value)
      ? t(value.toLowerCase() === 'true' ? 'yes' : 'no').toLowerCase()
      : undefined;
  const text = column && isDateTime(column) ? localText(value) : labeledList(value, column);
  return { what, how, value: label ?? yesOrNo ?? t('quoted', { text }) };
}
