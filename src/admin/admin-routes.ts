// Maps a path under `/admin/` to a page, and lists the methods of each page.
import { notFound } from '../errors.ts';
import type { AdminResource, AdminResources } from '../resources/serve/admin-resource.ts';

/** A page of one resource. */
export type AdminResourceRoute =
  | { readonly page: ListPageName; readonly resource: AdminResource }
  | { readonly page: RecordPageName; readonly resource: AdminResource; readonly id: string };

/** The page that a path of the admin area leads to. */
export type AdminRoute =
  AdminResourceRoute | { readonly page: 'dashboard' | 'login' | 'logout' | 'account' | 'sessions' | 'keys' };

export type ListPageName =
  'list' | 'filter' | 'add' | 'bulk' | 'lookup' | 'import' | 'export.csv' | 'export.json';
export type RecordPageName = 'record' | 'delete' | 'history' | 'password';

const GENERAL_PAGES = ['login', 'logout', 'account', 'sessions', 'keys'] as const;
const LIST_PAGES = ['filter', 'add', 'bulk', 'lookup', 'import', 'export.csv', 'export.json'] as const;
const RECORD_PAGES = ['delete', 'history', 'password'] as const;

/** The methods of each page: GET shows something, POST changes something. */
export const ADMIN_METHODS: Readonly<Record<AdminRoute['page'], readonly ('GET' | 'POST')[]>> = {
  dashboard: ['GET'],
  login: ['GET', 'POST'],
  logout: ['POST'],
  account: ['GET', 'POST'],
  sessions: ['POST'],
  keys: ['GET'],
  list: ['GET'],
  filter: ['GET'],
  add: ['GET', 'POST'],
  bulk: ['POST'],
  lookup: ['GET'],
  import: ['GET', 'POST'],
  'export.csv': ['GET'],
  'export.json': ['GET'],
  record: ['GET', 'POST'],
  delete: ['GET', 'POST'],
  history: ['GET'],
  password: ['GET', 'POST'],
};

const pageNamed = <T extends string>(pages: readonly T[], name: string | undefined): T => {
  const found = pages.find((page) => page === name);
  if (found === undefined) throw notFound('There is no such page.');
  return found;
};

function decodeSegment(segment: string): string {
  try {
    return decodeURIComponent(segment);
  } catch {
    throw notFound('There is no such page.');
  }
}

/**
 * Finds the page of a path. The last slash is optional. The segment `-` leads to pages of no model, or below a model, of no record.
 * So no model name and no key collides with them.
 * @throws Problem 404
 */
export function findAdminRoute(path: string, resources: AdminResources): AdminRoute {
  const segments = path.replace(/\/$/, '').split('/').slice(2);
  const [first, second, third, ...rest] = segments;
  if (rest.length > 0 || (second === '' && third !== undefined)) throw notFound('There is no such page.');
  if (first === undefined || first === '') return { page: 'dashboard' };
  if (first === '-' && third === undefined) return { page: pageNamed(GENERAL_PAGES, second) };
  const resource = resources.get(decodeSegment(first));
  if (!resource) throw notFound('There is no such page.');
  if (second === undefined) return { page: 'list', resource };
  if (second === '-') return { page: pageNamed(LIST_PAGES, third), resource };
  const id = decodeSegment(second);
  return { page: third === undefined ? 'record' : pageNamed(RECORD_PAGES, third), resource, id };
}

/** The pattern of a page's path, as a label for metrics; undefined for an unknown path. */
export function patternOf(path: string, resources: AdminResources): string | undefined {
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
