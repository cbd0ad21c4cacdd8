import { fromNewAddress } from '../http/expect.ts';
import type { TestService } from '../support.ts';

/** Fields of a form; a list stands for several fields of one name. */
export type Fields = Readonly<Record<string, string | readonly string[]>>;

/** An answer of the admin area. */
export interface AdminAnswer {
  readonly status: number;
  readonly headers: Headers;
  readonly text: string;
  /** Where it sends the browser, if it does. */
  readonly location: string | undefined;
}

/** A browser without a window: it keeps cookies, and fills in what protects forms. */
export interface Browser {
  /** By name, as they would be sent. */
  readonly cookies: Map<string, string>;
  readonly get: (path: string, headers?: Record<string, string>) => Promise<AdminAnswer>;
  /** Sends a form as its page would; `_csrf` is filled in unless it is given. */
  readonly post: (path: string, fields?: Fields, headers?: Record<string, string>) => Promise<AdminAnswer>;
  /** Sends a form with a file in it. */
  readonly upload: (path: string, form: FormData) => Promise<AdminAnswer>;
  /** The page that an answer sends the browser to. */
  readonly follow: (answer: AdminAnswer) => Promise<AdminAnswer>;
}

/** The value of the hidden field that protects the first form of a page. */
export const csrfIn = (page: string): string => /name="_csrf" value="([^"]*)"/.exec(page)?.[1] ?? '';

/** A browser that nobody has logged in with. */
export function openBrowser({ base }: Pick<TestService, 'base'>): Browser {
  const cookies = new Map<string, string>();
  let csrf = '';

  async function send(
    path: string,
    headers: Record<string, string>,
    body?: URLSearchParams | FormData,
  ): Promise<AdminAnswer> {
    const cookie = [...cookies].map(([name, value]) => `${name}=${value}`).join('; ');
    const response = await fetch(`${base}${path}`, {
      method: body ? 'POST' : 'GET',
      redirect: 'manual',
      headers: { ...(cookie === '' ? {} : { cookie }), ...(body ? { origin: base } : {}), ...headers },
      ...(body ? { body } : {}),
    });
    for (const line of response.headers.getSetCookie()) {
      const [, name = '', value = ''] = /^([^=]+)=([^;]*)/.exec(line) ?? [];
      if (value === '' || /; Max-Age=0\b/.test(line)) cookies.delete(name);
      else cookies.set(name, value);
    }
    const text = await response.text();
    csrf = csrfIn(text) || csrf;
    const location = response.headers.get('location') ?? undefined;
    return { status: response.status, headers: response.headers, text, location };
  }

  const browser: Browser = {
    cookies,
    get: (path, headers = {}) => send(path, headers),
    post(path, fields = {}, headers = {}) {
      const body = new URLSearchParams();
      for (const [name, values] of Object.entries({ _csrf: csrf, ...fields }))
        for (const value of [values].flat()) body.append(name, value);
      return send(path, headers, body);
    },
    upload(path, form) {
      if (!form.has('_csrf')) form.append('_csrf', csrf);
      return send(path, {}, form);
    },
    follow: (answer) => send(answer.location ?? '/admin/', {}),
  };
  return browser;
}

/** Logs in by the login page, as a user whose password is `pw-` and the name unless it is given. */
export async function logIn(
  service: Pick<TestService, 'base'>,
  name: string,
  password = `pw-${name}`,
): Promise<Browser> {
  const browser = openBrowser(service);
  await browser.get('/admin/-/login/');
  const answer = await browser.post('/admin/-/login/', { username: name, password });
  if (answer.status !== 303) throw new Error(`the login was answered with ${answer.status}`);
  // Any page of the session has the token that its forms carry.
  await browser.get('/admin/-/account/');
  return browser;
}

/** Undoes the escaping of a page. */
export const unescaped = (text: string): string =>
  text.replace(
    /&(lt|gt|quot|amp|#39);/g,
    (_, name: string) => ({ lt: '<', gt: '>', quot: '"', amp: '&', '#39': "'" })[name] ?? '',
  );

/** What people read of a page's main part, on one line. */
export const readable = ({ text }: AdminAnswer): string =>
  unescaped((/<main[\s\S]*<\/main>/.exec(text)?.[0] ?? '').replace(/<[^>]*>/g, ' '))
    .replace(/\s+/g, ' ')
    .replace(/ (?=[.,”])/g, '')
    .trim();

/** The hidden fields of the first form of a page that has this class, each a list. */
export function hiddenFields({ text }: AdminAnswer, className: string): Record<string, string[]> {
  const form =
    new RegExp(`<form[^>]*class="[^"]*\\b${className}\\b[^"]*"[\\s\\S]*?</form>`).exec(text)?.[0] ?? '';
  const fields: Record<string, string[]> = {};
  for (const [tag] of form.matchAll(/<input[^>]*type="hidden"[^>]*>/g)) {
    const [, name = ''] = /name="([^"]*)"/.exec(tag) ?? [];
    const [, value = ''] = /value="([^"]*)"/.exec(tag) ?? [];
    (fields[unescaped(name)] ??= []).push(unescaped(value));
  }
  return fields;
}

/** What a form would send as it stands: the values of its inputs, texts and choices. */
export function fieldsOf({ text }: AdminAnswer): Record<string, string> {
  const form =
    /<form[^>]*class="(?:record|conflict|lookup|login|add-filter)"[\s\S]*?<\/form>/.exec(text)?.[0] ?? '';
  const fields: Record<string, string> = {};
  const attribute = (tag: string, name: string): string | undefined =>
    unescaped(new RegExp(`\\s${name}="([^"]*)"`).exec(tag)?.[1] ?? '\0').replace('\0', '') || undefined;
  for (const [tag] of form.matchAll(/<input\b[^>]*>/g)) {
    const name = attribute(tag, 'name');
    const isBox = /type="(checkbox|radio)"/.test(tag);
    if (name !== undefined && (!isBox || /\schecked\b/.test(tag)))
      fields[name] = attribute(tag, 'value') ?? '';
  }
  for (const [, tag = '', content = ''] of form.matchAll(/<textarea\b([^>]*)>([\s\S]*?)<\/textarea>/g))
    fields[attribute(tag, 'name') ?? ''] = unescaped(content.replace(/^\n/, ''));
  for (const [, tag = '', content = ''] of form.matchAll(/<select\b([^>]*)>([\s\S]*?)<\/select>/g)) {
    const chosen =
      /<option value="([^"]*)"[^>]*\sselected/.exec(content) ?? /<option value="([^"]*)"/.exec(content);
    fields[attribute(tag, 'name') ?? ''] = unescaped(chosen?.[1] ?? '');
  }
  return fields;
}

/** Who tries to log in, with which browser, and what comes with the request; each try has an address of its own. */
export type Attempt = [name: string, password: string, browser?: Browser, headers?: Record<string, string>];

/** Sends the login form, whatever comes of it. */
export async function attemptLogin(
  service: Pick<TestService, 'base'>,
  ...[username, password, browser = openBrowser(service), headers = fromNewAddress()]: Attempt
): Promise<AdminAnswer> {
  await browser.get('/admin/-/login/', headers);
  return browser.post('/admin/-/login/', { username, password }, headers);
}
