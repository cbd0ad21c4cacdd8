// The controls of the filter panel: what the filters of a list say about a column, and the filters that its fields mean.
import { listItem } from '../../query/parse/filter-values.ts';
import type { Column } from '../../db/schema/model.ts';
import { COLUMN_TYPES } from '../../db/types/column-types.ts';
import { textOf } from '../../messages.ts';
import type { Parameter } from '../../query/parse/grammar.ts';
import type { Named } from '../../resources/records/look-up.ts';
import { choiceOf, recordsMeant, relatedOf } from '../fields/references.ts';
import type { ResourceContext } from '../web/admin-context.ts';
import type { LinkParameters } from '../web/admin-links.ts';
import { t, type PlainCode } from '../web/language.ts';
import {
  elementOf,
  faultOf,
  itemsIn,
  pageWriting,
  readText,
  shownFilter,
  shownText,
  type Readable,
} from '../web/read-text.ts';
import { dayStartingAt, isDateTime, startOfDay, today } from '../web/time-zone.ts';
import {
  choicesOf,
  COMPARISONS,
  hasRange,
  isNull,
  itemsOf,
  patternText,
  pathTitle,
  usualFilter,
  type ListFilter,
} from './filters.ts';

/** Maximum controls. A registry can offer more columns, which *Another comparison* names. */
const MAX_CONTROLS = 40;
/** Up to this many choices are checkboxes; above, a select. */
const MAX_BOXES = 12;
/** Maximum values of a comparison that are looked up as words: each takes several statements. */
const MAX_WORDS = 20;

/** A filter that cannot be made from what was typed. */
export class FilterFault extends Error {}

/** The value of a checkbox or an option: `none` for no value, so that others begin with `=`. */
export const NONE = 'none';
export const valueOf = (id: string): string => `=${id}`;

/** The part of the panel for one column. */
export interface Control {
  /** The path of the column in the grammar of the API. */
  readonly path: string;
  readonly column: Column;
  readonly title: string;
  readonly kind: 'boxes' | 'select' | 'record' | 'range' | 'contains';
  /** The choices of `boxes` and `select`. */
  readonly choices: readonly Named[];
}

/** What a control shows, and the filters of the list that say it. Those that it cannot show stay beside it. */
export interface Shown {
  readonly values: readonly string[];
  readonly taken: readonly Parameter[];
  /** Words for a related record that mean none or several. */
  readonly words?: string | undefined;
}

function kindOf(column: Column, choices: readonly Named[] | undefined): Control['kind'] {
  if (column.references) return 'record';
  if (choices) return choices.length > MAX_BOXES ? 'select' : 'boxes';
  return hasRange(column) ? 'range' : 'contains';
}

/** The controls of a list, in the order of the registry. */
export function controlsOf(context: ResourceContext): readonly Control[] {
  const { resource } = context;
  return resource.filters.slice(0, MAX_CONTROLS).flatMap((parts) => {
    const column = resource.find(parts)?.column;
    if (!column) return [];
    const choices = choicesOf(context, column);
    const kind = kindOf(column, choices);
    return [
      { path: parts.join('__'), column, title: pathTitle(parts, resource), kind, choices: choices ?? [] },
    ];
  });
}

type Field = 'is' | 'find' | 'key' | 'from' | 'to' | 'has';

/** The name of a field of a control. It begins with an underscore, as no filter does. */
export const nameOf = (field: Field, { path }: Control): string => `_${field}.${path}`;

/** The fields with the values of a control. */
const FIELDS: Readonly<Record<Control['kind'], readonly Field[]>> = {
  boxes: ['is'],
  select: ['is'],
  record: ['is'],
  range: ['from', 'to'],
  contains: ['has'],
};

/** The day a number of days after another, which can be 10000-01-01; undefined for a text that is no day. */
function dayAfter(day: string, days: number): string | undefined {
  const date = new Date(`${day.replace(/^(?=\d{5})/, '+0')}T00:00:00Z`);
  const text = (): string => date.toISOString().replace(/^\+0|T.*$/g, '');
  if (Number.isNaN(date.getTime()) || text() !== day) return undefined;
  date.setUTCDate(date.getUTCDate() + days);
  return text();
}

