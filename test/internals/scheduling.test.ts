import assert from 'node:assert/strict';
import { Shapes } from '../../src/db/statement-shapes.ts';
import { randomBytes } from 'node:crypto';
import fc from 'fast-check';
import { createPositionTokens } from '../../src/db/replicas/position-token.ts';
import { AlternatingQueue } from '../../src/db/scheduling/alternating-queue.ts';
import { FairQueue } from '../../src/db/scheduling/fair-queue.ts';
import { TimeQueue } from '../../src/db/scheduling/time-queue.ts';
import { RequestQueue } from '../../src/http/load/request-queue.ts';
import { describe, test } from 'node:test';

test('a canceled statement does not lower the cost of its shape', () => {
  const shapes = new Shapes();
  const shape = shapes.use('select');
  shapes.measure(shape, 1_000, true);
  for (let time = 0; time < 50; time += 1) shapes.measure(shape, 30, false);
  assert.equal(shape.cost, 1_000);
});

test('shapes that were used once make room for others, and shapes of the program never do', () => {
  const shapes = new Shapes();
  const known = [shapes.use('used twice'), shapes.use('used twice'), shapes.use('of the program', true)];
  for (let index = 0; index < 2_000; index += 1) shapes.use(`never run ${index}`);
  assert.deepEqual(
    known.map(({ isForgotten }) => isForgotten),
    [false, false, false],
  );
  assert.ok(shapes.use('never run 0').uses === 1, 'it was forgotten');
});

test('statements are prepared from their second use on, and the least recently used make room', () => {
  const shapes = new Shapes();
  const isPrepared = (text: string): boolean => shapes.prepare(shapes.use(text));
  assert.deepEqual([isPrepared('hot'), isPrepared('hot'), isPrepared('hot')], [false, true, true]);
  for (let index = 0; index < 1_000; index += 1) {
    assert.equal(isPrepared(`varied ${index}`), false);
    assert.equal(isPrepared(`varied ${index}`), true);
    if (index % 100 === 0) assert.equal(isPrepared('hot'), true, 'a statement in constant use stays');
  }
  assert.equal(isPrepared('varied 10'), false, 'a statement that was not used for long is forgotten');
});

test('a long text is not prepared, because PostgreSQL would keep its long plan', () => {
  const shapes = new Shapes();
  const text = `select ${'1 + '.repeat(2_500)}1`;
  for (let times = 0; times < 3; times += 1) assert.equal(shapes.prepare(shapes.use(text)), false);
});

test('long texts make room for others before they take 8 MiB together, the least recently used first', () => {
  const shapes = new Shapes();
  const texts = (count: number, length: number, name: string): string[] =>
    Array.from({ length: count }, (_, index) => `${name} ${index}`.padEnd(length, '.'));
  const ofProgram = shapes.use('of the program', true);
  const short = texts(10, 100, 'short').map((text) => shapes.use(text));
  const long = texts(100, 150_000, 'long').map((text) => shapes.use(text));
  const kept = long.filter(({ isForgotten }) => !isForgotten);
  assert.equal(kept.length, Math.floor((8 * 1024 * 1024) / 150_000));
  assert.deepEqual(kept, long.slice(-kept.length));
  assert.ok(!ofProgram.isForgotten && short.every(({ isForgotten }) => isForgotten));
  // What was evicted no longer counts: as many short texts as before fit.
  const others = texts(499, 100, 'other').map((text) => shapes.use(text));
  assert.ok(!ofProgram.isForgotten && others.every(({ isForgotten }) => !isForgotten));
});

test('a text that has no room beside those of the program is run all the same', () => {
  const shapes = new Shapes();
  const ofProgram = shapes.use('x'.repeat(9 * 1024 * 1024), true);
  const other = shapes.use('select');
  assert.deepEqual([ofProgram.isForgotten, other.isForgotten, other.uses], [false, false, 1]);
});

const secret = randomBytes(32);
const tokens = createPositionTokens(secret, '1 5');
const MAX_POSITION = 2n ** 64n - 1n;

