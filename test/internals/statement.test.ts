import assert from 'node:assert/strict';
import fc from 'fast-check';
import { anyCharacter } from '../characters.ts';
import { buildModels } from '../../src/db/schema/build-models.ts';
import { type BoundSql } from '../../src/db/fragment.ts';
import { type Statement } from '../../src/db/rows.ts';
import { parseListQuery } from '../../src/query/parse/grammar.ts';
import { planList, type ListPlan } from '../../src/query/plan.ts';
import { countStatement } from '../../src/query/statements/bulk-statements.ts';
import { pageStatement, type Page } from '../../src/query/read.ts';
import { plainRecord } from '../../src/query/statements/record-json.ts';
import type { Resource } from '../../src/resources/definition/resource.ts';
import { ADMIN } from '../../src/resources/access/access.ts';
import { createViews, type ServedResource } from '../../src/resources/serve/served-resource.ts';
import { startService, type TestService } from '../support.ts';
import { after, before, describe, test } from 'node:test';

const registry = [
  { model: 'author', columns: { name: { type: 'string' }, mentor: { type: 'foreignKey', references: 'author', null: true } } },
  {
    model: 'post',
    columns: {
      author: { type: 'foreignKey', references: 'author', null: true },
      editor: { type: 'foreignKey', references: 'author', null: true, column: 'edited by' },
      stars: { type: 'integer', null: true },
    },
  },
] as const satisfies readonly Resource[]; // prettier-ignore

const served = createViews(registry, buildModels(registry), { access: 'default', userModel: 'user' })(ADMIN);
const post = served.get('post') as ServedResource;

function planOf(query: string): ListPlan {
  const errors = {};
  const parsed = parseListQuery(query, post, errors);
  const plan = planList(parsed, post.model, post.visibility, post.ordering, errors);
  assert.deepEqual(errors, {}, query);
  return plan;
}

const statementOf = (query: string): Statement<Page> =>
  pageStatement({ ...planOf(query), columns: plainRecord(post.output), maxBytes: 1_000_000 });

const AUTHOR = ' left join "author" j1 on j1."id" = t."author_id"';

/** The SQL that makes the JSON of a post. */
const nullable = (column: string): string => `coalesce(t."${column}"::text, 'null')`;
const OUTPUT = `concat('{"id":', t."id", ',"author_id":', ${nullable('author_id')}, ',"editor_id":', ${nullable('edited by')}, ',"stars":', ${nullable('stars')}, '}')`;

/** The rows of a page near the start, in the order of the key. */
const simple = (source: string, limit = 20): string =>
  `select ${OUTPUT} from (select t.* from "post" t${source} order by t."id" limit ${limit + 1}) t`;

/** The rows of a page whose ids are chosen first. */
const chosen = (keys: string, source: string, tail: string, join: string, order: string): string =>
  `select ${OUTPUT} from (select ${keys} from "post" t${source} ${tail}) p join "post" t on ${join} order by ${order}`;

interface Expected {
  /** The part of the statement that reads the rows. */
  readonly text: string;
  readonly values?: readonly string[];
  /** Of the rows (id, author, editor, stars): 1 ada bob 5, 2 bob ada 3, 3 none ada null. Bob's mentor is Ada. */
  readonly ids: readonly number[];
}

const statements: Record<string, Expected> = {
  '': { text: simple(''), ids: [1, 2, 3] },
  'limit=1': { text: simple('', 1), ids: [1] },
  'stars=5': { text: simple(' where t."stars" = $1::text::int4'), values: ['5'], ids: [1] },
  'stars__gte=3&stars__lt=5': {
    text: simple(' where t."stars" >= $1::text::int4 and t."stars" < $2::text::int4'),
    values: ['3', '5'],
    ids: [2],
  },
  'stars=3&stars=5': {
    text: simple(' where t."stars" = any($1::text[]::int4[])'),
    values: ['{"3","5"}'],
    ids: [1, 2],
  },
  'stars__in=5,6,7': {
    text: simple(' where t."stars" = any($1::text[]::int4[])'),
    values: ['{"5","6","7"}'],
    ids: [1],
  },
  'stars__ne=3&stars__ne=4': {
    text: simple(' where t."stars" <> all($1::text[]::int4[])'),
    values: ['{"3","4"}'],
    ids: [1],
  },
  '-stars=5': { text: simple(' where (t."stars" = $1::text::int4) is not true'), values: ['5'], ids: [2, 3] },
  'stars__is=null': { text: simple(' where (t."stars" is null)'), ids: [3] },
  'author__name=ada': {
    text: simple(`${AUTHOR} where j1."name" = $1::text::varchar`),
    values: ['ada'],
    ids: [1],
  },
  'author__name__like=a%25&-author_id__name__ilike=B%25&author__mentor__is=null': {
    text: simple(
      `${AUTHOR} where j1."name" like $1::text and (j1."name" ilike $2::text) is not true and (j1."mentor_id" is null)`,
    ),
    values: ['a%', 'B%'],
    ids: [1],
  },
  'author__name=bob&editor__name=ada': {
    text: simple(
      `${AUTHOR} left join "author" j2 on j2."id" = t."edited by" where j1."name" = $1::text::varchar and j2."name" = $2::text::varchar`,
    ),
    values: ['bob', 'ada'],
    ids: [2],
  },
  'author__mentor__name=ada': {
    text: simple(
      `${AUTHOR} left join "author" j2 on j2."id" = j1."mentor_id" where j2."name" = $1::text::varchar`,
    ),
    values: ['ada'],
    ids: [2],
  },
  'author__id=1&editor_id__id__gt=1': {
    text: simple(' where t."author_id" = $1::text::int4 and t."edited by" > $2::text::int4'),
    values: ['1', '1'],
    ids: [1],
  },
  'author__mentor__id=1': {
    text: simple(`${AUTHOR} where j1."mentor_id" = $1::text::int4`),
    values: ['1'],
    ids: [2],
  },
  'ordering=-stars': {
    text: chosen(
      't."stars" as "#0", t."id" as "#1"',
      '',
      'order by t."stars" desc, t."id" limit 21',
      't."id" = p."#1"',
      'p."#0" desc, p."#1"',
    ),
    ids: [3, 1, 2],
  },
  'author__name__ne=x&ordering=author__name,-id,stars&page=2&limit=1': {
    text: chosen(
      'j1."name" as "#0", t."id" as "#1"',
      `${AUTHOR} where j1."name" <> $1::text::varchar`,
      'order by j1."name", t."id" desc limit 2 offset $2::text::int8',
      't."id" = p."#1"',
      'p."#0", p."#1" desc',
    ),
    values: ['x', '1'],
    ids: [2],
  },
  'page=1000&limit=1000': {
    text: chosen(
      't."id" as "#0"',
      '',
      'order by t."id" limit 1001 offset $1::text::int8',
      't."id" = p."#0"',
      'p."#0"',
    ),
    values: ['999000'],
    ids: [],
  },
};

