// The view of one change: who did what and when, and the values before and after.
import type { Column } from '../../db/schema/model.ts';
import { textOfColumn, textOfField, type LabeledRecord } from '../../resources/records/labeled-record.ts';
import { HISTORY, SOURCE_COLUMN } from '../../resources/definition/system-tables.ts';
import { sizeKey } from '../../query/labels/preview-sql.ts';
import type { AdminAction } from '../../resources/definition/resource.ts';
import type { JsonFields } from '../../resources/records/json-fields.ts';
import type { AdminContext } from '../web/admin-context.ts';
import { editableColumns } from '../fields/form-field.ts';
import {
  changeOf,
  changedRecord,
  formerNames,
  columnsOf,
  labelsOfChanged,
  valuesToPutBack,
  type HistoryChange,
} from './history-entry.ts';
import type { RecordLabels } from '../web/record-labels.ts';
import { html, type Content, type Html } from '../web/html.ts';
import { phrase, t, type PlainCode } from '../web/language.ts';
import { LinkParameters, links } from '../web/admin-links.ts';
import { timeZone } from '../web/presentation.ts';
import {
  actionLabels,
  emptyText,
  nothing,
  sourceLabels,
  actionLabel,
  capitalized,
  moment,
  shownColumn,
  shownValue,
  sourceLabel,
} from '../web/display-text.ts';

/** Maximum characters of a text that are shown. */
const MAX_SHOWN = 2000;

const SOURCE_PHRASES: Readonly<Record<string, PlainCode>> = {
  api: 'throughApi',
  admin: 'inAdminArea',
  command: 'fromCommandLine',
};

export const actionTitle = ({ action }: HistoryChange): string => capitalized(actionLabel(action));

/** A text. If it is truncated, a link leads to the whole change. */
function shownText(column: Column, text: string | null, size: string | null, change: HistoryChange): Content {
  if (text === null || (size === null && text.length <= MAX_SHOWN)) return shownValue(column, text);
  const whole = links.download(HISTORY.model, change.id);
  const beginning = text.slice(0, MAX_SHOWN).toWellFormed();
  const label = size === null ? t('truncated') : t('truncatedOf', { bytes: Number(size) });
  return html`${beginning} … <a href="${whole}">${label}</a>`;
}

/** A value of a change. A foreign key shows the label of its record, while that exists. */
function valueCell(
  column: Column,
  fields: JsonFields,
  change: HistoryChange,
  context: AdminContext,
  labels: RecordLabels,
): Content {
  if (!fields.has(column.key)) return nothing();
  const text = textOfColumn(fields, column);
  const target = column.references && context.resources.get(column.references.name);
  if (text === '') return emptyText();
  if (text === null || !column.references)
    return shownText(column, text, textOfField(fields, sizeKey(column)), change);
  const label = labels(target, text);
  return target && label !== undefined
    ? html`<a href="${links.record(target.name, text)}">${label}</a>`
    : `#${text}`;
}

/** The table of a change's columns, with the values before and after. */
function valueTable(change: HistoryChange, context: AdminContext, labels: RecordLabels): Html {
  const { resource, action, before, after } = change;
  const columns = columnsOf(change);
  const isUpdate = action === 'update';
  if (!resource) return html`<p class="hint">${t('modelNotShown', { model: change.model })}</p>`;
  if (columns.length === 0)
    return html`<p class="hint">${t(isUpdate ? 'noColumnChanged' : 'noColumnHasValue')}</p>`;
  const heads = (
    [
      [t('before'), before, 'del'],
      [t('after'), after, 'ins'],
    ] as const
  ).filter(([, , kind]) => isUpdate || (action === 'delete') === (kind === 'del'));
  const cell = (column: Column, [head, fields, kind]: (typeof heads)[number]): Html => {
    const value = valueCell(column, fields, change, context, labels);
    const marked = !isUpdate ? value : kind === 'del' ? html`<del>${value}</del>` : html`<ins>${value}</ins>`;
    return html`<td data-label="${isUpdate ? head : t('value')}" class="value">${marked}</td>`;
  };
  return html`<table class="records changes">
    <thead>
      <tr>
        <th scope="col">${t('column')}</th>
        ${heads.map(([head]) => html`<th scope="col">${isUpdate ? head : t('value')}</th>`)}
      </tr>
    </thead>
    <tbody>
      ${columns.map(
        (column) =>
          html`<tr>
            <th scope="row">${column.title}</th>
            ${
              column.isPassword
                ? html`<td colspan="${heads.length}">${t('changed')}</td>`
                : heads.map((head) => cell(column, head))
            }
          </tr>`,
      )}
    </tbody>
  </table>`;
}

/** Who made the change, with a link if the user still exists. */
export function author(
  { user }: HistoryChange,
  { resources, settings }: AdminContext,
  labels: RecordLabels,
): Content {
  if (!user) return t('system');
  const users = resources.get(settings.userModel);
  return users && labels(users, user.key) !== undefined
    ? html`<a href="${links.record(users.name, user.key)}">${user.name}</a>`
    : user.name;
}

