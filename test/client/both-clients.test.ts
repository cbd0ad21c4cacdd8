import assert from 'node:assert/strict';
import { DEFAULTS } from '../../src/config.ts';
import { VitrineError } from '../../src/client.ts';
import { createLogger } from '../../src/http/observability/logger.ts';
import { createHttpServer, listen } from '../../src/http/server/http-server.ts';
import { createService } from '../../src/service.ts';
import type { TestService } from '../support.ts';
import { DRIVERS, type Driver } from './drivers.ts';
import { USERS, resources, startSampleService } from './sample-service.ts';
import { after, before, describe, test } from 'node:test';

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
    let service: TestService;
    let anonymous: Driver;
    let ada: Driver;
    let lukasz: Driver;
    let root: Driver;

    before(async () => {
      service = await startSampleService();
      const { base: baseUrl } = service;
      anonymous = connect({ baseUrl });
      ada = connect({ baseUrl, credentials: USERS.ada });
      lukasz = connect({ baseUrl: `${baseUrl}/`, credentials: USERS.lukasz });
      root = connect({ baseUrl, credentials: USERS.root });
    });
    after(() => service.close());

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
      [
        400,
        () => anonymous.list('message', { limit: 0 }),
        /^The query has/,
        { limit: ['must be a positive whole number'] },
      ],
      [
        400,
        () => ada.create('message', { contents: 'x' }),
        /^The body has/,
        { content: ['is required'], contents: ['there is no such field'] },
      ],
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
    ];
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

    test('throws a 503 with Retry-After while the service starts', async () => {
      const settings = { ...DEFAULTS, databaseUrl: service.url };
      const starting = createService(settings, resources, service.url, createLogger('error'));
      const server = await listen(createHttpServer(starting.handler), '127.0.0.1', 0);
      try {
        const error = await errorOf(connect({ baseUrl: server.url }).list('message'));
        assert.deepEqual([error.status, error.problem?.status, error.retryAfter], [503, 503, 1]);
      } finally {
        await server.close();
        await starting.close();
      }
    });
  });
}
