// Logs admins in and out: checks the password and the second factor, and opens sessions.
import { Problem } from '../../errors.ts';
import type { Login } from '../../http/auth/authentication.ts';
import { mayEnter, type Caller } from '../../resources/access/access.ts';
import { factsOf } from '../../resources/users/events.ts';
import { assertOrigin } from '../../http/auth/request-origin.ts';
import { Unauthorized, type ApiRequest, type Reply } from '../../http/message/message.ts';
import { readCookie, setCookie } from '../web/cookies.ts';
import { verifyPassword } from './password-confirmation.ts';
import {
  hasValidCsrf,
  isSameOriginForm,
  ownPath,
  redirect,
  staleForm,
  withCookies,
} from '../web/admin-request.ts';
import type { AdminContext, LoginServices } from '../web/admin-context.ts';
import { LOGIN_LIMIT, createForm, readForm, type Form } from '../web/form-data.ts';
import { t } from '../web/language.ts';
import { UNSAVED } from '../web/unsaved-form.ts';
import { links } from '../web/admin-links.ts';
import { codePage, codesPage, loginPage, PENDING, type Carried } from './login-page.ts';
import { secretIn } from './second-factor-page.ts';

/** Lifetime of the session cookie in seconds: the longest life of a session. */
const SESSION_AGE = 14 * 24 * 3600;
/** One message for a wrong name, a wrong password and a user who may not enter, so it does not reveal which users exist. */
const refused = (): Problem => new Problem(401, t('loginRefused'));

/** A longer user name is not shown again after a failed login (characters). */
const MAX_NAME = 255;

/** Verifies that a name and a password belong to an admin. @throws Problem 401, always with the same message; 429, 503 */
async function verify(services: LoginServices, request: ApiRequest, form: Form): Promise<Login> {
  const [name = '', password = ''] = [form.get('username'), form.get('password')];
  return verifyPassword(services, request, name, password).catch((error: unknown) => {
    throw error instanceof Unauthorized ? refused() : error;
  });
}

interface OpenedSession {
  readonly token: string;
  readonly cookie: string;
}

const late = (): Problem => new Problem(401, t('loginTooLate'));

/** Ends the browser's session and opens a new one; undefined if the user has changed since the verification. */
export async function openSession(
  { sessions }: LoginServices,
  request: ApiRequest,
  { caller, precondition }: Login,
): Promise<OpenedSession | undefined> {
  const old = readCookie(request, 'session');
  if (old !== undefined) await sessions.end(old);
  const agent = (request.headers['user-agent'] ?? '').slice(0, 300);
  const { network } = request.client();
  const session = { id: caller.id, precondition, address: network, agent };
  const token = await sessions.open(session, request.requester);
  return token === undefined
    ? undefined
    : { token, cookie: setCookie(request, 'session', token, SESSION_AGE) };
}

/** A login with its session. */
interface DoneLogin extends OpenedSession {
  readonly caller: Caller;
  /** The recovery codes of a second factor that the login has set up. */
  readonly codes?: readonly string[] | undefined;
}

/** Verifies a name and a password, and opens a session, or asks for the second factor. @throws Problem as `verify` does */
async function verifyAndOpen(
  services: LoginServices,
  request: ApiRequest,
  form: Form,
  carried: Carried,
): Promise<DoneLogin | Reply> {
  // A second try, because a concurrent login may just have rehashed the same password.
  for (let tries = 0; tries < 2; tries += 1) {
    const login = await verify(services, request, form);
    if (login.hasSecondFactor || services.settings.mfa === 'required')
      return codePage(services, request, login, carried, createForm([['_csrf', form.get('_csrf') ?? '']]));
    const opened = await openSession(services, request, login);
    if (!opened) continue;
    void services.recordEvent('login', factsOf(request, login.caller, { door: 'admin' }));
    return { ...opened, caller: login.caller };
  }
  throw refused();
}

