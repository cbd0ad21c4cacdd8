// What PostgreSQL cannot cancel, or takes long to plan, is limited for the query as a whole.
import assert from 'node:assert/strict';
import { startService, type TestService } from '../support.ts';
import { after, before, describe, test } from 'node:test';

const MAX_JSON_VALUES = 50;
const MAX_TABLES = 20;

const PARENTS = ['a', 'b', 'c', 'd', 'e'] as const;
const parent = { type: 'foreignKey', references: 'knot', null: true } as const;
const MODELS = [
  {
    model: 'knot',
    columns: {
      name: { type: 'string' },
      data: { type: 'json', null: true },
      a: parent,
      b: parent,
      c: parent,
      d: parent,
      e: parent,
      tags: { type: 'array', of: 'string', null: true },
      x: { type: 'integer', null: true },
      y: { type: 'integer', null: true },
    },
    foreignKeys: { pair: { columns: ['x', 'y'], references: 'pair' } },
  },
  {
    model: 'pair',
    primaryKey: { columns: ['x', 'y'] },
    columns: { x: { type: 'integer' }, y: { type: 'integer' } },
  },
  {
    model: 'sight',
    primaryKey: { type: 'integer', column: 'id' },
    columns: { a: parent, b: parent, c: parent, d: parent, e: parent },
  },
] as const;

const VIEW = `create view sight as select 1 as id, null::integer as a_id, null::integer as b_id, null::integer as c_id,
  null::integer as d_id, null::integer as e_id`;

/** Filters that join so many tables: those of paths with two foreign keys share the first one. */
function joining(tables: number): string[][] {
  const paths = PARENTS.flatMap((first) => [[first], ...PARENTS.map((second) => [first, second])]);
  return paths.slice(0, tables).map((path) => [`${path.join('__')}__name`, 'x']);
}

const list = (count: number, value = '1'): string => `[${Array<string>(count).fill(value).join(',')}]`;

const elements = (count: number): string => Array.from({ length: count }, (_, n) => String(n)).join();

let service: TestService;
before(async () => {
  service = await startService(MODELS, { prepare: (sql) => sql.unsafe(VIEW) });
  await service.sql`insert into knot (name, data) values ('one', '[1]'), ('two', null)`;
});
after(() => service.close());

const ask = (parameters: string[][], accept?: string, headers = {}, model = 'knot') =>
  service.request(
    `/api/${model}/?${parameters.map(([name = '', text = '']) => `${name}=${encodeURIComponent(text)}`).join('&')}`,
    { headers: { ...headers, ...(accept === undefined ? {} : { accept }) } },
  );

