// Connections: what src/db/connection works around in postgres.js, and that a statement that fails, is slow or waits does not affect the
// statements after it.
import assert from 'node:assert/strict';
import { X509Certificate } from 'node:crypto';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { connect, createServer, type AddressInfo, type Socket } from 'node:net';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { ConnectionOptions as TlsOptions } from 'node:tls';
import postgres from 'postgres';
import {
  Connections,
  MAX_LIFETIME,
  NotSent,
  type ConnectionOptions,
} from '../../src/db/connection/connections.ts';
import { openDatabase, type Database } from '../../src/db/connection/database.ts';
import {
  cancelOnServer,
  isStalePrepared,
  openDedicated,
  openPostgres,
  sendStatement,
  type OpenClient,
  type Query,
} from '../../src/db/connection/driver.ts';
import type { ServerGuard } from '../../src/db/connection/server-guard.ts';
import type { TransactionLimits } from '../../src/db/connection/transactions.ts';
import type { RawRow, SentStatement } from '../../src/db/rows.ts';
import type { Problem } from '../../src/errors.ts';
import { REPOSITORY } from '../paths.ts';
import {
  createDatabase,
  eventually,
  serverUrl,
  type Sql,
  type TestDatabase,
  useDatabase,
} from '../support.ts';
import { afterEach, beforeEach, describe, test } from 'node:test';

const open = (): postgres.Sql => postgres(serverUrl(), { max: 1, fetch_types: false });

/** Connections that run a statement again elsewhere if it was not sent. */
class Pool extends Connections {
  constructor(options: Omit<ConnectionOptions, 'deadline'>) {
    super({ deadline: 60_000, ...options });
  }

  async run(statement: SentStatement, prepare: boolean): Promise<RawRow[]> {
    for (;;) {
      const connection = this.free();
      assert.ok(connection);
      try {
        return await connection.execute(statement, prepare).rows;
      } catch (error) {
        if (!(error instanceof NotSent)) throw error;
      }
    }
  }
}

test('a statement that fails after some rows leaves none of them to the next statement', async (t) => {
  const pool = new Pool({ open, count: 1, depth: 10 });
  const run = (text: string): Promise<unknown> =>
    pool.run({ text, values: [] }, false).then((rows) => rows.map((row) => row.map(String)));
  t.after(() => pool.close());
  const [failed, ...others] = await Promise.allSettled([
    run('select 1 / (4 - n) from generate_series(1, 9) n'),
    run('select 42'),
    run('select n from generate_series(1, 5) n'),
  ]);
  assert.equal(failed?.status, 'rejected');
  assert.deepEqual(
    others.map((end) => end.status === 'fulfilled' && end.value),
    [[['42']], ['1', '2', '3', '4', '5'].map((n) => [n])],
  );
  await assert.rejects(run('select 1 / (4 - n) from generate_series(1, 9) n'));
  assert.deepEqual(await run('select where false'), []);
  assert.deepEqual(await run('select 43'), [['43']]);
});

