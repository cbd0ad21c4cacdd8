// The keys that `vitrine introspect` finds: of tables, and of views where their tables prove them or make them likely.
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Resource } from '../../src/index.ts';
import { hiddenFields, logIn, readable, type Browser } from '../admin/support.ts';
import { temporaryFolder } from '../process/support.ts';
import { createDatabase, type TestDatabase, type TestService } from '../support.ts';
import { introspect, readAll, serveIntrospected, sqlOf, withProposedKeys } from './introspected.ts';
import { run } from './support.ts';
import { after, before, describe, test } from 'node:test';

describe('the registry of a schema with unusual keys', () => {
  const SCHEMA = sqlOf('keys');
  let text: string;
  let resources: Resource[];
  let service: TestService;
  let ada: Browser;
  before(async () => {
    ({ text, resources, service } = await serveIntrospected(SCHEMA));
    ada = await logIn(service, 'ada');
  });
  after(() => service.close());

  const find = (model: string): Resource | undefined => resources.find((one) => one.model === model);

  const send = (method: string, path: string, body?: unknown) =>
    service.request(`/api/${path}`, { method, user: 'ada', ...(body === undefined ? {} : { body }) });
  const ids = async (path: string): Promise<unknown[]> => {
    const { status, json, text: answer } = await send('GET', path);
    assert.equal(status, 200, answer);
    return (json.objects as { id: unknown }[]).map(({ id }) => id);
  };

  test('the key is the one that foreign keys refer to', () => {
    assert.deepEqual(find('account'), {
      model: 'account',
      columns: { code: { type: 'text', unique: true } },
    });
    assert.deepEqual(find('booking')?.columns['account'], { type: 'foreignKey', references: 'account' });
  });

  test('a key that is a foreign key, a date or has a plain default is a column', () => {
    assert.deepEqual(find('profile'), {
      model: 'profile',
      primaryKey: { columns: ['person'] },
      columns: {
        person: { type: 'foreignKey', references: 'person', onDelete: 'cascade' },
        motto: { type: 'text', null: true },
      },
    });
    assert.deepEqual(find('document')?.columns['person'], {
      type: 'foreignKey',
      references: 'person',
      column: 'id',
    });
    assert.deepEqual(find('holiday')?.primaryKey, { columns: ['day'] });
    assert.deepEqual(find('label')?.columns['word'], { type: 'string', default: '' });
    assert.deepEqual(find('labeled')?.foreignKeys, { label: { columns: ['word'], references: 'label' } });
    assert.equal(find('contract')?.primaryKey, undefined);
    assert.match(text, /id refers to person\. It is the key that other tables refer to, so it cannot be/);
  });

  test('a table without a key has the SQL that would help', async () => {
    const help = [...text.matchAll(/(?:This would help|through a view): (.*)\.$/gm)].map(
      ([, sql = '']) => sql,
    );
    assert.equal(help.length, 3, text);
    const other = await createDatabase();
    try {
      await other.sql.unsafe(SCHEMA).simple();
      for (const sql of help) await other.sql.unsafe(sql);
      const { stdout: after, resources: more } = await introspect(other);
      assert.deepEqual(
        ['keyless', 'nearly_keyed'].map((name) => more.get(name)?.primaryKey),
        [{ type: 'bigint' }, { columns: ['a', 'b'] }],
      );
      assert.match(after, /^ {4}\/\/ primaryKey: \{ columns: \['record_key'\] \},$/m);
    } finally {
      await other.drop();
    }
  });

  test('a list in a check constraint, also of a domain, is choices, and other constraints are comments', () => {
    assert.deepEqual(find('ticket')?.columns, {
      state: { type: 'text', choices: ['open', "it's done"], default: 'open' },
      kind: { type: 'string', null: true },
      grade: { type: 'string', choices: ['A', 'B'], null: true },
      weight: { type: 'integer', choices: [1, 2, -3], null: true },
      priority: { type: 'integer' },
      hours: { type: 'decimal', null: true },
      price: { type: 'decimal', null: true },
      note: { type: 'text', null: true },
      code: { type: 'text', null: true },
    });
    for (const comment of [
      `kind: PostgreSQL checks (((kind)::text = 'a'::text) OR ((kind)::text = 'b, c'::text)).`,
      'priority: PostgreSQL checks ((priority >= 1) AND (priority <= 5)). Add min and max if it bounds the value.',
      'note: PostgreSQL checks (length(note) > 3).',
    ])
      assert.ok(text.includes(`      // ${comment}\n`), comment);
    assert.doesNotMatch(text, /(state|grade|weight): PostgreSQL/);
  });

  test('the admin area offers no form for new records that need a hidden column', async () => {
    assert.deepEqual(find('door')?.admin, { allow: ['change', 'delete'], exclude: ['pin'] });
    assert.match(text, /A new record needs one of them/);
    assert.equal((await send('POST', 'door/', { pin: '1234' })).status, 201);
    assert.equal((await ada.get('/admin/door/-/add/')).status, 404);
  });

  test('keys that are foreign keys, dates, or texts with a default are served', async () => {
    for (const name of ['Ann', 'Bob']) await send('POST', 'person/', { name });
    for (const id of [1, 2]) {
      const added = await send('POST', 'profile/', { person_id: id, motto: `m${id}` });
      assert.deepEqual([added.status, added.json], [201, { id: `${id}`, person_id: id, motto: `m${id}` }]);
    }
    assert.deepEqual(await ids('profile/?person__name=Bob'), ['2']);
    assert.equal((await send('PUT', 'profile/2/', { person_id: 1 })).status, 400);
    assert.equal((await send('POST', 'holiday/', { day: '2026-01-06', name: 'Epiphany' })).status, 201);
    assert.equal((await send('GET', 'holiday/2026-01-06/')).json['name'], 'Epiphany');
    const label = await send('POST', 'label/', { word: 'a, b', meaning: 'list' });
    assert.equal(label.json['id'], 'a, b');
    assert.equal((await send('POST', 'labeled/', { word: 'a, b' })).status, 201);
    assert.equal((await send('POST', 'labeled/', { word: 'c' })).status, 400);
    assert.deepEqual(await ids('labeled/?label__meaning=list'), [1]);
    assert.equal((await send('DELETE', 'label/a%2C%20b/')).status, 409);
    const cascade = await ada.get('/admin/person/2/delete/');
    assert.match(readable(cascade), /1 record of Profile, by “Person”/);
    const gone = await ada.post('/admin/person/2/delete/', hiddenFields(cascade, 'confirm'));
    assert.equal(gone.status, 303, readable(gone));
    assert.deepEqual(await ids('profile/'), ['1']);
  });
});