/** What the filters of a list say about a control. */
export function shownIn(filters: readonly ListFilter[], { path, column, kind, choices }: Control): Shown {
  const own = filters.filter((filter) => !filter.isNegated && filter.path === path);
  if (kind === 'contains') {
    for (const { parameter, operator } of own) {
      const { name, value } = parameter;
      const text = operator === 'ilike' ? patternText(value)[0] : value;
      const same = usualFilter(column, path, text);
      if (same.name === name && same.value === value)
        return { values: [shownFilter(column, text, column.type.element !== undefined)], taken: [parameter] };
    }
  } else if (kind === 'range') {
    const bounds = ['', ''];
    const taken = own.flatMap(({ parameter, operator }) => {
      const hasTime = isDateTime(column);
      const at = ['gte', hasTime ? 'lt' : 'lte'].indexOf(operator);
      const text = hasTime
        ? dayAfter(dayStartingAt(parameter.value) ?? '', -at)
        : shownText(column, parameter.value, pageWriting());
      if (text === undefined || bounds[at] !== '') return [];
      bounds[at] = text;
      return [parameter];
    });
    return { values: bounds, taken };
  } else {
    const equal = own.filter((filter) => isNull(filter) || ['eq', 'in'].includes(filter.operator));
    const isOne = new Set(equal.map(({ operator }) => operator)).size === 1;
    const values = equal.flatMap((filter) =>
      isNull(filter) ? [NONE] : (itemsOf(filter) ?? ['']).map(valueOf),
    );
    const known = [...choices.map(({ id }) => valueOf(id)), ...(column.nullable ? [NONE] : [])];
    const isKnown = kind === 'record' || values.every((one) => known.includes(one));
    if (isOne && isKnown && (kind === 'boxes' || values.length === 1))
      return { values, taken: equal.map(({ parameter }) => parameter) };
  }
  return { values: [], taken: [] };
}

/** Whether the search field of a control has the key that the page has shown or the script has chosen, and not words. */
const isChosen = (form: LinkParameters, control: Control, text: string): boolean =>
  form.get(nameOf('key', control)) === valueOf(text);

/** What was typed, after a fault. */
export function typedIn(typed: LinkParameters, control: Control): Shown {
  const values = FIELDS[control.kind].map((field) => typed.all(nameOf(field, control))).flat();
  const words = control.kind === 'record' ? typed.get(nameOf('find', control)) : undefined;
  if (words && isChosen(typed, control, words)) return { values: [valueOf(words)], taken: [] };
  return { values, words, taken: [] };
}

/** The filters of checkboxes and options. */
function equalTo({ path, title }: Control, values: readonly string[]): readonly Parameter[] {
  const ids = values.filter((value) => value.startsWith('=')).map((value) => value.slice(1));
  if (values.includes(NONE)) {
    if (ids.length === 0) return [{ name: `${path}__is`, value: 'null' }];
    throw new FilterFault(t('noValueCombined', { title }));
  }
  if (ids.length > 1) return [{ name: `${path}__in`, value: ids.map(listItem).join(',') }];
  return ids.map((value) => ({ name: path, value }));
}

type Typed = Pick<Control, 'column' | 'title'>;

/** What was typed, in the format of the API. Invalid values are passed on, so that the list reports them. @throws FilterFault */
function valueOfTyped({ column, title }: { column: Readable; title: string }, typed: string): string {
  const reading = readText(column, typed, pageWriting());
  const fault = faultOf(column, reading, pageWriting());
  if (fault !== undefined)
    throw new FilterFault(t('filterFault', { title, value: typed.trim(), fault: textOf(fault) }));
  return reading.text ?? typed;
}

const DAY: Readable = { type: COLUMN_TYPES.date, castType: 'date' };
/** A typed day; undefined if the text is none. @throws FilterFault */
const dayIn = ({ title }: Typed, typed: string): string | undefined =>
  dayAfter(valueOfTyped({ column: DAY, title }, typed), 0);

/** A typed value. A day of a date-time is its first moment. @throws FilterFault */
function valueMeant(of: Typed, typed: string): string {
  const day = isDateTime(of.column) ? dayIn(of, typed) : undefined;
  return day === undefined ? valueOfTyped(of, typed) : startOfDay(day);
}

/** A typed list of values. @throws FilterFault */
function itemsMeant(of: Typed, typed: string): readonly string[] {
  const { column } = of;
  const { element } = column.type;
  const item = element ? elementOf(column, element) : column;
  return itemsIn(item, typed, pageWriting()).map((one) => valueOfTyped({ ...of, column: item }, one));
}

