// Cost by the number of rows of a table.
import { BASE, get, numbers, writing, type Row } from '../../rows.ts';
import { whole } from '../../tables.ts';
import type { Axis, Point } from '../axis.ts';
import { addMessages, addUsers, createUsers, MESSAGE, OWNED, USER, WRITERS } from './resources.ts';

const SIZES = [10_000, 100_000, 1_000_000, 10_000_000];
const SHORT_SIZES = [1000, 10_000];
const CURSORS = { Prefer: 'paging=cursor' };
const text = (n: number, connection: number): string =>
  `Written ${n} over connection ${connection}, of about the same length as the messages that are there.`;

const post = (connection: number) =>
  numbers(connection, 1).map((_, n) =>
    writing('POST', connection % WRITERS, BASE, { content: text(n, connection) }),
  );

/** @param users how many users share the first messages, in turn */
const put = (connection: number, users: number) =>
  numbers(connection, 1).map((_, n) =>
    writing('PUT', connection, `${BASE}${1 + connection + (n % OWNED) * users}/`, {
      content: text(n, connection),
    }),
  );

/** Requests for a table of messages with the keys 1 to `size`. */
export const byId = (size: number): Row => ({
  name: 'by id',
  status: 200,
  requests: (connection) => numbers(connection, size).map((id) => get(`${BASE}${id}/`)),
});

export const FIRST_PAGE: Row = { name: 'first page', status: 200, requests: () => [get(BASE)] };

export const POST: Row = { name: 'POST', status: 201, requests: post };

const requestsOf = (size: number, firstSize: number): readonly Row[] => [
  byId(size),
  FIRST_PAGE,
  {
    name: 'page by cursor, in the middle',
    status: 200,
    linkOn: `${BASE}?id__gt=${size / 2}`,
    requests: (_connection, link) => [get(link, CURSORS)],
  },
  {
    name: 'by foreign key',
    status: 200,
    requests: (connection) => numbers(connection, size / OWNED).map((id) => get(`${BASE}?user=${id}`)),
  },
  POST,
  { name: 'PUT', status: 200, requests: (connection) => put(connection, firstSize / OWNED) },
];

export const rows: Axis = {
  name: 'rows',
  title: 'Rows of a table',
  unit: 'rows',
  text: `One table of messages, ${OWNED} of each user, in a database that grows. 16 connections read random records, pages of 20 records, and write with
credentials and history. The ${whole(8000)} records of a measurement are in PostgreSQL's cache after the warm-up.`,
  run: (stage) =>
    stage.withDatabase(async (database) => {
      const { query } = database;
      const registry = await stage.writeRegistry([USER, MESSAGE]);
      const sizes = stage.isShort ? SHORT_SIZES : SIZES;
      const points: Point[] = [];
      const facts: string[][] = [];
      let before = 0;
      for (const size of sizes) {
        stage.say(`  filling ${whole(size)} rows ...`);
        if (before === 0) await createUsers(database, registry, size / OWNED);
        else await addUsers(query, before / OWNED, size / OWNED);
        await addMessages(query, before, size);
        await stage.withServer(database, { RESOURCES: registry }, async (server) => {
          points.push(
            ...(await stage.measureAll(database, server, size, requestsOf(size, sizes[0] ?? size))),
          );
          const [found] = await query<{ bytes: string }>(
            `select pg_total_relation_size('message')::text as bytes`,
          );
          const memory = await server.memory();
          facts.push([
            whole(size),
            whole(Number(found?.bytes) / 2 ** 20),
            whole(server.start),
            whole(memory),
          ]);
        });
        await query(`delete from message where id > ${size}`);
        before = size;
      }
      const head = ['rows', 'table and indexes MB', 'start ms', 'MB after the load'];
      return { points, facts: { head, body: facts } };
    }),
};
