// The filter panel of a list: the active filters, the form for one filter, and what submitting it does.
import type { Column } from '../../db/schema/model.ts';
import { excerpt, type FieldErrors } from '../../errors.ts';
import type { Reply } from '../../http/message/message.ts';
import type { Parameter } from '../../query/parse/grammar.ts';
import type { LabeledRecord } from '../../resources/records/labeled-record.ts';
import type { AdminView } from '../../resources/access/admin-view.ts';
import type { ResourceContext } from '../web/admin-context.ts';
import { daysOf } from './date-links.ts';
import {
  columnAt,
  dayFilters,
  describeFilter,
  filterFormValues,
  offeredComparisons,
  pathTitle,
  referencedKeys,
} from './filters.ts';
import { textsOf } from '../fields/form-field.ts';
import { attributes, html, type Content, type Html } from '../web/html.ts';
import { choiceLabel } from '../web/display-text.ts';
import { isDateTime, localText, startOfDay, utcOf, zoneFault } from '../web/time-zone.ts';
import { listCrumb, pageReply } from '../web/layout.ts';
import { LinkParameters, links } from '../web/admin-links.ts';
import { historyChoices } from '../history/history-view.ts';
import { isRecordKey, recordMeant, referencesOf } from '../fields/references.ts';
import { redirect, redirectFailed } from '../web/admin-request.ts';
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

const DAY = /^\d{4}-\d\d-\d\d$/;

/** Maximum records to choose from when words match several. */
const MAX_OFFERED = 50;

/** The parameters of a query as hidden fields of a form. */
export const hiddenParameters = ({ list }: LinkParameters): readonly Html[] =>
  list.map(({ name, value }) => html`<input type="hidden" name="${name}" value="${value}" />`);

/**
 * The input for the value of a filter.
 * @param keyHint placeholder for a foreign key
 * @param options the values to choose from, if they are few; undefined for the column's own choices, or an input if it has none
 * @param text the present value
 */
function valueInput(
  column: Column,
  keyHint: string,
  options?: readonly Pick<LabeledRecord, 'id' | 'label'>[],
  text = '',
): Html {
  const { control } = column.type.input;
  const choices =
    control === 'checkbox'
      ? [{ id: 'true', label: choiceLabel(column, 'true', 'Yes') }, { id: 'false', label: choiceLabel(column, 'false', 'No') }] // prettier-ignore
      : (options ?? textsOf(column)?.map((choice) => ({ id: choice, label: choiceLabel(column, choice) })));
  if (choices)
    return html`<select name="_value" id="filter-value">
      ${choices.map(({ id, label }) => html`<option value="${id}" ${attributes({ selected: id === text })}>${label}</option>`)}
    </select>`;
  const type = ['date', 'time'].includes(control) ? control : 'text';
  const hint = control === 'datetime-local' ? '2024-05-31 18:30' : column.references ? keyHint : '';
  return html`<input
    name="_value"
    id="filter-value"
    type="${type}"
    value="${text}"
    ${attributes({ placeholder: hint || undefined, step: type === 'time' && 1 })}
  />`;
}

/** The filter that the form changes: `_old` is its position. */
const changedFilter = (parameters: LinkParameters): Parameter | undefined =>
  parameters.filters[Number(parameters.get('_old') ?? NaN)];

/**
 * The form for one column: a comparison and a value.
 * @param parameters of the list, with `_old` if the form changes a filter
 */
