// Values and texts that are as large as a request allows, or that become large in PostgreSQL or in the answer.
import assert from 'node:assert/strict';
import type { Resource } from '../../src/index.ts';
import {
  errorsIn,
  fieldsOf,
  hiddenFields,
  logIn,
  readable,
  runBulk,
  save,
  type AdminAnswer,
  type Browser,
} from '../admin/support.ts';
import { useWritable, type WritableService } from '../db/helpers.ts';
import type { Answer } from '../support.ts';
import { describe, test } from 'node:test';

const thing: Resource = {
  model: 'thing',
  columns: {
    any: { type: 'decimal', null: true },
    other: { type: 'decimal', null: true },
    exact: { type: 'decimal', precision: 10, scale: 2, null: true },
    big: { type: 'bigint', null: true },
    many: { type: 'array', of: 'decimal', null: true },
    floats: { type: 'array', of: 'float', null: true },
    texts: { type: 'array', of: 'text', null: true },
    extra: { type: 'json', null: true },
    note: { type: 'text', null: true },
    ip: { type: 'inet', null: true },
    mac: { type: 'macaddr', null: true },
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
const ONES = '1'.repeat(130_000);
const ZEROS = '0'.repeat(1_000_000);
const HALF = '1'.repeat(500_000);

describe('a request with large values', () => {
  const service: WritableService = useWritable([thing, part]);

  const post = (body: unknown, path = '/api/thing/'): Promise<Answer> => service.send('POST', path, body);
  const sizeOf = (text: string): number => Buffer.byteLength(text);

  /** Checks that the answer is 400 and names this field with this message. */
  const assertFault = ({ status, json, text }: Answer, field: string, message: string | RegExp): void => {
    assert.equal(status, 400, text.slice(0, 200));
    const [first = ''] = (json.errors?.[field] ?? []) as string[];
    assert.ok(
      typeof message === 'string' ? first.includes(message) : message.test(first),
      text.slice(0, 300),
    );
  };

  // A quadratic scan takes minutes, which is more than the timeout.
  for (const [fields, field, message] of [
    [`"any":"${HALF}"`, 'any', 'must be at most 147467 characters (got 500000)'],
    [`"any":"${HALF}x"`, 'any', 'must be at most 147467 characters (got 500001)'],
    [`"big":"${HALF}"`, 'big', 'must be a whole number'],
    [`"exact":"0.${ZEROS}1"`, 'exact', 'must be at most'],
    [`"exact":"${ZEROS}1"`, 'exact', 'must be at most'],
    [`"exact":0.${ZEROS}1`, 'exact', 'must be at most'],
    [`"extra":[1${ZEROS}]`, 'extra', HUGE],
    [`"extra":${'1'.repeat(140_000)}`, 'extra', HUGE],
    [`"extra":${'['.repeat(450_000)}${']'.repeat(450_000)}`, 'extra', 'must not nest deeper than 512 levels'],
    [`"note":${'['.repeat(450_000)}${']'.repeat(450_000)}`, 'note', 'must be a string'],
    [`"texts":[${list('""', 10_001)}]`, 'texts', 'must have at most 10,000 elements'],
    [`"ip":"${'0:'.repeat(50_000)}0"`, 'ip', 'must be an IP address'],
    [`"mac":"${'x'.repeat(50_000)}"`, 'mac', 'must be a MAC address'],
    ['"many":[1,"1e131071"]', 'many', `element 2: ${WRITTEN}`],
    [`"many":[${list('1e999', 4000)}]`, 'many', ADDED],
    [`"many":[${list('"1e-999"', 4000)}]`, 'many', ADDED],
    [`"extra":[${list('1e999', 150_000)}]`, 'extra', ADDED],
    [`"extra":{"a":[${list('1e-999', 1000)}]}`, 'extra', ADDED],
    [`"any":1e999,"many":[${list('1e999', 33)}],"extra":[${list('1e999', 33)}]`, 'extra', ADDED],
  ] as const)
    test(`gets a short 400 at once: ${fields.slice(0, 30)}`, { timeout: 20_000 }, async () => {
      const [answer, health] = await Promise.all([post(`{${fields}}`), service.request('/healthz')]);
      assertFault(answer, field, message);
      assert.ok(sizeOf(answer.text) < 1000, `${sizeOf(answer.text)} bytes`);
      assert.equal(health.status, 200);
    });

  const LONGEST = `${'1'.repeat(131_072)}.${'1'.repeat(16_383)}`;
  for (const [fields, field, shown] of [
    [`"any":"${LONGEST}"`, 'any', LONGEST],
    [`"extra":{"phone":"${ONES.repeat(7)}"}`, 'extra', { phone: ONES.repeat(7) }],
    [`"extra":[${`${ONES},`.repeat(6)}1]`, 'extra', [...Array<number>(6).fill(Number(ONES)), 1]],
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
    test(`stores what is long but allowed: ${fields.slice(0, 30)}`, { timeout: 20_000 }, async () => {
      const { status, json, text } = await post(`{${fields}}`);
      assert.equal(status, 201, text.slice(0, 200));
      assert.deepEqual(json[field], shown);
    });

  test('counts the digits that exponents add in all records of a body together', async () => {
    const row = '{"any":1e999,"other":"1e-999"}';
    assertFault(await post(`[${list(row, 1000)}]`), '33.any', ADDED);
    assert.equal((await post(`[${list(row, 30)}]`)).status, 201);
    assertFault(await post(`[${list(`{"extra":[${list('1e999', 60)}]}`, 100)}]`), '1.extra', ADDED);
  });

  test('with a key that has an exponent: the key is at most 1,000 digits long', async () => {
    assertFault(await post('{"size":1e131071,"place":1}', '/api/part/'), 'size', WRITTEN);
    assert.equal((await post('{"size":1e999,"place":1}', '/api/part/')).status, 201);
    assert.equal((await service.request('/api/part/1e999,1/')).status, 200);
    assert.equal((await service.request('/api/part/1e131071,1/')).status, 404);
  });

  test('is refused by forms and imports of the admin area, too', async () => {
    const browser = await logIn(service, 'ada');
    const path = '/admin/thing/-/add/';
    const form = fieldsOf(await browser.get(path));
    for (const [field, value, message] of [
      ['any', '1e131071', WRITTEN],
      ['extra', '1e1000', HUGE],
      ['extra', `[${list('1e999', 100)}]`, 'at most 65,536 are allowed'],
    ] as const) {
      const answer = await browser.post(path, { ...form, [field]: value });
      assert.equal(answer.status, 400);
      const file = new FormData();
      file.append('_file', new Blob([]), '');
      file.append('_text', `${field}\r\n"${value}"\r\n`);
      const preview = await browser.upload('/admin/thing/-/import/', file);
      for (const page of [answer, preview]) assert.ok(readable(page).includes(message.slice(1)), field);
    }
  });

  const DECIMALS = list('1e131071', 890);
  for (const [query, parameter, message] of [
    [`any__in=${DECIMALS}`, 'any__in', WRITTEN],
    [`exact__in=${DECIMALS}`, 'exact__in', WRITTEN],
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
    test(`gets a 400 for its filter: ${query.slice(0, 30)}`, async () => {
      const model = parameter === 'id__in' ? 'part' : 'thing';
      assertFault(await service.request(`/api/${model}/?${query}`), parameter, message);
    });

  test('names the first 100 unknown fields or invalid parameters, and counts the others', async () => {
    const fields = Object.fromEntries(Array.from({ length: 9000 }, (_, at) => [`unknown${at}`, 1]));
    const body = await post(fields);
    const oneMore = await post(Object.fromEntries(Object.entries(fields).slice(0, 101)));
    assert.match(oneMore.text, /"and 1 more field does not exist"/);
    assert.equal(Object.keys(body.json.errors).length, 100);
    const last = ['there is no such field', 'and 8900 more fields do not exist'];
    assert.deepEqual(body.json.errors.unknown99, last);
    const query = Array.from({ length: 1500 }, (_, at) => `${at.toString(36)}=%`).join('&');
    const page = await service.request(`/api/thing/?${query}`);
    const messages = Object.values(page.json.errors as Record<string, string[]>);
    assert.equal(messages.length, 100);
    assert.equal(messages.flat().at(-1), 'and 1400 more parameters cannot be used');
    for (const { status, text } of [body, page]) assert.ok(status === 400 && sizeOf(text) < 10_000);
    const tooMany = Object.fromEntries(Array.from({ length: 10_001 }, (_, at) => [`unknown${at}`, 1]));
    assert.match((await post(tooMany)).json.detail as string, /more than 10000 fields/);
    const long = await post({ ['x'.repeat(500_000)]: 1 });
    assert.deepEqual(Object.keys(long.json.errors), [`${'x'.repeat(200)}…`]);
  });

  test('gets a page for browsers that does not repeat all parameters for each of them', async () => {
    for (const query of ['a&'.repeat(4000), list(`note=${'"'.repeat(150)}`, 50).replaceAll(',', '&')]) {
      const { text } = await service.request(`/api/thing/?${query}`, { headers: { accept: 'text/html' } });
      assert.ok(sizeOf(text) < 80 * query.length, `${sizeOf(text)} bytes`);
    }
  });

  test('as a form: more than 2,000 fields of multipart are 413, and other fields beside data do not matter', async () => {
    const form = new FormData();
    for (let at = 0; at <= 2000; at += 1) form.append('other', '');
    form.append('data', '{}');
    const refused = await service.request('/api/thing/', { method: 'POST', user: 'ada', body: form });
    assert.equal(refused.status, 413);
    const headers = { 'content-type': 'application/x-www-form-urlencoded' };
    const body = `${'a&'.repeat(500_000)}%64ata=${encodeURIComponent('{"note":"here"}')}`;
    const { status, json } = await service.request('/api/thing/', {
      method: 'POST',
      user: 'ada',
      headers,
      body,
    });
    assert.deepEqual([status, json.note], [201, 'here']);
  });
});

describe('the bytes of a value are limited, whatever its door', () => {
  const MAX = 20_000;
  const LARGE = 'ü'.repeat(MAX / 2 + 1);
  const FAULT = `Must be at most ${MAX} bytes (got ${MAX + 2}).`;
  const book: Resource = {
    model: 'book',
    columns: { title: { type: 'string', unique: true }, note: { type: 'text', null: true } },
    access: 'user',
    admin: {
      inlines: [{ model: 'line' }],
      actions: [
        {
          name: 'fill',
          title: 'Fill',
          on: ['record'],
          fields: { text: { type: 'text', null: true } },
          run: async ({ operations }) => {
            await operations.update('book', 1, { note: LARGE });
          },
        },
      ],
    },
  };
  const line: Resource = {
    model: 'line',
    columns: { book: { type: 'foreignKey', references: 'book' }, text: { type: 'text' } },
    access: 'user',
  };
  let ada: Browser;
  const service: WritableService = useWritable(
    [book, line],
    undefined,
    async () => {
      ada = await logIn(service, 'ada');
      await service.sql`insert into book (title) values ('a')`;
      await service.sql`insert into line (book_id, text) values (1, 'short')`;
    },
    { maxBody: MAX },
  );

  const bulk = { _state: '', _action: 'set', _all: '1', _value: '1', _column: 'note', note: LARGE };
  const act = { _action: 'fill', _value: '1', _confirm: '1', _expected: '1' };
  const doors: [door: string, send: () => Promise<AdminAnswer>, field: string][] = [
    ['a form', async () => save(ada, '/admin/book/1/', { note: LARGE }), 'note'],
    ['a row of a form', async () => save(ada, '/admin/book/1/', { 'line.0.text': LARGE }), 'line.0.text'],
    ['a new record', async () => save(ada, '/admin/book/-/add/', { title: 'b', note: LARGE }), 'note'],
    ['a bulk change', () => ada.post('/admin/book/-/bulk/', bulk), 'note'],
    ['a field of an action', () => ada.post('/admin/book/1/action/', { ...act, text: LARGE }), 'text'],
  ];
  for (const [door, send, field] of doors)
    test(door, async () => {
      const page = await send();
      assert.deepEqual([page.status, errorsIn(page)], [400, { [field]: FAULT }]);
    });

  test('an operation of an action', async () => {
    const page = await ada.post('/admin/book/1/action/', act);
    assert.equal(page.status, 400);
    assert.match(readable(page), /note: must be at most 20000 bytes \(got 20002\)/);
  });

  test('an import', async () => {
    for (const id of ['1', '']) {
      const page = await ada.post('/admin/book/-/import/', {
        _text: `id,title,note\r\n${id},c,${LARGE}\r\n`,
      });
      assert.match(readable(page), /must be at most 20000 bytes \(got 20002\)/i);
    }
  });

  test('but a record that has a larger value keeps it, and gets it back', async () => {
    await service.sql`update book set note = ${LARGE} where id = 1`;
    assert.equal((await save(ada, '/admin/book/1/', { title: 'kept' })).status, 303);
    const kept = await service.sql`select from book where note = ${LARGE} and title = 'kept'`;
    assert.equal(kept.count, 1);
    assert.equal((await runBulk(ada, 'book', { ...bulk, note: 'lost' })).status, 303);
    const [entry] = await service.sql`select max(id) as id from vitrine_history`;
    const undo = `/admin/vitrine_history/${String(entry?.['id'])}/undo/`;
    const undone = await ada.post(undo, hiddenFields(await ada.get(undo), 'confirm'));
    assert.equal(undone.status, 303, readable(undone));
    assert.equal((await service.sql`select from book where note = ${LARGE}`).count, 1);
  });
});
