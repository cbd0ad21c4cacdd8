// The preview of a CSV import: errors, labels and limits.
import assert from 'node:assert/strict';
import {
  apply,
  browser,
  crlf,
  hidden,
  PATH,
  visibleText,
  service,
  titles,
  upload,
  useImports,
} from './import-support.ts';
import { describe, test } from 'node:test';

describe('the preview of an import', () => {
  useImports();

  test('reports the error of every cell, and cannot be confirmed', async () => {
    const csv = crlf(
      'id,title,reader_id,pages,data,lent,kind,code',
      ',"",,,,,,',
      `,${'x'.repeat(21)},99,0,{,maybe,verse,1`,
      ',a,x,1.5,,,,',
      '1,b,,2,,,,',
      '1,c,,2,,,,',
      '77,d,,2,,,,',
      'one,e,,2,,,,',
      ',f,99,0,,maybe,verse,1',
    );
    const preview = await upload(csv);
    const page = visibleText(preview.text);
    assert.match(page, /8 rows: 0 new, 0 changed, 0 unchanged, 8 with errors/);
    const expected = [
      /2 — Title: is required/,
      /3 — .*Data: must be JSON/,
      /4 — .*Reader: must be a whole number Pages: must be a whole number/,
      /5 #1 Lent: must not be null/,
      /6 #1 Id: is already in line 5/,
      /7 #77 Id: there is no such record/,
      /8 #one Id: must be a whole number/,
      /Pages: must be at least 1/,
      /Lent: must be true or false/,
      /Kind: must be one of novel, poem/,
      /Code: must be a UUID/,
      /Reader: there is no such record/,
    ];
    for (const one of expected) assert.match(page, one);
    assert.match(page, /Nothing was imported: 8 rows have errors/);
    assert.equal(hidden(preview.text, '_digest'), undefined);
    assert.deepEqual(await titles(), ['One', 'Two', 'Three']);
  });

  test('reports rows with too few or too many cells along with the other errors', async () => {
    const csv = crlf('id,title,pages', '1,"a\r\nb",1', '2', '1,b,2,3', ',c,0', ',d,', '3,e');
    const preview = await upload(csv);
    assert.equal(preview.status, 200);
    const page = visibleText(preview.text);
    assert.match(page, /6 rows: 1 new, 1 changed, 0 unchanged, 4 with errors\./);
    assert.match(page, /4 — The row has 1 cell, but the first line has 3\./);
    assert.match(page, /5 — The row has 4 cells, but the first line has 3\. 6 — Pages: must be at least 1/);
    assert.match(page, /8 — The row has 2 cells, but the first line has 3\./);
    assert.equal(hidden(preview.text, '_digest'), undefined);
    const form = new FormData();
    form.append('_csv', Buffer.from(crlf('id,title', '1,Uno', '2')).toString('base64'));
    form.append('_digest', 'made up');
    assert.equal((await browser.upload(PATH, form)).status, 409);
    assert.deepEqual(await titles(), ['One', 'Two', 'Three']);
  });

  test('shows errors first, then the form, then at most ten other rows of each kind', async () => {
    const changed = ['1,Uno,1', '2,Dos,2'];
    const rows = Array.from({ length: 12 }, (_, index) => `,good ${index},1`);
    const { text } = await upload(crlf('id,title,pages', ...changed, ...rows, ',bad,0'));
    const at = ['<a href="#file">', 'Rows with errors', 'id="file"', 'Changed records', 'New records'];
    const places = at.map((part) => text.indexOf(part));
    assert.ok(!places.includes(-1), places.join());
    assert.deepEqual(
      places,
      places.toSorted((one, other) => one - other),
    );
    assert.equal(text.match(/<tr class="changed">/g)?.length, 2);
    assert.equal(text.match(/<tr class="new">/g)?.length, 10);
    assert.match(visibleText(text), /Showing the first 10 of 12\./);
  });

  test('shows related records by their labels, with the keys of equal labels', async () => {
    const bob = await service.addUser('bob');
    const csv = crlf('id,title,reader', `1,One,${bob}`, `,Four,1`, ',Five,');
    const page = visibleText((await upload(csv)).text);
    assert.match(page, /2 #1 Reader: was — → becomes bob/);
    assert.match(page, /3 new Title: Four Reader: ada 4 new Title: Five Import/);
    await service.sql`insert into place (id, name) values ('a', 'Here'), ('b', 'Here'), ('c', 'There')`;
    await service.sql`insert into visit (place_id) values ('a'), ('b')`;
    const visits = '/admin/visit/-/import/';
    const same = visibleText((await upload(crlf('id,place', '1,b', '2,c'), visits)).text);
    assert.match(same, /2 #1 Place: was Here \(#a\) → becomes Here \(#b\)/);
    assert.match(same, /3 #2 Place: was Here → becomes There/);
  });

  test('shows the beginning of a long cell', async () => {
    const text = `title,pages\r\n"${' \n'.repeat(100)}${'a"" \r\n'.repeat(500_000)}",1\r\nFour,0\r\n`;
    const page = visibleText((await upload(text)).text);
    assert.match(page, /2 — Title: must be at most 20 characters \(got \d+\) 500,103 — Pages/);
    const notes = await upload(`title,note\r\nFour,"${' b'.repeat(100_000)}"\r\n`);
    assert.match(visibleText(notes.text), /Note: (b ){39}b ?…/);
    const spaces = await upload(`title,note\r\nFour,"c${' '.repeat(100_000)}c"\r\n`);
    assert.match(visibleText(spaces.text), /Note: c ?…/);
  });

  test('shows 50 rows with errors and 200 of another kind, and counts all', async () => {
    const rows = Array.from({ length: 250 }, (_, index) => [`,good ${index},1`, `,bad ${index},0`]).flat();
    const { text } = await upload(crlf('id,title,pages', ...rows));
    assert.match(visibleText(text), /500 rows: 250 new, 0 changed, 0 unchanged, 250 with errors/);
    assert.equal(text.match(/<tr class="faulty">/g)?.length, 50);
    const { text: good } = await upload(crlf('id,title,pages', ...rows.filter((row) => row.endsWith('1'))));
    assert.equal(good.match(/<tr class="new">/g)?.length, 200);
    assert.match(visibleText(good), /Showing the first 200 of 250/);
    assert.match(visibleText(text), /Showing the first 50 of 250/);
  });

  const refuse = (condition: string): string => `
    create function act() returns trigger language plpgsql as $$ begin
      if ${condition} then raise check_violation using message = 'refused by act'; end if;
      return new;
    end $$;`;
  const assign = (assignment: string): string => `
    create function act() returns trigger language plpgsql as $$ begin ${assignment}; return new; end $$;`;
  const row = (when: string): string =>
    `create trigger act ${when} on looker for each row execute function act()`;
  /** As many rows as need several savepoints. */
  const names = Array.from({ length: 70 }, (_, index) => `,name ${index}`);
  const ids = Array.from({ length: 70 }, (_, index) => `${index + 1},name ${index}`);

  const others: [what: string, schema: string, rows: readonly string[], counts: RegExp][] = [
    [
      'an exclusion constraint',
      'alter table looker add constraint alone exclude using btree (name with =)',
      [...names, ',name 0'],
      /71 rows: 70 new, .* 1 with errors\. .* 72 — /,
    ],
    [
      'a trigger that refuses what another row has',
      refuse('exists (select from looker where name = new.name)') + row('before insert'),
      [...names, ',name 0'],
      /71 rows: 70 new, .* 1 with errors\. .* 72 — /,
    ],
    [
      'a deferred trigger that counts the rows',
      refuse('(select count(*) > 170 from looker)') +
        `create constraint trigger act after insert on looker deferrable initially deferred
          for each row execute function act()`,
      [...names, ',name 70'],
      /71 rows: 70 new, .* 1 with errors\. .* 72 — /,
    ],
    [
      'a unique index of a table that a trigger fills',
      `create table act (name text primary key);
        ${assign('insert into act values (new.name)')}${row('after insert or update')}`,
      [...ids, '71,name 0'],
      /71 rows: 0 new, 70 changed, .* 1 with errors\. .* 72 #71 /,
    ],
    [
      'a trigger that numbers the rows',
      assign('new.name := (select count(*) from looker)') + row('before insert'),
      names,
      /70 rows: 70 new, .* 0 with errors\. .* 71 new Name: 169 /,
    ],
    [
      'a trigger that changes another record',
      assign(`delete from looker where id = new.id + 69`) + row('after update'),
      ids,
      /70 rows: 0 new, 69 changed, .* 1 with errors\. .* 71 #70 /,
    ],
    [
      'a trigger that adds the time to a value',
      assign('new.name := new.name || clock_timestamp()') + row('before insert or update'),
      [...ids, ...names],
      /140 rows: 70 new, 70 changed, 0 unchanged, 0 with errors/,
    ],
  ];
  for (const [what, schema, rows, counts] of others)
    test(`shows what the import does with ${what}`, async () => {
      const path = '/admin/looker/-/import/';
      await service.sql.unsafe(`truncate looker restart identity;
        insert into looker (name) select 'old ' || n from generate_series(1, 100) n; ${schema}`);
      try {
        const preview = await upload(crlf('id,name', ...rows), path);
        assert.match(visibleText(preview.text), counts);
        if (hidden(preview.text, '_digest') === undefined) return;
        assert.equal((await apply(preview, path)).status, 303);
      } finally {
        await service.sql.unsafe(`drop function if exists act cascade; drop table if exists act;
          alter table looker drop constraint if exists alone`);
      }
    });
});
