// The pager below a list.
import type { AdminResource } from '../../resources/serve/admin-resource.ts';
import type { EntryPage } from '../../resources/records/browsing.ts';
import type { Count } from '../../resources/records/selection.ts';
import { html, type Html } from './html.ts';
import { links, type Parameters } from './admin-links.ts';
import { grouped } from './display-text.ts';

const PAGE_SIZES = [20, 50, 100];

/** The range of records on this page, links to other pages, and links to other page sizes. */
export function pager(
  { query, entries, hasNext }: EntryPage,
  { name }: AdminResource,
  parameters: Parameters,
  { count, isExact }: Count,
): Html {
  const { page } = query;
  const first = (Number(page) - 1) * query.limit + 1;
  const total = isExact ? grouped(count) : `about ${grouped(count)}`;
  const linkTo = (number: bigint): string => links.list(name, parameters.with('page', String(number)));
  const last = BigInt(Math.max(1, Math.ceil(count / query.limit)));
  // On an empty page past the end, "Previous" leads to the last page that has records.
  const previous = entries.length === 0 && last < page ? last : page - 1n;
  return html`<nav class="pager" aria-label="Pages">
    <p>
      ${
        entries.length === 0
          ? 'No records on this page'
          : count === 1
            ? '1 record'
            : html`${grouped(first)}–${grouped(first + entries.length - 1)} of ${total} records`
      }
    </p>
    <ul>
      ${page > 2n && html`<li><a href="${linkTo(1n)}">First</a></li>`}
      ${page > 1n && html`<li><a href="${linkTo(previous)}" rel="prev">Previous</a></li>`}
      ${(page > 1n || hasNext) && html`<li aria-current="page">Page ${page}${isExact && page <= last && ` of ${last}`}</li>`}
      ${hasNext && html`<li><a href="${linkTo(page + 1n)}" rel="next">Next</a></li>`}
      ${hasNext && isExact && page + 1n < last && html`<li><a href="${linkTo(last)}">Last</a></li>`}
    </ul>
    <ul aria-label="Records on a page">
      ${PAGE_SIZES.map((size) =>
        size === query.limit
          ? html`<li aria-current="true">${size}</li>`
          : html`<li>
              <a href="${links.list(name, parameters.without('page').with('limit', String(size)))}"
                >${size}</a
              >
            </li>`,
      )}
    </ul>
  </nav>`;
}
