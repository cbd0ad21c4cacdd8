// Links to set a password: made on the page about a user's access, used on a page without a login.
import assert from 'node:assert/strict';
import fc from 'fast-check';
import type { Resource, Roles } from '../../src/index.ts';
import { user as sampleUser } from '../../src/resources/registry.ts';
import { basic, closedAfter, lockedOut, startBeside, startService, useService } from '../support.ts';
import { fromNewAddress, stopClock } from '../http/expect.ts';
import {
  attemptLogin,
  errorsIn,
  hiddenFields,
  invalidFields,
  logIn,
  openBrowser,
  readable,
  unescaped,
  type AdminAnswer,
  type Browser,
} from './support.ts';
import { describe, test } from 'node:test';

const user = {
  ...sampleUser,
  columns: { ...sampleUser.columns, role: { type: 'string', null: true } },
} satisfies Resource;
const note = { model: 'note', columns: { message: { type: 'text' } }, access: 'user' } satisfies Resource;
const roles = {
  clerk: { admin: true, grants: { user: { read: true, update: { columns: ['password', 'email'] } } } },
} satisfies Roles;

const PASSWORD = 'set with a link';
const twice = (password: string, repeat = password) => ({ _password: password, _repeat: repeat });

stopClock();

let ada: Browser;
const service = useService([user, note], { roles, trustProxy: 1 }, async () => {
  await service.addUser('ada', { admin: true });
  ada = await logIn(service, 'ada');
});

const makeLink = (id: number, current = 'pw-ada', browser = ada): Promise<AdminAnswer> =>
  browser.post(`/admin/user/${id}/access/`, { _current: current });

/** The address of a link on the page that shows it, without the origin. */
const linkIn = ({ text }: AdminAnswer): string => {
  const { base } = service;
  const [, link = ''] = /id="secret" value="([^"]*)"/.exec(text) ?? [];
  assert.ok(link.startsWith(`${base}/admin/-/set-password/?link=`), text);
  return unescaped(link).slice(base.length);
};

const newLink = async (id: number): Promise<string> => linkIn(await makeLink(id));

const setWith = (
  path: string,
  fields: Record<string, string> = twice(PASSWORD),
  headers: Record<string, string> = fromNewAddress(),
): Promise<AdminAnswer> => {
  const link = new URL(path, service.base).searchParams.get('link') ?? '';
  return openBrowser(service).post('/admin/-/set-password/', { link, ...fields }, headers);
};

const get = (path: string, headers = fromNewAddress()): Promise<AdminAnswer> =>
  openBrowser(service).get(path, headers);

/** Checks that a page says why the link does not work, and offers nothing. */
function assertUseless(answer: AdminAnswer): void {
  assert.equal(answer.status, 404, answer.text);
  assert.match(
    readable(answer),
    /^Admin This link does not work It has been used, it is older than 24 hours/,
  );
  assert.doesNotMatch(answer.text, /<form|<input/);
}

const canLogIn = async (name: string, password: string): Promise<boolean> =>
  (
    await service.request('/api/note/', {
      method: 'POST',
      headers: { authorization: basic(name, password), ...fromNewAddress() },
      body: { message: 'x' },
    })
  ).status === 201;

