// What `vitrine check` says of a registry, a database, and what is dangerous in them.
import assert from 'node:assert/strict';
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import fc from 'fast-check';
import type { Resource, Roles } from '../../src/index.ts';
import { user } from '../../src/resources/registry.ts';
import { award, casting, film } from '../castings.ts';
import { folderWith, type Ended, type RunOptions } from '../process/support.ts';
import { basic, request, startService, useDatabase, type TestDatabase } from '../support.ts';
import { run, serve } from './support.ts';
import { before, describe, test } from 'node:test';
import { LOGIN_COLUMNS } from '../login-columns.ts';

const USER = {
  model: 'user',
  columns: LOGIN_COLUMNS,
  read: 'default',
  access: 'admin',
  exclude: ['password'],
} satisfies Resource;

const BOOK = {
  model: 'book',
  columns: {
    title: { type: 'string' },
    secret: { type: 'string', null: true },
    reader: { type: 'foreignKey', references: 'user' },
    added: { type: 'datetime', default: 'now' },
  },
  read: 'default',
  access: 'user',
  owner: 'reader',
  exclude: ['secret'],
  readonly: ['added'],
  admin: { exclude: ['secret'] },
} satisfies Resource;

/** It lacks a column that each new record needs. */
const { secret, reader, added } = BOOK.columns;
const UNTITLED = { ...BOOK, columns: { secret, reader, added } };

/** What is printed of these two, which are open because they say so. */
const FITS = 'anyone can read user, book\nthe registry (2 resources) fits the database\n';

interface Warned {
  readonly kind: string;
  readonly text: string;
  readonly isIntended?: true;
}

/** The settings of a command: a database, and a registry in a file. */
async function settingsOf(
  databaseUrl: string,
  resources: readonly unknown[],
): Promise<Record<string, string>> {
  const folder = await folderWith({ 'r.mjs': `export default ${JSON.stringify(resources)};` });
  return { DATABASE_URL: databaseUrl, RESOURCES: `${folder}/r.mjs` };
}

