// The pages of the admin area: their status, their headers, and access to them.
import assert from 'node:assert/strict';
import type { Resource } from '../../src/index.ts';
import { startService, type TestService } from '../support.ts';
import { logIn, openBrowser, type AdminAnswer, type Browser } from './support.ts';
import { resources as shipped } from './sample-resources.ts';
import { after, before, test } from 'node:test';

const resources: readonly Resource[] = [
  ...shipped,
  { model: 'fixed', columns: { name: { type: 'string' } }, admin: { allow: [] } },
  { model: 'unseen', columns: { name: { type: 'string' } }, admin: { hidden: true } },
] satisfies Resource[];

let service: TestService;
let ada: Browser;
before(async () => {
  service = await startService(resources);
  await service.addUser('ada', { admin: true });
  await service.sql`insert into fixed (name) values ('x')`;
  await service.sql`insert into unseen (name) values ('x')`;
  await service.sql`insert into thing (name, hidden) values ('x', 'out of sight')`;
  ada = await logIn(service, 'ada');
});
after(() => service.close());

const POLICY =
  /^default-src 'none'; style-src 'self'; img-src 'self' data:; script-src 'self';.* form-action 'self'; frame-ancestors 'none'; base-uri 'none'$/;

/** Checks the status and headers of a page, and that it shows no hash, hidden value or inline script. */
function assertPage({ status, headers, text }: AdminAnswer, expected: number, page: string): void {
  assert.equal(status, expected, page);
  assert.equal(headers.get('content-type'), 'text/html; charset=utf-8', page);
  assert.match(headers.get('content-security-policy') ?? '', POLICY, page);
  for (const [name, value] of [
    ['cache-control', 'no-store'],
    ['referrer-policy', 'same-origin'],
    ['x-content-type-options', 'nosniff'],
    ['x-frame-options', 'DENY'],
    ['cross-origin-opener-policy', 'same-origin'],
    ['cross-origin-resource-policy', 'same-origin'],
  ] as const)
    assert.equal(headers.get(name), value, page);
  assert.match(text, /^<!doctype html>\n<html lang="en">/, page);
  assert.doesNotMatch(text, /argon2|out of sight/, page);
  assert.doesNotMatch(text, /\sstyle="|\son\w+="|<style|<script(?! src="\/admin\/-\/script-)/, page);
}

for (const [path, status] of [
  ['/admin/', 200],
  ['/admin/thing', 200],
  ['/admin/thing/', 200],
  ['/admin/thing/1', 200],
  ['/admin/thing/1/', 200],
  ['/admin/thing/-/add', 200],
  ['/admin/thing/-/import/', 200],
  ['/admin/thing/1/delete/', 200],
  ['/admin/thing/1/history/', 200],
  ['/admin/user/1/', 200],
  ['/admin/user/', 200],
  ['/admin/user/1/password/', 200],
  ['/admin/-/account/', 200],
  ['/admin/-/keys/', 200],
  ['/admin/-/login/', 200],
  ['/admin/vitrine_history/', 200],
  ['/admin/fixed/', 200],
  ['/admin/fixed/1/', 200],
  // No such page:
  ['/admin/nothing/', 404],
  ['/admin/unseen/', 404],
  ['/admin/unseen/1/', 404],
  ['/admin/vitrine_session/', 404],
  ['/admin/-/', 404],
  ['/admin/-/nothing/', 404],
  ['/admin/thing/-/', 404],
  ['/admin/thing/-/nothing/', 404],
  ['/admin/thing/-/add/more/', 404],
  ['/admin/thing/4711/', 404],
  ['/admin/thing/x/', 404],
  ['/admin/thing/1/nothing/', 404],
  ['/admin/thing/1/delete/more/', 404],
  ['/admin/thing/99999999999999999999/', 404],
  ['/admin/thing/%00/', 404],
  ['/admin/thing/%ff/', 404],
  ['/admin/%ff/', 404],
  ['/admin/thing/1/password/', 404],
  ['/admin/user/4711/password/', 404],
  ['/admin//', 404],
  ['/admin/thing//', 404],
  ['/admin/constructor/', 404],
  ['/admin/fixed/-/add/', 404],
  ['/admin/fixed/1/delete/', 404],
  ['/admin/fixed/-/import/', 404],
  ['/admin/vitrine_history/-/add/', 404],
  ['/admin/-/style-000000000000.css', 404],
  ['/admin/-/script-000000000000.js', 404],
  ['/admin/-/style.css', 404],
  // Invalid queries:
  ['/admin/thing/?name=%ff', 400],
  ['/admin/thing/?name=%00', 400],
  [`/admin/thing/?name=${'x'.repeat(9000)}`, 414],
  ['/admin/thing/-/filter/?_path=name&_how=eq&name=%ff', 400],
  // Other methods only:
  ['/admin/-/logout/', 405],
  ['/admin/-/sessions/', 405],
  ['/admin/thing/-/bulk/', 405],
] as const) {
  // prettier-ignore
  test(`GET ${path.slice(0, 80)} returns ${status}`, async () => {
    const answer = await ada.get(path);
    if (path === '/admin//' && answer.status === 200) return; // the start page is accepted, too
    assertPage(answer, status, path);
    if (status === 405) assert.match(answer.headers.get('allow') ?? '', /^POST\b/);
  });
}

test('every path redirects to the login without a session', async () => {
  const browser = openBrowser(service);
  // Cookies have the path `/admin/`, so `/admin` redirects first.
  assert.equal((await browser.get('/admin')).location, '/admin/');
  for (const path of [
    '/admin/',
    '/admin/thing/',
    '/admin/nothing/',
    '/admin/thing/4711/',
    '/admin/thing/?name=%ff',
  ]) {
    const answer = await browser.get(path);
    assert.equal(answer.status, 303, path);
    assert.equal(answer.location, `/admin/-/login/?next=${encodeURIComponent(path)}`);
    assert.equal(answer.text, '');
    assert.equal(answer.headers.get('cache-control'), 'no-store');
    assert.equal(answer.headers.get('www-authenticate'), null);
  }
});

test('Basic credentials and invalid cookies redirect to the login', async () => {
  const answer = await service.request('/admin/', { user: 'ada' });
  assert.equal(answer.status, 303);
  for (const cookie of [
    '',
    ';;;',
    '=x',
    'admin-session',
    'admin-session=',
    `admin-session=${'x'.repeat(5000)}`,
    'admin-session=%00; admin-flash=x.y',
  ])
    assert.equal((await service.request('/admin/', { headers: { cookie } })).status, 303, cookie);
});

test('a POST returns 404 for a resource that does not allow the change', async () => {
  for (const path of [
    '/admin/fixed/1/',
    '/admin/fixed/-/add/',
    '/admin/fixed/1/delete/',
    '/admin/vitrine_history/1/',
  ])
    assertPage(await ada.post(path, { name: 'changed' }), 404, path);
  const bulk = await ada.post('/admin/fixed/-/bulk/', {
    _action: 'delete',
    _all: '1',
    _confirm: '1',
    _expected: '1',
  });
  assert.ok([400, 404].includes(bulk.status));
  const rows = await service.sql`select name from fixed`;
  assert.deepEqual([...rows], [{ name: 'x' }]);
});

test('a form that cannot be parsed returns an error page', async () => {
  const cookie = [...ada.cookies].map(([name, value]) => `${name}=${value}`).join('; ');
  for (const [type, body, status] of [
    ['application/x-www-form-urlencoded', 'name=%ff', 400],
    ['application/x-www-form-urlencoded', 'name=%00', 400],
    ['multipart/form-data', 'x', 400],
    ['multipart/form-data; boundary=b', '--b\r\nContent-Disposition: form-data\r\n\r\nx\r\n--b--', 400],
    ['text/html', 'x', 415],
    ['application/x-www-form-urlencoded', 'x'.repeat(6 * 1024 * 1024 + 65_536 + 1), 413],
  ] as const) {
    const headers = { cookie, 'content-type': type };
    for (const path of ['/admin/thing/-/add/', '/admin/-/login/']) {
      const answer = await service.request(path, { method: 'POST', headers, body });
      assertPage({ ...answer, location: undefined }, status, `${path} ${type}`);
      // Which values are still there after going back depends on the browser.
      assert.doesNotMatch(answer.text, /everything you typed/, path);
    }
  }
});

test('a user name with a NUL character returns 400 or 401', async () => {
  const browser = openBrowser(service);
  await browser.get('/admin/-/login/');
  const form = new FormData();
  form.append('username', 'a\0da');
  form.append('password', 'x');
  assert.ok([400, 401].includes((await browser.upload('/admin/-/login/', form)).status));
});

test('the style sheet and the script are public and cached permanently', async () => {
  const { text } = await openBrowser(service).get('/admin/-/login/');
  for (const [, path = '', type] of [
    [...(/href="(\/admin\/-\/style-[0-9a-f]+\.css)"/.exec(text) ?? []), 'text/css; charset=utf-8'],
    [...(/src="(\/admin\/-\/script-[0-9a-f]+\.js)"/.exec(text) ?? []), 'text/javascript; charset=utf-8'],
  ]) {
    const { status, headers } = await service.request(path);
    assert.equal(status, 200);
    assert.equal(headers.get('cache-control'), 'public, max-age=31536000, immutable');
    assert.equal(headers.get('content-type'), type);
    assert.equal(headers.get('x-content-type-options'), 'nosniff');
    assert.equal(headers.get('set-cookie'), null);
  }
});
