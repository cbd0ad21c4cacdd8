import assert from 'node:assert/strict';
import { setTimeout as sleep } from 'node:timers/promises';
import type { ReservedSql } from 'postgres';
import { message, user } from '../../src/resources/registry.ts';
import { assertProblem } from '../http/expect.ts';
import { startService, type Answer, type TestService } from '../support.ts';
import { after, before, describe, test } from 'node:test';

const WRITES = [
  ['PUT', { content: 'changed' }],
  ['DELETE', undefined],
] as const;

describe('a record that another transaction has locked', () => {
  let service: TestService;
  let holder: ReservedSql;
  let bob: number;
  let eve: number;
  before(async () => {
    service = await startService([user, message]);
    bob = await service.addUser('bob');
    eve = await service.addUser('eve');
    holder = await service.sql.reserve();
  });
  after(async () => {
    holder.release();
    await service.close();
  });

  async function create(): Promise<string> {
    const sent = { method: 'POST', user: 'bob', body: { content: 'as it was' } };
    return (await service.request('/api/message/', sent)).headers.get('location') ?? '';
  }
  const idOf = (path: string): number => Number(path.split('/')[3]);

  /** Resolves when a statement of the service waits for a lock. */
  async function lockWait(): Promise<void> {
    for (;;) {
      const rows = await service.sql`
        select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`;
      if (rows.length > 0) return;
      await sleep(10);
    }
  }

  /** Sends a write of Bob, which waits until `change` is committed. */
  async function writeDuring(
    path: string,
    change: (id: number) => Promise<unknown>,
    method: string,
    body?: object,
  ): Promise<Answer> {
    await holder`begin`;
    await change(idOf(path));
    const answer = service.request(path, { method, user: 'bob', ...(body ? { body } : {}) });
    await lockWait();
    await holder`commit`;
    return answer;
  }

  for (const [method, body] of WRITES) {
    test(`returns 403 to other users without waiting for the lock: ${method}`, async () => {
      const path = await create();
      await holder`begin`;
      await holder`update message set content = 'held' where id = ${idOf(path)}`;
      const answer = await service.request(path, { method, user: 'eve', ...(body ? { body } : {}) });
      await holder`rollback`;
      assertProblem(answer, 403);
      assert.equal((await service.request(path)).json.content, 'as it was');
    });

    test(`is changed by its owner after the lock is released: ${method}`, async () => {
      const path = await create();
      const answer = await writeDuring(
        path,
        (id) => holder`update message set content = 'held' where id = ${id}`,
        method,
        body,
      );
      assert.equal(answer.status, 200);
    });

    test(`returns 403 if it has another owner by then: ${method}`, async () => {
      const path = await create();
      const answer = await writeDuring(
        path,
        (id) => holder`update message set user_id = ${eve} where id = ${id}`,
        method,
        body,
      );
      assertProblem(answer, 403);
      assert.equal((await service.request(path)).json.user_id, eve);
    });

    test(`returns 404 if it is deleted by then: ${method}`, async () => {
      const path = await create();
      const answer = await writeDuring(
        path,
        (id) => holder`delete from message where id = ${id}`,
        method,
        body,
      );
      assertProblem(answer, 404);
    });

    test(`can be changed by its new owner: ${method}`, async () => {
      const path = await create();
      await service.sql`update message set user_id = ${eve} where id = ${idOf(path)}`;
      assertProblem(await service.request(path, { method, user: 'bob', ...(body ? { body } : {}) }), 403);
      await service.sql`update message set user_id = ${bob} where id = ${idOf(path)}`;
      const answer = await service.request(path, { method, user: 'bob', ...(body ? { body } : {}) });
      assert.equal(answer.status, 200);
    });
  }

  test('does not block other writes: some of the waiting ones end with 503', async () => {
    // A client with a connection for writes leaves the last ones to others, and writes of one record take turns.
    const users = Array.from({ length: 10 }, (_, index) => `locked${index}`);
    for (const name of users) await service.addUser(name);
    const owners = users.flatMap((user) => [user, user]);
    const paths = await Promise.all(
      owners.map(async (user) => {
        const sent = { method: 'POST', user, body: { content: 'as it was' } };
        return (await service.request('/api/message/', sent)).headers.get('location') ?? '';
      }),
    );
    await holder`begin`;
    await holder`select from message where id = any(${paths.map(idOf)}) for update`;
    let answered = 0;
    const all = paths.map(async (path, index) => {
      const sent = { method: 'PUT', user: owners[index] ?? '', body: { content: 'changed' } };
      const answer = await service.request(path, sent);
      answered += 1;
      return answer;
    });
    await lockWait();
    const others = await Promise.all(Array.from({ length: 8 }, () => create()));
    assert.equal(others.filter((path) => path !== '').length, 8);
    assert.ok(answered < all.length, 'the records are still locked');
    await holder`commit`;
    const answers = await Promise.all(all);
    const ended = answers.filter(({ status }) => status !== 200);
    assert.ok(ended.length > 0 && ended.length < answers.length);
    for (const answer of ended) {
      assertProblem(answer, 503);
      assert.match(answer.headers.get('retry-after') ?? '', /^[1-9]/);
    }
  });
});
