// Values of megabytes: lists, confirmations and the history read only the part that is shown, and forms leave them out.
import assert from 'node:assert/strict';
import { user } from '../../src/resources/registry.ts';
import type { Sql, TestService } from '../support.ts';
import { fieldsOf, readable, save, startAdmin, unescaped, useAdmin, type Browser } from './support.ts';
import { hiddenInputs, PIECE } from '../../src/admin/web/html.ts';
import { countTurns } from '../turns.ts';
import { after, before, describe, test } from 'node:test';

const item = {
  model: 'item',
  access: 'admin',
  columns: { name: { type: 'string' }, text: { type: 'text' }, data: { type: 'json' } },
  admin: { label: 'name', list: ['id', 'name', 'text', 'data'] },
} as const;
const tag = {
  model: 'tag',
  primaryKey: { type: 'string' },
  columns: { text: { type: 'text' } },
} as const;

describe('long values in the admin area', () => {
  let service: TestService;
  let ada: Browser;
  before(async () => {
    // Ten complete records exceed `maxPage`.
    ({ service, ada } = await startAdmin([user, item, tag], { maxPage: 1_000_000 }));
    await service.sql`insert into item (name, text, data)
      select 'a', repeat('é', 300000), ('{"k":"' || repeat('v', 300000) || '"}')::jsonb from generate_series(1, 10)`;
    await service.sql`insert into item (name, text, data) values ('b', ${' '.repeat(5000) + 'x'}, '"short"')`;
  });
  after(() => service.close());

  test('are cut in lists, with an ellipsis', async () => {
    const { status, text } = await ada.get('/admin/item/?ordering=id');
    assert.equal(status, 200);
    assert.equal([...text.matchAll(/>é{100}…</g)].length, 10);
    assert.equal([...text.matchAll(/>\{&quot;k&quot;: &quot;v{93}…</g)].length, 10);
    assert.match(text, /data-label="Text">\s*…</);
    assert.match(text, />&quot;short&quot;</);
  });

  test('are cut on the page that confirms a deletion', async () => {
    const page = await ada.get('/admin/item/1/delete/');
    assert.match(page.text, />é{300}…</);
    assert.ok(page.text.length < 20_000);
    const version = /name="_version" value="([^"]*)"/.exec(page.text)?.[1];
    const form = await ada.get('/admin/item/1/');
    assert.ok(form.text.includes('é'.repeat(300_000)), 'the form has the whole value');
    assert.ok(version && form.text.includes(`name="_version" value="${version}"`));
  });

  test('are not cut in keys, because links need them', async () => {
    const id = 'k'.repeat(3000);
    await service.sql`insert into tag (id, text) values (${id}, 'x')`.catch(async () => {
      await service.sql`alter table tag alter column id type text`;
      await service.sql`insert into tag (id, text) values (${id}, 'x')`;
    });
    assert.ok((await ada.get('/admin/tag/')).text.includes(`/admin/tag/${id}/`));
  });
});

