import assert from 'node:assert/strict';
import { setTimeout as sleep } from 'node:timers/promises';
import { after, before, describe, test } from 'node:test';
import { note, user } from '../../src/resources/registry.ts';
import {
  basic,
  cheapHash,
  closedAfter,
  createDatabase,
  startService,
  type TestDatabase,
  type TestService,
  useService,
} from '../support.ts';
import { requestText, wire, type Wire, type WireAnswer, useWires } from './wire.ts';
import { createVitrine, type Vitrine } from '../../src/index.ts';
import { createHttpServer, listen, type RunningServer } from '../../src/http/server/http-server.ts';
import { eventually } from './expect.ts';

const READ = requestText('GET', '/api/note/');
const JSON_OF_BOB = { authorization: basic('bob'), 'content-type': 'application/json' };
const PACKET = Buffer.alloc(65_536, '0');
/** More than the operating system holds for both ends of a connection. */
const FLOOD = 64 * 1024 * 1024;

describe('bytes behind a request that waits', () => {
  const open = useWires(() => service);
  const service: TestService = useService([user, note], {}, async () => {
    await service.addUser('bob');
    await service.sql`insert into note (message) select repeat('x', 2000) from generate_series(1, 20000)`;
  });
  let addresses = 0;
  /** Connects as a new client, because one whose reads waited for locks may have fewer of them waiting. */
  const newAddress = (): string => `127.0.1.${++addresses}`;
  const start = (address = newAddress()): Wire => open(address);
  async function whileLocked(table: string, work: () => Promise<void>): Promise<void> {
    await service.sql.begin(async (transaction) => {
      await transaction.unsafe(`lock table ${table} in access exclusive mode`);
      await work();
    });
  }

  /** Sends as much as is taken in half a second. @returns bytes, without the packet that waits for the connection */
  async function flood({ socket }: Wire, packet: Uint8Array): Promise<number> {
    let sent = 0;
    const more = (): void => {
      while (sent < FLOOD && socket.write(packet)) sent += packet.length;
    };
    socket.on('drain', more);
    more();
    await sleep(500);
    socket.off('drain', more);
    return sent;
  }

  const sized = requestText('POST', '/api/note/', { ...JSON_OF_BOB, 'content-length': String(10 * FLOOD) });
  const chunked = requestText('POST', '/api/note/', { ...JSON_OF_BOB, 'transfer-encoding': 'chunked' });
  const chunk = Buffer.concat([Buffer.from('10000\r\n'), PACKET, Buffer.from('\r\n')]);
  const floods = [
    ['the body of a pipelined request', 'note', READ + sized, PACKET],
    ['the chunked body of a pipelined request', 'note', READ + chunked, chunk],
    ['the chunked body of a request whose credentials are checked', '"user"', chunked, chunk],
    ['the input after a pipelined CONNECT', 'note', `${READ}${requestText('CONNECT', 'a:1')}`, PACKET],
  ] as const;
  for (const [name, table, text, packet] of floods) {
    test(`are not read without limit: ${name}`, () =>
      whileLocked(table, async () => {
        const connection = start();
        connection.send(text);
        await sleep(50);
        const sent = await flood(connection, packet);
        assert.ok(sent < FLOOD / 2, `${sent} bytes`);
        connection.destroy();
      }));
  }

  for (const length of [10_000, 20_000, 70_000, 900_000]) {
    for (const isChunked of [false, true]) {
      test(`are read when it is its turn: ${isChunked ? 'a chunked body' : 'a body'} of ${length} bytes`, async () => {
        const message = `${length}${isChunked}`.padEnd(length, 'y');
        const body = JSON.stringify({ message });
        const framed = isChunked
          ? chunked + `${Buffer.byteLength(body).toString(16)}\r\n${body}\r\n0\r\n\r\n`
          : requestText('POST', '/api/note/', JSON_OF_BOB, body);
        const connection = start();
        await whileLocked('note', async () => {
          connection.send(READ + framed + READ);
          await sleep(100);
        });
        assert.equal((await connection.next())?.status, 200);
        const created = await connection.next();
        assert.equal(created?.status, 201);
        assert.equal((JSON.parse(created.body) as { message: string }).message, message);
        assert.equal((await connection.next())?.status, 200);
      });
    }
  }

  test('delete nothing if they are the malformed body of a DELETE, which is 400', async () => {
    const [row] = await service.sql`insert into note (message) values ('kept') returning id`;
    const path = `/api/note/${row?.['id']}/`;
    const send = async (body: string): Promise<number | undefined> => {
      const connection = start();
      connection.send(
        requestText('DELETE', path, { authorization: basic('bob'), 'transfer-encoding': 'chunked' }),
      );
      await sleep(20);
      connection.send(body);
      return (await connection.next())?.status;
    };
    assert.equal(await send('zz\r\n'), 400);
    await sleep(200);
    assert.equal((await service.request(path)).status, 200);
    assert.equal(await send('2\r\n{}\r\n0\r\n\r\n'), 200);
    assert.equal((await service.request(path)).status, 404);
  });
});

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
  test('clients that never finish their headers get 408 and are disconnected, and do not block others', async (t) => {
    const service = closedAfter(t, await startService([user, note]));
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