describe('the token of a position', () => {
  test('is 64 characters that give the position back', () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: 2 ** 32 - 1 }),
        fc.bigInt({ min: 0n, max: MAX_POSITION }),
        fc.nat(),
        (timeline, position, seconds) => {
          const written = { reached: { timeline, position }, issued: seconds * 1000 };
          const token = tokens.seal(written);
          assert.match(token, /^[\w-]{64}$/);
          assert.deepEqual(tokens.openAll(token), [written]);
        },
      ),
    );
  });

  test('has at each place any character, so that it does not tell whether the position has changed', () => {
    const written = { reached: { timeline: 1, position: 77n }, issued: 5_000 };
    const made = Array.from({ length: 400 }, () => tokens.seal(written));
    for (let at = 0; at < 64; at += 1) {
      const different = new Set(made.map((token) => token[at])).size;
      assert.ok(different > 40, `${different} characters at ${at}`);
    }
  });

  test('can say that the position is unknown', () => {
    const token = tokens.seal({ reached: undefined, issued: 5_000 });
    assert.deepEqual(tokens.openAll(token), [{ reached: undefined, issued: 5_000 }]);
  });

  test('is not accepted with another secret, or for another database', () => {
    const token = tokens.seal({ reached: { timeline: 1, position: 1n }, issued: 0 });
    assert.deepEqual(createPositionTokens(randomBytes(32), '1 5').openAll(token), undefined);
    assert.deepEqual(createPositionTokens(secret, '2 5').openAll(token), undefined);
  });

  test('is refused after any change of a byte', () => {
    const bytes = Buffer.from(
      tokens.seal({ reached: { timeline: 1, position: 77n }, issued: 0 }),
      'base64url',
    );
    for (let at = 0; at < bytes.length; at += 1) {
      const changed = Buffer.from(bytes);
      changed[at] = (changed[at] ?? 0) ^ 1;
      assert.deepEqual(tokens.openAll(changed.toString('base64url')), undefined);
    }
  });

  test('is refused in texts of any other form', () => {
    fc.assert(
      fc.property(fc.string(), (text) => {
        assert.equal(tokens.openAll(text), undefined);
      }),
    );
    const token = tokens.seal({ reached: undefined, issued: 0 });
    assert.equal(tokens.openAll(`${token},${token}`)?.length, 2);
    assert.equal(tokens.openAll(`${token},x`), undefined);
    assert.deepEqual(tokens.openAll(Array.from({ length: 23 }, () => token).join()), undefined);
    assert.deepEqual(tokens.openAll('a'.repeat(1_000_000)), undefined);
  });
});

describe('a fair queue', () => {
  test('serves clients in turn, and the entries of a client in their order', () => {
    const entries = fc.array(fc.tuple(fc.constantFrom('a', 'b', 'c'), fc.nat()), { maxLength: 40 });
    fc.assert(
      fc.property(entries, (pushed) => {
        const queue = new FairQueue<{ key: string; index: number }>();
        pushed.forEach(([key], index) => queue.push(key, { key, index }));
        const served: { key: string; index: number }[] = [];
        for (let next = queue.shift(() => true); next; next = queue.shift(() => true)) served.push(next);
        assert.equal(served.length, pushed.length);
        for (const key of ['a', 'b', 'c']) {
          const own = served.filter((one) => one.key === key).map(({ index }) => index);
          assert.deepEqual(
            own,
            [...own].sort((one, other) => one - other),
          );
        }
        // No client is served twice while another client waits for its first turn.
        const counts: Record<string, number> = { a: 0, b: 0, c: 0 };
        const totals = { ...counts };
        for (const { key } of served) totals[key] = (totals[key] ?? 0) + 1;
        for (const { key } of served) {
          const own = (counts[key] ?? 0) + 1;
          for (const other of Object.keys(counts))
            assert.ok((counts[other] ?? 0) >= Math.min(own - 1, totals[other] ?? 0), 'in turn');
          counts[key] = own;
        }
      }),
    );
  });

  test('estimates how many entries at most are served before a new one', () => {
    const keys = fc.array(fc.constantFrom('a', 'b', 'c', 'd'), { maxLength: 30 });
    fc.assert(
      fc.property(keys, fc.constantFrom('a', 'd', 'e'), (pushed, key) => {
        const queue = new FairQueue<object>();
        for (const one of pushed) queue.push(one, {});
        const ahead = queue.ahead(key);
        const last = {};
        queue.push(key, last);
        let before = 0;
        while (queue.shift(() => true) !== last) before += 1;
        assert.ok(before <= ahead, `${before} of ${ahead}`);
      }),
    );
  });
});

