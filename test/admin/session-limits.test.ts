// The number of sessions that a user can have.
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { eventually } from '../http/expect.ts';
import { startService, type TestService } from '../support.ts';
import { logIn, openBrowser, type Browser } from './support.ts';
import { resources } from './sample-resources.ts';
import { after, before, describe, test } from 'node:test';

const SESSION = 'admin-session';

let service: TestService;
before(async () => {
  service = await startService(resources, {
    trustProxy: 1,
    // Such a type must not take the place of the function.
    prepare: (sql) => sql`create domain length as integer`,
  });
});
after(() => service.close());

const isIn = async (browser: Browser): Promise<boolean> => (await browser.get('/admin/')).status === 200;
const digest = (text = ''): string => createHash('sha256').update(text).digest('hex');

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
