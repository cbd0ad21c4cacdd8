// Limits and turns that keep one client from slowing down the others.
import assert from 'node:assert/strict';
import { textOf } from '../../src/messages.ts';
import fc from 'fast-check';
import { setImmediate as nextIteration } from 'node:timers/promises';
import { describe, test } from 'node:test';
import { randomBytes } from 'node:crypto';
import { submissionDigest } from '../../src/admin/web/submit-once.ts';
import { createForm, type Form } from '../../src/admin/web/form-data.ts';
import { ClientGone } from '../../src/db/lanes/requester.ts';
import { buildModels } from '../../src/db/schema/build-models.ts';
import { type JsonFacts, scanJson } from '../../src/db/types/json-scanner.ts';
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
import { raw } from '../../src/db/fragment.ts';
import { createTextCaches } from '../../src/db/text-cache.ts';
import { assertWrittenSql, isRolledBack } from '../../src/query/statements/check-statements.ts';
import { createPositionTokens } from '../../src/db/replicas/position-token.ts';

describe('the counts of clients', () => {
  const limit = createRateLimit({ perSecond: 10, burst: 3 }, undefined, () => 0);

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
const measure = createViews(registry, models, { access: 'admin', read: 'default', userModel: 'user' })(
  ADMIN,
).get('measure');

describe('the work on a long body lets other requests run, with the same result', () => {
  test('between the arrays of its columns', async () => {
    assert.ok(measure);
    const body = { title: 'x', ...Object.fromEntries(names.map((name) => [name, [1, 2, 'x']])) };
    const fields = parseJsonFields(JSON.stringify(body));
    const writing = { id: undefined, caller: { id: '1', name: 'ada', admin: false, roles: [] } };
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
    const invalid = await jsonFieldInTurns(column, text.slice(1));
    const fault = 'fault' in invalid && invalid.fault ? textOf(invalid.fault) : undefined;
    assert.equal(fault, 'must be JSON: unexpected character at line 1, column 2');
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

describe('turns at the event loop', () => {
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

// The texts of statements that are kept, and the errors that statements raise on purpose.

test('a text is built once while it is in use, forgotten when the texts exceed the limit, and not shared by caches', () => {
  const create = createTextCaches(1000);
  const [one, other] = [create(), create()];
  let built = 0;
  const read = (key: string, cache = one): string =>
    cache(key, () => {
      built += 1;
      return `${key} ${'x'.repeat(100)}`;
    });
  read('first', other);
  for (let number = 0; number < 40; number += 1) {
    read('used');
    assert.equal(read(`text ${number}`), read(`text ${number}`));
  }
  assert.equal(built, 1 + 1 + 40);
  read('text 39');
  read('text 0');
  read('used', other);
  assert.equal(built, 42 + 2);
});

// Errors that the statements of writes raise on purpose, to be undone.
describe('the error of a statement that ends itself', () => {
  const [, shown = ''] = /'(vitrine [^']+)'/.exec(assertWrittenSql(raw('true')).text.join('')) ?? [];

  for (const [language, message] of [
    ['English', `invalid input syntax for type bigint: "${shown}"`],
    ['German', `ungültige Eingabesyntax für Typ bigint: »${shown}«`],
    ['French', `syntaxe en entrée invalide pour le type bigint : « ${shown} »`],
    ['Japanese', `"bigint"型の入力構文が不正です: "${shown}"`],
  ] as const)
    test(`is recognized in ${language}`, () => {
      assert.equal(isRolledBack({ code: '22P02', message }), true);
      assert.equal(isRolledBack({ code: 'P0001', message }), false);
      assert.equal(isRolledBack({ code: '22P02', message: message.replace(shown, 'vitrine') }), false);
    });
});

// The token of a position in the log of the primary, which clients send with reads.

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
          const token = tokens.encode(written);
          assert.match(token, /^[\w-]{64}$/);
          assert.deepEqual(tokens.decodeAll(token), [written]);
        },
      ),
    );
  });

  test('has at each place any character, so that it does not tell whether the position has changed', () => {
    const written = { reached: { timeline: 1, position: 77n }, issued: 5_000 };
    const made = Array.from({ length: 400 }, () => tokens.encode(written));
    for (let at = 0; at < 64; at += 1) {
      const different = new Set(made.map((token) => token[at])).size;
      assert.ok(different > 40, `${different} characters at ${at}`);
    }
  });

  test('can say that the position is unknown', () => {
    const token = tokens.encode({ reached: undefined, issued: 5_000 });
    assert.deepEqual(tokens.decodeAll(token), [{ reached: undefined, issued: 5_000 }]);
  });

  test('is not accepted with another secret, or for another database', () => {
    const token = tokens.encode({ reached: { timeline: 1, position: 1n }, issued: 0 });
    assert.deepEqual(createPositionTokens(randomBytes(32), '1 5').decodeAll(token), undefined);
    assert.deepEqual(createPositionTokens(secret, '2 5').decodeAll(token), undefined);
  });

  test('is refused after any change of a byte', () => {
    const bytes = Buffer.from(
      tokens.encode({ reached: { timeline: 1, position: 77n }, issued: 0 }),
      'base64url',
    );
    for (let at = 0; at < bytes.length; at += 1) {
      const changed = Buffer.from(bytes);
      changed[at] = (changed[at] ?? 0) ^ 1;
      assert.deepEqual(tokens.decodeAll(changed.toString('base64url')), undefined);
    }
  });

  test('is refused in texts of any other form', () => {
    fc.assert(
      fc.property(fc.string(), (text) => {
        assert.equal(tokens.decodeAll(text), undefined);
      }),
    );
    const token = tokens.encode({ reached: undefined, issued: 0 });
    assert.equal(tokens.decodeAll(`${token},${token}`)?.length, 2);
    assert.equal(tokens.decodeAll(`${token},x`), undefined);
    assert.deepEqual(tokens.decodeAll(Array.from({ length: 23 }, () => token).join()), undefined);
    assert.deepEqual(tokens.decodeAll('a'.repeat(1_000_000)), undefined);
  });
});

// Forms that the login page carries, because they came after their session had ended.
