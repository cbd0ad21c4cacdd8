// Passwords: rules for new ones, the end of sessions, and changes for which an admin must enter the current one.
import assert from 'node:assert/strict';
import { hash as hashOf } from '@node-rs/argon2';
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import type { Resource } from '../../src/index.ts';
import { basic, cheapHash, startService, CHEAP_COSTS } from '../support.ts';
import {
  confirmImport,
  errorsIn,
  fieldsOf,
  hiddenFields,
  invalidFields,
  logIn,
  readable,
  useAdmin,
  type AdminAnswer,
  type Fields,
} from './support.ts';
import { fromNewAddress, lockedOut, stopClock } from '../http/expect.ts';
import { resources } from './sample-resources.ts';
import { test } from 'node:test';

stopClock();

/** A password column that is not the one of the login, with its own minimum. */
const door: Resource = {
  model: 'door',
  columns: { name: { type: 'string' }, pin: { type: 'password', minLength: 4 } },
  access: 'user',
};
const safe: Resource = {
  model: 'safe',
  columns: { name: { type: 'string' }, pin: { type: 'password' }, puk: { type: 'password' } },
};
const twice = (password: string): Fields => ({ _password: password, _repeat: password });
/** The resources with a changed user model. */
const withUser = (change: (user: Resource) => Resource): readonly Resource[] =>
  resources.map((one) => (one.model === 'user' ? change(one) : one));

const { service, ada } = useAdmin([...resources, door, safe], { trustProxy: 1 });

/** Adds a note through the API with these credentials. */
const postNote = (user: string, password: string, at = service) => {
  const headers = { authorization: basic(user, password) };
  return at.request('/api/note/', { method: 'POST', headers, body: { message: 'Hi' } });
};

test('a new user needs a password typed twice, which no page repeats', async () => {
  const fields = { username: 'grace', email: 'g@example.org', active: 'true', _save: 'stay' };
  const differs = await ada.post('/admin/user/-/add/', { ...fields, _password: 'one', _repeat: 'two' });
  assert.match(readable(differs), /One field has an error New password, again ?: does not match the new/);
  assert.doesNotMatch(differs.text, /value="(one|two)"/);
  const none = await ada.post('/admin/user/-/add/', fields);
  assert.match(errorsIn(none)['_password'] ?? '', /required/i);
  const done = await ada.post('/admin/user/-/add/', { ...fields, ...twice('hopper of words') });
  assert.equal(done.status, 303);
  const page = await ada.follow(done);
  assert.doesNotMatch(page.text, /argon2|hopper/);
  assert.equal((await postNote('grace', 'hopper of words')).status, 201);
});

test('setting a password on its page ends the sessions of the user', async () => {
  const id = await service.addUser('linus', { admin: true });
  const linus = await logIn(service, 'linus');
  const page = await ada.get(`/admin/user/${id}/password/`);
  assert.equal(page.status, 200);
  const long = await ada.post(`/admin/user/${id}/password/`, twice('x'.repeat(1025)));
  assert.equal(long.status, 400);
  const fields = { _current: 'pw-ada', _password: 'a new password', _repeat: 'a new password' };
  const done = await ada.post(`/admin/user/${id}/password/`, fields);
  assert.equal(done.location, `/admin/user/${id}/`);
  assert.match((await linus.get('/admin/')).location ?? '', /login/);
  await logIn(service, 'linus', 'a new password');
  const [last] =
    await service.sql`select before, after from vitrine_history where model = 'user' order by id desc limit 1`;
  assert.equal(last?.['after'], '{"password":true}');
  assert.doesNotMatch(String(last?.['before']), /argon/);
});

