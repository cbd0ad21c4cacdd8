// One client's statements delay no other client, and end when the client leaves.
import assert from 'node:assert/strict';
import fc from 'fast-check';
import { connect, type Socket } from 'node:net';
import { after, before, describe, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { AlternatingQueue } from '../../src/db/scheduling/alternating-queue.ts';
import { FairQueue } from '../../src/db/scheduling/fair-queue.ts';
import { TimeQueue } from '../../src/db/scheduling/time-queue.ts';
import { SERVICE, type Requester } from '../../src/db/scheduling/requester.ts';
import type { RunningStatement } from '../../src/db/scheduling/running-statements.ts';
import { Scheduler } from '../../src/db/scheduling/scheduler.ts';
import { newShape, Shapes } from '../../src/db/statement-shapes.ts';
import type { Resource } from '../../src/index.ts';
import { note, user } from '../../src/resources/registry.ts';
import { assertProblem, eventually } from '../http/expect.ts';
import { basic, startService, type Answer, type TestService } from '../support.ts';

const columns = { name: { type: 'string' } } as const;
const resources: Resource[] = [
  user,
  note,
  { model: 'busy', columns },
  { model: 'crowded', columns },
  { model: 'guarded', columns, costly: 'user' },
  { model: 'member', columns, read: 'user' },
];

describe('the scheduler', () => {
  const client = (key: string): Requester => ({
    key,
    origin: 'user',
    onGone: () => () => undefined,
    park: () => undefined,
  });

  test('starts a statement at once while only clients wait that have all they may have', async () => {
    const scheduler = new Scheduler();
    const ends: (() => void)[] = [];
    const last = (): Promise<void> => new Promise((resolve) => ends.push(resolve));
    const own = Array.from({ length: 6 }, () => scheduler.run('write', client('ada'), last));
    await sleep(0);
    assert.equal(scheduler.state.write.waiting, 2);
    const begun = performance.now();
    await scheduler.run('write', client('bob'), () => Promise.resolve());
    assert.ok(performance.now() - begun < 1_000);
    assert.equal(scheduler.state.write.waiting, 2);
    for (let ended = 0; ended < own.length; await sleep(0)) {
      const end = ends.shift();
      end?.();
      if (end) ended += 1;
    }
    await Promise.all(own);
    scheduler.close();
  });
});

describe('slow statements of strangers', () => {
  const stranger = (key: string): Requester => ({
    key,
    origin: 'anonymous',
    onGone: () => () => undefined,
    park: () => undefined,
  });
  /** Keeps the process busy. */
  const work = (): Promise<void> => {
    for (const until = performance.now() + 60; performance.now() < until;);
    return Promise.resolve();
  };

  test('are followed by a rest while the process is busy, in which others have their turn', async () => {
    const scheduler = new Scheduler();
    const alive = setInterval(() => undefined, 100); // the scheduler's own timers keep no process alive
    await scheduler.run('slow', stranger('mallory'), work);
    const order: string[] = [];
    const note = (name: string) => () => {
      order.push(name);
      return Promise.resolve();
    };
    const again = scheduler.run('slow', stranger('mallory'), note('mallory'));
    assert.equal(scheduler.state.slow.waiting, 1);
    await scheduler.run('slow', stranger('alice'), note('alice'));
    await scheduler.run('read', stranger('mallory'), note('cheap'));
    await again;
    assert.deepEqual(order, ['alice', 'cheap', 'mallory']);
    clearInterval(alive);
    scheduler.close();
  });

  test('delay the next attempt of their client, even if its last attempt was fast', async () => {
    const scheduler = new Scheduler();
    const alive = setInterval(() => undefined, 100);
    const shape = { ...newShape('select'), cost: 1_000, isProven: true, quickAt: performance.now() };
    const fast = await scheduler.enter('attempt', stranger('mallory'), shape);
    assert.ok(fast);
    scheduler.leave(fast, true);
    await scheduler.run('slow', stranger('mallory'), work);
    const next = scheduler.enter('attempt', stranger('mallory'), shape);
    assert.equal(scheduler.state.attempt.waiting, 1);
    const running = await next;
    assert.ok(running);
    scheduler.leave(running);
    clearInterval(alive);
    scheduler.close();
  });
});

test('a stranger whose query took longer than known runs one at a time from then on, others do not', async () => {
  const scheduler = new Scheduler();
  const shape = { ...newShape('select'), cost: 1, isProven: true };
  const stranger: Requester = { ...SERVICE, key: 'mallory', origin: 'anonymous' };
  const slow = await scheduler.enter('read', stranger, shape);
  assert.ok(slow);
  await sleep(1_100);
  scheduler.leave(slow);
  const running = async (requester: Requester): Promise<number> => {
    const ends: (() => void)[] = [];
    const work = (): Promise<void> => new Promise((resolve) => ends.push(resolve));
    const all = [1, 2, 3].map(() => scheduler.run('read', requester, work));
    await eventually(() => ends.length > 0, 'the first one');
    const count = scheduler.state.read.running;
    for (; ends.length < all.length; await sleep(1)) ends.forEach((end) => end());
    ends.forEach((end) => end());
    await Promise.all(all);
    return count;
  };
  assert.equal(await running(stranger), 1);
  assert.equal(await running({ ...stranger, key: 'alice' }), 3);
  scheduler.close();
});

test('of brief reads that turn out to be slow only four go on, and the others wait for their turn', async () => {
  const scheduler = new Scheduler();
  const shape = { ...newShape('select'), cost: 1, isProven: true };
  const all: RunningStatement[] = [];
  let preempted = 0;
  for (let index = 0; index < 7; index += 1) {
    const running = await scheduler.enter(
      'brief',
      { ...SERVICE, key: `mallory ${index}`, origin: 'anonymous' },
      shape,
    );
    assert.ok(running);
    running.preempt = () => (preempted += 1);
    all.push(running);
  }
  await eventually(() => scheduler.state.slow.running === 4, 'the slow ones');
  assert.equal(preempted, 3);
  for (const running of all) scheduler.leave(running);
  const { slow, brief } = scheduler.state;
  assert.deepEqual([slow.running, brief.running], [0, 0]);
  scheduler.close();
});

test('what others have made costly is tried for a moment, in which it may be brief', async () => {
  const scheduler = new Scheduler();
  const shape = { ...newShape('select'), cost: 1_000, isProven: true };
  const stranger = (key: string): Requester => ({ ...SERVICE, key, origin: 'anonymous' });
  assert.equal(scheduler.classOf(shape, stranger('alice')), 'slow', 'it was never brief');
  shape.quickAt = performance.now();
  assert.equal(scheduler.classOf(shape, stranger('alice')), 'attempt');
  for (const isOver of [true, false]) {
    const running = await scheduler.enter('attempt', stranger('mallory'), shape);
    assert.ok(running);
    let isEnded = false;
    running.preempt = () => (isEnded = true);
    if (isOver) await sleep(20);
    else await eventually(() => isEnded, 'the end of the attempt');
    assert.equal(isEnded, !isOver);
    scheduler.leave(running);
  }
  assert.equal(scheduler.classOf(shape, stranger('mallory')), 'slow', 'its attempt was not brief');
  assert.equal(scheduler.classOf(shape, stranger('alice')), 'attempt');
  assert.equal(scheduler.state.attempt.running, 0);
  scheduler.close();
});

test('a client with brief reads does not wait behind all those with long ones', async () => {
  const scheduler = new Scheduler();
  let begun = 0;
  let isOver = false;
  const read = (key: string, milliseconds: number): Promise<void> =>
    scheduler.run('read', { ...SERVICE, key, origin: 'anonymous' }, () => {
      begun += 1;
      return sleep(milliseconds);
    });
  const others = Array.from({ length: 20 }, async (_, index) => {
    while (!isOver) await read(`other ${index}`, 10);
  });
  await sleep(200);
  begun = 0;
  for (let times = 0; times < 10; times += 1) await read('brief', 0);
  // In turns each of its reads would wait for those of all twenty.
  assert.ok(begun < 10 * 12, `${begun} reads of others began meanwhile`);
  isOver = true;
  await Promise.all(others);
  scheduler.close();
});

test('what was canceled does not make a shape look cheaper than it is', () => {
  const shapes = new Shapes();
  const shape = shapes.use('select');
  shapes.measure(shape, 1_000, true);
  for (let time = 0; time < 50; time += 1) shapes.measure(shape, 30, false);
  assert.equal(shape.cost, 1_000);
});

describe('statements of several clients', () => {
  let service: TestService;
  before(async () => {
    service = await startService(resources, { trustProxy: 1, slowTimeout: 1 });
    await service.addUser('bob');
    for (const table of ['note (message)', 'busy (name)', 'guarded (name)', 'member (name)'])
      await service.sql.unsafe(`insert into ${table} select 'x' from generate_series(1, 30)`);
    await service.sql`insert into crowded (name) select 'x' from generate_series(1, 400000)`;
    await service.sql`analyze crowded`;
  });
  after(() => service.close());

  const from = (address: string, path: string): Promise<Answer> =>
    service.request(path, { headers: { 'X-Forwarded-For': address } });

  /** How many statements of the service wait for a lock. */
  const waiting = async (): Promise<number> => {
    const rows = await service.sql`
      select from pg_stat_activity
      where datname = current_database() and application_name = 'vitrine' and wait_event_type = 'Lock'`;
    return rows.count;
  };

  /** Does something while every statement on a table waits. */
  async function whileLocked<T>(table: string, work: () => Promise<T>): Promise<T> {
    return service.sql.begin(async (own) => {
      await own.unsafe(`lock table ${table} in access exclusive mode`);
      return work();
    }) as Promise<T>;
  }

  /** Sends a request on a connection of its own, and reads nothing. */
  function send(path: string, address = '10.9.9.9'): Socket {
    const { hostname, port } = new URL(service.base);
    const socket = connect(Number(port), hostname);
    socket.on('error', () => undefined);
    socket.write(`GET ${path} HTTP/1.1\r\nHost: x\r\nX-Forwarded-For: ${address}\r\n\r\n`);
    return socket;
  }

  test('a client whose queries all wait delays neither the queries nor the writes of others', async () => {
    await from('10.0.0.1', '/api/busy/?name=x');
    const stuck = await whileLocked('busy', async () => {
      const all = Array.from({ length: 14 }, (_, index) => from('10.0.0.1', `/api/busy/?name=${index}`));
      await eventually(async () => (await waiting()) > 0, 'statements that wait for the lock');
      const answers = await Promise.all([
        from('10.0.0.2', '/api/note/?message=x'),
        from('10.0.0.2', '/api/note/1/'),
        service.request('/api/note/', { method: 'POST', user: 'bob', body: { message: 'written' } }),
      ]);
      assert.deepEqual(
        answers.map(({ status }) => status),
        [200, 200, 201],
      );
      return Promise.all(all);
    });
    // These ran until their timeout, the others were not let in.
    const statuses = stuck.map(({ status }) => status);
    assert.ok(
      statuses.every((status) => status === 503 || status === 429),
      String(statuses),
    );
    assert.ok(statuses.includes(429), 'the client is told that its own queries are the reason');
    for (const { headers } of stuck) assert.match(headers.get('retry-after') ?? '', /^[1-9]/);
  });

  test('a client runs one query of a large table at a time while it is not known what it costs', async () => {
    const queries = ['name__gt=a', 'name__lt=z', 'name__gte=a', 'name__lte=z'];
    const from3 = (query: string): Promise<Answer> => from('10.0.0.3', `/api/crowded/?${query}`);
    let most = 0;
    const watch = setInterval(() => {
      void service.sql`
        select count(*)::int as count from pg_stat_activity
        where application_name = 'vitrine' and state = 'active' and query like 'select%"crowded"%'`.then(
        ([row]) => {
          most = Math.max(most, (row as unknown as { count: number }).count);
        },
      );
    }, 5);
    const answers = await Promise.all(queries.map((query) => from3(query)));
    clearInterval(watch);
    assert.deepEqual(new Set(answers.map(({ status }) => status)), new Set([200]));
    assert.ok(most <= 1, `${most} at once`);
  });

  test('a statement ends in PostgreSQL when its client closes the connection', async () => {
    await whileLocked('busy', async () => {
      for (const operator of ['like', 'ilike', 'gt']) {
        const sockets = [1, 2, 3, 4].map(() => send(`/api/busy/?name__${operator}=y`));
        await eventually(async () => (await waiting()) === 3, 'the statements of the client');
        for (const socket of sockets) socket.destroy();
        // Long before any timeout, and without a statement that takes a free connection after that.
        await eventually(async () => (await waiting()) === 0, 'the end of the statements');
      }
      assert.equal((await from('10.9.9.9', '/api/note/?message=x')).status, 200);
    });
    await eventually(
      () => service.lines.filter(({ status }) => status === 499).length >= 12,
      'the lines of the log',
    );
  });

  test('a client that closes only its half of the connection gets its answer', async () => {
    const chunks: Buffer[] = [];
    const socket = await whileLocked('note', async () => {
      const half = send('/api/note/?message=x&limit=1');
      half.on('data', (chunk: Buffer) => chunks.push(chunk));
      half.end();
      await eventually(async () => (await waiting()) === 1, 'the statement');
      await sleep(200);
      assert.equal(await waiting(), 1, 'it is not canceled');
      return half;
    });
    await eventually(() => socket.closed, 'the end of the connection');
    const text = Buffer.concat(chunks).toString();
    assert.match(text, /^(HTTP\/1\.1 102 Processing\r\n\r\n)+HTTP\/1\.1 200 OK\r\n/);
    assert.match(text, /"objects":\[\{"id":1,/);
  });

  test('a query without credentials is canceled after SLOW_TIMEOUT, one of a user is not', async () => {
    const anonymous = await whileLocked('note', () => from('10.0.0.3', '/api/note/?message=x'));
    assertProblem(anonymous, 503);
    let done = false;
    const known = await whileLocked('member', async () => {
      const asked = service.request('/api/member/?name=x', { user: 'bob' }).finally(() => (done = true));
      await eventually(async () => (await waiting()) === 1, 'the statement');
      await sleep(1_500);
      assert.equal(done, false);
      return { asked };
    });
    assert.equal((await known.asked).status, 200);
  });

  test('a query that is known to be costly needs the level of `costly`', async () => {
    const path = '/api/guarded/?name=x';
    assert.equal((await from('10.0.0.4', path)).status, 200);
    const slow = await whileLocked('guarded', async () => {
      const asked = from('10.0.0.4', path);
      await eventually(async () => (await waiting()) === 1, 'the statement');
      await sleep(300);
      return { asked };
    });
    assert.equal((await slow.asked).status, 200);
    const refused = await from('10.0.0.4', path);
    assert.equal(refused.status, 401);
    assert.equal(refused.text, 'Authentication failed');
    assert.equal((await from('10.0.0.4', '/api/guarded/?name__ne=x')).status, 200, 'another kind of query');
    const headers = { authorization: basic('bob', 'wrong') };
    assert.equal((await service.request(path, { headers })).status, 401);
    assert.equal((await service.request(path, { user: 'bob' })).status, 200);
    const stream = { Accept: 'application/x-ndjson' };
    assert.equal((await service.request('/api/guarded/', { headers: stream })).status, 401);
    assert.equal((await service.request('/api/guarded/', { headers: stream, user: 'bob' })).status, 200);
  });
});

describe('a fair queue', () => {
  test('serves clients in turn, and the entries of one client in their order', () => {
    const entries = fc.array(fc.tuple(fc.constantFrom('a', 'b', 'c'), fc.nat()), { maxLength: 40 });
    fc.assert(
      fc.property(entries, (pushed) => {
        const queue = new FairQueue<{ key: string; index: number }>();
        pushed.forEach(([key], index) => queue.push(key, { key, index }));
        const served: { key: string; index: number }[] = [];
        for (let next = queue.shift(() => true); next; next = queue.shift(() => true)) served.push(next);
        assert.equal(served.length, pushed.length);
        for (const key of ['a', 'b', 'c']) {
          const own = served.filter((one) => one.key === key).map(({ index }) => index);
          assert.deepEqual(
            own,
            [...own].sort((one, other) => one - other),
          );
        }
        // Nobody is served a second time while another client waits for its first.
        const counts: Record<string, number> = { a: 0, b: 0, c: 0 };
        const totals = { ...counts };
        for (const { key } of served) totals[key] = (totals[key] ?? 0) + 1;
        for (const { key } of served) {
          const own = (counts[key] ?? 0) + 1;
          for (const other of Object.keys(counts))
            assert.ok((counts[other] ?? 0) >= Math.min(own - 1, totals[other] ?? 0), 'in turn');
          counts[key] = own;
        }
      }),
    );
  });

  test('knows how many entries are served before a new one', () => {
    const keys = fc.array(fc.constantFrom('a', 'b', 'c', 'd'), { maxLength: 30 });
    fc.assert(
      fc.property(keys, fc.constantFrom('a', 'd', 'e'), (pushed, key) => {
        const queue = new FairQueue<object>();
        for (const one of pushed) queue.push(one, {});
        const ahead = queue.ahead(key);
        const last = {};
        queue.push(key, last);
        let before = 0;
        while (queue.shift(() => true) !== last) before += 1;
        assert.ok(before <= ahead, `${before} of ${ahead}`);
      }),
    );
  });
});

describe('a queue that shares time', () => {
  const costs = fc.array(fc.integer({ min: 1, max: 100 }), { minLength: 2, maxLength: 8 });

  test('gives clients that always wait the same time, whatever their work takes', () => {
    fc.assert(
      fc.property(costs, fc.nat(50), (all, expected) => {
        const queue = new TimeQueue<number>();
        const had = all.map(() => 0);
        all.forEach((_, client) => queue.push(String(client), client));
        for (let turns = 0; turns < 300; turns += 1) {
          const client = queue.shift(() => true) ?? -1;
          const cost = all[client] ?? NaN;
          queue.begin(String(client), expected);
          queue.correct(String(client), cost - expected);
          had[client] = (had[client] ?? 0) + cost;
          queue.push(String(client), client);
          assert.ok(Math.max(...had) - Math.min(...had) <= 4 * Math.max(...all));
        }
      }),
    );
  });

  test('serves a client that comes, or comes back, before those that have had more', () => {
    fc.assert(
      fc.property(costs, fc.nat(200), (all, turnsBefore) => {
        const queue = new TimeQueue<string>();
        all.forEach((_, client) => queue.push(String(client), String(client)));
        const serve = (): string => {
          const client = queue.shift(() => true) ?? '';
          queue.begin(client, client === 'brief' ? 1 : (all[Number(client)] ?? NaN));
          return client;
        };
        for (let turns = 0; turns < turnsBefore + all.length; turns += 1) {
          const client = serve();
          queue.push(client, client);
        }
        assert.ok(queue.ahead('brief', 100) <= all.length);
        for (let times = 0; times < 3; times += 1) {
          queue.push('brief', 'brief');
          // One that has had as much, to the millisecond, may be first.
          const before = Array.from({ length: all.length + 1 }, serve);
          const at = before.indexOf('brief');
          assert.ok(at >= 0);
          for (const client of before.filter((one) => one !== 'brief')) queue.push(client, client);
        }
      }),
    );
  });

  test('serves a client that was served once among clients that are ever new', () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 40 }), fc.nat(50), (newcomers, expected) => {
        const queue = new TimeQueue<string>();
        let count = 0;
        const come = (): void => queue.push(`new ${(count += 1)}`, 'new');
        const serve = (): string => {
          const entry = queue.shift(() => true) ?? '';
          const key = entry === 'ada' ? 'ada' : `new ${count - queue.size + 1}`;
          queue.begin(key, expected);
          queue.correct(key, 10 - expected);
          return entry;
        };
        for (let client = 0; client < newcomers; client += 1) come();
        for (let times = 0; times < 5; times += 1) {
          queue.push('ada', 'ada');
          let before = 0;
          while (serve() !== 'ada') {
            come();
            before += 1;
            assert.ok(before <= 3 * newcomers + 3, `${before} of ${newcomers}`);
          }
        }
      }),
    );
  });

  test('forgets the time of clients when there are too many, but not of those that wait', () => {
    const queue = new TimeQueue<string>();
    queue.begin('spent', 1_000);
    queue.push('spent', 'spent');
    for (let client = 0; client < 30_000; client += 1) queue.begin(`client ${client}`, 1);
    queue.push('client 29999', 'known');
    const order = [queue.shift(() => true), queue.shift(() => true)];
    assert.deepEqual(order, ['known', 'spent']);
  });

  test('keeps the order of one client, and skips those that may not run', () => {
    const queue = new TimeQueue<number>();
    for (const entry of [1, 2, 3]) queue.push('ada', entry);
    queue.push('bob', 4);
    assert.equal(queue.sizeOf('ada'), 3);
    assert.equal(
      queue.shift((entry) => entry === 4),
      4,
    );
    assert.ok(queue.remove('ada', 2));
    assert.equal(queue.remove('ada', 2), false);
    assert.deepEqual([queue.shift(() => true), queue.shift(() => true)], [1, 3]);
    assert.equal(
      queue.shift(() => true),
      undefined,
    );
    assert.equal(queue.size, 0);
  });
});

