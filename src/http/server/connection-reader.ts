// Reads a connection in pieces, in turn with other clients, and bounds what waits on it.
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { ByteBudget } from '../load/byte-budget.ts';
import { UnansweredRequests, REQUEST_SIZE } from '../load/unanswered-requests.ts';
import { InputPieces, MAX_BODY_PIECE, MAX_PIECE } from '../load/input-pieces.ts';
import { networkOf, takeTurn } from './parser-turns.ts';

/** Maximum number of unanswered requests of one connection. Beyond it, the connection is not read. */
const MAX_UNANSWERED = 16;
/** From this many waiting bytes on, the socket is paused. Below, it is read, so that a disconnect is noticed. */
export const MAX_BUFFERED = 16_384;
/** With this many unread bytes of a body (see `UnansweredRequests`), the parser receives no more of it. */
const MAX_UNREAD = 16_384;
/** Maximum bytes held for all connections: input that the parser has not received, and unanswered requests with unread bodies. */
const budget = new ByteBudget(48 * 1024 * 1024);
/** Maximum bytes of the first piece. It is not taken in turn, so that a small body is complete before the request is answered. */
const FIRST_PIECE = 512;
/** Empty, but with memory: Node's parser takes a buffer without memory for the end of the input. */
const NONE: Buffer = Buffer.alloc(1).subarray(1);
/** Undocumented properties that Node's HTTP server adds to a socket. */
export type HttpSocket = Socket & {
  /** Whether Node has stopped reading until the client reads responses. */
  readonly _paused?: boolean;
  /** The response that is written to the socket. */
  readonly _httpMessage?: ServerResponse | null;
  readonly _handle?: {
    reading?: boolean;
    readonly readStart: () => void;
    readonly readStop: () => void;
  } | null;
  readonly parser?: {
    onIncoming?: ((request: IncomingMessage, keepsAlive: boolean) => number) | null;
    readonly resume: () => void;
  } | null;
};

/** The network of a request's client, which may be behind a proxy. */
export type RequestNetwork = (request: IncomingMessage) => string;

export interface RequestAndResponse {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
}

/** Copies a small rest out of its packet: otherwise it would keep the whole packet in memory, and only the rest is counted. */
function compact(bytes: Buffer): Buffer {
  if (bytes.length === 0) return NONE;
  if (bytes.length * 2 > bytes.buffer.byteLength) return bytes;
  const copy = Buffer.allocUnsafeSlow(bytes.length);
  bytes.copy(copy);
  return copy;
}

type Listener<A extends unknown[]> = ((...given: A) => void) | undefined;

/** Takes a connection away from Node's parser. @returns Node's own listeners for `data` and `end` */
export function detachParser(socket: Socket): [parse: Listener<[bytes: Buffer]>, parseEnd: Listener<[]>] {
  const parse = socket.listeners('data')[0] as Listener<[bytes: Buffer]>;
  const parseEnd = socket.listeners('end').find(({ name }) => name === 'bound socketOnEnd') as Listener<[]>;
  if (parse) socket.removeListener('data', parse);
  if (parseEnd) socket.removeListener('end', parseEnd);
  return [parse, parseEnd];
}

/** Reads again, also where Node or a reader has stopped the handle: the stream does not know this. */
export function startReading(socket: HttpSocket): void {
  const { _handle: handle } = socket;
  if (socket.isPaused()) socket.resume();
  if (!handle || handle.reading) return;
  handle.reading = true;
  handle.readStart();
}

/**
 * Feeds Node's parser in pieces that complete at most one request, in turn with other clients. Node itself would parse a whole
 * packet at once, which can hold thousands of small requests, chunks or headers.
 */
export class ConnectionReader {
  readonly #socket: HttpSocket;
  readonly #networkOfRequest: RequestNetwork;
  /** The network of the client of the latest unanswered request; without one, that of the connection. */
  #network: string;
  /** The bytes that the network holds in `budget` for this connection. */
  #held = 0;
  /** Node's own listeners for `data` and `end`. */
  #parse: Listener<[bytes: Buffer]>;
  #parseEnd: Listener<[]>;
  /** Bytes that the parser has not received yet. */
  #rest = NONE;
  readonly #pieces = new InputPieces();
  #latest: IncomingMessage | undefined;
  readonly #unanswered = new UnansweredRequests();
  /** Whether the parser waits for the end of a request line. */
  #isInRequestLine = true;
  #hasResumed = false;
  #isScheduled = false;
  #hasEnded = false;
  #isStopped = false;
  #isClosed = false;

