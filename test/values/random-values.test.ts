// Random rows of every type of column, and random bodies.
import assert from 'node:assert/strict';
import fc from 'fast-check';
import { anyCharacter } from '../characters.ts';
import type { ColumnDefinition, Resource } from '../../src/index.ts';
import { assertRoundTrip, rowsOf, useWritable, type WritableService } from '../db/helpers.ts';
import { NAMES, startCases } from './column-cases.ts';
import { after, before, describe, test } from 'node:test';

const storable = fc.string({ unit: anyCharacter, maxLength: 12 }).map((text) => text.replaceAll('\0', ''));
const awkward = fc.constantFrom(
  '',
  'NULL',
  'null',
  '{}',
  '{a,b}',
  'a,b',
  '"',
  '\\',
  '\\"',
  "'",
  ' ',
  '[',
  '\n',
);
const json = fc
  .jsonValue({ stringUnit: anyCharacter, maxDepth: 3 })
  .map((value) => JSON.stringify(value).replaceAll('\\u0000', ''));
const digits = fc.stringMatching(/^-?(0|[1-9]\d{0,24})(\.\d{1,24})?$/);
const float = (number: number): string => (Object.is(number, -0) ? '-0' : String(number));
const bigint = fc.bigInt(-(2n ** 63n), 2n ** 63n - 1n).map(String);
/** The time so many microseconds after 1970. */
const moment = fc.bigInt(-210_866_803_200_000_000n, 2n ** 63n - 1n).map((number) => `epoch ${number}`);

type Sample = readonly [
  stored: string,
  type: Exclude<ColumnDefinition['type'], 'array'>,
  values: fc.Arbitrary<string>,
  isArray?: boolean,
];

