// The grammar of a query string, and the rules of filters; random-reads.test.ts compares what they select with a reference.
import assert from 'node:assert/strict';
import { Agent } from 'node:http';
import { describe, test } from 'node:test';
import { basic, pluck, useStarted } from '../support.ts';
import { encode, idsOf, rawGet, startSamples, TYPES } from './samples.ts';
import { type Browser, logIn, readable } from '../admin/support.ts';
import { useWritable, type WritableService } from '../db/helpers.ts';
import type { Resource } from '../../src/index.ts';

/**
 * The rows that each filter selects of rows 1 to 4 of `thing`. Row 4 has only NULLs. Row 1 has box 1 and spare 2, row 2 box 2 and
 * spare 2, row 3 box 3 and spare 1, row 4 neither.
 */
const selections: Record<string, [query: string, ids: number[]][]> = {
  'a filter compares with a value of the column’s type': [
    ['string=apple', [1]],
    ['string__ne=apple', [2, 3]],
    ['bigint=9007199254740992', []],
    ['integer__gte=1', [1, 3]],
    ['json__ne="text"', [1, 3]],
    ['password=hash two', [2]],
    ['text__like=50\\% off\\_now', [2]],
    ['string__ilike=BANANA', [2]],
    ['boolean__is=False', [2]],
  ],
  'in takes values separated by commas, quoted as in CSV, and nothing between commas is the empty string': [
    ['integer__in="1","-2"', [1, 2]],
    ['string__in="a,b ""c"""', [3]],
    ['string__in=a,b', []],
    ['string__in=,apple', [1]],
    ['string__in=apple,', [1]],
    ['string__in=apple,,Banana', [1, 2]],
    ['string__in=""', []],
    ['json__in="""text""","{""a"":[1,2]}"', [1, 2]],
  ],
  'different parameters are combined with AND, also the two names of a foreign key': [
    ['integer__gt=0&boolean=true&float__lt=2', [1]],
    ['integer=1&integer__eq=-2', []],
    ['box=1&box_id=1', [1]],
    ['box=1&box_id=2', []],
    ['box=1&box=2&box_id=2&box_id=3', [2]],
    ['box__name=oak&box_id__name=pine', []],
  ],
  'two foreign keys to one model are two joins, and two filters on one path share a join': [
    ['box__name=oak&spare__name=pine', [1]],
    ['box__name=oak&spare__name=oak', []],
    ['box__name__like=%e%&box__like=y', [3]],
    ['box__owner_id__username=ada', [1]],
    ['box__owner__username__is=null', [2, 3, 4]],
  ],
  'the name of a column takes precedence over an operator': [
    ['box__in=7', [1]],
    ['box__in=1', []],
    ['box__in__in=7,8', [1, 2]],
    ['box__in__is=null', [3, 4]],
    ['box__like__like=_', [1, 3]],
    ['vault__in=1,2', [1, 2]],
  ],
}; // prettier-ignore

const named = (name: string, ...values: string[]): [string][] => values.map((value) => [`${name}=${value}`]);

