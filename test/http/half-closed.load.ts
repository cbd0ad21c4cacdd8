import assert from 'node:assert/strict';
import { setTimeout as sleep } from 'node:timers/promises';
import { note, user } from '../../src/resources/registry.ts';
import { basic, startService, type TestService } from '../support.ts';
import { eventually } from './expect.ts';
import { requestText, wire, type Wire } from './wire.ts';
import { after, before, describe, test } from 'node:test';

describe('a half-closed connection', () => {
  let service: TestService;
  const open: Wire[] = [];
  before(async () => {
    service = await startService([user, note]);
    await service.addUser('bob');
    await service.sql`insert into note (message) values ('x')`;
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

  test('has no effect if its client has disconnected before the request starts, while many connections arrive', async () => {
    const isPost = ({ method }: (typeof service.lines)[number]): boolean => method === 'POST';
    // On a slow machine, a second may pass until the service has read the requests. Then new connections are not many any more.
    for (let attempt = 0; attempt < 20; attempt += 1) {
      const startedAt = performance.now();
      const connections = Array.from({ length: 100 }, start);
      const answers = connections.map(async (connection) => {
        connection.send(requestText('GET', '/healthz'));
        return (await connection.next())?.status;
      });
      assert.ok((await Promise.all(answers)).every((status) => status === 200));
      const before = service.lines.length;
      for (const { socket } of connections) {
        socket.write(post(`gone-${attempt}`));
        socket.destroy();
      }
      const lines = (): typeof service.lines => service.lines.slice(before).filter(isPost);
      // A connection that was closed before its turn to be parsed has no line.
      const isLate = (): boolean => performance.now() - startedAt > 900;
      await eventually(() => lines().length === connections.length || isLate(), 'the lines of the log');
      if (isLate()) continue;
      const started = lines().filter(({ status }) => status !== 499);
      assert.deepEqual(started, []);
      assert.deepEqual((await service.request(`/api/note/?message=gone-${attempt}`)).json.objects, []);
      return;
    }
    assert.fail('the machine is too slow');
  });

  test('gets its answer and nothing else while the service has little to do', async () => {
    await sleep(2_000); // after the connections of other tests
    for (const version of ['1.1', '1.0']) {
      const connection = start();
      connection.socket.end(requestText('GET', '/api/note/1/').replace('HTTP/1.1', `HTTP/${version}`));
      assert.equal((await connection.next())?.status, 200);
    }
  });

  test('is asked again and again whether its client still reads, while its request takes long', async () => {
    const own = await service.sql.reserve();
    try {
      await own`begin`;
      await own`lock table note`;
      const connection = start();
      connection.socket.end(post('late'));
      await sleep(2_000);
      await own`rollback`;
      let probes = 0;
      let answer = await connection.next();
      for (; answer?.status === 102; answer = await connection.next()) probes += 1;
      assert.equal(answer?.status, 201);
      assert.ok(probes >= 14, `${probes} times`);
    } finally {
      own.release();
    }
  });
});
