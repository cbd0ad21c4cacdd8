import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import { problemDocument } from '../errors.ts';
import type { Logger } from './logger.ts';
import { LINGER_TIME } from './send.ts';
import { MAX_QUERY_BYTES } from '../query/grammar.ts';
import type { Handler } from './handler.ts';

/** What slow clients get, in milliseconds. */
const HEADERS_TIMEOUT = 10_000;
const REQUEST_TIMEOUT = 30_000;
/** Longer than the minute for which proxies keep their connections, so that they never use one that is closing. */
const KEEP_ALIVE_TIMEOUT = 65_000;
/** The request line and the headers together. */
const MAX_HEADER_BYTES = 32_768;
/** How long a shutdown waits for requests that are being answered. */
const GRACE = 10_000;

export interface RunningServer {
  readonly url: string;
  /** Stops accepting, lets what is in flight finish, and resolves when all connections are closed. */
  readonly close: () => Promise<void>;
}

interface ParseError extends Error {
  readonly code?: string;
  readonly rawPacket?: Buffer;
}

/** The status and sentence for a request that the parser refused. */
function refusal({ code, rawPacket }: ParseError): [number, string] {
  if (code === 'ERR_HTTP_REQUEST_TIMEOUT') return [408, 'The request did not come in time.'];
  if (code !== 'HPE_HEADER_OVERFLOW') return [400, 'This is not an HTTP request.'];
  const firstLine = (rawPacket?.toString('latin1') ?? '').split('\n', 1)[0] ?? '';
  return firstLine.length > MAX_QUERY_BYTES
    ? [414, 'The address is too long.']
    : [431, 'The headers are too large.'];
}

interface Exchange {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
}

type Refuse = (error: ParseError, socket: Socket, latest: Exchange | undefined) => void;

/**
 * Answers what the parser refused, behind the responses that are still under way on the connection.
 * @param onRefused gets the status, for the log
 */
function createRefuse(onRefused: (status: number) => void): Refuse {
  const refused = new WeakSet<Socket>();

  function end(error: ParseError, socket: Socket): void {
    const [status, detail] = refusal(error);
    const body = problemDocument(status, detail);
    const title = (JSON.parse(body) as { title: string }).title;
    const head = [
      `HTTP/1.1 ${status} ${title}`,
      'Content-Type: application/problem+json',
      'X-Content-Type-Options: nosniff',
      `Content-Length: ${Buffer.byteLength(body)}`,
      'Connection: close',
    ];
    refused.add(socket);
    socket.end(`${head.join('\r\n')}\r\n\r\n${body}`);
    // Closing at once would reset the connection of a client that is still sending, and it would lose the answer.
    setTimeout(() => socket.destroy(), LINGER_TIME).unref();
    onRefused(status);
  }

  const refuse: Refuse = (error, socket, latest) => {
    if (refused.has(socket)) return;
    if (error.code === 'ECONNRESET' || !socket.writable) {
      socket.destroy();
    } else if (!latest || latest.response.writableFinished || latest.response.closed) {
      end(error, socket);
    } else if (latest.request.complete) {
      latest.response.once('close', () => refuse(error, socket, undefined));
    } else if (latest.response.headersSent) {
      socket.destroy();
    } else {
      end(error, socket); // it is the body of this very request that is late or garbled
    }
  };
  return refuse;
}

/** A server with the service's limits for slow and garbled clients; what is no request is logged, too. */
export function createHttpServer(handler: Handler, logger?: Logger): Server {
  const refuse = createRefuse((status) =>
    logger?.info({ message: 'not a request that could be read', status }),
  );
  const latest = new WeakMap<Socket, Exchange>();
  const tracked: Handler = (request, response) => {
    latest.set(request.socket, { request, response });
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
  // Without this Node asks for every body at once; the handler asks for it when it wants it.
  server.on('checkContinue', tracked);
  server.on('checkExpectation', tracked);
  server.on('clientError', (error, socket) => refuse(error, socket as Socket, latest.get(socket as Socket)));
  return server;
}

/** @throws the error of listen(), for instance when the port is taken */
export async function listen(server: Server, host: string, port: number): Promise<RunningServer> {
  const sockets = new Set<Socket>();
  server.on('connection', (socket) => {
    sockets.add(socket);
    socket.on('close', () => sockets.delete(socket));
  });
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject);
    server.listen(port, host, () => {
      server.off('error', reject);
      resolve();
    });
  });
  const { port: actual } = server.address() as AddressInfo;
  return {
    url: `http://${host.includes(':') ? `[${host}]` : host}:${actual}`,
    close: () =>
      new Promise((resolve) => {
        const timer = setTimeout(() => server.closeAllConnections(), GRACE);
        server.close(() => {
          clearTimeout(timer);
          resolve();
        });
        server.closeIdleConnections();
        // Node counts a connection on which nothing was ever asked as busy: browsers open such ones in advance.
        for (const socket of sockets) if (socket.bytesRead === 0) socket.destroy();
      }),
  };
}
