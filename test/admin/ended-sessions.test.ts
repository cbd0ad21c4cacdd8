// Forms whose session has ended: before they were sent, while they arrive, and before their write.
import assert from 'node:assert/strict';
import type { Resource } from '../../src/index.ts';
import { wire } from '../http/wire.ts';
import { cheapHash, lockedOut, startService, untilRun, type TestService } from '../support.ts';
import {
  attemptLogin,
  csrfIn,
  fieldsOf,
  hiddenFields,
  logIn,
  openBrowser,
  readable,
  type AdminAnswer,
  type Browser,
} from './support.ts';
import { resources } from './sample-resources.ts';
import { after, before, describe, test } from 'node:test';

const team: Resource = { model: 'team', columns: { name: { type: 'string', null: true } } };
/** Its label has the name of a team, so that reading a user waits for a lock of that table. */
const toTeam = { type: 'foreignKey', references: 'team', null: true } as const;
const remark: Resource = { model: 'remark', columns: { text: { type: 'string', null: true } } };

let service: TestService;

before(async () => {
  const own = resources.map((one) =>
    one.model === 'user' ? { ...one, columns: { ...one.columns, team: toTeam } } : one,
  );
  service = await startService([...own, team, remark]);
  await service.addUser('ada', { admin: true });
});
after(() => service.close());

const thing = async (name: string): Promise<string> => {
  const [row] = await service.sql`insert into thing (name, note) values (${name}, 'before') returning id`;
  return `/admin/thing/${row?.['id']}/`;
};
const noteOf = async (name: string): Promise<unknown> =>
  (await service.sql`select note from thing where name = ${name}`)[0]?.['note'];

/** Lets all sessions expire. */
const expire = (): Promise<unknown> =>
  service.sql`update vitrine_session set seen = seen - interval '13 hours' where password_mark <> ''`;

const CREDENTIALS = { username: 'ada', password: 'pw-ada' };

/** Changes a record with a form whose session expires before it is sent. @returns the login page, and its form filled in */
async function sendExpired(name: string, note: string) {
  const address = await thing(name);
  const browser = await logIn(service, 'ada');
  const fields = { ...fieldsOf(await browser.get(address)), note };
  await expire();
  const page = await browser.post(address, fields);
  return { address, browser, page, login: { ...fieldsOf(page), ...CREDENTIALS } as Record<string, string> };
}

