// Forms of an admin who is demoted after the session was checked and before the record is written.
import assert from 'node:assert/strict';
import type { Resource } from '../../src/index.ts';
import { user } from '../../src/resources/registry.ts';
import { lockedOut, startService, type TestService } from '../support.ts';
import { fieldsOf, hiddenFields, logIn, type AdminAnswer, type Browser } from './support.ts';
import { after, before, describe, test } from 'node:test';

const team: Resource = { model: 'team', columns: { name: { type: 'string', null: true } } };
/** Its label has the name of a team, so that reading a user waits for a lock of that table. */
const member: Resource = {
  ...user,
  columns: { ...user.columns, team: { type: 'foreignKey', references: 'team', null: true } },
};
const note: Resource = {
  model: 'note',
  columns: { text: { type: 'string', null: true } },
};

describe('a form of an admin who is demoted before the write', () => {
  let service: TestService;
  let boss: Browser;
  let bob = 0;
  before(async () => {
    service = await startService([member, team, note]);
    await service.sql`insert into team (name) values ('One')`;
    await service.sql`insert into note (text) values ('kept')`;
    bob = await service.addUser('bob');
    await service.sql`update "user" set team_id = 1`;
    await service.addUser('boss', { admin: true });
  });
  after(() => service.close());

  const state = async (): Promise<unknown> => [
    await service.sql`select id, username, password, admin, email from "user" where username <> 'boss' order by id`,
    await service.sql`select id, name from team order by id`,
    await service.sql`select id, text from note order by id`,
    await service.sql`select count(*) from vitrine_history`,
  ];

  /** Sends a form, and demotes the admin while the request waits for a lock of the table. */
  async function sendDuring(
    table: string,
    path: string,
    fields: Record<string, string | string[]>,
  ): Promise<AdminAnswer> {
    let answer: Promise<AdminAnswer> | undefined;
    await service.sql.begin(async (lock) => {
      await lock`lock table ${lock(table)} in access exclusive mode`;
      answer = boss.post(path, fields);
      await lockedOut(service);
      await service.sql`update "user" set admin = false where username = 'boss'`;
    });
    assert.ok(answer);
    return answer;
  }

  const PASSWORD = { _password: 'a new password', _repeat: 'a new password' };
  for (const [what, table, path, more] of [
    ['adds a record', 'note', () => '/admin/note/-/add/', { text: 'new' }],
    ['adds a record without values', 'note', () => '/admin/note/-/add/', {}],
    ['changes a record', 'note', () => '/admin/note/1/', { text: 'other' }],
    ['deletes a record', 'note', () => '/admin/note/1/delete/', {}],
    ['deletes a user', 'team', () => `/admin/user/${bob}/delete/`, {}],
    ['changes a user', 'team', () => `/admin/user/${bob}/`, { email: 'x@example.com' }],
    ['sets a password', 'team', () => `/admin/user/${bob}/password/`, PASSWORD],
    [
      'adds an admin',
      'team',
      () => '/admin/user/-/add/',
      {
        username: 'eve',
        email: 'e@example.com',
        admin: '1',
        active: '1',
        team_id: '1',
        _current: 'pw-boss',
        ...PASSWORD,
      },
    ],
  ] as const)
    test(`changes nothing, and leads to the login: ${what}`, async () => {
      await service.sql`update "user" set admin = true where username = 'boss'`;
      boss = await logIn(service, 'boss');
      const page = await boss.get(path());
      const fields = path().endsWith('/delete/') ? hiddenFields(page, 'confirm') : fieldsOf(page);
      const before = await state();
      const answer = await sendDuring(table, path(), { ...fields, ...more });
      assert.deepEqual(await state(), before);
      assert.ok([303, 401].includes(answer.status), `${answer.status} ${answer.text}`);
      assert.match(`${answer.location ?? ''}${answer.text}`, /login/);
      // The session stays ended.
      await service.sql`update "user" set admin = true where username = 'boss'`;
      assert.equal((await boss.get('/admin/note/')).status, 303);
    });

  test('that is not demoted adds a record without values, and gets 404 for a missing record', async () => {
    boss = await logIn(service, 'boss');
    const added = await boss.post('/admin/note/-/add/', fieldsOf(await boss.get('/admin/note/-/add/')));
    assert.equal(added.status, 303, added.text);
    const fields = fieldsOf(await boss.get(`/admin/user/${bob}/password/`));
    const missing = await boss.post('/admin/user/999/password/', { ...fields, ...PASSWORD });
    assert.equal(missing.status, 404);
  });
});
