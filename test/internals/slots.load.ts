import assert from 'node:assert/strict';
import { setImmediate as turn, setTimeout as sleep } from 'node:timers/promises';
import { SERVICE, type Requester } from '../../src/db/scheduling/requester.ts';
import { type SlotLimits, Slots } from '../../src/db/scheduling/slots.ts';
import { eventually } from '../http/expect.ts';
import { createDatabase } from '../support.ts';
import { openDatabase } from '../../src/db/connection/database.ts';
import { sql } from '../../src/db/fragment.ts';
import { createStatement } from '../../src/db/rows.ts';
import { openExport } from '../../src/resources/records/record-export.ts';
import { test } from 'node:test';

const anonymous = (key: string): Requester => ({ ...SERVICE, key, clientKind: 'anonymous' });

test('a free slot goes to the clients in turn, also if one of them always has a request waiting', async () => {
  const one = { anonymous: 1, user: 1, admin: 1 };
  const two = { anonymous: 2, user: 2, admin: 2 };
  const slots = new Slots({ max: one, perClient: two, ownMessage: 'own', fullMessage: 'full' });
  const order: string[] = [];
  let leave = await slots.enter(anonymous('first'));
  const ask = (key: string): void =>
    void slots.enter(anonymous(key)).then(
      (left) => {
        order.push(key);
        leave = left;
      },
      () => order.push('refused'),
    );
  for (const key of ['mallory', 'mallory', 'alice', 'bob']) ask(key);
  for (let times = 0; times < 4; times += 1) {
    ask('mallory');
    leave();
    await turn();
  }
  assert.deepEqual(order, ['mallory', 'alice', 'bob', 'mallory']);
  for (; order.length < 8; await turn()) leave();
});

test('a client that waits ends the idle work of another one only if it gets the slot', async () => {
  const all = (count: number): SlotLimits['max'] => ({ anonymous: count, user: count, admin: count });
  const slots = new Slots({ max: all(3), perClient: all(1), ownMessage: 'own', fullMessage: 'full' });
  const ended: string[] = [];
  let isIdle = false;
  for (const key of ['bob', 'carol', 'dave']) {
    let leave = (): void => undefined;
    const end = (): void => {
      ended.push(key);
      leave();
    };
    leave = await slots.enter(anonymous(key), { isIdle: () => isIdle, end });
  }
  const asked = Array.from({ length: 4 }, () => slots.enter(anonymous('mallory')));
  const results = Promise.allSettled(asked);
  isIdle = true;
  await asked[0];
  assert.deepEqual((await results).map(({ status }) => status).sort(), [
    'fulfilled',
    'rejected',
    'rejected',
    'rejected',
  ]);
  assert.deepEqual(ended, ['bob']);
});

test('a stream that has waited for its slot is not slow when it begins', async () => {
  const here = await createDatabase();
  const database = openDatabase(here.url);
  const alive = setInterval(() => undefined, 100); // the timers of the slots do not keep the process alive
  const numbers = { text: 'select generate_series(1, 100000)', values: [], decode: () => true };
  const open = (key: string): AsyncGenerator<boolean, void> =>
    database.for(anonymous(key)).cursor(numbers, 10);
  const begin = async (key: string): Promise<AsyncGenerator<boolean, void>> => {
    const stream = open(key);
    assert.equal((await stream.next()).done, false);
    return stream;
  };
  try {
    const streams = await Promise.all(['alice', 'bob', 'carol'].map(begin));
    streams.push(...(await Promise.all(['dave', 'erin', 'frank'].map(begin))));
    const late = open('grace');
    const next = late.next();
    await sleep(600);
    for (const stream of streams.slice(3)) assert.equal((await stream.next()).done, false);
    for (const stream of streams) await stream.return();
    await next;
    await late.return();
  } finally {
    clearInterval(alive);
    await database.close();
    await here.drop();
  }
});

test('a stream closes its cursor and fails when its client takes nothing for too long', async () => {
  const here = await createDatabase();
  const database = openDatabase(here.url);
  try {
    const statement = createStatement(sql`select repeat('x', 100000) from generate_series(1, 100)`, (rows) =>
      rows.flatMap(([bytes]) => (bytes ? [{ bytes, isContinued: false }] : [])),
    );
    const frame = { start: '', between: '', end: '' };
    const chunks = await openExport(database, statement, frame, 1);
    await eventually(async () => {
      const readers = await here.sql`
        select from pg_stat_activity
        where datname = current_database() and query ~ '^(fetch|declare) ' and pid <> pg_backend_pid()`;
      return readers.count === 0;
    }, 'the end of all cursors');
    await assert.rejects(async () => {
      for await (const chunk of chunks) assert.ok(chunk.length > 0);
    }, /the client read nothing of its export/);
  } finally {
    await database.close();
    await here.drop();
  }
});
