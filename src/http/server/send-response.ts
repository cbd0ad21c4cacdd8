import type { IncomingMessage, ServerResponse } from 'node:http';
import { pipeline } from 'node:stream/promises';
import type { HasNetwork, Reply } from '../message/message.ts';
import { PAGE_RATE, STREAM_RATE, type Unsent } from '../load/unsent-responses.ts';

/** How much of a body that nobody wants is read to keep the connection (bytes); past it the connection is closed. */
const DRAIN = 65_536;
/** How long a connection that is being closed still takes in what the client sends (milliseconds, bytes). */
export const LINGER_TIME = 500;
const LINGER_BYTES = 4 * 1024 * 1024;

/**
 * Up to this size (bytes) a body goes out as a string of its bytes: Node writes it together with the head, and a copy of a few
 * kilobytes is cheaper than a second buffer for the system call.
 */
const ONE_WRITE = 32_768;

/** Whether the request has a body that was not read and is too large to be drained. */
function leavesMuchUnread({ complete, headers }: IncomingMessage): boolean {
  if (complete) return false;
  if (headers.expect !== undefined || headers['transfer-encoding'] !== undefined) return true;
  return Number(headers['content-length'] ?? 0) > DRAIN;
}

/**
 * Ends a response whose request is still being sent: closing at once would make the kernel reset the connection, and the
 * client lose the answer that it has not read yet. What comes in meanwhile is thrown away.
 */
function linger(request: IncomingMessage, response: ServerResponse): void {
  let taken = 0;
  const end = (): void => {
    clearTimeout(timer);
    response.end();
  };
  const timer = setTimeout(end, LINGER_TIME);
  request.on('data', (chunk: Buffer) => {
    taken += chunk.length;
    if (taken > LINGER_BYTES) {
      request.pause();
      end();
    }
  });
  request.on('end', end);
  request.on('close', end);
  request.on('error', end);
  request.resume();
}

/** Where answers are counted that a client does not take at once. */
export interface UnsentTracking {
  readonly unsent: Unsent;
  readonly client: HasNetwork;
}

type Headers = Readonly<Record<string, string>>;

/** The headers as names and values in turn: a flat list costs Node less than an object, and this less than making one. */
function flatten(headers: Reply['headers'], extra: Headers): string[] {
  const head: string[] = [];
  for (const name in headers) {
    const value = headers[name] ?? '';
    if (typeof value === 'string') head.push(name, value);
    else for (const one of value) head.push(name, one);
  }
  for (const name in extra) if (!(name in headers)) head.push(name, extra[name] ?? '');
  return head;
}

/** Sends the reply. @returns the bytes of the body */
export function send(
  request: IncomingMessage,
  response: ServerResponse,
  { status, headers, body }: Reply & { readonly body: Buffer | string },
  extra: Headers,
  delivery?: UnsentTracking,
): number {
  const isEmpty = status === 204 || status === 304;
  const length = Buffer.byteLength(body);
  const closes = leavesMuchUnread(request);
  const head = flatten(headers, closes ? { ...extra, Connection: 'close' } : extra);
  if (!isEmpty) head.push('Content-Length', String(length));
  response.writeHead(status, head);
  const isBare = isEmpty || request.method === 'HEAD';
  if (closes) {
    if (!isBare) response.write(body);
    linger(request, response);
  } else if (isBare) response.end();
  else if (typeof body === 'string' || length > ONE_WRITE) response.end(body);
  else response.end(body.toString('latin1'), 'latin1');
  // Mostly the kernel has taken all of it by now.
  if (delivery && response.socket && response.socket.writableLength > 0)
    delivery.unsent.watch(response, PAGE_RATE, delivery.client, length);
  return isBare ? 0 : length;
}

/**
 * Sends a reply whose body comes in chunks, no faster than the client takes them. When the chunks fail the connection is cut,
 * so that nobody takes a part for the whole; when the client goes away the chunks are given up.
 * @returns the bytes of the body
 */
export async function sendStream(
  request: IncomingMessage,
  response: ServerResponse,
  { status, headers, body }: Reply & { readonly body: AsyncIterable<Buffer | string> },
  extra: Headers,
  delivery?: UnsentTracking,
): Promise<number> {
  delivery?.unsent.watch(response, STREAM_RATE, delivery.client, 0);
  // Node leaves the header out of an answer without a body.
  const isChunked = request.method === 'HEAD' && request.httpVersion !== '1.0';
  response.writeHead(
    status,
    flatten(headers, isChunked ? { ...extra, 'Transfer-Encoding': 'chunked' } : extra),
  );
  let bytes = 0;
  const count = async function* (): AsyncGenerator<Buffer | string> {
    for await (const chunk of body) {
      bytes += Buffer.byteLength(chunk);
      yield chunk;
    }
  };
  try {
    if (request.method === 'HEAD') response.end();
    else await pipeline(count(), response);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ERR_STREAM_PREMATURE_CLOSE') throw error;
  } finally {
    // Chunks that nobody has asked for are not given up by the pipeline.
    await body[Symbol.asyncIterator]().return?.();
  }
  return bytes;
}
