// A few characters with an exponent must not become megabytes in PostgreSQL, in answers and in pages.
import assert from 'node:assert/strict';
import type { Resource } from '../../src/index.ts';
import { user } from '../../src/resources/registry.ts';
import { fieldsOf, logIn, readable } from '../admin/support.ts';
import { startService, type Answer, type TestService } from '../support.ts';
import { after, before, describe, test } from 'node:test';

const thing: Resource = {
  model: 'thing',
  columns: {
    any: { type: 'decimal', null: true },
    other: { type: 'decimal', null: true },
    exact: { type: 'decimal', precision: 10, scale: 2, null: true },
    float: { type: 'float', null: true },
    whole: { type: 'integer', null: true },
    big: { type: 'bigint', null: true },
    many: { type: 'array', of: 'decimal', null: true },
    floats: { type: 'array', of: 'float', null: true },
    extra: { type: 'json', null: true },
  },
  access: 'user',
  history: true,
};
/** A decimal in the key. */
const part: Resource = {
  model: 'part',
  primaryKey: { columns: ['size', 'place'] },
  columns: { size: { type: 'decimal' }, place: { type: 'integer' } },
  access: 'user',
};

const WRITTEN = 'must have at most 1000 digits when written without an exponent';
const HUGE = 'has a number that is too large or too small';
const ADDED = /^makes the exponents of the (body|query) add [\d,]+ digits; at most 65,536 are allowed$/;
/** `element` so many times, separated by commas. */
const list = (element: string, count: number): string => Array(count).fill(element).join(',');

