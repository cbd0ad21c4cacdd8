import assert from 'node:assert/strict';
import type { Resource } from '../../src/index.ts';
import { assertRoundTrip, rowsOf, startWith, type WritableService } from '../db/helpers.ts';
import { FAR, startAllTypes, WIDE } from './all-types.ts';
import { after, before, describe, test } from 'node:test';

const numbers = `{"b": 12345678901234567890, "a": [0.1000000000000000055, 1.50, -1e-30]}`;

/** JSON to send, and the JSON to expect if it differs. */
const VALID: Record<string, (readonly [sent: string, shown?: string])[]> = {
  s: [['"日本🦉é5"'], ['""'], ['" a "'], ['"null"'], ['"\\u0041"', '"A"']],
  tx: [['"a\\r\\n\\t\\u0001"'], ['"\\ud83e\\udd89"', '"🦉"'], ['"\\\\\\" \' %_$1"'], ['null']],
  ch: [['"a"'], ['null']],
  cn: [['3'], ['3.0', '3']],
  sm: [['32767'], ['-32768']],
  it: [['2147483647'], ['-2147483648'], ['5.0', '5'], ['1e3', '1000'], ['-0', '0']],
  ib: [['-5'], ['5']],
  bg: [['9007199254740993', '"9007199254740993"'], ['"-9223372036854775808"'], ['9223372036854775807', '"9223372036854775807"'], ['"007"', '"7"'], ['-0', '"0"']],
  bb: [['9007199254740992', '"9007199254740992"']],
  re: [['0.1'], ['3.4028235e+38'], ['1e-50', '0']],
  fl: [['0.1'], ['5e-324'], ['-1.7976931348623157e+308'], ['1e-400', '0'], ['0.1000000000000000055', '0.1'], ['12345678901234567890', '1.2345678901234567e+19']],
  fb: [['0.5'], ['1.5']],
  de: [['"1234.5"', '"1234.50"'], ['9999.99', '"9999.99"'], ['"1e3"', '"1000.00"'], ['"-0001.10"', '"-1.10"'], ['0', '"0.00"'], ['10.5000', '"10.50"'], ['12e-2', '"0.12"']],
  dw: [['999', '"999"'], ['"-1.0"', '"-1"'], ['9.9e1', '"99"']],
  df: [['0.1000000000000000055', '"0.1000000000000000055"'], ['12345678901234567890.12345678901234567890', '"12345678901234567890.12345678901234567890"'], ['"1E-3"', '"0.001"'], ['1e5', '"100000"'], ['"0.10"'], ['1e300', `"1${'0'.repeat(300)}"`]],
  db: [['0.1', '"0.1"'], ['"100.00"']],
  bo: [['true'], ['false'], ['null']],
  dt: [['"2024-05-31 18:30:00"'], ['"2024-05-31T18:30:00"', '"2024-05-31 18:30:00"'], ['"2024-05-31"', '"2024-05-31 00:00:00"'], ['"2024-05-31 18:30"', '"2024-05-31 18:30:00"'], ['"2024-05-31T18:30:00Z"', '"2024-05-31 18:30:00"'], ['"2024-05-31T18:30+02:00"', '"2024-05-31 16:30:00"'], ['"2024-12-31T23:30:00-0130"', '"2025-01-01 01:00:00"'], ['"2024-03-01 00:30:00+01"', '"2024-02-29 23:30:00"'], ['"2024-05-31T18:30:00.999Z"', '"2024-05-31 18:30:00"'], ['"0001-01-01 00:00:00"'], ['"9999-12-31 23:59:59"']],
  da: [['"2024-02-29"'], ['"2000-02-29"'], ['"0001-01-01"'], ['"9999-12-31"']],
  ti: [['"18:30"', '"18:30:00"'], ['"18:30:59.999"', '"18:30:59"'], ['"00:00:00"']],
  uu: [['"ABCDEF00-0000-4000-8000-00000000000A"', '"abcdef00-0000-4000-8000-00000000000a"']],
  js: [[numbers, '{"a": [0.1000000000000000055, 1.50, -0.000000000000000000000000000001], "b": 12345678901234567890}'], ['{"k":1,"k":{"x":[],"x":2}}', '{"k": {"x": 2}}'], ['"text"'], ['9007199254740993'], ['[null, {"a": null}]'], ['null'], ['""'], ['"\\ud83e\\udd89"', '"🦉"'], ['{"__proto__": {"a": 1}, "constructor": 2}']],
  near_id: [['1'], ['1.0', '1'], ['null']],
  far_id: [[FAR], [`"${FAR}"`, FAR]],
  wide_id: [[`"${WIDE}"`], [`"${WIDE.toUpperCase()}"`, `"${WIDE}"`]],
}; // prettier-ignore

