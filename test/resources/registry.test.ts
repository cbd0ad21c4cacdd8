// Registries that are accepted, and what the service makes of them.
import assert from 'node:assert/strict';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Resource } from '../../src/index.ts';
import { hiddenFields, logIn, readable } from '../admin/support.ts';
import { run } from '../commands/support.ts';
import {
  startFaults,
  startOnce,
  startWith,
  useWritable,
  users,
  type WritableService,
} from '../db/helpers.ts';
import { loadRegistryFile } from '../../src/resources/load-registry.ts';
import shipped from '../../src/resources/registry.ts';
import {
  createDatabase,
  startService,
  useService,
  type Answer,
  type TestDatabase,
  type TestService,
} from '../support.ts';
import { after, before, describe, test } from 'node:test';

const text = { type: 'text' } as const;
const note: Resource = { model: 'note', columns: { text } };
const link = { type: 'foreignKey', references: 'note' } as const;

/** Valid registries. */
const ACCEPTED: Record<string, readonly Resource[]> = {
  'the smallest registry': [{ model: 'a', columns: {} }],
  'the longest names': [
    { model: 'm'.repeat(63), columns: { ['c'.repeat(60)]: { type: 'text' } } },
    { model: 'n', table: 'ü'.repeat(31), columns: { ['f'.repeat(60)]: { ...link, references: 'n' } } },
  ],
  'names with a meaning in JavaScript or SQL': [
    note,
    {
      model: 'select',
      columns: {
        constructor: text,
        toString: text,
        valueOf: text,
        where: text,
        Capital: text,
        a1_B: text,
        eq: text,
        id_x: text,
        user_id: text,
        note: link,
      },
    },
    { model: 'constructor', columns: {} },
  ],
  'two foreign keys to one model, and one to itself': [
    note,
    { model: 'pair', columns: { left: link, right: { ...link, onDelete: 'cascade' }, up: { ...link, references: 'pair', null: true, onDelete: 'setNull' } } },
  ],
  'every key of a resource': [
    {
      model: 'full',
      table: 'public.full table',
      primaryKey: { type: 'bigint', column: 'Key' },
      columns: {
        a: { type: 'string', maxLength: 3, choices: ['x', 'yy'], default: 'x', label: 'A', help: 'An a.', column: 'The A' },
        b: { type: 'integer', min: 0, max: 10, choices: [1, 2], default: 2, index: true },
        c: { type: 'bigint', min: 0, default: 5, choices: [5, '9007199254740993'] },
        d: { type: 'decimal', precision: 5, scale: 2, min: 0.01, default: '1.50', unique: true },
        e: { type: 'datetime', default: '2024-01-01T00:00' },
        f: { type: 'date', default: 'now' },
        g: { type: 'time', default: 'now', null: true },
        h: { type: 'json', default: [] },
        i: { type: 'boolean', null: true },
        j: { type: 'float', default: 1e300 },
        k: { type: 'uuid', null: true, unique: true },
      },
      access: 'default',
      read: 'default',
      exclude: ['h'],
      readonly: ['a', 'i'],
      limit: 5,
      maxLimit: 5,
      methods: ['GET'],
      ordering: '-a,b,-id',
      admin: { label: 'Everything', list: ['id', 'a'], search: ['a'], filters: ['b'], readonly: ['d'], hidden: true },
    },
  ],
  'a small maxLimit without a limit': [{ ...note, maxLimit: 5 }],
  'an ordering over foreign keys': [note, { model: 'b', columns: { note: link }, ordering: '-note__text,note_id,note' }],
}; // prettier-ignore

describe('the check of a registry', () => {
  let database: TestDatabase;
  before(async () => {
    database = await createDatabase();
  });
  after(() => database.drop());

  for (const [title, resources] of Object.entries(ACCEPTED)) {
    test(`accepts ${title}`, async () => {
      await startOnce(database, resources);
      await startOnce(database, resources, { schema: 'check' });
      await database.sql`drop schema public cascade`;
      await database.sql`create schema public`;
    });
  }

  test('creates no table for a registry with a fault', async () => {
    await startFaults(database, [{ ...note, access: 'user' }]);
    const [tables] =
      await database.sql`select count(*)::int as count from pg_tables where schemaname = 'public'`;
    assert.equal(tables?.['count'], 0);
  });
});

