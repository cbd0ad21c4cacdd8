import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { createVitrine, type Resource } from '../../src/index.ts';
import { user } from '../../src/resources/registry.ts';
import { fromNewAddress, lockedOut, stopClock } from '../http/expect.ts';
import { createLoopback } from '../loopback.ts';
import { cheapHash, startService, type TestService } from '../support.ts';
import { hiddenFields, invalidFields, logIn, readable, type AdminAnswer, type Browser } from './support.ts';
import { after, before, describe, test } from 'node:test';

stopClock();

const league: Resource = { model: 'league', columns: { name: { type: 'string' } }, access: 'user' };
const team: Resource = {
  model: 'team',
  columns: {
    name: { type: 'string' },
    league: { type: 'foreignKey', references: 'league', null: true, onDelete: 'cascade' },
  },
  access: 'user',
};
/** Users refer to it through tables that are not in the registry. */
const club: Resource = { model: 'club', columns: { name: { type: 'string' } }, access: 'user' };
const member: Resource = {
  ...user,
  columns: {
    ...user.columns,
    team: { type: 'foreignKey', references: 'team', null: true, onDelete: 'cascade' },
  },
};

let service: TestService;
let ada: Browser;
before(async () => {
  service = await startService([league, team, club, member], { trustProxy: 1 });
  await service.addUser('ada', { admin: true });
  ada = await logIn(service, 'ada');
});
after(() => service.close());

const insert = async (table: string): Promise<number> => {
  const [row] = await service.sql<{ id: number }[]>`
    insert into ${service.sql(table)} (name) values ('x') returning id`;
  return row?.id ?? 0;
};

/** The contents of every table that a deletion could change. */
const stored = async (): Promise<unknown> =>
  (
    await service.sql`
    select (select json_agg(u order by id) from "user" u) users, (select count(*) from team) teams,
      (select count(*) from club) clubs, (select count(*) from vitrine_history) changes`
  )[0];

const openConfirmation = (path: string, ids: readonly number[] | 'all', state = ''): Promise<AdminAnswer> => {
  if (!path.endsWith('/bulk/')) return ada.get(path);
  const choice = ids === 'all' ? { _all: '1' } : { _id: ids.map(String) };
  return ada.post(path, { ...choice, _state: state, _action: 'delete' });
};

/** Checks that a deletion asks for the current password, and works only with the right one. */
async function assertConfirmed(
  path: string,
  ids: readonly number[] | 'all' = [],
  state?: string,
): Promise<void> {
  const before = await stored();
  const page = await openConfirmation(path, ids, state);
  assert.match(page.text, /<input[^>]*name="_current"[^>]*type="password"/s);
  assert.match(readable(page), /Required to delete an admin\./);
  const fields = hiddenFields(page, 'confirm');
  for (const current of [undefined, '', 'wrong']) {
    const sent = current === undefined ? fields : { ...fields, _current: current };
    const refused = await ada.post(path, sent, fromNewAddress());
    assert.equal(refused.status, 400, readable(refused));
    assert.deepEqual(invalidFields(refused), ['_current']);
    assert.match(
      readable(refused),
      current === 'wrong' ? /Is not your password\./ : /Is required to confirm this change\./,
    );
    assert.match(refused.text, /class="danger"/, 'the page asks again');
    assert.deepEqual(await stored(), before);
  }
  const done = await ada.post(path, { ...fields, _current: 'pw-ada' }, fromNewAddress());
  assert.equal(done.status, 303, readable(done));
  assert.notDeepEqual(await stored(), before);
}

/** Checks that a deletion works without a password. */
async function assertUnconfirmed(path: string, ids: readonly number[] = []): Promise<void> {
  const page = await openConfirmation(path, ids);
  assert.doesNotMatch(page.text, /_current/);
  assert.equal((await ada.post(path, hiddenFields(page, 'confirm'))).status, 303);
}

test('deleting an admin needs the current password, deleting another user does not', async () => {
  await assertUnconfirmed(`/admin/user/${await service.addUser('bob')}/delete/`);
  await assertConfirmed(`/admin/user/${await service.addUser('bea', { admin: true })}/delete/`);
  const inactive = await service.addUser('ben', { admin: true, active: false });
  await assertConfirmed(`/admin/user/${inactive}/delete/`);
});

