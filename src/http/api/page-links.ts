import { Problem } from '../../errors.ts';
import { MAX_QUERY_BYTES } from '../../query/parse/grammar.ts';
import type { RecordPage } from '../../resources/records/listing.ts';
import type { ServedResource } from '../../resources/serve/served-resource.ts';

/** The addresses of the pages beside this one; empty where there is none. */
export interface PageLinks {
  readonly next: string;
  readonly previous: string;
}

export function pageLinks({ name }: ServedResource, { query, hasNext }: RecordPage): PageLinks {
  const link = (page: bigint): string => `/api/${name}/?${query.link}limit=${query.limit}&page=${page}`;
  return {
    next: hasNext ? link(query.page + 1n) : '',
    previous: query.page > 1n ? link(query.page - 1n) : '',
  };
}

/** What a client may leave unencoded in a query and would end an address in a header. */
const encodeLeft = (address: string): string =>
  address.replace(
    /[^!-~]|[<>"]/g,
    (sign) => `%${sign.charCodeAt(0).toString(16).toUpperCase().padStart(2, '0')}`,
  );

/** About how long a header may be (bytes): many clients take no more than 16 KiB of headers. */
const MOST = MAX_QUERY_BYTES + 256;

/**
 * The same as a `Link` header (RFC 8288), or nothing where this is the only page. Where two addresses would be too long the
 * one of the next page stands alone.
 * @throws Problem 414 for a next page whose address nobody could ask for
 */
export function linkHeader({ next, previous }: PageLinks): Record<string, string> {
  const relations = [
    ['next', next],
    ['prev', previous],
  ] as const;
  const links = relations.flatMap(([rel, address]) =>
    address === '' ? [] : [`<${encodeLeft(address)}>; rel="${rel}"`],
  );
  const [first] = links;
  if (first === undefined) return {};
  if (first.length > MOST)
    throw new Problem(414, 'The address of the next page would be too long: the query has to be shorter.');
  const all = links.join(', ');
  return { Link: all.length > MOST ? first : all };
}
