import assert from 'node:assert/strict';
import type { Resource } from '../../src/index.ts';
import { user } from '../../src/resources/registry.ts';
import { assertProblem, eventually } from '../http/expect.ts';
import { useService, type Answer, type TestService } from '../support.ts';
import { describe, test } from 'node:test';

const guarded: Resource = { model: 'guarded', columns: { name: { type: 'string' } }, access: 'user' };

describe('connections that the database ends', () => {
  const service: TestService = useService([user, guarded], {}, () => service.addUser('ada'));

  const send = (method: string, path: string, body: object): Promise<Answer> =>
    service.request(path, { method, user: 'ada', body });

  test('affect only the statement that was running', async () => {
    const { json } = await send('POST', '/api/guarded/', { name: 'held' });
    const path = `/api/guarded/${json.id}/`;
    for (let times = 0; times < 2; times += 1) {
      let cut: Promise<Answer> | undefined;
      await service.sql.begin(async (transaction) => {
        await transaction`select from guarded for update`;
        cut = send('PUT', path, { name: `cut ${times}` });
        await eventually(async () => {
          const ended = await service.sql`select pg_terminate_backend(pid) from pg_stat_activity
            where datname = current_database() and application_name = 'vitrine' and wait_event_type = 'Lock'`;
          return ended.length > 0;
        }, 'the statement to wait');
        assertProblem(await cut, 503);
      });
      // As many as there are connections, so that each one is used.
      const after = await Promise.all(
        Array.from({ length: 16 }, (_, at) => send('PUT', path, { name: `after ${at}` })),
      );
      assert.deepEqual(
        [...new Set(after.map(({ status, text }) => (status === 200 ? 'done' : text)))],
        ['done'],
      );
    }
  });

  test('are all usable again after many cuts under load', async () => {
    const { json } = await send('POST', '/api/guarded/', { name: 'cut' });
    const path = `/api/guarded/${json.id}/`;
    const statuses = new Set<number>();
    let isOver = false;
    const client = async (at: number): Promise<void> => {
      while (!isOver) {
        const answer = await (at % 2 === 0
          ? service.request(`/api/guarded/?name=${at}&ordering=-id`)
          : send('PUT', path, { name: `by ${at}` }));
        statuses.add(answer.status);
      }
    };
    const clients = Promise.all(Array.from({ length: 24 }, (_, at) => client(at)));
    for (let times = 0; times < 40; times += 1) {
      await service.sql`select pg_terminate_backend(pid) from pg_stat_activity
        where datname = current_database() and application_name = 'vitrine'`;
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
    isOver = true;
    await clients;
    assert.ok(
      [...statuses].every((status) => [200, 429, 503].includes(status)),
      String([...statuses]),
    );
    // Writes of one record take turns.
    const made = await Promise.all(
      Array.from({ length: 8 }, () => send('POST', '/api/guarded/', { name: 'one of many' })),
    );
    let held: Promise<Answer[]> | undefined;
    await service.sql.begin(async (transaction) => {
      await transaction`select from guarded for update`;
      held = Promise.all(
        made.map(({ json: { id } }) => send('PUT', `/api/guarded/${id}/`, { name: 'held' })),
      );
      await eventually(async () => {
        const waiting = await service.sql`select from pg_stat_activity
          where datname = current_database() and application_name = 'vitrine' and wait_event_type = 'Lock'`;
        return waiting.length >= 3;
      }, 'all connections that one client may use for changes');
    });
    assert.deepEqual([...new Set((await held)?.map(({ status }) => status))], [200]);
  });
});
