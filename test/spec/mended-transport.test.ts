import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import type { Resource } from '../../src/index.ts';
import { note, user } from '../../src/resources/registry.ts';
import { assertProblem, assertUnauthorized } from '../http/expect.ts';
import { requestText, wire, type Wire } from '../http/wire.ts';
import { basic, startService, type TestService } from '../support.ts';

const columns = { title: { type: 'text', null: true } } as const;
const resources: Resource[] = [
  user,
  note,
  { model: 'closed', columns, methods: ['GET'] },
  { model: 'sealed', columns, methods: ['POST', 'DELETE'], access: 'default' },
  { model: 'halved', columns, methods: ['GET', 'PUT'], access: 'user' },
];
const MAX_BODY = 1000;

describe('what is at the edges of HTTP', () => {
  let service: TestService;
  const open: Wire[] = [];
  before(async () => {
    service = await startService(resources, { maxBody: MAX_BODY });
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

  test('the link to the next page is taken, however long the request was', async () => {
    const most = 8192;
    const values = (one: string, name = 'message__in='): string => {
      const count = Math.floor((most - name.length) / (one.length + 1));
      return `${name}x,${`${one},`.repeat(Math.min(count, 998)).slice(0, -one.length - 1)}`;
    };
    const moments = Array.from({ length: 390 }, () => '2024-01-01+00:00:00').join(',');
    for (const query of [
      `message__ne=${'y'.repeat(most - 'message__ne='.length)}`,
      values('1234567'),
      values('a%20b', '-message__in=y,').replace('=y,x,', '=y,'),
      `-created__in=${moments}`,
    ]) {
      for (const paging of [
        '',
        '&limit=2',
        '&page=2&limit=2',
        '&page=0000000002&limit=00000000000000000002',
      ]) {
        const { status, json, text } = await service.request(`/api/note/?${query}${paging || '&limit=1'}`);
        assert.equal(status, 200, text.slice(0, 300));
        assert.notEqual(json.meta.next, '', `${query.slice(0, 30)} ${paging}`);
        const next = await service.request(json.meta.next);
        assert.equal(next.status, 200, next.text.slice(0, 300));
        assert.equal(next.json.meta.page, json.meta.page + 1);
        assert.equal((await service.request(next.json.meta.previous)).text, text);
      }
    }
    assertProblem(await service.request(`/api/note/?message=${'y'.repeat(most)}&limit=1`), 414);
  });

  test('a client that closes its half of the connection gets all its answers', async () => {
    for (const texts of [
      [requestText('GET', '/api/note/1/')],
      [requestText('GET', '/api/note/?message__like=x%25')],
      [post('half')],
      [requestText('GET', '/api/note/1/'), post('half'), requestText('GET', '/api/note/?message=half')],
      [requestText('GET', '/nowhere'), requestText('GET', '/healthz')],
    ]) {
      const connection = start();
      connection.socket.end(texts.join(''));
      for (const text of texts) {
        const status = text.startsWith('POST') ? 201 : text.includes('/nowhere') ? 404 : 200;
        let answer = await connection.next();
        // Probes whether the client is still there.
        while (answer?.status === 102) answer = await connection.next();
        assert.equal(answer?.status, status, text);
      }
      assert.equal(await connection.rest(), '', 'and then the connection is closed');
    }
    const cut = start();
    cut.socket.end(post('cut').slice(0, -3));
    const answer = await cut.next();
    assert.ok(answer === undefined || answer.status === 400);
    assert.deepEqual((await service.request('/api/note/?message=cut')).json.objects, []);
  });

  const allowed: [path: string, status: number, allow: string | undefined][] = [
    ['/api/note/', 405, 'GET, HEAD, POST, OPTIONS'],
    ['/api/note', 405, 'GET, HEAD, POST, OPTIONS'],
    ['/api/note/?message=x', 405, 'GET, HEAD, POST, OPTIONS'],
    ['http://localhost/api/note/1/', 405, 'GET, HEAD, PUT, DELETE, OPTIONS'],
    ['/api/halved/', 405, 'GET, HEAD, OPTIONS'],
    ['/api/sealed/', 405, 'POST, OPTIONS'],
    ['/api/', 405, 'GET, HEAD, OPTIONS'],
    ['/healthz', 405, 'GET, HEAD, OPTIONS'],
    ['/admin/', 405, 'GET, HEAD, POST, OPTIONS'],
    ['/admin/note/', 405, 'GET, HEAD, POST, OPTIONS'],
    ['/', 404, undefined],
    ['/api/nothing/', 404, undefined],
    ['/api/note/1/x/', 404, undefined],
  ];
  for (const method of ['FOO', 'get', 'Get', 'GETS', 'PROPFOO', 'X-Y_1', 'PLAY', 'CONNECT']) {
    test(`the method ${method} is 405 with what the path takes, or 404`, async () => {
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
        // There may have been credentials, which Node's parser does not tell.
        assert.equal(answer.headers['vary'], 'Authorization');
        assert.equal(answer.headers['cache-control'], 'no-store');
        assert.equal(JSON.parse(answer.body).status, status);
        assert.equal(await connection.rest(), '');
      }
    });

    test(`the method ${method} is answered behind what was asked before it`, async () => {
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

  test('a transfer coding other than chunked is 501, and the connection is closed', async () => {
    for (const coding of ['gzip, chunked', 'deflate,chunked', 'chunked, chunked']) {
      const connection = start();
      const headers = { ...bob, 'transfer-encoding': coding };
      connection.send(requestText('POST', '/api/note/', headers, '5\r\n{"x":\r\n0\r\n\r\n'));
      const answer = await connection.next();
      assert.ok(answer?.status === 501 || answer?.status === 400, `${coding} ${answer?.status}`);
      assert.equal(answer.headers['content-type'], 'application/problem+json');
      assert.equal(answer.headers['connection'], 'close');
      assert.equal(await connection.rest(), '');
    }
    const chunked = start();
    const body = JSON.stringify({ message: 'in capitals' });
    const headers = { ...bob, 'transfer-encoding': 'Chunked' };
    const chunks = `${body.length.toString(16)}\r\n${body}\r\n0\r\n\r\n`;
    chunked.send(requestText('POST', '/api/note/', headers, chunks));
    assert.equal((await chunked.next())?.status, 201);
  });

  test('a 413 says once that the connection is closed', async () => {
    for (const length of [MAX_BODY + 1, 1_000_000]) {
      const connection = start();
      connection.send(requestText('POST', '/api/note/', { ...bob, 'content-length': String(length) }, '{'));
      const received = await connection.rest();
      assert.match(received, /^HTTP\/1\.1 413 /);
      assert.equal(received.match(/\r\nConnection:/gi)?.length, 1, received);
    }
  });

  test('a write at the default level is 401 on every path of the resource', async () => {
    for (const model of ['closed', 'sealed']) {
      for (const path of [`/api/${model}/`, `/api/${model}/1/`, `/api/${model}/99`]) {
        for (const method of ['POST', 'PUT', 'DELETE']) {
          for (const options of [{}, { user: 'bob' }])
            assertUnauthorized(await service.request(path, { method, ...options }), `${method} ${path}`);
        }
        assertProblem(await service.request(path, { method: 'PATCH' }), 405);
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
});
