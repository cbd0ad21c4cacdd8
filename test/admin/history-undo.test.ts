// Puts values of the history back, and undoes deletions and operations on several records.
import assert from 'node:assert/strict';
import { after, before, beforeEach, describe, test } from 'node:test';
import type { Resource, Roles } from '../../src/index.ts';
import { user as sampleUser } from '../../src/resources/registry.ts';
import { lockedOut, pluck, startBeside, startService, type Answer, type TestService } from '../support.ts';
import { addFactor } from '../second-factor.ts';
import {
  attemptLogin,
  confirmImport,
  fieldsOf,
  hiddenFields,
  invalidFields,
  logIn,
  readable,
  remove,
  runBulk,
  uploadFile,
  type AdminAnswer,
  type Browser,
  type Fields,
} from './support.ts';

const user = {
  ...sampleUser,
  columns: { ...sampleUser.columns, role: { type: 'string', null: true } },
} satisfies Resource;
const name = { type: 'string' } as const;
const access = 'user';

const resources: Resource[] = [
  user,
  { model: 'team', columns: { name }, access },
  {
    model: 'task',
    columns: {
      name,
      state: { type: 'string', default: 'new', choices: ['new', 'done'] },
      details: { type: 'json', null: true },
      size: { type: 'decimal', precision: 8, scale: 2, null: true },
      made: { type: 'datetime', default: 'now' },
      team: { type: 'foreignKey', references: 'team', null: true, onDelete: 'cascade' },
      after: { type: 'foreignKey', references: 'task', null: true, onDelete: 'cascade' },
      hidden: { type: 'string', null: true },
    },
    access,
    admin: {
      readonly: ['made'],
      exclude: ['hidden'],
      inlines: [{ model: 'remark' }],
      actions: [
        {
          name: 'shout',
          title: 'Shout',
          on: ['list'],
          run: async ({ records, operations }) => {
            for (const { id, name } of records)
              await operations.update('task', Number(id), { name: `${String(name)}!` });
          },
        },
      ],
    },
  },
  {
    model: 'remark',
    columns: {
      text: { type: 'text' },
      task: { type: 'foreignKey', references: 'task', null: true, onDelete: 'setNull' },
    },
    access,
  },
  {
    model: 'page',
    primaryKey: { columns: ['book', 'number'] },
    columns: { book: { type: 'integer' }, number: { type: 'integer' }, text: { type: 'text' } },
    access,
  },
  { model: 'strict', columns: { team: { type: 'foreignKey', references: 'team' } }, access },
  { model: 'coded', primaryKey: { type: 'string' }, columns: { name }, access },
];

const roles = {
  support: {
    admin: true,
    grants: {
      task: {
        read: { exclude: ['details'], rows: 'state=new' },
        update: { columns: ['name'], rows: 'state=new' },
        history: true,
      },
    },
  },
  clerk: {
    admin: true,
    grants: { coded: { read: true, create: true, history: true }, team: { read: true, history: true } },
  },
} satisfies Roles;

let service: TestService;
let ada: Browser;
before(async () => {
  service = await startService(resources, { roles, trustProxy: 1 });
  await service.addUser('ada', { admin: true });
  await service.addUser('sue', { role: 'support' });
  await service.addUser('cleo', { role: 'clerk' });
  ada = await logIn(service, 'ada');
});
after(() => service.close());
beforeEach(async () => {
  await service.sql`truncate vitrine_history, team, task, remark, page, strict, coded restart identity cascade`;
  await service.sql`delete from "user" where username not in ('ada', 'sue', 'cleo')`;
});

const send = (method: string, path: string, body?: unknown): Promise<Answer> =>
  service.request(path, { method, user: 'ada', body });
async function add(model: string, values: object): Promise<number> {
  const { status, json, text } = await send('POST', `/api/${model}/`, values);
  assert.equal(status, 201, text);
  return (json as { id: number }).id;
}
const HISTORY = '/admin/vitrine_history/';
/** The address of the undo of the last entry that meets a condition. */
async function undoPath(model: string, action: string): Promise<string> {
  const [row] = await service.sql<{ id: string }[]>`
    select id::text from vitrine_history where model = ${model} and action = ${action} order by vitrine_history.id desc limit 1`;
  assert.ok(row, `${action} ${model}`);
  return `${HISTORY}${row.id}/undo/`;
}
const confirm = async (
  browser: Browser,
  path: string,
  page?: AdminAnswer,
  more: Fields = {},
): Promise<AdminAnswer> =>
  browser.post(path, { ...hiddenFields(page ?? (await browser.get(path)), 'confirm'), ...more });
