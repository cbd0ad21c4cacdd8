// The registry that `vitrine introspect` prints for a database, with the keys that it finds, served as it is printed.
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { user } from '../../src/resources/registry.ts';
import type { Resource } from '../../src/index.ts';
import { hiddenFields, logIn, readable, type Browser } from '../admin/support.ts';
import { temporaryFolder, type Ended } from '../process/support.ts';
import { createDatabase, request, startService, useDatabase, type TestService } from '../support.ts';
import { introspect, readAll, serveIntrospected, sqlOf, withProposedKeys } from './introspected.ts';
import { run, serve } from './support.ts';
import { after, before, beforeEach, describe, test } from 'node:test';
import { chinookSql } from '../paths.ts';

describe('vitrine introspect', () => {
  const database = useDatabase();

  test('an empty schema, and one that is not there, are said to be so', async () => {
    const env = { DATABASE_URL: database.url };
    await database.sql.unsafe('create schema other');
    const empty = await run(['introspect'], { env });
    assert.deepEqual([empty.code, empty.stdout], [1, '']);
    assert.equal(empty.stderr, 'vitrine: The schema public has no tables. Other schemas: other.\n');
    const missing = await run(['introspect', '--schema', 'nope'], { env });
    assert.deepEqual([missing.code, missing.stdout], [1, '']);
    assert.equal(missing.stderr, 'vitrine: There is no schema nope. Other schemas: other, public.\n');
    await database.sql.unsafe('create view other."has.dot" as select 1 as one');
    const views = await run(['introspect', '--schema', 'other'], { env });
    assert.equal(
      views.stderr,
      'vitrine: No table of the schema other can be served:\n  - other.has.dot is not served: its name contains a dot. A view of it with another name can be served.\n',
    );
    const table = await run(['introspect', '--schema', 'other', '--table', 'w', '--table', 'has.dot'], {
      env,
    });
    assert.equal(table.stderr, 'vitrine: There is no table w in the schema other.\n');
  });

  test('a database that cannot be used is an error without its password', async () => {
    const none = await run(['introspect']);
    assert.deepEqual([none.code, none.stdout], [1, '']);
    assert.match(none.stderr, /DATABASE_URL/);
    const { host } = new URL(database.url);
    for (const DATABASE_URL of [
      `postgres://nobody:hunter2@${host}/none`,
      'postgres://a:hunter2@127.0.0.1:1/x',
    ]) {
      const away = await run(['introspect'], { env: { DATABASE_URL } });
      assert.deepEqual([away.code, away.stdout], [1, '']);
      assert.match(away.stderr, /^vitrine: The database cannot be used: /);
      assert.doesNotMatch(away.stderr, /hunter2|^ +at /m);
    }
  });
});

describe('the registry of Chinook', () => {
  const database = useDatabase(chinookSql('chinook.sql'));

  test('is served as it is printed', async () => {
    const { file, resources } = await introspect(database);
    assert.deepEqual([...resources.keys()], [
      'album', 'artist', 'customer', 'employee', 'genre', 'invoice', 'invoice_line', 'media_type', 'playlist',
      'playlist_track', 'track',
    ]); // prettier-ignore
    assert.deepEqual(resources.get('playlist_track'), {
      model: 'playlist_track',
      primaryKey: { columns: ['playlist', 'track'] },
      columns: {
        playlist: { type: 'foreignKey', references: 'playlist' },
        track: { type: 'foreignKey', references: 'track' },
      },
    });
    assert.deepEqual(resources.get('album'), {
      model: 'album',
      primaryKey: { type: 'integer', column: 'album_id' },
      columns: {
        title: { type: 'string' },
        artist: { type: 'foreignKey', references: 'artist' },
      },
    });
    assert.deepEqual(resources.get('employee')?.columns['reports_to'], {
      type: 'foreignKey',
      references: 'employee',
      column: 'reports_to',
      null: true,
    });
    const objects = await readAll(database, file, resources.keys());
    assert.deepEqual(objects.get('artist')?.[0], { id: 1, name: 'AC/DC' });
  });

  test('has only the tables that were asked for, and no foreign keys to others', async () => {
    const { resources } = await introspect(database, '--table', 'album', '--table', 'genre');
    assert.deepEqual([...resources.keys()], ['album', 'genre']);
    assert.equal(resources.get('album')?.columns['artist_id']?.type, 'integer');
  });
});

describe('vitrine introspect --read', () => {
  const TABLES =
    'create table song (id serial primary key, name text not null); create view songs as select * from song';
  const database = useDatabase(TABLES);

  for (const [level, status] of Object.entries({ user: 200, admin: 403 }))
    test(`${level} prints a registry that is closed from the first start, with a model of those who may read`, async (t) => {
      const fresh = await createDatabase();
      t.after(() => fresh.drop());
      await fresh.sql.unsafe(TABLES).simple();
      const { file, resources, stdout } = await introspect(fresh, '--read', level);
      assert.deepEqual(
        [...resources].map(([name, { read }]) => [name, read]),
        [
          ['user', 'admin'],
          ['song', level],
          ['songs', level],
        ],
      );
      assert.doesNotMatch(stdout, /Everyone/);
      const env = { DATABASE_URL: fresh.url, RESOURCES: file };
      await fresh.sql.unsafe((await run(['schema', '--diff'], { env })).stdout).simple();
      const added = await run(['user', 'add', 'ada'], { env, input: 'correct horse\n' });
      assert.equal(added.code, 0, added.stderr);
      const checked = await run(['check'], { env });
      assert.equal(checked.code, 0, checked.stderr);
      assert.doesNotMatch(checked.stdout + checked.stderr, /anyone can read/);
      const service = await serve(fresh.url, file);
      const authorization = `Basic ${Buffer.from('ada:correct horse').toString('base64')}`;
      assert.equal((await request(service.base, '/api/song/')).status, 401);
      const answer = await request(service.base, '/api/song/', { headers: { authorization } });
      assert.equal(answer.status, status);
      await service.stop();
    });

  test('takes no other level', async () => {
    for (const level of ['default', 'doctor', '']) {
      const { code, stdout, stderr } = await run(['introspect', '--read', level], {
        env: { DATABASE_URL: database.url },
      });
      assert.deepEqual([code, stdout], [2, '']);
      assert.match(stderr, /--read takes user or admin/);
    }
  });
});

