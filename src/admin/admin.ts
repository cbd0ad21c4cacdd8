// Answers requests to the admin area: finds the session, reads the form, and turns problems into pages.
import { STATUS_CODES } from 'node:http';
import { asProblem, DatabaseFault } from '../db/connection/database-errors.ts';
import { Problem } from '../errors.ts';
import { authorOf, type ApiRequest, type Area, type Reply } from '../http/message/message.ts';
import { findAsset, isAsset } from './web/assets.ts';
import { createBrand } from './web/brand.ts';
import { unconfirmed } from './web/unsaved-form.ts';
import { readCookie, setCookie } from './web/cookies.ts';
import { assertOrigin } from '../http/auth/request-origin.ts';
import { withBasePath } from '../http/message/base-path.ts';
import { ADMIN_METHODS } from '../http/api/api-routes.ts';
import { ADMIN_ASSET } from '../http/observability/metrics.ts';
import type { AdminViews } from '../resources/access/admin-view.ts';
import type { AdminContext, LoginServices, ServicesFor } from './web/admin-context.ts';
import { ANONYMOUS_LIMIT, formLimit, readForm, type Form } from './web/form-data.ts';
import { html, type Html } from './web/html.ts';
import { IMPORT_LIMIT, showImport } from './import/import-page.ts';
import { pageReply } from './web/layout.ts';
import { links } from './web/admin-links.ts';
import { phrase, t, type PlainCode } from './web/language.ts';
import { inPresentation } from './web/presentation.ts';
import { actOnRecord } from './actions/custom-actions.ts';
import { isExport, runSelectionAction } from './actions/selection-actions.ts';
import { showUnsaved } from './form/edit-page.ts';
import { answerPasswordLink } from './session/link-page.ts';
import { loginAddress, showLogin, showLoginFor } from './session/login-page.ts';
import { logIn } from './session/login.ts';
import { answersOf, findAdminRoute, patternOf, type AdminResourceRoute, type AdminRoute } from './pages.ts';
import {
  csrfOf,
  hasValidCsrf,
  isSameOriginForm,
  readFlash,
  redirect,
  redirectFailed,
  shownProblem,
  staleForm,
  withCookies,
} from './web/admin-request.ts';
import { factsOf } from '../resources/users/events.ts';
import { areaAccessOf, CallerChanged, type Caller } from '../resources/access/access.ts';
import { createServices, type AdminOptions } from './create-services.ts';

/** Builds the context of a request with a session. */
type ContextOf = (request: ApiRequest, caller: Caller, token: string) => AdminContext;

const contextsWith =
  (servicesFor: ServicesFor): ContextOf =>
  (request, caller, token) => {
    const services = servicesFor(request, areaAccessOf(caller));
    request.recognize(caller);
    const author = authorOf(caller, request);
    return {
      ...services,
      request,
      caller: author,
      report: (name, detail, transaction) =>
        services.recordEvent(name, factsOf(request, author, detail), transaction),
      token,
      csrf: csrfOf(token),
      flash: readFlash(request, token),
    };
  };

/** The address that a login leads to after a form was sent: the page of the form, or the one above if the page has no GET. */
const addressAfterLogin = (path: string): string =>
  path.replace(/-\/(logout|display|bulk)\/?$/, '').replace(/^(\/admin\/[^/]+\/[^/]+\/)action\/?$/, '$1');

/** Redirects to the login, which leads back to the page. A change is not repeated after the login. */
function redirectToLogin(request: ApiRequest): Reply {
  const { method, path, query } = request;
  const page = method === 'POST' ? addressAfterLogin(path) : path;
  const next = withBasePath(`${page}${query === '' ? '' : `?${query}`}`);
  const hasEnded = readCookie(request, 'session') !== undefined;
  const sent = /-\/(logout|account)\/?$/.exec(path)?.[1];
  const postReason = sent === 'logout' ? 'out' : sent === 'account' ? 'account' : 'undone';
  return redirect(loginAddress(next, method === 'POST' ? postReason : hasEnded ? 'ended' : undefined));
}

type EditRoute = AdminResourceRoute & { readonly page: 'add' | 'record' };

const isEdit = (route: AdminRoute): route is EditRoute => route.page === 'add' || route.page === 'record';

/**
 * Shows a form of an earlier session again, and does nothing of what it asks for.
 * @param sent the form, without the confirmation of an action
 * @param status of its page
 * @returns undefined for other forms than those of records and of actions on them
 */
async function showAgain(
  context: AdminContext,
  route: AdminRoute,
  sent: Form,
  status: number,
): Promise<Reply | undefined> {
  if (isEdit(route)) return showUnsaved({ ...context, ...route }, sent, status);
  let reply: Reply | undefined;
  if (route.page === 'action') reply = await actOnRecord({ ...context, ...route }, sent);
  if (route.page === 'bulk' && !isExport(sent))
    reply = await runSelectionAction({ ...context, ...route }, sent);
  return reply?.status === 200 ? { ...reply, status } : reply;
}

