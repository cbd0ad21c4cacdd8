// The streams that the first of several processes gives the others.
import assert from 'node:assert/strict';
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { setImmediate as turn, setTimeout as sleep } from 'node:timers/promises';
import { createGrantedSlots } from '../../src/workers/granted-slots.ts';
import type { ToParent, ToWorker, WorkerStart } from '../../src/workers/messages.ts';
import type { Worker } from '../../src/workers/worker.ts';
import { eventually } from '../http/expect.ts';
import { SERVICE } from '../../src/db/scheduling/requester.ts';
import { Scheduler } from '../../src/db/scheduling/scheduler.ts';
import { SlowClients } from '../../src/db/scheduling/slow-clients.ts';
import { newShape } from '../../src/db/statement-shapes.ts';
import { createOutbox } from '../../src/workers/outbox.ts';
import { type Batch, createSharedState, type SharedState } from '../../src/workers/shared-state.ts';
import { sumMetrics } from '../../src/http/observability/metrics-sum.ts';
import { describe, test } from 'node:test';

/** A process that only notes what it is sent. */
function process(number: number) {
  const answers: [id: number, isFree: boolean][] = [];
  const gone = new AbortController();
  const send = (message: ToWorker): void => {
    if (message.kind === 'slot') answers.push([message.id, message.isFree]);
  };
  const worker = { number, send, gone: gone.signal } as unknown as Worker;
  return { worker, answers, end: () => gone.abort() };
}

const stream = (id: number, clientKind: 'anonymous' | 'user' | 'admin' = 'anonymous') =>
  ({ kind: 'stream', id, client: 'mallory', clientKind }) as const;

describe('the streams of a client in several processes', () => {
  for (const [kind, limit] of [
    ['anonymous', 1],
    ['user', 1],
    ['admin', 2],
  ] as const)
    test(`are ${limit} together (${kind})`, async () => {
      const slots = createGrantedSlots();
      const processes = [process(1), process(2), process(3)];
      for (const { worker } of processes) slots.receive(worker, stream(1, kind));
      const answers = () => processes.flatMap(({ answers }) => answers);
      await eventually(() => answers().length === 3, 'the answers');
      assert.equal(answers().filter(([, isFree]) => isFree).length, limit);
    });

  test('wait for one whose search has not ended', async () => {
    const slots = createGrantedSlots();
    const [one, two] = [process(1), process(2)];
    slots.receive(one.worker, stream(1));
    await eventually(() => one.answers.length, 'the first stream');
    slots.receive(one.worker, { kind: 'ending', id: 1 });
    slots.receive(two.worker, stream(1));
    await sleep(500); // beside a stream that goes on, it would be refused by now
    assert.deepEqual(two.answers, []);
    slots.receive(one.worker, { kind: 'release', id: 1 });
    await eventually(() => two.answers.length, 'the second stream');
    assert.deepEqual(two.answers, [[1, true]]);
  });

  const ways = {
    'their client leaves': (slots: ReturnType<typeof createGrantedSlots>, { worker }: { worker: Worker }) =>
      slots.receive(worker, { kind: 'release', id: 1 }),
    'their process ends': (slots: ReturnType<typeof createGrantedSlots>, it: ReturnType<typeof process>) => {
      it.end();
      slots.forget(it.worker);
    },
  };
  for (const [way, happen] of Object.entries(ways))
    for (const isWaiting of [false, true])
      test(`are free again when ${way}, ${isWaiting ? 'at once' : 'after the first has begun'}`, async () => {
        const slots = createGrantedSlots();
        const [one, two] = [process(1), process(2)];
        slots.receive(one.worker, stream(1));
        if (!isWaiting) await eventually(() => one.answers.length, 'the first stream');
        happen(slots, one);
        slots.receive(two.worker, stream(1));
        await eventually(() => two.answers.length, 'the second stream');
        assert.deepEqual(two.answers, [[1, true]]);
      });

  test('are free again after their maximum duration if their process does not run', async () => {
    const slots = createGrantedSlots({ anonymous: 1_500, user: 1_500, admin: 1_500 }, 500);
    const [frozen, two] = [process(1), process(2)];
    slots.receive(frozen.worker, stream(1));
    await eventually(() => frozen.answers.length, 'the first stream');
    const isFree = async (): Promise<boolean> => {
      const known = two.answers.length;
      slots.receive(two.worker, stream(known));
      await eventually(() => two.answers.length > known, 'an answer');
      return two.answers.at(-1)?.[1] ?? false;
    };
    await eventually(isFree, 'the second stream');
    assert.deepEqual(two.answers[0], [0, false]);
  });

  test('are asked for a few times at once only, while the first process does not answer', async () => {
    const child = fork('test/internals/asking-worker.ts', { execArgv: ['--import', 'tsx'] });
    const exited = once(child, 'exit');
    let asked = 0;
    let refused: string | undefined;
    child.on('message', (message: ToParent) => {
      const start = { number: 2, processes: 2, countsStreams: true, secret: '' } as WorkerStart;
      if (message.kind === 'join') child.send({ kind: 'start', start });
      else if (message.kind === 'stream') asked += 1;
      else if (message.kind === 'ready') refused = message.text;
    });
    try {
      await eventually(() => refused, 'the refusals');
      assert.equal(refused, '6 6');
      assert.equal(asked, 8);
    } finally {
      child.kill();
      await exited;
    }
  });
});

