// What users with roles may see and do: grants, rules about rows, levels of columns.
import assert from 'node:assert/strict';
import type { Resource, Roles } from '../../src/index.ts';
import { user as sampleUser } from '../../src/resources/registry.ts';
import { basic, startService, type Answer, type TestService, useService } from '../support.ts';
import { describe, test } from 'node:test';

const user = {
  ...sampleUser,
  columns: {
    ...sampleUser.columns,
    role: { type: 'array', of: 'string', null: true },
    ward: { type: 'foreignKey', references: 'ward', null: true },
  },
} satisfies Resource;

const ward = {
  model: 'ward',
  columns: { name: { type: 'string' }, head: { type: 'foreignKey', references: 'user', null: true } },
  access: 'admin',
  read: ['doctor', 'nurse', 'head'],
} satisfies Resource;

const patient = {
  model: 'patient',
  columns: {
    name: { type: 'string' },
    ward: { type: 'foreignKey', references: 'ward' },
    doctor: { type: 'foreignKey', references: 'user' },
    phone: { type: 'string', null: true },
    diagnosis: { type: 'text', null: true, read: ['doctor'], write: ['doctor'] },
    debt: { type: 'integer', default: 0, read: 'admin', write: 'admin' },
  },
  read: 'admin',
  access: { PUT: ['doctor'] },
} satisfies Resource;

const visit = {
  model: 'visit',
  columns: {
    patient: { type: 'foreignKey', references: 'patient' },
    booked_by: { type: 'foreignKey', references: 'user' },
    doctor: { type: 'foreignKey', references: 'user', null: true },
    note: { type: 'string', default: '' },
    state: { type: 'string', default: 'open' },
  },
  read: 'user',
  access: ['reception'],
  owner: 'booked_by',
  rows: { read: ['doctor=$me', 'booked_by=$me'] },
} satisfies Resource;

const roles = {
  reception: {
    grants: {
      patient: {
        read: { columns: ['name', 'ward', 'phone'] },
        create: { exclude: ['diagnosis', 'debt'] },
      },
      visit: { read: true },
    },
  },
  doctor: {
    grants: {
      patient: { read: { rows: 'doctor=$me' } },
      visit: { update: { columns: ['note', 'state'], rows: 'doctor=$me' } },
    },
  },
  nurse: { grants: { patient: { read: { columns: ['name', 'phone', 'ward'], rows: 'ward=$me.ward' } } } },
  head: { grants: { patient: { read: { rows: 'ward__head=$me' } } } },
  admin: { grants: { visit: { update: true } } },
  clerk: { grants: { user: { update: true } } },
} satisfies Roles;

