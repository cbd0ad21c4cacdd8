// What the cells of a file mean: values in the format of their column, and related records by their keys or labels.
import type { Transaction } from '../../db/connection/transactions.ts';
import type { YieldIfDue } from '../../db/lanes/requester.ts';
import type { Column } from '../../db/schema/model.ts';
import { addError, type FieldErrors } from '../../errors.ts';
import type { Message } from '../../messages.ts';
import { isFreeText, withoutGuard } from '../../query/csv/csv-rows.ts';
import { recordsByLabelStatement } from '../../query/labels/records-by-label.ts';
import { matchedRecordsStatement } from '../../query/statements/records-by-key.ts';
import { LONGEST_NAME } from '../../resources/records/look-up.ts';
import { relatedOf } from '../fields/references.ts';
import type { ResourceContext } from '../web/admin-context.ts';
import { t } from '../web/language.ts';
import { faultOf, readText, type Writing } from '../web/read-text.ts';
import type { FileRow } from './import-file.ts';

/** How the cells of a column are written. `plain` is the format of the API: for a foreign key, the key of the related record. */
export type Format = 'plain' | 'comma' | 'dayFirst' | 'monthFirst' | 'label' | 'either';

/** A column that is imported. */
export interface MappedColumn {
  readonly column: Column;
  /** Its position in the file, from 0. */
  readonly index: number;
  /** Its format; several if the cells do not show it. Then a cell must have the same value in all of them. */
  readonly formats: readonly Format[];
}

/** The longest text that may be a number, a date or the label of a choice (characters). */
const LONGEST_VALUE = 1000;

const writingOf = (format: Format): Writing => ({
  decimal: format === 'comma' ? ',' : '.',
  dates: format === 'dayFirst' || format === 'monthFirst' ? format : 'iso',
  zone: 'UTC',
  isOpen: false,
});

/** The value of a cell, as a form has it, null for no value; or why it is not clear. */
interface Cell {
  readonly value?: string | null | undefined;
  readonly fault?: Message | string | undefined;
}

/** Reads a cell. An empty quoted one is an empty string only in a text column. */
function readCell(cell: string | null, column: Column, formats: readonly Format[]): Cell {
  const { type, nullable } = column;
  const isText = isFreeText(column);
  const text = isText ? withoutGuard(cell ?? '') : (cell ?? '').trim();
  if (cell === null || (text === '' && !isText)) return { value: null };
  if (type.input.json === 'json') {
    const json = text.trim();
    if (json === '' || (json === 'null' && nullable)) return { value: null };
    if (json === 'null' || !type.element) return { value: json };
  } else if (text.length > LONGEST_VALUE) return { value: text };
  const [first = { value: text }, ...others] = formats.map((format): Cell => {
    const writing = writingOf(format);
    const reading = readText(column, text, writing);
    return { value: reading.text, fault: faultOf(column, reading, writing) };
  });
  return others.every(({ value }) => value === first.value) ? first : { fault: t('formatNeeded') };
}

/** The format that fits all cells that any format fits; all of them if several do, with different values, or none does. */
export async function provenFormats(
  column: Column,
  formats: readonly Format[],
  rows: readonly FileRow[],
  index: number,
  yieldIfDue: YieldIfDue,
): Promise<readonly Format[]> {
  const read = formats.map((format) => ({ format, values: [] as (string | undefined)[] }));
  for (const row of rows) {
    await yieldIfDue();
    const values = formats.map((format) => {
      const { value } = readCell(row.cells[index] ?? null, column, [format]);
      return typeof value !== 'string' || column.type.parse(value, column).fault ? undefined : value;
    });
    if (values.some((value) => value !== undefined)) read.forEach((one, at) => one.values.push(values[at]));
  }
  const [first, ...others] = read.filter(({ values }) => !values.includes(undefined));
  const isProven = others.every(({ values }) => values.every((value, at) => value === first?.values[at]));
  return first && isProven ? [first.format] : formats;
}

