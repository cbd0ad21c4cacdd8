// Handles each request from its arrival to the log line: turns, limits, routing, error handling, response.
import { randomBytes } from 'node:crypto';
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Settings } from '../../config.ts';
import { ClientGone, isClientGone } from '../../db/lanes/requester.ts';
import { asProblem } from '../../db/connection/database-errors.ts';
import { Problem } from '../../errors.ts';
import { compress, isCompressible, withKnownTag } from '../message/compression.ts';
import { Connection } from './connection.ts';
import { errorArea, errorReply, unknownMethod } from './error-replies.ts';
import { Exchange, type ExchangeServices } from './exchange.ts';
import type { InFlight } from '../load/in-flight-requests.ts';
import { loopTurns } from '../load/loop-turns.ts';
import type { Logger } from '../observability/logger.ts';
import { withoutBasePath } from '../message/base-path.ts';
import { assertTagsFit } from '../message/entity-tag.ts';
import { isRead, problemReply, type Reply } from '../message/message.ts';
import { withPosition } from '../message/write-position.ts';
import type { Metrics } from '../observability/metrics.ts';
import { dispatch } from '../api/dispatch.ts';
import { corsHeaders } from '../auth/request-origin.ts';
import type { LoadLimits } from '../load/load-limits.ts';
import type { RateLimit } from '../load/rate-limit.ts';
import { isNegotiated } from '../api/negotiation.ts';
import { joinChunks } from '../message/request-body.ts';
import { send } from './send-response.ts';
import type { Site } from '../api/dispatch.ts';
import {
  assertUnambiguous,
  hasTooManyHeaders,
  loggedPath,
  isHealthCheck,
  TOO_MANY_HEADERS,
  splitTarget,
} from '../message/request-head.ts';
import { messageOf } from '../../messages.ts';

interface HandlerOptions {
  readonly settings: Settings;
  readonly logger: Logger;
  readonly metrics: Metrics;
  readonly inFlight: InFlight;
  readonly loadLimits: LoadLimits;
  /** Undefined without RATE_LIMIT. */
  readonly rateLimit: RateLimit | undefined;
  /** The site; undefined until the database has been read. */
  readonly site: () => Site | undefined;
  readonly isClosing: () => boolean;
}

/** A request listener for Node's HTTP server. */
export interface Handler {
  (request: IncomingMessage, response: ServerResponse): void;
  /** The response to a method that Node's parser rejects, so that the listener is not called. */
  readonly refuseMethod: (target: string) => Reply;
}

/** Status in log and metrics for requests whose client disconnected before the response. */
const CLIENT_GONE = 499;

const UNTRUSTED_PROXY =
  'X-Forwarded-For was received, but TRUST_PROXY is 0: all clients of a proxy share its address, and so their limits. ' +
  'Set TRUST_PROXY to the number of proxies if there are any.';

/** Whether caches may give the response to other clients. */
const isShared = ({ headers }: Reply): boolean => String(headers['Cache-Control']).startsWith('public');

function addVary(headers: Record<string, string>, name: string): void {
  headers['Vary'] = headers['Vary'] === undefined ? name : `${name}, ${headers['Vary']}`;
}

