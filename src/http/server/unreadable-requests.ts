import { STATUS_CODES } from 'node:http';
import type { Socket } from 'node:net';
import { Problem } from '../../errors.ts';
import { MAX_QUERY_BYTES } from '../../query/parse/grammar.ts';
import type { Reply } from '../message/message.ts';
import { isAnswered, type PipelinedExchange } from './pipelining.ts';
import { LINGER_TIME } from './send-response.ts';

export interface ParseError extends Error {
  readonly code?: string;
  readonly rawPacket?: Buffer;
  /** Where in the packet the parser gave up. */
  readonly bytesParsed?: number;
}

/** The rest of a request line, from within its method. */
const REQUEST_LINE = /^[\w!#$%&'*+.^`|~-]* (\S+) HTTP\/1\.[01]\r?\n/;

/** The target of a well-formed request that was refused for its method alone. */
export function targetOf({ code, rawPacket, bytesParsed = 0 }: ParseError): string | undefined {
  const text = rawPacket?.toString('latin1') ?? '';
  let start = bytesParsed;
  // Methods of another protocol (RTSP) are known to Node's parser: it stops behind the target only.
  if (code === 'HPE_INVALID_CONSTANT') start = text.lastIndexOf(' ', text.lastIndexOf(' ', start) - 1);
  else if (code !== 'HPE_INVALID_METHOD') return undefined;
  return REQUEST_LINE.exec(text.slice(start))?.[1];
}

/** The problem of a request that the parser refused. */
export function parseProblem({ code, rawPacket }: ParseError): Problem {
  if (code === 'ERR_HTTP_REQUEST_TIMEOUT') return new Problem(408, 'The request did not come in time.');
  if (code !== 'HPE_HEADER_OVERFLOW') return new Problem(400, 'This is not an HTTP request.');
  // The packet is the last one: what begins it may be the address or a part of it, or a header, which has a colon.
  const firstLine = (rawPacket?.toString('latin1') ?? '').split('\n', 1)[0] ?? '';
  return firstLine.length > MAX_QUERY_BYTES && !/^[\w-]+:/.test(firstLine)
    ? new Problem(414, 'The address is too long.')
    : new Problem(431, 'The headers are too large.');
}

type Refuse = (reply: Reply, socket: Socket, latest: PipelinedExchange | undefined) => void;

/**
 * Answers on a connection that is no use any more, behind the responses that are still under way on it.
 * @param onRefused gets the status, for the log
 */
export function createRefuse(onRefused: (status: number) => void): Refuse {
  const refused = new WeakSet<Socket>();

  function end({ status, headers, body }: Reply, socket: Socket): void {
    const all: Reply['headers'] = {
      // The request may have carried credentials, which nobody has read.
      Vary: 'Authorization',
      'Cache-Control': 'no-store',
      ...headers,
      'X-Content-Type-Options': 'nosniff',
      'Content-Length': String(Buffer.byteLength(body as string)),
      Connection: 'close',
    };
    const lines = Object.entries(all).map(([name, value]) => `${name}: ${String(value)}\r\n`);
    refused.add(socket);
    socket.end(`HTTP/1.1 ${status} ${STATUS_CODES[status]}\r\n${lines.join('')}\r\n${body as string}`);
    // Closing at once would reset the connection of a client that is still sending, and it would lose the answer.
    setTimeout(() => socket.destroy(), LINGER_TIME).unref();
    onRefused(status);
  }

  const refuse: Refuse = (reply, socket, latest) => {
    if (refused.has(socket)) return;
    if (!socket.writable) {
      socket.destroy();
    } else if (!latest || isAnswered(latest)) {
      end(reply, socket);
    } else if (latest.request.complete) {
      latest.response.once('close', () => refuse(reply, socket, undefined));
    } else if (latest.response.headersSent) {
      socket.destroy();
    } else {
      end(reply, socket); // it is the body of this very request that is late or garbled
    }
  };
  return refuse;
}