async function undo(model: string, action: string, more?: Fields): Promise<AdminAnswer> {
  const path = await undoPath(model, action);
  const answer = await confirm(ada, path, undefined, more);
  assert.equal(answer.status, 303, readable(answer));
  return ada.follow(answer);
}
const rows = async (table: string): Promise<Record<string, unknown>[]> => [
  ...(await service.sql`select * from ${service.sql(table)} order by 1, 2`),
];
const lastBatch = async (): Promise<Record<string, unknown>[]> => [
  ...(await service.sql`select action, model, record, door, user_name from vitrine_history
    where batch = (select batch from vitrine_history order by id desc limit 1) order by id`),
];

describe('Put these values back', () => {
  test('fills in the form with the values before a change, and writes nothing until it is saved', async () => {
    const id = await add('task', { name: 'first', size: '1.50', details: { a: 1 } });
    await send('PUT', `/api/task/${id}/`, { name: 'second', size: null, details: null });
    const page = await ada.get(`/admin/task/${id}/history/`);
    const [newest = ''] = [...page.text.matchAll(/href="(\/admin\/task\/\d+\/\?_entry=\d+)"/g)].map(
      ([, href]) => href,
    );
    const form = await ada.get(newest);
    assert.match(
      readable(form),
      /These are the values before the change on .* nothing is changed until you save\./,
    );
    const fields = fieldsOf(form);
    assert.deepEqual(
      [fields['name'], fields['size'], fields['details']],
      ['first', '1.50', '{\n  "a": 1\n}'],
    );
    assert.equal((await rows('task'))[0]?.['name'], 'second');
    assert.equal((await ada.post(`/admin/task/${id}/`, fields)).status, 303);
    const [stored] = await rows('task');
    assert.deepEqual([stored?.['name'], stored?.['size']], ['first', '1.50']);
  });

  test('fills in the values of an added record', async () => {
    const id = await add('task', { name: 'first' });
    await send('PUT', `/api/task/${id}/`, { name: 'second', state: 'done' });
    const page = await ada.get(`/admin/task/${id}/history/`);
    const links = [...page.text.matchAll(/href="(\/admin\/task\/\d+\/\?_entry=\d+)"/g)].map(
      ([, href = '']) => href,
    );
    const fields = fieldsOf(await ada.get(links.at(-1) ?? ''));
    assert.deepEqual([fields['name'], fields['state']], ['first', 'new']);
  });

  test('shows the page of a conflict if the record has changed since', async () => {
    const id = await add('task', { name: 'first' });
    await send('PUT', `/api/task/${id}/`, { name: 'second' });
    const [, href = ''] = /href="(\/admin\/task\/\d+\/\?_entry=\d+)"/.exec((await ada.get(`/admin/task/${id}/history/`)).text) ?? []; // prettier-ignore
    const form = await ada.get(href);
    await send('PUT', `/api/task/${id}/`, { name: 'third' });
    const answer = await ada.post(`/admin/task/${id}/`, fieldsOf(form));
    assert.equal(answer.status, 409);
    assert.match(readable(answer), /first.*third/);
  });

  test('is not found for an entry of another record, or none', async () => {
    const [one, two] = [await add('task', { name: 'one' }), await add('task', { name: 'two' })];
    const [entry] = await service.sql`select id from vitrine_history where record = ${String(two)}`;
    for (const wanted of [String(entry?.['id']), '999999', 'x', ''])
      assert.equal((await ada.get(`/admin/task/${one}/?_entry=${wanted}`)).status, 404, wanted);
  });

  test('gives a role no value that it may not see, and no record', async () => {
    const sue = await logIn(service, 'sue');
    const id = await add('task', { name: 'first', details: 'PRIVATE' });
    await send('PUT', `/api/task/${id}/`, { name: 'second', details: 'PRIVATE too' });
    const page = await sue.get(`/admin/task/${id}/history/`);
    const [, href = ''] = /href="(\/admin\/task\/\d+\/\?_entry=\d+)"/.exec(page.text) ?? [];
    const form = await sue.get(href);
    assert.equal(fieldsOf(form)['name'], 'first');
    assert.doesNotMatch(form.text + page.text, /PRIVATE/);
    await send('PUT', `/api/task/${id}/`, { state: 'done' });
    assert.equal((await sue.get(href)).status, 404);
  });
});

