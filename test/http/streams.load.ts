// Whole collections as a stream of JSON lines.
import assert from 'node:assert/strict';
import { type IncomingMessage, request as httpRequest } from 'node:http';
import { setImmediate, setTimeout as sleep } from 'node:timers/promises';
import { describe, test } from 'node:test';
import {
  type Answer,
  basic,
  createDatabase,
  request,
  type TestService,
  useService,
  pluck,
} from '../support.ts';
import { assertProblem, eventually, jsonLinesOf } from './expect.ts';
import { user } from '../../src/resources/registry.ts';
import { createVitrine, type Resource } from '../../src/index.ts';
import { startProxy } from '../process/proxy.ts';
import { closeIdleConnections } from '../send.ts';
import { logIn, useAdmin } from '../admin/support.ts';
import { openDatabase } from '../../src/db/connection/database.ts';
import { buildModels } from '../../src/db/schema/build-models.ts';
import { parseListQuery } from '../../src/query/parse/grammar.ts';
import { planList, ROOT } from '../../src/query/plan.ts';
import { streamStatement } from '../../src/query/read.ts';
import { recordJson } from '../../src/query/statements/record-json.ts';
import { openExport } from '../../src/resources/records/record-export.ts';
import { ADMIN } from '../../src/resources/access/access.ts';
import { createViews } from '../../src/resources/access/resource-view.ts';
import { parseCsv, parseCsvInTurns } from '../../src/query/csv/csv-parser.ts';
import { countTurns } from '../turns.ts';

const NDJSON = { accept: 'application/x-ndjson' };

