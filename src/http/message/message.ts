import type { IncomingHttpHeaders } from 'node:http';
import type { Requester } from '../../db/scheduling/requester.ts';
import { Problem, problemDocument } from '../../errors.ts';
import type { Caller } from '../../resources/serve/served-resource.ts';

/** Who is at the other end of the connection. */
export interface Client {
  /** As the throttle counts it. */
  readonly address: string;
  /** Whether the browser speaks TLS, as far as the connection or a trusted proxy tells. */
  readonly isSecure: boolean;
}

/** Somebody whose network is known. Finding it takes time, so it is asked for where it matters. */
export interface HasNetwork {
  /** See `clientNetwork`. */
  readonly network: string;
}

/** The client of a request over HTTP. */
export interface WebRequester extends Requester {
  /**
   * Waits for the turn of a page that shows so many bytes of records, where that takes long enough to delay other clients. The
   * work must follow without waiting for anything else.
   */
  readonly slotForPage: (bytes: number) => Promise<void> | undefined;
}

/** A request as the rest of the program sees it: values, and questions that take time. */
export interface ApiRequest {
  readonly method: string;
  /** Percent-encoded, without the query. */
  readonly path: string;
  /** What stands behind `?`, percent-encoded. */
  readonly query: string;
  readonly headers: IncomingHttpHeaders;
  /** The bytes of the body; Problem 413 past the limit, which is the setting's where none is given. */
  readonly body: (limit?: number) => Promise<Buffer>;
  readonly client: () => Client;
  /** On whose behalf the statements of this request run. */
  readonly requester: WebRequester;
  /** The caller whose credentials the request carries; Unauthorized without any or with wrong ones. */
  readonly authenticate: () => Promise<Caller>;
  /** The same from memory, with a precondition that the database has to confirm; undefined where there is no memory. */
  readonly recall: () => Caller | undefined;
  /**
   * Where the answer is the same for everybody: a user who is remembered takes turns as one, and not with the strangers of the same
   * network. As nobody confirms the credentials, the memory does not last longer for it, and the log names nobody.
   */
  readonly queueAsUser: () => void;
  /** Tells the log who the caller is, where that was found out in another way. */
  readonly recognize: (caller: Caller) => void;
}

export interface Reply {
  readonly status: number;
  readonly headers: Readonly<Record<string, string | readonly string[]>>;
  /** Chunks of a body of any length are sent as they come. */
  readonly body: Buffer | string | AsyncIterable<Buffer | string>;
}

/** A part of the site beside the API, under a path of its own. */
export interface Area {
  readonly answer: (request: ApiRequest) => Promise<Reply>;
  /** The pattern of a path, one of a bounded number, for counting; undefined where the path leads nowhere. */
  readonly patternOf: (path: string) => string | undefined;
  /** How it shows an error; `requestId` finds the cause of a 500 in the log. */
  readonly problem: (problem: Problem, requestId: string, request: ApiRequest) => Reply;
}

/** The 401: the one error that is no problem document, since clients rely on its form. */
export class Unauthorized extends Error {}

export const UNAUTHORIZED: Reply = {
  status: 401,
  headers: { 'WWW-Authenticate': 'Basic realm="Login Required"', 'Content-Type': 'text/html; charset=utf-8' },
  body: 'Authentication failed',
};

const JSON_TYPE = { 'Content-Type': 'application/json; charset=utf-8' };

export function json(status: number, body: Buffer | string, headers?: Record<string, string>): Reply {
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

/** A fault of ours: nothing of its cause is told, only what finds it in the log. */
export const INTERNAL_ERROR = new Problem(500, 'Something went wrong here.');
