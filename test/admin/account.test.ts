// One's own tokens on the account page, and what admins see and end of others on the page about a user's access.
import assert from 'node:assert/strict';
import type { Resource, Roles } from '../../src/index.ts';
import { codeAt } from '../second-factor.ts';
import { user as sampleUser } from '../../src/resources/registry.ts';
import { closedAfter, startBeside, startService, useService } from '../support.ts';
import {
  attemptLogin,
  errorsIn,
  fieldsOf,
  hiddenFields,
  invalidFields,
  logIn,
  readable,
  unescaped,
  type AdminAnswer,
  type Browser,
  type Fields,
} from './support.ts';
import { before, describe, test } from 'node:test';

const user = {
  ...sampleUser,
  columns: { ...sampleUser.columns, role: { type: 'string', null: true } },
  read: 'admin',
} satisfies Resource;

const customer = {
  model: 'customer',
  columns: { name: { type: 'string' }, birthday: { type: 'date', null: true } },
  access: 'admin',
  read: 'admin',
} satisfies Resource;

const ticket = {
  model: 'ticket',
  columns: {
    subject: { type: 'string' },
    assignee: { type: 'foreignKey', references: 'user', null: true },
    answer: { type: 'text', default: '' },
    status: { type: 'string', default: 'open' },
  },
  access: 'admin',
  read: 'admin',
} satisfies Resource;

const note = { model: 'note', columns: { text: { type: 'text' } }, access: 'user' } satisfies Resource;

const roles = {
  support: {
    admin: true,
    grants: {
      ticket: { read: true, update: { columns: ['answer', 'status'], rows: 'assignee=$me' }, history: true },
      customer: { read: { exclude: ['birthday'] } },
    },
  },
  clerk: { grants: { customer: { create: true, delete: true, read: true } } },
} satisfies Roles;

const ACCOUNT = '/admin/-/account/';
const TOKENS = '/admin/-/tokens/';
const ids: Record<string, number> = {};
let ada: Browser;
let sue: Browser;

const service = useService([user, customer, ticket, note], { roles, trustProxy: 1 }, async () => {
  for (const [name, more] of Object.entries<Record<string, unknown>>({
    ada: { admin: true },
    sue: { role: 'support' },
    cal: { role: 'clerk' },
    bob: {},
  }))
    ids[name] = await service.addUser(name, more);
  [ada, sue] = [await logIn(service, 'ada'), await logIn(service, 'sue')];
});

const tokenIn = ({ text }: AdminAnswer): string => /id="secret" value="(vt_[^"]*)"/.exec(text)?.[1] ?? '';

/** Sends the form that makes a token. */
async function makeToken(browser: Browser, name: string, fields: Fields = {}): Promise<AdminAnswer> {
  const form = fieldsOf(await browser.get(TOKENS));
  return browser.post(TOKENS, { ...form, _current: `pw-${name}`, ...fields });
}

const statusWith = async (token: string, path: string, method = 'GET', body?: unknown): Promise<number> =>
  (await service.request(path, { method, headers: { authorization: `Bearer ${token}` }, body })).status;

const idOf = (token: string): string => token.split('_')[1] ?? '';