describe('a form that is sent after its session expired', () => {
  test('does not undo the login when its page cannot be shown', async () => {
    const { browser, page, login } = await sendExpired('Locked', 'typed');
    assert.equal(page.status, 401);
    await service.sql.begin(async (transaction) => {
      await transaction`lock table thing in access exclusive mode`;
      assert.equal((await browser.post('/admin/-/login/', login)).status, 503);
    });
    assert.equal((await browser.get('/admin/')).status, 200);
    const back = await browser.post('/admin/-/login/', login);
    assert.equal(back.status, 200);
    assert.equal(fieldsOf(back)['note'], 'typed');
  });

  for (const [kind, path] of [
    ['a record', async () => thing('Kept')],
    ['a new record', async () => Promise.resolve('/admin/thing/-/add/')],
  ] as const) {
    test(`comes back after the next login with all typed values: ${kind}`, async () => {
      const address = await path();
      const browser = await logIn(service, 'ada');
      const typed = { ...fieldsOf(await browser.get(address)), name: `Kept ${kind}`, note: 'typed <b>' };
      await expire();
      const loginPage = await browser.post(address, typed);
      assert.equal(loginPage.status, 401);
      assert.match(loginPage.text, /get back what you typed/);
      assert.equal(await noteOf(`Kept ${kind}`), undefined);
      const mistaken = { ...fieldsOf(loginPage), ...CREDENTIALS, password: 'x' };
      const wrong = await browser.post('/admin/-/login/', mistaken);
      assert.equal(wrong.status, 401);
      const back = await browser.post('/admin/-/login/', { ...fieldsOf(wrong), ...CREDENTIALS });
      assert.equal(back.status, 200);
      assert.match(back.text, /so nothing was saved/);
      assert.equal(fieldsOf(back)['note'], 'typed <b>');
      assert.equal((await browser.post(address, { ...fieldsOf(back), _save: 'stay' })).status, 303);
      assert.equal(await noteOf(`Kept ${kind}`), 'typed <b>');
    });
  }

  test('leads back to the page with its query, if it is no form of a record', async () => {
    const browser = await logIn(service, 'ada');
    const address = '/admin/thing/-/view/?note=before';
    await expire();
    const answer = await browser.post(address, { title: 'Mine' });
    assert.equal(answer.location, `/admin/-/login/?next=${encodeURIComponent(address)}&_because=undone`);
  });

  test('puts no typed password into the login page', async () => {
    const browser = await logIn(service, 'ada');
    const typed = { ...fieldsOf(await browser.get('/admin/user/-/add/')), username: 'x', _password: 'hidden words', _repeat: 'hidden words' }; // prettier-ignore
    await expire();
    const loginPage = await browser.post('/admin/user/-/add/', typed);
    assert.equal(loginPage.status, 401);
    assert.doesNotMatch(loginPage.text, /hidden words/);
  });

  test('is dropped without the cookie of an expired session, and the response repeats none of it', async () => {
    const address = await thing('Cookieless');
    const planted = openBrowser(service);
    planted.cookies.set('admin-session', 'of-no-session');
    for (const browser of [openBrowser(service), planted]) {
      const loginPage = await browser.post(address, { note: 'typed before' });
      assert.deepEqual(
        [loginPage.status, loginPage.location],
        [303, `/admin/-/login/?next=${encodeURIComponent(address)}&_because=undone`],
      );
      assert.doesNotMatch(loginPage.text, /typed before/);
    }
  });

  test('comes back only for the same user, and another user is told that it was not saved', async () => {
    await service.addUser('bob', { admin: true });
    const { address, browser, page, login } = await sendExpired('Private', 'typed by ada');
    assert.doesNotMatch(page.text, /typed by ada/);
    const refused = await browser.post('/admin/-/login/', { ...login, username: 'bob', password: 'pw-bob' });
    assert.deepEqual([refused.status, refused.location], [303, address]);
    const shown = await browser.get(address);
    assert.match(shown.text, /What you typed before the login was not saved/);
    assert.equal(fieldsOf(shown)['note'], 'before');
  });

  test('does not come back if the login page was changed', async () => {
    const { browser, login } = await sendExpired('Changed', 'typed');
    const forged = { ...login, _unsaved: `A${login['_unsaved']?.slice(1)}` };
    assert.equal((await browser.post('/admin/-/login/', forged)).status, 303);
    assert.equal(await noteOf('Changed'), 'before');
  });

  test('comes back after the login when it is nearly as large as it may be', async () => {
    const note = 'ü"\n'.repeat(4_000);
    const { browser, login } = await sendExpired('Large', note);
    const back = await browser.post('/admin/-/login/', login);
    assert.deepEqual([back.status, fieldsOf(back)['note']], [200, note]);
  });

  test('returns 413 above 64 KiB or 2,000 fields', async () => {
    const address = await thing('Huge');
    const browser = await logIn(service, 'ada');
    await expire();
    const many = Object.fromEntries(Array.from({ length: 2001 }, (_, at) => [`f${at}`, '']));
    for (const fields of [{ note: 'n'.repeat(70_000) }, many]) {
      const refused = await browser.post(address, fields);
      assert.equal(refused.status, 413);
      assert.ok(refused.text.length < 4000, `${refused.text.length} characters`);
    }
  });

  test('comes back above the limit when it is sent again after a login in another tab', async () => {
    const address = await thing('Long');
    const browser = await logIn(service, 'ada');
    const note = 'n'.repeat(70_000);
    const sent = { ...fieldsOf(await browser.get(address)), note };
    await expire();
    const refused = await browser.post(address, sent);
    assert.equal(refused.status, 413);
    assert.match(readable(refused), /Log in in another tab, then reload this page and let your browser send/);
    assert.match(refused.text, /<a href="\/admin\/-\/login\/" target="_blank">/);
    assert.doesNotMatch(readable(refused), /go back/i);
    assert.equal((await attemptLogin(service, 'ada', 'pw-ada', browser)).status, 303);
    const back = await browser.post(address, sent);
    assert.deepEqual([back.status, fieldsOf(back)['note']], [403, note]);
    assert.equal((await browser.post(address, fieldsOf(back))).status, 303);
    assert.equal(await noteOf('Long'), note);
  });

  test('comes back after another login has removed the expired session', async () => {
    const address = await thing('Pruned');
    const browser = await logIn(service, 'ada');
    const fields = { ...fieldsOf(await browser.get(address)), note: 'typed on Friday' };
    await expire();
    await logIn(service, 'ada');
    const loginPage = await browser.post(address, fields);
    assert.equal(loginPage.status, 401);
    const login = { ...fieldsOf(loginPage), ...CREDENTIALS };
    assert.equal(fieldsOf(await browser.post('/admin/-/login/', login))['note'], 'typed on Friday');
  });

  test('does not come back a week after its session expired', async () => {
    const address = await thing('Late');
    const browser = await logIn(service, 'ada');
    const fields = { ...fieldsOf(await browser.get(address)), note: 'late' };
    await expire();
    await browser.get(address);
    await service.sql`update vitrine_session set seen = seen - interval '7 days'`;
    assert.equal((await browser.post(address, fields)).status, 303);
  });

  test('comes back with the choices of an edit conflict, so that no change is overwritten', async () => {
    const address = await thing('Chosen');
    const [one, other] = [await logIn(service, 'ada'), await logIn(service, 'ada')];
    const mine = { ...fieldsOf(await one.get(address)), note: 'mine' };
    const theirs = { ...fieldsOf(await other.get(address)), price: '7.00' };
    assert.equal((await other.post(address, theirs)).status, 303);
    const conflict = await one.post(address, mine);
    assert.equal(conflict.status, 409);
    const browser = openBrowser(service);
    await browser.get('/admin/-/login/');
    const again = await attemptLogin(service, 'ada', 'pw-ada', browser);
    assert.equal(again.status, 303);
    const back = await browser.post(address, { ...fieldsOf(conflict), _csrf: 'of the login that is over' });
    assert.match(back.text, /Current value/);
    assert.equal((await browser.post(address, fieldsOf(back))).status, 303);
    const [row] = await service.sql`select note, price from thing where name = 'Chosen'`;
    assert.deepEqual({ ...row }, { note: 'mine', price: '7.00' });
  });

  test('is dropped when a foreign page sent it, or when its origin is not known', async () => {
    const address = await thing('Foreign');
    const browser = await logIn(service, 'ada');
    await expire();
    const foreign = await browser.post(address, { note: 'planted' }, { origin: 'https://evil.example' });
    assert.equal(foreign.status, 403);
    assert.doesNotMatch(foreign.text, /planted/);
    const cookie = [...browser.cookies].map(([name, value]) => `${name}=${value}`).join('; ');
    const headers = { 'content-type': 'application/x-www-form-urlencoded', cookie };
    const unknownOrigin = await service.request(address, { method: 'POST', body: 'note=planted', headers });
    assert.deepEqual(
      [unknownOrigin.status, unknownOrigin.headers.get('location')],
      [303, `/admin/-/login/?next=${encodeURIComponent(address)}&_because=undone`],
    );
    assert.doesNotMatch(unknownOrigin.text, /planted/);
  });
});