describe('the registry of a video rental', () => {
  const database = useDatabase(sqlOf('rental'));

  test('says what each column is, and why some are left out', async () => {
    const { file, resources, stdout, stderr } = await introspect(database);
    const { film, staff, payment, film_actor: filmActor } = Object.fromEntries(resources);
    assert.deepEqual(filmActor?.primaryKey, { columns: ['actor', 'film'] });
    assert.deepEqual(film?.columns, {
      title: { type: 'string', help: 'Title of the "film", as it\'s printed\non the box */ // end' },
      description: { type: 'text', null: true },
      release_year: { type: 'integer', null: true },
      language: { type: 'foreignKey', references: 'language', onDelete: 'cascade' },
      original_language: { type: 'foreignKey', references: 'language', onDelete: 'setNull', null: true },
      rental_duration: { type: 'integer', default: 3 },
      rental_rate: { type: 'decimal', default: 4.99 },
      rating: {
        type: 'string',
        choices: ['G', 'PG', "it's 13+"],
        null: true,
        default: 'G',
      },
      special: { type: 'boolean', default: false },
      attributes: { type: 'json', default: {} },
      last_update: { type: 'datetime', default: 'now' },
      barcode: { type: 'text', null: true, unique: true },
      special_features: { type: 'array', of: 'text', null: true },
      tags: { type: 'array', of: 'string', choices: ['new', 'old'], null: true, default: [] },
      cells: { type: 'array', of: 'integer', null: true },
    });
    for (const [field, type] of [
      ['attachments', 'bytea[]'],
      ['fulltext', 'tsvector'],
      ['available', 'int4range'],
      ['poster', 'bytea'],
      ['length', 'interval'],
      ['grid', 'json[]'],
    ])
      assert.ok(stdout.includes(`// ${field} is left out: no column type supports ${type}.`), field);
    assert.match(
      stdout,
      /fulltext is left out: no column type supports tsvector\. It is required, so no record can be added/,
    );
    assert.deepEqual(staff?.exclude, [
      'password_hash',
      'api_key',
      'reset_token',
      'pw',
      'newpassword',
      'auth_key',
    ]);
    assert.deepEqual(resources.get('visit')?.exclude, ['via'], 'a copy of a secret');
    assert.match(
      stderr,
      /suggest secrets: staff\.password_hash, staff\.api_key, staff\.reset_token, staff\.pw, staff\.newpassword, staff\.auth_key, visit\.via/,
    );
    assert.deepEqual(Object.keys(payment?.columns ?? {}), ['amount', 'paid']);
    for (const [table = '', reason = ''] of [
      ['nothing', 'It has no key'],
      ['person', 'Other tables inherit from it (member), and its key is not unique across their rows'],
      ['interval_key', 'Its key every is interval'],
    ]) {
      assert.ok(stdout.includes(`model: '${table}',\n    // ${reason}`), table);
      assert.equal(resources.get(table)?.primaryKey, false, table);
    }
    assert.match(stdout, /login_session is not served: the name of its key session_token suggests a secret/);

    assert.deepEqual(resources.get('film_list')?.primaryKey, { type: 'integer' });
    assert.match(
      stdout,
      /model: 'film_totals',\n {4}view: true,\n {4}\/\/ It is a materialized view, and nothing proves which/,
    );
    assert.match(stdout, /^ {4}\/\/ primaryKey: \{ columns: \['count'\] \},\n {4}primaryKey: false,$/m);

    assert.match(stdout, /^\/\/ payment: its \d*\s?partitions? (is|are) served with it\.$/m);

    const objects = await readAll(database, file, resources.keys());
    assert.equal(objects.get('film')?.length, 1);
    assert.doesNotMatch(JSON.stringify([...objects]), /hunter2/);
    assert.equal(objects.get('payment')?.length, 1);
  });
});

describe('the registry of a schema with awkward names', () => {
  const database = useDatabase(sqlOf('awkward'));

  test('is served as it is printed', async () => {
    const { file, resources, stdout } = await introspect(database);
    const objects = await readAll(database, file, resources.keys());
    const [order, person, select, odd] = ['order_detail', 'person', 'select', 'odd_names'].map((name) =>
      resources.get(name),
    );
    const long = [...resources.values()].find(({ table }) => table === 'x'.repeat(63));
    assert.equal(order?.table, 'Order Detail');
    assert.deepEqual(order?.primaryKey, { type: 'uuid', column: 'Detail ID' });
    assert.deepEqual(order?.columns, {
      billed_to: { type: 'foreignKey', references: 'person', column: 'Billed To' },
      shipped_to: { type: 'foreignKey', references: 'person', column: 'ShippedToID', null: true },
      person_email: { type: 'string', column: 'PersonEmail', null: true },
      unit_price: { type: 'decimal', column: 'Unit Price' },
      quantity: { type: 'integer', default: 1 },
      total: { type: 'decimal', null: true },
      at: { type: 'datetime', default: 'now' },
    });
    assert.deepEqual(order?.readonly, ['total']);
    assert.match(
      stdout,
      /PersonEmail refers to E-Mail of person, which is not the key that serves as its id\./,
    );
    assert.deepEqual(person?.primaryKey, { type: 'bigint', column: 'Person No' });
    assert.deepEqual(person?.columns['parent'], {
      type: 'foreignKey',
      references: 'person',
      null: true,
    });
    assert.equal(objects.get('person')?.length, 2);
    assert.deepEqual(Object.keys(select?.columns ?? {}), ['from', 'where', 'group', 'user']);
    assert.deepEqual(
      Object.entries(odd?.columns ?? {}).map(([name, { column }]) => [name, column]),
      [
        ['id_2', 'id'],
        ['ordering_2', 'ordering'],
        ['limit_2', 'limit'],
        ['page_2', 'page'],
        ['trailing', 'trailing_'],
        ['a_b', 'a__b'],
        ['a_b_2', 'a b'],
        ['column', '!!!'],
        ['constructor', undefined],
        ['proto', '__proto__'],
        ['aeccent', 'äccent'],
        ['the_case', 'theCase'],
        ['quote_d', 'quote"d\\'],
      ],
    );
    assert.ok(long && long.model.length <= 60);
    assert.deepEqual(resources.get('the_vitrine_like')?.columns, { name: { type: 'text' } });
    for (const text of [
      'has.dot is not served: its name contains a dot.',
      'counted refers to person on delete set default.',
      'must refers to person on delete set null, but is NOT NULL.',
      'elsewhere refers to a table that is not served.',
    ])
      assert.ok(stdout.includes(`// ${text}`), `${text}\n${stdout}`);
    assert.deepEqual(resources.get('pair')?.primaryKey, { columns: ['a', 'b'] });
    assert.deepEqual(resources.get('child')?.columns['child'], { type: 'foreignKey', references: 'person' });
  });

  test('names the schema where it is not one that is searched', async () => {
    const { file, resources } = await introspect(database, '--schema', 'Far Away');
    assert.deepEqual(
      [...resources.values()].map(({ model, table }) => [model, table]),
      [['person', 'Far Away.person']],
    );
    await readAll(database, file, resources.keys());
  });

  test('leaves out what the role may not read', async () => {
    const { url } = await database.addRole(
      'grant select on person to ROLE; grant select ("from") on "select" to ROLE',
    );
    const { stdout, resources, file } = await introspect({ ...database, url });
    assert.deepEqual([...resources.keys()], ['person']);
    assert.match(stdout, /^\/\/ select is not served: the database role may not read it\. Grant it select/m);
    await readAll({ ...database, url }, file, resources.keys());
  });
});

