import { STATUS_CODES } from 'node:http';
import { asProblem } from '../db/connection/database-errors.ts';
import { Problem } from '../errors.ts';
import type { ApiRequest, Area, Reply } from '../http/message/message.ts';
import { assertOrigin } from '../http/auth/request-origin.ts';
import { serveForAdmin, type AdminResource } from '../resources/serve/admin-resource.ts';
import { createBrowsing, createEntryStatements } from '../resources/records/browsing.ts';
import { createBulk } from '../resources/records/bulk-operations.ts';
import { historyOf } from '../resources/serve/visible-history.ts';
import { createOperations } from '../resources/records/operations.ts';
import { HISTORY } from '../resources/definition/system-tables.ts';
import { createPanels, type Panel } from '../resources/definition/panel.ts';
import type { Resource } from '../resources/definition/resource.ts';
import type { Schema } from '../resources/serve/schema-setup.ts';
import { findAsset, isAsset } from './web/assets.ts';
import { readCookie } from './web/cookies.ts';
import type { AdminContext } from './web/admin-context.ts';
import { ANONYMOUS_LIMIT, formLimit, readForm, type Form } from './web/form-data.ts';
import { html, type Html } from './web/html.ts';
import { IMPORT_LIMIT, showImport } from './import/import-page.ts';
import { pageReply } from './web/layout.ts';
import { links } from './web/admin-links.ts';
import { showSent } from './form/edit-page.ts';
import { logIn, loginAddress, showLogin, showLoginFor } from './session/login.ts';
import { createParking } from './web/parked-forms.ts';
import {
  findAdminRoute,
  ADMIN_METHODS,
  patternOf,
  type AdminRoute,
  type AdminResourceRoute,
} from './admin-routes.ts';
import {
  csrfOf,
  hasValidCsrf,
  isSameOriginForm,
  readFlash,
  redirect,
  staleForm,
  type AdminRequest,
} from './web/admin-request.ts';
import type { Requester } from '../db/scheduling/requester.ts';
import type { Database } from '../db/connection/database.ts';
import type { Caller } from '../resources/serve/served-resource.ts';
import { change, show } from './dispatch.ts';

export interface AdminServices extends Pick<
  AdminContext,
  'settings' | 'database' | 'authentication' | 'passwords' | 'sessions' | 'logger'
> {
  readonly definitions: readonly Resource[];
  readonly schema: Schema;
  readonly panels: readonly Panel[];
}

/** What every request of the admin area shares, and the context of one request. */
function createDesks({ definitions, schema, panels, ...parts }: AdminServices) {
  const { settings, database, passwords } = parts;
  const { models } = schema;
  const resources = serveForAdmin(definitions, models, settings, schema.catalog);
  const history = resources.get(HISTORY.model);
  if (!history) throw new Error('the history is not among the resources');
  const statements = createEntryStatements();
  const histories = new Map(
    [...resources.values()].map((resource) => [resource, historyOf(history, resource)]),
  );
  const parking = createParking();
  const shared = {
    ...parts,
    resources,
    history,
    historyOf: (resource: AdminResource) => histories.get(resource) ?? history,
    parking,
    panels: createPanels(database, panels),
  };
  const tables = [...models.values()];
  const deskFor = (requester: Requester): AdminContext => {
    const own = database.for(requester);
    const operationsOn = (one: Pick<Database, 'run'>) =>
      createOperations(one, resources, passwords, history.model, requester);
    const browsing = createBrowsing(own, resources, statements, settings);
    return {
      ...shared,
      database: own,
      browsing,
      operationsOn,
      operations: operationsOn(own),
      bulk: createBulk(own, resources, browsing, tables, history.model),
    };
  };
  return { resources, deskFor };
}

