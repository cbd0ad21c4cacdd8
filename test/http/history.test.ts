// What the history says of changes beyond their values: who asked for them from where, what belongs together, and what the database
// changed with them.
import assert from 'node:assert/strict';
import fc from 'fast-check';
import { beforeEach, describe, test } from 'node:test';
import { createVitrine, type Resource } from '../../src/index.ts';
import { logIn, remove, runBulk, uploadFile, confirmImport, type Browser } from '../admin/support.ts';
import { startOnce, users, type WritableService, useWritable } from '../db/helpers.ts';
import { basic, cheapHash, createDatabase, eventually, lockedOut, request, closedAfter } from '../support.ts';

const to = (references: string, onDelete: 'cascade' | 'setNull') =>
  ({ type: 'foreignKey', references, null: true, onDelete }) as const;
const name = { type: 'string' } as const;
const plain = (model: string, columns: Resource['columns'] = {}, more: Partial<Resource> = {}): Resource => ({
  model,
  columns: { name, ...columns },
  access: 'user',
  ...more,
});

const resources: Resource[] = [
  plain('lone'),
  plain('shop'),
  plain('shelf', { shop: to('shop', 'cascade') }),
  plain('book', {
    shelf: to('shelf', 'cascade'),
    sequel: to('book', 'cascade'),
    lent: to('shop', 'setNull'),
  }),
  plain('quiet', { shelf: to('shelf', 'cascade') }, { history: false }),
  plain('leaf', { quiet: to('quiet', 'cascade'), book: to('book', 'setNull') }),
  plain('secretive', { shop: to('shop', 'setNull') }, { admin: { exclude: ['shop'] } }),
  {
    model: 'seat',
    primaryKey: { columns: ['shop_no', 'number'] },
    columns: { shop_no: { type: 'integer' }, number: { type: 'integer' }, label: name },
    access: 'user',
  },
  {
    model: 'booking',
    columns: { shop_no: { type: 'integer' }, number: { type: 'integer', null: true }, label: name },
    foreignKeys: { seat: { columns: ['shop_no', 'number'], references: 'seat', onDelete: 'setNull' } },
    access: 'user',
  },
];

interface Entry {
  readonly action: string;
  readonly model: string;
  readonly record: string;
  readonly before: string | null;
  readonly after: string | null;
  readonly user_name: string | null;
  readonly roles: string | null;
  readonly address: string | null;
  readonly request: string | null;
  readonly batch: string | null;
  readonly cause: string | null;
}

let ada: Browser;
const service: WritableService = useWritable(resources, undefined, async () => {
  ada = await logIn(service, 'ada');
});
beforeEach(() => service.sql`truncate vitrine_history, lone, shop, shelf, book, quiet, leaf, secretive, seat, booking restart identity`); // prettier-ignore

const entries = async (): Promise<Entry[]> => [
  ...(await service.sql<Entry[]>`select * from vitrine_history order by id`),
];
const add = async (model: string, values: object = {}): Promise<number> =>
  ((await service.send('POST', `/api/${model}/`, { name: 'x', ...values })).json as { id: number }).id;
/** Each entry in short. */
const short = (all: readonly Entry[]): string[] =>
  all.map(
    ({ action, model, record, cause }) =>
      `${action} ${model} ${record}${cause === null ? '' : ` by ${cause}`}`,
  );
/** Waits until the log has a request with this id. */
const isLogged = (id: string | null | undefined): Promise<unknown> =>
  eventually(
    () => service.lines.some((line) => line['id'] === id && line['method'] === 'POST'),
    `the request ${id}`,
    5,
  );
const batches = (all: readonly Entry[]): number => new Set(all.map(({ batch }) => batch)).size;

describe('an entry of the history', () => {
  test('has the address, the request as in the log, and the roles of its author', async () => {
    await add('lone');
    const [entry] = await entries();
    assert.equal(entry?.address, '127.0.0.1');
    assert.equal(entry.roles, 'admin');
    await isLogged(entry.request);
    assert.deepEqual([entry.batch, entry.cause], [null, null]);
  });

  test('has the same of a change in the admin area', async () => {
    await ada.get('/admin/lone/-/add/');
    assert.equal((await ada.post('/admin/lone/-/add/', { name: 'y' })).status, 303);
    const [entry] = await entries();
    assert.deepEqual([entry?.address, entry?.roles], ['127.0.0.1', 'admin']);
    await isLogged(entry?.request);
  });

  test('has no roles of a user without any', async () => {
    await service.addUser('bob');
    const made = await service.request('/api/lone/', { method: 'POST', user: 'bob', body: { name: 'z' } });
    assert.equal(made.status, 201);
    assert.deepEqual(
      (await entries()).map(({ roles }) => roles),
      [null],
    );
  });
});