describe('the account page', () => {
  test('makes a token that is shown once, and may do what its user may and the form says', async () => {
    const fields = {
      label: 'nightly <import>',
      resources: ['note', 'ticket'],
      methods: 'GET',
      expires: '30',
    };
    const made = await makeToken(sue, 'sue', fields);
    assert.equal(made.status, 200, readable(made));
    assert.equal(made.headers.get('cache-control'), 'no-store');
    const token = tokenIn(made);
    assert.equal(await statusWith(token, '/api/ticket/'), 200);
    assert.equal(await statusWith(token, '/api/customer/'), 403);
    assert.equal(await statusWith(token, '/api/note/', 'POST', { text: 'x' }), 403);
    const page = await sue.get(ACCOUNT);
    assert.match(
      readable(page),
      /nightly <import> note, ticket GET \d{4}-\d\d-\d\d .* Revoke nightly <import>/,
    );
    assert.doesNotMatch(page.text, new RegExp(token.slice(-72)));
    assert.doesNotMatch(JSON.stringify(service.lines), new RegExp(token.slice(-72)));
    const [row] = await service.sql`
      select round(extract(epoch from expires - created) / 86400)::int as days from vitrine_token where id = ${idOf(token)}`;
    assert.equal(row?.['days'], 30);
  });

  test('makes a token for everything that does not expire', async () => {
    const token = tokenIn(await makeToken(ada, 'ada', { expires: 'never' }));
    assert.equal(await statusWith(token, '/api/customer/'), 200);
    assert.match(readable(await ada.get(ACCOUNT)), new RegExp(`Token ${idOf(token)} all all never`));
  });

  test('makes one token of a form that is sent twice', async () => {
    const form = { ...fieldsOf(await sue.get(TOKENS)), _current: 'pw-sue', label: 'twice' };
    const answers = await Promise.all([sue.post(TOKENS, form), sue.post(TOKENS, form)]);
    assert.deepEqual(
      answers.map(({ status }) => status),
      [200, 200],
    );
    assert.equal(answers.filter((answer) => tokenIn(answer) !== '').length, 1);
    assert.ok(answers.some((answer) => /was made the first time/.test(readable(answer))));
    const made = await service.sql`select from vitrine_token where label = 'twice'`;
    assert.equal(made.count, 1);
  });

  const refused: [what: string, fields: Fields, invalid: string[]][] = [
    ['without the password', { _current: '' }, ['_current']],
    ['with a wrong password', { _current: 'wrong' }, ['_current']],
    ['with a long label', { label: 'x'.repeat(256) }, ['label']],
  ];
  for (const [what, fields, invalid] of refused)
    test(`makes no token ${what}, and keeps what was typed`, async () => {
      const { count } = await service.sql`select from vitrine_token`;
      const answer = await makeToken(sue, 'sue', {
        label: 'kept',
        resources: 'note',
        expires: '365',
        ...fields,
      });
      assert.equal(answer.status, 400);
      assert.deepEqual(invalidFields(answer), invalid);
      const sent = fieldsOf(answer);
      assert.deepEqual([sent['resources'], sent['expires']], ['note', '365']);
      assert.equal((await service.sql`select from vitrine_token`).count, count);
    });

  test('makes no token for a resource or a method that is not there', async () => {
    for (const fields of [{ resources: 'nothing' }, { methods: 'PATCH' }]) {
      const answer = await makeToken(sue, 'sue', fields);
      assert.equal(answer.status, 400);
      assert.match(readable(answer), /there is no resource nothing|must be one of GET/);
    }
  });

  test('offers only resources with which the user may do something', async () => {
    const { text } = await sue.get(TOKENS);
    const offered = [...text.matchAll(/name="resources" value="([^"]*)"/g)].map(([, name]) => name);
    assert.deepEqual(offered.sort(), ['customer', 'note', 'ticket']);
  });

  test('revokes a token of the user, and of no one else', async () => {
    const [own, other] = [tokenIn(await makeToken(sue, 'sue')), tokenIn(await makeToken(ada, 'ada'))];
    assert.match(
      readable(await sue.follow(await sue.post(ACCOUNT, { _revoke: idOf(other) }))),
      /Your account/,
    );
    assert.equal(await statusWith(other, '/api/customer/'), 200);
    const done = await sue.post(ACCOUNT, { _revoke: idOf(own) });
    assert.match((await sue.follow(done)).text, /class="flash done"[^>]*>The token was revoked\./);
    assert.equal(await statusWith(own, '/api/customer/'), 401);
    const again = await sue.follow(await sue.post(ACCOUNT, { _revoke: idOf(own) }));
    assert.match(again.text, /class="flash failed"[^>]*>There is no such token\./);
  });

  test('makes at most 50 tokens, and 20 in an hour', async () => {
    await service.addUser('max', { admin: true });
    const max = await logIn(service, 'max');
    await service.sql`
      insert into vitrine_token (user_key, secret_hash)
      select u.id::text, 'hash ' || n from "user" u, generate_series(1, 50) n where username = 'max'`;
    const answer = await makeToken(max, 'max');
    assert.equal(answer.status, 409);
    assert.match(readable(answer), /You have 50 tokens/);
    await service.sql`delete from vitrine_token where secret_hash like 'hash 1%' or secret_hash like 'hash 2%'`;
    const early = await makeToken(max, 'max');
    assert.equal(early.status, 429);
    assert.match(readable(early), /You have made 20 tokens in an hour/);
    assert.match(early.headers.get('retry-after') ?? '', /^(3[56]\d\d)$/);
  });

  test('changes the password to none of the most common', async () => {
    for (const common of ['Qwertyuiop12', '１２３４５６７８９０１２', 'passwordPASSWORD']) {
      const fields = { _current: 'pw-sue', _password: common, _repeat: common };
      const answer = await sue.post(ACCOUNT, fields);
      assert.equal(answer.status, 400);
      assert.match(errorsIn(answer)['_password'] ?? '', /most common/, common);
    }
  });

  test('has no tokens where their table is missing', async (t) => {
    const other = closedAfter(t, await startService([user]));
    await other.addUser('ada', { admin: true });
    await other.sql`drop table vitrine_token`;
    const without = closedAfter(t, await startBeside(other.url, [user], { schema: 'check' }));
    const browser = await logIn(without, 'ada');
    assert.doesNotMatch(readable(await browser.get(ACCOUNT)), /tokens/);
    assert.equal((await browser.get(TOKENS)).status, 404);
    assert.equal((await browser.post(TOKENS, { _current: 'pw-ada' })).status, 404);
  });
});

