// Protection against cross-site requests: tokens and origins of forms, and GET without side effects.
import assert from 'node:assert/strict';
import { findAdminRoute, PAGES } from '../../src/admin/pages.ts';
import { buildModels } from '../../src/db/schema/build-models.ts';
import type { Resource as Definition } from '../../src/resources/definition/resource.ts';
import { HISTORY } from '../../src/resources/definition/system-tables.ts';
import { serveForAdmin } from '../../src/resources/access/admin-view.ts';
import { createViews } from '../../src/resources/access/resource-view.ts';
import { addFactor, codeAt, SECRET } from '../second-factor.ts';
import { useService, type Sql } from '../support.ts';
import { csrfIn, fieldsOf, hiddenFields, logIn, openBrowser, type Browser, type Fields } from './support.ts';
import { resources } from './sample-resources.ts';
import { before, describe, test } from 'node:test';

/** The resources as the admin area serves them. */
const served = (all: readonly Definition[]) => {
  const models = buildModels(all);
  const views = createViews(all, models, { access: 'user', read: 'default', userModel: 'user' });
  return serveForAdmin(all, models, views, new Map());
};

/**
 * The rows of each table as one text, to compare before and after. The column `seen` of sessions is left out, because any
 * request may update it, and so are the events, because an export is one.
 */
async function snapshot(sql: Sql): Promise<Record<string, string>> {
  const tables = await sql<{ name: string }[]>`select relname as name from pg_class
    where relnamespace = 'public'::regnamespace and relkind = 'r' and relname <> 'vitrine_event' order by relname`;
  const rows: Record<string, string> = {};
  for (const { name } of tables) {
    const [row] = await sql<{ text: string }[]>`
      select coalesce(string_agg(text, E'\n' order by text), '') as text
      from (select (to_jsonb(t) - 'seen')::text as text from ${sql(name)} t) lines`;
    rows[name] = row?.text ?? '';
  }
  return rows;
}

const LOGIN = '/admin/-/login/';

let other: Browser;
const service = useService(resources, { minPassword: 1 }, async () => {
  await service.addUser('other', { admin: true });
  other = await logIn(service, 'other');
  await service.sql`insert into note (message) values ('kept 1'), ('kept 2')`;
  await service.sql`insert into land (code, name) values ('x', 'Land')`;
});

/** A form that changes something when it is sent next. */
interface Form {
  readonly path: string;
  readonly fields: Fields;
}

const note = async (): Promise<string> => {
  const [row] = await service.sql`insert into note (message) values ('to be changed') returning id`;
  return String(row?.['id']);
};

/** Prepares the form of each page that accepts a POST. */
const FORMS: Readonly<Record<string, (browser: Browser) => Promise<Form>>> = {
  login: async (browser) => {
    browser.cookies.clear();
    await browser.get(LOGIN);
    return { path: LOGIN, fields: { username: 'ada', password: 'pw-ada' } };
  },
  tokens: () =>
    Promise.resolve({ path: '/admin/-/tokens/', fields: { _current: 'pw-ada', expires: 'never' } }),
  access: async () => {
    const id = await service.addUser('third', { admin: true });
    await logIn(service, 'third');
    return { path: `/admin/user/${id}/access/`, fields: { _sessions: 'end' } };
  },
  logout: () => Promise.resolve({ path: '/admin/-/logout/', fields: {} }),
  account: () =>
    Promise.resolve({
      path: '/admin/-/account/',
      fields: { _current: 'pw-ada', _password: 'pw-ada', _repeat: 'pw-ada' },
    }),
  view: () => Promise.resolve({ path: '/admin/note/-/view/', fields: { title: 'All notes' } }),
  display: () => Promise.resolve({ path: '/admin/-/display/', fields: { zone: 'Europe/Zurich' } }),
  'second-factor': async () => {
    const id = await service.addUser(`f${await note()}`);
    await addFactor(service, id);
    return { path: `/admin/user/${id}/second-factor/`, fields: { _current: 'pw-ada' } };
  },
  confirm: async (browser) => {
    const name = `c${await note()}`;
    const id = await service.addUser(name, { admin: true });
    const { cookies } = await logIn(service, name);
    for (const [key, value] of cookies) browser.cookies.set(key, value);
    await addFactor(service, id);
    return { path: '/admin/-/confirm/', fields: { _code: codeAt(SECRET) } };
  },
  add: async () => ({
    path: '/admin/land/-/add/',
    fields: { id: `l${await note()}`, name: 'Land', capital: '' },
  }),
  action: async (browser) => {
    const path = '/admin/land/x/action/';
    return { path, fields: hiddenFields(await browser.get(`${path}?name=shout`), 'record') };
  },
  bulk: async (browser) => {
    const path = '/admin/note/-/bulk/';
    const page = await browser.post(path, { _action: 'delete', _state: '', _id: await note() });
    return { path, fields: hiddenFields(page, 'confirm') };
  },
  import: async (browser) => {
    const path = '/admin/note/-/import/';
    const page = await browser.post(path, { _text: 'message\nimported\n' });
    return { path, fields: fieldsOf(page) };
  },
  record: async (browser) => {
    const path = `/admin/note/${await note()}/`;
    const fields = hiddenFields(await browser.get(path), 'record');
    return { path, fields: { ...fields, message: 'changed', created: '2024-05-31T18:30' } };
  },
  delete: async (browser) => {
    const path = `/admin/note/${await note()}/delete/`;
    return { path, fields: hiddenFields(await browser.get(path), 'confirm') };
  },
  password: async () => {
    const id = await service.addUser(`p${await note()}`);
    return {
      path: `/admin/user/${id}/password/`,
      fields: { _password: 'a new password', _repeat: 'a new password' },
    };
  },
  undo: async (browser) => {
    const deleted = `/admin/note/${await note()}/delete/`;
    await browser.post(deleted, hiddenFields(await browser.get(deleted), 'confirm'));
    const [entry] = await service.sql`select max(id)::text as id from vitrine_history`;
    const path = `/admin/vitrine_history/${String(entry?.['id'])}/undo/`;
    return { path, fields: hiddenFields(await browser.get(path), 'confirm') };
  },
};

