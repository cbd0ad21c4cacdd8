// Handles each request from its arrival to the log line: admission, routing, error handling, response.
import { randomBytes } from 'node:crypto';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { setImmediate as nextIteration } from 'node:timers/promises';
import type { Settings } from '../../config.ts';
import { ClientGone, isClientGone } from '../../db/scheduling/requester.ts';
import { asProblem } from '../../db/connection/database-errors.ts';
import { Refusal } from '../../errors.ts';
import { Admission, MIN_PACED } from '../load/admission.ts';
import { Arrivals } from '../load/arrivals.ts';
import { Turns } from '../load/turns.ts';
import { compress, isCompressible, withKnownTag } from './compression.ts';
import { errorArea, errorReply, mustPace, unknownMethod } from './error-replies.ts';
import { Exchange, type ExchangeServices } from './exchange.ts';
import type { InFlight } from '../load/in-flight-requests.ts';
import type { Logger } from '../observability/logger.ts';
import { withoutBasePath } from '../message/base-path.ts';
import { assertTagsFit } from '../message/entity-tag.ts';
import { isRead, isStreamed, problemReply, type Reply } from '../message/message.ts';
import { withPosition } from '../message/write-position.ts';
import type { Metrics } from '../observability/metrics.ts';
import { corsHeaders } from '../auth/request-origin.ts';
import type { LoadLimits } from '../load/load-limits.ts';
import type { RateLimit } from '../load/rate-limit.ts';
import { isNegotiated } from '../api/negotiation.ts';
import { dispatch } from './dispatch.ts';
import { assertRate } from './rate-check.ts';
import { needsPieces, send, sendInPieces, sendStream } from './send-response.ts';
import type { Site } from '../api/site.ts';
import {
  assertUnambiguous,
  hasTooManyHeaders,
  loggedPath,
  isHealthCheck,
  TOO_MANY_HEADERS,
  splitTarget,
} from '../message/request-head.ts';

/** Health checks skip the admission. They take turns among themselves. */
const healthChecks = new Turns();

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
  /** Must be called for each new connection. */
  readonly accepted: () => void;
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

/** Resolves after a whole iteration of the event loop: Node reads the end of a connection in the one after its last request. */
async function wholeIteration(): Promise<void> {
  await nextIteration();
  await nextIteration();
}

