// Arrays of tables that Vitrine creates: bodies, filters, formats and the OpenAPI document.
import assert from 'node:assert/strict';
import fc from 'fast-check';
import { anyCharacter } from '../characters.ts';
import type { ColumnDefinition, Resource } from '../../src/index.ts';
import { startWith, type WritableService } from '../db/helpers.ts';
import { assertRoundTrip } from '../db/helpers.ts';
import { schemaFaults } from './openapi.ts';
import { after, before, describe, test } from 'node:test';

const COLUMNS = {
  string: { type: 'array', of: 'string', null: true, elements: { maxLength: 40 } },
  text: { type: 'array', of: 'text', null: true, index: true },
  integer: { type: 'array', of: 'integer', null: true, elements: { min: -1000, max: 1000 } },
  bigint: { type: 'array', of: 'bigint', null: true },
  float: { type: 'array', of: 'float', null: true },
  decimal: { type: 'array', of: 'decimal', null: true, elements: { precision: 6, scale: 2 } },
  boolean: { type: 'array', of: 'boolean', null: true },
  datetime: { type: 'array', of: 'datetime', null: true },
  date: { type: 'array', of: 'date', null: true },
  time: { type: 'array', of: 'time', null: true },
  uuid: { type: 'array', of: 'uuid', null: true },
  kinds: {
    type: 'array',
    of: 'string',
    choices: ['a', 'b'],
    elements: { null: false },
    default: ['a'],
    unique: true,
    null: true,
  },
  data: { type: 'json', null: true },
} as const satisfies Record<string, ColumnDefinition>;

type Name = Exclude<keyof typeof COLUMNS, 'kinds' | 'data'>;

const digits = (number: number, width: number): string => String(number).padStart(width, '0');
const day = fc
  .tuple(fc.integer({ min: 1, max: 9999 }), fc.integer({ min: 1, max: 12 }), fc.integer({ min: 1, max: 28 }))
  .map(([year, month, date]) => `${digits(year, 4)}-${digits(month, 2)}-${digits(date, 2)}`);
const time = fc
  .tuple(fc.nat(23), fc.nat(59), fc.nat(59))
  .map((parts) => parts.map((part) => digits(part, 2)).join(':'));
const words = fc.oneof(
  fc.constantFrom('', 'NULL', 'null', '{}', '{a,b}', 'a,b', '"', '\\', '\\"', "'", ' ', '[', '\n', '日本語', '🦉'),
  fc.string({ maxLength: 20, unit: anyCharacter }).filter((text) => !text.includes('\0')),
); // prettier-ignore

/** Elements of each type, as the output shows them. */
const ELEMENTS: Record<Name, fc.Arbitrary<unknown>> = {
  string: words,
  text: words,
  integer: fc.integer({ min: -1000, max: 1000 }),
  bigint: fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n }).map(String),
  float: fc.double({ noNaN: true, noDefaultInfinity: true }),
  decimal: fc.integer({ min: -999_999, max: 999_999 }).map((cents) => (cents / 100).toFixed(2)),
  boolean: fc.boolean(),
  datetime: fc.tuple(day, time).map((parts) => parts.join(' ')),
  date: day,
  time,
  uuid: fc.uuid(),
};
const arrayOf = (name: Name): fc.Arbitrary<unknown[] | null> =>
  fc.option(fc.array(fc.option(ELEMENTS[name], { freq: 6 }), { maxLength: 6 }), { freq: 8 });

const things: Resource = { model: 'thing', columns: COLUMNS, access: 'user', limit: 1000 };
const csv = (text: string): string => `"${text.replaceAll('"', '""')}"`;

