import assert from 'node:assert/strict';
import type { Resource } from '../../src/index.ts';
import { startFaults, startOnce, startWith, users } from '../db/helpers.ts';
import { createDatabase, startService, type TestDatabase } from '../support.ts';
import { after, before, describe, test } from 'node:test';

/** A registry of plain objects. */
const EXAMPLE: readonly Resource[] = [
  {
    model: 'user',
    columns: {
      username: { type: 'string', unique: true },
      password: { type: 'password' },
      email: { type: 'string' },
      join_date: { type: 'datetime', default: 'now' },
      active: { type: 'boolean', default: true },
      admin: { type: 'boolean', default: false },
    },
    access: 'admin',
    exclude: ['password', 'email'],
  },
  {
    model: 'message',
    columns: {
      user: { type: 'foreignKey', references: 'user' },
      content: { type: 'text' },
      pub_date: { type: 'datetime', default: 'now' },
    },
    access: 'user',
    owner: 'user',
  },
];

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

/** Registries with access levels or owners, and the faults of their user model. */
const USER_FAULTS: Record<string, [resources: readonly Resource[], faults: RegExp[], settings?: object]> = {
  'a level to write without a user model': [[{ ...note, access: 'user' }], [/user model "user".*\bnote\b/]],
  'a level to read without a user model': [[{ ...note, read: 'admin' }], [/user model "user".*\bnote\b/]],
  'the level of the service without a user model': [[note], [/user model "user".*\bnote\b/], { access: 'user' }],
  'an owner without a user model': [
    [note, { model: 'b', columns: { note: link }, owner: 'note' }],
    [/\bb: owner\b.*user/, /user model "user".*\bb\b/],
  ],
  'a user model without its columns': [
    [{ model: 'user', columns: {}, access: 'admin' }],
    [/user: columns\.username/, /user: columns\.password/, /user: columns\.active/, /user: columns\.admin/],
  ],
  'a user model with columns of other types': [
    [
      {
        ...users,
        columns: {
          username: { type: 'string' },
          password: { type: 'text' },
          active: { type: 'integer', default: 1 },
          admin: { type: 'string', default: '' },
        },
        exclude: [],
        admin: {},
      },
    ],
    [/columns\.username.*unique/, /columns\.password\.type.*password/, /columns\.active\.type.*boolean/, /columns\.admin\.type.*boolean/],
  ], // prettier-ignore
  'a USER_MODEL that does not exist': [
    [users, { ...note, access: 'user' }],
    [/user model "person"/],
    { userModel: 'person' },
  ],
  'an owner that does not reference the user model': [
    [users, note, { model: 'b', columns: { note: link }, owner: 'note', access: 'user' }],
    [/\bb: owner\b.*\buser\b/],
  ],
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

  for (const [title, [resources, expected, settings]] of Object.entries(USER_FAULTS)) {
    test(`refuses ${title}`, async () => {
      const faults = await startFaults(database, resources, settings);
      assert.equal(faults.length, expected.length, faults.join('\n'));
      expected.forEach((pattern, index) => assert.match(faults[index] ?? '', pattern));
      const [tables] =
        await database.sql`select count(*)::int as count from pg_tables where schemaname = 'public'`;
      assert.equal(tables?.['count'], 0, 'an invalid registry creates no table');
    });
  }
});

describe('a service', () => {
  test('starts with a registry of plain objects', async () => {
    const service = await startService(EXAMPLE);
    try {
      const ada = await service.addUser('ada');
      const posted = await service.request('/api/message/', {
        method: 'POST',
        user: 'ada',
        body: { content: 'x' },
      });
      assert.deepEqual([posted.status, posted.json.user_id], [201, ada]);
    } finally {
      await service.close();
    }
  });

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
