// Large records and pages do not use the connections that clients share, whatever earlier answers of the same kind were.
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { type IncomingHttpHeaders, request as httpRequest, ServerResponse } from 'node:http';
import { buffer } from 'node:stream/consumers';
import { brotliDecompressSync, gunzipSync } from 'node:zlib';
import { setImmediate as turn } from 'node:timers/promises';
import type { Resource } from '../../src/index.ts';
import { note, user } from '../../src/resources/registry.ts';
import { type Answer, type TestService, useService } from '../support.ts';
import { assertProblem, eventually } from './expect.ts';
import { logIn, unescaped } from '../admin/support.ts';
import { requestText, wire } from './wire.ts';

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

// A long page has its records in rows of their own. Its bytes are the same as if it were one value.

const paper: Resource = {
  model: 'paper',
  columns: { kind: { type: 'integer' }, body: { type: 'text' } },
  limit: 10,
};
const kept: Resource = { ...paper, model: 'kept', cache: 60 };
/** Lengths in repetitions of a text of 9 bytes (12 in JSON), by kind. */
const LENGTHS: readonly (readonly number[])[] = [
  [1, 0, 2],
  [1, 60_000, 3, 1, 30_000, 0],
  [40_000, 40_000],
  [100_000],
  Array<number>(500).fill(200),
];

interface Received {
  readonly status: number | undefined;
  readonly headers: IncomingHttpHeaders;
  readonly bytes: Buffer;
}

