// Streams with filters that take PostgreSQL long.
import assert from 'node:assert/strict';
import { user } from '../../src/resources/registry.ts';
import { createVitrine } from '../../src/index.ts';
import { startProxy } from '../process/proxy.ts';
import { closeIdleConnections } from '../send.ts';
import { basic, createDatabase, request, startService, type TestService } from '../support.ts';
import { assertProblem, eventually, jsonLinesOf } from './expect.ts';
import { after, before, describe, test } from 'node:test';

const NDJSON = { accept: 'application/x-ndjson' };

describe('a stream that is slow in PostgreSQL', () => {
  const ROWS = 30;
  const text = { model: 'text', columns: { content: { type: 'text' } } } as const;
  let service: TestService;

  before(async () => {
    service = await startService([user, text, { ...text, model: 'closed', read: 'user' }], {
      slowTimeout: 1,
      trustProxy: 1,
    });
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
  });
  after(() => service.close());

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
      batches.map(({ query }) => query),
      ['fetch 20 from c'],
    );
    leave.abort();
    await asked;
    await eventually(async () => (await searching()) === 0, 'the end of the search');
  });

  test('is refused at once after a canceled stream, only for the same client', async () => {
    await service.sql`update kept set content = case id when 1 then 'slow' else 'quick' end`;
    assert.equal((await ask('10.0.2.1')).status, 503);
    await service.sql`update kept set content = 'quick'`;
    for (let round = 0; round < 3; round += 1) {
      const refused = await ask('10.0.2.1');
      assert.equal(refused.status, 429);
      // At least four times the second that the stream took.
      assert.match(refused.headers.get('retry-after') ?? '', /^[345]$/);
      assert.match(await refused.text(), /used much database time/);
    }
    const other = await ask('10.0.2.2');
    assert.equal(other.status, 200);
    await other.text();
    const page = await service.request('/api/text/', { headers: { 'X-Forwarded-For': '10.0.2.1' } });
    assert.equal(page.status, 200, 'pages are not streams');
    await eventually(async () => {
      const answer = await ask('10.0.2.1');
      await answer.text();
      return answer.status === 200;
    }, 'the end of the pause');
  });

  test('is refused at once after a stream that the client left before the first records', async () => {
    await service.sql`update kept set content = case id when 1 then 'slow' else 'quick' end`;
    await assert.rejects(ask('10.0.3.1', AbortSignal.timeout(700)));
    await service.sql`update kept set content = 'quick'`;
    await eventually(async () => {
      const answer = await ask('10.0.3.1');
      return (await answer.text()).includes('used much database time') && answer.status === 429;
    }, 'the pause');
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

  test('is refused after many short searches that the client left', async () => {
    await service.sql`update kept set content = case id when 1 then 'slow' else 'quick' end`;
    let status: number | undefined;
    for (let round = 0; round < 10 && status === undefined; round += 1) {
      const leave = new AbortController();
      const answer = ask('10.0.4.1', leave.signal).then(
        (refused) => (status = refused.status),
        () => undefined,
      );
      await eventually(async () => status !== undefined || (await searching()) === 1, 'the search');
      await new Promise((resolve) => setTimeout(resolve, 100));
      leave.abort();
      await answer;
      await eventually(async () => (await searching()) === 0, 'the end of the search');
    }
    assert.equal(status, 429);
  });
});

describe('a short stream', () => {
  let service: TestService;
  before(async () => {
    service = await startService([{ model: 'text', columns: { content: { type: 'text' } } }], {
      trustProxy: 1,
    });
  });
  after(() => service.close());

  const ask = (address: string) =>
    service.request('/api/text/?id=0', { headers: { ...NDJSON, 'X-Forwarded-For': address } });

  test('is refused after many others, each of which took a new connection to PostgreSQL', async () => {
    // Each counts 25 ms, and a quarter of the time is free. So slow machines refuse late, and the slowest never.
    const started = performance.now();
    let answer = await ask('10.0.1.1');
    for (let count = 1; count < 100 && answer.status === 200; count += 1) {
      const excess = 25 * count - 0.25 * (performance.now() - started);
      assert.ok(excess < 600, `${count} streams`);
      answer = await ask('10.0.1.1');
    }
    if (answer.status === 200) return;
    assertProblem(answer, 429);
    assert.equal(answer.headers.get('retry-after'), '1');
    await eventually(async () => (await ask('10.0.1.1')).status === 200, 'the end of the pause');
  });

  test('is not refused after a few others', async () => {
    for (let round = 0; round < 10; round += 1) assert.equal((await ask('10.0.1.2')).status, 200);
  });
});

test('streams that got no connection to PostgreSQL do not count: the next one is answered at once', async () => {
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
