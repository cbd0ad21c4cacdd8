// The active filters of a list in words, each with its error, if any, and a link that removes it.
import { excerpt, type FieldErrors } from '../../errors.ts';
import { loadOptional } from '../fields/optional-part.ts';
import { relatedOf } from '../fields/references.ts';
import type { ResourceContext } from '../web/admin-context.ts';
import { html, type Html } from '../web/html.ts';
import { phrase, t } from '../web/language.ts';
import type { ListState } from '../web/list-state.ts';
import { labelsFor } from '../web/record-labels.ts';
import { shownFilter } from '../web/read-text.ts';
import { chip, messagesOf, removeLink } from '../web/widgets.ts';
import {
  choicesOf,
  comparisonText,
  filtersIn,
  isNull,
  itemsOf,
  patternText,
  type ListFilter,
} from './filters.ts';

/** Maximum values that a filter names. */
const MAX_NAMED = 10;
/** More than the filters of a valid query. */
const MAX_CHIPS = 60;

/** A function that gives the value of a filter in words; undefined for a comparison without one. */
async function valuesInWords(
  context: ResourceContext,
  filters: readonly ListFilter[],
): Promise<(filter: ListFilter) => string | undefined> {
  const records = filters.flatMap((filter) => {
    const related = filter.column && relatedOf(filter.column, context);
    return related ? (itemsOf(filter) ?? []).slice(0, MAX_NAMED).map((key) => [related, key] as const) : [];
  });
  const reading = labelsFor(records, context.browsing.labelsOf);
  const labels = await loadOptional(context, 'the names in the filters', reading);
  return (filter) => {
    const { parameter, column, operator } = filter;
    const quoted = (text: string): string => t('quoted', { text });
    if (isNull(filter)) return undefined;
    if (operator === 'ilike') return quoted(patternText(parameter.value)[0]);
    const related = column && relatedOf(column, context);
    const choices = column && choicesOf(context, column);
    const items = related || choices ? itemsOf(filter) : column?.choiceLabels && parameter.value.split(',');
    if (!items)
      return quoted(
        column
          ? shownFilter(column, parameter.value, ['in', 'contains'].includes(operator))
          : parameter.value,
      );
    const nameOf = (item: string): string | undefined =>
      labels?.(related, item) ??
      (choices?.find(({ id }) => id === item)?.label || column?.choiceLabels?.get(item));
    const named = items.slice(0, MAX_NAMED).map((item) => nameOf(item) ?? quoted(item)).join(', '); // prettier-ignore
    return items.length > MAX_NAMED ? t('namedAndMore', { named, more: items.length - MAX_NAMED }) : named;
  };
}

/** Whether repeated filters of this name match any of their values. */
const matchesAny = ({ operator, isNegated }: ListFilter): boolean => !isNegated && operator !== 'ne';

export async function activeFilters(
  context: ResourceContext,
  state: ListState,
  errors: FieldErrors,
): Promise<Html | false> {
  const { parameters } = state;
  const filters = filtersIn(state).slice(0, MAX_CHIPS);
  const hasLinks = parameters.mayRepeat(filters.length);
  const valueOf = await valuesInWords(context, filters);
  const list = filters.map((filter, index) => {
    const { parameter } = filter;
    const value = valueOf(filter);
    const comparison = comparisonText(filter);
    const words = html`${comparison} ${value !== undefined && html`<b>${value}</b>`}`;
    const isAlternative =
      matchesAny(filter) && filters.findIndex((one) => one.parameter.name === parameter.name) < index;
    const rest = state.address(parameters.withoutOne(parameter).without('page'));
    return chip(
      isAlternative ? phrase('orFilter', { filter: words }) : words,
      messagesOf(errors, excerpt(parameter.name)),
      hasLinks && removeLink(rest, t('removeFilter', { filter: comparison })),
    );
  });
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
