// Answers what Node's parser rejects: malformed requests, unknown methods, headers that are too large or too late.
import { STATUS_CODES, type Server } from 'node:http';
import type { Socket } from 'node:net';
import { Problem } from '../../errors.ts';
import { MAX_QUERY_BYTES } from '../../query/parse/grammar.ts';
import { anonymous, loopTurns } from '../load/loop-turns.ts';
import { problemReply, type Reply } from '../message/message.ts';
import { Connection } from './connection.ts';
import { LINGER_TIME } from './send-response.ts';
import { messageOf } from '../../messages.ts';

/** The error of a `clientError` event. */
interface ParseError extends Error {
  readonly code?: string;
  readonly rawPacket?: Buffer;
  /** Offset in the packet at which the parser stopped. */
  readonly bytesParsed?: number;
}

const LATE = 'ERR_HTTP_REQUEST_TIMEOUT';
/** The connection itself has failed, so that no response can be read. */
const LOST = ['ECONNRESET', 'ECONNABORTED', 'EPIPE', 'ETIMEDOUT'];

/** The rest of a request line, starting inside its method. */
const REQUEST_LINE = /^[\w!#$%&'*+.^`|~-]* (\S+) HTTP\/1\.[01]\r?\n/;

/** Whether the latest packet shows that the parser stopped in a HEAD request. Its response must not have content. */
function isInHead({ rawPacket, bytesParsed = 0 }: ParseError): boolean {
  const text = rawPacket?.toString('latin1', 0, bytesParsed) ?? '';
  return /^[\r\n]*HEAD /.test(text.slice(text.lastIndexOf('\r\n\r\n') + 1));
}

/** The target of a request that the parser rejected only because of its method. */
function targetOf({ code, rawPacket, bytesParsed = 0 }: ParseError): string | undefined {
  const text = rawPacket?.toString('latin1') ?? '';
  let start = bytesParsed;
  // The parser knows the methods of RTSP, so for these it stops only after the target.
  if (code === 'HPE_INVALID_CONSTANT') start = text.lastIndexOf(' ', text.lastIndexOf(' ', start) - 1);
  else if (code !== 'HPE_INVALID_METHOD') return undefined;
  return REQUEST_LINE.exec(text.slice(start))?.[1];
}

/** The problem for any other request that the parser rejected. */
function parseProblem({ code, rawPacket }: ParseError): Problem {
  if (code === LATE) return new Problem(408, messageOf('lateRequest'));
  if (code !== 'HPE_HEADER_OVERFLOW') return new Problem(400, messageOf('notHttp'));
  // This is only the latest packet. Its first line may be a part of the URL, or a header, which has a colon.
  const firstLine = (rawPacket?.toString('latin1') ?? '').split('\n', 1)[0] ?? '';
  return firstLine.length > MAX_QUERY_BYTES && !/^[\w-]+:/.test(firstLine)
    ? new Problem(414, messageOf('longUrl'))
    : new Problem(431, messageOf('largeHead'));
}

/**
 * Answers the unreadable requests of a server, after the responses to earlier requests, and closes their connections.
 * @param refuseMethod makes the response to a method that Node does not know
 * @param onRefused receives the status, for the log
 */
export function answerUnreadable(
  server: Server,
  refuseMethod: (target: string) => Reply,
  onRefused: (status: number) => void,
): void {
  const refused = new WeakSet<Socket>();

  function end({ status, headers, body }: Reply, socket: Socket, isHead: boolean): void {
    if (!socket.writable) return void socket.destroy();
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
    close(socket, `HTTP/1.1 ${status} ${STATUS_CODES[status]}\r\n${lines.join('')}\r\n${content}`);
    onRefused(status);
  }

  /** Closing at once would reset the connection of a client that is still sending, and it would lose the reply. */
  function close(socket: Socket, last = ''): void {
    socket.end(last);
    socket.resume();
    setTimeout(() => socket.destroy(), LINGER_TIME).unref();
  }

  function refuse(reply: () => Reply, socket: Socket, isHead = false): void {
    if (refused.has(socket)) return;
    refused.add(socket);
    socket.pause(); // Node would report each further packet.
    const connection = Connection.of(socket);
    // Thousands of requests may be late at the same moment.
    void loopTurns.yield(anonymous(connection.network)).then(() =>
      connection.onceAnswered((late) => {
        if (late?.response.headersSent) late.response.once('close', () => close(socket));
        else end(reply(), socket, late ? late.request.method === 'HEAD' : isHead);
      }),
    );
  }

  server.on('clientError', (error: ParseError, duplex) => {
    const socket = duplex as Socket;
    const { code = '' } = error;
    if (LOST.includes(code)) return void socket.destroy();
    // A request that waits behind another one is not read, so it is not late.
    if (code === LATE && Connection.of(socket).latest?.request.complete) return;
    const target = targetOf(error);
    const problem = parseProblem(error);
    refuse(
      () => (target === undefined ? problemReply(problem, '') : refuseMethod(target)),
      socket,
      isInHead(error),
    );
  });
  // After CONNECT, Node no longer handles the connection.
  server.on('connect', ({ url = '' }, duplex) => {
    const socket = duplex as Socket;
    socket.on('error', () => socket.destroy());
    refuse(() => refuseMethod(url), socket);
  });
}
