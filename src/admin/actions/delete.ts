// Deletes one record or the selected records of a list, after a page that shows the effects and asks for confirmation.
import { LostWrite } from '../../db/connection/database-errors.ts';
import { CHECK_AT_ONCE } from '../../db/connection/transactions.ts';
import { Problem } from '../../errors.ts';
import type { Reply } from '../../http/message/message.ts';
import type { Selection } from '../../query/selection.ts';
import type { TransactionGuard } from '../../resources/records/bulk-operations.ts';
import { StillReferenced, SuppressedWrite } from '../../resources/records/explain.ts';
import type { Operations } from '../../resources/records/operations.ts';
import { boundedForm } from '../fields/form-field.ts';
import { runAction, showAction, type Action } from '../session/action.ts';
import { assertSameCaller, sessionCaller } from '../session/assert-session.ts';
import { isCodeDue, showsUsers } from '../session/password-confirmation.ts';
import type { AdminContext, RecordContext, ResourceContext } from '../web/admin-context.ts';
import { links } from '../web/admin-links.ts';
import { inBatch } from '../../resources/access/access.ts';
import { redirectChanged } from '../history/history-entry.ts';
import { listQuery, redirectDone, redirectFailed, shownProblem } from '../web/admin-request.ts';
import { shortened, shownColumn } from '../web/display-text.ts';
import type { Form } from '../web/form-data.ts';
import { html } from '../web/html.ts';
import { t } from '../web/language.ts';
import { effectsOf } from './deletion-effects.ts';
import {
  confirmedFields,
  endOf,
  recordTarget,
  selectionTarget,
  type BulkContext,
  type Target,
} from './target.ts';

/** A deletion of one record or of several. */
interface Deletion {
  readonly target: () => Promise<Target> | Target;
  readonly selection: Selection;
  /** Whether those with a second factor must confirm it, whatever is deleted. */
  readonly isBulk: boolean;
  /**
   * Deletes the records.
   * @param guard runs first in the transaction, where the deletion needs one
   * @throws Problem 409, 412; nothing is deleted then
   * @throws LostWrite; the records may be deleted
   */
  readonly remove: (form: Form, guard: TransactionGuard | undefined) => Promise<Reply>;
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
  return t(resource.name === userModel ? 'cannotDeleteOwnUser' : 'wouldDeleteOwnUser');
}

/** Whether those with a second factor must give a code: to delete several records, or users. */
async function needsCode(context: ResourceContext, { isBulk, selection }: Deletion): Promise<boolean> {
  const { bulk, resource, settings } = context;
  if (isBulk || !isCodeDue(context)) return isBulk;
  return showsUsers(context) || bulk.deletesUsers(resource, selection, settings.userModel);
}

/** Why the database has refused a deletion, with the titles of the resources involved. */
function refusalText({ resources }: AdminContext, problem: Problem): string {
  const names = problem instanceof StillReferenced ? problem.models : [];
  const titles = names.flatMap((name) => resources.get(name)?.title ?? []);
  return titles.length > 0 ? t('othersDepend', { titles: titles.join(', ') }) : problem.message;
}

/** Shows the effects of a deletion, and deletes unless the records or the effects have changed since. */
function deleting(context: ResourceContext, deletion: Deletion): Action {
  const { bulk, resource, settings } = context;
  const { selection, isBulk } = deletion;
  const changeSince = async (form: Form): Promise<string | undefined> =>
    (await deletion.target()).changeSince(form);
  /** Whether records of a table that is not in the registry prevent the deletion. */
  let isRefused = false;
  /** Whether the deletion may include an admin. A stolen session alone must not suffice for that. */
  let mayDeleteAdmin = false;
  return {
    async page() {
      const target = await deletion.target();
      const { label, crumbs, address, back } = target;
      const count = await target.count();
      if (count === 0) return redirectFailed(context, back.href, t('noRecordsToDelete'));
      const what = label ?? t('records', { count });
      const [{ view, isForbidden, warning, digest }, selfRefusal] = await Promise.all([
        effectsOf(context, selection, count, isRefused),
        selfDeletionRefusal(context, deletion),
      ]);
      const records = await target.shown(count);

      return {
        title: t('deleteWhatQuestion', { what }),
        crumbs: [...crumbs, t('delete')],
        kind: 'delete',
        address,
        back,
        isDanger: true,
        impossible: selfRefusal ?? (isForbidden ? t('othersNeed', { count }) : undefined),
        fields: html`${await target.hidden('delete')} ${confirmedFields(count)}
          <input type="hidden" name="_effects" value="${digest}" />
          <p class="lead">${warning}</p>`,
        button: isBulk ? t('deleteWhat', { what }) : t('delete'),
        around: (form) => html`${records} ${view} ${form}`,
      };
    },

    async needs() {
      mayDeleteAdmin = await bulk.deletesAdmin(resource, selection, settings.userModel);
      return {
        password: mayDeleteAdmin && t('requiredToDeleteAdmin'),
        code: await needsCode(context, deletion),
      };
    },

    async check(form) {
      if (await selfDeletionRefusal(context, deletion)) return { errors: {}, status: 403 };
      const { digest, isForbidden } = await effectsOf(context, selection);
      // If the records themselves have changed, the message of the deletion says so.
      if (form.get('_effects') === digest || isForbidden || (await changeSince(form)) !== undefined)
        return undefined;
      return { errors: {}, notice: t('effectsChanged'), status: 409 };
    },

    async run(form) {
      try {
        // Without a password, the transaction checks once more that no admin is deleted.
        const guard = mayDeleteAdmin ? undefined : bulk.adminGuard(resource, selection, settings.userModel);
        return await deletion.remove(form, guard);
      } catch (error) {
        const problem = shownProblem(context, error);
        // After a lost answer the records may be gone, so this page could not say that nothing was deleted.
        if (error instanceof LostWrite || !problem || ![400, 409, 412, 500, 503].includes(problem.status))
          throw error;
        // A trigger that cancels the deletion may have changed the record instead, for instance to mark it as deleted.
        const change = problem instanceof SuppressedWrite ? undefined : await changeSince(form);
        isRefused = problem instanceof StillReferenced && problem.models.length === 0;
        const notice =
          change === undefined ? refusalText(context, problem) : t('nothingWasDeleted', { change });
        return { errors: {}, notice, status: problem.status };
      }
    },
  };
}