test('a reload of the login that brought a form back shows the form again', async () => {
  const { address, browser, login: sent } = await sendExpired('Reloaded', 'typed');
  assert.equal(fieldsOf(await browser.post('/admin/-/login/', sent))['note'], 'typed');
  const reloaded = await browser.post('/admin/-/login/', sent);
  assert.deepEqual([reloaded.status, fieldsOf(reloaded)['note']], [200, 'typed']);
  const { _unsaved, ...plain } = sent;
  assert.ok(_unsaved);
  const without = await browser.post('/admin/-/login/', plain);
  assert.deepEqual([without.status, without.location], [303, address]);
  assert.equal((await browser.get(address)).status, 200);
});

const ACCOUNT = '/admin/-/account/';
const NEW = 'an entirely new password';

describe('a form that arrives slowly', () => {
  /** Sends half of a form, runs `change`, and sends the rest. @returns the status and the headers of the response */
  async function sendDuring(
    browser: Browser,
    path: string,
    fields: Record<string, string>,
    change: () => Promise<unknown>,
  ) {
    const _csrf = csrfIn((await browser.get(ACCOUNT)).text);
    const body = new URLSearchParams({ _csrf, ...fields }).toString();
    const cookie = [...browser.cookies].map(([name, value]) => `${name}=${value}`).join('; ');
    const connection = wire(service);
    const head = [
      `POST ${path} HTTP/1.1`,
      'Host: x',
      'Sec-Fetch-Site: same-origin',
      `Cookie: ${cookie}`,
      'Content-Type: application/x-www-form-urlencoded',
      `Content-Length: ${body.length}`,
    ];
    await untilRun(service, 'vitrine_session', () =>
      connection.send(`${head.join('\r\n')}\r\n\r\n${body.slice(0, 10)}`),
    );
    await change();
    connection.send(body.slice(10));
    const answer = await connection.next();
    connection.destroy();
    assert.ok(answer);
    return answer;
  }

  const passwordOf = async (id: number): Promise<unknown> =>
    (await service.sql`select password from "user" where id = ${id}`)[0]?.['password'];

  test('cannot change the password of an admin with that of a user who has taken the name', async () => {
    const alice = await service.addUser('alice', { admin: true });
    const mallory = await service.addUser('mallory');
    const browser = await logIn(service, 'alice');
    const stored = await passwordOf(alice);
    const sent = { _current: 'pw-mallory', _password: NEW, _repeat: NEW };
    const answer = await sendDuring(browser, ACCOUNT, sent, async () => {
      await service.sql`update "user" set username = 'was alice' where id = ${alice}`;
      await service.sql`update "user" set username = 'alice' where id = ${mallory}`;
    });
    assert.equal(answer.status, 400);
    assert.match(answer.body, /is not your password/);
    assert.equal(await passwordOf(alice), stored);
  });

  test('changes nothing when its session has ended meanwhile', async () => {
    const id = await service.addUser('eve', { admin: true });
    const other = await service.addUser('other');
    const browser = await logIn(service, 'eve');
    const hash = await cheapHash(NEW);
    const answer = await sendDuring(
      browser,
      `/admin/user/${other}/delete/`,
      {},
      () => service.sql`update "user" set password = ${hash} where id = ${id}`,
    );
    assert.equal(answer.status, 303);
    assert.match(answer.headers['location'] ?? '', /^\/admin\/-\/login\//);
    assert.equal((await service.sql`select from "user" where id = ${other}`).length, 1);
  });

  for (const [fields, status, outcome] of [
    [1_500, 401, 'comes back after the login'],
    [15_000, 413, 'is too large to come back'],
  ] as const)
    test(`with ${fields} fields whose session expires meanwhile ${outcome}`, async () => {
      await service.addUser(`slow${fields}`, { admin: true });
      const browser = await logIn(service, `slow${fields}`);
      const empty = Object.fromEntries(
        Array.from({ length: fields }, (_, index) => [index.toString(36), '']),
      );
      const answer = await sendDuring(
        browser,
        '/admin/thing/-/add/',
        empty,
        () => service.sql`update vitrine_session set seen = seen - interval '13 hours'`,
      );
      assert.equal(answer.status, status);
    });
});

describe('a form of an admin who is demoted before the write', () => {
  let boss: Browser;
  let bob = 0;
  before(async () => {
    await service.sql`insert into team (name) values ('One')`;
    await service.sql`insert into remark (text) values ('kept')`;
    bob = await service.addUser('rob');
    await service.sql`update "user" set team_id = 1`;
    await service.addUser('boss', { admin: true });
  });

  const state = async (): Promise<unknown> => [
    await service.sql`select id, username, password, admin, email from "user" where username not in ('boss', 'ada') order by id`,
    await service.sql`select id, name from team order by id`,
    await service.sql`select id, text from remark order by id`,
    await service.sql`select count(*) from vitrine_history`,
  ];

  /** Sends a form, and demotes the admin while the request waits for a lock of the table, or of its rows. */
  async function sendDuring(
    table: string,
    path: string,
    fields: Record<string, string | string[]>,
    isOfRows: boolean,
  ): Promise<AdminAnswer> {
    let answer: Promise<AdminAnswer> | undefined;
    await service.sql.begin(async (lock) => {
      if (isOfRows) await lock`select from ${lock(table)} where id in (1, ${bob}) for update`;
      else await lock`lock table ${lock(table)} in access exclusive mode`;
      answer = boss.post(path, fields);
      await lockedOut(service);
      await service.sql`update "user" set admin = false where username = 'boss'`;
    });
    assert.ok(answer);
    return answer;
  }

  /** The table whose rows a form waits for. */
  const ROWS: Record<string, string> = {
    'changes a record': 'remark',
    'deletes a record': 'remark',
    'changes a user': 'user',
    'sets a password': 'user',
    'adds an admin': 'team',
  };
  const PASSWORD = { _password: 'a new password', _repeat: 'a new password' };
  for (const [what, table, path, more] of [
    ['adds a record', 'remark', () => '/admin/remark/-/add/', { text: 'new' }],
    ['adds a record without values', 'remark', () => '/admin/remark/-/add/', {}],
    ['changes a record', 'remark', () => '/admin/remark/1/', { text: 'other' }],
    ['deletes a record', 'remark', () => '/admin/remark/1/delete/', {}],
    ['deletes a user', 'team', () => `/admin/user/${bob}/delete/`, {}],
    ['changes a user', 'team', () => `/admin/user/${bob}/`, { email: 'x@example.com' }],
    ['sets a password', 'team', () => `/admin/user/${bob}/password/`, PASSWORD],
    [
      'adds an admin',
      'team',
      () => '/admin/user/-/add/',
      {
        username: 'ivy',
        email: 'e@example.com',
        admin: '1',
        active: '1',
        team_id: '1',
        _current: 'pw-boss',
        ...PASSWORD,
      },
    ],
  ] as const)
    for (const isOfRows of what in ROWS ? [false, true] : [false])
      test(`changes nothing, and leads to the login: ${what}${isOfRows ? ', of locked rows' : ''}`, async () => {
        await service.sql`update "user" set admin = true where username = 'boss'`;
        boss = await logIn(service, 'boss');
        const page = await boss.get(path());
        const fields = path().endsWith('/delete/') ? hiddenFields(page, 'confirm') : fieldsOf(page);
        const before = await state();
        const answer = await sendDuring(
          isOfRows ? (ROWS[what] ?? '') : table,
          path(),
          { ...fields, ...more },
          isOfRows,
        );
        assert.deepEqual(await state(), before);
        assert.ok([303, 401].includes(answer.status), `${answer.status} ${answer.text}`);
        assert.match(`${answer.location ?? ''}${answer.text}`, /login/);
        // The session stays ended.
        await service.sql`update "user" set admin = true where username = 'boss'`;
        assert.equal((await boss.get('/admin/remark/')).status, 303);
      });

  test('that is not demoted adds a record without values, and gets 404 for a missing record', async () => {
    boss = await logIn(service, 'boss');
    const added = await boss.post('/admin/remark/-/add/', fieldsOf(await boss.get('/admin/remark/-/add/')));
    assert.equal(added.status, 303, added.text);
    const fields = fieldsOf(await boss.get(`/admin/user/${bob}/password/`));
    const missing = await boss.post('/admin/user/999/password/', { ...fields, ...PASSWORD });
    assert.equal(missing.status, 404);
  });
});
