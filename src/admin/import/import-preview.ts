// The tables and texts of the import preview: how the file is read, what it changes, and its faulty rows as a file.
import type { Column } from '../../db/schema/model.ts';
import type { YieldIfDue } from '../../db/lanes/requester.ts';
import type { Separator } from '../../query/csv/csv-parser.ts';
import { guardedCell } from '../../query/csv/csv-rows.ts';
import { labelsFor } from '../web/record-labels.ts';
import type { AdminView } from '../../resources/access/admin-view.ts';
import type { AdminContext, ResourceContext } from '../web/admin-context.ts';
import { attributes, html, nextTurn, type Attributes, type Content, type Html } from '../web/html.ts';
import { titlesDigest, type ImportFile } from './import-file.ts';
import { formatsOf, importable, matchColumns, type Mapping } from './import-mapping.ts';
import type { RowKind } from './import-rows.ts';
import { SHOWN_LENGTH, type CondensedOutcome, type ImportOutcome } from './import-run.ts';
import { links } from '../web/admin-links.ts';
import { emptyText, nothing, shortened, shownValue } from '../web/display-text.ts';
import { numberText, phrase, t, type PlainCode } from '../web/language.ts';
import { choiceField, controlAttributes, labeledField, table } from '../web/widgets.ts';

/** The label of the record that a foreign key value references; undefined if it is unknown. */
type LabelOf = (column: Column, value: string) => string | undefined;

/** Looks up the labels of all records that the shown rows reference. */
async function referenceLabels(
  { browsing, resources }: AdminContext,
  { shown }: ImportOutcome,
): Promise<LabelOf> {
  const targetOf = ({ references }: Column) => references && resources.get(references.name);
  const changes = Object.values(shown).flatMap((rows) => rows.flatMap((row) => row.changes));
  const records = changes.flatMap(({ column, before, after }) =>
    [before, after].map((id) => [targetOf(column), id] as const),
  );
  const labelOf = await labelsFor(records, browsing.labelsOf);
  return (column, value) => labelOf(targetOf(column), value);
}

const TITLES: Readonly<Record<Exclude<RowKind, 'unchanged'>, PlainCode>> = {
  faulty: 'rowsWithErrors',
  changed: 'changedRecords',
  new: 'newRecords',
};

/** Whether two different values look the same: they differ in whitespace, or after the part shown. */
const looksSame = (before: string | null, after: string | null): boolean =>
  before !== null && after !== null && shortened(before, SHOWN_LENGTH) === shortened(after, SHOWN_LENGTH);

/** A foreign key value as the label of its record, with the key if the other value has the same label. */
function shownReference(column: Column, value: string, labelOf: LabelOf, other: string | null): string {
  const label = labelOf(column, value);
  if (label === undefined) return `#${shortened(value, SHOWN_LENGTH)}`;
  const isSame = other !== null && looksSame(label, labelOf(column, other) ?? null);
  const key = `#${value}`;
  return isSame && label !== key
    ? `${shortened(label, SHOWN_LENGTH)} (${key})`
    : shortened(label, SHOWN_LENGTH);
}

/** A value of the file or of a record. An empty string looks different from no value. */
function shown(column: Column, value: string | null, labelOf: LabelOf, other: string | null = null): Content {
  if (value === '') return emptyText();
  if (column.references && value !== null) return shownReference(column, value, labelOf, other);
  return shownValue(column, value, SHOWN_LENGTH);
}

/** The values of a new record, or the old and new values of a stored one. */
const changeList = ({ kind, changes }: CondensedOutcome, { columns }: Mapping, labelOf: LabelOf): Html =>
  html`<ul>
    ${changes.map(({ column, before, after }) => {
      if (kind === 'new' && !columns.includes(column)) return false;
      const both = html`<span class="hidden">${t('was')}</span>
        <del>${shown(column, before, labelOf, after)}</del> <span aria-hidden="true">→</span>
        <span class="hidden">${t('becomes')}</span>
        <ins>${shown(column, after, labelOf, before)}</ins>
        ${looksSame(before, after) && html`<span class="hint">${t('differsUnseen')}</span>`}`;
      const value = kind === 'new' ? shown(column, after, labelOf) : both;
      return html`<li>${phrase('labeled', { label: column.title, value })}</li>`;
    })}
  </ul>`;

