// The page of the admin's own account: change the password, see and end sessions.
import { findColumn } from '../../db/schema/model.ts';
import { asProblem } from '../../db/connection/database-errors.ts';
import { badBody, Problem, type FieldErrors } from '../../errors.ts';
import type { Login } from '../../http/auth/authentication.ts';
import { Unauthorized, type Reply } from '../../http/message/message.ts';
import { parseJsonFields } from '../../resources/records/json-fields.ts';
import { newPasswordFault, passwordHint } from './password-confirmation.ts';
import type { AdminContext } from '../web/admin-context.ts';
import type { Form } from '../web/form-data.ts';
import { html, type Html } from '../web/html.ts';
import { buttonForm, pageReply } from '../web/layout.ts';
import { links } from '../web/admin-links.ts';
import { loginAddress, openSession } from './login.ts';
import { moment } from '../web/display-text.ts';
import { errorSummary, PASSWORD_LABELS, passwordFields } from '../web/widgets.ts';
import { redirect, redirectWith, type AdminRequest } from '../web/admin-request.ts';

async function sessionTable(
  { sessions }: AdminContext,
  { caller, token, csrf }: AdminRequest,
): Promise<Html> {
  const list = await sessions.list(caller, token);
  return html`<section>
    <h2>Your sessions</h2>
    <table class="records">
      <thead>
        <tr>
          <th scope="col">Browser</th>
          <th scope="col">Address</th>
          <th scope="col">Since</th>
          <th scope="col">Last used</th>
        </tr>
      </thead>
      <tbody>
        ${list.map(
          ({ agent, address, created, seen, isCurrent }) =>
            html`<tr>
              <th scope="row" data-label="Browser">
                ${agent || 'unknown'}${isCurrent && html` <span class="badge">this session</span>`}
              </th>
              <td data-label="Address">${address}</td>
              <td data-label="Since">${moment(created)}</td>
              <td data-label="Last used">${moment(seen)}</td>
            </tr>`,
        )}
      </tbody>
    </table>
    ${
      list.length > 1
        ? buttonForm(links.sessions, csrf, 'End other sessions', 'secondary')
        : html`<p class="hint">You have no other sessions.</p>`
    }
  </section>`;
}

export async function showAccount(
  context: AdminContext,
  adminRequest: AdminRequest,
  errors?: FieldErrors,
): Promise<Reply> {
  const { caller, csrf } = adminRequest;
  const users = context.resources.get(context.settings.userModel);
  const hint = users && passwordHint(context, users);
  const body = html` ${errors && errorSummary(errors, PASSWORD_LABELS)}
    <section>
      <h2>Change your password</h2>
      <form method="post" action="${links.account}" class="record">
        <input type="hidden" name="_csrf" value="${csrf}" />
        <input type="hidden" name="username" value="${caller.name}" autocomplete="username" />
        ${passwordFields(['_current', '_password', '_repeat'], errors ?? {}, hint === undefined ? {} : { hint })}
        <p class="hint">Changing your password ends all your other sessions.</p>
        <div class="buttons"><button class="primary">Change password</button></div>
      </form>
    </section>
    ${await sessionTable(context, adminRequest)}`;
  return pageReply(adminRequest, {
    title: `Your account, ${caller.name}`,
    crumbs: [{ text: 'Your account' }],
    kind: 'form',
    status: errors ? 400 : 200,
    body,
  });
}

/** Moves the errors of the column `password` to the form field `_password`. */
const passwordErrors = ({ password, ...others }: FieldErrors): FieldErrors =>
  password ? { _password: password, ...others } : others;

/** Verifies a password of the admin who makes the request. @throws Unauthorized; Problem 429, 503 */
const logInAgain = (
  { authentication }: AdminContext,
  { caller, request }: AdminRequest,
  password: string,
): Promise<Login> =>
  authentication.logIn({ name: caller.name, password }, request.client().address, (callback) =>
    request.requester.onGone(callback),
  );

/** Opens a session with the new password; undefined if that fails and the admin has to log in. */
async function reopenSession(
  context: AdminContext,
  adminRequest: AdminRequest,
  password: string,
): ReturnType<typeof openSession> {
  try {
    // Verifies the new password too: another admin may have replaced it in the meantime.
    return await openSession(
      context,
      adminRequest.request,
      await logInAgain(context, adminRequest, password),
    );
  } catch (error) {
    // The password has been changed, so a failed login must not look like a failed change.
    if (!(error instanceof Unauthorized) && !asProblem(error)) throw error;
    return undefined;
  }
}

/** Changes the admin's own password after checking the current one, and opens a new session. */
export async function changePassword(
  context: AdminContext,
  adminRequest: AdminRequest,
  form: Form,
): Promise<Reply> {
  const { caller } = adminRequest;
  const { resources, operations, settings } = context;
  const users = resources.get(settings.userModel);
  if (!users)
    throw new Problem(
      409,
      `Cannot change the password here: the admin area does not show the model ${settings.userModel}. Ask an operator to run: vitrine user password ${caller.name}`,
    );
  const [current = '', password = '', repeat = ''] = ['_current', '_password', '_repeat'].map((name) =>
    form.get(name),
  );
  try {
    if (password !== repeat) throw badBody({ _repeat: ['does not match the new password'] });
    if (password === '') throw badBody({ _password: ['is required'] });
    const column = findColumn(users.model, 'password');
    const userFields = parseJsonFields(JSON.stringify({ username: caller.name }));
    const fault = column && newPasswordFault(context, users, column, password, userFields);
    if (fault !== undefined) throw badBody({ _password: [fault] });
    await logInAgain(context, adminRequest, current);
    await operations.update(
      users,
      caller.id,
      parseJsonFields(JSON.stringify({ password })),
      caller,
      undefined,
    );
  } catch (error) {
    if (error instanceof Unauthorized)
      return showAccount(context, adminRequest, { _current: ['is not your password'] });
    if (error instanceof Problem && error.status === 400 && error.errors)
      return showAccount(context, adminRequest, passwordErrors(error.errors));
    throw error;
  }
  const opened = await reopenSession(context, adminRequest, password);
  if (!opened) return redirect(loginAddress(links.account, 'changed'));
  const { token, cookie } = opened;
  const reply = redirectWith({ ...adminRequest, token }, links.account, {
    kind: 'done',
    text: 'Your password was changed.',
  });
  return {
    ...reply,
    headers: { ...reply.headers, 'Set-Cookie': [cookie, ...[reply.headers['Set-Cookie'] ?? []].flat()] },
  };
}

export async function endOtherSessions(
  { sessions }: AdminContext,
  adminRequest: AdminRequest,
): Promise<Reply> {
  const count = await sessions.endOthers(adminRequest.caller, adminRequest.token);
  const text = count === 1 ? 'One other session was ended.' : `${count} other sessions were ended.`;
  return redirectWith(adminRequest, links.account, { kind: 'done', text });
}
