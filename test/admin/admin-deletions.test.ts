// Deletions that reach admins need the current password, whichever way they reach them, and none locks out its admin.
import assert from 'node:assert/strict';
import { type Resource } from '../../src/index.ts';
import { user } from '../../src/resources/registry.ts';
import { fromNewAddress, lockedOut, stopClock } from '../http/expect.ts';
import { createLoopback } from '../loopback.ts';
import { cheapHash, startService, type Sql, closedAfter, startBeside } from '../support.ts';
import {
  hiddenFields,
  invalidFields,
  logIn,
  readable,
  save,
  useAdmin,
  type AdminAnswer,
  type Browser,
} from './support.ts';
import { describe, test } from 'node:test';

stopClock();

const name = { type: 'string' } as const;
const to = (references: string) =>
  ({ type: 'foreignKey', references, null: true, onDelete: 'cascade' }) as const;
const viewKey = { type: 'integer', column: 'id' } as const;

/** The first resources of `team` and of the users' table. The further ones also declare foreign keys. */
const league: Resource = { model: 'league', columns: { name }, access: 'user' };
const further = { methods: ['GET'], access: 'admin' } satisfies Partial<Resource>;
const allLeagues: Resource = { ...further, model: 'all_leagues', table: 'league', columns: { name } };
const allTeams: Resource = {
  ...further,
  model: 'all_teams',
  table: 'team',
  columns: { name, league: to('league') },
};
const members: Resource = {
  ...further,
  model: 'members',
  table: 'user',
  columns: { username: name, team: to('team') },
};
const team = (columns: Resource['columns'] = {}): Resource => ({
  model: 'team',
  columns: { name, ...columns },
  access: 'user',
});
const withTeam: Resource = { ...user, columns: { ...user.columns, team: to('team') } };
/** Users refer to it through tables that are not in the registry. */
const club: Resource = { model: 'club', columns: { name }, access: 'user' };
const known = [league, team({ league: to('league') }), club];

const { service, ada } = useAdmin([...known, withTeam], { trustProxy: 1 });

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

function openConfirmation(
  path: string,
  ids: readonly (number | string)[] | 'all',
  state = '',
  browser = ada,
): Promise<AdminAnswer> {
  if (!path.endsWith('/bulk/')) return browser.get(path);
  const choice = ids === 'all' ? { _all: '1' } : { _id: ids.map(String) };
  return browser.post(path, { ...choice, _state: state, _action: 'delete' });
}

/** Checks that a deletion asks for the current password, and works only with the right one. */
async function assertConfirmed(
  path: string,
  ids: readonly number[] | 'all' = [],
  filters?: string,
  { browser, state }: { browser: Browser; state: () => Promise<unknown> } = { browser: ada, state: stored },
): Promise<void> {
  const before = await state();
  const page = await openConfirmation(path, ids, filters, browser);
  assert.match(page.text, /<input[^>]*name="_current"[^>]*type="password"/s);
  assert.match(readable(page), /Required to delete an admin\./);
  const fields = hiddenFields(page, 'confirm');
  for (const current of [undefined, '', 'wrong']) {
    const sent = current === undefined ? fields : { ...fields, _current: current };
    const refused = await browser.post(path, sent, fromNewAddress());
    assert.equal(refused.status, 400, readable(refused));
    assert.deepEqual(invalidFields(refused), ['_current']);
    assert.match(
      readable(refused),
      current === 'wrong' ? /Is not your password\./ : /Is required to confirm this change\./,
    );
    assert.match(refused.text, /class="danger"/, 'the page asks again');
    assert.deepEqual(await state(), before);
  }
  const done = await browser.post(path, { ...fields, _current: 'pw-ada' }, fromNewAddress());
  assert.equal(done.status, 303, readable(done));
  assert.notDeepEqual(await state(), before);
}

