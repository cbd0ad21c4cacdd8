import { notFound } from '../errors.ts';
import type { AdminResource, AdminResources } from '../resources/serve/admin-resource.ts';

/** A page of one resource. */
export type AdminResourceRoute =
  | { readonly page: ListPageName; readonly resource: AdminResource }
  | { readonly page: RecordPageName; readonly resource: AdminResource; readonly id: string };

/** What a path of the admin area names. */
export type AdminRoute =
  AdminResourceRoute | { readonly page: 'dashboard' | 'login' | 'logout' | 'account' | 'sessions' | 'keys' };

export type ListPageName =
  'list' | 'filter' | 'add' | 'bulk' | 'lookup' | 'import' | 'export.csv' | 'export.json';
export type RecordPageName = 'record' | 'delete' | 'history' | 'password';

const OWN_PAGES = ['login', 'logout', 'account', 'sessions', 'keys'] as const;
const LIST_PAGES = ['filter', 'add', 'bulk', 'lookup', 'import', 'export.csv', 'export.json'] as const;
const RECORD_PAGES = ['delete', 'history', 'password'] as const;

/** The methods of each page: what shows something, what changes something, and what does both. */
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

const oneOf = <T extends string>(names: readonly T[], name: string | undefined): T => {
  const found = names.find((one) => one === name);
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
 * Finds the page of a path; the last slash may be missing. A `-` as it is leads to pages that are not a model's or a record's, so
 * that no name and no key can be in their way.
 * @throws Problem 404
 */
export function findAdminRoute(path: string, resources: AdminResources): AdminRoute {
  const segments = path.replace(/\/$/, '').split('/').slice(2);
  const [first, second, third, ...rest] = segments;
  if (rest.length > 0 || (second === '' && third !== undefined)) throw notFound('There is no such page.');
  if (first === undefined || first === '') return { page: 'dashboard' };
  if (first === '-' && third === undefined) return { page: oneOf(OWN_PAGES, second) };
  const resource = resources.get(decodeSegment(first));
  if (!resource) throw notFound('There is no such page.');
  if (second === undefined) return { page: 'list', resource };
  if (second === '-') return { page: oneOf(LIST_PAGES, third), resource };
  const id = decodeSegment(second);
  return { page: third === undefined ? 'record' : oneOf(RECORD_PAGES, third), resource, id };
}

/** The pattern of a page's path, for counting; undefined for a path that leads nowhere. */
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
