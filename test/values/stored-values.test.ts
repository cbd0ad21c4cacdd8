// Values of the types of an existing database, of which the service creates only some: what GET shows is found by filters, and can be
// sent back.
import assert from 'node:assert/strict';
import type { ColumnDefinition, Resource } from '../../src/index.ts';
import {
  assertFindable,
  assertRoundTrip,
  startWith,
  type WritableService,
  useWritable,
} from '../db/helpers.ts';
import {
  closedAfter,
  type Answer,
  MAJOR_VERSION,
  startBeside,
  startService,
  type TestService,
} from '../support.ts';
import { user } from '../../src/resources/registry.ts';
import { describe, test } from 'node:test';

type Type = Exclude<ColumnDefinition['type'], 'foreignKey' | 'password' | 'array'>;
type Elements = Pick<Extract<ColumnDefinition, { type: 'array' }>, 'of'>;

/** The type in PostgreSQL, the type in the registry or the one of the elements, and values: in SQL, and as JSON from GET. */
type Specimen = readonly [
  stored: string,
  type: Type | Elements,
  values: readonly (readonly [sql: string, shown: string])[],
];

const shownAs = (...texts: string[]): [string, string][] => texts.map((text) => [text, JSON.stringify(text)]);
const digits = '1234567890'.repeat(120);

