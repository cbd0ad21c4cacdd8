// Large records and pages do not use the connections that clients share, whatever earlier answers of the same kind were.
import assert from 'node:assert/strict';
import type { Resource } from '../../src/index.ts';
import { user } from '../../src/resources/registry.ts';
import { useService, type TestService } from '../support.ts';
import { eventually } from './expect.ts';
import { describe, test } from 'node:test';

const RESOURCES: Resource[] = [
  user,
  { model: 'paper', columns: { body: { type: 'text' }, kind: { type: 'integer', null: true } } },
  { model: 'record', columns: { data: { type: 'json', null: true } } },
  {
    model: 'note',
    columns: { title: { type: 'text', maxLength: 90 }, code: { type: 'string', maxLength: 90 } },
  },
  { model: 'series', columns: { values: { type: 'array', of: 'decimal', null: true } } },
];
const SIZE = 300_000;
const SMALL = 90;
const LARGE = 12;

describe('a large answer', () => {
  const service: TestService = useService(RESOURCES, {}, async () => {
    const { sql } = service;
    await sql`insert into paper (body, kind) select repeat('x', ${SIZE}), 2 from generate_series(1, ${LARGE}::int)`;
    await sql`insert into paper (body, kind) select 'small', 1 from generate_series(1, ${SMALL}::int)`;
    for (const table of ['record', 'series'])
      await sql`insert into ${sql(table)} select from generate_series(1, ${SMALL}::int)`;
  });
  /** How many statements the service has sent in these lanes: by default, those that share their connection with no other. */
  const statements = async (lanes = 'read|slow'): Promise<number> => {
    const counts = (await service.metrics()).matchAll(
      new RegExp(`^vitrine_lane_\\w*_count\\{lane="(?:${lanes})"\\} (\\d+)$`, 'gm'),
    );
    return [...counts].reduce((sum, [, count]) => sum + Number(count), 0);
  };

  /** How many statements of its own a request takes that shares its connection with no other. */
  async function alone(path: string, headers = {}): Promise<number> {
    const before = await statements();
    const { status, text } = await service.request(path, { headers });
    assert.equal(status, 200, text.slice(0, 200));
    return (await statements()) - before;
  }

  const isShared = (path: string, headers = {}): Promise<unknown> =>
    eventually(async () => (await alone(path, headers)) === 0, `an answer over a shared connection: ${path}`);

  for (const [name, headers] of [
    ['JSON', {}],
    ['CSV', { accept: 'text/csv' }],
    ['cursors', { prefer: 'paging=cursor' }],
  ] as const)
    test(`of a page with a number that had small ones has a connection to itself: ${name}`, async () => {
      for (const limit of [10, 15, 30]) {
        const page = (number: number): string => `/api/paper/?ordering=-id&limit=${limit}&page=${number}`;
        await isShared(page(SMALL / limit - 1), headers);
        const before = await statements('keys|filters');
        assert.ok((await alone(page(SMALL / limit + 1), headers)) > 0);
        assert.ok((await statements('keys|filters')) - before <= 1);
      }
    });

  test('of a filter that had small ones has a connection to itself', async () => {
    const filtered = (kind: number): string => `/api/paper/?kind=${kind}&limit=9`;
    await isShared(filtered(1));
    assert.ok((await alone(filtered(2))) > 0);
    assert.equal((await service.request(filtered(2))).json.objects[0].body.length, SIZE);
  });

  test('is none because of a single record: pages up to 256 KiB share a connection', async () => {
    const { sql } = service;
    for (const limit of [6, 40]) {
      await sql`insert into paper (body, kind) select repeat('y', case n when 1 then 100000 else 10 end), ${limit} from generate_series(1, 20) n`;
      for (const headers of [{}, { prefer: 'paging=cursor' }, { prefer: 'count=exact' }])
        for (const path of [
          `/api/paper/?kind=${limit}&limit=${limit}`,
          `/api/paper/?ordering=-id&limit=${limit}`,
        ]) {
          await isShared(path, headers);
          await isShared(path, headers);
        }
      await sql`update paper set body = repeat('y', 100000) where kind = ${limit}`;
      assert.ok((await alone(`/api/paper/?kind=${limit}&limit=${limit}`)) > 0);
      await sql`delete from paper where kind = ${limit}`;
    }
  });

  test('of a pattern or a search in JSON never shares a connection: PostgreSQL may not be able to cancel it', async () => {
    await isShared('/api/paper/?kind=1&limit=7');
    for (const path of [
      '/api/paper/?kind=1&body__like=x&limit=7',
      '/api/record/?data__contains=1&limit=7',
      '/api/note/?title__like=x&limit=7',
    ])
      for (let round = 0; round < 5; round += 1) assert.ok((await alone(path)) > 0, path);
    for (const path of ['/api/record/?data__is=null&limit=7', '/api/note/?code__like=x&limit=7'])
      await isShared(path);
  });

  test('after inserts has a connection to itself, also for JSON and arrays that PostgreSQL has compressed', async () => {
    const { sql } = service;
    const numbers = JSON.stringify(Array(SIZE / 4).fill(12));
    for (const resource of ['record', 'series']) {
      const path = `/api/${resource}/?ordering=-id&limit=8`;
      await isShared(path);
      if (resource === 'record') await sql`insert into record (data) values (${numbers}::text::jsonb)`;
      else await sql`insert into series (values) select array_agg(12) from generate_series(1, ${SIZE}::int)`;
      assert.ok((await alone(path)) > 0, resource);
    }
  });

  test('of JSON and arrays that PostgreSQL has compressed is measured without compression', async () => {
    const { sql } = service;
    await sql`truncate record restart identity`;
    await sql`insert into record (data) select to_jsonb(repeat('x', 700000)) from generate_series(1, 5)`;
    await sql`insert into record (data) select jsonb_object_agg('key' || i, jsonb_build_object('name', md5((n * i)::text), 'kind', 'ordinary')) from generate_series(1, 30) n, generate_series(1, 75) i group by n`;
    const [compressed] = await sql`select count(pg_column_compression(data)) from record`;
    assert.equal(Number(compressed?.['count']), 35);
    await isShared('/api/record/?ordering=-id&limit=19');
    assert.ok((await alone('/api/record/?ordering=-id&limit=5&page=7')) > 0);
    await isShared('/api/record/6/');
    assert.ok((await alone('/api/record/1/')) > 0);
  });

  test('of a single record has a connection to itself, and small ones share theirs', async () => {
    const path = '/api/paper/2/';
    await isShared(`/api/paper/${LARGE + 1}/`);
    assert.ok((await alone(path)) > 0);
    const before = await statements('keys|filters');
    assert.equal(await alone(path), 1);
    assert.ok((await statements('keys|filters')) - before <= 1);
    assert.equal((await service.request(path)).json.body.length, SIZE);
    await service.sql`update paper set body = 'small' where id = 2`;
    await isShared(path);
    assert.equal((await service.request('/api/paper/0/')).status, 404);
  });
});
