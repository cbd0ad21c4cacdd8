import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { createVitrine, type Resource, type Vitrine } from '../../src/index.ts';
import { user } from '../../src/resources/registry.ts';
import { basic, cheapHash, request, startService, type Answer, type TestService } from '../support.ts';
import { assertProblem, assertUnauthorized, fromNewAddress } from './expect.ts';

const secret: Resource = { model: 'secret', columns: {}, access: 'admin' };
const registry = [user, secret];

describe('what is remembered of verified credentials', () => {
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

  const write = (base: string, authorization: string): Promise<Answer> =>
    request(base, '/api/secret/', {
      method: 'POST',
      headers: { authorization, ...fromNewAddress() },
      body: {},
    });

  /** An admin who is at work on both instances. */
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
    test(`${change} loses access with the very next request, on every instance`, async () => {
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

  test('a deleted user loses access, and so does one whose row was changed behind the service', async () => {
    const authorization = await newAdmin('deleted');
    await service.sql`delete from "user" where username = 'deleted'`;
    for (const base of bases) assertUnauthorized(await write(base, authorization));
    const changed = await newAdmin('changed');
    await service.sql`update "user" set active = false where username = 'changed'`;
    for (const base of bases) assertUnauthorized(await write(base, changed));
    await service.sql`update "user" set active = true where username = 'changed'`;
    for (const base of bases) assert.equal((await write(base, changed)).status, 201);
  });

  test('a name that another user takes over does not give them the old password', async () => {
    const authorization = await newAdmin('taken');
    await service.sql`delete from "user" where username = 'taken'`;
    await service.sql`insert into "user" ${service.sql({ username: 'taken', password: await cheapHash('x'), email: '', admin: true })}`;
    for (const base of bases) assertUnauthorized(await write(base, authorization));
  });

  test('a user who is made an admin may write with the next request', async () => {
    await service.addUser('rising');
    for (const base of bases) assertProblem(await write(base, basic('rising')), 403);
    await put(bases[0] ?? '', 'rising', { admin: true });
    for (const base of bases) assert.equal((await write(base, basic('rising'))).status, 201);
  });

  test('many requests that come at once with the same credentials all succeed', async () => {
    await service.addUser('busy', { admin: true });
    const answers = await Promise.all(Array.from({ length: 100 }, () => write(service.base, basic('busy'))));
    assert.deepEqual([...new Set(answers.map(({ status }) => status))], [201]);
  });
});
