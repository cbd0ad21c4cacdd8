// Columns that a trigger of the database fills.
import assert from 'node:assert/strict';
import type { Resource } from '../../src/index.ts';
import { user } from '../../src/resources/registry.ts';
import { type Fields, fieldsOf, hiddenFields, logIn } from '../admin/support.ts';
import { createDatabase, startService, useService, type TestService } from '../support.ts';
import type { Sql } from 'postgres';
import { startWith } from './helpers.ts';
import { describe, test } from 'node:test';

const prepare = (sql: Sql): Promise<unknown> =>
  sql.unsafe(`
    create table invoice (id integer generated always as identity primary key,
      title varchar(255) not null, number varchar(255) not null, size integer not null);
    create function fill() returns trigger language plpgsql as $$ begin
      new.number = coalesce(new.number, 'N' || new.id);
      if new.title <> 'unfilled' then new.size = coalesce(new.size, 7); end if;
      return new;
    end $$;
    create trigger fill before insert on invoice for each row execute function fill()`);

const invoice: Resource = {
  model: 'invoice',
  columns: {
    title: { type: 'string' },
    number: { type: 'string', default: 'database' },
    size: { type: 'integer', default: 'database' },
  },
  access: 'user',
};

describe('a column with the default of the database', () => {
  const service: TestService = useService([user, invoice], { prepare }, () =>
    service.addUser('ada', { admin: true }),
  );

  const create = (body: object): ReturnType<TestService['request']> =>
    service.request('/api/invoice/', { method: 'POST', user: 'ada', body });

  test('may be left out of a POST, and may be sent', async () => {
    const { status, json } = await create({ title: 'a' });
    assert.deepEqual([status, json], [201, { id: json.id, title: 'a', number: `N${json.id}`, size: 7 }]);
    assert.equal((await create({ title: 'b', number: 'X', size: 3 })).json.number, 'X');
    assert.deepEqual((await create({ title: 'c', number: null })).json.errors, {
      number: ['must not be null'],
    });
  });

  test('that the trigger leaves empty makes the POST fail, and creates nothing', async () => {
    const { status, json } = await create({ title: 'unfilled' });
    assert.deepEqual([status, json.detail], [400, 'A value that the database requires is missing.']);
    const { json: found } = await service.request('/api/invoice/?title=unfilled');
    assert.deepEqual(found.objects, []);
  });

  test('may stay empty in the form of the admin area', async () => {
    const browser = await logIn(service, 'ada');
    const page = await browser.get('/admin/invoice/-/add/');
    const saved = await browser.post('/admin/invoice/-/add/', { ...fieldsOf(page), title: 'form' });
    assert.equal(saved.status, 303, saved.text);
    const { json } = await service.request('/api/invoice/?title=form');
    assert.equal(json.objects[0].size, 7);
  });

  test('is not required in the OpenAPI document', async () => {
    const { json } = await service.request('/api/openapi.json', { user: 'ada' });
    assert.deepEqual(json.components.schemas['invoice.New'].required, ['title']);
  });
});

/** It lacks `number` and `size`, which the trigger may fill. */
const short: Resource = { model: 'invoice', columns: { title: { type: 'string' } }, access: 'user' };

test('a required column that is not in the registry stops the start with three ways out, and leaving out POST in `methods` is one', async (t) => {
  await assert.rejects(
    startService([user, short], { prepare }),
    /size is NOT NULL without a default, but is not in the registry, so no record can be added: name it there with default: 'database' if a trigger fills it, give it a default in SQL, or leave out POST in methods$/m,
  );
  const service = await startService([user, { ...short, methods: ['GET', 'PUT', 'DELETE'] }], { prepare });
  t.after(() => service.close());
  await service.addUser('ada', { admin: true });
  await service.sql`alter table invoice alter number drop not null, alter size drop not null`;
  await service.sql`insert into invoice (title) values ('old')`;
  const send = (method: string, path: string, body?: object) =>
    service.request(path, { method, user: 'ada', ...(body ? { body } : {}) });
  assert.equal((await send('POST', '/api/invoice/', { title: 'new' })).status, 405);
  assert.equal((await send('PUT', '/api/invoice/1/', { title: 'changed' })).status, 200);
  const ada = await logIn(service, 'ada');
  for (const path of ['/admin/', '/admin/invoice/', '/admin/invoice/1/', '/admin/invoice/?title=none'])
    assert.doesNotMatch((await ada.get(path)).text, /invoice\/-\/add|Save as new|add another/, path);
  assert.equal((await ada.get('/admin/invoice/-/add/')).status, 404);
  assert.equal((await ada.post('/admin/invoice/-/add/', { title: 'new' })).status, 404);
  const preview = await ada.post('/admin/invoice/-/import/', { _text: 'title\nnew\n' });
  assert.match(preview.text, /Records cannot be added here/);
  assert.equal((await service.sql`select from invoice`).length, 1);
});