describe('the views of a database', () => {
  let database: TestDatabase;
  before(async () => {
    database = await createDatabase();
    await database.sql
      .unsafe(
        `
        create table book (id integer primary key, isbn text not null unique, code text unique, shelf integer);
        insert into book values (1, 'a', 'A', 7), (2, 'b', null, 7);
        create table place (row_no integer, "Seat" text, unique ("Seat", row_no), primary key (row_no, "Seat"));
        create view seats as select "Seat" as seat, row_no + 0 as row_plus, row_no as number from place;
        create view half_of_key as select "Seat" as seat from place;
        create view renamed as select shelf, id as "Book No" from book;
        create view swapped as select shelf as id, id as shelf from book;
        create view by_isbn as select isbn, shelf from book;
        create view nullable as select code, shelf from book;
        create view computed as select id + 0 as id, shelf from book;
        create view nested as select id, isbn from renamed_base;
        create view joined as select a.id, b.isbn from book a cross join book b;
        create view counted as select (select count(id) from book) as id, (select id) as shelf, isbn as own from book;
        create materialized view kept as select id, shelf from book;
        create unique index on kept (id);
        create materialized view with_null as select isbn, code from book;
        create unique index on with_null (code);
        create materialized view loose as select id, shelf from book;
        create table parent (id integer primary key);
        create table child () inherits (parent);
        create view families as select id from parent;
        create view keyless as select array[1] as list;
        create extension file_fdw;
        create server files foreign data wrapper file_fdw;
        create foreign table file (id integer, "a line" text) server files options (filename '/dev/null');
      `.replace('renamed_base', '(select * from book) b'),
      )
      .simple();
  });
  after(() => database.drop());

  test('have the keys that their tables prove, and none otherwise', async () => {
    const { file, resources, stdout } = await introspect(database);
    const keys = Object.fromEntries([...resources].map(([name, { primaryKey }]) => [name, primaryKey]));
    assert.deepEqual(keys, {
      book: undefined,
      renamed: { type: 'integer', column: 'Book No' },
      swapped: { type: 'integer', column: 'shelf' },
      by_isbn: { type: 'string', column: 'isbn' },
      counted: { type: 'string', column: 'own' },
      kept: { type: 'integer' },
      nested: { type: 'integer' },
      place: { columns: ['row_no', 'seat'] },
      seats: { columns: ['number', 'seat'] },
      half_of_key: false,
      nullable: false,
      computed: false,
      joined: false,
      loose: false,
      with_null: false,
      parent: false,
      child: false,
      families: false,
      file: false,
      keyless: false,
    });
    assert.match(stdout, /model: 'parent',\n {4}\/\/ Other tables inherit from it \(child\), and/);
    assert.match(
      stdout,
      /model: 'keyless',\n {4}\/\/ It is a view, and nothing proves which columns identify a row\.\n {4}primaryKey: false,/,
    );
    const objects = await readAll(database, file, resources.keys());
    assert.deepEqual(objects.get('swapped'), [
      { id: 1, id_2: 7 },
      { id: 2, id_2: 7 },
    ]);
  });

  test('have no proven key without data or while they are refreshed, and a foreign partition is named', async () => {
    await database.sql
      .unsafe(
        `create materialized view unready as select id, isbn from book with no data;
        create unique index on unready (id);
        create table spread (id integer not null) partition by range (id);
        create foreign table spread_1 partition of spread for values from (0) to (10) server files
          options (filename '/dev/null')`,
      )
      .simple();
    const words = ['book', 'unready', 'kept', 'spread'].flatMap((name) => ['--table', name]);
    const { stdout, resources } = await database.sql.begin(async (transaction) => {
      await transaction`refresh materialized view kept`;
      return introspect(database, ...words);
    });
    await database.sql`drop materialized view unready`;
    await database.sql`drop table spread`;
    const keys = ['book', 'kept', 'spread', 'unready'].map((name) => resources.get(name)?.primaryKey);
    assert.deepEqual(keys, [undefined, false, false, false]);
    const reasons = [
      ['unready', 'a materialized view that cannot be read now [(].*[)]'],
      ['kept', 'a materialized view that cannot be read now [(].*[)]'],
      ['spread', 'a partitioned table with a foreign partition'],
    ];
    for (const [name, kind] of reasons)
      assert.match(stdout, new RegExp(`model: '${name}',\n    // It is ${kind}, and nothing proves`));
    assert.match(stdout, /spread: its partition is served with it/);
  });

  test('start as they are, and with the keys that their comments propose', async () => {
    const { stdout, file: printed, resources } = await introspect(database);
    await readAll(database, printed, resources.keys());
    const file = join(await temporaryFolder(), 'all.mjs');
    writeFileSync(file, `export default ${JSON.stringify(await withProposedKeys(stdout))}`);
    const objects = await readAll(database, file, ['loose', 'file']);
    assert.equal(objects.get('loose')?.length, 2);
    assert.deepEqual(objects.get('file'), []);
  });
});