const PEOPLE: readonly (readonly [columns: string, label: string | undefined])[] = [
  ['title text, first_name text not null, last_name text not null', '{first_name} {last_name}'],
  ['"Title" text, "FirstName" text, "LastName" text', '{first_name} {last_name}'],
  ['title text, surname varchar(40), given_name varchar(40)', '{given_name} {surname}'],
  ['title text, username text, forename text, family_name text', '{forename} {family_name}'],
  ['title text, first_name text, last_name text, full_name text', 'full_name'],
  ['name text, first_name text, last_name text', undefined],
  ['title text, first_name text', undefined],
  ['title text, first_name integer, last_name integer', undefined],
];
test('people are labeled by their first and last name, not by a title', async (t) => {
  const database = await createDatabase();
  t.after(() => database.drop());
  const tables = PEOPLE.map(
    ([columns], index) => `create table p${index} (id integer primary key, ${columns})`,
  );
  await database.sql.unsafe(tables.join(';')).simple();
  const { resources } = await introspect(database);
  for (const [index, [columns, label]] of PEOPLE.entries())
    assert.equal((resources.get(`p${index}`) as Resource | undefined)?.admin?.label, label, columns);
  const service = await startService([user, ...([...resources.values()] as Resource[])], {
    prepare: (sql) =>
      sql
        .unsafe(`${tables.join(';')}; insert into p0 values (1, 'Sales Representative', 'Jane', 'Peacock')`)
        .simple(),
  });
  t.after(() => service.close());
  await service.addUser('ada', { admin: true });
  assert.match((await (await logIn(service, 'ada')).get('/admin/p0/1/')).text, /<h1>Jane Peacock<\/h1>/);
});

test('defaults and network addresses are printed as the registry has them, and what it cannot have is left out', async (t) => {
  const database = await createDatabase();
  t.after(() => database.drop());
  await database.sql
    .unsafe(
      String.raw`create table moments (id serial primary key,
      a date not null default current_date, b date not null default current_date + 30,
      c timestamptz not null default now(), d timestamptz not null default now() + interval '1 day',
      e timestamp not null default (now() at time zone 'utc'), f timestamp not null default (now() at time zone 'Asia/Tokyo'),
      g timestamp(0) not null default current_timestamp(0), h time not null default localtime + interval '1 hour',
      path text not null default 'C:\temp', doc jsonb not null default '{"a":"x\\y"}');
    create table numbers (id serial primary key,
      a double precision not null default 0.0, b real not null default 1.50, c double precision not null default -2.50,
      d double precision not null default 0.12345678901234567890, e double precision not null default 1,
      f double precision not null default 0.1 + random(), g integer not null default -7,
      h numeric(6, 2) not null default 1.50, i numeric not null default 12345678901234567890, j bigint not null default 9007199254740993);
    create table host (id serial primary key, ip inet unique not null, net cidr, mac macaddr, long macaddr8, ips inet[]);
    create table access_point (ip inet primary key default '0.0.0.0', at integer not null default 0)`,
    )
    .simple();
  const { resources, file, stdout } = await introspect(database);
  const defaultsOf = (name: string): Record<string, unknown> =>
    Object.fromEntries(
      Object.entries(resources.get(name)?.columns ?? {}).map(([column, definition]) => [
        column,
        definition['default'],
      ]),
    );
  assert.deepEqual(defaultsOf('moments'), {
    a: 'now',
    b: undefined,
    c: 'now',
    d: undefined,
    e: 'now',
    f: undefined,
    g: 'now',
    h: undefined,
    path: String.raw`C:\temp`,
    doc: { a: String.raw`x\y` },
  });
  assert.deepEqual(defaultsOf('numbers'), {
    a: 0,
    b: 1.5,
    c: -2.5,
    d: 0.12345678901234568,
    e: 1,
    f: undefined,
    g: -7,
    h: '1.50',
    i: '12345678901234567890',
    j: '9007199254740993',
  });
  assert.deepEqual(resources.get('host')?.columns, {
    ip: { type: 'inet', unique: true },
    net: { type: 'cidr', null: true },
    mac: { type: 'macaddr', null: true },
    long: { type: 'macaddr', null: true },
  });
  assert.ok(stdout.includes('// ips is left out: no column type supports inet[].'));
  const point = resources.get('access_point');
  assert.deepEqual(point?.primaryKey, { columns: ['ip'] });
  assert.deepEqual(point?.columns['ip'], { type: 'inet', default: '0.0.0.0' });
  await readAll(database, file, resources.keys());
});

