import { hash } from '@node-rs/argon2';
import assert from 'node:assert/strict';
import fc from 'fast-check';
import type { Resource } from '../../src/index.ts';
import { note, user } from '../../src/resources/registry.ts';
import {
  closedAfter,
  basic,
  cheapHash,
  startService,
  useService,
  type Answer,
  type TestService,
  hashAt,
  REAL_COSTS,
} from '../support.ts';
import { assertUnauthorized, fromNewAddress } from './expect.ts';
import { describe, test } from 'node:test';

hashAt(REAL_COSTS);

const secret: Resource = { model: 'secret', columns: {}, access: 'admin', read: 'user' };
const registry = [user, note, secret];

describe('credentials', () => {
  const service: TestService = useService(registry, { trustProxy: 1 }, async () => {
    await service.addUser('bob');
    await service.addUser('zoe', { active: false });
    // A parser that ignores the missing colon would read the credentials `eve!` as this name and password.
    await service.addUser('eve', { password: await cheapHash('eve!') });
  });

  /** A GET that needs a user, from a new address. */
  const get = (authorization?: string): Promise<Answer> =>
    service.request('/api/secret/', {
      headers: { ...fromNewAddress(), ...(authorization === undefined ? {} : { authorization }) },
    });

  const encoded = (payload: string | Uint8Array): string => Buffer.from(payload as string).toString('base64');

  const malformed: Record<string, string> = {
    'nothing after the scheme': 'Basic',
    'only a space after the scheme': 'Basic ',
    'no scheme': encoded('bob:pw-bob'),
    'another scheme': `Bearer ${encoded('bob:pw-bob')}`,
    'a scheme that starts with Basic': `Basics ${encoded('bob:pw-bob')}`,
    'no space after the scheme': `Basic${encoded('bob:pw-bob')}`,
    'no base64': 'Basic bob:pw-bob',
    'base64 without its padding': `Basic ${encoded('bob:pw-bob').replaceAll('=', '')}`,
    'base64 with too much padding': `Basic ${encoded('bob:pw-bob')}====`,
    'base64 with spaces in it': `Basic ${encoded('bob:pw-bob').replace('W', ' W')}`,
    'base64 of another alphabet': `Basic ${encoded('bob:pw-bob')}`.replace(/.=*$/, '_$&'),
    'text after the base64': `Basic ${encoded('bob:pw-bob')} x`,
    'two credentials': `Basic ${encoded('bob:pw-bob')}, Basic ${encoded('bob:pw-bob')}`,
    'no colon': `Basic ${encoded('bob')}`,
    'no colon, and an extra character': `Basic ${encoded('eve!')}`,
    'bytes that are not UTF-8': `Basic ${encoded(Buffer.from([98, 111, 98, 58, 255]))}`,
    'a NUL character': `Basic ${encoded('bob\0:pw-bob')}`,
    'a byte order mark': `Basic ${encoded('\uFEFFbob:pw-bob')}`,
    'an empty name': `Basic ${encoded(':pw-bob')}`,
    'an empty password': `Basic ${encoded('bob:')}`,
    'only a colon': `Basic ${encoded(':')}`,
    'an unknown user': basic('nobody'),
    'a name in another case': basic('BOB', 'pw-bob'),
    'a name with a trailing space': basic('bob ', 'pw-bob'),
    'a wrong password': basic('bob', 'wrong'),
    'a password with an extra character': basic('bob', 'pw-bob:'),
    'an inactive user': basic('zoe'),
    'a name with SQL': basic("' or true --", 'x'),
    'a long name': basic('b'.repeat(5000)),
  };

  test('get the same answer as no credentials if they are invalid', async () => {
    const shown = ({ status, text, headers }: Answer) => {
      const rest = [...headers].filter(([name]) => !['date', 'cache-control', 'vary'].includes(name));
      return { status, text, headers: Object.fromEntries(rest) };
    };
    const none = await get();
    assertUnauthorized(none);
    for (const [name, header] of Object.entries(malformed)) {
      const answer = await get(header);
      assertUnauthorized(answer, name);
      assert.deepEqual(shown(answer), shown(none), name);
      assert.equal(answer.headers.get('cache-control'), 'no-store', name);
    }
    assert.equal((await get(basic('bob'))).status, 200);
  });

  test('the scheme may be in any case, and be followed by several spaces', async () => {
    for (const scheme of ['basic ', 'BASIC ', 'bAsIc   '])
      assert.equal((await get(scheme + encoded('bob:pw-bob'))).status, 200);
  });

  test('names and passwords are UTF-8, and a password may have colons', async () => {
    const name = fc
      .string({ unit: 'grapheme', minLength: 1, maxLength: 20 })
      .filter((text) => !/[:\0]/.test(text) && text !== 'bob');
    const password = fc
      .string({
        unit: fc.oneof(fc.constantFrom(':', ' ', '%', '"', '\\', 'é', '😀'), fc.string({ maxLength: 1 })),
      })
      .filter((text) => text !== '' && !text.includes('\0'));
    await fc.assert(
      fc.asyncProperty(name, password, async (username, plain) => {
        await service.sql`delete from "user" where username = ${username}`;
        const row = { username, password: await cheapHash(plain), email: '' };
        await service.sql`insert into "user" ${service.sql(row)}`;
        assert.equal((await get(basic(username, plain))).status, 200);
        assertUnauthorized(await get(basic(username, `${plain}:`)));
      }),
      {
        numRuns: 25,
        examples: [
          ['žofie 🦊', 'pa:ss:wörd:'],
          ['plain', ':'],
          ['::'.replaceAll(':', ' '), '::'],
        ],
      },
    );
  });

  test('names and passwords are compared in NFKC, too', async () => {
    const [composed, decomposed] = ['J\u00f6rg', 'Jo\u0308rg'];
    const cases: readonly [name: string, password: string, sent: [string, string][], refused: [string, string][]][] = [
      [composed, composed, [[composed, composed], [decomposed, decomposed], [composed, decomposed]], [[decomposed, 'Jorg'], ['Jorg', composed]]],
      ['Ame\u0301lie', 'plain', [['Ame\u0301lie', 'plain'], ['Am\u00e9lie', 'plain']], [['Amelie', 'plain']]],
      ['fred', 'file 5', [['\uff46\uff52\uff45\uff44', '\ufb01le\u00a05'], ['fred', 'file \u2464']], [['fred', 'FILE 5']]],
      // A hash of another program.
      ['gus', '\ufb01le', [['gus', '\ufb01le']], [['gus', 'file']]],
      // Two users whose names are equal in NFKC.
      ['\ufb01n', 'ligature', [['\ufb01n', 'ligature']], [['fin', 'ligature']]],
      ['fin', 'letters', [['fin', 'letters']], [['\ufb01n', 'letters']]],
    ]; // prettier-ignore
    for (const [username, plain] of cases)
      await service.addUser(username, { password: await cheapHash(plain) });
    for (const [, , sent, refused] of cases) {
      for (const [name, password] of refused) assertUnauthorized(await get(basic(name, password)));
      for (const [name, password] of sent)
        assert.equal((await get(basic(name, password))).status, 200, escape(`${name}:${password}`));
    }
  });

  test('a password that was set in one form of Unicode is right in the others', async () => {
    await service.addUser('ada', { admin: true });
    const decomposed = 'cafe\u0301 cafe\u0301';
    const body = { username: 'hans', password: decomposed, email: '' };
    const { status } = await service.request('/api/user/', { method: 'POST', user: 'ada', body });
    assert.equal(status, 201);
    for (const form of ['NFC', 'NFD', 'NFKC', 'NFKD'])
      assert.equal((await get(basic('hans', decomposed.normalize(form)))).status, 200, form);
  });

  test('credentials that no user can have are refused without a look-up', async () => {
    await service.sql.begin(async (transaction) => {
      await transaction`lock table "user"`;
      for (const name of ['bob', 'unknown']) assertUnauthorized(await get(basic(name, 'x'.repeat(1025))));
      assertUnauthorized(await get(basic('b'.repeat(1025), 'x')));
    });
  });

  test('a password of 1,024 bytes is verified, and a longer one is 401 even with a matching hash', async () => {
    for (const [plain, status] of [
      ['x'.repeat(1024), 200],
      ['é'.repeat(512), 200],
      ['x'.repeat(1025), 401],
      ['é'.repeat(513), 401],
    ] as const) {
      await service.sql`update "user" set password = ${await cheapHash(plain)} where username = 'bob'`;
      assert.equal((await get(basic('bob', plain))).status, status, `${Buffer.byteLength(plain)} bytes`);
    }
    await service.sql`update "user" set password = ${await cheapHash('pw-bob')} where username = 'bob'`;
  });

  test('a user without an argon2 hash cannot log in', async () => {
    for (const stored of [
      'pw-bob',
      '',
      '$argon2',
      '$argon2id$v=19$m=8,t=1,p=1$',
      '$2b$10$abcdefghijklmnopqrstuv',
    ]) {
      await service.sql`update "user" set password = ${stored} where username = 'bob'`;
      for (const plain of ['pw-bob', stored]) assertUnauthorized(await get(basic('bob', plain)));
    }
    await service.sql`update "user" set password = ${await cheapHash('pw-bob')} where username = 'bob'`;
  });

  test('a hash of argon2i or argon2d, or with other costs, is verified, too', async () => {
    for (const algorithm of [0, 1, 2]) {
      const stored = await hash('other', { algorithm, memoryCost: 64, timeCost: 3, parallelism: 2 });
      await service.sql`update "user" set password = ${stored} where username = 'bob'`;
      assert.equal((await get(basic('bob', 'other'))).status, 200);
    }
    await service.sql`update "user" set password = ${await cheapHash('pw-bob')} where username = 'bob'`;
  });

  test('credentials are not checked where none are needed', async () => {
    await service.sql`insert into note (message) values ('x')`;
    for (const header of Object.values(malformed)) {
      for (const path of ['/api/', '/api/note/', '/api/note/1/', '/api/note/?message=x', '/healthz']) {
        const { status } = await service.request(path, { headers: { authorization: header } });
        assert.equal(status, 200, `${path} ${header}`);
      }
    }
  });

  test('a user name that could not log in is 400 on POST and PUT', async () => {
    await service.addUser('root', { admin: true });
    for (const username of ['', 'a:b', ':'])
      for (const [method, path] of Object.entries({ POST: '/api/user/', PUT: '/api/user/2/' })) {
        const body = { username, password: 'x', email: 'x' };
        const { status, json } = await service.request(path, { method, user: 'root', body });
        assert.deepEqual([status, Object.keys(json.errors)], [400, ['username']]);
      }
  });
});

test('a service without users answers every write with 401', async (t) => {
  const service = closedAfter(t, await startService([{ model: 'free', columns: {} }]));
  assertUnauthorized(await service.request('/api/free/', { method: 'POST', user: 'bob', body: {} }));
  assert.equal((await service.request('/api/free/', { user: 'bob' })).status, 200);
});
