// A partitioned table whose partitions are foreign tables in two other databases.
import assert from 'node:assert/strict';
import type { Resource } from '../../src/index.ts';
import { run } from '../commands/support.ts';
import { createLoopback } from '../loopback.ts';
import { createDatabase, type TestDatabase } from '../support.ts';
import { startWith, type WritableService } from './helpers.ts';
import { after, before, describe, test } from 'node:test';

const sale: Resource = {
  model: 'sale',
  primaryKey: { columns: ['region', 'number'] },
  columns: {
    region: { type: 'integer' },
    number: { type: 'integer' },
    label: { type: 'string' },
    amount: { type: 'integer', default: 0, min: 0 },
    seller: { type: 'foreignKey', references: 'user', null: true },
  },
  access: 'user',
  owner: 'seller',
  methods: ['GET', 'POST', 'PUT', 'DELETE'],
};

/** The table behind each partition. Its constraints are those of the shard. */
const SHARD = `
  create table sale_rows (region integer not null, number integer not null, label varchar(255) not null unique,
    amount integer not null default 0 check (amount < 1000000), seller_id integer, primary key (region, number));`;

describe('a table over two other databases', () => {
  let shards: TestDatabase[];
  let service: WritableService;

  before(async () => {
    shards = [await createDatabase(), await createDatabase()];
    for (const { sql } of shards) await sql.unsafe(SHARD);
    service = await startWith([sale], async (sql) => {
      await sql.unsafe(`
        create table sale (region integer not null, number integer not null, label varchar(255) not null,
          amount integer not null default 0, seller_id integer) partition by range (region);`);
      for (const [index, shard] of shards.entries()) {
        await createLoopback(sql, `shard${index}`, undefined, new URL(shard.url).pathname.slice(1));
        await sql.unsafe(`
          create foreign table sale_${index} partition of sale for values from (${index * 100}) to (${index * 100 + 100})
            server shard${index} options (table_name 'sale_rows');`);
      }
    });
    await service.addUser('bob');
  });
  after(async () => {
    await (service as WritableService | undefined)?.close();
    for (const shard of shards) await shard.drop();
  });

  const rowsOf = async (index: number): Promise<string[]> => {
    const rows = await shards[index]?.sql.unsafe('select label from sale_rows order by 1');
    return (rows ?? []).map(({ label }) => String(label));
  };
  const add = (region: number, number: number, label: string, amount = 1) =>
    service.send('POST', '/api/sale/', { region, number, label, amount });

  test('a record goes to the shard of its key, and is read, changed and deleted there', async () => {
    for (const region of [1, 101]) assert.equal((await add(region, 1, `first ${region}`)).status, 201);
    assert.deepEqual([await rowsOf(0), await rowsOf(1)], [['first 1'], ['first 101']]);
    for (const region of [1, 101]) {
      const path = `/api/sale/${region},1/`;
      const { status, json } = await service.send('PUT', path, { amount: 7 });
      assert.deepEqual([status, json.amount], [200, 7]);
      assert.equal((await service.request(path)).json.amount, 7);
      assert.equal((await service.send('DELETE', path)).status, 200);
      assert.equal((await service.request(path)).status, 404);
    }
    assert.deepEqual([await rowsOf(0), await rowsOf(1)], [[], []]);
  });

  test('of parallel PUTs with one If-Match exactly one succeeds, and the others are 412', async () => {
    for (const region of [2, 102]) {
      await add(region, 1, `raced ${region}`);
      const path = `/api/sale/${region},1/`;
      const { headers } = await service.request(path);
      const ifMatch = { 'if-match': headers.get('etag') ?? '' };
      const answers = await Promise.all(
        Array.from({ length: 8 }, (_, amount) => service.send('PUT', path, { amount: amount + 10 }, ifMatch)),
      );
      const statuses = answers.map(({ status }) => status).sort();
      assert.deepEqual(statuses, [200, 412, 412, 412, 412, 412, 412, 412]);
    }
  });

  test('only the owner changes a record', async () => {
    await add(3, 1, 'owned');
    const foreign = { method: 'PUT', user: 'bob', body: { amount: 5 } };
    assert.equal((await service.request('/api/sale/3,1/', foreign)).status, 403);
    assert.equal((await service.request('/api/sale/103,9/', foreign)).status, 404);
  });

  test('filters, sorting, counts and cursors cover all shards', async () => {
    for (let number = 1; number <= 5; number += 1)
      for (const region of [10, 110]) await add(region, number, `many ${region} ${number}`, number);
    const prefer = { headers: { prefer: 'count=exact' } };
    const all = await service.request(
      '/api/sale/?number__gte=1&label__like=many%25&limit=3&ordering=id',
      prefer,
    );
    assert.equal(all.headers.get('x-total-count'), '10');
    const ids: string[] = [];
    for (let next = '/api/sale/?label__like=many%25&limit=3&ordering=-amount'; next !== '';) {
      const { json } = await service.request(next, { headers: { prefer: 'paging=cursor' } });
      ids.push(...json.objects.map(({ id }: { id: string }) => id));
      next = json.meta.next;
    }
    assert.equal(new Set(ids).size, 10);
    assert.deepEqual(new Set(ids.slice(0, 2)), new Set(['10,5', '110,5']));
  });

  test('a bulk POST over both shards is all or none', async () => {
    const rows = [
      { region: 20, number: 1, label: 'bulk a' },
      { region: 120, number: 1, label: 'bulk b' },
    ];
    assert.equal((await service.send('POST', '/api/sale/', rows)).status, 201);
    const again = [
      { region: 21, number: 1, label: 'bulk c' },
      { region: 120, number: 2, label: 'bulk b' },
    ];
    const { status } = await service.send('POST', '/api/sale/', again);
    assert.equal(status, 409);
    assert.ok(!(await rowsOf(0)).includes('bulk c'));
  });

  test('what a shard refuses is 409 or 400', async () => {
    await add(30, 1, 'taken');
    assert.equal((await add(30, 2, 'taken')).status, 409);
    assert.equal((await add(30, 1, 'same key')).status, 409);
    assert.equal((await add(30, 3, 'too much', 1_000_000)).status, 400);
    assert.equal((await add(999, 1, 'in no partition')).status, 400);
  });

  test('vitrine introspect prints it without a key, like a foreign table', async () => {
    const { stdout } = await run(['introspect'], { env: { DATABASE_URL: service.url } });
    assert.match(stdout, /model: 'sale',(\n *\/\/.*)+\n *primaryKey: false,/);
  });
});
