import type { AdminResource } from '../../resources/serve/admin-resource.ts';
import type { Selection } from '../../resources/records/selection.ts';
import type { AdminContext } from '../web/admin-context.ts';
import type { Form } from '../web/form-data.ts';
import { hiddenInputs, html, type Html } from '../web/html.ts';
import { links, Parameters } from '../web/admin-links.ts';
import { selectionOf } from '../list/list-page.ts';
import { counted, grouped } from '../web/display-text.ts';
import type { AdminRequest } from '../web/admin-request.ts';

/** The records that somebody has chosen on a list, and the list. */
export interface Choice {
  readonly state: Parameters;
  /** Undefined for all that the list has on its pages. */
  readonly ids: readonly string[] | undefined;
  readonly selection: Selection;
}

/** How many records are named one by one. */
const MOST_NAMED = 10;

/** What a list's form, or one of the pages after it, has chosen. @throws Problem 400, 414 */
export function readChoice(form: Form): Choice {
  const state = Parameters.parse(form.get('_state') ?? '');
  const ids = form.get('_all') === undefined ? [...new Set(form.all('_id'))] : undefined;
  const { query, search } = selectionOf(state.without('page', 'limit'));
  return { state, ids, selection: ids ? { query, search, ids } : { query, search } };
}

/** The same in hidden fields, for the next page. */
export const hiddenChoice = async (
  { csrf }: AdminRequest,
  { state, ids }: Choice,
  action: string,
): Promise<Html> =>
  html`<input type="hidden" name="_csrf" value="${csrf}" />
    <input type="hidden" name="_state" value="${state.toString()}" />
    <input type="hidden" name="_action" value="${action}" />
    ${
      ids
        ? await hiddenInputs(ids.map((id) => ['_id', id]))
        : html`<input type="hidden" name="_all" value="1" />`
    }`;

/** The list that the choice was made on. */
export const listOf = ({ name }: AdminResource, { state }: Choice): string => links.list(name, state);

/** How many records were chosen, and what the first of them are called. */
export async function chosenRecords(
  { browsing }: AdminContext,
  resource: AdminResource,
  { state, ids, selection }: Choice,
  count: number,
): Promise<Html> {
  const query = state.query.without('page', 'limit').with('limit', String(MOST_NAMED)).toString();
  const { entries } = await browsing.labels(resource, { ...selection, query });
  const isNarrowed = state.filters.length > 0 || Boolean(state.get('_search'));
  const which = ids ? 'chosen' : isNarrowed ? 'that the list’s filters and search match' : 'that there are';
  const gone = ids && ids.length > count ? ids.length - count : 0;
  const more = count - entries.length;
  return html`<section class="chosen">
    <h2>${counted(count, 'record')} ${ids ? 'chosen' : `of ${resource.title}`}</h2>
    ${!ids && html`<p>All ${which}.</p>`}
    ${
      gone > 0 &&
      html`<p class="hint">
        ${grouped(gone)} of those you chose ${gone === 1 ? 'is' : 'are'} no longer there, or no longer on the
        list.
      </p>`
    }
    <ul>
      ${entries.map(
        ({ id, label }) => html`<li><a href="${links.record(resource.name, id)}">${label}</a></li>`,
      )}
      ${more > 0 && html`<li>and ${grouped(more)} more</li>`}
    </ul>
  </section>`;
}

/** Whether the admin is among the chosen users: what is done to them is done to oneself. */
export async function includesCaller(
  { bulk, settings }: AdminContext,
  { caller }: AdminRequest,
  resource: AdminResource,
  { selection }: Choice,
): Promise<boolean> {
  if (resource.name !== settings.userModel) return false;
  return bulk.includes(resource, selection, caller.id);
}
