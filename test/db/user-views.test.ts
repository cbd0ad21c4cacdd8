// Views of the user table: a write to one would skip the checks that protect admins.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Resource } from '../../src/index.ts';
import { user } from '../../src/resources/registry.ts';
import { createDatabase } from '../support.ts';
import { startFaults, startOnce } from './helpers.ts';

const primaryKey = { type: 'integer', column: 'id' } as const;
const over = (model: string, methods: Resource['methods']): Resource => ({
  model,
  primaryKey,
  columns: { username: { type: 'string' } },
  access: 'user',
  ...(methods && { methods }),
});

test('a view that changes users must be read-only, also over another view, and other views need not be', async () => {
  const database = await createDatabase();
  try {
    await startOnce(database, [user]);
    await database.sql.unsafe(`
      create table pet (id integer primary key, username varchar(255) not null);
      create view people as select id, username from "user" where id in (select id from pet);
      create view adults as select username as username, id from people;
      create view pets as select id, username from pet where username in (select username from "user");`);
    const writable = [over('adults', ['GET', 'DELETE']), over('people', ['GET', 'PUT'])];
    assert.deepEqual(await startFaults(database, [user, over('pets', ['GET', 'DELETE']), ...writable]), [
      '  - adults: methods: a write would change users without the checks of the model user: remove DELETE',
      '  - people: methods: a write would change users without the checks of the model user: remove PUT',
    ]);
    const readable = [over('adults', undefined), over('people', ['GET'])];
    await startOnce(database, [user, over('pets', ['GET', 'PUT']), ...readable]);
  } finally {
    await database.drop();
  }
});

test('if the user model is a view, the table behind it and other views of that must be read-only', async () => {
  const database = await createDatabase();
  try {
    await startOnce(database, [user]);
    await database.sql.unsafe(`
      create view members as select * from "user";
      create view people as select id, username from "user";`);
    const members: Resource = { ...user, table: 'members', primaryKey };
    const account = (more: Partial<Resource>): Resource => ({
      ...user,
      model: 'account',
      table: 'user',
      ...more,
    });
    const reason = 'a write would change users without the checks of the model user:';
    assert.deepEqual(await startFaults(database, [members, account({}), over('people', ['GET', 'PUT'])]), [
      `  - account: methods: ${reason} set it to ['GET']`,
      `  - account: admin.allow: ${reason} set it to []`,
      `  - people: methods: ${reason} remove PUT`,
    ]);
    const closed = account({ methods: ['GET'], admin: { allow: [] } });
    await startOnce(database, [members, closed, over('people', ['GET'])]);
    await startOnce(database, [members, account({ methods: ['GET'], admin: { hidden: true } })]);
  } finally {
    await database.drop();
  }
});
