// The statements of one client delay no other client, and end when the client leaves.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Resource } from '../../src/index.ts';
import { note, user } from '../../src/resources/registry.ts';
import { assertProblem, eventually } from '../http/expect.ts';
import { basic, startService, useService, type Answer, type TestService } from '../support.ts';
import { describe, test } from 'node:test';

const columns = { name: { type: 'string' } } as const;
const resources: Resource[] = [
  user,
  note,
  { model: 'busy', columns },
  { model: 'crowded', columns },
  { model: 'guarded', columns, costly: 'user' },
  { model: 'member', columns, read: 'user' },
];

describe('statements of several clients', () => {
  const service: TestService = useService(resources, { trustProxy: 1 }, async () => {
    for (const name of ['bob', 'eve']) await service.addUser(name);
    for (const table of ['note (message)', 'busy (name)', 'guarded (name)', 'member (name)'])
      await service.sql.unsafe(`insert into ${table} select 'x' from generate_series(1, 30)`);
    await service.sql`insert into crowded (name) select 'x' from generate_series(1, 400000)`;
    await service.sql`analyze crowded`;
  });

  const from = (address: string, path: string): Promise<Answer> =>
    service.request(path, { headers: { 'X-Forwarded-For': address } });

  /** The number of statements of the service that wait for a lock. */
  const waiting = async ({ sql } = service): Promise<number> => {
    const rows = await sql`
      select from pg_stat_activity
      where datname = current_database() and application_name = 'vitrine' and wait_event_type = 'Lock'`;
    return rows.count;
  };

  /** Runs the work while every statement on a table waits. */
  async function whileLocked<T>(table: string, work: () => Promise<T>, { sql } = service): Promise<T> {
    return sql.begin(async (own) => {
      await own.unsafe(`lock table ${table} in access exclusive mode`);
      return work();
    }) as Promise<T>;
  }

  /** Sends a request on a new connection, and reads nothing. */
  function send(path: string, address = '10.9.9.9'): Socket {
    const { hostname, port } = new URL(service.base);
    const socket = connect(Number(port), hostname);
    socket.on('error', () => undefined);
    socket.write(`GET ${path} HTTP/1.1\r\nHost: x\r\nX-Forwarded-For: ${address}\r\n\r\n`);
    return socket;
  }

  test('two long queries of a user and one of another user are all answered', async () => {
    const find = (name: string, as: string): Promise<Answer> =>
      service.request(`/api/member/?name=${name}`, { user: as });
    assert.equal((await find('x', 'bob')).status, 200);
    const { answers, other } = await whileLocked('member', async () => {
      const both = Promise.all([find('one', 'bob'), find('two', 'bob')]);
      await sleep(2_500); // longer than a statement may wait
      const late = find('three', 'eve');
      await sleep(600);
      return { answers: both, other: late };
    });
    assert.deepEqual(
      (await answers).map(({ status }) => status),
      [200, 200],
    );
    assert.equal((await other).status, 200);
  });

  test('a client with blocked queries delays neither the queries nor the writes of others', async () => {
    const own = await startService(resources, { trustProxy: 1, slowTimeout: 1 });
    try {
      await own.addUser('bob');
      await own.sql`insert into note (message) values ('x')`;
      const ask = (address: string, path: string): Promise<Answer> =>
        own.request(path, { headers: { 'X-Forwarded-For': address } });
      await ask('10.0.0.1', '/api/busy/?name=x');
      const work = async (): Promise<Answer[]> => {
        const all = Array.from({ length: 30 }, (_, index) => ask('10.0.0.1', `/api/busy/?name=${index}`));
        await eventually(async () => (await waiting(own)) > 0, 'statements that wait for the lock');
        const answers = await Promise.all([
          ask('10.0.0.2', '/api/note/?message=x'),
          ask('10.0.0.2', '/api/note/1/'),
          own.request('/api/note/', { method: 'POST', user: 'bob', body: { message: 'written' } }),
        ]);
        assert.deepEqual(
          answers.map(({ status }) => status),
          [200, 200, 201],
        );
        return Promise.all(all);
      };
      const blocked = await whileLocked('busy', work, own);
      // Some ran until their timeout, and the others were refused.
      const statuses = blocked.map(({ status }) => status);
      assert.ok(
        statuses.every((status) => status === 503 || status === 429),
        String(statuses),
      );
      assert.ok(statuses.includes(429), '429 shows that the queries of the client are the reason');
      for (const { headers } of blocked) assert.match(headers.get('retry-after') ?? '', /^[1-9]/);
    } finally {
      await own.close();
    }
  });

  test('a statement ends in PostgreSQL when its client closes the connection', async () => {
    await whileLocked('busy', async () => {
      for (const operator of ['like', 'ilike', 'gt']) {
        const sockets = [1, 2, 3, 4].map(() => send(`/api/busy/?name__${operator}=y`));
        await Promise.all(sockets.map((socket) => once(socket, 'connect'))); // or nothing would be sent
        await eventually(async () => (await waiting()) >= 1, 'the statements of the client');
        for (const socket of sockets) socket.destroy();
        // Long before any timeout, and without another statement that uses a free connection.
        await eventually(async () => (await waiting()) === 0, 'the end of the statements');
      }
      assert.equal((await from('10.9.9.9', '/api/note/?message=x')).status, 200);
    });
    await eventually(
      () => service.lines.filter(({ status }) => status === 499).length >= 12,
      'the lines of the log',
    );
  });

  test('an anonymous query is canceled after SLOW_TIMEOUT, and a query of a user is not', async () => {
    const own = await startService(resources, { slowTimeout: 1 });
    try {
      await own.addUser('bob');
      const anonymous = await whileLocked('note', () => own.request('/api/note/?message=x'), own);
      assertProblem(anonymous, 503);
      const work = async (): Promise<{ response: Promise<Answer> }> => {
        const response = own.request('/api/member/?name=x', { user: 'bob' });
        let early: string | undefined;
        void response.then(({ status, text }) => (early = `${status} ${text}`));
        await eventually(async () => (await waiting(own)) === 1, 'the statement');
        await sleep(1_500);
        assert.equal(early, undefined);
        return { response };
      };
      const known = await whileLocked('member', work, own);
      assert.equal((await known.response).status, 200);
    } finally {
      await own.close();
    }
  });

  /** Asks while the table is locked, so that the query takes long. */
  async function whileSlow(
    ask: () => Promise<Answer>,
    asUser: () => Promise<Answer>,
  ): Promise<readonly [refused: Answer, slow: Answer]> {
    const { refused, slow } = await whileLocked('guarded', async () => {
      const running = asUser();
      return { refused: await ask(), slow: running };
    });
    return [refused, await slow];
  }

  test('a query that takes long needs the level of costly', async () => {
    const path = '/api/guarded/?name=x';
    const [refused, slow] = await whileSlow(
      () => from('10.0.0.4', path),
      () => service.request(path, { user: 'bob' }),
    );
    assert.equal(refused.status, 401);
    assert.equal(refused.text, 'Authentication failed');
    assert.equal(slow.status, 200);
    assert.equal((await from('10.0.0.4', path)).status, 200, 'the same query when it is short');
    const headers = { authorization: basic('bob', 'wrong') };
    const stream = { Accept: 'application/x-ndjson' };
    assert.equal((await service.request('/api/guarded/', { headers: stream })).status, 401);
    assert.equal(
      (await service.request('/api/guarded/', { headers: { ...headers, ...stream } })).status,
      401,
    );
    assert.equal((await service.request('/api/guarded/', { headers: stream, user: 'bob' })).status, 200);
  });

  test('a browser asks for a login before it shows a query that takes long', async () => {
    const ask = (address: string, user?: string): Promise<Answer> =>
      service.request('/api/guarded/?name=x', {
        headers: { Accept: 'text/html', 'X-Forwarded-For': address },
        ...(user && { user }),
      });
    const [refused, slow] = await whileSlow(
      () => ask('10.0.0.5'),
      () => ask('10.0.0.5', 'bob'),
    );
    assert.deepEqual([refused.status, refused.headers.has('www-authenticate')], [401, true], refused.text);
    assert.equal(slow.status, 200);
  });
});