describe('the page about the access of a user', () => {
  const access = (name: string): string => `/admin/user/${ids[name]}/access/`;

  test('says what the roles allow, in the admin area and in the API', async () => {
    const page = await ada.get(access('sue'));
    assert.match(readable(page), /^Access of sue Roles support Resource Admin area API /);
    const rows = [...page.text.matchAll(/<tr>\s*<th scope="row"[^>]*>([^<]*)<\/th>([\s\S]*?)<\/tr>/g)].map(
      ([, name, cells = '']) => [
        name,
        ...[...cells.matchAll(/<td[^>]*>([^<]*)<\/td>/g)].map(([, cell]) => cell),
      ],
    );
    const row = (title: string): unknown => rows.find(([name]) => name === title)?.slice(1);
    assert.deepEqual(row('Ticket'), [
      'see, change Answer and Status (assignee=$me), history',
      'see, change Answer and Status (assignee=$me)',
    ]);
    assert.deepEqual(row('Customer'), ['see Name', 'see Name']);
    assert.deepEqual(row('Note'), ['–', 'see, add, change, delete']);
    assert.equal(row('User'), undefined);
  });

  test('of a user without a way into the admin area shows the API alone, and of an admin all', async () => {
    const clerk = readable(await ada.get(access('cal')));
    assert.match(
      clerk,
      /Roles clerk The user may not enter the admin area\. Resource API .*Customer see, add, delete/,
    );
    assert.match(readable(await ada.get(access('bob'))), /No roles\. The user may not enter/);
    const own = readable(await ada.get(access('ada')));
    assert.match(
      own,
      /Roles admin Resource Admin area API .*Customer see, add, change, delete, export, import, history see, add, change, delete/,
    );
  });

  test('ends all sessions of the user', async () => {
    const [here, there] = [await logIn(service, 'sue'), await logIn(service, 'sue')];
    const page = await ada.get(access('sue'));
    assert.match(readable(page), /Sessions Browser Address Since Last used .*End all sessions/);
    const done = await ada.post(access('sue'), { _sessions: 'end' });
    assert.equal(done.location, access('sue'));
    assert.match((await ada.follow(done)).text, /class="flash done"[^>]*>\d+ sessions ended\./);
    for (const browser of [here, there]) assert.match((await browser.get('/admin/')).location ?? '', /login/);
    sue = await logIn(service, 'sue');
  });

  test('ends the other sessions of the own user', async () => {
    const elsewhere = await logIn(service, 'ada');
    assert.match(readable(await ada.get(access('ada'))), /this session .*End all other sessions/);
    await ada.post(access('ada'), { _sessions: 'end' });
    assert.match((await elsewhere.get('/admin/')).location ?? '', /login/);
    assert.equal((await ada.get('/admin/')).status, 200);
    assert.match(readable(await ada.get(access('ada'))), /There are no other sessions\./);
  });

  test('lists the tokens of the user and revokes them, and no others', async () => {
    const [own, other] = [
      tokenIn(await makeToken(ada, 'ada')),
      tokenIn(await makeToken(sue, 'sue', { label: 'hers' })),
    ];
    assert.match(readable(await ada.get(access('sue'))), /Tokens .*hers all all/);
    await ada.post(access('sue'), { _revoke: idOf(own) });
    assert.equal(await statusWith(own, '/api/customer/'), 200);
    const done = await ada.follow(await ada.post(access('sue'), { _revoke: idOf(other) }));
    assert.match(done.text, /The token was revoked\./);
    assert.equal(await statusWith(other, '/api/customer/'), 401);
  });

  test('is for admins only', async () => {
    for (const path of [access('ada'), access('sue')]) {
      assert.equal((await sue.get(path)).status, 404);
      assert.equal((await sue.post(path, { _sessions: 'end' })).status, 404);
    }
  });
});

