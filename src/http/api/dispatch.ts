// Answers a request by its path: from the admin area, the API, or the service's own pages.
import { notFound, unavailable } from '../../errors.ts';
import { json, type ApiRequest, type Reply } from '../message/message.ts';
import { isHealthCheck } from '../message/request-head.ts';
import { allowOf, assertAllowed, findRoute, OTHER_ROUTE, ROUTE_PATTERNS, STARTING } from './api-routes.ts';
import type { Site } from './site.ts';
import { messageOf } from '../../messages.ts';

interface RoutedRequest extends ApiRequest {
  readonly isInAdminArea: boolean;
  /** Set to the route pattern of the path, for metrics. */
  pattern: string;
}

const CLOSED = unavailable(messageOf('closed'));

/**
 * Answers a request with what its path leads to.
 * @param current the site; undefined until the database has been read
 * @throws Problem 404 for an unknown path, 405 for a method that the path does not allow, 503 without a site or after its end
 */
export function dispatch(request: RoutedRequest, current: Site | undefined): Reply | Promise<Reply> {
  const { path, method } = request;
  if (current?.isClosed() && !isHealthCheck(path)) throw CLOSED;
  if (request.isInAdminArea) {
    if (!current) throw STARTING;
    if (!current.admin) throw notFound();
    request.pattern = current.admin.patternOf(path) ?? OTHER_ROUTE;
    return current.admin.answer(request);
  }
  const found = findRoute(path, current?.resources);
  request.pattern = ROUTE_PATTERNS[found.kind];
  if (method === 'OPTIONS') return { status: 204, headers: { Allow: allowOf(found) }, body: '' };
  assertAllowed(method, found);
  if (found.kind === 'health') return json(200, '{"status":"ok"}');
  if (found.kind === 'ready') return readiness(current);
  if (!current) throw STARTING;
  if (found.kind === 'asset') return current.pages.asset(path);
  if (found.kind === 'openapi') return current.api.openapi(request);
  if (found.kind === 'home') return current.api.home(request);
  return 'resource' in found ? current.api.answer(request, found) : current.api.index(request);
}

async function readiness(current: Site | undefined): Promise<Reply> {
  if (await current?.isReady()) return json(200, '{"status":"ready"}');
  throw unavailable(messageOf('notYetReady'));
}
