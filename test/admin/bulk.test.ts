// Bulk actions: the selection, deletions, exports and access.
import assert from 'node:assert/strict';
import { ada, BULK, historyEntries, ids, names, service, submit, useBulkActions } from './bulk-support.ts';
import { lockedOut } from '../http/expect.ts';
import { hiddenFields, logIn, readable, unescaped, type AdminAnswer, type Fields } from './support.ts';
import { describe, test } from 'node:test';

describe('bulk actions', () => {
  useBulkActions();

  test('without selected records return to the list with its filters', async () => {
    const answer = await ada.post(BULK, { _state: 'amount=1&_search=item', _action: 'delete' });
    assert.equal(answer.location, '/admin/item/?amount=1&_search=item');
    assert.match((await ada.follow(answer)).text, /class="flash failed"[^>]*>No records selected/);
  });

  test('on keys of more than a million characters are 413, because each page would repeat them', async () => {
    const long = Array.from({ length: 10_000 }, (_, index) => `${index}${'&'.repeat(120)}`);
    const { status, text } = await ada.post(BULK, { _state: '', _action: 'delete', _id: long });
    assert.equal(status, 413);
    assert.match(text, /Select fewer records/);
    assert.ok(text.length < 20_000, `${text.length} characters`);
  });

  test('delete the selected records after a confirmation with their number and labels', async () => {
    const page = await ada.post(BULK, { _state: '', _action: 'delete', _id: ids.slice(0, 2) });
    assert.equal(page.status, 200);
    assert.match(readable(page), /Delete 2 records\? 2 records selected item 1 item 2 No known records refer to these records\./); // prettier-ignore
    assert.equal((await names()).length, 12);
    const done = await submit(page, 'confirm');
    assert.equal(done.location, '/admin/item/');
    assert.match((await ada.follow(done)).text, />2 records deleted/);
    assert.deepEqual((await names()).slice(0, 2), ['item 3', 'item 4']);
    const log = await historyEntries();
    assert.equal(log.length, 2);
    assert.deepEqual(
      log.map(({ action, door, record, user_name: name }) => [action, door, record, name]).sort(),
      ids.slice(0, 2).map((id) => ['delete', 'admin', id, 'ada']),
    );
    assert.deepEqual(JSON.parse(String(log.find(({ record }) => record === ids[0])?.['before'])), {
      id: Number(ids[0]), name: 'item 1', amount: 1, price: null, ready: false, note: null, extra: null, kind_id: null, made: 1,
    }); // prettier-ignore
  });

  test('delete all records that match the filters and the search, on all pages', async () => {
    const _state = 'amount=1&_search=item&limit=2&page=2&ordering=-name';
    const page = await ada.post(BULK, { _state, _action: 'delete', _all: '1', _id: ids[1] ?? '' });
    assert.match(readable(page), /Delete 4 records\? 4 records of Items All records that match the filters and search of the list\. item 7 item 4 item 10 item 1/); // prettier-ignore
    const done = await submit(page, 'confirm');
    assert.equal(done.location, '/admin/item/?amount=1&_search=item&limit=2&ordering=-name');
    assert.equal((await names()).length, 8);
  });

  test('do nothing when the number of records has changed since the confirmation', async () => {
    const page = await ada.post(BULK, { _state: 'amount=1', _action: 'delete', _all: '1' });
    await service.sql`insert into item (name, amount) values ('one more', 1)`;
    const again = await submit(page, 'confirm');
    assert.equal(again.status, 409);
    assert.match(
      readable(again),
      /The selection had 4 records when this page was shown, and now has 5\. Nothing was deleted\./,
    );
    assert.equal((await names()).length, 13);
    assert.deepEqual(await historyEntries(), []);
    for (const _expected of ['', 'x', '-1', '4.5'])
      assert.equal((await submit(again, 'confirm', { _expected })).status, 409, _expected);
    assert.equal((await submit(again, 'confirm')).status, 303);
    assert.equal((await names()).length, 8);
  });

  test('are rolled back when the session ends before the commit', async () => {
    const { sql } = service;
    const kept = (await sql`select token_hash from vitrine_session`).map(
      (row) => row['token_hash'] as string,
    );
    const other = await logIn(service, 'ada');
    const page = await other.post(BULK, { _state: '', _action: 'delete', _id: ids.slice(0, 2) });
    const { answer } = await sql.begin(async (transaction) => {
      await transaction`lock table item in exclusive mode`;
      const deleting = other.post(BULK, hiddenFields(page, 'confirm'));
      await lockedOut(service);
      await transaction`delete from vitrine_session where not (token_hash = any(${kept}))`;
      return { answer: deleting };
    });
    const refused = await answer;
    assert.equal(refused.status, 403);
    assert.match(readable(refused), /Your session ended before this was finished\. Nothing was changed\./);
    assert.equal((await names()).length, 12);
    assert.deepEqual(await historyEntries(), []);
  });

  test('check records again after a concurrent change', async () => {
    const page = await ada.post(BULK, { _state: 'amount=1', _action: 'delete', _all: '1' });
    const race = async (change: string): Promise<AdminAnswer> => {
      const other = await service.sql.reserve();
      await other`begin`;
      await other.unsafe(change);
      const answer = submit(page, 'confirm');
      await lockedOut(service);
      await other`commit`;
      other.release();
      return answer;
    };
    // A record that left the selection is kept. One that changed but still matches is deleted.
    const left = await race(`update item set amount = 5 where id = ${ids[0]}`);
    assert.equal(left.status, 409);
    assert.match(readable(left), /The selection had 4 records when this page was shown, and now has 3\./);
    await service.sql`update item set amount = 1 where id = ${ids[0] ?? ''}`;
    assert.equal((await race(`update item set note = 'late' where id = ${ids[0]}`)).status, 303);
    assert.equal((await names()).length, 8);
    const log = await historyEntries();
    assert.equal(log.length, 4);
    const late = log.find(({ record }) => record === ids[0]);
    assert.match(String(late?.['before']), /"note":"late"/);
  });

  test('do not delete records on which others depend, and link to those', async () => {
    await service.sql`insert into part (item_id) select id from item where amount = 1`;
    const chosen = await ada.post(BULK, { _state: '', _action: 'delete', _id: ids.slice(0, 3) });
    assert.match(
      readable(chosen),
      /Cannot delete: other records depend on them 1 record of Parts, by “Item”/,
    );
    assert.ok(
      chosen.text.includes(`href="/admin/part/?item__in=${encodeURIComponent(ids.slice(0, 3).join())}"`),
    );
    assert.doesNotMatch(chosen.text, /class="danger"/);
    const all = await ada.post(BULK, { _state: 'amount__in=1,2', _action: 'delete', _all: '1' });
    assert.match(readable(all), /8 records of Items.*Cannot delete: other records depend on them 4 records of Parts/); // prettier-ignore
    const link = unescaped(/href="(\/admin\/part\/\?[^"]*)"/.exec(all.text)?.[1] ?? '');
    assert.equal(link, '/admin/part/?item__amount__in=1%2C2');
    assert.match(readable(await ada.get(link)), /of 4 records/);
    const forced = await ada.post(BULK, {
      _state: '', _action: 'delete', _all: '1', _expected: '12', _confirm: '1',
    }); // prettier-ignore
    assert.equal(forced.status, 409);
    assert.match(
      readable(forced),
      /Records of Parts depend on what would be deleted\. Nothing was deleted\./,
    );
    assert.equal((await names()).length, 12);
  });

  test('work with quoted names, text keys, and records that refer to each other', async () => {
    const keys = ['a,b', '"c"', "d'e", '{f}', '\\', 'ü'];
    for (const [index, id] of keys.entries()) {
      const body = { id, text: `same ${index}`, above_id: index > 0 ? keys[index - 1] : null };
      assert.equal((await service.send('POST', '/api/odd/', body)).status, 201);
    }
    const path = '/admin/odd/-/bulk/';
    const page = await ada.post(path, {
      _state: '_search=same&ordering=above__text', _action: 'set', _all: '1', _column: 'text', _value: '1', text: 'new',
    }); // prettier-ignore
    assert.match(readable(page), /Text becomes “new” in 6 records/);
    assert.equal((await ada.post(path, { ...hiddenFields(page, 'record'), _confirm: '1' })).status, 303);
    const some = await ada.post(path, { _state: '', _action: 'delete', _id: keys.slice(0, 3) });
    assert.match(readable(some), /3 records selected.*Cannot delete: other records depend on them 1 record of Odd ones/); // prettier-ignore
    const link = unescaped(/href="(\/admin\/odd\/\?[^"]*)"/.exec(some.text)?.[1] ?? '');
    assert.match(readable(await ada.get(link)), /1–3 of 3 records/);
    const all = await ada.post(path, { _state: '', _action: 'delete', _id: keys });
    assert.match(readable(all), /No known records refer to these records/);
    assert.equal((await ada.post(path, hiddenFields(all, 'confirm'))).status, 303);
    const log = (await historyEntries()).filter(({ model }) => model === 'odd');
    assert.deepEqual(
      ['create', 'update', 'delete'].map((wanted) => log.filter(({ action }) => action === wanted).length),
      [6, 6, 6],
    );
  });

  test('take the ticked record, also if its key has line breaks, which browsers change', async () => {
    const texts = { 'a\nb': 'one', 'a\r\nb': 'two', 'a%0Ab': 'three' };
    for (const [id, text] of Object.entries(texts))
      assert.equal((await service.send('POST', '/api/odd/', { id, text })).status, 201);
    const { text: list } = await ada.get('/admin/odd/');
    const boxes = [...list.matchAll(/name="_id"\s+value="([^"]*)"[^]*?<td[^>]*>([^]*?)<\/tr>/g)];
    const left = new Set(Object.values(texts));
    for (const text of Object.values(texts)) {
      const [, value = ''] = boxes.find(([, , cells = '']) => cells.includes(text)) ?? [];
      const sent = unescaped(value).replace(/\r?\n|\r/g, '\r\n');
      const page = await ada.post('/admin/odd/-/bulk/', { _state: '', _action: 'delete', _id: sent });
      const fields = Object.entries(hiddenFields(page, 'confirm')).map(([name, one]) => [name, String(one).replace(/\r?\n|\r/g, '\r\n')]); // prettier-ignore
      const done = await ada.post('/admin/odd/-/bulk/', Object.fromEntries(fields) as Fields);
      assert.equal(done.status, 303, readable(done));
      left.delete(text);
      const { json } = await service.request('/api/odd/');
      assert.deepEqual(new Set(json.objects.map((one: { text: string }) => one.text)), left);
    }
  });

  test('work with partitioned tables', async () => {
    await service.sql`insert into slice (name) select 's' || n from generate_series(1, 9) n`;
    const path = '/admin/slice/-/bulk/';
    const page = await ada.post(path, {
      _state: 'name__ne=s1', _action: 'set', _all: '1', _column: 'name', _value: '1', name: 'new',
    }); // prettier-ignore
    assert.equal((await ada.post(path, { ...hiddenFields(page, 'record'), _confirm: '1' })).status, 303);
    const gone = await ada.post(path, { _state: 'name=new', _action: 'delete', _all: '1' });
    assert.equal((await ada.post(path, hiddenFields(gone, 'confirm'))).status, 303);
    assert.deepEqual([...(await service.sql`select name from slice`)], [{ name: 's1' }]);
    assert.equal((await historyEntries()).length, 16);
  });

  test('on a view change nothing when a record that is not selected has the same key', async () => {
    const rows = [
      { key: 1, name: 'a', size: 1 },
      { key: 1, name: 'b', size: 2 },
      { key: 2, name: 'c', size: 3 },
    ];
    await service.sql`insert into doubled ${service.sql(rows)}`;
    const stored = async () => [...(await service.sql`select * from doubled order by name`)];
    const path = '/admin/doubles/-/bulk/';
    const ask = (_state: string, fields: Fields) => ada.post(path, { _state, _all: '1', ...fields });
    const set = { _action: 'set', _column: 'size', _value: '1', size: '9' };
    for (const [fields, form] of [
      [{ _action: 'delete' }, 'confirm'],
      [set, 'record'],
    ] as const) {
      const page = await ask('name=a', fields);
      assert.match(readable(page), /\b1 record\b/);
      const refused = await ada.post(path, { ...hiddenFields(page, form), _confirm: '1' });
      assert.equal(refused.status, 409);
      assert.match(readable(refused), /Several records have the same key as a selected one\. Nothing was changed\./); // prettier-ignore
      assert.deepEqual(await stored(), rows);
    }
    const page = await ask('name=c', set);
    assert.equal((await ada.post(path, { ...hiddenFields(page, 'record'), _confirm: '1' })).status, 303);
    const whole = await ask('', { _action: 'delete' });
    assert.equal((await ada.post(path, hiddenFields(whole, 'confirm'))).status, 303);
    assert.deepEqual(await stored(), []);
  });

  test('return 404 for columns that cannot be edited and for actions that are not allowed', async () => {
    const choice = { _state: '', _all: '1', _value: '1', _confirm: '1', _expected: '12' };
    for (const column of ['made', 'secret', 'hidden', 'id', 'nothing', '__proto__', '']) {
      const answer = await ada.post(BULK, { ...choice, _action: 'set', _column: column, [column]: '1' });
      assert.equal(answer.status, 404, column);
    }
    for (const path of ['/admin/looked_at/-/bulk/', '/admin/vitrine_history/-/bulk/'])
      for (const _action of ['set', 'delete'])
        assert.equal((await ada.post(path, { ...choice, _action })).status, 404, path);
    for (const _action of ['', 'drop', 'constructor'])
      assert.equal((await ada.post(BULK, { ...choice, _action })).status, 404, _action);
    assert.equal((await ada.post(BULK, { ...choice, _action: 'delete', _csrf: 'x' })).status, 403);
    assert.equal((await names()).length, 12);
  });

  test('of another number of records than confirmed are refused without waiting for locks', async () => {
    await service.sql.begin(async (sql) => {
      await sql`select from item for update`;
      const choice = { _state: '', _all: '1', _expected: '11', _confirm: '1' };
      for (const action of [
        { _action: 'delete' },
        { _action: 'set', _column: 'amount', _value: '1', amount: '7' },
      ]) {
        const answer = await ada.post(BULK, { ...choice, ...action });
        assert.equal(answer.status, 409, readable(answer));
      }
    });
    assert.equal((await names()).length, 12);
  });

  test('change nothing with an invalid filter', async () => {
    for (const _action of ['delete', 'set']) {
      const answer = await ada.post(BULK, { _state: 'amount=x', _all: '1', _action });
      assert.equal(answer.location, '/admin/item/?amount=x');
    }
    const hidden = await ada.post(BULK, { _state: 'hidden=x', _all: '1', _action: 'delete' });
    assert.equal(hidden.location, '/admin/item/?hidden=x');
  });

  test('ignore invalid keys and keys of missing records', async () => {
    const page = await ada.post(BULK, { _state: '', _action: 'delete', _id: ['x', '99999', ids[0] ?? ''] });
    assert.match(
      readable(page),
      /1 record selected 2 of the selected records no longer exist or are no longer on the list\./,
    );
    const none = await ada.post(BULK, { _state: '', _action: 'delete', _id: ['x'] });
    assert.equal(none.location, '/admin/item/');
  });

  test('use the singular for one record', async () => {
    const one = { _state: 'name=item%201', _action: 'delete', _all: '1' };
    const page = await ada.post(BULK, one);
    assert.match(readable(page), /Delete 1 record\?.*No known records refer to this record\. It will be permanently deleted\. Delete 1 record Cancel$/); // prettier-ignore
    await service.sql`insert into part (item_id) values (${ids[0] ?? ''})`;
    const kept = await ada.post(BULK, one);
    assert.match(
      readable(kept),
      /Cannot delete: other.*It cannot be deleted while other records need it\. Delete/,
    );
    const both = await ada.post(BULK, { _state: '', _action: 'delete', _id: ids.slice(0, 2) });
    assert.match(readable(both), /They cannot be deleted while other records need them\./);
    const others = await ada.post(BULK, { _state: '', _action: 'delete', _id: ids.slice(1, 3) });
    assert.match(readable(others), /They will be permanently deleted\. Delete 2 records Cancel$/);
  });

  test('do not delete records on which a table outside the registry depends', async () => {
    await service.sql.unsafe(`
      create table unknown (item integer references item, place integer, primary key (item, place));
      insert into unknown select id, 1 from item where amount = 1;`);
    try {
      const page = await ada.post(BULK, { _state: '', _action: 'delete', _all: '1' });
      assert.match(readable(page), /Cannot delete: other records depend on them 4 records that the admin area does not show/); // prettier-ignore
      assert.doesNotMatch(page.text, /class="danger"/);
      const free = await ada.post(BULK, { _state: 'amount=2', _action: 'delete', _all: '1' });
      assert.equal((await submit(free, 'confirm')).status, 303);
    } finally {
      await service.sql`drop table unknown`;
    }
  });

  test('export the selected records', async () => {
    for (const format of ['csv', 'json']) {
      const answer = await ada.post(BULK, { _state: '', _action: `export.${format}`, _id: ids.slice(0, 2) });
      assert.equal(answer.status, 200);
      assert.match(answer.text, /item 1[\s\S]*item 2/);
      assert.doesNotMatch(answer.text, /item 3|hidden|secret/);
    }
  });
});