describe('vitrine check', () => {
  let role: string;
  let url: string;
  const database: TestDatabase = useDatabase('', async () => {
    ({ role, url } = await database.addRole('grant all on schema public to ROLE'));
    const made = await check([USER, BOOK], { words: ['user', 'add', 'ada'], input: 'a long secret' });
    assert.equal(made.code, 0, made.stderr);
  });

  async function check(
    resources: readonly unknown[],
    { words = ['check'], env = {}, ...options }: RunOptions & { words?: readonly string[] } = {},
  ): Promise<Ended> {
    return run(words, { env: { ...(await settingsOf(url, resources)), ...env }, ...options });
  }

  test('what fits and is not dangerous is one line, after what anyone can read', async () => {
    for (const words of [['check'], ['check', '--strict']]) {
      const { code, stdout, stderr } = await check([USER, BOOK], { words });
      assert.deepEqual([code, stdout, stderr], [0, FITS, '']);
    }
    const closed = [
      { ...USER, read: 'admin' },
      { ...BOOK, read: 'user' },
    ];
    const { stdout } = await check(closed);
    assert.equal(stdout, 'the registry (2 resources) fits the database\n');
  });

  test('a table whose policies do not know the caller is a warning, unless the resource says that they need not', async (t) => {
    const { sql } = database;
    await sql`alter table book enable row level security, force row level security`.simple();
    t.after(async () =>
      sql`alter table book disable row level security, no force row level security`.simple(),
    );
    const found = async (identity?: boolean): Promise<string[]> => {
      const { stdout } = await check([USER, { ...BOOK, identity }], { words: ['check', '--json'] });
      const { warnings } = JSON.parse(stdout) as { warnings: Warned[] };
      return warnings.filter(({ kind }) => kind === 'policies-without-identity').map(({ text }) => text);
    };
    const text =
      'book: the policies of book do not know the caller: set identity: true, or false if they do not ask for it';
    assert.deepEqual([await found(), await found(true), await found(false)], [[text], [], []]);
  });

  test('what anyone can read is a warning, which --strict does not count where the registry says so itself', async () => {
    const words = ['check', '--strict', '--json'];
    const unsaid = { ...BOOK, read: undefined };
    const found = async (
      resources: readonly unknown[],
      env: Record<string, string> = {},
    ): Promise<[code: number | null, ...Warned[]]> => {
      const { code, stdout } = await check(resources, { words, env });
      const { warnings } = JSON.parse(stdout) as { warnings: Warned[] };
      return [code, ...warnings.filter(({ kind }) => kind === 'open-read')];
    };
    const text = "anyone can read book: set read or READ, or read: 'default' if this is intended";
    assert.deepEqual(await found([{ ...USER, read: 'admin' }, unsaid]), [2, { kind: 'open-read', text }]);
    const users = { kind: 'open-read', text: 'anyone can read user', isIntended: true };
    assert.deepEqual(await found([USER, unsaid]), [2, { kind: 'open-read', text }, users]);
    assert.deepEqual(await found([USER, unsaid], { READ: 'user' }), [0, users]);
    assert.deepEqual(await found([USER, { ...unsaid, read: 'user' }]), [0, users]);
    assert.deepEqual(await found([USER, { ...unsaid, methods: ['POST'] }]), [0, users]);
    const { stderr } = await check([USER, unsaid]);
    assert.equal(stderr, `vitrine: warning: ${text}\n`);
  });

  test('a resource that a role opens to anyone is named, too', async () => {
    const roles = { anyone: { grants: { book: { read: { columns: ['title'] } } } } };
    const resources = [
      { ...USER, read: 'admin' },
      { ...BOOK, read: 'user' },
    ];
    const folder = await folderWith({
      'r.mjs': `export default ${JSON.stringify(resources)}; export const roles = ${JSON.stringify(roles)};`,
    });
    const { code, stdout, stderr } = await run(['check', '--strict'], {
      env: { DATABASE_URL: url, RESOURCES: `${folder}/r.mjs` },
    });
    assert.deepEqual(
      [code, stdout, stderr],
      [0, 'anyone can read book\nthe registry (2 resources) fits the database\n', ''],
    );
  });

  test('an address of DATABASE_READ_URL that would stop a start is an error, an unreachable one is not', async () => {
    const [other, refused] = [new URL(url), new URL(url)];
    other.pathname = '/postgres';
    refused.username = `${role}_2`;
    const away = 'postgres://a:b@127.0.0.1:1/vitrine';
    const fits = await check([USER, BOOK], { env: { DATABASE_READ_URL: `${away},${url}` } });
    assert.deepEqual([fits.code, fits.stdout, fits.stderr], [0, FITS, '']);

    const env = { DATABASE_READ_URL: `${away},${other.href},${refused.href}` };
    const bad = await check([USER, { ...BOOK, columns: { ...BOOK.columns, pages: { type: 'integer' } } }], {
      env,
    });
    assert.equal(bad.code, 1);
    assert.match(bad.stderr, /^vitrine: The database does not fit the registry:\n {2}- book: columns\.pages/);
    const expected =
      /^DATABASE_READ_URL cannot be used:\n {2}- [\d.:]+: it is another database of the same server\n {2}- [\d.:]+: .*_2.*\n$/m;
    assert.match(bad.stderr, expected);

    const { code, stdout } = await check([USER, BOOK], { words: ['check', '--json'], env });
    assert.equal(code, 1);
    const { errors } = JSON.parse(stdout) as { errors: { kind: string; text: string }[] };
    assert.deepEqual(
      errors.map(({ kind }) => kind),
      ['database', 'database'],
    );
    for (const { text } of errors) assert.match(text, /^DATABASE_READ_URL: [\d.:]+: /);
  });

  test('the keys of views are checked, and nothing enforces them', async () => {
    await database.sql.unsafe(`
      create view numbers as select n from generate_series(1, 3) n;
      create view twins as select n / 2 as n from generate_series(1, 3) n union all select null;
      create view pairs as select n as a, nullif(n, 2) as b from generate_series(1, 3) n;
      grant select on numbers, twins, pairs to ${role};
    `);
    const primaryKey = { type: 'integer', column: 'n' };
    const numbers = { model: 'numbers', primaryKey, columns: {} };
    const good = await check([numbers]);
    assert.equal(good.code, 0);
    assert.match(good.stderr, /warning: numbers: its key n is unique and not NULL now, but nothing enforces/);
    const bad = await check([numbers, { ...numbers, model: 'twins' }]);
    assert.equal(bad.code, 1);
    assert.match(bad.stderr, /twins: primaryKey: n is NULL/);
    assert.match(bad.stderr, /twins: primaryKey: n is not unique/);
    const columns = { a: { type: 'integer' }, b: { type: 'integer' } };
    const pairs = await check([{ model: 'pairs', primaryKey: { columns: ['a', 'b'] }, columns }]);
    assert.match(pairs.stderr, /pairs: primaryKey: a,b is NULL/);
    const { stdout } = await check([USER, numbers], { words: ['schema', '--role', role] });
    assert.match(stdout, /grant select on "public"\."numbers"/);
    await database.sql`drop view numbers, twins, pairs`;
  });

  test('says that a view is missing, is not said to be one, or has no data yet', async () => {
    const columns = { a: { type: 'integer' } };
    const key = { primaryKey: { columns: ['a'] }, columns };
    const missing = await check([{ model: 'nowhere', view: true, ...key }]);
    assert.equal(missing.code, 1);
    assert.match(missing.stderr, /^ {2}- nowhere: view: there is no view nowhere: make it in SQL/m);
    assert.doesNotMatch(missing.stderr, /SCHEMA=apply/);
    await database.sql.unsafe(`
      create materialized view later as select 1 as a with no data;
      create view soon as select 1 as a;
      grant select on later, soon to ${role}`);
    const { code, stdout } = await check(
      [
        { model: 'later', view: true, ...key },
        { model: 'soon', primaryKey: false, columns },
      ],
      { words: ['check', '--strict', '--json'] },
    );
    assert.equal(code, 2);
    const { warnings } = JSON.parse(stdout) as { warnings: Warned[] };
    assert.deepEqual(
      warnings.filter(({ kind }) => kind.startsWith('view')).map(({ text }) => text),
      [
        'later: the materialized view later has no data yet, so it cannot be read: refresh it',
        'soon: soon is a view: add view: true, so that no start makes a table in its place',
      ],
    );
    await database.sql`drop materialized view later`;
    await database.sql`drop view soon`;
  });

  const dangers: [
    kind: string,
    resources: readonly unknown[],
    named: RegExp,
    env?: Record<string, string>,
  ][] = [
    ['superuser', [USER, BOOK], /superuser/, { DATABASE_URL: '' }],
    ['password-output', [{ ...USER, exclude: [] }, BOOK], /user outputs the password hashes in password/],
    ['self-promotion', [{ ...USER, access: 'user' }, BOOK], /user lets users set active, admin:/],
    ['history-off', [USER, { ...BOOK, history: false }], /changes of book are not recorded/],
    [
      'no-add',
      [USER, { ...UNTITLED, methods: ['GET', 'PUT'] }],
      /book: its column title is NOT NULL without a default.*leave 'add' out of admin\.allow$/m,
    ],
    ['write-shows', [USER, { ...BOOK, read: 'admin' }], /book can only be read by admins/],
    [
      'default-access',
      [
        USER,
        { ...BOOK, access: undefined },
        { ...BOOK, model: 'catalog', table: 'book', access: undefined, methods: ['GET'] },
      ],
      /ACCESS=user lets every user write.*: book$/m,
      { ACCESS: 'user' },
    ],
  ];
  for (const [kind, resources, named, env = {}] of dangers) {
    test(`says that it is dangerous: ${kind}`, async () => {
      const settings = 'DATABASE_URL' in env ? { DATABASE_URL: database.url } : env;
      const lax = await check(resources, { env: settings });
      assert.equal(lax.code, 0);
      assert.ok(lax.stdout.endsWith(`\nthe registry (${resources.length} resources) fits the database\n`));
      assert.match(lax.stderr, named);
      assert.match(lax.stderr, /^(vitrine: warning: .+\n)+$/);
      const strict = await check(resources, { words: ['check', '--strict', '--json'], env: settings });
      assert.deepEqual([strict.code, strict.stderr], [2, '']);
      const { errors, warnings } = JSON.parse(strict.stdout) as { errors: []; warnings: { kind: string }[] };
      assert.deepEqual(errors, []);
      assert.ok(warnings.some((warning) => warning.kind === kind));
    });
  }

  test('says that a required column keeps those from adding records who may, but not set it', async (t) => {
    await database.sql`create table parcel (id serial primary key, weight integer not null, label text not null)`;
    await database.sql`grant all on parcel, parcel_id_seq to ${database.sql(role)}`;
    t.after(() => database.sql`drop table parcel`);
    const label = { type: 'text' };
    const weight = { type: 'integer' };
    const remedy = '. Let them set it, give it a default or null: true, or keep them from adding';
    const found = async (parcel: object, columns: object = { weight, label }): Promise<string[]> => {
      const resources = [USER, { model: 'parcel', columns, read: 'default', access: 'user', ...parcel }];
      const { stdout, code } = await check(resources, { words: ['check', '--json'] });
      assert.equal(code, 0, stdout);
      const { warnings } = JSON.parse(stdout) as { warnings: Warned[] };
      return warnings.filter(({ kind }) => kind === 'no-add').map(({ text }) => text.replace(remedy, ''));
    };
    const away = (who: string, column = 'weight'): string[] => [
      `parcel: ${column} is required, but these may add records and not set it: ${who}`,
    ];
    const hidden = { exclude: ['weight'], readonly: ['weight'] };
    assert.deepEqual(await found({}), []);
    assert.deepEqual(await found({ readonly: ['weight'] }), away('users by POST, admins by POST'));
    assert.deepEqual(await found(hidden), away('users by POST, admins by POST'));
    assert.deepEqual(
      await found({}, { weight: { ...weight, write: 'admin' }, label }),
      away('users by POST'),
    );
    assert.deepEqual(await found({ admin: hidden }), away('admins in the admin area'));
    assert.deepEqual(
      await found({ ...hidden, methods: ['GET', 'PUT'], admin: { ...hidden, allow: ['change'] } }),
      [],
    );
    assert.deepEqual(await found({ exclude: ['weight'] }), []);
  });

  test('says that users may set the logins of others, unless they are read-only or only in new records', async () => {
    const readonly = ['active', 'admin'];
    const user = { ...USER, access: 'user', readonly };
    const words = ['check', '--strict', '--json'];
    const open = await check([user, BOOK], { words });
    assert.equal(open.code, 2);
    const text =
      "user lets every user set username, password of all other users: set access: 'admin', or make it readonly";
    const countedIn = ({ stdout }: Ended): Warned[] =>
      (JSON.parse(stdout) as { warnings: Warned[] }).warnings.filter(({ isIntended }) => !isIntended);
    assert.deepEqual(countedIn(open), [{ kind: 'self-promotion', text }]);
    const named = await check([{ ...user, readonly: [...readonly, 'password'] }, BOOK]);
    assert.match(named.stderr, /user lets every user set username of all other users:/);
    for (const change of [
      { readonly: [...readonly, 'username', 'password'], methods: ['GET', 'PUT'] },
      { methods: ['GET', 'POST'] },
    ]) {
      assert.deepEqual(countedIn(await check([{ ...user, ...change }, BOOK], { words })), []);
    }
  });

  test('says that a foreign key has no index, and what reads every row of a large table', async () => {
    const { sql } = database;
    await sql.unsafe(
      `drop index book_reader_id_idx; update pg_class set reltuples = 200000 where relname = 'book'`,
    );
    const searched = {
      ...BOOK,
      ordering: '-title',
      admin: { ...BOOK.admin, search: ['title', 'reader__username'], filters: ['title'] },
    };
    const { code, stdout } = await check([USER, searched], { words: ['check', '--json'] });
    const { warnings } = JSON.parse(stdout) as { warnings: Warned[] };
    assert.equal(code, 0);
    assert.deepEqual(
      warnings.filter(({ isIntended }) => !isIntended).map(({ text }) => text),
      [
        'book has no index on its foreign key reader_id',
        'book: ordering title reads every row of a large table: no index begins with it',
        'book: admin.filters title reads every row of a large table: no index begins with it',
        'book: admin.search title reads every row of a large table: no index supports substring search. With pg_trgm: create index on "book" using gin ("title" gin_trgm_ops, regexp_replace(normalize("title", NFKD), \'[\\u0300-\\u036f]\', \'\', \'g\') gin_trgm_ops)',
      ],
    );
    await sql
      .unsafe(
        `create index book_reader_id_idx on book (reader_id); create index on book (title);
      update pg_class set reltuples = 200000 where relname = 'book'`,
      )
      .simple();
    const mended = await check([
      USER,
      { ...searched, admin: { search: ['id', 'title'].slice(2), exclude: ['secret'] } },
    ]);
    assert.deepEqual([mended.code, mended.stderr], [0, '']);
    await sql
      .unsafe(`drop index book_title_idx; update pg_class set reltuples = 0 where relname = 'book'`)
      .simple();
  });

  test('says that the search_path lacks the schema of a type, which changes comparisons', async () => {
    await database.sql
      .unsafe(
        `create schema kinds; create extension citext schema kinds; create domain kinds.tag as kinds.citext;
        create table person (id integer primary key generated by default as identity,
          nick kinds.citext not null unique, tag kinds.tag not null, rest kinds.citext);
        insert into person (nick, tag) values ('Ann', 'B');
        grant usage on schema kinds to ${role}; grant select on person to ${role}`,
      )
      .simple();
    const text = { type: 'string' };
    const person = {
      model: 'person',
      read: 'default',
      columns: { nick: { ...text, unique: true }, tag: text },
    };
    const { RESOURCES = '' } = await settingsOf(url, [person]);
    const found = async (query: string): Promise<number> => {
      const service = await serve(url, RESOURCES);
      const { json } = await request(service.base, `/api/person/?${query}`);
      await service.stop();
      return json.objects.length as number;
    };
    const { stderr } = await check([USER, BOOK, person]);
    assert.deepEqual(
      stderr.match(/person: .*/g),
      ['nick', 'tag'].map(
        (field) =>
          `person: ${field} is compared as a plain text, case-sensitively and without its index: add the schema kinds of its type citext to the search_path of the database role`,
      ),
    );
    assert.deepEqual([await found('nick=Ann'), await found('nick=ANN'), await found('tag=b')], [1, 0, 0]);
    await database.sql.unsafe(`alter role ${role} set search_path = public, kinds`);
    assert.deepEqual(await check([USER, BOOK, person]), {
      ...(await check([USER, BOOK])),
      stdout: 'anyone can read user, book, person\nthe registry (3 resources) fits the database\n',
    });
    assert.deepEqual([await found('nick=Ann'), await found('nick=ANN'), await found('tag=b')], [1, 1, 1]);
    await database.sql.unsafe(`alter role ${role} reset search_path; drop table person`).simple();
  });

  test('says that the history may be changed, and that the own tables are missing', async () => {
    for (const privilege of ['update', 'update (at)', 'delete', 'truncate']) {
      await database.sql.unsafe(`grant ${privilege} on vitrine_history to ${role}`);
      const { stderr } = await check([USER, BOOK]);
      assert.match(stderr, /may change or delete entries of vitrine_history/, privilege);
      await database.sql.unsafe(`revoke ${privilege} on vitrine_history from ${role}`);
    }
    await database.sql.unsafe(`revoke all on vitrine_history from ${role}`);
    assert.match(
      (await check([USER, BOOK])).stderr,
      /^vitrine: warning: missing, or not usable by the database role: vitrine_history\./,
    );
    await database.sql.unsafe(`grant select, insert on vitrine_history to ${role}`);
  });

  test('says everything that is wrong, and what is dangerous beside it', async () => {
    const wrong = [
      { ...USER, exclude: [] },
      { ...BOOK, columns: { ...BOOK.columns, pages: { type: 'integer' } } },
    ];
    const people = await check(wrong);
    assert.deepEqual([people.code, people.stdout], [1, '']);
    assert.match(
      people.stderr,
      /^vitrine: The database does not fit the registry:\n {2}- book: columns\.pages: there is no column pages: set null: true or a default for the existing records, or add the column yourself\nChange the registry, or the database: .*`npx vitrine schema --diff` prints the SQL for it\.\nvitrine: warning: user outputs the password hashes in password: exclude them\n$/,
    );
    const { code, stdout, stderr } = await check(wrong, { words: ['check', '--json', '--strict'] });
    assert.deepEqual([code, stderr], [1, '']);
    assert.deepEqual(JSON.parse(stdout).errors, [
      {
        kind: 'database',
        text: 'book: columns.pages: there is no column pages: set null: true or a default for the existing records, or add the column yourself',
      },
    ]);
  });

  const faulty: [
    about: string,
    given: { resources?: readonly unknown[]; env?: Record<string, string> },
    expected: readonly [kind: string, text: RegExp][],
  ][] = [
    [
      'settings, each of them, and no further',
      { resources: [{ ...USER, acess: 'user' }], env: { PORT: 'x', MAX_BODY: '0' } },
      [
        ['settings', /^PORT must be a whole number from 0 to 65535 \(got "x"\)$/],
        ['settings', /^MAX_BODY must be a whole number from 1 to /],
      ],
    ],
    [
      'faults of the registry, each of them, and no further',
      {
        resources: [{ ...USER, acess: 'user', limit: 0 }],
        env: { DATABASE_URL: 'postgres://a:hunter2@127.0.0.1:1/x' },
      },
      [
        ['registry', /^user: acess: there is no such key$/],
        ['registry', /^user: limit: /],
      ],
    ],
    ['a registry that is not there', { env: { RESOURCES: '/nowhere.js' } }, [['registry', /^RESOURCES=\/nowhere\.js: there is no such file\.$/]]],
    ['a database that is away', { env: { DATABASE_URL: 'postgres://a:hunter2@127.0.0.1:1/x' } }, [['database', /^The database cannot be used: /]]],
  ]; // prettier-ignore
  for (const [about, { resources = [USER, BOOK], env = {} }, expected] of faulty) {
    test(`says what is wrong, and of what kind: ${about}`, async () => {
      const { code, stdout, stderr } = await check(resources, { words: ['check', '--json'], env });
      assert.deepEqual([code, stderr], [1, '']);
      const { errors, warnings, matrix } = JSON.parse(stdout);
      assert.deepEqual([warnings, matrix], [[], []]);
      assert.deepEqual(
        errors.map(({ kind }: { kind: string }) => kind),
        expected.map(([kind]) => kind),
      );
      for (const [index, [, text]] of expected.entries()) assert.match(errors[index].text, text);
      const people = await check(resources, { env });
      assert.deepEqual([people.code, people.stdout], [1, '']);
      for (const { text } of errors) assert.ok(people.stderr.includes(text), people.stderr);
      assert.doesNotMatch(stdout + people.stderr, /hunter2/);
    });
  }

  test('the matrix says whether admins may set a column in new records only, or in existing ones only', async () => {
    const tag: Resource = { model: 'tag', primaryKey: { type: 'string' }, columns: {}, access: 'admin' };
    const page: Resource = {
      model: 'page',
      columns: { title: { type: 'string' } },
      access: 'admin',
      admin: { allow: ['change'] },
    };
    await database.sql.unsafe(`
      create table tag (id varchar(255) primary key);
      create table page (id integer primary key generated by default as identity, title varchar(255) not null);
      grant all on tag, page to ${role};
    `);
    const { stdout } = await check([USER, tag, page], { words: ['check', '--matrix'] });
    assert.match(stdout, /^id .* admins, new$/m);
    assert.match(stdout, /^title .* admins, existing$/m);
    await database.sql`drop table tag, page`;
  });

  test('the matrix shows who may do what, and where', async () => {
    const { stdout, code } = await check([USER, BOOK], { words: ['check', '--matrix'] });
    assert.equal(code, 0);
    assert.equal(
      stdout,
      `user      read    join    admin   export  history  create  change  admin sets
id        anyone  anyone  admins  admins  admins   -       -       -
username  anyone  anyone  admins  admins  admins   admins  admins  admins
password  -       -       -       -       -        admins  admins  admins
active    anyone  anyone  admins  admins  admins   admins  admins  admins
admin     anyone  anyone  admins  admins  admins   admins  admins  admins
(delete: admins, admins in the admin area)

book       read    join  admin   export  history  create  change  admin sets
id         anyone  -     admins  admins  admins   -       -       -
title      anyone  -     admins  admins  admins   users   owner   admins
secret     -       -     -       -       -        users   owner   -
reader_id  anyone  -     admins  admins  admins   -       -       admins
added      anyone  -     admins  admins  admins   -       -       admins
(delete: owner, admins in the admin area)

${FITS}`,
    );
    const { stdout: json } = await check([{ ...USER, read: 'admin' }, BOOK], { words: ['check', '--json'] });
    const [user, book] = JSON.parse(json).matrix;
    assert.deepEqual(
      [user.resource, user.table, user.create, book.change, book.delete],
      ['user', 'user', 'admins', 'owner', 'owner'],
    );
    const username = user.columns.find(({ column }: { column: string }) => column === 'username');
    assert.deepEqual(username, {
      column: 'username',
      read: { api: 'admins', admin: 'admins', export: 'admins', history: 'admins' },
      filter: { api: 'admins', join: 'admins', admin: 'admins' },
      write: {
        api: { create: 'admins', change: 'admins' },
        admin: { create: 'admins', change: 'admins' },
      },
    });
  });
});

