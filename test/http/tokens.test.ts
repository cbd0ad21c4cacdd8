// Tokens of the API and the caller's own account.
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { crc32 } from 'node:zlib';
import fc from 'fast-check';
import type { Resource, Roles } from '../../src/index.ts';
import { user as sampleUser } from '../../src/resources/registry.ts';
import {
  basic,
  cheapHash,
  pluck,
  startBeside,
  startService,
  useService,
  type Answer,
  type RequestOptions,
} from '../support.ts';
import {
  assertProblem,
  assertUnauthorized,
  eventually,
  fromNewAddress,
  lockedOut,
  stopClock,
} from './expect.ts';
import { describe, test } from 'node:test';

const passTime = stopClock();

const user = {
  ...sampleUser,
  columns: { ...sampleUser.columns, role: { type: 'string', null: true } },
} satisfies Resource;

const text = { text: { type: 'text' } } as const;
const owned = { user: { type: 'foreignKey', references: 'user' }, ...text } as const;
const RESOURCES: readonly Resource[] = [
  user,
  { model: 'note', columns: text, access: 'user' },
  { model: 'message', columns: owned, access: 'user', owner: 'user' },
  { model: 'secret', columns: text, read: 'user', access: 'user' },
  { model: 'clue', columns: { secret: { type: 'foreignKey', references: 'secret' } }, access: 'user' },
  { model: 'entry', columns: { ledger: { type: 'foreignKey', references: 'ledger' } }, access: 'user' },
  { model: 'fact', columns: text, maxCount: 1, costly: 'admin' },
  { model: 'ledger', columns: text, read: 'admin', access: 'admin' },
  { model: 'ticket', columns: text, read: ['support'], access: 'admin' },
  {
    model: 'letter',
    columns: { ...text, hidden: { type: 'text', null: true, read: 'user' } },
    rows: { read: ['text=open', 'text=$me.username'] },
    access: 'admin',
  },
];
const roles: Roles = { support: { admin: true, grants: { ticket: { update: true } } } };

interface Made {
  readonly id: number;
  readonly token: string;
}

