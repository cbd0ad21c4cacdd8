import assert from 'node:assert/strict';
import type { ColumnDefinition, Resource } from '../../src/index.ts';
import { createDatabase, type Sql, type TestDatabase } from '../support.ts';
import { startFaults, startOnce, users } from './helpers.ts';
import { after, before, describe, test } from 'node:test';

const DDL = `
  create table target (id integer generated always as identity primary key, code integer unique);
  create table other (id integer generated always as identity primary key);
  create table differing (
    id bigint generated always as identity primary key,
    typed text not null,
    loose text,
    loose_default text default 'x',
    tight text not null,
    undefaulted text not null,
    undefaulted_null text,
    repeated text not null,
    half text not null,
    unbound integer not null,
    astray integer not null references other (id),
    sidelong integer not null references target (code),
    dropped integer not null references target (id) on delete cascade,
    unknown_to_us text not null,
    unknown_but_fine text not null default '',
    unknown_and_counted integer generated always as identity
  );
  create unique index on differing (half) where half <> '';
  create unique index on differing (repeated, half);
  create unique index on differing (lower(repeated))`;

const toTarget = { type: 'foreignKey', references: 'target' } as const;
const differing: Resource = {
  model: 'differing',
  columns: {
    typed: { type: 'integer' },
    loose: { type: 'text' },
    loose_default: { type: 'text', default: 'x' },
    tight: { type: 'text', null: true },
    undefaulted: { type: 'text', default: 'x' },
    undefaulted_null: { type: 'text', default: 'x', null: true },
    repeated: { type: 'text', unique: true },
    half: { type: 'text', unique: true },
    unbound: { ...toTarget, column: 'unbound' },
    astray: { ...toTarget, column: 'astray' },
    sidelong: { ...toTarget, column: 'sidelong' },
    dropped: { ...toTarget, column: 'dropped' },
    absent: { type: 'text', null: true },
    gone: { ...toTarget, null: true },
  },
  access: 'user',
};
const target: Resource = { model: 'target', columns: {} };
const missing: Resource = { model: 'missing', table: 'old.Missing', columns: {} };

/** Tables that cannot be served, by name, with the expected message. */
const REFUSED: Record<string, [ddl: string, message: RegExp, more?: Partial<Resource>]> = {
  two_keys: [
    'create table two_keys (id integer, b integer, primary key (id, b))',
    /its key is id, b: set primaryKey: \{ columns: \['id', 'b'\] \}/,
  ],
  short_hash: [
    'create table short_hash (id serial primary key, password varchar(60) not null)',
    /password holds 60 characters, but a hash has 97/,
    { columns: { password: { type: 'password' } }, exclude: ['password'] },
  ],
  no_key: ['create table no_key (id integer not null)', /\bid\b.*\bkey\b/],
  maybe_null: ['create table maybe_null (id integer unique)', /\bid\b.*\bkey\b/],
  part_key: [
    'create table part_key (id integer not null); create unique index on part_key (id) where id > 0',
    /\bid\b.*\bkey\b/,
  ],
  other_key: ['create table other_key (code text primary key)', /\bcode\b.*primaryKey/],
  text_key: ['create table text_key (id text primary key)', /\bid\b.*\btext\b.*integer/],
  long_key: ['create table long_key (id bigint primary key)', /\bid\b.*\bbigint\b.*integer/],
  float_key: [
    'create table float_key (id float8 primary key)',
    /\bid\b.*double precision.*bigint/,
    { primaryKey: { type: 'bigint' } },
  ],
  a_view: ['create view a_view as select 1 as id', /primaryKey: is missing: it is a view\b/],
  rich_view: [
    'create view rich_view as select 1 as id, 1 as target_id',
    /primaryKey/,
    { columns: { target: toTarget } },
  ],
  a_matview: [
    'create materialized view a_matview as select 1 as id; create unique index on a_matview (id)',
    /primaryKey: is missing: it is a materialized view/,
  ],
  keyless_view: [
    'create view keyless_view as select 1 as one',
    /there is no column id/,
    { primaryKey: { type: 'integer' } },
  ],
  text_view: [
    "create view text_view as select 'a'::text as id",
    /\bid\b.*\btext\b.*integer/,
    { primaryKey: { type: 'integer' } },
  ],
  short_view: [
    'create view short_view as select 1 as id',
    /there is no column name$/m,
    { primaryKey: { type: 'integer' }, columns: { name: { type: 'text' } } },
  ],
  closed_view: [
    'create view closed_view as select count(*) as id from target',
    /methods: PostgreSQL cannot write to it \(it is a view\): remove PUT, DELETE/,
    { primaryKey: { type: 'bigint' }, methods: ['GET', 'PUT', 'DELETE'] },
  ],
  closed_matview: [
    'create materialized view closed_matview as select 1 as id',
    /methods: .*remove POST/,
    { primaryKey: { type: 'integer' }, methods: ['GET', 'POST'] },
  ],
  forebear: [
    'create table forebear (id integer primary key); create table heir (primary key (id)) inherits (forebear)',
    /inherit from it \(heir\)/,
  ],
  a_sequence: ['create sequence a_sequence', /not a table/],
};

