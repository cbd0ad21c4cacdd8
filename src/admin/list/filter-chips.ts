import { excerpt, type FieldErrors } from '../../errors.ts';
import type { Parameter } from '../../query/parse/grammar.ts';
import type { AdminResource } from '../../resources/serve/admin-resource.ts';
import type { AdminContext } from '../web/admin-context.ts';
import { columnAt, describeFilter, formOf, keysOf } from './filters.ts';
import { html, type Content, type Html } from '../web/html.ts';
import { links, Parameters } from '../web/admin-links.ts';
import { logChoices } from './activity-log.ts';

/** How many related records a filter names. */
const MOST_NAMED = 10;

/** What people read in the log for what a filter asks for, where those are two things. */
function wordsOfLog(context: AdminContext, resource: AdminResource, filter: Parameter): string | undefined {
  const form = resource === context.history ? formOf(filter, resource, context.resources) : undefined;
  const column = form && columnAt(form.path, resource, context.resources);
  return column && logChoices(context, column)?.find(({ id }) => id === form.text)?.label;
}

/** What is related in place of its key, or of several keys; undefined where the filter has none. */
async function relatedNames(
  context: AdminContext,
  resource: AdminResource,
  filter: Parameter,
): Promise<Content> {
  const { column, keys } = keysOf(filter, resource, context.resources) ?? {};
  const related = column?.references && context.resources.get(column.references.name);
  if (!related || !keys) return undefined;
  const shown = keys.slice(0, MOST_NAMED);
  const names = await context.browsing.labelsOf(related, new Set(shown));
  const rest = keys.length - shown.length;
  const texts = shown.map((key) => names.get(key) ?? `“${key}”`);
  return `${texts.join(', ')}${rest > 0 ? ` and ${rest} more` : ''}`;
}

/** A link to the panel's form with what a filter is now, where the form can express it; else the text alone. */
function changeLink(
  parameter: Parameter,
  text: Html,
  context: AdminContext,
  resource: AdminResource,
  parameters: Parameters,
): Html {
  const form = formOf(parameter, resource, context.resources);
  if (!form) return text;
  const editing = parameters.with('_filter', form.path).with('_old', new Parameters([parameter]).toString());
  return html`<a href="${links.list(resource.name, editing)}" title="Change this filter">${text}</a>`;
}

/** Whether of several filters of this name it is enough that one holds. */
const isAny = ({ name }: Parameter): boolean => !name.startsWith('-') && !name.endsWith('__ne');

/** More than the filters that a query may have. */
const MAX_CHIPS = 60;

/** The active filters, each with a link that takes it away; one that cannot be used with what is wrong with it. */
export async function chips(
  context: AdminContext,
  resource: AdminResource,
  parameters: Parameters,
  errors: FieldErrors,
): Promise<Html> {
  const list = await Promise.all(
    // Each chip repeats all other parameters in its link, so their number is bounded.
    parameters.filters.slice(0, MAX_CHIPS).map(async (parameter, index, all) => {
      const { what, how, value } = describeFilter(parameter, resource, context.resources);
      const name = excerpt(parameter.name);
      const messages = Object.hasOwn(errors, name) ? errors[name] : undefined;
      const words = wordsOfLog(context, resource, parameter);
      const shown =
        words ?? (messages ? undefined : await relatedNames(context, resource, parameter)) ?? value;
      const rest = links.list(resource.name, parameters.withoutOne(parameter).without('page'));
      const isOther = isAny(parameter) && all.findIndex(({ name }) => name === parameter.name) < index;
      const text = html`${isOther && 'or '}${what} ${how} ${shown !== null && html`<b>${shown}</b>`}`;
      return html`<li class="${messages ? 'chip faulty' : 'chip'}">
        <span
          >${changeLink(parameter, text, context, resource, parameters)}${messages && html` <span class="error">${messages.join('; ')}</span>`}</span
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
