// HTTP clients for requests that fetch cannot send, and answers that it does not show.
import { request } from 'node:http';
import { connect, type Socket } from 'node:net';
import { after } from 'node:test';
import { basic, type Answer, type RequestOptions, type TestService } from '../support.ts';

export interface WireAnswer {
  readonly status: number;
  /** Names in lower case. */
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

export interface Wire {
  readonly socket: Socket;
  readonly send: (bytes: string | Uint8Array) => void;
  /** The next answer; with `head` an answer without a body. Undefined if the server closes the connection first. */
  readonly next: (options?: { head?: boolean }) => Promise<WireAnswer | undefined>;
  /** Resolves when the connection is closed, with the data that `next` has not returned. */
  readonly rest: () => Promise<string>;
  readonly destroy: () => void;
}

/** A timeout that only a hanging service reaches, in milliseconds. */
const TIMEOUT = 25_000;

function parseHead(head: string): Omit<WireAnswer, 'body'> {
  const [statusLine = '', ...lines] = head.split('\r\n');
  const headers = lines.map((line) => {
    const colon = line.indexOf(':');
    return [line.slice(0, colon).toLowerCase(), line.slice(colon + 1).trim()] as const;
  });
  return { status: Number(statusLine.split(' ')[1]), headers: Object.fromEntries(headers) };
}

/** The first complete answer in the text, and the text after it; or else the length that the text must have for that. */
function takeAnswer(received: string, head: boolean): [WireAnswer, string] | number {
  const end = received.indexOf('\r\n\r\n');
  if (end < 0) return received.length + 1;
  const answer = parseHead(received.slice(0, end));
  const isEmpty = head || answer.status < 200 || answer.status === 204 || answer.status === 304;
  const bodyEnd = end + 4 + (isEmpty ? 0 : Number(answer.headers['content-length'] ?? 0));
  if (received.length < bodyEnd) return bodyEnd;
  return [{ ...answer, body: received.slice(end + 4, bodyEnd) }, received.slice(bodyEnd)];
}

/**
 * Opens a connection to the service. Bytes are read as latin1, so that lengths are right.
 * @param localAddress the client's address; default: any
 */
export function wire({ base }: Pick<TestService, 'base'>, localAddress?: string): Wire {
  const { hostname, port } = new URL(base);
  const socket = connect({ port: Number(port), host: hostname, ...(localAddress && { localAddress }) });
  let received = '';
  let isClosed = false;
  let wake = (): void => undefined;
  socket.setEncoding('latin1');
  socket.setTimeout(TIMEOUT, () => socket.destroy(new Error('the service does not answer')));
  socket.on('data', (chunk: string) => {
    received += chunk;
    wake();
  });
  // The server may close a connection with a reset. The data before it counts.
  socket.on('error', () => undefined);
  const closed = new Promise<void>((resolve) => {
    socket.on('close', () => {
      isClosed = true;
      wake();
      resolve();
    });
  });
  return {
    socket,
    send: (bytes) => void socket.write(bytes),
    next: async ({ head = false } = {}) => {
      // To search a text that grows by many parts copies it each time.
      let length = 0;
      for (;;) {
        const taken = received.length < length ? length : takeAnswer(received, head);
        if (typeof taken !== 'number') {
          received = taken[1];
          return taken[0];
        }
        length = taken;
        if (isClosed) return undefined;
        await new Promise<void>((resolve) => {
          wake = resolve;
        });
      }
    },
    rest: async () => {
      await closed;
      return received;
    },
    destroy: () => socket.destroy(),
  };
}

/** The text of a request. A body gets its length, unless the headers frame it. */
export function requestText(
  method: string,
  target: string,
  headers: Readonly<Record<string, string>> = {},
  body?: string,
): string {
  const framed = 'content-length' in headers || 'transfer-encoding' in headers;
  const all = {
    host: 'localhost',
    ...headers,
    ...(body === undefined || framed ? {} : { 'content-length': String(Buffer.byteLength(body)) }),
  };
  const lines = Object.entries(all).map(([name, value]) => `${name}: ${value}\r\n`);
  return `${method} ${target} HTTP/1.1\r\n${lines.join('')}\r\n${body ?? ''}`;
}

/** Sends a request with exactly these headers, also those that fetch sets itself. */
export function exactRequest(
  { base }: Pick<TestService, 'base'>,
  path: string,
  { method = 'GET', user, headers = {}, body }: RequestOptions = {},
): Promise<Answer> {
  const text = body === undefined ? undefined : JSON.stringify(body);
  const all = {
    ...(user === undefined ? {} : { authorization: basic(user) }),
    ...(text === undefined
      ? {}
      : { 'content-type': 'application/json', 'content-length': Buffer.byteLength(text) }),
    ...headers,
  };
  return new Promise((resolve, reject) => {
    const sent = request(`${base}${path}`, { method, headers: all }, (response) => {
      let received = '';
      response.setEncoding('utf8');
      response.on('data', (chunk: string) => (received += chunk));
      response.on('error', reject);
      response.on('end', () => {
        const pairs = Object.entries(response.headers).map(([name, value]): [string, string] => [
          name,
          String(value),
        ]);
        const isJson = /[/+]json/.test(response.headers['content-type'] ?? '') && received !== '';
        resolve({
          status: response.statusCode ?? 0,
          headers: new Headers(pairs),
          text: received,
          json: isJson ? JSON.parse(received) : undefined,
        });
      });
    });
    sent.on('error', reject);
    sent.end(text);
  });
}

/** Opens connections to the service of this block, and ends them before it. It is called before the service is named. */
export function useWires(service: () => Pick<TestService, 'base'>): (address?: string) => Wire {
  const open: Wire[] = [];
  after(() => {
    for (const connection of open) connection.destroy();
  });
  return (address) => {
    const connection = wire(service(), address);
    open.push(connection);
    return connection;
  };
}
