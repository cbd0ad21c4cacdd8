// Reads and sets the cookies of the admin area, and signs texts with a session's token.
import { createHmac, timingSafeEqual } from 'node:crypto';
import type { ApiRequest } from '../../http/message/message.ts';

/** The session, the token that binds the login form to a browser, and the flash message for the next page. */
export type CookieName = 'session' | 'login' | 'flash';

/** Browsers accept a cookie with this prefix only over TLS, so a network attacker cannot plant one. */
const SECURE_PREFIX = '__Secure-';
const PATH = '/admin/';

function cookiesOf({ headers }: ApiRequest): ReadonlyMap<string, string> {
  const cookies = new Map<string, string>();
  for (const part of (headers.cookie ?? '').split(';')) {
    const equals = part.indexOf('=');
    const key = part.slice(0, equals).trim();
    if (equals > 0 && !cookies.has(key)) cookies.set(key, part.slice(equals + 1).trim());
  }
  return cookies;
}

/**
 * Whether the browser uses TLS. Behind a proxy that `TRUST_PROXY` does not cover, two signs show it: an `https:` origin, which
 * browsers send with a form, and secure cookies that were set before.
 */
export const usesTls = (request: ApiRequest): boolean =>
  request.client().isSecure ||
  request.headers.origin?.startsWith('https://') === true ||
  [...cookiesOf(request).keys()].some((key) => key.startsWith(`${SECURE_PREFIX}admin-`));

/** The value of a cookie. The secure one takes precedence; where TLS is certain, only that one counts. */
export function readCookie(request: ApiRequest, name: CookieName): string | undefined {
  const cookies = cookiesOf(request);
  const secure = cookies.get(`${SECURE_PREFIX}admin-${name}`);
  return request.client().isSecure ? secure : (secure ?? cookies.get(`admin-${name}`));
}

/** @param seconds how long the browser keeps it: 0 deletes it, undefined keeps it until the browser closes */
export function setCookie(request: ApiRequest, name: CookieName, value: string, seconds?: number): string {
  const secure = usesTls(request);
  const age = seconds === undefined ? '' : `; Max-Age=${seconds}`;
  return `${secure ? SECURE_PREFIX : ''}admin-${name}=${value}; Path=${PATH}; HttpOnly; SameSite=Lax${secure ? '; Secure' : ''}${age}`;
}

/** A MAC keyed with the session's token. It binds a form or a message to the session. */
export const signature = (token: string, text: string): string =>
  createHmac('sha256', token).update(text).digest('base64url');

/** Whether `mac` is the signature of the text, compared in constant time. */
export function isSigned(token: string, text: string, mac: string): boolean {
  const [expected, actual] = [Buffer.from(signature(token, text)), Buffer.from(mac)];
  return expected.length === actual.length && timingSafeEqual(expected, actual);
}
