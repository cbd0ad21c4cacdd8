import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import type { Resource } from '../../src/index.ts';
import { folderWith, type Ended, type RunOptions } from '../process/support.ts';
import { createDatabase, request, type TestDatabase } from '../support.ts';
import { run, serve } from './support.ts';
import { after, before, describe, test } from 'node:test';

const USER = {
  model: 'user',
  columns: {
    username: { type: 'string', unique: true },
    password: { type: 'password' },
    active: { type: 'boolean', default: true },
    admin: { type: 'boolean', default: false },
  },
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
  access: 'user',
  owner: 'reader',
  exclude: ['secret'],
  readonly: ['added'],
  admin: { exclude: ['secret'] },
} satisfies Resource;

/** It lacks a column that each new record needs. */
const { secret, reader, added } = BOOK.columns;
const UNTITLED = { ...BOOK, columns: { secret, reader, added } };

describe('vitrine check', () => {
  const role = `checker_${randomBytes(4).toString('hex')}`;
  let database: TestDatabase;
  let url: string;
  before(async () => {
    database = await createDatabase();
    const { sql } = database;
    await sql
      .unsafe(`create role ${role} login password 'hunter2'; grant all on schema public to ${role}`)
      .simple();
    const address = new URL(database.url);
    address.username = role;
    address.password = 'hunter2';
    url = address.href;
    const made = await check([USER, BOOK], { words: ['user', 'add', 'ada'], input: 'a long secret' });
    assert.equal(made.code, 0, made.stderr);
  });
  after(async () => {
    await database.sql.unsafe(`drop owned by ${role}; drop role ${role}`).simple();
    await database.drop();
  });

  async function check(
    resources: readonly unknown[],
    { words = ['check'], env = {}, ...options }: RunOptions & { words?: readonly string[] } = {},
  ): Promise<Ended> {
    const folder = await folderWith({ 'r.mjs': `export default ${JSON.stringify(resources)};` });
    return run(words, { env: { DATABASE_URL: url, RESOURCES: `${folder}/r.mjs`, ...env }, ...options });
  }

  test('what fits and is not dangerous is one line', async () => {
    for (const words of [['check'], ['check', '--strict']]) {
      const { code, stdout, stderr } = await check([USER, BOOK], { words });
      assert.deepEqual([code, stdout, stderr], [0, 'the registry (2 resources) fits the database\n', '']);
    }
  });

  test('an address of DATABASE_READ_URL that would stop a start is an error, an unreachable one is not', async () => {
    const [other, refused] = [new URL(url), new URL(url)];
    other.pathname = '/postgres';
    refused.username = `${role}_2`;
    const away = 'postgres://a:b@127.0.0.1:1/vitrine';
    const fits = await check([USER, BOOK], { env: { DATABASE_READ_URL: `${away},${url}` } });
    assert.deepEqual(
      [fits.code, fits.stdout, fits.stderr],
      [0, 'the registry (2 resources) fits the database\n', ''],
    );

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
      assert.deepEqual(
        [lax.code, lax.stdout],
        [0, `the registry (${resources.length} resources) fits the database\n`],
      );
      assert.match(lax.stderr, named);
      assert.match(lax.stderr, /^(vitrine: warning: .+\n)+$/);
      const strict = await check(resources, { words: ['check', '--strict', '--json'], env: settings });
      assert.deepEqual([strict.code, strict.stderr], [2, '']);
      const { errors, warnings } = JSON.parse(strict.stdout) as { errors: []; warnings: { kind: string }[] };
      assert.deepEqual(errors, []);
      assert.ok(warnings.some((warning) => warning.kind === kind));
    });
  }

  test('says that users may set the logins of others, unless they are read-only or only in new records', async () => {
    const readonly = ['active', 'admin'];
    const user = { ...USER, access: 'user', readonly };
    const words = ['check', '--strict', '--json'];
    const open = await check([user, BOOK], { words });
    assert.equal(open.code, 2);
    const text =
      "user lets every user set username, password of all other users: set access: 'admin', or make it readonly";
    assert.deepEqual(JSON.parse(open.stdout).warnings, [{ kind: 'self-promotion', text }]);
    const named = await check([{ ...user, readonly: [...readonly, 'password'] }, BOOK]);
    assert.match(named.stderr, /user lets every user set username of all other users:/);
    for (const change of [
      { readonly: [...readonly, 'username', 'password'] },
      { methods: ['GET', 'POST'] },
    ]) {
      const { stdout } = await check([{ ...user, ...change }, BOOK], { words });
      assert.deepEqual(JSON.parse(stdout).warnings, []);
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
    const { warnings } = JSON.parse(stdout) as { warnings: { text: string }[] };
    assert.equal(code, 0);
    assert.deepEqual(
      warnings.map(({ text }) => text),
      [
        'book has no index on its foreign key reader_id',
        'book: ordering title reads every row of a large table: no index begins with it',
        'book: admin.filters title reads every row of a large table: no index begins with it',
        'book: admin.search title reads every row of a large table: no index supports substring search (pg_trgm)',
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
    const person = { model: 'person', columns: { nick: { ...text, unique: true }, tag: text } };
    const folder = await folderWith({ 'r.mjs': `export default ${JSON.stringify([person])};` });
    const found = async (query: string): Promise<number> => {
      const service = await serve(url, `${folder}/r.mjs`);
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
      stdout: 'the registry (3 resources) fits the database\n',
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
    [
      'a registry that is not there',
      { env: { RESOURCES: '/nowhere.js' } },
      [['registry', /^RESOURCES=\/nowhere\.js: there is no such file\.$/]],
    ],
    [
      'a database that is away',
      { env: { DATABASE_URL: 'postgres://a:hunter2@127.0.0.1:1/x' } },
      [['database', /^The database cannot be used: /]],
    ],
  ];
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

  test('mistakes on the command line are refused', async () => {
    for (const words of [['--bogus'], ['now'], ['--json=yes']]) {
      const { code, stdout, stderr } = await run(['check', ...words]);
      assert.deepEqual([code, stdout], [2, '']);
      assert.match(stderr, /^vitrine check: .+\nTry vitrine check --help\.\n$/s);
    }
  });

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

the registry (2 resources) fits the database
`,
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
