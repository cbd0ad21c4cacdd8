import assert from 'node:assert/strict';
import type { Resource } from '../../src/index.ts';
import { startWith, type WritableService } from '../db/helpers.ts';
import { hiddenFields, logIn, readable, unescaped, type Browser } from './support.ts';
import { after, before, describe, test } from 'node:test';

const resources: Resource[] = [
  { model: 'shelf', columns: { name: { type: 'string' } }, admin: { title: 'Shelves' } },
  {
    model: 'book',
    columns: {
      shelf: { type: 'foreignKey', references: 'shelf', onDelete: 'cascade' },
      title: { type: 'string' },
      sequel_to: { type: 'foreignKey', references: 'book', null: true },
    },
    access: 'user',
    admin: { title: 'Books' },
  },
  {
    model: 'leaf',
    columns: {
      book: { type: 'foreignKey', references: 'book', onDelete: 'cascade' },
      text: { type: 'text', default: '' },
    },
    access: 'user',
    admin: { title: 'Leaves' },
  },
  {
    model: 'mark',
    columns: {
      leaf: { type: 'foreignKey', references: 'leaf', null: true, onDelete: 'setNull' },
      word: { type: 'string', default: '' },
    },
    access: 'user',
    admin: { title: 'Marks' },
  },
  {
    model: 'loan',
    columns: { book: { type: 'foreignKey', references: 'book' } },
    access: 'user',
    admin: { title: 'Loans' },
  },
  { model: 'note', columns: { user: { type: 'foreignKey', references: 'user' } }, access: 'user' },
  {
    model: 'spy',
    columns: { shelf: { type: 'foreignKey', references: 'shelf', null: true, onDelete: 'setNull' } },
    access: 'user',
    admin: { title: 'Spies', hidden: true },
  },
  {
    model: 'tag',
    primaryKey: { type: 'string', column: 'word' },
    columns: { meaning: { type: 'text', null: true } },
    access: 'user',
    admin: { title: 'Tags' },
  },
  {
    model: 'fixed',
    columns: { name: { type: 'string' } },
    access: 'user',
    admin: { allow: ['add', 'change'] },
  },
];