/** Queries, and the parameters that the 400 names: by default the only parameter of the query. */
const refusals: Record<string, [query: string, names?: string[]][]> = {
  'an operator that is unknown': ['string__foo', 'string__', 'string__eq__eq', 'string__EQ', 'string__not', 'id__like'].flatMap((name) => named(name, 'a')),
  'a value of another type than the key': [
    ...named('box', 'oak'),
    ...named('box_id__gt', '1.5'),
    ...named('id', 'one'),
    ...named('id__in', '1,two'),
  ],
  'an in without a value, with a value of another type, or with invalid quotes': [
    ...named('id__in', ''),
    ...named('-id__in', ''),
    ...named('string__in', '', '"a', 'a"b', '"a"b', '"a" ,b', 'a,"', '"""'),
    ...named('integer__in', '1,,2', '1,', ',', '1, 2'),
  ],
  'an is with a value that the type does not allow': [
    ...named('boolean__is', '', 'yes', '1'),
    ...named('string__is', 'nil', ' null'),
    ...TYPES.filter((type) => type !== 'boolean').flatMap((type) => named(`${type}__is`, 'true', 'FALSE')),
  ],
  'a pattern that ends with a lone backslash': [
    ...named('string__like', '\\', '\\\\\\'),
    ...named('text__ilike', 'a\\'),
    ...named('-text__like', 'a%\\'),
  ],
  'an ordering by a column without an order': [['ordering=json'], ['ordering=id,-json', ['ordering']]],
  'all invalid parameters at once': [
    ['integer=a&nosuch=1&float=b&string=x', ['float', 'integer', 'nosuch']],
    ['integer=1&integer=a', ['integer']],
    ['integer=a&ordering=nosuch&limit=0&page=x', ['integer', 'limit', 'ordering', 'page']],
  ],
  'a parameter that is unknown': [
    'nosuch', '', '-', '--string', '-ordering', '-limit', '-page', 'limit__gt', 'page__eq', 'ordering__id', 'Limit',
    'String', 'STRING', 'string[]', 'string[like]', '"string"', "'string'", '(string)', 'string.eq', 'string:eq',
    'string_id', 'id_id', 'box_id_id', ' string', 'string ', '__string', 'box__', 'box____name', 'box__name__',
    'box__name__foo', 'box__name__eq__eq', 'box_name', 'box.name', 'box__nosuch', 'string__name', 'string__id',
    '__proto__', 'constructor', 'toString', 'hasOwnProperty', '__proto____eq', 'offset', 'format', 'callback', '_',
    'strin\u0067\u0301', 'string;integer', '*', 'count', 'filter', 'q', '\u{1F600}', '1', 't.string',
  ].flatMap((name) => named(name, '1')),
}; // prettier-ignore

/** The caller of a query that needs a read level, and the answer: ids, or a status. */
type CallerName = 'nobody' | 'wrong' | 'bob' | 'ada';
const everyone = (answer: number[] | number) => ({ nobody: answer, wrong: answer, bob: answer, ada: answer });
const access: [query: string, answers: Record<CallerName, number[] | number>][] = [
  ['vault__name=deep', { nobody: 400, wrong: 401, bob: [1], ada: [1] }],
  ['-vault__name=deep', { nobody: 400, wrong: 401, bob: [2, 3, 4], ada: [2, 3, 4] }],
  ['ordering=-vault__name', { nobody: 400, wrong: 401, bob: [3, 4, 2, 1], ada: [3, 4, 2, 1] }],
  ['box__name=oak&vault__box__name=pine', { nobody: 400, wrong: 401, bob: [1], ada: [1] }],
  ['vault__id=1', { nobody: 400, wrong: 401, bob: [1], ada: [1] }],
  ['safe__name=iron', { nobody: 400, wrong: 401, bob: 400, ada: [1] }],
  ['ordering=safe__name', { nobody: 400, wrong: 401, bob: 400, ada: [1, 2, 3, 4] }],
  ['box=1&safe__name=iron', { nobody: 400, wrong: 401, bob: 400, ada: [1] }],
  // Queries without a path into a protected resource do not check credentials.
  ['vault=1', everyone([1])],
  ['safe_id=1', everyone([1])],
  ['vault__gt=1', everyone([2])],
  ['safe__is=null', everyone([2, 3, 4])],
  ['ordering=-safe_id,vault', everyone([2, 3, 4, 1])],
  ['box__name=oak', everyone([1])],
  // No caller may GET `well`, so a path into it is unknown.
  ['well__name=dry', everyone(400)],
  ['ordering=well__name', everyone(400)],
  ['well=1', everyone([1])],
];