test('deleting a user who became an admin since the page was shown needs the current password', async () => {
  const id = await service.addUser('cleo');
  const path = `/admin/user/${id}/delete/`;
  const fields = hiddenFields(await ada.get(path), 'confirm');
  await service.sql`update "user" set admin = true where id = ${id}`;
  const refused = await ada.post(path, fields);
  assert.equal(refused.status, 400);
  assert.deepEqual(invalidFields(refused), ['_current']);
  assert.equal((await service.sql`select from "user" where id = ${id}`).count, 1);
});

test('deleting many users needs the current password when one of them is an admin', async () => {
  const path = '/admin/user/-/bulk/';
  const add = (name: string, admin: boolean): Promise<number> => service.addUser(name, { admin });
  await assertUnconfirmed(path, [await add('dan', false), await add('dea', false)]);
  await assertConfirmed(path, [await add('dora', true), await add('dirk', false)]);
  await add('eve', true);
  await add('emil', false);
  await assertConfirmed(path, 'all', 'username__in=eve,emil');
});

describe('an admin whom another transaction moves into a deletion while it starts is not deleted', () => {
  /** Submits the confirmed form while the change is not committed yet. */
  async function deleteDuring(
    change: string,
    path: string,
    fields: Readonly<Record<string, string | string[]>>,
  ): Promise<void> {
    const { answer } = await service.sql.begin(async (transaction) => {
      await transaction.unsafe(change);
      const deleting = ada.post(path, fields);
      await lockedOut(service);
      return { answer: deleting };
    });
    const refused = await answer;
    assert.equal(refused.status, 409);
    assert.match(readable(refused), /The deletion now includes an admin\. Nothing was deleted\./);
    assert.match(readable(refused), /Required to delete an admin\./);
  }

  test('by a cascade', async () => {
    const team = await insert('team');
    const admin = await service.addUser('hal', { admin: true });
    const path = `/admin/team/${team}/delete/`;
    const fields = hiddenFields(await ada.get(path), 'confirm');
    await deleteDuring(`update "user" set team_id = ${team} where id = ${admin}`, path, fields);
    assert.equal((await service.sql`select from "user" where id = ${admin}`).count, 1);
  });

  test('by becoming an admin', async () => {
    const path = '/admin/user/-/bulk/';
    const [first, second] = [await service.addUser('ida'), await service.addUser('ira')];
    const fields = hiddenFields(await openConfirmation(path, [first, second]), 'confirm');
    await deleteDuring(`update "user" set admin = true where id = ${second}`, path, fields);
    assert.equal((await service.sql`select from "user" where id in (${first}, ${second})`).count, 2);
  });

  test('by a filter', async () => {
    const admin = await service.addUser('hanna', { admin: true });
    const other = await service.addUser('other');
    const path = '/admin/user/-/bulk/';
    await service.sql`update "user" set email = 'x@example.org' where id = ${other}`;
    const page = await openConfirmation(path, 'all', 'email=x@example.org');
    const swap = `update "user" set email = case id when ${admin} then 'x@example.org' else '' end where id in (${admin}, ${other})`;
    await deleteDuring(swap, path, hiddenFields(page, 'confirm'));
    assert.equal((await service.sql`select from "user" where id = ${admin}`).count, 1);
  });
});

describe('deleting a record on which users depend', () => {
  test('needs the current password when one of them is an admin', async () => {
    const [free, ours, theirs] = [await insert('team'), await insert('team'), await insert('team')];
    await service.addUser('fay', { team_id: free });
    await service.addUser('finn', { team_id: ours, admin: true });
    await service.addUser('fred', { team_id: theirs, admin: true });
    await assertUnconfirmed(`/admin/team/${free}/delete/`);
    await assertConfirmed(`/admin/team/${ours}/delete/`);
    await assertUnconfirmed('/admin/team/-/bulk/', [await insert('team'), await insert('team')]);
    await assertConfirmed('/admin/team/-/bulk/', [theirs, await insert('team')]);
  });

  test('needs it also when an admin depends through another record', async () => {
    const id = await insert('league');
    const teamId = await insert('team');
    await service.sql`update team set league_id = ${id} where id = ${teamId}`;
    await service.addUser('gil', { team_id: teamId, admin: true });
    await assertUnconfirmed(`/admin/league/${await insert('league')}/delete/`);
    await assertConfirmed(`/admin/league/${id}/delete/`);
  });

  test('always needs it when they depend through foreign keys that are not in the registry', async () => {
    const free = await insert('club');
    await assertUnconfirmed(`/admin/club/${free}/delete/`);
    await service.sql.unsafe(`
      create table section (id serial primary key, club_id integer not null references club on delete cascade);
      alter table "user" add column section_id integer references section on delete cascade`);
    const id = await insert('club');
    await service.sql`insert into section (club_id) values (${id})`;
    const admin = await service.addUser('gus', { admin: true, section_id: 1 });
    await assertConfirmed(`/admin/club/${id}/delete/`);
    assert.equal((await service.sql`select from "user" where id = ${admin}`).count, 0);
    await assertUnconfirmed(`/admin/team/${await insert('team')}/delete/`);
  });
});

