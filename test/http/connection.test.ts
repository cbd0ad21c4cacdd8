import assert from 'node:assert/strict';
import { once } from 'node:events';
import type { Resource } from '../../src/index.ts';
import { note, user } from '../../src/resources/registry.ts';
import { basic, startService, type TestService } from '../support.ts';
import { assertProblem, assertUnauthorized, eventually } from './expect.ts';
import { requestText, wire, type Wire } from './wire.ts';
import { after, before, describe, test } from 'node:test';

const columns = { title: { type: 'text', null: true } } as const;
const resources: Resource[] = [
  user,
  note,
  { model: 'closed', columns, methods: ['GET'] },
  { model: 'sealed', columns, methods: ['POST', 'DELETE'], access: 'default' },
  { model: 'halved', columns, methods: ['GET', 'PUT'], access: 'user' },
];

const MAX_BODY = 1000;
const json = (message: string): string => JSON.stringify({ message });

describe('connections', () => {
  let service: TestService;
  const bob = { authorization: basic('bob') };
  const noteHeaders = { ...bob, 'content-type': 'application/json' };
  const open: Wire[] = [];
  before(async () => {
    service = await startService(resources, { maxBody: MAX_BODY });
    await service.addUser('bob');
  });
  after(async () => {
    for (const connection of open) connection.destroy();
    await service.close();
  });

  function start(): Wire {
    const connection = wire(service);
    open.push(connection);
    return connection;
  }
  const notes = async (): Promise<string[]> =>
    (await service.sql`select message from note order by id`).map((row) => String(row['message']));

  test('pipelined requests are answered in order', async () => {
    const connection = start();
    const post = (message: string): string => requestText('POST', '/api/note/', noteHeaders, json(message));
    connection.send(
      [
        requestText('GET', '/healthz'),
        post('first'),
        requestText('HEAD', '/api/note/'),
        requestText('POST', '/api/note/', {}, json('unauthorized')),
        requestText('GET', '/nowhere'),
        post('second'),
        requestText('GET', '/api/note/?message=second'),
        requestText('OPTIONS', '/api/note/'),
        requestText('GET', '/api/', { connection: 'close' }),
      ].join(''),
    );
    const statuses: (number | undefined)[] = [];
    for (let index = 0; index < 9; index += 1)
      statuses.push((await connection.next({ head: index === 2 }))?.status);
    assert.deepEqual(statuses, [200, 201, 200, 401, 404, 201, 200, 204, 200]);
    assert.equal(await connection.rest(), '');
    assert.deepEqual((await notes()).sort(), ['first', 'second']);
  });

  test('pipelined writes run in order, each after the answer before', async () => {
    const [row] = await service.sql`insert into note (message) values ('0') returning id`;
    const path = `/api/note/${row?.['id']}/`;
    const put = (message: string): string => requestText('PUT', path, noteHeaders, json(message));
    const connection = start();
    const messages = Array.from({ length: 20 }, (_, index) => `${index + 1}`);
    connection.send(messages.map((message) => put(message) + requestText('GET', path)).join(''));
    for (const message of messages) {
      for (let times = 0; times < 2; times += 1) {
        const answer = await connection.next();
        assert.equal(JSON.parse(answer?.body ?? '').message, message);
      }
    }
  });

  test('a connection stays open after every answer to a request that was read or is short', async () => {
    const connection = start();
    for (const [text, status] of [
      [requestText('POST', '/api/note/', {}, json('x')), 401],
      [requestText('POST', '/api/note/', {}, json('x'.repeat(5000))), 401],
      [requestText('POST', '/nowhere', {}, json('x')), 404],
      [requestText('PATCH', '/api/note/', {}, json('x')), 405],
      [requestText('POST', '/api/note/', { ...bob, 'content-type': 'text/plain' }, 'x'), 415],
      [requestText('POST', '/api/note/', noteHeaders, '{'), 400],
      [requestText('GET', '/api/note/', {}, 'a body that a GET does not need'), 200],
      [requestText('POST', '/api/note/', noteHeaders, json('kept alive')), 201],
      [requestText('DELETE', '/api/note/999/', bob), 404],
    ] as const) {
      connection.send(text);
      assert.equal((await connection.next())?.status, status);
    }
    connection.send(requestText('GET', '/healthz'));
    assert.equal((await connection.next())?.status, 200);
  });

  test('a refused request with a long body gets its answer, and the connection closes', async () => {
    for (const size of [200_000, 3_000_000]) {
      const connection = start();
      connection.send(requestText('POST', '/api/note/', {}, 'x'.repeat(size)));
      const answer = await connection.next();
      assert.equal(answer?.status, 401);
      assert.equal(answer.headers['connection'], 'close');
      assert.equal(answer.body, 'Authentication failed');
      assert.equal(await connection.rest(), '');
    }
  });

  test('a request that is answered without content gets its answer, also if its body becomes invalid', async () => {
    const chunked = { 'transfer-encoding': 'chunked' };
    for (const [method, path] of [
      ['HEAD', '/api/note/'],
      ['OPTIONS', '/api/note/'],
    ] as const)
      for (const delay of [20, 100, 200]) {
        const connection = start();
        connection.send(requestText(method, path, chunked, '3\r\nabc\r\n'));
        await new Promise((resolve) => setTimeout(resolve, delay));
        connection.send('invalid\r\n');
        const answer = await connection.next({ head: true });
        assert.ok(answer, `${method} and ${delay} ms`);
        assert.equal(answer.headers['connection'], 'close');
      }
  });

  test('a body over MAX_BODY is 413 as soon as its length is known, with one Connection header', async () => {
    for (const length of [MAX_BODY + 1, 1_000_000]) {
      const connection = start();
      connection.send(
        requestText('POST', '/api/note/', { ...noteHeaders, 'content-length': String(length) }),
      );
      const received = await connection.rest();
      assert.match(received, /^HTTP\/1\.1 413 [^]*\r\nContent-Type: application\/problem\+json\r\n/i);
      assert.deepEqual(received.match(/\r\nConnection: .*/gi), ['\r\nConnection: close'], received);
    }
  });

  test('an endless chunked body is 413 when it exceeds MAX_BODY, and the connection closes', async () => {
    const connection = start();
    const chunk = `400\r\n${'x'.repeat(1024)}\r\n`;
    connection.send(requestText('POST', '/api/note/', { ...noteHeaders, 'transfer-encoding': 'chunked' }));
    const sending = setInterval(() => connection.send(chunk), 1);
    try {
      const answer = await connection.next();
      assert.equal(answer?.status, 413);
      assert.equal(JSON.parse(answer.body).status, 413);
      assert.equal(await connection.rest(), '');
    } finally {
      clearInterval(sending);
    }
  });

  test('a DELETE with a body over MAX_BODY is 413 and deletes nothing', async () => {
    const [row] = await service.sql`insert into note (message) values ('kept') returning id`;
    const path = `/api/note/${row?.['id']}/`;
    const long = 'x'.repeat(MAX_BODY + 1);
    const chunked = `${long.length.toString(16)}\r\n${long}\r\n0\r\n\r\n`;
    for (const text of [
      requestText('DELETE', path, bob, long),
      requestText('DELETE', path, { ...bob, 'transfer-encoding': 'chunked' }, chunked),
    ]) {
      const connection = start();
      connection.send(text);
      assert.equal((await connection.next())?.status, 413);
      assert.equal((await service.request(path)).status, 200);
    }
  });

  test('a chunked body within the limit is accepted', async () => {
    const connection = start();
    const chunks = [...json('in pieces')].map((character) => `1\r\n${character}\r\n`).join('');
    const headers = { ...noteHeaders, 'transfer-encoding': 'chunked' };
    connection.send(requestText('POST', '/api/note/', headers, `${chunks}0\r\n\r\n`));
    assert.equal((await connection.next())?.status, 201);
  });

  const expecting = (headers: Record<string, string>, length: number): string =>
    requestText('POST', '/api/note/', {
      ...headers,
      expect: '100-continue',
      'content-length': String(length),
    });

  test('Expect: 100-continue gets a 100 when the service wants the body', async () => {
    const connection = start();
    const body = json('continued');
    connection.send(expecting(noteHeaders, body.length));
    assert.equal((await connection.next())?.status, 100);
    connection.send(body);
    const answer = await connection.next();
    assert.equal(answer?.status, 201);
    assert.equal(JSON.parse(answer.body).message, 'continued');
  });

  test('Expect: 100-continue of an HTTP/1.0 client gets no 100', async () => {
    const body = json('of old');
    const connection = start();
    connection.send(expecting(noteHeaders, body.length).replace('HTTP/1.1', 'HTTP/1.0') + body);
    assert.equal((await connection.next())?.status, 201);
    assert.equal(await connection.rest(), '');
  });

  for (const [name, headers, length, status] of [
    ['without credentials', {}, 10, 401],
    ['of another type', { ...noteHeaders, 'content-type': 'text/plain' }, 10, 415],
    ['that is too large', noteHeaders, MAX_BODY + 1, 413],
  ] as const) {
    test(`Expect: 100-continue for a body ${name} gets ${status} and no 100`, async () => {
      const connection = start();
      connection.send(expecting(headers, length));
      assert.equal((await connection.next())?.status, status);
      assert.equal(await connection.rest(), '');
    });
  }

  /** Runs the work while the users are locked, so that requests wait before their bodies are read. */
  const whileUsersAreLocked = (work: () => Promise<void>): Promise<unknown> =>
    service.sql.begin(async (transaction) => {
      await transaction`lock table "user" in access exclusive mode`;
      await work();
    });
  const isWaiting = async (): Promise<boolean> =>
    (
      await service.sql`select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`
    ).length > 0;

  for (const [when, isLocked] of [
    ['while its credentials are checked', true],
    ['while its body is read', false],
  ] as const) {
    test(`a client that leaves ${when} changes nothing, and logs no error`, async () => {
      const before = await notes();
      const known = service.lines.length;
      const own = () => service.lines.slice(known).filter(({ method }) => method === 'POST');
      const begun = `{"message":"${'x'.repeat(100)}`;
      for (const [framing, body] of [
        [{ 'content-length': '500' }, begun],
        [{ 'transfer-encoding': 'chunked' }, `200\r\n${begun}`],
      ] as const) {
        for (const leave of ['destroy', 'end', 'resetAndDestroy'] as const) {
          const connection = start();
          // A new user: the bodies of remembered users are read before the database confirms them.
          const name = `leaves${leave}${body.length}${isLocked}`;
          await service.addUser(name);
          const headers = { ...noteHeaders, authorization: basic(name), ...framing };
          const sendRequest = (): void => connection.send(requestText('POST', '/api/note/', headers, body));
          const disconnect = async (): Promise<void> => {
            connection.socket[leave]();
            await connection.rest();
          };
          if (connection.socket.connecting) await once(connection.socket, 'connect');
          const shortDelay = new Promise((resolve) => setTimeout(resolve, 50));
          if (isLocked) {
            await whileUsersAreLocked(async () => {
              sendRequest();
              await eventually(isWaiting, 'the lookup of the user');
              await disconnect();
              await shortDelay;
            });
          } else {
            sendRequest();
            await shortDelay;
            await disconnect();
          }
        }
      }
      await eventually(() => own().length >= 6, 'the end of each request');
      // The password of a client that left early is not verified.
      for (const { status, user } of own())
        assert.ok(status === 499 || (status === 400 && /^leaves/.test(String(user))));
      assert.deepEqual(
        service.lines.filter(({ level }) => level === 'error'),
        [],
      );
      assert.deepEqual(await notes(), before);
    });
  }

  test('a request that arrives byte by byte is read', async () => {
    const connection = start();
    connection.socket.setNoDelay(true);
    const text = requestText('POST', '/api/note/', noteHeaders, json('byte by byte'));
    for (const byte of text) {
      connection.send(byte);
      await new Promise((resolve) => setImmediate(resolve));
    }
    assert.equal((await connection.next())?.status, 201);
  });

  test('HTTP/1.0 and a target in absolute form are accepted', async () => {
    const old = start();
    old.send('GET /healthz HTTP/1.0\r\n\r\n');
    assert.equal((await old.next())?.status, 200);
    assert.equal(await old.rest(), '');
    const absolute = start();
    absolute.send(requestText('GET', 'http://localhost/api/note/?limit=1'));
    const answer = await absolute.next();
    assert.equal(JSON.parse(answer?.body ?? '').meta.next, '/api/note/?limit=1&page=2');
  });

  const named = (count: number): Record<string, string> =>
    Object.fromEntries(Array.from({ length: count }, (_, index) => [`h${index}`, 'x']));

  test('more than 199 headers are 431', async () => {
    for (const [count, status] of [
      [190, 200],
      [200, 431],
      [2_000, 431],
    ] as const) {
      const connection = start();
      connection.send(requestText('GET', '/healthz', named(count)));
      const answer = await connection.next();
      assert.equal(answer?.status, status);
      if (status === 431)
        assert.equal(JSON.parse(answer.body).detail, 'The request has too many headers. The maximum is 199.');
    }
  });

  test('a malformed request is refused after the answers to earlier requests, and closes the connection', async () => {
    const health = requestText('GET', '/healthz');
    const chunked = requestText('POST', '/api/note/', { ...noteHeaders, 'transfer-encoding': 'chunked' });
    for (const malformed of ['nonsense\r\n\r\n', `${chunked}zz\r\n`]) {
      const connection = start();
      connection.send(requestText('GET', '/api/note/') + health.repeat(40) + malformed + health);
      for (let index = 0; index < 41; index += 1) assert.equal((await connection.next())?.status, 200);
      const answer = await connection.next();
      assert.equal(answer?.status, 400);
      assert.equal(answer.headers['content-type'], 'application/problem+json');
      assert.equal(await connection.rest(), '');
    }
  });

  test('a request to upgrade is answered as if it did not ask for that', async () => {
    const upgrade = { connection: 'Upgrade, HTTP2-Settings', upgrade: 'h2c', 'http2-settings': 'AAMAAABk' };
    const connection = start();
    for (const [text, status] of [
      [requestText('GET', '/healthz', upgrade), 200],
      [requestText('POST', '/api/note/', { ...noteHeaders, ...upgrade }, json('not upgraded')), 201],
      [requestText('GET', '/healthz'), 200],
    ] as const) {
      connection.send(text);
      assert.equal((await connection.next())?.status, status);
    }
  });

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
      connection.send(
        `${requestText('GET', '/api/note/?limit=1')}${requestText('POST', '/api/note/', noteHeaders, json(`before ${method}`))}${last}`,
      );
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
});
