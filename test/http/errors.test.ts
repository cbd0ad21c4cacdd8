import assert from 'node:assert/strict';
import fc from 'fast-check';
import shipped from '../../src/resources/registry.ts';
import { useService, type Answer, type RequestOptions, type TestService } from '../support.ts';
import { assertProblem, eventually } from './expect.ts';
import { describe, test } from 'node:test';

const linesOf = (service: TestService, id: string): Record<string, unknown>[] =>
  service.lines.filter((line) => line['id'] === id);

describe('errors', () => {
  const service: TestService = useService(shipped, { maxBody: 500 }, async () => {
    await service.addUser('ada', { admin: true });
    await service.addUser('bob');
    await service.sql`insert into message (user_id, content) values (1, 'x')`;
    await service.sql`insert into note (message) values ('x')`;
  });

  const post = (path: string, body: unknown, user = 'bob', headers = {}): [string, RequestOptions] => [
    path,
    { method: 'POST', user, body, headers },
  ];
  const ofUser = { username: 'ada', password: 'x', email: 'x' };
  const cases: readonly [
    name: string,
    request: [string, RequestOptions?],
    status: number,
    errors?: string[],
  ][] = [
    ['an unknown path', ['/nothing'], 404],
    ['an unknown model', ['/api/nothing/'], 404],
    ['a missing record', ['/api/note/999/'], 404],
    ['a method that is not allowed', ['/api/note/', { method: 'PATCH' }], 405],
    ['an unknown filter', ['/api/note/?nope=1&other=2'], 400, ['nope', 'other']],
    [
      'a filter by a property name of objects',
      ['/api/note/?__proto__=1&constructor=2'],
      400,
      ['__proto__', 'constructor'],
    ],
    ['an invalid limit and page', ['/api/note/?limit=0&page=x'], 400, ['limit', 'page']],
    ['a page of 1,001 digits', [`/api/note/?page=${'9'.repeat(1_001)}`], 400, ['page']],
    ['a parameter on a record', ['/api/note/1/?x=1'], 400, ['x']],
    ['a query that is too long', [`/api/note/?message=${'x'.repeat(9000)}`], 414],
    [
      'several invalid fields',
      post('/api/note/', { message: 5, created: 'x', nope: 1 }),
      400,
      ['message', 'created', 'nope'],
    ],
    [
      'fields with property names of objects',
      post('/api/note/', '{"message":"x","__proto__":1,"toString":2}'),
      400,
      ['__proto__', 'toString'],
    ],
    ['a body that is not JSON', post('/api/note/', '{'), 400],
    ['a body of another type', post('/api/note/', '<x/>', 'bob', { 'content-type': 'text/xml' }), 415],
    ['a body that is too large', post('/api/note/', { message: 'x'.repeat(600) }), 413],
    ['a user where an admin is needed', post('/api/user/', ofUser), 403],
    ['another owner’s record', ['/api/message/1/', { method: 'DELETE', user: 'bob' }], 403],
    ['a page of another site', post('/api/note/', {}, 'bob', { 'sec-fetch-site': 'cross-site' }), 403],
    [
      'a stale If-Match',
      ['/api/note/1/', { method: 'DELETE', user: 'bob', headers: { 'if-match': '"x"' } }],
      412,
    ],
    ['a duplicate', post('/api/user/', ofUser, 'ada'), 409, ['username']],
    ['a record that others reference', ['/api/user/1/', { method: 'DELETE', user: 'ada' }], 409],
  ];
  for (const [name, [path, options], status, errors] of cases) {
    test(`${name} is a problem document with ${status}`, async () => {
      const headers = typeof options?.body === 'string' ? { 'content-type': 'application/json' } : {};
      const answer = await service.request(path, {
        ...options,
        headers: { ...headers, ...options?.headers },
      });
      assertProblem(answer, status);
      assert.deepEqual(Object.keys(answer.json.errors ?? {}).sort(), [...(errors ?? [])].sort());
      assert.equal(answer.json.requestId, undefined);
      assert.equal(answer.headers.get('content-length'), String(Buffer.byteLength(answer.text)));
    });
  }

  test('no path and no query causes a 5xx', async () => {
    const piece = fc.oneof(
      fc.string({ maxLength: 8 }).map(encodeURIComponent),
      fc.constantFrom(
        'note',
        'api',
        '1',
        '..',
        '%',
        '%00',
        '%ff',
        '=',
        '&',
        '__',
        'ordering',
        'limit',
        '-',
        "'",
      ),
    );
    const target = fc
      .tuple(fc.array(piece, { maxLength: 4 }), fc.array(piece, { maxLength: 6 }))
      .map(([path, query]) => `/api/note/${path.join('/')}?${query.join('')}`);
    await fc.assert(
      fc.asyncProperty(target, async (path) => {
        const answer = await service.request(path);
        if (answer.status !== 200) assertProblem(answer, answer.status);
        assert.ok(answer.status < 500);
      }),
      { numRuns: 150 },
    );
  });
});

describe('an internal error', () => {
  /** Names of tables, columns and passwords, and other internals that must not be in an answer. */
  const HIDDEN = /relation|column|select|insert|note|email|postgres|syntax|src\/|\.ts|at .*:\d+|pw-|node/i;

  async function assertInternal(service: TestService, answer: Answer): Promise<void> {
    assertProblem(answer, 500);
    assert.deepEqual(Object.keys(answer.json), ['type', 'title', 'status', 'detail', 'requestId']);
    const { requestId, ...rest } = answer.json as Record<string, string>;
    assert.doesNotMatch(JSON.stringify(rest), HIDDEN);
    assert.doesNotMatch([...answer.headers].join(), HIDDEN);
    const lines = await eventually(() => {
      const found = linesOf(service, requestId ?? '');
      return found.length >= 2 ? found : undefined;
    }, 'the lines of the request');
    assert.deepEqual(lines.map(({ level }) => level).sort(), ['error', 'info']);
    assert.ok(lines.some(({ message }) => typeof message === 'string' && message !== ''));
    assert.ok(lines.some(({ status }) => status === 500));
  }

  const service: TestService = useService(undefined, {}, async () => {
    await service.addUser('ada', { admin: true });
    await service.sql`drop table note`;
  });

  test('is 500 with only a requestId, which is in the log, too', async () => {
    const single = await service.request('/api/note/1/');
    const list = await service.request('/api/note/');
    const write = { method: 'POST', user: 'ada', body: { message: 'x' } };
    for (const answer of [single, list, await service.request('/api/note/', write)])
      await assertInternal(service, answer);
    assert.notEqual(single.json.requestId, list.json.requestId);
    await service.sql`alter table "user" drop column email`;
    const body = { username: 'new', password: 'top-secret', email: 'x' };
    await assertInternal(service, await service.request('/api/user/', { method: 'POST', user: 'ada', body }));
    assert.equal((await service.request('/api/message/')).status, 200);
    assert.doesNotMatch(JSON.stringify(service.lines), /top-secret|pw-ada|argon2id/);
  });

  test('of a HEAD has no body, but a status and a log line', async () => {
    const known = service.lines.length;
    const { status, text } = await service.request('/api/note/1/', { method: 'HEAD' });
    assert.deepEqual([status, text], [500, '']);
    await eventually(() => service.lines.slice(known).find(({ level }) => level === 'error'), 'the error');
  });

  test('in the lookup of the user is 500, not 401', async () => {
    await service.sql`drop table "user" cascade`;
    await assertInternal(
      service,
      await service.request('/api/message/', { method: 'POST', user: 'eve', body: {} }),
    );
    assert.equal((await service.request('/api/message/')).status, 200);
  });
});
