// Records with values of megabytes: lists and confirmations read no more of them than they show.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { user } from '../../src/resources/registry.ts';
import { startService, type TestService } from '../support.ts';
import { logIn, type Browser } from './support.ts';

const item = {
  model: 'item',
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
    // Ten records in full would be more than a page may have.
    service = await startService([user, item, tag], { maxPage: 1_000_000 });
    await service.addUser('ada', { admin: true });
    ada = await logIn(service, 'ada');
    await service.sql`insert into item (name, text, data)
      select 'a', repeat('é', 300000), ('{"k":"' || repeat('v', 300000) || '"}')::jsonb from generate_series(1, 10)`;
    await service.sql`insert into item (name, text, data) values ('b', ${' '.repeat(5000) + 'x'}, '"short"')`;
  });
  after(() => service.close());

  test('are read in part by lists, and shown with a mark', async () => {
    const { status, text } = await ada.get('/admin/item/?ordering=id');
    assert.equal(status, 200);
    assert.equal([...text.matchAll(/>é{100}…</g)].length, 10);
    assert.equal([...text.matchAll(/>\{&quot;k&quot;: &quot;v{93}…</g)].length, 10);
    assert.match(text, /data-label="Text">\s*…</);
    assert.match(text, />&quot;short&quot;</);
  });

  test('are read in part by the page that asks before a record is deleted', async () => {
    const page = await ada.get('/admin/item/1/delete/');
    assert.match(page.text, />é{300}…</);
    assert.ok(page.text.length < 20_000);
    const version = /name="_version" value="([^"]*)"/.exec(page.text)?.[1];
    const form = await ada.get('/admin/item/1/');
    assert.ok(form.text.includes('é'.repeat(300_000)), 'the form has the whole value');
    assert.ok(version && form.text.includes(`name="_version" value="${version}"`));
  });

  test('are never keys, which lead to records', async () => {
    const id = 'k'.repeat(3000);
    await service.sql`insert into tag (id, text) values (${id}, 'x')`.catch(async () => {
      await service.sql`alter table tag alter column id type text`;
      await service.sql`insert into tag (id, text) values (${id}, 'x')`;
    });
    assert.ok((await ada.get('/admin/tag/')).text.includes(`/admin/tag/${id}/`));
  });
});