describe('a batch', () => {
  test('is shared by the records of one array, and by no others', async () => {
    const many = Array.from({ length: 3 }, (_, index) => ({ name: String(index) }));
    for (const body of [many, many, [{ name: 'alone' }]])
      assert.equal((await service.send('POST', '/api/lone/', body)).status, 201);
    const all = await entries();
    const [first, second, alone] = [all.slice(0, 3), all.slice(3, 6), all.slice(6)];
    assert.deepEqual([batches(first), batches(second), batches(all)], [1, 1, 3]);
    assert.deepEqual(
      alone.map(({ batch }) => batch),
      [null],
    );
  });

  test('is shared by what a bulk change, a bulk deletion and an import do', async () => {
    await service.sql`insert into lone (name) select 'n' || n from generate_series(1, 4) n`;
    await runBulk(ada, 'lone', { _action: 'set', _all: '1', _column: 'name', name: 'same' });
    await runBulk(ada, 'lone', { _action: 'delete', _id: ['1', '2'] });
    const path = '/admin/lone/-/import/';
    const preview = await uploadFile(ada, path, 'id,name\n3,third\n,new\n');
    assert.equal((await confirmImport(ada, path, preview)).status, 303);
    const all = await entries();
    assert.deepEqual(short(all.slice(0, 6)), [
      ...['1', '2', '3', '4'].map((id) => `update lone ${id}`),
      'delete lone 1',
      'delete lone 2',
    ]);
    const parts = [all.slice(0, 4), all.slice(4, 6), all.slice(6)];
    assert.deepEqual(parts.map(batches), [1, 1, 1]);
    assert.equal(batches(all), 3);
    assert.ok(all.every(({ batch }) => batch !== null));
    assert.equal(parts[2]?.length, 2);
  });
});

