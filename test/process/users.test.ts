import assert from 'node:assert/strict';
import { verify } from '@node-rs/argon2';
import { run } from '../commands/support.ts';
import { createDatabase, request, useDatabase, basic } from '../support.ts';
import { folderWith, serve, type Ended } from './support.ts';
import { describe, test } from 'node:test';
import { LOGIN_TEXT } from '../login-columns.ts';

describe('vitrine user', () => {
  const database = useDatabase('', async () => {
    const { code, stderr } = await user(['add', 'ada', '--admin', '--set', 'email=a@b.c'], 'pass:wörd\n');
    assert.equal(code, 0, stderr);
  });

  const user = (words: readonly string[], input: string | Buffer = ''): Promise<Ended> =>
    run(['user', ...words], {
      env: { DATABASE_URL: database.url, LOG_LEVEL: 'warn', MIN_PASSWORD: '6' },
      input,
    });

  const rows = async (): Promise<Record<string, unknown>[]> =>
    database.sql`select username, password, email, active, admin from "user" order by username`;

  const stored = async (name: string): Promise<string> => {
    const [row] = await database.sql`select password from "user" where username = ${name}`;
    return String(row?.['password']);
  };

  test('add makes an active user with the columns that were set, and keeps only a hash', async () => {
    const [ada] = await rows();
    assert.deepEqual(
      { ...ada, password: '' },
      { username: 'ada', password: '', email: 'a@b.c', active: true, admin: true },
    );
    assert.match(String(ada?.['password']), /^\$argon2id\$/);
    assert.ok(await verify(String(ada?.['password']), 'pass:wörd'));
  });

  test('a user who was added can log in, and the settings of the environment hold', async () => {
    const env = { DATABASE_URL: database.url, MAX_BODY: '64', ACCESS: 'user', LOG_LEVEL: 'info' };
    const service = await serve({ env, fromSource: true });
    const post = (message: string): ReturnType<typeof request> =>
      request(service.base, '/api/note/', {
        method: 'POST',
        headers: { authorization: basic('ada', 'pass:wörd') },
        body: { message },
      });
    assert.equal((await post('short')).status, 201);
    assert.equal((await post('x'.repeat(64))).status, 413);
    const { code, stderr } = await service.stop();
    assert.equal(code, 0);
    const lines = stderr
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line));
    assert.ok(
      lines.some(({ path, status, user }) => path === '/api/note/' && status === 201 && user === 'ada'),
    );
    assert.doesNotMatch(stderr, /wörd|argon2id/);
  });

  test('list shows the names on standard output, a line each, and who is admin or inactive', async () => {
    await database.sql`
      insert into "user" (username, password, email, active)
      values ('zoe', '', '', false), ('ada admin', '', '', true), (${'eve\nroot admin'}, '', '', true)`;
    const { code, stdout, stderr } = await user(['list']);
    await database.sql`delete from "user" where username <> 'ada'`;
    const lines = stdout.trimEnd().split('\n').sort();
    // Nobody can take a name that looks like a line with more rights.
    assert.deepEqual(lines, ['"ada admin"', '"eve\\x0aroot admin"', 'ada admin', 'zoe inactive']);
    assert.deepEqual([code, stderr], [0, '']);
  });

  test('list says who has a second factor, and mfa --reset removes it', async () => {
    await database.sql`
      insert into vitrine_second_factor (user_key, secret, last_step, recovery)
      select id::text, 'AAAA', 0, '{}' from "user" where username = 'ada'`;
    assert.equal((await user(['list'])).stdout, 'ada admin second-factor\n');
    const { code, stdout } = await user(['mfa', 'ada', '--reset']);
    assert.deepEqual([code, stdout], [0, 'removed the second factor of ada\n']);
    assert.equal((await user(['list'])).stdout, 'ada admin\n');
    for (const [words, code, said] of [
      [['mfa', 'ada', '--reset'], 1, /ada has no second factor/],
      [['mfa', 'nobody', '--reset'], 1, /There is no user nobody/],
      [['mfa', 'ada'], 2, /"user mfa" needs --reset/],
      [['mfa', '--reset'], 2, /"user mfa" takes one NAME/],
      [['list', '--reset'], 2, /--reset is not for "user list"/],
    ] as const) {
      const refused = await user(words);
      assert.equal(refused.code, code, refused.stderr);
      assert.match(refused.stderr, said);
    }
  });

  const passwords: [what: string, input: string, password: string][] = [
    ['with blanks and the line break of Windows', ' secret \r\n', ' secret '],
    ['that ends with an empty line', 'secret\n\n', 'secret\n'],
    ['of 1,024 bytes', 'x'.repeat(1024), 'x'.repeat(1024)],
  ];
  test('password takes all of standard input but the last line break', async () => {
    assert.equal((await user(['add', 'eve'], 'first one')).code, 0);
    for (const [what, input, password] of passwords) {
      const { code, stdout, stderr } = await user(['password', 'eve'], input);
      assert.deepEqual([code, stdout, stderr], [0, 'set the password of eve\n', ''], `a password ${what}`);
      assert.ok(await verify(await stored('eve'), password), `a password ${what}`);
    }
    await database.sql`delete from "user" where username = 'eve'`;
  });

  const refused: [what: string, words: string[], input: string | Buffer, said: RegExp][] = [
    ['an empty password', ['add', 'eve'], '', /must be at least 6 characters \(got 0\)/],
    ['a short password', ['add', 'eve'], 'abcde', /at least 6 characters \(got 5\)/],
    ['a short new password', ['password', 'ada'], 'abcde', /at least 6 characters \(got 5\)/],
    ['the name as the password', ['add', 'evelyn'], 'Evelyn', /must not be the user name/],
    ['a password that is only a line break', ['add', 'eve'], '\n', /must be at least 6 characters/],
    ['a password of 1,025 bytes', ['add', 'eve'], `${'x'.repeat(1023)}é`, /1,024/],
    ['a name that is taken', ['add', 'ada'], 'a secret', /username/],
    ['an empty name', ['add', ''], 'a secret', /name/],
    ['a name that is too long', ['add', 'x'.repeat(256)], 'a secret', /username/],
    ['a column that is not there', ['add', 'eve', '--set', 'shoe=42'], 'a secret', /shoe/],
    ['a key of its own', ['add', 'eve', '--set', 'id=42'], 'a secret', /id/],
    ['a password among the arguments', ['add', 'eve', '--set', 'password=hunter2'], 'a secret', /password/],
    ['an admin by the way', ['add', 'eve', '--set', 'admin=true'], 'a secret', /--set admin: .*--admin/],
    [
      'another name than the one given',
      ['add', 'eve', '--set', 'username=bob'],
      'a secret',
      /--set username: /,
    ],
    ['a user who is not active', ['add', 'eve', '--set', 'active=false'], 'a secret', /--set active: /],
    ['a password that is not UTF-8', ['add', 'eve'], Buffer.from('s\xe9cret', 'latin1'), /UTF-8/],
    ['a new password that is not UTF-8', ['password', 'ada'], Buffer.from([0xff, 0xfe]), /UTF-8/],
    ['a password with a NUL character', ['add', 'eve'], 'se\0cret', /NUL/],
    ['a new password with a NUL character', ['password', 'ada'], '\0', /NUL/],
    ['a value not of its type', ['add', 'eve', '--set', 'join_date=soon'], 'a secret', /join_date/],
    ['a new password for nobody', ['password', 'nobody'], 'a secret', /nobody/],
    ['an empty new password', ['password', 'ada'], '', /must be at least 6 characters \(got 0\)/],
  ];
  test('what cannot be done is said on standard error, and nothing is changed', async () => {
    const before = await rows();
    await Promise.all(
      refused.map(async ([what, words, input, said]) => {
        const { code, stdout, stderr } = await user(words, input);
        assert.deepEqual([code, stdout], [1, ''], what);
        assert.match(stderr, said, what);
        assert.match(stderr, /^vitrine: .*\n$/, what);
        assert.doesNotMatch(stderr, /secret|hunter2/, what);
      }),
    );
    assert.deepEqual(await rows(), before);
  });

  test('a name and a password may be given in another form of Unicode', async () => {
    const [composed, decomposed] = ['Ren\u00e9', 'Rene\u0301'];
    assert.equal((await user(['add', composed], 'a secret')).code, 0);
    const again = await user(['add', decomposed], 'a secret');
    assert.deepEqual([again.code, again.stderr], [1, 'vitrine: A user with this username already exists.\n']);
    const set = await user(['password', decomposed], `${decomposed} ${decomposed}`);
    assert.deepEqual([set.code, set.stdout], [0, `set the password of ${decomposed}\n`]);
    assert.ok(await verify(await stored(composed), `${composed} ${composed}`));
    await database.sql`delete from "user" where username = ${composed}`;
  });

  test('what the database refuses is printed in one line, without a stack', async () => {
    await database.sql`alter table "user" add constraint short check (length(username) < 20)`;
    const { code, stderr } = await user(['add', 'a'.repeat(20)], 'a secret');
    await database.sql`alter table "user" drop constraint short`;
    assert.equal(code, 1);
    assert.match(stderr, /^vitrine: The database refused the change: .*"short"\n$/);
  });

  test('a new password for a user whom a policy keeps from changing is an error', async (t) => {
    const { url } = await database.addRole(`grant all on all tables in schema public to ROLE;
      alter table "user" enable row level security; create policy readable on "user" for select using (true)`);
    t.after(async () => {
      await database.sql`drop policy readable on "user"`;
      await database.sql`alter table "user" disable row level security`;
    });
    const env = { DATABASE_URL: url, LOG_LEVEL: 'error' };
    const before = await stored('ada');
    const { code, stdout, stderr } = await run(['user', 'password', 'ada'], {
      env,
      input: 'a long secret',
    });
    assert.deepEqual([code, stdout], [1, '']);
    assert.match(stderr, /^vitrine: The password of ada was not changed: .* policy .*\n$/);
    assert.equal(await stored('ada'), before);
  });

  test('a key that the database does not make is set, or for a text is the name', async () => {
    const own = await createDatabase();
    await own.sql`create table account (no integer primary key, username text unique not null, password text not null,
      active boolean not null default true, admin boolean not null default false)`;
    const registry = await folderWith({
      'registry.mjs': `const columns = ${LOGIN_TEXT};
        export default [{ model: 'member', primaryKey: { type: 'string' }, columns },
          { model: 'account', primaryKey: { type: 'integer', column: 'no' }, columns }];`,
    });
    const add = (model: string, ...words: string[]): Promise<Ended> =>
      run(['user', 'add', ...words], {
        env: {
          DATABASE_URL: own.url,
          RESOURCES: `${registry}/registry.mjs`,
          USER_MODEL: model,
          LOG_LEVEL: 'error',
        },
        input: 'a long secret',
      });
    const answers = [
      await add('member', 'ada', '--admin'),
      await add('member', 'bob', '--set', 'id=b'),
      await add('member', '..'),
      await add('account', 'ada'),
      await add('account', 'ada', '--set', 'id=7'),
    ];
    const members = await own.sql`select id, username, admin from member order by id`;
    const accounts = await own.sql`select no, username from account`;
    await own.drop();
    assert.deepEqual(
      answers.map(({ code }) => code),
      [0, 0, 1, 1, 0],
    );
    assert.match(answers[2]?.stderr ?? '', /^vitrine: id must not be .*\n$/);
    assert.match(answers[3]?.stderr ?? '', /^vitrine: The user model requires id: .*\n$/);
    assert.deepEqual(
      [[...members], [...accounts]],
      [
        [
          { id: 'ada', username: 'ada', admin: true },
          { id: 'b', username: 'bob', admin: false },
        ],
        [{ no: 7, username: 'ada' }],
      ],
    );
  });

  test('a further password is stored as a hash only', async () => {
    const folder = await folderWith({
      'registry.mjs': `export default [{ model: 'user', table: 'with_pin', columns: { ...${LOGIN_TEXT},
        pin: { type: 'password', null: true, minLength: 4 } } }];`,
    });
    const env = { DATABASE_URL: database.url, RESOURCES: `${folder}/registry.mjs`, LOG_LEVEL: 'error' };
    const add = (pin: string): Promise<Ended> =>
      run(['user', 'add', 'eve', '--set', `pin=${pin}`], { env, input: 'a long secret' });
    const short = await add('123');
    assert.deepEqual(
      [short.code, short.stderr],
      [1, 'vitrine: pin must be at least 4 characters (got 3).\n'],
    );
    const { code, stderr } = await add('1234');
    assert.equal(code, 0, stderr);
    const [row] = await database.sql`select pin, password from with_pin`;
    assert.ok(await verify(String(row?.['pin']), '1234'));
    assert.ok(await verify(String(row?.['password']), 'a long secret'));
  });

  test('values are held to the rules that those of the API are', async () => {
    const folder = await folderWith({
      'registry.mjs': `export default [{ model: 'user', table: 'ruled', columns: { ...${LOGIN_TEXT}, kind: { type: 'text', choices: ['p', 'q'] }, n: { type: 'integer', min: 1, max: 5, default: 1 },
        d: { type: 'decimal', precision: 4, scale: 1, null: true }, f: { type: 'float', null: true },
        j: { type: 'json', null: true }, b: { type: 'boolean', null: true } } }];`,
    });
    const env = { DATABASE_URL: database.url, RESOURCES: `${folder}/registry.mjs`, LOG_LEVEL: 'error' };
    const add = (...sets: string[]): Promise<Ended> =>
      run(['user', 'add', 'eve', ...sets.flatMap((set) => ['--set', set])], {
        env,
        input: 'a long secret',
      });
    for (const [set, said] of [
      ['kind=zz', /kind must be one of p, q/],
      ['n=99', /n must be at most 5/],
      ['d=1.25', /d must have at most 1 digit /],
      ['f=NaN', /f must be/],
      ['j={', /j must be JSON/],
      ['b=perhaps', /b must be/],
    ] as const) {
      const { code, stderr } = await add('kind=p', set).then((ended) =>
        set.startsWith('kind') ? add(set) : ended,
      );
      assert.equal(code, 1, set);
      assert.match(stderr, said);
    }
    assert.match((await add('n=2')).stderr, /requires kind/);
    assert.equal((await add('kind=q', 'n=5', 'd=1.5', 'f=1e3', 'j={"a":1}', 'b=true')).code, 0);
    const [row] = await database.sql`select kind, n, d::text, f, j::text, b from ruled`;
    assert.deepEqual({ ...row }, { kind: 'q', n: 5, d: '1.5', f: 1000, j: '{"a": 1}', b: true });
  });

  test('a duplicate that no column shows is named by its index', async () => {
    await database.sql`create unique index only_one on "user" ((true)) where length(username) = 17`;
    assert.equal((await user(['add', 'a'.repeat(17)], 'a secret')).code, 0);
    const { code, stderr } = await user(['add', 'b'.repeat(17)], 'a secret');
    assert.equal(code, 1);
    assert.match(stderr, /^vitrine: .*"only_one"\n$/);
    await database.sql`delete from "user" where length(username) = 17`;
    await database.sql`drop index only_one`;
  });

  test('to list them makes no tables', async () => {
    const empty = await createDatabase();
    const { code, stderr } = await run(['user', 'list'], { env: { DATABASE_URL: empty.url } });
    const tables = await empty.sql`select from pg_class where relnamespace = 'public'::regnamespace`;
    await empty.drop();
    assert.deepEqual([code, tables.length], [1, 0]);
    assert.match(stderr, /there is no table user/);
    assert.match(stderr, /\nA start of the service with SCHEMA=apply, the default, creates missing tables\./);
  });

  test('a registry without a user model has no users to list', async () => {
    await database.sql`create table a (id integer generated by default as identity primary key)`;
    const folder = await folderWith({ 'plain.mjs': `export default [{ model: 'a', columns: {} }];` });
    const { code, stdout, stderr } = await run(['user', 'list'], {
      env: { DATABASE_URL: database.url, RESOURCES: `${folder}/plain.mjs`, LOG_LEVEL: 'error' },
    });
    assert.deepEqual([code, stdout], [1, '']);
    assert.match(stderr, /user model/);
  });
});