describe('Undo of a deletion', () => {
  test('adds the record again under its key, with what the cascade took', async () => {
    const team = await add('team', { name: 'T' });
    const first = await add('task', { name: 'first', team_id: team, size: '2.50', details: { a: [1] }, made: '2020-02-02 02:02:02' }); // prettier-ignore
    await add('task', { name: 'second', after_id: first });
    await add('remark', { text: 'kept', task_id: first });
    const before = [await rows('team'), await rows('task'), await rows('remark')];
    assert.equal((await send('DELETE', `/api/team/${team}/`)).status, 200);
    assert.deepEqual(await rows('task'), []);
    const page = await ada.get(await undoPath('team', 'delete'));
    assert.match(
      readable(page),
      /^Undo 4 changes\?.*4 records will be set back.*Team T Added again\..*Remark .* Changed back\./,
    );
    assert.deepEqual(await rows('team'), [], 'the preview writes nothing');
    const done = await undo('team', 'delete');
    assert.match(done.text, /Undone: 4 changes\./);
    assert.deepEqual([await rows('team'), await rows('task'), await rows('remark')], before);
    const batch = await lastBatch();
    assert.deepEqual(
      batch.map(({ action, model }) => `${action as string} ${model as string}`),
      ['create team', 'create task', 'create task', 'update remark'],
    );
    assert.ok(batch.every(({ door, user_name: author }) => door === 'admin' && author === 'ada'));
    const again = await ada.get(await undoPath('team', 'delete'));
    assert.match(readable(again), /Nothing can be undone\..* Skipped .*It has newer changes\./);
    assert.match((await send('POST', '/api/team/', { name: 'next' })).text, /"id": ?2/);
  });

  test('can be undone itself', async () => {
    const team = await add('team', { name: 'T' });
    await add('task', { name: 'first', team_id: team });
    await send('DELETE', `/api/team/${team}/`);
    await undo('team', 'delete');
    const page = await ada.get(await undoPath('team', 'create'));
    assert.match(readable(page), /2 records will be set back.*Deleted again\./);
    await undo('team', 'create');
    assert.deepEqual([await rows('team'), await rows('task')], [[], []]);
  });

  test('works from the page of the deleted record, with a key of several columns, and a text', async () => {
    for (const [path, values] of [
      ['page/3,4', { book: 3, number: 4, text: 'x' }],
      ['coded/a%20b', { id: 'a b', name: 'n' }],
    ] as const) {
      const [model = ''] = path.split('/');
      await send('POST', `/api/${model}/`, values);
      assert.equal((await send('DELETE', `/api/${path}/`)).status, 200);
      const page = await ada.get(`/admin/${path}/history/`);
      const [, href = ''] = /href="(\/admin\/vitrine_history\/\d+\/undo\/)"/.exec(page.text) ?? [];
      assert.equal((await confirm(ada, href)).status, 303);
      assert.equal((await rows(model)).length, 1, path);
    }
  });

  test('lists what the database refuses, and undoes the rest when asked again', async () => {
    const team = await add('team', { name: 'T' });
    await add('task', { name: 'first', team_id: team });
    await add('task', { name: 'second', team_id: team });
    await send('DELETE', `/api/team/${team}/`);
    await service.sql`alter table task add constraint no_first check (name <> 'first')`;
    try {
      const path = await undoPath('team', 'delete');
      const refused = await confirm(ada, path);
      assert.equal(refused.status, 409);
      assert.match(
        readable(refused),
        /The database refuses some of it.*Skipped .*Task first.*Undone .*Team T/,
      );
      assert.deepEqual(await rows('team'), []);
      assert.equal((await confirm(ada, path, refused)).status, 303);
      assert.deepEqual(
        (await rows('task')).map((row) => row['name']),
        ['second'],
      );
    } finally {
      await service.sql`alter table task drop constraint no_first`;
    }
  });

  test('gives a deleted user no password that works, and needs the own password', async () => {
    const eve = await service.addUser('eve');
    const deleted = await remove(ada, `/admin/user/${eve}/delete/`);
    assert.equal(deleted.status, 303, readable(deleted));
    const path = await undoPath('user', 'delete');
    const page = await ada.get(path);
    assert.match(readable(page), /Passwords are not in the history/);
    const unconfirmed = await confirm(ada, path, page);
    assert.deepEqual([unconfirmed.status, invalidFields(unconfirmed)], [400, ['_current']]);
    assert.equal((await confirm(ada, path, page, { _current: 'pw-ada' })).status, 303);
    const [stored] = await service.sql`select id, username, password from "user" where username = 'eve'`;
    assert.equal(stored?.['id'], eve);
    assert.equal((await attemptLogin(service, 'eve', 'pw-eve')).status, 401);
    assert.doesNotMatch(JSON.stringify(await rows('vitrine_history')), /argon2/);
  });

  test('gives a deleted user no session, token or second factor back', async () => {
    const eve = await service.addUser('eve', { admin: true });
    const browser = await logIn(service, 'eve');
    const made = await service.request('/api/-/tokens/', { method: 'POST', user: 'eve', body: { label: 'script' } });
    assert.equal(made.status, 201, made.text);
    const headers = { authorization: `Bearer ${made.json.token}` };
    assert.equal((await service.request('/api/-/me/', { headers })).status, 200);
    await addFactor(service, eve);
    const path = `/admin/user/${eve}/delete/`;
    const deleted = await ada.post(path, { ...hiddenFields(await ada.get(path), 'confirm'), _current: 'pw-ada' });
    assert.equal(deleted.status, 303, readable(deleted));
    await undo('user', 'delete', { _current: 'pw-ada' });
    assert.equal((await rows('user')).some(({ id }) => id === eve), true);
    assert.equal((await service.request('/api/-/me/', { headers })).status, 401);
    assert.equal((await browser.get('/admin/')).status, 303);
    assert.deepEqual(await rows('vitrine_second_factor'), []);
  }); // prettier-ignore

  test('brings nothing back that the admin area hides', async () => {
    const id = await add('task', { name: 'first', hidden: 'PRIVATE' });
    await send('DELETE', `/api/task/${id}/`);
    const path = await undoPath('task', 'delete');
    assert.match(readable(await ada.get(path)), /Some values cannot be restored/);
    const done = await undo('task', 'delete');
    assert.match(done.text, /Undone: 1 change\. Some values were not restored\./);
    assert.doesNotMatch(done.text, /PRIVATE/);
    assert.deepEqual(
      (await rows('task')).map((row) => row['hidden']),
      [null],
    );
  });
});

