// Imports of CSV: what a file may be, what the preview says of it, and what is done of it, all or nothing.
import assert from 'node:assert/strict';
import { after, before, beforeEach, describe, test } from 'node:test';
import type { Resource } from '../../src/index.ts';
import { user } from '../../src/resources/registry.ts';
import { startService, type TestService } from '../support.ts';
import { logIn, openBrowser, type AdminAnswer, type Browser } from './support.ts';

const resources = [
  user,
  {
    model: 'book',
    columns: {
      title: { type: 'string', maxLength: 20 },
      reader: { type: 'foreignKey', references: 'user', null: true },
      pages: { type: 'integer', null: true, min: 1 },
      price: { type: 'decimal', precision: 8, scale: 2, null: true },
      rating: { type: 'float', null: true },
      data: { type: 'json', null: true },
      lent: { type: 'boolean', default: false },
      since: { type: 'datetime', default: 'now' },
      day: { type: 'date', null: true },
      kind: { type: 'string', choices: ['novel', 'poem'], default: 'novel' },
      code: { type: 'uuid', null: true, unique: true },
      note: { type: 'text', null: true },
      stamp: { type: 'string', default: 'none' },
      secret: { type: 'string', null: true },
    },
    admin: { exclude: ['secret'], readonly: ['stamp'], title: 'Books & <b>papers</b>' },
  },
  {
    model: 'place',
    primaryKey: { type: 'string' },
    columns: { name: { type: 'string' } },
  },
  { model: 'visit', columns: { place: { type: 'foreignKey', references: 'place' } } },
  {
    model: 'sheet',
    columns: { name: { type: 'string' }, data: { type: 'json', default: { from: 'default' } } },
  },
  { model: 'looker', columns: { name: { type: 'string' } } },
  { model: 'grown', columns: { name: { type: 'string' } }, admin: { allow: ['add'] } },
  { model: 'kept', columns: { name: { type: 'string' } }, admin: { allow: ['change'] } },
  { model: 'looked', columns: { name: { type: 'string' } }, admin: { allow: ['delete'] } },
] satisfies Resource[];

const PATH = '/admin/book/-/import/';
const crlf = (...lines: readonly string[]): string => lines.map((line) => `${line}\r\n`).join('');

/** The page's text as people read it. */
const readable = (page: string): string =>
  page
    .replace(/<(style|script)[\s\S]*?<\/\1>/g, '')
    .replace(/<[^>]*>/g, ' ')
    .replaceAll('&quot;', '"')
    .replaceAll('&#39;', "'")
    .replaceAll('&lt;', '<')
    .replaceAll('&gt;', '>')
    .replaceAll('&amp;', '&')
    .replace(/\s+/g, ' ');

