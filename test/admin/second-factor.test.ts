// Second factors: set-up, logins, confirmations, removal, and the API's refusal of the password.
import assert from 'node:assert/strict';
import { createVitrine, type CustomAction, type Resource } from '../../src/index.ts';
import { fromNewAddress, assertUnauthorized, stopClock } from '../http/expect.ts';
import { basic, eventually, startBeside, startService, useService } from '../support.ts';
import {
  addFactor,
  codeAt,
  freshCode,
  outdateCodes,
  presentStep,
  RECOVERY_CODE,
  SECRET,
} from '../second-factor.ts';
import {
  errorsIn,
  fieldsOf,
  hiddenFields,
  logIn,
  openBrowser,
  readable,
  save,
  uploadFile,
  confirmImport,
  type AdminAnswer,
  type Browser,
  type Fields,
} from './support.ts';
import { resources } from './sample-resources.ts';
import { beforeEach, describe, test } from 'node:test';

const passTime = stopClock();
// Failures of earlier tests do not count.
beforeEach(() => passTime(61_000));

const LOGIN = '/admin/-/login/';
const OWN = '/admin/-/second-factor/';
const SESSION = 'admin-session';

/** Its deletion deletes its users. */
const team: Resource = { model: 'team', columns: { name: { type: 'string' } } };
const teamOfUser = { type: 'foreignKey', references: 'team', null: true, onDelete: 'cascade' } as const;
const greet: CustomAction = { name: 'greet', title: 'Greet', on: ['list'], run: () => 'Hello.' };
const withTeams = resources.map((one) =>
  one.model === 'user'
    ? { ...one, columns: { ...one.columns, team: teamOfUser }, admin: { ...one.admin, actions: [greet] } }
    : one,
);

const service = useService([...withTeams, team], { trustProxy: 1 }, async () => {
  await service.addUser('root', { admin: true });
});

let count = 0;
/** Adds an admin. */
async function addAdmin(at = service): Promise<{ readonly name: string; readonly id: number }> {
  const name = `admin${(count += 1)}`;
  return { name, id: await at.addUser(name, { admin: true }) };
}

/** Adds an admin with the second factor `SECRET`. */
async function addGuarded(at = service): Promise<{ readonly name: string; readonly id: number }> {
  const admin = await addAdmin(at);
  await addFactor(at, admin.id);
  return admin;
}

/** Sends the password. @returns the page that asks for the code */
async function sendPassword(
  browser: Browser,
  name: string,
  fields: Fields = {},
  headers = fromNewAddress(),
): Promise<AdminAnswer> {
  await browser.get(LOGIN);
  return browser.post(LOGIN, { username: name, password: `pw-${name}`, ...fields }, headers);
}

/** Sends the code on the page that asks for it. */
const sendCode = (browser: Browser, page: AdminAnswer, code: string, headers = fromNewAddress()) =>
  browser.post(LOGIN, { ...fieldsOf(page), _code: code }, headers);

/** Logs in with the second factor. */
async function logInWith(name: string, at = service): Promise<Browser> {
  const browser = openBrowser(at);
  const done = await sendCode(browser, await sendPassword(browser, name), await freshCode(at));
  assert.equal(done.status, 303, done.text);
  await browser.get('/admin/-/account/');
  return browser;
}

/** Runs a bulk action, and confirms it with these fields. */
async function confirmBulk(browser: Browser, model: string, choice: Fields, typed: Fields) {
  const path = `/admin/${model}/-/bulk/`;
  const page = await browser.post(path, { _state: '', _value: '1', ...choice });
  const form = choice['_action'] === 'delete' ? 'confirm' : 'record';
  return browser.post(path, { ...hiddenFields(page, form), _confirm: '1', ...typed });
}

const hasSession = ({ cookies }: Browser): boolean => cookies.has(SESSION);

/** The secret on a page that sets a second factor up. */
const secretOn = (page: AdminAnswer): string => fieldsOf(page)['_secret'] ?? '';

const codesOn = ({ text }: AdminAnswer): string[] =>
  [...text.matchAll(/<code>(\d{4}(?:-\d{4}){4})<\/code>/g)].map(([, code = '']) => code);

const factorOf = async (id: number) => {
  const [row] = await service.sql`select * from vitrine_second_factor where user_key = ${String(id)}`;
  return row;
};