/** Checks that a deletion works without a password. */
async function assertUnconfirmed(
  path: string,
  ids: readonly (number | string)[] = [],
  browser = ada,
  state = '',
): Promise<void> {
  const page = await openConfirmation(path, ids, state, browser);
  assert.doesNotMatch(page.text, /_current/);
  assert.equal((await browser.post(path, hiddenFields(page, 'confirm'))).status, 303);
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

describe('admins cannot lock themselves out', () => {
  const OWN = /You cannot delete your own user\. Ask another admin to do it\./;
  const isStored = async (id: number): Promise<boolean> =>
    (await service.sql`select from "user" where id = ${id} and admin and active`).count === 1;
  const ownId = async (): Promise<number> =>
    Number((await service.sql`select id from "user" where username = 'ada'`)[0]?.['id']);
  function assertOffersNothing(page: AdminAnswer, reason: RegExp): void {
    assert.match(readable(page), reason);
    assert.doesNotMatch(page.text, /class="danger"|class="confirm"/);
  }

  test('by clearing a field, or by deleting their own user, which another admin can do', async () => {
    const id = await service.addUser('zed', { admin: true });
    const zed = await logIn(service, 'zed');
    for (const field of ['admin', 'active']) {
      const refused = await save(zed, `/admin/user/${id}/`, { [field]: [] });
      assert.equal(refused.status, 400);
      assert.match(refused.text, /would lock you out/);
    }
    const path = `/admin/user/${id}/delete/`;
    assertOffersNothing(await zed.get(path), OWN);
    // The token is that of the other browser.
    const { _csrf, ...fields } = hiddenFields(await ada.get(path), 'confirm');
    assert.ok(_csrf);
    const refused = await zed.post(path, fields);
    assert.equal(refused.status, 403);
    assert.match(readable(refused), OWN);
    assert.ok(await isStored(id));
    assert.equal((await ada.post(path, { ...fields, _csrf, _current: 'pw-ada' })).status, 303);
    assert.equal(await isStored(id), false);
  });

  test('by bulk actions', async () => {
    const path = '/admin/user/-/bulk/';
    const own = await ownId();
    const zoe = await service.addUser('zoe', { admin: true });
    const ids = [own, zoe].map(String);
    for (const choice of [
      { _state: '', _id: ids },
      { _state: '', _id: String(own) },
      { _state: 'admin=true', _all: '1' },
      { _state: '_search=ada', _all: '1' },
    ]) {
      assertOffersNothing(await ada.post(path, { ...choice, _action: 'delete' }), OWN);
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
    assert.deepEqual([await isStored(own), await isStored(zoe)], [true, true]);
    const set = { _action: 'set', _id: String(zoe), _column: 'admin', _value: '1', admin: 'false' };
    const confirmed = { ...set, _state: '', _expected: '1', _confirm: '1', _current: 'pw-ada' };
    assert.equal((await ada.post(path, confirmed)).status, 303);
    await assertUnconfirmed(path, ids, ada, 'username=zoe');
    assert.equal((await service.sql`select from "user" where id = ${zoe}`).count, 0);
  });

  test('by deleting a record on which their own user depends', async () => {
    const [ours, theirs] = [await insert('team'), await insert('team')];
    const own = await ownId();
    await service.sql`update "user" set team_id = ${ours} where id = ${own}`;
    await service.addUser('zack', { team_id: theirs });
    assertOffersNothing(await ada.get(`/admin/team/${ours}/delete/`), /This would also delete your own user\. Ask another admin to do it\./); // prettier-ignore
    const fields = hiddenFields(await ada.get(`/admin/team/${theirs}/delete/`), 'confirm');
    assert.equal((await ada.post(`/admin/team/${ours}/delete/`, fields)).status, 403);
    const all = { _state: '', _action: 'delete', _all: '1', _expected: '2', _confirm: '1' };
    assert.equal((await ada.post('/admin/team/-/bulk/', all)).status, 403);
    assert.ok(await isStored(own));
    assert.equal((await ada.post(`/admin/team/${theirs}/delete/`, fields)).status, 303);
    await service.sql`update "user" set team_id = null where id = ${own}`;
  });
});

describe('a deletion that could reach users whose table cannot be locked needs the current password', () => {
  /** Checks that a deletion needs the password, and that its record is gone then. */
  const assertNeedsPassword = (browser: Browser, path: string): Promise<void> =>
    assertConfirmed(path, [], undefined, { browser, state: async () => (await browser.get(path)).status });

  test('because the role may change only one of its columns', async (t) => {
    const { url } =
      await service.addRole(`grant all on all tables in schema public to ROLE; grant all on all sequences in schema public to ROLE;
      revoke all on "user" from ROLE; grant select, update (password) on "user" to ROLE`);
    const registry: Resource[] = [...known, { ...withTeam, methods: ['GET'] }];
    const beside = closedAfter(t, await startBeside(url, registry, { schema: 'check' }));
    const browser = await logIn(beside, 'ada');
    await assertNeedsPassword(browser, `/admin/team/${await insert('team')}/delete/`);
  });

  test('because it is a foreign table', async (t) => {
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
    t.after(() => other.close());
    const password = await cheapHash('pw-ada');
    await other.sql`insert into users (username, password, email, admin)
      values ('ada', ${password}, '', true), ('bob', ${password}, '', false)`;
    const [row] = await other.sql`select id from users where username = 'bob'`;
    await assertNeedsPassword(await logIn(other, 'ada'), `/admin/user/${row?.['id']}/delete/`);
  });
});

const BEFORE = `
  create table league (id integer generated always as identity primary key, name varchar(255) not null);
  create table team (id integer generated always as identity primary key, name varchar(255) not null,
    league_id integer references league on delete cascade);
  create index on team (league_id);`;
const USERS = (table: string, more = ''): string => `
  create table ${table} (id integer generated by default as identity primary key,
    username varchar(255) not null unique, password varchar(255) not null, email varchar(255) not null,
    join_date timestamp not null default now(), active boolean not null default true,
    admin boolean not null default false, team_id integer references team on delete cascade${more});
  create index on ${table} (team_id);`;

const unsafe =
  (...ddl: string[]) =>
  (sql: Sql): Promise<unknown> =>
    sql.unsafe(ddl.join('')).simple();

const viewed: Resource = { ...user, primaryKey: viewKey, methods: ['GET', 'POST', 'PUT', 'DELETE'] };
const VIEW = 'create view "user" as select * from account;';
const account: Resource = {
  ...further,
  model: 'account',
  columns: { username: name, team: to('team') },
  admin: { allow: [] },
};
const teamView: Resource = {
  model: 'team_view',
  primaryKey: viewKey,
  columns: { name },
  methods: ['GET', 'DELETE'],
  access: 'user',
};
const TEAM_VIEWS = `
  create view named_team as select name as title, id from team;
  create view team_view as select id, title as name from named_team;`;

const PARTITIONED = `
  create sequence team_ids;
  create table team (id integer primary key default nextval('team_ids'), name varchar(255) not null)
    partition by range (id);
  create table team_1 partition of team for values from (minvalue) to (maxvalue);`;

const LEAGUE_VIEW = 'create view league_view as select * from league;';
const leagueView: Resource = { ...teamView, model: 'league_view' };

interface Setup {
  /** The models of which a deletion reaches an admin. */
  readonly confirmed?: readonly string[];
  /** Models of which the service knows that a deletion reaches none. */
  readonly unconfirmed?: readonly string[];
  readonly resources: readonly Resource[];
  readonly prepare: (sql: Sql) => Promise<unknown>;
}

const SETUPS: Record<string, Setup> = {
  'of shared tables, where all resources declare the foreign keys': {
    confirmed: ['team', 'league'],
    resources: [league, allLeagues, team({ league: to('league') }), allTeams, withTeam, members],
    prepare: unsafe(BEFORE, USERS('"user"')),
  },
  'of shared tables, where only the further resource between declares its foreign key': {
    confirmed: ['team', 'league'],
    resources: [league, allLeagues, team(), allTeams, withTeam],
    prepare: unsafe(BEFORE, USERS('"user"')),
  },
  'of shared tables, where only the further resource of users declares its foreign key': {
    confirmed: ['team', 'league'],
    resources: [league, team({ league: to('league') }), allTeams, user, members],
    prepare: unsafe(BEFORE, USERS('"user"')),
  },
  'through the table behind the view of users': {
    confirmed: ['team'],
    resources: [team(), viewed],
    prepare: unsafe(BEFORE, USERS('account'), VIEW),
  },
  'through the table behind the view of users, which is in the registry': {
    confirmed: ['team'],
    resources: [team(), viewed, account],
    prepare: unsafe(BEFORE, USERS('account'), VIEW),
  },
  'through the table behind a view of a view of users': {
    confirmed: ['team'],
    resources: [team(), viewed],
    prepare: unsafe(
      BEFORE,
      USERS('account'),
      'create view person as select * from account where active;',
      'create view "user" as select id, username, password, email, join_date, active, admin, team_id from person;',
    ),
  },
  'from the table behind the view that is deleted from': {
    confirmed: ['team_view'],
    resources: [team(), teamView, withTeam],
    prepare: unsafe(BEFORE, USERS('"user"'), TEAM_VIEWS),
  },
  'from the table behind one view through that behind another': {
    confirmed: ['team_view'],
    resources: [teamView, viewed],
    prepare: unsafe(BEFORE, USERS('account'), VIEW, TEAM_VIEWS),
  },
  'from a partition that foreign keys do not name': {
    confirmed: ['team_1'],
    resources: [{ ...team(), model: 'team_1' }, user],
    prepare: unsafe(PARTITIONED, USERS('"user"')),
  },
  'from a partition that only an unknown foreign key names': {
    confirmed: ['team'],
    resources: [team(), user],
    prepare: unsafe(PARTITIONED, USERS('"user"').replace('references team ', 'references team_1 ')),
  },
  'where no foreign key cascades to the table behind the view of users': {
    unconfirmed: ['league', 'league_view', 'team'],
    resources: [league, leagueView, team({ league: to('league') }), viewed],
    prepare: unsafe(BEFORE, USERS('account').replace('on delete cascade', ''), VIEW, LEAGUE_VIEW),
  },
  'where users refer to a partitioned table': {
    unconfirmed: ['team'],
    resources: [team(), withTeam],
    prepare: unsafe(PARTITIONED, USERS('"user"')),
  },
};

for (const [about, { confirmed = [], unconfirmed = [], resources, prepare }] of Object.entries(SETUPS))
  test(`a deletion needs the current password only if it can reach an admin: ${about}`, async (t) => {
    const other = await startService(resources, { trustProxy: 1, prepare });
    t.after(() => other.close());
    await other.addUser('ada', { admin: true });
    const browser = await logIn(other, 'ada');
    const insertInto = async (model: string, columns: Record<string, number> = {}): Promise<number> => {
      const [row] = await other.sql<{ id: number }[]>`insert into ${other.sql(model.replace('_view', ''))}
        ${other.sql({ name: 'x', ...columns })} returning id`;
      return row?.id ?? 0;
    };
    for (const model of confirmed)
      for (const isBulk of [false, true]) {
        const id = await insertInto(model);
        const team = model === 'league' ? await insertInto('team', { league_id: id }) : id;
        const admin = await other.addUser(`${model} ${isBulk}`, { team_id: team, admin: true });
        const isStored = async (): Promise<unknown> =>
          (await other.sql`select from "user" where id = ${admin}`).count;
        const path = isBulk ? `/admin/${model}/-/bulk/` : `/admin/${model}/${id}/delete/`;
        await assertConfirmed(path, [id], undefined, { browser, state: isStored });
        assert.equal(await isStored(), 0);
      }
    for (const model of unconfirmed)
      for (const isBulk of [false, true]) {
        const id = await insertInto(model);
        const path = isBulk ? `/admin/${model}/-/bulk/` : `/admin/${model}/${id}/delete/`;
        await assertUnconfirmed(path, [id], browser);
      }
  });
