import assert from 'node:assert/strict';
import { createVitrine, type Resource, type Vitrine } from '../../src/index.ts';
import { note, user } from '../../src/resources/registry.ts';
import {
  basic,
  cheapHash,
  request,
  startService,
  untilRun,
  type Answer,
  type TestService,
} from '../support.ts';
import { assertProblem, assertUnauthorized, fromNewAddress, stopClock } from './expect.ts';
import { requestText, wire } from './wire.ts';
import { after, before, describe, mock, test } from 'node:test';

const secret: Resource = { model: 'secret', columns: {}, access: 'admin' };
const box: Resource = {
  model: 'box',
  columns: {
    label: { type: 'text', null: true },
    secret: { type: 'foreignKey', references: 'secret', null: true },
  },
  access: 'admin',
};
const guarded: Resource = { model: 'guarded', columns: { name: { type: 'string' } }, access: 'user' };
const registry = [user, secret, box, guarded];
const CHANGES = [
  ['deactivated', { active: false }],
  ['given a new password', { password: 'none' }],
] as const;

/** A write of each kind of statement; `id` is the id of a box. */
const WRITES: readonly [
  string,
  (id: number, secret: number) => [method: string, path: string, body?: object],
][] = [
  ['a POST of nothing', () => ['POST', '/api/box/', {}]],
  ['a POST of a value', () => ['POST', '/api/box/', { label: 'new' }]],
  ['a POST that references a record', (_, key) => ['POST', '/api/box/', { secret: key }]],
  ['a POST of an array', () => ['POST', '/api/box/', [{}, { label: 'new' }]]],
  ['a PUT of nothing', (id) => ['PUT', `/api/box/${id}/`, {}]],
  ['a PUT of a value', (id) => ['PUT', `/api/box/${id}/`, { label: 'new' }]],
  ['a PUT that references a record', (id, key) => ['PUT', `/api/box/${id}/`, { secret: key }]],
  ['a DELETE', (id) => ['DELETE', `/api/box/${id}/`]],
  ['a faulty POST', () => ['POST', '/api/box/', { label: 1 }]],
  ['a POST that references nothing', () => ['POST', '/api/box/', { secret: 0 }]],
  ['a faulty PUT', (id) => ['PUT', `/api/box/${id}/`, { secret: 0 }]],
  ['a PUT of no record', () => ['PUT', '/api/box/0/', { label: 'new' }]],
  ['a DELETE of no record', () => ['DELETE', '/api/box/0/']],
];

