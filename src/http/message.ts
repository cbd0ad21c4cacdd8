import type { IncomingHttpHeaders } from 'node:http';
import type { Problem } from '../errors.ts';
import { problemDocument } from '../errors.ts';
import type { Caller } from '../resources/served.ts';

/** A request as the rest of the program sees it: values, and two questions that take time. */
export interface ApiRequest {
  readonly method: string;
  /** Percent-encoded, without the query. */
  readonly path: string;
  /** What stands behind `?`, percent-encoded. */
  readonly query: string;
  readonly headers: IncomingHttpHeaders;
  /** The bytes of the body; Problem 413 past the limit. */
  readonly body: () => Promise<Buffer>;
  /** The caller whose credentials the request carries; Unauthorized without any or with wrong ones. */
  readonly authenticate: () => Promise<Caller>;
}

export interface Reply {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Buffer | string;
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

export function problemReply({ status, message, errors, headers }: Problem): Reply {
  return {
    status,
    headers: { 'Content-Type': 'application/problem+json', ...headers },
    body: problemDocument(status, message, errors ? { errors } : {}),
  };
}

/** A fault of ours: nothing of its cause is told, only what finds it in the log. */
export const internalError = (requestId: string): Reply => ({
  status: 500,
  headers: { 'Content-Type': 'application/problem+json' },
  body: problemDocument(500, 'Something went wrong here.', { requestId }),
});
