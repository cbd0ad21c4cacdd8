// Foreign keys of several columns that refer to no record: one response names all of them.
import assert from 'node:assert/strict';
import type { Resource } from '../../src/index.ts';
import { user } from '../../src/resources/registry.ts';
import { fieldsOf, invalidFields, logIn } from '../admin/support.ts';
import { startService, type Answer, type TestService } from '../support.ts';
import { after, before, beforeEach, describe, test } from 'node:test';

const tenant: Resource = { model: 'tenant', access: 'user', columns: { name: { type: 'string' } } };
const office: Resource = {
  model: 'office',
  access: 'user',
  primaryKey: { columns: ['t', 'n'] },
  columns: { t: { type: 'integer' }, n: { type: 'integer' } },
};
/** The same, which only admins may read. */
const vault: Resource = { ...office, model: 'vault', access: 'admin', read: 'admin' };
const worker: Resource = {
  model: 'worker',
  access: 'user',
  primaryKey: { columns: ['t', 'n'] },
  columns: {
    t: { type: 'integer' },
    n: { type: 'integer' },
    boss: { type: 'integer', null: true },
    mentor: { type: 'integer', null: true },
    office: { type: 'integer', null: true },
  },
  foreignKeys: {
    of_boss: { columns: ['t', 'boss'], references: 'worker' },
    of_mentor: { columns: ['t', 'mentor'], references: 'worker' },
    of_office: { columns: ['t', 'office'], references: 'office' },
  },
};
const part = { type: 'integer', null: true } as const;
const multi: Resource = {
  model: 'multi',
  access: 'user',
  columns: {
    t1: part,
    d1: part,
    e1: part,
    t2: part,
    d2: part,
    count: part,
    tenant: { type: 'foreignKey', references: 'tenant', null: true },
  },
  foreignKeys: {
    one: { columns: ['t1', 'd1'], references: 'office' },
    two: { columns: ['t1', 'e1'], references: 'worker' },
    three: { columns: ['t2', 'd2'], references: 'office' },
  },
};
const secret: Resource = {
  model: 'secret',
  access: 'user',
  columns: { t1: part, d1: part, t2: part, d2: part },
  foreignKeys: {
    one: { columns: ['t1', 'd1'], references: 'vault' },
    two: { columns: ['t2', 'd2'], references: 'office' },
  },
};
const full: Resource = {
  model: 'whole',
  access: 'user',
  columns: { t1: part, d1: part, t2: part, d2: part },
  foreignKeys: {
    one: { columns: ['t1', 'd1'], references: 'office' },
    two: { columns: ['t2', 'd2'], references: 'office' },
  },
};
const FULL = `
  create table office (t integer, n integer, primary key (t, n));
  create table whole (
  id integer primary key generated always as identity, t1 integer, d1 integer, t2 integer, d2 integer,
  foreign key (t1, d1) references office match full, foreign key (t2, d2) references office match full);
  create index on whole (t1, d1); create index on whole (t2, d2)`;
const RESOURCES: readonly Resource[] = [user, tenant, office, vault, worker, multi, secret, full];

const missing = (...keys: string[]): string => `there is no such record (${keys.join(', ')})`;
const ABSENT = 'there is no such record';
const ONE = missing('t1', 'd1');
const TWO = missing('t1', 'e1');
const THREE = missing('t2', 'd2');
const ALL = { t1: [ONE, TWO], d1: [ONE], e1: [TWO], t2: [THREE], d2: [THREE] };

