// The registry that `vitrine introspect` prints for a database, served as it is printed.
import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { user } from '../../src/resources/registry.ts';
import type { Resource } from '../../src/index.ts';
import { logIn } from '../admin/support.ts';
import { REPOSITORY, temporaryFolder, type Ended } from '../process/support.ts';
import { createDatabase, startService, type TestDatabase, type TestService } from '../support.ts';
import { introspect, readAll, serveIntrospected, sqlOf } from './introspected.ts';
import { run } from './support.ts';
import { after, before, beforeEach, describe, test } from 'node:test';

describe('vitrine introspect', () => {
  let database: TestDatabase;
  before(async () => (database = await createDatabase()));
  after(() => database.drop());

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

  test('mistakes on the command line are refused, and no password is shown', async () => {
    for (const words of [['--bogus'], ['extra'], ['--schema'], ['--table']]) {
      const { code, stdout, stderr } = await run(['introspect', ...words], {
        env: { DATABASE_URL: database.url },
      });
      assert.deepEqual([code, stdout], [2, ''], words.join());
      assert.match(stderr, /^vitrine introspect: .+\nTry vitrine introspect --help\.\n$/s);
    }
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
    const help = await run(['introspect', '--help']);
    assert.deepEqual([help.code, help.stderr], [0, '']);
    assert.match(help.stdout, /^Usage: vitrine introspect/);
  });
});

describe('the registry of Chinook', () => {
  let database: TestDatabase;
  before(async () => {
    database = await createDatabase();
    const script = readFileSync(join(REPOSITORY, 'examples/chinook/chinook.sql'), 'utf8');
    const isForPsql = /^(\\|(drop|create) database\b)/i;
    await database.sql
      .unsafe(
        script
          .split('\n')
          .filter((line) => !isForPsql.test(line))
          .join('\n'),
      )
      .simple();
  });
  after(() => database.drop());

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

describe('the registry of a video rental', () => {
  let database: TestDatabase;
  before(async () => {
    database = await createDatabase();
    await database.sql.unsafe(sqlOf('rental')).simple();
  });
  after(() => database.drop());

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
      /model: 'film_totals',\n {4}\/\/ It is a materialized view, and nothing proves which/,
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
  let database: TestDatabase;
  before(async () => {
    database = await createDatabase();
    await database.sql.unsafe(sqlOf('awkward')).simple();
  });
  after(() => database.drop());

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
    const { sql } = database;
    const role = `reader_${Date.now()}`;
    await sql
      .unsafe(
        `create role ${role} login password 'x'; grant select on person to ${role};
      grant select ("from") on "select" to ${role}`,
      )
      .simple();
    const url = new URL(database.url);
    url.username = role;
    url.password = 'x';
    try {
      const { stdout, resources, file } = await introspect({ ...database, url: url.href });
      assert.deepEqual([...resources.keys()], ['person']);
      assert.match(
        stdout,
        /^\/\/ select is not served: the database role may not read it\. Grant it select/m,
      );
      await readAll({ ...database, url: url.href }, file, resources.keys());
    } finally {
      await sql.unsafe(`drop owned by ${role}; drop role ${role}`).simple();
    }
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
  let database: TestDatabase;
  before(async () => {
    database = await createDatabase();
    await database.sql
      .unsafe(
        `
        create schema north;
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
      )
      .simple();
  });
  after(() => database.drop());

  test('is read from all schemas that are named, with prefixes for equal names', async () => {
    const { file, resources, stdout } = await introspect(database, '--schema', 'north', '--schema', 'south');
    assert.deepEqual([...resources.keys()], ['north_item', 'event', 'south_item', 'visit']);
    assert.deepEqual(resources.get('south_item')?.columns, {
      north: { type: 'foreignKey', references: 'north_item' },
    });
    for (const line of [
      'south.event: its 3 partitions are served with it.',
      'south.visit: its 2 partitions are served with it.',
      'north.item has row-level security: it applies to the database role of the service, not to its users.',
      'Not read: the schema public (--schema NAME).',
    ])
      assert.ok(stdout.includes(`\n// ${line}\n`), line);
    assert.doesNotMatch(stdout, /event_1|visit_1|region_2/);
    const objects = await readAll(database, file, resources.keys());
    assert.deepEqual(objects.get('south_item'), [{ id: 1, north_id: 1 }]);
  });

  test('says which tables are in a schema that the role may not use', async () => {
    const { sql } = database;
    const role = `visitor_${Date.now()}`;
    await sql
      .unsafe(
        `create role ${role} login password 'x'; grant usage on schema north to ${role};
        grant select on north.item, south.item to ${role}`,
      )
      .simple();
    const url = new URL(database.url);
    url.username = role;
    url.password = 'x';
    const reader = { ...database, url: url.href };
    try {
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
      const env = { DATABASE_URL: url.href, RESOURCES: registry };
      const checked = await run(['check'], { env });
      assert.equal(checked.code, 1, checked.stdout);
      assert.match(checked.stderr, /item: table: the database role may not use the schema south$/m);
      const granted = await run(['schema', '--role', role], { env });
      assert.match(granted.stdout, /grant usage on schema "south" to/, granted.stderr);
    } finally {
      await sql.unsafe(`drop owned by ${role}; drop role ${role}`).simple();
    }
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
  let database: TestDatabase;
  before(async () => (database = await createDatabase()));
  after(() => database.drop());
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

  test('without such a table, nothing is said of it', async () => {
    assert.deepEqual(remarkOf(await introspected('create table users (id serial primary key)')), []);
  });
});
