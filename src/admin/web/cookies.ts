// Reads and sets the cookies of the admin area, and signs texts with a session's token.
import { createHmac, timingSafeEqual } from 'node:crypto';
import { withBasePath } from '../../http/message/base-path.ts';
import type { ApiRequest } from '../../http/message/message.ts';

/**
 * The session, the token that binds the login form to a browser, the flash message for the next page, the position of the last
 * write, and the time zone and the language that the user has chosen.
 */
type CookieName = (typeof NAMES)[number];
const NAMES = ['session', 'login', 'flash', 'position', 'zone', 'language'] as const;

/** Browsers accept a cookie with this prefix only over TLS, so a network attacker cannot plant one. */
const SECURE_PREFIX = '__Secure-';
const PATH = '/admin/';

/**
 * Finds one cookie without reading the others, of which a client can send thousands. Another site of the same domain can set a
 * cookie of this name too, and browsers may send that one first, so two different values are ignored.
 * @returns empty if there are several
 */
function cookie({ headers }: ApiRequest, name: string): string | undefined {
  const header = headers.cookie ?? '';
  let found: string | undefined;
  for (let at = header.indexOf(`${name}=`); at >= 0; at = header.indexOf(`${name}=`, at + 1)) {
    let start = at;
    while (header[start - 1] === ' ') start -= 1;
    if (start > 0 && header[start - 1] !== ';') continue; // the end of a longer name, or a part of a value
    const [text = ''] = header.slice(at + name.length + 1).split(';', 1);
    const value = text.trim();
    if (found !== undefined && found !== value) return '';
    found = value;
  }
  return found;
}

const secureCookie = (request: ApiRequest, name: CookieName): string | undefined =>
  cookie(request, `${SECURE_PREFIX}admin-${name}`);

/**
 * Whether the browser uses TLS. Behind a proxy that `TRUST_PROXY` does not cover, two signs show it: an `https:` origin, which
 * browsers send with a form, and secure cookies that were set before.
 */
const usesTls = (request: ApiRequest): boolean =>
  request.client().isSecure ||
  request.headers.origin?.startsWith('https://') === true ||
  NAMES.some((name) => secureCookie(request, name) !== undefined);

/**
 * What a request has as a cookie. The secure one takes precedence; where TLS is certain, only that one counts.
 * @returns undefined without the cookie, empty if it is empty or has several values
 */
function sentCookie(request: ApiRequest, name: CookieName): string | undefined {
  const secure = secureCookie(request, name);
  return request.client().isSecure ? secure : (secure ?? cookie(request, `admin-${name}`));
}

/** The value of a cookie, if it has one. */
export function readCookie(request: ApiRequest, name: CookieName): string | undefined {
  const value = sentCookie(request, name);
  return value === '' ? undefined : value;
}

/**
 * The position of the last write, for `Replicas.reading`. Cookies with different values give the empty text, which leads to the
 * primary like any invalid position: the browser has written, but it is not known which position is right.
 */
export const readPosition = (request: ApiRequest): string | undefined => sentCookie(request, 'position');

/** @param seconds how long the browser keeps it: 0 deletes it, undefined keeps it until the browser closes */
export function setCookie(request: ApiRequest, name: CookieName, value: string, seconds?: number): string {
  const secure = usesTls(request);
  const age = seconds === undefined ? '' : `; Max-Age=${seconds}`;
  return `${secure ? SECURE_PREFIX : ''}admin-${name}=${value}; Path=${withBasePath(PATH)}; HttpOnly; SameSite=Lax${secure ? '; Secure' : ''}${age}`;
}

/** A MAC keyed with the session's token. It binds a form or a message to the session. */
export const signature = (token: string, text: string): string =>
  createHmac('sha256', token).update(text).digest('base64url');

/** Whether `mac` is the signature of the text, compared in constant time. */
export function isSigned(token: string, text: string, mac: string): boolean {
  const [expected, actual] = [Buffer.from(signature(token, text)), Buffer.from(mac)];
  return expected.length === actual.length && timingSafeEqual(expected, actual);
}
