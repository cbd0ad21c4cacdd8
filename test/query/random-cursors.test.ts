import assert from 'node:assert/strict';
import fc from 'fast-check';
import type { TestService } from '../support.ts';
import { filtersWith, orderingsWith, rows } from './arbitraries.ts';
import { compareRows, FOREIGN_KEYS, matches, orderingOf, queryOf, type Row } from './reference.ts';
import { add, keysOf, numberOf, RELATIONS, remove, startRelations, store } from './relations.ts';
import { after, before, describe, test } from 'node:test';

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

let service: TestService;
before(async () => {
  service = await startRelations();
});
after(() => service.close());

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
