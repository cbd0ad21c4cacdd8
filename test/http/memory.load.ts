// While a client reads a compressed page slowly, the service holds no more than its compressed form.
import assert from 'node:assert/strict';
import { connect, type Socket } from 'node:net';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { describe, test } from 'node:test';
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Resource } from '../../src/index.ts';
import { note, user } from '../../src/resources/registry.ts';
import { type TestService, useService } from '../support.ts';
import { eventually } from './expect.ts';
import { maxConnections } from '../../src/http/load/connection-limit.ts';
import { createHttpServer, listen } from '../../src/http/server/http-server.ts';
import { requestText, wire, type Wire } from './wire.ts';

const paper: Resource = { model: 'paper', columns: { body: { type: 'text' } } };
const CLIENTS = 2;
const MEBIBYTE = 1024 * 1024;

const service: TestService = useService([user, paper], { trustProxy: 1 }, async () => {
  // 20 MB that compress to about a quarter, which is more than the system holds for a connection.
  await service.sql`
    insert into paper (body)
    select string_agg(repeat(md5((n * 10000 + i)::text), 2), '') from generate_series(1, 20) n, generate_series(1, 16000) i group by n`;
});

setFlagsFromString('--expose-gc');
const collectGarbage = runInNewContext('gc') as () => void;

/** Bytes of buffers that are in use. */
async function held(): Promise<number> {
  for (let round = 0; round < 3; round += 1) {
    collectGarbage();
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
  return process.memoryUsage().arrayBuffers;
}

test('a compressed page that nobody reads takes the memory of its compressed form', async () => {
  const before = await held();
  const sockets: Socket[] = [];
  let answered = 0;
  for (let index = 0; index < CLIENTS; index += 1) {
    const socket = connect({ host: '127.0.0.1', port: Number(new URL(service.base).port) });
    sockets.push(socket);
    socket.on('error', () => undefined);
    socket.once('readable', () => {
      assert.match(String(socket.read(512)), /^HTTP\/1.1 200 [^]*Content-Encoding: gzip/i);
      answered += 1;
    });
    socket.write(
      `GET /api/paper/?limit=20 HTTP/1.1\r\nHost: x\r\nAccept-Encoding: gzip\r\nX-Forwarded-For: 10.1.${index}.1\r\n\r\n`,
    );
    await eventually(() => answered > index, 'the head of an answer');
  }
  const more = (await held()) - before;
  for (const socket of sockets) socket.destroy();
  assert.ok(more < CLIENTS * 10 * MEBIBYTE, `${(more / MEBIBYTE).toFixed(1)} MiB`);
});

describe('open connections', () => {
  test('beyond the maximum are in place of idle ones, and none is closed that has an unanswered request', async (t) => {
    const waiting: (() => void)[] = [];
    const handler = Object.assign(
      ({ url }: IncomingMessage, response: ServerResponse) =>
        void (url === '/quick' ? response.end('quick') : waiting.push(() => response.end('done'))),
      { refuseMethod: () => assert.fail('no method is refused') },
    );
    const server = await listen(createHttpServer(handler, { connections: 5 }), '127.0.0.1', 0);
    const clients: Wire[] = [];
    const send = (path: string): Wire => {
      const client = wire({ base: server.url });
      clients.push(client);
      client.socket.on('error', () => undefined);
      client.send(requestText('GET', path));
      return client;
    };
    t.after(async () => {
      for (const client of clients) client.destroy();
      await server.close();
    });
    const busy = [send('/'), send('/')];
    await eventually(() => waiting.length === 2, 'the waiting requests');
    const idle = [send('/quick'), send('/quick'), send('/quick')];
    for (const client of idle) assert.equal((await client.next())?.status, 200);
    assert.equal(await send('/quick').rest(), '', 'it is refused');
    for (const client of idle) assert.equal(await client.rest(), '', 'it is closed');
    assert.equal((await send('/quick').next())?.status, 200);
    for (const end of waiting) end();
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
});

describe('idle connections', () => {
  const service: TestService = useService([user, note]);

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
