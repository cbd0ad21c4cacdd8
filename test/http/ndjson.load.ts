// Whole collections as a stream of JSON lines.
import assert from 'node:assert/strict';
import { type IncomingMessage, request as httpRequest } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import { type Answer, useService, type TestService } from '../support.ts';
import { assertProblem, eventually, jsonLinesOf } from './expect.ts';
import { describe, test } from 'node:test';

const NDJSON = { accept: 'application/x-ndjson' };

describe('a long stream', () => {
  const service: TestService = useService(
    [{ model: 'text', columns: { content: { type: 'text' } } }],
    {
      trustProxy: 1,
    },
    () => service.sql`insert into text (content) select repeat('x', 1000) from generate_series(1, ${ROWS})`,
  );
  const ROWS = 40_000;

  /** The number of connections that read a stream. */
  const readers = async (): Promise<number> => {
    const [row] = await service.sql<{ count: number }[]>`
      select count(*)::int as count from pg_stat_activity
      where datname = current_database() and query ~ '^(fetch|declare) ' and pid <> pg_backend_pid()`;
    return row?.count ?? -1;
  };
  const noReaders = () => eventually(async () => (await readers()) === 0, 'the end of all cursors');

  let addresses = 0;
  /** A new client. On a slow machine, one that has read streams may have to pause. */
  const newAddress = (): string => `10.1.${(addresses += 1) >> 8}.${addresses & 255}`;
  const newAddresses = (count: number): string[] => Array.from({ length: count }, newAddress);
  const streamOf = (address: string, query = ''): Promise<Answer> =>
    service.request(`/api/text/${query}`, { headers: { ...NDJSON, 'X-Forwarded-For': address } });

  /** Starts a stream, and reads only its first part. */
  const begin = (address = newAddress()): Promise<{ response: IncomingMessage; stop: () => void }> =>
    new Promise((resolve, reject) => {
      const headers = { ...NDJSON, 'X-Forwarded-For': address };
      const client = httpRequest(`${service.base}/api/text/`, { headers }, (response) => {
        response.once('data', () => {
          response.pause();
          resolve({ response, stop: () => client.destroy() });
        });
        response.on('error', () => undefined);
      });
      client.on('error', reject).end();
    });

  test('is complete and in order', async () => {
    const { text } = await streamOf(newAddress(), '?ordering=-id');
    const ids = jsonLinesOf(text).map((line) => (line as { id: number }).id);
    assert.deepEqual(
      ids,
      Array.from({ length: ROWS }, (_, index) => ROWS - index),
    );
  });

  test('is read no faster than the client takes it, and its cursor closes when the client leaves', async () => {
    for (let round = 0; round < 5; round += 1) {
      const { stop } = await begin();
      assert.equal(await readers(), 1);
      stop();
      await noReaders();
    }
  });

  test('of a HEAD leaves no cursor open', async () => {
    for (let round = 0; round < 5; round += 1) {
      const { status, text } = await service.request('/api/text/', { method: 'HEAD', headers: NDJSON });
      assert.deepEqual([status, text], [200, '']);
      await noReaders();
    }
  });

  test('of a HEAD opens no cursor and takes no slot while others read streams', async () => {
    const clients = newAddresses(3);
    const streams = await Promise.all(clients.map(begin));
    try {
      assert.equal(await readers(), 3);
      for (const address of [clients[0] ?? '', newAddress()]) {
        const headers = { ...NDJSON, 'X-Forwarded-For': address };
        const path = '/api/text/?id=1';
        const { status, text } = await service.request(path, { method: 'HEAD', headers });
        assert.deepEqual([status, text], [200, '']);
      }
    } finally {
      for (const { stop } of streams) stop();
      await noReaders();
    }
  });

  test('has the same status and headers for HEAD as for GET', async () => {
    const shown = ({ status, headers }: Answer): unknown => [
      status,
      // The client decides about the connection after a HEAD.
      [...headers].filter(([name]) => !['date', 'connection', 'keep-alive'].includes(name)),
    ];
    for (const query of ['?id=1', '?limit=1', '?nope=1', '?id=x', '?ordering=nope']) {
      const [get, head] = await Promise.all(
        ['GET', 'HEAD'].map((method) =>
          service.request(`/api/text/${query}`, {
            method,
            headers: { ...NDJSON, 'X-Forwarded-For': '10.0.9.9' },
          }),
        ),
      );
      assert.ok(get && head);
      assert.deepEqual(shown(head), shown(get), query);
      assert.equal(head.text, '');
    }
  });

  test('is 429 for a client that reads two other streams, until one ends', async () => {
    const address = newAddress();
    const { stop: stopFirst } = await begin(address);
    const { stop } = await begin(address);
    const refused = await streamOf(address);
    assertProblem(refused, 429);
    assert.equal(refused.headers.get('retry-after'), '4');
    stop();
    await eventually(async () => (await streamOf(address, '?id=1')).status === 200, 'the next stream');
    stopFirst();
    await noReaders();
  });

  /** Reads a stream faster than a slow client would, and so that it lasts for some seconds. */
  const readSteadily = async ({ response }: { readonly response: IncomingMessage }): Promise<void> => {
    for await (const chunk of response) await sleep((chunk as Buffer).length / 2000);
  };

  test('is 503 when anonymous clients use all their slots, until one stream ends', async () => {
    const streams = await Promise.all(newAddresses(3).map(begin));
    const reads = streams.map((stream) => readSteadily(stream).catch(() => undefined));
    const headers = { ...NDJSON, 'X-Forwarded-For': newAddress() };
    const refused = await service.request('/api/text/', { headers });
    assertProblem(refused, 503);
    assert.equal(refused.headers.get('retry-after'), '4');
    assert.equal(
      (await service.request('/api/text/', { headers: { ...headers, Accept: '*/*' } })).status,
      200,
    );
    const waiting = service.request('/api/text/?id=1', { headers });
    for (const { stop } of streams) stop();
    assert.equal((await waiting).status, 200, 'a waiting client gets the free slot');
    await Promise.all(reads);
    await noReaders();
  });

  test('gives its slot to a waiting client when its own client takes little', async () => {
    const slow = await Promise.all(newAddresses(3).map(begin));
    assert.equal((await streamOf(newAddress(), '?id=1')).status, 200, 'though the streams began just before');
    await eventually(async () => (await readers()) < 3, 'the end of its cursor');
    const ended = slow.map(
      ({ response }) =>
        new Promise<boolean>((resolve) => response.on('close', () => resolve(response.complete))),
    );
    for (const { response } of slow) response.resume();
    const complete = (await Promise.all(ended)).filter(Boolean);
    assert.equal(complete.length, 2, 'the ended stream is incomplete');
    await noReaders();
  });

  test('is cut when the database connection breaks, so that it does not look complete', async () => {
    const { response } = await begin();
    await service.sql`
      select pg_terminate_backend(pid) from pg_stat_activity
      where datname = current_database() and query like 'fetch %' and pid <> pg_backend_pid()`;
    const ended = new Promise<boolean>((resolve) => response.on('close', () => resolve(response.complete)));
    response.resume();
    assert.equal(await ended, false);
    await eventually(() => service.lines.some(({ level }) => level === 'warn'), 'the line of the log');
    assert.deepEqual(
      service.lines.filter(({ level }) => level === 'error'),
      [],
    );
    assert.equal((await streamOf(newAddress(), '?id=1')).status, 200);
  });
});
