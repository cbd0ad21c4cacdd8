import { TimeoutError, PanelFault, type Panel, type PanelTable } from '../../resources/definition/panel.ts';
import { chart, readable } from './chart.ts';
import type { AdminContext } from '../web/admin-context.ts';
import { attributes, html, type Content, type Html } from '../web/html.ts';
import { NOTHING } from '../web/display-text.ts';

/** A text of at most so many characters is shown as large as a number. */
const FIGURE = 24;

type Cell = PanelTable['rows'][number][number];

/** Numbers stand to the right, also those that come from the database as text. */
const isNumber = (cell: Cell): boolean =>
  typeof cell === 'number' || (typeof cell === 'string' && /^-?\d+(\.\d+)?$/.test(cell));

function shownCell(cell: Cell): Content {
  if (cell === null) return NOTHING;
  if (typeof cell === 'boolean') return cell ? 'Yes' : 'No';
  return typeof cell === 'number' ? readable(cell) : cell;
}

function table({ columns, rows }: PanelTable): Html {
  if (rows.length === 0) return html`<p class="empty">There is nothing to show yet.</p>`;
  const marks = columns.map((_, at) => {
    const cells = rows.map((row) => row[at] ?? null).filter((cell) => cell !== null);
    return cells.length > 0 && cells.every(isNumber) ? 'number' : undefined;
  });
  return html`<table class="records">
    <thead>
      <tr>
        ${columns.map((name, at) => html`<th scope="col" ${attributes({ class: marks[at] })}>${name}</th>`)}
      </tr>
    </thead>
    <tbody>
      ${rows.map(
        (row) =>
          html`<tr>
            ${row.map((cell, at) => {
              const mark = attributes({ class: marks[at], 'data-label': columns[at] });
              return at === 0
                ? html`<th scope="row" ${mark}>${shownCell(cell)}</th>`
                : html`<td${mark}>${shownCell(cell)}</td>`;
            })}
          </tr>`,
      )}
    </tbody>
  </table>`;
}

/** What stands in the place of a panel that cannot be shown; the cause is for the log alone. */
function excuse(error: unknown): string {
  if (error instanceof TimeoutError) return 'This took too long. Reload the page to try again.';
  if (error instanceof PanelFault) return 'This panel cannot be shown as it is. The log says why.';
  return 'This could not be loaded. The log says why.';
}

async function content({ panels, logger }: AdminContext, panel: Panel, id: string): Promise<Html> {
  try {
    const found = await panels.load(panel);
    if (typeof found === 'number') return html`<p class="figure">${readable(found)}</p>`;
    if (typeof found === 'string')
      return html`<p${attributes({ class: found.length <= FIGURE && 'figure' })}>${found}</p>`;
    return 'series' in found ? chart(found, panel.title, id) : table(found);
  } catch (error) {
    // What an author's function throws may be anything.
    const cause = error instanceof Error ? error.message : String(error);
    const stack = error instanceof Error && !(error instanceof TimeoutError || error instanceof PanelFault);
    logger.error({
      message: 'a panel could not be shown',
      panel: panel.title,
      error: cause,
      ...(stack ? { stack: error.stack } : {}),
    });
    return html`<p class="nothing">${excuse(error)}</p>`;
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

/** The panels of the resource file, all loaded at once; one that fails has a few words in its place. */
export async function showPanels(context: AdminContext): Promise<Html | false> {
  const { list } = context.panels;
  if (list.length === 0) return false;
  const sections = await Promise.all(list.map((panel, index) => section(context, panel, index)));
  return html`<div class="panels">${sections}</div>`;
}