describe('tokens', () => {
  const ids: Record<string, number> = {};
  const service = useService(RESOURCES, { roles, trustProxy: 1 }, async () => {
    for (const [name, more] of Object.entries<Record<string, unknown>>({
      ada: { admin: true },
      eve: {},
      sue: { role: 'support' },
    }))
      ids[name] = await service.addUser(name, more);
    await service.sql`insert into note (text) values ('one')`;
    await service.sql`insert into secret (text) values ('s1')`;
    await service.sql`insert into ticket (text) values ('broken')`;
    await service.sql`insert into letter (text, hidden) values ('open', 'h1'), ('ada', 'h2')`;
    await service.sql`insert into message (user_id, text) values (${ids['eve'] ?? 0}, 'mine')`;
    await service.sql`insert into fact (text) values ('a'), ('b'), ('c')`;
    await service.sql`insert into clue (secret_id) values (1)`;
  });

  const send = (token: string, path: string, options: RequestOptions = {}): Promise<Answer> =>
    service.request(path, {
      ...options,
      headers: { authorization: `Bearer ${token}`, ...fromNewAddress(), ...options.headers },
    });
  async function make(name: string, body: Record<string, unknown> = {}): Promise<Made> {
    // Whoever makes more in an hour is refused.
    await service.sql`update vitrine_token set created = created - interval '1 hour'`;
    const answer = await service.request('/api/-/tokens/', { method: 'POST', user: name, body });
    assert.equal(answer.status, 201, answer.text);
    return answer.json as Made;
  }
  const post = (token: string, model: string, body: unknown): Promise<Answer> =>
    send(token, `/api/${model}/`, { method: 'POST', body });

  test('do what their user may: read, write and own records', async () => {
    const { token } = await make('eve');
    assert.equal((await send(token, '/api/secret/')).status, 200);
    const created = await post(token, 'message', { text: 'by a program' });
    assert.deepEqual([created.status, created.json.user_id], [201, ids['eve']]);
    const path = `/api/message/${created.json.id}/`;
    assert.equal((await send(token, path, { method: 'PUT', body: { text: 'changed' } })).status, 200);
    assert.equal((await send(token, path, { method: 'DELETE' })).status, 200);
    assert.equal((await send(token, '/api/ledger/')).status, 403);
    assert.equal((await send((await make('ada')).token, '/api/ledger/')).status, 200);
    const [entry] = await service.sql`select user_name, door from vitrine_history order by id desc limit 1`;
    assert.deepEqual({ ...entry }, { user_name: 'eve', door: 'api' });
  });

  test('have the roles of their user', async () => {
    const { token } = await make('sue');
    const answer = await send(token, '/api/ticket/1/', { method: 'PUT', body: { text: 'mended' } });
    assert.equal(answer.status, 200, answer.text);
    const narrow = await make('sue', { resources: ['ticket'], methods: ['GET'] });
    assert.equal((await send(narrow.token, '/api/ticket/')).status, 200);
    const refused = await send(narrow.token, '/api/ticket/1/', { method: 'PUT', body: { text: 'x' } });
    assertProblem(refused, 403);
  });

  test('consist of an id, 256 bits and a checksum, of which the database has only the SHA-256', async () => {
    const { id, token } = await make('eve', { label: 'nightly' });
    const [, ofId, secret = '', sum] = /^vt_(\d+)_([0-9a-f]{64})([0-9a-f]{8})$/.exec(token) ?? [];
    assert.equal(Number(ofId), id);
    assert.equal(sum, crc32(`vt_${id}_${secret}`).toString(16).padStart(8, '0'));
    const [row] = await service.sql`select * from vitrine_token where id = ${id}`;
    assert.equal(row?.['secret_hash'], createHash('sha256').update(secret).digest('hex'));
    assert.ok(!JSON.stringify(row).includes(secret));
    assert.notEqual((await make('eve')).token.slice(-72), token.slice(-72));
    assert.ok(!service.lines.some((line) => JSON.stringify(line).includes(secret)));
  });

  const bad: [what: string, change: (token: string, other: string) => string][] = [
    ['nothing', () => ''],
    ['another word', () => 'token'],
    ['a token of another service', () => 'eyJhbGciOiJIUzI1NiJ9.e30.ZRrHA1JJJW8opsbCGp'],
    ['no checksum', (token) => token.slice(0, -8)],
    ['a wrong checksum', (token) => `${token.slice(0, -8)}${token.endsWith('00000000') ? '1' : '0'}0000000`],
    ['upper case', (token) => token.toUpperCase()],
    ['something at its end', (token) => `${token} x`],
    [
      'the secret of another token',
      (token, other) => {
        const start = `${token.split('_').slice(0, 2).join('_')}_${other.split('_')[2]?.slice(0, 64)}`;
        return `${start}${crc32(start).toString(16).padStart(8, '0')}`;
      },
    ],
    [
      'an unknown secret',
      (token) => {
        const start = `${token.split('_').slice(0, 2).join('_')}_${'0'.repeat(64)}`;
        return `${start}${crc32(start).toString(16).padStart(8, '0')}`;
      },
    ],
    ['an id that is too large', (token) => token.replace(/_\d+_/, '_99999999999999999999_')],
  ];
  for (const [what, change] of bad)
    test(`are 401 with ${what}, for reads and writes`, async () => {
      const [one, other] = [await make('eve'), await make('eve')];
      const wrong = change(one.token, other.token);
      assertUnauthorized(await send(wrong, '/api/secret/'));
      assertUnauthorized(await post(wrong, 'note', { text: 'x' }));
    });

  test('are 401 on any text that is no token', async () => {
    await fc.assert(
      fc.asyncProperty(fc.stringMatching(/^[!-~]{0,90}$/), async (wrong) => {
        assertUnauthorized(await send(wrong, '/api/secret/'));
      }),
      { numRuns: 50 },
    );
  });

  const endings: [what: string, end: (made: Made, name: string) => Promise<unknown>][] = [
    ['expires', ({ id }) => service.sql`update vitrine_token set expires = now() at time zone 'UTC' - interval '1 second' where id = ${id}`],
    ['is revoked', ({ id }, name) => service.request(`/api/-/tokens/${id}/`, { method: 'DELETE', user: name })],
    ['is revoked by an admin', ({ id }) => service.request(`/api/-/tokens/${id}/`, { method: 'DELETE', user: 'ada' })],
    ['has a user who is deactivated', (_, name) => service.sql`update "user" set active = false where username = ${name}`],
    ['has a user who is deleted', (_, name) => service.sql`delete from "user" where username = ${name}`],
  ]; // prettier-ignore
  for (const [index, [what, end]] of endings.entries())
    test(`are 401 with the next request after one ${what}, on every process`, async (t) => {
      const name = `leaver${index}`;
      await service.addUser(name);
      const made = await make(name);
      const other = await startBeside(service.url, RESOURCES, { roles });
      t.after(() => other.close());
      const headers = { authorization: `Bearer ${made.token}` };
      const requests = (base: typeof service.request): Promise<Answer>[] => [
        base('/api/secret/', { headers }),
        base('/api/note/', { method: 'POST', headers, body: { text: 'x' } }),
      ];
      for (const base of [service.request, other.request])
        assert.deepEqual(pluck(await Promise.all(requests(base)), 'status'), [200, 201]);
      // Both processes remember the token now.
      const [before] = await service.sql`select count(*)::int as count from note`;
      await end(made, name);
      for (const base of [other.request, service.request])
        for (const answer of await Promise.all(requests(base))) assertUnauthorized(answer);
      const [after] = await service.sql`select count(*)::int as count from note`;
      assert.deepEqual({ ...after }, { ...before });
    });

  test('of a user who loses a role or becomes no admin lose it with the next write', async () => {
    await service.addUser('cleo', { admin: true });
    const { token } = await make('cleo');
    assert.equal((await post(token, 'ledger', { text: 'a' })).status, 201);
    assert.equal((await post(token, 'ledger', { text: 'b' })).status, 201);
    await service.sql`update "user" set admin = false where username = 'cleo'`;
    assert.equal((await post(token, 'ledger', { text: 'c' })).status, 403);
    const rows = await service.sql`select text from ledger order by id`;
    assert.deepEqual(pluck([...rows], 'text'), ['a', 'b']);
  });

  test('outside of their scope can do no more than anyone', async () => {
    const reader = (await make('ada', { resources: ['secret'], methods: ['GET'] })).token;
    assert.equal((await send(reader, '/api/secret/')).status, 200);
    assertProblem(await post(reader, 'secret', { text: 'x' }), 403);
    assertProblem(await send(reader, '/api/ledger/'), 403);
    assertProblem(await send(reader, '/api/user/1/', { method: 'DELETE' }), 403);
    // What anyone may read needs no credentials.
    assert.equal((await send(reader, '/api/note/')).status, 200);
    const letters = await send(reader, '/api/letter/');
    assert.deepEqual(letters.json.objects, [{ id: 1, text: 'open' }]);
    const all = await send((await make('ada')).token, '/api/letter/');
    assert.deepEqual(pluck(all.json.objects, 'hidden'), ['h1', 'h2']);
  });

  test('of admins count and stream outside of their scope no more than anyone', async () => {
    const { token } = await make('ada', { resources: ['note'] });
    const exactly = { prefer: 'count=exact' };
    assert.equal((await send(token, '/api/fact/', { headers: exactly })).text, (await service.request('/api/fact/', { headers: exactly })).text); // prettier-ignore
    assertProblem(await send(token, '/api/fact/', { headers: { accept: 'application/x-ndjson' } }), 403);
  });

  test('follow no foreign key out of their scope, in filters, orderings and references', async () => {
    const narrow = (await make('eve', { resources: ['clue', 'entry'] })).token;
    const wide = (await make('eve', { resources: ['clue', 'secret'] })).token;
    for (const query of ['secret__text=s1', 'ordering=secret__text']) {
      assertProblem(await send(narrow, `/api/clue/?${query}`), 400);
      assert.equal((await send(wide, `/api/clue/?${query}`)).status, 200);
    }
    for (const [id, model] of [[1, 'secret'], [99, 'secret'], [1, 'ledger']] as const) {
      const refused = await post(narrow, model === 'secret' ? 'clue' : 'entry', { [`${model}_id`]: id });
      const why = model === 'secret' ? 'this token may not read secret' : 'there is no such record';
      assert.deepEqual([refused.status, refused.json.errors], [400, { [`${model}_id`]: [why] }]);
    } // prettier-ignore
    assert.equal((await post(wide, 'clue', { secret_id: 1 })).status, 201);
  });

  test('see in the OpenAPI document only what their scope lets them read', async () => {
    const pathsFor = async (scope: Record<string, unknown>): Promise<string[]> => {
      const { token } = await make('ada', scope);
      return Object.keys((await send(token, '/api/openapi.json')).json.paths);
    };
    assert.ok((await pathsFor({})).includes('/api/ledger'));
    const paths = await pathsFor({ resources: ['secret'], methods: ['GET'] });
    assert.ok(paths.includes('/api/secret') && paths.includes('/api/note'));
    assert.ok(!paths.includes('/api/ledger'));
    const writing = await pathsFor({ resources: ['secret'], methods: ['POST'] });
    assert.ok(writing.includes('/api/secret') && !writing.includes('/api/ledger'));
  });

  test('of any scope may do exactly what the scope and the user allow', async () => {
    const models = ['note', 'secret', 'ledger', 'ticket'] as const;
    const methods = ['GET', 'POST', 'PUT', 'DELETE'] as const;
    /** What the API answers, apart from the record. */
    const isAllowed = async (headers: Record<string, string>, model: string, method: string) => {
      const isPost = method === 'POST';
      const { status } = await service.request(`/api/${model}/${isPost ? '' : '999999/'}`, {
        method,
        headers: { ...headers, ...fromNewAddress() },
        ...(isPost && { body: {} }),
        ...(method === 'PUT' && { body: { text: 'x' } }),
      });
      return status !== 403 && status !== 401; // 400 or 404 otherwise
    };
    await fc.assert(
      fc.asyncProperty(
        fc.constantFrom('ada', 'eve', 'sue'),
        fc.option(fc.subarray([...models], { minLength: 1 })),
        fc.option(fc.subarray([...methods], { minLength: 1 })),
        async (name, resources, allowed) => {
          const { id, token } = await make(name, { resources, methods: allowed });
          for (const model of models)
            for (const method of methods) {
              const user = await isAllowed({ authorization: basic(name) }, model, method);
              const anyone = method === 'GET' && (await isAllowed({}, model, method));
              const inScope = (resources?.includes(model) ?? true) && (allowed?.includes(method) ?? true);
              const found = await isAllowed({ authorization: `Bearer ${token}` }, model, method);
              assert.equal(found, anyone || (user && inScope), `${name} ${method} ${model}`);
            }
          await service.request(`/api/-/tokens/${id}/`, { method: 'DELETE', user: name });
        },
      ),
      { numRuns: 12 },
    );
  });

  test('open no admin area, make no tokens, and change neither passwords nor the powers of users', async () => {
    const { token, id } = await make('ada');
    assert.equal((await send(token, '/admin/')).status, 303);
    assertProblem(await send(token, '/api/-/tokens/'), 403);
    assertProblem(await send(token, '/api/-/tokens/', { method: 'POST', body: {} }), 403);
    assertProblem(await send(token, `/api/-/tokens/${id}/`, { method: 'DELETE' }), 403);
    const change = { current: 'pw-ada', password: 'another long password' };
    assertProblem(await send(token, '/api/-/password/', { method: 'POST', body: change }), 403);
    const path = `/api/user/${ids['eve']}/`;
    for (const [field, value] of [
      ['password', 'another long password'],
      ['admin', true],
      ['role', 'support'],
    ] as const) {
      const answer = await send(token, path, { method: 'PUT', body: { [field]: value } });
      assertProblem(answer, 400);
      assert.deepEqual(Object.keys(answer.json.errors), [field]);
    }
    assert.equal((await send(token, path, { method: 'PUT', body: { email: 'e@example.org' } })).status, 200);
    const body = { username: 'new', password: 'a long password', email: '', admin: true };
    assertProblem(await post(token, 'user', body), 400);
  });

  test('write from pages of other origins are 403', async () => {
    const { token } = await make('eve');
    const headers = { origin: 'https://evil.example' };
    assertProblem(await send(token, '/api/note/', { method: 'POST', body: { text: 'x' }, headers }), 403);
    const made = await service.request('/api/-/tokens/', { method: 'POST', user: 'eve', body: {}, headers });
    assertProblem(made, 403);
  });

  test('record the day of their last use, with one write', async () => {
    const { id, token } = await make('eve');
    const used = async (): Promise<unknown> => {
      const [row] = await service.sql`
        select used = (now() at time zone 'UTC')::date as today, xmin::text as version from vitrine_token where id = ${id}`;
      return row && { ...row };
    };
    assert.deepEqual(((await used()) as { today: unknown }).today, null);
    assert.equal((await send(token, '/api/secret/')).status, 200);
    await eventually(async () => ((await used()) as { today: unknown }).today, 'the day of the use');
    const before = await used();
    for (let times = 0; times < 5; times += 1) {
      assert.equal((await send(token, '/api/secret/')).status, 200);
      assert.equal((await post(token, 'note', { text: 'x' })).status, 201);
    }
    assert.deepEqual(await used(), before);
    await service.sql`update vitrine_token set used = '2020-01-01' where id = ${id}`;
    assert.equal((await send(token, '/api/secret/')).status, 200);
    await eventually(async () => ((await used()) as { today: unknown }).today, 'the day of another use');
  });

  describe('that are bad', () => {
    const from = (address: string, token: string, path = '/api/secret/'): Promise<Answer> =>
      send(token, path, { headers: { 'x-forwarded-for': address } });
    const login = (address: string, password: string): Promise<Answer> =>
      service.request('/api/secret/', {
        headers: { authorization: basic('eve', password), 'x-forwarded-for': address },
      });

    test('count like wrong passwords: after ten different ones from an address in a minute, further logins are 429', async () => {
      const address = '192.0.2.10';
      const { token } = await make('eve');
      for (let index = 0; index < 10; index += 1) assertUnauthorized(await from(address, `vt_1_${index}`));
      for (const answer of [
        await from(address, 'vt_1_x'),
        await from(address, token),
        await login(address, 'x'),
      ])
        assertProblem(answer, 429);
      passTime(61_000);
      assert.equal((await from(address, token)).status, 200);
    });

    test('lock out no one else behind the address if it is always the same one', async () => {
      const address = '192.0.2.11';
      const { token } = await make('eve');
      const answers = await Promise.all(Array.from({ length: 40 }, () => from(address, 'vt_1_old')));
      for (const answer of answers) assertUnauthorized(answer);
      assert.equal((await from(address, token)).status, 200);
      assertUnauthorized(await login(address, 'wrong'));
      assert.equal((await login(address, 'pw-eve')).status, 200);
      for (let index = 0; index < 10; index += 1) assertUnauthorized(await from(address, 'vt_1_old'));
      assertProblem(await from(address, 'vt_1_old'), 429);
      assert.equal((await from(address, token)).status, 200);
    });

    test('do not lock out a token that is in use at the address', async () => {
      const address = '192.0.2.12';
      const { token } = await make('eve');
      assert.equal((await from(address, token)).status, 200);
      for (let index = 0; index < 10; index += 1) assertUnauthorized(await login(address, `wrong ${index}`));
      assertProblem(await from(address, 'vt_1_new'), 429);
      assert.equal((await from(address, token)).status, 200);
      const written = await send(token, '/api/note/', {
        method: 'POST',
        body: { text: 'x' },
        headers: { 'x-forwarded-for': address },
      });
      assert.equal(written.status, 201);
    });

    test('do not make a read fail that needs no credentials', async () => {
      assert.equal((await send('vt_1_nothing', '/api/note/')).status, 200);
    });
  });

  describe('are made, listed and revoked by their users', () => {
    const list = async (name: string): Promise<Record<string, unknown>[]> => {
      const answer = await service.request('/api/-/tokens/', { user: name });
      assert.equal(answer.status, 200, answer.text);
      return answer.json.tokens;
    };

    test('who see their own, without the secret, and admins those of all', async () => {
      await service.addUser('lara');
      const body = {
        label: 'backup',
        resources: ['note', 'clue', 'note'],
        methods: ['GET'],
        expires: '2999-01-01T00:00:00Z',
      };
      const { id, token } = await make('lara', body);
      const [only, ...others] = await list('lara');
      assert.deepEqual(others, []);
      const { created, ...rest } = only ?? {};
      assert.match(String(created), /^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d$/);
      assert.deepEqual(rest, {
        ...{ id, user: 'lara', label: 'backup', resources: ['clue', 'note'], methods: ['GET'] },
        ...{ expires: '2999-01-01 00:00:00', used: null, valid: true },
      });
      assert.ok(!JSON.stringify(only).includes(token.slice(-72)));
      const all = await list('ada');
      assert.ok(pluck(all, 'user').includes('lara') && pluck(all, 'user').includes('eve'));
    });

    test('who can revoke no others, unless they are admins', async () => {
      const { id } = await make('eve');
      for (const [path, name, status] of [
        [`/api/-/tokens/${id}/`, 'sue', 404],
        ['/api/-/tokens/0/', 'eve', 404],
        ['/api/-/tokens/x/', 'ada', 404],
        ['/api/-/tokens/99999999999999999999/', 'ada', 404],
        [`/api/-/tokens/${id}/`, 'eve', 200],
        [`/api/-/tokens/${id}/`, 'eve', 404],
      ] as const)
        assert.equal((await service.request(path, { method: 'DELETE', user: name })).status, status, path);
    });

    test('with 90 days, unless the body says otherwise', async () => {
      const { id } = await make('eve');
      const never = await make('eve', { expires: null });
      const rows = await service.sql`
        select id, round(extract(epoch from expires - created) / 86400)::int as days from vitrine_token
        where id in (${id}, ${never.id}) order by id`;
      assert.deepEqual(pluck([...rows], 'days'), [90, null]);
    });

    const refused: [what: string, body: unknown, fields: string[]][] = [
      ['an unknown resource', { resources: ['note', 'nothing'] }, ['resources']],
      ['a system table', { resources: ['vitrine_token'] }, ['resources']],
      ['no resources', { resources: [] }, ['resources']],
      ['a resource that is not in an array', { resources: 'note' }, ['resources']],
      ['a resource that is no text', { resources: [{ note: 1 }] }, ['resources']],
      ['a resource of an odd object', { resources: [{ toString: 1 }] }, ['resources']],
      ['a resource of arrays in arrays', { resources: [[['note']]] }, ['resources']],
      ['thousands of resources', { resources: Array.from({ length: 1001 }, () => 'note') }, ['resources']],
      ['thousands of methods', { methods: Array.from({ length: 100_000 }, () => 1) }, ['methods']],
      ['an expiry of arrays in arrays', { expires: [['x']] }, ['expires']],
      ['an unknown method', { methods: ['PATCH'] }, ['methods']],
      ['a time in the past', { expires: '2020-01-01 00:00:00' }, ['expires']],
      ['a time that is none', { expires: 'soon' }, ['expires']],
      ['a long label', { label: 'x'.repeat(256) }, ['label']],
      ['an unknown field', { scope: 'all' }, ['scope']],
      ['several faults', { methods: [], resources: [''], label: 1 }, ['label', 'resources', 'methods']],
    ];
    for (const [what, body, fields] of refused)
      test(`not with ${what}`, async () => {
        const answer = await service.request('/api/-/tokens/', { method: 'POST', user: 'eve', body });
        assertProblem(answer, 400);
        assert.deepEqual(Object.keys(answer.json.errors).sort(), [...fields].sort());
      });

    test('at most 50', async () => {
      await service.addUser('max');
      for (let index = 0; index < 50; index += 1) await make('max');
      const answer = await service.request('/api/-/tokens/', { method: 'POST', user: 'max', body: {} });
      assertProblem(answer, 409);
    });
  });
});