describe('a query string', () => {
  const service = useStarted(startSamples);

  /** Sends exactly this query. */
  const get = (query: string) => rawGet(service.base, `/api/thing/?${query}`);

  async function assertNamed(query: string, ...names: string[]): Promise<void> {
    const { status, json, headers } = await get(query);
    assert.equal(status, 400, query);
    assert.equal(headers.get('content-type'), 'application/problem+json');
    assert.deepEqual(Object.keys(json.errors ?? {}).sort(), names, query);
    assert.deepEqual(Object.keys(json).sort(), ['detail', 'errors', 'status', 'title', 'type'], query);
  }

  for (const [sentence, cases] of Object.entries(selections))
    test(sentence, async () => {
      for (const [query, ids] of cases) {
        const thing = await service.request(`/api/thing/?${encode(query)}`);
        assert.equal(thing.status, 200, `${query}: ${thing.text}`);
        assert.deepEqual(idsOf(thing), ids, query);
        // `solid` has the columns of `thing` without NULL and without foreign keys.
        if (/box|spare|vault|safe|well/.test(query)) continue;
        const solid = await service.request(`/api/solid/?${encode(query)}`);
        assert.deepEqual(idsOf(solid), ids.filter((id) => id < 4), `solid: ${query}`); // prettier-ignore
      }
    });

  for (const [sentence, cases] of Object.entries(refusals))
    test(`with ${sentence} is 400 and names the parameter`, async () => {
      for (const [query, names = [query.split('=', 1)[0] ?? '']] of cases)
        await assertNamed(encode(query), ...names);
    });

  test('with invalid percent-encoding, bytes that are not UTF-8 or NUL is 400 and names the parameter', async () => {
    const values = [
      '%',
      '%2',
      '%zz',
      'a%',
      '%c3',
      '%ff',
      '%c3%28',
      '%ed%a0%80',
      '%c0%80',
      '%f5%80%80%80',
      '%u0041',
    ];
    for (const value of [...values, '%00', 'apple%00', '%00apple']) {
      await assertNamed(`string=${value}`, 'string');
      await assertNamed(`-string__like=${value}`, '-string__like');
      await assertNamed(`integer=1&limit=${value}`, 'limit');
      await assertNamed(`ordering=${value}`, 'ordering');
    }
    await assertNamed('str%ing=1', 'str%ing');
    await assertNamed('%ff=1', '%ff');
    await assertNamed('string%00=1', 'string\0');
    await assertNamed('1%3D1--=1', '1=1--');
    for (const bytes of ['zo\u00c3\u00a9', '\u00ff', '\u00e9']) {
      const { status, json } = await get(`string=${bytes}`);
      assert.deepEqual([status, json.status], [400, 400]);
    }
  });

  test('is decoded like a form: + is a space, empty parts are ignored, the first = ends the name', async () => {
    for (const [query, ids] of [
      ['text=50%25+off_now', [2]],
      ['text__like=red,+as%20%25', [1]],
      ['datetime=2024-01-31+10:00:00', [1]],
      ['datetime=2024-01-31T12:00:00%2B02:00', [1]],
      ['&&string=apple&', [1]],
      ['', [1, 2, 3, 4]],
      ['string', []],
      ['-string', [1, 2, 3, 4]],
      ['string=a=pple', []],
      ['%73tring=%61pple', [1]],
      ['string__in=%22a%2cb+%22%22c%22%22%22', [3]],
      ['string=apple;integer=2', []],
      ['string=apple%26integer=2', []],
    ] as const) {
      const answer = await get(query);
      assert.equal(answer.status, 200, `${query}: ${answer.text}`);
      assert.deepEqual(idsOf(answer), ids, query);
    }
  });

  test('has at most 50 filters, of which each occurrence of a repeated parameter is one', async () => {
    const fifty = Array.from({ length: 50 }, (_, at) => `-${['id', 'box', 'spare'][at % 3]}__in=${77 + at}`);
    const answer = await get([...fifty, 'ordering=-id', 'limit=9', 'page=1'].join('&'));
    assert.equal(answer.status, 200, answer.text);
    const { status, json } = await get([...fifty, 'spare__is=null'].join('&'));
    assert.equal(status, 400);
    assert.match(json.errors.spare__is[0], /50/);
  });

  test('has at most 8 orderings, and 1,000 values in an in', async () => {
    const nine = TYPES.filter((type) => type !== 'json').slice(0, 9);
    assert.equal((await get(`ordering=${nine.slice(0, 8).join(',')}`)).status, 200);
    await assertNamed(`ordering=${nine.join(',')}`, 'ordering');
    await assertNamed(`ordering=${'id,'.repeat(8)}id`, 'ordering');
    assert.deepEqual(idsOf(await get(`id__in=${'9,'.repeat(998)}1,2`)), [1, 2]);
    await assertNamed(`id__in=${'9,'.repeat(999)}1,2`, 'id__in');
    await assertNamed(`-string__in=${','.repeat(1000)}`, '-string__in');
    assert.deepEqual(idsOf(await get(`string__in=apple${','.repeat(999)}`)), [1]);
  });

  test('gets an error without duplicate messages', async () => {
    for (const [query, name] of [
      ['ordering=,,', 'ordering'],
      ['ordering=nosuch,id,-nosuch', 'ordering'],
      ['limit=1&limit=2&limit=3', 'limit'],
    ] as const)
      assert.equal((await get(query)).json.errors[name].length, 1, query);
  });

  test('has at most 8 KiB, and a longer one is 414, also on a connection in use', async () => {
    const most = `string=${'a'.repeat(8192 - 'string='.length)}`;
    assert.deepEqual(idsOf(await get(most)), []);
    const agent = new Agent({ keepAlive: true, maxSockets: 1 });
    for (const [query, expected] of [
      [`${most}a`, 414],
      [`${most}%`, 414],
      [`x=${'%'.repeat(10_000)}`, 414],
      ['&'.repeat(8193), 414],
      [`a=${'b'.repeat(200_000)}`, 414],
      ['a=\u00ff', 400],
    ] as const) {
      assert.equal((await rawGet(service.base, '/api/thing/1/', agent)).status, 200);
      const { status, json, headers } = await rawGet(service.base, `/api/thing/?${query}`, agent);
      assert.deepEqual([status, json.status], [expected, expected]);
      assert.equal(headers.get('content-type'), 'application/problem+json');
    }
    agent.destroy();
  });

  test('follows up to four foreign keys in a path', async () => {
    const up = (times: number): string => 'parent__'.repeat(times);
    for (const [query, ids] of [
      [`${up(4)}name=root`, [5]],
      [`${up(4)}parent=1`, [6]],
      [`${up(4)}parent__is=null`, [1, 2, 3, 4, 5]],
      [`ordering=${up(4)}name`, [5, 6, 1, 2, 3, 4]],
    ] as const)
      assert.deepEqual(idsOf(await service.request(`/api/node/?${query}`)), ids, query);
    for (const query of [
      `${up(5)}name=root`,
      `${up(5)}name__is=null`,
      `-${up(5)}name__like=r%25`,
      `ordering=${up(5)}name`,
    ]) {
      const { status, json } = await service.request(`/api/node/?${query}`);
      assert.deepEqual([status, Object.keys(json.errors)], [400, [query.split('=')[0]]]);
    }
  });

  test('may only enter resources that the caller may read, and else needs no credentials', async () => {
    const wrong = { authorization: basic('ada', 'no password of hers') };
    for (const [query, answers] of access) {
      for (const [caller, expected] of Object.entries(answers)) {
        const known = caller === 'wrong' ? { headers: wrong } : { user: caller };
        const answer = await service.request(
          `/api/thing/?${encode(query)}`,
          caller === 'nobody' ? {} : known,
        );
        const found = answer.status === 200 ? idsOf(answer) : answer.status;
        assert.deepEqual(found, expected, `${query} as ${caller}: ${answer.text}`);
        const [name] = query.split('&').at(-1)?.split('=') ?? [];
        if (expected === 401) assert.equal(answer.text, 'Authentication failed');
        if (expected === 400) assert.deepEqual(Object.keys(answer.json.errors), [name], query);
      }
    }
  });

  test('gets the same answer for an excluded column or a path into a hidden resource as for an unknown column', async () => {
    const hidden: [name: string, absent: string, callers: readonly CallerName[]][] = [
      ['secret', 'nonsuch', ['nobody', 'ada']],
      ['hidden', 'nonsuch', ['nobody', 'ada']],
      ['hidden_id', 'nonsuch_id', ['ada']],
      ['hidden__name', 'nonsuch__name', ['nobody', 'ada']],
      ['box__secret', 'box__nonsuch', ['nobody', 'ada']],
      ['box__owner__email', 'box__owner__nonsuch', ['nobody', 'ada']],
      ['vault__name', 'vault__nonsuch', ['nobody']],
      ['safe__name', 'safe__nonsuch', ['nobody', 'bob']],
      ['well__name', 'well__nonsuch', ['ada']],
      ['well__id', 'well__xy', ['ada']],
    ];
    for (const [name, absent, callers] of hidden)
      for (const caller of callers) {
        const options = caller === 'nobody' ? {} : { user: caller };
        for (const form of ['$=x', '$__in=1', '-$__is=null', 'ordering=$', 'ordering=-id,-$', '$__foo=1']) {
          const ask = async (column: string): Promise<string> => {
            const { status, text } = await service.request(
              `/api/thing/?${form.replace('$', column)}`,
              options,
            );
            assert.equal(status, 400, `${form} ${column}`);
            // The column, and the part of it that the caller may not know.
            const part = column.split('__').at(name.startsWith('hidden') ? 0 : -1) ?? '';
            return text.replaceAll(column, '$').replaceAll(part, '$');
          };
          assert.equal(await ask(name), await ask(absent), `${form} ${name}`);
        }
      }
  });
});

