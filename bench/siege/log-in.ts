// Logs in by the API.
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
