import assert from 'node:assert/strict';
import type { ColumnDefinition, Resource } from '../../src/index.ts';
import { assertFindable, assertRoundTrip, startWith, type WritableService } from './helpers.ts';
import { type Answer, MAJOR_VERSION, startService } from '../support.ts';
import { user } from '../../src/resources/registry.ts';
import { after, before, describe, test } from 'node:test';

type Type = Exclude<ColumnDefinition['type'], 'foreignKey' | 'password' | 'array'>;

/** The type in PostgreSQL, the type in the registry, and values: in SQL, and as JSON from GET. */
type Specimen = readonly [
  stored: string,
  type: Type,
  values: readonly (readonly [sql: string, shown: string])[],
];

const shownAs = (...texts: string[]): [string, string][] => texts.map((text) => [text, JSON.stringify(text)]);
const digits = '1234567890'.repeat(120);

const SPECIMENS: Record<string, Specimen> = {
  ts: [
    'timestamp',
    'datetime',
    [
      ['2024-05-31 18:30:00.123456', '"2024-05-31 18:30:00"'],
      ['2024-05-31 18:30:00.999999', '"2024-05-31 18:30:00"'],
      ['2024-05-31 18:30:00', '"2024-05-31 18:30:00"'],
      ['1969-12-31 23:59:59.000001', '"1969-12-31 23:59:59"'],
      ['0001-01-01 00:00:00.5', '"0001-01-01 00:00:00"'],
      ['0044-03-15 12:00:00.75 BC', '"0044-03-15 12:00:00 BC"'],
      ['4714-11-24 00:00:00 BC', '"4714-11-24 00:00:00 BC"'],
      ['10000-02-29 00:00:00', '"10000-02-29 00:00:00"'],
      ['294276-12-31 23:59:59.999999', '"294276-12-31 23:59:59"'],
      ['infinity', '"infinity"'],
      ['-infinity', '"-infinity"'],
    ],
  ],
  ts3: ['timestamp(3)', 'datetime', [['2024-05-31 18:30:00.125', '"2024-05-31 18:30:00"']]],
  ts0: ['timestamp(0)', 'datetime', shownAs('2024-05-31 18:30:00', 'infinity', '0044-03-15 12:00:00 BC')],
  tz: [
    'timestamptz',
    'datetime',
    [
      ['2024-05-31 18:30:00.25+02', '"2024-05-31 16:30:00"'],
      ['2024-01-01 00:30:00+05:45', '"2023-12-31 18:45:00"'],
      ['0044-03-15 12:00:00.75+00 BC', '"0044-03-15 12:00:00 BC"'],
      ['294276-12-31 23:59:59.999999+00', '"294276-12-31 23:59:59"'],
      ['infinity', '"infinity"'],
      ['-infinity', '"-infinity"'],
    ],
  ],
  tz0: ['timestamptz(0)', 'datetime', [['2024-05-31 18:30:00+02', '"2024-05-31 16:30:00"']]],
  tm: [
    'time',
    'time',
    [
      ['18:30:00.25', '"18:30:00"'],
      ['00:00:00', '"00:00:00"'],
      ['23:59:59.999999', '"23:59:59"'],
      ['24:00:00', '"24:00:00"'],
    ],
  ],
  tm0: ['time(0)', 'time', shownAs('18:30:00', '24:00:00')],
  dt: [
    'date',
    'date',
    shownAs('2024-02-29', '0001-01-01', '0044-03-15 BC', '4713-01-01 BC', '4714-11-24 BC', '10000-01-01', '5874897-12-31', 'infinity', '-infinity'), // prettier-ignore
  ],
  vc: [
    'varchar',
    'string',
    shownAs('', ' ', 'x'.repeat(300), 'a,"b"\\c%_\n\t', 'Zoë 日本語 🦉', 'null', "it's"),
  ],
  vs: ['varchar(3)', 'string', shownAs('日本語', '🦉🦉🦉', '')],
  tx: ['text', 'string', shownAs('y'.repeat(300), '')],
  ch: ['char(5)', 'string', [['ab', '"ab"'], ['', '""'], ['abcde', '"abcde"']]], // prettier-ignore
  nu: [
    'numeric',
    'decimal',
    [
      ...shownAs('1.50', '0.1000000000000000055', '-0.5', '0.00', 'NaN', 'Infinity', '-Infinity', digits),
      ['1e130', `"1${'0'.repeat(130)}"`],
    ],
  ],
  nf: ['numeric(6,2)', 'decimal', [['1.5', '"1.50"'], ['-9999.99', '"-9999.99"'], ['NaN', '"NaN"']]], // prettier-ignore
  ni: ['numeric(5)', 'decimal', shownAs('99999', '-1', '0')],
  // Before PostgreSQL 15, a scale is at least 0 and at most the precision.
  ...(MAJOR_VERSION >= 15 && {
    nn: ['numeric(3,-2)', 'decimal', shownAs('12300', '-99900', '0')],
    nb: ['numeric(3,5)', 'decimal', shownAs('0.00123', '-0.00999', '0.00000')],
  }),
  re: [
    'real',
    'float',
    [
      ['0.1', '0.1'],
      ['16777216', '1.6777216e+07'],
      ['3.4028235e38', '3.4028235e+38'],
      ['1.1754944e-38', '1.1754944e-38'],
      ['1e-45', '1e-45'],
      ['-0', '-0'],
      ['NaN', '"NaN"'],
      ['Infinity', '"Infinity"'],
      ['-Infinity', '"-Infinity"'],
    ],
  ],
  dp: [
    'double precision',
    'float',
    [
      ['0.1', '0.1'],
      ['1.7976931348623157e308', '1.7976931348623157e+308'],
      ['2.2250738585072014e-308', '2.2250738585072014e-308'],
      ['5e-324', '5e-324'],
      ['9007199254740993', '9.007199254740992e+15'],
      ['-0', '-0'],
      ['NaN', '"NaN"'],
      ['Infinity', '"Infinity"'],
      ['-Infinity', '"-Infinity"'],
    ],
  ],
  sm: ['smallint', 'integer', [['-32768', '-32768'], ['32767', '32767']]], // prettier-ignore
  it: ['integer', 'integer', [['-2147483648', '-2147483648'], ['2147483647', '2147483647']]], // prettier-ignore
  bg: ['bigint', 'bigint', shownAs('-9223372036854775808', '9223372036854775807', '9007199254740993')],
  dv: ['"Short ""Text"""', 'string', shownAs('0123456789', '')],
  dn: ['amount', 'decimal', shownAs('999.9', '-0.1')],
  en: ['"Mood"', 'string', shownAs('so, so', 'it\'s "ok"', 'déçu')],
  em: ['"Known Mood"', 'string', shownAs('so, so', 'déçu')],
  ci: ['citext', 'string', shownAs('Ada', 'ÉCOLE', '')],
  uu: [
    'uuid',
    'uuid',
    shownAs('00000000-0000-0000-0000-000000000000', 'ffffffff-ffff-ffff-ffff-ffffffffffff'),
  ],
  na: ['inet', 'inet', shownAs('192.0.2.7', '192.0.2.7/24', '0.0.0.0/0', '2001:db8::7', '2001:db8::7/64', '::ffff:1.2.3.4')], // prettier-ignore
  nc: ['cidr', 'cidr', shownAs('192.0.2.0/24', '192.0.2.7/32', '0.0.0.0/0', '2001:db8::/32', '::/0', '::1/128')], // prettier-ignore
  mc: ['macaddr', 'macaddr', shownAs('08:00:2b:01:02:03', 'ff:ff:ff:ff:ff:ff')],
  mx: ['macaddr8', 'macaddr', shownAs('08:00:2b:01:02:03:04:05')],
  nx: ['home', 'inet', shownAs('192.0.2.7', '2001:db8::7/64')],
  bo: ['boolean', 'boolean', [['true', 'true'], ['false', 'false']]], // prettier-ignore
  jb: [
    'jsonb',
    'json',
    [
      ['{"a":[null,{"b":null}],"":true}', '{"": true, "a": [null, {"b": null}]}'],
      ['{"k":1,"k":2}', '{"k": 2}'],
      ['[12345678901234567890.0123456789,1e400]', `[12345678901234567890.0123456789, 1${'0'.repeat(400)}]`],
      ['"a,\\"b\\" 日本語 🦉"', '"a,\\"b\\" 日本語 🦉"'],
      ['[]', '[]'],
      ['0', '0'],
    ],
  ],
  jt: [
    'json',
    'json',
    [
      ['{ "k" : 1,\n"k":1.50 }', '{ "k" : 1,\n"k":1.50 }'],
      [' [1e2, -0]\t', ' [1e2, -0]\t'],
      ['12345678901234567890', '12345678901234567890'],
    ],
  ],
};

