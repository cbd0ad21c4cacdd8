// Functions of the database may change any setting of the session that runs them.
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { Resource } from '../../src/index.ts';
import { fieldsOf, logIn, unescaped } from '../admin/support.ts';
import { whenAdmitted } from '../http/expect.ts';
import { useWritable, type WritableService } from './helpers.ts';

const columns = {
  command: { type: 'text', null: true },
  at: { type: 'datetime', null: true },
  day: { type: 'date', null: true },
  ratio: { type: 'float', null: true },
  tags: { type: 'array', of: 'string', null: true },
} as const;
const resources: Resource[] = [
  { model: 'event', columns, access: 'user' },
  ...['triggered', 'late', 'checked'].map((model): Resource => ({
    model,
    columns: { command: { type: 'text' } },
    access: 'user',
  })),
  { model: 'defaulted', columns: { at: columns.at, tags: columns.tags }, access: 'user' },
  {
    model: 'seen',
    primaryKey: { type: 'integer' },
    columns: { command: { type: 'text' }, at: { type: 'datetime', null: true } },
    methods: ['GET'],
  },
];

const DDL = `
  create function run(command text) returns boolean language plpgsql volatile as $$ begin
    execute command; return true; end $$;
  create function run_new() returns trigger language plpgsql as $$ begin
    execute new.command; return new; end $$;
  create table event (id serial primary key, command text, at timestamptz, day date, ratio float8, tags text[]);
  create function run_set() returns text language plpgsql as $$ begin
    set time zone 'Asia/Tokyo'; set array_nulls = off; return 'by default'; end $$;
  create table defaulted (id serial primary key, name text default run_set(), at timestamptz, tags text[]);
  create trigger runs before insert or update on event for each row when (new.command is not null) execute function run_new();
  create table triggered (id serial primary key, command text not null);
  create trigger runs after insert on triggered for each row execute function run_new();
  create table late (id serial primary key, command text not null);
  create constraint trigger runs after insert on late deferrable initially deferred for each row execute function run_new();
  create table checked (id serial primary key, command text not null check (run(command)));
  create table commands (id serial primary key, command text not null, at timestamptz);
  create view seen as select id, command, at from commands where run(command)`;

/** What statements may leave behind. */
const COMMANDS: Record<string, string> = {
  'the time zone': `set time zone 'America/New_York'`,
  'the style of dates': `set datestyle = 'German'`,
  'both at once': `select set_config('timezone', 'Asia/Tokyo', false), set_config('datestyle', 'SQL, DMY', false)`,
  'the search path': `set search_path = pg_catalog`,
  'the role': `set role pg_monitor`,
  'the session user': `set session authorization pg_monitor`,
  'the meaning of backslashes': `set standard_conforming_strings = off`,
  'NULL in arrays': `set array_nulls = off`,
  'the digits of floats': `set extra_float_digits = -10`,
  'the encoding': `set client_encoding = 'LATIN1'`,
  'a read-only default': `set default_transaction_read_only = on`,
  'a time limit': `set statement_timeout = '1ms'`,
  'the role of replication': `set session_replication_role = replica`,
  'a temporary table in front of a table': `create temp table if not exists event (like event including all)`,
};

const CLEAN = {
  at: '2024-05-31 12:00:00',
  day: '2024-05-31',
  ratio: 0.1234567890123456,
  tags: ['ö\\', null],
};
const BODY = { at: '2024-05-31T12:00:00Z', day: CLEAN.day, ratio: CLEAN.ratio, tags: CLEAN.tags };
const COUNT = 12; // more than the connections that share the work

const atOnce = <T>(work: (index: number) => Promise<T>): Promise<T[]> =>
  Promise.all(Array.from({ length: COUNT }, (_, index) => work(index)));

/** Writes and reads on all connections, and compares with what another session finds. */
async function assertClean({ send, request, sql }: WritableService): Promise<void> {
  const made = await atOnce(() => whenAdmitted(() => send('POST', '/api/event/', BODY)));
  for (const { status, json } of made) {
    assert.deepEqual([status, json], [201, { id: json.id, command: null, ...CLEAN }]);
  }
  const ids = made.map(({ json }) => Number(json.id));
  const rows = await sql`
    select at::text, day::text, ratio, array_to_string(tags, ',', '(none)') as tags from event where id = any(${ids})`;
  assert.equal(rows.length, COUNT);
  for (const row of rows)
    assert.deepEqual(
      { ...row },
      { at: '2024-05-31 12:00:00+00', day: CLEAN.day, ratio: CLEAN.ratio, tags: 'ö\\,(none)' },
    );
  const reads = await atOnce(async (index) => {
    const id = ids[index % ids.length];
    const query = `id__in=${id}&at=2024-05-31T12:00:00Z&ordering=-day`;
    const one = await whenAdmitted(() => request(`/api/event/${id}/`));
    const list = await whenAdmitted(() => request(`/api/event/?${query}`));
    assert.deepEqual([one.status, list.status], [200, 200]);
    return [one.json, list.json.objects?.[0]];
  });
  for (const found of reads.flat())
    assert.deepEqual({ at: found.at, day: found.day, ratio: found.ratio, tags: found.tags }, CLEAN);
}

