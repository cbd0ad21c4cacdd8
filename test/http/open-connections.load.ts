import assert from 'node:assert/strict';
import type { RequestListener } from 'node:http';
import type { Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { maxConnections } from '../../src/http/load/open-connections.ts';
import { createHttpServer, listen } from '../../src/http/server/http-server.ts';
import { startService, type TestService } from '../support.ts';
import { note, user } from '../../src/resources/registry.ts';
import { eventually } from './expect.ts';
import { requestText, wire, type Wire } from './wire.ts';
import { after, before, describe, test } from 'node:test';

const MEBIBYTE = 1024 * 1024;

/** A server on the service's limits whose answers wait for `release`, except those of `/quick`. */
async function start(connections: number) {
  const waiting: (() => void)[] = [];
  const trailers: number[] = [];
  let isReleased = false;
  const answer: RequestListener = (request, response) => {
    request.resume().on('end', () => {
      trailers.push(request.rawTrailers.length);
      if (request.url === '/quick' || isReleased) response.end('quick');
      else waiting.push(() => response.end('done'));
    });
  };
  const handler = Object.assign(answer, {
    accepted: () => undefined,
    refuseMethod: () => assert.fail('no method is refused'),
  });
  const http = createHttpServer(handler, {
    connections,
    networkOfRequest: ({ headers }) => String(headers['x-client']),
  });
  let latest: Socket | undefined;
  http.on('connection', (socket) => (latest = socket));
  /** The number of all listeners of the latest connection. */
  const listeners = (): number =>
    latest?.eventNames().reduce((sum, name) => sum + (latest?.listenerCount(name) ?? 0), 0) ?? 0;
  const server = await listen(http, '127.0.0.1', 0);
  const release = (): void => {
    isReleased = true;
    for (const end of waiting.splice(0)) end();
  };
  return { server, waiting, trailers, listeners, release };
}

describe('open connections', () => {
  const clients: Wire[] = [];
  const servers: Awaited<ReturnType<typeof start>>[] = [];
  after(async () => {
    for (const client of clients) client.destroy();
    for (const { release } of servers) release();
    await Promise.all(servers.map(({ server }) => server.close()));
  });
  async function begin(connections = 1_000) {
    const started = await start(connections);
    servers.push(started);
    const connect = (address: string): Wire => {
      const client = wire({ base: started.server.url }, address);
      clients.push(client);
      return client;
    };
    return { ...started, connect };
  }
  const isOpen = ({ socket }: Wire): boolean => !socket.destroyed;

  test('beyond the maximum cost the network with the most its oldest idle one, and no other network any', async () => {
    const { connect, waiting, release } = await begin(10);
    const busy = connect('127.0.0.2');
    busy.send(requestText('GET', '/'));
    await eventually(() => waiting.length === 1, 'a waiting request');
    const other = connect('127.0.0.3');
    other.send(requestText('GET', '/quick'));
    assert.equal((await other.next())?.status, 200);
    const many: Wire[] = [];
    for (let count = 0; count < 18; count += 1) {
      const client = connect('127.0.0.2');
      client.send('GET /quick HTTP/1.1\r\nHo');
      many.push(client);
      await sleep(5);
    }
    await eventually(() => many.filter(isOpen).length === 8, 'eight open connections');
    assert.deepEqual(many.map(isOpen), [...Array<boolean>(10).fill(false), ...Array<boolean>(8).fill(true)]);
    release();
    assert.equal((await busy.next())?.status, 200);
    other.send(requestText('GET', '/quick'));
    assert.equal((await other.next())?.status, 200);
  });

  test('that are all busy let none of the same network in', async () => {
    const { connect, waiting, release } = await begin(5);
    const busy = Array.from({ length: 5 }, () => connect('127.0.0.2'));
    for (const client of busy) client.send(requestText('GET', '/'));
    await eventually(() => waiting.length === 5, 'five waiting requests');
    const late = connect('127.0.0.2');
    assert.equal(await late.rest(), '');
    release();
    for (const client of busy) assert.equal((await client.next())?.status, 200);
  });

  test('are as many as fit a quarter of the memory, within bounds', () => {
    const gibibyte = 1024 * MEBIBYTE;
    const most = (processes: number, memory: number): number => maxConnections(processes, memory, Infinity);
    assert.deepEqual(
      [most(1, gibibyte / 2), most(2, gibibyte), most(2, gibibyte / 8)],
      [2_048, 2_048, 1_024],
    );
    assert.equal(most(1, 1024 * gibibyte), 4_096);
  });

  test('leave the process two hundred files to open', () => {
    const memory = 4096 * MEBIBYTE;
    const most = [1_000_000, 4_296, 4_295, 1_024, 64].map((files) => maxConnections(1, memory, files));
    assert.deepEqual(most, [4_096, 4_096, 4_095, 824, 1]);
  });

  test('keep nothing of trailers, which nobody reads', async () => {
    const { connect, trailers } = await begin();
    const client = connect('127.0.0.2');
    const chunked = requestText('POST', '/quick', { 'transfer-encoding': 'chunked' });
    client.send(`${chunked}1\r\nx\r\n0\r\nX-Trailer: ${'x'.repeat(20_000)}\r\n\r\n`);
    assert.equal((await client.next())?.status, 200);
    assert.deepEqual(trailers, [0]);
  });

  test('of a proxy serve the next client when the budget of the one before is used up', async () => {
    const { connect, waiting } = await begin();
    const proxied = connect('127.0.0.2');
    const quick = (client: string): string => requestText('GET', '/quick', { 'x-client': client });
    proxied.send(quick('greedy').repeat(2));
    assert.equal((await proxied.next())?.status, 200);
    assert.equal((await proxied.next())?.status, 200);
    const held = requestText('GET', '/', { 'x-client': 'greedy' });
    const text = held.repeat(Math.ceil(65_536 / held.length));
    const many = Array.from({ length: 700 }, () => connect('127.0.0.2'));
    for (const { socket } of many) socket.write(text);
    await eventually(() => !many.every(isOpen), 'a reset');
    const before = waiting.length;
    for (let count = 0; count < 80; count += 1) connect('127.0.0.2').send(quick('greedy') + held);
    await eventually(() => waiting.length >= before + 80, 'all requests');
    const length = '60000';
    proxied.send(
      requestText('POST', '/quick', { 'x-client': 'other', 'content-length': length }, 'x'.repeat(60_000)),
    );
    assert.equal((await proxied.next())?.status, 200);
  });

  test('that ask for an Upgrade again and again keep nothing of earlier requests', async () => {
    const { connect, listeners } = await begin();
    const client = connect('127.0.0.2');
    const upgrade = requestText('POST', '/quick', {
      connection: 'upgrade',
      upgrade: 'x',
      'transfer-encoding': 'chunked',
    });
    const counts: number[] = [];
    for (let count = 0; count < 100; count += 1) {
      client.send(`${upgrade}0\r\n\r\n`);
      assert.equal((await client.next())?.status, 200);
      counts.push(listeners());
    }
    assert.equal(counts.at(-1), counts[20], counts.join(' '));
  });
});

describe('idle connections', () => {
  let service: TestService;
  before(async () => {
    service = await startService([user, note]);
  });
  after(() => service.close());

  async function assertNothingIsKept(requests: number): Promise<void> {
    setFlagsFromString('--expose-gc');
    const collect = runInNewContext('gc') as () => void;
    const heap = (): number => {
      collect();
      return process.memoryUsage().heapUsed;
    };
    const clients: Wire[] = [];
    const get = requestText('GET', '/healthz', { 'x-long': 'x'.repeat(30_000) });
    const ask = async (count: number): Promise<void> => {
      for (let index = 0; index < count; index += 1) {
        const client = wire(service);
        clients.push(client);
        client.send(get.repeat(requests));
        for (let left = requests; left > 0; left -= 1) assert.equal((await client.next())?.status, 200);
      }
    };
    await ask(50);
    const before = heap();
    await ask(400);
    const grown = heap() - before;
    for (const client of clients) client.destroy();
    assert.ok(grown < 8 * MEBIBYTE, `${grown} bytes`);
  }

  test('do not keep their last requests in memory', () => assertNothingIsKept(1));

  test('do not keep pipelined requests in memory', () => assertNothingIsKept(2));
});
