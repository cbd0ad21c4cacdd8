// Actions that a registry adds: their forms, their confirmation, and what they may change.
import assert from 'node:assert/strict';
import { Message, type CustomAction, type Resource, type Roles } from '../../src/index.ts';
import { lockedOut } from '../http/expect.ts';
import { user as sampleUser } from '../../src/resources/registry.ts';
import { useService, type TestService } from '../support.ts';
import {
  errorsIn,
  fieldsOf,
  hiddenFields,
  logIn,
  readable,
  unescaped,
  type AdminAnswer,
  type Browser,
  type Fields,
} from './support.ts';
import { beforeEach, describe, test } from 'node:test';

/** What the last action was given. */
let given: Parameters<CustomAction['run']>[0] | undefined;

const close: CustomAction = {
  name: 'close',
  title: 'Close',
  on: ['record', 'list'],
  fields: {
    reason: { type: 'string', label: 'Why', help: 'The customer reads it.' },
    by: { type: 'foreignKey', references: 'user', null: true },
    score: { type: 'integer', min: 1, max: 5, default: 3 },
    quiet: { type: 'boolean', default: false },
  },
  confirm: 'The customers get a mail.',
  run: async (context) => {
    given = context;
    const { records, values, operations } = context;
    const reason = String(values['reason']);
    if (reason === 'no') throw new Message('is no reason', 'reason');
    for (const { id, status } of records) {
      await operations.update('ticket', Number(id), { status: 'closed', note: reason });
      await operations.create('remark', { ticket: id, text: `closed: ${reason}` });
      if (status === 'closed') throw new Message('A ticket is closed already.');
    }
    return reason === 'count' ? undefined : `Closed because of “${reason}”.`;
  },
};

const bare = (name: string, run: CustomAction['run'], more: Partial<CustomAction> = {}): CustomAction => ({
  name,
  title: name,
  on: ['record', 'list'],
  run,
  ...more,
});

/** Changes an action may make of users only if it says so. */
const LOGINS = [{ admin: true }, { active: false }, { role: 'agent' }, { username: 'bob' }, { password: 'a new secret' }]; // prettier-ignore
const change =
  (
    work: (operations: Parameters<CustomAction['run']>[0]['operations']) => Promise<unknown>,
  ): CustomAction['run'] =>
  async ({ operations }) => {
    await work(operations);
    return 'Done.';
  };
const USER_CHANGES: readonly (readonly [name: string, run: CustomAction['run']])[] = [
  ...LOGINS.map((values) => [`user-${Object.keys(values)[0]}`, change(({ update }) => update('user', 3, values))] as const),
  ['user-made', change(({ create }) => create('user', { username: 'eve', password: 'a new secret', admin: true }))],
  ['user-removed', change(({ remove }) => remove('user', 3))],
]; // prettier-ignore

