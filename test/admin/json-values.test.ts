// JSON columns in forms: values are kept as they are.
import assert from 'node:assert/strict';
import type { Resource } from '../../src/index.ts';
import shipped from '../../src/resources/registry.ts';
import { startService, type TestService } from '../support.ts';
import { fieldsOf, logIn, readable, type AdminAnswer, type Browser } from './support.ts';
import { after, before, describe, test } from '../testing.ts';

const paper: Resource = {
  model: 'paper',
  columns: {
    name: { type: 'string' },
    doc: { type: 'json', null: true },
    must: { type: 'json', default: 'a "text"' },
    level: { type: 'integer', default: 5 },
  },
  access: 'user',
  admin: { title: 'Papers', label: '{name}' },
};

/** JSON values of each kind, among them strings that look like other kinds. */
const VALUES = ['""', '"1"', '"true"', '"{}"', '"null"', '"a \\"b\\""', '1', 'true', '{"a": [1.50]}', '[]'];

describe('a JSON value in a form', () => {
  let service: TestService;
  let ada: Browser;
  before(async () => {
    service = await startService([...shipped, paper]);
    await service.addUser('ada', { admin: true });
    ada = await logIn(service, 'ada');
  });
  after(() => service.close());

  async function insert(name: string, doc: string): Promise<string> {
    const [row] = await service.sql`
      insert into paper (name, doc, must) values (${name}, ${doc}::text::jsonb, ${doc}::text::jsonb) returning id`;
    return `/admin/paper/${row?.['id']}/`;
  }
  async function row(path: string): Promise<Record<string, unknown>> {
    const [found] = await service.sql`
      select name, doc::text, must::text, level from paper where id = ${Number(path.split('/')[3])}`;
    return { ...found };
  }
  async function save(path: string, fields: Record<string, string>): Promise<AdminAnswer> {
    return ada.post(path, { ...fieldsOf(await ada.get(path)), ...fields });
  }

  for (const value of VALUES) {
    test(`${value} is unchanged after a save, and in a copy`, async () => {
      const path = await insert('kept', value);
      const { doc } = await row(path);
      const fields = fieldsOf(await ada.get(path));
      assert.deepEqual([fields['doc'], fields['must']], [doc, doc]);
      assert.equal((await save(path, { name: 'changed' })).status, 303);
      assert.deepEqual(await row(path), { name: 'changed', doc, must: doc, level: 5 });
      const copy = await save(path, { name: 'copy', _save: 'new' });
      assert.equal(copy.status, 303, copy.text);
      assert.deepEqual(await row(copy.location ?? ''), { name: 'copy', doc, must: doc, level: 5 });
      const history = await ada.get(`${path}history/`);
      assert.doesNotMatch(readable(history), /Doc/, 'the history has no unchanged column');
    });
  }

  test('a form for a new record shows a default string with its quotes', async () => {
    const page = await ada.get('/admin/paper/-/add/');
    assert.equal(fieldsOf(page)['must'], '"a \\"text\\""');
    const { location = '' } = await save('/admin/paper/-/add/', { name: 'new', _save: 'stay' });
    assert.equal((await row(location))['must'], '"a \\"text\\""');
  });
});
