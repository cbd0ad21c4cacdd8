import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import postgres from 'postgres';
import { after, before, describe, test } from 'node:test';
import { Pool } from '../../src/db/connection/pool.ts';
import { Problem } from '../../src/errors.ts';
import { createVitrine } from '../../src/index.ts';
import { note, user } from '../../src/resources/registry.ts';
import { request, serverUrl, startService, type TestService } from '../support.ts';
import { assertProblem, eventually } from '../http/expect.ts';

/** What a function of the database may raise, and the status that becomes of it. */
const STATES: readonly [state: string, what: string, status: number][] = [
  ['40001', 'a transaction that met another', 503],
  ['40P01', 'a deadlock', 503],
  ['53100', 'a full disk', 503],
  ['53300', 'too many connections', 503],
  ['55P03', 'a lock that was not to be had in time', 503],
  ['22003', 'a number that is out of range', 400],
  ['23502', 'a value that is missing', 400],
  ['23514', 'a value that a rule forbids', 400],
  ['54000', 'a value that is too large', 400],
  ['P0001', 'what a trigger refuses', 400],
  ['08006', 'a rule that calls itself a connection that failed', 400],
  ['25006', 'a rule that calls itself a standby', 400],
  ['28000', 'a rule that calls itself a refused login', 400],
  ['42501', 'a rule that calls itself a missing right', 400],
  ['57P01', 'a rule that calls itself a server that is shut down', 400],
  ['22012', 'a division by zero', 400],
  ['3D000', 'a rule that calls itself a missing database', 400],
  ['44000', 'a value that a view forbids', 400],
  ['57014', 'a rule that calls itself a cancelled statement', 400],
  ['0A000', 'what cannot be done', 409],
  ['23001', 'a record that others refer to', 409],
  ['23503', 'a reference that is broken', 409],
  ['23505', 'a duplicate', 409],
  ['23P01', 'an overlap', 409],
  ['23000', 'a rule that does not say which', 400],
  ['P0002', 'a record that a rule has not found', 400],
  ['XX000', 'a rule that calls itself a fault of the database', 400],
  ['AB123', 'a state of its own', 400],
];

/** What PostgreSQL itself answers, brought about for real. */
const HAPPENINGS: readonly [state: string, what: string, status: number][] = [
  ['standby', 'a server that takes no writes', 503],
  ['shut down', 'a server that is shut down', 503],
  ['too long', 'a statement that took too long', 503],
  ['no such table', 'a table that is gone', 500],
];

