// Where a request comes from: the client's address and TLS behind proxies, and cross-origin requests of browsers.
import type { IncomingHttpHeaders } from 'node:http';
import { isIP, type Socket } from 'node:net';
import type { Settings } from '../../config.ts';
import { excerpt, Problem } from '../../errors.ts';
import { clientNetwork } from '../message/client-networks.ts';
import { MAX_HOST } from '../message/request-head.ts';
import { messageOf } from '../../messages.ts';

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
  'encrypted' in socket || reportedScheme(headers, trustProxy)?.toLowerCase() === 'https';

/** The scheme that the first trusted proxy reports. */
const reportedScheme = (headers: IncomingHttpHeaders, trustProxy: number): string | undefined =>
  trustProxy > 0 ? valueFromProxies(headers['x-forwarded-proto'], trustProxy) : undefined;

/** Whether the origin is that of the request's own URL. */
function isSameOrigin(origin: string, headers: IncomingHttpHeaders, trustProxy: number): boolean {
  if (origin.length > MAX_HOST || !URL.canParse(origin)) return false;
  const { protocol, host } = new URL(origin);
  const scheme = reportedScheme(headers, trustProxy);
  if (scheme !== undefined && protocol !== `${scheme.toLowerCase()}:`) return false;
  // The scheme may be unknown behind a proxy that terminates TLS, so only the host is compared. `URL` removes default ports.
  const own = `${protocol}//${headers.host ?? ''}`;
  return URL.canParse(own) && new URL(own).host === host;
}

/** Whether CORS_ORIGINS lists an origin, or its name with `*` in place of the first label. */
const isListed = (origin: string, corsOrigins: readonly string[]): boolean =>
  corsOrigins.includes(origin) ||
  corsOrigins.includes(origin.replace(/^(https?:\/\/)[a-z\d_-]+(?=\.)/, '$1*'));

/** The origin for links to the service: of PUBLIC_URL the one with the host of the request, else the first. */
export function originForLinks(
  { host = 'localhost' }: IncomingHttpHeaders,
  isSecure: boolean,
  publicUrl: readonly string[],
): string {
  const requested = publicUrl.find((origin) => new URL(origin).host === host);
  return requested ?? publicUrl[0] ?? `${isSecure ? 'https' : 'http'}://${host}`;
}

/**
 * Refuses cross-site request forgery: a page of another origin can make a browser send a write with stored credentials.
 * @param corsOrigins other origins whose pages may write; none in the admin area
 * @throws Problem 403
 */
export function assertOrigin(
  headers: IncomingHttpHeaders,
  { publicUrl, trustProxy }: Pick<Settings, 'publicUrl' | 'trustProxy'>,
  corsOrigins?: readonly string[],
): void {
  const { origin, host = '' } = headers;
  if (origin !== undefined && corsOrigins && isListed(origin, corsOrigins)) return;
  if (origin !== undefined && !publicUrl.includes(origin) && !isSameOrigin(origin, headers, trustProxy)) {
    const scheme = reportedScheme(headers, trustProxy);
    const own = scheme === undefined ? host : `${scheme.toLowerCase()}://${host}`;
    const other = corsOrigins ? messageOf('orCorsOrigins') : '';
    throw new Problem(
      403,
      messageOf('otherOrigin', { origin: excerpt(origin), own: excerpt(own), others: other }),
    );
  }
  const site = headers['sec-fetch-site'];
  if (site === 'cross-site' || site === 'same-site') throw new Problem(403, messageOf('otherSite', { site }));
}

const ALLOWED_HEADERS =
  'Authorization, Content-Type, Idempotency-Key, If-Match, If-None-Match, Prefer, Vitrine-Position';
/** Names of headers, as browsers ask for them. */
const HEADER_NAMES = /^[\w!#$%&'*+.^`|~-]+(?: *, *[\w!#$%&'*+.^`|~-]+)*$/;

/** The CORS headers of a response. Only origins in CORS_ORIGINS are allowed. */
export function corsHeaders(
  method: string,
  headers: IncomingHttpHeaders,
  corsOrigins: readonly string[],
): Record<string, string> {
  const { origin } = headers;
  if (origin === undefined || !isListed(origin, corsOrigins)) return { Vary: 'Origin' };
  const allowed = { Vary: 'Origin', 'Access-Control-Allow-Origin': origin };
  if (method !== 'OPTIONS' || headers['access-control-request-method'] === undefined) {
    return {
      ...allowed,
      'Access-Control-Expose-Headers':
        'ETag, Idempotency-Replayed, Link, Location, Preference-Applied, Retry-After, Vitrine-Position, X-Total-Count',
    };
  }
  // Scripts for tracing and the like add headers. The service ignores those that it does not know.
  const asked = headers['access-control-request-headers'] ?? '';
  return {
    ...allowed,
    Vary: 'Origin, Access-Control-Request-Headers',
    'Access-Control-Allow-Methods': 'GET, HEAD, POST, PUT, PATCH, DELETE',
    'Access-Control-Allow-Headers': HEADER_NAMES.test(asked)
      ? `${ALLOWED_HEADERS}, ${asked}`
      : ALLOWED_HEADERS,
    'Access-Control-Max-Age': '600',
  };
}
