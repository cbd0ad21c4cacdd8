import assert from 'node:assert/strict';
import { createOutbox } from '../../src/workers/outbox.ts';
import { createSharedState, type Batch, type SharedState } from '../../src/workers/shared-state.ts';
import { eventually } from '../http/expect.ts';
import { describe, test } from '../testing.ts';

/** Two processes, and the one between them that passes on what they count. */
function twoProcesses(): { readonly first: SharedState; readonly second: SharedState } {
  const second = createSharedState({ rateLimit: '' });
  const passOn = createOutbox((batch, onWritten) => {
    second.add(JSON.parse(JSON.stringify(batch)) as Batch);
    onWritten();
  });
  const outbox = createOutbox((batch, onWritten) => {
    passOn.forward(batch);
    onWritten();
  });
  return { first: createSharedState({ rateLimit: '' }, outbox), second };
}

describe('the cooldown after a slow read', () => {
  test('holds in the other processes, and adds up with that of another statement there', async () => {
    const { first, second } = twoProcesses();
    second.slowClients.coolDown('mallory', 10_000, 1, false);
    first.slowClients.coolDown('mallory', 10_000, 0.5, false);
    await eventually(() => second.slowClients.cooldownOf('mallory') > 50_000, 'the cooldown');
    assert.ok(second.slowClients.cooldownOf('mallory') <= 60_000);
    assert.equal(second.slowClients.isCoolingDown('mallory', 'slow'), true);
    assert.equal(second.slowClients.isCoolingDown('mallory', 'read'), false);
    assert.equal(second.slowClients.isSuspect('mallory'), false);
    assert.equal(second.slowClients.cooldownOf('alice'), 0);
  });

  test('makes its client suspect there as well, until it ends', async () => {
    const { first, second } = twoProcesses();
    let ended = 0;
    second.slowClients.onCooldownEnd = () => (ended += 1);
    first.slowClients.coolDown('mallory', 50, 1, true);
    await eventually(() => second.slowClients.isSuspect('mallory'), 'the suspicion');
    assert.equal(second.slowClients.isCoolingDown('mallory', 'read'), true);
    await eventually(() => ended === 1, 'the end of the cooldown');
    assert.equal(second.slowClients.isCoolingDown('mallory', 'read'), false);
    assert.equal(second.slowClients.isSuspect('mallory'), true);
  });
});
