import { asProblem } from '../../db/connection/database-errors.ts';
import { notFound, unavailable, type Problem } from '../../errors.ts';
import type { Logger } from '../observability/logger.ts';
import {
  INTERNAL_ERROR,
  problemReply,
  Unauthorized,
  UNAUTHORIZED,
  type ApiRequest,
  type Area,
  type Reply,
} from '../message/message.ts';
import { COLLECTION_FORMATS, negotiate } from '../api/negotiation.ts';
import { allowOf, findRoute, methodNotAllowed } from '../api/api-routes.ts';
import type { Site } from '../api/site.ts';
import { isAdmin } from '../message/request-target.ts';

/** Whether answers depend on what the request accepts. */
export const isNegotiated = ({ method, path }: ApiRequest): boolean =>
  (method === 'GET' || method === 'HEAD') && (path.startsWith('/api/') || path === '/api');

/** What shows the errors of a request in a way of its own. */
export function errorArea(request: ApiRequest, current: Site | undefined): Pick<Area, 'problem'> | undefined {
  if (isAdmin(request.path)) return current?.admin;
  const isPage = isNegotiated(request) && negotiate(request.headers.accept, COLLECTION_FORMATS) === 'html';
  return isPage ? current?.pages : undefined;
}

/** Turns whatever was thrown into an answer: the one place that does. */
export function errorReply(
  error: unknown,
  requestId: string,
  logger: Logger,
  show: (problem: Problem, requestId: string) => Reply = problemReply,
): Reply {
  if (error instanceof Unauthorized) return UNAUTHORIZED;
  const problem = asProblem(error);
  if (!problem) {
    logger.error({
      id: requestId,
      message: (error as Error)?.message ?? String(error),
      stack: (error as Error)?.stack,
    });
  } else if (problem !== error && problem.status === 503) {
    logger.warn({ id: requestId, message: (error as Error).message });
  }
  return show(problem ?? INTERNAL_ERROR, requestId);
}

/** The methods of the admin area's paths, as far as can be said without looking at the path. */
const ADMIN_METHODS = 'GET, HEAD, POST, OPTIONS';

/** What is wrong with a request whose method nothing here takes: 404 where there is no such path, else 405. */
export function unknownMethod(path: string, current: Site | undefined): Problem {
  if (!isAdmin(path)) return methodNotAllowed(allowOf(findRoute(path, current?.resources)));
  if (!current) return unavailable('The service is starting.');
  return current.admin ? methodNotAllowed(ADMIN_METHODS) : notFound();
}
