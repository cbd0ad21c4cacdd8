import assert from 'node:assert/strict';
import type { Resource } from '../../src/index.ts';
import { note, user } from '../../src/resources/registry.ts';
import { basic, startService, type TestService } from '../support.ts';
import { assertProblem, assertUnauthorized } from './expect.ts';
import { requestText, wire, type Wire } from './wire.ts';
import { after, before, describe, test } from 'node:test';

const columns = { title: { type: 'text', null: true } } as const;
const resources: Resource[] = [
  user,
  note,
  { model: 'closed', columns, methods: ['GET'] },
  { model: 'sealed', columns, methods: ['POST', 'DELETE'], access: 'default' },
  { model: 'halved', columns, methods: ['GET', 'PUT'], access: 'user' },
  { model: 'locked', columns: { name: { type: 'text', null: true } }, methods: ['GET'] },
];

describe('the methods of a path', () => {
  let service: TestService;
  const open: Wire[] = [];
  before(async () => {
    service = await startService(resources);
    await service.addUser('bob');
    for (let count = 0; count < 5; count += 1) await service.sql`insert into note (message) values ('x')`;
  });
  after(async () => {
    for (const connection of open) connection.destroy();
    await service.close();
  });
  const start = (): Wire => {
    const connection = wire(service);
    open.push(connection);
    return connection;
  };
  const bob = { authorization: basic('bob') };
  const post = (message: string): string =>
    requestText('POST', '/api/note/', bob, JSON.stringify({ message }));

  const allowed: [path: string, status: number, allow: string | undefined][] = [
    ['/api/note/', 405, 'GET, HEAD, POST, OPTIONS'],
    ['/api/note', 405, 'GET, HEAD, POST, OPTIONS'],
    ['/api/note/?message=x', 405, 'GET, HEAD, POST, OPTIONS'],
    ['http://localhost/api/note/1/', 405, 'GET, HEAD, PUT, PATCH, DELETE, OPTIONS'],
    ['/api/halved/', 405, 'GET, HEAD, OPTIONS'],
    ['/api/sealed/', 405, 'POST, OPTIONS'],
    ['/api/', 405, 'GET, HEAD, OPTIONS'],
    ['/healthz', 405, 'GET, HEAD, OPTIONS'],
    ['/admin/', 405, 'GET, HEAD, POST, OPTIONS'],
    ['/admin/note/', 405, 'GET, HEAD, POST, OPTIONS'],
    ['/', 405, 'GET, HEAD, OPTIONS'],
    ['/api/nothing/', 404, undefined],
    ['/api/note/1/x/', 404, undefined],
  ];
  for (const method of ['FOO', 'get', 'Get', 'GETS', 'PROPFOO', 'X-Y_1', 'PLAY', 'CONNECT']) {
    test(`the method ${method} is 405 with the allowed methods, or 404`, async () => {
      for (const [path, status, allow] of allowed) {
        if (method === 'CONNECT' && path.startsWith('http:')) continue;
        const connection = start();
        connection.send(requestText(method, path, bob));
        const answer = await connection.next();
        assert.equal(answer?.status, status, path);
        assert.equal(answer.headers['allow'], allow, path);
        assert.equal(answer.headers['content-type'], 'application/problem+json');
        assert.equal(answer.headers['x-content-type-options'], 'nosniff');
        assert.equal(answer.headers['connection'], 'close');
        // Node.js does not show whether there were credentials.
        assert.equal(answer.headers['vary'], 'Authorization');
        assert.equal(answer.headers['cache-control'], 'no-store');
        assert.equal(JSON.parse(answer.body).status, status);
        assert.equal(await connection.rest(), '');
      }
    });

    test(`the method ${method} is answered after earlier requests`, async () => {
      const connection = start();
      const last = requestText(method, '/api/note/');
      connection.send(`${requestText('GET', '/api/note/1/')}${post(`before ${method}`)}${last}`);
      const statuses = [await connection.next(), await connection.next(), await connection.next()];
      assert.deepEqual(
        statuses.map((answer) => answer?.status),
        [200, 201, 405],
      );
      assert.equal(await connection.rest(), '');
    });
  }

  test('CONNECT to another server is 404', async () => {
    const connection = start();
    connection.send(requestText('CONNECT', 'example.org:443'));
    assert.equal((await connection.next())?.status, 404);
    assert.equal(await connection.rest(), '');
  });

  test('a write at the default level is 401 on every path of the resource', async () => {
    for (const model of ['closed', 'sealed']) {
      for (const path of [`/api/${model}/`, `/api/${model}/1/`, `/api/${model}/99`]) {
        for (const method of ['POST', 'PUT', 'PATCH', 'DELETE']) {
          for (const options of [{}, { user: 'bob' }])
            assertUnauthorized(await service.request(path, { method, ...options }), `${method} ${path}`);
        }
        assertProblem(await service.request(path, { method: 'PURGE' }), 405);
      }
    }
    for (const [method, path] of [
      ['PUT', '/api/halved/'],
      ['DELETE', '/api/halved/1/'],
      ['POST', '/api/note/1/'],
      ['POST', '/api/'],
    ] as const) {
      assertProblem(await service.request(path, { method, user: 'bob' }), 405, `${method} ${path}`);
    }
    for (const method of ['POST', 'PUT', 'DELETE'])
      assertProblem(await service.request('/api/nothing/', { method }), 404);
  });

  test('a write at the default level is 401 even if the resource does not list the method', async () => {
    for (const [method, path] of [
      ['POST', '/api/locked/'],
      ['PUT', '/api/locked/1/'],
      ['PATCH', '/api/locked/1/'],
      ['DELETE', '/api/locked/1/'],
    ]) {
      assert.equal(
        (await service.request(path ?? '', { method: method ?? '', user: 'bob', body: {} })).status,
        401,
      );
    }
    // It does not matter whether the path allows the method.
    assert.equal(
      (await service.request('/api/locked/', { method: 'PUT', user: 'bob', body: {} })).status,
      401,
    );
    const { status, headers } = await service.request('/api/locked/', {
      method: 'PURGE',
      user: 'bob',
      body: {},
    });
    assert.deepEqual([status, headers.get('allow')], [405, 'GET, HEAD, OPTIONS']);
  });
});
