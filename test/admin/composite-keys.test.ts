// The admin area with keys and foreign keys of several columns.
import assert from 'node:assert/strict';
import type { Resource } from '../../src/index.ts';
import { user } from '../../src/resources/registry.ts';
import { startService, type TestService } from '../support.ts';
import { errorsIn, fieldsOf, hiddenFields, logIn, readable, unescaped, type Browser } from './support.ts';
import { after, before, test } from 'node:test';

const film: Resource = { model: 'film', columns: { title: { type: 'string' } } };
const casting: Resource = {
  model: 'casting',
  primaryKey: { columns: ['film', 'actor'] },
  columns: {
    film: { type: 'foreignKey', references: 'film', onDelete: 'cascade' },
    actor: { type: 'string' },
    role: { type: 'string', null: true },
  },
  admin: { label: '{actor} in {film__title}' },
};
const award: Resource = {
  model: 'award',
  columns: {
    name: { type: 'string' },
    film: { type: 'integer', null: true },
    actor: { type: 'string', null: true },
  },
  foreignKeys: { casting: { columns: ['film', 'actor'], references: 'casting', onDelete: 'cascade' } },
  admin: { label: '{name} ({casting__role})', filters: ['casting__role', 'name'] },
};

const place = (model: string, column: string): Resource => ({
  model,
  primaryKey: { columns: ['t', 'n'] },
  columns: { t: { type: 'integer' }, n: { type: 'integer' }, [column]: { type: 'string' } },
  admin: { label: `{${column}}` },
});
const visit: Resource = {
  model: 'visit',
  columns: { t: { type: 'integer' }, n: { type: 'integer' } },
  foreignKeys: {
    room: { columns: ['t', 'n'], references: 'room' },
    desk: { columns: ['t', 'n'], references: 'desk' },
  },
  admin: { label: '{room__title}, {desk__place}' },
};

let service: TestService;
let ada: Browser;
before(async () => {
  service = await startService([
    user,
    film,
    casting,
    award,
    place('room', 'title'),
    place('desk', 'place'),
    visit,
  ]);
  await service.addUser('ada', { admin: true });
  ada = await logIn(service, 'ada');
  await service.sql`insert into film (title) values ('Alien'), ('Brazil')`;
});
after(() => service.close());

const rows = async () =>
  (
    await service.sql<{ film_id: number; actor: string; role: string | null }[]>`
    select film_id, actor, role from casting order by film_id, actor`
  ).map((row) => ({ ...row }));

test('a record that is added beside another one refers to it, and so does the next one', async () => {
  await service.sql`insert into casting (film_id, actor) values (1, 'Hurt, J.')`;
  const page = await ada.get('/admin/casting/1%2CHurt%252C%2520J./');
  const add = unescaped(/<a href="([^"]*)" aria-label="Add to Award"/.exec(page.text)?.[1] ?? '');
  const first = fieldsOf(await ada.get(add));
  assert.deepEqual([first['film'], first['actor']], ['1', 'Hurt, J.']);
  const saved = await ada.post('/admin/award/-/add/', { ...first, name: 'Best', _save: 'another' });
  const second = fieldsOf(await ada.follow(saved));
  assert.deepEqual([second['film'], second['actor']], ['1', 'Hurt, J.']);
  await service.sql`delete from award`;
  await service.sql`delete from casting`;
});

