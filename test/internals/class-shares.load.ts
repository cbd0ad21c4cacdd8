import assert from 'node:assert/strict';
import { setTimeout as sleep } from 'node:timers/promises';
import { SERVICE } from '../../src/db/scheduling/requester.ts';
import type { RunningStatement } from '../../src/db/scheduling/running-statements.ts';
import { newShape } from '../../src/db/statement-shapes.ts';
import { Scheduler } from '../../src/db/scheduling/scheduler.ts';
import type { WorkClass } from '../../src/db/scheduling/work-class.ts';
import { eventually } from '../http/expect.ts';
import { after, before, test } from 'node:test';

// The timers of the scheduler do not keep the process alive.
let alive: NodeJS.Timeout;
before(() => void (alive = setInterval(() => undefined, 100)));
after(() => clearInterval(alive));

test('a client alone gets seven of the ten connections for writes, and three others one each', async () => {
  const scheduler = new Scheduler();
  const entered: Promise<RunningStatement | undefined>[] = [];
  const write = (key: string): number => {
    for (let index = 0; index < 8; index += 1)
      entered.push(Promise.resolve(scheduler.enter('write', { ...SERVICE, key, clientKind: 'user' })));
    return scheduler.state.write.running;
  };
  assert.equal(write('ada'), 7);
  assert.equal(write('bob'), 8);
  assert.equal(write('eve'), 9);
  assert.equal(write('mallory'), 10);
  for (const next of entered) {
    const running = await next;
    assert.ok(running);
    scheduler.leave(running);
  }
  assert.equal(scheduler.state.write.running, 0);
  scheduler.close();
});

test('a client alone whose writes take long gets four connections, until its writes are fast again', async () => {
  const scheduler = new Scheduler();
  const writes = (count: number): Promise<RunningStatement | undefined>[] =>
    Array.from({ length: count }, () =>
      Promise.resolve(scheduler.enter('write', { ...SERVICE, key: 'ada', clientKind: 'user' })),
    );
  const end = async (entered: Promise<RunningStatement | undefined>[]): Promise<void> => {
    for (const next of entered) {
      const running = await next;
      assert.ok(running);
      scheduler.leave(running);
    }
  };
  const slow = writes(7);
  assert.equal(scheduler.state.write.running, 7);
  await sleep(150);
  await end(slow);
  const few = writes(7);
  assert.equal(scheduler.state.write.running, 4);
  await end(few);
  await end(writes(20));
  const many = writes(7);
  assert.equal(scheduler.state.write.running, 7);
  await end(many);
  scheduler.close();
});

test('at most eight reads of unknown or high cost run at once, also when a slow one ends', async () => {
  const scheduler = new Scheduler();
  const entered: Promise<RunningStatement | undefined>[] = [];
  const enter = (name: WorkClass, count: number): void => {
    for (let index = 0; index < count; index += 1)
      entered.push(
        Promise.resolve(scheduler.enter(name, { ...SERVICE, key: `${name} ${index}`, clientKind: 'user' })),
      );
  };
  const classes = ['slow', 'read', 'trial', 'attempt'] as const;
  const running = (): number[] => classes.map((name) => scheduler.state[name].running);
  for (const name of ['read', 'trial', 'attempt'] as const) enter(name, 4);
  // Connections are reserved for the other classes.
  assert.deepEqual(running(), [0, 4, 2, 1]);
  enter('slow', 4);
  assert.deepEqual(running(), [1, 4, 2, 1]);
  const isOver = (): boolean => running().reduce((sum, count) => sum + count) > 8;
  let wasFull = false;
  for (const next of entered) {
    const statement = await next;
    assert.ok(statement);
    scheduler.leave(statement);
    assert.equal(isOver(), false);
    wasFull ||= scheduler.state.slow.running === 2;
  }
  assert.equal(wasFull, true);
  assert.deepEqual(running(), [0, 0, 0, 0]);
  scheduler.close();
});

