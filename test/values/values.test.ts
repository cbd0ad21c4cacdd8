// Every value that a client can send, through every way in: POST, PUT, PATCH, an array of records, and filters.
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import type { Resource } from '../../src/index.ts';
import { assertFindable, assertRoundTrip, rowsOf, useWritable, type WritableService } from '../db/helpers.ts';
import { assertProblem, jsonLinesOf } from '../http/expect.ts';
import { schemaFaults } from '../http/openapi.ts';
import {
  CASES,
  type ColumnCase,
  FAR,
  isSupported,
  NAMES,
  OPERATORS,
  startCases,
  WIDE,
} from './column-cases.ts';
import { anyCharacter } from '../characters.ts';
import {
  type Answer,
  request,
  startService,
  type TestService,
  useService,
  pluck,
  useStarted,
} from '../support.ts';
import { user } from '../../src/resources/registry.ts';
import { logIn } from '../admin/support.ts';

const DEEP = '['.repeat(20_000) + ']'.repeat(20_000);

describe('a value', () => {
  let path: string;
  const service: WritableService = useStarted(startCases, async () => {
    path = `/api/thing/${(await service.send('POST', '/api/thing/', { s: 'put' })).json.id}/`;
  });

  /** A body with this value of a column, and the other values that a record needs. */
  const bodyOf = (name: string, json: string): string =>
    name === 's' ? `{"s":${json}}` : `{"s":"a","${name}":${json}}`;
  /** The body through each way in: the method, the path, the body, and the key of the column in errors. */
  const waysIn = (name: string, body: string): [string, string, string, string][] => [
    ['POST', '/api/thing/', body, name],
    ['POST', '/api/thing/', `[{"s":"b"},${body}]`, `1.${name}`],
    ['PUT', path, ` \n${body}\t`, name],
    ['PATCH', path, body, name],
  ];
  const filter = (name: string, value: string) =>
    service.request(`/api/thing/?${new URLSearchParams({ [name]: value }).toString()}`);

  /** Runs the checks of all values of a column, and reports all that fail. */
  async function all<T>(values: readonly T[], check: (value: T) => Promise<void>): Promise<void> {
    const failures: string[] = [];
    for (const value of values)
      await check(value).catch(({ message }: Error) => failures.push(`${JSON.stringify(value)}: ${message}`));
    assert.deepEqual(failures, []);
  }
  const byMessage = (table: ColumnCase['refused'] = {}): [string, string][] =>
    Object.entries(table).flatMap(([message, values]) =>
      values.map((value): [string, string] => [message, value]),
    );

  for (const [name, { about, column, accepted, spellings = [], refused, unfilterable }] of Object.entries(
    CASES,
  )) {
    test(`of ${about} is stored, shown, kept by a PUT, and found by a filter`, () =>
      all(accepted, async ([sent, shown = sent]) => {
        for (const [method, to, body] of waysIn(name, bodyOf(name, sent))) {
          const before = method === 'PATCH' ? await rowsOf(service.sql, 'thing') : undefined;
          const { status, text } = await service.send(method, to, body);
          assert.equal(status, method === 'POST' ? 201 : 200, `${method}: ${text}`);
          assert.ok(text.includes(`"${name}":${shown}`), `${method} must show ${shown}: ${text}`);
          // The PUT before has stored the same value, however it is written.
          if (before) assert.deepEqual(await rowsOf(service.sql, 'thing'), before, 'no row is rewritten');
        }
        const { json } = await service.request(path);
        await assertRoundTrip(service, path, 'thing');
        // Arrays have no order, like JSON.
        const type = column.type === 'array' ? 'json' : column.type;
        if (shown !== 'null') await assertFindable(service, 'thing', name, json.id, shown, type);
      }));

    test(`of ${about} is refused with its message, through every way in, and changes nothing`, async () => {
      const before = await rowsOf(service.sql, 'thing');
      await all(byMessage(refused), async ([message, sent]) => {
        for (const [method, to, body, key] of waysIn(name, bodyOf(name, sent))) {
          const answer = await service.send(method, to, body);
          assertProblem(answer, 400);
          assert.deepEqual(answer.json.errors, { [key]: [message] }, method);
        }
      });
      assert.deepEqual(await rowsOf(service.sql, 'thing'), before);
    });

    if (spellings.length > 0 || unfilterable)
      test(`of ${about} may be written otherwise in a filter, and is refused with its message there`, async () => {
        await all(spellings, async ([written, sent]) => {
          const body = bodyOf(name, sent);
          const { id } = (await service.send('POST', '/api/thing/', body)).json;
          const { json, text } = await filter(name, written);
          assert.ok(
            json.objects?.some((record: { id: number }) => record.id === id),
            text,
          );
          await service.send('DELETE', `/api/thing/${id}/`);
        });
        await all(byMessage(unfilterable), async ([message, written]) => {
          for (const operator of ['', '__ne'])
            for (const sign of ['', '-']) {
              const parameter = `${sign}${name}${operator}`;
              const answer = await filter(parameter, written);
              assertProblem(answer, 400);
              assert.deepEqual(answer.json.errors, { [parameter]: [message] });
            }
        });
      });

    test(`of ${about} can be compared by the operators of its type, and by no other`, () =>
      all(OPERATORS, async (operator) => {
        const shown = accepted[0]?.[1] ?? accepted[0]?.[0] ?? '';
        const value: unknown = JSON.parse(shown);
        const isList = operator === 'contains' && Array.isArray(value) && column.type === 'array';
        const text = isList
          ? String(value[0])
          : typeof value === 'string' && column.type !== 'json'
            ? value
            : shown;
        const written =
          operator === 'is' ? 'null' : operator === 'in' ? `"${text.replaceAll('"', '""')}"` : text;
        const parameter = `${name}__${operator}`;
        const { status, json } = await filter(parameter, written);
        if (isSupported(column, operator)) return assert.equal(status, 200, JSON.stringify(json));
        const guess = operator === 'contains' && isSupported(column, 'ilike') ? '; did you mean ilike?' : '';
        const message = `this column does not support the operator ${operator}${guess}`;
        assert.deepEqual([status, json.errors], [400, { [parameter]: [message] }]);
      }));
  }

  /** Sends a body by POST and by PUT, and checks that both name exactly these fields. */
  async function assertNamed(
    body: string,
    fields: readonly string[],
    methods = ['POST', 'PUT'],
  ): Promise<void> {
    for (const method of methods) {
      const answer = await service.send(method, method === 'POST' ? '/api/thing/' : path, body);
      assertProblem(answer, 400);
      assert.deepEqual(
        Object.keys(answer.json.errors).sort(),
        fields.toSorted(),
        `${method} ${body.slice(0, 200)}`,
      );
    }
  }

  test('all faults of a body are reported at once', async () => {
    const faults = Object.entries(CASES).map(
      ([name, { refused }]) => [name, Object.values(refused).flat()] as const,
    );
    const depth = Math.max(...faults.map(([, values]) => values.length));
    for (let index = 0; index < depth; index += 1) {
      const fields = faults.map(([name, values]) => `"${name}":${values[index % values.length]}`);
      const body = `{${[...fields, '"nope":1', '"":null', '"__proto__":{}', '"id":0'].join()}}`;
      await assertNamed(body, [...Object.keys(CASES), 'nope', '', '__proto__', 'id']);
    }
  });

  test('all foreign keys to missing records are reported, together with other faults', async () => {
    const nothing = `"near_id":77,"far":"78","wide_id":"00000000-0000-4000-8000-00000000000c"`;
    const named = ['near_id', 'far', 'wide_id'];
    await assertNamed(`{"s":"x",${nothing}}`, named);
    await assertNamed(`{"s":"x",${nothing},"it":"x"}`, [...named, 'it']);
    await assertNamed(`{${nothing},"nope":1}`, [...named, 's', 'nope'], ['POST']);
  });

  test('missing required fields are reported on POST only, and fields that a PUT leaves out keep their values', async () => {
    await assertNamed('{}', ['s'], ['POST']);
    await assertNamed('{"it":"x","tx":null}', ['s', 'it'], ['POST']);
    await assertNamed('{"it":"x","tx":null}', ['it'], ['PUT']);
    const sent = { s: 'keep', it: 5, near: 1, js: [1], dt: '2024-01-01' };
    const { json } = await service.send('POST', '/api/thing/', sent);
    assert.equal(json.nn, 'n', 'the default');
    const put = await service.send('PUT', `/api/thing/${json.id}/`, { tx: 'new' });
    assert.deepEqual(put.json, { ...json, tx: 'new' });
  });

  test('field names must match exactly, and of a duplicate key only the last value counts', async () => {
    const names = [
      'S',
      's ',
      'near__id',
      'nearid',
      'thing',
      's\\u0000',
      '\\ud800',
      'constructor',
      'hasOwnProperty',
    ];
    const fields = names.map((name) => JSON.parse(`"${name}"`) as string);
    await assertNamed(`{"s":"x",${names.map((name) => `"${name}":"x"`).join()}}`, fields);
    await assertNamed('{"s":"x","it":1,"it":"1"}', ['it']);
    await assertNamed('{"s":"x","it":1,"i\\u0074":"1"}', ['it']);
    const { status, json } = await service.send('PUT', path, '{"s":5,"s":"last","it":"1","it":7}');
    assert.deepEqual([status, json.s, json.it], [200, 'last', 7]);
  });

  test('a foreign key can be set by either of its names, or by both with one value', async () => {
    for (const body of ['{"s":"x","near":1}', '{"s":"x","near_id":1}', '{"s":"x","near":1,"near_id":1.0}']) {
      const { status, json } = await service.send('POST', '/api/thing/', body);
      assert.deepEqual([status, json.near_id], [201, 1], body);
    }
    const both = await service.send('POST', '/api/thing/', `{"s":"x","far":${FAR},"far_id":"${FAR}"}`);
    assert.equal(both.status, 201, both.text);
    const none = await service.send('POST', '/api/thing/', { s: 'x', wide: null, wide_id: null });
    assert.deepEqual([none.status, none.json.wide_id], [201, null]);
    const [near] = await service.sql`insert into near default values returning id`;
    await assertNamed(`{"s":"x","near":1,"near_id":${near?.['id']}}`, ['near_id']);
    await assertNamed('{"s":"x","near":1,"near_id":null}', ['near_id']);
    await assertNamed(`{"s":"x","far":9007199254740992,"far_id":${FAR}}`, ['far_id']);
  });

  test('a deeply nested value is 400 in every column', async () => {
    for (const name of Object.keys(CASES)) await assertNamed(bodyOf(name, DEEP), [name]);
    await assertNamed(`{"s":"x","near":${DEEP},"near_id":${DEEP}}`, ['near_id']);
    await assertNamed(`{"s":"x","near":${DEEP},"near_id":1}`, ['near_id']);
  });

  test('the id in a PUT must be the id of the record', async () => {
    for (const [target, id, status] of [
      ['near/1', '1', 200],
      ['near/1', '1.0', 200],
      ['near/1', '2', 400],
      ['near/1', '"1"', 400],
      ['near/1', 'null', 400],
      [`far/${FAR}`, FAR, 200],
      [`far/${FAR}`, `"${FAR}"`, 200],
      [`far/${FAR}`, '9007199254740992', 400],
      [`wide/${WIDE}`, `"${WIDE.toUpperCase()}"`, 200],
      [`wide/${WIDE}`, '1', 400],
    ] as const) {
      const put = await service.send('PUT', `/api/${target}/`, `{"id":${id}}`);
      assert.equal(put.status, status, `${target} ${id}: ${put.text}`);
      if (status === 400) assert.deepEqual(Object.keys(put.json.errors), ['id']);
    }
  });

  test('an offset whose + was not encoded in a query is 400, and the message says how to write it', async () => {
    for (const text of ['2024-01-31T10:00+02:00', '2024-01-31 10:00:00+0530', '2024-01-31T10:00:00.123+02'])
      for (const name of ['dt', 'dt__gte', '-dt__in']) {
        const { json } = await service.request(`/api/thing/?${name}=${text.replace(' ', '%20')}`);
        assert.match(json.errors[name][0], /, write the \+ of the offset as %2B$/, text);
        assert.equal((await filter(name, text)).status, 200, text);
      }
    for (const text of ['2024-01-31T10:00+2', '2024-01-31+10:00:00+x', 'rubbish+02:00']) {
      const { json } = await service.request(`/api/thing/?dt=${text}`);
      assert.doesNotMatch(json.errors.dt[0], /%2B/, text);
    }
  });

  test('an index on an array is a GIN index, which contains uses', async () => {
    const [index] = await service.sql`
      select indexdef from pg_indexes where tablename = 'thing' and indexdef like '%(texts)%'`;
    assert.match(String(index?.['indexdef']), /using gin/i);
    const plan = await service.sql.begin(async (sql) => {
      await sql`set local enable_seqscan = off`;
      return sql.unsafe(`explain select id from thing t where (t."texts" @> '{a}'::text::text[])`);
    });
    assert.match(JSON.stringify(plan), /Bitmap Index Scan/);
  });

  test('an array is JSON in CSV and in newline-delimited JSON', async () => {
    const { json } = await service.send('POST', '/api/thing/', {
      s: 'x',
      texts: ['=1+1', 'a"b', null, 'c\nd'],
    });
    const get = async (accept: string): Promise<string> =>
      (await service.request(`/api/thing/?id=${json.id}`, { headers: { accept } })).text;
    assert.ok((await get('text/csv')).includes('"[""=1+1"",""a\\""b"",null,""c\\nd""]"'));
    assert.ok((await get('application/x-ndjson')).includes('"texts":["=1+1","a\\"b",null,"c\\nd"]'));
  });

  test('the OpenAPI document describes arrays and their filters, and allows NULL elements that are stored', async () => {
    const { json } = await service.request('/api/openapi.json', { user: 'ada' });
    const { properties } = json.components.schemas['thing.New'];
    assert.deepEqual(properties.strings, {
      type: ['array', 'null'],
      items: { type: 'string', maxLength: 255, enum: ['a', 'b'] },
      maxItems: 10_000,
    });
    const parameters = json.paths['/api/thing'].get.parameters as { name: string; schema: unknown }[];
    const schemaOf = (wanted: string): unknown => parameters.find(({ name }) => name === wanted)?.schema;
    assert.deepEqual(schemaOf('texts'), { $ref: '#/components/schemas/Filter.array' });
    assert.deepEqual(schemaOf('texts__contains'), { $ref: '#/components/schemas/Filter.contains' });
    assert.deepEqual(schemaOf('js__contains'), { $ref: '#/components/schemas/Filter.json' });
    await service.sql`insert into thing (s, strings) values ('null', '{a,NULL}')`;
    const page = await service.request('/api/thing/?s=null&limit=1&ordering=-id');
    assert.deepEqual(page.json.objects[0].strings, ['a', null]);
    const faultsOf = schemaFaults(json);
    assert.deepEqual(faultsOf('thing.Page', page.json), []);
    assert.notDeepEqual(faultsOf('thing.New', { s: 'x', strings: ['a', null] }), []);
  });
});