/** Two processes, and the one between them that passes on what they count. */
function twoProcesses(): readonly [SharedState, SharedState] {
  const outboxTo = (other: () => SharedState | undefined) => {
    const passOn = createOutbox((batch, onWritten) => {
      other()?.add(JSON.parse(JSON.stringify(batch)) as Batch);
      onWritten();
    });
    return createOutbox((batch, onWritten) => {
      passOn.forward(batch);
      onWritten();
    });
  };
  const states: SharedState[] = [];
  const start = (other: number): SharedState =>
    createSharedState(
      { rateLimit: '' },
      outboxTo(() => states[other]),
    );
  states.push(start(1), start(0));
  return [states[0] ?? start(1), states[1] ?? start(0)];
}

test('requests that another process has added up are passed on before new ones are', async () => {
  const sent: string[] = [];
  const outboxOf = () =>
    createOutbox(({ rates }, onWritten) => {
      sent.push(...rates.map(([key]) => key));
      onWritten();
    });
  outboxOf().request('new');
  // Another outbox, because a batch takes everything that waits.
  outboxOf().forward({ failures: [], logins: [], rates: [['added up', 3]] });
  await eventually(() => sent.length === 2, 'both batches');
  assert.deepEqual(sent, ['added up', 'new']);
});

describe('the cooldown after a slow read', () => {
  test('holds in the other processes, and adds up with that of another statement there', async () => {
    const [{ slowClients: first }, { slowClients: second }] = twoProcesses();
    second.coolDown('mallory', 5_000, 1, false);
    first.coolDown('mallory', 5_000, 0.5, false);
    for (const clients of [first, second]) {
      await eventually(() => clients.cooldownOf('mallory') > 25_000, 'the cooldown');
      assert.ok(clients.cooldownOf('mallory') <= 30_000);
      assert.equal(clients.isCoolingDown('mallory', 'slow'), true);
      assert.equal(clients.isCoolingDown('mallory', 'read'), false);
      assert.equal(clients.isSuspect('mallory'), false);
      assert.equal(clients.cooldownOf('alice'), 0);
    }
  });

  test('is no longer there than in the process of the client, however many of its reads are slow', async () => {
    const [{ slowClients: first }, { slowClients: second }] = twoProcesses();
    for (let count = 0; count < 200; count += 1) first.coolDown('mallory', 3_000, 1, false);
    await eventually(() => second.cooldownOf('mallory') > 0, 'the cooldown');
    await eventually(() => second.cooldownOf('mallory') > 11_000, 'the whole of it');
    assert.ok(second.cooldownOf('mallory') <= 12_500);
    for (let count = 0; count < 100; count += 1) second.learn([['mallory', 50_000, false]]);
    assert.ok(second.cooldownOf('mallory') <= 60_000, 'a minute at most');
  });

  test('makes its client suspect there as well, until it ends', async () => {
    const [{ slowClients: first }, { slowClients: second }] = twoProcesses();
    let ended = 0;
    second.onCooldownEnd = () => (ended += 1);
    first.coolDown('mallory', 50, 1, true);
    await eventually(() => second.isSuspect('mallory'), 'the suspicion');
    assert.equal(second.isCoolingDown('mallory', 'read'), true);
    await eventually(() => ended === 1, 'the end of the cooldown');
    assert.equal(second.isCoolingDown('mallory', 'read'), false);
    assert.equal(second.isSuspect('mallory'), true);
  });

  test('holds in a process that starts later', () => {
    const [first] = twoProcesses();
    first.slowClients.coolDown('mallory', 5_000, 1, true);
    const later = createSharedState({ rateLimit: '' });
    for (const batch of first.recent()) later.add(batch);
    assert.ok(later.slowClients.cooldownOf('mallory') > 15_000);
    assert.equal(later.slowClients.isCoolingDown('mallory', 'read'), true);
  });

  test('refuses at once what would wait too long there', async () => {
    const slowClients = new SlowClients();
    const scheduler = new Scheduler(undefined, undefined, { slowClients });
    const mallory = { ...SERVICE, key: 'mallory', clientKind: 'anonymous' as const };
    const enter = () => Promise.resolve(scheduler.enter('slow', mallory, newShape('select')));
    const running = await enter();
    assert.ok(running);
    let isOver = false;
    const waiting = enter().finally(() => (isOver = true));
    await turn();
    assert.equal(isOver, false);
    slowClients.learn([['mallory', 30_000, false]]);
    await assert.rejects(waiting, { status: 429 });
    scheduler.leave(running);
    scheduler.close();
  });
});

test('of several processes a replica is in the rotation if all use it, and its lag is the longest', () => {
  const documents = [
    ['1', '0.5', '100'],
    ['0', '12', 'NaN'],
  ].map(([isUsed, seconds, bytes]) =>
    [
      ['in_rotation', 'gauge', isUsed],
      ['lag_seconds', 'gauge', seconds],
      ['lag_bytes', 'gauge', bytes],
      ['reads_total', 'counter', '7'],
    ]
      .map(([name, type, value]) => {
        const metric = `vitrine_replica_${name}`;
        return `# HELP ${metric} x\n# TYPE ${metric} ${type}\n${metric}{replica="a"} ${value}\n`;
      })
      .join(''),
  );
  const values = sumMetrics(documents).match(/(?<=\} ).*$/gm);
  assert.deepEqual(values, ['0', '12', 'NaN', '14']);
});
