// With WORKERS, the heavy writes of a client take turns, whichever processes they reach.
import assert from 'node:assert/strict';
import { basic, createDatabase } from '../support.ts';
import { addUser, serve, until } from './support.ts';
import { ask, isRunning, workersOf } from './workers-support.ts';
import { test } from '../testing.ts';

/** Notes from when to when each message is written, which takes longer than it takes to send all of them. */
const NOTE_TIMES = `
  alter table message add begun timestamptz, add ended timestamptz;
  create function note_times() returns trigger language plpgsql as $$ begin
    new.begun = clock_timestamp();
    perform pg_sleep(0.25);
    new.ended = clock_timestamp();
    return new;
  end $$;
  create trigger times before insert on message for each row execute function note_times()`;

test('a client has one heavy write at a time in all processes, and others have theirs meanwhile', async () => {
  const database = await createDatabase();
  const env = { DATABASE_URL: database.url, WORKERS: '2' };
  try {
    const service = await serve({ env });
    await database.sql.unsafe(NOTE_TIMES).simple();
    for (const name of ['ada', 'bob']) await addUser(database.sql, name);
    let isOver = false;
    /** Heavy writes take turns only among others. */
    const present = (async () => {
      while (!isOver) await ask(service.base, '/api/message/?limit=1').catch(() => undefined);
    })();
    const write = async (name: string, size = 20_000): Promise<number> => {
      const headers = { authorization: basic(name), 'content-type': 'application/json' };
      const body = JSON.stringify({ content: `${name} ${'x'.repeat(size)}` });
      return (await ask(service.base, '/api/message/', headers, 'POST', body)).status;
    };
    // Each process has verified both users, so that their writes do not wait for that.
    for (const name of ['ada', 'ada', 'bob', 'bob']) assert.equal(await write(name, 10), 201);
    await database.sql`truncate message`;
    const statuses = await Promise.all(
      ['ada', 'bob'].flatMap((name) => Array.from({ length: 4 }, () => write(name))),
    );
    assert.deepEqual(statuses, Array<number>(8).fill(201));
    const pairs = await database.sql<{ own: number; others: number }[]>`
      select count(*) filter (where left(a.content, 3) = left(b.content, 3))::int as own,
        count(*) filter (where left(a.content, 3) <> left(b.content, 3))::int as others
      from message a join message b on a.id < b.id and a.begun < b.ended and b.begun < a.ended`;
    assert.equal(pairs[0]?.own, 0);
    assert.ok(pairs[0].others > 0);

    // A process that ends leaves its turns to the others.
    const [first = 0] = workersOf(service);
    const writes = Array.from({ length: 4 }, () => write('ada').catch(() => 'lost'));
    await until(
      'a heavy write',
      async () => (await database.sql`select from pg_stat_activity where wait_event = 'PgSleep'`).count > 0,
    );
    process.kill(first, 'SIGKILL');
    await until('the end of the process', () => !isRunning(first));
    for (const outcome of await Promise.all(writes))
      assert.ok(outcome === 201 || outcome === 'lost', String(outcome));
    assert.equal(await write('ada'), 201);
    isOver = true;
    await present;
    assert.equal((await service.stop()).code, 0);
  } finally {
    await database.drop();
  }
});