describe('long values in the history', () => {
  const columns = Array.from({ length: 12 }, (_, index) => `c${index}`);
  const wide = {
    model: 'wide',
    access: 'admin',
    columns: Object.fromEntries(columns.map((name) => [name, { type: 'text', null: true }] as const)),
  } as const;
  const { service, ada } = useAdmin([user, item, wide]);

  test('are cut, with their size and a link to the whole change', async () => {
    const text = `<b>"\u000b${'é'.repeat(400_000)}`;
    const data = { k: ['"', 'v'.repeat(200_000)] };
    const body = { name: 'a', text, data };
    const added = await service.request('/api/item/', { method: 'POST', user: 'ada', body });
    assert.equal(added.status, 201, added.text);
    const { id } = added.json as { id: number };
    const changed = await service.request(`/api/item/${id}/`, {
      method: 'PUT',
      user: 'ada',
      body: { ...body, text: `${text}!` },
    });
    assert.equal(changed.status, 200);
    const page = await ada.get(`/admin/item/${id}/history/`);
    assert.ok(page.text.length < 40_000, `${page.text.length} characters`);
    assert.match(readable(page), /<b>"\\u000bé{1980,2000} … truncated: 800,0(05|10) bytes in total/);
    assert.match(readable(page), /\{"k": ?\["\\"", ?"v{1900,2000} … truncated: 200,\d{3} bytes in total/);
    const [, href = ''] = /<a href="([^"]*)">truncated: 800,0/.exec(page.text) ?? [];
    const [whole] = JSON.parse((await ada.get(unescaped(href))).text) as { before: string; after: string }[];
    assert.deepEqual(JSON.parse(whole?.after ?? ''), { text: `${text}!` });
    assert.deepEqual(JSON.parse(whole?.before ?? ''), { text });
    const [, change = ''] = /<a href="(\/admin\/vitrine_history\/\d+\/)"/.exec(page.text) ?? [];
    for (const path of [change, '/admin/vitrine_history/', '/admin/']) {
      const answer = await ada.get(path);
      assert.equal(answer.status, 200);
      assert.ok(answer.text.length < 40_000, `${path}: ${answer.text.length} characters`);
    }
  });

  test('of a deleted record are not offered to be added again, because they are cut', async () => {
    const [row] = await service.sql<{ id: number }[]>`
      insert into item (name, text, data) values ('gone', ${'x'.repeat(9000)}, '1') returning id`;
    const path = `/api/item/${row?.id}/`;
    assert.equal((await service.request(path, { method: 'DELETE', user: 'ada' })).status, 200);
    const page = await ada.get(`/admin/item/${row?.id}/history/`);
    assert.match(readable(page), /x{2000} … truncated: 9,000 bytes in total/);
    assert.doesNotMatch(page.text, /Add it again/);
  });

  test('of 50 changes with 12 columns each fit on one page', async () => {
    // Escaping makes quotation marks the longest. Texts of 1,360 characters are just short enough to be shown in full.
    for (const [sign, size] of [
      ['"', 8190],
      ['<', 8190],
      ['<', 1360],
    ] as const) {
      const body = Object.fromEntries(columns.map((column) => [column, sign.repeat(size)]));
      const added = await service.request('/api/wide/', { method: 'POST', user: 'ada', body });
      const { id } = added.json as { id: number };
      for (let index = 0; index < 50; index += 1) {
        const changed = Object.fromEntries(columns.map((column) => [column, `${sign.repeat(size)}${index}`]));
        const path = `/api/wide/${id}/`;
        assert.equal(
          (await service.request(path, { method: 'PUT', user: 'ada', body: changed })).status,
          200,
        );
      }
      const page = await ada.get(`/admin/wide/${id}/history/`);
      assert.equal(page.status, 200);
      assert.equal([...page.text.matchAll(/<section class="change">/g)].length, 50);
      assert.ok(page.text.length < 2_000_000, `${page.text.length} characters`);
      const [, line] = /The values do not fit on this page. <a href="([^"]*)"/.exec(page.text) ?? [];
      const [, first = ''] = /<a href="(\/admin\/vitrine_history\/\d+\/)"/.exec(page.text) ?? [];
      for (const path of [line ?? first, first]) {
        const change = await ada.get(path);
        assert.equal([...change.text.matchAll(/<th scope="row"[^>]*>C\d+<\/th>/g)].length, columns.length);
      }
    }
  });

  test('are searched completely by filters', async () => {
    const text = `${'x'.repeat(9000)}needle`;
    const body = { name: 'a', text, data: 1 };
    assert.equal((await service.request('/api/item/', { method: 'POST', user: 'ada', body })).status, 201);
    const page = await ada.get('/admin/vitrine_history/?after__ilike=%25needle%25');
    assert.equal([...page.text.matchAll(/href="\/admin\/item\/\d+\/"/g)].length, 1);
  });
});

const figure = { model: 'figure', columns: { price: { type: 'decimal' } } } as const;

const MB = 1_000_000;

