import { asProblem } from '../../db/connection/database-errors.ts';
import type { Reply } from '../../http/message/message.ts';
import type { AdminResource } from '../../resources/serve/admin-resource.ts';
import { StillReferenced } from '../../resources/records/conflicts.ts';
import { selectedRecords, hiddenChoice, listUrl, type Choice } from './bulk-choice.ts';
import type { ConfirmationRefusal } from '../session/password-confirmation.ts';
import {
  confirmDeletion,
  deletionField,
  effectsOf,
  selfDeletionRefusal,
  deletionRefusal,
  mayDeleteAdmin,
} from '../form/deletion-effects.ts';
import type { AdminContext } from '../web/admin-context.ts';
import type { Form } from '../web/form-data.ts';
import { html } from '../web/html.ts';
import { pageReply } from '../web/layout.ts';
import { links } from '../web/admin-links.ts';
import { counted, grouped } from '../web/display-text.ts';
import { redirectWith } from '../web/admin-request.ts';
import { errorSummary, PASSWORD_LABELS } from '../web/widgets.ts';

/** Why the confirmation page is shown again. */
interface Notice {
  readonly status: number;
  /** Undefined if the page itself explains the reason. */
  readonly text?: string;
  /** Whether records of a table that is not in the registry prevent the deletion. */
  readonly isRefused?: boolean;
  /** Why the admin's password was not accepted. */
  readonly unconfirmed?: ConfirmationRefusal;
}

async function deletePage(
  context: AdminContext,
  resource: AdminResource,
  choice: Choice,
  count: number,
  notice?: Notice,
): Promise<Reply> {
  const { name, title } = resource;
  const [records, { view, isForbidden, warning, digest }, own, needsPassword] = await Promise.all([
    selectedRecords(context, resource, choice, count),
    effectsOf(context, resource, choice.selection, count, notice?.isRefused),
    selfDeletionRefusal(context, resource, choice.selection),
    mayDeleteAdmin(context, resource, choice.selection),
  ]);
  const [they, them] = count === 1 ? ['It', 'it'] : ['They', 'them'];
  const inUse = `${they} cannot be deleted while other records need ${them}. Delete or change those first.`;
  const reason = own ?? (isForbidden && inUse);
  const back = listUrl(resource, choice);
  const body = html`${notice?.text !== undefined && html`<p class="error-summary" role="alert">${notice.text}</p>`}
  ${notice?.unconfirmed && reason === false && errorSummary(notice.unconfirmed.errors, PASSWORD_LABELS)}
  ${records} ${view}
  ${
    reason !== false
      ? html`<p class="lead">${reason}</p>
          <p><a class="button" href="${back}">Back to the list</a></p>`
      : html`<form method="post" action="${links.action(name, 'bulk')}" class="confirm">
          ${await hiddenChoice(context, choice, 'delete')}
          <input type="hidden" name="_expected" value="${count}" />
          <input type="hidden" name="_effects" value="${digest}" />
          <input type="hidden" name="_confirm" value="1" />
          <p class="lead">${warning}</p>
          ${needsPassword && deletionField(notice?.unconfirmed)}
          <div class="buttons">
            <button class="danger">Delete ${counted(count, 'record')}</button>
            <a class="button" href="${back}">Cancel</a>
          </div>
        </form>`
  }`;
  return pageReply(context, {
    title: `Delete ${counted(count, 'record')}?`,
    crumbs: [{ text: title, href: back }, { text: 'Delete' }],
    kind: 'delete',
    status: notice?.status ?? 200,
    body,
  });
}

/** Deletes selected records, after a page that shows their number and the effects and asks for confirmation. */
export async function bulkDelete(
  context: AdminContext,
  resource: AdminResource,
  choice: Choice,
  form: Form,
): Promise<Reply> {
  const { bulk } = context;
  const { selection } = choice;
  const ask = async (notice?: Notice): Promise<Reply> => {
    const count = await bulk.count(resource, selection);
    if (count > 0) return deletePage(context, resource, choice, count, notice);
    return redirectWith(context, listUrl(resource, choice), {
      kind: 'failed',
      text: 'No records to delete.',
    });
  };
  if (form.get('_confirm') === undefined) return ask();
  if (await selfDeletionRefusal(context, resource, selection)) return ask({ status: 403 });
  const expected = Number(form.get('_expected'));
  const { digest, isForbidden } = await effectsOf(context, resource, selection, expected);
  if (
    form.get('_effects') !== digest &&
    !isForbidden &&
    (await bulk.count(resource, selection)) === expected
  ) {
    const text = 'The effects of the deletion have changed since this page was shown. Nothing was deleted.';
    return ask({ status: 409, text });
  }
  const unconfirmed = await confirmDeletion(context, resource, selection, form);
  if (unconfirmed) return ask({ status: unconfirmed.status, unconfirmed });
  try {
    await bulk.remove(resource, selection, context.caller, expected);
  } catch (error) {
    const problem = asProblem(error);
    if (!problem || ![400, 409, 503].includes(problem.status)) throw error;
    const count = await bulk.count(resource, selection);
    const isRefused = problem instanceof StillReferenced && problem.models.length === 0;
    const text =
      count === expected
        ? deletionRefusal(context, problem)
        : `The selection had ${counted(expected, 'record')} when this page was shown, and now has ${grouped(count)}. Nothing was deleted.`;
    return ask({ status: problem.status, text, isRefused });
  }
  const list = links.list(resource.name, choice.state.without('page'));
  return redirectWith(context, list, { kind: 'done', text: `${counted(expected, 'record')} deleted.` });
}
