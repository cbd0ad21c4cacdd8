import assert from 'node:assert/strict';
import { setImmediate as turn, setTimeout as sleep } from 'node:timers/promises';
import { SERVICE, type Requester } from '../../src/db/scheduling/requester.ts';
import type { RunningStatement } from '../../src/db/scheduling/running-statements.ts';
import { Scheduler } from '../../src/db/scheduling/scheduler.ts';
import { newShape } from '../../src/db/statement-shapes.ts';
import { eventually } from '../http/expect.ts';
import { describe, test } from 'node:test';

describe('the scheduler', () => {
  const client = (key: string): Requester => ({ ...SERVICE, key, clientKind: 'user' });

  test('starts a statement at once while only clients at their limit wait', async () => {
    const scheduler = new Scheduler();
    const ends: (() => void)[] = [];
    const last = (): Promise<void> => new Promise((resolve) => ends.push(resolve));
    const own = Array.from({ length: 9 }, () => scheduler.run('write', client('ada'), last));
    await sleep(0);
    assert.equal(scheduler.state.write.waiting, 2);
    await scheduler.run('write', client('bob'), () => Promise.resolve());
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

describe('slow statements of anonymous clients', () => {
  const anonymous = (key: string): Requester => ({ ...SERVICE, key, clientKind: 'anonymous' });
  /** Keeps the process busy. */
  const work = (): Promise<void> => {
    for (const until = performance.now() + 60; performance.now() < until;);
    return Promise.resolve();
  };

  test('are followed by a pause for other clients while the process is busy', async () => {
    const scheduler = new Scheduler();
    const alive = setInterval(() => undefined, 100); // the timers of the scheduler do not keep the process alive
    await scheduler.run('slow', anonymous('mallory'), work);
    const order: string[] = [];
    const note = (name: string) => () => {
      order.push(name);
      return Promise.resolve();
    };
    const again = scheduler.run('slow', anonymous('mallory'), note('mallory'));
    assert.equal(scheduler.state.slow.waiting, 1);
    await scheduler.run('slow', anonymous('alice'), note('alice'));
    await scheduler.run('read', anonymous('mallory'), note('cheap'));
    await again;
    assert.deepEqual(order, ['alice', 'cheap', 'mallory']);
    clearInterval(alive);
    scheduler.close();
  });

  test('delay the next attempt of their client, even if its last attempt was fast', async () => {
    const scheduler = new Scheduler();
    const alive = setInterval(() => undefined, 100);
    const shape = { ...newShape('select'), cost: 1_000, isProven: true, cheapAt: performance.now() };
    const fast = await scheduler.enter('attempt', anonymous('mallory'), shape);
    assert.ok(fast);
    scheduler.leave(fast, true);
    await scheduler.run('slow', anonymous('mallory'), work);
    const next = scheduler.enter('attempt', anonymous('mallory'), shape);
    assert.equal(scheduler.state.attempt.waiting, 1);
    const running = await next;
    assert.ok(running);
    scheduler.leave(running);
    clearInterval(alive);
    scheduler.close();
  });
});

test('an anonymous client with a query slower than its estimate then runs one at a time, and others do not', async () => {
  const scheduler = new Scheduler();
  const shape = { ...newShape('select'), cost: 1, isProven: true };
  const anonymous: Requester = { ...SERVICE, key: 'mallory', clientKind: 'anonymous' };
  const slow = await scheduler.enter('read', anonymous, shape);
  assert.ok(slow);
  // By the scheduler's clock, which does not count blocks of the event loop.
  await eventually(() => scheduler.clock.now() - slow.since > 1_050, 'a slow query');
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
  assert.equal(await running(anonymous), 1);
  assert.equal(await running({ ...anonymous, key: 'alice' }), 3);
  scheduler.close();
});

test('of brief reads that turn out to be slow only two go on, and further unknown reads get half of their connections', async () => {
  const scheduler = new Scheduler();
  const shape = { ...newShape('select'), cost: 1, isProven: true };
  const all: RunningStatement[] = [];
  let preempted = 0;
  for (let index = 0; index < 6; index += 1) {
    const running = await scheduler.enter(
      'brief',
      { ...SERVICE, key: `mallory ${index}`, clientKind: 'anonymous' },
      shape,
    );
    assert.ok(running);
    running.preempt = () => (preempted += 1);
    all.push(running);
  }
  await eventually(() => preempted === 4, 'the end of the others');
  assert.equal(scheduler.state.slow.running, 2);
  const reads = [1, 2, 3].map((one) =>
    scheduler.enter('read', { ...SERVICE, key: `reader ${one}`, clientKind: 'anonymous' }),
  );
  assert.deepEqual([scheduler.state.read.running, scheduler.state.read.waiting], [2, 1]);
  for (const running of all) scheduler.leave(running);
  for (const read of reads) {
    const running = await read;
    if (running) scheduler.leave(running);
  }
  const { slow, brief } = scheduler.state;
  assert.deepEqual([slow.running, brief.running], [0, 0]);
  scheduler.close();
});

test('a shape that is costly for other clients is tried for a moment, in which it may be brief', async () => {
  const scheduler = new Scheduler();
  const shape = { ...newShape('select'), cost: 1_000, isProven: true };
  const anonymous = (key: string): Requester => ({ ...SERVICE, key, clientKind: 'anonymous' });
  assert.equal(scheduler.classOf(shape, anonymous('alice')), 'slow', 'it was never brief');
  shape.cheapAt = performance.now();
  assert.equal(scheduler.classOf(shape, anonymous('alice')), 'attempt');
  for (const isOver of [true, false]) {
    const running = await scheduler.enter('attempt', anonymous('mallory'), shape);
    assert.ok(running);
    let isEnded = false;
    running.preempt = () => (isEnded = true);
    if (isOver) await sleep(20);
    else await eventually(() => isEnded, 'the end of the attempt');
    assert.equal(isEnded, !isOver);
    scheduler.leave(running);
  }
  assert.equal(scheduler.classOf(shape, anonymous('mallory')), 'slow', 'its attempt was not brief');
  assert.equal(scheduler.classOf(shape, anonymous('alice')), 'attempt');
  assert.equal(scheduler.state.attempt.running, 0);
  scheduler.close();
});

test('a client with brief reads does not wait behind all clients with long reads', async () => {
  const scheduler = new Scheduler();
  let begun = 0;
  let isOver = false;
  const read = (key: string, milliseconds: number): Promise<void> =>
    scheduler.run('read', { ...SERVICE, key, clientKind: 'anonymous' }, () => {
      begun += 1;
      return sleep(milliseconds);
    });
  const others = Array.from({ length: 20 }, async (_, index) => {
    while (!isOver) await read(`other ${index}`, 50);
  });
  await sleep(200);
  begun = 0;
  for (let times = 0; times < 10; times += 1) await read('brief', 0);
  // With plain turns, each of its reads would wait for the reads of all 20 clients.
  assert.ok(begun < 10 * 12, `${begun} reads of others began meanwhile`);
  isOver = true;
  await Promise.all(others);
  scheduler.close();
});

test('attempts use no connection of unknown reads, and clients with a brief last attempt come first', async () => {
  const scheduler = new Scheduler();
  const shape = { ...newShape('select'), cost: 1_000, isProven: true, cheapAt: performance.now() };
  const anonymous = (key: string): Requester => ({ ...SERVICE, key, clientKind: 'anonymous' });
  const enter = async (key: string): Promise<RunningStatement> => {
    const running = await scheduler.enter('attempt', anonymous(key), shape);
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
  assert.ok(await scheduler.enter('trial', anonymous('bob'), { ...newShape('other'), cost: 1 }));
  await eventually(() => ended === 3, 'the end of the attempts');
  for (const running of busy) scheduler.leave(running);
  await Promise.all(next);
  assert.ok(order.indexOf('alice') <= 1, order.join());
  assert.equal(scheduler.classOf(shape, anonymous('mallory 1')), 'slow');
  const again = await enter('alice');
  let isEnded = false;
  again.preempt = () => (isEnded = true);
  await eventually(() => isEnded, 'the end of the attempt');
  scheduler.leave(again);
  assert.equal(scheduler.classOf(shape, anonymous('alice')), 'attempt', 'it was brief before');
  scheduler.close();
});

test('of writes that take long, the younger half ends while others wait', async () => {
  const scheduler = new Scheduler();
  const user = (key: string): Requester => ({ ...SERVICE, key, clientKind: 'user' });
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
  const alive = setInterval(() => undefined, 100); // the timers of the scheduler do not keep the process alive
  const clients = Array.from({ length: 10 }, (_, index) => `client ${index}`);
  for (const client of clients) void write(client);
  await sleep(700);
  assert.deepEqual(ended, [], 'no client waits');
  const others = ['ada', 'bob'].map((name) => scheduler.run('write', user(name), () => Promise.resolve()));
  await Promise.all(others);
  assert.ok(ended.length === 1 || ended.length === 2, ended.join());
  assert.ok(ended.every((client) => clients.indexOf(client) >= 5));
  clearInterval(alive);
  scheduler.close();
});

test('a client that fills the queue of a class gives way to the first statements of others', async () => {
  const scheduler = new Scheduler();
  const begun: (() => void)[] = [];
  const work = (): Promise<void> => new Promise((resolve) => begun.push(resolve));
  const client = (key: string, clientKind: Requester['clientKind']): Requester => ({
    ...SERVICE,
    key,
    clientKind,
  });
  const refused: string[] = [];
  const all: Promise<void>[] = [];
  const run = (key: string, clientKind: Requester['clientKind'] = 'anonymous'): void => {
    const name = `${clientKind} ${key}`;
    all.push(scheduler.run('brief', client(key, clientKind), work).catch(() => void refused.push(name)));
  };
  // Brief statements: a long queue is expected to be short.
  for (let times = 0; times < 100; times += 1)
    await scheduler.run('brief', client('ada', 'user'), () => Promise.resolve());
  for (let times = 0; times < 1_006; times += 1) run('mallory');
  await turn();
  assert.deepEqual([scheduler.state.brief.waiting, refused.length], [1_000, 0]);
  run('bob', 'user');
  run('alice');
  run('mallory');
  await turn();
  assert.deepEqual(refused, ['anonymous mallory', 'anonymous mallory', 'anonymous mallory']);
  assert.equal(scheduler.state.brief.waiting, 1_000);
  for (; scheduler.state.brief.running > 0; await turn()) begun.splice(0).forEach((end) => end());
  await Promise.all(all);
  scheduler.close();
});

test('of two slow reads of a user the younger one ends for another client, and none ends for the same user', async () => {
  const scheduler = new Scheduler();
  const shape = { ...newShape('select'), cost: 1_000, isProven: true };
  const alive = setInterval(() => undefined, 100); // the timers of the scheduler do not keep the process alive
  const ended: string[] = [];
  const begin = async (key: string, name: string): Promise<RunningStatement> => {
    const running = await scheduler.enter('slow', { ...SERVICE, key, clientKind: 'user' }, shape);
    assert.ok(running);
    running.preempt = () => {
      ended.push(name);
      scheduler.leave(running);
    };
    return running;
  };
  const [first] = await Promise.all([begin('mallory', 'first'), begin('mallory', 'second')]);
  const third = begin('mallory', 'third').catch((error: unknown) => error);
  await sleep(300);
  assert.deepEqual(ended, []);
  const other = await begin('ada', 'other');
  assert.deepEqual(ended, ['second']);
  for (const running of [first, other]) scheduler.leave(running);
  const last = await third;
  if (!(last instanceof Error)) scheduler.leave(last as RunningStatement);
  clearInterval(alive);
  scheduler.close();
});
