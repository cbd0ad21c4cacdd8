import assert from 'node:assert/strict';
import { setImmediate as turn } from 'node:timers/promises';
import { Scheduler } from '../../src/db/scheduling/scheduler.ts';
import { SlowClients } from '../../src/db/scheduling/slow-clients.ts';
import { SERVICE } from '../../src/db/scheduling/requester.ts';
import { newShape } from '../../src/db/statement-shapes.ts';
import { createOutbox } from '../../src/workers/outbox.ts';
import { createSharedState, type Batch, type SharedState } from '../../src/workers/shared-state.ts';
import { eventually } from '../http/expect.ts';
import { describe, test } from 'node:test';

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
