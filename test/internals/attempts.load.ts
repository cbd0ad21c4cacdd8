import assert from 'node:assert/strict';
import { setImmediate as turn, setTimeout as sleep } from 'node:timers/promises';
import { SERVICE, type Requester } from '../../src/db/scheduling/requester.ts';
import type { RunningStatement } from '../../src/db/scheduling/running-statements.ts';
import { SlowClients } from '../../src/db/scheduling/slow-clients.ts';
import { Scheduler } from '../../src/db/scheduling/scheduler.ts';
import type { WorkClass } from '../../src/db/scheduling/work-class.ts';
import { newShape, type Shape } from '../../src/db/statement-shapes.ts';
import { eventually } from '../http/expect.ts';
import { afterEach, beforeEach, describe, test, type TestContext } from 'node:test';

const anonymous = (key: string): Requester => ({ ...SERVICE, key, clientKind: 'anonymous' });
/** A shape whose statements are costly with some values and quick with others. */
const varied = (): Shape => ({
  ...newShape('select'),
  cost: 1_000,
  isProven: true,
  cheapAt: performance.now(),
});
const brief = (): Shape => ({ ...newShape('select'), cost: 1, isProven: true });

describe('a client whose reads are slow on purpose', () => {
  let scheduler: Scheduler;
  let alive: NodeJS.Timeout;

  beforeEach(() => {
    scheduler = new Scheduler();
    alive = setInterval(() => undefined, 100); // the timers of the scheduler do not keep the process alive
  });

  afterEach(() => {
    clearInterval(alive);
    scheduler.close();
  });

  const enter = async (name: WorkClass, key: string, shape: Shape): Promise<RunningStatement> => {
    const running = await scheduler.enter(name, anonymous(key), shape);
    assert.ok(running);
    return running;
  };

  /** Runs an attempt until the scheduler ends it, and keeps the process busy meanwhile. */
  async function endedAttempt(key: string): Promise<void> {
    const running = await enter('attempt', key, varied());
    let isEnded = false;
    running.preempt = () => (isEnded = true);
    await eventually(() => isEnded, 'the end of the attempt');
    scheduler.leave(running);
  }

  async function quickAttempt(key: string): Promise<void> {
    scheduler.leave(await enter('attempt', key, varied()), true);
  }

  /** Waits for a client's next attempt while the process is busy. */
  async function nextAttempt(key: string): Promise<void> {
    const running = enter('attempt', key, varied());
    for (const until = performance.now() + 60; performance.now() < until;);
    scheduler.leave(await running, true);
  }

  test('buys one excuse for a slow attempt with quick ones, and not a second one soon after', async () => {
    const shape = varied();
    for (const expected of ['attempt', 'slow'] as const) {
      await quickAttempt('mallory');
      await endedAttempt('mallory');
      assert.equal(scheduler.classOf(shape, anonymous('mallory')), expected);
    }
    assert.equal(scheduler.classOf(shape, anonymous('alice')), 'attempt');
  });

  test('does not shut out others from its shape: one that would be refused gets an attempt, and is refused after a slow one', async () => {
    const costly = { ...varied(), cheapAt: -Infinity };
    const others = (name: 'slow' | 'attempt'): number =>
      scheduler.state[name].running + scheduler.state[name].waiting;
    let last = '';
    for (let count = 0; others('attempt') === 0; count += 1) {
      assert.ok(count < 1_000);
      last = `other ${count}`;
      // Those that wait are refused in the end.
      enter('slow', last, costly).catch(() => undefined);
    }
    assert.ok(others('slow') > 2);
    const running = await enter('slow', 'alice', costly);
    assert.equal(running.initialQueue.name, 'attempt');
    await sleep(60);
    scheduler.leave(running);
    // Others are the reason, and the attempt is no reason not to try another shape.
    await assert.rejects(enter('slow', 'alice', costly), { status: 503 });
    assert.equal(scheduler.classOf(varied(), anonymous('alice')), 'attempt');
    await quickAttempt('alice');
    assert.equal(scheduler.classOf(costly, anonymous('bob')), 'slow', 'tried only if it would be refused');
    const bob = await enter('attempt', 'bob', varied());
    await assert.rejects(enter('slow', 'carol', costly), { status: 503 }, 'no connection is free');
    scheduler.leave(bob, true);
    // It waits for its client's other attempt, and leaves the free connection to others.
    enter('attempt', last, varied()).catch(() => undefined);
    assert.equal(scheduler.state.attempt.waiting, 1);
    scheduler.leave(await enter('slow', 'carol', costly));
    await assert.rejects(enter('slow', 'carol', costly), { status: 503 }, 'left early is failed, too');
  });

  test('gets no attempt in place of a refusal beside a slow read of its own', async () => {
    const slowClients = new SlowClients();
    slowClients.cooldownFactor = 4; // of a busy process
    const busy = new Scheduler(undefined, undefined, { slowClients });
    const costly = { ...varied(), cheapAt: -Infinity };
    await busy.enter('slow', anonymous('mallory'), costly);
    await assert.rejects(async () => busy.enter('slow', anonymous('mallory'), costly), { status: 503 });
    busy.close();
  });

  test('has failed with an attempt that it leaves just before the limit', async () => {
    const shape = varied();
    const running = await enter('attempt', 'mallory', shape);
    await sleep(60);
    scheduler.leave(running);
    assert.equal(scheduler.classOf(shape, anonymous('mallory')), 'slow');
  });

  test('has not failed with an attempt that it leaves at once', async () => {
    const shape = varied();
    scheduler.leave(await enter('attempt', 'alice', shape));
    assert.equal(scheduler.classOf(shape, anonymous('alice')), 'attempt');
  });

  test('waits after an attempt that PostgreSQL ends late, as long as after any slow statement', async () => {
    await quickAttempt('mallory');
    const running = await enter('attempt', 'mallory', varied());
    running.preempt = () => undefined;
    for (const until = performance.now() + 300; performance.now() < until; await turn());
    scheduler.leave(running);
    const order: string[] = [];
    const attempts = ['mallory', 'alice'].map(async (key) => {
      await nextAttempt(key);
      order.push(key);
    });
    await Promise.all(attempts);
    assert.deepEqual(order, ['alice', 'mallory']);
  });

  /** Loses a statement of one client, and asks for its next one. */
  async function afterEndless(mock: TestContext['mock'], isLively: boolean): Promise<unknown> {
    let now = scheduler.clock.now();
    mock.method(scheduler.clock, 'now', () => now);
    const endless = await enter('trial', 'mallory', brief());
    now += 15_000;
    if (isLively) scheduler.leave(await enter('read', 'alice', brief()), true);
    scheduler.leave(endless);
    return enter('slow', 'mallory', brief());
  }

  test('is refused after a statement that PostgreSQL has not ended, while it answers others', ({ mock }) =>
    assert.rejects(afterEndless(mock, true), { status: 429 }));

  test('may go on after a statement without an answer, if PostgreSQL answers no others either', ({ mock }) =>
    assert.doesNotReject(afterEndless(mock, false)));

  test('keeps a longer cooldown after a shorter slow statement', () => {
    const clients = new SlowClients();
    const coolDown = (milliseconds: number): void => clients.coolDown('mallory', milliseconds, 1, false);
    coolDown(3_000);
    const longer = clients.cooldownOf('mallory');
    coolDown(330);
    assert.ok(clients.cooldownOf('mallory') > longer / 2);
    coolDown(6_000);
    assert.ok(clients.cooldownOf('mallory') > 1.5 * longer);
  });

  test('is suspect after the second ended read, also in a process that is older than the memory of the first', ({
    mock,
  }) => {
    const clients = new SlowClients();
    clients.noteEndedRead('alice', 1_000, { since: 800, isProven: true });
    assert.equal(clients.isSuspect('alice'), false);
    const late = performance.now() + 90_000; // as if the process had run for so long
    mock.method(performance, 'now', () => late);
    clients.noteEndedRead('alice', 1_400, { since: 1_200, isProven: true });
    assert.equal(clients.isSuspect('alice'), true);
  });

  test('is suspect after the second read that is ended for being slow, or one whose cost is unknown', async () => {
    const slow = await Promise.all([1, 2, 3, 4].map((one) => enter('brief', `other ${one}`, brief())));
    await eventually(() => scheduler.state.slow.running === 4, 'four slow statements');
    const endedRead = async (key: string, shape: Shape): Promise<void> => {
      const running = await enter('read', key, shape);
      let isEnded = false;
      running.preempt = () => (isEnded = true);
      await eventually(() => isEnded, 'the end of the read');
      scheduler.leave(running);
    };
    const classOf = (key: string): WorkClass => scheduler.classOf(brief(), anonymous(key));
    await endedRead('alice', brief());
    assert.equal(classOf('alice'), 'brief', 'the others may be the reason');
    await endedRead('alice', brief());
    assert.equal(classOf('alice'), 'trial');
    await endedRead('mallory', { ...newShape('select'), cost: 1 });
    assert.equal(classOf('mallory'), 'trial');
    for (const running of slow) scheduler.leave(running);
  });
});
