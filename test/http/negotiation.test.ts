// The format of an answer, by the Accept header (RFC 9110).
import assert from 'node:assert/strict';
import { basic, type TestService } from '../support.ts';
import { assertProblem, assertUnauthorized } from './expect.ts';
import { openShelf } from './shelf.ts';
import { exactRequest } from './wire.ts';
import { after, before, describe, test } from 'node:test';

const JSON_TYPE = 'application/json; charset=utf-8';
const HTML = 'text/html; charset=utf-8';
const CSV = 'text/csv; charset=utf-8; header=present';
const NDJSON = 'application/x-ndjson';
const BROWSER = 'text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,*/*;q=0.8';

const COLLECTION: readonly [accept: string | undefined, type: string | undefined][] = [
  [undefined, JSON_TYPE],
  ['', JSON_TYPE],
  ['*/*', JSON_TYPE],
  ['application/*', JSON_TYPE],
  ['application/json', JSON_TYPE],
  ['Application/JSON; charset=utf-8', JSON_TYPE],
  ['application/json, text/plain, */*', JSON_TYPE],
  ['application/json, text/html', JSON_TYPE],
  ['text/html, application/json', JSON_TYPE],
  ['text/csv;q=0.9, */*;q=0.9', JSON_TYPE],
  ['image/png, */*;q=0.1', JSON_TYPE],
  ['json', JSON_TYPE],
  ['text/csv;q=2', JSON_TYPE],
  [BROWSER, HTML],
  ['text/html', HTML],
  ['text/*', HTML],
  ['TEXT/HTML;Q=0.5, application/json;q=0.4', HTML],
  ['text/*;q=0.9, text/html;q=0.1', CSV],
  ['text/csv', CSV],
  ['text/csv;header=present', CSV],
  ['text/csv; q=0.5, application/json; q=0.1', CSV],
  ['application/json;q=0.5, text/csv', CSV],
  ['text/csv;x="a,b;q=0";q=0.7, application/json;q=0.6', CSV],
  ['*/*, application/json;q=0', HTML],
  ['*/*;q=0.1, text/csv;q=0.2, text/html;q=0', CSV],
  ['application/x-ndjson', NDJSON],
  ['application/*, application/json;q=0.2', NDJSON],
  ['image/png', undefined],
  ['application/xml', undefined],
  ['text/csv;q=0', undefined],
  ['*/*;q=0', undefined],
  ['text/csv;q=0.000, text/plain', undefined],
  [`text/csv${';a=b'.repeat(254)}`, CSV],
  [`text/csv${';a=b'.repeat(255)}`, JSON_TYPE], // more than 1,024 characters
  ['text/plain;x="never ends, text/csv, */*', undefined],
];

describe('the format of an answer', () => {
  let service: TestService;
  before(async () => {
    service = await openShelf();
  });
  after(() => service.close());

  const get = (path: string, accept: string | undefined, method = 'GET') =>
    exactRequest(service, path, { method, headers: accept === undefined ? {} : { accept } });

  for (const [accept, type] of COLLECTION) {
    test(`for a collection with "${accept ?? 'no header'}" is ${type ?? 'a 406'}`, async () => {
      for (const method of ['GET', 'HEAD']) {
        const answer = await get('/api/book/', accept, method);
        assert.equal(answer.headers.get('vary'), type === NDJSON ? 'Accept-Encoding, Accept' : 'Accept');
        assert.equal(answer.status, type === undefined ? 406 : 200);
        assert.equal(answer.headers.get('content-type'), type ?? 'application/problem+json');
        if (type === undefined && method === 'GET') assertProblem(answer, 406);
      }
    });
  }

  test('for the list of resources and for a record is JSON or HTML', async () => {
    for (const path of ['/api/', '/api', '/api/book/1/', '/api/book/1']) {
      for (const [accept, type] of [
        [undefined, JSON_TYPE],
        ['*/*', JSON_TYPE],
        [BROWSER, HTML],
        ['text/csv, */*;q=0.1', JSON_TYPE],
        ['text/csv', undefined],
        [NDJSON, undefined],
      ] as const) {
        const answer = await get(path, accept);
        assert.equal(answer.headers.get('vary'), 'Accept');
        assert.equal(answer.headers.get('content-type'), type ?? 'application/problem+json');
        if (type === undefined) assertProblem(answer, 406);
      }
    }
  });

  test('for an error is a problem document, or a page if the client prefers one', async () => {
    for (const [path, status] of [
      ['/api/book/?nope=1', 400],
      ['/api/book/99/', 404],
      ['/api/nothing/', 404],
      ['/api/mailbox/', 405],
    ] as const) {
      for (const accept of [undefined, '*/*', 'text/csv', NDJSON, 'image/png']) {
        if (status === 404 && path.includes('book') && accept !== undefined && accept !== '*/*') continue; // 406 takes precedence
        if (path.includes('nope') && accept === 'image/png') continue;
        const answer = await get(path, accept);
        assertProblem(answer, status, `${path} ${accept}`);
        assert.equal(answer.headers.get('vary'), 'Accept');
      }
      const page = await get(path, BROWSER);
      assert.deepEqual([page.status, page.headers.get('content-type')], [status, HTML]);
      assert.equal(page.headers.get('vary'), 'Accept');
    }
  });

  test('for a 401 is always the same', async () => {
    for (const accept of [undefined, BROWSER, 'text/csv', NDJSON, 'image/png', 'application/json']) {
      const answer = await get('/api/letter/', accept);
      assertUnauthorized(answer);
      assert.equal(answer.headers.get('vary'), null);
    }
  });

  test('depends on credentials, too, if they were needed', async () => {
    const headers = { accept: 'text/csv', authorization: basic('bob') };
    const answer = await exactRequest(service, '/api/letter/', { headers });
    assert.equal(answer.headers.get('content-type'), CSV);
    assert.equal(answer.headers.get('vary'), 'Authorization, Accept');
    assert.equal(answer.headers.get('cache-control'), 'no-store');
  });

  test('for a write and a health check depends on nothing', async () => {
    const created = await service.request('/api/letter/', {
      method: 'POST',
      user: 'bob',
      headers: { accept: 'text/csv' },
      body: { text: 'x' },
    });
    assert.equal(created.status, 201);
    assert.equal(created.headers.get('content-type'), JSON_TYPE);
    assert.equal(created.headers.get('vary'), 'Authorization');
    for (const path of ['/healthz', '/readyz']) {
      const answer = await get(path, BROWSER);
      assert.equal(answer.headers.get('vary'), null);
      assert.match(answer.headers.get('content-type') ?? '', /^application\//);
    }
  });

  test('for a page is never a 304, and a 304 for JSON has a Vary header', async () => {
    const tag = (await get('/api/book/1/', undefined)).headers.get('etag') ?? '';
    const again = (accept: string) =>
      exactRequest(service, '/api/book/1/', { headers: { accept, 'if-none-match': tag } });
    const json = await again('*/*');
    assert.deepEqual([json.status, json.headers.get('vary')], [304, 'Accept-Encoding, Accept']);
    const page = await again(BROWSER);
    assert.deepEqual([page.status, page.headers.get('etag')], [200, null]);
  });
});
