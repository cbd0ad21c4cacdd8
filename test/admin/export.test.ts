// Exports of lists as CSV and JSON: their records, order and cells, and how they end early.
import assert from 'node:assert/strict';
import fc from 'fast-check';
import { anyCharacter } from '../characters.ts';
import type { Resource } from '../../src/index.ts';
import { parseCsv } from '../../src/query/csv/csv-parser.ts';
import { withoutGuard } from '../../src/query/csv/csv-rows.ts';
import { user } from '../../src/resources/registry.ts';
import { csrfIn, unescaped, useAdmin } from './support.ts';
import { describe, test } from 'node:test';

const resources = [
  user,
  {
    model: 'book',
    columns: {
      title: { type: 'string' },
      reader: { type: 'foreignKey', references: 'user', null: true },
      price: { type: 'decimal', precision: 8, scale: 2, null: true },
      rating: { type: 'float', null: true },
      data: { type: 'json', null: true },
      lent: { type: 'boolean', default: false },
      since: { type: 'datetime', null: true },
      secret: { type: 'string', null: true },
      draft: { type: 'text', null: true },
    },
    // The API hides one column, the admin area the other.
    exclude: ['draft'],
    ordering: '-title',
    admin: { exclude: ['secret'], search: ['title'] },
  },
  { model: 'text', columns: { content: { type: 'text', null: true } } },
] satisfies Resource[];

const BOOK_HEAD = 'id,title,reader_id,price,rating,data,lent,since,draft';