describe('read-only and excluded columns', () => {
  const text = { type: 'text' } as const;
  const column = { type: 'foreignKey', references: 'user' } as const;
  const guarded: Resource = {
    model: 'guarded',
    columns: {
      owner: column,
      fixed: { ...text, default: 'f' },
      since: { type: 'datetime', default: 'now' },
      by: { ...column, null: true },
      hidden: text,
      sealed: { ...text, default: 's' },
      shown: { ...text, null: true },
      kinds: { type: 'array', of: 'string', default: ['a'], unique: true },
    },
    access: 'user',
    owner: 'owner',
    readonly: ['fixed', 'since', 'by', 'sealed'],
    exclude: ['hidden', 'sealed'],
  };
  const garbage = { owner: 'x', owner_id: [99], fixed: 5, since: 'never', by: {}, by_id: 77, sealed: '\0' };
  const service: WritableService = useWritable([guarded]);

  const stored = async (id: number): Promise<Record<string, unknown>> => {
    const [row] =
      await service.sql`select owner_id, fixed, by_id, hidden, sealed, shown from guarded where id = ${id}`;
    return { ...row };
  };

  test('read-only columns and the owner are ignored, even with invalid values', async () => {
    const posted = await service.send('POST', '/api/guarded/', { ...garbage, hidden: 'h', shown: 'a' });
    assert.equal(posted.status, 201, posted.text);
    const row = { owner_id: service.ada, fixed: 'f', by_id: null, hidden: 'h', sealed: 's', shown: 'a' };
    assert.deepEqual(await stored(posted.json.id), row);
    const put = await service.send('PUT', `/api/guarded/${posted.json.id}/`, { ...garbage, shown: 'b' });
    assert.equal(put.status, 200, put.text);
    assert.deepEqual(await stored(posted.json.id), { ...row, shown: 'b' });
    assert.equal(put.json.since, posted.json.since);
    assert.deepEqual(Object.keys(put.json), ['id', 'owner_id', 'fixed', 'since', 'by_id', 'shown', 'kinds']);
  });

  test('an excluded column is required and written like any other, but never shown', async () => {
    const missing = await service.send('POST', '/api/guarded/', {});
    assert.deepEqual([missing.status, missing.json.errors], [400, { hidden: ['is required'] }]);
    const { json } = await service.send('POST', '/api/guarded/', { hidden: 'one', kinds: [] });
    const before = await service.request(`/api/guarded/${json.id}/`);
    const put = await service.send('PUT', `/api/guarded/${json.id}/`, { hidden: 'two' });
    assert.equal(put.text, before.text);
    assert.notEqual(put.headers.get('etag'), before.headers.get('etag'), 'the tag is of the whole row');
    assert.equal((await stored(json.id))['hidden'], 'two');
  });

  test('the default of an array applies, and a unique constraint refuses a duplicate, but no other order', async () => {
    await service.sql`truncate guarded`;
    const create = (kinds?: string[]) => service.send('POST', '/api/guarded/', { hidden: 'h', kinds });
    assert.deepEqual((await create()).json.kinds, ['a']);
    assert.deepEqual((await create(['a'])).json.errors, { kinds: ['another record has this value'] });
    assert.deepEqual((await create(['b', 'a'])).json.kinds, ['b', 'a']);
  });
});

