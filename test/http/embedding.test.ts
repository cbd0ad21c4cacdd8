// The handler in an existing HTTP server.
import assert from 'node:assert/strict';
import Fastify, { type FastifyInstance } from 'fastify';
import { once } from 'node:events';
import { createServer, type IncomingMessage, type RequestListener, type Server } from 'node:http';
import { type AddressInfo, connect } from 'node:net';
import { text } from 'node:stream/consumers';
import { createVitrine, type Vitrine } from '../../src/index.ts';
import { note, user } from '../../src/resources/registry.ts';
import {
  closedAfter,
  basic,
  cheapHash,
  createDatabase,
  request,
  type Answer,
  type TestDatabase,
  pluck,
  lockedOut,
} from '../support.ts';
import { codeBlocks } from '../docs/pages.ts';
import { startProxy } from '../process/proxy.ts';
import { assertProblem, eventually } from './expect.ts';
import { after, afterEach, before, describe, test } from 'node:test';

describe('the handler in another server', () => {
  let database: TestDatabase;
  let vitrine: Vitrine;
  const servers: Server[] = [];
  const lines: string[] = [];
  before(async () => {
    database = await createDatabase();
    vitrine = await start();
    const row = { username: 'bob', password: await cheapHash('pw-bob'), email: '' };
    await database.sql`insert into "user" ${database.sql(row)}`;
    await database.sql`insert into note (message) values ('as it was')`;
  });
  afterEach(() => {
    for (const server of servers.splice(0)) server.close().closeAllConnections();
  });
  after(async () => {
    await vitrine.close();
    await database.drop();
  });

  const start = async (): Promise<Vitrine> =>
    createVitrine({
      databaseUrl: database.url,
      resources: [user, note],
      port: 0,
      corsOrigins: ['https://friend.example'],
      log: (written) => lines.push(...written.trimEnd().split('\n')),
    });

  async function serve(listener: RequestListener): Promise<string> {
    const server = createServer(listener).listen(0, '127.0.0.1');
    servers.push(server);
    await once(server, 'listening');
    return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  }

  test('authenticates requests of other routes, and counts failures', async () => {
    const seen: unknown[] = [];
    const base = await serve((incoming, response) => {
      vitrine.authenticate(incoming).then(
        (found) => {
          seen.push(found);
          response.end();
        },
        (error: { status?: number }) => {
          seen.push(error.status);
          response.end();
        },
      );
    });
    const ask = async (headers: Record<string, string> = {}): Promise<unknown> => {
      await request(base, '/mine', { headers });
      return seen.pop();
    };
    const right = basic('bob');
    const bob = (await ask({ authorization: right })) as { id: string };
    assert.deepEqual(bob, { id: bob.id, name: 'bob', admin: false });
    for (const headers of [
      {},
      { authorization: 'Bearer x' },
      { authorization: basic('bob', 'wrong') },
      { authorization: basic('none') },
    ])
      assert.equal(await ask(headers), undefined);
    // The tokens may be those of the program.
    for (let index = 0; index < 12; index += 1)
      assert.equal(await ask({ authorization: `Bearer ${index}` }), undefined);
    const outcomes = new Set<unknown>();
    for (let tries = 0; tries < 40 && !outcomes.has(429); tries += 1)
      outcomes.add(await ask({ authorization: basic(`unknown${tries}`, 'wrong') }));
    assert.ok(outcomes.has(429));
    assert.deepEqual(await ask({ authorization: right }), bob, 'a client at work is not locked out');
  });

  test('refuses writes of a user from a page of another origin, as the API does', async () => {
    let outcome: unknown;
    const base = await serve((incoming, response) => {
      vitrine
        .authenticate(incoming)
        .then(
          (found) => (outcome = found?.name),
          (error: { status?: number }) => (outcome = error.status),
        )
        .finally(() => response.end());
    });
    const ask = async (method: string, headers: Record<string, string>, user?: string): Promise<unknown> => {
      outcome = 'no outcome';
      await request(base, '/pay', { method, headers, ...(user !== undefined && { user }) });
      return outcome;
    };
    const foreign = { origin: 'https://evil.example' };
    for (const headers of [foreign, { 'sec-fetch-site': 'cross-site' }, { 'sec-fetch-site': 'same-site' }])
      for (const method of ['POST', 'PUT', 'PATCH', 'DELETE'])
        assert.equal(await ask(method, headers, 'bob'), 403, method);
    for (const method of ['GET', 'HEAD', 'OPTIONS']) assert.equal(await ask(method, foreign, 'bob'), 'bob');
    for (const headers of [
      {},
      { origin: base, 'sec-fetch-site': 'same-origin' },
      { origin: 'https://friend.example', 'sec-fetch-site': 'cross-site' },
    ])
      assert.equal(await ask('POST', headers, 'bob'), 'bob');
    assert.equal(await ask('POST', foreign), undefined, 'a request without a user');
  });

  test('authenticates many requests that come ahead on one connection, with one listener', async (t) => {
    // It has not verified the password yet.
    const own = await start();
    const warnings: string[] = [];
    const note = ({ message }: Error): void => void warnings.push(message);
    process.on('warning', note);
    t.after(async () => {
      process.off('warning', note);
      await own.close();
    });
    const names: (string | undefined)[] = [];
    const base = await serve((incoming, response) => {
      own.authenticate(incoming).then(
        (found) => {
          names.push(found?.name);
          response.end();
        },
        () => response.end(),
      );
    });
    const { port } = new URL(base);
    const socket = connect(Number(port), '127.0.0.1').resume();
    socket.write(`GET / HTTP/1.1\r\nHost: x\r\nAuthorization: ${basic('bob')}\r\n\r\n`.repeat(30));
    await eventually(() => names.length === 30, 'the answers');
    socket.destroy();
    assert.deepEqual(new Set(names), new Set(['bob']));
    assert.deepEqual(warnings, []);
  });

  /** Calls `authenticate` for a request of `bob`, after a preparation. @returns the user, or the error */
  async function authenticated(
    own: Vitrine,
    prepare: (incoming: IncomingMessage) => unknown,
  ): Promise<unknown> {
    let outcome: Promise<unknown> | undefined;
    const base = await serve((incoming, response) => {
      outcome = Promise.resolve(prepare(incoming))
        .then(() => own.authenticate(incoming))
        .catch((error: unknown) => error)
        .finally(() => response.end());
    });
    await request(base, '/mine', { user: 'bob' }).catch(() => undefined);
    return outcome;
  }

  test('authenticating without a database fails with 503', async (t) => {
    const proxy = await startProxy(database.url);
    const own = await createVitrine({
      databaseUrl: proxy.url,
      resources: [user, note],
      log: () => undefined,
    });
    t.after(async () => {
      await own.close();
      await proxy.close();
    });
    const error = await authenticated(own, () => proxy.refuse());
    assert.equal((error as { status?: number }).status, 503, String(error));
  });

  test('authenticating a client that has disconnected before verifies no password, and gives no user', async (t) => {
    const own = closedAfter(t, await start());
    const present = await authenticated(own, () => undefined);
    assert.equal((present as { name?: string }).name, 'bob');
    const result = await authenticated(own, async ({ socket }) => {
      const closed = once(socket, 'close');
      socket.destroy();
      await closed;
    });
    assert.equal(result, undefined);
  });

  test('gives the fields of log lines to its own log', async () => {
    const taken: { line: string; entry: unknown }[] = [];
    const own = await createVitrine({
      databaseUrl: database.url,
      resources: [user, note],
      logFormat: 'text',
      log: (written, entries) => {
        for (const [index, line] of written.trimEnd().split('\n').entries())
          taken.push({ line, entry: entries[index] });
      },
    });
    const base = await serve(own.handler);
    await request(base, '/api/note/?limit=1');
    await own.close();
    const [last] = taken.slice(-1);
    assert.match(String(last?.line), /GET \/api\/note\/\?limit/);
    const { level, method, status } = last?.entry as Record<string, unknown>;
    assert.deepEqual([level, method, status], ['info', 'GET', 200]);
  });

  /** Runs the work while a PUT waits for the lock on its record. */
  async function whilePutWaits(base: string, message: string, work: () => unknown): Promise<Answer> {
    let answer: Promise<Answer> | undefined;
    await database.sql.begin(async (transaction) => {
      await transaction`select from note for update`;
      answer = request(base, '/api/note/1/', { method: 'PUT', user: 'bob', body: { message } });
      await lockedOut(database);
      await work();
    });
    return answer!;
  }

  type Read = (incoming: IncomingMessage) => unknown;
  const WITH_EVENTS: Read = (incoming) => once(incoming.resume(), 'end');
  const WITH_A_LOOP: Read = (incoming) => text(incoming);
  const IN_PART: Read = (incoming) => once(incoming, 'data').then(() => incoming.pause());
  const afterReading = (read: Read): Promise<string> =>
    serve((incoming, response) => {
      void Promise.resolve(read(incoming)).then(() => vitrine.handler(incoming, response));
    });

  for (const [how, read] of Object.entries({ 'with events': WITH_EVENTS, 'with a loop': WITH_A_LOOP }))
    test(`a body that was already read ${how} is 500 at once, and the log says why`, async () => {
      const base = await afterReading(read);
      for (const [method, path, body] of [
        ['POST', '/api/note/', { message: 'x' }],
        ['PUT', '/api/note/1/', { message: 'x' }],
        ['POST', '/api/note/', undefined],
      ] as const) {
        const known = lines.length;
        const answer = await request(base, path, { method, user: 'bob', body });
        assertProblem(answer, 500);
        const logged = await eventually(
          () => lines.slice(known).find((line) => line.includes('"error"')),
          'the log line',
        );
        const { id, message } = JSON.parse(logged);
        assert.equal(id, answer.json.requestId);
        assert.match(message, /body was already read/);
      }
      assert.equal((await database.sql`select from note`).length, 1);
    });

  const LONG = { message: 'x'.repeat(200_000) };
  for (const [how, read, status] of [
    ['was paused', (incoming) => incoming.pause(), 201],
    ['was read in part', IN_PART, 500],
    ['is given as text', (incoming) => incoming.setEncoding('utf8'), 500],
  ] as [string, Read, number][])
    test(`a body that ${how} does not hang: ${status}`, async () => {
      const base = await afterReading(read);
      assert.equal(
        (await request(base, '/api/note/', { method: 'POST', user: 'bob', body: LONG })).status,
        status,
      );
      await database.sql`delete from note where id > 1`;
    });

  test('a DELETE whose body was already read deletes: the body means nothing', async () => {
    for (const read of [WITH_EVENTS, WITH_A_LOOP, IN_PART]) {
      const base = await afterReading(read);
      const [row] = await database.sql`insert into note (message) values ('to delete') returning id`;
      const sent = { method: 'DELETE', user: 'bob', body: LONG };
      const answer = await request(base, `/api/note/${row?.['id']}/`, sent);
      assert.equal(answer.status, 200, answer.text);
      assert.equal((await database.sql`select from note`).length, 1);
    }
  });

  const JSON_TYPE = { 'content-type': 'application/json' };
  /** Requests with the status of their answers, which are the same in every framework. */
  const REQUESTS: readonly [method: string, path: string, status: number, headers: object, body?: unknown][] = [
    ['GET', '/api', 200, {}],
    ['GET', '/api/', 200, {}],
    ['GET', '/api?nope=1', 400, {}],
    ['GET', '/api/note/1/', 200, {}],
    ['GET', '/api/note/?message=as%20it%20was', 200, {}],
    ['GET', '/api/nothing/', 404, {}],
    ['GET', '/admin/-/login/', 200, {}],
    ['POST', '/api/note/', 201, JSON_TYPE, '{"message": "x"}'],
    ['POST', '/api/note/', 201, {}, Buffer.from('{"message": "x"}')],
    ['POST', '/api/note/', 201, { 'content-type': 'application/x-www-form-urlencoded' }, 'data={"message": "x"}'],
    ['POST', '/api/note/', 415, { 'content-type': 'text/xml' }, '<x/>'],
    ['POST', '/api/note/', 400, {}],
    ['PATCH', '/api/note/1/', 200, JSON_TYPE, '{"message": "as it was"}'],
    ['DELETE', '/api/note/777/', 404, {}],
    ['OPTIONS', '/api/note/', 204, {}],
  ]; // prettier-ignore
  async function assertServed(base: string): Promise<void> {
    for (const [method, path, expected, headers, body] of REQUESTS) {
      const { status, text } = await request(base, path, {
        method,
        user: 'bob',
        headers: { ...headers },
        body,
      });
      assert.equal(status, expected, `${method} ${path}: ${text}`);
    }
    const { json } = await request(base, '/api/note/?limit=1');
    assert.equal(json.meta.next, '/api/note/?limit=1&page=2');
    await database.sql`delete from note where id > 1`;
  }

  /** Runs the handler below a path as `app.use` of Express does. */
  const use =
    (path: string, handler: RequestListener): RequestListener =>
    (incoming, response) => {
      const { url = '' } = incoming;
      if (!/^[/?]|^$/.test(url.slice(path.length)) || !url.startsWith(path))
        return void response.end('other');
      const rest = url.slice(path.length);
      const seen = { originalUrl: url, baseUrl: path, url: rest.startsWith('/') ? rest : `/${rest}` };
      handler(Object.assign(incoming, seen), response);
    };

  test('serves what Express passes on, with and without a path', async () => {
    const [api, admin] = [use('/api', vitrine.handler), use('/admin', vitrine.handler)];
    const base = await serve((incoming, response) =>
      (incoming.url?.startsWith('/api') ? api : admin)(incoming, response),
    );
    await assertServed(base);
    assert.equal((await request(base, '/administrator')).text, 'other');
    await assertServed(await serve(use('', vitrine.handler)));
  });

  test('serves what Fastify passes on as the documentation shows, and leaves its other routes alone', async (t) => {
    const [example = ''] = codeBlocks('docs/embedding.md', 'js').filter((code) => code.includes('Fastify()'));
    const AsyncFunction = Object.getPrototypeOf(start).constructor as new (
      ...parts: string[]
    ) => (...values: unknown[]) => Promise<FastifyInstance>;
    const app = closedAfter(
      t,
      await new AsyncFunction('Fastify', 'vitrine', `${example}; return app;`)(Fastify, vitrine),
    );
    app.post('/mine', ({ body }) => body);
    const base = await app.listen({ host: '127.0.0.1', port: 0 });
    await assertServed(base);
    const own = await request(base, '/mine', { method: 'POST', body: { a: 1 } });
    assert.deepEqual(own.json, { a: 1 });
  });

  test('close() makes the handler answer 503 in another server', async () => {
    const closing = await start();
    const base = await serve(closing.handler);
    const statusOf = async (path: string, accept = 'application/json', method = 'GET'): Promise<number> =>
      (await request(base, path, { method, headers: { accept } })).status;
    const paths = ['/', '/api/', '/api/openapi.json', '/api/note/', '/api/note/1/', '/admin/-/login/'];
    for (const path of paths) assert.equal(await statusOf(path), 200, path);
    await closing.close();
    for (const path of paths) assert.equal(await statusOf(path), 503, path);
    assert.equal(await statusOf('/api/note/', 'text/html'), 503);
    assert.equal(await statusOf('/api/note/', 'application/x-ndjson'), 503);
    assert.equal(await statusOf('/api/note/', '*/*', 'POST'), 503);
    assert.equal(await statusOf('/readyz'), 503);
    assert.equal(await statusOf('/healthz'), 200);
    const closed = await request(base, '/api/');
    assertProblem(closed, 503);
    assert.equal(closed.json.detail, 'The service is closed.');
  });

  test('close() stops a server that is starting, and two calls of start() start one server', async () => {
    const starting = await start();
    const both = Promise.all([starting.start(), starting.start()]);
    await starting.close();
    const [one, other] = await both;
    assert.deepEqual(one, other);
    await assert.rejects(fetch(`${one.url}/healthz`));
  });

  for (const [source, isOwn] of Object.entries({ 'another server': true, 'the server of start()': false })) {
    test(`close() lets a write through ${source} finish`, async () => {
      const closing = await start();
      const base = isOwn ? await serve(closing.handler) : (await closing.start()).url;
      let closed: Promise<void> | undefined;
      const answer = await whilePutWaits(base, source, async () => {
        closed = closing.close();
        // The database alone would give statements 1 s.
        await new Promise((resolve) => setTimeout(resolve, 1_200));
      });
      assert.deepEqual([answer.status, answer.json?.message], [200, source]);
      await closed;
      const left = await database.sql`select message from note`;
      assert.deepEqual(pluck(left, 'message'), [source]);
    });
  }
});
