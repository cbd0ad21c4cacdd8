// PATCH, which means the same as PUT, and the preference for strict handling of read-only fields.
import assert from 'node:assert/strict';
import type { Resource } from '../../src/index.ts';
import { user } from '../../src/resources/registry.ts';
import { useService, type RequestOptions, type TestService } from '../support.ts';
import { assertProblem, assertUnauthorized } from './expect.ts';
import { describe, test } from 'node:test';

const card: Resource = {
  model: 'card',
  columns: {
    title: { type: 'string' },
    size: { type: 'integer', null: true },
    data: { type: 'json', null: true },
    seen: { type: 'datetime', default: 'now' },
    secret: { type: 'string', default: '' },
    author: { type: 'foreignKey', references: 'user' },
  },
  access: 'user',
  readonly: ['seen', 'secret'],
  exclude: ['secret'],
  owner: 'author',
};

describe('PATCH of a record', () => {
  const service: TestService = useService(
    [user, card, { ...card, model: 'fixed', methods: ['GET', 'POST', 'DELETE'] }],
    {},
    async () => {
      await service.addUser('ada');
      await service.addUser('bob');
    },
  );

  const write = (
    method: string,
    path: string,
    options: RequestOptions = {},
  ): ReturnType<TestService['request']> => service.request(path, { method, user: 'ada', ...options });
  const create = async (): Promise<string> => {
    const body = { title: 'a', size: 1, data: { x: { y: 1 } } };
    return `/api/card/${(await write('POST', '/api/card/', { body })).json.id}/`;
  };

  for (const type of [
    'application/json',
    'application/merge-patch+json',
    'application/merge-patch+json; charset=utf-8',
  ])
    test(`changes the fields of a body of ${type}, as PUT does`, async () => {
      const [patched, put] = [await create(), await create()];
      const body = { size: null, data: { z: 2 } };
      const headers = { 'content-type': type };
      const one = await write('PATCH', patched, { headers, body: JSON.stringify(body) });
      const other = await write('PUT', put, { body });
      assert.deepEqual(
        [one.status, { ...one.json, id: 0, seen: 0 }],
        [200, { ...other.json, id: 0, seen: 0 }],
      );
      assert.deepEqual(one.json.data, { z: 2 });
      assert.match(one.headers.get('etag') ?? '', /^"/);
    });

  test('is refused for the reasons for which PUT is', async () => {
    const path = await create();
    assertUnauthorized(await service.request(path, { method: 'PATCH', body: {} }));
    assertProblem(await write('PATCH', path, { user: 'bob', body: { size: 2 } }), 403);
    assertProblem(await write('PATCH', path, { body: { size: 'x', other: 1 } }), 400);
    assertProblem(await write('PATCH', path, { body: { size: 2 }, headers: { 'if-match': '"1-x"' } }), 412);
    assertProblem(await write('PATCH', '/api/card/9999/', { body: { size: 2 } }), 404);
    assertProblem(await write('PATCH', '/api/card/', { body: { size: 2 } }), 405);
    assertProblem(await write('PATCH', '/api/fixed/1/', { body: { size: 2 } }), 405);
    assertProblem(
      await write('PATCH', path, { body: '[]', headers: { 'content-type': 'application/json-patch+json' } }),
      400,
    );
  });

  test('is in the history, in the OpenAPI document and in the preflight of browsers', async () => {
    const path = await create();
    await write('PATCH', path, { body: { size: 5 } });
    const [entry] =
      await service.sql`select action, before, after from vitrine_history order by id desc limit 1`;
    assert.deepEqual({ ...entry }, { action: 'update', before: '{"size":1}', after: '{"size":5}' });
    const { json } = await service.request('/api/openapi.json', { user: 'ada' });
    assert.deepEqual(Object.keys(json.paths['/api/card/{id}']), [
      'parameters',
      'get',
      'put',
      'patch',
      'delete',
    ]);
    assert.deepEqual(Object.keys(json.paths['/api/fixed/{id}']), ['parameters', 'get', 'delete']);
  });

  test('with handling=strict names read-only fields that are visible, and otherwise ignores them', async () => {
    const path = await create();
    const { json: before } = await service.request(path);
    const body = { title: 'b', seen: '2020-01-01 00:00:00', author: 7, secret: 's' };
    for (const method of ['PUT', 'PATCH']) {
      const ignored = await write(method, path, { body });
      assert.deepEqual([ignored.status, ignored.json], [200, { ...before, title: 'b' }]);
      assert.equal(ignored.headers.get('preference-applied'), null);
      const strict = await write(method, path, { body, headers: { prefer: 'handling=strict' } });
      assert.deepEqual(strict.json.errors, { seen: ['is read-only'], author_id: ['is read-only'] });
      const fine = await write(method, path, {
        body: { title: 'c' },
        headers: { prefer: 'return=minimal, Handling="strict"' },
      });
      assert.deepEqual([fine.status, fine.headers.get('preference-applied')], [200, 'handling=strict']);
      const lenient = await write(method, path, { body, headers: { prefer: 'handling=lenient' } });
      assert.equal(lenient.status, 200);
    }
    const created = await write('POST', '/api/card/', { body, headers: { prefer: 'handling=strict' } });
    assert.deepEqual([created.status, Object.keys(created.json.errors)], [400, ['seen', 'author_id']]);
  });
});
