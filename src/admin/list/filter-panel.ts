import type { Column } from '../../db/schema/model.ts';
import type { FieldErrors } from '../../errors.ts';
import type { Reply } from '../../http/message/message.ts';
import type { Parameter } from '../../query/parse/grammar.ts';
import type { RecordEntry } from '../../resources/records/record-entry.ts';
import type { AdminResource } from '../../resources/serve/admin-resource.ts';
import type { AdminContext } from '../web/admin-context.ts';
import { chips } from './filter-chips.ts';
import { daysOf } from './date-links.ts';
import { columnAt, dayFilters, formOf, offeredComparisons, pathTitle } from './filters.ts';
import { textsOf } from '../fields/form-values.ts';
import { attributes, html, type Html } from '../web/html.ts';
import { pageReply } from '../web/layout.ts';
import { links, Parameters } from '../web/admin-links.ts';
import { logChoices } from './activity-log.ts';
import { isRecordKey, recordMeant, referencesOf } from '../fields/references.ts';
import { redirect, redirectWith, type AdminRequest } from '../web/admin-request.ts';

const DAY = /^\d{4}-\d\d-\d\d$/;

/** How many records the page offers where a foreign key is looked for by words. */
const MOST_OFFERED = 50;

/**
 * @param keyHint what can be typed for a foreign key
 * @param records what a foreign key can refer to, where those are few, or other values that people read in words
 * @param text what stands there
 */
export function valueInput(
  column: Column,
  keyHint = 'words of its name',
  records?: readonly Pick<RecordEntry, 'id' | 'label'>[],
  text = '',
): Html {
  const { control } = column.type.input;
  const options = textsOf(column);
  if (control === 'checkbox') {
    return html`<select name="_value" id="filter-value">
      <option value="true">Yes</option>
      <option value="false" ${attributes({ selected: text === 'false' })}>No</option>
    </select>`;
  }
  if (options && !records) {
    return html`<select name="_value" id="filter-value">
      ${options.map((option) => html`<option value="${option}" ${attributes({ selected: option === text })}>${option}</option>`)}
    </select>`;
  }
  if (records) {
    return html`<select name="_value" id="filter-value">
      ${records.map(({ id, label }) => html`<option value="${id}" ${attributes({ selected: id === text })}>${label}</option>`)}
    </select>`;
  }
  const type = ['date', 'time'].includes(control) ? control : 'text';
  const hint = control === 'datetime-local' ? '2024-05-31 18:30' : column.references ? keyHint : '';
  return html`<input
    name="_value"
    id="filter-value"
    type="${type}"
    value="${text}"
    ${hint && html` placeholder="${hint}"`}
  />`;
}

/** The form for one column, chosen by `_filter` in the address: a comparison, and a value. */
async function filterForm(
  path: string,
  column: Column,
  context: AdminContext,
  resource: AdminResource,
  state: Parameters,
  old: Parameter | undefined,
): Promise<Html> {
  const present = old && formOf(old, resource, context.resources);
  const typed = { text: present?.text ?? '', isNull: present === undefined };
  const { options, label } = (await referencesOf(context, new Map([[column, typed]]))).get(column) ?? {};
  const few = resource === context.history ? logChoices(context, column) : options;
  // A key that is none of theirs stays what it is, so that looking at a filter does not change it.
  const isOther = typed.text !== '' && !few?.some(({ id }) => id === typed.text);
  const records = few && isOther ? [...few, { id: typed.text, label: `“${typed.text}”` }] : few;
  const title = pathTitle(path.split('__'), resource, context.resources);
  const comparisons = offeredComparisons(column).filter(
    ({ key }) => resource !== context.history || !records || ['eq', 'ne'].includes(key),
  );
  const alone = comparisons.filter(({ takesValue }) => !takesValue);
  return html`<form class="add-filter" action="${links.action(resource.name, 'filter')}" id="filter">
    <input type="hidden" name="_state" value="${state.toString()}" />
    ${old && html`<input type="hidden" name="_old" value="${new Parameters([old]).toString()}" />`}
    <input type="hidden" name="_path" value="${path}" />
    <label for="filter-how">${title}</label>
    <select name="_how" id="filter-how" autofocus>
      ${comparisons.map(({ key, text, takesValue }) => html`<option value="${key}" ${attributes({ selected: key === present?.comparison.key, 'data-alone': !takesValue })}>${text}</option>`)}
    </select>
    <label for="filter-value" class="hidden">Value</label>
    ${valueInput(column, undefined, records, present?.text)}
    ${!records && label !== undefined && html`<span class="hint">${typed.text}: ${label}</span>`}
    ${alone.length > 0 && html`<span class="hint" data-without-script>not needed for “${alone.map(({ text }) => text).join('” and “')}”</span>`}
    <button class="primary">Filter</button>
    <a href="${links.list(resource.name, state)}">Cancel</a>
  </form>`;
}

/** The filter that is being changed, of those that a list has. */
function oldOf(state: Parameters, form: Parameters): Parameter | undefined {
  const [was] = Parameters.read(form.get('_old') ?? '').list;
  return was && state.filters.find(({ name, value }) => name === was.name && value === was.value);
}

