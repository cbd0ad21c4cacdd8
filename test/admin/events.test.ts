// Events: what happened besides changes of records, in the table, in the log and in the admin area.
import assert from 'node:assert/strict';
import type { Resource, Roles } from '../../src/index.ts';
import { user as sampleUser } from '../../src/resources/registry.ts';
import { eventually, fromNewAddress, stopClock } from '../http/expect.ts';
import { createDatabase, startBeside } from '../support.ts';
import {
  type AdminAnswer,
  attemptLogin,
  confirmImport,
  crlf,
  logIn,
  openBrowser,
  readable,
  runBulk,
  uploadFile,
  useAdmin,
} from './support.ts';
import { describe, test } from 'node:test';

stopClock();

const user = {
  ...sampleUser,
  columns: { ...sampleUser.columns, role: { type: 'string', null: true } },
} satisfies Resource;
const note = { model: 'note', columns: { text: { type: 'text' } }, access: 'user' } satisfies Resource;
const roles: Roles = {
  auditor: { admin: true, grants: { '*': { read: true, export: true, history: true } } },
};

interface Event {
  readonly id: string;
  readonly event: string;
  readonly user_name: string | null;
  readonly user_key: string | null;
  readonly address: string | null;
  readonly request: string | null;
  readonly detail: string | null;
}