/** PostgreSQL types that no column type of the registry fits. */
const STRANGE = ['interval', 'bytea', 'integer[]', 'point', 'money', 'timetz', 'bit(3)', 'inet[]', 'xml', '"char"', 'int4range', 'target']; // prettier-ignore
const TYPES = ['string', 'text', 'integer', 'bigint', 'float', 'decimal', 'boolean', 'datetime', 'date', 'time', 'uuid', 'inet', 'cidr', 'macaddr', 'json'] as const; // prettier-ignore

/** The objects of a database that a start could change. */
const inventory = async (sql: Sql): Promise<string> => {
  const [row] = await sql`
    select (select string_agg(format('%s %s %s', oid, relname, relkind), e'\n' order by oid) from pg_class
            where relnamespace = 'public'::regnamespace) || (select count(*) from pg_constraint)
           || (select count(*) from pg_attrdef) || (select count(*) from pg_attribute) as all`;
  return String(row?.['all']);
};

describe('a start with a database that does not match the registry', () => {
  let database: TestDatabase;
  before(async () => {
    database = await createDatabase();
    await database.sql.unsafe(DDL);
  });
  after(() => database.drop());

  test('lists all differences with SCHEMA=check, and changes nothing', async () => {
    const before = await inventory(database.sql);
    const faults = await startFaults(database, [users, differing, target, missing], { schema: 'check' });
    assert.equal(await inventory(database.sql), before);
    const expected = [
      /^ {2}- user: .*no table user/,
      /\bdiffering\b.*\bkey id\b.*bigint.*integer/,
      /\bdiffering\b.*\btyped\b.*text.*integer/,
      /\bdiffering\b.*\bloose\b.*NULL/,
      /\bdiffering\b.*\bloose_default\b.*NULL/,
      /\bdiffering\b.*\btight\b.*NOT NULL/,
      /\bdiffering\b.*\bundefaulted\b.*default/,
      /\bdiffering\b.*\bundefaulted_null\b.*default/,
      /\bdiffering\b.*\brepeated\b.*unique/,
      /\bdiffering\b.*\bhalf\b.*unique/,
      /\bdiffering\b.*\bunbound\b.*foreign key to target/,
      /\bdiffering\b.*\bastray\b.*foreign key to target/,
      /\bdiffering\b.*\bsidelong references code of target\b.*key id$/,
      /\bdiffering\b.*\bdropped\b.*cascade.*restrict/,
      /\bdiffering\b.*no column absent\b/,
      /\bdiffering\b.*no column gone_id\b/,
      /\bdiffering\b.*\bunknown_to_us\b.*NOT NULL/,
      /^ {2}- missing: .*no table old\.Missing/,
      /^A start of the service with SCHEMA=apply, the default, creates missing tables/,
    ];
    assert.equal(faults.length, expected.length, faults.join('\n'));
    expected.forEach((pattern, index) => assert.match(faults[index] ?? '', pattern));
  });

  test('accepts a required column that the registry leaves out if neither POST nor the admin area adds records', async () => {
    await database.sql`create table incomplete (id serial primary key, must text not null)`;
    const incomplete: Resource = { model: 'incomplete', columns: {}, access: 'user' };
    assert.match((await startFaults(database, [users, incomplete])).join(), /\bmust\b/);
    const admin = { allow: ['change', 'delete'] } as const;
    await startOnce(database, [users, { ...incomplete, access: 'default', admin }]);
    await startOnce(database, [users, { ...incomplete, methods: ['GET', 'PUT', 'DELETE'], admin }]);
  });

  test('names the primaryKey that fits a key of the table, and accepts it', async () => {
    await database.sql.unsafe(`
      create table aim (id integer primary key);
      create table holiday (day date primary key, name text not null);
      create table host (address inet primary key);
      create table profile (aim_id integer primary key references aim);
      create table country (code varchar(2) primary key)`);
    const aim: Resource = { model: 'aim', columns: {} };
    const day = { type: 'date' } as const;
    const name = { type: 'text' } as const;
    const cases: [model: Resource, hint: string, added?: Resource['columns']][] = [
      [{ model: 'holiday', columns: { day, name } }, "{ columns: ['day'] }"],
      [{ model: 'holiday', columns: { on: { ...day, column: 'day' }, name } }, "{ columns: ['on'] }"],
      [{ model: 'holiday', columns: { name } }, "{ columns: ['day'] }, by their names in columns (add day)", { day }],
      [{ model: 'host', columns: { address: { type: 'inet' } } }, "{ columns: ['address'] }"],
      [{ model: 'profile', columns: { aim: { type: 'foreignKey', references: 'aim' } } }, "{ columns: ['aim'] }"],
      [{ model: 'profile', columns: {} }, "{ type: 'integer', column: 'aim_id' }"],
      [{ model: 'country', columns: {} }, "{ type: 'string', column: 'code' }"],
    ]; // prettier-ignore
    for (const [resource, hint, added] of cases) {
      const faults = await startFaults(database, [aim, resource], { schema: 'check' });
      assert.equal(/: set primaryKey: (.*)$/m.exec(faults.join('\n'))?.[1], hint);
      // Follows the advice.
      const [, columns, type = '', column = ''] =
        /^\{ (?:columns: \['(\w+)'\]|type: '(\w+)', column: '(\w+)') \}/.exec(hint) ?? [];
      const primaryKey = columns === undefined ? { type, column } : { columns: [columns] };
      const advised = { ...resource, primaryKey, columns: { ...resource.columns, ...added } } as Resource;
      await startOnce(database, [aim, advised], { schema: 'check' });
    }
  });

  for (const [name, [ddl, message, more]] of Object.entries(REFUSED)) {
    test(`refuses ${ddl.split(';')[0]} and says why`, async () => {
      await database.sql.unsafe(ddl);
      for (const schema of ['check', 'apply'] as const) {
        const faults = await startFaults(database, [target, { model: name, columns: {}, ...more }], {
          schema,
        });
        assert.match(faults.join('\n'), message, schema);
        assert.match(faults.join('\n'), new RegExp(`\\b${name}\\b`));
      }
    });
  }

  test('reports all columns of unsupported types at once, for every column type', async () => {
    const fields = STRANGE.map((type, index) => `c${index} ${type}`).join(', ');
    await database.sql.unsafe(`create table strange (id serial primary key, ${fields})`);
    for (const type of TYPES) {
      const columns = STRANGE.map((_, index): [string, ColumnDefinition] => [
        `c${index}`,
        { type, null: true },
      ]);
      const faults = await startFaults(database, [
        { model: 'strange', columns: Object.fromEntries(columns) },
      ]);
      assert.equal(faults.length, STRANGE.length, faults.join('\n'));
      STRANGE.forEach((stored, index) => {
        assert.match(faults[index] ?? '', new RegExp(`\\bc${index}\\b`));
        assert.ok(
          faults[index]?.includes(stored === 'timetz' ? 'time with time zone' : stored),
          faults[index],
        );
      });
    }
  });

  test('accepts a child table, and a parent table after its child table is gone', async () => {
    await database.sql.unsafe(`
      create table elder (id integer primary key); create table younger (primary key (id)) inherits (elder)`);
    await startOnce(database, [{ model: 'younger', columns: {} }], { schema: 'check' });
    await database.sql.unsafe('drop table younger');
    await startOnce(database, [{ model: 'elder', columns: {} }], { schema: 'check' });
  });

  test('refuses two resources that name one table in two ways', async () => {
    await database.sql.unsafe('create table one (id integer primary key)');
    for (const schema of ['check', 'apply'] as const) {
      const faults = await startFaults(
        database,
        [
          { model: 'one', columns: {} },
          { model: 'two', table: 'public.one', columns: {}, methods: ['GET'] },
        ],
        { schema },
      );
      assert.deepEqual(faults, ['  - two: table: another resource calls this table one: use this name']);
    }
  });

  test('treats a domain as its base type, also a domain over a domain', async () => {
    await database.sql.unsafe(`
      create domain inner_text as varchar(5); create domain outer_text as inner_text check (value <> '');
      create table nested (id serial primary key, x outer_text)`);
    await startOnce(database, [{ model: 'nested', columns: { x: { type: 'string', null: true } } }]);
  });

  test('names a table that the database role may not read', async () => {
    const role = `reader_${Date.now()}`;
    const url = new URL(database.url);
    await database.sql.unsafe(
      `create role ${role} login password 'p'; grant connect on database ${url.pathname.slice(1)} to ${role}`,
    );
    try {
      [url.username, url.password] = [role, 'p'];
      const faults = await startFaults({ ...database, url: url.href }, [target], { schema: 'check' });
      assert.equal(faults.length, 1);
      assert.match(faults[0] ?? '', /\btarget\b.*(read|SELECT)/);
    } finally {
      await database.sql.unsafe(`drop owned by ${role}; drop role ${role}`);
    }
  });

  test('names sequences and schemas that the database role may not use', async () => {
    const role = `typist_${Date.now()}`;
    const url = new URL(database.url);
    await database.sql.unsafe(`
      create schema kinds; create type kinds.mood as enum ('good', 'bad'); create domain kinds.short as varchar(5);
      create table felt (id serial primary key, mood kinds.mood, word kinds.short, other kinds.short);
      create role ${role} login password 'p'; grant usage on schema public to ${role}; grant all on felt to ${role}`);
    await startOnce(database, [users]);
    await database.sql.unsafe(`grant all on "user" to ${role}`);
    try {
      [url.username, url.password] = [role, 'p'];
      const text = { type: 'string', null: true } as const;
      const felt: Resource = { model: 'felt', columns: { mood: text, word: text }, access: 'user' };
      const faults = await startFaults({ ...database, url: url.href }, [users, felt], { schema: 'check' });
      assert.deepEqual(
        faults.map((fault) => fault.replace(/^.*the database role may not use the /, '')),
        [
          'sequence felt_id_seq',
          'schema kinds, which contains the type of mood',
          'schema kinds, which contains the type of word',
        ],
      );
      await database.sql.unsafe(
        `grant usage on schema kinds to ${role}; grant usage on sequence felt_id_seq to ${role}`,
      );
      await startOnce({ ...database, url: url.href }, [users, felt], { schema: 'check' });
    } finally {
      await database.sql.unsafe(`drop owned by ${role}; drop role ${role}`);
    }
  });

  test('refuses a database with the encoding SQL_ASCII', async () => {
    const url = new URL(database.url);
    url.pathname += '_ascii';
    const name = url.pathname.slice(1);
    await database.sql.unsafe(`create database ${name} template template0 encoding 'SQL_ASCII' locale 'C'`);
    try {
      await assert.rejects(startOnce({ ...database, url: url.href }, [target]), { name: 'StartError', message: /SQL_ASCII.*UTF8/ }); // prettier-ignore
    } finally {
      await database.sql.unsafe(`drop database ${name} with (force)`);
    }
  });

  for (const [setting, value] of [
    ['extra_float_digits', '0'],
    ['array_nulls', 'off'],
  ] as const)
    test(`refuses a database with ${setting} = ${value}`, async () => {
      const name = new URL(database.url).pathname.slice(1);
      await database.sql.unsafe(`alter database ${name} set ${setting} = ${value}`);
      try {
        await assert.rejects(startOnce(database, [target]), {
          name: 'StartError',
          message: new RegExp(setting),
        });
      } finally {
        await database.sql.unsafe(`alter database ${name} reset ${setting}`);
      }
    });

  test('refuses a version that is the same for two changes within a second, and creates none', async () => {
    const columns = { changed: { type: 'datetime', default: 'now' } } as const;
    const dated = { model: 'dated', columns, version: 'changed', access: 'admin' } satisfies Resource;
    await startOnce(database, [users, dated]);
    const created = await database.sql`
      select datetime_precision from information_schema.columns where table_name = 'dated' and column_name = 'changed'`;
    assert.equal(created[0]?.['datetime_precision'], 6);
    await database.sql`alter table dated alter changed type timestamptz(3)`;
    assert.deepEqual(await startFaults(database, [users, dated]), [
      '  - dated: version: changed is timestamp(3) with time zone, but two changes within a second must give it different values: make it timestamp or timestamptz, without a precision',
    ]);
    await database.sql`drop table dated`;
  });

  const sizes: readonly [stored: string, column: ColumnDefinition, expected: RegExp | undefined][] = [
    [
      'varchar(80)',
      { type: 'string', maxLength: 120 },
      /is character varying\(80\), but maxLength is 120: set maxLength: 80$/,
    ],
    ['varchar(80)', { type: 'string', maxLength: 80 }, undefined],
    ['varchar(80)', { type: 'string', maxLength: 20 }, undefined],
    ['varchar(80)', { type: 'string' }, undefined],
    ['char(4)', { type: 'string', maxLength: 5 }, /maxLength is 5: set maxLength: 4$/],
    ['text', { type: 'string', maxLength: 500 }, undefined],
    ['varchar', { type: 'string', maxLength: 500 }, undefined],
    [
      'varchar(30)',
      { type: 'text' },
      /type 'text' without maxLength allows longer values: set maxLength: 30$/,
    ],
    ['varchar(30)', { type: 'text', maxLength: 31 }, /maxLength is 31: set maxLength: 30$/],
    ['varchar(30)', { type: 'text', maxLength: 30 }, undefined],
    ['text', { type: 'text' }, undefined],
    ['varchar(30)[]', { type: 'array', of: 'text' }, /set elements\.maxLength: 30$/],
    [
      'numeric(8,2)[]',
      { type: 'array', of: 'decimal', elements: { precision: 9, scale: 2 } },
      /set elements\.precision: 8, scale: 2$/,
    ],
    ['varchar(3)', { type: 'string', choices: ['a', 'long'] }, /the choice 'long' is longer: remove it$/],
    ['varchar(3)', { type: 'string', choices: ['a', 'öäü'] }, undefined],
    ['numeric(8,-2)', { type: 'decimal', precision: 8, scale: 0 }, /remove precision and scale$/],
    ['varchar(30)[]', { type: 'array', of: 'string', elements: { maxLength: 40 } }, /maxLength is 40/],
    ['varchar(30)[]', { type: 'array', of: 'string' }, undefined],
    ['integer', { type: 'bigint' }, /holds fewer values than type 'bigint': set it to 'integer'$/],
    ['smallint[]', { type: 'array', of: 'bigint' }, /holds fewer values than type 'bigint'/],
    ['smallint', { type: 'integer' }, undefined],
    ['numeric(8,2)', { type: 'decimal', precision: 10, scale: 2 }, /set precision: 8, scale: 2$/],
    ['numeric(8,2)', { type: 'decimal', precision: 8, scale: 3 }, /set precision: 8, scale: 2$/],
    ['numeric(8,2)', { type: 'decimal', precision: 8, scale: 2 }, undefined],
    ['numeric(8,2)', { type: 'decimal' }, undefined],
    ['numeric', { type: 'decimal', precision: 8, scale: 2 }, undefined],
    ['varchar(30) generated always as (upper(code)) stored', { type: 'text' }, undefined],
  ];
  test('reports columns that hold less than the registry allows, and how to write it instead', async () => {
    const stored = sizes.map(([type], index) => `c${index} ${type}`);
    const columns = Object.fromEntries(
      sizes.map(([, column], index) => [`c${index}`, { ...column, null: true }]),
    );
    await database.sql.unsafe(
      `create table sized (id integer primary key, code varchar(30), ${stored.join()})`,
    );
    await database.sql.unsafe(`create view sized_view as select * from sized`);
    const sized: Resource = { model: 'sized', columns };
    const faults = await startFaults(database, [sized], { schema: 'check' });
    for (const [index, [type, column, expected]] of sizes.entries()) {
      const fault = faults.find((one) => one.startsWith(`  - sized: columns.c${index}: `));
      const name = `${type} as ${JSON.stringify(column)}`;
      if (expected) assert.match(fault ?? '', expected, name);
      else assert.equal(fault, undefined, name);
    }
    const view = {
      model: 'sized',
      table: 'sized_view',
      primaryKey: { type: 'integer', column: 'id' },
    } as const;
    await startOnce(database, [{ ...view, columns }], { schema: 'check' });
    await database.sql.unsafe('drop view sized_view; drop table sized').simple();
  });

  test('reports a key that holds less than its type in the registry', async () => {
    await database.sql`create table counted (id serial primary key)`;
    assert.deepEqual(
      await startFaults(database, [{ model: 'counted', primaryKey: { type: 'bigint' }, columns: {} }], {
        schema: 'check',
      }),
      [
        "  - counted: primaryKey: the key id is integer, which holds fewer values than primaryKey type 'bigint': set it to 'integer'",
      ],
    );
    await database.sql`drop table counted`;
  });

  test('does not create a table that two resources use', async () => {
    const columns = { x: { type: 'integer', null: true } } as const;
    const twice = [
      { model: 'newt', columns },
      { model: 'other', table: 'public.newt', columns },
    ];
    await assert.rejects(startOnce(database, twice), /two resources use the same table/);
    assert.equal((await database.sql`select from pg_class where relname = 'newt'`).length, 0);
  });

  test('names a database that does not exist', async () => {
    const url = new URL(database.url);
    url.pathname = '/vitrine_test_that_is_not_there';
    await assert.rejects(startOnce({ ...database, url: url.href }, [target]), { name: 'StartError', message: /vitrine_test_that_is_not_there/ }); // prettier-ignore
  });
});
