// The admin area shows and takes date-times in a time zone. The database and the API stay in UTC.
import assert from 'node:assert/strict';
import fc from 'fast-check';
import { describe, test } from 'node:test';
import type { Resource } from '../../src/index.ts';
import { users } from '../db/helpers.ts';
import { pluck, startBeside, startService, type Sql } from '../support.ts';
import {
  confirmImport,
  errorsIn,
  fieldsOf,
  logIn,
  readable,
  runBulk,
  save,
  uploadFile,
  useAdmin,
} from './support.ts';

const event = {
  model: 'event',
  columns: {
    name: { type: 'string', default: 'x' },
    at: { type: 'datetime', null: true },
    day: { type: 'date', null: true },
    late: { type: 'datetime', null: true, min: '2024-01-01' },
  },
  access: 'user',
  admin: { list: ['id', 'name', 'at'], filters: ['at', 'day'], dates: 'at' },
} as const;

describe('TIME_ZONE=Europe/Zurich', () => {
  const { service, ada } = useAdmin([users, event], { timeZone: 'Europe/Zurich' });
  const insert = async (at: string): Promise<string> => {
    const [row] = await service.sql`insert into event (at) values (${at}::text::timestamp) returning id`;
    return `/admin/event/${row?.['id']}/`;
  };
  const stored = async (path: string): Promise<unknown> => {
    const [row] = await service.sql`select at::text from event where id = ${path.split('/').at(-2) ?? ''}`;
    return row?.['at'];
  };
  const add = (at: string) => ada.post('/admin/event/-/add/', { name: 'new', at });
  const newest = async (): Promise<unknown> =>
    (await service.sql`select at::text from event order by id desc limit 1`)[0]?.['at'];
  const inputOf = (text: string, name: string): string =>
    new RegExp(`<input[^>]*name="${name}"[^>]*>`).exec(text)?.[0] ?? '';

  for (const [typed, utc] of [
    ['2024-05-31T10:00', '2024-05-31 08:00:00'],
    ['2024-01-15 10:00:30', '2024-01-15 09:00:30'],
    ['2024-03-31 01:59:59', '2024-03-31 00:59:59'],
    ['2024-03-31 03:00:00', '2024-03-31 01:00:00'],
    ['2024-10-27 01:59:59', '2024-10-26 23:59:59'],
    ['2024-10-27 03:00:00', '2024-10-27 02:00:00'],
    ['2024-10-27 02:30:00+02:00', '2024-10-27 00:30:00'],
    ['2024-10-27 02:30:00+01:00', '2024-10-27 01:30:00'],
    ['2024-05-31 10:00:00Z', '2024-05-31 10:00:00'],
  ] as const)
    test(`${typed} is stored as ${utc}, and shown as typed`, async () => {
      assert.equal((await add(typed)).status, 303);
      assert.equal(await newest(), utc);
      const { json } = await service.request('/api/event/?ordering=-id&limit=1');
      assert.equal(json.objects[0].at, utc);
    });

  test('a time that occurs twice or not at all is an error of the field that offers both', async () => {
    for (const [typed, why, first, second] of [
      [
        '2024-10-27T02:30',
        'Occurs twice in Europe/Zurich',
        '2024-10-27 02:30:00+01:00',
        '2024-10-27 02:30:00+02:00',
      ],
      [
        '2024-03-31T02:30',
        'Does not occur in Europe/Zurich',
        '2024-03-31 01:30:00+01:00',
        '2024-03-31 03:30:00+02:00',
      ],
    ] as const) {
      const refused = await add(typed);
      assert.equal(refused.status, 400);
      const error = errorsIn(refused)['at'] ?? '';
      assert.ok(error.startsWith(why), error);
      assert.ok(error.endsWith(`enter ${first} or ${second}.`), error);
      assert.match(inputOf(refused.text, 'at'), /type="text"[^>]*value="2024-\d\d-\d\d 02:30"/);
      for (const meant of [first, second]) assert.equal((await add(meant)).status, 303);
    }
  });

  test('saving another field keeps the time, also an ambiguous one and one of another program', async () => {
    for (const at of [
      '2024-10-27 00:30:00',
      '2024-10-27 01:30:00',
      '2024-07-01 12:00:00',
      '0001-01-01 00:00:00',
      'infinity',
    ]) {
      const path = await insert(at);
      assert.equal((await save(ada, path, { name: 'other' })).status, 303);
      assert.equal(await stored(path), at);
    }
    const page = await ada.get(await insert('2024-10-27 00:30:00'));
    assert.equal(fieldsOf(page)['at'], '2024-10-27 02:30:00+02:00');
    assert.match(page.text, /In Europe\/Zurich\./);
    assert.match(inputOf(page.text, 'late'), /min="2024-01-01T01:00:00"/);
  });

  test('any stored time is shown so that typing what is shown gives it back', async () => {
    const path = await insert('2024-01-01 00:00:00');
    await fc.assert(
      fc.asyncProperty(
        fc.oneof(
          fc.date({ min: new Date('1971-01-01'), max: new Date('2037-01-01'), noInvalidDate: true }),
          fc.integer({ min: 0, max: 7200 }).map((s) => new Date(Date.UTC(2024, 9, 27, 0, 0, s))),
          fc.integer({ min: 0, max: 7200 }).map((s) => new Date(Date.UTC(2024, 2, 31, 0, 0, s))),
        ),
        async (date) => {
          const at = date.toISOString().slice(0, 19).replace('T', ' ');
          await service.sql`update event set at = ${at}::text::timestamp where id = ${path.split('/').at(-2) ?? ''}`;
          const shown = fieldsOf(await ada.get(path))['at'] ?? '';
          assert.equal((await add(shown)).status, 303);
          assert.equal(await newest(), at);
        },
      ),
      { numRuns: 40 },
    );
  });

  test('lists, the history and bulk changes show it with the offset', async () => {
    await service.sql`delete from event`;
    const path = await insert('2024-10-27 01:30:00');
    assert.match((await ada.get('/admin/event/')).text, />2024-10-27 02:30:00 \+01:00<\/time>/);
    assert.match(readable(await ada.get('/admin/event/')), /Times are in Europe\/Zurich\./);
    const id = path.split('/').at(-2) ?? '';
    const done = await runBulk(ada, 'event', {
      _action: 'set',
      _id: id,
      _column: 'at',
      at: '2024-07-01T12:00',
    });
    assert.equal(done.status, 303, done.text);
    assert.equal(await stored(path), '2024-07-01 10:00:00');
    assert.match((await ada.get(`${path}history/`)).text, /2024-07-01 12:00:00 \+02:00/);
    assert.doesNotMatch((await ada.get(`${path}history/`)).text, / UTC/);
  });

  test('filters by day and time follow the zone, and show what was typed', async () => {
    const apply = (fields: Record<string, string>) =>
      ada.get(`/admin/event/-/filter/?${String(new URLSearchParams(fields))}`);
    const query = async (fields: Record<string, string>): Promise<string> =>
      decodeURIComponent((await apply(fields)).location ?? '')
        .replace(/^.*\?/, '')
        .replaceAll('+', ' ');
    const compared = (how: string, value: string) => ({ _path: 'at', _how: how, _value: value });
    const days = await query({ '_from.at': '2024-10-27', '_to.at': '2024-10-27' });
    assert.equal(days, 'at__gte=2024-10-26 22:00:00&at__lt=2024-10-27 23:00:00');
    assert.equal(await query(compared('gte', '2024-05-31')), 'at__gte=2024-05-30 22:00:00');
    assert.equal(await query(compared('lt', '2024-05-31 10:00')), 'at__lt=2024-05-31 08:00:00');
    assert.equal(await query({ '_from.day': '2024-05-31' }), 'day__gte=2024-05-31');
    const refused = await ada.follow(await apply({ ...compared('gte', '2024-10-27 02:30'), _panel: '1' }));
    assert.match(refused.text, /2024-10-27 02:30 occurs twice/);
    assert.match(refused.text, /name="_value"[^>]*value="2024-10-27 02:30"/);
    const list = await ada.get(`/admin/event/?${days}`);
    assert.match(list.text, /name="_from.at" value="2024-10-27"/);
    assert.match(list.text, /name="_to.at" value="2024-10-27"/);
    assert.match((await ada.get('/admin/event/?at__gt=2024-05-31+08:00:00')).text, /“2024-05-31 10:00:00”/);
  });
});

