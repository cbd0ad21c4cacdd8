import { fromNewAddress } from '../http/expect.ts';
import { send } from '../send.ts';
import { startService, useService, type TestService } from '../support.ts';

/** The fields of a form. A list sends one field for each value. */
export type Fields = Readonly<Record<string, string | readonly string[]>>;

/** A response of the admin area. */
export interface AdminAnswer {
  readonly status: number;
  readonly headers: Headers;
  readonly text: string;
  /** The address of a redirect. */
  readonly location: string | undefined;
}

/** A client that keeps cookies and fills in the CSRF token. It does not follow redirects by itself. */
export interface Browser {
  /** Cookie values by name. */
  readonly cookies: Map<string, string>;
  readonly get: (path: string, headers?: Record<string, string>) => Promise<AdminAnswer>;
  /** Sends a form. `_csrf` defaults to the token of the last page. */
  readonly post: (path: string, fields?: Fields, headers?: Record<string, string>) => Promise<AdminAnswer>;
  /** Sends a multipart form. `_csrf` defaults to the token of the last page. */
  readonly upload: (path: string, form: FormData) => Promise<AdminAnswer>;
  /** Gets the page that a response redirects to. */
  readonly follow: (answer: AdminAnswer) => Promise<AdminAnswer>;
}

/** The CSRF token of the first form of a page, or an empty string. */
export const csrfIn = (page: string): string => /name="_csrf" value="([^"]*)"/.exec(page)?.[1] ?? '';

/** Opens a browser without a session. */
export function openBrowser({ base }: Pick<TestService, 'base'>): Browser {
  const cookies = new Map<string, string>();
  let csrf = '';

  async function sendWithCookies(
    path: string,
    headers: Record<string, string>,
    body?: URLSearchParams | FormData,
  ): Promise<AdminAnswer> {
    const cookie = [...cookies].map(([name, value]) => `${name}=${value}`).join('; ');
    const {
      status,
      headers: received,
      text,
    } = await send(`${base}${path}`, {
      method: body ? 'POST' : 'GET',
      headers: { ...(cookie === '' ? {} : { cookie }), ...(body ? { origin: base } : {}), ...headers },
      body,
    });
    for (const line of received.getSetCookie()) {
      const [, name = '', value = ''] = /^([^=]+)=([^;]*)/.exec(line) ?? [];
      if (value === '' || /; Max-Age=0\b/.test(line)) cookies.delete(name);
      else cookies.set(name, value);
    }
    csrf = csrfIn(text) || csrf;
    return { status, headers: received, text, location: received.get('location') ?? undefined };
  }

  const browser: Browser = {
    cookies,
    get: (path, headers = {}) => sendWithCookies(path, headers),
    post(path, fields = {}, headers = {}) {
      const body = new URLSearchParams();
      for (const [name, values] of Object.entries({ _csrf: csrf, ...fields }))
        for (const value of [values].flat()) body.append(name, value);
      return sendWithCookies(path, headers, body);
    },
    upload(path, form) {
      if (!form.has('_csrf')) form.append('_csrf', csrf);
      return sendWithCookies(path, {}, form);
    },
    follow: (answer) => sendWithCookies(answer.location ?? '/admin/', {}),
  };
  return browser;
}

/** Logs in through the login page. @throws Error when the login fails */
export async function logIn(
  service: Pick<TestService, 'base'>,
  name: string,
  password = `pw-${name}`,
): Promise<Browser> {
  const browser = openBrowser(service);
  await browser.get('/admin/-/login/');
  const answer = await browser.post('/admin/-/login/', { username: name, password });
  if (answer.status !== 303) throw new Error(`the login returned ${answer.status}`);
  // The login page had another token: each page of the session has the one of the session.
  await browser.get('/admin/-/account/');
  return browser;
}

/** Starts a service with the admin `ada`. @returns also the browser in which she is logged in */
export async function startAdmin(
  ...parameters: Parameters<typeof startService>
): Promise<{ service: TestService; ada: Browser }> {
  const service = await startService(...parameters);
  await service.addUser('ada', { admin: true });
  return { service, ada: await logIn(service, 'ada') };
}

/** The same for the tests of this block. Both have their members only then. */
export function useAdmin(
  resources?: Parameters<typeof startService>[0],
  options?: Parameters<typeof startService>[1],
  fill?: () => unknown,
): { service: TestService; ada: Browser } {
  const ada = {} as Browser;
  // Hooks outside of any suite must be one.
  const service = useService(resources, options, async () => {
    await service.addUser('ada', { admin: true });
    Object.assign(ada, await logIn(service, 'ada'));
    await fill?.();
  });
  return { service, ada };
}

