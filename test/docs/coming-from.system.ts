// docs/coming-from.md: the users who come along from Django.
import assert from 'node:assert/strict';
import { hash } from '@node-rs/argon2';
import type { Resource } from '../../src/index.ts';
import { basic, useService } from '../support.ts';
import { codeBlocks } from './pages.ts';
import { test } from 'node:test';
import { LOGIN_COLUMNS } from '../login-columns.ts';

const RESOURCES = [
  {
    model: 'user',
    columns: LOGIN_COLUMNS,
    read: 'admin',
    exclude: ['password'],
  },
  { model: 'author', columns: { name: { type: 'string' } }, access: 'admin' },
] satisfies Resource[];

const service = useService(RESOURCES);

/** How the write of a user who may not write authors is answered: 403 where the login is right. */
const statusOf = async (name: string): Promise<number> => {
  const headers = { authorization: basic(name) };
  const answer = await service.request('/api/author/', { method: 'POST', headers, body: { name: 'x' } });
  return answer.status;
};

test('users of Django keep passwords that it has hashed with Argon2, and no others', async () => {
  const [users = ''] = codeBlocks('docs/coming-from.md', 'sql');
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
