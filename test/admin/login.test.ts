// The login, its redirects, and the account page.
import assert from 'node:assert/strict';
import { fromNewAddress, stopClock } from '../http/expect.ts';
import { basic, useService } from '../support.ts';
import {
  attemptLogin,
  csrfIn,
  invalidFields,
  logIn,
  openBrowser,
  readable,
  type AdminAnswer,
  type Attempt,
  type Browser,
} from './support.ts';
import { resources } from './sample-resources.ts';
import { describe, test } from 'node:test';

stopClock();

const LOGIN = '/admin/-/login/';
const SESSION = 'admin-session';

const service = useService(resources, { trustProxy: 1 }, async () => {
  await service.addUser('ada', { admin: true });
});

const attempt = (...login: Attempt): Promise<AdminAnswer> => attemptLogin(service, ...login);

describe('a failed login', () => {
  test('returns the same page for every cause', async () => {
    await service.addUser('ina', { admin: true, active: false });
    await service.addUser('paul');
    const answers: unknown[] = [];
    for (const [name, password] of [
      ['nobody', 'pw-nobody'],
      ['ada', 'wrong'],
      ['ina', 'pw-ina'],
      ['paul', 'pw-paul'],
      ['', ''],
      ['ada', 'x'.repeat(1025)],
    ] as const) {
      const { status, headers, text } = await attempt(name, password);
      const [, username = ''] = /name="username"[^>]*?\svalue="([^"]*)"/.exec(text) ?? [];
      assert.equal(username, name);
      const page = text.replace(` value="${name}"`, '').replace(csrfIn(text), '');
      const others = [...headers].filter(([key]) => !['date', 'content-length', 'set-cookie'].includes(key));
      answers.push({ status, page, others, cookies: headers.getSetCookie().length });
      assert.equal(status, 401);
      assert.doesNotMatch(text, /pw-|wrong/);
    }
    for (const answer of answers) assert.deepEqual(answer, answers[0]);
  });

  test('with a password that is too long needs no look-up', async () => {
    await service.sql.begin(async (transaction) => {
      await transaction`lock table "user"`;
      for (const name of ['ada', 'nobody']) assert.equal((await attempt(name, 'x'.repeat(1025))).status, 401);
    });
  });

  test('of a user who is no admin opens no session and reveals no page', async () => {
    const browser = openBrowser(service);
    await attempt('paul', 'pw-paul', browser);
    assert.equal(browser.cookies.has(SESSION), false);
    for (const path of ['/admin/', '/admin/thing/', '/admin/nothing/', '/admin/user/1/'])
      assert.equal((await browser.get(path)).location, `${LOGIN}?next=${encodeURIComponent(path)}`);
  });

  test('counts together with those of the API: the 11th from an address returns 429 with Retry-After', async () => {
    await service.addUser('berta', { admin: true });
    const from = fromNewAddress();
    for (let count = 0; count < 10; count += 1) {
      const isPage = count % 2 === 0;
      const headers = { ...from, authorization: basic('berta', `wrong ${count}`) };
      const { status } = isPage
        ? await attempt('berta', `wrong ${count}`, undefined, from)
        : await service.request('/api/note/', { method: 'POST', headers, body: { message: 'x' } });
      assert.equal(status, 401);
    }
    const refused = await attempt('berta', 'pw-berta', undefined, from);
    assert.equal(refused.status, 429);
    assert.match(refused.headers.get('retry-after') ?? '', /^[1-9]\d?$/);
    assert.match(readable(refused), /Too many failed logins/);
    const headers = { ...from, authorization: basic('berta') };
    const api = await service.request('/api/note/', { method: 'POST', headers, body: { message: 'x' } });
    assert.equal(api.status, 429);
    assert.equal((await attempt('berta', 'pw-berta')).status, 303);
  });

  test('counts for its user name from all addresses: the 51st returns 429', async () => {
    await service.addUser('carl', { admin: true });
    for (let count = 0; count < 50; count += 1)
      assert.equal((await attempt('carl', `wrong ${count}`)).status, 401);
    assert.equal((await attempt('carl', 'pw-carl')).status, 429);
  });
});

test('a login may spell the name and the password in another form of Unicode', async () => {
  await service.addUser('Zo\u00eb', { admin: true });
  assert.equal((await attempt('Zoe\u0308', 'pw-Zoe\u0308')).status, 303);
  assert.equal((await attempt('Zoe\u0308', 'pw-Zoe')).status, 401);
});