describe('deleting a record', () => {
  let service: WritableService;
  let ada: Browser;
  const insert = async (table: string, row: Record<string, unknown>): Promise<number> => {
    const [added] = await service.sql<{ id: number }[]>`
      insert into ${service.sql(table)} ${service.sql(row)} returning id`;
    return added?.id ?? 0;
  };
  const countOf = async (table: string): Promise<number> =>
    Number((await service.sql.unsafe(`select count(*) from "${table}"`))[0]?.['count']);

  before(async () => {
    service = await startWith(resources);
    ada = await logIn(service, 'ada');
  });
  after(() => service.close());

  test('lists the dependent records that are deleted or kept, with their paths and links', async () => {
    const shelf = await insert('shelf', { name: 'Novels <i>' });
    const books = [await insert('book', { shelf_id: shelf, title: 'One' })];
    books.push(await insert('book', { shelf_id: shelf, title: 'Two' }));
    const leaf = await insert('leaf', { book_id: books[0] });
    await insert('mark', { leaf_id: leaf });
    await insert('spy', { shelf_id: shelf });
    const answer = await ada.get(`/admin/shelf/${shelf}/delete/`);
    assert.equal(answer.status, 200);
    const text = readable(answer);
    assert.match(text, /Delete Novels <i>\?/);
    assert.match(
      text,
      /Deleted with it 2 records of Books, by “Shelf” 1 record of Leaves, by “Book › Shelf”/,
    );
    assert.match(text, /Kept, but no longer linked to it 1 record that the admin area does not show 1 record of Marks, by “Leaf › Book › Shelf”/); // prettier-ignore
    assert.doesNotMatch(text, /Spies|What keeps/);
    assert.doesNotMatch(answer.text, /<i>/);
    const link = unescaped(/href="(\/admin\/mark\/\?[^"]*)"/.exec(answer.text)?.[1] ?? '');
    assert.equal(link, `/admin/mark/?leaf__book__shelf=${shelf}`);
    assert.match(readable(await ada.get(link)), /\b1 record\b/);

    const done = await ada.post(`/admin/shelf/${shelf}/delete/`, hiddenFields(answer, 'confirm'));
    assert.equal(done.location, '/admin/shelf/');
    assert.match(
      (await ada.follow(done)).text,
      /class="flash done"[^>]*>Shelves: “Novels &lt;i&gt;” was deleted/,
    );
    assert.deepEqual([await countOf('shelf'), await countOf('book'), await countOf('leaf')], [0, 0, 0]);
    assert.equal(await countOf('mark'), 1);
    assert.equal(await countOf('spy'), 1);
  });

  test('is not offered while records restrict it, directly or through dependent records', async () => {
    const shelf = await insert('shelf', { name: 'Lent' });
    const book = await insert('book', { shelf_id: shelf, title: 'Gone' });
    await insert('loan', { book_id: book });
    for (const [path, link] of [
      [`/admin/book/${book}/delete/`, `/admin/loan/?book=${book}`],
      [`/admin/shelf/${shelf}/delete/`, `/admin/loan/?book__shelf=${shelf}`],
    ] as const) {
      const answer = await ada.get(path);
      assert.match(readable(answer), /Cannot delete: other records depend on it 1 record of Loans/);
      assert.ok(answer.text.includes(`href="${link}"`), link);
      assert.doesNotMatch(answer.text, /class="danger"/);
    }
  });

  test('returns 409 for a restriction that was added since the page was shown, and deletes nothing', async () => {
    const shelf = await insert('shelf', { name: 'Late' });
    const book = await insert('book', { shelf_id: shelf, title: 'Late' });
    const page = await ada.get(`/admin/book/${book}/delete/`);
    await insert('loan', { book_id: book });
    const answer = await ada.post(`/admin/book/${book}/delete/`, hiddenFields(page, 'confirm'));
    assert.equal(answer.status, 409);
    assert.match(readable(answer), /Records of Loans depend on what would be deleted\. Nothing was deleted\..*Cannot delete: other records depend on it/); // prettier-ignore
  });

  test('returns 409 for such a restriction of a user', async () => {
    const id = await service.addUser('bob');
    const page = await ada.get(`/admin/user/${id}/delete/`);
    await service.sql`insert into note (user_id) values (${id})`;
    const answer = await ada.post(`/admin/user/${id}/delete/`, hiddenFields(page, 'confirm'));
    assert.equal(answer.status, 409);
    assert.match(readable(answer), /Records of Note depend on what would be deleted\. Nothing was deleted\..*Cannot delete: other records depend on it/); // prettier-ignore
  });

  test('asks again when dependent records were added since the page was shown', async () => {
    const before = await countOf('shelf');
    const shelf = await insert('shelf', { name: 'Filling' });
    const path = `/admin/shelf/${shelf}/delete/`;
    const page = await ada.get(path);
    await insert('book', { shelf_id: shelf, title: 'Late' });
    const bulk = '/admin/shelf/-/bulk/';
    const confirmation = await ada.post(bulk, { _state: '', _action: 'delete', _id: String(shelf) });
    await insert('book', { shelf_id: shelf, title: 'Later' });
    for (const answer of [
      await ada.post(path, hiddenFields(page, 'confirm')),
      await ada.post(bulk, hiddenFields(confirmation, 'confirm')),
    ]) {
      assert.equal(answer.status, 409);
      assert.match(
        readable(answer),
        /The effects of the deletion have changed since this page was shown\..*2 records of Books/,
      );
      assert.equal(await countOf('shelf'), before + 1);
    }
    const again = await ada.post(path, hiddenFields(await ada.get(path), 'confirm'));
    assert.equal(again.status, 303);
  });

  test('works for a record that only refers to itself', async () => {
    const shelf = await insert('shelf', { name: 'Loop' });
    const book = await insert('book', { shelf_id: shelf, title: 'Loop' });
    await service.sql`update book set sequel_to_id = ${book} where id = ${book}`;
    const page = await ada.get(`/admin/book/${book}/delete/`);
    assert.match(readable(page), /No known records refer to this record\./);
    assert.equal((await ada.post(`/admin/book/${book}/delete/`, hiddenFields(page, 'confirm'))).status, 303);
  });

  test('counts at most 1,000 dependent records', async () => {
    const shelf = await insert('shelf', { name: 'Full' });
    await service.sql`insert into book (shelf_id, title) select ${shelf}, n::text from generate_series(1, 1001) n`;
    const text = readable(await ada.get(`/admin/shelf/${shelf}/delete/`));
    assert.match(text, /more than 1,000 records of Books/);
  });

  test('asks again with the new values when the record has changed', async () => {
    const shelf = await insert('shelf', { name: 'Old' });
    const page = await ada.get(`/admin/shelf/${shelf}/delete/`);
    await service.sql`update shelf set name = 'New' where id = ${shelf}`;
    for (const fields of [hiddenFields(page, 'confirm'), { _version: '' }, { _version: 'x' }]) {
      const answer = await ada.post(`/admin/shelf/${shelf}/delete/`, fields);
      assert.equal(answer.status, 412);
      assert.match(readable(answer), /Delete New\? The record has changed since this page was shown/);
    }
    const again = await ada.post(`/admin/shelf/${shelf}/delete/`, { _version: '' });
    assert.equal(
      (await ada.post(`/admin/shelf/${shelf}/delete/`, hiddenFields(again, 'confirm'))).status,
      303,
    );
    const gone = await ada.post(`/admin/shelf/${shelf}/delete/`, hiddenFields(again, 'confirm'));
    assert.equal(gone.location, '/admin/shelf/');
    assert.match((await ada.follow(gone)).text, /class="flash failed"[^>]*>The record no longer exists/);
  });

  test('works with text keys of any characters', async () => {
    for (const word of ['a/b', '-', 'ü & "ö"', '50%', 'a b,c', '.']) {
      await service.sql`insert into tag (word) values (${word})`;
      const path = `/admin/tag/${word === '-' ? '%2D' : encodeURIComponent(word)}/delete/`;
      if (word === '.') continue; // `fetch` removes it from the path
      const page = await ada.get(path);
      assert.equal(page.status, 200, word);
      assert.equal((await ada.post(path, hiddenFields(page, 'confirm'))).status, 303, word);
    }
    assert.equal(await countOf('tag'), 1);
  });

  test('returns 404 for records that do not exist and for resources that do not allow it', async () => {
    const fixed = await insert('fixed', { name: 'stays' });
    for (const path of [
      '/admin/shelf/999999/delete/',
      '/admin/shelf/x/delete/',
      `/admin/fixed/${fixed}/delete/`,
      '/admin/spy/1/delete/',
      '/admin/vitrine_history/1/delete/',
    ]) {
      assert.equal((await ada.get(path)).status, 404, path);
    }
    for (const path of [`/admin/fixed/${fixed}/delete/`, '/admin/vitrine_history/1/delete/'])
      assert.equal((await ada.post(path, { _version: '' })).status, 404, path);
    assert.equal(await countOf('fixed'), 1);
  });

  test('counts records behind tables and foreign keys that are not in the registry', async () => {
    const shelf = await insert('shelf', { name: 'Known' });
    const book = await insert('book', { shelf_id: shelf, title: 'Known' });
    await insert('book', { shelf_id: shelf, title: 'Other' });
    await service.sql.unsafe(`
      create schema "else where";
      create table "else where"."a ""list""" (book integer references book, place integer, primary key (book, place));
      insert into "else where"."a ""list""" values (${book}, 1), (${book}, 2);
      create table going (shelf integer references shelf on delete cascade);
      create table staying (shelf integer references shelf on delete set null);
      insert into going values (${shelf}), (null);
      insert into staying values (${shelf}), (${shelf}), (${shelf});`);
    for (const path of [`/admin/book/${book}/delete/`, `/admin/shelf/${shelf}/delete/`]) {
      const answer = await ada.get(path);
      assert.match(
        readable(answer),
        /Cannot delete: other records depend on it 2 records that the admin area does not show/,
      );
      assert.match(readable(answer), /It cannot be deleted while other records need it/);
      assert.doesNotMatch(readable(answer), /No known records|list"|else where/);
      assert.doesNotMatch(answer.text, /class="danger"/);
    }
    await service.sql.unsafe('drop schema "else where" cascade');
    const page = await ada.get(`/admin/shelf/${shelf}/delete/`);
    assert.match(readable(page), /Deleted with it 2 records of Books, by “Shelf” 1 record that the admin area does not show Kept, but no longer linked to it 3 records that the admin area does not show/); // prettier-ignore

    await service.sql.unsafe(`
      alter table book add unique (id, title);
      alter table loan add column also integer, add column title text, add foreign key (also, title) references book (id, title);
      insert into loan (book_id, also, title) select id, ${book}, 'Known' from book where title = 'Other';`);
    const unknown = await ada.get(`/admin/book/${book}/delete/`);
    assert.match(readable(unknown), /Cannot delete: other records depend on it 1 record of Loans It cannot/);
    await service.sql.unsafe(`
      alter table loan drop column also, drop column title; drop table going, staying; delete from loan;`);
    const free = await ada.get(`/admin/shelf/${shelf}/delete/`);
    assert.equal(
      (await ada.post(`/admin/shelf/${shelf}/delete/`, hiddenFields(free, 'confirm'))).status,
      303,
    );
  });

  test('is not offered again after the database refused it because of hidden records', async () => {
    const shelf = await insert('shelf', { name: 'Needed' });
    await service.sql.unsafe(`
      create function refuse() returns trigger language plpgsql as $$
      begin
        if old.name = 'Needed' then raise foreign_key_violation using table = 'unseen'; end if;
        return old;
      end $$;
      create trigger refuse before delete on shelf for each row execute function refuse()`);
    const path = `/admin/shelf/${shelf}/delete/`;
    const page = await ada.get(path);
    assert.match(readable(page), /No known records refer to this record\. It will be permanently deleted\./);
    const answer = await ada.post(path, hiddenFields(page, 'confirm'));
    assert.equal(answer.status, 409);
    assert.match(readable(answer), /Other records refer to this one\..*Cannot delete: other records depend on it Records of a table that the admin area does not show refer to it\. It cannot be deleted/); // prettier-ignore
    assert.doesNotMatch(readable(answer), /No known records/);
    assert.doesNotMatch(answer.text, /class="danger"/);

    const bulk = '/admin/shelf/-/bulk/';
    const choice = { _state: '', _action: 'delete', _id: String(shelf) };
    const many = await ada.post(bulk, hiddenFields(await ada.post(bulk, choice), 'confirm'));
    assert.equal(many.status, 409);
    assert.match(readable(many), /Nothing was deleted\..*Records of a table that the admin area does not show refer to it\. It cannot be deleted while other records need it\./); // prettier-ignore
    assert.doesNotMatch(many.text, /class="danger"/);
    await service.sql.unsafe('drop function refuse cascade');
    assert.equal((await ada.post(path, hiddenFields(await ada.get(path), 'confirm'))).status, 303);
  });
});
