// Answers what Node's parser rejects: malformed requests, unknown methods, headers that are too large or too late.
import { STATUS_CODES } from 'node:http';
import type { Socket } from 'node:net';
import { Problem } from '../../errors.ts';
import { MAX_QUERY_BYTES } from '../../query/parse/grammar.ts';
import type { Reply } from '../message/message.ts';
import type { RequestAndResponse } from './connection-reader.ts';
import { isAnswered } from './tracked-connections.ts';
import { LINGER_TIME } from './send-response.ts';

/** The error of a `clientError` event. */
export interface ParseError extends Error {
  readonly code?: string;
  readonly rawPacket?: Buffer;
  /** Offset in the packet at which the parser stopped. */
  readonly bytesParsed?: number;
}

const LATE = 'ERR_HTTP_REQUEST_TIMEOUT';
/** Errors that Node reports only once for a connection. A late request may still arrive. */
const FINAL_ERRORS = [LATE, 'ECONNRESET', 'HPE_INVALID_EOF_STATE'];

/** Whether no further error follows, so that the response may wait for its turn. */
export const isFinalError = ({ code = '' }: ParseError): boolean => FINAL_ERRORS.includes(code);

/** Whether the connection itself has failed, so that no response can be read. */
export const isConnectionLost = ({ code = '' }: ParseError): boolean =>
  ['ECONNRESET', 'ECONNABORTED', 'EPIPE', 'ETIMEDOUT'].includes(code);

/** The rest of a request line, starting inside its method. */
const REQUEST_LINE = /^[\w!#$%&'*+.^`|~-]* (\S+) HTTP\/1\.[01]\r?\n/;

/** Whether the latest packet shows that the parser stopped in a HEAD request. Its response must not have content. */
export function isInHead({ rawPacket, bytesParsed = 0 }: ParseError): boolean {
  const text = rawPacket?.toString('latin1', 0, bytesParsed) ?? '';
  return /^[\r\n]*HEAD /.test(text.slice(text.lastIndexOf('\r\n\r\n') + 1));
}

/** The target of a request that the parser rejected only because of its method. */
export function targetOf({ code, rawPacket, bytesParsed = 0 }: ParseError): string | undefined {
  const text = rawPacket?.toString('latin1') ?? '';
  let start = bytesParsed;
  // The parser knows the methods of RTSP, so for these it stops only after the target.
  if (code === 'HPE_INVALID_CONSTANT') start = text.lastIndexOf(' ', text.lastIndexOf(' ', start) - 1);
  else if (code !== 'HPE_INVALID_METHOD') return undefined;
  return REQUEST_LINE.exec(text.slice(start))?.[1];
}

/**
 * The problem for any other request that the parser rejected.
 * @param isRequestLine whether it certainly stopped in the request line
 */
export function parseProblem({ code, rawPacket }: ParseError, isRequestLine: boolean): Problem {
  if (code === LATE) return new Problem(408, 'The request did not arrive in time.');
  if (code !== 'HPE_HEADER_OVERFLOW') return new Problem(400, 'The request is not valid HTTP.');
  // This is only the latest packet. Its first line may be a part of the URL, or a header, which has a colon.
  const firstLine = (rawPacket?.toString('latin1') ?? '').split('\n', 1)[0] ?? '';
  return isRequestLine || (firstLine.length > MAX_QUERY_BYTES && !/^[\w-]+:/.test(firstLine))
    ? new Problem(414, 'The URL is too long.')
    : new Problem(431, 'The URL and headers must be smaller than 32 KiB in total.');
}

/**
 * @param latest the latest request that the parser accepted on the connection
 * @param isHead whether the refused request, which comes after it, is a HEAD
 */
type Refuse = (
  reply: Reply,
  socket: Socket,
  latest: RequestAndResponse | undefined,
  isHead?: boolean,
) => void;

/**
 * Makes a function that sends a last reply on a connection and closes it. It waits for responses that are still in progress.
 * @param onRefused receives the status, for the log
 */
export function createRefuse(onRefused: (status: number) => void): Refuse {
  const refused = new WeakSet<Socket>();

  function end({ status, headers, body }: Reply, socket: Socket, isHead: boolean): void {
    const content = isHead ? '' : (body as string);
    const allHeaders: Reply['headers'] = {
      // The request may contain credentials that the parser did not reach.
      Vary: 'Authorization',
      'Cache-Control': 'no-store',
      ...headers,
      'X-Content-Type-Options': 'nosniff',
      ...(!isHead && { 'Content-Length': String(Buffer.byteLength(content)) }),
      Connection: 'close',
    };
    const lines = Object.entries(allHeaders).map(([name, value]) => `${name}: ${String(value)}\r\n`);
    refused.add(socket);
    socket.resume(); // It may be paused, see `discardInput`.
    socket.end(`HTTP/1.1 ${status} ${STATUS_CODES[status]}\r\n${lines.join('')}\r\n${content}`);
    // Closing at once would reset the connection of a client that is still sending, and it would lose the reply.
    setTimeout(() => socket.destroy(), LINGER_TIME).unref();
    onRefused(status);
  }

  const refuse: Refuse = (reply, socket, latest, isHead = false) => {
    if (refused.has(socket)) return;
    if (!socket.writable) {
      socket.destroy();
    } else if (!latest || isAnswered(latest)) {
      end(reply, socket, isHead);
    } else if (latest.request.complete) {
      latest.response.once('close', () => refuse(reply, socket, undefined, isHead));
    } else if (!latest.response.socket) {
      latest.response.once('socket', () => refuse(reply, socket, latest)); // Earlier requests are not answered yet.
    } else if (latest.response.headersSent) {
      socket.destroy();
    } else {
      end(reply, socket, latest.request.method === 'HEAD'); // The body of the latest request is late or malformed.
    }
  };
  return refuse;
}
