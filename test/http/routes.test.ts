import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { createVitrine, type Resource, StartError } from '../../src/index.ts';
import { note, user } from '../../src/resources/registry.ts';
import {
  type Answer,
  basic,
  type RequestOptions,
  startService,
  type TestService,
  useService,
  pluck,
} from '../support.ts';
import { assertProblem, assertUnauthorized, eventually } from './expect.ts';
import { requestText, wire } from './wire.ts';
import { createClient } from '../../src/client.ts';
import { useBasePath } from '../../src/http/message/base-path.ts';
import { type Browser, fieldsOf, openBrowser, unescaped } from '../admin/support.ts';

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
    for (const path of ['/api/nothing/', '/nowhere', '/api/note/1/2/', '/api/-/nosuch/']) {
      assertProblem(await service.request(path, { method: 'OPTIONS' }), 404);
    }
  });

  test('every method on a missing path below /api/-/ is 404', async () => {
    for (const method of ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'PROPFIND'])
      assert.equal((await service.request('/api/-/nosuch/', { method })).status, 404, method);
  });

  test('OPTIONS * lists the methods of the service, and no other method has it', async () => {
    const { send, next, destroy } = wire(service);
    send(requestText('OPTIONS', '*'));
    const { status, headers, body } = (await next()) ?? {};
    assert.deepEqual(
      [status, headers?.['allow'], body],
      [204, 'GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS', ''],
    );
    send(requestText('GET', '*'));
    assert.equal((await next())?.status, 404);
    destroy();
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

// The address `/` leads to the parts of the service.

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
  for (const [path, status] of Object.entries({ '/healthz': 200, '/readyz': 503 })) {
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

// A service whose addresses all begin with a path (`BASE_PATH`).

const BASE = '/data/books';

/** The addresses of this service that a page contains. */
const addressesIn = (page: string): string[] =>
  [...page.matchAll(/\s(?:href|action|src|formaction)="([^"#?]*)([^"#]*)/g)].map(
    ([, path = '', query = '']) => unescaped(`${path}${query}`),
  );

describe('a service with a base path', () => {
  const service: TestService = useService([user, note], { basePath: `${BASE}/` }, async () => {
    await service.addUser('ada', { admin: true });
    await service.sql`insert into note (message) select 'n' || i from generate_series(1, 60) i`;
  });

  async function openAdmin(): Promise<Browser> {
    const browser = openBrowser(service);
    const redirected = await browser.get(`${BASE}/admin/note/?_page=2`);
    assert.equal(
      redirected.location,
      `${BASE}/admin/-/login/?next=${encodeURIComponent(`${BASE}/admin/note/?_page=2`)}`,
    );
    const page = await browser.follow(redirected);
    const [, next = ''] = /name="next" value="([^"]*)"/.exec(page.text) ?? [];
    const fields = { username: 'ada', password: 'pw-ada', next: unescaped(next) };
    const entered = await browser.post(`${BASE}/admin/-/login/`, fields);
    assert.deepEqual([entered.status, entered.location], [303, `${BASE}/admin/note/?_page=2`]);
    for (const cookie of [page, entered].flatMap(({ headers }) => headers.getSetCookie()))
      assert.match(cookie, /; Path=\/data\/books\/admin\/;/);
    return browser;
  }

  for (const path of ['/', '/healthz', '/readyz', '/api', '/api/note/', '/api/note/1/', '/api/openapi.json'])
    test(`answers ${BASE}${path}, and not ${path}`, async () => {
      assert.equal((await service.request(`${BASE}${path}`)).status, 200);
      assert.equal((await service.request(path)).status, 404);
      assert.equal((await service.request(`${BASE}x${path}`)).status, 404);
    });

  test('answers its path without the slash at the end', async () => {
    assert.equal((await service.request(BASE)).status, 200);
    assert.equal((await openBrowser(service).get(`${BASE}/admin`)).location, `${BASE}/admin/`);
  });

  test('is not found at another path, with any method', async () => {
    for (const method of ['GET', 'POST', 'PUT', 'DELETE', 'OPTIONS', 'FOO'])
      for (const path of ['/admin/', '/api/note/', '/', `${BASE}api/note/`])
        assert.equal(
          (await service.request(path, { method, headers: { origin: service.base } })).status,
          404,
          `${method} ${path}`,
        );
  });

  test('outputs its path in each address of the API', async () => {
    const { json: home } = await service.request(`${BASE}/`);
    assert.deepEqual(home, {
      api: `${BASE}/api/`,
      openapi: `${BASE}/api/openapi.json`,
      admin: `${BASE}/admin/`,
    });
    const { json: index } = await service.request(`${BASE}/api/`);
    assert.deepEqual(pluck(index.resources, 'url'), [`${BASE}/api/user/`, `${BASE}/api/note/`]);
    const page = await service.request(`${BASE}/api/note/?limit=10&page=2`);
    const { next, previous } = page.json.meta as Record<string, string>;
    assert.deepEqual(
      [next, previous],
      [3, 1].map((number) => `${BASE}/api/note/?limit=10&page=${number}`),
    );
    assert.equal((await service.request(String(next))).status, 200);
    const csv = await service.request(`${BASE}/api/note/?limit=10`, { headers: { accept: 'text/csv' } });
    assert.match(csv.headers.get('link') ?? '', /^<\/data\/books\/api\/note\/\?limit=10&page=2>/);
    const { json: document } = await service.request(`${BASE}/api/openapi.json`);
    assert.deepEqual(document.servers, [{ url: BASE }]);
    for (const path of ['/api', '/api/note', '/healthz']) {
      assert.ok(path in document.paths, path);
      assert.equal((await service.request(`${document.servers[0].url}${path}`)).status, 200, path);
    }
    const created = await service.request(`${BASE}/api/note/`, {
      method: 'POST',
      user: 'ada',
      body: { message: 'x' },
    });
    assert.equal(created.headers.get('location'), `${BASE}/api/note/${created.json.id}/`);
  });

  test('has pages that link only to pages that exist', async () => {
    const browser = await openAdmin();
    const open = [`${BASE}/`];
    const seen = new Set<string>();
    for (let address = open.pop(); address !== undefined; address = open.pop()) {
      const [path = ''] = address.split('?');
      if (/^(data:|$)/.test(address) || seen.has(path) || path.endsWith('/logout/')) continue;
      seen.add(path);
      assert.ok(path.startsWith(`${BASE}/`), address);
      const page = await browser.get(address, { accept: 'text/html' });
      assert.ok([200, 303, 405].includes(page.status), `${address}: ${page.status}`);
      if (page.headers.get('content-type')?.startsWith('text/html')) open.push(...addressesIn(page.text));
      if (page.location !== undefined) open.push(page.location);
    }
    for (const path of [
      '/',
      '/api/',
      '/api/note/1/',
      '/admin/',
      '/admin/note/',
      '/admin/note/1/',
      '/admin/-/keys/',
    ])
      assert.ok(seen.has(`${BASE}${path}`), path);
    assert.ok(seen.size > 50, `${seen.size} pages`);
  });

  test('leads back to the list and saves records', async () => {
    const browser = await openAdmin();
    const list = `${BASE}/admin/note/?_page=2`;
    const page = await browser.get(`${BASE}/admin/note/7/`, { referer: `${service.base}${list}` });
    assert.match(page.text, /name="_list" value="_page=2"/);
    const saved = await browser.post(`${BASE}/admin/note/7/`, { ...fieldsOf(page), message: 'changed' });
    assert.deepEqual([saved.status, saved.location], [303, list], saved.text);
    assert.match((await browser.follow(saved)).text, /href="\/data\/books\/admin\/note\/7\/[^"]*">/);
  });

  test('redirects after a login only to its own admin area', async () => {
    for (const next of [
      '/admin/note/',
      `${BASE}/api/note/`,
      `${BASE}/admin/../../x`,
      '//evil.example/data/books/admin/',
      `${BASE}/admin`,
    ]) {
      const browser = openBrowser(service);
      await browser.get(`${BASE}/admin/-/login/`);
      const fields = { username: 'ada', password: 'pw-ada', next };
      assert.equal((await browser.post(`${BASE}/admin/-/login/`, fields)).location, `${BASE}/admin/`, next);
    }
  });

  test('serves the typed client, whose addresses contain the path', async () => {
    const client = createClient<[typeof note]>({ baseUrl: `${service.base}${BASE}` });
    let count = 0;
    for await (const { id } of client.note.all({ limit: 25, id__lte: 60 })) count += Number(id > 0);
    assert.equal(count, 60);
  });

  test('logs the address with the base path', async () => {
    await service.request(`${BASE}/api/note/3/`);
    await service.request('/elsewhere/');
    const isLogged = (address: string): boolean => service.lines.some(({ path }) => path === address);
    await eventually(() => isLogged(`${BASE}/api/note/3/`) && isLogged('/elsewhere/'), 'the lines');
  });
});

test('all services of a process have the same base path', async () => {
  const leave = useBasePath('/one');
  const options = { databaseUrl: 'postgres://127.0.0.1/none', resources: [note], basePath: '/two' };
  await assert.rejects(createVitrine(options), StartError);
  leave();
  leave();
  useBasePath('/two')();
});

for (const basePath of ['books', '/a b', '/a//b', '/..', '/a/./b', '/ä', '//', '/a?b', `/${'a'.repeat(101)}`])
  test(`the base path "${basePath.slice(0, 20)}" is refused by name`, async () => {
    const options = { databaseUrl: 'postgres://127.0.0.1/none', resources: [note], basePath };
    await assert.rejects(createVitrine(options), /basePath must be a path such as \/books/);
  });

const linesOf = (service: TestService, id: string): Record<string, unknown>[] =>
  service.lines.filter((line) => line['id'] === id);

describe('an internal error', () => {
  /** Names of tables, columns and passwords, and other internals that must not be in an answer. */
  const HIDDEN = /relation|column|select|insert|note|email|postgres|syntax|src\/|\.ts|at .*:\d+|pw-|node/i;

  async function assertInternal(service: TestService, answer: Answer): Promise<void> {
    assertProblem(answer, 500);
    assert.deepEqual(Object.keys(answer.json), ['type', 'title', 'status', 'detail', 'requestId']);
    const { requestId, ...rest } = answer.json as Record<string, string>;
    assert.doesNotMatch(JSON.stringify(rest), HIDDEN);
    assert.doesNotMatch([...answer.headers].join(), HIDDEN);
    const lines = await eventually(() => {
      const found = linesOf(service, requestId ?? '');
      return found.length >= 2 ? found : undefined;
    }, 'the lines of the request');
    assert.deepEqual(pluck(lines, 'level').sort(), ['error', 'info']);
    assert.ok(lines.some(({ message }) => typeof message === 'string' && message !== ''));
    assert.ok(lines.some(({ status }) => status === 500));
  }

  const service: TestService = useService(undefined, {}, async () => {
    await service.addUser('ada', { admin: true });
    await service.sql`drop table note`;
  });

  test('is 500 with only a requestId, which is in the log, too', async () => {
    const single = await service.request('/api/note/1/');
    const list = await service.request('/api/note/');
    const write = { method: 'POST', user: 'ada', body: { message: 'x' } };
    for (const answer of [single, list, await service.request('/api/note/', write)])
      await assertInternal(service, answer);
    assert.notEqual(single.json.requestId, list.json.requestId);
    await service.sql`alter table "user" drop column email`;
    const body = { username: 'new', password: 'top-secret', email: 'x' };
    await assertInternal(service, await service.request('/api/user/', { method: 'POST', user: 'ada', body }));
    assert.equal((await service.request('/api/message/')).status, 200);
    assert.doesNotMatch(JSON.stringify(service.lines), /top-secret|pw-ada|argon2id/);
  });

  test('of a HEAD has no body, but a status and a log line', async () => {
    const known = service.lines.length;
    const { status, text } = await service.request('/api/note/1/', { method: 'HEAD' });
    assert.deepEqual([status, text], [500, '']);
    await eventually(() => service.lines.slice(known).find(({ level }) => level === 'error'), 'the error');
  });

  test('in the lookup of the user is 500, not 401', async () => {
    await service.sql`drop table "user" cascade`;
    await assertInternal(
      service,
      await service.request('/api/message/', { method: 'POST', user: 'eve', body: {} }),
    );
    assert.equal((await service.request('/api/message/')).status, 200);
  });
});

type Line = Record<string, unknown>;
const isRequest = (line: Line): boolean => 'method' in line;

describe('the log', () => {
  const service: TestService = useService(undefined, {}, async () => {
    await service.addUser('ada', { admin: true });
    await service.addUser('bob');
  });

  /** The log line of a request, which must be the only new one. */
  async function lineOf(path: string, options?: RequestOptions): Promise<[Line, bytes: number]> {
    const known = service.lines.filter(isRequest).length;
    const { text } = await service.request(path, options);
    const line = await eventually(() => service.lines.filter(isRequest)[known], 'the line');
    assert.equal(service.lines.filter(isRequest).length, known + 1);
    return [line, Buffer.byteLength(text)];
  }

  const requests: readonly [path: string, options: RequestOptions, expected: Line][] = [
    ['/api/note/', {}, { method: 'GET', path: '/api/note/', status: 200, user: null }],
    ['/api/note/', { method: 'HEAD' }, { method: 'HEAD', path: '/api/note/', status: 200, user: null }],
    ['/api/note', {}, { method: 'GET', path: '/api/note', status: 200, user: null }],
    ['/api/note/', { user: 'bob' }, { method: 'GET', path: '/api/note/', status: 200, user: null }],
    ['/api/note/', { method: 'POST', user: 'bob', body: { message: 'x' } }, { method: 'POST', path: '/api/note/', status: 201, user: 'bob' }],
    // Remembered credentials are not confirmed for an answer that is the same for all callers.
    ['/api/note/', { user: 'bob' }, { method: 'GET', path: '/api/note/', status: 200, user: null }],
    ['/api/note/1/', { method: 'PUT', user: 'ada', body: { nope: 'x' } }, { method: 'PUT', path: '/api/note/1/', status: 400, user: 'ada' }],
    ['/api/user/1/', { method: 'DELETE', user: 'bob' }, { method: 'DELETE', path: '/api/user/1/', status: 403, user: 'bob' }],
    ['/api/note/', { method: 'POST', user: 'nobody' }, { method: 'POST', path: '/api/note/', status: 401, user: null }],
    ['/api/note/', { method: 'OPTIONS' }, { method: 'OPTIONS', path: '/api/note/', status: 204, user: null }],
    ['/nowhere', { method: 'PATCH' }, { method: 'PATCH', path: '/nowhere', status: 404, user: null }],
    ['/healthz', {}, { method: 'GET', path: '/healthz', status: 200, user: null }],
  ]; // prettier-ignore
  for (const [index, [path, options, expected]] of requests.entries()) {
    test(`${options.method ?? 'GET'} ${path} with ${String(expected['status'])} by ${String(expected['user'])} is one line (${index})`, async () => {
      const [line, bytes] = await lineOf(path, options);
      const { time, ms, id, bytes: logged, ...rest } = line;
      assert.deepEqual(rest, { level: 'info', ...expected });
      assert.match(String(time), /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/);
      assert.ok(Math.abs(Date.now() - Date.parse(String(time))) < 60_000);
      assert.ok(typeof ms === 'number' && ms >= 0);
      assert.ok(typeof id === 'string' && id !== '');
      assert.equal(logged, bytes);
    });
  }

  test('only the first X-Forwarded-For without a trusted proxy is a warning in the log', async () => {
    const warnings = (): Line[] =>
      service.lines.filter(({ message }) => /X-Forwarded-For/.test(String(message)));
    assert.deepEqual(warnings(), []);
    const headers = { 'X-Forwarded-For': '10.0.0.1' };
    for (const path of ['/api/note/', '/nowhere', '/api/note/']) await lineOf(path, { headers });
    assert.deepEqual(pluck(warnings(), 'level'), ['warn']);
    assert.match(String(warnings()[0]?.['message']), /TRUST_PROXY is 0/);
  });

  test('each request has its own id', () => {
    const ids = service.lines.filter(isRequest).map(({ id }) => id);
    assert.equal(new Set(ids).size, ids.length);
  });

  test('a path shows the names of the parameters, and not their values', async () => {
    for (const [query, shown] of [
      ['message=hidden', 'message'],
      ['message=hidden&limit=7171', 'message&limit'],
      ['message=hidden=hidden&nope=hidden', 'message&nope'],
      ['message__ilike=%25hidden%25', 'message__ilike'],
    ] as const) {
      const [line] = await lineOf(`/api/note/?${query}`);
      assert.equal(line['path'], `/api/note/?${shown}`);
      assert.doesNotMatch(JSON.stringify(line), /hidden|7171/);
    }
  });

  test('a long path is cut', async () => {
    for (const [path, shown] of [
      [`/${'x'.repeat(300)}`, `/${'x'.repeat(299)}…`],
      [`/${'x'.repeat(299)}`, `/${'x'.repeat(299)}`],
      [`/${'x'.repeat(30_000)}?a=b`, `/${'x'.repeat(299)}…?a`],
      [`/nowhere?${'x'.repeat(300)}`, `/nowhere?${'x'.repeat(300)}`],
      [`/nowhere?${'x'.repeat(3_000)}=1`, `/nowhere?${'x'.repeat(300)}…`],
      [`/nowhere?${'&'.repeat(300)}`, `/nowhere?${'&'.repeat(300)}`],
      [`/nowhere?${'&'.repeat(301)}`, `/nowhere?${'&'.repeat(300)}…`],
      [`/nowhere?${'&'.repeat(30_000)}`, `/nowhere?${'&'.repeat(300)}…`],
    ] as const) {
      const [line] = await lineOf(path);
      assert.equal(line['path'], shown);
    }
  });

  test('a long message of the database is cut', async () => {
    await service.sql`
      create function refuse() returns trigger language plpgsql as
        $$ begin raise check_violation using message = 'refused: ' || new.message; end $$`;
    await service.sql`
      create trigger refuse before insert on note for each row when (length(new.message) > 9000)
      execute function refuse()`;
    const known = service.lines.length;
    const body = { message: 'y'.repeat(100_000) };
    assert.equal((await service.request('/api/note/', { method: 'POST', user: 'bob', body })).status, 400);
    const line = await eventually(
      () => service.lines.slice(known).find(({ message }) => /refused/.test(String(message))),
      'the line',
    );
    const message = String(line['message']);
    assert.match(message, /^the database refused a write: refused: y+…$/);
    assert.equal(message.length, 8_193);
  });

  test('no password, hash, body or header value is ever logged', async () => {
    const secrets = [
      'open-sesame',
      'pw-ada',
      'pw-bob',
      'wrong-horse',
      'argon2id',
      'marked-header',
      'marked-body',
    ];
    const credentials = [basic('ada'), basic('bob'), basic('bob', 'wrong-horse')];
    const headers = { 'user-agent': 'marked-header', cookie: 'a=marked-header', 'x-any': 'marked-header' };
    const person = { username: 'carl', password: 'open-sesame', email: 'marked-body' };
    const ask = (path: string, options: RequestOptions): Promise<unknown> =>
      service.request(path, { ...options, headers: { ...headers, ...options.headers } });
    const carl = '/api/user/3/';
    await ask('/api/user/', { method: 'POST', user: 'ada', body: person });
    await ask('/api/user/', { method: 'POST', user: 'ada', body: person });
    await ask('/api/user/', {
      method: 'POST',
      user: 'ada',
      body: { ...person, password: 5, nope: 'marked-body' },
    });
    await ask('/api/user/', { method: 'POST', user: 'ada', body: '{"password":"open-sesame"' });
    await ask(carl, { method: 'PUT', user: 'ada', body: { password: 'open-sesame' } });
    await ask('/api/note/', {
      method: 'POST',
      headers: { authorization: credentials[2] ?? '' },
      body: person,
    });
    await ask('/api/note/', { method: 'POST', headers: { authorization: 'Basic open-sesame' } });
    await ask('/api/user/?password=open-sesame', { user: 'ada' });
    await service.sql`alter table "user" rename column password to hidden`;
    await ask('/api/user/', { method: 'POST', user: 'ada', body: person });
    await service.sql`alter table "user" rename column hidden to password`;
    await service.sql`alter table "user" add constraint refuses check (username <> 'dora')`;
    await ask('/api/user/', { method: 'POST', user: 'ada', body: { ...person, username: 'dora' } });
    const known = service.lines.length;
    await ask('/healthz', {});
    await eventually(() => service.lines.length > known, 'the last line');
    const all = JSON.stringify(service.lines);
    for (const secret of [...secrets, ...credentials.map((header) => header.slice(6))])
      assert.ok(!all.includes(secret), secret);
  });
});

for (const [logLevel, levels] of [
  ['warn', ['warn', 'error']],
  ['error', ['error']],
] as const)
  test(`at LOG_LEVEL=${logLevel} no line of a lower level is logged`, async () => {
    const account: Resource = { model: 'account', columns: { pin: { type: 'password' } } };
    const service = await startService([account], { logLevel }); // a warning: it shows hashes
    await service.request('/api/account/');
    await service.request('/nowhere');
    await service.sql`drop table account`;
    assert.equal((await service.request('/api/account/')).status, 500);
    await service.close(); // this writes the log
    assert.deepEqual(pluck(service.lines, 'level'), levels);
  });
