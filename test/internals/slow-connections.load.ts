// Connections to PostgreSQL that take long to open: that says nothing about the statements that wait for them.
import assert from 'node:assert/strict';
import { setTimeout as sleep } from 'node:timers/promises';
import { createCooldowns, openDatabase, type Database } from '../../src/db/connection/database.ts';
import { openPostgres, sendStatement, whenSent } from '../../src/db/connection/driver.ts';
import type { Statement } from '../../src/db/rows.ts';
import { SERVICE } from '../../src/db/scheduling/requester.ts';
import type { SlowClients } from '../../src/db/scheduling/slow-clients.ts';
import type { RunOptions } from '../../src/db/statement-kinds.ts';
import { startProxy, type Proxy } from '../process/proxy.ts';
import { serverUrl } from '../support.ts';
import { after, before, beforeEach, describe, test } from 'node:test';

/** Milliseconds until a connection is open: more than makes a read count as slow, and its client suspect. */
const DELAY = 1_500;
/** How often a test is tried on a machine that is slow itself. */
const TRIES = 5;

/** A read that takes as long as its value says. The number makes its shape different. */
const read = (shape: number, seconds = '0'): Statement<number> => ({
  text: `select ${shape}, pg_sleep($1::text::float8)::text`,
  values: [seconds],
  decode: (rows) => rows.length,
});

describe('while a connection to PostgreSQL takes long to open', { concurrency: 1 }, () => {
  let proxy: Proxy;
  before(async () => {
    proxy = await startProxy(serverUrl());
  });
  after(() => proxy.close());
  beforeEach(() => proxy.delayConnections(0));

  /** Ends all connections, and waits until the driver has noticed that. */
  async function cut(): Promise<void> {
    proxy.cut();
    await sleep(100);
  }

  interface Opened {
    readonly run: (statement: Statement<number>, options?: RunOptions) => Promise<number>;
    readonly slowClients: SlowClients;
  }

  /** Runs work with a database of an anonymous client, again if the machine is slow itself. */
  async function withDatabase(slowTimeout: number, work: (opened: Opened) => Promise<void>): Promise<void> {
    for (let tries = 1; ; tries += 1) {
      proxy.delayConnections(0);
      const limits = { slowTimeout, processes: 1, ...createCooldowns() };
      const database: Database = openDatabase(proxy.url, limits);
      const ada = database.for({ ...SERVICE, key: 'ada', clientKind: 'anonymous' });
      try {
        const run: Opened['run'] = (statement, options) => ada.run(statement, 'read', options);
        return await work({ run, slowClients: limits.slowClients });
      } catch (error) {
        if (tries === TRIES) throw error;
      } finally {
        await database.close();
      }
    }
  }

  test('reads are not costly, and their client is not suspect', () =>
    withDatabase(10_000, async ({ run, slowClients }) => {
      await run(read(1));
      await run(read(1));
      await cut();
      proxy.delayConnections(DELAY);
      // The second shape is new: PostgreSQL estimates its cost first.
      const reads = [read(1), read(1), read(2), read(1)];
      await Promise.all(reads.map((statement) => run(statement, { refuseCostly: true })));
      assert.equal(slowClients.isSuspect('ada'), false);
      assert.equal(slowClients.cooldownOf('ada'), 0);
      await run(read(1), { refuseCostly: true });
    }));

  test('a read is not ended because its time is over', () =>
    withDatabase(DELAY / 3, async ({ run }) => {
      proxy.delayConnections(DELAY);
      assert.equal(await run(read(3)), 1);
    }));

  test('a read that cannot be sent is not costly, and its client is not suspect', () =>
    withDatabase(10_000, async ({ run, slowClients }) => {
      await run(read(4));
      await run(read(4));
      proxy.swallow();
      await cut();
      const lost = assert.rejects(run(read(4)), { code: 'CONNECTION_CLOSED' });
      setTimeout(proxy.cut, DELAY);
      try {
        await lost;
      } finally {
        await proxy.open();
      }
      assert.equal(slowClients.isSuspect('ada'), false);
      await run(read(4), { refuseCostly: true });
    }));

  test('a read that is slow once it was sent is costly, and its client is suspect', () =>
    withDatabase(10_000, async ({ run, slowClients }) => {
      proxy.delayConnections(DELAY);
      await run(read(5, '1.2'));
      assert.equal(slowClients.isSuspect('ada'), true);
      await assert.rejects(run(read(5), { refuseCostly: true }));
    }));

  test('a read that is slow once it was sent is ended when its time is over', () =>
    withDatabase(DELAY / 3, async ({ run }) => {
      await run(read(6));
      await cut();
      proxy.delayConnections(DELAY);
      const ended = assert.rejects(run(read(6, '60')), { status: 503, message: /takes too long/ });
      await sleep(DELAY / 2);
      proxy.delayConnections(0); // for the request to cancel
      await ended;
    }));

  test('the driver reports when it sends a statement', async () => {
    proxy.delayConnections(DELAY);
    const sql = openPostgres(proxy.url, { max: 1, fetch_types: false });
    try {
      const sent: string[] = [];
      const send = (text: string, values: string[]): PromiseLike<unknown> => {
        const query = sendStatement(sql, { text, values }, false);
        whenSent(query, () => sent.push(text));
        return query;
      };
      const all = [send('select $1::text', ['1']), send('select 2', [])];
      await sleep(DELAY / 2);
      assert.deepEqual(sent, []);
      await Promise.all(all);
      assert.deepEqual(sent, ['select $1::text', 'select 2']);
    } finally {
      await sql.end({ timeout: 0 });
    }
  });
});
