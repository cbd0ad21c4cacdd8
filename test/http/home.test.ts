// The address `/` leads to the parts of the service.
import assert from 'node:assert/strict';
import type { Resource } from '../../src/index.ts';
import { note, user } from '../../src/resources/registry.ts';
import { assertProblem } from './expect.ts';
import { startService, type TestService } from '../support.ts';
import { wire } from './wire.ts';
import { after, before, describe, test } from 'node:test';

const city: Resource = { model: 'city', columns: { name: { type: 'string' } }, methods: ['GET'] };

const LEVELS = ['default', 'user', 'admin'] as const;
/** A model for each pair of levels. */
const pairs = LEVELS.flatMap((access) =>
  LEVELS.map((read): Resource => ({ model: `${access}_${read}`, columns: note.columns, access, read })),
);

describe('the address /', () => {
  let service: TestService;
  let withoutUsers: TestService;
  before(async () => {
    service = await startService([user, note, city, ...pairs], { access: 'user' });
    withoutUsers = await startService([city]);
  });
  after(() => Promise.all([service.close(), withoutUsers.close()]));

  test('names the API, its description and the admin area, without credentials', async () => {
    const { status, json, headers } = await service.request('/');
    assert.deepEqual([status, headers.get('vary')], [200, 'Accept']);
    assert.deepEqual(json, { api: '/api/', openapi: '/api/openapi.json', admin: '/admin/' });
    for (const path of Object.values(json as Record<string, string>))
      assert.ok([200, 303].includes((await service.request(path)).status), path);
  });

  test('is a page for a browser, with a link to each of them', async () => {
    const { status, headers, text } = await service.request('/', { headers: { Accept: 'text/html' } });
    assert.deepEqual([status, headers.get('content-type')], [200, 'text/html; charset=utf-8']);
    for (const path of ['/api/', '/api/openapi.json', '/admin/'])
      assert.ok(text.includes(`href="${path}"`), path);
  });

  test('names no admin area where there are no users', async () => {
    assert.deepEqual((await withoutUsers.request('/')).json, { api: '/api/', openapi: '/api/openapi.json' });
    const { text } = await withoutUsers.request('/', { headers: { Accept: 'text/html' } });
    assert.doesNotMatch(text, /\/admin\//);
  });

  test('is linked from the page of a path that does not exist', async () => {
    for (const path of ['/nope', '/nope/', '/api2/x?y=1', '/%zz', '/favicon.ico']) {
      const page = await service.request(path, { headers: { Accept: 'text/html,*/*;q=0.8' } });
      assert.deepEqual(
        [page.status, page.headers.get('content-type')],
        [404, 'text/html; charset=utf-8'],
        path,
      );
      assert.match(page.text, /<h1[^>]*>404 Not Found<\/h1>[\s\S]*href="\/api\/"/, path);
      for (const Accept of ['*/*', 'application/json', 'image/*']) {
        const answer = await service.request(path, { headers: { Accept } });
        assertProblem(answer, 404);
        assert.equal(answer.headers.get('vary'), 'Accept');
      }
    }
    const html = { Accept: 'text/html' };
    assertProblem(await service.request('/nope', { method: 'POST', headers: html, body: {} }), 404);
    for (const path of ['/healthz', '/readyz'])
      assert.equal((await service.request(path, { headers: html })).headers.get('vary'), null, path);
    assertProblem(await withoutUsers.request('/admin/', { headers: html }), 404);
  });

  test('leads to the list of resources, with their addresses and levels, also the level of ACCESS', async () => {
    for (const path of ['/api/', '/api']) {
      const { json } = await service.request(path);
      const levels = json.resources.map(({ name, url, access, read }: Record<string, string>) => [
        ...[name, url, access, read],
      ]);
      assert.deepEqual(levels, [
        ['user', '/api/user/', 'admin', 'default'],
        ['note', '/api/note/', 'user', 'default'],
        ['city', '/api/city/', 'user', 'default'],
        ...pairs.map(({ model, access, read }) => [model, `/api/${model}/`, access, read]),
      ]);
      for (const name of ['limit', 'page', 'ordering', 'name', 'note']) {
        const answer = await service.request(`${path}?${name}=1`);
        assertProblem(answer, 400);
        assert.deepEqual(Object.keys(answer.json.errors), [name]);
      }
    }
  });

  test('accepts GET alone, no parameters, and only these formats', async () => {
    const { headers, ...refused } = await service.request('/', { method: 'POST', body: {} });
    assert.deepEqual([refused.status, headers.get('allow')], [405, 'GET, HEAD, OPTIONS']);
    assert.equal((await service.request('/', { method: 'HEAD' })).status, 200);
    assert.equal((await service.request('/', { method: 'OPTIONS' })).status, 204);
    assertProblem(await service.request('/?x=1'), 400);
    assertProblem(await service.request('/', { headers: { Accept: 'text/csv' } }), 406);
  });
});

test('a service that is shutting down is alive but not ready, for requests on open connections', async () => {
  for (const [path, status] of [
    ['/healthz', 200],
    ['/readyz', 503],
  ] as const) {
    const service = await startService([user, note]);
    const connection = wire(service);
    const head = `GET ${path} HTTP/1.1\r\nHost: x\r\n`;
    connection.send(`${head}\r\n${head}`); // the second request lacks its last line
    assert.equal((await connection.next())?.status, 200);
    const closing = service.close();
    connection.send('\r\n');
    const answer = await connection.next();
    assert.equal(answer?.status, status);
    assert.equal(answer.headers['connection'], 'close');
    assert.equal(answer.headers['retry-after'] !== undefined, status === 503);
    await closing;
  }
});