describe('remembered credentials', () => {
  let service: TestService;
  let second: Vitrine;
  let bases: string[];
  before(async () => {
    service = await startService(registry, { trustProxy: 1 });
    second = await createVitrine({
      databaseUrl: service.url,
      trustProxy: 1,
      resources: registry,
      port: 0,
      log: () => undefined,
    });
    bases = [service.base, (await second.start()).url];
    await service.addUser('ada', { admin: true });
  });
  after(async () => {
    await second.close();
    await service.close();
  });

  /** The address of each user: credentials are remembered for the address that sent them. */
  const homes = new Map<string, Record<string, string>>();
  const homeOf = (authorization: string): Record<string, string> => {
    const home = homes.get(authorization) ?? fromNewAddress();
    homes.set(authorization, home);
    return home;
  };
  const write = (base: string, authorization: string): Promise<Answer> =>
    request(base, '/api/secret/', {
      method: 'POST',
      headers: { authorization, ...homeOf(authorization) },
      body: {},
    });

  /** Adds an admin who has already written on both instances. */
  async function newAdmin(name: string): Promise<string> {
    await service.addUser(name, { admin: true });
    for (const base of bases) {
      for (let times = 0; times < 2; times += 1) assert.equal((await write(base, basic(name))).status, 201);
    }
    return basic(name);
  }

  const put = async (base: string, name: string, body: object): Promise<void> => {
    const { json } = await request(base, `/api/user/?username=${name}`);
    const path = `/api/user/${json.objects[0].id}/`;
    const { status } = await request(base, path, { method: 'PUT', user: 'ada', body });
    assert.equal(status, 200);
  };

  for (const [change, body, after] of [
    ['a deactivated user', { active: false }, 401],
    ['a demoted admin', { admin: false }, 403],
    ['a user with a new password', { password: 'new' }, 401],
    ['a renamed user', { username: 'renamed' }, 401],
  ] as const) {
    test(`${change} loses access with the next request, on every instance`, async () => {
      for (const [changer, name] of [
        [0, `u${after}${Object.keys(body)[0]}a`],
        [1, `u${after}${Object.keys(body)[0]}b`],
      ] as const) {
        const authorization = await newAdmin(name);
        await put(bases[changer] ?? '', name, {
          ...body,
          ...('username' in body ? { username: `${name}x` } : {}),
        });
        for (const base of bases) {
          const answer = await write(base, authorization);
          if (after === 401) assertUnauthorized(answer);
          else assertProblem(answer, after);
        }
        if ('password' in body) {
          for (const base of bases) assert.equal((await write(base, basic(name, 'new'))).status, 201);
        }
      }
    });
  }

  test('a deleted user loses access, and so does a user that another program deactivates', async () => {
    const authorization = await newAdmin('deleted');
    await service.sql`delete from "user" where username = 'deleted'`;
    for (const base of bases) assertUnauthorized(await write(base, authorization));
    const changed = await newAdmin('changed');
    await service.sql`update "user" set active = false where username = 'changed'`;
    for (const base of bases) assertUnauthorized(await write(base, changed));
    await service.sql`update "user" set active = true where username = 'changed'`;
    for (const base of bases) assert.equal((await write(base, changed)).status, 201);
  });

  for (const [kind, shape] of WRITES) {
    test(`${kind} by a user who has changed since is refused, and writes nothing`, async () => {
      const { sql } = service;
      const name = `w${WRITES.findIndex(([one]) => one === kind)}`;
      const id = await service.addUser(name, { admin: true });
      const [row] = await sql<{ id: number; secret: number }[]>`
        with s as (insert into secret default values returning id)
        insert into box (label, secret_id) select 'old', id from s returning id, secret_id as secret`;
      assert.ok(row);
      const send = (): Promise<Answer> => {
        const [method, path, body] = shape(row.id, row.secret);
        return request(service.base, path, {
          method,
          user: name,
          headers: homeOf(basic(name)),
          ...(body && { body }),
        });
      };
      const stored = async (): Promise<unknown> => sql`select *, xmin from box order by id`;
      const [{ password } = { password: '' }] = await sql<{ password: string }[]>`
        select password from "user" where id = ${id}`;
      const other = await cheapHash('another');
      for (const [changed, after] of [
        [{ active: false }, 401],
        [{ password: other }, 401],
        [{ username: `${name}x` }, 401],
        [{ admin: false }, 403],
      ] as const) {
        await write(service.base, basic(name)); // now it is remembered
        const before = await stored();
        await sql`update "user" set ${sql(changed)} where id = ${id}`;
        const answer = await send();
        if (after === 401) assertUnauthorized(answer);
        else assertProblem(answer, after);
        assert.deepEqual(await stored(), before, JSON.stringify(changed));
        await sql`update "user" set username = ${name}, password = ${password}, active = true, admin = true
          where id = ${id}`;
      }
      assert.equal((await write(service.base, basic(name))).status, 201);
      const { status } = await send();
      assert.equal(status >= 400, /faulty|nothing$|no record/.test(kind) && !/of nothing/.test(kind), kind);
    });
  }

  test('a user keeps access after unrelated changes', async () => {
    const authorization = await newAdmin('harmless');
    await service.sql`update "user" set email = 'elsewhere' where username = 'harmless'`;
    for (const base of bases) assert.equal((await write(base, authorization)).status, 201);
    // The same password with a new hash, as another service could store it.
    await service.sql`update "user" set password = ${await cheapHash('pw-harmless')} where username = 'harmless'`;
    for (const base of bases) assert.equal((await write(base, authorization)).status, 201);
  });

  test('a new user with the name of a deleted one does not have the old password', async () => {
    const authorization = await newAdmin('taken');
    await service.sql`delete from "user" where username = 'taken'`;
    await service.sql`insert into "user" ${service.sql({ username: 'taken', password: await cheapHash('x'), email: '', admin: true })}`;
    for (const base of bases) assertUnauthorized(await write(base, authorization));
  });

  test('a user who becomes an admin may write with the next request', async () => {
    await service.addUser('rising');
    for (const base of bases) assertProblem(await write(base, basic('rising')), 403);
    await put(bases[0] ?? '', 'rising', { admin: true });
    for (const base of bases) assert.equal((await write(base, basic('rising'))).status, 201);
  });

  test('many concurrent requests with the same credentials all succeed', async () => {
    await service.addUser('busy', { admin: true });
    const answers = await Promise.all(Array.from({ length: 100 }, () => write(service.base, basic('busy'))));
    assert.deepEqual([...new Set(answers.map(({ status }) => status))], [201]);
  });

  for (const [kind, changed] of CHANGES)
    test(`a write of a user who has changed does not wait for a locked record: ${kind}`, async () => {
      const name = kind.replace(/ .*/, '');
      const id = await service.addUser(name);
      const { json } = await service.request('/api/guarded/', {
        method: 'POST',
        user: name,
        body: { name: 'contested' },
      });
      const path = `/api/guarded/${json.id}/`;
      await service.sql.begin(async (transaction) => {
        await transaction`select from guarded for update`;
        await service.sql`update "user" set ${service.sql(changed)} where id = ${id}`;
        const answers = [
          await service.request(path, { method: 'PUT', user: name, body: { name: 'mine' } }),
          await service.request(path, { method: 'DELETE', user: name }),
        ];
        for (const answer of answers) assertUnauthorized(answer);
        const waiting = await service.sql`select from pg_stat_activity
          where datname = current_database() and application_name = 'vitrine' and wait_event_type = 'Lock'`;
        assert.equal(waiting.length, 0);
      });
      const [row] = await service.sql`select name from guarded where id = ${json.id}`;
      assert.equal(row?.['name'], 'contested');
    });

  for (const [kind, changed] of CHANGES)
    test(`changes nothing if the user changes while the body arrives: ${kind}`, async () => {
      const name = `slow and ${kind}`;
      const id = await service.addUser(name);
      const body = JSON.stringify({ name });
      const connection = wire(service);
      const headers = {
        authorization: basic(name),
        'content-type': 'application/json',
        'content-length': String(body.length),
      };
      await untilRun(service, '"user"', () =>
        connection.send(requestText('POST', '/api/guarded/', headers, body.slice(0, 5))),
      );
      await service.sql`update "user" set ${service.sql(changed)} where id = ${id}`;
      connection.send(body.slice(5));
      assert.equal((await connection.next())?.status, 401);
      connection.destroy();
      assert.equal((await service.sql`select from guarded where name = ${name}`).length, 0);
    });

  test('a write is done if the user stays the same while the body arrives, and a missing record is 404', async () => {
    const body = JSON.stringify({ name: 'x' });
    for (const [method, path, status] of [
      ['PUT', '/api/guarded/999999/', 404],
      ['POST', '/api/guarded/', 201],
    ] as const) {
      await service.addUser(`steady ${method}`);
      const connection = wire(service);
      const headers = {
        authorization: basic(`steady ${method}`),
        'content-type': 'application/json',
        'content-length': String(body.length),
      };
      await untilRun(service, '"user"', () =>
        connection.send(requestText(method, path, headers, body.slice(0, 5))),
      );
      connection.send(body.slice(5));
      assert.equal((await connection.next())?.status, status);
      connection.destroy();
    }
  });
});

test('credentials are remembered for a few minutes after their last use, and not much longer', async () => {
  const passTime = stopClock();
  const service = await startService([user, note]);
  try {
    const names = ['ann', 'bea'];
    for (const name of names) await service.addUser(name);
    const write = (name: string, password?: string): Promise<Answer> =>
      service.request('/api/note/', {
        method: 'POST',
        headers: { authorization: basic(name, password) },
        body: { message: 'x' },
      });
    for (const name of names) assert.equal((await write(name)).status, 201);
    passTime(2 * 60_000);
    assert.equal((await write('ann')).status, 201);
    passTime(10 * 60_000);
    for (let index = 0; index < 10; index += 1) assertUnauthorized(await write('bea', `wrong ${index}`));
    // Only remembered credentials would be accepted now.
    for (const name of names) assertProblem(await write(name), 429);
    passTime(60_000);
    assert.equal((await write('ann')).status, 201);
    await service.sql`update "user" set password = ${await cheapHash('new')} where username = 'bea'`;
    assert.equal((await write('bea', 'new')).status, 201);
  } finally {
    mock.restoreAll();
    await service.close();
  }
});
