import type { Column } from '../db/model.ts';
import { Problem, type FieldErrors } from '../errors.ts';
import type { Reply } from '../http/message.ts';
import type { Parameter } from '../query/grammar.ts';
import type { Entry } from '../resources/browse.ts';
import { findPath, type AdminResource } from '../resources/admin.ts';
import type { Desk } from './desk.ts';
import { comparisonsOf, describeFilter, optionsOf, pathTitle } from './filters.ts';
import { html, type Html } from './html.ts';
import { pageReply } from './layout.ts';
import { links, Parameters } from './links.ts';
import { referencesOf } from './references.ts';
import { redirect, type Visit } from './visit.ts';

/** How many records the page offers where a foreign key is looked for by words. */
const MOST_OFFERED = 50;

export function columnAt(path: string, resource: AdminResource, { resources }: Desk): Column | undefined {
  return findPath(path.split('__'), resource.model, (model) => resources.get(model.name)?.output ?? [])
    ?.column;
}

/** What a record is called; undefined where there is none of this key. */
async function nameOf(desk: Desk, resource: AdminResource, key: string): Promise<string | undefined> {
  try {
    return (await desk.browsing.read(resource, key)).label;
  } catch (error) {
    if (error instanceof Problem && error.status === 404) return undefined;
    throw error;
  }
}

/** The name of a related record in place of its key. */
async function relatedName(
  desk: Desk,
  resource: AdminResource,
  { name, value }: Parameter,
): Promise<string | undefined> {
  const target = columnAt(name.replace(/^-/, ''), resource, desk)?.references;
  const related = target && desk.resources.get(target.name);
  return related && nameOf(desk, related, value);
}

/** The active filters, each with a link that takes it away; one that cannot be used with what is wrong with it. */
async function chips(
  desk: Desk,
  resource: AdminResource,
  parameters: Parameters,
  errors: FieldErrors,
): Promise<Html> {
  const list = await Promise.all(
    parameters.filters.map(async (parameter) => {
      const { what, how, value } = describeFilter(parameter, resource, desk.resources);
      const messages = Object.hasOwn(errors, parameter.name) ? errors[parameter.name] : undefined;
      const shown = (messages ? undefined : await relatedName(desk, resource, parameter)) ?? value;
      const rest = links.list(resource.name, parameters.withoutOne(parameter).without('page'));
      return html`<li class="${messages ? 'chip faulty' : 'chip'}">
        <span
          >${what} ${how}
          ${shown !== null && html`<b>${shown}</b>`}${messages && html` <span class="error">${messages.join('; ')}</span>`}</span
        >
        <a href="${rest}" class="remove" aria-label="Remove the filter: ${what} ${how}">×</a>
      </li>`;
    }),
  );
  const others = (['ordering', 'limit', 'page'] as const).flatMap((name) =>
    Object.hasOwn(errors, name)
      ? [
          html`<li class="chip faulty">
            <span
              >${name} <b>${parameters.get(name)}</b>
              <span class="error">${errors[name]?.join('; ')}</span></span
            >
            <a
              href="${links.list(resource.name, parameters.without(name))}"
              class="remove"
              aria-label="Remove ${name}"
              >×</a
            >
          </li>`,
        ]
      : [],
  );
  const all = [...list, ...others];
  if (all.length === 0) return html``;
  const clear = new Parameters(
    parameters.list.filter(({ name }) => ['ordering', 'limit', '_search'].includes(name)),
  );
  return html`<ul class="chips" aria-label="Active filters">
    ${all}
    ${list.length > 1 && html`<li><a href="${links.list(resource.name, clear)}">Remove all filters</a></li>`}
  </ul>`;
}

/**
 * @param keyHint what can be typed for a foreign key
 * @param records what a foreign key can refer to, where those are few
 */
export function valueInput(
  column: Column,
  keyHint = 'a key, or words of its name',
  records?: readonly Entry[],
): Html {
  const { control } = column.type.input;
  const options = optionsOf(column);
  if (control === 'checkbox') {
    return html`<select name="_value" id="filter-value">
      <option value="true">Yes</option>
      <option value="false">No</option>
    </select>`;
  }
  if (options) {
    return html`<select name="_value" id="filter-value">
      ${options.map((option) => html`<option value="${option}">${option}</option>`)}
    </select>`;
  }
  if (records) {
    return html`<select name="_value" id="filter-value">
      ${records.map(({ id, label }) => html`<option value="${id}">${label}</option>`)}
    </select>`;
  }
  const type = ['date', 'time'].includes(control) ? control : 'text';
  const hint = control === 'datetime-local' ? '2024-05-31 18:30' : column.references ? keyHint : '';
  return html`<input
    name="_value"
    id="filter-value"
    type="${type}"
    ${hint && html` placeholder="${hint}"`}
  />`;
}