test('several processes share the limits of costly reads, and no client fills a class of them', async () => {
  for (const processes of [1, 2, 3, 4, 8, 64]) {
    const scheduler = new Scheduler(undefined, undefined, { processes });
    const running = (name: WorkClass): number => scheduler.state[name].running;
    const enter = (name: WorkClass, key?: string): Promise<RunningStatement | undefined>[] =>
      Array.from({ length: 3 }, (_, index) => {
        const requester = { ...SERVICE, key: key ?? `${name} ${index}`, clientKind: 'user' as const };
        return Promise.resolve(scheduler.enter(name, requester));
      });
    const end = async (entered: readonly Promise<RunningStatement | undefined>[]): Promise<void> => {
      for (const next of entered) {
        const statement = await next;
        assert.ok(statement);
        scheduler.leave(statement);
      }
    };
    const max = Math.max(2, Math.ceil(4 / processes));
    const uncertain = ['read', 'trial', 'attempt'] as const;
    const classes = ['slow', ...uncertain] as const;
    for (const name of classes) {
      const entered = enter(name);
      assert.ok(
        running(name) >= 1 && running(name) <= max,
        `${processes} processes, ${name}: ${running(name)}`,
      );
      await end(entered);
    }
    for (const name of uncertain) {
      const own = enter(name, 'ada');
      assert.ok(running(name) < max, `${processes} processes, ${name}: ${running(name)}`);
      await end(own);
    }
    const all = classes.flatMap((name) => enter(name));
    assert.ok(Math.min(...classes.map(running)) >= 1, `${processes} processes`);
    const total = classes.reduce((sum, name) => sum + running(name), 0);
    assert.ok(total <= Math.max(5, Math.ceil(8 / processes)), `${processes} processes: ${total}`);
    await end(all);
    scheduler.close();
  }
});

test('one of several processes runs a second slow read once the first has run for a second', async () => {
  for (const [processes, atOnce] of [
    [1, 2],
    [2, 1],
    [4, 1],
  ]) {
    const scheduler = new Scheduler(undefined, undefined, { processes: processes ?? 1 });
    const enter = (key: string): Promise<RunningStatement | undefined> =>
      Promise.resolve(scheduler.enter('slow', { ...SERVICE, key, clientKind: 'user' }));
    const entered = ['ada', 'bob', 'eve'].map(enter);
    assert.equal(scheduler.state.slow.running, atOnce, `${processes} processes`);
    // The next one starts at once when the first ends, and is not held up by a long one.
    const first = await entered[0];
    assert.ok(first);
    scheduler.leave(first);
    assert.equal(scheduler.state.slow.running, atOnce, `${processes} processes`);
    await sleep(1_200);
    assert.equal(scheduler.state.slow.running, 2, `${processes} processes`);
    // Short ones follow each other beside the long one.
    const second = await entered[2];
    assert.ok(second);
    scheduler.leave(second);
    entered[2] = enter('dan');
    assert.equal(scheduler.state.slow.running, 2, `${processes} processes`);
    for (const next of entered.slice(1)) {
      const running = await next;
      assert.ok(running);
      scheduler.leave(running);
    }
    assert.equal(scheduler.state.slow.running, 0);
    scheduler.close();
  }
});

test('a read that takes long waits for the slow reads of its process, if that is one of several', async () => {
  for (const [processes, moved] of [
    [1, 2],
    [2, 1],
  ]) {
    const scheduler = new Scheduler(undefined, undefined, { processes: processes ?? 1 });
    const enter = (name: WorkClass, key: string): Promise<RunningStatement | undefined> =>
      Promise.resolve(
        scheduler.enter(name, { ...SERVICE, key, clientKind: 'user' }, newShape(`select '${name} ${key}'`)),
      );
    const slow = await enter('slow', 'ada');
    const long = await enter('read', 'bob');
    assert.ok(slow && long);
    let isStopped = false;
    long.preempt = () => (isStopped = true);
    await eventually(() => scheduler.clock.now() - long.since > 400, 'a long read');
    assert.equal(scheduler.state.slow.running, moved, `${processes} processes`);
    assert.equal(isStopped, processes !== 1);
    for (const one of [slow, long]) scheduler.leave(one);
    scheduler.close();
  }
});

test('a client with many slow writes of one record may write others at once', async ({ mock }) => {
  const scheduler = new Scheduler();
  let now = scheduler.clock.now();
  mock.method(scheduler.clock, 'now', () => now);
  const enter = (obstacle?: string): Promise<RunningStatement | undefined> =>
    Promise.resolve(
      scheduler.enter('write', { ...SERVICE, key: 'ada', clientKind: 'user' }, undefined, undefined, {
        obstacle,
      }),
    );
  const end = async (entered: Promise<RunningStatement | undefined>): Promise<void> => {
    const running = await entered;
    assert.ok(running);
    scheduler.leave(running);
  };
  const slow = Array.from({ length: 90 }, () => enter('page 1'));
  for (const one of slow.slice(0, 24)) {
    if (scheduler.state.write.running === 2) now += 80;
    await end(one);
  }
  assert.equal(scheduler.state.write.waiting, 64);
  await end(enter());
  await end(enter('page 2'));
  for (const one of slow.slice(24)) await end(one);
  scheduler.close();
});
