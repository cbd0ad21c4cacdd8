// How the catalog is read. PostgreSQL compiles statements whose estimated cost is high. For those that read the catalog of a few dozen
// tables, compiling takes seconds, and running milliseconds.
import { note } from '../../src/resources/registry.ts';
import { createDatabase, type TestDatabase } from '../support.ts';
import { startOnce, users } from './helpers.ts';
import { after, before, describe, test } from 'node:test';

/** Stands in for a function that the statement uses, and fails where the condition holds. */
const failingIf = (condition: string): string => `
  create or replace function watch.has_table_privilege(oid, text) returns boolean language plpgsql as $$
    begin
      if ${condition} then raise exception 'Not so: %', $watch$${condition}$watch$; end if;
      return pg_catalog.has_table_privilege($1, $2);
    end $$`;

describe('reading the catalog', () => {
  let database: TestDatabase;
  before(async () => {
    database = await createDatabase();
    const { sql } = database;
    await sql.unsafe(`create schema watch; ${failingIf(`current_setting('jit')::boolean`)}`);
    await sql.unsafe(`do $$ begin
      execute format('alter database %I set search_path = public, watch, pg_catalog', current_database());
      execute format('alter database %I set jit = on', current_database());
    end $$`);
  });
  after(() => database.drop());

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
