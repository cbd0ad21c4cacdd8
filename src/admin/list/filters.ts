import type { Operator } from '../../db/types/column-type.ts';
import type { Column } from '../../db/schema/model.ts';
import type { Parameter } from '../../query/parse/grammar.ts';
import { filterValues, OPERATORS } from '../../query/parse/filter-values.ts';
import { containing, escapePattern } from '../../query/plan.ts';
import { findPath, type AdminResource, type AdminResources } from '../../resources/serve/admin-resource.ts';
import { textsOf } from '../fields/form-values.ts';
import type { Content } from '../web/html.ts';

/** How a filter reads: what is compared, how, and with what. */
export interface FilterText {
  readonly what: string;
  readonly how: string;
  readonly value: Content;
}

/**
 * A comparison that the panel offers: a word for people, and the parameter of the API's grammar that it stands for. What has no
 * value of its own is complete without one.
 */
export interface FilterComparison {
  readonly key: string;
  readonly text: string;
  readonly takesValue: boolean;
  readonly parameter: (path: string, value: string) => Parameter;
}

const plain = (operator: Operator, text: string): FilterComparison => ({
  key: operator,
  text,
  takesValue: true,
  parameter: (path, value) => ({ name: operator === 'eq' ? path : `${path}__${operator}`, value }),
});

const CONTAINS: FilterComparison = {
  key: 'contains',
  text: 'contains',
  takesValue: true,
  parameter: (path, value) => ({ name: `${path}__ilike`, value: containing(value) }),
};
const BEGINS: FilterComparison = {
  key: 'begins',
  text: 'begins with',
  takesValue: true,
  parameter: (path, value) => ({ name: `${path}__ilike`, value: `${escapePattern(value)}%` }),
};
/** Trims the items of a list: people put a space behind a comma. Texts in quotes stay as they are. */
function trimItems(list: string): string {
  const items: string[] = [];
  let start = 0;
  let isQuoted = false;
  for (let at = 0; at <= list.length; at += 1) {
    if (list[at] === '"') isQuoted = !isQuoted;
    if (at < list.length && (isQuoted || list[at] !== ',')) continue;
    items.push(list.slice(start, at).trim());
    start = at + 1;
  }
  return items.join(',');
}

const ONE_OF: FilterComparison = {
  key: 'in',
  text: 'is one of (a, b)',
  takesValue: true,
  parameter: (path, value) => ({ name: `${path}__in`, value: trimItems(value) }),
};
const EMPTY: FilterComparison = {
  key: 'empty',
  text: 'has no value',
  takesValue: false,
  parameter: (path) => ({ name: `${path}__is`, value: 'null' }),
};
const FILLED: FilterComparison = {
  key: 'filled',
  text: 'has a value',
  takesValue: false,
  parameter: (path) => ({ name: `-${path}__is`, value: 'null' }),
};

const NUMBERS: Readonly<Partial<Record<Operator, string>>> = {
  lt: 'is less than',
  lte: 'is at most',
  gt: 'is more than',
  gte: 'is at least',
};
const MOMENTS: typeof NUMBERS = {
  lt: 'is before',
  lte: 'is at or before',
  gt: 'is after',
  gte: 'is at or after',
};
const isMoment = ({ type }: Column): boolean =>
  ['date', 'datetime-local', 'time'].includes(type.input.control);

/** What can be asked of a column: the operators that fit its type, in the words of people. */
export function comparisonsOf(column: Column): FilterComparison[] {
  const { operators, input, castType } = column.type;
  const isChosen = input.control === 'checkbox' || textsOf(column) !== undefined;
  const isText = operators.has('ilike') && !isChosen && !column.references;
  const words = isMoment(column) ? MOMENTS : NUMBERS;
  // The order of UUIDs means nothing to people, and that of texts is another in each database.
  const isOrdered = !column.references && !operators.has('ilike') && castType !== 'uuid';
  const orders = (['gte', 'lte', 'gt', 'lt'] as const).filter(
    (operator) => isOrdered && operators.has(operator),
  );
  return [
    ...(isText ? [CONTAINS, BEGINS] : []),
    plain('eq', 'is'),
    plain('ne', 'is not'),
    ...orders.map((operator) => plain(operator, words[operator] ?? operator)),
    ...(isChosen ? [] : [ONE_OF]),
    ...(isText ? [plain('ilike', 'fits the pattern (%, _)')] : []),
    ...(column.nullable ? [EMPTY, FILLED] : []),
  ];
}

/** Whether several values can be typed at once: not where the control takes one, nor keys, which nobody knows by heart. */
const takesSeveral = ({ references, type: { input } }: Column): boolean =>
  !references && input.json !== 'json' && input.control !== 'date' && input.control !== 'time';

/** What the panel offers. */
export const offeredComparisons = (column: Column): FilterComparison[] =>
  comparisonsOf(column).filter((comparison) => takesSeveral(column) || comparison !== ONE_OF);

