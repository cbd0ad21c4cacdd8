// Maps a path under `/admin/` to a page, and lists the methods of each page.
import { hasSeveralColumns } from '../db/schema/composite-key.ts';
import { isKeyless } from '../db/schema/model.ts';
import { notFound, type Problem } from '../errors.ts';
import { decodeSegment } from '../http/message/key-segment.ts';
import type { Reply } from '../http/message/message.ts';
import type { AdminView, AdminViews } from '../resources/access/admin-view.ts';
import {
  GENERAL_PAGES,
  LIST_PAGES,
  RECORD_PAGES,
  type GeneralPageName,
  type ListPageName,
  type Page,
  type RecordPageName,
} from './pages.ts';
import type { AdminContext } from './web/admin-context.ts';
import type { Form } from './web/form-data.ts';
import { t } from './web/language.ts';

const noPage = (): Problem => notFound(t('noPage'));

/** A page of one resource. */
export type AdminResourceRoute =
  | { readonly page: ListPageName; readonly resource: AdminView }
  | { readonly page: RecordPageName; readonly resource: AdminView; readonly id: string };

/** The page that a path of the admin area leads to. */
export type AdminRoute = AdminResourceRoute | { readonly page: GeneralPageName };

/** The methods of each page: GET shows something, POST changes something. */
export const PAGE_METHODS: Readonly<Record<string, readonly ('GET' | 'POST')[]>> = Object.fromEntries(
  Object.entries<Page<never>>({ ...GENERAL_PAGES, ...LIST_PAGES, ...RECORD_PAGES }).map(
    ([name, { show, change }]) => [
      name,
      name === 'login' || name === 'set-password'
        ? ['GET', 'POST']
        : [...(show ? ['GET' as const] : []), ...(change ? ['POST' as const] : [])],
    ],
  ),
);

/** A page of one address; see `Page`. */
export interface RoutedPage {
  readonly show: (() => Promise<Reply> | Reply) | undefined;
  readonly change: ((form: Form) => Promise<Reply> | Reply) | undefined;
}

/** The page of a route, for one request. @throws Problem 404 for a page that the caller may not use */
export function pageOf(context: AdminContext, route: AdminRoute): RoutedPage {
  function bind<Context extends AdminContext>(page: Page<Context>, of: Context): RoutedPage {
    const { isAllowed, show, change } = page;
    if (isAllowed?.(of) === false) throw noPage();
    return { show: show && (() => show(of)), change: change && ((form) => change(of, form)) };
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
  const found = (Object.keys(pages) as Name[]).find((page) => page === name && page !== unnamed);
  if (found === undefined) throw noPage();
  return found;
}

/**
 * Finds the page of a path. The last slash is optional. The segment `-` leads to pages of no model, or below a model, of no record.
 * So no model name and no key collides with them.
 * @throws Problem 404
 */
export function findAdminRoute(path: string, resources: AdminViews): AdminRoute {
  const segments = path.replace(/\/$/, '').split('/').slice(2);
  const [first, second, third, ...rest] = segments;
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
