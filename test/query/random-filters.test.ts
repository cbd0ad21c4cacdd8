import assert from 'node:assert/strict';
import fc from 'fast-check';
import type { TestService } from '../support.ts';
import { filtersWith, orderingsWith, rows } from './arbitraries.ts';
import { compareRows, matches, orderingOf, queryOf } from './reference.ts';
import { keysOf, numberOf, RELATIONS, startRelations, store, type Relation } from './relations.ts';
import { after, before, describe, test } from 'node:test';

let service: TestService;
before(async () => {
  service = await startRelations();
});
after(() => service.close());

/** The keys of a page, as numbers. */
const numbersOf = (relation: Relation, { objects }: { objects: { id: unknown }[] }): number[] =>
  objects.map(({ id }) => numberOf(relation, id));

for (const relation of RELATIONS) {
  const { name } = relation;
  const keys = keysOf(relation);
  const filters = filtersWith(keys);

  describe(`with random rows of ${name}`, () => {
    test('filters select the same records as the reference implementation', async () => {
      const queries = fc.array(filters, { minLength: 1, maxLength: 10 });
      await fc.assert(
        fc.asyncProperty(rows, queries, async (list, several) => {
          const byId = await store(service.sql, relation, list);
          for (const each of several) {
            const query = queryOf(each);
            const answer = await service.request(`/api/${name}/?limit=1000&${query}`);
            assert.equal(answer.status, 200, `${query}: ${answer.text}`);
            const expected = list.filter((row) => each.every((filter) => matches(filter, row, byId)));
            assert.deepEqual(
              numbersOf(relation, answer.json),
              expected.map(({ id }) => id),
              decodeURIComponent(query),
            );
          }
        }),
        { numRuns: 40 },
      );
    });

    for (const paging of ['page', 'cursor'])
      test(`following next by ${paging} visits each record once and in order`, async () => {
        const options = fc.record({
          limit: fc.integer({ min: 1, max: 5 }),
          wanted: fc.option(filters, { freq: 2 }),
          by: orderingsWith(keys),
        });
        const get = async (path: string) => {
          const answer = await service.request(path, { headers: { Prefer: `paging=${paging}` } });
          assert.equal(answer.status, 200, `${path}: ${answer.text}`);
          return { meta: answer.json.meta, numbers: numbersOf(relation, answer.json) };
        };
        await fc.assert(
          fc.asyncProperty(rows, options, async (list, { limit, wanted, by }) => {
            const byId = await store(service.sql, relation, list);
            const kept = list.filter((row) => (wanted ?? []).every((filter) => matches(filter, row, byId)));
            const expected = kept.toSorted((one, other) => compareRows(one, other, by, byId));
            const ordering = orderingOf(by);
            const parts = [queryOf(wanted ?? []), ordering && `ordering=${ordering}`, `limit=${limit}`];
            const visited: number[] = [];
            let path = `/api/${name}/?${parts.filter(Boolean).join('&')}`;
            let earlier = '';
            for (let page = 1; path !== ''; page += 1) {
              const { meta, numbers } = await get(path);
              assert.equal(meta.page, paging === 'cursor' && page > 1 ? 0 : page);
              if (page === 2) earlier = String(meta.previous);
              visited.push(...numbers);
              assert.ok(numbers.length === limit || meta.next === '', path);
              path = meta.next;
            }
            assert.deepEqual(visited, expected.map(({ id }) => id), parts.join('&')); // prettier-ignore
            if (earlier) assert.deepEqual((await get(earlier)).numbers, visited.slice(0, limit));
          }),
          { numRuns: 40 },
        );
      });
  });
}
