import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { ClientGone } from '../../src/db/requester.ts';
import { Problem } from '../../src/errors.ts';
import { createGate, type Turn } from '../../src/resources/gate.ts';

/** A gate whose work ends when the test says so. */
function openGate(atOnce = 1, reserved = 0) {
  const gate = createGate({ atOnce, reserved, maxWaiting: 4, maxWait: 60_000 });
  const started: string[] = [];
  const ends: (() => void)[] = [];
  const refused: string[] = [];
  const enter = (name: string, turn: Partial<Turn> = {}): void => {
    const work = (): Promise<void> => {
      started.push(name);
      return new Promise((resolve) => ends.push(resolve));
    };
    gate({ client: name.slice(0, 1), standing: 'stranger', ...turn }, work).catch((error: unknown) => {
      assert.ok(error instanceof ClientGone || (error instanceof Problem && error.status === 503));
      refused.push(name);
    });
  };
  const settle = async (): Promise<void> => {
    for (let turns = 0; turns < 20; turns += 1) await Promise.resolve();
  };
  /** Ends the work one by one until none is left. */
  const drain = async (): Promise<void> => {
    await settle();
    while (ends.length > 0) {
      ends.shift()?.();
      await settle();
    }
  };
  return { enter, started, refused, drain, settle };
}

describe('the gate', () => {
  test('lets clients take turns, however many tries one of them has', async () => {
    const { enter, started, drain } = openGate();
    for (const name of ['a0', 'a1', 'a2', 'b0', 'c0']) enter(name);
    await drain();
    assert.deepEqual(started, ['a0', 'a1', 'b0', 'c0', 'a2']);
  });

  test('refuses a try that would wait too long, and lets a client in that has few tries', async () => {
    const gate = createGate({ atOnce: 1, reserved: 0, maxWaiting: 100, maxWait: 100 });
    const results = await Promise.allSettled(
      [...Array<string>(20).fill('many'), 'few'].map((client) =>
        gate({ client, standing: 'stranger' }, () => Promise.resolve(client)),
      ),
    );
    const statuses = results.map(({ status }) => status);
    assert.ok(statuses.slice(0, 20).includes('rejected'));
    assert.equal(statuses.at(-1), 'fulfilled');
  });

  test('serves known addresses before known names, and neither waits behind strangers', async () => {
    const { enter, started, drain, settle } = openGate(2, 1);
    for (const name of ['s0', 't0', 'u0']) enter(name);
    for (const name of ['N0', 'M0']) enter(name, { standing: 'name' });
    enter('A0', { standing: 'address' });
    await settle();
    assert.deepEqual(started, ['s0', 'N0']);
    await drain();
    assert.deepEqual(started.slice(2), ['t0', 'A0', 'u0', 'M0']);
  });

  test('keeps places for familiar clients, and never lets one kind starve the other', async () => {
    const { enter, started, drain, settle } = openGate(2, 1);
    for (const name of ['s0', 't0', 'u0', 'v0', 'w0']) enter(name);
    await settle();
    assert.deepEqual(started, ['s0'], 'strangers do not take the place that is kept');
    for (const name of ['A0', 'B0', 'C0']) enter(name, { standing: 'address' });
    await settle();
    assert.deepEqual(started, ['s0', 'A0']);
    await drain();
    assert.deepEqual(started.slice(2), ['t0', 'B0', 'u0', 'C0', 'v0', 'w0']);
  });

  test('takes the try of a client that is gone out of the queue', async () => {
    const { enter, started, refused, drain } = openGate();
    const gone = new AbortController();
    enter('a0');
    enter('b0', { signal: gone.signal });
    enter('c0');
    gone.abort();
    enter('d0', { signal: gone.signal });
    await drain();
    assert.deepEqual(started, ['a0', 'c0']);
    assert.deepEqual(refused, ['b0', 'd0']);
  });
});