test('users and strangers take turns in a queue, and a user waits behind one stranger at most', () => {
  const queue = new AlternatingQueue<string>();
  for (let client = 0; client < 100; client += 1) queue.of(false).push(`stranger ${client}`, 'stranger');
  for (const user of ['ada', 'bob']) queue.of(true).push(user, user);
  assert.ok(queue.ahead('grace', true, 1) <= 5);
  const order = Array.from({ length: 5 }, () => queue.shift(() => true));
  assert.deepEqual(order.filter((entry) => entry !== 'stranger').length, 2);
  assert.equal(
    queue.shift((entry) => entry !== 'stranger'),
    undefined,
  );
  assert.equal(queue.size, 97);
});

test('attempts keep no connection of unknown reads, and clients whose last one was brief come first', async () => {
  const scheduler = new Scheduler();
  const shape = { ...newShape('select'), cost: 1_000, isProven: true, quickAt: performance.now() };
  const stranger = (key: string): Requester => ({ ...SERVICE, key, origin: 'anonymous' });
  const enter = async (key: string): Promise<RunningStatement> => {
    const running = await scheduler.enter('attempt', stranger(key), shape);
    assert.ok(running);
    return running;
  };
  scheduler.leave(await enter('alice'), true);
  const busy = await Promise.all([1, 2, 3].map((one) => enter(`mallory ${one}`)));
  let ended = 0;
  for (const running of busy) running.preempt = () => (ended += 1);
  const order: string[] = [];
  const next = ['new 1', 'new 2', 'alice'].map(async (key) => {
    const running = await enter(key);
    order.push(key);
    scheduler.leave(running);
  });
  assert.ok(await scheduler.enter('trial', stranger('bob'), { ...newShape('other'), cost: 1 }));
  await eventually(() => ended === 3, 'the end of the attempts');
  for (const running of busy) scheduler.leave(running);
  await Promise.all(next);
  assert.ok(order.indexOf('alice') <= 1, order.join());
  assert.equal(scheduler.classOf(shape, stranger('mallory 1')), 'slow');
  const again = await enter('alice');
  let isEnded = false;
  again.preempt = () => (isEnded = true);
  await eventually(() => isEnded, 'the end of the attempt');
  scheduler.leave(again);
  assert.equal(scheduler.classOf(shape, stranger('alice')), 'attempt', 'it was brief before');
  scheduler.close();
});

