import assert from 'node:assert/strict';
import { once } from 'node:events';
import { Agent, get, type IncomingMessage, type ServerResponse } from 'node:http';
import { connect, type Socket } from 'node:net';
import { join } from 'node:path';
import { createHttpServer, listen } from '../../src/http/server/http-server.ts';
import { SHUTDOWN_TIMEOUT } from '../../src/http/load/in-flight-requests.ts';
import { setTimeout as sleep } from 'node:timers/promises';
import { basic, createDatabase, request, useDatabase } from '../support.ts';
import {
  addressesOf,
  addUser,
  connections,
  EXECUTABLE,
  folderWith,
  listening,
  REPOSITORY,
  serve,
  start as launch,
  until,
  type Serving,
} from './support.ts';
import { stateOf } from './workers-support.ts';
import { describe, test } from 'node:test';

/** Opens a connection and sends what is given; `received` is what came back so far. */
async function dial(base: string, text = ''): Promise<{ socket: Socket; received: () => string }> {
  const { port, hostname } = new URL(base);
  const socket = connect(Number(port), hostname);
  await once(socket, 'connect');
  let received = '';
  socket.setEncoding('utf8').on('data', (chunk: string) => (received += chunk));
  socket.on('error', () => undefined);
  if (text !== '') socket.write(text);
  return { socket, received: () => received };
}

const refusesConnections = (base: string): Promise<boolean> =>
  dial(base).then(
    ({ socket }) => {
      socket.destroy();
      return false;
    },
    (error: NodeJS.ErrnoException) => error.code === 'ECONNREFUSED',
  );

/** Holds the process's end against a time at which nothing but the grace for requests in flight can have kept it. */
const endsBeforeGrace = ({ ended }: Serving): Promise<unknown> =>
  Promise.race([ended, new Promise((resolve) => setTimeout(resolve, 8_000, 'still there').unref())]);

