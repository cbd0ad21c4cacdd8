import assert from 'node:assert/strict';
import { assertProblem } from '../http/expect.ts';
import { withPolicies } from './policies.ts';
import { test } from 'node:test';

test('a row that a policy refuses is 400, and a missing privilege is 500', () =>
  withPolicies(
    `create policy all_but_x on guarded using (true) with check (name <> 'x')`,
    async ({ service, role, send }) => {
      const made = await send('POST', '/api/guarded/', 'y');
      assert.equal(made.status, 201);
      assertProblem(await send('POST', '/api/guarded/', 'x'), 400);
      assertProblem(await send('PUT', `/api/guarded/${made.json.id}/`, 'x'), 400);
      await service.sql.unsafe(`revoke insert on guarded from ${role}`);
      assertProblem(await send('POST', '/api/guarded/', 'y'), 500);
    },
  ));