describe('Undo of an operation', () => {
  const three = async (): Promise<void> =>
    void (await send(
      'POST',
      '/api/task/',
      ['a', 'b', 'c'].map((text) => ({ name: text })),
    ));

  test('sets a bulk change back, and skips and lists the columns that have newer changes', async () => {
    await send(
      'POST',
      '/api/task/',
      ['a', 'b', 'c', 'd', 'e'].map((text) => ({ name: text, size: '1.00' })),
    );
    const set = { _action: 'set', _all: '1', _column: ['state', 'size'], state: 'done', size: '2.00' };
    await runBulk(ada, 'task', set);
    await send('PUT', '/api/task/2/', { name: 'newer' });
    for (const state of ['new', 'done']) await send('PUT', '/api/task/3/', { state });
    await service.sql`update task set size = 3 where id = 4`;
    await send('PUT', '/api/task/5/', { state: 'new', size: '5.00' });
    const page = await ada.get(await undoPath('task', 'update'));
    assert.equal(page.status, 404, 'the last change is alone, and is not of several records');
    const [entry] =
      await service.sql`select id from vitrine_history where after = '{"state":"done","size":"2.00"}' limit 1`;
    const path = `${HISTORY}${String(entry?.['id'])}/undo/`;
    const preview = readable(await ada.get(path));
    assert.match(preview, /4 records will be set back as before the operation, and 1 will be skipped/);
    assert.match(preview, /Task e It has newer changes\./);
    assert.match(
      preview,
      /Task a Changed back\. Task newer Changed back\. Task c Changed back, except State, which has changed since\. Task d Changed back, except Size,/,
    );
    assert.equal((await confirm(ada, path)).status, 303);
    assert.deepEqual(
      (await rows('task')).map(
        (row) => `${String(row['name'])} ${String(row['state'])} ${String(row['size'])}`,
      ),
      ['a new 1.00', 'newer new 1.00', 'c done 1.00', 'd new 3.00', 'e new 5.00'],
    );
  });

  for (const [what, count, after] of [
    ['has more newer changes than are looked at', 100, '{"name":"x"}'],
    ['has a newer change that cannot be read', 1, `{"name":"${'x'.repeat(34_000_000)}"}`],
  ] as const)
    test(`skips a record that ${what}`, async () => {
      await send(
        'POST',
        '/api/task/',
        ['a', 'b'].map((text) => ({ name: text })),
      );
      await runBulk(ada, 'task', { _action: 'set', _all: '1', _column: 'state', state: 'done' });
      const path = await undoPath('task', 'update');
      await service.sql`
        insert into vitrine_history (at, door, action, model, record, before, after)
        select now(), 'api', 'update', 'task', '1', '{"name":"a"}', ${after} from generate_series(1, ${count})`;
      const preview = readable(await ada.get(path));
      assert.match(preview, /Task b Changed back/);
      assert.match(preview, /Task a It has newer changes\./);
    });

  const offers: [what: string, run: () => Promise<AdminAnswer>, left: string[]][] = [
    ['a change of columns', () => runBulk(ada, 'task', { _action: 'set', _all: '1', _column: 'name', name: 'x' }), ['a', 'b', 'c']],
    ['a replaced text', () => runBulk(ada, 'task', { _action: 'set', _all: '1', _in: 'name', _replace: 'b', _with: 'y' }), ['a', 'b', 'c']],
    ['a deletion', () => runBulk(ada, 'task', { _action: 'delete', _id: ['1', '2'] }), ['a', 'b', 'c']],
    ['an action', () => runBulk(ada, 'task', { _action: 'do.shout', _all: '1' }), ['a', 'b', 'c']],
    ['an import', async () => {
      const path = '/admin/task/-/import/';
      return confirmImport(ada, path, await uploadFile(ada, path, 'id,name\n1,one\n,new\n'));
    }, ['a', 'b', 'c']],
    ['rows of a form', async () => {
      const form = fieldsOf(await ada.get('/admin/task/1/'));
      return ada.post('/admin/task/1/', { ...form, name: 'parent', 'remark.0.text': 'added' });
    }, ['a', 'b', 'c']],
  ]; // prettier-ignore
  for (const [what, run, names] of offers)
    test(`is offered in the message after ${what}`, async () => {
      await three();
      const done = await run();
      assert.equal(done.status, 303, readable(done));
      const message = /class="flash done"[^]*?<\/p>/.exec((await ada.follow(done)).text)?.[0] ?? '';
      const path = /href="([^"]*\/undo\/)">Undo</.exec(message)?.[1] ?? '';
      assert.match(path, /^\/admin\/vitrine_history\/\d+\/undo\/$/, message);
      assert.equal((await confirm(ada, path)).status, 303);
      assert.deepEqual(
        (await rows('task')).map((row) => row['name']),
        names,
      );
      assert.equal((await rows('remark')).length, 0);
    });

  test('deletes what an import has added, and sets back what it has changed', async () => {
    await three();
    const path = '/admin/task/-/import/';
    const preview = await uploadFile(ada, path, 'id,name\n1,one\n,new\n');
    const imported = await confirmImport(ada, path, preview);
    assert.equal(imported.status, 303, readable(imported));
    await undo('task', 'create');
    assert.deepEqual(
      (await rows('task')).map((row) => row['name']),
      ['a', 'b', 'c'],
    );
  });

  test('deletes added records whose key has several columns', async () => {
    await send('POST', '/api/page/', [1, 2].map((number) => ({ book: 1, number, text: 'x' }))); // prettier-ignore
    await undo('page', 'create');
    assert.deepEqual(await rows('page'), []);
  });

  test('shows what else it would delete, and leaves records that others need', async () => {
    await send('POST', '/api/team/', [{ name: 'free' }, { name: 'needed' }, { name: 'with task' }]);
    await add('strict', { team_id: 2 });
    await add('task', { name: 'more', team_id: 3 });
    const path = await undoPath('team', 'create');
    const page = await ada.get(path);
    assert.match(readable(page), /Deleted with them 1 record of Task/);
    const refused = await confirm(ada, path, page);
    assert.equal(refused.status, 409);
    assert.equal((await rows('team')).length, 3);
    assert.equal((await confirm(ada, path, refused)).status, 303);
    assert.deepEqual(
      (await rows('team')).map((row) => row['name']),
      ['needed'],
    );
  });

  test('does nothing if what can be undone has changed since the preview', async () => {
    await three();
    const path = await undoPath('task', 'create');
    const page = await ada.get(path);
    await send('PUT', '/api/task/2/', { name: 'newer' });
    const answer = await confirm(ada, path, page);
    assert.equal(answer.status, 409);
    assert.match(
      readable(answer),
      /What can be undone has changed since this page was shown\. Nothing was changed\./,
    );
    assert.equal((await rows('task')).length, 3);
  });

  test('is done once by a form that is sent three times, and each answer says so', async () => {
    const team = await add('team', { name: 'T' });
    await add('task', { name: 'first', team_id: team });
    await send('DELETE', `/api/team/${team}/`);
    const path = await undoPath('team', 'delete');
    const page = await ada.get(path);
    const sendIt = () => confirm(ada, path, page);
    const answers = [...(await Promise.all([sendIt(), sendIt()])), await sendIt()];
    assert.deepEqual(pluck(answers, 'status'), [303, 303, 303]);
    const targets = answers.map(({ headers }) => headers.get('location'));
    assert.equal(new Set(targets).size, 1, String(targets));
    assert.equal((await lastBatch()).length, 2);
  });

  test('overwrites no change that is made at the same moment', async () => {
    await three();
    await runBulk(ada, 'task', { _action: 'set', _all: '1', _column: 'state', state: 'done' });
    const path = await undoPath('task', 'update');
    const page = await ada.get(path);
    let sent: Promise<AdminAnswer> | undefined;
    await service.sql.begin(async (sql) => {
      await sql`update task set name = 'theirs' where id = 2`;
      sent = confirm(ada, path, page);
      await lockedOut(service);
    });
    const answer = await sent;
    assert.equal(answer?.status, 409);
    assert.match(readable(answer), /Skipped Record Why Task theirs/);
    const stored = await rows('task');
    assert.deepEqual(
      stored.map((row) => [row['name'], row['state']]),
      [
        ['a', 'done'],
        ['theirs', 'done'],
        ['c', 'done'],
      ],
    );
  });

  test('never changes the own user', async () => {
    await service.sql`insert into "user" (username, password, email) values ('two', 'x', '')`;
    await runBulk(ada, 'user', {
      _action: 'set',
      _all: '1',
      _column: 'email',
      email: 'a@example.org',
      _current: 'pw-ada',
    });
    const page = await ada.get(await undoPath('user', 'update'));
    assert.match(readable(page), /ada It is your own user\./);
  });

  test('is linked from its entries, and its batch filters the list', async () => {
    await three();
    const [entry] = await service.sql`select id, batch from vitrine_history limit 1`;
    const page = await ada.get(`${HISTORY}${String(entry?.['id'])}/`);
    assert.match(
      readable(page),
      /Undo.*Address 127\.0\.0\.1, roles admin, request \S+\. All changes of this operation/,
    );
    const list = await ada.get(`${HISTORY}?batch=${String(entry?.['batch'])}`);
    assert.match(readable(list), /3 records/);
  });

  test('is refused for large operations, and unknown or other pages', async () => {
    await service.sql`insert into vitrine_history (door, action, model, record, after, batch)
      select 'api', 'create', 'team', n, '{}', 'large' from generate_series(1, 5001) n`;
    const answer = await ada.get(await undoPath('team', 'create'));
    assert.equal(answer.status, 413);
    assert.match(readable(answer), /This operation has 5,001 changes, which are too many to undo here\./);
    for (const path of [`${HISTORY}999999/undo/`, `${HISTORY}x/undo/`, '/admin/team/1/undo/'])
      for (const answer of [await ada.get(path), await ada.post(path, {})])
        assert.equal(answer.status, 404, path);
  });
});

