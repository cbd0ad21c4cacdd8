// The HTTP client of all programs: a plain socket, one request at a time, and the loop that keeps it busy.
import { connect, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';

export const PASSWORD = 'bench password';

export interface Request {
  readonly method?: string;
  readonly path: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string | Buffer;
}

export interface Answer {
  readonly status: number;
  /** The status line and the headers. */
  readonly head: string;
  /** The body as it came, if it was asked for. */
  readonly text: string;
  /** Bytes of the body. */
  readonly size: number;
}

/**
 * Why there is no answer. `refused`: the request was never sent. `reset`: a new connection broke, which the service may never have
 * accepted. `cut`: one broke that had served, or that had begun to answer. `left`: this client closed it.
 */
export class NoAnswer extends Error {
  readonly reason: 'refused' | 'reset' | 'cut' | 'left' | 'silence';
  constructor(reason: NoAnswer['reason'], message: string = reason) {
    super(message);
    this.reason = reason;
  }
}

export interface AskOptions {
  /** Whether the answer has its body as text. */
  readonly keepsBody?: boolean;
  /** Milliseconds after which the client closes the connection. */
  readonly leaveAfter?: number | undefined;
  /** Milliseconds after which it does not wait any longer. */
  readonly patience?: number | undefined;
  /** Bytes per second that it reads, and for how many seconds; else as fast as it can. */
  readonly rate?: number | undefined;
  readonly slowFor?: number;
}

export interface Connection {
  /** Sends a request, on a new socket where the last one is closed. @throws NoAnswer */
  readonly ask: (request: Request | Buffer, options?: AskOptions) => Promise<Answer>;
  readonly close: () => void;
}

export const basic = (name: string, password = PASSWORD): string =>
  `Basic ${Buffer.from(`${name}:${password}`).toString('base64')}`;

/** The value of a header of an answer, or ''. */
export const headerOf = ({ head }: Pick<Answer, 'head'>, name: string): string =>
  new RegExp(`\r\n${name}: *([^\r]*)`, 'i').exec(head)?.[1] ?? '';

/** A request in whose texts `{n}` is a number that no other request has. */
export interface Shape extends Request {
  readonly body?: string;
  /** The user, or `name:password`. */
  readonly as?: string;
}

/** Numbers that differ from those of other processes and runs. */
let number = Math.floor(Math.random() * 1e6);

/** Encodes requests, perhaps from an address behind the proxy; what has no number in it is encoded once for each address. */
export function prepare(shape: Shape): (address?: string) => Buffer {
  const { as, method, body, path, headers = {} } = shape;
  const isNumbered = [path, as, body, ...Object.values(headers)].some((text) => text?.includes('{n}'));
  const known = new Map<string | undefined, Buffer>();
  return (address) => {
    const found = known.get(address);
    if (found) return found;
    number += 1;
    const fill = (text: string): string => (isNumbered ? text.replaceAll('{n}', String(number)) : text);
    const [name = '', ...password] = fill(as ?? '').split(':');
    const bytes = encode({
      path: fill(path),
      headers: {
        ...(address !== undefined && { 'X-Forwarded-For': address }),
        ...(as !== undefined && { Authorization: basic(name, password.join(':') || undefined) }),
        ...(body !== undefined && { 'Content-Type': 'application/json' }),
        ...Object.fromEntries(Object.entries(headers).map(([key, text]) => [key, fill(text)])),
      },
      ...(method && { method }),
      ...(body !== undefined && { body: fill(body) }),
    });
    if (!isNumbered) known.set(address, bytes);
    return bytes;
  };
}

/** The bytes of a request. */
export function encode({ method = 'GET', path, headers = {}, body = '' }: Request): Buffer {
  const length = headers['Transfer-Encoding'] === undefined ? Buffer.byteLength(body) : 0;
  const all = { Host: '127.0.0.1', ...headers, ...(length > 0 && { 'Content-Length': String(length) }) };
  const lines = Object.entries(all).map(([name, value]) => `${name}: ${value}`);
  const head = Buffer.from([`${method} ${path} HTTP/1.1`, ...lines, '', ''].join('\r\n'));
  return body.length === 0 ? head : Buffer.concat([head, Buffer.from(body)]);
}

const NOTHING: Buffer = Buffer.alloc(0);
const HEAD_END = '\r\n\r\n';
const LAST_CHUNK = Buffer.from('\r\n0\r\n\r\n');
const HEAD_METHOD = Buffer.from('HEAD ');

/** Reads answers from the chunks of a socket. */
class Reader {
  /** Whether there is a head. */
  head: string | undefined;
  size = 0;
  #held = NOTHING;
  #kept: Buffer[] | undefined;
  #hasBody = true;
  /** Bytes of the body that are still to come; undefined while it comes in chunks. */
  #missing: number | undefined = 0;

  begin(request: Buffer, keepsBody: boolean): void {
    this.head = undefined;
    this.size = 0;
    this.#held = NOTHING;
    this.#kept = keepsBody ? [] : undefined;
    this.#hasBody = !request.subarray(0, HEAD_METHOD.length).equals(HEAD_METHOD);
  }

  /** @returns the answer if it is complete */
  read(chunk: Buffer): Answer | undefined {
    const body = this.head === undefined ? this.#readHead(chunk) : chunk;
    if (body === undefined) return undefined;
    this.size += body.length;
    this.#kept?.push(body);
    if (this.#missing !== undefined) {
      this.#missing -= body.length;
      return this.#missing > 0 ? undefined : this.#answer();
    }
    this.#held = Buffer.concat([this.#held, body]).subarray(-LAST_CHUNK.length);
    return this.#held.equals(LAST_CHUNK) ? this.#answer() : undefined;
  }

  #readHead(chunk: Buffer): Buffer | undefined {
    this.#held = this.#held.length === 0 ? chunk : Buffer.concat([this.#held, chunk]);
    const end = this.#held.indexOf(HEAD_END);
    if (end < 0) return undefined;
    this.head = this.#held.toString('latin1', 0, end);
    const length = /\r\ncontent-length: *(\d+)/i.exec(this.head)?.[1];
    const status = this.head.slice(9, 12);
    const isEmpty = !this.#hasBody || status === '204' || status === '304';
    this.#missing = isEmpty ? 0 : length === undefined ? undefined : Number(length);
    const rest = this.#held.subarray(end + HEAD_END.length);
    this.#held = LAST_CHUNK.subarray(0, 2); // as if a chunk had been before the first one
    return rest;
  }

  #answer(): Answer {
    const { head = '', size } = this;
    const text = this.#kept ? Buffer.concat(this.#kept).toString() : '';
    return { status: Number(head.slice(9, 12)), head, text, size };
  }
}

