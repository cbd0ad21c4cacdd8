// What `introspect` makes of unusual keys and of check constraints, served as it is printed.
import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { fieldsOf, hiddenFields, logIn, readable, type Browser } from '../admin/support.ts';
import type { Resource } from '../../src/index.ts';
import { user } from '../../src/resources/registry.ts';
import { temporaryFolder } from '../process/support.ts';
import { createDatabase, startService, type TestDatabase, type TestService } from '../support.ts';
import { run } from './support.ts';
import { after, before, describe, test } from 'node:test';

const SCHEMA = readFileSync('test/commands/schemas/keys.sql', 'utf8');

/** Prints the registry of a database, and loads it. */
async function introspect({ url }: TestDatabase): Promise<{ text: string; resources: Resource[] }> {
  const ended = await run(['introspect'], { env: { DATABASE_URL: url } });
  assert.equal(ended.code, 0, ended.stderr);
  const file = join(await temporaryFolder(), 'resources.mjs');
  writeFileSync(file, ended.stdout);
  const module = (await import(pathToFileURL(file).href)) as { default: Resource[] };
  return { text: ended.stdout, resources: module.default };
}

describe('the registry of a schema with unusual keys', () => {
  let text: string;
  let resources: Resource[];
  let service: TestService;
  let ada: Browser;
  before(async () => {
    const database = await createDatabase();
    await database.sql.unsafe(SCHEMA).simple();
    ({ text, resources } = await introspect(database));
    await database.drop();
    service = await startService([user, ...resources.map((one) => ({ ...one, access: 'user' as const }))], {
      prepare: (sql) => sql.unsafe(SCHEMA).simple(),
    });
    await service.addUser('ada', { admin: true });
    ada = await logIn(service, 'ada');
  });
  after(() => service.close());

  const find = (model: string): Resource | undefined => resources.find((one) => one.model === model);

  const send = (method: string, path: string, body?: unknown) =>
    service.request(`/api/${path}`, { method, user: 'ada', ...(body === undefined ? {} : { body }) });
  const ids = async (path: string): Promise<unknown[]> => {
    const { status, json, text: answer } = await send('GET', path);
    assert.equal(status, 200, answer);
    return (json.objects as { id: unknown }[]).map(({ id }) => id);
  };

  test('the key is the one that foreign keys refer to', () => {
    assert.deepEqual(find('account'), {
      model: 'account',
      columns: { code: { type: 'text', unique: true } },
    });
    assert.deepEqual(find('booking')?.columns['account'], { type: 'foreignKey', references: 'account' });
  });

  test('a key that is a foreign key, a date or has a plain default is a column', () => {
    assert.deepEqual(find('profile'), {
      model: 'profile',
      primaryKey: { columns: ['person'] },
      columns: {
        person: { type: 'foreignKey', references: 'person', onDelete: 'cascade' },
        motto: { type: 'text', null: true },
      },
    });
    assert.deepEqual(find('document')?.columns['person'], {
      type: 'foreignKey',
      references: 'person',
      column: 'id',
    });
    assert.deepEqual(find('holiday')?.primaryKey, { columns: ['day'] });
    assert.deepEqual(find('label')?.columns['word'], { type: 'string', default: '' });
    assert.deepEqual(find('labeled')?.foreignKeys, { label: { columns: ['word'], references: 'label' } });
    assert.equal(find('contract')?.primaryKey, undefined);
    assert.match(text, /id refers to person\. It is the key that other tables refer to, so it cannot be/);
  });

  test('a table that is not served has the SQL that would help', async () => {
    const help = [...text.matchAll(/(?:This would help|through a view): (.*)\.$/gm)].map(
      ([, sql = '']) => sql,
    );
    assert.equal(help.length, 3, text);
    const other = await createDatabase();
    try {
      await other.sql.unsafe(SCHEMA).simple();
      for (const sql of help) await other.sql.unsafe(sql);
      const { text: after, resources: more } = await introspect(other);
      assert.deepEqual(
        ['keyless', 'nearly_keyed'].map((name) => more.find(({ model }) => model === name)?.primaryKey),
        [{ type: 'bigint' }, { columns: ['a', 'b'] }],
      );
      assert.match(after, /^ {2}\/\/ {3}primaryKey: \{ type: 'string', column: 'record_key' \}/m);
    } finally {
      await other.drop();
    }
  });

  test('a list in a check constraint, also of a domain, is choices, and other constraints are comments', () => {
    assert.deepEqual(find('ticket')?.columns, {
      state: { type: 'text', choices: ['open', "it's done"], default: 'open' },
      kind: { type: 'string', null: true },
      grade: { type: 'string', choices: ['A', 'B'], null: true },
      weight: { type: 'integer', choices: [1, 2, -3], null: true },
      priority: { type: 'integer' },
      hours: { type: 'decimal', null: true },
      price: { type: 'decimal', null: true },
      note: { type: 'text', null: true },
      code: { type: 'text', null: true },
    });
    for (const comment of [
      `kind: PostgreSQL checks (((kind)::text = 'a'::text) OR ((kind)::text = 'b, c'::text)).`,
      'priority: PostgreSQL checks ((priority >= 1) AND (priority <= 5)). Add min and max if it bounds the value.',
      'note: PostgreSQL checks (length(note) > 3).',
    ])
      assert.ok(text.includes(`      // ${comment}\n`), comment);
    assert.doesNotMatch(text, /(state|grade|weight): PostgreSQL/);
  });

  test('the admin area offers no form for new records that need a hidden column', async () => {
    assert.deepEqual(find('door')?.admin, { allow: ['change', 'delete'], exclude: ['pin'] });
    assert.match(text, /A new record needs one of them/);
    assert.equal((await send('POST', 'door/', { pin: '1234' })).status, 201);
    assert.equal((await ada.get('/admin/door/-/add/')).status, 404);
  });

  test('the API creates, finds, changes and deletes records by a key that is a foreign key', async () => {
    for (const name of ['Ann', 'Bob', 'Cy']) await send('POST', 'person/', { name });
    for (const id of [1, 2, 3]) {
      const added = await send('POST', 'profile/', { person_id: id, motto: `m${id}` });
      assert.deepEqual([added.status, added.json], [201, { id: `${id}`, person_id: id, motto: `m${id}` }]);
    }
    assert.equal((await send('POST', 'profile/', { person_id: 3 })).status, 409);
    assert.equal((await send('POST', 'profile/', { person_id: 9 })).status, 400);
    assert.deepEqual(await ids('profile/?person__name=Bob'), ['2']);
    assert.deepEqual(await ids('profile/?id=2'), ['2']);
    assert.deepEqual(await ids('profile/?id__in=1,3'), ['1', '3']);
    assert.deepEqual(await ids('profile/?-id=2'), ['1', '3']);
    assert.deepEqual(await ids('profile/?id__gt=1&ordering=-id'), ['3', '2']);
    assert.deepEqual(await ids('profile/?ordering=-person__name'), ['3', '2', '1']);
    const first = await service.request('/api/profile/?limit=2', { headers: { prefer: 'paging=cursor' } });
    const { next } = first.json.meta as { next: string };
    const second = await service.request(next, { headers: { prefer: 'paging=cursor' } });
    assert.deepEqual(
      (second.json.objects as { id: string }[]).map(({ id }) => id),
      ['3'],
    );
    assert.equal((await send('PUT', 'profile/2/', { motto: 'new' })).json['motto'], 'new');
    assert.equal((await send('PUT', 'profile/2/', { person_id: 2 })).status, 200);
    assert.equal((await send('PUT', 'profile/2/', { person_id: 1 })).status, 400);
    assert.equal((await send('DELETE', 'profile/2/')).status, 200);
    assert.equal((await send('GET', 'profile/2/')).status, 404);
    assert.equal((await send('GET', 'profile/1,2/')).status, 404);
  });

  test('the API serves keys that are dates, or texts with a default', async () => {
    assert.equal((await send('POST', 'holiday/', { day: '2026-01-06', name: 'Epiphany' })).status, 201);
    assert.equal((await send('GET', 'holiday/2026-01-06/')).json['name'], 'Epiphany');
    assert.deepEqual(await ids('holiday/?id__gte=2026-01-01'), ['2026-01-06']);
    const label = await send('POST', 'label/', { word: 'a, b', meaning: 'list' });
    assert.equal(label.json['id'], 'a, b');
    assert.equal((await send('GET', 'label/a%2C%20b/')).json['meaning'], 'list');
    assert.equal((await send('POST', 'labeled/', { word: 'a, b' })).status, 201);
    assert.equal((await send('POST', 'labeled/', { word: 'c' })).status, 400);
    assert.deepEqual(await ids('labeled/?label__meaning=list'), [1]);
    assert.equal((await send('DELETE', 'label/a%2C%20b/')).status, 409);
  });

  test('the admin area adds, changes and deletes such records, also along a cascade', async () => {
    const form = fieldsOf(await ada.get('/admin/profile/-/add/'));
    const added = await ada.post('/admin/profile/-/add/', {
      ...form,
      person_id: '2',
      motto: 'x',
      _save: 'stay',
    });
    assert.equal(added.location, '/admin/profile/2/', readable(added));
    const page = await ada.follow(added);
    const changed = await ada.post('/admin/profile/2/', { ...fieldsOf(page), motto: 'y', _save: 'list' });
    assert.equal(changed.status, 303, readable(changed));
    assert.match(readable(await ada.get('/admin/profile/?person__name=Bob')), /Bob y/);
    assert.match(readable(await ada.get('/admin/profile/2/history/')), /x.*y/);
    const cascade = await ada.get('/admin/person/2/delete/');
    assert.match(readable(cascade), /1 record of Profile, by “Person”/);
    const gone = await ada.post('/admin/person/2/delete/', hiddenFields(cascade, 'confirm'));
    assert.equal(gone.status, 303, readable(gone));
    assert.deepEqual(await ids('profile/'), ['1', '3']);
    const confirmation = await ada.get('/admin/profile/3/delete/');
    const deleted = await ada.post('/admin/profile/3/delete/', hiddenFields(confirmation, 'confirm'));
    assert.equal(deleted.status, 303, readable(deleted));
    assert.deepEqual(await ids('profile/'), ['1']);
  });
});
