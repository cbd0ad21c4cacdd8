// Logins of the admin area: the cookie, how long it is good for, who gets one, and what is told to who does not.
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { after, before, describe, mock, test } from 'node:test';
import { createVitrine } from '../../src/index.ts';
import { cheapHash, startService, type TestService } from '../support.ts';
import { fromNewAddress } from '../http/expect.ts';
import { attemptLogin, logIn, openBrowser, type AdminAnswer, type Attempt, type Browser } from './support.ts';
import { resources } from './things.ts';

const LOGIN = '/admin/-/login/';
const SESSION = 'admin-session';

let service: TestService;
before(async () => {
  service = await startService(resources, { trustProxy: 1 });
  await service.addUser('ada', { admin: true });
});
after(() => service.close());

const attempt = (...login: Attempt): Promise<AdminAnswer> => attemptLogin(service, ...login);

const cookieLine = ({ headers }: AdminAnswer, name: string): string =>
  headers.getSetCookie().find((line) => line.startsWith(`${name}=`)) ?? '';
const isIn = async (browser: Browser): Promise<boolean> => (await browser.get('/admin/')).status === 200;
/** The clock of the last such login. */
const clock = new Date();

/** Logs in more than a minute after the last time, when a login ends all invalid sessions. */
async function logInLater(name: string): Promise<Browser> {
  clock.setTime(clock.getTime() + 120_000);
  mock.timers.enable({ apis: ['Date'], now: clock });
  try {
    return await logIn(service, name);
  } finally {
    mock.timers.reset();
  }
}

const digest = (text = ''): string => createHash('sha256').update(text).digest('hex');

