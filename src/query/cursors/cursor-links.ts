// The links from a page to its neighbors, as cursors.
import { badQuery } from '../../errors.ts';
import type { Boundary } from './cursor-token.ts';
import type { KeysetPage } from './keyset-page.ts';

/** The paging parameters of the neighbors of a page, such as `page=2`; undefined where there is no such page. */
export interface Neighbors {
  readonly next: string | undefined;
  readonly previous: string | undefined;
}

/**
 * @param boundary of the page; undefined for a page with a number
 * @param number of the page
 * @throws Problem 400 if a link would be too long
 */
export function cursorLinks(
  { firstKeys, lastKeys, hasMore }: KeysetPage,
  boundary: Boundary | undefined,
  number: bigint,
  seal: (boundary: Boundary) => string,
): Neighbors {
  const link = (keys: Boundary['keys'], isBackward: boolean, isInclusive = false): string => {
    // `keysetStatement` leaves out keys that are too long.
    if (keys.length === 0)
      throw badQuery({ ordering: ['has values that are too long for a cursor: order by other columns'] });
    return `cursor=${seal({ keys, isBackward, isInclusive })}`;
  };
  // The page is empty, so the link back starts at the boundary. It includes the record there if this page excluded it.
  const linkBack = (): string | undefined =>
    boundary && link(boundary.keys, !boundary.isBackward, !boundary.isInclusive);
  const linkBeyond = (keys: Boundary['keys'] | undefined, isBackward: boolean): string | undefined =>
    keys ? link(keys, isBackward) : linkBack();
  if (boundary?.isBackward === true)
    return {
      next: linkBeyond(lastKeys, false),
      previous: hasMore && firstKeys ? link(firstKeys, true) : undefined,
    };
  const before = number > 1n ? `page=${number - 1n}` : undefined;
  const isFirst = !boundary && number === 1n;
  return {
    next: hasMore && lastKeys ? link(lastKeys, false) : undefined,
    previous: isFirst ? undefined : (linkBeyond(firstKeys, true) ?? before),
  };
}
