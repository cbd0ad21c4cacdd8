import { randomBytes } from 'node:crypto';
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import type { Settings } from '../config.ts';
import { toProblem } from '../db/sqlstate.ts';
import { Problem, unavailable } from '../errors.ts';
import type { Caller, ServedResources } from '../resources/served.ts';
import type { Api } from './api.ts';
import type { Authentication } from './authentication.ts';
import { readBody } from './body.ts';
import type { Logger } from './logger.ts';
import {
  internalError,
  json,
  problemReply,
  Unauthorized,
  UNAUTHORIZED,
  type ApiRequest,
  type Reply,
} from './message.ts';
import { clientAddress, corsHeaders } from './origin.ts';
import { allowOf, assertAllowed, findRoute } from './routes.ts';
import { send } from './send.ts';

/** What there is once the database has been read. */
export interface Site {
  readonly resources: ServedResources;
  readonly api: Api;
  /** Undefined for a service without users. */
  readonly authentication: Authentication | undefined;
  /** Whether the database answers. */
  readonly isReady: () => Promise<boolean>;
}

export interface HandlerOptions {
  readonly settings: Settings;
  readonly logger: Logger;
  /** The site, or undefined while the service starts and when it ends. */
  readonly site: () => Site | undefined;
  readonly isClosing: () => boolean;
}

export type Handler = (request: IncomingMessage, response: ServerResponse) => void;

/** The path and the query of a request target, which may be in absolute form. */
function splitTarget(target: string): [path: string, query: string] {
  const relative = target.replace(/^https?:\/\/[^/?]*/i, '');
  const mark = relative.indexOf('?');
  return mark < 0 ? [relative, ''] : [relative.slice(0, mark), relative.slice(mark + 1)];
}

/** A path for the log: the names of the query's parameters, not their values. */
function loggedPath(path: string, query: string): string {
  const names = query.split('&').map((part) => part.split('=', 1)[0] ?? '');
  return query === '' ? path : `${path}?${names.join('&').slice(0, 300)}`;
}

async function route(request: ApiRequest, { site }: HandlerOptions): Promise<Reply> {
  const current = site();
  const found = findRoute(request.path, current?.resources);
  if (request.method === 'OPTIONS') return { status: 204, headers: { Allow: allowOf(found) }, body: '' };
  assertAllowed(request.method, found);
  if (found.kind === 'health') return json(200, '{"status":"ok"}');
  if (found.kind === 'ready') {
    if (await current?.isReady()) return json(200, '{"status":"ready"}');
    throw unavailable('The service is not ready.');
  }
  if (!current) throw unavailable('The service is starting.');
  return 'resource' in found ? current.api.answer(request, found) : current.api.index(request);
}

/** Turns whatever was thrown into an answer: the one place that does. */
function errorReply(error: unknown, requestId: string, logger: Logger): Reply {
  if (error instanceof Unauthorized) return UNAUTHORIZED;
  const problem = error instanceof Problem ? error : toProblem(error);
  if (problem) {
    if (problem !== error && problem.status === 503)
      logger.warn({ id: requestId, message: (error as Error).message });
    return problemReply(problem);
  }
  logger.error({
    id: requestId,
    message: (error as Error)?.message ?? String(error),
    stack: (error as Error)?.stack,
  });
  return internalError(requestId);
}

const NO_HOST = new Problem(400, 'The request has no Host.', { headers: { Connection: 'close' } });

/**
 * Requests that a client sends ahead on one connection take turns: a read must see what the write before it has done.
 * @returns a function that gives what to wait for: the response before on the same connection, unless it is done
 */
function createTurns(): (socket: Socket, response: ServerResponse) => Promise<unknown> | undefined {
  const latest = new WeakMap<Socket, ServerResponse>();
  return (socket, response) => {
    const previous = latest.get(socket);
    latest.set(socket, response);
    if (!previous || previous.writableFinished || previous.closed) return undefined;
    return new Promise((resolve) => previous.once('close', resolve));
  };
}

/** The service as one function for `http.createServer`. */
export function createHandler(options: HandlerOptions): Handler {
  const { settings, logger, site, isClosing } = options;
  const prefix = randomBytes(6).toString('base64url');
  let count = 0;
  const turn = createTurns();

  return (incoming, response) => {
    const started = performance.now();
    count += 1;
    const requestId = `${prefix}-${count.toString(36)}`;
    const { headers, method = '', url = '/', socket } = incoming;
    const [path, query] = splitTarget(url);
    let caller: Caller | undefined;
    const request: ApiRequest = {
      method,
      path,
      query,
      headers,
      body: () =>
        readBody(incoming, settings.maxBody, () => {
          if (/^100-continue$/i.test(headers.expect ?? '')) response.writeContinue();
        }),
      authenticate: async () => {
        const authentication = site()?.authentication;
        if (!authentication) throw new Unauthorized();
        const address = clientAddress(headers, socket.remoteAddress, settings.trustProxy);
        caller ??= await authentication.authenticate(headers.authorization, address);
        return caller;
      },
    };
    const finish = (reply: Reply): void => {
      const extra: Record<string, string> = { 'X-Content-Type-Options': 'nosniff' };
      if (settings.corsOrigins.length > 0)
        Object.assign(extra, corsHeaders(method, headers, settings.corsOrigins));
      if (headers.authorization !== undefined) {
        extra['Vary'] = extra['Vary'] ? `Authorization, ${extra['Vary']}` : 'Authorization';
        extra['Cache-Control'] = 'no-store';
      }
      if (isClosing()) extra['Connection'] = 'close';
      const bytes = send(incoming, response, reply, extra);
      if (settings.logLevel !== 'info') return;
      logger.info({
        id: requestId,
        method,
        path: loggedPath(path, query),
        status: reply.status,
        ms: Math.round((performance.now() - started) * 10) / 10,
        bytes,
        user: caller?.name ?? null,
      });
    };
    const answer = async (): Promise<Reply> => {
      if (headers.host === undefined && incoming.httpVersion === '1.1') throw NO_HOST;
      return route(request, options);
    };
    const before = turn(socket, response);
    (before ? before.then(answer) : answer())
      .catch((error: unknown) => errorReply(error, requestId, logger))
      .then(finish)
      .catch((error: unknown) => {
        logger.error({ id: requestId, message: (error as Error).message, stack: (error as Error).stack });
        response.destroy();
      });
  };
}
