// The active filters of a list in words, each with its error, if any, and a link that removes it.
import { excerpt, type FieldErrors } from '../../errors.ts';
import type { Parameter } from '../../query/parse/grammar.ts';
import { historyChoices } from '../history/history-view.ts';
import type { ResourceContext } from '../web/admin-context.ts';
import { html, type Content, type Html } from '../web/html.ts';
import { phrase, t } from '../web/language.ts';
import { chip, messagesOf, removeLink } from '../web/widgets.ts';
import { describeFilter, parseFilterName, referencedKeys } from './filters.ts';
import type { ListState } from '../web/list-state.ts';

/** Maximum related records that a filter names. */
const MAX_NAMED_RECORDS = 10;
/** More than the filters of a valid query. */
const MAX_CHIPS = 60;

/** The label of a filter's value in the history, such as `API` for `api`; undefined if it has none. */
function historyLabel(context: ResourceContext, { name, value }: Parameter): string | undefined {
  const { resource, history } = context;
  const { column, operator } = parseFilterName(name, resource);
  if (resource !== history || !column || !['eq', 'in'].includes(operator)) return undefined;
  const choices = historyChoices(context, column);
  return choices && value.split(',').map((one) => choices.find(({ id }) => id === one)?.label ?? one).join(', '); // prettier-ignore
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
  const named = shown.map((key) => names.get(key) ?? t('quoted', { text: key })).join(', ');
  return rest > 0 ? t('namedAndMore', { named, more: rest }) : named;
}

/** Whether repeated filters of this name match any of their values. */
const matchesAny = ({ name }: Parameter): boolean => !name.startsWith('-') && !name.endsWith('__ne');

export async function activeFilters(
  context: ResourceContext,
  state: ListState,
  errors: FieldErrors,
): Promise<Html | false> {
  const { resource } = context;
  const { parameters } = state;
  const filters = state.filters.slice(0, MAX_CHIPS);
  const hasLinks = parameters.mayRepeat(filters.length);
  const list = await Promise.all(
    filters.map(async (filter, index) => {
      const { what, how, value } = describeFilter(filter, resource);
      const messages = messagesOf(errors, excerpt(filter.name));
      const label = historyLabel(context, filter);
      const shown = label ?? (messages ? undefined : await relatedNames(context, filter)) ?? value;
      const isAlternative =
        matchesAny(filter) && filters.findIndex(({ name }) => name === filter.name) < index;
      const words = html`${what} ${how} ${shown !== null && html`<b>${shown}</b>`}`;
      const text = isAlternative ? phrase('orFilter', { filter: words }) : words;
      const rest = state.address(parameters.withoutOne(filter).without('page'));
      return chip(
        text,
        messages,
        hasLinks && removeLink(rest, t('removeFilter', { filter: `${what} ${how}` })),
      );
    }),
  );
  const others = (['ordering', 'limit', 'page', '_columns'] as const).flatMap((name) => {
    const messages = messagesOf(errors, name);
    if (!messages) return [];
    const text = name.replace('_', '');
    const remove = removeLink(state.address(parameters.without(name)), t('removeParameter', { name: text }));
    return [chip(html`${text} <b>${parameters.all(name).join()}</b>`, messages, remove)];
  });
  return (
    list.length + others.length > 0 &&
    html`<ul class="chips" aria-label="${t('activeFilters')}">
      ${list} ${others}
      ${list.length > 1 && html`<li><a href="${state.address(state.cleared())}">${t('removeAllFilters')}</a></li>`}
    </ul>`
  );
}