describe('a query becomes a plan, and a plan a statement', () => {
  let service: TestService;
  before(async () => {
    service = await startService(registry);
    await service.sql`insert into author (id, name, mentor_id) values (1, 'ada', null), (2, 'bob', 1)`;
    await service.sql`insert into post (id, author_id, "edited by", stars) values (1, 1, 2, 5), (2, 2, 1, 3), (3, null, 1, null)`;
  });
  after(() => service.close());

  const run = async ({ text, values }: BoundSql) => service.sql.unsafe(text, values as string[]);
  const sqlOf = ({ text, values }: BoundSql): BoundSql => ({ text, values });

  for (const [query, { text, values = [], ids }] of Object.entries(statements)) {
    test(`the statement of "${query}"`, async () => {
      const statement = statementOf(query);
      assert.ok(statement.text.includes(`(${text})`), statement.text);
      assert.deepEqual(statement.values, values);
      const rows = await run(statement);
      assert.deepEqual(JSON.parse(`[${rows[0]?.['objects']}]`).map(({ id }: { id: number }) => id), ids); // prettier-ignore
    });
  }

  test('a plan has resolved names, the key as the last ordering, and the offset of the page', () => {
    const { joins, where, orderings, limit, offset } = planOf('-author__name__in=a,b&ordering=-stars&page=3&limit=7'); // prettier-ignore
    assert.deepEqual(joins.map(({ alias, from, column, model }) => [alias, from, column.name, model.name]), [['j1', 't', 'author', 'author']]); // prettier-ignore
    assert.deepEqual(
      where.map((condition) => 'column' in condition && { ...condition, column: condition.column.name }),
      [{ alias: 'j1', column: 'name', operator: 'in', values: ['a', 'b'], negated: true }],
    );
    assert.deepEqual(
      orderings.map(({ alias, column, descending }) => [alias, column.name, descending]),
      [['t', 'stars', true], ['t', 'id', false]],
    ); // prettier-ignore
    assert.deepEqual({ limit, offset }, { limit: 7, offset: 14n });
  });

  test('the count has the filters, but no ordering and no page', async () => {
    const statement = countStatement(planOf('author__name=ada&ordering=-stars&page=3'));
    assert.deepEqual(sqlOf(statement), {
      text: `select count(*) from "post" t${AUTHOR} where j1."name" = $1::text::varchar`,
      values: ['ada'],
    });
    assert.equal((await run(statement))[0]?.['count'], '1');
  });

  test('no value is ever part of the text', () => {
    const value = fc
      .string({ unit: anyCharacter })
      .filter((text) => text.isWellFormed() && !text.includes('\0') && !text.endsWith('\\'));
    fc.assert(
      fc.property(fc.constantFrom('', '__ne', '__gt', '__like'), value, value, (operator, one, other) => {
        const name = `author__name${operator}`;
        const single = statementOf(`${name}=${encodeURIComponent(one)}`);
        assert.equal(single.text, statementOf(`${name}=x`).text);
        assert.deepEqual(single.values, [one]);
        const several = statementOf(
          [one, other].map((text) => `${name}=${encodeURIComponent(text)}`).join('&'),
        );
        assert.equal(several.text, statementOf(`${name}=x&${name}=y`).text);
        assert.equal(several.values.length, 1);
      }),
    );
  });
});
