// Arrays in the admin area: one element per line in forms, filters, lists and imports.
import assert from 'node:assert/strict';
import type { Resource } from '../../src/index.ts';
import shipped from '../../src/resources/registry.ts';
import { startService, type TestService } from '../support.ts';
import { errorsIn, fieldsOf, logIn, readable, type AdminAnswer, type Browser } from './support.ts';
import { after, before, describe, test } from 'node:test';

const post: Resource = {
  model: 'post',
  columns: {
    name: { type: 'string' },
    tags: { type: 'array', of: 'text', null: true },
    marks: { type: 'array', of: 'integer', default: [1, 2] },
    kinds: { type: 'array', of: 'string', choices: ['a', 'b'] },
    sums: { type: 'array', of: 'decimal', null: true },
    flags: { type: 'array', of: 'boolean', null: true },
    data: { type: 'json', null: true },
  },
  admin: { title: 'Posts', label: '{name}', filters: ['tags', 'data'] },
};

describe('an array in the admin area', () => {
  let service: TestService;
  let ada: Browser;
  before(async () => {
    service = await startService([...shipped, post]);
    await service.addUser('ada', { admin: true });
    ada = await logIn(service, 'ada');
  });
  after(() => service.close());

  async function insert(tags: string | null): Promise<string> {
    const [row] = await service.sql.unsafe(
      'insert into post (name, tags, kinds) values ($1, $2::text::text[], $3::text::text[]) returning id',
      ['x', tags, '{}'],
    );
    return `/admin/post/${row?.['id']}/`;
  }
  async function row(path: string): Promise<Record<string, unknown>> {
    const [found] = await service.sql`
      select tags::text, marks::text, kinds::text, sums::text, flags::text from post where id = ${Number(path.split('/')[3])}`;
    return { ...found };
  }
  async function save(path: string, fields: Record<string, string>): Promise<AdminAnswer> {
    return ada.post(path, { ...fieldsOf(await ada.get(path)), ...fields });
  }

  for (const [stored, shown] of [
    [null, undefined],
    ['{}', '[]'],
    ['{a,"b c",NULL}', '["a","b c",null]'],
    ['{a,"b, c","\\"d\\""}', 'a\nb, c\n"d"'],
    ['{"",a}', '["","a"]'],
    ['{" a"}', '[" a"]'],
    ['{"[a"}', '["[a"]'],
    ['{NULL}', '[null]'],
    ['{"NULL","null"}', 'NULL\nnull'],
    ['{"a\nb"}', '["a\\nb"]'],
    ['{{a,b},{c,d}}', '[["a","b"],["c","d"]]'],
  ] as const) {
    test(`${JSON.stringify(stored)} is unchanged after a save`, async () => {
      const path = await insert(stored);
      const before = await row(path);
      assert.equal(fieldsOf(await ada.get(path))['tags'] || undefined, shown);
      const saved = await save(path, { name: 'changed' });
      assert.equal(saved.status, 303, saved.text);
      assert.deepEqual(await row(path), before);
      assert.doesNotMatch(readable(await ada.get(`${path}history/`)), /Tags/);
    });
  }

  for (const [typed, stored] of [
    ['a\r\nb', '{a,b}'],
    ['  a  \r\n\r\nb, c\r\n', '{a,"b, c"}'],
    ['["a", null, ""]', '{a,NULL,""}'],
    ['[]', '{}'],
    ['', null],
    ['12', '{12}'],
  ] as const) {
    test(`${JSON.stringify(typed)} is stored as ${String(stored)}`, async () => {
      const path = await insert('{old}');
      const saved = await save(path, { tags: typed });
      assert.equal(saved.status, 303, saved.text);
      assert.equal((await row(path))['tags'], stored);
    });
  }

  test('lines become values of the type of the elements', async () => {
    const path = await insert(null);
    const saved = await save(path, { marks: '7\r\n-8', kinds: 'b\r\na', sums: '1.50\r\n2', flags: 'true\r\nfalse' }); // prettier-ignore
    assert.equal(saved.status, 303, saved.text);
    assert.deepEqual(await row(path), { tags: null, marks: '{7,-8}', kinds: '{b,a}', sums: '{1.50,2}', flags: '{t,f}' }); // prettier-ignore
    assert.equal(fieldsOf(await ada.get(path))['sums'], '1.50\n2');
    const list = readable(await ada.get('/admin/post/?ordering=-id&limit=1'));
    assert.match(list, /7, -8 b, a 1\.50, 2/);
  });

  test('an empty field of a column that is NOT NULL is the empty array', async () => {
    const path = await insert(null);
    assert.equal((await save(path, { marks: '' })).status, 303);
    assert.equal((await row(path))['marks'], '{}');
    const added = await save('/admin/post/-/add/', { name: 'new', _save: 'stay' });
    assert.equal(added.status, 303, added.text);
    const { marks, kinds } = await row(added.location ?? '');
    assert.deepEqual([marks, kinds], ['{1,2}', '{}']);
  });

  test('an error names the element, and the text is kept', async () => {
    const path = await insert(null);
    const page = await save(path, { marks: '1\r\nx\r\n3', kinds: 'c', tags: '["a"' });
    assert.equal(page.status, 400);
    assert.deepEqual(errorsIn(page), {
      marks: 'Element 2: must be a whole number.',
      kinds: 'Element 1: must be one of a, b.',
      tags: 'Must be JSON: unexpected end at line 1, column 5.',
    });
    const { marks, kinds, tags } = fieldsOf(page);
    assert.deepEqual([marks, kinds, tags], ['1\nx\n3', 'c', '["a"']);
    assert.match(page.text, /One element per line, or a JSON array\. Choices: a, b\./);
  });

  test('too many lines are refused', async () => {
    const path = await insert(null);
    const page = await save(path, { tags: 'a\r\n'.repeat(10_001) });
    assert.deepEqual(errorsIn(page), { tags: 'Must have at most 10,000 elements.' });
  });

  test('a filter finds the records whose array contains all values', async () => {
    await service.sql`truncate post`;
    const path = await insert('{a,"b, c"}');
    await insert('{a}');
    const answer = await ada.get(`/admin/post/-/filter/?${new URLSearchParams({ _path: 'tags', _how: 'contains', _value: 'a, "b, c"' }).toString()}`); // prettier-ignore
    assert.equal(answer.status, 303);
    const list = await ada.follow(answer);
    assert.match(readable(list), /Tags contains/);
    assert.ok(list.text.includes(path));
    assert.match(readable(list), /1 record/);
    const form = await ada.get('/admin/post/?_filter=tags');
    assert.match(form.text, /contains \(a, b\)/);
  });

  test('an import takes the cells of an export, and names the element of an error', async () => {
    await service.sql`truncate post`;
    const path = await insert('{a,NULL,"=1"}');
    const file = (await ada.get('/admin/post/-/export.csv')).text;
    assert.match(file, /"\[""a"",null,""=1""\]"/);
    await service.sql`update post set tags = '{}', kinds = '{b}'`;
    const send = async (fields: Record<string, string>): Promise<AdminAnswer> => {
      const form = new FormData();
      for (const [name, value] of Object.entries(fields)) form.append(name, value);
      return ada.upload('/admin/post/-/import/', form);
    };
    const preview = await send({ _text: file });
    const hidden = (name: string): string =>
      new RegExp(`name="${name}" value="([^"]*)"`).exec(preview.text)?.[1] ?? '';
    const applied = await send({ _csv: hidden('_csv'), _digest: hidden('_digest') });
    assert.equal(applied.status, 303, readable(preview));
    const { tags, kinds } = await row(path);
    assert.deepEqual([tags, kinds], ['{a,NULL,=1}', '{}']);
    const faulty = await send({ _text: 'name,kinds\r\nx,"[""a"",""c""]"\r\n' });
    assert.match(readable(faulty), /element 2: must be one of a, b/i);
  });

  test('a selection gets an array', async () => {
    await service.sql`truncate post`;
    const path = await insert('{a}');
    const id = path.split('/')[3] ?? '';
    const start = await ada.post('/admin/post/-/bulk/', { _action: 'set', _id: id, _column: 'tags', _value: '1', tags: 'x\r\ny' }); // prettier-ignore
    assert.equal(start.status, 200, start.text);
    const done = await ada.post('/admin/post/-/bulk/', { ...fieldsOf(start), _confirm: '1' });
    assert.equal(done.status, 303, done.text);
    assert.equal((await row(path))['tags'], '{x,y}');
  });
});
