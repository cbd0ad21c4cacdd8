import assert from 'node:assert/strict';
import type { Resource } from '../../src/index.ts';
import { assertFindable, assertRoundTrip, rowsOf, useWritable, type WritableService } from './helpers.ts';
import { describe, test } from 'node:test';

const DDL = `
  create table event (id integer generated always as identity, kind text not null, at timestamptz, primary key (id))
    partition by range (id);
  create table event_1 partition of event for values from (minvalue) to (3);
  create table event_2 partition of event for values from (3) to (maxvalue);

  create domain percent as numeric(5,2) not null default 50 check (value between 0 and 100);
  create domain zip as varchar(5) check (value ~ '^[0-9]*$');
  create table ruled (
    id integer generated always as identity primary key,
    net numeric(10,2) not null default 10,
    gross numeric generated always as (net * 2) stored,
    serial_no integer not null generated always as identity,
    share percent,
    zip zip,
    code text not null default 'c',
    part integer not null default 0,
    low integer not null default 1,
    high integer not null default 2,
    check (low < high),
    unique (code, part)
  );
  create unique index ruled_lower on ruled (lower(zip));

  create function refuse() returns trigger language plpgsql as
    'begin if new.zip = ''99999'' then raise exception ''secret words''; end if; new.zip = nullif(new.zip, ''''); return new; end';
  create trigger refuse before insert or update on ruled for each row execute function refuse();

  create table late (
    id integer generated always as identity primary key,
    code text not null unique deferrable initially deferred,
    parent_id integer references late (id) deferrable initially deferred
  );

  create table legacy (
    id integer generated always as identity primary key,
    state text not null, rank integer not null, price numeric(6,2) not null, title text not null,
    day date not null, doc jsonb not null, secret text not null
  );
  insert into legacy (state, rank, price, title, day, doc, secret) values
    ('retired', 12, 1.50, 'much too long a title', '2024-01-01', 'null', '$2b$12$R9h/cIPz0gi.URNNX3kh2OPST9/PgBkqquzi.Ss7KIUgO2t0jWMUW'),
    ('new', 1, 2.00, 'short', '1999-12-31', '{"a":null}', '$2b$12$')`;

const resources: Resource[] = [
  {
    model: 'event',
    columns: { kind: { type: 'text' }, at: { type: 'datetime', null: true } },
    access: 'user',
  },
  {
    model: 'ruled',
    columns: {
      net: { type: 'decimal', default: 10 },
      gross: { type: 'decimal', null: true },
      serial: { type: 'integer', column: 'serial_no' },
      share: { type: 'decimal', default: 50 },
      zip: { type: 'string', null: true },
      code: { type: 'text', default: 'c' },
      part: { type: 'integer', default: 0 },
      low: { type: 'integer', default: 1 },
      high: { type: 'integer', default: 2 },
    },
    access: 'user',
  },
  {
    model: 'late',
    columns: {
      code: { type: 'text', unique: true },
      parent: { type: 'foreignKey', references: 'late', null: true },
    },
    access: 'user',
  },
  {
    model: 'legacy',
    columns: {
      state: { type: 'text', choices: ['new', 'old'] },
      rank: { type: 'integer', min: 1, max: 9 },
      price: { type: 'decimal', choices: [1.5, 2] },
      title: { type: 'text', maxLength: 5 },
      day: { type: 'date', choices: ['2024-01-01'] },
      doc: { type: 'json' },
      secret: { type: 'password' },
    },
    access: 'user',
  },
];

