import assert from 'node:assert/strict';
import type { Resource } from '../../src/index.ts';
import shipped from '../../src/resources/registry.ts';
import { createDatabase, type TestDatabase } from '../support.ts';
import { startFaults, startOnce } from './helpers.ts';
import { after, before, describe, test } from 'node:test';

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
  let database: TestDatabase;
  before(async () => {
    database = await createDatabase();
  });
  after(() => database.drop());

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

test('services that start at the same time on an empty database all succeed', async () => {
  const database = await createDatabase();
  try {
    const all = [...shipped, team, person];
    await Promise.all(Array.from({ length: 4 }, () => startOnce(database, all)));
    await startOnce(database, all, { schema: 'check' });
  } finally {
    await database.drop();
  }
});

test('string defaults are stored literally, also with standard_conforming_strings = off', async () => {
  const database = await createDatabase();
  try {
    await database.sql.unsafe(`do $$ begin
      execute format('alter database %I set standard_conforming_strings = off', current_database()); end $$`);
    const path = String.raw`C:\temp\new's`;
    await startOnce(database, [{ model: 'place', columns: { path: { type: 'string', default: path } } }]);
    const [row] = await database.sql`insert into place default values returning path`;
    assert.equal(row?.['path'], path);
  } finally {
    await database.drop();
  }
});
