// Keys and foreign keys of several columns, in the API and the admin area.
import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import { type Browser, fieldsOf, hiddenFields, logIn, readable } from '../admin/support.ts';
import type { Resource } from '../../src/index.ts';
import { user } from '../../src/resources/registry.ts';
import { type Answer, type TestService, useService, pluck, sendAs, pagesFrom } from '../support.ts';
import { award as longAward, casting as longCasting, film as longFilm } from '../castings.ts';

const film: Resource = { model: 'film', access: 'user', columns: { title: { type: 'string' } } };
const casting: Resource = {
  model: 'casting',
  access: 'user',
  primaryKey: { columns: ['film', 'actor'] },
  columns: {
    role: { type: 'string', null: true },
    actor: { type: 'string' },
    film: { type: 'foreignKey', references: 'film', onDelete: 'cascade' },
  },
  admin: { label: '{actor} in {film__title}' },
};
const award: Resource = {
  model: 'award',
  access: 'user',
  columns: {
    name: { type: 'string' },
    film_id: { type: 'integer', null: true },
    actor: { type: 'string', null: true },
  },
  foreignKeys: { casting: { columns: ['film_id', 'actor'], references: 'casting', onDelete: 'setNull' } },
  admin: { label: '{name} ({casting__role})' },
};
/** The foreign key has a column that the API and the admin area do not show. */
const covert: Resource = { ...award, model: 'covert', exclude: ['actor'], admin: { exclude: ['actor'] } };
const listed: Resource = { ...award, model: 'listed', admin: { list: ['name', 'casting'], filters: [] } };
const secret: Resource = { ...casting, model: 'secret', read: 'user' };
const deep: Resource = {
  ...award,
  model: 'deep',
  foreignKeys: { secret: { columns: ['film_id', 'actor'], references: 'secret' } },
  admin: {},
};
const reading: Resource = {
  model: 'reading',
  access: 'user',
  primaryKey: { columns: ['at', 'day', 'sensor', 'isRaw', 'amount'] },
  columns: {
    at: { type: 'datetime' },
    day: { type: 'date' },
    sensor: { type: 'uuid' },
    isRaw: { type: 'boolean' },
    amount: { type: 'decimal' },
    value: { type: 'integer', null: true },
  },
};
const line: Resource = {
  model: 'line',
  access: 'user',
  primaryKey: { columns: ['order', 'number'] },
  columns: {
    order: { type: 'integer' },
    number: { type: 'integer', default: 'database' },
    text: { type: 'string', null: true },
  },
};
const owned: Resource = {
  model: 'owned',
  access: 'user',
  owner: 'user',
  primaryKey: { columns: ['user', 'place'] },
  columns: {
    user: { type: 'foreignKey', references: 'user' },
    place: { type: 'integer' },
    text: { type: 'string' },
  },
};
const code: Resource = {
  model: 'code',
  access: 'user',
  primaryKey: { columns: ['code'] },
  columns: { code: { type: 'text', default: 'none' }, text: { type: 'string', null: true } },
};
const translation: Resource = {
  model: 'translation',
  access: 'user',
  primaryKey: { columns: ['text_id', 'language'] },
  columns: {
    text_id: { type: 'integer' },
    language: { type: 'string', default: 'en' },
    text: { type: 'string', null: true },
  },
};
const level: Resource = {
  model: 'level',
  access: 'user',
  primaryKey: { columns: ['floor', 'kind'] },
  columns: { floor: { type: 'integer' }, kind: { type: 'string', default: 'plain' } },
  readonly: ['kind'],
};
const RESOURCES = [
  user,
  film,
  casting,
  award,
  covert,
  listed,
  secret,
  deep,
  reading,
  line,
  owned,
  code,
  translation,
  level,
];

const READINGS = `
  create table reading (
    at timestamptz not null, day date not null, sensor uuid not null, "isRaw" boolean not null, amount numeric not null,
    value integer, primary key (sensor, day, at, "isRaw", amount));
  create table line ("order" integer not null, number integer not null generated always as identity, text varchar(255),
    primary key ("order", number))`;

