// The typed client alone, and the same tests of it and of a client that is generated from the OpenAPI document.
import assert from 'node:assert/strict';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { createClient, etagOf, listChanges, VitrineError } from '../../src/client.ts';
import { DEFAULTS } from '../../src/config.ts';
import { createLogger } from '../../src/http/observability/logger.ts';
import { createHttpServer, listen } from '../../src/http/server/http-server.ts';
import { createService } from '../../src/service.ts';
import type { TestService } from '../support.ts';
import { resources, startSampleService, USERS } from './sample-service.ts';
import { DRIVERS, type Driver } from './drivers.ts';
import { after, before, describe, test } from 'node:test';
import { useStarted } from '../support.ts';

type Resources = typeof resources;

describe('the typed client', () => {
  const service = useStarted(startSampleService);

  const connect = (options = {}) =>
    createClient<Resources>({ baseUrl: service.base, credentials: USERS.ada, ...options });

  test('sends null as NULL', async () => {
    assert.equal(await connect().message.count({ stars__is: null }), 15);
  });

  test('follows the change feed', async () => {
    const options = { baseUrl: service.base, credentials: USERS.root };
    const { meta } = await listChanges<Resources>(options, { after: 'now' });
    const made = await connect().land.create({ id: 'it', name: 'Italy' });
    await connect().land.update('it', { name: 'Italia' });
    const page = await listChanges<Resources>(options, { after: meta.after });
    assert.deepEqual(
      page.objects.map(({ action, model, record, before, after }) => [action, model, record, before, after]),
      [
        ['create', 'land', 'it', null, made],
        ['update', 'land', 'it', { name: 'Italy' }, { name: 'Italia' }],
      ],
    );
    assert.equal(page.meta.more, false);
    const [first] = page.objects;
    assert.equal((await listChanges<Resources>(options, { after: first?.id })).objects.length, 1);
    await assert.rejects(listChanges(options, { after: 'forged' }), (error: VitrineError) => error.status === 400);
    await connect().land.delete('it');
  }); // prettier-ignore

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

  test('returns the total and the related records of a page, with one request for each foreign key', async () => {
    const requested: string[] = [];
    const spy: typeof fetch = (input, init) => {
      requested.push(decodeURIComponent(input as string).slice(service.base.length));
      return fetch(input, init);
    };
    const { message, account, land } = connect({ fetch: spy });
    const page = await message.list({ limit: 10 }, { related: ['user'], count: 'exact' });
    assert.deepEqual([page.objects.length, page.total, page.related.user.size], [10, 45, 1]);
    assert.equal(page.related.user.get(page.objects[0]?.user_id ?? 0)?.username, 'ada');
    assert.deepEqual(requested, ['/api/message/?limit=10', '/api/user/?id__in=2&limit=150']);
    await land.createMany([
      { id: 'a,b', name: 'A' },
      { id: 'c', name: 'C' },
    ]);
    const ids: number[] = [];
    for (const land_id of ['a,b', null, 'c']) ids.push((await account.create({ balance: 1, land_id })).id);
    const { related, objects } = await account.list({ id__in: ids }, { related: { land: 'land' } });
    assert.deepEqual(
      objects.map(({ land_id }) => related.land.get(land_id ?? '')?.name),
      ['A', undefined, 'C'],
    );
    const none = await account.list({ id: 0 }, { related: ['land'] });
    assert.equal(none.related.land.size, 0);
    for (const id of ids) await account.delete(id);
    for (const id of ['a,b', 'c']) await land.delete(id);
    assert.deepEqual(Object.keys(await message.list({ limit: 1 })), ['meta', 'objects']);
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

  test('retries reads, but not writes, while the service starts', async (t) => {
    const settings = { ...DEFAULTS, databaseUrl: service.url };
    const starting = createService(settings, { resources }, service.url, createLogger('error'));
    const server = await listen(createHttpServer(starting.handler), '127.0.0.1', 0);
    t.after(async () => {
      await server.close();
      await starting.close();
    });
    const waiting = createClient<Resources>({ baseUrl: server.url, retries: 5 }).message.count();
    const written = createClient<Resources>({ baseUrl: server.url, retries: 5, credentials: USERS.ada });
    // A write may have been made in spite of a 503.
    await assert.rejects(written.message.create({ content: 'x' }), { status: 503 });
    await starting.prepare();
    assert.equal(await waiting, 45);
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

/** The error of a failing call. */
async function errorOf(call: Promise<unknown>): Promise<VitrineError> {
  const error = await call.then(
    () => assert.fail('the call went through'),
    (caught: unknown) => caught,
  );
  assert.ok(error instanceof VitrineError, String(error));
  return error;
}

const TEXTS = ['a,b', 'say "hi"', '', ' plain ', '100 % & more = ä+🔑', "it's"];
const KEYS = ['a/b', 'with space', '100%', 'q?x=1#y', 'ключ', '"x",y', '...'];

for (const [name, connect] of Object.entries(DRIVERS)) {
  describe(name, () => {
    let anonymous: Driver;
    let ada: Driver;
    let lukasz: Driver;
    let root: Driver;

    const service: TestService = useStarted(startSampleService, () => {
      const { base: baseUrl } = service;
      anonymous = connect({ baseUrl });
      ada = connect({ baseUrl, credentials: USERS.ada });
      lukasz = connect({ baseUrl: `${baseUrl}/`, credentials: USERS.lukasz });
      root = connect({ baseUrl, credentials: USERS.root });
    });

    test('returns the requested page', async () => {
      const { meta, objects } = await anonymous.list('message', { ordering: '-id', limit: 2, page: 2 });
      assert.deepEqual(
        objects.map(({ id }) => id),
        [43, 42],
      );
      assert.deepEqual(meta, {
        model: 'message',
        page: 2,
        next: '/api/message/?ordering=-id&limit=2&page=3',
        previous: '/api/message/?ordering=-id&limit=2&page=1',
      });
    });

    const filters: [name: string, query: Record<string, unknown>, count: number][] = [
      ['no filter', {}, 45],
      ['a value', { content: 'message 7' }, 1],
      ['several values', { content: ['message 7', 'message 8', 'x'] }, 2],
      ['a list', { id__in: [1, 2, 99] }, 2],
      ['NULL', { stars__is: 'null' }, 15],
      ['a negated filter', { '-stars__is': 'null' }, 30],
      ['a pattern', { content__ilike: 'MESSAGE 4%' }, 7],
      ['an operator and a boolean', { stars__gte: 40, user__active: true }, 4],
      ['a path', { user__username: 'ada', user__username__ne: 'bob' }, 45],
      ['a negated path', { '-user__username': 'ada' }, 0],
    ];
    for (const [name, query, count] of filters) {
      test(`filters by: ${name}`, async () => {
        assert.equal(await anonymous.count('message', query), count);
        assert.equal((await anonymous.all('message', query)).length, count);
      });
    }

    test('iterates over all pages and returns each record once', async () => {
      const found = await anonymous.all('message', { limit: 10, ordering: '-stars' });
      assert.deepEqual(
        found.map(({ id }) => id).sort((one, other) => Number(one) - Number(other)),
        Array.from({ length: 45 }, (_, index) => index + 1),
      );
    });

    test('finds texts with commas and quotes and the empty text, alone and in a list', async () => {
      for (const content of TEXTS) await ada.create('message', { content });
      const { objects } = await anonymous.list('message', { content__in: TEXTS, ordering: 'id' });
      assert.deepEqual(
        objects.map(({ content }) => content),
        TEXTS,
      );
      for (const content of TEXTS) {
        assert.equal(await anonymous.count('message', { content__in: [content] }), 1, content);
        assert.equal(await anonymous.count('message', { content }), 1, content);
      }
      for (const { id } of objects) await ada.remove('message', Number(id));
    });

    test('finds records by text keys of any characters', async () => {
      for (const id of KEYS) {
        const made = await ada.create('land', { id, name: `land ${id}` });
        assert.equal(made.record['id'], id);
        assert.equal((await anonymous.get('land', id)).record['name'], `land ${id}`);
        assert.equal((await ada.update('land', id, { name: `new ${id}` })).record['name'], `new ${id}`);
        await ada.remove('land', id);
        assert.equal((await errorOf(anonymous.get('land', id))).status, 404);
      }
    });

    test('keeps all digits of numbers that JavaScript would round', async () => {
      const sent = { balance: '123456789012345678.90', total: '9007199254740993' };
      const { record } = await ada.create('account', sent);
      assert.deepEqual(record, { id: record['id'], land_id: null, ...sent });
      assert.equal(await anonymous.count('account', { total: '9007199254740993' }), 1);
      assert.equal(await anonymous.count('account', { total: '9007199254740992' }), 0);
      assert.equal(await anonymous.count('account', { balance__gt: '123456789012345678.89' }), 1);
      const changed = await ada.update('account', Number(record['id']), { ...record, total: 5 });
      assert.deepEqual(changed.record, { ...record, total: '5' });
    });

    test('creates, changes, reads and deletes a record with If-Match', async () => {
      const made = await lukasz.create('message', { content: 'grüße', stars: 1 });
      const id = Number(made.record['id']);
      assert.equal(made.record['user_id'], 3);
      assert.ok(made.etag);
      const changed = await lukasz.update('message', id, { stars: null }, { etag: made.etag });
      assert.deepEqual(changed.record, { ...made.record, stars: null });
      const read = await anonymous.get('message', id);
      assert.deepEqual(read, changed);
      const late = await errorOf(lukasz.update('message', id, { stars: 2 }, { etag: made.etag }));
      assert.deepEqual([late.status, late.problem?.status], [412, 412]);
      assert.equal((await errorOf(lukasz.remove('message', id, { etag: made.etag }))).status, 412);
      await lukasz.remove('message', id, { etag: changed.etag ?? '' });
      assert.equal((await errorOf(anonymous.get('message', id))).status, 404);
    });

    test('reads and writes protected resources with credentials', async () => {
      assert.equal((await lukasz.create('diary', { content: 'x' })).record['content'], 'x');
      assert.equal((await ada.list('diary')).objects.length, 1);
      assert.equal((await root.list('vault')).objects.length, 1);
    });

    test('rejects an aborted call without waiting for the response', async () => {
      const signal = AbortSignal.abort(new Error('no longer wanted'));
      await assert.rejects(anonymous.list('message', {}, { signal }), /no longer wanted/);
      await service.sql.begin(async (sql) => {
        await sql`lock table reply in access exclusive mode`;
        const late = AbortSignal.timeout(200);
        await assert.rejects(anonymous.list('reply', {}, { signal: late }), { name: 'TimeoutError' });
      });
    });

    const errors: [status: number, call: () => Promise<unknown>, detail: RegExp, errors?: object][] = [
      [400, () => anonymous.list('message', { limit: 0 }), /^The query has/, { limit: ['must be a positive whole number'] }],
      [400, () => ada.create('message', { contents: 'x' }), /^The body has/, { content: ['is required'], contents: ['there is no such field'] }],
      [403, () => ada.list('vault'), /^Only admins/],
      [403, () => lukasz.update('message', 1, { content: 'x' }), /^Only the owner/],
      [404, () => anonymous.get('message', 9999), /^There is no such record/],
      [404, () => anonymous.get('massage', 1), /^There is no resource at this address/],
      [
        409,
        () =>
          Promise.all([
            ada.create('land', { id: 'x', name: 'one' }),
            ada.create('land', { id: 'y', name: 'one' }),
          ]),
        /^A record with the same value/,
        { name: ['another record has this value'] },
      ],
      [409, () => root.remove('user', 2), /^Records of message refer/],
    ]; // prettier-ignore
    for (const [status, call, detail, fields] of errors) {
      test(`throws the problem document of a ${status}: ${detail.source}`, async () => {
        const error = await errorOf(call());
        assert.deepEqual([error.status, error.problem?.status], [status, status]);
        assert.match(error.problem?.detail ?? '', detail);
        assert.deepEqual(error.problem?.errors, fields);
        assert.equal(error.problem?.type, 'about:blank');
      });
    }

    test('throws a 401 without a problem document for missing and wrong credentials', async () => {
      const wrong = connect({ baseUrl: service.base, credentials: { username: 'ada', password: 'wrong' } });
      for (const driver of [anonymous, wrong]) {
        const error = await errorOf(driver.list('diary'));
        assert.deepEqual([error.status, error.problem], [401, undefined]);
      }
    });

    test('throws a 429 with Retry-After after too many failed logins', async () => {
      const wrong = connect({
        baseUrl: service.base,
        credentials: { username: 'ada', password: 'wrong' },
        headers: { 'X-Forwarded-For': '203.0.113.7' },
      });
      for (let failures = 0; failures < 10; failures += 1)
        assert.equal((await errorOf(wrong.list('diary'))).status, 401);
      const error = await errorOf(wrong.list('diary'));
      assert.deepEqual([error.status, error.problem?.status], [429, 429]);
      assert.ok(error.retryAfter !== undefined && error.retryAfter > 0 && error.retryAfter <= 60);
    });

    test('throws a 503 with Retry-After while the service starts', async (t) => {
      const settings = { ...DEFAULTS, databaseUrl: service.url };
      const starting = createService(settings, { resources }, service.url, createLogger('error'));
      const server = await listen(createHttpServer(starting.handler), '127.0.0.1', 0);
      t.after(async () => {
        await server.close();
        await starting.close();
      });
      const error = await errorOf(connect({ baseUrl: server.url }).list('message'));
      assert.deepEqual([error.status, error.problem?.status, error.retryAfter], [503, 503, 1]);
    });
  });
}
