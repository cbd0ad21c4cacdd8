import assert from 'node:assert/strict';
import type { Resource } from '../../src/index.ts';
import { startWith, type WritableService } from '../db/helpers.ts';
import { assertProblem } from '../http/expect.ts';
import { after, before, describe, test } from 'node:test';

const text = { type: 'text', null: true } as const;
const key = { type: 'string', column: 'name' } as const;
const resources: Resource[] = [
  { model: 'tag', primaryKey: { type: 'string' }, columns: { x: text }, access: 'user' },
  { model: 'folded', primaryKey: key, columns: { x: text }, access: 'user' },
  { model: 'padded', primaryKey: key, columns: { x: text }, access: 'user' },
];
const DDL = `
  create extension citext;
  create table folded (name citext primary key, x text);
  create table padded (name char(5) primary key, x text);
  insert into folded values ('Foo');
  insert into padded values ('ab')`;

describe('natural keys', () => {
  let service: WritableService;
  before(async () => {
    service = await startWith(resources, DDL);
  });
  after(() => service.close());

  test('a natural key that cannot be part of a URL is 400', async () => {
    for (const id of ['', '.', '..']) {
      const answer = await service.send('POST', '/api/tag/', { id, y: 1 });
      assertProblem(answer, 400);
      assert.deepEqual(Object.keys(answer.json.errors), ['id', 'y'], id);
    }
    const { errors } = (await service.send('POST', '/api/folded/', { id: 'é'.repeat(2049) })).json;
    assert.match(errors.id[0], /fit into a URL/);
    for (const id of ['...', ' ', '.a', '/', '%2E', '?', '#']) {
      const { status, json, headers } = await service.send('POST', '/api/tag/', { id });
      assert.deepEqual([status, json], [201, { id, x: null }]);
      assert.deepEqual((await service.request(headers.get('location') ?? '')).json, json);
    }
  });

  test('the id in a body must be the id that the record is shown with', async () => {
    for (const [path, id, ...others] of [
      ['/api/folded/foo/', 'Foo', 'foo', 'bar'],
      ['/api/folded/FOO/', 'Foo', 'FOO'],
      ['/api/padded/ab/', 'ab', 'AB', 'abc'],
      ['/api/padded/ab%20%20/', 'ab', 'b'],
    ] as const) {
      const { json } = await service.request(path);
      assert.equal(json.id, id);
      const put = await service.send('PUT', path, { ...json, x: path });
      assert.deepEqual([put.status, put.json], [200, { id, x: path }]);
      for (const other of others) {
        for (const body of [{ id: other }, { id: other, nope: 1 }]) {
          const answer = await service.send('PUT', path, body);
          assertProblem(answer, 400, `${path} ${other}`);
          assert.deepEqual(Object.keys(answer.json.errors).sort(), Object.keys(body).sort());
        }
      }
    }
  });

  test('the id in a body for a missing record must be the id in the path', async () => {
    assertProblem(await service.send('PUT', '/api/folded/nobody/', { id: 'nobody', x: 'x' }), 404);
    assertProblem(await service.send('PUT', '/api/folded/nobody/', { id: 'somebody', x: 'x' }), 400);
  });

  test('a key of spaces and dots is 400, because no URL leads to it', async () => {
    for (const id of ['   ', '.  ', '..', ''])
      assertProblem(await service.send('POST', '/api/padded/', { id }), 400);
    assert.equal((await service.send('POST', '/api/padded/', { id: 'a' })).status, 201);
  });

  test('two spellings of one key in an array of records are 409 that names the second one', async () => {
    const same = ['another record has this value'];
    const folded = await service.send('POST', '/api/folded/', [{ id: 'x' }, { id: 'Zoe' }, { id: 'zoE' }]);
    assert.deepEqual([folded.status, folded.json.errors], [409, { '2.id': same }]);
    const padded = await service.send('POST', '/api/padded/', [{ id: 'q' }, { id: 'q ' }]);
    assert.deepEqual([padded.status, padded.json.errors], [409, { '1.id': same }]);
    const both = await service.send('POST', '/api/folded/', [{ id: 'FOO' }, { id: 'bar' }, { id: 'BAR' }]);
    assert.deepEqual([both.status, both.json.errors], [409, { '0.id': same, '2.id': same }]);
  });
});
