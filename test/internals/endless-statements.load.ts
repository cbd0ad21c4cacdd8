// PostgreSQL goes on running a statement whose connection was lost, and some that it was asked to cancel. They count as their
// client's until they have ended, so that no client can keep more of PostgreSQL busy than its share.
import assert from 'node:assert/strict';
import { setTimeout as sleep } from 'node:timers/promises';
import postgres from 'postgres';
import { openDatabase, type Database } from '../../src/db/connection/database.ts';
import { SERVICE, type Requester } from '../../src/db/scheduling/requester.ts';
import { eventually } from '../http/expect.ts';
import { startProxy, type Proxy } from '../process/proxy.ts';
import { createDatabase, type TestDatabase } from '../support.ts';
import { after, afterEach, before, describe, test } from 'node:test';

describe('a statement that PostgreSQL still runs after it was given up', () => {
  let here: TestDatabase;
  let proxy: Proxy;
  let database: Database;
  let alive: NodeJS.Timeout;
  before(async () => {
    here = await createDatabase();
    proxy = await startProxy(here.url);
    await proxy.open();
    database = openDatabase(proxy.url);
    alive = setInterval(() => undefined, 100); // the timers of the scheduler do not keep the process alive
  });
  after(async () => {
    clearInterval(alive);
    await database.close();
    await proxy.close();
    await here.drop();
  });
  afterEach(() => eventually(async () => (await running()) === 0, 'all statements to end'));

  const mallory: Requester = { ...SERVICE, key: 'mallory', clientKind: 'user' };
  const LONG = 'select 1 from (select pg_sleep(4)) endless';

  /** How many of the statements PostgreSQL is running. */
  async function running(): Promise<number> {
    const sql = postgres(here.url, { max: 1 });
    const [row] = await sql<{ count: number }[]>`select count(*)::int from pg_stat_activity
      where datname = current_database() and state = 'active' and query similar to ${`(%pg_sleep\\(4\\)%|fetch %)`} and pid <> pg_backend_pid()`;
    await sql.end();
    return row?.count ?? -1;
  }

  /** Starts as many as mallory may run, and loses their connections, again and again. @returns the most that ran at once */
  async function mostAtOnce(start: () => Promise<unknown>): Promise<number> {
    const startAll = (): void => {
      for (let times = 0; times < 6; times += 1) start().catch(() => undefined);
    };
    let most = 0;
    startAll();
    await eventually(async () => (await running()) > 0, 'a statement to run');
    for (let times = 0; times < 4; times += 1) {
      await sleep(200);
      most = Math.max(most, await running());
      proxy.cut();
      startAll();
    }
    return Math.max(most, await running());
  }

  test('keeps its place as a read', async () => {
    const read = (): Promise<unknown> =>
      database.for(mallory).run({ text: LONG, values: [], decode: () => true }, 'read');
    assert.ok((await mostAtOnce(read)) <= 5); // 3 at first, and 2 once reads of this kind count as slow
    await eventually(async () => (await running()) === 0, 'the statements to end');
    await read();
  });

  test('keeps its place as a write', async () => {
    const write = (): Promise<unknown> =>
      database.for(mallory).run({ text: LONG, values: [], decode: () => true }, 'write');
    assert.equal(await mostAtOnce(write), 7);
  });

  test('keeps its place as a stream', async () => {
    const stream = async (): Promise<void> => {
      for await (const row of database.for(mallory).cursor({ text: LONG, values: [], decode: () => 1 }, 10))
        assert.ok(row);
    };
    assert.equal(await mostAtOnce(stream), 1);
  });
});
