// Remembers the latest request of each connection. Lets a `ConnectionReader` read some connections instead of Node: those with
// pipelined requests or chunked bodies, those that sent an invalid request, and those of networks that sent too many headers.
import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import {
  ConnectionReader,
  detachParser,
  MAX_BUFFERED,
  type HttpSocket,
  type RequestNetwork,
  type RequestAndResponse,
  startReading,
} from './connection-reader.ts';
import { mustReadInTurns, networkOf } from './parser-turns.ts';
import { LINGER_BYTES } from './send-response.ts';

/** Returned from `onIncoming`, this pauses Node's parser (llhttp) after the headers. */
const HPE_PAUSED = 21;
export const isAnswered = ({ response }: RequestAndResponse): boolean =>
  response.writableFinished || response.closed;

/** The latest request of each connection. */
const latest = new WeakMap<Socket, RequestAndResponse>();
/** The readers of connections that are read in turns. */
const readers = new WeakMap<Socket, ConnectionReader>();

export const latestOf = (socket: Socket): RequestAndResponse | undefined => latest.get(socket);

/** Registers a request. The server must call this first for every request. */
export function track(request: IncomingMessage, response: ServerResponse): void {
  const current = { request, response };
  const { socket } = request;
  latest.set(socket, current);
  response.once('close', () => {
    if (latest.get(socket) === current) latest.delete(socket);
  });
  readers.get(socket)?.begin(current);
}

/**
 * Gives a connection a `ConnectionReader`: at once if its network has sent too many headers lately, else when its client pipelines
 * requests or sends a chunked body. All others keep Node's own reader, which is faster.
 * @param networkOfRequest the network that pays for a request, and in whose turn the connection is read from then on
 */
export function readInTurns(server: Server, networkOfRequest: RequestNetwork): void {
  server.on('connection', (socket: HttpSocket) => {
    const parser = socket.parser;
    const onIncoming = parser?.onIncoming;
    if (!parser || !onIncoming || readers.has(socket)) return;
    const takeOver = (): ConnectionReader => {
      const reader = new ConnectionReader(socket, networkOfRequest);
      readers.set(socket, reader);
      return reader;
    };
    parser.onIncoming = (request, keepsAlive) => {
      const previous = latest.get(socket);
      const result = onIncoming(request, keepsAlive);
      if (result !== 0 || readers.has(socket)) return result;
      const isPipelined = previous !== undefined && !isAnswered(previous);
      const isChunked = request.headers['transfer-encoding'] !== undefined;
      if (!isPipelined && !isChunked) return result;
      const current = latest.get(socket);
      const reader = takeOver();
      if (isPipelined) reader.begin(previous);
      if (current) reader.begin(current);
      return HPE_PAUSED;
    };
    if (mustReadInTurns(networkOf(socket))) takeOver().start(undefined);
  });
}

/** Continues a connection that `readInTurns` has paused. @returns whether the error was that pause */
export function resumeInTurns(
  { code, rawPacket, bytesParsed = 0 }: { code?: string; rawPacket?: Buffer; bytesParsed?: number },
  socket: Socket,
): boolean {
  if (code !== 'HPE_PAUSED') return false;
  readers.get(socket)?.start(rawPacket?.subarray(bytesParsed) ?? Buffer.alloc(0));
  return true;
}

/** Whether a connection that is read in turns is within a request line. */
export const isInRequestLine = (socket: Socket): boolean => readers.get(socket)?.isInRequestLine === true;

/** Detaches the reader from a connection. @returns the bytes that the parser has not received */
export function releaseReader(socket: Socket): Buffer {
  const rest = readers.get(socket)?.stop() ?? Buffer.alloc(0);
  readers.delete(socket);
  return rest;
}

const discarding = new WeakSet<Socket>();

/**
 * Ignores all further input of a connection. Node itself would parse each packet after an invalid one, and report it again. Before
 * the last response, up to 16 KiB are read, so that a disconnect is noticed. After it, up to LINGER_BYTES, so that the client
 * receives the response.
 * @returns whether this is the first time
 */
export function discardInput(socket: Socket): boolean {
  if (discarding.has(socket)) return false;
  discarding.add(socket);
  let discarded = releaseReader(socket).length;
  detachParser(socket);
  socket.on('data', ({ length }: Buffer) => {
    discarded += length;
    if (discarded >= (socket.writableEnded ? LINGER_BYTES : MAX_BUFFERED)) socket.pause();
  });
  startReading(socket);
  return true;
}