// What PostgreSQL cannot cancel, or takes long to plan, is limited for the query as a whole, or sent in a form that it can cancel.

const MAX_LENGTH = 256;
const MAX_PATTERNS = 20;
const MAX_JSON_VALUES = 50;
const MAX_TABLES = 20;

/** `count` filters, each with a pattern of `length` characters. */
const filters = (name: string, count: number, length: number): string[][] =>
  Array.from({ length: count }, (_, n) => [name, `%${String(n).padStart(length - 2, 'a')}%`]);
const pattern = (name: string, length: number): string[][] => filters(name, 1, length);

const encoded = (parameters: string[][]): string =>
  parameters.map(([name = '', value = '']) => `${name}=${encodeURIComponent(value)}`).join('&');

const PARENTS = ['a', 'b', 'c', 'd', 'e'] as const;
const parent = { type: 'foreignKey', references: 'knot', null: true } as const;
const RESOURCES = [
  { model: 'box', columns: { name: { type: 'string' } } },
  {
    model: 'thing',
    columns: {
      text: { type: 'text' },
      name: { type: 'string' },
      box: { type: 'foreignKey', references: 'box', null: true },
    },
    admin: { search: ['text', 'name'] },
  },
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
  // A model for each column keeps statements below the length at which PostgreSQL cuts their texts in pg_stat_activity.
  { model: 'title', columns: { title: { type: 'string', null: true } } },
  { model: 'data', columns: { data: { type: 'json', null: true } } },
  { model: 'word', columns: { word: { type: 'string', null: true } } },
  { model: 'nick', columns: { nick: { type: 'string', null: true } } },
  { model: 'tags', columns: { tags: { type: 'array', of: 'string', null: true } } },
] as const satisfies readonly Resource[];

