import { notFound, Problem } from '../errors.ts';
import type { ApiRequest, Area, Reply } from '../http/message.ts';
import { serveForAdmin, type AdminResource } from '../resources/admin.ts';
import { createBrowsing } from '../resources/browse.ts';
import { createBulk } from '../resources/bulk.ts';
import { createOperations } from '../resources/operations.ts';
import { HISTORY } from '../resources/own.ts';
import { createPanels, type Panel } from '../resources/panel.ts';
import type { AdminAction, Resource } from '../resources/resource.ts';
import type { Schema } from '../resources/schema.ts';
import { changePassword, endOtherSessions, showAccount } from './account.ts';
import { findAsset } from './assets.ts';
import { readCookie } from './cookies.ts';
import { runBulk } from './bulk.ts';
import { showDashboard } from './dashboard.ts';
import { confirmDelete, showDelete } from './delete.ts';
import type { Desk } from './desk.ts';
import { readForm, type Form } from './form-data.ts';
import { showChange, showHistory } from './history.ts';
import { html } from './html.ts';
import { MAX_IMPORT, runImport, showImport } from './import.ts';
import { showKeys } from './keys.ts';
import { pageReply } from './layout.ts';
import { links, Parameters } from './links.ts';
import { saveRecord, showAdd, showRecord } from './edit.ts';
import { exportRecords } from './export.ts';
import { applyFilter } from './filter-panel.ts';
import { selectionOf, showList } from './list.ts';
import { logIn, logOut, showLogin } from './login.ts';
import { lookUp } from './references.ts';
import { setPassword, showPassword } from './password.ts';
import { findAdminRoute, METHODS, type AdminRoute, type ResourceRoute } from './routes.ts';
import { assertSameSite, csrfOf, readFlash, redirect, type Visit } from './visit.ts';

export interface AdminOptions extends Pick<
  Desk,
  'settings' | 'database' | 'authentication' | 'passwords' | 'sessions' | 'logger'
> {
  readonly definitions: readonly Resource[];
  readonly schema: Schema;
  readonly panels: readonly Panel[];
}

function createDesk({ definitions, schema, panels, ...parts }: AdminOptions): Desk {
  const { settings, database, passwords } = parts;
  const { models } = schema;
  const resources = serveForAdmin(definitions, models, settings, schema.catalog);
  const history = resources.get(HISTORY.model);
  if (!history) throw new Error('the history is not among the resources');
  const browsing = createBrowsing(database, resources);
  return {
    ...parts,
    resources,
    history,
    browsing,
    panels: createPanels(database, panels),
    operations: createOperations(database, resources, passwords, history.model),
    bulk: createBulk(database, resources, browsing, [...models.values()], history.model),
  };
}

/** Who comes in, or undefined for somebody who has to log in. */
async function findVisit({ sessions, resources }: Desk, request: ApiRequest): Promise<Visit | undefined> {
  const token = readCookie(request, 'session');
  const caller = token === undefined ? undefined : await sessions.find(token);
  if (token === undefined || !caller) return undefined;
  request.recognize(caller);
  const menu = [...resources.values()].map(({ title, name }) => ({ text: title, href: links.list(name) }));
  return { request, caller, token, csrf: csrfOf(token), flash: readFlash(request, token), menu };
}

/** To the login, and from there back to the page; what changes something is not tried again. */
function toLogin({ method, path, query }: ApiRequest): Reply {
  // A page that takes nothing but forms cannot be gone back to, but the one above it can.
  const page = path.replace(/-\/(logout|sessions|bulk)\/?$/, '');
  const next = method === 'POST' ? page : `${path}${query === '' ? '' : `?${query}`}`;
  return redirect(`${links.login}?next=${encodeURIComponent(next)}`);
}

const ALL_METHODS = 'GET, HEAD, POST, OPTIONS';

function assertMethod(method: string, { page }: AdminRoute): void {
  const allowed = METHODS[page];
  if (allowed.some((one) => one === method || (one === 'GET' && method === 'HEAD'))) return;
  const allow = [...allowed.flatMap((one) => (one === 'GET' ? ['GET', 'HEAD'] : [one])), 'OPTIONS'].join(
    ', ',
  );
  throw new Problem(405, `This page takes ${allow}.`, { headers: { Allow: allow } });
}

/** What may be done with a resource in the admin area; what may not is as if there were no such page. */
function assertMay({ may }: AdminResource, action: AdminAction): void {
  if (!may.has(action)) throw notFound('There is no such page.');
}

