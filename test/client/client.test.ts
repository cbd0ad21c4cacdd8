import assert from 'node:assert/strict';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { createClient, etagOf, VitrineError } from '../../src/client.ts';
import { DEFAULTS } from '../../src/config.ts';
import { createLogger } from '../../src/http/observability/logger.ts';
import { createHttpServer, listen } from '../../src/http/server/http-server.ts';
import { createService } from '../../src/service.ts';
import type { TestService } from '../support.ts';
import { USERS, resources, startSampleService } from './sample-service.ts';
import { after, before, describe, test } from 'node:test';

type Resources = typeof resources;

describe('the typed client', () => {
  let service: TestService;
  before(async () => {
    service = await startSampleService();
  });
  after(() => service.close());

  const connect = (options = {}) =>
    createClient<Resources>({ baseUrl: service.base, credentials: USERS.ada, ...options });

  test('sends null as NULL', async () => {
    assert.equal(await connect().message.count({ stars__is: null }), 15);
  });

  test('rejects an empty list of values', async () => {
    const { message } = connect();
    await assert.rejects(message.list({ content: [] }), /^TypeError: content needs at least one value\.$/);
    await assert.rejects(message.count({ id__in: [] }), TypeError);
  });

  test('keeps all digits of a bigint in a body and in a filter', async () => {
    const { account } = connect();
    const big = 9007199254740993n;
    const made = await account.create({ balance: 1, total: big });
    assert.equal(made.total, String(big));
    const { objects } = await account.list({ total: big });
    assert.deepEqual(objects, [made]);
    assert.equal(await account.count({ total__in: [big, 1n] }), 1);
    assert.deepEqual(await account.get(BigInt(made.id)), made);
    await account.delete(made.id);
  });

  test('creates several records, with all digits of their bigints, or none', async () => {
    const { account } = connect();
    const big = 9007199254740993n;
    const made = await account.createMany([{ balance: 1, total: big }, { balance: 2 }]);
    assert.deepEqual(
      made.map(({ balance, total }) => [balance, total]),
      [
        ['1.00', String(big)],
        ['2.00', '0'],
      ],
    );
    for (const one of made) assert.deepEqual(await account.get(BigInt(one.id)), one);
    for (const { id } of made) await account.delete(id);
    const before = await account.count();
    await assert.rejects(account.createMany([]), { status: 400 });
    await assert.rejects(account.createMany([{ balance: 1 }, { balance: 'x' }]), { status: 400 });
    assert.equal(await account.count(), before);
  });

  test('creates several records and gets only their keys', async () => {
    const { account, land } = connect();
    const keys = await account.createMany([{ balance: 1 }, { balance: 2 }], { return: 'minimal' });
    for (const [index, key] of keys.entries()) {
      assert.equal((await account.get(key)).balance, `${index + 1}.00`);
      await account.delete(key);
    }
    assert.deepEqual(await land.createMany([{ id: 'a b', name: 'x' }], { return: 'minimal' }), ['a b']);
    await land.delete('a b');
  });

  test('creates a record at its key, but changes none', async () => {
    const { land } = connect();
    const made = await land.createAt('ch', { name: 'Schweiz' });
    assert.deepEqual(made, { id: 'ch', name: 'Schweiz' });
    assert.equal(etagOf(made), etagOf(await land.get('ch')));
    await assert.rejects(land.createAt('ch', { name: 'Suisse' }), { status: 412 });
    assert.deepEqual(await land.get('ch'), made);
    await land.delete('ch');
  });

  test('has the ETag of a single record, but not of copies and list entries', async () => {
    const { message } = connect();
    const record = await message.get(1);
    assert.match(etagOf(record) ?? '', /^"\d+-[0-9a-f]{6}"$/);
    assert.equal(etagOf({ ...record }), undefined);
    const { objects } = await message.list({ id: 1 });
    assert.deepEqual(objects, [record]);
    assert.equal(etagOf(objects[0]!), undefined);
  });

  test('can send a record back unchanged', async () => {
    const { message } = connect();
    const record = await message.get(1);
    const same = await message.update(1, record, { etag: etagOf(record) });
    assert.deepEqual(same, record);
    assert.equal(etagOf(same), etagOf(record));
  });

  test('requests the next page only when the iteration needs it', async () => {
    const requested: string[] = [];
    const spy: typeof fetch = (input, init) => {
      requested.push(input as string);
      return fetch(input, init);
    };
    for await (const { id } of connect({ fetch: spy }).message.all({ limit: 10 })) if (id === 15) break;
    assert.deepEqual(requested, [
      `${service.base}/api/message/?limit=10`,
      `${service.base}/api/message/?limit=10&page=2`,
    ]);
  });

  test('goes on from the last record with cursors, whatever is deleted meanwhile', async () => {
    const { message } = connect();
    const expected: number[] = [];
    for await (const { id } of message.all({ limit: 1000, id__lte: 20 })) expected.push(id);
    const seen: number[] = [];
    const added = await service.sql<{ id: number }[]>`
      insert into message (id, user_id, content) values (-1, 1, 'first') returning id`;
    for await (const { id } of message.all({ limit: 5, id__lte: 20 }, { paging: 'cursor' })) {
      if (id === -1) await service.sql`delete from message where id = -1`;
      else seen.push(id);
    }
    assert.equal(added.length, 1);
    assert.deepEqual(seen, expected);
  });

  test('throws errors with the messages of the service', async () => {
    await assert.rejects(connect().message.list({ limit: -1, page: 0 }), {
      name: 'VitrineError',
      message:
        'The query has parameters that cannot be used. limit: must be a positive whole number page: must be a positive whole number',
    });
    await assert.rejects(createClient<Resources>({ baseUrl: service.base }).diary.list(), {
      name: 'VitrineError',
      message: 'The service answered with status 401.',
    });
  });

  test('is not a thenable', async () => {
    const client = connect();
    assert.equal(await Promise.resolve(client), client);
    assert.equal(client.message, client.message);
  });

  test('retries reads, but not writes, while the service starts', async () => {
    const settings = { ...DEFAULTS, databaseUrl: service.url };
    const starting = createService(settings, resources, service.url, createLogger('error'));
    const server = await listen(createHttpServer(starting.handler), '127.0.0.1', 0);
    try {
      const waiting = createClient<Resources>({ baseUrl: server.url, retries: 5 }).message.count();
      const written = createClient<Resources>({ baseUrl: server.url, retries: 5, credentials: USERS.ada });
      // A write may have been made in spite of a 503.
      await assert.rejects(written.message.create({ content: 'x' }), { status: 503 });
      await starting.prepare();
      assert.equal(await waiting, 45);
    } finally {
      await server.close();
      await starting.close();
    }
  });
});