test('columns whose names suggest a secret are excluded, and no others', async (t) => {
  const database = await createDatabase();
  t.after(() => database.drop());
  const secret = ['pass', 'passphrase', 'pwd', 'hash', 'salt', 'salt2', 'apiKey', 'private_key', 'credentials', 'otp', 'pin', 'cvv', 'ssn', 'iban', 'client_secret', 'access_tokens']; // prettier-ignore
  const harmless = ['passenger', 'basalt', 'key', 'opinion', 'spin', 'secretary', 'tokenized', 'hashtag'];
  const columns = [...secret, ...harmless].map((name) => `"${name}" text`).join();
  await database.sql.unsafe(`create table vault (id serial primary key, ${columns})`);
  const { resources, stderr } = await introspect(database);
  const excluded = (resources.get('vault')?.exclude ?? []).map((name) => name.replaceAll('_', ''));
  assert.deepEqual(excluded, secret.map((name) => name.replaceAll('_', '').toLowerCase())); // prettier-ignore
  assert.match(stderr, /vault\.pass, .*vault\.access_tokens/);
});

describe('a database with several schemas', () => {
  const database = useDatabase(
    `create schema north;
        create schema south;
        create schema empty;
        create table region (id serial primary key, name text not null);
        create table north.item (id serial primary key, name text not null);
        create table south.item (id serial primary key, north_id integer not null references north.item);
        create table south.event (id integer, at date not null, primary key (id, at)) partition by range (at);
        create table south.event_1 partition of south.event for values from ('2024-01-01') to ('2025-01-01')
          partition by range (id);
        create table south.event_1a partition of south.event_1 for values from (0) to (10);
        create table south.event_2 partition of south.event for values from ('2025-01-01') to ('2026-01-01');
        create table south.visit (id integer primary key, name text) partition by range (id);
        create table south.visit_1 partition of south.visit for values from (0) to (10);
        create table region_2 partition of south.visit for values from (10) to (20);
        alter table north.item enable row level security;
        insert into north.item (name) values ('a');
        insert into south.item (north_id) values (1)`,
  );

  test('is read from all schemas that are named, with prefixes for equal names', async () => {
    const { file, resources, stdout } = await introspect(database, '--schema', 'north', '--schema', 'south');
    assert.deepEqual([...resources.keys()], ['north_item', 'event', 'south_item', 'visit']);
    const { identity } = resources.get('north_item') as Resource;
    assert.equal(identity, true);
    assert.equal('identity' in (resources.get('south_item') ?? {}), false);
    assert.deepEqual(resources.get('south_item')?.columns, {
      north: { type: 'foreignKey', references: 'north_item' },
    });
    for (const line of [
      'south.event: its 3 partitions are served with it.',
      'south.visit: its 2 partitions are served with it.',
      "north.item has row-level security. Its policies see one role, that of the service: with identity they can ask for current_setting('vitrine.user', true).",
      'Not read: the schema public (--schema NAME).',
    ])
      assert.ok(stdout.includes(`\n// ${line}\n`), line);
    assert.doesNotMatch(stdout, /event_1|visit_1|region_2/);
    const objects = await readAll(database, file, resources.keys());
    assert.deepEqual(objects.get('south_item'), [{ id: 1, north_id: 1 }]);
  });

  test('says which tables are in a schema that the role may not use', async () => {
    const { role, url } = await database.addRole(
      'grant usage on schema north to ROLE; grant select on north.item, south.item to ROLE',
    );
    const reader = { ...database, url };
    const { resources, stdout, file } = await introspect(reader, '--schema', 'north', '--schema', 'south');
    assert.deepEqual([...resources.keys()], ['north_item']);
    assert.match(
      stdout,
      /^\/\/ south\.item is not served: the database role may not see it\. Grant it usage/m,
    );
    await readAll(reader, file, resources.keys());
    const registry = join(await temporaryFolder(), 'resources.mjs');
    const columns = { north_id: { type: 'integer' } };
    const definition = {
      model: 'item',
      table: 'south.item',
      columns,
      constraints: { item_pkey: 'is taken' },
    };
    writeFileSync(registry, `export default ${JSON.stringify([definition])};`);
    const env = { DATABASE_URL: url, RESOURCES: registry };
    const checked = await run(['check'], { env });
    assert.equal(checked.code, 1, checked.stdout);
    assert.match(checked.stderr, /item: table: the database role may not use the schema south$/m);
    const granted = await run(['schema', '--role', role], { env });
    assert.match(granted.stdout, /grant usage on schema "south" to/, granted.stderr);
  });

  test('has a message for schemas that do not exist or have no tables', async () => {
    const env = { DATABASE_URL: database.url };
    for (const [words, message] of [
      [['north', 'nowhere'], 'There is no schema nowhere. Other schemas: empty, public, south.'],
      [['empty'], 'The schema empty has no tables. Other schemas: north, public, south.'],
    ] as const) {
      const { code, stderr } = await run(['introspect', ...words.flatMap((name) => ['--schema', name])], {
        env,
      });
      assert.equal(code, 1);
      assert.ok(stderr.includes(message), stderr);
    }
  });

  test('is printed as TypeScript that checks itself', async () => {
    const env = { DATABASE_URL: database.url };
    const { stdout } = await run(['introspect', '--typescript'], { env });
    assert.match(stdout, /\nimport type \{ Resource \} from 'vitrine';\n\nexport default \[\n/);
    assert.match(stdout, /\n\] as const satisfies readonly Resource\[\];\n$/);
  });
});