/** A problem with exactly these errors. */
function assertErrors(answer: Answer, status: number, errors: Record<string, string[]>): void {
  assert.deepEqual([answer.status, answer.json.errors], [status, errors], answer.text);
}

interface Casting {
  readonly id: string;
  readonly film_id: number;
  readonly actor: string;
  readonly role: string | null;
}

describe('keys of several columns', () => {
  const service: TestService = useService(RESOURCES, { prepare: (sql) => sql.unsafe(READINGS) }, async () => {
    await service.addUser('ada', { admin: true });
    await service.addUser('eve');
    await service.sql`insert into film (title) select 'Film ' || n from generate_series(1, 5) n`;
  });

  const send = sendAs(service, 'ada');
  const create = async (one: Omit<Casting, 'id' | 'role'> & { role?: string | null }): Promise<Casting> => {
    const answer = await send('POST', '/api/casting/', one);
    assert.equal(answer.status, 201, answer.text);
    return answer.json as Casting;
  };

  test('make an id that comes first, a Location, and an address', async () => {
    const answer = await send('POST', '/api/casting/', { film_id: 1, actor: '34', role: 'Lead' });
    assert.equal(answer.status, 201, answer.text);
    assert.equal(answer.text, '{"id":"1,34","role":"Lead","actor":"34","film_id":1}');
    assert.equal(answer.headers.get('location'), '/api/casting/1,34/');
    const found = await send('GET', '/api/casting/1,34/');
    assert.deepEqual([found.status, found.text], [200, answer.text]);
    assert.equal(found.headers.get('etag'), answer.headers.get('etag'));
  });

  test('are refused in a filter with what is wrong', async () => {
    for (const [value, fault] of [
      ['1', 'must be 2 values separated by commas (film_id,actor)'],
      ['1,2,3', 'must be 2 values separated by commas (film_id,actor)'],
      ['x,2', 'film_id: must be a whole number'],
      ['1,%25zz', 'is not percent-encoded correctly'],
    ] as const) {
      const answer = await send('GET', `/api/casting/?id=${value}`);
      assert.equal(answer.status, 400);
      assert.match(answer.json.errors.id[0], new RegExp(fault.replace(/[()]/g, '\\$&')));
    }
    assert.equal((await send('GET', '/api/casting/?id__like=1')).status, 400);
    for (const path of ['1', '1,2,3', 'x,2', '1,%zz', '99,x'])
      assert.equal((await send('GET', `/api/casting/${path}/`)).status, 404, path);
  });

  test('take all columns of a new record that the database does not make, and no id', async () => {
    const cases: [body: unknown, errors: Record<string, string[]>][] = [
      [{ film_id: 1 }, { actor: ['is required'] }],
      [{ actor: 'x' }, { film_id: ['is required'] }],
      [{ film_id: 99, actor: 'x' }, { film_id: ['there is no such record'] }],
      [{ film_id: 1, actor: null }, { actor: ['must not be null'] }],
      [{ film_id: 1, actor: 'x', id: '1,x' }, { id: ['is made of film_id, actor, and must not be sent'] }],
    ];
    for (const [body, errors] of cases) assertErrors(await send('POST', '/api/casting/', body), 400, errors);
    const long = await send('POST', '/api/casting/', { film_id: 1, actor: 'x'.repeat(600) });
    assert.equal(long.status, 400, long.text);
    const made = await send('POST', '/api/line/', { order: 7, text: 'one' });
    assert.deepEqual([made.status, made.json], [201, { id: '7,1', order: 7, number: 1, text: 'one' }]);
    const kept = await send('PUT', '/api/line/7,1/', { order: 7, number: 1, text: 'two' });
    assert.deepEqual([kept.status, kept.json.text], [200, 'two'], kept.text);
  });

  test('answer a duplicate with 409 that names the columns', async () => {
    await create({ film_id: 1, actor: 'twice' });
    const again = await send('POST', '/api/casting/', { film_id: 1, actor: 'twice' });
    const same = ['another record has these values together (actor, film_id)'];
    assertErrors(again, 409, { film_id: same, actor: same });
  });

  test('may be repeated but not changed by a PUT', async () => {
    const { id } = await create({ film_id: 2, actor: 'put', role: 'old' });
    const path = `/api/casting/${id}/`;
    const same = await send('PUT', path, { id, film_id: 2, actor: 'put', role: 'new' });
    assert.deepEqual(
      [same.status, same.json],
      [200, { id, film_id: 2, actor: 'put', role: 'new' }],
      same.text,
    );
    const fault = ['is a part of the key and cannot be changed'];
    assertErrors(await send('PUT', path, { film_id: 3, role: 'x' }), 400, { film_id: fault });
    assertErrors(await send('PUT', path, { actor: 'other' }), 400, { actor: fault });
    assertErrors(await send('PUT', path, { actor: null }), 400, { actor: fault });
    assertErrors(await send('PUT', path, { id: '2,other' }), 400, {
      id: ['must equal the id of the record'],
    });
    assert.equal((await send('GET', path)).json.role, 'new');
    const missing = await send('PUT', '/api/casting/5,none/', { film_id: 5, actor: 'none', role: 'x' });
    assert.equal(missing.status, 404, missing.text);
    const stale = await send('PUT', path, { role: 'x' }, { 'If-Match': '"1-aaaaaa"' });
    assert.equal(stale.status, 412);
  });

  test('let a PUT with If-None-Match create the record', async () => {
    const absent = { 'If-None-Match': '*' };
    const path = '/api/casting/3,new%2Cone/';
    const other = await send('PUT', path, { actor: 'x', role: 'r' }, absent);
    assertErrors(other, 400, { actor: ['must equal the value in the address'] });
    const made = await send('PUT', path, { role: 'r' }, absent);
    assert.deepEqual(
      [made.status, made.json],
      [201, { id: '3,new%2Cone', role: 'r', actor: 'new,one', film_id: 3 }],
      made.text,
    );
    assert.equal((await send('PUT', path, { role: 'r' }, absent)).status, 412);
    const whole = await send('PUT', '/api/casting/3,y/', { id: '3,y', film: 3, actor: 'y' }, absent);
    assert.equal(whole.status, 201, whole.text);
  });

  test('let such a PUT create the record if columns of the key have defaults', async () => {
    const absent = { 'If-None-Match': '*' };
    const made = await send('PUT', '/api/translation/5,de/', { text: 'Hallo' }, absent);
    assert.equal(made.status, 201, made.text);
    assert.deepEqual(made.json, { id: '5,de', text_id: 5, language: 'de', text: 'Hallo' });
    assert.equal((await send('PUT', '/api/translation/5,de/', { text: 'x' }, absent)).status, 412);
  });

  for (const [what, path] of [
    ['makes', '/api/line/7,99/'],
    ['lets no client set', '/api/level/1,special/'],
  ] as const)
    test(`let no PUT create the record if they have a column that the database ${what}`, async () => {
      assert.equal((await send('PUT', path, {}, { 'If-None-Match': '*' })).status, 404);
    });

  for (const [name, other] of Object.entries({ film: 'film_id', film_id: 'film' }))
    test(`are not contradicted by ${name} while ${other} is right`, async () => {
      const body = { [other]: 3, [name]: 4, actor: 'twice' };
      const answer = await send('PUT', '/api/casting/3,twice/', body, { 'If-None-Match': '*' });
      assertErrors(answer, 400, { [name]: ['must equal the value in the address'] });
    });

  for (const key of ['', '.', '..'])
    test(`of one column cannot be ${JSON.stringify(key)}, which no address names`, async () => {
      const one = await send('POST', '/api/code/', { code: key });
      assertErrors(one, 400, {
        code: ['must not be empty, "." or "..", because no URL could name the record'],
      });
      const many = await send('POST', '/api/code/', [{ code: key }]);
      assert.deepEqual([many.status, Object.keys(many.json.errors)], [400, ['0.code']], many.text);
    });

  test('are in CSV as in JSON, also below 0', async () => {
    await service.sql`insert into line ("order", text) values (-1, '-1')`;
    const csv = await service.request('/api/line/?order=-1', { headers: { accept: 'text/csv' } });
    assert.match(csv.text, /\r\n"-1,\d+",-1,\d+,"'-1"\r\n$/);
    const all = await service.request('/api/line/?order=-1', {
      headers: { accept: 'text/csv', prefer: 'paging=none' },
    });
    assert.equal(all.text, csv.text);
  });

  test('are made for several records at once', async () => {
    const bodies = [1, 2, 3].map((film_id) => ({ film_id, actor: 'many' }));
    const made = await send('POST', '/api/casting/', bodies, { Prefer: 'return=minimal' });
    assert.deepEqual([made.status, made.json], [201, ['1,many', '2,many', '3,many']], made.text);
    const again = await send('POST', '/api/casting/', [{ film_id: 4, actor: 'many' }, ...bodies]);
    assert.equal(again.status, 409);
    assert.deepEqual(Object.keys(again.json.errors), [
      '1.actor',
      '1.film_id',
      '2.actor',
      '2.film_id',
      '3.actor',
      '3.film_id',
    ]);
  });

  test('are 409 with the position of a record whose key has another spelling', async () => {
    const one = {
      at: '2026-03-01',
      day: '2026-03-01',
      sensor: '00000000-0000-4000-8000-000000000000',
      isRaw: true,
    };
    const columns = ['at', 'day', 'sensor', 'isRaw', 'amount'];
    const same = [`another record has these values together (${columns.join(', ')})`];
    const bodies = ['2', '1.5', '1.50'].map((amount) => ({ ...one, amount }));
    const answer = await send('POST', '/api/reading/', bodies);
    const names = columns.map((name) => [`2.${name}`, same]);
    assertErrors(answer, 409, Object.fromEntries(names));
  });

  test('belong to their owner', async () => {
    const made = await send('POST', '/api/owned/', { place: 1, text: 'mine' });
    assert.equal(made.status, 201, made.text);
    const path = `/api/owned/${made.json.id}/`;
    const absent = { 'If-None-Match': '*' };
    const stolen = { method: 'PUT', user: 'eve', headers: absent, body: { text: 'hers' } };
    const [owner = ''] = (made.json.id as string).split(',');
    assert.equal((await service.request(`/api/owned/${owner},9/`, stolen)).status, 403);
    const strict = { ...absent, Prefer: 'handling=strict' };
    const own = { user_id: Number(owner), place: 9, text: 'mine' };
    assert.equal((await send('PUT', `/api/owned/${owner},9/`, own, strict)).status, 201);
    const others = await service.request(path, { method: 'PUT', user: 'eve', body: { text: 'hers' } });
    assert.equal(others.status, 403, others.text);
    assert.equal((await service.request(path, { method: 'DELETE', user: 'eve' })).status, 403);
    assert.equal((await send('PUT', path, { ...made.json, text: 'changed' })).status, 200);
    assert.equal((await send('DELETE', path)).status, 200);
  });

  describe('that foreign keys refer to', () => {
    before(async () => {
      await service.sql`delete from award`;
      await create({ film_id: 1, actor: 'Ann', role: 'Queen' });
      await create({ film_id: 2, actor: 'Bob', role: 'King' });
    });

    test('have an index', async () => {
      const good = await send('POST', '/api/award/', { name: 'Oscar', film_id: 1, actor: 'Ann' });
      assert.deepEqual(good.json, { id: good.json.id, name: 'Oscar', film_id: 1, actor: 'Ann' }, good.text);
      const [index] =
        await service.sql`select from pg_indexes where indexdef like '%(film_id, actor)' and tablename = 'award'`;
      assert.ok(index);
    });

    test('are links on the pages of the API, from each of their columns', async () => {
      const { json } = await send('POST', '/api/award/', { name: 'Half', film_id: 1 });
      for (const path of [`/api/award/?name=Oscar`, `/api/award/?name=Half`, `/api/award/${json.id}/`]) {
        const page = await service.request(path, { headers: { accept: 'text/html' } });
        const isWhole = path.endsWith('Oscar');
        for (const [key, value] of Object.entries({ film_id: '1', actor: '&quot;Ann&quot;' })) {
          const link = `&quot;${key}&quot;: <a href="/api/casting/1,Ann/">${value}</a>`;
          assert.equal(page.text.includes(link), isWhole, path);
        }
      }
      await service.sql`delete from award where name <> 'Oscar'`;
    });

    test('are followed by deletions', async () => {
      await service.sql`delete from award`;
      await service.sql`insert into award (name, film_id, actor) values ('A', 1, 'Ann')`;
      assert.equal((await send('DELETE', '/api/casting/1,Ann/')).status, 200);
      const [row] = await service.sql`select film_id, actor from award`;
      assert.deepEqual({ ...row }, { film_id: null, actor: null });
    });
  });

  describe('that foreign keys refer to, for readers and in the admin area:', () => {
    let admin: Browser;
    before(async () => {
      admin = await logIn(service, 'ada');
      await service.sql.unsafe(`
        truncate award restart identity; delete from casting;
        insert into casting (film_id, actor, role) values (1, 'Weaver, S.', 'Ripley'), (2, 'Pryce', 'Sam');
        insert into award (name, film_id, actor) values ('Saturn', 1, 'Weaver, S.'), ('None', 2, null);
        insert into listed (name, film_id, actor) values ('Saturn', 1, 'Weaver, S.')`);
    });

    const parametersOf = async (
      model: string,
      as?: string,
    ): Promise<{ name: string; description: string }[]> => {
      const { json } = await service.request('/api/openapi.json', as === undefined ? {} : { user: as });
      return json.paths[`/api/${model}`].get.parameters;
    };

    const documented: [model: string, as: string | undefined, has: readonly string[], lacks: RegExp][] = [
      [
        'award',
        undefined,
        ['casting', 'casting__in', 'casting__is', 'casting__role', 'casting__film'],
        /__id$/,
      ],
      ['covert', undefined, ['film_id'], /casting/],
      ['deep', undefined, ['secret'], /secret__role/],
      ['deep', 'ada', ['secret', 'secret__role__ilike'], /__id$/],
    ];
    for (const [model, as, has, lacks] of documented)
      test(`are parameters of ${model} for ${as ?? 'anonymous callers'}, and work as filters`, async () => {
        const parameters = await parametersOf(model, as);
        const names = parameters.flatMap(({ name }) => name ?? []);
        for (const name of has) {
          assert.ok(names.includes(name), name);
          const value = name.endsWith('is')
            ? 'null'
            : name.includes('film')
              ? '1'
              : name.endsWith('in')
                ? '"1,x"'
                : '1,x';
          const answer = await service.request(`/api/${model}/?${name}=${value}`, as ? { user: as } : {});
          assert.equal(answer.status, 200, answer.text);
        }
        assert.ok(!names.some((name) => lacks.test(name)));
        const ordering = parameters.find(({ name }) => name === 'ordering')?.description ?? '';
        assert.equal(/\b(casting|secret)\b/.test(ordering), model !== 'covert', ordering);
      });

    test('make credentials count where they lead to a resource for users', async () => {
      const { json } = await service.request('/api/openapi.json');
      assert.deepEqual(json.paths['/api/deep'].get.security, [{}, { user: [] }, { token: [] }]);
      assert.deepEqual(json.paths['/api/award'].get.security, []);
    });

    const named = [
      'casting=1,Weaver%252C%2520S.',
      'casting_id=1,Weaver%252C%2520S.',
      'casting_id__role=Ripley',
    ];
    for (const query of [...named, '-casting_id__is=null', 'casting_id__in="1,Weaver%252C%2520S."'])
      test(`are filters with and without _id: ${query}`, async () => {
        const { status, json, text } = await service.request(`/api/award/?${query}&ordering=-casting_id`);
        assert.equal(status, 200, text);
        assert.deepEqual(pluck(json.objects, 'name'), ['Saturn']);
      });

    const headers = { Accept: 'text/html' };
    test('are among the filters of the pages of the API', async () => {
      const page = await service.request('/api/award/', { headers });
      assert.match(page.text, /<code>casting<\/code>/);
      assert.doesNotMatch((await service.request('/api/covert/', { headers })).text, /<code>casting/);
    });

    test('are filters of the admin area by a related record', async () => {
      const list = await admin.get('/admin/award/');
      assert.match(list.text, /<select name="_is.casting"[\s\S]*Weaver, S\. in Film 1<\/option>/);
      const fields = { '_is.casting': '=1,Weaver%2C%20S.' };
      const filtered = await admin.get(`/admin/award/-/filter/?${new URLSearchParams(fields).toString()}`);
      const found = readable(await admin.follow(filtered));
      assert.match(found, /Casting is Weaver, S\. in Film 1.*Saturn/);
      assert.doesNotMatch(found, /None/);
      assert.doesNotMatch((await admin.get('/admin/covert/')).text, /_is.casting/);
    });

    test('are links to the related record, in lists and forms of the admin area', async () => {
      const link = /<a href="(\/admin\/casting\/[^"]*)"[^>]*>(?:<span class="value">)?Weaver, S\. in Film 1</;
      for (const path of ['/admin/award/', '/admin/award/1/', '/admin/listed/', '/admin/listed/1/']) {
        const page = await admin.get(path);
        const [, target = ''] = link.exec(page.text) ?? [];
        assert.notEqual(target, '', `${path}: ${page.text}`);
        assert.match(readable(await admin.get(target)), /Weaver, S\. in Film 1/);
      }
      assert.doesNotMatch((await admin.get('/admin/award/2/')).text, /href="\/admin\/casting\/[^"?]/);
      const sorted = await admin.get('/admin/listed/?ordering=casting__actor');
      assert.equal(sorted.status, 200);
      const form = await admin.get('/admin/award/1/');
      const saved = await admin.post('/admin/award/1/', { ...fieldsOf(form), name: 'Saturn Award' });
      assert.equal(saved.status, 303, readable(saved));
      await admin.post('/admin/award/1/', {
        ...fieldsOf(await admin.get('/admin/award/1/')),
        name: 'Saturn',
      });
    });
  });
});

