import assert from 'node:assert/strict';
import fc from 'fast-check';
import { anyCharacter } from '../characters.ts';
import type { ColumnDefinition, Resource } from '../../src/index.ts';
import { assertRoundTrip, rowsOf, startWith, type WritableService } from '../db/helpers.ts';
import { allTypes, startAllTypes } from './all-types.ts';
import { after, before, describe, test } from 'node:test';

const storable = fc.string({ unit: anyCharacter, maxLength: 12 }).map((text) => text.replaceAll('\0', ''));
const json = fc
  .jsonValue({ stringUnit: anyCharacter, maxDepth: 3 })
  .map((value) => JSON.stringify(value).replaceAll('\\u0000', ''));
const digits = fc.stringMatching(/^-?(0|[1-9]\d{0,24})(\.\d{1,24})?$/);
const float = (number: number): string => (Object.is(number, -0) ? '-0' : String(number));
const micros = fc.bigInt(-210_866_803_200_000_000n, 2n ** 63n - 1n);
const moment = micros.map((number) => `epoch ${number}`);

/** The SQL of a random value: a text with a cast, or for `epoch n` the time n microseconds after 1970. */
const literal = (type: string, value: string | null): string => {
  if (value === null) return 'null';
  const offset = /^epoch (.*)$/.exec(value)?.[1];
  if (offset) return `('epoch'::timestamp + '${offset} microseconds'::interval)::${type}`;
  return `'${value.replaceAll("'", "''")}'::${type}`;
};

/** Each column: its type in PostgreSQL, its type in the registry, and random values. */
const SAMPLE: Record<string, [stored: string, type: ColumnDefinition['type'], values: fc.Arbitrary<string>]> = {
  vc: ['varchar', 'string', storable],
  ch: ['char(8)', 'string', fc.stringMatching(/^[a-zé,"]{0,8}$/)],
  tx: ['text', 'text', storable],
  sm: ['smallint', 'integer', fc.integer({ min: -32768, max: 32767 }).map(String)],
  it: ['integer', 'integer', fc.maxSafeInteger().map((number) => String(number % 2 ** 31))],
  bg: ['bigint', 'bigint', fc.bigInt(-(2n ** 63n), 2n ** 63n - 1n).map(String)],
  nu: ['numeric', 'decimal', digits],
  nf: ['numeric(30,3)', 'decimal', digits],
  re: ['real', 'float', fc.float().map(float)],
  dp: ['double precision', 'float', fc.double().map(float)],
  bo: ['boolean', 'boolean', fc.boolean().map(String)],
  ts: ['timestamp', 'datetime', moment],
  t0: ['timestamp(0)', 'datetime', moment],
  tz: ['timestamptz', 'datetime', moment],
  da: ['date', 'date', moment],
  ti: ['time', 'time', moment],
  uu: ['uuid', 'uuid', fc.uuid()],
  ia: ['inet', 'inet', fc.oneof(fc.ipV4(), fc.ipV6(), fc.tuple(fc.ipV6(), fc.nat(128)).map((parts) => parts.join('/')), fc.tuple(fc.ipV4(), fc.nat(32)).map((parts) => parts.join('/')))],
  ma: ['macaddr', 'macaddr', fc.uint8Array({ minLength: 6, maxLength: 6 }).map((bytes) => Buffer.from(bytes).toString('hex').replace(/..(?!$)/g, '$&:'))],
  jb: ['jsonb', 'json', json],
  jt: ['json', 'json', fc.tuple(json, fc.nat(2)).map(([text, indent]) => JSON.stringify(JSON.parse(text), null, indent))],
}; // prettier-ignore

const sample: Resource = {
  model: 'sample',
  columns: Object.fromEntries(
    Object.entries(SAMPLE).map(([name, [, type]]) => [name, { type, null: true } as ColumnDefinition]),
  ),
  access: 'user',
};
const columns = Object.entries(SAMPLE).map(([name, [stored]]) => `${name} ${stored}`);
const DDL = `create table sample (id integer generated always as identity primary key, ${columns.join()})`;

/** The JSON text of each field of a flat document. */
async function sources(service: WritableService, text: string): Promise<Record<string, string>> {
  // PostgreSQL parses the document: it keeps all digits, and uses no code of the service.
  const rows = await service.sql`select key, value::text from json_each(${text}::text::json)`;
  return Object.fromEntries(rows.map((row) => [String(row['key']), String(row['value'])]));
}

describe('random rows of every type', () => {
  let service: WritableService;
  before(async () => {
    service = await startWith([sample], DDL);
  });
  after(() => service.close());

  const row = fc.record(
    Object.fromEntries(
      Object.entries(SAMPLE).map(([name, [, , values]]) => [name, fc.option(values, { freq: 6 })]),
    ),
  );
  const insert = async (values: Record<string, string | null>): Promise<number> => {
    const list = Object.entries(values).map(([name, value]) => literal(SAMPLE[name]?.[0] ?? '', value));
    const [added] = await service.sql.unsafe(
      `insert into sample (${Object.keys(values).join()}) values (${list.join()}) returning id`,
    );
    return Number(added?.['id']);
  };

  test('sending a GET back as a PUT changes nothing', () =>
    fc.assert(
      fc.asyncProperty(row, async (values) => {
        await service.sql`truncate sample`;
        await assertRoundTrip(service, `/api/sample/${await insert(values)}/`, 'sample');
      }),
      { numRuns: 60 },
    ));

  test('a filter by all values of a record finds it', () =>
    fc.assert(
      fc.asyncProperty(row, async (values) => {
        const id = await insert(values);
        const { text } = await service.request(`/api/sample/${id}/`);
        const query = Object.entries(await sources(service, text)).map(([name, source]): [string, string] => {
          if (source === 'null' && values[name] !== 'null') return [`${name}__is`, 'null'];
          return [name, source.startsWith('"') && SAMPLE[name]?.[1] !== 'json' ? JSON.parse(source) : source];
        });
        const found = await service.request(`/api/sample/?${new URLSearchParams(query).toString()}`);
        assert.deepEqual(found.json.objects?.map((record: { id: number }) => record.id), [id], found.text); // prettier-ignore
      }),
      { numRuns: 60 },
    ));

  test('bigint and decimal keep all digits, as strings and as numbers', () =>
    fc.assert(
      fc.asyncProperty(SAMPLE['bg']![2], digits, fc.boolean(), async (bg, nu, quoted) => {
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
    service = await startAllTypes();
    path = `/api/thing/${(await service.send('POST', '/api/thing/', { s: 'x' })).json.id}/`;
  });
  after(() => service.close());

  const names = Object.keys(allTypes.find(({ model }) => model === 'thing')?.columns ?? {});
  const name = fc.oneof(
    { weight: 12, arbitrary: fc.constantFrom(...names, 's', 'near_id', 'far_id', 'wide_id', 'id') },
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
        } else {
          const target = answer.headers.get('location') ?? path;
          assert.equal((await service.request(target)).text, answer.text);
          await assertRoundTrip(service, target, 'thing');
          if (isPost) assert.equal((await service.send('DELETE', target)).status, 200);
        }
      }),
      { numRuns: 250 },
    ));
});
