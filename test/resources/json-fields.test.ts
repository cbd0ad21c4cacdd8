// Long JSON is parsed in many iterations of the event loop.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { buildModels } from '../../src/db/schema/build-models.ts';
import {
  jsonFieldInTurns,
  jsonFieldOf,
  parseJsonFields,
  parseJsonFieldsInTurns,
} from '../../src/resources/records/json-fields.ts';
import { countTurns } from '../turns.ts';

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
  assert.deepEqual(await jsonFieldInTurns(column, text.slice(1)), { fault: 'must be JSON' });
});