/** Texts of times that sort like the times. */
const ORDINARY = /^"(\d{4}-\d\d-\d\d )?\d\d:\d\d:\d\d"$/;
const ORDERS: Readonly<Record<string, (stored: string, value: string) => boolean>> = {
  eq: (stored, value) => stored === value,
  ne: (stored, value) => stored !== value,
  lt: (stored, value) => stored < value,
  lte: (stored, value) => stored <= value,
  gt: (stored, value) => stored > value,
  gte: (stored, value) => stored >= value,
};

/** Settings of the database that must not change any answer. */
const PREFERENCES = ["datestyle = 'German, DMY'", "timezone = 'Asia/Tokyo'"];

const DDL = `
  ${PREFERENCES.map((each) => `do $$ begin execute format($f$alter database %I set ${each}$f$, current_database()); end $$;`).join('\n')}
  create domain "Short ""Text""" as varchar(10);
  create domain home as inet;
  create domain amount as numeric(4,1) check (value > -1);
  create type "Mood" as enum ('so, so', 'it''s "ok"', 'déçu');
  create domain "Inner Mood" as "Mood" check (value <> 'it''s "ok"');
  create domain "Known Mood" as "Inner Mood";
  create table specimen (
    id integer generated by default as identity primary key,
    ${Object.entries(SPECIMENS).map(([name, [stored]]) => `${name} ${stored}`).join(',\n')}
  )`; // prettier-ignore