describe('the history of a role', () => {
  test('has the batch, but not the address, the request and the roles of others', async () => {
    const cleo = await logIn(service, 'cleo');
    await send('POST', '/api/team/', [{ name: 'a' }, { name: 'b' }]);
    const [entry] = await service.sql`select id, batch from vitrine_history limit 1`;
    const page = await cleo.get(`${HISTORY}${String(entry?.['id'])}/`);
    assert.match(readable(page), /All changes of this operation/);
    assert.doesNotMatch(readable(page), /127|[Rr]equest|[Rr]oles|Undo/);
    assert.match(readable(await cleo.get(`${HISTORY}?batch=${String(entry?.['batch'])}`)), /2 records/);
    for (const query of ['address=127.0.0.1', 'roles=admin', 'request__gt=0', 'ordering=address'])
      assert.equal((await cleo.get(`${HISTORY}?${query}`)).status, 400, query);
    assert.equal(
      (await cleo.get(`${HISTORY}-/filter/?_has.batch=x`)).location,
      `${HISTORY}?batch__ilike=%25x%25`,
    );
  });

  test('undoes only what the role may do in reverse', async () => {
    const cleo = await logIn(service, 'cleo');
    await send('POST', '/api/coded/', { id: 'mine', name: 'n' });
    await send('DELETE', '/api/coded/mine/');
    const path = await undoPath('coded', 'delete');
    assert.equal((await confirm(cleo, path)).status, 303);
    assert.equal((await rows('coded')).length, 1);
    const team = await add('team', { name: 'T' });
    await send('DELETE', `/api/team/${team}/`);
    const ofTeam = await undoPath('team', 'delete');
    for (const answer of [await cleo.get(ofTeam), await cleo.post(ofTeam, {})])
      assert.equal(answer.status, 404);
    await send('POST', '/api/coded/', [
      { id: 'x', name: 'n' },
      { id: 'y', name: 'n' },
    ]);
    assert.equal((await cleo.get(await undoPath('coded', 'create'))).status, 404, 'it may not delete');
  });

  test('names the columns that the role may not set, and leads back if nothing can be undone', async () => {
    const sue = await logIn(service, 'sue');
    await send('POST', '/api/task/', [{ name: 'a' }, { name: 'b' }]);
    await runBulk(ada, 'task', { _action: 'set', _all: '1', _column: 'size', size: '5' });
    const path = await undoPath('task', 'update');
    const page = await sue.get(path);
    assert.match(readable(page), /Nothing to undo.*Nothing can be undone\. Back to the change.*You may not set Size\./);
    assert.doesNotMatch(readable(page), /has changed since/);
    assert.ok(page.text.includes(`href="${path.replace('undo/', '')}"`));
  }); // prettier-ignore

  test('shows and undoes no change of a record that the role may not see', async () => {
    const sue = await logIn(service, 'sue');
    await send('POST', '/api/task/', [{ name: 'seen' }, { name: 'UNSEEN', state: 'done' }]);
    await runBulk(ada, 'task', { _action: 'set', _all: '1', _column: 'name', name: 'other' });
    const [seen] = await service.sql`select id from vitrine_history where record = '1' and action = 'update'`;
    const own = `${HISTORY}${String(seen?.['id'])}/undo/`;
    const page = await sue.get(own);
    assert.match(readable(page), /1 record will be set back/);
    assert.doesNotMatch(page.text, /UNSEEN/);
    assert.equal((await confirm(sue, own, page)).status, 303);
    assert.deepEqual(
      (await rows('task')).map((row) => row['name']),
      ['seen', 'other'],
    );
  });

  test('hides the key of a deleted record that the role cannot see in what came of it', async () => {
    const cleo = await logIn(service, 'cleo');
    const team = await add('team', { name: 'T' });
    const task = await add('task', { name: 'first', team_id: team });
    await send('DELETE', `/api/team/${team}/`);
    const [entry] =
      await service.sql`select id from vitrine_history where record = ${String(task)} and cause is not null`;
    assert.match(readable(await ada.get(`${HISTORY}${String(entry?.['id'])}/`)), new RegExp(`The database made this change because Team #${team} was deleted\\.`)); // prettier-ignore
    assert.equal((await cleo.get(`${HISTORY}${String(entry?.['id'])}/`)).status, 404);
  });
});

