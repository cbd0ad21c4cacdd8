import assert from 'node:assert/strict';
import { after, before, describe, mock, test } from 'node:test';
import { type Resource } from '../../src/index.ts';
import { note, user } from '../../src/resources/registry.ts';
import {
  type Answer,
  basic,
  cheapHash,
  closedAfter,
  request,
  startService,
  type TestService,
  untilRun,
  useService,
  pluck,
  waitingForLocks,
  startBeside,
} from '../support.ts';
import { assertProblem, assertUnauthorized, fromNewAddress, stopClock } from './expect.ts';
import { requestText, wire } from './wire.ts';

const passTime = stopClock();

const secret: Resource = { model: 'secret', columns: {}, access: 'admin', read: 'user' };
const clue: Resource = { model: 'clue', columns: { secret: { type: 'foreignKey', references: 'secret' } } };

function assertThrottled(answer: Answer): void {
  assertProblem(answer, 429);
  const seconds = answer.headers.get('retry-after') ?? '';
  assert.match(seconds, /^[1-9]\d?$/);
  assert.ok(Number(seconds) <= 60);
}

describe('failed logins', () => {
  const service: TestService = useService([user, note, secret, clue], { trustProxy: 1 });

  const write = (name: string, password: string, forwarded: string | undefined): Promise<Answer> =>
    service.request('/api/note/', {
      method: 'POST',
      headers: {
        authorization: basic(name, password),
        ...(forwarded === undefined ? {} : { 'x-forwarded-for': forwarded }),
      },
      body: { message: 'x' },
    });

  /** Fails this many times, one after the other. */
  async function fail(times: number, name: string, address: () => string | undefined): Promise<void> {
    for (let index = 0; index < times; index += 1)
      assertUnauthorized(await write(name, `wrong ${index}`, address()));
  }
  const newAddress = (): string => fromNewAddress()['x-forwarded-for'] ?? '';

  test('the first ten from an address in a minute are 401, and further logins from it are 429', async () => {
    await service.addUser('ann');
    await service.addUser('anton');
    await fail(10, 'ann', () => '192.0.2.1');
    assertThrottled(await write('ann', 'wrong', '192.0.2.1'));
    assertThrottled(await write('ann', 'pw-ann', '192.0.2.1'));
    assertThrottled(await write('anton', 'pw-anton', '192.0.2.1'));
    assertThrottled(await write('unknown', 'x', '192.0.2.1'));
    assert.equal((await write('ann', 'pw-ann', '192.0.2.2')).status, 201);
  });

  test('requests that need or send no credentials are not throttled, and no failures', async () => {
    const from = { 'x-forwarded-for': '192.0.2.10' };
    const anonymous = { method: 'POST', headers: from, body: {} };
    await service.addUser('bea');
    for (let index = 0; index < 15; index += 1)
      assertUnauthorized(await service.request('/api/note/', anonymous));
    assert.equal((await write('bea', 'pw-bea', '192.0.2.10')).status, 201);
    await fail(10, 'bea', () => from['x-forwarded-for']);
    assert.equal((await service.request('/api/note/', { user: 'unknown', headers: from })).status, 200);
    assertUnauthorized(await service.request('/api/note/', anonymous));
  });

  test('wrong credentials do not count on a page for browsers that needs none', async () => {
    await service.addUser('mia');
    await service.sql`insert into note (message) values ('x')`;
    await service.sql`with made as (insert into secret default values returning id)
      insert into clue (secret_id) select id from made`;
    const get = async (path: string, name: string, password: string, address: string): Promise<Answer> =>
      service.request(path, {
        headers: { accept: 'text/html', authorization: basic(name, password), 'x-forwarded-for': address },
      });
    const [{ id } = {}] = await service.sql<{ id: number }[]>`select id from note`;
    const [{ id: clueId } = {}] = await service.sql<{ id: number }[]>`select id from clue`;
    for (const path of ['/api/', '/api/note/', `/api/note/${id}/`, '/api/clue/', `/api/clue/${clueId}/`])
      for (let index = 0; index < 11; index += 1)
        assert.equal((await get(path, 'mia', `wrong ${index}`, '192.0.2.50')).status, 200);
    assert.equal((await write('mia', 'pw-mia', '192.0.2.50')).status, 201);
  });

  test('a page for browsers whose query needs credentials counts wrong ones once', async () => {
    await service.addUser('nora');
    const get = (password: string): Promise<Answer> =>
      service.request('/api/clue/?secret__id=1', {
        headers: {
          accept: 'text/html',
          authorization: basic('nora', password),
          'x-forwarded-for': '192.0.2.53',
        },
      });
    for (let index = 0; index < 10; index += 1) assert.equal((await get(`wrong ${index}`)).status, 401);
    assert.equal((await get('pw-nora')).status, 429);
  });

  test('a right password is no failure, and does not reset the count', async () => {
    await service.addUser('dora');
    await service.addUser('dan');
    for (let index = 0; index < 15; index += 1)
      assert.equal((await write('dora', 'pw-dora', '192.0.2.30')).status, 201);
    await fail(9, 'dora', () => '192.0.2.30');
    assert.equal((await write('dan', 'pw-dan', '192.0.2.30')).status, 201);
    await fail(1, 'dora', () => '192.0.2.30');
    assertThrottled(await write('dora', 'wrong', '192.0.2.30'));
  });

  test('recently verified credentials still work, and other credentials of the user do not', async () => {
    await service.addUser('eli');
    assert.equal((await write('eli', 'pw-eli', '192.0.2.40')).status, 201);
    await fail(10, 'eli', () => '192.0.2.40');
    assert.equal((await write('eli', 'pw-eli', '192.0.2.40')).status, 201);
    const read = { user: 'eli', headers: { 'x-forwarded-for': '192.0.2.40' } };
    assert.equal((await service.request('/api/secret/', read)).status, 200);
    assertThrottled(await write('eli', 'wrong', '192.0.2.40'));
    await service.sql`update "user" set password = ${await cheapHash('new')} where username = 'eli'`;
    assertThrottled(await write('eli', 'pw-eli', '192.0.2.40'));
    assertThrottled(await write('eli', 'new', '192.0.2.40'));
  });

  test('the first fifty for a name are 401, then 429 except from addresses where its user has logged in', async () => {
    await service.addUser('fay');
    await service.addUser('finn');
    assert.equal((await write('fay', 'pw-fay', '192.0.2.50')).status, 201);
    await fail(50, 'fay', newAddress);
    assertThrottled(await write('fay', 'wrong', newAddress()));
    assertThrottled(await write('fay', 'guess', newAddress()));
    assertThrottled(await write('fay', 'pw-fay', newAddress()));
    assert.equal((await write('fay', 'pw-fay', '192.0.2.50')).status, 201);
    assert.equal((await write('finn', 'pw-finn', newAddress())).status, 201);
  });

  /** Spellings of a name in different cases: the bits of the index select the capital letters. */
  const spelled = (name: string, index: number): string =>
    [...name].map((letter, at) => ((index >> at) & 1 ? letter.toUpperCase() : letter)).join('');

  for (const [name, isKnown] of [
    ['gertie', true],
    ['nobody', false],
  ] as const) {
    test(`spellings of ${isKnown ? 'an existing' : 'an unknown'} name count together`, async () => {
      if (isKnown) await service.addUser(name);
      for (let index = 0; index < 50; index += 1)
        assertUnauthorized(await write(spelled(name, index), 'wrong', newAddress()));
      for (const spelling of [name, name.toUpperCase(), ` ${name}`, name.replace('e', 'é').replace('o', 'ö')])
        assertThrottled(await write(spelling, 'wrong', newAddress()));
      assertUnauthorized(await write(`${name}s`, 'wrong', newAddress()));
    });
  }

  describe('with a collation that ignores characters', () => {
    let isAvailable = false;
    before(async () => {
      const icu = await service.sql`select from pg_collation where collprovider = 'i'`;
      isAvailable = icu.length > 0;
      if (!isAvailable) return; // this server has no ICU
      await service.sql.unsafe(`
        create collation loose (provider = icu, locale = 'und-u-ka-shifted', deterministic = false);
        alter table "user" alter username type varchar(255) collate loose`);
      for (const name of ['hedwig', 'jane', 'kurt', 'lena']) await service.addUser(name);
    });

    test('failures under other spellings of a user count for the user, for whom no password is right then', async () => {
      if (!isAvailable) return;
      const home = newAddress();
      assert.equal((await write('hed-wig', 'pw-hedwig', home)).status, 201);
      assert.equal((await write('h.edwig', 'pw-hedwig', newAddress())).status, 201);
      for (let count = 1; count <= 50; count += 1)
        assertUnauthorized(await write(`hedwig${'-'.repeat(count)}`, 'wrong', newAddress()));
      for (const spelling of ['hedwig', 'hed.wig', 'h-edwig'])
        assertUnauthorized(await write(spelling, 'pw-hedwig', newAddress()));
      assert.equal((await write('hed-wig', 'pw-hedwig', home)).status, 201);
    });

    const INVISIBLE = ['\u00ad', '\u200b', '\u2060', '\ufeff', '\u034f', '\ufe0f', '\u{e0041}', '\u0001'];
    const spellings: readonly [what: string, name: string, missing: string, first: string[], next: string[]][] = [
      ['invisible characters', 'jane', 'joan', ['@'], INVISIBLE.map((character) => `${character}@`)],
      ['punctuation', 'kurt', 'karl', ['@'], ['-@', '@.', '*@']],
      ['punctuation, different each time,', 'lena', 'lisa', ['-', '--', '*', '.', '._'].map((mark) => `@${mark}`), ['@', '_@']],
    ]; // prettier-ignore
    for (const [what, name, missing, first, next] of spellings)
      test(`names with ${what} get the same answers whether a user has the name or not`, async () => {
        if (!isAvailable) return;
        const statuses = async (of: string): Promise<number[]> => {
          const answers: number[] = [];
          /** The marks stand around the second half of the name. */
          const attempt = async (spelling: string): Promise<unknown> =>
            answers.push(
              (await write(of.slice(0, 2) + spelling.replace('@', of.slice(2)), 'wrong', newAddress()))
                .status,
            );
          for (let count = 0; count < 50; count += 1) await attempt(first[count % first.length] ?? '');
          for (const spelling of next) await attempt(spelling);
          return answers;
        };
        assert.deepEqual(await statuses(name), await statuses(missing));
      });
  });

  test('attempts with a 429 do not count, neither for the address nor for the name', async () => {
    await service.addUser('gus');
    await service.addUser('gwen');
    await fail(10, 'gwen', () => '192.0.2.60');
    for (let index = 0; index < 60; index += 1)
      assertThrottled(await write('gus', `wrong ${index}`, '192.0.2.60'));
    assertUnauthorized(await write('gus', 'wrong', newAddress()));
    assert.equal((await write('gus', 'pw-gus', newAddress())).status, 201);
  });

  test('concurrent attempts do not exceed the limit', async () => {
    await service.addUser('hal');
    const answers = await Promise.all(
      Array.from({ length: 40 }, (_, index) => write('hal', `wrong ${index}`, '192.0.2.70')),
    );
    assert.equal(answers.filter(({ status }) => status === 401).length, 10);
    assert.equal(answers.filter(({ status }) => status === 429).length, 30);
  });

  test('credentials that no user can have count like all others', async () => {
    const impossible: readonly [name: string, password: string][] = [
      ['unknown', 'x'.repeat(1025)],
      ['ann', 'é'.repeat(513)],
      ['n'.repeat(1025), 'x'],
    ];
    for (const [index, [name, password]] of impossible.entries()) {
      const address = `192.0.2.${80 + index}`;
      for (let count = 0; count < 10; count += 1)
        assertUnauthorized(await write(name, `${password}${count}`, address));
      assertThrottled(await write(name, password, address));
      assertThrottled(await write('someone', 'x', address));
    }
    for (let count = 0; count < 50; count += 1)
      assertUnauthorized(await write('otto', 'x'.repeat(1025), newAddress()));
    assertThrottled(await write('otto', 'x', newAddress()));
  });

  const addresses: readonly [
    name: string,
    first: string | undefined,
    second: string | undefined,
    same: boolean,
  ][] = [
    [
      'different entries of the client and one of the proxy',
      '198.51.100.1, 203.0.113.1',
      '198.51.100.2, 203.0.113.1',
      true,
    ],
    [
      'one entry of the client and different ones of the proxy',
      '198.51.100.1, 203.0.113.2',
      '198.51.100.1, 203.0.113.3',
      false,
    ],
    ['an IPv4 address and its IPv6 form', '203.0.113.4', '::ffff:203.0.113.4', true],
    ['an IPv4 address and its IPv6 form in hexadecimal', '203.0.113.9', '::ffff:cb00:7109', true],
    ['an IPv4 address and its full IPv6 form', '203.0.113.10', '0:0:0:0:0:FFFF:CB00:710A', true],
    ['the IPv6 forms of two IPv4 addresses', '::ffff:cb00:710b', '::ffff:cb00:710c', false],
    ['an IPv4 address and its NAT64 form', '203.0.113.13', '64:ff9b::203.0.113.13', true],
    ['two hosts of one IPv6 network', '2001:db8:1:1::1', '2001:0DB8:1:1:ffff::2', true],
    ['hosts of two IPv6 networks', '2001:db8:2:2::1', '2001:db8:2:3::1', false],
    ['two ports of an IPv4 address', '203.0.113.5:4000', '203.0.113.5:4001', true],
    ['an IPv4 address with and without a port', '203.0.113.6:4000', '203.0.113.6', true],
    ['two ports of an IPv6 address', '[2001:db8:3:4::1]:4000', '[2001:db8:3:4::1]:4001', true],
    ['two addresses of an IPv6 network, one in brackets', '[2001:db8:4:5::1]', '2001:db8:4:5::2', true],
    ['two IPv4 addresses with the same port', '203.0.113.7:4000', '203.0.113.8:4000', false],
    ['two entries that are no addresses', 'unknown', '203.0.113.300:4000', true],
  ];
  for (const [name, first, second, same] of addresses) {
    test(`behind one proxy, ${name} count as ${same ? 'one client' : 'two clients'}`, async () => {
      await service.addUser(name);
      await fail(10, name, () => first);
      const answer = await write(name, 'wrong', second);
      if (same) assertThrottled(answer);
      else assertUnauthorized(answer);
    });
  }

  test('an active client is never locked out while others fail with its name', async () => {
    await service.addUser('ada');
    const home = newAddress();
    assert.equal((await write('ada', 'pw-ada', home)).status, 201);
    // After 20 minutes its credentials are no longer remembered, but its address is.
    for (const minutes of [2, 2, 20]) {
      passTime(minutes * 60_000);
      await fail(50, 'ada', newAddress);
      assertThrottled(await write('ada', 'wrong', newAddress()));
      assert.equal((await write('ada', 'pw-ada', home)).status, 201, `after ${minutes} minutes`);
    }
  });
});

