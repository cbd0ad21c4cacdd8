// The system tables: the start creates and checks them like other tables, and their errors are 500.
import assert from 'node:assert/strict';
import { randomInt } from 'node:crypto';
import shipped from '../../src/resources/registry.ts';
import { createDatabase, startService, useService, type TestService } from '../support.ts';
import { createVitrine, type Resource } from '../../src/index.ts';
import { describe, test } from 'node:test';

const note = { method: 'POST', user: 'ada', body: { message: 'Hello.' } };

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
    assert.equal((await service.request('/api/note/', note)).status, 201);
    // As after a restore that did not restore the sequence.
    await service.sql`alter table vitrine_history alter id restart with 1`;
    const answer = await service.request('/api/note/', note);
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

test('without a user model, tables with the names of system tables are ignored', async () => {
  const database = await createDatabase();
  try {
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
  } finally {
    await database.drop();
  }
});

for (const table of ['vitrine_history', 'vitrine_session', 'public.vitrine_history']) {
  test(`a resource cannot use the table ${table}`, async () => {
    const resource = { model: 'log', table, columns: { at: { type: 'datetime' } } } satisfies Resource;
    await assert.rejects(startService([resource]), /log: table: .*vitrine_/);
  });
}

describe('a database role with few privileges', () => {
  const roleOf = async (grants: (role: string) => string) => {
    const database = await createDatabase();
    const role = `little_${Date.now()}_${Math.floor(Math.random() * 1e6)}`;
    const setUp = await createVitrine({
      databaseUrl: database.url,
      resources: shipped,
      log: () => undefined,
    });
    await setUp.close();
    await database.sql.unsafe(`create role ${role} login password 'p'; ${grants(role)}`).simple();
    const url = new URL(database.url);
    [url.username, url.password] = [role, 'p'];
    const drop = async (): Promise<void> => {
      await database.sql.unsafe(`drop owned by ${role}; drop role ${role}`).simple();
      await database.drop();
    };
    return { database, url: url.href, drop };
  };
  const all = 'select, insert, update, delete on "user", relationship, message, note';

  test('revokes its own right to change the history when it owns the table', async () => {
    const { database, url, drop } = await roleOf(
      (role) => `grant create on schema public to ${role}; grant ${all} to ${role};
        alter table vitrine_history owner to ${role}; grant all on vitrine_history, vitrine_session to ${role}`,
    );
    try {
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
    } finally {
      await drop();
    }
  });

  test('without CREATE serves the existing tables, and warns about missing system tables', async () => {
    const { database, url, drop } = await roleOf(
      (role) =>
        `drop table vitrine_history, vitrine_session; revoke create on schema public from public; grant ${all} to ${role}`,
    );
    const lines: string[] = [];
    try {
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
    } finally {
      await drop();
    }
  });
});
