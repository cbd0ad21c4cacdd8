import assert from 'node:assert/strict';
import { describe, test, type TestContext } from 'node:test';
import { randomInt } from 'node:crypto';
import { type ColumnDefinition, createVitrine, type Resource } from '../../src/index.ts';
import {
  closedAfter,
  createDatabase,
  type Sql,
  startService,
  type TestDatabase,
  type TestService,
  useService,
  sendAs,
  pagesFrom,
  pluck,
  useDatabase,
} from '../support.ts';
import { startFaults, startOnce, startWith, users, useWritable, type WritableService } from './helpers.ts';
import shipped, { note, user } from '../../src/resources/registry.ts';
import { type Fields, fieldsOf, hiddenFields, logIn } from '../admin/support.ts';
import { run } from '../commands/support.ts';
import { schemaFaults } from '../http/openapi.ts';

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
  const database: TestDatabase = useDatabase('', async () => {
    await database.sql.unsafe(DDL);
  });

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
    const { url } = await database.addRole('');
    const faults = await startFaults({ ...database, url }, [target], { schema: 'check' });
    assert.equal(faults.length, 1);
    assert.match(faults[0] ?? '', /\btarget\b.*(read|SELECT)/);
  });

  test('names sequences and schemas that the database role may not use', async () => {
    await startOnce(database, [users]);
    const { role, url } = await database.addRole(`
      create schema kinds; create type kinds.mood as enum ('good', 'bad'); create domain kinds.short as varchar(5);
      create table felt (id serial primary key, mood kinds.mood, word kinds.short, other kinds.short);
      grant usage on schema public to ROLE; grant all on felt, "user" to ROLE`);
    const text = { type: 'string', null: true } as const;
    const felt: Resource = { model: 'felt', columns: { mood: text, word: text }, access: 'user' };
    const faults = await startFaults({ ...database, url }, [users, felt], { schema: 'check' });
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
    await startOnce({ ...database, url }, [users, felt], { schema: 'check' });
  });

  test('refuses a database with the encoding SQL_ASCII', async (t) => {
    const url = new URL(database.url);
    url.pathname += '_ascii';
    const name = url.pathname.slice(1);
    await database.sql.unsafe(`create database ${name} template template0 encoding 'SQL_ASCII' locale 'C'`);
    t.after(async () => database.sql.unsafe(`drop database ${name} with (force)`));
    await assert.rejects(startOnce({ ...database, url: url.href }, [target]), { name: 'StartError', message: /SQL_ASCII.*UTF8/ }); // prettier-ignore
  });

  for (const [setting, value] of Object.entries({ extra_float_digits: '0', array_nulls: 'off' }))
    test(`refuses a database with ${setting} = ${value}`, async (t) => {
      const name = new URL(database.url).pathname.slice(1);
      await database.sql.unsafe(`alter database ${name} set ${setting} = ${value}`);
      t.after(async () => database.sql.unsafe(`alter database ${name} reset ${setting}`));
      await assert.rejects(startOnce(database, [target]), {
        name: 'StartError',
        message: new RegExp(setting),
      });
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
    ['varchar(80)', { type: 'string', maxLength: 120 }, /is character varying\(80\), but maxLength is 120: set maxLength: 80$/],
    ['varchar(80)', { type: 'string', maxLength: 80 }, undefined],
    ['varchar(80)', { type: 'string', maxLength: 20 }, undefined],
    ['varchar(80)', { type: 'string' }, undefined],
    ['char(4)', { type: 'string', maxLength: 5 }, /maxLength is 5: set maxLength: 4$/],
    ['text', { type: 'string', maxLength: 500 }, undefined],
    ['varchar', { type: 'string', maxLength: 500 }, undefined],
    ['varchar(30)', { type: 'text' }, /type 'text' without maxLength allows longer values: set maxLength: 30$/],
    ['varchar(30)', { type: 'text', maxLength: 31 }, /maxLength is 31: set maxLength: 30$/],
    ['varchar(30)', { type: 'text', maxLength: 30 }, undefined],
    ['text', { type: 'text' }, undefined],
    ['varchar(30)[]', { type: 'array', of: 'text' }, /set elements\.maxLength: 30$/],
    ['numeric(8,2)[]', { type: 'array', of: 'decimal', elements: { precision: 9, scale: 2 } }, /set elements\.precision: 8, scale: 2$/],
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
  ]; // prettier-ignore
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

  test('a view is never made, and a start without it names it', async (t) => {
    const report: Resource = {
      model: 'report',
      view: true,
      primaryKey: { type: 'integer' },
      columns: { size: { type: 'bigint', null: true } },
    };
    const line: Resource = {
      model: 'line',
      columns: { report: { type: 'foreignKey', references: 'report', null: true } },
    };
    const { sql } = database;
    for (const schema of ['apply', 'check'] as const) {
      const faults = await startFaults(database, [report], { schema });
      assert.deepEqual(
        faults,
        ['  - report: view: there is no view report: make it in SQL, the service does not'],
        schema,
      );
    }
    assert.equal((await sql`select from pg_class where relname = 'report'`).length, 0);
    await sql`create table report (id integer primary key, size bigint)`;
    assert.match(
      (await startFaults(database, [report])).join(),
      /report: view: report is a table, perhaps made by a start without view: true/,
    );
    await sql`drop table report`;
    const service = closedAfter(
      t,
      await startWith(
        [{ ...report, access: 'user' }, line],
        'create view report as select 1 as id, 2::bigint as size',
      ),
    );
    assert.deepEqual((await service.send('GET', '/api/report/1/')).json, { id: 1, size: '2' });
    const posted = await service.send('POST', '/api/report/', { size: '3' });
    assert.equal(posted.status, 405, posted.text);
    const { json } = await service.send('GET', '/api/openapi.json');
    assert.deepEqual(Object.keys(json.paths['/api/report']), ['get']);
    const made = await service.sql`select from pg_class where relname = 'report' and relkind <> 'v'`;
    assert.equal(made.length, 0);
  });

  test('a view that the registry does not say is a warning with the line to add, unless it is written to', async (t) => {
    const { sql } = database;
    const keyless = { primaryKey: false, columns: { n: { type: 'integer' } } } as const;
    await sql`create table base (id integer primary key)`;
    await sql`create view plain as select id, id as n from base`;
    await sql`create materialized view filled as select 1 as n`;
    await sql`create materialized view unfilled as select 1 as n with no data`;
    t.after(async () => {
      await sql`drop table base cascade`;
      await sql`drop materialized view filled, unfilled`;
    });
    const warnings: string[] = [];
    const log: Parameters<typeof startOnce>[2] = {
      log: (_, entries) =>
        void warnings.push(
          ...entries.filter(({ level }) => level === 'warn').map(({ message }) => String(message)),
        ),
    };
    await startOnce(
      database,
      [
        { model: 'plain', ...keyless },
        { model: 'filled', ...keyless },
        { model: 'unfilled', ...keyless },
      ],
      log,
    );
    const add = 'add view: true, so that no start makes a table in its place';
    const empty =
      'unfilled: the materialized view unfilled has no data yet, so it cannot be read: refresh it';
    assert.deepEqual(warnings.splice(0), [
      `plain: plain is a view: ${add}`,
      `filled: filled is a materialized view: ${add}`,
      `unfilled: unfilled is a materialized view: ${add}`,
      empty,
    ]);
    const key = { primaryKey: { type: 'integer' }, columns: {} } as const;
    await startOnce(
      database,
      [
        { model: 'said', table: 'filled', view: true, ...keyless },
        { model: 'written', table: 'plain', ...key, methods: ['GET', 'DELETE'] },
        { model: 'unfilled', view: true, ...keyless },
      ],
      log,
    );
    assert.deepEqual(warnings, [empty]);
  });

  test('names a database that does not exist', async () => {
    const url = new URL(database.url);
    url.pathname = '/vitrine_test_that_is_not_there';
    await assert.rejects(startOnce({ ...database, url: url.href }, [target]), { name: 'StartError', message: /vitrine_test_that_is_not_there/ }); // prettier-ignore
  });
});

