import { hash } from '@node-rs/argon2';
import assert from 'node:assert/strict';
import { note, user } from '../../src/resources/registry.ts';
import { CURRENT_COSTS } from '../../src/resources/users/password-hashing.ts';
import { logIn } from '../admin/support.ts';
import { closedAfter, basic, startService, type Answer, hashAt, REAL_COSTS } from '../support.ts';
import { assertUnauthorized, fromNewAddress } from './expect.ts';
import { test } from 'node:test';

hashAt(REAL_COSTS);

const OTHER = { ...CURRENT_COSTS, memoryCost: 64, timeCost: 1 };

test('a login replaces a hash with other costs, ends no session, and is not in the history', async (t) => {
  const service = closedAfter(t, await startService([user, note], { trustProxy: 1 }));
  const id = await service.addUser('ada', { admin: true, password: await hash('pw-ada', OTHER) });
  const stored = async (): Promise<string> => {
    const [row] = await service.sql`select password from "user" where id = ${id}`;
    return String(row?.['password']);
  };
  const write = (password = 'pw-ada', headers = fromNewAddress()): Promise<Answer> =>
    service.request('/api/note/', {
      method: 'POST',
      headers: { authorization: basic('ada', password), ...headers },
      body: { message: 'x' },
    });
  const before = await stored();
  assertUnauthorized(await write('wrong'));
  assert.equal(await stored(), before, 'a wrong password replaces nothing');
  const first = await logIn(service, 'ada');
  const now = await stored();
  assert.match(now, /^\$argon2id\$v=19\$m=19456,t=2,p=1\$/);
  assert.equal((await first.get('/admin/')).status, 200);

  // As after a restart with other costs: two sessions are open, and the user logs in again.
  await service.sql`update "user" set password = ${before}`;
  await service.sql`update vitrine_session set password_mark = encode(sha256(${before}::bytea), 'hex')`;
  const home = fromNewAddress();
  assert.equal((await write('pw-ada', home)).status, 201);
  assert.notEqual(await stored(), before);
  assert.equal((await first.get('/admin/')).status, 200);
  assert.equal((await write('pw-ada', home)).status, 201);
  assert.equal(await stored(), await stored());
  const [changes] = await service.sql`select count(*)::int from vitrine_history where model = 'user'`;
  assert.equal(changes?.['count'], 0);
});

test('a session ends when the password changes', async (t) => {
  const service = closedAfter(t, await startService([user, note]));
  await service.addUser('ada', { admin: true });
  const browser = await logIn(service, 'ada');
  await service.sql`update "user" set password = ${await hash('other', OTHER)}`;
  const answer = await service.request('/api/note/', {
    method: 'POST',
    headers: { authorization: basic('ada', 'other') },
    body: { message: 'x' },
  });
  assert.equal(answer.status, 201);
  assert.equal((await browser.get('/admin/')).status, 303);
});

test('a login works even if the database refuses to change the hash', async (t) => {
  const service = closedAfter(t, await startService([user, note]));
  await service.addUser('ada', { password: await hash('pw-ada', OTHER) });
  await service.sql.unsafe(`
      create function refuse() returns trigger language plpgsql as $$ begin raise 'no'; end $$;
      create trigger refuse before update on "user" for each row execute function refuse()`);
  const answer = await service.request('/api/note/', {
    method: 'POST',
    user: 'ada',
    body: { message: 'x' },
  });
  assert.equal(answer.status, 201);
});