describe('a number with an exponent', () => {
  let service: TestService;
  before(async () => {
    service = await startService([user, thing, part]);
    await service.addUser('ada', { admin: true });
  });
  after(() => service.close());

  const post = (body: string, path = '/api/thing/', more = {}): Promise<Answer> => {
    const headers = { 'content-type': 'application/json', ...more };
    return service.request(path, { method: 'POST', user: 'ada', headers, body });
  };

  const hasErrors = ({ status, json, text }: Answer, field: string, message: string | RegExp): void => {
    assert.equal(status, 400, text.slice(0, 200));
    const [first = ''] = (json.errors?.[field] ?? []) as string[];
    const isRight = typeof message === 'string' ? first.includes(message) : message.test(first);
    assert.ok(isRight, `${field}: ${text.slice(0, 300)}`);
  };

  for (const [fields, field, message] of [
    ['"any":1e131071', 'any', `${WRITTEN} (got 131072)`],
    ['"any":"1e1000"', 'any', `${WRITTEN} (got 1001)`],
    ['"any":"-1.5e-999"', 'any', `${WRITTEN} (got 1001)`],
    ['"any":0e-1000', 'any', WRITTEN],
    ['"any":1e131072', 'any', 'digits before the decimal point'],
    ['"exact":1e5000', 'exact', 'must have at most 8 digits before the decimal point'],
    ['"exact":1e-3', 'exact', 'must have at most 2 digits after the decimal point'],
    ['"many":[1,"1e131071"]', 'many', `element 2: ${WRITTEN}`],
    [`"many":[${list('1e999', 4000)}]`, 'many', ADDED],
    [`"many":[${list('"1e-999"', 4000)}]`, 'many', ADDED],
    ['"extra":1e1000', 'extra', HUGE],
    ['"extra":[1.5e-999]', 'extra', HUGE],
    [`"extra":[${list('1e999', 150_000)}]`, 'extra', ADDED],
    [`"extra":{"a":[${list('1e-999', 1000)}]}`, 'extra', ADDED],
    [`"any":1e999,"many":[${list('1e999', 33)}],"extra":[${list('1e999', 33)}]`, 'extra', ADDED],
    ['"float":1e309', 'float', 'is too large'],
    ['"whole":1e10', 'whole', 'must be from'],
    ['"big":1e999', 'big', 'must be from'],
  ] as const)
    test(`in a body is 400: ${fields.slice(0, 30)}`, async () => {
      hasErrors(await post(`{${fields}}`), field, message);
    });

  for (const [fields, field, shown] of [
    ['"any":1e999', 'any', `1${'0'.repeat(999)}`],
    ['"any":"-1e-999"', 'any', `-0.${'0'.repeat(998)}1`],
    [`"any":"${'1'.repeat(130_000)}"`, 'any', '1'.repeat(130_000)],
    ['"exact":1e2', 'exact', '100.00'],
    ['"float":1e308', 'float', 1e308],
    ['"whole":1e3', 'whole', 1000],
    [`"many":[${list('1e999', 60)}]`, 'many', Array(60).fill(`1${'0'.repeat(999)}`)],
    [
      `"floats":[${list('-1.7976931348623157e308', 10_000)}]`,
      'floats',
      Array(10_000).fill(-Number.MAX_VALUE),
    ],
    [`"extra":[${list('6.022e23', 50_000)}]`, 'extra', Array(50_000).fill(6.022e23)],
    [`"extra":[${list('1.25e-7', 50_000)}]`, 'extra', Array(50_000).fill(1.25e-7)],
    [`"extra":[${list('1e308', 200)}]`, 'extra', Array(200).fill(1e308)],
  ] as const)
    test(`in a body is stored: ${fields.slice(0, 30)}`, async () => {
      const { status, json, text } = await post(`{${fields}}`);
      assert.equal(status, 201, text.slice(0, 200));
      assert.deepEqual(json[field], shown);
    });

  test('counts in all records of a body together', async () => {
    const row = '{"any":1e999,"other":"1e-999"}';
    hasErrors(await post(`[${list(row, 1000)}]`), '33.any', ADDED);
    assert.equal((await post(`[${list(row, 30)}]`)).status, 201);
    const json = `{"extra":[${list('1e999', 60)}]}`;
    hasErrors(await post(`[${list(json, 100)}]`), '1.extra', ADDED);
  });

  test('in a key is at most 1,000 digits long', async () => {
    hasErrors(await post('{"size":1e131071,"place":1}', '/api/part/'), 'size', WRITTEN);
    assert.equal((await post('{"size":1e999,"place":1}', '/api/part/')).status, 201);
    assert.equal((await service.request('/api/part/1e999,1/')).status, 200);
    assert.equal((await service.request('/api/part/1e131071,1/')).status, 404);
  });

  test('in the admin area is refused by forms and imports', async () => {
    const browser = await logIn(service, 'ada');
    for (const [field, value, message] of [
      ['any', '1e131071', WRITTEN],
      ['extra', '1e1000', HUGE],
      ['extra', `[${list('1e999', 100)}]`, 'at most 65,536 are allowed'],
    ] as const) {
      const path = '/admin/thing/-/add/';
      const answer = await browser.post(path, { ...fieldsOf(await browser.get(path)), [field]: value });
      assert.equal(answer.status, 400);
      assert.ok(readable(answer).includes(message.slice(1)), field);
      const file = new FormData();
      file.append('_file', new Blob([]), '');
      file.append('_text', `${field}\r\n"${value}"\r\n`);
      const preview = await browser.upload('/admin/thing/-/import/', file);
      assert.ok(readable(preview).includes(message.slice(1)), field);
    }
  });

  const DECIMALS = list('1e131071', 890);
  for (const [query, parameter, message] of [
    [`any__in=${DECIMALS}`, 'any__in', WRITTEN],
    [`exact__in=${DECIMALS}`, 'exact__in', WRITTEN],
    ['any__gt=1e-1000', 'any__gt', WRITTEN],
    [`any__in=${list('1e999', 1000)}`, 'any__in', ADDED],
    [`many__contains=${list('1e131071', 800)}`, 'many__contains', WRITTEN],
    [`many__contains=${list('1e999', 1000)}`, 'many__contains', ADDED],
    [`many=[${list('1e999', 1000)}]`, 'many', ADDED],
    [`many__in=${list('"[1e999]"', 400)}`, 'many__in', ADDED],
    [`extra__contains=[${list('1e999', 1000)}]`, 'extra__contains', ADDED],
    [`extra=[${list('1e-999', 1000)}]`, 'extra', ADDED],
    [`any__in=${list('1e999', 60)}&-other__in=${list('1e999', 60)}`, '-other__in', ADDED],
    ['id__in="1e131071,1"', 'id__in', `size: ${WRITTEN}`],
  ] as const)
    test(`in a filter is 400: ${query.slice(0, 30)}`, async () => {
      const model = parameter === 'id__in' ? 'part' : 'thing';
      hasErrors(await service.request(`/api/${model}/?${query}`), parameter, message);
    });

  for (const query of ['any=1e999', 'any=-1e-999', 'exact=1e2', 'float=1e308', 'extra=[1e308]'])
    test(`in a filter finds records: ${query}`, async () => {
      const value = query.slice(query.indexOf('=') + 1);
      const field = query.slice(0, query.indexOf('='));
      assert.equal((await post(`{"${field}":${value}}`)).status, 201);
      const { status, json } = await service.request(`/api/thing/?${query}`);
      assert.equal(status, 200);
      assert.ok(json.objects.length > 0);
    });
});
