// The place of a record in the list that the user came from: its number and its neighbors.
import { Problem } from '../../errors.ts';
import type { Place } from '../../query/statements/bulk-statements.ts';
import { hasAddress } from '../../resources/records/checked-body.ts';
import type { Named } from '../../resources/records/look-up.ts';
import { loadOptional } from '../fields/optional-part.ts';
import type { ResourceContext } from '../web/admin-context.ts';
import { LinkParameters, links, selectionOf } from '../web/admin-links.ts';
import { t } from '../web/language.ts';
import { shortened } from '../web/display-text.ts';
import { attributes, html, type Html } from '../web/html.ts';

/** Timeout of the number (milliseconds). A form must not wait for it. */
const NUMBER_TIMEOUT = 300;

/** Where a record is in a list. */
export interface PlaceInList {
  readonly previous: Named | undefined;
  readonly next: Named | undefined;
  /** Undefined for a record that is no longer in the list, for a long list, and where counting takes too long. */
  readonly place: Place | undefined;
}

type Found = NonNullable<Awaited<ReturnType<ResourceContext['browsing']['placeOf']>>>;

/** @param list the query of the list; an address may carry any text */
async function withPlace<T>(
  context: ResourceContext,
  list: string,
  id: string,
  work: (found: Found) => Promise<T>,
): Promise<T | undefined> {
  const { browsing, resource } = context;
  const load = async (): Promise<T | undefined> => {
    const parameters = LinkParameters.parse(list).state.without('page', 'limit');
    const found = await browsing.placeOf(resource, selectionOf(parameters), id);
    return found && work(found);
  };
  try {
    return await loadOptional(context, `the place of a record in ${resource.name}`, load());
  } catch (error) {
    if (error instanceof Problem && error.status < 500) return undefined;
    throw error;
  }
}

/** @param list the query of the list; undefined if the user came from elsewhere */
export const placeInList = async (
  context: ResourceContext,
  list: string | undefined,
  id: string,
): Promise<PlaceInList | undefined> =>
  list === undefined
    ? undefined
    : withPlace(context, list, id, async ({ neighbor, place }) => {
        const number = loadOptional(context, 'the number of a record', place(), NUMBER_TIMEOUT);
        const [previous, next] = await Promise.all([neighbor(true), neighbor(false)]);
        return { previous, next, place: await number };
      });

/**
 * The record to show after *Save and next*: this one, or the next one that is still in the list, because others may have changed or
 * deleted it since the form was made.
 * @param isInclusive false for the next one in any case
 */
export const nextInList = (
  context: ResourceContext,
  list: string,
  id: string,
  isInclusive = true,
): Promise<Named | undefined> => withPlace(context, list, id, ({ neighbor }) => neighbor(false, isInclusive));

/** The number of the record and the links to its neighbors. */
export function placeLinks(
  { name }: ResourceContext['resource'],
  list: string,
  { place, previous, next }: PlaceInList,
): Html {
  const link = (text: string, rel: string, to: Named | undefined) =>
    to &&
    hasAddress(to.id) &&
    html`<li>
      <a href="${links.inList(name, to.id, list)}" ${attributes({ rel, title: shortened(to.label, 60) })}
        >${text}</a
      >
    </li>`;
  return html`<nav class="pager" aria-label="${t('recordsOfList')}">
    ${place && html`<p>${t('numberOf', { number: Number(place.number), count: Number(place.count) })}</p>`}
    <ul>
      ${link(t('previous'), 'prev', previous)} ${link(t('next'), 'next', next)}
    </ul>
  </nav>`;
}
