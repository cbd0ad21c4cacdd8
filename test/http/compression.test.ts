// Compression and caching of what anonymous clients read.
import assert from 'node:assert/strict';
import { request as httpRequest, type IncomingMessage } from 'node:http';
import { buffer } from 'node:stream/consumers';
import { brotliDecompressSync, gunzipSync } from 'node:zlib';
import type { Resource } from '../../src/index.ts';
import { user } from '../../src/resources/registry.ts';
import { basic, useService, type TestService } from '../support.ts';
import { eventually } from './expect.ts';
import { describe, test } from 'node:test';

const text: Resource = { model: 'text', columns: { content: { type: 'text' } } };
const kept: Resource = { ...text, model: 'kept', cache: 60 };

interface Received {
  readonly status: number | undefined;
  readonly headers: IncomingMessage['headers'];
  readonly body: Buffer;
}

describe('responses to anonymous clients', () => {
  const service: TestService = useService(
    [user, text, kept],
    { corsOrigins: ['https://a.example'], trustProxy: 1 },
    async () => {
      await service.addUser('bob');
      for (const table of ['text', 'kept'])
        await service.sql`insert into ${service.sql(table)} (content) select repeat('héllo ', 40) || i from generate_series(1, 500) i`;
      await service.sql`insert into text (content) values ('short')`;
    },
  );

  let clients = 0;
  /** A request whose response is not decoded. Each comes from another client, because many streams of one need a cooldown. */
  const get = (path: string, headers: Record<string, string> = {}, method = 'GET'): Promise<Received> =>
    new Promise((resolve, reject) => {
      const from = { 'x-forwarded-for': `10.0.${clients >> 8}.${clients++ & 255}` };
      const options = { method, headers: { ...headers, ...from }, agent: false };
      const sent = httpRequest(`${service.base}${path}`, options, (response) => {
        buffer(response).then(
          (body) => resolve({ status: response.statusCode, headers: response.headers, body }),
          reject,
        );
      });
      sent.on('error', reject).end();
    });
  const decode = ({ headers, body }: Received): string => {
    const coding = headers['content-encoding'];
    const plain = coding === 'br' ? brotliDecompressSync(body) : coding === 'gzip' ? gunzipSync(body) : body;
    return plain.toString();
  };

  const codings: [accepted: string | undefined, coding: string | undefined][] = [
    [undefined, undefined],
    ['', undefined],
    ['identity', undefined],
    ['deflate, zstd', undefined],
    ['gzip', 'gzip'],
    ['GZIP;q=0.3, deflate', 'gzip'],
    ['gzip, br', 'br'],
    ['br;q=0, gzip', 'gzip'],
    ['br; q=0.000 , gzip ;q=0', undefined],
    ['*', undefined],
    ['br;q=0.1, gzip;q=1', 'gzip'],
    ['br;q=0.5, gzip;q=0.500', 'br'],
    ['gzip;q=0.5, identity', undefined],
    [`${'x,'.repeat(511)}br`, 'br'],
    [`${'y,'.repeat(511)}gzip`, undefined],
  ];
  for (const [accepted, coding] of codings)
    for (const accept of ['application/json', 'text/csv', 'application/x-ndjson'])
      test(`${accept} with Accept-Encoding: ${accepted?.slice(0, 30)} is sent as ${coding}`, async () => {
        const path = accept.includes('nd') ? '/api/text/' : '/api/text/?limit=100';
        const plain = await get(path, { accept });
        const answer = await get(path, {
          accept,
          ...(accepted !== undefined && { 'accept-encoding': accepted }),
        });
        assert.deepEqual([answer.status, answer.headers['content-encoding']], [200, coding]);
        assert.ok(decode(answer) === plain.body.toString());
        assert.match(answer.headers.vary ?? '', /Accept-Encoding/);
        assert.match(answer.headers.vary ?? '', /Accept(,|$)/);
        if (coding !== undefined) assert.ok(answer.body.length < plain.body.length / 5);
        if (!accept.includes('nd'))
          assert.equal(Number(answer.headers['content-length']), answer.body.length);
      });

  test('are not compressed with credentials or a cookie, and small ones never', async () => {
    const accepts = { 'accept-encoding': 'br, gzip' };
    for (const headers of [{ authorization: basic('bob') }, { cookie: 'a=b' }]) {
      const answer = await get('/api/text/', { ...accepts, ...headers });
      assert.deepEqual([answer.status, answer.headers['content-encoding']], [200, undefined]);
      assert.doesNotMatch(answer.headers.vary ?? '', /Encoding/);
    }
    const small = await get('/api/text/501/', accepts);
    assert.equal(small.headers['content-encoding'], undefined);
    assert.doesNotMatch(small.headers.vary ?? '', /Encoding/);
    const page = await get('/api/text/', { ...accepts, accept: 'text/html' });
    assert.equal(page.headers['content-encoding'], undefined);
  });

  test('have a weak ETag when they are compressed, which answers If-None-Match and never If-Match', async () => {
    await service.sql`update text set content = repeat(content, 10) where id = 1`;
    const plain = await get('/api/text/1/');
    const answer = await get('/api/text/1/', { 'accept-encoding': 'gzip' });
    assert.equal(answer.headers.etag, `W/${plain.headers.etag}`);
    const known = { 'if-none-match': String(answer.headers.etag), 'accept-encoding': 'gzip' };
    const unchanged = await get('/api/text/1/', known);
    assert.deepEqual([unchanged.status, unchanged.headers.etag], [304, answer.headers.etag]);
    const plainly = { 'if-none-match': String(plain.headers.etag) };
    assert.equal((await get('/api/text/1/', plainly)).headers.etag, plain.headers.etag);
    const head = await get('/api/text/1/', { 'accept-encoding': 'gzip' }, 'HEAD');
    for (const name of ['content-encoding', 'content-length', 'etag'])
      assert.equal(head.headers[name], answer.headers[name], name);
  });

  test('are sent while they are found, and a stream that is left before its end is closed', async () => {
    for (let round = 0; round < 20; round += 1) {
      const leave = new AbortController();
      const headers = { accept: 'application/x-ndjson', 'accept-encoding': round % 2 ? 'gzip' : 'br' };
      const answer = await fetch(`${service.base}/api/text/`, { headers, signal: leave.signal });
      if (round % 3) await answer.body?.getReader().read();
      leave.abort();
    }
    await eventually(async () => {
      const [open] = await service.sql`select count(*)::int as count from pg_stat_activity
        where datname = current_database() and xact_start is not null and pid <> pg_backend_pid()`;
      return open?.['count'] === 0;
    }, 'the end of all streams');
    const all = { accept: 'application/x-ndjson', 'accept-encoding': 'br' };
    let after = await get('/api/text/', all);
    // So many streams in a row are followed by a short pause.
    await eventually(async () => {
      if (after.status === 429) after = await get('/api/text/', all);
      return after.status === 200;
    }, 'the next stream');
    assert.equal(decode(after).trim().split('\n').length, 501);
  });

  test('many at once are all complete, compressed or not', async () => {
    const [plain] = await Promise.all([get('/api/text/?limit=500')]);
    const answers = await Promise.all(
      Array.from({ length: 30 }, () => get('/api/text/?limit=500', { 'accept-encoding': 'br' })),
    );
    // A busy machine refuses some of them.
    const complete = answers.filter(({ status }) => status === 200);
    assert.ok(complete.length > 0 && answers.every(({ status }) => [200, 429, 503].includes(Number(status))));
    for (const answer of complete) assert.ok(decode(answer) === plain.body.toString());
    assert.ok(complete.some(({ headers }) => headers['content-encoding'] === 'br'));
  });

  test('may be kept by caches where the resource says so, and only without credentials', async () => {
    for (const [path, accept] of [
      ['/api/kept/', 'application/json'],
      ['/api/kept/', 'text/csv'],
      ['/api/kept/1/', 'application/json'],
      ['/api/kept/', 'application/x-ndjson'],
      ['/api/kept/', 'text/html'],
      // A record has no CSV, so this is a page.
      ['/api/kept/1/', 'text/csv, text/html;q=0.5'],
    ] as const) {
      const isPage = accept.includes('text/html');
      const { headers } = await get(path, { accept, origin: 'https://a.example' });
      // A page shows the `Host` of the request that it answers.
      assert.equal(headers['cache-control'], isPage ? 'no-store' : 'public, max-age=60');
      if (!isPage)
        for (const name of ['Authorization', 'Prefer', 'Accept-Encoding'])
          assert.ok(headers.vary?.includes(name), name);
      for (const prefer of [
        'count=exact',
        'count=estimated',
        ...(accept === 'text/csv' ? ['paging=none'] : []),
      ])
        if (path === '/api/kept/' && accept !== 'application/x-ndjson' && !isPage)
          assert.equal((await get(path, { accept, prefer })).headers['cache-control'], undefined, prefer);
      assert.match(headers.vary ?? '', /Origin/);
      const own = await get(path, { accept, authorization: basic('bob') });
      assert.equal(own.headers['cache-control'], 'no-store');
      assert.equal(
        (await get(path.replace('kept', 'text'), { accept })).headers['cache-control'],
        isPage ? 'no-store' : undefined,
      );
    }
    for (const path of ['/api/kept/?limit=0', '/api/kept/9999/', '/api/kept/?x=1'])
      assert.equal((await get(path)).headers['cache-control'], undefined, path);
  });

  test('of a kept collection have an ETag, which changes with the records', async () => {
    const { headers } = await get('/api/kept/?limit=3');
    assert.match(String(headers.etag), /^W\/"[\w-]+"$/);
    const ask = async (): Promise<unknown> =>
      (await get('/api/kept/?limit=3', { 'if-none-match': String(headers.etag) })).status;
    assert.equal(await ask(), 304);
    await service.sql`update kept set content = 'other' where id = 2`;
    assert.equal(await ask(), 200);
    assert.equal((await get('/api/text/?limit=3')).headers.etag, undefined);
  });

  test('of a kept collection have no ETag if they are large', async () => {
    await service.sql`insert into kept (content) select repeat('x', 600000) from generate_series(1, 2)`;
    for (const [limit, hasTag] of [
      [1, true],
      [2, false],
    ] as const) {
      const { status, headers } = await get(`/api/kept/?ordering=-id&limit=${limit}`);
      assert.equal(status, 200);
      assert.equal(headers['cache-control'], 'public, max-age=60');
      assert.equal(headers.etag !== undefined, hasTag);
    }
  });
});
