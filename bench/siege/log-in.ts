// Logs in by the API.
import { attemptLogin, openBrowser, type Browser } from '../../test/admin/support.ts';
import { PASSWORD } from '../rows.ts';
import { askOnce, type Answer } from './connection.ts';

/** The value of an `Authorization` header. */
export const basic = (name: string, password: string): string =>
  `Basic ${Buffer.from(`${name}:${password}`).toString('base64')}`;

/** An answer and the milliseconds until it was there. */
export type Timed = Answer & { readonly time: number };

/** Asks for what only users may read. */
export const logIn = (
  port: number,
  address: string,
  name: string,
  password = PASSWORD,
  limit?: number,
): Promise<Timed> =>
  askOnce(
    port,
    { path: '/api/diary/', headers: { 'X-Forwarded-For': address, Authorization: basic(name, password) } },
    limit,
  );

/** The address of an honest admin. */
export const HONEST = { 'x-forwarded-for': '198.51.100.10' };

/** Logs in to the admin area. */
export async function openAdmin(port: number, name: string): Promise<Browser> {
  const base = `http://127.0.0.1:${port}`;
  const browser = openBrowser({ base });
  const { status } = await attemptLogin({ base }, name, PASSWORD, browser, HONEST);
  if (status !== 303) throw new Error(`the login of ${name} was answered with ${status}`);
  await browser.get('/admin/-/account/', HONEST); // its form has the session's token
  return browser;
}