describe('a deletion that could reach users whose table cannot be locked needs the current password', () => {
  /** Checks that a confirmed deletion fails without the password, and works with it. */
  async function assertNeedsPassword(browser: Browser, path: string): Promise<void> {
    const page = await browser.get(path);
    assert.match(readable(page), /Required to delete an admin\./);
    const fields = hiddenFields(page, 'confirm');
    const refused = await browser.post(path, fields);
    assert.equal(refused.status, 400, refused.text);
    assert.deepEqual(invalidFields(refused), ['_current']);
    const done = await browser.post(path, { ...fields, _current: 'pw-ada' });
    assert.equal(done.status, 303, done.text);
    assert.equal((await browser.get(path)).status, 404);
  }

  test('because the role may change only one of its columns', async () => {
    const role = `reader_${randomBytes(8).toString('hex')}`;
    await service.sql.unsafe(`create role ${role} login password 'x';
      grant all on all tables in schema public to ${role}; grant all on all sequences in schema public to ${role};
      revoke all on "user" from ${role}; grant select, update (password) on "user" to ${role}`);
    const url = new URL(service.url);
    [url.username, url.password] = [role, 'x'];
    try {
      const vitrine = await createVitrine({
        databaseUrl: url.href,
        resources: [league, team, club, { ...member, methods: ['GET'] }],
        port: 0,
        schema: 'check',
        log: () => undefined,
      });
      try {
        const { url: base } = await vitrine.start();
        const browser = await logIn({ base }, 'ada');
        await assertNeedsPassword(browser, `/admin/team/${await insert('team')}/delete/`);
      } finally {
        await vitrine.close();
      }
    } finally {
      await service.sql.unsafe(`drop owned by ${role}; drop role ${role}`);
    }
  });

  test('because it is a foreign table', async () => {
    const remote: Resource = {
      ...user,
      primaryKey: { type: 'integer', column: 'id' },
      methods: ['GET', 'DELETE'],
    };
    const columns = `username varchar(255) not null, password varchar(255) not null, email varchar(255) not null,
      join_date timestamp(0) not null default now(), active boolean not null default true, admin boolean not null`;
    const other = await startService([remote], {
      prepare: async (sql) => {
        await createLoopback(sql);
        await sql.unsafe(`
          create table users (id integer generated by default as identity primary key, ${columns});
          create foreign table "user" (id integer not null, ${columns}) server loopback options (table_name 'users')`);
      },
    });
    try {
      const password = await cheapHash('pw-ada');
      await other.sql`insert into users (username, password, email, admin)
        values ('ada', ${password}, '', true), ('bob', ${password}, '', false)`;
      const [row] = await other.sql`select id from users where username = 'bob'`;
      await assertNeedsPassword(await logIn(other, 'ada'), `/admin/user/${row?.['id']}/delete/`);
    } finally {
      await other.close();
    }
  });
});

test('returns 429 after ten wrong passwords for a deletion', async () => {
  const id = await service.addUser('ina', { admin: true });
  const address = fromNewAddress();
  const path = `/admin/user/${id}/delete/`;
  const fields = hiddenFields(await ada.get(path), 'confirm');
  for (let count = 0; count < 10; count += 1)
    assert.equal((await ada.post(path, { ...fields, _current: `wrong ${count}` }, address)).status, 400);
  for (const current of ['wrong', 'pw-ada']) {
    const refused = await ada.post(path, { ...fields, _current: current }, address);
    assert.equal(refused.status, 429);
    assert.deepEqual(invalidFields(refused), ['_current']);
  }
  assert.equal((await service.sql`select from "user" where id = ${id}`).count, 1);
});