describe('a query', () => {
  for (const [kind, parameters] of [
    ['49 numbers and their array', [['data__contains', list(MAX_JSON_VALUES - 1)]]],
    ['24 arrays of one number', [['data__contains', list(24, '[1]')]]],
    [
      '16 objects of two texts with commas and brackets',
      [['data__contains', list(16, '{"a,[":",[{","b":"\\","}')]],
    ],
    ['a large value to compare with', [['data', list(1000)]]],
    ['100 different elements of arrays', [['tags__contains', `${elements(100)},${elements(100)}`]]],
    ['50 single values', Array.from({ length: 50 }, (_, n) => ['data__contains', String(n)])],
    [`paths that join ${MAX_TABLES} tables`, joining(MAX_TABLES)],
    [
      'one path in a filter, its negation and the ordering',
      [...joining(MAX_TABLES), ['-a__name', 'x'], ['ordering', 'a__name']],
    ],
  ] as [string, string[][]][])
    // prettier-ignore
    test(`may have ${kind}`, async () => {
      const { status, text } = await ask(parameters);
      assert.equal(status, 200, text);
    });

  for (const [kind, parameters, named, message] of [
    [
      '50 numbers and their array that JSON must contain',
      [['data__contains', list(MAX_JSON_VALUES)]],
      'data__contains',
      /^makes the query look for 51 values in JSON; at most 50 are allowed$/,
    ],
    ['600 nested arrays', [['data__contains', list(600, '[1]')]], 'data__contains', /look for 1201 values/],
    [
      '101 elements of arrays',
      [
        ['tags__contains', elements(60)],
        ['-tags__contains', elements(41)],
      ],
      '-tags__contains',
      /^makes the query look for 101 elements of arrays; at most 100 are allowed$/,
    ],
    [
      'many values over several filters',
      [
        ['data__contains', list(40)],
        ['-data__contains', list(10)],
      ],
      '-data__contains',
      /look for 52 values/,
    ],
    [
      `paths that join ${MAX_TABLES + 1} tables`,
      joining(MAX_TABLES + 1),
      'd__b__name',
      /^makes the query join more than 20 tables$/,
    ],
    [
      'an ordering that joins one table too many',
      [...joining(MAX_TABLES), ['ordering', '-e__name']],
      'ordering',
      /^e__name: makes the query join more than 20 tables$/,
    ],
  ] as [string, string[][], string, RegExp][])
    // prettier-ignore
    test(`with ${kind} is 400`, async () => {
      for (const accept of ['application/json', 'application/x-ndjson', 'text/csv']) {
        const { status, json } = await ask(parameters, accept);
        assert.equal(status, 400, accept);
        assert.deepEqual(Object.keys(json.errors), [named]);
        assert.match(json.errors[named][0], message);
      }
    });
});

describe('a page with cursors', () => {
  const CURSORS = { Prefer: 'paging=cursor' };
  const JOINED = ['a', 'b', 'c', 'd', 'a__a', 'a__b', 'a__c', 'a__d'];
  const names = (count: number, sign = ''): string =>
    JOINED.slice(0, count)
      .map((path) => `${sign}${path}__name`)
      .join();

  for (const [kind, ordering, filters] of [
    ['three columns that may be NULL, over two joined tables', 'a__name,-b__name,b__a', []],
    ['columns of seven joined tables', names(7), []],
    ['eight columns, with filters that join 20 tables', names(8), joining(MAX_TABLES)],
    ['eight descending columns, with filters that join 20 tables', names(8, '-'), joining(MAX_TABLES)],
    ['a descending column, with filters that join 20 tables', '-name', joining(MAX_TABLES)],
    ['a column over three foreign keys, eight times', Array<string>(8).fill('a__b__c__name').join(), []],
    ['a column and its reverse by turns', Array<string>(4).fill('a__b__c__name,-a__b__c__name').join(), []],
  ] as [string, string, string[][]][])
    // prettier-ignore
    test(`may have an ordering by ${kind}`, async () => {
      const { status, json, text } = await ask([...filters, ['ordering', ordering], ['limit', '1']], undefined, CURSORS);
      assert.equal(status, 200, text);
      if (json.meta.next !== '') assert.equal((await service.request(json.meta.next)).status, 200);
    });

  test('of a view may have an ordering by eight columns, with filters that join 20 tables', async () => {
    const parameters = [...joining(MAX_TABLES), ['ordering', names(8)]];
    const { status, text } = await ask(parameters, undefined, CURSORS, 'sight');
    assert.equal(status, 200, text);
  });

  for (const [ordering, filters, count] of [
    [`${names(7)},pair`, joining(MAX_TABLES), 420],
    [`${names(7, '-')},-pair`, joining(MAX_TABLES), 420],
  ] as [string, string[][], number][])
    test(`is 400 when its ordering makes the page read too many tables: ${ordering}`, async () => {
      const parameters = [...filters, ['ordering', ordering]];
      const { status, json } = await ask(parameters, undefined, CURSORS);
      assert.equal(status, 400);
      const message = `makes a page with cursors read ${count} tables; at most 399 are allowed: order by fewer columns`;
      assert.deepEqual(json.errors, { ordering: [message] });
      assert.equal((await ask(parameters)).status, 200, 'without cursors');
    });
});
