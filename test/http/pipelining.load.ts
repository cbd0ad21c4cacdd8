import assert from 'node:assert/strict';
import { setTimeout as sleep } from 'node:timers/promises';
import { note, user } from '../../src/resources/registry.ts';
import { basic, type TestService, useService } from '../support.ts';
import { eventually } from './expect.ts';
import { requestText, type Wire, useWires } from './wire.ts';
import { describe, test } from 'node:test';

/** What Node reads at once. */
const PACKET = 65_536;
const HEALTH = requestText('GET', '/healthz');
const READ = requestText('GET', '/api/note/');

describe('pipelined requests', () => {
  const start = useWires(() => service);
  const service: TestService = useService([user, note], {}, () => service.addUser('bob'));
  async function gauge(name: string): Promise<number> {
    const text = await service.metrics();
    return Number(new RegExp(`^${name} (\\d+)$`, 'm').exec(text)?.[1]);
  }
  /** Requests in flight, and requests behind them. */
  const inFlight = (): Promise<number> => gauge('vitrine_http_requests_in_flight');
  const waiting = async (): Promise<number> => (await gauge('vitrine_request_bodies_bytes')) / 8_192;
  const shortDelay = (): Promise<void> => new Promise((resolve) => setTimeout(resolve, 100));
  const whileNotesAreLocked = (work: () => Promise<void>): Promise<unknown> =>
    service.sql.begin(async (transaction) => {
      await transaction`lock table note in access exclusive mode`;
      await work();
    });
  async function statusesOf(connection: Wire, count: number): Promise<(number | undefined)[]> {
    const statuses: (number | undefined)[] = [];
    for (let index = 0; index < count; index += 1) statuses.push((await connection.next())?.status);
    return statuses;
  }

  test('no more than a packet is read before the first is answered', async () => {
    const connection = start();
    const many = 10_000;
    await whileNotesAreLocked(async () => {
      connection.send(READ + HEALTH.repeat(many));
      await eventually(async () => (await waiting()) > 0, 'waiting requests');
      await shortDelay();
      assert.ok((await waiting()) <= PACKET / HEALTH.length + 1);
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

  test('are answered in order for every division of their bytes into packets', async () => {
    const json = JSON.stringify({ message: '\r\n\r\n'.repeat(8) });
    const chunked = requestText(
      'POST',
      '/api/note/',
      { authorization: basic('bob'), 'transfer-encoding': 'chunked' },
      '3\r\n\r\n\r\r\n2\r\n\r\n\r\n0\r\n\r\n',
    );
    for (const [one, status] of [
      [requestText('POST', '/api/note/', {}, json), 401],
      [chunked, 400],
      [HEALTH, 200],
    ] as const) {
      const text = READ + one.repeat(60);
      for (const size of [text.length, 7, one.length, one.length - 1]) {
        const connection = start();
        connection.socket.setNoDelay(true);
        await whileNotesAreLocked(async () => {
          for (let at = 0; at < text.length; at += size) {
            connection.send(text.slice(at, at + size));
            await new Promise((resolve) => setImmediate(resolve));
          }
          await shortDelay();
        });
        const expected = [200, ...Array<number>(60).fill(status)];
        assert.deepEqual(await statusesOf(connection, 61), expected, `${size} bytes at once`);
      }
    }
  });

  test('of a client that has left end with the first', async () => {
    await whileNotesAreLocked(async () => {
      const connection = start();
      connection.send(READ + HEALTH.repeat(100));
      await eventually(async () => (await waiting()) === 100, 'the requests');
      connection.socket.resetAndDestroy();
    });
    await eventually(async () => (await inFlight()) + (await waiting()) === 0, 'an idle service');
  });

  test('bytes behind an invalid request add no work while an earlier request waits', async () => {
    const refusals = async (): Promise<number> => {
      const text = await service.metrics();
      const counts = text.matchAll(/^vitrine_http_unreadable_requests_total\S* (\d+)$/gm);
      return [...counts].reduce((sum, [, count]) => sum + Number(count), 0);
    };
    const connection = start();
    connection.socket.setNoDelay(true);
    const before = await refusals();
    await whileNotesAreLocked(async () => {
      connection.send(READ);
      await eventually(async () => (await inFlight()) === 1, 'the request');
      for (let count = 0; count < 100; count += 1) {
        connection.send('\0');
        await sleep(1);
      }
    });
    assert.deepEqual(await statusesOf(connection, 2), [200, 400]);
    assert.equal(await connection.rest(), '');
    assert.equal(await refusals(), before + 1);
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

  test('what the connections of a client hold while they wait is bounded, and other clients may still send', async () => {
    const text = READ.repeat(Math.ceil(PACKET / READ.length));
    await whileNotesAreLocked(async () => {
      const connections = Array.from({ length: 20 }, () => start());
      for (const { socket } of connections) socket.on('error', () => undefined).write(text);
      await eventually(() => Promise.resolve(connections.some(({ socket }) => socket.destroyed)), 'a reset');
      const other = start('127.0.0.71');
      other.send(HEALTH.repeat(500));
      assert.deepEqual(new Set(await statusesOf(other, 500)), new Set([200]));
      for (const { socket } of connections) socket.destroy();
    });
    await eventually(async () => (await inFlight()) === 0, 'an idle service');
    const connection = start();
    connection.send(READ.repeat(500));
    assert.deepEqual(new Set(await statusesOf(connection, 500)), new Set([200]));
  });
});
