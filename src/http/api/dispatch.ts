// Answers a request by its path: from the admin area, the API, or the service's own pages.
import { notFound, unavailable } from '../../errors.ts';
import { json, type ApiRequest, type Reply, type Area } from '../message/message.ts';
import { isHealthCheck } from '../message/request-head.ts';
import {
  allowOf,
  assertAllowed,
  findRoute,
  isAccountRoute,
  OTHER_ROUTE,
  patternOf,
  STARTING,
  type Route,
} from './api-routes.ts';
import { messageOf } from '../../messages.ts';
import type { Replicas } from '../../db/replicas/replicas.ts';
import type { ResourceViews } from '../../resources/access/resource-view.ts';
import type { Api } from './api.ts';
import type { Account } from './api-account.ts';
import type { ChangeFeed } from './api-changes.ts';
import type { Authentication } from '../auth/authentication.ts';
import type { ApiPages } from './api-reads.ts';

/** The parts of the service that exist once the database has been read. */
export interface Site {
  /** As a caller without credentials sees them. */
  readonly resources: ResourceViews;
  readonly api: Api;
  /** Undefined if the registry has no user model. */
  readonly account: Account | undefined;
  /** Undefined without a history. */
  readonly changes: ChangeFeed | undefined;
  /** HTML pages of the API. */
  readonly pages: ApiPages;
  /** Undefined if the registry has no user model. */
  readonly authentication: Authentication | undefined;
  /** The admin area, under `/admin/`; undefined if the registry has no user model. */
  readonly admin: Area | undefined;
  /** See `Replicas`. */
  readonly positionAfter: Replicas['positionAfter'];
  /** Whether the database answers. */
  readonly isReady: () => Promise<boolean>;
  /** Whether the database connections are closed. An embedding program's server may run on. */
  readonly isClosed: () => boolean;
}

interface RoutedRequest extends ApiRequest {
  readonly isInAdminArea: boolean;
  /** Set to the route pattern of the path, for metrics. */
  pattern: string;
}

const options = (route?: Route): Reply => ({ status: 204, headers: { Allow: allowOf(route) }, body: '' });

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
  if (method === 'OPTIONS' && path === '*') return options();
  const found = findRoute(path, current?.resources);
  const ofAccount = isAccountRoute(found) ? found : undefined;
  if (ofAccount && !current?.account) throw notFound();
  if (found.kind === 'changes' && !current?.changes) throw notFound();
  if (found.kind === 'asset' && !current?.pages.isAsset(path)) throw notFound();
  request.pattern = patternOf(found.kind);
  if (method === 'OPTIONS') return options(found);
  assertAllowed(method, found);
  if (found.kind === 'health') return json(200, '{"status":"ok"}');
  if (found.kind === 'ready') return readiness(current);
  if (!current) throw STARTING;
  if (found.kind === 'asset') return current.pages.asset(path);
  if (found.kind === 'openapi') return current.api.openapi(request);
  if (found.kind === 'home') return current.api.home(request);
  if (found.kind === 'changes' && current.changes) return current.changes.answer(request);
  if (ofAccount && current.account) return current.account.answer(request, ofAccount);
  return 'resource' in found ? current.api.answer(request, found) : current.api.index(request);
}

async function readiness(current: Site | undefined): Promise<Reply> {
  if (await current?.isReady()) return json(200, '{"status":"ready"}');
  throw unavailable(messageOf('notYetReady'));
}