const SCHEMA = `
  create view sight as select 1 as id, null::integer as a_id, null::integer as b_id, null::integer as c_id,
    null::integer as d_id, null::integer as e_id;
  create extension citext;
  create collation folded (provider = icu, locale = 'und-u-ks-level2', deterministic = false);
  ${['title varchar', 'data jsonb', 'word citext', 'nick varchar collate folded', 'tags text[]'].map((one) => `create table ${one.split(' ')[0]} (id integer generated by default as identity primary key, ${one});`).join('')}
  insert into title (title) values ('a'), ('b'), ('c'), (null);
  insert into data (data) values ('[1]'), ('{"b": 2}'), ('null'), (null);
  insert into word (word) values ('A'), ('b'), ('C'), (null);
  insert into nick (nick) values ('a'), ('B'), ('c'), (null);
  insert into tags (tags) values ('{a}'), ('{b,NULL}'), ('{}'), (null)`;

/** Filters that join so many tables: those of paths with two foreign keys share the first one. */
function joining(tables: number): string[][] {
  const paths = PARENTS.flatMap((first) => [[first], ...PARENTS.map((second) => [first, second])]);
  return paths.slice(0, tables).map((path) => [`${path.join('__')}__name`, 'x']);
}

const list = (count: number, value = '1'): string => `[${Array<string>(count).fill(value).join(',')}]`;

