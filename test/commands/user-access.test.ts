// `vitrine user`: links to set a password, and sessions.
import assert from 'node:assert/strict';
import { createVitrine, type VitrineOptions } from '../../src/index.ts';
import shipped from '../../src/resources/registry.ts';
import { openBrowser, logIn } from '../admin/support.ts';
import { folderWith, type Ended } from '../process/support.ts';
import { closedAfter, createDatabase, startBeside, useDatabase } from '../support.ts';
import { run } from './support.ts';
import { describe, test, type TestContext } from 'node:test';
import { LOGIN_COLUMNS } from '../login-columns.ts';

describe('vitrine user', () => {
  const database = useDatabase('', async () => {
    const { code, stderr } = await user(['add', 'ada', '--admin'], { input: 'a long password' });
    assert.equal(code, 0, stderr);
  });
  const user = (words: string[], { input = '', ...env }: Record<string, string> = {}): Promise<Ended> =>
    run(['user', ...words], { env: { DATABASE_URL: database.url, ...env }, input });
  const start = async (t: TestContext, options: Partial<VitrineOptions> = {}) =>
    closedAfter(t, await startBeside(database.url, shipped, options));

  /** Sets the password with a link, as its user does. */
  async function follow(service: { base: string }, link: string, password: string): Promise<void> {
    const address = new URL(link.trim());
    const browser = openBrowser(service);
    assert.equal((await browser.get(address.pathname + address.search)).status, 200);
    const fields = { link: address.searchParams.get('link') ?? '', _password: password, _repeat: password };
    const done = await browser.post(address.pathname, fields);
    assert.ok(done.status === 303 || done.status === 200, done.text);
  }

  test('link prints only the link on standard output, with which the user sets a password', async (t) => {
    const service = await start(t);
    const { code, stdout, stderr } = await user(['link', 'ada'], { PUBLIC_URL: 'https://notes.example.org' });
    assert.equal(code, 0, stderr);
    assert.match(stdout, /^https:\/\/notes\.example\.org\/admin\/-\/set-password\/\?link=[\w.-]+\n$/);
    assert.match(
      stderr,
      /^vitrine: whoever has the link can set the password of ada: once, within 24 hours\.\n$/,
    );
    await follow(service, stdout, 'set with a link');
    await logIn(service, 'ada', 'set with a link');
  });

  test('link begins with HOST and PORT without PUBLIC_URL, and has the base path', async () => {
    const { stdout, stderr } = await user(['link', 'ada'], {
      HOST: '::1',
      PORT: '8123',
      BASE_PATH: '/books',
    });
    assert.match(stdout, /^http:\/\/\[::1\]:8123\/books\/admin\/-\/set-password\/\?link=/);
    assert.match(stderr, /PUBLIC_URL is not set, so the link begins with HOST and PORT\./);
  });

  test('add --link reads no password, and prints a link for the new user', async (t) => {
    const service = await start(t);
    const { code, stdout, stderr } = await user(['add', 'joan', '--link']);
    assert.equal(code, 0, stderr);
    assert.match(stderr, /^vitrine: added the user joan\n/);
    assert.match(stdout, /^http:\S+\n$/);
    await follow(service, stdout, 'set by the new user');
    const again = await user(['add', 'joan', '--link']);
    assert.deepEqual([again.code, again.stdout], [1, '']);
  });

  test('sessions lists those of a user, and --end ends them', async (t) => {
    await user(['password', 'ada'], { input: 'for two sessions' });
    const service = await start(t);
    const browsers = [
      await logIn(service, 'ada', 'for two sessions'),
      await logIn(service, 'ada', 'for two sessions'),
    ];
    const time = String.raw`\d{4}-\d\d-\d\d \d\d:\d\d:\d\d`;
    const line = String.raw`since ${time} last used ${time} from \S+ .*\n`;
    const list = await user(['sessions', 'ada']);
    assert.match(list.stdout, new RegExp(`^(?:${line}){2}$`));
    assert.deepEqual((await user(['sessions', 'ada', '--end'])).stdout, 'ended 2 sessions of ada\n');
    for (const browser of browsers) assert.match((await browser.get('/admin/')).location ?? '', /login/);
    assert.equal((await user(['sessions', 'ada'])).stdout, '');
  });

  test('a link works, and one’s own password changes, where the admin area does not show the users', async (t) => {
    const other = closedAfter(t, await createDatabase());
    const resources = [
      { model: 'user', columns: LOGIN_COLUMNS, exclude: ['password'], admin: { hidden: true, readonly: [] } },
      { model: 'note', columns: { text: { type: 'text' } } },
    ];
    const folder = await folderWith({ 'registry.mjs': `export default ${JSON.stringify(resources)}` });
    const env = { DATABASE_URL: other.url, RESOURCES: `${folder}/registry.mjs` };
    const { code, stdout, stderr } = await user(['add', 'ada', '--admin', '--link'], env);
    assert.equal(code, 0, stderr);
    const service = closedAfter(t, await startBeside(other.url, resources as never, { schema: 'check' }));
    await follow(service, stdout, 'set with a link');
    const ada = await logIn(service, 'ada', 'set with a link');
    const fields = {
      _current: 'set with a link',
      _password: 'and changed here',
      _repeat: 'and changed here',
    };
    assert.equal((await ada.post('/admin/-/account/', fields)).location, '/admin/-/account/');
    await logIn(service, 'ada', 'and changed here');
    const entries = await other.sql`select user_name, action from vitrine_history where action = 'update'`;
    assert.deepEqual(
      entries.map((entry) => ({ ...entry })),
      [
        { user_name: 'ada', action: 'update' },
        { user_name: 'ada', action: 'update' },
      ],
    );
  });

  const refused: [what: string, words: string[], code: number, said: RegExp][] = [
    ['a common password', ['add', 'eve'], 1, /The password is one of the most common passwords\./],
    ['no action', [], 2, /Expected add, password, link, sessions, mfa or list/],
    ['a link for no one', ['link'], 2, /"user link" takes one NAME/],
    ['a link for two users', ['link', 'ada', 'eve'], 2, /"user link" takes one NAME/],
    ['a link for an unknown user', ['link', 'nobody'], 1, /There is no user nobody/],
    ['the sessions of an unknown user', ['sessions', 'nobody', '--end'], 1, /There is no user nobody/],
    ['an option of add', ['password', 'ada', '--link'], 2, /--link is not for "user password"/],
    ['an option of sessions', ['list', '--end'], 2, /--end is not for "user list"/],
  ];
  for (const [what, words, code, said] of refused)
    test(`refuses ${what}`, async () => {
      const answer = await user(words, { input: 'Password1234' });
      assert.deepEqual([answer.code, answer.stdout], [code, '']);
      assert.match(answer.stderr, said);
    });

  test('link is refused for a user who is not active, and without the table of secrets', async (t) => {
    await user(['add', 'gone'], { input: 'a long password' });
    await database.sql`update "user" set active = false where username = 'gone'`;
    const inactive = await user(['link', 'gone']);
    assert.deepEqual([inactive.code, inactive.stdout], [1, '']);
    assert.match(inactive.stderr, /The user gone is not active/);
    const other = closedAfter(t, await createDatabase());
    const service = await createVitrine({ databaseUrl: other.url, resources: shipped, log: () => undefined });
    await service.close();
    await other.sql`drop table vitrine_secret`;
    await other.sql`insert into "user" (username, password, email, active) values ('ada', '', '', true)`;
    const without = await user(['link', 'ada'], { DATABASE_URL: other.url });
    assert.deepEqual([without.code, without.stdout], [1, '']);
    assert.match(without.stderr, /The table vitrine_secret is missing/);
  });
});
