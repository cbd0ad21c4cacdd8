// The steps that the deletion of one record and that of several share: show the effects, ask for confirmation, delete.
import { LostWrite } from '../../db/connection/database-errors.ts';
import type { Problem } from '../../errors.ts';
import type { Reply } from '../../http/message/message.ts';
import type { TransactionGuard } from '../../resources/records/bulk-operations.ts';
import { StillReferenced, SuppressedWrite } from '../../resources/records/explain.ts';
import type { Selection } from '../../query/selection.ts';
import {
  confirmationField,
  confirmCaller,
  isCodeDue,
  showsUsers,
  type ConfirmationRefusal,
} from '../session/password-confirmation.ts';
import type { AdminContext, ResourceContext } from '../web/admin-context.ts';
import type { Form } from '../web/form-data.ts';
import { html, type Content } from '../web/html.ts';
import { shownProblem } from '../web/admin-request.ts';
import { pageReply, type Crumb } from '../web/layout.ts';
import { errorSummary, PASSWORD_LABELS } from '../web/widgets.ts';
import { effectsOf } from './deletion-effects.ts';

/** The records to delete, as the page shows them. */
export interface DeletionPage {
  readonly count: number;
  /** What is deleted: `3 records`, or the label of one. */
  readonly what: string;
  readonly crumbs: readonly Crumb[];
  readonly records: Content;
  /** The address that the form is sent to. */
  readonly action: string;
  /** The hidden fields of the form, except those of the effects. */
  readonly hidden: Content;
  readonly button: string;
  /** The way back without a deletion. */
  readonly back: Required<Crumb>;
}

/** A deletion of one record or of several. */
export interface Deletion {
  readonly selection: Selection;
  /** Whether those with a second factor must confirm it, whatever is deleted. */
  readonly isBulk: boolean;
  /** What the page shows, or a redirect if there is nothing to delete. */
  readonly page: () => Promise<DeletionPage | Reply>;
  /** How the records have changed since the form was made; undefined if they have not. */
  readonly changeSince: (form: Form) => Promise<string | undefined>;
  /**
   * Deletes the records.
   * @param guard runs first in the transaction, where the deletion needs one
   * @throws Problem 409, 412; nothing is deleted then
   * @throws LostWrite; the records may be deleted
   */
  readonly remove: (form: Form, guard: TransactionGuard | undefined) => Promise<Reply>;
}

/** Why the page is shown again. */
interface Notice {
  readonly status: number;
  /** Undefined if the page itself explains the reason. */
  readonly text?: string;
  /** Whether records of a table that is not in the registry prevent the deletion. */
  readonly isRefused?: boolean;
  /** Why the admin's password was not accepted. */
  readonly unconfirmed?: ConfirmationRefusal;
}

/**
 * Why this admin may not delete these records: the deletion would include the admin's own user. This also protects the last
 * admin.
 * @returns undefined where the deletion is allowed
 */
async function selfDeletionRefusal(
  { bulk, settings: { userModel }, caller, resource }: ResourceContext,
  { selection }: Deletion,
): Promise<string | undefined> {
  if (!(await bulk.deletes(resource, selection, userModel, caller.id))) return undefined;
  return resource.name === userModel
    ? 'You cannot delete your own user. Ask another admin to do it.'
    : 'This would also delete your own user. Ask another admin to do it.';
}

/** Whether the deletion may include an admin. A stolen session alone must not suffice for that. */
const mayDeleteAdmin = (
  { bulk, settings, resource }: ResourceContext,
  { selection }: Deletion,
): Promise<boolean> => bulk.deletesAdmin(resource, selection, settings.userModel);

/** Whether those with a second factor must give a code: to delete several records, or users. */
const needsCode = async (context: ResourceContext, { isBulk, selection }: Deletion): Promise<boolean> => {
  const { bulk, resource, settings } = context;
  if (isBulk || !isCodeDue(context)) return isBulk;
  return showsUsers(context) || bulk.deletesUsers(resource, selection, settings.userModel);
};

