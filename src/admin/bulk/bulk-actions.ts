import { notFound, Problem } from '../../errors.ts';
import type { Reply } from '../../http/message/message.ts';
import type { AdminResource } from '../../resources/serve/admin-resource.ts';
import { listOf, readChoice } from './bulk-choice.ts';
import { bulkDelete } from './bulk-delete.ts';
import { bulkSet } from './bulk-set.ts';
import type { AdminContext } from '../web/admin-context.ts';
import { exportRecords } from '../list/list-export.ts';
import type { Form } from '../web/form-data.ts';
import { redirectWith, type AdminRequest } from '../web/admin-request.ts';

/**
 * Does something with the records that were chosen on a list: the form of the list comes here, and those of the pages that ask
 * before anything is done.
 */
export async function runBulk(
  context: AdminContext,
  adminRequest: AdminRequest,
  resource: AdminResource,
  form: Form,
): Promise<Reply> {
  const choice = readChoice(form);
  const backWith = (text: string): Reply =>
    redirectWith(adminRequest, listOf(resource, choice), { kind: 'failed', text });
  if (choice.ids?.length === 0) return backWith('No record was chosen.');
  const { may } = resource;
  const action = form.get('_action');
  try {
    if (action === 'export.csv') return await exportRecords(context, resource, choice.selection, 'csv');
    if (action === 'export.json') return await exportRecords(context, resource, choice.selection, 'json');
    if (action === 'delete' && may.has('delete'))
      return await bulkDelete(context, adminRequest, resource, choice, form);
    if (action === 'set' && may.has('change'))
      return await bulkSet(context, adminRequest, resource, choice, form);
  } catch (error) {
    // The list itself says what is wrong with a filter of its address.
    const isQuery = error instanceof Problem && error.status === 400 && error.errors !== undefined;
    if (!isQuery) throw error;
    return backWith('A filter of the list cannot be used. Nothing was done.');
  }
  throw notFound('There is no such action here.');
}