const team: Resource = {
  model: 'team',
  columns: {
    name: { type: 'string', unique: true },
    parent: { type: 'foreignKey', references: 'team', null: true, onDelete: 'setNull' },
    lead: { type: 'foreignKey', references: 'person' },
  },
};

const person: Resource = {
  model: 'person',
  primaryKey: { type: 'uuid', column: 'key' },
  columns: {
    nick: { type: 'string', maxLength: 10, index: true },
    team: { type: 'foreignKey', references: 'team', onDelete: 'cascade', column: 'crew' },
    born: { type: 'date', null: true },
    joined: { type: 'datetime', default: 'now' },
    wakes: { type: 'time', default: '18:30' },
    score: { type: 'decimal', precision: 6, scale: 2, default: 1.5 },
    total: { type: 'decimal', null: true },
    visits: { type: 'bigint', default: '9007199254740993' },
    weight: { type: 'float', default: -0.5 },
    level: { type: 'integer', default: 3 },
    bio: { type: 'text', default: `it's \\ "quoted"` },
    tags: { type: 'json', default: { a: [1, null, "'"] } },
    ok: { type: 'boolean', default: false },
    token: { type: 'uuid', default: '00000000-0000-0000-0000-00000000000A' },
  },
};

/** Every column, index and constraint of the schema public, as PostgreSQL describes them. */
async function describeSchema({ sql }: TestDatabase): Promise<string[]> {
  const rows = await sql.unsafe<{ line: string }[]>(`
    select c.relname || '.' || a.attname || ' ' || format_type(a.atttypid, a.atttypmod) ||
           case when a.attnotnull then ' not null' else '' end ||
           case a.attidentity when 'd' then ' identity' when 'a' then ' identity always' else '' end ||
           case when a.atthasdef then ' default' else '' end as line
    from pg_attribute a join pg_class c on c.oid = a.attrelid
    where c.relnamespace = 'public'::regnamespace and c.relkind in ('r', 'p') and a.attnum > 0 and not a.attisdropped
    union all
    select regexp_replace(indexdef, 'INDEX \\S+ ON public\\.', 'INDEX ON ') from pg_indexes where schemaname = 'public'
    union all
    select conrelid::regclass || ' ' || pg_get_constraintdef(oid) from pg_constraint
    where connamespace = 'public'::regnamespace and contype in ('p', 'u', 'f')`);
  return rows.map(({ line }) => line).sort();
}