const RULES = `
  create domain code as text constraint code_form check (value ~ '^[a-z]');
  create table plain (id int generated by default as identity primary key, a int constraint a_positive check (a > 0), c code);
  create unique index plain_once on plain (a) where a < 10;
  create index plain_slow on plain (a);
  create table family (id int generated by default as identity primary key, a int, c code) partition by range (id);
  create table family_1 partition of family for values from (1) to (100);
  alter table family_1 add constraint only_here check (a > 0);
  create table watched (id int generated by default as identity primary key, a int, c code);
  create function watch() returns trigger language plpgsql as
    $f$ begin if new.a = 5 then raise exception 'five' using constraint = 'made_up'; end if; return new; end $f$;
  create trigger watch before insert on watched for each row execute function watch();
  create view seen as select * from plain;
`;
const NAMED: readonly (readonly [model: string, known: readonly string[], unknown: readonly string[]])[] = [
  [
    'plain',
    ['a_positive', 'plain_once', 'plain_pkey', 'code_form'],
    ['nope', 'plain_slow', 'only_here', 'made_up'],
  ],
  ['family', ['only_here', 'family_pkey', 'family_1_pkey', 'code_form'], ['a_positive', 'nope']],
  ['watched', ['made_up', 'a_positive', 'plain_once', 'watched_pkey'], ['nope', 'plain_slow']],
  ['seen', ['nope', 'a_positive'], []],
];

