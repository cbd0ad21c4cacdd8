// Labels of records when some columns of the label have no value.
import assert from 'node:assert/strict';
import type { Resource } from '../../src/index.ts';
import { startService, type TestService } from '../support.ts';
import { type Browser, fieldsOf, hiddenFields, logIn, readable } from './support.ts';
import { resources } from './sample-resources.ts';
import { user } from '../../src/resources/registry.ts';
import { after, before, describe, test } from 'node:test';

type Values = Readonly<Record<'a' | 'b' | 'c', string | null>>;

const all: Values = { a: 'One', b: 'Two', c: 'Three' };

const CASES: readonly (readonly [template: string, values: Values, label: string])[] = [
  ['{a} – {b}', all, 'One – Two'],
  ['{a} – {b}', { ...all, b: null }, 'One'],
  ['{a} – {b}', { ...all, a: null }, 'Two'],
  ['{a} – {b}', { a: null, b: null, c: null }, '#1'],
  ['{a} ({b})', { ...all, b: null }, 'One'],
  ['No. {a}, {b} ({c}).', all, 'No. One, Two (Three).'],
  ['No. {a}, {b} ({c}).', { ...all, a: null }, 'Two (Three).'],
  ['{a} {b} {c}', { ...all, b: null }, 'One Three'],
  ['{a}', { ...all, a: '\t\n' }, '#1'],
  ['{a}', { ...all, a: '\u00a0' }, '#1'],
  ['{a}{b}', { ...all, a: '\u200b', b: '\u202e\ufeff' }, '#1'],
  ['{a} {b} ({c})', { ...all, a: null, b: null }, 'Three'],
  ['{a} ({b})', { ...all, a: null }, 'Two'],
  ['{a} ({b})', { ...all, a: '' }, 'Two'],
  ['{a} ({b})', { ...all, b: '' }, 'One'],
  ['{a} ({b}, {c})', { ...all, b: null }, 'One (Three)'],
  ['{a} ({b}, {c})', { ...all, a: ' ', b: '' }, 'Three'],
  ['{a} ({b}) [{c}]', { ...all, a: null }, 'Two [Three]'],
  ['({a}) {b}', { ...all, b: null }, '(One)'],
  ['({a}) {b}', { ...all, a: null }, 'Two'],
  ['{a} „{b}“ «{c}»', { ...all, a: null }, 'Two «Three»'],
  ['{a} "{b}" {c}', { ...all, b: null }, 'One Three'],
  ['{a}, "{b}"', { ...all, a: null }, 'Two'],
  ['{a}" {b}', { ...all, b: null }, 'One'],
  ['{a} (of {next__a}) (c) {b}', all, 'One (c) Two'],
  ['{a}) ({b}', { ...all, a: null }, 'Two'],
  ['{a}', { ...all, a: '\u2800' }, '#1'],
  ['{a} ({next__a})', all, 'One'],
  ['{a}/{b}/{c}', { a: null, b: null, c: 'Three' }, 'Three'],
  ['{fixed} ({a})', { ...all, a: null }, 'Set'],
  ['{a}, {fixed}', { ...all, a: null }, 'Set'],
  ['{fixed}!', all, 'Set!'],
  ['{next__a} in {a}', { ...all, a: null }, '#1'],
];

const text = { type: 'string', null: true } as const;
const models = CASES.map(([template], index): Resource => ({
  model: `labeled${index}`,
  columns: {
    a: text,
    b: text,
    c: text,
    fixed: { type: 'string' },
    next: { type: 'foreignKey', references: `labeled${index}`, null: true },
  },
  admin: { list: ['a', 'b'], label: template },
}));

const host: Resource = {
  model: 'host',
  columns: { note: { type: 'text', null: true }, alias: text, display_name: text },
};
/** Its records show the labels of hosts. */
const disk: Resource = {
  model: 'disk',
  columns: { host: { type: 'foreignKey', references: 'host' } },
};

let service: TestService;
let ada: Browser;
before(async () => {
  service = await startService([...resources, ...models, host, disk]);
  await service.addUser('ada', { admin: true });
  ada = await logIn(service, 'ada');
});
after(() => service.close());

describe('a label', () => {
  for (const [index, [template, values, label]] of CASES.entries())
    test(`${template} of ${JSON.stringify(values)} is ${label}`, async () => {
      const name = `labeled${index}`;
      await service.sql`insert into ${service.sql(name)} ${service.sql({ ...values, fixed: 'Set' })}`;
      const { status, text: page } = await ada.get(`/admin/${name}/1/`);
      assert.equal(status, 200);
      assert.equal(/<h1>(.*?)<\/h1>/s.exec(page)?.[1]?.trim(), label);
      // The first column of the list is a link. It shows the label if its own value is empty.
      const list = (await ada.get(`/admin/${name}/`)).text;
      const link = /<th scope="row"[^>]*>\s*<a href="[^"]*">(.*?)<\/a>/s.exec(list)?.[1]?.trim();
      assert.equal(link, /\w/.test(values.a ?? '') ? values.a : label);
      const fields = hiddenFields(await ada.get(`/admin/${name}/1/delete/`), 'confirm');
      assert.equal((await ada.post(`/admin/${name}/1/delete/`, fields)).status, 303);
      const history = (await ada.get(`/admin/${name}/1/history/`)).text;
      assert.equal(/<h1>(.*?)<\/h1>/s.exec(history)?.[1]?.trim(), `History of ${label}`);
    });

  for (const [values, label] of [
    [{ display_name: 'mail server', alias: 'mx', note: 'old' }, 'mail server'],
    [{ display_name: null, alias: 'mx', note: 'old' }, 'mx'],
    [{ display_name: '', alias: ' ', note: 'old' }, 'old'],
    [{ display_name: null, alias: null, note: null }, undefined],
  ] as const)
    test(`of ${JSON.stringify(values)} is ${label ?? 'the key'} if the registry names no label`, async () => {
      const [row] = await service.sql`insert into host ${service.sql(values)} returning id`;
      const id = String(row?.['id']);
      await service.sql`insert into disk (host_id) values (${id})`;
      const { text: page } = await ada.get(`/admin/host/${id}/`);
      assert.equal(/<h1>(.*?)<\/h1>/s.exec(page)?.[1]?.trim(), label ?? `#${id}`);
      assert.match(
        (await ada.get('/admin/disk/')).text,
        new RegExp(`/admin/host/${id}/">${label ?? `#${id}`}</a>`),
      );
    });
});