for (const [trustProxy, first, second, same] of [
  [0, '203.0.113.1', '203.0.113.2', true],
  [2, '203.0.113.1, 10.0.0.1', '203.0.113.1, 10.0.0.2', true],
  [2, '203.0.113.1, 10.0.0.1', '203.0.113.2, 10.0.0.1', false],
] as const) {
  test(`with TRUST_PROXY=${trustProxy}, ${first} and ${second} are ${same ? 'one client' : 'two clients'}`, async (t) => {
    const service = closedAfter(t, await startService([user, note], { trustProxy }));
    await service.addUser('ann');
    const write = (index: number, forwarded: string): Promise<Answer> =>
      service.request('/api/note/', {
        method: 'POST',
        headers: { authorization: basic('ann', `${index}`), 'x-forwarded-for': forwarded },
      });
    for (let index = 0; index < 10; index += 1) assertUnauthorized(await write(index, first));
    const answer = await write(10, second);
    if (same) assertThrottled(answer);
    else assertUnauthorized(answer);
  });
}

test('the system clock that steps back extends no lock-out', async () => {
  mock.timers.enable({ apis: ['Date'], now: Date.now() + 60 * 60_000 });
  const service = await startService([user, note], { trustProxy: 1 });
  try {
    const headers = { authorization: basic('ann', 'wrong'), ...fromNewAddress() };
    const write = (): Promise<Answer> => service.request('/api/note/', { method: 'POST', headers });
    for (let index = 0; index < 10; index += 1) assertUnauthorized(await write());
    mock.timers.reset();
    assertThrottled(await write());
  } finally {
    mock.timers.reset();
    await service.close();
  }
});

const rememberedSecret: Resource = { model: 'secret', columns: {}, access: 'admin' };
const box: Resource = {
  model: 'box',
  columns: {
    label: { type: 'text', null: true },
    secret: { type: 'foreignKey', references: 'secret', null: true },
  },
  access: 'admin',
};
const guarded: Resource = { model: 'guarded', columns: { name: { type: 'string' } }, access: 'user' };
const registry = [user, rememberedSecret, box, guarded];
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
  let bases: string[];
  let second: Awaited<ReturnType<typeof startBeside>>;
  after(() => second.close());
  const service: TestService = useService(registry, { trustProxy: 1 }, async () => {
    second = await startBeside(service.url, registry, { trustProxy: 1 });
    bases = [service.base, second.base];
    await service.addUser('ada', { admin: true });
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
    assert.deepEqual([...new Set(pluck(answers, 'status'))], [201]);
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
        assert.equal(await waitingForLocks(service), 0);
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
