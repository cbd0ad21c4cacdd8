// The tables and texts of the import preview.
import type { Column } from '../../db/schema/model.ts';
import type { Separator } from '../../query/csv/csv-parser.ts';
import { labelsFor } from '../web/record-labels.ts';
import type { AdminView } from '../../resources/access/admin-view.ts';
import type { AdminContext } from '../web/admin-context.ts';
import { html, type Content, type Html, nextTurn } from '../web/html.ts';
import { isSettable, type ImportFile } from './import-file.ts';
import { WHOLE_ROW } from './import-matches.ts';
import type { RowKind, RowOutcome } from './import-rows.ts';
import { SHOWN_LENGTH, type ImportOutcome } from './import-run.ts';
import { links } from '../web/admin-links.ts';
import { counted, EMPTY_TEXT, grouped, NOTHING, shortened, shownValue } from '../web/display-text.ts';
import { sentence, table } from '../web/widgets.ts';

/** The label of the record that a foreign key value references; undefined if it is unknown. */
type LabelOf = (column: Column, value: string) => string | undefined;

/** The outcome of a trial import, and the data to show it. */
export interface Preview {
  readonly outcome: ImportOutcome;
  readonly resource: AdminView;
  readonly file: ImportFile;
  readonly labelOf: LabelOf;
}

/** Looks up the labels of all records that the shown rows reference. */
export async function referenceLabels(
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

const TITLES: Readonly<Record<Exclude<RowKind, 'unchanged'>, string>> = {
  faulty: 'Rows with errors',
  changed: 'Changed records',
  new: 'New records',
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
  if (value === '') return EMPTY_TEXT;
  if (column.references && value !== null) return shownReference(column, value, labelOf, other);
  return shownValue(column, value, SHOWN_LENGTH);
}

const changeList = ({ kind, changes }: RowOutcome, { file: { columns }, labelOf }: Preview): Html =>
  html`<ul>
    ${changes.map(({ column, before, after }) => {
      if (kind === 'new')
        return columns.includes(column) && html`<li>${column.title}: ${shown(column, after, labelOf)}</li>`;
      return html`<li>
        ${column.title}: <span class="hidden">was</span> <del>${shown(column, before, labelOf, after)}</del>
        <span aria-hidden="true">→</span> <span class="hidden">becomes</span>
        <ins>${shown(column, after, labelOf, before)}</ins>
        ${looksSame(before, after) && html`<span class="hint">differs in whitespace, or after the part shown</span>`}
      </li>`;
    })}
  </ul>`;

function errorList({ errors }: RowOutcome, { model }: AdminView): Html {
  const titles = new Map([model.primaryKey, ...model.columns].map(({ key, title }) => [key, title]));
  return html`<ul>
    ${Object.entries(errors).map(([field, messages]) => {
      const text = messages.join('; ');
      const item = field === WHOLE_ROW ? sentence(text) : `${titles.get(field) ?? field}: ${text}`;
      return html`<li>${item}</li>`;
    })}
  </ul>`;
}

function recordCell({ kind, id }: RowOutcome, { name }: AdminView): Content {
  if (id === undefined) return kind === 'new' ? 'new' : NOTHING;
  const label = `#${shortened(id, SHOWN_LENGTH)}`;
  return kind === 'changed' ? html`<a href="${links.record(name, id)}">${label}</a>` : label;
}

/**
 * A table of the rows of one kind; false if there are none. Each row is rendered in its own turn, because it may be wide.
 * @param max the maximum number of rows shown
 */
export async function rowTable(
  kind: keyof typeof TITLES,
  preview: Preview,
  max = Infinity,
): Promise<Html | false> {
  const { outcome, resource } = preview;
  const count = outcome.counts[kind];
  const rows = outcome.shown[kind].slice(0, max);
  const titles = ['Line', 'Record', kind === 'faulty' ? 'Errors' : 'Values'];
  const cells: Content[][] = [];
  for (const row of rows) {
    const details = kind === 'faulty' ? errorList(row, resource) : changeList(row, preview);
    cells.push([grouped(row.line), recordCell(row, resource), details]);
    await nextTurn();
  }
  return (
    count > 0 &&
    html`<section>
      <h2>${TITLES[kind]} (${grouped(count)})</h2>
      ${table(titles, cells, { className: 'records import', rowClass: kind, numeric: [true] })}
      ${rows.length < count && html`<p class="hint">Showing the first ${grouped(rows.length)} of ${grouped(count)}.</p>`}
    </section>`
  );
}

/** `3 new, 2 changed, 10 unchanged, 1 with errors` */
const countsText = ({ counts }: ImportOutcome): string =>
  `${grouped(counts.new)} new, ${grouped(counts.changed)} changed, ${grouped(counts.unchanged)} unchanged, ${grouped(counts.faulty)} with errors`;

const SEPARATORS: Readonly<Record<Separator, string>> = {
  ',': 'commas',
  ';': 'semicolons',
  '\t': 'tabs',
  '|': 'vertical bars',
};

/** The number of rows of each kind, how the file was read, and the columns that the import ignores. */
export function summaryOf({ outcome, resource, file }: Preview): Html {
  const ignored = file.columns.filter(
    (column) => column !== resource.model.primaryKey && !isSettable(column, resource),
  );
  return html`<p class="lead">${counted(file.rows.length, 'row')}: ${countsText(outcome)}.</p>
    <p class="hint">
      Read as ${file.encoding}, separated by ${SEPARATORS[file.separator]}.
      ${file.encoding === 'Windows-1252' && 'If letters are wrong, save the file in UTF-8.'}
    </p>
    ${
      ignored.length > 0 &&
      html`<p class="hint">
        Read-only columns are ignored: ${ignored.map(({ title }) => title).join(', ')}.
      </p>`
    }`;
}
