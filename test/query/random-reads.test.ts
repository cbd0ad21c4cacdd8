// Random filters, orderings and pages of every kind of relation, compared with a reference implementation.
import assert from 'node:assert/strict';
import fc from 'fast-check';
import { pluck, useStarted } from '../support.ts';
import { filtersWith, orderingsWith, rows } from './arbitraries.ts';
import { compareRows, FOREIGN_KEYS, matches, orderingOf, queryOf, type Row } from './reference.ts';
import {
  add,
  keysOf,
  numberOf,
  RELATIONS,
  remove,
  startRelations,
  store,
  type Relation,
} from './relations.ts';
import { describe, test } from 'node:test';

/** What happens to a record during a walk. */
const ROLES = ['stays', 'stays', 'comes', 'goes'] as const;

/** Rows of which some come and some go. Only rows that stay are referenced, so that joined columns do not change. */
const changing = rows.chain((list) =>
  fc.array(fc.constantFrom(...ROLES), { minLength: list.length, maxLength: list.length }).map((roles) => {
    const roleOf = (id: unknown) => roles[(id as number) - 1];
    const linked = list.map((row): Row => {
      const stable = (name: string) => (roleOf(row[name]) === 'stays' ? row[name] : null);
      return { ...row, ...Object.fromEntries(FOREIGN_KEYS.map((name) => [name, stable(name)])) };
    });
    return { list: linked, withRole: (role: string) => linked.filter(({ id }) => roleOf(id) === role) };
  }),
);

const service = useStarted(startRelations);

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
              pluck(expected, 'id'),
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
            assert.deepEqual(visited, pluck(expected, 'id'), parts.join('&')); // prettier-ignore
            if (earlier) assert.deepEqual((await get(earlier)).numbers, visited.slice(0, limit));
          }),
          { numRuns: 40 },
        );
      });
  });
}

describe('while others insert and delete', () => {
  for (const relation of RELATIONS) {
    const { name } = relation;
    const keys = keysOf(relation);
    const get = async (path: string) => {
      const answer = await service.request(path, { headers: { Prefer: 'paging=cursor' } });
      assert.equal(answer.status, 200, `${path}: ${answer.text}`);
      const numbers: number[] = answer.json.objects.map(({ id }: { id: unknown }) => numberOf(relation, id));
      return { meta: answer.json.meta, numbers };
    };
    const options = fc.record({
      limit: fc.integer({ min: 1, max: 4 }),
      wanted: fc.option(filtersWith(keys), { freq: 2, nil: [] }),
      by: orderingsWith(keys),
      isBackward: fc.boolean(),
      /** How many rows come or go with each page. */
      pace: fc.integer({ min: 1, max: 4 }),
    });

    for (const isConcurrent of [false, true])
      test(`cursors of ${name} visit what stays once and in order${isConcurrent ? ', at the same time' : ''}`, () =>
        fc.assert(
          fc.asyncProperty(changing, options, async ({ list, withRole }, { limit, wanted, by, isBackward, pace }) => {
            const byId = new Map(list.map((row) => [row.id, row]));
            await store(service.sql, relation, list.filter((row) => !withRole('comes').includes(row)));
            const changes = [
              ...withRole('comes').map((row) => () => add(service.sql, relation, row)),
              ...withRole('goes').map(({ id }) => () => remove(service.sql, relation, id)),
            ];
            const change = async () => {
              for (const each of changes.splice(0, pace)) await each();
            };
            const ordering = orderingOf(by);
            const parts = [queryOf(wanted), ordering && `ordering=${ordering}`, `limit=${limit}`];
            const first = `/api/${name}/?${parts.filter(Boolean).join('&')}`;
            let page = await get(first);
            while (isBackward && page.meta.next) page = await get(page.meta.next);
            const visited = [...page.numbers];
            for (;;) {
              const link = isBackward ? page.meta.previous : page.meta.next;
              if (!link) break;
              if (isConcurrent) [page] = await Promise.all([get(link), change()]);
              else {
                await change();
                page = await get(link);
              }
              if (isBackward) visited.unshift(...page.numbers);
              else visited.push(...page.numbers);
            }
            const sorted = (kept: readonly Row[]) =>
              kept
                .filter((row) => wanted.every((filter) => matches(filter, row, byId)))
                .toSorted((one, other) => compareRows(one, other, by, byId))
                .map(({ id }) => id);
            const stable = sorted(withRole('stays'));
            assert.deepEqual(visited.filter((id) => stable.includes(id)), stable, first);
            assert.deepEqual(visited, sorted(list).filter((id) => visited.includes(id)), first);
          }),
          { numRuns: 20 },
        )); // prettier-ignore
  }
});
