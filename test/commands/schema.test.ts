import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { join } from 'node:path';
import postgres from 'postgres';
import { folderWith, run as runProcess, type Ended } from '../process/support.ts';
import { createDatabase, MAJOR_VERSION, request, useDatabase, type TestDatabase } from '../support.ts';
import { run, serve } from './support.ts';
import { after, before, describe, test, type TestContext } from 'node:test';
import { LOGIN_TEXT } from '../login-columns.ts';

const REGISTRY = `export default [
  { model: 'user', columns: ${LOGIN_TEXT}, read: 'default', access: 'admin', exclude: ['password'] },
  {
    model: 'ticket',
    table: 'desk.tickets',
    columns: { title: { type: 'string' }, user: { type: 'foreignKey', references: 'user' }, number: { type: 'integer', default: 0 } },
    read: 'default',
    access: 'user',
  },
  { model: 'price', columns: { amount: { type: 'decimal' } }, read: 'default', admin: { allow: ['change'] } },
  { model: 'archive', columns: { text: { type: 'text' } }, read: 'default', admin: { hidden: true }, methods: ['GET'] },
];`;

const TABLES = `
  create schema desk;
  create schema kinds;
  create domain kinds.title as text;
  create table "user" (id serial primary key, username text not null unique, password text not null,
    active boolean not null default true, admin boolean not null default false);
  create table desk.tickets (id serial primary key, title kinds.title not null, number serial,
    user_id integer not null references "user");
  create index on desk.tickets (user_id);
  create table price (id serial primary key, amount numeric not null);
  create table archive (id serial primary key, text text not null);
  create table other (id serial primary key);
  insert into price (amount) values (1);
  insert into archive (text) values ('old');
`;

const SAMPLES = 'RESOURCES is not set, so the sample models user, relationship, message and note are served';

const schema = (words: readonly string[], env: Record<string, string> = {}): Promise<Ended> =>
  run(['schema', ...words], { env });

