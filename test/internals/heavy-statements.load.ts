// Statements that keep PostgreSQL busy for some milliseconds: how many of them run at once while several clients are present.
import assert from 'node:assert/strict';
import { setTimeout as sleep } from 'node:timers/promises';
import fc from 'fast-check';
import { ClientPresence } from '../../src/db/client-presence.ts';
import { HeavyStatements, weightOfRead, type HeldWeight } from '../../src/db/scheduling/heavy-statements.ts';
import { SERVICE } from '../../src/db/scheduling/requester.ts';
import type { RunningStatement } from '../../src/db/scheduling/running-statements.ts';
import { Scheduler } from '../../src/db/scheduling/scheduler.ts';
import { newShape, type Shape } from '../../src/db/statement-shapes.ts';
import type { WorkClass } from '../../src/db/scheduling/work-class.ts';
import type { Resource } from '../../src/index.ts';
import { eventually } from '../http/expect.ts';
import { startWith, type WritableService } from '../db/helpers.ts';
import { after, before, describe, test, type TestContext } from 'node:test';

describe('heavy statements', () => {
  /** Starts statements of a class, and ends all of them. @returns how many ran at once */
  async function runAll(name: WorkClass, starts: readonly (readonly [string, number])[]): Promise<number> {
    const scheduler = new Scheduler();
    const enter = (key: string, weight: number): Promise<RunningStatement | undefined> =>
      Promise.resolve(
        scheduler.enter(name, { ...SERVICE, key, clientKind: 'user' }, undefined, undefined, { weight }),
      );
    const entered = starts.map(([key, weight]) => enter(key, weight));
    const { running } = scheduler.state[name];
    for (const next of entered) {
      const one = await next;
      assert.ok(one);
      scheduler.leave(one);
    }
    assert.deepEqual(scheduler.state[name], { running: 0, waiting: 0, refused: 0 });
    scheduler.close();
    return running;
  }

  for (const [what, name, starts, running] of [
    ['writes of a client that is alone', 'write', Array(7).fill(['ada', 1]), 7],
    ['writes of a client among others: one', 'write', [['bob', 0], ...Array(7).fill(['ada', 1])], 2],
    [
      'writes of several clients: two, and those without weight, also of clients whose heavy ones wait',
      'write',
      [...['ada', 'bob', 'eve', 'dan'].map((key) => [key, 1] as const), ['ada', 0], ['eve', 0]],
      4,
    ],
    ['reads of a client among others: one', 'brief', [['bob', 0], ...Array(5).fill(['ada', 1])], 2],
    ['reads of half the weight: two', 'brief', [['bob', 0], ...Array(5).fill(['ada', 0.5])], 3],
    ['reads of other clients: one each', 'brief', [['bob', 1], ['eve', 1], ...Array(5).fill(['ada', 1])], 3],
    ['slow reads are limited by their class alone', 'slow', Array(3).fill(['ada', 1]), 2],
  ] as [string, WorkClass, [string, number][], number][])
    test(what, async () => assert.equal(await runAll(name, starts), running));

  for (const [when, isAlone, running] of [
    ['has been alone for a second', true, 9],
    ['was not', false, 7],
  ] as const)
    test(`short writes of a client that ${when} leave ${10 - running} connections once one has ended`, async () => {
      const presence = new ClientPresence();
      presence.note(isAlone ? 'ada' : 'bob', performance.now() - 1_500);
      const scheduler = new Scheduler(presence);
      const entered = Array.from({ length: 20 }, () =>
        scheduler.enter('write', { ...SERVICE, key: 'ada', clientKind: 'user' }),
      );
      assert.equal(scheduler.state.write.running, 7);
      scheduler.leave((await entered[0]) as RunningStatement);
      assert.equal(scheduler.state.write.running, running);
      for (const one of entered.slice(1)) scheduler.leave((await one) as RunningStatement);
      scheduler.close();
    });

  test('of one kind weigh at most 1 for a client, or are one', () => {
    const presence = new ClientPresence();
    presence.note('ada', performance.now());
    presence.note('bob', performance.now());
    const weights = fc.integer({ min: 0, max: 1_000 }).map((thousandths) => thousandths / 1_000);
    fc.assert(
      fc.property(fc.array(weights, { maxLength: 40 }), (all) => {
        const heavy = new HeavyStatements(presence);
        const running: number[] = [];
        const held: (HeldWeight | undefined)[] = [];
        for (const weight of all) {
          if (!heavy.mayStart('reads', 'ada', weight)) continue;
          held.push(heavy.begin('reads', 'ada', weight));
          running.push(weight);
        }
        const sum = running.reduce((total, weight) => total + weight, 0);
        assert.ok(sum < 1.000_001 || running.filter((weight) => weight > 0).length === 1, String(running));
        for (const weight of held) weight?.end();
        assert.ok(heavy.mayStart('reads', 'ada', 1));
      }),
    );
  });

  test('a read is not overtaken for long by others of its client that weigh less', async () => {
    const scheduler = new Scheduler();
    const enter = (key: string, weight: number) =>
      scheduler.enter('brief', { ...SERVICE, key, clientKind: 'user' }, undefined, undefined, { weight });
    await scheduler.run('brief', { ...SERVICE, key: 'bob', clientKind: 'user' }, () => Promise.resolve());
    const order: string[] = [];
    const running = [enter('ada', 0.4), enter('ada', 0.4)];
    const note = (name: string, entered: ReturnType<typeof enter>) =>
      Promise.resolve(entered).then((one) => {
        order.push(name);
        return one;
      });
    const heavy = note('heavy', enter('ada', 1));
    await sleep(100);
    const light = note('light', enter('ada', 0.2));
    for (const one of running) scheduler.leave((await one) as RunningStatement);
    scheduler.leave((await heavy) as RunningStatement);
    scheduler.leave((await light) as RunningStatement);
    assert.deepEqual(order, ['heavy', 'light']);
    scheduler.close();
  });

  test('do not count for other clients once they have run for 400 ms, so that they do not delay the writes of others', async () => {
    const scheduler = new Scheduler();
    const alive = setInterval(() => undefined, 100); // the timers of the scheduler do not keep the process alive
    const enter = (key: string) =>
      scheduler.enter('write', { ...SERVICE, key, clientKind: 'user' }, undefined, undefined, { weight: 1 });
    const entered = ['eve', 'mallory', 'ada'].map(enter);
    assert.equal(scheduler.state.write.running, 2);
    await eventually(() => Promise.resolve(scheduler.state.write.running === 3), 'the third write');
    for (const one of entered) scheduler.leave((await one) as RunningStatement);
    assert.equal(await runAll('write', [['bob', 0], ...Array<[string, number]>(7).fill(['ada', 1])]), 2);
    clearInterval(alive);
    scheduler.close();
  });

  test('a read has no weight once it counts as slow, so that others of its client do not wait for it', async () => {
    const presence = new ClientPresence();
    const scheduler = new Scheduler(presence);
    const enter = (key: string, weight: number, shape?: Shape) =>
      scheduler.enter('read', { ...SERVICE, key, clientKind: 'user' }, shape, undefined, { weight });
    const bob = enter('bob', 0);
    const present = setInterval(() => {
      for (const key of ['ada', 'bob']) presence.note(key, performance.now());
    }, 100);
    const slow = enter('ada', 1, newShape('select pg_sleep(1)'));
    const next = enter('ada', 1);
    assert.equal(scheduler.state.read.running, 2);
    const started = (await Promise.race([next, sleep(1_500)])) as RunningStatement | undefined;
    for (const one of [bob, slow, next]) scheduler.leave((await one) as RunningStatement);
    clearInterval(present);
    assert.equal(started?.caller.key, 'ada');
    scheduler.close();
  });

  test('a write of a client that has none of weight does not wait for those of others that weigh less', () => {
    const presence = new ClientPresence();
    const heavy = new HeavyStatements(presence);
    const now = performance.now();
    for (const key of ['ada', 'bob', 'eve', 'dan', 'gil', 'fay']) presence.note(key, now);
    for (const key of ['ada', 'bob'])
      for (let count = 0; count < 4; count += 1) {
        assert.ok(heavy.mayStart('writes', key, 0.25));
        heavy.begin('writes', key, 0.25);
      }
    assert.ok(!heavy.mayStart('writes', 'ada', 0.25));
    assert.ok(heavy.mayStart('writes', 'eve', 1), 'light ones count for their client alone');
    heavy.begin('writes', 'eve', 1);
    heavy.begin('writes', 'dan', 0.75);
    assert.ok(heavy.mayStart('writes', 'gil', 0.75), 'a client with none only needs some room');
    const held = heavy.begin('writes', 'gil', 1);
    assert.ok(!heavy.mayStart('writes', 'fay', 0.75), 'the heavy ones of all weigh more than 2');
    assert.ok(heavy.mayStart('writes', 'fay', 0.5), 'a light one does not wait for those of others');
    held?.endShare();
    assert.ok(heavy.mayStart('writes', 'fay', 0.75));
    assert.ok(!heavy.mayStart('writes', 'gil', 1), 'it still counts for its own client');
    held?.end();
    assert.ok(heavy.mayStart('writes', 'gil', 0.75));
  });

  test('each of several processes runs one heavy write at a time', () => {
    for (const [processes, atOnce] of [
      [1, 2],
      [2, 1],
      [3, 1],
      [64, 1],
    ]) {
      const heavy = new HeavyStatements(new ClientPresence(), processes);
      const mayStart = ['ada', 'bob', 'eve'].filter((key) => {
        const may = heavy.mayStart('writes', key, 1);
        if (may) heavy.begin('writes', key, 1);
        return may;
      });
      assert.equal(mayStart.length, atOnce, `${processes} processes`);
      assert.ok(heavy.mayStart('writes', 'eve', 0.5), 'a light one does not wait for those of others');
    }
  });

  test('a read weighs more the longer it takes, and a write the more it sends', () => {
    const weightOf = (mean: number | undefined, pipelinedMean: number): number =>
      weightOfRead({ mean, pipelinedMean });
    assert.deepEqual([weightOf(undefined, 0), weightOf(0.5, 0.1), weightOf(2, 0)], [0, 0, 0.25]);
    assert.deepEqual([weightOf(1, 4), weightOf(8, 0), weightOf(undefined, 100)], [0.5, 1, 1]);
    const heavy = new HeavyStatements(new ClientPresence());
    const weights = [100, 2_047, 4_096, 8_192, 16_384, 10 ** 6].map((size) =>
      heavy.weightOfWrite({ values: [null, 'x'.repeat(size)] }, 'ada'),
    );
    assert.deepEqual(weights, [0, 0, 0.25, 0.5, 1, 1]);
    const many = [1, 9, 25, 100, 1_000].map((rows) => heavy.weightOfWrite({ values: ['x'], rows }, 'ada'));
    assert.deepEqual(many, [0, 0, 0.25, 1, 1]);
  });
});