test('of writes that take long the younger half ends while others wait', async () => {
  const scheduler = new Scheduler();
  const user = (key: string): Requester => ({ ...SERVICE, key, origin: 'user' });
  const ended: string[] = [];
  const write = (key: string): Promise<void> =>
    scheduler.run(
      'write',
      user(key),
      (running) =>
        new Promise((resolve) => {
          if (running)
            running.preempt = () => {
              ended.push(key);
              resolve();
            };
        }),
    );
  const alive = setInterval(() => undefined, 100); // the scheduler's own timers keep no process alive
  const clients = Array.from({ length: 10 }, (_, index) => `client ${index}`);
  for (const client of clients) void write(client);
  await sleep(700);
  assert.deepEqual(ended, [], 'nobody waits');
  const others = ['ada', 'bob'].map((name) => scheduler.run('write', user(name), () => Promise.resolve()));
  await Promise.all(others);
  assert.ok(ended.length === 1 || ended.length === 2, ended.join());
  assert.ok(ended.every((client) => clients.indexOf(client) >= 5));
  clearInterval(alive);
  scheduler.close();
});

test('shapes that were used once make room for others, and those of the program never do', () => {
  const shapes = new Shapes();
  const known = [shapes.use('used twice'), shapes.use('used twice'), shapes.use('of the program', true)];
  for (let index = 0; index < 2_000; index += 1) shapes.use(`never run ${index}`);
  assert.deepEqual(
    known.map(({ isForgotten }) => isForgotten),
    [false, false, false],
  );
  assert.ok(shapes.use('never run 0').uses === 1, 'it was forgotten');
});

test('statements are prepared from their second use on, and the least recently used make room', () => {
  const shapes = new Shapes();
  const isPrepared = (text: string): boolean => shapes.prepare(shapes.use(text));
  assert.deepEqual([isPrepared('hot'), isPrepared('hot'), isPrepared('hot')], [false, true, true]);
  for (let index = 0; index < 1_000; index += 1) {
    assert.equal(isPrepared(`varied ${index}`), false);
    assert.equal(isPrepared(`varied ${index}`), true);
    if (index % 100 === 0) assert.equal(isPrepared('hot'), true, 'one that is used all the time stays');
  }
  assert.equal(isPrepared('varied 10'), false, 'one that was not used for long is forgotten');
});