/** Why the database has refused a deletion, with the titles of the resources involved. */
function refusalText({ resources }: AdminContext, problem: Problem): string {
  const names = problem instanceof StillReferenced ? problem.models : [];
  const titles = names.flatMap((name) => resources.get(name)?.title ?? []);
  return titles.length > 0
    ? `Records of ${titles.join(', ')} depend on what would be deleted. Nothing was deleted.`
    : problem.message;
}

/** Shows the effects of a deletion, and asks for confirmation where it is possible. */
export async function askDeletion(
  context: ResourceContext,
  deletion: Deletion,
  { status, text, isRefused, unconfirmed }: Notice = { status: 200 },
): Promise<Reply> {
  const page = await deletion.page();
  if ('status' in page) return page;
  const { count, what, crumbs, records, action, hidden, button, back } = page;
  const [{ view, isForbidden, warning, digest }, selfRefusal, needsPassword, code] = await Promise.all([
    effectsOf(context, deletion.selection, count, isRefused),
    selfDeletionRefusal(context, deletion),
    mayDeleteAdmin(context, deletion),
    needsCode(context, deletion),
  ]);
  const [they, them] = count === 1 ? ['It', 'it'] : ['They', 'them'];
  const inUse = `${they} cannot be deleted while other records need ${them}. Delete or change those first.`;
  const reason = selfRefusal ?? (isForbidden && inUse);
  const body = html`${text !== undefined && html`<p class="error-summary" role="alert">${text}</p>`}
  ${unconfirmed && reason === false && errorSummary(unconfirmed.errors, PASSWORD_LABELS)} ${records} ${view}
  ${
    reason !== false
      ? html`<p class="lead">${reason}</p>
          <p><a class="button" href="${back.href}">${back.text}</a></p>`
      : html`<form method="post" action="${action}" class="confirm">
          ${hidden}
          <input type="hidden" name="_effects" value="${digest}" />
          <p class="lead">${warning}</p>
          ${confirmationField(context, unconfirmed?.errors ?? {}, needsPassword && 'Required to delete an admin.', true, needsPassword || code)}
          <div class="buttons">
            <button class="danger">${button}</button> <a class="button" href="${back.href}">Cancel</a>
          </div>
        </form>`
  }`;
  const shown = { title: `Delete ${what}?`, crumbs, kind: 'delete', status, body } as const;
  return pageReply(context, shown, unconfirmed?.headers);
}

/** Deletes what a form confirms, unless the records or the effects have changed since the page was shown. */
export async function runDeletion(context: ResourceContext, deletion: Deletion, form: Form): Promise<Reply> {
  const askAgain = (notice: Notice): Promise<Reply> => askDeletion(context, deletion, notice);
  if (await selfDeletionRefusal(context, deletion)) return askAgain({ status: 403 });
  const { digest, isForbidden } = await effectsOf(context, deletion.selection);
  // If the records themselves have changed, the message below says so.
  if (form.get('_effects') !== digest && !isForbidden && (await deletion.changeSince(form)) === undefined) {
    const text = 'The effects of the deletion have changed since this page was shown. Nothing was deleted.';
    return askAgain({ status: 409, text });
  }
  const needsPassword = await mayDeleteAdmin(context, deletion);
  const needs = { password: needsPassword, code: await needsCode(context, deletion) };
  const unconfirmed = await confirmCaller(context, form, needs);
  if (unconfirmed) return askAgain({ status: unconfirmed.status, unconfirmed });
  try {
    const { bulk, resource, settings } = context;
    // Without a password, the transaction checks once more that no admin is deleted.
    const guard = needsPassword
      ? undefined
      : bulk.adminGuard(resource, deletion.selection, settings.userModel);
    return await deletion.remove(form, guard);
  } catch (error) {
    const problem = shownProblem(context, error);
    // After a lost answer the records may be gone, so this page could not say that nothing was deleted.
    if (error instanceof LostWrite || !problem || ![400, 409, 412, 500, 503].includes(problem.status))
      throw error;
    const { status } = problem;
    // A trigger that cancels the deletion may have changed the record instead, for instance to mark it as deleted.
    const change = problem instanceof SuppressedWrite ? undefined : await deletion.changeSince(form);
    const text = change ?? refusalText(context, problem);
    const isRefused = problem instanceof StillReferenced && problem.models.length === 0;
    return askAgain({ status, text, isRefused });
  }
}