describe('a long stream', () => {
  const ROWS = 40_000;
  const { service, ada } = useAdmin(
    [user, { model: 'text', columns: { content: { type: 'text' } } }],
    { trustProxy: 1 },
    () => service.sql`insert into text (content) select repeat('x', 1000) from generate_series(1, ${ROWS})`,
  );

  /** The number of connections that read a stream. */
  const readers = async (): Promise<number> => {
    const [row] = await service.sql<{ count: number }[]>`
      select count(*)::int as count from pg_stat_activity
      where datname = current_database() and query ~ '^(fetch|declare) ' and pid <> pg_backend_pid()`;
    return row?.count ?? -1;
  };
  const noReaders = () => eventually(async () => (await readers()) === 0, 'the end of all cursors');

  let addresses = 0;
  /** A new client. On a slow machine, one that has read streams may have to pause. */
  const newAddress = (): string => `10.1.${(addresses += 1) >> 8}.${addresses & 255}`;
  const newAddresses = (count: number): string[] => Array.from({ length: count }, newAddress);
  const streamOf = (address: string, query = ''): Promise<Answer> =>
    service.request(`/api/text/${query}`, { headers: { ...NDJSON, 'X-Forwarded-For': address } });

  /** The doors through which a whole collection is read, and their headers. */
  const DOORS = {
    '/api/text/': () => NDJSON,
    '/admin/text/-/export.csv': () => ({
      cookie: [...ada.cookies].map(([name, value]) => `${name}=${value}`).join('; '),
    }),
  };

  /** Starts a stream, and reads only its first part. */
  const begin = (
    address = newAddress(),
    door: keyof typeof DOORS = '/api/text/',
  ): Promise<{ response: IncomingMessage; stop: () => void }> =>
    new Promise((resolve, reject) => {
      const headers = { ...DOORS[door](), 'X-Forwarded-For': address };
      const client = httpRequest(`${service.base}${door}`, { headers }, (response) => {
        response.once('data', () => {
          response.pause();
          resolve({ response, stop: () => client.destroy() });
        });
        response.on('error', () => undefined);
      });
      client.on('error', reject).end();
    });

  test('is complete and in order, also as an export', async () => {
    const expected = Array.from({ length: ROWS }, (_, index) => ROWS - index);
    const { text } = await streamOf(newAddress(), '?ordering=-id');
    assert.deepEqual(pluck(jsonLinesOf(text) as object[], 'id'), expected);
    const csv = parseCsv((await ada.get('/admin/text/-/export.csv?ordering=-id')).text);
    assert.ok(Array.isArray(csv));
    assert.deepEqual(csv.slice(1).map(({ cells }) => Number(cells[0])), expected); // prettier-ignore
    const json = JSON.parse((await ada.get('/admin/text/-/export.json?ordering=-id')).text) as object[];
    assert.deepEqual(pluck(json, 'id'), expected);
  });

  for (const door of ['/api/text/', '/admin/text/-/export.csv'] as const) {
    test(`is read no faster than the client takes it, and its cursor closes when the client leaves: ${door}`, async () => {
      for (let round = 0; round < 5; round += 1) {
        const { stop } = await begin(newAddress(), door);
        assert.equal(await readers(), 1);
        stop();
        await noReaders();
      }
    });

    test(`of a HEAD leaves no cursor open: ${door}`, async () => {
      for (let round = 0; round < 5; round += 1) {
        const { status, text } = await service.request(door, { method: 'HEAD', headers: DOORS[door]() });
        assert.deepEqual([status, text], [200, '']);
        await noReaders();
      }
    });

    test(`is cut when the database connection breaks, so that it does not look complete: ${door}`, async () => {
      const known = service.lines.length;
      const { response } = await begin(newAddress(), door);
      await service.sql`
        select pg_terminate_backend(pid) from pg_stat_activity
        where datname = current_database() and query like 'fetch %' and pid <> pg_backend_pid()`;
      const ended = new Promise<boolean>((resolve) => response.on('close', () => resolve(response.complete)));
      response.resume();
      assert.equal(await ended, false);
      const lines = () => service.lines.slice(known);
      await eventually(() => lines().some(({ level }) => level === 'warn'), 'the line of the log');
      assert.ok(!lines().some(({ level }) => level === 'error'));
      assert.equal((await streamOf(newAddress(), '?id=1')).status, 200);
    });
  }

  test('ends when the client of an export disconnects before the first row', async () => {
    const lock = await service.sql.reserve();
    await lock`begin`;
    await lock`lock table text in access exclusive mode`;
    const waiting = async (): Promise<number> =>
      (
        await lock`select from pg_locks where not granted and relation = 'text'::regclass
        and database = (select oid from pg_database where datname = current_database())`
      ).count;
    const door = '/admin/text/-/export.csv';
    for (let round = 0; round < 3; round += 1) {
      const client = httpRequest(`${service.base}${door}`, { headers: DOORS[door]() });
      client.on('error', () => undefined).end();
      await eventually(async () => (await waiting()) === 1, 'a wait for the lock');
      client.destroy();
      // Its statement ends at once, and does not wait for the lock.
      await eventually(async () => (await waiting()) === 0, 'the end of the wait');
    }
    await lock`commit`;
    lock.release();
    await noReaders();
  });

  test('of a HEAD opens no cursor and takes no slot while others read streams', async (t) => {
    const clients = newAddresses(3);
    const streams = await Promise.all(clients.map((address) => begin(address)));
    t.after(async () => {
      for (const { stop } of streams) stop();
      await noReaders();
    });
    assert.equal(await readers(), 3);
    for (const address of [clients[0] ?? '', newAddress()]) {
      const headers = { ...NDJSON, 'X-Forwarded-For': address };
      const path = '/api/text/?id=1';
      const { status, text } = await service.request(path, { method: 'HEAD', headers });
      assert.deepEqual([status, text], [200, '']);
    }
  });

  test('has the same status and headers for HEAD as for GET', async () => {
    const shown = ({ status, headers }: Answer): unknown => [
      status,
      // The client decides about the connection after a HEAD.
      [...headers].filter(([name]) => !['date', 'connection', 'keep-alive'].includes(name)),
    ];
    for (const query of ['?id=1', '?limit=1', '?nope=1', '?id=x', '?ordering=nope']) {
      const [get, head] = await Promise.all(
        ['GET', 'HEAD'].map((method) =>
          service.request(`/api/text/${query}`, {
            method,
            headers: { ...NDJSON, 'X-Forwarded-For': '10.0.9.9' },
          }),
        ),
      );
      assert.ok(get && head);
      assert.deepEqual(shown(head), shown(get), query);
      assert.equal(head.text, '');
    }
  });

  test('is 429 for a client that reads two other streams, until one ends', async () => {
    const address = newAddress();
    const { stop: stopFirst } = await begin(address);
    const { stop } = await begin(address);
    const refused = await streamOf(address);
    assertProblem(refused, 429);
    assert.match(refused.headers.get('retry-after') ?? '', /^[1-9]\d?$/);
    stop();
    await eventually(async () => (await streamOf(address, '?id=1')).status === 200, 'the next stream');
    stopFirst();
    await noReaders();
  });

  /** Reads a stream faster than a slow client would, and so that it lasts for some seconds. */
  const readSteadily = async ({ response }: { readonly response: IncomingMessage }): Promise<void> => {
    for await (const chunk of response) await sleep((chunk as Buffer).length / 2000);
  };

  test('is 503 when anonymous clients use all their slots, until one stream ends', async () => {
    const streams = await Promise.all(newAddresses(3).map((address) => begin(address)));
    const reads = streams.map((stream) => readSteadily(stream).catch(() => undefined));
    const headers = { ...NDJSON, 'X-Forwarded-For': newAddress() };
    const refused = await service.request('/api/text/', { headers });
    assertProblem(refused, 503);
    assert.match(refused.headers.get('retry-after') ?? '', /^[1-9]\d?$/);
    assert.equal(
      (await service.request('/api/text/', { headers: { ...headers, Accept: '*/*' } })).status,
      200,
    );
    const waiting = service.request('/api/text/?id=1', { headers });
    for (const { stop } of streams) stop();
    assert.equal((await waiting).status, 200, 'a waiting client gets the free slot');
    await Promise.all(reads);
    await noReaders();
  });

  test('gives its slot to a waiting client when its own client takes little', async () => {
    const slow = await Promise.all(newAddresses(3).map((address) => begin(address)));
    assert.equal((await streamOf(newAddress(), '?id=1')).status, 200, 'though the streams began just before');
    await eventually(async () => (await readers()) < 3, 'the end of its cursor');
    const ended = slow.map(
      ({ response }) =>
        new Promise<boolean>((resolve) => response.on('close', () => resolve(response.complete))),
    );
    for (const { response } of slow) response.resume();
    const complete = (await Promise.all(ended)).filter(Boolean);
    assert.equal(complete.length, 2, 'the ended stream is incomplete');
    await noReaders();
  });
});

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

