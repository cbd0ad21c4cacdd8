// The table of all pages: what each one shows on GET, what its form does on POST, and which path leads to it.
import { hasSeveralColumns } from '../db/schema/composite-key.ts';
import { isKeyless } from '../db/schema/model.ts';
import { notFound, type Problem } from '../errors.ts';
import { decodeSegment } from '../http/message/key-segment.ts';
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
import { recordActions, type AdminView, type AdminViews } from '../resources/access/admin-view.ts';
import { showGo } from './dashboard/go-page.ts';
import type { AdminContext, RecordContext, ResourceContext } from './web/admin-context.ts';
import type { Form } from './web/form-data.ts';
import { showChange, showHistory } from './history/history-page.ts';
import { runImport, showImport } from './import/import-page.ts';
import { showKeyboardHelp } from './web/keyboard-help.ts';
import { t } from './web/language.ts';
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
interface Page<Context extends AdminContext> {
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
const forAction = <Context extends AdminContext>(
  actionOf: (context: Context) => Promise<Action> | Action,
  isAllowed: (context: Context) => boolean = () => true,
): Page<Context> => ({
  isAllowed,
  show: async (context) => showAction(context, await actionOf(context)),
  change: async (context, form) => runAction(context, await actionOf(context), form),
});

/** Pages of no resource. */
const GENERAL_PAGES = {
  dashboard: { show: showDashboard },
  // `admin.ts` answers these two, because they need no session.
  login: {},
  'set-password': {},
  logout: { change: logOut },
  account: forAction(ownAccount),
  tokens: forAction(ownTokens),
  'second-factor': forAction(ownSecondFactor),
  confirm: forAction(codeConfirmation),
  display: { change: chooseDisplay },
  keys: { show: showKeyboardHelp },
  go: { show: showGo },
} satisfies Record<string, Page<AdminContext>>;

const exported = (format: ExportFormat): Page<ResourceContext> => ({
  isAllowed: allows('export'),
  show: (context) => exportList(context, format),
});

/** Pages of one resource. */
const LIST_PAGES = {
  list: { show: showList },
  filter: { show: applyFilters },
  view: forAction(saveView),
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
const RECORD_PAGES = {
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
  password: forAction(setPassword, may('change')),
  undo: forAction(undo, isHistory),
  access: forAction(userAccess),
  'second-factor': forAction(removeSecondFactor, may('change')),
} satisfies Record<string, Page<RecordContext>>;

/** All pages by their names. */
export const PAGES: Readonly<Record<string, Page<never>>> = {
  ...GENERAL_PAGES,
  ...LIST_PAGES,
  ...RECORD_PAGES,
};

/** A page of one resource. */
export type AdminResourceRoute =
  | { readonly page: keyof typeof LIST_PAGES; readonly resource: AdminView }
  | { readonly page: keyof typeof RECORD_PAGES; readonly resource: AdminView; readonly id: string };

/** The page that a path of the admin area leads to. */
export type AdminRoute = AdminResourceRoute | { readonly page: keyof typeof GENERAL_PAGES };

const noPage = (): Problem => notFound(t('noPage'));

/** What the page of a route does with one request. @throws Problem 404 for a page that the caller may not use */
export function answersOf(context: AdminContext, route: AdminRoute) {
  function bind<Context extends AdminContext>({ isAllowed, show, change }: Page<Context>, of: Context) {
    if (isAllowed?.(of) === false) throw noPage();
    return { show: show && (() => show(of)), change: change && ((form: Form) => change(of, form)) };
  }
  if (!('resource' in route)) return bind(GENERAL_PAGES[route.page], context);
  return 'id' in route
    ? bind(RECORD_PAGES[route.page], { ...context, ...route })
    : bind(LIST_PAGES[route.page], { ...context, ...route });
}

/** Finds a page by its name in the URL. The page `unnamed` has no name there. @throws Problem 404 */
function pageNamed<Name extends string>(
  pages: Readonly<Record<Name, unknown>>,
  name: string | undefined,
  unnamed: Name,
): Name {
  if (name === undefined || name === unnamed || !Object.hasOwn(pages, name)) throw noPage();
  return name as Name;
}

/**
 * Finds the page of a path. The last slash is optional. The segment `-` leads to pages of no model, or below a model, of no record.
 * So no model name and no key collides with them.
 * @throws Problem 404
 */
export function findAdminRoute(path: string, resources: AdminViews): AdminRoute {
  const [, , first, second, third, ...rest] = path.replace(/\/$/, '').split('/');
  if (rest.length > 0 || (second === '' && third !== undefined)) throw noPage();
  if (first === undefined || first === '') return { page: 'dashboard' };
  if (first === '-' && third === undefined) return { page: pageNamed(GENERAL_PAGES, second, 'dashboard') };
  const resource = resources.get(decodeSegment(first, false, t('noPage')));
  if (!resource) throw noPage();
  if (second === undefined) return { page: 'list', resource };
  if (second === '-') return { page: pageNamed(LIST_PAGES, third, 'list'), resource };
  if (isKeyless(resource.model)) throw noPage();
  const id = decodeSegment(second, hasSeveralColumns(resource.model.primaryKey), t('noPage'));
  return { page: third === undefined ? 'record' : pageNamed(RECORD_PAGES, third, 'record'), resource, id };
}

/** The pattern of a page's path, as a label for metrics; undefined for an unknown path. */
export function patternOf(path: string, resources: AdminViews): string | undefined {
  let route: AdminRoute;
  try {
    route = findAdminRoute(path, resources);
  } catch {
    return undefined;
  }
  const { page } = route;
  if (page === 'dashboard') return '/admin/';
  if (!('resource' in route)) return `/admin/-/${page}/`;
  if (page === 'list') return '/admin/{model}/';
  if (!('id' in route)) return `/admin/{model}/-/${page}${page.includes('.') ? '' : '/'}`;
  return page === 'record' ? '/admin/{model}/{id}/' : `/admin/{model}/{id}/${page}/`;
}
