// Setting passwords in the admin area: rules for new passwords, and the end of sessions.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
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

let service: TestService;
let ada: Browser;
before(async () => {
  service = await startService(resources);
  await service.addUser('ada', { admin: true });
  ada = await logIn(service, 'ada');
});
after(() => service.close());

test('a new user needs a password typed twice, which no page repeats', async () => {
  const fields = { username: 'grace', email: 'g@example.org', active: 'true', _save: 'stay' };
  const differs = await ada.post('/admin/user/-/add/', { ...fields, _password: 'one', _repeat: 'two' });
  assert.match(errorsIn(differs)['_repeat'] ?? '', /does not match the new password/i);
  assert.doesNotMatch(differs.text, /value="(one|two)"/);
  const none = await ada.post('/admin/user/-/add/', fields);
  assert.match(errorsIn(none)['_password'] ?? '', /required/i);
  const done = await ada.post('/admin/user/-/add/', {
    ...fields,
    _password: 'hopper of words',
    _repeat: 'hopper of words',
  });
  assert.equal(done.status, 303);
  const page = await ada.follow(done);
  assert.doesNotMatch(page.text, /argon2|hopper/);
  assert.equal(
    (
      await service.request('/api/note/', {
        method: 'POST',
        headers: { authorization: basic('grace', 'hopper of words') },
        body: { message: 'Hi' },
      })
    ).status,
    201,
  );
});

test('two different passwords are reported as one error, on the second field', async () => {
  const fields = { username: 'new', email: 'e', active: 'true' };
  const page = await ada.post('/admin/user/-/add/', { ...fields, _password: 'a', _repeat: 'b' });
  assert.match(readable(page), /One field has an error New password, again ?: does not match the new/);
});