async function filterForm(
  path: string,
  column: Column,
  context: ResourceContext,
  parameters: LinkParameters,
): Promise<Html> {
  const { resource } = context;
  const old = changedFilter(parameters);
  const found = old && filterFormValues(old, resource);
  const present = found && isDateTime(column) ? { ...found, text: localText(found.text) } : found;
  const typed = { text: present?.text ?? '', isNull: present === undefined };
  const references = (await referencesOf(context, new Map([[column, typed]]))).get(column);
  const { options: records, label } = references ?? {};
  const known = resource === context.history ? historyChoices(context, column) : records;
  // An unknown value stays selected, so opening and submitting the form does not change the filter.
  const isUnknown = typed.text !== '' && !known?.some(({ id }) => id === typed.text);
  const options = known && isUnknown ? [...known, { id: typed.text, label: `“${typed.text}”` }] : known;
  const title = pathTitle(path.split('__'), resource);
  const comparisons = offeredComparisons(column).filter(
    ({ key }) => resource !== context.history || !options || ['eq', 'ne'].includes(key),
  );
  const withoutValue = comparisons.filter(({ takesValue }) => !takesValue);
  return html`<form class="add-filter" action="${links.action(resource.name, 'filter')}" id="filter">
    ${hiddenParameters(parameters.without('_filter', 'page'))}
    <input type="hidden" name="_path" value="${path}" />
    <label for="filter-how">${title}</label>
    <select name="_how" id="filter-how" autofocus>
      ${comparisons.map(({ key, text, takesValue }) => html`<option value="${key}" ${attributes({ selected: key === present?.comparison.key, 'data-alone': !takesValue })}>${text}</option>`)}
    </select>
    <label for="filter-value" class="hidden">Value</label>
    ${valueInput(column, references ? 'name or id' : 'id', options, present?.text)}
    ${!options && label !== undefined && html`<span class="hint">${typed.text}: ${label}</span>`}
    ${withoutValue.length > 0 && html`<span class="hint" data-without-script>not needed for “${withoutValue.map(({ text }) => text).join('” and “')}”</span>`}
    <button class="primary">Filter</button>
    <a href="${links.list(resource.name, parameters.state)}">Cancel</a>
  </form>`;
}

/**
 * The menu to add a filter: a link for each column, which opens the form of the filter. Each link repeats the query. If the query
 * is long, a form with one control replaces the links.
 */
function filterMenu(resource: AdminView, state: LinkParameters): Html | false {
  const { name, filters } = resource;
  if (filters.length === 0) return false;
  const offered = filters.map((parts) => ({ path: parts.join('__'), title: pathTitle(parts, resource) }));
  const choice = state.mayRepeat(offered.length)
    ? html`<ul>
        ${offered.map(
          ({ path, title }) =>
            html`<li><a href="${links.list(name, state.with('_filter', path))}">${title}</a></li>`,
        )}
      </ul>`
    : html`<form class="add-filter" action="${links.list(name)}">
        ${hiddenParameters(state)}
        <label for="filter-path">Column</label>
        <select name="_filter" id="filter-path">
          ${offered.map(({ path, title }) => html`<option value="${path}">${title}</option>`)}
        </select>
        <button class="secondary">Continue</button>
      </form>`;
  return html`<details class="menu">
    <summary>Add a filter</summary>
    ${choice}
  </details>`;
}

/** The active filters, the form if `_filter` names a column, and the menu to add a filter. */
export async function filterPanel(
  context: ResourceContext,
  parameters: LinkParameters,
  errors: FieldErrors,
): Promise<Html> {
  const { resource } = context;
  const { state } = parameters;
  const path = parameters.get('_filter');
  const column = path === undefined ? undefined : columnAt(path, resource);
  return html`<div class="filters">
    ${await filterChips(context, state, errors)}
    ${path !== undefined && column && (await filterForm(path, column, context, parameters))}
    ${filterMenu(resource, state)}
  </div>`;
}

/** `Support rep` becomes `support rep`; `DJ` stays. */
const lowerFirst = (title: string): string =>
  /^\p{Lu}\p{Ll}/u.test(title) ? title.charAt(0).toLowerCase() + title.slice(1) : title;

/** A submitted filter by a related record, with words instead of its key. */
interface RecordSearch {
  readonly path: string;
  readonly column: Column;
  readonly related: AdminView;
  readonly words: string;
  /** The submitted form. */
  readonly form: LinkParameters;
  /** The URL of the list filtered by a record. */
  readonly filteredBy: (id: string) => string;
  /** The URL of the list with the form open. */
  readonly formUrl: string;
}