function show(desk: Desk, visit: Visit, route: AdminRoute): Promise<Reply> | Reply {
  if ('resource' in route) return showResource(desk, visit, route);
  if (route.page === 'account') return showAccount(desk, visit);
  return route.page === 'keys' ? showKeys(visit) : showDashboard(desk, visit);
}

function showResource(desk: Desk, visit: Visit, route: ResourceRoute): Promise<Reply> | Reply {
  const { resource } = route;
  switch (route.page) {
    case 'list':
      return showList(desk, visit, resource);
    case 'filter':
      return applyFilter(desk, visit, resource);
    case 'add':
      assertMay(resource, 'add');
      return showAdd(desk, visit, resource);
    case 'lookup':
      return lookUp(desk, visit, resource);
    case 'import':
      return showImport(desk, visit, resource);
    case 'export.csv':
    case 'export.json': {
      const format = route.page === 'export.csv' ? 'csv' : 'json';
      return exportRecords(desk, resource, selectionOf(Parameters.parse(visit.request.query)), format);
    }
    case 'record':
      return resource === desk.history
        ? showChange(desk, visit, route.id)
        : showRecord(desk, visit, resource, route.id);
    case 'delete':
      assertMay(resource, 'delete');
      return showDelete(desk, visit, resource, route.id);
    case 'history':
      return showHistory(desk, visit, resource, route.id);
    case 'password':
      assertMay(resource, 'change');
      return showPassword(desk, visit, resource, route.id);
    case 'bulk':
      throw new Error('a page that takes POST alone');
  }
}

function change(desk: Desk, visit: Visit, route: AdminRoute, form: Form): Promise<Reply> | Reply {
  if (!('resource' in route)) {
    if (route.page === 'logout') return logOut(desk, visit);
    return route.page === 'account' ? changePassword(desk, visit, form) : endOtherSessions(desk, visit);
  }
  const { resource } = route;
  switch (route.page) {
    case 'add':
      assertMay(resource, 'add');
      return saveRecord(desk, visit, resource, undefined, form);
    case 'record':
      assertMay(resource, 'change');
      return saveRecord(desk, visit, resource, route.id, form);
    case 'delete':
      assertMay(resource, 'delete');
      return confirmDelete(desk, visit, resource, route.id, form);
    case 'password':
      assertMay(resource, 'change');
      return setPassword(desk, visit, resource, route.id, form);
    case 'bulk':
      return runBulk(desk, visit, resource, form);
    case 'import':
      return runImport(desk, visit, resource, form);
    case 'list':
    case 'filter':
    case 'lookup':
    case 'export.csv':
    case 'export.json':
    case 'history':
      throw new Error('a page that takes GET alone');
  }
}

/** The pages under `/admin/`. */
export function createAdmin(options: AdminOptions): Area {
  const desk = createDesk(options);
  return {
    async answer(request) {
      const { method } = request;
      if (method === 'OPTIONS') return { status: 204, headers: { Allow: ALL_METHODS }, body: '' };
      if (!ALL_METHODS.split(', ').includes(method))
        throw new Problem(405, `Pages take ${ALL_METHODS}.`, { headers: { Allow: ALL_METHODS } });
      const asset = findAsset(request.path);
      if (asset && method !== 'POST') return asset;
      // Cookies are for the paths below it.
      if (request.path === '/admin') return redirect(links.dashboard);
      // Who is not logged in learns nothing, not even which pages there are.
      const isLogin = request.path.replace(/\/$/, '') === links.login.replace(/\/$/, '');
      const visit = isLogin ? undefined : await findVisit(desk, request);
      if (!isLogin && !visit) return toLogin(request);
      const route = findAdminRoute(request.path, desk.resources);
      assertMethod(method, route);
      if (!visit) return method === 'POST' ? logIn(desk, request) : showLogin(request);
      if (method !== 'POST') return show(desk, visit, route);
      let form: Form;
      try {
        form = await readForm(request, route.page === 'import' ? MAX_IMPORT : undefined);
      } catch (error) {
        // A file that is too large or no UTF-8 is told where another one can be chosen.
        if (route.page === 'import' && error instanceof Problem && error.status < 500)
          return showImport(desk, visit, route.resource, error);
        throw error;
      }
      assertSameSite(request, form, visit.token, desk.settings);
      return change(desk, visit, route, form);
    },

    problem({ status, message, headers }, requestId) {
      const body = html`<p class="lead">${message}</p>
        ${status === 500 && html`<p>The log has more about it, under <code>${requestId}</code>.</p>`}
        <p><a href="${links.dashboard}">To the start page</a></p>`;
      return pageReply(undefined, { title: `${status}`, status, kind: 'error', body }, headers);
    },
  };
}
