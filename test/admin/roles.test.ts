// What users with roles find in the admin area.
import assert from 'node:assert/strict';
import type { Resource, Roles } from '../../src/index.ts';
import { user as sampleUser } from '../../src/resources/registry.ts';
import { type TestService, useService } from '../support.ts';
import {
  attemptLogin,
  fieldsOf,
  hiddenFields,
  logIn,
  readable,
  unescaped,
  type AdminAnswer,
  type Browser,
} from './support.ts';
import { describe, test } from 'node:test';

const user = {
  ...sampleUser,
  columns: { ...sampleUser.columns, role: { type: 'string', null: true } },
} satisfies Resource;

const customer = {
  model: 'customer',
  columns: { name: { type: 'string' }, birthday: { type: 'date', null: true } },
  access: 'admin',
  read: 'admin',
  admin: { label: 'Customer {name} <{birthday}>' },
} satisfies Resource;

const ticket = {
  model: 'ticket',
  columns: {
    subject: { type: 'string' },
    customer: { type: 'foreignKey', references: 'customer' },
    assignee: { type: 'foreignKey', references: 'user', null: true },
    answer: { type: 'text', default: '' },
    status: { type: 'string', default: 'open', choices: ['open', 'done'] },
    secret: { type: 'string', default: 'hidden value' },
  },
  access: 'admin',
  read: 'admin',
} satisfies Resource;

const note = { model: 'note', columns: { text: { type: 'text' } }, access: 'user' } satisfies Resource;

const roles = {
  support: {
    admin: true,
    grants: {
      ticket: {
        read: { exclude: ['secret'], rows: ['assignee=$me', 'status=open'] },
        update: { columns: ['answer', 'status'], rows: 'assignee=$me' },
        history: true,
      },
      customer: { read: { exclude: ['birthday'] } },
    },
  },
  auditor: { admin: true, grants: { '*': { read: true, export: true, history: true } } },
  clerk: { grants: { note: { read: true } } },
} satisfies Roles;

/** Fills in the form of a page, and sends it. */
async function save(browser: Browser, path: string, fields: Record<string, string>): Promise<AdminAnswer> {
  const page = await browser.get(path);
  return browser.post(path, { ...fieldsOf(page), ...fields });
}

