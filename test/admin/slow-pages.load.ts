// Pages with parts that take too long, cannot be read after a save, or are loaded for several admins at once.
import assert from 'node:assert/strict';
import type { Resource } from '../../src/index.ts';
import shipped, { user } from '../../src/resources/registry.ts';
import { eventually } from '../http/expect.ts';
import { lockedOut, startService, useService, type Sql, type TestService } from '../support.ts';
import { fieldsOf, logIn, readable, type AdminAnswer, type Browser } from './support.ts';
import { setTimeout as sleep } from 'node:timers/promises';
import { beforeEach, describe, test } from 'node:test';

const view = (model: string): Resource => ({
  model,
  primaryKey: { type: 'integer' },
  columns: { day: { type: 'date', null: true } },
});

const slow: readonly Resource[] = [
  view('slow_day'),
  view('slow_count'),
  view('quick'),
  {
    model: 'page',
    primaryKey: { type: 'integer', column: 'id' },
    columns: { name: { type: 'string' } },
    admin: { search: ['name'] },
  },
  { model: 'band', columns: { name: { type: 'string' } } },
  {
    model: 'album',
    columns: { title: { type: 'string' }, band: { type: 'foreignKey', references: 'band', null: true } },
  },
  {
    model: 'song',
    columns: {
      title: { type: 'string' },
      album: { type: 'foreignKey', references: 'album', null: true },
    },
    admin: { title: 'Songs', label: '{title} ({album__band__name})' },
  },
];

let root: Browser;
const service = useService(
  [user, ...slow],
  {
    // Each call takes some milliseconds: those of a page are quick, and those of all rows take longer than a statement may.
    prepare: (sql) =>
      sql.unsafe(`
        create table base as select n as id, date '2024-01-01' + n as day from generate_series(1, 5000) n;
        alter table base add primary key (id);
        analyze base;
        create function slow_date(day date) returns date language plpgsql stable cost 100000 as
          $$ begin perform pg_sleep(0.005); return day; end $$;
        create view quick as select id, day from base;
        create view slow_day as select id, slow_date(day) as day from base;
        create view slow_count as select id, day from base where slow_date(day) is not null;
        create view page as select 1 as id, 'one'::text as name
          union all select 2, 'two' || slow from (select pg_sleep(2.2)::text as slow offset 0) s;`),
  },
  async () => {
    await service.addUser('root', { admin: true });
    root = await logIn(service, 'root');
    await service.sql`insert into song (id, title) overriding system value values (1001, 'Old'), (1002, 'Doomed')`;
  },
);

const rowsIn = (text: string): number => [...text.matchAll(/name="_id"/g)].length;

describe('a list', () => {
  test('shows its count if this is quick', async () => {
    const page = await root.get('/admin/quick/');
    assert.match(readable(page), /1–20 of 5,000 records/);
  });

  test('is shown without its count if this takes too long', async () => {
    const page = await root.get('/admin/slow_count/?page=2');
    assert.equal(page.status, 200, readable(page));
    assert.equal(rowsIn(page.text), 20);
    assert.match(readable(page), /21–40 of an unknown number of records Previous Page 2 Next 20 50 100/);
    assert.match(readable(page), /With selected: .* all records in this list Continue/);
    assert.match(page.text, /href="\/admin\/slow_count\/\?page=3" rel="next"/);
    await eventually(
      () => service.lines.find(({ message }) => String(message).includes('the count of slow_count')),
      'the line',
    );
  });

  test('with an invalid filter logs no missing count', async () => {
    const page = await root.get('/admin/quick/?day=never');
    assert.equal(page.status, 400);
    await eventually(() => service.lines.find(({ status }) => status === 400), 'the line of the request');
    const omitted = service.lines.filter(({ message }) => /omits .* quick/.test(String(message)));
    assert.deepEqual(omitted, []);
  });
});

test('a look-up in a table whose search takes seconds finds the record, although an admin has two connections', async () => {
  const { status, text } = await root.get('/admin/page/-/lookup/?_search=two');
  assert.equal(status, 200, text);
  assert.match(text, /two/);
});

/** Runs `lock` in a new transaction. @returns a function that rolls it back */
async function holdLock(lock: (sql: Sql) => Promise<unknown>): Promise<() => Promise<void>> {
  const connection = await service.sql.reserve();
  await connection`begin`;
  await lock(connection);
  return async () => {
    await connection`rollback`;
    connection.release();
  };
}

/**
 * Saves a song while its label cannot be read. The write first waits for `lock`. Then the table of bands is locked, which the
 * label needs, and the write commits. The table of albums stays free, because the insert of a song needs it.
 */
async function saveUnread(
  path: string,
  title: string,
  lock: (sql: Sql) => Promise<unknown>,
): Promise<AdminAnswer> {
  const fields = { ...fieldsOf(await root.get(path)), title, _save: 'stay' };
  const releaseWrite = await holdLock(lock);
  const answer = root.post(path, fields);
  await lockedOut(service);
  const releaseRead = await holdLock((sql) => sql`lock table band in access exclusive mode`);
  await releaseWrite();
  try {
    return await answer;
  } finally {
    await releaseRead();
  }
}