describe('SCHEMA=apply', () => {
  const database = useDatabase();

  test('creates tables, keys, defaults, constraints, and an index for each foreign key', async () => {
    await startOnce(database, [team, person]);
    const identity = 'integer not null identity';
    assert.deepEqual(
      await describeSchema(database),
      [
        `team.id ${identity}`,
        'team.name character varying(255) not null',
        'team.parent_id integer',
        'team.lead_id uuid not null',
        'team PRIMARY KEY (id)',
        'team UNIQUE (name)',
        'team FOREIGN KEY (parent_id) REFERENCES team(id) ON DELETE SET NULL',
        'team FOREIGN KEY (lead_id) REFERENCES person(key) ON DELETE RESTRICT',
        'CREATE UNIQUE INDEX ON team USING btree (id)',
        'CREATE UNIQUE INDEX ON team USING btree (name)',
        'CREATE INDEX ON team USING btree (parent_id)',
        'CREATE INDEX ON team USING btree (lead_id)',
        'person.key uuid not null default',
        'person.nick character varying(10) not null',
        'person.crew integer not null',
        'person.born date',
        'person.joined timestamp(0) without time zone not null default',
        'person.wakes time(0) without time zone not null default',
        'person.score numeric(6,2) not null default',
        'person.total numeric',
        'person.visits bigint not null default',
        'person.weight double precision not null default',
        'person.level integer not null default',
        'person.bio text not null default',
        'person.tags jsonb not null default',
        'person.ok boolean not null default',
        'person.token uuid not null default',
        'person PRIMARY KEY (key)',
        'person FOREIGN KEY (crew) REFERENCES team(id) ON DELETE CASCADE',
        'CREATE UNIQUE INDEX ON person USING btree (key)',
        'CREATE INDEX ON person USING btree (nick)',
        'CREATE INDEX ON person USING btree (crew)',
      ].sort(),
    );
  });

  test('stores the defaults of the registry in the database', async () => {
    const key = '00000000-0000-0000-0000-000000000001';
    const [row] = await database.sql.unsafe(`
      with t as (insert into team (name, lead_id) values ('x', '${key}') returning id),
           p as (insert into person (key, nick, crew) select '${key}', 'n', id from t returning *)
      select to_jsonb(p) - 'crew' as person, now() at time zone 'UTC' - joined < interval '1 minute' as now from p`);
    const { joined, ...person } = row?.['person'] as Record<string, unknown>;
    assert.match(String(joined), /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d$/);
    assert.equal(row?.['now'], true);
    assert.deepEqual(person, {
      key,
      nick: 'n',
      born: null,
      wakes: '18:30:00',
      score: 1.5,
      total: null,
      visits: 9007199254740992, // rounded by the driver: see below
      weight: -0.5,
      level: 3,
      bio: `it's \\ "quoted"`,
      tags: { a: [1, null, "'"] },
      ok: false,
      token: '00000000-0000-0000-0000-00000000000a',
    });
    const [{ visits } = {}] = await database.sql`select visits::text from person`;
    assert.equal(visits, '9007199254740993');
  });

  test('a second start changes nothing, and SCHEMA=check accepts the result', async () => {
    const before = await describeSchema(database);
    const lines: string[] = [];
    await startOnce(database, [team, person], { log: (text) => lines.push(text) });
    assert.deepEqual(lines.filter((line) => line.includes('"schema"')), []); // prettier-ignore
    assert.deepEqual(await describeSchema(database), before);
    await startOnce(database, [team, person], { schema: 'check' });
  });

  test('adds columns that are nullable or have a default to a table with rows, and drops nothing', async () => {
    const { sql } = database;
    await sql`create table kept (id serial primary key, old text not null default 'o', wide varchar(500), unique (wide))`;
    await sql`insert into kept (wide) values ('w'), (null)`;
    const before = await describeSchema(database);
    const kept: Resource = {
      model: 'kept',
      columns: {
        wide: { type: 'string', null: true, maxLength: 9 },
        note: { type: 'text', null: true, unique: true },
        state: { type: 'string', default: 'new', index: true },
        team: { type: 'foreignKey', references: 'team', null: true, onDelete: 'cascade' },
      },
    };
    await startOnce(database, [team, person, kept]);
    const after = await describeSchema(database);
    assert.deepEqual(before.filter((line) => !after.includes(line)), []); // prettier-ignore
    const added = [
      'kept.note text',
      'kept.state character varying(255) not null default',
      'kept.team_id integer',
      'kept UNIQUE (note)',
      'kept FOREIGN KEY (team_id) REFERENCES team(id) ON DELETE CASCADE',
      'CREATE UNIQUE INDEX ON kept USING btree (note)',
      'CREATE INDEX ON kept USING btree (state)',
      'CREATE INDEX ON kept USING btree (team_id)',
    ];
    assert.deepEqual(after.filter((line) => !before.includes(line)), added.sort()); // prettier-ignore
    assert.deepEqual(
      [...(await sql`select old, wide, note, state, team_id from kept order by id`)],
      ['w', null].map((wide) => ({ old: 'o', wide, note: null, state: 'new', team_id: null })),
    );
  });

  test('warns when a table that gets a column has others that are not in the registry', async () => {
    const book = (columns: Resource['columns']): Resource => ({ model: 'book', columns });
    const warnings = async (columns: Resource['columns']): Promise<string[]> => {
      const lines: string[] = [];
      await startOnce(database, [book(columns)], {
        log: (_, entries) =>
          void lines.push(
            ...entries.filter(({ level }) => level === 'warn').map(({ message }) => String(message)),
          ),
      });
      return lines;
    };
    await database.sql`create table book (id serial primary key, pages integer, size integer)`;
    const number = { type: 'integer', null: true } as const;
    assert.deepEqual(await warnings({ pages: number, size: number, year: number }), []);
    assert.deepEqual(await warnings({ page_count: number, size: number, year: number }), [
      "book.page_count was created, but the table also has pages, which is not in the registry. If you renamed pages, stop the service, drop the new column, and write column: 'pages' or rename the old one in SQL before the next start",
    ]);
    assert.deepEqual(await warnings({ a: number, b: number, year: number, size: number }), [
      "book.a, book.b were created, but the table also has pages, page_count, which are not in the registry. If you renamed one of them, stop the service, drop the new column, and write column: 'OLD_NAME' or rename the old one in SQL before the next start",
    ]);
    assert.deepEqual(await warnings({ size: number }), []);
    await database.sql`drop table book`;
  });

  test('the default now is in UTC in every time zone', async () => {
    const moment: Resource = {
      model: 'moment',
      columns: {
        at: { type: 'datetime', default: 'now' },
        day: { type: 'date', default: 'now' },
        clock: { type: 'time', default: 'now' },
      },
    };
    await startOnce(database, [moment]);
    for (const zone of ['Pacific/Kiritimati', 'Pacific/Pago_Pago']) {
      const row = await database.sql.begin(async (transaction) => {
        await transaction`select set_config('timezone', ${zone}, true)`;
        const [inserted] = await transaction`
          insert into moment default values
          returning to_jsonb(moment) - 'id' as stored, date_trunc('second', now() at time zone 'UTC') as now`;
        return inserted;
      });
      const [day, clock] = (row?.['now'] as Date).toISOString().slice(0, 19).split('T');
      assert.deepEqual(row?.['stored'], { at: `${day}T${clock}`, day, clock }, zone);
    }
  });

  test('a column under a name that it had before is left alone, and the start names both', async () => {
    const thing = (columns: Resource['columns']): Resource => ({ model: 'thing', columns });
    const text = { type: 'text', null: true } as const;
    await startOnce(database, [thing({ phone: text, size: { type: 'integer', default: 1 } })]);
    const before = await describeSchema(database);
    const renamed = thing({ mobile: { ...text, formerly: ['tel', 'phone'], index: true }, more: text });
    for (const schema of ['apply', 'check'] as const) {
      const faults = (await startFaults(database, [renamed], { schema })).filter((fault) =>
        /mobile/.test(fault),
      );
      assert.deepEqual(faults, [
        '  - thing: columns.mobile: there is no column mobile, but phone, a name that it had before: rename it',
      ]);
      await assert.rejects(startOnce(database, [renamed], { schema }), /`npx vitrine schema --diff` prints/);
    }
    assert.deepEqual(await describeSchema(database), before);
    // A column of another name in the registry is not the one before.
    const kept = { ...text, column: 'phone' } as const;
    await startOnce(database, [thing({ number: kept, mobile: { ...text, formerly: ['phone'] } })]);
    await startOnce(database, [thing({ mobile: { ...text, formerly: ['phone'] } })]);
    await database.sql`drop table thing`;
  });

  test('what rests on a column that is not added is not made, and is no fault of the statement', async () => {
    const grown: Resource = {
      model: 'kept',
      columns: {
        old: { type: 'text', default: 'o' },
        must: { type: 'text' },
      },
      unique: [['old', 'must']],
    };
    const faults = await startFaults(database, [team, person, grown]);
    assert.match(faults[0] ?? '', /there is no column must: set null: true/);
  });

  test('a required column without a default is not added, and the error names it', async () => {
    const grown: Resource = {
      model: 'kept',
      columns: { must: { type: 'text' }, owner: { type: 'foreignKey', references: 'team' } },
    };
    const before = await describeSchema(database);
    const faults = await startFaults(database, [team, person, grown]);
    assert.equal(faults.length, 2, faults.join('\n'));
    assert.match(faults[0] ?? '', /\bkept\b.*\bmust\b/);
    assert.match(faults[1] ?? '', /\bkept\b.*\bowner_id\b/);
    assert.deepEqual(await describeSchema(database), before);
  });

  test('an error rolls all changes back', async () => {
    const twice: Resource = { model: 'kept', columns: { old: { type: 'text', default: 'o', unique: true } } };
    const fresh: Resource = { model: 'fresh', columns: {} };
    const before = await describeSchema(database);
    const retyped: Resource = { model: 'team', columns: { name: { type: 'integer' } } };
    const lines: string[] = [];
    // The message names the failed change and all other differences.
    await assert.rejects(
      startOnce(database, [fresh, twice, retyped], { log: (line) => lines.push(line) }),
      /cannot be applied: [^]*\("old"\)[^]*does not fit[^]* team: /,
    );
    assert.ok(!lines.some((line) => line.includes('"schema"')), 'no change is logged');
    assert.deepEqual(await describeSchema(database), before);
  });
});

