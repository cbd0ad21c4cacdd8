// A DATABASE_URL of several servers, and servers that close connections, freeze or accept no changes.
import assert from 'node:assert/strict';
import { setTimeout as sleep } from 'node:timers/promises';
import { note, user } from '../../src/resources/registry.ts';
import { startService, type TestService } from '../support.ts';
import { test } from 'node:test';

const RESOURCES = [user, note];

const sessionsOf = async ({ sql }: TestService): Promise<number[]> =>
  (
    await sql<{ pid: number }[]>`select pid from pg_stat_activity
      where datname = current_database() and application_name = 'vitrine' order by pid`
  ).map(({ pid }) => pid);

/** The sessions once those of the start have ended, which takes longer on a slow machine. */
async function settledSessionsOf(service: TestService): Promise<number[]> {
  for (let before = await sessionsOf(service); ;) {
    await sleep(500);
    const now = await sessionsOf(service);
    if (now.join() === before.join()) return now;
    before = now;
  }
}

for (const [cause, work] of [
  ['raises such an error', `raise exception 'no' using errcode = 'read_only_sql_transaction'`],
  [
    'makes its transaction read-only',
    `perform set_config('transaction_read_only', 'on', true); delete from "user"`,
  ],
])
  test(`after a write that a trigger refuses that ${cause}, all pools keep their connections`, async () => {
    const service = await startService(RESOURCES);
    try {
      await service.addUser('bob');
      await service.sql.unsafe(`create function refuse() returns trigger language plpgsql as $$
        begin if new.message = 'no' then ${work}; end if; return new; end $$;
        create trigger refuse before insert on note for each row execute function refuse()`);
      const post = async (message: string): Promise<number> =>
        (await service.request('/api/note/', { method: 'POST', user: 'bob', body: { message } })).status;
      assert.equal(await post('one'), 201);
      assert.equal((await service.request('/api/note/1/')).status, 200);
      let lost: number[] = [];
      // On a slow machine, a session may end for another reason. A defect would lose some each time: the pools are replaced at most
      // once a second.
      for (let tries = 0; tries < 3; tries += 1) {
        await sleep(1_100);
        const before = await settledSessionsOf(service);
        assert.notEqual(await post('no'), 201);
        assert.equal((await service.request('/api/note/1/')).status, 200);
        assert.equal(await post('two'), 201);
        const after = await sessionsOf(service);
        lost = before.filter((pid) => !after.includes(pid));
        if (lost.length === 0) break;
      }
      assert.deepEqual(lost, []);
    } finally {
      await service.close();
    }
  });