/** A row with a value per mapped column, as the API has it. */
export interface ImportRow extends FileRow {
  /** Null for no value. */
  readonly values: readonly (string | null)[];
  /** The cells that have no value in their format. */
  readonly faults: FieldErrors;
  /** The keys of the records that a cell may mean. */
  readonly meant: ReadonlyMap<string, readonly string[]>;
}

/** The field name for errors that belong to no column. */
export const WHOLE_ROW = '';

/** The label that a cell names. */
const labelIn = (cell: string | null | undefined): string => withoutGuard(cell ?? '').trim();

/** The keys of the records that each text of a column may mean. */
type Named = ReadonlyMap<string, Set<string>>;

/** Finds the records that the cells of a column name. `#7` is what pages and exports show in place of a label that is empty. */
async function recordsNamed(
  run: Transaction['run'],
  context: ResourceContext,
  { column, index, formats }: MappedColumn,
  rows: readonly FileRow[],
): Promise<Named | undefined> {
  const related = relatedOf(column, context);
  if (!related || formats[0] === 'plain') return undefined;
  const { model, label, visibility } = related;
  const { primaryKey } = model;
  const texts = [...new Set(rows.map(({ cells }) => labelIn(cells[index])))];
  const names = texts.filter((name) => name !== '' && name.length <= LONGEST_NAME);
  const named = new Map(names.map((name) => [name, new Set<string>()]));
  if (names.length === 0) return named;
  const isKey = (key: string): boolean => key !== '' && primaryKey.type.parse(key, primaryKey).value === key;
  const keyed = names.flatMap((name) =>
    [formats[0] === 'either' ? name : '', name.startsWith('#') ? name.slice(1) : '']
      .filter(isKey)
      .map((key) => ({ name, key })),
  );
  const keys = keyed.map(({ key }) => key);
  const add = (name = '', ids: readonly string[]): void => ids.forEach((id) => named.get(name)?.add(id));
  for (const match of await run(recordsByLabelStatement(model, label, names, visibility)))
    add(names[match.index], match.ids);
  for (const match of await run(matchedRecordsStatement(model, primaryKey, [], keys, false, visibility)))
    add(keyed[match.index]?.name, [match.id]);
  // It may be the key of a record that the user does not see.
  for (const { name, key } of keyed) if (key !== name && named.get(name)?.size === 0) add(name, [key]);
  return named;
}

/** Reads the values of all rows. */
export async function readRows(
  run: Transaction['run'],
  context: ResourceContext,
  rows: readonly FileRow[],
  mapped: readonly MappedColumn[],
  yieldIfDue: YieldIfDue,
): Promise<ImportRow[]> {
  const { primaryKey } = context.resource.model;
  const records = new Map<Column, Named | undefined>();
  for (const one of mapped) records.set(one.column, await recordsNamed(run, context, one, rows));
  const read: ImportRow[] = [];
  for (const row of rows) {
    const faults: FieldErrors = {};
    const meant = new Map<string, readonly string[]>();
    const values = mapped.map(({ column, index, formats }) => {
      const cell = row.cells[index] ?? null;
      const named = records.get(column);
      if (!named) {
        const { value = cell, fault } = readCell(cell, column, column === primaryKey ? [] : formats);
        if (fault !== undefined) addError(faults, column.key, fault);
        return value;
      }
      const name = labelIn(cell);
      const ids = [...(named.get(name) ?? [])];
      if (name === '' || ids.length === 1) return ids[0] ?? null;
      const several = formats[0] === 'either' && ids.includes(name) ? 'formatNeeded' : 'severalHaveLabel';
      addError(faults, column.key, t(ids.length > 1 ? several : 'noneHasLabel'));
      if (formats[0] === 'label') meant.set(column.key, ids);
      return name;
    });
    read.push({ ...row, values, faults, meant });
    await yieldIfDue();
  }
  return read;
}
