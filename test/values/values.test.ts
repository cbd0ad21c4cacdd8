// Every value that a client can send, through every way in: POST, PUT, PATCH, an array of records, and filters.
import assert from 'node:assert/strict';
import type { Resource } from '../../src/index.ts';
import { assertFindable, assertRoundTrip, rowsOf, useWritable, type WritableService } from '../db/helpers.ts';
import { assertProblem } from '../http/expect.ts';
import { schemaFaults } from '../http/openapi.ts';
import { CASES, FAR, isSupported, OPERATORS, startCases, WIDE, type ColumnCase } from './column-cases.ts';
import { after, before, describe, test } from 'node:test';

const DEEP = '['.repeat(20_000) + ']'.repeat(20_000);

describe('a value', () => {
  let service: WritableService;
  let path: string;
  before(async () => {
    service = await startCases();
    path = `/api/thing/${(await service.send('POST', '/api/thing/', { s: 'put' })).json.id}/`;
  });
  after(() => service.close());

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
        const message = `this column does not support the operator ${operator}`;
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

  test('an empty PUT is 200 and changes nothing', async () => {
    const read = await service.request(path);
    const before = await rowsOf(service.sql, 'thing');
    const put = await service.send('PUT', path, '{}');
    assert.deepEqual([put.status, put.text], [200, read.text]);
    assert.equal(put.headers.get('etag'), read.headers.get('etag'));
    assert.deepEqual(await rowsOf(service.sql, 'thing'), before);
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
