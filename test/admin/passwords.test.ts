// Setting passwords in the admin area: rules for new passwords, and the end of sessions.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import type { Resource } from '../../src/index.ts';
import { basic, cheapHash, startService, type TestService } from '../support.ts';
import {
  errorsIn,
  fieldsOf,
  invalidFields,
  logIn,
  readable,
  type AdminAnswer,
  type Browser,
  type Fields,
} from './support.ts';
import { lockedOut } from '../http/expect.ts';
import { resources } from './sample-resources.ts';
import { after, before, test } from 'node:test';

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

let service: TestService;
let ada: Browser;
before(async () => {
  service = await startService([...resources, door, safe]);
  await service.addUser('ada', { admin: true });
  ada = await logIn(service, 'ada');
});
after(() => service.close());

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

test('the password of the login is set, also if another password column comes first', async () => {
  const withPin = withUser((one) => ({
    ...one,
    columns: { pin: { type: 'password', null: true }, ...one.columns },
  }));
  const other = await startService(withPin);
  const note = (password: string) => postNote('grace', password, other);
  try {
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
  } finally {
    await other.close();
  }
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
  assert.match(readable(page), /At least 12 characters, and not the user name\./);
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

test('a read-only password of the own user is not changed, and another password column ends no session', async () => {
  const other = await startService(
    withUser((one) => ({
      ...one,
      columns: { ...one.columns, pin: { type: 'password', minLength: 4, null: true } },
      admin: { ...one.admin, readonly: ['password'] },
    })),
  );
  try {
    const id = await other.addUser('ada', { admin: true });
    const own = await logIn(other, 'ada');
    const fields = { _current: 'pw-ada', ...twice('1234 but longer') };
    const page = await own.follow(await own.post(`/admin/user/${id}/password/`, fields));
    assert.match(page.text, /class="flash done"[^>]*>The password was set\./);
    const refused = await own.post('/admin/-/account/', fields);
    assert.equal(refused.status, 409, refused.location);
    await logIn(other, 'ada');
  } finally {
    await other.close();
  }
});

test('a read-only password has no page, and the command for an operator names the user as one argument', async () => {
  const closed = await startService(
    withUser((one) => ({ ...one, admin: { ...one.admin, readonly: ['password'] } })),
  );
  try {
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
  } finally {
    await closed.close();
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
