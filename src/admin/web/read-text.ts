// How texts become values, and values texts: the one reader of everything that people type, paste or import.
import type { Column } from '../../db/schema/model.ts';
import type { ColumnType, ElementFacts, Facts } from '../../db/types/column-type.ts';
import { splitCsv } from '../../query/parse/filter-values.ts';
import { messageOf, textOf, type Message } from '../../messages.ts';
import { textToArray, arrayToText } from './array-lines.ts';
import { eitherOr, t } from './language.ts';
import { language, timeZone } from './presentation.ts';
import { localText, utcOf } from './time-zone.ts';

/** How texts are written: by people who read a page, or in one column of a file. */
export interface Writing {
  readonly decimal: '.' | ',';
  /** The order of the parts of a date. Dates that begin with the year are always taken. */
  readonly dates: 'iso' | 'dayFirst' | 'monthFirst';
  /** The zone of times without an offset. */
  readonly zone: string;
  /** Whether texts of other writings count, too. If they give another value, the text is ambiguous. A column of a file has one writing. */
  readonly isOpen: boolean;
}

/** What a text means: a value in the format of the API, one of several values, or none. */
export type Reading =
  | { readonly text: string; readonly either?: undefined; readonly fault?: undefined }
  | { readonly either: readonly string[]; readonly text?: undefined; readonly fault?: undefined }
  | { readonly fault: Message | string; readonly text?: undefined; readonly either?: undefined };

/** What the reader needs to know about a column, or about the elements of an array. */
export type Readable = Facts &
  Pick<Column, 'type'> &
  Partial<Pick<Column, 'references' | 'choiceLabels' | 'choices' | 'nullable'>>;

/** How the people write who read the page that is being answered. */
export const pageWriting = (): Writing => ({
  decimal: language().decimal,
  dates: 'iso',
  zone: timeZone(),
  isOpen: true,
});

/** The values of a column with a fixed set of choices. */
export const textsOf = ({
  labels,
  choices,
}: Pick<ElementFacts, 'labels' | 'choices'>): readonly string[] | undefined => labels ?? choices?.map(String);

const unique = (texts: readonly (string | undefined)[]): string[] => [
  ...new Set(texts.filter((text) => text !== undefined)),
];