interface Waiting {
  readonly sent: number;
  readonly rate: number | undefined;
  readonly slowFor: number;
  readonly resolve: (answer: Answer) => void;
  readonly reject: (error: NoAnswer) => void;
}

/** Lets a client that reads slowly wait until it would have read this much. */
function pace(socket: Socket, size: number, { sent, rate, slowFor }: Waiting): void {
  const passed = performance.now() - sent;
  if (rate === undefined || passed > slowFor * 1000) return;
  const early = (size / rate) * 1000 - passed;
  if (early < 5) return;
  socket.pause();
  setTimeout(() => socket.resume(), Math.min(early, slowFor * 1000 - passed));
}

/** A connection to the service, which is opened with the first request. */
export function openConnection(port: number): Connection {
  const reader = new Reader();
  let socket: Socket | undefined;
  let hasServed = false;
  let waiting: Waiting | undefined;
  let timers: NodeJS.Timeout[] = [];

  const settle = (finish: (one: Waiting) => void): void => {
    timers.forEach(clearTimeout);
    const one = waiting;
    waiting = undefined;
    if (one) finish(one);
  };
  const leave = (error: NoAnswer): void => {
    socket?.destroy();
    socket = undefined;
    settle(({ reject }) => reject(error));
  };

  function open(): Socket {
    const opened = connect({ host: '127.0.0.1', port, noDelay: true });
    hasServed = false;
    let message = 'the connection closed';
    opened.on('data', (chunk: Buffer) => {
      if (!waiting || socket !== opened) return; // what follows a complete answer does not count
      const answer = reader.read(chunk);
      if (!answer) return pace(opened, reader.size, waiting);
      hasServed = true;
      if (/\r\nconnection: *close/i.test(answer.head)) {
        socket = undefined;
        opened.end();
      }
      settle(({ resolve }) => resolve(answer));
    });
    opened.on('error', (error: NodeJS.ErrnoException) => (message = `${error.code} ${error.message}`));
    const closed = (): void => {
      if (socket !== opened) return;
      socket = undefined;
      const isRefused = message.startsWith('ECONNREFUSED');
      const reason = isRefused ? 'refused' : hasServed || reader.head !== undefined ? 'cut' : 'reset';
      settle(({ reject }) => reject(new NoAnswer(reason, message)));
    };
    opened.on('end', closed).on('close', closed);
    return opened;
  }

  return {
    ask: (request, { keepsBody = false, leaveAfter, patience, rate, slowFor = Infinity } = {}) =>
      new Promise((resolve, reject) => {
        const bytes = Buffer.isBuffer(request) ? request : encode(request);
        socket ??= open();
        reader.begin(bytes, keepsBody);
        waiting = { sent: performance.now(), rate, slowFor, resolve, reject };
        timers = [];
        if (leaveAfter !== undefined) timers.push(setTimeout(leave, leaveAfter, new NoAnswer('left')));
        if (patience !== undefined) timers.push(setTimeout(leave, patience, new NoAnswer('silence')));
        socket.write(bytes);
      }),
    close: () => leave(new NoAnswer('left')),
  };
}

