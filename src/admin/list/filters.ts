// The filters of a list: what a parameter of the address means, and the comparisons that people can choose.
import type { Operator } from '../../db/types/column-type.ts';
import { keyText } from '../../db/schema/composite-key.ts';
import type { Column } from '../../db/schema/model.ts';
import { filterValues, OPERATORS } from '../../query/parse/filter-values.ts';
import type { Parameter } from '../../query/parse/grammar.ts';
import { containing, escapePattern } from '../../query/plan.ts';
import type { AdminView } from '../../resources/access/admin-view.ts';
import type { Named } from '../../resources/records/look-up.ts';
import { historyChoices } from '../history/history-page.ts';
import type { ResourceContext } from '../web/admin-context.ts';
import { choiceLabel } from '../web/display-text.ts';
import { t, type PlainCode } from '../web/language.ts';
import { pageWriting, shownText, textsOf } from '../web/read-text.ts';
import type { ListState } from '../web/list-state.ts';

/** A filter of a list: a parameter of its address, and what its name means. */
export interface ListFilter {
  readonly parameter: Parameter;
  /** The path of the column in the grammar of the API, and its title: `Album › Artist › Name`. */
  readonly path: string;
  readonly title: string;
  /** Undefined if the admin area shows no such column. */
  readonly column: Column | undefined;
  readonly operator: Operator;
  readonly isNegated: boolean;
}

/** The title of a path of columns. */
export function pathTitle(parts: readonly string[], resource: AdminView): string {
  const found = resource.find(parts);
  return (found ? [...found.path, found.column].map(({ title }) => title) : parts).join(' › ');
}

function readFilter(parameter: Parameter, resource: AdminView): ListFilter {
  const isNegated = parameter.name.startsWith('-');
  const parts = parameter.name.slice(isNegated ? 1 : 0).split('__');
  const last = parts.at(-1) ?? '';
  const hasOperator = parts.length > 1 && OPERATORS.has(last) && !resource.find(parts);
  const path = hasOperator ? parts.slice(0, -1) : parts;
  return {
    parameter,
    path: path.join('__'),
    title: pathTitle(path, resource),
    column: resource.find(path)?.column,
    operator: (hasOperator ? last : 'eq') as Operator,
    isNegated,
  };
}

export const filtersIn = ({ filters, resource }: ListState): readonly ListFilter[] =>
  filters.map((parameter) => readFilter(parameter, resource));

/** Whether the filter compares with NULL. */
export const isNull = ({ operator, parameter }: ListFilter): boolean =>
  operator === 'is' && /^(null|none)$/i.test(parameter.value);

/** The values that a filter compares with one by one; undefined for other comparisons and invalid values. */
export function itemsOf({ column, operator, parameter }: ListFilter): readonly string[] | undefined {
  if (!column || !['eq', 'ne', 'in', 'is'].includes(operator)) return undefined;
  const found = filterValues(operator, [parameter.value], column);
  return 'fault' in found ? undefined : found.values.map((value) => keyText(value, column));
}

/** The choices of a column; undefined if it takes any value. */
export function choicesOf(context: ResourceContext, column: Column): readonly Named[] | undefined {
  if (context.resource === context.history) return historyChoices(context, column);
  if (column.type.input.control === 'checkbox')
    return [
      { id: 'true', label: choiceLabel(column, 'true', t('yes')) },
      { id: 'false', label: choiceLabel(column, 'false', t('no')) },
    ];
  return textsOf(column)?.map((id) => ({
    id,
    label: choiceLabel(column, id, shownText(column, id, pageWriting())) || t('emptyText'),
  }));
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
  in: ['isOneOfList', (path, value) => ({ name: `${path}__in`, value })],
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
  if (type.operators.has('contains')) return { name: `${path}__contains`, value: text };
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

/** The text of a pattern, and its comparison: `%text%` contains it, `text%` begins with it. */
export function patternText(pattern: string): readonly [text: string, comparison: PlainCode] {
  const [, first, text] = /^(%?)((?:[^%_\\]|\\.)*)%$/.exec(pattern) ?? [];
  if (text === undefined) return [pattern, 'matchesPattern'];
  return [text.replace(/\\(.)/g, '$1'), first === '%' ? 'contains' : 'beginsWith'];
}

/** The column and the comparison of a filter in words. */
export function comparisonText(filter: ListFilter): string {
  const { parameter, title, column, operator, isNegated } = filter;
  if (isNull(filter)) return `${title} ${t(isNegated ? 'hasValue' : 'hasNoValue')}`;
  const words = column && isTemporal(column) ? TIME_WORDS : WORDS;
  const comparison = t(operator === 'ilike' ? patternText(parameter.value)[1] : words[operator]);
  return `${title} ${isNegated ? t('not', { comparison }) : comparison}`;
}