test('setting the own password on the page of the record keeps the admin logged in', async () => {
  const id = await service.addUser('marie', { admin: true });
  const [marie, elsewhere] = [await logIn(service, 'marie'), await logIn(service, 'marie')];
  const path = `/admin/user/${id}/password/`;
  assert.match(readable(await marie.get(path)), /Changing your password ends all your other sessions\./);
  const fields = { _current: 'pw-marie', _password: 'polonium and radium', _repeat: 'polonium and radium' };
  const done = await marie.post(path, fields);
  assert.equal(done.location, `/admin/user/${id}/`);
  const page = await marie.follow(done);
  assert.equal(page.status, 200);
  assert.match(page.text, /class="flash done"[^>]*>Your password was changed\./);
  assert.match((await elsewhere.get('/admin/')).location ?? '', /login/);
  await logIn(service, 'marie', 'polonium and radium');
});

test('the password of the login is set, also if another password column comes first', async (t) => {
  const withPin = withUser((one) => ({
    ...one,
    columns: { pin: { type: 'password', null: true }, ...one.columns },
  }));
  const other = await startService(withPin);
  const note = (password: string) => postNote('grace', password, other);
  t.after(() => other.close());
  await other.addUser('ada', { admin: true });
  const own = await logIn(other, 'ada');
  const user = { username: 'grace', email: 'g', active: 'true', ...twice('hopper of words') };
  const added = await own.post('/admin/user/-/add/', user);
  assert.equal(added.status, 303, readable(added));
  assert.equal((await note('hopper of words')).status, 201);
  const [row] = await other.sql`select id, pin from "user" where username = 'grace'`;
  assert.equal(row?.['pin'], null);
  const set = await own.post(`/admin/user/${row?.['id']}/password/`, twice('another of words'));
  assert.equal(set.status, 303, readable(set));
  assert.equal((await note('hopper of words')).status, 401);
  assert.equal((await note('another of words')).status, 201);
});

test('a short password and one that equals the user name return 400 on every page', async () => {
  const plain = await service.addUser('a very long name');
  const jo = await service.addUser('jo and her long name', { admin: true });
  const browser = await logIn(service, 'jo and her long name');
  const user = { email: 'e', active: 'true' };
  const path = `/admin/user/${plain}/password/`;
  const account = '/admin/-/account/';
  const add = '/admin/user/-/add/';
  for (const [sender, page, password, fields, message] of [
    [ada, path, 'eleven char', {}, /at least 12 characters \(got 11\)/],
    [ada, path, 'A Very Long NAME', {}, /not be the user name/],
    [ada, add, '🦉'.repeat(11), { ...user, username: 'x' }, /\(got 11\)/],
    [ada, path, 'Passw0rd1234', {}, /one of the most common passwords/],
    [ada, add, 'twelve chars', { ...user, username: 'Twelve chars' }, /name/],
    [browser, account, 'short', { _current: 'pw-jo and her long name' }, /\(got 5\)/],
    [browser, account, 'Jo and her long name', { _current: 'x' }, /user name/],
  ] as const) {
    const answer = await sender.post(page, { ...fields, ...twice(password) });
    assert.equal(answer.status, 400);
    assert.deepEqual(invalidFields(answer), ['_password']);
    assert.match(readable(answer), message);
  }
  const page = await ada.get('/admin/user/-/add/');
  assert.match(readable(page), /At least 12 characters, not the user name, and not a common password\./);
  const [row] = await service.sql`select username from "user" where id = ${jo}`;
  assert.equal(row?.['username'], 'jo and her long name');
});

test('each password column has its own minLength, and its errors at its own field', async () => {
  const add = (pin: string): Promise<AdminAnswer> =>
    ada.post('/admin/door/-/add/', { name: 'Door', ...twice(pin) });
  assert.match(readable(await add('123')), /at least 4 characters \(got 3\)/);
  assert.equal((await add('1234')).status, 303);
  const post = (pin: string) =>
    service.request('/api/door/', { method: 'POST', user: 'ada', body: { name: 'Gate', pin } });
  assert.deepEqual((await post('123')).json.errors, { pin: ['must be at least 4 characters (got 3)'] });
  assert.equal((await post('1234')).status, 201);
  const { json } = await service.request('/api/openapi.json', { user: 'ada' });
  assert.equal(json.components.schemas['door.New'].properties.pin.minLength, 4);

  const refused = await ada.post('/admin/safe/-/add/', { name: 'Safe', ...twice('a long secret') });
  assert.equal(refused.status, 400);
  assert.deepEqual(invalidFields(refused), []);
  assert.match(readable(refused), /One field has an error puk ?: is required/);
});

