// The start page: all lists with their counts, the panels of the registry, and the latest changes.
import type { Reply } from '../../http/message/message.ts';
import type { AdminView } from '../../resources/access/admin-view.ts';
import { EVENT, SOURCE_COLUMN } from '../../resources/definition/system-tables.ts';
import { textOfField, type LabeledRecord } from '../../resources/records/labeled-record.ts';
import type { AdminContext } from '../web/admin-context.ts';
import { changeOf, formerNames, type HistoryChange } from '../history/history-entry.ts';
import { html, type Content, type Html } from '../web/html.ts';
import { loadOptional, PART_TIMEOUT } from '../fields/optional-part.ts';
import { labelsFor, type RecordLabels } from '../web/record-labels.ts';
import { resourceRow, table } from '../web/widgets.ts';
import { pageReply } from '../web/layout.ts';
import { links } from '../web/admin-links.ts';
import { showPanels } from './dashboard-panels.ts';
import { actionLabel, countedRecords, sourceLabel, moment, NOTHING, shortened } from '../web/display-text.ts';

/** How many counts are made at once: more would wait for one another, and too many are refused. */
const COUNTS_AT_ONCE = 4;
/** How many of the latest changes are shown. */
const LATEST = 10;

/** The resources by group, in the order of the registry. */
function groupsOf(context: AdminContext): [group: string, resources: AdminView[]][] {
  const groups = new Map<string, AdminView[]>();
  for (const resource of context.resources.values()) {
    if (resource === context.history || resource.name === EVENT.model) continue;
    groups.set(resource.group, [...(groups.get(resource.group) ?? []), resource]);
  }
  return [...groups];
}

const UNKNOWN = 'unknown';

async function countText(context: AdminContext, resource: AdminView, timeout: number): Promise<string> {
  const work = context.browsing.count(resource, { query: '', search: '' });
  const found = await loadOptional(context, `the count of ${resource.name}`, work, timeout);
  if (!found) return UNKNOWN;
  return countedRecords(found);
}

/** The counts of the resources, without those that are not made in time. */
async function countTexts(
  context: AdminContext,
  resources: readonly AdminView[],
): Promise<ReadonlyMap<AdminView, string>> {
  const texts = new Map<AdminView, string>();
  const waiting = resources.values();
  const omitted: string[] = [];
  const until = performance.now() + PART_TIMEOUT;
  const countNext = async (): Promise<void> => {
    for (const resource of waiting) {
      const left = until - performance.now();
      if (left <= 0) omitted.push(resource.name);
      else texts.set(resource, await countText(context, resource, Math.ceil(left)));
    }
  };
  await Promise.all(Array.from({ length: COUNTS_AT_ONCE }, countNext));
  if (omitted.length > 0)
    context.logger.warn({
      message: `a page omits the counts of ${omitted.join(', ')}: those of the models before took ${PART_TIMEOUT} ms`,
    });
  return texts;
}

function row(resource: AdminView, count: string): Html {
  const { name, title } = resource;
  const link = html`<a href="${links.list(name)}">${title}</a>`;
  return resourceRow(resource, link, count, links.action(name, 'add'));
}

async function showGroups(context: AdminContext): Promise<Html> {
  const groups = groupsOf(context);
  if (groups.length === 0)
    return html`<p class="empty">
      No resources to show: every resource in the registry has <code>hidden: true</code> in
      <code>admin</code>.
    </p>`;
  const counts = await countTexts(
    context,
    groups.flatMap(([, resources]) => resources),
  );
  const sections = groups.map(([group, resources], index) => {
    const rows = resources.map((resource) => row(resource, counts.get(resource) ?? UNKNOWN));
    return html`<section class="group" aria-labelledby="group-${index + 1}">
      <h2 id="group-${index + 1}">${group === '' ? 'Records' : group}</h2>
      <table class="models" aria-labelledby="group-${index + 1}">
        <tbody>
          ${rows}
        </tbody>
      </table>
    </section>`;
  });
  return html`<div class="groups">${sections}</div>`;
}

