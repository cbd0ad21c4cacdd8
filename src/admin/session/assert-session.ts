// Keeps ended sessions from changing anything while their last request goes on.
import { Problem } from '../../errors.ts';
import { CallerChanged, type Caller } from '../../resources/access/access.ts';
import type { AdminContext } from '../web/admin-context.ts';
import { t } from '../web/language.ts';

/** Whether the session goes on. @throws Problem 403 if the user has other roles now */
async function goesOn({ sessions, token, caller }: AdminContext): Promise<boolean> {
  const now = await sessions.find(token);
  if (now && (now.admin !== caller.admin || now.facts !== caller.facts))
    throw new Problem(403, t('rightsChangedBefore'));
  return now !== undefined;
}

/**
 * Checks the session again before a transaction commits, because the transaction can take minutes.
 * @throws Problem 403 if the session has ended, or if the user has other roles now
 */
export async function assertSession(context: AdminContext): Promise<void> {
  if (!(await goesOn(context))) throw new Problem(403, t('sessionEndedBefore'));
}

/** The same for a form that comes back after the login. @throws CallerChanged; Problem 403 */
export async function assertSameCaller(context: AdminContext): Promise<void> {
  if (!(await goesOn(context))) throw new CallerChanged();
}

/**
 * The caller for a statement that writes one record. It writes nothing if before it began the session ended or the user got
 * other roles, for instance while a password waited to be hashed.
 */
export const sessionCaller = ({ caller, sessions, token }: AdminContext): Caller => ({
  ...caller,
  precondition: sessions.precondition(token, caller),
});
