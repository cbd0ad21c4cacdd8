// Calls the function that answers a route: `show` for GET, `change` for POST.
import { notFound } from '../errors.ts';
import type { Reply } from '../http/message/message.ts';
import { type AdminResource } from '../resources/serve/admin-resource.ts';
import type { AdminAction } from '../resources/definition/resource.ts';
import { changePassword, endOtherSessions, showAccount } from './session/account-page.ts';
import { runBulk } from './bulk/bulk-actions.ts';
import { showDashboard } from './dashboard/dashboard.ts';
import { confirmDelete, showDelete } from './form/delete-page.ts';
import type { AdminContext } from './web/admin-context.ts';
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
import { type AdminRoute, type AdminResourceRoute } from './admin-routes.ts';
import { type AdminRequest } from './web/admin-request.ts';

/** Refuses an action that the resource does not allow, as if the page did not exist. @throws Problem 404 */
function assertMay({ may }: AdminResource, action: AdminAction): void {
  if (!may.has(action)) throw notFound('There is no such page.');
}

/** Answers a GET. */
export function show(
  context: AdminContext,
  adminRequest: AdminRequest,
  route: AdminRoute,
): Promise<Reply> | Reply {
  if ('resource' in route) return showResource(context, adminRequest, route);
  if (route.page === 'account') return showAccount(context, adminRequest);
  return route.page === 'keys' ? showKeys(adminRequest) : showDashboard(context, adminRequest);
}

function showResource(
  context: AdminContext,
  adminRequest: AdminRequest,
  route: AdminResourceRoute,
): Promise<Reply> | Reply {
  const { resource } = route;
  switch (route.page) {
    case 'list':
      return showList(context, adminRequest, resource);
    case 'filter':
      return applyFilter(context, adminRequest, resource);
    case 'add':
      assertMay(resource, 'add');
      return showAdd(context, adminRequest, resource);
    case 'lookup':
      return lookUp(context, adminRequest, resource);
    case 'import':
      return showImport(context, adminRequest, resource);
    case 'export.csv':
    case 'export.json': {
      const format = route.page === 'export.csv' ? 'csv' : 'json';
      const { query, method } = adminRequest.request;
      const selection = selectionOf(Parameters.parse(query));
      return exportRecords(context, resource, selection, format, method === 'HEAD');
    }
    case 'record':
      return resource === context.history
        ? showChange(context, adminRequest, route.id)
        : showRecord(context, adminRequest, resource, route.id);
    case 'delete':
      assertMay(resource, 'delete');
      return showDelete(context, adminRequest, resource, route.id);
    case 'history':
      return showHistory(context, adminRequest, resource, route.id);
    case 'password':
      assertMay(resource, 'change');
      return showPassword(context, adminRequest, resource, route.id);
    case 'bulk':
      throw new Error('this page has no GET');
  }
}

/** Runs a submitted form. */
export function change(
  context: AdminContext,
  adminRequest: AdminRequest,
  route: AdminRoute,
  form: Form,
): Promise<Reply> | Reply {
  if (!('resource' in route)) {
    if (route.page === 'logout') return logOut(context, adminRequest);
    return route.page === 'account'
      ? changePassword(context, adminRequest, form)
      : endOtherSessions(context, adminRequest);
  }
  const { resource } = route;
  switch (route.page) {
    case 'add':
      assertMay(resource, 'add');
      return saveRecord(
        context,
        adminRequest,
        resource,
        undefined,
        boundedForm(form, editableColumns(resource, true)),
      );
    case 'record':
      assertMay(resource, 'change');
      return saveRecord(
        context,
        adminRequest,
        resource,
        route.id,
        boundedForm(form, editableColumns(resource, false)),
      );
    case 'delete':
      assertMay(resource, 'delete');
      return confirmDelete(context, adminRequest, resource, route.id, boundedForm(form, []));
    case 'password':
      assertMay(resource, 'change');
      return setPassword(context, adminRequest, resource, route.id, form);
    case 'bulk':
      return runBulk(context, adminRequest, resource, boundedForm(form, editableColumns(resource, false)));
    case 'import':
      return runImport(context, adminRequest, resource, form);
    case 'list':
    case 'filter':
    case 'lookup':
    case 'export.csv':
    case 'export.json':
    case 'history':
      throw new Error('this page has no POST');
  }
}
