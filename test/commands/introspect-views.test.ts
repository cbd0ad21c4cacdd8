// The keys that `introspect` proposes for views that nothing proves.
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { temporaryFolder } from '../process/support.ts';
import { createDatabase, type TestDatabase } from '../support.ts';
import { run } from './support.ts';
import { after, before, describe, test } from 'node:test';

const SCHEMA = `
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
  create view nested as select n.item, n.purchase_id as a, n.line_no as b from (select distinct * from lines) n;
  create view "odd view" as select distinct 1 as one, "the key" as "my key", "a b" from "Odd Table";
  alter view "odd view" rename "my key" to "Another Key";
  create view without_key as select c.id, l.item from customer c join purchase p on p.customer_id = c.id
    join line l on l.purchase_id = p.id;
  create view united as select id, name from customer union select id, 'purchase' from purchase;
  create view ring_one as select id, name from customer;
  create view ring_two as select distinct id, name from ring_one;
  create or replace view ring_one as select id, name from ring_two;`;

describe('the views of a database that nothing proves the keys of', () => {
  let database: TestDatabase;
  let text: string;
  before(async () => {
    database = await createDatabase();
    await database.sql.unsafe(SCHEMA).simple();
    const ended = await run(['introspect'], { env: { DATABASE_URL: database.url } });
    assert.equal(ended.code, 0, ended.stderr);
    text = ended.stdout;
  });
  after(() => database.drop());

  const withoutSlashes = (): string => text.replaceAll(/^ {2}\/\/ ([{}].*| {2}.*)$/gm, '  $1');
  const load = async (): Promise<{ model: string; primaryKey?: unknown }[]> => {
    const file = join(await temporaryFolder(), 'all.mjs');
    writeFileSync(file, withoutSlashes());
    return ((await import(pathToFileURL(file).href)) as { default: { model: string }[] }).default;
  };

  test('have the keys of the tables where their columns come from', async () => {
    const keys = new Map((await load()).map(({ model, primaryKey }) => [model, primaryKey]));
    assert.match(text, /^ {2}\/\/ {3}model: 'lines',(?:(?!model).)*methods: \['GET'\],$/ms);
    assert.deepEqual(keys.get('lines'), { columns: ['purchase_id', 'line_no'] });
    assert.deepEqual(keys.get('tagged'), { columns: ['purchase', 'tag'] });
    assert.deepEqual(keys.get('gifts'), { type: 'integer' });
    assert.deepEqual(keys.get('totals'), { type: 'integer', column: 'number' });
    assert.deepEqual(keys.get('nested'), { columns: ['a', 'b'] });
    assert.deepEqual(keys.get('odd_view'), { type: 'integer', column: 'Another Key' });
  });

  test('say whose keys these are, and what is left to do', () => {
    const advice = 'remove the slashes, and let `npx vitrine check` look for duplicates.';
    const about = (view: string): string =>
      new RegExp(`// ${view} is a view, and nothing proves which column identifies a row\\. (.*)`).exec(
        text,
      )?.[1] ?? '';
    assert.equal(about('lines'), `primaryKey is the key of line: ${advice}`);
    assert.equal(about('tagged'), `primaryKey has the keys of purchase and tag: ${advice}`);
    for (const view of ['without_key', 'united', 'ring_one', 'ring_two'])
      assert.equal(about(view), 'Complete primaryKey, and remove the slashes.', view);
  });

  test('fit the database without the slashes', async () => {
    const models = ['lines', 'tagged', 'gifts', 'totals', 'nested', 'odd_view'];
    const kept = (await load()).filter(({ model }) => models.includes(model));
    const file = join(await temporaryFolder(), 'kept.mjs');
    writeFileSync(file, `export default ${JSON.stringify(kept)}`);
    const env = { DATABASE_URL: database.url, RESOURCES: file, SCHEMA: 'check' };
    const { code, stdout, stderr } = await run(['check'], { env });
    assert.equal(code, 0, stderr);
    assert.match(stdout, /the registry \(6 resources\) fits the database/);
  });
});
