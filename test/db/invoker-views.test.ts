// Views that PostgreSQL reads with the privileges of the service's role instead of their owner's (`security_invoker`).
import assert from 'node:assert/strict';
import { createVitrine, type Resource } from '../../src/index.ts';
import { createDatabase, MAJOR_VERSION, request, type TestDatabase } from '../support.ts';
import { after, before, describe, test } from 'node:test';

const view: Resource = {
  model: 'seen',
  primaryKey: { type: 'integer', column: 'id' },
  columns: { name: { type: 'string', null: true } },
  methods: ['GET'],
};

test('security_invoker is unknown before PostgreSQL 15', async () => {
  const database = await createDatabase();
  const made = database.sql.unsafe('create view one with (security_invoker = on) as select 1 as id');
  await (MAJOR_VERSION < 15 ? assert.rejects(made, { code: '22023' }) : made);
  await database.drop();
});

const describeViews = MAJOR_VERSION < 15 ? () => undefined : describe;
describeViews('a view with security_invoker', () => {
  const role = `invoker_${Date.now()}`;
  let database: TestDatabase;
  let databaseUrl: string;
  before(async () => {
    database = await createDatabase();
    await database.sql.unsafe(`create role ${role} login password 'x';
      create table film (id int primary key, name text, secret text); insert into film values (1, 'Ran', 'x');
      create view below with (security_invoker = on) as select id, name from film;
      create view seen with (security_invoker = yes) as select id, name from below;
      grant select on seen to ${role}`);
    const url = new URL(database.url);
    [url.username, url.password] = [role, 'x'];
    databaseUrl = url.href;
  });
  after(async () => {
    await database.sql.unsafe(`drop owned by ${role}; drop role ${role}`);
    await database.drop();
  });

  const create = () =>
    createVitrine({ databaseUrl, resources: [view], port: 0, schema: 'check', log: () => undefined });
  const refusal = (table: string) =>
    new RegExp(`may not SELECT from ${table}, which this view reads with the role's own privileges`);

  const cases = [
    { grant: '', missing: ['below', 'film'] },
    { grant: 'grant select on below to %', missing: ['film'] },
    { grant: 'grant select (id) on film to %', missing: ['film'] },
  ];
  for (const { grant, missing } of cases)
    test(`does not start without rights on ${missing.join(' and ')}${grant && `, after "${grant}"`}`, async () => {
      if (grant) await database.sql.unsafe(grant.replace('%', role));
      await assert.rejects(
        create().then((vitrine) => vitrine.start()),
        ({ message }: Error) => {
          assert.equal(message.split('security_invoker').length - 1, missing.length, message);
          for (const table of missing) assert.match(message, refusal(table));
          return true;
        },
      );
    });

  test('is served once the role may read each column that it uses', async () => {
    await database.sql.unsafe(`grant select (id, name) on film to ${role}`);
    const vitrine = await create();
    try {
      const { url } = await vitrine.start();
      const { status, json } = await request(url, '/api/seen/1/');
      assert.deepEqual([status, json.name], [200, 'Ran']);
    } finally {
      await vitrine.close();
    }
  });
});
