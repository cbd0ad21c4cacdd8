// What was typed is not lost when the login is over, and nobody takes the key away from themselves by mistake.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { startService, type TestService } from '../support.ts';
import { attemptLogin, fieldsOf, hiddenFields, logIn, openBrowser, type Browser } from './support.ts';
import { resources } from './things.ts';

let service: TestService;
let ada: Browser;
let id = 0;

before(async () => {
  service = await startService(resources);
  id = await service.addUser('ada', { admin: true, email: '' });
  ada = await logIn(service, 'ada');
});
after(() => service.close());

const thing = async (name: string): Promise<string> => {
  const [row] = await service.sql`insert into thing (name, note) values (${name}, 'before') returning id`;
  return `/admin/thing/${row?.['id']}/`;
};
const noteOf = async (name: string): Promise<unknown> =>
  (await service.sql`select note from thing where name = ${name}`)[0]?.['note'];

/** Lets all sessions expire. */
const expire = (): Promise<unknown> =>
  service.sql`update vitrine_session set seen = seen - interval '13 hours' where password_mark <> ''`;

describe('a form that is sent after the login has ended', () => {
  test('leaves the login as it is where its page cannot be made', async () => {
    const address = await thing('Deleted meanwhile');
    const browser = await logIn(service, 'ada');
    const typed = fieldsOf(await browser.get(address));
    await expire();
    const asked = await browser.post(address, { ...typed, note: 'typed' });
    assert.equal(asked.status, 401);
    await service.sql`delete from thing where name = 'Deleted meanwhile'`;
    const login = { ...fieldsOf(asked), username: 'ada', password: 'pw-ada' };
    assert.equal((await browser.post('/admin/-/login/', login)).status, 404);
    assert.equal((await browser.get('/admin/')).status, 200);
    await service.sql`insert into thing (id, name) overriding system value values (${address.split('/')[3] ?? ''}, 'Back')`;
    const back = await browser.post('/admin/-/login/', login);
    assert.equal(back.status, 200);
    assert.equal(fieldsOf(back)['note'], 'typed');
  });

  for (const [what, path] of [
    ['a record', async () => thing('Kept')],
    ['a new record', async () => Promise.resolve('/admin/thing/-/add/')],
  ] as const) {
    test(`comes back after the next login with everything that was typed: ${what}`, async () => {
      const address = await path();
      const browser = await logIn(service, 'ada');
      const typed = { ...fieldsOf(await browser.get(address)), name: `Kept ${what}`, note: 'typed <b>' };
      await expire();
      const asked = await browser.post(address, typed);
      assert.equal(asked.status, 401);
      assert.match(asked.text, /get back what you typed/);
      assert.equal(await noteOf(`Kept ${what}`), undefined);
      const wrong = await browser.post('/admin/-/login/', {
        ...fieldsOf(asked),
        username: 'ada',
        password: 'x',
      });
      assert.equal(wrong.status, 401);
      const back = await browser.post('/admin/-/login/', {
        ...fieldsOf(wrong),
        username: 'ada',
        password: 'pw-ada',
      });
      assert.equal(back.status, 200);
      assert.match(back.text, /so nothing was saved/);
      assert.equal(fieldsOf(back)['note'], 'typed <b>');
      assert.equal((await browser.post(address, { ...fieldsOf(back), _save: 'stay' })).status, 303);
      assert.equal(await noteOf(`Kept ${what}`), 'typed <b>');
    });
  }

  test('has no password in the page of the login', async () => {
    const browser = await logIn(service, 'ada');
    const typed = { ...fieldsOf(await browser.get('/admin/user/-/add/')), username: 'x', _password: 'hidden words', _repeat: 'hidden words' }; // prettier-ignore
    await expire();
    const asked = await browser.post('/admin/user/-/add/', typed);
    assert.equal(asked.status, 401);
    assert.doesNotMatch(asked.text, /hidden words/);
  });

  test('leads to the login alone without the cookie of an ended session, and nothing of it is shown', async () => {
    const address = await thing('Cookieless');
    const planted = openBrowser(service);
    planted.cookies.set('admin-session', 'of-no-session');
    for (const browser of [openBrowser(service), planted]) {
      const asked = await browser.post(address, { note: 'typed before' });
      assert.deepEqual(
        [asked.status, asked.location],
        [303, `/admin/-/login/?next=${encodeURIComponent(address)}&_because=undone`],
      );
      assert.doesNotMatch(asked.text, /typed before/);
    }
  });

  test('comes back after the login of the same user in the same browser only', async () => {
    await service.addUser('bob', { admin: true });
    const address = await thing('Private');
    const browser = await logIn(service, 'ada');
    const fields = { ...fieldsOf(await browser.get(address)), note: 'typed by ada' };
    await expire();
    const asked = await browser.post(address, fields);
    assert.doesNotMatch(asked.text, /typed by ada/);
    const other = openBrowser(service);
    await other.get('/admin/-/login/');
    const { _csrf, ...parked } = fieldsOf(asked);
    assert.ok(_csrf);
    const stolen = await other.post('/admin/-/login/', { ...parked, username: 'ada', password: 'pw-ada' });
    assert.deepEqual([stolen.status, stolen.location], [303, address]);
    const wrongUser = { ...fieldsOf(asked), username: 'bob', password: 'pw-bob' };
    assert.equal((await browser.post('/admin/-/login/', wrongUser)).status, 303);
  });

  test('is refused with 413 where it has more than 64 KiB or 2,000 fields', async () => {
    const address = await thing('Huge');
    const browser = await logIn(service, 'ada');
    await expire();
    const many = Object.fromEntries(Array.from({ length: 2001 }, (_, at) => [`f${at}`, '']));
    for (const fields of [{ note: 'n'.repeat(70_000) }, many]) {
      const refused = await browser.post(address, fields);
      assert.equal(refused.status, 413);
      assert.ok(refused.text.length < 4000, `${refused.text.length} characters`);
    }
  });

  test('comes back, too, where another login has removed the expired session meanwhile', async () => {
    const address = await thing('Pruned');
    const browser = await logIn(service, 'ada');
    const fields = { ...fieldsOf(await browser.get(address)), note: 'typed on Friday' };
    await expire();
    await logIn(service, 'ada');
    const asked = await browser.post(address, fields);
    assert.equal(asked.status, 401);
    const login = { ...fieldsOf(asked), username: 'ada', password: 'pw-ada' };
    assert.equal(fieldsOf(await browser.post('/admin/-/login/', login))['note'], 'typed on Friday');
  });

  test('does not come back a week after the session has ended', async () => {
    const address = await thing('Late');
    const browser = await logIn(service, 'ada');
    const fields = { ...fieldsOf(await browser.get(address)), note: 'late' };
    await expire();
    await browser.get(address);
    await service.sql`update vitrine_session set seen = seen - interval '7 days'`;
    assert.equal((await browser.post(address, fields)).status, 303);
  });

  test('of choices between two people comes back as choices, so that nobody is overwritten', async () => {
    const address = await thing('Chosen');
    const [one, other] = [await logIn(service, 'ada'), await logIn(service, 'ada')];
    const mine = { ...fieldsOf(await one.get(address)), note: 'mine' };
    const theirs = { ...fieldsOf(await other.get(address)), price: '7.00' };
    assert.equal((await other.post(address, theirs)).status, 303);
    const conflict = await one.post(address, mine);
    assert.equal(conflict.status, 409);
    const browser = openBrowser(service);
    await browser.get('/admin/-/login/');
    const again = await attemptLogin(service, 'ada', 'pw-ada', browser);
    assert.equal(again.status, 303);
    const back = await browser.post(address, { ...fieldsOf(conflict), _csrf: 'of the login that is over' });
    assert.match(back.text, /Current value/);
    assert.equal((await browser.post(address, fieldsOf(back))).status, 303);
    const [row] = await service.sql`select note, price from thing where name = 'Chosen'`;
    assert.deepEqual({ ...row }, { note: 'mine', price: '7.00' });
  });

  test('of choices is asked about again where the other one has changed that value once more', async () => {
    const address = await thing('Chosen again');
    const [one, other] = [await logIn(service, 'ada'), await logIn(service, 'ada')];
    const mine = { ...fieldsOf(await one.get(address)), note: 'mine' };
    await other.post(address, { ...fieldsOf(await other.get(address)), price: '7.00' });
    const conflict = await one.post(address, mine);
    assert.equal(fieldsOf(conflict)['_take.note'], 'mine');
    await other.post(address, { ...fieldsOf(await other.get(address)), note: 'theirs' });
    const again = await one.post(address, fieldsOf(conflict));
    assert.equal(again.status, 409);
    const { '_take.note': note, '_take.price': price } = fieldsOf(again);
    assert.deepEqual([note, price], [undefined, 'theirs']);
    const [row] = await service.sql`select note, price from thing where name = 'Chosen again'`;
    assert.deepEqual({ ...row }, { note: 'theirs', price: '7.00' });
  });

  test('leads to the login alone where a foreign page has sent it, or nobody says which', async () => {
    const address = await thing('Foreign');
    const browser = await logIn(service, 'ada');
    await expire();
    const foreign = await browser.post(address, { note: 'planted' }, { origin: 'https://evil.example' });
    assert.equal(foreign.status, 403);
    assert.doesNotMatch(foreign.text, /planted/);
    const headers = { 'content-type': 'application/x-www-form-urlencoded' };
    const nobody = await service.request(address, { method: 'POST', body: 'note=planted', headers });
    assert.deepEqual(
      [nobody.status, nobody.headers.get('location')],
      [303, `/admin/-/login/?next=${encodeURIComponent(address)}&_because=undone`],
    );
    assert.doesNotMatch(nobody.text, /planted/);
  });
});

