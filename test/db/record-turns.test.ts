// Many writes of one record, which wait for its lock.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import type { Resource } from '../../src/index.ts';
import { eventually } from '../http/expect.ts';
import { startWith, type WritableService } from './helpers.ts';

const resource: Resource = { model: 'page', columns: { text: { type: 'text' } }, access: 'user' };
const NAMES = ['bob', 'eve', 'mallory'];

describe('writes of one record that is locked', () => {
  let service: WritableService;
  before(async () => {
    service = await startWith([resource]);
    for (const name of NAMES) await service.addUser(name);
    await service.sql`insert into page (text) select 'x' from generate_series(1, 3)`;
  });
  after(() => service.close());

  const write = (user: string, id: number, method = 'PUT') =>
    service.request(`/api/page/${id}/`, {
      method,
      user,
      headers: { 'content-type': 'application/json' },
      ...(method === 'PUT' ? { body: JSON.stringify({ text: user }) } : {}),
    });
  const waiting = async (): Promise<number> =>
    (
      await service.sql`select from pg_stat_activity where datname = current_database()
        and application_name = 'vitrine' and wait_event_type = 'Lock'`
    ).count;

  test('have two connections, so that all others can be written', async () => {
    const { answers } = await service.sql.begin(async (own) => {
      await own`select from page where id = 1 for update`;
      const sent = NAMES.flatMap((name) => Array.from({ length: 6 }, () => write(name, 1)));
      await eventually(async () => (await waiting()) === 2, 'two writes that wait for the lock');
      for (const [name, id] of [
        ['bob', 2],
        ['ada', 3],
      ] as const)
        // prettier-ignore
        assert.equal((await write(name, id)).status, 200);
      assert.equal(await waiting(), 2);
      return { answers: sent };
    });
    const statuses = (await Promise.all(answers)).map(({ status }) => status);
    assert.deepEqual(new Set(statuses), new Set([200]));
  });

  test('are refused after two seconds, and leave nothing behind', async () => {
    const { answers } = await service.sql.begin(async (own) => {
      await own`select from page where id = 1 for update`;
      const sent = Array.from({ length: 5 }, () => write('bob', 1, 'DELETE'));
      await Promise.race(sent);
      return { answers: sent };
    });
    const all = await Promise.all(answers);
    assert.deepEqual(all.map(({ status }) => status).sort(), [200, 404, 503, 503, 503]);
    const [refused] = all.filter(({ status }) => status === 503);
    assert.equal(refused?.headers.get('retry-after'), '1');
    assert.match(refused?.json.detail, /keep changing this record/);
    assert.equal((await write('bob', 1)).status, 404);
  });
});