describe('after the login, the browser', () => {
  /** Logs in on the login page with this query. @returns the address of the redirect */
  async function locationAfterLogin(query: string): Promise<string> {
    const browser = openBrowser(service);
    const page = await browser.get(`${LOGIN}${query}`);
    const [, next = ''] = /name="next" value="([^"]*)"/.exec(page.text) ?? [];
    const unescaped = next.replaceAll('&amp;', '&').replaceAll('&#39;', "'");
    const fields = { username: 'ada', password: 'pw-ada', next: unescaped };
    const { status, location = '' } = await browser.post(LOGIN, fields);
    assert.equal(status, 303);
    return location;
  }

  for (const path of [
    '/admin/',
    '/admin/thing/',
    '/admin/thing/?name=a%20b&ordering=-id',
    '/admin/thing/%2D/',
  ])
    test(`is redirected to ${path}`, async () => {
      const { location = '' } = await openBrowser(service).get(path);
      assert.equal(await locationAfterLogin(location.slice(LOGIN.length)), path);
    });

  const HOSTILE = [
    '//evil.example', '/\\evil.example', '\\/evil.example', 'https://evil.example', 'https:evil.example', 'javascript:alert(1)',
    '/admin//evil.example/../../..', '/admin/../api/', '/admin/..//evil.example', '/admin/%2e%2e/api/', '/admin/.%2E/', '/admin/\\..\\..',
    '/admin/\t/x', '\t//evil.example', '/admin/\r\nSet-Cookie: a=b', '/administrator/', '/admin', ' /admin/', '/api/', 'admin/', '@evil.example', '/admin/x y',
  ]; // prettier-ignore
  test('is not redirected to another site, or out of the admin area', async () => {
    for (const next of HOSTILE) {
      const browser = openBrowser(service);
      await browser.get(LOGIN);
      const { location: typed = '' } = await browser.post(LOGIN, {
        username: 'ada',
        password: 'pw-ada',
        next,
      });
      for (const location of [typed, await locationAfterLogin(`?next=${encodeURIComponent(next)}`)]) {
        const { origin, pathname } = new URL(location, service.base);
        assert.equal(origin, service.base, next);
        assert.match(pathname, /^\/admin\//, next);
        assert.doesNotMatch(location, /evil|\\|\.\./, next);
      }
    }
  });

  test('is redirected to the percent-encoded address', async () => {
    for (const [next, expected] of [
      ['/admin/thing/é\u2028€\u0001/', '/admin/'],
      ['/admin/thing/é€\u0001/', '/admin/thing/%C3%A9%E2%82%AC%01/'],
    ] as const)
      assert.equal(await locationAfterLogin(`?next=${encodeURIComponent(next)}`), expected);
  });
});

