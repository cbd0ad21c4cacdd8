import { asProblem } from '../../db/connection/database-errors.ts';
import type { Reply } from '../../http/message/message.ts';
import type { AdminResource } from '../../resources/serve/admin-resource.ts';
import type { RecordEntry } from '../../resources/records/browsing.ts';
import type { Selection } from '../../resources/records/selection.ts';
import { Referred } from '../../resources/records/conflicts.ts';
import type { ConfirmationRefusal } from '../session/password-confirmation.ts';
import type { AdminContext } from '../web/admin-context.ts';
import {
  confirmDeletion,
  deletionField,
  effectsOf,
  ownDeletion,
  deletionRefusal,
  removesAdmin,
} from './deletion-effects.ts';
import type { Form } from '../web/form-data.ts';
import { html, type Html } from '../web/html.ts';
import { pageReply } from '../web/layout.ts';
import { links } from '../web/admin-links.ts';
import { shortened, shownColumn } from '../web/display-text.ts';
import { listQuery, redirectWith, type AdminRequest } from '../web/admin-request.ts';
import { errorSummary, PASSWORD_LABELS } from '../web/widgets.ts';

/** How much of a long text is shown (characters). */
const MOST_SHOWN = 300;

/** What the record is: the columns by which its list shows it. */
const facts = (entry: RecordEntry, { list }: AdminResource): Html =>
  html`<dl class="facts">
    ${list.map(
      (column) =>
        html`<div>
          <dt>${column.title}</dt>
          <dd>${shownColumn(entry, column, MOST_SHOWN)}</dd>
        </div>`,
    )}
  </dl>`;

interface Notice {
  readonly status: number;
  /** Undefined where the page says by itself why it cannot be done. */
  readonly text?: string;
  /** Whether records of a table that is not in the registry keep the record from being deleted. */
  readonly isRefused?: boolean;
  /** Why the admin's own password does not do. */
  readonly unconfirmed?: ConfirmationRefusal;
}

const selectionOf = (id: string): Selection => ({ query: '', search: '', ids: [id] });

async function deletePage(
  context: AdminContext,
  adminRequest: AdminRequest,
  resource: AdminResource,
  id: string,
  sent?: Form,
  notice?: Notice,
): Promise<Reply> {
  const { name, title } = resource;
  const [entry, { view, isForbidden, warning, digest }, own, needsPassword] = await Promise.all([
    context.browsing.preview(resource, id),
    effectsOf(context, resource, selectionOf(id), 1, notice?.isRefused),
    ownDeletion(context, adminRequest, resource, selectionOf(id)),
    removesAdmin(context, resource, selectionOf(id)),
  ]);
  const list = listQuery(adminRequest, name, sent);
  const page = links.from(list, links.record(name, entry.id));
  const reason =
    own ?? (isForbidden && 'It cannot be deleted while other records need it. Delete or change those first.');
  const body = html`${notice?.text !== undefined && html`<p class="error-summary" role="alert">${notice.text}</p>`}
  ${notice?.unconfirmed && reason === false && errorSummary(notice.unconfirmed.errors, PASSWORD_LABELS)}
  ${facts(entry, resource)} ${view}
  ${
    reason !== false
      ? html`<p class="lead">${reason}</p>
          <p><a class="button" href="${page}">Back to the record</a></p>`
      : html`<form method="post" action="${links.part(name, entry.id, 'delete')}" class="confirm">
          <input type="hidden" name="_csrf" value="${adminRequest.csrf}" />
          <input type="hidden" name="_version" value="${entry.version}" />
          <input type="hidden" name="_effects" value="${digest}" />
          ${list !== undefined && html`<input type="hidden" name="_list" value="${list}" />`}
          <p class="lead">${warning}</p>
          ${needsPassword && deletionField(notice?.unconfirmed)}
          <div class="buttons">
            <button class="danger">Delete</button> <a class="button" href="${page}">Keep it</a>
          </div>
        </form>`
  }`;
  return pageReply(adminRequest, {
    title: `Delete ${shortened(entry.label, 80)}?`,
    crumbs: [
      { text: title, href: links.back(name, list) },
      { text: shortened(entry.label, 40), href: page },
      { text: 'Delete' },
    ],
    kind: 'delete',
    status: notice?.status ?? 200,
    body,
  });
}

/** Says what deleting the record means. */
export const showDelete = (
  context: AdminContext,
  adminRequest: AdminRequest,
  resource: AdminResource,
  id: string,
): Promise<Reply> => deletePage(context, adminRequest, resource, id);

/** Deletes the record, unless it has changed since the page was made that asked. */
export async function confirmDelete(
  context: AdminContext,
  adminRequest: AdminRequest,
  resource: AdminResource,
  id: string,
  form: Form,
): Promise<Reply> {
  const { name, title } = resource;
  const list = links.back(name, form.get('_list'));
  try {
    const { label, version } = await context.browsing.read(resource, id);
    if (await ownDeletion(context, adminRequest, resource, selectionOf(id)))
      return await deletePage(context, adminRequest, resource, id, form, { status: 403 });
    const { digest, isForbidden } = await effectsOf(context, resource, selectionOf(id), 1);
    const isAsAsked = form.get('_version') !== version || form.get('_effects') === digest;
    if (!isAsAsked && !isForbidden) {
      const text = 'What goes with the record has changed since you were asked. This is how it is now.';
      return await deletePage(context, adminRequest, resource, id, form, { status: 409, text });
    }
    const unconfirmed = await confirmDeletion(context, adminRequest, resource, selectionOf(id), form);
    if (unconfirmed) {
      const { status } = unconfirmed;
      return await deletePage(context, adminRequest, resource, id, form, { status, unconfirmed });
    }
    await context.operations.remove(resource, id, adminRequest.caller, [form.get('_version') ?? '']);
    return redirectWith(adminRequest, list, {
      kind: 'done',
      text: `${title}: “${shortened(label, 80)}” was deleted.`,
    });
  } catch (error) {
    const problem = asProblem(error);
    if (problem?.status === 404)
      return redirectWith(adminRequest, list, { kind: 'failed', text: 'The record is no longer there.' });
    if (!problem || ![400, 409, 412, 503].includes(problem.status)) throw error;
    const { status } = problem;
    const text =
      status === 412
        ? 'The record has changed since you were asked. This is how it is now.'
        : deletionRefusal(context, problem);
    const isRefused = problem instanceof Referred && problem.models.length === 0;
    return deletePage(context, adminRequest, resource, id, form, { status, text, isRefused });
  }
}
