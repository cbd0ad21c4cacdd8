import assert from 'node:assert/strict';
import { rowsOf, startWith, type WritableService } from '../db/helpers.ts';
import { startAllTypes, WIDE } from './all-types.ts';
import { assertFaults } from './registry-faults.ts';
import type { Resource } from '../../src/index.ts';
import { user } from '../../src/resources/registry.ts';
import { startService, type TestService } from '../support.ts';
import { assertProblem } from '../http/expect.ts';
import { after, before, describe, test } from 'node:test';

const TEXT_FAULTS = ['"a\\u0000b"', '"\\ud800"', '"\\udc00x"', '"\\ud800\\ud800\\udc00"'];
const NOT_STRINGS = ['5', 'true', '[]', '{}', '["x"]'];
const DATE_FAULTS = ['"now"', '"today"', '"infinity"', '"-infinity"', '""', '"2023-02-29"', '"1900-02-29"', '"2024-13-01"', '"2024-00-10"', '"2024-01-32"', '"2024-04-31"', '"0000-01-01"', '"2024-1-1"', '"20240101"', '"01.01.2024"', '"2024-05"', '"4715-01-01 BC"', '"4714-01-01 BC"', '" 2024-01-01"', '1704067200', 'true']; // prettier-ignore

/** Invalid JSON values for each column. */
const INVALID: Record<string, string[]> = {
  s: [...NOT_STRINGS, ...TEXT_FAULTS, 'null', '"sixsix"', '"🦉🦉🦉🦉🦉🦉"', '"e\\u0301e\\u0301e\\u0301"'],
  tx: [...NOT_STRINGS, ...TEXT_FAULTS],
  ch: [...NOT_STRINGS, ...TEXT_FAULTS, '"c"', '""', '"A"', '"a "'],
  cn: ['2', '"1"', '1.5', 'true'],
  nn: ['null', '5'],
  sm: ['32768', '-32769', '1.5'],
  it: ['"5"', '""', '1.5', 'true', '[]', '2147483648', '-2147483649', '1e300', '9007199254740993', '"NaN"'],
  ib: ['6', '-6', '2147483648'],
  bg: ['9223372036854775808', '"9223372036854775808"', '-9223372036854775809', '1.5', '"1.5"', '"x"', '""', '" 5"', '"0x10"', '"NaN"', '"Infinity"', 'true', '[]', '"١"'],
  bb: ['9007199254740993', '"9007199254740994"'],
  re: ['1e39', '-3.5e38', '1e309'],
  fl: ['1e309', '-1e309', '"1.5"', '"NaN"', '"Infinity"', '"-Infinity"', '"x"', 'true', '[]'],
  fb: ['0.4999999999999999', '1.5000000000000002'],
  de: ['"12345.1"', '12345', '0.001', '"1.005"', '9999.995', '"x"', '""', '"1e5"', '"NaN"', '"Infinity"', '"0x1"', '"1_000"', '" 1"', '"1,5"', 'true', '{}', '100000000000000000000'],
  dw: ['1000', '0.1', '"-1000"', '1e3', '1e-1'],
  df: ['"1e999999999"', '1e999999999', '"--1"', '"NaN"', '"-Infinity"', '"."', '"e5"', '"1e"', '[]'],
  db: ['100.00000000000000000001', '"0.09999999999999999999"', '1e3'],
  bo: ['1', '0', '"true"', '"t"', '[]', '""'],
  dt: [...DATE_FAULTS, '"2024-01-01 24:00:00"', '"2024-01-01 00:60"', '"2024-01-01 00:00:60"', '"2024-01-01T"', '"2024-01-01 00:00:00+16:00"', '"2024-01-01 00:00:00 Europe/Berlin"', '"2024-01-01  00:00"', '"2023-02-29T12:00:00Z"', '"294277-01-01 00:00:00"'],
  da: [...DATE_FAULTS, '"2024-05-31 00:00:00"', '"2024-05-31T00:00"', '"5874898-01-01"'],
  ti: ['"25:00"', '"24:00:01"', '"now"', '"allballs"', '"12"', '"12:60"', '"12:00:60"', '"12:00:00Z"', '"12:00 PM"', '"1:00"', '""', '720', 'true'],
  uu: ['"x"', '5', '""', '"{00000000-0000-0000-0000-000000000000}"', '"00000000000000000000000000000000"', '"00000000-0000-0000-0000-00000000000g"'],
  js: ['"\\u0000"', '{"a\\u0000":1}', '["\\ud800"]', '{"\\udfff":1}', '[[{"a":["x\\u0000"]}]]', '1e200000', '[1e-200000]', '{"n":1e1000000000000}'],
  near_id: ['999', '-1', '"1"', '1.5', 'true', '"x"', '2147483648', '[1]', '{"id":1}'],
  far_id: ['1', '"999"', '9007199254740992', '9223372036854775808', '"x"', '1.5', 'false'],
  wide_id: ['"00000000-0000-4000-8000-00000000000b"', '"x"', '1', '[]'],
}; // prettier-ignore