test('a stream is answered as soon as PostgreSQL accepts connections again', async (t) => {
  const database = await createDatabase();
  const proxy = await startProxy(database.url);
  const vitrine = await createVitrine({
    databaseUrl: proxy.url,
    resources: [{ model: 'text', columns: { content: { type: 'text' } } }],
    port: 0,
    log: () => undefined,
  });
  t.after(async () => {
    await vitrine.close();
    await proxy.close();
    await database.drop();
  });
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
});

// Streams of records with long values, after small ones.

const PAPER = { model: 'paper', columns: { body: { type: 'text' } } } as const satisfies Resource;
const SMALL = 120;
/** Bytes of a long value: not a multiple of the size of a part, and no character begins where a part ends. */
const TEXT = `x${'Ö🦉'.repeat(50_000)}"`;
/** Prefixes that move the characters by one byte each, so that parts end at each of the four bytes of a character. */
const PREFIXES = ['', 'a', 'ab', 'abc'];

describe('a stream with long records behind small ones', () => {
  const service: TestService = useService([user, PAPER], {}, async () => {
    await service.addUser('ada', { admin: true });
    await service.sql`insert into paper (body) select 'small' from generate_series(1, ${SMALL}::int)`;
    await service.sql`insert into paper (body) select ${TEXT} from generate_series(1, 40)`;
    for (const prefix of PREFIXES)
      for (const character of ['🦉', '한', 'ж'])
        await service.sql`insert into paper (body) values (${prefix + character.repeat(20_000)})`;
    for (const bytes of [16_383, 16_384, 16_385, 32_768])
      await service.sql`insert into paper (body) values (${'y'.repeat(bytes - `{"id":173,"body":""}\n`.length)})`;
  });

  test('has each of them whole, in NDJSON, CSV and exports of the admin area', async () => {
    const expected = (await service.request('/api/paper/?limit=1000')).json.objects;
    const lines = await service.request('/api/paper/', { headers: { accept: 'application/x-ndjson' } });
    assert.deepEqual(jsonLinesOf(lines.text), expected);
    const csv = await service.request('/api/paper/', {
      headers: { accept: 'text/csv', prefer: 'paging=none' },
    });
    const page = await service.request('/api/paper/?limit=1000', { headers: { accept: 'text/csv' } });
    assert.equal(csv.text, page.text);
    const ada = await logIn(service, 'ada');
    assert.deepEqual(JSON.parse((await ada.get('/admin/paper/-/export.json?ordering=id')).text), expected);
  });

  test('has each of them whole, whatever `bytea_output` is in the database', async () => {
    const expected = (await service.request('/api/paper/?limit=1000')).json.objects;
    const { pathname } = new URL(service.url);
    for (const form of ['escape', 'hex']) {
      await service.sql.unsafe(`alter database ${pathname.slice(1)} set bytea_output = '${form}'`);
      const lines = await service.request('/api/paper/', { headers: { accept: 'application/x-ndjson' } });
      assert.deepEqual(jsonLinesOf(lines.text), expected, form);
    }
  });

  test('is read from PostgreSQL in batches of at most 2 MB, however many small records came before', async () => {
    const served = createViews([PAPER], buildModels([PAPER]), {
      access: 'default',
      read: 'default',
      userModel: 'user',
    })(ADMIN);
    const paper = served.get('paper');
    assert.ok(paper);
    const plan = planList(parseListQuery('', paper, {}), paper.model, paper.visibility, [], {});
    const statement = streamStatement(plan, recordJson(ROOT, paper.formatted));
    const database = openDatabase(service.url);
    const batches: number[] = [];
    let sent = 0;
    const measured: typeof statement = {
      ...statement,
      decode: (rows) => {
        batches.push(rows.flat().reduce((sum, cell) => sum + (cell?.length ?? 0), 0));
        return statement.decode(rows);
      },
    };
    try {
      const frame = { start: '', between: '', end: '' };
      for await (const { length } of await openExport(database, measured, frame)) sent += length;
    } finally {
      await database.close();
    }
    assert.ok(batches.length > 10);
    assert.ok(Math.max(...batches) < 2 * 1024 * 1024, batches.join());
    // The minimum rate of clients counts what PostgreSQL sends.
    const received = batches.reduce((sum, bytes) => sum + bytes, 0);
    assert.ok(received < 1.01 * sent, `${received} bytes for ${sent}`);
  });
});

// Parsing a long CSV file lets other requests run meanwhile.

describe('a CSV file of 5 MB', () => {
  const bytes = 5_000_000;
  const rest = (): Promise<void> => setImmediate();
  const texts = {
    commas: ','.repeat(bytes),
    'empty lines': '\n'.repeat(bytes),
    'doubled quotes': `"${'""'.repeat(bytes / 2)}"`,
    'short cells': 'a,"b"\n'.repeat(bytes / 6),
  };
  for (const [content, text] of Object.entries(texts)) {
    test(`of ${content} is parsed in many turns of the event loop, with the same result`, async () => {
      const [rows, turns] = await countTurns(() =>
        parseCsvInTurns(text, { rows: Infinity, cells: Infinity }, rest),
      );
      assert.ok(turns > 50, `${turns} turns`);
      // deepEqual takes seconds for millions of cells.
      assert.ok(JSON.stringify(rows) === JSON.stringify(parseCsv(text)));
    });
  }

  test('is not parsed beyond the maximum number of rows', async () => {
    const rows = await parseCsvInTurns(`${'a\n'.repeat(100_000)}"`, { rows: 10_002, cells: Infinity }, rest);
    assert.ok(Array.isArray(rows));
    assert.equal(rows.length, 10_002);
  });
});
