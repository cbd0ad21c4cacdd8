import { createServer, type Server } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import { problemDocument } from '../errors.ts';
import { MAX_QUERY_BYTES } from '../query/grammar.ts';
import type { Handler } from './handler.ts';

/** Contract section 7, "Slow clients": milliseconds. */
const HEADERS_TIMEOUT = 10_000;
const REQUEST_TIMEOUT = 30_000;
/** Longer than the minute for which proxies keep their connections, so that they never use one that is closing. */
const KEEP_ALIVE_TIMEOUT = 65_000;
/** Large enough that a query string of some times its limit is answered by 414 and not by the parser. */
const MAX_HEADER_BYTES = 65_536;
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

/** @param isAnswering whether a response is under way on the connection, into which nothing may be written */
function refuse(error: ParseError, socket: Socket, isAnswering: boolean): void {
  const isLate = error.code === 'ERR_HTTP_REQUEST_TIMEOUT'; // its response has not begun: it waits for the body
  if (error.code === 'ECONNRESET' || !socket.writable || (isAnswering && !isLate)) {
    socket.destroy();
    return;
  }
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
  socket.end(`${head.join('\r\n')}\r\n\r\n${body}`, () => socket.destroy());
}

/** A server with the service's limits for slow and garbled clients. */
export function createHttpServer(handler: Handler): Server {
  const answering = new WeakSet<Socket>();
  const tracked: Handler = (request, response) => {
    const { socket } = request;
    answering.add(socket);
    response.on('close', () => answering.delete(socket));
    handler(request, response);
  };
  const server = createServer(
    {
      headersTimeout: HEADERS_TIMEOUT,
      requestTimeout: REQUEST_TIMEOUT,
      keepAliveTimeout: KEEP_ALIVE_TIMEOUT,
      connectionsCheckingInterval: 1_000,
      maxHeaderSize: MAX_HEADER_BYTES,
    },
    tracked,
  );
  // Without this Node asks for every body at once; the handler asks for it when it wants it.
  server.on('checkContinue', tracked);
  server.on('checkExpectation', tracked);
  server.on('clientError', (error, socket) =>
    refuse(error, socket as Socket, answering.has(socket as Socket)),
  );
  return server;
}

/** @throws the error of listen(), for instance when the port is taken */
export async function listen(server: Server, host: string, port: number): Promise<RunningServer> {
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
      }),
  };
}
