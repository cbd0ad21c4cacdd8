// Imports of large records and into wide tables, and how many imports run at once.
import assert from 'node:assert/strict';
import { monitorEventLoopDelay } from 'node:perf_hooks';
import type { Resource } from '../../src/index.ts';
import { user } from '../../src/resources/registry.ts';
import { eventually } from '../http/expect.ts';
import {
  fieldsOf,
  confirmImport,
  crlf,
  logIn,
  postMultipart,
  readable,
  uploadFile,
  useAdmin,
  type AdminAnswer,
  type Browser,
} from './support.ts';
import { before, beforeEach, describe, test } from 'node:test';

const pathOf = (model: string): string => `/admin/${model}/-/import/`;
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

const book: Resource = { model: 'book', columns: { title: { type: 'string' } } };

const { service, ada: root } = useAdmin([user, wide, document, book]);

describe('an import into a wide table', () => {
  const upload = (csv: string): Promise<AdminAnswer> => uploadFile(root, pathOf('wide'), csv);
  const names = Object.keys(wide.columns).join(',');
  const rows = (count: number, cell: string): string[] =>
    Array.from({ length: count }, () => Array(COLUMNS).fill(cell).join(','));

  test('shows at most about 10,000 values, and counts all rows', async () => {
    const answer = await upload(crlf(names, ...rows(60, '1')));
    assert.equal(answer.status, 200);
    assert.match(readable(answer), /New records \(60\) .* Showing the first 27 of 60\./);
    assert.equal(answer.text.match(/<li>C\d+: /g)?.length, 27 * COLUMNS);
  });

  test('takes at most 1,000,000 cells, also empty ones', async () => {
    const most = Math.floor(1_000_000 / COLUMNS) - 1;
    const allowed = await upload(crlf(names, ...rows(most, '').map((row) => `${row.slice(1)}9`)));
    assert.match(readable(allowed), new RegExp(`${most.toLocaleString('en-US')} rows: `));
    for (const csv of [crlf(names, ...rows(most + 1, '').map((row) => `${row}9`)), ','.repeat(1_000_001)]) {
      const refused = await upload(csv);
      assert.equal(refused.status, 400);
      assert.match(
        readable(refused),
        /The file must have at most 1,000,000 cells\. Split it into several files\./,
      );
    }
  });
});

describe('an import lets other requests run', () => {
  /** The longest time that the event loop of this process was blocked while some work ran (milliseconds). */
  async function longestBlock(work: () => Promise<unknown>): Promise<number> {
    const delay = monitorEventLoopDelay({ resolution: 1 });
    delay.enable();
    await work();
    delay.disable();
    return delay.max / 1e6;
  }
  const files: [what: string, model: string, csv: string][] = [
    [
      'it has many titles that are slow to compare',
      'book',
      `${`${Array(1900).fill('ﷺ'.repeat(80)).join(',')}\n`.repeat(10)}`,
    ],
    [
      'it has many values that are invalid',
      'wide',
      `${crlf(Object.keys(wide.columns).join())}${`${Array(COLUMNS).fill('x').join(',')}\n`.repeat(640)}`,
    ],
  ];
  for (const [what, model, csv] of files)
    test(`while ${what}`, async () => {
      const block = await longestBlock(() => uploadFile(root, pathOf(model), csv));
      assert.ok(block < 1000, `${block} ms`);
    });
});

describe('an import of large records', () => {
  before(() =>
    // The first record changes one of a later group.
    service.sql.unsafe(`
      create function revise() returns trigger language plpgsql as $$ begin
        new.revision := old.revision + 1;
        new.copy := new.body;
        if new.id = 1 and new.title is distinct from old.title then
          update document set title = 'moved' where id = 100;
        end if;
        return new;
      end $$;
      create trigger revise before update on document for each row execute function revise()`),
  );
  beforeEach(async () => {
    await service.sql`truncate document`;
    await service.sql`insert into document (id, title, body)
      select n, 'title ' || n, repeat('0123456789', ${SIZE / 10}) || n from generate_series(1, ${ROWS}) n`;
  });

  const upload = (csv: string): Promise<AdminAnswer> => uploadFile(root, pathOf('document'), csv);
  const lines = (make: (id: number) => string): string[] =>
    Array.from({ length: ROWS }, (_, index) => make(index + 1));

  test('shows the beginnings of their values', async () => {
    const answer = await upload(crlf('id,body', ...lines((id) => `${id},x`)));
    const text = readable(answer);
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
      status: 303,
    },
  ] as const;
  for (const { what, csv, counts, shows, status } of FILES)
    test(what, async () => {
      const preview = await upload(csv);
      const text = readable(preview);
      assert.match(text, counts);
      assert.match(text, shows);
      assert.equal((await confirmImport(root, pathOf('document'), preview)).status, status);
      const [row] = await service.sql<{ count: number }[]>`
        select count(*)::int as count from document where revision > 0`;
      assert.equal((row?.count ?? 0) > 0, status === 303);
    });
});