const SPECIMENS: Readonly<Record<string, Specimen>> = {
  ts: ['timestamp', 'datetime', [
    ['2024-05-31 18:30:00.123456', '"2024-05-31 18:30:00"'], ['2024-05-31 18:30:00.999999', '"2024-05-31 18:30:00"'],
    ['2024-05-31 18:30:00', '"2024-05-31 18:30:00"'], ['1969-12-31 23:59:59.000001', '"1969-12-31 23:59:59"'],
    ['0001-01-01 00:00:00.5', '"0001-01-01 00:00:00"'], ['0044-03-15 12:00:00.75 BC', '"0044-03-15 12:00:00 BC"'],
    ['4714-11-24 00:00:00 BC', '"4714-11-24 00:00:00 BC"'], ['10000-02-29 00:00:00', '"10000-02-29 00:00:00"'],
    ['294276-12-31 23:59:59.999999', '"294276-12-31 23:59:59"'], ['infinity', '"infinity"'], ['-infinity', '"-infinity"'],
  ]],
  ts3: ['timestamp(3)', 'datetime', [['2024-05-31 18:30:00.125', '"2024-05-31 18:30:00"']]],
  ts0: ['timestamp(0)', 'datetime', shownAs('2024-05-31 18:30:00', 'infinity', '0044-03-15 12:00:00 BC')],
  tz: ['timestamptz', 'datetime', [
    ['2024-05-31 18:30:00.25+02', '"2024-05-31 16:30:00"'], ['2024-01-01 00:30:00+05:45', '"2023-12-31 18:45:00"'],
    ['0044-03-15 12:00:00.75+00 BC', '"0044-03-15 12:00:00 BC"'], ['294276-12-31 23:59:59.999999+00', '"294276-12-31 23:59:59"'],
    ['infinity', '"infinity"'], ['-infinity', '"-infinity"'],
  ]],
  tz0: ['timestamptz(0)', 'datetime', [['2024-05-31 18:30:00+02', '"2024-05-31 16:30:00"']]],
  tm: ['time', 'time', [['18:30:00.25', '"18:30:00"'], ['00:00:00', '"00:00:00"'], ['23:59:59.999999', '"23:59:59"'], ['24:00:00', '"24:00:00"']]],
  tm0: ['time(0)', 'time', shownAs('18:30:00', '24:00:00')],
  dt: ['date', 'date', shownAs('2024-02-29', '0001-01-01', '0044-03-15 BC', '4713-01-01 BC', '4714-11-24 BC', '10000-01-01', '5874897-12-31', 'infinity', '-infinity')],
  vc: ['varchar', 'string', shownAs('', ' ', 'x'.repeat(300), 'a,"b"\\c%_\n\t', 'Zoë 日本語 🦉', 'null', "it's")],
  vs: ['varchar(3)', 'string', shownAs('日本語', '🦉🦉🦉', '')],
  tx: ['text', 'string', shownAs('y'.repeat(300), '')],
  ch: ['char(5)', 'string', [['ab', '"ab"'], ['', '""'], ['abcde', '"abcde"']]],
  nu: ['numeric', 'decimal', [...shownAs('1.50', '0.1000000000000000055', '-0.5', '0.00', 'NaN', 'Infinity', '-Infinity', digits), ['1e130', `"1${'0'.repeat(130)}"`]]],
  nf: ['numeric(6,2)', 'decimal', [['1.5', '"1.50"'], ['-9999.99', '"-9999.99"'], ['NaN', '"NaN"']]],
  ni: ['numeric(5)', 'decimal', shownAs('99999', '-1', '0')],
  // Before PostgreSQL 15, a scale is at least 0 and at most the precision.
  ...(MAJOR_VERSION >= 15 && {
    nn: ['numeric(3,-2)', 'decimal', shownAs('12300', '-99900', '0')],
    nb: ['numeric(3,5)', 'decimal', shownAs('0.00123', '-0.00999', '0.00000')],
  }),
  re: ['real', 'float', [
    ['0.1', '0.1'], ['16777216', '1.6777216e+07'], ['3.4028235e38', '3.4028235e+38'], ['1.1754944e-38', '1.1754944e-38'], ['1e-45', '1e-45'],
    ['-0', '-0'], ['NaN', '"NaN"'], ['Infinity', '"Infinity"'], ['-Infinity', '"-Infinity"'],
  ]],
  dp: ['double precision', 'float', [
    ['0.1', '0.1'], ['1.7976931348623157e308', '1.7976931348623157e+308'], ['2.2250738585072014e-308', '2.2250738585072014e-308'],
    ['5e-324', '5e-324'], ['9007199254740993', '9.007199254740992e+15'], ['-0', '-0'], ['NaN', '"NaN"'], ['Infinity', '"Infinity"'],
    ['-Infinity', '"-Infinity"'],
  ]],
  sm: ['smallint', 'integer', [['-32768', '-32768'], ['32767', '32767']]],
  it: ['integer', 'integer', [['-2147483648', '-2147483648'], ['2147483647', '2147483647']]],
  bg: ['bigint', 'bigint', shownAs('-9223372036854775808', '9223372036854775807', '9007199254740993')],
  dv: ['"Short ""Text"""', 'string', shownAs('0123456789', '')],
  dn: ['amount', 'decimal', shownAs('999.9', '-0.1')],
  en: ['"Mood"', 'string', shownAs('so, so', 'it\'s "ok"', 'déçu')],
  em: ['"Known Mood"', 'string', shownAs('so, so', 'déçu')],
  ci: ['citext', 'string', shownAs('Ada', 'ÉCOLE', '')],
  uu: ['uuid', 'uuid', shownAs('00000000-0000-0000-0000-000000000000', 'ffffffff-ffff-ffff-ffff-ffffffffffff')],
  na: ['inet', 'inet', shownAs('192.0.2.7', '192.0.2.7/24', '0.0.0.0/0', '2001:db8::7', '2001:db8::7/64', '::ffff:1.2.3.4')],
  nc: ['cidr', 'cidr', shownAs('192.0.2.0/24', '192.0.2.7/32', '0.0.0.0/0', '2001:db8::/32', '::/0', '::1/128')],
  mc: ['macaddr', 'macaddr', shownAs('08:00:2b:01:02:03', 'ff:ff:ff:ff:ff:ff')],
  mx: ['macaddr8', 'macaddr', shownAs('08:00:2b:01:02:03:04:05')],
  nx: ['home', 'inet', shownAs('192.0.2.7', '2001:db8::7/64')],
  bo: ['boolean', 'boolean', [['true', 'true'], ['false', 'false']]],
  jb: ['jsonb', 'json', [
    ['{"a":[null,{"b":null}],"":true}', '{"": true, "a": [null, {"b": null}]}'], ['{"k":1,"k":2}', '{"k": 2}'],
    ['[12345678901234567890.0123456789,1e400]', `[12345678901234567890.0123456789, 1${'0'.repeat(400)}]`], ['"a,\\"b\\" 日本語 🦉"', '"a,\\"b\\" 日本語 🦉"'],
    ['[]', '[]'], ['0', '0'],
  ]],
  jt: ['json', 'json', [['{ "k" : 1,\n"k":1.50 }', '{ "k" : 1,\n"k":1.50 }'], [' [1e2, -0]\t', ' [1e2, -0]\t'], ['12345678901234567890', '12345678901234567890']]],
  txs: ['text[]', { of: 'text' }, [
    ['{}', '[]'],
    [String.raw`{a,"b,c","d\"e","f\\g",NULL,"NULL","",null,"{}"," "}`, String.raw`["a","b,c","d\"e","f\\g",null,"NULL","",null,"{}"," "]`],
    ['{"Zoë 日本語 🦉"}', '["Zoë 日本語 🦉"]'], ['{{a,b},{c,d}}', '[["a","b"],["c","d"]]'], ['[0:1]={a,b}', '["a","b"]'],
    ['[2:3][-1:0]={{a,b},{c,NULL}}', '[["a","b"],["c",null]]'],
  ]],
  vcs: ['varchar(3)[]', { of: 'string' }, [['{日本語,abc}', '["日本語","abc"]']]],
  chs: ['char(3)[]', { of: 'string' }, [['{a,abc,NULL}', '["a","abc",null]']]],
  cis: ['citext[]', { of: 'string' }, [['{Ada,bob}', '["Ada","bob"]']]],
  sms: ['smallint[]', { of: 'integer' }, [['{-32768,32767}', '[-32768,32767]']]],
  its: ['integer[]', { of: 'integer' }, [['{1,NULL,-2147483648}', '[1,null,-2147483648]'], ['{}', '[]']]],
  bgs: ['bigint[]', { of: 'bigint' }, [['{9007199254740993,-1}', '["9007199254740993","-1"]']]],
  res: ['real[]', { of: 'float' }, [['{0.1,16777216,NaN}', '[0.1,1.6777216e+07,"NaN"]']]],
  dps: ['double precision[]', { of: 'float' }, [['{0.1,1e300,-Infinity,-0}', '[0.1,1e+300,"-Infinity",-0]']]],
  nus: ['numeric[]', { of: 'decimal' }, [['{1.50,-0.10,NaN}', '["1.50","-0.10","NaN"]']]],
  nfs: ['numeric(6,2)[]', { of: 'decimal' }, [['{1.5,-9999.99}', '["1.50","-9999.99"]']]],
  bos: ['boolean[]', { of: 'boolean' }, [['{t,f,NULL}', '[true,false,null]']]],
  tss: ['timestamp[]', { of: 'datetime' }, [
    ['{"2024-05-31 18:30:00.123456","1969-12-31 23:59:59.5",infinity,"0044-03-15 12:00:00.75 BC",NULL}', '["2024-05-31 18:30:00","1969-12-31 23:59:59","infinity","0044-03-15 12:00:00 BC",null]'],
  ]],
  ts0s: ['timestamp(0)[]', { of: 'datetime' }, [['{"2024-05-31 18:30:00"}', '["2024-05-31 18:30:00"]']]],
  tzs: ['timestamptz[]', { of: 'datetime' }, [['{"2024-05-31 18:30:00.25+02","2024-01-01 00:30:00+05:45"}', '["2024-05-31 16:30:00","2023-12-31 18:45:00"]']]],
  dts: ['date[]', { of: 'date' }, [['{2024-02-29,infinity,"0044-03-15 BC"}', '["2024-02-29","infinity","0044-03-15 BC"]']]],
  tms: ['time[]', { of: 'time' }, [['{18:30:00.25,24:00:00}', '["18:30:00","24:00:00"]']]],
  uus: ['uuid[]', { of: 'uuid' }, [['{00000000-0000-0000-0000-00000000000a}', '["00000000-0000-0000-0000-00000000000a"]']]],
  ens: ['"Mood"[]', { of: 'string' }, [['{"so, so",déçu}', '["so, so","déçu"]']]],
  eds: ['"Known Mood"[]', { of: 'string' }, [['{"so, so",NULL}', '["so, so",null]']]],
  das: ['amount[]', { of: 'decimal' }, [['{1.5,2}', '["1.5","2.0"]']]],
  ads: ['tags', { of: 'text' }, [['{a,b}', '["a","b"]']]],
}; // prettier-ignore

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
  create extension citext;
  create domain "Short ""Text""" as varchar(10);
  create domain home as inet;
  create domain amount as numeric(4,1) check (value > -1);
  create domain tags as text[] check (cardinality(value) < 3);
  create type "Mood" as enum ('so, so', 'it''s "ok"', 'déçu');
  create domain "Inner Mood" as "Mood" check (value <> 'it''s "ok"');
  create domain "Known Mood" as "Inner Mood";
  create table specimen (
    id integer generated by default as identity primary key,
    ${Object.entries(SPECIMENS).map(([name, [stored]]) => `${name} ${stored}`).join(',\n')}
  )`; // prettier-ignore

const csv = (text: string): string => `"${text.replaceAll('"', '""')}"`;