const ticket: Resource = {
  model: 'ticket',
  columns: {
    name: { type: 'string' },
    status: { type: 'string', choices: ['open', 'closed'], default: 'open' },
    note: { type: 'text', null: true },
    cost: { type: 'bigint', null: true, write: 'admin' },
    owner: { type: 'foreignKey', references: 'user', null: true },
    code: { type: 'string', unique: true, null: true },
  },
  access: 'admin',
  read: 'admin',
  admin: {
    title: 'Tickets',
    actions: [
      close,
      bare('purge', ({ records, operations }) => Promise.all(records.map(({ id }) => operations.remove('ticket', String(id)))).then(() => undefined), { title: 'Purge', level: 'admin', on: ['list'] }),
      bare('fail', async ({ operations, records }) => {
        await operations.update('ticket', String(records[0]?.['id']), { note: 'lost' });
        throw new Error('on purpose');
      }),
      bare('sql', async ({ transaction, caller }) => {
        const rows = await transaction('update ticket set note = $1 returning id, note', [caller.name]);
        return `${rows.length} rows, ${rows[0]?.['note']}.`;
      }),
      bare('swallow', async ({ operations, records }) => {
        await operations.update('ticket', String(records[0]?.['id']), { note: 'kept' });
        await operations.update('ticket', String(records[0]?.['id']), { status: 'odd' }).catch(() => undefined);
      }),
      bare('forget', ({ operations, records }) => {
        void operations.update('ticket', String(records[0]?.['id']), { note: 'late' });
      }),
      bare('double', async ({ records, operations }) => {
        for (const { id } of records) await operations.update('ticket', String(id), { code: 'same' });
      }),
      bare('price', async ({ records, operations }) => {
        for (const { id } of records) await operations.update('ticket', String(id), { cost: '9007199254740993' });
      }, { level: ['agent'] }),
      bare('peek', async ({ operations }) => {
        const found = [await operations.read('ticket', 3), await operations.read('ticket', 99)];
        return JSON.stringify(found.map((one) => one?.['name'] ?? null));
      }, { level: ['agent'] }),
      bare('users', async ({ operations }) => JSON.stringify(await operations.read('user', 1)), { level: ['agent'] }),
      ...USER_CHANGES.flatMap(([name, run]) => [bare(name, run), bare(`${name}-allowed`, run, { changesUsers: true })]),
      bare('mail', ({ operations }) => operations.update('user', 3, { email: 'r@b.example' }).then(() => 'Mailed.')),
      bare('nowhere', async ({ operations }) => void (await operations.read('nothing', 1))),
      bare('return', (context) => void (given = context), {
        fields: {
          returned: { type: 'date', default: 'now' },
          at: { type: 'datetime', null: true, default: 'now' },
          clock: { type: 'time', default: 'now' },
          fee: { type: 'decimal', scale: 2, precision: 6, default: '1.5' },
          state: { type: 'string', choices: ['good', 'bad'], default: 'good' },
          tags: { type: 'array', of: 'string', default: ['a'] },
        },
      }),
      ...Object.entries({ blank: undefined, number: NaN, nested: { a: [1, undefined] }, day: new Date('none'), map: new Map([[1, 2]]) }).map(([name, value]) =>
        bare(name, async ({ operations, records }) => {
          for (const { id } of records) await operations.update('ticket', String(id), { note: value, status: 'closed' });
        }),
      ),
      bare('created', async ({ operations }) => void (await operations.create('remark', { ticket: 1, text: undefined }))),
      bare('ask', ({ values }) => `Asked for ${String(values['text'])}.`, { title: 'Ask', fields: { text: { type: 'text' } }, on: ['record'] }),
    ],
  },
}; // prettier-ignore

const remark: Resource = {
  model: 'remark',
  columns: {
    ticket: { type: 'foreignKey', references: 'ticket', onDelete: 'cascade' },
    text: { type: 'text' },
  },
  access: 'admin',
  read: 'admin',
};

const user: Resource = {
  ...sampleUser,
  columns: { ...sampleUser.columns, role: { type: 'string', null: true } },
  admin: { actions: [bare('greet', ({ records }) => `Hello to ${records.length}.`)] },
};

const roles = {
  agent: {
    admin: true,
    grants: { ticket: { read: { rows: ['owner=$me', 'status=open'] }, update: { rows: 'owner=$me' } } },
  },
  reader: { admin: true, grants: { ticket: { read: true } } },
} satisfies Roles;

let ada: Browser;
let amy: Browser;
const BULK = '/admin/ticket/-/bulk/';

const recordPath = (id: number): string => `/admin/ticket/${id}/action/`;
const choose = (name: string, choice: Fields = { _id: ['1', '2'] }, browser = ada): Promise<AdminAnswer> =>
  browser.post(BULK, { _state: '', _action: `do.${name}`, ...choice });
const send = (page: AdminAnswer, typed: Fields = {}, path = BULK, browser = ada): Promise<AdminAnswer> =>
  browser.post(path, { ...hiddenFields(page, 'record'), ...fieldsOf({ ...page, text: page.text.replace(/<input type="hidden"[^>]*>/g, '') }), ...typed }); // prettier-ignore