describe('an invalid body', () => {
  let service: WritableService;
  let path: string;
  before(async () => {
    service = await startAllTypes();
    const { json } = await service.send('POST', '/api/thing/', `{"s":"old","wide_id":"${WIDE}"}`);
    path = `/api/thing/${json.id}/`;
  });
  after(() => service.close());

  /** Sends a body by POST and by PUT. Gives the answers that are not a 400 with exactly these fields. */
  async function wrongAnswers(
    body: string,
    fields: readonly string[],
    methods = ['POST', 'PUT'],
  ): Promise<string[]> {
    const wrong: string[] = [];
    for (const method of methods) {
      const { status, json, text } = await service.send(
        method,
        method === 'POST' ? '/api/thing/' : path,
        body,
      );
      const named = Object.keys(json?.errors ?? {}).sort();
      const explained = Object.values<string[]>(json?.errors ?? {}).every((texts) => texts.length > 0);
      if (status !== 400 || named.join() !== fields.toSorted().join() || !explained)
        wrong.push(`${method} ${body.slice(0, 200)}: ${status} ${text.slice(0, 300)}`);
    }
    return wrong;
  }

  for (const [column, values] of Object.entries(INVALID)) {
    test(`each invalid value of ${column} is 400 with the name of the field, and changes nothing`, async () => {
      const before = await rowsOf(service.sql, 'thing');
      const wrong: string[] = [];
      for (const value of values) {
        const fields = column === 's' ? `"s":${value}` : `"s":"new","${column}":${value}`;
        wrong.push(...(await wrongAnswers(`{${fields}}`, [column])));
      }
      assert.deepEqual(wrong, []);
      assert.deepEqual(await rowsOf(service.sql, 'thing'), before);
    });
  }

  test('all faults of a body are reported at once', async () => {
    const depth = Math.max(...Object.values(INVALID).map((values) => values.length));
    const wrong: string[] = [];
    for (let index = 0; index < depth; index += 1) {
      const fields = Object.entries(INVALID).map(
        ([column, values]) => `"${column}":${values[index % values.length]}`,
      );
      const body = `{${[...fields, '"nope":1', '"":null', '"__proto__":{}', '"id":0'].join()}}`;
      wrong.push(...(await wrongAnswers(body, [...Object.keys(INVALID), 'nope', '', '__proto__', 'id'])));
    }
    assert.deepEqual(wrong, []);
  });

  test('all foreign keys to missing records are reported, together with other faults', async () => {
    const nothing = `"near_id":77,"far":"78","wide_id":"00000000-0000-4000-8000-00000000000c"`;
    const named = ['near_id', 'far', 'wide_id'];
    const wrong = [
      await wrongAnswers(`{"s":"x",${nothing}}`, named),
      await wrongAnswers(`{"s":"x",${nothing},"it":"x"}`, [...named, 'it']),
      await wrongAnswers(`{${nothing},"nope":1}`, [...named, 's', 'nope'], ['POST']),
    ];
    assert.deepEqual(wrong.flat(), []);
  });

  test('missing required fields are reported on POST only', async () => {
    assert.deepEqual(await wrongAnswers('{}', ['s'], ['POST']), []);
    assert.deepEqual(await wrongAnswers('{"it":"x","tx":null}', ['s', 'it'], ['POST']), []);
    assert.deepEqual(await wrongAnswers('{"it":"x","tx":null}', ['it'], ['PUT']), []);
  });

  test('field names must match exactly', async () => {
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
    const body = names.map((name) => `"${name}":"x"`).join();
    const fields = names.map((name) => JSON.parse(`"${name}"`) as string);
    assert.deepEqual(await wrongAnswers(`{"s":"x",${body}}`, fields), []);
  });

  test('only the last value of a duplicate key counts', async () => {
    assert.deepEqual(await wrongAnswers('{"s":"x","it":1,"it":"1"}', ['it']), []);
    assert.deepEqual(await wrongAnswers('{"s":"x","it":1,"i\\u0074":"1"}', ['it']), []);
    const { status, json } = await service.send('PUT', path, '{"s":5,"s":"last","it":"1","it":7}');
    assert.deepEqual([status, json.s, json.it], [200, 'last', 7]);
  });

  test('a foreign key that is given by both of its names must have one value', async () => {
    const [near] = await service.sql`insert into near default values returning id`;
    const wrong = [
      await wrongAnswers(`{"s":"x","near":1,"near_id":${near?.['id']}}`, ['near_id']),
      await wrongAnswers('{"s":"x","near":1,"near_id":null}', ['near_id']),
      await wrongAnswers('{"s":"x","far":9007199254740992,"far_id":9007199254740993}', ['far_id']),
    ];
    assert.deepEqual(wrong.flat(), []);
  });

  test('a body that is not a JSON object is 400', async () => {
    const deep = '['.repeat(20_000) + ']'.repeat(20_000);
    for (const body of [
      '',
      ' ',
      '[]',
      '"x"',
      'null',
      '5',
      '{',
      '{"s":"x"}}',
      "{'s':'x'}",
      '{"s":"x",}',
      '\ufeff{"s":"x"}',
      '{"s":NaN}',
      '{"s":"\n"}',
      deep,
    ]) {
      // prettier-ignore
      for (const [method, target] of [['POST', '/api/thing/'], ['PUT', path]] as const) // prettier-ignore
        assert.equal((await service.send(method, target, body)).status, 400, `${method} ${body.slice(0, 20)}`);
    }
  });

  test('a deeply nested value is 400 in every column', async () => {
    const deep = '['.repeat(20_000) + ']'.repeat(20_000);
    const wrong: string[] = [];
    for (const column of Object.keys(INVALID)) {
      const fields = column === 's' ? `"s":${deep}` : `"s":"x","${column}":${deep}`;
      wrong.push(...(await wrongAnswers(`{${fields}}`, [column])));
    }
    wrong.push(...(await wrongAnswers(`{"s":"x","near":${deep},"near_id":${deep}}`, ['near_id'])));
    wrong.push(...(await wrongAnswers(`{"s":"x","near":${deep},"near_id":1}`, ['near_id'])));
    assert.deepEqual(wrong, []);
  });
});

