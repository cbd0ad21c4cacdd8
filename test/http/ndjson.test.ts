// Whole collections as a stream of JSON lines.
import assert from 'node:assert/strict';
import type { TestService } from '../support.ts';
import { assertProblem, jsonLinesOf } from './expect.ts';
import { openShelf } from './shelf.ts';
import { after, before, describe, test } from 'node:test';

const NDJSON = { accept: 'application/x-ndjson' };

describe('a collection as a stream', () => {
  let service: TestService;
  before(async () => {
    service = await openShelf();
  });
  after(() => service.close());

  const get = (path: string, user?: string, method = 'GET') =>
    service.request(path, { method, headers: NDJSON, ...(user === undefined ? {} : { user }) });

  test('has all records that the filters match, one on each line, in the requested order', async () => {
    for (const query of [
      '',
      '?ordering=title',
      '?ordering=-reader__username,id',
      '?lent=false&-id=2',
      '?id=99',
    ]) {
      const { json } = await service.request(`/api/book/${query}`);
      const answer = await get(`/api/book/${query}`);
      assert.equal(answer.status, 200);
      assert.deepEqual(jsonLinesOf(answer.text), json.objects, query);
    }
  });

  test('has each record on one line with all digits, also with line breaks in a json column', async () => {
    const { text } = await get('/api/book/?id=1');
    assert.equal(text.indexOf('\n'), text.length - 1);
    assert.ok(!text.includes('\r'));
    assert.match(text, /"data":\{"b": 1, {2}"a": \[1\.50, 12345678901234567890\], {3}"a": "x\\ny"\}/);
    assert.match(text, /"isbn":"9007199254740993"/);
  });

  test('has no pages: limit and page are 400, together with other errors', async () => {
    const answer = await get('/api/book/?limit=1&page=2&nope=1');
    assertProblem(answer, 400);
    assert.deepEqual(Object.keys(answer.json.errors).sort(), ['limit', 'nope', 'page']);
  });

  test('never has excluded columns', async () => {
    assert.doesNotMatch((await get('/api/book/')).text, /hidden|hushed/);
    assert.doesNotMatch((await get('/api/user/')).text, /password|argon2|email/);
  });

  test('is limited to callers who may read it, also in joins', async () => {
    assert.equal((await get('/api/letter/')).status, 401);
    assert.deepEqual(jsonLinesOf((await get('/api/letter/', 'bob')).text), [
      { id: 1, text: 'to Ada', sender_id: null },
    ]);
    assertProblem(await get('/api/secret/', 'bob'), 403);
    for (const user of [undefined, 'bob'])
      assertProblem(await get('/api/book/?secret__word=open', user), 400);
    assert.equal(jsonLinesOf((await get('/api/book/?secret__word=open', 'ada')).text).length, 1);
  });

  test('that fails at its first row is a problem document', async () => {
    await service.sql`alter table book rename column title to moved`;
    try {
      assertProblem(await get('/api/book/'), 500);
    } finally {
      await service.sql`alter table book rename column moved to title`;
    }
  });
});
