import type { Column } from '../../db/schema/model.ts';
import { textOfColumn, textOfField } from '../../resources/records/record-entry.ts';
import { HISTORY } from '../../resources/definition/system-tables.ts';
import { sizeKey } from '../../query/statements/preview-sql.ts';
import type { JsonFields } from '../../resources/records/json-fields.ts';
import type { AdminContext } from '../web/admin-context.ts';
import { columnsOf, type HistoryChange, type Known } from './history-entry.ts';
import { html, type Content, type Html } from '../web/html.ts';
import { links, Parameters } from '../web/admin-links.ts';
import { EMPTY_TEXT, grouped, moment, NOTHING, shownValue } from '../web/display-text.ts';

/** How much of a long text is shown (characters). */
const MOST_SHOWN = 2000;

const ACTIONS: Readonly<Record<string, string>> = { create: 'Added', update: 'Changed', delete: 'Deleted' };
const DOORS: Readonly<Record<string, string>> = {
  api: 'through the API',
  admin: 'in the admin area',
  command: 'by a command',
};

export const actionText = ({ action }: HistoryChange): string => ACTIONS[action] ?? action;

/** A text that may be long; what is cut has a link to the whole change. */
function shownText(column: Column, text: string | null, size: string | null, change: HistoryChange): Content {
  if (text === null || (size === null && text.length <= MOST_SHOWN)) return shownValue(column, text);
  const whole = links.action(
    HISTORY.model,
    'export.json',
    new Parameters([{ name: 'id', value: change.id }]),
  );
  const beginning = text.slice(0, MOST_SHOWN).toWellFormed();
  return html`${beginning} …
    <a href="${whole}">cut${size !== null && `: ${grouped(Number(size))} bytes in full`}</a>`;
}

/** A value, line breaks and all; a foreign key by what its record is called, while there is one. */
function shown(
  column: Column,
  members: JsonFields,
  change: HistoryChange,
  context: AdminContext,
  known: Known,
): Content {
  if (!members.has(column.key)) return NOTHING;
  const text = textOfColumn(members, column);
  const target = column.references && context.resources.get(column.references.name);
  if (text === '') return EMPTY_TEXT;
  if (text === null || !column.references)
    return shownText(column, text, textOfField(members, sizeKey(column)), change);
  const label = known.label(target, text);
  return target && label !== undefined
    ? html`<a href="${links.record(target.name, text)}">${label}</a>`
    : `#${text}`;
}

/** The columns of a change: what they were, and what they became. */
function values(change: HistoryChange, context: AdminContext, known: Known): Html {
  const { resource, action, before, after } = change;
  const columns = columnsOf(change);
  const isUpdate = action === 'update';
  if (!resource)
    return html`<p class="hint">The admin area does not show the records of ${change.model}.</p>`;
  if (columns.length === 0)
    return html`<p class="hint">
      No column that the admin area shows ${isUpdate ? 'was changed' : 'has a value'}.
    </p>`;
  const heads = (
    [
      ['Before', before, 'del'],
      ['After', after, 'ins'],
    ] as const
  ).filter(([, , kind]) => isUpdate || (action === 'delete') === (kind === 'del'));
  const cell = (column: Column, [head, members, kind]: (typeof heads)[number]): Html => {
    const value = shown(column, members, change, context, known);
    const marked = !isUpdate ? value : kind === 'del' ? html`<del>${value}</del>` : html`<ins>${value}</ins>`;
    return html`<td data-label="${isUpdate ? head : 'Value'}" class="value">${marked}</td>`;
  };
  return html`<table class="records changes">
    <thead>
      <tr>
        <th scope="col">Column</th>
        ${heads.map(([head]) => html`<th scope="col">${isUpdate ? head : 'Value'}</th>`)}
      </tr>
    </thead>
    <tbody>
      ${columns.map(
        (column) =>
          html`<tr>
            <th scope="row">${column.title}</th>
            ${
              column.isPassword
                ? html`<td colspan="${heads.length}">changed</td>`
                : heads.map((head) => cell(column, head))
            }
          </tr>`,
      )}
    </tbody>
  </table>`;
}

/** Who made a change, with a link while the user is there. */
export function author(
  { user }: HistoryChange,
  { resources, settings }: AdminContext,
  known: Known,
): Content {
  if (!user) return 'nobody in particular';
  const users = resources.get(settings.userModel);
  return users && known.label(users, user.key) !== undefined
    ? html`<a href="${links.record(users.name, user.key)}">${user.name}</a>`
    : user.name;
}

/** When, what, who and where, in one line. */
export function summary(change: HistoryChange, context: AdminContext, known: Known): Html {
  const by = change.user ? html` by ${author(change, context, known)}` : '';
  return html`${actionText(change)}${by} ${DOORS[change.door] ?? change.door}, ${moment(change.at)} UTC`;
}

const section = (change: HistoryChange, context: AdminContext, known: Known, content: Html): Html =>
  html`<section class="change">
    <h2>
      ${summary(change, context, known)}
      <a href="${links.record(context.history.name, change.id)}" class="hint">#${change.id}</a>
    </h2>
    ${content}
  </section>`;

/** One change with all its columns. */
export const changeView = (change: HistoryChange, context: AdminContext, known: Known): Html =>
  section(change, context, known, values(change, context, known));

/** One change without its values, where a page has no room for them. */
export function changeLine(change: HistoryChange, context: AdminContext, known: Known): Html {
  const link = links.record(context.history.name, change.id);
  return section(
    change,
    context,
    known,
    html`<p class="hint">The values do not fit on this page. <a href="${link}">Show them</a></p>`,
  );
}
