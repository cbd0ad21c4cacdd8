// Limits how many requests a client may pipeline, and the time that the parser spends on one client at a time.
import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { isInTurns, networkOf, takeTurn } from './parser-turns.ts';

/** Maximum number of unanswered requests of one connection. Beyond it, the connection is not read. */
const MAX_UNANSWERED = 16;
/** Maximum bytes that wait for the parser before the socket is paused. Reading up to then detects that a client disconnects. */
const MAX_BUFFERED = 16_384;
/** Maximum bytes for the parser in one turn. In chunks of one byte, these take it about half a millisecond. */
const MAX_PIECE = 2_048;
/** Maximum bytes of the first piece, which is not taken in turn: a small body is complete before the request is answered. */
const FIRST_PIECE = 512;
/** Returned from `onIncoming`, this pauses Node's parser (llhttp) after the headers. */
const HPE_PAUSED = 21;
/** Separates the head of a message from its body. */
export const END_OF_HEAD = '\r\n\r\n';

/** Undocumented properties that Node's HTTP server adds to a socket. */
type HttpSocket = Socket & {
  /** Whether Node has stopped reading until the client reads responses. */
  readonly _paused?: boolean;
  readonly _handle?: { reading?: boolean; readonly readStart: () => void } | null;
  readonly parser?: {
    onIncoming?: ((request: IncomingMessage, keepsAlive: boolean) => number) | null;
    readonly resume: () => void;
  } | null;
};

export interface PipelinedExchange {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
}

export const isAnswered = ({ response }: PipelinedExchange): boolean =>
  response.writableFinished || response.closed;

/** The latest request of each connection. */
const latest = new WeakMap<Socket, PipelinedExchange>();
/** The readers of connections that are read in turns. */
const readers = new WeakMap<Socket, Reader>();

export const latestOf = (socket: Socket): PipelinedExchange | undefined => latest.get(socket);

/** Registers a request. The server must call this first for every request. */
export function track(request: IncomingMessage, response: ServerResponse): void {
  const exchange = { request, response };
  latest.set(request.socket, exchange);
  readers.get(request.socket)?.begin(exchange);
}

/**
 * Feeds Node's parser in pieces that complete at most one request, in turn with other clients. Node itself would parse a whole
 * packet at once, which can hold thousands of small requests, chunks or headers.
 */
class Reader {
  readonly #socket: HttpSocket;
  readonly #network: string;
  /** Node's own listeners for `data` and `end`. */
  #parse: ((bytes: Buffer) => void) | undefined;
  #parseEnd: (() => void) | undefined;
  /** Bytes that the parser has not received yet. */
  #rest: Buffer = Buffer.alloc(0);
  /** The last bytes that the parser received: END_OF_HEAD may be split. */
  #tail = '';
  #unanswered = 0;
  /** Bytes of the latest body that the parser has not received; undefined for a chunked body. */
  #bodyLeft: number | undefined = 0;
  #hasResumed = false;
  #isScheduled = false;
  #hasEnded = false;
  #isStopped = false;

  constructor(socket: Socket, network: string) {
    this.#socket = socket;
    this.#network = network;
  }

