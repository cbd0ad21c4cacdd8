import { randomBytes } from 'node:crypto';
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Settings } from '../config.ts';
import { ClientGone, isClientGone } from '../db/requester.ts';
import { asProblem } from '../db/sqlstate.ts';
import { Refusal, type Problem } from '../errors.ts';
import { notFound, unavailable } from '../errors.ts';
import type { ServedResources } from '../resources/served.ts';
import { Admission } from './admission.ts';
import type { Api } from './api.ts';
import type { Authentication } from './authentication.ts';
import { readBody } from './body.ts';
import type { InFlight } from './in-flight.ts';
import type { Logger } from './logger.ts';
import {
  INTERNAL_ERROR,
  json,
  problemReply,
  Unauthorized,
  UNAUTHORIZED,
  type ApiRequest,
  type Area,
  type Reply,
} from './message.ts';
import { isShown, METRICS_PATH, NOWHERE, PATTERNS, type Metrics } from './metrics.ts';
import { FORMATS, negotiate } from './negotiation.ts';
import { type Pressure } from './pressure.ts';
import { clientAddress, corsHeaders, isSecure } from './origin.ts';
import type { ApiPages } from './pages.ts';
import { HttpRequester } from './requester.ts';
import { createPace } from './pace.ts';
import { allowOf, assertAllowed, findRoute, methodNotAllowed } from './routes.ts';
import { send, sendStream } from './send.ts';
import { assertReadable, loggedPath, splitTarget } from './target.ts';
import { createTurns } from './turns.ts';

/** What there is once the database has been read. */
export interface Site {
  readonly resources: ServedResources;
  readonly api: Api;
  /** The API as pages for people. */
  readonly pages: ApiPages;
  /** Undefined for a service without users. */
  readonly authentication: Authentication | undefined;
  /** What stands under `/admin/`; undefined for a service without users. */
  readonly admin: Area | undefined;
  /** Whether the database answers. */
  readonly isReady: () => Promise<boolean>;
}

export interface HandlerOptions {
  readonly settings: Settings;
  readonly logger: Logger;
  readonly metrics: Metrics;
  readonly inFlight: InFlight;
  readonly pressure: Pressure;
  /** The site, or undefined while the service starts and when it ends. */
  readonly site: () => Site | undefined;
  readonly isClosing: () => boolean;
}

/** Answers requests, as a listener of Node's server. */
export interface Handler {
  (request: IncomingMessage, response: ServerResponse): void;
  /** The answer to a method that Node's parser does not know, whose request never gets here. */
  readonly refuseMethod: (target: string) => Reply;
}

/** The status under which requests are counted and logged whose client left before the answer. */
const CLIENT_GONE = 499;

/** Paths that are answered however busy the process is. */
const isProbe = (path: string): boolean => path === '/healthz' || path === '/readyz';

const isAdmin = (path: string): boolean => path === '/admin' || path.startsWith('/admin/');

/** Whether answers depend on what the request accepts. */
const isNegotiated = ({ method, path }: ApiRequest): boolean =>
  (method === 'GET' || method === 'HEAD') && (path.startsWith('/api/') || path === '/api');

/** What shows the errors of a request in a way of its own. */
function errorArea(request: ApiRequest, current: Site | undefined): Pick<Area, 'problem'> | undefined {
  if (isAdmin(request.path)) return current?.admin;
  const isPage = isNegotiated(request) && negotiate(request.headers.accept, FORMATS) === 'html';
  return isPage ? current?.pages : undefined;
}

/** @param mark is told the pattern of the path, for counting */
async function route(
  request: ApiRequest,
  { site }: HandlerOptions,
  mark: (pattern: string) => void,
): Promise<Reply> {
  const current = site();
  if (isAdmin(request.path)) {
    if (!current) throw unavailable('The service is starting.');
    if (!current.admin) throw notFound();
    mark(current.admin.patternOf(request.path) ?? NOWHERE);
    return current.admin.answer(request);
  }
  const found = findRoute(request.path, current?.resources);
  mark(PATTERNS[found.kind]);
  if (request.method === 'OPTIONS') return { status: 204, headers: { Allow: allowOf(found) }, body: '' };
  assertAllowed(request.method, found);
  if (found.kind === 'health') return json(200, '{"status":"ok"}');
  if (found.kind === 'ready') {
    if (await current?.isReady()) return json(200, '{"status":"ready"}');
    throw unavailable('The service is not ready.');
  }
  if (!current) throw unavailable('The service is starting.');
  if (found.kind === 'asset') return current.pages.asset(request.path);
  if (found.kind === 'openapi') return current.api.openapi(request);
  return 'resource' in found ? current.api.answer(request, found) : current.api.index(request);
}