describe('a link to set a password', () => {
  test('works once, ends the sessions, and leaves an entry of the user in the history', async () => {
    const id = await service.addUser('joan', { admin: true });
    const session = await logIn(service, 'joan');
    const path = await newLink(id);
    const page = await get(path);
    assert.equal(page.status, 200);
    assert.match(
      readable(page),
      /Set your password For the user joan\. .*At least 12 characters, not the user name/,
    );
    assert.deepEqual(hiddenFields(page, 'login')['username'], ['joan']);
    const done = await setWith(path);
    assert.deepEqual([done.status, done.location], [303, '/admin/-/login/?next=%2Fadmin%2F&_because=set']);
    assert.match(readable(await get(done.location ?? '')), /Your password was set\. Log in\./);
    assert.match((await session.get('/admin/')).location ?? '', /login/);
    assert.equal((await attemptLogin(service, 'joan', 'pw-joan')).status, 401);
    assert.equal((await attemptLogin(service, 'joan', PASSWORD)).status, 303);
    assertUseless(await get(path));
    assertUseless(await setWith(path, twice('another with a link')));
    const [entry] = await service.sql`
      select user_name, door, action, after from vitrine_history where model = 'user' and record = ${String(id)}`;
    assert.deepEqual(
      { ...entry },
      { user_name: 'joan', door: 'admin', action: 'update', after: '{"password":true}' },
    );
  });

  test('is also for users who may not enter the admin area', async () => {
    const path = await newLink(await service.addUser('plain'));
    const done = await setWith(path);
    assert.deepEqual([done.status, readable(done)], [200, 'Admin Your password was set You can use it now.']);
    assert.ok(await canLogIn('plain', PASSWORD));
  });

  test('sets one password if it is used several times at once', async () => {
    const path = await newLink(await service.addUser('race'));
    const passwords = [1, 2, 3, 4].map((number) => `password by number ${number}`);
    const answers = await Promise.all(passwords.map((password) => setWith(path, twice(password))));
    const won = answers.findIndex(({ status }) => status === 200);
    answers.forEach((answer, index) => index !== won && assertUseless(answer));
    assert.ok(await canLogIn('race', passwords[won] ?? ''));
  });

  test('ends after 24 hours', async (t) => {
    const path = await newLink(await service.addUser('late'));
    const now = Date.now();
    const clock = t.mock.method(Date, 'now', () => now + 24 * 3_600_000 - 60_000);
    assert.equal((await get(path)).status, 200);
    clock.mock.mockImplementation(() => now + 24 * 3_600_000 + 60_000);
    assertUseless(await get(path));
    assertUseless(await setWith(path));
    clock.mock.restore();
    assert.ok(await canLogIn('late', 'pw-late'));
  });

  test('ends with another password, with its user, and while the user is not active', async () => {
    const id = await service.addUser('mona');
    const before = await newLink(id);
    assert.equal((await ada.post(`/admin/user/${id}/password/`, twice('a new password'))).status, 303);
    assertUseless(await get(before));
    const path = await newLink(id);
    await service.sql`update "user" set active = false where id = ${id}`;
    assertUseless(await setWith(path));
    await service.sql`update "user" set active = true where id = ${id}`;
    assert.equal((await get(path)).status, 200);
    await service.sql`delete from "user" where id = ${id}`;
    assertUseless(await setWith(path));
  });

  test('is for no other user, and does not work with any change', async () => {
    const [id, other] = [await service.addUser('nora'), await service.addUser('olga')];
    const [path, others] = [await newLink(id), await newLink(other)];
    const [start = '', secret = ''] = path.split('?link=');
    const [parts, foreign] = [secret.split('.'), (others.split('?link=')[1] ?? '').split('.')];
    const forged = fc.oneof(
      fc.nat(secret.length - 1).map((at) => secret.slice(0, at) + secret.slice(at + 1)),
      fc
        .tuple(fc.nat(secret.length - 1), fc.constantFrom(...'Aa0-_.'))
        .map(([at, character]) => secret.slice(0, at) + character + secret.slice(at + 1)),
      fc
        .array(fc.boolean(), { minLength: 3, maxLength: 3 })
        .filter((own) => own.includes(true) && own.includes(false))
        .map((own) => own.map((isOwn, at) => (isOwn ? parts : foreign)[at]).join('.')),
      fc.string().map(encodeURIComponent),
    );
    await fc.assert(
      fc.asyncProperty(forged, async (text) => {
        if (text !== secret) assertUseless(await get(`${start}?link=${text}`));
      }),
      { numRuns: 60 },
    );
    assertUseless(await get(start));
    assertUseless(await get(`${path}.x`));
    assertUseless(await get(`${start}?link=${secret}&link=%`));
    assert.equal((await get(path)).status, 200);
  });

  for (const [what, fields, message] of [
    ['a short password', twice('short'), /at least 12 characters \(got 5\)/],
    ['the user name', twice('Petra The Long One'), /not be the user name/],
    ['a common password', twice('Password1234'), /one of the most common passwords/],
    ['two different ones', twice(PASSWORD, 'another'), /does not match/i],
    ['none', twice(''), /is required/i],
  ] as const)
    test(`asks again after ${what}`, async () => {
      const [row] = await service.sql`select id from "user" where username = 'petra the long one'`;
      const id = Number(row?.['id'] ?? (await service.addUser('petra the long one')));
      const path = await newLink(id);
      const again = await setWith(path, fields);
      assert.equal(again.status, 400);
      assert.equal(invalidFields(again).length, 1);
      assert.match(Object.values(errorsIn(again)).join(), message);
      const { link = [] } = hiddenFields(again, 'login');
      assert.equal((await setWith(`/?link=${link[0]}`)).status, 200);
      await service.sql`delete from "user" where id = ${id}`;
    });

  test('is in no log, no cache and no Referer', async () => {
    const made = await makeLink(await service.addUser('quinn'));
    assert.equal(made.headers.get('cache-control'), 'no-store');
    const path = linkIn(made);
    const answers = [await get(path), await setWith(path)];
    for (const { headers } of answers) {
      assert.equal(headers.get('cache-control'), 'no-store');
      assert.equal(headers.get('referrer-policy'), 'strict-origin');
    }
    const [, secret = ''] = path.split('link=');
    assert.ok(!JSON.stringify(service.lines).includes(secret.slice(0, 40)));
    assert.ok(service.lines.some((line) => line['path'] === '/admin/-/set-password/?link'));
  });

  test('works once, also on two processes that wait for the user', async (t) => {
    const id = await service.addUser('otis');
    const link = new URL(await newLink(id), service.base).searchParams.get('link') ?? '';
    const other = closedAfter(t, await startBeside(service.url, [user, note], { roles, trustProxy: 1 }));
    const setting = [service, other].map((at, index) => () =>
      openBrowser(at).post('/admin/-/set-password/', { link, ...twice(`${PASSWORD} ${index}`) }, fromNewAddress()),
    ); // prettier-ignore
    let answers: Promise<AdminAnswer>[] = [];
    await service.sql.begin(async (sql) => {
      await sql`select from "user" where id = ${id} for update`;
      answers = setting.map((set) => set());
      await lockedOut(service, 2);
    });
    const statuses = (await Promise.all(answers)).map(({ status }) => status);
    assert.deepEqual(statuses.sort(), [200, 404]);
  });

  test('is refused from a page of another origin', async () => {
    const path = await newLink(await service.addUser('rita'));
    const foreign: Record<string, string>[] = [
      { origin: 'https://evil.example' },
      { origin: 'null' },
      { 'sec-fetch-site': 'cross-site' },
    ];
    for (const headers of foreign) assert.equal((await setWith(path, twice(PASSWORD), headers)).status, 403);
    assert.equal((await get(path)).status, 200);
  });

  test('that is guessed is limited like failed logins', async () => {
    const path = await newLink(await service.addUser('sara'));
    const address = fromNewAddress();
    // No random text of the tests above is so long: a link that has failed before does not count.
    for (let guess = 0; guess < 10; guess += 1)
      assertUseless(await get(`/admin/-/set-password/?link=guess-number-${guess}`, address));
    const refused = await get(path, address);
    assert.equal(refused.status, 429);
    assert.match(refused.headers.get('retry-after') ?? '', /^\d+$/);
    assert.equal((await get(path)).status, 200);
  });

  test('is made with the password of the admin only', async () => {
    const id = await service.addUser('tina');
    for (const current of ['', 'wrong']) {
      const refused = await makeLink(id, current);
      assert.equal(refused.status, 400);
      assert.deepEqual(invalidFields(refused), ['_current']);
      assert.doesNotMatch(refused.text, /set-password/);
    }
    await service.sql`update "user" set active = false where id = ${id}`;
    assert.doesNotMatch(readable(await ada.get(`/admin/user/${id}/access/`)), /Link to set a password/);
    assert.equal((await makeLink(id)).status, 409);
  });

  test('is made by no one but admins, and for users only', async () => {
    const id = await service.addUser('uta');
    await service.addUser('carl', { role: 'clerk' });
    const carl = await logIn(service, 'carl');
    assert.doesNotMatch((await carl.get(`/admin/user/${id}/`)).text, /\/access\//);
    assert.equal((await carl.get(`/admin/user/${id}/access/`)).status, 404);
    assert.equal((await makeLink(id, 'pw-carl', carl)).status, 404);
    await service.sql`insert into note (message) values ('x')`;
    for (const path of ['/admin/note/1/access/', '/admin/user/99999/access/', '/admin/user/x/access/'])
      assert.equal((await ada.get(path)).status, 404, path);
  });

  test('begins with the first origin of PUBLIC_URL', async (t) => {
    const options = { publicUrl: ['https://notes.example.org'] };
    const other = closedAfter(t, await startService([user], options));
    const id = await other.addUser('ada', { admin: true });
    const browser = openBrowser(other);
    const headers = { origin: 'https://notes.example.org' };
    await browser.get('/admin/-/login/');
    await browser.post('/admin/-/login/', { username: 'ada', password: 'pw-ada' }, headers);
    await browser.get('/admin/-/account/');
    const made = await browser.post(`/admin/user/${id}/access/`, { _current: 'pw-ada' }, headers);
    const [, link = ''] = /id="secret" value="([^"]*)"/.exec(made.text) ?? [];
    const start = 'https://notes.example.org/admin/-/set-password/?link=';
    assert.ok(link.startsWith(start), made.text);
    const page = await browser.get(`/admin/-/set-password/?link=${link.slice(start.length)}`);
    assert.equal(page.status, 200);
  });

  test('needs the table of secrets', async (t) => {
    const other = closedAfter(t, await startService([user]));
    const id = await other.addUser('ada', { admin: true });
    await other.sql`drop table vitrine_secret`;
    const without = closedAfter(t, await startBeside(other.url, [user], { schema: 'check' }));
    const browser = await logIn(without, 'ada');
    assert.doesNotMatch(readable(await browser.get(`/admin/user/${id}/access/`)), /Link to set a password/);
    assert.equal((await makeLink(id, 'pw-ada', browser)).status, 409);
  });
});
