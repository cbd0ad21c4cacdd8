// Turns errors into responses, in the format that the request accepts.
import {
  asProblem,
  DatabaseFault,
  isDatabaseError,
  isRuleError,
  type DatabaseError,
} from '../../db/connection/database-errors.ts';
import { notFound, type Problem } from '../../errors.ts';
import type { Logger } from '../observability/logger.ts';
import type { LogFields } from '../observability/log-text.ts';
import {
  INTERNAL_ERROR,
  problemReply,
  Unauthorized,
  UNAUTHORIZED,
  type ApiRequest,
  type Area,
  type Reply,
} from '../message/message.ts';
import { wantsHtml } from '../api/negotiation.ts';
import { ADMIN_METHODS, allowOf, findRoute, methodNotAllowed, STARTING } from '../api/api-routes.ts';
import type { Site } from '../api/dispatch.ts';
import { isAdminPath } from '../message/request-head.ts';

/** Characters of the calls in the log line: endless recursion makes thousands of them. */
const MAX_PLACE = 1_000;

/** The area that renders the request's errors as pages; undefined if they are problem documents. */
export function errorArea(request: ApiRequest, current: Site | undefined): Pick<Area, 'problem'> | undefined {
  if (isAdminPath(request.path)) return current?.admin;
  return wantsHtml(request) ? current?.pages : undefined;
}

/** The log line for a write that a rule of the database refused. The API shows its text only with `databaseErrors: 'shown'`. */
const ruleLine = ({ message, constraint_name, column_name }: DatabaseError, id: string): LogFields => ({
  id,
  message: `the database refused a write: ${message}`,
  ...(constraint_name === undefined ? {} : { constraint: constraint_name }),
  ...(column_name === undefined ? {} : { column: column_name }),
});

/** The functions of the database in which an error was raised. */
function placeOf(error: unknown): LogFields {
  const cause = error instanceof DatabaseFault ? error.cause : error;
  return isDatabaseError(cause) && cause.where !== undefined
    ? { where: cause.where.slice(0, MAX_PLACE) }
    : {};
}

/**
 * Turns any error into a response, and logs errors of the service and of the database. Once a response has begun, `createHandler`
 * logs them.
 */
export function errorReply(
  error: unknown,
  requestId: string,
  logger: Logger,
  show: (problem: Problem, requestId: string) => Reply = problemReply,
): Reply {
  if (error instanceof Unauthorized) {
    if (error.message !== '') logger.info({ id: requestId, message: error.message });
    return UNAUTHORIZED;
  }
  const problem = asProblem(error);
  if (!problem) {
    logger.error({
      id: requestId,
      message: (error as Error)?.message ?? String(error),
      ...placeOf(error),
      stack: (error as Error)?.stack,
    });
  } else if (problem !== error && problem.status === 503) {
    logger.warn({ id: requestId, message: (error as Error).message });
  } else {
    const cause = problem === error ? problem.cause : error;
    if (isDatabaseError(cause) && isRuleError(cause)) logger.info(ruleLine(cause, requestId));
  }
  return show(problem ?? INTERNAL_ERROR, requestId);
}

/**
 * The error for a method that no path supports: 404 for an unknown path, 503 while the service starts, else 405.
 * @throws the errors of `findRoute` instead of returning them
 */
export function unknownMethod(path: string, current: Site | undefined): Problem {
  if (!isAdminPath(path)) return methodNotAllowed(allowOf(findRoute(path, current?.resources)));
  if (!current) return STARTING;
  return current.admin ? methodNotAllowed(ADMIN_METHODS) : notFound();
}
