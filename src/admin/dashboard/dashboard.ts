// The start page: all lists with their counts, the panels of the registry, and the latest changes.
import type { Reply } from '../../http/message/message.ts';
import type { AdminView } from '../../resources/access/admin-view.ts';
import { EVENT } from '../../resources/definition/system-tables.ts';
import type { LabeledRecord } from '../../resources/records/labeled-record.ts';
import type { AdminContext } from '../web/admin-context.ts';
import { changeOf, changedRecord, formerNames, labelsOfChanged } from '../history/history-entry.ts';
import { attributes, html, type Content, type Html } from '../web/html.ts';
import { PART_TIMEOUT, loadOptional } from '../fields/optional-part.ts';
import { resourceRow, table } from '../web/widgets.ts';
import { pageReply } from '../web/layout.ts';
import { links } from '../web/admin-links.ts';
import { NOTHING, actionLabel, countedRecords, moment, sourceLabel } from '../web/display-text.ts';
import { isClientGone } from '../../db/lanes/requester.ts';
import type { Logger } from '../../http/observability/logger.ts';
import type { Panel, PanelTable } from '../../resources/definition/panel.ts';
import { PanelFault, TimeoutError } from '../web/panel-data.ts';
import { chart, formatNumber } from './chart.ts';

/** A text of at most this many characters is shown in large type, like a number. */
const MAX_FIGURE = 24;

type Cell = PanelTable['rows'][number][number];

/** Numbers are right-aligned, including those that the database returns as text. */
const isNumber = (cell: Cell): boolean =>
  typeof cell === 'number' || (typeof cell === 'string' && /^-?\d+(\.\d+)?$/.test(cell));

function shownCell(cell: Cell): Content {
  if (cell === null) return NOTHING;
  if (typeof cell === 'boolean') return cell ? 'Yes' : 'No';
  return typeof cell === 'number' ? formatNumber(cell) : cell;
}

function panelTable({ columns, rows }: PanelTable): Html {
  if (rows.length === 0) return html`<p class="empty">No data yet.</p>`;
  const numeric = columns.map((_, at) => {
    const cells = rows.map((row) => row[at] ?? null).filter((cell) => cell !== null);
    return cells.length > 0 && cells.every(isNumber);
  });
  return table(
    columns,
    rows.map((row) => row.map(shownCell)),
    { numeric },
  );
}

/** The text in place of a panel that failed. The cause is only logged. */
function failureText(error: unknown): string {
  if (error instanceof TimeoutError) return 'This panel took too long to load. Reload the page to try again.';
  if (error instanceof PanelFault)
    return 'This panel returned something that cannot be shown. See the log for details.';
  return 'This panel could not be loaded. See the log for details.';
}

/** Errors that are logged already: all requests that wait for a panel get the same error object. */
const logged = new WeakSet<Error>();

/** @param error a function of the registry may throw any value */
function logFailure(logger: Logger, { title }: Panel, error: unknown): void {
  if (error instanceof Error && logged.has(error)) return;
  if (error instanceof Error) logged.add(error);
  const hasStack = error instanceof Error && !(error instanceof TimeoutError || error instanceof PanelFault);
  logger.error({
    message: 'a panel could not be shown',
    panel: title,
    error: error instanceof Error ? error.message : String(error),
    ...(hasStack ? { stack: error.stack } : {}),
  });
}

async function content(context: AdminContext, panel: Panel, id: string): Promise<Html> {
  const { panels, logger, request } = context;
  try {
    const found = await panels.load(panel, request.requester);
    if (typeof found === 'number') return html`<p class="figure">${formatNumber(found)}</p>`;
    if (typeof found === 'string')
      return html`<p${attributes({ class: found.length <= MAX_FIGURE && 'figure' })}>${found}</p>`;
    return 'series' in found ? chart(found, panel.title, id) : panelTable(found);
  } catch (error) {
    if (isClientGone(error)) throw error;
    logFailure(logger, panel, error);
    return html`<p class="nothing">${failureText(error)}</p>`;
  }
}

async function section(context: AdminContext, panel: Panel, index: number): Promise<Html> {
  const id = `panel-${index + 1}`;
  const { title, text } = panel;
  return html`<section class="panel" aria-labelledby="${id}">
    <h2 id="${id}">${title}</h2>
    ${text && html`<p class="hint">${text}</p>`} ${await content(context, panel, id)}
  </section>`;
}

/** Loads all panels at the same time. A panel that fails shows a message instead. */
export async function showPanels(context: AdminContext): Promise<Html | false> {
  const { list } = context.panels;
  if (list.length === 0) return false;
  const sections = await Promise.all(list.map((panel, index) => section(context, panel, index)));
  return html`<div class="panels">${sections}</div>`;
}

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
      const left = Math.ceil(until - performance.now());
      if (left <= 0) {
        omitted.push(resource.name);
        continue;
      }
      const work = context.browsing.count(resource, { query: '', search: '' });
      const found = await loadOptional(context, `the count of ${resource.name}`, work, left);
      if (found) texts.set(resource, countedRecords(found));
    }
  };
  await Promise.all(Array.from({ length: COUNTS_AT_ONCE }, countNext));
  if (omitted.length > 0)
    context.logger.warn({
      message: `a page omits the counts of ${omitted.join(', ')}: those of the models before took ${PART_TIMEOUT} ms`,
    });
  return texts;
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
    const rows = resources.map((resource) => {
      const { name, title } = resource;
      const link = html`<a href="${links.list(name)}">${title}</a>`;
      return resourceRow(resource, link, counts.get(resource) ?? 'unknown', links.action(name, 'add'));
    });
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

async function changeTable(context: AdminContext, entries: readonly LabeledRecord[]): Promise<Html> {
  const { browsing, history } = context;
  const changes = entries.map((entry) => changeOf(entry, context));
  // Labels that cannot be read in time are left out.
  const labels = await labelsOfChanged(context, changes, async (resource, ids) => {
    const work = browsing.labelsOf(resource, ids);
    return (await loadOptional(context, `the names of ${resource.name}`, work)) ?? new Map();
  });
  const nameOf = formerNames(changes);
  const rows = changes.map((change): Content[] => {
    const record = changedRecord(change, labels, nameOf, 60);
    return [
      html`<a href="${links.record(history.name, change.id)}">${moment(change.at)}</a>`,
      change.user?.name ?? NOTHING,
      sourceLabel(change.source),
      html`${actionLabel(change.action)} ${record !== '' && html`${record} `}in
      ${change.resource?.title ?? change.model}`,
    ];
  });
  return html`${table(['When', 'Who', 'Where', 'What'], rows, { labelledBy: 'latest' })}
    <p><a href="${links.list(history.name)}">All changes</a></p>`;
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