/** The form for one column, chosen by `_filter` in the address: a comparison, and a value. */
async function filterForm(
  path: string,
  column: Column,
  desk: Desk,
  resource: AdminResource,
  state: Parameters,
): Promise<Html> {
  const references = await referencesOf(desk, new Map([[column, { text: '', isNull: true }]]));
  const title = pathTitle(path.split('__'), resource, desk.resources);
  return html`<form class="add-filter" action="${links.action(resource.name, 'filter')}" id="filter">
    <input type="hidden" name="_state" value="${state.toString()}" />
    <input type="hidden" name="_path" value="${path}" />
    <label for="filter-how">${title}</label>
    <select name="_how" id="filter-how" autofocus>
      ${comparisonsOf(column).map(({ key, text }) => html`<option value="${key}">${text}</option>`)}
    </select>
    <label for="filter-value" class="hidden">Value</label>
    ${valueInput(column, undefined, references.get(column)?.options)}
    <button class="primary">Filter</button>
    <a href="${links.list(resource.name, state)}">Cancel</a>
  </form>`;
}

/** What the list is narrowed by, and the way to narrow it further. */
export async function filterPanel(
  desk: Desk,
  resource: AdminResource,
  parameters: Parameters,
  errors: FieldErrors,
): Promise<Html> {
  const state = parameters.without('_filter');
  const path = parameters.get('_filter');
  const column = path === undefined ? undefined : columnAt(path, resource, desk);
  const offered = resource.filters.map(
    (parts) =>
      html`<li>
        <a href="${links.list(resource.name, state.with('_filter', parts.join('__')))}"
          >${pathTitle(parts, resource, desk.resources)}</a
        >
      </li>`,
  );
  return html`<div class="filters">
    ${await chips(desk, resource, state, errors)}
    ${path !== undefined && column && (await filterForm(path, column, desk, resource, state))}
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

/** Records whose names have the words, as links that filter by one of them. */
async function offerRecords(
  desk: Desk,
  visit: Visit,
  resource: AdminResource,
  related: AdminResource,
  words: string,
  to: (id: string) => string,
  again: string,
): Promise<Reply> {
  const { entries, hasNext } = await desk.browsing.list(related, {
    query: `limit=${MOST_OFFERED}`,
    search: words,
  });
  const [only] = entries;
  if (only && entries.length === 1) return redirect(to(only.id));
  const body = html` <p>
      ${entries.length === 0 ? 'Nothing is called' : 'Which one is meant by'}
      “${words}”${entries.length === 0 ? '.' : '?'}
    </p>
    <ul class="choices">
      ${entries.map(({ id, label }) => html`<li><a href="${to(id)}">${label}</a> <span class="key">${id}</span></li>`)}
    </ul>
    ${hasNext && html`<p class="hint">There are more: give more words.</p>`}
    <p><a class="button" href="${again}">Back to the filter</a></p>`;
  return pageReply(visit, {
    title: related.title,
    crumbs: [{ text: resource.title, href: links.list(resource.name) }, { text: 'Filter' }],
    body,
  });
}

/** Turns the form of the panel into an address of the list, in the API's grammar. */
export async function applyFilter(desk: Desk, visit: Visit, resource: AdminResource): Promise<Reply> {
  const form = Parameters.parse(visit.request.query);
  const state = Parameters.parse(form.get('_state') ?? '').without('page', '_filter');
  const path = form.get('_path') ?? '';
  const value = (form.get('_value') ?? '').replace(/^(\d{4}-\d\d-\d\d)T/, '$1 ');
  const column = columnAt(path, resource, desk);
  const comparison = column && comparisonsOf(column).find(({ key }) => key === form.get('_how'));
  if (!column || !comparison) return redirect(links.list(resource.name, state));
  // The empty text is a value of texts alone, and nothing can contain or begin with it but everything.
  const takesEmpty = column.type.operators.has('ilike') && ['eq', 'ne'].includes(comparison.key);
  if (comparison.takesValue && value === '' && !takesEmpty)
    return redirect(links.list(resource.name, state.with('_filter', path)));
  const to = (text: string): string => {
    const { name, value: encoded } = comparison.parameter(path, text);
    return links.list(resource.name, state.and(name, encoded));
  };
  const related = column.references && desk.resources.get(column.references.name);
  if (!related || !comparison.takesValue || comparison.key === 'in') return redirect(to(value));
  // Any text may be a key that is a text, so then only the one of a record is taken for it.
  const isKey = column.type.operators.has('ilike')
    ? (await nameOf(desk, related, value)) !== undefined
    : column.type.parse(value, column).fault === undefined;
  return isKey
    ? redirect(to(value))
    : offerRecords(
        desk,
        visit,
        resource,
        related,
        value,
        to,
        links.list(resource.name, state.with('_filter', path)),
      );
}
