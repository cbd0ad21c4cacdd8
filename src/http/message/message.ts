// A request and a reply as plain values, independent of Node's HTTP classes.
import type { IncomingHttpHeaders } from 'node:http';
import type { Requester } from '../../db/lanes/requester.ts';
import { Problem, problemDocument } from '../../errors.ts';
import { messageOf, textOf } from '../../messages.ts';
import type { Caller } from '../../resources/access/access.ts';

export interface ClientConnection {
  /** The network that the login throttle counts, see `clientNetwork`. */
  readonly network: string;
  /** Whether the browser uses TLS, according to the connection or a trusted proxy. */
  readonly isSecure: boolean;
  /** The origin for links to the service, such as `https://example.org`. */
  readonly origin: string;
}

/** A client whose network can be read. Implementations compute it on first use, since parsing proxy headers takes time. */
export interface HasNetwork {
  /** See `clientNetwork`. */
  readonly network: string;
}

/** The client of a request over HTTP. */
export interface WebRequester extends Requester {
  /**
   * Waits for a turn to render an HTML page, if rendering so many bytes of records would delay other clients. The caller must
   * render synchronously once it has the turn.
   */
  readonly turnForHtml: (bytes: number) => Promise<void> | undefined;
  /** Waits for a turn to send a large document that the service keeps. */
  readonly turnForDocument: () => Promise<void>;
}

/** A request as handlers see it. The methods do work only when they are called. */
export interface ApiRequest {
  /** As in the log. */
  readonly id: string;
  readonly method: string;
  /** Percent-encoded, without the query. */
  readonly path: string;
  /** The part after `?`, percent-encoded. */
  readonly query: string;
  readonly headers: IncomingHttpHeaders;
  /** Reads the body. Throws Problem 413 above the limit in bytes, by default `MAX_BODY`. */
  readonly body: (limit?: number) => Promise<Buffer>;
  /** Reads a body that the method ignores, up to `MAX_BODY`, and keeps none of it. Throws Problem 413 and 400. */
  readonly ignoreBody: () => Promise<void>;
  readonly client: () => ClientConnection;
  /** The client that the scheduler charges for the statements of this request. */
  readonly requester: WebRequester;
  /** The caller, once known. */
  readonly caller: Caller | undefined;
  /**
   * The caller, read from the database. Throws Unauthorized if credentials are missing or wrong.
   * @param again also if the request has read it before: a stream may outlive the rights of its caller
   */
  readonly authenticate: (again?: boolean) => Promise<Caller>;
  /** The caller from the cache of verified credentials, if any. The next statement must check the caller's precondition. */
  readonly recall: () => Caller | undefined;
  /** Sets the caller that the log names, for requests authenticated in another way, such as by a session. */
  readonly recognize: (caller: Caller) => void;
}

/** The caller as the author of the changes of a request. */
export const authorOf = (caller: Caller, request: ApiRequest): Caller => ({
  ...caller,
  origin: { address: request.client().network, request: request.id },
});

/** Whether requests with this method change nothing. */
export const isRead = (method: string): boolean => method === 'GET' || method === 'HEAD';

/** A body that is ready. A long one may be a list of the parts that it consists of, which are never copied all at once. */
export type WholeBody = Buffer | string | readonly Buffer[];

interface ReplyHead {
  readonly status: number;
  readonly headers: Readonly<Record<string, string | readonly string[]>>;
  /** Whether the service keeps the body and sends the same bytes again: a response that waits takes no further memory. */
  readonly isKept?: boolean;
}

export interface WholeReply extends ReplyHead {
  readonly body: WholeBody;
}

/** Its chunks are sent to the client as they arrive. */
export interface StreamedReply extends ReplyHead {
  readonly body: AsyncIterable<Buffer | string>;
}

export type Reply = WholeReply | StreamedReply;

export const isStreamed = (reply: Reply): reply is StreamedReply =>
  typeof reply.body === 'object' && Symbol.asyncIterator in reply.body;

/** Minimum bytes, or characters of a text, of a body that is sent in pieces. */
export const LONG_BODY = 524_288;

/** The length of a body: its bytes, or the characters of a text. */
export const lengthOf = (body: WholeBody): number =>
  typeof body === 'string' || Buffer.isBuffer(body)
    ? body.length
    : body.reduce((sum, { length }) => sum + length, 0);

/** A body of these parts: one value, unless it is long. */
export const joinBody = (parts: readonly Buffer[]): Buffer | readonly Buffer[] =>
  lengthOf(parts) > LONG_BODY ? parts : Buffer.concat(parts);

/** A part of the site beside the API, with its own path prefix. */
export interface Area {
  readonly answer: (request: ApiRequest) => Promise<Reply>;
  /** The route pattern of a path, for metrics: one of a bounded number; undefined for an unknown path. */
  readonly patternOf: (path: string) => string | undefined;
  /** Lets the browser keep the position of a write, and send it with later requests. */
  readonly keepPosition: (request: ApiRequest, reply: Reply, position: string) => Reply;
  /** Renders an error. `requestId` identifies the log line with the cause of a 500. */
  readonly problem: (problem: Problem, requestId: string, request: ApiRequest) => Reply;
}

/** Becomes the response `UNAUTHORIZED`. Clients rely on its form, so it does not depend on `Accept`. */
export class Unauthorized extends Error {}

export const UNAUTHORIZED: Reply = {
  status: 401,
  headers: { 'WWW-Authenticate': 'Basic realm="Login Required"', 'Content-Type': 'text/html; charset=utf-8' },
  body: textOf(messageOf('notAuthenticated')),
};

const JSON_TYPE = { 'Content-Type': 'application/json; charset=utf-8' };

export function json(status: number, body: WholeBody, headers?: Record<string, string>): Reply {
  return { status, headers: headers ? { ...JSON_TYPE, ...headers } : JSON_TYPE, body };
}

export function problemReply({ status, message, errors, headers }: Problem, requestId: string): Reply {
  const extra = status === 500 ? { requestId } : {};
  return {
    status,
    headers: { 'Content-Type': 'application/problem+json', ...headers },
    body: problemDocument(status, message, errors ? { errors, ...extra } : extra),
  };
}

/** Reveals nothing about the cause. The log has it under the `requestId`. */
export const INTERNAL_ERROR = new Problem(500, messageOf('internal'));