const document: Resource = {
  model: 'document',
  columns: { name: { type: 'string' }, body: { type: 'text' } },
  access: 'user',
};

describe('writes of large records', () => {
  let service: WritableService;
  before(async () => {
    service = await startWith([document]);
    for (const name of ['bob', 'eve']) await service.addUser(name);
  });
  after(() => service.close());

  /** How many statements wait for a lock of the table. */
  const waiting = async (): Promise<number> =>
    (
      await service.sql`
        select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`
    ).length;
  const write = (user: string, path: string, method: string, body: unknown) =>
    service.request(path, { method, user, body });

  /**
   * Sends writes while the table is locked. Time stands still for the service, or the weights would end.
   * @returns how many reach PostgreSQL at once
   */
  async function countRunning(
    context: TestContext,
    send: () => ReturnType<typeof write>[],
    expected: number,
  ): Promise<number> {
    let answers: ReturnType<typeof write>[] = [];
    let most = 0;
    const now = performance.now();
    const frozen = context.mock.method(performance, 'now', () => now);
    await service.sql.begin(async (transaction) => {
      await transaction`lock table document in access exclusive mode`;
      answers = send();
      for (let looks = 0; looks < 500 && most < expected; looks += 1) {
        most = Math.max(most, await waiting());
        await sleep(10);
      }
      await sleep(200);
      most = Math.max(most, await waiting());
    });
    frozen.mock.restore();
    for (const { status, text } of await Promise.all(answers)) assert.ok(status < 300, text);
    return most;
  }

  const light = { name: 'light', body: '' };

  test('run one at a time for a client while others are present, and light ones beside them', async (context) => {
    for (const user of ['bob', 'ada', 'eve'])
      assert.equal((await write(user, '/api/document/', 'POST', light)).status, 201);
    const large = { name: 'large', body: 'x'.repeat(70_000) };
    const send = () => [
      ...Array.from({ length: 4 }, () => write('ada', '/api/document/', 'POST', large)),
      ...Array.from({ length: 2 }, () => write('bob', '/api/document/', 'POST', light)),
    ];
    assert.equal(await countRunning(context, send, 3), 3);
  });

  test('also count when only the record is large and not the change', async (context) => {
    const large = { name: 'large', body: 'x'.repeat(70_000) };
    const { json } = await write('eve', '/api/document/', 'POST', large);
    const path = `/api/document/${json.id}/`;
    await sleep(1_100); // the POST itself no longer counts
    assert.equal((await write('eve', path, 'PATCH', { name: 'a' })).status, 200);
    const send = () => [
      write('bob', '/api/document/', 'POST', light),
      ...['b', 'c', 'd'].map((name) => write('eve', path, 'PATCH', { name })),
    ];
    assert.equal(await countRunning(context, send, 2), 2);
  });
});
