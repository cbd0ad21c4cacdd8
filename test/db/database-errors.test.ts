import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import postgres from 'postgres';
import { createVitrine, type Resource } from '../../src/index.ts';
import { note, user } from '../../src/resources/registry.ts';
import { request, serverUrl, startService, useService, type TestService } from '../support.ts';
import { assertProblem, eventually } from '../http/expect.ts';
import { describe, test } from 'node:test';

/** Error codes that a function of the database can raise, and the resulting status. */
const STATES: readonly [state: string, cause: string, status: number][] = [
  ['40001', 'a serialization failure', 503],
  ['40P01', 'a deadlock', 503],
  ['53100', 'a full disk', 503],
  ['53300', 'too many connections', 503],
  ['55P03', 'a lock timeout', 503],
  ['22003', 'a number out of range', 400],
  ['23502', 'a missing value', 400],
  ['23514', 'a value that breaks a constraint', 400],
  ['54000', 'a value that is too large', 400],
  ['54001', 'triggers that cause each other without end', 400],
  ['P0001', 'an error of a trigger', 400],
  ['08006', 'a function that raises a connection failure', 400],
  ['25006', 'a function that raises a read-only error', 400],
  ['28000', 'a function that raises a refused login', 400],
  ['42501', 'a function that raises a missing privilege', 400],
  ['57P01', 'a function that raises a shutdown', 400],
  ['22012', 'a division by zero', 400],
  ['3D000', 'a function that raises a missing database', 400],
  ['44000', 'a value that a view refuses', 400],
  ['57014', 'a function that raises a canceled statement', 400],
  ['0A000', 'an unsupported feature', 409],
  ['23001', 'a referenced record', 409],
  ['23503', 'a missing reference', 409],
  ['23505', 'a duplicate', 409],
  ['23P01', 'an overlap', 409],
  ['27000', 'a row that a trigger has changed', 409],
  ['21000', 'too many rows', 400],
  ['23000', 'an unspecified constraint', 400],
  ['P0002', 'a record that a function does not find', 400],
  ['XX000', 'a function that raises an internal error', 400],
  ['AB123', 'a custom error code', 400],
];

/** Errors of PostgreSQL itself, which the tests cause for real. */
const REAL_ERRORS: readonly [state: string, cause: string, status: number][] = [
  ['standby', 'a read-only server', 503],
  ['shut down', 'a server that is shut down', 503],
  ['too long', 'a statement that took too long', 503],
  ['no such table', 'a missing table', 500],
];

describe('an error of the database', () => {
  const service: TestService = useService([user, note], {}, async () => {
    await service.addUser('bob');
    await service.sql.unsafe(`
      create function fail() returns trigger language plpgsql as $$
        begin
          case new.message
            when 'standby' then perform set_config('transaction_read_only', 'on', true); delete from note;
            when 'shut down' then perform pg_terminate_backend(pg_backend_pid()); perform pg_sleep(1);
            when 'too long' then perform pg_cancel_backend(pg_backend_pid()); perform pg_sleep(1);
            when 'no such table' then execute 'select from missing';
            else null;
          end case;
          raise exception 'a secret of the database' using errcode = new.message; end $$;
      create trigger fail before insert on note for each row execute function fail()`);
  });

  for (const [state, cause, status] of [...STATES, ...REAL_ERRORS]) {
    test(`${state}, ${cause}, is ${status} and does not show its cause`, async () => {
      const body = { message: state };
      const answer = await service.request('/api/note/', { method: 'POST', user: 'bob', body });
      assertProblem(answer, status);
      assert.doesNotMatch(answer.text, /secret|trigger|fail\(\)/);
      // Only one of these errors leaves unknown whether the change was made.
      assert.equal(/not known/.test(answer.json.detail), state === 'shut down');
      const retryAfter = answer.headers.get('retry-after');
      if (status === 503) assert.match(retryAfter ?? '', /^[1-9]\d*$/);
      else assert.equal(retryAfter, null);
      assert.equal(typeof answer.json.requestId, status === 500 ? 'string' : 'undefined');
    });
  }
});

/**
 * SQL that makes the database refuse new connections, and SQL that ends this; `$` is the database, `@` the role. The pattern is the
 * error of a start that does not wait for the end.
 */
const REFUSALS: readonly [begin: string, end: string, message?: RegExp][] = [
  [
    'alter database $ with allow_connections false',
    'alter database $ with allow_connections true',
    /not currently accepting connections/,
  ],
  [
    'revoke connect on database $ from public',
    'grant connect on database $ to public',
    /permission denied for database/,
  ],
  ['alter role @ nologin', 'alter role @ login', /not permitted to log in/],
  ['alter role @ connection limit 0', 'alter role @ connection limit -1'],
];

