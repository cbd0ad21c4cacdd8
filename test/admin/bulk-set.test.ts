// The bulk action that sets a column.
import assert from 'node:assert/strict';
import { ada, BULK, historyEntries, ids, names, service, submit, useBulkActions } from './bulk-support.ts';
import { lockedOut } from '../http/expect.ts';
import { readable, type Fields } from './support.ts';
import { describe, test } from 'node:test';

describe('bulk actions', () => {
  useBulkActions();

  test('set a column in three steps: the column, the value, the confirmation', async () => {
    const first = await ada.post(BULK, { _state: 'amount=1', _action: 'set', _all: '1' });
    assert.match(readable(first), /Set a column of 4 records/);
    const offered = [...first.text.matchAll(/<option value="([^"]*)"/g)].map(([, key]) => key);
    assert.deepEqual(offered, ['name', 'amount', 'price', 'ready', 'note', 'extra', 'kind_id']);
    const second = await submit(first, 'record', { _column: 'amount' });
    assert.match(second.text, /<input[^>]*name="amount"[^>]*type="number"/);
    const third = await submit(second, 'record', { _value: '1', amount: '2' });
    assert.match(readable(third), /Amount becomes “2” in 4 records\./);
    assert.deepEqual(await historyEntries(), []);
    const done = await submit(third, 'record', { _confirm: '1' });
    assert.equal(done.location, '/admin/item/?amount=1');
    assert.match((await ada.follow(done)).text, />Amount was set in 4 records\./);
    const log = await historyEntries();
    assert.deepEqual(
      log.map(({ action, before: old, after: now }) => [action, old, now]),
      Array<string[]>(4).fill(['update', '{"amount":1}', '{"amount":2}']),
    );
  });

  const values: readonly (readonly [
    column: string,
    typed: Fields,
    shown: RegExp,
    stored: unknown,
    json: string,
  ])[] = [
    ['note', { note: 'a\r\nb' }, /Note becomes “a b”/, 'a\nb', '"a\\nb"'],
    ['note', { note: '' }, /Note becomes an empty text/, '', '""'],
    ['ready', { ready: 'true' }, /Ready becomes “Yes”/, true, 'true'],
    ['price', { price: '1.5' }, /Price becomes “1.5”/, '1.50', '"1.50"'],
    ['extra', { extra: '{"a": 1e2}' }, /Extra becomes “{"a": 1e2}”/, { a: 100 }, '{"a": 100}'],
  ];

  for (const [column, typed, shown, stored, json] of values) {
    test(`set ${column} to ${JSON.stringify(typed)}`, async () => {
      const choice = {
        _state: '',
        _action: 'set',
        _id: ids[0] ?? '',
        _column: column,
        _value: '1',
        ...typed,
      };
      const page = await ada.post(BULK, choice);
      assert.match(readable(page), shown);
      assert.equal((await submit(page, 'record', { _confirm: '1' })).status, 303);
      const [row] = await service.sql`select * from item where id = ${ids[0] ?? ''}`;
      assert.deepEqual(row?.[column], stored);
      assert.deepEqual((await historyEntries()).map((entry) => entry['after']), [`{"${column}":${json}}`]); // prettier-ignore
    });
  }

  test('set a column to no value, and update only the records that differ', async () => {
    await service.sql`update item set note = 'x' where amount = 1`;
    const page = await ada.post(BULK, {
      _state: '', _action: 'set', _all: '1', _column: 'note', _value: '1', note: '', note__null: '1',
    }); // prettier-ignore
    assert.match(readable(page), /Note becomes no value in 12 records\./);
    const done = await submit(page, 'record', { _confirm: '1' });
    assert.match((await ada.follow(done)).text, />Note was set in 4 records\. 8 had this value already\./);
    assert.equal((await historyEntries()).length, 4);
  });

  test('set a column of a record that loses the value while the statement waits for its lock', async () => {
    const [first = '', second = ''] = ids;
    await service.sql`update item set amount = 7 where id = ${first}`;
    const choice = { _state: '', _action: 'set', _id: [first, second], _column: 'amount', _value: '1', amount: '7' }; // prettier-ignore
    const page = await ada.post(BULK, choice);
    const { saved } = await service.sql.begin(async (transaction) => {
      await transaction`update item set amount = 9 where id = ${first}`;
      const answer = submit(page, 'record', { _confirm: '1' });
      await lockedOut(service);
      return { saved: answer };
    });
    const done = await saved;
    assert.equal(done.status, 303, readable(done));
    const rows = await service.sql`select amount from item where id = any(${[first, second]})`;
    assert.deepEqual(
      rows.map(({ amount }) => Number(amount)),
      [7, 7],
    );
    const log = await historyEntries();
    assert.deepEqual(log.map(({ before: old }) => old).sort(), ['{"amount":2}', '{"amount":9}']);
  });

  test('set a foreign key after a search for the related record', async () => {
    await service.sql`insert into kind (name) select 'kind ' || n from generate_series(1, 150) n`;
    const choice = { _state: '', _action: 'set', _id: ids.slice(0, 3), _column: 'kind_id' };
    const page = await ada.post(BULK, choice);
    const search = await submit(page, 'record', { _lookup: 'kind_id', _find: 'kind 77' });
    assert.match(search.text, /name="_choose" value="77"/);
    const chosen = await submit(search, 'lookup', { _choose: '77' });
    assert.match(chosen.text, /name="kind_id"[^>]*value="77"/);
    const confirm = await submit(chosen, 'record', { _value: '1', kind_id: '77' });
    assert.match(readable(confirm), /Kind becomes “kind 77” in 3 records\./);
    assert.equal((await submit(confirm, 'record', { _confirm: '1' })).status, 303);
    assert.deepEqual([...(await service.sql`select kind_id from item where kind_id is not null`)].length, 3);
  });

  const invalid: readonly (readonly [column: string, typed: Fields, message: RegExp])[] = [
    ['amount', { amount: '100' }, /Must be at most 99\./],
    ['amount', { amount: 'x' }, /Must be a whole number\./],
    ['price', { price: '1.234' }, /Must have at most 2 digits after the decimal point\./],
    ['extra', { extra: '{' }, /Must be JSON: unexpected end at line 1, column 2\./],
    ['kind_id', { kind_id: '77' }, /There is no such record\./],
    ['name', { name: 'n'.repeat(256) }, /Must be at most 255 characters \(got 256\)\./],
  ];

  for (const [column, typed, message] of invalid) {
    test(`return 400 for ${column} ${JSON.stringify(typed).slice(0, 40)}, with the error at its field`, async () => {
      const choice = { _state: '', _action: 'set', _all: '1', _column: column, _value: '1', ...typed };
      for (const confirmed of [{}, { _confirm: '1', _expected: '12' }]) {
        const page = await ada.post(BULK, { ...choice, ...confirmed });
        assert.equal(page.status, 400);
        assert.match(page.text, new RegExp(`id="field-${column}-error"`));
        assert.match(readable(page), message);
      }
      assert.deepEqual(await historyEntries(), []);
    });
  }

  test('set a unique column in one record only', async () => {
    const choice = { _action: 'set', _column: 'name', _value: '1', name: 'same', _confirm: '1', _state: '' };
    const page = await ada.post(BULK, { ...choice, _all: '1', _expected: '12' });
    assert.equal(page.status, 409);
    assert.match(readable(page), /Must be unique, so two records cannot have the same value\./);
    assert.equal((await ada.post(BULK, { ...choice, _id: ids[0] ?? '', _expected: '1' })).status, 303);
    assert.equal((await names())[0], 'same');
  });
});
