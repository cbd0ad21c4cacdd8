// A POST with an array creates all records or none, with the same rules as for one record.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import fc from 'fast-check';
import type { Resource } from '../../src/index.ts';
import { user } from '../../src/resources/registry.ts';
import { startService, type Answer, type TestService } from '../support.ts';

const DEFAULTS = ['a', 'b', 'c', 'd', 'e', 'f'];

const RESOURCES: Resource[] = [
  user,
  { model: 'secret', columns: { text: { type: 'string' } }, read: 'admin', access: 'admin' },
  {
    model: 'book',
    columns: {
      title: { type: 'string', unique: true },
      pages: { type: 'integer', null: true },
      price: { type: 'decimal', null: true },
      kind: { type: 'string', default: 'novel' },
      tags: { type: 'json', null: true },
      added: { type: 'datetime', default: 'now' },
      author: { type: 'foreignKey', references: 'user', null: true },
      secret: { type: 'foreignKey', references: 'secret', null: true },
      editor: { type: 'foreignKey', references: 'user', null: true },
    },
    owner: 'editor',
    access: 'user',
    history: true,
  },
  {
    model: 'place',
    primaryKey: { type: 'string' },
    columns: { name: { type: 'string' }, parent: { type: 'foreignKey', references: 'place', null: true } },
    access: 'user',
  },
  { model: 'bare', columns: { text: { type: 'string', default: 'x' } }, access: 'user' },
  {
    model: 'varied',
    columns: Object.fromEntries(DEFAULTS.map((name) => [name, { type: 'string', default: 'x' }])),
    access: 'user',
  },
];