/** Tables with a column that a trigger fills, or may fill. */
const BUILT_IN: readonly {
  readonly about: string;
  readonly extension?: string;
  /** The columns besides `id` and `name`. */
  readonly columns: string;
  /** Of the table `{}`, without `for each row` and `function`. */
  readonly trigger: string;
  readonly isFilled: boolean;
}[] = [
  {
    about: 'tsvector_update_trigger',
    columns: 'words tsvector not null',
    trigger: `before insert or update on {} execute tsvector_update_trigger(words, 'pg_catalog.english', name)`,
    isFilled: true,
  },
  {
    about: 'tsvector_update_trigger for a column with another name than ASCII has',
    columns: '"wörter \\" tsvector not null',
    trigger: `before insert on {} execute tsvector_update_trigger("wörter \\", 'pg_catalog.english', name)`,
    isFilled: true,
  },
  {
    about: 'tsvector_update_trigger_column',
    columns: `words tsvector not null, config regconfig not null default 'english'`,
    trigger: 'before insert on {} execute tsvector_update_trigger_column(words, config, name)',
    isFilled: true,
  },
  {
    about: 'tsvector_update_trigger with a condition',
    columns: 'words tsvector not null',
    trigger: `before insert on {} when (new.name > 'm') execute tsvector_update_trigger(words, 'pg_catalog.english', name)`,
    isFilled: false,
  },
  {
    about: 'tsvector_update_trigger for updates',
    columns: 'words tsvector not null',
    trigger: `before update on {} execute tsvector_update_trigger(words, 'pg_catalog.english', name)`,
    isFilled: false,
  },
  {
    about: 'PL/pgSQL for a column of a type that is not served',
    columns: 'words tsvector not null',
    trigger: 'before insert on {} execute words()',
    isFilled: false,
  },
  {
    about: 'suppress_redundant_updates_trigger, which fills nothing,',
    columns: 'words tsvector',
    trigger: 'before update on {} execute suppress_redundant_updates_trigger()',
    isFilled: true,
  },
  {
    about: 'insert_username',
    extension: 'insert_username',
    columns: 'editor text not null',
    trigger: 'before insert on {} execute insert_username(editor)',
    isFilled: true,
  },
  {
    about: 'autoinc',
    extension: 'autoinc',
    columns: 'a integer not null, b integer not null',
    trigger: 'before insert on {} execute autoinc(a, counter, b, counter)',
    isFilled: true,
  },
  {
    about: 'moddatetime for a column with a default',
    extension: 'moddatetime',
    columns: 'changed timestamp not null default now()',
    trigger: 'before update on {} execute moddatetime(changed)',
    isFilled: true,
  },
];

const builtInSql = ({ extension, columns, trigger }: (typeof BUILT_IN)[number], index: number): string => {
  const [when = '', call = ''] = trigger.replace('{}', `b${index}`).split(' execute ');
  const sql = `create table b${index} (id int generated by default as identity primary key, name text not null, ${columns});
    create trigger fill ${when.replace(/( when .*)?$/, ' for each row$1')} execute function ${call};`;
  return extension === undefined
    ? sql
    : `do $do$ begin
      if exists (select from pg_available_extensions where name = '${extension}') then
        create extension ${extension}; ${sql}
      end if;
    end $do$;`;
};

const TABLE = '(id int generated by default as identity primary key, slug text not null, name text not null)';
const TRIGGERS = [
  `create function slug() returns trigger language plpgsql as $f$ begin
    new.slug := lower(new.name); return new;
  end $f$;
  create table one ${TABLE};
  create trigger one_slug before insert on one for each row execute function slug();
  create table two ${TABLE};
  create trigger a before insert on two for each row execute function slug();
  create trigger b before insert on two for each row when (new.name > 'm') execute function slug();
  create table off ${TABLE};
  create trigger off_slug before insert on off for each row execute function slug();
  alter table off disable trigger off_slug;
  create table after_insert ${TABLE};
  create trigger later after insert on after_insert for each row execute function slug();
  create trigger each_update before update on after_insert for each row execute function slug();
  create view seen as select * from one;
  create sequence counter;
  create function words() returns trigger language plpgsql as $f$ begin
    new.words := to_tsvector(new.name); return new;
  end $f$;`,
  ...BUILT_IN.map(builtInSql),
].join('\n');

describe('the registry of a schema with triggers', () => {
  let text: string;
  let resources: Resource[];
  let service: TestService;
  before(async () => {
    ({ text, resources, service } = await serveIntrospected(TRIGGERS));
  });
  after(() => service.close());

  const commentsOf = (model: string): string =>
    [...(text.split(`model: '${model}',`)[1]?.split('model: ')[0] ?? '').matchAll(/\/\/ (.*)/g)]
      .map(([, comment]) => comment)
      .join(' ');
  const add = (model: string) =>
    service.request(`/api/${model}/`, { method: 'POST', user: 'ada', body: { name: 'Zed' } });

  for (const [index, { about, extension, isFilled }] of BUILT_IN.entries())
    test(`a table with ${about} ${isFilled ? 'keeps its POST' : 'has no POST'}`, async (t) => {
      const model = `b${index}`;
      const resource = resources.find((one) => one.model === model);
      if (extension && !resource) return t.skip(`this PostgreSQL has no extension ${extension}`);
      assert.deepEqual(resource?.methods, isFilled ? undefined : ['GET', 'PUT', 'DELETE']);
      const { status, text: answer } = await add(model);
      assert.equal(status, isFilled ? 201 : 405, answer);
      const ada = await logIn(service, 'ada');
      assert.equal((await ada.get(`/admin/${model}/-/add/`)).status, isFilled ? 200 : 404);
    });

  for (const [model, triggers] of [
    ['one', 'the trigger one_slug'],
    ['two', 'the triggers a and b'],
  ] as const)
    test(`the comment to complete names ${triggers}`, async () => {
      const resource = resources.find((one) => one.model === model);
      assert.deepEqual([resource?.columns['slug'], resource?.methods], [{ type: 'text' }, undefined]);
      assert.equal(
        commentsOf(model),
        `Before an INSERT, ${triggers} may fill slug and name: add default: 'database' to what is always filled.`,
      );
      assert.equal((await add(model)).status, 400);
    });

  for (const model of ['off', 'after_insert', 'seen'])
    test(`triggers that are disabled, or run at another time, have no comment: ${model}`, () =>
      assert.equal(commentsOf(model), ''));
});

const LOGIN = `{ model: 'login', columns: { username: { type: 'string', unique: true }, password: { type: 'password' },
  active: { type: 'boolean', default: true }, admin: { type: 'boolean', default: false } }, read: 'admin', exclude: ['password'] },`;

const OTHER =
  'If this table is not the users of Vitrine, add another model, such as login, and set USER_MODEL=login.';