describe('very long values in forms', () => {
  const { service, ada } = useAdmin([user, item, figure]);

  const add = async (text: string, data: string): Promise<string> => {
    const [row] = await service.sql<{ id: number }[]>`
      insert into item (name, text, data) values ('a', ${text}, ${data}::text::jsonb) returning id`;
    return `/admin/item/${row?.id}/`;
  };
  const valuesOf = async (path: string) => {
    const [row] = await service.sql<{ name: string; text: string; size: number }[]>`
      select name, text, length(data::text) as size from item where id = ${Number(/\d+/.exec(path)?.[0])}`;
    return row;
  };
  const json = (size: number): string => `{"k":"${'v'.repeat(size)}"}`;

  test('a value of 1 MB can be edited, even if many characters need escaping', async () => {
    const text = '<"&>\n😀'.repeat(MB / 10);
    const path = await add(text, '"short"');
    const fields = fieldsOf(await ada.get(path));
    assert.equal(fields['text'], text);
    assert.equal((await ada.post(path, { ...fields, name: 'b' })).status, 303);
    assert.deepEqual(await valuesOf(path), { name: 'b', text, size: 7 });
    assert.equal((await save(ada, path, { text: `x${text}` })).status, 303);
    assert.equal((await valuesOf(path))?.text, `x${text}`);
  });

  test('a number that is too large for a browser is edited in a text field', async () => {
    for (const [digits, control] of [
      [308, 'number'],
      [310, 'text'],
    ] as const) {
      const [row] =
        await service.sql`insert into figure (price) values (repeat('9', ${digits})::numeric) returning id`;
      const { text } = await ada.get(`/admin/figure/${row?.['id']}/`);
      assert.equal(/name="price"[^>]*type="(\w+)"/.exec(text)?.[1], control);
    }
  });

  test('a value that is too long for a form is left out, and a save keeps it', async () => {
    const text = 'é'.repeat(MB);
    const path = await add(text, json(5));
    const page = await ada.get(path);
    assert.ok(page.text.length < 20_000, `${page.text.length} characters`);
    assert.match(
      readable(page),
      /é{300}… Too long to edit here \(2,000,000 bytes\)\. Saving keeps the value\./,
    );
    assert.doesNotMatch(page.text, /name="text"/);
    const [, file = ''] = /<a href="([^"]*)">Download the record/.exec(page.text) ?? [];
    const [record] = JSON.parse((await ada.get(file)).text) as { text: string }[];
    assert.equal(record?.text, text);
    const fields = fieldsOf(page);
    assert.equal((await ada.post(path, { ...fields, name: 'b', data: '[1]' })).status, 303);
    assert.deepEqual(await valuesOf(path), { name: 'b', text, size: 3 });
    const [change] = await service.sql`select before, after from vitrine_history order by id desc limit 1`;
    assert.deepEqual(change, {
      before: '{"name":"a","data":{"k": "vvvvv"}}',
      after: '{"name":"b","data":[1]}',
    });
  });

  test('the longest value is left out when the values are too long together', async () => {
    const path = await add('x'.repeat(0.9 * MB), json(0.2 * MB));
    const fields = fieldsOf(await ada.get(path));
    assert.equal(fields['text'], undefined);
    assert.equal(fields['data']?.length, 0.2 * MB + 9);
  });

  test('a value that is left out is kept after a validation error and after a conflict', async () => {
    const text = 'é'.repeat(MB);
    const path = await add(text, json(5));
    const sent = fieldsOf(await ada.get(path));
    const invalid = await ada.post(path, { ...sent, name: 'b', data: 'no JSON' });
    assert.equal(invalid.status, 400);
    assert.equal(fieldsOf(invalid)['text'], undefined);
    // The value is short now, but the form was made without it.
    await service.sql`update item set text = 'short', name = 'c'`;
    const conflict = await ada.post(path, { ...fieldsOf(invalid), data: '[2]' });
    assert.equal(conflict.status, 409);
    const again = fieldsOf(conflict);
    assert.equal(again['text'], undefined);
    assert.equal(
      (await ada.post(path, { ...again, '_take.name': 'mine', '_take.data': 'mine' })).status,
      303,
    );
    assert.deepEqual(await valuesOf(path), { name: 'b', text: 'short', size: 3 });
  });

  test('a value that became too long is kept after a conflict and a validation error', async () => {
    const path = await add('short', json(5));
    const sent = fieldsOf(await ada.get(path));
    const text = 'é'.repeat(MB);
    await service.sql`update item set text = ${text} where id = ${Number(/\d+/.exec(path)?.[0])}`;
    const conflict = await ada.post(path, { ...sent, name: 'b' });
    const invalid = await ada.post(path, { ...fieldsOf(conflict), data: 'no JSON' });
    assert.equal(invalid.status, 400);
    assert.match(readable(invalid), /Too long to edit here \(2,000,000 bytes\)/);
    const again = fieldsOf(invalid);
    assert.equal(again['text'], undefined);
    assert.equal((await ada.post(path, { ...again, data: '[1]' })).status, 303);
    assert.deepEqual(await valuesOf(path), { name: 'b', text, size: 3 });
  });

  test('a conflict shows what was typed for a value that became too long, to copy', async () => {
    const path = await add('short', json(5));
    const sent = fieldsOf(await ada.get(path));
    const text = 'é'.repeat(MB);
    await service.sql`update item set text = ${text} where id = ${Number(/\d+/.exec(path)?.[0])}`;
    const conflict = await ada.post(path, { ...sent, text: '<mine>' });
    assert.equal(conflict.status, 409);
    assert.match(conflict.text, /<textarea readonly aria-label="Text">\n&lt;mine&gt;<\/textarea>/);
    assert.match(readable(conflict), /Now too long to edit here\. Saving keeps it\./);
    assert.doesNotMatch(conflict.text, /name="text"/);
    assert.equal((await ada.post(path, fieldsOf(conflict))).status, 303);
    assert.deepEqual(await valuesOf(path), { name: 'a', text, size: 14 });
  });

  test('a conflict shows the first difference of long values', async () => {
    const path = await add('short', json(5));
    const sent = fieldsOf(await ada.get(path));
    const text = '<"&>\n'.repeat(MB / 10);
    await service.sql`update item set text = ${`${text}, theirs`} where id = ${Number(/\d+/.exec(path)?.[0])}`;
    const conflict = await ada.post(path, { ...sent, text: `${text}, mine` });
    assert.equal(conflict.status, 409);
    assert.match(readable(conflict), />, mine .*>, theirs/);
    const hidden = / name="text" value="([^"]*)"/.exec(conflict.text)?.[1] ?? '';
    assert.equal(unescaped(hidden), `${text}, mine`);
    assert.ok(
      conflict.text.length - hidden.length < 20_000,
      `${conflict.text.length - hidden.length} characters`,
    );
  });

  test('a conflict ignores the digests of a form that has more of them than columns', async () => {
    const path = await add('short', json(5));
    const sent = fieldsOf(await ada.get(path));
    await service.sql`update item set name = 'c' where id = ${Number(/\d+/.exec(path)?.[0])}`;
    const proposed = await ada.post(path, { ...sent, text: 'mine' });
    assert.equal(fieldsOf(proposed)['_take.text'], 'mine');
    const many = `${sent['_origin']} ${'x '.repeat(200)}`;
    const forged = await ada.post(path, { ...sent, text: 'mine', _origin: many });
    assert.equal(forged.status, 409);
    assert.equal(fieldsOf(forged)['_take.text'], undefined);
  });

  test('hidden fields are made in pieces, so that other requests are served in between', async () => {
    const [[input], turns] = await countTurns(() => hiddenInputs([['a', '"'.repeat(100 * PIECE)]]));
    assert.ok(turns >= 10, `${turns} turns`);
    assert.equal(String(input).length, '<input type="hidden" name="a" value="" />'.length + 600 * PIECE);
    const many = Array.from({ length: 200_000 }, (_, index) => ['field', `${index}`] as const);
    const [, turnsOfMany] = await countTurns(() => hiddenInputs(many));
    assert.ok(turnsOfMany >= 3, `${turnsOfMany} turns`);
  });

  test('“Save as new” asks for the values that were left out', async () => {
    const path = await add('é'.repeat(MB), json(5));
    const page = await save(ada, path, { _save: 'new' });
    assert.equal(page.status, 200);
    assert.match(
      readable(page),
      /This will be saved as a new record.* Not copied, because the value is too long: Text\. /,
    );
    assert.equal(fieldsOf(page)['text'], '');
  });

  test('saving a record that was deleted meanwhile names the values that were left out', async () => {
    const path = await add('é'.repeat(MB), json(5));
    const fields = fieldsOf(await ada.get(path));
    await service.sql`delete from item where id = ${Number(/\d+/.exec(path)?.[0])}`;
    const page = await ada.post(path, { ...fields, name: 'b' });
    assert.equal(page.status, 409);
    assert.match(
      readable(page),
      /This record has been deleted\. .* Not copied, because the value is too long: Text\. /,
    );
    assert.equal(fieldsOf(page)['name'], 'b');
  });
});

