// The table of all pages: what each one shows on GET, and what its form does on POST.
import { isKeyless } from '../db/schema/model.ts';
import type { Reply } from '../http/message/message.ts';
import type { AdminAction } from '../resources/definition/resource.ts';
import { userAccess } from './session/access-page.ts';
import { chooseDisplay, ownAccount } from './session/account-page.ts';
import { runAction, showAction, type Action } from './session/action.ts';
import { actOnRecord } from './actions/custom-actions.ts';
import { confirmDelete, showDelete } from './actions/delete.ts';
import { exportList, type ExportFormat } from './actions/export.ts';
import { runSelectionAction } from './actions/selection-actions.ts';
import { undo } from './actions/undo.ts';
import { showDashboard } from './dashboard/dashboard.ts';
import { recordActions } from '../resources/access/admin-view.ts';
import { showGo } from './dashboard/go-page.ts';
import type { AdminContext, RecordContext, ResourceContext } from './web/admin-context.ts';
import type { Form } from './web/form-data.ts';
import { showChange, showHistory } from './history/history-page.ts';
import { runImport, showImport } from './import/import-page.ts';
import { showKeyboardHelp } from './web/keyboard-help.ts';
import { saveRecord, showAdd, showRecord } from './form/edit-page.ts';
import { applyFilters } from './list/filter-panel.ts';
import { showList } from './list/list-page.ts';
import { saveView } from './list/list-views.ts';
import { logOut } from './session/login.ts';
import { codeConfirmation, ownSecondFactor, removeSecondFactor } from './session/second-factor-page.ts';
import { lookUp } from './fields/references.ts';
import { setPassword } from './session/password-page.ts';
import { ownTokens } from './session/token-page.ts';

type Answer = Promise<Reply> | Reply;

/** The functions of a page. A page does not accept a method without a function. */
export interface Page<Context extends AdminContext> {
  /** Whether the caller may use the page; otherwise it does not exist. */
  readonly isAllowed?: (context: Context) => boolean;
  /** Answers a GET. */
  readonly show?: (context: Context) => Answer;
  /** Answers a POST. */
  readonly change?: (context: Context, form: Form) => Answer;
}

const may =
  (action: AdminAction) =>
  ({ resource }: ResourceContext): boolean =>
    resource.may.has(action);

const allows =
  (action: 'import' | 'export' | 'history') =>
  ({ resource }: ResourceContext): boolean =>
    resource.allows.has(action);

/** Whether records can be named: a view may have no key. */
const isKeyed = ({ resource }: ResourceContext): boolean => !isKeyless(resource.model);

const isHistory = ({ resource, history }: ResourceContext): boolean => resource === history;

/** The page of an action. */
const pageOf = <Context extends AdminContext>(
  actionOf: (context: Context) => Promise<Action> | Action,
  isAllowed: (context: Context) => boolean = () => true,
): Page<Context> => ({
  isAllowed,
  show: async (context) => showAction(context, await actionOf(context)),
  change: async (context, form) => runAction(context, await actionOf(context), form),
});

/** Pages of no resource. */
export const GENERAL_PAGES = {
  dashboard: { show: showDashboard },
  // `admin.ts` answers these two, because they need no session.
  login: {},
  'set-password': {},
  logout: { change: logOut },
  account: pageOf(ownAccount),
  tokens: pageOf(ownTokens),
  'second-factor': pageOf(ownSecondFactor),
  confirm: pageOf(codeConfirmation),
  display: { change: chooseDisplay },
  keys: { show: showKeyboardHelp },
  go: { show: showGo },
} satisfies Record<string, Page<AdminContext>>;

const exported = (format: ExportFormat): Page<ResourceContext> => ({
  isAllowed: allows('export'),
  show: (context) => exportList(context, format),
});

/** Pages of one resource. */
export const LIST_PAGES = {
  list: { show: showList },
  filter: { show: applyFilters },
  view: pageOf(saveView),
  add: { isAllowed: may('add'), show: showAdd, change: saveRecord },
  bulk: { isAllowed: isKeyed, change: runSelectionAction },
  lookup: { isAllowed: isKeyed, show: lookUp },
  import: { isAllowed: allows('import'), show: (context) => showImport(context), change: runImport },
  'export.csv': exported('csv'),
  'export.excel.csv': exported('excel.csv'),
  'export.json': exported('json'),
  'export.shown.csv': exported('shown.csv'),
  'export.shown.excel.csv': exported('shown.excel.csv'),
} satisfies Record<string, Page<ResourceContext>>;

/** Pages of one record. */
export const RECORD_PAGES = {
  record: {
    show: (context) => (isHistory(context) ? showChange(context) : showRecord(context)),
    change: saveRecord,
  },
  action: {
    isAllowed: ({ resource }) => recordActions(resource).length > 0,
    show: (context) => actOnRecord(context),
    change: actOnRecord,
  },
  delete: { isAllowed: may('delete'), show: showDelete, change: confirmDelete },
  history: { isAllowed: allows('history'), show: showHistory },
  password: pageOf(setPassword, may('change')),
  undo: pageOf(undo, isHistory),
  access: pageOf(userAccess),
  'second-factor': pageOf(removeSecondFactor, may('change')),
} satisfies Record<string, Page<RecordContext>>;

export type GeneralPageName = keyof typeof GENERAL_PAGES;
export type ListPageName = keyof typeof LIST_PAGES;
export type RecordPageName = keyof typeof RECORD_PAGES;