describe('SIGTERM and SIGINT', { concurrency: 8 }, () => {
  let record: number;
  const database = useDatabase('', async () => {
    const service = await serve({ env: { DATABASE_URL: database.url } }); // makes the tables
    await service.stop();
    const user_id = await addUser(database.sql, 'ada');
    const message = { user_id, content: 'before' };
    const [row] = await database.sql`insert into message ${database.sql(message)} returning id`;
    record = Number(row?.['id']);
  });

  // A page of 20 MB takes seconds on a busy machine.
  const start = (): Promise<Serving> => serve({ env: { DATABASE_URL: database.url, SLOW_TIMEOUT: '10' } });

  test('end the process with 0 when they come while one listener takes the place of another', async () => {
    for (const signal of ['SIGTERM', 'SIGINT']) {
      const cwd = await folderWith({
        'early.mjs': `let calls = 0;
          for (const name of ['on', 'off', 'removeAllListeners']) {
            const original = process[name];
            process[name] = function (event, ...rest) {
              // The first call is that of bin/vitrine.js.
              if (event === '${signal}' && ++calls === 2) process.kill(process.pid, '${signal}');
              return original.call(this, event, ...rest);
            };
          }`,
      });
      const words = ['--import', join(cwd, 'early.mjs'), EXECUTABLE, 'serve'];
      const env = { DATABASE_URL: database.url, PORT: '0' };
      const program = await launch(words, { cwd, env, command: process.execPath });
      await until('an end', () => program.child.exitCode !== null || program.stdout().includes('listening'));
      program.child.kill('SIGKILL');
      const { code, stdout } = await program.ended;
      assert.deepEqual([code, stdout], [0, '']);
    }
  });

  test('let a request that waits for the database finish, refuse new connections, and end with 0', async () => {
    for (const signal of ['SIGTERM', 'SIGINT'] as const) {
      const service = await start();
      let answer: ReturnType<typeof request> | undefined;
      await database.sql.begin(async (transaction) => {
        await transaction`select from message where id = ${record} for update`;
        answer = request(service.base, `/api/message/${record}/`, {
          method: 'PUT',
          user: 'ada',
          body: { content: signal },
        });
        await until('the PUT to wait', async () => {
          return (
            (await connections(database.sql, `wait_event_type = 'Lock' and query ilike '%message%'`)) > 0
          );
        });
        service.child.kill(signal);
        await until('new connections to be refused', () => refusesConnections(service.base));
        service.child.kill(signal); // whoever is impatient changes nothing
      });
      const { status, headers, json } = (await answer)!;
      assert.equal(status, 200);
      assert.equal(json.content, signal);
      assert.equal(headers.get('connection'), 'close');
      const { code, stderr } = await service.ended;
      assert.equal(code, 0);
      const lines = stderr
        .trim()
        .split('\n')
        .map((line) => JSON.parse(line));
      assert.ok(
        lines.some(({ method, status: logged }) => method === 'PUT' && logged === 200),
        'the last request is in the log',
      );
      const [row] = await database.sql`select content from message where id = ${record}`;
      assert.equal(row?.['content'], signal);
    }
  });

  test('let a client that is slow to take its answer have all of it', async () => {
    await database.sql`insert into note (message) select repeat('x', 20000) from generate_series(1, 1000)`;
    const service = await start();
    const { socket } = await dial(service.base);
    const closed = once(socket, 'close');
    let size = 0;
    let head = '';
    socket.setEncoding('latin1');
    socket.removeAllListeners('data').on('data', (chunk: string) => {
      size += chunk.length;
      if (head.length < 500) head += chunk;
    });
    socket.write('GET /api/note/?limit=1000 HTTP/1.1\r\nHost: x\r\n\r\n');
    await until('the answer has begun', () => size > 0);
    socket.pause();
    assert.match(head, /^HTTP\/1.1 200 /);
    service.child.kill('SIGTERM');
    await until('it refuses connections', () => refusesConnections(service.base));
    await new Promise((resolve) => setTimeout(resolve, 1_500)); // past the moment at which idle connections are closed
    socket.resume();
    await closed;
    assert.ok(size > 1000 * 20_000, `${size} bytes`);
    assert.equal((await service.ended).code, 0);
  });

  test('are not held up by connections that are kept alive, or on which nothing was ever asked', async () => {
    const service = await start();
    const agent = new Agent({ keepAlive: true });
    for (let count = 0; count < 3; count += 1) {
      const [response] = await once(get(`${service.base}/healthz`, { agent }), 'response');
      response.resume();
      await once(response, 'end');
    }
    const { socket } = await dial(service.base, 'GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n');
    await once(socket, 'data');
    const { socket: unused } = await dial(service.base); // browsers open such ones in advance
    service.child.kill('SIGTERM');
    assert.notEqual(await endsBeforeGrace(service), 'still there');
    assert.equal((await service.ended).code, 0);
    agent.destroy();
    unused.destroy();
  });

  test('are not held up by a connection that is kept alive, on which a stream ends only later', async () => {
    await database.sql`insert into note (message) select repeat('y', 20000) from generate_series(1, 1000)`;
    const service = await start();
    const agent = new Agent({ keepAlive: true });
    const headers = { accept: 'application/x-ndjson' };
    const [response] = await once(
      get(`${service.base}/api/note/?message__like=y%25`, { agent, headers }),
      'response',
    );
    await once(response, 'readable');
    service.child.kill('SIGTERM');
    await until('it refuses connections', () => refusesConnections(service.base));
    await new Promise((resolve) => setTimeout(resolve, 1_000)); // past the moment at which idle connections are closed
    let size = 0;
    response.on('data', (chunk: Buffer) => (size += chunk.length));
    await once(response, 'end');
    assert.ok(size > 1000 * 20_000, `${size} bytes`);
    assert.notEqual(await endsBeforeGrace(service), 'still there');
    assert.equal((await service.ended).code, 0);
    agent.destroy();
  });

  test('answer requests that came while the process had no time, until idle connections are closed', async () => {
    const head = 'GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n';
    /** @returns whether the process was stopped before it closed idle connections, which a slow machine may miss */
    const isAnswered = async (): Promise<boolean> => {
      const service = await start();
      const clients = await Promise.all(Array.from({ length: 8 }, () => dial(service.base, head)));
      await until('each to be answered', () => clients.every(({ received }) => received() !== ''));
      const closed = Promise.all(clients.map(({ socket }) => once(socket, 'close')));
      service.child.kill('SIGTERM');
      await until('it refuses connections', () => refusesConnections(service.base));
      service.child.kill('SIGSTOP');
      await until('it stops', () => stateOf(service.child.pid ?? 0) === 'T');
      const isInTime = clients.every(({ socket }) => socket.readyState === 'open');
      for (const { socket } of clients) socket.write(head);
      await sleep(1_000); // past the moment at which idle connections are closed
      service.child.kill('SIGCONT');
      await closed;
      assert.equal((await service.ended).code, 0);
      if (isInTime)
        for (const { received } of clients)
          assert.match(received(), /HTTP\/1\.1 200 [^]*HTTP\/1\.1 200 [^]*\r\nConnection: close\r\n/i);
      return isInTime;
    };
    for (let tries = 1; !(await isAnswered()); tries += 1) assert.ok(tries < 10, 'never stopped in time');
  });

  test('cut a request that takes longer than the grace, and still end with 0', async () => {
    const service = await start();
    const head = [
      `PUT /api/message/${record}/ HTTP/1.1`,
      'Host: x',
      `Authorization: ${basic('ada')}`,
      'Content-Type: application/json',
      'Content-Length: 1000',
      'Expect: 100-continue',
    ];
    const { socket, received } = await dial(service.base, `${head.join('\r\n')}\r\n\r\n`);
    await once(socket, 'data');
    assert.match(received(), /^HTTP\/1\.1 100 /); // the service waits for the body now
    socket.write('{');
    const cut = once(socket, 'close');
    service.child.kill('SIGTERM');
    await until('new connections to be refused', () => refusesConnections(service.base));
    await cut;
    assert.doesNotMatch(received(), /HTTP\/1\.1 2\d\d /);
    assert.equal((await service.ended).code, 0);
  });

  test('are passed on by npm start', async () => {
    const options = { command: 'npm', cwd: REPOSITORY, env: { DATABASE_URL: database.url, PORT: '0' } };
    const npm = await listening(await launch(['start', '--silent'], options));
    assert.equal((await request(npm.base, '/readyz')).status, 200);
    const { stdout } = await npm.stop();
    assert.equal(stdout, addressesOf(npm.base));
    assert.ok(await refusesConnections(npm.base));
  });

  test('close the connections to the database', async () => {
    const own = await createDatabase();
    const service = await serve({ env: { DATABASE_URL: own.url } });
    await request(service.base, '/api/note/');
    assert.ok((await connections(own.sql)) > 0);
    assert.equal((await service.stop('SIGINT')).code, 0);
    await until('no connections to be left', async () => (await connections(own.sql)) === 0);
    await own.drop();
  });
});

for (const behind of [
  'CONNECT x HTTP/1.1\r\nHost: x\r\n\r\n',
  'GET / HTTP/1.1\r\nHost: x\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n',
])
  test(`a shutdown ends a response after the grace, also with ${behind.slice(0, 7)} behind its request`, async () => {
    const answer = (_: IncomingMessage, response: ServerResponse): void => {
      setInterval(() => response.write('x'), 100).unref();
    };
    const reply = { status: 405, headers: {}, body: '' };
    const server = await listen(
      createHttpServer(Object.assign(answer, { refuseMethod: () => reply })),
      '127.0.0.1',
      0,
    );
    const { socket, received } = await dial(server.url, `GET / HTTP/1.1\r\nHost: x\r\n\r\n${behind}`);
    await until('the response', () => received().split('x').length > 3);
    const late = sleep(SHUTDOWN_TIMEOUT + 5_000, 'still open', { ref: false });
    assert.equal(await Promise.race([server.close(), late]), undefined);
    socket.destroy();
  });
