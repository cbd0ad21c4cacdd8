// The page of the own account: change the password, see and end sessions and tokens.
import { asProblem } from '../../db/connection/database-errors.ts';
import { requiredColumn } from '../../db/schema/model.ts';
import { Problem, type FieldErrors } from '../../errors.ts';
import { Unauthorized, type Reply } from '../../http/message/message.ts';
import { setOwnPassword } from '../../resources/records/own-password.ts';
import { timeZoneForm } from './time-zone-form.ts';
import { sessionSection, tokenSection } from './account-sections.ts';
import {
  confirmationField,
  confirmCode,
  passwordHint,
  typedPassword,
  verifyCaller,
} from './password-confirmation.ts';
import { secondFactorSection } from './second-factor-page.ts';
import { CallerChanged } from '../../resources/access/access.ts';
import { factsOf } from '../../resources/users/events.ts';
import type { AdminContext } from '../web/admin-context.ts';
import type { Form } from '../web/form-data.ts';
import { html, type Html } from '../web/html.ts';
import { buttonForm, pageReply } from '../web/layout.ts';
import { links } from '../web/admin-links.ts';
import { loginAddress, openSession, verifyPassword } from './login.ts';
import { shellQuote } from '../web/display-text.ts';
import { errorSummary, PASSWORD_LABELS, passwordFields } from '../web/widgets.ts';
import { redirect, redirectDone, withCookies } from '../web/admin-request.ts';

function passwordSection(context: AdminContext, errors: FieldErrors): Html {
  const { caller, csrf, users, settings } = context;
  const column = requiredColumn(users.model, 'password');
  const hint = passwordHint(column, { name: caller.name, minPassword: settings.minPassword });
  return html`<section>
    <h2>Change your password</h2>
    <form method="post" action="${links.account}" class="record">
      <input type="hidden" name="_csrf" value="${csrf}" />
      <input type="hidden" name="username" value="${caller.name}" autocomplete="username" />
      ${passwordFields(['_current', '_password', '_repeat'], errors, { hint })}
      ${confirmationField(context, errors, false)}
      <p class="hint">Changing your password ends all your other sessions.</p>
      <div class="buttons"><button class="primary">Change password</button></div>
    </form>
  </section>`;
}

async function ownSessions({ sessions, caller, token, csrf }: AdminContext): Promise<Html> {
  const list = await sessions.list(caller, token);
  const more =
    list.length > 1
      ? buttonForm(links.sessions, csrf, 'End other sessions', 'secondary')
      : html`<p class="hint">You have no other sessions.</p>`;
  return sessionSection('Your sessions', list, more);
}

async function ownTokens({ tokens, caller, csrf }: AdminContext): Promise<Html | undefined> {
  const add = html`<p><a class="button" href="${links.tokens}">Add a token</a></p>`;
  return tokens && tokenSection('Your tokens', await tokens.list(caller.id), links.tokens, csrf, add);
}

export async function showAccount(context: AdminContext, errors: FieldErrors = {}): Promise<Reply> {
  const sections = [
    passwordSection(context, errors),
    secondFactorSection(context),
    await ownSessions(context),
    await ownTokens(context),
    timeZoneForm(context),
  ];
  return pageReply(context, {
    title: `Your account, ${context.caller.name}`,
    crumbs: [{ text: 'Your account' }],
    kind: 'form',
    status: Object.keys(errors).length > 0 ? 400 : 200,
    body: html`${errorSummary(errors, PASSWORD_LABELS)} ${sections}`,
  });
}

/** Opens a session with the new password; undefined if that fails and the admin has to log in. */
async function reopenSession(context: AdminContext, password: string): ReturnType<typeof openSession> {
  try {
    // Verifies the new password too: another admin may have replaced it in the meantime.
    const { request, caller } = context;
    const login = await verifyPassword(context, request, caller.name, password);
    if (context.settings.mfa === 'required' && !login.hasSecondFactor) return undefined;
    return await openSession(context, request, login);
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
  return withCookies(redirectDone({ ...context, token }, page, 'Your password was changed.'), [cookie]);
}

/** Changes the admin's own password after checking the current one, and opens a new session. */
export async function changePassword(context: AdminContext, form: Form): Promise<Reply> {
  const { caller, users, operations, settings } = context;
  const column = requiredColumn(users.model, 'password');
  if (users.readonly.has(column)) {
    // The name may begin like an option.
    const separator = caller.name.startsWith('-') ? '-- ' : '';
    const command = `npx vitrine user password ${separator}${shellQuote(caller.name)}`;
    throw new Problem(409, `Passwords are read-only in the admin area. Ask an operator to run: ${command}`);
  }
  const rules = { name: caller.name, minPassword: settings.minPassword };
  const { text: password, errors } = typedPassword(form, column, rules);
  if (Object.keys(errors).length > 0) return showAccount(context, errors);
  try {
    const { precondition } = await verifyCaller(context, form.get('_current') ?? '');
    const refusal = await confirmCode(context, form);
    if (refusal) return await showAccount(context, refusal.errors);
    await setOwnPassword(users, operations, { ...caller, precondition }, password);
  } catch (error) {
    if (error instanceof Unauthorized || error instanceof CallerChanged) {
      // The password may have been changed while this form was processed, for instance because it was sent twice.
      const isSessionValid = (await context.sessions.find(context.token)) !== undefined;
      if (!isSessionValid) return redirect(loginAddress(links.account, 'account'));
      return showAccount(context, { _current: ['is not your password'] });
    }
    if (error instanceof Problem && error.status === 400 && error.errors)
      return showAccount(context, { _password: error.errors[column.key] ?? [error.message] });
    throw error;
  }
  return redirectReopened(context, password, links.account);
}

export async function endOtherSessions(context: AdminContext): Promise<Reply> {
  const { caller, request, recordEvent } = context;
  const count = await context.sessions.endOthers(caller, context.token);
  void recordEvent('session.ended', factsOf(request, caller, { sessions: count }));
  const text = count === 1 ? 'One other session was ended.' : `${count} other sessions were ended.`;
  return redirectDone(context, links.account, text);
}
