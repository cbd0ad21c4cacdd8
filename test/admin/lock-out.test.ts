// Admins cannot delete, deactivate or demote themselves by mistake.
import assert from 'node:assert/strict';
import type { Resource } from '../../src/index.ts';
import { user } from '../../src/resources/registry.ts';
import { startService, type TestService } from '../support.ts';
import { fieldsOf, hiddenFields, logIn, readable, type Browser } from './support.ts';
import { after, before, test } from 'node:test';

const team: Resource = { model: 'team', columns: { name: { type: 'string' } }, access: 'user' };
const toTeam = { type: 'foreignKey', references: 'team', null: true, onDelete: 'cascade' } as const;

let service: TestService;
let ada: Browser;
let id = 0;
before(async () => {
  service = await startService([{ ...user, columns: { ...user.columns, team: toTeam } }, team]);
  id = await service.addUser('ada', { admin: true });
  ada = await logIn(service, 'ada');
});
after(() => service.close());

const countUsers = async (): Promise<number> => (await service.sql`select from "user"`).count;

for (const field of ['admin', 'active']) {
  test(`an admin cannot clear their own “${field}”, in the form`, async () => {
    const fields = fieldsOf(await ada.get(`/admin/user/${id}/`));
    delete fields[field];
    const refused = await ada.post(`/admin/user/${id}/`, fields);
    assert.equal(refused.status, 400);
    assert.match(refused.text, /would lock you out/);
    const [row] = await service.sql`select active, admin from "user" where id = ${id}`;
    assert.deepEqual({ ...row }, { active: true, admin: true });
  });
}

test('an admin cannot delete their own user, but another admin can', async () => {
  const bob = await service.addUser('bob', { admin: true });
  const browser = await logIn(service, 'bob');
  const path = `/admin/user/${bob}/delete/`;
  const page = await browser.get(path);
  assert.match(readable(page), /You cannot delete your own user\. Ask another admin to do it\./);
  assert.doesNotMatch(page.text, /class="danger"|class="confirm"/);
  const fields = hiddenFields(await ada.get(path), 'confirm');
  const { _csrf, ...others } = fields; // the token is that of the other browser
  assert.ok(_csrf);
  const refused = await browser.post(path, others);
  assert.equal(refused.status, 403);
  assert.match(readable(refused), /You cannot delete your own user\. Ask another admin to do it\./);
  assert.equal(await countUsers(), 2);
  assert.equal((await ada.post(path, { ...fields, _current: 'pw-ada' })).status, 303);
  assert.equal(await countUsers(), 1);
});

test('bulk actions do not let admins delete, deactivate or demote themselves', async () => {
  const path = '/admin/user/-/bulk/';
  const bob = String(await service.addUser('bob', { admin: true }));
  const own = String(id);
  for (const choice of [
    { _state: '', _id: [own, bob] },
    { _state: '', _id: own },
    { _state: 'admin=true', _all: '1' },
    { _state: '_search=ada', _all: '1' },
  ]) {
    const page = await ada.post(path, { ...choice, _action: 'delete' });
    assert.equal(page.status, 200);
    assert.match(readable(page), /You cannot delete your own user\. Ask another admin to do it\./);
    assert.doesNotMatch(page.text, /class="danger"|class="confirm"/);
    for (const _expected of ['1', '2']) {
      const forced = await ada.post(path, { ...choice, _action: 'delete', _confirm: '1', _expected });
      assert.equal(forced.status, 403);
    }
    for (const column of ['active', 'admin']) {
      const set = { ...choice, _action: 'set', _column: column, _value: '1', [column]: 'false' };
      const answer = await ada.post(path, { ...set, _confirm: '1', _expected: '2' });
      assert.equal(answer.status, 400);
      assert.match(readable(answer), /Would lock you out: you are among the selected users\./);
    }
  }
  assert.equal((await service.sql`select from "user" where admin and active`).count, 2);
  const other = { _state: '', _id: bob, _expected: '1', _confirm: '1' };
  const set = { ...other, _action: 'set', _column: 'admin', _value: '1', admin: 'false' };
  assert.equal((await ada.post(path, { ...set, _current: 'pw-ada' })).status, 303);
  const elsewhere = { _id: [own, bob], _state: 'username=bob', _action: 'delete' };
  const confirmation = await ada.post(path, elsewhere);
  assert.equal((await ada.post(path, hiddenFields(confirmation, 'confirm'))).status, 303);
  assert.equal(await countUsers(), 1);
});

test('an admin cannot delete a record on which their own user depends', async () => {
  await service.sql`insert into team (id, name) values (1, 'ours'), (2, 'theirs')`;
  await service.sql`update "user" set team_id = 1 where id = ${id}`;
  await service.addUser('cleo', { team_id: 2 });
  const page = await ada.get('/admin/team/1/delete/');
  assert.match(readable(page), /This would also delete your own user\. Ask another admin to do it\./);
  assert.doesNotMatch(page.text, /class="danger"/);
  const fields = hiddenFields(await ada.get('/admin/team/2/delete/'), 'confirm');
  assert.equal((await ada.post('/admin/team/1/delete/', fields)).status, 403);
  const all = { _state: '', _action: 'delete', _all: '1', _expected: '2', _confirm: '1' };
  assert.equal((await ada.post('/admin/team/-/bulk/', all)).status, 403);
  assert.equal(await countUsers(), 2);
  assert.equal((await ada.post('/admin/team/2/delete/', fields)).status, 303);
  assert.equal(await countUsers(), 1);
});
