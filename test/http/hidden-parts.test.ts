// Foreign keys of several columns, of which clients may set some but not see them.
import assert from 'node:assert/strict';
import { createVitrine, type Resource } from '../../src/index.ts';
import { user } from '../../src/resources/registry.ts';
import { type Answer, request, startService, type TestService } from '../support.ts';
import { after, before, describe, test } from 'node:test';

const casting: Resource = {
  model: 'casting',
  access: 'user',
  primaryKey: { columns: ['film', 'actor'] },
  columns: { film: { type: 'integer' }, actor: { type: 'string' } },
};
/** The same, which only admins may read. */
const contract: Resource = { ...casting, model: 'contract', read: 'admin', access: 'admin' };
const columns = {
  name: { type: 'string' },
  film_id: { type: 'integer', null: true },
  actor: { type: 'string', null: true },
  code: { type: 'string', null: true, unique: true },
  loose: { type: 'integer', null: true },
} as const;
const part = (references: string) => ({ of: { columns: ['film_id', 'actor'], references } });
const RESOURCES: readonly Resource[] = [
  user,
  casting,
  contract,
  { model: 'award', access: 'user', columns, foreignKeys: part('casting'), exclude: ['actor', 'code'] },
  { model: 'bonus', access: 'user', columns, foreignKeys: part('contract'), exclude: ['actor', 'code'] },
  { model: 'prize', access: 'user', columns, foreignKeys: part('casting'), exclude: ['code'] },
];

describe('a foreign key of several columns with a hidden one', () => {
  let service: TestService;
  before(async () => {
    service = await startService(RESOURCES);
    await service.addUser('ada');
    for (const table of ['casting', 'contract'])
      await service.sql`insert into ${service.sql(table)} (film, actor) values (1, 'known'), (2, 'known')`;
    for (const table of ['award', 'bonus', 'prize'])
      await service.sql`insert into ${service.sql(table)} (name, film_id, actor, code) values ('a', 1, 'known', null), ('b', null, null, 'taken')`;
    await service.sql`create table number (id integer primary key)`;
    await service.sql`alter table award add foreign key (loose) references number`;
  });
  after(() => service.close());

  const send = (method: string, path: string, body: unknown): Promise<Answer> =>
    service.request(`/api/${path}/`, { method, user: 'ada', body });
  const both = ['there is no such record (film_id, actor)'];
  const absent = ['there is no such record'];
  const ABSENT = { film_id: 1, actor: 'Absent' };

  for (const [what, method, path, body, errors] of [
    ['sends all', 'POST', 'award', { name: 'z', ...ABSENT }, { film_id: both, actor: both }],
    ['sends all', 'PUT', 'award/1', ABSENT, { film_id: both, actor: both }],
    ['sends the visible one', 'PUT', 'award/1', { film_id: 9 }, { film_id: absent }],
    [
      'sends another hidden value',
      'POST',
      'prize',
      { name: 'z', code: 'c', ...ABSENT },
      { film_id: both, actor: both },
    ],
    [
      'sends all in an array',
      'POST',
      'award',
      [{ name: 'y' }, { name: 'z', ...ABSENT }],
      { '1.film_id': both, '1.actor': both },
    ],
  ] as const)
    test(`a ${method} that ${what} and refers to no record is 400`, async () => {
      const answer = await send(method, path, body);
      assert.deepEqual([answer.status, answer.json.errors], [400, errors], answer.text);
    });

  for (const [method, path, body, errors] of [
    ['POST', 'bonus', { name: 'z', film_id: 1, actor: 'known' }, { film_id: both, actor: both }],
    ['PUT', 'bonus/1', { film_id: 1 }, { film_id: absent }],
  ] as const)
    test(`a ${method} of ${path} that refers to a record that the caller may not read is 400`, async () => {
      const answer = await send(method, path, body);
      assert.deepEqual([answer.status, answer.json.errors], [400, errors], answer.text);
    });

  test('takes a reference to a record, and one that is not complete', async () => {
    for (const body of [{ film_id: 2, actor: 'known' }, { film_id: 9 }, { film_id: 9, actor: null }]) {
      const made = await send('POST', 'award', { name: 'ok', ...body });
      assert.equal(made.status, 201, made.text);
      assert.equal((await send('DELETE', `award/${made.json.id}`, undefined)).status, 200);
    }
    assert.equal((await send('PUT', 'award/1', { actor: 'known', film_id: 2 })).status, 200);
    assert.equal((await send('PUT', 'award/1', { film_id: 1 })).status, 200);
  });

  for (const body of [{ name: 'z', loose: 9 }, [{ name: 'y' }, { name: 'z', loose: 9 }]])
    test(`a reference that only the database knows is 409, ${Array.isArray(body) ? 'in an array' : 'alone'}`, async () => {
      const { status, json } = await send('POST', 'award', body);
      assert.deepEqual([status, json.detail], [409, 'A record that this one refers to does not exist.']);
    });
});

const one: Resource = {
  model: 'one',
  columns: {
    me: { type: 'foreignKey', references: 'user', unique: true },
    code: { type: 'string', default: 'k', unique: true, null: true },
    secret: { type: 'foreignKey', references: 'secret', null: true },
  },
  access: 'user',
  owner: 'me',
  exclude: ['me', 'code'],
};

const secret: Resource = { model: 'secret', columns: { code: { type: 'text', null: true } }, read: 'user' };

describe('hidden columns', () => {
  let service: TestService;
  before(async () => {
    service = await startService([user, one, secret]);
    for (const name of ['ada', 'bob', 'eve']) await service.addUser(name);
  });
  after(() => service.close());

  const post = (name: string, body: object) =>
    service.request('/api/one/', { method: 'POST', user: name, body });

  test('a duplicate in a hidden column is 409 that names it only if the body sets it', async () => {
    assert.equal((await post('ada', { code: 'a' })).status, 201);
    const byOwner = await post('ada', { code: 'b' });
    assert.deepEqual([byOwner.status, byOwner.json.errors], [409, undefined]);
    assert.equal((await post('bob', {})).status, 201);
    const byDefault = await post('eve', {});
    assert.deepEqual([byDefault.status, byDefault.json.errors], [409, undefined]);
    const bySent = await post('eve', { code: 'a' });
    assert.deepEqual([bySent.status, Object.keys(bySent.json.errors)], [409, ['code']]);
  });

  test('an entity tag changes when the registry shows other columns', async () => {
    const { headers } = await service.request('/api/user/1/');
    const tag = headers.get('etag') ?? '';
    const narrower: Resource = { ...user, exclude: ['password', 'email', 'join_date'] };
    const resources = [narrower, one, secret];
    const other = await createVitrine({ databaseUrl: service.url, resources, port: 0, log: () => undefined });
    const { url } = await other.start();
    const again = (base: string) => request(base, '/api/user/1/', { headers: { 'if-none-match': tag } });
    assert.equal((await again(service.base)).status, 304);
    assert.equal((await again(url)).status, 200);
    await other.close();
  });

  test('wrong credentials do not show the columns of a protected resource', async () => {
    const ask = (query: string) =>
      service.request(`/api/one/?${query}`, { headers: { authorization: 'Basic eDp4' } });
    for (const query of [
      'secret__code=1',
      'secret__nothing=1',
      'ordering=secret__code',
      'ordering=secret__nothing',
    ]) {
      assert.equal((await ask(query)).status, 401, query);
    }
    assert.equal((await ask('secret__gt=1')).status, 200);
  });
});
