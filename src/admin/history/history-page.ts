// The pages of the history: all changes of a record, and one change. And what the list of the history shows.
import { keyText } from '../../db/schema/composite-key.ts';
import type { Column } from '../../db/schema/model.ts';
import { notFound } from '../../errors.ts';
import type { Reply } from '../../http/message/message.ts';
import { messageOf } from '../../messages.ts';
import { sizeKey } from '../../query/labels/preview-sql.ts';
import type { AdminView } from '../../resources/access/admin-view.ts';
import { HISTORY, SHOWN_SYSTEM_TABLES, SOURCE_COLUMN } from '../../resources/definition/system-tables.ts';
import type { LabeledRecordPage } from '../../resources/records/admin-listing.ts';
import type { JsonFields } from '../../resources/records/json-fields.ts';
import { textOfColumn, textOfField, type LabeledRecord } from '../../resources/records/labeled-record.ts';
import { parseId } from '../../resources/records/read-record.ts';
import { editableColumns } from '../fields/form-field.ts';
import type { AdminContext, RecordContext } from '../web/admin-context.ts';
import { LinkParameters, links } from '../web/admin-links.ts';
import {
  actionLabel,
  actionLabels,
  capitalized,
  emptyText,
  moment,
  nothing,
  shownColumn,
  shownValue,
  sourceLabel,
  sourceLabels,
} from '../web/display-text.ts';
import { html, nextTurn, type Content, type Html } from '../web/html.ts';
import { phrase, t, type PlainCode } from '../web/language.ts';
import { listCrumb, pageReply, recordCrumb } from '../web/layout.ts';
import type { RecordLabels } from '../web/record-labels.ts';
import { timeZone } from '../web/presentation.ts';
import { table } from '../web/widgets.ts';
import {
  changedRecord,
  changeOf,
  columnsOf,
  formerLabel,
  formerName,
  formerNames,
  labelsIn,
  labelsOfChanged,
  mayUndo,
  NO_VALUES,
  valuesToPutBack,
  type HistoryChange,
} from './history-entry.ts';

/** Maximum characters of a text that are shown. */
const MAX_SHOWN = 2000;

const SOURCE_PHRASES: Readonly<Record<string, PlainCode>> = {
  api: 'throughApi',
  admin: 'inAdminArea',
  command: 'fromCommandLine',
};

const actionTitle = ({ action }: HistoryChange): string => capitalized(actionLabel(action));

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
  if (change.unreadable !== undefined) return html`<p class="hint">${change.unreadable}</p>`;
  if (columns.length === 0)
    return html`<p class="hint">${t(isUpdate ? 'noColumnChanged' : 'noColumnHasValue')}</p>`;
  const cell = (column: Column, fields: JsonFields): Content =>
    valueCell(column, fields, change, context, labels);
  const rows = columns.map((column): Content[] => {
    if (column.isPassword) return [column.title, t('changed'), ...(isUpdate ? [''] : [])];
    if (!isUpdate) return [column.title, cell(column, action === 'delete' ? before : after)];
    return [column.title, html`<del>${cell(column, before)}</del>`, html`<ins>${cell(column, after)}</ins>`];
  });
  const titles = [t('column'), ...(isUpdate ? [t('before'), t('after')] : [t('value')])];
  return table(titles, rows, { className: 'records changes' });
}