/** What was done, by whom, through what and when, in one line. */
export function summary(change: HistoryChange, context: AdminContext, labels: RecordLabels): Html {
  const source = SOURCE_PHRASES[change.source];
  const facts = {
    action: actionTitle(change),
    source: source === undefined ? change.source : t(source),
    time: html`${moment(change.at)}${timeZone() === 'UTC' && ' UTC'}`,
  };
  return change.user
    ? phrase('changeBy', { ...facts, user: author(change, context, labels) })
    : phrase('changeOfSystem', facts);
}

/** Why the database itself made a change. */
function causeText({ cause }: HistoryChange, { resources }: AdminContext): Html | false {
  if (!cause) return false;
  const { model, record } = cause;
  const resource = resources.get(model);
  const name = record === '' ? t('anotherRecord') : `${resource?.title ?? model} #${record}`;
  const isLinked = resource && record !== '';
  const named = isLinked ? html`<a href="${links.part(model, record, 'history')}">${name}</a>` : name;
  return html`<p class="hint">${phrase('changeOfDatabase', { record: named })}</p>`;
}

/** What an entry says of its request, and a link to the other changes of the operation. */
export function requestLine({ batch, roles, address, request }: HistoryChange, history: string): Html {
  const texts = [
    address !== null && t('fromAddress', { address }),
    roles !== null && t('withRoles', { roles }),
    request !== null && t('inRequest', { request }),
  ].filter((text) => text !== false);
  const all = links.list(history, new LinkParameters([{ name: 'batch', value: batch ?? '' }]));
  return html`<p class="hint">
    ${capitalized(texts.join(', '))}${texts.length > 0 && '.'}
    ${batch !== null && html`<a href="${all}">${t('allChangesOfOperation')}</a>`}
  </p>`;
}

/** The right that reversing an action needs. */
export const REVERSE: Readonly<Record<string, AdminAction>> = {
  create: 'delete',
  update: 'change',
  delete: 'add',
};

/** Whether the entry offers an undo: of a deletion, or of an operation on several records. */
export const mayUndo = ({ resource, action, batch }: HistoryChange): boolean =>
  (batch !== null || action === 'delete') && resource?.may.has(REVERSE[action] ?? 'change') === true;

export const undoButton = (change: HistoryChange, { history }: AdminContext): Html | false =>
  mayUndo(change) &&
  html`<a class="button" href="${links.part(history.name, change.id, 'undo')}">${t('undo')}</a>`;

/** A link to the form of the record, filled in with the values of the change. */
function putBackLink(change: HistoryChange, labels: RecordLabels): Html | false {
  const { resource, action, record, id } = change;
  if (!resource?.may.has('change') || action === 'delete') return false;
  if (labels(resource, record) === undefined) return false;
  const values = valuesToPutBack(change);
  if (!editableColumns(resource, false).some(({ key }) => values.has(key))) return false;
  const which = action === 'update' && html` <span class="hint">${t('thoseBeforeChange')}</span>`;
  return html`<p>
    <a href="${links.record(resource.name, record)}?_entry=${id}">${t('putValuesBack')}</a>${which}
  </p>`;
}

const section = (change: HistoryChange, context: AdminContext, labels: RecordLabels, content: Html): Html =>
  html`<section class="change">
    <h2>
      ${summary(change, context, labels)}
      <a href="${links.record(context.history.name, change.id)}" class="hint">#${change.id}</a>
    </h2>
    ${causeText(change, context)} ${content} ${putBackLink(change, labels)}
  </section>`;

/** One change with its values. */
export const changeView = (change: HistoryChange, context: AdminContext, labels: RecordLabels): Html =>
  section(change, context, labels, valueTable(change, context, labels));

/** One change without its values, for the end of a long page. */
export function changeLine(change: HistoryChange, context: AdminContext, labels: RecordLabels): Html {
  const link = links.record(context.history.name, change.id);
  return section(
    change,
    context,
    labels,
    html`<p class="hint">${t('valuesDoNotFit')} <a href="${link}">${t('showThem')}</a></p>`,
  );
}

/** Maximum changed columns that a cell names. */
const MAX_NAMED_COLUMNS = 3;

/** The possible values of a column of the history, with labels; undefined if any value is possible. */
export function historyChoices(
  { resources, history }: AdminContext,
  { name }: Column,
): readonly Pick<LabeledRecord, 'id' | 'label'>[] | undefined {
  const choices = (texts: Readonly<Record<string, string>>) =>
    Object.entries(texts).map(([id, label]) => ({ id, label }));
  if (name === SOURCE_COLUMN) return choices(sourceLabels());
  if (name === 'action') return choices(actionLabels());
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
  return [done, more > 0 ? t('namedAndMore', { named, more }) : named]
    .filter((part) => part !== '')
    .join(': ');
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
  const labels = await labelsOfChanged(context, [...changes.values()]);
  const nameOf = formerNames([...changes.values()]);
  return (entry, column) => {
    const change = changes.get(entry) ?? changeOf(entry, context);
    if (column.name === SOURCE_COLUMN) return sourceLabel(change.source);
    if (column.name === 'action') return actionText(change);
    if (column.name === 'model') return change.resource?.title ?? change.model;
    return column.name === 'record'
      ? changedRecord(change, labels, nameOf) || nothing()
      : shownColumn(entry, column);
  };
}