test('services that start at the same time on an empty database all succeed', async (t) => {
  const database = closedAfter(t, await createDatabase());
  const all = [...shipped, team, person];
  await Promise.all(Array.from({ length: 4 }, () => startOnce(database, all)));
  await startOnce(database, all, { schema: 'check' });
});

test('string defaults are stored literally, also with standard_conforming_strings = off', async (t) => {
  const database = closedAfter(t, await createDatabase());
  await database.sql.unsafe(`do $$ begin
      execute format('alter database %I set standard_conforming_strings = off', current_database()); end $$`);
  const path = String.raw`C:\temp\new's`;
  await startOnce(database, [{ model: 'place', columns: { path: { type: 'string', default: path } } }]);
  const [row] = await database.sql`insert into place default values returning path`;
  assert.equal(row?.['path'], path);
});

// The system tables: the start creates and checks them like other tables, and their errors are 500.

const sentNote = { method: 'POST', user: 'ada', body: { message: 'Hello.' } };

const names = ['a', 'b', 'c', 'd', 'e'];
const long: Resource = {
  model: 'long',
  primaryKey: { columns: names },
  columns: Object.fromEntries(names.map((name) => [name, { type: 'string' }])),
  access: 'user',
};

describe('the table of the history', () => {
  const service: TestService = useService([...shipped, long], {}, () =>
    service.addUser('ada', { admin: true }),
  );

  test('makes a write 500 and rolls it back if it cannot be written', async () => {
    assert.equal((await service.request('/api/note/', sentNote)).status, 201);
    // As after a restore that did not restore the sequence.
    await service.sql`alter table vitrine_history alter id restart with 1`;
    const answer = await service.request('/api/note/', sentNote);
    assert.equal(answer.status, 500);
    assert.doesNotMatch(answer.text, /vitrine_history|duplicate/);
    assert.ok(service.lines.some(({ message }) => /the history cannot be written/.test(String(message))));
    assert.equal((await service.sql`select 1 from note`).length, 1);
  });

  test('makes a key that is too long for its index 400', async () => {
    // Random characters, which PostgreSQL cannot compress much.
    const character = (): string => String.fromCodePoint(0x4e00 + randomInt(20_000));
    const value = (): string => Array.from({ length: 170 }, character).join('');
    const record = (): object => Object.fromEntries(names.map((name) => [name, value()]));
    for (const body of [record(), [record()]]) {
      const answer = await service.request('/api/long/', { method: 'POST', user: 'ada', body });
      assert.deepEqual(
        [answer.status, answer.json.detail],
        [400, 'The key is too long for the history of changes.'],
      );
    }
    assert.equal((await service.sql`select from long`).length, 0);
  });

  test('stops the start if it has an unknown required column', async () => {
    await service.sql`alter table vitrine_history add reason text not null default ''`;
    await service.sql`alter table vitrine_history alter reason drop default`;
    const again = createVitrine({
      databaseUrl: service.url,
      resources: shipped,
      schema: 'check',
      log: () => undefined,
    });
    await assert.rejects(again, /vitrine_history.*reason/s);
  });
});

