// A second click, or a reload that sends a form again, has no second effect.
import assert from 'node:assert/strict';
import type { Resource } from '../../src/index.ts';
import shipped from '../../src/resources/registry.ts';
import { startService, type TestService } from '../support.ts';
import { eventually } from '../http/expect.ts';
import { fieldsOf, hiddenFields, logIn, readable, type Browser } from './support.ts';
import { after, before, describe, test } from 'node:test';

const genre: Resource = {
  model: 'genre',
  columns: { name: { type: 'string' }, rank: { type: 'integer', null: true, max: 9 } },
  access: 'user',
  admin: { title: 'Genres', label: '{name}' },
};

/** Values that PostgreSQL outputs in another form than a browser sends them. */
const priced: Resource = {
  model: 'priced',
  columns: {
    price: { type: 'decimal', precision: 6, scale: 2, null: true },
    extra: { type: 'json', null: true },
    code: { type: 'uuid', null: true },
    note: { type: 'string', null: true },
  },
  access: 'user',
};

describe('a form that is submitted twice', () => {
  let service: TestService;
  let ada: Browser;
  const add = '/admin/genre/-/add/';
  before(async () => {
    service = await startService([...shipped, genre, priced]);
    await service.addUser('ada', { admin: true });
    ada = await logIn(service, 'ada');
  });
  after(() => service.close());

  async function countOf(name: string): Promise<number> {
    const [row] = await service.sql`select count(*)::int as count from genre where name = ${name}`;
    return Number(row?.['count']);
  }

  for (const [how, send] of [
    ['sequentially', async (submit: () => Promise<unknown>) => [await submit(), await submit()]],
    ['concurrently', (submit: () => Promise<unknown>) => Promise.all([submit(), submit(), submit()])],
  ] as const) {
    test(`adds one record when it is sent ${how}`, async () => {
      const fields = { ...fieldsOf(await ada.get(add)), name: how, _save: 'stay' };
      const locations: (string | undefined)[] = [];
      await send(async () => {
        const answer = await ada.post(add, fields);
        assert.equal(answer.status, 303, answer.text);
        locations.push(answer.location);
      });
      assert.equal(await countOf(how), 1);
      assert.equal(new Set(locations).size, 1);
    });
  }

  test('is reported by the message on the next page', async () => {
    const fields = { ...fieldsOf(await ada.get(add)), name: 'Told' };
    assert.match((await ada.follow(await ada.post(add, fields))).text, /“Told” was added\./);
    assert.match(
      (await ada.follow(await ada.post(add, fields))).text,
      /“Told” was added once\. The form was sent twice\./,
    );
  });

  test('adds another record when its values differ', async () => {
    const fields = fieldsOf(await ada.get(add));
    for (const name of ['First', 'Second'])
      assert.equal((await ada.post(add, { ...fields, name })).status, 303);
    assert.deepEqual([await countOf('First'), await countOf('Second')], [1, 1]);
  });

  test('can be sent again after a validation error', async () => {
    const fields = { ...fieldsOf(await ada.get(add)), name: 'Mended' };
    for (const [rank, status] of [
      ['10', 400],
      ['10', 400],
      ['9', 303],
    ] as const)
      assert.equal((await ada.post(add, { ...fields, rank })).status, status);
    assert.equal(await countOf('Mended'), 1);
  });

  test('adds one copy with “Save as new”', async () => {
    const [row] = await service.sql`insert into genre (name) values ('Copied') returning id`;
    const path = `/admin/genre/${row?.['id']}/`;
    const fields = { ...fieldsOf(await ada.get(path)), _save: 'new' };
    for (let times = 0; times < 2; times += 1) assert.equal((await ada.post(path, fields)).status, 303);
    assert.equal(await countOf('Copied'), 2);
  });

  test('imports a file once', async () => {
    const path = '/admin/genre/-/import/';
    const upload = new FormData();
    upload.append('_text', 'name\nImported\n');
    const page = await ada.upload(path, upload);
    assert.match(readable(page), /1 row: 1 new/);
    const send = (): ReturnType<Browser['upload']> => {
      const form = new FormData();
      for (const [name, values] of Object.entries(hiddenFields(page, 'record')))
        for (const value of values) form.append(name, value);
      return ada.upload(path, form);
    };
    const answers = await Promise.all([send(), send()]);
    assert.deepEqual(
      answers.map(({ status }) => status),
      [303, 303],
    );
    assert.match((await ada.follow(await send())).text, /The file was submitted twice and imported once\./);
    assert.equal(await countOf('Imported'), 1);
  });

  test('saves the same change twice without a conflict, and reports another change as one', async () => {
    const [row] = await service.sql`insert into genre (name, rank) values ('Twice', 5) returning id`;
    const path = `/admin/genre/${row?.['id']}/`;
    const fields = { ...fieldsOf(await ada.get(path)), rank: '6' };
    for (let times = 0; times < 2; times += 1) assert.equal((await ada.post(path, fields)).status, 303);
    assert.equal((await ada.post(path, { ...fields, rank: '7' })).status, 409);
  });

  for (const [column, typed] of [
    ['price', '7'],
    ['price', ''],
    ['extra', '{"a":1}'],
    ['code', 'A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11'],
  ] as const)
    test(`saves ${column} as ${JSON.stringify(typed)} twice without a conflict`, async () => {
      const [row] = await service.sql`insert into priced (price, note) values (5, 'one') returning id`;
      const id = Number(row?.['id']);
      const path = `/admin/priced/${id}/`;
      const fields = { ...fieldsOf(await ada.get(path)), [column]: typed };
      for (let times = 0; times < 2; times += 1) {
        const answer = await ada.post(path, fields);
        assert.equal(answer.status, 303, readable(answer));
        assert.match((await ada.follow(answer)).text, /was changed\./);
      }
      await service.sql`update priced set note = 'two' where id = ${id}`;
      assert.equal((await ada.post(path, fields)).status, 409);
    });

  test('is a conflict if another user has changed the value since', async () => {
    const [row] = await service.sql`insert into priced (price) values (5) returning id`;
    const id = Number(row?.['id']);
    const path = `/admin/priced/${id}/`;
    const fields = { ...fieldsOf(await ada.get(path)), price: '7' };
    assert.equal((await ada.post(path, fields)).status, 303);
    for (const other of ['7.01', null]) {
      await service.sql`update priced set price = ${other} where id = ${id}`;
      assert.equal((await ada.post(path, fields)).status, 409);
    }
    assert.equal((await ada.post(path, { ...fields, price: '99999999' })).status, 409);
  });

  test('saves the same change twice at the same time without a conflict', async () => {
    const [row] = await service.sql`insert into priced (price, note) values (5, 'one') returning id`;
    const id = Number(row?.['id']);
    const path = `/admin/priced/${id}/`;
    const fields = { ...fieldsOf(await ada.get(path)), price: '7', note: 'two' };
    const { sent } = await service.sql.begin(async (transaction) => {
      await transaction`select from priced where id = ${id} for update`;
      const answers = [ada.post(path, fields), ada.post(path, fields)];
      await eventually(async () => {
        const waiting = await service.sql`
          select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`;
        return waiting.count === 1;
      }, 'a save that waits, and the other one behind it');
      return { sent: answers };
    });
    const answers = await Promise.all(sent);
    assert.deepEqual(
      answers.map(({ status }) => status),
      [303, 303],
    );
    const log =
      await service.sql`select from vitrine_history where model = 'priced' and record = ${String(id)}`;
    assert.equal(log.length, 1);
  });
});