describe('a service', () => {
  test('needs no user model if all resources have the default level', async () => {
    const service = await startService([note]);
    try {
      assert.equal((await service.request('/api/note/')).status, 200);
      const write = { method: 'POST', body: { text: 'x' } };
      for (const options of [write, { ...write, user: 'ada' }])
        assert.equal((await service.request('/api/note/', options)).status, 401);
    } finally {
      await service.close();
    }
  });

  test('uses the credentials and owners of USER_MODEL', async () => {
    const person: Resource = { ...users, model: 'person', access: 'user' };
    const owned: Resource = {
      model: 'owned',
      columns: { person: { type: 'foreignKey', references: 'person' } },
      owner: 'person',
    };
    const settings = { userModel: 'person', access: 'user' } as const;
    const prepare = `create table "user" (id serial, username text, password text, email text)`;
    // The service must not read the table `user`.
    const service = await startService([person, owned], {
      ...settings,
      prepare: (sql) => sql.unsafe(prepare),
    });
    try {
      await service.addUser('ada');
      const attempt = { method: 'POST', user: 'ada', body: {} };
      assert.equal((await service.request('/api/owned/', attempt)).status, 401);
      await service.sql`insert into person (username, password, email) select username, password, email from "user"`;
      assert.equal((await service.request('/api/owned/', attempt)).status, 201);
      const nameless = { username: 'a:b', password: 'x', email: '' };
      const { status, json } = await service.request('/api/person/', { ...attempt, body: nameless });
      assert.deepEqual([status, Object.keys(json.errors ?? {})], [400, ['username']]);
    } finally {
      await service.close();
    }
  });

  test('treats NULL in active or admin as false', async () => {
    const maybe = { type: 'boolean', null: true } as const;
    const people: Resource = { ...users, columns: { ...users.columns, active: maybe, admin: maybe } };
    const service = await startService([people, { ...note, access: 'user' }]);
    try {
      await service.addUser('ann', { active: null, admin: true });
      await service.addUser('bea', { active: true, admin: null });
      for (const [user, path, status] of [
        ['ann', '/api/note/', 401],
        ['bea', '/api/note/', 201],
        ['bea', '/api/user/', 403],
      ] as const) {
        const answer = await service.request(path, { method: 'POST', user, body: { text: 'x' } });
        assert.equal(answer.status, status, `${user} ${path}`);
      }
    } finally {
      await service.close();
    }
  });

  test('reads and writes columns named like properties of JavaScript objects', async () => {
    const number = { type: 'integer', null: true } as const;
    const odd: Resource = {
      model: 'odd',
      columns: { constructor: text, toString: number },
      access: 'user',
    };
    const service = await startWith([odd]);
    try {
      const missing = await service.send('POST', '/api/odd/', {});
      assert.equal(missing.text.includes('"constructor":["is required"]'), true, missing.text);
      const unknown = await service.send(
        'POST',
        '/api/odd/',
        '{"constructor":"c","__proto__":1,"valueOf":2}',
      );
      assert.deepEqual(Object.keys(unknown.json.errors).sort(), ['__proto__', 'valueOf']);
      const posted = await service.send('POST', '/api/odd/', '{"constructor":"c","toString":5}');
      assert.equal(posted.text, '{"id":1,"constructor":"c","toString":5}');
    } finally {
      await service.close();
    }
  });
});

// Several resources for one table: the first one writes, the others only read.
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
  const service: WritableService = useWritable([writers, article, headline], '', async () => {
    await service.sql`insert into writer (name) values ('Ada'), ('Bob')`;
    for (const title of ['one', 'two', 'three'])
      await service.send('POST', '/api/article/', { title, notes: `secret ${title}`, writer: 1 });
  });

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

