import assert from 'node:assert/strict';
import { Agent } from 'node:http';
import type { TestService } from '../support.ts';
import { encode, idsOf, rawGet, startSamples, TYPES } from './samples.ts';
import { after, before, describe, test } from 'node:test';

const OPERATORS = ['eq', 'ne', 'lt', 'lte', 'gt', 'gte', 'in'];

describe('the grammar of a query string', () => {
  let service: TestService;
  before(async () => {
    service = await startSamples();
  });
  after(() => service.close());

  const get = (query: string) => rawGet(service.base, `/api/thing/?${query}`);

  async function assertNamed(query: string, name: string): Promise<void> {
    const { status, json, headers } = await get(query);
    assert.equal(status, 400, query);
    assert.equal(headers.get('content-type'), 'application/problem+json');
    assert.deepEqual(Object.keys(json.errors ?? {}), [name], query);
  }

  test('an unknown parameter is 400', async () => {
    const names = [
      'nosuch', '', '-', '--string', '-ordering', '-limit', '-page', 'limit__gt', 'page__eq', 'ordering__id', 'Limit',
      'String', 'STRING', 'string[]', 'string[like]', '"string"', "'string'", '(string)', 'string.eq', 'string:eq',
      'string_id', 'id_id', 'box_id_id', ' string', 'string ', 'string__', '__string', 'box__', 'box____name', 'box__name__',
      'box__name__foo', 'box__name__eq__eq', 'box_name', 'box.name', 'box__nosuch', 'string__name', 'string__id',
      '__proto__', 'constructor', 'toString', 'hasOwnProperty', '__proto____eq', 'offset', 'format', 'callback', '_',
      'strin\u0067\u0301', 'string;integer', '*', 'count', 'filter', 'q', '\u{1F600}', '1', 't.string', '1=1--',
    ]; // prettier-ignore
    for (const name of names) {
      if (name.includes('=')) await assertNamed(`${encodeURIComponent(name)}=1`, name);
      else await assertNamed(encode(`${name}=1`), name);
    }
  });

  test('invalid percent-encoding, bytes that are not UTF-8 and NUL are 400 and name the parameter', async () => {
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
  });

  test('bytes without percent-encoding are 400', async () => {
    for (const bytes of ['zo\u00c3\u00a9', '\u00ff', '\u00e9']) {
      const { status, json } = await get(`string=${bytes}`);
      assert.equal(status, 400);
      assert.equal(json.status, 400);
    }
  });

  test('a query is decoded like a form: + is a space, empty parts are ignored, the first = ends the name', async () => {
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

  test('a query has at most 50 filters', async () => {
    const all = TYPES.slice(0, 5).flatMap((name) => [`-${name}__is=null`, ...OPERATORS.map((operator) => `-${name}__${operator}=77`)]); // prettier-ignore
    const more = ['id', 'box', 'spare'].flatMap((name) =>
      OPERATORS.map((operator) => `-${name}__${operator}=77`),
    );
    const fifty = [...all, ...more].slice(0, 50);
    assert.equal(fifty.length, 50);
    const answer = await get([...fifty, 'ordering=-id', 'limit=9', 'page=1'].join('&'));
    assert.equal(answer.status, 200, answer.text);
    const { status, json } = await get([...fifty, 'spare__is=null'].join('&'));
    assert.equal(status, 400);
    assert.match(json.errors.spare__is[0], /50/);
  });

  test('a query has at most 8 orderings', async () => {
    const nine = TYPES.filter((type) => type !== 'json').slice(0, 9);
    assert.equal((await get(`ordering=${nine.slice(0, 8).join(',')}`)).status, 200);
    await assertNamed(`ordering=${nine.join(',')}`, 'ordering');
    await assertNamed(`ordering=${'id,'.repeat(8)}id`, 'ordering');
  });

  test('duplicate messages are removed', async () => {
    for (const [query, name] of [
      ['ordering=,,', 'ordering'],
      ['ordering=nosuch,id,-nosuch', 'ordering'],
      ['limit=1&limit=2&limit=3', 'limit'],
    ] as const) {
      const { json } = await get(query);
      assert.equal(json.errors[name].length, 1, JSON.stringify(json.errors));
    }
  });

  test('an in has at most 1,000 values', async () => {
    const answer = await get(`id__in=${'9,'.repeat(998)}1,2`);
    assert.deepEqual(idsOf(answer), [1, 2]);
    await assertNamed(`id__in=${'9,'.repeat(999)}1,2`, 'id__in');
    await assertNamed(`-string__in=${','.repeat(1000)}`, '-string__in');
    assert.deepEqual(idsOf(await get(`string__in=apple${','.repeat(999)}`)), [1]);
  });

  test('a query string has at most 8 KiB, and a longer one is 414', async () => {
    const most = `string=${'a'.repeat(8192 - 'string='.length)}`;
    assert.deepEqual(idsOf(await get(most)), []);
    for (const query of [
      `${most}a`,
      `${most}%`,
      `x=${'%'.repeat(10_000)}`,
      `${'&'.repeat(8193)}`,
      `a=${'b'.repeat(200_000)}`,
    ]) {
      const { status, json, headers } = await get(query);
      assert.equal(status, 414);
      assert.equal(headers.get('content-type'), 'application/problem+json');
      assert.equal(json.status, 414);
    }
  });

  test('a request that is too long or not HTTP gets its answer on a connection in use, too', async () => {
    const agent = new Agent({ keepAlive: true, maxSockets: 1 });
    for (const [query, status] of [
      [`a=${'b'.repeat(20_000)}`, 414],
      [`a=${'b'.repeat(100_000)}`, 414],
      ['a=\u00ff', 400],
    ] as const) {
      assert.equal((await rawGet(service.base, '/api/thing/1/', agent)).status, 200);
      assert.equal((await rawGet(service.base, `/api/thing/?${query}`, agent)).status, status);
    }
    agent.destroy();
  });

  test('a parameter in a request for a single record is 400', async () => {
    for (const name of ['string', 'limit', 'page', 'ordering', 'nosuch']) {
      const { status, json } = await rawGet(service.base, `/api/thing/1/?${name}=1`);
      assert.equal(status, 400);
      assert.deepEqual(Object.keys(json.errors), [name]);
    }
    assert.equal((await rawGet(service.base, '/api/thing/1/?')).status, 200);
  });
});
