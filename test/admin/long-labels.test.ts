// Very long labels, which any user with write access can store: the admin area cuts them.
import assert from 'node:assert/strict';
import { user } from '../../src/resources/registry.ts';
import { startService, type TestService } from '../support.ts';
import { fieldsOf, logIn, readable, type Browser } from './support.ts';
import { after, before, describe, test } from 'node:test';

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
