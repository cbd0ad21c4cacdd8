// The page of a list: search, filters, records, bulk actions and exports.
import { isKeyless } from '../../db/schema/model.ts';
import { addError, excerpt, Problem } from '../../errors.ts';
import type { Reply } from '../../http/message/message.ts';
import type { LabeledRecordPage } from '../../resources/records/admin-listing.ts';
import type { Count } from '../../query/selection.ts';
import type { ExportFormat } from '../actions/export.ts';
import { selectionActions } from '../actions/selection-actions.ts';
import type { ResourceContext } from '../web/admin-context.ts';
import { loadOptional } from '../fields/optional-part.ts';
import { activeFilters } from './active-filters.ts';
import { filterPanel, hiddenParameters } from './filter-panel.ts';
import { html, type Html } from '../web/html.ts';
import { pageReply } from '../web/layout.ts';
import { ListState } from '../web/list-state.ts';
import { recordsTable, sortChoice } from './list-table.ts';
import { viewTabs } from './list-views.ts';
import { timeZone } from '../web/time-zone.ts';
import { LinkParameters, links } from '../web/admin-links.ts';
import { historyCells } from '../history/history-view.ts';
import { countedRecords, grouped, shownColumn } from '../web/display-text.ts';

/** Actions on the selected records, or on all records of all pages. */
function selectionForm(
  { csrf, resource }: ResourceContext,
  { parameters }: ListState,
  count: Count | undefined,
): Html | false {
  const actions = selectionActions(resource);
  if (isKeyless(resource.model) || actions.length === 0) return false;
  // When the user goes back, the browser would restore the selected rows by their position, also if the list has changed.
  return html`<form
    method="post"
    action="${links.action(resource.name, 'bulk')}"
    id="bulk"
    class="bulk"
    autocomplete="off"
  >
    <input type="hidden" name="_csrf" value="${csrf}" />
    <input type="hidden" name="_state" value="${parameters.toString()}" />
    <label for="bulk-action">With selected:</label>
    <select name="_action" id="bulk-action">
      ${actions.map(({ name, title }) => html`<option value="${name}">${title}</option>`)}
    </select>
    ${(!count || count.count > 1) && html`<label class="check"><input type="checkbox" name="_all" value="1" /> all ${count ? countedRecords(count) : 'records'} in this list</label>`}
    <button class="secondary">Continue</button>
  </form>`;
}

const searchForm = (state: ListState, errors: readonly string[] = []): Html | false =>
  state.resource.search.length > 0 &&
  html`<form class="search" role="search" action="${links.list(state.resource.name)}">
    ${hiddenParameters(state.parameters.without('_search', 'page'))}
    <label for="search" class="hidden">Search</label>
    <input
      type="search"
      id="search"
      name="_search"
      value="${state.search}"
      placeholder="Search"
      ${errors.length > 0 && html`aria-invalid="true" aria-describedby="search-error"`}
    />
    <button class="secondary">Search</button>
    ${state.search !== '' && html`<a href="${state.address(state.parameters.without('_search', 'page'))}">Clear the search</a>`}
    ${errors.length > 0 && html`<span class="error" id="search-error">${errors.join('; ')}</span>`}
  </form>`;

/** The text of an empty list, with what to do. */
function emptyList({ isNarrowed, resource: { name, may } }: ListState): Html {
  return isNarrowed
    ? html`<p class="empty">No matching records. <a href="${links.list(name)}">Show all records</a></p>`
    : html`<p class="empty">
        There are no records yet.
        ${may.has('add') && html`<a href="${links.action(name, 'add')}">Add the first one</a>`}
      </p>`;
}

function footer({ history, resource }: ResourceContext, { parameters, search, columns }: ListState): Html {
  const { name, inApi, allows } = resource;
  const query = parameters.query.toString();
  const access = resource === history ? undefined : inApi(query);
  const notes = [
    ...(search !== '' ? ['without the search'] : []),
    ...(access === 'login' ? ['requires a separate login'] : []),
  ];
  const hasDateTimes = columns.some(({ type }) => type.input.control === 'datetime-local');
  const list = parameters.without('page', 'limit');
  const exported = (format: ExportFormat, text: string, of = list.without('_columns')): Html =>
    html`<a href="${links.action(name, `export.${format}`, of)}">${text}</a>`;
  return html`<p class="also">
    ${
      allows.has('export') &&
      html`Export this list: ${exported('csv', 'CSV')}, ${exported('excel.csv', 'CSV for Excel')},
      ${exported('json', 'JSON')}. Only the shown columns, with the labels of related records:
      ${exported('shown.csv', 'as CSV', list)}, ${exported('shown.excel.csv', 'as CSV for Excel', list)}.`
    }
    ${
      access &&
      html`The same query in the API:
        <a href="${links.api(name, query)}"><code>${links.api(name, query)}</code></a
        >${notes.length > 0 && ` (${notes.join('; ')})`}.`
    }
    ${hasDateTimes && `Times are in ${timeZone()}.`}
  </p>`;
}

const PAGE_SIZES = [20, 50, 100];

