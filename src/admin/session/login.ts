import { randomBytes } from 'node:crypto';
import { Problem } from '../../errors.ts';
import type { Login } from '../../http/auth/authentication.ts';
import { Unauthorized, type ApiRequest, type Reply } from '../../http/message/message.ts';
import { assertOrigin } from '../../http/auth/request-origin.ts';
import { readCookie, setCookie } from '../web/cookies.ts';
import type { AdminContext } from '../web/admin-context.ts';
import { ANONYMOUS_LIMIT, readForm, type Form } from '../web/form-data.ts';
import { html } from '../web/html.ts';
import { pageReply } from '../web/layout.ts';
import { links, Parameters } from '../web/admin-links.ts';
import {
  assertSameSite,
  csrfOf,
  hasValidCsrf,
  isSameOriginForm,
  redirect,
  type AdminRequest,
} from '../web/admin-request.ts';

/** Seconds for which the browser keeps the session's cookie: as long as a session can last. */
const SESSION_AGE = 14 * 24 * 3600;
/** The same for a wrong name, a wrong password, and a user who is no admin. */
const REFUSED = 'This user name and password do not open the admin area.';

/** The most characters of a user name that the page repeats. */
const MAX_NAME = 255;

/** Stands for the service's own origin where an address is read as browsers read it. */
const HERE = 'http://here.invalid';

/** The most bytes of an address in a `Location`, percent-encoded: proxies such as nginx take 4 KiB of headers in all. */
const MAX_ADDRESS = 2500;

/** The address, or where that is too long, as much of it as leads to the same page or to the start page. */
function shortAddress(address: string): string {
  const isShort = (one: string): boolean => encodeURIComponent(one).length <= MAX_ADDRESS;
  return [address, address.split('?', 1)[0] ?? ''].find(isShort) ?? links.dashboard;
}

/** Where to go after the login: only to pages of our own, whatever dots and codes the address has. */
export function ownPath(next = ''): string {
  if (next.length > MAX_ADDRESS || !/^\/admin\/[^\\\s]*$/.test(next) || !URL.canParse(next, HERE))
    return links.dashboard;
  const { origin, pathname, search } = new URL(next, HERE);
  return origin === HERE && pathname.startsWith(links.dashboard) ? `${pathname}${search}` : links.dashboard;
}

interface LoginPage {
  readonly name?: string;
  readonly next: string;
  readonly problem?: Problem;
  /** Why the visitor has to log in, where that is not plain. */
  readonly notice?: string;
  /** The id of a form that was sent without a login and comes back after it. */
  readonly parked?: string | undefined;
}

function loginPage(request: ApiRequest, { name = '', next, problem, notice, parked }: LoginPage): Reply {
  const known = readCookie(request, 'login');
  const token = known ?? randomBytes(24).toString('base64url');
  const cookies = known === undefined ? { 'Set-Cookie': setCookie(request, 'login', token) } : {};
  const describe = problem
    ? { described: html` aria-describedby="error"`, invalid: html` aria-invalid="true"` }
    : {};
  const body = html`<form method="post" action="${links.login}" class="login">
    <input type="hidden" name="_csrf" value="${csrfOf(token)}" />
    <input type="hidden" name="next" value="${next}" />
    ${parked !== undefined && html`<input type="hidden" name="_parked" value="${parked}" />`}
    ${notice !== undefined && html`<p class="notice" role="status">${notice}</p>`}
    ${problem && html`<p class="error-summary" id="error" role="alert">${problem.message}</p>`}
    <div class="field">
      <label for="username">User name</label>
      <input
        id="username"
        name="username"
        value="${name}"
        autocomplete="username"
        autocapitalize="none"
        spellcheck="false"
        required
        ${!problem && html`autofocus`}${describe.invalid}${describe.described}
      />
    </div>
    <div class="field">
      <label for="password">Password</label>
      <input
        id="password"
        name="password"
        type="password"
        autocomplete="current-password"
        required
        ${problem && html`autofocus`}${describe.invalid}${describe.described}
      />
    </div>
    <button class="primary">Log in</button>
  </form>`;
  return pageReply(
    undefined,
    { title: 'Log in', kind: 'login', status: problem?.status ?? (parked === undefined ? 200 : 401), body },
    { ...cookies, ...problem?.headers },
  );
}

const NOTICES: Readonly<Record<string, string>> = {
  ended: 'Your login has ended. Log in again to go on.',
  undone: 'Your login has ended, and nothing was done. Log in again to go on.',
  out: 'You are logged out.',
  changed: 'Your password was changed. Log in again.',
};

export function showLogin(request: ApiRequest): Reply {
  const parameters = Parameters.parse(request.query);
  const notice = NOTICES[parameters.get('_because') ?? ''];
  return loginPage(request, {
    next: ownPath(parameters.get('next')),
    ...(notice === undefined ? {} : { notice }),
  });
}