describe('panels of a registry', () => {
  let directory: string;
  before(async () => {
    directory = await mkdtemp(join(tmpdir(), 'vitrine-panels-'));
  });
  after(() => rm(directory, { recursive: true }));

  const REGISTRY = "[{ model: 'note', columns: { message: { type: 'text' } } }]";
  const files: [string, string, unknown][] = [
    ['as.mjs', `export default ${REGISTRY}; export const panels = [{ title: 'A' }];`, [{ title: 'A' }]],
    ['as.ts', `export default ${REGISTRY}; export const panels: object[] = [{ title: 'A' }];`, [{ title: 'A' }]],
    ['common.js', `exports.default = ${REGISTRY}; exports.panels = [{ title: 'A' }];`, [{ title: 'A' }]],
    ['none.mjs', `export default ${REGISTRY};`, []],
    ['wrong.mjs', `export default ${REGISTRY}; export const panels = 5;`, 5],
  ]; // prettier-ignore
  for (const [name, text, expected] of files) {
    test(`are exported as panels by ${name}`, async () => {
      const file = join(directory, name);
      await writeFile(file, text);
      const { registry, panels } = await loadRegistryFile(file);
      assert.deepEqual(panels, expected);
      assert.deepEqual(registry, [{ model: 'note', columns: { message: { type: 'text' } } }]);
    });
  }

  test('are empty for the shipped registry', async () => {
    assert.deepEqual(await loadRegistryFile(undefined), { registry: shipped, panels: [] });
  });

  test('are checked by vitrine check', async () => {
    const file = join(directory, 'faulty.mjs');
    await writeFile(file, "export { default } from './as.mjs'; export const panels = [{ title: 'A' }];");
    const env = { RESOURCES: file, DATABASE_URL: 'postgres://127.0.0.1:1/none' };
    const { code, stderr } = await run(['check'], { env });
    assert.equal(code, 1);
    assert.ok(stderr.includes('panel "A": load: must be a function'), stderr);
  });
});

const NOW = /^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d$/;

describe('the shipped registry', () => {
  const service: TestService = useService(undefined, {}, async () => {
    await service.addUser('ada', { admin: true });
    await service.addUser('bob');
  });

  const post = (model: string, user: string, body: object): Promise<Answer> =>
    service.request(`/api/${model}/`, { method: 'POST', user, body });

  test('has four models with the documented columns and types', async () => {
    const rows = await service.sql<{ line: string }[]>`
      select c.relname || '.' || a.attname || ' ' || format_type(a.atttypid, a.atttypmod) ||
             case when a.attnotnull then '' else ' null' end || case when a.atthasdef then ' default' else '' end as line
      from pg_attribute a join pg_class c on c.oid = a.attrelid
      where c.relnamespace = 'public'::regnamespace and c.relname in ('user', 'relationship', 'message', 'note') and a.attnum > 0
      order by c.relname, a.attnum`;
    const moment = 'timestamp(0) without time zone default';
    assert.deepEqual(
      rows.map(({ line }) => line),
      [
        'message.id integer',
        'message.user_id integer',
        'message.content text',
        `message.pub_date ${moment}`,
        'note.id integer',
        'note.message text',
        `note.created ${moment}`,
        'relationship.id integer',
        'relationship.from_user_id integer',
        'relationship.to_user_id integer',
        'user.id integer',
        'user.username character varying(255)',
        'user.password text',
        'user.email character varying(255)',
        `user.join_date ${moment}`,
        'user.active boolean default',
        'user.admin boolean default',
      ],
    );
  });

  test('sets the date of a user, active and not admin, and allows duplicate e-mail addresses', async () => {
    for (const username of ['carl', 'cleo']) {
      const { status, json } = await post('user', 'ada', { username, password: 'x', email: 'c@example.org' });
      assert.equal(status, 201);
      assert.match(json.join_date, NOW);
      assert.deepEqual([json.active, json.admin], [true, false]);
    }
    const twice = await post('user', 'ada', { username: 'carl', password: 'x', email: '' });
    assert.deepEqual([twice.status, Object.keys(twice.json.errors)], [409, ['username']]);
  });

  test('accepts texts of any length in messages and notes, and sets their dates', async () => {
    const text = 'x'.repeat(5000);
    for (const [model, column, date] of [
      ['message', 'content', 'pub_date'],
      ['note', 'message', 'created'],
    ] as const) {
      const { status, json } = await post(model, 'bob', { [column]: text });
      assert.deepEqual([status, json[column]], [201, text], model);
      assert.match(json[date], NOW);
    }
  });
});
