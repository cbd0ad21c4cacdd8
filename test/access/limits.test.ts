// What grants and rules about rows must not reveal or allow: by writes, by cursors, and by what refers to a record.
import assert from 'node:assert/strict';
import type { Resource, Roles } from '../../src/index.ts';
import { user as sampleUser } from '../../src/resources/registry.ts';
import { logIn, readable, runBulk, save } from '../admin/support.ts';
import { lockedOut, sendAs, startService, useService, type Answer } from '../support.ts';
import { describe, test } from 'node:test';

const user = {
  ...sampleUser,
  columns: {
    ...sampleUser.columns,
    role: { type: 'array', of: 'string', null: true },
    zone: { type: 'string', null: true },
  },
  read: 'admin',
} satisfies Resource;

const vault = { model: 'vault', columns: { name: { type: 'string' } }, read: 'admin' } satisfies Resource;

const seat = {
  model: 'seat',
  primaryKey: { columns: ['room', 'no'] },
  columns: { room: { type: 'integer' }, no: { type: 'integer' }, zone: { type: 'string' } },
} satisfies Resource;

const booking = {
  model: 'booking',
  columns: { room: { type: 'integer' }, no: { type: 'integer' }, note: { type: 'string', default: '' } },
  foreignKeys: { seat: { columns: ['room', 'no'], references: 'seat' } },
  read: 'admin',
} satisfies Resource;

const paper = {
  model: 'paper',
  columns: {
    title: { type: 'string' },
    zone: { type: 'string' },
    note: { type: 'string', default: '' },
    approved: { type: 'integer', null: true },
    vault: { type: 'foreignKey', references: 'vault', null: true },
  },
  read: 'admin',
  ordering: '-approved,id',
} satisfies Resource;

const page = {
  model: 'page',
  columns: { paper: { type: 'foreignKey', references: 'paper' }, zone: { type: 'string' } },
  read: 'admin',
} satisfies Resource;

/** Its rule binds the users of its level. */
const ticket = {
  model: 'ticket',
  columns: { zone: { type: 'string' }, text: { type: 'string', default: '' } },
  access: 'user',
  rows: { write: 'zone=$me.zone' },
} satisfies Resource;

const memo = {
  model: 'memo',
  columns: { author: { type: 'foreignKey', references: 'user' }, text: { type: 'string' } },
  access: 'user',
  owner: 'author',
  rows: { read: 'author=$me' },
} satisfies Resource;

/** The built-in role of all users may read it. */
const notice = { model: 'notice', columns: { text: { type: 'string' } }, read: 'admin' } satisfies Resource;

/** Everyone may write it, and only admins may read it. */
const box = {
  model: 'box',
  columns: {
    name: { type: 'string' },
    pin: { type: 'string', default: 'pin of all' },
    price: { type: 'string', default: 'price of all', read: 'admin', write: 'admin' },
  },
  exclude: ['pin'],
  read: 'admin',
  access: 'user',
} satisfies Resource;

const roles = {
  user: { grants: { notice: { read: true } } },
  hr: { grants: { user: { read: true, create: true, update: true } } },
  registrar: { grants: { user: { create: true, update: true } } },
  free: { grants: { paper: { read: true, update: true, delete: true } } },
  pager: { grants: { page: { read: { rows: 'zone=$me.zone' } } } },
  open: { grants: { paper: { read: true, update: { rows: 'approved__is=null' } } } },
  zoned: { grants: { paper: { read: true, update: { rows: 'zone=$me.zone' } } } },
  titles: { admin: true, grants: { paper: { read: { columns: ['title', 'note'] } } } },
  local: {
    admin: true,
    grants: {
      paper: {
        read: { rows: 'zone=$me.zone' },
        update: { columns: ['note'], rows: 'approved__is=null' },
      },
    },
  },
  plain: { admin: true, grants: { '*': { read: true } } },
  pinner: { grants: { box: { create: { columns: ['name', 'pin'] }, update: { columns: ['name', 'pin'] } } } },
  binder: { grants: { page: { create: true }, paper: { read: { rows: 'zone=$me.zone' }, delete: true } } },
  porter: { grants: { seat: { read: true }, booking: { read: { columns: ['note'] } } } },
  adder: { grants: { paper: { create: { columns: ['title', 'zone'] }, update: { columns: ['note'] } } } },
  noter: { grants: { paper: { read: { columns: ['title'] }, update: { columns: ['note'] } } } },
  filer: { grants: { paper: { update: { columns: ['vault'] } } } },
  usher: {
    grants: {
      seat: { read: true },
      booking: { update: { rows: 'seat__zone=$me.zone' } },
    },
  },
  blind: { grants: { paper: { update: { columns: ['note', 'vault', 'zone'], rows: 'zone=$me.zone' } } } },
} satisfies Roles;

