// A service whose addresses all begin with a path (`BASE_PATH`).
import assert from 'node:assert/strict';
import { createClient } from '../../src/client.ts';
import { createVitrine, StartError } from '../../src/index.ts';
import { useBasePath } from '../../src/http/message/base-path.ts';
import { note, user } from '../../src/resources/registry.ts';
import { fieldsOf, openBrowser, unescaped, type Browser } from '../admin/support.ts';
import { useService, type TestService } from '../support.ts';
import { eventually } from './expect.ts';
import { describe, test } from 'node:test';

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
    assert.deepEqual(
      index.resources.map(({ url }: { url: string }) => url),
      [`${BASE}/api/user/`, `${BASE}/api/note/`],
    );
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