describe('one’s own account', () => {
  const service = useService(RESOURCES, { roles, trustProxy: 1, minPassword: 12 }, async () => {
    await service.addUser('ada', { admin: true });
    await service.addUser('sue', { role: 'support' });
  });
  const LONG = 'a new long password';
  const change = (name: string, current: string, password: string, headers = {}): Promise<Answer> =>
    service.request('/api/-/password/', {
      method: 'POST',
      headers: { authorization: basic(name), ...fromNewAddress(), ...headers },
      body: { current, password },
    });

  test('a new password revokes all tokens of the user if it is asked for', async () => {
    const id = await service.addUser('tom');
    const tokens = () =>
      service.sql`select from vitrine_token where user_key = ${String(id)} and secret_hash not like 'revoked %'`;
    for (const [revoke, left] of [
      [undefined, 1],
      [false, 2],
      [true, 0],
    ] as const) {
      const headers = { authorization: basic('tom'), ...fromNewAddress() };
      const made = await service.request('/api/-/tokens/', { method: 'POST', headers, body: {} });
      assert.equal(made.status, 201);
      const body = { current: 'pw-tom', password: LONG, revoke };
      const bad = await service.request('/api/-/password/', { method: 'POST', headers, body: { ...body, revoke: 'yes' } }); // prettier-ignore
      assert.deepEqual(Object.keys(bad.json.errors ?? {}), ['revoke']);
      assert.equal(
        (await service.request('/api/-/password/', { method: 'POST', headers, body })).status,
        204,
      );
      assert.equal((await tokens()).count, left);
      await service.sql`update "user" set password = ${await cheapHash('pw-tom')} where id = ${id}`;
    }
  });

  test('me shows the record as its user may read it, the roles, and the rights', async () => {
    const { status, json } = await service.request('/api/-/me/', { user: 'sue' });
    assert.equal(status, 200);
    assert.deepEqual([json.username, json.roles], ['sue', ['user', 'support']]);
    assert.equal(json.record.id, json.id);
    assert.ok(!('password' in json.record) && !('email' in json.record));
    assert.deepEqual(json.resources.ticket, { read: ['id', 'text'], update: ['text'] });
    assert.deepEqual(json.resources.message, {
      ...{ read: ['id', 'user_id', 'text'], create: ['text'], update: ['text'], delete: true },
    });
    assert.ok(!('ledger' in json.resources));
    assert.deepEqual((await service.request('/api/-/me', { user: 'ada' })).json.roles, ['user', 'admin']);
    assertUnauthorized(await service.request('/api/-/me/'));
  });

  test('me shows a token only what its scope allows', async () => {
    const body = { resources: ['secret'], methods: ['GET', 'POST'] };
    const { json } = await service.request('/api/-/tokens/', { method: 'POST', user: 'sue', body });
    const headers = { authorization: `Bearer ${json.token}` };
    const { resources } = (await service.request('/api/-/me/', { headers })).json;
    assert.deepEqual(resources.secret, { read: ['id', 'text'], create: ['text'] });
    assert.deepEqual(resources.note, { read: ['id', 'text'] });
    assert.ok(!('ticket' in resources));
  });

  const refused: [what: string, current: string, password: string, fields: string[]][] = [
    ['a wrong current password', 'wrong', LONG, ['current']],
    ['no current password', '', LONG, ['current']],
    ['a short password', 'pw-sue', 'short', ['password']],
    ['no password', 'pw-sue', '', ['password']],
  ];
  for (const [what, current, password, fields] of refused)
    test(`the password does not change with ${what}`, async () => {
      const answer = await change('sue', current, password);
      assertProblem(answer, 400);
      assert.deepEqual(Object.keys(answer.json.errors), fields);
      assert.equal((await service.request('/api/secret/', { user: 'sue' })).status, 200);
    });

  test('the length of a password is that of its form NFKC, which is hashed', async () => {
    await service.addUser('uma');
    const answer = await change('uma', 'pw-uma', 'e\u0301'.repeat(8));
    assert.deepEqual(answer.json.errors, { password: ['must be at least 12 characters (got 8)'] });
    assert.equal((await change('uma', 'pw-uma', '\ufdfa')).status, 204); // 18 characters
    const headers = { authorization: basic('uma', '\ufdfa'.normalize('NFKC')) };
    assert.equal((await service.request('/api/secret/', { headers })).status, 200);
  });

  test('a common password is none', async () => {
    const answer = await change('sue', 'pw-sue', 'Password1234');
    assertProblem(answer, 400);
    assert.deepEqual(answer.json.errors, { password: ['is one of the most common passwords'] });
  });

  test('the user name is no password', async () => {
    await service.addUser('a-very-long-name');
    const answer = await change('a-very-long-name', 'pw-a-very-long-name', 'A-Very-Long-Name');
    assertProblem(answer, 400);
  });

  test('a user changes the password, also where only admins may write users, and the old one ends', async () => {
    const id = await service.addUser('dan');
    await service.sql`insert into vitrine_session (token_hash, user_key, password_mark, address, agent)
      select 'session', id::text, encode(sha256(convert_to(password, 'UTF8')), 'hex'), '', '' from "user" where id = ${id}`;
    const isOpen = async (): Promise<unknown> =>
      (
        await service.sql`select s.password_mark = encode(sha256(convert_to(u.password, 'UTF8')), 'hex') as open
          from vitrine_session s join "user" u on u.id::text = s.user_key where s.token_hash = 'session'`
      )[0]?.['open'];
    assert.equal(await isOpen(), true);
    assert.deepEqual([(await change('dan', 'pw-dan', LONG)).status], [204]);
    assert.notEqual(await isOpen(), true);
    assertUnauthorized(await service.request('/api/secret/', { user: 'dan' }));
    const headers = { authorization: basic('dan', LONG) };
    assert.equal((await service.request('/api/secret/', { headers })).status, 200);
    const [entry] = await service.sql`
      select user_name, door, action, model, after from vitrine_history where record = ${String(id)}`;
    assert.deepEqual(
      { ...entry },
      { user_name: 'dan', door: 'api', action: 'update', model: 'user', after: '{"password":true}' },
    );
  });

  test('the password does not change for a page of another origin', async () => {
    assertProblem(await change('sue', 'pw-sue', LONG, { origin: 'https://evil.example' }), 403);
  });

  test('guesses of the current password count like failed logins', async () => {
    await service.addUser('gus');
    const address = { 'x-forwarded-for': '192.0.2.99' };
    for (let index = 0; index < 10; index += 1)
      assertProblem(await change('gus', `wrong ${index}`, LONG, address), 400);
    assertProblem(await change('gus', 'wrong', LONG, address), 429);
  });

  for (const [method, path, status, allow] of [
    ['POST', '/api/-/me/', 405, 'GET, HEAD, OPTIONS'],
    ['GET', '/api/-/password/', 405, 'POST, OPTIONS'],
    ['PUT', '/api/-/tokens/', 405, 'GET, HEAD, POST, OPTIONS'],
    ['GET', '/api/-/tokens/1/', 405, 'DELETE, OPTIONS'],
    ['OPTIONS', '/api/-/tokens/', 204, 'GET, HEAD, POST, OPTIONS'],
    ['GET', '/api/-/tokens/1/x', 404, null],
    ['GET', '/api/-/me/x', 404, null],
    ['GET', '/api/-/me/?x=1', 400, null],
  ] as const)
    test(`${method} ${path} is ${status}`, async () => {
      const answer = await service.request(path, { method, user: 'sue' });
      assert.deepEqual([answer.status, answer.headers.get('allow')], [status, allow]);
    });

  for (const [method, path] of [
    ['GET', '/api/-/me/?x=1'],
    ['POST', '/api/-/tokens/?x=1'],
    ['DELETE', '/api/-/tokens/1/?x=1'],
  ] as const)
    test(`${method} ${path} is first 401 without credentials`, async () =>
      assertUnauthorized(await service.request(path, { method, headers: { accept: 'text/html' } })));
});

