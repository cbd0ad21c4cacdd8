// Sets the password of a caller who has proved to be the user.
import { requiredColumn } from '../../db/schema/model.ts';
import { Problem } from '../../errors.ts';
import type { Caller } from '../access/access.ts';
import type { ResourceView } from '../access/resource-view.ts';
import { parseJsonFields } from './json-fields.ts';
import type { Operations } from './operations.ts';

/** An unrelated change of the row must not refuse the password. */
const MAX_TRIES = 3;

/**
 * Sets the password, whatever the access levels of the user model are. The history names the caller.
 * @param view the user model
 * @throws Problem; CallerChanged, if the caller's precondition fails
 */
export async function setOwnPassword(
  view: ResourceView,
  operations: Operations,
  caller: Caller,
  password: string,
): Promise<void> {
  const column = requiredColumn(view.model, 'password');
  const own: ResourceView = {
    ...view,
    settable: { create: new Set(), update: new Set([column]) },
    allowed: () => undefined,
    required: () => undefined,
  };
  const fields = parseJsonFields(JSON.stringify({ [column.key]: password }));
  // The caller's precondition holds when the statement begins, and the version also after a wait for the row.
  for (let tries = MAX_TRIES; ; tries -= 1) {
    const version = await operations.version(own, caller.id);
    try {
      await operations.update(
        own,
        caller.id,
        fields,
        caller,
        version === undefined ? undefined : [version],
        true,
      );
      return;
    } catch (error) {
      if (!(error instanceof Problem) || error.status !== 412 || tries <= 1) throw error;
    }
  }
}