describe('foreign keys of several columns that refer to no record', () => {
  let service: TestService;
  before(async () => {
    service = await startService(RESOURCES, { prepare: (sql) => sql.unsafe(FULL).simple() });
    await service.addUser('ada');
    await service.addUser('root', { admin: true });
    await service.sql`insert into office values (1, 1), (1, 2)`;
    await service.sql`insert into vault values (1, 1)`;
    await service.sql`insert into worker (t, n) values (1, 1)`;
  });
  beforeEach(async () => {
    await service.sql`truncate multi, secret, whole restart identity`;
    await service.sql`delete from worker where n > 1`;
    await service.sql`insert into multi (t1, d1, e1, t2, d2) values (1, 1, 1, 1, 1)`;
  });
  after(() => service.close());

  const send = (method: string, path: string, body: unknown): Promise<Answer> =>
    service.request(`/api/${path}/`, { method, user: 'ada', body });

  const SENT = { t1: 9, d1: 9, e1: 9, t2: 8, d2: 8 };
  for (const [what, method, path, body, errors] of [
    ['all', 'POST', 'multi', SENT, ALL],
    ['all', 'PUT', 'multi/1', SENT, ALL],
    ['a part of each', 'PUT', 'multi/1', { d1: 9, e1: 9 }, { t1: [ONE, TWO], d1: [ONE], e1: [TWO] }],
    ['a shared part', 'PUT', 'multi/1', { t1: 9 }, { t1: [ONE, TWO], d1: [ONE], e1: [TWO] }],
    ['one and a plain one', 'POST', 'multi', { ...SENT, tenant: 7 }, { tenant: [ABSENT], ...ALL }],
    ['one and a plain one', 'PUT', 'multi/1', { ...SENT, tenant: 7 }, { tenant: [ABSENT], ...ALL }],
    [
      'one and another fault',
      'POST',
      'multi',
      { ...SENT, count: 'x' },
      { count: ['must be a whole number'], ...ALL },
    ],
    [
      'one, and another with a fault',
      'POST',
      'multi',
      { ...SENT, e1: 'x' },
      { e1: ['must be a whole number'], t1: [ONE], d1: [ONE], t2: [THREE], d2: [THREE] },
    ],
    [
      'one and a partly NULL one',
      'POST',
      'multi',
      { ...SENT, t2: null },
      { t1: [ONE, TWO], d1: [ONE], e1: [TWO] },
    ],
    [
      'their own table',
      'POST',
      'worker',
      { t: 1, n: 5, boss: 5, mentor: 6, office: 7 },
      {
        t: [missing('t', 'mentor'), missing('t', 'office')],
        mentor: [missing('t', 'mentor')],
        office: [missing('t', 'office')],
      },
    ],
    [
      'their own table',
      'PUT',
      'worker/1,1',
      { boss: 8, mentor: 6 },
      {
        t: [missing('t', 'boss'), missing('t', 'mentor')],
        boss: [missing('t', 'boss')],
        mentor: [missing('t', 'mentor')],
      },
    ],
    [
      'several records',
      'POST',
      'multi',
      [{ t1: 1, d1: 1 }, { t1: 9, d1: 9, e1: 1 }, { t2: 8, d2: 8 }, { t2: 8 }],
      { '1.t1': [ONE, TWO], '1.d1': [ONE], '1.e1': [TWO], '2.t2': [THREE], '2.d2': [THREE] },
    ],
    [
      'several records and a plain one',
      'POST',
      'multi',
      [{ tenant: 7 }, { t1: 9, d1: 9 }],
      { '0.tenant': [ABSENT], '1.t1': [ONE], '1.d1': [ONE] },
    ],
    [
      'several records with another fault',
      'POST',
      'multi',
      [{ count: 'x' }, { t1: 9, d1: 9 }],
      { '0.count': ['must be a whole number'], '1.t1': [ONE], '1.d1': [ONE] },
    ],
    [
      'several records that also refer to each other',
      'POST',
      'worker',
      [
        { t: 1, n: 3, boss: 3 },
        { t: 1, n: 4, boss: 3, mentor: 9 },
      ],
      { '1.t': [missing('t', 'mentor')], '1.mentor': [missing('t', 'mentor')] },
    ],
    [
      'MATCH FULL',
      'POST',
      'whole',
      { t1: 1, t2: 8, d2: 8 },
      { t1: [ONE], d1: [ONE], t2: [THREE], d2: [THREE] },
    ],
    [
      'MATCH FULL, in an array',
      'POST',
      'whole',
      [{ t1: 1 }, { t2: 8, d2: 8 }],
      { '0.t1': [ONE], '0.d1': [ONE], '1.t2': [THREE], '1.d2': [THREE] },
    ],
  ] as const)
    test(`a ${method} of ${path} names ${what}`, async () => {
      const { status, json, text } = await send(method, path, body);
      const sorted = (all: object): unknown =>
        Object.entries(all)
          .map(([key, faults]) => [key, [...(faults as string[])].sort()])
          .sort();
      assert.deepEqual([status, sorted(json.errors)], [400, sorted(errors)], text);
    });

  test('are missing where the caller may not read the records', async () => {
    for (const d1 of [1, 9]) {
      const { status, json } = await send('POST', 'secret', { t1: 1, d1, t2: 8, d2: 8 });
      assert.deepEqual([status, json.errors], [400, { t1: [ONE], d1: [ONE], t2: [THREE], d2: [THREE] }]);
    }
  });

  test('do not stop records that are complete, partly NULL or refer to themselves', async () => {
    for (const [path, body] of [
      ['multi', { t1: 1, d1: 2, e1: 1, t2: 7 }],
      ['worker', { t: 1, n: 7, boss: 7 }],
      [
        'worker',
        [
          { t: 1, n: 8, boss: 9 },
          { t: 1, n: 9, boss: 8 },
        ],
      ],
      ['whole', { t1: 1, d1: 2 }],
    ] as const) {
      const { status, text } = await send('POST', path, body);
      assert.equal(status, 201, text);
    }
  });

  test('are all marked in the form of the admin area', async () => {
    const root = await logIn(service, 'root');
    const form = await root.get('/admin/multi/-/add/');
    const sent = { t1: '9', d1: '9', e1: '9', t2: '8', d2: '8' };
    const answer = await root.post('/admin/multi/-/add/', { ...fieldsOf(form), ...sent });
    assert.deepEqual([answer.status, invalidFields(answer)], [400, Object.keys(sent)]);
  });
});