/** Turns whatever was thrown into an answer: the one place that does. */
function errorReply(
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
function unknownMethod(path: string, current: Site | undefined): Problem {
  if (!isAdmin(path)) return methodNotAllowed(allowOf(findRoute(path, current?.resources)));
  if (!current) return unavailable('The service is starting.');
  return current.admin ? methodNotAllowed(ADMIN_METHODS) : notFound();
}

function addVary(headers: Record<string, string>, name: string): void {
  headers['Vary'] = headers['Vary'] === undefined ? name : `${name}, ${headers['Vary']}`;
}

/** The service as one function for `http.createServer`. */
export function createHandler(options: HandlerOptions): Handler {
  const { settings, logger, metrics, inFlight, pressure, site, isClosing } = options;
  const prefix = randomBytes(6).toString('base64url');
  let count = 0;
  const turn = createTurns();
  const admission = new Admission();
  const pace = createPace();
  const leave = (): void => admission.leave();

  const answerTo = (incoming: IncomingMessage, response: ServerResponse): void => {
    const started = performance.now();
    count += 1;
    metrics.begin();
    inFlight.begin();
    const requestId = `${prefix}-${count.toString(36)}`;
    const { headers, method = '', url = '/', socket } = incoming;
    const [path, query] = splitTarget(url);
    let pattern = NOWHERE;
    const mark = (found: string): void => {
      pattern = found;
    };
    const addressOf = (): string => clientAddress(headers, socket.remoteAddress, settings.trustProxy);
    const requester = new HttpRequester(incoming, response, addressOf, isAdmin(path));
    const request: ApiRequest = {
      method,
      path,
      query,
      headers,
      body: (limit = settings.maxBody) => {
        requester.park();
        const begin = (): void => {
          // A client of HTTP/1.0 would take it for the answer.
          const mayExpect = incoming.httpVersion !== '1.0';
          if (mayExpect && /^100-continue$/i.test(headers.expect ?? '')) response.writeContinue();
        };
        return readBody(incoming, limit, begin, pressure.reserveBody(response, addressOf));
      },
      client: () => ({
        address: addressOf(),
        isSecure: isSecure(headers, socket, settings.trustProxy),
      }),
      requester,
      authenticate: async () => {
        const authentication = site()?.authentication;
        if (!authentication) throw new Unauthorized();
        if (!requester.caller || requester.caller.claim) {
          requester.caller = undefined; // A recalled user who is refused now is not named in the log.
          requester.park();
          requester.caller = await authentication.authenticate(
            headers.authorization,
            addressOf(),
            (callback) => requester.onGone(callback),
          );
        }
        return requester.caller;
      },
      recall: () => (requester.caller = site()?.authentication?.recall(headers.authorization, addressOf())),
      recognize: (recognized) => {
        requester.caller = recognized;
      },
    };
    /** Counts and logs the request. */
    const end = (status: number, bytes: number): void => {
      const milliseconds = performance.now() - started;
      metrics.end(pattern, method, status, milliseconds / 1000);
      if (settings.logLevel !== 'info') return;
      logger.info({
        id: requestId,
        method,
        path: loggedPath(path, query),
        status,
        ms: Math.round(milliseconds * 10) / 10,
        bytes,
        user: requester.caller?.name ?? null,
      });
    };
    const delivery = { unsent: pressure.unsent, client: addressOf };
    const finish = (reply: Reply): void | Promise<void> => {
      const extra: Record<string, string> = { 'X-Content-Type-Options': 'nosniff' };
      if (settings.corsOrigins.length > 0 && !isAdmin(path))
        Object.assign(extra, corsHeaders(method, headers, settings.corsOrigins));
      // The 401 has one form, whatever is accepted.
      if (reply.status !== 401 && isNegotiated(request)) addVary(extra, 'Accept');
      if (headers.authorization !== undefined) {
        addVary(extra, 'Authorization');
        extra['Cache-Control'] = 'no-store';
      }
      if (isClosing()) extra['Connection'] = 'close';
      const log = (bytes: number): void => end(reply.status, bytes);
      const { body } = reply;
      if (typeof body === 'string' || Buffer.isBuffer(body))
        return log(send(incoming, response, reply as Reply & { body: typeof body }, extra, delivery));
      return sendStream(incoming, response, { ...reply, body }, extra, delivery).then(log);
    };
    const answer = async (): Promise<Reply> => {
      assertReadable(incoming);
      if (path === METRICS_PATH && isShown(incoming, settings)) {
        mark(METRICS_PATH);
        return metrics.reply(method);
      }
      const reply = await route(request, options, mark);
      pressure.assertSendable(reply, addressOf);
      return reply;
    };
    const refuse = (error: unknown): Reply =>
      errorReply(error, requestId, logger, (problem, id) => {
        const area = errorArea(request, site());
        return area ? area.problem(problem, id, request) : problemReply(problem, id);
      });
    // One function and few promises: each of them costs every request something.
    const respond = async (before: Promise<boolean> | undefined): Promise<void> => {
      try {
        if (before && !(await before)) throw new ClientGone();
        let reply: Reply;
        try {
          if (!isProbe(path)) {
            pressure.assertRoom(path);
            const admitted = admission.enter(addressOf);
            if (admitted) await admitted;
            requester.enter(leave);
          }
          if (response.closed) throw new ClientGone();
          reply = await answer();
        } catch (error) {
          if (isClientGone(error)) throw error;
          requester.park();
          if (error instanceof Refusal) await pace(socket);
          reply = refuse(error);
        } finally {
          requester.park();
        }
        if (response.closed) throw new ClientGone();
        const streaming = finish(reply);
        if (streaming) await streaming;
      } catch (error) {
        if (isClientGone(error)) return end(CLIENT_GONE, 0);
        metrics.end(pattern, method, 500, (performance.now() - started) / 1000);
        const { message, stack } = error as Error;
        // A stream that was cut off as the database went away is no fault of ours.
        if (asProblem(error)?.status === 503) logger.warn({ id: requestId, message });
        else logger.error({ id: requestId, message, stack });
        response.destroy();
      } finally {
        inFlight.end();
      }
    };
    void respond(turn(socket, response));
  };

  return Object.assign(answerTo, {
    refuseMethod: (target: string): Reply => {
      try {
        throw unknownMethod(splitTarget(target)[0], site());
      } catch (error) {
        return errorReply(error, prefix, logger);
      }
    },
  });
}
