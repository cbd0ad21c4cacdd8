// The HTTP server: limits for slow clients, and a shutdown that completes open responses.
import { createServer, type RequestListener, type Server } from 'node:http';
import { Server as NetServer, type ListenOptions, type Socket } from 'node:net';
import { ClosingTurns } from '../load/closing-turns.ts';
import { maxConnections, OpenConnections } from '../load/open-connections.ts';
import { Turns } from '../load/turns.ts';
import type { Logger } from '../observability/logger.ts';
import type { Handler } from './request-handler.ts';
import { SHUTDOWN_TIMEOUT } from '../load/in-flight-requests.ts';
import { MAX_HEADERS, TOO_MANY_HEADERS } from '../message/request-head.ts';
import { problemReply } from '../message/message.ts';
import type { HttpSocket, RequestNetwork } from './connection-reader.ts';
import { hasExceededHeaders, limitHeaders } from './header-limit.ts';
import {
  discardInput,
  isAnswered,
  isInRequestLine,
  latestOf,
  readInTurns,
  resumeInTurns,
  track,
} from './tracked-connections.ts';
import { networkOf } from './parser-turns.ts';
import {
  createRefuse,
  isConnectionLost,
  isInHead,
  isFinalError,
  parseProblem,
  targetOf,
  type ParseError,
} from './unreadable-requests.ts';
import { ignoreUpgrades, keepDraining } from './upgrade-requests.ts';

/** Milliseconds after which slow clients get 408. */
const HEADERS_TIMEOUT = 10_000;
const REQUEST_TIMEOUT = 30_000;
/** Milliseconds. Proxies keep connections for up to a minute: with less, they would use connections that are closing. */
const KEEP_ALIVE_TIMEOUT = 65_000;
/** Maximum bytes of the URL and the headers together. */
const MAX_HEADER_BYTES = 32_768;
/** Milliseconds for which a shutdown keeps idle connections open, since a request may be on its way. */
const IDLE_GRACE = 500;

export interface RunningServer {
  readonly url: string;
  /** Stops accepting connections, completes requests in flight, and resolves when all connections are closed. */
  readonly close: () => Promise<void>;
}

/** Whether the connection has a response that is not completely sent. */
function isBusy(socket: Socket): boolean {
  const latest = latestOf(socket);
  return latest !== undefined && !isAnswered(latest);
}

/** Whether the latest response is complete, but not all of it is sent. */
const isSending = (socket: Socket): boolean =>
  isBusy(socket) && latestOf(socket)?.response.writableEnded === true;

interface HttpServerOptions {
  readonly logger?: Logger;
  /** Receives the status of the response to an unreadable request. */
  readonly onUnreadable?: (status: number) => void;
  /** Default: the network of the connection. */
  readonly networkOfRequest?: RequestNetwork;
  /** Maximum open connections. Default: what fits the memory. */
  readonly connections?: number;
}

/**
 * Creates a server with the service's limits for slow clients and unreadable requests, which it logs.
 */
