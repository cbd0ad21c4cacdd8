// The page that asks before a record is deleted, and the deletion itself.
import { asProblem } from '../../db/connection/database-errors.ts';
import type { Reply } from '../../http/message/message.ts';
import type { AdminResource } from '../../resources/serve/admin-resource.ts';
import type { RecordEntry } from '../../resources/records/record-entry.ts';
import type { Selection } from '../../resources/records/selection.ts';
import { StillReferenced } from '../../resources/records/conflicts.ts';
import type { ConfirmationRefusal } from '../session/password-confirmation.ts';
import type { AdminContext } from '../web/admin-context.ts';
import {
  confirmDeletion,
  deletionField,
  effectsOf,
  selfDeletionRefusal,
  deletionRefusal,
  mayDeleteAdmin,
} from './deletion-effects.ts';
import { boundedForm } from '../fields/form-bounds.ts';
import type { Form } from '../web/form-data.ts';
import { html, type Html } from '../web/html.ts';
import { pageReply } from '../web/layout.ts';
import { links } from '../web/admin-links.ts';
import { shortened, shownColumn } from '../web/display-text.ts';
import { listQuery, redirectWith } from '../web/admin-request.ts';
import { errorSummary, PASSWORD_LABELS } from '../web/widgets.ts';

/** Maximum characters shown of a value. */
const MAX_SHOWN = 300;

/** The record's values in the columns of its list. */
const facts = (entry: RecordEntry, { list }: AdminResource): Html =>
  html`<dl class="facts">
    ${list.map(
      (column) =>
        html`<div>
          <dt>${column.title}</dt>
          <dd>${shownColumn(entry, column, MAX_SHOWN)}</dd>
        </div>`,
    )}
  </dl>`;

interface Notice {
  readonly status: number;
  /** Undefined where the page already explains why the record cannot be deleted. */
  readonly text?: string;
  /** Whether records of a table outside the registry prevent the deletion. */
  readonly isRefused?: boolean;
  /** Why the admin's own password was not accepted. */
  readonly unconfirmed?: ConfirmationRefusal;
}

const selectionOf = (id: string): Selection => ({ query: '', search: '', ids: [id] });

async function deletePage(
  context: AdminContext,
  resource: AdminResource,
  id: string,
  sent?: Form,
  notice?: Notice,
): Promise<Reply> {
  const { name, title } = resource;
  const [entry, { view, isForbidden, warning, digest }, own, needsPassword] = await Promise.all([
    context.browsing.preview(resource, id),
    effectsOf(context, resource, selectionOf(id), 1, notice?.isRefused),
    selfDeletionRefusal(context, resource, selectionOf(id)),
    mayDeleteAdmin(context, resource, selectionOf(id)),
  ]);
  const list = listQuery(context, name, sent);
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
          <input type="hidden" name="_csrf" value="${context.csrf}" />
          <input type="hidden" name="_version" value="${entry.version}" />
          <input type="hidden" name="_effects" value="${digest}" />
          ${list !== undefined && html`<input type="hidden" name="_list" value="${list}" />`}
          <p class="lead">${warning}</p>
          ${needsPassword && deletionField(notice?.unconfirmed)}
          <div class="buttons">
            <button class="danger">Delete</button> <a class="button" href="${page}">Cancel</a>
          </div>
        </form>`
  }`;
  return pageReply(context, {
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

/** Shows what deleting the record would affect. */
export const showDelete = (context: AdminContext, resource: AdminResource, id: string): Promise<Reply> =>
  deletePage(context, resource, id);

/** Deletes the record, unless the record or the effects have changed since the page was shown. */
export async function confirmDelete(
  context: AdminContext,
  resource: AdminResource,
  id: string,
  submitted: Form,
): Promise<Reply> {
  const form = boundedForm(submitted, []);
  const { name, title } = resource;
  const list = links.back(name, form.get('_list'));
  try {
    const { label, version } = await context.browsing.read(resource, id);
    if (await selfDeletionRefusal(context, resource, selectionOf(id)))
      return await deletePage(context, resource, id, form, { status: 403 });
    const { digest, isForbidden } = await effectsOf(context, resource, selectionOf(id), 1);
    // A changed record gets its own message below, from the 412 of the deletion.
    const haveEffectsChanged = form.get('_version') === version && form.get('_effects') !== digest;
    if (haveEffectsChanged && !isForbidden) {
      const text = 'The effects of the deletion have changed since this page was shown. Nothing was deleted.';
      return await deletePage(context, resource, id, form, { status: 409, text });
    }
    const unconfirmed = await confirmDeletion(context, resource, selectionOf(id), form);
    if (unconfirmed) {
      const { status } = unconfirmed;
      return await deletePage(context, resource, id, form, { status, unconfirmed });
    }
    await context.operations.remove(resource, id, context.caller, [form.get('_version') ?? '']);
    return redirectWith(context, list, {
      kind: 'done',
      text: `${title}: “${shortened(label, 80)}” was deleted.`,
    });
  } catch (error) {
    const problem = asProblem(error);
    if (problem?.status === 404)
      return redirectWith(context, list, { kind: 'failed', text: 'The record no longer exists.' });
    if (!problem || ![400, 409, 412, 503].includes(problem.status)) throw error;
    const { status } = problem;
    const text =
      status === 412
        ? 'The record has changed since this page was shown. Nothing was deleted.'
        : deletionRefusal(context, problem);
    const isRefused = problem instanceof StillReferenced && problem.models.length === 0;
    return deletePage(context, resource, id, form, { status, text, isRefused });
  }
}
