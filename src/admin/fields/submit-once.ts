// Keeps a form from being done twice, for instance by a double click.
import { createHash, randomBytes } from 'node:crypto';
import type { Operations } from '../../resources/records/operations.ts';
import type { AdminContext } from '../web/admin-context.ts';
import type { Form } from '../web/form-data.ts';
import { html, type Html } from '../web/html.ts';

const FIELD = '_form';

/** A hidden field with a random token, for a form that must run only once. */
export const submitOnceField = (): Html =>
  html`<input type="hidden" name="${FIELD}" value="${randomBytes(12).toString('base64url')}" />`;

/**
 * Identifies a form by its token and values; undefined for a form without a token. The values count, because people go back in the
 * browser and change the form for the next record.
 */
export function submitOnceMark({ get, entries }: Form): string | undefined {
  if (get(FIELD) === undefined) return undefined;
  const values = entries.filter(([name]) => name !== '_save');
  return createHash('sha256').update(JSON.stringify(values)).digest('base64url');
}

/**
 * Adds the record of a form once. A form that is sent again returns the record that it added the first time.
 * @param add adds the record with these operations and returns its key
 */
export async function addOnce(
  { inTransaction, operations, sessions, token }: AdminContext,
  form: Form,
  add: (operations: Operations) => Promise<{ readonly id: string }>,
): Promise<{ readonly id: string; readonly isRepeated: boolean }> {
  const mark = submitOnceMark(form);
  if (mark === undefined) return { id: (await add(operations)).id, isRepeated: false };
  return inTransaction(async (operationsInTransaction, transaction) => {
    const earlier = await sessions.whatWasDone(transaction, token, mark);
    if (earlier !== undefined) return { id: earlier, isRepeated: true };
    const { id } = await add(operationsInTransaction);
    await sessions.noteDone(transaction, token, mark, id);
    return { id, isRepeated: false };
  });
}