describe('a page of records of', () => {
  const service: TestService = useService([user, paper, kept], {}, async () => {
    for (const table of ['paper', 'kept'])
      await service.sql`
        insert into ${service.sql(table)} (kind, body)
        select k, repeat(E'é"\\n\\t🦉', (l ->> 0)::int)
        from jsonb_array_elements(${service.sql.json(LENGTHS)}) with ordinality kinds (ls, k),
          jsonb_array_elements(ls) with ordinality lengths (l, place)
        order by k, place`;
  });

  const get = (path: string, headers: Record<string, string> = {}, method = 'GET'): Promise<Received> =>
    new Promise((resolve, reject) => {
      const sent = httpRequest(`${service.base}${path}`, { method, headers, agent: false }, (response) => {
        buffer(response).then(
          (bytes) => resolve({ status: response.statusCode, headers: response.headers, bytes }),
          reject,
        );
      });
      sent.on('error', reject).end();
    });
  const objectsIn = (text: string): { id: number }[] =>
    (JSON.parse(text) as { objects: { id: number }[] }).objects;
  const expected = async (kind: number): Promise<unknown[]> => [
    ...(await service.sql`select id::int, kind, body from paper where kind = ${kind} order by id`),
  ];

  LENGTHS.forEach((lengths, index) => {
    const kind = index + 1;
    const name = `${lengths.slice(0, 6).join(', ')} repetitions`;
    const path = `/api/paper/?kind=${kind}&limit=500`;
    test(`${name} has all of them`, async () => {
      const records = await expected(kind);
      for (const headers of [
        {},
        { prefer: 'count=exact' },
        { prefer: 'paging=cursor' },
        { prefer: 'paging=cursor, count=exact' },
      ]) {
        const { status, bytes, headers: sent } = await get(path, headers);
        assert.equal(status, 200);
        assert.equal(Number(sent['content-length']), bytes.length);
        assert.deepEqual(objectsIn(bytes.toString()), records);
        const isCounted = headers.prefer?.includes('count') === true;
        assert.equal(sent['x-total-count'], isCounted ? String(records.length) : undefined);
        const head = await get(path, headers, 'HEAD');
        assert.equal(head.headers['content-length'], sent['content-length']);
        assert.equal(head.bytes.length, 0);
      }
    });

    test(`${name} is the same in CSV as the stream`, async () => {
      const page = await get(path, { accept: 'text/csv' });
      const stream = await get(`/api/paper/?kind=${kind}`, { accept: 'text/csv', prefer: 'paging=none' });
      assert.equal(Number(page.headers['content-length']), page.bytes.length);
      assert.ok(page.bytes.equals(stream.bytes));
    });

    test(`${name} is the same when it is compressed`, async () => {
      const plain = await get(path);
      for (const [coding, decode] of Object.entries({ gzip: gunzipSync, br: brotliDecompressSync })) {
        const { headers, bytes } = await get(path, { 'accept-encoding': coding });
        assert.equal(headers['content-encoding'], plain.bytes.length < 1024 ? undefined : coding);
        const decoded = headers['content-encoding'] === undefined ? bytes : decode(bytes);
        assert.ok(decoded.equals(plain.bytes));
      }
    });
  });

  test('960 KB has an ETag where caches may keep it, and one of 1.2 MB has none', async () => {
    const small = await get('/api/kept/?kind=3');
    assert.match(small.headers.etag ?? '', /^W\/"/);
    const same = await get('/api/kept/?kind=3', { 'if-none-match': small.headers.etag ?? '' });
    assert.equal(same.status, 304);
    assert.equal((await get('/api/kept/?kind=4')).headers.etag, undefined);
  });
});

const MAX_PAGE = 200_000;
/** Rows of about 1 KB. */
const ROWS = 600;

describe('a page with more bytes than MAX_PAGE', () => {
  const service: TestService = useService(
    [user, note],
    { maxPage: MAX_PAGE },
    () => service.sql`insert into note (message) select repeat('x', 1000) from generate_series(1, ${ROWS})`,
  );

  const formats = ['application/json', 'text/csv'];
  const get = (query: string, accept = 'application/json'): ReturnType<TestService['request']> =>
    service.request(`/api/note/?${query}`, { headers: { accept } });

  for (const accept of formats) {
    test(`as ${accept} is 400 and names limit and the stream`, async () => {
      for (const query of [
        'limit=600',
        'limit=250&ordering=-id',
        'limit=300&page=2',
        'limit=1000&message__like=x%25',
      ]) {
        const answer = await get(query, accept);
        assert.equal(answer.status, 400, query);
        assert.match(answer.text, /limit/);
        assert.match(answer.text, /application\/x-ndjson/);
        assertProblem(answer, 400);
        assert.deepEqual(Object.keys(answer.json.errors), ['limit']);
      }
    });

    test(`as ${accept} is 200 when it is small enough`, async () => {
      for (const query of [
        '',
        'limit=100',
        'limit=150',
        'limit=150&page=4',
        'limit=300&page=3',
        'limit=700&message=y',
      ])
        assert.equal((await get(query, accept)).status, 200, query);
    });
  }

  test('as text/html is 400 and names limit', async () => {
    assert.equal((await get('limit=150', 'text/html')).status, 200);
    const answer = await get('limit=600', 'text/html');
    assert.equal(answer.status, 400);
    assert.match(answer.text, /<code>limit<\/code>/);
  });

  test('is 400 also with few large records, and only records of the page count', async () => {
    await service.sql`insert into note (message) select repeat('y', 50000) from generate_series(1, 5)`;
    assertProblem(await get('message__like=y%25&limit=5'), 400);
    assert.equal((await get('message__like=y%25&limit=3')).json.objects.length, 3);
    const next = (await get('message__like=y%25&limit=3')).json.meta.next;
    assert.notEqual(next, '');
    assert.equal((await service.request(next)).json.objects.length, 2);
    const many = await get('limit=170&page=1&ordering=id');
    assert.equal(many.json.objects.length, 170);
    assert.notEqual(many.json.meta.next, '');
    await service.sql`delete from note where message like 'y%'`;
  });

  test('is 400 in the admin list, too', async () => {
    await service.addUser('ada', { admin: true });
    const ada = await logIn(service, 'ada');
    const { status, text } = await ada.get('/admin/note/?limit=600');
    assert.equal(status, 400);
    assert.match(text, /limit/);
    assert.equal((await ada.get('/admin/note/?limit=50')).status, 200);
  });

  test('can be read as a stream', async () => {
    const { status, text } = await service.request('/api/note/', {
      headers: { accept: 'application/x-ndjson' },
    });
    assert.equal(status, 200);
    assert.equal(text.split('\n').length, ROWS + 1);
  });
});

describe('a page of few long records', () => {
  const options = { skip: process.platform !== 'linux' && 'needs /proc' };
  const MEGABYTE = 2 ** 20;
  /** What the records take together is several times this. */
  const MAX_MEMORY = 100 * MEGABYTE;
  const service: TestService = useService(
    [user, note],
    { maxPage: 4 * MEGABYTE },
    () =>
      service.sql`insert into note (message) select repeat('x', ${6 * MEGABYTE}) from generate_series(1, 26)`,
  );

  /** The largest memory that any of the service's connections has taken in PostgreSQL. */
  async function peakMemory(): Promise<number> {
    const statuses = await service.sql<{ status: string | null }[]>`
      select pg_read_file('/proc/' || pid || '/status', 0, 10000, true) as status from pg_stat_activity
      where datname = current_database() and backend_type = 'client backend' and pid <> pg_backend_pid()`;
    const peaks = statuses.map(({ status }) => Number(/VmHWM:\s+(\d+)/.exec(status ?? '')?.[1] ?? 0));
    assert.ok(peaks.some((peak) => peak > 0));
    return Math.max(...peaks) * 1024;
  }

  for (const query of [
    '',
    'limit=25',
    'ordering=-id&limit=25',
    'message__like=x%25',
    'created__gt=2000-01-01',
  ]) {
    test(`/api/note/?${query} takes PostgreSQL little memory`, options, async () => {
      assertProblem(await service.request(`/api/note/?${query}`), 400);
      const peak = await peakMemory();
      assert.ok(peak < MAX_MEMORY, `${Math.round(peak / MEGABYTE)} MiB`);
    });
  }
});

// Answers that take long to make: errors of long queries, and the OpenAPI document.

/** As many parameters as fit into a query. */
const LONG = `/api/note/?${'a&'.repeat(4_000)}`;
const PAGE = { accept: 'text/html' };

describe('pages that are costly to make', () => {
  const many = Array.from({ length: 20 }, (_, index) => ({
    model: `other${index}`,
    columns: { text: { type: 'text' as const } },
  }));
  const service = useService([user, note, ...many], { trustProxy: 1 });

  const from = (index: number): Record<string, string> => ({ ...PAGE, 'x-forwarded-for': `10.0.${index}.1` });

  for (const [what, path, accept, expected] of [
    ['error pages of long queries', LONG, 'text/html', 400],
    ['error documents of long queries', LONG, 'application/json', 400],
  ] as const)
    test(`${what} are made in turns of the event loop`, async (context) => {
      let turns = 0;
      let isOver = false;
      const madeIn: number[] = [];
      // eslint-disable-next-line @typescript-eslint/unbound-method
      const writeHead = ServerResponse.prototype.writeHead as (this: unknown, ...all: unknown[]) => unknown;
      context.mock.method(ServerResponse.prototype, 'writeHead', function (this: unknown, ...all: unknown[]) {
        if (all[0] === expected) madeIn.push(turns);
        return writeHead.apply(this, all);
      });
      const clients = Array.from({ length: 12 }, () => wire(service));
      const answered = Promise.all(
        clients.map(async (client, index) => {
          client.send(requestText('GET', path, { ...from(index), accept }));
          assert.equal((await client.next())?.status, expected);
          client.destroy();
        }),
      ).finally(() => (isOver = true));
      for (; !isOver; turns += 1) await turn();
      await answered;
      assert.equal(madeIn.length, 12);
      // The error of a query that was parsed before may be made in the same turn.
      for (const made of madeIn)
        assert.ok(madeIn.filter((other) => other === made).length <= 2, `made in turns ${madeIn.join(', ')}`);
    });

  test('the OpenAPI document is sent from the same bytes each time, and compressed once', async (context) => {
    const sent = new Set<unknown>();
    // eslint-disable-next-line @typescript-eslint/unbound-method
    const end = ServerResponse.prototype.end as (this: unknown, ...all: unknown[]) => unknown;
    context.mock.method(ServerResponse.prototype, 'end', function (this: unknown, ...all: unknown[]) {
      sent.add(all[0]);
      return end.apply(this, all);
    });
    for (const coding of ['identity', 'gzip', 'gzip', 'identity']) {
      const response = await service.request('/api/openapi.json', { headers: { 'accept-encoding': coding } });
      assert.equal(response.status, 200);
    }
    const sizes = [...sent].map((body) => (Buffer.isBuffer(body) ? body.length : NaN));
    const [whole = 0, compressed = 0] = sizes;
    assert.ok(sizes.length === 2 && compressed < whole / 2, `sent ${sizes.join(', ')}`);
  });
});

// Long values on the pages of the API.

const HTML = { accept: 'text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8' };
const item: Resource = {
  model: 'item',
  columns: {
    text: { type: 'text', null: true },
    json: { type: 'json', null: true },
    decimal: { type: 'decimal', null: true },
  },
};
const markupOf = ({ text }: Answer): string => /<pre class="json">([\s\S]*?)<\/pre>/.exec(text)?.[1] ?? '';
const jsonOf = (answer: Answer): string => unescaped(markupOf(answer).replace(/<[^>]*>/g, ''));

describe('long values on the pages of the API', () => {
  const service: TestService = useService([item]);

  const get = (path: string): Promise<Answer> => service.request(path, { headers: HTML });
  const add = async ({ text, json, decimal }: Record<string, string>): Promise<number> => {
    const [row] = await service.sql<{ id: number }[]>`insert into item (text, json, decimal)
      values (${text ?? null}, ${json ?? null}::text::jsonb, ${decimal ?? null}::text::numeric) returning id`;
    return row?.id ?? 0;
  };

  test('of up to 64 KiB are indented', async () => {
    const id = await add({
      text: `"<b>${'é'.repeat(3000)}`,
      json: `{"a": "${'x'.repeat(50_000)}"}`,
      decimal: '7'.repeat(4096),
    });
    await add({});
    for (const path of [`/api/item/${id}/`, `/api/item/?id__gte=${id}`]) {
      const page = await get(path);
      assert.deepEqual(JSON.parse(jsonOf(page)), (await service.request(path)).json);
      assert.match(jsonOf(page), /\n {2,}"json": {\n/);
      assert.doesNotMatch(markupOf(page), /<b>/);
    }
  });

  test('of more than 64 KiB are shown as they are', async () => {
    const id = await add({ json: `[${'1,'.repeat(500_000)}1]` });
    const page = await get(`/api/item/${id}/`);
    assert.equal(page.status, 200);
    assert.equal(jsonOf(page), (await service.request(`/api/item/${id}/`)).text);
  });

  test('of megabytes are refused on a page', async () => {
    const id = await add({ text: 'x'.repeat(2_100_000) });
    assert.match(jsonOf(await get(`/api/item/${id}/`)), /^This record is too long for a page\.$/);
    const page = await get(`/api/item/?id=${id}`);
    assert.equal(page.status, 400);
    assert.match(page.text, /use a lower limit/);
  });
});