test('a user makes at most 20 tokens in an hour, whatever is revoked', async (t) => {
  const service = await startService([user, { model: 'note', columns: text }]);
  t.after(() => service.close());
  await service.addUser('bob');
  await service.addUser('kim');
  const send = (method: string, path: string, name: string) =>
    service.request(path, { method, user: name, ...(method === 'POST' && { body: {} }) });
  const tokens = '/api/-/tokens/';
  const first = await send('POST', tokens, 'bob');
  await service.sql`update vitrine_token set created = created - interval '59 minutes 50 seconds'`;
  for (let made = 1; made < 20; made += 1) {
    const { json } = await send('POST', tokens, 'bob');
    assert.equal((await send('DELETE', `${tokens}${json.id}/`, 'bob')).status, 200);
    assert.equal((await send('DELETE', `${tokens}${json.id}/`, 'bob')).status, 404);
  }
  const refused = await send('POST', tokens, 'bob');
  assertProblem(refused, 429);
  const wait = Number(refused.headers.get('retry-after'));
  assert.ok(wait >= 1 && wait <= 10, String(wait));
  assert.deepEqual(pluck((await send('GET', tokens, 'bob')).json.tokens, 'id'), [first.json.id]);
  assert.equal((await send('POST', tokens, 'kim')).status, 201);
  await service.sql`update vitrine_token set created = created - interval '10 seconds'`;
  assert.equal((await send('POST', tokens, 'bob')).status, 201);
  assertProblem(await send('POST', tokens, 'bob'), 429);
});

