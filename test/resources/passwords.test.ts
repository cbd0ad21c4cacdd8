import { hash } from '@node-rs/argon2';
import assert from 'node:assert/strict';
import type { Resource } from '../../src/index.ts';
import { rowsOf, startWith, users, type WritableService } from '../db/helpers.ts';
import { createPasswords } from '../../src/resources/passwords/password-hashing.ts';
import { describe, test } from '../hash-costs.ts';
import { basic, cheapHash, eventually, startService } from '../support.ts';
import { after, before } from 'node:test';

const PHC = /^\$argon2id\$v=19\$m=\d+,t=\d+,p=\d+\$[A-Za-z0-9+/]+\$[A-Za-z0-9+/]+$/;

/** A model of an existing database. Its passwords are shown, because it does not exclude them. */
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
  const [known, refused] = [404, 401]; // account 0 does not exist, and 401 takes precedence over 404

  test('a plain password is stored and shown as an argon2id PHC string', async () => {
    const { status, json } = await service.send('POST', '/api/account/', {
      name: 'a',
      password: 'péss:wörd 🦉',
    });
    assert.equal(status, 201);
    assert.match(json.password, PHC);
    assert.equal(json.password, await stored('account', json.id));
    assert.equal(json.pin, null);
  });

  test('equal passwords get different hashes', async () => {
    const body = { name: 'twin', password: 'same', pin: 'same' };
    const { json } = await service.send('POST', '/api/account/', body);
    assert.notEqual(json.password, json.pin);
  });

  test('sending the stored PHC string back changes nothing', async () => {
    const { json } = await service.send('POST', '/api/account/', { name: 'back', password: 'x' });
    const path = `/api/account/${json.id}/`;
    const before = await rowsOf(service.sql, 'account');
    for (const body of [json, { password: json.password }]) {
      const put = await service.send('PUT', path, body);
      assert.deepEqual([put.status, put.json], [200, json]);
    }
    assert.deepEqual(await rowsOf(service.sql, 'account'), before);
  });

  test('sending any other stored text back changes nothing, too', async () => {
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
      // A text that differs from the stored one must be a valid password, and is hashed.
      const { status } = await service.send('PUT', path, { pin: `${'x'.repeat(1025)}y` });
      assert.equal(status, 400);
      const { json: changed } = await service.send('PUT', path, { pin: 'a new one' });
      assert.match(changed.pin, PHC);
    }
  });

  test('sending the stored PHC string of a hidden password back changes nothing, too', async () => {
    const id = await service.addUser('same');
    const path = `/api/user/${id}/`;
    const [before, { headers }] = [await stored('user', id), await service.request(path)];
    const put = await service.send('PUT', path, { password: before });
    assert.deepEqual([put.status, put.headers.get('etag')], [200, headers.get('etag')]);
    assert.equal(await stored('user', id), before);
    assert.equal(await login('same', 'pw-same'), known);
  });

  test('any other stored text of a hidden password is treated as a new password', async () => {
    const id = await service.addUser('legacy', { password: '' });
    const md5 = await service.addUser('md5', { password: '5f4dcc3b5aa765d61d8327deb882cf99' });
    assert.equal((await service.send('PUT', `/api/user/${id}/`, { password: '' })).status, 400);
    const put = { password: '5f4dcc3b5aa765d61d8327deb882cf99' };
    assert.equal((await service.send('PUT', `/api/user/${md5}/`, put)).status, 200);
    assert.match(await stored('user', md5), PHC);
  });

  test('sending the plain password again stores a new hash, and the password still works', async () => {
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

  test('a PHC string in a POST is a plain password, too', async () => {
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

  test('copying the PHC string of another user does not copy the password', async () => {
    const owner = await service.addUser('owner');
    const thief = await service.addUser('thief');
    const hash = await stored('user', owner);
    assert.equal((await service.send('PUT', `/api/user/${thief}/`, { password: hash })).status, 200);
    assert.equal(await login('thief', 'pw-owner'), refused);
  });

  test('an excluded password can be changed, is never shown, and the old password stops working', async () => {
    const id = await service.addUser('carl');
    const put = await service.send('PUT', `/api/user/${id}/`, { password: 'new:one' });
    assert.equal(put.status, 200);
    assert.doesNotMatch(put.text, /argon2|password/);
    assert.match(await stored('user', id), PHC);
    assert.deepEqual([await login('carl', 'pw-carl'), await login('carl', 'new:one')], [refused, known]);
  });

  test('a user created by POST can log in', async () => {
    const body = { username: 'dora', password: 'x'.repeat(1024), email: '' };
    const { status, json } = await service.send('POST', '/api/user/', body);
    assert.deepEqual([status, json.active, json.admin], [201, true, false]);
    assert.equal(await login('dora', body.password), known);
  });

  test('a password that is empty, too long in bytes, or not a string is 400 together with other faults', async () => {
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

  test('null removes a password from a nullable column', async () => {
    const { json } = await service.send('POST', '/api/account/', { name: 'pin', password: 'x', pin: '1234' });
    assert.match(json.pin, PHC);
    const put = await service.send('PUT', `/api/account/${json.id}/`, { pin: null });
    assert.deepEqual(put.json, { ...json, pin: null });
  });

  test('a refused write keeps the password', async () => {
    const { json } = await service.send('POST', '/api/account/', { name: 'first', password: 'x' });
    await service.send('POST', '/api/account/', { name: 'second', password: 'x' });
    const before = await rowsOf(service.sql, 'account');
    const path = `/api/account/${json.id}/`;
    assert.equal((await service.send('PUT', path, { name: 'second', password: 'new' })).status, 409);
    assert.equal((await service.send('PUT', path, { name: 5, password: 'new' })).status, 400);
    assert.equal((await service.send('PUT', path, { password: 'new' }, { 'if-match': '"0"' })).status, 412);
    assert.deepEqual(await rowsOf(service.sql, 'account'), before);
  });

  test('no password is logged', async () => {
    const secret = 'Never-To-Be-Logged';
    const id = await service.addUser('log');
    await service.send('PUT', `/api/user/${id}/`, { password: secret });
    await service.send('PUT', `/api/user/${id}/`, { password: secret, username: 'ada' });
    await service.send('POST', '/api/account/', { name: 5, password: secret });
    await login('log', secret);
    await service.request('/api/the-last-line/');
    // Lines are logged with a delay, in their order.
    await eventually(() => service.lines.some(({ path }) => path === '/api/the-last-line/'), 'the last line');
    assert.doesNotMatch(JSON.stringify(service.lines), new RegExp(`${secret}|argon2`));
  });

  test('the start warns only about a resource that shows password hashes', () => {
    const warnings = service.lines
      .filter(({ level }) => level === 'warn')
      .map(({ message }) => String(message));
    const shown = warnings.filter((message) => /password/.test(message));
    assert.equal(shown.length, 1);
    assert.match(shown[0] ?? '', /\baccount\b.*\bpassword\b.*\bpin\b/);
    assert.equal(users.exclude?.includes('password'), true);
  });
});

test('a stored hash that needs too much memory is never verified', async () => {
  const passwords = createPasswords();
  const allowed = await hash('right', { timeCost: 1, parallelism: 4, memoryCost: 65_536 });
  // The same with 1,048,577 KiB, which takes seconds.
  const excessive =
    '$argon2id$v=19$m=1048577,t=1,p=4$QQKy9BYxElFhG5LvaBS0AQ$tNXkL0CELXBOgrKQF1TIKH/vcorG8izI+48QcczBtPk';
  const reordered = excessive.replace(/m=(\d+),t=(\d+)/, 't=$2,m=$1'); // parameters may be in any order
  // Of duplicate parameters, the library uses the last one.
  const withDuplicate = (costs: string): string => excessive.replace('$m=', `$${costs},m=`);
  for (const [stored, expected] of [
    [allowed, true],
    [excessive, false],
    [reordered, false],
    [withDuplicate('m=8,t=1,p=4'), false],
    [withDuplicate('m=8'), false],
    [allowed.replace(',p=4', ',p=4,t=1'), false],
  ] as const)
    assert.equal(await passwords.verify(stored, 'right'), expected, stored);
});

test('the start warns about one resource that shows a column of password hashes', async () => {
  const account: Resource = { model: 'account', columns: { pin: { type: 'password' } } };
  const hidden: Resource = { ...account, model: 'hidden', exclude: ['pin'] };
  const service = await startService([users, account, hidden]);
  await service.close(); // this writes the log
  const warnings = service.lines.filter(({ level }) => level === 'warn').map(({ message }) => message);
  assert.equal(warnings.length, 1);
  assert.match(String(warnings[0]), /\baccount\b.*\bpin\b/);
});