const VIEWS = `
  create table customer (id integer primary key, name text not null);
  create table purchase (id integer primary key, customer_id integer not null references customer, paid boolean);
  create table line (purchase_id integer references purchase, line_no integer, item text, primary key (purchase_id, line_no));
  create table tag (name text primary key, color text);
  create table gift (purchase_id integer primary key references purchase, wrapping text);
  create table "Odd Table" ("the key" integer primary key, "a b" text unique not null);
  insert into customer values (1, 'Ann'), (2, 'Bob');
  insert into purchase values (7, 1, true), (8, 1, false);
  insert into line values (7, 1, 'tea'), (7, 2, 'jam'), (8, 1, 'tea');
  insert into tag values ('new', 'red'), ('old', 'grey');
  insert into gift values (7, 'paper');
  insert into "Odd Table" values (1, 'x');
  create view lines as select c.name, p.paid, l.item, l.line_no, l.purchase_id
    from customer c join purchase p on p.customer_id = c.id join line l on l.purchase_id = p.id;
  create view tagged as select p.paid, t.color, p.id as purchase, t.name as tag from purchase p cross join tag t;
  create view gifts as select g.wrapping, g.purchase_id, p.id, p.paid
    from purchase p left join gift g on g.purchase_id = p.id;
  create view totals as select sum(l.line_no) as total, p.paid, p.id as number
    from purchase p join line l on l.purchase_id = p.id group by p.id;
  create view grouped as select p.paid, p.id as number, c.name, count(*)
    from line l join purchase p on l.purchase_id = p.id join customer c on c.id = p.customer_id group by p.id, p.paid, c.name;
  create view owned as select p.id as number, c.name from purchase p, customer c
    where c.id = p.customer_id and exists (select from line l where l.purchase_id = p.id);
  create view multiplied as select p.id as number, c.name from purchase p join customer c on c.id >= p.customer_id;
  create view repeated as select p.id as number, l.item from purchase p left join line l on l.purchase_id = p.id;
  create view outer_joined as select g.purchase_id as number, p.paid from gift g right join purchase p on p.id = g.purchase_id;
  create view optional as select p.id, count(t.name) from tag t left join purchase p on p.id = length(t.name) group by p.id;
  create view nested as select n.item, n.purchase_id as a, n.line_no as b from (select distinct * from lines) n;
  create view "odd view" as select distinct 1 as one, "the key" as "my key", "a b" from "Odd Table";
  alter view "odd view" rename "my key" to "Another Key";
  create view without_key as select c.id, l.item from customer c join purchase p on p.customer_id = c.id
    join line l on l.purchase_id = p.id;
  create view united as select id, name from customer union select id, 'purchase' from purchase;
  create view ring_one as select id, name from customer;
  create view ring_two as select distinct id, name from ring_one;
  create or replace view ring_one as select id, name from ring_two;`;

