import { createServer, type RequestListener, type Server } from 'node:http';
import { Server as NetServer, type ListenOptions, type Socket } from 'node:net';
import type { Logger } from '../observability/logger.ts';
import type { Handler } from './request-handler.ts';
import { SHUTDOWN_TIMEOUT } from './in-flight-requests.ts';
import { problemReply } from '../message/message.ts';
import { discardInput, isAnswered, latestOf, limitPipelining, resumePipelined, track } from './pipelining.ts';
import { createRefuse, parseProblem, targetOf, type ParseError } from './unreadable-requests.ts';
import { ignoreUpgrades } from './upgrade-requests.ts';

/** What slow clients get, in milliseconds. */
const HEADERS_TIMEOUT = 10_000;
const REQUEST_TIMEOUT = 30_000;
/** Longer than the minute for which proxies keep their connections, so that they never use one that is closing. */
const KEEP_ALIVE_TIMEOUT = 65_000;
/** The request line and the headers together. */
const MAX_HEADER_BYTES = 32_768;
/** How long connections that are kept alive stay open meanwhile: the next request may be on its way. */
const LAST_CALL = 500;

export interface RunningServer {
  readonly url: string;
  /** Stops accepting, lets what is in flight finish, and resolves when all connections are closed. */
  readonly close: () => Promise<void>;
}

/** Whether an answer is made on the connection, or the client has still to take in a part of it. */
function isBusy(socket: Socket): boolean {
  const exchange = latestOf(socket);
  return exchange !== undefined && !isAnswered(exchange);
}

/** Whether the answer is made, and the client has still to take in a part of it. */
const isSending = (socket: Socket): boolean =>
  isBusy(socket) && latestOf(socket)?.response.writableEnded === true;

/**
 * A server with the service's limits for slow and garbled clients; what is no request is logged, too.
 * @param onUnreadable gets the status with which such a thing was refused
 */
export function createHttpServer(
  handler: Handler,
  logger?: Logger,
  onUnreadable?: (status: number) => void,
): Server {
  const refuse = createRefuse((status) => {
    onUnreadable?.(status);
    logger?.info({ message: 'not a request that could be read', status });
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
      requireHostHeader: false, // the handler says it, in the form of all errors
    },
    tracked,
  );
  server.maxHeadersCount = 0; // MAX_HEADER_BYTES bounds them; past a number of them Node would drop the rest without a word
  // A client that has sent its last request may close its half of the connection, and still wants its answers.
  (server as { httpAllowHalfOpen?: boolean }).httpAllowHalfOpen = true;
  // Without this Node asks for every body at once; the handler asks for it when it wants it.
  server.on('checkContinue', tracked);
  server.on('checkExpectation', tracked);
  limitPipelining(server);
  ignoreUpgrades(server);
  server.on('clientError', (error: ParseError, duplex) => {
    const socket = duplex as Socket;
    if (resumePipelined(error, socket)) return;
    discardInput(socket);
    const target = targetOf(error);
    if (error.code === 'ECONNRESET') socket.destroy();
    else {
      const reply =
        target === undefined ? problemReply(parseProblem(error), '') : handler.refuseMethod(target);
      refuse(reply, socket, latestOf(socket));
    }
  });
  // Node takes its hands off the connection, and closes it where nobody listens.
  server.on('connect', ({ url = '' }, duplex) => {
    const socket = duplex as Socket;
    socket.on('error', () => socket.destroy());
    socket.resume();
    refuse(handler.refuseMethod(url), socket, latestOf(socket));
  });
  return server;
}

/** The address of a server that listens, or what it is where it has none. */
function urlOf(server: Server, host: string | undefined): string {
  const address = server.address();
  if (address === null || typeof address === 'string') return `a Unix socket${address ? ` ${address}` : ''}`;
  const name = host ?? address.address;
  return `http://${name.includes(':') ? `[${name}]` : name}:${address.port}`;
}

/**
 * Connections that the system holds until they are accepted. With Node's 511 a burst of clients finds the queue full, and then
 * each of them waits for a second or more before it tries again. The system may have a lower limit.
 */
const BACKLOG = 4096;

/**
 * @param options as those of Node's server: a host and a port, or a socket that is open already
 * @throws the error of listen(), for instance when the port is taken
 */
export async function listenWith(
  server: Server,
  options: ListenOptions & { readonly fd?: number },
): Promise<RunningServer> {
  const sockets = new Set<Socket>();
  server.on('connection', (socket) => {
    if (sockets.has(socket)) return; // it is back from an upgrade that was ignored
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
          const all = [...sockets];
          if (all.some(isBusy)) lastCall = setTimeout(closeIdle, LAST_CALL);
          // To Node a connection is idle as soon as its answer is complete, though the client has not got all of it.
          if (all.some(isSending)) return;
          server.closeIdleConnections();
          // Node counts a connection on which nothing was ever asked as busy: browsers open such ones in advance.
          for (const socket of all) if (socket.bytesRead === 0) socket.destroy();
        };
        let lastCall = setTimeout(closeIdle, LAST_CALL);
        const grace = setTimeout(() => server.closeAllConnections(), SHUTDOWN_TIMEOUT);
        // An HTTP server would close connections that are idle at this very moment, though a client that asks all the time
        // may just be sending: left open a little longer, they get an answer that says that it was the last one.
        NetServer.prototype.close.call(server, () => {
          clearTimeout(lastCall);
          clearTimeout(grace);
          resolve();
        });
      }),
  };
}

/** @throws the error of listen(), for instance when the port is taken */
export const listen = (server: Server, host: string, port: number): Promise<RunningServer> =>
  listenWith(server, { host, port, backlog: BACKLOG });
