import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';

/** Maximum number of requests of one connection without an answer; the client's further bytes stay unread. */
export const MOST_UNANSWERED = 16;
/** Bytes of a connection that wait for the parser; past it the socket is paused. Reading on notices a client that goes away. */
const MOST_HELD = 65_536;
/** Maximum number of pieces that the parser gets before other connections have their turn. */
const PIECES_PER_TURN = 64;
/** What `onIncoming` returns to make Node's parser (llhttp) stop behind the headers. */
const HPE_PAUSED = 21;
export const END_OF_HEAD = '\r\n\r\n';

/** The parts of a socket that Node's HTTP server adds. */
type HttpSocket = Socket & {
  /** Whether Node waits for the client to take answers. */
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

/** The last request of each connection. */
const latest = new WeakMap<Socket, PipelinedExchange>();
/** The connections whose clients send requests ahead. */
const readers = new WeakMap<Socket, Reader>();

export const latestOf = (socket: Socket): PipelinedExchange | undefined => latest.get(socket);

/** Registers a request: the server calls it for each, before anything else. */
export function track(request: IncomingMessage, response: ServerResponse): void {
  const exchange = { request, response };
  latest.set(request.socket, exchange);
  readers.get(request.socket)?.begin(exchange);
}

/**
 * Feeds Node's parser in pieces that complete one request at most. Node alone would parse whatever a packet holds in one go,
 * which is thousands of small requests.
 */
class Reader {
  readonly #socket: HttpSocket;
  #execute: ((bytes: Buffer) => void) | undefined;
  #end: (() => void) | undefined;
  #rest: Buffer = Buffer.alloc(0);
  /** The last bytes that the parser got: the end of a head may be split. */
  #tail = '';
  #unanswered = 0;
  /** Bytes of the latest body that the parser has still to get; undefined where only its chunks say. */
  #bodyLeft: number | undefined = 0;
  #isBegun = false;
  #isScheduled = false;
  #hasEnded = false;
  #isStopped = false;

  constructor(socket: Socket) {
    this.#socket = socket;
  }

  /** Takes the connection over from Node. @param rest what the parser has not got of the last packet */
  start(rest: Buffer): void {
    const socket = this.#socket;
    this.#rest = rest;
    this.#execute = socket.listeners('data')[0] as (bytes: Buffer) => void;
    this.#end = socket.listeners('end').find(({ name }) => name === 'bound socketOnEnd') as
      (() => void) | undefined;
    socket.removeListener('data', this.#execute);
    if (this.#end) socket.removeListener('end', this.#end);
    socket.on('data', this.#onData);
    socket.on('end', this.#onEnd);
    socket.on('resume', this.#onResume);
    // Only behind the new listener, which ends Node's reading beside the stream.
    socket.pause();
    // Node stops reading beside the stream while an answer drains. The stream knows nothing of that, and would never read again.
    const handle = socket._handle;
    if (handle?.reading === false) {
      handle.reading = true;
      handle.readStart();
    }
    this.#schedule();
  }

  /** Gives the connection back. @returns what the parser has not got */
  stop(): Buffer {
    this.#isStopped = true;
    this.#socket.removeListener('data', this.#onData);
    this.#socket.removeListener('end', this.#onEnd);
    this.#socket.removeListener('resume', this.#onResume);
    return this.#rest;
  }

  /** Drops what the client sends from now on. */
  discard(): void {
    this.#execute = () => undefined;
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
    if (this.#rest.length >= MOST_HELD) this.#socket.pause();
    this.#schedule();
  };

  readonly #onEnd = (): void => {
    this.#hasEnded = true;
    this.#schedule();
  };

  /** Node resumes the socket when the client has taken an answer, and does not know of the rest. */
  readonly #onResume = (): void => {
    if (this.#rest.length >= MOST_HELD) this.#socket.pause();
    this.#schedule();
  };

  #schedule(): void {
    if (this.#isScheduled || this.#isStopped) return;
    this.#isScheduled = true;
    setImmediate(() => {
      this.#isScheduled = false;
      this.#feed();
    });
  }

  #feed(): void {
    this.#feedPieces();
    const socket = this.#socket;
    if (this.#isStopped || socket.destroyed || socket._paused || this.#rest.length >= MOST_HELD) return;
    if (socket.isPaused()) socket.resume();
  }

  #feedPieces(): void {
    const socket = this.#socket;
    if (socket._paused) return; // Node's listener asserts that it is not.
    if (!this.#isBegun) {
      // The parser has stopped at the end of a head, and completes a request without a body only now.
      this.#isBegun = true;
      socket.parser?.resume();
      this.#execute?.(this.#rest.subarray(0, 0));
    }
    for (let pieces = 0; this.#rest.length > 0; pieces += 1) {
      if (this.#isStopped || socket.destroyed || !socket.parser || socket._paused) return;
      // The body of the last request that was let in is read in any case: its sender's time is running.
      if (this.#unanswered >= MOST_UNANSWERED && latest.get(socket)?.request.complete !== false) return;
      if (pieces === PIECES_PER_TURN) return this.#schedule();
      const piece = this.#rest.subarray(0, this.#pieceLength());
      this.#rest = this.#rest.subarray(piece.length);
      this.#tail = piece.toString('latin1', Math.max(0, piece.length - 3));
      this.#execute?.(piece);
    }
    if (!this.#hasEnded || this.#isStopped || socket.destroyed) return;
    this.#hasEnded = false;
    this.#end?.();
  }

  /** The bytes up to the end of a body whose length is known, else up to the end of a head or of a chunked body. */
  #pieceLength(): number {
    const rest = this.#rest;
    if (this.#bodyLeft !== undefined && this.#bodyLeft > 0) {
      const length = Math.min(this.#bodyLeft, rest.length);
      this.#bodyLeft -= length;
      return length;
    }
    const seam = `${this.#tail}${rest.toString('latin1', 0, 3)}`.indexOf(END_OF_HEAD);
    if (seam >= 0) return seam + END_OF_HEAD.length - this.#tail.length;
    const end = rest.indexOf(END_OF_HEAD, 0, 'latin1');
    return end < 0 ? rest.length : end + END_OF_HEAD.length;
  }
}

/**
 * Holds every connection of a server to MOST_UNANSWERED. Connections whose clients wait for each answer stay with Node's own
 * reading, which is faster.
 */
export function limitPipelining(server: Server): void {
  server.on('connection', (socket: HttpSocket) => {
    const parser = socket.parser;
    const onIncoming = parser?.onIncoming;
    if (!parser || !onIncoming) return;
    parser.onIncoming = (request, keepsAlive) => {
      const previous = latest.get(socket);
      const result = onIncoming(request, keepsAlive);
      if (result !== 0 || !previous || isAnswered(previous) || readers.has(socket)) return result;
      const current = latest.get(socket);
      const reader = new Reader(socket);
      readers.set(socket, reader);
      reader.begin(previous);
      if (current) reader.begin(current);
      return HPE_PAUSED;
    };
  });
}

/** Goes on with a connection whose parser `limitPipelining` has stopped. @returns whether it was that */
export function resumePipelined(
  { code, rawPacket, bytesParsed = 0 }: { code?: string; rawPacket?: Buffer; bytesParsed?: number },
  socket: Socket,
): boolean {
  if (code !== 'HPE_PAUSED') return false;
  readers.get(socket)?.start(rawPacket?.subarray(bytesParsed) ?? Buffer.alloc(1).subarray(1));
  return true;
}

/** Parses nothing further of a connection. */
export const discardInput = (socket: Socket): void => readers.get(socket)?.discard();

/** Gives a connection back to Node's own reading. @returns what the parser has not got */
export function releaseReader(socket: Socket): Buffer {
  const rest = readers.get(socket)?.stop() ?? Buffer.alloc(0);
  readers.delete(socket);
  return rest;
}