describe('events', () => {
  const { service, ada } = useAdmin([user, note], { roles, trustProxy: 1 }, async () => {
    for (const [name, more] of Object.entries({
      bob: {},
      lin: {},
      eve: {},
      otto: { role: 'auditor' },
    }))
      await service.addUser(name, more);
    await service.sql`insert into note (text) select 'note ' || n from generate_series(1, 30) n`;
  });

  const lastId = async (): Promise<string> =>
    (await service.sql<{ id: string }[]>`select coalesce(max(id), 0)::text as id from vitrine_event`)[0]
      ?.id ?? '0';
  const after = async (id: string, name: string): Promise<Event[]> => [
    ...(await service.sql<
      Event[]
    >`select * from vitrine_event where id > ${id} and event = ${name} order by id`),
  ];

  /** Does something, and waits for its event, which no request waits for. */
  async function eventOf(
    name: string,
    work: () => Promise<unknown>,
  ): Promise<Event & { facts: Record<string, unknown> }> {
    const id = await lastId();
    await work();
    const [event] = await eventually(async () => {
      const found = await after(id, name);
      return found.length > 0 ? found : undefined;
    }, `the event ${name}`);
    assert.ok(event);
    await eventually(
      () => service.lines.find((line) => line['event'] === name && line['user'] === event.user_name),
      `the log line of ${name}`,
    );
    const facts = JSON.parse(event.detail ?? '{}') as Record<string, unknown>;
    return { ...event, facts };
  }

  test('are a login to the admin area and a logout', async () => {
    let browser = ada;
    const login = await eventOf('login', async () => (browser = await logIn(service, 'ada')));
    assert.deepEqual([login.user_name, login.facts], ['ada', { door: 'admin' }]);
    assert.equal(login.user_key, '1');
    assert.match(login.address ?? '', /./);
    const out = await eventOf('logout', () => browser.post('/admin/-/logout/'));
    assert.equal(out.user_name, 'ada');
    const line = service.lines.find(({ id }) => id === out.request && id !== undefined);
    assert.ok(line, 'the id of the request is that of the log');
  });

  test('are ended sessions, with their number', async () => {
    const [one] = [await logIn(service, 'otto'), await logIn(service, 'otto'), await logIn(service, 'otto')];
    const ended = await eventOf('session.ended', () => one.post('/admin/-/account/', { _sessions: 'end' }));
    assert.deepEqual([ended.user_name, ended.facts], ['otto', { sessions: 2 }]);
  });

  test('are a verified password of the API, and not each request with it', async () => {
    const headers = fromNewAddress();
    const read = () => service.request('/api/-/me/', { user: 'bob', headers });
    const login = await eventOf('login', read);
    assert.deepEqual([login.user_name, login.facts], ['bob', { door: 'api' }]);
    for (let n = 0; n < 5; n += 1) await read();
    assert.deepEqual(await after(login.id, 'login'), []);
  });

  test('are failed logins, with the user if there is one, and never with what was typed', async () => {
    const wrong = (name: string) => attemptLogin(service, name, 'wrong secret');
    const failed = await eventOf('login.failed', () => wrong('bob'));
    assert.equal(failed.user_name, 'bob');
    const unknown = await eventOf('login.failed', () => wrong('my password by mistake'));
    assert.equal(unknown.user_name, null);
    const rows = JSON.stringify(await service.sql`select * from vitrine_event`);
    assert.ok(!rows.includes('mistake') && !rows.includes('wrong secret'));
    const token = await eventOf('login.failed', () =>
      service.request('/api/note/', {
        method: 'POST',
        headers: { ...fromNewAddress(), authorization: 'Bearer vt_1_x' },
      }),
    );
    assert.deepEqual(token.facts, { token: true });
  });

  test('of a guesser are few, however many guesses there are', async () => {
    const headers = fromNewAddress();
    const id = await lastId();
    for (let n = 0; n < 60; n += 1)
      await attemptLogin(service, n % 2 ? 'bob' : `name ${n}`, `guess ${n}`, undefined, headers);
    await eventually(async () => (await after(id, 'login.throttled')).length > 0, 'throttling');
    const rows = [...(await after(id, 'login.failed')), ...(await after(id, 'login.throttled'))];
    assert.ok(rows.length >= 2 && rows.length <= 4, String(rows.length));
  });

  test('of guessers at many addresses are limited in number', async () => {
    const id = await lastId();
    for (let n = 0; n < 250; n += 1)
      await service.request('/api/note/', {
        method: 'POST',
        headers: { ...fromNewAddress(), authorization: `Bearer vt_${n}_x` },
      });
    const others = await eventually(async () => {
      const rows = await after(id, 'login.failed');
      return rows.find(({ detail }) => detail?.includes('others')) && rows;
    }, 'the row of the others');
    assert.ok(others.length <= 101, String(others.length));
  });

  test('are tokens that are made, used for the first time in a day, and revoked', async () => {
    let made: { id: number; token: string } | undefined;
    const making = await eventOf('token.made', async () => {
      made = (await service.request('/api/-/tokens/', { method: 'POST', user: 'eve', body: {} })).json;
    });
    const token = String(made?.id);
    assert.deepEqual([making.user_name, making.facts], ['eve', { token }]);
    assert.ok(!JSON.stringify(making).includes(made?.token ?? ''));
    const use = () => service.request('/api/-/me/', { headers: { authorization: `Bearer ${made?.token}` } });
    const used = await eventOf('token.used', use);
    assert.deepEqual([used.user_name, used.facts], ['eve', { token }]);
    await use();
    const revoked = await eventOf('token.revoked', () =>
      service.request(`/api/-/tokens/${token}/`, { method: 'DELETE', user: 'ada' }),
    );
    assert.deepEqual([revoked.user_name, revoked.facts], ['ada', { token }]);
    assert.deepEqual(await after(used.id, 'token.used'), []);
  });

  test('are what an admin does with the access of a user, and a password that is set by a link', async () => {
    const [row] = await service.sql<{ id: number }[]>`select id from "user" where username = 'lin'`;
    const access = `/admin/user/${row?.id}/access/`;
    let page: AdminAnswer | undefined;
    const link = await eventOf('password.link', async () => {
      page = await ada.post(access, { _current: 'pw-ada' });
    });
    assert.deepEqual([link.user_name, link.facts], ['ada', { of: 'lin' }]);
    const [, secret = ''] = /[?]link=([^"&<]+)/.exec(page?.text ?? '') ?? [];
    const lin = openBrowser(service);
    const set = await eventOf(
      'password.set',
      () =>
      lin.post('/admin/-/set-password/', { link: secret, _password: 'four words for lin', _repeat: 'four words for lin' }), // prettier-ignore
    );
    assert.deepEqual([set.user_name, set.facts], ['lin', { by: 'link' }]);
    const ended = await eventOf('session.ended', () => ada.post(access, { _sessions: 'end' }));
    assert.deepEqual([ended.user_name, ended.facts], ['ada', { sessions: 0, of: 'lin' }]);
  });

  test('are exports, with resource, filter and number of rows', async () => {
    const of = (path: string) => eventOf('export', () => ada.get(path));
    const list = await of('/admin/note/-/export.csv?text__ilike=note 1%25&_search=note&page=2');
    assert.deepEqual(list.facts, {
      ...{
        resource: 'note',
        format: 'csv',
        filter: 'text__ilike=note%201%25',
        search: 'note',
        rows: 11,
        whole: true,
      },
    });
    const json = await of('/admin/note/-/export.json');
    assert.deepEqual(json.facts, { resource: 'note', format: 'json', filter: '', rows: 30, whole: true });
    const page = await ada.get('/admin/note/');
    const selected = await eventOf('export', () =>
      ada.post('/admin/note/-/bulk/', {
        _csrf: /name="_csrf" value="([^"]*)"/.exec(page.text)?.[1] ?? '',
        _state: '',
        _action: 'export.csv',
        _id: ['1', '2'],
      }),
    );
    assert.deepEqual([selected.facts['selected'], selected.facts['rows']], [2, 2]);
  });

  test('are bulk changes and deletions, in their transaction', async () => {
    await ada.get('/admin/note/');
    const changed = await eventOf('bulk.change', () =>
      runBulk(ada, 'note', { _id: ['1', '2', '3'], _action: 'set', _column: 'text', text: 'note 1' }),
    );
    assert.deepEqual(changed.facts, {
      resource: 'note',
      records: 2,
      filter: '',
      selected: 3,
      column: 'text',
    });
    await ada.get('/admin/note/');
    const deleted = await eventOf('bulk.delete', () =>
      runBulk(ada, 'note', { _id: ['4', '5'], _action: 'delete' }),
    );
    assert.deepEqual(deleted.facts, { resource: 'note', records: 2, filter: '', selected: 2 });
    // Without the row there is no change: here the table refuses it.
    await service.sql`alter table vitrine_event add constraint closed check (event <> 'bulk.delete') not valid`;
    await ada.get('/admin/note/');
    await runBulk(ada, 'note', { _id: ['6'], _action: 'delete' });
    await service.sql`alter table vitrine_event drop constraint closed`;
    assert.equal((await service.sql`select from note where id = 6`).count, 1);
  });

  test('are imports, and not their previews', async () => {
    const path = '/admin/note/-/import/';
    const id = await lastId();
    const preview = await uploadFile(ada, path, crlf('id,text', ',new', '7,changed', '8,note 8'));
    assert.deepEqual(await after(id, 'import'), []);
    const done = await eventOf('import', () => confirmImport(ada, path, preview));
    assert.deepEqual(done.facts, { resource: 'note', new: 1, changed: 1, unchanged: 1, faulty: 0 });
    assert.equal(done.user_name, 'ada');
  });

  test('are listed for admins, who cannot change them', async () => {
    const list = await ada.get('/admin/vitrine_event/?event=login');
    assert.equal(list.status, 200);
    assert.match(readable(list), /login/);
    assert.match((await ada.get('/admin/')).text, /href="\/admin\/vitrine_event\/"/);
    const id = await lastId();
    assert.equal((await ada.get(`/admin/vitrine_event/${id}/`)).status, 200);
    for (const path of ['add/', `${id}/delete/`, `${id}/history/`, '-/import/'])
      assert.equal(
        (await ada.get(`/admin/vitrine_event/${path.replace(/^add/, '-/add')}`)).status,
        404,
        path,
      );
    const before = await service.sql`select * from vitrine_event order by id`;
    for (const [path, fields] of [
      [`/admin/vitrine_event/${id}/`, { event: 'x' }],
      [`/admin/vitrine_event/${id}/delete/`, { _confirm: '1' }],
      [
        '/admin/vitrine_event/-/bulk/',
        { _action: 'delete', _all: '1', _state: '', _confirm: '1', _expected: '1' },
      ],
    ] as const)
      assert.ok((await ada.post(path, fields)).status >= 400, path);
    assert.deepEqual(await service.sql`select * from vitrine_event where id <= ${id} order by id`, before);
    assert.equal((await service.request('/api/vitrine_event/', { user: 'ada' })).status, 404);
  });

  test('are not for the users of roles, also not of those who see all resources', async () => {
    const otto = await logIn(service, 'otto');
    assert.equal((await otto.get('/admin/vitrine_event/')).status, 404);
    assert.doesNotMatch((await otto.get('/admin/')).text, /vitrine_event/);
    assert.equal((await otto.get('/admin/note/')).status, 200);
  });

  test('of exports are each stored, however many came before', async () => {
    const otto = await logIn(service, 'otto');
    const id = await lastId();
    for (let times = 0; times < 22; times += 1) await otto.get('/admin/note/-/export.json');
    await eventually(async () => (await after(id, 'export')).length === 22, 'the exports');
  });

  test('that cannot be stored fail no request', async (t) => {
    await service.sql`alter table vitrine_event rename to elsewhere`;
    t.after(async () => service.sql`alter table elsewhere rename to vitrine_event`);
    const browser = await logIn(service, 'ada');
    assert.equal((await browser.get('/admin/note/-/export.json')).status, 200);
    const body = { text: 'x' };
    assert.equal(
      (
        await service.request('/api/note/', {
          method: 'POST',
          user: 'bob',
          headers: fromNewAddress(),
          body,
        })
      ).status,
      201,
    );
  });
});

test('without the table of events, they are logged, and the start warns', async (t) => {
  const database = await createDatabase();
  t.after(() => database.drop());
  await (await startBeside(database.url, [user, note], { roles })).close();
  await database.sql`drop table vitrine_event`;
  const lines: string[] = [];
  const log = (line: string): void => void lines.push(line);
  const service = await startBeside(database.url, [user, note], { roles, schema: 'check', log });
  await service.request('/api/note/', { method: 'POST', headers: { authorization: 'Bearer vt_1_x' } });
  await service.close();
  assert.match(lines.join(''), /Without vitrine_event, events are only logged/);
  assert.match(lines.join(''), /"event":"login\.failed"/);
});
