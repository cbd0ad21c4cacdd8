import assert from 'node:assert/strict';
import { buildModels } from '../../src/db/schema/build-models.ts';
import { createSqlCache } from '../../src/db/sql-cache.ts';
import { parseListQuery } from '../../src/query/parse/grammar.ts';
import { planList } from '../../src/query/plan.ts';
import { pageStatement } from '../../src/query/statements/page-statements.ts';
import type { Resource } from '../../src/resources/definition/resource.ts';
import {
  serveResources,
  visibilityFor,
  type ServedResource,
} from '../../src/resources/serve/served-resource.ts';
import { describe, test } from 'node:test';

const registry = [
  {
    model: 'author',
    columns: {
      name: { type: 'string' },
      born: { type: 'datetime', null: true },
      mentor: { type: 'foreignKey', references: 'author', null: true },
      rival: { type: 'foreignKey', references: 'author', null: true },
    },
  },
] as const satisfies readonly Resource[];

const served = serveResources(registry, buildModels(registry), { access: 'default', userModel: 'user' });
const author = served.get('author') as ServedResource;

const QUERIES = [
  ...['', 'limit=1', 'limit=500', 'page=2', 'page=999', 'page=99999999999999999999'],
  ...['name=a', 'name=b', 'name__ne=a', '-name=a', 'name=a&name=b', 'name=a&page=2', 'name__in=a', 'name__in=a,b'],
  ...['name__like=a', 'name__ilike=a', 'name__is=null', '-name__is=null', 'born=2024-01-01', 'born__lt=2024-01-01'],
  ...['mentor=1', 'rival=1', 'mentor__name=a', 'rival__name=a', 'mentor__rival__name=a', 'rival__mentor__name=a'],
  ...['name=a&mentor__name=b', 'mentor__name=b&name=a', 'ordering=name', 'ordering=-name', 'ordering=-id'],
  ...['ordering=name,-id', 'ordering=mentor__name', 'ordering=rival__name', 'ordering=-name,born&page=3&name=a'],
]; // prettier-ignore

describe('the cache of SQL texts', () => {
  test('a page has the same SQL and values with a cache as without', () => {
    const cache = createSqlCache();
    const visibility = visibilityFor(served, () => true);
    for (const query of [...QUERIES, ...QUERIES]) {
      for (const isCounted of [false, true]) {
        const plan = planList(parseListQuery(query, author, {}), author.model, visibility, [], {});
        const output = { row: author.plain, maxBytes: 1000, isCounted };
        const built = pageStatement(plan, output);
        const cached = pageStatement(plan, output, (shape, build) => cache(`${isCounted} ${shape}`, build));
        assert.equal(cached.text, built.text, query);
        assert.deepEqual(cached.values, built.values, query);
      }
    }
  });

  test('a text is built once for all values of its shape', () => {
    const cache = createSqlCache();
    /** The text, and the two for shared connections. */
    const TEXTS = 3;
    let built = 0;
    for (const query of ['name=a', 'name=b', 'name=&page=1', 'name=%22', 'page=1&name=a%20b']) {
      const plan = planList(parseListQuery(query, author, {}), author.model, visibilityFor(served, () => true), [], {}); // prettier-ignore
      const { small } = pageStatement(plan, { row: author.plain, maxBytes: 1000 }, (shape, build) =>
        cache(shape, () => {
          built += 1;
          return build();
        }),
      );
      for (const isSummed of [false, true]) assert.ok(small?.(isSummed));
    }
    assert.equal(built, TEXTS);
  });

  test('a page that PostgreSQL checks collects no more than the bytes that it may have', () => {
    const visibility = visibilityFor(served, () => true);
    const plan = planList(parseListQuery('limit=40', author, {}), author.model, visibility, [], {});
    const { text, small } = pageStatement(plan, { row: author.plain, maxBytes: 2 ** 20 });
    const budget = / over \(rows unbounded preceding\) <= (\d+)/;
    assert.deepEqual(
      [text, small?.(false), small?.(true)].map((one) => Number(budget.exec(one ?? '')?.[1])),
      [2 ** 20, 2 ** 18, 2 ** 18],
    );
  });

  test('equal shapes of different caches are separate', () => {
    const [one, other] = [createSqlCache(), createSqlCache()];
    assert.equal(one('shape', () => 'select 1'), 'select 1'); // prettier-ignore
    assert.equal(other('shape', () => 'select 2'), 'select 2'); // prettier-ignore
    assert.equal(one('shape', () => 'select 3'), 'select 1'); // prettier-ignore
  });
});
