import assert from 'node:assert/strict';
import type { Resource } from '../../src/index.ts';
import { startWith } from '../db/helpers.ts';
import { startService, type TestService } from '../support.ts';
import { resources } from './sample-resources.ts';
import {
  errorsIn,
  fieldsOf,
  hiddenFields,
  logIn,
  type AdminAnswer,
  type Browser,
  type Fields,
} from './support.ts';
import { after, before, describe, test } from 'node:test';

const choices = ['', ' a ', '(none)', 'b,c'];
const sample: Resource = {
  model: 'sample',
  columns: {
    mark: { type: 'string', choices, null: true },
    must: { type: 'string', choices: ['', 'x'] },
    shown: { type: 'string', default: 'as shown', null: true },
    text: { type: 'string', default: 'as shown' },
    empty: { type: 'string', default: '', null: true },
    level: { type: 'integer', default: 3, null: true, max: 10 },
    at: { type: 'datetime', default: 'now', null: true },
    sold: { type: 'boolean', choices: [true, false] },
    seen: { type: 'boolean', choices: [true, false], null: true },
  },
  access: 'user',
};

describe('empty values and defaults in forms', () => {
  let service: TestService;
  let ada: Browser;
  before(async () => {
    service = await startService([...resources, sample]);
    await service.addUser('ada', { admin: true });
    ada = await logIn(service, 'ada');
  });
  after(() => service.close());

  async function add(fields: Fields): Promise<AdminAnswer> {
    const page = await ada.get('/admin/sample/-/add/');
    return ada.post('/admin/sample/-/add/', { ...fieldsOf(page), must: 'x', _save: 'stay', ...fields });
  }
  async function added(fields: Fields): Promise<string> {
    const { status, location, text } = await add(fields);
    assert.equal(status, 303, text);
    return location ?? '';
  }
  async function row(path: string): Promise<Record<string, unknown>> {
    const [found] = await service.sql`select * from sample where id = ${Number(path.split('/')[3])}`;
    return { ...found };
  }

  /** The values of a select field, by their labels. */
  function optionsOf({ text }: AdminAnswer, name: string): Record<string, string> {
    const [, inner = ''] =
      new RegExp(`<select[^>]*name="${name}"[^>]*>([\\s\\S]*?)</select>`).exec(text) ?? [];
    const all = inner.matchAll(/<option value="([^"]*)"[^>]*>([\s\S]*?)<\/option>/g);
    return Object.fromEntries([...all].map(([, value = '', words = '']) => [words.trim(), value]));
  }

  test('a select field offers each choice, the empty text among them, and “no value”', async () => {
    const page = await ada.get('/admin/sample/-/add/');
    const options = optionsOf(page, 'mark');
    assert.equal(Object.keys(options).length, choices.length + 1);
    for (const [words, value, stored] of [
      ['empty text', '', ''],
      ['a', ' a ', ' a '],
      ['(none)', '(none)', '(none)'],
      ['no value', options['no value'], null],
    ] as const) {
      assert.equal(options[words], value);
      const path = await added({ mark: value ?? '' });
      assert.equal((await row(path))['mark'], stored);
    }
  });

  for (const stored of ['', ' a ', 'older than the rule', null]) {
    test(`a record that holds ${JSON.stringify(stored)} keeps it when another column is changed`, async () => {
      const [made] =
        await service.sql`insert into sample (mark, must, sold) values (${stored}, 'x', false) returning id`;
      const path = `/admin/sample/${made?.['id']}/`;
      const fields = fieldsOf(await ada.get(path));
      assert.equal((await ada.post(path, { ...fields, shown: 'other' })).status, 303);
      assert.deepEqual([(await row(path))['mark'], (await row(path))['shown']], [stored, 'other']);
    });
  }

  test('the empty text is a valid choice of a required column', async () => {
    const path = await added({ must: '' });
    assert.equal((await ada.post(path, { ...fieldsOf(await ada.get(path)), shown: 'other' })).status, 303);
    assert.equal((await row(path))['must'], '');
    const none = optionsOf(await ada.get('/admin/sample/-/add/'), 'must')['–'] ?? '';
    assert.match((await add({ must: none })).text, /id="field-must-error"/);
  });

  test('a bulk action can set the empty text and no value', async () => {
    const id = (await added({ mark: ' a ' })).split('/')[3] ?? '';
    const { 'no value': none = '' } = optionsOf(await ada.get('/admin/sample/-/add/'), 'mark');
    for (const [sent, expected] of [
      ['', ''],
      [none, null],
    ] as const) {
      const bulk = '/admin/sample/-/bulk/';
      const fields = { _state: '', _action: 'set', _id: id, _column: 'mark', _value: '1', mark: sent };
      const confirmation = await ada.post(bulk, fields);
      const done = await ada.post(bulk, { ...hiddenFields(confirmation, 'record'), _confirm: '1' });
      assert.equal(done.status, 303, done.text);
      assert.equal((await row(`/admin/sample/${id}/`))['mark'], expected);
    }
  });

  test('a bulk action preselects no choice, and offers the empty text only if it is one', async () => {
    const id = (await added({})).split('/')[3] ?? '';
    const [thing] = await service.sql`insert into thing (name) values ('Chosen') returning id`;
    for (const [model, column, _id, offered] of [
      ['thing', 'colour', String(thing?.['id']), ['–', 'red', 'green', 'blue']],
      ['sample', 'must', id, ['–', 'empty text', 'x']],
      ['sample', 'mark', id, ['no value', 'empty text', 'a', '(none)', 'b,c']],
    ] as const) {
      const bulk = `/admin/${model}/-/bulk/`;
      const page = await ada.post(bulk, { _state: '', _action: 'set', _id, _column: column });
      assert.deepEqual(Object.keys(optionsOf(page, column)), offered);
      const fields = fieldsOf(page);
      assert.equal(fields[column], optionsOf(page, column)[offered[0]]);
      const next = await ada.post(bulk, { ...fields, _value: '1' });
      const isNullable = column === 'mark';
      assert.equal(next.status, isNullable ? 200 : 400, next.text);
      if (isNullable) continue;
      assert.match(errorsIn(next)[column] ?? '', /is required/i);
      assert.equal(fieldsOf(next)[column], fields[column]);
    }
  });

  test('a boolean with choices is stored as ticked, in a record and by a bulk action', async () => {
    const path = await added({});
    const kept = await ada.post(path, { ...fieldsOf(await ada.get(path)), shown: 'other' });
    assert.equal(kept.status, 303, kept.text);
    const saved = async (): Promise<unknown[]> => {
      const { sold, seen, shown } = await row(path);
      return [sold, seen, shown];
    };
    assert.deepEqual(await saved(), [false, null, 'other']);
    await ada.post(path, { ...fieldsOf(await ada.get(path)), sold: 'true', seen: 'false' });
    assert.deepEqual(await saved(), [true, false, 'other']);
    const id = path.split('/')[3] ?? '';
    const bulk = '/admin/sample/-/bulk/';
    const fields = { _state: '', _action: 'set', _id: id, _column: 'sold', _value: '1' };
    const confirmation = await ada.post(bulk, fields);
    const done = await ada.post(bulk, { ...hiddenFields(confirmation, 'record'), _confirm: '1' });
    assert.equal(done.status, 303, done.text);
    assert.deepEqual(await saved(), [false, false, 'other']);
  });

  test('a default that was cleared in the form is not stored', async () => {
    const page = fieldsOf(await ada.get('/admin/sample/-/add/'));
    assert.deepEqual(
      [page['shown'], page['text'], page['level'], page['at']],
      ['as shown', 'as shown', '3', ''],
    );
    const { shown, text, level, at } = await row(await added({ shown: '', text: '', level: '' }));
    assert.deepEqual([shown, text, level], [null, '', null]);
    assert.ok(at instanceof Date, 'a default of the database is stored');
    const path = await added({ shown: '', shown__null: [] });
    assert.equal((await row(path))['shown'], '');
  });

  test('a default of the empty text is stored by an unchanged form', async () => {
    const path = await added({});
    assert.equal((await row(path))['empty'], '');
    assert.equal((await row(await added({ empty: '', empty__null: '1' })))['empty'], null);
  });

  test('a stored number above the maximum does not prevent a save', async () => {
    const [made] =
      await service.sql`insert into sample (must, level, sold) values ('x', 99, false) returning id`;
    const control = async (path: string): Promise<string> =>
      /<input[^>]*name="level"[^>]*>/.exec((await ada.get(path)).text)?.[0] ?? '';
    assert.doesNotMatch(await control(`/admin/sample/${made?.['id']}/`), /max=/);
    assert.match(await control('/admin/sample/-/add/'), /max="10"/);
  });

  test('a cleared text is stored as NULL', async () => {
    const [made] =
      await service.sql`insert into thing (name, note) values ('Cleared', 'before') returning id`;
    const address = `/admin/thing/${made?.['id']}/`;
    const fields = fieldsOf(await ada.get(address));
    await ada.post(address, { ...fields, note: '' });
    const [cleared] = await service.sql`select note from thing where name = 'Cleared'`;
    assert.equal(cleared?.['note'], null);
  });
});

