import assert from 'node:assert/strict';
import { createVitrine, type Resource } from '../../src/index.ts';
import { user } from '../../src/resources/registry.ts';
import { assertProblem } from '../http/expect.ts';
import { request, startService, type Answer } from '../support.ts';
import { test } from '../testing.ts';

const guarded: Resource = { model: 'guarded', columns: { name: { type: 'string' } }, access: 'user' };
const resources = [user, guarded];

test('a row that a policy refuses is 400, and a missing privilege is 500', async () => {
  const service = await startService(resources);
  const role = `limited_${Date.now()}`;
  try {
    await service.addUser('ada');
    await service.sql.unsafe(`create role ${role} login password 'x' nobypassrls;
      grant all on all tables in schema public to ${role}; grant all on all sequences in schema public to ${role};
      alter table guarded enable row level security;
      create policy all_but_x on guarded using (true) with check (name <> 'x')`);
    const url = new URL(service.url);
    [url.username, url.password] = [role, 'x'];
    const vitrine = await createVitrine({
      databaseUrl: url.href,
      resources,
      port: 0,
      schema: 'check',
      log: () => undefined,
    });
    const { url: base } = await vitrine.start();
    const send = (method: string, path: string, name: string): Promise<Answer> =>
      request(base, path, { method, user: 'ada', body: { name } });
    try {
      const made = await send('POST', '/api/guarded/', 'y');
      assert.equal(made.status, 201);
      assertProblem(await send('POST', '/api/guarded/', 'x'), 400);
      assertProblem(await send('PUT', `/api/guarded/${made.json.id}/`, 'x'), 400);
      await service.sql.unsafe(`revoke insert on guarded from ${role}`);
      assertProblem(await send('POST', '/api/guarded/', 'y'), 500);
    } finally {
      await vitrine.close();
    }
  } finally {
    await service.sql.unsafe(`drop owned by ${role}; drop role ${role}`);
    await service.close();
  }
});
