// CSV imports that read large records: group by group, and as they were before the import. Imports into wide tables.
import assert from 'node:assert/strict';
import type { Resource } from '../../src/index.ts';
import { user } from '../../src/resources/registry.ts';
import { startService, type TestService } from '../support.ts';
import { logIn, type AdminAnswer, type Browser } from './support.ts';
import { crlf, hidden, visibleText } from './import-support.ts';
import { after, before, beforeEach, describe, test } from 'node:test';

const PATH = '/admin/document/-/import/';
const ROWS = 130;
const SIZE = 100_000;

const document = {
  model: 'document',
  columns: {
    title: { type: 'string' },
    body: { type: 'text' },
    revision: { type: 'integer', default: 0 },
    copy: { type: 'text', null: true },
  },
  admin: { readonly: ['revision', 'copy'] },
} as const;

const COLUMNS = 380;
const wide = {
  model: 'wide',
  columns: Object.fromEntries(
    Array.from({ length: COLUMNS }, (_, index) => [`c${index}`, { type: 'integer', null: true }] as const),
  ),
} satisfies Resource;

describe('an import into a wide table', () => {
  let service: TestService;
  let browser: Browser;
  before(async () => {
    service = await startService([user, wide]);
    await service.addUser('ada', { admin: true });
    browser = await logIn(service, 'ada');
  });
  after(() => service.close());
  async function upload(csv: string): Promise<AdminAnswer> {
    const form = new FormData();
    form.append('_file', new Blob([csv]), 'wide.csv');
    return browser.upload('/admin/wide/-/import/', form);
  }
  const names = Object.keys(wide.columns).join(',');
  const rows = (count: number, cell: string): string[] =>
    Array.from({ length: count }, () => Array(COLUMNS).fill(cell).join(','));

  test('shows at most about 10,000 values, and counts all rows', async () => {
    const { status, text } = await upload(crlf(names, ...rows(60, '1')));
    assert.equal(status, 200);
    assert.match(visibleText(text), /New records \(60\) .* Showing the first 27 of 60\./);
    assert.equal(text.match(/<li>C\d+: /g)?.length, 27 * COLUMNS);
  });

  test('takes at most 1,000,000 cells, also empty ones', async () => {
    const most = Math.floor(1_000_000 / COLUMNS) - 1;
    const allowed = await upload(crlf(names, ...rows(most, '').map((row) => `${row.slice(1)}9`)));
    assert.match(visibleText(allowed.text), new RegExp(`${most.toLocaleString('en-US')} rows: `));
    for (const csv of [crlf(names, ...rows(most + 1, '').map((row) => `${row}9`)), ','.repeat(1_000_001)]) {
      const { status, text } = await upload(csv);
      assert.equal(status, 400);
      assert.match(
        visibleText(text),
        /The file must have at most 1,000,000 cells\. Split it into several files\./,
      );
    }
  });
});

describe('an import of large records', () => {
  let service: TestService;
  let browser: Browser;
  before(async () => {
    service = await startService([user, document]);
    await service.addUser('ada', { admin: true });
    browser = await logIn(service, 'ada');
    // The first record changes one of a later group.
    await service.sql.unsafe(`
      create function revise() returns trigger language plpgsql as $$ begin
        new.revision := old.revision + 1;
        new.copy := new.body;
        if new.id = 1 and new.title is distinct from old.title then
          update document set title = 'moved' where id = 100;
        end if;
        return new;
      end $$;
      create trigger revise before update on document for each row execute function revise()`);
  });
  after(() => service.close());
  beforeEach(async () => {
    await service.sql`truncate document`;
    await service.sql`insert into document (id, title, body)
      select n, 'title ' || n, repeat('0123456789', ${SIZE / 10}) || n from generate_series(1, ${ROWS}) n`;
  });

  async function upload(csv: string): Promise<AdminAnswer> {
    const form = new FormData();
    form.append('_file', new Blob([csv]), 'documents.csv');
    form.append('_text', '');
    return browser.upload(PATH, form);
  }

  async function confirm({ text }: AdminAnswer): Promise<number> {
    const form = new FormData();
    for (const name of ['_csv', '_digest']) form.append(name, hidden(text, name) ?? '');
    return (await browser.upload(PATH, form)).status;
  }

  const lines = (make: (id: number) => string): string[] =>
    Array.from({ length: ROWS }, (_, index) => make(index + 1));

  test('shows the beginnings of their values', async () => {
    const answer = await upload(crlf('id,body', ...lines((id) => `${id},x`)));
    const text = visibleText(answer.text);
    assert.match(text, /0 new, 130 changed, 0 unchanged, 0 with errors/);
    assert.match(text, /130 #129 Body: was \d{80}… → becomes x/);
    assert.ok(answer.text.length < 200_000);
  });

  const FILES = [
    {
      what: 'compares with the records as they were before the import',
      csv: crlf('id,title', '1,other', ...lines((id) => `${id},title ${id}`).slice(1)),
      counts: /0 new, 1 changed, 129 unchanged, 0 with errors/,
      shows: /2 #1 Title: was title 1 → becomes other/,
      status: 303,
    },
    {
      what: 'shows the changes of columns that the file lacks',
      csv: crlf('title,id', ...lines((id) => `other ${id},${id}`)),
      counts: /0 new, 130 changed, 0 unchanged, 0 with errors/,
      shows:
        /131 #130 Title: was title 130 → becomes other 130 Revision: was 0 → becomes 1 Copy: was — → becomes \d{80}…/,
      status: 303,
    },
    {
      what: 'finds a key that an earlier group has',
      csv: crlf('id,body', ...lines((id) => `${id},x`), '1,y', '999,z', 'a,z'),
      counts: /0 new, 130 changed, 0 unchanged, 3 with errors/,
      shows:
        /132 #1 Id: is already in line 2 133 #999 Id: there is no such record 134 #a Id: must be a whole number/,
      status: 400,
    },
  ] as const;
  for (const { what, csv, counts, shows, status } of FILES)
    test(what, async () => {
      const preview = await upload(csv);
      const text = visibleText(preview.text);
      assert.match(text, counts);
      assert.match(text, shows);
      assert.equal(await confirm(preview), status);
      const [row] = await service.sql<{ count: number }[]>`
        select count(*)::int as count from document where revision > 0`;
      assert.equal((row?.count ?? 0) > 0, status === 303);
    });
});