  /**
   * Takes over reading from Node.
   * @param rest bytes of the last packet that the parser has not processed; undefined before the first packet
   */
  start(rest: Buffer | undefined): void {
    const socket = this.#socket;
    if (rest) this.#rest = rest;
    else this.#hasResumed = true;
    this.#parse = socket.listeners('data')[0] as (bytes: Buffer) => void;
    this.#parseEnd = socket.listeners('end').find(({ name }) => name === 'bound socketOnEnd') as
      (() => void) | undefined;
    socket.removeListener('data', this.#parse);
    if (this.#parseEnd) socket.removeListener('end', this.#parseEnd);
    socket.on('data', this.#onData);
    socket.on('end', this.#onEnd);
    socket.on('resume', this.#onResume);
    // After adding the listener, which makes Node read through the stream instead of directly from the handle.
    socket.pause();
    // Node may have stopped the handle while a response drains. The stream does not know this and would never read again.
    const handle = socket._handle;
    if (handle?.reading === false) {
      handle.reading = true;
      handle.readStart();
    }
    this.#feed(FIRST_PIECE);
  }

  /** Stops reading. @returns the bytes that the parser has not received */
  stop(): Buffer {
    this.#isStopped = true;
    this.#socket.removeListener('data', this.#onData);
    this.#socket.removeListener('end', this.#onEnd);
    this.#socket.removeListener('resume', this.#onResume);
    return this.#rest;
  }

  /** Ignores all further input. */
  discard(): void {
    this.#parse = () => undefined;
    this.#unanswered = -Infinity;
  }

  begin({ request, response }: PipelinedExchange): void {
    this.#unanswered += 1;
    const length = request.headers['content-length'];
    const isChunked = request.headers['transfer-encoding'] !== undefined;
    this.#bodyLeft = isChunked ? undefined : Number(length ?? 0);
    response.on('close', () => {
      this.#unanswered -= 1;
      this.#schedule();
    });
  }

  readonly #onData = (bytes: Buffer): void => {
    this.#rest = this.#rest.length > 0 ? Buffer.concat([this.#rest, bytes]) : bytes;
    if (this.#rest.length >= MAX_BUFFERED) this.#socket.pause();
    this.#schedule();
  };

  readonly #onEnd = (): void => {
    this.#hasEnded = true;
    this.#schedule();
  };

  /** Node resumes the socket when a response has drained, even if too many bytes are buffered here. */
  readonly #onResume = (): void => {
    if (this.#rest.length >= MAX_BUFFERED) this.#socket.pause();
    this.#schedule();
  };

  #schedule(): void {
    if (this.#isScheduled || this.#isStopped) return;
    this.#isScheduled = true;
    takeTurn(this.#network, () => {
      this.#isScheduled = false;
      this.#feed(MAX_PIECE);
    });
  }

  #feed(maxLength: number): void {
    this.#feedPiece(maxLength);
    const socket = this.#socket;
    if (this.#isStopped || socket.destroyed || socket._paused || this.#rest.length >= MAX_BUFFERED) return;
    if (socket.isPaused()) socket.resume();
  }

  #feedPiece(maxLength: number): void {
    const socket = this.#socket;
    if (socket._paused) return; // Node's `data` listener asserts that it is not paused.
    if (!this.#hasResumed) {
      // The parser is paused at the end of a head. Resuming completes a request without a body.
      this.#hasResumed = true;
      socket.parser?.resume();
      this.#parse?.(this.#rest.subarray(0, 0));
    }
    if (this.#rest.length > 0) {
      if (this.#isStopped || socket.destroyed || !socket.parser || socket._paused) return;
      // The body of the latest accepted request is always read, because its request timeout is running.
      if (this.#unanswered >= MAX_UNANSWERED && latest.get(socket)?.request.complete !== false) return;
      const piece = this.#rest.subarray(0, this.#pieceLength(maxLength));
      this.#rest = this.#rest.subarray(piece.length);
      this.#tail = `${this.#tail}${piece.toString('latin1', Math.max(0, piece.length - 3))}`.slice(-3);
      this.#parse?.(piece);
      if (this.#rest.length > 0) return this.#schedule();
    }
    if (!this.#hasEnded || this.#isStopped || socket.destroyed) return;
    this.#hasEnded = false;
    this.#parseEnd?.();
  }

  /** Bytes up to the end of a body of known length, else up to the next empty line (END_OF_HEAD). */
  #pieceLength(maxLength: number): number {
    const rest = this.#rest;
    if (this.#bodyLeft !== undefined && this.#bodyLeft > 0) {
      const length = Math.min(this.#bodyLeft, rest.length);
      this.#bodyLeft -= length;
      return length;
    }
    const split = `${this.#tail}${rest.toString('latin1', 0, 3)}`.indexOf(END_OF_HEAD);
    if (split >= 0) return split + END_OF_HEAD.length - this.#tail.length;
    const next = rest.subarray(0, maxLength);
    const end = next.indexOf(END_OF_HEAD, 0, 'latin1');
    return end < 0 ? next.length : end + END_OF_HEAD.length;
  }
}

/**
 * Limits every connection of a server to MAX_UNANSWERED, and reads chunked bodies in turns. Other connections whose clients wait
 * for each response keep Node's own reader, which is faster.
 */
export function limitPipelining(server: Server): void {
  server.on('connection', (socket: HttpSocket) => {
    const parser = socket.parser;
    const onIncoming = parser?.onIncoming;
    if (!parser || !onIncoming || readers.has(socket)) return;
    const network = networkOf(socket);
    const takeOver = (): Reader => {
      const reader = new Reader(socket, network);
      readers.set(socket, reader);
      return reader;
    };
    parser.onIncoming = (request, keepsAlive) => {
      const previous = latest.get(socket);
      const result = onIncoming(request, keepsAlive);
      if (result !== 0 || readers.has(socket)) return result;
      const isPipelined = previous !== undefined && !isAnswered(previous);
      const isChunked = request.headers['transfer-encoding'] !== undefined;
      if (!isPipelined && !isChunked && !isInTurns(network)) return result;
      const current = latest.get(socket);
      const reader = takeOver();
      if (isPipelined) reader.begin(previous);
      if (current) reader.begin(current);
      return HPE_PAUSED;
    };
    if (isInTurns(network)) takeOver().start(undefined);
  });
}

/** Continues a connection that `limitPipelining` has paused. @returns whether the error was that pause */
export function resumePipelined(
  { code, rawPacket, bytesParsed = 0 }: { code?: string; rawPacket?: Buffer; bytesParsed?: number },
  socket: Socket,
): boolean {
  if (code !== 'HPE_PAUSED') return false;
  readers.get(socket)?.start(rawPacket?.subarray(bytesParsed) ?? Buffer.alloc(1).subarray(1));
  return true;
}

/** Ignores all further input of a connection. */
export const discardInput = (socket: Socket): void => readers.get(socket)?.discard();

/** Detaches the reader from a connection. @returns the bytes that the parser has not received */
export function releaseReader(socket: Socket): Buffer {
  const rest = readers.get(socket)?.stop() ?? Buffer.alloc(0);
  readers.delete(socket);
  return rest;
}