describe('the tokens of a user whose login changes are revoked, unless the box is unticked', () => {
  const passwords = { _password: 'a new long secret', _repeat: 'a new long secret' };
  interface Changed {
    readonly name: string;
    readonly id: number;
    readonly browser: Browser;
  }
  const forms: [what: string, path: (user: Changed) => Promise<string>, typed: (user: Changed, page: AdminAnswer) => Fields, by: 'user' | 'ada'][] = [
    ['own', () => Promise.resolve(ACCOUNT), ({ name }) => ({ ...passwords, _current: `pw-${name}` }), 'user'],
    ['set', ({ id }) => Promise.resolve(`/admin/user/${id}/password/`), () => ({ ...passwords, _current: 'pw-ada' }), 'ada'],
    ['link', async ({ id }) => {
      const page = await ada.post(`/admin/user/${id}/access/`, { _current: 'pw-ada' });
      return unescaped(/id="secret" value="([^"]*)"/.exec(page.text)?.[1] ?? '').slice(service.base.length);
    }, () => passwords, 'user'],
    ['factor', () => Promise.resolve('/admin/-/second-factor/'), ({ name }, page) => ({ _current: `pw-${name}`, _code: codeAt(fieldsOf(page)['_secret'] ?? '') }), 'user'],
  ]; // prettier-ignore
  for (const [what, pathOf, typed, by] of forms)
    for (const isTicked of [true, false])
      test(`${what}, ${isTicked ? 'ticked' : 'unticked'}`, async () => {
        const name = `${what}-${isTicked}`;
        const id = await service.addUser(name, { admin: true });
        const user = { name, id, browser: await logIn(service, name) };
        const token = tokenIn(await makeToken(user.browser, name));
        const kept = tokenIn(await makeToken(sue, 'sue'));
        const browser = by === 'user' ? user.browser : ada;
        const path = await pathOf(user);
        const page = await browser.get(path);
        assert.match(page.text, /name="_tokens" value="1" checked/);
        const box = isTicked ? { _tokens: '1' } : { _tokens: [] };
        const sent = { ...fieldsOf(page), ...typed(user, page), ...box };
        const done = await browser.post(path.replace(/\?.*/, ''), sent);
        assert.ok([200, 303].includes(done.status), readable(done));
        assert.equal(await statusWith(token, '/api/customer/'), isTicked ? 401 : 200);
        assert.equal(await statusWith(kept, '/api/customer/'), 200);
      });
});

describe('names and passwords in another form of Unicode', () => {
  const [composed, decomposed] = ['Jörg Müller', 'Jörg Müller'.normalize('NFD')];
  before(async () => {
    const fields = { username: composed, email: 'j@example.org', active: 'true', admin: 'true' };
    const password = { _password: composed.repeat(2), _repeat: composed.repeat(2), _current: 'pw-ada' };
    await ada.get('/admin/user/-/add/');
    assert.equal((await ada.post('/admin/user/-/add/', { ...fields, ...password })).status, 303);
  });

  test('are right in the login form and in confirmations', async () => {
    for (const [name, password] of [
      [composed, composed],
      [decomposed, decomposed],
      [composed, decomposed],
      [decomposed, composed],
    ] as const) {
      assert.equal((await attemptLogin(service, name, password.repeat(2))).status, 303);
      const browser = await logIn(service, name, password.repeat(2));
      const made = await makeToken(browser, '', { _current: decomposed.repeat(2) });
      assert.match(tokenIn(made), /^vt_/);
    }
    assert.equal((await attemptLogin(service, 'Jorg Muller', composed.repeat(2))).status, 401);
    assert.equal((await attemptLogin(service, composed, 'Jorg MullerJorg Muller')).status, 401);
  });

  test('make a password that is the user name', async () => {
    const browser = await logIn(service, composed, composed.repeat(2));
    const fields = { _current: composed.repeat(2), _password: `${decomposed}`, _repeat: decomposed };
    const answer = await browser.post(ACCOUNT, fields);
    assert.equal(answer.status, 400);
    assert.match(errorsIn(answer)['_password'] ?? '', /user name|at least/);
    assert.deepEqual(hiddenFields(answer, 'record')['username'], [composed]);
  });
});