describe('forms of records with many columns and a small MAX_BODY', () => {
  for (const maxBody of [1000, 10_050])
    test(`can be opened and saved with MAX_BODY=${maxBody}`, async (t) => {
      const columns = Array.from({ length: 21 }, (_, index) => `c${index}`);
      const wide = {
        model: 'wide',
        access: 'admin',
        columns: Object.fromEntries(columns.map((name) => [name, { type: 'text', null: true }] as const)),
      } as const;
      const { service, ada } = await startAdmin([user, wide], { maxBody });
      t.after(() => service.close());
      await service.sql`insert into wide (c0, c1) values ('a', ${'é'.repeat(maxBody)})`;
      const page = await ada.get('/admin/wide/1/');
      assert.equal(page.status, 200);
      assert.equal(fieldsOf(page)['c1'], undefined);
      assert.equal((await ada.post('/admin/wide/1/', { ...fieldsOf(page), c0: 'b' })).status, 303);
      const [row] = await service.sql`select c0, length(c1) as size from wide`;
      assert.deepEqual(row, { c0: 'b', size: maxBody });
    });
});

describe('the form of a record can be sent back', () => {
  const text = {
    model: 'doc',
    access: 'admin',
    columns: { title: { type: 'string' }, text: { type: 'text' } },
  } as const;
  for (const [content, maxBody, value] of [
    ['1 MiB of line breaks', 2 ** 20, '\n'.repeat(2 ** 20 - 1)],
    ['1 MiB of non-ASCII letters', 2 ** 20, 'é'.repeat(2 ** 19 - 1)],
    ['500 letters and MAX_BODY=1024', 1024, 'é'.repeat(500)],
    ['1 MiB of line breaks and MAX_BODY=3145728', 3 * 2 ** 20, '\n'.repeat(2 ** 20 - 1)],
    ['an empty text and MAX_BODY=1', 1, ''],
  ] as const)
    test(`with ${content}`, async (t) => {
      const { service, ada } = await startAdmin([user, text], { maxBody });
      t.after(() => service.close());
      await service.sql`insert into doc (title, text) values ('a', ${value})`;
      const fields = fieldsOf(await ada.get('/admin/doc/1/'));
      // Browsers send line breaks as CR LF.
      const sent = { ...fields, title: 'b', text: value.replaceAll('\n', '\r\n') };
      assert.equal((await ada.post('/admin/doc/1/', sent)).status, 303);
      const [row] = await service.sql`select title, text = ${value} as same from doc`;
      assert.deepEqual(row, { title: 'b', same: true });
      const most = Math.max(3 * maxBody, 6 * Math.min(maxBody, 2 ** 20) + 65_536);
      assert.equal((await ada.post('/admin/doc/1/', { ...fields, text: 'x'.repeat(most) })).status, 413);
      assert.equal((await ada.post('/admin/-/logout/')).status, 303);
    });
});

test('a form leaves out several values of nearly 1 GB each', async (t) => {
  const prepare = async (sql: Sql): Promise<void> => {
    // Replaces PostgreSQL's function, because real values of this size would take minutes.
    await sql`create function public.octet_length(text) returns int language sql as 'select 1000000000'`;
    const [row] = await sql<{ name: string }[]>`select current_database() as name`;
    await sql.unsafe(`alter database ${row?.name} set search_path = public, pg_catalog`);
  };
  const { service, ada } = await startAdmin([user, item], { prepare });
  t.after(() => service.close());
  await service.sql`insert into item (name, text, data) values ('a', 'b', '[]')`;
  const page = await ada.get('/admin/item/1/');
  assert.equal(page.status, 200);
  const { name, text, data } = fieldsOf(page);
  assert.deepEqual([name, text, data], [undefined, undefined, undefined]);
});
