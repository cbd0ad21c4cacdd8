import assert from 'node:assert/strict';
import { setTimeout as sleep } from 'node:timers/promises';
import { note, user } from '../../src/resources/registry.ts';
import { basic, startService, type TestService } from '../support.ts';
import { eventually } from './expect.ts';
import { requestText, wire, type Wire } from './wire.ts';
import { after, before, describe, test } from 'node:test';

const MAX_UNANSWERED = 16;
const HEALTH = requestText('GET', '/healthz');
const READ = requestText('GET', '/api/note/');

describe('pipelined requests', () => {
  let service: TestService;
  const open: Wire[] = [];
  before(async () => {
    service = await startService([user, note]);
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
  /** Requests in flight. */
  async function inFlight(): Promise<number> {
    const text = await service.metrics();
    return Number(/^vitrine_http_requests_in_flight (\d+)$/m.exec(text)?.[1]);
  }
  const shortDelay = (): Promise<void> => new Promise((resolve) => setTimeout(resolve, 100));
  const whileNotesAreLocked = (work: () => Promise<void>): Promise<unknown> =>
    service.sql.begin(async (transaction) => {
      await transaction`lock table note in access exclusive mode`;
      await work();
    });
  /** The status of the next answer. A 102 before it checks whether a client that has sent everything is still there. */
  async function statusOf(connection: Wire): Promise<number | undefined> {
    for (;;) {
      const answer = await connection.next();
      if (answer?.status !== 102) return answer?.status;
    }
  }

  async function statusesOf(connection: Wire, count: number): Promise<(number | undefined)[]> {
    const statuses: (number | undefined)[] = [];
    for (let index = 0; index < count; index += 1) statuses.push(await statusOf(connection));
    return statuses;
  }

  test('at most 16 requests of a connection are read before the first is answered', async () => {
    const connection = start();
    const many = 1_500;
    await whileNotesAreLocked(async () => {
      connection.send(READ + HEALTH.repeat(many));
      await eventually(async () => (await inFlight()) === MAX_UNANSWERED, 'sixteen requests');
      await shortDelay();
      assert.equal(await inFlight(), MAX_UNANSWERED);
      assert.equal((await service.request('/healthz')).status, 200);
    });
    assert.deepEqual(new Set(await statusesOf(connection, many + 1)), new Set([200]));
    connection.send(HEALTH);
    assert.equal((await connection.next())?.status, 200);
  });

  test('requests that arrive during and after a large, slowly read answer are answered', async () => {
    const [row] =
      await service.sql`insert into note (message) values (${'x'.repeat(8_000_000)}) returning id`;
    const large = requestText('GET', `/api/note/${String(row?.['id'])}/`);
    for (let round = 0; round < 3; round += 1) {
      const connection = start();
      connection.socket.pause();
      connection.send(large);
      await new Promise((resolve) => setTimeout(resolve, 500));
      connection.send(HEALTH);
      await shortDelay();
      connection.socket.resume();
      assert.deepEqual(await statusesOf(connection, 2), [200, 200]);
      connection.send(HEALTH);
      assert.equal((await connection.next())?.status, 200);
    }
    await service.sql`delete from note where id = ${row?.['id']}`;
  });

  test('the limit holds for every division of requests into bodies and packets', async () => {
    const json = JSON.stringify({ message: '\r\n\r\n'.repeat(8) });
    const chunked = requestText(
      'POST',
      '/api/note/',
      { authorization: basic('bob'), 'transfer-encoding': 'chunked' },
      '3\r\n\r\n\r\r\n2\r\n\r\n\r\n0\r\n\r\n',
    );
    for (const [name, one, status] of [
      ['a body of known length', requestText('POST', '/api/note/', {}, json), 401],
      ['a chunked body', chunked, 400],
      ['no body', HEALTH, 200],
    ] as const) {
      const many = 60;
      const text = READ + one.repeat(many);
      /** How many requests are in flight behind the first, and the statuses of all. */
      const attempt = async (size: number): Promise<[number, (number | undefined)[]]> => {
        const connection = start();
        connection.socket.setNoDelay(true);
        await eventually(async () => (await inFlight()) === 0, 'the requests before are finished');
        const statuses = statusesOf(connection, many + 1);
        let reached = 0;
        await whileNotesAreLocked(async () => {
          for (let at = 0; at < text.length; at += size) {
            connection.send(text.slice(at, at + size));
            await new Promise((resolve) => setImmediate(resolve));
          }
          const isOver = statuses.then(() => true);
          const isFull = async (): Promise<boolean> => (await inFlight()) >= MAX_UNANSWERED;
          await eventually(async () => (await Promise.race([isOver, shortDelay()])) || isFull(), name);
          await shortDelay();
          reached = await inFlight();
        });
        return [reached, await statuses];
      };
      for (const size of [text.length, 7, one.length, one.length - 1]) {
        let [reached, statuses] = await attempt(size);
        // A service whose machine pauses refuses the first read, and does not wait for the lock.
        for (let tries = 1; tries < 5 && [429, 503].includes(statuses[0] ?? 0); tries += 1)
          [reached, statuses] = await attempt(size);
        assert.equal(reached, MAX_UNANSWERED, `${name}, ${size} bytes at once`);
        assert.deepEqual(statuses, [200, ...Array<number>(many).fill(status)], name);
      }
    }
  });

  test('bodies beyond the limit are read in time, and a half-closed client gets every answer', async () => {
    const connection = start();
    const messages = Array.from({ length: 50 }, (_, index) => `${index}`.padStart(600, 'x'));
    const headers = { authorization: basic('bob') };
    const posts = messages.map((message) =>
      requestText('POST', '/api/note/', headers, JSON.stringify({ message })),
    );
    connection.socket.end(posts.join(''));
    for (const message of messages) {
      let answer = await connection.next();
      // A busy process sends 102 to check whether a half-closed client is still there.
      while (answer?.status === 102) answer = await connection.next();
      assert.equal(JSON.parse(answer?.body ?? '').message, message);
    }
    assert.equal(await connection.rest(), '');
  });

  test('a client that leaves has no request in flight', async () => {
    await whileNotesAreLocked(async () => {
      const connection = start();
      connection.send(READ + HEALTH.repeat(100));
      await eventually(async () => (await inFlight()) === MAX_UNANSWERED, 'sixteen requests');
      connection.socket.resetAndDestroy();
      await eventually(async () => (await inFlight()) <= 1, 'the end of the waiting requests');
    });
    await eventually(async () => (await inFlight()) === 0, 'the end of the first');
  });

  test('an invalid request is refused after the answers to earlier requests', async () => {
    const connection = start();
    connection.send(`${READ}${HEALTH.repeat(40)}nonsense\r\n\r\n${HEALTH}`);
    const statuses = await statusesOf(connection, 42);
    assert.deepEqual(statuses, [...Array<number>(41).fill(200), 400]);
    assert.equal(await connection.rest(), '');
  });

  /** Sends bytes that no request begins with behind one that waits, and then more in packets of one byte. */
  async function statusesBehind(first: string, address: string): Promise<(number | undefined)[]> {
    const warnings: string[] = [];
    const note = ({ name }: Error): void => void warnings.push(name);
    process.on('warning', note);
    const connection = wire(service, address);
    open.push(connection);
    connection.socket.setNoDelay(true);
    /** The log may be some milliseconds late. */
    const refusals = async (): Promise<number> => {
      const text = await service.metrics();
      const counts = text.matchAll(/^vitrine_http_unreadable_requests_total\S* (\d+)$/gm);
      return [...counts].reduce((sum, [, count]) => sum + Number(count), 0);
    };
    const before = await refusals();
    await whileNotesAreLocked(async () => {
      connection.send(READ);
      await eventually(async () => (await inFlight()) === 1, 'the request');
      connection.send(first);
      for (let count = 0; count < 100; count += 1) {
        await sleep(1);
        connection.send('\0');
      }
      await shortDelay();
    });
    const statuses = await statusesOf(connection, 2);
    assert.equal(await connection.rest(), '');
    assert.equal(await refusals(), before + 1);
    process.off('warning', note);
    assert.deepEqual(warnings, []);
    return statuses;
  }

  /** Repeats it while a service whose machine pauses refuses the first read. */
  async function sendBehind(first: string, status: number, address: string): Promise<void> {
    let statuses = await statusesBehind(first, address);
    for (let tries = 1; tries < 5 && [429, 503].includes(statuses[0] ?? 0); tries += 1)
      statuses = await statusesBehind(first, address);
    assert.deepEqual(statuses, [200, status]);
  }

  test('bytes behind an invalid request add no work while an earlier request waits', () =>
    sendBehind('\0', 400, '127.0.0.80'));

  test('bytes behind a head with too many headers add no work while an earlier request waits', () =>
    sendBehind(`GET / HTTP/1.1\r\n${'X: y\r\n'.repeat(300)}`, 431, '127.0.0.81'));

  test('a client that leaves after invalid bytes has no request in flight', async () => {
    await whileNotesAreLocked(async () => {
      const connection = start();
      connection.send(requestText('GET', '/api/note/?message__ilike=%25x%25'));
      await eventually(async () => (await inFlight()) === 1, 'the request');
      connection.send('\0\0');
      await shortDelay();
      connection.send('\0');
      connection.socket.resetAndDestroy();
      await eventually(async () => (await inFlight()) === 0, 'an idle service');
    });
  });

  test('other connections are served between the requests of one', async () => {
    const connection = start();
    const other = start();
    other.send(HEALTH);
    await other.next();
    let answered = 0;
    const many = 2_000;
    connection.send(HEALTH.repeat(many));
    const all = statusesOf(connection, many).then(() => (answered = many));
    const order: number[] = [];
    for (let index = 0; index < 5; index += 1) {
      other.send(HEALTH);
      assert.equal((await other.next())?.status, 200);
      order.push(answered);
    }
    assert.deepEqual(order, [0, 0, 0, 0, 0]);
    await all;
  });

  test('four times as many requests take less than ten times the processor time', async () => {
    const timeOf = async (count: number): Promise<number> => {
      const connection = start();
      const before = process.cpuUsage();
      connection.send(READ + HEALTH.repeat(count));
      await statusesOf(connection, count + 1);
      return process.cpuUsage(before).user;
    };
    await timeOf(500);
    const [less, more] = [await timeOf(1_000), await timeOf(4_000)];
    assert.ok(more < less * 10, `${less} us, then ${more} us for four times as many`);
  });

  const upgrade = { connection: 'Upgrade, HTTP2-Settings', upgrade: 'h2c', 'http2-settings': 'AAMAAABk' };
  for (const [name, first, status] of [
    ['without a body', requestText('GET', '/healthz', upgrade), 200],
    ['with a body', requestText('POST', '/api/note/', upgrade, '{"message":"x"}'), 401],
    [
      'with a chunked body',
      // It reads the body first: an answer before the end of a chunked body closes the connection.
      requestText(
        'POST',
        '/api/note/',
        { ...upgrade, authorization: basic('bob'), 'transfer-encoding': 'chunked' },
        '2\r\n{}\r\n0\r\n\r\n',
      ),
      400,
    ],
  ] as const) {
    test(`a request to upgrade ${name} is answered, and so are the requests after it`, async () => {
      for (const before of [0, 1, 30]) {
        const connection = start();
        const text = HEALTH.repeat(before) + (first + HEALTH).repeat(12);
        connection.send(text);
        const expected = [
          ...Array<number>(before).fill(200),
          ...Array.from({ length: 12 }, () => [status, 200]).flat(),
        ];
        assert.deepEqual(await statusesOf(connection, expected.length), expected);
        connection.send(first);
        assert.equal((await connection.next())?.status, status);
        connection.socket.end(first);
        assert.equal(await statusOf(connection), status);
        assert.equal(await connection.rest(), '');
      }
    });
    test(`a request to upgrade ${name} behind others is answered when the client has sent its last byte`, async () => {
      const connection = start();
      connection.socket.end(HEALTH.repeat(20) + first + HEALTH);
      assert.deepEqual(await statusesOf(connection, 22), [...Array<number>(20).fill(200), status, 200]);
      assert.equal(await connection.rest(), '');
    });
  }

  test('what the connections of a client hold while they wait is bounded, and other clients may still send', async () => {
    const text = READ.repeat(Math.ceil(65_536 / READ.length));
    await whileNotesAreLocked(async () => {
      const connections = Array.from({ length: 900 }, () => start());
      for (const { socket } of connections) socket.on('error', () => undefined).write(text);
      await eventually(() => Promise.resolve(connections.some(({ socket }) => socket.destroyed)), 'a reset');
      assert.ok(connections.filter(({ socket }) => !socket.destroyed).length > 50);
      const other = wire(service, '127.0.0.71');
      open.push(other);
      other.send(HEALTH.repeat(500));
      assert.deepEqual(new Set(await statusesOf(other, 500)), new Set([200]));
      for (const { socket } of connections) socket.destroy();
    });
    // The service also closes this connection for the metrics while its address holds too much.
    await eventually(async () => (await inFlight().catch(() => undefined)) === 0, 'an idle service');
    await sleep(500); // The client that has asked for the metrics no longer counts as present.
    // A slow machine refuses some with 429 until the client's time is forgotten.
    await eventually(async () => {
      const connection = start();
      connection.send(READ.repeat(500));
      const statuses = await statusesOf(connection, 500);
      return statuses.every((status) => status === 200);
    }, 'an answer to each of 500 reads');
  });
});
