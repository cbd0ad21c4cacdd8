// The total of a list: exact, limited or estimated. PostgreSQL's estimates come from statistics of all rows of a table, also of those
// that the service does not see.
import assert from 'node:assert/strict';
import { type Resource } from '../../src/index.ts';
import { user } from '../../src/resources/registry.ts';
import { logIn, readable } from '../admin/support.ts';
import {
  eventually,
  type Answer,
  type TestService,
  waitingForLocks,
  startBeside,
  useService,
  useStarted,
} from '../support.ts';
import { startSamples } from './samples.ts';
import { after, describe, test } from 'node:test';

describe('the total of a list', () => {
  const service = useStarted(startSamples);

  test('is counted only on request', async () => {
    const total = async (query: string, prefer?: string): Promise<string | null> => {
      const { status, headers } = await service.request(`/api/shelf/?${query}`, {
        headers: prefer === undefined ? {} : { prefer },
      });
      assert.equal(status, 200);
      return headers.get('x-total-count');
    };
    assert.equal(await total(''), null);
    assert.equal(await total('', 'count=planned'), null);
    assert.equal(await total('', 'respond-async, wait=5'), null);
    assert.equal(await total('', 'count=exact'), '8');
    assert.equal(await total('', 'respond-async, count=exact'), '8');
    assert.equal(await total('', 'count=none, count=exact'), null);
    assert.equal(await total('', 'count="exact", count=none'), '8');
    assert.equal(await total('page=3&limit=1&ordering=-name', 'count=exact'), '8');
    assert.equal(await total('page=99', 'count=exact'), '8');
    assert.equal(await total('rank__gt=1', 'count=exact'), '4');
    assert.equal(await total('-rank=3&page=2', 'count=exact'), '6');
    assert.equal(await total('rank=77', 'count=exact'), '0');
  });

  test('takes no further statement than the page', async () => {
    /** The number of statements that the service has run. */
    const statements = async (): Promise<number> => {
      const text = await service.metrics();
      const counts = text.matchAll(/^vitrine_lane_statement_duration_seconds_count\{.*\} (\d+)$/gm);
      return [...counts].reduce((sum, [, count]) => sum + Number(count), 0);
    };
    for (const query of ['', 'page=2', 'rank__gt=1&ordering=-name', 'limit=5&page=9']) {
      for (const [headers, cost] of [
        [{}, 1],
        [{ prefer: 'count=exact' }, 1],
      ] as const) {
        // The first query of a kind is also estimated.
        await service.request(`/api/shelf/?${query}`, { headers });
        const before = await statements();
        assert.equal((await service.request(`/api/shelf/?${query}`, { headers })).status, 200);
        assert.equal((await statements()) - before, cost, query);
      }
    }
  });
});

describe('a count', () => {
  const thing: Resource = { model: 'thing', columns: { size: { type: 'integer' } } };
  const options = { maxCount: 100, ordering: 'id' } as const;
  const service: TestService = useService(
    [
      user,
      thing,
      { ...thing, ...options, model: 'limited' },
      { ...thing, ...options, model: 'open', countLevel: 'user' },
    ],
    {},
    async () => {
      await service.addUser('bob');
      await service.addUser('ada', { admin: true });
      await service.sql`insert into thing (size) select i from generate_series(1, 10001) i`;
      for (const table of ['limited', 'open'])
        await service.sql`insert into ${service.sql(table)} (size) select i from generate_series(1, 101) i`;
      await service.sql`analyze`;
    },
  );

  const cases: [path: string, prefer: string, total: string | null, applied?: string, user?: string][] = [
    ['thing/', 'count=exact', '10001'],
    ['thing/', 'count=capped', '10000+'],
    ['thing/?size__gt=1', 'count=capped', '10000'],
    ['thing/?size=5', 'count=capped', '1'],
    ['thing/', 'count=estimated', '10001'],
    ['thing/?size__lte=77', 'COUNT = "Estimated"', '77', 'estimated'],
    ['thing/?size__lt=0', 'count=estimated', '0'],
    ['thing/', 'count=rough', null],
    ['limited/', 'count=exact', '100+', 'capped'],
    ['limited/', 'count=exact', '100+', 'capped', 'bob'],
    ['limited/', 'count=exact', '101', 'exact', 'ada'],
    ['limited/?size__lte=100', 'count=exact', '100', 'capped'],
    ['limited/', 'count=capped', '100+', 'capped', 'ada'],
    ['limited/?id__lte=100', 'count=estimated', '100', 'estimated'],
    ['open/', 'count=exact', '100+', 'capped'],
    ['open/', 'count=exact', '101', 'exact', 'bob'],
  ];
  for (const [path, prefer, total, applied, name] of cases)
    test(`of ${path} with ${prefer} by ${name ?? 'anyone'} is ${total}`, async () => {
      const way = applied ?? prefer.split('=')[1];
      for (const accept of ['application/json', 'text/csv']) {
        const headers = { prefer, accept };
        const answer = await service.request(`/api/${path}`, {
          headers,
          ...(name !== undefined && { user: name }),
        });
        assert.equal(answer.status, 200);
        assert.equal(answer.headers.get('x-total-count'), total);
        assert.equal(answer.headers.get('preference-applied'), total === null ? null : `count=${way}`);
      }
    });

  test('is right where the planner is wrong', async () => {
    await service.sql`insert into thing (size) select -1 from generate_series(1, 10050)`; // not analyzed
    await service.sql`insert into limited (size) select -1 from generate_series(1, 300)`;
    const estimated = async (table: string, options = {}): Promise<number> => {
      const asked = { headers: { prefer: 'count=estimated' }, ...options };
      const { headers } = await service.request(`/api/${table}/?size=-1`, asked);
      return Number(headers.get('x-total-count'));
    };
    assert.equal(await estimated('thing'), 10_001);
    assert.equal(await estimated('limited', { user: 'ada' }), 300);
    // The planner expects fewer records than maxCount.
    assert.equal(await estimated('limited'), 101);
    for (const table of ['thing', 'limited'])
      await service.sql`delete from ${service.sql(table)} where size = -1`;
  });

  test('does not delay the short reads of others while its estimate waits', async () => {
    const waiting = (): Promise<number> => waitingForLocks(service);
    let answer: Promise<Answer> | undefined;
    await service.sql.begin(async (transaction) => {
      await transaction`lock table thing in access exclusive mode`;
      const headers = { prefer: 'count=estimated' };
      answer = service.request('/api/thing/?size__gt=1&size__lt=99999', { headers });
      await eventually(async () => (await waiting()) === 1, 'the count to wait');
      assert.equal((await service.request('/api/limited/1/')).status, 200);
      assert.equal(await waiting(), 1);
    });
    assert.equal((await answer)?.headers.get('x-total-count'), '10000');
  });

  test('needs valid credentials only where they can change it', async () => {
    const headers = { prefer: 'count=exact', authorization: 'Basic eDp5' };
    assert.equal((await service.request('/api/thing/', { headers })).status, 200);
    for (const prefer of ['count=exact', 'count=estimated'])
      assert.equal((await service.request('/api/limited/', { headers: { ...headers, prefer } })).status, 401);
    headers.prefer = 'count=capped';
    assert.equal((await service.request('/api/limited/', { headers })).status, 200);
  });
});