test('without a user model, tables with the names of system tables are ignored', async (t) => {
  const database = closedAfter(t, await createDatabase());
  await database.sql.unsafe(
    'create table a (id int primary key); create table vitrine_session (id int primary key); create table vitrine_history (x text)',
  );
  const resources = [{ model: 'a', columns: {} }] satisfies Resource[];
  for (const schema of ['check', 'apply'] as const) {
    const lines: string[] = [];
    const options = {
      databaseUrl: database.url,
      resources,
      schema,
      log: (text: string) => lines.push(text),
    };
    await (await createVitrine(options)).close();
    assert.deepEqual(lines, []);
  }
});

for (const table of ['vitrine_history', 'vitrine_session', 'public.vitrine_history']) {
  test(`a resource cannot use the table ${table}`, async () => {
    const resource = { model: 'log', table, columns: { at: { type: 'datetime' } } } satisfies Resource;
    await assert.rejects(startService([resource]), /log: table: .*vitrine_/);
  });
}

describe('a database role with few privileges', () => {
  const roleOf = async (t: TestContext, rights: string) => {
    const database = closedAfter(t, await createDatabase());
    await startOnce(database, shipped);
    return { database, url: (await database.addRole(rights)).url };
  };
  const all = 'select, insert, update, delete on "user", relationship, message, note';

  test('revokes its own right to change the history when it owns the table', async (t) => {
    const { database, url } = await roleOf(
      t,
      `grant create on schema public to ROLE; grant ${all} to ROLE;
        alter table vitrine_history owner to ROLE; grant all on vitrine_history, vitrine_session to ROLE`,
    );
    const rights = (): Promise<unknown> => database.sql`select
      has_table_privilege(r.rolname, 'vitrine_history', 'update') as update,
      has_table_privilege(r.rolname, 'vitrine_history', 'truncate') as truncate,
      has_table_privilege(r.rolname, 'vitrine_history', 'insert') as insert
      from pg_class c join pg_roles r on r.oid = c.relowner where relname = 'vitrine_history'`;
    assert.deepEqual([...((await rights()) as object[])], [{ update: true, truncate: true, insert: true }]);
    const lines: string[] = [];
    for (const times of [1, 2]) {
      const log = (line: string): void => void lines.push(line);
      const vitrine = await createVitrine({ databaseUrl: url, resources: shipped, port: 0, log });
      await vitrine.close();
      assert.deepEqual(
        [...((await rights()) as object[])],
        [{ update: false, truncate: false, insert: true }],
      );
      assert.equal(
        lines.filter((line) => line.includes('made the history append-only')).length,
        1,
        `start ${times}`,
      );
    }
  });

  test('without CREATE serves the existing tables, and warns about missing system tables', async (t) => {
    const { database, url } = await roleOf(
      t,
      `drop table vitrine_history, vitrine_session; revoke create on schema public from public; grant ${all} to ROLE`,
    );
    const lines: string[] = [];
    const vitrine = await createVitrine({ databaseUrl: url, resources: shipped, port: 0, log: (text) => lines.push(text) }); // prettier-ignore
    const { url: base } = await vitrine.start();
    assert.equal((await fetch(`${base}/api/note/`)).status, 200);
    assert.equal((await fetch(`${base}/admin/`)).status, 404);
    await vitrine.close();
    assert.match(
      lines.join(''),
      /missing, or not usable by the database role: vitrine_history and vitrine_session/,
    );
    assert.equal((await database.sql`select to_regclass('vitrine_history') as found`)[0]?.['found'], null);
  });
});

// How the catalog is read. PostgreSQL compiles statements whose estimated cost is high. For those that read the catalog of a few dozen
// tables, compiling takes seconds, and running milliseconds.

/** Stands in for a function that the statement uses, and fails where the condition holds. */
const failingIf = (condition: string): string => `
  create or replace function watch.has_table_privilege(oid, text) returns boolean language plpgsql as $$
    begin
      if ${condition} then raise exception 'Not so: %', $watch$${condition}$watch$; end if;
      return pg_catalog.has_table_privilege($1, $2);
    end $$`;

