import assert from 'node:assert/strict';
import type { Resource } from '../../src/index.ts';
import { startService, type Sql, type TestService } from '../support.ts';
import { after, before, describe, test } from 'node:test';

/** A view that shows whether PostgreSQL may compile the statement that reads it. */
const SETTING: Resource = {
  model: 'setting',
  primaryKey: { type: 'integer', column: 'id' },
  columns: { jit: { type: 'string', null: true } },
};

describe('PostgreSQL compiles no statement of a client', () => {
  let service: TestService;
  before(async () => {
    const prepare = async (sql: Sql): Promise<void> => {
      await sql`create view setting as select 1 as id, current_setting('jit')::varchar as jit`;
    };
    service = await startService([SETTING], { prepare });
  });
  after(() => service.close());

  test('in a page', async () => {
    const [other] = await service.sql`select current_setting('jit') as jit`;
    assert.equal(other?.['jit'], 'on');
    // After the first ones, the page is read on another connection.
    for (let time = 0; time < 6; time += 1) {
      const { status, json } = await service.request('/api/setting/?jit__ne=x');
      assert.equal(status, 200);
      assert.equal(json.objects[0].jit, 'off', `time ${time}`);
    }
  });

  test('in a stream', async () => {
    const { status, text } = await service.request('/api/setting/', {
      headers: { Accept: 'application/x-ndjson' },
    });
    assert.equal(status, 200);
    assert.equal(JSON.parse(text).jit, 'off');
  });
});
