import assert from 'node:assert/strict';
import { createVitrine, type Vitrine } from '../../src/index.ts';
import { createHttpServer, listen, type RunningServer } from '../../src/http/server/http-server.ts';
import { note, user } from '../../src/resources/registry.ts';
import { basic, cheapHash, createDatabase, startService, type TestDatabase } from '../support.ts';
import { eventually } from './expect.ts';
import { requestText, wire, type Wire, type WireAnswer } from './wire.ts';
import { after, before, describe, test } from 'node:test';

function assertTimeout(answer: WireAnswer | undefined): void {
  assert.equal(answer?.status, 408);
  assert.equal(answer.headers['content-type'], 'application/problem+json');
  assert.equal(answer.headers['connection'], 'close');
  assert.equal(JSON.parse(answer.body).status, 408);
}

/** Sends a few bytes at intervals, so that the connection is never idle. */
function drip({ send, socket }: Wire, bytes: string, every: number): void {
  const timer = setInterval(() => send(bytes), every);
  socket.on('close', () => clearInterval(timer));
}

// Concurrent, because these tests mostly wait for timeouts.
describe('slow clients', { concurrency: 8 }, () => {
  test('clients that never finish their headers get 408 and are disconnected, and do not block others', async () => {
    const service = await startService([user, note]);
    try {
      const silent = wire(service);
      const halting = wire(service);
      halting.send('GET /api/note/ HTTP/1.1\r\nHost: localhost\r\n');
      const dripping = wire(service);
      dripping.send('GET /api/note/ HTTP/1.1\r\nHost: localhost\r\n');
      drip(dripping, 'X-More: x\r\n', 1_000);
      const second = wire(service);
      second.send(`${requestText('GET', '/healthz')}GET /api/note/ HT`);
      assert.equal((await second.next())?.status, 200);
      const many = Array.from({ length: 50 }, () => wire(service));
      for (const each of many) each.send('POST /api/note/ HTTP/1.1\r\nHo');
      assert.equal((await service.request('/api/note/')).status, 200);
      const all = [silent, halting, dripping, second, ...many];
      const answers = await Promise.all(all.map((each) => each.next()));
      for (const answer of answers) assertTimeout(answer);
      for (const each of all) assert.equal(await each.rest(), '');
      assert.equal((await service.request('/healthz')).status, 200);
      assert.deepEqual(
        service.lines.filter(({ level }) => level === 'error'),
        [],
      );
    } finally {
      await service.close();
    }
  });

  describe('a body that stalls', () => {
    let database: TestDatabase;
    let vitrine: Vitrine;
    let server: RunningServer;
    let lines = '';
    before(async () => {
      database = await createDatabase();
      vitrine = await createVitrine({
        databaseUrl: database.url,
        resources: [user, note],
        log: (text) => (lines += text),
      });
      const row = { username: 'bob', password: await cheapHash('pw-bob'), email: '' };
      await database.sql`insert into "user" ${database.sql(row)}`;
      const http = createHttpServer(vitrine.handler);
      assert.deepEqual([http.headersTimeout, http.requestTimeout], [10_000, 30_000]);
      // The same server with shorter timeouts, because 30 s is long for a test.
      http.headersTimeout = 1_000;
      http.requestTimeout = 2_000;
      server = await listen(http, '127.0.0.1', 0);
    });
    after(async () => {
      await server.close();
      await vitrine.close();
      await database.drop();
    });

    test('is 408, also when single bytes arrive, and creates no record', async () => {
      const to = { base: server.url };
      const headers = { authorization: basic('bob'), 'content-type': 'application/json' };
      const stalling = wire(to);
      stalling.send(
        requestText('POST', '/api/note/', { ...headers, 'content-length': '100' }, '{"message":'),
      );
      const dripping = wire(to);
      dripping.send(
        requestText('POST', '/api/note/', { ...headers, 'content-length': '100' }, '{"message":'),
      );
      drip(dripping, ' ', 200);
      const chunked = wire(to);
      chunked.send(
        requestText('POST', '/api/note/', { ...headers, 'transfer-encoding': 'chunked' }, '5\r\n{'),
      );
      for (const each of [stalling, dripping, chunked]) {
        assertTimeout(await each.next());
        assert.equal(await each.rest(), '');
      }
      await eventually(() => lines.match(/"method":"POST"/g)?.length === 3, 'a line for each');
      assert.doesNotMatch(lines, /"level":"error"/);
      assert.equal((await database.sql`select from note`).length, 0);
    });
  });
});