describe('vitrine introspect and a table named user', () => {
  const database = useDatabase();
  beforeEach(() => database.sql.unsafe('drop schema public cascade; create schema public').simple());

  const introspected = async (sql: string): Promise<string> => {
    await database.sql.unsafe(sql).simple();
    return (await introspect(database)).stdout;
  };
  /** Adds a user with the registry. */
  const addUser = async (text: string, env: Record<string, string> = {}): Promise<Ended> => {
    const RESOURCES = join(await temporaryFolder(), 'resources.mjs');
    writeFileSync(RESOURCES, text);
    const settings = { DATABASE_URL: database.url, RESOURCES, ...env };
    const { stdout } = await run(['schema', '--diff'], { env: settings });
    await database.sql.unsafe(stdout).simple();
    return run(['user', 'add', 'ada'], { env: settings, input: 'correct horse\n' });
  };
  const remarkOf = (text: string): string[] => text.match(/^\/\/ user\b.*$/gm) ?? [];

  test('it says why the service cannot use it, and how it gets users then', async () => {
    const text = await introspected(
      'create table "user" (id serial primary key, username text not null, active integer not null)',
    );
    assert.deepEqual(remarkOf(text), [
      `// user cannot be the user model: columns.username.unique must be true in the user model; columns.password the user model must have this column; columns.active.type must be boolean in the user model; columns.admin the user model must have this column. ${OTHER}`,
    ]);
    const added = await addUser(text.replace('export default [', `$&${LOGIN}`), { USER_MODEL: 'login' });
    assert.equal(added.code, 0, added.stderr);
  });

  test('a table without a key cannot be the user model', async () => {
    const text = await introspected(
      'create table other (id serial primary key); create table "user" (a text)',
    );
    const missing = ['username', 'password', 'active', 'admin'].map(
      (name) => `columns.${name} the user model must have this column`,
    );
    assert.deepEqual(remarkOf(text), [
      `// user cannot be the user model: primaryKey must have a type in the user model: { type, column } and not { columns }; ${missing.join('; ')}. ${OTHER}`,
    ]);
  });

  test('if only the type of the password differs, the type would help', async () => {
    const text =
      await introspected(`create table "user" (id serial primary key, username text not null unique,
      password text not null, active boolean not null default true, admin boolean not null default false)`);
    assert.deepEqual(remarkOf(text), [
      `// user cannot be the user model: columns.password.type must be password in the user model. ${OTHER}`,
    ]);
    const added = await addUser(text.replace("password: { type: 'text'", "password: { type: 'password'"));
    assert.equal(added.code, 0, added.stderr);
  });

  test('with --read, no user model is added beside such a table', async () => {
    await database.sql.unsafe('create table "user" (id serial primary key, name text not null)');
    const { resources, stdout } = await introspect(database, '--read', 'user');
    assert.deepEqual([...resources.keys()], ['user']);
    assert.equal(remarkOf(stdout).length, 1);
  });

  test('without such a table, nothing is said of it', async () => {
    assert.deepEqual(remarkOf(await introspected('create table users (id serial primary key)')), []);
  });
});

describe('the registry of a schema with unusual keys', () => {
  const SCHEMA = sqlOf('keys');
  let text: string;
  let resources: Resource[];
  let service: TestService;
  let ada: Browser;
  before(async () => {
    ({ text, resources, service } = await serveIntrospected(SCHEMA));
    ada = await logIn(service, 'ada');
  });
  after(() => service.close());

  const find = (model: string): Resource | undefined => resources.find((one) => one.model === model);

  const send = (method: string, path: string, body?: unknown) =>
    service.request(`/api/${path}`, { method, user: 'ada', ...(body === undefined ? {} : { body }) });
  const ids = async (path: string): Promise<unknown[]> => {
    const { status, json, text: answer } = await send('GET', path);
    assert.equal(status, 200, answer);
    return (json.objects as { id: unknown }[]).map(({ id }) => id);
  };

  test('the key is the one that foreign keys refer to', () => {
    assert.deepEqual(find('account'), {
      model: 'account',
      columns: { code: { type: 'text', unique: true } },
    });
    assert.deepEqual(find('booking')?.columns['account'], { type: 'foreignKey', references: 'account' });
  });

  test('a key that is a foreign key, a date or has a plain default is a column', () => {
    assert.deepEqual(find('profile'), {
      model: 'profile',
      primaryKey: { columns: ['person'] },
      columns: {
        person: { type: 'foreignKey', references: 'person', onDelete: 'cascade' },
        motto: { type: 'text', null: true },
      },
    });
    assert.deepEqual(find('document')?.columns['person'], {
      type: 'foreignKey',
      references: 'person',
      column: 'id',
    });
    assert.deepEqual(find('holiday')?.primaryKey, { columns: ['day'] });
    assert.deepEqual(find('label')?.columns['word'], { type: 'string', default: '' });
    assert.deepEqual(find('labeled')?.foreignKeys, { label: { columns: ['word'], references: 'label' } });
    assert.equal(find('contract')?.primaryKey, undefined);
    assert.match(text, /id refers to person\. It is the key that other tables refer to, so it cannot be/);
  });

  test('a table without a key has the SQL that would help', async (t) => {
    const help = [...text.matchAll(/(?:This would help|through a view): (.*)\.$/gm)].map(
      ([, sql = '']) => sql,
    );
    assert.equal(help.length, 3, text);
    const other = await createDatabase();
    t.after(() => other.drop());
    await other.sql.unsafe(SCHEMA).simple();
    for (const sql of help) await other.sql.unsafe(sql);
    const { stdout: after, resources: more } = await introspect(other);
    assert.deepEqual(
      ['keyless', 'nearly_keyed'].map((name) => more.get(name)?.primaryKey),
      [{ type: 'bigint' }, { columns: ['a', 'b'] }],
    );
    assert.match(after, /^ {4}\/\/ primaryKey: \{ columns: \['record_key'\] \},$/m);
  });

  test('a list in a check constraint, also of a domain, is choices, and other constraints are comments', () => {
    assert.deepEqual(find('ticket')?.columns, {
      state: { type: 'text', choices: ['open', "it's done"], default: 'open' },
      kind: { type: 'string', null: true },
      grade: { type: 'string', choices: ['A', 'B'], null: true },
      weight: { type: 'integer', choices: [1, 2, -3], null: true },
      priority: { type: 'integer' },
      hours: { type: 'decimal', null: true },
      price: { type: 'decimal', null: true },
      note: { type: 'text', null: true },
      code: { type: 'text', null: true },
    });
    for (const comment of [
      `kind: PostgreSQL checks (((kind)::text = 'a'::text) OR ((kind)::text = 'b, c'::text)).`,
      'priority: PostgreSQL checks ((priority >= 1) AND (priority <= 5)). Add min and max if it bounds the value.',
      'note: PostgreSQL checks (length(note) > 3).',
    ])
      assert.ok(text.includes(`      // ${comment}\n`), comment);
    assert.doesNotMatch(text, /(state|grade|weight): PostgreSQL/);
  });

  test('the admin area offers no form for new records that need a hidden column', async () => {
    assert.deepEqual(find('door')?.admin, { allow: ['change', 'delete'], exclude: ['pin'] });
    assert.match(text, /A new record needs one of them/);
    assert.equal((await send('POST', 'door/', { pin: '1234' })).status, 201);
    assert.equal((await ada.get('/admin/door/-/add/')).status, 404);
  });

  test('keys that are foreign keys, dates, or texts with a default are served', async () => {
    for (const name of ['Ann', 'Bob']) await send('POST', 'person/', { name });
    for (const id of [1, 2]) {
      const added = await send('POST', 'profile/', { person_id: id, motto: `m${id}` });
      assert.deepEqual([added.status, added.json], [201, { id: `${id}`, person_id: id, motto: `m${id}` }]);
    }
    assert.deepEqual(await ids('profile/?person__name=Bob'), ['2']);
    assert.equal((await send('PUT', 'profile/2/', { person_id: 1 })).status, 400);
    assert.equal((await send('POST', 'holiday/', { day: '2026-01-06', name: 'Epiphany' })).status, 201);
    assert.equal((await send('GET', 'holiday/2026-01-06/')).json['name'], 'Epiphany');
    const label = await send('POST', 'label/', { word: 'a, b', meaning: 'list' });
    assert.equal(label.json['id'], 'a, b');
    assert.equal((await send('POST', 'labeled/', { word: 'a, b' })).status, 201);
    assert.equal((await send('POST', 'labeled/', { word: 'c' })).status, 400);
    assert.deepEqual(await ids('labeled/?label__meaning=list'), [1]);
    assert.equal((await send('DELETE', 'label/a%2C%20b/')).status, 409);
    const cascade = await ada.get('/admin/person/2/delete/');
    assert.match(readable(cascade), /1 record of Profile, by “Person”/);
    const gone = await ada.post('/admin/person/2/delete/', hiddenFields(cascade, 'confirm'));
    assert.equal(gone.status, 303, readable(gone));
    assert.deepEqual(await ids('profile/'), ['1']);
  });
});