/** Whether a form sent without a session edits a record, or is about an action on some: such a form comes back after the login. */
function comesBack(resources: AdminViews, request: ApiRequest): boolean {
  try {
    const route = findAdminRoute(request.path, resources);
    return isSameOriginForm(request) && (isEdit(route) || ['action', 'bulk'].includes(route.page));
  } catch {
    return false; // an anonymous client must not learn which pages exist
  }
}

/**
 * Answers a request without a session. Only the form of a recently ended session comes back after the login.
 * @param sent the form, if it has been read already
 */
async function answerAnonymous(services: LoginServices, request: ApiRequest, sent?: Form): Promise<Reply> {
  if (request.method !== 'POST') return redirectToLogin(request);
  assertOrigin(request.headers, services.settings);
  const token = readCookie(request, 'session');
  if (token === undefined || !comesBack(services.resources, request)) return redirectToLogin(request);
  const user = await services.sessions.endedUser(token);
  if (user === undefined) return redirectToLogin(request);
  try {
    const form = sent ?? (await readForm(request, ANONYMOUS_LIMIT));
    if (isExport(form)) return redirectToLogin(request);
    const next = withBasePath(addressAfterLogin(request.path));
    return showLoginFor(request, next, services.unsavedForms.write(user, request.path, form));
  } catch (error) {
    if (!(error instanceof Problem) || error.status !== 413) throw error;
    return problemPage(undefined, error, { advice: sendAgain() });
  }
}

/** How to get back a form that is too large for the login page. After going back, `no-store` makes most browsers load the form without the typed values. */
const sendAgain = (): Html =>
  html`<p>
    ${phrase('sendAgain', { logIn: html`<a href="${links.page('login')}" target="_blank">${t('logInInOtherTab')}</a>` })}
  </p>`;

/** Seconds after MAX_LAG for which the browser keeps a position. Every replica in the rotation has the write by then. */
const POSITION_MARGIN = 60;

const wrongMethod = (code: 'wrongMethod' | 'wrongMethodOfPages', method: string, allow: string): Problem =>
  new Problem(405, t(code, { allow, method }), { headers: { Allow: allow } });

/**
 * Leads from the login to the next page, or shows the form that was sent before it again.
 * @param signed the form, see `UnsavedForms`
 */
async function afterLogin(context: AdminContext, next: string, signed: string | undefined): Promise<Reply> {
  if (signed === undefined) return redirect(next);
  const unsaved = context.unsavedForms.read(signed, context.caller.id);
  if (!unsaved) return redirectFailed(context, next, t('notRestored'));
  const { path, form } = unsaved;
  try {
    const route = findAdminRoute(path, context.resources);
    answersOf(context, route); // The user may have lost the right to this page meanwhile.
    return (await showAgain(context, route, form, 200)) ?? redirect(next);
  } catch (error) {
    // A page, not an error: the reply must carry the cookie of the new session. A reload can show the form.
    const problem = asProblem(error);
    if (!problem) throw error;
    return problemPage(context, problem, { path });
  }
}

/** Answers a request with a session. */
async function answerLoggedIn(context: AdminContext, contextOf: ContextOf): Promise<Reply> {
  const { request, token } = context;
  const route = findAdminRoute(request.path, context.resources);
  const { show, change } = answersOf(context, route);
  const isPost = request.method === 'POST';
  if (!isPost && show) return show();
  if (!isPost || !change) {
    const allow = [show && 'GET, HEAD', change && 'POST', 'OPTIONS'].filter(Boolean).join(', ');
    throw wrongMethod('wrongMethod', request.method, allow);
  }
  let form: Form;
  try {
    form = await readForm(request, route.page === 'import' ? IMPORT_LIMIT : formLimit(context.settings));
  } catch (error) {
    // The import page shows the error, so that the user can choose another file.
    if (route.page === 'import' && error instanceof Problem && error.status < 500)
      return showImport({ ...context, ...route }, error);
    throw error;
  }
  assertOrigin(request.headers, context.settings);
  // A form from an earlier session of this site is shown again, so that its values are not lost.
  if (!hasValidCsrf(form, token)) {
    const shown = isSameOriginForm(request) && (await showAgain(context, route, unconfirmed(form), 403));
    if (!shown || shown.status < 400) throw staleForm();
    return shown;
  }
  // While the form arrived, the session may have ended, or what the caller is called and may do may have changed.
  const caller = await context.sessions.find(token);
  if (!caller) return answerAnonymous(context, request, form);
  try {
    const now = contextOf(request, caller, token);
    return await (answersOf(now, findAdminRoute(request.path, now.resources)).change ?? change)(form);
  } catch (error) {
    if (!(error instanceof CallerChanged)) throw error;
    await context.sessions.end(token);
    return answerAnonymous(context, request, form);
  }
}