describe('reading the catalog', () => {
  const database: TestDatabase = useDatabase('', async () => {
    const { sql } = database;
    await sql.unsafe(`create schema watch; ${failingIf(`current_setting('jit')::boolean`)}`);
    await sql.unsafe(`do $$ begin
      execute format('alter database %I set search_path = public, watch, pg_catalog', current_database());
      execute format('alter database %I set jit = on', current_database());
    end $$`);
  });

  test('a start that creates tables does not compile the statement', async () => {
    await startOnce(database, [users, note]);
  });

  test('a start that only compares tables does not compile it either', async () => {
    await startOnce(database, [users, note], { schema: 'check' });
  });

  test('all statements of a start that only compares tables see one state of the catalog', async () => {
    await database.sql.unsafe(failingIf(`current_setting('transaction_isolation') <> 'repeatable read'`));
    await startOnce(database, [users, note], { schema: 'check' });
  });
});

// Columns that a trigger of the database fills.

const prepare = (sql: Sql): Promise<unknown> =>
  sql.unsafe(`
    create table invoice (id integer generated always as identity primary key,
      title varchar(255) not null, number varchar(255) not null, size integer not null);
    create function fill() returns trigger language plpgsql as $$ begin
      new.number = coalesce(new.number, 'N' || new.id);
      if new.title <> 'unfilled' then new.size = coalesce(new.size, 7); end if;
      return new;
    end $$;
    create trigger fill before insert on invoice for each row execute function fill()`);

const invoice: Resource = {
  model: 'invoice',
  columns: {
    title: { type: 'string' },
    number: { type: 'string', default: 'database' },
    size: { type: 'integer', default: 'database' },
  },
  access: 'user',
};

describe('a column with the default of the database', () => {
  const service: TestService = useService([user, invoice], { prepare }, () =>
    service.addUser('ada', { admin: true }),
  );

  const create = (body: object): ReturnType<TestService['request']> =>
    service.request('/api/invoice/', { method: 'POST', user: 'ada', body });

  test('may be left out of a POST, and may be sent', async () => {
    const { status, json } = await create({ title: 'a' });
    assert.deepEqual([status, json], [201, { id: json.id, title: 'a', number: `N${json.id}`, size: 7 }]);
    assert.equal((await create({ title: 'b', number: 'X', size: 3 })).json.number, 'X');
    assert.deepEqual((await create({ title: 'c', number: null })).json.errors, {
      number: ['must not be null'],
    });
  });

  test('that the trigger leaves empty makes the POST fail, and creates nothing', async () => {
    const { status, json } = await create({ title: 'unfilled' });
    assert.deepEqual([status, json.detail], [400, 'A value that the database requires is missing.']);
    const { json: found } = await service.request('/api/invoice/?title=unfilled');
    assert.deepEqual(found.objects, []);
  });

  test('may stay empty in the form of the admin area', async () => {
    const browser = await logIn(service, 'ada');
    const page = await browser.get('/admin/invoice/-/add/');
    const saved = await browser.post('/admin/invoice/-/add/', { ...fieldsOf(page), title: 'form' });
    assert.equal(saved.status, 303, saved.text);
    const { json } = await service.request('/api/invoice/?title=form');
    assert.equal(json.objects[0].size, 7);
  });

  test('is not required in the OpenAPI document', async () => {
    const { json } = await service.request('/api/openapi.json', { user: 'ada' });
    assert.deepEqual(json.components.schemas['invoice.New'].required, ['title']);
  });
});

/** It lacks `number` and `size`, which the trigger may fill. */
const short: Resource = { model: 'invoice', columns: { title: { type: 'string' } }, access: 'user' };

test('a required column that is not in the registry stops the start with three ways out, and leaving out POST in `methods` is one', async (t) => {
  await assert.rejects(
    startService([user, short], { prepare }),
    /size is NOT NULL without a default, but is not in the registry, so no record can be added: name it there with default: 'database' if a trigger fills it, give it a default in SQL, or leave out POST in methods$/m,
  );
  const service = await startService([user, { ...short, methods: ['GET', 'PUT', 'DELETE'] }], { prepare });
  t.after(() => service.close());
  await service.addUser('ada', { admin: true });
  await service.sql`alter table invoice alter number drop not null, alter size drop not null`;
  await service.sql`insert into invoice (title) values ('old')`;
  const send = sendAs(service, 'ada');
  assert.equal((await send('POST', '/api/invoice/', { title: 'new' })).status, 405);
  assert.equal((await send('PUT', '/api/invoice/1/', { title: 'changed' })).status, 200);
  const ada = await logIn(service, 'ada');
  for (const path of ['/admin/', '/admin/invoice/', '/admin/invoice/1/', '/admin/invoice/?title=none'])
    assert.doesNotMatch((await ada.get(path)).text, /invoice\/-\/add|Save as new|add another/, path);
  assert.equal((await ada.get('/admin/invoice/-/add/')).status, 404);
  assert.equal((await ada.post('/admin/invoice/-/add/', { title: 'new' })).status, 404);
  const preview = await ada.post('/admin/invoice/-/import/', { _text: 'title\nnew\n' });
  assert.match(preview.text, /Records cannot be added here/);
  assert.equal((await service.sql`select from invoice`).length, 1);
});

test('a required column that is not in the registry stops the start when only the admin area adds records', async () => {
  const admins: Resource = { model: 'invoice', columns: short.columns };
  await assert.rejects(
    startService([user, admins], { prepare }),
    /size is NOT NULL without a default, but is not in the registry, so no record can be added/,
  );
  for (const resources of [
    [admins], // without a user model there is no admin area
    [user, { ...admins, admin: { hidden: true } }],
    [user, { ...admins, admin: { allow: ['change', 'delete'] } }],
  ] satisfies Resource[][]) {
    const service = await startService(resources, { prepare });
    assert.equal((await service.request('/api/invoice/')).status, 200);
    await service.close();
  }
});