describe('a POST with an array', () => {
  let service: TestService;
  let ada: number;
  before(async () => {
    service = await startService(RESOURCES);
    ada = await service.addUser('ada');
    await service.addUser('root', { admin: true });
    await service.sql`insert into secret (text) values ('x')`;
  });
  after(() => service.close());

  const post = (model: string, body: unknown, headers = {}, name = 'ada'): Promise<Answer> =>
    service.request(`/api/${model}/`, { method: 'POST', user: name, body, headers });
  const count = async (table: string): Promise<number> =>
    Number((await service.sql`select count(*) from ${service.sql(table)}`)[0]?.['count']);

  test('creates all records, in order, each as if it were sent alone', async () => {
    const bodies = [
      { title: 'a', pages: 3, tags: { x: [1, 'y'] } },
      { title: 'b', kind: 'essay', price: '1.50' },
      { title: 'c', author: ada },
      { title: 'd', author_id: ada, pages: null, kind: 'essay' },
      { title: 'quote " \\ { } , NULL', tags: null },
    ];
    const { status, json, headers, text } = await post('book', bodies);
    assert.equal(status, 201, text);
    assert.equal(headers.get('location'), null);
    assert.deepEqual(
      json.map(({ title }: { title: string }) => title),
      bodies.map(({ title }) => title),
    );
    for (const record of json) {
      const { json: read } = await service.request(`/api/book/${record.id}/`);
      assert.deepEqual(read, record);
      assert.equal(record.editor_id, ada);
    }
    assert.deepEqual(
      [json[0].tags, json[1].kind, json[2].kind, json[2].author_id],
      [{ x: [1, 'y'] }, 'essay', 'novel', ada],
    );
    const entries = await service.sql`
      select record, user_name, action from vitrine_history where model = 'book' order by id`;
    assert.deepEqual(
      entries.map(({ record, user_name, action }) => [record, user_name, action]),
      Array.from({ length: json.length }, (_, index) => [String(index + 1), 'ada', 'create']),
    );
  });

  test('returns only the keys with Prefer: return=minimal', async () => {
    const { status, json, headers } = await post('book', [{ title: 'e' }, { title: 'f' }], {
      Prefer: 'return=minimal',
    });
    assert.equal(status, 201);
    assert.equal(headers.get('preference-applied'), 'return=minimal');
    const rows = await service.sql`select id from book where title in ('e', 'f') order by title`;
    assert.deepEqual(
      json,
      rows.map(({ id }) => id),
    );
    const places = await post('place', [{ id: 'x "y"', name: 'x' }], { Prefer: 'return=minimal' });
    assert.deepEqual(places.json, ['x "y"']);
    const logged = await service.sql`
      select after::json ->> 'title' as title from vitrine_history where model = 'book' order by id desc limit 2`;
    assert.deepEqual(
      logged.map(({ title }) => title as string),
      ['f', 'e'],
    );
  });

  test('names all faults with the position of their record, and writes nothing', async () => {
    const before = await count('book');
    const { status, json } = await post('book', [
      { title: 'g' },
      { pages: 'x' },
      5,
      { title: 'h', nosuch: 1 },
      { title: 'i', author: 99_999 },
      null,
      { title: 'j', id: 7 },
    ]);
    assert.equal(status, 400);
    // In JSON objects of JavaScript, whole numbers come first.
    assert.deepEqual(Object.keys(json.errors), [
      '2',
      '5',
      '1.title',
      '1.pages',
      '3.nosuch',
      '4.author',
      '6.id',
    ]);
    assert.deepEqual(json.errors['4.author'], ['there is no such record']);
    const missing = await post('book', [
      { title: 'g' },
      { title: 'h', author: 99_999 },
      { title: 'i', author: ada },
    ]);
    assert.deepEqual(
      [missing.status, missing.json.errors],
      [400, { '1.author': ['there is no such record'] }],
    );
    assert.equal(await count('book'), before);
  });

  test('is 409 for duplicates of stored records and of each other, and writes nothing', async () => {
    await post('book', [{ title: 'stored' }]);
    const before = await count('book');
    const { status, json } = await post('book', [{ title: 'k' }, { title: 'stored' }, { title: 'k' }]);
    assert.equal(status, 409);
    assert.deepEqual(Object.keys(json.errors).sort(), ['1.title', '2.title']);
    assert.equal(await count('book'), before);
  });

  test('does not tell which hidden records exist', async () => {
    const answers = [];
    for (const secret of [1, 2])
      answers.push(await post('book', [{ title: `l${secret}` }, { title: `m${secret}`, secret }]));
    assert.deepEqual(
      answers.map(({ status }) => status),
      [201, 400],
    );
    const { json } = await post('book', [{ title: 'n' }, { title: 'n', secret: 2, nosuch: 1 }]);
    assert.deepEqual(Object.keys(json.errors), ['1.nosuch']);
  });

  test('may have records that refer to each other by natural keys', async () => {
    const { status, json } = await post('place', [
      { id: 'berlin', name: 'Berlin', parent: 'germany' },
      { id: 'germany', name: 'Germany' },
    ]);
    assert.equal(status, 201);
    assert.deepEqual(
      json.map(({ id }: { id: string }) => id),
      ['berlin', 'germany'],
    );
    const { json: refused } = await post('place', [{ id: 'p', name: 'x', parent: 'q' }]);
    assert.deepEqual(refused.errors, { '0.parent': ['there is no such record'] });
  });

  test('creates records without any fields', async () => {
    const { status, json } = await post('bare', [{}, { text: 'y' }, {}]);
    assert.equal(status, 201);
    assert.deepEqual(
      json.map(({ text }: { text: string }) => text),
      ['x', 'y', 'x'],
    );
  });

  test('hashes the passwords of users', async () => {
    const bodies = ['u1', 'u2'].map((name) => ({
      username: name,
      password: `pw-${name}`,
      email: `${name}@example.org`,
    }));
    const { status, text } = await post('user', bodies, {}, 'root');
    assert.equal(status, 201, text);
    for (const name of ['u1', 'u2']) assert.equal((await post('bare', [{}], {}, name)).status, 201);
  });

  test('writes nothing when a trigger cancels one of the records', async () => {
    await service.sql`
      create function cancel() returns trigger language plpgsql as
      $$ begin if new.text = 'cancel' then return null; end if; return new; end $$`.simple();
    await service.sql`create trigger cancel before insert on bare for each row execute function cancel()`.simple();
    const before = await count('bare');
    const { status } = await post('bare', [{ text: 'a' }, { text: 'cancel' }]);
    assert.equal(status, 409);
    assert.equal(await count('bare'), before);
  });

  test('is 400, as for one record, when a rule of the database cannot be computed', async () => {
    await service.sql`alter table bare add constraint computed check (1 / length(text) >= 0)`;
    assert.equal((await post('bare', { text: '' })).status, 400);
    assert.equal((await post('bare', [{ text: 'a' }, { text: '' }])).status, 400);
    await service.sql`alter table bare drop constraint computed`;
  });

  test('may have at most 32 different sets of fields', async () => {
    const sets = Array.from({ length: 33 }, (_, bits) =>
      Object.fromEntries(DEFAULTS.filter((_name, bit) => (bits >> bit) % 2 === 1).map((name) => [name, 'y'])),
    );
    const created = await post('varied', sets.slice(0, 32));
    assert.equal(created.status, 201);
    assert.deepEqual(
      created.json.map((record: Record<string, unknown>) => DEFAULTS.map((name) => record[name])),
      sets.slice(0, 32).map((set) => DEFAULTS.map((name) => set[name] ?? 'x')),
    );
    const { status, json } = await post('varied', sets);
    assert.deepEqual([status, json.detail], [400, 'The records have more than 32 different sets of fields.']);
  });

  test('needs the same credentials as a POST of one record', async () => {
    const body = [{ title: 'o' }];
    assert.equal((await service.request('/api/book/', { method: 'POST', body })).status, 401);
    assert.equal((await post('secret', [{ text: 'x' }])).status, 403);
    assert.equal((await post('secret', [{ text: 'x' }], {}, 'root')).status, 201);
    // Remembered credentials that are no longer right insert nothing.
    await service.addUser('carol');
    assert.equal((await post('bare', [{}], {}, 'carol')).status, 201);
    await service.sql`update "user" set active = false where username = 'carol'`;
    const before = await count('bare');
    assert.equal((await post('bare', [{}, {}], {}, 'carol')).status, 401);
    assert.equal(await count('bare'), before);
  });

  for (const [name, text, detail] of [
    ['no record', ' [ ] ', 'The body has no records.'],
    ['more than 1,000 records', `[${'{},'.repeat(1_000)}{}]`, 'The body has more than 1000 records.'],
    ['invalid JSON', '[{}, {]', 'The body is not valid JSON.'],
    ['a comma at the end', '[{},]', 'The body is not valid JSON.'],
    [
      'too many fields',
      `[${Array.from({ length: 11 }, () => `{${Array.from({ length: 9_999 }, (_, key) => `"${key}":1`).join()}}`).join()}]`,
      'The body has more than 100000 fields.',
    ],
  ] as const)
    test(`is 400 with ${name}`, async () => {
      const { status, json } = await post('bare', text, { 'content-type': 'application/json' });
      assert.deepEqual([status, json.detail], [400, detail]);
    });

  test('may have white space and any order of fields, and is taken from forms, too', async () => {
    const body = ' \n[ { "text" : "1" } ,\t{"text":"2"}\r\n] ';
    const type = { 'content-type': 'application/x-www-form-urlencoded' };
    for (const [text, headers] of [
      [body, { 'content-type': 'application/json' }],
      [body.trim(), type],
      [`data=${encodeURIComponent(body)}`, type],
    ] as const) {
      const { status, json } = await post('bare', text, headers);
      assert.equal(status, 201);
      assert.deepEqual(
        json.map((record: { text: string }) => record.text),
        ['1', '2'],
      );
    }
  });

  test('stores what was sent, for any values and any sets of fields', async () => {
    const record = fc.record(
      {
        pages: fc.option(fc.integer({ min: -(2 ** 31), max: 2 ** 31 - 1 })),
        kind: fc.string({ maxLength: 20, unit: 'grapheme' }).filter((text) => !text.includes('\0')),
        tags: fc
          .option(fc.jsonValue({ maxDepth: 2 }))
          .filter((value) => !JSON.stringify(value ?? 0).includes('\\u0000')),
        author: fc.option(fc.constant(ada)),
      },
      { requiredKeys: [] },
    );
    let round = 0;
    await fc.assert(
      fc.asyncProperty(fc.array(record, { minLength: 1, maxLength: 30 }), async (bodies) => {
        round += 1;
        const sent = bodies.map((body, index) => ({ title: `${round} ${index}`, ...body }));
        const { status, json, text } = await post('book', sent);
        assert.equal(status, 201, text);
        sent.forEach((body, index) => {
          const { author, ...rest } = body as Record<string, unknown>;
          const expected = { ...rest, ...(author === undefined ? {} : { author_id: author }) };
          const shown = Object.fromEntries(Object.keys(expected).map((key) => [key, json[index][key]]));
          assert.deepEqual(shown, JSON.parse(JSON.stringify(expected)));
        });
      }),
      { numRuns: 40 },
    );
  });

  test('takes 1,000 records', async () => {
    const bodies = Array.from({ length: 1_000 }, (_, index) => ({ title: `many ${index}`, author: ada }));
    const { status, json } = await post('book', bodies);
    assert.equal(status, 201);
    assert.deepEqual(
      json.map(({ title }: { title: string }) => title),
      bodies.map(({ title }) => title),
    );
  });
});