const writes = async (
  name: string,
  headers: Record<string, string> = {},
  at: Pick<typeof service, 'request'> = service,
) =>
  at.request('/api/note/', {
    method: 'POST',
    headers: { authorization: basic(name, `pw-${name}`), ...headers },
    body: { message: 'x' },
  });

describe('the set-up', () => {
  test('holds from the first right code on, shows ten recovery codes once, and ends the other sessions', async () => {
    const { name, id } = await addAdmin();
    const [browser, elsewhere] = [await logIn(service, name), await logIn(service, name)];
    assert.match(readable(await browser.get('/admin/-/account/')), /Second factor .*Set up/);
    const page = await browser.get(OWN);
    const secret = secretOn(page);
    assert.match(secret, /^[A-Z2-7]{32}$/);
    assert.ok(readable(page).includes(secret.match(/.{4}/g)?.join(' ') ?? ''));
    assert.match(page.text, /<svg[^>]*role="img"/);
    assert.match(page.text, /inputmode="numeric"/);
    assert.match(page.text, /autocomplete="one-time-code"/);

    const send = (fields: Fields): Promise<AdminAnswer> =>
      browser.post(OWN, { ...fieldsOf(page), _current: `pw-${name}`, ...fields });
    const step = presentStep();
    for (const [field, fields] of [
      ['_code', { _code: codeAt(secret, step - 5) }],
      ['_code', { _code: '' }],
      ['_current', { _code: codeAt(secret), _current: 'wrong' }],
      ['_current', { _code: codeAt(secret), _current: '' }],
    ] as const) {
      const again = await send(fields);
      assert.equal(again.status, 400);
      assert.ok(Object.keys(errorsIn(again)).includes(field), again.text);
      assert.equal(secretOn(again), secret);
      assert.equal(await factorOf(id), undefined);
    }
    assert.ok(hasSession(elsewhere) && (await elsewhere.get('/admin/')).status === 200);

    const done = await send({ _code: codeAt(secret) });
    const codes = codesOn(done);
    assert.equal(new Set(codes).size, 10);
    assert.equal(hasSession(browser), true);
    assert.match((await elsewhere.get('/admin/')).location ?? '', /login/);
    const stored = JSON.stringify(await factorOf(id));
    for (const code of codes)
      for (const text of [code, code.replaceAll('-', '')]) assert.ok(!stored.includes(text));
    const later = await browser.get(OWN);
    assert.deepEqual(codesOn(later), []);
    assert.match(readable(later), /10 recovery codes left/);

    const next = openBrowser(service);
    const asked = await sendPassword(next, name);
    assert.equal(hasSession(next), false);
    // The code of the set-up is used up.
    assert.equal((await sendCode(next, asked, codeAt(secret, step))).status, 401);
    assert.equal((await sendCode(next, asked, codes[3] ?? '')).status, 303);
    assert.equal(hasSession(next), true);
  });

  test('that is sent again, or by a user who has one, changes nothing', async () => {
    const { name, id } = await addAdmin();
    const browser = await logIn(service, name);
    const page = await browser.get(OWN);
    await addFactor(service, id);
    const before = await factorOf(id);
    const fields = { ...fieldsOf(page), _current: `pw-${name}`, _code: codeAt(secretOn(page)) };
    assert.equal((await browser.post(OWN, fields)).status, 400);
    const { failures, ...now } = (await factorOf(id)) ?? {};
    assert.deepEqual({ failures: 0, ...now }, { ...before });
    assert.ok(Number(failures) > 0);
  });

  test('can be undone by the user, with the password and a code', async () => {
    const { name, id } = await addGuarded();
    const browser = await logInWith(name);
    await outdateCodes(service);
    const page = await browser.get(OWN);
    for (const wrong of [{ _current: 'wrong' }, { _code: '000000' }, { _code: '' }]) {
      const fields = { _current: `pw-${name}`, _code: await freshCode(service), ...wrong };
      assert.equal((await browser.post(OWN, { ...fieldsOf(page), ...fields })).status, 400);
      assert.ok(await factorOf(id));
    }
    const fields = { _current: `pw-${name}`, _code: await freshCode(service) };
    assert.equal((await browser.post(OWN, { ...fieldsOf(page), ...fields })).status, 303);
    assert.equal(await factorOf(id), undefined);
    assert.equal((await writes(name)).status, 201);
  });
});

