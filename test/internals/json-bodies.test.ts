// Checking the arrays of a body lets other clients run.
import assert from 'node:assert/strict';
import { setImmediate } from 'node:timers/promises';
import { buildModels } from '../../src/db/schema/build-models.ts';
import type { Resource } from '../../src/resources/definition/resource.ts';
import { checkBody } from '../../src/resources/records/checked-body.ts';
import {
  jsonFieldInTurns,
  jsonFieldOf,
  parseJsonFields,
  parseJsonFieldsInTurns,
} from '../../src/resources/records/json-fields.ts';
import { ADMIN } from '../../src/resources/access/access.ts';
import { createViews } from '../../src/resources/serve/served-resource.ts';
import fc from 'fast-check';
import { scanJson, type JsonFacts } from '../../src/db/types/json-scanner.ts';
import { ScannedJson } from '../../src/db/types/json-values.ts';
import { countTurns } from '../turns.ts';
import { test } from 'node:test';

const names = Array.from({ length: 20 }, (_, index) => `values${index}`);
const registry: readonly Resource[] = [
  {
    model: 'measure',
    columns: {
      title: { type: 'string' },
      ...Object.fromEntries(names.map((name) => [name, { type: 'array', of: 'integer', null: true }])),
    },
  },
];
const measure = createViews(registry, buildModels(registry), { access: 'default', userModel: 'user' })(
  ADMIN,
).get('measure');

test('a body with many arrays lets other clients run before each of them, with the same result', async () => {
  assert.ok(measure);
  const body = { title: 'x', ...Object.fromEntries(names.map((name) => [name, [1, 2, 'x']])) };
  const fields = parseJsonFields(JSON.stringify(body));
  const writing = { id: undefined, caller: { id: '1', name: 'ada', admin: false } };
  let rests = 0;
  const rest = (): Promise<void> => {
    rests += 1;
    return setImmediate();
  };
  const inTurns = await checkBody(fields, measure, writing, rest);
  assert.equal(rests, names.length);
  assert.deepEqual(inTurns, await checkBody(fields, measure, writing));
  assert.deepEqual(Object.keys(inTurns.errors), names);
});

// Long JSON is parsed in many iterations of the event loop.
test('a JSON body with many values lets other requests run between them, with the same fields', async () => {
  const text = `{"a": [${'1,'.repeat(500_000)}1], "b": {"c": ["x", null]}, "a": 2}`;
  const [fields, turns] = await countTurns(async () => parseJsonFieldsInTurns(text));
  assert.ok(turns > 10, `${turns} turns`);
  const expected = parseJsonFields(text);
  assert.deepEqual([...fields.keys()], ['a', 'b']);
  for (const [key, { source }] of expected) assert.equal(fields.get(key)?.source, source);
});

test('a JSON body that is invalid, or no object, is refused after many values as well', async () => {
  const many = '1,'.repeat(100_000);
  for (const text of [`{"a": [${many}]}`, `{"a": [${many}1]`, `[${many}1]`, `{"a": [${many}1]} x`])
    await assert.rejects(async () => parseJsonFieldsInTurns(text), { name: 'Problem', status: 400 });
});

test('long JSON in a form or an import lets other requests run, and is valid or a fault', async () => {
  const [column] =
    buildModels([{ model: 'x', columns: { data: { type: 'json' } } }])
      .get('x')
      ?.columns.filter(({ key }) => key === 'data') ?? [];
  assert.ok(column);
  const text = `[${'1,'.repeat(500_000)}1]`;
  const [field, turns] = await countTurns(() => jsonFieldInTurns(column, text));
  assert.ok(turns > 10, `${turns} turns`);
  assert.deepEqual(field, jsonFieldOf(column, text));
  assert.deepEqual(await jsonFieldInTurns(column, text.slice(1)), {
    fault: 'must be JSON: unexpected character at line 1, column 2',
  });
});

test('the facts of a field are those of its own text, whatever stands before it, so that it is not scanned again', () => {
  const hostile = fc.constantFrom(
    '"\\u0000"',
    '"\\ud800"',
    '1e200000',
    '[1e9]',
    '1.5e300',
    '{"\\u0000":1}',
    '[[[[1]]]]',
    'null',
  );
  const text = fc.oneof(hostile, fc.json());
  const container = fc.array(text, { maxLength: 5 }).map((texts) => `[${texts.join()}]`);
  fc.assert(
    fc.property(fc.array(fc.oneof(text, container), { minLength: 1, maxLength: 6 }), (values) => {
      const fields = parseJsonFields(`{${values.map((one, index) => `"f${index}": ${one}`).join()}}`);
      for (const [index, source] of values.map((one) => one.trim()).entries()) {
        const field = fields.get(`f${index}`);
        assert.equal(field?.source, source);
        if (/^[[{]/.test(source)) {
          assert.ok(field.value instanceof ScannedJson);
          const { depth, hasNul, hasLoneSurrogate, hasHugeNumber, addedDigits } = scanJson(
            source,
          ) as JsonFacts;
          assert.deepEqual(field.value.facts, {
            depth,
            hasNul,
            hasLoneSurrogate,
            hasHugeNumber,
            addedDigits,
          });
        }
      }
    }),
  );
});

test('a body with many values waits for slots as often as its caller wants', async () => {
  let pauses = 0;
  await parseJsonFieldsInTurns(`{"a": [${'1,'.repeat(500_000)}1]}`, () =>
    Promise.resolve(void (pauses += 1)),
  );
  assert.ok(pauses > 10, `${pauses} pauses`);
});