describe('roles', () => {
  const ids: Record<string, number> = {};
  const service: TestService = useService(
    [user, ward, patient, visit],
    { roles, trustProxy: 1 },
    async () => {
      const { sql } = service;
      for (const [name, more] of Object.entries<Record<string, unknown>>({
        ada: { admin: true },
        rex: { role: ['reception'] },
        dora: { role: ['doctor'] },
        dirk: { role: ['doctor', 'nobody'] },
        nina: { role: ['nurse'] },
        both: { role: ['doctor', 'nurse'] },
        hugo: { role: ['head'] },
        paul: {},
      }))
        ids[name] = await service.addUser(name, more);
      for (const [name, head] of Object.entries({ north: 'hugo', south: 'ada' })) {
        const [row] = await sql<
          { id: number }[]
        >`insert into ward (name, head_id) values (${name}, ${ids[head] ?? 0}) returning id`;
        ids[name] = row?.id ?? 0;
      }
      await sql`update "user" set ward_id = ${ids['north'] ?? 0} where username in ('nina', 'both')`;
      for (const [name, wardName, doctor] of [
        ['Pia', 'north', 'dora'],
        ['Pim', 'south', 'dora'],
        ['Pol', 'south', 'dirk'],
        ['Per', 'south', 'both'],
      ] as const) {
        const [row] = await sql<
          { id: number }[]
        >`insert into patient (name, ward_id, doctor_id, phone, diagnosis, debt) values (${name}, ${ids[wardName] ?? 0}, ${ids[doctor] ?? 0}, '1', ${`of ${name}`}, 5) returning id`;
        ids[name] = row?.id ?? 0;
      }
      for (const [name, doctor, bookedBy] of [
        ['Pia', 'dora', 'rex'],
        ['Pol', 'dirk', 'rex'],
      ] as const) {
        const [row] = await sql<
          { id: number }[]
        >`insert into visit (patient_id, doctor_id, booked_by_id, note, state) values (${ids[name] ?? 0}, ${ids[doctor] ?? 0}, ${ids[bookedBy] ?? 0}, '', 'open') returning id`;
        ids[`visit of ${name}`] = row?.id ?? 0;
      }
    },
  );

  const as = (name: string | undefined, path: string, method = 'GET', body?: unknown): Promise<Answer> =>
    service.request(path, {
      method,
      headers: name === undefined ? {} : { authorization: basic(name) },
      body,
    });
  const idOf = (name: string): number => ids[name] ?? 0;
  const list = async (name: string, path: string): Promise<Record<string, unknown>[]> => {
    const answer = await as(name, path);
    assert.equal(answer.status, 200, answer.text);
    return (answer.json as { objects: Record<string, unknown>[] }).objects;
  };
  const names = async (caller: string, query = ''): Promise<unknown[]> =>
    (await list(caller, `/api/patient/?ordering=name${query}`)).map((one) => one['name']);

  test('show the records of their rules, and count no others', async () => {
    assert.deepEqual(await names('ada'), ['Per', 'Pia', 'Pim', 'Pol']);
    assert.deepEqual(await names('rex'), ['Per', 'Pia', 'Pim', 'Pol']);
    assert.deepEqual(await names('dora'), ['Pia', 'Pim']);
    assert.deepEqual(await names('dirk'), ['Pol']);
    assert.deepEqual(await names('nina'), ['Pia']);
    assert.deepEqual(await names('both'), ['Per', 'Pia']);
    assert.deepEqual(await names('hugo'), ['Pia']);
    assert.deepEqual(await names('dora', '&name=Pol'), []);
    assert.equal((await as('paul', '/api/patient/')).status, 403);
    assert.equal((await as(undefined, '/api/patient/')).status, 401);
    const counted = await service.request('/api/patient/?limit=1', {
      headers: { authorization: basic('dora'), prefer: 'count=exact' },
    });
    assert.equal(counted.headers.get('x-total-count'), '2');
  });

  test('show no record outside of the rules by its key', async () => {
    assert.equal((await as('dora', `/api/patient/${idOf('Pia')}/`)).status, 200);
    assert.equal((await as('dora', `/api/patient/${idOf('Pol')}/`)).status, 404);
    assert.equal((await as('nina', `/api/patient/${idOf('Pim')}/`)).status, 404);
  });

  test('decide which columns exist', async () => {
    const keys = async (caller: string): Promise<string[]> =>
      Object.keys((await list(caller, '/api/patient/?limit=1&ordering=name'))[0] ?? {});
    assert.deepEqual(await keys('ada'), ['id', 'name', 'ward_id', 'doctor_id', 'phone', 'diagnosis', 'debt']);
    assert.deepEqual(await keys('rex'), ['id', 'name', 'ward_id', 'phone']);
    assert.deepEqual(await keys('dora'), ['id', 'name', 'ward_id', 'doctor_id', 'phone', 'diagnosis']);
    assert.deepEqual(await keys('nina'), ['id', 'name', 'ward_id', 'phone']);
    assert.equal((await as('rex', '/api/patient/?diagnosis__like=x')).status, 400);
    assert.equal((await as('dora', '/api/patient/?ordering=debt')).status, 400);
    assert.equal((await as('nina', '/api/patient/?doctor__username=dora')).status, 400);
  });

  test('show a value only in the records for which a grant has its column', async () => {
    const shown = await list('both', '/api/patient/?ordering=name');
    assert.deepEqual(
      shown.map(({ name, diagnosis, doctor_id: doctor }) => [name, diagnosis, doctor]),
      [
        ['Per', 'of Per', idOf('both')],
        ['Pia', null, null],
      ],
    );
    assert.deepEqual(await names('both', '&diagnosis__is=null'), ['Pia']);
    assert.deepEqual(await names('both', '&diagnosis=of Pia'), []);
    const one = await as('both', `/api/patient/${idOf('Pia')}/`);
    assert.equal((one.json as { diagnosis: unknown }).diagnosis, null);
  });

  test('apply to records that a path or a foreign key leads to', async () => {
    const found = async (caller: string, query: string): Promise<number> =>
      (await list(caller, `/api/visit/?${query}`)).length;
    assert.equal(await found('dora', ''), 1);
    assert.equal(await found('rex', ''), 2);
    assert.equal(await found('rex', 'patient__name=Pol'), 1);
    assert.equal(await found('dora', 'patient__name=Pia'), 1);
    assert.equal((await as('dora', '/api/visit/?patient__debt=5')).status, 400);
    const created = await as('rex', '/api/visit/', 'POST', {
      patient_id: idOf('Pim'),
      doctor_id: idOf('dora'),
    });
    assert.equal(created.status, 201, created.text);
    assert.equal((created.json as { booked_by_id: number }).booked_by_id, idOf('rex'));
  });

  test('allow changes of the granted columns in the granted records', async () => {
    const path = (of: string): string => `/api/visit/${idOf(`visit of ${of}`)}/`;
    assert.equal((await as('dora', path('Pia'), 'PUT', { note: 'seen' })).status, 200);
    assert.equal((await as('dora', path('Pol'), 'PUT', { note: 'seen' })).status, 404);
    const unset = await as('dora', path('Pia'), 'PUT', { doctor_id: idOf('dirk') });
    assert.deepEqual([unset.status, unset.json], [400, { ...(unset.json as object), errors: { doctor_id: ['may not be set'] } }]); // prettier-ignore
    assert.equal((await as('paul', path('Pia'), 'PUT', { note: 'x' })).status, 403);
    assert.equal((await as('dora', path('Pia'), 'DELETE')).status, 403);
    // The reception owns it, an admin has a grant, which an owner does not bind.
    assert.equal((await as('rex', path('Pia'), 'PUT', { state: 'done' })).status, 200);
    assert.equal((await as('ada', path('Pia'), 'PUT', { state: 'open' })).status, 200);
  });

  test('make the caller the owner also of what a grant lets the caller create', async (t) => {
    const columns = { boss: { type: 'foreignKey', references: 'user' }, text: { type: 'string' } } as const;
    const task = { model: 'task', columns, access: 'user', owner: 'boss' } satisfies Resource;
    const grants = { task: { create: true } } as const;
    const beside = await startService([sampleUser, task], { roles: { user: { grants } } });
    t.after(() => beside.close());
    const id = await beside.addUser('bob');
    const { json } = await beside.request('/api/task/', { method: 'POST', user: 'bob', body: { text: 'a' } });
    assert.equal(json.boss_id, id);
  });

  test('let no write move a record out of what the writer may write', async () => {
    const moved = await as('dora', `/api/patient/${idOf('Pia')}/`, 'PUT', { diagnosis: 'x' });
    assert.equal(moved.status, 200, moved.text);
    const hidden = await as('dora', `/api/patient/${idOf('Pol')}/`, 'PUT', { diagnosis: 'x' });
    assert.equal(hidden.status, 404);
    const unset = await as('dora', `/api/patient/${idOf('Pia')}/`, 'PUT', { debt: 0 });
    assert.equal(unset.status, 400);
  });

  test('show in the answer to a write no more than readers see, and of a grant only its columns', async () => {
    const task = {
      model: 'task',
      columns: {
        boss: { type: 'foreignKey', references: 'user' },
        text: { type: 'string' },
        secret: { type: 'string', default: 'secret' },
        pay: { type: 'integer', default: 5, read: 'admin' },
        made: { type: 'date', default: '2026-01-15' },
      },
      read: 'admin',
      access: { POST: 'user' },
      owner: 'boss',
      exclude: ['secret'],
      readonly: ['made'],
    } satisfies Resource;
    for (const [grants, shown] of [
      [{}, ['id', 'boss_id', 'text', 'made']],
      [{ task: { update: { columns: ['text', 'secret'] } } }, ['id', 'text']],
    ] as const) {
      const beside = await startService([sampleUser, task], { roles: { user: { grants } } });
      try {
        await beside.addUser('bob');
        const body = { text: 'a' };
        const created = await beside.request('/api/task/', { method: 'POST', user: 'bob', body });
        assert.deepEqual(Object.keys(created.json as object), shown, created.text);
        const changed = await beside.request('/api/task/1/', { method: 'PUT', user: 'bob', body });
        if (changed.status === 200) assert.deepEqual(Object.keys(changed.json as object), shown);
        assert.equal(changed.status, 'task' in grants ? 200 : 401);
      } finally {
        await beside.close();
      }
    }
  });

  test('do not let a grant of all columns of the users set what gives rights', async () => {
    await service.addUser('carl', { role: ['clerk'] });
    const path = `/api/user/${idOf('paul')}/`;
    assert.equal((await as('carl', path, 'PUT', { email: 'p@example.org' })).status, 200);
    for (const [field, value] of Object.entries({
      role: ['nurse'],
      admin: true,
      password: 'x',
      ward_id: idOf('south'),
    })) {
      const { status, json } = await as('carl', path, 'PUT', { [field]: value });
      assert.deepEqual(
        [status, (json as { errors: unknown }).errors],
        [400, { [field]: ['may not be set'] }],
      );
    }
  });

  test('are in the OpenAPI document of the caller', async () => {
    const document = async (caller: string): Promise<string> => (await as(caller, '/api/openapi.json')).text;
    assert.ok((await document('dora')).includes('diagnosis'));
    assert.ok(!(await document('rex')).includes('diagnosis'));
    assert.ok(!(await document('paul')).includes('/api/patient'));
  });

  test('end with the next request after the role or the column of a rule has changed', async () => {
    const { sql } = service;
    assert.deepEqual(await names('nina'), ['Pia']);
    await sql`update "user" set ward_id = ${idOf('south')} where username = 'nina'`;
    assert.deepEqual(await names('nina'), ['Per', 'Pim', 'Pol']);
    await sql`update "user" set role = '{}' where username = 'nina'`;
    assert.equal((await as('nina', '/api/patient/')).status, 403);
    const path = `/api/visit/${idOf('visit of Pol')}/`;
    assert.equal((await as('dirk', path, 'PUT', { note: 'a' })).status, 200);
    await sql`update "user" set role = '{}' where username = 'dirk'`;
    assert.equal((await as('dirk', path, 'PUT', { note: 'b' })).status, 403);
  });
});