/** Who made the change, with a link if the user still exists. */
function author(
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
function summary(change: HistoryChange, context: AdminContext, labels: RecordLabels): Html {
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
function requestLine({ batch, roles, address, request }: HistoryChange, history: string): Html {
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

const undoButton = (change: HistoryChange, { history }: AdminContext): Html | false =>
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

/** One change. @param hasValues without them, a link leads to its page */
function changeSection(
  change: HistoryChange,
  context: AdminContext,
  labels: RecordLabels,
  hasValues = true,
): Html {
  const link = links.record(context.history.name, change.id);
  return html`<section class="change">
    <h2>
      ${summary(change, context, labels)}
      <a href="${link}" class="hint">#${change.id}</a>
    </h2>
    ${causeText(change, context)}
    ${
      hasValues
        ? valueTable(change, context, labels)
        : html`<p class="hint">${t('valuesDoNotFit')} <a href="${link}">${t('showThem')}</a></p>`
    }
    ${putBackLink(change, labels)}
  </section>`;
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
  const value = more > 0 ? t('namedAndMore', { named, more }) : named;
  return value === '' ? done : t('labeled', { label: done, value });
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
    const change = changes.get(entry);
    if (!change) return shownColumn(entry, column);
    if (column.name === SOURCE_COLUMN) return sourceLabel(change.source);
    if (column.name === 'action') return actionText(change);
    if (column.name === 'model') return change.title;
    return column.name === 'record'
      ? changedRecord(change, labels, nameOf) || nothing()
      : shownColumn(entry, column);
  };
}

const PAGE_SIZE = 50;
/** After this many characters, a page shows the remaining changes without their values. */
const LONGEST_PAGE = 1_000_000;
/** Maximum length of the link (characters). The service accepts addresses of up to 8,192 bytes. */
const LONGEST_LINK = 6000;

/** A link to a form with the values of the deleted record, if they fit into an address. */
function addAgain(resource: AdminView, { before, action, unreadable }: HistoryChange): Html | false {
  if (action !== 'delete' || unreadable !== undefined || !resource.may.has('add')) return false;
  const columns = editableColumns(resource, true);
  if (columns.some((column) => before.has(sizeKey(column)))) return false;
  const values = columns.flatMap((column) => {
    const text = textOfColumn(before, column);
    return text === null ? [] : [{ name: column.key, value: text }];
  });
  // The form would fill in their defaults.
  const empty = columns
    .filter((column) => column.hasDefault && before.has(column.key) && textOfColumn(before, column) === null)
    .map(({ key }) => key);
  const all = empty.length > 0 ? [...values, { name: NO_VALUES, value: empty.join(' ') }] : values;
  const link = links.action(resource.name, 'add', new LinkParameters(all));
  return link.length <= LONGEST_LINK && html`<a class="button" href="${link}">${t('addAgain')}</a>`;
}

function pager({ query, hasNext }: LabeledRecordPage, path: string): Html | false {
  const { page } = query;
  const linkTo = (number: bigint): string => `${path}?page=${number}`;
  return (
    (page > 1n || hasNext) &&
    html`<nav class="pager" aria-label="${t('pages')}">
      <ul>
        ${page > 1n && html`<li><a href="${linkTo(page - 1n)}" rel="prev">${t('newer')}</a></li>`}
        <li aria-current="page">${t('pageNumber', { page: String(page) })}</li>
        ${hasNext && html`<li><a href="${linkTo(page + 1n)}" rel="next">${t('older')}</a></li>`}
      </ul>
    </nav>`
  );
}

/** The changes of one record, newest first. The record itself may be deleted. @throws Problem 404 */
export async function showHistory(context: RecordContext): Promise<Reply> {
  const { resource } = context;
  const { name } = resource;
  const isOfSystem = SHOWN_SYSTEM_TABLES.some(({ model }) => model === name);
  const key = isOfSystem ? undefined : parseId(resource, context.id);
  if (key === undefined) throw notFound(messageOf('noRecord'));
  const id = keyText(key, resource.model.primaryKey);
  const page = LinkParameters.parse(context.request.query).get('page') ?? '1';
  const query = new LinkParameters([
    { name: 'record', value: id },
    { name: 'limit', value: String(PAGE_SIZE) },
    { name: 'page', value: page },
  ]);
  const list = await context.browsing.list(context.historyOf(resource), {
    query: query.toString(),
    search: '',
  });
  const changes = list.records.map((entry) => changeOf(entry, context));
  const [labels, { records: present }] = await Promise.all([
    labelsIn(context, changes),
    context.browsing.labels(resource, { query: '', search: '', ids: [id] }),
  ]);
  const [record] = present;
  if (!record && changes.length === 0 && list.query.page === 1n) throw notFound(messageOf('noRecord'));
  const [newest] = changes;
  const former = newest?.action === 'delete' ? formerLabel(resource, newest.before) : undefined;
  const label = record?.label ?? former ?? `#${id}`;
  const none = t(resource.recorded ? 'noChangesOnPage' : 'changesNotRecorded');
  const sections: Html[] = [];
  let length = 0;
  for (const change of changes) {
    const section = changeSection(change, context, labels, length <= LONGEST_PAGE);
    length += section.toString().length;
    sections.push(section);
    await nextTurn();
  }
  const body = html`${!record && html`<p class="lead">${t('thisRecordIsGone')}</p>`}
  ${changes.length === 0 && html`<p class="empty">${none}</p>`} ${sections}
  ${pager(list, links.part(name, id, 'history'))}`;
  return pageReply(context, {
    title: t('historyOf', { label }),
    crumbs: [listCrumb(resource), record ? recordCrumb(resource, record) : label, t('history')],
    kind: 'history',
    actions:
      !record &&
      newest &&
      list.query.page === 1n &&
      html`${undoButton(newest, context)} ${addAgain(resource, newest)}`,
    body,
  });
}

/** The page of one entry. @throws Problem 404 */
export async function showChange(context: RecordContext): Promise<Reply> {
  const change = changeOf(await context.browsing.preview(context.history, context.id), context);
  const labels = await labelsIn(context, [change]);
  const { resource, title, record } = change;
  const label = labels(resource, record);
  const recordName = `${title} ${label ?? formerName(change)}`.trim();
  const body = html`${changeSection(change, context, labels)} ${requestLine(change, context.history.name)}
  ${
    resource &&
    parseId(resource, record) !== undefined &&
    html`<p class="also">
      ${label !== undefined && html`<a href="${links.record(resource.name, record)}">${t('theRecord')}</a>, `}
      <a href="${links.part(resource.name, record, 'history')}">${t('itsFullHistory')}</a>
    </p>`
  }`;
  return pageReply(context, {
    title: t('labeled', { label: actionTitle(change), value: recordName }),
    crumbs: [listCrumb(context.history), `#${change.id}`],
    kind: 'history',
    actions: undoButton(change, context),
    body,
  });
}
