import type { Column } from '../../db/schema/model.ts';
import { excerpt, type FieldErrors } from '../../errors.ts';
import { findPath } from '../../resources/serve/admin-resource.ts';
import type { ServedResource, ServedResources } from '../../resources/serve/served-resource.ts';
import { apiLinks } from './api-links.ts';
import { valueInput } from '../list/filter-panel.ts';
import { comparisonsOf } from '../list/filters.ts';
import { html, type Html } from '../web/html.ts';
import { Parameters } from '../web/admin-links.ts';

/** The column at the end of a path, as far as whoever looks may follow it. */
const columnAt = (path: string, resource: ServedResource, visible: ServedResources): Column | undefined =>
  findPath(path.split('__'), resource.model, (model) =>
    model === resource.model ? resource.output : (visible.get(model.name)?.output ?? []),
  )?.column;

/** The columns to choose from: the resource's own, and those of the records that its foreign keys lead to. */
function pathsOf({ output }: ServedResource, visible: ServedResources): string[] {
  const own = output.map(({ name }) => name);
  const related = output.flatMap(({ name, references }) => {
    const target = references && visible.get(references.name);
    const columns = target?.output.filter((column) => column !== target.model.primaryKey) ?? [];
    return columns.map((column) => `${name}__${column.name}`);
  });
  return [...own, ...related];
}

/** A few more than the filters and orderings that a query may have. */
const MAX_CHIPS = 60;
/** The most characters of the links of all chips together. */
const MAX_LINKS = 262_144;

/** The parameters of the address, each with a link that takes it away, and what is wrong with those that cannot be used. */
export function parameterChips(name: string, parameters: Parameters, errors: FieldErrors = {}): Html {
  const shown = parameters.query.without('page');
  const { list } = shown;
  // Each link repeats all other parameters.
  const hasLinks = list.length * shown.toString().length <= MAX_LINKS;
  const chips = list.slice(0, MAX_CHIPS).map((parameter) => {
    const key = excerpt(parameter.name);
    const faults = Object.hasOwn(errors, key) ? errors[key] : undefined;
    const rest = (): string =>
      apiLinks.collection(name, parameters.query.withoutOne(parameter).without('page'));
    return html`<li class="${faults ? 'chip faulty' : 'chip'}">
      <span
        ><code>${parameter.name}=${parameter.value}</code>${
          faults && html` <span class="error">${faults.join('; ')}</span>`
        }</span
      >
      ${hasLinks && html`<a href="${rest()}" class="remove" aria-label="Remove the parameter ${parameter.name}">×</a>`}
    </li>`;
  });
  return html`${
    chips.length > 0 &&
    html`<ul class="chips" aria-label="Parameters">
      ${chips} ${list.length > MAX_CHIPS && html`<li>and ${list.length - MAX_CHIPS} more</li>`}
    </ul>`
  }`;
}

/** The form for one column: a comparison and a value. Its answer is the address with that filter in it. */
function filterForm(path: string, column: Column, name: string, state: Parameters): Html {
  return html`<form class="add-filter" action="${apiLinks.collection(name)}">
    <input type="hidden" name="_state" value="${state.toString()}" />
    <input type="hidden" name="_path" value="${path}" />
    <label for="filter-how"><code>${path}</code></label>
    <select name="_how" id="filter-how" autofocus>
      ${comparisonsOf(column).map(({ key, text }) => html`<option value="${key}">${text}</option>`)}
    </select>
    <label for="filter-value" class="hidden">Value</label>
    ${valueInput(column, 'a key')}
    <button class="primary">Filter</button>
    <a href="${apiLinks.collection(name, state)}">Cancel</a>
  </form>`;
}

/** What the collection is narrowed by, and the way to narrow it further. */
export function apiFilterPanel(
  resource: ServedResource,
  visible: ServedResources,
  parameters: Parameters,
): Html {
  const { name } = resource;
  const state = parameters.query;
  const path = parameters.get('_filter');
  const column = path === undefined ? undefined : columnAt(path, resource, visible);
  return html`<div class="tools">
    <div class="filters">
      ${parameterChips(name, parameters)}
      ${path !== undefined && column && filterForm(path, column, name, state)}
      <details class="menu">
        <summary>Add a filter</summary>
        <ul>
          ${pathsOf(resource, visible).map(
            (each) =>
              html`<li>
                <a href="${apiLinks.collection(name, state.with('_filter', each))}"><code>${each}</code></a>
              </li>`,
          )}
        </ul>
      </details>
    </div>
  </div>`;
}

/** The address that a form of the panel makes, or undefined where the parameters are not those of one. */
export function filteredAddress(
  form: Parameters,
  resource: ServedResource,
  visible: ServedResources,
): string | undefined {
  const path = form.get('_path');
  if (path === undefined) return undefined;
  const state = Parameters.parse(form.get('_state') ?? '').query.without('page');
  const column = columnAt(path, resource, visible);
  const comparison = column && comparisonsOf(column).find(({ key }) => key === form.get('_how'));
  if (!comparison) return apiLinks.collection(resource.name, state);
  const { name, value } = comparison.parameter(path, form.get('_value') ?? '');
  return apiLinks.collection(resource.name, state.and(name, value));
}
