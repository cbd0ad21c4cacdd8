// Stops parsing a request as soon as it has too many headers. Its end may never come, and thousands of headers are costly to parse.
import type { Server } from 'node:http';
import type { Socket } from 'node:net';
import { MAX_HEADERS } from '../message/request-head.ts';
import { noteTooManyHeaders } from './parser-turns.ts';

/** The key of the parser's method that receives the headers of a long head, 32 at a time. */
const ON_HEADERS = 1;

/** Undocumented properties of Node's HTTP parser. */
interface Parser {
  [ON_HEADERS]?: (this: Parser, headers: readonly string[], url: string) => void;
  /** The names and values received so far. */
  readonly _headers: readonly string[];
  readonly socket: Socket | null;
  /** Makes the parser stop with the error HPE_PAUSED at the next packet. */
  readonly pause: () => void;
}

const limited = new WeakSet<Parser>();
const exceeded = new WeakSet<Socket>();

/**
 * Watches every connection, and pauses its parser once a head has too many headers: at the next packet, the server emits
 * `clientError`. One packet can hold thousands of headers, so new connections of the network are read in small pieces for a minute.
 */
export function limitHeaders(server: Server): void {
  server.on('connection', (socket: Socket & { readonly parser?: Parser | null }) => {
    const { parser } = socket;
    const collect = parser?.[ON_HEADERS];
    // Node uses a parser for many connections, one after the other.
    if (!parser || !collect || limited.has(parser)) return;
    limited.add(parser);
    parser[ON_HEADERS] = function (headers, url) {
      collect.call(this, headers, url);
      if (this._headers.length <= 2 * MAX_HEADERS || !this.socket) return;
      noteTooManyHeaders(this.socket);
      exceeded.add(this.socket);
      this.pause();
    };
  });
}

/** Whether the parser was stopped because a head has too many headers. */
export const hasExceededHeaders = (socket: Socket): boolean => exceeded.has(socket);
