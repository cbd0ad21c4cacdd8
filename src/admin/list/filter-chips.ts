// The filters in use, as chips above a list.
import { excerpt, type FieldErrors } from '../../errors.ts';
import type { Parameter } from '../../query/parse/grammar.ts';
import type { AdminView } from '../../resources/access/admin-view.ts';
import type { ResourceContext } from '../web/admin-context.ts';
import { columnAt, describeFilter, filterFormValues, referencedKeys } from './filters.ts';
import { html, type Content, type Html } from '../web/html.ts';
import { links, LinkParameters } from '../web/admin-links.ts';
import { historyChoices } from './history-cells.ts';
import { chip, messagesOf, removeLink } from '../web/widgets.ts';

/** Maximum related records that a chip names. */
const MAX_NAMED_RECORDS = 10;

/** The label of a filter's value in the history, such as `API` for `api`; undefined if it has none. */
function historyLabel(context: ResourceContext, filter: Parameter): string | undefined {
  const { resource } = context;
  const form = resource === context.history ? filterFormValues(filter, resource) : undefined;
  const column = form && columnAt(form.path, resource);
  return column && historyChoices(context, column)?.find(({ id }) => id === form.text)?.label;
}

/** The labels of the related records that a filter names by key; undefined for other filters. */
async function relatedNames(
  { browsing, resources, resource }: ResourceContext,
  filter: Parameter,
): Promise<Content> {
  const { column, keys } = referencedKeys(filter, resource) ?? {};
  const related = column?.references && resources.get(column.references.name);
  if (!related || !keys) return undefined;
  const shown = keys.slice(0, MAX_NAMED_RECORDS);
  const names = await browsing.labelsOf(related, new Set(shown));
  const rest = keys.length - shown.length;
  const texts = shown.map((key) => names.get(key) ?? `“${key}”`);
  return `${texts.join(', ')}${rest > 0 ? ` and ${rest} more` : ''}`;
}

/** A link that opens the filter in the form of the panel; plain text if the form cannot express it. */
function editLink(parameter: Parameter, text: Html, resource: AdminView, parameters: LinkParameters): Html {
  const form = filterFormValues(parameter, resource);
  if (!form) return text;
  const position = parameters.filters.indexOf(parameter);
  const editing = parameters.with('_filter', form.path).with('_old', String(position));
  return html`<a href="${links.list(resource.name, editing)}" title="Change this filter">${text}</a>`;
}

/** Whether repeated filters of this name match any of their values. */
const matchesAny = ({ name }: Parameter): boolean => !name.startsWith('-') && !name.endsWith('__ne');

/** More than the filters of a valid query. */
const MAX_CHIPS = 60;
/** The links of a chip: they change its filter and remove it. */
const LINKS = 2;

/** The active filters, each with its error, if any, and a link that removes it. */
export async function filterChips(
  context: ResourceContext,
  parameters: LinkParameters,
  errors: FieldErrors,
): Promise<Html> {
  const { resource } = context;
  const filters = parameters.filters.slice(0, MAX_CHIPS);
  const hasLinks = parameters.mayRepeat(LINKS * filters.length);
  const list = await Promise.all(
    filters.map(async (parameter, index, all) => {
      const { what, how, value } = describeFilter(parameter, resource);
      const name = excerpt(parameter.name);
      const messages = messagesOf(errors, name);
      const label = historyLabel(context, parameter);
      const shown = label ?? (messages ? undefined : await relatedNames(context, parameter)) ?? value;
      const isAlternative =
        matchesAny(parameter) && all.findIndex(({ name }) => name === parameter.name) < index;
      const text = html`${isAlternative && 'or '}${what} ${how} ${shown !== null && html`<b>${shown}</b>`}`;
      if (!hasLinks) return chip(text, messages, false);
      const rest = links.list(resource.name, parameters.withoutOne(parameter).without('page'));
      const content = editLink(parameter, text, resource, parameters);
      return chip(content, messages, removeLink(rest, `Remove the filter: ${what} ${how}`));
    }),
  );
  const others = (['ordering', 'limit', 'page'] as const).flatMap((name) => {
    const messages = messagesOf(errors, name);
    if (!messages) return [];
    const remove = removeLink(links.list(resource.name, parameters.without(name)), `Remove ${name}`);
    return [chip(html`${name} <b>${parameters.get(name)}</b>`, messages, remove)];
  });
  const all = [...list, ...others];
  if (all.length === 0) return html``;
  const clear = new LinkParameters(
    parameters.list.filter(({ name }) => ['ordering', 'limit', '_search'].includes(name)),
  );
  return html`<ul class="chips" aria-label="Active filters">
    ${all}
    ${list.length > 1 && html`<li><a href="${links.list(resource.name, clear)}">Remove all filters</a></li>`}
  </ul>`;
}