/** Who comes in, or undefined for somebody who has to log in. */
async function findVisit(
  { sessions, resources }: AdminContext,
  request: ApiRequest,
): Promise<AdminRequest | undefined> {
  const token = readCookie(request, 'session');
  const caller = token === undefined ? undefined : await sessions.find(token);
  if (token === undefined || !caller) return undefined;
  return visitOf({ resources }, request, caller, token);
}

function visitOf(
  { resources }: Pick<AdminContext, 'resources'>,
  request: ApiRequest,
  caller: Caller,
  token: string,
): AdminRequest {
  request.recognize(caller);
  const menu = [...resources.values()].map(({ title, name }) => ({ text: title, href: links.list(name) }));
  return { request, caller, token, csrf: csrfOf(token), flash: readFlash(request, token), menu };
}

/** To the login, and from there back to the page; what changes something is not tried again. */
function toLogin(request: ApiRequest): Reply {
  const { method, path, query } = request;
  // A page that takes nothing but forms cannot be gone back to, but the one above it can.
  const page = path.replace(/-\/(logout|sessions|bulk)\/?$/, '');
  const next = method === 'POST' ? page : `${path}${query === '' ? '' : `?${query}`}`;
  const hasEnded = readCookie(request, 'session') !== undefined;
  const undone = /-\/logout\/?$/.test(path) ? 'out' : 'undone';
  return redirect(loginAddress(next, method === 'POST' ? undone : hasEnded ? 'ended' : undefined));
}

type EditRoute = AdminResourceRoute & { readonly page: 'add' | 'record' };

const isEdit = (route: AdminRoute): route is EditRoute => route.page === 'add' || route.page === 'record';

const idOf = (route: EditRoute): string | undefined => ('id' in route ? route.id : undefined);

/** Whether a form that came without a login is one of a record, which is kept over the login. */
function isKept(context: AdminContext, request: ApiRequest): boolean {
  try {
    return isSameOriginForm(request) && isEdit(findAdminRoute(request.path, context.resources));
  } catch {
    return false; // without a login the answer does not reveal which pages exist
  }
}

/** A request without a session. Its form is kept only where its session has ended not long ago. */
async function withoutVisit(context: AdminContext, request: ApiRequest): Promise<Reply> {
  if (request.method !== 'POST') return toLogin(request);
  assertOrigin(request.headers, { corsOrigins: [], trustProxy: context.settings.trustProxy });
  const token = readCookie(request, 'session');
  if (token === undefined || !isKept(context, request)) return toLogin(request);
  const user = await context.sessions.endedUser(token);
  if (user === undefined) return toLogin(request);
  const form = await readForm(request, ANONYMOUS_LIMIT);
  return showLoginFor(request, context.parking.park(token, user, form));
}

const ALL_METHODS = 'GET, HEAD, POST, OPTIONS';

function assertMethod(method: string, { page }: AdminRoute): void {
  const allowed = ADMIN_METHODS[page];
  if (allowed.some((one) => one === method || (one === 'GET' && method === 'HEAD'))) return;
  const allow = [...allowed.flatMap((one) => (one === 'GET' ? ['GET', 'HEAD'] : [one])), 'OPTIONS'].join(
    ', ',
  );
  throw new Problem(405, `This page takes ${allow}.`, { headers: { Allow: allow } });
}

/** Shows again what was typed before the login; whatever else was sent is not tried again. */
async function resume(
  context: AdminContext,
  adminRequest: AdminRequest,
  path: string,
  form: Form,
): Promise<Reply> {
  try {
    const route = findAdminRoute(path, context.resources);
    return isEdit(route)
      ? await showSent(context, adminRequest, route.resource, idOf(route), form, 200)
      : redirect(links.dashboard);
  } catch (error) {
    // The session is open: its cookie has to reach the browser. The form is still kept, so that a reload may show it.
    const problem = asProblem(error);
    if (!problem) throw error;
    return problemPage(adminRequest, problem, '', problem.status === 404 && elsewhere(context, path));
  }
}