test('two tabs whose login has ended have their forms back by two logins', async () => {
  const browser = await logIn(service, 'ada');
  const tabs = await Promise.all(
    ['One tab', 'Another tab'].map(async (name) => {
      const address = await thing(name);
      return { address, fields: { ...fieldsOf(await browser.get(address)), note: `typed in ${name}` } };
    }),
  );
  await expire();
  const logins = [];
  for (const { address, fields } of tabs) logins.push(fieldsOf(await browser.post(address, fields)));
  const backs = [];
  for (const fields of logins)
    backs.push(await browser.post('/admin/-/login/', { ...fields, username: 'ada', password: 'pw-ada' }));
  assert.deepEqual(
    backs.map((back) => [back.status, fieldsOf(back)['note']]),
    [
      [200, 'typed in One tab'],
      [200, 'typed in Another tab'],
    ],
  );
  const foreign = { ...logins[1], username: 'ada', password: 'pw-ada' };
  const refused = await browser.post('/admin/-/login/', foreign, { origin: 'https://evil.example' });
  assert.equal(refused.status, 403);
});

test('the login that has brought a form back, sent once more by a reload, brings it again', async () => {
  const address = await thing('Reloaded');
  const browser = await logIn(service, 'ada');
  const fields = fieldsOf(await browser.get(address));
  await expire();
  const login = await browser.post(address, { ...fields, note: 'typed' });
  const sent = { ...fieldsOf(login), username: 'ada', password: 'pw-ada' };
  assert.equal(fieldsOf(await browser.post('/admin/-/login/', sent))['note'], 'typed');
  const reloaded = await browser.post('/admin/-/login/', sent);
  assert.deepEqual([reloaded.status, fieldsOf(reloaded)['note']], [200, 'typed']);
  const { _parked, ...plain } = sent as Record<string, string>;
  assert.ok(_parked);
  const without = await browser.post('/admin/-/login/', plain);
  assert.deepEqual([without.status, without.location], [303, address]);
  assert.equal((await browser.get(address)).status, 200);
});

