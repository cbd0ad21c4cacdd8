import assert from 'node:assert/strict';
import { withPolicies } from './policies.ts';
import { test } from 'node:test';

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
