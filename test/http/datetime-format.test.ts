// Dates with a time as ISO 8601 (`DATETIME_FORMAT=iso`).
import assert from 'node:assert/strict';
import type { Resource } from '../../src/index.ts';
import { user } from '../../src/resources/registry.ts';
import { logIn } from '../admin/support.ts';
import { request, startService, type TestService } from '../support.ts';
import { jsonLinesOf } from './expect.ts';
import { after, before, describe, test } from 'node:test';

const event: Resource = {
  model: 'event',
  columns: {
    title: { type: 'string' },
    at: { type: 'datetime', null: true },
    day: { type: 'date', null: true },
  },
  access: 'user',
};

const visit: Resource = {
  model: 'visit',
  primaryKey: { columns: ['room', 'at'] },
  columns: { room: { type: 'integer' }, at: { type: 'datetime' } },
  access: 'user',
};

describe('dates with a time in ISO 8601', () => {
  let service: TestService;
  before(async () => {
    service = await startService([user, event, visit], {
      datetimeFormat: 'iso',
      prepare: (sql) => sql`create table event (id integer generated always as identity primary key,
        title varchar(255) not null, at timestamptz, day date)`,
    });
    await service.addUser('ada', { admin: true });
    for (const at of [
      '2026-01-15 09:30:00.75+00',
      '2026-01-15 12:00:00+02',
      'infinity',
      '0044-03-15 12:00:00+00 BC',
      null,
    ])
      await service.sql`insert into event (title, at, day) values ('x', ${at}::text::timestamptz, '2026-01-15')`;
  });
  after(() => service.close());

  const EXPECTED = [
    '2026-01-15T09:30:00Z',
    '2026-01-15T10:00:00Z',
    'infinity',
    '0044-03-15 12:00:00 BC',
    null,
  ];

  test('are output by pages, records, CSV and streams', async () => {
    const { json } = await service.request('/api/event/');
    assert.deepEqual(
      json.objects.map(({ at }: { at: string }) => at),
      EXPECTED,
    );
    assert.equal(json.objects[0].day, '2026-01-15');
    assert.equal((await service.request('/api/event/1/')).json.at, EXPECTED[0]);
    const csv = await service.request('/api/event/', { headers: { accept: 'text/csv' } });
    assert.equal(csv.text.split('\r\n')[1], '1,"x",2026-01-15T09:30:00Z,2026-01-15');
    const stream = await service.request('/api/event/', { headers: { accept: 'application/x-ndjson' } });
    assert.deepEqual(
      jsonLinesOf(stream.text).map((line) => (line as { at: string }).at),
      EXPECTED,
    );
    const page = await service.request('/api/event/1/', { headers: { accept: 'text/html' } });
    assert.match(page.text, /2026-01-15T09:30:00Z/);
  });

  test('can be sent back unchanged, keep their fractions, and find their record', async () => {
    for (const [index, at] of EXPECTED.entries()) {
      const path = `/api/event/${index + 1}/`;
      const before = await service.request(path);
      const same = await service.request(path, { method: 'PUT', user: 'ada', body: before.json });
      assert.deepEqual([same.status, same.json], [200, before.json], same.text);
      assert.equal(same.headers.get('etag'), before.headers.get('etag'));
      const filter = at === null ? 'at__is=null' : `at=${encodeURIComponent(at)}`;
      const { json } = await service.request(`/api/event/?${filter}`);
      assert.deepEqual(
        json.objects.map(({ id }: { id: number }) => id),
        [index + 1],
      );
    }
    const [row] = await service.sql`select at::text like '%09:30:00.75%' as kept from event where id = 1`;
    assert.equal(row?.['kept'], true);
  });

  test('are output by writes, and the history and the admin area keep the other form', async () => {
    const body = { title: 'new', at: '2026-02-01T08:00:00+02:00' };
    const { json } = await service.request('/api/event/', { method: 'POST', user: 'ada', body });
    assert.equal(json.at, '2026-02-01T06:00:00Z');
    const changed = await service.request(`/api/event/${json.id}/`, {
      method: 'PUT',
      user: 'ada',
      body: { at: '2026-02-02 06:00:00' },
    });
    assert.equal(changed.json.at, '2026-02-02T06:00:00Z');
    const [entry] =
      await service.sql`select after from vitrine_history where action = 'create' and record = ${String(json.id)}`;
    assert.match(String(entry?.['after']), /"at":"2026-02-01 06:00:00"/);
    const browser = await logIn(service, 'ada');
    assert.match((await browser.get(`/admin/event/${json.id}/`)).text, /value="2026-02-02T06:00:00"/);
  });

  test('do not change a key, which is found in both forms', async () => {
    const body = { room: 3, at: '2026-01-15T09:30:00Z' };
    const made = await service.request('/api/visit/', { method: 'POST', user: 'ada', body });
    assert.deepEqual(made.json, { id: '3,2026-01-15%2009%3A30%3A00', ...body });
    for (const at of ['2026-01-15T09:30:00Z', '2026-01-15 09:30:00', '2026-01-15T11:30:00+02:00']) {
      const id = `3,${encodeURIComponent(at)}`;
      assert.deepEqual((await service.request(`/api/visit/${id}/`)).json, made.json, at);
      const { json } = await service.request(`/api/visit/?id=${encodeURIComponent(id)}`);
      assert.deepEqual(json.objects, [made.json], at);
    }
    const same = await service.request(made.headers.get('location') ?? '', {
      method: 'PUT',
      user: 'ada',
      body: made.json,
    });
    assert.deepEqual([same.status, same.json], [200, made.json]);
  });

  test('have another ETag than in the other form', async () => {
    const plain = await startService([user, event], { databaseUrl: service.url });
    const [one, other] = [await service.request('/api/event/1/'), await request(plain.base, '/api/event/1/')];
    assert.notEqual(one.headers.get('etag'), other.headers.get('etag'));
    await plain.close();
  });

  test('are described in the OpenAPI document', async () => {
    const { json } = await service.request('/api/openapi.json', { user: 'ada' });
    assert.equal(json.components.schemas.event.properties.at.format, 'date-time');
  });
});
