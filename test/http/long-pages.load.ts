// A long page has its records in rows of their own. Its bytes are the same as if it were one value.
import assert from 'node:assert/strict';
import { request as httpRequest, type IncomingHttpHeaders } from 'node:http';
import { buffer } from 'node:stream/consumers';
import { brotliDecompressSync, gunzipSync } from 'node:zlib';
import type { Resource } from '../../src/index.ts';
import { user } from '../../src/resources/registry.ts';
import { useService, type TestService } from '../support.ts';
import { describe, test } from 'node:test';

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
      for (const [coding, decode] of [
        ['gzip', gunzipSync],
        ['br', brotliDecompressSync],
      ] as const) {
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