// The faults of array columns in a registry.
const FAULTS: Readonly<Record<string, readonly [column: object, keys: readonly string[]]>> = {
  'a missing type of the elements': [{}, ['of: must be one of string, text,']],
  'an unknown type of the elements': [{ of: 'json', elements: 1 }, ['of: must be one of']],
  'elements that are no object': [{ of: 'text', elements: true }, ['elements: must be an object']],
  'an unknown key of the elements': [
    { of: 'text', elements: { min: 1 } },
    ['elements.min: elements of type text have no such key'],
  ],
  'limits that are no numbers': [
    { of: 'integer', elements: { min: 'a', null: 1 } },
    ['elements.null: must be true or false', 'elements.min: must be a number'],
  ],
  'a limit on the array itself': [{ of: 'text', maxLength: 5 }, ['maxLength: type array has no such key']],
  'a choice of another type': [{ of: 'integer', choices: [1, 'a'] }, ['choices: "a" must be a whole number']],
  'a choice that JSON does not have, and a default': [
    { of: 'bigint', choices: [1n], default: [] },
    ['choices: 1n must be a number or a string of digits'],
  ],
  'a limit of the elements that JSON does not have': [
    { of: 'text', elements: { maxLength: 5n } },
    ['elements.maxLength: must be a'],
  ],
  'a choice beyond the limits': [
    { of: 'string', choices: ['abc'], elements: { maxLength: 2 } },
    ['choices: "abc" must be at most 2 characters'],
  ],
  'a default that is no array': [{ of: 'text', default: 'a' }, ['default: "a" must be an array']],
  'a default with an element that is not a choice': [
    { of: 'text', choices: ['a'], default: ['a', 'b'] },
    ['default: ["a","b"] element 2: must be one of a'],
  ],
  'a NULL element in the default': [
    { of: 'text', elements: { null: false }, default: [null] },
    ['default: [null] element 1: must not be null'],
  ],
};