const elements = (count: number): string => Array.from({ length: count }, (_, n) => String(n)).join();

const service: WritableService = useWritable(RESOURCES, SCHEMA, async () => {
  await service.sql`insert into thing (text, name) values (${'a'.repeat(1000)}, 'long')`;
  await service.sql`insert into box (name) select ${'name '.repeat(25)} || n from generate_series(1, 200) n`;
  await service.sql`insert into knot (name, data) values ('one', '[1]'), ('two', null)`;
  ada = await logIn(service, 'ada');
});
let ada: Browser;

const search = (words: string): string => new URLSearchParams({ _search: words }).toString();

const ask = (parameters: string[][], accept?: string, headers = {}, model = 'knot') =>
  service.request(`/api/${model}/?${encoded(parameters)}`, {
    headers: { ...headers, ...(accept === undefined ? {} : { accept }) },
  });

describe('the limit of patterns', () => {
  for (const [kind, parameters] of [
    ['one pattern of 256 characters', pattern('text__like', MAX_LENGTH)],
    ['one pattern of 256 characters outside of the basic plane', [['text__ilike', '😀'.repeat(MAX_LENGTH)]]],
    ['two patterns of 128 characters', [...pattern('text__like', 128), ...pattern('name__ilike', 128)]],
    ['twenty short patterns', filters('text__ilike', MAX_PATTERNS, 12)],
    [
      'one pattern and long values of other operators',
      [...pattern('text__like', MAX_LENGTH), ['text', 'a'.repeat(3000)], ['text__in', 'b'.repeat(3000)]],
    ],
  ] as [string, string[][]][])
    test(`accepts ${kind}`, async () => {
      const { status, text } = await service.request(`/api/thing/?${encoded(parameters)}`);
      assert.equal(status, 200, text);
    });

  test('is 400 when the patterns of a query are too long or too many', async () => {
    const cases: [parameters: string[][], named: string, message: RegExp][] = [
      [pattern('text__like', MAX_LENGTH + 1), 'text__like', /257 characters long; at most 256 are allowed$/],
      [pattern('text__ilike', 2000), 'text__ilike', /2000 characters long/],
      [pattern('-name__ilike', MAX_LENGTH + 1), '-name__ilike', /257 characters/],
      [pattern('box__name__like', MAX_LENGTH + 1), 'box__name__like', /257 characters/],
      [[['text__like', '%_'.repeat(MAX_LENGTH)]], 'text__like', /512 characters/],
      [[...pattern('text__like', 128), ...pattern('name__like', 129)], 'name__like', /257 characters/],
      [filters('text__like', 2, 129), 'text__like', /258 characters/],
      [filters('text__ilike', MAX_PATTERNS + 1, 4), 'text__ilike', /^is pattern 21 .*; at most 20 are allowed$/],
      [[...filters('text__like', MAX_PATTERNS, 4), ...pattern('-name__ilike', 4)], '-name__ilike', /^is pattern 21 /],
    ]; // prettier-ignore
    for (const [parameters, named, message] of cases)
      for (const headers of [{}, { accept: 'application/x-ndjson' }, { accept: 'text/csv' }]) {
        const { status, json } = await service.request(`/api/thing/?${encoded(parameters)}`, {
          headers,
        });
        assert.equal(status, 400, named);
        assert.deepEqual(Object.keys(json.errors), [named]);
        assert.match(json.errors[named][0], message);
      }
  });

  for (const [outcome, words, status] of [
    ['accepts a search of 20 words', 'word '.repeat(20), 200],
    ['refuses a search of 21 words', 'word '.repeat(21), 400],
    ['accepts a word of 254 characters', 'a'.repeat(254), 200],
    ['refuses a word of 255 characters', 'a'.repeat(255), 400],
    ['counts the escape characters of the words', '%'.repeat(130), 400],
  ] as const)
    test(`${outcome} in the admin area`, async () => {
      for (const model of ['thing', 'vitrine_history']) {
        const page = await ada.get(`/admin/${model}/?${search(words)}`);
        assert.equal(page.status, status, model);
        if (status === 400) assert.match(readable(page), /is too long: a search has at most 20 words/);
      }
    });

  test('counts the words of a search and the patterns of filters together', async () => {
    const query = encoded([...pattern('text__like', 200), ['_search', 'b'.repeat(100)]]);
    assert.equal((await ada.get(`/admin/thing/?${query}`)).status, 400);
    const filtered = await ada.get(
      `/admin/thing/?${encoded([...pattern('text__like', 300), ['_search', '']])}`,
    );
    assert.equal(filtered.status, 400);
    assert.doesNotMatch(readable(filtered), /is too long: a search/);
  });

  test('a lookup with too many words finds a record only by its full name', async () => {
    for (const [words, found] of [
      [`${'name '.repeat(25)}7`, ['7']],
      ['x'.repeat(1000), []],
    ] as const) {
      const { status, text } = await ada.get(`/admin/box/-/lookup/?${search(words)}`);
      assert.equal(status, 200);
      const { records } = JSON.parse(text) as { records: { id: string }[] };
      assert.deepEqual(pluck(records, 'id'), found);
    }
  });
});

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

