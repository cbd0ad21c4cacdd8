import assert from 'node:assert/strict';
import type { Resource } from '../../src/index.ts';
import { user } from '../../src/resources/registry.ts';
import { basic, startService, untilRun, type Answer, type TestService } from '../support.ts';
import { assertUnauthorized } from './expect.ts';
import { requestText, wire } from './wire.ts';
import { after, before, describe, test } from 'node:test';

const guarded: Resource = { model: 'guarded', columns: { name: { type: 'string' } }, access: 'user' };

const CHANGES = [
  ['deactivated', { active: false }],
  ['given a new password', { password: 'none' }],
] as const;

describe('a write of a user who has changed', () => {
  let service: TestService;
  before(async () => {
    service = await startService([user, guarded]);
  });
  after(() => service.close());

  const send = (method: string, path: string, body: object | undefined, user: string): Promise<Answer> =>
    service.request(path, { method, user, ...(body && { body }) });

  for (const [kind, changed] of CHANGES)
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

  for (const [kind, changed] of CHANGES)
    test(`changes nothing if the user changes while the body arrives: ${kind}`, async () => {
      const name = `slow and ${kind}`;
      const id = await service.addUser(name);
      const body = JSON.stringify({ name });
      const connection = wire(service);
      const headers = {
        authorization: basic(name),
        'content-type': 'application/json',
        'content-length': String(body.length),
      };
      await untilRun(service, '"user"', () =>
        connection.send(requestText('POST', '/api/guarded/', headers, body.slice(0, 5))),
      );
      await service.sql`update "user" set ${service.sql(changed)} where id = ${id}`;
      connection.send(body.slice(5));
      assert.equal((await connection.next())?.status, 401);
      connection.destroy();
      assert.equal((await service.sql`select from guarded where name = ${name}`).length, 0);
    });

  test('is done if the user stays the same while the body arrives, and a missing record is 404', async () => {
    const body = JSON.stringify({ name: 'x' });
    for (const [method, path, status] of [
      ['PUT', '/api/guarded/999999/', 404],
      ['POST', '/api/guarded/', 201],
    ] as const) {
      await service.addUser(`steady ${method}`);
      const connection = wire(service);
      const headers = {
        authorization: basic(`steady ${method}`),
        'content-type': 'application/json',
        'content-length': String(body.length),
      };
      await untilRun(service, '"user"', () =>
        connection.send(requestText(method, path, headers, body.slice(0, 5))),
      );
      connection.send(body.slice(5));
      assert.equal((await connection.next())?.status, status);
      connection.destroy();
    }
  });
});
