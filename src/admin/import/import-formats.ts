// How the cells of a file are written: numbers, dates, and choices by their labels. Which format a column has, and what its cells mean.
import type { Column } from '../../db/schema/model.ts';
import { isFreeText, withoutGuard } from '../../query/csv/csv-rows.ts';
import { textToArray } from '../web/array-lines.ts';
import { isNumeric } from '../web/display-text.ts';

/** How the cells of a column are written. `plain` is the format of the API: for a foreign key, the key of the related record. */
export type Format = 'plain' | 'point' | 'comma' | 'dayFirst' | 'monthFirst' | 'label';

/** A column that is imported. */
export interface MappedColumn {
  readonly column: Column;
  /** Its position in the file, from 0. */
  readonly index: number;
  readonly format: Format;
}

/** Numbers with a decimal comma and with a decimal point. Thousands are separated in groups, also by spaces and apostrophes. */
const DECIMAL_COMMA = /^[+-]?(?:\d{1,3}(?:[.'’\s]\d{3})+|\d+)(?:,\d+)?$/;
const DECIMAL_POINT = /^[+-]?(?:\d{1,3}(?:[,'’\s]\d{3})+|\d+)(?:\.\d+)?$/;
/** The longest text that may be a number, a date or the label of a choice (characters). */
export const LONGEST_VALUE = 1000;
const withoutCurrency = (text: string): string => text.replace(/^\p{Sc}|\p{Sc}$/gu, '').trim();
/** A date that begins with the day or the month, and its time. */
const DAY_FIRST = /^(\d{1,2})([./-])(\d{1,2})\2(\d{4})(?:,?\s+(\d{1,2})(:\d\d(?::\d\d)?))?$/;

const padded = (digits = ''): string => digits.padStart(2, '0');

/** A date or time as the API has it; the text itself if it is not in this format. */
function isoDate(text: string, isDayFirst: boolean, hasTime: boolean): string {
  const [, first, , second, year, hours, minutes = ''] = DAY_FIRST.exec(text) ?? [];
  if (year === undefined) return text;
  const [day, month] = isDayFirst ? [first, second] : [second, first];
  // Spreadsheets write midnight behind dates without a time.
  const isMidnight = !hasTime && /^0?0:00(?::00)?$/.test(`${hours ?? ''}${minutes}`);
  const time = hours === undefined || isMidnight ? '' : ` ${padded(hours)}${minutes}`;
  return `${year}-${padded(month)}-${padded(day)}${time}`;
}

/** The value of a choice that the cell names by its label, as pages do. */
function choiceOf({ choiceLabels }: Column, text: string): string {
  if (!choiceLabels || choiceLabels.has(text)) return text;
  const name = text.trim().toLowerCase();
  return [...choiceLabels].find(([, label]) => label.toLowerCase() === name)?.[0] ?? text;
}

/** A number with a decimal point and without groups; the text itself if it is not in this format. */
function plainNumber(text: string, isComma: boolean): string {
  const number = withoutCurrency(text);
  if (!(isComma ? DECIMAL_COMMA : DECIMAL_POINT).test(number)) return text;
  return number.replace(isComma ? /[.'’\s]/g : /[,'’\s]/g, '').replace(',', '.');
}

/** The value of a cell, as a form has it; null for no value. An empty quoted cell is an empty string only in a text column. */
export function valueOf(cell: string | null, { column, format }: MappedColumn): string | null {
  const { type, nullable } = column;
  if (cell === null) return null;
  const text = isFreeText(column) ? withoutGuard(cell) : cell.trim();
  if (type.input.json === 'json') {
    const json = text.trim();
    if (json === '' || (json === 'null' && nullable)) return null;
    return json === 'null' ? json : textToArray(json, column, '');
  }
  if (text === '') return isFreeText(column) ? text : null;
  if (text.length > LONGEST_VALUE) return text;
  if (type.input.json === 'boolean') return type.parse(text, column).value ?? text;
  if (format === 'comma' || format === 'point') return plainNumber(text, format === 'comma');
  if (format === 'dayFirst' || format === 'monthFirst')
    return isoDate(text, format === 'dayFirst', type.input.control !== 'date');
  return choiceOf(column, text);
}

/** Cells that show which separator is the decimal one: `1,5`, `0,125`, `1.234,5` and `1.234.567` against `1,234.5` and `1,234,567`. */
const PROVES_COMMA = /,(?:\d{1,2}|\d{4,})$|^[+-]?0,|\.\d{3},|\.\d{3}\.\d{3}/;
const PROVES_POINT = /\.(?:\d{1,2}|\d{4,})$|^[+-]?0\.|,\d{3}\.|,\d{3},\d{3}/;
/** Numbers that have another value in another format, and dates that may have. */
const AMBIGUOUS = /^[+-]?[1-9]\d{0,2}[.,]\d{3}$|^\d{1,2}[/-]\d{1,2}[/-]\d{4}/;

/** The format that most of the cells prove; undefined if they are ambiguous. */
export function provenFormat(column: Column, cells: readonly string[]): Format | undefined {
  const count = (proves: (cell: string) => boolean): number =>
    cells.filter((cell) => proves(withoutCurrency(cell))).length;
  if (column.references) {
    const names = count((cell) => column.type.parse(cell, column).fault !== undefined);
    return 2 * names > cells.length ? 'label' : 'plain';
  }
  const isAmbiguous = cells.some((cell) => AMBIGUOUS.test(withoutCurrency(cell)));
  if (isNumeric(column)) {
    const comma = count((cell) => DECIMAL_COMMA.test(cell) && PROVES_COMMA.test(cell));
    const point = count((cell) => DECIMAL_POINT.test(cell) && PROVES_POINT.test(cell));
    if (comma > point) return 'comma';
    if (point === 0 && isAmbiguous) return undefined;
    return cells.every((cell) => column.type.parse(cell, column).fault === undefined) ? 'plain' : 'point';
  }
  const partsOf = (cell: string) => DAY_FIRST.exec(cell) ?? [];
  const day = count((cell) => partsOf(cell)[2] === '.' || Number(partsOf(cell)[1]) > 12);
  const month = count((cell) => partsOf(cell)[2] !== '.' && Number(partsOf(cell)[3]) > 12);
  return day > month ? 'dayFirst' : month > 0 ? 'monthFirst' : isAmbiguous ? undefined : 'plain';
}