/** Makes the listener for `http.createServer`. */
export function createHandler(options: HandlerOptions): Handler {
  const { settings, logger, metrics, inFlight, loadLimits, site, isClosing } = options;
  const prefix = randomBytes(6).toString('base64url');
  const arrivals = new Arrivals();
  const admission = new Admission(arrivals, loadLimits.processes);
  const authentication = (): Site['authentication'] => site()?.authentication;
  const services: ExchangeServices = { prefix, settings, loadLimits, admission, authentication };
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
    const { incoming, response, method, headers } = exchange;
    const extra: Record<string, string> = { 'X-Content-Type-Options': 'nosniff' };
    if (corsOrigins.length > 0 && !exchange.isInAdminArea)
      Object.assign(extra, corsHeaders(method, headers, corsOrigins));
    // The 401 has the same form for every `Accept`.
    if (reply.status !== 401 && isNegotiated(exchange)) addVary(extra, 'Accept');
    if (varies !== undefined) addVary(extra, varies);
    if (headers.authorization !== undefined || isShared(reply)) addVary(extra, 'Authorization');
    if (isShared(reply)) addVary(extra, 'Prefer');
    if (headers.authorization !== undefined) {
      extra['Cache-Control'] = 'no-store';
    }
    if (isClosing()) extra['Connection'] = 'close';
    const tracking = { unsent: loadLimits.unsent, client: exchange };
    if (!isStreamed(reply) && !needsPieces(reply, method))
      return end(exchange, reply.status, send(incoming, response, reply, extra, tracking));
    const sent = isStreamed(reply)
      ? sendStream(incoming, response, reply, extra, tracking)
      : sendInPieces(incoming, response, reply, extra, tracking);
    return sent.then((bytes) => end(exchange, reply.status, bytes));
  }

  function answer(exchange: Exchange): Reply | Promise<Reply> {
    assertUnambiguous(exchange.incoming);
    return dispatch(exchange, site());
  }

  function refuse(exchange: Exchange, error: unknown): Reply {
    return errorReply(error, exchange.id, logger, (problem, id) => {
      const area = errorArea(exchange, site());
      return area ? area.problem(problem, id, exchange) : problemReply(problem, id);
    });
  }

  /**
   * Admits a request.
   * @returns undefined if it may start at once, else a promise that resolves when it may
   * @throws Refusal if too many requests wait; ClientGone
   */
  function enter(exchange: Exchange): Promise<void> | undefined {
    const waiting = arrivals.afterBurst();
    return waiting ? waiting.then(() => checkAndAdmit(exchange)) : checkAndAdmit(exchange);
  }

  /** Health checks skip admission, but wait for arrivals: otherwise a stream of them on new connections would delay all others. */
  const enterHealthCheck = (): Promise<void> =>
    arrivals.afterBurst()?.then(() => healthChecks.next()) ?? healthChecks.next();

  function checkAndAdmit(exchange: Exchange): Promise<void> | undefined {
    const now = performance.now();
    const check = arrivals.isBurst(now)
      ? wholeIteration().then(() => exchange.checkStillReads())
      : admission.isBusy(now)
        ? exchange.checkStillReads()
        : undefined;
    return check ? check.then(() => admit(exchange)) : admit(exchange);
  }

  function admit(exchange: Exchange): Promise<void> | undefined {
    if (exchange.response.closed) throw new ClientGone();
    loadLimits.assertRoom(site()?.pages.isAsset(exchange.path) === true);
    return exchange.activity.enter();
  }

  /** Does work of a request, and charges the client for its synchronous part. */
  function charged<T>(exchange: Exchange, work: () => T): T {
    const startedAt = performance.now();
    try {
      return work();
    } finally {
      const took = performance.now() - startedAt;
      if (took >= MIN_PACED) exchange.pacesErrors = true;
      admission.chargeWork(exchange.activity, took);
    }
  }

  async function makeReply(exchange: Exchange): Promise<Reply> {
    try {
      if (hasTooManyHeaders(exchange.incoming)) throw TOO_MANY_HEADERS;
      const entering = isHealthCheck(exchange.path) ? enterHealthCheck() : enter(exchange);
      if (entering) await entering;
      if (exchange.response.closed) throw new ClientGone();
      assertRate(exchange, options); // after the admission, where clients take turns
      assertTagsFit(exchange.headers);
      const mustBeSendable = isRead(exchange.method);
      if (!mustBeSendable) loadLimits.assertWritable(exchange);
      const turn = exchange.turnForQuery();
      if (turn) await turn;
      const made = await charged(exchange, () => answer(exchange)); // Runs synchronously up to the first SQL statement.
      if (mustBeSendable) loadLimits.assertSendable(made, exchange);
      return made;
    } catch (error) {
      if (isClientGone(error)) throw error;
      exchange.pause();
      // Thousands of requests may be refused in one iteration of the event loop.
      if (error instanceof Refusal) {
        await admission.refusals.next();
        if (exchange.response.closed) throw new ClientGone();
      }
      if (mustPace(error, exchange.pacesErrors)) await exchange.peer.pace();
      return charged(exchange, () => refuse(exchange, error));
    } finally {
      exchange.pause();
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
    return charged(exchange, () => compressAndSend(exchange, made));
  }

  async function handle(exchange: Exchange): Promise<void> {
    const { response } = exchange;
    try {
      const waiting = exchange.peer.waitForPrevious(response);
      if (waiting && !(await waiting)) throw new ClientGone();
      await makeReply(exchange).then((made) => {
        const complete = positioned(exchange, made);
        const sendComplete = (one: Reply): void | Promise<void> => sendIfConnected(exchange, one);
        return complete instanceof Promise ? complete.then(sendComplete) : sendComplete(complete);
      });
    } catch (error) {
      if (isClientGone(error)) {
        if (exchange.activity.hasStarted) admission.abandon(exchange);
        return end(exchange, CLIENT_GONE, 0);
      }
      const { pattern, method, started, id } = exchange;
      metrics.end(pattern, method, 500, (performance.now() - started) / 1000);
      const { message, stack } = error as Error;
      // Losing the database during a stream is not an error of the service.
      if (asProblem(error)?.status === 503) logger.warn({ id, message });
      else logger.error({ id, message, stack });
      response.destroy();
    } finally {
      exchange.close();
      inFlight.end();
    }
  }

  const onRequest = (incoming: IncomingMessage, response: ServerResponse): void => {
    metrics.begin();
    inFlight.begin();
    count += 1;
    if (mayWarn && incoming.headers['x-forwarded-for'] !== undefined) {
      mayWarn = false;
      logger.warn({ message: UNTRUSTED_PROXY });
    }
    void handle(new Exchange(incoming, response, services, count));
  };

  return Object.assign(onRequest, {
    accepted: () => arrivals.accepted(),
    refuseMethod: (target: string): Reply => {
      try {
        throw unknownMethod(withoutBasePath(splitTarget(target)[0]), site());
      } catch (error) {
        return errorReply(error, prefix, logger);
      }
    },
  });
}
