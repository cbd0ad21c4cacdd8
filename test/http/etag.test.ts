import assert from 'node:assert/strict';
import type { Resource } from '../../src/index.ts';
import { request, startService, useService, type Answer, type TestService } from '../support.ts';
import { assertProblem } from './expect.ts';
import { describe, test } from 'node:test';

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

  test('only one of several writes with the same tag succeeds', async () => {
    const { path, tag } = await newNote();
    const answers = await Promise.all(
      Array.from({ length: 8 }, (_, index) => put(path, `writer ${index}`, { 'if-match': tag })),
    );
    assert.deepEqual(answers.map(({ status }) => status).sort(), [200, ...Array<number>(7).fill(412)]);
    const winner = answers.find(({ status }) => status === 200);
    assert.deepEqual((await service.request(path)).json, winner?.json);
  });

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

test('a registry that outputs other columns, or a column as another JSON value, changes the tag', async () => {
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
  try {
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
    const [before, now] = [
      await service.request('/api/names/1/'),
      await request(other.base, '/api/names/1/'),
    ];
    assert.deepEqual(now.json, before.json);
    assert.equal(now.headers.get('etag'), before.headers.get('etag'));
  } finally {
    await other.close();
    await service.close();
  }
});
