import { notFound } from '../errors.ts';
import type { Reply } from '../http/message/message.ts';
import { type AdminResource } from '../resources/serve/admin-resource.ts';
import type { AdminAction } from '../resources/definition/resource.ts';
import { changePassword, endOtherSessions, showAccount } from './session/account-page.ts';
import { runBulk } from './bulk/bulk-actions.ts';
import { showDashboard } from './dashboard/dashboard.ts';
import { confirmDelete, showDelete } from './form/delete-page.ts';
import type { Desk } from './web/admin-context.ts';
import { boundedForm } from './fields/form-bounds.ts';
import { type Form } from './web/form-data.ts';
import { editableColumns } from './fields/form-page.ts';
import { showChange, showHistory } from './history/history-page.ts';
import { runImport, showImport } from './import/import-page.ts';
import { showKeys } from './web/keyboard-help.ts';
import { Parameters } from './web/admin-links.ts';
import { saveRecord, showAdd, showRecord } from './form/edit-page.ts';
import { exportRecords } from './list/list-export.ts';
import { applyFilter } from './list/filter-panel.ts';
import { selectionOf, showList } from './list/list-page.ts';
import { logOut } from './session/login.ts';
import { lookUp } from './fields/references.ts';
import { setPassword, showPassword } from './session/password-page.ts';
import { type AdminRoute, type ResourceRoute } from './admin-routes.ts';
import { type Visit } from './web/admin-request.ts';

/** What may be done with a resource in the admin area; what may not is as if there were no such page. */
function assertMay({ may }: AdminResource, action: AdminAction): void {
  if (!may.has(action)) throw notFound('There is no such page.');
}

/** The page of a GET. */
export function show(desk: Desk, visit: Visit, route: AdminRoute): Promise<Reply> | Reply {
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
      const { query, method } = visit.request;
      const selection = selectionOf(Parameters.parse(query));
      return exportRecords(desk, resource, selection, format, method === 'HEAD');
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

/** What a form does. */
export function change(desk: Desk, visit: Visit, route: AdminRoute, form: Form): Promise<Reply> | Reply {
  if (!('resource' in route)) {
    if (route.page === 'logout') return logOut(desk, visit);
    return route.page === 'account' ? changePassword(desk, visit, form) : endOtherSessions(desk, visit);
  }
  const { resource } = route;
  switch (route.page) {
    case 'add':
      assertMay(resource, 'add');
      return saveRecord(desk, visit, resource, undefined, boundedForm(form, editableColumns(resource, true)));
    case 'record':
      assertMay(resource, 'change');
      return saveRecord(desk, visit, resource, route.id, boundedForm(form, editableColumns(resource, false)));
    case 'delete':
      assertMay(resource, 'delete');
      return confirmDelete(desk, visit, resource, route.id, boundedForm(form, []));
    case 'password':
      assertMay(resource, 'change');
      return setPassword(desk, visit, resource, route.id, form);
    case 'bulk':
      return runBulk(desk, visit, resource, boundedForm(form, editableColumns(resource, false)));
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
