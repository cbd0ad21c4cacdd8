import { createHash, randomBytes } from 'node:crypto';
import type { RawRow } from '../../db/connection/database.ts';
import type { Statement } from '../../db/fragment.ts';
import type { Operations } from '../../resources/records/operations.ts';
import type { AdminContext } from './admin-context.ts';
import type { Form } from './form-data.ts';
import { html, type Html } from './html.ts';
import type { AdminRequest } from './admin-request.ts';

const FIELD = '_form';

/** A mark of its own for a form that must not be done twice, by a second click for instance. */
export const submitOnceField = (): Html =>
  html`<input type="hidden" name="${FIELD}" value="${randomBytes(12).toString('base64url')}" />`;

/**
 * What stands for a form as it was sent; undefined for one that a page of ours has not made. With other values it is another one:
 * people go back, and change the form for the next record.
 */
export function submitOnceMark({ get, entries }: Form): string | undefined {
  if (get(FIELD) === undefined) return undefined;
  const typed = entries.filter(([name]) => name !== '_save');
  return createHash('sha256').update(JSON.stringify(typed)).digest('base64url');
}

/**
 * Adds a record by a form, once: sent again, the form gives the record that it has added.
 * @param add adds the record by these operations. @returns its key
 */
export async function addOnce(
  { database, operationsOn, operations, sessions }: AdminContext,
  { token }: AdminRequest,
  form: Form,
  add: (operations: Operations) => Promise<{ readonly id: string }>,
): Promise<{ readonly id: string; readonly isRepeated: boolean }> {
  const mark = submitOnceMark(form);
  if (mark === undefined) return { id: (await add(operations)).id, isRepeated: false };
  return database.transaction(async (send) => {
    const before = await sessions.whatWasDone(send, token, mark);
    if (before !== undefined) return { id: before, isRepeated: true };
    const run = (statement: Statement): Promise<RawRow[]> => send(statement.text, statement.values);
    const added = await add(operationsOn({ run }));
    await sessions.noteDone(send, token, mark, added.id);
    return { id: added.id, isRepeated: false };
  }, 'bulk');
}
