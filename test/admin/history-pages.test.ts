// The pages of the history: of a record, of an entry, and the list.
import assert from 'node:assert/strict';
import { ada, service, useHistory } from './history-support.ts';
import { fieldsOf, readable } from './support.ts';
import { describe, test } from 'node:test';

describe('the history', () => {
  useHistory();

  test('shows the changes of a record, newest first, with labels of related records', async () => {
    const kind = await service.send('POST', '/api/kind/', { name: 'Fruit <b>' });
    const { json } = await service.send('POST', '/api/item/', {
      name: '<i>Pear</i>',
      at: '2024-05-31 18:30:00',
    });
    await service.send('PUT', `/api/item/${json.id}/`, { kind_id: kind.json.id });
    await service.send('PUT', `/api/item/${json.id}/`, { name: '', kind_id: null });
    const page = await ada.get(`/admin/item/${json.id}/history/`);
    assert.equal(page.status, 200);
    assert.doesNotMatch(page.text, /<i>Pear|Fruit <b>/);
    const text = readable(page);
    assert.match(text, /Changed by ada through the API, .*Column Before After Name <i>Pear<\/i> empty text Kind Fruit <b> — .*Changed by ada.*Kind — Fruit <b> .*Added by ada.*Column Value Name <i>Pear<\/i> Price — At 2024-05-31 18:30:00/); // prettier-ignore
    assert.ok(page.text.includes(`href="/admin/user/${service.ada}/"`));
    assert.ok(page.text.includes(`href="/admin/kind/${kind.json.id}/"`));
  });

  test('shows a deleted record, with a link to add it again', async () => {
    const { json } = await service.send('POST', '/api/item/', { name: 'Back & again', price: '1.50' });
    await service.send('DELETE', `/api/item/${json.id}/`);
    const page = await ada.get(`/admin/item/${json.id}/history/`);
    assert.match(
      readable(page),
      /^History of Back & again Add it again This record no longer exists\. Deleted by ada/,
    );
    const again =
      /href="(\/admin\/item\/-\/add\/[^"]*)"/.exec(page.text)?.[1]?.replaceAll('&amp;', '&') ?? '';
    assert.equal(again, '/admin/item/-/add/?name=Back%20%26%20again&price=1.50');
    assert.match((await ada.get(again)).text, /value="Back &amp; again"/);
  });

  test('adds a deleted record again without the defaults that it did not have', async () => {
    const values = { title: 'Empty', state: null, level: null, done: null };
    const { json } = await service.send('POST', '/api/ticket/', values);
    await service.send('DELETE', `/api/ticket/${json.id}/`);
    const page = await ada.get(`/admin/ticket/${json.id}/history/`);
    const again = /href="(\/admin\/ticket\/-\/add\/[^"]*)"/.exec(page.text)?.[1] ?? '';
    const form = await ada.get(again.replaceAll('&amp;', '&'));
    const added = await ada.post('/admin/ticket/-/add/', fieldsOf(form));
    assert.equal(added.status, 303, readable(added));
    const rows = await service.sql`select title, state, level, done from ticket`;
    assert.deepEqual([...rows], [values]);
  });

  test('has pages of 50 changes', async () => {
    const { json } = await service.send('POST', '/api/kind/', { name: 'v0' });
    await service.sql`
      insert into vitrine_history (user_name, user_key, door, action, model, record, before, after)
      select 'gone', '999999', 'api', 'update', 'kind', ${String(json.id)}, '{"name":"v' || n || '"}', '{"name":"v' || n + 1 || '"}'
      from generate_series(1, 60) n`;
    const path = `/admin/kind/${json.id}/history/`;
    const first = await ada.get(path);
    assert.equal([...first.text.matchAll(/class="change"/g)].length, 50);
    assert.match(readable(first), /v60 v61.*Page 1 Older$/);
    assert.match(readable(first), /Changed by gone through the API/);
    assert.doesNotMatch(first.text, /href="\/admin\/user\/999999/);
    const second = await ada.get(`${path}?page=2`);
    assert.equal([...second.text.matchAll(/class="change"/g)].length, 11);
    assert.match(readable(second), /Newer Page 2$/);
    for (const page of ['0', 'x', '-1', '1.5'])
      assert.equal((await ada.get(`${path}?page=${page}`)).status, 400, page);
  });

  test('can be searched and filtered, and each entry has a page', async () => {
    const { json } = await service.send('POST', '/api/kind/', { name: 'needle in it' });
    await service.send('POST', '/api/kind/', { name: 'hay' });
    const list = await ada.get('/admin/vitrine_history/?_search=needle');
    assert.match(readable(list), /\b1 record\b/);
    assert.match(readable(await ada.get('/admin/vitrine_history/?model=kind&action=create')), /of 2 records/);
    const link = /href="(\/admin\/vitrine_history\/\d+\/)"/.exec(list.text)?.[1] ?? '';
    const page = await ada.get(link);
    assert.match(
      readable(page),
      /^Added: Kinds needle in it Added by ada through the API, .*Name needle in it/,
    );
    assert.ok(page.text.includes(`href="/admin/kind/${json.id}/history/"`));
    assert.ok(page.text.includes(`href="/admin/kind/${json.id}/"`));
  });

  test('lists the changed columns and the current or last label of the record', async () => {
    const { json } = await service.send('POST', '/api/kind/', { name: 'first name' });
    await service.send('PUT', `/api/kind/${json.id}/`, { name: 'second name' });
    const path = `/admin/vitrine_history/?model=kind&record=${json.id}`;
    const present = await ada.get(path);
    assert.match(readable(present), /changed: Name Kinds second name/);
    assert.match(readable(present), /added Kinds second name/);
    assert.ok(present.text.includes(`<a href="/admin/kind/${json.id}/">second name</a>`));
    await service.send('DELETE', `/api/kind/${json.id}/`);
    const gone = await ada.get(path);
    assert.match(readable(gone), /deleted Kinds second name/);
    assert.match(readable(gone), /added Kinds first name/);
    assert.ok(!gone.text.includes(`<a href="/admin/kind/${json.id}/">`));
  });

  for (const [filter, chosen, chip, offered] of [
    ['model', 'kind', 'Model is Kinds', 'Items'],
    ['action', 'delete', 'Action is deleted', 'added'],
    ['door', 'api', 'Where is API', 'Command line'],
  ] as const)
    test(`can be filtered by the displayed values of ${filter}`, async () => {
      const form = await ada.get(`/admin/vitrine_history/?_filter=${filter}`);
      assert.match(form.text, new RegExp(`<option value="\\w+"\\s*>${offered}</option>`));
      const list = await ada.get(`/admin/vitrine_history/?${filter}=${chosen}`);
      assert.equal(list.status, 200);
      assert.ok(readable(list).includes(chip), readable(list).slice(0, 300));
      assert.match(list.text, /Change this filter/);
    });

  test('hides the values of old entries that the admin area does not show now', async () => {
    const add = async (model: string, action: string, values: string): Promise<string> => {
      const [row] = await service.sql<{ id: string }[]>`
        insert into vitrine_history (door, action, model, record, before, after)
        values ('api', ${action}, ${model}, '77', ${action === 'create' ? null : values}, ${action === 'delete' ? null : values})
        returning id::text`;
      return row?.id ?? '';
    };
    const values = '{"name":"seen","hidden":"PRIVATE","dropped":"PRIVATE","secret":"PRIVATE"}';
    for (const action of ['create', 'update', 'delete']) {
      const page = await ada.get(`/admin/vitrine_history/${await add('item', action, values)}/`);
      assert.match(readable(page), /seen/);
      assert.doesNotMatch(page.text, /PRIVATE|Hidden|[Dd]ropped/);
    }
    const other = await ada.get(`/admin/vitrine_history/${await add('forgotten', 'create', values)}/`);
    assert.match(readable(other), /The admin area does not show the records of forgotten\./);
    assert.doesNotMatch(other.text, /PRIVATE|seen/);
    assert.doesNotMatch((await ada.get('/admin/item/77/history/')).text, /PRIVATE/);
  });

  test('returns 404 for records that never existed, and cannot be changed', async () => {
    for (const path of [
      '/admin/item/999999/history/',
      '/admin/item/x/history/',
      '/admin/item/%00/history/',
      '/admin/odd/%00/history/',
      '/admin/vitrine_history/1/history/',
      '/admin/vitrine_history/999999/',
      '/admin/vitrine_history/-/add/',
      '/admin/vitrine_session/x/history/',
    ])
      assert.equal((await ada.get(path)).status, 404, path);
    assert.equal((await ada.post('/admin/vitrine_history/1/', { action: 'create' })).status, 404);
  });
});
