// Several resources for one table: the first one writes, the others only read.
import assert from 'node:assert/strict';
import type { Resource } from '../../src/index.ts';
import { hiddenFields, logIn, readable } from '../admin/support.ts';
import { startFaults, startOnce, startWith, users, type WritableService } from '../db/helpers.ts';
import { createDatabase } from '../support.ts';
import { assertFaults, faultsOf } from './registry-faults.ts';
import { after, before, describe, test } from 'node:test';

const writer = { type: 'foreignKey', references: 'writer', onDelete: 'cascade' } as const;
const writers: Resource = { model: 'writer', columns: { name: { type: 'text' } }, access: 'user' };
const article: Resource = {
  model: 'article',
  columns: { title: { type: 'string' }, notes: { type: 'text', null: true }, writer },
  access: 'admin',
  read: 'admin',
};
const headline: Resource = {
  model: 'headline',
  table: 'article',
  columns: { title: { type: 'string' }, writer },
  methods: ['GET'],
  access: 'user',
  ordering: '-id',
};

describe('a second resource for a table', () => {
  let service: WritableService;
  before(async () => {
    service = await startWith([writers, article, headline]);
    await service.sql`insert into writer (name) values ('Ada'), ('Bob')`;
    for (const title of ['one', 'two', 'three'])
      await service.send('POST', '/api/article/', { title, notes: `secret ${title}`, writer: 1 });
  });
  after(() => service.close());

  test('serves its columns in its order with its access', async () => {
    const { status, json } = await service.request('/api/headline/?writer__name=Ada');
    assert.deepEqual(
      [status, json.objects],
      [
        200,
        [
          { id: 3, title: 'three', writer_id: 1 },
          { id: 2, title: 'two', writer_id: 1 },
          { id: 1, title: 'one', writer_id: 1 },
        ],
      ],
    );
    assert.equal((await service.request('/api/article/')).status, 401);
    for (const query of ['notes=secret+one', 'ordering=notes'])
      assert.equal((await service.request(`/api/headline/?${query}`)).status, 400);
  });

  test('cannot be written', async () => {
    for (const [method, path] of [
      ['POST', '/api/headline/'],
      ['PUT', '/api/headline/1/'],
      ['DELETE', '/api/headline/1/'],
    ] as const) {
      const body = method === 'DELETE' ? undefined : { title: 'x', writer: 1 };
      assert.equal((await service.send(method, path, body)).status, 405, method);
    }
  });

  test('is read-only in the admin area, and a deletion counts each record once', async () => {
    const ada = await logIn(service, 'ada');
    for (const path of ['/admin/headline/add/', '/admin/headline/1/delete/'])
      assert.ok([403, 404].includes((await ada.get(path)).status), path);
    assert.match(
      readable(await ada.get('/admin/headline/1/history/')),
      /Changes to these records are not recorded/,
    );
    const related = readable(await ada.get('/admin/writer/1/'));
    assert.match(related, /Article by Writer 3/);
    assert.doesNotMatch(related, /Headline by Writer none/);
    const shown = await ada.get('/admin/headline/1/');
    assert.match(readable(shown), /one/);
    assert.doesNotMatch(shown.text, /name="title"|secret one/);
    const page = readable(await ada.get('/admin/writer/1/delete/'));
    assert.match(page, /Deleted with it 3 records of Article, by “Writer”/);
    assert.doesNotMatch(page, /Headline/);
    const fields = hiddenFields(await ada.get('/admin/article/2/delete/'), 'confirm');
    assert.equal((await ada.post('/admin/article/2/delete/', fields)).status, 303);
    assert.equal((await service.request('/api/headline/2/')).status, 404);
  });
});

test('SCHEMA=apply creates the table of the first resource only', async () => {
  const database = await createDatabase();
  try {
    const extra = {
      ...headline,
      columns: { title: { type: 'string' }, more: { type: 'text', null: true } },
    } as const;
    assert.deepEqual(await startFaults(database, [users, writers, article, extra]), [
      '  - headline: columns.more: there is no column more',
    ]);
    await startOnce(database, [users, writers, article, headline]);
    const [row] =
      await database.sql`select count(*)::int from pg_attribute where attrelid = 'article'::regclass and attnum > 0`;
    assert.equal(row?.['count'], 4);
  } finally {
    await database.drop();
  }
});

const lock = { model: 'lock', columns: { code: { type: 'text' } } };
const coded = (model: string, type: string) => ({
  model,
  table: 'lock',
  columns: { code: { type } },
  methods: ['GET'],
});

const FAULTS: Record<string, { registry: object[]; faults: string[] }> = {
  'that writes': {
    registry: [writers, article, { ...headline, methods: ['GET', 'PUT'] }],
    faults: ['headline: methods'],
  },
  'with the default methods': {
    registry: [writers, article, { ...headline, methods: undefined }],
    faults: ['headline: methods'],
  },
  'that is referred to': {
    registry: [
      writers,
      article,
      headline,
      { model: 'comment', columns: { about: { type: 'foreignKey', references: 'headline' } } },
    ],
    faults: ['comment: columns.about.references'],
  },
  'that shows a password': {
    registry: [{ model: 'login', table: 'user', columns: { password: { type: 'text' } }, methods: ['GET'] }],
    faults: ['login: columns.password.type'],
  },
  'that shows what a further one has as a password': {
    registry: [lock, coded('first_key', 'text'), coded('second_key', 'password')],
    faults: ['lock: columns.code.type', 'first_key: columns.code.type'],
  },
  'that shows what another further one has as a password': {
    registry: [
      { ...lock, columns: { name: { type: 'text' } } },
      coded('first_key', 'password'),
      { ...coded('second_key', ''), columns: { shown: { type: 'text', column: 'code' } } },
    ],
    faults: ['second_key: columns.shown.type'],
  },
};

for (const [about, { registry, faults }] of Object.entries(FAULTS))
  test(`a second resource ${about} is refused`, () => assertFaults([users, ...registry], faults));

/** The columns that a login needs, without any access level that would need users. */
const openUsers = { model: 'user', columns: users.columns } as const;
const person: Resource = { model: 'person', table: 'user', columns: { username: { type: 'string' } } };
const FIRST =
  '  - user: table: the user model must be the first resource of its table: register it before person';

for (const [about, registry] of [
  ['with access levels', [person, { ...users, methods: ['GET'] }]],
  ['without access levels', [person, { ...openUsers, methods: ['GET'] }]],
  ['with the default methods', [person, openUsers]],
] as const)
  test(`the user model must be the first resource of its table ${about}`, async () => {
    assert.deepEqual(await faultsOf(registry), [FIRST]);
  });
