// Limits and turns that keep one client from slowing down the others.
import assert from 'node:assert/strict';
import fc from 'fast-check';
import { setImmediate as nextIteration } from 'node:timers/promises';
import { submissionDigest } from '../../src/admin/fields/submit-once.ts';
import { createForm, type Form } from '../../src/admin/web/form-data.ts';
import { ClientGone } from '../../src/db/lanes/requester.ts';
import { buildModels } from '../../src/db/schema/build-models.ts';
import { scanJson, type JsonFacts } from '../../src/db/types/json-scanner.ts';
import { ScannedJson } from '../../src/db/types/json-values.ts';
import { Problem } from '../../src/errors.ts';
import { createThrottle } from '../../src/http/auth/login-throttle.ts';
import { ByteBudget } from '../../src/http/load/byte-budget.ts';
import { LoopTurns } from '../../src/http/load/loop-turns.ts';
import { createRateLimit } from '../../src/http/load/rate-limit.ts';
import { piecesOf, piecesOfBytes } from '../../src/http/message/body-pieces.ts';
import type { Resource } from '../../src/resources/definition/resource.ts';
import { checkBody } from '../../src/resources/records/checked-body.ts';
import {
  jsonFieldInTurns,
  jsonFieldOf,
  parseJsonFields,
  parseJsonFieldsInTurns,
} from '../../src/resources/records/json-fields.ts';
import { ADMIN } from '../../src/resources/access/access.ts';
import { createViews } from '../../src/resources/access/resource-view.ts';
import { longestTurnOf } from '../http/expect.ts';
import { countTurns } from '../turns.ts';
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
  for (const [clients, share, ordinary] of [
    [8, 1, ORDINARY],
    [2, 3 / 4, TOTAL / 16],
  ] as const)
    test(`that ${clients} clients exhaust has room for the requests of another client, and all of it when they end`, () => {
      fc.assert(
        fc.property(steps(clients), (all) => {
          const { budget, held } = takeAll(all);
          const sum = [...held.values()].reduce((one, other) => one + other, 0);
          assert.equal(budget.used, sum);
          assert.ok(sum <= TOTAL * share);
          assert.equal(budget.exceededLimit('newcomer', ordinary), undefined);
          for (const [client, bytes] of held) budget.release(client, bytes);
          assert.equal(budget.used, 0);
          assert.equal(budget.exceededLimit('newcomer', TOTAL), undefined);
        }),
        { numRuns: 300 },
      );
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

/** A model with many columns of arrays. */
const names = Array.from({ length: 20 }, (_, index) => `values${index}`);
const registry: readonly Resource[] = [
  {
    model: 'measure',
    columns: {
      title: { type: 'string' },
      data: { type: 'json', null: true },
      ...Object.fromEntries(names.map((name) => [name, { type: 'array', of: 'integer', null: true }])),
    },
  },
];
const models = buildModels(registry);
const measure = createViews(registry, models, { access: 'default', userModel: 'user' })(ADMIN).get('measure');

describe('the work on a long body lets other requests run, with the same result', () => {
  test('between the arrays of its columns', async () => {
    assert.ok(measure);
    const body = { title: 'x', ...Object.fromEntries(names.map((name) => [name, [1, 2, 'x']])) };
    const fields = parseJsonFields(JSON.stringify(body));
    const writing = { id: undefined, caller: { id: '1', name: 'ada', admin: false } };
    let rests = 0;
    const rest = (): Promise<void> => {
      rests += 1;
      return nextIteration();
    };
    const inTurns = await checkBody(fields, measure, writing, rest);
    assert.equal(rests, names.length);
    assert.deepEqual(inTurns, await checkBody(fields, measure, writing));
    assert.deepEqual(Object.keys(inTurns.errors), names);
  });

  test('between the values of JSON, valid or not', async () => {
    const many = '1,'.repeat(500_000);
    const text = `{"a": [${many}1], "b": {"c": ["x", null]}, "a": 2}`;
    let pauses = 0;
    const [fields, turns] = await countTurns(async () => parseJsonFieldsInTurns(text));
    await parseJsonFieldsInTurns(text, () => Promise.resolve(void (pauses += 1)));
    assert.ok(turns > 10 && pauses > 10, `${turns} turns, ${pauses} pauses`);
    const sourcesOf = (all: ReadonlyMap<string, { source: string }>) =>
      [...all].map(([key, { source }]) => [key, source]);
    assert.deepEqual(sourcesOf(fields), sourcesOf(parseJsonFields(text)));
    for (const invalid of [`{"a": [${many}]}`, `{"a": [${many}1]`, `[${many}1]`, `{"a": [${many}1]} x`])
      await assert.rejects(async () => parseJsonFieldsInTurns(invalid), { name: 'Problem', status: 400 });
  });

  test('between the values of JSON in a form or an import', async () => {
    const column = models.get('measure')?.columns.find(({ key }) => key === 'data');
    assert.ok(column);
    const text = `[${'1,'.repeat(500_000)}1]`;
    const [field, turns] = await countTurns(() => jsonFieldInTurns(column, text));
    assert.ok(turns > 10, `${turns} turns`);
    assert.deepEqual(field, jsonFieldOf(column, text));
    const fault = 'must be JSON: unexpected character at line 1, column 2';
    assert.deepEqual(await jsonFieldInTurns(column, text.slice(1)), { fault });
  });
});

test('the facts of a field are those of its own text, whatever comes before it, so that it is not scanned again', () => {
  const hostile = [
    '"\\u0000"',
    '"\\ud800"',
    '1e200000',
    '[1e9]',
    '1.5e300',
    '{"\\u0000":1}',
    '[[[[1]]]]',
    'null',
  ];
  const text = fc.oneof(fc.constantFrom(...hostile), fc.json());
  const container = fc.array(text, { maxLength: 5 }).map((texts) => `[${texts.join()}]`);
  fc.assert(
    fc.property(fc.array(fc.oneof(text, container), { minLength: 1, maxLength: 6 }), (values) => {
      const fields = parseJsonFields(`{${values.map((one, index) => `"f${index}": ${one}`).join()}}`);
      for (const [index, source] of values.map((one) => one.trim()).entries()) {
        const field = fields.get(`f${index}`);
        assert.equal(field?.source, source);
        if (!(field.value instanceof ScannedJson)) assert.doesNotMatch(source, /^[[{]/);
        else {
          const scanned = scanJson(source) as JsonFacts;
          for (const [name, fact] of Object.entries(field.value.facts))
            assert.equal(scanned[name as keyof JsonFacts], fact, name);
        }
      }
    }),
  );
});

const PIECE = 65_536;
const formOf = (...entries: Form['entries']): Form => createForm([['_form', 'token'], ...entries]);
const digestOf = (...entries: Form['entries']): Promise<string | undefined> =>
  submissionDigest(formOf(...entries));

describe('the digest of a form', () => {
  test('is the same for the same values, whichever button was pressed', async () => {
    const long = 'ä\u{1f600}'.repeat(PIECE);
    const digest = await digestOf(['name', long]);
    assert.match(digest ?? '', /^[\w-]{43}$/);
    assert.equal(await digestOf(['name', long], ['_save', 'stay']), digest);
  });

  test('differs for different values', async () => {
    const before = 'x'.repeat(PIECE - 1);
    const forms: Form['entries'][] = [
      [],
      [['', '']],
      [['a', 'bc']],
      [['ab', 'c']],
      [['a', 'b'], ['c', '']],
      [['a', ''], ['b', 'c']],
      [['a', '1;b']],
      [['a', before]],
      [['a', `${before}\u{1f600}`]],
      [['a', `${before}\u{1f601}`]],
      [['a', `${before}\u{2f600}`]],
    ]; // prettier-ignore
    const digests = await Promise.all(forms.map((entries) => digestOf(...entries)));
    assert.equal(new Set(digests).size, forms.length);
  });

  test('is made in short turns of the event loop', async () => {
    const controls = '\u0001'.repeat(8 * 2 ** 20);
    const many = Array.from({ length: 20_000 }, (_, index) => [`name ${index}`, ''] as const);
    for (const form of [formOf(['name', controls]), formOf([controls, '']), formOf(...many)]) {
      const longest = await longestTurnOf(() => submissionDigest(form), 20_000);
      assert.ok(longest < 20_000, `${longest} microseconds`);
    }
  });
});

const client = (key: string, clientKind: 'anonymous' | 'user' = 'anonymous') => ({
  key,
  clientKind,
  onGone: () => () => undefined,
});
const work = (milliseconds: number): void => {
  const until = performance.now() + milliseconds;
  while (performance.now() < until);
};

describe('turns at the event loop', () => {
  test('begin short work at once while an iteration has time, and that of others after it', async () => {
    const turns = new LoopTurns();
    for (let count = 0; count < 10; count += 1) {
      const one = client('a');
      assert.equal(turns.start(one), undefined);
      assert.equal(turns.start(one), undefined, 'it goes on');
      await nextIteration();
    }
    assert.equal(turns.start(client('a')), undefined);
    assert.notEqual(turns.start(client('b')), undefined);
    assert.equal(turns.waiting, 1);
  });

  test('alternate between users and anonymous clients, and among the clients of each kind', async () => {
    const turns = new LoopTurns();
    const order: string[] = [];
    const enter = (key: string, clientKind: 'anonymous' | 'user'): Promise<unknown> =>
      turns.yield(client(key, clientKind)).then(() => order.push(key));
    await Promise.all([
      ...['a', 'a', 'a', 'a', 'b', 'c'].map((key) => enter(key, 'anonymous')),
      ...['u', 'u', 'v'].map((key) => enter(key, 'user')),
    ]);
    assert.deepEqual(order, ['u', 'a', 'v', 'b', 'u', 'c', 'a', 'a', 'a']);
  });

  test('leave the event loop to others after some milliseconds of short work', async () => {
    const turns = new LoopTurns();
    let iterations = 0;
    let done = 0;
    const all = Array.from({ length: 40 }, () =>
      turns.yield(client('a')).then(() => {
        work(1);
        done += 1;
      }),
    );
    for (; done < all.length; iterations += 1) await nextIteration();
    assert.ok(iterations >= 8, `${iterations} iterations`);
  });

  test('run one piece of long work in an iteration, and pause after it if requests have started', async () => {
    for (const startsOthers of [false, true]) {
      const turns = new LoopTurns();
      const ends: number[] = [];
      const starts: number[] = [];
      let isOver = false;
      const all = Promise.all(
        Array.from({ length: 4 }, async () => {
          await turns.piece(client('a'));
          starts.push(performance.now());
          work(20);
          ends.push(performance.now());
        }),
      ).finally(() => (isOver = true));
      while (!isOver) {
        if (startsOthers) void turns.start(client('b'));
        await nextIteration();
      }
      await all;
      const pauses = starts.slice(1).map((start, index) => start - (ends[index] ?? 0));
      for (const pause of pauses) assert.equal(pause >= 15, startsOthers, pauses.join(', '));
    }
  });

  test('skip clients that have disconnected', async () => {
    const turns = new LoopTurns();
    let leave = (): void => undefined;
    const gone = turns.piece({
      ...client('a'),
      onGone: (callback) => {
        leave = callback;
        return () => undefined;
      },
    });
    leave();
    await assert.rejects(gone, ClientGone);
    assert.equal(turns.waiting, 0);
  });
});
