// The table of all pages: what each one shows on GET, and what its form does on POST.
import { isKeyless } from '../db/schema/model.ts';
import { notFound } from '../errors.ts';
import type { Reply } from '../http/message/message.ts';
import type { AdminAction } from '../resources/definition/resource.ts';
import { changeAccess, showAccess } from './session/access-page.ts';
import { changePassword, endOtherSessions, showAccount } from './session/account-page.ts';
import { chooseTimeZone } from './session/time-zone-form.ts';
import { runBulk } from './bulk/bulk-actions.ts';
import { runUndo, showUndo } from './bulk/undo.ts';
import { showDashboard } from './dashboard/dashboard.ts';
import { confirmDelete, showDelete } from './form/delete-page.ts';
import type { AdminContext, RecordContext, ResourceContext } from './web/admin-context.ts';
import type { Form } from './web/form-data.ts';
import { showChange, showHistory } from './history/history-page.ts';
import { runImport, showImport } from './import/import-page.ts';
import { showKeyboardHelp } from './web/keyboard-help.ts';
import { saveRecord, showAdd, showRecord } from './form/edit-page.ts';
import { exportList, type ExportFormat } from './list/list-export.ts';
import { applyFilter } from './list/filter-panel.ts';
import { showList } from './list/list-page.ts';
import { logOut } from './session/login.ts';
import {
  changeSecondFactor,
  confirm,
  removeSecondFactor,
  showConfirmation,
  showRemoval,
  showSecondFactor,
} from './session/second-factor-page.ts';
import { lookUp } from './fields/references.ts';
import { setPassword, showPassword } from './session/password-page.ts';
import { changeTokens, showNewToken } from './session/token-page.ts';

type Answer = Promise<Reply> | Reply;

/** The functions of a page. A page does not accept a method without a function. */
export interface Page<Context extends AdminContext> {
  /** Answers a GET. */
  readonly show?: (context: Context) => Answer;
  /** Answers a POST. */
  readonly change?: (context: Context, form: Form) => Answer;
}

export type GeneralPageName =
  | 'dashboard'
  | 'login'
  | 'logout'
  | 'set-password'
  | 'account'
  | 'sessions'
  | 'tokens'
  | 'second-factor'
  | 'confirm'
  | 'zone'
  | 'keys';
export type ListPageName =
  'list' | 'filter' | 'add' | 'bulk' | 'lookup' | 'import' | `export.${ExportFormat}`;
export type RecordPageName =
  'record' | 'delete' | 'history' | 'password' | 'undo' | 'access' | 'second-factor';

/** Refuses what the resource does not allow the caller, as if the page did not exist. @throws Problem 404 */
const ifAllowed =
  <Context extends ResourceContext, Rest extends readonly unknown[]>(
    action: AdminAction | 'import' | 'export' | 'history',
    page: (context: Context, ...rest: Rest) => Answer,
  ): typeof page =>
  (context, ...rest) => {
    const { may, allows } = context.resource;
    const isAllowed =
      action === 'import' || action === 'export' || action === 'history'
        ? allows.has(action)
        : may.has(action);
    if (!isAllowed) throw notFound('There is no such page.');
    return page(context, ...rest);
  };

/** A page of the entries of the history alone. @throws Problem 404 for other records */
const ifHistory =
  <Rest extends readonly unknown[]>(page: (context: RecordContext, ...rest: Rest) => Answer): typeof page =>
  (context, ...rest) => {
    if (context.resource !== context.history) throw notFound('There is no such page.');
    return page(context, ...rest);
  };

/** Refuses to name records that have no key, as if the page did not exist. @throws Problem 404 */
const ifKeyed =
  <Rest extends readonly unknown[]>(page: (context: ResourceContext, ...rest: Rest) => Answer): typeof page =>
  (context, ...rest) => {
    if (isKeyless(context.resource.model)) throw notFound('There is no such page.');
    return page(context, ...rest);
  };

export const GENERAL_PAGES: Readonly<Record<GeneralPageName, Page<AdminContext>>> = {
  dashboard: { show: showDashboard },
  // `admin.ts` answers these two, because they need no session.
  login: {},
  'set-password': {},
  logout: { change: logOut },
  account: { show: showAccount, change: changePassword },
  sessions: { change: endOtherSessions },
  tokens: { show: showNewToken, change: changeTokens },
  'second-factor': { show: (context) => showSecondFactor(context), change: changeSecondFactor },
  confirm: { show: (context) => showConfirmation(context), change: confirm },
  zone: { change: chooseTimeZone },
  keys: { show: showKeyboardHelp },
};

export const LIST_PAGES: Readonly<Record<ListPageName, Page<ResourceContext>>> = {
  list: { show: showList },
  filter: { show: applyFilter },
  add: { show: ifAllowed('add', showAdd), change: ifAllowed('add', saveRecord) },
  bulk: { change: ifKeyed(runBulk) },
  lookup: { show: ifKeyed(lookUp) },
  import: { show: ifAllowed('import', showImport), change: ifAllowed('import', runImport) },
  'export.csv': { show: ifAllowed('export', (context) => exportList(context, 'csv')) },
  'export.excel.csv': { show: ifAllowed('export', (context) => exportList(context, 'excel.csv')) },
  'export.json': { show: ifAllowed('export', (context) => exportList(context, 'json')) },
};

export const RECORD_PAGES: Readonly<Record<RecordPageName, Page<RecordContext>>> = {
  record: {
    show: (context) => (context.resource === context.history ? showChange(context) : showRecord(context)),
    change: ifAllowed('change', saveRecord),
  },
  delete: { show: ifAllowed('delete', showDelete), change: ifAllowed('delete', confirmDelete) },
  history: { show: ifAllowed('history', showHistory) },
  password: { show: ifAllowed('change', showPassword), change: ifAllowed('change', setPassword) },
  undo: { show: ifHistory(showUndo), change: ifHistory(runUndo) },
  access: { show: showAccess, change: changeAccess },
  'second-factor': {
    show: ifAllowed('change', (context) => showRemoval(context)),
    change: ifAllowed('change', removeSecondFactor),
  },
};
