// The pages of the history: all changes of a record, and one change.
import { notFound } from '../../errors.ts';
import { messageOf } from '../../messages.ts';
import type { Reply } from '../../http/message/message.ts';
import type { AdminView } from '../../resources/access/admin-view.ts';
import { SHOWN_SYSTEM_TABLES } from '../../resources/definition/system-tables.ts';
import type { LabeledRecordPage } from '../../resources/records/admin-listing.ts';
import { textOfColumn } from '../../resources/records/labeled-record.ts';
import { keyText } from '../../db/schema/composite-key.ts';
import { parseId } from '../../resources/records/read-record.ts';
import type { RecordContext } from '../web/admin-context.ts';
import { editableColumns } from '../fields/form-field.ts';
import { sizeKey } from '../../query/labels/preview-sql.ts';
import { actionTitle, changeLine, changeView, requestLine, undoButton } from './history-view.ts';
import {
  changeOf,
  formerLabel,
  formerName,
  labelsIn,
  NO_VALUES,
  type HistoryChange,
} from './history-entry.ts';
import { html, type Html, nextTurn } from '../web/html.ts';
import { t } from '../web/language.ts';
import { listCrumb, pageReply, recordCrumb } from '../web/layout.ts';
import { links, LinkParameters } from '../web/admin-links.ts';

const PAGE_SIZE = 50;
/** After this many characters, a page shows the remaining changes without their values. */
const LONGEST_PAGE = 1_000_000;
/** Maximum length of the link (characters). The service accepts addresses of up to 8,192 bytes. */
const LONGEST_LINK = 6000;

/** A link to a form with the values of the deleted record, if they fit into an address. */
function addAgain(resource: AdminView, { before, action }: HistoryChange): Html | false {
  if (action !== 'delete' || !resource.may.has('add')) return false;
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
    const section =
      length > LONGEST_PAGE ? changeLine(change, context, labels) : changeView(change, context, labels);
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
  const { resource, model, record } = change;
  const label = labels(resource, record);
  const recordName = `${resource?.title ?? model} ${label ?? formerName(change)}`.trim();
  const body = html`${changeView(change, context, labels)} ${requestLine(change, context.history.name)}
  ${
    resource &&
    parseId(resource, record) !== undefined &&
    html`<p class="also">
      ${label !== undefined && html`<a href="${links.record(resource.name, record)}">${t('theRecord')}</a>, `}
      <a href="${links.part(resource.name, record, 'history')}">${t('itsFullHistory')}</a>
    </p>`
  }`;
  return pageReply(context, {
    title: `${actionTitle(change)}: ${recordName}`,
    crumbs: [listCrumb(context.history), `#${change.id}`],
    kind: 'history',
    actions: undoButton(change, context),
    body,
  });
}
