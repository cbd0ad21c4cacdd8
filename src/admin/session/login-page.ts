// The pages of a login: for the name and the password, for the second factor, and for its recovery codes.
import { randomBytes } from 'node:crypto';
import type { Problem } from '../../errors.ts';
import type { Login } from '../../http/auth/authentication.ts';
import type { ApiRequest, Reply } from '../../http/message/message.ts';
import { readCookie, setCookie } from '../web/cookies.ts';
import { csrfOf, ownPath, shortAddress } from '../web/admin-request.ts';
import type { LoginServices } from '../web/admin-context.ts';
import type { Form } from '../web/form-data.ts';
import { html, type Content } from '../web/html.ts';
import { t, type PlainCode } from '../web/language.ts';
import { UNSAVED } from '../web/unsaved-form.ts';
import { pageReply } from '../web/layout.ts';
import { LinkParameters, links } from '../web/admin-links.ts';
import { errorSummary, inputField, passwordFields } from '../web/widgets.ts';
import { recoveryCodes, setUpFields } from './second-factor-page.ts';

interface LoginForm {
  readonly title: string;
  readonly fields: Content;
  readonly button: string;
  readonly after?: Content;
  readonly status?: number;
}

/** A page without a session. @param page that its form is sent to */
export function loginForm(
  page: 'login' | 'set-password',
  { title, fields, button, after, status = 200 }: LoginForm,
  headers?: Reply['headers'],
): Reply {
  const body = html`<form method="post" action="${links.page(page)}" class="login">
    ${fields}
    <button class="primary">${button}</button>
    ${after}
  </form>`;
  return pageReply(undefined, { title, kind: 'login', status, body }, headers);
}

/** What the forms of a login carry until it is done. */
export interface Carried {
  readonly next: string;
  /** A form that was sent after its session had ended; see `UnsavedForms`. */
  readonly unsaved?: string | undefined;
}

interface LoginPage extends Carried {
  readonly name?: string;
  readonly problem?: Problem;
  /** Why the user has to log in. */
  readonly notice?: string | undefined;
}

export function loginPage(
  request: ApiRequest,
  { name = '', next, problem, notice, unsaved }: LoginPage,
): Reply {
  const known = readCookie(request, 'login');
  const token = known ?? randomBytes(24).toString('base64url');
  const cookies = known === undefined ? { 'Set-Cookie': setCookie(request, 'login', token) } : {};
  const state = { required: true, 'aria-invalid': problem && 'true', 'aria-describedby': problem && 'error' };
  const fields = html`<input type="hidden" name="_csrf" value="${csrfOf(token)}" />
    ${carriedFields({ next, unsaved })}
    ${notice !== undefined && html`<p class="notice" role="status">${notice}</p>`}
    ${problem && html`<p class="error-summary" id="error" role="alert">${problem.message}</p>`}
    ${inputField('username', t('userName'), { ...state, value: name, autocomplete: 'username', autocapitalize: 'none', spellcheck: 'false', autofocus: !problem })}
    ${inputField('password', t('password'), { ...state, type: 'password', autocomplete: 'current-password', autofocus: problem !== undefined })}`;
  const status = problem?.status ?? (unsaved === undefined ? 200 : 401);
  return loginForm('login', { title: t('logIn'), fields, button: t('logIn'), status }, { ...cookies, ...problem?.headers }); // prettier-ignore
}

const NOTICES: ReadonlyMap<string, PlainCode> = new Map([
  ['ended', 'logInToContinue'],
  ['undone', 'nothingChangedLogIn'],
  // The form may have been sent twice, and the first one has changed the password.
  ['account', 'logInWithNewPassword'],
  ['out', 'loggedOut'],
  ['changed', 'passwordChangedLogIn'],
  ['set', 'passwordSetLogIn'],
]);

export function showLogin(request: ApiRequest): Reply {
  const parameters = LinkParameters.parse(request.query);
  const notice = NOTICES.get(parameters.get('_because') ?? '');
  return loginPage(request, { next: ownPath(parameters.get('next')), notice: notice && t(notice) });
}

/** The address of the login page. @param page where the login leads @param because a key of `NOTICES` */
export const loginAddress = (
  page: string,
  because?: 'ended' | 'undone' | 'account' | 'out' | 'changed' | 'set',
): string =>
  `${links.page('login')}?next=${encodeURIComponent(shortAddress(page))}${because === undefined ? '' : `&_because=${because}`}`;

/**
 * The login page in reply to a form of an expired session. The form is shown again after the login.
 * @param next where the login leads if the form does not come back
 */
export function showLoginFor(request: ApiRequest, next: string, unsaved: string): Reply {
  return loginPage(request, {
    next: ownPath(shortAddress(next)),
    notice: t('nothingSavedLogIn'),
    unsaved,
  });
}

/** The field of the login form for the login that waits for its second factor. */
export const PENDING = '_login';

const carriedFields = ({ next, unsaved }: Carried): Content =>
  html`<input type="hidden" name="next" value="${next}" />
    ${unsaved !== undefined && html`<input type="hidden" name="${UNSAVED}" value="${unsaved}" />`}`;

/** The second page of a login: asks for a code, or sets the second factor up. @param sent the form, if its code was wrong */
export function codePage(
  { pendingLogins }: LoginServices,
  request: ApiRequest,
  { caller, hasSecondFactor, mark }: Login,
  carried: Carried,
  form: Form,
  problem?: Problem,
): Reply {
  const csrf = form.get('_csrf') ?? '';
  const errors = problem ? { _code: [problem.message] } : {};
  const pending = form.get(PENDING) ?? pendingLogins.write({ name: caller.name, mark, csrf });
  const fields = html`${errorSummary(errors)}
    <input type="hidden" name="_csrf" value="${csrf}" />
    <input type="hidden" name="${PENDING}" value="${pending}" />
    ${carriedFields(carried)}
    ${
      hasSecondFactor
        ? passwordFields(['_code'], errors)
        : html`<p class="notice">${t('secondFactorNeeded')}</p>
            ${setUpFields(request, caller.name, errors, form)}`
    }`;
  const after = html`<a href="${loginAddress(carried.next)}">${t('startAgain')}</a>`;
  const parts = { title: t('secondFactor'), fields, button: t('logIn'), after };
  return loginForm('login', { ...parts, status: problem?.status ?? 200 }, problem?.headers);
}

/** Shows the recovery codes of a second factor that was set up with the login. */
export const codesPage = (codes: readonly string[], carried: Carried): Reply =>
  loginForm('login', {
    title: t('recoveryCodes'),
    fields: html`${carriedFields(carried)} ${recoveryCodes(codes)}`,
    button: t('continue'),
  });
