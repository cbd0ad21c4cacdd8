// Pages of views whose key is NULL in some rows, or the same in several.
import assert from 'node:assert/strict';
import type { Resource } from '../../src/index.ts';
import { startWith, type WritableService } from '../db/helpers.ts';
import { after, before, describe, test } from 'node:test';

const view = (model: string): Resource => ({
  model,
  primaryKey: { type: 'integer', column: 'id' },
  columns: { name: { type: 'string' }, s0: { type: 'integer', null: true } },
  access: 'default',
});

describe('a view', () => {
  let service: WritableService;
  before(async () => {
    service = await startWith(
      [view('lacking'), view('repeated'), view('blank')],
      `create view lacking as select * from (values (null::integer, 'a', 7), (1, 'b', 8), (2, 'c', 9)) v (id, name, s0);
       create view repeated as select * from (values (1, 'a', 7), (1, 'b', 8), (1, 'b', 9), (2, 'c', 9)) v (id, name, s0);
       create view blank as select nullif(n % 4, 3) as id, chr(96 + n / 2) as name, n as s0 from generate_series(2, 21) n;`,
    );
  });
  after(() => service.close());

  /** Follows the links from a page to its neighbors. @returns the rows of all pages, and the address of the last one */
  async function follow(
    path: string,
    way: 'next' | 'previous',
    prefer: string,
    most = 9,
  ): Promise<[unknown[], string]> {
    const found: unknown[] = [];
    for (let [next, last] = [path, path]; ; last = next) {
      const { json, status } = await service.request(next, { headers: { prefer } });
      assert.equal(status, 200, next);
      found.push(
        ...(json.objects as { id: number | null; s0: number }[]).map(({ id, s0 }) => `${id ?? 'null'} ${s0}`),
      );
      next = json.meta[way] as string;
      if (next === '' || found.length > most) return [found, last];
    }
  }

  const LACKING = ['null 7', '1 8', '2 9'];
  for (const [ordering, rows] of [
    ['name', LACKING],
    ['-name', LACKING.toReversed()],
    ['id', ['1 8', '2 9', 'null 7']],
    ['-id', ['null 7', '2 9', '1 8']],
    ['s0,-name', LACKING],
  ] as const)
    for (const paging of ['paging=pages', 'paging=cursor'])
      test(`has each record with a NULL key on one page, ordered by ${ordering}, with ${paging}`, async () => {
        const [found, last] = await follow(`/api/lacking/?limit=1&ordering=${ordering}`, 'next', paging);
        assert.deepEqual(found, rows);
        const [back] = await follow(last, 'previous', paging);
        assert.deepEqual(back, rows.toReversed());
      });

  test('has each record with a repeated key on one page', async () => {
    for (const ordering of ['name,s0', 'id,s0', '-s0,-name'])
      for (const limit of [1, 2, 3, 50]) {
        const path = `/api/repeated/?limit=${limit}&ordering=${ordering}`;
        const [found] = await follow(path, 'next', 'paging=pages');
        assert.deepEqual(found.toSorted(), ['1 7', '1 8', '1 9', '2 9'], path);
      }
  });

  for (const ordering of ['id', '-id', 'name', '-name', '-name,-id'])
    for (const limit of [1, 2, 3, 7])
      test(`has no record twice when several have a NULL key, ordered by ${ordering} with cursors, ${limit} at once`, async () => {
        const path = `/api/blank/?limit=${limit}&ordering=${ordering}`;
        const [found, last] = await follow(path, 'next', 'paging=cursor', 20);
        assert.deepEqual(found, [...new Set(found)]);
        const [back] = await follow(last, 'previous', 'paging=cursor', 20);
        assert.deepEqual(back, [...new Set(back)]);
      });

  test('has each record with a repeated key on one page with cursors of other columns', async () => {
    const [found] = await follow('/api/repeated/?limit=1&ordering=s0,name', 'next', 'paging=cursor');
    assert.deepEqual(found, ['1 7', '1 8', '1 9', '2 9']);
  });
});