/** Makes the listener for `http.createServer`. */
export function createHandler(options: HandlerOptions): Handler {
  const { settings, logger, metrics, inFlight, loadLimits, rateLimit, site, isClosing } = options;
  const prefix = randomBytes(6).toString('base64url');
  const isAsset = (path: string): boolean => site()?.pages.isAsset(path) === true;
  const authentication = (): Site['authentication'] => site()?.authentication;
  const services: ExchangeServices = { prefix, settings, loadLimits, authentication };
  const { corsOrigins, logLevel } = settings;
  const isLogged = logLevel === 'info' || logLevel === 'debug';
  let count = 0;
  /** One warning is enough, because any client can send the header. */
  let mayWarn = settings.trustProxy === 0;

  /** Adds a finished request to metrics and log. */
  function end(exchange: Exchange, status: number, bytes: number): void {
    const { pattern, method, fullPath, query, started, caller } = exchange;
    const milliseconds = performance.now() - started;
    metrics.end(pattern, method, status, milliseconds / 1000);
    if (!isLogged) return;
    logger.info({
      id: exchange.id,
      method,
      path: loggedPath(fullPath, query),
      status,
      ms: Math.round(milliseconds * 10) / 10,
      bytes,
      user: caller?.name ?? null,
    });
  }

  function compressAndSend(exchange: Exchange, reply: Reply): void | Promise<void> {
    if (reply.status === 304) return sendReply(exchange, withKnownTag(exchange, reply), 'Accept-Encoding');
    if (!isCompressible(exchange, reply))
      return sendReply(exchange, reply, isShared(reply) ? 'Accept-Encoding' : undefined);
    const smaller = compress(exchange, reply);
    if (smaller instanceof Promise)
      return smaller.then((coded) => sendReply(exchange, coded, 'Accept-Encoding'));
    return sendReply(exchange, smaller ?? reply, 'Accept-Encoding');
  }

  /** @param varies a request header that the response depends on */
  function sendReply(exchange: Exchange, reply: Reply, varies?: string): void | Promise<void> {
    const { method, headers } = exchange;
    const extra: Record<string, string> = { 'X-Content-Type-Options': 'nosniff' };
    if (corsOrigins.length > 0 && !exchange.isInAdminArea)
      Object.assign(extra, corsHeaders(method, headers, corsOrigins));
    // The 401 has the same form for every `Accept`.
    if (reply.status !== 401 && isNegotiated(exchange)) addVary(extra, 'Accept');
    if (varies !== undefined) addVary(extra, varies);
    if (headers.authorization !== undefined || isShared(reply)) addVary(extra, 'Authorization');
    if (isShared(reply)) addVary(extra, 'Prefer');
    if (headers.authorization !== undefined) extra['Cache-Control'] = 'no-store';
    if (isClosing()) extra['Connection'] = 'close';
    const sent = send(exchange, reply, extra, loadLimits.unsent);
    if (typeof sent === 'number') return end(exchange, reply.status, sent);
    return sent.then((bytes) => end(exchange, reply.status, bytes));
  }

  function refuse(exchange: Exchange, error: unknown): Reply {
    return errorReply(error, exchange.id, logger, (problem, id) => {
      const area = errorArea(exchange, site());
      return area ? area.problem(problem, id, exchange) : problemReply(problem, id);
    });
  }

  /** @throws Problem 429 for a client over RATE_LIMIT. Health checks and the files of the pages do not count. */
  function assertRate({ key, path, method }: Exchange): void {
    const isUncounted = isRead(method) && (isHealthCheck(path) || isAsset(path));
    const seconds = rateLimit && !isUncounted ? rateLimit.spend(key) : 0;
    if (seconds === 0) return;
    metrics.limited();
    throw new Problem(429, messageOf('tooManyRequests'), {
      headers: { 'Retry-After': String(Math.ceil(seconds)) },
    });
  }

  async function makeReply(exchange: Exchange): Promise<Reply> {
    const { request, method, path, headers } = exchange;
    try {
      if (hasTooManyHeaders(request)) throw TOO_MANY_HEADERS;
      if (!isHealthCheck(path)) loadLimits.assertRoom(isAsset(path));
      const start = loopTurns.start(exchange);
      if (start) await start;
      assertRate(exchange);
      assertTagsFit(headers);
      const turn = exchange.turnForQuery();
      if (turn) await turn;
      assertUnambiguous(request);
      const made = await dispatch(exchange, site()); // Runs synchronously up to the first SQL statement.
      if (isRead(method)) loadLimits.assertSendable(made, exchange);
      return made;
    } catch (error) {
      if (isClientGone(error)) throw error;
      // Thousands of requests may fail at the same moment.
      const turn = loopTurns.start(exchange);
      if (turn) await turn;
      return refuse(exchange, error);
    }
  }

  /** Adds the position of a write to its response. */
  function positioned(exchange: Exchange, made: Reply): Reply | Promise<Reply> {
    const current = site();
    const position = current?.positionAfter(exchange, made.status);
    if (!position) return made;
    return withPosition(exchange, made, position, exchange.isInAdminArea ? current?.admin : undefined);
  }

  /** Not a part of `handle`, which would hold the whole reply in memory while its compressed form is sent. */
  function sendIfConnected(exchange: Exchange, made: Reply): void | Promise<void> {
    if (exchange.response.closed) throw new ClientGone();
    return compressAndSend(exchange, made);
  }

  async function handle(exchange: Exchange): Promise<void> {
    metrics.begin();
    try {
      await makeReply(exchange).then((made) => {
        const complete = positioned(exchange, made);
        const sendComplete = (one: Reply): void | Promise<void> => sendIfConnected(exchange, one);
        return complete instanceof Promise ? complete.then(sendComplete) : sendComplete(complete);
      });
    } catch (error) {
      if (isClientGone(error)) return end(exchange, CLIENT_GONE, 0);
      const { pattern, method, started, id, response } = exchange;
      metrics.end(pattern, method, 500, (performance.now() - started) / 1000);
      const { message, stack } = error as Error;
      // Losing the database during a stream is not an error of the service.
      if (asProblem(error)?.status === 503) logger.warn({ id, message });
      else logger.error({ id, message, stack });
      response.destroy();
    }
  }

  const onRequest = (request: IncomingMessage, response: ServerResponse): void => {
    if (request.socket.destroyed) return; // It was in the same packet as a request that was refused.
    if (mayWarn && request.headers['x-forwarded-for'] !== undefined) {
      mayWarn = false;
      logger.warn({ message: UNTRUSTED_PROXY });
    }
    inFlight.begin();
    const start = (): Promise<void> => handle(new Exchange(request, response, services, ++count));
    const chunks = joinChunks(request);
    const entered = Connection.of(request.socket).enter({ request, response }, loadLimits.budget);
    const ended = entered || chunks ? Promise.all([entered, chunks]).then(start, () => undefined) : start();
    void ended.finally(inFlight.end);
  };

  return Object.assign(onRequest, {
    refuseMethod: (target: string): Reply => {
      try {
        throw unknownMethod(withoutBasePath(splitTarget(target)[0]), site());
      } catch (error) {
        return errorReply(error, prefix, logger);
      }
    },
  });
}
