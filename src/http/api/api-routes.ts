import { notFound, Problem, unavailable } from '../../errors.ts';
import type { Method } from '../../resources/definition/resource.ts';
import { Unauthorized } from '../message/message.ts';
import type { ServedResource, ServedResources } from '../../resources/serve/served-resource.ts';

export type ResourceRoute =
  | { readonly kind: 'collection'; readonly resource: ServedResource }
  | { readonly kind: 'record'; readonly resource: ServedResource; readonly id: string };

export type Route = ResourceRoute | { readonly kind: 'index' | 'openapi' | 'asset' | 'health' | 'ready' };

/** The API's description of itself. */
export const OPENAPI_PATH = '/api/openapi.json';

/** The methods that the paths of each kind take. */
const METHODS: Record<Route['kind'], readonly Method[]> = {
  health: ['GET'],
  ready: ['GET'],
  index: ['GET'],
  openapi: ['GET'],
  asset: ['GET'],
  collection: ['GET', 'POST'],
  record: ['GET', 'PUT', 'DELETE'],
};

const WRITES: ReadonlySet<string> = new Set<Method>(['POST', 'PUT', 'DELETE']);

const takes = (route: Route, method: Method): boolean =>
  METHODS[route.kind].includes(method) && (!('resource' in route) || route.resource.methods.has(method));

/** The `Allow` header of a path: its methods with HEAD beside GET, and OPTIONS. */
export const allowOf = (route: Route): string =>
  (['GET', 'POST', 'PUT', 'DELETE'] as const)
    .filter((method) => takes(route, method))
    .flatMap((method) => (method === 'GET' ? ['GET', 'HEAD'] : [method]))
    .concat('OPTIONS')
    .join(', ');

function decodeSegment(segment: string): string {
  try {
    return decodeURIComponent(segment);
  } catch {
    throw notFound();
  }
}

/**
 * Finds what a path names; the last slash may be missing.
 * @throws Problem 404
 */
export function findRoute(path: string, resources: ServedResources | undefined): Route {
  if (path === '/healthz') return { kind: 'health' };
  if (path === '/readyz') return { kind: 'ready' };
  const segments = (path.endsWith('/') ? path.slice(0, -1) : path).split('/');
  if (segments[0] !== '' || segments[1] !== 'api' || segments.length > 4) throw notFound();
  // Until the database has been read nothing is known of the resources.
  if (!resources) throw unavailable('The service is starting.');
  if (segments[2] === undefined) return { kind: 'index' };
  // No model is called that, nor what has a dot.
  if (path === OPENAPI_PATH) return { kind: 'openapi' };
  if (segments[2] === '-' && segments[3]) return { kind: 'asset' };
  const resource = resources.get(decodeSegment(segments[2]));
  if (!resource) throw notFound();
  if (segments[3] === undefined) return { kind: 'collection', resource };
  if (segments[3] === '') throw notFound();
  return { kind: 'record', resource, id: decodeSegment(segments[3]) };
}

export const methodNotAllowed = (allow: string): Problem =>
  new Problem(405, `This path takes ${allow}.`, { headers: { Allow: allow } });

/**
 * @throws Unauthorized for a write at the default level, whoever asks and whatever the resource lists and the path takes;
 * Problem 405 with `Allow` for any other method that the path does not take
 */
export function assertAllowed(method: string, route: Route): void {
  const asked = (method === 'HEAD' ? 'GET' : method) as Method;
  if ('resource' in route && route.resource.access === 'default' && WRITES.has(asked))
    throw new Unauthorized();
  if (!takes(route, asked)) throw methodNotAllowed(allowOf(route));
}