// PostgreSQL cannot cancel the comparison of a large value with the elements of an array, so lists for types whose comparison
// reads the whole value are the rows of a subselect.
describe('a list of values', () => {
  const idsOf = async (model: string, query: string): Promise<number[]> => {
    const { status, json, text } = await service.request(`/api/${model}/?${query}`);
    assert.equal(status, 200, text);
    return (json.objects as { id: number }[]).map(({ id }) => id);
  };

  for (const [column, isWhole, values] of [
    ['title', false, ['a', 'b', 'x']],
    ['data', true, ['[1]', '{"b":2}', '"x"']],
    ['word', true, ['a', 'B', 'x']],
    ['nick', true, ['A', 'b', 'x']],
    ['tags', true, ['["a"]', '["b",null]', '["x"]']],
  ] as const) {
    const list = values.map((value) => encodeURIComponent(`"${value.replaceAll('"', '""')}"`)).join();
    const each = (operator: string): string =>
      values.map((value) => `${column}__${operator}=${encodeURIComponent(value)}`).join('&');

    test(`finds the same records in ${column} as one value at a time`, async () => {
      assert.deepEqual(await idsOf(column, `${column}__in=${list}`), [1, 2]);
      assert.deepEqual(await idsOf(column, each('eq')), [1, 2]);
      assert.deepEqual(await idsOf(column, each('ne')), [3]);
      assert.deepEqual(await idsOf(column, `-${column}__in=${list}`), [3, 4]);
    });

    if (isWhole)
      test(`is looked up in a hash table for ${column}, and not compared value by value`, async () => {
        for (const [query, limit] of [
          [each('ne'), 11],
          [`-${column}__in=${list}`, 12],
        ] as const) {
          await idsOf(column, `${query}&limit=${limit}`);
          const [row] = await service.sql<{ query: string }[]>`select query from pg_stat_activity
            where datname = current_database() and query like ${`%t."${column}"%limit ${limit + 1}%`} and pid <> pg_backend_pid()`;
          assert.ok(row);
          const text = row.query.replaceAll('$1::', "'{x,y}'::");
          const plan = await service.sql.unsafe<{ 'QUERY PLAN': string }[]>(`explain (costs off) ${text}`);
          const lines = plan.map((line) => line['QUERY PLAN']).join('\n');
          assert.match(lines, /hashed SubPlan/);
        }
      });
  }
});
