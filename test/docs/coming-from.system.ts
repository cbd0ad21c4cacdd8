// docs/coming-from.md: the task of the page as Vitrine does it, and the users who come along from Django.
import assert from 'node:assert/strict';
import { hash } from '@node-rs/argon2';
import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { DEFAULTS } from '../../src/config.ts';
import { loadRegistryFile } from '../../src/resources/load-registry.ts';
import { requireRegistry } from '../../src/service.ts';
import { folderWith } from '../process/support.ts';
import { basic, cheapHash, commandPath, startService, type TestService } from '../support.ts';
import { codeBlocks, examplesOf, sameBody } from './pages.ts';
import { after, before, describe, test } from 'node:test';

const PAGE = 'docs/coming-from.md';
const ADDRESS = 'http://127.0.0.1:8000';

describe(PAGE, () => {
  const [records = ''] = codeBlocks(PAGE, 'sql').filter((code) => code.startsWith('insert into author'));
  const [users = ''] = codeBlocks(PAGE, 'sql').filter((code) => code.startsWith('insert into "user"'));
  let service: TestService;

  before(async () => {
    const [code = ''] = codeBlocks(PAGE, 'ts');
    const folder = await folderWith({ 'resources.ts': code });
    const { registry } = await loadRegistryFile(join(folder, 'resources.ts'));
    service = await startService(requireRegistry(registry, DEFAULTS));
    for (const username of ['ada', 'bob']) {
      const password = await cheapHash(`pw-${username}`);
      await service.sql`insert into "user" (username, password) values (${username}, ${password})`;
    }
    await service.sql.unsafe(records).simple();
  });
  after(() => service.close());

  const examples = codeBlocks(PAGE, 'session').flatMap(examplesOf);
  assert.ok(examples.length >= 5);
  for (const { command, shown } of examples) {
    test(command, async () => {
      const line = command.replaceAll(ADDRESS, service.base).replaceAll('bob:PASSWORD', 'bob:pw-bob');
      const env = { PATH: commandPath(), HOME: '/', NO_PROXY: '*' };
      const { stdout } = await promisify(execFile)('sh', ['-c', line], { env });
      sameBody(stdout, shown);
    });
  }

  /** How the write of a user who may not write authors is answered: 403 where the login is right. */
  const statusOf = async (name: string): Promise<number> => {
    const headers = { authorization: basic(name) };
    const answer = await service.request('/api/author/', { method: 'POST', headers, body: { name: 'x' } });
    return answer.status;
  };

  test('users of Django keep passwords that it has hashed with Argon2, and no others', async () => {
    const options = { memoryCost: 8, timeCost: 1, parallelism: 1 };
    const known: Readonly<Record<string, string>> = {
      carol: `argon2${await hash('pw-carol', { ...options, algorithm: 2 })}`,
      dan: `argon2${await hash('pw-dan', { ...options, algorithm: 1 })}`,
      dora: `argon2${await hash('pw-dora', { ...options, algorithm: 0 })}`,
      erin: 'pbkdf2_sha256$1000000$c2FsdA$aGFzaA==',
    };
    await service.sql.unsafe(
      'create table auth_user (username text, password text, is_active boolean, is_superuser boolean)',
    );
    for (const [name, password] of Object.entries(known))
      await service.sql`insert into auth_user values (${name}, ${password}, true, false)`;
    await service.sql.unsafe(users);
    const statuses = await Promise.all(Object.keys(known).map(statusOf));
    assert.deepEqual(statuses, [403, 403, 403, 401]);
  });

  test("PostgREST's policies do what the page says of them", async () => {
    const [code = ''] = codeBlocks(PAGE, 'sql').filter((text) => text.startsWith('create table api.'));
    const undone = new Error('all of it is rolled back: roles belong to the whole server');
    const work = service.sql.begin(async (sql) => {
      const login = (name: string) =>
        sql`select set_config('request.jwt.claims', ${`{"sub": "${name}"}`}, true)`;
      await sql.unsafe(`create schema api; create role anon; create role member; ${code}`).simple();
      await sql
        .unsafe("insert into api.author (name) values ('Ada Lovelace'); set local role member")
        .simple();
      await login('ada');
      await sql.unsafe("insert into api.book (title, author_id) values ('Notes', 1)");
      await login('bob');
      const book = { title: 'Mine', author_id: 1 };
      const refused = await sql`update api.book set ${sql({ title: 'Mine' })} where id = 1`;
      await sql`insert into api.book ${sql(book)}`;
      const changed = await sql`update api.book set ${sql({ title: 'More' })} where id = 2`;
      assert.deepEqual([refused.count, changed.count], [0, 1]);
      const owners = await sql`select owner from api.book order by id`;
      assert.deepEqual(
        owners.map(({ owner }) => String(owner)),
        ['ada', 'bob'],
      );
      throw undone;
    });
    await assert.rejects(work, undone);
  });
});
