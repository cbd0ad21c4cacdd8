import { hash, verify } from '@node-rs/argon2';
import assert from 'node:assert/strict';
import { EMPTY } from '../../src/db/fragment.ts';
import { Problem } from '../../src/errors.ts';
import { createAuthentication, type Authentication } from '../../src/http/auth/authentication.ts';
import { Unauthorized } from '../../src/http/message/message.ts';
import { createThrottle } from '../../src/http/auth/login-throttle.ts';
import { createPasswords, type Passwords } from '../../src/resources/users/password-hashing.ts';
import type { Users } from '../../src/resources/users/users.ts';
import { basic, cheapHash, hashAt, REAL_COSTS } from '../support.ts';
import { describe, test } from 'node:test';

hashAt(REAL_COSTS);

/**
 * The outcome of a promise that settles without leaving JavaScript, or else `undefined`. Another thread computes a hash, and its
 * result comes with a later turn of the event loop. So a promise with an outcome has computed no hash.
 */
async function immediateOutcome(
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

/** The real password hashing, after its initial computations. */
async function readyPasswords(): Promise<Passwords> {
  const passwords = createPasswords();
  await passwords.verify(undefined, 'x');
  return passwords;
}

describe('a verification', () => {
  test('computes a hash for a missing user, and for a stored password that is not a hash', async () => {
    const passwords = await readyPasswords();
    for (const stored of [undefined, '', 'plain', '$2b$10$abcdefghijklmnopqrstuv']) {
      const verified = passwords.verify(stored, 'x');
      assert.equal(await immediateOutcome(verified), undefined, String(stored));
      assert.equal(await verified, false);
    }
  });

  test('costs the same processor time for all who fail', async () => {
    const passwords = await readyPasswords();
    const kinds = {
      nobody: [undefined, true],
      current: [await passwords.hash('right'), true],
      broken: ['$argon2id$v=19$broken', true],
      inactive: [await passwords.hash('wrong'), false],
    } as const;
    // The second one has another form in NFKC, which is verified, too.
    for (const password of ['wrong', 'wro\u0301ng']) {
      const work = new Map<string, number>();
      for (let round = 0; round < 10; round += 1) {
        for (const [kind, [stored, isUsable]] of Object.entries(kinds)) {
          const before = process.cpuUsage();
          assert.equal(await passwords.verify(stored, password, { admit: () => isUsable }), false);
          const { user, system } = process.cpuUsage(before);
          work.set(kind, Math.min(work.get(kind) ?? Infinity, user + system));
        }
      }
      // This is the least processor time of several tries, so the load of the machine does not matter.
      const all = [...work.values()];
      assert.ok(Math.max(...all) < 1.6 * Math.min(...all), JSON.stringify([...work]));
    }
  });

  test('computes no hash for an attempt that is refused when its turn comes', async () => {
    const passwords = await readyPasswords();
    const stored = await hash('right');
    const away = new Error('not you');
    const refuse = (): never => {
      throw away;
    };
    for (const each of [stored, undefined])
      assert.deepEqual(await immediateOutcome(passwords.verify(each, 'right', { admit: refuse })), {
        error: away,
      });
    assert.equal(await passwords.verify(stored, 'right'), true);
  });
});

test('too many new hashes at once get 503, and the others are computed', async () => {
  const passwords = await readyPasswords();
  const ends = await Promise.allSettled(
    Array.from({ length: 1_100 }, (_, index) => passwords.hash(`${index}`)),
  );
  const made = ends.flatMap((end, index) =>
    end.status === 'fulfilled' ? [[end.value, index] as const] : [],
  );
  assert.ok(made.length > 0 && made.length < 1_100);
  const [[first, index] = ['', 0]] = made;
  assert.equal(await verify(first, `${index}`), true);
  for (const end of ends)
    if (end.status === 'rejected') assert.ok(end.reason instanceof Problem && end.reason.status === 503);
});

test('a login with a malformed argon2 hash costs as much as any other', async () => {
  const passwords = createPasswords();
  await passwords.verify(undefined, 'x');
  const cheap = await cheapHash('x');
  for (const stored of ['$argon2id$v=19$broken', '$argon2']) {
    let last = 0;
    for (let round = 0; round < 5; round += 1) {
      const ends: string[] = [];
      const end = (what: string) => (): unknown => ends.push(what);
      const broken = passwords.verify(stored, 'x').then((verified) => {
        assert.equal(verified, false);
        ends.push('broken');
      });
      const others = Array.from({ length: 10 }, () => verify(cheap, 'x').then(end('cheap')));
      await Promise.all([broken, ...others]);
      if (ends.at(-1) === 'broken') last += 1;
    }
    assert.ok(last >= 3, `${last} of 5 times`);
  }
});

describe('credentials of an unknown user', () => {
  const noUsers = { find: () => Promise.resolve(undefined) } as unknown as Users; // prettier-ignore
  const create = async (): Promise<Authentication> =>
    createAuthentication(noUsers, await readyPasswords(), createThrottle());

  test('cost a hash, also with a password that is too long to be verified', async () => {
    const { authenticate } = await create();
    for (const password of ['x'.repeat(1024), 'é'.repeat(512), 'x'.repeat(1025), 'é'.repeat(513)]) {
      const answer = authenticate(basic('ada', password), '192.0.2.1');
      const immediate = await immediateOutcome(answer);
      assert.equal(immediate, undefined, `${Buffer.byteLength(password)} bytes`);
      await assert.rejects(answer, Unauthorized);
    }
  });

  test('cost no hash after too many failures', async () => {
    const { authenticate } = await create();
    for (let index = 0; index < 10; index += 1)
      await assert.rejects(authenticate(basic('ada', `wrong ${index}`), '192.0.2.1'), Unauthorized);
    const immediate = await immediateOutcome(authenticate(basic('ada', 'wrong'), '192.0.2.1'));
    assert.ok(immediate?.error instanceof Problem && immediate.error.status === 429);
  });
});

test('credentials of an inactive user cost a hash, right or wrong', async () => {
  const row = { id: '1', name: 'ada', password: await hash('right'), active: false, admin: false };
  const users = { find: () => Promise.resolve(row) } as unknown as Users; // prettier-ignore
  const { authenticate } = createAuthentication(users, await readyPasswords(), createThrottle());
  for (const password of ['right', 'wrong']) {
    const answer = authenticate(basic('ada', password), '192.0.2.1');
    assert.equal(await immediateOutcome(answer), undefined, password);
    await assert.rejects(answer, Unauthorized);
  }
});

test('the lane of a login depends on logins of that user, not of a user with a similar name', async () => {
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
  } as unknown as Users;
  const passwords = createPasswords();
  const turns: unknown[] = [];
  const recording: Passwords = {
    ...passwords,
    verify(stored, password, how) {
      turns.push([how?.turn?.lane, how?.turn?.client.key]);
      return passwords.verify(stored, password, how);
    },
  };
  const { authenticate } = createAuthentication(users, recording, createThrottle());
  await authenticate(basic('Olga'), '192.0.2.1');
  const tries = [
    ['olga', '192.0.2.2', 'others', '192.0.2.2'],
    ['Olga', '192.0.2.2', 'others', '192.0.2.2'],
    ['nobody', '192.0.2.1', 'known', 'neighbor of id of Olga'],
    ['olga', '192.0.2.1', 'known', 'neighbor of id of Olga'],
    ['Olga', '192.0.2.1', 'known', 'id of Olga'],
  ] as const;
  turns.length = 0;
  for (const [name, address] of tries)
    await assert.rejects(authenticate(basic(name, 'wrong'), address), Unauthorized);
  assert.deepEqual(
    turns,
    tries.map(([, , lane, client]) => [lane, client]),
  );
});
