import assert from 'node:assert/strict';
import type { Resource } from '../../src/index.ts';
import { user } from '../../src/resources/registry.ts';
import { startService } from '../support.ts';
import { test } from 'node:test';

const pair = {
  model: 'pair',
  access: 'user',
  columns: {
    content: { type: 'string', unique: true },
    other: { type: 'foreignKey', references: 'pair', null: true },
  },
} as const satisfies Resource;

/** An update holds its lock for a while, and then locks the other record. */
const TRIGGER = `
  create function hold() returns trigger language plpgsql as $$
    begin
      perform pg_sleep(0.2);
      perform from pair where id = new.other_id for update;
      return null;
    end $$;
  create trigger hold after update on pair for each row execute function hold()`;

test('two writes that deadlock both succeed, and each is made once', async () => {
  const service = await startService([user, pair]);
  try {
    await service.addUser('bob');
    await service.sql.unsafe(TRIGGER);
    const write = (path: string, method: string, body: object) =>
      service.request(path, { method, user: 'bob', body });
    for (const content of ['a', 'b'])
      assert.equal((await write('/api/pair/', 'POST', { content })).status, 201);
    const answers = await Promise.all([
      write('/api/pair/1/', 'PUT', { content: 'c', other_id: 2 }),
      write('/api/pair/2/', 'PUT', { content: 'd', other_id: 1 }),
    ]);
    assert.deepEqual(
      answers.map(({ status, json }) => [status, json.content]),
      [
        [200, 'c'],
        [200, 'd'],
      ],
    );
    const { count } = await service.sql`
      select from vitrine_history where model = 'pair' and action = 'update'`;
    assert.equal(count, 2);
  } finally {
    await service.close();
  }
});
