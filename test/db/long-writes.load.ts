// Large writes that take long.
import assert from 'node:assert/strict';
import type { Resource } from '../../src/index.ts';
import { user } from '../../src/resources/registry.ts';
import { startService, type TestService } from '../support.ts';
import { after, before, describe, test } from 'node:test';

const page: Resource = { model: 'page', columns: { text: { type: 'text' } }, access: 'user' };

/** Each page takes 1.3 s. The columns `begun` and `ended` record when. */
const SLOW = `
  alter table page add begun timestamptz, add ended timestamptz;
  create function take_long() returns trigger language plpgsql as $$ begin
    new.begun = clock_timestamp();
    while clock_timestamp() < new.begun + interval '1.3 s' loop end loop;
    new.ended = clock_timestamp();
    return new;
  end $$;
  create trigger long before insert on page for each row execute function take_long()`;

describe('large writes of one client that take long, while others are present', () => {
  let service: TestService;
  let isOver = false;
  let present: Promise<void>;
  before(async () => {
    service = await startService([user, page]);
    await service.sql.unsafe(SLOW).simple();
    await service.addUser('ada');
    present = (async () => {
      while (!isOver) await service.request('/api/page/?limit=1');
    })();
  });
  after(async () => {
    isOver = true;
    await present;
    await service.close();
  });

  /** Sends two writes at once. @returns how many of them overlap */
  async function overlaps(): Promise<number> {
    await service.sql`truncate page`;
    const body = { text: 'x'.repeat(20_000) };
    const send = (): ReturnType<TestService['request']> =>
      service.request('/api/page/', { method: 'POST', user: 'ada', body });
    for (const { status } of await Promise.all([send(), send()])) assert.equal(status, 201);
    const found = await service.sql`
      select from page a join page b on a.id < b.id and a.begun < b.ended and b.begun < a.ended`;
    return found.length;
  }

  test('run one after the other', async () => {
    assert.equal(await overlaps(), 0);
  });
});
