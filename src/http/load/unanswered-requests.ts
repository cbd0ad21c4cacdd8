// What the unanswered requests of a connection hold in memory.
import type { IncomingMessage } from 'node:http';

/** Bytes that an ordinary request holds while it waits. */
export const REQUEST_SIZE = 8_192;
/** Bytes of each character of a head: Node keeps it in two forms. */
const HEAD_FACTOR = 2;
/** Bytes that Node holds for each chunk of an unread body, besides its content. */
const CHUNK_SIZE = 512;

interface Held {
  /** Bytes without the body. */
  readonly head: number;
  /** Chunks of the body since it was last empty. */
  chunks: number;
}

const headOf = ({ url = '', rawHeaders }: IncomingMessage): number =>
  Math.max(REQUEST_SIZE, HEAD_FACTOR * rawHeaders.reduce((sum, { length }) => sum + length, url.length));

export class UnansweredRequests {
  readonly #requests = new Map<IncomingMessage, Held>();

  get size(): number {
    return this.#requests.size;
  }

  /** Bytes of all requests. */
  get bytes(): number {
    let bytes = 0;
    for (const [request, { head }] of this.#requests) bytes += head + this.unreadOf(request);
    return bytes;
  }

  /** @param onRead called when the handler wants more of the body */
  add(request: IncomingMessage, onRead: () => void): void {
    const held: Held = { head: headOf(request), chunks: 0 };
    this.#requests.set(request, held);
    // Node calls these two for each chunk, and whenever the handler has read.
    const push = request.push.bind(request);
    request.push = (chunk: unknown) => {
      if (request.readableLength === 0) held.chunks = 0;
      held.chunks += 1;
      return push(chunk);
    };
    const read = request._read.bind(request);
    request._read = (size) => {
      read(size);
      onRead();
    };
  }

  delete(request: IncomingMessage): void {
    this.#requests.delete(request);
  }

  /** Bytes of the body that the handler has not read. */
  unreadOf(request: IncomingMessage): number {
    const { readableLength } = request;
    return readableLength === 0
      ? 0
      : readableLength + CHUNK_SIZE * (this.#requests.get(request)?.chunks ?? 0);
  }
}
