// Links from a page of a collection to the next and the previous one.
import { Problem } from '../../errors.ts';
import { withBasePath } from '../message/base-path.ts';
import { MAX_QUERY_BYTES } from '../../query/parse/grammar.ts';
import type { RecordPage } from '../../resources/records/api-listing.ts';
import type { ResourceView } from '../../resources/access/resource-view.ts';
import { messageOf } from '../../messages.ts';

/** URLs of the next and previous page, without the origin; an empty string where there is no such page. */
export interface PageLinks {
  readonly next: string;
  readonly previous: string;
}

export function pageLinks(
  { name }: ResourceView,
  { query: { link, limit }, next, previous }: RecordPage,
): PageLinks {
  const linkTo = (page: string | undefined): string =>
    page === undefined ? '' : withBasePath(`/api/${name}/?${link}limit=${limit}&${page}`);
  return { next: linkTo(next), previous: linkTo(previous) };
}

/** Encodes the characters that a client may send unencoded in a query but that end a URL in a header. */
const encodeForHeader = (address: string): string =>
  address.replace(
    /[^!-~]|[<>"]/g,
    (character) => `%${character.charCodeAt(0).toString(16).toUpperCase().padStart(2, '0')}`,
  );

/** Maximum bytes of the header. Many clients accept only 16 KiB of headers in total. */
const MAX_HEADER = MAX_QUERY_BYTES + 256;

/**
 * The `Link` header (RFC 8288); none if this is the only page. If both links together are too long, only `next` remains.
 * @throws Problem 414 if the first link alone is too long
 */
export function linkHeader({ next, previous }: PageLinks): Record<string, string> {
  const relations = [
    ['next', next],
    ['prev', previous],
  ] as const;
  const links = relations.flatMap(([rel, address]) =>
    address === '' ? [] : [`<${encodeForHeader(address)}>; rel="${rel}"`],
  );
  const [first] = links;
  if (first === undefined) return {};
  if (first.length > MAX_HEADER) throw new Problem(414, messageOf('longNeighborUrl'));
  const all = links.join(', ');
  return { Link: all.length > MAX_HEADER ? first : all };
}