test("default: 'database' is refused for a column that allows NULL, and for a password", async () => {
  for (const [column, fault] of [
    [
      { type: 'string', null: true, default: 'database' },
      "columns.a.default: 'database' is for columns that are NOT NULL",
    ],
    [{ type: 'password', default: 'database' }, 'columns.a.default: type password has no such key'],
  ] as const)
    await assert.rejects(
      startService([{ model: 'thing', columns: { a: column } } as unknown as Resource]),
      (error: Error) => error.message.includes(`  - thing: ${fault}`),
    );
});

// Virtual generated columns of PostgreSQL 18: they are computed when a row is read, and may fail then.
const TRIPS = `
  create table trip (id integer primary key generated by default as identity, km integer not null,
    hours integer not null, speed integer generated always as (km / hours) virtual);
  insert into trip (km, hours) select 5, 0 from generate_series(1, 6)`;
const trips: Resource = {
  model: 'trip',
  columns: { km: { type: 'integer' }, hours: { type: 'integer' } },
  access: 'user',
};

async function isAvailable(): Promise<boolean> {
  const database = await createDatabase();
  try {
    const [row] = await database.sql`select current_setting('server_version_num')::int >= 180000 as has`;
    if (row?.['has'] === true) return true;
    await assert.rejects(database.sql.unsafe(TRIPS), { code: '42601' });
    return false;
  } finally {
    await database.drop();
  }
}

test('a virtual column that is not served and cannot be computed keeps no row from being read, changed or deleted', async (t) => {
  if (!(await isAvailable())) return;
  const service = closedAfter(t, await startWith([trips], TRIPS));
  await assert.rejects(service.sql`select speed from trip`, { code: '22012' });
  const one = await service.send('GET', '/api/trip/1/');
  assert.deepEqual([one.status, one.json], [200, { id: 1, km: 5, hours: 0 }]);
  for (const query of ['', '?ordering=km', '?km=5&limit=2&page=2'])
    assert.equal((await service.send('GET', `/api/trip/${query}`)).status, 200, query);
  const lines = await service.send('GET', '/api/trip/', undefined, { accept: 'application/x-ndjson' });
  assert.equal(lines.text.trim().split('\n').length, 6, lines.text);
  const put = await service.send('PUT', '/api/trip/1/', { km: 6 });
  assert.deepEqual([put.status, put.json], [200, { id: 1, km: 6, hours: 0 }]);
  assert.equal((await service.send('DELETE', '/api/trip/2/')).status, 200);
  const ada = await logIn(service, 'ada');
  const act = async (form: string, fields: Fields): Promise<void> => {
    const page = await ada.post('/admin/trip/-/bulk/', { _state: '', ...fields });
    assert.equal(page.status, 200, page.text);
    const confirmed = { ...hiddenFields(page, form), _confirm: '1' };
    assert.equal((await ada.post('/admin/trip/-/bulk/', confirmed)).status, 303);
  };
  await act('record', { _action: 'set', _id: '3', _column: 'hours', _value: '1', hours: '2' });
  await act('confirm', { _action: 'delete', _id: '4' });
  const rows = await service.sql`select id, km, hours from trip order by id`;
  assert.deepEqual(
    [...rows],
    [
      { id: 1, km: 6, hours: 0 },
      { id: 3, km: 5, hours: 2 },
      { id: 5, km: 5, hours: 0 },
      { id: 6, km: 5, hours: 0 },
    ],
  );
});

// Constraints that say less than they seem to: NOT NULL that is NOT VALID, dropped or that of a domain, and foreign keys and check
// constraints that are NOT ENFORCED.

async function allowsUnvalidated(sql: Sql): Promise<boolean> {
  const [row] = await sql<
    { version: number }[]
  >`select current_setting('server_version_num')::int as version`;
  return (row?.version ?? 0) >= 180000;
}

const items: Resource = {
  model: 'item',
  columns: { name: { type: 'string' }, size: { type: 'integer' }, day: { type: 'date' } },
  access: 'user',
};
const ITEMS = `
  create table item (
    id integer primary key generated by default as identity, name varchar(255) not null, size integer, day date);
  insert into item (name, size, day) values ('a', 1, '2024-01-01'), ('b', null, null), ('c', 3, null);`;
const UNVALIDATED = `
  alter table item add constraint sized not null size not valid;
  alter table item add constraint dated not null day not valid;`;

test('rows from before a NOT NULL constraint are read with null, and can be written', async (t) => {
  const service = closedAfter(
    t,
    await startService([user, items], {
      prepare: async (sql) => {
        await sql.unsafe(ITEMS);
        const isThere = await allowsUnvalidated(sql);
        if (isThere) await sql.unsafe(UNVALIDATED);
        else {
          await assert.rejects(sql.unsafe(UNVALIDATED), { code: '42601' });
          await sql`update item set size = coalesce(size, 2), day = coalesce(day, '2024-01-01')`;
          await sql.unsafe('alter table item alter size set not null, alter day set not null');
        }
      },
    }),
  );
  await service.addUser('bob');
  const isThere = await allowsUnvalidated(service.sql);
  const expected = isThere
    ? [
        { id: 1, name: 'a', size: 1, day: '2024-01-01' },
        { id: 2, name: 'b', size: null, day: null },
        { id: 3, name: 'c', size: 3, day: null },
      ]
    : [1, 2, 3].map((id) => ({ id, name: ' abc'[id], size: id, day: '2024-01-01' }));
  const { status, json } = await service.request('/api/item/');
  assert.deepEqual([status, json?.objects], [200, expected]);
  const faultsOf = schemaFaults((await service.request('/api/openapi.json', { user: 'bob' })).json);
  assert.deepEqual(faultsOf('item.Page', json), []);
  const stream = await service.request('/api/item/', { headers: { Accept: 'application/x-ndjson' } });
  assert.deepEqual(
    stream.text
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line) as unknown),
    expected,
  );
  const pages = await pagesFrom(service, '/api/item/?ordering=day&limit=1');
  assert.deepEqual(pages.flatMap(({ objects }) => pluck(objects, 'id')).toSorted(), [1, 2, 3]);
  const body = { ...expected[1], name: 'renamed' };
  const kept = await service.request('/api/item/2/', { method: 'PUT', user: 'bob', body });
  // PostgreSQL checks the constraint of the whole row.
  assert.equal(kept.status, isThere ? 400 : 200, kept.text);
  assert.equal(faultsOf('item.Change', body).length === 0, kept.status === 200);
  const filled = { ...body, size: 2, day: '2024-01-02' };
  const changed = await service.request('/api/item/2/', { method: 'PUT', user: 'bob', body: filled });
  assert.deepEqual([changed.status, changed.json], [200, filled]);
});