test('a form of an earlier login is shown again with a new token, and not lost', async () => {
  const address = await thing('Earlier');
  const old = fieldsOf(await (await logIn(service, 'ada')).get(address));
  const browser = await logIn(service, 'ada');
  const shown = await browser.post(address, { ...old, note: 'typed' });
  assert.equal(shown.status, 403);
  assert.equal(await noteOf('Earlier'), 'before');
  assert.equal(fieldsOf(shown)['note'], 'typed');
  assert.equal((await browser.post(address, fieldsOf(shown))).status, 303);
  assert.equal(await noteOf('Earlier'), 'typed');
});

describe('an admin', () => {
  before(async () => {
    ada = await logIn(service, 'ada');
  });

  test('whose e-mail address is the empty text can be changed all the same', async () => {
    const fields = fieldsOf(await ada.get(`/admin/user/${id}/`));
    assert.equal(fields['email'], '');
    const saved = await ada.post(`/admin/user/${id}/`, { ...fields, join_date: '2020-01-01T00:00' });
    assert.equal(saved.status, 303);
  });

  for (const field of ['admin', 'active']) {
    test(`does not give up ${field} by mistake, on the own page or among others`, async () => {
      const fields = fieldsOf(await ada.get(`/admin/user/${id}/`));
      delete fields[field];
      const refused = await ada.post(`/admin/user/${id}/`, fields);
      assert.equal(refused.status, 400);
      assert.match(refused.text, /would lock you out/);
      const many = {
        _action: 'set',
        _all: '1',
        _state: '',
        _column: field,
        _value: '1',
        _confirm: '1',
        _expected: '1',
      };
      const bulk = await ada.post('/admin/user/-/bulk/', many);
      assert.equal(bulk.status, 400);
      const [row] = await service.sql`select active, admin from "user" where id = ${id}`;
      assert.deepEqual({ ...row }, { active: true, admin: true });
    });
  }
});

test('a value that is cleared is no value, unless the box says that it is the empty text', async () => {
  const address = await thing('Cleared');
  const fields = fieldsOf(await ada.get(address));
  await ada.post(address, { ...fields, note: '' });
  assert.equal(await noteOf('Cleared'), null);
});

test('the list that one came from is still known after a record was deleted', async () => {
  const address = await thing('Gone');
  const page = await ada.get(address, { referer: `${service.base}/admin/thing/?name__ilike=G%25&page=1` });
  const [, href = ''] = /href="([^"]*\/delete\/[^"]*)"/.exec(page.text) ?? [];
  const asked = await ada.get(href.replaceAll('&amp;', '&'));
  const done = await ada.post(`${address}delete/`, hiddenFields(asked, 'confirm'));
  assert.equal(done.location, '/admin/thing/?name__ilike=G%25&page=1');
});
