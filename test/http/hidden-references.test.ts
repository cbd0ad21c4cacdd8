// References to records that the caller may not read, by one column and by several: what a refused write shows of them.
import assert from 'node:assert/strict';
import type { Resource } from '../../src/index.ts';
import { user } from '../../src/resources/registry.ts';
import { startService, type Answer, type TestService } from '../support.ts';
import { after, before, describe, test } from 'node:test';

const part = { type: 'integer', null: true } as const;
const office: Resource = {
  model: 'office',
  access: 'user',
  primaryKey: { columns: ['t', 'n'] },
  columns: { t: { type: 'integer' }, n: { type: 'integer' } },
};
/** Only admins may read it. */
const vault: Resource = { ...office, model: 'vault', access: 'admin', read: 'admin' };
const team: Resource = {
  model: 'team',
  access: 'admin',
  read: 'admin',
  columns: { name: { type: 'string' } },
};
const secret: Resource = {
  model: 'secret',
  access: 'user',
  columns: {
    t1: part,
    d1: part,
    t2: part,
    d2: part,
    t3: part,
    d3: part,
    team: { type: 'foreignKey', references: 'team', null: true },
  },
  // PostgreSQL checks them in the order in which it has made them.
  foreignKeys: {
    one: { columns: ['t1', 'd1'], references: 'vault' },
    two: { columns: ['t2', 'd2'], references: 'office' },
    three: { columns: ['t3', 'd3'], references: 'vault' },
  },
};
/** Users write it without being able to read its values. */
const drop: Resource = { ...secret, model: 'drop', read: 'admin' };
/** It has a hidden unique column, and a foreign key of which all columns are NULL if one is (MATCH FULL). */
const whole: Resource = {
  model: 'whole',
  access: 'user',
  columns: { t1: part, d1: part, code: { type: 'string', null: true, unique: true } },
  foreignKeys: { one: { columns: ['t1', 'd1'], references: 'office' } },
  exclude: ['code'],
};
const FULL = `
  create table office (t integer, n integer, primary key (t, n));
  create table whole (
  id integer primary key generated always as identity, t1 integer, d1 integer, code varchar(255) unique,
  foreign key (t1, d1) references office match full);
  create index on whole (t1, d1)`;

const EXISTING = 1;
const ABSENT = 999;
const missing = (...keys: string[]): string => `there is no such record (${keys.join(', ')})`;
const atLeast = (...keys: string[]): string =>
  `at least one of ${keys.join(', ')} refers to a record that does not exist`;
const all = (fault: string, ...keys: string[]): object =>
  Object.fromEntries(keys.map((key) => [key, [fault]]));