test('a token resolves only the resources that a request reaches', async (t) => {
  const resolved = new Set<string>();
  const spied = (model: string, columns: Resource['columns'] = text): Resource => ({
    ...{ model, columns, read: 'user' as const, access: 'user' as const },
    get exclude() {
      resolved.add(model);
      return [];
    },
  });
  const resources = [
    user,
    spied('secret'),
    spied('clue', { secret: { type: 'foreignKey', references: 'secret' } }),
    spied('other'),
    spied('another'),
    { model: 'note', columns: owned, access: 'user', owner: 'user', rows: { read: 'user=$me' } } as const,
  ];
  const service = await startService(resources, { roles: {}, changes: 'user' });
  t.after(() => service.close());
  await service.addUser('bob');
  const use = async (path: string): Promise<string[]> => {
    const body = { resources: ['clue'], methods: ['GET'], label: path };
    const { json } = await service.request('/api/-/tokens/', { method: 'POST', user: 'bob', body });
    resolved.clear();
    const headers = { authorization: `Bearer ${json.token}` };
    assert.equal((await service.request(path, { headers })).status, 200, path);
    return [...resolved].sort();
  };
  assert.deepEqual(await use('/api/-/changes/?after=now'), []);
  await service.sql`insert into vitrine_history (door, action, model, record, after) values ('api', 'create', 'clue', '1', '{}')`;
  assert.deepEqual(await use('/api/-/changes/'), ['clue']);
  assert.deepEqual(await use('/api/-/me/'), ['another', 'other', 'secret']);
  assert.deepEqual(await use('/api/clue/'), []);
});

