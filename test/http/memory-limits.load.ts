import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import { createUnsent } from '../../src/http/load/unsent-responses.ts';
import { listen } from '../../src/http/server/http-server.ts';
import { note, user } from '../../src/resources/registry.ts';
import { basic, startService, type TestService } from '../support.ts';
import { eventually } from './expect.ts';
import { requestText, wire, type Wire } from './wire.ts';
import { after, before, describe, test } from 'node:test';

const MAX_BODY = 12 * 1024 * 1024;

describe('memory limits', () => {
  let service: TestService;
  const open: Wire[] = [];
  before(async () => {
    service = await startService([user, note], { maxBody: MAX_BODY });
    await service.addUser('bob');
  });
  after(async () => {
    for (const connection of open) connection.destroy();
    await service.close();
  });
  const start = (address?: string): Wire => {
    const connection = wire(service, address);
    open.push(connection);
    return connection;
  };
  const headers = { authorization: basic('bob'), 'content-type': 'application/json' };
  async function gauge(name: string): Promise<number> {
    const text = await service.metrics();
    return Number(new RegExp(`^${name} (\\d+)$`, 'm').exec(text)?.[1]);
  }

  test('bodies beyond the share of an address are 429, small writes still work, and the share is released', async () => {
    const body = 'x'.repeat(MAX_BODY - 1);
    const uploads = Array.from({ length: 5 }, () => start());
    for (const upload of uploads)
      upload.send(
        requestText('POST', '/api/note/', { ...headers, 'content-length': String(MAX_BODY) }, body),
      );
    const first = await Promise.race(uploads.map((upload) => upload.next()));
    assert.equal(first?.status, 429);
    assert.equal(first.headers['connection'], 'close');
    assert.ok(Number(first.headers['retry-after']) > 0);
    const small = await service.request('/api/note/', {
      method: 'POST',
      user: 'bob',
      body: { message: 'x' },
    });
    assert.equal(small.status, 201);
    for (const upload of uploads) upload.destroy();
    await eventually(
      async () => (await gauge('vitrine_request_bodies_bytes')) === 0,
      'the end of the bodies',
    );
  });

  test('a DELETE with a large body works while other bodies use the budget, because its body is not kept', async () => {
    const uploads = Array.from({ length: 5 }, () => start());
    const upload = requestText('POST', '/api/note/', { ...headers, 'content-length': String(MAX_BODY) });
    for (const { send } of uploads) send(upload + 'x'.repeat(MAX_BODY - 1));
    const refused = await Promise.race(uploads.map(({ next }) => next()));
    assert.equal(refused?.status, 429);
    const [row] = await service.sql`insert into note (message) values ('to delete') returning id`;
    const answer = await service.request(`/api/note/${row?.['id']}/`, {
      method: 'DELETE',
      user: 'bob',
      body: 'x'.repeat(MAX_BODY),
    });
    assert.equal(answer.status, 200, answer.text);
    for (const { destroy } of uploads) destroy();
    await eventually(
      async () => (await gauge('vitrine_request_bodies_bytes')) === 0,
      'the end of the bodies',
    );
  });

  test('the answers to writes that start at once take little more than the budget', async () => {
    const size = 8 * 1024 * 1024;
    await service.sql`insert into note (message) select repeat('x', ${size}) from generate_series(1, 1)`;
    const [row] = await service.sql`select max(id) as id from note`;
    const put = requestText(
      'PATCH',
      `/api/note/${row?.['id']}/`,
      { ...headers, 'content-length': '2' },
      '{}',
    );
    const connections = Array.from({ length: 30 }, () => start('127.0.0.80'));
    for (const { socket, send } of connections) {
      socket.pause();
      send(put);
    }
    await sleep(2_000);
    for (const { socket } of connections) socket.resume();
    const answers = await Promise.all(connections.map(({ next }) => next()));
    const complete = answers.filter((answer) => answer?.status === 200).length;
    assert.ok(complete >= 1 && complete <= 16, `${complete} of 30 answers`);
    for (const { destroy } of connections) destroy();
    await service.sql`delete from note where id = ${row?.['id'] ?? 0}`;
  });

  test('a write is answered even if its client leaves large answers unread', async () => {
    for (let times = 0; times < 3; times += 1) {
      const { status } = await service.request('/api/note/', {
        method: 'POST',
        user: 'bob',
        body: { message: `large${'x'.repeat(11_050_000)}` },
      });
      assert.equal(status, 201);
    }
    const reader = start();
    reader.socket.pause();
    reader.send(requestText('GET', '/api/note/?message__like=large%25', headers));
    await eventually(async () => (await gauge('vitrine_unsent_answers_bytes')) > 33_000_000, 'the page');
    const refused = await service.request('/api/note/?message__like=large%25&limit=1');
    assert.equal(refused.status, 503, 'the client may not leave more unread');
    const made = await service.request('/api/note/', {
      method: 'POST',
      user: 'bob',
      body: { message: 'y'.repeat(600_000) },
    });
    assert.equal(made.status, 201);
    reader.destroy();
  });

  for (const [method, path] of [
    ['POST', '/api/note/'],
    ['DELETE', '/api/note/1/'],
  ] as const)
    test(`a ${method} with a body of thousands of 1-byte chunks is 400`, async () => {
      const connection = start();
      connection.send(requestText(method, path, { ...headers, 'transfer-encoding': 'chunked' }));
      connection.send('1\r\n \r\n'.repeat(10_000));
      assert.equal((await connection.next())?.status, 400);
      assert.equal(await connection.rest(), '');
    });
});