describe('vitrine schema', () => {
  const database = useDatabase();

  test('prints what the start runs on an empty database, and needs none for it', async (t) => {
    const { code, stdout, stderr } = await schema([]);
    assert.deepEqual([code, stderr], [0, `vitrine: ${SAMPLES}\n`]);
    const fresh = await createDatabase();
    t.after(() => fresh.drop());
    const logged = (
      await runProcess(['user', 'add', 'ada'], {
        env: { DATABASE_URL: fresh.url, LOG_LEVEL: 'debug' },
        input: 'a long secret',
        fromSource: true,
      })
    ).stderr;
    const lines = logged
      .split('\n')
      .map((line) => JSON.parse(line || '{}') as { level?: string; message?: string; statement?: string });
    const ran = lines.flatMap(({ statement }) => (statement === undefined ? [] : [`${statement};`]));
    assert.deepEqual(
      lines.filter(({ level }) => level === 'info').map(({ message }) => message),
      [
        'created tables user, relationship, message, note, vitrine_history, vitrine_session, vitrine_secret, vitrine_token, vitrine_idempotency, vitrine_event, vitrine_seal, vitrine_second_factor, vitrine_view; 11 indexes; 3 foreign keys',
        'made the history append-only for the database role',
      ],
    );
    assert.ok(ran.length > 5);
    assert.equal(stdout, `${ran.join('\n')}\n`);
  });

  test('--diff prints what a database lacks: all of it, then one column, then nothing', async () => {
    const env = { DATABASE_URL: database.url };
    const all = await schema(['--diff'], env);
    assert.deepEqual([all.code, all.stdout], [0, (await schema([])).stdout]);
    await database.sql.unsafe(all.stdout).simple();
    const revocation = 'revoke update, delete, truncate on "vitrine_history" from current_user;\n';
    await database.sql`grant update, delete, truncate on vitrine_history to current_user`;
    assert.equal((await schema(['--diff'], env)).stdout, revocation);
    await database.sql.unsafe(revocation);
    const nothing = await schema(['--diff'], env);
    assert.deepEqual([nothing.code, nothing.stdout], [0, '']);
    assert.match(nothing.stderr, /^vitrine: nothing is missing/m);
    await database.sql`alter table note drop column created`;
    const one = await schema(['--diff'], env);
    assert.equal(
      one.stdout,
      `alter table "note" add column "created" timestamp(0) default date_trunc('second', now() at time zone 'UTC') not null;\n`,
    );
    const { stderr } = await run(['check'], { env });
    assert.match(stderr, /there is no column created/);
  });

  test('--diff leaves the tables of other applications with the names of system tables alone', async (t) => {
    const other = await createDatabase();
    t.after(() => other.drop());
    await other.sql`create table vitrine_history (id integer)`;
    const text = `export default [{ model: 'thing', columns: { name: { type: 'string' } } }];`;
    const RESOURCES = join(await folderWith({ 'things.mjs': text }), 'things.mjs');
    const env = { DATABASE_URL: other.url, RESOURCES };
    const first = await schema(['--diff'], env);
    assert.match(first.stdout, /^create table "thing"/);
    assert.doesNotMatch(first.stdout, /vitrine_/);
    await other.sql.unsafe(first.stdout).simple();
    const { code, stdout, stderr } = await schema(['--diff'], env);
    assert.deepEqual([code, stdout], [0, '']);
    assert.match(stderr, /^vitrine: nothing is missing/m);
  });

  test('--diff says if something is different that no statement can mend', async (t) => {
    const other = await createDatabase();
    t.after(() => other.drop());
    await other.sql`create table thing (id integer, name varchar(255) not null)`;
    const text = `export default [{ model: 'thing', columns: { name: { type: 'string' } } }];`;
    const RESOURCES = join(await folderWith({ 'things.mjs': text }), 'things.mjs');
    const { code, stdout, stderr } = await schema(['--diff'], { DATABASE_URL: other.url, RESOURCES });
    assert.deepEqual([code, stdout], [0, '']);
    assert.match(stderr, /^vitrine: nothing is missing, but no statement can mend what is different/m);
  });

  test('--diff prints the changes that make a table fit the registry, with their locks and what they refuse', async (t) => {
    const other = await createDatabase();
    t.after(() => other.drop());
    await other.sql`create table kind (id integer primary key)`;
    await other.sql`insert into kind values (1)`;
    await other.sql`create table "odd ""thing" (id serial primary key, title varchar(80), body varchar(30) not null,
      count integer not null, price numeric(8,2) not null, note text not null, born text, made timestamp(0) not null,
      kind_id integer references kind on delete cascade)`;
    await other.sql`create index on "odd ""thing" (kind_id)`;
    await other.sql`insert into "odd ""thing" values (1, 'a', 'b', 2, 1.5, 'n', '2020-01-02', now(), 1)`;
    const text = `export default [{ model: 'kind', columns: {} }, { model: 'thing', table: 'odd "thing', primaryKey: { type: 'bigint' }, version: 'made', columns: {
      title: { type: 'string', maxLength: 120 },
      body: { type: 'text' },
      count: { type: 'bigint' },
      price: { type: 'decimal', precision: 10, scale: 3 },
      note: { type: 'text', null: true },
      born: { type: 'date', null: true, default: '2000-01-01' },
      made: { type: 'datetime', default: 'now' },
      kind: { type: 'foreignKey', references: 'kind', null: true },
    } }];`;
    const RESOURCES = join(await folderWith({ 'things.mjs': text }), 'things.mjs');
    const env = { DATABASE_URL: other.url, RESOURCES };
    const before = await run(['check'], { env });
    assert.equal(before.code, 1);
    assert.match(before.stderr, /Change the registry, or the database: .*schema --diff/);
    const { code, stdout } = await schema(['--diff'], env);
    assert.equal(code, 0);
    for (const change of [
      /-- Takes an exclusive lock, for a moment\.\nalter table "odd ""thing" alter column "title" type varchar\(120\);/,
      /-- Reads the whole table .* Fails if a row has NULL\.\nalter table "odd ""thing" alter column "title" set not null;/,
      /-- Rewrites the table .*\nalter table "odd ""thing" alter column "count" type bigint;/,
      /-- Rewrites .* Fails if a value does not fit the new type\.\nalter table "odd ""thing" alter column "born" type date using "born"::text::date;/,
      /alter column "note" drop not null;/,
      /alter column "made" type timestamp;/,
      /drop constraint ".*", add foreign key \("kind_id"\) references "kind" \("id"\) on delete restrict;/,
    ])
      assert.match(stdout, change);
    await other.sql.unsafe(stdout).simple();
    // What followed from the type of `born` alone.
    await other.sql.unsafe((await schema(['--diff'], env)).stdout).simple();
    const after = await run(['check'], { env });
    assert.equal(after.code, 0, after.stderr);
    assert.equal((await schema(['--diff'], env)).stdout, '');
    assert.equal(
      (await other.sql`select from "odd ""thing" where born = '2020-01-02' and price = 1.5`).length,
      1,
    );
  });

  /** What --diff prints for these resources on these tables. Its SQL runs, and leaves nothing to do. */
  async function diffOf(t: TestContext, tables: string, resources: readonly object[]): Promise<string> {
    const other = await createDatabase();
    t.after(() => other.drop());
    await other.sql.unsafe(tables).simple();
    const files = await folderWith({ 'things.mjs': `export default ${JSON.stringify(resources)};` });
    const env = { DATABASE_URL: other.url, RESOURCES: join(files, 'things.mjs') };
    const { code, stdout, stderr } = await schema(['--diff'], env);
    assert.equal(code, 0, stderr);
    await other.sql.unsafe(stdout).simple();
    const checked = await run(['check'], { env });
    assert.equal(checked.code, 0, checked.stderr);
    const again = (await schema(['--diff'], env)).stdout;
    assert.match(again, /^(--.*\n)*$/, again);
    return stdout;
  }
  const SHELF = { model: 'shelf', columns: {} };
  const LOCK = '-- Takes an exclusive lock, for a moment.';

  test('--diff prints a required foreign key with its index and its constraint, and what else rests on new columns', async (t) => {
    const text = { type: 'text' };
    const pair = { columns: ['a', 'b'], references: 'pair' };
    const printed = await diffOf(
      t,
      `create table shelf (id serial primary key); create table book (id serial primary key, title text not null, other text not null);
       create table pair (a integer, b integer, primary key (a, b))`,
      [
        SHELF,
        {
          model: 'pair',
          primaryKey: { columns: ['a', 'b'] },
          columns: { a: { type: 'integer' }, b: { type: 'integer' } },
        },
        {
          model: 'book',
          columns: {
            title: text,
            other: { type: 'foreignKey', references: 'shelf', column: 'other' },
            shelf: { type: 'foreignKey', references: 'shelf' },
            code: { ...text, unique: true },
            a: { type: 'integer' },
            b: { type: 'integer' },
          },
          unique: [['title', 'code']],
          foreignKeys: { pair },
        },
      ],
    );
    const added = (column: string): string =>
      `${LOCK} Fails if the table has rows.\nalter table "book" add column ${column} not null;\n`;
    assert.ok(printed.startsWith(added('"shelf_id" integer') + added('"code" text')), printed);
    for (const statement of [
      'create index on "book" ("shelf_id");',
      'alter table "book" add unique ("code");',
      'alter table "book" add unique ("title", "code");',
      'alter table "book" add foreign key ("shelf_id") references "shelf" ("id") on delete restrict;',
      'alter table "book" add foreign key ("a", "b") references "pair" ("a", "b") on delete restrict;',
    ])
      assert.equal(printed.split(statement).length, 2, statement);
    assert.ok(printed.indexOf('type integer using "other"') < printed.indexOf('add foreign key ("other")'));
  });

  test('--diff prints a new name of a column, and nothing else for it', async (t) => {
    const printed = await diffOf(
      t,
      `create table shelf (id serial primary key);
       create table book (id serial primary key, phone text not null unique, room_id integer references shelf, a integer not null);
       create index on book (room_id); create unique index on book (a, phone); insert into book values (1, 'p', null, 1)`,
      [
        SHELF,
        {
          model: 'book',
          columns: {
            mobile: { type: 'text', unique: true, formerly: ['phone'] },
            chamber: { type: 'foreignKey', references: 'shelf', null: true, formerly: ['room'] },
            a: { type: 'integer' },
          },
          unique: [['a', 'mobile']],
        },
      ],
    );
    const renamed = (from: string, to: string): string =>
      `${LOCK}\nalter table "book" rename column "${from}" to "${to}";\n`;
    assert.equal(printed, renamed('phone', 'mobile') + renamed('room_id', 'chamber_id'));
  });

  for (const formerly of [[['phone']], [['phone'], ['phone']], [undefined, ['phone']]])
    test(`--diff prints a new name once that ${JSON.stringify(formerly)} resources of the table say`, async (t) => {
      const printed = await diffOf(
        t,
        'create table person (id serial primary key, phone text)',
        formerly.map((names, at) => ({
          ...{
            model: `person${at === 0 ? '' : at}`,
            table: 'person',
            ...(at > 0 && { methods: ['GET' as const] }),
          },
          columns: { mobile: { type: 'text', null: true, ...(names && { formerly: names }) } },
        })),
      );
      assert.equal(printed, `${LOCK}\nalter table "person" rename column "phone" to "mobile";\n`);
    });

  test('--diff names what the tables have and the registry does not', async (t) => {
    const tables = `create table shelf (id serial primary key, legacy text, "odd\n;name" text);
      create table book (id serial primary key, title text not null, extra text); create view seen as select 1 as a, 2 as b`;
    const title = { type: 'text' };
    const printed = await diffOf(t, tables, [
      SHELF,
      { model: 'book', columns: { title } },
      { model: 'further', table: 'book', methods: ['GET'], columns: { extra: { type: 'text', null: true } } },
      { model: 'seen', view: true, primaryKey: false, columns: { a: { type: 'integer' } } },
    ]);
    assert.equal(printed, '-- Not in the registry: legacy, odd ;name of shelf\n');
  });

  const mistakes: [words: string[], named: RegExp][] = [
    [['--bogus'], /--bogus/],
    [['now'], /now/],
    [['--role'], /--role/],
    [['--role', ''], /--role/],
    [['--role', 'public'], /public/],
    [['--role', 'x'.repeat(64)], /63 bytes/],
    [['--diff', '--role', 'x'], /--diff/],
  ];
  for (const [words, named] of mistakes) {
    test(`schema ${words.join(' ').slice(0, 30)} is a mistake`, async () => {
      const { code, stdout, stderr } = await schema(words);
      assert.deepEqual([code, stdout], [2, '']);
      assert.match(stderr, named);
      assert.match(stderr, /Try vitrine schema --help/);
    });
  }

  test('--diff needs a database, and shows no password of it', async () => {
    const none = await schema(['--diff']);
    assert.deepEqual([none.code, none.stdout], [1, '']);
    assert.match(none.stderr, /DATABASE_URL/);
    const away = await schema(['--diff'], { DATABASE_URL: 'postgres://ada:hunter2@127.0.0.1:1/x' });
    assert.deepEqual([away.code, away.stdout], [1, '']);
    assert.doesNotMatch(away.stderr, /hunter2/);
  });
});