for (const [name, [column, keys]] of Object.entries(FAULTS))
  test(`${name} is reported`, () =>
    assertFaults(
      [{ model: 'thing', columns: { tags: { type: 'array', ...column } } }],
      keys.map((key) => `thing: columns.tags.${key}`),
    ));

const one: Resource = {
  model: 'one',
  columns: {
    number: { type: 'integer', null: true },
    big: { type: 'bigint', null: true },
    json: { type: 'json', null: true },
    day: { type: 'date', null: true },
    moment: { type: 'datetime', null: true },
  },
  access: 'user',
};

describe('a whole number is checked by its digits, not by its nearest double', () => {
  let service: TestService;
  before(async () => {
    service = await startService([user, one]);
    await service.addUser('ada');
    await service.sql`insert into one default values`;
  });
  after(() => service.close());

  for (const [sent, status, key] of [
    ['{"number":4.9999999999999999999}', 400, 'number'],
    ['{"number":1e-99999999}', 400, 'number'],
    ['{"number":2147483647.00000001}', 400, 'number'],
    ['{"number":1.0}', 200, 1],
    ['{"number":1e2}', 200, 100],
    ['{"number":-0.5e1}', 200, -5],
    [`{"json":${'1'.repeat(140_000)}}`, 400, 'json'],
    ['{"day":"10000-01-01"}', 400, 'day'],
    ['{"moment":"0044-03-15 00:00:00 BC"}', 400, 'moment'],
    ['{"big":1.0}', 200, '1'],
    ['{"big":9.007199254740993e15}', 200, '9007199254740993'],
    ['{"big":1.5}', 400, 'big'],
  ] as const) {
    test(`${sent.slice(0, 60)} is ${status}`, async () => {
      const answer = await service.request('/api/one/1/', {
        method: 'PUT',
        user: 'ada',
        body: sent,
        headers: { 'content-type': 'application/json' },
      });
      assert.equal(answer.status, status, answer.text);
      if (status === 400) assert.deepEqual(Object.keys(answer.json.errors), [key]);
      else assert.equal(sent.includes('big') ? answer.json.big : answer.json.number, key);
    });
  }
});

const jsonColumn = { type: 'json', null: true } as const;
const deepModel: Resource = {
  model: 'deep',
  columns: { b: jsonColumn, j: jsonColumn, x: { type: 'text', null: true } },
  access: 'user',
};
const DDL =
  'create table deep (id integer generated by default as identity primary key, b jsonb, j json, x text)';

test('an existing JSON value that is nested too deeply can be sent back, and no other value so deep', async () => {
  const service = await startWith([deepModel], DDL);
  try {
    const nested = (depth: number): string => `${'['.repeat(depth)}1,  2${']'.repeat(depth)}`;
    const [deep, other] = [nested(600), nested(601)];
    await service.sql`insert into deep (b, j, x) values (${deep}::text::jsonb, ${deep}::text::json, 'x')`;
    const before = await rowsOf(service.sql, 'deep');
    const { text: shown, json } = await service.request('/api/deep/1/');
    for (const body of [shown, JSON.stringify(json)]) {
      const put = await service.send('PUT', '/api/deep/1/', body);
      assert.deepEqual([put.status, put.text], [200, shown]);
    }
    assert.deepEqual(await rowsOf(service.sql, 'deep'), before);
    const put = await service.send('PUT', '/api/deep/1/', shown.replace('"x":"x"', '"x":"y"'));
    assert.deepEqual([put.status, put.text], [200, shown.replace('"x":"x"', '"x":"y"')]);
    assert.equal((await service.request(`/api/deep/?b=${deep}`)).json.objects.length, 1);
    for (const column of ['b', 'j']) {
      const answer = await service.send('PUT', '/api/deep/1/', `{"${column}":${other}}`);
      assertProblem(answer, 400);
      assert.deepEqual(Object.keys(answer.json.errors), [column]);
    }
    assertProblem(await service.send('POST', '/api/deep/', `{"b":${deep}}`), 400);
  } finally {
    await service.close();
  }
});