describe('a login with a second factor', () => {
  test('leads to the page that was asked for, and opens no session before the code is right', async () => {
    const { name } = await addGuarded();
    const browser = openBrowser(service);
    const page = await sendPassword(browser, name, { next: '/admin/note/' });
    assert.equal(page.status, 200);
    assert.equal(hasSession(browser), false);
    assert.match((await browser.get('/admin/note/')).location ?? '', /login/);
    const wrong = await sendCode(browser, page, '000000');
    assert.equal(wrong.status, 401);
    assert.match(errorsIn(wrong)['_code'] ?? '', /wrong/);
    assert.equal(hasSession(browser), false);
    const [row] = await service.sql`select count(*)::int as sessions from vitrine_session s join "user" u on u.id::text = s.user_key where username = ${name}`; // prettier-ignore
    assert.equal(row?.['sessions'], 0);
    const done = await sendCode(browser, wrong, ` ${(await freshCode(service)).replace(/(...)/, '$1 ')} `);
    assert.deepEqual([done.status, done.location], [303, '/admin/note/']);
    assert.equal((await browser.follow(done)).status, 200);
  });

  test('takes each code once, also of two that are sent at once, and none older than a later one', async (context) => {
    context.mock.timers.enable({ apis: ['Date'], now: Date.now() });
    const { name } = await addGuarded();
    const step = presentStep();
    const attempt = async (code: string): Promise<number> => {
      const browser = openBrowser(service);
      return (await sendCode(browser, await sendPassword(browser, name), code)).status;
    };
    const both = await Promise.all([attempt(codeAt(SECRET, step)), attempt(codeAt(SECRET, step))]);
    assert.deepEqual(both.sort(), [303, 401]);
    assert.equal(await attempt(codeAt(SECRET, step)), 401);
    assert.equal(await attempt(codeAt(SECRET, step - 1)), 401);
    assert.equal(await attempt(codeAt(SECRET, step + 1)), 303);
  });

  for (const [clock, steps, status] of [
    ['30 s slow', -1, 303],
    ['30 s fast', 1, 303],
    ['90 s slow', -3, 401],
    ['90 s fast', 3, 401],
  ] as const)
    test(`from a clock that is ${clock} is ${status}`, async (context) => {
      context.mock.timers.enable({ apis: ['Date'], now: Date.now() });
      const { name } = await addGuarded();
      const browser = openBrowser(service);
      const page = await sendPassword(browser, name);
      assert.equal((await sendCode(browser, page, codeAt(SECRET, presentStep() + steps))).status, status);
    });

  test('takes a recovery code once', async () => {
    const { name, id } = await addGuarded();
    for (const [code, status] of [
      [RECOVERY_CODE.slice(0, -1), 401],
      [RECOVERY_CODE.replaceAll('-', ' '), 303],
      [RECOVERY_CODE, 401],
    ] as const) {
      const browser = openBrowser(service);
      assert.equal((await sendCode(browser, await sendPassword(browser, name), code)).status, status);
    }
    assert.deepEqual((await factorOf(id))?.['recovery'], []);
  });

  test('takes only a recovery code after 100 wrong codes', async () => {
    const { name, id } = await addGuarded();
    await service.sql`update vitrine_second_factor set failures = 99 where user_key = ${String(id)}`;
    const browser = openBrowser(service);
    const page = await sendPassword(browser, name);
    assert.equal((await sendCode(browser, page, '000000')).status, 401);
    assert.equal((await sendCode(browser, page, await freshCode(service))).status, 401);
    assert.equal((await sendCode(browser, page, RECOVERY_CODE)).status, 303);
    assert.equal((await factorOf(id))?.['failures'], 0);
  });

  test('counts wrong codes with wrong passwords: the 11th from an address is 429, right or wrong', async () => {
    const { name } = await addGuarded();
    const browser = openBrowser(service);
    const page = await sendPassword(browser, name);
    const from = fromNewAddress();
    for (let tries = 0; tries < 10; tries += 1)
      assert.equal((await sendCode(browser, page, '000000', from)).status, 401);
    const late = await sendCode(browser, page, await freshCode(service), from);
    assert.equal(late.status, 429);
    assert.match(late.headers.get('retry-after') ?? '', /^\d+$/);
    assertUnauthorized(await writes('nobody', fromNewAddress()));
    assert.equal((await writes('nobody', from)).status, 429);
    assert.equal((await sendCode(browser, page, await freshCode(service))).status, 303);
  });

  test('exempts an address from the limit of a name only with the code', async () => {
    const { name } = await addGuarded();
    const [half, whole] = [fromNewAddress(), fromNewAddress()];
    const attempt = async (from: Record<string, string>): Promise<[Browser, AdminAnswer]> => {
      const browser = openBrowser(service);
      return [browser, await sendPassword(browser, name, {}, from)];
    };
    assert.equal((await attempt(half))[1].status, 200);
    const done = await sendCode(...(await attempt(whole)), await freshCode(service), whole);
    assert.equal(done.status, 303);
    for (let tries = 0; tries < 50; tries += 1) assertUnauthorized(await writes(name, fromNewAddress()));
    const statuses = [half, whole].map(async (from) => (await attempt(from))[1].status);
    assert.deepEqual(await Promise.all(statuses), [429, 200]);
  });

  test('keeps an unsaved form', async () => {
    const { name } = await addGuarded();
    const browser = await logInWith(name);
    const form = fieldsOf(await browser.get('/admin/note/-/add/'));
    await service.sql`update vitrine_session set seen = seen - interval '13 hours'`;
    const login = await browser.post('/admin/note/-/add/', { ...form, message: 'kept text' });
    assert.equal(login.status, 401);
    const credentials = { username: name, password: `pw-${name}` };
    const page = await browser.post(LOGIN, { ...fieldsOf(login), ...credentials }, fromNewAddress());
    assert.equal(page.status, 200);
    assert.equal(hasSession(browser) && page.text.includes('Add to'), false);
    const shown = await sendCode(browser, page, await freshCode(service));
    assert.match(shown.text, /kept text/);
    assert.match(shown.text, /earlier session/);
  });

  const breaks: [what: string, alter: (page: Record<string, string>, name: string) => unknown][] = [
    ['without the password', (page) => void (page['_login'] = '')],
    ['with another text', (page) => void (page['_login'] = 'e30.e30')],
    ['with a changed state', (page) => void (page['_login'] = `e${page['_login']}`)],
    ['in another browser', async (page) => {
      const other = openBrowser(service);
      page['_csrf'] = fieldsOf(await other.get(LOGIN))['_csrf'] ?? '';
      page['cookie'] = [...other.cookies].map(([key, value]) => `${key}=${value}`).join('; ');
    }],
    ['after a new password', (_page, name) => service.sql`update "user" set password = password || 'x' where username = ${name}`],
    ['of a user who was deactivated', (_page, name) => service.sql`update "user" set active = false where username = ${name}`],
    ['of a user who is no admin', (_page, name) => service.sql`update "user" set admin = false where username = ${name}`],
  ]; // prettier-ignore
  for (const [what, alter] of breaks)
    test(`is refused ${what}, even with the right code`, async () => {
      const { name, id } = await addGuarded();
      const browser = openBrowser(service);
      const { ...fields } = fieldsOf(await sendPassword(browser, name));
      await alter(fields, name);
      const { cookie, ...sent } = fields;
      const headers = { ...fromNewAddress(), ...(cookie !== undefined && { cookie }) };
      const answer = await browser.post(LOGIN, { ...sent, _code: await freshCode(service) }, headers);
      assert.equal(answer.status, 401, answer.text);
      assert.equal(answer.headers.getSetCookie().some((one) => one.startsWith(SESSION)), false); // prettier-ignore
      assert.equal(Number((await factorOf(id))?.['last_step']), 0);
    });

  test('is refused five minutes after the password', async (context) => {
    const { name } = await addGuarded();
    const browser = openBrowser(service);
    const page = await sendPassword(browser, name);
    context.mock.timers.enable({ apis: ['Date'], now: Date.now() + 5 * 60_000 + 1 });
    const late = await sendCode(browser, page, await freshCode(service));
    assert.equal(late.status, 401);
    assert.match(readable(late), /took too long/);
  });

  test('is not possible with the password alone, in no order of the two steps', async () => {
    const { name, id } = await addAdmin();
    const browser = openBrowser(service);
    await browser.get(LOGIN);
    // The second factor is set up while the password is checked.
    const [answer] = await Promise.all([sendPassword(browser, name), addFactor(service, id)]);
    assert.ok([200, 303].includes(answer.status));
    if (answer.status === 200) assert.equal(hasSession(browser), false);
  });
});

