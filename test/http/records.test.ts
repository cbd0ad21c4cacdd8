import assert from 'node:assert/strict';
import { startService, useService, type TestService } from '../support.ts';
import { assertProblem } from './expect.ts';
import { describe, test } from 'node:test';

describe('the API of the shipped registry', () => {
  const service: TestService = useService(undefined, {}, async () => {
    ada = await service.addUser('ada', { admin: true });
    bob = await service.addUser('bob');
  });
  let ada: number;
  let bob: number;

  const post = (path: string, user: string, body: unknown) =>
    service.request(path, { method: 'POST', user, body });

  test('a collection has meta with exactly four keys, and objects', async () => {
    const { status, json, headers } = await service.request('/api/relationship/');
    assert.equal(status, 200);
    assert.equal(headers.get('content-type'), 'application/json; charset=utf-8');
    assert.deepEqual(json, {
      meta: { model: 'relationship', page: 1, next: '', previous: '' },
      objects: [],
    });
    assert.deepEqual(Object.keys(json.meta), ['model', 'page', 'next', 'previous']);
  });

  test('a POST returns 201 with the record, which a GET returns without meta', async () => {
    const { status, json, headers } = await post('/api/message/', 'bob', { content: 'hello' });
    assert.equal(status, 201);
    assert.deepEqual(Object.keys(json), ['id', 'user_id', 'content', 'pub_date']);
    assert.equal(json.user_id, bob);
    assert.match(json.pub_date, /^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d$/);
    assert.equal(headers.get('location'), `/api/message/${json.id}/`);
    const single = await service.request(`/api/message/${json.id}/`);
    assert.deepEqual([single.status, single.json], [200, json]);
  });

  test('excluded columns are in no output, and the other fields are unchanged', async () => {
    const shown = ['id', 'username', 'join_date', 'active', 'admin'];
    const body = { username: 'new', password: 'secret', email: 'new@example.org' };
    const created = await post('/api/user/', 'ada', body);
    assert.equal(created.status, 201);
    const path = `/api/user/${created.json.id}/`;
    const changed = await service.request(path, { method: 'PUT', user: 'ada', body: { email: 'x@y.z' } });
    const { json: list } = await service.request('/api/user/');
    const { json: single } = await service.request(path);
    for (const record of [created.json, changed.json, single, ...list.objects]) {
      assert.deepEqual(Object.keys(record), shown);
    }
    assert.equal(single.username, 'new');
    assert.equal(single.active, true);
    assert.equal(single.admin, false);
  });

  test('without an exclude list every column is output, also password hashes', async () => {
    const open = await startService([
      {
        model: 'user',
        columns: {
          username: { type: 'string', unique: true },
          password: { type: 'password' },
          email: { type: 'string' },
          active: { type: 'boolean', default: true },
          admin: { type: 'boolean', default: false },
        },
      },
    ]);
    try {
      await open.addUser('eve');
      const { json } = await open.request('/api/user/1/');
      assert.deepEqual(Object.keys(json), ['id', 'username', 'password', 'email', 'active', 'admin']);
      assert.match(json.password, /^\$argon2id\$/);
      assert.equal(json.email, 'eve@example.org');
    } finally {
      await open.close();
    }
  });

  test('a PUT returns 200 with the updated record, and keeps fields that are not sent', async () => {
    const { json: created } = await post('/api/message/', 'bob', {
      content: 'first',
      pub_date: '2001-02-03 04:05:06',
    });
    const path = `/api/message/${created.id}/`;
    const changed = await service.request(path, { method: 'PUT', user: 'bob', body: { content: 'second' } });
    assert.equal(changed.status, 200);
    assert.deepEqual(changed.json, { ...created, content: 'second' });
    assert.deepEqual((await service.request(path)).json, changed.json);
  });

  test('a DELETE returns 200, and the record is gone', async () => {
    const { json: created } = await post('/api/message/', 'bob', { content: 'short' });
    const path = `/api/message/${created.id}/`;
    const gone = await service.request(path, { method: 'DELETE', user: 'bob' });
    assert.equal(gone.status, 200);
    assert.deepEqual(gone.json, { deleted: 1 });
    assertProblem(await service.request(path), 404);
    assertProblem(await service.request(path, { method: 'DELETE', user: 'bob' }), 404);
  });

  test('foreign keys are sent as <field>_id with the related primary key', async () => {
    const { status, json } = await post('/api/relationship/', 'bob', { to_user_id: ada });
    assert.equal(status, 201);
    assert.deepEqual([json.from_user_id, json.to_user_id], [bob, ada]);
  });

  test('the authenticated user becomes the owner, also if a POST sends another owner', async () => {
    for (const claim of [{ user_id: ada }, { user: ada }, { user_id: 'nonsense' }, { user_id: null }]) {
      const { status, json } = await post('/api/message/', 'bob', { content: 'x', ...claim });
      assert.equal(status, 201);
      assert.equal(json.user_id, bob);
    }
  });

  test('only the owner may PUT and DELETE, not even an admin; anyone may GET', async () => {
    const { json: created } = await post('/api/message/', 'bob', { content: 'mine' });
    const path = `/api/message/${created.id}/`;
    assertProblem(
      await service.request(path, { method: 'PUT', user: 'ada', body: { content: 'taken' } }),
      403,
    );
    assertProblem(await service.request(path, { method: 'DELETE', user: 'ada' }), 403);
    assert.deepEqual((await service.request(path)).json, created);
    const own = await service.request(path, { method: 'PUT', user: 'bob', body: { content: 'still mine' } });
    assert.equal(own.status, 200);
  });

  test('a PUT never changes the owner', async () => {
    const { json: created } = await post('/api/message/', 'bob', { content: 'mine' });
    const body = { content: 'changed', user_id: ada };
    const { status, json } = await service.request(`/api/message/${created.id}/`, {
      method: 'PUT',
      user: 'bob',
      body,
    });
    assert.equal(status, 200);
    assert.deepEqual(json, { ...created, content: 'changed' });
  });

  test('a page has 20 records or the requested limit, and links to the next and previous page', async () => {
    await service.sql`insert into note (message) select 'n' || i from generate_series(1, 50) i`;
    const { json: first } = await service.request('/api/note/');
    assert.equal(first.objects.length, 20);
    assert.deepEqual(first.meta, {
      model: 'note',
      page: 1,
      next: '/api/note/?limit=20&page=2',
      previous: '',
    });
    const { json: small } = await service.request('/api/note/?limit=7&page=2');
    assert.equal(small.objects.length, 7);
    assert.equal(small.meta.next, '/api/note/?limit=7&page=3');
    assert.equal(small.meta.previous, '/api/note/?limit=7&page=1');
  });
});

test('ACCESS sets the level of resources without one', async () => {
  const columns = { x: { type: 'integer', null: true } } as const;
  const user = {
    model: 'user',
    columns: {
      username: { type: 'string', unique: true },
      password: { type: 'password' },
      email: { type: 'string' },
      active: { type: 'boolean', default: true },
      admin: { type: 'boolean', default: false },
    },
  } as const;
  const registry = [user, { model: 'free', columns }, { model: 'open', columns, access: 'user' }] as const;
  for (const [access, free] of [
    ['user', 201],
    ['admin', 403],
  ] as const) {
    const service = await startService(registry, { access });
    try {
      await service.addUser('bob');
      const write = (model: string) =>
        service.request(`/api/${model}/`, { method: 'POST', user: 'bob', body: {} });
      const answer = await write('free');
      assert.equal(answer.status, free, access);
      assert.equal((await write('open')).status, 201);
      assert.equal((await service.request('/api/free/')).status, 200);
    } finally {
      await service.close();
    }
  }
});
