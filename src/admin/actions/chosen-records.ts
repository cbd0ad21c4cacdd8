// The records that an admin has selected on a list, for the pages of an action on them.
import { Problem } from '../../errors.ts';
import type { Selection } from '../../query/selection.ts';
import type { Column } from '../../db/schema/model.ts';
import type { BulkTerms } from '../../resources/records/bulk-operations.ts';
import { assertSession } from '../session/assert-session.ts';
import type { ResourceContext } from '../web/admin-context.ts';
import { fieldOfKey, keyOfField, type Form } from '../web/form-data.ts';
import { hiddenInputs, html, type Html } from '../web/html.ts';
import { LinkParameters, links, selectionFacts, selectionOf } from '../web/admin-links.ts';
import { t } from '../web/language.ts';

/** The records that the admin has selected on a list. */
export interface Choice {
  /** The URL parameters of the list. */
  readonly state: LinkParameters;
  /** Undefined for all records of the list. */
  readonly ids: readonly string[] | undefined;
  readonly selection: Selection;
}

/** A request for an action on selected records. */
export interface BulkContext extends ResourceContext {
  readonly choice: Choice;
}

/** Maximum records whose labels are shown. */
const MAX_LABELS = 10;

/** Maximum characters of the keys of the selected records: each page repeats them. */
const LONGEST_IDS = 1024 * 1024;

/** The end of the transaction of an action: the session is still valid, and the event is recorded. */
export const endOf =
  (
    context: BulkContext,
    name: 'bulk.change' | 'bulk.delete',
    columns: readonly Column[] = [],
  ): BulkTerms['end'] =>
  async (transaction, records) => {
    await assertSession(context);
    const { resource, choice, report } = context;
    const what = { resource: resource.name, records, ...selectionFacts(choice.selection) };
    const detail = columns.length > 0 ? { ...what, column: columns.map(({ key }) => key).join() } : what;
    await report(name, detail, transaction);
  };

/** Reads the selection from the form of a list or of a confirmation page. @throws Problem 400, 413, 414 */
export function readChoice(form: Form): Choice {
  const state = LinkParameters.parse(form.get('_state') ?? '');
  const ids = form.get('_all') === undefined ? [...new Set(form.all('_id').map(keyOfField))] : undefined;
  if (ids && ids.reduce((sum, id) => sum + id.length, 0) > LONGEST_IDS)
    throw new Problem(413, t('keysTooLong'));
  const { query, search } = selectionOf(state.without('page', 'limit'));
  return { state, ids, selection: ids ? { query, search, ids } : { query, search } };
}

/** The selection as hidden fields, for the next page. */
export async function hiddenChoice({ choice }: BulkContext, action: string): Promise<Html> {
  const { state, ids } = choice;
  const selected = await hiddenInputs(ids ? ids.map((id) => ['_id', fieldOfKey(id)]) : [['_all', '1']]);
  return html`<input type="hidden" name="_state" value="${state.toString()}" />
    <input type="hidden" name="_action" value="${action}" />
    ${selected}`;
}

/** The URL of the list on which the records were selected. */
export const listUrl = ({ resource, choice }: BulkContext): string => links.list(resource.name, choice.state);

/** The number of selected records and the labels of the first ones. */
export async function selectedRecords(
  { browsing, resource, choice }: BulkContext,
  count: number,
): Promise<Html> {
  const { state, ids, selection } = choice;
  const query = state.query.without('page', 'limit').with('limit', String(MAX_LABELS)).toString();
  const { records } = await browsing.labels(resource, { ...selection, query });
  const isNarrowed = state.filters.length > 0 || Boolean(state.get('_search'));

  const missing = ids && ids.length > count ? ids.length - count : 0;
  const more = count - records.length;
  return html`<section class="chosen">
    <h2>${t(ids ? 'recordsSelected' : 'recordsOf', { count, title: resource.title })}</h2>
    ${!ids && html`<p>${t(isNarrowed ? 'allThatMatch' : 'allOfList')}</p>`}
    ${missing > 0 && html`<p class="hint">${t('selectedAreGone', { count: missing })}</p>`}
    <ul>
      ${records.map(
        ({ id, label }) => html`<li><a href="${links.record(resource.name, id)}">${label}</a></li>`,
      )}
      ${more > 0 && html`<li>${t('andMore', { more })}</li>`}
    </ul>
  </section>`;
}

/** How the number of selected records has changed since the form was made; undefined if it has not. */
export async function selectionChange(
  { bulk, resource, choice }: BulkContext,
  form: Form,
): Promise<string | undefined> {
  const expected = Number(form.get('_expected'));
  const count = await bulk.count(resource, choice.selection);
  return count === expected ? undefined : t('selectionHad', { count: expected, now: count });
}