describe('the time zone of a browser', () => {
  const { service, ada } = useAdmin([users, event]);

  // The clocks are set forward over midnight, and Apia skipped a day.
  for (const [zone, day, first, next] of [
    ['America/Santiago', '2026-09-06', '2026-09-06 04:00:00', '2026-09-07 03:00:00'],
    ['America/Santiago', '2026-09-05', '2026-09-05 04:00:00', '2026-09-06 04:00:00'],
    ['America/Sao_Paulo', '2018-11-04', '2018-11-04 03:00:00', '2018-11-05 02:00:00'],
    ['Asia/Beirut', '2022-03-27', '2022-03-26 22:00:00', '2022-03-27 21:00:00'],
    ['Africa/Cairo', '2023-04-28', '2023-04-27 22:00:00', '2023-04-28 21:00:00'],
    ['America/Toronto', '1919-03-31', '1919-03-31 04:30:00', '1919-04-01 04:00:00'],
    ['Pacific/Apia', '2011-12-30', '2011-12-30 10:00:00', '2011-12-30 10:00:00'],
    ['Pacific/Apia', '2011-12-29', '2011-12-29 10:00:00', '2011-12-30 10:00:00'],
  ] as const)
    test(`takes ${day} in ${zone} from its first moment to that of the next day`, async () => {
      await ada.get('/admin/-/account/');
      await ada.post('/admin/-/display/', { zone });
      const sent = new URLSearchParams({ '_from.at': day, '_to.at': day });
      const { location = '' } = await ada.get(`/admin/event/-/filter/?${sent.toString()}`);
      assert.deepEqual([...new URL(location, 'http://localhost').searchParams], [['at__gte', first], ['at__lt', next]]); // prettier-ignore
      if (first !== next)
        assert.match((await ada.get(location)).text, new RegExp(`name="_from.at" value="${day}"`));
      await ada.post('/admin/-/display/', { zone: 'UTC' });
    });

  test('is UTC without TIME_ZONE, and nothing is written beside the times', async () => {
    await service.sql`insert into event (at) values ('2024-05-31 08:00:00')`;
    assert.match((await ada.get('/admin/event/')).text, />2024-05-31 08:00:00<\/time>/);
    assert.match((await ada.get('/admin/event/1/')).text, /In UTC\./);
  });

  test('is chosen on the account page, and kept in a cookie', async () => {
    await ada.get('/admin/-/account/');
    const done = await ada.post('/admin/-/display/', { zone: 'America/St_Johns' });
    assert.equal(done.status, 303);
    assert.match((await ada.get('/admin/event/')).text, />2024-05-31 05:30:00 -02:30<\/time>/);
    assert.match((await ada.get('/admin/-/account/')).text, /<option[^>]* selected[^>]*>America\/St_Johns</);
    await ada.post('/admin/-/display/', { zone: 'UTC' });
    assert.match((await ada.get('/admin/event/')).text, />2024-05-31 08:00:00<\/time>/);
  });

  test('must be the name of one; a cookie with anything else has no effect', async () => {
    await ada.get('/admin/-/account/');
    assert.equal((await ada.post('/admin/-/display/', { zone: '+02:00' })).status, 400);
    ada.cookies.set('admin-zone', 'Mars/Olympus');
    assert.match((await ada.get('/admin/event/')).text, />2024-05-31 08:00:00<\/time>/);
    ada.cookies.delete('admin-zone');
  });
});