test('a read-only password of the own user is not changed, and another password column ends no session', async (t) => {
  const other = await startService(
    withUser((one) => ({
      ...one,
      columns: { ...one.columns, pin: { type: 'password', minLength: 4, null: true } },
      admin: { ...one.admin, readonly: ['password'] },
    })),
  );
  t.after(() => other.close());
  const id = await other.addUser('ada', { admin: true });
  const own = await logIn(other, 'ada');
  const fields = { _current: 'pw-ada', ...twice('1234 but longer') };
  const page = await own.follow(await own.post(`/admin/user/${id}/password/`, fields));
  assert.match(page.text, /class="flash done"[^>]*>The password was set\./);
  const refused = await own.post('/admin/-/account/', fields);
  assert.equal(refused.status, 409, refused.location);
  await logIn(other, 'ada');
});

test('a read-only password has no page, and the command for an operator names the user as one argument', async (t) => {
  const closed = await startService(
    withUser((one) => ({ ...one, admin: { ...one.admin, readonly: ['password'] } })),
  );
  t.after(() => closed.close());
  for (const [name, ...before] of [["Ada O'Neil; echo $(id) `id`"], ['-ada', '--']] as [
    string,
    ...string[],
  ][]) {
    const id = await closed.addUser(name, { admin: true });
    const own = await logIn(closed, name);
    const fields = { _current: `pw-${name}`, ...twice('hopper of words') };
    assert.equal((await own.post(`/admin/user/${id}/password/`, fields)).status, 404);
    const refused = await own.post('/admin/-/account/', fields);
    assert.equal(refused.status, 409);
    const [command = ''] = /npx vitrine .*?'(?= |$)/.exec(readable(refused)) ?? [];
    const script = `npx() { printf '%s\\n' "$@"; }; ${command}`;
    const printed = execFileSync('sh', ['-c', script], { encoding: 'utf8' });
    assert.deepEqual(printed.split('\n').slice(0, -1), ['vitrine', 'user', 'password', ...before, name]);
  }
});

test('a change of the own password that is sent twice does not say that nothing was changed', async () => {
  await service.addUser('tess', { admin: true });
  const tess = await logIn(service, 'tess');
  const fields = { _current: 'pw-tess', _password: 'changed by tess', _repeat: 'changed by tess' };
  const page = fieldsOf(await tess.get('/admin/-/account/'));
  const cookies = new Map(tess.cookies);
  assert.equal((await tess.post('/admin/-/account/', { ...page, ...fields })).location, '/admin/-/account/');
  // A browser drops the answer to the first click, and its cookies.
  for (const [name, value] of cookies) tess.cookies.set(name, value);
  const again = await tess.post('/admin/-/account/', { ...page, ...fields });
  assert.equal(again.status, 303);
  const login = readable(await tess.follow(again));
  assert.match(login, /If you have just changed your password, log in with the new one\./);
  assert.doesNotMatch(login, /nothing was changed/);
  await logIn(service, 'tess', 'changed by tess');
});

test('a change of the own password during another one redirects to the login', async () => {
  const id = await service.addUser('uma', { admin: true });
  const uma = await logIn(service, 'uma');
  const hash = await cheapHash('changed by the first');
  const fields = { _current: 'pw-uma', _password: 'changed by uma', _repeat: 'changed by uma' };
  const page = fieldsOf(await uma.get('/admin/-/account/'));
  const { sent } = await service.sql.begin(async (transaction) => {
    // The form waits after the check of the current password.
    await transaction`lock table vitrine_history in access exclusive mode`;
    const answer = uma.post('/admin/-/account/', { ...page, ...fields });
    await lockedOut(service);
    await service.sql`update "user" set password = ${hash} where id = ${id}`;
    return { sent: answer };
  });
  const again = await sent;
  assert.equal(again.status, 303, again.text);
  assert.match(readable(await uma.follow(again)), /log in with the new one\./);
});