describe('A column that has a new name', () => {
  const text = { type: 'string', null: true } as const;
  const room = { type: 'foreignKey', references: 'room', null: true } as const;
  const common: Resource[] = [user, { model: 'room', columns: { name }, access }];
  const guestWith = (columns: Resource['columns'], more: Partial<Resource> = {}): Resource[] => [
    ...common,
    { model: 'guest', columns: { name, ...columns }, access, ...more },
  ];
  const renamed = {
    mobile: { ...text, formerly: ['tel', 'phone'] },
    chamber: { ...room, formerly: ['room'] },
  };
  const started: { close: () => Promise<unknown> }[] = [];
  let old: TestService;
  let now: Pick<TestService, 'base' | 'request'>;
  let browser: Browser;
  let feed: string;

  const startNow = async (resourcesNow: readonly Resource[]): Promise<typeof now> => {
    const one = await startBeside(old.url, resourcesNow);
    started.unshift(one);
    return one;
  };
  async function call(
    one: typeof now,
    method: string,
    path: string,
    body?: unknown,
  ): Promise<Answer['json']> {
    const answer = await one.request(`/api/${path}`, { method, user: 'ada', body });
    assert.ok(answer.status < 300, answer.text);
    return answer.json;
  }
  /** The values before and after each change in the feed. */
  const changesOf = async (one: typeof now): Promise<unknown[]> => {
    const { objects } = await call(one, 'GET', `-/changes/?after=${feed}`);
    return (objects as { before: unknown; after: unknown }[]).map((change) => [change.before, change.after]);
  };
  before(async () => {
    old = await startService(guestWith({ phone: text, room }));
    started.push(old);
    await old.addUser('ada', { admin: true });
    for (const title of ['Blue', 'Red']) await call(old, 'POST', 'room/', { name: title });
    feed = (await call(old, 'GET', '-/changes/?after=now')).meta.after as string;
    await call(old, 'POST', 'guest/', { name: 'Ann', phone: '111', room_id: 1 });
    await call(old, 'PUT', 'guest/1/', { phone: '222', room_id: 2 });
    await call(old, 'POST', 'guest/', { name: 'Bob', phone: '333', room_id: 2 });
    await call(old, 'DELETE', 'guest/2/');
    await old.sql`insert into vitrine_history (door, action, model, record, before, after) values
      ('api', 'update', 'guest', '1', '{"phone":"p","tel":"t"}', '{"tel":"t2","mobile":"m2","phone":"p2"}')`;
    await old.sql`alter table guest rename phone to mobile`;
    await old.sql`alter table guest rename room_id to chamber_id`;
    now = await startNow(guestWith(renamed));
    browser = await logIn(now, 'ada');
  });
  after(async () => {
    for (const one of started) await one.close();
  });

  test('has its history under the present one', async () => {
    const [twice, changed] = await entryTexts();
    assert.match(changed ?? '', /Mobile 111 222 Chamber Blue Red/);
    assert.match(twice ?? '', /Mobile t m2/);
    const { text: csv } = await browser.get('/admin/vitrine_history/-/export.json?model=guest&action=update');
    assert.match(csv, /\\"mobile\\":\\"111\\",\\"chamber_id\\":1/);
    assert.doesNotMatch(csv, /phone|tel|room_id/);
    const list = readable(await browser.get('/admin/vitrine_history/?model=guest&action=update'));
    assert.match(list, /Changed: Mobile, Chamber/i);
  });

  async function entryTexts(): Promise<string[]> {
    const page = await browser.get('/admin/guest/1/history/');
    assert.doesNotMatch(page.text, /No visible column was changed/);
    return page.text
      .split('<section')
      .slice(1)
      .map((part) => readable({ ...page, text: `<main><section${part}</main>` }));
  }

  test('has it in the change feed', async () => {
    assert.deepEqual(await changesOf(now), [
      [null, { id: 1, name: 'Ann', mobile: '111', chamber_id: 1 }],
      [
        { mobile: '111', chamber_id: 1 },
        { mobile: '222', chamber_id: 2 },
      ],
      [null, { id: 2, name: 'Bob', mobile: '333', chamber_id: 2 }],
      [{ id: 2, name: 'Bob', mobile: '333', chamber_id: 2 }, null],
      [{ mobile: 't' }, { mobile: 'm2' }],
    ]);
  });

  test('puts the values back, and undoes a deletion', async () => {
    const page = await browser.get('/admin/guest/1/history/');
    const links = [...page.text.matchAll(/href="(\/admin\/guest\/1\/\?_entry=\d+)"/g)].map(
      ([, href = '']) => href,
    );
    const fields = fieldsOf(await browser.get(links[1] ?? ''));
    assert.deepEqual([fields['mobile'], fields['chamber_id']], ['111', '1']);
    const [entry] = await old.sql`select id from vitrine_history where model = 'guest' and action = 'delete'`;
    const answer = await confirm(browser, `/admin/vitrine_history/${String(entry?.['id'])}/undo/`);
    assert.equal(answer.status, 303, readable(answer));
    assert.deepEqual(await call(now, 'GET', 'guest/2/'), {
      id: 2,
      name: 'Bob',
      mobile: '333',
      chamber_id: 2,
    });
  });

  test('hides it if the present column is hidden, and without formerly', async () => {
    for (const registry of [
      guestWith(renamed, { exclude: ['mobile', 'chamber'], admin: { exclude: ['mobile', 'chamber'] } }),
      guestWith({ mobile: text, chamber: room }),
    ]) {
      const one = await startNow(registry);
      const [created] = await changesOf(one);
      assert.deepEqual(created, [null, { id: 1, name: 'Ann' }]);
      const shown = await (await logIn(one, 'ada')).get('/admin/guest/1/history/');
      assert.doesNotMatch(shown.text, /111|222|Blue/);
    }
  });
});
