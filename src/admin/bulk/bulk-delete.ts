// Deletes the selected records of a list.
import type { Reply } from '../../http/message/message.ts';
import {
  endOf,
  selectedRecords,
  hiddenChoice,
  listUrl,
  selectionChange,
  type BulkContext,
} from './bulk-choice.ts';
import { askDeletion, runDeletion, type Deletion } from '../form/confirmed-deletion.ts';
import type { Form } from '../web/form-data.ts';
import { html } from '../web/html.ts';
import { links } from '../web/admin-links.ts';
import { counted } from '../web/display-text.ts';
import { redirectDone, redirectFailed } from '../web/admin-request.ts';

/** Deletes selected records, after a page that shows their number and the effects and asks for confirmation. */
export function bulkDelete(context: BulkContext, form: Form): Promise<Reply> {
  const { bulk, caller, resource, choice } = context;
  const { name, title } = resource;
  const { selection } = choice;
  const list = listUrl(context);
  const deletion: Deletion = {
    selection,
    isBulk: true,

    async page() {
      const count = await bulk.count(resource, selection);
      if (count === 0) return redirectFailed(context, list, 'No records to delete.');
      const what = counted(count, 'record');
      return {
        count,
        what,
        crumbs: [{ text: title, href: list }, { text: 'Delete' }],
        records: await selectedRecords(context, count),
        action: links.action(name, 'bulk'),
        hidden: html`${await hiddenChoice(context, 'delete')}
          <input type="hidden" name="_expected" value="${count}" />
          <input type="hidden" name="_confirm" value="1" />`,
        button: `Delete ${what}`,
        back: { text: 'Back to the list', href: list },
      };
    },

    async changeSince(sent) {
      const change = await selectionChange(context, sent);
      return change === undefined ? undefined : `${change} Nothing was deleted.`;
    },

    async remove(sent, begin) {
      const expected = Number(sent.get('_expected'));
      const end = endOf(context, 'bulk.delete');
      const count = await bulk.remove(resource, selection, caller, { expected, begin, end });
      const text = `${counted(count, 'record')} deleted.`;
      return redirectDone(context, links.list(name, choice.state.without('page')), text);
    },
  };
  return form.get('_confirm') === undefined
    ? askDeletion(context, deletion)
    : runDeletion(context, deletion, form);
}
