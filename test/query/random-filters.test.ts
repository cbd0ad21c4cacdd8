import assert from 'node:assert/strict';
import fc from 'fast-check';
import { after, before, describe, test } from 'node:test';
import type { Resource } from '../../src/index.ts';
import { startService, type TestService } from '../support.ts';
import { filters, orderings, rows } from './arbitraries.ts';
import { compareRows, FOREIGN_KEYS, matches, type Filter, type Row } from './reference.ts';
import { idsOf, insert, scalars } from './samples.ts';

const items = [
  {
    model: 'item',
    columns: {
      ...scalars(true),
      parent: { type: 'foreignKey', references: 'item', null: true },
      friend: { type: 'foreignKey', references: 'item', null: true },
    },
  },
] as const satisfies readonly Resource[];

const queryOf = (list: readonly Filter[]): string =>
  list
    .flatMap(({ parameter, values }) =>
      values.map(({ text }) => `${encodeURIComponent(parameter)}=${encodeURIComponent(text)}`),
    )
    .join('&');

describe('with random rows', () => {
  let service: TestService;
  before(async () => {
    service = await startService(items);
    // Texts are compared by code point in every locale of the server.
    for (const column of ['string', 'text', 'password']) {
      const type = column === 'string' ? 'varchar(255)' : 'text';
      await service.sql.unsafe(`alter table item alter column "${column}" type ${type} collate "C"`);
    }
  });
  after(() => service.close());

  async function store(list: readonly Row[]): Promise<ReadonlyMap<number, Row>> {
    const stored = list.map((row) =>
      Object.fromEntries(
        Object.entries(row).map(([name, value]) => [
          FOREIGN_KEYS.includes(name) ? `${name}_id` : name,
          value,
        ]),
      ),
    );
    await service.sql`truncate item`;
    if (list.length > 0) await insert(service.sql, 'item', stored);
    return new Map(list.map((row) => [row.id, row]));
  }

  test('filters select the same records as the reference implementation', async () => {
    const queries = fc.array(filters, { minLength: 1, maxLength: 10 });
    await fc.assert(
      fc.asyncProperty(rows, queries, async (list, several) => {
        const byId = await store(list);
        for (const each of several) {
          const query = queryOf(each);
          const answer = await service.request(`/api/item/?limit=1000&${query}`);
          assert.equal(answer.status, 200, `${query}: ${answer.text}`);
          const expected = list.filter((row) => each.every((filter) => matches(filter, row, byId)));
          assert.deepEqual(idsOf(answer), expected.map(({ id }) => id), decodeURIComponent(query)); // prettier-ignore
        }
      }),
      { numRuns: 60 },
    );
  });

  test('following next visits each record once and in order', async () => {
    const options = fc.record({
      limit: fc.integer({ min: 1, max: 5 }),
      wanted: fc.option(filters, { freq: 2 }),
      by: orderings,
    });
    await fc.assert(
      fc.asyncProperty(rows, options, async (list, { limit, wanted, by }) => {
        const byId = await store(list);
        const kept = list.filter((row) => (wanted ?? []).every((filter) => matches(filter, row, byId)));
        const expected = kept.toSorted((one, other) => compareRows(one, other, by, byId));
        const ordering = by.map(({ spelt, descending }) => `${descending ? '-' : ''}${spelt}`).join(',');
        const parts = [queryOf(wanted ?? []), ordering && `ordering=${ordering}`, `limit=${limit}`];
        const visited: number[] = [];
        let path = `/api/item/?${parts.filter(Boolean).join('&')}`;
        let earlier = '';
        for (let page = 1; path !== ''; page += 1) {
          const answer = await service.request(path);
          assert.equal(answer.status, 200, `${path}: ${answer.text}`);
          const { meta } = answer.json;
          assert.equal(meta.page, page);
          if (page === 2) earlier = String(meta.previous);
          visited.push(...idsOf(answer));
          assert.ok(idsOf(answer).length === limit || meta.next === '', path);
          path = meta.next;
        }
        assert.deepEqual(visited, expected.map(({ id }) => id), parts.join('&')); // prettier-ignore
        if (earlier) assert.deepEqual(idsOf(await service.request(earlier)), visited.slice(0, limit));
      }),
      { numRuns: 60 },
    );
  });
});