describe('the views of a database', () => {
  const database = useDatabase(
    `create table book (id integer primary key, isbn text not null unique, code text unique, shelf integer);
        insert into book values (1, 'a', 'A', 7), (2, 'b', null, 7);
        create table place (row_no integer, "Seat" text, unique ("Seat", row_no), primary key (row_no, "Seat"));
        create view seats as select "Seat" as seat, row_no + 0 as row_plus, row_no as number from place;
        create view half_of_key as select "Seat" as seat from place;
        create view renamed as select shelf, id as "Book No" from book;
        create view swapped as select shelf as id, id as shelf from book;
        create view by_isbn as select isbn, shelf from book;
        create view nullable as select code, shelf from book;
        create view computed as select id + 0 as id, shelf from book;
        create view nested as select id, isbn from renamed_base;
        create view joined as select a.id, b.isbn from book a cross join book b;
        create view counted as select (select count(id) from book) as id, (select id) as shelf, isbn as own from book;
        create materialized view kept as select id, shelf from book;
        create unique index on kept (id);
        create materialized view with_null as select isbn, code from book;
        create unique index on with_null (code);
        create materialized view loose as select id, shelf from book;
        create table parent (id integer primary key);
        create table child () inherits (parent);
        create view families as select id from parent;
        create view keyless as select array[1] as list;
        create extension file_fdw;
        create server files foreign data wrapper file_fdw;
        create foreign table file (id integer, "a line" text) server files options (filename '/dev/null');
      `.replace('renamed_base', '(select * from book) b'),
  );

  test('have the keys that their tables prove, and none otherwise', async () => {
    const { file, resources, stdout } = await introspect(database);
    const keys = Object.fromEntries([...resources].map(([name, { primaryKey }]) => [name, primaryKey]));
    assert.deepEqual(keys, {
      book: undefined,
      renamed: { type: 'integer', column: 'Book No' },
      swapped: { type: 'integer', column: 'shelf' },
      by_isbn: { type: 'string', column: 'isbn' },
      counted: { type: 'string', column: 'own' },
      kept: { type: 'integer' },
      place: { columns: ['row_no', 'seat'] },
      seats: { columns: ['number', 'seat'] },
      half_of_key: false,
      nested: false,
      nullable: false,
      computed: false,
      joined: false,
      loose: false,
      with_null: false,
      parent: false,
      child: false,
      families: false,
      file: false,
      keyless: false,
    });
    const said = [...resources].filter(([, one]) => 'view' in one).map(([name]) => name);
    const tables = ['book', 'place', 'parent', 'child'];
    assert.deepEqual(
      said.toSorted(),
      Object.keys(keys)
        .filter((name) => !tables.includes(name))
        .toSorted(),
    );
    assert.match(stdout, /model: 'parent',\n {4}\/\/ Other tables inherit from it \(child\), and/);
    assert.match(
      stdout,
      /model: 'keyless',\n {4}view: true,\n {4}\/\/ It is a view, and nothing proves which columns identify a row\.\n {4}primaryKey: false,/,
    );
    const objects = await readAll(database, file, resources.keys());
    assert.deepEqual(objects.get('swapped'), [
      { id: 1, id_2: 7 },
      { id: 2, id_2: 7 },
    ]);
  });

  test('have no proven key without data or while they are refreshed, and a foreign partition is named', async () => {
    await database.sql
      .unsafe(
        `create materialized view unready as select id, isbn from book with no data;
        create unique index on unready (id);
        create table spread (id integer not null) partition by range (id);
        create foreign table spread_1 partition of spread for values from (0) to (10) server files
          options (filename '/dev/null')`,
      )
      .simple();
    const words = ['book', 'unready', 'kept', 'spread'].flatMap((name) => ['--table', name]);
    const { stdout, resources } = await database.sql.begin(async (transaction) => {
      await transaction`refresh materialized view kept`;
      return introspect(database, ...words);
    });
    await database.sql`drop materialized view unready`;
    await database.sql`drop table spread`;
    const keys = ['book', 'kept', 'spread', 'unready'].map((name) => resources.get(name)?.primaryKey);
    assert.deepEqual(keys, [undefined, false, false, false]);
    const reasons = [
      ['unready', 'a materialized view that cannot be read now [(].*[)]'],
      ['kept', 'a materialized view that cannot be read now [(].*[)]'],
      ['spread', 'a partitioned table with a foreign partition'],
    ];
    for (const [name, kind] of reasons)
      assert.match(
        stdout,
        new RegExp(`model: '${name}',\n    view: true,\n    // It is ${kind}, and nothing proves`),
      );
    assert.match(stdout, /spread: its partition is served with it/);
  });

  test('start as they are, and with the keys that their comments propose', async () => {
    const { stdout, file: printed, resources } = await introspect(database);
    await readAll(database, printed, resources.keys());
    const file = join(await temporaryFolder(), 'all.mjs');
    writeFileSync(file, `export default ${JSON.stringify(await withProposedKeys(stdout))}`);
    const objects = await readAll(database, file, ['loose', 'file']);
    assert.equal(objects.get('loose')?.length, 2);
    assert.deepEqual(objects.get('file'), []);
  });
});

