import { notFound, Problem, unavailable } from '../errors.ts';
import type { Method } from '../resources/resource.ts';
import type { ServedResource, ServedResources } from '../resources/served.ts';

interface Path {
  /** The `Allow` header of the path. */
  readonly allow: string;
}

export type ResourceRoute =
  | (Path & { readonly kind: 'collection'; readonly resource: ServedResource })
  | (Path & { readonly kind: 'record'; readonly resource: ServedResource; readonly id: string });

export type Route = ResourceRoute | (Path & { readonly kind: 'index' | 'health' | 'ready' });

const COLLECTION: readonly Method[] = ['GET', 'POST'];
const RECORD: readonly Method[] = ['GET', 'PUT', 'DELETE'];

/** The `Allow` header of a path: those of its methods that the resource lists, with HEAD beside GET, and OPTIONS. */
function allowOf(methods: readonly Method[], resource: ServedResource): string {
  const listed = methods.filter((method) => resource.methods.has(method));
  return [...listed.flatMap((method) => (method === 'GET' ? ['GET', 'HEAD'] : [method])), 'OPTIONS'].join(
    ', ',
  );
}

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
  const get = 'GET, HEAD, OPTIONS';
  if (path === '/healthz') return { kind: 'health', allow: get };
  if (path === '/readyz') return { kind: 'ready', allow: get };
  const segments = (path.endsWith('/') ? path.slice(0, -1) : path).split('/');
  if (segments[0] !== '' || segments[1] !== 'api' || segments.length > 4) throw notFound();
  // Until the database has been read nothing is known of the resources.
  if (!resources) throw unavailable('The service is starting.');
  if (segments[2] === undefined) return { kind: 'index', allow: get };
  const resource = resources.get(decodeSegment(segments[2]));
  if (!resource) throw notFound();
  if (segments[3] === undefined)
    return { kind: 'collection', resource, allow: allowOf(COLLECTION, resource) };
  if (segments[3] === '') throw notFound();
  return { kind: 'record', resource, id: decodeSegment(segments[3]), allow: allowOf(RECORD, resource) };
}

/** @throws Problem 405 with `Allow` */
export function assertAllowed(method: string, { allow }: Route): void {
  if (allow.split(', ').includes(method)) return;
  throw new Problem(405, `This path takes ${allow}.`, { headers: { Allow: allow } });
}