describe('a deletion that cascades', () => {
  test('has an entry for each record that the database changes, which names the deleted one', async () => {
    const shop = await add('shop', { name: 'S' });
    const shelf = await add('shelf', { shop_id: shop });
    const first = await add('book', { shelf_id: shelf, lent_id: shop, name: 'first' });
    const sequel = await add('book', { sequel_id: first, name: 'second' });
    const lent = await add('book', { lent_id: shop, name: 'lent' });
    await add('book', { name: 'another' });
    const quiet = await add('quiet', { shelf_id: shelf });
    const leaf = await add('leaf', { quiet_id: quiet });
    const kept = await add('leaf', { book_id: sequel });
    const excluded = await add('secretive', { shop_id: shop });
    await service.sql`truncate vitrine_history`;
    assert.equal((await service.send('DELETE', `/api/shop/${shop}/`)).status, 200);
    const all = await entries();
    assert.equal(short(all)[0], `delete shop ${shop}`);
    assert.deepEqual(
      short(all).toSorted(),
      [
        `delete shop ${shop}`,
        `delete shelf ${shelf} by shop/${shop}`,
        `delete book ${first} by shelf/${shelf}`,
        `delete book ${sequel} by book/${first}`,
        `update book ${lent} by shop/${shop}`,
        `delete leaf ${leaf} by quiet/${quiet}`,
        `update leaf ${kept} by book/${sequel}`,
        `update secretive ${excluded} by shop/${shop}`,
      ].toSorted(),
    );
    assert.equal(batches(all), 1);
    assert.ok(all.every(({ user_name, address, batch }) => user_name === 'ada' && address && batch));
    const find = (model: string, record: number): Entry | undefined =>
      all.find((one) => one.model === model && one.record === String(record));
    assert.deepEqual(JSON.parse(find('book', first)?.before ?? ''), {
      ...{ id: first, name: 'first', shelf_id: shelf, sequel_id: null, lent_id: shop },
    });
    assert.equal(find('book', first)?.after, null);
    assert.deepEqual([find('book', lent)?.before, find('book', lent)?.after], [`{"lent_id":${shop}}`, '{"lent_id":null}']); // prettier-ignore
    assert.deepEqual([find('secretive', excluded)?.before, find('secretive', excluded)?.after], ['{}', '{}']);
    const left = await service.sql`select name from book order by id`;
    assert.deepEqual(
      left.map((row) => String(row['name'])),
      ['lent', 'another'],
    );
  });

  test('is recorded alike in the admin area, also of several records', async () => {
    for (const way of ['page', 'bulk']) {
      await service.sql`truncate vitrine_history`;
      const shops = [await add('shop'), await add('shop')];
      for (const shop of shops) await add('shelf', { shop_id: shop });
      await service.sql`truncate vitrine_history`;
      const answers =
        way === 'bulk'
          ? [await runBulk(ada, 'shop', { _action: 'delete', _id: shops.map(String) })]
          : [await remove(ada, `/admin/shop/${shops[0]}/delete/`), await remove(ada, `/admin/shop/${shops[1]}/delete/`)]; // prettier-ignore
      assert.ok(answers.every(({ status }) => status === 303));
      const all = await entries();
      assert.deepEqual(
        all.map(({ action, model, cause }) => [action, model, cause]).toSorted(),
        shops
          .flatMap((shop) => [
            ['delete', 'shelf', `shop/${shop}`],
            ['delete', 'shop', null],
          ])
          .toSorted(),
      );
      assert.equal(batches(all), way === 'bulk' ? 1 : 2);
    }
  });

  test('sets the nullable columns of a key of several columns to NULL', async () => {
    await service.send('POST', '/api/seat/', { shop_no: 1, number: 7, label: 'a' });
    const booking = await service.send('POST', '/api/booking/', { shop_no: 1, number: 7, label: 'b' });
    await service.sql`truncate vitrine_history`;
    assert.equal((await service.send('DELETE', '/api/seat/1,7/')).status, 200);
    const [, entry] = await entries();
    assert.deepEqual(short(await entries()), [
      'delete seat 1,7',
      `update booking ${booking.json.id} by seat/1,7`,
    ]);
    assert.deepEqual([entry?.before, entry?.after], ['{"number":7}', '{"number":null}']);
    const [row] = await service.sql`select shop_no, number from booking`;
    assert.deepEqual([row?.['shop_no'], row?.['number']], [1, null]);
  });

  test('records nothing if nothing is deleted', async () => {
    const shop = await add('shop');
    await add('shelf', { shop_id: shop });
    await service.sql`truncate vitrine_history`;
    const refused = await service.send('DELETE', `/api/shop/${shop}/`, undefined, { 'if-match': '"x"' });
    assert.equal(refused.status, 412);
    assert.equal((await service.send('DELETE', '/api/shop/999/')).status, 404);
    assert.deepEqual(await entries(), []);
  });

  test('ends at cycles', async () => {
    const one = await add('book');
    const two = await add('book', { sequel_id: one });
    await service.send('PUT', `/api/book/${one}/`, { sequel_id: two });
    await service.sql`truncate vitrine_history`;
    assert.equal((await service.send('DELETE', `/api/book/${one}/`)).status, 200);
    assert.deepEqual(short(await entries()), [`delete book ${one}`, `delete book ${two} by book/${one}`]);
  });

  test('records what another transaction adds at the same moment', async () => {
    const shop = await add('shop');
    await service.sql`truncate vitrine_history`;
    let deleted: ReturnType<WritableService['send']> | undefined;
    await service.sql.begin(async (sql) => {
      await sql`insert into shelf (name, shop_id) values ('late', ${shop})`;
      deleted = service.send('DELETE', `/api/shop/${shop}/`);
      await lockedOut(service);
    });
    assert.equal((await deleted)?.status, 200);
    assert.deepEqual(
      (await entries()).map(({ model }) => model),
      ['shop', 'shelf'],
    );
    assert.deepEqual([...(await service.sql`select from shelf`)], []);
  });

  test('records up to 10,000 rows', async () => {
    const shop = await add('shop');
    const rows = 10_050;
    await service.sql`insert into shelf (name, shop_id) select 'n', ${shop} from generate_series(1, ${rows})`;
    await service.sql`insert into book (name, lent_id) select 'n', ${shop} from generate_series(1, ${rows})`;
    await service.sql`truncate vitrine_history`;
    assert.equal((await service.send('DELETE', `/api/shop/${shop}/`)).status, 200);
    const counts =
      await service.sql`select model, action, count(*)::int from vitrine_history group by 1, 2 order by 1`;
    assert.deepEqual(
      counts.map((row) => Object.values(row)),
      [
        ['book', 'update', 10_000],
        ['shelf', 'delete', 10_000],
        ['shop', 'delete', 1],
      ],
    );
    const [left] = await service.sql`select count(*)::int from shelf`;
    assert.equal(left?.['count'], 0);
  });

  test('agrees with the tables, whatever refers to what', async () => {
    const links = fc.array(fc.tuple(fc.nat({ max: 11 }), fc.nat({ max: 11 })), { maxLength: 14 });
    await fc.assert(
      fc.asyncProperty(links, fc.nat({ max: 11 }), async (pairs, victim) => {
        await service.sql`truncate book, leaf, vitrine_history restart identity cascade`;
        await service.sql`insert into book (name) select 'b' from generate_series(1, 12)`;
        await service.sql`insert into leaf (name, book_id) select 'l', n from generate_series(1, 12) n`;
        for (const [from, target] of pairs) await service.sql`update book set sequel_id = ${target + 1} where id = ${from + 1}`; // prettier-ignore
        assert.equal((await service.send('DELETE', `/api/book/${victim + 1}/`)).status, 200);
        const all = await entries();
        const kept = await service.sql<{ id: number }[]>`select id from book`;
        const cleared = await service.sql<{ id: number }[]>`select id from leaf where book_id is null`;
        const recorded = (model: string): number[] =>
          all.filter((one) => one.model === model).map(({ record }) => Number(record)).toSorted((a, b) => a - b); // prettier-ignore
        const gone = Array.from({ length: 12 }, (_, index) => index + 1).filter((id) => !kept.some((row) => row.id === id)); // prettier-ignore
        assert.deepEqual(recorded('book'), gone);
        assert.deepEqual(
          recorded('leaf'),
          cleared.map(({ id }) => id).toSorted((a, b) => a - b),
        );
      }),
      { numRuns: 25 },
    );
  });
});