describe('arrays', () => {
  let service: WritableService;
  before(async () => {
    service = await startWith([things]);
  });
  after(() => service.close());

  const idsOf = async (query: readonly (readonly [string, string])[]): Promise<number[]> => {
    const text = new URLSearchParams(
      query.map(([name, value]): [string, string] => [name, value]),
    ).toString();
    const answer = await service.request(`/api/thing/?${text}`);
    assert.equal(answer.status, 200, `${text}: ${answer.text}`);
    return (answer.json.objects as { id: number }[]).map(({ id }) => id);
  };
  const create = async (body: unknown): Promise<Record<string, unknown>> => {
    const answer = await service.send('POST', '/api/thing/', body);
    assert.equal(answer.status, 201, answer.text);
    return answer.json as Record<string, unknown>;
  };

  for (const name of Object.keys(ELEMENTS) as Name[]) {
    test(`any array of ${name} is output as it was sent, and can be sent back`, async () => {
      await service.sql`truncate thing`;
      await fc.assert(
        fc.asyncProperty(arrayOf(name), async (array) => {
          const record = await create({ [name]: array, kinds: null });
          const isNegativeZero = (value: unknown): boolean => Object.is(value, -0);
          // JSON.stringify writes -0 as 0.
          assert.deepEqual(record[name], array?.map((one) => (isNegativeZero(one) ? 0 : one)) ?? null);
          await assertRoundTrip(service, `/api/thing/${String(record['id'])}/`, 'thing');
        }),
        { numRuns: 25 },
      );
    });

    test(`filters of an array of ${name} find the same records as a comparison in JavaScript`, async () => {
      await fc.assert(
        fc.asyncProperty(fc.array(arrayOf(name), { minLength: 1, maxLength: 8 }), async (arrays) => {
          await service.sql`truncate thing`;
          const answer = await service.send(
            'POST',
            '/api/thing/',
            arrays.map((array) => ({ [name]: array, kinds: null })),
          );
          assert.equal(answer.status, 201, answer.text);
          const stored = answer.json as Record<string, unknown>[];
          const matching = (isMatch: (array: unknown[]) => boolean): number[] =>
            stored
              .filter((record) => record[name] !== null && isMatch(record[name] as unknown[]))
              .map(({ id }) => Number(id));
          const same = (one: unknown, other: unknown): boolean => JSON.stringify(one) === JSON.stringify(other);
          for (const array of stored.flatMap((record) => (record[name] === null ? [] : [record[name] as unknown[]]))) {
            const text = JSON.stringify(array);
            assert.deepEqual(await idsOf([[name, text]]), matching((one) => same(one, array)));
            assert.deepEqual(await idsOf([[`${name}__ne`, text]]), matching((one) => !same(one, array)));
            assert.deepEqual(
              await idsOf([[`${name}__in`, `${csv(text)},${csv('[]')}`]]),
              matching((one) => same(one, array) || one.length === 0),
            );
            const wanted = array.filter((element) => element !== null);
            if (wanted.length === 0) continue;
            const holdsAll = (one: unknown[]): boolean => wanted.every((element) => one.some((own) => same(own, element)));
            const list = wanted.map((element) => csv(String(element as string | number | boolean))).join(',');
            assert.deepEqual(await idsOf([[`${name}__contains`, list]]), matching(holdsAll));
            assert.deepEqual(
              await idsOf([[`-${name}__contains`, list]]),
              stored.map(({ id }) => Number(id)).filter((id) => !matching(holdsAll).includes(id)),
            );
            const several = Array.from({ length: 10 }, () => [`${name}__contains`, list] as const);
            assert.deepEqual(await idsOf(several), matching(holdsAll));
          }
          assert.deepEqual(
            await idsOf([[`${name}__is`, 'null']]),
            stored.filter((record) => record[name] === null).map(({ id }) => Number(id)),
          );
        }),
        { numRuns: 10 },
      );
    }); // prettier-ignore
  }

  const FAULTS: readonly (readonly [body: string, errors: Record<string, string[]>])[] = [
    ['{"text": "a"}', { text: ['must be an array'] }],
    ['{"text": {"a": 1}}', { text: ['must be an array'] }],
    ['{"text": ["a", 1]}', { text: ['element 2: must be a string'] }],
    ['{"text": [{"a": [1]}, 1]}', { text: ['element 1: must be a string'] }],
    ['{"text": [["a"]]}', { text: ['element 1: must not be an array'] }],
    ['{"text": ["a", ["b"]]}', { text: ['element 2: must not be an array'] }],
    ['{"text": [[[[[[["a"]]]]]]]}', { text: ['element 1: must not be an array'] }],
    ['{"text": ["\\u0000"]}', { text: ['element 1: must not contain a NUL character'] }],
    [`{"string": ["${'x'.repeat(41)}"]}`, { string: ['element 1: must be at most 40 characters (got 41)'] }],
    ['{"integer": [1, 2, "x"]}', { integer: ['element 3: must be a whole number'] }],
    ['{"integer": [1001]}', { integer: ['element 1: must be at most 1000'] }],
    ['{"decimal": [1.234]}', { decimal: ['element 1: must have at most 2 digits after the decimal point'] }],
    ['{"boolean": [true, "true"]}', { boolean: ['element 2: must be true or false'] }],
    ['{"datetime": ["2024-02-30"]}', { datetime: ['element 1: is not a valid date and time'] }],
    ['{"uuid": ["x"]}', { uuid: ['element 1: must be a UUID'] }],
    ['{"kinds": ["a", "c"]}', { kinds: ['element 2: must be one of a, b'] }],
    ['{"kinds": ["a", null]}', { kinds: ['element 2: must not be null'] }],
    [`{"text": [${'"",'.repeat(10_000)}""]}`, { text: ['must have at most 10,000 elements'] }],
  ];
  for (const [body, errors] of FAULTS)
    test(`${body.slice(0, 40)} is refused: ${Object.values(errors).join()}`, async () => {
      const { status, json } = await service.send('POST', '/api/thing/', body);
      assert.deepEqual([status, json.errors], [400, errors]);
    });

  for (const [query, error] of [
    ['text=a', 'must be a JSON array'],
    ['text=["a"', 'must be a JSON array'],
    ['text=1', 'must be an array'],
    ['integer=[1,"x"]', 'element 2: must be a whole number'],
    ['integer__contains=1,x', 'element 2: must be a whole number'],
    ['integer__contains=x', 'element 1: must be a whole number'],
    ['integer__contains=', 'must have at least one value'],
    ['text__contains="a', 'must be comma-separated values, quoted as in CSV'],
    ['text__is=true', 'must be null, because this column is not boolean'],
    ['text__lt=[]', 'this column does not support the operator lt'],
    ['text__ilike=a', 'this column does not support the operator ilike'],
    ['data__contains=a', 'must be JSON: unexpected character at line 1, column 1'],
    ['ordering=text', 'text: this column cannot be sorted'],
  ] as const)
    test(`the filter ${query} is 400`, async () => {
      const [name = '', value = ''] = query.split('=');
      const { status, json } = await service.request(`/api/thing/?${name}=${encodeURIComponent(value)}`);
      assert.deepEqual([status, json.errors], [400, { [name]: [error] }]);
    });

  test('the default applies, and a unique constraint refuses a duplicate', async () => {
    await service.sql`truncate thing`;
    assert.deepEqual((await create({}))['kinds'], ['a']);
    const { status, json } = await service.send('POST', '/api/thing/', { kinds: ['a'] });
    assert.deepEqual([status, json.errors], [409, { kinds: ['another record has this value'] }]);
    assert.deepEqual((await create({ kinds: [] }))['kinds'], []);
    assert.deepEqual((await create({ kinds: ['b', 'a'] }))['kinds'], ['b', 'a']);
  });

  test('contains finds JSON values that contain another one', async () => {
    await service.sql`truncate thing`;
    const { id } = await create({ kinds: null, data: { tags: ['a', 'b'], n: 1 } });
    await create({ kinds: null, data: { tags: ['b'] } });
    assert.deepEqual(await idsOf([['data__contains', '{"tags": ["a"]}']]), [id]);
    assert.deepEqual(await idsOf([['data__contains', '{"n": 1.0}'], ['data__contains', '{"n": 2}']]), [id]); // prettier-ignore
    assert.deepEqual(await idsOf([['data__contains', '[]']]), []);
  });

  test('an index on an array is a GIN index, which contains uses', async () => {
    const [index] = await service.sql`
      select indexdef from pg_indexes where tablename = 'thing' and indexdef like '%(text)%'`;
    assert.match(String(index?.['indexdef']), /using gin/i);
    const plan = await service.sql.begin(async (sql) => {
      await sql`set local enable_seqscan = off`;
      return sql.unsafe(`explain select id from thing t where (t."text" @> '{a}'::text::text[])`);
    });
    assert.match(JSON.stringify(plan), /Bitmap Index Scan/);
  });

  test('exports have the array as JSON', async () => {
    await service.sql`truncate thing`;
    const { id } = await create({ kinds: null, text: ['=1+1', 'a"b', null, 'c\nd'] });
    const get = async (accept: string): Promise<string> => (await service.request('/api/thing/', { headers: { accept } })).text; // prettier-ignore
    const cells = `${String(id)},,"[""=1+1"",""a\\""b"",null,""c\\nd""]",,,`;
    assert.ok((await get('text/csv')).includes(cells), await get('text/csv'));
    assert.ok((await get('application/x-ndjson')).includes('"text":["=1+1","a\\"b",null,"c\\nd"]'));
  });

  test('the OpenAPI document allows NULL elements that another program has stored', async () => {
    await service.sql`truncate thing`;
    await service.sql`insert into thing (kinds) values ('{a,NULL}')`;
    const { json } = await service.request('/api/thing/');
    assert.deepEqual(json.objects[0].kinds, ['a', null]);
    const faultsOf = schemaFaults((await service.request('/api/openapi.json', { user: 'ada' })).json);
    assert.deepEqual(faultsOf('thing.Page', json), []);
    assert.notDeepEqual(faultsOf('thing.New', { kinds: ['a', null] }), []);
  });

  test('the OpenAPI document describes arrays and their filters', async () => {
    const { json } = await service.request('/api/openapi.json', { user: 'ada' });
    const { schemas } = json.components;
    assert.deepEqual(schemas.thing.properties.bigint, {
      type: ['array', 'null'],
      items: { type: ['string', 'null'], format: 'int64', pattern: '^-?[0-9]+$' },
    });
    assert.deepEqual(schemas['thing.New'].properties.kinds, {
      type: ['array', 'null'],
      items: { type: 'string', maxLength: 255, enum: ['a', 'b'] },
      maxItems: 10_000,
      description: 'Default: `["a"]`.',
    });
    const parameters = json.paths['/api/thing'].get.parameters as { name: string; schema: unknown }[];
    const schemaOf = (wanted: string): unknown => parameters.find(({ name }) => name === wanted)?.schema;
    assert.deepEqual(schemaOf('text'), { $ref: '#/components/schemas/Filter.array' });
    assert.deepEqual(schemaOf('text__contains'), { $ref: '#/components/schemas/Filter.contains' });
    assert.deepEqual(schemaOf('data__contains'), { $ref: '#/components/schemas/Filter.json' });
  });
});

test('with DATETIME_FORMAT=iso an array of date-times is output in ISO 8601', async () => {
  const columns = { at: { type: 'array', of: 'datetime' } } as const;
  const ddl =
    'create table moment (id integer generated by default as identity primary key, at timestamptz[] not null)';
  const service = await startWith([{ model: 'moment', columns, access: 'user' }], ddl, { datetimeFormat: 'iso' }); // prettier-ignore
  try {
    await service.sql`insert into moment (at) values ('{2024-05-31 18:30:00.25+02,NULL,infinity,"0044-03-15 12:00:00 BC"}')`;
    const { text } = await service.request('/api/moment/1/');
    assert.equal(text, '{"id":1,"at":["2024-05-31T16:30:00Z",null,"infinity","0044-03-15 12:00:00 BC"]}');
    await assertRoundTrip(service, '/api/moment/1/', 'moment');
    const { json } = await service.request('/api/moment/?at__contains=2024-05-31T16:30:00Z');
    assert.equal(json.objects.length, 1);
  } finally {
    await service.close();
  }
});