/** Forged forms: a wrong token, or headers of a foreign page. */
const FORGERIES: readonly {
  readonly name: string;
  readonly token?: (own: string) => string | readonly string[] | Promise<string>;
  readonly headers?: (host: string) => Record<string, string>;
}[] = [
  { name: 'no token', token: () => [] },
  { name: 'an empty token', token: () => '' },
  { name: 'a changed token', token: (own) => (own.startsWith('A') ? 'B' : 'A') + own.slice(1) },
  { name: 'the token with another character', token: (own) => `${own}A` },
  {
    name: 'the token of another user',
    token: async () => csrfIn((await other.get('/admin/-/account/')).text),
  },
  {
    name: 'the token of another session of the user',
    token: async () => csrfIn((await (await logIn(service, 'ada')).get('/admin/')).text),
  },
  {
    name: 'the token of another login page',
    token: async () => csrfIn((await openBrowser(service).get(LOGIN)).text),
  },
  { name: 'Sec-Fetch-Site: cross-site', headers: () => ({ 'sec-fetch-site': 'cross-site' }) },
  { name: 'Sec-Fetch-Site: same-site', headers: () => ({ 'sec-fetch-site': 'same-site' }) },
  { name: 'a foreign origin', headers: () => ({ origin: 'https://evil.example' }) },
  {
    name: 'an origin that starts with the host',
    headers: (host) => ({ origin: `http://${host}.evil.example` }),
  },
  { name: 'an origin of another port', headers: (host) => ({ origin: `http://${host.split(':')[0]}:1` }) },
  { name: 'the origin null', headers: () => ({ origin: 'null' }) },
];

describe('a forged form returns 403 and changes nothing', () => {
  const host = (): string => new URL(service.base).host;
  before(async () => {
    await service.addUser('ada', { admin: true });
  });

  test('the tests cover every page that accepts a POST', () => {
    const changing = Object.keys(PAGES).filter((page) => PAGES[page]?.change);
    // Not `set-password`, whose link is as good as a token: see password-links.test.ts.
    assert.deepEqual(['login', ...changing].sort(), Object.keys(FORMS).sort());
  });

  for (const [page, form] of Object.entries(FORMS)) {
    test(`on the page ${page}`, async () => {
      const browser = await logIn(service, 'ada');
      const { path, fields } = await form(browser);
      const token = csrfIn((await browser.get(page === 'login' ? LOGIN : '/admin/-/account/')).text);
      assert.equal(findAdminRoute(path, served([...resources, HISTORY])).page, page);
      for (const { name, token: wrong, headers } of FORGERIES) {
        const _csrf = wrong ? await wrong(token) : token;
        const before = await snapshot(service.sql);
        const answer = await browser.post(path, { ...fields, _csrf }, headers?.(host()));
        assert.equal(answer.status, 403, name);
        assert.match(answer.headers.get('content-type') ?? '', /^text\/html/);
        assert.deepEqual(await snapshot(service.sql), before, name);
        assert.equal(answer.headers.getSetCookie().length, 0, name);
      }
      // The time zone is in a cookie alone.
      const state = async () => ({
        ...(await snapshot(service.sql)),
        zone: browser.cookies.get('admin-zone'),
      });
      const before = await state();
      const done = await browser.post(path, { ...fields, _csrf: token }, { 'sec-fetch-site': 'same-origin' });
      // A new token is shown at once.
      assert.equal(done.status, page === 'tokens' ? 200 : 303, done.text);
      assert.notDeepEqual(await state(), before);
    });
  }

  test('as a multipart form; JSON and plain text return 415', async () => {
    const browser = await logIn(service, 'ada');
    const token = csrfIn((await browser.get('/admin/-/account/')).text);
    const before = await snapshot(service.sql);
    const form = new FormData();
    for (const [name, value] of [['_csrf', 'x'], ['message', 'new']] as const) form.append(name, value); // prettier-ignore
    assert.equal((await browser.upload('/admin/note/-/add/', form)).status, 403);
    const cookie = [...browser.cookies].map(([name, value]) => `${name}=${value}`).join('; ');
    for (const [type, body] of [
      ['application/json', JSON.stringify({ _csrf: token, message: 'new' })],
      ['text/plain', `_csrf=${token}&message=new`],
    ] as const) {
      const headers = { cookie, 'content-type': type };
      const answer = await service.request('/admin/note/-/add/', { method: 'POST', headers, body });
      assert.equal(answer.status, 415);
    }
    assert.deepEqual(await snapshot(service.sql), before);
  });
});