test('a record is added, shown, changed and deleted', async () => {
  const form = await ada.get('/admin/casting/-/add/');
  const added = await ada.post('/admin/casting/-/add/', {
    ...fieldsOf(form),
    film_id: '1',
    actor: 'Weaver, S.',
    role: 'Ripley',
    _save: 'stay',
  });
  assert.equal(added.location, '/admin/casting/1%2CWeaver%252C%2520S./');
  const page = await ada.follow(added);
  assert.equal(page.status, 200, page.text);
  assert.match(readable(page), /Weaver, S\. in Alien/);
  assert.doesNotMatch(page.text, /name="(film_id|actor|id)"/, 'the key cannot be edited');
  const path = added.location ?? '';
  const changed = await ada.post(path, { ...fieldsOf(page), role: 'Ellen Ripley', _save: 'list' });
  assert.equal(changed.status, 303, changed.text);
  assert.deepEqual(await rows(), [{ film_id: 1, actor: 'Weaver, S.', role: 'Ellen Ripley' }]);
  const verbatim = await ada.get('/admin/casting/1,Weaver%2C%20S./');
  assert.equal(verbatim.status, 200);
  const history = await ada.get(`${path}history/`);
  assert.match(readable(history), /Ripley.*Ellen Ripley/);
  const list = await ada.get('/admin/casting/');
  assert.ok(list.text.includes(`href="${path}`), list.text);
  const confirmation = await ada.get(`${path}delete/`);
  const gone = await ada.post(`${path}delete/`, hiddenFields(confirmation, 'confirm'));
  assert.equal(gone.status, 303, readable(gone));
  assert.deepEqual(await rows(), []);
});

test('a duplicate and a stale form are refused', async () => {
  await service.sql`insert into casting values (1, 'Hurt', 'Kane')`;
  const form = fieldsOf(await ada.get('/admin/casting/-/add/'));
  const again = await ada.post('/admin/casting/-/add/', { ...form, film_id: '1', actor: 'Hurt' });
  assert.equal(again.status, 409);
  assert.deepEqual(Object.keys(errorsIn(again)), ['film_id', 'actor']);
  const page = fieldsOf(await ada.get('/admin/casting/1,Hurt/'));
  await service.sql`update casting set role = 'Officer Kane'`;
  const stale = await ada.post('/admin/casting/1,Hurt/', { ...page, role: 'Other' });
  assert.equal(stale.status, 409, readable(stale));
});

test('related records are counted, listed and deleted along a foreign key of several columns', async () => {
  await service.sql`insert into casting values (2, 'Pryce', 'Sam') on conflict do nothing`;
  await service.sql`insert into award (name, film, actor) values ('Oscar', 2, 'Pryce'), ('Bear', 2, 'Pryce'), ('Lion', null, null)`;
  const page = await ada.get('/admin/casting/2,Pryce/');
  assert.match(readable(page), /Award by Casting 2/);
  const [, link = ''] = /href="(\/admin\/award\/\?casting=[^"]*)"/.exec(page.text) ?? [];
  const [, add = ''] = /href="(\/admin\/award\/-\/add\/[^"]*)"/.exec(page.text) ?? [];
  const preset = fieldsOf(await ada.get(add.replaceAll('&amp;', '&')));
  assert.deepEqual([preset['film'], preset['actor']], ['2', 'Pryce']);
  const list = readable(await ada.get(link));
  assert.match(list, /Casting is “?Pryce in Brazil.*Oscar.*Bear/);
  assert.doesNotMatch(list, /Lion/);
  assert.match(readable(await ada.get('/admin/award/?casting__role=Sam')), /Oscar/);
  const film2 = readable(await ada.get('/admin/film/2/delete/'));
  assert.match(film2, /1 record of Casting, by “Film”.*2 records of Award, by “Casting › Film”/);
  const confirmation = await ada.get('/admin/casting/2,Pryce/delete/');
  assert.match(readable(confirmation), /2 records of Award, by “Casting”/);
  const gone = await ada.post('/admin/casting/2,Pryce/delete/', hiddenFields(confirmation, 'confirm'));
  assert.equal(gone.status, 303, readable(gone));
  const [left] = await service.sql`select count(*)::int as count from award`;
  assert.equal(left?.['count'], 1);
});

test('records are chosen, changed and deleted in bulk', async () => {
  await service.sql`delete from casting`;
  await service.sql`insert into casting select 1 + n % 2, 'x' || n, 'r' from generate_series(1, 6) n`;
  const choice = { _action: 'delete', _id: ['2,x1', '1,x2', '2,x3'] };
  const page = await ada.post('/admin/casting/-/bulk/', choice);
  assert.match(readable(page), /3 records selected/);
  const gone = await ada.post('/admin/casting/-/bulk/', hiddenFields(page, 'confirm'));
  assert.equal(gone.status, 303, readable(gone));
  assert.deepEqual((await rows()).map(({ actor }) => actor).sort(), ['x4', 'x5', 'x6']);
});

