import { hash, verify } from '@node-rs/argon2';
import assert from 'node:assert/strict';
import { describe, mock, test } from 'node:test';
import { EMPTY } from '../../src/db/fragment.ts';
import { Problem } from '../../src/errors.ts';
import { createAuthentication, type Authentication } from '../../src/http/auth/authentication.ts';
import { Unauthorized } from '../../src/http/message/message.ts';
import { createThrottle } from '../../src/http/auth/login-throttle.ts';
import { note, user } from '../../src/resources/registry.ts';
import { createPasswords, type Passwords } from '../../src/resources/passwords/password-hashing.ts';
import type { Users } from '../../src/resources/users/users.ts';
import { basic, cheapHash, startService, type Answer } from '../support.ts';
import { assertProblem, assertUnauthorized } from '../http/expect.ts';

/**
 * How a promise ends that waits for nothing outside of JavaScript, or `undefined` where it does. A hash is computed by another
 * thread, whose result comes with a later turn of the event loop: what ends before that turn has spent none.
 */
async function outcomeAtOnce(
  promise: Promise<unknown>,
): Promise<{ value?: unknown; error?: unknown } | undefined> {
  let outcome: { value?: unknown; error?: unknown } | undefined;
  promise.then(
    (value) => (outcome = { value }),
    (error: unknown) => (outcome = { error }),
  );
  for (let turns = 0; turns < 100; turns += 1) await Promise.resolve();
  return outcome;
}

/** The real thing, with what it needs to begin with computed already. */
async function readyPasswords(): Promise<Passwords> {
  const passwords = createPasswords();
  await passwords.verify(undefined, 'x');
  return passwords;
}

describe('a verification', () => {
  test('is spent on a user who is not there, and on a stored password that is no hash', async () => {
    const passwords = await readyPasswords();
    for (const stored of [undefined, '', 'plain', '$2b$10$abcdefghijklmnopqrstuv']) {
      const verified = passwords.verify(stored, 'x');
      assert.equal(await outcomeAtOnce(verified), undefined, String(stored));
      assert.equal(await verified, false);
    }
  });

  test('of a user who is not there is as much work for the processor as a real one, and more than a cheap one', async () => {
    const passwords = await readyPasswords();
    const kinds = { nobody: undefined, real: await hash('right'), cheap: await cheapHash('x') };
    const work = { nobody: 0, real: 0, cheap: 0 };
    for (let round = 0; round < 5; round += 1) {
      for (const kind of ['nobody', 'real', 'cheap'] as const) {
        const before = process.cpuUsage();
        await passwords.verify(kinds[kind], 'wrong');
        const { user, system } = process.cpuUsage(before);
        work[kind] += user + system;
      }
    }
    // Whatever else the machine does: this is no time, but what was computed.
    assert.ok(work.nobody > work.real / 2 && work.nobody > 2 * work.cheap, JSON.stringify(work));
  });

  test('is not spent on a try that is turned away when its turn has come', async () => {
    const passwords = await readyPasswords();
    const stored = await hash('right');
    const away = new Error('not you');
    const refuse = (): void => {
      throw away;
    };
    for (const each of [stored, undefined])
      assert.deepEqual(await outcomeAtOnce(passwords.verify(each, 'right', { admit: refuse })), {
        error: away,
      });
    assert.equal(await passwords.verify(stored, 'right'), true);
  });

  test('that has waited a few seconds for its turn is given up with 503 and Retry-After', async () => {
    const passwords = await readyPasswords();
    const stored = await hash('right');
    mock.timers.enable({ apis: ['setTimeout'] });
    try {
      const all = Array.from({ length: 4 }, () => passwords.verify(stored, 'right'));
      const ends = Promise.allSettled(all);
      mock.timers.tick(10_000);
      const [first, second, ...late] = await ends;
      for (const end of [first, second]) assert.deepEqual(end, { status: 'fulfilled', value: true });
      for (const end of late) {
        assert.ok(end.status === 'rejected' && end.reason instanceof Problem);
        assert.equal(end.reason.status, 503);
        assert.match(end.reason.headers['Retry-After'] ?? '', /^[1-9]\d*$/);
      }
    } finally {
      mock.timers.reset();
    }
    assert.equal(await passwords.verify(stored, 'right'), true, 'and their places are free again');
  });
});

test('new hashes take their turns too: too many at once get 503, the others are computed', async () => {
  const passwords = await readyPasswords();
  const ends = await Promise.allSettled(Array.from({ length: 80 }, (_, index) => passwords.hash(`${index}`)));
  const made = ends.flatMap((end, index) =>
    end.status === 'fulfilled' ? [[end.value, index] as const] : [],
  );
  assert.ok(made.length > 0 && made.length < 80);
  const [[first, index] = ['', 0]] = made;
  assert.equal(await verify(first, `${index}`), true);
  for (const end of ends)
    if (end.status === 'rejected') assert.ok(end.reason instanceof Problem && end.reason.status === 503);
});

