import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { fromNewAddress } from '../http/expect.ts';
import { startService, type TestService } from '../support.ts';
import {
  fieldsOf,
  hiddenFields,
  logIn,
  readable,
  type AdminAnswer,
  type Browser,
  type Fields,
} from './support.ts';
import { resources } from './things.ts';

const NEW = { _password: 'a new password', _repeat: 'a new password' };

let service: TestService;
let ada: Browser;
before(async () => {
  service = await startService(resources, { trustProxy: 1 });
  await service.addUser('ada', { admin: true });
  ada = await logIn(service, 'ada');
});
after(() => service.close());

const faulty = ({ text }: AdminAnswer): string[] =>
  [...text.matchAll(/id="field-(\w+)-error"/g)].map(([, name = '']) => name);

const rowOf = async (id: number): Promise<Record<string, unknown>> => {
  const [row] = await service.sql`select username, password, active, admin from "user" where id = ${id}`;
  return { ...row };
};

/** Sends a form without the own password, with a wrong one, and with the right one, which alone changes something. */
async function assertConfirmed(
  path: string,
  fields: Fields,
  state: () => Promise<unknown>,
): Promise<AdminAnswer> {
  const stored = await state();
  for (const current of ['', 'wrong']) {
    const refused = await ada.post(path, { ...fields, _current: current }, fromNewAddress());
    assert.equal(refused.status, 400, readable(refused));
    assert.deepEqual(faulty(refused), ['_current']);
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

test('another admin’s password is set with one’s own, and that of other users without', async () => {
  const admin = await service.addUser('bea', { admin: true });
  await assertConfirmed(`/admin/user/${admin}/password/`, NEW, () => rowOf(admin));
  const plain = await service.addUser('bob');
  const page = await ada.get(`/admin/user/${plain}/password/`);
  assert.doesNotMatch(page.text, /_current/);
  assert.equal((await ada.post(`/admin/user/${plain}/password/`, NEW)).status, 303);
});

test('one’s own password is not set on the page for others without the current one', async () => {
  const id = await service.addUser('cleo', { admin: true });
  const cleo = await logIn(service, 'cleo');
  const path = `/admin/user/${id}/password/`;
  assert.deepEqual(faulty(await cleo.post(path, NEW)), ['_current']);
  assert.equal((await cleo.post(path, { ...NEW, _current: 'pw-cleo' })).status, 303);
});

test('admins are made, demoted and deactivated with one’s own password', async () => {
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
  assert.equal((await ada.post(path, await change({}, ['active']))).status, 303, 'no admin any more');
});

test('a change of an admin that gives no power needs no password', async () => {
  const id = await service.addUser('emil', { admin: true });
  const path = `/admin/user/${id}/`;
  const fields = { ...fieldsOf(await ada.get(path)), email: 'new@example.org' };
  assert.equal((await ada.post(path, fields)).status, 303);
});

test('a new admin is added with one’s own password, and another user without', async () => {
  const count = async (): Promise<unknown> => service.sql`select count(*) from "user"`;
  const fields = { email: 'e', active: 'true', ...NEW };
  const add = '/admin/user/-/add/';
  await assertConfirmed(add, { ...fields, username: 'fay', admin: 'true' }, count);
  assert.equal((await ada.post(add, { ...fields, username: 'finn' })).status, 303);
});

test('many users are made admins, and deactivated, with one’s own password', async () => {
  const id = await service.addUser('gus');
  for (const [column, value] of [
    ['admin', 'true'],
    ['active', 'false'],
  ] as const) {
    const asking = { _action: 'set', _state: '', _id: String(id), _column: column, _value: '1' };
    const asked = await ada.post('/admin/user/-/bulk/', { ...asking, [column]: value });
    assert.match(asked.text, /name="_current"/);
    const fields = { ...hiddenFields(asked, 'record'), _confirm: '1' };
    await assertConfirmed('/admin/user/-/bulk/', fields, () => rowOf(id));
  }
});

test('an import that could make admins needs one’s own password', async () => {
  const id = await service.addUser('hal');
  const path = '/admin/user/-/import/';
  const preview = await ada.post(path, { _text: `id,admin\n${id},true\n` });
  await assertConfirmed(path, hiddenFields(preview, 'record'), () => rowOf(id));
});

test('guesses of the own password are throttled', async () => {
  const id = await service.addUser('ina', { admin: true });
  const address = fromNewAddress();
  const path = `/admin/user/${id}/password/`;
  for (let count = 0; count < 10; count += 1)
    assert.equal((await ada.post(path, { ...NEW, _current: `wrong ${count}` }, address)).status, 400);
  for (const current of ['wrong', 'pw-ada']) {
    const refused = await ada.post(path, { ...NEW, _current: current }, address);
    assert.equal(refused.status, 429);
    assert.deepEqual(faulty(refused), ['_current']);
  }
});

test('passwords that are short, or the user’s name, are refused on every page', async () => {
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
    assert.deepEqual(faulty(answer), ['_password']);
    assert.match(readable(answer), message);
  }
  const page = await ada.get('/admin/user/-/add/');
  assert.match(readable(page), /At least 12 characters, and not the user name\./);
  assert.equal((await rowOf(jo))['username'], 'jo and her long name');
});

test('a password column of another model is held to its own minLength', async () => {
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
