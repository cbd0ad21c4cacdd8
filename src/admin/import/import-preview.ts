import type { Column } from '../../db/schema/model.ts';
import type { AdminResource } from '../../resources/serve/admin-resource.ts';
import { html, type Content, type Html } from '../web/html.ts';
import { isSettable, type ImportFile } from './import-file.ts';
import type { LabelOf } from './import-labels.ts';
import { ROW, type RowKind, type RowOutcome } from './import-rows.ts';
import type { ImportOutcome } from './import-run.ts';
import { links } from '../web/admin-links.ts';
import { counted, EMPTY_TEXT, grouped, NOTHING, shortened, shownValue } from '../web/display-text.ts';
import { sentence } from '../web/widgets.ts';

/** What a file would do, and what it takes to show that. */
export interface Preview {
  readonly outcome: ImportOutcome;
  readonly resource: AdminResource;
  readonly file: ImportFile;
  readonly labelOf: LabelOf;
}

/** How much of a value is shown (characters). */
const LENGTH = 80;

const TITLES: Readonly<Record<Exclude<RowKind, 'unchanged'>, string>> = {
  faulty: 'Rows with faults',
  changed: 'Records that change',
  new: 'New records',
};

/** Where two values look the same though they are not: they differ in spaces, or further on. */
const looksSame = (before: string | null, after: string | null): boolean =>
  before !== null && after !== null && shortened(before, LENGTH) === shortened(after, LENGTH);

/** A value of a foreign key by what the record is called; and by its key, where the one beside it is called the same. */
function shownReference(column: Column, value: string, labelOf: LabelOf, beside: string | null): string {
  const label = labelOf(column, value);
  if (label === undefined) return `#${shortened(value, LENGTH)}`;
  const isSame = beside !== null && looksSame(label, labelOf(column, beside) ?? null);
  const key = `#${value}`;
  return isSame && label !== key ? `${shortened(label, LENGTH)} (${key})` : shortened(label, LENGTH);
}

/** A value of the file or of a record; the empty text is told from no value. */
function shown(
  column: Column,
  value: string | null,
  labelOf: LabelOf,
  beside: string | null = null,
): Content {
  if (value === '') return EMPTY_TEXT;
  if (column.references && value !== null) return shownReference(column, value, labelOf, beside);
  return shownValue(column, value, LENGTH);
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
        ${looksSame(before, after) && html`<span class="hint">differs in spaces, in line breaks, or further on</span>`}
      </li>`;
    })}
  </ul>`;

function errorList({ errors }: RowOutcome, { model }: AdminResource): Html {
  const titles = new Map([model.primaryKey, ...model.columns].map(({ key, title }) => [key, title]));
  return html`<ul>
    ${Object.entries(errors).map(([field, messages]) => {
      const told = messages.join('; ');
      return html`<li>${field === ROW ? sentence(told) : `${titles.get(field) ?? field}: ${told}`}</li>`;
    })}
  </ul>`;
}

function recordCell({ kind, id }: RowOutcome, { name }: AdminResource): Content {
  if (id === undefined) return kind === 'new' ? 'new' : NOTHING;
  const label = `#${shortened(id, LENGTH)}`;
  return kind === 'changed' ? html`<a href="${links.record(name, id)}">${label}</a>` : label;
}

/**
 * The rows that do one thing, as a table.
 * @param most how many of them are shown
 */
export function rowTable(kind: keyof typeof TITLES, preview: Preview, most = Infinity): Html | false {
  const { outcome, resource } = preview;
  const count = outcome.counts[kind];
  const rows = outcome.shown[kind].slice(0, most);
  const rest = count - rows.length;
  const title = kind === 'faulty' ? 'What is wrong' : 'Values';
  return (
    count > 0 &&
    html`<section>
      <h2>${TITLES[kind]} (${grouped(count)})</h2>
      <table class="records import">
        <thead>
          <tr>
            <th scope="col" class="number">Line</th>
            <th scope="col">Record</th>
            <th scope="col">${title}</th>
          </tr>
        </thead>
        <tbody>
          ${rows.map(
            (row) =>
              html`<tr class="${kind}">
                <th scope="row" class="number" data-label="Line">${grouped(row.line)}</th>
                <td data-label="Record">${recordCell(row, resource)}</td>
                <td data-label="${title}">
                  ${kind === 'faulty' ? errorList(row, resource) : changeList(row, preview)}
                </td>
              </tr>`,
          )}
        </tbody>
      </table>
      ${rest > 0 && html`<p class="hint">The first ${grouped(rows.length)} are shown; there are ${grouped(rest)} more.</p>`}
    </section>`
  );
}

/** `3 new, 2 changed, 10 unchanged, 1 faulty` */
const countsText = ({ counts }: ImportOutcome): string =>
  `${grouped(counts.new)} new, ${grouped(counts.changed)} changed, ${grouped(counts.unchanged)} unchanged, ${grouped(counts.faulty)} faulty`;

/** What an import would do in short: how many rows do what. */
export function summaryOf({ outcome, resource, file }: Preview): Html {
  const ignored = file.columns.filter(
    (column) => column !== resource.model.primaryKey && !isSettable(column, resource),
  );
  return html`<p class="lead">${counted(file.rows.length, 'row')}: ${countsText(outcome)}.</p>
    ${
      ignored.length > 0 &&
      html`<p class="hint">
        Read-only, so their values are not used: ${ignored.map(({ title }) => title).join(', ')}.
      </p>`
    }`;
}