/** The filters of two bounds. Those of a date-time are days. @throws FilterFault */
function between(control: Control, from = '', to = ''): readonly Parameter[] {
  const { path, column } = control;
  const until = isDateTime(column) ? dayIn(control, to) : undefined;
  const next = until && dayAfter(until, 1);
  const first = { name: `${path}__gte`, value: valueMeant(control, from) };
  const last =
    next === undefined
      ? { name: `${path}__lte`, value: valueMeant(control, to) }
      : { name: `${path}__lt`, value: startOfDay(next) };
  return [first, last].filter(({ value }) => value !== '');
}

/** Days up to and including today, in the time zone of the page, by the names of their buttons. */
export const PERIODS: Readonly<
  Record<string, readonly [text: PlainCode, first: (today: string) => string | undefined]>
> = {
  today: ['today', (day) => day],
  week: ['sevenDays', (day) => dayAfter(day, -6)],
  month: ['thisMonth', (day) => `${day.slice(0, 8)}01`],
};

/**
 * The keys of the related records that texts mean: keys, or words that match one record. The texts themselves for other columns.
 * @throws FilterFault for a text that means no record, or several
 */
async function keysMeant(
  context: ResourceContext,
  { column, title }: Pick<Control, 'column' | 'title'>,
  texts: readonly string[],
): Promise<readonly string[]> {
  const related = relatedOf(column, context);
  if (!related) return texts;
  const meant = await recordsMeant(context, related, texts, MAX_WORDS);
  return texts.map((text) => {
    const records = meant.get(text) ?? [];
    const [record, other] = records;
    if (text === '' || (record && !other)) return record?.id ?? text;
    const fault = choiceOf(records);
    throw new FilterFault(
      fault === undefined
        ? t('notExactlyOne', { title, text })
        : t('filterFault', { title, value: text, fault }),
    );
  });
}

/** The filters of a submitted control. @throws FilterFault */
export async function filtersOf(
  context: ResourceContext,
  control: Control,
  form: LinkParameters,
): Promise<readonly Parameter[]> {
  const { path, column, kind } = control;
  const [first = '', second] = FIELDS[kind].map((field) => form.get(nameOf(field, control))?.trim());
  if (kind === 'contains') {
    if (first === '') return [];
    const text = column.type.element
      ? itemsMeant(control, first).map(listItem).join(',')
      : valueMeant(control, first);
    return [usualFilter(column, path, text)];
  }
  if (kind === 'range') {
    const [period = '', of] = form.get('_period')?.split('.') ?? [];
    const start = of === path && Object.hasOwn(PERIODS, period) ? PERIODS[period]?.[1] : undefined;
    return start ? between(control, start(today()), today()) : between(control, first, second);
  }
  const chosen = equalTo(control, form.all(nameOf('is', control)));
  const text = kind === 'record' ? (form.get(nameOf('find', control))?.trim() ?? '') : '';
  if (chosen.length > 0 || text === '') return chosen;
  if (isChosen(form, control, text)) return equalTo(control, [valueOf(text)]);
  return (await keysMeant(context, control, [text])).map((value) => ({ name: path, value }));
}

/** The filter of *Another comparison*; none if it names no column. @throws FilterFault */
export async function comparisonOf(
  context: ResourceContext,
  form: LinkParameters,
): Promise<readonly Parameter[]> {
  const { resource } = context;
  const [path = '', how = '', typed = ''] = ['_path', '_how', '_value'].map((name) => form.get(name));
  const parts = resource.filters.find((one) => one.join('__') === path);
  const column = parts && resource.find(parts)?.column;
  const [, parameter] = (Object.hasOwn(COMPARISONS, how) && COMPARISONS[how]) || [];
  if (!column || !parameter) return [];
  if (typed === '' && !['eq', 'ne', 'empty', 'filled'].includes(how)) throw new FilterFault(t('enterValue'));
  const of = { column, title: pathTitle(parts, resource) };
  if (how === 'in') {
    const items = await keysMeant(context, of, itemsMeant(of, typed));
    return [parameter(path, items.map(listItem).join(','))];
  }
  if (!['eq', 'ne', 'gte', 'lte', 'gt', 'lt'].includes(how)) return [parameter(path, typed)];
  const [value = ''] = await keysMeant(context, of, [valueMeant(of, typed)]);
  return [parameter(path, value)];
}
