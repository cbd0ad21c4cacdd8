// Looking for a record in a table whose search takes seconds.
import assert from 'node:assert/strict';
import type { Resource } from '../../src/index.ts';
import { user } from '../../src/resources/registry.ts';
import { startService, type TestService } from '../support.ts';
import { logIn } from './support.ts';
import { after, before, test } from 'node:test';

const resource: Resource = {
  model: 'page',
  primaryKey: { type: 'integer', column: 'id' },
  columns: { name: { type: 'string' } },
  admin: { search: ['name'] },
};

let service: TestService;
before(async () => {
  service = await startService([user, resource], {
    prepare: (sql) =>
      sql.unsafe(`
        create view page as select 1 as id, 'one'::text as name
        union all select 2, 'two' || slow from (select pg_sleep(2.2)::text as slow offset 0) s`),
  });
  await service.addUser('root', { admin: true });
});
after(() => service.close());

test('finds the record, although an admin has two connections', async () => {
  const root = await logIn(service, 'root');
  const { status, text } = await root.get('/admin/page/-/lookup/?_search=two');
  assert.equal(status, 200, text);
  assert.match(text, /two/);
});