export function createHttpServer(
  handler: Handler,
  {
    logger,
    onUnreadable,
    networkOfRequest = ({ socket }) => networkOf(socket),
    connections = maxConnections(),
  }: HttpServerOptions = {},
): Server {
  const refuse = createRefuse((status) => {
    onUnreadable?.(status);
    logger?.info({ message: 'unreadable request', status });
  });
  const tracked: RequestListener = (request, response) => {
    track(request, response);
    handler(request, response);
  };
  const server = createServer(
    {
      headersTimeout: HEADERS_TIMEOUT,
      requestTimeout: REQUEST_TIMEOUT,
      keepAliveTimeout: KEEP_ALIVE_TIMEOUT,
      connectionsCheckingInterval: 1_000,
      maxHeaderSize: MAX_HEADER_BYTES,
      requireHostHeader: false, // The handler checks it, so that the error is a problem document.
    },
    tracked,
  );
  server.maxHeadersCount = MAX_HEADERS + 1; // Node drops further headers, and the handler refuses the request.
  // A client may close its half of the connection after its last request, and still read the responses.
  (server as { httpAllowHalfOpen?: boolean }).httpAllowHalfOpen = true;
  // Without these listeners, Node would send 100 Continue at once. The handler sends it when it reads the body.
  server.on('checkContinue', tracked);
  server.on('checkExpectation', tracked);
  const open = new OpenConnections(connections, isBusy);
  const closing = new ClosingTurns();
  server.on('connection', (socket) => {
    if (!open.add(socket)) return;
    closing.add(socket);
    handler.accepted();
  });
  limitHeaders(server);
  readInTurns(server, networkOfRequest);
  // Thousands of requests may be unreadable, late or upgrades at once, or thousands of clients may disconnect.
  const errors = new Turns();
  ignoreUpgrades(server, errors, ({ method }, socket) => {
    discardInput(socket);
    refuse(problemReply(TOO_MANY_HEADERS, ''), socket, undefined, method === 'HEAD');
  });
  const answerError = (error: ParseError, socket: Socket): void => {
    const hasExceeded = hasExceededHeaders(socket);
    if (!hasExceeded && resumeInTurns(error, socket)) return;
    if (isConnectionLost(error)) return void socket.destroy();
    const isRequestLine = isInRequestLine(socket);
    if (!discardInput(socket)) return;
    // Done now, so that the queue does not hold the error's packet.
    const isHead = isInHead(error);
    const target = hasExceeded ? undefined : targetOf(error);
    const problem = hasExceeded ? TOO_MANY_HEADERS : parseProblem(error, isRequestLine);
    errors.take(() => {
      const reply = target === undefined ? problemReply(problem, '') : handler.refuseMethod(target);
      refuse(reply, socket, latestOf(socket), isHead);
    });
  };
  server.on('clientError', (error: ParseError, duplex) => {
    const socket = duplex as Socket;
    if (!isFinalError(error)) return answerError(error, socket);
    // A request that is complete by its turn is answered.
    const before = latestOf(socket);
    const wasComplete = before?.request.complete;
    errors.take(() => {
      const now = latestOf(socket);
      const isCompleted = now?.request.complete && (now !== before || !wasComplete);
      // Without a parser it has become an Upgrade or a CONNECT, which other listeners answer.
      if (!socket.destroyed && (socket as HttpSocket).parser && !isCompleted) answerError(error, socket);
    });
  });
  // After CONNECT, Node no longer handles the connection. Without a listener it would close it without a response.
  server.on('connect', ({ url = '' }, duplex) => {
    const socket = duplex as Socket;
    socket.on('error', () => socket.destroy());
    discardInput(socket);
    keepDraining(socket);
    errors.take(() => refuse(handler.refuseMethod(url), socket, latestOf(socket)));
  });
  return server;
}

/** The URL of a listening server, or a description of its Unix socket. */
function urlOf(server: Server, host: string | undefined): string {
  const address = server.address();
  if (address === null || typeof address === 'string') return `a Unix socket${address ? ` ${address}` : ''}`;
  const name = host ?? address.address;
  return `http://${name.includes(':') ? `[${name}]` : name}:${address.port}`;
}

/**
 * Maximum connections that wait to be accepted. With Node's default of 511, a burst of clients fills the queue. Rejected
 * clients retry only after a second or more. The system may have a lower limit.
 */
const BACKLOG = 4096;

/**
 * @param options those of `server.listen`: a host and a port, or the file descriptor of an open socket
 * @throws the error of `server.listen`, for example if the port is in use
 */
export async function listenWith(
  server: Server,
  options: ListenOptions & { readonly fd?: number },
): Promise<RunningServer> {
  const sockets = new Set<Socket>();
  server.on('connection', (socket) => {
    if (sockets.has(socket)) return; // `ignoreUpgrades` has given it back.
    sockets.add(socket);
    socket.on('close', () => sockets.delete(socket));
  });
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject);
    server.listen(options, () => {
      server.off('error', reject);
      resolve();
    });
  });
  return {
    url: urlOf(server, options.host),
    close: () =>
      new Promise((resolve) => {
        const closeIdle = (): void => {
          const open = [...sockets];
          if (open.some(isBusy)) idleTimer = setTimeout(closeIdle, IDLE_GRACE);
          // Node treats a connection as idle once its response is complete, even if it is not completely sent.
          if (open.some(isSending)) return;
          server.closeIdleConnections();
          // Node treats connections without any request as busy. Browsers open such connections in advance.
          for (const socket of open) if (socket.bytesRead === 0) socket.destroy();
        };
        let idleTimer = setTimeout(closeIdle, IDLE_GRACE);
        // `closeAllConnections` does not know connections after an Upgrade or CONNECT.
        const timeout = setTimeout(() => {
          for (const socket of sockets) socket.destroy();
        }, SHUTDOWN_TIMEOUT);
        // The `close` of an HTTP server would close idle connections at once, while a client may be sending the next request.
        // Kept open for IDLE_GRACE, that request gets a response with `Connection: close`.
        NetServer.prototype.close.call(server, () => {
          clearTimeout(idleTimer);
          clearTimeout(timeout);
          resolve();
        });
      }),
  };
}

/** @throws the error of `server.listen`, for example if the port is in use */
export const listen = (server: Server, host: string, port: number): Promise<RunningServer> =>
  listenWith(server, { host, port, backlog: BACKLOG });
