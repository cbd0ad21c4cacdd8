import assert from 'node:assert/strict';
import { once } from 'node:events';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import type { Resource } from '../../src/index.ts';
import { note, user } from '../../src/resources/registry.ts';
import { basic, type TestService, useService, lockedOut } from '../support.ts';
import { eventually } from './expect.ts';
import { requestText, wire, type WireAnswer, useWires } from './wire.ts';

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
  const bob = { authorization: basic('bob') };
  const noteHeaders = { ...bob, 'content-type': 'application/json' };
  const start = useWires(() => service);
  const service: TestService = useService(resources, { maxBody: MAX_BODY }, () => service.addUser('bob'));

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
    for (const [method, path] of Object.entries({ HEAD: '/api/note/', OPTIONS: '/api/note/' }))
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

  test('an endless chunked body is 413 when it exceeds MAX_BODY, and the connection closes', async (t) => {
    const connection = start();
    const chunk = `400\r\n${'x'.repeat(1024)}\r\n`;
    connection.send(requestText('POST', '/api/note/', { ...noteHeaders, 'transfer-encoding': 'chunked' }));
    const sending = setInterval(() => connection.send(chunk), 1);
    t.after(() => clearInterval(sending));
    const answer = await connection.next();
    assert.equal(answer?.status, 413);
    assert.equal(JSON.parse(answer.body).status, 413);
    assert.equal(await connection.rest(), '');
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
              await lockedOut(service);
              await disconnect();
              await shortDelay;
            });
          } else {
            sendRequest();
            await eventually(
              async () => /^vitrine_http_requests_in_flight 1$/m.test(await service.metrics()),
              'the request',
            );
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
});