describe('texts for constraints', () => {
  const database = useDatabase(RULES);

  for (const [model, known, unknown] of NAMED)
    test(`of ${model} are warnings where no rule has the name`, async () => {
      const resource = {
        model,
        primaryKey: { type: 'integer' },
        columns: { a: { type: 'integer', null: true }, c: { type: 'text', null: true } },
        constraints: Object.fromEntries([...known, ...unknown].map((name) => [name, 'is not allowed'])),
      } satisfies Resource;
      const expected = unknown.map(
        (name) => `${model}: constraints.${name}: ${model} has no constraint or unique index of this name`,
      );
      const env = await settingsOf(database.url, [resource]);
      const { code, stdout } = await run(['check', '--json'], { env });
      const { errors, warnings } = JSON.parse(stdout);
      assert.deepEqual([code, errors], [0, []]);
      const found = (warnings as { kind: string; text: string }[]).filter(
        ({ kind }) => kind === 'unknown-constraint',
      );
      assert.deepEqual(
        found.map(({ text }) => text),
        expected,
      );
      const service = await startService([resource], { prepare: (sql) => sql.unsafe(RULES).simple() });
      await service.close(); // writes the whole log
      const logged = service.lines.filter(({ message }) => String(message).includes('constraints.'));
      assert.deepEqual(
        logged.map(({ level, message }) => [level, message]),
        expected.map((message) => ['warn', message]),
      );
    });
});