test('a session that ends while its password waits makes no token', async () => {
  const id = await service.addUser('wim', { admin: true });
  const wim = await logIn(service, 'wim');
  const hash = await hashOf('pw-wim', { ...CHEAP_COSTS, timeCost: 2 });
  const mark = createHash('sha256').update(hash).digest('hex');
  await service.sql`update "user" set password = ${hash} where id = ${id}`;
  await service.sql`update vitrine_session set password_mark = ${mark} where user_key = ${id}::text`;
  const form = { ...fieldsOf(await wim.get('/admin/-/tokens/')), _current: 'pw-wim' };
  const { sent } = await service.sql.begin(async (transaction) => {
    // The form waits for the new hash of a right password.
    await transaction`select from "user" where id = ${id} for update`;
    const answer = wim.post('/admin/-/tokens/', form);
    await lockedOut(service);
    await ada.post(`/admin/user/${id}/access/`, { _sessions: 'end' });
    return { sent: answer };
  });
  const refused = await sent;
  assert.equal(refused.status, 303, refused.text);
  assert.match(readable(await wim.follow(refused)), /nothing was changed/i);
  assert.equal((await service.sql`select from vitrine_token where user_key = ${id}::text`).length, 0);
});

test('a password of a user who changes in the meantime is refused on its page', async () => {
  const id = await service.addUser('vera');
  const fields = { _password: 'set for vera', _repeat: 'set for vera' };
  const path = `/admin/user/${id}/password/`;
  const page = fieldsOf(await ada.get(path));
  const { sent } = await service.sql.begin(async (transaction) => {
    await transaction`update "user" set email = 'changed' where id = ${id}`;
    const answer = ada.post(path, { ...page, ...fields });
    await lockedOut(service);
    return { sent: answer };
  });
  const refused = await sent;
  assert.equal(refused.status, 409);
  assert.match(errorsIn(refused)['_password'] ?? '', /was not set: the record has changed in the meantime/i);
  assert.equal((await ada.post(path, { ...fieldsOf(refused), ...fields })).status, 303);
  assert.equal((await postNote('vera', 'set for vera')).status, 201);
});

const NEW = { _password: 'a new password', _repeat: 'a new password' };

const rowOf = async (id: number): Promise<Record<string, unknown>> => {
  const [row] = await service.sql`select username, password, active, admin from "user" where id = ${id}`;
  return { ...row };
};

/** Checks that a form changes something only with the right current password. @returns the response to that */
async function assertConfirmed(
  path: string,
  fields: Fields,
  state: () => Promise<unknown>,
): Promise<AdminAnswer> {
  const stored = await state();
  for (const current of ['', 'wrong']) {
    const refused = await ada.post(path, { ...fields, _current: current }, fromNewAddress());
    assert.equal(refused.status, 400, readable(refused));
    assert.deepEqual(invalidFields(refused), ['_current']);
    assert.match(
      readable(refused),
      current === '' ? /is required to confirm this change/i : /is not your password/i,
    );
    assert.deepEqual(await state(), stored);
  }
  const done = await ada.post(path, { ...fields, _current: 'pw-ada' }, fromNewAddress());
  assert.equal(done.status, 303, readable(done));
  assert.notDeepEqual(await state(), stored);
  return done;
}