/** The type in PostgreSQL, the type in the registry, and random values. Types with `true` also have a column of arrays. */
const SCALARS: Readonly<Record<string, Sample>> = {
  vc: ['varchar', 'string', fc.oneof(storable, awkward), true],
  ch: ['char(8)', 'string', fc.stringMatching(/^[a-zé,"]{0,8}$/)],
  tx: ['text', 'text', fc.oneof(storable, awkward), true],
  sm: ['smallint', 'integer', fc.integer({ min: -32768, max: 32767 }).map(String)],
  it: ['integer', 'integer', fc.integer().map(String), true],
  bg: ['bigint', 'bigint', bigint, true],
  nu: ['numeric', 'decimal', digits, true],
  nf: ['numeric(30,3)', 'decimal', digits],
  re: ['real', 'float', fc.float().map(float)],
  dp: ['double precision', 'float', fc.double().map(float), true],
  bo: ['boolean', 'boolean', fc.boolean().map(String), true],
  ts: ['timestamp', 'datetime', moment, true],
  t0: ['timestamp(0)', 'datetime', moment],
  tz: ['timestamptz', 'datetime', moment],
  da: ['date', 'date', moment, true],
  ti: ['time', 'time', moment, true],
  uu: ['uuid', 'uuid', fc.uuid(), true],
  ia: ['inet', 'inet', fc.oneof(fc.ipV4(), fc.ipV6(), fc.tuple(fc.ipV6(), fc.nat(128)).map((parts) => parts.join('/')), fc.tuple(fc.ipV4(), fc.nat(32)).map((parts) => parts.join('/')))],
  ma: ['macaddr', 'macaddr', fc.uint8Array({ minLength: 6, maxLength: 6 }).map((bytes) => Buffer.from(bytes).toString('hex').replace(/..(?!$)/g, '$&:'))],
  jb: ['jsonb', 'json', json],
  jt: ['json', 'json', fc.tuple(json, fc.nat(2)).map(([text, indent]) => JSON.stringify(JSON.parse(text), null, indent))],
}; // prettier-ignore
const ARRAYS = Object.entries(SCALARS).filter(([, [, , , isArray]]) => isArray);

/** The SQL of a value. */
function literal(type: string, value: string | null): string {
  if (value === null) return 'null';
  const offset = /^epoch (.*)$/.exec(value)?.[1];
  if (offset) return `('epoch'::timestamp + '${offset} microseconds'::interval)::${type}`;
  return `'${value.replaceAll("'", "''")}'::${type}`;
}

interface Column {
  readonly definition: ColumnDefinition;
  readonly stored: string;
  /** Values in SQL. */
  readonly values: fc.Arbitrary<string>;
}
const COLUMNS: Readonly<Record<string, Column>> = {
  ...Object.fromEntries(
    Object.entries(SCALARS).map(([name, [stored, type, values]]): [string, Column] => [
      name,
      {
        definition: { type, null: true } as ColumnDefinition,
        stored,
        values: fc.option(values, { freq: 6 }).map((value) => literal(stored, value)),
      },
    ]),
  ),
  ...Object.fromEntries(
    ARRAYS.map(([name, [stored, of, values]]): [string, Column] => [
      `${name}s`,
      {
        definition: { type: 'array', of, null: true } as ColumnDefinition,
        stored: `${stored}[]`,
        values: fc
          .option(fc.array(fc.option(values, { freq: 6 }), { maxLength: 5 }), { freq: 6 })
          .map((list) => list && `array[${list.map((one) => literal(stored, one)).join()}]::${stored}[]`)
          .map((list) => list ?? 'null'),
      },
    ]),
  ),
};

const sample: Resource = {
  model: 'sample',
  columns: Object.fromEntries(Object.entries(COLUMNS).map(([name, { definition }]) => [name, definition])),
  access: 'user',
};
const DDL = `create table sample (id integer generated always as identity primary key,
  ${Object.entries(COLUMNS).map(([name, { stored }]) => `${name} ${stored}`).join()})`; // prettier-ignore

const row = fc.record(
  Object.fromEntries(Object.entries(COLUMNS).map(([name, { values }]) => [name, values])),
);
const csv = (text: string): string => `"${text.replaceAll('"', '""')}"`;

describe('random rows of every type', () => {
  const service: WritableService = useWritable([sample], DDL);

  const insert = async (values: Record<string, string>): Promise<number> => {
    const [added] = await service.sql.unsafe(
      `insert into sample (${Object.keys(values).join()}) values (${Object.values(values).join()}) returning id`,
    );
    return Number(added?.['id']);
  };
  /** The JSON text of each field. PostgreSQL parses it: it keeps all digits, and uses no code of the service. */
  const sourcesOf = async (text: string): Promise<Record<string, string>> => {
    const rows = await service.sql`select key, value::text from json_each(${text}::text::json)`;
    return Object.fromEntries(rows.map((one) => [String(one['key']), String(one['value'])]));
  };
  const idsOf = async (parameters: [string, string][]): Promise<number[]> => {
    const answer = await service.request(`/api/sample/?${new URLSearchParams(parameters).toString()}`);
    assert.equal(answer.status, 200, answer.text);
    return answer.json.objects.map(({ id }: { id: number }) => id);
  };

  test('a GET sent back as a PUT changes nothing, and sent as a POST makes a record with the same values', () =>
    fc.assert(
      fc.asyncProperty(row, async (values) => {
        await service.sql`truncate sample`;
        const path = `/api/sample/${await insert(values)}/`;
        await assertRoundTrip(service, path, 'sample');
        const fields = await sourcesOf((await service.request(path)).text);
        // A new value may be no time before Christ, and no number without an end.
        const isNew = ([, source]: [string, string]): boolean =>
          !/BC|infinity|NaN|Infinity|"\d{5,7}-\d/.test(source);
        const kept = Object.entries(fields).filter((field) => field[0] !== 'id' && isNew(field));
        const made = await service.send('POST', '/api/sample/', `{${kept.map(([name, source]) => `"${name}":${source}`).join()}}`); // prettier-ignore
        assert.equal(made.status, 201, made.text);
        const shown = await sourcesOf(made.text);
        for (const [name, source] of kept)
          if (COLUMNS[name]?.definition.type !== 'json') assert.equal(shown[name], source, name);
      }),
      { numRuns: 60 },
    ));

  test('filters by each value of a record find it, and negated ones do not', () =>
    fc.assert(
      fc.asyncProperty(row, async (values) => {
        const id = await insert(values);
        const fields = await sourcesOf((await service.request(`/api/sample/${id}/`)).text);
        const parameters = Object.entries(fields).flatMap(([name, source]): [string, string][] => {
          const { type } = COLUMNS[name]?.definition ?? { type: 'integer' };
          if (source === 'null' && values[name] === 'null') return [[`${name}__is`, 'null']];
          const isText = source.startsWith('"') && type !== 'json';
          const value = isText ? (JSON.parse(source) as string) : source;
          const equal: [string, string][] = [[name, value], [`${name}__in`, csv(value)]]; // prettier-ignore
          if (type !== 'array') return equal;
          const elements = (JSON.parse(source) as unknown[]).filter(
            (one) => one !== null && typeof one !== 'number',
          );
          return elements.length === 0
            ? equal
            : [...equal, [`${name}__contains`, elements.map((one) => csv(String(one))).join()]];
        });
        // A query has at most 50 filters and 8 KiB.
        const chosen = parameters.filter(([, value]) => encodeURIComponent(value).length < 1500);
        for (let at = 0; at < chosen.length; at += 5)
          assert.deepEqual(await idsOf([...chosen.slice(at, at + 5), ['id', String(id)]]), [id]);
        for (const [name, value] of chosen.filter((_, index) => index % 7 === id % 7))
          assert.ok(!(await idsOf([[`-${name}`, value], ['id', String(id)]])).includes(id), name); // prettier-ignore
      }),
      { numRuns: 60 },
    ));

  test('bigint and decimal keep all digits, as strings and as numbers', () =>
    fc.assert(
      fc.asyncProperty(bigint, digits, fc.boolean(), async (bg, nu, quoted) => {
        const quote = (text: string): string => (quoted ? `"${text}"` : text);
        const { status, text } = await service.send(
          'POST',
          '/api/sample/',
          `{"bg":${quote(bg)},"nu":${quote(nu)}}`,
        );
        assert.equal(status, 201, text);
        const [expected] =
          await service.sql`select ${bg}::text::int8::text as bg, ${nu}::text::numeric::text as nu`;
        const shown = JSON.parse(text) as Record<string, unknown>;
        assert.deepEqual({ bg: shown['bg'], nu: shown['nu'] }, { ...expected });
      }),
      { numRuns: 60 },
    ));
});

/** JSON values that are difficult for some type. */
const DIFFICULT = ['null', 'true', '0', '-0', '1e400', '1e-400', '-1e308', '9223372036854775808', '1e15', '0.1e1', '"\\u0000"', '"\\ud800"', '""', '"NaN"', '"Infinity"', '"-infinity"', '"now"', '"2024-02-30"', '"0044-03-15 BC"', '"4714-01-01 BC"', '"294276-12-31 23:59:59"', '"24:00:00"', '"{}"', '"1e999"', '"a\'b\\"c\\\\d"', '"$1"', '"🦉"', '[]', '{}', '{"__proto__":null}', '[[[[1e-20000]]]]', '{"a":1,"a":1e200000}', '"00000000-0000-4000-8000-00000000000A"', '"$argon2id$v=19$m=8,t=1,p=1$YQ$YQ"']; // prettier-ignore

describe('random bodies', () => {
  let service: WritableService;
  let path: string;
  before(async () => {
    service = await startCases();
    path = `/api/thing/${(await service.send('POST', '/api/thing/', { s: 'x' })).json.id}/`;
  });
  after(() => service.close());

  const name = fc.oneof(
    { weight: 12, arbitrary: fc.constantFrom(...NAMES) },
    { weight: 1, arbitrary: fc.string({ unit: anyCharacter }) },
  );
  const anyJson = fc
    .jsonValue({ stringUnit: anyCharacter, maxDepth: 2 })
    .map((value) => JSON.stringify(value));
  const value = fc.oneof(fc.constantFrom(...DIFFICULT), anyJson, digits, fc.double().map((n) => JSON.stringify(n))); // prettier-ignore
  const object = fc
    .array(fc.tuple(name, value), { maxLength: 6 })
    .map((list) => `{${list.map(([key, source]) => `${JSON.stringify(key)}:${source}`).join()}}`);
  const body = fc.oneof(
    { weight: 8, arbitrary: object },
    { weight: 2, arbitrary: object.map((text) => text.replace('{', '{"s":"ok",').replace(',}', '}')) },
    { weight: 1, arbitrary: fc.array(object, { maxLength: 3 }).map((list) => `[${list.join()}]`) },
    { weight: 1, arbitrary: fc.string({ unit: anyCharacter }) },
    { weight: 1, arbitrary: anyJson },
  );

  test('no body gets a 5xx, and a 4xx changes nothing', () =>
    fc.assert(
      fc.asyncProperty(body, fc.boolean(), async (text, isPost) => {
        const before = await rowsOf(service.sql, 'thing');
        const answer = await service.send(isPost ? 'POST' : 'PUT', isPost ? '/api/thing/' : path, text);
        assert.ok(answer.status < 500, `${answer.status} ${answer.text}`);
        if (answer.status >= 400) {
          assert.equal(answer.headers.get('content-type'), 'application/problem+json');
          assert.deepEqual(await rowsOf(service.sql, 'thing'), before);
        } else if (!Array.isArray(answer.json)) {
          const target = answer.headers.get('location') ?? path;
          assert.equal((await service.request(target)).text, answer.text);
          await assertRoundTrip(service, target, 'thing');
          if (isPost) assert.equal((await service.send('DELETE', target)).status, 200);
        }
      }),
      { numRuns: 250 },
    ));
});