/** Deletes selected records. */
export function deleteSelection(context: BulkContext, form: Form): Promise<Reply> {
  const { bulk, resource, choice } = context;
  const { selection, state } = choice;
  const action = deleting(context, {
    target: () => selectionTarget(context),
    selection,
    isBulk: true,

    async remove(sent, begin) {
      const expected = Number(sent.get('_expected'));
      const end = endOf(context, 'bulk.delete');
      const caller = inBatch(context.caller);
      const count = await bulk.remove(resource, selection, caller, { expected, begin, end });
      const list = links.list(resource.name, state.without('page'));
      return redirectChanged(context, list, t('recordsDeleted', { count }), caller);
    },
  });
  return form.get('_confirm') === undefined ? showAction(context, action) : runAction(context, action, form);
}

/** Maximum characters shown of a value. */
const MAX_SHOWN = 300;

/** @param sent the form of the page, when it is sent */
function deletingRecord(context: RecordContext, sent?: Form): Action {
  const { resource, id } = context;
  const { name, title } = resource;
  const list = listQuery(context, sent);
  return deleting(context, {
    selection: { query: '', search: '', ids: [id] },
    isBulk: false,

    async target() {
      const record = await context.browsing.preview(resource, id);
      const { version } = record;
      const target = recordTarget(context, record, 'delete', list);
      return {
        ...target,
        hidden: async (action) =>
          html`${await target.hidden(action)} <input type="hidden" name="_version" value="${version}" />`,
        shown: () =>
          html`<dl class="facts">
            ${resource.list.map(
              (column) =>
                html`<div>
                  <dt>${column.title}</dt>
                  <dd>${shownColumn(record, column, MAX_SHOWN)}</dd>
                </div>`,
            )}
          </dl>`,
        changeSince: (form) => (version === form.get('_version') ? undefined : t('recordHasChanged')),
      };
    },

    async remove(form, guard) {
      const { label } = await context.browsing.preview(resource, id);
      const removeWith = (operations: Operations): Promise<void> =>
        operations.remove(resource, id, sessionCaller(context), [form.get('_version') ?? '']);
      if (guard)
        await context.inTransaction(async (operations, transaction) => {
          await guard(transaction);
          // The operation explains the error of a deferred constraint, which the commit would throw after it.
          await transaction.send(CHECK_AT_ONCE);
          await removeWith(operations);
          await assertSameCaller(context);
        });
      else await removeWith(context.operations);
      const text = t('recordDeleted', { title, label: shortened(label, 80) });
      return redirectDone(context, links.back(name, list), text);
    },
  });
}

/** Shows what deleting the record would affect. */
export const showDelete = (context: RecordContext): Promise<Reply> =>
  showAction(context, deletingRecord(context));

/** Deletes the record, unless the record or the effects have changed since the page was shown. */
export async function confirmDelete(context: RecordContext, submitted: Form): Promise<Reply> {
  const form = boundedForm(submitted, []);
  try {
    return await runAction(context, deletingRecord(context, form), form);
  } catch (error) {
    if (!(error instanceof Problem) || error.status !== 404) throw error;
    const list = links.back(context.resource.name, form.get('_list'));
    return redirectFailed(context, list, t('recordIsGone'));
  }
}