/** Checks the code of a pending login, or sets the second factor up with it, and opens a session. @throws Problem 401, 503 */
async function continueLogin(
  services: LoginServices,
  request: ApiRequest,
  form: Form,
  carried: Carried,
): Promise<DoneLogin | Reply> {
  const { authentication, secondFactors, pendingLogins, admitted } = services;
  const pending = pendingLogins.read(form.get(PENDING) ?? '');
  const resume = () => pending && authentication.resume(pending.name, pending.mark);
  const login = pending?.csrf === form.get('_csrf') ? await resume() : undefined;
  if (!secondFactors || !login || !mayEnter(login.caller, admitted)) throw late();
  const { caller, hasSecondFactor } = login;
  const code = form.get('_code') ?? '';
  let codes: readonly string[] | undefined;
  try {
    if (hasSecondFactor) {
      const { network } = request.client();
      await authentication.checkCode(caller, network, () => secondFactors.take(caller.id, code));
    } else {
      codes = await secondFactors.add(caller.id, secretIn(form), code);
      if (!codes) throw new Unauthorized();
    }
  } catch (error) {
    const wrong = error instanceof Unauthorized && new Problem(401, t('wrongOrUsed'));
    const problem = wrong || error;
    if (!(problem instanceof Problem) || ![401, 429, 503].includes(problem.status)) throw error;
    return codePage(services, request, login, carried, form, problem);
  }
  const now = codes ? await resume() : login;
  const opened = now && (await openSession(services, request, now));
  if (!opened) throw late();
  await secondFactors.confirm(caller.id, opened.token);
  if (codes) void services.recordEvent('second-factor.set', factsOf(request, caller));
  void services.recordEvent('login', factsOf(request, caller, { door: 'admin', secondFactor: true }));
  // The others were opened without a code.
  if (codes) await services.sessions.endOthers(caller, opened.token);
  return { ...opened, caller, codes };
}

/**
 * Runs the login form.
 * @param admin present if the user is already logged in, through another tab or a double click. A form that the first login
 * has invalidated then redirects as if it had succeeded.
 * @param proceed leads to the next page, or shows the unsaved form again
 */
export async function logIn(
  services: LoginServices,
  request: ApiRequest,
  admin: AdminContext | undefined,
  proceed: (caller: Caller, token: string, next: string, unsaved: string | undefined) => Promise<Reply>,
): Promise<Reply> {
  const form = await readForm(request, LOGIN_LIMIT);
  const next = ownPath(form.get('next'));
  const token = readCookie(request, 'login');
  const unsaved = form.get(UNSAVED);
  assertOrigin(request.headers, services.settings);
  const isValid = token !== undefined && hasValidCsrf(form, token);
  if (admin && !isValid)
    return isSameOriginForm(request) ? proceed(admin.caller, admin.token, next, unsaved) : redirect(next);
  if (!isValid) throw staleForm();
  const isOwn = unsaved !== undefined && services.unsavedForms.isSigned(unsaved);
  const carried = { next, unsaved: isOwn ? unsaved : undefined };
  try {
    const step = form.get(PENDING) === undefined ? verifyAndOpen : continueLogin;
    const done = await step(services, request, form, carried);
    if ('status' in done) return done;
    const { caller, token, cookie, codes } = done;
    request.recognize(caller);
    const reply = codes ? codesPage(codes, carried) : await proceed(caller, token, next, unsaved);
    return withCookies(reply, [cookie, setCookie(request, 'login', '', 0)]);
  } catch (error) {
    if (!(error instanceof Problem) || ![401, 429, 503].includes(error.status)) throw error;
    const typed = form.get('username') ?? '';
    const name = typed.length <= MAX_NAME ? typed : '';
    return loginPage(request, { name, problem: error, ...carried });
  }
}

export async function logOut({ sessions, request, token, report }: AdminContext): Promise<Reply> {
  await sessions.end(token);
  void report('logout');
  return redirect(`${links.page('login')}?_because=out`, [
    setCookie(request, 'session', '', 0),
    setCookie(request, 'flash', '', 0),
  ]);
}