describe('a role with the grants of vitrine schema --role', () => {
  const role = `Vitrine "${randomBytes(4).toString('hex')}"`;
  const quoted = `"${role.replaceAll('"', '""')}"`;
  let database: TestDatabase;
  let env: Record<string, string>;
  let asRole: postgres.Sql;

  before(async () => {
    database = await createDatabase();
    const folder = await folderWith({ 'resources.mjs': REGISTRY });
    const owner = { DATABASE_URL: database.url, RESOURCES: `${folder}/resources.mjs` };
    await database.sql.unsafe(TABLES).simple();
    // The owner of the tables makes the service's own, and users; the role may not.
    await database.sql.unsafe((await schema(['--diff'], owner)).stdout).simple();
    for (const [name, ...words] of [['ada'], ['boss', '--admin']])
      assert.equal(
        (
          await run(['user', 'add', name ?? '', ...words], {
            env: { ...owner, MIN_PASSWORD: '1' },
            input: `pw-${name}`,
          })
        ).code,
        0,
      );
    const { code, stdout, stderr } = await schema(['--role', role], owner);
    assert.deepEqual([code, stderr], [0, '']);
    const [, create = ''] = /^-- (create role .*)$/m.exec(stdout) ?? [];
    await database.sql.unsafe(create.replace("'...'", "'pw'")).simple();
    await database.sql.unsafe(`grant truncate on price to ${quoted}`);
    await database.sql.unsafe(stdout).simple();
    const url = new URL(database.url);
    url.username = encodeURIComponent(role);
    url.password = 'pw';
    env = { ...owner, DATABASE_URL: url.href, SCHEMA: 'check' };
    asRole = postgres(url.href, { max: 1, onnotice: () => undefined });
  });
  after(async () => {
    await asRole.end();
    await database.sql.unsafe(`drop owned by ${quoted}; drop role ${quoted}`).simple();
    await database.drop();
  });

  test('is enough for the check, without a warning', async () => {
    const { code, stdout, stderr } = await run(['check', '--strict'], { env });
    const fits =
      'anyone can read user, ticket, price, archive\nthe registry (4 resources) fits the database\n';
    assert.deepEqual([code, stdout, stderr], [0, fits, '']);
  });

  test('is enough for the API, the admin area and the users', async () => {
    const { base, stop } = await serve(env['DATABASE_URL'] ?? '', env['RESOURCES'] ?? '');
    for (const [name, count] of Object.entries({ user: 2, ticket: 0, price: 1, archive: 1 }))
      assert.equal((await request(base, `/api/${name}/`)).json.objects.length, count, name);
    const body = { title: 'Broken', user_id: 1 };
    const made = await request(base, '/api/ticket/', { method: 'POST', user: 'ada', body });
    assert.equal(made.status, 201, made.text);
    const path = `/api/ticket/${made.json.id}/`;
    assert.equal(
      (await request(base, path, { method: 'PUT', user: 'ada', body: { title: 'Mended' } })).status,
      200,
    );
    assert.equal((await request(base, path, { method: 'DELETE', user: 'ada' })).status, 200);
    const [row] = await database.sql`select count(*)::int as count from vitrine_history`;
    assert.equal(row?.['count'], 5); // two users, and three changes of a ticket

    const page = await request(base, '/admin/-/login/');
    const csrf = /name="_csrf" value="([^"]+)"/.exec(page.text)?.[1] ?? '';
    const cookies = (headers: Headers): string =>
      headers
        .getSetCookie()
        .map((cookie) => cookie.split(';')[0])
        .join('; ');
    const login = await request(base, '/admin/-/login/', {
      method: 'POST',
      headers: {
        'content-type': 'application/x-www-form-urlencoded',
        cookie: cookies(page.headers),
        origin: base,
      },
      body: new URLSearchParams({ _csrf: csrf, username: 'boss', password: 'pw-boss' }).toString(),
    });
    assert.equal(login.status, 303, login.text);
    const cookie = cookies(login.headers);
    for (const address of [
      '/admin/',
      '/admin/price/',
      '/admin/ticket/',
      '/admin/vitrine_history/',
      '/admin/user/',
    ])
      assert.equal((await request(base, address, { headers: { cookie } })).status, 200, address);
    await stop();
    const added = await run(['user', 'add', 'eve'], { env, input: 'the word of eve' });
    assert.deepEqual([added.code, added.stderr], [0, '']);
    assert.equal((await run(['user', 'password', 'eve'], { env, input: 'another word' })).code, 0);
  });

  const forbidden = [
    'update vitrine_history set user_name = null',
    'delete from vitrine_history',
    'truncate vitrine_history',
    'drop table vitrine_history',
    'drop table price',
    'alter table price add column x integer',
    // Before PostgreSQL 15, everyone may create tables in the schema `public`.
    ...(MAJOR_VERSION < 15 ? [] : ['create table mine (id integer)']),
    'insert into price (amount) values (1)',
    'delete from price',
    'truncate price',
    "update archive set text = ''",
    "insert into archive (text) values ('')",
    'truncate desk.tickets',
    'select * from other',
    "select setval('desk.tickets_id_seq', 1)",
    "select nextval('price_id_seq')",
  ];
  for (const statement of forbidden) {
    test(`is not enough for: ${statement}`, async () => {
      await assert.rejects(asRole.unsafe(statement), { code: '42501' });
    });
  }

  test('without a database names the tables as they would be made', async () => {
    const { stdout } = await schema(['--role', 'web'], { RESOURCES: env['RESOURCES'] ?? '' });
    assert.match(stdout, /^grant usage on schema "desk" to "web";$/m);
    assert.match(stdout, /^grant select, update on "public"\."price" to "web";$/m);
    assert.match(stdout, /^grant select on "public"\."archive" to "web";$/m);
    assert.match(stdout, /^grant select, insert on "public"\."vitrine_history" to "web";$/m);
    assert.doesNotMatch(stdout, /sequence|connect/);
  });

  test('includes the sequence of the table behind a view', async () => {
    await database.sql.unsafe('create table base (id serial primary key, name text not null)');
    await database.sql.unsafe('create view "shown base" as select id, name from base');
    const view = `{ model: 'base', table: 'shown base', primaryKey: { type: 'integer', column: 'id' },
      columns: { name: { type: 'text' } }, methods: ['GET', 'POST'], access: 'user' }`;
    const registry = REGISTRY.replace(/\];$/, `${view}];`);
    const folder = await folderWith({ 'resources.mjs': registry });
    const owner = { DATABASE_URL: database.url, RESOURCES: `${folder}/resources.mjs` };
    const { stdout } = await schema(['--role', 'web'], owner);
    assert.match(stdout, /^grant select, insert on "public"\."shown base" to "web";$/m);
    assert.match(stdout, /^grant usage on sequence public\.base_id_seq to "web";$/m);
  });
});
