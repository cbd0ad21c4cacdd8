// Logins with the old password while the user changes.
import assert from 'node:assert/strict';
import { cheapHash, eventually, lockedOut, useService, hashAt, REAL_COSTS } from '../support.ts';
import { fromNewAddress } from '../http/expect.ts';
import { attemptLogin, logIn, openBrowser, type AdminAnswer, type Browser } from './support.ts';
import { resources } from './sample-resources.ts';
import { describe, test } from 'node:test';

hashAt(REAL_COSTS);

const SESSION = 'admin-session';
const ACCOUNT = '/admin/-/account/';
const NEW = 'an entirely new password';

const service = useService(resources, { trustProxy: 1 }, async () => {
  await service.addUser('ada', { admin: true });
});

const isIn = async (browser: Browser): Promise<boolean> => (await browser.get('/admin/user/')).status === 200;

/** Logs in, and runs `change` after the password was verified and before the session is stored. */
async function logInDuring(
  name: string,
  browser: Browser,
  change: () => Promise<unknown>,
): Promise<AdminAnswer> {
  let answer: Promise<AdminAnswer> | undefined;
  await service.sql.begin(async (lock) => {
    await lock`lock table vitrine_session in access exclusive mode`;
    answer = attemptLogin(service, name, `pw-${name}`, browser);
    await lockedOut(service);
    await change();
  });
  assert.ok(answer);
  return answer;
}

const setPassword = async (name: string, password: string): Promise<unknown> =>
  service.sql`update "user" set password = ${await cheapHash(password)} where username = ${name}`;

describe('a login during which the user changes', () => {
  for (const [column, change] of [
    ['password', (name: string) => setPassword(name, NEW)],
    ['admin', (name: string) => service.sql`update "user" set admin = false where username = ${name}`],
    ['active', (name: string) => service.sql`update "user" set active = false where username = ${name}`],
  ] as const) {
    test(`is refused like a wrong password: ${column}`, async () => {
      const name = `during ${column}`;
      await service.addUser(name, { admin: true });
      const browser = openBrowser(service);
      const answer = await logInDuring(name, browser, () => change(name));
      assert.equal(answer.status, 401);
      assert.match(answer.text, /Wrong user name or password/);
      assert.equal(browser.cookies.has(SESSION), false);
      const [row] = await service.sql`select count(*)::int as count from vitrine_session s
        join "user" u on u.id::text = s.user_key where u.username = ${name}`;
      assert.equal(row?.['count'], 0);
    });
  }

  test('works when only the hash of the password changed', async () => {
    await service.addUser('rehashed', { admin: true });
    const browser = openBrowser(service);
    const answer = await logInDuring('rehashed', browser, () => setPassword('rehashed', 'pw-rehashed'));
    assert.equal(answer.status, 303);
    assert.equal(await isIn(browser), true);
  });
});

test('a password change ends the sessions of all concurrent logins with the old password', async () => {
  await service.addUser('boss', { admin: true });
  const opened: Browser[] = [];
  const guesser = async (): Promise<void> => {
    for (;;) {
      const browser = openBrowser(service);
      const answer = await attemptLogin(service, 'boss', 'pw-boss', browser);
      if (answer.status === 303) opened.push(browser);
      else if (opened.length > 0) return;
    }
  };
  const guessers = Array.from({ length: 8 }, guesser);
  await eventually(() => opened.length >= 20, 'sessions');
  // The change is made in the database, because a request would wait behind the logins.
  await setPassword('boss', NEW);
  await Promise.all(guessers);
  const survivors = await Promise.all(opened.map(isIn));
  assert.equal(survivors.filter(Boolean).length, 0);
});

test('a change of the own password redirects to the login when another password is set at the same time', async (t) => {
  await service.addUser('emil', { admin: true });
  const browser = await logIn(service, 'emil');
  const other = await cheapHash('set by another admin');
  await service.sql.unsafe(`
    create function overtake() returns trigger language plpgsql as $$
      begin new.password := '${other}'; return new; end $$;
    create trigger overtake before update on "user" for each row
      when (old.username = 'emil') execute function overtake()`);
  t.after(async () => service.sql`drop function overtake cascade`);
  const fields = { _current: 'pw-emil', _password: NEW, _repeat: NEW };
  const answer = await browser.post(ACCOUNT, fields, fromNewAddress());
  assert.equal(answer.status, 303);
  assert.match(answer.location ?? '', /^\/admin\/-\/login\//);
  assert.match((await browser.follow(answer)).text, /Your password was changed\. Log in again\./);
  assert.equal(await isIn(browser), false);
  assert.equal((await attemptLogin(service, 'emil', 'set by another admin', browser)).location, '/admin/');
});

test('a login works when old sessions cannot be removed', async (t) => {
  await service.sql.unsafe(`
    create function keep() returns trigger language plpgsql as $$ begin raise 'no'; end $$;
    create trigger keep before delete on vitrine_session for each statement execute function keep()`);
  t.after(async () => service.sql`drop function keep cascade`);
  const browser = openBrowser(service);
  assert.equal((await attemptLogin(service, 'ada', 'pw-ada', browser)).status, 303);
  assert.equal(await isIn(browser), true);
});
