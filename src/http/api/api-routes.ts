// Routes of the API: what a path names, and which methods and parameters it allows.
import { hasSeveralColumns } from '../../db/schema/composite-key.ts';
import { isKeyless } from '../../db/schema/model.ts';
import { addError, badQuery, notFound, Problem, unavailable, type FieldErrors } from '../../errors.ts';
import { parseParameters } from '../../query/parse/grammar.ts';
import type { Method } from '../../resources/definition/resource.ts';
import { decodeSegment } from '../message/key-segment.ts';
import { Unauthorized } from '../message/message.ts';
import { isOpen } from '../../resources/access/access.ts';
import type { ResourceView, ResourceViews } from '../../resources/access/resource-view.ts';
import { messageOf } from '../../messages.ts';

/** A path of a resource: its collection or one record. */
export type ResourceRoute =
  | { readonly kind: 'collection'; readonly resource: ResourceView }
  | { readonly kind: 'record'; readonly resource: ResourceView; readonly id: string };

/** A path of the caller's own account. */
export type AccountRoute =
  { readonly kind: 'me' | 'password' | 'tokens' } | { readonly kind: 'token'; readonly id: string };

/** What a path of the API, or of a health check, names. */
export type Route =
  | ResourceRoute
  | AccountRoute
  | { readonly kind: 'home' | 'index' | 'openapi' | 'changes' | 'asset' | 'health' | 'ready' };

const OF_ACCOUNT: ReadonlySet<Route['kind']> = new Set(['me', 'password', 'tokens', 'token']);
export const isAccountRoute = (route: Route): route is AccountRoute => OF_ACCOUNT.has(route.kind);

export const OPENAPI_PATH = '/api/openapi.json';

/** Of each kind of path: its pattern, which is also the label `route`, and the methods that it allows. */
const ROUTES: Readonly<Record<Route['kind'], readonly [pattern: string, ...methods: Method[]]>> = {
  health: ['/healthz', 'GET'],
  ready: ['/readyz', 'GET'],
  home: ['/', 'GET'],
  index: ['/api/', 'GET'],
  openapi: [OPENAPI_PATH, 'GET'],
  collection: ['/api/{model}/', 'GET', 'POST'],
  record: ['/api/{model}/{id}/', 'GET', 'PUT', 'DELETE'],
  asset: ['/api/-/{file}', 'GET'],
  changes: ['/api/-/changes/', 'GET'],
  me: ['/api/-/me/', 'GET'],
  password: ['/api/-/password/', 'POST'],
  tokens: ['/api/-/tokens/', 'GET', 'POST'],
  token: ['/api/-/tokens/{id}/', 'DELETE'],
};
export const patternOf = (kind: Route['kind']): string => ROUTES[kind][0];
/** The label `route` of unknown paths, and of pages while the service starts. */
export const OTHER_ROUTE = 'other';

/** A path without its trailing slash. */
const bareOf = (path: string): string => (path.endsWith('/') ? path.slice(0, -1) : path);

/** The routes of the patterns that are paths themselves. Model names have no dot and no hyphen, so these are free. */
const FIXED = new Map(
  (Object.keys(ROUTES) as Route['kind'][])
    .filter((kind) => !patternOf(kind).includes('{'))
    .map((kind) => [bareOf(patternOf(kind)), { kind } as Route]),
);

/** Methods with the meaning of another one. A JSON merge patch (RFC 7396) of flat records is what PUT does. */
const ALIASES: Readonly<Record<string, Method>> = { HEAD: 'GET', PATCH: 'PUT' };

/** The method that handles this one: GET for HEAD, PUT for PATCH, else itself. */
export const effectiveMethod = (method: string): string => ALIASES[method] ?? method;

const WRITES: ReadonlySet<string> = new Set<Method>(['POST', 'PUT', 'DELETE']);

const allows = (route: Route, method: Method): boolean =>
  ROUTES[route.kind].slice(1).includes(method) &&
  (!('resource' in route) || route.resource.methods.has(method));

/**
 * The `Allow` header of a path. GET implies HEAD, PUT implies PATCH, and OPTIONS always works.
 * @param route undefined for `*`: the whole service
 */
export const allowOf = (route: Route | undefined): string =>
  (['GET', 'POST', 'PUT', 'DELETE'] as const)
    .filter((method) => !route || allows(route, method))
    .flatMap((method) => [method, ...Object.keys(ALIASES).filter((alias) => ALIASES[alias] === method)])
    .concat('OPTIONS')
    .join(', ');

/** The methods that some path of the admin area supports. */
export const ADMIN_METHODS = 'GET, HEAD, POST, OPTIONS';

export const STARTING = unavailable(messageOf('starting'));

/**
 * Resolves a path, with or without a trailing slash.
 * @param resources undefined until the database has been read
 * @throws Problem 404; 503 while the service starts
 */
export function findRoute(path: string, resources: ResourceViews | undefined): Route {
  const bare = bareOf(path);
  const fixed = path === '' ? undefined : FIXED.get(bare);
  if (fixed?.kind === 'health' || fixed?.kind === 'ready') return fixed;
  const segments = bare.split('/');
  const [root, api, name = '', part, token] = segments;
  const isToken = segments.length === 5 && bare.startsWith('/api/-/tokens/');
  if (!fixed && (root !== '' || api !== 'api' || (segments.length > 4 && !isToken))) throw notFound();
  if (!resources) throw STARTING;
  if (fixed) return fixed;
  if (isToken) return { kind: 'token', id: token ?? '' };
  if (name === '-' && part) return { kind: 'asset' };
  const resource = resources.get(decodeSegment(name));
  if (!resource) throw notFound();
  if (part === undefined) return { kind: 'collection', resource };
  if (part === '' || isKeyless(resource.model)) throw notFound();
  return {
    kind: 'record',
    resource,
    id: decodeSegment(part, hasSeveralColumns(resource.model.primaryKey)),
  };
}

export const methodNotAllowed = (allow: string): Problem =>
  new Problem(405, messageOf('methodNotAllowed', { allow }), { headers: { Allow: allow } });

/** Whether neither a level nor a role lets anyone use the method. */
const isForNoOne = ({ needed, hasCallers }: ResourceView, method: Method): boolean =>
  isOpen(needed(method)) && !hasCallers(method);

/**
 * Checks the method of a request.
 * @throws Unauthorized for every write at the default level, even where `methods` does not list it; otherwise Problem 405
 * with `Allow` for a method that the path does not allow
 */
export function assertAllowed(method: string, route: Route): void {
  const effective = effectiveMethod(method) as Method;
  if ('resource' in route && WRITES.has(effective) && isForNoOne(route.resource, effective))
    throw new Unauthorized(
      `no one may write ${route.resource.name}: give it access: 'user' or 'admin', or set ACCESS`,
    );
  if (!allows(route, effective)) throw methodNotAllowed(allowOf(route));
}

/**
 * Refuses all query parameters: only GET on a collection has any.
 * @throws Problem 400 that names each parameter
 */
export function assertNoParameters(query: string): void {
  const errors: FieldErrors = {};
  for (const { name } of parseParameters(query)) addError(errors, name, messageOf('noParameters'));
  if (Object.keys(errors).length > 0) throw badQuery(errors);
}
