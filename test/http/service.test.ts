import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { startService, type TestService } from '../support.ts';

describe('the sentences of service.md, on the shipped registry', () => {
  let service: TestService;
  let ada: number;
  let bob: number;
  before(async () => {
    service = await startService();
    ada = await service.addUser('ada', { admin: true });
    bob = await service.addUser('bob');
  });
  after(() => service.close());

  test('a collection has meta with exactly four keys, and objects', async () => {
    const { status, json, headers } = await service.request('/api/message/');
    assert.equal(status, 200);
    assert.equal(headers.get('content-type'), 'application/json; charset=utf-8');
    assert.deepEqual(json, { meta: { model: 'message', page: 1, next: '', previous: '' }, objects: [] });
    assert.deepEqual(Object.keys(json.meta), ['model', 'page', 'next', 'previous']);
  });

  test('a POST answers 201 with the record, its generated id and its defaults', async () => {
    const { status, json, headers } = await service.request('/api/message/', {
      method: 'POST',
      user: 'bob',
      body: { content: 'hello' },
    });
    assert.equal(status, 201);
    assert.deepEqual(Object.keys(json), ['id', 'user_id', 'content', 'pub_date']);
    assert.equal(json.user_id, bob);
    assert.match(json.pub_date, /^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d$/);
    assert.equal(headers.get('location'), `/api/message/${json.id}/`);
  });

  test('the owner is the authenticated user, whatever the body says', async () => {
    const { json } = await service.request('/api/message/', {
      method: 'POST',
      user: 'bob',
      body: { content: 'x', user_id: ada },
    });
    assert.equal(json.user_id, bob);
  });

  test('excluded columns are absent from every output', async () => {
    const { json } = await service.request('/api/user/');
    assert.deepEqual(Object.keys(json.objects[0]), ['id', 'username', 'join_date', 'active', 'admin']);
  });

  test('a write without credentials is the 401 of the contract, to the letter', async () => {
    const { status, text, headers } = await service.request('/api/note/', {
      method: 'POST',
      body: { message: 'x' },
    });
    assert.equal(status, 401);
    assert.equal(headers.get('www-authenticate'), 'Basic realm="Login Required"');
    assert.equal(headers.get('content-type'), 'text/html; charset=utf-8');
    assert.equal(text, 'Authentication failed');
  });
});
