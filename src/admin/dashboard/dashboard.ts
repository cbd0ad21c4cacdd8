// The start page: all lists with their counts, the panels of the registry, and the latest changes.
import type { Reply } from '../../http/message/message.ts';
import { EVENT } from '../../resources/definition/system-tables.ts';
import type { AdminView } from '../../resources/access/admin-view.ts';
import type { AdminContext } from '../web/admin-context.ts';
import { recentRecords, showLatest } from '../history/latest-changes.ts';
import { attributes, html, type Content, type Html } from '../web/html.ts';
import { loadForEach } from '../fields/optional-part.ts';
import { recordLinks, resourceRow, table, type RecordLink } from '../web/widgets.ts';
import { pageReply } from '../web/layout.ts';
import { links } from '../web/admin-links.ts';
import { phrase, t } from '../web/language.ts';
import { groupsOf } from '../web/list-menu.ts';
import { nothing, countedRecords } from '../web/display-text.ts';
import { isClientGone } from '../../db/lanes/requester.ts';
import type { Panel, PanelTable } from '../../resources/definition/panel.ts';
import { PanelFault, TimeoutError } from '../web/panel-data.ts';
import { language } from '../web/presentation.ts';
import { shownNumber } from '../web/read-text.ts';
import { chart, formatNumber } from './chart.ts';

/** A text of at most this many characters is shown in large type, like a number. */
const MAX_FIGURE = 24;

type Cell = PanelTable['rows'][number][number];

/** Numbers are right-aligned, including those that the database returns as text. */
const isNumber = (cell: Cell): boolean =>
  typeof cell === 'number' || (typeof cell === 'string' && /^-?\d+(\.\d+)?$/.test(cell));

function shownCell(cell: Cell, isNumeric = isNumber(cell)): Content {
  if (cell === null) return nothing();
  if (typeof cell === 'boolean') return t(cell ? 'yes' : 'no');
  if (typeof cell === 'number') return formatNumber(cell);
  return isNumeric ? shownNumber(cell, language()) : cell;
}

function panelTable({ columns, rows }: PanelTable): Html {
  if (rows.length === 0) return html`<p class="empty">${t('noDataYet')}</p>`;
  const numeric = columns.map((_, at) => {
    const cells = rows.map((row) => row[at] ?? null).filter((cell) => cell !== null);
    return cells.length > 0 && cells.every(isNumber);
  });
  return table(
    columns,
    rows.map((row) => row.map((cell, at) => shownCell(cell, numeric[at]))),
    { numeric },
  );
}

/** The text in place of a panel that failed. Only the log has the cause. */
function failureText(error: unknown): string {
  if (error instanceof TimeoutError) return t('panelTooSlow');
  return t(error instanceof PanelFault ? 'panelFaulty' : 'panelNotLoaded');
}

async function content(context: AdminContext, panel: Panel, id: string): Promise<Html> {
  const { panels, request } = context;
  try {
    const found = await panels.load(panel, request.requester);
    if (typeof found === 'number') return html`<p class="figure">${formatNumber(found)}</p>`;
    if (typeof found === 'string')
      return html`<p${attributes({ class: found.length <= MAX_FIGURE && 'figure' })}>${shownCell(found)}</p>`;
    return 'series' in found ? chart(found, panel.title, id) : panelTable(found);
  } catch (error) {
    if (isClientGone(error)) throw error;
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

/** Loads all panels at the same time. */
async function showPanels(context: AdminContext): Promise<Html | false> {
  const sections = await Promise.all(
    context.panels.list.map((panel, index) => section(context, panel, index)),
  );
  return sections.length > 0 && html`<div class="panels">${sections}</div>`;
}

async function showGroups(context: AdminContext): Promise<Html> {
  const groups = groupsOf(context);
  if (groups.length === 0)
    return html`<p class="empty">
      ${phrase('allHidden', { hidden: html`<code>hidden: true</code>`, admin: html`<code>admin</code>` })}
    </p>`;
  const all = groups.flatMap(({ resources }) => resources);
  const counts = await loadForEach(context, 'count', all, (resource) =>
    context.browsing.count(resource, { query: '', search: '' }),
  );
  const row = (resource: AdminView): Html => {
    const { name, title } = resource;
    const count = counts.get(resource);
    return resourceRow(
      resource,
      html`<a href="${links.list(name)}">${title}</a>`,
      count ? countedRecords(count) : t('unknown'),
      links.action(name, 'add'),
    );
  };
  return html`<div class="groups">
    ${groups.map(
      ({ title, resources }, index) =>
        html`<section class="group" aria-labelledby="group-${index + 1}">
          <h2 id="group-${index + 1}">${title}</h2>
          <table class="models" aria-labelledby="group-${index + 1}">
            <tbody>
              ${resources.map(row)}
            </tbody>
          </table>
        </section>`,
    )}
  </div>`;
}

/** The section with the caller's recent records. */
function recentSection(records: readonly RecordLink[]): Html | false {
  return (
    records.length > 0 &&
    html`<section class="recent" aria-labelledby="recent">
      <h2 id="recent">${t('recentRecords')}</h2>
      ${recordLinks(records)}
    </section>`
  );
}

/** Answers with the start page. Its parts load at the same time. */
export async function showDashboard(context: AdminContext): Promise<Reply> {
  const { settings, resources, history } = context;
  const [groups, panels, recent, latest] = await Promise.all([
    showGroups(context),
    context.caller.admin && showPanels(context),
    recentRecords(context),
    resources.has(history.name) && showLatest(context),
  ]);
  const users = resources.get(settings.userModel);
  return pageReply(context, {
    title: t('start'),
    kind: 'dashboard',
    actions: html`${[users, resources.get(history.name), resources.get(EVENT.model)].map(
      (one) => one && html`<a class="button" href="${links.list(one.name)}">${one.title}</a> `,
    )}`,
    body: html`${groups}${panels}${recentSection(recent)}${latest}`,
  });
}
