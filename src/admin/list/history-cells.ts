// The cells of the history's list, and the choices of its filters.
import type { Column } from '../../db/schema/model.ts';
import { SOURCE_COLUMN } from '../../resources/definition/system-tables.ts';
import { textOfField, type LabeledRecord } from '../../resources/records/labeled-record.ts';
import type { AdminContext } from '../web/admin-context.ts';
import {
  changeOf,
  columnsOf,
  formerNames,
  loadRecordLabels,
  type HistoryChange,
} from '../history/history-entry.ts';
import { html, type Html } from '../web/html.ts';
import { links } from '../web/admin-links.ts';
import {
  ACTION_LABELS,
  actionLabel,
  SOURCE_LABELS,
  sourceLabel,
  NOTHING,
  shortened,
  shownColumn,
} from '../web/display-text.ts';

/** Maximum changed columns that a cell names. */
const MAX_NAMED_COLUMNS = 3;

/** The possible values of a column of the history, with labels; undefined if any value is possible. */
export function historyChoices(
  { resources, history }: AdminContext,
  { name }: Column,
): readonly Pick<LabeledRecord, 'id' | 'label'>[] | undefined {
  const choices = (texts: Readonly<Record<string, string>>) =>
    Object.entries(texts).map(([id, label]) => ({ id, label }));
  if (name === SOURCE_COLUMN) return choices(SOURCE_LABELS);
  if (name === 'action') return choices(ACTION_LABELS);
  if (name !== 'model') return undefined;
  return [...resources.values()]
    .filter((resource) => resource !== history)
    .map((resource) => ({ id: resource.name, label: resource.title }));
}

/** The action, and for an update the changed columns. */
function actionText(change: HistoryChange): string {
  const done = actionLabel(change.action);
  if (change.action !== 'update') return done;
  const titles = columnsOf(change).map(({ title }) => title);
  const more = titles.length - MAX_NAMED_COLUMNS;
  const named = titles.slice(0, MAX_NAMED_COLUMNS).join(', ');
  return [done, more > 0 ? `${named} and ${more} more` : named].filter((part) => part !== '').join(': ');
}

/**
 * A function that formats the cells of the history's list. A record shows its current label, or the last known one.
 * @param entries the entries of the page; one statement per resource reads the labels of their records
 */
export async function historyCells(
  context: AdminContext,
  entries: readonly LabeledRecord[],
): Promise<(entry: LabeledRecord, column: Column) => Html | string> {
  const changes = new Map(entries.map((entry) => [entry, changeOf(entry, context)]));
  const labelOf = await loadRecordLabels(context, [...changes.values()], false);
  const nameOf = formerNames([...changes.values()]);
  return (entry, column) => {
    const change = changes.get(entry) ?? changeOf(entry, context);
    const { resource, record, model } = change;
    if (column.name === SOURCE_COLUMN) return sourceLabel(textOfField(entry.fields, column.key) ?? '');
    if (column.name === 'action') return actionText(change);
    if (column.name === 'model') return resource?.title ?? model;
    if (column.name !== 'record') return shownColumn(entry, column);
    const label = labelOf(resource, record);
    if (!resource || label === undefined) return shortened(nameOf(change)) || NOTHING;
    return html`<a href="${links.record(resource.name, record)}">${shortened(label)}</a>`;
  };
}
