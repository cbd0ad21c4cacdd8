// Requests, new and queued, wait until the process has accepted all connections.
import assert from 'node:assert/strict';
import { setImmediate as nextIteration } from 'node:timers/promises';
import { Arrivals } from '../../src/http/load/arrivals.ts';
import { test } from 'node:test';

test('without new connections, requests do not wait', () => {
  assert.equal(new Arrivals().afterBurst(), undefined);
});

test('requests wait until an iteration of the event loop has accepted no connection', async () => {
  const arrivals = new Arrivals(Infinity);
  arrivals.accepted();
  let isSettled = false;
  const afterBurst = arrivals.afterBurst()?.then(() => (isSettled = true));
  for (let iteration = 0; iteration < 5; iteration += 1) {
    await nextIteration();
    assert.equal(isSettled, false);
    assert.notEqual(arrivals.afterBurst(), undefined, 'later requests wait as well');
    arrivals.accepted();
  }
  await afterBurst;
  assert.equal(arrivals.afterBurst(), undefined);
});

test('requests do not wait for ever while connections keep coming', async () => {
  const arrivals = new Arrivals();
  arrivals.accepted();
  let isSettled = false;
  void arrivals.afterBurst()?.then(() => (isSettled = true));
  while (!isSettled) {
    arrivals.accepted();
    await nextIteration();
  }
});

test('queued requests leave an iteration to connections only if the last one has accepted some', () => {
  const arrivals = new Arrivals();
  assert.equal(arrivals.decideHold(0), false);
  arrivals.accepted();
  assert.equal(arrivals.decideHold(1), true);
  assert.equal(arrivals.decideHold(2), false);
});

test('queued requests have a fifth of the time while connections keep coming', () => {
  const arrivals = new Arrivals();
  const held = Array.from({ length: 400 }, (_, now) => {
    arrivals.accepted();
    return arrivals.decideHold(now);
  });
  const holds = held.map((isHeld) => (isHeld ? 'held' : ' ')).join('');
  for (const hold of holds.match(/(held)+/g) ?? []) assert.ok(hold.length <= 20 * 'held'.length, holds);
  const free = held.filter((isHeld) => !isHeld).length;
  assert.ok(free >= 75 && free < 100, String(free));
});

test('connections are many beyond ten at once, and for a second after any flood', () => {
  const arrivals = new Arrivals();
  const accept = (count: number): void => {
    for (let left = count; left > 0; left -= 1) arrivals.accepted();
  };
  accept(10);
  assert.equal(arrivals.isBurst(performance.now()), false);
  accept(100_000);
  const now = performance.now();
  assert.equal(arrivals.isBurst(now + 900), true);
  assert.equal(arrivals.isBurst(now + 1_100), false);
});
