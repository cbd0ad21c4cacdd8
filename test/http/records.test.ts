import assert from 'node:assert/strict';
import { startService, type TestService } from '../support.ts';
import { assertProblem, assertUnauthorized } from './expect.ts';
import { after, before, describe, test } from 'node:test';

describe('the API of the shipped registry', () => {
  let service: TestService;
  let ada: number;
  let bob: number;
  before(async () => {
    service = await startService();
    ada = await service.addUser('ada', { admin: true });
    bob = await service.addUser('bob');
  });
  after(() => service.close());

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

  test('a POST returns 201 with the record, its generated id and its defaults', async () => {
    const { status, json, headers } = await post('/api/message/', 'bob', { content: 'hello' });
    assert.equal(status, 201);
    assert.deepEqual(Object.keys(json), ['id', 'user_id', 'content', 'pub_date']);
    assert.equal(json.user_id, bob);
    assert.match(json.pub_date, /^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d$/);
    assert.equal(headers.get('location'), `/api/message/${json.id}/`);
  });

  test('a single record is the object itself, without meta', async () => {
    const { json: created } = await post('/api/message/', 'bob', { content: 'alone' });
    const { status, json } = await service.request(`/api/message/${created.id}/`);
    assert.equal(status, 200);
    assert.deepEqual(json, created);
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

  test('the body may be JSON, or a form with the JSON in its field data', async () => {
    const text = JSON.stringify({ message: 'ünï & code = 100 %' });
    const bodies = [
      { headers: { 'content-type': 'application/json' }, body: text },
      {
        headers: { 'content-type': 'application/x-www-form-urlencoded' },
        body: `data=${encodeURIComponent(text)}`,
      },
    ];
    for (const sent of bodies) {
      const created = await service.request('/api/note/', { method: 'POST', user: 'bob', ...sent });
      assert.equal(created.status, 201);
      assert.equal(created.json.message, 'ünï & code = 100 %');
      const path = `/api/note/${created.json.id}/`;
      assert.equal((await service.request(path, { method: 'PUT', user: 'bob', ...sent })).status, 200);
    }
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

  test('a write without credentials, or with wrong ones, is 401', async () => {
    const methods = { POST: '/api/note/', PUT: '/api/note/1/', DELETE: '/api/note/1/' };
    for (const [method, path] of Object.entries(methods)) {
      const body = method === 'DELETE' ? undefined : { message: 'x' };
      assertUnauthorized(await service.request(path, { method, body }));
      assertUnauthorized(await service.request(path, { method, user: 'nobody', body }));
    }
  });

  test('any user may write at the user level, only admins at the admin level', async () => {
    const person = { username: 'x', password: 'y', email: 'z' };
    assert.equal((await post('/api/note/', 'bob', { message: 'x' })).status, 201);
    assert.equal((await post('/api/note/', 'ada', { message: 'x' })).status, 201);
    assertProblem(await post('/api/user/', 'bob', person), 403);
    assert.equal((await post('/api/user/', 'ada', person)).status, 201);
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

test('at the default level only GET is allowed, and ACCESS sets the level of resources without one', async () => {
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
    ['default', 401],
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
      if (free === 401) assertUnauthorized(answer);
      assert.equal((await write('open')).status, 201);
      assert.equal((await service.request('/api/free/')).status, 200);
    } finally {
      await service.close();
    }
  }
});