describe('a time queue', () => {
  const costs = fc.array(fc.integer({ min: 1, max: 100 }), { minLength: 2, maxLength: 8 });

  test('gives waiting clients equal time, however long their work takes', () => {
    fc.assert(
      fc.property(costs, fc.nat(50), (all, expected) => {
        const queue = new TimeQueue<number>();
        const had = all.map(() => 0);
        all.forEach((_, client) => queue.push(String(client), client));
        for (let turns = 0; turns < 300; turns += 1) {
          const client = queue.shift(() => true) ?? -1;
          const cost = all[client] ?? NaN;
          queue.beginWork(String(client), expected);
          queue.correctTime(String(client), cost - expected);
          had[client] = (had[client] ?? 0) + cost;
          queue.push(String(client), client);
          assert.ok(Math.max(...had) - Math.min(...had) <= 4 * Math.max(...all));
        }
      }),
    );
  });

  test('serves a new or returning client before clients that had more time', () => {
    fc.assert(
      fc.property(costs, fc.nat(200), (all, turnsBefore) => {
        const queue = new TimeQueue<string>();
        all.forEach((_, client) => queue.push(String(client), String(client)));
        const serve = (): string => {
          const client = queue.shift(() => true) ?? '';
          queue.beginWork(client, client === 'brief' ? 1 : (all[Number(client)] ?? NaN));
          return client;
        };
        for (let turns = 0; turns < turnsBefore + all.length; turns += 1) {
          const client = serve();
          queue.push(client, client);
        }
        assert.ok(queue.ahead('brief', 100) <= all.length);
        for (let times = 0; times < 3; times += 1) {
          queue.push('brief', 'brief');
          // A client that had the same time may be first.
          const before = Array.from({ length: all.length + 1 }, serve);
          const at = before.indexOf('brief');
          assert.ok(at >= 0);
          for (const client of before.filter((one) => one !== 'brief')) queue.push(client, client);
        }
      }),
    );
  });

  test('serves a client again among clients that are always new', () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 40 }), fc.nat(50), (newcomers, expected) => {
        const queue = new TimeQueue<string>();
        let count = 0;
        const come = (): void => queue.push(`new ${(count += 1)}`, 'new');
        const serve = (): string => {
          const entry = queue.shift(() => true) ?? '';
          const key = entry === 'ada' ? 'ada' : `new ${count - queue.size + 1}`;
          queue.beginWork(key, expected);
          queue.correctTime(key, 10 - expected);
          return entry;
        };
        for (let client = 0; client < newcomers; client += 1) come();
        for (let times = 0; times < 5; times += 1) {
          queue.push('ada', 'ada');
          let before = 0;
          while (serve() !== 'ada') {
            come();
            before += 1;
            assert.ok(before <= 3 * newcomers + 3, `${before} of ${newcomers}`);
          }
        }
      }),
    );
  });

  test('forgets the time of clients when there are too many, but not of waiting clients', () => {
    const queue = new TimeQueue<string>();
    queue.beginWork('spent', 1_000);
    queue.push('spent', 'spent');
    for (let client = 0; client < 30_000; client += 1) queue.beginWork(`client ${client}`, 1);
    queue.push('client 29999', 'known');
    const order = [queue.shift(() => true), queue.shift(() => true)];
    assert.deepEqual(order, ['known', 'spent']);
  });

  test('knows clients that come again, however many others come once', () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 3_000 }), (count) => {
        const queue = new TimeQueue<string>();
        for (let times = 0; times < 2; times += 1) queue.beginWork('visitor', 1);
        for (let index = 0; index < count; index += 1) queue.beginWork(`other ${index}`, 1);
        for (let index = 0; index < 10; index += 1) queue.push(`new ${index}`, `new ${index}`);
        queue.push('visitor', 'visitor');
        // New and known clients share the time, and only the visitor is known.
        const served = [1, 2].map(() => queue.shift(() => true) ?? '');
        assert.ok(served.includes('visitor') || queue.ahead('visitor', 1) <= 1, served.join());
      }),
      { numRuns: 20 },
    );
  });

  test('keeps the order of one client, and skips clients that may not run', () => {
    const queue = new TimeQueue<number>();
    for (const entry of [1, 2, 3]) queue.push('ada', entry);
    queue.push('bob', 4);
    assert.equal(queue.sizeOf('ada'), 3);
    assert.equal(
      queue.shift((entry) => entry === 4),
      4,
    );
    assert.ok(queue.remove('ada', 2));
    assert.equal(queue.remove('ada', 2), false);
    assert.deepEqual([queue.shift(() => true), queue.shift(() => true)], [1, 3]);
    assert.equal(
      queue.shift(() => true),
      undefined,
    );
    assert.equal(queue.size, 0);
  });
});

