// Transactions on the schema share a connection, and with it the plans of the statements that read the catalog.
import assert from 'node:assert/strict';
import { openDatabase, type Database } from '../../src/db/connection/database.ts';
import type { TransactionLimits } from '../../src/db/connection/transactions.ts';
import { eventually } from '../http/expect.ts';
import { createDatabase, serverUrl, type TestDatabase } from '../support.ts';
import { describe, test } from 'node:test';

const processOf = (database: Database, limits: TransactionLimits): Promise<string> =>
  database.transaction(async ({ send }) => {
    const [row] = await send('select pg_backend_pid()');
    return String(row?.[0]);
  }, limits);

async function withDatabase(
  parameters: string,
  work: (database: Database, own: TestDatabase) => Promise<void>,
): Promise<void> {
  const own = await createDatabase();
  const database = openDatabase(`${own.url}${parameters}`);
  try {
    await work(database, own);
  } finally {
    await database.close();
    await own.drop();
  }
}

const connections = async ({ sql }: TestDatabase): Promise<number> => {
  const [row] = await sql<{ count: number }[]>`
    select count(*)::int from pg_stat_activity where datname = current_database() and application_name = 'vitrine'`;
  return row?.count ?? 0;
};

describe('the connection of a transaction on the schema', () => {
  test('serves the next one, and no other transaction', () =>
    withDatabase('', async (database) => {
      const first = await processOf(database, 'catalog');
      const bulk = await processOf(database, 'bulk');
      assert.notEqual(bulk, first);
      assert.notEqual(await processOf(database, 'bulk'), bulk);
      assert.equal(await processOf(database, 'schema'), first);
      assert.equal(await processOf(database, 'catalog'), first);
    }));

  test('keeps none of its settings', () =>
    withDatabase('', async (database) => {
      const settings = (limits: TransactionLimits): Promise<string[]> =>
        database.transaction(async ({ send }) => {
          const [row] = await send(
            `select current_setting('statement_timeout'), current_setting('transaction_read_only')`,
          );
          return (row ?? []).map(String);
        }, limits);
      assert.deepEqual(await settings('catalog'), ['1min', 'on']);
      assert.deepEqual(await settings('schema'), ['0', 'off']);
      assert.deepEqual(await settings('catalog'), ['1min', 'on']);
    }));

  test('is not used by two at once', () =>
    withDatabase('', async (database) => {
      const first = await processOf(database, 'catalog');
      const both = await Promise.all([processOf(database, 'catalog'), processOf(database, 'catalog')]);
      assert.ok(both.includes(first));
      assert.equal(new Set(both).size, 2);
    }));

  test('is replaced after an error, and after it was lost', () =>
    withDatabase('', async (database, own) => {
      const first = await processOf(database, 'catalog');
      await assert.rejects(database.transaction(({ send }) => send('select 1 / 0'), 'catalog'));
      const second = await processOf(database, 'catalog');
      assert.notEqual(second, first);
      await own.sql`select pg_terminate_backend(${Number(second)})`;
      // Until the service notices, the connection may still be used, and the transaction fails.
      const next = (): Promise<string> => processOf(database, 'catalog').catch(() => second);
      await eventually(async () => (await next()) !== second, 'another connection');
    }));

  test('is closed when no other follows', () =>
    withDatabase('', async (database, own) => {
      await processOf(database, 'catalog');
      await eventually(async () => (await connections(own)) === 0, 'the end of the connection');
    }));

  test('is closed with the database', async () => {
    const own = await createDatabase();
    const database = openDatabase(own.url);
    await processOf(database, 'catalog');
    await database.close();
    await eventually(async () => (await connections(own)) === 0, 'the end of the connection');
    await processOf(database, 'catalog').catch(() => undefined);
    await eventually(async () => (await connections(own)) === 0, 'the end of a later connection');
    await own.drop();
  });

  test('is not kept behind a pooler, which may give it to others', () =>
    withDatabase(`${serverUrl().includes('?') ? '&' : '?'}prepare=false`, async (database) => {
      const first = await processOf(database, 'catalog');
      assert.notEqual(await processOf(database, 'catalog'), first);
    }));
});
