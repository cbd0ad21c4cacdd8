// Writes a reply to the connection: whole, in pieces, or as a stream.
import type { IncomingMessage, ServerResponse } from 'node:http';
import { pipeline } from 'node:stream/promises';
import type { Requester } from '../../db/lanes/requester.ts';
import { loopTurns } from '../load/loop-turns.ts';
import type { Unsent } from '../load/unsent-responses.ts';
import { piecesOf } from '../message/body-pieces.ts';
import {
  isStreamed,
  lengthOf,
  LONG_BODY,
  type HasNetwork,
  type Reply,
  type StreamedReply,
  type WholeBody,
  type WholeReply,
} from '../message/message.ts';

/** Maximum number of unread body bytes to drain before closing the connection instead. */
const MAX_DRAIN = 65_536;
/** Maximum milliseconds and bytes for which a closing connection still reads what the client sends. */
export const LINGER_TIME = 500;
const LINGER_BYTES = 4 * 1024 * 1024;
/** A shorter chunk counts as so many bytes, because it takes as long to read. */
const LINGER_CHUNK = 1_024;

/**
 * Bodies up to this size (bytes) are sent as strings, because Node writes a string together with the head. Copying some
 * kilobytes is cheaper than passing a second buffer to the system call.
 */
const MAX_SINGLE_WRITE = 32_768;

/** The request that a reply answers. */
interface Recipient extends Requester, HasNetwork {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  readonly method: string;
}

type Headers = Readonly<Record<string, string>>;

/** Whether the request has an unread body that is too large to drain. */
function leavesMuchUnread({ complete, headers }: IncomingMessage): boolean {
  if (complete) return false;
  if (headers.expect !== undefined || headers['transfer-encoding'] !== undefined) return true;
  return Number(headers['content-length'] ?? 0) > MAX_DRAIN;
}

/** Reads and discards what the client still sends. It may begin to read the response only when it has sent everything. */
function discardBody(request: IncomingMessage, onExcess = (): void => undefined): void {
  let discarded = 0;
  request.on('data', ({ length }: Buffer) => {
    discarded += Math.max(length, LINGER_CHUNK);
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
function linger({ request, response }: Recipient): void {
  const end = (): void => {
    clearTimeout(timer);
    response.end();
  };
  const timer = setTimeout(end, LINGER_TIME);
  for (const event of ['end', 'close', 'error']) request.on(event, end);
  discardBody(request, end);
}

/**
 * Sends the head, as a flat list of names and values, which Node processes faster than an object.
 * @param own further headers, in the same form
 */
function sendHead(response: ServerResponse, { status, headers }: Reply, extra: Headers, own: string[]): void {
  const head: string[] = [];
  for (const name in headers) {
    const value = headers[name] ?? '';
    if (typeof value === 'string') head.push(name, value);
    else for (const item of value) head.push(name, item);
  }
  for (const name in extra) if (!(name in headers) && !own.includes(name)) head.push(name, extra[name] ?? '');
  response.writeHead(status, [...head, ...own]);
}

/** Sends the head of a whole reply. @returns whether the connection must then be closed, because the client still sends its request */
function beginWhole(to: Recipient, reply: WholeReply, extra: Headers, length: number): boolean {
  const closes = leavesMuchUnread(to.request);
  const own = reply.status === 204 || reply.status === 304 ? [] : ['Content-Length', `${length}`];
  if (closes && !('Connection' in reply.headers)) own.push('Connection', 'close');
  sendHead(to.response, reply, extra, own);
  return closes;
}

const byteLength = (body: WholeBody): number =>
  typeof body === 'string' ? Buffer.byteLength(body) : lengthOf(body);

/** Sends a reply that does not need pieces. A body that is a list of parts is long, so it comes here only for HEAD. */
function sendWhole(to: Recipient, reply: WholeReply, extra: Headers, unsent: Unsent): number {
  const { response, method } = to;
  const { status, body, isKept = false } = reply;
  const length = byteLength(body);
  const closes = beginWhole(to, reply, extra, length);
  const hasNoBody = status === 204 || status === 304 || method === 'HEAD';
  if (closes) {
    // Node would send a head without a body only at the end. By then, a malformed request may have closed the connection.
    if (hasNoBody) response.flushHeaders();
    else response.write(body);
    linger(to);
  } else if (hasNoBody) response.end();
  else if (typeof body === 'string' || isKept || length > MAX_SINGLE_WRITE) response.end(body);
  else response.end(body.toString('latin1'), 'latin1');
  // Usually the kernel has accepted the whole response by now.
  if (response.socket && response.socket.writableLength > 0) unsent.watch(response, to, isKept ? 0 : length);
  return hasNoBody ? 0 : length;
}

/** Resolves when the client has read what was written, or has disconnected. */
function drained(response: ServerResponse): Promise<void> {
  return new Promise((resolve) => {
    const end = (): void => {
      response.off('drain', end);
      response.off('close', end);
      resolve();
    };
    response.on('drain', end);
    response.on('close', end);
  });
}

/** Sends a long body, no faster than the client reads, with a turn of the event loop for each piece. */
async function sendInPieces(
  to: Recipient,
  reply: WholeReply,
  extra: Headers,
  unsent: Unsent,
): Promise<number> {
  const { request, response } = to;
  const { body, isKept = false } = reply;
  const length = byteLength(body);
  const closes = beginWhole(to, reply, extra, length);
  unsent.watch(response, to, isKept ? 0 : length);
  if (closes) discardBody(request);
  for (const piece of piecesOf(body)) {
    if (response.closed) break;
    if (!response.write(piece)) await drained(response);
    await loopTurns.yield(to); // also for a client that reads fast
  }
  if (closes && !response.closed && !request.readableEnded) linger(to);
  else response.end();
  return length;
}

/**
 * Streams a reply, no faster than the client reads. If the source fails, the connection is closed. The missing
 * final chunk then shows that the body is incomplete. If the client disconnects, the source is ended.
 * @throws the error of the source
 */
async function sendStream(
  to: Recipient,
  reply: StreamedReply,
  extra: Headers,
  unsent: Unsent,
): Promise<number> {
  const { request, response, method } = to;
  const { body } = reply;
  unsent.watch(response, to, 0);
  // Node omits `Transfer-Encoding` from a response without a body.
  const isChunked = method === 'HEAD' && request.httpVersion !== '1.0';
  sendHead(response, reply, extra, isChunked ? ['Transfer-Encoding', 'chunked'] : []);
  let bytes = 0;
  const count = async function* (): AsyncGenerator<Buffer | string> {
    for await (const chunk of body) {
      bytes += Buffer.byteLength(chunk);
      yield chunk;
    }
  };
  try {
    if (method === 'HEAD') response.end();
    else await pipeline(count(), response);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ERR_STREAM_PREMATURE_CLOSE') throw error;
  } finally {
    // The pipeline does not end a source from which it has not read.
    await body[Symbol.asyncIterator]().return?.();
  }
  return bytes;
}

/** Sends a reply. @returns the number of body bytes; a promise unless all of it was written at once */
export function send(to: Recipient, reply: Reply, extra: Headers, unsent: Unsent): number | Promise<number> {
  if (isStreamed(reply)) return sendStream(to, reply, extra, unsent);
  const isLong = lengthOf(reply.body) > LONG_BODY && to.method !== 'HEAD'; // it would block the event loop
  return isLong ? sendInPieces(to, reply, extra, unsent) : sendWhole(to, reply, extra, unsent);
}
