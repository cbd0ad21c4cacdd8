// Columns that a trigger of the database fills.
import assert from 'node:assert/strict';
import type { Resource } from '../../src/index.ts';
import { user } from '../../src/resources/registry.ts';
import { fieldsOf, logIn } from '../admin/support.ts';
import { startService, type TestService } from '../support.ts';
import type { Sql } from 'postgres';
import { after, before, describe, test } from 'node:test';

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
  let service: TestService;
  before(async () => {
    service = await startService([user, invoice], { prepare });
    await service.addUser('ada', { admin: true });
  });
  after(() => service.close());

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

/** It lacks `number`, which the trigger always fills, and `size`, which it does not. */
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
  const columns = {
    a: { type: 'string', null: true, default: 'database' },
    b: { type: 'password', default: 'database' },
  };
  await assert.rejects(startService([{ model: 'thing', columns } as unknown as Resource]), (error: Error) => {
    assert.match(error.message, /columns\.a\.default: 'database' is for columns that are NOT NULL/);
    assert.match(error.message, /columns\.b\.default/);
    return true;
  });
});
