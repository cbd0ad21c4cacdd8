import assert from 'node:assert/strict';
import type { Resource } from '../../src/index.ts';
import { note, user } from '../../src/resources/registry.ts';
import { useService, type TestService } from '../support.ts';
import { assertProblem, assertUnauthorized } from './expect.ts';
import { describe, test } from 'node:test';

const plain: Resource = { model: 'plain', columns: { x: { type: 'integer', null: true } } };
const sealed: Resource = { ...plain, model: 'sealed', access: 'user', methods: ['GET'] };
const inbox: Resource = { ...plain, model: 'inbox', access: 'user', methods: ['POST', 'DELETE'] };
const token: Resource = { ...plain, model: 'token', access: 'user', primaryKey: { type: 'uuid' } };
const ledger: Resource = { ...plain, model: 'ledger', access: 'user', primaryKey: { type: 'bigint' } };

/** Accept headers: each format has its own code path. */
const FORMATS = ['*/*', 'text/html', 'text/csv', 'application/x-ndjson'];

describe('paths and methods', () => {
  const service: TestService = useService([user, note, plain, sealed, inbox, token, ledger], {}, async () => {
    await service.addUser('bob');
    await service.sql`insert into note (message) values ('one')`;
    for (const model of ['plain', 'sealed', 'inbox', 'ledger'])
      await service.sql`insert into ${service.sql(model)} (x) values (1)`;
  });

  test('a path works the same without its last slash', async () => {
    for (const path of ['/api/note/', '/api/note/1/', '/api/note/99/', '/api/nothing/']) {
      const [slash, bare] = await Promise.all([service.request(path), service.request(path.slice(0, -1))]);
      assert.deepEqual([bare.status, bare.text], [slash.status, slash.text]);
    }
    const query = '?limit=1&message=one';
    const [slash, bare] = await Promise.all([
      service.request(`/api/note/${query}`),
      service.request(`/api/note${query}`),
    ]);
    assert.deepEqual(bare.json, slash.json);
    const written = await service.request('/api/note', {
      method: 'POST',
      user: 'bob',
      body: { message: 'x' },
    });
    assert.equal(written.status, 201);
  });

  for (const path of ['/api/openapi.json', '/healthz', '/readyz'])
    test(`${path} works the same with a slash at its end`, async () => {
      for (const accept of FORMATS)
        for (const method of ['GET', 'HEAD', 'OPTIONS', 'POST']) {
          const options = { method, headers: { accept } };
          const [bare, slash] = await Promise.all([
            service.request(path, options),
            service.request(`${path}/`, options),
          ]);
          const shown = ({ status, text, headers }: typeof bare) => [
            status,
            text.replace(/"requestId":"[^"]*"/, ''),
            ...['content-type', 'vary', 'allow'].map((name) => headers.get(name)),
          ];
          assert.equal(bare.status, { OPTIONS: 204, POST: 405 }[method] ?? 200);
          assert.deepEqual(shown(slash), shown(bare), `${method} ${accept}`);
        }
      assertProblem(await service.request(`${path}//`), 404);
    });

  const missing = [
    '/ap',
    '/apis/',
    '/api//',
    '/API/note/',
    '/api/Note/',
    '/api/nothing/',
    '/api/v1/note/',
    '/api/note//',
    '/api/note/1//',
    '/api/note/1/message/',
    '/api//note/',
    '/api/%FF/',
    '/api/note/%FF/',
    '/api/note%2F1/',
    '/api/note/1%2F/',
    '/api/constructor/',
    '/api/__proto__/',
    '/note/',
    '/etc/passwd',
    '/api/note/99/',
    '/api/note/abc/',
    '/api/note/1.5/',
    '/api/note/-1/',
    '/api/note/0x1/',
    '/api/note/1e0/',
    '/api/note/NaN/',
    '/api/note/2147483648/',
    '/api/note/99999999999999999999999999/',
    "/api/note/1'--/",
    '/api/note/1%00/',
    '/api/ledger/9223372036854775808/',
    '/api/token/1/',
    '/api/token/00000000-0000-0000-0000-000000000000/',
    '/api/token/not-a-uuid/',
  ];
  for (const path of missing) {
    test(`${path} is 404`, async () => {
      assertProblem(await service.request(path), 404);
      const head = await service.request(path, { method: 'HEAD' });
      assert.deepEqual([head.status, head.text], [404, '']);
    });
  }

  test('a percent-encoded path is decoded', async () => {
    const { status, json } = await service.request('/api/%6eote/%31/');
    assert.equal(status, 200);
    assert.equal(json.message, 'one');
  });

  const allow = [
    ['/api/', 'GET, HEAD, OPTIONS'],
    ['/api/note/', 'GET, HEAD, POST, OPTIONS'],
    ['/api/note/1/', 'GET, HEAD, PUT, PATCH, DELETE, OPTIONS'],
    ['/api/note/99/', 'GET, HEAD, PUT, PATCH, DELETE, OPTIONS'],
    ['/api/plain/', 'GET, HEAD, POST, OPTIONS'],
    ['/api/plain/1/', 'GET, HEAD, PUT, PATCH, DELETE, OPTIONS'],
    ['/api/sealed/', 'GET, HEAD, OPTIONS'],
    ['/api/sealed/1/', 'GET, HEAD, OPTIONS'],
    ['/api/inbox/', 'POST, OPTIONS'],
    ['/api/inbox/1/', 'DELETE, OPTIONS'],
  ] as const;
  for (const [path, methods] of allow) {
    test(`${path} allows ${methods} and nothing else`, async () => {
      const listed = methods.split(', ');
      const options = await service.request(path, { method: 'OPTIONS' });
      assert.deepEqual([options.status, options.text], [204, '']);
      assert.deepEqual(options.headers.get('allow')?.split(', ').sort(), [...listed].sort());
      for (const method of ['GET', 'HEAD', 'POST', 'PUT', 'DELETE', 'PATCH', 'PROPFIND', 'QUERY']) {
        const answer = await service.request(path, { method });
        const isLocked =
          path.startsWith('/api/plain/') && ['POST', 'PUT', 'PATCH', 'DELETE'].includes(method);
        if (isLocked) assertUnauthorized(answer, method);
        else if (listed.includes(method)) assert.notEqual(answer.status, 405, method);
        else {
          assert.equal(answer.status, 405, method);
          assert.equal(answer.headers.get('allow'), options.headers.get('allow'), method);
          if (method !== 'HEAD') assertProblem(answer, 405);
        }
      }
    });
  }

  test('OPTIONS on a missing path is 404', async () => {
    for (const path of ['/api/nothing/', '/nowhere', '/api/note/1/2/']) {
      assertProblem(await service.request(path, { method: 'OPTIONS' }), 404);
    }
  });

  test('HEAD returns the status and the headers of GET, and no body', async () => {
    for (const path of [
      '/api/',
      '/api/note/',
      '/api/note/?limit=1',
      '/api/note/1/',
      '/healthz',
      '/api/note/?x=1',
    ]) {
      const [get, head] = await Promise.all([
        service.request(path),
        service.request(path, { method: 'HEAD' }),
      ]);
      const shown = ({ status, headers }: typeof get) => [
        status,
        ...['content-type', 'content-length', 'etag', 'x-content-type-options'].map((name) =>
          headers.get(name),
        ),
      ];
      assert.deepEqual(shown(head), shown(get));
      assert.equal(get.headers.get('content-length'), String(Buffer.byteLength(get.text)));
      assert.equal(head.text, '');
    }
  });

  test('a parameter on a single record or a write is 400 and named', async () => {
    const requests = [
      ['GET', '/api/note/1/'],
      ['HEAD', '/api/note/1/'],
      ['PUT', '/api/note/1/'],
      ['DELETE', '/api/note/1/'],
      ['POST', '/api/note/'],
    ] as const;
    for (const [method, path] of requests) {
      for (const parameter of ['message=one', 'limit=1', 'ordering=id', 'page', '%5B%5D=']) {
        const body = method === 'PUT' || method === 'POST' ? { message: 'changed' } : undefined;
        const answer = await service.request(`${path}?${parameter}`, { method, user: 'bob', body });
        assert.equal(answer.status, 400, `${method} ${parameter}`);
        if (method === 'HEAD') continue;
        assertProblem(answer, 400);
        assert.deepEqual(Object.keys(answer.json.errors), [
          decodeURIComponent(parameter.split('=')[0] ?? ''),
        ]);
      }
    }
    assert.equal((await service.request('/api/note/1/')).json.message, 'one');
  });

  test('a query string over 8 KiB is 414, and one of 8 KiB is read', async () => {
    const fill = (bytes: number): string => `message=${'x'.repeat(bytes - 'message='.length)}`;
    assert.equal((await service.request(`/api/note/?${fill(8192)}`)).status, 200);
    for (const [method, path] of [
      ['GET', '/api/note/'],
      ['GET', '/api/note/1/'],
      ['POST', '/api/note/'],
      ['PUT', '/api/note/1/'],
    ] as const) {
      const answer = await service.request(`${path}?${fill(8193)}`, { method, user: 'bob' });
      assertProblem(answer, 414);
    }
  });

  test('every answer forbids MIME sniffing, and none names the software', async () => {
    for (const [path, method] of [
      ['/api/', 'GET'],
      ['/api/note/', 'GET'],
      ['/api/note/1/', 'GET'],
      ['/api/note/', 'POST'],
      ['/api/note/', 'OPTIONS'],
      ['/api/note/', 'PATCH'],
      ['/nothing', 'GET'],
      ['/healthz', 'GET'],
      ['/readyz', 'GET'],
    ] as const) {
      for (const accept of method === 'GET' ? FORMATS : ['*/*']) {
        const { headers } = await service.request(path, { method, headers: { accept } });
        const label = `${method} ${path} ${accept}`;
        assert.equal(headers.get('x-content-type-options'), 'nosniff', label);
        for (const name of ['server', 'x-powered-by', 'via']) assert.equal(headers.get(name), null, label);
      }
    }
  });

  test('an answer to a request with credentials may not be stored', async () => {
    for (const path of ['/api/note/', '/api/note/1/', '/api/note/99/', '/nothing']) {
      for (const accept of FORMATS) {
        const { headers } = await service.request(path, { user: 'bob', headers: { accept } });
        assert.equal(headers.get('cache-control'), 'no-store', `${path} ${accept}`);
        assert.match(headers.get('vary') ?? '', /(^|, )Authorization(,|$)/, `${path} ${accept}`);
      }
    }
    const refused = await service.request('/api/note/', { method: 'POST', user: 'nobody' });
    assert.equal(refused.headers.get('cache-control'), 'no-store');
    const { headers } = await service.request('/api/note/');
    assert.equal(headers.get('cache-control'), null);
  });
});
