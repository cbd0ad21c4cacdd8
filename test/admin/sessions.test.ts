// Sessions of the admin area: their cookies, their end, and their number.
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { createVitrine } from '../../src/index.ts';
import { startService, useService, type TestService } from '../support.ts';
import { eventually, fromNewAddress } from '../http/expect.ts';
import { attemptLogin, logIn, openBrowser, type AdminAnswer, type Attempt, type Browser } from './support.ts';
import { resources } from './sample-resources.ts';
import { describe, mock, test } from 'node:test';

const LOGIN = '/admin/-/login/';
const SESSION = 'admin-session';

const service = useService(
  resources,
  {
    trustProxy: 1,
    // Such a type must not take the place of the function.
    prepare: (sql) => sql`create domain length as integer`,
  },
  async () => {
    for (const name of ['ada', 'eve']) await service.addUser(name, { admin: true });
  },
);

const attempt = (...login: Attempt): Promise<AdminAnswer> => attemptLogin(service, ...login);

const cookieLine = ({ headers }: AdminAnswer, name: string): string =>
  headers.getSetCookie().find((line) => line.startsWith(`${name}=`)) ?? '';
const isIn = async (browser: Browser): Promise<boolean> => (await browser.get('/admin/')).status === 200;
/** The time of the last login by `logInLater`. */
const clock = new Date();