describe('a GET changes nothing', () => {
  const PATHS = [
    '/admin/', '/admin/-/login/', '/admin/-/account/', '/admin/-/keys/', '/admin/vitrine_history/', '/admin/vitrine_history/1/',
    '/admin/note/', '/admin/note/?_columns=message', '/admin/note/-/filter/?_has.message=x', '/admin/note/-/add/',
    '/admin/note/-/lookup/?_search=x', '/admin/note/-/import/', '/admin/note/-/export.csv',
    '/admin/note/-/export.excel.csv', '/admin/note/-/export.json', '/admin/note/-/export.shown.csv',
    '/admin/note/-/export.shown.excel.csv', '/admin/note/-/view/?message=x',
    '/admin/note/1/', '/admin/note/1/delete/', '/admin/note/1/history/', '/admin/land/x/action/?name=shout', '/admin/user/1/password/', '/admin/vitrine_history/1/undo/',
    '/admin/-/tokens/', '/admin/user/1/access/', '/admin/-/set-password/?link=x',
    '/admin/-/second-factor/', '/admin/-/confirm/?next=/admin/note/', '/admin/-/go/?q=note', '/admin/user/1/second-factor/',
    // Addresses of forms:
    '/admin/-/logout/', '/admin/-/display/?zone=UTC', '/admin/note/-/bulk/?_action=delete&_all=1&_confirm=1&_expected=2',
    '/admin/note/1/delete/?_confirm=1', '/admin/land/x/action/?name=shout&_action=shout&_value=1&_confirm=1&_expected=1', '/admin/note/-/add/?message=new&_save=stay', '/admin/user/1/password/?_password=a&_repeat=a',
    '/admin/user/1/access/?_sessions=end', '/admin/-/account/?_revoke=1', '/admin/-/account/?_sessions=end', '/admin/-/tokens/?label=x', '/admin/note/-/view/?title=x&message=x',
  ]; // prettier-ignore

  test('the test covers every page that accepts a GET', () => {
    const covered = PATHS.map((path) => {
      const known = served([...resources, HISTORY]);
      return findAdminRoute(path.replace(/\?.*/, ''), known).page;
    });
    const shown = Object.keys(PAGES).filter((page) => PAGES[page]?.show);
    for (const page of ['login', 'set-password', ...shown]) assert.ok(covered.includes(page as never), page);
  });

  test('nor does a HEAD or a request with a method override', async () => {
    await service.addUser('grace', { admin: true });
    const browser = await logIn(service, 'grace');
    await service.sql`update vitrine_session set seen = seen - interval '1 hour'`;
    const before = await snapshot(service.sql);
    for (const path of PATHS) {
      const override = { 'x-http-method-override': 'POST', 'x-method-override': 'DELETE' };
      const { status } = await browser.get(
        `${path}${path.includes('?') ? '&' : '?'}_method=DELETE`,
        override,
      );
      assert.ok(status < 500, `${path}: ${status}`);
      const cookie = [...browser.cookies].map(([name, value]) => `${name}=${value}`).join('; ');
      await service.request(path, { method: 'HEAD', headers: { cookie } });
    }
    assert.deepEqual(await snapshot(service.sql), before);
  });
});
