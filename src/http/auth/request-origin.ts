import type { IncomingHttpHeaders } from 'node:http';
import { isIP, type Socket } from 'node:net';
import type { Settings } from '../../config.ts';
import { Problem } from '../../errors.ts';
import { clientNetwork } from '../message/client-networks.ts';

/** The last value of a header that proxies append to, `fromEnd` values before the end. */
function fromProxies(header: string | string[] | undefined, fromEnd: number): string | undefined {
  const values = String(header ?? '')
    .split(',')
    .map((value) => value.trim())
    .filter(Boolean);
  return values.at(-Math.min(fromEnd, values.length)) ?? undefined;
}

/**
 * The client's network, see `clientNetwork`. Each trusted proxy appends the address that it saw to X-Forwarded-For, so with n of
 * them the client is the n-th from the end; a client can write anything before that. A port is ignored. Where there is no address,
 * the connection's counts.
 */
export function clientAddress(
  headers: IncomingHttpHeaders,
  remote: string | undefined,
  trustProxy: number,
): string {
  const forwarded = trustProxy > 0 ? fromProxies(headers['x-forwarded-for'], trustProxy) : undefined;
  const [, inBrackets, bare = inBrackets ?? forwarded ?? ''] =
    /^(?:\[([^\]]*)\]|([\d.]+))(?::\d+)?$/.exec(forwarded ?? '') ?? [];
  return clientNetwork(isIP(bare) ? bare : (remote ?? ''));
}

/** Whether the browser speaks TLS, to this process or to the proxy nearest to it. */
export const isSecure = (headers: IncomingHttpHeaders, socket: Socket, trustProxy: number): boolean =>
  'encrypted' in socket ||
  (trustProxy > 0 && fromProxies(headers['x-forwarded-proto'], trustProxy)?.toLowerCase() === 'https');

/** The most characters of an origin: a host name has at most 253. */
const MAX_ORIGIN = 300;

/** Whether the origin is the one that the request itself was sent to. */
function isOwn(origin: string, headers: IncomingHttpHeaders, trustProxy: number): boolean {
  if (origin.length > MAX_ORIGIN || !URL.canParse(origin)) return false;
  const { protocol, host } = new URL(origin);
  const scheme = trustProxy > 0 ? fromProxies(headers['x-forwarded-proto'], trustProxy) : undefined;
  if (scheme !== undefined && protocol !== `${scheme.toLowerCase()}:`) return false;
  // Behind a proxy that ends TLS the scheme may not be known; the host is, and default ports are left out of origins.
  const own = `${protocol}//${headers.host ?? ''}`;
  return URL.canParse(own) && new URL(own).host === host;
}

/**
 * Refuses a write that a foreign page makes a browser send, with the credentials that the browser keeps.
 * @throws Problem 403
 */
export function assertOrigin(
  headers: IncomingHttpHeaders,
  { corsOrigins, trustProxy }: Pick<Settings, 'corsOrigins' | 'trustProxy'>,
): void {
  const { origin } = headers;
  if (origin !== undefined && corsOrigins.includes(origin)) return;
  const site = headers['sec-fetch-site'];
  const isForeign =
    site === 'cross-site' ||
    site === 'same-site' ||
    (origin !== undefined && !isOwn(origin, headers, trustProxy));
  if (isForeign) throw new Problem(403, 'This origin may not write here.');
}

/** The headers that let a page of a listed origin call the service; none for others. */
export function corsHeaders(
  method: string,
  headers: IncomingHttpHeaders,
  corsOrigins: readonly string[],
): Record<string, string> {
  const { origin } = headers;
  if (origin === undefined || !corsOrigins.includes(origin)) return { Vary: 'Origin' };
  const allowed = { Vary: 'Origin', 'Access-Control-Allow-Origin': origin };
  if (method !== 'OPTIONS' || headers['access-control-request-method'] === undefined) {
    return {
      ...allowed,
      'Access-Control-Expose-Headers': 'ETag, Link, Location, Preference-Applied, Retry-After, X-Total-Count',
    };
  }
  return {
    ...allowed,
    'Access-Control-Allow-Methods': 'GET, HEAD, POST, PUT, DELETE',
    'Access-Control-Allow-Headers': 'Authorization, Content-Type, If-Match, If-None-Match, Prefer',
    'Access-Control-Max-Age': '600',
  };
}