describe('constraints and triggers of an existing database', () => {
  const service: WritableService = useWritable(resources, DDL);

  test('a partitioned table works like any other', async () => {
    const ids: number[] = [];
    for (const kind of ['a', 'b', 'c', 'd']) {
      const posted = await service.send('POST', '/api/event/', { kind, at: '2024-05-31T18:30:00+02:00' });
      assert.equal(posted.status, 201, posted.text);
      assert.equal(posted.json.at, '2024-05-31 16:30:00');
      ids.push(posted.json.id as number);
    }
    for (const id of ids) {
      const path = `/api/event/${id}/`;
      await assertRoundTrip(service, path, 'event');
      await assertFindable(service, 'event', 'id', id, String(id), 'integer');
      const tag = (await service.request(path)).headers.get('etag') ?? '';
      const put = await service.send('PUT', path, { kind: `new ${id}` }, { 'if-match': tag });
      assert.equal(put.status, 200, put.text);
      assert.equal(put.json.kind, `new ${id}`);
      assert.equal((await service.request(path)).headers.get('etag'), put.headers.get('etag'));
      assert.equal((await service.send('PUT', path, { kind: 'lost' }, { 'if-match': tag })).status, 412);
      assert.equal((await service.send('DELETE', path)).status, 200);
      assert.equal((await service.request(path)).status, 404);
    }
  });

  test('generated columns are returned, and ignored in a body', async () => {
    const body = { net: '2.50', gross: 'garbage', serial: null, code: 'computed' };
    const posted = await service.send('POST', '/api/ruled/', body);
    assert.equal(posted.status, 201, posted.text);
    assert.equal(posted.json.gross, '5.00');
    const path = `/api/ruled/${posted.json.id}/`;
    await assertRoundTrip(service, path, 'ruled');
    const put = await service.send('PUT', path, { net: 3, gross: '1', serial: 77 });
    assert.deepEqual(put.json, { ...posted.json, net: '3.00', gross: '6.00' });
    assert.equal((await service.send('POST', '/api/ruled/', { code: 'defaults' })).json.share, '50.00');
  });

  test('the response shows the values that a trigger has set', async () => {
    const posted = await service.send('POST', '/api/ruled/', { code: 'trigger', zip: '' });
    assert.equal(posted.json.zip, null, posted.text);
  });

  test('breaking a constraint is 400 and changes nothing', async () => {
    const { json } = await service.send('POST', '/api/ruled/', { code: 'rules' });
    const before = await rowsOf(service.sql, 'ruled');
    const bodies = [{ share: '100.01' }, { share: -1 }, { zip: 'abc' }, { low: 3 }, { low: 2, high: 1 }, { zip: '99999' }]; // prettier-ignore
    for (const body of bodies) {
      for (const [method, path] of [
        ['POST', '/api/ruled/'],
        ['PUT', `/api/ruled/${json.id}/`],
      ] as const) {
        // prettier-ignore
        const answer = await service.send(method, path, method === 'POST' ? { code: 'z', ...body } : body);
        assert.equal(answer.status, 400, `${method} ${JSON.stringify(body)}: ${answer.text}`);
        assert.doesNotMatch(answer.text, /secret words|ruled|check/);
      }
    }
    assert.deepEqual(await rowsOf(service.sql, 'ruled'), before);
  });

  test('the error names each field that breaks the length, NOT NULL or scale of its type', async () => {
    const { status, json } = await service.send('POST', '/api/ruled/', {
      zip: '123456',
      share: null,
      net: '1.005',
    });
    assert.equal(status, 400);
    assert.deepEqual(Object.keys(json.errors).sort(), ['net', 'share', 'zip']);
  });

  test('a duplicate is 409: a unique constraint on several columns names them, a unique expression does not', async () => {
    assert.equal((await service.send('POST', '/api/ruled/', { code: 'k', part: 1, zip: '1' })).status, 201);
    const both = await service.send('POST', '/api/ruled/', { code: 'k', part: 1 });
    assert.equal(both.status, 409);
    assert.deepEqual(Object.keys(both.json.errors).sort(), ['code', 'part']);
    assert.equal((await service.send('POST', '/api/ruled/', { code: 'k', part: 2, zip: '1' })).status, 409);
  });

  test('breaking a deferred constraint is 409 like any other', async () => {
    const parent = (await service.send('POST', '/api/late/', { code: 'a' })).json.id as number;
    const child = (await service.send('POST', '/api/late/', { code: 'b', parent })).json.id as number;
    const before = await rowsOf(service.sql, 'late');
    const refused = [
      await service.send('POST', '/api/late/', { code: 'a' }),
      await service.send('PUT', `/api/late/${child}/`, { code: 'a' }),
      await service.send('DELETE', `/api/late/${parent}/`),
    ];
    for (const { status, text } of refused) assert.equal(status, 409, text);
    for (const { json } of refused.slice(0, 2)) assert.deepEqual(Object.keys(json.errors), ['code']);
    assert.match(refused[2]?.json.detail, /\blate\b/);
    assert.deepEqual(await rowsOf(service.sql, 'late'), before);
  });

  for (const column of ['state', 'rank', 'price', 'title', 'day', 'doc', 'secret']) {
    test(`a record with a ${column} that breaks a rule of the registry can be sent back unchanged`, async () => {
      for (const path of ['/api/legacy/1/', '/api/legacy/2/']) {
        const { json } = await service.request(path);
        const before = await rowsOf(service.sql, 'legacy');
        const put = await service.send('PUT', path, { [column]: json[column] });
        assert.equal(put.status, 200, put.text);
        assert.deepEqual(await rowsOf(service.sql, 'legacy'), before);
      }
    });
  }

  test('a JSON null is found by the value null, and is not NULL', async () => {
    for (const [query, ids] of [
      ['doc=null', [1]],
      ['doc__is=null', []],
    ] as const) {
      const { json } = await service.request(`/api/legacy/?${query}`);
      assert.deepEqual(json.objects.map(({ id }: { id: number }) => id), ids, query); // prettier-ignore
    }
  });

  test('a new value that breaks a rule of the registry is 400', async () => {
    const { status, json } = await service.send('PUT', '/api/legacy/1/', {
      state: 'lost',
      rank: 13,
      title: 'longer',
      price: 3,
    });
    assert.equal(status, 400);
    assert.deepEqual(Object.keys(json.errors).sort(), ['price', 'rank', 'state', 'title']);
  });
});