const errorList = ({ faults }: CondensedOutcome): Html =>
  html`<ul>
    ${faults.map(([text, cell]) => html`<li>${text}${cell !== '' && html` <q>${shortened(cell, SHOWN_LENGTH)}</q>`}</li>`)}
  </ul>`;

function recordCell({ kind, id }: CondensedOutcome, { name }: AdminView): Content {
  if (id === undefined) return kind === 'new' ? t('newRecord') : nothing();
  const label = `#${shortened(id, SHOWN_LENGTH)}`;
  return kind === 'changed' ? html`<a href="${links.record(name, id)}">${label}</a>` : label;
}

/**
 * The tables of the rows of each kind. Each row is rendered in its own turn, because it may be wide.
 * @param belowFaulty what follows the table of the faulty rows
 */
export async function rowTables(
  context: ResourceContext,
  outcome: ImportOutcome,
  mapping: Mapping,
  belowFaulty: Html,
): Promise<Html[]> {
  const labelOf = await referenceLabels(context, outcome);
  const tables: Html[] = [];
  for (const kind of ['faulty', 'changed', 'new'] as const) {
    const count = outcome.counts[kind];
    const rows = outcome.shown[kind];
    if (count === 0) continue;
    const titles = [t('line'), t('record'), t(kind === 'faulty' ? 'errors' : 'values')];
    const cells: Content[][] = [];
    for (const row of rows) {
      const details = kind === 'faulty' ? errorList(row) : changeList(row, mapping, labelOf);
      cells.push([numberText(row.line), recordCell(row, context.resource), details]);
      await nextTurn();
    }
    tables.push(
      html`<section>
          <h2>${t(TITLES[kind])} (${numberText(count)})</h2>
          ${table(titles, cells, { className: 'records import', rowClass: kind, numeric: [true] })}
          ${rows.length < count && html`<p class="hint">${t('showingFirst', { shown: rows.length, count })}</p>`}
        </section>
        ${kind === 'faulty' && belowFaulty}`,
    );
  }
  return tables;
}

/** `16 rows: 3 new, 2 changed, 10 unchanged, 1 with errors.` */
function countsText(count: number, outcome: ImportOutcome | undefined): string {
  if (!outcome) return t('rowsOfFile', { count });
  const { new: added, ...others } = outcome.counts;
  return t('rowsByKind', { count, added, ...others });
}

const SEPARATORS: Readonly<Record<Separator, PlainCode>> = {
  ',': 'commas',
  ';': 'semicolons',
  '\t': 'tabs',
  '|': 'verticalBars',
};

/** The number of rows of each kind, and how the file was read. */
export const summaryOf = (outcome: ImportOutcome | undefined, { rows, ...file }: ImportFile): Html =>
  html`<p class="lead">${countsText(rows.length, outcome)}</p>
    <p class="hint">
      ${t('readAs', { encoding: file.encoding, separator: t(SEPARATORS[file.separator]) })}
      ${file.encoding === 'Windows-1252' && t('wrongLetters')}
      ${file.titleLine > 2 && t('titlesInLine', { line: file.titleLine })}
    </p>`;

/** More options than these make a page too large: then there are text fields that suggest the columns. */
const MAX_OPTIONS = 10_000;

type Option = readonly [value: string, text: string];

const select = (about: Attributes, options: readonly Option[], chosen: string): Html =>
  html`<select${attributes(about)}>
    ${options.map(([value, text]) => html`<option value="${value}" ${attributes({ selected: value === chosen })}>${text}</option>`)}
  </select>`;

