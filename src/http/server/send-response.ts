// Writes a reply to the connection, whole or as a stream.
import type { IncomingMessage, ServerResponse } from 'node:http';
import { pipeline } from 'node:stream/promises';
import { Turns } from '../load/turns.ts';
import {
  lengthOf,
  LONG_BODY,
  type HasNetwork,
  type Reply,
  type StreamedReply,
  type WholeBody,
  type WholeReply,
} from '../message/message.ts';
import { piecesOf } from '../message/body-pieces.ts';
import { PAGE_RATE, STREAM_RATE, type Unsent } from '../load/unsent-responses.ts';

/** Maximum number of unread body bytes to drain before closing the connection instead. */
const MAX_DRAIN = 65_536;
/** Maximum milliseconds and bytes for which a closing connection still reads what the client sends. */
export const LINGER_TIME = 500;
export const LINGER_BYTES = 4 * 1024 * 1024;

/**
 * Bodies up to this size (bytes) are sent as strings, because Node writes a string together with the head. Copying some
 * kilobytes is cheaper than passing a second buffer to the system call.
 */
const MAX_SINGLE_WRITE = 32_768;

/** Whether the request has an unread body that is too large to drain. */
function leavesMuchUnread({ complete, headers }: IncomingMessage): boolean {
  if (complete) return false;
  if (headers.expect !== undefined || headers['transfer-encoding'] !== undefined) return true;
  return Number(headers['content-length'] ?? 0) > MAX_DRAIN;
}

/** Reads and discards what the client still sends. It may begin to read the response only when it has sent everything. */
function discardBody(request: IncomingMessage, onExcess: () => void = () => undefined): void {
  let discarded = 0;
  request.on('data', (chunk: Buffer) => {
    discarded += chunk.length;
    if (discarded <= LINGER_BYTES) return;
    request.pause();
    onExcess();
  });
  request.resume();
}

/**
 * Ends a response while the client still sends its request. Closing at once would reset the connection, and the client would
 * lose the response. So this reads and discards the client's data for a while.
 */
function linger(request: IncomingMessage, response: ServerResponse): void {
  const end = (): void => {
    clearTimeout(timer);
    response.end();
  };
  const timer = setTimeout(end, LINGER_TIME);
  request.on('end', end);
  request.on('close', end);
  request.on('error', end);
  discardBody(request, end);
}

/** Where to count responses that a client does not read at once. */
export interface UnsentTracking {
  readonly unsent: Unsent;
  readonly client: HasNetwork;
}

type Headers = Readonly<Record<string, string>>;

/** The headers as a flat list of names and values, which Node processes faster than an object. */
function flatten(headers: Reply['headers'], extra: Headers): string[] {
  const head: string[] = [];
  for (const name in headers) {
    const value = headers[name] ?? '';
    if (typeof value === 'string') head.push(name, value);
    else for (const item of value) head.push(name, item);
  }
  for (const name in extra) if (!(name in headers)) head.push(name, extra[name] ?? '');
  return head;
}

/** Sends the head of a reply. @returns whether the connection must then be closed, because the client still sends its request */
function sendHead(
  request: IncomingMessage,
  response: ServerResponse,
  { status, headers }: Pick<Reply, 'status' | 'headers'>,
  extra: Headers,
  length: number | undefined,
): boolean {
  const closes = leavesMuchUnread(request);
  const head = flatten(headers, closes ? { ...extra, Connection: 'close' } : extra);
  if (length !== undefined) head.push('Content-Length', String(length));
  response.writeHead(status, head);
  return closes;
}

/**
 * Sends a reply that does not need pieces. A body that is a list of parts is long, so it comes here only for HEAD.
 * @returns the number of body bytes
 */