describe('a statement that is sent while its connection ends', () => {
  /** A client with a connection that the test cuts. The work runs before the driver reports the end. */
  const cutting = (url: string) => {
    let socket: Socket | undefined;
    const { hostname, port } = new URL(url);
    const open: OpenClient = (onclose) =>
      postgres(url, {
        max: 1,
        fetch_types: false,
        onclose,
        socket: async () => {
          socket = connect(Number(port || 5432), hostname);
          await once(socket, 'connect');
          return socket;
        },
      } as postgres.Options<Record<string, never>>);
    const cut = <T>(work: () => Promise<T>): Promise<T> =>
      new Promise((resolve, reject) => {
        // The driver has added its listener before.
        socket?.on('error', () => void work().then(resolve, reject));
        socket?.destroy(Object.assign(new Error('read ECONNRESET'), { code: 'ECONNRESET' }));
      });
    return { open, cut };
  };

  test('is 503, does not affect statements that were not sent yet, and leaves no connection open', async (t) => {
    const url = new URL(serverUrl());
    const name = `pool ${process.pid} ${Date.now()}`;
    url.searchParams.set('application_name', name);
    const { open, cut } = cutting(url.href);
    const pool = new Pool({ open, count: 1, depth: 100 });
    const run = async (value: string, round = ''): Promise<string> =>
      String((await pool.run({ text: `select $1::text || '${round}'`, values: [value] }, true))[0]?.[0]);
    const admin = postgres(serverUrl(), { max: 1 });
    t.after(async () => {
      await pool.close();
      await admin.end();
    });
    for (let round = 0; round < 5; round += 1) {
      assert.equal(await run('a'), 'a');
      // The connection does not know the first statement, so the driver holds back the statements after it.
      const [first, ...others] = await cut(() =>
        Promise.allSettled(['x', 'y', 'z', 'a', 'b'].map((value) => run(value, String(round)))),
      );
      assert.equal(first?.status === 'rejected' && (first.reason as Problem).status, 503);
      assert.deepEqual(
        others.map((end) => end.status === 'fulfilled' && end.value),
        ['y', 'z', 'a', 'b'].map((value) => `${value}${round}`),
      );
    }
    await eventually(async () => {
      const { count } = await admin`select from pg_stat_activity where application_name = ${name}`;
      return count === 1;
    }, 'an end to all connections but one');
  });

  test('is 503 on a dedicated connection, and so are later statements', async (t) => {
    const { open, cut } = cutting(serverUrl());
    const dedicated = openDedicated(open);
    const run = (text: string) => dedicated.run((sql) => sql.unsafe(text).raw());
    t.after(() => dedicated.end(0));
    assert.equal(String((await run('select 41'))[0]?.[0]), '41');
    await assert.rejects(
      cut(() => run('select 42')),
      { status: 503 },
    );
    await assert.rejects(run('select 43'), { status: 503 });
  });
});

test('a connection that does not answer the question of a guard is replaced with the statement behind it', async (t) => {
  let position = 1n;
  const guard: ServerGuard = {
    required: () => ({ timeline: 1, position }),
    // The second question gets no answer in time.
    question: () => ({ text: position === 2n ? 'select pg_sleep(20)' : 'select 1', values: [] }),
    readAnswer: () => ({ timeline: 1, position }),
  };
  const pool = new Pool({ open, count: 1, depth: 10, guard });
  const backend = { text: 'select pg_backend_pid()', values: [] };
  const run = async (): Promise<number> => Number(String((await pool.run(backend, false))[0]?.[0]));
  t.after(() => pool.close());
  const first = await run();
  assert.equal(await run(), first);
  position = 2n;
  const execution = pool.free()?.execute(backend, false);
  assert.ok(execution);
  const lost = assert.rejects(execution.rows, {
    status: 503,
    message: 'The database took too long. Try again.',
  });
  await execution.sent;
  pool.sweep(performance.now() + 60_000);
  await lost;
  position = 3n;
  assert.notEqual(await run(), first);
});

/** Runs a prepared statement on a table with a type that the tests change. */
async function nameOfSingle(pool: Pool): Promise<string> {
  const [row] = await pool.run({ text: 'select name from single where name <> $1', values: [''] }, true);
  return String(row?.[0]);
}