/** The labels of the changed records. Deleted records have none, and those that cannot be read in time are left out. */
const labelsOfChanged = (context: AdminContext, changes: readonly LabeledRecord[]): Promise<RecordLabels> =>
  labelsFor(
    changes.map(({ fields }) => [
      context.resources.get(textOfField(fields, 'model') ?? ''),
      textOfField(fields, 'record'),
    ]),
    async (resource, ids) => {
      const work = context.browsing.labelsOf(resource, ids);
      return (await loadOptional(context, `the names of ${resource.name}`, work)) ?? new Map();
    },
  );

/** The changed record, with a link if it exists and the admin area shows it. */
function changedRecord(
  change: HistoryChange,
  labels: RecordLabels,
  nameOf: (change: HistoryChange) => string,
): Html {
  const { resource, model, record: key } = change;
  const label = labels(resource, key);
  const record: Content =
    label === undefined
      ? shortened(nameOf(change), 60)
      : html`<a href="${links.record(model, key)}">${shortened(label, 60)}</a>`;
  return html`${record !== '' && html`${record} `}in ${resource?.title ?? model}`;
}

function changeRow(context: AdminContext, change: LabeledRecord, record: Html): Content[] {
  const { id, fields } = change;
  const [source = '', action = ''] = [SOURCE_COLUMN, 'action'].map((key) => textOfField(fields, key) ?? '');
  const link = links.record(context.history.name, id);
  return [
    html`<a href="${link}">${moment(textOfField(fields, 'at') ?? '')}</a>`,
    textOfField(fields, 'user_name') ?? NOTHING,
    sourceLabel(source),
    html`${actionLabel(action)} ${record}`,
  ];
}

async function changeTable(context: AdminContext, changes: readonly LabeledRecord[]): Promise<Html> {
  const labels = await labelsOfChanged(context, changes);
  const read = changes.map((entry) => [entry, changeOf(entry, context)] as const);
  const nameOf = formerNames(read.map(([, change]) => change));
  const rows = read.map(([entry, change]) =>
    changeRow(context, entry, changedRecord(change, labels, nameOf)),
  );
  return html`${table(['When', 'Who', 'Where', 'What'], rows, { labelledBy: 'latest' })}
    <p><a href="${links.list(context.history.name)}">All changes</a></p>`;
}

/** The section with the latest changes. */
async function showLatest(context: AdminContext): Promise<Html> {
  const work = context.browsing.list(context.history, { query: `limit=${LATEST}`, search: '' });
  const page = await loadOptional(context, 'the latest changes', work);
  const changes = page?.records ?? [];
  const body = !page
    ? html`<p class="nothing">The history cannot be read at the moment. See the log for details.</p>`
    : changes.length === 0
      ? html`<p class="empty">No changes yet. Changes made here and through the API appear here.</p>`
      : await changeTable(context, changes);
  return html`<section class="latest" aria-labelledby="latest">
    <h2 id="latest">Latest changes</h2>
    ${body}
  </section>`;
}

/** Answers with the start page. Its parts load at the same time. */
export async function showDashboard(context: AdminContext): Promise<Reply> {
  const { settings, resources, history } = context;
  const [groups, panels, latest] = await Promise.all([
    showGroups(context),
    context.caller.admin && showPanels(context),
    resources.has(history.name) && showLatest(context),
  ]);
  const users = resources.get(settings.userModel);
  return pageReply(context, {
    title: 'Start',
    kind: 'dashboard',
    actions: html`${users && html`<a class="button" href="${links.list(users.name)}">Users</a>`}
    ${resources.has(history.name) && html`<a class="button" href="${links.list(history.name)}">History</a>`}
    ${resources.has(EVENT.model) && html`<a class="button" href="${links.list(EVENT.model)}">Events</a>`}`,
    body: html`${groups}${panels}${latest}`,
  });
}