/** Logs in two minutes after the last call. At most once a minute a login removes invalid sessions. */
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
  test('is HttpOnly, SameSite=Lax and limited to the admin area', async () => {
    const answer = await attempt('ada', 'pw-ada');
    assert.equal(answer.status, 303);
    assert.match(
      cookieLine(answer, SESSION),
      /^admin-session=[\w-]{43}; Path=\/admin\/; HttpOnly; SameSite=Lax; Max-Age=1209600$/,
    );
    assert.match(cookieLine(answer, 'admin-login'), /Max-Age=0/);
  });

  for (const [sign, headers] of [
    ['X-Forwarded-Proto of a trusted proxy is https', { 'x-forwarded-proto': 'https' }],
    ['X-Forwarded-Proto of a trusted proxy is HTTPS', { 'x-forwarded-proto': 'HTTPS' }],
    ['the origin of the form is https', {}],
  ] as const) {
    test(`is Secure until the logout when ${sign}`, async () => {
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
      // The message is shown once, although a GET has no header that shows TLS.
      await browser.post('/admin/-/account/', { _sessions: 'end' }, own);
      assert.match((await browser.get('/admin/-/account/', seen)).text, /class="flash done"/);
      assert.doesNotMatch((await browser.get('/admin/-/account/', seen)).text, /class="flash/);
      await browser.post('/admin/-/logout/', {}, own);
      assert.equal(browser.cookies.has(`__Secure-${SESSION}`), false);
    });
  }

  test('is ignored over TLS when it was set without TLS', async () => {
    const browser = await logIn(service, 'ada');
    const planted = { 'x-forwarded-proto': 'https', ...fromNewAddress() };
    assert.equal((await browser.get('/admin/', planted)).status, 303);
  });

  test('changes at each login, which ends the previous session', async () => {
    const browser = openBrowser(service);
    await attempt('ada', 'pw-ada', browser);
    const first = browser.cookies.get(SESSION) ?? '';
    await attempt('ada', 'pw-ada', browser);
    assert.notEqual(browser.cookies.get(SESSION), first);
    assert.equal(await isIn(browser), true);
    for (const earlier of [first, 'chosen-by-an-attacker']) {
      browser.cookies.set(SESSION, earlier);
      assert.equal(await isIn(browser), false);
      await attempt('ada', 'pw-ada', browser);
      assert.notEqual(browser.cookies.get(SESSION), earlier);
    }
  });

  for (const [prefix, headers] of [
    ['', {}],
    ['__Secure-', { 'x-forwarded-proto': 'https', 'x-forwarded-for': '203.0.113.5' }],
  ] as const)
    test(`a request with two different cookies ${prefix}admin-session has no session`, async () => {
      const [own, other] = [await logIn(service, 'ada'), await logIn(service, 'eve')].map(
        ({ cookies }) => cookies.get('admin-session') ?? '',
      );
      const name = `${prefix}admin-session`;
      const get = async (cookie: string): Promise<number> =>
        (await openBrowser(service).get('/admin/user/', { ...headers, cookie })).status;
      assert.equal(await get(`${name}=${own}`), 200);
      assert.equal(await get(`a=b; ${name}=${own}; ${name}=${own}`), 200);
      for (const cookie of [
        `${name}=${other}; ${name}=${own}`,
        `${name}=${own}; x=y; ${name}=${other}`,
        `${name}=; ${name}=${own}`,
        `${name}=${own}; ${name}=${own}; ${name}=none; admin-session=${own}`,
      ])
        assert.equal(await get(cookie), 303, cookie);
    });

  test('a login with two different cookies of the login form is refused', async () => {
    const browser = openBrowser(service);
    await browser.get('/admin/-/login/');
    const own = browser.cookies.get('admin-login') ?? '';
    const cookie = `admin-login=${own}; admin-login=planted`;
    const refused = await attemptLogin(service, 'ada', 'pw-ada', browser, { cookie });
    assert.equal(refused.status, 403);
    assert.equal((await attemptLogin(service, 'ada', 'pw-ada', openBrowser(service))).status, 303);
  });

  test('is stored as a SHA-256 only', async () => {
    const browser = await logIn(service, 'ada');
    const token = browser.cookies.get(SESSION);
    const rows = await service.sql`select s::text as all from vitrine_session s`;
    assert.ok(rows.some(({ all }) => String(all).includes(digest(token))));
    assert.ok(rows.every(({ all }) => !String(all).includes(token ?? '')));
    browser.cookies.set(SESSION, digest(token));
    assert.equal(await isIn(browser), false);
  });

  test('does not authenticate requests to the API', async () => {
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

  const isRenewed = async (browser: Browser): Promise<boolean> => {
    const rows = await service.sql`select from vitrine_session where
      seen > now() at time zone 'UTC' - interval '1 minute' and token_hash = ${digest(browser.cookies.get(SESSION))}`;
    return rows.count > 0;
  };

  for (const [column, ago, lives] of [
    ['seen', '11 hours 59 minutes', true],
    ['seen', '12 hours 1 minute', false],
    ['created', '13 days 23 hours', true],
    ['created', '14 days 1 minute', false],
  ] as const) {
    test(`${lives ? 'after' : 'before'} its time “${column}” is ${ago} ago`, async () => {
      const browser = await logIn(service, 'ada');
      await move(browser, column, ago);
      assert.equal(await isIn(browser), lives);
    });
  }

  test('later when it is used, because a request renews it', async () => {
    const browser = await logIn(service, 'ada');
    await move(browser, 'seen', '11 hours');
    await browser.get('/admin/');
    await eventually(() => isRenewed(browser), 'a time of the last use');
  });

  describe('while no write of sessions can be finished', () => {
    /** Locks the table as a commit that waits for a standby would hold up a write: reads go on. */
    const lockedOutOf = (
      work: (waiting: () => Promise<number>) => Promise<void>,
      { sql: admin } = service,
    ): Promise<unknown> =>
      admin.begin(async (sql) => {
        await sql`lock table vitrine_session in share mode`;
        await work(async () => {
          const waiting =
            await sql`select from pg_locks where relation = 'vitrine_session'::regclass and not granted`;
          return waiting.count;
        });
      });
    /** Whether a write waits, and the connection for the short reads of all clients does not wait with it. */
    const isWaitingApart = async (waiting: () => Promise<number>): Promise<boolean> => {
      const text = await service.metrics();
      return (await waiting()) > 0 && text.includes('_lane_running{lane="keys"} 0\n');
    };

    test('pages are served, and the time of the last use is written later', async () => {
      const browser = await logIn(service, 'ada');
      await move(browser, 'seen', '1 hour');
      await lockedOutOf(async (waiting) => {
        const views = await Promise.all(Array.from({ length: 5 }, () => isIn(browser)));
        assert.deepEqual(new Set(views), new Set([true]));
        await eventually(() => isWaitingApart(waiting), 'the wait of the write');
        assert.equal(await isIn(browser), true);
        assert.ok((await waiting()) <= 1, 'one write of the session at a time');
        const { text } = await browser.get('/admin/-/account/');
        const [, used = ''] = [...text.matchAll(/<time datetime="([^"]+)"/g)].map(([, time]) => time ?? '');
        assert.ok(Date.parse(used) > Date.now() - 1_800_000, used);
      });
      await eventually(async () => (await isIn(browser)) && isRenewed(browser), 'a time of the last use');
    });

    test('a service stops without an error', async () => {
      const here = await logIn(service, 'ada');
      await move(here, 'seen', '1 hour');
      const other = await createVitrine({
        databaseUrl: service.url,
        resources,
        port: 0,
        log: () => undefined,
      });
      const there = openBrowser({ base: (await other.start()).url });
      there.cookies.set(SESSION, here.cookies.get(SESSION) ?? '');
      await lockedOutOf(async (waiting) => {
        assert.equal(await isIn(there), true);
        await eventually(waiting, 'the wait of the write');
        await other.close();
      });
      assert.equal(await isIn(here), true);
    });

    test('an unknown token is refused at once, as it writes nothing', async () => {
      // Its own database, where no write of another session can wait.
      const own = await startService(resources);
      const browser = openBrowser(own);
      browser.cookies.set(SESSION, 'x'.repeat(43));
      const request = async (waiting: () => Promise<number>): Promise<void> => {
        const { status, location } = await browser.get('/admin/');
        assert.deepEqual([status, location?.startsWith('/admin/-/login/')], [303, true]);
        assert.equal(await waiting(), 0);
      };
      await lockedOutOf(request, own).finally(() => own.close());
    });

    test('a logout does not delay the short reads of others', async () => {
      const browser = await logIn(service, 'ada');
      const token = browser.cookies.get(SESSION) ?? '';
      let loggingOut: Promise<AdminAnswer> | undefined;
      await lockedOutOf(async (waiting) => {
        loggingOut = browser.post('/admin/-/logout/');
        await eventually(() => isWaitingApart(waiting), 'the wait of the write');
      });
      assert.equal((await loggingOut)?.status, 303);
      browser.cookies.set(SESSION, token);
      assert.equal(await isIn(browser), false);
    });
  });

  describe('while another transaction locks its row', () => {
    const locked = async (work: () => Promise<void>): Promise<void> => {
      await service.sql.begin(async (sql) => {
        await sql`select from vitrine_session for update`;
        await work();
      });
    };

    test('at the logout, without blocking that or any other request', async () => {
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

    test('when its user ends all other sessions', async () => {
      const [browser, other] = [await logIn(service, 'ada'), await logIn(service, 'ada')];
      await locked(async () => {
        assert.equal((await browser.post('/admin/-/account/', { _sessions: 'end' })).status, 303);
        assert.equal(await isIn(other), false);
      });
      assert.equal(await isIn(other), false);
      assert.equal(await isIn(browser), true);
    });
  });

  test('and is removed with all invalid sessions by a login, at most once a minute', async () => {
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

  test('and its mark is removed some days later', async () => {
    const browser = await logIn(service, 'ada');
    await browser.post('/admin/-/logout/');
    const marks = async (): Promise<number> =>
      (await service.sql`select from vitrine_session where password_mark = ''`).length;
    assert.ok((await marks()) > 0);
    await service.sql`update vitrine_session set seen = seen - interval '4 days' where password_mark = ''`;
    await logInLater('ada');
    assert.equal(await marks(), 0);
  });

  test('on the server at the logout, which must be a POST', async () => {
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

  for (const [event, end] of [
    [
      'the password changes',
      `update "user" set password = (select password from "user" where username = 'ada')`,
    ],
    ['the user is no longer active', 'update "user" set active = false'],
    ['the user is no longer an admin', 'update "user" set admin = false'],
    ['the user is deleted', 'delete from "user"'],
  ] as const)
    test(`at once when ${event}`, async () => {
      const name = `until ${event}`;
      await service.addUser(name, { admin: true });
      const browser = await logIn(service, name);
      assert.equal(await isIn(browser), true);
      await service.sql.unsafe(`${end} where username = $1`, [name]);
      assert.equal(await isIn(browser), false);
    });

  test('permanently, even when the user is active or an admin again', async () => {
    await service.addUser('locked', { admin: true });
    const [used, unused] = [await logIn(service, 'locked'), await logIn(service, 'locked')];
    for (const column of ['active', 'admin']) {
      await service.sql`update "user" set ${service.sql(column)} = false where username = 'locked'`;
      assert.equal(await isIn(used), false);
      // A login also ends invalid sessions that are not used.
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

test('the log has the user, but neither values nor tokens', async () => {
  await service.addUser('logged', { admin: true });
  const browser = await logIn(service, 'logged');
  await browser.get('/admin/thing/?name=secret-value&_search=secret-word');
  await browser.get('/admin/-/account/');
  await browser.post('/admin/-/logout/');
  const paths = (): unknown[] =>
    service.lines
      .filter(({ path, user }) => user === 'logged' && path !== undefined && path !== LOGIN)
      .map(({ path }) => path);
  await eventually(() => paths().length >= 4, 'the lines');
  const account = '/admin/-/account/'; // logIn asks for it, too
  assert.deepEqual(paths(), [account, '/admin/thing/?name&_search', account, '/admin/-/logout/']);
  assert.doesNotMatch(JSON.stringify(service.lines), /secret-|admin-session|pw-/);
});

describe('many sessions of a user', () => {
  const isMark = (): ReturnType<TestService['sql']> => service.sql`token_hash like 'ended %'`;

  /** The number of rows of a user: sessions, and marks of ended sessions. */
  async function rowsOf(id: number): Promise<{ sessions: number; marks: number }> {
    const [row] = await service.sql`select count(*) filter (where not ${isMark()})::int as sessions,
      count(*) filter (where ${isMark()})::int as marks from vitrine_session where user_key = ${String(id)}`;
    return { sessions: Number(row?.['sessions']), marks: Number(row?.['marks']) };
  }

  /** Adds sessions with the tokens `name 1`, `name 2` and so on. Each was last used a minute before the previous one. */
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

  test('50 remain after concurrent logins', async () => {
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

  test('are listed by their browsers and systems', async () => {
    const id = await service.addUser('traveller', { admin: true });
    const browser = await logIn(service, 'traveller');
    const mozilla = (system: string, rest: string): string => `Mozilla/5.0 (${system}) ${rest}`;
    const agents: Record<string, string> = {
      'Firefox on Windows': mozilla('Windows NT 10.0; Win64; x64; rv:130.0', 'Gecko/20100101 Firefox/130.0'),
      'Chrome on Linux': mozilla('X11; Linux x86_64', 'AppleWebKit/537.36 (KHTML, like Gecko) Chrome/129.0 Safari/537.36'),
      'Edge on Windows': mozilla('Windows NT 10.0', 'AppleWebKit/537.36 Chrome/129.0 Safari/537.36 Edg/129.0'),
      'Chrome on Android': mozilla('Linux; Android 14; Pixel 8', 'AppleWebKit/537.36 Chrome/129.0 Mobile Safari/537.36'),
      'Safari on iPhone': mozilla('iPhone; CPU iPhone OS 17_6 like Mac OS X', 'Version/17.6 Mobile/15E148 Safari/604.1'),
      'Safari on macOS': mozilla('Macintosh; Intel Mac OS X 10_15_7', 'Version/17.6 Safari/605.1.15'),
      'curl/8.5.0': 'curl/8.5.0',
      unknown: '',
    }; // prettier-ignore
    for (const agent of Object.values(agents))
      await service.sql`insert into vitrine_session (token_hash, user_key, password_mark, address, agent)
        select ${`agent ${agent}`}, user_key, password_mark, '', ${agent} from vitrine_session where user_key = ${String(id)} limit 1`;
    const { text } = await browser.get('/admin/-/account/');
    const shown = [...text.matchAll(/data-label="Browser"><span title="[^"]*">([^<]*)</g)].map(
      ([, name]) => name,
    );
    assert.deepEqual(new Set(shown), new Set([...Object.keys(agents), 'node']));
  });

  test('200 marks of ended sessions are kept, and those of sessions that are still stored', async () => {
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

  test('a login reads no table of users as a whole', async () => {
    const id = await service.addUser('busy', { admin: true });
    await service.sql`insert into "user" (username, password, email)
      select 'crowd' || n, 'none', '' from generate_series(1, 20000) n`;
    await service.sql`analyze "user"`;
    await addSessions('busy', id, 60);
    const readStatistics = async (): Promise<{ opened: number; scanned: number }> => {
      const [row] = await service.sql`
        select (select n_tup_ins from pg_stat_user_tables where relname = 'vitrine_session')::int as opened,
          (select seq_tup_read from pg_stat_user_tables where relname = 'user')::int as scanned`;
      return { opened: Number(row?.['opened']), scanned: Number(row?.['scanned']) };
    };
    // PostgreSQL reports what a connection has done about a second later, with its next statement.
    const settled = async (browser: Browser, opened: number): Promise<number> => {
      await eventually(async () => {
        await browser.get('/admin/password/'); // The dashboard counts users.
        return (await readStatistics()).opened > opened;
      }, 'the statistics');
      return (await readStatistics()).scanned;
    };
    const first = await readStatistics();
    const scanned = await settled(await logIn(service, 'busy'), first.opened);
    assert.ok(scanned - first.scanned < 20_000, `${scanned - first.scanned} rows`);
  });

  test('a session whose user has a key of another form is over, and disturbs no other', async () => {
    const id = await service.addUser('steady', { admin: true });
    for (const [index, key] of ['x', '', '99999999999', '9'.repeat(30), '-', 'ended'].entries())
      await service.sql`insert into vitrine_session (token_hash, user_key, password_mark, address, agent)
        values (${digest(`odd ${index}`)}, ${key}, '', '', '')`;
    for (const token of ['odd 0', 'odd 2', 'odd 3']) {
      const browser = openBrowser(service);
      browser.cookies.set(SESSION, token);
      assert.equal((await browser.get('/admin/')).status, 303, token);
    }
    await addSessions('steady', id, 60);
    assert.equal(await isIn(await logIn(service, 'steady')), true);
    assert.equal((await rowsOf(id)).sessions, 50);
  });
});