test('a required column that is not in the registry stops the start when only the admin area adds records', async () => {
  const admins: Resource = { model: 'invoice', columns: short.columns };
  await assert.rejects(
    startService([user, admins], { prepare }),
    /size is NOT NULL without a default, but is not in the registry, so no record can be added/,
  );
  for (const resources of [
    [admins], // without a user model there is no admin area
    [user, { ...admins, admin: { hidden: true } }],
    [user, { ...admins, admin: { allow: ['change', 'delete'] } }],
  ] satisfies Resource[][]) {
    const service = await startService(resources, { prepare });
    assert.equal((await service.request('/api/invoice/')).status, 200);
    await service.close();
  }
});

test("default: 'database' is refused for a column that allows NULL, and for a password", async () => {
  for (const [column, fault] of [
    [
      { type: 'string', null: true, default: 'database' },
      "columns.a.default: 'database' is for columns that are NOT NULL",
    ],
    [{ type: 'password', default: 'database' }, 'columns.a.default: type password has no such key'],
  ] as const)
    await assert.rejects(
      startService([{ model: 'thing', columns: { a: column } } as unknown as Resource]),
      (error: Error) => error.message.includes(`  - thing: ${fault}`),
    );
});

// Virtual generated columns of PostgreSQL 18: they are computed when a row is read, and may fail then.
const TRIPS = `
  create table trip (id integer primary key generated by default as identity, km integer not null,
    hours integer not null, speed integer generated always as (km / hours) virtual);
  insert into trip (km, hours) select 5, 0 from generate_series(1, 6)`;
const trips: Resource = {
  model: 'trip',
  columns: { km: { type: 'integer' }, hours: { type: 'integer' } },
  access: 'user',
};

async function isAvailable(): Promise<boolean> {
  const database = await createDatabase();
  try {
    const [row] = await database.sql`select current_setting('server_version_num')::int >= 180000 as has`;
    if (row?.['has'] === true) return true;
    await assert.rejects(database.sql.unsafe(TRIPS), { code: '42601' });
    return false;
  } finally {
    await database.drop();
  }
}

test('a virtual column that is not served and cannot be computed keeps no row from being read, changed or deleted', async () => {
  if (!(await isAvailable())) return;
  const service = await startWith([trips], TRIPS);
  try {
    await assert.rejects(service.sql`select speed from trip`, { code: '22012' });
    const one = await service.send('GET', '/api/trip/1/');
    assert.deepEqual([one.status, one.json], [200, { id: 1, km: 5, hours: 0 }]);
    for (const query of ['', '?ordering=km', '?km=5&limit=2&page=2'])
      assert.equal((await service.send('GET', `/api/trip/${query}`)).status, 200, query);
    const lines = await service.send('GET', '/api/trip/', undefined, { accept: 'application/x-ndjson' });
    assert.equal(lines.text.trim().split('\n').length, 6, lines.text);
    const put = await service.send('PUT', '/api/trip/1/', { km: 6 });
    assert.deepEqual([put.status, put.json], [200, { id: 1, km: 6, hours: 0 }]);
    assert.equal((await service.send('DELETE', '/api/trip/2/')).status, 200);
    const ada = await logIn(service, 'ada');
    const act = async (form: string, fields: Fields): Promise<void> => {
      const page = await ada.post('/admin/trip/-/bulk/', { _state: '', ...fields });
      assert.equal(page.status, 200, page.text);
      const confirmed = { ...hiddenFields(page, form), _confirm: '1' };
      assert.equal((await ada.post('/admin/trip/-/bulk/', confirmed)).status, 303);
    };
    await act('record', { _action: 'set', _id: '3', _column: 'hours', _value: '1', hours: '2' });
    await act('confirm', { _action: 'delete', _id: '4' });
    const rows = await service.sql`select id, km, hours from trip order by id`;
    assert.deepEqual([...rows], [
      { id: 1, km: 6, hours: 0 },
      { id: 3, km: 5, hours: 2 },
      { id: 5, km: 5, hours: 0 },
      { id: 6, km: 5, hours: 0 },
    ]); // prettier-ignore
  } finally {
    await service.close();
  }
});