describe('the cookie of a session', () => {
  test('is out of reach for scripts and other sites, and goes to the admin area alone', async () => {
    const answer = await attempt('ada', 'pw-ada');
    assert.equal(answer.status, 303);
    assert.match(
      cookieLine(answer, SESSION),
      /^admin-session=[\w-]{43}; Path=\/admin\/; HttpOnly; SameSite=Lax; Max-Age=1209600$/,
    );
    assert.match(cookieLine(answer, 'admin-login'), /Max-Age=0/);
  });

  for (const [what, headers] of [
    ['a trusted proxy says so', { 'x-forwarded-proto': 'https' }],
    ['a trusted proxy says so in capitals', { 'x-forwarded-proto': 'HTTPS' }],
    ['the origin of the form says so', {}],
  ] as const) {
    test(`goes over TLS alone where ${what}, until the logout`, async () => {
      const proxy: Record<string, string> = 'x-forwarded-proto' in headers ? headers : {};
      const seen = { ...fromNewAddress(), ...proxy }; // browsers send no origin with a GET
      const own = { ...seen, origin: service.base.replace('http:', 'https:') };
      const browser = openBrowser(service);
      await browser.get(LOGIN, seen);
      const answer = await browser.post(LOGIN, { username: 'ada', password: 'pw-ada' }, own);
      assert.match(
        cookieLine(answer, `__Secure-${SESSION}`),
        /; Path=\/admin\/; HttpOnly; SameSite=Lax; Secure; Max-Age=/,
      );
      assert.equal(browser.cookies.has(SESSION), false);
      await browser.get('/admin/-/account/', seen);
      // The message of the next page comes once, though its GET tells nothing of TLS by itself.
      await browser.post('/admin/-/sessions/', {}, own);
      assert.match((await browser.get('/admin/-/account/', seen)).text, /class="flash done"/);
      assert.doesNotMatch((await browser.get('/admin/-/account/', seen)).text, /class="flash/);
      await browser.post('/admin/-/logout/', {}, own);
      assert.equal(browser.cookies.has(`__Secure-${SESSION}`), false);
    });
  }

  test('counts over TLS only where TLS has set it', async () => {
    const browser = await logIn(service, 'ada');
    const planted = { 'x-forwarded-proto': 'https', ...fromNewAddress() };
    assert.equal((await browser.get('/admin/', planted)).status, 303);
  });

  test('is a new one at each login, and the one before is over', async () => {
    const browser = openBrowser(service);
    await attempt('ada', 'pw-ada', browser);
    const first = browser.cookies.get(SESSION) ?? '';
    await attempt('ada', 'pw-ada', browser);
    assert.notEqual(browser.cookies.get(SESSION), first);
    assert.equal(await isIn(browser), true);
    browser.cookies.set(SESSION, first);
    assert.equal(await isIn(browser), false);
  });

  test('that somebody else has chosen does not become a session', async () => {
    const browser = openBrowser(service);
    browser.cookies.set(SESSION, 'chosen-by-somebody-else');
    await attempt('ada', 'pw-ada', browser);
    assert.notEqual(browser.cookies.get(SESSION), 'chosen-by-somebody-else');
  });

  test('is known to the database by its SHA-256 alone', async () => {
    const browser = await logIn(service, 'ada');
    const token = browser.cookies.get(SESSION);
    const rows = await service.sql`select s::text as all from vitrine_session s`;
    assert.ok(rows.some(({ all }) => String(all).includes(digest(token))));
    assert.ok(rows.every(({ all }) => !String(all).includes(token ?? '')));
    browser.cookies.set(SESSION, digest(token));
    assert.equal(await isIn(browser), false);
  });

  test('opens nothing in the API', async () => {
    const { cookies } = await logIn(service, 'ada');
    const headers = { cookie: `${SESSION}=${cookies.get(SESSION)}` };
    const answer = await service.request('/api/note/', { method: 'POST', headers, body: { message: 'x' } });
    assert.equal(answer.status, 401);
  });
});

describe('a session ends', () => {
  const move = (browser: Browser, column: string, ago: string): Promise<unknown> =>
    service.sql`update vitrine_session set ${service.sql(column)} = now() at time zone 'UTC' - ${ago}::interval
      where token_hash = ${digest(browser.cookies.get(SESSION))}`;

  for (const [column, ago, lives] of [
    ['seen', '11 hours 59 minutes', true],
    ['seen', '12 hours 1 minute', false],
    ['created', '13 days 23 hours', true],
    ['created', '14 days 1 minute', false],
  ] as const) {
    test(`${lives ? 'not yet' : 'by itself'} when ${column} is ${ago} ago`, async () => {
      const browser = await logIn(service, 'ada');
      await move(browser, column, ago);
      assert.equal(await isIn(browser), lives);
    });
  }

  test('later when it is in use: a request renews it', async () => {
    const browser = await logIn(service, 'ada');
    await move(browser, 'seen', '11 hours');
    await browser.get('/admin/');
    const [row] = await service.sql`select seen > now() at time zone 'UTC' - interval '1 minute' as fresh
      from vitrine_session where token_hash = ${digest(browser.cookies.get(SESSION))}`;
    assert.equal(row?.['fresh'], true);
  });

  describe('while another transaction has locked its row', () => {
    const locked = async (work: () => Promise<void>): Promise<void> => {
      await service.sql.begin(async (sql) => {
        await sql`select from vitrine_session for update`;
        await work();
      });
    };

    test('at the logout, which does not wait, nor does any other request', async () => {
      const [browser, other] = [await logIn(service, 'ada'), await logIn(service, 'ada')];
      const token = browser.cookies.get(SESSION) ?? '';
      await move(other, 'seen', '1 hour');
      await locked(async () => {
        const reads = Array.from({ length: 8 }, () => isIn(other));
        assert.equal((await browser.post('/admin/-/logout/')).status, 303);
        assert.deepEqual(new Set(await Promise.all(reads)), new Set([true]));
        browser.cookies.set(SESSION, token);
        assert.equal(await isIn(browser), false);
        await logIn(service, 'ada');
      });
      assert.equal(await isIn(browser), false);
      assert.equal(await isIn(other), true);
      const rows = await service.sql`select from vitrine_session where token_hash = ${digest(token)}`;
      assert.equal(rows.length, 0);
    });

    test('when its user ends all other logins', async () => {
      const [browser, other] = [await logIn(service, 'ada'), await logIn(service, 'ada')];
      await locked(async () => {
        assert.equal((await browser.post('/admin/-/sessions/')).status, 303);
        assert.equal(await isIn(other), false);
      });
      assert.equal(await isIn(other), false);
      assert.equal(await isIn(browser), true);
    });
  });

  test('with all other invalid ones at a login, at most once a minute', async () => {
    const idle = await logIn(service, 'ada');
    const hash = digest(idle.cookies.get(SESSION));
    await logInLater('ada');
    await move(idle, 'seen', '13 hours');
    const left = async (): Promise<number> =>
      (await service.sql`select from vitrine_session where token_hash = ${hash}`).length;
    await logIn(service, 'ada');
    assert.equal(await left(), 1);
    await logInLater('ada');
    assert.equal(await left(), 0);
  });

  test('and the mark that it leaves is removed some days later', async () => {
    const browser = await logIn(service, 'ada');
    await browser.post('/admin/-/logout/');
    const marks = async (): Promise<number> =>
      (await service.sql`select from vitrine_session where password_mark = ''`).length;
    assert.ok((await marks()) > 0);
    await service.sql`update vitrine_session set seen = seen - interval '4 days' where password_mark = ''`;
    await logInLater('ada');
    assert.equal(await marks(), 0);
  });

  test('at the logout, on the server too, which takes a POST', async () => {
    const browser = await logIn(service, 'ada');
    const token = browser.cookies.get(SESSION) ?? '';
    assert.equal((await browser.get('/admin/-/logout/')).status, 405);
    assert.equal(await isIn(browser), true);
    await browser.get('/admin/-/account/');
    const answer = await browser.post('/admin/-/logout/');
    assert.equal(answer.location, `${LOGIN}?_because=out`);
    assert.equal(browser.cookies.has(SESSION), false);
    browser.cookies.set(SESSION, token);
    assert.equal(await isIn(browser), false);
  });

  for (const [what, end] of [
    [
      'the password changes',
      async (name: string) =>
        service.sql`update "user" set password = ${await cheapHash('other')} where username = ${name}`,
    ],
    [
      'the user is no longer active',
      (name: string) => service.sql`update "user" set active = false where username = ${name}`,
    ],
    [
      'the user is no longer an admin',
      (name: string) => service.sql`update "user" set admin = false where username = ${name}`,
    ],
    ['the user is deleted', (name: string) => service.sql`delete from "user" where username = ${name}`],
  ] as const) {
    // prettier-ignore
    test(`at once when ${what}`, async () => {
      const name = `until ${what}`;
      await service.addUser(name, { admin: true });
      const browser = await logIn(service, name);
      assert.equal(await isIn(browser), true);
      await end(name);
      assert.equal(await isIn(browser), false);
    });
  }

  test('for good: what the user gets back brings no session back', async () => {
    await service.addUser('locked', { admin: true });
    const [used, unused] = [await logIn(service, 'locked'), await logIn(service, 'locked')];
    for (const column of ['active', 'admin']) {
      await service.sql`update "user" set ${service.sql(column)} = false where username = 'locked'`;
      assert.equal(await isIn(used), false);
      // The service ends invalid sessions once a minute, unused ones too.
      await logInLater('ada');
      await service.sql`update "user" set ${service.sql(column)} = true where username = 'locked'`;
      assert.deepEqual([await isIn(used), await isIn(unused)], [false, false]);
    }
    assert.equal(await isIn(await logIn(service, 'locked')), true);
  });

  test('for every process that shares the database', async () => {
    const other = await createVitrine({ databaseUrl: service.url, resources, port: 0, log: () => undefined });
    try {
      const there = openBrowser({ base: (await other.start()).url });
      const here = await logIn(service, 'ada');
      there.cookies.set(SESSION, here.cookies.get(SESSION) ?? '');
      assert.equal(await isIn(there), true);
      await there.get('/admin/-/account/');
      await there.post('/admin/-/logout/');
      assert.equal(await isIn(here), false);
    } finally {
      await other.close();
    }
  });
});

describe('of the sessions of a user', () => {
  const isMark = (): ReturnType<TestService['sql']> => service.sql`token_hash like 'ended %'`;

  /** How many rows a user has: sessions and marks of ended ones. */
  async function rowsOf(id: number): Promise<{ sessions: number; marks: number }> {
    const [row] = await service.sql`select count(*) filter (where not ${isMark()})::int as sessions,
      count(*) filter (where ${isMark()})::int as marks from vitrine_session where user_key = ${String(id)}`;
    return { sessions: Number(row?.['sessions']), marks: Number(row?.['marks']) };
  }

  /** Adds sessions with the tokens `name 1`, `name 2` and so on, each last used a minute before the one before. */
  const addSessions = (name: string, id: number, count: number): Promise<unknown> =>
    service.sql`insert into vitrine_session (token_hash, user_key, password_mark, seen, address, agent)
      select encode(sha256(convert_to(${name} || ' ' || n, 'UTF8')), 'hex'), ${String(id)},
        (select encode(sha256(convert_to(password, 'UTF8')), 'hex') from "user" where id = ${id}),
        now() at time zone 'UTC' - n * interval '1 minute', '', ''
      from generate_series(1, ${count}::int) n`;

  async function isOpen(token: string): Promise<boolean> {
    const browser = openBrowser(service);
    browser.cookies.set(SESSION, token);
    return isIn(browser);
  }

  test('a login beyond 50 ends the least recently used ones', async () => {
    const id = await service.addUser('many', { admin: true });
    await addSessions('many', id, 60);
    const browser = await logIn(service, 'many');
    assert.deepEqual(await rowsOf(id), { sessions: 50, marks: 11 });
    for (const [token, lives] of [
      ['many 1', true],
      ['many 49', true],
      ['many 50', false],
      ['many 60', false],
    ] as const)
      assert.equal(await isOpen(token), lives, token);
    assert.equal(await isIn(browser), true);
  });

  test('50 are left by parallel logins', async () => {
    const id = await service.addUser('hasty', { admin: true });
    await addSessions('hasty', id, 45);
    await logIn(service, 'hasty');
    await Promise.all(Array.from({ length: 20 }, () => logIn(service, 'hasty')));
    assert.deepEqual(await rowsOf(id), { sessions: 50, marks: 16 });
  });

  test('the account page lists 50, and the current one first', async () => {
    const id = await service.addUser('lister', { admin: true });
    const browser = await logIn(service, 'lister');
    await service.sql`update vitrine_session set seen = seen - interval '4 minutes' where user_key = ${String(id)}`;
    await addSessions('lister', id, 300);
    const { text } = await browser.get('/admin/-/account/');
    const rows = text.match(/<th scope="row" data-label="Browser">[^]*?<\/th>/g) ?? [];
    assert.equal(rows.length, 50);
    assert.match(rows[0] ?? '', /this session/);
  });

  test('200 marks of ended ones are kept, and those whose sessions are still there', async () => {
    const id = await service.addUser('marked', { admin: true });
    const locked = await logIn(service, 'marked');
    const token = locked.cookies.get(SESSION) ?? '';
    await service.sql`insert into vitrine_session (token_hash, user_key, password_mark, seen, address, agent)
      select 'ended ' || n, ${String(id)}, '', now() at time zone 'UTC' - n * interval '1 minute', '', ''
      from generate_series(1, 300) n`;
    await service.sql.begin(async (sql) => {
      await sql`select from vitrine_session where token_hash = ${digest(token)} for update`;
      await locked.post('/admin/-/logout/');
      await service.sql`update vitrine_session set seen = seen - interval '2 days'
        where token_hash = ${`ended ${digest(token)}`}`;
      await logIn(service, 'marked');
      assert.deepEqual(await rowsOf(id), { sessions: 2, marks: 201 });
      const kept =
        await service.sql`select from vitrine_session where token_hash in ('ended 1', 'ended 200')`;
      assert.equal(kept.length, 2);
      assert.equal(await isOpen(token), false);
    });
    assert.equal(await isOpen(token), false);
  });
});

test('the log tells who it was, and no values', async () => {
  const browser = await logIn(service, 'ada');
  await new Promise((resolve) => setTimeout(resolve, 300)); // for the lines of what was before
  const from = service.lines.length;
  await browser.get('/admin/thing/?name=secret-value&_search=secret-word');
  await browser.get('/admin/-/account/');
  await browser.post('/admin/-/logout/');
  let lines: Record<string, unknown>[] = [];
  for (let tries = 0; lines.length < 3 && tries < 100; tries += 1) {
    await new Promise((resolve) => setTimeout(resolve, 20)); // lines are written some at a time
    lines = service.lines.slice(from).filter(({ path }) => path !== LOGIN);
  }
  assert.deepEqual(
    lines.map(({ path, user }) => [path, user]),
    [
      ['/admin/thing/?name&_search', 'ada'],
      ['/admin/-/account/', 'ada'],
      ['/admin/-/logout/', 'ada'],
    ],
  );
  assert.doesNotMatch(JSON.stringify(service.lines), /secret-|admin-session|pw-ada/);
});