/** One request on a connection of its own. Gives the milliseconds as well. @throws NoAnswer */
export async function askOnce(
  port: number,
  request: Request | Buffer,
  options: AskOptions = {},
): Promise<Answer & { readonly time: number }> {
  const connection = openConnection(port);
  const started = performance.now();
  try {
    const answer = await connection.ask(request, { patience: 15_000, ...options });
    return { ...answer, time: performance.now() - started };
  } finally {
    connection.close();
  }
}

export interface Sample {
  /** When the request was sent (`performance.now()`). */
  readonly sent: number;
  /** Milliseconds. */
  readonly time: number;
  /** Undefined where there was none. */
  readonly answer: Answer | undefined;
  /** Whether the end of the loop has cut it off. */
  readonly isCutOff: boolean;
}

export interface Loop {
  readonly port: number;
  /** The next request; undefined ends the loop. */
  readonly next: () => Buffer | undefined;
  readonly took: (sample: Sample) => void;
  /** When the loop ends (`performance.now()`), and the present request with it. */
  readonly until?: number;
  readonly stopped?: AbortSignal;
  /** Milliseconds between an answer and the next request, and after a connection that was closed. */
  readonly pause?: number;
  readonly afterClose?: number;
  /** Milliseconds after each request until the connection is closed, whether there is an answer or not. */
  readonly abandonAfter?: number;
  readonly options?: AskOptions;
}

/** Keeps one connection busy: it sends the next request when the last one is answered. */
export async function loop(job: Loop): Promise<void> {
  const { port, next, took, until, stopped, pause = 0, afterClose = 20, abandonAfter, options } = job;
  const connection = openConnection(port);
  let isOver = stopped?.aborted ?? false;
  const end = (): void => {
    isOver = true;
    connection.close();
  };
  stopped?.addEventListener('abort', end);
  const timer = until === undefined ? undefined : setTimeout(end, until - performance.now());
  while (!isOver) {
    const request = next();
    if (!request) break;
    const sent = performance.now();
    const asked = connection.ask(request, options).catch(() => undefined);
    if (abandonAfter !== undefined) {
      await sleep(abandonAfter);
      connection.close();
    }
    const answer = await asked;
    took({ sent, time: performance.now() - sent, answer, isCutOff: isOver && !answer });
    const wait = answer || abandonAfter !== undefined ? pause : Math.max(pause, afterClose);
    if (wait > 0 && !isOver) await sleep(wait);
  }
  clearTimeout(timer);
  stopped?.removeEventListener('abort', end);
  connection.close();
}
