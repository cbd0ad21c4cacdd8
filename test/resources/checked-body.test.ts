// Checking the arrays of a body lets other clients run.
import assert from 'node:assert/strict';
import { setImmediate } from 'node:timers/promises';
import { buildModels } from '../../src/db/schema/build-models.ts';
import type { Resource } from '../../src/resources/definition/resource.ts';
import { checkBody } from '../../src/resources/records/checked-body.ts';
import { parseJsonFields } from '../../src/resources/records/json-fields.ts';
import { serveResources } from '../../src/resources/serve/served-resource.ts';
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
const measure = serveResources(registry, buildModels(registry), { access: 'default', userModel: 'user' }).get(
  'measure',
);

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
