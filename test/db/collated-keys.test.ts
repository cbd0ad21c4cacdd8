// Keys that are made of columns whose collation treats some different texts as equal.
import assert from 'node:assert/strict';
import type { Resource } from '../../src/index.ts';
import { hiddenFields, logIn, readable, type Browser } from '../admin/support.ts';
import { assertRoundTrip, startWith, type WritableService } from './helpers.ts';
import { after, before, describe, test } from 'node:test';

const DDL = `
  create collation loose (provider = icu, locale = 'und-u-ks-level2', deterministic = false);
  create extension citext;
  create domain loose_text as varchar collate loose;
  create table pair (a text collate loose, b citext, c loose_text, v integer, primary key (a, b, c));
  create table lone (a text collate loose primary key, v integer);
  create table pair_use (id integer generated always as identity primary key, a text collate loose, b citext, c loose_text,
    foreign key (a, b, c) references pair)`;

const text = { type: 'text' } as const;
const v = { type: 'integer', null: true } as const;
const columns = { a: text, b: text, c: { type: 'string' }, v } as const;
const RESOURCES: Resource[] = [
  { model: 'pair', primaryKey: { columns: ['a', 'b', 'c'] }, columns, access: 'user' },
  { model: 'lone', primaryKey: { columns: ['a'] }, columns: { a: text, v }, access: 'user' },
  {
    model: 'pair_use',
    columns: { a: { ...text, null: true }, b: { ...text, null: true }, c: { type: 'string', null: true } },
    foreignKeys: { pair: { columns: ['a', 'b', 'c'], references: 'pair' } },
    access: 'user',
  },
];