/** What each column of the file is, and by which column rows match records. */
export async function mappingFields(
  context: ResourceContext,
  { titles, titleLine, headings, rows }: ImportFile,
  mapping: Mapping,
): Promise<Html> {
  const { resource } = context;
  const { mapped, columns, by, notes } = mapping;
  const options = importable(resource).map(({ key, title }): Option => [key, title]);
  const isLarge = options.length * titles.length > MAX_OPTIONS;
  const yieldIfDue = context.request.requester.workInTurns();
  const cells: Content[][] = [];
  for (const [index, title] of titles.entries()) {
    const name = shortened(title, 60) || t('columnNumber', { number: String(index + 1) });
    const one = mapped.find((candidate) => candidate.index === index);
    const { column, formats: [format = 'plain'] = [] } = one ?? {};
    const first = rows.find((row) => row.cells[index])?.cells[index];
    const note = notes.get(index);
    const about = { name: `_column.${index}`, 'aria-label': t('importNameAs', { name }) };
    const key = column?.key ?? '';
    const control = isLarge
      ? html`<input${attributes({ ...about, value: key, list: 'columns' })} />`
      : select(about, [['', t('leaveOut')], ...options], key);
    const formats = column ? formatsOf(column, context) : [];
    const all: Option[] = note === undefined ? [...formats] : [['', t('choose')], ...formats];
    const written = select(
      { name: `_format.${key}`, 'aria-label': t('formatOf', { name }) },
      all,
      note === undefined ? format : '',
    );
    const hint = note !== undefined && html` <span class="hint">${note}</span>`;
    cells.push([
      name,
      first ? shortened(first, 40) : nothing(),
      control,
      html`${formats.length > 0 && written}${hint}`,
    ]);
    await yieldIfDue();
  }
  const keys = matchColumns(resource, columns);
  const parts = {
    hint: by
      ? t(resource.may.has('add') ? 'rowChangesOrAdds' : 'rowChangesRecord', { column: by.title })
      : t('eachRowAdds'),
  };
  const matches = [...keys.map(({ key, title }): Option => [key, title]), ['', t('matchByNothing')] as const];
  const match = select(controlAttributes('match', '_match', parts), matches, by?.key ?? '');
  // Without a choice there is no field: once a column is assigned that identifies records, rows match by it.
  const matching =
    keys.length > 0
      ? labeledField('match', t('matchBy'), match, parts)
      : html`<p class="hint">${t('keyColumnNeeded')}</p>`;
  const textOf = (cells: readonly string[]): string => shortened(cells.join(' · '), 60);
  const lines = headings.map(({ line, titles: cells }): Option => [
    String(line),
    t('labeled', { label: String(line), value: textOf(cells) }),
  ]);
  return html`<section>
    <h2>${t('columnsOfFile')}</h2>
    <input type="hidden" name="_titles" value="${titlesDigest(titles)}" />
    ${choiceField('_line', t('titleLine'), lines, String(titleLine))}
    ${table([t('inTheFile'), t('firstValue'), t('importAs'), t('writtenAs')], cells, { className: 'records mapping' })}
    ${isLarge && html`<datalist id="columns">${options.map(([key, title]) => html`<option value="${key}">${title}</option>`)}</datalist>`}
    ${matching}
  </section>`;
}

/** The faulty rows as a CSV file, with the reasons in its first column. An import leaves that column out. */
export async function faultyRowsFile(
  { titles, rows, separator }: ImportFile,
  { reasons }: ImportOutcome,
  yieldIfDue: YieldIfDue,
): Promise<string> {
  const lineOf = (cells: readonly (string | null)[]): string =>
    `${cells.map((cell) => (cell === null ? '' : guardedCell(cell))).join(separator)}\r\n`;
  let text = `\uFEFF${lineOf([t('importErrors'), ...titles.map((title) => title || null)])}`;
  for (const { line, cells } of rows) {
    const reason = reasons.get(line);
    if (reason !== undefined) text += lineOf([reason, ...cells]);
    await yieldIfDue();
  }
  return text;
}