export function send(
  request: IncomingMessage,
  response: ServerResponse,
  reply: WholeReply,
  extra: Headers,
  tracking?: UnsentTracking,
): number {
  const { status, body, isKept = false } = reply;
  const isEmpty = status === 204 || status === 304;
  const length = byteLength(body);
  const closes = sendHead(request, response, reply, extra, isEmpty ? undefined : length);
  const hasNoBody = isEmpty || request.method === 'HEAD';
  if (closes) {
    // Node would send a head without a body only at the end. By then, a malformed request may have closed the connection.
    if (hasNoBody) response.flushHeaders();
    else response.write(body);
    linger(request, response);
  } else if (hasNoBody) response.end();
  else if (typeof body === 'string' || isKept || length > MAX_SINGLE_WRITE) response.end(body);
  else response.end(body.toString('latin1'), 'latin1');
  // Usually the kernel has accepted the whole response by now.
  if (tracking && response.socket && response.socket.writableLength > 0)
    tracking.unsent.watch(response, PAGE_RATE, tracking.client, isKept ? 0 : length);
  return hasNoBody ? 0 : length;
}

const byteLength = (body: WholeBody): number =>
  typeof body === 'string' ? Buffer.byteLength(body) : lengthOf(body);

/** Whether a reply must be sent in pieces: encoding and writing many megabytes would block the event loop. */
export const needsPieces = ({ body }: WholeReply, method: string): boolean =>
  lengthOf(body) > LONG_BODY && method !== 'HEAD';

/** All long bodies that are being sent take turns. */
const pieces = new Turns();

/** Resolves when the client has read what was written, or has disconnected. */
function drained(response: ServerResponse): Promise<void> {
  const { socket } = response;
  return new Promise((resolve) => {
    const end = (): void => {
      response.off('drain', end);
      response.off('close', end);
      socket?.off('close', end);
      resolve();
    };
    response.on('drain', end);
    response.on('close', end);
    // After an Upgrade or CONNECT, Node does not close the response with the connection.
    socket?.on('close', end);
  });
}

/**
 * Sends a long body, no faster than the client reads, with a turn of the event loop for each piece.
 * @returns the number of body bytes
 */
export async function sendInPieces(
  request: IncomingMessage,
  response: ServerResponse,
  reply: WholeReply,
  extra: Headers,
  { unsent, client }: UnsentTracking,
): Promise<number> {
  const { body, isKept = false } = reply;
  const length = byteLength(body);
  const closes = sendHead(request, response, reply, extra, length);
  unsent.watch(response, PAGE_RATE, client, isKept ? 0 : length);
  if (closes) discardBody(request);
  for (const piece of piecesOf(body)) {
    if (response.closed || response.socket?.destroyed !== false) break;
    if (!response.write(piece)) await drained(response);
    // A client that reads fast has drained it already in this iteration.
    await pieces.next();
  }
  if (closes && !response.closed && !request.readableEnded) linger(request, response);
  else response.end();
  return length;
}

/**
 * Streams a reply, no faster than the client reads. If the source fails, the connection is closed. The missing
 * final chunk then shows that the body is incomplete. If the client disconnects, the source is ended.
 * @returns the number of body bytes
 * @throws the error of the source
 */
export async function sendStream(
  request: IncomingMessage,
  response: ServerResponse,
  { status, headers, body }: StreamedReply,
  extra: Headers,
  tracking?: UnsentTracking,
): Promise<number> {
  tracking?.unsent.watch(response, STREAM_RATE, tracking.client, 0);
  // Node omits `Transfer-Encoding` from a response without a body.
  const isChunked = request.method === 'HEAD' && request.httpVersion !== '1.0';
  const begin = (): void => {
    if (response.headersSent) return;
    response.writeHead(
      status,
      flatten(headers, isChunked ? { ...extra, 'Transfer-Encoding': 'chunked' } : extra),
    );
  };
  let bytes = 0;
  const count = async function* (): AsyncGenerator<Buffer | string> {
    for await (const chunk of body) {
      // Not earlier: until then a half-closed connection is probed.
      begin();
      bytes += Buffer.byteLength(chunk);
      yield chunk;
    }
    begin();
  };
  try {
    if (request.method === 'HEAD') {
      begin();
      response.end();
    } else await pipeline(count(), response);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ERR_STREAM_PREMATURE_CLOSE') throw error;
  } finally {
    // The pipeline does not end a source from which it has not read.
    await body[Symbol.asyncIterator]().return?.();
  }
  return bytes;
}