describe('the API', () => {
  test('refuses the password at once on every process, and takes tokens', async () => {
    const { name, id } = await addAdmin();
    const other = await startBeside(service.url, resources);
    try {
      const body = { label: 'script' };
      const made = await service.request('/api/-/tokens/', { method: 'POST', body, user: name });
      assert.equal(made.status, 201, made.text);
      for (const one of [service, other]) {
        assert.equal((await writes(name, {}, one)).status, 201);
        assert.equal((await one.request('/api/-/me/', { user: name })).status, 200);
      }
      await addFactor(service, id);
      for (const one of [service, other]) {
        assertUnauthorized(await writes(name, {}, one));
        assertUnauthorized(await one.request('/api/-/me/', { user: name }));
        assertUnauthorized(await writes(name, {}, one));
      }
      // A login to the admin area does not make the password enough.
      await logInWith(name);
      assertUnauthorized(await writes(name, fromNewAddress()));
      assert.equal((await writes(name, { authorization: `Bearer ${made.json.token}` })).status, 201);
      await service.sql`delete from vitrine_second_factor where user_key = ${String(id)}`;
      for (const one of [service, other]) assert.equal((await writes(name, {}, one)).status, 201);
    } finally {
      await other.close();
    }
  });

  test('counts the right password like a wrong one', async () => {
    const { name } = await addGuarded();
    const from = fromNewAddress();
    for (let tries = 0; tries < 10; tries += 1) assertUnauthorized(await writes(name, from));
    assert.equal((await writes(name, from)).status, 429);
  });
});

