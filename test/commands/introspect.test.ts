import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { user } from '../../src/resources/registry.ts';
import type { Resource } from '../../src/index.ts';
import { logIn } from '../admin/support.ts';
import { REPOSITORY, temporaryFolder, type Ended } from '../process/support.ts';
import { createDatabase, request, startService, type TestDatabase } from '../support.ts';
import { run, serve } from './support.ts';
import { after, before, describe, test } from 'node:test';

interface Column {
  readonly type: string;
  readonly [key: string]: unknown;
}
interface Printed {
  readonly model: string;
  readonly table?: string;
  readonly primaryKey?: unknown;
  readonly columns: Readonly<Record<string, Column>>;
  readonly readonly?: readonly string[];
  readonly exclude?: readonly string[];
}

/** Prints the registry of a database, and keeps it in a file. */
async function introspect(
  { url }: TestDatabase,
  ...words: string[]
): Promise<Ended & { file: string; resources: Map<string, Printed> }> {
  const ended = await run(['introspect', ...words], { env: { DATABASE_URL: url } });
  assert.equal(ended.code, 0, ended.stderr);
  const file = join(await temporaryFolder(), 'resources.mjs');
  writeFileSync(file, ended.stdout);
  const module = (await import(pathToFileURL(file).href)) as { default: Printed[] };
  return { ...ended, file, resources: new Map(module.default.map((one) => [one.model, one])) };
}

/** Starts the service on a printed file, as it is, and reads every resource. */
async function readAll(
  { url }: TestDatabase,
  file: string,
  names: Iterable<string>,
): Promise<Map<string, unknown[]>> {
  const service = await serve(url, file);
  const objects = new Map<string, unknown[]>();
  for (const name of names) {
    const { status, json, text } = await request(service.base, `/api/${name}/`);
    assert.equal(status, 200, `${name}: ${text}`);
    objects.set(name, json.objects);
    for (const { id } of json.objects as { id: string | number }[]) {
      const one = await request(service.base, `/api/${name}/${encodeURIComponent(id)}/`);
      assert.equal(one.status, 200, `${name}/${id}: ${one.text}`);
    }
    const { status: added } = await request(service.base, `/api/${name}/`, { method: 'POST', body: {} });
    assert.equal(added, 401, `nobody may write ${name}`);
  }
  await service.stop();
  return objects;
}

const sqlOf = (name: string): string => readFileSync(`test/commands/schemas/${name}.sql`, 'utf8');

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
    await database.sql.unsafe('create view other.v as select 1 as one');
    const views = await run(['introspect', '--schema', 'other'], { env });
    assert.equal(
      views.stderr,
      'vitrine: No table of the schema other can be served:\n  - other.v is a view, and nothing proves which column identifies a row.\n',
    );
    const table = await run(['introspect', '--schema', 'other', '--table', 'w', '--table', 'v'], { env });
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
    for (const [table, reason] of [
      ['nothing', 'it has no key'],
      ['person', 'other tables inherit from it (member), and its key is not unique across their rows'],
      ['login_session', 'the name of its key session_token suggests a secret'],
      ['interval_key', 'its key every is interval'],
    ])
      assert.ok(stdout.includes(`// ${table} is not served: ${reason}`), table);

    assert.deepEqual(resources.get('film_list')?.primaryKey, { type: 'integer' });
    assert.match(stdout, /^ {2}\/\/ film_totals is a materialized view, and nothing proves which column/m);
    assert.match(
      stdout,
      /^ {2}\/\/ {3}primaryKey: \{ type: 'bigint', column: 'count' \}, \/\/ must be unique/m,
    );

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

test('the present moment is a default, and what is added to it is none; a backslash stands for itself', async () => {
  const database = await createDatabase();
  try {
    await database.sql.unsafe(String.raw`create table trial (id serial primary key,
      a date not null default current_date, b date not null default current_date + 30,
      c timestamptz not null default now(), d timestamptz not null default now() + interval '1 day',
      e timestamp not null default (now() at time zone 'utc'), f timestamp not null default (now() at time zone 'Asia/Tokyo'),
      g timestamp(0) not null default current_timestamp(0), h time not null default localtime + interval '1 hour',
      path text not null default 'C:\temp', doc jsonb not null default '{"a":"x\\y"}')`);
    const { resources } = await introspect(database);
    const defaults = Object.entries(resources.get('trial')?.columns ?? {}).map(([name, column]) => [
      name,
      (column as { default?: unknown }).default,
    ]);
    assert.deepEqual(Object.fromEntries(defaults), {
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
  } finally {
    await database.drop();
  }
});

test('a default of a number is printed also with trailing zeros and many digits', async () => {
  const database = await createDatabase();
  try {
    await database.sql.unsafe(`create table trial (id serial primary key,
      a double precision not null default 0.0, b real not null default 1.50, c double precision not null default -2.50,
      d double precision not null default 0.12345678901234567890, e double precision not null default 1,
      f double precision not null default 0.1 + random(), g integer not null default -7,
      h numeric(6, 2) not null default 1.50, i numeric not null default 12345678901234567890, j bigint not null default 9007199254740993)`);
    const { resources, file } = await introspect(database);
    const columns = Object.entries(resources.get('trial')?.columns ?? {});
    assert.deepEqual(Object.fromEntries(columns.map(([name, column]) => [name, column['default']])), {
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
    await readAll(database, file, resources.keys());
  } finally {
    await database.drop();
  }
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

describe('the views of a database', () => {
  let database: TestDatabase;
  before(async () => {
    database = await createDatabase();
    await database.sql
      .unsafe(
        `
        create table book (id integer primary key, isbn text not null unique, code text unique, shelf integer);
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
      )
      .simple();
  });
  after(() => database.drop());

  test('have the keys that their tables prove, and are comments otherwise', async () => {
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
    });
    for (const name of [
      'half_of_key',
      'nullable',
      'computed',
      'nested',
      'joined',
      'loose',
      'with_null',
      'families',
      'file',
    ])
      assert.match(stdout, new RegExp(`^ {2}// {3}model: '${name}',$`, 'm'), name);
    assert.match(stdout, /keyless is not served: it is a view, and none of its columns can be its key/);
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
    assert.deepEqual([...resources.keys()], ['book']);
    for (const name of ['unready', 'kept'])
      assert.match(
        stdout,
        new RegExp(`${name} is a materialized view that cannot be read now [(].*, and nothing proves`),
      );
    assert.match(stdout, /spread is a partitioned table with a foreign partition, and nothing proves/);
    assert.doesNotMatch(stdout, /its partition/);
  });

  test('start with their comments removed', async () => {
    const { stdout } = await introspect(database);
    const file = join(await temporaryFolder(), 'all.mjs');
    writeFileSync(file, stdout.replaceAll(/^ {2}\/\/ ([{}].*| {2}.*)$/gm, '  $1'));
    const objects = await readAll(database, file, ['loose', 'file']);
    assert.equal(objects.get('loose')?.length, 2);
    assert.deepEqual(objects.get('file'), []);
  });
});
