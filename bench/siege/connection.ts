// A cheap HTTP client on a plain socket: one request at a time, prepared as bytes.
import { connect, type Socket } from 'node:net';

export interface Answer {
  readonly status: number;
  /** The status line and the headers. */
  readonly head: string;
  /** Bytes, the head included. */
  readonly size: number;
}

export interface Connection {
  readonly socket: Socket;
  /** @throws Error when the connection closes before the answer is complete */
  readonly ask: (request: Buffer) => Promise<Answer>;
  readonly isOpen: () => boolean;
  readonly destroy: () => void;
}

const NOTHING: Buffer = Buffer.alloc(0);
const HEAD_END = '\r\n\r\n';
const LAST_CHUNK = Buffer.from('0\r\n\r\n');

export interface RequestParts {
  readonly method?: string;
  readonly path: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string | Buffer;
}

/** The bytes of a request. */
export function encode({ method = 'GET', path, headers = {}, body = '' }: RequestParts): Buffer {
  const length = headers['Transfer-Encoding'] === undefined ? Buffer.byteLength(body) : 0;
  const all = { Host: '127.0.0.1', ...headers, ...(length > 0 && { 'Content-Length': String(length) }) };
  const lines = Object.entries(all).map(([name, value]) => `${name}: ${value}`);
  const head = Buffer.from([`${method} ${path} HTTP/1.1`, ...lines, '', ''].join('\r\n'));
  return Buffer.concat([head, Buffer.from(body)]);
}

const HEAD_METHOD = Buffer.from('HEAD ');

/** Opens a connection to the service. */
export function openConnection(port: number): Connection {
  const socket = connect({ host: '127.0.0.1', port, noDelay: true });
  let isOpen = true;
  let settle: { resolve: (answer: Answer) => void; reject: (error: Error) => void } | undefined;
  let head: string | undefined;
  let held = NOTHING;
  let size = 0;
  /** Whether the request is a HEAD, whose answer has no body. */
  let isBodiless = false;
  /** Bytes of the body that are still to come; undefined while it comes in chunks. */
  let missing: number | undefined = 0;

  function complete(): void {
    const status = Number(head?.slice(9, 12));
    const answer = { status, head: head ?? '', size };
    const waiting = settle;
    head = undefined;
    settle = undefined;
    held = NOTHING;
    waiting?.resolve(answer);
  }

  function readHead(chunk: Buffer): Buffer | undefined {
    held = held.length === 0 ? chunk : Buffer.concat([held, chunk]);
    const end = held.indexOf(HEAD_END);
    if (end < 0) return undefined;
    head = held.toString('latin1', 0, end);
    const length = /\r\ncontent-length: *(\d+)/i.exec(head)?.[1];
    const status = Number(head.slice(9, 12));
    const isEmpty = isBodiless || status === 204 || status === 304;
    missing = isEmpty ? 0 : length === undefined ? undefined : Number(length);
    const rest = held.subarray(end + HEAD_END.length);
    held = NOTHING;
    return rest;
  }

  socket.on('data', (chunk: Buffer) => {
    if (!settle) return; // what follows a complete answer does not count
    size += chunk.length;
    const body = head === undefined ? readHead(chunk) : chunk;
    if (body === undefined) return;
    if (missing === undefined) {
      held = Buffer.concat([held, body]).subarray(-LAST_CHUNK.length);
      if (held.equals(LAST_CHUNK)) complete();
      return;
    }
    missing -= body.length;
    if (missing <= 0) complete();
  });
  const close = (): void => {
    isOpen = false;
    settle?.reject(new Error('the connection closed'));
    settle = undefined;
  };
  socket.on('error', close).on('close', close);

  return {
    socket,
    isOpen: () => isOpen,
    destroy: () => socket.destroy(),
    ask(request) {
      size = 0;
      return new Promise((resolve, reject) => {
        if (!isOpen) return reject(new Error('the connection is closed'));
        settle = { resolve, reject };
        isBodiless = request.subarray(0, 5).equals(HEAD_METHOD);
        socket.write(request);
      });
    },
  };
}

/** One request on a connection of its own, with a time limit in milliseconds. @throws Error when there is no answer */
export async function askOnce(
  port: number,
  request: RequestParts,
  limit = 15_000,
): Promise<Answer & { readonly time: number }> {
  const connection = openConnection(port);
  const started = performance.now();
  const timer = setTimeout(() => connection.destroy(), limit);
  try {
    const answer = await connection.ask(encode(request));
    return { ...answer, time: performance.now() - started };
  } finally {
    clearTimeout(timer);
    connection.destroy();
  }
}
