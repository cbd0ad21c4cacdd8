import { asProblem } from '../../db/connection/database-errors.ts';
import type { Reply } from '../../http/message/message.ts';
import type { AdminResource } from '../../resources/serve/admin-resource.ts';
import type { Entry } from '../../resources/records/browsing.ts';
import type { Selection } from '../../resources/records/selection.ts';
import { Referred } from '../../resources/records/conflicts.ts';
import type { Refusal } from '../session/password-confirmation.ts';
import type { Desk } from '../web/admin-context.ts';
import {
  confirmDeletion,
  deletionField,
  effectsOf,
  ownDeletion,
  refusal,
  removesAdmin,
} from './deletion-effects.ts';
import type { Form } from '../web/form-data.ts';
import { html, type Html } from '../web/html.ts';
import { pageReply } from '../web/layout.ts';
import { links } from '../web/admin-links.ts';
import { shortened, shownColumn } from '../web/display-text.ts';
import { listQuery, redirectWith, type Visit } from '../web/admin-request.ts';
import { errorSummary, PASSWORD_LABELS } from '../web/widgets.ts';

/** How much of a long text is shown (characters). */
const MOST_SHOWN = 300;

/** What the record is: the columns by which its list shows it. */
const facts = (entry: Entry, { list }: AdminResource): Html =>
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
  readonly unconfirmed?: Refusal;
}

const selectionOf = (id: string): Selection => ({ query: '', search: '', ids: [id] });

async function deletePage(
  desk: Desk,
  visit: Visit,
  resource: AdminResource,
  id: string,
  sent?: Form,
  notice?: Notice,
): Promise<Reply> {
  const { name, title } = resource;
  const [entry, { view, isForbidden, warning, digest }, own, needsPassword] = await Promise.all([
    desk.browsing.preview(resource, id),
    effectsOf(desk, resource, selectionOf(id), 1, notice?.isRefused),
    ownDeletion(desk, visit, resource, selectionOf(id)),
    removesAdmin(desk, resource, selectionOf(id)),
  ]);
  const list = listQuery(visit, name, sent);
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
          <input type="hidden" name="_csrf" value="${visit.csrf}" />
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
  return pageReply(visit, {
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
export const showDelete = (desk: Desk, visit: Visit, resource: AdminResource, id: string): Promise<Reply> =>
  deletePage(desk, visit, resource, id);

/** Deletes the record, unless it has changed since the page was made that asked. */
export async function confirmDelete(
  desk: Desk,
  visit: Visit,
  resource: AdminResource,
  id: string,
  form: Form,
): Promise<Reply> {
  const { name, title } = resource;
  const list = links.back(name, form.get('_list'));
  try {
    const { label, version } = await desk.browsing.read(resource, id);
    if (await ownDeletion(desk, visit, resource, selectionOf(id)))
      return await deletePage(desk, visit, resource, id, form, { status: 403 });
    const { digest, isForbidden } = await effectsOf(desk, resource, selectionOf(id), 1);
    const isAsAsked = form.get('_version') !== version || form.get('_effects') === digest;
    if (!isAsAsked && !isForbidden) {
      const text = 'What goes with the record has changed since you were asked. This is how it is now.';
      return await deletePage(desk, visit, resource, id, form, { status: 409, text });
    }
    const unconfirmed = await confirmDeletion(desk, visit, resource, selectionOf(id), form);
    if (unconfirmed) {
      const { status } = unconfirmed;
      return await deletePage(desk, visit, resource, id, form, { status, unconfirmed });
    }
    await desk.operations.remove(resource, id, visit.caller, [form.get('_version') ?? '']);
    return redirectWith(visit, list, {
      kind: 'done',
      text: `${title}: “${shortened(label, 80)}” was deleted.`,
    });
  } catch (error) {
    const problem = asProblem(error);
    if (problem?.status === 404)
      return redirectWith(visit, list, { kind: 'failed', text: 'The record is no longer there.' });
    if (!problem || ![400, 409, 412, 503].includes(problem.status)) throw error;
    const { status } = problem;
    const text =
      status === 412
        ? 'The record has changed since you were asked. This is how it is now.'
        : refusal(desk, problem);
    const isRefused = problem instanceof Referred && problem.models.length === 0;
    return deletePage(desk, visit, resource, id, form, { status, text, isRefused });
  }
}
