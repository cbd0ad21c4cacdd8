import type { Column } from '../../db/schema/model.ts';
import { textOfField, type RecordEntry } from '../../resources/records/record-entry.ts';
import type { AdminContext } from '../web/admin-context.ts';
import {
  changeOf,
  columnsOf,
  formerName,
  knownRecords,
  type HistoryChange,
} from '../history/history-entry.ts';
import { html, type Html } from '../web/html.ts';
import { links } from '../web/admin-links.ts';
import { DONE, doneText, DOORS, doorText, NOTHING, shortened, shownColumn } from '../web/display-text.ts';

/** How many columns of a change are named in a list. */
const MOST_NAMED = 3;

/** The values that a column of the log can have, with the words that people read for them; undefined where it may be any. */
export function logChoices(
  { resources, history }: AdminContext,
  { name }: Column,
): readonly Pick<RecordEntry, 'id' | 'label'>[] | undefined {
  const choices = (words: Readonly<Record<string, string>>) =>
    Object.entries(words).map(([id, label]) => ({ id, label }));
  if (name === 'door') return choices(DOORS);
  if (name === 'action') return choices(DONE);
  if (name !== 'model') return undefined;
  return [...resources.values()]
    .filter((resource) => resource !== history)
    .map((resource) => ({ id: resource.name, label: resource.title }));
}

/** What was done, and of a change to which columns. */
function whatText(change: HistoryChange): string {
  const done = doneText(change.action);
  if (change.action !== 'update') return done;
  const titles = columnsOf(change).map(({ title }) => title);
  const more = titles.length - MOST_NAMED;
  const named = titles.slice(0, MOST_NAMED).join(', ');
  return [done, more > 0 ? `${named} and ${more} more` : named].filter((part) => part !== '').join(': ');
}

/**
 * How the cells of the log's list read: in the words of people, and records by what they are called, or were.
 * @param entries those of the list; their records are looked up at once
 */
export async function logCells(
  context: AdminContext,
  entries: readonly RecordEntry[],
): Promise<(entry: RecordEntry, column: Column) => Html | string> {
  const changes = new Map(entries.map((entry) => [entry, changeOf(entry, context)]));
  const known = await knownRecords(context, [...changes.values()], false);
  return (entry, column) => {
    const change = changes.get(entry) ?? changeOf(entry, context);
    const { resource, record, model } = change;
    if (column.name === 'door') return doorText(textOfField(entry.members, column.key) ?? '');
    if (column.name === 'action') return whatText(change);
    if (column.name === 'model') return resource?.title ?? model;
    if (column.name !== 'record') return shownColumn(entry, column);
    const label = known.label(resource, record);
    if (!resource || label === undefined) return shortened(formerName(change)) || NOTHING;
    return html`<a href="${links.record(resource.name, record)}">${shortened(label)}</a>`;
  };
}
