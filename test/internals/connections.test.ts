// A statement that fails, is slow or waits does not affect the statements after it.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import postgres from 'postgres';
import { type OpenClient, openDedicated } from '../../src/db/connection/driver.ts';
import {
  Connections,
  MAX_LIFETIME,
  NotSent,
  type ConnectionOptions,
} from '../../src/db/connection/connections.ts';
import type { ServerGuard } from '../../src/db/connection/server-guard.ts';
import type { Problem } from '../../src/errors.ts';
import { eventually } from '../http/expect.ts';
import type { RawRow, SentStatement } from '../../src/db/rows.ts';
import { createDatabase, serverUrl } from '../support.ts';
import { describe, test } from 'node:test';

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

test('a statement that fails after some rows leaves none of them to the next statement', async () => {
  const open = (): postgres.Sql => postgres(serverUrl(), { max: 1, fetch_types: false });
  const pool = new Pool({ open, count: 1, depth: 10 });
  const run = (text: string): Promise<unknown> =>
    pool.run({ text, values: [] }, false).then((rows) => rows.map((row) => row.map(String)));
  try {
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
  } finally {
    await pool.close();
  }
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

  test('is 503, and later statements are answered', async () => {
    const { open, cut } = cutting(serverUrl());
    const pool = new Pool({ open, count: 1, depth: 10 });
    const run = async (text: string): Promise<string> =>
      String((await pool.run({ text, values: [] }, false))[0]?.[0]);
    try {
      for (let round = 0; round < 3; round += 1) {
        assert.equal(await run('select 41'), '41');
        const many = cut(() => Promise.allSettled(['select 42', 'select 43', 'select 44'].map(run)));
        for (const end of await many) {
          assert.equal(end.status, 'rejected');
          assert.equal((end.reason as Problem).status, 503);
        }
        assert.deepEqual(await Promise.all(['select 45', 'select 46'].map(run)), ['45', '46']);
      }
    } finally {
      await pool.close();
    }
  });

  test('does not affect statements that were not sent yet, and leaves no connection open', async () => {
    const url = new URL(serverUrl());
    const name = `pool ${process.pid} ${Date.now()}`;
    url.searchParams.set('application_name', name);
    const { open, cut } = cutting(url.href);
    const pool = new Pool({ open, count: 1, depth: 100 });
    const run = async (value: string, round = ''): Promise<string> =>
      String((await pool.run({ text: `select $1::text || '${round}'`, values: [value] }, true))[0]?.[0]);
    const admin = postgres(serverUrl(), { max: 1 });
    try {
      for (let round = 0; round < 5; round += 1) {
        assert.equal(await run('a'), 'a');
        // The connection does not know the first statement, so the driver holds back the statements after it.
        const [first, ...others] = await cut(() =>
          Promise.allSettled(['x', 'y', 'z', 'a', 'b'].map((value) => run(value, String(round)))),
        );
        assert.equal(first?.status, 'rejected');
        assert.deepEqual(
          others.map((end) => end.status === 'fulfilled' && end.value),
          ['y', 'z', 'a', 'b'].map((value) => `${value}${round}`),
        );
      }
      await eventually(async () => {
        const { count } = await admin`select from pg_stat_activity where application_name = ${name}`;
        return count === 1;
      }, 'an end to all connections but one');
    } finally {
      await pool.close();
      await admin.end();
    }
  });

  test('is 503 on a dedicated connection, and so are later statements', async () => {
    const { open, cut } = cutting(serverUrl());
    const dedicated = openDedicated(open);
    const run = (text: string) => dedicated.run((sql) => sql.unsafe(text).raw());
    try {
      assert.equal(String((await run('select 41'))[0]?.[0]), '41');
      await assert.rejects(
        cut(() => run('select 42')),
        { status: 503 },
      );
      await assert.rejects(run('select 43'), { status: 503 });
    } finally {
      await dedicated.end(0);
    }
  });
});

test('a connection that does not answer the question of a guard is replaced with the statement behind it', async () => {
  const open = (): postgres.Sql => postgres(serverUrl(), { max: 1, fetch_types: false });
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
  try {
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
  } finally {
    await pool.close();
  }
});

/** Runs a prepared statement on a table with a type that the tests change. */
async function nameOfSingle(pool: Pool): Promise<string> {
  const [row] = await pool.run({ text: 'select name from single where name <> $1', values: [''] }, true);
  return String(row?.[0]);
}

test('statements are prepared again after a change of tables, and every answer goes to its own request', async () => {
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
  try {
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
  } finally {
    await pool.close();
    await database.drop();
  }
});

test('statements that several connections have prepared run on any of them after a change of tables', async () => {
  const database = await createDatabase();
  await database.sql`create table single as select 'one'::varchar(9) as name`;
  const open = (): postgres.Sql => postgres(database.url, { max: 1, fetch_types: false });
  const pool = new Pool({ open, count: 3, depth: 1 });
  const single = () => nameOfSingle(pool);
  try {
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
  } finally {
    await pool.close();
    await database.drop();
  }
});

test('a connection is replaced before its prepared statements take much memory', async () => {
  const open = (): postgres.Sql => postgres(serverUrl(), { max: 1, fetch_types: false });
  const pool = new Pool({ open, count: 1, depth: 1 });
  try {
    let most = 0;
    for (let count = 0; count < 200; count += 1) {
      await pool.run({ text: `select ${count}, '${'x'.repeat(7_600)}'`, values: [] }, true);
      const text = 'select sum(length(statement)) from pg_prepared_statements';
      const [row] = await pool.run({ text, values: [] }, false);
      most = Math.max(most, Number(row?.[0]));
    }
    assert.ok(most > 100_000, `${most} characters`);
    assert.ok(most < 600_000, `${most} characters`);
  } finally {
    await pool.close();
  }
});

test('a connection is replaced when it is past its lifetime', async () => {
  const open = (): postgres.Sql => postgres(serverUrl(), { max: 1, fetch_types: false });
  const pool = new Pool({ open, count: 1, depth: 1 });
  const session = async (): Promise<string> =>
    String((await pool.run({ text: 'select pg_backend_pid()', values: [] }, false))[0]?.[0]);
  try {
    const first = await session();
    pool.sweep(performance.now() + MAX_LIFETIME - 60_000);
    assert.equal(await session(), first);
    pool.sweep(performance.now() + MAX_LIFETIME + 1);
    assert.notEqual(await session(), first);
  } finally {
    await pool.close();
  }
});
