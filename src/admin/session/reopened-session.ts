// The new session of an admin whose own password has changed, which ended the old one.
import { asProblem } from '../../db/connection/database-errors.ts';
import { Unauthorized, type Reply } from '../../http/message/message.ts';
import type { AdminContext } from '../web/admin-context.ts';
import { redirect, redirectDone } from '../web/admin-request.ts';
import { loginAddress, openSession, verifyPassword } from './login.ts';

/** Opens a session with the new password; undefined if that fails and the admin has to log in. */
async function reopenSession(context: AdminContext, password: string): ReturnType<typeof openSession> {
  try {
    // Verifies the new password too: another admin may have replaced it in the meantime.
    const { request, caller } = context;
    return await openSession(context, request, await verifyPassword(context, request, caller.name, password));
  } catch (error) {
    // The password has been changed, so a failed login must not look like a failed change.
    if (!(error instanceof Unauthorized) && !asProblem(error)) throw error;
    return undefined;
  }
}

/** Redirects to the page in a new session; to the login if no session can be opened. */
export async function redirectReopened(
  context: AdminContext,
  password: string,
  page: string,
): Promise<Reply> {
  const opened = await reopenSession(context, password);
  if (!opened) return redirect(loginAddress(page, 'changed'));
  const { token, cookie } = opened;
  const reply = redirectDone({ ...context, token }, page, 'Your password was changed.');
  return {
    ...reply,
    headers: { ...reply.headers, 'Set-Cookie': [cookie, ...[reply.headers['Set-Cookie'] ?? []].flat()] },
  };
}