describe("default: 'now' of a date", () => {
  const dated = { day: { type: 'date', default: 'now' }, name: { type: 'string', default: 'x' } } as const;
  const resources: Resource[] = [
    users,
    { model: 'fresh', columns: dated, access: 'user' },
    { model: 'older', columns: dated, access: 'user', readonly: ['day'] },
  ];
  const dayIn = (timeZone: string): string => new Intl.DateTimeFormat('sv', { timeZone }).format(Date.now());

  // Each two of these have different days at every moment, or are UTC.
  for (const [zone, next] of [
    ['Pacific/Kiritimati', 'Pacific/Pago_Pago'],
    ['Pacific/Pago_Pago', 'Pacific/Kiritimati'],
    ['UTC', 'Pacific/Kiritimati'],
    ['Pacific/Pago_Pago', 'UTC'],
  ] as const)
    test(`is the day in TIME_ZONE=${zone} at every door, and then in ${next}`, async (t) => {
      const tables =
        'create table older (id serial primary key, day date not null default current_date, name text not null default 1)';
      const prepare = (sql: Sql): Promise<unknown> => sql.unsafe(tables);
      const first = await startService(resources, { timeZone: zone, prepare });
      t.after(() => first.close());
      await first.addUser('ada', { admin: true });
      await first.sql`insert into fresh default values`;
      assert.deepEqual(pluck(await first.sql`select day::text from fresh`, 'day'), [dayIn(zone)]);
      const second = await startBeside(first.url, resources, { timeZone: next, schema: 'check' });
      t.after(() => second.close());
      for (const [service, timeZone] of [
        [first, zone],
        [second, next],
      ] as const) {
        await first.sql`delete from fresh`;
        const ada = await logIn(service, 'ada');
        for (const model of ['fresh', 'older']) {
          const send = (body: unknown) =>
            service.request(`/api/${model}/`, { method: 'POST', user: 'ada', body });
          assert.equal((await send({ name: 'one' })).json.day, dayIn(timeZone), model);
          assert.equal((await send([{ name: 'many' }, {}])).status, 201);
        }
        assert.equal(
          (
            await service.request('/api/fresh/', {
              method: 'POST',
              user: 'ada',
              body: { day: '2020-02-03', name: 'given' },
            })
          ).json.day,
          '2020-02-03',
        );
        const add = '/admin/fresh/-/add/';
        const form = await ada.get(add);
        assert.match(readable(form), /If left empty: now/);
        assert.equal((await ada.post(add, { ...fieldsOf(form), name: 'form' })).status, 303);
        const path = '/admin/fresh/-/import/';
        const preview = await uploadFile(ada, path, 'name\nfile\n');
        assert.equal((await confirmImport(ada, path, preview)).status, 303);
        const rows = await first.sql`select day::text, name from fresh where name <> 'given'`;
        assert.deepEqual(
          rows.map(({ day }) => String(day)),
          Array(5).fill(dayIn(timeZone)),
          timeZone,
        );
      }
    });
});