describe('a role in the admin area', () => {
  const ids: Record<string, number> = {};
  let sue: Browser;
  const service: TestService = useService(
    [user, customer, ticket, note],
    { roles, trustProxy: 1 },
    async () => {
      const { sql } = service;
      for (const [name, more] of Object.entries<Record<string, unknown>>({
        ada: { admin: true },
        sue: { role: 'support' },
        aud: { role: 'auditor' },
        cal: { role: 'clerk' },
      }))
        ids[name] = await service.addUser(name, more);
      await sql`insert into customer (name, birthday) values ('Ann', '2000-02-02')`;
      await sql`insert into ticket (subject, customer_id, assignee_id, answer, status, secret) values
      ('hers', 1, ${ids['sue'] ?? 0}, '', 'done', 'hidden value'), ('free', 1, null, '', 'open', 'hidden value'), ('other', 1, ${ids['ada'] ?? 0}, '', 'done', 'hidden value')`;
      await sql`insert into note (text) values ('a public note')`;
      sue = await logIn(service, 'sue');
    },
  );

  test('lets in the users of roles that may enter, and no others', async () => {
    assert.equal((await attemptLogin(service, 'aud', 'pw-aud')).status, 303);
    const refused = await attemptLogin(service, 'cal', 'pw-cal');
    assert.equal(refused.status, 401);
    assert.match(readable(refused), /Wrong user name or password, or this user may not log in here\./);
  });

  test('leaves out of a label what is not granted, with the texts around it', async () => {
    for (const [name, label] of [
      ['ada', 'Customer Ann <2000-02-02>'],
      ['sue', 'Customer Ann'],
    ] as const) {
      const page = await (await logIn(service, name)).get('/admin/customer/1/');
      assert.equal(unescaped(/<h1>([^<]*)</.exec(page.text)?.[1] ?? ''), label);
    }
  });

  test('gets back no form of a page that the role may no longer use', async () => {
    await service.addUser('ann', { admin: true });
    const ann = await logIn(service, 'ann');
    const path = '/admin/customer/-/add/';
    const typed = { ...fieldsOf(await ann.get(path)), name: 'typed' };
    await service.sql`update vitrine_session set seen = seen - interval '13 hours' where password_mark <> ''`;
    const login = await ann.post(path, typed);
    assert.equal(login.status, 401);
    await service.sql`update "user" set admin = false, role = 'support' where username = 'ann'`;
    const back = await ann.post('/admin/-/login/', {
      ...fieldsOf(login),
      username: 'ann',
      password: 'pw-ann',
    });
    assert.equal(back.status, 404, readable(back));
    assert.equal((await ann.get('/admin/customer/')).status, 200);
    sue = await logIn(service, 'sue');
  });

  test('shows the views that others share, unless they name what is not granted', async () => {
    const ada = await logIn(service, 'ada');
    const save = async (browser: Browser, query: string, title: string): Promise<AdminAnswer> =>
      browser.post(`/admin/ticket/-/view/?${query}`, { title, shared: '1' });
    for (const [query, title] of [
      ['status=open', 'Open ones'],
      ['secret=x', 'By secret'],
      ['_columns=secret', 'Secrets'],
      ['customer__birthday__lt=2001-01-01', 'Old'],
    ] as const)
      // prettier-ignore
      assert.equal((await save(ada, query, title)).status, 303);
    await ada.post('/admin/ticket/-/view/?status=done', { title: 'Of ada' });
    // Only admins share views.
    assert.equal((await save(sue, 'status=done', 'Of sue')).status, 303);
    const tabs = (page: AdminAnswer): string[] =>
      [.../<nav class="tabs"[\s\S]*?<\/nav>/.exec(page.text)?.[0].matchAll(/>([^<>]+)<\/a/g) ?? []].map(([, title = '']) => title); // prettier-ignore
    assert.deepEqual(tabs(await sue.get('/admin/ticket/')), ['All', 'Open ones', 'Of sue']);
    assert.deepEqual(tabs(await ada.get('/admin/ticket/')), ['All', 'Open ones', 'By secret', 'Secrets', 'Old', 'Of ada']); // prettier-ignore
    assert.doesNotMatch((await sue.get('/admin/ticket/')).text, /birthday|_columns=secret/);
    const [shared] = await service.sql`select id from vitrine_view where title = 'Open ones'`;
    const [other] = await service.sql`select id from vitrine_view where title = 'Of ada'`;
    for (const id of [shared?.['id'], other?.['id']]) {
      const path = `/admin/ticket/-/view/?_view=${String(id)}`;
      assert.equal((await sue.get(path)).status, 404);
      assert.equal((await sue.post(path, { title: 'x', delete: '1' })).status, 404);
    }
    assert.equal((await sue.get('/admin/note/-/view/?text=x')).status, 404);
    const own = /href="([^"]*_view=\d+)"/.exec((await sue.get('/admin/ticket/?status=done')).text)?.[1] ?? '';
    assert.equal((await sue.post(own, { title: 'x', delete: '1' })).status, 303);
    await service.sql`delete from vitrine_view`;
  });

  test('shows the granted resources, and no others', async () => {
    const start = (await sue.get('/admin/')).text;
    for (const name of ['ticket', 'customer']) assert.match(start, new RegExp(`href="/admin/${name}/"`));
    for (const name of ['note', 'user']) {
      assert.doesNotMatch(start, new RegExp(`href="/admin/${name}/"`));
      assert.equal((await sue.get(`/admin/${name}/`)).status, 404);
    }
    const list = (await sue.get('/admin/ticket/')).text;
    for (const subject of ['hers', 'free', 'Ann']) assert.ok(list.includes(subject), subject);
    for (const text of ['other', 'hidden value', '/-/import/', '/-/export.csv', '/-/add/'])
      assert.doesNotMatch(list, new RegExp(`\\b${text}`));
    assert.ok(!(await sue.get('/admin/customer/')).text.includes('2000'));
  });

  test('lets users change the granted columns of the granted records', async () => {
    const form = await sue.get('/admin/ticket/1/');
    assert.match(form.text, /name="answer"/);
    assert.doesNotMatch(form.text, /name="subject"|name="assignee_id"|hidden value/);
    const others = await sue.get('/admin/ticket/2/');
    assert.match(readable(others), /free/);
    assert.doesNotMatch(others.text, /name="answer"|name="status"|name="_save"/);
    assert.equal((await sue.get('/admin/ticket/3/')).status, 404);
    const saved = await save(sue, '/admin/ticket/1/', { answer: 'done so', status: 'done' });
    assert.equal(saved.status, 303, saved.text);
    const refused = await save(sue, '/admin/ticket/2/', { answer: 'not mine', status: 'open' });
    assert.equal(refused.status, 403, refused.text);
    const stored = await service.sql`select answer from ticket order by id`;
    assert.deepEqual(
      stored.map((row) => row['answer'] as unknown),
      ['done so', '', ''],
    );
    for (const page of ['/-/add/', '/-/import/', '/-/export.csv', '/1/delete/'])
      assert.equal((await sue.get(`/admin/ticket${page}`)).status, 404, page);
  });

  test('refuses a change of a selection with one record that it may not change', async () => {
    const bulk = { _state: '', _action: 'set', _column: 'status', _value: '1', status: 'done' };
    for (const [chosen, status] of [
      [['1', '2'], 403],
      [['1'], 303],
    ] as const) {
      const page = await sue.post('/admin/ticket/-/bulk/', { ...bulk, _id: chosen });
      assert.equal(page.status, 200, page.text);
      const answer = await sue.post('/admin/ticket/-/bulk/', {
        ...hiddenFields(page, 'record'),
        _confirm: '1',
      });
      assert.equal(answer.status, status, readable(answer));
      if (status === 403)
        assert.match(
          readable(answer),
          /You may not change 1 of the selected records \(.+\)\. Nothing was changed\./,
        );
    }
    const stored = await service.sql`select status from ticket order by id`;
    assert.deepEqual(
      stored.map((row) => row['status'] as unknown),
      ['done', 'open', 'done'],
    );
  });

  test('shows the history of granted records only, without other columns', async () => {
    const ada = await logIn(service, 'ada');
    assert.equal(
      (await save(ada, '/admin/ticket/3/', { subject: 'other', answer: 'for no one else', status: 'done' }))
        .status,
      303,
    );
    assert.equal(
      (
        await save(ada, '/admin/ticket/1/', {
          subject: 'hers',
          secret: 'changed secret',
          answer: 'done so',
          status: 'done',
        })
      ).status,
      303,
    );
    const all = (await ada.get('/admin/vitrine_history/')).text;
    const shown = (await sue.get('/admin/vitrine_history/')).text;
    const rows = (text: string): number => text.match(/href="\/admin\/vitrine_history\/\d+\//g)?.length ?? 0;
    assert.ok(rows(all) > rows(shown) && rows(shown) > 0);
    const pages = await Promise.all(
      [...all.matchAll(/href="(\/admin\/vitrine_history\/\d+\/)[^"]*"/g)].map(([, path = '']) =>
        sue.get(path),
      ),
    );
    for (const { text } of pages) assert.doesNotMatch(text, /for no one else|changed secret/);
    const auditor = await logIn(service, 'aud');
    assert.equal(rows((await auditor.get('/admin/vitrine_history/')).text), rows(all));
    assert.equal((await auditor.get('/admin/ticket/-/export.csv')).status, 200);
    assert.equal((await auditor.post('/admin/ticket/1/', { answer: 'x' })).status, 404);
  });

  test('lets every user change the own password', async () => {
    const page = await sue.get('/admin/-/account/');
    assert.equal(page.status, 200);
    const changed = await sue.post('/admin/-/account/', {
      _current: 'pw-sue',
      _password: 'another long password',
      _repeat: 'another long password',
    });
    assert.equal(changed.status, 303, changed.text);
  });

  test('ends the session when the role is taken away', async () => {
    const browser = await logIn(service, 'aud');
    assert.equal((await browser.get('/admin/')).status, 200);
    await service.sql`update "user" set role = 'clerk' where username = 'aud'`;
    assert.equal((await browser.get('/admin/')).status, 303);
  });
});

