// What a registry says of values beyond their types: sets of columns that are unique together.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { createVitrine, type Resource, StartError } from '../../src/index.ts';
import { errorsIn, fieldsOf, useAdmin } from '../admin/support.ts';
import { startFaults, startOnce, users } from '../db/helpers.ts';
import { createDatabase, sendAs, serverUrl, type TestDatabase } from '../support.ts';

const patient: Resource = {
  model: 'patient',
  columns: {
    given: { type: 'string' },
    family: { type: 'string', column: 'surname' },
    born: { type: 'date', null: true },
    doctor: { type: 'foreignKey', references: 'user', null: true },
  },
  unique: [
    ['given', 'family', 'born'],
    ['doctor', 'born'],
  ],
  access: 'user',
};

/** The lines of the error message of a start, which the registry alone decides. */
async function registryFaults(resources: unknown): Promise<string[]> {
  const databaseUrl = new URL('/vitrine_test_none', serverUrl()).href;
  const options = { databaseUrl, resources, log: () => undefined } as Parameters<typeof createVitrine>[0];
  const error: unknown = await createVitrine(options).catch((reason: unknown) => reason);
  assert.ok(error instanceof StartError);
  return error.message.split('\n').slice(1);
}

describe('sets of columns that are unique together', () => {
  const { service, ada } = useAdmin([users, patient]);
  const ann = { given: 'Ann', family: 'Lee', born: '1980-02-29' };
  const taken = ['another record has this value'];

  test('a duplicate is 409 and names the columns, also in an array, and another value or NULL is none', async () => {
    const send = sendAs(service, 'ada');
    assert.equal((await send('POST', '/api/patient/', ann)).status, 201);
    const again = await send('POST', '/api/patient/', ann);
    assert.equal(again.status, 409);
    assert.deepEqual(again.json.errors, { given: taken, family: taken, born: taken });
    const several = await send('POST', '/api/patient/', [{ ...ann, born: null }, ann]);
    assert.deepEqual(several.json.errors, { '1.given': taken, '1.family': taken, '1.born': taken });
    for (const other of [{ given: 'Bob' }, { born: null }, { born: null }])
      assert.equal((await send('POST', '/api/patient/', { ...ann, ...other })).status, 201);
    const bob = (await send('GET', '/api/patient/?given=Bob')).json.objects[0];
    const renamed = await send('PUT', `/api/patient/${bob.id}/`, { given: 'Ann' });
    assert.deepEqual([renamed.status, renamed.json.errors], [409, { given: taken }]);
  });

  test('the admin area shows the error at each of the fields', async () => {
    const form = await ada.get('/admin/patient/-/add/');
    const refused = await ada.post('/admin/patient/-/add/', { ...fieldsOf(form), ...ann });
    assert.equal(refused.status, 409);
    const [text] = Object.values(errorsIn(refused));
    assert.match(text ?? '', /Another record has this value/);
    assert.deepEqual(errorsIn(refused), { given: text, family: text, born: text });
  });

  test('the OpenAPI document describes them for writers', async () => {
    const { json } = await sendAs(service, 'ada')('GET', '/api/openapi.json');
    for (const name of ['patient.New', 'patient.Change'])
      assert.match(
        json.components.schemas[name].description,
        /^No two records have the same `given`, `family`, `born`\. No two .* `doctor_id`, `born`\.$/,
      );
    assert.equal(json.components.schemas['user.New'].description, undefined);
  });
});

describe('a database without these sets', () => {
  let database: TestDatabase;
  before(async () => {
    database = await createDatabase();
  });
  after(() => database.drop());
  const model = {
    ...patient,
    access: 'default',
    columns: { ...patient.columns, doctor: { type: 'integer', null: true } },
  } as const;

  test('stops a start with SCHEMA=check; SCHEMA=apply creates them once, in any order of columns', async () => {
    const { sql } = database;
    await sql`create table patient (id serial primary key, given varchar(255) not null, surname varchar(255) not null, born date, doctor integer)`;
    await sql`create unique index on patient (born, doctor)`;
    const fault = '  - patient: unique: given, surname, born are not unique together in the database';
    assert.deepEqual(await startFaults(database, [model], { schema: 'check' }), [fault]);
    await startOnce(database, [model]);
    await startOnce(database, [model], { schema: 'check' });
    const indexes = await sql`select from pg_indexes where tablename = 'patient'`;
    assert.equal(indexes.count, 3);
  });

  for (const [unique, text] of [
    ['given', 'must be an array of sets of 2 to 32 columns'],
    [[['given']], 'must be an array of sets of 2 to 32 columns'],
    [[], 'must be an array of sets of 2 to 32 columns'],
    [[['given', 'given']], 'must not name a column twice'],
    [[['given', 'nick']], 'there is no column nick'],
  ] as const)
    test(`unique: ${JSON.stringify(unique)} is a fault of the registry`, async () => {
      assert.deepEqual(await registryFaults([{ ...model, unique }]), [`  - patient: unique: ${text}`]);
    });
});
