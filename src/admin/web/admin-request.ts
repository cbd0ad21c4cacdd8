// What a request of the admin area carries beside its address: CSRF tokens, flash messages, the list to go back to; and redirects.
import { asProblem, DatabaseFault } from '../../db/connection/database-errors.ts';
import { Problem } from '../../errors.ts';
import type { ApiRequest, Reply } from '../../http/message/message.ts';
import type { AdminContext, Flash, ResourceContext } from './admin-context.ts';
import { links } from './admin-links.ts';
import { isSigned, readCookie, signature, setCookie } from './cookies.ts';
import type { Form } from './form-data.ts';
import { t } from './language.ts';

/** The CSRF token of a session. Only a page made for this session contains it. */
export const csrfOf = (token: string): string => signature(token, 'form');

/** Whether the form carries the CSRF token of this session. */
export const hasValidCsrf = (form: Form, token: string): boolean =>
  isSigned(token, 'form', form.get('_csrf') ?? '');

/** Whether the browser names this site as the form's origin. Call it after `assertOrigin`, which rejects other origins. */
export const isSameOriginForm = ({ headers }: ApiRequest): boolean =>
  headers['sec-fetch-site'] === 'same-origin' || headers.origin !== undefined;

export const staleForm = (): Problem => new Problem(403, t('formExpired'));

/** The message that the last action left in a cookie. */
export function readFlash(request: ApiRequest, token: string): Flash | undefined {
  const [payload = '', mac = ''] = (readCookie(request, 'flash') ?? '').split('.');
  if (payload === '' || !isSigned(token, `flash ${payload}`, mac)) return undefined;
  return JSON.parse(Buffer.from(payload, 'base64url').toString()) as Flash;
}

/**
 * The query of the list that the user came from, for the way back. It comes from the form or the address (`_list`), else from the
 * `Referer` header.
 */
export function listQuery({ request, resource }: ResourceContext, sent?: Form): string | undefined {
  if (sent) return sent.get('_list');
  const carried = new URLSearchParams(request.query).get('_list');
  if (carried !== null) return carried;
  const referer = request.headers.referer ?? '';
  if (referer.length > MAX_REFERER || !URL.canParse(referer)) return undefined;
  const { pathname, search } = new URL(referer);
  return pathname === links.list(resource.name) ? search.slice(1) : undefined;
}

/** Longer `Referer` headers are ignored (characters). A list with the longest query fits. */
const MAX_REFERER = 9000;

/** A placeholder for the service's origin, to resolve addresses as browsers do. */
const PLACEHOLDER_ORIGIN = 'http://here.invalid';

/** Maximum bytes of an address in `Location`, percent-encoded. Proxies such as nginx accept 4 KiB of headers. */
const MAX_ADDRESS = 2500;

/** The address; if it is too long, without its query; if that is too long, the start page. */
export function shortAddress(address: string): string {
  const isShort = (candidate: string): boolean => encodeURIComponent(candidate).length <= MAX_ADDRESS;
  return [address, address.split('?', 1)[0] ?? ''].find(isShort) ?? links.dashboard;
}

/** Where to go after the login: a path below `/admin/`, else the start page. Prevents open redirects. */
export function ownPath(next = ''): string {
  if (
    next.length > MAX_ADDRESS ||
    !next.startsWith(links.dashboard) ||
    /[\\\s]/.test(next) ||
    !URL.canParse(next, PLACEHOLDER_ORIGIN)
  )
    return links.dashboard;
  const { origin, pathname, search } = new URL(next, PLACEHOLDER_ORIGIN);
  return origin === PLACEHOLDER_ORIGIN && pathname.startsWith(links.dashboard)
    ? `${pathname}${search}`
    : links.dashboard;
}

/** Redirects the browser, usually after a form. */
export function redirect(location: string, cookies: readonly string[] = []): Reply {
  return {
    status: 303,
    headers: { Location: location, 'Cache-Control': 'no-store', 'Set-Cookie': cookies },
    body: '',
  };
}

/** The reply with more cookies, before those that it sets itself. */
export function withCookies(reply: Reply, cookies: readonly string[]): Reply {
  const own = [reply.headers['Set-Cookie'] ?? []].flat();
  return { ...reply, headers: { ...reply.headers, 'Set-Cookie': [...cookies, ...own] } };
}

/** Characters of the address in a message. Browsers drop cookies of more than 4,096 bytes. */
const MAX_HREF = 1_400;

/** Redirects the browser, with a message for the next page. */
function redirectWith(
  { request, token }: AdminContext,
  location: string,
  { href = '', ...flash }: Flash,
): Reply {
  const text = flash.text.length > 500 ? `${flash.text.slice(0, 500)}…` : flash.text;
  const linked = href === '' || href.length > MAX_HREF ? {} : { href };
  const payload = Buffer.from(JSON.stringify({ ...flash, ...linked, text })).toString('base64url');
  return redirect(location, [
    setCookie(request, 'flash', `${payload}.${signature(token, `flash ${payload}`)}`, 60),
  ]);
}

/** Redirects after a successful action. @param linked links beside the message */
export const redirectDone = (
  context: AdminContext,
  location: string,
  text: string,
  linked: Pick<Flash, 'href' | 'undo'> = {},
): Reply => redirectWith(context, location, { kind: 'done', text, ...linked });

/** Redirects after an action that was not carried out. */
export const redirectFailed = (context: AdminContext, location: string, text: string): Reply =>
  redirectWith(context, location, { kind: 'failed', text });

/** The problem that a page shows for an error. Admins see the reason for a fault of the database; the log has it, too. */
export function shownProblem({ logger }: AdminContext, error: unknown): Problem | undefined {
  if (!(error instanceof DatabaseFault)) return asProblem(error);
  logger.error({ message: error.message, stack: error.stack });
  return new Problem(500, t('databaseFailed', { reason: error.message }));
}