describe('a code is asked for again after 15 minutes', () => {
  test('before changes to users, and holds for further ones', async () => {
    const { name } = await addGuarded();
    const browser = await logInWith(name);
    const user = await service.addUser(`${name}-member`);
    const path = `/admin/user/${user}/`;
    const change = (email: string, fields: Fields = {}) => save(browser, path, { email, ...fields });
    assert.equal((await change('1@example.org')).status, 303);
    await outdateCodes(service);
    const asked = await change('2@example.org');
    assert.equal(asked.status, 400);
    assert.match(errorsIn(asked)['_code'] ?? '', /required/);
    assert.match((await change('2@example.org', { _code: '000000' })).text, /is wrong/);
    assert.equal((await change('2@example.org', { _code: await freshCode(service) })).status, 303);
    assert.equal((await change('3@example.org')).status, 303);
    assert.doesNotMatch((await browser.get(path)).text, /name="_code"/);
    // Only in this session.
    const elsewhere = await logInWith(name);
    assert.equal((await change('4@example.org')).status, 400);
    assert.equal((await save(elsewhere, path, { email: '5@example.org' })).status, 303);
  });

  const guarded: [what: string, run: (browser: Browser, id: number, code: Fields) => Promise<AdminAnswer>][] = [
    ['a new user', (browser, id, code) => save(browser, '/admin/user/-/add/', { username: `new${id}`, email: 'x', _password: 'a long password', _repeat: 'a long password', ...code })],
    ['the password of a user', async (browser, id, code) => browser.post(`/admin/user/${id}/password/`, { _password: 'a long password', _repeat: 'a long password', ...code })],
    ['the deletion of a user', async (browser, id, code) => browser.post(`/admin/user/${id}/delete/`, { ...hiddenFields(await browser.get(`/admin/user/${id}/delete/`), 'confirm'), ...code })],
    ['the deletion of a record with its users', async (browser, id, code) => {
      const [row] = await service.sql`with made as (insert into team (name) values ('x') returning id) update "user" set team_id = made.id from made where "user".id = ${id} returning made.id`;
      const path = `/admin/team/${row?.['id']}/delete/`;
      return browser.post(path, { ...hiddenFields(await browser.get(path), 'confirm'), ...code });
    }],
    ['the deletion of several records', async (browser, _id, code) => {
      const [row] = await service.sql`insert into note (message) values ('to delete') returning id`;
      return confirmBulk(browser, 'note', { _action: 'delete', _id: String(row?.['id']) }, code);
    }],
    ['a column of several users', (browser, id, code) => confirmBulk(browser, 'user', { _action: 'set', _id: String(id), _column: 'email', email: 'y' }, code)],
    ['an action on users', async (browser, id, code) => confirmBulk(browser, 'user', { _action: 'do.greet', _id: String(id) }, { _current: `pw-admin${count}`, ...code })],
    ['an import of users', async (browser, id, code) => confirmImport(browser, '/admin/user/-/import/', await uploadFile(browser, '/admin/user/-/import/', `id,email\n${id},z\n`), code)],
  ]; // prettier-ignore
  for (const [what, run] of guarded)
    test(`before ${what}`, async () => {
      const { name } = await addGuarded();
      const browser = await logInWith(name);
      await outdateCodes(service);
      const user = await service.addUser(`${name}-other`);
      const asked = await run(browser, user, {});
      assert.equal(asked.status, 400, asked.text);
      assert.match(errorsIn(asked)['_code'] ?? '', /required/);
      const done = await run(browser, user, { _code: await freshCode(service) });
      assert.equal(done.status, 303, done.text);
    });

  test('before the own password, which leaves the second factor in place', async () => {
    const { name, id } = await addGuarded();
    const browser = await logInWith(name);
    await outdateCodes(service);
    const fields = { _current: `pw-${name}`, _password: 'another password', _repeat: 'another password' };
    const asked = await browser.post('/admin/-/account/', fields);
    assert.match(errorsIn(asked)['_code'] ?? '', /required/);
    const done = await browser.post('/admin/-/account/', { ...fields, _code: await freshCode(service) });
    assert.equal(done.status, 303);
    assert.equal((await browser.get('/admin/')).status, 200);
    assert.ok(await factorOf(id));
    const root = await logIn(service, 'root');
    const set = { _current: 'pw-root', _password: `pw-${name}`, _repeat: `pw-${name}` };
    assert.equal((await root.post(`/admin/user/${id}/password/`, set)).status, 400); // too short here
    assert.ok(await factorOf(id));
  });

  test('before an export of more than 10,000 records, and not of fewer', async () => {
    const { name } = await addGuarded();
    const browser = await logInWith(name);
    await service.sql`insert into note (message) select 'many' from generate_series(1, 10001)`;
    await outdateCodes(service);
    assert.equal((await browser.get('/admin/note/-/export.csv?message__ne=many')).status, 200);
    const asked = await browser.get('/admin/note/-/export.csv?message=many&_search=an');
    assert.equal(asked.status, 303);
    const page = await browser.follow(asked);
    assert.equal(page.status, 200);
    const wrong = await browser.post('/admin/-/confirm/', { ...fieldsOf(page), _code: '000000' });
    assert.equal(wrong.status, 400);
    const bulk = await browser.post('/admin/note/-/bulk/', { _action: 'export.csv', _state: 'message=many', _all: '1' }); // prettier-ignore
    assert.match(bulk.location ?? '', /^\/admin\/-\/confirm\/\?next=/);
    const done = await browser.post('/admin/-/confirm/', {
      ...fieldsOf(wrong),
      _code: await freshCode(service),
    });
    assert.deepEqual([done.status, done.location], [303, '/admin/note/?message=many&_search=an']);
    const file = await browser.get('/admin/note/-/export.csv?message=many');
    assert.equal(file.text.split('\n').length, 10_003);
    await service.sql`delete from note where message = 'many'`;
  });

  test('not of those who have no second factor', async () => {
    const { name } = await addAdmin();
    const browser = await logIn(service, name);
    const user = await service.addUser(`${name}-member`);
    assert.equal((await save(browser, `/admin/user/${user}/`, { email: 'free@example.org' })).status, 303);
    const page = await browser.get('/admin/-/confirm/?next=//evil.example/');
    assert.equal((await browser.post('/admin/-/confirm/', fieldsOf(page))).location, '/admin/');
  });
});

