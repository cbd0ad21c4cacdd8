// Values of megabytes in lists, confirmations and the history: only the part that is shown is read.
import assert from 'node:assert/strict';
import { user } from '../../src/resources/registry.ts';
import { startService, type TestService } from '../support.ts';
import { logIn, readable, unescaped, type Browser } from './support.ts';
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
    service = await startService([user, item, tag], { maxPage: 1_000_000 });
    await service.addUser('ada', { admin: true });
    ada = await logIn(service, 'ada');
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
  let service: TestService;
  let ada: Browser;
  const columns = Array.from({ length: 12 }, (_, index) => `c${index}`);
  const wide = {
    model: 'wide',
    access: 'admin',
    columns: Object.fromEntries(columns.map((name) => [name, { type: 'text', null: true }] as const)),
  } as const;
  before(async () => {
    service = await startService([user, item, wide]);
    await service.addUser('ada', { admin: true });
    ada = await logIn(service, 'ada');
  });
  after(() => service.close());

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
        assert.equal([...change.text.matchAll(/<th scope="row">C\d+<\/th>/g)].length, columns.length);
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
