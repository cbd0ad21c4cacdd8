// What the cells of a file mean: numbers, dates and choices in the formats of spreadsheets, and related records by their labels.
import type { Transaction } from '../../db/connection/transactions.ts';
import type { YieldIfDue } from '../../db/lanes/requester.ts';
import type { Column } from '../../db/schema/model.ts';
import type { FieldErrors } from '../../errors.ts';
import { isFreeText, withoutGuard } from '../../query/csv/csv-rows.ts';
import { recordsByLabelStatement, type LabelMatch } from '../../query/labels/records-by-label.ts';
import { LONGEST_NAME } from '../../resources/records/look-up.ts';
import { relatedOf } from '../fields/references.ts';
import type { ResourceContext } from '../web/admin-context.ts';
import { textToArray } from '../web/array-lines.ts';
import { isNumeric } from '../web/display-text.ts';
import { t } from '../web/language.ts';
import type { FileRow } from './import-file.ts';

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
const LONGEST_VALUE = 1000;
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
function valueOf(cell: string | null, { column, format }: MappedColumn): string | null {
  const { type, nullable } = column;
  if (cell === null) return null;
  const text = isFreeText(column) ? withoutGuard(cell) : cell.trim();
  if (type.input.json === 'json') {
    const json = text.trim();
    if (json === '' || (json === 'null' && nullable)) return null;
    return json === 'null' || !type.element ? json : textToArray(json, type.element, (line) => line);
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

/** Rows that `provenFormat` looks at. */
const SAMPLE = 1000;

/** The format that most of the first cells of a column prove; undefined if they are ambiguous. */
export function provenFormat(column: Column, rows: readonly FileRow[], index: number): Format | undefined {
  const cells = rows
    .slice(0, SAMPLE)
    .flatMap((row) => row.cells[index]?.trim() ?? [])
    .filter((cell) => cell !== '' && cell.length < LONGEST_VALUE);
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

/** A row with a value per mapped column, as the API has it. */
export interface ImportRow extends FileRow {
  /** Null for no value. */
  readonly values: readonly (string | null)[];
  /** The cells that have no value in their format. */
  readonly faults: FieldErrors;
}

/** The field name for errors that belong to no column. */
export const WHOLE_ROW = '';

/** The label that a cell names. */
const labelIn = (cell: string | null | undefined): string => withoutGuard(cell ?? '').trim();

/** Finds the records that the cells of a column name by their labels. */
async function recordsByLabel(
  run: Transaction['run'],
  context: ResourceContext,
  { column, index }: MappedColumn,
  rows: readonly FileRow[],
): Promise<ReadonlyMap<string, LabelMatch>> {
  const related = relatedOf(column, context);
  const names = rows.map(({ cells }) => labelIn(cells[index]));
  const labels = [...new Set(names)].filter((name) => name !== '' && name.length <= LONGEST_NAME);
  if (!related || labels.length === 0) return new Map();
  const { model, label, visibility } = related;
  const found = await run(recordsByLabelStatement(model, label, labels, visibility));
  return new Map(found.map((match) => [labels[match.index] ?? '', match]));
}

/** Reads the values of all rows. */
export async function readRows(
  run: Transaction['run'],
  context: ResourceContext,
  rows: readonly FileRow[],
  mapped: readonly MappedColumn[],
  yieldIfDue: YieldIfDue,
): Promise<ImportRow[]> {
  const labels = new Map<Column, ReadonlyMap<string, LabelMatch>>();
  for (const one of mapped)
    if (one.format === 'label') labels.set(one.column, await recordsByLabel(run, context, one, rows));
  const read: ImportRow[] = [];
  for (const row of rows) {
    const faults: FieldErrors = {};
    const values = mapped.map((one) => {
      const cell = row.cells[one.index] ?? null;
      const named = labels.get(one.column);
      if (!named) return valueOf(cell, one);
      const name = labelIn(cell);
      const match = named.get(name);
      if (name === '' || match?.isUnique) return match?.id ?? null;
      faults[one.column.key] = [t(match ? 'severalHaveLabel' : 'noneHasLabel')];
      return name;
    });
    read.push({ ...row, values, faults });
    await yieldIfDue();
  }
  return read;
}
