// Links between the pages: from messages, to lists and to the API.
import assert from 'node:assert/strict';
import type { Resource } from '../../src/index.ts';
import { startService, type TestService } from '../support.ts';
import { fieldsOf, hiddenFields, logIn, type Browser } from './support.ts';
import { resources as shipped } from './sample-resources.ts';
import { after, before, describe, test } from 'node:test';

const resources: readonly Resource[] = [
  ...shipped,
  {
    model: 'open',
    columns: {
      name: { type: 'string' },
      unseen: { type: 'string', null: true },
      owner: { type: 'foreignKey', references: 'closed', null: true },
    },
    exclude: ['unseen'],
  },
  { model: 'closed', columns: { name: { type: 'string' } }, read: 'user' },
  { model: 'silent', columns: { name: { type: 'string' } }, access: 'user', methods: ['POST'] },
];

let service: TestService;
let ada: Browser;
before(async () => {
  service = await startService(resources);
  await service.addUser('ada', { admin: true });
  await service.sql`insert into closed (name) values ('one')`;
  await service.sql`insert into silent (name) values ('one')`;
  ada = await logIn(service, 'ada');
});
after(() => service.close());

test('the message after a save links to the record, except on the page of the record', async () => {
  const page = await ada.get('/admin/open/-/add/');
  for (const [save, isLinked] of [
    ['list', true],
    ['another', true],
    ['stay', false],
  ] as const) {
    const fields = { ...fieldsOf(page), name: `Saved by ${save}`, _save: save };
    const next = await ada.follow(await ada.post('/admin/open/-/add/', fields));
    assert.match(next.text, new RegExp(`“Saved by ${save}” was added\\.`));
    assert.equal(/<a href="\/admin\/open\/\d+\/">View record<\/a>/.test(next.text), isLinked, save);
  }
});

test('the 404 page of a record links to the list and to the history of the record', async () => {
  const page = await ada.get('/admin/open/4711/');
  assert.equal(page.status, 404);
  assert.ok(
    page.text.includes('href="/admin/open/"') && page.text.includes('href="/admin/open/4711/history/"'),
  );
});

test('the navigation marks the current list', async () => {
  assert.match((await ada.get('/admin/open/')).text, /<a href="\/admin\/open\/"\s*aria-current="true">/);
});

test('deleting a record returns to the list from which it was opened', async () => {
  const [row] = await service.sql`insert into thing (name) values ('Gone') returning id`;
  const address = `/admin/thing/${row?.['id']}/`;
  const page = await ada.get(address, { referer: `${service.base}/admin/thing/?name__ilike=G%25&page=1` });
  const [, href = ''] = /href="([^"]*\/delete\/[^"]*)"/.exec(page.text) ?? [];
  const confirmation = await ada.get(href.replaceAll('&amp;', '&'));
  const done = await ada.post(`${address}delete/`, hiddenFields(confirmation, 'confirm'));
  assert.equal(done.location, '/admin/thing/?name__ilike=G%25&page=1');
});

describe('links to the API', () => {
  for (const [path, expected] of [
    ['/admin/open/', /<code>\/api\/open\/<\/code><\/a\s*>\./],
    ['/admin/open/?name=x&_search=y', /<code>\/api\/open\/\?name=x<\/code><\/a\s*> \(without the search\)\./],
    ['/admin/closed/', /<code>\/api\/closed\/<\/code><\/a\s*> \(requires a separate login\)\./],
    ['/admin/open/?owner__name=one', /\(requires a separate login\)\./],
    ['/admin/open/?unseen=x', undefined],
    ['/admin/open/?ordering=unseen', undefined],
    ['/admin/silent/', undefined],
    ['/admin/closed/1/', /title="requires a separate login">API</],
    ['/admin/silent/1/', undefined],
  ] as const)
    test(`${path} has ${expected ? 'a link to the same records' : 'no link, because the API would refuse it'}`, async () => {
      const { status, text } = await ada.get(path);
      assert.equal(status, 200);
      if (expected) assert.match(text, expected);
      else assert.doesNotMatch(text, /href="\/api\//);
    });
});