describe('invalid HTTP', () => {
  const service: TestService = useService([user, note], {}, async () => {
    await service.addUser('bob');
    await service.sql`insert into note (message) values ('x')`;
  });

  /** The answer to these bytes. The connection must be closed after it. */
  async function answerTo(bytes: string | Uint8Array, pieces = 1): Promise<WireAnswer | undefined> {
    const connection = wire(service);
    connection.socket.setNoDelay(true);
    const all = Buffer.from(bytes as string);
    const size = Math.ceil(all.length / pieces);
    for (let at = 0; at < all.length; at += size) {
      connection.send(all.subarray(at, at + size));
      if (pieces > 1) await new Promise((resolve) => setTimeout(resolve, 1));
    }
    const answer = await connection.next();
    assert.equal(await connection.rest(), '');
    return answer;
  }

  function assertRefused(answer: WireAnswer | undefined, status: number, label?: string): void {
    assert.equal(answer?.status, status, label);
    assert.equal(answer?.headers['content-type'], 'application/problem+json', label);
    assert.equal(answer?.headers['x-content-type-options'], 'nosniff', label);
    assert.equal(answer?.headers['connection'], 'close', label);
    const document = JSON.parse(answer?.body ?? '');
    for (const name of ['server', 'x-powered-by', 'via']) assert.equal(answer?.headers[name], undefined);
    assert.doesNotMatch(answer?.body ?? '', /node|vitrine|postgres/i);
    assert.deepEqual(Object.keys(document), ['type', 'title', 'status', 'detail']);
    assert.equal(document.status, status);
  }

  const host = 'Host: localhost\r\n';
  const garbage: Record<string, string | Uint8Array> = {
    'a TLS handshake': Buffer.from('16030100a5010000a10303', 'hex'),
    'another protocol': 'SSH-2.0-OpenSSH_9.6\r\n',
    'the preface of HTTP/2': 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n',
    'a line that is not a request': 'hello\r\n\r\n',
    'a method with an invalid character': `B(REW /api/note/ HTTP/1.1\r\n${host}\r\n`,
    'an unknown method and two targets': `BREW /api/note/ /api/ HTTP/1.1\r\n${host}\r\n`,
    'an unknown method of an unknown version': `BREW /api/note/ HTTP/2.1\r\n${host}\r\n`,
    'an unknown method without a version': 'BREW /api/note/\r\n\r\n',
    'an unknown version': `GET / HTTP/9.9\r\n${host}\r\n`,
    'a space in the path': `GET /api/no te/ HTTP/1.1\r\n${host}\r\n`,
    'a header without a name': `GET / HTTP/1.1\r\n${host}: x\r\n\r\n`,
    'a header without a colon': `GET / HTTP/1.1\r\n${host}nonsense\r\n\r\n`,
    'a space before the colon': `GET / HTTP/1.1\r\n${host}X-A : x\r\n\r\n`,
    'a NUL character in a header': `GET / HTTP/1.1\r\n${host}X-A: \0\r\n\r\n`,
    'no Host': 'GET /healthz HTTP/1.1\r\nConnection: close\r\n\r\n',
    'a Host of 301 characters': `GET /healthz HTTP/1.1\r\nHost: ${'x'.repeat(301)}\r\n\r\n`,
    'two Hosts': `GET /healthz HTTP/1.1\r\n${host}${host}\r\n`,
    'two different Hosts': `GET /healthz HTTP/1.1\r\n${host}hOST: other\r\n\r\n`,
    'a transfer coding without chunks': `POST /api/note/ HTTP/1.1\r\n${host}Transfer-Encoding: gzip\r\n\r\n`,
    'a transfer coding in HTTP/1.0': `POST /api/note/ HTTP/1.0\r\n${host}Transfer-Encoding: chunked\r\nConnection: keep-alive\r\n\r\n0\r\n\r\n`,
    'a length that is not a number': `POST /api/note/ HTTP/1.1\r\n${host}Content-Length: x\r\n\r\n`,
    'a negative length': `POST /api/note/ HTTP/1.1\r\n${host}Content-Length: -1\r\n\r\n`,
    'two lengths': `POST /api/note/ HTTP/1.1\r\n${host}Content-Length: 1\r\nContent-Length: 2\r\n\r\nab`,
    'a length and chunks': `POST /api/note/ HTTP/1.1\r\n${host}Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n`,
    'chunks that are not the last coding': `POST /api/note/ HTTP/1.1\r\n${host}Transfer-Encoding: chunked, gzip\r\n\r\n0\r\n\r\n`,
  };
  for (const [name, bytes] of Object.entries(garbage)) {
    test(`${name} is 400, and the connection closes`, async () => {
      assertRefused(await answerTo(bytes), 400);
    });
  }

  const headers = Array.from({ length: 250 }, (_, index) => `x-${index}: x\r\n`).join('');
  const invalidHeads: Record<string, readonly [rest: string, status: number]> = {
    'a byte of Latin-1 in the path': [`/api/note/\xfc/ HTTP/1.1\r\n${host}\r\n`, 400],
    'a space before a colon': [`/healthz HTTP/1.1\r\n${host}X-A : x\r\n\r\n`, 400],
    'a coding before chunks': [
      `/healthz HTTP/1.1\r\n${host}Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n`,
      501,
    ],
    'too many headers': [`/healthz HTTP/1.1\r\n${host}${headers}\r\n`, 431],
  };
  for (const [name, [rest, status]] of Object.entries(invalidHeads))
    test(`a HEAD with ${name} is ${status} without content, also behind another request`, async () => {
      for (const before of ['', requestText('GET', '/healthz')]) {
        const connection = wire(service);
        connection.socket.write(`${before}HEAD ${rest}`, 'latin1');
        if (before !== '') assert.equal((await connection.next())?.status, 200);
        const answer = await connection.next({ head: true });
        assert.equal(answer?.status, status);
        assert.equal(answer.headers['connection'], 'close');
        assert.equal(await connection.rest(), '');
      }
    });

  test('too many headers are 431 in a request to upgrade, too', async () => {
    const connection = wire(service);
    connection.send(`GET /healthz HTTP/1.1\r\n${host}Connection: Upgrade\r\nUpgrade: x\r\n${headers}\r\n`);
    assertRefused(await connection.next(), 431);
    assert.equal(await connection.rest(), '');
  });

  test('random bytes that start no method are 400, and the service keeps working', async () => {
    const first = fc.integer({ min: 0, max: 255 }).filter((byte) => {
      const character = String.fromCharCode(byte);
      return !/[A-Z\r\n]/.test(character);
    });
    await fc.assert(
      fc.asyncProperty(first, fc.uint8Array({ maxLength: 300 }), async (byte, rest) => {
        assertRefused(await answerTo(Buffer.from([byte, ...rest, 13, 10, 13, 10])), 400);
      }),
      { numRuns: 60 },
    );
    assert.equal((await service.request('/healthz')).status, 200);
  });

  for (const length of [9_000, 20_000, 200_000]) {
    test(`a URL of ${length} bytes is 414`, async () => {
      const path = `/api/note/?message=${'x'.repeat(length)}`;
      const text = requestText('GET', path, { connection: 'close' });
      // The parser stops at 32 KiB, and shows only the last piece of longer requests.
      for (const pieces of length > 30_000 ? [1] : [1, 3, 40]) {
        const answer = await answerTo(text, pieces);
        assertRefused(answer, 414, `${pieces} pieces`);
      }
    });
  }

  for (const [name, headers] of [
    ['one header of 70,000 bytes', { 'x-large': 'x'.repeat(70_000) }],
    ['one header of 200,000 bytes', { 'x-large': 'x'.repeat(200_000) }],
  ] as const) {
    test(`${name}: 431`, async () => {
      const text = requestText('GET', '/api/', { ...headers, connection: 'close' });
      assertRefused(await answerTo(text), 431);
    });
  }

  for (const name of ['If-Match', 'If-None-Match'])
    test(`${name} of 2,049 characters is 431, which names it`, async () => {
      const ask = (length: number): Promise<WireAnswer | undefined> => {
        const headers = { [name.toLowerCase()]: '"'.repeat(length), connection: 'close' };
        return answerTo(requestText('GET', '/api/', headers));
      };
      const refused = await ask(2_049);
      assertRefused(refused, 431);
      assert.match(refused?.body ?? '', new RegExp(`"${name} must have at most 2048 characters`));
      assert.equal((await ask(2_048))?.status, 200);
    });

  test('headers that arrive after the request line, in another packet, are 431, too', async () => {
    const connection = wire(service);
    const [line = '', ...headers] = requestText('GET', '/healthz', { 'x-large': 'x'.repeat(40_000) }).split(
      '\r\n',
    );
    const rest = headers.filter((header) => header !== '').reverse();
    connection.send(`${line}\r\n`);
    await new Promise((resolve) => setTimeout(resolve, 50));
    connection.send(`${rest.join('\r\n')}\r\n\r\n`);
    assert.equal((await connection.next())?.status, 431);
    connection.destroy();
  });

  test('headers of 30,000 bytes are accepted', async () => {
    const connection = wire(service);
    connection.send(requestText('GET', '/healthz', { 'x-large': 'x'.repeat(30_000) }));
    assert.equal((await connection.next())?.status, 200);
    connection.destroy();
  });

  const json = { authorization: basic('bob'), 'content-type': 'application/json' };

  test('chunk extensions and trailers change no header and no other request', async () => {
    const connection = wire(service);
    const body = '{"message":"chunked"}';
    const chunk = `${body.length.toString(16)};name="value";other\r\n${body}\r\n`;
    const trailers = `authorization: ${basic('nobody')}\r\nx: GET /nowhere HTTP/1.1\r\n`;
    connection.send(
      requestText('POST', '/api/note/', {
        ...json,
        'transfer-encoding': 'chunked',
        trailer: 'authorization',
      }),
    );
    connection.send(`${chunk}0;last\r\n${trailers}\r\n${requestText('GET', '/healthz')}`);
    const created = await connection.next();
    assert.equal(created?.status, 201, created?.body);
    assert.equal((JSON.parse(created.body) as { message: string }).message, 'chunked');
    assert.equal((await connection.next())?.body, '{"status":"ok"}');
    connection.send(requestText('GET', '/healthz', { connection: 'close' }));
    assert.equal((await connection.next())?.status, 200);
    assert.equal(await connection.rest(), '');
  });

  test('endless chunk extensions and trailers end the connection', async () => {
    for (const start of [`1;${'x'.repeat(200_000)}`, `0\r\nx: ${'x'.repeat(200_000)}`]) {
      const connection = wire(service);
      connection.send(requestText('POST', '/api/note/', { ...json, 'transfer-encoding': 'chunked' }));
      connection.send(start);
      assert.match(String((await connection.next())?.status), /^4\d\d$/);
      assert.equal(await connection.rest(), '');
    }
    assert.equal((await service.request('/healthz')).status, 200);
  });

  test('logs no error', () => {
    assert.deepEqual(
      service.lines.filter(({ level }) => level === 'error'),
      [],
    );
  });
});
