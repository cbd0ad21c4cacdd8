// Required fields in forms: their mark, and the check by the server.
import assert from 'node:assert/strict';
import type { Resource } from '../../src/index.ts';
import { startService, type TestService } from '../support.ts';
import { fieldsOf, logIn, readable, type AdminAnswer, type Browser } from './support.ts';
import shipped from '../../src/resources/registry.ts';
import { after, before, describe, test } from 'node:test';

const resources: readonly Resource[] = [
  ...shipped,
  {
    model: 'open',
    columns: {
      name: { type: 'string' },
      nick: { type: 'string', default: '' },
      day: { type: 'date', default: 'now' },
    },
  },
];

let service: TestService;
let ada: Browser;
before(async () => {
  service = await startService(resources);
  await service.addUser('ada', { admin: true, email: '' });
  ada = await logIn(service, 'ada');
});
after(() => service.close());

/** The labels of the fields that have the mark. */
const marked = ({ text }: AdminAnswer): string[] =>
  [...text.matchAll(/<label[^>]*>([^<]*)<span class="required"/g)].map(([, label = '']) => label.trim());

/** Adds a record of `open`. @returns the address of its page */
async function addOpen(fields: Record<string, string>): Promise<string> {
  const page = await ada.get('/admin/open/-/add/');
  const answer = await ada.post('/admin/open/-/add/', { ...fieldsOf(page), ...fields, _save: 'stay' });
  assert.equal(answer.status, 303, readable(answer));
  return answer.location ?? '';
}

describe('required fields', () => {
  test('are marked in the forms of new and existing records, with an explanation of the mark', async () => {
    const add = await ada.get('/admin/open/-/add/');
    assert.deepEqual(marked(add), ['Name']);
    assert.match(readable(add), /Fields marked \* are required\./);
    const address = await addOpen({ name: 'Marked' });
    // A column with a default is optional for new records only.
    assert.deepEqual(marked(await ada.get(address)), ['Name', 'Day']);
  });

  test('cannot be cleared, but a text column with a default can', async () => {
    const address = await addOpen({ name: 'Emptied', nick: 'E' });
    const fields = fieldsOf(await ada.get(address));
    const refused = await ada.post(address, { ...fields, name: '', nick: '' });
    assert.equal(refused.status, 400);
    assert.match(readable(refused), /One field has an error Name ?: is required/);
    assert.equal((await ada.post(address, { ...fields, nick: '' })).status, 303);
    const rows = await service.sql`select name, nick from open where name = 'Emptied'`;
    assert.deepEqual([...rows], [{ name: 'Emptied', nick: '' }]);
  });

  test('are not marked and may stay empty when the stored value is empty', async () => {
    const page = await ada.get('/admin/user/1/');
    assert.deepEqual(marked(page), ['Username', 'Join date']);
    const saved = await ada.post('/admin/user/1/', { ...fieldsOf(page), join_date: '2020-01-01T00:00' });
    assert.equal(saved.status, 303);
  });

  test('are checked by the server alone, so that it reports all errors at once', async () => {
    const { text } = await ada.get('/admin/open/-/add/');
    const form = /<form[^>]*class="record"[^]*?<\/form>/.exec(text)?.[0] ?? '';
    assert.doesNotMatch(form, /novalidate|\srequired[\s/>]/);
    assert.match(form, /aria-required="true"/);
  });
});

test('a user with an empty e-mail address can be changed', async () => {
  const fields = fieldsOf(await ada.get('/admin/user/1/'));
  assert.equal(fields['email'], '');
  const saved = await ada.post('/admin/user/1/', { ...fields, join_date: '2020-01-02T00:00' });
  assert.equal(saved.status, 303);
});