describe('an admin', () => {
  test('removes the second factor of a user with the password', async () => {
    const { name, id } = await addGuarded();
    const root = await logIn(service, 'root');
    const record = await root.get(`/admin/user/${id}/`);
    const path = `/admin/user/${id}/second-factor/`;
    assert.ok(record.text.includes(`href="${path}"`));
    const page = await root.get(path);
    assert.match(readable(page), /Remove the second factor of/);
    assert.equal((await root.post(path, { ...fieldsOf(page), _current: 'wrong' })).status, 400);
    assert.ok(await factorOf(id));
    assert.equal((await root.post(path, { ...fieldsOf(page), _current: 'pw-root' })).status, 303);
    assert.equal(await factorOf(id), undefined);
    await logIn(service, name);
    assert.equal((await root.get(path)).status, 404);
    assert.ok(!(await root.get(`/admin/user/${id}/`)).text.includes(path));
    assert.equal((await root.get('/admin/note/1/second-factor/')).status, 404);
  });
});

test('set-up, codes, recovery codes and removal are events', async () => {
  const { name, id } = await addAdmin();
  const browser = await logIn(service, name);
  const page = await browser.get(OWN);
  const codes = codesOn(
    await browser.post(OWN, { ...fieldsOf(page), _current: `pw-${name}`, _code: codeAt(secretOn(page)) }),
  );
  const next = openBrowser(service);
  await sendCode(next, await sendPassword(next, name), '000000');
  await sendCode(next, await sendPassword(next, name), codes[0] ?? '');
  const root = await logIn(service, 'root');
  const path = `/admin/user/${id}/second-factor/`;
  await root.post(path, { ...fieldsOf(await root.get(path)), _current: 'pw-root' });
  const expected = [
    ['login', name, '{"door":"admin"}'],
    ['login', name, '{"door":"admin","secondFactor":true}'],
    ['login.failed', name, '{"secondFactor":true}'],
    ['second-factor.reset', 'root', `{"of":"${name}"}`],
    ['second-factor.set', name, null],
    ['second-factor.used-recovery', name, null],
  ];
  await eventually(async () => {
    const rows = await service.sql`select event, user_name, detail from vitrine_event
      where user_name = ${name} or detail like ${`%"${name}"%`} order by event, id`;
    return JSON.stringify(rows.map((row) => Object.values(row))) === JSON.stringify(expected);
  }, 'the events');
});