describe('what a function has left in its session does not reach other statements:', () => {
  const service: WritableService = useWritable(resources, (sql) => sql.unsafe(DDL).simple());
  const send: WritableService['send'] = (...all) => service.send(...all);

  for (const [name, command] of Object.entries(COMMANDS))
    describe(name, () => {
      for (const model of ['triggered', 'late', 'checked'])
        test(`by a write (${model})`, async () => {
          await atOnce(() => send('POST', `/api/${model}/`, { command }));
          await assertClean(service);
        });

      test('by a read', async () => {
        await service.sql`truncate commands restart identity`;
        await service.sql`insert into commands (command) values (${command})`;
        for (const path of ['1/', '', '?command__ne=x&ordering=-id']) {
          await atOnce(() => service.request(`/api/seen/${path}`));
          await assertClean(service);
        }
      });
    });

  const ZONES = `select set_config('timezone', 'Asia/Tokyo', false), set_config('datestyle', 'SQL, DMY', false),
    set_config('array_nulls', 'off', false), set_config('extra_float_digits', '-10', false)`;

  /** The rows that have been written last, as another session finds them. */
  const latest = async (count: number): Promise<unknown[]> => {
    const rows = await service.sql`
      select at::text, day::text, ratio, array_to_string(tags, ',', '(none)') as tags from event order by id desc limit ${count}`;
    return rows.map((row) => ({ ...row }));
  };
  const STORED = { at: '2024-05-31 12:00:00+00', day: CLEAN.day, ratio: CLEAN.ratio, tags: 'ö\\,(none)' };

  test('a lock', async () => {
    const { status } = await send('POST', '/api/triggered/', { command: 'select pg_advisory_lock(7)' });
    assert.equal(status, 201);
    await service.sql.begin(async (sql) => {
      await sql`set local lock_timeout = '5s'`;
      await sql`select pg_advisory_xact_lock(7)`;
    });
  });

  test('the values beside a default', async () => {
    const { at, tags } = BODY;
    for (const body of [{ at, tags }, [{ at, tags }]])
      assert.equal((await send('POST', '/api/defaulted/', body)).status, 201);
    const rows =
      await service.sql`select at::text, array_to_string(tags, ',', '(none)') as tags from defaulted`;
    assert.deepEqual(
      rows.map((row) => ({ ...row })),
      Array(2).fill({ at: STORED.at, tags: STORED.tags }),
    );
    await assertClean(service);
  });

  test('the next records of an array', async () => {
    const made = await send('POST', '/api/event/', [
      { command: ZONES },
      BODY,
      { ...BODY, command: ZONES },
      BODY,
    ]);
    assert.equal(made.status, 201);
    assert.deepEqual(await latest(3), [STORED, STORED, STORED]);
    await assertClean(service);
  });

  test('the next rows of an import', async () => {
    const browser = await logIn(service, 'ada');
    const { ratio, day } = CLEAN;
    const line = `2024-05-31 12:00:00,${day},${ratio},"[""ö\\\\"",null]"`;
    const text = [
      'command,at,day,ratio,tags',
      `"${ZONES}",,,,`,
      `,${line}`,
      `"${ZONES}",${line}`,
      `,${line}`,
    ].join('\n');
    const path = '/admin/event/-/import/';
    const form = (fields: Record<string, string>): FormData => {
      const data = new FormData();
      for (const [name, value] of Object.entries(fields)) data.append(name, value);
      return data;
    };
    const preview = await browser.upload(path, form({ _text: text }));
    assert.match(preview.text, /name="_digest"/, preview.text);
    const named = (name: string): string =>
      unescaped(new RegExp(`name="${name}" value="([^"]*)"`).exec(preview.text)?.[1] ?? '');
    const done = await browser.upload(path, form({ _csv: named('_csv'), _digest: named('_digest') }));
    assert.equal(done.status, 303, done.text);
    assert.deepEqual(await latest(3), [STORED, STORED, STORED]);
    await assertClean(service);
  });

  test('the next records of a bulk change', async () => {
    await service.sql`truncate event`;
    await send('POST', '/api/event/', Array(3).fill({ command: ZONES }));
    const browser = await logIn(service, 'ada');
    const path = '/admin/event/-/bulk/';
    const choice = { _state: '', _all: '1', _action: 'set', _column: 'at', _value: '1' };
    const page = await browser.post(path, { ...choice, at: '2024-05-31T12:00:00' });
    const done = await browser.post(path, { ...fieldsOf(page), _confirm: '1' });
    assert.equal(done.status, 303, done.text);
    const rows = await service.sql`select at::text from event`;
    assert.deepEqual(
      rows.map(({ at }) => at),
      Array(3).fill(STORED.at),
    );
    await assertClean(service);
  });

  test('the next batches of a stream', async () => {
    await service.sql`truncate commands restart identity`;
    await service.sql`insert into commands (command, at) select case when n = 5 then ${ZONES} else 'select 1' end, '2024-05-31 12:00:00Z' from generate_series(1, 100) n`;
    const { text } = await service.request('/api/seen/?ordering=id', {
      headers: { accept: 'application/x-ndjson' },
    });
    const late = text.trimEnd().split('\n').slice(-80);
    assert.equal(late.length, 80);
    for (const one of late) assert.match(one, /"at":"2024-05-31 12:00:00"/);
  });
});

describe('with prepare=false', () => {
  const service: WritableService = useWritable(resources, (sql) => sql.unsafe(DDL).simple(), undefined, {
    parameters: { prepare: 'false' },
  });

  for (const name of [
    'the time zone',
    'the style of dates',
    'the meaning of backslashes',
    'the session user',
  ])
    test(`a change of ${name}, which PostgreSQL reports, does not reach other statements`, async () => {
      const command = COMMANDS[name];
      await Promise.all(Array.from({ length: COUNT }, () => service.send('POST', '/api/late/', { command })));
      await assertClean(service);
    });
});