/**
 * What a comparison of moments with a day means: that day from its midnight to the next.
 * @param next the day after it
 */
export function dayFilters(path: string, how: string, day: string, next: string): Parameter[] | undefined {
  const [from, to] = [
    { name: `${path}__gte`, value: day },
    { name: `${path}__lt`, value: next },
  ];
  return { eq: [from, to], lte: [to], gt: [{ name: `${path}__gte`, value: next }] }[how];
}

/** The column that a path leads to, of those that the admin area shows. */
export const columnAt = (
  path: string,
  resource: AdminResource,
  resources: AdminResources,
): Column | undefined =>
  findPath(path.split('__'), resource.model, (model) => resources.get(model.name)?.output ?? [])?.column;

/** What a path of columns is called: `Album › Artist › Name`. */
export function pathTitle(
  parts: readonly string[],
  resource: AdminResource,
  resources: AdminResources,
): string {
  const visible = (model: AdminResource['model']): readonly Column[] =>
    resources.get(model.name)?.output ?? [];
  const found = findPath(parts, resource.model, visible);
  if (!found) return parts.join(' › ');
  return [...found.path, found.column].map(({ title }) => title).join(' › ');
}

/** The column that a filter's name leads to, as the path of its parts, and its operator. */
function readName(
  name: string,
  resource: AdminResource,
  resources: AdminResources,
): { path: readonly string[]; operator: Operator; column: Column | undefined; negated: boolean } {
  const negated = name.startsWith('-');
  const parts = (negated ? name.slice(1) : name).split('__');
  const visible = (model: AdminResource['model']): readonly Column[] =>
    resources.get(model.name)?.output ?? [];
  const last = parts.at(-1) ?? '';
  const hasOperator = parts.length > 1 && OPERATORS.has(last) && !findPath(parts, resource.model, visible);
  const path = hasOperator ? parts.slice(0, -1) : parts;
  const operator = (hasOperator ? last : 'eq') as Operator;
  return { path, operator, column: findPath(path, resource.model, visible)?.column, negated };
}

/** A text that stands in a pattern as what it begins or as all that it contains. */
const inPattern = (pattern: RegExp, value: string): string | undefined =>
  pattern.exec(value)?.[1]?.replace(/\\(.)/g, '$1');
const contained = (value: string): string | undefined => inPattern(/^%((?:[^%_\\]|\\.)*)%$/, value);
const begun = (value: string): string | undefined => inPattern(/^((?:[^%_\\]|\\.)*)%$/, value);

/** What the panel's form would have to hold for a filter; undefined for one that the panel cannot express. */
export function formOf(
  { name, value }: Parameter,
  resource: AdminResource,
  resources: AdminResources,
): { readonly path: string; readonly comparison: FilterComparison; readonly text: string } | undefined {
  const { path: parts, column } = readName(name, resource, resources);
  if (!column) return undefined;
  const path = parts.join('__');
  for (const comparison of offeredComparisons(column)) {
    for (const text of [contained(value), begun(value), value]) {
      const made = text !== undefined && comparison.parameter(path, text);
      if (made && made.name === name && made.value === value)
        return { path, comparison, text: comparison.takesValue ? text : '' };
    }
  }
  return undefined;
}

/** The keys of related records that a filter has; undefined where it compares in another way, or with another column. */
export function keysOf(
  { name, value }: Parameter,
  resource: AdminResource,
  resources: AdminResources,
): { readonly column: Column; readonly keys: readonly string[] } | undefined {
  const { operator, column } = readName(name, resource, resources);
  if (!column?.references || !['eq', 'ne', 'in'].includes(operator)) return undefined;
  const found = filterValues(operator, [value], column);
  return 'fault' in found ? undefined : { column, keys: found.values };
}

/** Says what a filter of the address means, by its name and value alone; one that cannot be used reads as it stands. */
export function describeFilter(
  { name, value }: Parameter,
  resource: AdminResource,
  resources: AdminResources,
): FilterText {
  const { path, operator, column, negated } = readName(name, resource, resources);
  const what = pathTitle(path, resource, resources);
  if (operator === 'is' && /^(null|none)$/i.test(value))
    return { what, how: negated ? 'has a value' : 'has no value', value: null };
  const not = negated ? 'not: ' : '';
  if (operator === 'ilike') {
    const [inside, beginning] = [contained(value), begun(value)];
    const how = inside !== undefined ? 'contains' : beginning !== undefined ? 'begins with' : 'fits';
    return { what, how: not + how, value: `“${inside ?? beginning ?? value}”` };
  }
  const words = column && isMoment(column) ? MOMENTS : NUMBERS;
  const how = { eq: 'is', ne: 'is not', in: 'is one of', is: 'is', like: 'fits', ...words }[operator];
  const isYesNo = column?.type.input.control === 'checkbox';
  const shown =
    isYesNo && /^(true|false)$/i.test(value) ? (/^true$/i.test(value) ? 'yes' : 'no') : `“${value}”`;
  return { what, how: not + how, value: shown };
}