/** A page for somebody who is logged in. */
async function answerVisit(context: AdminContext, adminRequest: AdminRequest): Promise<Reply> {
  const { request, token } = adminRequest;
  const route = findAdminRoute(request.path, context.resources);
  assertMethod(request.method, route);
  if (request.method !== 'POST') return show(context, adminRequest, route);
  let form: Form;
  try {
    form = await readForm(request, route.page === 'import' ? IMPORT_LIMIT : formLimit(context.settings));
  } catch (error) {
    // A file that is too large or no UTF-8 is told where another one can be chosen.
    if (route.page === 'import' && error instanceof Problem && error.status < 500)
      return showImport(context, adminRequest, route.resource, error);
    throw error;
  }
  assertOrigin(request.headers, { corsOrigins: [], trustProxy: context.settings.trustProxy });
  // A form of this site that was made in an earlier login is shown again, and not lost.
  if (!hasValidCsrf(form, token)) {
    if (!isEdit(route) || !isSameOriginForm(request)) throw staleForm();
    return showSent(context, adminRequest, route.resource, idOf(route), form, 403);
  }
  return change(context, adminRequest, route, form);
}

/** Where somebody may go on who has come to a record that is not there: it may have been deleted. */
function elsewhere({ resources }: AdminContext, path: string): Html | false {
  try {
    const route = findAdminRoute(path, resources);
    if (!('id' in route)) return false;
    const { name, title } = route.resource;
    return html`<p>
      <a href="${links.list(name)}">${title}</a>,
      <a href="${links.part(name, route.id, 'history')}">what was written down about this record</a>
    </p>`;
  } catch {
    return false;
  }
}

function problemPage(
  adminRequest: AdminRequest | undefined,
  { status, message, headers }: Problem,
  requestId = '',
  ways: Html | false = false,
): Reply {
  const body = html`<p class="lead">${message}</p>
    ${status === 413 && html`<p>Your browser’s way back leads to the form, where everything is as you typed it.</p>`}
    ${ways} ${status === 500 && html`<p>The log has more about it, under <code>${requestId}</code>.</p>`}
    <p><a href="${links.dashboard}">To the start page</a></p>`;
  const title = STATUS_CODES[status] ?? String(status);
  return pageReply(
    adminRequest,
    { title, status, kind: 'error', ...(adminRequest ? { crumbs: [] } : {}), body },
    headers,
  );
}

/** The pages under `/admin/`. */
export function createAdmin(options: AdminServices): Area {
  const { resources, deskFor } = createDesks(options);
  return {
    patternOf: (path) => (isAsset(path) ? '/admin/-/{file}' : patternOf(path, resources)),

    async answer(request) {
      const { method } = request;
      if (method === 'OPTIONS') return { status: 204, headers: { Allow: ALL_METHODS }, body: '' };
      if (!ALL_METHODS.split(', ').includes(method))
        throw new Problem(405, `Pages take ${ALL_METHODS}.`, { headers: { Allow: ALL_METHODS } });
      const asset = findAsset(request.path);
      if (asset && method !== 'POST') return asset;
      // Cookies are for the paths below it.
      if (request.path === '/admin') return redirect(links.dashboard);
      const context = deskFor(request.requester);
      const adminRequest = await findVisit(context, request);
      if (request.path.replace(/\/$/, '') === links.login.replace(/\/$/, '')) {
        if (method !== 'POST') return showLogin(request);
        return logIn(context, request, adminRequest, (caller, token, path, form) =>
          resume(context, visitOf(context, request, caller, token), path, form),
        );
      }
      // Who is not logged in learns nothing, not even which pages there are.
      if (!adminRequest) return withoutVisit(context, request);
      try {
        return await answerVisit(context, adminRequest);
      } catch (error) {
        if (!(error instanceof Problem)) throw error;
        return problemPage(adminRequest, error, '', error.status === 404 && elsewhere(context, request.path));
      }
    },

    problem: (problem, requestId) => problemPage(undefined, problem, requestId),
  };
}
