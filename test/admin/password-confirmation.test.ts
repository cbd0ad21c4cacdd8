// Changes of the powers, names and passwords of admins need the current password.
import assert from 'node:assert/strict';
import { fromNewAddress, stopClock } from '../http/expect.ts';
import { startService, type TestService } from '../support.ts';
import {
  fieldsOf,
  hiddenFields,
  invalidFields,
  logIn,
  readable,
  type AdminAnswer,
  type Browser,
  type Fields,
} from './support.ts';
import { resources } from './sample-resources.ts';
import { after, before, test } from 'node:test';

stopClock();

const NEW = { _password: 'a new password', _repeat: 'a new password' };

let service: TestService;
let ada: Browser;
before(async () => {
  service = await startService(resources, { trustProxy: 1 });
  await service.addUser('ada', { admin: true });
  ada = await logIn(service, 'ada');
});
after(() => service.close());

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
  await assertConfirmed(path, hiddenFields(preview, 'record'), () => rowOf(id));
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
  assert.equal((await ada.post(path, hiddenFields(same, 'record'))).status, 303);

  const renaming = await previewOf('kit', 'k@example.org');
  assert.match(renaming.text, /name="_current"/);
  const stored = await rowOf(id);
  const without = await ada.post(path, hiddenFields(renaming, 'record'));
  assert.equal(without.status, 409);
  assert.match(without.text, /name="_current"/);
  assert.deepEqual(await rowOf(id), stored);
  await assertConfirmed(path, hiddenFields(renaming, 'record'), () => rowOf(id));
});

test('the 11th wrong password from an address is 429, on each page that asks for it', async () => {
  const id = await service.addUser('ina', { admin: true });
  const deletion = hiddenFields(await ada.get(`/admin/user/${id}/delete/`), 'confirm');
  const text = `id,username\n${id},una\n`;
  const importing = hiddenFields(await ada.post('/admin/user/-/import/', { _text: text }), 'record');
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