// Keys of several columns with long texts, everywhere an address has them.

const text = { type: 'string' } as const;
const withKey = (model: string, names: string): Resource => ({
  model,
  primaryKey: { columns: [...names] },
  columns: {
    ...Object.fromEntries([...names].map((name) => [name, text])),
    role: { type: 'string', null: true },
  },
});
/** Different characters, which PostgreSQL cannot compress. */
const threeBytes = (first: number): string =>
  Array.from({ length: 255 }, (_, index) =>
    String.fromCodePoint(0x4e00 + (((first + index) * 7919) % 20_000)),
  ).join('');
const fourBytes = (first: number): string => '😀'.repeat(254) + String.fromCodePoint(0x1f601 + first);

type Key = Record<string, string | number>;
const KEYS: [what: string, model: string, keyOf: (record: number) => Key][] = [
  ['a number and a text of three bytes', 'casting', (record) => ({ film_id: 1, actor: threeBytes(record) })],
  ['a number and a text of four bytes', 'casting', (record) => ({ film_id: 2, actor: fourBytes(record) })],
  ['two texts of three bytes', 'pair', (record) => ({ a: '漢'.repeat(255), b: '字'.repeat(254) + record })],
  ['two texts of four bytes', 'pair', (record) => ({ a: fourBytes(9), b: fourBytes(record) })],
  ['two texts of reserved characters', 'pair', (record) => ({ a: '/%,"'.repeat(63), b: `${record}&?+ ` })],
  [
    'eight texts, one of three bytes',
    'wide',
    (record) => ({ a: 'a', b: 'b', c: 'c', d: 'd', e: 'e', f: 'f', g: String(record), h: threeBytes(0) }),
  ],
];