test('setting the password of an admin needs the current password, that of another user does not', async () => {
  const admin = await service.addUser('bea', { admin: true });
  await assertConfirmed(`/admin/user/${admin}/password/`, NEW, () => rowOf(admin));
  const plain = await service.addUser('bob');
  const page = await ada.get(`/admin/user/${plain}/password/`);
  assert.doesNotMatch(page.text, /_current/);
  assert.equal((await ada.post(`/admin/user/${plain}/password/`, NEW)).status, 303);
});

test('promoting, demoting and deactivating an admin needs the current password', async () => {
  const id = await service.addUser('dora');
  const path = `/admin/user/${id}/`;
  const change = async (changes: Fields, without: readonly string[] = []): Promise<Fields> => {
    const fields: Record<string, string | readonly string[]> = {
      ...fieldsOf(await ada.get(path)),
      ...changes,
    };
    for (const name of without) delete fields[name];
    return fields;
  };
  await assertConfirmed(path, await change({ admin: 'true' }), () => rowOf(id));
  await assertConfirmed(path, await change({}, ['active']), () => rowOf(id));
  await assertConfirmed(path, await change({ active: 'true' }), () => rowOf(id));
  await assertConfirmed(path, await change({}, ['admin']), () => rowOf(id));
  assert.equal(
    (await ada.post(path, await change({}, ['active']))).status,
    303,
    'the user is no longer an admin',
  );
});

test('renaming an admin needs the current password, renaming another user does not', async () => {
  const id = await service.addUser('june', { admin: true });
  const path = `/admin/user/${id}/`;
  const renamed = async (username: string): Promise<Fields> => ({
    ...fieldsOf(await ada.get(path)),
    username,
  });
  await assertConfirmed(path, await renamed('july'), () => rowOf(id));
  assert.match(readable(await ada.get(path)), /Required to rename an admin/);
  await service.sql`update "user" set admin = false where id = ${id}`;
  assert.equal((await ada.post(path, await renamed('june'))).status, 303);
});

test('changing the e-mail address of an admin needs no password', async () => {
  const id = await service.addUser('emil', { admin: true });
  const path = `/admin/user/${id}/`;
  const fields = { ...fieldsOf(await ada.get(path)), email: 'new@example.org' };
  assert.equal((await ada.post(path, fields)).status, 303);
});

test('adding an admin needs the current password, adding another user does not', async () => {
  const count = async (): Promise<unknown> => service.sql`select count(*) from "user"`;
  const fields = { email: 'e', active: 'true', ...NEW };
  const add = '/admin/user/-/add/';
  await assertConfirmed(add, { ...fields, username: 'fay', admin: 'true' }, count);
  assert.equal((await ada.post(add, { ...fields, username: 'finn' })).status, 303);
});

test('bulk actions that promote, deactivate or rename users need the current password', async () => {
  const id = await service.addUser('gus');
  for (const [column, value] of [
    ['admin', 'true'],
    ['active', 'false'],
    ['username', 'gus, renamed'],
  ] as const) {
    const choice = { _action: 'set', _state: '', _id: String(id), _column: column, _value: '1' };
    const confirmation = await ada.post('/admin/user/-/bulk/', { ...choice, [column]: value });
    assert.match(confirmation.text, /name="_current"/);
    const fields = { ...hiddenFields(confirmation, 'record'), _confirm: '1' };
    await assertConfirmed('/admin/user/-/bulk/', fields, () => rowOf(id));
  }
});

test('an import of the column “admin” needs the current password', async () => {
  const id = await service.addUser('hal');
  const path = '/admin/user/-/import/';
  const preview = await ada.post(path, { _text: `id,admin\n${id},true\n` });
  await assertConfirmed(path, fieldsOf(preview), () => rowOf(id));
});