// Very long labels, which any user with write access can store: the admin area cuts them.
const post = { model: 'post', access: 'user', columns: { text: { type: 'text' } } } as const;
const comment = {
  model: 'comment',
  access: 'user',
  columns: { post: { type: 'foreignKey', references: 'post' }, line: { type: 'string' } },
} as const;

/** The number of posts, each with a comment and a history entry. Together they exceed `MAX_PAGE`. */
const COUNT = 40;
const LONG = 150_000;
const MAX_PAGE = 4 * 1024 * 1024;

describe('records with very long labels', () => {
  let service: TestService;
  let ada: Browser;
  before(async () => {
    service = await startService([user, post, comment], { maxPage: MAX_PAGE });
    await service.addUser('ada', { admin: true });
    ada = await logIn(service, 'ada');
    await service.sql`insert into post (text)
      select n || ' ' || repeat('word ', ${LONG / 5}) from generate_series(1, ${COUNT}) n`;
    await service.sql`insert into comment (post_id, line) select id, 'a' from post`;
    await service.sql`insert into vitrine_history (door, action, model, record, after)
      select 'api', 'create', 'comment', id::text, '{"post_id":' || post_id || ',"line":"a"}' from comment
      union all select 'api', 'create', 'post', id::text, '{"text":"a"}' from post`;
  });
  after(() => service.close());

  for (const path of [
    '/admin/',
    '/admin/post/?limit=40',
    '/admin/post/1/delete/',
    '/admin/post/1/history/',
    '/admin/comment/?limit=40',
    '/admin/comment/?limit=40&post=1&post__in=2,3,4,5,6,7,8,9,10',
    '/admin/comment/1/',
    '/admin/comment/-/add/',
    '/admin/comment/1/history/',
    '/admin/comment/1/delete/',
    '/admin/comment/-/lookup/?_search=a',
    '/admin/post/-/lookup/?_search=word',
    '/admin/vitrine_history/?limit=100',
  ])
    test(`have cut labels on ${path}`, async () => {
      const { status, text } = await ada.get(path);
      assert.equal(status, 200);
      assert.ok(text.length < 150_000, `${text.length} characters`);
    });

  test('have cut labels on bulk pages, and are found only by their whole label', async () => {
    const chosen = await ada.post('/admin/post/-/bulk/', { _action: 'delete', _state: '', _all: '1' });
    assert.equal(chosen.status, 200);
    assert.ok(chosen.text.length < 150_000, `${chosen.text.length} characters`);
    const form = fieldsOf(await ada.get('/admin/comment/1/'));
    // A search and the end of a label ignore spaces, so the cut label would be “Ann”.
    await service.sql`insert into post (text) values ('Ann' || repeat(' ', 9000) || 'tail'), ('Ann Other')`;
    const unclear = await ada.post('/admin/comment/1/', { ...form, post_id: 'Ann' });
    assert.equal(unclear.status, 400);
    assert.match(readable(unclear), /does not match exactly one record/);
    await service.sql`insert into post (text) values (' ann ')`;
    assert.equal((await ada.post('/admin/comment/1/', { ...form, post_id: 'Ann' })).status, 303);
  });

  test('have cut labels in the preview of an import', async () => {
    const file = ['id,post_id', ...Array.from({ length: COUNT }, (_, n) => `${n + 1},${COUNT - n}`)].join(
      '\n',
    );
    const preview = await ada.post('/admin/comment/-/import/', { _text: file });
    assert.equal(preview.status, 200);
    assert.match(preview.text, /40 word/);
    assert.ok(preview.text.length < 400_000, `${preview.text.length} characters`);
  });
});

test('a form with a foreign key can be opened and saved with MAX_PAGE=1', async () => {
  const service = await startService([user, post, comment], { maxPage: 1 });
  try {
    await service.addUser('ada', { admin: true });
    const ada = await logIn(service, 'ada');
    await service.sql`insert into post (text) select repeat('word ', 100) || n from generate_series(1, 100) n`;
    await service.sql`insert into comment (post_id, line) values (7, 'a')`;
    const page = await ada.get('/admin/comment/1/');
    assert.equal(page.status, 200);
    assert.equal([...page.text.matchAll(/<option /g)].length, 100);
    assert.equal((await ada.post('/admin/comment/1/', { ...fieldsOf(page), line: 'b' })).status, 303);
  } finally {
    await service.close();
  }
});