test('a service without users has no account paths', async (t) => {
  const { startService, closedAfter } = await import('../support.ts');
  const service = closedAfter(t, await startService([{ model: 'note', columns: text }]));
  for (const path of ['/api/-/me/', '/api/-/password/', '/api/-/tokens/', '/api/-/tokens/1/'])
    assertProblem(await service.request(path), 404);
  const { paths } = (await service.request('/api/openapi.json')).json;
  assert.deepEqual(
    Object.keys(paths).filter((path) => path.includes('/-/')),
    [],
  );
});

test('a new user with the key of an earlier one gets neither the tokens nor the second factor', async (t) => {
  const named = { ...user, primaryKey: { type: 'string' }, access: 'admin' } satisfies Resource;
  const service = await startService([named, { model: 'note', columns: text, read: 'user' }], { roles: {} });
  t.after(() => service.close());
  await service.addUser('ada', { id: 'ada', admin: true });
  await service.addUser('bob', { id: 'bob' });
  const { json } = await service.request('/api/-/tokens/', { method: 'POST', user: 'bob', body: {} });
  await service.sql`insert into vitrine_second_factor (user_key, secret, last_step, recovery) values ('bob', 'A', 0, '{}')`;
  const read = () => service.request('/api/note/', { headers: { authorization: `Bearer ${json.token}` } });
  assert.equal((await read()).status, 200);
  const change = (method: string, path: string, body?: unknown) => service.request(path, { method, user: 'ada', body }); // prettier-ignore
  assert.equal((await change('DELETE', '/api/user/bob/')).status, 200);
  const again = await change('POST', '/api/user/', { id: 'bob', username: 'robert', password: 'correct horse', email: 'b@example.org', join_date: '2020-01-01 00:00:00' }); // prettier-ignore
  assert.equal(again.status, 201, again.text);
  assertUnauthorized(await read());
  assert.equal((await service.sql`select from vitrine_second_factor`).length, 0);
});