/** Redirects if the words name one record. Otherwise lists the records that match, as links that filter by one. */
async function offerRecords(
  context: ResourceContext,
  { path, column, related, words, form, filteredBy, formUrl }: RecordSearch,
): Promise<Reply> {
  const { resource } = context;
  const found = await recordMeant(context, related, words);
  if (found) return redirect(filteredBy(found.id));
  const { records, hasNext } = await context.browsing.lookUp(related, words, MAX_OFFERED);
  const hidden = hiddenParameters(form.without('_value'));
  const isShort = form.mayRepeat(records.length);
  const body = html` <form class="search" role="search" action="${links.action(resource.name, 'filter')}">
      ${hidden}
      <label for="find">Search ${related.title}</label>
      <input type="search" id="find" name="_value" value="${words}" required autofocus />
      <button class="secondary">Search</button>
    </form>
    <p>${records.length === 0 ? `No records match “${words}”.` : `Several records match “${words}”:`}</p>
    ${
      records.length > 0 &&
      isShort &&
      html`<ul class="choices">
        ${records.map(({ id, label }) => html`<li><a href="${filteredBy(id)}">${label}</a> <span class="key">${id}</span></li>`)}
      </ul>`
    }
    ${
      records.length > 0 &&
      !isShort &&
      html`<form class="search" action="${links.action(resource.name, 'filter')}">
        ${hidden}
        <label for="found">${related.title}</label>
        <select name="_value" id="found">
          ${records.map(({ id, label }) => html`<option value="${id}">${label} (${id})</option>`)}
        </select>
        <button class="secondary">Filter</button>
      </form>`
    }
    ${hasNext && html`<p class="hint">More records match. Enter more words.</p>`}
    <p><a class="button" href="${formUrl}">Back to the filter</a></p>`;
  return pageReply(context, {
    title: `Which ${lowerFirst(column.title)} do you mean?`,
    crumbs: [listCrumb(resource), `Filter by ${pathTitle(path.split('__'), resource)}`],
    body,
  });
}

/**
 * Redirects a submitted form to the URL of the filtered list, in the API's grammar. Words that do not name one related record
 * lead to a page to choose it.
 */
export async function applyFilter(context: ResourceContext): Promise<Reply> {
  const { resource } = context;
  const form = LinkParameters.parse(context.request.query);
  const list = form.state.without('page');
  const old = changedFilter(form);
  const state = old ? list.withoutOne(old) : list;
  const path = form.get('_path') ?? '';
  const column = columnAt(path, resource);
  const hasTime = column !== undefined && isDateTime(column);
  const typed = form.get('_value') ?? '';
  // People may type or paste ISO 8601.
  const value = hasTime ? typed.replace(/^(\d{4}-\d\d-\d\d)T/, '$1 ') : typed;
  const comparison = column && offeredComparisons(column).find(({ key }) => key === form.get('_how'));
  if (!column || !comparison) return redirect(links.list(resource.name, list));
  const opened = list.with('_filter', path);
  const formUrl = links.list(resource.name, old ? opened.with('_old', form.get('_old') ?? '') : opened);
  // Only a text can be empty, and only `is` and `is not` accept that: every text contains the empty one.
  const takesEmpty = column.type.operators.has('ilike') && ['eq', 'ne'].includes(comparison.key);
  if (comparison.takesValue && value === '' && !takesEmpty)
    return redirectFailed(context, formUrl, 'Enter a value for the filter.');
  const filteredBy = (text: string): string => {
    const { name, value: encoded } = comparison.parameter(path, text);
    return links.list(resource.name, state.and(name, encoded));
  };
  const days = hasTime && DAY.test(value) ? daysOf(value)?.map(startOfDay) : undefined;
  const ofDay = days && dayFilters(path, comparison.key, days[0] ?? '', days[1] ?? '');
  if (ofDay) {
    // Values of one parameter are alternatives, so the bounds of two days would be mixed.
    const others = state.without(...ofDay.map(({ name }) => name));
    return redirect(
      links.list(
        resource.name,
        ofDay.reduce((all, one) => all.and(one.name, one.value), others),
      ),
    );
  }
  const moment = hasTime ? (days?.[0] ?? utcOf(value)) : value;
  const fault = hasTime ? zoneFault(moment) : undefined;
  if (fault !== undefined) return redirectFailed(context, formUrl, `${column.title}: ${value} ${fault}.`);
  const related = column.references && context.resources.get(column.references.name);
  if (!related || !comparison.takesValue) return redirect(filteredBy(moment));
  if (await isRecordKey(context, related, value)) return redirect(filteredBy(value));
  return offerRecords(context, { path, column, related, words: value, form, filteredBy, formUrl });
}