const run = async (name: string, choice?: Fields, browser = ada): Promise<AdminAnswer> =>
  send(await choose(name, choice, browser), {}, BULK, browser);
const stored = async (): Promise<string> =>
  (await service.sql`select status || ':' || coalesce(note, '') as one from ticket order by id`)
    .map(({ one }) => String(one))
    .join();
/** The page after an action, with its message. */
const followed = async (browser: Browser, done: AdminAnswer): Promise<string> =>
  (await browser.follow(done)).text;
const UNCHANGED = 'open:,open:,open:,closed:';

const service: TestService = useService([user, ticket, remark], { roles, trustProxy: 1 }, async () => {
  await service.addUser('ada', { admin: true });
  await service.addUser('amy', { role: 'agent' });
  await service.addUser('rob', { role: 'reader' });
  [ada, amy] = [await logIn(service, 'ada'), await logIn(service, 'amy')];
});

beforeEach(async () => {
  given = undefined;
  await service.sql`truncate ticket, remark, vitrine_history, vitrine_event restart identity`;
  await service.sql`insert into ticket (name, status, owner_id) values ('a', 'open', 2), ('b', 'open', 2), ('c', 'open', null), ('d', 'closed', 1)`;
});

describe('an action of a record', () => {
  test('is a button that leads to its form, its confirmation, and back to the record', async () => {
    const record = await ada.get('/admin/ticket/1/?_list=status%3Dopen');
    const href = unescaped(/href="([^"]*)">Close</.exec(record.text)?.[1] ?? '');
    assert.equal(href, '/admin/ticket/1/action/?_list=status%3Dopen&name=close');
    assert.doesNotMatch(record.text, />Purge</);
    const form = await ada.get(href);
    assert.match(readable(form), /^Close: a Fields marked \* are required\. Why \* The customer reads it\. By .* Score .* Quiet Continue Cancel$/); // prettier-ignore
    assert.equal(fieldsOf(form)['score'], '3');
    const asked = await send(form, { reason: 'spam', by: '2', by_id: '2' }, recordPath(1));
    assert.match(readable(asked), /^Close: a\? Why spam By amy Score 3 Quiet No The customers get a mail\. Close Cancel$/); // prettier-ignore
    assert.equal(await stored(), UNCHANGED);
    const done = await send(asked, {}, recordPath(1));
    assert.equal(done.location, '/admin/ticket/2/?_list=status%3Dopen');
    assert.match(
      unescaped(await followed(ada, done)),
      /Closed because of “spam”\.\s*<a href="\/admin\/ticket\/1\/">View record</,
    );
    assert.equal(await stored(), 'closed:spam,open:,open:,closed:');
    assert.deepEqual(given?.values, { reason: 'spam', by: 2, score: 3, quiet: false });
    assert.deepEqual(given?.records, [{ id: 1, name: 'a', status: 'open', note: null, cost: null, owner_id: 2, code: null }]); // prettier-ignore
    assert.deepEqual({ ...given?.caller }, { id: '1', name: 'ada', admin: true, roles: [] });
    const log =
      await service.sql`select model, action, user_name, door, batch from vitrine_history order by id`;
    assert.deepEqual(log.map(({ model, action }) => `${String(model)} ${String(action)}`), ['ticket update', 'remark create']); // prettier-ignore
    assert.equal(new Set(log.map(({ batch }) => String(batch))).size, 1);
    const [event] =
      await service.sql`select detail::jsonb as detail from vitrine_event where event = 'action'`;
    assert.deepEqual(event?.['detail'], {
      resource: 'ticket',
      action: 'close',
      records: 1,
      filter: '',
      selected: 1,
    });
  });

  test('leads to the next record of its list, from the last one to the list, and without a list back', async () => {
    for (const [id, list, location] of [
      [1, '', '/admin/ticket/2/?_list='],
      [2, 'ordering=-id', '/admin/ticket/1/?_list=ordering%3D-id'],
      [3, 'status=open', '/admin/ticket/?status=open'],
      [3, undefined, '/admin/ticket/3/'],
    ] as const) {
      const form = await ada.get(
        `${recordPath(id)}?name=ask${list === undefined ? '' : `&_list=${encodeURIComponent(list)}`}`,
      );
      const done = await send(form, { text: 'more' }, recordPath(id));
      assert.equal(done.location, location);
      const isLast = location.startsWith('/admin/ticket/?');
      assert.equal((await followed(ada, done)).includes('There is no next record.'), isLast);
    }
  });

  test('without a confirmation runs from its form, and one that does not exist is 404', async () => {
    const form = await ada.get(`${recordPath(2)}?name=ask`);
    const invalid = await send(form, {}, recordPath(2));
    assert.deepEqual([invalid.status, errorsIn(invalid)], [400, { text: 'Is required.' }]);
    const done = await send(invalid, { text: 'more' }, recordPath(2));
    assert.match(unescaped(await followed(ada, done)), /Asked for more\./);
    for (const name of ['', 'nothing', 'purge']) {
      assert.equal((await ada.get(`${recordPath(2)}?name=${name}`)).status, 404);
      assert.equal(
        (await ada.post(recordPath(2), { _action: name, _value: '1', _confirm: '1' })).status,
        404,
      );
    }
    assert.equal((await ada.get('/admin/ticket/99/action/?name=ask')).status, 404);
    assert.equal((await ada.get('/admin/remark/1/action/?name=ask')).status, 404);
  });

  test('leads to the record after a login, if the session has ended', async () => {
    const other = await logIn(service, 'ada');
    const form = await other.get(`${recordPath(1)}?name=ask`);
    other.cookies.clear();
    const answer = await other.post(recordPath(1), { ...fieldsOf(form), text: 'x' });
    assert.match(answer.location ?? '', /next=%2Fadmin%2Fticket%2F1%2F&/);
  });
});