describe('the typed client behind a proxy', () => {
  let answer: (request: IncomingMessage, response: ServerResponse) => void;
  const requests: IncomingMessage[] = [];
  const server = createServer((request, response) => {
    requests.push(request);
    answer(request, response);
  });
  let baseUrl: string;
  before(async () => {
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    baseUrl = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  });
  after(() => new Promise((resolve) => server.close(resolve)));

  const fail = (
    status: number,
    headers: Record<string, string>,
    body: string,
    options = {},
  ): Promise<unknown> => {
    answer = (_, response) => response.writeHead(status, headers).end(body);
    requests.length = 0;
    return createClient<Resources>({ baseUrl, ...options })
      .message.get(1)
      .then(
        () => assert.fail('the call went through'),
        (error: unknown) => error,
      );
  };

  const unusual: [name: string, status: number, headers: Record<string, string>, body: string][] = [
    ['an HTML page', 502, { 'content-type': 'text/html' }, '<h1>Bad Gateway</h1>'],
    ['a problem document that is not JSON', 503, { 'content-type': 'application/problem+json' }, '<h1>'],
    ['an empty body', 500, {}, ''],
  ];
  for (const [name, status, headers, body] of unusual) {
    test(`throws an error with the status for ${name}`, async () => {
      const error = await fail(status, headers, body);
      assert.ok(error instanceof VitrineError);
      assert.deepEqual([error.status, error.problem, error.retryAfter], [status, undefined, undefined]);
    });
  }

  test('converts a date in Retry-After to seconds', async () => {
    const at = new Date(Date.now() + 60_000).toUTCString();
    const error = await fail(503, { 'retry-after': at }, '');
    assert.ok(error instanceof VitrineError && error.retryAfter !== undefined);
    assert.ok(error.retryAfter > 50 && error.retryAfter <= 60);
  });

  test('retries as often as configured, by default never', async () => {
    for (const [options, count] of [
      [{}, 1],
      [{ retries: 2 }, 3],
    ] as const) {
      assert.ok((await fail(429, { 'retry-after': '0' }, '', options)) instanceof VitrineError);
      assert.equal(requests.length, count);
    }
  });

  test('does not retry after more than ten minutes, which a timer might not even count', async () => {
    for (const seconds of ['601', '2592000']) {
      requests.length = 0;
      const error = await fail(429, { 'retry-after': seconds }, '', { retries: 3 });
      assert.ok(error instanceof VitrineError && error.retryAfter === Number(seconds));
      assert.equal(requests.length, 1);
    }
  });

  test('sends no number that JSON would turn into null', async () => {
    requests.length = 0;
    const { message } = createClient<Resources>({ baseUrl });
    for (const value of [NaN, Infinity])
      await assert.rejects(message.create({ content: 'x', stars: value }), {
        name: 'TypeError',
        message: /^stars is (NaN|Infinity)/,
      });
    assert.equal(requests.length, 0);
  });

  test('stops waiting for a retry when its signal aborts', async () => {
    answer = (_, response) => response.writeHead(503, { 'retry-after': '60' }).end();
    const { message } = createClient<Resources>({ baseUrl, retries: 1 });
    await assert.rejects(message.list({}, { signal: AbortSignal.timeout(100) }), { name: 'TimeoutError' });
  });

  test('throws an error when the response has no count', async () => {
    answer = (_, response) => response.end('{"meta":{},"objects":[]}');
    await assert.rejects(createClient<Resources>({ baseUrl }).message.count(), /no X-Total-Count/);
  });

  test('sends the path prefix, headers and credentials with each request', async () => {
    const headers = { 'X-Mine': '1', authorization: 'Bearer x', accept: 'text/html' };
    await fail(404, {}, '', { baseUrl: `${baseUrl}/shop/`, headers });
    const [request] = requests;
    assert.equal(request?.url, '/shop/api/message/1/');
    assert.equal(request.headers['x-mine'], '1');
    assert.equal(request.headers.authorization, 'Bearer x');
    assert.equal(request.headers.accept, 'application/json');
    await fail(404, {}, '', { headers, credentials: { username: 'ü', password: 'a:b' } });
    const [, encoded = ''] = requests[0]?.headers.authorization?.split(' ') ?? [];
    assert.equal(Buffer.from(encoded, 'base64').toString(), 'ü:a:b');
  });
});
