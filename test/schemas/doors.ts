// Two ways to write records: the API, and the forms of the admin area.
import { fieldsOf, hiddenFields, logIn, readable, type AdminAnswer } from '../admin/support.ts';
import { CREDENTIALS, USER, type Values } from './values.ts';

/** The id of the record, or why the write was refused. */
export type Written = { readonly id: string } | { readonly status: number; readonly text: string };

export interface Door {
  readonly name: 'api' | 'admin';
  readonly create: (model: string, values: Values) => Promise<Written>;
  readonly change: (model: string, id: string, values: Values) => Promise<Written>;
  readonly remove: (model: string, id: string) => Promise<Written>;
}

export function openApi(base: string): Door {
  async function send(method: string, path: string, values?: Values): Promise<Written> {
    const response = await fetch(`${base}/api/${path}`, {
      method,
      headers: { ...CREDENTIALS, ...(values ? { 'content-type': 'application/json' } : {}) },
      ...(values ? { body: JSON.stringify(values) } : {}),
    });
    const text = await response.text();
    if (response.status !== (method === 'POST' ? 201 : 200)) return { status: response.status, text };
    const record = JSON.parse(text) as Values;
    const lost = Object.entries(values ?? {}).find(
      ([key, value]) => key in record && !isSame(record[key], value),
    );
    if (lost) return { status: response.status, text: `${lost[0]} is ${JSON.stringify(record[lost[0]])}` };
    return { id: String(record['id']) };
  }
  const path = (model: string, id: string): string => `${model}/${encodeURIComponent(id)}/`;
  return {
    name: 'api',
    create: (model, values) => send('POST', `${model}/`, values),
    change: (model, id, values) => send('PUT', path(model, id), values),
    remove: (model, id) => send('DELETE', path(model, id)),
  };
}

/** Whether a field of an answer has the value that was sent: numbers may be strings, and char(n) is without its padding. */
const isSame = (found: unknown, sent: unknown): boolean =>
  JSON.stringify(found) === JSON.stringify(sent) ||
  (typeof sent !== 'object' && (plain(found) === plain(sent) || Number(found) === Number(sent)));

/** A value as text, as a form has it. */
const plain = (value: unknown): string => (typeof value === 'string' ? value : JSON.stringify(value));

/** What a browser would send for these values. */
function typed(page: AdminAnswer, values: Values): Record<string, string> {
  const fields = fieldsOf(page);
  for (const [key, value] of Object.entries(values)) {
    if (value === null || !page.text.includes(`name="${key}"`)) continue;
    if (value === '') fields[`${key}__empty`] = '1';
    if (value === false && page.text.includes(`type="checkbox" name="${key}"`)) delete fields[key];
    else if (Array.isArray(value)) fields[key] = value.join('\n');
    else fields[key] = plain(value);
  }
  return fields;
}

export async function openAdmin(base: string): Promise<Door> {
  const browser = await logIn({ base }, USER.name, USER.password);
  const address = (model: string, id: string): string => `/admin/${model}/${encodeURIComponent(id)}/`;
  const done = (answer: AdminAnswer, id: string): Written =>
    answer.status === 303 ? { id } : { status: answer.status, text: readable(answer) };
  const opened = async (path: string): Promise<AdminAnswer | Written> => {
    const page = await browser.get(path);
    return page.status === 200 ? page : { status: page.status, text: `GET: ${readable(page)}` };
  };
  return {
    name: 'admin',
    async create(model, values) {
      const page = await opened(`/admin/${model}/-/add/`);
      if (!('headers' in page)) return page;
      const answer = await browser.post(`/admin/${model}/-/add/`, { ...typed(page, values), _save: 'stay' });
      const [, segment = ''] = /^\/admin\/[^/]+\/([^/]+)\//.exec(answer.location ?? '') ?? [];
      return done(answer, decodeURIComponent(segment));
    },
    async change(model, id, values) {
      const page = await opened(address(model, id));
      if (!('headers' in page)) return page;
      return done(await browser.post(address(model, id), { ...typed(page, values), _save: 'list' }), id);
    },
    async remove(model, id) {
      const page = await opened(`${address(model, id)}delete/`);
      if (!('headers' in page)) return page;
      const fields = hiddenFields(page, 'confirm');
      if (Object.keys(fields).length === 0) return { status: 409, text: readable(page) };
      return done(await browser.post(`${address(model, id)}delete/`, fields), id);
    },
  };
}
