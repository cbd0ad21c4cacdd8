// The newest changes in the history, with one line for each operation, and the records that the caller has changed last.
import { textOfField, type LabeledRecord } from '../../resources/records/labeled-record.ts';
import { LinkParameters, links } from '../web/admin-links.ts';
import type { AdminContext } from '../web/admin-context.ts';
import { nothing, actionLabel, moment, shortened, sourceLabel } from '../web/display-text.ts';
import { html, type Content, type Html } from '../web/html.ts';
import { phrase, t } from '../web/language.ts';
import type { RecordLabels } from '../web/record-labels.ts';
import { table, type RecordLink } from '../web/widgets.ts';
import { loadOptional } from '../fields/optional-part.ts';
import {
  changeOf,
  changedRecord,
  formerNames,
  labelsOfChanged,
  type HistoryChange,
} from './history-entry.ts';

/** How many lines and how many recent records are shown. */
const LATEST = 10;
const RECENT = 8;
/** Reads of the newest changes: one more leaves out the operations that are known, which may have thousands of changes. */
const MAX_READS = 4;
/** Among how many of the newest entries the caller's own are looked for: no index finds them. */
const OWN_SPAN = 20_000n;
/** How many of the caller's entries are read. */
const MAX_OWN = 40;

const parameter = (name: string, value: string) => ({ name, value });

/** Reads entries of the history, newest first; undefined where it cannot be read. */
async function entriesOf(
  context: AdminContext,
  what: string,
  ...query: readonly { readonly name: string; readonly value: string }[]
): Promise<readonly LabeledRecord[] | undefined> {
  const selection = { query: new LinkParameters(query).toString(), search: '' };
  return (await loadOptional(context, what, context.browsing.list(context.history, selection)))?.records;
}

/** The first change of each operation among some changes, which are newest first. */
function firstOfEach(changes: readonly HistoryChange[]): HistoryChange[] {
  const operations = new Map(changes.map((change) => [change.batch ?? `#${change.id}`, change]));
  return [...operations.values()];
}

/** The newest operations, each by one of its changes; undefined where the history cannot be read. */
async function latestOperations(context: AdminContext): Promise<readonly HistoryChange[] | undefined> {
  let found: HistoryChange[] = [];
  for (let reads = 0; reads < MAX_READS && found.length < LATEST; reads += 1) {
    const batches = found.flatMap(({ batch }) => batch ?? []);
    const entries = await entriesOf(
      context,
      'the latest changes',
      parameter('limit', String(LATEST)),
      ...(reads === 0 ? [] : [parameter('id__lt', String(found.at(-1)?.id))]),
      ...(batches.length === 0 ? [] : [parameter('-batch__in', batches.join())]),
    );
    if (!entries) return undefined;
    found = [...found, ...firstOfEach(entries.map((entry) => changeOf(entry, context)))];
    if (entries.length < LATEST) break;
  }
  return found.slice(0, LATEST);
}

/** How many other changes the operation of a change has. */
async function othersOf(context: AdminContext, { batch }: HistoryChange): Promise<Html | false> {
  if (batch === null) return false;
  const { history, browsing } = context;
  const ofBatch = new LinkParameters([parameter('batch', batch)]);
  const counting = browsing.count(history, { query: ofBatch.toString(), search: '' });
  const found = await loadOptional(context, 'the count of an operation', counting);
  if (found?.count === 1) return false;
  const others =
    found?.precision === 'exact' ? t('moreChanges', { count: found.count - 1 }) : t('someMoreChanges');
  return html`<a href="${links.list(history.name, ofBatch)}">${others}</a>`;
}

/** Labels that cannot be read in time are left out. */
const labelsInTime = (context: AdminContext, changes: readonly HistoryChange[]): Promise<RecordLabels> =>
  labelsOfChanged(context, changes, async (resource, ids) => {
    const work = context.browsing.labelsOf(resource, ids);
    return (await loadOptional(context, `the names of ${resource.name}`, work)) ?? new Map();
  });

async function changeTable(context: AdminContext, changes: readonly HistoryChange[]): Promise<Html> {
  const { history } = context;
  const labels = await labelsInTime(context, changes);
  const nameOf = formerNames(changes);
  const rows = changes.map(async (change): Promise<Content[]> => {
    const record = changedRecord(change, labels, nameOf, 60);
    const facts = { action: actionLabel(change.action), title: change.title };
    const what = record === '' ? phrase('changeIn', facts) : phrase('changeOfRecord', { ...facts, record });
    const others = await othersOf(context, change);
    return [
      html`<a href="${links.record(history.name, change.id)}">${moment(change.at)}</a>`,
      change.user?.name ?? nothing(),
      sourceLabel(change.source),
      others ? phrase('changeAndOthers', { change: what, others }) : what,
    ];
  });
  return html`${table([t('when'), t('who'), t('where'), t('what')], await Promise.all(rows), { labelledBy: 'latest' })}
    <p><a href="${links.list(history.name)}">${t('allChanges')}</a></p>`;
}

/** The section with the latest changes. */
export async function showLatest(context: AdminContext): Promise<Html> {
  const changes = await latestOperations(context);
  const body = !changes
    ? html`<p class="nothing">${t('historyNotRead')}</p>`
    : changes.length === 0
      ? html`<p class="empty">${t('noChangesYet')}</p>`
      : await changeTable(context, changes);
  return html`<section class="latest" aria-labelledby="latest">
    <h2 id="latest">${t('latestChanges')}</h2>
    ${body}
  </section>`;
}

/** The records that the caller has changed last, one of each operation, among the newest entries of the history. */
export async function recentRecords(context: AdminContext): Promise<readonly RecordLink[]> {
  const { resources, history, caller } = context;
  if (!resources.has(history.name)) return [];
  const what = 'the recent records';
  const [newest] = (await entriesOf(context, what, parameter('limit', '1'))) ?? [];
  if (!newest) return [];
  const after = BigInt(textOfField(newest.fields, 'id') ?? 0) - OWN_SPAN;
  const entries = await entriesOf(
    context,
    what,
    parameter('user_key', caller.id),
    parameter('id__gt', String(after)),
    parameter('limit', String(MAX_OWN)),
  );
  const changes = firstOfEach((entries ?? []).map((entry) => changeOf(entry, context)));
  const newestOfEach = new Map(changes.toReversed().map((one) => [`${one.model} ${one.record}`, one]));
  const labels = await labelsInTime(context, [...newestOfEach.values()]);
  return changes
    .filter((change) => newestOfEach.get(`${change.model} ${change.record}`) === change)
    .flatMap(({ resource, record }) => {
      const label = resource && labels(resource, record);
      if (!resource || label === undefined) return [];
      return [{ text: shortened(label, 60), href: links.record(resource.name, record), of: resource.title }];
    })
    .slice(0, RECENT);
}