describe('the account page', () => {
  const ACCOUNT = '/admin/-/account/';
  const NEW = 'a new password';
  const isIn = async (browser: Browser): Promise<boolean> => (await browser.get('/admin/')).status === 200;

  test('needs the current password and the new one twice', async () => {
    await service.addUser('dora', { admin: true });
    const browser = await logIn(service, 'dora');
    for (const [current, password, repeat, field] of [
      ['wrong', NEW, NEW, '_current'],
      ['', NEW, NEW, '_current'],
      ['pw-dora', NEW, 'other', '_repeat'],
      ['pw-dora', 'too short', 'too short', '_password'],
      ['pw-dora', '', '', '_password'],
      ['pw-dora', 'x'.repeat(1025), 'x'.repeat(1025), '_password'],
    ] as const) {
      const fields = { _current: current, _password: password, _repeat: repeat };
      const answer = await browser.post(ACCOUNT, fields, fromNewAddress());
      assert.equal(answer.status, 400);
      assert.deepEqual(invalidFields(answer), [field]);
      assert.doesNotMatch(answer.text, /value="(wrong|a new password|too short|other|pw-dora|x+)"/);
    }
    assert.equal((await attempt('dora', 'pw-dora')).status, 303);
  });

  test('ends the other sessions after a new password and renews the current one', async () => {
    await service.addUser('emil', { admin: true });
    const [here, there] = [await logIn(service, 'emil'), await logIn(service, 'emil')];
    const token = here.cookies.get(SESSION) ?? '';
    const answer = await here.post(ACCOUNT, {
      _current: 'pw-emil',
      _password: NEW,
      _repeat: NEW,
      username: 'ada',
    });
    assert.equal(answer.location, ACCOUNT);
    assert.notEqual(here.cookies.get(SESSION), token);
    assert.match(readable(await here.get(ACCOUNT)), /There are no other sessions/);
    assert.equal(await isIn(there), false);
    there.cookies.set(SESSION, token);
    assert.equal(await isIn(there), false);
    assert.equal((await attempt('emil', 'pw-emil')).status, 401);
    assert.equal((await attempt('emil', NEW)).status, 303);
    assert.equal((await attempt('ada', 'pw-ada')).status, 303);
    const [row] = await service.sql`select user_name, after from vitrine_history order by id desc limit 1`;
    assert.deepEqual({ ...row }, { user_name: 'emil', after: '{"password":true}' });
  });

  test('lists the active sessions of the user and can end the others', async () => {
    await service.addUser('gina', { admin: true });
    const [stale, there, here] = [
      await logIn(service, 'gina'),
      await logIn(service, 'gina'),
      await logIn(service, 'gina'),
    ];
    await service.sql`update vitrine_session set seen = '2020-01-01'
      where token_hash = encode(sha256(${stale.cookies.get(SESSION) ?? ''}::bytea), 'hex')`;
    const others = await logIn(service, 'ada');
    const page = await here.get(ACCOUNT);
    assert.equal([...page.text.matchAll(/<th scope="row"/g)].length, 2);
    assert.equal([...page.text.matchAll(/this session/g)].length, 1);
    for (const { cookies } of [there, here])
      assert.doesNotMatch(page.text, new RegExp(cookies.get(SESSION) ?? ''));
    const done = await here.post(ACCOUNT, { _sessions: 'end' });
    assert.match((await here.follow(done)).text, /1 session ended\./);
    assert.deepEqual([await isIn(here), await isIn(there), await isIn(others)], [true, false, true]);
  });
});

describe('the redirect to the login', () => {
  const query = (length: number): string => `?name__ilike=${'%25'.repeat(length / 3)}`;
  const headLength = ({ headers }: AdminAnswer): number =>
    [...headers].reduce((sum, [name, value]) => sum + name.length + value.length + 4, 0);

  test('drops a query or a path that would make the headers too long for a proxy', async () => {
    for (const length of [3000, 8100]) {
      const answer = await openBrowser(service).get(`/admin/thing/${query(length)}`);
      assert.deepEqual([answer.status, answer.location], [303, '/admin/-/login/?next=%2Fadmin%2Fthing%2F']);
    }
    const path = await openBrowser(service).get(`/admin/${'x'.repeat(9000)}/`);
    assert.equal(path.location, '/admin/-/login/?next=%2Fadmin%2F');
    assert.ok(headLength(path) < 4000);
  });

  test('ignores an address in the login form that is too long', async () => {
    const browser = openBrowser(service);
    await browser.get('/admin/-/login/');
    const next = `/admin/thing/${query(3000)}`;
    const answer = await browser.post('/admin/-/login/', { username: 'ada', password: 'pw-ada', next });
    assert.deepEqual([answer.status, answer.location], [303, '/admin/']);
  });
});

describe('a login form without a session', () => {
  for (const [size, fields] of [
    ['of 3 MB', 'a&'.repeat(1_500_000)],
    ['of more than 2,000 fields', 'a&'.repeat(2001)],
    ['of more than 144 KiB', `username=${'x'.repeat(147_456)}`],
  ] as const)
    test(`${size} returns 413, and the response repeats none of it`, async () => {
      for (const path of [
        '/admin/-/login/',
        '/admin/thing/1/',
        '/admin/thing/-/import/',
        '/admin/nothing/',
      ]) {
        const headers = { 'content-type': 'application/x-www-form-urlencoded', origin: service.base };
        const answer = await service.request(path, { method: 'POST', headers, body: fields });
        assert.ok(path.includes('login') ? answer.status === 413 : [303, 413].includes(answer.status));
        assert.ok(answer.text.length < 4000, `${answer.text.length} characters`);
      }
    });

  test('does not repeat a user name that is longer than any', async () => {
    const answer = await attemptLogin(service, '"'.repeat(20_000), 'x');
    assert.equal(answer.status, 401);
    assert.ok(answer.text.length < 6000);
  });

  test('shows no notice for a reason that does not exist', async () => {
    const { text } = await openBrowser(service).get('/admin/-/login/?_because=constructor');
    assert.equal(text.includes('native code'), false);
  });
});
