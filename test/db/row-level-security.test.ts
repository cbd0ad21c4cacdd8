import assert from 'node:assert/strict';
import { createVitrine, type Resource } from '../../src/index.ts';
import { user } from '../../src/resources/registry.ts';
import { assertProblem } from '../http/expect.ts';
import { request, startService, type Answer, type TestService } from '../support.ts';
import { test } from 'node:test';

const guarded: Resource = { model: 'guarded', columns: { name: { type: 'string' } }, access: 'user' };
const resources = [user, guarded];

interface Limited {
  /** The superuser's service. */
  readonly service: TestService;
  readonly role: string;
  /** Sends a request to the service of the role. */
  readonly send: (method: string, path: string, name?: string) => Promise<Answer>;
}

/**
 * Serves as a role that has to keep policies.
 * @param policies SQL that makes them, of the table `guarded`
 */
async function withPolicies(policies: string, work: (limited: Limited) => Promise<void>): Promise<void> {
  const service = await startService(resources);
  const role = `limited_${Date.now()}`;
  try {
    await service.addUser('ada');
    await service.sql.unsafe(`create role ${role} login password 'x' nobypassrls;
      grant all on all tables in schema public to ${role}; grant all on all sequences in schema public to ${role};
      alter table guarded enable row level security; ${policies}`);
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
    const send: Limited['send'] = (method, path, name) =>
      request(base, path, { method, user: 'ada', ...(name === undefined ? {} : { body: { name } }) });
    await work({ service, role, send }).finally(() => vitrine.close());
  } finally {
    await service.sql.unsafe(`drop owned by ${role}; drop role ${role}`);
    await service.close();
  }
}

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

test('a record whose policy takes long does not delay the reads of others', () =>
  withPolicies(
    `insert into guarded (name) select 'x' from generate_series(1, 20);
     create function takes_long(id integer) returns boolean language plpgsql as $$ begin
       if id = 1 then perform pg_sleep(2); end if;
       return true;
     end $$;
     create policy slow on guarded using (takes_long(id))`,
    async ({ send }) => {
      const path = (id: number): string => `/api/guarded/${id}/`;
      assert.equal((await send('GET', path(2))).status, 200);
      let isAnswered = false;
      const slow = [send('GET', path(3)), send('GET', path(1))];
      void slow[1]?.then(() => (isAnswered = true));
      const others = Array.from({ length: 17 }, (_, index) => send('GET', path(index + 4)));
      for (const { status } of await Promise.all(others)) assert.equal(status, 200);
      assert.equal(isAnswered, false);
      for (const { status } of await Promise.all(slow)) assert.equal(status, 200);
    },
  ));