describe('a history that an earlier version created', () => {
  const OLD = `
    create table vitrine_history (
      id bigint generated by default as identity primary key,
      at timestamp(0) default date_trunc('second', now() at time zone 'UTC') not null,
      user_key text, user_name text, door varchar(16) not null, action varchar(16) not null,
      model text not null, record text not null, before text, after text);
    create index on vitrine_history (record);
    insert into vitrine_history (door, action, model, record) values ('api', 'create', 'shop', '1')`;
  const registry = [users, ...resources.slice(0, 3)];

  test('gets the columns that it lacks', async (t) => {
    const database = await createDatabase();
    t.after(() => database.drop());
    await database.sql.unsafe(OLD);
    await startOnce(database, registry);
    const [entry] = await database.sql`select * from vitrine_history`;
    assert.ok(entry && 'cause' in entry && 'batch' in entry);
  });

  test('is written without them where the service may not add them, with a warning', async (t) => {
    const database = closedAfter(t, await createDatabase());
    const lines: string[] = [];
    await startOnce(database, registry);
    const { url } =
      await database.addRole(`drop table vitrine_history; ${OLD}; grant usage on schema public to ROLE;
      grant select, insert, update, delete on all tables in schema public to ROLE;
      grant usage on all sequences in schema public to ROLE; revoke update, delete on vitrine_history from ROLE`);
    await database.sql`insert into "user" (username, password, email, admin) select 'ada', ${await cheapHash('pw-ada')}, '', true`;
    for (const schema of ['apply', 'check'] as const) {
      lines.length = 0;
      const vitrine = await createVitrine({
        databaseUrl: url,
        resources: registry,
        schema,
        port: 0,
        log: (line) => lines.push(line),
      });
      const { url: base } = await vitrine.start();
      try {
        const warning = 'vitrine_history has no roles, address, request, batch, cause';
        await eventually(() => lines.some((line) => line.includes(warning)), 'the warning', 5);
        const headers = { authorization: basic('ada') };
        const body = [{ name: 'one' }, { name: 'two' }];
        const made = await request(base, '/api/shop/', { method: 'POST', headers, body });
        assert.equal(made.status, 201, made.text);
        const [first] = made.json as { id: number }[];
        const path = `/api/shop/${first?.id}/`;
        assert.equal(
          (await request(base, path, { method: 'PUT', headers, body: { name: 'new' } })).status,
          200,
        );
        assert.equal((await request(base, path, { method: 'DELETE', headers })).status, 200);
        const browser = await logIn({ base }, 'ada');
        for (const page of [
          '/admin/vitrine_history/',
          `/admin/shop/${first?.id}/history/`,
          '/admin/vitrine_history/1/',
        ])
          assert.equal((await browser.get(page)).status, 200, page);
        const rows =
          await database.sql`select action from vitrine_history where record = ${String(first?.id)} order by id`;
        assert.deepEqual(rows.map((row) => String(row['action'])).slice(-3), ['create', 'update', 'delete']);
      } finally {
        await vitrine.close();
      }
    }
  });
});
