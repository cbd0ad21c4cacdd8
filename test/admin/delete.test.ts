import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import type { Resource } from '../../src/index.ts';
import { user } from '../../src/resources/registry.ts';
import { startWith, type WritableService } from '../db/helpers.ts';
import { startService } from '../support.ts';
import { hiddenFields, logIn, readable, unescaped, type Browser } from './support.ts';

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

  test('tells what goes with it, what stays without it, how far away that is, and where to look', async () => {
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

  test('is not offered while records refer to it that must not lose it, not even through what goes with it', async () => {
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

  test('a restriction that came up after the page was made is told, and nothing is deleted', async () => {
    const shelf = await insert('shelf', { name: 'Late' });
    const book = await insert('book', { shelf_id: shelf, title: 'Late' });
    const page = await ada.get(`/admin/book/${book}/delete/`);
    await insert('loan', { book_id: book });
    const answer = await ada.post(`/admin/book/${book}/delete/`, hiddenFields(page, 'confirm'));
    assert.equal(answer.status, 409);
    assert.match(readable(answer), /Records of Loans depend on what would be deleted\. Nothing was deleted\..*Cannot delete: other records depend on it/); // prettier-ignore
  });

  test('what has come to go with it after the page was made is asked about anew', async () => {
    const before = await countOf('shelf');
    const shelf = await insert('shelf', { name: 'Filling' });
    const path = `/admin/shelf/${shelf}/delete/`;
    const page = await ada.get(path);
    await insert('book', { shelf_id: shelf, title: 'Late' });
    const bulk = '/admin/shelf/-/bulk/';
    const asked = await ada.post(bulk, { _state: '', _action: 'delete', _id: String(shelf) });
    await insert('book', { shelf_id: shelf, title: 'Later' });
    for (const answer of [
      await ada.post(path, hiddenFields(page, 'confirm')),
      await ada.post(bulk, hiddenFields(asked, 'confirm')),
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

  test('a record that refers to itself alone can go', async () => {
    const shelf = await insert('shelf', { name: 'Loop' });
    const book = await insert('book', { shelf_id: shelf, title: 'Loop' });
    await service.sql`update book set sequel_to_id = ${book} where id = ${book}`;
    const page = await ada.get(`/admin/book/${book}/delete/`);
    assert.match(readable(page), /No known records refer to this record\./);
    assert.equal((await ada.post(`/admin/book/${book}/delete/`, hiddenFields(page, 'confirm'))).status, 303);
  });

  test('counts no further than a thousand', async () => {
    const shelf = await insert('shelf', { name: 'Full' });
    await service.sql`insert into book (shelf_id, title) select ${shelf}, n::text from generate_series(1, 1001) n`;
    const text = readable(await ada.get(`/admin/shelf/${shelf}/delete/`));
    assert.match(text, /more than 1,000 records of Books/);
  });

  test('a record that has changed since is shown again, as it is now', async () => {
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

  test('keys that are texts of any kind stay what they are on the way', async () => {
    for (const word of ['a/b', '-', 'ü & "ö"', '50%', 'a b,c', '.']) {
      await service.sql`insert into tag (word) values (${word})`;
      const path = `/admin/tag/${word === '-' ? '%2D' : encodeURIComponent(word)}/delete/`;
      if (word === '.') continue; // browsers take it for a path
      const page = await ada.get(path);
      assert.equal(page.status, 200, word);
      assert.equal((await ada.post(path, hiddenFields(page, 'confirm'))).status, 303, word);
    }
    assert.equal(await countOf('tag'), 1);
  });

  test('what is not there, or not allowed, has no such page, and GET deletes nothing', async () => {
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

  test('tells of records of tables that are not in the registry, and of foreign keys that it does not have', async () => {
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

  test('does not offer again what the database has refused for records that cannot be seen', async () => {
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

  test('admins cannot delete themselves, but one another', async () => {
    const bob = await service.addUser('bob', { admin: true });
    const browser = await logIn(service, 'bob');
    const path = `/admin/user/${bob}/delete/`;
    const page = await browser.get(path);
    assert.match(readable(page), /You cannot delete your own user\. Ask another admin to do it\./);
    assert.doesNotMatch(page.text, /class="danger"|class="confirm"/);
    const fields = hiddenFields(await ada.get(path), 'confirm');
    const { _csrf, ...others } = fields; // its own browser's token stays
    assert.ok(_csrf);
    const refused = await browser.post(path, others);
    assert.equal(refused.status, 403);
    assert.match(readable(refused), /You cannot delete your own user\. Ask another admin to do it\./);
    assert.equal(await countOf('user'), 2);
    assert.equal((await ada.post(path, { ...fields, _current: 'pw-ada' })).status, 303);
    assert.equal(await countOf('user'), 1);
  });
});

describe('deleting what the own user goes with', () => {
  const team: Resource = { model: 'team', columns: { name: { type: 'string' } }, access: 'user' };
  const member: Resource = {
    ...user,
    columns: {
      ...user.columns,
      team: { type: 'foreignKey', references: 'team', null: true, onDelete: 'cascade' },
    },
  };

  test('is refused, too', async () => {
    const service = await startService([team, member]);
    try {
      await service.sql`insert into team (id, name) values (1, 'ours'), (2, 'theirs')`;
      await service.addUser('ada', { admin: true, team_id: 1 });
      await service.addUser('bob', { team_id: 2 });
      const ada = await logIn(service, 'ada');
      const page = await ada.get('/admin/team/1/delete/');
      assert.match(readable(page), /This would also delete your own user\. Ask another admin to do it\./);
      assert.doesNotMatch(page.text, /class="danger"/);
      const fields = hiddenFields(await ada.get('/admin/team/2/delete/'), 'confirm');
      assert.equal((await ada.post('/admin/team/1/delete/', fields)).status, 403);
      const all = { _state: '', _action: 'delete', _all: '1', _expected: '2', _confirm: '1' };
      assert.equal((await ada.post('/admin/team/-/bulk/', all)).status, 403);
      assert.equal((await service.sql`select from "user"`).count, 2);
      assert.equal((await ada.post('/admin/team/2/delete/', fields)).status, 303);
      assert.equal((await service.sql`select from "user"`).count, 1);
    } finally {
      await service.close();
    }
  });
});

test('a record that goes by one foreign key does not count as one that stays by another', async () => {
  const parent: Resource = { model: 'parent', columns: { name: { type: 'text' } }, access: 'user' };
  const link = { type: 'foreignKey', references: 'parent', null: true } as const;
  const kid: Resource = {
    model: 'kid',
    columns: { p: { ...link, onDelete: 'cascade' }, q: { ...link, onDelete: 'setNull' } },
    access: 'user',
  };
  const service = await startService([user, parent, kid]);
  try {
    await service.addUser('ada', { admin: true });
    const ada = await logIn(service, 'ada');
    await service.sql`insert into parent (name) values ('a'), ('b'), ('c'), ('d')`;
    await service.sql`insert into kid (p_id, q_id) values (1, 2), (1, 1), (3, 1), (4, 4)`;
    const told = async (id: number): Promise<string> =>
      readable(await ada.get(`/admin/parent/${id}/delete/`));
    assert.match(await told(1), /Deleted with it 2 records of Kid, by “P” Kept, but no longer linked to it 1 record of Kid, by “Q”/); // prettier-ignore
    assert.doesNotMatch(await told(4), /Kept, but/);
    assert.match(readable(await ada.get('/admin/parent/4/')), /Kid by P 1 .*Kid by Q 1/);
  } finally {
    await service.close();
  }
});

describe('deleting what many go with, one through the other', () => {
  const own = (onDelete: 'cascade' | 'setNull' | 'restrict') =>
    ({ type: 'foreignKey', references: 'user', null: true, onDelete }) as const;
  const chief: Resource = { ...user, columns: { ...user.columns, boss: own('cascade') } };
  const tool: Resource = {
    model: 'tool',
    columns: { keeper: own('setNull') },
    access: 'user',
    admin: { title: 'Tools' },
  };
  const lock: Resource = {
    model: 'lock',
    columns: { holder: own('restrict') },
    access: 'user',
    admin: { title: 'Locks' },
  };

  test('is told to the last one, however long the chain or where it is a ring', async () => {
    const service = await startService([chief, tool, lock]);
    try {
      const ids: number[] = [];
      for (let at = 0; at < 8; at += 1)
        ids.push(await service.addUser(`u${at}`, { boss_id: ids.at(-1) ?? null }));
      const [first = 0, ...others] = ids;
      await service.addUser('ada', { admin: true });
      const ada = await logIn(service, 'ada');
      const told = async (id = first): Promise<string> =>
        readable(await ada.get(`/admin/user/${id}/delete/`));
      assert.match(
        await told(),
        /Deleted with it 1 record of Users, by “Boss” 6 records of Users, indirectly/,
      );
      assert.match(
        await told(others[5]),
        /Deleted with it 1 record of Users, by “Boss” It will be permanently deleted/,
      );
      assert.doesNotMatch(await told(others[5]), /further/);

      await service.sql`insert into tool (keeper_id) values (${others[6] ?? 0})`;
      assert.match(await told(), /no longer linked to it 1 record of Tools, indirectly/);
      await service.sql`insert into lock (holder_id) values (${others[6] ?? 0})`;
      assert.match(await told(), /Cannot delete: other records depend on it 1 record of Locks, indirectly/);
      assert.match(await told(), /It cannot be deleted/);
      await service.sql`delete from lock`;

      // A ring: all of them go, each counted once.
      await service.sql`update "user" set boss_id = ${others[6] ?? 0} where id = ${first}`;
      assert.match(await told(), /1 record of Users, by “Boss” 6 records of Users, indirectly/);
      await service.sql`update "user" set boss_id = null where id = ${first}`;

      await service.sql`update "user" set boss_id = ${others[6] ?? 0} where username = 'ada'`;
      assert.match(await told(), /You cannot delete your own user\. Ask another admin to do it\./);
      const bulk = await ada.post('/admin/user/-/bulk/', {
        _state: '',
        _action: 'delete',
        _id: String(first),
      });
      assert.match(readable(bulk), /You cannot delete your own user/);
      const fields = hiddenFields(await ada.get(`/admin/tool/1/delete/`), 'confirm');
      assert.equal((await ada.post(`/admin/user/${first}/delete/`, fields)).status, 403);
      assert.equal((await service.sql`select from "user"`).count, 9);
    } finally {
      await service.close();
    }
  });
});
