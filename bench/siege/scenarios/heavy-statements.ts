// Statements that take PostgreSQL some milliseconds each, over many connections: too short to count as slow.
import { PASSWORD } from '../../rows.ts';
import { addresses, besiege, readRow, writeRows } from '../besiege.ts';
import type { RequestShape } from '../jobs.ts';
import { atLeast, type Scenario } from '../scenario.ts';

const CONNECTIONS = 20;
/** Elements of a JSON array of one megabyte. */
const ELEMENTS = 500_000;
const ONE_ADDRESS = ['10.2.0.1'];

const asUser = (number: number): Record<string, string> => ({
  Authorization: `Basic user${number}:${PASSWORD}`,
  'Content-Type': 'application/json',
});
const users = Array.from({ length: CONNECTIONS }, (_, index) => 100 + index);

const postBy = (user: number): RequestShape => ({
  method: 'POST',
  path: '/api/value/',
  headers: asUser(user),
  body: { before: '{"json":[', repeat: '1,', times: ELEMENTS, after: '1]}' },
});

/** Creates records like this one, so many at a time. */
const postMany = (model: string, record: string, records: number): RequestShape => ({
  method: 'POST',
  path: `/api/${model}/`,
  headers: asUser(7),
  body: { before: '[', repeat: `${record},`, times: records - 1, after: `${record}]` },
});

interface Attack {
  readonly name: string;
  readonly title: string;
  /** @param ids the keys of ten records with a megabyte of JSON each */
  readonly requests: (ids: readonly number[]) => readonly RequestShape[];
  readonly from?: readonly string[];
  readonly connections?: number;
  /** A trigger that lets each insert or update of these records take so many milliseconds. */
  readonly slow?: { readonly on: 'insert' | 'update'; readonly milliseconds: number };
  /** The most times the reference that a read by id may take. */
  readonly limit: number;
}

const slowTrigger = ({ on, milliseconds }: NonNullable<Attack['slow']>): string => `
  create function slow() returns trigger language plpgsql as
    $$ begin perform pg_sleep(${milliseconds} / 1000.0); return null; end $$;
  create trigger slow after ${on} on value for each row execute function slow()`;

const scenario = ({
  name,
  title,
  requests,
  from = ONE_ADDRESS,
  connections = CONNECTIONS,
  slow,
  limit,
}: Attack): Scenario => ({
  name,
  title,
  async run(stage) {
    const { sql } = stage.world;
    const large = await sql<{ id: number }[]>`
      insert into value (string, json)
      select 'large', ('[' || repeat('1,', ${ELEMENTS}::int) || '1]')::jsonb from generate_series(1, 10) returning id`;
    if (slow) await sql.unsafe(slowTrigger(slow)).simple();
    try {
      const siege = await besiege(stage, (port) => [
        {
          kind: 'flood',
          port,
          connections,
          addresses: from,
          requests: requests(large.map(({ id }) => id)),
        },
      ]);
      const rows = [readRow(siege, limit), ...writeRows(stage, siege, 50)];
      // Some writes may get a connection at once and others wait for long, which the median does not show.
      const rate = siege.during.writeRate / siege.reference.writeRate;
      return slow ? [...rows, atLeast('ratio', 'writes per second', 0.6, rate, '×')] : rows;
    } finally {
      if (slow) await sql`drop function slow cascade`;
      // Another attack exports the history, which would be too long for its client.
      await sql`delete from vitrine_history where model in ('value', 'diary')`;
      await sql`delete from diary where entry = 'bulk'`;
      await sql`truncate value restart identity`;
      await sql`insert into value (string) values ('a')`; // as the world has it
    }
  },
});

export const heavyStatements: readonly Scenario[] = [
  scenario({
    name: 'large-posts',
    title: 'one user with 20 connections that creates records with 1 MB of JSON',
    requests: () => [postBy(7)],
    limit: 6,
  }),
  scenario({
    name: 'large-posts-of-many',
    title: '20 users that create records with 1 MB of JSON',
    requests: () => users.map(postBy),
    from: addresses(CONNECTIONS),
    limit: 12,
  }),
  scenario({
    name: 'posts-of-8-kilobytes',
    title: 'one user with 20 connections that creates records with 8 KB of text',
    requests: () => [
      {
        method: 'POST',
        path: '/api/value/',
        headers: asUser(7),
        body: { before: '{"text":"', repeat: 'x', times: 8_000, after: '"}' },
      },
    ],
    limit: 6,
  }),
  scenario({
    name: 'unstorable-json',
    title: 'one user with 5 connections whose JSON of 1 MB cannot be stored',
    requests: ([id]) => [
      {
        method: 'PATCH',
        path: `/api/value/${id}/`,
        headers: asUser(7),
        body: { before: '{"json":[', repeat: String.raw`"\ud800",`, times: 110_000, after: '1]}' },
      },
    ],
    connections: 5,
    limit: 10,
  }),
  scenario({
    name: 'large-patches',
    title: 'one user with 20 connections that changes a short column of records with 1 MB of JSON',
    requests: (ids) =>
      ids.flatMap((id) =>
        ['a', 'b'].map((string) => ({
          method: 'PATCH',
          path: `/api/value/${id}/`,
          headers: asUser(7),
          body: JSON.stringify({ string }),
        })),
      ),
    limit: 5,
  }),
  scenario({
    name: 'large-records',
    title: 'one address with 20 connections that reads records with 1 MB of JSON',
    requests: (ids) => ids.map((id) => ({ path: `/api/value/${id}/` })),
    limit: 5,
  }),
  scenario({
    name: 'long-pages',
    title: 'one address with 20 connections that reads pages of 200 records',
    requests: () =>
      Array.from({ length: 5 }, (_, page) => ({ path: `/api/message/?limit=200&page=${page + 1}` })),
    limit: 6,
  }),
  scenario({
    name: 'hot-record',
    title: '20 users that change one record, which takes 80 ms each time',
    requests: ([id]) =>
      users.map((user) => ({
        method: 'PATCH',
        path: `/api/value/${id}/`,
        headers: asUser(user),
        body: JSON.stringify({ string: `by ${user}` }),
      })),
    from: addresses(CONNECTIONS),
    slow: { on: 'update', milliseconds: 80 },
    limit: 5,
  }),
  scenario({
    name: 'slow-posts',
    title: 'three users that create records, which takes 250 ms each time',
    requests: () =>
      users.slice(0, 3).map((user) => ({
        method: 'POST',
        path: '/api/value/',
        headers: asUser(user),
        body: JSON.stringify({ string: `by ${user}` }),
      })),
    from: addresses(3),
    slow: { on: 'insert', milliseconds: 250 },
    limit: 5,
  }),
  scenario({
    name: 'bulk-posts',
    title: 'one user with 20 connections that creates 1,000 records at a time',
    requests: () => [postMany('value', '{"string":"bulk","integer":1}', 1_000)],
    limit: 10,
  }),
  // The work for such an array is too short to be noticed, and there is much of it.
  ...[20, 100].map((records) =>
    scenario({
      name: `posts-of-${records}`,
      title: `one user with 20 connections that creates ${records} records at a time`,
      requests: () => [postMany('diary', '{"entry":"bulk"}', records)],
      limit: 6,
    }),
  ),
];