/** Links for a missing record, which may have been deleted: its list and its history. */
function missingRecordLinks({ resources }: AdminContext, path: string): Html | false {
  try {
    const route = findAdminRoute(path, resources);
    if (!('id' in route)) return false;
    const { name, title, recorded, allows } = route.resource;
    return html`<p>
      <a href="${links.list(name)}">${title}</a>${
        recorded &&
        allows.has('history') &&
        html`, <a href="${links.part(name, route.id, 'history')}">${t('historyOfThisRecord')}</a>`
      }
    </p>`;
  } catch {
    return false;
  }
}

const STATUS_TITLES: ReadonlyMap<number, PlainCode> = new Map([
  [400, 'badRequest'],
  [401, 'unauthorized'],
  [403, 'forbidden'],
  [404, 'pageNotFound'],
  [405, 'methodNotAllowed'],
  [409, 'conflict'],
  [413, 'payloadTooLarge'],
  [414, 'addressTooLong'],
  [415, 'unsupportedMediaType'],
  [429, 'tooManyRequests'],
  [500, 'internalError'],
  [503, 'serviceUnavailable'],
]);

/**
 * A page about a problem.
 * @param details the page that was asked for, if its record may be missing; the identifier in the log; what to do
 */
function problemPage(
  context: AdminContext | undefined,
  { status, message, headers }: Problem,
  details: { readonly path?: string; readonly requestId?: string; readonly advice?: Html },
): Reply {
  const { path = '', requestId = '', advice } = details;
  const body = html`<p class="lead">${message}</p>
    ${advice ?? (status === 413 && html`<p>${t('browsersMayHaveIt')}</p>`)}
    ${status === 404 && context && missingRecordLinks(context, path)}
    ${status === 500 && requestId !== '' && html`<p>${phrase('seeLog', { request: html`<code>${requestId}</code>` })}</p>`}
    <p><a href="${links.dashboard}">${t('backToStart')}</a></p>`;
  const code = STATUS_TITLES.get(status);
  const title = code ? t(code) : (STATUS_CODES[status] ?? String(status));
  return pageReply(
    context,
    { title, status, kind: 'error', ...(context ? { crumbs: [] } : {}), body },
    headers,
  );
}

/** The admin area: the pages under `/admin/`. */
export function createAdmin(options: AdminOptions): Area {
  const { shared, servicesFor } = createServices(options);
  const contextOf = contextsWith(servicesFor);
  const usual = { timeZone: options.settings.timeZone, brand: createBrand(options.adminArea) };
  const answerPage = async (request: ApiRequest): Promise<Reply> => {
    const { method } = request;
    if (method === 'OPTIONS') return { status: 204, headers: { Allow: ADMIN_METHODS }, body: '' };
    if (!ADMIN_METHODS.split(', ').includes(method))
      throw wrongMethod('wrongMethodOfPages', method, ADMIN_METHODS);
    const asset = findAsset(request.path, [usual.brand.style, usual.brand.logo]);
    if (asset && method !== 'POST') return asset;
    // The cookies have the path `/admin/`, so this path would be without a session.
    if (request.path === '/admin') return redirect(links.dashboard);
    const address = withBasePath(`${request.path.replace(/\/$/, '')}/`);
    if (address === links.page('set-password')) return answerPasswordLink(shared, servicesFor, request);
    const token = readCookie(request, 'session');
    const found = token === undefined ? undefined : await shared.sessions.find(token);
    const context = token === undefined || !found ? undefined : contextOf(request, found, token);
    if (address === links.page('login')) {
      if (method !== 'POST') return showLogin(request);
      return logIn(shared, request, context, (caller, opened, next, unsaved) =>
        afterLogin(contextOf(request, caller, opened), next, unsaved),
      );
    }
    // An anonymous client must not learn which pages exist.
    if (!context) return answerAnonymous(shared, request);
    try {
      return await answerLoggedIn(context, contextOf);
    } catch (error) {
      const problem = error instanceof DatabaseFault ? shownProblem(context, error) : error;
      if (!(problem instanceof Problem)) throw error;
      return problemPage(context, problem, { path: request.path });
    }
  };
  return {
    patternOf: (path) => (isAsset(path) ? ADMIN_ASSET : patternOf(path, shared.resources)),

    answer: (request) => inPresentation(request, usual, () => answerPage(request)),

    keepPosition(request, reply, position) {
      const cookie = setCookie(request, 'position', position, options.settings.maxLag + POSITION_MARGIN);
      return withCookies(reply, [cookie]);
    },

    problem: (problem, requestId, request) =>
      inPresentation(request, usual, () => problemPage(undefined, problem, { requestId })),
  };
}