  constructor(socket: Socket, networkOfRequest: RequestNetwork) {
    this.#socket = socket;
    this.#network = networkOf(socket);
    this.#networkOfRequest = networkOfRequest;
    socket.on('close', this.#onClose);
  }

  /**
   * Takes over reading from Node.
   * @param rest bytes of the last packet that the parser has not processed; undefined before the first packet
   */
  start(rest: Buffer | undefined): void {
    const socket = this.#socket;
    if (rest) this.#rest = rest;
    else this.#hasResumed = true;
    [this.#parse, this.#parseEnd] = detachParser(socket);
    socket.on('data', this.#onData);
    socket.on('end', this.#onEnd);
    socket.on('resume', this.#onResume);
    // After adding the listener, which makes Node read through the stream instead of directly from the handle.
    this.#pause();
    if (budget.exceededLimit(this.#network, this.#rest.length)) return this.#close();
    this.#account();
    this.#feed(FIRST_PIECE);
  }

  /** Stops reading at once. The stream alone would still buffer a packet. */
  #pause(): void {
    const handle = this.#socket._handle;
    this.#socket.pause();
    if (!handle?.reading) return;
    handle.reading = false;
    handle.readStop();
  }

  /** Stops reading. The requests count until they are answered. @returns the bytes that the parser has not received */
  stop(): Buffer {
    const rest = this.#rest;
    this.#rest = NONE;
    this.#latest = undefined;
    this.#isStopped = true;
    this.#socket.removeListener('data', this.#onData);
    this.#socket.removeListener('end', this.#onEnd);
    this.#socket.removeListener('resume', this.#onResume);
    this.#account();
    return rest;
  }

  /** Whether the parser has received a request line without its end. */
  get isInRequestLine(): boolean {
    return this.#isInRequestLine;
  }

  begin({ request, response }: RequestAndResponse): void {
    this.#latest = request;
    this.#countFor(this.#networkOfRequest(request));
    this.#unanswered.add(request, () => {
      this.#account();
      this.#schedule();
    });
    this.#account();
    this.#isInRequestLine = !this.#pieces.begin(request);
    response.on('close', () => {
      this.#unanswered.delete(request);
      if (this.#latest === request && request.complete) this.#latest = undefined;
      // A proxy may send the request of another client next.
      if (this.#unanswered.size === 0) this.#countFor(networkOf(this.#socket));
      this.#account();
      this.#schedule();
    });
  }

  /** Changes whose budget and turns this connection uses. */
  #countFor(network: string): void {
    budget.release(this.#network, this.#held);
    this.#held = 0;
    this.#network = network;
  }

  /** Updates what this connection holds of the budget. */
  #account(): void {
    const bytes = this.#isClosed ? 0 : this.#rest.length + this.#unanswered.bytes;
    budget.take(this.#network, bytes - this.#held);
    this.#held = bytes;
    // After an Upgrade, the connection goes on with another reader.
    if (this.#isStopped && bytes === 0) this.#socket.removeListener('close', this.#onClose);
  }

  readonly #onData = (bytes: Buffer): void => {
    if (budget.exceededLimit(this.#network, bytes.length)) return this.#close();
    this.#rest = this.#rest.length > 0 ? Buffer.concat([this.#rest, bytes]) : bytes;
    this.#account();
    if (this.#rest.length >= MAX_BUFFERED) this.#pause();
    this.#schedule();
  };

  /** Closes the connection, and drops its input at once: the system's side is closed later, see `ClosingTurns`. */
  #close(): void {
    this.#rest = NONE;
    this.#socket.destroy();
  }

  readonly #onEnd = (): void => {
    this.#hasEnded = true;
    this.#schedule();
  };

  readonly #onClose = (): void => {
    this.#isStopped = true;
    this.#isClosed = true;
    this.#account();
  };

  /** Node resumes the socket when a response has drained, even if too many bytes are buffered here. */
  readonly #onResume = (): void => {
    if (this.#rest.length >= MAX_BUFFERED) this.#pause();
    else startReading(this.#socket);
    this.#schedule();
  };

  #schedule(): void {
    if (this.#isScheduled || this.#isStopped) return;
    this.#isScheduled = true;
    takeTurn(this.#network, () => {
      this.#isScheduled = false;
      this.#feed(this.#latest?.complete === false ? MAX_BODY_PIECE : MAX_PIECE);
    });
  }

  #feed(maxLength: number): void {
    this.#feedPiece(maxLength);
    const socket = this.#socket;
    if (this.#isStopped || socket.destroyed || socket._paused || this.#rest.length >= MAX_BUFFERED) return;
    startReading(socket);
  }

  #feedPiece(maxLength: number): void {
    const socket = this.#socket;
    if (socket._paused) return; // Node's `data` listener asserts that it is not paused.
    if (this.#isStopped || socket.destroyed || !socket.parser) return;
    if (!this.#hasResumed) {
      // The parser is paused at the end of a head. Resuming completes a request without a body.
      this.#hasResumed = true;
      socket.parser?.resume();
      this.#parse?.(NONE);
    }
    if (this.#rest.length > 0) {
      if (this.#isStopped || socket.destroyed || !socket.parser || socket._paused || this.#mustWait()) return;
      const piece = this.#pieces.take(this.#rest, maxLength);
      this.#rest = compact(this.#rest.subarray(piece.length));
      const latest = this.#latest;
      const wasInBody = latest?.complete === false;
      this.#parse?.(piece);
      // Nothing reads trailers.
      for (const request of [latest, this.#latest]) if (request?.rawTrailers.length) request.rawTrailers = [];
      this.#account();
      // `begin` has noticed a complete head.
      if (this.#latest === latest)
        this.#isInRequestLine = wasInBody ? latest.complete : this.#isInRequestLine && !piece.includes('\n');
      if (this.#rest.length > 0) return this.#schedule();
    }
    if (!this.#hasEnded || this.#isStopped || socket.destroyed) return;
    this.#hasEnded = false;
    this.#parseEnd?.();
  }

  /** Whether the handler must read a body or answer requests before the parser receives more. */
  #mustWait(): boolean {
    const latest = this.#latest;
    // The other limits do not hold for a body, because the timeout of its request is running.
    if (latest?.complete === false) return this.#unanswered.unreadOf(latest) >= MAX_UNREAD;
    const { size } = this.#unanswered;
    if (size === 0) return false;
    return size >= MAX_UNANSWERED || budget.exceededLimit(this.#network, REQUEST_SIZE) !== undefined;
  }
}
