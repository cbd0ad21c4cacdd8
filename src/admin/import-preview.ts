import type { Column } from '../db/model.ts';
import type { AdminResource } from '../resources/admin.ts';
import { html, type Content, type Html } from './html.ts';
import { isSettable, type ImportFile } from './import-file.ts';
import { ROW, type RowKind, type RowOutcome } from './import-rows.ts';
import { MOST_SHOWN, type ImportOutcome } from './import-run.ts';
import { links } from './links.ts';
import { counted, grouped, NOTHING, shortened, shownValue } from './text.ts';
import { sentence } from './widgets.ts';

/** How much of a value is shown (characters). */
const LENGTH = 80;

const TITLES: Readonly<Record<Exclude<RowKind, 'unchanged'>, string>> = {
  faulty: 'Rows with faults',
  changed: 'Records that change',
  new: 'New records',
};

/** A value of the file or of a record; the empty text is told from no value. */
const shown = (column: Column, value: string | null): Content =>
  value === '' ? html`<span class="nothing">empty text</span>` : shownValue(column, value, LENGTH);

/** Where two values look the same though they are not: they differ in spaces, or further on. */
const looksSame = (before: string | null, after: string | null): boolean =>
  before !== null && after !== null && shortened(before, LENGTH) === shortened(after, LENGTH);

const changeList = ({ kind, changes }: RowOutcome, { columns }: ImportFile): Html =>
  html`<ul>
    ${changes.map(({ column, before, after }) => {
      if (kind === 'new')
        return columns.includes(column) && html`<li>${column.title}: ${shown(column, after)}</li>`;
      return html`<li>
        ${column.title}: <span class="hidden">was</span> <del>${shown(column, before)}</del>
        <span aria-hidden="true">→</span> <span class="hidden">becomes</span>
        <ins>${shown(column, after)}</ins>
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

function rowTable(
  kind: keyof typeof TITLES,
  { counts, shown: rows }: ImportOutcome,
  resource: AdminResource,
  file: ImportFile,
): Html | false {
  const count = counts[kind];
  const title = kind === 'faulty' ? 'What is wrong' : 'Values';
  return (
    count > 0 &&
    html`<section>
      <h2>${TITLES[kind]} (${grouped(count)})</h2>
      <table class="records">
        <thead>
          <tr>
            <th scope="col" class="number">Line</th>
            <th scope="col">Record</th>
            <th scope="col">${title}</th>
          </tr>
        </thead>
        <tbody>
          ${rows[kind].map(
            (row) =>
              html`<tr class="${kind}">
                <th scope="row" class="number" data-label="Line">${grouped(row.line)}</th>
                <td data-label="Record">${recordCell(row, resource)}</td>
                <td data-label="${title}">
                  ${kind === 'faulty' ? errorList(row, resource) : changeList(row, file)}
                </td>
              </tr>`,
          )}
        </tbody>
      </table>
      ${count > MOST_SHOWN && html`<p class="hint">The first ${MOST_SHOWN} are shown; there are ${grouped(count - MOST_SHOWN)} more.</p>`}
    </section>`
  );
}

/** `3 new, 2 changed, 10 unchanged, 1 faulty` */
const countsText = ({ counts }: ImportOutcome): string =>
  `${grouped(counts.new)} new, ${grouped(counts.changed)} changed, ${grouped(counts.unchanged)} unchanged, ${grouped(counts.faulty)} faulty`;

/** What an import would do: how many rows do what, and the first of each kind. */
export function previewOf(outcome: ImportOutcome, resource: AdminResource, file: ImportFile): Html {
  const ignored = file.columns.filter(
    (column) => column !== resource.model.primaryKey && !isSettable(column, resource),
  );
  return html`<p class="lead">${counted(file.rows.length, 'row')}: ${countsText(outcome)}.</p>
    ${
      ignored.length > 0 &&
      html`<p class="hint">
        Read-only, so their values are not used: ${ignored.map(({ title }) => title).join(', ')}.
      </p>`
    }
    ${(['faulty', 'changed', 'new'] as const).map((kind) => rowTable(kind, outcome, resource, file))}`;
}
