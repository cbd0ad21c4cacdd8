import type { Settings } from '../../config.ts';
import { Problem } from '../../errors.ts';
import { assertOrigin } from '../../http/auth/request-origin.ts';
import type { ApiRequest, Reply } from '../../http/message/message.ts';
import type { Caller } from '../../resources/serve/served-resource.ts';
import { isSigned, readCookie, signature, setCookie } from './cookies.ts';
import type { Form } from './form-data.ts';

/** A message about what has just been done, shown once on the next page. */
export interface Flash {
  readonly kind: 'done' | 'failed';
  readonly text: string;
  /** Where that can be looked at. */
  readonly href?: string;
}

/** A request to the admin area by an admin who is logged in. */
export interface AdminRequest {
  readonly request: ApiRequest;
  readonly caller: Caller;
  /** The session's token. */
  readonly token: string;
  /** What every form carries back; see `assertSameSite`. */
  readonly csrf: string;
  readonly flash: Flash | undefined;
  /** The lists that there are, for the head of each page. */
  readonly menu: readonly MenuItem[];
}

export interface MenuItem {
  readonly text: string;
  readonly href: string;
}

/** The value of a form's hidden field: only a page that was made for this session has it. */
export const csrfOf = (token: string): string => signature(token, 'form');

/** Whether the form was made for this session. */
export const hasValidCsrf = (form: Form, token: string): boolean =>
  isSigned(token, 'form', form.get('_csrf') ?? '');

/** Whether the browser says that the form comes from a page of this very site, once the origin was found to be no other one. */
export const isSameOriginForm = ({ headers }: ApiRequest): boolean =>
  headers['sec-fetch-site'] === 'same-origin' || headers.origin !== undefined;

export const staleForm = (): Problem =>
  new Problem(403, 'This form is no longer valid. Go back, reload the page, and try again.');

/**
 * Refuses a form that a foreign page has sent: by where the browser says that it comes from, and by the token that it carries.
 * @throws Problem 403
 */
export function assertSameSite(
  request: ApiRequest,
  form: Form,
  token: string | undefined,
  { trustProxy }: Pick<Settings, 'trustProxy'>,
): void {
  assertOrigin(request.headers, { corsOrigins: [], trustProxy });
  if (token === undefined || !hasValidCsrf(form, token)) throw staleForm();
}

/** The message that the page before has left. */
export function readFlash(request: ApiRequest, token: string): Flash | undefined {
  const [payload = '', sealed = ''] = (readCookie(request, 'flash') ?? '').split('.');
  if (payload === '' || !isSigned(token, `flash ${payload}`, sealed)) return undefined;
  return JSON.parse(Buffer.from(payload, 'base64url').toString()) as Flash;
}

/**
 * The query of the list from which the visitor comes, to go back to it: as the form or the address carries it, else by the page
 * on which the link stood.
 */
export function listQuery({ request }: AdminRequest, model: string, sent?: Form): string | undefined {
  if (sent) return sent.get('_list');
  const carried = new URLSearchParams(request.query).get('_list');
  if (carried !== null) return carried;
  const referer = request.headers.referer ?? '';
  if (referer.length > MAX_REFERER || !URL.canParse(referer)) return undefined;
  const { pathname, search } = new URL(referer);
  return pathname === `/admin/${model}/` && search !== '' ? search.slice(1) : undefined;
}

/** The most characters of a `Referer` that is read: the address of a list with the longest query. */
const MAX_REFERER = 9000;

/** Sends the browser on after a form was done. */
export function redirect(location: string, cookies: readonly string[] = []): Reply {
  return {
    status: 303,
    headers: { Location: location, 'Cache-Control': 'no-store', 'Set-Cookie': cookies },
    body: '',
  };
}

/** Sends the browser on, with a message for the next page. */
export function redirectWith({ request, token }: AdminRequest, location: string, flash: Flash): Reply {
  const text = flash.text.length > 500 ? `${flash.text.slice(0, 500)}…` : flash.text;
  const payload = Buffer.from(JSON.stringify({ ...flash, text })).toString('base64url');
  return redirect(location, [
    setCookie(request, 'flash', `${payload}.${signature(token, `flash ${payload}`)}`, 60),
  ]);
}
