// How the service counts the requests, bytes and connections of clients, and divides its time among them.
import assert from 'node:assert/strict';
import { createRateLimit } from '../../src/http/load/rate-limit.ts';
import { serverUrl } from '../support.ts';
import { Problem } from '../../src/errors.ts';
import { createThrottle } from '../../src/http/auth/login-throttle.ts';
import { clientNetworkOf } from '../../src/http/auth/request-origin.ts';
import { createInFlight } from '../../src/http/load/in-flight-requests.ts';
import fc from 'fast-check';
import { ByteBudget } from '../../src/http/load/byte-budget.ts';
import { openDatabase } from '../../src/db/connection/database.ts';
import { sql } from '../../src/db/fragment.ts';
import { createStatement } from '../../src/db/rows.ts';
import { splitRows } from '../../src/query/read.ts';
import { piecesOf, piecesOfBytes } from '../../src/http/message/body-pieces.ts';
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, test } from 'node:test';

describe('the counts of clients', () => {
  let now = 0;
  const limit = createRateLimit({ perSecond: 10, burst: 3 }, undefined, () => now);

  test('a client may send the burst at once, and then one request per interval', () => {
    assert.deepEqual(
      [1, 2, 3].map(() => limit.spend('a')),
      [0, 0, 0],
    );
    assert.equal(limit.spend('a'), 0.1);
    now += 60;
    assert.ok(Math.abs(limit.spend('a') - 0.04) < 1e-9);
    now += 40;
    assert.equal(limit.spend('a'), 0);
    assert.ok(limit.spend('a') > 0);
    now += 10_000;
    assert.deepEqual(
      [1, 2, 3].map(() => limit.spend('a')),
      [0, 0, 0],
    );
    assert.ok(limit.spend('a') > 0);
  });

  test('requests that other processes have admitted count, also beyond the burst', () => {
    limit.charge([['b', 5]]);
    assert.equal(Math.round(limit.spend('b') * 1000), 300); // two too many, and one to wait for
    now += 300;
    assert.equal(limit.spend('b'), 0);
  });

  test('a new process gets the requests that clients do not have back yet', () => {
    const next = createRateLimit({ perSecond: 10, burst: 3 }, undefined, () => now);
    limit.spend('c');
    next.charge(limit.recent(Infinity));
    assert.deepEqual(
      [1, 2].map(() => next.spend('c')),
      [0, 0],
    );
    assert.ok(next.spend('c') > 0);
  });

  test('a new process gets the requests of the clients that have used most', () => {
    const next = createRateLimit({ perSecond: 10, burst: 3 }, undefined, () => now);
    for (const client of ['d', 'd', 'd', 'e', 'f', 'g']) limit.spend(client);
    now += 50;
    next.charge(limit.recent(2));
    assert.ok(next.spend('d') > 0);
  });

  test('the number of counted clients is bounded, and the one seen last is kept', () => {
    for (const client of ['early', 'late', 'late', 'late']) limit.spend(client);
    for (let count = 0; count < 49_990; count += 1) limit.spend(`client ${count}`);
    assert.ok(limit.spend('late') > 0);
    assert.equal(limit.spend('early'), 0);
    for (let count = 0; count < 200_000; count += 1) limit.spend(`other ${count}`);
    const counted = limit.recent(Infinity);
    assert.ok(counted.length >= 50_000 && counted.length <= 100_000, String(counted.length));
    assert.deepEqual(
      limit.recent(1).map(([key]) => key),
      ['other 199999'],
    );
  });
});

test('after the minute of the first failure, attempts are counted from zero', () => {
  let now = 1_000_000;
  const throttle = createThrottle(() => now);
  const retryAfter = (): string | undefined => {
    try {
      throttle.check('address', 'name');
      return undefined;
    } catch (error) {
      assert.ok(error instanceof Problem && error.status === 429);
      return error.headers['Retry-After'];
    }
  };
  for (let round = 0; round < 2; round += 1) {
    for (let index = 0; index < 10; index += 1) {
      assert.equal(retryAfter(), undefined);
      throttle.begin('address', 'name').end(true);
      now += 1000;
    }
    assert.equal(retryAfter(), '50');
    now += 49_001;
    assert.equal(retryAfter(), '1');
    now += 999;
    assert.equal(retryAfter(), undefined);
  }
});

test('the minute of the throttle starts with the first failure, not with a successful attempt', () => {
  let now = 0;
  const throttle = createThrottle(() => now);
  throttle.begin('address', 'name').end(false);
  now = 59_000;
  for (let index = 0; index < 10; index += 1) throttle.begin('address', 'name').end(true);
  now = 60_000;
  assert.throws(() => throttle.check('address', 'name'));
});

test('attempts in progress count as failures until they end, and successful ones do not count', () => {
  const throttle = createThrottle();
  const isRefused = (): boolean => {
    try {
      throttle.begin('address', 'name').end(false);
      return false;
    } catch (error) {
      assert.ok(error instanceof Problem && error.status === 429);
      return true;
    }
  };
  const ends = Array.from({ length: 10 }, () => throttle.begin('address', 'name'));
  assert.equal(isRefused(), true);
  ends.pop()?.end(false);
  assert.equal(isRefused(), false);
  for (const { end } of ends) end(true);
  assert.equal(isRefused(), false, 'nine have failed');
  throttle.begin('address', 'name').end(true);
  assert.equal(isRefused(), true);
});

