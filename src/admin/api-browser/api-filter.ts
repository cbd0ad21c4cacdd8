// The filter panel of a collection: the filters in use, and a form that adds one without JavaScript.
import { namedColumns, type Column } from '../../db/schema/model.ts';
import { excerpt, type FieldErrors } from '../../errors.ts';
import { findPath } from '../../resources/serve/admin-resource.ts';
import type { ServedResource, ServedResources } from '../../resources/serve/served-resource.ts';
import { apiLinks } from './api-links.ts';
import { filterMenu, hiddenParameters } from '../list/filter-menu.ts';
import { valueInput } from '../list/filter-panel.ts';
import { comparisonsOf } from '../list/filters.ts';
import { html, type Html } from '../web/html.ts';
import type { LinkParameters } from '../web/admin-links.ts';
import { chip, messagesOf, removeLink } from '../web/widgets.ts';

/** The column at the end of a path; undefined if the caller may not see it. */
const columnAt = (path: string, resource: ServedResource, visible: ServedResources): Column | undefined =>
  findPath(path.split('__'), resource.model, (model) =>
    model === resource.model ? resource.output : (visible.get(model.name)?.output ?? []),
  )?.column;

/** Paths to filter by: the resource's columns, and columns one foreign key away. */
function pathsOf({ model, output }: ServedResource, visible: ServedResources): string[] {
  const named = namedColumns(model, output);
  const own = named.map(({ name }) => name);
  const related = named.flatMap(({ name, references }) => {
    const target = references && visible.get(references.name);
    const columns = target?.output.filter((column) => column !== target.model.primaryKey) ?? [];
    return columns.map((column) => `${name}__${column.name}`);
  });
  return [...own, ...related];
}

/** The parameters that name a page of a list: its number or its cursor. */
export const pageParameters = (hasCursors: boolean): readonly string[] =>
  hasCursors ? ['page', 'cursor'] : ['page'];

/** More than the parameters that a valid query can have. */
export const MAX_CHIPS = 60;

/**
 * The parameters of the URL, each with its error, if any, and a link that removes it.
 * @param options.others how many more parameters the URL has; then there are no links, because they would lose these
 */
export function parameterChips(
  { name, hasCursors }: Pick<ServedResource, 'name' | 'hasCursors'>,
  parameters: LinkParameters,
  { errors = {}, others = 0 }: { readonly errors?: FieldErrors; readonly others?: number } = {},
): Html {
  const withoutPage = (query: LinkParameters): LinkParameters => query.without(...pageParameters(hasCursors));
  const shown = withoutPage(parameters.query);
  const { list } = shown;
  // Each link repeats all other parameters, so the links grow quadratically.
  const more = others + Math.max(0, list.length - MAX_CHIPS);
  const hasLinks = others === 0 && shown.mayRepeat(list.length);
  const chips = list.slice(0, MAX_CHIPS).map((parameter) => {
    const { name: key, value } = parameter;
    const rest = (): string => apiLinks.collection(name, withoutPage(parameters.query.withoutOne(parameter)));
    const remove = hasLinks && removeLink(rest(), `Remove the parameter ${key}`);
    return chip(html`<code>${key}=${value}</code>`, messagesOf(errors, excerpt(key)), remove);
  });
  return html`${
    chips.length > 0 &&
    html`<ul class="chips" aria-label="Parameters">
      ${chips} ${more > 0 && html`<li>and ${more} more</li>`}
    </ul>`
  }`;
}

/** The form for one column: a comparison and a value. Submitting it redirects to the filtered collection. */
function filterForm(
  path: string,
  column: Column,
  { name, hasCursors }: ServedResource,
  state: LinkParameters,
): Html {
  return html`<form class="add-filter" action="${apiLinks.collection(name)}">
    ${hiddenParameters(state.without(...pageParameters(hasCursors)))}
    <input type="hidden" name="_path" value="${path}" />
    <label for="filter-how"><code>${path}</code></label>
    <select name="_how" id="filter-how" autofocus>
      ${comparisonsOf(column).map(({ key, text }) => html`<option value="${key}">${text}</option>`)}
    </select>
    <label for="filter-value" class="hidden">Value</label>
    ${valueInput(column, 'id')}
    <button class="primary">Filter</button>
    <a href="${apiLinks.collection(name, state)}">Cancel</a>
  </form>`;
}

/** The filters in use, and a menu to add one. */
export function apiFilterPanel(
  resource: ServedResource,
  visible: ServedResources,
  parameters: LinkParameters,
): Html {
  const { name } = resource;
  const state = parameters.query;
  const path = parameters.get('_filter');
  const column = path === undefined ? undefined : columnAt(path, resource, visible);
  const offered = pathsOf(resource, visible).map((title) => ({
    path: title,
    title,
    content: html`<code>${title}</code>`,
  }));
  return html`<div class="tools">
    <div class="filters">
      ${parameterChips(resource, parameters)}
      ${path !== undefined && column && filterForm(path, column, resource, state)}
      ${filterMenu(offered, state, (query) => apiLinks.collection(name, query))}
    </div>
  </div>`;
}

/** The URL of the collection with the filter of a submitted form; undefined if no form was submitted. */
export function filteredAddress(
  form: LinkParameters,
  resource: ServedResource,
  visible: ServedResources,
): string | undefined {
  const path = form.get('_path');
  if (path === undefined) return undefined;
  const state = form.query.without(...pageParameters(resource.hasCursors));
  const column = columnAt(path, resource, visible);
  const comparison = column && comparisonsOf(column).find(({ key }) => key === form.get('_how'));
  if (!comparison) return apiLinks.collection(resource.name, state);
  const { name, value } = comparison.parameter(path, form.get('_value') ?? '');
  return apiLinks.collection(resource.name, state.and(name, value));
}
