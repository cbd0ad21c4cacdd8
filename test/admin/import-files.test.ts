// Files for CSV imports: accepted and invalid ones, hostile text, and protection of the form.
import assert from 'node:assert/strict';
import {
  apply,
  browser,
  crlf,
  hidden,
  paste,
  PATH,
  visibleText,
  service,
  titles,
  upload,
  useImports,
} from './import-support.ts';
import { openBrowser } from './support.ts';
import { describe, test } from 'node:test';

describe('an import', () => {
  useImports();

  test('accepts cells up to 1,048,576 characters', async () => {
    const text = await upload(crlf('title,note', `Long,${'x'.repeat(1024 * 1024 + 1)}`));
    assert.match(
      visibleText(text.text),
      /must be at most 1,048,576 characters in an import \(got 1,048,577\)/,
    );
    const long = await upload(crlf('title,data', `Long,${'['.repeat(2 * 1024 * 1024)}`));
    assert.match(
      visibleText(long.text),
      /must be at most 1,048,576 characters in an import \(got 2,097,152\)/,
    );
    const short = await upload(crlf('title,data', `Short,"""${'v'.repeat(1024 * 1024 - 10)}"""`));
    assert.doesNotMatch(visibleText(short.text), /must be/);
  });

  test('starts with a page that lists the limits and the columns of a file', async () => {
    const { status, text } = await browser.get(PATH);
    assert.equal(status, 200);
    assert.match(text, /<input\s+type="file"\s+id="file"\s+name="_file"/);
    assert.match(text, /enctype="multipart\/form-data"/);
    assert.match(visibleText(text), /10,000 rows and 5 MiB/);
    assert.match(visibleText(text), /reader_id Reader the id in user/);
    assert.doesNotMatch(text, /secret/);
  });

  test('accepts a byte order mark, spaces around names, and the empty columns of spreadsheets', async () => {
    const preview = await upload(`\uFEFF${crlf('id,reader, pages ,,', '1,1,7,,', ',,8,,', '')}`);
    const page = visibleText(preview.text);
    assert.match(page, /2 rows: 0 new, 1 changed, 0 unchanged, 1 with errors/);
    assert.match(page, /Reader: was — → becomes ada/);
    assert.match(page, /3 — Title: is required/);
  });

  test('skips rows of separators only, wherever they are and however many', async () => {
    const cleared = ',,,,\r\n'.repeat(250_000);
    const file = `,,,,\r\n\r\ntitle,note\r\n${cleared}Four,""\r\n,,\r\n,""\r\n,`;
    const page = visibleText((await upload(file)).text);
    assert.match(page, /2 rows: 1 new, 0 changed, 0 unchanged, 1 with errors/);
    assert.match(page, /250,006 — Title: is required/);
    assert.match(page, /250,004 new Title: Four/);
  });

  const invalidFiles: [file: string, content: string, message: RegExp][] = [
    ['an empty file', '', /cannot be imported Choose a file or paste its text\./],
    ['empty lines', '\r\n\r\n', /The file is empty\./],
    ['separators only', ',,,\r\n,,,\r\n', /The file is empty\./],
    ['semicolons only', ';;;\r\n;;;\r\n', /The file is empty\./],
    ['a header above rows of separators', 'id,title\r\n,\r\n', /column names, but no rows/],
    ['a header without rows', 'id,title\r\n', /column names, but no rows/],
    ['an unknown column', crlf('title,colour', 'a,b'), /no column “colour”/],
    [
      'a title instead of a name',
      crlf('title,Reader', 'a,1'),
      /no column “Reader”. Use its name “reader_id”/,
    ],
    ['a hidden column', crlf('title,secret', 'a,b'), /no column “secret”/],
    ['a column twice', crlf('title,reader,reader_id', 'a,,'), /“reader_id” appears twice/],
    ['a column without a name', crlf('title,,pages', 'a,,'), /Column 2 has no name/],
    ['only columns that cannot be set', crlf('id,stamp', '1,x'), /no column that an import can set/],
    ['two separators', crlf('title;pages,note', 'a;1,b'), /no column “title;pages”/],
    ['another separator than it declares', crlf('sep=;', 'title,pages', 'a,1'), /no column “title,pages”/],
    ['a separator only', 'sep=;', /The file is empty\./],
    ['a million semicolons', ';'.repeat(1_000_001), /at most 1,000,000 cells/],
    ['one long line', `title;${'x'.repeat(3 * 1024 * 1024)}`, /no column “x+ ?…”/],
    ['an unclosed quote', crlf('title,pages', 'a,1', '"b,2'), /Line 3: a quoted cell is not closed/],
    [
      'a quote inside a cell',
      crlf('title,pages', 'a"b,1'),
      /Line 2: a quoted cell is not closed, or a quote inside/,
    ],
    [
      'text after a closing quote',
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

  for (const [file, content, message] of invalidFiles) {
    test(`of ${file} returns 400, and the page keeps the pasted text unless it is long`, async () => {
      for (const answer of [await upload(content), await paste(content)]) {
        assert.equal(answer.status, 400);
        assert.match(visibleText(answer.text), message);
        assert.match(answer.text, /name="_file"/);
      }
      const kept = /<textarea[^>]*>\n([^<]*)<\/textarea/.exec((await paste(content)).text)?.[1] ?? '';
      const unescaped = kept.replaceAll('&quot;', '"').replace(/\r?\n/g, '\r\n');
      assert.equal(unescaped, content.length > 65_536 ? '' : content);
    });
  }

  test('of the most rows is read: 10,000', async () => {
    const { text } = await upload(`pages\r\n${'x\r\n'.repeat(10_000)}`);
    assert.doesNotMatch(visibleText(text), /must have at most 10,000 rows/);
    assert.match(visibleText(text), /10,000/);
  });

  test('does not repeat a long pasted text, and says so', async () => {
    const short = `title,pages\r\n${'<'.repeat(20)},0\r\n`;
    assert.match((await paste(short)).text, /<textarea[^>]*>\ntitle,pages/);
    for (const text of [`nope\r\n${'<'.repeat(100_000)}`, `title,pages\r\n${'<,1\r\n'.repeat(20_000)}`]) {
      const { status, text: page } = await paste(text);
      assert.equal(status, 400);
      assert.match(page, /<textarea[^>]*>\n<\/textarea>/);
      assert.match(
        visibleText(page),
        /Your text has 10\d,\d{3} characters, which is too long .* Paste it again/,
      );
      assert.ok(page.length < 50_000, `${page.length}`);
    }
  });

  test('returns 400 for a password column', async () => {
    const answer = await upload(crlf('id,username,password', '1,ada,secret'), '/admin/user/-/import/');
    assert.equal(answer.status, 400);
    assert.match(visibleText(answer.text), /set passwords on the password page/);
  });

  const HOSTILE = '"><script>alert(1)</script>&amp;';

  const quoted = `"${HOSTILE.replaceAll('"', '""')}"`;

  const hostile: [where: string, csv: string][] = [
    ['a header', crlf(`title,${quoted}`, 'a,b')],
    ['a value of a new record', crlf('title,note', `a,${quoted}`)],
    ['a changed value', crlf('id,note', `1,${quoted}`)],
    ['an invalid key', crlf('id,note', `${quoted},x`)],
    ['an invalid value', crlf('title,pages', `a,${quoted}`)],
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

  test('shows a hostile stored value as text', async () => {
    await service.sql`update book set note = ${HOSTILE} where id = 1`;
    const { text } = await upload(crlf('id,note', '1,calm'));
    assert.ok(text.includes('&lt;script&gt;alert(1)'));
    assert.ok(!text.includes('<script>alert'));
  });

  test('without a session redirects to the login', async () => {
    const anonymous = openBrowser(service);
    assert.match((await anonymous.get(PATH)).location ?? '', /^\/admin\/-\/login\/\?next=/);
    const form = new FormData();
    form.append('_text', crlf('title', 'mine'));
    form.append('_csrf', 'x');
    assert.match((await anonymous.upload(PATH, form)).location ?? '', /^\/admin\/-\/login\/\?next=/);
    assert.deepEqual(await titles(), ['One', 'Two', 'Three']);
  });

  test('returns 403 without the CSRF token', async () => {
    const preview = await upload(crlf('title', 'mine'));
    for (const csrf of ['', 'x']) {
      const form = new FormData();
      form.append('_csrf', csrf);
      for (const name of ['_csv', '_digest']) form.append(name, hidden(preview.text, name) ?? '');
      assert.equal((await browser.upload(PATH, form)).status, 403);
    }
    assert.deepEqual(await titles(), ['One', 'Two', 'Three']);
  });

  test('returns 413 for a file above 8 MiB, with the form to try again', async () => {
    const answer = await upload(Buffer.alloc(9 * 1024 * 1024, 'x'));
    assert.equal(answer.status, 413);
    assert.match(visibleText(answer.text), /The file is larger than 8388608 bytes/);
    assert.match(answer.text, /name="_file"/);
  });

  const LATIN_1 = 'latin1';
  const utf16 = (text: string): Buffer => Buffer.from(text, 'utf16le');
  const noTexts: [what: string, bytes: Buffer][] = [
    ['a byte that Windows-1252 lacks', Buffer.from('title\r\nm\xfcde\x81\r\n', LATIN_1)],
    ['a ZIP archive, as workbooks are', Buffer.from('PK\x03\x04\x14\0\x06\0\xe4\xfc', LATIN_1)],
    ['UTF-8 with one wrong byte', Buffer.from('title\r\nm\xc3\xbcde\xfc\xc3\xbc\r\n', LATIN_1)],
    ['UTF-8 with a byte order mark and wrong bytes', Buffer.from('\xef\xbb\xbftitle\r\n\xfc,\xfc', LATIN_1)],
    ['half a character of UTF-16', utf16('\uFEFFtitle\r\na').subarray(0, -1)],
    ['half a surrogate pair of UTF-16', utf16('\uFEFFtitle\r\n\uD83D')],
    ['UTF-16 without a byte order mark', utf16('title\r\na')],
    ['UTF-32', Buffer.from('\xff\xfe\0\0t\0\0\0', LATIN_1)],
    ['5 MiB of wrong bytes', Buffer.alloc(5 * 1024 * 1024, 0x81)],
  ];
  for (const [what, bytes] of noTexts)
    test(`returns 400 for ${what}`, async () => {
      const { status, text } = await upload(bytes);
      assert.equal(status, 400);
      assert.match(visibleText(text), /The file is not text in UTF-8, UTF-16 or Windows-1252\. Save it/);
      assert.match(text, /name="_file"/);
    });

  const NOTE = 'Müller, "Œuvre"; 5 €';
  const IN_CSV = `"${NOTE.replaceAll('"', '""')}"`;
  const windows1252 = (text: string): Buffer =>
    Buffer.from(text.replaceAll('Œ', '\x8c').replaceAll('€', '\x80'), LATIN_1);
  const spreadsheets: [what: string, file: string | Buffer, read: string][] = [
    ['LibreOffice', `title,note,price\n"New",${IN_CSV},1.50\n`, 'UTF-8, separated by commas'],
    ['Google Sheets', `title,note,price\r\nNew,${IN_CSV},1.50`, 'UTF-8, separated by commas'],
    ['Google Sheets as TSV', `title\tnote\tprice\r\nNew\t${NOTE}\t1.50`, 'UTF-8, separated by tabs'],
    [
      'Excel in German or French',
      windows1252(crlf('title;note;price;;', `New;${IN_CSV};1.50;;`, ';;;;', ';;;;')),
      'Windows-1252, separated by semicolons',
    ],
    [
      'Excel in German as UTF-8',
      `\uFEFF${crlf('title;note;price', `New;${IN_CSV};1.50`)}`,
      'UTF-8, separated by semicolons',
    ],
    [
      'Excel as Unicode text',
      utf16(`\uFEFF${crlf('title\tnote\tprice', `New\t${IN_CSV}\t1.50`)}`),
      'UTF-16, separated by tabs',
    ],
    [
      'a program with big-endian UTF-16',
      utf16(`\uFEFFtitle;note;price\nNew;${IN_CSV};1.50`).swap16(),
      'UTF-16, separated by semicolons',
    ],
    [
      'an old Macintosh',
      windows1252(`title;note;price\rNew;${IN_CSV};1.50\r`),
      'Windows-1252, separated by semicolons',
    ],
    [
      'a program that declares semicolons',
      `\uFEFF${crlf('sep=;', '', '"title";"note";"price"', `"New";${IN_CSV};"1.50"`)}`,
      'UTF-8, separated by semicolons',
    ],
    [
      'a program that declares vertical bars',
      crlf('"SEP=|"', 'title|note|price', `New|${IN_CSV}|1.50`),
      'UTF-8, separated by vertical bars',
    ],
  ];
  for (const [what, file, read] of spreadsheets)
    test(`reads a file of ${what}, and the preview says how`, async () => {
      const preview = await upload(file);
      const page = visibleText(preview.text);
      assert.ok(page.includes(`1 row: 1 new, 0 changed, 0 unchanged, 0 with errors. Read as ${read}.`), page);
      assert.equal((await apply(preview)).status, 303);
      const [row] = await service.sql`select note, price from book where title = 'New'`;
      assert.deepEqual({ ...row }, { note: NOTE, price: '1.50' });
    });

  test('reads cells that are pasted from a spreadsheet', async () => {
    const preview = await paste('title\tnote\r\nNew\t"a\r\nb"\r\n');
    assert.match(visibleText(preview.text), /1 row: 1 new, .* separated by tabs\./);
    assert.match(visibleText(preview.text), /Title: New Note: a b/);
  });

  test('reads a file in a form that is not multipart', async () => {
    await browser.get(PATH);
    const preview = await browser.post(PATH, { _file: `title,note\r\nNew,${IN_CSV}\r\n` });
    assert.match(visibleText(preview.text), /1 row: 1 new, .* Read as UTF-8, separated by commas\./);
    assert.equal((await apply(preview)).status, 303);
    const [row] = await service.sql`select note from book where title = 'New'`;
    assert.deepEqual({ ...row }, { note: NOTE });
  });

  test('does not guess numbers with a decimal comma', async () => {
    const page = visibleText((await upload(crlf('title;price;rating', 'New;1,50;1,5'))).text);
    assert.match(page, /Price: must be a decimal number Rating: must be a number/);
  });

  test('names the line of an error below the declaration of a separator', async () => {
    const page = visibleText((await upload(crlf('sep=;', 'title;pages', 'New;1', ';;', 'New;x'))).text);
    assert.match(page, /5 — Pages: must be a whole number/);
  });
});
