import { createHmac, timingSafeEqual } from 'node:crypto';
import type { ApiRequest } from '../../http/message/message.ts';

/** The cookies of the admin area: the session, what binds the login form to a browser, and a message for the next page. */
export type CookieName = 'session' | 'login' | 'flash';

/** Browsers take a cookie with this prefix only over TLS, so that nobody on the way can plant one. */
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
 * Whether cookies go over TLS. A proxy that nobody told us to trust is known by the origin, which browsers send with a form, and
 * by the cookies that were set then, which come back over TLS alone.
 */
export const usesTls = (request: ApiRequest): boolean =>
  request.client().isSecure ||
  request.headers.origin?.startsWith('https://') === true ||
  [...cookiesOf(request).keys()].some((key) => key.startsWith(`${SECURE_PREFIX}admin-`));

/** The value of a cookie; the one that only TLS can have set stands before the other, and alone where TLS is certain. */
export function readCookie(request: ApiRequest, name: CookieName): string | undefined {
  const cookies = cookiesOf(request);
  const secure = cookies.get(`${SECURE_PREFIX}admin-${name}`);
  return request.client().isSecure ? secure : (secure ?? cookies.get(`admin-${name}`));
}

/** @param seconds how long the browser keeps it; 0 deletes it, and undefined keeps it until the browser is closed */
export function setCookie(request: ApiRequest, name: CookieName, value: string, seconds?: number): string {
  const secure = usesTls(request);
  const age = seconds === undefined ? '' : `; Max-Age=${seconds}`;
  return `${secure ? SECURE_PREFIX : ''}admin-${name}=${value}; Path=${PATH}; HttpOnly; SameSite=Lax${secure ? '; Secure' : ''}${age}`;
}

/** A text that only the holder of the token can make: binds a form, or a message, to a session. */
export const signature = (token: string, text: string): string =>
  createHmac('sha256', token).update(text).digest('base64url');

export function isSigned(token: string, text: string, sealed: string): boolean {
  const [one, other] = [Buffer.from(signature(token, text)), Buffer.from(sealed)];
  return one.length === other.length && timingSafeEqual(one, other);
}