/** Numbers with and without groups of thousands, by their decimal separator. */
const NUMBERS = {
  '.': [
    /^[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:e[+-]?\d+)?$/i,
    /^[+-]?[1-9]\d{0,2}([,'’ \u00a0\u2009\u202f])\d{3}(?:\1\d{3})*(?:\.\d*)?$/,
  ],
  ',': [
    /^[+-]?(?:\d+(?:,\d*)?|,\d+)(?:e[+-]?\d+)?$/i,
    /^[+-]?[1-9]\d{0,2}([.'’ \u00a0\u2009\u202f])\d{3}(?:\1\d{3})*(?:,\d*)?$/,
  ],
} as const;
const withoutCurrency = (text: string): string => text.replace(/^\p{Sc}|\p{Sc}$/gu, '').trim();
/** Whether a column holds whole numbers. */
export const isWhole = ({ castType }: Readable): boolean => castType.startsWith('int');

/** The numbers that a text can be. One without groups, in the writing of the page, is only that. */
function numbersIn(column: Readable, typed: string, { decimal, isOpen }: Writing): string[] {
  const text = withoutCurrency(typed)
    .replace(/^−/, '-')
    .replace(/^\+(?=[\d.,])/, '');
  const plain = (mark: '.' | ','): string | undefined =>
    NUMBERS[mark][0].test(text) ? text.replace(',', '.').replace(/^([+-]?)\./, '$10.') : undefined;
  const grouped = (mark: '.' | ','): string | undefined =>
    NUMBERS[mark][1].test(text)
      ? text.replace(mark === ',' ? /[^\d,+-]/g : /[^\d.+-]/g, '').replace(',', '.')
      : undefined;
  const other = decimal === ',' ? '.' : ',';
  const own = plain(decimal);
  const all =
    own !== undefined ? [own] : [grouped(decimal), ...(isOpen ? [plain(other), grouped(other)] : [])];
  if (!isWhole(column)) return unique(all);
  // `1.000` may be one. But `1.234` cannot be a whole number with a decimal point.
  const numbers = unique(all.map((one) => one?.replace(/\.0*$/, '')));
  const whole = numbers.filter((one) => !one.includes('.'));
  return whole.length > 0 ? whole : numbers;
}

/** In all languages of the pages. None of these words means yes in one and no in another. */
const YES = /^(?:true|t|1|yes|y|on|wahr|w|ja|j|vrai|v|oui|o|verdadero|s[ií]|s)$/i;
const NO = /^(?:false|f|0|no|n|off|falsch|nein|faux|non|falso)$/i;

const padded = (digits = ''): string => digits.padStart(2, '0');

const TIME = /^(\d{1,2})(?:(:|\.| ?h ?)(\d\d)(?::(\d\d)(\.\d{1,9})?)?)? ?(uhr|h|[ap]\.? ?m\.?)?$/i;

/** A time of day as the API has it; the text itself if it is none. `8.30` alone may be a number: spreadsheets write 6:00 as `0.25`, too. */
function timeIn(text: string): string {
  const [all, hours = '', separator, minutes = '00', seconds = '00', fraction = '', mark = ''] =
    TIME.exec(text.replace(/[\u00a0\u202f]/g, ' ')) ?? [];
  if (all === undefined || (mark === '' && (separator ?? '.') === '.')) return text;
  const half = /^[ap]/i.exec(mark)?.[0].toLowerCase();
  if (half !== undefined && (Number(hours) < 1 || Number(hours) > 12)) return text;
  const hour = half === undefined ? hours : String((Number(hours) % 12) + (half === 'p' ? 12 : 0));
  return `${padded(hour)}:${minutes}:${seconds}${fraction}`;
}

const YEAR_FIRST = /^(\d{4})([./-])(\d{1,2})\2(\d{1,2})$/;
const YEAR_LAST = /^(\d{1,2})([./-])(\d{1,2})\2(\d{4})$/;
const isDay = (date: string): boolean => {
  const time = Date.parse(`${date}T00:00:00Z`);
  return !Number.isNaN(time) && new Date(time).getUTCDate() === Number(date.slice(8));
};

/** The days that a text can be. One with dots begins with the day in all languages. */
function daysIn(text: string, { dates, isOpen }: Writing): string[] {
  const [, year, , month, day] = YEAR_FIRST.exec(text) ?? [];
  if (year !== undefined) return [`${year}-${padded(month)}-${padded(day)}`];
  const [, first, mark, second, last] = YEAR_LAST.exec(text) ?? [];
  if (last === undefined) return [text];
  const dayFirst = `${last}-${padded(second)}-${padded(first)}`;
  const monthFirst = `${last}-${padded(first)}-${padded(second)}`;
  if (!isOpen)
    return unique([{ iso: undefined, dayFirst, monthFirst: mark === '.' ? undefined : monthFirst }[dates]]);
  const possible = mark === '.' ? [dayFirst] : [dayFirst, monthFirst].filter(isDay);
  return possible.length > 0 ? unique(possible) : [dayFirst];
}

/** The dates or date-times that a text can be, in local time. */
function momentsIn(column: Readable, text: string, writing: Writing): string[] {
  const [, day = text, rest = ''] = /^([\d./-]+)(?:(?:, ?|[ T])(\d.*))?$/i.exec(text) ?? [];
  const isDate = column.type.input.control === 'date';
  const time = rest === '' ? '' : timeIn(rest.replace(/ (?=[+-]\d\d:\d\d$)/, ''));
  // Spreadsheets write midnight behind dates without a time.
  const shown = time === '' || (isDate && /^00:00:00(?:\.0+)?$/.test(time)) ? '' : ` ${time}`;
  return daysIn(day, writing).map((one) => one + shown);
}

/** The values of the choices that a text names by their labels. */
function choicesIn({ choiceLabels }: Readable, text: string): string[] {
  const name = text.trim().toLowerCase();
  return [...(choiceLabels ?? [])].flatMap(([id, label]) => (label.trim().toLowerCase() === name ? id : []));
}

/** The values that a text can be by the type of a column; none if it is not written like one. Other texts are left to the column. */
function valuesIn(column: Readable, text: string, writing: Writing): readonly string[] {
  const { control, json } = column.type.input;
  if (control === 'number') {
    const numbers = numbersIn(column, text, writing);
    return numbers.length > 0 || (!writing.isOpen && /[.,]/.test(text)) ? numbers : [text];
  }
  if (json === 'boolean') return [YES.test(text) ? 'true' : NO.test(text) ? 'false' : text];
  if (control === 'time') return [timeIn(text)];
  return control === 'date' || control === 'datetime-local' ? momentsIn(column, text, writing) : [text];
}

/** The elements of an array, as a column. */
export const elementOf = ({ elementFacts, choiceLabels }: Readable, type: ColumnType): Readable => ({
  castType: type.castType,
  ...elementFacts,
  type,
  choiceLabels,
});

/** An array whose elements are lines. The first line that is not one value makes the whole array none. */
function readArray(element: Readable, typed: string, writing: Writing): Reading {
  let fault: string | undefined;
  const text = textToArray(typed, element.type, (line) => {
    const reading = readText(element, line, writing);
    const own = faultOf(element, reading, writing);
    if (own !== undefined) fault ??= `${t('quoted', { text: line })} ${textOf(own)}`;
    return reading.text ?? line;
  });
  return fault === undefined ? { text } : { fault };
}

/**
 * What a text means in a column. Text columns take it as it is. A foreign key takes a key: names of records are looked up elsewhere.
 * A text that is nothing of the column's type is left to the column, which says so.
 */
export function readText(column: Readable, typed: string, writing: Writing): Reading {
  const { type, references } = column;
  const trimmed = typed.trim();
  if (trimmed !== '' && type.element && !references)
    return readArray(elementOf(column, type.element), trimmed, writing);
  const known = textsOf(column);
  const isText = type.operators.has('ilike') || type.input.control === 'password';
  if (isText && !known && !column.choiceLabels) return { text: typed };
  if (trimmed === '' || references) return { text: known?.includes(typed) ? typed : trimmed };
  const own = known?.includes(typed) ? [typed] : valuesIn(column, trimmed, writing);
  const named = choicesIn(column, typed);
  const isValue = (one: string): boolean =>
    known?.includes(one) ?? type.parse(one, column).fault === undefined;
  const values = named.length === 0 ? own : unique([...own.filter(isValue), ...named]);
  const [value, ...others] = values;
  if (value === undefined) {
    const { control } = type.input;
    return { fault: messageOf(control === 'number' ? 'notNumber' : control === 'date' ? 'notDate' : 'notDateTime') }; // prettier-ignore
  }
  if (type.input.control !== 'datetime-local')
    return others.length > 0 ? { either: values } : { text: value };
  const moments = values.map((one) => utcOf(one, writing.zone));
  const faulty = moments.find((one) => 'fault' in one);
  if (others.length === 0) return moments[0] ?? { text: value };
  return faulty ?? { either: moments.flatMap((one) => ('text' in one ? one.text : [])) };
}

/** Why a text is not one value of the column; undefined if it is, or if the column says so itself. */
export function faultOf(
  column: Readable,
  { either, fault }: Reading,
  writing: Writing,
): Message | string | undefined {
  if (!either) return fault;
  const meant = either.map((value) => {
    const label = column.choiceLabels?.get(value);
    return label === undefined ? shownText(column, value, writing) : `${label} (${value})`;
  });
  return t('mayMean', { meant: eitherOr(meant) });
}

/** The text of a stored value in a form: `readText` reads the same value from it. */
export function shownText(column: Readable, stored: string, writing: Writing): string {
  const { type, references } = column;
  if (references) return stored;
  if (type.element) {
    const element = elementOf(column, type.element);
    return arrayToText(stored, column.nullable === true, (line) => shownText(element, line, writing));
  }
  if (type.input.control === 'datetime-local') return localText(stored, writing.zone);
  return type.input.control === 'number' ? shownNumber(stored, writing) : stored;
}

/** A number in the format of the API as people write it; other texts as they are. */
export const shownNumber = (text: string, { decimal }: Pick<Writing, 'decimal'>): string =>
  NUMBERS['.'][0].test(text) ? text.replace('.', decimal) : text;

/** Whether commas are in the values of a list, and so do not separate them. */
const hasCommas = (item: Readable, { decimal }: Writing): boolean =>
  decimal === ',' && item.type.input.control === 'number' && !isWhole(item);

/** The values in a typed list. Where they have commas, they are separated by semicolons, or by commas before a blank. */
export function itemsIn(item: Readable, typed: string, writing: Writing): readonly string[] {
  if (hasCommas(item, writing)) return typed.split(/;|,(?=\s)/).map((one) => one.trim());
  // People type a space after a comma. Quoted items stay as they are.
  const trimmed = typed.replace(/"[^"]*"|[^",]+/g, (part) => (part.startsWith('"') ? part : part.trim()));
  return splitCsv(trimmed) ?? [typed];
}

/** The text of a filter's value, which may be a list, from which the reader gets the same value. */
export function shownFilter(column: Column, value: string, isList: boolean): string {
  const writing = pageWriting();
  const { element } = column.type;
  const item = element ? elementOf(column, element) : column;
  if (!isList || !['number', 'datetime-local'].includes(item.type.input.control))
    return element ? value : shownText(column, value, writing);
  const items = (splitCsv(value) ?? [value]).map((one) => shownText(item, one, writing));
  return items.join(hasCommas(item, writing) ? '; ' : ',');
}