describe('with MFA=required', () => {
  const strict = useService(resources, { mfa: 'required', trustProxy: 1 });

  test('a login sets the second factor up before anything else is reachable', async () => {
    const { name } = await addAdmin(strict);
    const browser = openBrowser(strict);
    const page = await sendPassword(browser, name, { next: '/admin/note/' });
    assert.equal(page.status, 200);
    const secret = secretOn(page);
    assert.match(readable(page), /You need a second factor/);
    for (const path of ['/admin/', '/admin/note/', OWN, '/admin/-/account/'])
      assert.match((await browser.get(path)).location ?? '', /login/);
    const wrong = await sendCode(browser, page, '000000');
    assert.equal(wrong.status, 401);
    assert.equal(secretOn(wrong), secret);
    assert.equal(hasSession(browser), false);
    const done = await sendCode(browser, wrong, codeAt(secret));
    assert.equal(done.status, 200);
    assert.equal(codesOn(done).length, 10);
    assert.equal(hasSession(browser), true);
    const next = await browser.post(LOGIN, fieldsOf(done), { 'sec-fetch-site': 'same-origin' });
    assert.equal(next.location, '/admin/note/');
    assert.equal((await browser.follow(next)).status, 200);
    // The code of the set-up counts as one given in the session.
    assert.doesNotMatch((await browser.get('/admin/user/1/')).text, /name="_code"/);

    const again = openBrowser(strict);
    const asked = await sendPassword(again, name);
    assert.equal(secretOn(asked), '');
    assert.equal((await sendCode(again, asked, codesOn(done)[0] ?? '')).status, 303);
  });

  test('the API takes passwords of users without one', async () => {
    const { name } = await addAdmin(strict);
    assert.equal((await writes(name, {}, strict)).status, 201);
  });
});

test('without the table, users have no second factor, the start warns, and MFA=required stops it', async () => {
  const plain = await startService(resources);
  const setup = { databaseUrl: plain.url, resources, port: 0, schema: 'check' } as const;
  try {
    const { name } = await addAdmin(plain);
    await plain.sql`drop table vitrine_second_factor`;
    const lines: string[] = [];
    const other = createVitrine({ ...setup, log: (text) => void lines.push(text) });
    const vitrine = await other;
    const { url: base } = await vitrine.start();
    try {
      const warning = /Without vitrine_second_factor, users cannot have a second factor/;
      await eventually(() => warning.test(lines.join('')), 'the warning');
      const browser = await logIn({ base }, name);
      assert.equal((await browser.get(OWN)).status, 404);
      assert.doesNotMatch(readable(await browser.get('/admin/-/account/')), /Second factor/);
    } finally {
      await vitrine.close();
    }
    const strict = createVitrine({ ...setup, mfa: 'required', log: () => undefined });
    await assert.rejects(strict, /MFA=required needs the table vitrine_second_factor/);
  } finally {
    await plain.close();
  }
});
