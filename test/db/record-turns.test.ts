// Many writes of one record, which wait for its lock.
import assert from 'node:assert/strict';
import type { Resource } from '../../src/index.ts';
import { eventually } from '../http/expect.ts';
import { useWritable, type WritableService } from './helpers.ts';
import { describe, test } from 'node:test';

const resource: Resource = { model: 'page', columns: { text: { type: 'text' } }, access: 'user' };
const OWNED: Resource[] = [
  {
    model: 'page',
    columns: { user: { type: 'foreignKey', references: 'user' }, text: { type: 'text' } },
    owner: 'user',
    access: 'user',
  },
  {
    model: 'line',
    columns: { on: { type: 'foreignKey', references: 'page' }, text: { type: 'text' } },
    access: 'user',
  },
];
/** How many statements of the service wait for a lock. */
const waitingForLocks = async ({ sql }: WritableService): Promise<number> =>
  (
    await sql`select from pg_stat_activity where datname = current_database()
      and application_name = 'vitrine' and wait_event_type = 'Lock'`
  ).count;

const NAMES = ['bob', 'eve', 'mallory'];

describe('writes of one record that is locked', () => {
  const service: WritableService = useWritable([resource], '', async () => {
    for (const name of NAMES) await service.addUser(name);
    await service.sql`insert into page (text) select 'x' from generate_series(1, 3)`;
  });

  const write = (user: string, id: number, method = 'PUT') =>
    service.request(`/api/page/${id}/`, {
      method,
      user,
      headers: { 'content-type': 'application/json' },
      ...(method === 'PUT' ? { body: JSON.stringify({ text: user }) } : {}),
    });
  const waiting = () => waitingForLocks(service);

  test('have one connection, so that all others can be written', async () => {
    const { answers } = await service.sql.begin(async (own) => {
      await own`select from page where id = 1 for update`;
      const sent = NAMES.flatMap((name) => Array.from({ length: 6 }, () => write(name, 1)));
      await eventually(async () => (await waiting()) === 1, 'a write that waits for the lock');
      for (const [name, id] of [
        ['bob', 2],
        ['ada', 3],
      ] as const)
        // prettier-ignore
        assert.equal((await write(name, id)).status, 200);
      assert.equal(await waiting(), 1);
      return { answers: sent };
    });
    const statuses = (await Promise.all(answers)).map(({ status }) => status);
    assert.deepEqual(new Set(statuses), new Set([200]));
  });

  test('are refused after two seconds, and leave nothing behind', async () => {
    const { answers } = await service.sql.begin(async (own) => {
      await own`select from page where id = 1 for update`;
      let refusals = 0;
      const sent = Array.from({ length: 5 }, async () => {
        const answer = await write('bob', 1, 'DELETE');
        refusals += 1;
        return answer;
      });
      await eventually(() => refusals === 4, 'the refusals');
      return { answers: sent };
    });
    const all = await Promise.all(answers);
    assert.deepEqual(all.map(({ status }) => status).sort(), [200, 503, 503, 503, 503]);
    const [refused] = all.filter(({ status }) => status === 503);
    assert.equal(refused?.headers.get('retry-after'), '1');
    assert.match(refused?.json.detail, /keep changing this record/);
    assert.equal((await write('bob', 1)).status, 404);
  });
});

describe('writes that wait for locks', () => {
  const service: WritableService = useWritable(OWNED, '', async () => {
    for (const name of NAMES) ids.set(name, await service.addUser(name));
    await service.sql`insert into page (id, user_id, text) overriding system value
      select n, ${ids.get('eve')!}, 'x' from generate_series(1, 20) n`;
    await service.sql`insert into page (id, user_id, text) overriding system value values (100, ${ids.get('bob')!}, 'x')`;
  });
  const ids = new Map<string, number>();

  const put = (user: string, id: number) =>
    service.request(`/api/page/${id}/`, { method: 'PUT', user, body: { text: 'y' } });

  test('do not keep others from a record that their client may not write', async () => {
    const { answers } = await service.sql.begin(async (own) => {
      await own`select from page where id <= 20 for update`;
      const sent = Array.from({ length: 12 }, (_, index) => put('eve', index + 1));
      await eventually(async () => (await waitingForLocks(service)) >= 3, 'writes that wait for locks');
      const refused = Array.from({ length: 6 }, () => put('eve', 100));
      let isAnswered = false;
      void Promise.race([...sent, ...refused]).then(() => (isAnswered = true));
      for (let turn = 0; turn < 5; turn += 1) assert.equal((await put('bob', 100)).status, 200);
      assert.ok(!isAnswered);
      return { answers: [...sent, ...refused] };
    });
    const statuses = (await Promise.all(answers)).map(({ status }) => status);
    assert.deepEqual(statuses.slice(-6), Array(6).fill(403));
  });

  test('of a referenced record leave connections to clients with no other write', async () => {
    const { answers } = await service.sql.begin(async (own) => {
      await own`select from page where id = 1 for update`;
      const post = (user: string) =>
        service.request('/api/line/', { method: 'POST', user, body: { on: 1, text: 'x' } });
      const sent = ['eve', 'mallory', 'ada'].flatMap((user) => Array.from({ length: 6 }, () => post(user)));
      await eventually(async () => (await waitingForLocks(service)) >= 6, 'writes that wait for the lock');
      let isAnswered = false;
      void Promise.race(sent).then(() => (isAnswered = true));
      for (let turn = 0; turn < 5; turn += 1) assert.equal((await put('bob', 100)).status, 200);
      assert.ok(!isAnswered);
      return { answers: sent };
    });
    for (const { status, text } of await Promise.all(answers)) assert.equal(status, 201, text);
  });
});
