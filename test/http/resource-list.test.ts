import assert from 'node:assert/strict';
import type { Resource } from '../../src/index.ts';
import { user } from '../../src/resources/registry.ts';
import { startService, type TestService } from '../support.ts';
import { after, before, describe, test } from 'node:test';

const word: Resource = { model: 'word', columns: { text: { type: 'string' } } };
const LEVELS = ['default', 'user', 'admin'] as const;
/** A model for each pair of levels. */
const pairs = LEVELS.flatMap((access) =>
  LEVELS.map((read): Resource => ({ ...word, model: `${access}_${read}`, access, read })),
);

describe('the list of resources', () => {
  let service: TestService;
  before(async () => {
    service = await startService([user, word, ...pairs], { access: 'user' });
  });
  after(() => service.close());

  test('shows the levels for reading and for writing, also the level of ACCESS', async () => {
    const { json } = await service.request('/api/');
    const levels = json.resources.map(({ name, access, read }: Record<string, string>) => [
      name,
      access,
      read,
    ]);
    assert.deepEqual(levels, [
      ['user', 'admin', 'default'],
      ['word', 'user', 'default'],
      ...pairs.map(({ model, access, read }) => [model, access, read]),
    ]);
  });

  test('accepts no parameters, with and without the last slash', async () => {
    for (const path of ['/api/', '/api']) {
      for (const name of ['limit', 'page', 'ordering', 'name', 'word']) {
        const { status, json } = await service.request(`${path}?${name}=1`);
        assert.deepEqual([status, Object.keys(json.errors ?? {})], [400, [name]], `${path}?${name}`);
      }
    }
  });
});
