// CSV imports: the preview, and the import itself, which is one transaction.
import assert from 'node:assert/strict';
import {
  apply,
  browser,
  crlf,
  hidden,
  history,
  paste,
  PATH,
  visibleText,
  service,
  titles,
  upload,
  useImports,
} from './import-support.ts';
import { lockedOut } from '../http/expect.ts';
import { logIn } from './support.ts';
import { describe, test } from 'node:test';

describe('an import', () => {
  useImports();

  test('shows a preview without changing anything, and then makes exactly these changes', async () => {
    const csv = crlf('id,title,pages', '1,Uno,1', '2,Two,2', ',Four,', ',Five,5');
    const preview = await upload(csv);
    assert.equal(preview.status, 200);
    const page = visibleText(preview.text);
    assert.match(page, /4 rows: 2 new, 1 changed, 1 unchanged, 0 with errors\./);
    assert.match(page, /2 #1 Title: was One → becomes Uno/);
    assert.match(page, /4 new Title: Four/);
    assert.match(page, /Import preview: Books & <b>papers<\/b> · .*Import: add 2 and change 1 record/);
    assert.deepEqual(await titles(), ['One', 'Two', 'Three']);
    assert.equal(await history(), 0);

    const done = await apply(preview);
    assert.equal(done.status, 303);
    assert.equal(done.location, '/admin/book/');
    assert.match((await browser.follow(done)).text, /2 records added, 1 changed\./);
    assert.deepEqual(await titles(), ['Uno', 'Two', 'Three', 'Four', 'Five']);
    const log = await service.sql<{ action: string; door: string; user_name: string; after: string }[]>`
      select action, door, user_name, after from vitrine_history order by id`;
    assert.deepEqual(
      log.map(({ action, door, user_name: name }) => [action, door, name]),
      [
        ['update', 'admin', 'ada'],
        ['create', 'admin', 'ada'],
        ['create', 'admin', 'ada'],
      ],
    );
    assert.equal(log[0]?.after, '{"title":"Uno"}');
    const kept = await service.sql`select from book where secret = 'hushed'`;
    assert.equal(kept.count, 3);
  });

  test('of an export changes nothing, uploaded or pasted', async () => {
    await service.sql`insert into book (title, reader_id, price, rating, data, lent, day, code, note, stamp) values
      ('=1+1', 1, -1.50, 'NaN', '{"a":[1,"x"]}', true, '2026-02-28', ${'9d1f6c1e-6a5b-4c58-9df5-1d1c1c1c1c1c'}, '-', 'x'),
      (${"'=1"}, null, null, 1e20, 'null', false, 'infinity', null, ${"''@"}, ''),
      (${' "quoted", '}, null, null, -0.5, '"text"', false, null, null, ${'\t'}, '')`;
    const { text } = await browser.get('/admin/book/-/export.csv');
    const page = visibleText((await upload(text)).text);
    assert.match(page, /6 rows: 0 new, 0 changed, 6 unchanged, 0 with errors\./);
    assert.match(page, /No changes to import/);
    const withoutReturns = text.replaceAll('a\nb\r\nc', 'a\nb\nc');
    await service.sql`update book set note = ${'a\nb\nc'} where id = 3`;
    const pasted = await paste(withoutReturns.replaceAll('\n', '\r\n').replaceAll('\r\r\n', '\r\n'));
    assert.match(visibleText(pasted.text), /6 rows: 0 new, 0 changed, 6 unchanged, 0 with errors\./);
  });

  test('keeps line breaks inside cells', async () => {
    const note = 'x\ny\r\nz\rend';
    const preview = await upload(crlf('title,note', `New,"${note}"`));
    assert.equal((await apply(preview)).status, 303);
    const [row] = await service.sql<{ note: string }[]>`select note from book where title = 'New'`;
    assert.equal(row?.note, note);
  });

  test('stores an empty cell as NULL and a quoted empty cell as an empty text', async () => {
    await apply(await upload(crlf('id,note', '1,""', '2,')));
    const notes = await service.sql<
      { note: string | null }[]
    >`select note from book where id < 3 order by id`;
    assert.deepEqual(
      notes.map(({ note }) => note),
      ['', null],
    );
  });

  test('takes numbers as other programs write them', async () => {
    const preview = await upload(crlf('id,pages,rating', '1,007,.5', '2,+8,-.25', '3,9,05.'));
    assert.equal((await apply(preview)).status, 303, visibleText(preview.text));
    const rows = await service.sql`select pages, rating from book order by id`;
    assert.deepEqual(
      rows.map(({ pages, rating }) => [pages, rating] as unknown),
      [
        [7, 0.5],
        [8, -0.25],
        [9, 5],
      ],
    );
  });

  test('uses the default for an empty cell of a required column in a new record', async () => {
    const preview = await upload(crlf('title,lent,since,kind', 'New,,,', 'Other,TRUE,2026-01-01T10:00,poem'));
    assert.equal((await apply(preview)).status, 303);
    const rows =
      await service.sql`select lent, since > now() - interval '1 day' as fresh, kind from book where id > 3`;
    assert.deepEqual(rows.map((row) => [row['lent'], row['fresh'], row['kind']]).sort(), [
      [false, true, 'novel'],
      [true, false, 'poem'],
    ]);
  });

  test('does not clear a required column, but accepts an empty text that is already stored', async () => {
    const page = visibleText((await upload(crlf('id,title,data', '1,,{bad'))).text);
    assert.match(page, /0 changed, 0 unchanged, 1 with errors/);
    assert.match(page, /2 #1 .*Title: is required/);
    assert.match(page, /2 #1 .*Data: must be JSON/);
    await service.sql`update book set title = '' where id = 1`;
    const stored = visibleText((await upload(crlf('id,title,pages', '1,,8'))).text);
    await service.sql`update book set title = 'One' where id = 1`;
    assert.match(stored, /1 changed, 0 unchanged, 0 with errors/);
  });

  test('ignores read-only columns and says so', async () => {
    const page = visibleText((await upload(crlf('id,title,stamp', '1,Uno,mine'))).text);
    assert.match(page, /Read-only columns are ignored: Stamp\./);
    assert.match(page, /0 new, 1 changed/);
  });

  test('reports null in a required JSON column, and uses the default for an empty cell', async () => {
    const path = '/admin/sheet/-/import/';
    const invalid = await upload(crlf('name,data', 'a,null', 'b, null ', 'c,', 'd,"""null"""'), path);
    const page = visibleText(invalid.text);
    assert.match(page, /4 rows: 2 new, 0 changed, 0 unchanged, 2 with errors/);
    assert.match(page, /2 — Data: must not be null/);
    assert.match(page, /3 — Data: must not be null/);
    assert.equal(hidden(invalid.text, '_digest'), undefined);
    const preview = await upload(crlf('name,data', 'c,', 'd,"""null"""', 'e,1'), path);
    assert.equal((await apply(preview, path)).status, 303);
    assert.deepEqual(
      (await service.sql`select data from sheet order by id`).map(({ data }) => data as unknown),
      [{ from: 'default' }, 'null', 1],
    );
    const [row] = await service.sql`select id from sheet where name = 'e'`;
    const changed = visibleText((await upload(crlf('id,data', `${row?.['id']},null`), path)).text);
    assert.match(changed, /Data: must not be null/);
    // The import checks the cells again, even if the form has the digest of another preview.
    const form = new FormData();
    form.append('_csv', Buffer.from(crlf('name,data', 'f,null')).toString('base64'));
    form.append('_digest', hidden(preview.text, '_digest') ?? '');
    assert.match(visibleText((await browser.upload(path, form)).text), /Data: must not be null/);
    assert.equal((await service.sql`select from sheet where name = 'f'`).count, 0);
  });

  test('previews the rows after one that the database refuses, and stores none', async () => {
    const code = '9d1f6c1e-6a5b-4c58-9df5-1d1c1c1c1c1c';
    const page = visibleText((await upload(crlf('title,code', `a,${code}`, `b,${code}`, 'c,'))).text);
    assert.match(page, /3 rows: 2 new, 0 changed, 0 unchanged, 1 with errors/);
    assert.match(page, /3 — Code: another record has this value/);
    assert.deepEqual(await titles(), ['One', 'Two', 'Three']);
  });

  test('finds the rows that the database refuses among many', async () => {
    const code = '9d1f6c1e-6a5b-4c58-9df5-1d1c1c1c1c1c';
    const rows = Array.from(
      { length: 150 },
      (_, index) => `row ${index},${[5, 40, 140].includes(index) ? code : ''}`,
    );
    const page = visibleText((await upload(crlf('title,code', ...rows))).text);
    assert.match(page, /150 rows: 148 new, 0 changed, 0 unchanged, 2 with errors/);
    assert.match(page, /42 — Code: another record has this value 142 — Code: another record has this value/);
    const without = await upload(crlf('title,code', ...rows.map((row) => row.replace(code, ''))));
    assert.equal((await apply(without)).status, 303);
    assert.deepEqual(
      (await titles()).slice(3),
      rows.map((row) => row.split(',')[0]),
    );
  });

  test('with errors is not executed, even if a forged form confirms it', async () => {
    const form = new FormData();
    form.append('_csv', Buffer.from(crlf('title,pages', 'a,1', 'b,0')).toString('base64'));
    form.append('_digest', 'made up');
    const answer = await browser.upload(PATH, form);
    assert.equal(answer.status, 409);
    assert.deepEqual(await titles(), ['One', 'Two', 'Three']);
  });

  test('shows a new preview when the records have changed', async () => {
    const preview = await upload(crlf('id,title', '1,Uno', '2,Dos'));
    await service.sql`update book set title = 'Meanwhile' where id = 1`;
    const again = await apply(preview);
    assert.equal(again.status, 409);
    assert.match(
      visibleText(again.text),
      /The records have changed since the preview\. Nothing was imported/,
    );
    assert.match(visibleText(again.text), /was Meanwhile → becomes Uno/);
    assert.deepEqual(await titles(), ['Meanwhile', 'Two', 'Three']);
    assert.equal((await apply(again)).status, 303);
    assert.deepEqual(await titles(), ['Uno', 'Dos', 'Three']);
  });

  for (const [name, how, end] of [
    [
      'cleo',
      'is deleted',
      `delete from vitrine_session where user_key = (select id::text from "user" where username = 'cleo')`,
    ],
    ['dora', 'loses the role of an admin', `update "user" set admin = false where username = 'dora'`],
  ] as const)
    test(`is rolled back when the session ${how} before the commit`, async () => {
      await service.addUser(name, { admin: true });
      const other = await logIn(service, name);
      const preview = await upload(crlf('title', 'Four'));
      const form = new FormData();
      for (const field of ['_csv', '_digest']) form.append(field, hidden(preview.text, field) ?? '');
      const { answer } = await service.sql.begin(async (transaction) => {
        await transaction`lock table book in exclusive mode`;
        const importing = other.upload(PATH, form);
        await lockedOut(service);
        await transaction.unsafe(end);
        return { answer: importing };
      });
      const { status, text } = await answer;
      assert.equal(status, 403);
      assert.match(visibleText(text), /Your session ended before this was finished. Nothing was changed/);
      assert.deepEqual(await titles(), ['One', 'Two', 'Three']);
    });

  test('names a reference to a missing record of a resource that the admin area leaves out', async () => {
    const { status, text } = await upload(crlf('id,title,shelf_id', '1,Uno,7', '2,Dos,', ',Four,8'));
    assert.equal(status, 200);
    assert.match(visibleText(text), /2 rows have errors/);
    assert.match(visibleText(text), /there is no such record/);
  });

  test('is rolled back when the database connection breaks', async () => {
    const preview = await upload(crlf('title', ...Array.from({ length: 50 }, (_, index) => `row ${index}`)));
    await service.sql.unsafe(`
      create function break_off() returns trigger language plpgsql as $$
      begin
        if new.title = 'row 30' then perform pg_terminate_backend(pg_backend_pid()); end if;
        return new;
      end $$;
      create trigger break_off before insert on book for each row execute function break_off()`);
    try {
      const answer = await apply(preview);
      assert.ok(answer.status >= 500, `${answer.status}`);
      assert.deepEqual(await titles(), ['One', 'Two', 'Three']);
      assert.equal(await history(), 0);
    } finally {
      await service.sql.unsafe('drop function break_off cascade');
    }
  });

  test('does not let admins lock themselves out', async () => {
    const users = '/admin/user/-/import/';
    const bob = await service.addUser('bob', { admin: true });
    for (const column of ['active', 'admin']) {
      for (const value of ['false', 'FALSE']) {
        const csv = crlf(
          `id,${column},email`,
          `1,${value},ada@example.com`,
          `${bob},${value},bob@example.org`,
        );
        const preview = await upload(csv, users);
        const page = visibleText(preview.text);
        assert.match(page, /2 rows: 0 new, 1 changed, 0 unchanged, 1 with errors/);
        const title = column === 'active' ? 'Active' : 'Admin';
        assert.match(page, new RegExp(`2 #1 ${title}: would lock you out: ask another admin to do this`));
        assert.equal(hidden(preview.text, '_digest'), undefined);
      }
    }
    assert.equal((await service.sql`select from "user" where admin and active`).count, 2);
    const harmless = await upload(crlf('id,active,admin,email', '1,true,true,new@example.org', `${bob},false,false,x@example.org`), users); // prettier-ignore
    assert.equal((await apply(harmless, users)).status, 303);
    const rows = await service.sql`select username, active, admin, email from "user" order by id`;
    assert.deepEqual(
      rows.map((row) => Object.values(row)),
      [
        ['ada', true, true, 'new@example.org'],
        ['bob', false, false, 'x@example.org'],
      ],
    );
  });

  test('changes users but adds none, and the page says so', async () => {
    const users = '/admin/user/-/import/';
    const page = visibleText((await browser.get(users)).text);
    assert.match(page, /An import can change records here, but not add any: a new record needs a password, and passwords are not imported\./); // prettier-ignore
    assert.match(page, /id Id the record to change username Username email Email/);
    assert.doesNotMatch(page, /required for new records/);
    const preview = visibleText((await upload(crlf('id,username,email', ',eve,e@example.org', '1,ada,a@example.org'), users)).text); // prettier-ignore
    assert.match(preview, /0 new, 1 changed, 0 unchanged, 1 with errors/);
    assert.match(preview, /2 — New records cannot be imported: they need a password\./);
    const others = visibleText((await browser.get(PATH)).text);
    assert.match(others, /title Title required for new records/);
    assert.doesNotMatch(others, /password/);
  });

  test('adds records with the keys of the file', async () => {
    await service.sql`insert into place (id, name) values ('a', 'Here')`;
    const preview = await upload(crlf('id,name', 'a,There', '=b,New'), '/admin/place/-/import/');
    assert.match(visibleText(preview.text), /1 new, 1 changed, 0 unchanged, 0 with errors/);
    assert.equal((await apply(preview, '/admin/place/-/import/')).status, 303);
    const rows = await service.sql<{ id: string; name: string }[]>`select id, name from place order by id`;
    assert.deepEqual(
      rows.map(({ id, name }) => [id, name]),
      [
        ['=b', 'New'],
        ['a', 'There'],
      ],
    );
    const missing = await upload(crlf('id,name', ',Nowhere'), '/admin/place/-/import/');
    assert.match(visibleText(missing.text), /Id: is required/);
  });

  test('only adds and changes records where the admin area allows it', async () => {
    await service.sql`insert into grown (name) values ('a')`;
    await service.sql`insert into kept (name) values ('a')`;
    const csv = crlf('id,name', '1,b', ',c');
    const grown = visibleText((await upload(csv, '/admin/grown/-/import/')).text);
    assert.match(grown, /1 new, 0 changed, 0 unchanged, 1 with errors/);
    assert.match(grown, /Records cannot be changed here\./);
    const kept = visibleText((await upload(csv, '/admin/kept/-/import/')).text);
    assert.match(kept, /0 new, 1 changed, 0 unchanged, 1 with errors/);
    assert.match(kept, /Records cannot be added here\./);
    for (const name of ['looked', 'vitrine_history', 'vitrine_session']) {
      assert.equal((await browser.get(`/admin/${name}/-/import/`)).status, 404, name);
      assert.equal((await upload(csv, `/admin/${name}/-/import/`)).status, 404, name);
    }
  });
});
