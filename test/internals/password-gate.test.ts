import assert from 'node:assert/strict';
import { ClientGone } from '../../src/db/scheduling/requester.ts';
import { Problem } from '../../src/errors.ts';
import { createGate, type SlotRequest } from '../../src/resources/passwords/password-gate.ts';
import { describe, test } from 'node:test';

/** A gate with work that ends when the test ends it. */
function openGate(atOnce = 1, reserved = 0) {
  const gate = createGate({ atOnce, reserved, maxWaiting: 4, maxWait: 60_000 });
  const started: string[] = [];
  const ends: (() => void)[] = [];
  const refused: string[] = [];
  const enter = (name: string, request: Partial<SlotRequest> = {}): void => {
    const work = (): Promise<void> => {
      started.push(name);
      return new Promise((resolve) => ends.push(resolve));
    };
    gate({ client: name.slice(0, 1), priority: 'unknown', ...request }, work).catch((error: unknown) => {
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

describe('the password gate', () => {
  test('lets clients take turns, however many attempts one of them has', async () => {
    const { enter, started, drain } = openGate();
    for (const name of ['a0', 'a1', 'a2', 'b0', 'c0']) enter(name);
    await drain();
    assert.deepEqual(started, ['a0', 'a1', 'b0', 'c0', 'a2']);
  });

  test('refuses an attempt that would wait too long, and accepts a client with few attempts', async () => {
    const gate = createGate({ atOnce: 1, reserved: 0, maxWaiting: 100, maxWait: 100 });
    const results = await Promise.allSettled(
      [...Array<string>(20).fill('many'), 'few'].map((client) =>
        gate({ client, priority: 'unknown' }, () => Promise.resolve(client)),
      ),
    );
    const statuses = results.map(({ status }) => status);
    assert.ok(statuses.slice(0, 20).includes('rejected'));
    assert.equal(statuses.at(-1), 'fulfilled');
  });

  test('does not refuse known clients because unknown ones wait long for their place among several processes', async () => {
    const gate = createGate({ atOnce: 2, reserved: 1, maxWaiting: 100, maxWait: 1000 });
    const long = (): Promise<unknown> => new Promise((resolve) => setTimeout(resolve, 1500));
    for (let runs = 0; runs < 2; runs += 1) await gate({ client: 'unknown', priority: 'unknown' }, long);
    const flood = gate({ client: 'unknown', priority: 'unknown' }, long);
    const names = Array.from({ length: 6 }, (_, index) => `known ${index}`);
    await Promise.all(names.map((client) => gate({ client, priority: 'network' }, () => Promise.resolve())));
    await flood;
  });

  test('serves a known network first, then a known name, and neither waits behind unknown clients', async () => {
    const { enter, started, drain, settle } = openGate(2, 1);
    for (const name of ['s0', 't0', 'u0']) enter(name);
    for (const name of ['N0', 'M0']) enter(name, { priority: 'name' });
    enter('A0', { priority: 'network' });
    await settle();
    assert.deepEqual(started, ['s0', 'N0']);
    await drain();
    assert.deepEqual(started.slice(2), ['t0', 'A0', 'u0', 'M0']);
  });

  test('reserves slots for known clients, and never lets one kind starve the other', async () => {
    const { enter, started, drain, settle } = openGate(2, 1);
    for (const name of ['s0', 't0', 'u0', 'v0', 'w0']) enter(name);
    await settle();
    assert.deepEqual(started, ['s0'], 'unknown clients do not take the reserved slot');
    for (const name of ['A0', 'B0', 'C0']) enter(name, { priority: 'network' });
    await settle();
    assert.deepEqual(started, ['s0', 'A0']);
    await drain();
    assert.deepEqual(started.slice(2), ['t0', 'B0', 'u0', 'C0', 'v0', 'w0']);
  });

  test('lets the widest networks take turns before the networks in them, and estimates their waits separately', async () => {
    const gate = createGate({ atOnce: 1, reserved: 0, maxWaiting: 1000, maxWait: 1000 });
    const order: string[] = [];
    const enter = (network: string, widestNetwork: string): Promise<unknown> =>
      gate({ client: network, priority: 'unknown', from: { network, widestNetwork } }, async () => {
        order.push(network);
        await new Promise(setImmediate);
      });
    const flood = Array.from({ length: 200 }, (_, index) => enter(`many${index}`, 'one'));
    const few = ['other', 'another'].map((network) => enter(network, network));
    const all = await Promise.allSettled([...few, ...flood]);
    assert.deepEqual(order.slice(0, 4), ['many0', 'many1', 'other', 'another']);
    assert.ok(all.slice(2).some(({ status }) => status === 'rejected'));
  });

  test('makes room for a client of another network when one network has filled the queue', async () => {
    const { enter, started, refused, drain, settle } = openGate();
    for (let index = 0; index < 6; index += 1)
      enter(`a${index}`, { from: { network: `a${index}`, widestNetwork: 'one' } });
    enter('b0', { from: { network: 'b', widestNetwork: 'two' } });
    enter('b1', { from: { network: 'b', widestNetwork: 'two' } });
    enter('b2', { from: { network: 'b', widestNetwork: 'two' } });
    await settle();
    assert.deepEqual(refused, ['a5', 'a4', 'a3', 'b2']);
    await drain();
    assert.deepEqual(started, ['a0', 'a1', 'b0', 'a2', 'b1']);
  });

  test('gives a known name its priority only for the first attempt of a network', async () => {
    const { enter, started, drain, settle } = openGate(2, 1);
    const from = { network: 'f', widestNetwork: 'flood' };
    for (const name of ['f0', 'f1', 'f2']) enter(name, { from });
    enter('N0', { priority: 'name', from });
    await settle();
    assert.deepEqual(started, ['f0'], 'the flood does not see that the name is known');
    enter('N1', { priority: 'name', from: { network: 'x', widestNetwork: 'home' } });
    enter('N2', { priority: 'name', from: { network: 'x', widestNetwork: 'home' } });
    await settle();
    assert.deepEqual(started, ['f0', 'N1']);
    await drain();
    assert.deepEqual(started.slice(2), ['f1', 'N2', 'f2', 'N0']);
    for (const name of ['s0', 't0']) enter(name);
    enter('N3', { priority: 'name', from });
    await settle();
    assert.deepEqual(started.slice(6), ['s0', 'N3'], 'the network has no other attempt now');
    await drain();
  });

  test('lets known networks and known names take turns, however many there are of one kind', async () => {
    const { enter, started, drain } = openGate();
    for (const name of ['A0', 'B0', 'C0', 'D0']) enter(name, { priority: 'network' });
    for (const name of ['M0', 'N0']) enter(name, { priority: 'name' });
    await drain();
    assert.deepEqual(started, ['A0', 'B0', 'M0', 'C0', 'N0', 'D0']);
  });

  test('gives new passwords one slot, behind all waiting logins', async () => {
    const { enter, started, drain, settle } = openGate(2, 1);
    for (const name of ['p0', 'p1', 'p2', 'q0']) enter(name, { priority: 'new' });
    await settle();
    assert.deepEqual(started, ['p0'], 'a slot is left');
    for (const name of ['A0', 'B0', 'C0']) enter(name, { priority: 'network' });
    enter('N0', { priority: 'name' });
    await drain();
    assert.deepEqual(started.slice(1), ['A0', 'B0', 'N0', 'C0', 'p1', 'q0', 'p2']);
  });

  test('lets the clients of a group share its turns', async () => {
    const { enter, started, drain } = openGate();
    for (const name of ['a0', 'b0', 'c0']) enter(name, { priority: 'new', group: 'anonymous' });
    for (const name of ['u0', 'v0']) enter(name, { priority: 'new' });
    await drain();
    assert.deepEqual(started, ['a0', 'b0', 'u0', 'v0', 'c0']);
  });

  test('removes the attempt of a client that has left from the queue, and starts no further one', async () => {
    const { enter, started, refused, drain, settle } = openGate();
    const gone = new AbortController();
    enter('a0');
    enter('b0', { signal: gone.signal });
    enter('c0');
    gone.abort();
    enter('d0', { signal: gone.signal });
    await drain();
    enter('e0', { signal: gone.signal });
    await settle();
    assert.deepEqual(started, ['a0', 'c0']);
    assert.deepEqual(refused, ['b0', 'd0', 'e0']);
  });
});
