// Keeps transactions of ended sessions from committing.
import { Problem } from '../../errors.ts';
import type { AdminContext } from '../web/admin-context.ts';

/**
 * Checks the session again before a transaction commits, because the transaction can take minutes.
 * @throws Problem 403 if the session has ended
 */
export async function assertSession({ sessions, token }: AdminContext): Promise<void> {
  if (!(await sessions.find(token)))
    throw new Problem(403, 'Your session ended before this was finished. Nothing was changed.');
}