describe('an export', () => {
  const { service, ada: browser } = useAdmin(resources, {}, async () => {
    await service.sql`
      insert into book (title, reader_id, price, rating, data, lent, since, secret, draft) values
        ('A', 1, -1.50, -2.5, '{"a": "b,c"}', true, '2026-01-15 09:30:00', 'hushed up', ''),
        ('C, "quoted"', null, null, null, null, false, null, 'hushed up', null),
        (${'B\r\nnext line'}, null, 0.10, 'NaN', 'null', false, null, 'hushed up', ${'=1+1'})`;
  });

  test('as CSV is a download with column names and unchanged values', async () => {
    const { status, headers, text } = await browser.get('/admin/book/-/export.csv');
    assert.equal(status, 200);
    assert.equal(headers.get('content-type'), 'text/csv; charset=utf-8; header=present');
    assert.equal(headers.get('content-disposition'), 'attachment; filename="book.csv"');
    assert.equal(headers.get('x-content-type-options'), 'nosniff');
    assert.equal(headers.get('cache-control'), 'no-store');
    assert.match(headers.get('content-security-policy') ?? '', /default-src 'none'/);
    const lines = [
      BOOK_HEAD,
      '2,"C, ""quoted""",,,,,false,,',
      '3,"B\r\nnext line",,0.10,NaN,"null",false,,"\'=1+1"',
      '1,"A",1,-1.50,-2.5,"{""a"": ""b,c""}",true,2026-01-15 09:30:00,""',
    ];
    assert.equal(text, `${lines.join('\r\n')}\r\n`);
  });

  test('as CSV for Excel is the same file with a byte order mark, of a list and of selected records', async () => {
    const list = (await browser.get('/admin/book/?ordering=id')).text;
    const [, path = ''] = /href="([^"]*)">CSV for Excel</.exec(list) ?? [];
    const { text: plain } = await browser.get('/admin/book/-/export.csv?ordering=id');
    const cookie = [...browser.cookies].map(([name, value]) => `${name}=${value}`).join('; ');
    const headers = { cookie, origin: service.base };
    const body = new URLSearchParams({
      _csrf: csrfIn(list),
      _state: 'ordering=id',
      _action: 'export.excel.csv',
      _all: '1',
    });
    for (const answer of [
      await fetch(`${service.base}${path}`, { headers }),
      await fetch(`${service.base}/admin/book/-/bulk/`, { method: 'POST', headers, body }),
    ]) {
      assert.equal(answer.headers.get('content-type'), 'text/csv; charset=utf-8; header=present');
      assert.equal(answer.headers.get('content-disposition'), 'attachment; filename="book.csv"');
      const bytes = Buffer.from(await answer.arrayBuffer());
      assert.equal(bytes.toString(), `\uFEFF${plain}`);
    }
  });

  test('of the shown columns has the labels of related records, as a list and as selected records', async () => {
    const query = 'ordering=id&_columns=title,reader,draft';
    const expected = ['id,title,reader,draft', '1,"A","ada",""', '2,"C, ""quoted""",,', '3,"B\r\nnext line",,"\'=1+1"', ''].join('\r\n'); // prettier-ignore
    const page = await browser.get(`/admin/book/?${query}&page=1`);
    const [, path = ''] = /href="([^"]*export\.shown\.csv[^"]*)"/.exec(page.text) ?? [];
    assert.equal((await browser.get(unescaped(path))).text, expected);
    const choice = { _csrf: csrfIn(page.text), _state: query, _action: 'export.shown.csv', _all: '1' };
    assert.equal((await browser.post('/admin/book/-/bulk/', choice)).text, expected);
    // Without chosen columns, those of the list; a label that looks like a formula is guarded.
    await service.sql`update "user" set username = '@ada' where id = 1`;
    const { text } = await browser.get('/admin/book/-/export.shown.csv?id=1');
    assert.equal(text.split('\r\n')[1], `1,"A","'@ada",-1.50,-2.5,true`);
    await service.sql`update "user" set username = 'ada' where id = 1`;
  });

  test('as JSON is one array of the records', async () => {
    const { headers, text } = await browser.get('/admin/book/-/export.json?ordering=id');
    assert.equal(headers.get('content-type'), 'application/json');
    assert.equal(headers.get('content-disposition'), 'attachment; filename="book.json"');
    const records = JSON.parse(text) as Record<string, unknown>[];
    assert.deepEqual(
      records.map(({ id, title, draft }) => [id, title, draft]),
      [
        [1, 'A', ''],
        [2, 'C, "quoted"', null],
        [3, 'B\r\nnext line', '=1+1'],
      ],
    );
    assert.deepEqual(Object.keys(records[0] ?? {}), BOOK_HEAD.split(','));
  });

  const selections: [name: string, query: string, ids: number[]][] = [
    ['in the order of the query', 'ordering=-id', [3, 2, 1]],
    ['in the order of a related column', 'ordering=-reader__username,id', [2, 3, 1]],
    ['of the records that match the filters', 'lent=true', [1]],
    ['of the records that match a filter across a foreign key', 'reader__username=ada', [1]],
    ['of the records that the search finds', '_search=quoted', [2]],
    ['of all pages, also from page 2', 'limit=1&page=2&ordering=id', [1, 2, 3]],
    ['of all records, even if limit and page are invalid', 'limit=none&page=-1&ordering=id', [1, 2, 3]],
    ['empty when no record matches', 'title=nobody', []],
  ];
  for (const [name, query, ids] of selections) {
    test(`is ${name}`, async () => {
      const json = await browser.get(`/admin/book/-/export.json?${query}`);
      assert.deepEqual(
        (JSON.parse(json.text) as { id: number }[]).map(({ id }) => id),
        ids,
      );
      const rows = parseCsv((await browser.get(`/admin/book/-/export.csv?${query}`)).text);
      assert.ok(Array.isArray(rows));
      assert.deepEqual(
        rows.slice(1).map(({ cells }) => Number(cells[0])),
        ids,
      );
    });
  }

  const refusals: [cause: string, path: string, status: number][] = [
    ['a filter on an unknown column', '/admin/book/-/export.csv?nothing=1', 400],
    ['a filter on a column that the admin area excludes', '/admin/book/-/export.csv?secret=1', 400],
    ['an ordering by a password', '/admin/user/-/export.csv?ordering=password', 400],
    ['a filter on a password', '/admin/user/-/export.json?password__is=null', 400],
    ['an invalid filter value', '/admin/book/-/export.json?price=much', 400],
    ['an unknown model', '/admin/nothing/-/export.csv', 404],
    ['the table of sessions', '/admin/vitrine_session/-/export.csv', 404],
  ];
  for (const [cause, path, status] of refusals) {
    test(`with ${cause} is an error page with status ${status}`, async () => {
      const answer = await browser.get(path);
      assert.equal(answer.status, status);
      assert.equal(answer.headers.get('content-type'), 'text/html; charset=utf-8');
      assert.equal(answer.headers.get('content-disposition'), null);
    });
  }

  test('is an error page when the query fails before the first row', async (t) => {
    await service.sql`alter table book rename column draft to moved`;
    t.after(async () => service.sql`alter table book rename column moved to draft`);
    const answer = await browser.get('/admin/book/-/export.csv');
    assert.equal(answer.status, 500);
    assert.equal(answer.headers.get('content-disposition'), null);
  });

  test('never has a password or a column that the admin area excludes', async () => {
    const [hash] = await service.sql<{ password: string }[]>`select password from "user"`;
    for (const format of ['csv', 'json']) {
      const users = (await browser.get(`/admin/user/-/export.${format}`)).text;
      assert.match(users, /ada@example\.org/);
      assert.doesNotMatch(users, /password|argon2/);
      assert.ok(!users.includes(hash?.password ?? '?'));
      const books = (await browser.get(`/admin/book/-/export.${format}`)).text;
      assert.doesNotMatch(books, /secret|hushed/);
      const history = (await browser.get(`/admin/vitrine_history/-/export.${format}`)).text;
      assert.doesNotMatch(history, /argon2|hushed/);
    }
  });

  test('puts an apostrophe before a formula, which an import removes', async () => {
    const starts = ['=', '＝', '＋', '－', '＠', '\u00a0=', '\ufeff=', '\u200b=', '\u2060 \u3000＝', '\u00ad@', '\u2800=', '\u17b4=', '\u{1d173}=', '\u{e0001}\u{e0020}=']; // prettier-ignore
    await service.sql`truncate text restart identity`;
    for (const start of starts) await service.sql`insert into text (content) values (${`${start}1+1`})`;
    const { text } = await browser.get('/admin/text/-/export.csv?ordering=id');
    for (const start of starts) {
      assert.ok(text.includes(`"'${start}1+1"`), JSON.stringify(start));
      assert.equal(withoutGuard(`'${start}1+1`), `${start}1+1`);
    }
  });

  test('keeps any text, and no cell starts like a formula', async () => {
    const texts = fc.oneof(
      fc.string({ unit: anyCharacter }),
      fc.string({ unit: fc.constantFrom(...`='"+-@, \t\r\n\\;0a\u00a0\ufeff\u200b\u3000＝＋－＠﹦`) }),
      fc.constantFrom('', 'NULL', 'null', "'=1", "''", '\uFEFF', '=cmd|x', ' =1', '-1', '\\N', '\u2028'),
    );
    const storable = texts.filter((one) => !one.includes('\0') && one.isWellFormed());
    await fc.assert(
      fc.asyncProperty(fc.array(fc.option(storable), { minLength: 1, maxLength: 30 }), async (contents) => {
        await service.sql`truncate text restart identity`;
        for (const content of contents) await service.sql`insert into text (content) values (${content})`;
        const { text } = await browser.get('/admin/text/-/export.csv');
        const rows = parseCsv(text);
        assert.ok(Array.isArray(rows), text);
        const cells = rows.slice(1).map((row) => row.cells[1] ?? null);
        assert.deepEqual(
          cells.map((cell) => (cell === null ? null : withoutGuard(cell))),
          contents,
        );
        for (const cell of cells)
          assert.doesNotMatch(cell ?? '', /^[\s\p{Cc}\p{Cf}]*[=+@\t\r\n＝＋－＠﹦﹢﹣﹫-]/u);
      }),
      { numRuns: 60 },
    );
  });
});