describe('a PUT with If-None-Match: *', () => {
  let service: TestService;
  before(async () => {
    service = await startService(RESOURCES);
    await service.addUser('ada');
    await service.addUser('bob');
  });
  after(() => service.close());

  const put = (
    path: string,
    body: unknown,
    headers: Record<string, string> = { 'If-None-Match': '*' },
  ): Promise<Answer> => service.request(path, { method: 'PUT', user: 'ada', body, headers });

  test('creates a record whose key the client sets, once', async () => {
    const path = `/api/place/${encodeURIComponent('Köln/Süd')}/`;
    const created = await put(path, { name: 'Köln' });
    assert.equal(created.status, 201, created.text);
    assert.deepEqual(created.json, { id: 'Köln/Süd', name: 'Köln', parent_id: null });
    assert.equal(created.headers.get('location'), path);
    assert.ok(created.headers.get('etag'));
    const again = await put(path, { name: 'Other' });
    assert.equal(again.status, 412);
    assert.equal((await service.request(path)).json.name, 'Köln');
    assert.equal((await put(path, { name: 'Other' }, {})).status, 200);
  });

  test('has one winner among many at once', async () => {
    const answers = await Promise.all(
      Array.from({ length: 20 }, (_, index) => put('/api/place/raced/', { name: String(index) })),
    );
    const statuses = answers.map(({ status }) => status).sort();
    assert.deepEqual(statuses, [201, ...Array<number>(19).fill(412)]);
  });

  test('checks the body as a POST does, and its id', async () => {
    assert.deepEqual((await put('/api/place/a/', {})).json.errors, { name: ['is required'] });
    assert.deepEqual(Object.keys((await put('/api/place/a/', { id: 'b', name: 'x' })).json.errors), ['id']);
    assert.equal((await put('/api/place/a/', { id: 'a', name: 'x' })).status, 201);
  });

  test('is 404 without the header, and where the database generates keys', async () => {
    assert.equal((await put('/api/place/none/', { name: 'x' }, {})).status, 404);
    assert.equal((await put('/api/bare/9999/', { text: 'x' })).status, 404);
  });

  test('never creates a record that If-Match requires', async () => {
    for (const tag of ['*', '"1-abc"']) {
      const headers = { 'If-None-Match': '*', 'If-Match': tag };
      assert.equal((await put('/api/place/matched/', { name: 'x' }, headers)).status, 404);
    }
  });

  test('needs credentials', async () => {
    const headers = { 'If-None-Match': '*' };
    const answer = await service.request('/api/place/b/', { method: 'PUT', body: { name: 'x' }, headers });
    assert.equal(answer.status, 401);
  });
});

