// Rules that only show in a certain combination, such as two plus signs, or equal values beside a default ordering.
import assert from 'node:assert/strict';
import type { Resource } from '../../src/index.ts';
import { user } from '../../src/resources/registry.ts';
import { hiddenFields, logIn } from '../admin/support.ts';
import { useService, type TestService } from '../support.ts';
import { test } from 'node:test';

const note: Resource = {
  model: 'note',
  columns: {
    message: { type: 'text' },
    kind: { type: 'string', default: 'a' },
    data: { type: 'json', null: true },
    state: { type: 'string', default: 'new' },
  },
  access: 'user',
  ordering: '-message',
  readonly: ['state'],
};

const entry: Resource = {
  model: 'entry',
  columns: {
    author: { type: 'foreignKey', references: 'user' },
    topic: { type: 'string', column: 'theme', default: 'any' },
  },
  access: 'user',
};

const service: TestService = useService([user, note, entry], {}, async () => {
  await service.addUser('ada', { admin: true });
  await service.sql`insert into note (message, data) values ('a b c', 'null'), ('d', null), ('a b+c', '{}')`;
});

const messagesOf = async (query: string): Promise<unknown[]> => {
  const { text } = await service.request(`/api/note/?${query}`);
  return (JSON.parse(text) as { objects: { message: string }[] }).objects.map(({ message }) => message);
};

test('every plus sign of a query is a space, and an encoded one is itself', async () => {
  assert.deepEqual(await messagesOf('message=a+b+c'), ['a b c']);
  assert.deepEqual(await messagesOf('message=a+b%2Bc'), ['a b+c']);
});

test('the id breaks ties of an ordering, and the default ordering has no part in it', async () => {
  assert.deepEqual(await messagesOf('ordering=kind'), ['a b c', 'd', 'a b+c']);
  assert.deepEqual(await messagesOf(''), ['d', 'a b+c', 'a b c']);
});

test('a JSON null that is sent back stays JSON null, and no value stays no value', async () => {
  for (const [id, isNull] of [
    [1, false],
    [2, true],
  ] as const) {
    const sent = { method: 'PUT', user: 'ada', body: { data: null, kind: 'b' } };
    assert.equal((await service.request(`/api/note/${id}/`, sent)).status, 200);
    const [row] = await service.sql`select data is null as "isNull", kind from note where id = ${id}`;
    assert.deepEqual(row, { isNull, kind: 'b' });
  }
});

test('a column that clients cannot set can be set in the admin area', async () => {
  const sent = { method: 'PUT', user: 'ada', body: { state: 'old' } };
  assert.equal((await service.request('/api/note/1/', sent)).status, 200);
  assert.equal((await service.request('/api/note/1/')).json.state, 'new', 'it is ignored there');
  const ada = await logIn(service, 'ada');
  const fields = hiddenFields(await ada.get('/admin/note/1/'), 'record');
  const changed = { ...fields, message: 'a b c', kind: 'b', state: 'old' };
  assert.equal((await ada.post('/admin/note/1/', changed)).status, 303);
  const [row] = await service.sql`select state from note where id = 1`;
  assert.deepEqual(row, { state: 'old' });
});

test('a new record needs its foreign key, and the name of a column in the database is no field', async () => {
  const post = (body: object) => service.request('/api/entry/', { method: 'POST', user: 'ada', body });
  const missing = await post({ topic: 'x' });
  assert.equal(missing.status, 400);
  assert.deepEqual(missing.json.errors, { author_id: ['is required'] });
  const unknown = await post({ author_id: 1, theme: 'x' });
  assert.equal(unknown.status, 400);
  assert.deepEqual(Object.keys(unknown.json.errors), ['theme']);
  assert.equal((await post({ author_id: 1, topic: 'x' })).status, 201);
});

test('all faults of one field are listed', async () => {
  const { status, json } = await service.request('/api/note/?limit=0&limit=x');
  assert.equal(status, 400);
  assert.deepEqual(json.errors, { limit: ['must be given only once', 'must be a positive whole number'] });
});