const VIEWS = `
  create table customer (id integer primary key, name text not null);
  create table purchase (id integer primary key, customer_id integer not null references customer, paid boolean);
  create table line (purchase_id integer references purchase, line_no integer, item text, primary key (purchase_id, line_no));
  create table tag (name text primary key, color text);
  create table gift (purchase_id integer primary key references purchase, wrapping text);
  create table "Odd Table" ("the key" integer primary key, "a b" text unique not null);
  insert into customer values (1, 'Ann'), (2, 'Bob');
  insert into purchase values (7, 1, true), (8, 1, false);
  insert into line values (7, 1, 'tea'), (7, 2, 'jam'), (8, 1, 'tea');
  insert into tag values ('new', 'red'), ('old', 'grey');
  insert into gift values (7, 'paper');
  insert into "Odd Table" values (1, 'x');
  create view lines as select c.name, p.paid, l.item, l.line_no, l.purchase_id
    from customer c join purchase p on p.customer_id = c.id join line l on l.purchase_id = p.id;
  create view tagged as select p.paid, t.color, p.id as purchase, t.name as tag from purchase p cross join tag t;
  create view gifts as select g.wrapping, g.purchase_id, p.id, p.paid
    from purchase p left join gift g on g.purchase_id = p.id;
  create view totals as select sum(l.line_no) as total, p.paid, p.id as number
    from purchase p join line l on l.purchase_id = p.id group by p.id;
  create view grouped as select p.paid, p.id as number, c.name, count(*)
    from line l join purchase p on l.purchase_id = p.id join customer c on c.id = p.customer_id group by p.id, p.paid, c.name;
  create view owned as select p.id as number, c.name from purchase p, customer c
    where c.id = p.customer_id and exists (select from line l where l.purchase_id = p.id);
  create view multiplied as select p.id as number, c.name from purchase p join customer c on c.id >= p.customer_id;
  create view repeated as select p.id as number, l.item from purchase p left join line l on l.purchase_id = p.id;
  create view outer_joined as select g.purchase_id as number, p.paid from gift g right join purchase p on p.id = g.purchase_id;
  create view optional as select p.id, count(t.name) from tag t left join purchase p on p.id = length(t.name) group by p.id;
  create view nested as select n.item, n.purchase_id as a, n.line_no as b from (select distinct * from lines) n;
  create view "odd view" as select distinct 1 as one, "the key" as "my key", "a b" from "Odd Table";
  alter view "odd view" rename "my key" to "Another Key";
  create view without_key as select c.id, l.item from customer c join purchase p on p.customer_id = c.id
    join line l on l.purchase_id = p.id;
  create view united as select id, name from customer union select id, 'purchase' from purchase;
  create view ring_one as select id, name from customer;
  create view ring_two as select distinct id, name from ring_one;
  create or replace view ring_one as select id, name from ring_two;`;

describe('the views of a database that are not updatable', () => {
  let text: string;
  const database = useDatabase(VIEWS, async () => {
    text = (await introspect(database)).stdout;
  });

  test('have the keys of the tables where their columns come from', async () => {
    const keys = new Map((await withProposedKeys(text)).map(({ model, primaryKey }) => [model, primaryKey]));
    assert.match(text, /^ {4}model: 'lines',\n {4}view: true,\n(?:(?!model|methods).)*^ {2}\},$/ms);
    assert.deepEqual(keys.get('lines'), { columns: ['purchase_id', 'line_no'] });
    assert.deepEqual(keys.get('tagged'), { columns: ['purchase', 'tag'] });
    assert.deepEqual(keys.get('gifts'), { columns: ['id_2'] });
    assert.deepEqual(keys.get('totals'), { columns: ['number'] });
    assert.deepEqual(keys.get('nested'), { columns: ['a', 'b'] });
    assert.deepEqual(keys.get('odd_view'), { columns: ['another_key'] });
  });

  test('say whose keys these are, and what is left to do', () => {
    const about = (view: string): string =>
      new RegExp(
        `model: '${view}',\n    view: true,\n    // It is a view, and nothing proves which columns identify a row\\. (.*?)\\. Its columns must not have null: true, and .npx vitrine check. looks for duplicates:\n    // primaryKey: .*\n    primaryKey: false,`,
      ).exec(text)?.[1] ?? '';
    assert.equal(about('nested'), 'This would be a likely key (of line)');
    assert.equal(about('multiplied'), 'This would be a likely key (of purchase)');
    for (const view of ['without_key', 'united', 'ring_one', 'ring_two'])
      assert.equal(about(view), 'This would be a likely key', view);
  });

  test('fit the database with these keys', async () => {
    const models = ['lines', 'tagged', 'gifts', 'totals', 'nested', 'odd_view'];
    const kept = (await withProposedKeys(text)).filter(({ model }) => models.includes(model));
    const file = join(await temporaryFolder(), 'kept.mjs');
    writeFileSync(file, `export default ${JSON.stringify(kept)}`);
    const env = { DATABASE_URL: database.url, RESOURCES: file, SCHEMA: 'check' };
    const { code, stdout, stderr } = await run(['check'], { env });
    assert.equal(code, 0, stderr);
    assert.match(stdout, /the registry \(6 resources\) fits the database/);
  });
});