describe('credentials of nobody', () => {
  const nobody = { find: () => Promise.resolve(undefined), sampleCosts: () => Promise.resolve([]) } as unknown as Users; // prettier-ignore
  const create = async (): Promise<Authentication> =>
    createAuthentication(nobody, await readyPasswords(), createThrottle());

  test('cost a hash with a password of 1,024 bytes and none with a longer one', async () => {
    const { authenticate } = await create();
    for (const [password, isHashed] of [
      ['x'.repeat(1024), true],
      ['é'.repeat(512), true],
      ['x'.repeat(1025), false],
      ['é'.repeat(513), false],
    ] as const) {
      const answer = authenticate(basic('ada', password), '192.0.2.1');
      const atOnce = await outcomeAtOnce(answer);
      assert.equal(atOnce === undefined, isHashed, `${Buffer.byteLength(password)} bytes`);
      await assert.rejects(answer, Unauthorized);
    }
  });

  test('cost none once there were too many failures', async () => {
    const { authenticate } = await create();
    for (let index = 0; index < 10; index += 1)
      await assert.rejects(authenticate(basic('ada', `wrong ${index}`), '192.0.2.1'), Unauthorized);
    const atOnce = await outcomeAtOnce(authenticate(basic('ada', 'wrong'), '192.0.2.1'));
    assert.ok(atOnce?.error instanceof Problem && atOnce.error.status === 429);
  });
});

test('credentials of a user who is not active cost a hash, right or wrong', async () => {
  const row = { id: '1', name: 'ada', password: await hash('right'), active: false, admin: false };
  const users = { find: () => Promise.resolve(row), sampleCosts: () => Promise.resolve([]) } as unknown as Users; // prettier-ignore
  const { authenticate } = createAuthentication(users, await readyPasswords(), createThrottle());
  for (const password of ['right', 'wrong']) {
    const answer = authenticate(basic('ada', password), '192.0.2.1');
    assert.equal(await outcomeAtOnce(answer), undefined, password);
    await assert.rejects(answer, Unauthorized);
  }
});

test('the turn of a user depends on logins of that user, not of one with a similar name', async () => {
  const rows = await Promise.all(
    ['Olga', 'olga'].map(async (name) => {
      const password = await cheapHash(`pw-${name}`);
      return { id: `id of ${name}`, name, password, active: true, admin: false };
    }),
  );
  const users = {
    find: (name: string) => Promise.resolve(rows.find((row) => row.name === name)),
    precondition: () => EMPTY,
    rehash: () => Promise.resolve(false),
    sampleCosts: () => Promise.resolve([]),
  } as unknown as Users;
  const passwords = createPasswords();
  const turns: unknown[] = [];
  const recording: Passwords = {
    ...passwords,
    verify(stored, password, how) {
      turns.push([how?.priority, how?.client]);
      return passwords.verify(stored, password, how);
    },
  };
  const { authenticate } = createAuthentication(users, recording, createThrottle());
  await authenticate(basic('Olga'), '192.0.2.1');
  const tries = [
    ['olga', '192.0.2.2', 'stranger', '192.0.2.2'],
    ['Olga', '192.0.2.2', 'name', 'user id of Olga'],
    ['nobody', '192.0.2.1', 'address', 'neighbor of id of Olga'],
    ['olga', '192.0.2.1', 'address', 'neighbor of id of Olga'],
    ['Olga', '192.0.2.1', 'address', 'user id of Olga'],
  ] as const;
  turns.length = 0;
  for (const [name, address] of tries)
    await assert.rejects(authenticate(basic(name, 'wrong'), address), Unauthorized);
  assert.deepEqual(
    turns,
    tries.map(([, , standing, client]) => [standing, client]),
  );
});

test('tries that are under way count like failures until they end, and those that succeed do not', () => {
  const throttle = createThrottle();
  const isRefused = (): boolean => {
    try {
      throttle.begin('address', 'name')(false);
      return false;
    } catch (error) {
      assert.ok(error instanceof Problem && error.status === 429);
      return true;
    }
  };
  const ends = Array.from({ length: 10 }, () => throttle.begin('address', 'name'));
  assert.equal(isRefused(), true);
  ends.pop()?.(false);
  assert.equal(isRefused(), false);
  for (const end of ends) end(true);
  assert.equal(isRefused(), false, 'nine have failed');
  throttle.begin('address', 'name')(true);
  assert.equal(isRefused(), true);
});

test('credentials are remembered for a few minutes after their last use, and not much longer', async () => {
  mock.timers.enable({ apis: ['Date'], now: Date.now() });
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
    mock.timers.tick(2 * 60_000);
    assert.equal((await write('ann')).status, 201);
    mock.timers.tick(10 * 60_000);
    for (let index = 0; index < 10; index += 1) assertUnauthorized(await write('bea', `wrong ${index}`));
    // Only who is remembered would be let through now.
    for (const name of names) assertProblem(await write(name), 429);
    mock.timers.tick(60_000);
    assert.equal((await write('ann')).status, 201);
    await service.sql`update "user" set password = ${await cheapHash('new')} where username = 'bea'`;
    assert.equal((await write('bea', 'new')).status, 201);
  } finally {
    mock.timers.reset();
    await service.close();
  }
});