/**
 * The range of records on this page, links to other pages, and links to other page sizes.
 * @param counted undefined if counting took too long
 */
function pager(
  { query, records, hasNext }: LabeledRecordPage,
  state: ListState,
  counted: Count | undefined,
): Html {
  const { page } = query;
  const { parameters } = state;
  const first = (Number(page) - 1) * query.limit + 1;
  const total = counted ? countedRecords(counted) : 'an unknown number of records';
  const linkTo = (number: bigint): string => state.address(parameters.with('page', String(number)));
  const last = counted && BigInt(Math.max(1, Math.ceil(counted.count / query.limit)));
  const exactLast = counted?.precision === 'exact' ? last : undefined;
  // On an empty page past the end, "Previous" leads to the last page that has records.
  const previous = records.length === 0 && last !== undefined && last < page ? last : page - 1n;
  return html`<nav class="pager" aria-label="Pages">
    <p>
      ${
        records.length === 0
          ? 'No records on this page'
          : counted?.count === 1
            ? '1 record'
            : html`${grouped(first)}–${grouped(first + records.length - 1)} of ${total}`
      }
    </p>
    <ul>
      ${page > 2n && html`<li><a href="${linkTo(1n)}">First</a></li>`}
      ${page > 1n && html`<li><a href="${linkTo(previous)}" rel="prev">Previous</a></li>`}
      ${(page > 1n || hasNext) && html`<li aria-current="page">Page ${page}${exactLast !== undefined && page <= exactLast && ` of ${exactLast}`}</li>`}
      ${hasNext && html`<li><a href="${linkTo(page + 1n)}" rel="next">Next</a></li>`}
      ${hasNext && exactLast !== undefined && page + 1n < exactLast && html`<li><a href="${linkTo(exactLast)}">Last</a></li>`}
    </ul>
    <ul aria-label="Records on a page">
      ${PAGE_SIZES.map((size) =>
        size === query.limit
          ? html`<li aria-current="true">${size}</li>`
          : html`<li>
              <a href="${state.address(parameters.without('page').with('limit', String(size)))}">${size}</a>
            </li>`,
      )}
    </ul>
  </nav>`;
}

/** Responds with the page of a list: 400 with the filters marked if some of them are invalid. */
export async function showList(context: ResourceContext): Promise<Reply> {
  const { resource, browsing } = context;
  const { name, title, may, allows } = resource;
  const { parameters, errors: parseErrors } = LinkParameters.parseWithErrors(context.request.query);
  const state = new ListState(resource, parameters);
  const { selection } = state;
  let page: LabeledRecordPage | undefined;
  let count: Count | undefined;
  let errors = parseErrors;
  for (const column of state.unknownColumns)
    addError(errors, '_columns', `this list has no column ${JSON.stringify(excerpt(column))}`);
  try {
    if (Object.keys(errors).length === 0) {
      // Nothing runs for a list that is refused.
      browsing.plan(resource, selection);
      [page, count] = await Promise.all([
        browsing.list(resource, selection),
        // The records are what the page is for, and a large table may take long to count.
        loadOptional(context, `the count of ${name}`, browsing.count(resource, state.whole)),
      ]);
    }
  } catch (error) {
    if (!(error instanceof Problem) || !error.errors) throw error;
    errors = error.errors;
  }
  const showCell =
    page && resource === context.history ? await historyCells(context, page.records) : shownColumn;
  const [tabs, panel, active] = await Promise.all([
    viewTabs(context, state),
    filterPanel(context, state, parameters, count?.precision === 'exact'),
    activeFilters(context, state, errors),
  ]);
  const results = html`<div class="tools">
      ${searchForm(state, errors['_search'])}
      <a class="button open-panel" href="#filter-0"
        >Filters${state.filters.length > 0 && ` (${state.filters.length})`}</a
      >
      ${page && page.records.length > 0 && sortChoice(context, state)}
    </div>
    ${active}
    ${
      page
        ? html`${
            page.records.length === 0 && page.query.page === 1n
              ? emptyList(state)
              : page.records.length === 0
                ? html`<p class="empty">
                      This page is past the end of the list.
                      <a href="${state.address(state.parameters.without('page'))}">Go to the first page</a>
                    </p>
                    ${pager(page, state, count)}`
                : html`${recordsTable(context, page.records, state, showCell)}
                  ${selectionForm(context, state, count)} ${pager(page, state, count)}`
          }
          ${footer(context, state)}`
        : html`<p class="error-summary" role="alert">
            The list cannot be shown. Correct or remove the filters and settings that are marked above.
          </p>`
    }`;
  return pageReply(context, {
    title,
    crumbs: [title],
    kind: 'list',
    status: page ? 200 : 400,
    actions: html`${may.has('add') && html`<a class="button primary" href="${links.from(state.parameters.toString(), links.action(name, 'add'))}">Add</a>`}
    ${allows.has('import') && (may.has('add') || may.has('change')) && html`<a class="button" href="${links.action(name, 'import')}">Import</a>`}`,
    body: html`${tabs}
      <div class="listing">
        <div>${results}</div>
        ${panel}
      </div>`,
  });
}