test('statements are prepared again after a change of tables, and every answer goes to its own request', async (t) => {
  const database = await createDatabase();
  await database.sql`create table numbered as select n as id, n::text::varchar(9) as name from generate_series(1, 500) n`;
  await database.sql`create table single as select 'one'::varchar(9) as name`;
  const open = (): postgres.Sql => postgres(database.url, { max: 1, fetch_types: false });
  const pool = new Pool({ open, count: 1, depth: 1000 });
  const single = () => nameOfSingle(pool);
  const numbered = async (id: number): Promise<string> => {
    const text = 'select name from numbered where id = $1';
    const [row] = await pool.run({ text, values: [String(id)] }, true);
    return String(row?.[0]);
  };
  t.after(async () => {
    await pool.close();
    await database.drop();
  });
  for (let round = 0; round < 6; round += 1) {
    assert.deepEqual([await single(), await numbered(7)], ['one', '7']);
    if (round % 2 === 0)
      await database.sql.unsafe(
        `alter table single alter name type ${round % 4 === 0 ? 'text' : 'varchar(9)'}`,
      );
    else await pool.run({ text: 'deallocate all', values: [] }, false);
    const answers: Promise<string>[] = [];
    for (let id = 1; id <= 500; id += 1) {
      answers.push(numbered(id));
      if (id % 10 === 5) answers.push(single());
      await new Promise(setImmediate);
    }
    const expected = Array.from({ length: 500 }, (_, at) => [
      String(at + 1),
      ...(at % 10 === 4 ? ['one'] : []),
    ]);
    assert.deepEqual(await Promise.all(answers), expected.flat());
  }
});

test('statements that several connections have prepared run on any of them after a change of tables', async (t) => {
  const database = await createDatabase();
  await database.sql`create table single as select 'one'::varchar(9) as name`;
  const open = (): postgres.Sql => postgres(database.url, { max: 1, fetch_types: false });
  const pool = new Pool({ open, count: 3, depth: 1 });
  const single = () => nameOfSingle(pool);
  t.after(async () => {
    await pool.close();
    await database.drop();
  });
  for (const type of ['text', 'varchar(9)', 'varchar(8)']) {
    assert.deepEqual(await Promise.all([single(), single(), single()]), ['one', 'one', 'one']);
    const waiting = await database.sql.begin(async (own) => {
      await own.unsafe(`alter table single alter name type ${type}`);
      const busy = pool.run({ text: 'select 1 from pg_sleep(0.2)', values: [] }, false);
      const name = single(); // on the second connection, where it waits for the table
      await busy;
      return { name };
    });
    assert.equal(await waiting.name, 'one'); // though the first one is free by then
    assert.deepEqual(await Promise.all(Array.from({ length: 3 }, single)), Array(3).fill('one'));
  }
});

test('a connection is replaced before its prepared statements take much memory', async (t) => {
  const pool = new Pool({ open, count: 1, depth: 1 });
  t.after(() => pool.close());
  let most = 0;
  for (let count = 0; count < 200; count += 1) {
    await pool.run({ text: `select ${count}, '${'x'.repeat(7_600)}'`, values: [] }, true);
    const text = 'select sum(length(statement)) from pg_prepared_statements';
    const [row] = await pool.run({ text, values: [] }, false);
    most = Math.max(most, Number(row?.[0]));
  }
  assert.ok(most > 100_000, `${most} characters`);
  assert.ok(most < 600_000, `${most} characters`);
});

test('a connection is replaced when it is past its lifetime', async (t) => {
  const pool = new Pool({ open, count: 1, depth: 1 });
  const session = async (): Promise<string> =>
    String((await pool.run({ text: 'select pg_backend_pid()', values: [] }, false))[0]?.[0]);
  t.after(() => pool.close());
  const first = await session();
  pool.sweep(performance.now() + MAX_LIFETIME - 60_000);
  assert.equal(await session(), first);
  pool.sweep(performance.now() + MAX_LIFETIME + 1);
  assert.notEqual(await session(), first);
});

const OPTIONS = { max: 1, fetch_types: false, onnotice: () => undefined };

const textOf = (rows: readonly RawRow[]): (string | undefined)[][] =>
  rows.map((row) => row.map((cell) => cell?.toString()));

