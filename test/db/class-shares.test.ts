import assert from 'node:assert/strict';
import { setTimeout as sleep } from 'node:timers/promises';
import { SERVICE } from '../../src/db/scheduling/requester.ts';
import type { RunningStatement } from '../../src/db/scheduling/running-statements.ts';
import { Scheduler } from '../../src/db/scheduling/scheduler.ts';
import type { WorkClass } from '../../src/db/scheduling/work-class.ts';
import { test } from '../testing.ts';

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

test('several processes share the limits of costly reads, and each may run all kinds of them', async () => {
  const classes = ['slow', 'read', 'trial', 'attempt'] as const;
  for (const processes of [1, 2, 3, 4, 8, 64]) {
    const scheduler = new Scheduler(undefined, undefined, processes);
    const enterAlone = async (name: WorkClass): Promise<void> => {
      const running = () => scheduler.state[name].running;
      const entered = Array.from({ length: 3 }, (_, index) =>
        Promise.resolve(scheduler.enter(name, { ...SERVICE, key: `${name} ${index}`, clientKind: 'user' })),
      );
      assert.ok(running() >= 1, `${processes} processes: ${name}`);
      assert.ok(running() <= Math.max(1, Math.ceil(4 / processes)), `${processes} processes: ${name}`);
      for (const next of entered) {
        const statement = await next;
        assert.ok(statement);
        scheduler.leave(statement);
      }
    };
    for (const name of classes) await enterAlone(name);
    // All at once, as many as one process alone may run, or one of each class.
    const all = classes.map((name) =>
      Array.from({ length: 3 }, (_, index) =>
        Promise.resolve(scheduler.enter(name, { ...SERVICE, key: `${name} ${index}`, clientKind: 'user' })),
      ),
    );
    const running = classes.map((name) => scheduler.state[name].running);
    assert.ok(Math.min(...running) >= 1, `${processes} processes: ${running}`);
    assert.ok(running.reduce((sum, count) => sum + count) <= Math.max(4, Math.ceil(8 / processes)));
    for (const next of all.flat()) {
      const statement = await next;
      assert.ok(statement);
      scheduler.leave(statement);
    }
    scheduler.close();
  }
});

test('a client with many slow writes of one record may write others at once', async () => {
  const scheduler = new Scheduler();
  const enter = (record?: string): Promise<RunningStatement | undefined> =>
    Promise.resolve(
      scheduler.enter('write', { ...SERVICE, key: 'ada', clientKind: 'user' }, undefined, undefined, {
        record,
      }),
    );
  const end = async (entered: Promise<RunningStatement | undefined>): Promise<void> => {
    const running = await entered;
    assert.ok(running);
    scheduler.leave(running);
  };
  const slow = Array.from({ length: 90 }, () => enter('page 1'));
  for (const one of slow.slice(0, 24)) {
    if (scheduler.state.write.running === 2) await sleep(80);
    await end(one);
  }
  assert.equal(scheduler.state.write.waiting, 64);
  await end(enter());
  await end(enter('page 2'));
  for (const one of slow.slice(24)) await end(one);
  scheduler.close();
});
