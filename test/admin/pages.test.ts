// The pages of the admin area: their status, their headers, access to them, and the links between them.
import assert from 'node:assert/strict';
import type { Resource } from '../../src/index.ts';
import { useService } from '../support.ts';
import { fieldsOf, hiddenFields, logIn, openBrowser, type AdminAnswer, type Browser } from './support.ts';
import { resources as shipped } from './sample-resources.ts';
import { describe, test } from 'node:test';

const resources: readonly Resource[] = [
  ...shipped,
  { model: 'fixed', columns: { name: { type: 'string' } }, admin: { allow: [] } },
  {
    model: 'open',
    columns: {
      name: { type: 'string' },
      unseen: { type: 'string', null: true },
      owner: { type: 'foreignKey', references: 'closed', null: true },
    },
    exclude: ['unseen'],
  },
  { model: 'closed', columns: { name: { type: 'string' } }, read: 'user' },
  { model: 'silent', columns: { name: { type: 'string' } }, access: 'user', methods: ['POST'] },
  { model: 'unseen', columns: { name: { type: 'string' } }, admin: { hidden: true } },
] satisfies Resource[];

let ada: Browser;
const service = useService(resources, {}, async () => {
  await service.addUser('ada', { admin: true });
  await service.sql`insert into fixed (name) values ('x')`;
  for (const table of ['unseen', 'closed', 'silent'])
    await service.sql`insert into ${service.sql(table)} (name) values ('one')`;
  await service.sql`insert into thing (name, hidden) values ('x', 'out of sight')`;
  ada = await logIn(service, 'ada');
});

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

const PAGES: Record<number, readonly string[]> = {
  200: [
    '/admin/', '/admin//', '/admin/thing', '/admin/thing/', '/admin/thing/1', '/admin/thing/1/', '/admin/thing/-/add',
    '/admin/thing/-/import/', '/admin/thing/1/delete/', '/admin/thing/1/history/', '/admin/user/1/', '/admin/user/',
    '/admin/user/1/password/', '/admin/user/1/access/', '/admin/-/account/', '/admin/-/tokens/', '/admin/-/keys/', '/admin/-/login/', '/admin/vitrine_history/',
    '/admin/-/second-factor/', '/admin/-/confirm/', '/admin/-/go/', '/admin/-/go/?q=nothing',
    '/admin/fixed/', '/admin/fixed/1/',
  ],
  404: [
    '/admin/nothing/', '/admin/unseen/', '/admin/unseen/1/', '/admin/vitrine_session/', '/admin/-/', '/admin/-/nothing/',
    '/admin/thing/-/', '/admin/thing/-/nothing/', '/admin/thing/-/add/more/', '/admin/thing/4711/', '/admin/thing/x/',
    '/admin/thing/1/nothing/', '/admin/thing/1/delete/more/', '/admin/thing/99999999999999999999/', '/admin/thing/%00/',
    '/admin/thing/%ff/', '/admin/%ff/', '/admin/thing/1/password/', '/admin/thing/1/access/', '/admin/user/4711/password/', '/admin/user/4711/access/', '/admin/thing//',
    '/admin/user/1/second-factor/', '/admin/thing/1/second-factor/',
    '/admin/constructor/', '/admin/fixed/-/add/', '/admin/fixed/1/delete/', '/admin/fixed/-/import/',
    '/admin/vitrine_history/-/add/', '/admin/-/style-000000000000.css', '/admin/-/script-000000000000.js', '/admin/-/style.css',
  ],
  400: [
    '/admin/thing/?name=%ff', '/admin/thing/?name=%00', '/admin/thing/-/filter/?_has.name=a&name=%ff',
  ],
  414: [
    `/admin/thing/?name=${'x'.repeat(9000)}`,
  ],
  405: [
    '/admin/-/logout/', '/admin/-/display/', '/admin/thing/-/bulk/',
  ],
}; // prettier-ignore
for (const [status, paths] of Object.entries(PAGES))
  test(`a GET returns ${status} as a page with all security headers`, async () => {
    for (const path of paths) {
      const answer = await ada.get(path);
      assertPage(answer, Number(status), path);
      if (status === '405') assert.match(answer.headers.get('allow') ?? '', /^POST\b/);
    }
  });

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

test('the message after a save links to the record, except on the page of the record', async () => {
  const page = await ada.get('/admin/open/-/add/');
  for (const [save, isLinked] of Object.entries({ list: true, another: true, stay: false })) {
    const fields = { ...fieldsOf(page), name: `Saved by ${save}`, _save: save };
    const next = await ada.follow(await ada.post('/admin/open/-/add/', fields));
    assert.match(next.text, new RegExp(`“Saved by ${save}” was added\\.`));
    assert.equal(/<a href="\/admin\/open\/\d+\/">View record<\/a>/.test(next.text), isLinked, save);
  }
});

test('the 404 page of a record links to the list and to the history of the record', async () => {
  const page = await ada.get('/admin/open/4711/');
  assert.equal(page.status, 404);
  assert.ok(
    page.text.includes('href="/admin/open/"') && page.text.includes('href="/admin/open/4711/history/"'),
  );
});

test('the navigation marks the current list', async () => {
  assert.match((await ada.get('/admin/open/')).text, /<a href="\/admin\/open\/"\s*aria-current="true">/);
});

test('deleting a record returns to the list from which it was opened', async () => {
  const [row] = await service.sql`insert into thing (name) values ('Gone') returning id`;
  const address = `/admin/thing/${row?.['id']}/`;
  const page = await ada.get(address, { referer: `${service.base}/admin/thing/?name__ilike=G%25&page=1` });
  const [, href = ''] = /href="([^"]*\/delete\/[^"]*)"/.exec(page.text) ?? [];
  const confirmation = await ada.get(href.replaceAll('&amp;', '&'));
  const done = await ada.post(`${address}delete/`, hiddenFields(confirmation, 'confirm'));
  assert.equal(done.location, '/admin/thing/?name__ilike=G%25&page=1');
});

describe('links to the API', () => {
  for (const [path, expected] of [
    ['/admin/open/', /<code>\/api\/open\/<\/code><\/a\s*>\./],
    ['/admin/open/?name=x&_search=y', /<code>\/api\/open\/\?name=x<\/code><\/a\s*> \(without the search\)\./],
    ['/admin/closed/', /<code>\/api\/closed\/<\/code><\/a\s*> \(requires a separate login\)\./],
    ['/admin/open/?owner__name=one', /\(requires a separate login\)\./],
    ['/admin/open/?unseen=x', undefined],
    ['/admin/open/?ordering=unseen', undefined],
    ['/admin/silent/', undefined],
    ['/admin/closed/1/', /title="requires a separate login">API</],
    ['/admin/silent/1/', undefined],
  ] as const)
    test(`${path} has ${expected ? 'a link to the same records' : 'no link, because the API would refuse it'}`, async () => {
      const { status, text } = await ada.get(path);
      assert.equal(status, 200);
      if (expected) assert.match(text, expected);
      else assert.doesNotMatch(text, /href="\/api\//);
    });
});