describe('the form of an action comes back after the login, and runs only when it is sent again', () => {
  /** Lets the sessions of all but the usual browsers expire. @returns a browser whose session does, when that is called */
  async function expiring() {
    const rows = await service.sql`select token_hash from vitrine_session`;
    const kept = rows.map((row) => String(row['token_hash']));
    const browser = await logIn(service, 'ada');
    const expire = () =>
      service.sql`update vitrine_session set seen = seen - interval '13 hours' where not token_hash = any(${kept})`;
    return { browser, expire };
  }
  const logInAs = (name: string, browser: Browser, page: AdminAnswer): Promise<AdminAnswer> =>
    browser.post('/admin/-/login/', { ...fieldsOf(page), username: name, password: `pw-${name}` });

  const reason = { reason: 'typed' };
  const note = { _column: 'note', note: 'typed', _replace: 'a', _with: 'b', _in: 'name' };
  const forms: [what: string, path: string, first: (browser: Browser) => Promise<AdminAnswer>, typed: Fields, isOnLast: boolean][] = [
    ['on a record', recordPath(1), (browser) => browser.get(`${recordPath(1)}?name=close`), reason, true],
    ['on a record, without a confirmation', recordPath(1), (browser) => browser.get(`${recordPath(1)}?name=ask`), { text: 'typed' }, false],
    ['on a selection', BULK, (browser) => choose('close', { _id: '1' }, browser), reason, false],
    ['on a selection, with its confirmation', BULK, (browser) => choose('close', { _id: '1' }, browser), reason, true],
    ['that changes a selection', BULK, (browser) => browser.post(BULK, { _state: '', _action: 'set', _id: '1' }), note, true],
  ]; // prettier-ignore
  for (const [what, path, open, typed, isOnLast] of forms)
    test(what, async () => {
      const { browser, expire } = await expiring();
      const first = await open(browser);
      const last = isOnLast ? await send(first, typed, path, browser) : first;
      await expire();
      const page = await send(last, isOnLast ? {} : typed, path, browser);
      assert.equal(page.status, 401);
      const back = await logInAs('ada', browser, page);
      assert.equal(back.status, 200);
      assert.match(back.text, /typed/);
      assert.equal(await stored(), UNCHANGED);
      const sent = await send(back, {}, path, browser);
      const done = sent.status === 200 ? await send(sent, {}, path, browser) : sent;
      assert.equal(done.status, 303);
      assert.equal((await stored()).includes('typed'), !('text' in typed));
    });

  test('but not for another user, who is led to the list', async () => {
    const { browser, expire } = await expiring();
    const first = await choose('close', { _id: '1' }, browser);
    await expire();
    const back = await logInAs('amy', browser, await send(first, reason, BULK, browser));
    assert.equal(back.location, '/admin/ticket/');
    assert.match(await followed(browser, back), /What you typed before the login was not saved/);
  });

  test('but an export leads to the login, since it has no page', async () => {
    const { browser, expire } = await expiring();
    await expire();
    const answer = await browser.post(BULK, { _state: '', _action: 'export.csv', _id: '1' });
    assert.match(answer.location ?? '', /\/login\/\?next=%2Fadmin%2Fticket%2F&_because=undone$/);
  });

  test('also after a login in another tab', async () => {
    const first = await choose('close', { _id: '1' });
    const asked = await send(first, reason);
    const back = await send(asked, { _csrf: 'of the session before' });
    assert.equal(back.status, 403);
    assert.match(readable(back), /^Close: 1 record\? Why typed/);
    assert.equal(await stored(), UNCHANGED);
    assert.equal((await send(back)).status, 303);
    assert.match(await stored(), /^closed:typed/);
  });
});

