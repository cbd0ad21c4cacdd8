import assert from 'node:assert/strict';
import fc from 'fast-check';
import { ByteBudget } from '../../src/http/load/byte-budget.ts';
import { describe, test } from 'node:test';

const TOTAL = 64_000;
const ORDINARY = TOTAL / 64;

/** A client takes more bytes, or releases all of them. */
interface Step {
  readonly client: number;
  readonly bytes: number;
  readonly ends: boolean;
}

const steps = (clients: number): fc.Arbitrary<Step[]> =>
  fc.array(
    fc.record({
      client: fc.nat(clients - 1),
      bytes: fc.oneof(fc.integer({ min: 1, max: 2 * ORDINARY }), fc.integer({ min: 1, max: TOTAL / 2 })),
      ends: fc.nat(4).map((one) => one === 0),
    }),
    { maxLength: 200 },
  );

/** Takes as much as the budget grants: each amount is halved until it fits. */
function takeAll(all: readonly Step[]): { budget: ByteBudget; held: Map<string, number> } {
  const budget = new ByteBudget(TOTAL);
  const held = new Map<string, number>();
  for (const { client, bytes, ends } of all) {
    const name = `client ${client}`;
    const has = held.get(name) ?? 0;
    if (ends) {
      budget.release(name, has);
      held.delete(name);
      continue;
    }
    let amount = bytes;
    while (amount > 0 && budget.exceededLimit(name, amount)) amount = Math.floor(amount / 2);
    if (amount === 0) continue;
    budget.take(name, amount);
    held.set(name, has + amount);
  }
  return { budget, held };
}

describe('a byte budget', () => {
  test('that up to eight clients exhaust has room for an ordinary request of another client', () => {
    fc.assert(
      fc.property(steps(8), (all) => {
        const { budget, held } = takeAll(all);
        const sum = [...held.values()].reduce((one, other) => one + other, 0);
        assert.equal(budget.used, sum);
        assert.ok(sum <= TOTAL);
        assert.equal(budget.exceededLimit('newcomer', ORDINARY), undefined);
      }),
      { numRuns: 500 },
    );
  });

  test('that two clients exhaust has room for large requests of another client', () => {
    fc.assert(
      fc.property(steps(2), (all) => {
        const { budget } = takeAll(all);
        assert.ok(budget.used <= (TOTAL * 3) / 4);
        assert.equal(budget.exceededLimit('newcomer', TOTAL / 16), undefined);
      }),
    );
  });

  test('is free again when all clients have released their bytes', () => {
    fc.assert(
      fc.property(steps(8), (all) => {
        const { budget, held } = takeAll(all);
        for (const [client, bytes] of held) budget.release(client, bytes);
        assert.equal(budget.used, 0);
        assert.equal(budget.exceededLimit('newcomer', TOTAL), undefined);
      }),
    );
  });

  test('grants many clients the bytes of ordinary requests', () => {
    const budget = new ByteBudget(TOTAL);
    for (let client = 0; client < 64; client += 1) {
      assert.equal(budget.exceededLimit(`client ${client}`, ORDINARY), undefined);
      budget.take(`client ${client}`, ORDINARY);
    }
    assert.equal(budget.exceededLimit('one more', 1), 'total');
  });

  test('that the networks of one IPv6 customer exhaust has room for others', () => {
    const budget = new ByteBudget(TOTAL);
    for (let client = 1; client < 200; client += 1) {
      const network = `2001:db8:1:${client.toString(16)}::/64`;
      while (!budget.exceededLimit(network, ORDINARY / 4)) budget.take(network, ORDINARY / 4);
    }
    assert.ok(budget.used <= TOTAL / 2, String(budget.used));
    for (const other of ['2001:db8:2:1::/64', '192.0.2.1'])
      assert.equal(budget.exceededLimit(other, 8 * ORDINARY), undefined);
  });

  test('that one IPv6 client uses as far as it may has room for ordinary requests of its neighbors', () => {
    for (const others of [[], ['192.0.2.1'], ['192.0.2.1', '2001:db8:2:1::/64']]) {
      const budget = new ByteBudget(TOTAL);
      for (const client of ['2001:db8:1:1::/64', ...others])
        while (!budget.exceededLimit(client, ORDINARY / 4)) budget.take(client, ORDINARY / 4);
      for (const neighbor of ['2001:db8:1:2::/64', '2001:db8:1:ff00::/64']) {
        assert.equal(budget.exceededLimit(neighbor, ORDINARY), undefined, neighbor);
        budget.take(neighbor, ORDINARY);
      }
      assert.equal(budget.exceededLimit('2001:db8:1:3::/64', ORDINARY), 'total');
    }
  });

  test('tells an IPv6 client that it is not the reason when its neighbors are', () => {
    const budget = new ByteBudget(TOTAL);
    const [one, neighbor] = ['2001:db8:1:1::/64', '2001:db8:1:2::/64'];
    while (!budget.exceededLimit(one, ORDINARY)) budget.take(one, ORDINARY);
    assert.equal(budget.exceededLimit(one, ORDINARY), 'share');
    assert.equal(budget.exceededLimit(neighbor, 8 * ORDINARY), 'total');
  });

  test('leaves another client half of the total to share while many clients of one /48 hold a little more than an ordinary request', () => {
    const budget = new ByteBudget(TOTAL);
    for (let client = 1; client <= 20; client += 1) budget.take(`2001:db8:1:${client}::/64`, 1.2 * ORDINARY);
    assert.equal(budget.exceededLimit('192.0.2.1', 16 * ORDINARY), undefined);
  });
});