describe('workarounds for the driver', () => {
  let sql: Sql;
  const send = (text: string, values: string[] = [], prepare = false): Query =>
    sendStatement(sql, { text, values }, prepare);
  const read = async (text: string, values: string[] = []): Promise<(string | undefined)[][]> =>
    textOf(await send(text, values));

  const database = useDatabase();
  beforeEach(() => {
    sql = openPostgres(database.url, OPTIONS);
  });
  afterEach(() => sql.end({ timeout: 0 }));

  test('a stale prepared statement fails, and the driver does not send it again', async () => {
    await database.sql`create table growing (id integer)`;
    const select = 'select * from growing where id = $1::text::integer';
    await send(select, ['1'], true);
    await database.sql`alter table growing add column name text`;
    await assert.rejects(
      async () => send(select, ['1'], true),
      (error: Error) => isStalePrepared(error),
    );
  });

  test('a statement without values can be prepared', async () => {
    await send('select 17', [], true);
    const prepared = await read("select count(*) from pg_prepared_statements where statement = 'select 17'");
    assert.deepEqual(prepared, [['1']]);
  });

  test('a text without values holds one statement only', async () => {
    await assert.rejects(async () => send('select 1; select 2'), { code: '42601' });
  });

  test('parameters reach PostgreSQL as they are, whatever their type', async () => {
    const values = [
      'true',
      '{"a": 1.0}',
      '{"a": 1.0}',
      '2024-01-02 03:04:05.678901',
      '2024-01-02',
      '\\x00ff',
    ];
    const casts = ['boolean', 'json', 'jsonb', 'timestamp', 'date', 'bytea'];
    const columns = casts.map((type, index) => `$${index + 1}::${type}::text`);
    assert.deepEqual(await read(`select ${columns.join()}`, values), [values]);
    await assert.rejects(async () => send('select $1::date', ['2024-02-30']), { code: '22008' });
  });

  test('a request to cancel is over before the next statement can begin', async (t) => {
    const { hostname, port } = new URL(database.url);
    let connections = 0;
    // Delays every connection but the first one: the driver opens another for each request to cancel.
    const proxy = createServer((client) => {
      connections += 1;
      setTimeout(
        () => {
          const server = connect(Number(port), hostname);
          client.pipe(server).pipe(client);
          for (const socket of [client, server]) socket.on('error', () => undefined);
        },
        connections === 1 ? 0 : 500,
      );
    });
    await once(proxy.listen(0, '127.0.0.1'), 'listening');
    const url = new URL(database.url);
    url.port = String((proxy.address() as AddressInfo).port);
    const client = openPostgres(url.href, OPTIONS);
    const run = (text: string): Query => sendStatement(client, { text, values: [] }, false);
    t.after(async () => {
      await client.end({ timeout: 0 });
      proxy.close();
    });
    await run('select 1');
    const short = run('select pg_sleep(0.1)');
    const ended = Promise.resolve(short);
    await sleep(50);
    const canceled = cancelOnServer(short);
    await ended;
    await canceled;
    await run('select pg_sleep(0.8)');
  });

  test('a dedicated connection that has ended takes no further statement', async () => {
    const connection = openDedicated((onclose) => openPostgres(database.url, { ...OPTIONS, onclose }));
    const run = (text: string): Promise<unknown> => connection.run((one) => one.unsafe(text));
    await run('begin');
    await assert.rejects(run('select pg_terminate_backend(pg_backend_pid())'));
    await assert.rejects(run('select 1'), { status: 503 });
    await assert.rejects(run('select 1'), { status: 503 });
    await connection.end(0);
  });

  test('the certificate of a server given by address must name this address', () => {
    const { options } = openPostgres('postgres://ada@127.0.0.1/db?sslmode=verify-full', OPTIONS);
    const { checkServerIdentity } = options.ssl as TlsOptions;
    const check = (name: string): Error | undefined => {
      const pem = readFileSync(join(REPOSITORY, `test/process/tls/${name}.pem`));
      // The driver has Node check the name localhost.
      return checkServerIdentity?.('localhost', new X509Certificate(pem).toLegacyObject());
    };
    assert.equal(check('number'), undefined);
    assert.match(String(check('name')), /altnames/);
  });
});

// Transactions on the schema share a connection, and with it the plans of the statements that read the catalog.
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