// Random rows of every type of column, and random bodies.

const digits = fc.stringMatching(/^-?(0|[1-9]\d{0,24})(\.\d{1,24})?$/);

/** JSON values that are difficult for some type. */
const DIFFICULT = ['null', 'true', '0', '-0', '1e400', '1e-400', '-1e308', '9223372036854775808', '1e15', '0.1e1', '"\\u0000"', '"\\ud800"', '""', '"NaN"', '"Infinity"', '"-infinity"', '"now"', '"2024-02-30"', '"0044-03-15 BC"', '"4714-01-01 BC"', '"294276-12-31 23:59:59"', '"24:00:00"', '"{}"', '"1e999"', '"a\'b\\"c\\\\d"', '"$1"', '"🦉"', '[]', '{}', '{"__proto__":null}', '[[[[1e-20000]]]]', '{"a":1,"a":1e200000}', '"00000000-0000-4000-8000-00000000000A"', '"$argon2id$v=19$m=8,t=1,p=1$YQ$YQ"']; // prettier-ignore

describe('random bodies', () => {
  let path: string;
  const service: WritableService = useStarted(startCases, async () => {
    path = `/api/thing/${(await service.send('POST', '/api/thing/', { s: 'x' })).json.id}/`;
  });

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

// A PUT accepts what a GET has returned, also a value that no client could set: older rows and views hold such values.

const text = { type: 'text' } as const;
const string = { type: 'string' } as const;
const view = {
  primaryKey: { type: 'integer', column: 'id' },
  methods: ['GET', 'PUT'],
  access: 'user',
} as const;
const maybe = <T extends string>(type: T) => ({ type, null: true }) as const;

/** Of the table, and of a view over it. */
const invoice = {
  columns: {
    customer: { type: 'foreignKey', references: 'customer' },
    country: maybe('string'),
    code: maybe('string'),
    note: string,
  },
  foreignKeys: { region: { columns: ['country', 'code'], references: 'region' } },
} as const;
/** Refers to a record whose key has fractions of a second, which the output does not show. */
const payment = {
  columns: { rental_no: maybe('integer'), rented: maybe('datetime'), amount: maybe('integer') },
  foreignKeys: { rental: { columns: ['rental_no', 'rented'], references: 'rental' } },
} as const;

const OF_ADMINS = { null: true, write: 'admin' } as const;
/** Each column is one that bob may read and not set, with a value, and another value. */
const GUARDED: readonly [name: string, definition: Resource['columns'][string], stored: string | null, other: unknown][] = [
  ['text', { type: 'string', maxLength: 3, ...OF_ADMINS }, 'abc', 'b'],
  ['long', { type: 'string', ...OF_ADMINS, pattern: '^x' }, 'abc', 'xa'],
  ['big', { type: 'bigint', ...OF_ADMINS }, '9007199254740993', '5'],
  ['price', { type: 'decimal', precision: 6, scale: 2, ...OF_ADMINS }, '1.50', '1.51'],
  ['ratio', { type: 'float', ...OF_ADMINS }, '0.1', 0.2],
  ['flag', { type: 'boolean', ...OF_ADMINS }, 'true', false],
  ['at', { type: 'datetime', ...OF_ADMINS }, '2024-05-31 10:00:00', '2024-05-31 10:00:01'],
  ['day', { type: 'date', ...OF_ADMINS }, '2024-05-31', '2024-06-01'],
  ['doc', { type: 'json', ...OF_ADMINS }, '{"a": [1, null]}', { a: [2] }],
  ['tags', { type: 'array', of: 'string', ...OF_ADMINS }, '{a,NULL}', ['a']],
  ['customer', { type: 'foreignKey', references: 'customer', ...OF_ADMINS }, '1', null],
  ['hash', { type: 'password', ...OF_ADMINS }, '$argon2id$v=19$m=8,t=1,p=1$YWFhYWFhYWE$YWFhYWFhYWE', 'a'],
  ['empty', { type: 'string', ...OF_ADMINS }, null, 'a'],
  ['none', { type: 'integer', ...OF_ADMINS }, null, 0],
]; // prettier-ignore

const RESOURCES: Resource[] = [
  { model: 'customer', columns: { name: string }, access: 'user' },
  {
    model: 'region',
    primaryKey: { columns: ['country', 'code'] },
    columns: { country: string, code: string },
  },
  { model: 'invoice', ...invoice, access: 'user' },
  { model: 'open_invoice', ...invoice, ...view },
  { model: 'supplier', columns: { name: string }, read: 'admin', access: 'admin' },
  {
    model: 'supplied',
    columns: { supplier: { type: 'foreignKey', references: 'supplier' }, note: string },
    ...view,
  },
  {
    model: 'remark',
    columns: { a: text, b: text, data: { type: 'json' }, secret: text },
    exclude: ['secret'],
    ...view,
  },
  {
    model: 'rental',
    primaryKey: { columns: ['rental_no', 'rented'] },
    columns: { rental_no: { type: 'integer' }, rented: { type: 'datetime' } },
  },
  {
    model: 'payment',
    ...payment,
    columns: { ...payment.columns, secret: maybe('text') },
    exclude: ['secret'],
    access: 'user',
  },
  { model: 'payment_view', ...payment, ...view },
  {
    model: 'guarded',
    columns: {
      ...Object.fromEntries(GUARDED.map(([name, definition]) => [name, definition])),
      secret: { type: 'string', default: 'hidden', read: 'admin', write: 'admin' },
      note: maybe('text'),
    },
    access: 'user',
  },
  {
    model: 'doc',
    columns: { data: maybe('json'), must: { type: 'json' }, parsed: maybe('json'), note: maybe('text') },
    access: 'user',
  },
];

/** The invoice is older than its foreign keys, and refers to nothing. */
const SCHEMA = `
  create table customer (id integer primary key generated by default as identity, name varchar(255) not null);
  create table region (
    country varchar(255) not null, code varchar(255) not null, primary key (country, code));
  create table invoice (
    id integer primary key generated by default as identity, customer_id integer not null,
    country varchar(255), code varchar(255), note varchar(255) not null);
  create index on invoice (customer_id);
  insert into customer (name) values ('Ada');
  insert into region values ('fr', 'b');
  insert into invoice (customer_id, country, code, note) values (99, 'xx', 'y', 'old');
  alter table invoice add foreign key (customer_id) references customer not valid;
  alter table invoice add foreign key (country, code) references region not valid;
  create view open_invoice as select * from invoice;
  create table supplier (id integer primary key generated by default as identity, name varchar(255) not null);
  create view supplied as select id, customer_id as supplier_id, note from invoice;
  create table base (id integer primary key, a text, b text, data jsonb, secret text);
  insert into base values (1, null, 'x', null, null), (2, 'set', 'x', 'null', null);
  create view remark as select * from base;
  create table rental (rental_no integer, rented timestamp, primary key (rental_no, rented));
  create table payment (
    id integer primary key generated by default as identity, rental_no integer, rented timestamp, amount integer,
    secret text, foreign key (rental_no, rented) references rental);
  insert into rental values (1, '2005-05-24 22:53:30.25'), (2, '2005-05-24 22:53:30.5');
  insert into payment (rental_no, rented, amount) values (1, '2005-05-24 22:53:30.25', 5);
  create view payment_view as select id, rental_no, rented, amount from payment;
  create table doc (id integer primary key generated by default as identity, data json, must json not null, parsed jsonb, note text);`;

/** JSON that is deeper than a new value may be. */
const deepJson = (inside: string, depth = 600): string => `${'['.repeat(depth)}${inside}${']'.repeat(depth)}`;

/** Pairs of texts that PostgreSQL takes as `json` but not as `jsonb`, and their fault as new values. */
const REFUSED = [
  [String.raw`{"a": "\u0000"}`, String.raw`{"b": "\u0000"}`, /NUL/],
  [String.raw`"x\u0000"`, String.raw`"y\u0000"`, /NUL/],
  [String.raw`["\ud800"]`, String.raw`["\ud801"]`, /lone surrogate/],
  ['{"a": [1e5000]}', '{"a": [2e5000]}', /too large or too small/],
  [deepJson('1e200000'), deepJson('2e200000'), /too large or too small/],
] as const;

describe('a PUT of what a GET has returned', () => {
  const service: WritableService = useWritable(RESOURCES, SCHEMA, () => service.addUser('bob'));

  /** As `bob`, who is no admin. */
  const write = (method: string, path: string, body: unknown): Promise<Answer> =>
    service.request(`/api/${path}`, {
      method,
      user: 'bob',
      body: typeof body === 'string' ? body : JSON.stringify(body),
      headers: { 'content-type': 'application/json' },
    });
  const putBack = async (path: string, changes: Record<string, unknown>): Promise<Answer> =>
    write('PUT', path, { ...(await service.request(`/api/${path}`)).json, ...changes });

  for (const path of ['invoice/1/', 'open_invoice/1/'])
    test(`keeps a reference to nothing, and takes no other one: ${path}`, async () => {
      const changed = await putBack(path, { note: path });
      const { customer_id, country, code, note } = changed.json;
      assert.deepEqual([changed.status, customer_id, country, code, note], [200, 99, 'xx', 'y', path]);
      for (const [changes, faulty] of [
        [{ customer_id: 98 }, ['customer_id']],
        [{ country: 'fr' }, ['code', 'country']],
        [{ code: 'z' }, ['code', 'country']],
        [{ note: null }, ['note']],
        [{ note: null, customer_id: 98, code: 'z' }, ['code', 'country', 'customer_id', 'note']],
      ] as const) {
        const refused = await putBack(path, changes);
        assert.deepEqual([refused.status, Object.keys(refused.json.errors).toSorted()], [400, faulty]);
      }
    });

  test('keeps a reference to nothing of a view also if the caller may not read where it leads', async () => {
    const { status, text: answer, json } = await putBack('supplied/1/', { note: 'of a view' });
    assert.deepEqual([status, json.supplier_id, json.note], [200, 99, 'of a view'], answer);
    assert.equal((await putBack('supplied/1/', { supplier_id: 98 })).status, 400);
  });

  test('keeps values that the caller may read and not set, and takes no others', async () => {
    const fieldOf = (name: string): string => (name === 'customer' ? 'customer_id' : name);
    await service.sql.unsafe(
      `insert into guarded (${GUARDED.map(([name]) => fieldOf(name)).join()})
       values (${GUARDED.map(([, , stored]) => (stored === null ? 'null' : `'${stored}'`)).join()})`,
    );
    const { status, text: answer, json } = await putBack('guarded/1/', { note: 'mine' });
    assert.deepEqual([status, json.note, json.big], [200, 'mine', '9007199254740993'], answer);
    for (const [name, , , other] of GUARDED) {
      const key = fieldOf(name);
      const refused = await putBack('guarded/1/', { note: 'no', [key]: other });
      assert.deepEqual([refused.status, refused.json.errors], [400, { [key]: ['may not be set'] }]);
      const both = await putBack('guarded/1/', { note: 5, [key]: other });
      assert.deepEqual(Object.keys(both.json.errors).toSorted(), ['note', key].toSorted());
    }
    // Whether a hidden value is equal, no one may ask.
    for (const secret of ['hidden', 'other', null])
      assert.equal((await putBack('guarded/1/', { secret })).status, 400);
    assert.equal((await write('POST', 'guarded/', { text: 'abc' })).status, 400);
    const [row] = await service.sql`select note from guarded`;
    assert.deepEqual({ ...row }, { note: 'mine' });
  });

  test('takes a reference to a record in place of one to nothing', async () => {
    const { status, json } = await putBack('invoice/1/', { customer_id: 1, country: 'fr', code: 'b' });
    assert.deepEqual([status, json.customer_id, json.country, json.code], [200, 1, 'fr', 'b']);
  });

  test('keeps a NULL in a view where clients must send a value, and takes no new one', async () => {
    for (const [path, record] of [
      ['remark/1/', { id: 1, a: null, b: 'y', data: null }],
      ['remark/2/', { id: 2, a: 'set', b: 'y', data: null }],
    ] as const) {
      const { status, json } = await putBack(path, { b: 'y' });
      assert.deepEqual([status, json], [200, record]);
    }
    const rows = await service.sql`select data is null as missing from base order by id`;
    assert.deepEqual(pluck(rows, 'missing'), [true, false]); // prettier-ignore
    const refused = await putBack('remark/2/', { a: null });
    assert.deepEqual([refused.status, refused.json.errors], [400, { a: ['must not be null'] }]);
    assert.equal((await putBack('remark/1/', { a: 'set' })).status, 200);
    assert.equal((await putBack('remark/1/', { a: null })).status, 400);
  });

  const shown = { rental_no: 1, rented: '2005-05-24 22:53:30' };
  for (const model of ['payment', 'payment_view'])
    test(`keeps the fractions of a second of a foreign key, and takes no other one: ${model}`, async () => {
      const path = `${model}/1/`;
      const { json } = await service.request(`/api/${path}`);
      assert.deepEqual(json, { id: 1, ...shown, amount: 5 });
      const hidden = model === 'payment' ? [{ ...shown, secret: 'y' }] : [];
      for (const body of [json, shown, { rented: shown.rented }, ...hidden])
        assert.equal((await write('PUT', path, body)).status, 200, JSON.stringify(body));
      const [row] = await service.sql`select rented::text, secret from payment`;
      assert.deepEqual({ ...row }, { rented: '2005-05-24 22:53:30.25', secret: 'y' });
      const faulty = await write('PUT', path, { ...shown, amount: 'x' });
      assert.deepEqual([faulty.status, Object.keys(faulty.json.errors)], [400, ['amount']]);
      for (const body of [
        { ...shown, rental_no: 2 },
        { ...shown, rented: '2005-05-24 22:53:31' },
        { ...shown, rental_no: 2, amount: 'x' },
      ]) {
        const other = await write('PUT', path, body);
        assert.deepEqual([other.status, 'rented' in other.json.errors], [400, true], other.text);
      }
    });

  for (const [stored, other, fault] of REFUSED)
    test(`keeps ${stored.slice(0, 20)} in a column of the type json, and takes no new one`, async () => {
      const [row] = await service.sql<{ id: number }[]>`
        insert into doc (data, must) values (${` ${stored}\n`}::text::json, ${stored}::text::json) returning id`;
      const path = `doc/${row?.id}/`;
      const read = await service.request(`/api/${path}`);
      const same = await write('PUT', path, read.text.replace(/"note":\s*null/, '"note":"new"'));
      assert.equal(same.status, 200, same.text);
      const [kept] =
        await service.sql`select data::text, must::text, note from doc where id = ${row?.id ?? 0}`;
      assert.deepEqual({ ...kept }, { data: ` ${stored}\n`, must: stored, note: 'new' });
      for (const [method, to, body, key] of [
        ['PUT', path, `{"data": ${other}}`, 'data'],
        ['PUT', path, `{"must": ${other}, "note": "other"}`, 'must'],
        ['POST', 'doc/', `{"must": ${stored}}`, 'must'],
      ] as const) {
        const { status, json, text: answer } = await write(method, to, body);
        assert.deepEqual([status, Object.keys(json.errors)], [400, [key]], answer);
        assert.match(json.errors[key][0], fault);
      }
      const replaced = await write('PUT', path, '{"data": {"a": 1}, "must": []}');
      assert.deepEqual([replaced.status, replaced.json.data], [200, { a: 1 }], replaced.text);
    });

  test('keeps JSON that is nested too deeply, however it is written, and takes no other one so deep', async () => {
    const deep = deepJson('1,  2');
    const [row] = await service.sql<{ id: number }[]>`
      insert into doc (data, must, parsed) values (${deep}::text::json, '1', ${deep}::text::jsonb) returning id`;
    const path = `doc/${row?.id}/`;
    const stored = () => service.sql`select d::text, xmin::text from doc d where id = ${row?.id ?? 0}`;
    const before = await stored();
    const { text: read, json } = await service.request(`/api/${path}`);
    for (const body of [read, JSON.stringify(json), `{"parsed": ${deep.replace(/, +/, ',')}}`]) {
      const put = await write('PUT', path, body);
      assert.deepEqual([put.status, put.text], [200, read]);
    }
    assert.deepEqual(await stored(), before);
    const noted = await write('PUT', path, read.replace('"note":null', '"note":"y"'));
    assert.deepEqual([noted.status, noted.text], [200, read.replace('"note":null', '"note":"y"')]);
    assert.equal((await service.request(`/api/doc/?parsed=${deep}`)).json.objects.length, 1);
    for (const key of ['data', 'parsed']) {
      const answer = await write('PUT', path, `{"${key}":${deepJson('1', 601)}}`);
      const fault = 'must not nest deeper than 512 levels';
      assert.deepEqual([answer.status, answer.json.errors], [400, { [key]: [fault] }]);
    }
    assert.equal((await write('POST', 'doc/', `{"must": ${deep}}`)).status, 400);
  });
});

// Dates with a time as ISO 8601 (`DATETIME_FORMAT=iso`).

const event: Resource = {
  model: 'event',
  columns: {
    title: { type: 'string' },
    at: { type: 'datetime', null: true },
    day: { type: 'date', null: true },
  },
  access: 'user',
};

const visit: Resource = {
  model: 'visit',
  primaryKey: { columns: ['room', 'at'] },
  columns: { room: { type: 'integer' }, at: { type: 'datetime' } },
  access: 'user',
};

const several: Resource = {
  model: 'several',
  columns: { at: { type: 'array', of: 'datetime' } },
  access: 'user',
};

describe('dates with a time in ISO 8601', () => {
  const service: TestService = useService(
    [user, event, visit, several],
    {
      datetimeFormat: 'iso',
      prepare: (sql) =>
        sql.unsafe(`create table event (id integer generated always as identity primary key,
            title varchar(255) not null, at timestamptz, day date);
          create table several (id integer generated by default as identity primary key, at timestamptz[] not null);
          insert into several (at) values ('{2024-05-31 18:30:00.25+02,NULL,infinity,"0044-03-15 12:00:00 BC"}')`),
    },
    async () => {
      await service.addUser('ada', { admin: true });
      for (const at of [
        '2026-01-15 09:30:00.75+00',
        '2026-01-15 12:00:00+02',
        'infinity',
        '0044-03-15 12:00:00+00 BC',
        null,
      ])
        await service.sql`insert into event (title, at, day) values ('x', ${at}::text::timestamptz, '2026-01-15')`;
    },
  );

  const EXPECTED = [
    '2026-01-15T09:30:00Z',
    '2026-01-15T10:00:00Z',
    'infinity',
    '0044-03-15 12:00:00 BC',
    null,
  ];

  test('are output by pages, records, CSV and streams', async () => {
    const { json } = await service.request('/api/event/');
    assert.deepEqual(pluck(json.objects, 'at'), EXPECTED);
    assert.equal(json.objects[0].day, '2026-01-15');
    assert.equal((await service.request('/api/event/1/')).json.at, EXPECTED[0]);
    const csv = await service.request('/api/event/', { headers: { accept: 'text/csv' } });
    assert.equal(csv.text.split('\r\n')[1], '1,"x",2026-01-15T09:30:00Z,2026-01-15');
    const stream = await service.request('/api/event/', { headers: { accept: 'application/x-ndjson' } });
    assert.deepEqual(
      jsonLinesOf(stream.text).map((line) => (line as { at: string }).at),
      EXPECTED,
    );
    const page = await service.request('/api/event/1/', { headers: { accept: 'text/html' } });
    assert.match(page.text, /2026-01-15T09:30:00Z/);
  });

  test('can be sent back unchanged, keep their fractions, and find their record', async () => {
    for (const [index, at] of EXPECTED.entries()) {
      const path = `/api/event/${index + 1}/`;
      const before = await service.request(path);
      const same = await service.request(path, { method: 'PUT', user: 'ada', body: before.json });
      assert.deepEqual([same.status, same.json], [200, before.json], same.text);
      assert.equal(same.headers.get('etag'), before.headers.get('etag'));
      const filter = at === null ? 'at__is=null' : `at=${encodeURIComponent(at)}`;
      const { json } = await service.request(`/api/event/?${filter}`);
      assert.deepEqual(pluck(json.objects, 'id'), [index + 1]);
    }
    const [row] = await service.sql`select at::text like '%09:30:00.75%' as kept from event where id = 1`;
    assert.equal(row?.['kept'], true);
  });

  test('are output by writes, and the history and the admin area keep the other form', async () => {
    const body = { title: 'new', at: '2026-02-01T08:00:00+02:00' };
    const { json } = await service.request('/api/event/', { method: 'POST', user: 'ada', body });
    assert.equal(json.at, '2026-02-01T06:00:00Z');
    const changed = await service.request(`/api/event/${json.id}/`, {
      method: 'PUT',
      user: 'ada',
      body: { at: '2026-02-02 06:00:00' },
    });
    assert.equal(changed.json.at, '2026-02-02T06:00:00Z');
    const [entry] =
      await service.sql`select after from vitrine_history where action = 'create' and record = ${String(json.id)}`;
    assert.match(String(entry?.['after']), /"at":"2026-02-01 06:00:00"/);
    const browser = await logIn(service, 'ada');
    assert.match((await browser.get(`/admin/event/${json.id}/`)).text, /value="2026-02-02T06:00:00"/);
  });

  test('do not change a key, which is found in both forms', async () => {
    const body = { room: 3, at: '2026-01-15T09:30:00Z' };
    const made = await service.request('/api/visit/', { method: 'POST', user: 'ada', body });
    assert.deepEqual(made.json, { id: '3,2026-01-15%2009%3A30%3A00', ...body });
    for (const at of ['2026-01-15T09:30:00Z', '2026-01-15 09:30:00', '2026-01-15T11:30:00+02:00']) {
      const id = `3,${encodeURIComponent(at)}`;
      assert.deepEqual((await service.request(`/api/visit/${id}/`)).json, made.json, at);
      const { json } = await service.request(`/api/visit/?id=${encodeURIComponent(id)}`);
      assert.deepEqual(json.objects, [made.json], at);
    }
    const same = await service.request(made.headers.get('location') ?? '', {
      method: 'PUT',
      user: 'ada',
      body: made.json,
    });
    assert.deepEqual([same.status, same.json], [200, made.json]);
  });

  test('are output in arrays, which can be sent back unchanged, and are found', async () => {
    const { text, json } = await service.request('/api/several/1/');
    assert.equal(text, '{"id":1,"at":["2024-05-31T16:30:00Z",null,"infinity","0044-03-15 12:00:00 BC"]}');
    const put = await service.request('/api/several/1/', { method: 'PUT', user: 'ada', body: json });
    assert.deepEqual([put.status, put.text], [200, text]);
    const [row] =
      await service.sql`select at::text like '%18:30:00.25%' or at::text like '%16:30:00.25%' as kept from several`;
    assert.equal(row?.['kept'], true);
    const found = await service.request('/api/several/?at__contains=2024-05-31T16:30:00Z');
    assert.equal(found.json.objects.length, 1);
  });

  test('have another ETag than in the other form', async () => {
    const plain = await startService([user, event], { databaseUrl: service.url });
    const [one, other] = [await service.request('/api/event/1/'), await request(plain.base, '/api/event/1/')];
    assert.notEqual(one.headers.get('etag'), other.headers.get('etag'));
    await plain.close();
  });

  test('are described in the OpenAPI document', async () => {
    const { json } = await service.request('/api/openapi.json', { user: 'ada' });
    assert.equal(json.components.schemas.event.properties.at.format, 'date-time');
  });
});