/** Where somebody goes who has to log in first; `page` is where they come back to. */
export const loginAddress = (page: string, because?: 'ended' | 'undone' | 'out' | 'changed'): string =>
  `${links.login}?next=${encodeURIComponent(shortAddress(page))}${because === undefined ? '' : `&_because=${because}`}`;

/** The login in place of what a form should have done. The form is kept and comes back after the login. */
export function showLoginFor(request: ApiRequest, parked: string): Reply {
  return loginPage(request, {
    next: ownPath(shortAddress(request.path)),
    notice:
      'Your session has expired, and nothing was saved. Log in: what you typed comes back, except passwords.',
    parked,
  });
}

/** The id of a kept form, as the login page carries it. */
function parkedId(form: Form): string | undefined {
  const id = form.get('_parked');
  return id !== undefined && /^[\w-]{22}$/.test(id) ? id : undefined;
}

/** The admin of a name and a password. @throws Problem 401, the same for whatever is wrong; 429, 503 */
async function verify({ authentication }: AdminContext, request: ApiRequest, form: Form): Promise<Login> {
  const credentials = { name: form.get('username') ?? '', password: form.get('password') ?? '' };
  try {
    const login = await authentication.logIn(credentials, request.client().address, (callback) =>
      request.requester.onGone(callback),
    );
    if (login.caller.admin) return login;
  } catch (error) {
    if (!(error instanceof Unauthorized)) throw error;
  }
  throw new Problem(401, REFUSED);
}

interface OpenedSession {
  readonly token: string;
  readonly cookie: string;
}

/** A new session for an admin, in place of whatever the browser has; undefined where the user has changed since the verification. */
export async function openSession(
  { sessions }: AdminContext,
  request: ApiRequest,
  { caller, precondition }: Login,
): Promise<OpenedSession | undefined> {
  const old = readCookie(request, 'session');
  if (old !== undefined) await sessions.end(old);
  const agent = (request.headers['user-agent'] ?? '').slice(0, 300);
  const token = await sessions.open(caller, precondition, request.client().address, agent);
  return token === undefined
    ? undefined
    : { token, cookie: setCookie(request, 'session', token, SESSION_AGE) };
}

/** Verifies a name and a password, and opens a session. @throws Problem as `verify` does */
async function begin(
  context: AdminContext,
  request: ApiRequest,
  form: Form,
): Promise<OpenedSession & Pick<Login, 'caller'>> {
  // A right password has another hash where a login from elsewhere has just replaced it: the second try knows that one.
  for (let tries = 0; tries < 2; tries += 1) {
    const login = await verify(context, request, form);
    const opened = await openSession(context, request, login);
    if (opened) return { ...opened, caller: login.caller };
  }
  throw new Problem(401, REFUSED);
}

/**
 * @param adminRequest of a caller who has logged in meanwhile, in another tab or by the very form that is sent once more: then it goes on
 * as after a login
 * @param resume shows a form again that was sent without a login
 */
export async function logIn(
  context: AdminContext,
  request: ApiRequest,
  adminRequest: AdminRequest | undefined,
  resume: (caller: AdminRequest['caller'], token: string, path: string, form: Form) => Promise<Reply>,
): Promise<Reply> {
  const form = await readForm(request, ANONYMOUS_LIMIT);
  const next = ownPath(form.get('next'));
  const token = readCookie(request, 'login');
  const parked = parkedId(form);
  if (adminRequest && (token === undefined || !hasValidCsrf(form, token))) {
    assertOrigin(request.headers, { corsOrigins: [], trustProxy: context.settings.trustProxy });
    const sent = context.parking.find(adminRequest.token, parked);
    return sent && isSameOriginForm(request)
      ? resume(adminRequest.caller, adminRequest.token, next, sent)
      : redirect(next);
  }
  assertSameSite(request, form, token, context.settings);
  try {
    const { caller, token, cookie } = await begin(context, request, form);
    request.recognize(caller);
    context.parking.move(readCookie(request, 'session') ?? '', token, caller.id);
    const sent = context.parking.find(token, parked);
    const cookies = [cookie, setCookie(request, 'login', '', 0)];
    if (!sent) return redirect(next, cookies);
    const reply = await resume(caller, token, next, sent);
    return { ...reply, headers: { ...reply.headers, 'Set-Cookie': cookies } };
  } catch (error) {
    if (!(error instanceof Problem) || ![401, 429, 503].includes(error.status)) throw error;
    const name = form.get('username') ?? '';
    return loginPage(request, {
      name: name.length <= MAX_NAME ? name : '',
      next,
      problem: error,
      parked,
    });
  }
}

export async function logOut({ sessions }: AdminContext, { request, token }: AdminRequest): Promise<Reply> {
  await sessions.end(token);
  return redirect(`${links.login}?_because=out`, [
    setCookie(request, 'session', '', 0),
    setCookie(request, 'flash', '', 0),
  ]);
}