describe('a key of several columns with texts of 255 characters', () => {
  const resources = [
    user,
    longFilm,
    longCasting,
    longAward,
    withKey('pair', 'ab'),
    withKey('wide', 'abcdefgh'),
  ];
  let ada: Browser;
  const service: TestService = useService(
    resources.map((one) => ({ ...one, access: 'user' as const })),
    {},
    async () => {
      await service.addUser('ada', { admin: true });
      ada = await logIn(service, 'ada');
      await service.sql`insert into film (title) values ('Alien'), ('Brazil')`;
    },
  );
  const send = sendAs(service, 'ada');

  /** Follows the links of a page within the admin area, and of the pages behind them. */
  async function follow(from: string, depth: number, visited = new Set<string>()): Promise<void> {
    visited.add(from);
    const page = await ada.get(from);
    assert.equal(page.status, 200, `${from.slice(0, 60)} … ${from.slice(-60)} (${from.length})`);
    if (depth === 0) return;
    for (const [, href = ''] of page.text.matchAll(/href="(\/admin\/(?!-)[^"#]*)"/g)) {
      const to = href.replaceAll('&amp;', '&');
      if (!visited.has(to)) await follow(to, depth - 1, visited);
    }
  }

  for (const [what, model, keyOf] of KEYS)
    test(`${what}: the record has addresses, filters, cursors and pages like any other`, async () => {
      const list = `/api/${model}/`;
      const [first, second] = [await send('POST', list, keyOf(1)), await send('POST', list, keyOf(2))];
      assert.deepEqual([first.status, second.status], [201, 201], first.text);
      const { id } = first.json as { id: string };
      const path = first.headers.get('location') ?? '';
      for (const address of [path, `${list}${id}/`])
        assert.deepEqual((await service.request(address)).json, first.json);
      const etag = first.headers.get('etag') ?? '';
      assert.equal((await send('PUT', path, { ...first.json, role: 'x' }, { 'if-match': etag })).status, 200);

      const encoded = encodeURIComponent(id);
      const byColumns = Object.entries(keyOf(1))
        .map(([name, value]) => `${name}=${encodeURIComponent(value)}`)
        .join('&');
      for (const query of [`id=${encoded}`, `id__in="${encoded}"`, byColumns]) {
        const found = await service.request(`${list}?${query}`);
        // The length of a query has a limit, but the columns of the key are filters, too.
        if (query.length > 8192) assert.equal(found.status, 414);
        else
          assert.deepEqual(
            found.json.objects.map((one: { id: string }) => one.id),
            [id],
          );
      }
      const pages = await pagesFrom(service, `${list}?limit=1`);
      const seen = pages.flatMap(({ objects }) => pluck(objects, 'id'));
      for (const { json } of [first, second]) assert.equal(seen.filter((one) => one === json.id).length, 1);
      if (model === 'casting')
        assert.equal((await send('POST', '/api/award/', { name: 'Saturn', ...keyOf(1) })).status, 201);

      const page = path.replace('/api/', '/admin/');
      await follow(`/admin/${model}/`, 2);
      await follow(page, 2);
      const saved = await ada.post(page, { ...fieldsOf(await ada.get(page)), role: 'y' });
      assert.equal(saved.status, 303, saved.text);
      // Browsers drop longer cookies, and with them the message that the record was saved.
      for (const cookie of saved.headers.getSetCookie()) assert.ok(cookie.length < 4096);
      assert.match((await ada.follow(saved)).text, /was changed\./);
      await follow(saved.headers.get('location') ?? '', 1);
      await follow('/admin/vitrine_history/', 2);
      if (model === 'casting') await service.sql`delete from award`;
      const chosen = { _state: '', _action: 'delete', _id: [id.replaceAll('%', '%25')] };
      const confirm = hiddenFields(await ada.post(`/admin/${model}/-/bulk/`, chosen), 'confirm');
      assert.equal((await ada.post(`/admin/${model}/-/bulk/`, confirm)).status, 303);
      assert.equal((await service.request(path)).status, 404);
      await follow(`${page}history/`, 0);
      assert.equal((await send('DELETE', second.headers.get('location') ?? '')).status, 200);
    });

  test('a key that is too long for a URL is 400', async () => {
    const body = {
      ...Object.fromEntries([...'abcdefgh'].map((name) => [name, '😀'.repeat(200)])),
      h: fourBytes(1),
    };
    const { status, json } = await send('POST', '/api/wide/', body);
    const fault = 'makes the key longer than 4096 bytes, which must fit into a URL (got 6620)';
    assert.deepEqual([status, json.errors], [400, { h: [fault] }]);
  });
});