describe('an array that the database refuses', () => {
  const PROFILES: Resource[] = [
    user,
    {
      model: 'profile',
      columns: { phone: { type: 'string', unique: true }, price: { type: 'integer' } },
      exclude: ['phone'],
      access: 'user',
      databaseErrors: 'shown',
    },
    { model: 'dropbox', columns: { code: { type: 'string', unique: true } }, access: 'user', read: 'admin' },
    { model: 'slug', columns: { slug: { type: 'string' }, dead: { type: 'boolean' } }, access: 'user' },
    { model: 'secret', columns: { text: { type: 'string' } }, read: 'admin', access: 'admin' },
    {
      model: 'holder',
      columns: Object.fromEntries(
        DEFAULTS.map((name) => [name, { type: 'foreignKey', references: 'secret', null: true }]),
      ),
      access: 'user',
    },
  ];
  let service: TestService;
  before(async () => {
    service = await startService(PROFILES, {
      prepare: async (sql) => {
        await sql`create table slug (id serial primary key, slug varchar(255) not null, dead boolean not null)`;
        await sql`create unique index on slug (slug) where not dead`;
      },
    });
    await service.addUser('ada');
    await service.addUser('root', { admin: true });
    await service.sql`alter table profile add constraint price_positive check (price > 0)`;
    await service.sql`insert into profile (phone, price) values ('taken', 1)`;
    await service.sql`insert into dropbox (code) values ('taken')`;
    await service.sql`insert into slug (slug, dead) values ('gone', true), ('live', false)`;
  });
  after(() => service.close());

  const post = (model: string, body: unknown, name = 'ada'): Promise<Answer> =>
    service.request(`/api/${model}/`, { method: 'POST', user: name, body });
  const shown = ({ status, json }: Answer): unknown => [
    status,
    (json as { detail: unknown; errors?: unknown }).detail,
    (json as { errors?: unknown }).errors,
  ];

  test('gets one answer for hidden values, whichever record is refused first', async () => {
    const answers = await Promise.all(
      ['taken', 'free'].map((phone) =>
        post('profile', [
          { phone, price: 1 },
          { phone: 'other', price: -1 },
        ]),
      ),
    );
    assert.deepEqual(shown(answers[0]!), shown(answers[1]!));
    assert.equal(answers[0]?.status, 409);
    const tooLarge = await post('profile', [
      { phone: 'free', price: 1 },
      { phone: 'taken', price: 1 },
    ]);
    assert.deepEqual(shown(tooLarge), shown(answers[0]));
    assert.equal((await post('profile', [{ phone: 'free', price: 1 }])).status, 201);
  });

  test('names no stored duplicates to callers who may not read them', async () => {
    const guesses = [{ code: 'same' }, { code: 'same' }, { code: 'taken' }, { code: 'free' }];
    const answer = await post('dropbox', guesses);
    assert.deepEqual(shown(answer), [409, 'A record with the same value already exists.', undefined]);
    const known = await post('dropbox', guesses, 'root');
    assert.deepEqual(Object.keys((known.json as { errors: object }).errors), ['1.code', '2.code']);
  });

  test('names no duplicates of rows that a partial unique index leaves out', async () => {
    const answer = await post('slug', [
      { slug: 'gone', dead: false },
      { slug: 'live', dead: false },
    ]);
    assert.deepEqual(shown(answer), [409, 'A record with the same value already exists.', undefined]);
    assert.equal((await post('slug', [{ slug: 'gone', dead: false }])).status, 201);
  });

  test('has a short answer for thousands of missing hidden records', async () => {
    const record = Object.fromEntries(DEFAULTS.map((name, index) => [`${name}_id`, 1_000 + index]));
    const answer = await post('holder', Array(1_000).fill(record));
    assert.equal(answer.status, 400);
    assert.match(answer.text, /at least one of 0\.a_id, 0\.b_id.* and 5980 more refers to a record/);
    assert.ok(answer.text.length < 60_000, `${answer.text.length} characters`);
  });

  test('is checked until there are a hundred faults', async () => {
    const records = Array.from({ length: 1_000 }, (_, index) => ({
      slug: 'x',
      dead: false,
      [`no${index}`]: 1,
      other: 2,
    }));
    const answer = await post('slug', records);
    const { detail, errors } = answer.json as { detail: string; errors: object };
    assert.equal(answer.status, 400);
    assert.match(detail, /The records from position 50 on were not checked\.$/);
    assert.equal(Object.keys(errors).length, 100);
  });
});
