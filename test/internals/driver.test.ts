// Each test shows one behavior of postgres.js that src/db/connection/driver.ts works around, on a real PostgreSQL.
import assert from 'node:assert/strict';
import { X509Certificate } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { once } from 'node:events';
import { connect, createServer, type AddressInfo } from 'node:net';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { ConnectionOptions } from 'node:tls';
import {
  cancelOnServer,
  isStalePrepared,
  openDedicated,
  openPostgres,
  sendStatement,
  withoutGaps,
  type Query,
} from '../../src/db/connection/driver.ts';
import type { RawRow } from '../../src/db/rows.ts';
import { REPOSITORY } from '../paths.ts';
import { createDatabase, type Sql, type TestDatabase } from '../support.ts';
import { after, afterEach, before, beforeEach, describe, test } from 'node:test';

const OPTIONS = { max: 1, fetch_types: false, onnotice: () => undefined };

const textOf = (rows: readonly RawRow[]): (string | undefined)[][] =>
  rows.map((row) => row.map((cell) => cell?.toString()));

describe('workarounds for the driver', () => {
  let database: TestDatabase;
  let sql: Sql;
  const send = (text: string, values: string[] = [], prepare = false): Query =>
    sendStatement(sql, { text, values }, prepare);
  const read = async (text: string, values: string[] = []): Promise<(string | undefined)[][]> =>
    textOf(await send(text, values));

  before(async () => {
    database = await createDatabase();
  });
  after(() => database.drop());
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

  test('rows that follow an error in the middle of others have no gap before them', async () => {
    await assert.rejects(async () => send('select 1 / (3 - n) from generate_series(1, 5) n'), {
      code: '22012',
    });
    assert.deepEqual(textOf(withoutGaps(await send('select 7'))), [['7']]);
  });

  test('a request to cancel is over before the next statement can begin', async () => {
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
    try {
      await run('select 1');
      const short = run('select pg_sleep(0.1)');
      const ended = Promise.resolve(short);
      await sleep(50);
      const canceled = cancelOnServer(short);
      await ended;
      await canceled;
      await run('select pg_sleep(0.8)');
    } finally {
      await client.end({ timeout: 0 });
      proxy.close();
    }
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
    const { checkServerIdentity } = options.ssl as ConnectionOptions;
    const check = (name: string): Error | undefined => {
      const pem = readFileSync(join(REPOSITORY, `test/process/tls/${name}.pem`));
      // The driver has Node check the name localhost.
      return checkServerIdentity?.('localhost', new X509Certificate(pem).toLegacyObject());
    };
    assert.equal(check('number'), undefined);
    assert.match(String(check('name')), /altnames/);
  });
});
