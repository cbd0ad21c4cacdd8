// Where a request comes from: the client's address and TLS behind proxies, and cross-origin requests of browsers.
import type { IncomingHttpHeaders } from 'node:http';
import { isIP, type Socket } from 'node:net';
import type { Settings } from '../../config.ts';
import { Problem } from '../../errors.ts';
import { clientNetwork } from '../message/client-networks.ts';
import { MAX_HOST } from '../message/request-head.ts';

/** Maximum number of empty values to skip. Proxies append none, so a client sent them and everything before them. */
const MAX_EMPTY = 16;

/**
 * The n-th value from the end of a header that proxies append to, or the first value if there are fewer. Only the end is read, so
 * that a header of thousands of values costs no more than a short one.
 */
function valueFromProxies(header: string | string[] | undefined, fromEnd: number): string | undefined {
  let rest = String(header ?? '');
  let found: string | undefined;
  let missing = fromEnd;
  for (let empty = 0; missing > 0 && empty <= MAX_EMPTY && rest !== '';) {
    const comma = rest.lastIndexOf(',');
    const value = rest.slice(comma + 1).trim();
    rest = rest.slice(0, Math.max(0, comma));
    if (value === '') empty += 1;
    else {
      found = value;
      missing -= 1;
    }
  }
  return found;
}

/**
 * The client's network, see `clientNetwork`. Each trusted proxy appends the address of its own client to X-Forwarded-For. With n
 * proxies the client is the n-th value from the end, and earlier values may be forged. A port is ignored. Without a valid
 * address the connection's address is used.
 */
export function clientNetworkOf(
  headers: IncomingHttpHeaders,
  remote: string | undefined,
  trustProxy: number,
): string {
  const forwarded = trustProxy > 0 ? valueFromProxies(headers['x-forwarded-for'], trustProxy) : undefined;
  const [, inBrackets, bare = inBrackets ?? forwarded ?? ''] =
    /^(?:\[([^\]]*)\]|([\d.]+))(?::\d+)?$/.exec(forwarded ?? '') ?? [];
  return clientNetwork(isIP(bare) ? bare : (remote ?? ''));
}

/** Whether the browser uses TLS, either to this process or to the first trusted proxy. */
export const isSecure = (headers: IncomingHttpHeaders, socket: Socket, trustProxy: number): boolean =>
  'encrypted' in socket ||
  (trustProxy > 0 && valueFromProxies(headers['x-forwarded-proto'], trustProxy)?.toLowerCase() === 'https');

/** Whether the origin is that of the request's own URL. */
function isSameOrigin(origin: string, headers: IncomingHttpHeaders, trustProxy: number): boolean {
  if (origin.length > MAX_HOST || !URL.canParse(origin)) return false;
  const { protocol, host } = new URL(origin);
  const scheme = trustProxy > 0 ? valueFromProxies(headers['x-forwarded-proto'], trustProxy) : undefined;
  if (scheme !== undefined && protocol !== `${scheme.toLowerCase()}:`) return false;
  // The scheme may be unknown behind a proxy that terminates TLS, so only the host is compared. `URL` removes default ports.
  const own = `${protocol}//${headers.host ?? ''}`;
  return URL.canParse(own) && new URL(own).host === host;
}

/**
 * Refuses cross-site request forgery: a page of another origin can make a browser send a write with stored credentials.
 * @throws Problem 403
 */
export function assertOrigin(
  headers: IncomingHttpHeaders,
  { corsOrigins, trustProxy }: Pick<Settings, 'corsOrigins' | 'trustProxy'>,
): void {
  const { origin } = headers;
  if (origin !== undefined && corsOrigins.includes(origin)) return;
  const site = headers['sec-fetch-site'];
  const isCrossOrigin =
    site === 'cross-site' ||
    site === 'same-site' ||
    (origin !== undefined && !isSameOrigin(origin, headers, trustProxy));
  if (isCrossOrigin)
    throw new Problem(403, 'Writes from this origin are not allowed. CORS_ORIGINS does not list it.');
}

/** The CORS headers of a response. Only origins in CORS_ORIGINS are allowed. */
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
      'Access-Control-Expose-Headers':
        'ETag, Link, Location, Preference-Applied, Retry-After, Vitrine-Position, X-Total-Count',
    };
  }
  return {
    ...allowed,
    'Access-Control-Allow-Methods': 'GET, HEAD, POST, PUT, PATCH, DELETE',
    'Access-Control-Allow-Headers':
      'Authorization, Content-Type, If-Match, If-None-Match, Prefer, Vitrine-Position',
    'Access-Control-Max-Age': '600',
  };
}
