import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import type { Resource } from '../../src/index.ts';
import { user } from '../../src/resources/registry.ts';
import { startService, type Answer, type TestService } from '../support.ts';
import { assertUnauthorized } from './expect.ts';

const guarded: Resource = { model: 'guarded', columns: { name: { type: 'string' } }, access: 'user' };

describe('a write of a user who has changed', () => {
  let service: TestService;
  before(async () => {
    service = await startService([user, guarded]);
  });
  after(() => service.close());

  const send = (method: string, path: string, body: object | undefined, user: string): Promise<Answer> =>
    service.request(path, { method, user, ...(body && { body }) });

  for (const [kind, changed] of [
    ['deactivated', { active: false }],
    ['given a new password', { password: 'none' }],
  ] as const)
    test(`does not wait for a locked record: ${kind}`, async () => {
      const name = kind.replace(/ .*/, '');
      const id = await service.addUser(name);
      const { json } = await send('POST', '/api/guarded/', { name: 'contested' }, name);
      const path = `/api/guarded/${json.id}/`;
      await service.sql.begin(async (transaction) => {
        await transaction`select from guarded for update`;
        await service.sql`update "user" set ${service.sql(changed)} where id = ${id}`;
        const answers = [
          await send('PUT', path, { name: 'mine' }, name),
          await send('DELETE', path, undefined, name),
        ];
        for (const answer of answers) assertUnauthorized(answer);
        const waiting = await service.sql`select from pg_stat_activity
          where datname = current_database() and application_name = 'vitrine' and wait_event_type = 'Lock'`;
        assert.equal(waiting.length, 0);
      });
      const [row] = await service.sql`select name from guarded where id = ${json.id}`;
      assert.equal(row?.['name'], 'contested');
    });
});
