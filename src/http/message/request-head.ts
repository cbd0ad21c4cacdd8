// Checks the head of a request: its target, Host, transfer coding and number of headers.
import type { IncomingMessage } from 'node:http';
import { excerpt, Problem } from '../../errors.ts';
import { messageOf } from '../../messages.ts';

const HEALTH_CHECKS: ReadonlySet<string> = new Set(['/healthz', '/healthz/', '/readyz', '/readyz/']);

/** Whether a path is a health check, with or without a trailing slash. */
export const isHealthCheck = (path: string): boolean => HEALTH_CHECKS.has(path);

/** Maximum number of headers of a request. Node must keep at least one more, so that a request with more is noticed. */
export const MAX_HEADERS = 199;

export const TOO_MANY_HEADERS = new Problem(431, messageOf('tooManyHeaders', { max: MAX_HEADERS }), {
  headers: { Connection: 'close' },
});

/** Whether a request has more than `MAX_HEADERS`, of which Node may have dropped some. */
export const hasTooManyHeaders = ({ rawHeaders }: IncomingMessage): boolean =>
  rawHeaders.length > 2 * MAX_HEADERS;

/**
 * The target of a request as the client sent it. Express and others cut the path of `app.use` from `url`, and keep the whole target
 * as `originalUrl`.
 */
export function targetOf(request: IncomingMessage & { readonly originalUrl?: unknown }): string {
  const { originalUrl, url = '/' } = request;
  return typeof originalUrl === 'string' ? originalUrl : url;
}

/** Splits a request target into path and query. The target may be in absolute form (RFC 9112, section 3.2.2). */
export function splitTarget(target: string): [path: string, query: string] {
  const relative = target.replace(/^https?:\/\/[^/?]*/i, '');
  const mark = relative.indexOf('?');
  return mark < 0 ? [relative, ''] : [relative.slice(0, mark), relative.slice(mark + 1)];
}

/** Maximum characters of the path in the log, and of the names of parameters: a client may send many long ones. */
const MAX_LOGGED = 300;

/** The path for the log, with the names of the query's parameters but not their values. */
export function loggedPath(path: string, query: string): string {
  if (query === '') return excerpt(path, MAX_LOGGED);
  const names = query.split('&', MAX_LOGGED + 2).map((part) => part.split('=', 1)[0] ?? '');
  return `${excerpt(path, MAX_LOGGED)}?${excerpt(names.join('&'), MAX_LOGGED)}`;
}

/** Maximum characters of a host with its port, or of an origin: a host name has at most 253. */
export const MAX_HOST = 300;

/**
 * Rejects ambiguous requests that Node's parser accepts.
 * @throws Problem 400 for a missing, long or repeated Host, for a transfer coding in HTTP/1.0 or without chunks, 501 for an unsupported transfer coding
 */
export function assertUnambiguous({ headers, httpVersion, rawHeaders }: IncomingMessage): void {
  const close = { headers: { Connection: 'close' } };
  if (headers.host === undefined && httpVersion === '1.1') throw new Problem(400, messageOf('noHost'), close);
  // Parsing it as part of a URL takes longer than linear time, and pages for browsers repeat it.
  if (headers.host !== undefined && headers.host.length > MAX_HOST)
    throw new Problem(400, messageOf('longHost', { max: MAX_HOST }), close);
  // Node keeps only the first Host header, but a proxy may have routed the request by another one.
  let hosts = 0;
  for (let index = 0; index < rawHeaders.length; index += 2)
    if (rawHeaders[index]?.length === 4 && rawHeaders[index]?.toLowerCase() === 'host') hosts += 1;
  if (hosts > 1) throw new Problem(400, messageOf('severalHosts'), close);
  const coding = headers['transfer-encoding'];
  if (coding !== undefined && httpVersion === '1.0')
    throw new Problem(400, messageOf('noTransferEncoding'), close);
  if (coding !== undefined && !/chunked\s*$/i.test(coding))
    throw new Problem(400, messageOf('notChunkedLast'), close);
  if (coding !== undefined && coding.trim().toLowerCase() !== 'chunked')
    throw new Problem(501, messageOf('notChunked'), close);
}

/** Whether a path belongs to the admin area. */
export const isAdminPath = (path: string): boolean => path === '/admin' || path.startsWith('/admin/');