describe('a key with a nondeterministic collation', () => {
  let service: WritableService;
  let ada: Browser;
  before(async () => {
    service = await startWith(RESOURCES, DDL);
    ada = await logIn(service, 'ada');
    await service.sql.unsafe(`
      insert into pair values ('Größe, 1', 'Bee', 'x/y', 1), ('two', 'b', 'c', 2), ('Zwei', 'b', '50%', 3);
      insert into lone values ('Größe, 1', 1), ('two', 2);
      insert into pair_use (a, b, c) values ('two', 'b', 'c')`);
  });
  after(() => service.close());

  const FIRST = 'Gr%C3%B6%C3%9Fe%2C%201,Bee,x%2Fy';
  const idsOf = async (path: string): Promise<unknown[]> => {
    const { status, json, text } = await service.request(path);
    assert.equal(status, 200, text);
    return json.objects.map(({ id }: { id: unknown }) => id);
  };
  const queryOf = (fields: Record<string, string>): string => new URLSearchParams(fields).toString();

  test('is percent-encoded in lists, records and CSV', async () => {
    const ids = [FIRST, 'two,b,c', 'Zwei,b,50%25'];
    assert.deepEqual(await idsOf('/api/pair/?ordering=id'), ids);
    const { text } = await service.request('/api/pair/?ordering=id', { headers: { accept: 'text/csv' } });
    assert.equal(
      text,
      `id,a,b,c,v\r\n"${FIRST}","Größe, 1","Bee","x/y",1\r\n"two,b,c","two","b","c",2\r\n"Zwei,b,50%25","Zwei","b","50%",3\r\n`,
    );
    await assertRoundTrip(service, `/api/pair/${FIRST}/`, 'pair');
    assert.deepEqual(await idsOf('/api/lone/?ordering=id'), ['Größe, 1', 'two']);
    await assertRoundTrip(service, `/api/lone/${encodeURIComponent('Größe, 1')}/`, 'lone');
  });

  test('leads to the record in any case of its letters', async () => {
    const lower = FIRST.replace('Gr', 'gR').replace('x%', 'X%');
    const { json, text } = await service.request(`/api/pair/${lower}/`);
    assert.equal(json.id, FIRST, text);
    assert.equal((await service.request('/api/lone/TWO/')).json.id, 'two');
    for (const filter of [{ id: lower }, { id__in: `"${lower}","X,y,z"` }])
      assert.deepEqual(await idsOf(`/api/pair/?${queryOf(filter)}`), [FIRST]);
    assert.deepEqual(await idsOf(`/api/pair/?${queryOf({ id__gt: 'TWO,B,C' })}`), ['Zwei,b,50%25']);
    assert.deepEqual(await idsOf(`/api/pair_use/?${queryOf({ pair: 'Two,B,C', pair__v: '2' })}`), [1]);
  });

  test('pages with cursors', async () => {
    for (const [model, count] of [
      ['pair', 3],
      ['lone', 2],
    ] as const) {
      const ids: unknown[] = [];
      let path = `/api/${model}/?limit=1&ordering=-id`;
      while (path !== '') {
        const answer = await service.request(path, { headers: { Prefer: 'paging=cursor' } });
        assert.equal(answer.status, 200, answer.text);
        ids.push(...answer.json.objects.map(({ id }: { id: unknown }) => id));
        path = answer.json.meta.next;
      }
      assert.equal(ids.length, count);
      assert.deepEqual(ids, (await idsOf(`/api/${model}/?ordering=id`)).reverse());
    }
  });

  test('is created, changed, deleted and recorded', async () => {
    const made = await service.send('POST', '/api/pair/', { a: 'É (1)', b: 'ü', c: '', v: 1 });
    assert.equal(made.status, 201, made.text);
    const path = '/api/pair/%C3%A9%20%281%29,%C3%9C,/';
    assert.equal(made.json.id, '%C3%89%20%281%29,%C3%BC,');
    const again = await service.send('PUT', path, { v: 1 }, { 'If-None-Match': '*' });
    assert.equal(again.status, 412, again.text);
    const changed = await service.send('PUT', path, { id: '%C3%A9%20%281%29,%C3%BC,', a: 'é (1)', v: 2 });
    assert.deepEqual([changed.status, changed.json], [200, { ...made.json, v: 2 }], changed.text);
    const many = await service.send('POST', '/api/pair/', [
      { a: 'new', b: 'b', c: 'c' },
      { a: 'TWO', b: 'B', c: 'C' },
    ]);
    assert.equal(many.status, 409, many.text);
    assert.deepEqual(Object.keys(many.json.errors), ['1.a', '1.b', '1.c']);
    assert.equal((await service.send('DELETE', path)).status, 200);
    const keys = await service.sql`select record from vitrine_history where model = 'pair' order by id`;
    assert.deepEqual(
      keys.map(({ record }) => record),
      [made.json.id, made.json.id, made.json.id],
    );
  });

  test('is listed, shown, deleted and imported in the admin area', async () => {
    for (const page of ['/admin/pair/', '/admin/lone/', '/admin/pair_use/', '/admin/pair_use/1/'])
      assert.equal((await ada.get(page)).status, 200, page);
    for (const id of [FIRST, 'two,b,c', 'Zwei,b,50%25'])
      assert.equal((await ada.get(`/admin/pair/${encodeURIComponent(id)}/`)).status, 200, id);
    assert.equal((await ada.get('/admin/pair/?_search=Gr%C3%B6')).status, 200);
    const page = await ada.post('/admin/pair/-/bulk/', { _action: 'delete', _id: ['two,b,c', FIRST] });
    assert.match(readable(page), /2 records selected/);
    const csv = (await ada.get('/admin/pair/-/export.csv')).text;
    const form = new FormData();
    form.append(
      '_text',
      csv.replace('"Zwei,b,50%25","Zwei"', '"zwei,B,50%25","ZWEI"').replace(/3\r\n$/, '4\r\n'),
    );
    const preview = await ada.upload('/admin/pair/-/import/', form);
    assert.match(readable(preview), /1 changed.*2 unchanged/);
    const confirmed = new FormData();
    for (const name of ['_csv', '_digest'])
      confirmed.append(name, hiddenFields(preview, 'record')[name]?.[0] ?? '');
    assert.equal((await ada.upload('/admin/pair/-/import/', confirmed)).status, 303);
    assert.deepEqual(
      (await service.sql`select a, v from pair order by v`).map(({ a, v: value }) => [a, value]),
      [
        ['Größe, 1', 1],
        ['two', 2],
        ['Zwei', 4],
      ],
    );
  });
});