describe('the views of a database that are not updatable', () => {
  let database: TestDatabase;
  let text: string;
  before(async () => {
    database = await createDatabase();
    await database.sql.unsafe(VIEWS).simple();
    text = (await introspect(database)).stdout;
  });
  after(() => database.drop());

  test('have the keys of the tables where their columns come from', async () => {
    const keys = new Map((await withProposedKeys(text)).map(({ model, primaryKey }) => [model, primaryKey]));
    assert.match(text, /^ {4}model: 'lines',(?:(?!model).)*methods: \['GET'\],$/ms);
    assert.deepEqual(keys.get('lines'), { columns: ['purchase_id', 'line_no'] });
    assert.deepEqual(keys.get('tagged'), { columns: ['purchase', 'tag'] });
    assert.deepEqual(keys.get('gifts'), { type: 'integer' });
    assert.deepEqual(keys.get('totals'), { type: 'integer', column: 'number' });
    assert.deepEqual(keys.get('nested'), { columns: ['a', 'b'] });
    assert.deepEqual(keys.get('odd_view'), { type: 'integer', column: 'Another Key' });
  });

  test('have a key if their joins add at most one row to each of its rows, and it is not NULL', async () => {
    const { resources } = await introspect(database);
    const keys = [...resources].flatMap(([model, { table, primaryKey = 'id' }]) =>
      /^(customer|purchase|line|tag|gift|Odd Table)$/.test(table ?? model) || primaryKey === false
        ? []
        : [[model, primaryKey]],
    );
    const number = { type: 'integer', column: 'number' };
    assert.deepEqual(Object.fromEntries(keys), {
      gifts: { type: 'integer' },
      grouped: number,
      lines: { columns: ['purchase_id', 'line_no'] },
      odd_view: { type: 'integer', column: 'Another Key' },
      owned: number,
      tagged: { columns: ['purchase', 'tag'] },
      totals: number,
    });
  });

  test('say whose keys these are, and what is left to do', () => {
    const about = (view: string): string =>
      new RegExp(
        `model: '${view}',\n    // It is a view, and nothing proves which columns identify a row\\. (.*?)\\. Its columns must not have null: true, and .npx vitrine check. looks for duplicates:\n    // primaryKey: .*\n    primaryKey: false,`,
      ).exec(text)?.[1] ?? '';
    assert.equal(about('nested'), 'This would be a likely key (of line)');
    assert.equal(about('multiplied'), 'This would be a likely key (of purchase)');
    for (const view of ['without_key', 'united', 'ring_one', 'ring_two'])
      assert.equal(about(view), 'This would be a likely key', view);
  });

  test('fit the database with these keys', async () => {
    const models = ['lines', 'tagged', 'gifts', 'totals', 'nested', 'odd_view'];
    const kept = (await withProposedKeys(text)).filter(({ model }) => models.includes(model));
    const file = join(await temporaryFolder(), 'kept.mjs');
    writeFileSync(file, `export default ${JSON.stringify(kept)}`);
    const env = { DATABASE_URL: database.url, RESOURCES: file, SCHEMA: 'check' };
    const { code, stdout, stderr } = await run(['check'], { env });
    assert.equal(code, 0, stderr);
    assert.match(stdout, /the registry \(6 resources\) fits the database/);
  });
});
