// What `introspect` says of a table named user, and that following it works.
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { temporaryFolder, type Ended } from '../process/support.ts';
import { createDatabase, type TestDatabase } from '../support.ts';
import { run } from './support.ts';
import { after, before, beforeEach, describe, test } from 'node:test';

const LOGIN = `{ model: 'login', columns: { username: { type: 'string', unique: true }, password: { type: 'password' },
  active: { type: 'boolean', default: true }, admin: { type: 'boolean', default: false } }, read: 'admin', exclude: ['password'] },`;

const OTHER =
  'If this table is not the users of Vitrine, add another model, such as login, and set USER_MODEL=login.';

describe('vitrine introspect and a table named user', () => {
  let database: TestDatabase;
  before(async () => (database = await createDatabase()));
  after(() => database.drop());
  beforeEach(() => database.sql.unsafe('drop schema public cascade; create schema public').simple());

  const introspect = async (sql: string): Promise<string> => {
    await database.sql.unsafe(sql).simple();
    const { code, stdout, stderr } = await run(['introspect'], { env: { DATABASE_URL: database.url } });
    assert.equal(code, 0, stderr);
    return stdout;
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
    const text = await introspect(
      'create table "user" (id serial primary key, username text not null, active integer not null)',
    );
    assert.deepEqual(remarkOf(text), [
      `// user cannot be the user model: columns.username.unique must be true in the user model; columns.password the user model must have this column; columns.active.type must be boolean in the user model; columns.admin the user model must have this column. ${OTHER}`,
    ]);
    const added = await addUser(text.replace('export default [', `$&${LOGIN}`), { USER_MODEL: 'login' });
    assert.equal(added.code, 0, added.stderr);
  });

  test('a table that is not served cannot be the user model', async () => {
    const text = await introspect('create table other (id serial primary key); create table "user" (a text)');
    assert.deepEqual(
      remarkOf(text).filter((line) => !line.includes('is not served: it has no key')),
      [`// user cannot be the user model, because it is not served. ${OTHER}`],
    );
  });

  test('if only the type of the password differs, the type would help', async () => {
    const text = await introspect(`create table "user" (id serial primary key, username text not null unique,
      password text not null, active boolean not null default true, admin boolean not null default false)`);
    assert.deepEqual(remarkOf(text), [
      `// user cannot be the user model: columns.password.type must be password in the user model. ${OTHER}`,
    ]);
    const added = await addUser(text.replace("password: { type: 'text'", "password: { type: 'password'"));
    assert.equal(added.code, 0, added.stderr);
  });

  test('without such a table, nothing is said of it', async () => {
    assert.deepEqual(remarkOf(await introspect('create table users (id serial primary key)')), []);
  });
});