test('an export is imported again, by the id or by the columns of the key', async () => {
  await service.sql`delete from casting`;
  await service.sql`insert into casting values (1, 'a,b', 'old'), (2, '=x', null)`;
  const csv = (await ada.get('/admin/casting/-/export.csv')).text;
  assert.equal(csv, 'id,film_id,actor,role\r\n"1,a%2Cb",1,"a,b","old"\r\n"2,%3Dx",2,"\'=x",\r\n');
  const send = async (text: string): Promise<string> => {
    await ada.get('/admin/casting/-/import/');
    const form = new FormData();
    form.append('_text', text);
    const preview = await ada.upload('/admin/casting/-/import/', form);
    assert.equal(preview.status, 200, readable(preview));
    const fields = hiddenFields(preview, 'record');
    const confirmed = new FormData();
    for (const name of ['_csv', '_digest']) confirmed.append(name, fields[name]?.[0] ?? '');
    if (fields['_csv'] === undefined || fields['_digest'] === undefined) return readable(preview);
    const done = await ada.upload('/admin/casting/-/import/', confirmed);
    return done.status === 303 ? 'imported' : readable(done);
  };
  assert.match(await send(csv), /2 unchanged/);
  assert.equal(await send(csv.replace('"old"', '"new"')), 'imported');
  assert.equal(await send('film_id,actor,role\r\n2,=x,added\r\n1,fresh,made\r\n'), 'imported');
  assert.equal(await send('id,role\r\n"2,by%20id",made\r\n'), 'imported');
  assert.deepEqual(await rows(), [
    { film_id: 1, actor: 'a,b', role: 'new' },
    { film_id: 1, actor: 'fresh', role: 'made' },
    { film_id: 2, actor: '=x', role: 'added' },
    { film_id: 2, actor: 'by id', role: 'made' },
  ]);
  assert.match(await send('id,film_id,role\r\n"1,fresh",2,x\r\n'), /part of the key and cannot be changed/);
});

test('the pages of the API link to each record', async () => {
  const headers = { Accept: 'text/html' };
  const list = await service.request('/api/casting/', { headers });
  for (const [, link = ''] of list.text.matchAll(/href="(\/api\/casting\/[^"?]+\/)"/g))
    assert.equal((await service.request(link, { headers })).status, 200, link);
  assert.match(list.text, /href="\/api\/casting\/1,fresh\/"/);
});

test('a copy asks for the columns of its key', async () => {
  await service.sql`insert into casting (film_id, actor, role) values (2, 'Pryce', 'Sam')`;
  const form = await ada.get('/admin/casting/2%2CPryce/');
  const copy = await ada.post('/admin/casting/2%2CPryce/', { ...fieldsOf(form), _save: 'new' });
  const { film_id, actor, role } = fieldsOf(copy);
  assert.deepEqual([copy.status, film_id, actor, role], [200, '', '', 'Sam']);
  const saved = await ada.post('/admin/casting/-/add/', { ...fieldsOf(copy), film_id: '1', actor: 'Holm' });
  assert.equal(saved.status, 303);
  assert.ok((await rows()).some((row) => row.film_id === 1 && row.actor === 'Holm' && row.role === 'Sam'));
});

test('two foreign keys of the same columns have the labels of their own records', async () => {
  await service.sql`insert into room values (1, 1, 'Blue room')`;
  await service.sql`insert into desk values (1, 1, 'At the window')`;
  await service.sql`insert into visit (t, n) values (1, 1)`;
  const list = await ada.get('/admin/visit/');
  assert.equal(list.status, 200, list.text);
  assert.match(readable(list), /Blue room At the window/);
  const record = await ada.get('/admin/visit/1/');
  for (const label of ['Blue room', 'At the window']) assert.ok(record.text.includes(label), label);
});
