// Streams with filters that take PostgreSQL long.
import assert from 'node:assert/strict';
import { user } from '../../src/resources/registry.ts';
import { createVitrine } from '../../src/index.ts';
import { startProxy } from '../process/proxy.ts';
import { closeIdleConnections } from '../send.ts';
import { basic, createDatabase, request, useService, type TestService } from '../support.ts';
import { assertProblem, eventually, jsonLinesOf } from './expect.ts';
import { describe, test } from 'node:test';

const NDJSON = { accept: 'application/x-ndjson' };

describe('a stream that is slow in PostgreSQL', () => {
  const ROWS = 30;
  const text = { model: 'text', columns: { content: { type: 'text' } } } as const;
  const service: TestService = useService(
    [user, text, { ...text, model: 'closed', read: 'user' }],
    {
      slowTimeout: 1,
      trustProxy: 1,
    },
    async () => {
      await service.addUser('bob');
      await service.sql`insert into text (content) select 'quick' from generate_series(1, ${ROWS})`;
      // Each row is filtered when it is fetched, not all of them before the first.
      await service.sql.unsafe(`
      alter table text rename to kept;
      drop table closed;
      create function filtered(content text) returns boolean language plpgsql as
        $$ begin
          if content like '%slow' then perform pg_sleep(case content when 'slow' then 2 else 60 end); end if;
          return true;
        end $$;
      create view text as select id, content from kept where filtered(content);
      create view closed as select * from text;
      do $$ begin execute format('alter database %I set enable_sort = off', current_database()); end $$`);
    },
  );

  for (const { when, outcome, path, user, slow, status } of [
    {
      when: 'before',
      outcome: 'is canceled after SLOW_TIMEOUT for anonymous clients',
      path: '/api/text/',
      slow: 1,
      status: 503,
    },
    {
      when: 'before',
      outcome: 'goes on for a user',
      path: '/api/closed/',
      user: 'bob',
      slow: 1,
      status: 200,
    },
    { when: 'after', outcome: 'goes on', path: '/api/text/', slow: ROWS, status: 200 },
  ])
    // prettier-ignore
    test(`${when} its first records ${outcome}`, async () => {
      await service.sql`update kept set content = case id when ${slow} then 'slow' else 'quick' end`;
      const headers = { ...NDJSON, 'X-Forwarded-For': `10.0.0.${slow}` };
      const answer = await service.request(path, { headers, ...(user && { user }) });
      assert.equal(answer.status, status);
      if (status === 503) assertProblem(answer, 503);
      else assert.equal(jsonLinesOf(answer.text).length, ROWS);
    });

  /** Requests a stream, until `signal` aborts. */
  const ask = (address: string, signal?: AbortSignal): Promise<Response> =>
    fetch(`${service.base}/api/text/`, {
      headers: { ...NDJSON, 'X-Forwarded-For': address },
      ...(signal && { signal }),
    });

  const searching = async (): Promise<number> => {
    const rows = await service.sql`
      select from pg_stat_activity where datname = current_database() and application_name = 'vitrine'
        and state = 'active' and query like 'fetch%'`;
    return rows.length;
  };

  test('reads at most twice as many records at once as before: the next ones may be larger', async () => {
    await service.sql`update kept set content = case id when 25 then 'very slow' else 'quick' end`;
    const leave = new AbortController();
    const asked = assert.rejects(ask('10.0.3.2', leave.signal));
    const batches = await eventually(async () => {
      const rows = await service.sql<{ query: string }[]>`
        select query from pg_stat_activity
        where datname = current_database() and state = 'active' and query like 'fetch%'
          and query_start < now() - interval '200 ms'`;
      return rows.length > 0 ? rows : undefined;
    }, 'the search for the second batch');
    assert.deepEqual(
      batches.map(({ query }) => query.split(';')[0]),
      ['fetch 20 from c'],
    );
    leave.abort();
    await asked;
    await eventually(async () => (await searching()) === 0, 'the end of the search');
  });

  test('ends in PostgreSQL when its client leaves', async () => {
    await service.sql`update kept set content = case id when 1 then 'very slow' else 'quick' end`;
    const leave = new AbortController();
    const headers = { ...NDJSON, authorization: basic('bob') };
    const asked = assert.rejects(fetch(`${service.base}/api/closed/`, { headers, signal: leave.signal }));
    await eventually(async () => (await searching()) === 1, 'the search');
    leave.abort();
    await asked;
    await eventually(async () => (await searching()) === 0, 'the end of the search');
  });
});

test('a stream is answered as soon as PostgreSQL accepts connections again', async () => {
  const database = await createDatabase();
  const proxy = await startProxy(database.url);
  const vitrine = await createVitrine({
    databaseUrl: proxy.url,
    resources: [{ model: 'text', columns: { content: { type: 'text' } } }],
    port: 0,
    log: () => undefined,
  });
  try {
    const { url } = await vitrine.start();
    const ask = () => request(url, '/api/text/', { headers: NDJSON });
    assert.equal((await ask()).status, 200);
    await proxy.refuse();
    const statuses = new Set<number>();
    for (let round = 0; round < 60; round += 1) statuses.add((await ask()).status);
    assert.deepEqual([...statuses], [503]);
    await proxy.open();
    assert.equal((await ask()).status, 200);
    closeIdleConnections(url);
  } finally {
    await vitrine.close();
    await proxy.close();
    await database.drop();
  }
});
