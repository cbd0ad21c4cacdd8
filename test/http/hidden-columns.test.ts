import assert from 'node:assert/strict';
import { createVitrine, type Resource } from '../../src/index.ts';
import { user } from '../../src/resources/registry.ts';
import { request, startService, type TestService } from '../support.ts';
import { after, before, describe, test } from 'node:test';

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

  test('a duplicate in a hidden column is 409 without its name, also for a default or an owner', async () => {
    assert.equal((await post('ada', { code: 'a' })).status, 201);
    const byOwner = await post('ada', { code: 'b' });
    assert.deepEqual([byOwner.status, byOwner.json.errors], [409, undefined]);
    assert.equal((await post('bob', {})).status, 201);
    const byDefault = await post('eve', {});
    assert.deepEqual([byDefault.status, byDefault.json.errors], [409, undefined]);
    const bySent = await post('eve', { code: 'a' });
    assert.deepEqual([bySent.status, bySent.json.errors], [409, undefined]);
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
