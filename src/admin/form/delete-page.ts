// The page that deletes one record.
import { CHECK_AT_ONCE } from '../../db/connection/transactions.ts';
import { Problem } from '../../errors.ts';
import type { Reply } from '../../http/message/message.ts';
import type { AdminView } from '../../resources/access/admin-view.ts';
import type { Operations } from '../../resources/records/operations.ts';
import type { LabeledRecord } from '../../resources/records/labeled-record.ts';
import type { RecordContext } from '../web/admin-context.ts';
import { askDeletion, runDeletion, type Deletion } from './confirmed-deletion.ts';
import { sessionCaller } from '../session/assert-session.ts';
import { boundedForm } from '../fields/form-bounds.ts';
import type { Form } from '../web/form-data.ts';
import { html, type Html } from '../web/html.ts';
import { links } from '../web/admin-links.ts';
import { shortened, shownColumn } from '../web/display-text.ts';
import { listQuery, redirectDone, redirectFailed } from '../web/admin-request.ts';

/** Maximum characters shown of a value. */
const MAX_SHOWN = 300;

/** The record's values in the columns of its list. */
const facts = (record: LabeledRecord, { list }: AdminView): Html =>
  html`<dl class="facts">
    ${list.map(
      (column) =>
        html`<div>
          <dt>${column.title}</dt>
          <dd>${shownColumn(record, column, MAX_SHOWN)}</dd>
        </div>`,
    )}
  </dl>`;

/** @param sent the form of the page, when it is sent */
function deletionOf(context: RecordContext, sent?: Form): Deletion {
  const { resource, id } = context;
  const { name, title } = resource;
  const list = listQuery(context, sent);
  return {
    selection: { query: '', search: '', ids: [id] },
    isBulk: false,

    async page() {
      const record = await context.browsing.preview(resource, id);
      const address = links.from(list, links.record(name, record.id));
      return {
        count: 1,
        what: shortened(record.label, 80),
        crumbs: [
          { text: title, href: links.back(name, list) },
          { text: shortened(record.label, 40), href: address },
          { text: 'Delete' },
        ],
        records: facts(record, resource),
        action: links.part(name, record.id, 'delete'),
        hidden: html`<input type="hidden" name="_csrf" value="${context.csrf}" />
          <input type="hidden" name="_version" value="${record.version}" />
          ${list !== undefined && html`<input type="hidden" name="_list" value="${list}" />`}`,
        button: 'Delete',
        back: { text: 'Back to the record', href: address },
      };
    },

    async changeSince(form) {
      const { version } = await context.browsing.preview(resource, id);
      if (version === form.get('_version')) return undefined;
      return 'The record has changed since this page was shown. Nothing was deleted.';
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
        });
      else await removeWith(context.operations);
      const text = `${title}: “${shortened(label, 80)}” was deleted.`;
      return redirectDone(context, links.back(name, list), text);
    },
  };
}

/** Shows what deleting the record would affect. */
export const showDelete = (context: RecordContext): Promise<Reply> =>
  askDeletion(context, deletionOf(context));

/** Deletes the record, unless the record or the effects have changed since the page was shown. */
export async function confirmDelete(context: RecordContext, submitted: Form): Promise<Reply> {
  const form = boundedForm(submitted, []);
  try {
    return await runDeletion(context, deletionOf(context, form), form);
  } catch (error) {
    if (!(error instanceof Problem) || error.status !== 404) throw error;
    const list = links.back(context.resource.name, form.get('_list'));
    return redirectFailed(context, list, 'The record no longer exists.');
  }
}