const CONNECTION = '203.0.113.9';

describe('the client of X-Forwarded-For', () => {
  for (const [header, proxies, client] of [
    ['192.0.2.1', 0, CONNECTION],
    ['192.0.2.1', 1, '192.0.2.1'],
    ['192.0.2.1, 192.0.2.2', 1, '192.0.2.2'],
    ['192.0.2.1, 192.0.2.2', 2, '192.0.2.1'],
    ['192.0.2.1,192.0.2.2,\t192.0.2.3 ', 2, '192.0.2.2'],
    ['192.0.2.1, 192.0.2.2', 3, '192.0.2.1'],
    ['192.0.2.1, 192.0.2.2, 192.0.2.3, 192.0.2.4', 3, '192.0.2.2'],
    ['192.0.2.1,, 192.0.2.2, ,', 2, '192.0.2.1'],
    ['192.0.2.1:4711', 1, '192.0.2.1'],
    ['[2001:db8::1]:4711', 1, '2001:db8:0:0::/64'],
    ['2001:db8::1', 1, '2001:db8:0:0::/64'],
    ['unknown', 1, CONNECTION],
    ['', 1, CONNECTION],
    [' , ,', 1, CONNECTION],
  ] as const)
    test(`is ${client} for ${JSON.stringify(header)} behind ${proxies} proxies`, () => {
      assert.equal(clientNetworkOf({ 'x-forwarded-for': header }, CONNECTION, proxies), client);
    });

  test('is not searched behind thousands of empty values, which would keep the process busy', () => {
    const header = `192.0.2.1${','.repeat(31_000)}`;
    assert.equal(clientNetworkOf({ 'x-forwarded-for': header }, CONNECTION, 1), CONNECTION);
    assert.equal(clientNetworkOf({ 'x-forwarded-for': `${header}192.0.2.2` }, CONNECTION, 2), '192.0.2.2');
  });
});

test('shutdown waits for requests in flight', async () => {
  const inFlight = createInFlight();
  let ended = 0;
  const wait = (): Promise<unknown> => inFlight.drained().then(() => (ended += 1));
  await wait();
  inFlight.begin();
  inFlight.begin();
  const second = wait();
  inFlight.end();
  await sleep(50);
  assert.equal(ended, 1);
  inFlight.end();
  await second;
});

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
});

// Long bodies are sent in pieces of a bounded length, which are not needlessly short.
const MAX_PIECE = 262_144;

describe('the pieces of a body', () => {
  test('of many parts are its bytes, and no two neighbors would fit into one piece', () => {
    const part = fc.oneof(
      { weight: 6, arbitrary: fc.nat(100) },
      { weight: 2, arbitrary: fc.nat(200_000) },
      fc.nat(1_000_000),
    );
    fc.assert(
      fc.property(fc.array(part, { maxLength: 60 }), (lengths) => {
        const parts = lengths.map((length, index) => Buffer.alloc(length, index + 1));
        const pieces = [...piecesOfBytes(parts)];
        assert.ok(Buffer.concat(pieces).equals(Buffer.concat(parts)));
        pieces.forEach(({ length }, index) => {
          assert.ok(length > 0 && length <= MAX_PIECE);
          const next = pieces[index + 1]?.length ?? MAX_PIECE;
          // The rest of a divided part may be short.
          const isDivided = parts.some((one) => one.length > MAX_PIECE);
          assert.ok(
            isDivided || length + next > MAX_PIECE || parts.some((one) => one.length > MAX_PIECE / 2),
          );
        });
      }),
      { numRuns: 50 },
    );
  });

  test('of thousands of records and commas are few', () => {
    const record = Buffer.alloc(600, 'x');
    const comma = Buffer.from(',');
    const parts = Array.from({ length: 2_000 }, (_, index) => (index % 2 === 0 ? record : comma));
    assert.equal([...piecesOfBytes(parts)].length, 3);
  });

  test('of a text are its characters, with whole surrogate pairs', () => {
    const unit = fc.constantFrom('a', 'é', '🦉', '\ud800');
    fc.assert(
      fc.property(unit, fc.nat(3), fc.integer({ min: 60_000, max: 140_000 }), (one, offset, count) => {
        const text = 'x'.repeat(offset) + one.repeat(count);
        const pieces = [...piecesOf(text)] as string[];
        assert.ok(pieces.join('') === text);
        assert.equal(
          Buffer.concat(pieces.map((piece) => Buffer.from(piece))).length,
          Buffer.byteLength(text),
        );
      }),
      { numRuns: 20 },
    );
  });
});

test('the rows of a long page repeat none of its other columns', async () => {
  const database = openDatabase(serverUrl());
  try {
    const page = sql`select repeat('x', 2000000) as objects, 'first' as first, 't' as more, array['a', null, 'c'] as records`;
    const statement = createStatement(splitRows(page, ['more', 'first']), (rows) =>
      rows.map((row) => row.map((cell) => cell?.toString())),
    );
    assert.deepEqual(await database.run(statement, 'read'), [
      ['a', 't', 'first'],
      [undefined, undefined, undefined],
      ['c', undefined, undefined],
    ]);
  } finally {
    await database.close();
  }
});