describe('sequences and publications', () => {
  const SCHEMA = `
    create table "user" (id integer primary key generated by default as identity, username varchar(255) not null unique, password text not null,
      email varchar(255) not null, join_date timestamp(0) not null default now(), active boolean not null default true, admin boolean not null default false);
    create table late (id integer primary key generated by default as identity, code text);
    insert into late (id) values (1), (57);
    create schema other;
    create table other."Late one" ("Key" serial primary key, code text);
    insert into other."Late one" values (3);
    create table late_2 (id bigserial primary key, code text);
    insert into late_2 values (9);
    create view late_view as select * from late_2;
    create table down (id integer primary key generated by default as identity (increment -1 minvalue -100 maxvalue -1 start -1), code text);
    insert into down values (-5);
    create sequence narrow_ids as bigint start 1800000000;
    create table narrow (id integer primary key default nextval('narrow_ids'), code text);
    insert into narrow (code) values ('a');
    create table wide (id bigint primary key generated always as identity (start 2147483647), code text);
    insert into wide (code) values ('a');
    create table fine (id integer primary key generated by default as identity, code text);
    insert into fine (code) values ('a'), ('b');
    create table bare (id integer unique not null generated by default as identity, code text);
    create table parted (id integer not null unique, code text) partition by range (id);
    create table parted_1 partition of parted for values from (1) to (100);
    create table whole (like bare including all);
    alter table whole replica identity full;
    create publication changes for table bare, whole, parted, fine;`;
  const database = useDatabase(SCHEMA);

  const check = async (...resources: readonly Partial<Resource>[]): Promise<string[]> => {
    const models = resources.map((resource) => ({
      primaryKey: { type: 'integer', column: 'id' },
      columns: { code: { type: 'text', null: true } },
      access: 'user',
      ...resource,
    }));
    const env = await settingsOf(database.url, [user, ...models]);
    const { code, stdout, stderr } = await run(['check', '--json'], { env });
    assert.equal(code, 0, stdout + stderr);
    return (JSON.parse(stdout).warnings as { kind: string; text: string }[])
      .filter(({ kind }) => kind === 'sequence' || kind === 'replica-identity')
      .map(({ text }) => text);
  };

  for (const [resource, name] of [
    [{ model: 'late' }, 'public.late_id_seq'],
    [
      { model: 'late', table: 'other.Late one', primaryKey: { type: 'integer', column: 'Key' } },
      `other."Late one_Key_seq"`,
    ],
    [
      { model: 'late_view', methods: ['GET', 'POST'], primaryKey: { type: 'bigint', column: 'id' } },
      'public.late_2_id_seq',
    ],
    [{ model: 'down' }, 'public.down_id_seq'],
  ] as const)
    test(`a sequence behind its table is a warning that prints the setval: ${name}`, async () => {
      const [warning = '', ...others] = await check(resource);
      assert.ok(warning.startsWith(`the sequence ${name} is behind its table`), warning);
      assert.deepEqual(others, []);
      const [, statement = ''] = /(select setval\(.*)$/.exec(warning) ?? [];
      await database.sql.unsafe(statement);
      assert.deepEqual(await check(resource as Partial<Resource>), []);
    });

  test('a command names a sequence behind the table of the users', async () => {
    await database.sql`insert into "user" (id, username, password, email) values (1, 'ada', '', '')`;
    const env = await settingsOf(database.url, [user]);
    const words = ['user', 'add', 'bob', '--set', 'email=b'];
    const { code, stderr } = await run(words, { env, input: 'a long secret' });
    assert.equal(code, 1);
    assert.match(stderr, /The database failed: the sequence public\.user_id_seq is behind its table/);
    await database.sql`select setval('user_id_seq', 1)`;
  });

  test('a sequence that is used to more than 80 % is a warning, by what fits its column', async () => {
    assert.deepEqual(await check({ model: 'narrow' }, { model: 'wide', primaryKey: { type: 'bigint' } }, { model: 'fine' }), [
      'the sequence public.narrow_ids of public.narrow.id is used to 83 %',
    ]); // prettier-ignore
  });

  test('a published table without replica identity is a warning, unless its records cannot be changed', async () => {
    const [bare = '', parted = '', ...others] = await check({ model: 'bare' }, { model: 'parted' }, { model: 'whole' }, { model: 'fine' }); // prettier-ignore
    assert.match(bare, /^bare: a publication has public\.bare, which has no replica identity/);
    assert.match(parted, /^parted: a publication has public\.parted_1, /);
    assert.deepEqual(others, []);
    assert.deepEqual(await check({ model: 'bare', methods: ['GET', 'POST'], admin: { allow: ['add'] } }), []);
  });
});

describe('vitrine check, with keys of several columns', () => {
  const database = useDatabase();

  async function check(resources: readonly unknown[], ...options: string[]): Promise<Ended> {
    const env = await settingsOf(database.url, resources);
    return run(['check', ...options], { env: { ...env, ACCESS: 'default' } });
  }

  const views: [about: string, index: string, said: RegExp][] = [
    ['no index', '', /its key \S+ is unique and not NULL now, but nothing enforces it$/m],
    ['another index', 'create unique index on seen (b, c)', /but nothing enforces it$/m],
    ['an index of some rows', 'create unique index on seen (a, b) where a > 0', /but nothing enforces it$/m],
    [
      'a unique index',
      'create unique index on seen (b, a)',
      /is unique by an index and not NULL now, but nothing enforces that it is not NULL$/m,
    ],
  ];
  for (const [about, index, said] of views)
    test(`the key of a materialized view with ${about}`, async () => {
      await database.sql
        .unsafe(`create materialized view seen as select 1 as a, 2 as b, 3 as c; ${index}`)
        .simple();
      const columns = Object.fromEntries(['a', 'b', 'c'].map((name) => [name, { type: 'integer' }]));
      const { code, stderr } = await check([{ model: 'seen', primaryKey: { columns: ['a', 'b'] }, columns }]);
      await database.sql`drop materialized view seen`;
      assert.equal(code, 0, stderr);
      assert.match(stderr, said);
    });

  const keys: [about: string, rows: string, said: string[]][] = [
    ['several NULL', '(1, 1), (2, 1), (null, 1), (null, 1)', ['one NULL', 'two NULL']],
    ['the same NULL in one of two columns', '(1, 1), (2, null), (2, null)', ['two NULL', 'one again']],
    ['duplicates', '(1, 1), (1, 1), (null, 2)', ['one NULL', 'one again', 'two NULL', 'two again']],
  ];
  for (const [about, rows, said] of keys)
    test(`the keys of a view with ${about}`, async () => {
      await database.sql
        .unsafe(
          `create view one as select a, b from (values ${rows}) v (a, b); create view two as select * from one`,
        )
        .simple();
      const columns = { a: { type: 'integer' }, b: { type: 'integer' } };
      const { code, stderr } = await check([
        { model: 'one', primaryKey: { type: 'integer', column: 'a' }, columns: {} },
        { model: 'two', primaryKey: { columns: ['a', 'b'] }, columns },
      ]);
      await database.sql`drop view two, one`;
      assert.equal(code, 1, stderr);
      const found = [...stderr.matchAll(/(one|two): primaryKey: \S+ is (NULL in some rows|not unique)/g)];
      assert.deepEqual(
        found.map(([, model, fault]) => `${model} ${fault === 'not unique' ? 'again' : 'NULL'}`).sort(),
        said.toSorted(),
      );
    });

  const strict = { type: 'integer' } as const;
  const lax = { ...strict, null: true } as const;
  const deletions: [about: string, columns: Resource['columns'], code: number, said: RegExp][] = [
    ['all nullable', { a: lax, b: lax }, 0, /on delete set null;$/m],
    ['one nullable', { a: strict, b: lax }, 0, /on delete set null \("b"\);$/m],
    [
      'no nullable',
      { a: strict, b: strict },
      1,
      /foreignKeys\.two\.onDelete: setNull requires null: true of a or b/,
    ],
  ];
  for (const [about, columns, code, said] of deletions)
    test(`setNull on a foreign key with ${about} columns`, async () => {
      const two = { model: 'two', primaryKey: { columns: ['x', 'y'] }, columns: { x: strict, y: strict } };
      const foreignKeys = { two: { columns: ['a', 'b'], references: 'two', onDelete: 'setNull' } };
      const env = await settingsOf(database.url, [two, { model: 'one', columns, foreignKeys }]);
      const printed = await run(['schema'], { env });
      assert.equal(printed.code, code, printed.stderr);
      assert.match(printed.stdout + printed.stderr, said);
    });

  const joins: [about: string, resources: Resource[], who: string, status: number][] = [
    ['of a source that anyone may read', [film, casting, award], 'anyone', 200],
    ['of a source for users', [film, casting, { ...award, read: 'user' }], 'users', 401],
    ['to a resource for admins', [film, { ...casting, read: 'admin' }, award], 'admins', 400],
    ['with an excluded column', [film, casting, { ...award, exclude: ['actor'] }], 'nobody', 400],
    ['of a source without GET', [film, casting, { ...award, methods: ['POST'] }], 'nobody', 405],
  ];
  for (const [about, resources, who, status] of joins)
    test(`the matrix says who may filter through a foreign key ${about}`, async () => {
      const { stdout } = await check([user, ...resources], '--json');
      const { matrix } = JSON.parse(stdout);
      const { columns } = matrix.find(({ resource }: { resource: string }) => resource === 'casting');
      for (const { column, filter } of columns) assert.equal(filter.join, who, column);
      const text = (await check([user, ...resources], '--matrix')).stdout;
      assert.match(text, new RegExp(`^role +\\S+ +${who === 'nobody' ? '-' : who} `, 'm'));
      const service = await startService([user, ...resources]);
      const answer = await service.request('/api/award/?casting__role=Queen');
      await service.close();
      assert.equal(answer.status, status, answer.text);
    });
});

/** The settings of a command whose registry has roles. */
async function settingsWithRoles(
  databaseUrl: string,
  resources: readonly unknown[],
  roles: object,
): Promise<Record<string, string>> {
  const text = `export default ${JSON.stringify(resources)}; export const roles = ${JSON.stringify(roles)};`;
  const folder = await folderWith({ 'r.mjs': text });
  return { DATABASE_URL: databaseUrl, RESOURCES: `${folder}/r.mjs` };
}

const MEMBER = {
  ...USER,
  columns: { ...USER.columns, role: { type: 'array', of: 'string', null: true } },
} satisfies Resource;

const PATIENT = {
  model: 'patient',
  columns: {
    name: { type: 'string' },
    doctor: { type: 'foreignKey', references: 'user' },
    diagnosis: { type: 'text', null: true, read: ['doctor'], write: ['doctor'] },
    debt: { type: 'integer', default: 0, read: 'admin', write: 'admin' },
  },
  read: 'admin',
  access: { PUT: ['doctor'], DELETE: 'admin' },
} satisfies Resource;

const VISIT = {
  model: 'visit',
  columns: {
    patient: { type: 'foreignKey', references: 'patient' },
    booked_by: { type: 'foreignKey', references: 'user' },
    note: { type: 'string', default: '' },
  },
  read: 'user',
  access: ['reception'],
  owner: 'booked_by',
  rows: { read: ['booked_by=$me', 'patient__doctor=$me'] },
} satisfies Resource;

const ROLES = {
  reception: {
    grants: {
      patient: { read: { columns: ['name', 'doctor'] }, create: { exclude: ['debt', 'diagnosis'] } },
    },
  },
  doctor: {
    admin: true,
    grants: {
      patient: { read: { rows: 'doctor=$me' }, export: true, history: true },
      visit: { read: { rows: 'patient__doctor=$me' }, update: { columns: ['note'] } },
    },
  },
} satisfies Roles;

describe('vitrine check, with roles', () => {
  const database = useDatabase();
  before(async () => {
    const env = await settingsWithRoles(database.url, [MEMBER, PATIENT, VISIT], ROLES);
    const made = await run(['user', 'add', 'ada'], { env, input: 'a long secret' });
    assert.equal(made.code, 0, made.stderr);
  });

  async function check(resources: readonly unknown[], roles: object, ...options: string[]): Promise<Ended> {
    const env = await settingsWithRoles(database.url, resources, roles);
    return run(['check', ...options], { env });
  }

  test('the matrix shows roles, owners and rules about rows', async () => {
    const { stdout, stderr } = await check([MEMBER, PATIENT, VISIT], ROLES, '--matrix');
    assert.equal(
      stdout.slice(stdout.indexOf('patient ')),
      `patient    read                           join                           admin               export              history             create     change              admin sets
id         admins, doctor [1], reception  admins, doctor [1], reception  admins, doctor [1]  admins, doctor [1]  admins, doctor [1]  -          -                   -
name       admins, doctor [1], reception  admins, doctor [1], reception  admins, doctor [1]  admins, doctor [1]  admins, doctor [1]  reception  admins, doctor [1]  admins; doctor [1], existing
doctor_id  admins, doctor [1], reception  admins, doctor [1], reception  admins, doctor [1]  admins, doctor [1]  admins, doctor [1]  reception  admins, doctor [1]  admins; doctor [1], existing
diagnosis  admins, doctor [1]             admins, doctor [1]             admins, doctor [1]  admins, doctor [1]  admins, doctor [1]  -          admins, doctor [1]  admins; doctor [1], existing
debt       admins                         admins                         admins              admins              admins              -          admins              admins
(delete: admins, admins in the admin area)
[1] doctor=$me

visit         read               join  admin               export  history  create             change                              admin sets
id            users [1], admins  -     admins, doctor [2]  admins  admins   -                  -                                   -
patient_id    users [1], admins  -     admins, doctor [2]  admins  admins   admins, reception  owner, reception (own)              admins
booked_by_id  users [1], admins  -     admins, doctor [2]  admins  admins   -                  -                                   admins
note          users [1], admins  -     admins, doctor [2]  admins  admins   admins, reception  owner, doctor [1], reception (own)  admins; doctor [2], existing
(delete: owner, reception (own); admins in the admin area)
[1] booked_by=$me or patient__doctor=$me
[2] patient__doctor=$me

anyone can read user
the registry (3 resources) fits the database
`,
      stderr,
    );
    const { matrix } = JSON.parse((await check([MEMBER, PATIENT, VISIT], ROLES, '--json')).stdout);
    const patient = matrix.find(({ resource }: { resource: string }) => resource === 'patient');
    assert.deepEqual(patient.rules, ['doctor=$me']);
    assert.equal(patient.columns[1].read.api, 'admins, doctor [1], reception');
  });

  test('names limits that have no effect', async () => {
    const grants = { patient: { read: true, export: { rows: 'doctor=$me' }, import: { columns: ['name'] } } };
    const { code, stderr } = await check([MEMBER, PATIENT], { doctor: { admin: true, grants } });
    assert.equal(code, 1);
    for (const key of ['export.rows', 'import.columns'])
      assert.ok(stderr.includes(`role doctor: grants.patient.${key}: has no effect on this action`), stderr);
  });

  test('says of a column in a rule whether its role may not read it, or there is none', async () => {
    const update = { columns: ['name'], rows: ['debt=5', 'nosuch=5'] };
    const grants = { patient: { read: { exclude: ['debt'] }, update } };
    const { code, stderr } = await check([MEMBER, PATIENT], { doctor: { grants } });
    assert.equal(code, 1);
    for (const text of [
      '"debt=5": debt names a column that the role may not read',
      '"nosuch=5": nosuch there is no such column',
    ])
      assert.ok(stderr.includes(`role doctor: grants.patient.update.rows: ${text}`), stderr);
  });

  const risks: [
    about: string,
    roles: object,
    kind: string,
    text: string | undefined,
    more?: Partial<Resource>[],
  ][] = [
    [
      'a role that sets the rights of users',
      { hr: { grants: { user: { update: { columns: ['admin', 'active', 'password'] } } } } },
      'self-promotion',
      'user lets users of the role hr set password, admin, by which they can get all rights: limit its grants by columns or rows, unless this is intended',
    ],
    [
      'a role that adds users with rights',
      { hr: { grants: { user: { create: { columns: ['username', 'password', 'role'] } } } } },
      'self-promotion',
      'user lets users of the role hr set role, by which they can get all rights: limit its grants by columns or rows, unless this is intended',
    ],
    [
      'a role that sets the own rights',
      { hr: { grants: { user: { update: { columns: ['role', 'password'], rows: 'id=$me' } } } } },
      'self-promotion',
      'user lets users of the role hr set role, by which they can get all rights: limit its grants by columns or rows, unless this is intended',
    ],
    [
      'a role that sets rights in the admin area',
      { hr: { admin: true, grants: { user: { read: true, update: { columns: ['admin'] } } } } },
      'self-promotion',
      'user lets users of the role hr set admin, by which they can get all rights: limit its grants by columns or rows, unless this is intended',
      [{ ...MEMBER, methods: ['GET'] }, PATIENT],
    ],
    [
      'no role that sets the rights of some users',
      {
        hr: {
          grants: { user: { read: true, update: { columns: ['admin', 'active'], rows: 'admin=false' } } },
        },
      },
      'self-promotion',
      undefined,
    ],
    ['no role that changes users', { hr: { grants: { user: { update: true, create: true } } } }, 'self-promotion', undefined],
    ['a role without grants', { ghost: {} }, 'empty-role', 'role ghost: it has no grants, and no list of roles names it, so its users may do nothing more than others'],
    ['no role that a list names', { doctor: {} }, 'empty-role', undefined],
    [
      'a role that sees nothing in the admin area',
      { ghost: { admin: true, grants: { patient: { update: true } } } },
      'empty-admin-area',
      'role ghost: admin: true lets its users enter the admin area, where they see nothing: grant read of some models',
    ],
    [
      'a role that sees by writing what it may not read',
      { clerk: { grants: { patient: { update: { columns: ['name'] } } } } },
      'write-shows',
      'patient can only be read by admins, but the response to a PUT shows the record to users of clerk who may write it',
      [
        MEMBER,
        {
          ...PATIENT,
          access: 'admin',
          columns: { ...PATIENT.columns, diagnosis: { type: 'text', null: true } },
        },
      ],
    ],
  ]; // prettier-ignore
  for (const [about, roles, kind, text, resources = [MEMBER, PATIENT]] of risks)
    test(`says that it is dangerous or useless: ${about}`, async () => {
      const listed = { doctor: { grants: { patient: { delete: true } } } };
      const { code, stdout } = await check(resources, { ...listed, ...roles }, '--json');
      const { errors, warnings } = JSON.parse(stdout) as {
        errors: [];
        warnings: { kind: string; text: string }[];
      };
      assert.deepEqual([code, errors], [0, []]);
      assert.deepEqual(
        warnings.filter((one) => one.kind === kind).map((one) => one.text),
        text === undefined ? [] : [text],
      );
    });
});

describe('vitrine check --lock', () => {
  const RESOURCES = [MEMBER, PATIENT, VISIT];

  /** Runs commands in a folder with a registry that changes. No database can be reached. */
  async function project() {
    const folder = await folderWith({});
    const lock = `${folder}/policy.lock`;
    let count = 0;
    const check = async (
      words: readonly string[],
      resources: readonly unknown[] = RESOURCES,
      roles: object = ROLES,
      env: Record<string, string> = {},
      feed = '"admin"',
    ): Promise<Ended> => {
      count += 1;
      const file = `${folder}/r${count}.mjs`; // Node.js loads a module once
      const text = `export default ${JSON.stringify(resources)}; export const roles = ${JSON.stringify(roles)}; export const changes = ${feed};`;
      await writeFile(file, text);
      const settings = { DATABASE_URL: 'postgres://a:b@127.0.0.1:1/x', RESOURCES: file };
      return run(['check', '--lock', lock, ...words], { env: { ...settings, ...env } });
    };
    return { lock, check };
  }

  test('writes one right per line, without a database', async () => {
    const { lock, check } = await project();
    const { code, stdout, stderr } = await check([]);
    const text = await readFile(lock, 'utf8');
    const lines = text.split('\n').filter((line) => line.startsWith('    {'));
    assert.deepEqual([code, stdout, stderr], [0, `${lock}: wrote ${lines.length} rights\n`, '']);
    const { version, rights } = JSON.parse(text);
    assert.equal(version, 1);
    assert.deepEqual(
      lines.map((line) => JSON.parse(line.replace(/,$/, ''))),
      rights,
    );
    for (const right of [
      { surface: 'admin', action: 'enter', who: 'doctor' },
      {
        resource: 'patient',
        surface: 'api',
        action: 'read',
        column: 'diagnosis',
        who: 'doctor',
        rows: ['doctor=$me'],
      },
      { resource: 'patient', surface: 'api', action: 'read', column: 'debt', who: 'admins' },
      { resource: 'patient', surface: 'api', action: 'create', column: 'name', who: 'reception' },
      { resource: 'patient', surface: 'admin', action: 'export', who: 'doctor' },
      {
        resource: 'visit',
        surface: 'api',
        action: 'read',
        column: 'note',
        who: 'users',
        rows: ['booked_by=$me', 'patient__doctor=$me'],
      },
      { resource: 'visit', surface: 'api', action: 'delete', who: 'reception', rows: ['booked_by=$me'] },
      { resource: 'visit', surface: 'api', action: 'update', column: 'note', who: 'doctor' },
    ])
      assert.ok(
        lines.some((line) => line.replace(/,$/, '').trim() === JSON.stringify(right)),
        JSON.stringify(right),
      );
    const same = await check(['--locked']);
    assert.deepEqual([same.code, same.stdout, same.stderr], [0, `${lock}: the rights are the same\n`, '']);
  });

  test('writes the same file, in whatever order the registry has its parts', async () => {
    const { lock, check } = await project();
    await check([]);
    const expected = await readFile(lock, 'utf8');
    const shuffled = <T>(all: readonly T[]): fc.Arbitrary<T[]> =>
      fc.shuffledSubarray([...all], { minLength: all.length });
    const anyOrder = fc.tuple(
      shuffled(RESOURCES),
      shuffled(Object.entries(ROLES)),
      shuffled(VISIT.rows.read),
    );
    await fc.assert(
      fc.asyncProperty(anyOrder, async ([resources, roles, read]) => {
        const mixed = resources.map((one) => (one === VISIT ? { ...VISIT, rows: { read } } : one));
        assert.equal((await check([], mixed, Object.fromEntries(roles))).code, 0);
        assert.equal(await readFile(lock, 'utf8'), expected);
      }),
      { numRuns: 20 },
    );
  });

  const patient = (more: Partial<Resource>): unknown[] => [MEMBER, { ...PATIENT, ...more }, VISIT];
  const visit = (more: Partial<Resource>): unknown[] => [MEMBER, PATIENT, { ...VISIT, ...more }];
  const doctor = (more: object): object => ({ ...ROLES, doctor: { ...ROLES.doctor, ...more } });
  const reads = (who: string, rows: string): string[] =>
    ['booked_by', 'id', 'note', 'patient'].map((column) => `${who} may read visit.${column} where ${rows}`);
  const pain = { type: 'integer', null: true } as const;
  const diagnosis = { ...PATIENT.columns.diagnosis, read: 'admin' } as const;
  const changes: [
    about: string,
    to: [resources?: readonly unknown[], roles?: object, env?: Record<string, string>],
    more: readonly string[],
    fewer: readonly string[],
  ][] = [
    ['a column that is no longer excluded', [[{ ...MEMBER, exclude: [] }, PATIENT, VISIT]], ['anyone may read user.password'], []],
    [
      'a new column',
      [visit({ columns: { ...VISIT.columns, pain } })],
      [
        'admins may create visit.pain',
        'admins may create visit.pain in the admin area',
        'admins may read visit.pain',
        'admins may read visit.pain in the admin area',
        'admins may update visit.pain in the admin area',
        'admins may update visit.pain where booked_by=$me',
        'doctor may read visit.pain in the admin area where patient__doctor=$me',
        'reception may create visit.pain',
        'reception may update visit.pain where booked_by=$me',
        'users may read visit.pain where booked_by=$me or patient__doctor=$me',
      ],
      [],
    ],
    [
      'a column for fewer callers',
      [patient({ columns: { ...PATIENT.columns, diagnosis } })],
      [],
      [
        'doctor is in the list columns.diagnosis.read of patient',
        'doctor may read patient.diagnosis in the admin area where doctor=$me',
        'doctor may read patient.diagnosis where doctor=$me',
        'doctor may update patient.diagnosis in the admin area',
      ],
    ],
    [
      'one more rule about rows',
      [visit({ rows: { read: [...VISIT.rows.read, 'note=public'] } })],
      reads('users', 'booked_by=$me or note=public or patient__doctor=$me'),
      [],
    ],
    ['one rule fewer', [visit({ rows: { read: 'patient__doctor=$me' } })], [], reads('users', 'booked_by=$me or patient__doctor=$me')],
    [
      'another rule',
      [visit({ rows: { read: 'note=$me' } })],
      [...reads('doctor', 'note=$me or patient__doctor=$me'), ...reads('users', 'note=$me')],
      reads('users', 'booked_by=$me or patient__doctor=$me'),
    ],
    [
      'a list of roles of a column, also if each role gets no more by itself',
      [patient({ columns: { ...PATIENT.columns, debt: { ...PATIENT.columns.debt, read: ['reception'] } } })],
      ['reception is in the list columns.debt.read of patient'],
      [],
    ],
    [
      'a column that only users of a role keep',
      [visit({ columns: { ...VISIT.columns, note: { ...VISIT.columns.note, read: ['reception'] } } })],
      ['reception is in the list columns.note.read of visit'],
      [
        'doctor may read visit.note in the admin area where patient__doctor=$me',
        'doctor may update visit.note in the admin area',
        'users may read visit.note where booked_by=$me or patient__doctor=$me',
      ],
    ],
    ['a role that enters the admin area', [RESOURCES, { ...ROLES, reception: { ...ROLES.reception, admin: true } }], ['reception may enter the admin area'], []],
    ['a role that no longer enters it', [RESOURCES, doctor({ admin: false })], [], ['doctor may enter the admin area']],
    [
      'a new role that may do what all users may',
      [RESOURCES, { ...ROLES, temp: { grants: { visit: { read: { rows: 'booked_by=$me' } } } } }],
      [
        ...['booked_by', 'id', 'note', 'patient'].map(
          (column) => `temp may read visit.${column} in the admin area where booked_by=$me`,
        ),
      ],
      [],
    ],
    [
      'a grant of another action',
      [
        RESOURCES,
        doctor({
          grants: {
            ...ROLES.doctor.grants,
            patient: { ...ROLES.doctor.grants.patient, delete: { rows: 'doctor=$me' } },
          },
        }),
      ],
      [
        'doctor may delete patient in the admin area where doctor=$me',
        'doctor may delete patient where doctor=$me',
      ],
      [],
    ],
    [
      'a setting',
      [RESOURCES.map((one) => ({ ...one, read: one.model === 'user' ? undefined : one.read })), ROLES, { READ: 'user' }], // prettier-ignore
      [],
      ['active', 'admin', 'id', 'role', 'username'].map((column) => `anyone may read user.${column}`),
    ],
  ]; // prettier-ignore
  for (const [about, [resources, roles, env], more, fewer] of changes)
    test(`compares the rights: ${about}`, async () => {
      const { lock, check } = await project();
      await check([]);
      const before = await readFile(lock, 'utf8');
      const { code, stdout, stderr } = await check(['--locked'], resources, roles, env);
      const linesOf = (text: string): string[] =>
        [...text.matchAll(/^ {2}- (.+)$/gm)].map(([, line = '']) => line);
      assert.deepEqual([linesOf(stderr).toSorted(), code], [more.toSorted(), more.length > 0 ? 1 : 0]);
      assert.deepEqual(linesOf(stdout).toSorted(), fewer.toSorted());
      assert.equal(await readFile(lock, 'utf8'), before);
    });

  test('compares who may follow the change feed', async () => {
    const { lock, check } = await project();
    await check([], RESOURCES, ROLES, {}, 'undefined');
    assert.ok((await readFile(lock, 'utf8')).includes('{"surface":"api","action":"follow","who":"admins"}'));
    for (const [feed, more] of [
      ['"admin"', ''],
      ['["doctor"]', '\n  - doctor may follow the change feed\n'],
      ['"user"', '\n  - users may follow the change feed\n'],
    ] as const) {
      const { code, stderr } = await check(['--locked'], RESOURCES, ROLES, {}, feed);
      assert.equal(code, more === '' ? 0 : 1, stderr);
      assert.ok(stderr.includes(more), stderr);
    }
  });

  test('says what the API does', async () => {
    const { lock, check } = await project();
    const email = { type: 'string', null: true } as const;
    const member = { ...MEMBER, columns: { ...MEMBER.columns, email } } satisfies Resource;
    await check([], [member, PATIENT, VISIT]);
    const { rights } = JSON.parse(await readFile(lock, 'utf8')) as {
      rights: { resource?: string; surface: string; action: string; column?: string; who: string }[];
    };
    const service = await startService([member, PATIENT, VISIT], { roles: ROLES, trustProxy: 1 });
    const [dora] = [
      await service.addUser('dora', { role: ['doctor'] }),
      await service.addUser('rex', { role: ['reception'] }),
      await service.addUser('ada', { admin: true }),
      await service.addUser('paul'),
    ];
    await service.sql`insert into patient (name, doctor_id) values ('Pia', ${dora})`;
    await service.sql`insert into visit (patient_id, booked_by_id) select 1, id from "user"`;
    for (const [name, ...subjects] of [
      ['dora', 'doctor', 'users', 'anyone'],
      ['rex', 'reception', 'users', 'anyone'],
      ['ada', 'admins', 'users', 'anyone'],
      ['paul', 'users', 'anyone'],
      [undefined, 'anyone'],
    ] as const)
      for (const { model } of [member, PATIENT, VISIT]) {
        const may = (action: string): Set<string | undefined> =>
          new Set(
            rights
              .filter(
                ({ who, ...one }) =>
                  subjects.some((subject) => subject === who) &&
                  one.surface === 'api' &&
                  one.action === action &&
                  one.resource === model,
              )
              .map(({ column }) => column),
          );
        const headers: Record<string, string> = name === undefined ? {} : { authorization: basic(name) };
        const about = `${name} ${model}`;
        const { status, json } = await service.request(`/api/${model}/`, { headers });
        assert.equal(status === 200, may('read').size > 0, about);
        if (status === 200)
          assert.deepEqual(
            Object.keys(json.objects[0])
              .map((key) => key.replace(/_id$/, ''))
              .toSorted(),
            [...may('read')].toSorted(),
            about,
          );
        for (const [method, path, action] of [
          ['POST', '', 'create'],
          ['PUT', '1/', 'update'],
          ['DELETE', '999/', 'delete'],
        ] as const) {
          const answer = await service.request(`/api/${model}/${path}`, {
            method,
            headers,
            body: method === 'DELETE' ? undefined : { nonsense: 1 },
          });
          const isAllowed = ![401, 403, 405].includes(answer.status);
          assert.equal(isAllowed, may(action).size > 0, `${about} ${method} ${answer.text}`);
        }
      }
    await service.close();
  });

  const malformed: [about: string, text: string, said: RegExp][] = [
    [
      'no JSON',
      '{',
      /policy\.lock is not a file of `vitrine check --lock` with the version 1\. Write it with /,
    ],
    ['another shape', '[]', /policy\.lock is not a file of /],
    ['another version', '{"version":2,"rights":[]}', /policy\.lock is not a file of /],
    [
      'another right',
      '{"version":1,"rights":[{"surface":"api","action":"fly","who":"anyone"}]}',
      /policy\.lock: right 1 is malformed: \{"surface":"api","action":"fly","who":"anyone"\}\. Write it with /,
    ],
  ];
  for (const [about, text, said] of malformed)
    test(`refuses a file with ${about}, and replaces it`, async () => {
      const { lock, check } = await project();
      await writeFile(lock, text);
      const { code, stdout, stderr } = await check(['--locked']);
      assert.deepEqual([code, stdout], [1, '']);
      assert.match(stderr, said);
      assert.equal((await check([])).code, 0);
      assert.equal((await check(['--locked'])).code, 0);
    });

  test('names a file that is missing or cannot be written, and faults of the registry', async () => {
    const { lock, check } = await project();
    const missing = await check(['--locked']);
    assert.equal(missing.code, 1);
    assert.ok(missing.stderr.includes(`${lock}: there is no such file. Write it with `), missing.stderr);
    const faulty = await check([], [{ ...USER, acess: 'user' }], {});
    assert.equal(faulty.code, 1);
    assert.match(faulty.stderr, /user: acess: there is no such key/);
    await mkdir(lock);
    const refused = await check([]);
    assert.equal(refused.code, 1);
    assert.match(refused.stderr, /policy\.lock cannot be written: /);
  });

  test('refuses mistakes on the command line', async () => {
    for (const [words, said] of [
      [['--locked'], /--locked needs --lock FILE/],
      [['--lock', 'a', '--json'], /--lock cannot be combined with --matrix, --json or --strict/],
      [['--lock', 'a', '--locked', 'b'], /Unexpected argument "b"/],
    ] as const) {
      const { code, stdout, stderr } = await run(['check', ...words]);
      assert.deepEqual([code, stdout], [2, '']);
      assert.match(stderr, said);
    }
  });
});