const flash = ({ text }: AdminAnswer): string =>
  (/class="flash[^>]*>([\s\S]*?)<\/p>/.exec(text)?.[1] ?? '').replace(/<[^>]*>/g, '').trim();

describe('a label that cannot be read after the commit', () => {
  test('does not fail the creation of a record', async () => {
    const answer = await saveUnread(
      '/admin/song/-/add/',
      'New',
      (sql) => sql`select from vitrine_session for update`,
    );
    const [song] = await service.sql`select id from song where title = 'New'`;
    assert.ok(song);
    assert.equal(answer.status, 303, answer.text);
    assert.match(answer.location ?? '', new RegExp(`^/admin/song/${song['id']}/`));
    assert.match(flash(await root.follow(answer)), /^Songs: the record was added\./);
  });

  test('does not fail the change of a record', async () => {
    const answer = await saveUnread(
      '/admin/song/1001/',
      'Changed',
      (sql) => sql`select from song where id = 1001 for update`,
    );
    const [song] = await service.sql`select title from song where id = 1001`;
    assert.equal(song?.['title'], 'Changed');
    assert.equal(answer.status, 303, answer.text);
    assert.match(flash(await root.follow(answer)), /^Songs: the record was changed\./);
  });
});

test('a save redirects to the list when a trigger deletes the record', async () => {
  await service.sql.unsafe(`
    create function vanish() returns trigger language plpgsql as $$
      begin delete from song where id = new.id; return null; end $$;
    create constraint trigger vanish after update on song deferrable initially deferred
      for each row when (new.title = 'Vanished') execute function vanish()`);
  const path = '/admin/song/1002/';
  const fields = { ...fieldsOf(await root.get(path)), title: 'Vanished', _save: 'stay' };
  const answer = await root.post(path, fields);
  assert.equal(answer.location, '/admin/song/');
  assert.equal(flash(await root.follow(answer)), 'The record was changed, but has been deleted since.');
});

test('the counts of 60 slow views do not have the start page refused, nor its history', async (t) => {
  const views = Array.from({ length: 60 }, (_, index) => `slow${index}`);
  const service = await startService(
    [
      user,
      ...views.map((name): Resource => ({
        model: name,
        primaryKey: { type: 'integer' },
        columns: { title: { type: 'text' } },
      })),
    ],
    {
      prepare: async (sql) => {
        for (const name of views)
          await sql.unsafe(
            `create view ${name} as select 1 as id, 'a' as title from (select pg_sleep(0.1)) s`,
          );
      },
    },
  );
  t.after(() => service.close());
  await service.addUser('ada', { admin: true });
  const { text } = await (await logIn(service, 'ada')).get('/admin/');
  assert.match(text, /No changes yet/);
  const omitted = service.lines.filter(({ message }) =>
    /omits .*: (Too many|The service)/.test(String(message)),
  );
  assert.deepEqual(omitted, []);
});

describe('a panel that takes seconds', () => {
  let browsers: Browser[];
  let loads = 0;
  let aborted: string[] = [];
  let isBroken = false;

  /** Opens the start page on a connection that can be closed. */
  function open(browser: Browser): { readonly text: Promise<string>; readonly close: () => void } {
    const closing = new AbortController();
    const cookie = [...browser.cookies].map(([name, value]) => `${name}=${value}`).join('; ');
    const text = fetch(`${service.base}/admin/`, { headers: { cookie }, signal: closing.signal })
      .then((answer) => answer.text())
      .catch(() => 'closed');
    return { text, close: () => closing.abort() };
  }

  const sleeping = async (): Promise<number> =>
    (
      await service.sql`select from pg_stat_activity where datname = current_database()
        and state = 'active' and query like 'select pg_sleep(%'`
    ).count;

  const service: TestService = useService(
    shipped,
    {
      panels: [
        {
          title: 'Slow',
          load: async ({ query, signal }) => {
            loads += 1;
            if (isBroken) await query('select 1 / length(pg_sleep(0.5)::text)');
            signal.addEventListener('abort', () => aborted.push(String(signal.reason)));
            await Promise.all([1.5, 1.6].map((seconds) => query('select pg_sleep($1)', [seconds])));
            return `loaded ${loads} times`;
          },
        },
      ],
    },
    async () => {
      for (const name of ['ada', 'bea']) await service.addUser(name, { admin: true });
      browsers = [await logIn(service, 'ada'), await logIn(service, 'bea')];
    },
  );
  beforeEach(() => {
    loads = 0;
    aborted = [];
  });

  test('loads once for all admins who ask for it meanwhile, and stays for those who wait', async () => {
    const pages = [...browsers, ...browsers, ...browsers].map(open);
    await eventually(async () => (await sleeping()) === 2, 'its statements');
    pages[0]?.close();
    for (const { text } of pages.slice(1)) assert.match(await text, /loaded 1 times/);
    assert.equal(loads, 1);
  });

  test('is one line in the log if it fails for several admins', async () => {
    const lines = service.lines.length;
    isBroken = true;
    for (const { text } of [...browsers, ...browsers].map(open))
      assert.match(await text, /could not be loaded/);
    isBroken = false;
    const errors = service.lines.slice(lines).filter(({ level }) => level === 'error');
    assert.deepEqual(
      errors.map(({ panel }) => panel),
      Array(loads).fill('Slow'),
    );
    assert.ok(loads < 4, `${loads} loads`);
  });

  test('ends in PostgreSQL when the last admin who waits has left, without a line in the log', async () => {
    const lines = service.lines.length;
    const pages = browsers.map(open);
    await eventually(async () => (await sleeping()) === 2, 'its statements');
    await sleep(300); // The other request may arrive later.
    pages[0]?.close();
    await sleep(200);
    assert.equal(await sleeping(), 2, 'another one waits');
    pages[1]?.close();
    await eventually(async () => (await sleeping()) === 0, 'the end of its statements');
    assert.match(aborted.join(), /the client closed the connection/);
    assert.match(await open(browsers[0] as Browser).text, /loaded 2 times/);
    await eventually(
      () => service.lines.slice(lines).filter(({ status }) => status === 499).length >= 2,
      'the lines of the two requests',
    );
    assert.deepEqual(
      service.lines.slice(lines).filter(({ level }) => level === 'error' || level === 'warn'),
      [],
    );
  });
});
