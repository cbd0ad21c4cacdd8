// The HTTP server: Node's limits for clients, and a shutdown that completes open responses.
import { createServer, type RequestListener, type Server } from 'node:http';
import { Server as NetServer, type ListenOptions, type Socket } from 'node:net';
import { maxConnections } from '../load/connection-limit.ts';
import { SHUTDOWN_TIMEOUT } from '../load/in-flight-requests.ts';
import { MAX_HEADERS } from '../message/request-head.ts';
import type { Logger } from '../observability/logger.ts';
import { Connection } from './connection.ts';
import type { Handler } from './request-handler.ts';
import { answerUnreadable } from './unreadable-requests.ts';

/** Milliseconds after which slow clients get 408. */
const HEADERS_TIMEOUT = 10_000;
const REQUEST_TIMEOUT = 30_000;
/** Milliseconds. Proxies keep connections for up to a minute: with less, they would use connections that are closing. */
const KEEP_ALIVE_TIMEOUT = 65_000;
/** Maximum bytes of the URL and the headers together. */
const MAX_HEADER_BYTES = 32_768;
/** Milliseconds between two times that a shutdown closes idle connections: a request may be on its way. */
const IDLE_GRACE = 500;
/** Idle connections that are closed at once for new ones, and milliseconds until the next. Thousands would hold the event loop. */
const MAX_CLOSED = 128;
const CLOSE_INTERVAL = 20;

export interface RunningServer {
  readonly url: string;
  /** Stops accepting connections, completes requests in flight, and resolves when all connections are closed. */
  readonly close: () => Promise<void>;
}

interface HttpServerOptions {
  readonly logger?: Logger;
  /** Receives the status of the response to an unreadable request. */
  readonly onUnreadable?: (status: number) => void;
  /** Maximum open connections. Default: what fits the memory. */
  readonly connections?: number;
}

/** Creates a server with the service's limits for slow clients and unreadable requests, which it logs. */
export function createHttpServer(
  handler: Handler,
  { logger, onUnreadable, connections = maxConnections() }: HttpServerOptions = {},
): Server {
  const tracked: RequestListener = (request, response) => {
    // It was in the same packet as a request that was refused. If it ended only with the connection, Node would make an error with a
    // stack for it.
    if (request.socket.destroyed) return void request.destroy();
    Connection.of(request.socket).track(request, response);
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
  server.maxConnections = connections;
  server.maxHeadersCount = MAX_HEADERS + 1; // Node drops further headers, and the handler refuses the request.
  // Without these listeners, Node would send 100 Continue at once. The handler sends it when it reads the body.
  server.on('checkContinue', tracked);
  server.on('checkExpectation', tracked);
  answerUnreadable(server, handler.refuseMethod, (status) => {
    onUnreadable?.(status);
    logger?.info({ message: 'unreadable request', status });
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
  /** The oldest first. */
  const sockets = new Set<Socket>();
  server.on('connection', (socket) => {
    sockets.add(socket);
    socket.once('close', () => sockets.delete(socket));
  });
  const idle = (): Socket[] => [...sockets].filter((socket) => !Connection.of(socket).latest);
  /** @returns whether other connections have requests that are not answered completely */
  const closeIdle = (): boolean => {
    for (const socket of idle()) socket.destroy();
    return sockets.size > 0;
  };
  let closeDue = 0;
  server.on('drop', () => {
    if (performance.now() < closeDue) return;
    closeDue = performance.now() + CLOSE_INTERVAL;
    const byNetwork = new Map<string, Socket[]>();
    for (const socket of idle()) {
      const { network } = Connection.of(socket);
      const others = byNetwork.get(network);
      if (others) others.push(socket);
      else byNetwork.set(network, [socket]);
    }
    const most = [...byNetwork.values()].toSorted((a, b) => b.length - a.length)[0] ?? [];
    for (const socket of most.slice(0, MAX_CLOSED)) socket.destroy(); // The next clients find a place.
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
        // A process that had no time may find the timer due and requests unread. They are read before `setImmediate` calls.
        const closeIdleAgain = (): void =>
          void setImmediate(() => {
            if (closeIdle()) timer = setTimeout(closeIdleAgain, IDLE_GRACE);
          });
        let timer = setTimeout(closeIdleAgain, IDLE_GRACE);
        const timeout = setTimeout(() => {
          for (const socket of sockets) socket.destroy();
        }, SHUTDOWN_TIMEOUT);
        // The `close` of an HTTP server would close idle connections at once, while a client may be sending the next request.
        // Kept open for IDLE_GRACE, that request gets a response with `Connection: close`.
        NetServer.prototype.close.call(server, () => {
          clearTimeout(timer);
          clearTimeout(timeout);
          resolve();
        });
      }),
  };
}

/** @throws the error of `server.listen`, for example if the port is in use */
export const listen = (server: Server, host: string, port: number): Promise<RunningServer> =>
  listenWith(server, { host, port, backlog: BACKLOG });