describe('an action on selected records', () => {
  test('is in the menu, and shows how many records it is about', async () => {
    const list = await ada.get('/admin/ticket/');
    assert.match(list.text, /<option value="set">[^<]*<\/option><option value="do.close">Close<\/option>/);
    assert.doesNotMatch(list.text, /do\.ask/);
    const form = await choose('close', { _state: 'status=open', _all: '1' });
    const asked = await send(form, { reason: 'count', by_id: '' });
    assert.match(
      readable(asked),
      /^Close: 3 records\? .*The customers get a mail\. Close Cancel 3 records of Tickets/,
    );
    const done = await send(asked);
    assert.equal(done.location, '/admin/ticket/?status=open');
    // Each ticket and its remark.
    assert.match(unescaped(await followed(ada, done)), /Close: 6 records changed\./);
    assert.equal(await stored(), 'closed:count,closed:count,closed:count,closed:');
    const purged = await followed(ada, await run('purge', { _all: '1' }));
    assert.match(purged, /Purge: 4 records changed\./);
    assert.equal(await stored(), '');
  });

  test('changes nothing when it throws a message, which is shown at its field with what was typed', async () => {
    const form = await choose('close');
    const asked = await send(form, { reason: 'no', score: '5' });
    const refused = await send(asked);
    assert.deepEqual([refused.status, errorsIn(refused)], [400, { reason: 'Is no reason.' }]);
    assert.deepEqual([fieldsOf(refused)['reason'], fieldsOf(refused)['score']], ['no', '5']);
    const again = await send(await send(refused, { reason: 'late' }));
    assert.equal(again.status, 303);
    assert.equal(await stored(), 'closed:late,closed:late,open:,closed:');
    const whole = await send(await send(await choose('close', { _id: ['3', '4'] }), { reason: 'late' }));
    assert.equal(whole.status, 400);
    assert.match(readable(whole), /^Close: 2 records A ticket is closed already\./);
    assert.equal(await stored(), 'closed:late,closed:late,open:,closed:');
    assert.equal((await service.sql`select from remark`).count, 2);
  });

  test('checks the values of its fields', async () => {
    const form = await choose('close');
    const typed = { reason: '', score: '6', by_id: '99' };
    const { status, ...page } = await send(form, typed);
    assert.equal(status, 400);
    assert.deepEqual(errorsIn({ status, ...page }), {
      reason: 'Is required.',
      score: 'Must be at most 5.',
      by_id: 'There is no such record.',
    });
    assert.equal((await send(form, { ...typed, _confirm: '1', _expected: '2' })).status, 400);
    assert.equal(await stored(), UNCHANGED);
  });

  test('gets the defaults of its fields that are left empty, as the API writes them', async () => {
    const form = await choose('return');
    assert.match(readable(form), /Returned If left empty: now\./);
    const asked = await send(form, { _action: 'do.return' });
    assert.equal(asked.status, 303);
    const { returned, at, clock, ...constants } = given?.values ?? {};
    const near = (text: string): boolean => Math.abs(Date.parse(text) - Date.now()) < 100_000;
    assert.ok(near(`${String(at).replace(' ', 'T')}Z`), String(at));
    assert.ok(near(`${String(returned)}T${String(clock)}Z`), String([returned, clock]));
    assert.deepEqual(constants, { fee: '1.5', state: 'good', tags: ['a'] });
  });

  test('is a failure of the action when it writes what JSON lacks, which the log names', async () => {
    for (const [name, path] of [['blank', 'note is undefined'], ['number', 'note is NaN'], ['nested', 'note.a.1 is undefined'], ['day', 'note is Invalid Date'], ['map', 'note is Map(1)'], ['created', 'text is undefined']] as const) {
      service.lines.length = 0;
      assert.equal((await run(name)).status, 500, name);
      assert.ok(service.lines.some((line) => JSON.stringify(line).includes(path)), path);
      assert.equal(await stored(), UNCHANGED);
    } // prettier-ignore
  });

  test('changes nothing when an operation is refused, and says why', async () => {
    const double = await run('double');
    assert.equal(double.status, 409);
    assert.match(readable(double), /Nothing was changed: code: another record has this value/);
    for (const [name, status, text] of [['swallow', 400, /Nothing was changed: status: must be one of/], ['nowhere', 500, /See the log/], ['fail', 500, /See the log/]] as const) {
      const answer = await run(name);
      assert.equal(answer.status, status, name);
      assert.match(readable(answer), text);
    } // prettier-ignore
    assert.equal(await stored(), UNCHANGED);
    const logged = service.lines.filter((line) => JSON.stringify(line).includes('on purpose'));
    assert.equal(logged.length, 1);
  });

  test('waits for operations that it does not wait for itself', async () => {
    assert.equal((await run('forget', { _id: '1' })).status, 303);
    assert.equal(await stored(), 'open:late,open:,open:,closed:');
  });

  test('may run SQL in its transaction', async () => {
    assert.match(unescaped(await followed(ada, await run('sql'))), /4 rows, ada\./);
  });

  test('does nothing when the number of records has changed', async () => {
    const page = await choose('sql', { _state: 'status=open', _all: '1' });
    await service.sql`update ticket set status = 'closed' where id = 1`;
    const refused = await send(page);
    assert.equal(refused.status, 409);
    assert.match(readable(refused), /had 3 records when this page was shown, and now has 2\. Nothing was changed\./); // prettier-ignore
  });

  test('runs once when its form is sent twice', async () => {
    const asked = await send(await choose('close'), { reason: 'twice' });
    const answers = await Promise.all([send(asked), send(asked)]);
    assert.deepEqual(answers.map(({ status }) => status), [303, 303]); // prettier-ignore
    assert.match(unescaped(await followed(ada, await send(asked))), /Closed because of “twice”\./);
    assert.equal((await service.sql`select from remark`).count, 2);
  });

  test('changes nothing when the session ends before the commit', async () => {
    const rows = await service.sql`select token_hash from vitrine_session`;
    const kept = rows.map((row) => String(row['token_hash']));
    const other = await logIn(service, 'ada');
    const page = await choose('sql', { _all: '1' }, other);
    const { answer } = await service.sql.begin(async (sql) => {
      await sql`lock table ticket in exclusive mode`;
      await sql`delete from vitrine_session where not token_hash = any(${kept})`;
      const sent = send(page, {}, BULK, other);
      await lockedOut(service);
      return { answer: sent };
    });
    const refused = await answer;
    assert.equal(refused.status, 403);
    assert.match(readable(refused), /Your session ended before this was finished\. Nothing was changed\./);
    assert.equal(await stored(), UNCHANGED);
  });
});