describe('a column of an existing database', () => {
  const records: { id: number; name: string; type: Type | Elements; literal: string; shown: string }[] = [];
  const columns = Object.fromEntries(
    Object.entries(SPECIMENS).map(([name, [, type]]): [string, ColumnDefinition] => [
      name,
      typeof type === 'string' ? { type, null: true } : { ...type, type: 'array', null: true },
    ]),
  );
  const service: WritableService = useWritable(
    [{ model: 'specimen', columns, access: 'user' }],
    DDL,
    async () => {
      for (const [name, [, type, values]] of Object.entries(SPECIMENS))
        for (const [literal, shown] of values) {
          const insert = `insert into specimen (${name}) values ('${literal.replaceAll("'", "''")}') returning id`;
          const [row] = await service.sql.unsafe(insert);
          records.push({ id: Number(row?.['id']), name, type, literal, shown });
        }
    },
  );

  const idsOf = async (parameters: readonly (readonly [string, string])[]): Promise<number[]> => {
    const query = new URLSearchParams(
      parameters.map(([name, value]): [string, string] => [name, value]),
    ).toString();
    const { status, json, text } = await service.request(`/api/specimen/?limit=1000&${query}`);
    assert.equal(status, 200, `${query}: ${text}`);
    return (json.objects as { id: number }[]).map(({ id }) => id);
  };

  /** Finds a record by the value of its array, and by its elements. */
  async function assertArrayFindable({ id, name, literal, shown }: (typeof records)[number]): Promise<void> {
    // A filter has arrays of one dimension that begins with 1.
    if (literal.startsWith('[') || shown.startsWith('[[')) return;
    const elements = (JSON.parse(shown) as (string | number | boolean | null)[])
      .filter((element) => element !== null)
      .map((one) => csv(String(one)));
    for (const [operator, value] of [
      ['', shown],
      ['__in', csv(shown)],
      ...(elements.length === 0 ? [] : [['__contains', elements.join()] as const]),
    ] as const) {
      assert.ok((await idsOf([[name + operator, value]])).includes(id), `${name}${operator}=${value}`);
      const others = await idsOf([[`-${name}${operator}`, value]]);
      assert.ok(!others.includes(id), `-${name}${operator}=${value}`);
    }
  }

  for (const [name, [stored, type]] of Object.entries(SPECIMENS))
    test(`of type ${stored} is shown as documented, found by filters, and can be sent back unchanged`, async () => {
      const faults: string[] = [];
      const check = async (record: (typeof records)[number]): Promise<void> => {
        const { id, shown } = record;
        const { text } = await service.request(`/api/specimen/${id}/`);
        assert.ok(text.includes(`"${name}":${shown}`), text);
        if (typeof type === 'string') await assertFindable(service, 'specimen', name, id, shown, type);
        else await assertArrayFindable(record);
        await assertRoundTrip(service, `/api/specimen/${id}/`, 'specimen');
      };
      for (const record of records.filter((each) => each.name === name))
        await check(record).catch(({ message }: Error) => faults.push(`${record.shown}: ${message}`));
      assert.deepEqual(faults, []);
    });

  for (const name of Object.keys(SPECIMENS).filter((each) => /^t[smz]\d?$/.test(each)))
    test(`of type ${SPECIMENS[name]?.[0]} is compared with the precision that GET shows, also in long lists`, async () => {
      const known = records.filter((each) => each.name === name && ORDINARY.test(each.shown));
      assert.ok(known.length > 0);
      const among = (ids: number[]) => known.filter(({ id }) => ids.includes(id));
      for (const { shown } of known) {
        const value = JSON.parse(shown) as string;
        for (const [operator, isMatch] of Object.entries(ORDERS))
          assert.deepEqual(
            among(await idsOf([[`${name}__${operator}`, value]])),
            known.filter((each) => isMatch(each.shown, shown)),
            `${operator} ${shown}`,
          );
        for (const sign of ['', '-']) {
          const find = (count: number) => idsOf([[`${sign}${name}__in`, Array(count).fill(value).join()]]);
          assert.deepEqual(await find(9), await find(1), `${sign}in ${shown}`);
        }
      }
    });

  test('keeps an element of its array that cannot be new, and takes new arrays of one dimension', async () => {
    const { id } = records.find(({ name }) => name === 'dps') ?? { id: 0 };
    for (const [body, errors] of [
      ['{"dps": [0.5, "NaN"]}', { dps: ['element 2: must be a finite value'] }],
      ['{"its": [[1, 2], [3, 4]]}', { its: ['element 1: must not be an array'] }],
    ] as const) {
      const { status, json } = await service.send('PUT', `/api/specimen/${id}/`, body);
      assert.deepEqual([status, json.errors], [400, errors]);
    }
  });
});

