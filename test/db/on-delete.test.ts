import assert from 'node:assert/strict';
import type { Resource } from '../../src/index.ts';
import type { Answer } from '../support.ts';
import { useWritable, type WritableService } from './helpers.ts';
import { describe, test } from 'node:test';

type OnDelete = 'restrict' | 'cascade' | 'setNull';

/** A model with these foreign keys and their `onDelete`. */
const referring = (model: string, references: Record<string, OnDelete | undefined>): Resource => ({
  model,
  columns: Object.fromEntries(
    Object.entries(references).map(([target, onDelete]) => [
      target.replace(/\d$/, ''),
      {
        type: 'foreignKey',
        references: target,
        ...(onDelete ? { onDelete } : {}),
        ...(onDelete === 'setNull' ? { null: true } : {}),
      },
    ]),
  ),
  access: 'user',
});

const resources: Resource[] = [
  referring('root', {}),
  referring('plain', { root: undefined }),
  referring('strict', { root: 'restrict' }),
  referring('loose', { root: 'setNull' }),
  referring('leaf', { root: 'cascade' }),
  referring('twig', { leaf: 'cascade' }),
  referring('thorn', { twig: 'restrict' }),
  { ...referring('barb', { twig: 'restrict' }), table: 'other.barb' },
  { ...referring('own', { user: 'cascade' }), owner: 'user' },
  {
    model: 'node',
    primaryKey: { type: 'string' },
    columns: { up: { type: 'foreignKey', references: 'node' } },
    access: 'user',
  },
  referring('bud', { node: 'cascade' }),
  referring('bloom', { bud: 'restrict' }),
];

describe('deleting a record that others reference', () => {
  const service: WritableService = useWritable(resources, 'create schema other');

  const post = async (model: string, body: object = {}): Promise<number> => {
    const { status, json, text } = await service.send('POST', `/api/${model}/`, body);
    assert.equal(status, 201, text);
    return json.id as number;
  };
  const status = async (model: string, id: number): Promise<number> =>
    (await service.request(`/api/${model}/${id}/`)).status;
  const remove = (model: string, id: number): Promise<Answer> =>
    service.send('DELETE', `/api/${model}/${id}/`);

  /** The models of the registry that a 409 names. */
  const named = ({ json }: Answer): string[] =>
    resources.map(({ model }) => model).filter((model) => new RegExp(`\\b${model}\\b`).test(json.detail));

  test('a record that references itself can be deleted, and only other records prevent the deletion', async () => {
    const missing = await service.send('POST', '/api/node/', { id: 'top', up_id: 'tip' });
    assert.deepEqual([missing.status, Object.keys(missing.json.errors)], [400, ['up_id']]);
    for (const id of ['top', 'gone'])
      assert.equal((await service.send('POST', '/api/node/', { up: id, id })).status, 201);
    assert.equal((await service.send('DELETE', '/api/node/gone/')).status, 200);
    const [bud] = (await service.sql`insert into bud (node_id) values ('top') returning id`) as [
      { id: number },
    ];
    await post('bloom', { bud_id: bud.id });
    const refused = await service.send('DELETE', '/api/node/top/');
    assert.deepEqual([refused.status, refused.json.detail], [409, 'Records of bloom refer to this one.']);
    await service.send('POST', '/api/node/', { id: 'low', up_id: 'top' });
    const kept = await service.send('DELETE', '/api/node/top/');
    assert.deepEqual([kept.status, kept.json.detail], [409, 'Records of node refer to this one.']);
  });

  for (const model of ['plain', 'strict']) {
    test(`${model === 'plain' ? 'without onDelete' : 'restrict'}: 409 names the model, and nothing is deleted`, async () => {
      const root = await post('root');
      const id = await post(model, { root_id: root });
      const refused = await remove('root', root);
      assert.equal(refused.status, 409);
      assert.equal(refused.headers.get('content-type'), 'application/problem+json');
      assert.deepEqual(named(refused), [model]);
      assert.deepEqual([await status('root', root), await status(model, id)], [200, 200]);
      assert.equal((await remove(model, id)).status, 200);
      const removed = await remove('root', root);
      assert.deepEqual([removed.status, removed.json], [200, { deleted: 1 }]);
      assert.equal((await remove('root', root)).status, 404);
    });
  }

  test('409 names all models that restrict the deletion, and none with setNull or cascade', async () => {
    const root = await post('root');
    const loose = await post('loose', { root });
    const leaf = await post('leaf', { root });
    await post('plain', { root });
    await post('strict', { root });
    assert.deepEqual(named(await remove('root', root)), ['plain', 'strict']);
    const { json } = await service.request(`/api/loose/${loose}/`);
    assert.deepEqual([json.root_id, await status('leaf', leaf)], [root, 200]);
  });

  test('setNull: the reference becomes null', async () => {
    const root = await post('root');
    const loose = await post('loose', { root });
    const tag = (await service.request(`/api/loose/${loose}/`)).headers.get('etag');
    assert.equal((await remove('root', root)).status, 200);
    const answer = await service.request(`/api/loose/${loose}/`);
    assert.deepEqual(answer.json, { id: loose, root_id: null });
    assert.notEqual(answer.headers.get('etag'), tag);
  });

  test('cascade: referencing records are deleted over several levels', async () => {
    const root = await post('root');
    const leaf = await post('leaf', { root });
    const twigs = [await post('twig', { leaf }), await post('twig', { leaf })];
    const other = await post('leaf', { root: await post('root') });
    assert.equal((await remove('root', root)).status, 200);
    assert.deepEqual([await status('leaf', leaf), await status('leaf', other)], [404, 200]);
    for (const twig of twigs) assert.equal(await status('twig', twig), 404);
  });

  for (const model of ['thorn', 'barb']) {
    test(`a restrict behind two cascades: 409 names ${model}, and nothing is deleted`, async () => {
      const root = await post('root');
      const leaf = await post('leaf', { root });
      const twig = await post('twig', { leaf });
      const id = await post(model, { twig });
      for (const [target, key] of [
        ['root', root],
        ['leaf', leaf],
        ['twig', twig],
      ] as const) {
        const refused = await remove(target, key);
        assert.equal(refused.status, 409);
        assert.deepEqual(named(refused).filter((name) => name !== target), [model], `DELETE of ${target}`); // prettier-ignore
      }
      for (const [target, key] of [
        ['root', root],
        ['leaf', leaf],
        ['twig', twig],
        [model, id],
      ] as const)
        // prettier-ignore
        assert.equal(await status(target, key), 200);
    });
  }

  test('deleting a user deletes records that cascade', async () => {
    await service.addUser('bob');
    const { json } = await service.request('/api/own/', { method: 'POST', user: 'bob', body: {} });
    const own = json.id as number;
    assert.equal((await remove('user', json.user_id)).status, 200);
    assert.equal(await status('own', own), 404);
  });

  test('409 does not name a table that the registry does not have', async () => {
    const root = await post('root');
    await service.sql`create table secret (root_id integer references root (id))`;
    await service.sql`insert into secret values (${root})`;
    const refused = await remove('root', root);
    assert.equal(refused.status, 409);
    assert.doesNotMatch(refused.text, /secret/);
    assert.deepEqual(named(refused), []);
  });
});