describe('a valid body', () => {
  let service: WritableService;
  let path: string;
  before(async () => {
    service = await startAllTypes();
    path = `/api/thing/${(await service.send('POST', '/api/thing/', { s: 'put' })).json.id}/`;
  });
  after(() => service.close());

  for (const [column, values] of Object.entries(VALID)) {
    test(`each valid value of ${column} is stored and returned`, async () => {
      for (const [sent, shown = sent] of values) {
        const posted = await service.send('POST', '/api/thing/', `{"s":"a","${column}":${sent}}`);
        assert.equal(posted.status, 201, `${sent}: ${posted.text}`);
        const put = await service.send('PUT', path, ` {\n"${column}" :\t${sent} } `);
        assert.equal(put.status, 200, `${sent}: ${put.text}`);
        for (const { text } of [posted, put, await service.request(path)])
          assert.ok(text.includes(`"${column}":${shown}`), `${sent} must be shown as ${shown}: ${text}`);
        await assertRoundTrip(service, path, 'thing');
      }
    });
  }

  test('fields that are not sent keep their values', async () => {
    const { json } = await service.send('POST', '/api/thing/', {
      s: 'keep',
      it: 5,
      near: 1,
      js: [1],
      dt: '2024-01-01',
    });
    const put = await service.send('PUT', `/api/thing/${json.id}/`, { tx: 'new' });
    assert.deepEqual(put.json, { ...json, tx: 'new' });
  });

  test('an empty PUT is 200 and changes nothing', async () => {
    const read = await service.request(path);
    const before = await rowsOf(service.sql, 'thing');
    const put = await service.send('PUT', path, '{}');
    assert.deepEqual([put.status, put.text], [200, read.text]);
    assert.equal(put.headers.get('etag'), read.headers.get('etag'));
    assert.deepEqual(await rowsOf(service.sql, 'thing'), before);
  });

  test('a foreign key can be set by either of its names, or by both', async () => {
    for (const body of ['{"s":"x","near":1}', '{"s":"x","near_id":1}', '{"s":"x","near":1,"near_id":1.0}']) {
      const { status, json } = await service.send('POST', '/api/thing/', body);
      assert.deepEqual([status, json.near_id], [201, 1], body);
    }
    const both = await service.send('POST', '/api/thing/', `{"s":"x","far":${FAR},"far_id":"${FAR}"}`);
    assert.equal(both.status, 201, both.text);
    const none = await service.send('POST', '/api/thing/', { s: 'x', wide: null, wide_id: null });
    assert.deepEqual([none.status, none.json.wide_id], [201, null]);
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
      // prettier-ignore
      const put = await service.send('PUT', `/api/${target}/`, `{"id":${id}}`);
      assert.equal(put.status, status, `${target} ${id}: ${put.text}`);
      if (status === 400) assert.deepEqual(Object.keys(put.json.errors), ['id']);
    }
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
    },
    access: 'user',
    owner: 'owner',
    readonly: ['fixed', 'since', 'by', 'sealed'],
    exclude: ['hidden', 'sealed'],
  };
  const garbage = { owner: 'x', owner_id: [99], fixed: 5, since: 'never', by: {}, by_id: 77, sealed: '\0' };
  let service: WritableService;
  before(async () => {
    service = await startWith([guarded]);
  });
  after(() => service.close());

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
    assert.deepEqual(Object.keys(put.json), ['id', 'owner_id', 'fixed', 'since', 'by_id', 'shown']);
  });

  test('an excluded column is required and written like any other, but never shown', async () => {
    const missing = await service.send('POST', '/api/guarded/', {});
    assert.equal(missing.status, 400);
    assert.deepEqual(Object.keys(missing.json.errors), ['hidden']);
    const { json } = await service.send('POST', '/api/guarded/', { hidden: 'one' });
    const before = await service.request(`/api/guarded/${json.id}/`);
    const put = await service.send('PUT', `/api/guarded/${json.id}/`, { hidden: 'two' });
    assert.equal(put.text, before.text);
    assert.notEqual(put.headers.get('etag'), before.headers.get('etag'), 'the tag is of the whole row');
    assert.equal((await stored(json.id))['hidden'], 'two');
  });
});