describe('a write whose caller loses the right while it waits for a lock', () => {
  const columns = { text: { type: 'text', null: true } } as const;
  const service = useService(
    [
      user,
      { model: 'note', columns, access: 'user' },
      { model: 'ledger', columns, access: 'admin' },
      { model: 'ticket', columns, access: 'admin' },
    ],
    { roles: { support: { grants: { ticket: { update: true, delete: true } } } }, trustProxy: 1 },
  );

  for (const [what, model, facts, status, change] of [
    ['is deactivated', 'note', {}, 401, `update "user" set active = false`],
    ['gets another password', 'note', {}, 401, `update "user" set password = 'none'`],
    ['is deleted', 'note', {}, 401, `delete from "user"`],
    ['is no longer an admin', 'ledger', { admin: true }, 403, `update "user" set admin = false`],
    ['loses the role', 'ticket', { role: 'support' }, 403, `update "user" set role = null`],
    ['is deactivated, by a token', 'note', { token: true }, 401, `update "user" set active = false`],
    [
      'loses the role, by a token',
      'ticket',
      { role: 'support', token: true },
      403,
      `update "user" set role = null`,
    ],
    ['revokes the token', 'note', { token: true }, 401, 'delete from vitrine_token'],
    [
      'lets the token expire',
      'note',
      { token: true },
      401,
      `update vitrine_token set expires = now() - interval '1 day'`,
    ],
  ] as const)
    // prettier-ignore
    for (const method of ['PUT', 'DELETE'])
    test(`a ${method} changes nothing: the user ${what}`, async () => {
      const name = method + what.replaceAll(/\W/g, '');
      const { token: usesToken = false, ...values } = { token: false, ...facts };
      const id = await service.addUser(name, values);
      const made = usesToken && (await service.request('/api/-/tokens/', { method: 'POST', user: name, body: { label: 'x' } })); // prettier-ignore
      const headers = { ...fromNewAddress(), authorization: made ? `Bearer ${made.json.token}` : basic(name) };
      const send = (path: string, method: string, body?: object): Promise<Answer> =>
        service.request(`/api/${model}/${path}`, { method, headers, body });
      const rows = await service.sql`insert into ${service.sql(model)} (text) values ('a'), ('a') returning id`;
      const [first, second] = rows.map((row) => `${row['id']}/`);
      // The credentials are remembered.
      assert.equal((await send(first ?? '', 'PUT', { text: 'b' })).status, 200);
      const isOf = change.includes('vitrine_token') ? 'user_key' : 'id';
      let answer: Promise<Answer> | undefined;
      await service.sql.begin(async (lock) => {
        await lock`select from ${lock(model)} for update`;
        answer = send(second ?? '', method, method === 'PUT' ? { text: 'c' } : undefined);
        await lockedOut(service);
        await service.sql.unsafe(`${change} where ${isOf} = '${id}'`);
      });
      assert.equal((await answer)?.status, status);
      const texts = await service.sql`select text from ${service.sql(model)} order by id`;
      assert.deepEqual(pluck(texts, 'text').slice(-2), ['b', 'a']);
    });
});