describe('imports at once that take long', () => {
  before(() =>
    service.sql.unsafe(`
      create table gate (is_closed boolean);
      create function wait_for_gate() returns trigger language plpgsql as $$
      begin
        while new.title like 'Slow%' and exists (select from gate) loop
          perform pg_sleep(0.05);
        end loop;
        return new;
      end $$;
      create trigger wait_for_gate before insert on book for each row execute function wait_for_gate()`),
  );

  /** Previews an import of one book. @returns a function that imports it */
  async function prepare(browser: Browser, title: string): Promise<() => Promise<AdminAnswer>> {
    const preview = await postMultipart(browser, pathOf('book'), { _text: crlf('title', title) });
    return () => postMultipart(browser, pathOf('book'), fieldsOf(preview));
  }

  /** Runs something while an import waits in the database. @returns the answer to the import */
  async function whileImporting(
    send: () => Promise<AdminAnswer>,
    run: () => Promise<void>,
  ): Promise<AdminAnswer> {
    await service.sql`insert into gate values (true)`;
    const importing = send();
    try {
      await eventually(async () => {
        const waiting = await service.sql`select from pg_stat_activity
          where datname = current_database() and application_name = 'vitrine' and wait_event = 'PgSleep'`;
        return waiting.count > 0;
      }, 'the import to wait');
      await run();
    } finally {
      await service.sql`delete from gate`;
    }
    return importing;
  }

  const countOf = async (title: string): Promise<number> =>
    (await service.sql`select from book where title = ${title}`).count;

  test('do not delay other forms of the same session', async () => {
    const ada = await logIn(service, 'ada');
    const [slow, other] = [await prepare(ada, 'Slow'), await prepare(ada, 'Other')];
    const add = '/admin/book/-/add/';
    const fields = { ...fieldsOf(await ada.get(add)), title: 'Added' };
    const { status } = await whileImporting(slow, async () => {
      assert.equal((await ada.post(add, fields)).status, 303);
      assert.equal((await other()).status, 303);
      assert.deepEqual([await countOf('Added'), await countOf('Other'), await countOf('Slow')], [1, 1, 0]);
    });
    assert.equal(status, 303);
    // All three are remembered.
    for (const again of [await slow(), await other(), await ada.post(add, fields)])
      assert.equal(again.status, 303);
    for (const title of ['Added', 'Other', 'Slow']) assert.equal(await countOf(title), 1, title);
  });

  test('say so when they are sent again meanwhile, and are processed once', async () => {
    const ada = await logIn(service, 'ada');
    const send = await prepare(ada, 'Slow twice');
    const { status } = await whileImporting(send, async () => {
      const again = await send();
      assert.equal(again.status, 503);
      assert.match(readable(again), /This form is already being processed\./);
    });
    assert.equal(status, 303);
    const { text } = await ada.follow(await send());
    assert.match(text, /The file was submitted twice and imported once\./);
    assert.equal(await countOf('Slow twice'), 1);
  });

  test('change nothing after a logout', async () => {
    const ada = await logIn(service, 'ada');
    const refused = await whileImporting(await prepare(ada, 'Slow and late'), async () => {
      assert.equal((await ada.post('/admin/-/logout/')).status, 303);
    });
    assert.equal(refused.status, 403);
    assert.match(readable(refused), /Your session ended before this was finished/);
    assert.equal(await countOf('Slow and late'), 0);
  });
});