test('a client that reads nothing is disconnected, and a client that reads enough gets everything', async () => {
  const unsent = createUnsent(1);
  const size = 64 * 1024 * 1024;
  const http = createServer((request, response) => {
    const slow = { bytesPerSecond: size, seconds: 1, maxCreditSeconds: 60 };
    const lenient = { bytesPerSecond: 1024, seconds: 30, maxCreditSeconds: 60 };
    response.end(Buffer.alloc(size, 'x'));
    unsent.watch(response, request.url === '/slow' ? slow : lenient, { network: 'one' }, size);
  });
  const server = await listen(http, '127.0.0.1', 0);
  try {
    const stalled = wire({ base: server.url });
    stalled.socket.pause();
    stalled.send(requestText('GET', '/slow'));
    const reading = await fetch(`${server.url}/`);
    assert.equal((await reading.arrayBuffer()).byteLength, size);
    await eventually(() => unsent.bytes() === 0, 'the end of the stalled answer');
    stalled.socket.resume();
    assert.ok((await stalled.rest()).length < size);
  } finally {
    unsent.close();
    await server.close();
  }
});

test('a full budget for unread answers refuses all but small ones, and ends connections that have stalled', async () => {
  const unsent = createUnsent(1);
  const size = 64 * 1024 * 1024;
  const lenient = { bytesPerSecond: 1, seconds: 3_600, maxCreditSeconds: 3_600 };
  const http = createServer((_, response) => {
    response.end(Buffer.alloc(size, 'x'));
    unsent.watch(response, lenient, { network: 'one' }, size);
  });
  const server = await listen(http, '127.0.0.1', 0);
  try {
    const stalled = wire({ base: server.url });
    stalled.socket.pause();
    stalled.send(requestText('GET', '/'));
    await eventually(() => unsent.bytes() === size, 'the answer');
    const other = { network: 'two' };
    assert.equal(unsent.fits(other, 200_000), false);
    assert.equal(unsent.fits(other, 10_000), true);
    await eventually(() => unsent.bytes() === 0, 'the end of the connection');
    assert.equal(unsent.fits(other, 200_000), true);
    stalled.destroy();
  } finally {
    unsent.close();
    await server.close();
  }
});

for (const [name, networkOf] of [
  ['many IPv4 addresses', (index) => `203.0.113.${index}`],
  ['many /64 networks of one /48', (index) => `2001:db8:0:${index}::/64`],
] as const satisfies readonly (readonly [string, (index: number) => string])[])
  test(`answers to writes of ${name} take little more than the budget, and the latest one is sent`, async () => {
    const unsent = createUnsent(1);
    const size = 16 * 1024 * 1024;
    const lenient = { bytesPerSecond: 1, seconds: 3_600, maxCreditSeconds: 3_600 };
    const http = createServer(({ url = '' }, response) => {
      response.end(Buffer.alloc(size, 'x'));
      unsent.watch(response, lenient, { network: networkOf(Number(url.slice(1))) }, size);
    });
    const server = await listen(http, '127.0.0.1', 0);
    const connections: Wire[] = [];
    try {
      for (let index = 0; index < 9; index += 1) {
        const connection = wire({ base: server.url });
        connections.push(connection);
        connection.socket.pause();
        connection.send(requestText('GET', `/${index}`));
        await once(http, 'request');
      }
      assert.ok(unsent.bytes() <= 64 * 1024 * 1024, `${unsent.bytes()} bytes`);
      const latest = connections.at(-1);
      latest?.socket.resume();
      assert.equal((await latest?.next())?.body.length, size);
    } finally {
      for (const connection of connections) connection.destroy();
      unsent.close();
      await server.close();
    }
  });