describe('a user with two roles that may change different columns', () => {
  const service: TestService = useService(
    [
      { ...user, columns: { ...user.columns, role: { type: 'array', of: 'string', null: true } } },
      {
        model: 'task',
        columns: {
          name: { type: 'string' },
          state: { type: 'string', default: 'open' },
          urgent: { type: 'boolean', default: true },
        },
      },
    ],
    {
      roles: {
        namer: { admin: true, grants: { task: { read: true, update: { columns: ['name', 'state'] } } } },
        closer: { grants: { task: { update: { columns: ['urgent'], rows: 'state=open' } } } },
      },
    },
    async () => {
      await service.addUser('tom', { role: ['namer', 'closer'] });
      await service.sql`insert into task (name, state) values ('Paint', 'done'), ('Clean', 'open')`;
    },
  );

  test('saves a record in which only some of them may be changed', async () => {
    const tom = await logIn(service, 'tom');
    assert.match((await tom.get('/admin/task/2/')).text, /name="urgent"/);
    const page = await tom.get('/admin/task/1/');
    assert.match(page.text, /name="name"/);
    assert.doesNotMatch(page.text, /name="urgent"/);
    const saved = await tom.post('/admin/task/1/', { ...fieldsOf(page), name: 'Paint it' });
    assert.equal(saved.status, 303, readable(saved));
    const [row] = await service.sql`select name, state, urgent from task where id = 1`;
    assert.deepEqual({ ...row }, { name: 'Paint it', state: 'done', urgent: true });
  });
});
