// Writes rows of CSV in SQL, guarded against spreadsheet formulas.
import { join, raw, sql, type Fragment } from '../../db/fragment.ts';
import { hasSeveralColumns } from '../../db/schema/composite-key.ts';
import { output, type Column } from '../../db/schema/model.ts';

/**
 * Code point ranges of characters that spreadsheets may ignore before a formula: whitespace and invisible characters (no-break
 * and zero-width spaces, byte order mark, control characters, direction marks).
 */
const IGNORED = [
  [0x01, 0x20], [0x7f, 0xa0], [0xad, 0xad], [0x34f, 0x34f], [0x61c, 0x61c], [0x115f, 0x1160], [0x1680, 0x1680],
  [0x17b4, 0x17b5], [0x180b, 0x180f], [0x2000, 0x200f], [0x2028, 0x202f], [0x205f, 0x206f], [0x2800, 0x2800], [0x3000, 0x3000],
  [0x3164, 0x3164], [0xfe00, 0xfe0f], [0xfeff, 0xfeff], [0xffa0, 0xffa0], [0xfff0, 0xfffb], [0x1bca0, 0x1bca3],
  [0x1d173, 0x1d17a], [0xe0000, 0xe0fff],
] as const; // prettier-ignore
/** Code point ranges of characters that start a formula: tab, line breaks, and = + - @ in normal, small and full width. */
const FORMULA_SIGNS = [
  [0x09, 0x0a], [0x0d, 0x0d], [0x2b, 0x2b], [0x2d, 0x2d], [0x3d, 0x3d], [0x40, 0x40],
  [0xfe62, 0xfe63], [0xfe66, 0xfe66], [0xfe6b, 0xfe6b], [0xff0b, 0xff0b], [0xff0d, 0xff0d], [0xff1d, 0xff1d],
  [0xff20, 0xff20],
] as const; // prettier-ignore

type Escape = (hex: string) => string;
const IN_JAVASCRIPT: Escape = (hex) => `\\u{${hex}}`;
const IN_POSTGRESQL: Escape = (hex) => `\\U${hex.padStart(8, '0')}`;

/** A character class. It uses escapes, because not every database encoding has the characters. */
const characterSet = (ranges: readonly (readonly [number, number])[], escape: Escape): string =>
  ranges.map((range) => range.map((code) => escape(code.toString(16))).join('-')).join('');

/**
 * Matches texts that get an apostrophe in front, because a spreadsheet would read them as a formula. It includes texts that start
 * with apostrophes already, so that `withoutGuard` can remove exactly one.
 */
const formulaStart = (escape: Escape): string =>
  `[${escape('27')}${characterSet(IGNORED, escape)}]*[${characterSet(FORMULA_SIGNS, escape)}]`;
const FORMULA = raw(`'^${formulaStart(IN_POSTGRESQL)}'`);
const IS_GUARDED = new RegExp(`^'${formulaStart(IN_JAVASCRIPT)}`, 'u');

/** Removes the apostrophe that `csvRow` puts before texts that look like formulas. */
export const withoutGuard = (text: string): string => (IS_GUARDED.test(text) ? text.slice(1) : text);

const IS_FORMULA = new RegExp(`^(?!')${formulaStart(IN_JAVASCRIPT)}`, 'u');
const IS_NUMBER = /^[+-]?[\d.,' ]+$/;

/** A cell of someone's file for a CSV file, guarded against formulas unless it is a number. A guarded one stays as it is. */
export const guardedCell = (text: string): string => {
  const harmless = IS_FORMULA.test(text) && !IS_NUMBER.test(text) ? `'${text}` : text;
  return text === '' || /[",;|\t\r\n]/.test(harmless) ? `"${harmless.replaceAll('"', '""')}"` : harmless;
};

/**
 * Whether a cell of the column can contain any text: strings, JSON and arrays, unlike numbers, dates and the like. A key of
 * several columns can if one of them can. The JSON of a float is escaped, too, because of NaN, but only numbers are bounded.
 */
export const isFreeText = ({ type, parts }: Column): boolean =>
  parts ? parts.some(isFreeText) : type.json === 'escaped' ? !type.bounded : type.input.json === 'json';

/** One cell. As in PostgreSQL's CSV, NULL is empty and an empty text is `""`. @param label instead of a key; without text, `#7` */
function cell(alias: string, column: Column, label: Fragment | undefined): Fragment {
  const value = sql`(${output(alias, column)})::text`;
  // The subquery computes a label once, though the cell uses it several times.
  if (label)
    return sql`(select ${textCell(raw('shown.text'), true)} from (select coalesce(nullif(${label}, ''), '#' || ${value}) as text offset 0) shown)`;
  const mayBeFormula = isFreeText(column);
  // The values of a key of several columns are separated by commas.
  return mayBeFormula || hasSeveralColumns(column)
    ? textCell(value, mayBeFormula)
    : sql`coalesce(${value}, '')`;
}

function textCell(shown: Fragment, mayBeFormula: boolean): Fragment {
  // Regular expressions and `replace` do not support nondeterministic collations.
  const text = sql`(${shown} collate "C")`;
  const harmless = mayBeFormula
    ? sql`case when ${text} ~ ${FORMULA} then '''' || ${text} else ${text} end`
    : text;
  return sql`coalesce('"' || replace(${harmless}, '"', '""') || '"', '')`;
}

/** A row of RFC 4180 with its line break. @param labels of foreign keys, instead of their values */
export const csvRow = (
  alias: string,
  columns: readonly Column[],
  labels?: ReadonlyMap<Column, Fragment>,
): Fragment =>
  sql`array_to_string(array[${join(
    columns.map((column) => cell(alias, column, labels?.get(column))),
    ', ',
  )}]::text[], ',') || e'\\r\\n'`;
