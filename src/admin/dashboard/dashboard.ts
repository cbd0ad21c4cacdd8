import type { Reply } from '../../http/message/message.ts';
import type { AdminResource } from '../../resources/serve/admin-resource.ts';
import { textOfField, type RecordEntry } from '../../resources/records/browsing.ts';
import { withTimeout } from '../../resources/definition/panel.ts';
import type { AdminContext } from '../web/admin-context.ts';
import { changeOf, formerName } from '../history/history-entry.ts';
import { html, type Content, type Html } from '../web/html.ts';
import { pageReply } from '../web/layout.ts';
import { links } from '../web/admin-links.ts';
import { showPanels } from './dashboard-panels.ts';
import { counted, doneText, doorText, grouped, moment, NOTHING, shortened } from '../web/display-text.ts';
import type { AdminRequest } from '../web/admin-request.ts';

/** Milliseconds that a part of the page is waited for; the page comes without what takes longer. */
const PATIENCE = 3_000;
/** How many changes are shown. */
const LATEST = 10;

/** What a part of the page needs, or undefined when it is not to be had, which the log then explains. */
async function attempt<T>({ logger }: AdminContext, what: string, work: Promise<T>): Promise<T | undefined> {
  try {
    return await withTimeout(PATIENCE, work);
  } catch (error) {
    logger.warn({ message: `the start page is without ${what}: ${(error as Error).message}` });
    return undefined;
  }
}

/** The resources under their headings, in the order of the registry. */
function groupsOf(context: AdminContext): [group: string, resources: AdminResource[]][] {
  const groups = new Map<string, AdminResource[]>();
  for (const resource of context.resources.values()) {
    if (resource === context.history) continue;
    groups.set(resource.group, [...(groups.get(resource.group) ?? []), resource]);
  }
  return [...groups];
}

async function countText(context: AdminContext, resource: AdminResource): Promise<string> {
  const work = context.browsing.count(resource, { query: '', search: '' });
  const found = await attempt(context, `the count of ${resource.name}`, work);
  if (!found) return 'unknown';
  return found.isExact ? counted(found.count, 'record') : `about ${grouped(found.count)} records`;
}

async function row(context: AdminContext, resource: AdminResource): Promise<Html> {
  const { name, title, may } = resource;
  return html`<tr>
    <th scope="row"><a href="${links.list(name)}">${title}</a></th>
    <td class="number">${await countText(context, resource)}</td>
    <td>
      ${may.has('add') && html`<a href="${links.action(name, 'add')}" aria-label="Add to ${title}">Add</a>`}
    </td>
  </tr>`;
}

async function showGroups(context: AdminContext): Promise<Html> {
  const groups = groupsOf(context);
  if (groups.length === 0)
    return html`<p class="empty">
      No resource is shown here: each of the registry has <code>hidden: true</code> in its <code>admin</code>.
    </p>`;
  const sections = groups.map(async ([group, resources], index) => {
    const rows = await Promise.all(resources.map((resource) => row(context, resource)));
    return html`<section class="group" aria-labelledby="group-${index + 1}">
      <h2 id="group-${index + 1}">${group === '' ? 'Records' : group}</h2>
      <table class="models" aria-labelledby="group-${index + 1}">
        <tbody>
          ${rows}
        </tbody>
      </table>
    </section>`;
  });
  return html`<div class="groups">${await Promise.all(sections)}</div>`;
}

/** What the records of some changes are called, by model and key; those that are gone have no name any more. */
async function labelsOf(
  context: AdminContext,
  changes: readonly RecordEntry[],
): Promise<Map<string, string>> {
  const keys = new Map<AdminResource, Set<string>>();
  for (const { members } of changes) {
    const resource = context.resources.get(textOfField(members, 'model') ?? '');
    const key = textOfField(members, 'record');
    if (resource && key !== null) keys.set(resource, (keys.get(resource) ?? new Set()).add(key));
  }
  const labels = new Map<string, string>();
  await Promise.all(
    [...keys].map(async ([resource, ids]) => {
      const work = context.browsing.labelsOf(resource, ids);
      const names = await attempt(context, `the names of ${resource.name}`, work);
      for (const [id, label] of names ?? []) labels.set(`${resource.name} ${id}`, label);
    }),
  );
  return labels;
}

/** The record that was changed: with a link, unless it is gone or is not shown in the admin area. */
function changedRecord(context: AdminContext, entry: RecordEntry, labels: ReadonlyMap<string, string>): Html {
  const change = changeOf(entry, context);
  const { resource, model, record: key } = change;
  const label = labels.get(`${model} ${key}`);
  const record: Content =
    label === undefined
      ? shortened(formerName(change), 60)
      : html`<a href="${links.record(model, key)}">${shortened(label, 60)}</a>`;
  return html`${record !== '' && html`${record} `}in ${resource?.title ?? model}`;
}

function changeRow(context: AdminContext, change: RecordEntry, labels: ReadonlyMap<string, string>): Html {
  const { id, members } = change;
  const [door = '', action = ''] = ['door', 'action'].map((key) => textOfField(members, key) ?? '');
  return html`<tr>
    <td data-label="When">
      <a href="${links.record(context.history.name, id)}">${moment(textOfField(members, 'at') ?? '')}</a>
    </td>
    <td data-label="Who">${textOfField(members, 'user_name') ?? NOTHING}</td>
    <td data-label="Where">${doorText(door)}</td>
    <td data-label="What">${doneText(action)} ${changedRecord(context, change, labels)}</td>
  </tr>`;
}

function changeTable(
  context: AdminContext,
  changes: readonly RecordEntry[],
  labels: ReadonlyMap<string, string>,
): Html {
  return html`<table class="records" aria-labelledby="latest">
      <thead>
        <tr>
          <th scope="col">When</th>
          <th scope="col">Who</th>
          <th scope="col">Where</th>
          <th scope="col">What</th>
        </tr>
      </thead>
      <tbody>
        ${changes.map((change) => changeRow(context, change, labels))}
      </tbody>
    </table>
    <p><a href="${links.list(context.history.name)}">All changes</a></p>`;
}

/** What has been done lately, by whom. */
async function showLatest(context: AdminContext): Promise<Html> {
  const work = context.browsing.list(context.history, { query: `limit=${LATEST}`, search: '' });
  const page = await attempt(context, 'the latest changes', work);
  const changes = page?.entries ?? [];
  const body = !page
    ? html`<p class="nothing">The log of changes cannot be read just now.</p>`
    : changes.length === 0
      ? html`<p class="empty">
          Nothing has been changed yet. What is done here and through the API will be listed here.
        </p>`
      : changeTable(context, changes, await labelsOf(context, changes));
  return html`<section class="latest" aria-labelledby="latest">
    <h2 id="latest">Latest changes</h2>
    ${body}
  </section>`;
}

/** The start page: what there is, the panels of the resource file, and what has happened lately. */
export async function showDashboard(context: AdminContext, adminRequest: AdminRequest): Promise<Reply> {
  const [groups, panels, latest] = await Promise.all([
    showGroups(context),
    showPanels(context),
    showLatest(context),
  ]);
  const { settings, resources, history } = context;
  const users = resources.get(settings.userModel);
  return pageReply(adminRequest, {
    title: 'Start',
    kind: 'dashboard',
    actions: html`${users && html`<a class="button" href="${links.list(users.name)}">Users</a>`}
      <a class="button" href="${links.list(history.name)}">History</a>`,
    body: html`${groups}${panels}${latest}`,
  });
}