test('password managers find the own user name before the current password, and no form sends it', async () => {
  const id = await service.addUser('joe', { admin: true });
  const choice = {
    _action: 'set',
    _state: '',
    _id: String(id),
    _column: 'admin',
    _value: '1',
    admin: 'true',
  };
  const pages = {
    record: await ada.get(`/admin/user/${id}/`),
    deletion: await ada.get(`/admin/user/${id}/delete/`),
    bulk: await ada.post('/admin/user/-/bulk/', choice),
    import: await ada.post('/admin/user/-/import/', { _text: `id,active\n${id},false\n` }),
  };
  for (const [name, { text }] of Object.entries(pages)) {
    const inputs = [...text.matchAll(/<input\b[^>]*>/g)].map(([tag]) => tag.replace(/\s+/g, ' '));
    const at = inputs.findIndex((tag) => tag.includes('name="_current"'));
    const field = inputs.slice(0, at).findLast((tag) => /type="(text|email)"/.test(tag)) ?? '';
    const parts = [
      'value="ada"',
      'autocomplete="username"',
      'readonly',
      'tabindex="-1"',
      'aria-hidden="true"',
    ];
    for (const part of parts) assert.ok(field.includes(` ${part} `), `${name}: ${part} in ${field}`);
    assert.doesNotMatch(field, / name=/, name);
  }
});

test('an import that renames a user needs the current password, one that repeats the name does not', async () => {
  const id = await service.addUser('kim', { admin: true });
  const path = '/admin/user/-/import/';
  const previewOf = (name: string, email: string): Promise<AdminAnswer> =>
    ada.post(path, { _text: `id,username,email\n${id},${name},${email}\n` });
  const same = await previewOf('kim', 'k@example.org');
  assert.doesNotMatch(same.text, /_current/);
  assert.equal((await confirmImport(ada, path, same)).status, 303);

  const renaming = await previewOf('kit', 'k@example.org');
  assert.match(renaming.text, /name="_current"/);
  const stored = await rowOf(id);
  const rest = Object.entries(fieldsOf(renaming)).filter(([name]) => name !== '_current');
  const without = await ada.post(path, Object.fromEntries(rest));
  assert.equal(without.status, 409);
  assert.match(without.text, /name="_current"/);
  assert.deepEqual(await rowOf(id), stored);
  await assertConfirmed(path, fieldsOf(renaming), () => rowOf(id));
});

test('the 11th wrong password from an address is 429, on each page that asks for it', async () => {
  const id = await service.addUser('ina', { admin: true });
  const deletion = hiddenFields(await ada.get(`/admin/user/${id}/delete/`), 'confirm');
  const text = `id,username\n${id},una\n`;
  const importing = fieldsOf(await ada.post('/admin/user/-/import/', { _text: text }));
  const renaming = { ...fieldsOf(await ada.get(`/admin/user/${id}/`)), username: 'una' };
  const setting = { _action: 'set', _state: '', _id: String(id), _column: 'admin', _value: '1' };
  const pages = [
    [`/admin/user/${id}/password/`, NEW],
    [`/admin/user/${id}/delete/`, deletion],
    [`/admin/user/${id}/`, renaming],
    ['/admin/user/-/add/', { username: 'una', ...NEW, email: 'u', active: 'true', admin: 'true' }],
    ['/admin/user/-/bulk/', { ...setting, _confirm: '1', _expected: '1' }],
    ['/admin/user/-/import/', importing],
    ['/admin/-/account/', NEW],
  ] as const;
  const address = fromNewAddress();
  for (let count = 0; count < 10; count += 1) {
    const [path, fields] = pages[count % pages.length] ?? pages[0];
    assert.equal(
      (await ada.post(path, { ...fields, _current: `wrong ${count}` }, address)).status,
      400,
      path,
    );
  }
  for (const [path, fields] of pages)
    for (const current of ['wrong', 'pw-ada']) {
      const refused = await ada.post(path, { ...fields, _current: current }, address);
      assert.equal(refused.status, 429, path);
      assert.match(refused.headers.get('retry-after') ?? '', /^[1-9]\d?$/, path);
      if (path !== '/admin/-/account/') assert.deepEqual(invalidFields(refused), ['_current'], path);
    }
  assert.equal((await service.sql`select from "user" where id = ${id}`).count, 1);
});