/** What the list is narrowed by, and the way to narrow it further. */
export async function filterPanel(
  context: AdminContext,
  resource: AdminResource,
  parameters: Parameters,
  errors: FieldErrors,
): Promise<Html> {
  const state = parameters.without('_filter', '_old');
  const old = oldOf(state, parameters);
  const path = parameters.get('_filter');
  const column = path === undefined ? undefined : columnAt(path, resource, context.resources);
  const offered = resource.filters.map(
    (parts) =>
      html`<li>
        <a href="${links.list(resource.name, state.with('_filter', parts.join('__')))}"
          >${pathTitle(parts, resource, context.resources)}</a
        >
      </li>`,
  );
  return html`<div class="filters">
    ${await chips(context, resource, state, errors)}
    ${path !== undefined && column && (await filterForm(path, column, context, resource, state, old))}
    ${
      offered.length > 0 &&
      html`<details class="menu">
        <summary>Add a filter</summary>
        <ul>
          ${offered}
        </ul>
      </details>`
    }
  </div>`;
}

/** `Support rep` within a sentence, and `DJ` as it is. */
const withinSentence = (title: string): string =>
  /^\p{Lu}\p{Ll}/u.test(title) ? title.charAt(0).toLowerCase() + title.slice(1) : title;

/** What was asked of a column whose values are related records, by words instead of one of them. */
interface Asked {
  readonly path: string;
  readonly column: Column;
  readonly related: AdminResource;
  readonly words: string;
  /** The form as it was sent. */
  readonly form: Parameters;
  /** The list that is filtered by one of them. */
  readonly to: (id: string) => string;
  /** The panel with its form. */
  readonly again: string;
}

/** Records that the words can mean, as links that filter by one of them, with a search for others. */
async function offerRecords(
  context: AdminContext,
  adminRequest: AdminRequest,
  resource: AdminResource,
  { path, column, related, words, form, to, again }: Asked,
): Promise<Reply> {
  const meant = await recordMeant(context, related, words);
  if (meant) return redirect(to(meant.id));
  const { entries, hasNext } = await context.browsing.lookUp(related, words, MOST_OFFERED);
  const hidden = ['_state', '_path', '_how', '_old']
    .filter((name) => form.get(name))
    .map((name) => html`<input type="hidden" name="${name}" value="${form.get(name)}" />`);
  const body = html` <form class="search" role="search" action="${links.action(resource.name, 'filter')}">
      ${hidden}
      <label for="find">Search ${related.title}</label>
      <input type="search" id="find" name="_value" value="${words}" required autofocus />
      <button class="secondary">Search</button>
    </form>
    <p>${entries.length === 0 ? `Nothing is called “${words}”.` : `Several fit “${words}”:`}</p>
    ${
      entries.length > 0 &&
      html`<ul class="choices">
        ${entries.map(({ id, label }) => html`<li><a href="${to(id)}">${label}</a> <span class="key">${id}</span></li>`)}
      </ul>`
    }
    ${hasNext && html`<p class="hint">There are more: give more words.</p>`}
    <p><a class="button" href="${again}">Back to the filter</a></p>`;
  return pageReply(adminRequest, {
    title: `Which ${withinSentence(column.title)} is meant?`,
    crumbs: [
      { text: resource.title, href: links.list(resource.name) },
      { text: `Filter by ${pathTitle(path.split('__'), resource, context.resources)}` },
    ],
    body,
  });
}

/** Turns the form of the panel into an address of the list, in the API's grammar. */
export async function applyFilter(
  context: AdminContext,
  adminRequest: AdminRequest,
  resource: AdminResource,
): Promise<Reply> {
  const form = Parameters.parse(adminRequest.request.query);
  const whole = Parameters.parse(form.get('_state') ?? '').without('page', '_filter', '_old');
  const old = oldOf(whole, form);
  const state = old ? whole.withoutOne(old) : whole;
  const path = form.get('_path') ?? '';
  const value = (form.get('_value') ?? '').replace(/^(\d{4}-\d\d-\d\d)T/, '$1 ');
  const column = columnAt(path, resource, context.resources);
  const comparison = column && offeredComparisons(column).find(({ key }) => key === form.get('_how'));
  if (!column || !comparison) return redirect(links.list(resource.name, whole));
  const opened = whole.with('_filter', path);
  const again = links.list(resource.name, old ? opened.with('_old', form.get('_old') ?? '') : opened);
  // The empty text is a value of texts alone, and nothing can contain or begin with it but everything.
  const takesEmpty = column.type.operators.has('ilike') && ['eq', 'ne'].includes(comparison.key);
  if (comparison.takesValue && value === '' && !takesEmpty)
    return redirectWith(adminRequest, again, { kind: 'failed', text: 'The filter needs a value.' });
  const to = (text: string): string => {
    const { name, value: encoded } = comparison.parameter(path, text);
    return links.list(resource.name, state.and(name, encoded));
  };
  const days = column.type.input.control === 'datetime-local' && DAY.test(value) ? daysOf(value) : undefined;
  const within = days && dayFilters(path, comparison.key, ...days);
  if (within)
    return redirect(
      links.list(
        resource.name,
        within.reduce((all, one) => all.and(one.name, one.value), state),
      ),
    );
  const related = column.references && context.resources.get(column.references.name);
  if (!related || !comparison.takesValue) return redirect(to(value));
  if (await isRecordKey(context, related, value)) return redirect(to(value));
  return offerRecords(context, adminRequest, resource, {
    path,
    column,
    related,
    words: value,
    form,
    to,
    again,
  });
}
