import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import { ByteBudget } from '../../src/http/load/byte-budget.ts';
import { createUnsent } from '../../src/http/load/unsent-responses.ts';
import { listen } from '../../src/http/server/http-server.ts';
import { note, user } from '../../src/resources/registry.ts';
import { basic, type TestService, useService } from '../support.ts';
import { eventually } from './expect.ts';
import { requestText, wire, type Wire, useWires } from './wire.ts';
import { describe, test } from 'node:test';

const MAX_BODY = 12 * 1024 * 1024;

describe('memory limits', () => {
  const start = useWires(() => service);
  const service: TestService = useService([user, note], { maxBody: MAX_BODY }, () => service.addUser('bob'));
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
    const refused = await service.request('/api/note/?message__like=large%25');
    assert.equal(refused.status, 503, 'the client may not leave more unread');
    const made = await service.request('/api/note/', {
      method: 'POST',
      user: 'bob',
      body: { message: 'y'.repeat(600_000) },
    });
    assert.equal(made.status, 201);
    reader.destroy();
  });

  for (const [method, path] of Object.entries({ POST: '/api/note/', DELETE: '/api/note/1/' }))
    test(`a ${method} with a body of thousands of 1-byte chunks is 400`, async () => {
      const connection = start();
      connection.send(requestText(method, path, { ...headers, 'transfer-encoding': 'chunked' }));
      connection.send('1\r\n \r\n'.repeat(10_000));
      assert.equal((await connection.next())?.status, 400);
      assert.equal(await connection.rest(), '');
    });
});

const SIZE = 64 * 1024 * 1024;

/** A server whose answers count as those of the client in the path. */
async function startUnsent(total: number) {
  const budget = new ByteBudget(total);
  const unsent = createUnsent(budget);
  const http = createServer(({ url = '' }, response) => {
    response.end(Buffer.alloc(SIZE, 'x'));
    unsent.watch(response, { network: url.slice(1) }, SIZE);
  });
  const server = await listen(http, '127.0.0.1', 0);
  const connections: Wire[] = [];
  /** Sends a request and does not read the answer. */
  async function stall(client: string): Promise<Wire> {
    const connection = wire({ base: server.url });
    connections.push(connection);
    connection.socket.on('error', () => undefined).pause();
    connection.send(requestText('GET', `/${client}`));
    await once(http, 'request');
    return connection;
  }
  const close = async (): Promise<void> => {
    for (const connection of connections) connection.destroy();
    unsent.close();
    await server.close();
  };
  return { unsent, stall, close };
}

test('a large answer gets the place of one whose client has stopped reading, after some seconds', async (t) => {
  const { unsent, stall, close } = await startUnsent(1.5 * SIZE);
  t.after(() => close());
  await stall('one');
  const other = { network: 'two' };
  assert.equal(unsent.hasRoom(other, SIZE), false);
  assert.equal(unsent.hasRoom(other, 10_000), true);
  await eventually(() => unsent.hasRoom(other, SIZE), 'the end of the connection');
  assert.equal(unsent.bytes(), 0);
});

test('answers to writes take no more than the budget: the oldest of the client with the most is ended', async (t) => {
  const { unsent, stall, close } = await startUnsent(4 * SIZE);
  t.after(() => close());
  const greedy = [await stall('one'), await stall('one'), await stall('one')];
  const other = await stall('two');
  await stall('one');
  assert.equal(unsent.bytes(), 4 * SIZE);
  greedy[0]?.socket.resume();
  assert.ok(((await greedy[0]?.rest()) ?? '').length < SIZE);
  other.socket.resume();
  assert.equal((await other.next())?.body.length, SIZE);
});