test('requests are 503 as long as the database refuses connections', async () => {
  const role = `refused_${randomBytes(6).toString('hex')}`;
  const service = await startService([user, note]);
  await service.addUser('bob');
  const url = new URL(service.url);
  Object.assign(url, { username: role, password: 'refused' });
  // Not a superuser, because PostgreSQL refuses almost nothing to them.
  await service.sql.unsafe(`
    create role ${role} login password 'refused';
    grant usage on schema public to ${role};
    grant all on all tables in schema public to ${role}`);
  const create = () =>
    createVitrine({
      databaseUrl: url.href,
      resources: [user, note],
      port: 0,
      schema: 'check',
      log: () => undefined,
    });
  const refused = await create();
  const server = postgres(serverUrl(), { max: 1, onnotice: () => undefined });
  const database = url.pathname.slice(1);
  const run = (text: string) => server.unsafe(text.replaceAll('$', database).replaceAll('@', role));
  try {
    const { url: base } = await refused.start();
    const ask = (body?: object) =>
      request(base, '/api/note/', body ? { method: 'POST', user: 'bob', body } : {});
    for (const [begin, end, message] of REFUSALS) {
      assert.equal((await ask()).status, 200);
      await run(begin);
      const isGone = async (): Promise<boolean> => {
        const open = await run(`select pg_terminate_backend(pid) from pg_stat_activity where usename = '@'`);
        return open.count === 0;
      };
      await eventually(isGone, 'the end of the connections');
      for (const body of [undefined, { message: 'new' }]) {
        const answer = await ask(body);
        assertProblem(answer, 503);
        assert.doesNotMatch(answer.text, /not known/);
      }
      if (message) await assert.rejects(create(), message);
      await run(end);
    }
    assert.equal((await ask()).status, 200);
  } finally {
    await refused.close();
    await service.close();
    await server.unsafe(`drop role ${role}`); // its privileges were dropped with the database
    await server.end();
  }
});

for (const [where, parameters] of [
  ['', {}],
  [' behind a pooler', { prepare: 'false' }],
] as const)
  test(`a service writes again after its database was read-only for a while${where}`, async () => {
    const service = await startService([user, note], { parameters });
    const database = new URL(service.url).pathname.slice(1);
    const setReadOnly = async (state: string): Promise<void> => {
      await service.sql.unsafe(`alter database ${database} set default_transaction_read_only = ${state}`);
    };
    const write = () =>
      service.request('/api/note/', { method: 'POST', user: 'bob', body: { message: 'new' } });
    const many = () => Promise.all(Array.from({ length: 16 }, write));
    try {
      // With this, errors name the parameters of their statement, as those of functions name the function.
      await service.sql.unsafe(`alter database ${database} set log_parameter_max_length_on_error = -1`);
      await service.addUser('bob');
      await setReadOnly('on');
      await service.sql`select pg_terminate_backend(pid) from pg_stat_activity
      where datname = current_database() and application_name = 'vitrine'`;
      for (const answer of await many()) assertProblem(answer, 503);
      const pids = () => service.sql<{ pid: number }[]>`select pid from pg_stat_activity
        where datname = current_database() and application_name = 'vitrine'`;
      const old = new Set((await pids()).map(({ pid }) => pid));
      assert.equal((await service.request('/api/note/')).status, 200);
      await setReadOnly('off');
      await write(); // may use an old connection
      for (const { status } of await many()) assert.equal(status, 201);
      await eventually(async () => {
        await write();
        return !(await pids()).some(({ pid }) => old.has(pid));
      }, 'the end of the old connections');
    } finally {
      await service.close();
    }
  });

/** A view that shows whether PostgreSQL may compile the statement that reads it. */
const SETTING: Resource = {
  model: 'setting',
  primaryKey: { type: 'integer', column: 'id' },
  columns: { jit: { type: 'string', null: true } },
};

for (const [where, parameters] of [
  ['', {}],
  [
    ', also if the options in its address say otherwise',
    { options: '-c statement_timeout=60000 -c lock_timeout=0 -c TimeZone=Europe/Berlin -c jit=on' },
  ],
] as const)
  test(`PostgreSQL ends a statement after 10 seconds, and a wait for a lock after 5, and compiles none${where}`, async () => {
    const service = await startService([user, note, SETTING], {
      parameters,
      prepare: (sql) =>
        sql.unsafe(`
        create table note (id integer generated by default as identity primary key, message text not null);
        create function show_settings() returns trigger language plpgsql as $$
          begin
            new.message := concat_ws(' ', current_setting('statement_timeout'), current_setting('lock_timeout'),
              current_setting('TimeZone'), current_setting('jit'));
            return new;
          end $$;
        create trigger show_settings before insert on note for each row execute function show_settings();
        create view setting as select 1 as id, current_setting('jit')::varchar as jit`),
    });
    try {
      await service.addUser('bob');
      const { json } = await service.request('/api/note/', {
        method: 'POST',
        user: 'bob',
        body: { message: '' },
      });
      assert.equal(json.message, '10s 5s UTC off');
      // After the first ones, a page is read on another connection.
      for (let time = 0; time < 6; time += 1) {
        const page = await service.request('/api/setting/?jit__ne=x');
        assert.equal(page.json.objects[0].jit, 'off', `time ${time}`);
      }
      const headers = { accept: 'application/x-ndjson' };
      assert.match((await service.request('/api/setting/', { headers })).text, /"jit":"off"/);
    } finally {
      await service.close();
    }
  });