test('a row of a view with NULL in columns without null: true can be saved, and its export imported', async () => {
  const shown = {
    model: 'shown',
    primaryKey: { type: 'integer', column: 'id' },
    columns: {
      a: { type: 'text' },
      b: { type: 'integer' },
      c: { type: 'integer' },
      at: { type: 'datetime' },
    },
    methods: ['GET', 'PUT'],
    access: 'admin',
  } as const satisfies Resource;
  const service = await startWith(
    [shown],
    `create table base (id integer primary key, a text, b integer, c integer, at timestamp);
    insert into base (id, b) values (1, 1), (2, 2); create view shown as select * from base`,
  );
  try {
    const ada = await logIn(service, 'ada');
    const saved = await ada.post('/admin/shown/1/', {
      ...fieldsOf(await ada.get('/admin/shown/1/')),
      b: '7',
    });
    assert.equal(saved.status, 303, saved.text);
    const stored = async () => [...(await service.sql`select id, a, b, c, at from base order by id`)];
    const expected = [7, 2].map((b, index) => ({ id: index + 1, a: null, b, c: null, at: null }));
    assert.deepEqual(await stored(), expected);
    const { text } = await ada.get('/admin/shown/-/export.csv');
    const preview = await ada.post('/admin/shown/-/import/', {
      _text: text.replace('\r\n2,,2,', '\r\n2,,3,'),
    });
    assert.equal((await ada.post('/admin/shown/-/import/', hiddenFields(preview, 'record'))).status, 303, preview.text); // prettier-ignore
    assert.deepEqual(await stored(), [expected[0], { ...expected[1], b: 3 }]);
    const cleared = await ada.post('/admin/shown/1/', {
      ...fieldsOf(await ada.get('/admin/shown/1/')),
      b: '',
    });
    assert.deepEqual([cleared.status, Object.keys(errorsIn(cleared))], [400, ['b']]);
  } finally {
    await service.close();
  }
});