/** Sends the form of a page with these changes. */
export const save = async (browser: Browser, path: string, changes: Fields): Promise<AdminAnswer> =>
  browser.post(path, { ...fieldsOf(await browser.get(path)), ...changes });

/** Confirms the deletion of a record on its page. */
export const remove = async (browser: Browser, path: string): Promise<AdminAnswer> =>
  browser.post(path, hiddenFields(await browser.get(path), 'confirm'));

/** Runs a bulk action, and confirms it. */
export async function runBulk(browser: Browser, model: string, choice: Fields): Promise<AdminAnswer> {
  const path = `/admin/${model}/-/bulk/`;
  const page = await browser.post(path, { _state: '', _value: '1', ...choice });
  const form = choice['_action'] === 'delete' ? 'confirm' : 'record';
  return browser.post(path, { ...hiddenFields(page, form), _confirm: '1' });
}

/** Sends a multipart form. For long texts it is a third of a URL-encoded one. */
export function postMultipart(browser: Browser, path: string, fields: Fields): Promise<AdminAnswer> {
  const form = new FormData();
  for (const [name, values] of Object.entries(fields))
    for (const value of [values].flat()) form.append(name, value);
  return browser.upload(path, form);
}

/** The lines of a CSV file. */
export const crlf = (...lines: readonly string[]): string => lines.map((line) => `${line}\r\n`).join('');

/** Uploads a file for an import. @returns its preview */
export function uploadFile(
  browser: Browser,
  path: string,
  content: string | Uint8Array,
): Promise<AdminAnswer> {
  const form = new FormData();
  form.append('_file', new Blob([content], { type: 'text/csv' }), 'records.csv');
  form.append('_text', '');
  return browser.upload(path, form);
}

/** Confirms the preview of an import. */
export const confirmImport = (
  browser: Browser,
  path: string,
  preview: AdminAnswer,
  typed: Fields = {},
): Promise<AdminAnswer> => browser.post(path, { ...fieldsOf(preview), ...typed });

/** Decodes the entities that the pages use. */
export const unescaped = (text: string): string =>
  text.replace(
    /&(lt|gt|quot|amp|#39);/g,
    (_, name: string) => ({ lt: '<', gt: '>', quot: '"', amp: '&', '#39': "'" })[name] ?? '',
  );

/** The text of a page's `<main>` without markup, on one line. */
export const readable = ({ text }: AdminAnswer): string =>
  unescaped((/<main[\s\S]*<\/main>/.exec(text)?.[0] ?? '').replace(/<[^>]*>/g, ' '))
    .replace(/\s+/g, ' ')
    .replace(/ (?=[.,”])/g, '')
    .trim();

/** The values of the hidden fields of the first form with this class, by name. */
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

/** The error messages of a form, by field. */
export const errorsIn = ({ text }: AdminAnswer): Record<string, string> =>
  Object.fromEntries(
    [...text.matchAll(/<p class="error" id="field-([\w.]+?)(?:-error)?">([\s\S]*?)<\/p>/g)].map(
      ([, key = '', content = '']) => [key, unescaped(content.replace(/<[^>]+>/g, '')).trim()],
    ),
  );

/** The fields of a form with an error, in the order of the page. */
export const invalidFields = ({ text }: AdminAnswer): string[] =>
  [...text.matchAll(/id="field-(\w+)-error"/g)].map(([, name = '']) => name);

/** The fields that a browser would send for the form of a page without further input. */
export function fieldsOf({ text }: AdminAnswer): Record<string, string> {
  const form = /<form[^>]*class="(?:record|conflict|lookup|login)"[\s\S]*?<\/form>/.exec(text)?.[0] ?? '';
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

/** The parameters of a login attempt. The default is a new browser at a new client address. */
export type Attempt = [name: string, password: string, browser?: Browser, headers?: Record<string, string>];

/** Sends the login form. @returns the response of any status */
export async function attemptLogin(
  service: Pick<TestService, 'base'>,
  ...[username, password, browser = openBrowser(service), headers = fromNewAddress()]: Attempt
): Promise<AdminAnswer> {
  await browser.get('/admin/-/login/', headers);
  return browser.post('/admin/-/login/', { username, password }, headers);
}
