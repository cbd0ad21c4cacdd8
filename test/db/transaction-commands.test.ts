// A write of a table with a trigger is read back in one transaction. A request to cancel may hit BEGIN, ROLLBACK and the rest, too.
import assert from 'node:assert/strict';
import { createVitrine, type Resource, type Vitrine } from '../../src/index.ts';
import { user } from '../../src/resources/registry.ts';
import { assertProblem } from '../http/expect.ts';
import { startProxy, type Proxy } from '../process/proxy.ts';
import { closeIdleConnections } from '../send.ts';
import { cheapHash, createDatabase, request, type Answer, type TestDatabase } from '../support.ts';
import { after, before, describe, test } from 'node:test';

const item: Resource = {
  model: 'item',
  columns: { name: { type: 'string', unique: true }, note: { type: 'string', default: '' } },
  access: 'user',
};
const TRIGGER = `
  create function add_note() returns trigger language plpgsql as
  $$ begin update item set note = 'by a trigger' where id = new.id; return null; end $$;
  create trigger add_note after insert on item for each row execute function add_note()`;
const READ_BACK = 'set constraints all immediate';

describe('a command of a transaction that fails', () => {
  let database: TestDatabase;
  let proxy: Proxy;
  let vitrine: Vitrine;
  let base: string;

  const post = (name: string): Promise<Answer> =>
    request(base, '/api/item/', { method: 'POST', user: 'ada', body: { name } });
  const namesOf = async (table: string): Promise<unknown[]> =>
    (await database.sql.unsafe(`select * from ${table} order by 1`)).map(
      ({ name, changes }) => name ?? changes.name,
    );
  /** The sessions of the service in an open transaction. */
  const open = async (): Promise<number> =>
    (
      await database.sql`select from pg_stat_activity where datname = current_database()
        and application_name = 'vitrine' and state like 'idle in transaction%'`
    ).count;

  before(async () => {
    database = await createDatabase();
    proxy = await startProxy(database.url);
    const options = { databaseUrl: proxy.url, resources: [user, item], port: 0, log: () => undefined };
    await (await createVitrine(options)).close();
    await database.sql.unsafe(TRIGGER);
    vitrine = await createVitrine(options);
    base = (await vitrine.start()).url;
    const ada = { username: 'ada', password: await cheapHash('pw-ada'), email: '' };
    await database.sql`insert into "user" ${database.sql(ada)}`;
    for (const name of ['first', 'second']) {
      const { status, json } = await post(name);
      assert.deepEqual([status, json.note], [201, 'by a trigger']);
    }
  });
  after(async () => {
    closeIdleConnections(base);
    await vitrine.close();
    await proxy.close();
    await database.drop();
  });

  test('leaves a refused write refused if it is ROLLBACK, and no transaction open', async () => {
    for (let round = 0; round < 10; round += 1) {
      proxy.spoil('rollback\0');
      const answer = await post('first');
      assertProblem(answer, 409);
      assert.match(answer.json.errors.name[0], /another record/);
    }
    assert.equal((await post('third')).status, 201);
    assert.equal(await open(), 0);
    assert.deepEqual(await namesOf('item'), ['first', 'second', 'third']);
  });

  test('leaves a write made if it is BEGIN', async () => {
    proxy.spoil('begin\0');
    const { status, json } = await post('fourth');
    assert.deepEqual([status, json.note], [201, 'by a trigger']);
    assert.equal((await database.sql`select from item where name = 'fourth'`).count, 1);
  });

  test('leaves a refused write refused if it is BEGIN', async () => {
    proxy.spoil('begin\0');
    assertProblem(await post('first'), 409);
    assert.equal(await open(), 0);
  });

  test('undoes the write if it is one after BEGIN', async () => {
    for (const command of [`${READ_BACK};`, 'commit\0']) {
      proxy.spoil(command);
      assertProblem(await post('fifth'), 500, command);
      assert.equal((await database.sql`select from item where name = 'fifth'`).count, 0);
      assert.equal(await open(), 0);
    }
  });

  test('does not deny the change if it follows a BEGIN that failed, too', async () => {
    proxy.spoil('begin\0');
    proxy.spoil(`${READ_BACK};`);
    const answer = await post('sixth');
    assertProblem(answer, 503);
    assert.match(answer.json.detail, /It is not known whether the change was made/);
    assert.equal((await database.sql`select from item where name = 'sixth'`).count, 1);
    assert.equal((await post('seventh')).status, 201);
  });
});
