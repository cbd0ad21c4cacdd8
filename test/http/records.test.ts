import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import {
  type Answer,
  request,
  type RequestOptions,
  startService,
  type TestService,
  useService,
  pluck,
} from '../support.ts';
import { assertProblem, assertUnauthorized } from './expect.ts';
import type { Resource } from '../../src/index.ts';
import { user } from '../../src/resources/registry.ts';
import { hiddenFields, logIn } from '../admin/support.ts';
import { LOGIN_COLUMNS } from '../login-columns.ts';

describe('the API of the shipped registry', () => {
  const service: TestService = useService(undefined, {}, async () => {
    await service.addUser('ada', { admin: true });
    bob = await service.addUser('bob');
  });
  let bob: number;

  const post = (path: string, user: string, body: unknown) =>
    service.request(path, { method: 'POST', user, body });

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
});

test('ACCESS sets the level of resources without one', async () => {
  const columns = { x: { type: 'integer', null: true } } as const;
  const user = {
    model: 'user',
    columns: { ...LOGIN_COLUMNS, email: { type: 'string' } },
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

// PATCH, which means the same as PUT, and the preference for strict handling of read-only fields.

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

describe('entity tags', () => {
  const service: TestService = useService(undefined, {}, () => service.addUser('ada', { admin: true }));

  const note = (id: number): string => `/api/note/${id}/`;

  async function newNote(): Promise<{ path: string; tag: string }> {
    const { json, headers } = await service.request('/api/note/', {
      method: 'POST',
      user: 'ada',
      body: { message: 'first' },
    });
    return { path: note(json.id), tag: headers.get('etag') ?? '' };
  }

  const put = (path: string, message: string, headers: Record<string, string> = {}): Promise<Answer> =>
    service.request(path, { method: 'PUT', user: 'ada', body: { message }, headers });

  const tagOf = async (path: string): Promise<string> =>
    (await service.request(path)).headers.get('etag') ?? '';

  test('POST, GET, HEAD and PUT return the current tag of the record', async () => {
    const { path, tag } = await newNote();
    assert.match(tag, /^"[\x21\x23-\x7e]+"$/);
    assert.equal(await tagOf(path), tag);
    assert.equal((await service.request(path, { method: 'HEAD' })).headers.get('etag'), tag);
    const changed = (await put(path, 'second')).headers.get('etag');
    assert.notEqual(changed, tag);
    assert.equal(await tagOf(path), changed);
  });

  test('a write that changes nothing keeps the tag', async () => {
    const { path, tag } = await newNote();
    for (const body of [{}, { message: 'first' }]) {
      const same = await service.request(path, { method: 'PUT', user: 'ada', body });
      assert.deepEqual([same.status, same.headers.get('etag')], [200, tag]);
    }
  });

  test('a change of an excluded column changes the tag, but not the output', async () => {
    const id = await service.addUser('eve');
    const path = `/api/user/${id}/`;
    const first = await service.request(path);
    for (const body of [{ email: 'other@example.org' }, { password: 'other' }]) {
      const tag = await tagOf(path);
      await service.request(path, { method: 'PUT', user: 'ada', body });
      const second = await service.request(path);
      assert.deepEqual(second.json, first.json);
      assert.notEqual(second.headers.get('etag'), tag);
    }
  });

  test('a change by another program changes the tag', async () => {
    const { path, tag } = await newNote();
    await service.sql`update note set message = 'elsewhere' where id = ${Number(path.split('/')[3])}`;
    assert.notEqual(await tagOf(path), tag);
  });

  /** A header made from the tag of a record, and whether it matches strongly and weakly. */
  const headers: readonly [name: string, header: (tag: string) => string, strong: boolean, weak: boolean][] =
    [
      ['the tag', (tag) => tag, true, true],
      ['the tag among others', (tag) => `"a", ${tag} ,"b"`, true, true],
      ['the tag in a list without spaces', (tag) => `"a","with, comma",${tag}`, true, true],
      ['the weak tag', (tag) => `W/${tag}`, false, true],
      ['the weak tag among others', (tag) => `"a", W/${tag}`, false, true],
      ['*', () => '*', true, true],
      ['another tag', () => '"other"', false, false],
      ['another weak tag', () => 'W/"other"', false, false],
      ['a longer tag', (tag) => `"x${tag.slice(1)}`, false, false],
      [
        'a tag with another end',
        (tag) => `${tag.slice(0, -2)}${tag.at(-2) === '0' ? '1' : '0'}"`,
        false,
        false,
      ],
      ['an empty tag', () => '""', false, false],
      ['the tag without quotes', (tag) => tag.replaceAll('"', ''), false, false],
      ['no tag at all', () => 'nonsense', false, false],
    ];

  for (const [name, header, strong, weak] of headers) {
    test(`If-None-Match with ${name} is ${weak ? '304' : '200'}`, async () => {
      const { path, tag } = await newNote();
      for (const method of ['GET', 'HEAD']) {
        const answer = await service.request(path, { method, headers: { 'if-none-match': header(tag) } });
        assert.equal(answer.status, weak ? 304 : 200);
        assert.equal(answer.headers.get('etag'), tag);
        assert.equal(answer.text === '', weak || method === 'HEAD');
      }
    });

    test(`If-Match with ${name} is ${strong ? '200' : '412, and changes nothing'}`, async () => {
      const { path, tag } = await newNote();
      const changed = await put(path, 'second', { 'if-match': header(tag) });
      if (!strong) assertProblem(changed, 412);
      else assert.equal(changed.status, 200);
      assert.equal((await service.request(path)).json.message, strong ? 'second' : 'first');
      const removed = await service.request(path, {
        method: 'DELETE',
        user: 'ada',
        headers: { 'if-match': header(await tagOf(path)) },
      });
      if (!strong) assertProblem(removed, 412);
      else assert.equal(removed.status, 200);
      assert.equal((await service.request(path)).status, strong ? 404 : 200);
    });
  }

  test('If-Match on a missing record is 404, also with *', async () => {
    for (const tag of ['*', '"x"']) {
      for (const method of ['PUT', 'DELETE']) {
        const body = method === 'PUT' ? {} : undefined;
        const answer = await service.request(note(9999), {
          method,
          user: 'ada',
          headers: { 'if-match': tag },
          body,
        });
        assertProblem(answer, 404);
      }
    }
  });

  test('a write with If-None-Match: * is 412 for an existing record, and 404 for a missing one', async () => {
    const [row] = await service.sql`insert into note (message) values ('there') returning id`;
    for (const [id, status] of [
      [row?.['id'], 412],
      [9999, 404],
    ] as const) {
      for (const method of ['PUT', 'DELETE']) {
        const headers = { 'if-none-match': '*' };
        const body = method === 'PUT' ? { message: 'other' } : undefined;
        const answer = await service.request(note(id), { method, user: 'ada', headers, body });
        assertProblem(answer, status);
        if (status === 412) assert.equal(answer.json.detail, 'There is a record with this key already.');
      }
    }
    assert.equal((await service.request(note(row?.['id']))).json.message, 'there');
  });

  for (const [name, header, status] of [
    ['the current tag', (tag: string) => tag, 412],
    ['the weak tag', (tag: string) => `W/${tag}`, 412],
    ['the tag among others', (tag: string) => `"other", ${tag}`, 412],
    ['another tag', () => '"other"', 200],
  ] as const)
    test(`a write with ${name} in If-None-Match is ${status}`, async () => {
      const { path, tag } = await newNote();
      const headers = { 'if-none-match': header(tag) };
      assert.equal((await put(path, 'second', { ...headers, 'if-match': tag })).status, status);
      const now = { 'if-none-match': header(await tagOf(path)) };
      const removed = await service.request(path, { method: 'DELETE', user: 'ada', headers: now });
      assert.equal(removed.status, status);
      if (status === 412) {
        assertProblem(removed, 412);
        assert.equal(removed.json.detail, 'The record has a version that If-None-Match lists.');
        assert.equal((await service.request(path)).json.message, 'first');
        assert.equal((await put(path, 5 as unknown as string, headers)).status, 400);
      }
      assert.equal((await put(note(9999), 'x', headers)).status, 404);
      assert.equal((await service.request(path, { method: 'PUT', body: {}, headers })).status, 401);
    });

  test('a record that is deleted and created again has another tag', async () => {
    const [row] = await service.sql`insert into note (message) values ('same') returning id, created`;
    const path = note(row?.['id']);
    const tag = await tagOf(path);
    await service.sql`delete from note where id = ${row?.['id']}`;
    await service.sql`insert into note (id, message, created) values (${row?.['id']}, 'same', ${row?.['created']})`;
    assertProblem(await put(path, 'second', { 'if-match': tag }), 412);
  });

  test('collections and errors have no tag, and are never 304', async () => {
    for (const [path, status] of [
      ['/api/note/', 200],
      ['/api/', 200],
      [note(9999), 404],
    ] as const) {
      const answer = await service.request(path, { headers: { 'if-none-match': '*' } });
      assert.deepEqual([answer.status, answer.headers.get('etag')], [status, null]);
    }
  });
});

test('a registry that outputs other columns, or a column as another JSON value, changes the tag', async (t) => {
  const author: Resource = { model: 'author', primaryKey: { type: 'bigint' }, columns: {} };
  const registry = (columns: Readonly<Record<string, Resource['columns']>>): Resource[] => [
    author,
    ...Object.entries(columns).map(([model, one]) => ({ model, columns: one })),
  ];
  const numbers = registry({
    keys: { author: { type: 'foreignKey', references: 'author' } },
    names: { title: { type: 'string' } },
    shown: { title: { type: 'string' } },
  });
  const texts = registry({
    keys: { author_id: { type: 'bigint' } },
    names: { title: { type: 'text', maxLength: 255 } },
  }).concat({ model: 'shown', columns: { title: { type: 'string' } }, exclude: ['title'] });
  const service = await startService(numbers, {
    prepare: (sql) =>
      sql
        .unsafe(
          `create table author (id bigserial primary key);
          create table keys (id serial primary key, author_id bigint not null references author on delete restrict);
          create table names (id serial primary key, title varchar(255) not null);
          create table shown (like names including all); insert into shown (title) values ('x');
          insert into author default values;
          insert into keys (author_id) values (1);
          insert into names (title) values ('x')`,
        )
        .simple(),
  });
  const other = await startService(texts, { databaseUrl: service.url, schema: 'check' });
  t.after(async () => {
    await other.close();
    await service.close();
  });
  const path = '/api/keys/1/';
  const number = await service.request(path);
  const headers = { 'if-none-match': number.headers.get('etag') ?? '' };
  assert.equal((await service.request(path, { headers })).status, 304);
  const digits = await request(other.base, path, { headers });
  assert.equal(digits.status, 200);
  assert.notDeepEqual(digits.json, number.json);
  const whole = { 'if-none-match': (await service.request('/api/shown/1/')).headers.get('etag') ?? '' };
  assert.equal((await service.request('/api/shown/1/', { headers: whole })).status, 304);
  assert.equal((await request(other.base, '/api/shown/1/', { headers: whole })).status, 200);
  const [before, now] = [await service.request('/api/names/1/'), await request(other.base, '/api/names/1/')];
  assert.deepEqual(now.json, before.json);
  assert.equal(now.headers.get('etag'), before.headers.get('etag'));
});

// Rules that only show in a certain combination, such as two plus signs, or equal values beside a default ordering.

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

// A POST with an array creates all records or none, with the same rules as for one record.

const DEFAULTS = [...'abcdefghij'];
const withDefaults = (names: readonly string[]): Resource['columns'] =>
  Object.fromEntries(names.map((name) => [name, { type: 'string', default: 'x' }]));

const RESOURCES: Resource[] = [
  user,
  { model: 'secret', columns: { text: { type: 'string' } }, read: 'admin', access: 'admin' },
  {
    model: 'book',
    columns: {
      title: { type: 'string', unique: true },
      pages: { type: 'integer', null: true },
      price: { type: 'decimal', null: true },
      kind: { type: 'string', default: 'novel' },
      tags: { type: 'json', null: true },
      added: { type: 'datetime', default: 'now' },
      author: { type: 'foreignKey', references: 'user', null: true },
      secret: { type: 'foreignKey', references: 'secret', null: true },
      editor: { type: 'foreignKey', references: 'user', null: true },
    },
    owner: 'editor',
    access: 'user',
    history: true,
  },
  {
    model: 'place',
    primaryKey: { type: 'string' },
    columns: { name: { type: 'string' }, parent: { type: 'foreignKey', references: 'place', null: true } },
    access: 'user',
  },
  {
    model: 'place_view',
    primaryKey: { type: 'string' },
    columns: {
      name: { type: 'string' },
      parent: { type: 'foreignKey', references: 'place_view', null: true },
    },
    methods: ['GET', 'POST', 'PUT'],
    access: 'user',
  },
  {
    model: 'page',
    primaryKey: { type: 'string' },
    columns: { name: { type: 'string' }, writer: { type: 'foreignKey', references: 'user' } },
    owner: 'writer',
    access: 'user',
  },
  { model: 'counted', primaryKey: { type: 'bigint' }, columns: { name: { type: 'string' } }, access: 'user' },
  { model: 'bare', columns: { text: { type: 'string', default: 'x' } }, access: 'user' },
  {
    model: 'open_ticket',
    primaryKey: { type: 'integer', column: 'id' },
    columns: { title: { type: 'string' }, state: { type: 'string', null: true } },
    methods: ['GET', 'POST'],
    access: 'user',
  },
  {
    model: 'varied',
    primaryKey: { type: 'string' },
    columns: { ...withDefaults(DEFAULTS), parent: { type: 'foreignKey', references: 'varied', null: true } },
    access: 'user',
  },
  {
    model: 'wide',
    columns: withDefaults([...DEFAULTS, ...Array.from({ length: 189 }, (_, index) => `w${index}`)]),
    access: 'user',
    history: true,
  },
];

const manyService: TestService = useService(
  RESOURCES,
  {
    prepare: (sql) =>
      sql.unsafe(`
          create table ticket (id integer primary key generated by default as identity, title varchar(255), state varchar(255) default 'open');
          create table place (id varchar(255) primary key, name varchar(255) not null, parent_id varchar(255) references place);
          create index on place (parent_id);
          create view place_view as select * from place;
          create view open_ticket as select id, title, state from ticket`),
  },
  async () => {
    ada = await manyService.addUser('ada');
    await manyService.addUser('root', { admin: true });
    await manyService.addUser('bob');
    await manyService.sql`insert into secret (text) values ('x')`;
    await manyService.sql`alter table varied add check (a <> 'refused')`;
    await manyService.sql`
      create function cancel_varied() returns trigger language plpgsql as
      $$ begin if new.a = 'canceled' then return null; end if; return new; end $$`.simple();
    await manyService.sql`create trigger cancel before insert on varied for each row execute function cancel_varied()`.simple();
  },
);
let ada: number;

describe('a POST with an array', () => {
  const post = (model: string, body: unknown, headers = {}, name = 'ada'): Promise<Answer> =>
    manyService.request(`/api/${model}/`, { method: 'POST', user: name, body, headers });
  const count = async (table: string): Promise<number> =>
    Number((await manyService.sql`select count(*) from ${manyService.sql(table)}`)[0]?.['count']);

  test('leaves the defaults of its table to a view', async () => {
    const { status, json, text } = await post('open_ticket', [{ title: 'a', state: 'paid' }, { title: 'b' }]);
    assert.equal(status, 201, text);
    assert.deepEqual(pluck(json, 'state'), ['paid', 'open']);
  });

  test('has no Location, gives each record its owner, and has an entry in the history for each', async () => {
    const { status, json, headers, text } = await post('book', [
      { title: 'a' },
      { title: 'b', author_id: ada },
    ]);
    assert.equal(status, 201, text);
    assert.equal(headers.get('location'), null);
    for (const record of json) {
      assert.deepEqual((await manyService.request(`/api/book/${record.id}/`)).json, record);
      assert.equal(record.editor_id, ada);
    }
    const entries = await manyService.sql`
      select record, user_name, action from vitrine_history where model = 'book' order by id`;
    assert.deepEqual(
      entries.map(({ record, user_name, action }) => [record, user_name, action]),
      json.map(({ id }: { id: number }) => [String(id), 'ada', 'create']),
    );
  });

  test('ignores a Prefer header of more than 1,024 characters', async () => {
    for (const [padding, isApplied] of [
      [1_024, true],
      [1_025, false],
    ] as const) {
      const Prefer = 'return=minimal'.padEnd(padding - 1, ',').concat('x');
      const { status, headers } = await post('book', [{ title: `long ${padding}` }], { Prefer });
      assert.equal(status, 201);
      assert.equal(headers.has('preference-applied'), isApplied);
    }
  });

  test('returns only the keys with Prefer: return=minimal', async () => {
    const { status, json, headers } = await post('book', [{ title: 'e' }, { title: 'f' }], {
      Prefer: 'return=minimal',
    });
    assert.equal(status, 201);
    assert.equal(headers.get('preference-applied'), 'return=minimal');
    const rows = await manyService.sql`select id from book where title in ('e', 'f') order by title`;
    assert.deepEqual(json, pluck(rows, 'id'));
    const places = await post('place', [{ id: 'x "y"', name: 'x' }], { Prefer: 'return=minimal' });
    assert.deepEqual(places.json, ['x "y"']);
    const counted = await post('counted', [{ name: 'a' }, { name: 'b' }], { Prefer: 'return=minimal' });
    assert.deepEqual(counted.json, [1, 2]);
    const logged = await manyService.sql`
      select after::json ->> 'title' as title from vitrine_history where model = 'book' order by id desc limit 2`;
    assert.deepEqual(pluck(logged, 'title'), ['f', 'e']);
  });

  test('names all faults with the position of their record, and writes nothing', async () => {
    const before = await count('book');
    const { status, json } = await post('book', [
      { title: 'g' },
      { pages: 'x' },
      5,
      { title: 'h', nosuch: 1 },
      { title: 'i', author: 99_999 },
      null,
      { title: 'j', id: 7 },
    ]);
    assert.equal(status, 400);
    // In JSON objects of JavaScript, whole numbers come first.
    assert.deepEqual(Object.keys(json.errors), [
      '2',
      '5',
      '1.title',
      '1.pages',
      '3.nosuch',
      '4.author',
      '6.id',
    ]);
    assert.deepEqual(json.errors['4.author'], ['there is no such record']);
    assert.equal(await count('book'), before);
  });

  test('is 409 for duplicates of stored records and of each other, and writes nothing', async () => {
    await post('book', [{ title: 'stored' }]);
    const before = await count('book');
    const { status, json } = await post('book', [{ title: 'k' }, { title: 'stored' }, { title: 'k' }]);
    assert.equal(status, 409);
    assert.deepEqual(Object.keys(json.errors).sort(), ['1.title', '2.title']);
    assert.equal(await count('book'), before);
  });

  test('may have records that refer to each other by natural keys', async () => {
    const { status, json } = await post('place', [
      { id: 'berlin', name: 'Berlin', parent: 'germany' },
      { id: 'germany', name: 'Germany' },
    ]);
    assert.equal(status, 201);
    assert.deepEqual(pluck(json, 'id'), ['berlin', 'germany']);
    const { json: refused } = await post('place', [{ id: 'p', name: 'x', parent: 'q' }]);
    assert.deepEqual(refused.errors, { '0.parent': ['there is no such record'] });
  });

  test('creates records without any fields', async () => {
    const { status, json } = await post('bare', [{}, { text: 'y' }, {}]);
    assert.equal(status, 201);
    assert.deepEqual(pluck(json, 'text'), ['x', 'y', 'x']);
  });

  test('hashes the passwords of users', async () => {
    const bodies = ['u1', 'u2'].map((name) => ({
      username: name,
      password: `pw-${name}`,
      email: `${name}@example.org`,
    }));
    const { status, text } = await post('user', bodies, {}, 'root');
    assert.equal(status, 201, text);
    for (const name of ['u1', 'u2']) assert.equal((await post('bare', [{}], {}, name)).status, 201);
  });

  test('writes nothing when a trigger cancels one of the records', async () => {
    await manyService.sql`
      create function cancel() returns trigger language plpgsql as
      $$ begin if new.text = 'cancel' then return null; end if; return new; end $$`.simple();
    await manyService.sql`create trigger cancel before insert on bare for each row execute function cancel()`.simple();
    const before = await count('bare');
    const { status } = await post('bare', [{ text: 'a' }, { text: 'cancel' }]);
    assert.equal(status, 409);
    assert.equal(await count('bare'), before);
  });

  test('is 400, as for one record, when a rule of the database cannot be computed', async () => {
    await manyService.sql`alter table bare add constraint computed check (1 / length(text) >= 0)`;
    assert.equal((await post('bare', { text: '' })).status, 400);
    assert.equal((await post('bare', [{ text: 'a' }, { text: '' }])).status, 400);
    await manyService.sql`alter table bare drop constraint computed`;
  });

  /** Different sets of fields, by the bits of their positions. */
  const setsOf = (size: number): Record<string, string>[] =>
    Array.from({ length: size }, (_, position) =>
      Object.fromEntries(
        DEFAULTS.filter((_name, bit) => (position >> bit) % 2 === 1).map((key) => [key, 'y']),
      ),
    );

  test('creates records with 1,000 different sets of fields in a table of 200 columns', async () => {
    const sent = setsOf(1_000).map((set, index) => ({ ...set, [`w${index % 189}`]: String(index) }));
    const { status, json, text } = await post('wide', sent);
    assert.equal(status, 201, text);
    assert.equal(json.length, 1_000);
    for (const [index, record] of (json as Record<string, unknown>[]).entries())
      for (const key of [...DEFAULTS, `w${index % 189}`, `w${(index + 1) % 189}`])
        assert.equal(record[key], sent[index]?.[key] ?? 'x');
    const entries = await manyService.sql`
      select record, user_name from vitrine_history where model = 'wide' order by id`;
    assert.deepEqual(
      entries.map(({ record, user_name }) => [record, user_name]),
      json.map(({ id }: { id: number }) => [String(id), 'ada']),
    );
    const keys = await post('wide', sent.slice(0, 40), { Prefer: 'return=minimal' });
    assert.deepEqual(
      keys.json,
      Array.from({ length: 40 }, (_, index) => Number(json[999].id) + 1 + index),
    );
  });

  describe('with more than 32 different sets of fields', () => {
    const set = [...setsOf(1_000)].reverse();
    const sent = set.map((one, index) => ({ id: String(index), ...one }));
    const replaced = (position: number, body: Record<string, unknown>): unknown[] =>
      sent.map((one, index) => (index === position ? { ...one, ...body } : one));

    for (const [name, body, status, errors] of [
      ['an invalid field', { nosuch: 1 }, 400, { '999.nosuch': ['there is no such field'] }],
      ['a reference to nothing', { parent: 'none' }, 400, { '999.parent': ['there is no such record'] }],
      ['a duplicate of another record', { id: '0' }, 409, { '999.id': ['another record has this value'] }],
    ] as const)
      test(`names the position of ${name} in the last record, and writes nothing`, async () => {
        const answer = await post('varied', replaced(999, body));
        assert.deepEqual([answer.status, answer.json.errors], [status, errors]);
        assert.equal(await count('varied'), 0);
      });

    test('writes nothing when a rule or a trigger of the database refuses the last record', async () => {
      assert.equal((await post('varied', replaced(999, { a: 'refused' }))).status, 400);
      assert.equal((await post('varied', replaced(999, { a: 'canceled' }))).status, 409);
      assert.equal(await count('varied'), 0);
    });

    test('writes nothing when the credentials have changed', async () => {
      await manyService.sql`update "user" set active = false where username = 'ada'`;
      assert.equal((await post('varied', sent)).status, 401);
      await manyService.sql`update "user" set active = true where username = 'ada'`;
      assert.equal(await count('varied'), 0);
    });

    test('lets a record refer to those before it', async () => {
      const { status, json, text } = await post('varied', replaced(999, { parent: '0' }));
      assert.equal(status, 201, text);
      assert.deepEqual(
        json.map(({ id }: { id: string }) => id),
        sent.map(({ id }) => id),
      );
      assert.equal(json[999].parent_id, '0');
      await manyService.sql`delete from varied`;
    });
  });

  test('needs the same credentials as a POST of one record', async () => {
    const body = [{ title: 'o' }];
    assert.equal((await manyService.request('/api/book/', { method: 'POST', body })).status, 401);
    assert.equal((await post('secret', [{ text: 'x' }])).status, 403);
    assert.equal((await post('secret', [{ text: 'x' }], {}, 'root')).status, 201);
  });

  for (const [name, text, detail] of [
    ['no record', ' [ ] ', 'The body has no records.'],
    ['more than 1,000 records', `[${'{},'.repeat(1_000)}{}]`, 'The body has more than 1000 records.'],
    [
      'too many fields',
      `[${Array.from({ length: 11 }, () => `{${Array.from({ length: 9_999 }, (_, key) => `"${key}":1`).join()}}`).join()}]`,
      'The body has more than 100000 fields.',
    ],
  ] as const)
    test(`is 400 with ${name}`, async () => {
      const { status, json } = await post('bare', text, { 'content-type': 'application/json' });
      assert.deepEqual([status, json.detail], [400, detail]);
    });

  test('stores what was sent, for any values and any sets of fields', async () => {
    const record = fc.record(
      {
        pages: fc.option(fc.integer({ min: -(2 ** 31), max: 2 ** 31 - 1 })),
        price: fc.constantFrom('1.50', '-0.01', '12345678901234567890.5'),
        kind: fc.string({ maxLength: 20, unit: 'grapheme' }).filter((text) => !text.includes('\0')),
        tags: fc
          .option(fc.jsonValue({ maxDepth: 2 }))
          .filter((value) => !JSON.stringify(value ?? 0).includes('\\u0000')),
        author: fc.option(fc.constant(ada)),
      },
      { requiredKeys: [] },
    );
    let round = 0;
    await fc.assert(
      fc.asyncProperty(fc.array(record, { minLength: 1, maxLength: 30 }), async (bodies) => {
        round += 1;
        const sent = bodies.map((body, index) => ({ title: `${round} ${index}`, ...body }));
        const { status, json, text } = await post('book', sent);
        assert.equal(status, 201, text);
        sent.forEach((body, index) => {
          const { author, ...rest } = body as Record<string, unknown>;
          const expected = { ...rest, ...(author === undefined ? {} : { author_id: author }) };
          const shown = Object.fromEntries(Object.keys(expected).map((key) => [key, json[index][key]]));
          assert.deepEqual(shown, JSON.parse(JSON.stringify(expected)));
        });
      }),
      { numRuns: 40 },
    );
  });
});

describe('a PUT with If-None-Match: *', () => {
  const put = (
    path: string,
    body: unknown,
    headers: Record<string, string> = { 'If-None-Match': '*' },
  ): Promise<Answer> => manyService.request(path, { method: 'PUT', user: 'ada', body, headers });

  test('creates a record whose key the client sets, once', async () => {
    const path = `/api/place/${encodeURIComponent('Köln/Süd')}/`;
    const created = await put(path, { name: 'Köln' });
    assert.equal(created.status, 201, created.text);
    assert.deepEqual(created.json, { id: 'Köln/Süd', name: 'Köln', parent_id: null });
    assert.equal(created.headers.get('location'), path);
    assert.ok(created.headers.get('etag'));
    const again = await put(path, { name: 'Other' });
    assert.equal(again.status, 412);
    assert.equal((await manyService.request(path)).json.name, 'Köln');
    assert.equal((await put(path, { name: 'Other' }, {})).status, 200);
  });

  test('creates a record of a view that refers to itself, and to no missing one', async () => {
    const created = await put('/api/place_view/earth/', { name: 'Earth', parent: 'earth' });
    assert.equal(created.status, 201, created.text);
    const refused = await put('/api/place_view/moon/', { name: 'Moon', parent: 'venus' });
    assert.deepEqual(refused.json.errors, { parent: ['there is no such record'] });
  });

  test('has one winner among many at once', async () => {
    const answers = await Promise.all(
      Array.from({ length: 20 }, (_, index) => put('/api/place/raced/', { name: String(index) })),
    );
    const statuses = answers.map(({ status }) => status).sort();
    assert.deepEqual(statuses, [201, ...Array<number>(19).fill(412)]);
  });

  test('checks the body as a POST does, and its id', async () => {
    assert.deepEqual((await put('/api/place/a/', {})).json.errors, { name: ['is required'] });
    assert.deepEqual(Object.keys((await put('/api/place/a/', { id: 'b', name: 'x' })).json.errors), ['id']);
    assert.equal((await put('/api/place/a/', { id: 'a', name: 'x' })).status, 201);
  });

  test('is 403 for a record of another owner, as without the header', async () => {
    const path = '/api/page/start/';
    assert.equal((await put(path, { name: 'x' })).status, 201);
    assert.equal((await put(path, { name: 'y' })).status, 412);
    for (const headers of [{ 'If-None-Match': '*' }, {}]) {
      const other = await manyService.request(path, {
        method: 'PUT',
        user: 'bob',
        body: { name: 'y' },
        headers,
      });
      assert.equal(other.status, 403);
    }
  });

  test('is 404 without the header, and where the database generates keys', async () => {
    assert.equal((await put('/api/place/none/', { name: 'x' }, {})).status, 404);
    assert.equal((await put('/api/bare/9999/', { text: 'x' })).status, 404);
  });

  test('never creates a record that If-Match requires', async () => {
    for (const tag of ['*', '"1-abc"']) {
      const headers = { 'If-None-Match': '*', 'If-Match': tag };
      assert.equal((await put('/api/place/matched/', { name: 'x' }, headers)).status, 404);
    }
  });

  test('needs credentials', async () => {
    const headers = { 'If-None-Match': '*' };
    const answer = await manyService.request('/api/place/b/', {
      method: 'PUT',
      body: { name: 'x' },
      headers,
    });
    assert.equal(answer.status, 401);
  });
});
