// While a client reads a compressed page slowly, the service holds no more than its compressed form.
import assert from 'node:assert/strict';
import { connect, type Socket } from 'node:net';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import type { Resource } from '../../src/index.ts';
import { user } from '../../src/resources/registry.ts';
import { useService, type TestService } from '../support.ts';
import { eventually } from './expect.ts';
import { test } from 'node:test';

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