test('users and anonymous clients take turns in a queue, and a user waits behind at most one anonymous client', () => {
  const queue = new AlternatingQueue<string>();
  for (let client = 0; client < 100; client += 1) queue.of(false).push(`anonymous ${client}`, 'anonymous');
  for (const user of ['ada', 'bob']) queue.of(true).push(user, user);
  assert.ok(queue.ahead('grace', true, 1) <= 5);
  const order = Array.from({ length: 5 }, () => queue.shift(() => true));
  assert.deepEqual(order.filter((entry) => entry !== 'anonymous').length, 2);
  assert.equal(
    queue.shift((entry) => entry !== 'anonymous'),
    undefined,
  );
  assert.equal(queue.size, 97);
});

describe('the queue of requests', () => {
  /** Fills the queue, and gives how many entries of others are served between two of `key` on average. */
  function meanBetween(queue: RequestQueue<{ key: string }>, key: string, others: readonly string[]): number {
    for (let round = 0; round < 50; round += 1)
      for (const one of [key, ...others]) queue.push(one, { key: one });
    let own = 0;
    let served = 0;
    for (let next = queue.shift(() => true); next !== undefined && own < 20; next = queue.shift(() => true)) {
      served += 1;
      if (next.key === key) own += 1;
    }
    return served / own - 1;
  }
  const crowd = Array.from({ length: 40 }, (_, index) => `crowd ${index}`);

  test('lets a client whose work was long once take turns with clients whose work is short', () => {
    const queue = new RequestQueue<{ key: string }>();
    queue.note('visitor', true);
    assert.ok(meanBetween(queue, 'visitor', crowd) <= 41);
  });

  test('lets clients whose work is long again and again take turns among themselves', () => {
    const queue = new RequestQueue<{ key: string }>();
    for (const one of crowd) for (let request = 0; request < 3; request += 1) queue.note(one, true);
    assert.ok(meanBetween(queue, 'visitor', crowd) <= 1);
  });

  test('lets more clients than can wait with long work take turns among themselves', () => {
    const queue = new RequestQueue<{ key: string }>();
    const many = Array.from({ length: 5_000 }, (_, index) => `network ${index}`);
    for (let request = 0; request < 3; request += 1) for (const one of many) queue.note(one, true);
    assert.ok(meanBetween(queue, 'visitor', many) <= 1);
  });

  test('gives up an entry of the client with the most, whether its work is long or short', () => {
    for (const [isFirstLong, isSecondLong] of [
      [true, false],
      [false, true],
    ]) {
      const queue = new RequestQueue<string>();
      for (let request = 0; request < 3; request += 1) {
        queue.note('few', isFirstLong === true);
        queue.note('many', isSecondLong === true);
      }
      for (let entry = 0; entry < 5; entry += 1) queue.push('few', `few ${entry}`);
      for (let entry = 0; entry < 9; entry += 1) queue.push('many', `many ${entry}`);
      assert.equal(queue.takeFromLongest(2), 'many 8');
      assert.equal(queue.takeFromLongest(8), undefined);
    }
  });

  test('serves every entry once, and a client with long work also while others have short work', () => {
    const pushed = fc.array(fc.tuple(fc.constantFrom('a', 'b', 'c'), fc.boolean()), { maxLength: 40 });
    fc.assert(
      fc.property(pushed, (entries) => {
        const queue = new RequestQueue<object>();
        const waiting = new Set<object>();
        for (const [key, isLong] of entries) {
          const entry = {};
          queue.note(key, isLong);
          queue.push(key, entry);
          waiting.add(entry);
        }
        assert.equal(queue.size, waiting.size);
        for (let next = queue.shift(() => true); next; next = queue.shift(() => true))
          assert.ok(waiting.delete(next));
        assert.equal(waiting.size, 0);
      }),
    );
    const queue = new RequestQueue<{ key: string }>();
    for (let request = 0; request < 3; request += 1) queue.note('long', true);
    assert.ok(meanBetween(queue, 'long', crowd) <= 4);
  });
});