const columns: Resource['columns'] = { name: { type: 'string' } };
const byId = { primaryKey: { type: 'integer', column: 'id' } } as const;
const registry: Resource[] = [
  user,
  { model: 'all_rows', columns, read: 'admin' },
  { model: 'some_rows', ...byId, columns },
  { model: 'few_rows', ...byId, columns },
  { model: 'guarded', columns },
  {
    model: 'link',
    columns: { target: { type: 'foreignKey', references: 'some_rows', column: 'target_id' } },
  },
];
const SCHEMA = `
  create table all_rows (id integer generated by default as identity primary key, name varchar not null);
  insert into all_rows (name) select case when n % 5 = 0 then 'secret' else 'common' end from generate_series(1, 15000) n;
  create view some_rows as select id, name from all_rows where name = 'common';
  create materialized view few_rows as select id, name from some_rows;
  create unique index on few_rows (id);
  create table guarded (like all_rows including all);
  insert into guarded (name) select name from all_rows;
  alter table guarded enable row level security;
  create policy visible on guarded using (name = 'common');
  create table link (id integer generated by default as identity primary key, target_id integer not null);
  insert into link (target_id) select id from some_rows;
  analyze all_rows, few_rows, guarded, link`;

describe('a count does not tell of rows that are hidden from the service', () => {
  /** The service with a role to which policies apply. */
  let limited: Awaited<ReturnType<typeof startBeside>>;
  after(() => limited.close());
  const service: TestService = useService(registry, { prepare: (sql) => sql.unsafe(SCHEMA) }, async () => {
    await service.addUser('ada', { admin: true });
    const { url } = await service.addRole(
      `grant all on all tables in schema public to ROLE; grant all on all sequences in schema public to ROLE`,
    );
    limited = await startBeside(url, registry, { schema: 'check' });
  });

  const count = async (path: string): Promise<string | null> => {
    const { status, headers, text } = await limited.request(`/api/${path}`, {
      headers: { prefer: 'count=estimated' },
    });
    assert.equal(status, 200, text);
    return headers.get('x-total-count');
  };

  for (const [what, path] of [
    ['a view', 'some_rows/?-name=SOUGHT'],
    ['a table with a policy', 'guarded/?-name=SOUGHT'],
    ['a column of a joined view', 'link/?-target__name=SOUGHT'],
  ] as const)
    test(`of ${what}: the limit, whatever the filter is`, async () => {
      const counts = await Promise.all(
        ['secret', 'absent'].map((sought) => count(path.replace('SOUGHT', sought))),
      );
      assert.deepEqual(counts, ['10000+', '10000+']);
    });

  test('of a materialized view and of a table: an estimate', async () => {
    for (const path of ['few_rows/?-name=secret', 'link/']) {
      const total = await count(path);
      assert.ok(Math.abs(Number(total) - 12_000) < 600, String(total));
    }
  });

  test('in the admin area: more than the limit', async () => {
    const ada = await logIn(service, 'ada');
    const list = await ada.get('/admin/some_rows/?-name=secret');
    assert.match(readable(list), /1–20 of more than 10,000 records/);
    assert.match(readable(list), /all more than 10,000 records in this list/);
    assert.match(readable(await ada.get('/admin/all_rows/')), /of about 15,000 records/);
    assert.match(readable(await ada.get('/admin/')), /more than 10,000 records/);
  });
});
