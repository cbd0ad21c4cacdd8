// Columns of the type password: plain text in, a PHC string of argon2id out.
import { hash } from '@node-rs/argon2';
import assert from 'node:assert/strict';
import type { Resource } from '../../src/index.ts';
import { rowsOf, useWritable, users, type WritableService } from '../db/helpers.ts';
import { createPasswords } from '../../src/resources/users/password-hashing.ts';
import { basic, cheapHash, eventually, type Answer, hashAt, REAL_COSTS } from '../support.ts';
import { describe, test } from 'node:test';

hashAt(REAL_COSTS);

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
const hidden: Resource = { model: 'hidden', columns: { pin: { type: 'password' } }, exclude: ['pin'] };

describe('passwords', () => {
  const service: WritableService = useWritable([account, hidden]);

  const stored = async (table: string, id: number): Promise<string> => {
    const [row] = await service.sql`select password from ${service.sql(table)} where id = ${id}`;
    return String(row?.['password']);
  };
  const login = async (name: string, password: string): Promise<number> => {
    const headers = { authorization: basic(name, password), 'content-type': 'application/json' };
    return (await service.request('/api/account/0/', { method: 'PUT', headers, body: '{}' })).status;
  };
  const [known, refused] = [404, 401]; // account 0 does not exist, and 401 takes precedence over 404
  const create = async (body: object): Promise<{ path: string; json: Answer['json'] }> => {
    const { status, text, json } = await service.send('POST', '/api/account/', body);
    assert.equal(status, 201, text);
    return { path: `/api/account/${json.id}/`, json };
  };

  test('a plain password is stored and shown as an argon2id PHC string', async () => {
    const { json } = await create({ name: 'a', password: 'péss:wörd 🦉' });
    assert.match(json.password, PHC);
    assert.equal(json.password, await stored('account', json.id));
    assert.equal(json.pin, null);
    const { json: twin } = await create({ name: 'twin', password: 'same', pin: 'same' });
    assert.notEqual(twin.password, twin.pin, 'equal passwords get different hashes');
  });

  test('sending the stored text back changes nothing, whatever it is', async () => {
    const { json: made } = await create({ name: 'back', password: 'x' });
    const texts = [
      made.password as string,
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
      assert.equal((await service.send('PUT', path, { pin: `${'x'.repeat(1025)}y` })).status, 400);
      assert.match((await service.send('PUT', path, { pin: 'a new one' })).json.pin, PHC);
    }
  });

  test('of a hidden password only the stored PHC string changes nothing, and any other text is a new password', async () => {
    const id = await service.addUser('same');
    const path = `/api/user/${id}/`;
    const [before, { headers }] = [await stored('user', id), await service.request(path)];
    const put = await service.send('PUT', path, { password: before });
    assert.deepEqual([put.status, put.headers.get('etag')], [200, headers.get('etag')]);
    assert.equal(await stored('user', id), before);
    assert.equal(await login('same', 'pw-same'), known);
    const md5 = '5f4dcc3b5aa765d61d8327deb882cf99';
    const [empty, legacy] = [
      await service.addUser('legacy', { password: '' }),
      await service.addUser('md5', { password: md5 }),
    ];
    assert.equal((await service.send('PUT', `/api/user/${empty}/`, { password: '' })).status, 400);
    assert.equal((await service.send('PUT', `/api/user/${legacy}/`, { password: md5 })).status, 200);
    assert.match(await stored('user', legacy), PHC);
  });

  test('a PHC string that is not the stored one is a plain password, in a PUT and in a POST', async () => {
    const id = await service.addUser('eve');
    const victim = await service.addUser('victim');
    const chosen = await cheapHash('chosen by an attacker');
    for (const [text, copied] of [
      [chosen, 'chosen by an attacker'],
      [await stored('user', victim), 'pw-victim'],
    ] as const) {
      assert.equal((await service.send('PUT', `/api/user/${id}/`, { password: text })).status, 200);
      assert.notEqual(await stored('user', id), text);
      assert.equal(await login('eve', copied), refused);
      assert.equal(await login('eve', text), known);
    }
    const { json } = await create({ name: 'phc', password: chosen, pin: '$argon2id$' });
    assert.notEqual(json.password, chosen);
    assert.match(json.password, PHC);
    assert.match(json.pin, PHC);
  });

  test('an excluded password can be changed, is never shown, and the old password stops working', async () => {
    const id = await service.addUser('carl');
    const put = await service.send('PUT', `/api/user/${id}/`, { password: 'new:one' });
    assert.equal(put.status, 200);
    assert.doesNotMatch(put.text, /argon2|password/);
    const first = await stored('user', id);
    assert.match(first, PHC);
    assert.deepEqual([await login('carl', 'pw-carl'), await login('carl', 'new:one')], [refused, known]);
    assert.equal((await service.send('PUT', `/api/user/${id}/`, { password: 'new:one' })).status, 200);
    assert.notEqual(await stored('user', id), first, 'the same plain password gets a new hash');
    assert.equal(await login('carl', 'new:one'), known);
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
      assert.deepEqual([status, Object.keys(json.errors).sort()], [400, ['name', 'nope', 'password']]);
    }
    const { path } = await create({ name: 'long', password: 'x' });
    for (const password of ['é'.repeat(512), ' ']) {
      const answer = await service.send('PUT', path, { password });
      assert.equal(answer.status, 200, answer.text);
    }
  });

  test('null removes a password from a nullable column, and a refused write keeps it', async () => {
    const { path, json } = await create({ name: 'first', password: 'x', pin: '1234' });
    const put = await service.send('PUT', path, { pin: null });
    assert.deepEqual(put.json, { ...json, pin: null });
    await create({ name: 'second', password: 'x' });
    const before = await rowsOf(service.sql, 'account');
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
    const shown = warnings.filter((message) => /password|pin/.test(message));
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
  for (const [text, expected] of [
    [allowed, true],
    [excessive, false],
    [reordered, false],
    [withDuplicate('m=8,t=1,p=4'), false],
    [withDuplicate('m=8'), false],
    [allowed.replace(',p=4', ',p=4,t=1'), false],
  ] as const)
    assert.equal(await passwords.verify(text, 'right'), expected, text);
});