test('a value that an enum does not have is 400 and named, in a filter and in a body', async (t) => {
  const felt: Resource = { model: 'felt', columns: { mood: { type: 'string' } }, access: 'user' };
  const service = closedAfter(
    t,
    await startService([user, felt], {
      prepare: (sql) =>
        sql.unsafe(`
        create type mood as enum ('sad', 'glad');
        create table felt (id integer generated by default as identity primary key, mood mood not null)`),
    }),
  );
  await service.addUser('bob');
  const post = (mood: string): Promise<Answer> =>
    service.request('/api/felt/', { method: 'POST', user: 'bob', body: { mood, nope: 1 } });
  for (const [mood, named] of Object.entries({ glad: ['nope'], mad: ['mood', 'nope'] })) {
    const { status, json } = await post(mood);
    assert.deepEqual([status, Object.keys(json.errors)], [400, named]);
  }
  for (const query of ['mood=mad', 'mood__in=sad,mad', '-mood__ne=mad']) {
    const { status, json } = await service.request(`/api/felt/?${query}`);
    assert.deepEqual([status, Object.keys(json.errors ?? {})], [400, [query.split('=')[0]]], query);
  }
  assert.equal((await service.request('/api/felt/?mood__in=sad,glad')).status, 200);
});

test('a value that is added to an enum is read, and taken after the next start, as the errors say until then', async (t) => {
  const tables = `create type mood as enum ('sad', 'glad'); create table feeling (id serial primary key, mood mood not null, moods mood[])`;
  const resources: Resource[] = [
    user,
    {
      model: 'feeling',
      columns: { mood: { type: 'text' }, moods: { type: 'array', of: 'text', null: true } },
      access: 'user',
    },
  ];
  const service = closedAfter(t, await startWith(resources.slice(1), tables));
  await service.sql`alter type mood add value 'calm'`;
  await service.sql`insert into feeling (mood) values ('calm')`;
  assert.equal((await service.request('/api/feeling/1/')).json.mood, 'calm');
  const said = 'must be one of sad, glad, which were the values of its type when the service started';
  const post = (one: Pick<TestService, 'request'>, body: unknown) =>
    one.request('/api/feeling/', { method: 'POST', user: 'ada', body });
  const refused = await post(service, { mood: 'calm', moods: ['sad', 'calm'] });
  assert.equal(refused.status, 400);
  assert.deepEqual(refused.json.errors, { mood: [said], moods: [`element 2: ${said}`] });
  const filtered = await service.request('/api/feeling/?mood=calm');
  assert.deepEqual([filtered.status, filtered.json.errors], [400, { mood: [said] }]);
  const next = closedAfter(t, await startBeside(service.url, resources));
  assert.equal((await post(next, { mood: 'calm', moods: ['calm'] })).status, 201);
  assert.equal((await next.request('/api/feeling/?mood=calm')).json.objects.length, 2);
});
