// What the pages say beside the records: what must be filled in, what was done and where it is, and what the API would answer.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import type { Resource } from '../../src/index.ts';
import { startService, type TestService } from '../support.ts';
import { fieldsOf, logIn, readable, type AdminAnswer, type Browser } from './support.ts';
import { resources as shipped } from './things.ts';

const resources: readonly Resource[] = [
  ...shipped,
  {
    model: 'open',
    columns: {
      name: { type: 'string' },
      nick: { type: 'string', default: '' },
      day: { type: 'date', default: 'now' },
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
  await service.addUser('ada', { admin: true, email: '' });
  await service.sql`insert into closed (name) values ('one')`;
  await service.sql`insert into silent (name) values ('one')`;
  ada = await logIn(service, 'ada');
});
after(() => service.close());

/** The labels of the fields that have the mark. */
const marked = ({ text }: AdminAnswer): string[] =>
  [...text.matchAll(/<label[^>]*>([^<]*)<span class="required"/g)].map(([, label = '']) => label.trim());

async function opened(fields: Record<string, string>): Promise<string> {
  const page = await ada.get('/admin/open/-/add/');
  const answer = await ada.post('/admin/open/-/add/', { ...fieldsOf(page), ...fields, _save: 'stay' });
  assert.equal(answer.status, 303, readable(answer));
  return answer.location ?? '';
}

describe('what must be filled in', () => {
  test('is marked alike on a new record and on one that is there, and the mark is explained', async () => {
    const add = await ada.get('/admin/open/-/add/');
    assert.deepEqual(marked(add), ['Name']);
    assert.match(readable(add), /Fields marked \* are required\./);
    const address = await opened({ name: 'Marked' });
    // What has a default may be left out at first only.
    assert.deepEqual(marked(await ada.get(address)), ['Name', 'Day']);
  });

  test('cannot be emptied, but a text with a default can', async () => {
    const address = await opened({ name: 'Emptied', nick: 'E' });
    const fields = fieldsOf(await ada.get(address));
    const refused = await ada.post(address, { ...fields, name: '', nick: '' });
    assert.equal(refused.status, 400);
    assert.match(readable(refused), /One field has an error Name ?: is required/);
    assert.equal((await ada.post(address, { ...fields, nick: '' })).status, 303);
    const rows = await service.sql`select name, nick from open where name = 'Emptied'`;
    assert.deepEqual([...rows], [{ name: 'Emptied', nick: '' }]);
  });

  test('may stay empty where it was, which is not marked', async () => {
    const page = await ada.get('/admin/user/1/');
    assert.deepEqual(marked(page), ['Username', 'Join date']);
    const saved = await ada.post('/admin/user/1/', { ...fieldsOf(page), join_date: '2020-01-01T00:00' });
    assert.equal(saved.status, 303);
  });

  test('is asked for by the service, so that all faults are told at once, but the browser refuses what it cannot send', async () => {
    const { text } = await ada.get('/admin/open/-/add/');
    const form = /<form[^>]*class="record"[^]*?<\/form>/.exec(text)?.[0] ?? '';
    assert.doesNotMatch(form, /novalidate|\srequired[\s/>]/);
    assert.match(form, /aria-required="true"/);
  });

  test('of two passwords that differ only that is told', async () => {
    const fields = { username: 'new', email: 'e', active: 'true' };
    const page = await ada.post('/admin/user/-/add/', { ...fields, _password: 'a', _repeat: 'b' });
    assert.match(readable(page), /One field has an error New password, again ?: does not match the new/);
  });
});

test('the message after a record was saved leads to it from wherever one comes to', async () => {
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

test('the page of a record that is not there leads to the list and to what was written down of it', async () => {
  const page = await ada.get('/admin/open/4711/');
  assert.equal(page.status, 404);
  assert.ok(
    page.text.includes('href="/admin/open/"') && page.text.includes('href="/admin/open/4711/history/"'),
  );
});

test('the list that one looks at is marked among the lists', async () => {
  assert.match((await ada.get('/admin/open/')).text, /<a href="\/admin\/open\/"\s*aria-current="true">/);
});

describe('the way to the API', () => {
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
    test(`of ${path} ${expected ? 'is there, with what it asks for' : 'is not there, since it would refuse'}`, async () => {
      const { status, text } = await ada.get(path);
      assert.equal(status, 200);
      if (expected) assert.match(text, expected);
      else assert.doesNotMatch(text, /href="\/api\//);
    });
});
