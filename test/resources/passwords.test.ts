import { hash } from '@node-rs/argon2';
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { setTimeout } from 'node:timers/promises';
import type { Resource } from '../../src/index.ts';
import { rowsOf, startWith, users, type WritableService } from '../db/helpers.ts';
import { createPasswords } from '../../src/resources/passwords/password-hashing.ts';
import { basic, cheapHash } from '../support.ts';

const PHC = /^\$argon2id\$v=19\$m=\d+,t=\d+,p=\d+\$[A-Za-z0-9+/]+\$[A-Za-z0-9+/]+$/;

/** Somebody else's accounts: the password is shown, since nothing excludes it. */
const account: Resource = {
  model: 'account',
  columns: {
    name: { type: 'string', unique: true },
    password: { type: 'password' },
    pin: { type: 'password', null: true },
  },
  access: 'user',
};

describe('passwords', () => {
  let service: WritableService;
  before(async () => {
    service = await startWith([account]);
  });
  after(() => service.close());

  const stored = async (table: string, id: number): Promise<string> => {
    const [row] = await service.sql`select password from ${service.sql(table)} where id = ${id}`;
    return String(row?.['password']);
  };
  const login = async (name: string, password: string): Promise<number> => {
    const headers = { authorization: basic(name, password), 'content-type': 'application/json' };
    return (await service.request('/api/account/0/', { method: 'PUT', headers, body: '{}' })).status;
  };
  const [known, refused] = [404, 401]; // there is no account 0, but 401 comes before 404

  test('a plain password is stored as an argon2id PHC string, and shown as that string', async () => {
    const { status, json } = await service.send('POST', '/api/account/', {
      name: 'a',
      password: 'péss:wörd 🦉',
    });
    assert.equal(status, 201);
    assert.match(json.password, PHC);
    assert.equal(json.password, await stored('account', json.id));
    assert.equal(json.pin, null);
  });

  test('one password gets another hash each time', async () => {
    const body = { name: 'twin', password: 'same', pin: 'same' };
    const { json } = await service.send('POST', '/api/account/', body);
    assert.notEqual(json.password, json.pin);
  });

  test('the stored PHC string sent back changes nothing', async () => {
    const { json } = await service.send('POST', '/api/account/', { name: 'back', password: 'x' });
    const path = `/api/account/${json.id}/`;
    const before = await rowsOf(service.sql, 'account');
    for (const body of [json, { password: json.password }]) {
      const put = await service.send('PUT', path, body);
      assert.deepEqual([put.status, put.json], [200, json]);
    }
    assert.deepEqual(await rowsOf(service.sql, 'account'), before);
  });

  test('whatever the table of others has for a hash can be sent back, too, and then changes nothing', async () => {
    const texts = [
      'pbkdf2_sha256$260000$salt$aGFzaA==',
      '5f4dcc3b5aa765d61d8327deb882cf99',
      '',
      'x'.repeat(1025),
      'é'.repeat(600),
      '$2b$10$abcdefghijklmnopqrstuv',
      '$argon2id$v=19$broken',
      ' "quoted" \\ 🦉',
    ];
    for (const text of texts) {
      const [row] = await service.sql`
        insert into account (name, password, pin) values (${text.slice(0, 200)}, ${text}, ${text}) returning id`;
      const path = `/api/account/${row?.['id']}/`;
      const { json } = await service.request(path);
      const before = await rowsOf(service.sql, 'account');
      for (const body of [json, { password: text }, { pin: text, name: json.name }]) {
        const put = await service.send('PUT', path, body);
        assert.deepEqual([put.status, put.json], [200, json], put.text);
      }
      assert.deepEqual(await rowsOf(service.sql, 'account'), before, text);
      const renamed = await service.send('PUT', path, { ...json, name: `${json.id}` });
      assert.deepEqual(renamed.json, { ...json, name: `${json.id}` });
      // One that is not what is stored is held to its length, and hashed.
      const { status } = await service.send('PUT', path, { pin: `${'x'.repeat(1025)}y` });
      assert.equal(status, 400);
      const { json: changed } = await service.send('PUT', path, { pin: 'a new one' });
      assert.match(changed.pin, PHC);
    }
  });

  test('the stored PHC string of a hidden password changes nothing either', async () => {
    const id = await service.addUser('same');
    const path = `/api/user/${id}/`;
    const [before, { headers }] = [await stored('user', id), await service.request(path)];
    const put = await service.send('PUT', path, { password: before });
    assert.deepEqual([put.status, put.headers.get('etag')], [200, headers.get('etag')]);
    assert.equal(await stored('user', id), before);
    assert.equal(await login('same', 'pw-same'), known);
  });

  test('nothing is told of a hidden password by what may be sent back', async () => {
    const id = await service.addUser('legacy', { password: '' });
    const md5 = await service.addUser('md5', { password: '5f4dcc3b5aa765d61d8327deb882cf99' });
    assert.equal((await service.send('PUT', `/api/user/${id}/`, { password: '' })).status, 400);
    const put = { password: '5f4dcc3b5aa765d61d8327deb882cf99' };
    assert.equal((await service.send('PUT', `/api/user/${md5}/`, put)).status, 200);
    assert.match(await stored('user', md5), PHC);
  });

  test('the plain password sent again is hashed anew, and works as before', async () => {
    const id = await service.addUser('again');
    const before = await stored('user', id);
    assert.equal((await service.send('PUT', `/api/user/${id}/`, { password: 'pw-again' })).status, 200);
    assert.notEqual(await stored('user', id), before);
    assert.equal(await login('again', 'pw-again'), known);
  });

  test('any other PHC string is a new plain password', async () => {
    const id = await service.addUser('eve');
    const hash = await cheapHash('chosen by an attacker');
    assert.equal((await service.send('PUT', `/api/user/${id}/`, { password: hash })).status, 200);
    assert.notEqual(await stored('user', id), hash);
    assert.equal(await login('eve', 'chosen by an attacker'), refused);
    assert.equal(await login('eve', hash), known);
  });

  test('a PHC string in a POST is a plain password too', async () => {
    const hash = await cheapHash('known');
    const { json } = await service.send('POST', '/api/account/', {
      name: 'phc',
      password: hash,
      pin: '$argon2id$',
    });
    assert.notEqual(json.password, hash);
    assert.match(json.password, PHC);
    assert.match(json.pin, PHC);
  });

  test("another record's PHC string does not give its password away", async () => {
    const owner = await service.addUser('owner');
    const thief = await service.addUser('thief');
    const hash = await stored('user', owner);
    assert.equal((await service.send('PUT', `/api/user/${thief}/`, { password: hash })).status, 200);
    assert.equal(await login('thief', 'pw-owner'), refused);
  });

  test('an excluded password can be changed, never shows, and the old one ends', async () => {
    const id = await service.addUser('carl');
    const put = await service.send('PUT', `/api/user/${id}/`, { password: 'new:one' });
    assert.equal(put.status, 200);
    assert.doesNotMatch(put.text, /argon2|password/);
    assert.match(await stored('user', id), PHC);
    assert.deepEqual([await login('carl', 'pw-carl'), await login('carl', 'new:one')], [refused, known]);
  });

  test('a user that is posted can log in', async () => {
    const body = { username: 'dora', password: 'x'.repeat(1024), email: '' };
    const { status, json } = await service.send('POST', '/api/user/', body);
    assert.deepEqual([status, json.active, json.admin], [201, true, false]);
    assert.equal(await login('dora', body.password), known);
  });

  test('one that is empty, too long in bytes, or no text is 400 beside the other faults', async () => {
    for (const password of ['', 'x'.repeat(1025), 'é'.repeat(513), 5, null, true, ['x'], 'a\0b', '\ud800']) {
      const { status, json } = await service.send('POST', '/api/account/', { password, nope: 1 });
      assert.equal(status, 400, JSON.stringify(password));
      assert.deepEqual(
        Object.keys(json.errors).sort(),
        ['name', 'nope', 'password'],
        JSON.stringify(password),
      );
    }
    for (const password of ['é'.repeat(512), ' ']) {
      const answer = await service.send('PUT', '/api/account/1/', { password });
      assert.equal(answer.status, 200, answer.text);
    }
  });

  test('null takes a password away where the column allows it', async () => {
    const { json } = await service.send('POST', '/api/account/', { name: 'pin', password: 'x', pin: '1234' });
    assert.match(json.pin, PHC);
    const put = await service.send('PUT', `/api/account/${json.id}/`, { pin: null });
    assert.deepEqual(put.json, { ...json, pin: null });
  });

  test('a write that is refused leaves the password as it was', async () => {
    const { json } = await service.send('POST', '/api/account/', { name: 'first', password: 'x' });
    await service.send('POST', '/api/account/', { name: 'second', password: 'x' });
    const before = await rowsOf(service.sql, 'account');
    const path = `/api/account/${json.id}/`;
    assert.equal((await service.send('PUT', path, { name: 'second', password: 'new' })).status, 409);
    assert.equal((await service.send('PUT', path, { name: 5, password: 'new' })).status, 400);
    assert.equal((await service.send('PUT', path, { password: 'new' }, { 'if-match': '"0"' })).status, 412);
    assert.deepEqual(await rowsOf(service.sql, 'account'), before);
  });

  test('no password reaches the log', async () => {
    const secret = 'Never-To-Be-Logged';
    const id = await service.addUser('log');
    await service.send('PUT', `/api/user/${id}/`, { password: secret });
    await service.send('PUT', `/api/user/${id}/`, { password: secret, username: 'ada' });
    await service.send('POST', '/api/account/', { name: 5, password: secret });
    await login('log', secret);
    await service.request('/api/the-last-line/');
    // Lines are written a little later, in their order.
    while (!service.lines.some(({ path }) => path === '/api/the-last-line/')) await setTimeout(10);
    assert.doesNotMatch(JSON.stringify(service.lines), new RegExp(`${secret}|argon2`));
  });

  test('the start warns of a resource that shows password hashes, and of no other', () => {
    const warnings = service.lines
      .filter(({ level }) => level === 'warn')
      .map(({ message }) => String(message));
    const shown = warnings.filter((message) => /password/.test(message));
    assert.equal(shown.length, 1);
    assert.match(shown[0] ?? '', /\baccount\b.*\bpassword\b.*\bpin\b/);
    assert.equal(users.exclude?.includes('password'), true);
  });
});

test('a stored hash that asks for more than a service can give opens nothing', async () => {
  const passwords = createPasswords();
  const options = { timeCost: 1, parallelism: 4 };
  const [most, more] = await Promise.all(
    [65_536, 1_048_577].map((memoryCost) => hash('right', { ...options, memoryCost })),
  );
  const turned = more?.replace(/m=(\d+),t=(\d+)/, 't=$2,m=$1'); // parameters may stand in any order
  // Said twice, the library takes the last one.
  const twice = (costs: string): string | undefined => more?.replace('$m=', `$${costs},m=`);
  for (const [stored, opens] of [
    [most, true],
    [more, false],
    [turned, false],
    [twice('m=8,t=1,p=4'), false],
    [twice('m=8'), false],
    [most?.replace(',p=4', ',p=4,t=1'), false],
  ] as const)
    assert.equal(await passwords.verify(stored, 'right'), opens, stored);
});
