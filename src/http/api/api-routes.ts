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

const ACCOUNT_KINDS: readonly string[] = [
  'me',
  'password',
  'tokens',
  'token',
] satisfies AccountRoute['kind'][];
export const isAccountRoute = (route: Route): route is AccountRoute => ACCOUNT_KINDS.includes(route.kind);

export const OPENAPI_PATH = '/api/openapi.json';

/** The label `route` of each kind of route. */
export const ROUTE_PATTERNS: Readonly<Record<Route['kind'], string>> = {
  health: '/healthz',
  ready: '/readyz',
  home: '/',
  index: '/api/',
  openapi: '/api/openapi.json',
  collection: '/api/{model}/',
  record: '/api/{model}/{id}/',
  asset: '/api/-/{file}',
  changes: '/api/-/changes/',
  me: '/api/-/me/',
  password: '/api/-/password/',
  tokens: '/api/-/tokens/',
  token: '/api/-/tokens/{id}/',
};
/** The label `route` of unknown paths, and of pages while the service starts. */
export const OTHER_ROUTE = 'other';

/** The methods that each kind of path allows. */
const METHODS: Record<Route['kind'], readonly Method[]> = {
  health: ['GET'],
  ready: ['GET'],
  home: ['GET'],
  index: ['GET'],
  openapi: ['GET'],
  asset: ['GET'],
  changes: ['GET'],
  collection: ['GET', 'POST'],
  record: ['GET', 'PUT', 'DELETE'],
  me: ['GET'],
  password: ['POST'],
  tokens: ['GET', 'POST'],
  token: ['DELETE'],
};

/** Methods with the meaning of another one. A JSON merge patch (RFC 7396) of flat records is what PUT does. */
const ALIASES: Readonly<Record<string, Method>> = { HEAD: 'GET', PATCH: 'PUT' };

/** The method that handles this one: GET for HEAD, PUT for PATCH, else itself. */
export const effectiveMethod = (method: string): string => ALIASES[method] ?? method;

const WRITES: ReadonlySet<string> = new Set<Method>(['POST', 'PUT', 'DELETE']);

const allows = (route: Route, method: Method): boolean =>
  METHODS[route.kind].includes(method) && (!('resource' in route) || route.resource.methods.has(method));

/** The `Allow` header of a path. GET implies HEAD, PUT implies PATCH, and OPTIONS always works. */
export const allowOf = (route: Route): string =>
  (['GET', 'POST', 'PUT', 'DELETE'] as const)
    .filter((method) => allows(route, method))
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
  const bare = path.endsWith('/') ? path.slice(0, -1) : path;
  if (bare === '/healthz') return { kind: 'health' };
  if (bare === '/readyz') return { kind: 'ready' };
  if (path === '/') {
    if (!resources) throw STARTING;
    return { kind: 'home' };
  }
  const segments = bare.split('/');
  const isToken = segments.length === 5 && bare.startsWith('/api/-/tokens/');
  if (segments[0] !== '' || segments[1] !== 'api' || (segments.length > 4 && !isToken)) throw notFound();
  if (!resources) throw STARTING;
  if (isToken) return { kind: 'token', id: segments[4] ?? '' };
  if (segments[2] === undefined) return { kind: 'index' };
  // Model names have no dot and no hyphen, so these paths are free.
  if (bare === OPENAPI_PATH) return { kind: 'openapi' };
  const [, , , name = ''] = segments;
  if (segments[2] === '-' && (name === 'me' || name === 'password' || name === 'tokens'))
    return { kind: name };
  if (segments[2] === '-' && name === 'changes') return { kind: 'changes' };
  if (segments[2] === '-' && name) return { kind: 'asset' };
  const resource = resources.get(decodeSegment(segments[2]));
  if (!resource) throw notFound();
  if (segments[3] === undefined) return { kind: 'collection', resource };
  if (segments[3] === '' || isKeyless(resource.model)) throw notFound();
  return {
    kind: 'record',
    resource,
    id: decodeSegment(segments[3], hasSeveralColumns(resource.model.primaryKey)),
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