describe('grants and rules about rows', () => {
  const service = useService(
    [user, vault, seat, booking, paper, page, ticket, memo, notice, box],
    { roles, changes: ['registrar'] },
    async () => {
      for (const [name, role, zone] of [
        ['flo', ['free'], null],
        ['fay', ['free', 'pager'], 'north'],
        ['oli', ['open'], null],
        ['zoe', ['zoned'], null],
        ['kim', ['zoned'], 'north'],
        ['sid', ['zoned'], 'south'],
        ['mix', ['titles', 'local', 'filer'], 'north'],
        ['usha', ['usher'], 'north'],
        ['bea', ['blind', 'pager'], 'north'],
        ['tia', ['titles'], null],
        ['lou', ['local'], 'north'],
        ['pam', ['plain'], null],
        ['adam', ['adder'], null],
        ['pip', ['pinner'], null],
        ['ben', ['binder'], 'north'],
        ['pia', ['porter'], null],
        ['hal', ['hr'], null],
        ['reg', ['registrar'], null],
        ['paul', [], null],
      ] as const)
        await service.addUser(name, { role, zone });
      await service.addUser('ada', { admin: true });
      await service.sql.unsafe(`
      insert into vault (name) values ('one'), ('two');
      insert into paper (title, zone, approved, vault_id) values
        ('first', 'north', null, 1), ('second', 'south', 5, 1), ('third', 'south', 6, 2), ('fourth', 'south', null, null);
      insert into page (paper_id, zone) values (1, 'north'), (2, 'south');
      insert into seat (room, no, zone) values (1, 1, 'north'), (1, 2, 'south');
      insert into booking (room, no) values (1, 1);
      insert into ticket (zone) values ('north'), ('south');
      insert into box (name) values ('box')`);
    },
  );
  const as =
    (name: string) =>
    (method: string, path: string, body?: unknown, headers?: Record<string, string>): Promise<Answer> =>
      sendAs(service, name)(method, path, body, headers);

  test('stay apart where their statements have no values', async () => {
    // One after the other: what one caller's statement allows must not become what another's allows.
    const put = async (name: string, id: number): Promise<number> =>
      (await as(name)('PUT', `/api/paper/${id}/`, { note: `by ${name}` })).status;
    for (const caller of ['flo', 'oli', 'zoe', 'oli', 'flo'])
      assert.deepEqual(
        [caller, await put(caller, 2), await put(caller, 4)],
        [caller, ...(caller === 'flo' ? [200, 200] : caller === 'oli' ? [403, 200] : [403, 403])],
      );
  });

  test('show those who may write and not read a record no excluded column', async () => {
    const created = await as('paul')('POST', '/api/box/', { name: 'new' });
    assert.deepEqual([created.status, created.json], [201, { id: 2, name: 'new' }]);
    const changed = await as('paul')('PUT', '/api/box/1/', { name: 'other' });
    assert.deepEqual([changed.status, changed.json], [200, { id: 1, name: 'other' }]);
    const pinned = await as('pip')('PUT', '/api/box/1/', { pin: 'known' });
    assert.deepEqual([pinned.status, pinned.json], [200, { id: 1, name: 'other' }]);
    assert.equal((await as('paul')('PUT', '/api/box/1/', { price: 'x' })).status, 400);
  });

  test('decide about writing by the stored values, also those that the caller does not see', async () => {
    const { json } = await as('mix')('GET', '/api/paper/2/');
    assert.equal(json.approved, null);
    assert.equal((await as('mix')('PUT', '/api/paper/2/', { vault_id: null })).json.approved, null);
    assert.equal((await as('mix')('PUT', '/api/paper/2/', { note: 'x' })).status, 403);
    const browser = await logIn(service, 'mix');
    const answer = await runBulk(browser, 'paper', { _action: 'set', _column: 'note', note: 'x', _id: '2' });
    assert.equal(answer.status, 403, readable(answer));
    const done = await runBulk(browser, 'paper', {
      _action: 'set',
      _column: 'note',
      note: 'x',
      _id: ['1', '4'],
    });
    assert.equal(done.status, 303, readable(done));
  });

  test('decide about writing by the values that are stored when it is done', async () => {
    const browser = await logIn(service, 'mix');
    const { sql } = service;
    let changing: ReturnType<typeof runBulk> | undefined;
    await sql.begin(async (transaction) => {
      await transaction`update paper set approved = 7 where id = 4`;
      changing = runBulk(browser, 'paper', { _action: 'set', _column: 'note', note: 'late', _id: '4' });
      await lockedOut(service);
    });
    assert.notEqual((await changing)?.status, 303);
    await sql`update paper set approved = null where id = 4`;
    assert.equal((await sql`select from paper where note = 'late'`).count, 0);
  });

  test('confirm no value that the caller does not see', async () => {
    // The vaults exist for no one but admins.
    const statuses = await Promise.all(
      [2, 3].map(async (id) => (await as('mix')('PUT', `/api/paper/${id}/`, { vault_id: 1 })).status),
    );
    assert.deepEqual(statuses, [400, 400]);
    const added = [1, 2].map((id) => as('ben')('POST', '/api/page/', { paper_id: id, zone: 'west' }));
    assert.deepEqual(
      (await Promise.all(added)).map(({ status }) => status),
      [201, 400],
    );
    const errors = await Promise.all(
      [2, 3].map(
        async (id) => (await as('bea')('PUT', `/api/paper/${id}/`, { vault_id: 1, note: 5 })).json.errors,
      ),
    );
    assert.deepEqual(errors[0], errors[1]);
  });

  test('let no write move a record along a foreign key of several columns', async () => {
    assert.equal((await as('usha')('PUT', '/api/booking/1/', { no: 2 })).status, 403);
    assert.equal((await as('usha')('PUT', '/api/booking/1/', { note: 'x' })).status, 200);
  });

  test('name a model that keeps a record from being deleted only for its visible records', async () => {
    const details = await Promise.all(
      [1, 2].map(async (id) => (await as('fay')('DELETE', `/api/paper/${id}/`)).json.detail),
    );
    assert.match(details[0], /page/);
    assert.doesNotMatch(details[1], /page/);
    for (const name of ['flo', 'ben'])
      assert.doesNotMatch((await as(name)('DELETE', '/api/paper/1/')).json.detail, /page/);
  });

  test('bind writes at the level of a resource, but not those of admins', async () => {
    const statuses = async (name: string): Promise<number[]> => {
      const answers = [
        await as(name)('POST', '/api/ticket/', { zone: 'north' }),
        await as(name)('POST', '/api/ticket/', { zone: 'south' }),
        await as(name)('PUT', '/api/ticket/1/', { text: 'x' }),
        await as(name)('PUT', '/api/ticket/1/', { zone: 'west' }),
        await as(name)('PUT', '/api/ticket/2/', { text: 'x' }),
        await as(name)('DELETE', '/api/ticket/2/'),
      ];
      return answers.map(({ status }) => status);
    };
    assert.deepEqual(await statuses('kim'), [201, 403, 200, 403, 403, 403]);
    assert.deepEqual(await statuses('paul'), [403, 403, 403, 403, 403, 403]);
    assert.deepEqual(await statuses('ada'), [201, 201, 200, 200, 200, 200]);
    assert.equal((await as('kim')('POST', '/api/memo/', { text: 'x' })).status, 201);
    assert.equal((await as('kim')('GET', '/api/memo/')).json.objects.length, 1);
    for (const [name, status] of Object.entries({ paul: 404, ada: 403, kim: 200 }))
      for (const method of ['PUT', 'DELETE'])
        assert.equal((await as(name)(method, '/api/memo/1/', { text: 'y' })).status, status);
  });

  test('let no one who may change users give rights without a grant that says so', async () => {
    const statuses = await Promise.all(
      [{ role: ['free'] }, { admin: true }, { password: 'another long one' }, { zone: 'west' }, {}].map(
        async (fields) => (await as('hal')('PUT', '/api/user/1/', fields)).status,
      ),
    );
    // Rules about rows name the zone of the caller.
    assert.deepEqual(statuses, [400, 400, 400, 400, 200]);
  });

  test('end a change of many records if the roles of its author change meanwhile', async () => {
    const browser = await logIn(service, 'mix');
    const { sql } = service;
    let changing: ReturnType<typeof runBulk> | undefined;
    await sql.begin(async (transaction) => {
      await transaction`select from paper where id = 1 for update`;
      changing = runBulk(browser, 'paper', { _action: 'set', _column: 'note', note: 'late', _id: '1' });
      await lockedOut(service);
      await sql`update "user" set role = '{titles}' where username = 'mix'`;
    });
    assert.equal((await changing)?.status, 403);
    await sql`update "user" set role = '{titles,local,filer}' where username = 'mix'`;
    assert.equal((await sql`select from paper where note = 'late'`).count, 0);
  });

  test('end the session of a change that waits while the roles of its author change', async () => {
    const browser = await logIn(service, 'mix');
    const { sql } = service;
    let changing: ReturnType<typeof save> | undefined;
    await sql.begin(async (transaction) => {
      await transaction`lock table paper in share mode`;
      changing = save(browser, '/admin/paper/1/', { note: 'late' });
      await lockedOut(service);
      await sql`update "user" set role = '{titles}' where username = 'mix'`;
    });
    assert.equal((await changing)?.status, 401);
    await sql`update "user" set role = '{titles,local,filer}' where username = 'mix'`;
    assert.equal((await sql`select from paper where note = 'late'`).count, 0);
    assert.equal((await browser.get('/admin/paper/')).status, 303);
  });

  test('of built-in roles count in the API, and not in the admin area', async () => {
    assert.equal((await as('mix')('GET', '/api/notice/')).status, 200);
    const browser = await logIn(service, 'mix');
    assert.equal((await browser.get('/admin/notice/')).status, 404);
    assert.equal((await browser.get('/admin/paper/')).status, 200);
  });

  test('leave out of the default ordering what the caller does not see', async () => {
    const { status, json } = await as('tia')('GET', '/api/paper/');
    assert.deepEqual([status, json.objects.map(({ id }: { id: number }) => id)], [200, [1, 2, 3, 4]]);
  });

  test('let no path lead into records that the caller may write and not read', async () => {
    assert.equal((await as('bea')('GET', '/api/page/?paper__note=x')).status, 400);
    assert.equal((await as('bea')('GET', '/api/page/?paper=1')).status, 200);
    // Nor along a foreign key of columns that do not exist for the caller.
    assert.equal((await as('pia')('GET', '/api/booking/?seat__zone=north')).status, 400);
    assert.equal((await as('pia')('GET', '/api/booking/?note=')).status, 200);
  });

  test('show writers who may not read only what they may both add and change', async () => {
    const added = await as('adam')('POST', '/api/paper/', { title: 'new', zone: 'west' });
    assert.deepEqual([added.status, Object.keys(added.json)], [201, ['id']]);
  });

  test('repeat no answer to a write that the caller may no longer read', async () => {
    const { sql } = service;
    const put = async (): Promise<number> =>
      (await as('lou')('PUT', '/api/paper/1/', { note: 'kept' }, { 'idempotency-key': 'lou 1' })).status;
    const statuses = [await put(), await put()];
    await sql`update paper set zone = 'south' where id = 1`;
    statuses.push(await put());
    await sql`update paper set zone = 'north' where id = 1`;
    statuses.push(await put());
    await sql`update "user" set role = '{noter}' where username = 'lou'`;
    statuses.push(await put());
    assert.deepEqual(statuses, [200, 200, 403, 200, 403]);
  });

  test('repeat only what the caller sees of a record now', async () => {
    const { sql } = service;
    const repeat = async () =>
      (await as('mix')('PUT', '/api/paper/4/', { note: 'seen' }, { 'idempotency-key': 'mix 1' })).json.zone;
    await sql`update paper set zone = 'north' where id = 4`;
    const before = await repeat();
    await sql`update paper set zone = 'south' where id = 4`;
    assert.deepEqual([before, await repeat()], ['north', null]);
  });

  test('name in no text what does not exist for the caller', async () => {
    const detail = async (name: string, query: string): Promise<string> =>
      (await as(name)('GET', `/api/paper/?${query}`)).text;
    assert.match(await detail('oli', 'aproved=1'), /approved/);
    assert.doesNotMatch(await detail('tia', 'aproved=1'), /approved/);
    assert.doesNotMatch(await detail('oli', 'vault__nane=one'), /name/);
    const documents = await Promise.all(
      ['oli', 'tia'].map(async (name) =>
        (await as(name)('GET', '/api/openapi.json')).text.includes('approved'),
      ),
    );
    assert.deepEqual(documents, [true, false]);
  });

  test('open no page of the admin area without its grant', async () => {
    await assert.rejects(logIn(service, 'paul'));
    const browser = await logIn(service, 'pam');
    const paths = ['-/export.csv', '-/import/', '-/add/', '1/history/', '1/delete/'];
    for (const path of ['/admin/paper/', '/admin/user/1/'])
      assert.equal((await browser.get(path)).status, 200);
    const others = ['/admin/user/1/access/', '/admin/vitrine_history/', '/admin/vitrine_event/'];
    for (const path of [...paths.map((one) => `/admin/paper/${one}`), ...others])
      assert.equal((await browser.get(path)).status, 404, path);
    const bulk = { _action: 'export.csv', _id: '1' };
    assert.notEqual((await browser.post('/admin/paper/-/bulk/', bulk)).status, 200);
    assert.equal((await as('pam')('GET', '/api/-/changes/')).status, 403);
    const writer = await logIn(service, 'mix');
    const [entry] = await service.sql<
      { id: string }[]
    >`select id from vitrine_history where model = 'paper' and record = '1' limit 1`;
    assert.equal((await writer.get('/admin/paper/1/')).status, 200);
    for (const path of [`1/?_entry=${entry?.id}`, '-/import/'])
      assert.equal((await writer.get(`/admin/paper/${path}`)).status, 404);
  });

  test('end a position of the feed with nothing that tells whether there were changes', async () => {
    const after = async (): Promise<string> =>
      (await as('ada')('GET', '/api/-/changes/?after=now')).json.meta.after;
    assert.notEqual(await after(), await after());
  });

  test('name in the feed only users whom the caller may read', async () => {
    const authors = async (name: string): Promise<unknown[]> =>
      (await as(name)('GET', '/api/-/changes/')).json.objects.map(({ user }: { user: unknown }) => user);
    assert.ok((await authors('ada')).some((one) => one !== null));
    assert.deepEqual([...new Set(await authors('reg'))], [null]);
  });

  test('of a user hold for tokens, within their scopes', async () => {
    const tokenOf = async (scope: object): Promise<Record<string, string>> => {
      const { json } = await as('ada')('POST', '/api/-/tokens/', scope);
      return { authorization: `Bearer ${json.token}` };
    };
    const [pages, papers] = [
      await tokenOf({ resources: ['page'] }),
      await tokenOf({ resources: ['paper', 'user'], methods: ['GET', 'PUT'] }),
    ];
    const statuses: number[] = [];
    const ask = async (headers: Record<string, string>, method: string, path: string, body?: unknown) =>
      statuses.push((await service.request(path, { method, headers, body })).status);
    for (const headers of [pages, papers])
      for (const model of ['page', 'paper']) await ask(headers, 'GET', `/api/${model}/`);
    assert.deepEqual(statuses.splice(0), [200, 403, 403, 200]);
    await as('kim')('POST', '/api/memo/', { text: 'mine' });
    assert.deepEqual((await service.request('/api/memo/', { headers: pages })).json.objects, []);
    await ask(papers, 'PUT', '/api/user/1/', { password: 'another long one' });
    await ask(papers, 'PUT', '/api/user/1/', { zone: 'east' });
    await ask(papers, 'POST', '/api/user/', { username: 'x' });
    await ask(papers, 'GET', '/api/-/tokens/');
    assert.deepEqual(statuses, [400, 200, 403, 403]);
  });

  test('bind a cursor to the caller', async () => {
    const path = '/api/page/?limit=1&ordering=zone';
    await service.sql`insert into page (paper_id, zone) values (1, 'north'), (1, 'north')`;
    const { json } = await as('fay')('GET', path, undefined, { prefer: 'paging=cursor' });
    const next = json.meta.next as string;
    assert.equal((await as('fay')('GET', next)).status, 200);
    assert.equal((await as('ada')('GET', next)).status, 400);
  });
});

test('a rule about rows for an action that ignores it stops the start', async () => {
  const limited = { clerk: { grants: { paper: { read: true, export: { rows: 'zone=north' } } } } } as const;
  await assert.rejects(
    startService([user, vault, paper], { roles: limited }),
    /grants\.paper\.export\.rows.* has no effect on this action/s,
  );
});
