// The statements of one client delay no other client, and end when the client leaves.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { after, before, describe, test } from 'node:test';
import type { Resource } from '../../src/index.ts';
import { note, user } from '../../src/resources/registry.ts';
import { assertProblem, eventually } from '../http/expect.ts';
import {
  type Answer,
  basic,
  closedAfter,
  pluck,
  startService,
  type TestService,
  useService,
  waitingForLocks,
} from '../support.ts';
import { withPolicies } from './policies.ts';

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
  const waiting = (own = service): Promise<number> => waitingForLocks(own);

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
    assert.deepEqual(pluck(await answers, 'status'), [200, 200]);
    assert.equal((await other).status, 200);
  });

  test('a client with blocked queries delays neither the queries nor the writes of others', async (t) => {
    const own = closedAfter(t, await startService(resources, { trustProxy: 1, slowTimeout: 1 }));
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
      assert.deepEqual(pluck(answers, 'status'), [200, 200, 201]);
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

  test('an anonymous query is canceled after SLOW_TIMEOUT, and a query of a user is not', async (t) => {
    const own = closedAfter(t, await startService(resources, { slowTimeout: 1 }));
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

// Large writes that take long.

const page: Resource = { model: 'page', columns: { text: { type: 'text' } }, access: 'user' };

/** Each page takes 1.3 s. The columns `begun` and `ended` record when. */
const SLOW = `
  alter table page add begun timestamptz, add ended timestamptz;
  create function take_long() returns trigger language plpgsql as $$ begin
    new.begun = clock_timestamp();
    while clock_timestamp() < new.begun + interval '1.3 s' loop end loop;
    new.ended = clock_timestamp();
    return new;
  end $$;
  create trigger long before insert on page for each row execute function take_long()`;

describe('large writes of one client that take long, while others are present', () => {
  let service: TestService;
  let isOver = false;
  let present: Promise<void>;
  before(async () => {
    service = await startService([user, page]);
    await service.sql.unsafe(SLOW).simple();
    await service.addUser('ada');
    present = (async () => {
      while (!isOver) await service.request('/api/page/?limit=1');
    })();
  });
  after(async () => {
    isOver = true;
    await present;
    await service.close();
  });

  /** Sends two writes at once. @returns how many of them overlap */
  async function overlaps(): Promise<number> {
    await service.sql`truncate page`;
    const body = { text: 'x'.repeat(20_000) };
    const send = (): ReturnType<TestService['request']> =>
      service.request('/api/page/', { method: 'POST', user: 'ada', body });
    for (const { status } of await Promise.all([send(), send()])) assert.equal(status, 201);
    const found = await service.sql`
      select from page a join page b on a.id < b.id and a.begun < b.ended and b.begun < a.ended`;
    return found.length;
  }

  test('run one after the other', async () => {
    assert.equal(await overlaps(), 0);
  });
});

describe('a crowd that comes back after the seconds of Retry-After', () => {
  const SLOW =
    'create function slow() returns trigger language plpgsql as $$ begin perform pg_sleep(0.1); return new; end $$';
  const service: TestService = useService(resources, { trustProxy: 1 }, async () => {
    await service.addUser('bob');
    await service.sql.unsafe(
      `${SLOW}; create trigger slow before insert on note for each row execute function slow()`,
    );
    await service.sql.unsafe(`create function matches(text, text) returns boolean language plpgsql as $$
      begin perform pg_sleep(0.1); return true; end $$;
      alter table busy rename to slow;
      create view busy as select id, name from slow where matches(name, current_query())`);
    await service.sql`insert into slow (name) values ('x')`;
  });

  /** What each client of a crowd sends: more than is served while a statement may wait. */
  const CROWDS: readonly (readonly [who: string, count: number, send: (index: number) => Promise<Answer>])[] =
    [
      [
        'of one user',
        400,
        (index) =>
          service.request('/api/note/', { method: 'POST', user: 'bob', body: { message: `${index}` } }),
      ],
      [
        'of many addresses',
        400,
        (index) =>
          service.request(`/api/busy/?name=x&id__lt=${1000 + index}`, {
            headers: { 'X-Forwarded-For': `10.3.${index >> 8}.${index & 255}` },
          }),
      ],
    ];

  for (const [who, count, send] of CROWDS)
    test(`${who}: each is refused twice at most`, async () => {
      const refusals = await Promise.all(
        Array.from({ length: count }, async (_, index) => {
          for (let refused = 0; ; refused += 1) {
            const { status, headers, text } = await send(index);
            if (status < 300) return refused;
            assert.match(`${status}`, /^(429|503)$/, text);
            await sleep(Number(headers.get('retry-after')) * 1000);
          }
        }),
      );
      assert.ok(refusals.some(Boolean), 'some are refused');
      assert.deepEqual(
        refusals.filter((one) => one > 2),
        [],
      );
    });
});

test('a record whose policy takes long does not delay the reads of others', () =>
  withPolicies(
    `insert into guarded (name) select 'x' from generate_series(1, 20);
     create function takes_long(id integer) returns boolean language plpgsql as $$ begin
       if id = 1 then perform pg_sleep(2); end if;
       return true;
     end $$;
     create policy slow on guarded using (takes_long(id))`,
    async ({ send }) => {
      const path = (id: number): string => `/api/guarded/${id}/`;
      assert.equal((await send('GET', path(2))).status, 200);
      let isAnswered = false;
      const slow = [send('GET', path(3)), send('GET', path(1))];
      void slow[1]?.then(() => (isAnswered = true));
      const others = Array.from({ length: 17 }, (_, index) => send('GET', path(index + 4)));
      for (const { status } of await Promise.all(others)) assert.equal(status, 200);
      assert.equal(isAnswered, false);
      for (const { status } of await Promise.all(slow)) assert.equal(status, 200);
    },
  ));
