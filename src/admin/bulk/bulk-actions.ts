// Runs the action that an admin chose for the selected records of a list.
import { notFound, Problem } from '../../errors.ts';
import type { Reply } from '../../http/message/message.ts';
import { listUrl, readChoice } from './bulk-choice.ts';
import { bulkDelete } from './bulk-delete.ts';
import { bulkSet } from './bulk-set.ts';
import type { ResourceContext } from '../web/admin-context.ts';
import { boundedForm } from '../fields/form-bounds.ts';
import { editableColumns } from '../fields/form-page.ts';
import { exportRecords } from '../list/list-export.ts';
import type { Form } from '../web/form-data.ts';
import { redirectFailed } from '../web/admin-request.ts';

/**
 * Runs an action on the records selected on a list. It receives the form of the list and the forms of the confirmation pages.
 * @throws Problem 404 for an action that the list does not offer
 */
export async function runBulk(listContext: ResourceContext, submitted: Form): Promise<Reply> {
  const form = boundedForm(submitted, editableColumns(listContext.resource, false));
  const choice = readChoice(form);
  const context = { ...listContext, choice };
  const { may, allows } = context.resource;
  const backWithError = (text: string): Reply => redirectFailed(context, listUrl(context), text);
  if (choice.ids?.length === 0) return backWithError('No records selected.');
  const action = form.get('_action');
  try {
    if (action === 'export.csv' && allows.has('export'))
      return await exportRecords(context, choice.selection, 'csv');
    if (action === 'export.excel.csv' && allows.has('export'))
      return await exportRecords(context, choice.selection, 'excel.csv');
    if (action === 'export.json' && allows.has('export'))
      return await exportRecords(context, choice.selection, 'json');
    if (action === 'delete' && may.has('delete')) return await bulkDelete(context, form);
    if (action === 'set' && may.has('change')) return await bulkSet(context, form);
  } catch (error) {
    // The list itself shows the errors of a filter.
    const isFilterError = error instanceof Problem && error.status === 400 && error.errors !== undefined;
    if (!isFilterError) throw error;
    return backWithError('A filter of the list is invalid. No action was taken.');
  }
  throw notFound('This list does not offer this action.');
}
