// What an action is about: a record, or the selected records of a list. Its pages show them and carry them on.
import type { Column } from '../../db/schema/model.ts';
import { Problem } from '../../errors.ts';
import type { Selection } from '../../query/selection.ts';
import type { LabeledRecord } from '../../resources/records/labeled-record.ts';
import type { BulkTerms } from '../../resources/records/bulk-operations.ts';
import { nextInList } from '../form/place-in-list.ts';
import { assertSession } from '../session/assert-session.ts';
import type { RecordContext, ResourceContext } from '../web/admin-context.ts';
import { LinkParameters, links, selectionFacts, selectionOf, type Link } from '../web/admin-links.ts';
import { shortened } from '../web/display-text.ts';
import { fieldOfKey, keyOfField, type Form } from '../web/form-data.ts';
import { hiddenInputs, html, type Content, type Html } from '../web/html.ts';
import { t } from '../web/language.ts';
import { listCrumb, recordCrumb, type Crumb } from '../web/layout.ts';

interface Landing {
  readonly location: string;
  readonly text?: string;
  readonly href?: string | undefined;
}

/** What an action is about. */
export interface Target {
  readonly selection: Selection;
  /** The label of a record; undefined for a selection. */
  readonly label?: string;
  readonly crumbs: readonly Crumb[];
  /** Where the forms of the action are sent to. */
  readonly address: string;
  readonly back: Link;
  readonly count: () => Promise<number>;
  /** The records and the name of the action as hidden fields. */
  readonly hidden: (action: string) => Promise<Content>;
  /** The records as people see them. */
  readonly shown: (count: number) => Promise<Content> | Content;
  /** How the records have changed since the form was made; undefined if they have not. */
  readonly changeSince: (form: Form) => Promise<string | undefined> | string | undefined;
  /** Where the action leads, with another message and with the record in question. @param done its message */
  readonly after: (done: string) => Promise<Landing> | Landing;
}

/** The records that the admin has selected on a list. */
interface Choice {
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

/** Reads the selection from the form of a list or of a confirmation page. @throws Problem 400, 413, 414 */
export function readChoice(form: Form): Choice {
  const state = LinkParameters.parse(form.get('_state') ?? '');
  const ids = form.get('_all') === undefined ? [...new Set(form.all('_id').map(keyOfField))] : undefined;
  if (ids && ids.reduce((sum, id) => sum + id.length, 0) > LONGEST_IDS)
    throw new Problem(413, t('keysTooLong'));
  const { query, search } = selectionOf(state.without('page', 'limit'));
  return { state, ids, selection: ids ? { query, search, ids } : { query, search } };
}

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

/** The URL of the list on which the records were selected. */
export const listUrl = ({ resource, choice }: BulkContext): string => links.list(resource.name, choice.state);

/** The number of selected records and the labels of the first ones. */
async function selectedRecords({ browsing, resource, choice }: BulkContext, count: number): Promise<Html> {
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

/** The selected records of a list. */
export function selectionTarget(context: BulkContext): Target {
  const { bulk, resource, choice } = context;
  const { state, ids, selection } = choice;
  const list = listUrl(context);
  const count = (): Promise<number> => bulk.count(resource, selection);
  return {
    selection,
    crumbs: [{ text: resource.title, href: list }],
    address: links.action(resource.name, 'bulk'),
    back: { text: t('backToList'), href: list },
    count,
    async hidden(action) {
      const selected = ids ? ids.map((id) => ['_id', fieldOfKey(id)] as const) : [['_all', '1'] as const];
      return hiddenInputs([['_state', state.toString()], ['_action', action], ...selected]);
    },
    shown: (shownCount) => selectedRecords(context, shownCount),
    async changeSince(form) {
      const [expected, now] = [Number(form.get('_expected')), await count()];
      return now === expected ? undefined : t('selectionHad', { count: expected, now });
    },
    after: () => ({ location: list }),
  };
}

/**
 * A record.
 * @param part of its address, for the page of the action
 * @param list the query of the list that the user came from: an action leads to the next record in it
 * @param sent a form of the action
 */
export function recordTarget(
  context: RecordContext,
  record: LabeledRecord,
  part: string,
  list: string | undefined,
  sent?: Form,
): Target {
  const { resource, id, operations } = context;
  const { name } = resource;
  const crumb = recordCrumb(resource, record, list);
  return {
    selection: { query: '', search: '', ids: [id] },
    label: shortened(record.label, 80),
    crumbs: [listCrumb(resource, list), crumb],
    address: links.part(resource.name, record.id, part),
    back: { ...crumb, text: t('backToRecord') },
    count: () => Promise.resolve(1),
    async hidden(action) {
      const named = [['_action', action] as const];
      if (list === undefined) return hiddenInputs(named);
      // The action may take the record out of the list.
      const next = sent ? undefined : await nextInList(context, list, id, false);
      const nextField = sent ? sent.get('_next') : next && fieldOfKey(next.id);
      return hiddenInputs([
        ...named,
        ['_list', list],
        ...(nextField === undefined ? [] : [['_next', nextField] as const]),
      ]);
    },
    shown: () => undefined,
    changeSince: () => undefined,
    async after(done) {
      // The action may have deleted the record.
      const isGone = (await operations.version(resource, id)) === undefined;
      if (list === undefined) return { location: isGone ? links.back(name, list) : crumb.href };
      const href = isGone ? undefined : links.record(name, id);
      const nextId = sent?.get('_next');
      const next = nextId === undefined ? undefined : await nextInList(context, list, keyOfField(nextId));
      return next
        ? { location: links.inList(name, next.id, list), href }
        : { location: links.back(name, list), text: t('noNextRecord', { done }), href };
    },
  };
}

/** The hidden fields of the page that confirms an action. @param count the records that it shows */
export const confirmedFields = (count: number): Html =>
  html`<input type="hidden" name="_expected" value="${count}" />
    <input type="hidden" name="_confirm" value="1" />`;