describe('the rights of an action', () => {
  test('are those of the person who runs it', async () => {
    const own = await run('price', { _id: '1' }, amy);
    assert.deepEqual([own.status, /cost: may not be set/.test(readable(own))], [400, true]);
    const page = await choose('close', { _id: ['1', '3'] }, amy);
    const refused = await send(await send(page, { reason: 'mine' }, BULK, amy), {}, BULK, amy);
    // The agent may not add remarks, nor change the ticket without an owner.
    assert.equal(refused.status, 403);
    assert.match(readable(refused), /Nothing was changed: /);
    assert.equal(await stored(), UNCHANGED);
    assert.match(unescaped(await followed(amy, await run('peek', { _id: '1' }, amy))), /\["c",null\]/);
    await service.sql`update ticket set status = 'closed' where id = 3`;
    assert.match(unescaped(await followed(amy, await run('peek', { _id: '1' }, amy))), /\[null,null\]/);
    assert.equal((await run('users', { _id: '1' }, amy)).status, 403);
  });

  test('decide who finds it', async () => {
    const namesOf = async (browser: Browser): Promise<string[]> =>
      [...(await browser.get('/admin/ticket/')).text.matchAll(/value="do\.(\w+)"/g)].map(
        ([, name = '']) => name,
      );
    assert.ok((await namesOf(ada)).includes('purge'));
    const ofAmy = await namesOf(amy);
    assert.ok(!ofAmy.includes('purge') && ofAmy.includes('price') && ofAmy.includes('close'));
    const rob = await logIn(service, 'rob');
    assert.deepEqual(await namesOf(rob), []);
    for (const name of ['close', 'price', 'purge'])
      assert.equal(
        (await choose(name, { _id: '1', _value: '1', _confirm: '1', _expected: '1' }, rob)).status,
        404,
      );
    assert.equal((await rob.get(`${recordPath(1)}?name=close`)).status, 404);
  });

  test('include no change of users without the password', async () => {
    const path = '/admin/user/2/action/';
    const page = await ada.get(`${path}?name=greet`);
    const refused = await send(page, {}, path);
    assert.deepEqual([refused.status, Object.keys(errorsIn(refused))], [400, ['_current']]);
    const done = await send(refused, { _current: 'pw-ada' }, path);
    assert.match(unescaped(await followed(ada, done)), /Hello to 1\./);
  });

  test('include no change of a login unless they say so, and then only with the password', async () => {
    const users = () => service.sql`select * from "user" order by id`;
    const before = [...(await users())];
    for (const [name] of USER_CHANGES) {
      const from = service.lines.length;
      assert.equal((await run(name, { _id: '1' })).status, 500, name);
      const logged = JSON.stringify(service.lines.slice(from));
      assert.match(logged, new RegExp(`the action ${name} needs changesUsers: true`));
      assert.deepEqual([...(await users())], before, name);
      const page = await choose(`${name}-allowed`, { _id: '1' });
      const refused = await send(page);
      assert.deepEqual([refused.status, Object.keys(errorsIn(refused))], [400, ['_current']], name);
      assert.deepEqual([...(await users())], before, name);
    }
    const done = await send(await choose('user-admin-allowed', { _id: '1' }), { _current: 'pw-ada' });
    assert.equal(done.status, 303, readable(done));
    assert.equal((await users())[2]?.['admin'], true);
    await service.sql`update "user" set admin = false where id = 3`;
    assert.match(unescaped(await followed(ada, await run('mail', { _id: '1' }))), /Mailed\./);
  });
});