describe('an import', () => {
  let service: TestService;
  let browser: Browser;

  before(async () => {
    service = await startService(resources);
    await service.addUser('ada', { admin: true });
    browser = await logIn(service, 'ada');
  });
  after(() => service.close());
  beforeEach(async () => {
    await service.sql`truncate book, visit, place, grown, kept, vitrine_history restart identity`;
    await service.sql`delete from "user" where username <> 'ada'`;
    await service.sql`insert into book (title, pages, since, note, secret) values
      ('One', 1, '2026-01-15 09:30:00', null, 'hushed'), ('Two', 2, '2026-01-15 09:30:00', '', 'hushed'),
      ('Three', 3, '2026-01-15 09:30:00', ${'a\nb\r\nc'}, 'hushed')`;
  });

  function upload(content: string | Uint8Array, path = PATH, name = 'books.csv'): Promise<AdminAnswer> {
    const form = new FormData();
    form.append('_file', new Blob([content], { type: 'text/csv' }), name);
    form.append('_text', '');
    return browser.upload(path, form);
  }

  function paste(text: string, path = PATH): Promise<AdminAnswer> {
    const form = new FormData();
    form.append('_file', new Blob([]), '');
    form.append('_text', text);
    return browser.upload(path, form);
  }

  const hidden = (page: string, name: string): string | undefined =>
    new RegExp(`name="${name}" value="([^"]*)"`).exec(page)?.[1];

  /** Sends the form of a preview. */
  function apply({ text }: AdminAnswer, path = PATH): Promise<AdminAnswer> {
    const form = new FormData();
    if (text.includes('name="_current"')) form.append('_current', 'pw-ada');
    for (const name of ['_csv', '_digest']) {
      const value = hidden(text, name);
      assert.ok(value, `the preview carries ${name}`);
      form.append(name, value);
    }
    return browser.upload(path, form);
  }

  const titles = async (): Promise<string[]> =>
    (await service.sql<{ title: string }[]>`select title from book order by id`).map(({ title }) => title);
  const history = async (): Promise<number> => (await service.sql`select from vitrine_history`).count;

  test('refuses a cell above 1,048,576 characters, and takes one below', async () => {
    const text = await upload(crlf('title,note', `Long,${'x'.repeat(1024 * 1024 + 1)}`));
    assert.match(readable(text.text), /must be at most 1,048,576 characters in an import \(got 1,048,577\)/);
    const long = await upload(crlf('title,data', `Long,${'['.repeat(2 * 1024 * 1024)}`));
    assert.match(readable(long.text), /must be at most 1,048,576 characters in an import \(got 2,097,152\)/);
    const short = await upload(crlf('title,data', `Short,"""${'v'.repeat(1024 * 1024 - 10)}"""`));
    assert.doesNotMatch(readable(short.text), /must be/);
  });

  test('begins at a page that says what a file may have', async () => {
    const { status, text } = await browser.get(PATH);
    assert.equal(status, 200);
    assert.match(text, /<input\s+type="file"\s+id="file"\s+name="_file"/);
    assert.match(text, /enctype="multipart\/form-data"/);
    assert.match(readable(text), /10,000 rows and 5 MiB/);
    assert.match(readable(text), /reader_id Reader the id in user/);
    assert.doesNotMatch(text, /secret/);
  });

  test('shows what it would do, does nothing, and then does just that', async () => {
    const csv = crlf('id,title,pages', '1,Uno,1', '2,Two,2', ',Four,', ',Five,5');
    const preview = await upload(csv);
    assert.equal(preview.status, 200);
    const page = readable(preview.text);
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

  test('of an export changes nothing, by a file as by a text', async () => {
    await service.sql`insert into book (title, reader_id, price, rating, data, lent, day, code, note, stamp) values
      ('=1+1', 1, -1.50, 'NaN', '{"a":[1,"x"]}', true, '2026-02-28', ${'9d1f6c1e-6a5b-4c58-9df5-1d1c1c1c1c1c'}, '-', 'x'),
      (${"'=1"}, null, null, 1e20, 'null', false, 'infinity', null, ${"''@"}, ''),
      (${' "quoted", '}, null, null, -0.5, '"text"', false, null, null, ${'\t'}, '')`;
    const { text } = await browser.get('/admin/book/-/export.csv');
    const page = readable((await upload(text)).text);
    assert.match(page, /6 rows: 0 new, 0 changed, 6 unchanged, 0 with errors\./);
    assert.match(page, /No changes to import/);
    const withoutReturns = text.replaceAll('a\nb\r\nc', 'a\nb\nc');
    await service.sql`update book set note = ${'a\nb\nc'} where id = 3`;
    const pasted = await paste(withoutReturns.replaceAll('\n', '\r\n').replaceAll('\r\r\n', '\r\n'));
    assert.match(readable(pasted.text), /6 rows: 0 new, 0 changed, 6 unchanged, 0 with errors\./);
  });

  test('locks one group of rows at a time for its preview', async () => {
    await service.sql`insert into looker (id, name) select n, 'a' from generate_series(1, 200) n`;
    const rows = Array.from({ length: 200 }, (_, index) => `${index + 1},b`);
    let preview: Promise<AdminAnswer> | undefined;
    await service.sql.begin(async (sql) => {
      await sql`update looker set name = 'held' where id = 200`;
      preview = upload(crlf('id,name', ...rows), '/admin/looker/-/import/');
      const waiting = async (): Promise<number> =>
        (
          await service.sql`select 1 from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()`
        ).length;
      while ((await waiting()) === 0) await new Promise((resolve) => setTimeout(resolve, 20));
      await service.sql`select 1 from looker where id <= 128 for update nowait`;
    });
    const answer = await preview;
    assert.match(readable(answer?.text ?? ''), /0 new, 200 changed, 0 unchanged, 0 with errors/);
    const stored = await service.sql`select distinct name from looker where id < 200`;
    assert.deepEqual([...stored], [{ name: 'a' }]);
  });

  test('keeps line breaks inside of cells through the preview', async () => {
    const note = 'x\ny\r\nz\rend';
    const preview = await upload(crlf('title,note', `New,"${note}"`));
    assert.equal((await apply(preview)).status, 303);
    const [row] = await service.sql<{ note: string }[]>`select note from book where title = 'New'`;
    assert.equal(row?.note, note);
  });

  test('tells an empty cell from an empty text', async () => {
    await apply(await upload(crlf('id,note', '1,""', '2,')));
    const notes = await service.sql<
      { note: string | null }[]
    >`select note from book where id < 3 order by id`;
    assert.deepEqual(
      notes.map(({ note }) => note),
      ['', null],
    );
  });

  test('takes an empty cell of a column that is never empty for the default of a new record', async () => {
    const preview = await upload(crlf('title,lent,since,kind', 'New,,,', 'Other,TRUE,2026-01-01T10:00,poem'));
    assert.equal((await apply(preview)).status, 303);
    const rows =
      await service.sql`select lent, since > now() - interval '1 day' as fresh, kind from book where id > 3`;
    assert.deepEqual(rows.map((row) => [row['lent'], row['fresh'], row['kind']]).sort(), [
      [false, true, 'novel'],
      [true, false, 'poem'],
    ]);
  });

  test('does not empty what a form would not let be empty', async () => {
    const page = readable((await upload(crlf('id,title,data', '1,,{bad'))).text);
    assert.match(page, /0 changed, 0 unchanged, 1 with errors/);
    assert.match(page, /2 #1 .*Title: is required/);
    assert.match(page, /2 #1 .*Data: must be JSON/);
    await service.sql`update book set title = '' where id = 1`;
    const stored = readable((await upload(crlf('id,title,pages', '1,,8'))).text);
    await service.sql`update book set title = 'One' where id = 1`;
    assert.match(stored, /1 changed, 0 unchanged, 0 with errors/);
  });

  test('takes headers by the names of columns, and what spreadsheets add to a file', async () => {
    const preview = await upload(`\uFEFF${crlf('id,reader, pages ,,', '1,1,7,,', ',,,,', '')}`);
    const page = readable(preview.text);
    assert.match(page, /2 rows: 0 new, 1 changed, 0 unchanged, 1 with errors/);
    assert.match(page, /Reader: was — → becomes ada/);
    assert.match(page, /3 — Title: is required/);
  });

  test('says of read-only columns that they are not used', async () => {
    const page = readable((await upload(crlf('id,title,stamp', '1,Uno,mine'))).text);
    assert.match(page, /Read-only columns are ignored: Stamp\./);
    assert.match(page, /0 new, 1 changed/);
  });

  const faultyFiles: [what: string, content: string, message: RegExp][] = [
    ['nothing', '', /cannot be imported Choose a file or paste its text\./],
    ['empty lines', '\r\n\r\n', /The file is empty\./],
    ['a head alone', 'id,title\r\n', /column names, but no rows/],
    ['an unknown column', crlf('title,colour', 'a,b'), /no column “colour”/],
    [
      'a title in place of a name',
      crlf('title,Reader', 'a,1'),
      /no column “Reader”. Use its name “reader_id”/,
    ],
    ['a hidden column', crlf('title,secret', 'a,b'), /no column “secret”/],
    ['a column twice', crlf('title,reader,reader_id', 'a,,'), /“reader_id” appears twice/],
    ['a column without a name', crlf('title,,pages', 'a,,'), /Column 2 has no name/],
    ['columns that cannot be set alone', crlf('id,stamp', '1,x'), /no column that an import can set/],
    ['semicolons', crlf('title;pages', 'a;1'), /must be separated by commas/],
    ['semicolons and quotes', crlf('"title";"pages"', '"a";1'), /must be separated by commas/],
    ['a quote that is not closed', crlf('title,pages', 'a,1', '"b,2'), /Line 3: a quoted cell is not closed/],
    [
      'a quote inside of a cell',
      crlf('title,pages', 'a"b,1'),
      /Line 2: a quoted cell is not closed, or a quote inside/,
    ],
    [
      'text behind quotes',
      crlf('title,pages', '"a"b,1'),
      /Line 2: a quoted cell is not closed, or a quote inside/,
    ],
    ['too many rows', `title\r\n${'x\r\n'.repeat(10_001)}`, /must have at most 10,000 rows/],
    [
      'too many bytes',
      `title\r\n"${'x'.repeat(5 * 1024 * 1024)}"\r\n`,
      /at most 5,242,880 bytes \(got [\d,]+\)/,
    ],
  ];
  for (const [what, content, message] of faultyFiles) {
    test(`of ${what} is refused on the page, with what was pasted kept unless it is long`, async () => {
      for (const answer of [await upload(content), await paste(content)]) {
        assert.equal(answer.status, 400);
        assert.match(readable(answer.text), message);
        assert.match(answer.text, /name="_file"/);
      }
      const kept = /<textarea[^>]*>\n([^<]*)<\/textarea/.exec((await paste(content)).text)?.[1] ?? '';
      const unescaped = kept.replaceAll('&quot;', '"').replace(/\r?\n/g, '\r\n');
      assert.equal(unescaped, content.length > 65_536 ? '' : content);
    });
  }

  test('tells of every cell what is wrong with it, and offers nothing to do', async () => {
    const csv = crlf(
      'id,title,reader_id,pages,data,lent,kind,code',
      ',,,,,,,',
      `,${'x'.repeat(21)},99,0,{,maybe,verse,1`,
      ',a,x,1.5,,,,',
      '1,b,,2,,,,',
      '1,c,,2,,,,',
      '77,d,,2,,,,',
      'one,e,,2,,,,',
      ',f,99,0,,maybe,verse,1',
    );
    const preview = await upload(csv);
    const page = readable(preview.text);
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

  test('takes null in a JSON column that must not be null for a fault, and an empty cell for the default', async () => {
    const path = '/admin/sheet/-/import/';
    const faulty = await upload(crlf('name,data', 'a,null', 'b, null ', 'c,', 'd,"""null"""'), path);
    const page = readable(faulty.text);
    assert.match(page, /4 rows: 2 new, 0 changed, 0 unchanged, 2 with errors/);
    assert.match(page, /2 — Data: must not be null/);
    assert.match(page, /3 — Data: must not be null/);
    assert.equal(hidden(faulty.text, '_digest'), undefined);
    const preview = await upload(crlf('name,data', 'c,', 'd,"""null"""', 'e,1'), path);
    assert.equal((await apply(preview, path)).status, 303);
    assert.deepEqual(
      (await service.sql`select data from sheet order by id`).map(({ data }) => data as unknown),
      [{ from: 'default' }, 'null', 1],
    );
    const [row] = await service.sql`select id from sheet where name = 'e'`;
    const changed = readable((await upload(crlf('id,data', `${row?.['id']},null`), path)).text);
    assert.match(changed, /Data: must not be null/);
    // The run checks the cells, too, whatever the form says that was seen.
    const form = new FormData();
    form.append('_csv', Buffer.from(crlf('name,data', 'f,null')).toString('base64'));
    form.append('_digest', hidden(preview.text, '_digest') ?? '');
    assert.match(readable((await browser.upload(path, form)).text), /Data: must not be null/);
    assert.equal((await service.sql`select from sheet where name = 'f'`).count, 0);
  });

  test('goes on behind a row that the database refuses, and undoes all', async () => {
    const code = '9d1f6c1e-6a5b-4c58-9df5-1d1c1c1c1c1c';
    const page = readable((await upload(crlf('title,code', `a,${code}`, `b,${code}`, 'c,'))).text);
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
    const page = readable((await upload(crlf('title,code', ...rows))).text);
    assert.match(page, /150 rows: 148 new, 0 changed, 0 unchanged, 2 with errors/);
    assert.match(page, /42 — Code: another record has this value 142 — Code: another record has this value/);
    const without = await upload(crlf('title,code', ...rows.map((row) => row.replace(code, ''))));
    assert.equal((await apply(without)).status, 303);
    assert.deepEqual(
      (await titles()).slice(3),
      rows.map((row) => row.split(',')[0]),
    );
  });

  test('with faults is not done, though its form is made up', async () => {
    const form = new FormData();
    form.append('_csv', Buffer.from(crlf('title,pages', 'a,1', 'b,0')).toString('base64'));
    form.append('_digest', 'made up');
    const answer = await browser.upload(PATH, form);
    assert.equal(answer.status, 409);
    assert.deepEqual(await titles(), ['One', 'Two', 'Three']);
  });

  test('is shown again where the records have changed since the preview', async () => {
    const preview = await upload(crlf('id,title', '1,Uno', '2,Dos'));
    await service.sql`update book set title = 'Meanwhile' where id = 1`;
    const again = await apply(preview);
    assert.equal(again.status, 409);
    assert.match(readable(again.text), /The records have changed since the preview\. Nothing was imported/);
    assert.match(readable(again.text), /was Meanwhile → becomes Uno/);
    assert.deepEqual(await titles(), ['Meanwhile', 'Two', 'Three']);
    assert.equal((await apply(again)).status, 303);
    assert.deepEqual(await titles(), ['Uno', 'Dos', 'Three']);
  });

  test('leaves nothing when the database breaks off in the middle', async () => {
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

  test('of a row with cells too few or too many tells that beside the other faults', async () => {
    const csv = crlf('id,title,pages', '1,"a\r\nb",1', '2', '1,b,2,3', ',c,0', ',d,', '3,e');
    const preview = await upload(csv);
    assert.equal(preview.status, 200);
    const page = readable(preview.text);
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

  test('shows faults first, then the form to try again, and few of the other rows', async () => {
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
    assert.match(readable(text), /Showing the first 10 of 12\./);
  });

  test('shows what related records are called, and their keys where that is the same', async () => {
    const bob = await service.addUser('bob');
    const csv = crlf('id,title,reader', `1,One,${bob}`, `,Four,1`, ',Five,');
    const page = readable((await upload(csv)).text);
    assert.match(page, /2 #1 Reader: was — → becomes bob/);
    assert.match(page, /3 new Title: Four Reader: ada 4 new Title: Five Import/);
    await service.sql`insert into place (id, name) values ('a', 'Here'), ('b', 'Here'), ('c', 'There')`;
    await service.sql`insert into visit (place_id) values ('a'), ('b')`;
    const visits = '/admin/visit/-/import/';
    const same = readable((await upload(crlf('id,place', '1,b', '2,c'), visits)).text);
    assert.match(same, /2 #1 Place: was Here \(#a\) → becomes Here \(#b\)/);
    assert.match(same, /3 #2 Place: was Here → becomes There/);
  });

  test('does not lock out the one who imports', async () => {
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
        const page = readable(preview.text);
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

  test('changes users and adds none, which the page says before', async () => {
    const users = '/admin/user/-/import/';
    const page = readable((await browser.get(users)).text);
    assert.match(page, /An import can change records here, but not add any: a new record needs a password, and passwords are not imported\./); // prettier-ignore
    assert.match(page, /id Id the record to change username Username email Email/);
    assert.doesNotMatch(page, /required for new records/);
    const preview = readable((await upload(crlf('id,username,email', ',eve,e@example.org', '1,ada,a@example.org'), users)).text); // prettier-ignore
    assert.match(preview, /0 new, 1 changed, 0 unchanged, 1 with errors/);
    assert.match(preview, /2 — New records cannot be imported: they need a password\./);
    const others = readable((await browser.get(PATH)).text);
    assert.match(others, /title Title required for new records/);
    assert.doesNotMatch(others, /password/);
  });

  test('does not repeat a long pasted text in the page, and says so', async () => {
    const short = `title,pages\r\n${'<'.repeat(20)},0\r\n`;
    assert.match((await paste(short)).text, /<textarea[^>]*>\ntitle,pages/);
    for (const text of [`nope\r\n${'<'.repeat(100_000)}`, `title,pages\r\n${'<,1\r\n'.repeat(20_000)}`]) {
      const { status, text: page } = await paste(text);
      assert.equal(status, 400);
      assert.match(page, /<textarea[^>]*>\n<\/textarea>/);
      assert.match(
        readable(page),
        /Your text has 10\d,\d{3} characters, which is too long .* Paste it again/,
      );
      assert.ok(page.length < 50_000, `${page.length}`);
    }
  });

  test('reads only the beginning of a long cell to show it', async () => {
    const text = `title,pages\r\n"${' \n'.repeat(100)}${'a"" \r\n'.repeat(500_000)}",1\r\nFour,0\r\n`;
    const page = readable((await upload(text)).text);
    assert.match(page, /2 — Title: must be at most 20 characters \(got \d+\) 500,103 — Pages/);
    const notes = await upload(`title,note\r\nFour,"${' b'.repeat(100_000)}"\r\n`);
    assert.match(readable(notes.text), /Note: (b ){39}b ?…/);
    const spaces = await upload(`title,note\r\nFour,"c${' '.repeat(100_000)}c"\r\n`);
    assert.match(readable(spaces.text), /Note: c ?…/);
  });

  test('shows 50 faulty rows and 200 of another kind, and counts all', async () => {
    const rows = Array.from({ length: 250 }, (_, index) => [`,good ${index},1`, `,bad ${index},0`]).flat();
    const { text } = await upload(crlf('id,title,pages', ...rows));
    assert.match(readable(text), /500 rows: 250 new, 0 changed, 0 unchanged, 250 with errors/);
    assert.equal(text.match(/<tr class="faulty">/g)?.length, 50);
    const { text: good } = await upload(crlf('id,title,pages', ...rows.filter((row) => row.endsWith('1'))));
    assert.equal(good.match(/<tr class="new">/g)?.length, 200);
    assert.match(readable(good), /Showing the first 200 of 250/);
    assert.match(readable(text), /Showing the first 50 of 250/);
  });

  test('makes records by keys of their own', async () => {
    await service.sql`insert into place (id, name) values ('a', 'Here')`;
    const preview = await upload(crlf('id,name', 'a,There', '=b,New'), '/admin/place/-/import/');
    assert.match(readable(preview.text), /1 new, 1 changed, 0 unchanged, 0 with errors/);
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
    assert.match(readable(missing.text), /Id: is required/);
  });

  test('does what the admin area allows, and no more', async () => {
    await service.sql`insert into grown (name) values ('a')`;
    await service.sql`insert into kept (name) values ('a')`;
    const csv = crlf('id,name', '1,b', ',c');
    const grown = readable((await upload(csv, '/admin/grown/-/import/')).text);
    assert.match(grown, /1 new, 0 changed, 0 unchanged, 1 with errors/);
    assert.match(grown, /Records cannot be changed here\./);
    const kept = readable((await upload(csv, '/admin/kept/-/import/')).text);
    assert.match(kept, /0 new, 1 changed, 0 unchanged, 1 with errors/);
    assert.match(kept, /Records cannot be added here\./);
    for (const name of ['looked', 'vitrine_history', 'vitrine_session']) {
      assert.equal((await browser.get(`/admin/${name}/-/import/`)).status, 404, name);
      assert.equal((await upload(csv, `/admin/${name}/-/import/`)).status, 404, name);
    }
  });

  test('sets no password', async () => {
    const answer = await upload(crlf('id,username,password', '1,ada,secret'), '/admin/user/-/import/');
    assert.equal(answer.status, 400);
    assert.match(readable(answer.text), /set passwords on the password page/);
  });

  const HOSTILE = '"><script>alert(1)</script>&amp;';
  const quoted = `"${HOSTILE.replaceAll('"', '""')}"`;
  const hostile: [where: string, csv: string][] = [
    ['a header', crlf(`title,${quoted}`, 'a,b')],
    ['a value of a new record', crlf('title,note', `a,${quoted}`)],
    ['a changed value', crlf('id,note', `1,${quoted}`)],
    ['a faulty key', crlf('id,note', `${quoted},x`)],
    ['a faulty value', crlf('title,pages', `a,${quoted}`)],
    ['the pasted text', HOSTILE],
  ];
  for (const [where, csv] of hostile) {
    test(`shows hostile text in ${where} as text`, async () => {
      for (const answer of [
        await upload(csv, PATH, `${HOSTILE.replaceAll('"', "'")}.csv`),
        await paste(csv),
      ]) {
        assert.ok(!answer.text.includes('<script>alert'));
        assert.ok(!answer.text.includes('<b>papers'));
        assert.match(answer.headers.get('content-security-policy') ?? '', /default-src 'none'/);
      }
    });
  }

  test('shows a hostile value that a record has as text', async () => {
    await service.sql`update book set note = ${HOSTILE} where id = 1`;
    const { text } = await upload(crlf('id,note', '1,calm'));
    assert.ok(text.includes('&lt;script&gt;alert(1)'));
    assert.ok(!text.includes('<script>alert'));
  });

  test('without a session leads to the login', async () => {
    const stranger = openBrowser(service);
    assert.match((await stranger.get(PATH)).location ?? '', /^\/admin\/-\/login\/\?next=/);
    const form = new FormData();
    form.append('_text', crlf('title', 'mine'));
    form.append('_csrf', 'x');
    assert.match((await stranger.upload(PATH, form)).location ?? '', /^\/admin\/-\/login\/\?next=/);
    assert.deepEqual(await titles(), ['One', 'Two', 'Three']);
  });

  test('needs the token of its form, to look as to do', async () => {
    const preview = await upload(crlf('title', 'mine'));
    for (const csrf of ['', 'x']) {
      const form = new FormData();
      form.append('_csrf', csrf);
      for (const name of ['_csv', '_digest']) form.append(name, hidden(preview.text, name) ?? '');
      assert.equal((await browser.upload(PATH, form)).status, 403);
    }
    assert.deepEqual(await titles(), ['One', 'Two', 'Three']);
  });

  test('that is no text, or too large to be read, is refused where another file can be chosen', async () => {
    const cases: [content: Uint8Array, status: number, message: RegExp][] = [
      [Buffer.from('title\r\nm\xfcde\r\n', 'latin1'), 400, /The file is not UTF-8\./],
      [Buffer.alloc(9 * 1024 * 1024, 'x'), 413, /The file is larger than 8388608 bytes/],
    ];
    for (const [content, status, message] of cases) {
      const answer = await upload(content);
      assert.equal(answer.status, status);
      assert.match(readable(answer.text), message);
      assert.match(answer.text, /name="_file"/);
    }
  });
});