test('setting a password on its page ends the sessions of the user', async () => {
  const id = await service.addUser('linus', { admin: true });
  const linus = await logIn(service, 'linus');
  const page = await ada.get(`/admin/user/${id}/password/`);
  assert.equal(page.status, 200);
  const long = await ada.post(`/admin/user/${id}/password/`, {
    _password: 'x'.repeat(1025),
    _repeat: 'x'.repeat(1025),
  });
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

test('a further password column of the own user ends no session', async () => {
  const withPin = resources.map((one) =>
    one.model === 'user'
      ? {
          ...one,
          columns: { ...one.columns, pin: { type: 'password', minLength: 4, null: true } as const },
          admin: { ...one.admin, readonly: ['password'] },
        }
      : one,
  );
  const other = await startService(withPin);
  try {
    const id = await other.addUser('ada', { admin: true });
    const own = await logIn(other, 'ada');
    const fields = { _current: 'pw-ada', _password: '1234 but longer', _repeat: '1234 but longer' };
    const page = await own.follow(await own.post(`/admin/user/${id}/password/`, fields));
    assert.match(page.text, /class="flash done"[^>]*>The password was set\./);
  } finally {
    await other.close();
  }
});

test('the password of the login is set, also if another password column comes first', async () => {
  const withPin = resources.map((one) => {
    if (one.model !== 'user') return one;
    const { username, ...others } = one.columns;
    return { ...one, columns: { username, pin: { type: 'password', null: true } as const, ...others } };
  });
  const other = await startService(withPin);
  const note = (password: string) =>
    other.request('/api/note/', {
      method: 'POST',
      headers: { authorization: basic('grace', password) },
      body: { message: 'Hi' },
    });
  try {
    await other.addUser('ada', { admin: true });
    const own = await logIn(other, 'ada');
    const twice = (password: string): Fields => ({ _password: password, _repeat: password });
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

test('a fault of a further password column is not shown at the field of the first', async () => {
  const device = {
    model: 'device',
    columns: { name: { type: 'string' }, pin: { type: 'password' }, puk: { type: 'password' } },
  } as const;
  const other = await startService([...resources, device]);
  try {
    await other.addUser('ada', { admin: true });
    const browser = await logIn(other, 'ada');
    const fields = { name: 'Door', _password: 'a long secret', _repeat: 'a long secret' };
    const refused = await browser.post('/admin/device/-/add/', fields);
    assert.equal(refused.status, 400);
    assert.deepEqual(invalidFields(refused), []);
    assert.match(readable(refused), /One field has an error puk ?: is required/);
  } finally {
    await other.close();
  }
});

test('a short password and one that equals the user name return 400 on every page', async () => {
  const plain = await service.addUser('a very long name');
  const jo = await service.addUser('jo and her long name', { admin: true });
  const browser = await logIn(service, 'jo and her long name');
  const twice = (password: string): Fields => ({ _password: password, _repeat: password });
  const user = { email: 'e', active: 'true' };
  for (const [answer, message] of [
    [
      await ada.post(`/admin/user/${plain}/password/`, twice('eleven char')),
      /at least 12 characters \(got 11\)/,
    ],
    [await ada.post(`/admin/user/${plain}/password/`, twice('A Very Long NAME')), /not be the user name/],
    [
      await ada.post('/admin/user/-/add/', { ...user, username: 'x', ...twice('🦉'.repeat(11)) }),
      /\(got 11\)/,
    ],
    [
      await ada.post('/admin/user/-/add/', { ...user, username: 'Twelve chars', ...twice('twelve chars') }),
      /name/,
    ],
    [
      await browser.post('/admin/-/account/', { ...twice('short'), _current: 'pw-jo and her long name' }),
      /\(got 5\)/,
    ],
    [
      await browser.post('/admin/-/account/', { ...twice('Jo and her long name'), _current: 'x' }),
      /user name/,
    ],
  ] as const) {
    assert.equal(answer.status, 400);
    assert.deepEqual(invalidFields(answer), ['_password']);
    assert.match(readable(answer), message);
  }
  const page = await ada.get('/admin/user/-/add/');
  assert.match(readable(page), /At least 12 characters, and not the user name\./);
  const [row] = await service.sql`select username from "user" where id = ${jo}`;
  assert.equal(row?.['username'], 'jo and her long name');
});

test('a password column of another model has its own minLength', async () => {
  const device = {
    model: 'device',
    columns: { name: { type: 'string' }, pin: { type: 'password', minLength: 4 } },
    access: 'user',
  } as const;
  const other = await startService([...resources, device]);
  try {
    await other.addUser('ada', { admin: true });
    const browser = await logIn(other, 'ada');
    const add = (pin: string): Promise<AdminAnswer> =>
      browser.post('/admin/device/-/add/', { name: 'Door', _password: pin, _repeat: pin });
    assert.match(readable(await add('123')), /at least 4 characters \(got 3\)/);
    assert.equal((await add('1234')).status, 303);
    const post = (pin: string) =>
      other.request('/api/device/', { method: 'POST', user: 'ada', body: { name: 'Gate', pin } });
    const refused = await post('123');
    assert.equal(refused.status, 400);
    assert.deepEqual(refused.json.errors, { pin: ['must be at least 4 characters (got 3)'] });
    assert.equal((await post('1234')).status, 201);
    const { json } = await other.request('/api/openapi.json', { user: 'ada' });
    assert.equal(json.components.schemas['device.New'].properties.pin.minLength, 4);
  } finally {
    await other.close();
  }
});

test('a read-only password has no page, and no admin changes the own one', async () => {
  const readonly = resources.map((one) =>
    one.model === 'user' ? { ...one, admin: { ...one.admin, readonly: ['password'] } } : one,
  );
  const closed = await startService(readonly);
  try {
    const id = await closed.addUser('ada', { admin: true });
    const own = await logIn(closed, 'ada');
    const fields = { _password: 'hopper of words', _repeat: 'hopper of words', _current: 'pw-ada' };
    assert.equal((await own.post(`/admin/user/${id}/password/`, fields)).status, 404);
    const refused = await own.post('/admin/-/account/', fields);
    assert.equal(refused.status, 409, refused.location);
    assert.match(readable(refused), /npx vitrine user password 'ada'/);
    await logIn(closed, 'ada');
  } finally {
    await closed.close();
  }
});

test('the command for an operator names the user as one argument in a shell', async () => {
  const readonly = resources.map((one) =>
    one.model === 'user' ? { ...one, admin: { ...one.admin, readonly: ['password'] } } : one,
  );
  const closed = await startService(readonly);
  try {
    for (const [name, ...before] of [["Ada O'Neil; echo $(id) `id`"], ['-ada', '--']] as [
      string,
      ...string[],
    ][]) {
      await closed.addUser(name, { admin: true });
      const own = await logIn(closed, name);
      const refused = await own.post('/admin/-/account/', { _password: 'a', _repeat: 'a', _current: 'b' });
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
  const note = {
    method: 'POST',
    headers: { authorization: basic('vera', 'set for vera') },
    body: { message: 'Hi' },
  };
  assert.equal((await service.request('/api/note/', note)).status, 201);
});