describe('an error of the database', () => {
  let service: TestService;
  before(async () => {
    service = await startService([user, note]);
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
  after(() => service.close());

  for (const [state, what, status] of [...STATES, ...HAPPENINGS]) {
    test(`${state}, ${what}, is ${status} and tells nothing of its cause`, async () => {
      const body = { message: state };
      const answer = await service.request('/api/note/', { method: 'POST', user: 'bob', body });
      assertProblem(answer, status);
      assert.doesNotMatch(answer.text, /secret|trigger|fail\(\)/);
      // Of these errors but one says nothing of whether the change was made.
      assert.equal(/not known/.test(answer.json.detail), state === 'shut down');
      const retryAfter = answer.headers.get('retry-after');
      if (status === 503) assert.match(retryAfter ?? '', /^[1-9]\d*$/);
      else assert.equal(retryAfter, null);
      assert.equal(typeof answer.json.requestId, status === 500 ? 'string' : 'undefined');
    });
  }
});

/**
 * What makes the database refuse new connections, and what ends that; `$` is the database, `@` the role. And what a start says,
 * where it does not wait for that to end.
 */
const REFUSALS: readonly [begin: string, end: string, says?: RegExp][] = [
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

test('a database that refuses connections is 503 as long as it does', async () => {
  const role = `refused_${randomBytes(6).toString('hex')}`;
  const service = await startService([user, note]);
  await service.addUser('bob');
  const url = new URL(service.url);
  Object.assign(url, { username: role, password: 'refused' });
  // No superuser: those are refused next to nothing.
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
    for (const [begin, end, says] of REFUSALS) {
      assert.equal((await ask()).status, 200);
      await run(begin);
      await run(`select pg_terminate_backend(pid) from pg_stat_activity where usename = '@'`);
      for (const body of [undefined, { message: 'new' }]) {
        const answer = await ask(body);
        assertProblem(answer, 503);
        assert.doesNotMatch(answer.text, /not known/);
      }
      if (says) await assert.rejects(create(), says);
      await run(end);
    }
    assert.equal((await ask()).status, 200);
  } finally {
    await refused.close();
    await service.close();
    await server.unsafe(`drop role ${role}`); // its grants have gone with the database
    await server.end();
  }
});

test('a database that takes no changes for a while takes them again from the same service', async () => {
  const service = await startService([user, note]);
  const database = new URL(service.url).pathname.slice(1);
  const turn = async (state: string): Promise<void> => {
    await service.sql.unsafe(`alter database ${database} set default_transaction_read_only = ${state}`);
  };
  const write = () =>
    service.request('/api/note/', { method: 'POST', user: 'bob', body: { message: 'new' } });
  const many = () => Promise.all(Array.from({ length: 16 }, write));
  try {
    await service.addUser('bob');
    await turn('on');
    await service.sql`select pg_terminate_backend(pid) from pg_stat_activity
      where datname = current_database() and application_name = 'vitrine'`;
    for (const answer of await many()) assertProblem(answer, 503);
    assert.equal((await service.request('/api/note/')).status, 200);
    await turn('off');
    await write(); // may meet a connection from before
    for (const { status } of await many()) assert.equal(status, 201);
    await eventually(async () => {
      const { count } = await service.sql`select from pg_stat_activity
        where datname = current_database() and application_name = 'vitrine'`;
      return count <= 9;
    }, 'an end to the connections from before');
  } finally {
    await service.close();
  }
});

test('PostgreSQL itself ends a statement after 10 seconds, and one that waits for a lock after 5', async () => {
  const service = await startService([user, note], {
    prepare: (sql) =>
      sql.unsafe(`
        create table note (id integer generated by default as identity primary key, message text not null);
        create function tell() returns trigger language plpgsql as $$
          begin
            new.message := concat(current_setting('statement_timeout'), ' ', current_setting('lock_timeout'));
            return new;
          end $$;
        create trigger tell before insert on note for each row execute function tell()`),
  });
  try {
    await service.addUser('bob');
    const { json } = await service.request('/api/note/', {
      method: 'POST',
      user: 'bob',
      body: { message: '' },
    });
    assert.equal(json.message, '10s 5s');
  } finally {
    await service.close();
  }
});

test('statements beyond those that may wait are refused with 503 and Retry-After, and the others are run', async () => {
  const open = (): postgres.Sql => postgres(serverUrl(), { max: 1, fetch_types: false });
  const pool = new Pool({ open, connections: 1, depth: 1, maxPending: 3, deadline: 60_000 });
  try {
    const run = (number: number) =>
      pool.run({ text: 'select $1::text from pg_sleep(0.05)', values: [String(number)] }, false);
    for (let round = 0; round < 2; round += 1) {
      const ends = await Promise.allSettled([1, 2, 3, 4, 5].map(run));
      ends.forEach((end, index) => {
        if (end.status === 'fulfilled') assert.equal(String(end.value[0]?.[0]), String(index + 1));
        else {
          assert.ok(end.reason instanceof Problem && end.reason.status === 503);
          assert.match(end.reason.headers['Retry-After'] ?? '', /^[1-9]\d*$/);
        }
      });
      const statuses = ends.map(({ status }) => status);
      assert.deepEqual(statuses, [...Array<string>(3).fill('fulfilled'), 'rejected', 'rejected']);
    }
  } finally {
    await pool.close();
  }
});
