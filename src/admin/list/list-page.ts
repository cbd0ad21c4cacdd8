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
import { phrase, separated, t } from '../web/language.ts';
import { timeZone } from '../web/presentation.ts';
import { LinkParameters, links } from '../web/admin-links.ts';
import { historyCells } from '../history/history-page.ts';
import { countedRecords, shownColumn } from '../web/display-text.ts';
import { checkbox, options } from '../web/widgets.ts';

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
    <label for="bulk-action">${t('withSelected')}</label>
    <select name="_action" id="bulk-action">
      ${options(actions.map(({ name, title }) => [name, title]))}
    </select>
    ${(!count || count.count > 1) && checkbox({ name: '_all', value: 1 }, count ? t('allInList', { records: countedRecords(count) }) : t('allRecordsInList'))}
    <button class="secondary">${t('continue')}</button>
  </form>`;
}

const searchForm = (state: ListState, errors: readonly string[] = []): Html | false =>
  state.resource.search.length > 0 &&
  html`<form class="search" role="search" action="${links.list(state.resource.name)}">
    ${hiddenParameters(state.parameters.without('_search', 'page'))}
    <label for="search" class="hidden">${t('search')}</label>
    <input
      type="search"
      id="search"
      name="_search"
      value="${state.search}"
      placeholder="${t('search')}"
      ${errors.length > 0 && html`aria-invalid="true" aria-describedby="search-error"`}
    />
    <button class="secondary">${t('search')}</button>
    ${state.search !== '' && html`<a href="${state.address(state.parameters.without('_search', 'page'))}">${t('clearSearch')}</a>`}
    ${errors.length > 0 && html`<span class="error" id="search-error">${separated(errors)}</span>`}
  </form>`;

/** The text of an empty list, with what to do. */
function emptyList({ isNarrowed, resource: { name, may } }: ListState): Html {
  return isNarrowed
    ? html`<p class="empty">${t('noMatches')} <a href="${links.list(name)}">${t('showAllRecords')}</a></p>`
    : html`<p class="empty">
        ${t('noRecordsYet')}
        ${may.has('add') && html`<a href="${links.action(name, 'add')}">${t('addFirst')}</a>`}
      </p>`;
}

function footer({ history, resource }: ResourceContext, { parameters, search, columns }: ListState): Html {
  const { name, inApi, allows } = resource;
  const query = parameters.query.toString();
  const access = resource === history ? undefined : inApi(query);
  const notes = [
    ...(search !== '' ? [t('withoutSearch')] : []),
    ...(access === 'login' ? [t('requiresLogin')] : []),
  ];
  const hasDateTimes = columns.some(({ type }) => type.input.control === 'datetime-local');
  const list = parameters.without('page', 'limit');
  const exported = (format: ExportFormat, text: string, of = list.without('_columns')): Html =>
    html`<a href="${links.action(name, `export.${format}`, of)}">${text}</a>`;
  const address = html`<a href="${links.api(name, query)}"><code>${links.api(name, query)}</code></a>`;
  return html`<p class="also">
    ${
      allows.has('export') &&
      phrase('exportList', {
        csv: exported('csv', t('csv')),
        excel: exported('excel.csv', t('csvForExcel')),
        json: exported('json', t('json')),
        shownCsv: exported('shown.csv', t('asCsv'), list),
        shownExcel: exported('shown.excel.csv', t('asCsvForExcel'), list),
      })
    }
    ${
      access &&
      (notes.length > 0
        ? phrase('sameQueryWith', { address, notes: separated(notes) })
        : phrase('sameQuery', { address }))
    }
    ${hasDateTimes && t('timesAreIn', { zone: timeZone() })}
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
  const total = counted ? countedRecords(counted) : t('unknownNumber');
  const linkTo = (number: bigint): string => state.address(parameters.with('page', String(number)));
  const last = counted && BigInt(Math.max(1, Math.ceil(counted.count / query.limit)));
  const exactLast = counted?.precision === 'exact' ? last : undefined;
  // On an empty page past the end, "Previous" leads to the last page that has records.
  const previous = records.length === 0 && last !== undefined && last < page ? last : page - 1n;
  return html`<nav class="pager" aria-label="${t('pages')}">
    <p>
      ${
        records.length === 0
          ? t('noRecordsOnPage')
          : counted?.count === 1
            ? t('records', { count: 1 })
            : t('rangeOf', { first, last: first + records.length - 1, total })
      }
    </p>
    <ul>
      ${page > 2n && html`<li><a href="${linkTo(1n)}">${t('firstPage')}</a></li>`}
      ${page > 1n && html`<li><a href="${linkTo(previous)}" rel="prev">${t('previous')}</a></li>`}
      ${
        (page > 1n || hasNext) &&
        html`<li aria-current="page">
          ${
            exactLast !== undefined && page <= exactLast
              ? t('pageOf', { page: String(page), last: String(exactLast) })
              : t('pageNumber', { page: String(page) })
          }
        </li>`
      }
      ${hasNext && html`<li><a href="${linkTo(page + 1n)}" rel="next">${t('next')}</a></li>`}
      ${hasNext && exactLast !== undefined && page + 1n < exactLast && html`<li><a href="${linkTo(exactLast)}">${t('lastPage')}</a></li>`}
    </ul>
    <ul aria-label="${t('recordsOnPage')}">
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
    addError(errors, '_columns', t('listHasNoColumn', { column: JSON.stringify(excerpt(column)) }));
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
        >${t('filters')}${state.filters.length > 0 && ` (${state.filters.length})`}</a
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
                      ${t('pastTheEnd')}
                      <a href="${state.address(state.parameters.without('page'))}">${t('goToFirstPage')}</a>
                    </p>
                    ${pager(page, state, count)}`
                : html`${recordsTable(context, page.records, state, showCell)}
                  ${selectionForm(context, state, count)} ${pager(page, state, count)}`
          }
          ${footer(context, state)}`
        : html`<p class="error-summary" role="alert">${t('listNotShown')}</p>`
    }`;
  return pageReply(context, {
    title,
    crumbs: [title],
    kind: 'list',
    status: page ? 200 : 400,
    actions: html`${may.has('add') && html`<a class="button primary" href="${links.from(state.parameters.toString(), links.action(name, 'add'))}">${t('add')}</a>`}
    ${allows.has('import') && (may.has('add') || may.has('change')) && html`<a class="button" href="${links.action(name, 'import')}">${t('import')}</a>`}`,
    body: html`${tabs}
      <div class="listing">
        <div>${results}</div>
        ${panel}
      </div>`,
  });
}