describe('a refused write with references to records that the caller may not read', () => {
  let service: TestService;
  before(async () => {
    service = await startService([user, office, vault, team, secret, drop, whole], {
      prepare: (sql) => sql.unsafe(FULL).simple(),
    });
    await service.addUser('ada');
    await service.sql`insert into office values (1, 1)`;
    await service.sql`insert into vault values (1, 1)`;
    await service.sql`insert into team (name) values ('One')`;
    await service.sql`insert into secret default values`;
    await service.sql`insert into "drop" (t2, d2) values (1, 1)`;
    await service.sql`insert into whole (code) values ('taken')`;
  });
  after(() => service.close());

  const send = (method: string, path: string, body: unknown): Promise<Answer> =>
    service.request(`/api/${path}/`, { method, user: 'ada', body });
  const one = (value: number): object => ({ t1: value, d1: value });
  const two = (value: number): object => ({ t2: value, d2: value });
  const three = (value: number): object => ({ t3: value, d3: value });
  const inTeam = (value: number): object => ({ team_id: value });
  type Body = (probe: number) => object;

  const SINGLES: readonly (readonly [what: string, body: Body, errors: object])[] = [
    [
      'by several columns, and a visible one that is missing',
      (probe) => ({ ...one(probe), ...two(ABSENT) }),
      all(missing('t2', 'd2'), 't2', 'd2'),
    ],
    [
      'by one column, and a visible one that is missing',
      (probe) => ({ ...inTeam(probe), ...two(ABSENT) }),
      all(missing('t2', 'd2'), 't2', 'd2'),
    ],
    [
      'by several columns, and another that is missing',
      (probe) => ({ ...one(probe), ...three(ABSENT) }),
      all(atLeast('t1', 'd1', 't3', 'd3'), 't1', 'd1', 't3', 'd3'),
    ],
    [
      'by several columns, after another that is missing',
      (probe) => ({ ...one(ABSENT), ...three(probe) }),
      all(atLeast('t1', 'd1', 't3', 'd3'), 't1', 'd1', 't3', 'd3'),
    ],
    [
      'by several columns, and one by one column that is missing',
      (probe) => ({ ...one(probe), ...inTeam(ABSENT) }),
      all(atLeast('team_id', 't1', 'd1'), 'team_id', 't1', 'd1'),
    ],
    [
      'by one column, and one by several that is missing',
      (probe) => ({ ...one(ABSENT), ...inTeam(probe) }),
      all(atLeast('team_id', 't1', 'd1'), 'team_id', 't1', 'd1'),
    ],
  ];
  const MANY: readonly (readonly [what: string, body: (probe: number) => object[], errors: object])[] = [
    [
      'by one column, and a visible one of another record that is missing',
      (probe) => [inTeam(probe), two(ABSENT)],
      all(missing('t2', 'd2'), '1.t2', '1.d2'),
    ],
    [
      'by several columns, and a visible one of another record that is missing',
      (probe) => [two(ABSENT), one(probe)],
      all(missing('t2', 'd2'), '0.t2', '0.d2'),
    ],
    [
      'by several columns, and another of another record that is missing',
      (probe) => [one(probe), three(ABSENT)],
      all(atLeast('0.t1', '0.d1', '1.t3', '1.d3'), '0.t1', '0.d1', '1.t3', '1.d3'),
    ],
    [
      'by one column, and one by several of another record that is missing',
      (probe) => [inTeam(probe), one(ABSENT)],
      all(atLeast('0.team_id', '1.t1', '1.d1'), '0.team_id', '1.t1', '1.d1'),
    ],
  ];
  const CASES = [
    ...SINGLES.map((one) => ['POST', 'secret', ...one] as const),
    ...SINGLES.map((one) => ['PUT', 'secret/1', ...one] as const),
    ...MANY.map((one) => ['POST', 'secret', ...one] as const),
    [
      'PUT',
      'drop/1',
      'by several columns, and a part of a visible one that is missing',
      (probe: number) => ({ ...one(probe), d2: ABSENT }),
      all(atLeast('t1', 'd1', 't2', 'd2'), 't1', 'd1', 't2', 'd2'),
    ],
  ] as const;
  for (const [method, path, what, body, errors] of CASES)
    test(`does not show whether it exists: a ${Array.isArray(body(0)) ? `${method} of an array` : method} that refers ${what}, to ${path}`, async () => {
      const answers = [
        await send(method, path, body(EXISTING)),
        await send(method, path, body(ABSENT)),
      ] as const;
      assert.deepEqual(answers[0].json, answers[1].json);
      assert.deepEqual([answers[0].status, answers[0].json.errors], [400, errors], answers[0].text);
    });

  for (const [body, errors] of [
    [one(ABSENT), all(missing('t1', 'd1'), 't1', 'd1')],
    [[{}, one(ABSENT)], all(missing('t1', 'd1'), '1.t1', '1.d1')],
    [inTeam(ABSENT), { team_id: ['there is no such record'] }],
    [{ ...one(ABSENT), ...two(1) }, all(missing('t1', 'd1'), 't1', 'd1')],
  ] as const)
    test(`names the only one that is missing: ${JSON.stringify(body)}`, async () => {
      const { status, json } = await send('POST', 'secret', body);
      assert.deepEqual([status, json.errors], [400, errors]);
    });

  test('does not show which hidden values are taken, with a reference of MATCH FULL that is partly NULL', async () => {
    const answers = [
      await send('POST', 'whole', { t1: 1, code: 'taken' }),
      await send('POST', 'whole', { t1: 1, code: 'free' }),
    ] as const;
    assert.deepEqual(answers[0].json, answers[1].json);
    assert.equal(answers[0].status, 409, answers[0].text);
  });
});