describe('NULL in a column that was NOT NULL at the start', () => {
  const rows: Resource = {
    model: 'row',
    columns: {
      name: { type: 'string' },
      size: { type: 'integer' },
      day: { type: 'date' },
      weight: { type: 'integer' },
    },
    access: 'user',
  };
  const coded: Resource = {
    model: 'coded',
    primaryKey: { type: 'string', column: 'code' },
    columns: { at: { type: 'uuid' } },
    access: 'user',
  };
  const stored = { id: 1, name: 'a', size: null, day: null, weight: null };
  const service: WritableService = useWritable(
    [rows, coded],
    `create domain weight as integer not null;
      create table row (id integer generated by default as identity primary key, name varchar(255) not null,
        size integer not null, day date not null, weight weight);
      create table coded (code varchar(255) not null unique, at uuid not null);`,
    async () => {
      // A domain does not keep NULL out of what a subselect without rows gives.
      await service.sql.unsafe(`
      alter table row alter size drop not null, alter day drop not null;
      insert into row (name, weight) values ('a', (select weight from row where false));
      alter table coded alter code drop not null, alter at drop not null;
      insert into coded values (null, null);`);
    },
  );

  test('is null in pages, records and streams', async () => {
    assert.deepEqual((await service.request('/api/row/')).json.objects, [stored]);
    assert.deepEqual((await service.request('/api/row/1/')).json, stored);
    const headers = { Accept: 'application/x-ndjson' };
    assert.deepEqual(JSON.parse((await service.request('/api/row/', { headers })).text), stored);
    // The key of this table is no primary key.
    assert.deepEqual((await service.request('/api/coded/')).json.objects, [{ id: null, at: null }]);
  });

  test('is null in the history', async () => {
    const filled = { name: 'b', size: 2, day: '2024-01-01', weight: 1 };
    assert.equal((await service.send('PUT', '/api/row/1/', filled)).status, 200);
    await service.sql`update row set size = null, day = null where id = 1`;
    assert.equal((await service.send('DELETE', '/api/row/1/')).status, 200);
    const entries = await service.sql<{ before: string }[]>`select before from vitrine_history order by id`;
    assert.deepEqual(
      entries.map((entry) => JSON.parse(entry.before) as unknown),
      [
        { name: 'a', size: null, day: null, weight: null },
        { id: 1, ...filled, size: null, day: null },
      ],
    );
  });
});

test('a foreign key that is NOT ENFORCED counts as none', async (t) => {
  const database = closedAfter(t, await createDatabase());
  const { sql } = database;
  await sql.unsafe(`
      create table team (id integer primary key generated by default as identity, name varchar(255) not null);
      create table member (id integer primary key generated by default as identity, team_id integer not null);
      create index on member (team_id);`);
  const add = 'alter table member add foreign key (team_id) references team not enforced';
  if (await allowsUnvalidated(sql)) await sql.unsafe(add);
  else await assert.rejects(sql.unsafe(add), { code: '42601' });
  const resources: Resource[] = [
    user,
    { model: 'team', columns: { name: { type: 'string' } } },
    { model: 'member', columns: { team: { type: 'foreignKey', references: 'team' } } },
  ];
  const isThere = await allowsUnvalidated(sql);
  // A start that creates what is missing adds no enforced one beside it.
  const faults = await startFaults(database, resources, { schema: isThere ? 'apply' : 'check' });
  assert.ok(
    faults.includes('  - member: columns.team: team_id has no foreign key to team in the database'),
    faults.join('\n'),
  );
});

test('introspect prints no choices or comment for a check constraint that is NOT ENFORCED', async (t) => {
  const database = closedAfter(t, await createDatabase());
  const { sql } = database;
  await sql.unsafe(`
      create table box (id integer primary key generated by default as identity,
        size integer not null check (size < 10), weight integer not null, state varchar(10) not null)`);
  const add = `
      alter table box add check (weight < 10) not enforced, add check (state in ('new', 'old')) not enforced`;
  if (await allowsUnvalidated(sql)) await sql.unsafe(add);
  else await assert.rejects(sql.unsafe(add), { code: '42601' });
  const { code, stdout, stderr } = await run(['introspect'], { env: { DATABASE_URL: database.url } });
  assert.equal(code, 0, stderr);
  assert.match(stdout, /size: \{ type: 'integer' \}/);
  assert.match(stdout, /weight: \{ type: 'integer' \}/);
  assert.match(stdout, /state: \{ type: 'string' \}/);
  assert.deepEqual(stdout.match(/\w+: PostgreSQL checks .*/g), [
    'size: PostgreSQL checks (size < 10). Add min and max if it bounds the value.',
  ]);
});