describe('column types of an existing database', () => {
  let service: WritableService;
  const records: { id: number; name: string; type: Type; shown: string }[] = [];
  before(async () => {
    const columns = Object.fromEntries(
      Object.entries(SPECIMENS).map(([name, [, type]]) => [name, { type, null: true }]),
    );
    const specimen = { model: 'specimen', columns, access: 'user' } as const;
    service = await startWith([specimen], `create extension citext; ${DDL}`);
    for (const [name, [, type, values]] of Object.entries(SPECIMENS)) {
      for (const [literal, shown] of values) {
        const insert = `insert into specimen (${name}) values ('${literal.replaceAll("'", "''")}') returning id`;
        const [row] = await service.sql.unsafe(insert);
        records.push({ id: Number(row?.['id']), name, type, shown });
      }
    }
  });
  after(() => service.close());

  for (const [name, [stored]] of Object.entries(SPECIMENS)) {
    /** Checks every record of the column, and reports all failures. */
    const withEach = async (work: (record: (typeof records)[number]) => Promise<void>): Promise<void> => {
      const faults: string[] = [];
      for (const record of records.filter((each) => each.name === name)) {
        await work(record).catch(({ message }: Error) => faults.push(`${record.shown}: ${message}`));
      }
      assert.deepEqual(faults, []);
    };

    test(`GET shows ${stored} in the documented format`, () =>
      withEach(async ({ id, shown }) => {
        const { text } = await service.request(`/api/specimen/${id}/`);
        assert.ok(text.includes(`"${name}":${shown}`), text);
      }));

    test(`filters find a record by each value of ${stored}`, () =>
      withEach(({ id, shown, type }) => assertFindable(service, 'specimen', name, id, shown, type)));

    test(`a record with ${stored} can be sent back unchanged`, () =>
      withEach(({ id }) => assertRoundTrip(service, `/api/specimen/${id}/`, 'specimen')));
  }

  for (const name of Object.keys(SPECIMENS).filter((each) => /^t[smz]/.test(each))) {
    test(`filters compare ${SPECIMENS[name]?.[0]} with the precision that GET shows`, async () => {
      const known = records.filter((each) => each.name === name && ORDINARY.test(each.shown));
      assert.ok(known.length > 0);
      for (const [operator, matches] of Object.entries(ORDERS)) {
        for (const { shown } of known) {
          const value = encodeURIComponent(JSON.parse(shown) as string);
          const { json } = await service.request(`/api/specimen/?${name}__${operator}=${value}&limit=100`);
          const found = (json.objects as { id: number }[]).map(({ id }) => id);
          assert.deepEqual(
            known.filter(({ id }) => found.includes(id)),
            known.filter((each) => matches(each.shown, shown)),
            `${operator} ${shown}`,
          );
        }
      }
    });
  }
});

test('a value that an enum does not have is 400 and named, in a filter and in a body', async () => {
  const felt: Resource = { model: 'felt', columns: { mood: { type: 'string' } }, access: 'user' };
  const service = await startService([user, felt], {
    prepare: (sql) =>
      sql.unsafe(`
        create type mood as enum ('sad', 'glad');
        create table felt (id integer generated by default as identity primary key, mood mood not null)`),
  });
  try {
    await service.addUser('bob');
    const post = (mood: string): Promise<Answer> =>
      service.request('/api/felt/', { method: 'POST', user: 'bob', body: { mood, nope: 1 } });
    for (const [mood, named] of [
      ['glad', ['nope']],
      ['mad', ['mood', 'nope']],
    ] as const) {
      const { status, json } = await post(mood);
      assert.deepEqual([status, Object.keys(json.errors)], [400, named]);
    }
    for (const query of ['mood=mad', 'mood__in=sad,mad', '-mood__ne=mad']) {
      const { status, json } = await service.request(`/api/felt/?${query}`);
      assert.deepEqual([status, Object.keys(json.errors ?? {})], [400, [query.split('=')[0]]], query);
    }
    assert.equal((await service.request('/api/felt/?mood__in=sad,glad')).status, 200);
  } finally {
    await service.close();
  }
});
