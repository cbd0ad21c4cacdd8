// Which column of the model each column of a file is, how its cells are written, and by which column rows match records.
import { findColumn, isKeyPart, isWholeKey, type Column } from '../../db/schema/model.ts';
import type { YieldIfDue } from '../../db/lanes/requester.ts';
import type { AdminView } from '../../resources/access/admin-view.ts';
import { exportedColumns } from '../actions/export.ts';
import { relatedOf } from '../fields/references.ts';
import type { ResourceContext } from '../web/admin-context.ts';
import { createForm, type Form } from '../web/form-data.ts';
import { t } from '../web/language.ts';
import { titlesDigest, type FileRow, type ImportFile } from './import-file.ts';
import { provenFormats, type Format, type MappedColumn } from './import-values.ts';

export interface Mapping {
  readonly mapped: readonly MappedColumn[];
  /** The columns of `mapped`, in this order. */
  readonly columns: readonly Column[];
  /** The column by which rows match records. Without one, each row adds a record. */
  readonly by: Column | undefined;
  /** What people should correct in columns of the file, by their position. */
  readonly notes: ReadonlyMap<number, string>;
}

/** Whether an import sets the column. */
export const isSettable = (column: Column, { readonly, settable, model }: AdminView): boolean =>
  column !== model.primaryKey &&
  !readonly.has(column) &&
  (settable.create.has(column) || settable.update.has(column));

const isUnique = ({ model }: AdminView, column: Column): boolean =>
  !isWholeKey(model, column) &&
  column.type.input.json !== 'json' &&
  model.wholeUniques.some(([first, ...others]) => first === column && others.length === 0);

/** The columns that a column of a file can be: those that an import sets, and those that identify records. */
export const importable = (resource: AdminView): Column[] =>
  resource.output.filter(
    (column) =>
      column === resource.model.primaryKey ||
      isKeyPart(resource.model, column) ||
      isUnique(resource, column) ||
      isSettable(column, resource),
  );

/** Longer titles name no column. */
const LONGEST_TITLE = 200;
/** A name without case, accents, spaces and punctuation, unless that is all: `%`. */
function simplified(name: string): string {
  const title = name.slice(0, LONGEST_TITLE).trim();
  const words = title.normalize('NFKD').replace(/[^\p{L}\p{N}]/gu, '');
  return (words || title).toLowerCase();
}

/** Returns a function that finds a column that can be imported, by its name in the API, or else by its title. */
export function columnFinder(resource: AdminView): (name: string) => Column | undefined {
  const columns = importable(resource);
  const similar = new Map(
    columns
      .toReversed()
      .flatMap((column) =>
        [column.title, column.name, column.key].map((name) => [simplified(name), column] as const),
      ),
  );
  return (name) => {
    const exact = findColumn(resource.model, name.trim());
    return exact && columns.includes(exact) ? exact : similar.get(simplified(name));
  };
}

const related = () => [['either', t('keysOrLabels')], ['plain', t('keys')], ['label', t('labels')]] as const; // prettier-ignore
const NUMBERS = [['plain', '1,234.56'], ['comma', '1.234,56']] as const; // prettier-ignore
const DATES = [['plain', '2026-12-31'], ['dayFirst', '31.12.2026'], ['monthFirst', '12/31/2026']] as const; // prettier-ignore

/** The formats that the cells of a column can have, with what people read. */
export function formatsOf(
  column: Column,
  context: ResourceContext,
): readonly (readonly [format: Format, text: string])[] {
  if (column.references) return relatedOf(column, context) ? related() : [];
  if (column === context.resource.model.primaryKey) return [];
  const type = column.type.element ?? column.type;
  if (type.bounded) return NUMBERS;
  return ['date', 'datetime-local'].includes(type.input.control) ? DATES : [];
}

/** Whether the title of a foreign key says that its cells are keys (`room_id`) or labels (`room`, and what pages show). */
function relatedFormat({ key, name, title: shown }: Column, title: string): Format {
  const says = (one: string): boolean => simplified(one) === simplified(title);
  const isLabel = says(name) || says(shown);
  return says(key) === isLabel ? 'either' : isLabel ? 'label' : 'plain';
}

/** The columns by which rows can match records: the key, and unique columns. */
export function matchColumns(resource: AdminView, columns: readonly Column[]): Column[] {
  const { primaryKey } = resource.model;
  const { parts = [] } = primaryKey;
  const hasKey =
    columns.includes(primaryKey) || (parts.length > 0 && parts.every((part) => columns.includes(part)));
  return [...(hasKey ? [primaryKey] : []), ...columns.filter((column) => isUnique(resource, column))];
}

const NO_FORM = createForm([]);

/** Whether the cells of a column are as the API has them, without groups of thousands. */
const hasOnlyValues = (column: Column, rows: readonly FileRow[], index: number): boolean =>
  rows.every(({ cells }) => !cells[index] || column.type.parse(cells[index], column).fault === undefined);

/** Reads the mapping that a form has chosen, and finds out the rest of it. A file with the titles of an export may be in its format. */
export async function mapColumns(
  context: ResourceContext,
  { titles, rows, separator }: ImportFile,
  form: Form,
  yieldIfDue: YieldIfDue,
): Promise<Mapping> {
  const { resource } = context;
  const { get } = form.get('_titles') === titlesDigest(titles) ? form : NO_FORM;
  const find = columnFinder(resource);
  const notes = new Map<number, string>();
  const mapped = new Map<Column, MappedColumn>();
  const titlesOf = (isShown: boolean) => exportedColumns(context, isShown).map(({ title }) => title);
  const isExport = separator === ',' && [true, false].some((one) => titlesOf(one).join() === titles.join());
  for (const [index, title] of titles.entries()) {
    await yieldIfDue();
    const column = find(get(`_column.${index}`) ?? title);
    if (!column) continue;
    if (mapped.has(column)) {
      notes.set(index, t('columnTwice', { title: column.title }));
      continue;
    }
    const all = formatsOf(column, context).map(([format]) => format);
    const sent = all.find((format) => format === get(`_format.${column.key}`));
    const isPlain = all.length === 0 || (isExport && hasOnlyValues(column, rows, index));
    const said = all.includes('label') ? relatedFormat(column, title) : isPlain ? 'plain' : undefined;
    const format = sent ?? said;
    const formats = format ? [format] : await provenFormats(column, all, rows, index, yieldIfDue);
    if (formats.length > 1) notes.set(index, t('ambiguous'));
    mapped.set(column, { column, index, formats });
  }
  const columns = [...mapped.keys()];
  const keys = matchColumns(resource, columns);
  const sent = get('_match');
  const by = sent === '' ? undefined : (keys.find(({ key }) => key === sent) ?? keys[0]);
  return { mapped: [...mapped.values()], columns, by, notes };
}
