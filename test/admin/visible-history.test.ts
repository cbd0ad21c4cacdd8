import assert from 'node:assert/strict';
import { createVitrine, type Resource } from '../../src/index.ts';
import { startWith, users, type WritableService } from '../db/helpers.ts';
import { csrfIn, logIn, readable, type Browser } from './support.ts';
import { after, before, describe, test } from 'node:test';

/** The registry at the time of the changes. It shows everything. */
const earlier: Resource[] = [
  {
    model: 'patient',
    columns: {
      name: { type: 'string' },
      diagnosis: { type: 'string', null: true },
      pin: { type: 'string', null: true },
      notes: { type: 'json', null: true },
    },
    access: 'user',
  },
  {
    model: 'token',
    primaryKey: { type: 'string' },
    columns: { scope: { type: 'string', null: true } },
    access: 'user',
  },
  { model: 'ward', columns: { name: { type: 'string' } }, access: 'user' },
];

/** The registry of today: one column is excluded, one is a password, and two resources are hidden. */
const later: Resource[] = [
  {
    model: 'patient',
    columns: {
      name: { type: 'string' },
      diagnosis: { type: 'string', null: true },
      pin: { type: 'password', null: true },
      notes: { type: 'json', null: true },
    },
    access: 'user',
    admin: { exclude: ['diagnosis'] },
  },
  {
    model: 'token',
    primaryKey: { type: 'string' },
    columns: { scope: { type: 'string', null: true } },
    access: 'user',
    admin: { hidden: true },
  },
  { model: 'ward', columns: { name: { type: 'string' } }, access: 'user', admin: { hidden: true } },
];

/** Values that are hidden today. */
const HIDDEN = /MELANCHOLY|4711|BEARER|SCOPED|NORTH/i;

describe('the history after the registry was changed to hide values', () => {
  let service: WritableService;
  let ada: Browser;
  let close: () => Promise<void>;
  let kept: number;
  let gone: number;
  before(async () => {
    service = await startWith(earlier);
    const first = {
      name: 'Kept',
      diagnosis: 'MELANCHOLY',
      pin: '4711',
      notes: { diagnosis: 'free', n: 1.0 },
    };
    kept = (await service.send('POST', '/api/patient/', first)).json.id;
    await service.send('PUT', `/api/patient/${kept}/`, {
      name: 'Kept on',
      diagnosis: 'MELANCHOLY II',
      pin: '47110',
    });
    await service.send('PUT', `/api/patient/${kept}/`, { diagnosis: 'MELANCHOLY III' });
    gone = (await service.send('POST', '/api/patient/', { ...first, name: 'Gone' })).json.id;
    await service.send('DELETE', `/api/patient/${gone}/`);
    await service.send('POST', '/api/token/', { id: 'BEARER-1', scope: 'SCOPED' });
    await service.send('PUT', '/api/token/BEARER-1/', { scope: 'SCOPED too' });
    await service.send('POST', '/api/ward/', { name: 'NORTH' });
    const vitrine = await createVitrine({
      databaseUrl: service.url,
      resources: [users, ...later],
      port: 0,
      log: () => undefined,
    });
    const { url: base } = await vitrine.start();
    close = () => vitrine.close();
    ada = await logIn({ base }, 'ada');
  });
  after(async () => {
    await close();
    await service.close();
  });

  const HISTORY = '/admin/vitrine_history/';

  test('shows no hidden value on any page', async () => {
    const list = await ada.get(`${HISTORY}?limit=200`);
    const lines = [...list.text.matchAll(/href="(\/admin\/vitrine_history\/\d+\/)"/g)].map(
      ([, path]) => path ?? '',
    );
    assert.ok(new Set(lines).size >= 7);
    for (const path of [
      '/admin/',
      `${HISTORY}?limit=200`,
      `/admin/patient/${kept}/history/`,
      ...new Set(lines),
    ]) {
      const page = await ada.get(path);
      assert.equal(page.status, 200, path);
      assert.doesNotMatch(page.text, HIDDEN, path);
    }
    assert.match(readable(await ada.get(`/admin/patient/${kept}/history/`)), /Name Kept Kept on Pin changed/);
    assert.equal((await ada.get('/admin/token/BEARER-1/history/')).status, 404);
  });

  test('exports no hidden value, from the list or by a bulk action', async () => {
    const list = await ada.get(HISTORY);
    const exports = [
      await ada.get(`${HISTORY}-/export.csv`),
      await ada.get(`${HISTORY}-/export.json`),
      await ada.post(`${HISTORY}-/bulk/`, { _csrf: csrfIn(list.text), _action: 'export.csv', _all: '1' }),
      await ada.post(`${HISTORY}-/bulk/`, { _csrf: csrfIn(list.text), _action: 'export.json', _all: '1' }),
    ];
    for (const file of exports) {
      assert.equal(file.status, 200);
      assert.match(file.text, /Kept on/);
      assert.doesNotMatch(file.text, HIDDEN);
      assert.doesNotMatch(file.text, /"diagnosis":"|""diagnosis"":""M/);
    }
  });

  test('exports visible values unchanged, and of a password only that it changed', async () => {
    const { text } = await ada.get(`${HISTORY}-/export.json?model=patient&record=${kept}&ordering=id`);
    const lines = JSON.parse(text) as { action: string; before: string | null; after: string | null }[];
    assert.deepEqual(
      lines.map(({ action, before: old, after: now }) => [action, old, now]),
      [
        ['create', null, `{"id":${kept},"name":"Kept","notes":{"n": 1, "diagnosis": "free"}}`],
        ['update', '{"name":"Kept","pin":false}', '{"name":"Kept on","pin":true}'],
        ['update', '{}', '{}'],
      ],
    );
  });

  test('finds nothing by hidden values, with filters or the search', async () => {
    const count = async (query: string): Promise<number> => {
      const answer = await ada.get(`${HISTORY}-/export.json?${query}`);
      assert.equal(answer.status, 200, query);
      return (JSON.parse(answer.text) as unknown[]).length;
    };
    for (const column of ['before', 'after'])
      for (const text of ['MELANCHOLY', '4711', 'SCOPED', 'NORTH'])
        for (const query of [
          `${column}__ilike=%25${text}%25`,
          `${column}__like=%25${text}%25`,
          `${column}__gt=%7B%22diagnosis&${column}__lt=%7B%22diagnosit`,
        ])
          assert.equal(await count(query), 0, query);
    for (const words of ['MELANCHOLY', '4711', 'BEARER', 'SCOPED', 'BEARER-1'])
      assert.equal(await count(`_search=${words}`), 0, words);
    for (const query of ['record=BEARER-1', 'record__like=BEARER%25', 'record__gte=B&record__lt=C'])
      assert.equal(await count(query), 0, query);
    assert.equal(await count('_search=Kept+on'), 1);
    assert.equal(await count('after__like=%25Kept%25'), 2);
    assert.equal(await count(`record=${kept}&model=patient`), 3);
  });

  test('is sorted independently of hidden values', async () => {
    const order = async (column: string): Promise<number[]> => {
      const { text } = await ada.get(`${HISTORY}-/export.json?ordering=${column},id`);
      return (JSON.parse(text) as { id: string }[]).map(({ id }) => Number(id));
    };
    const orders = async (): Promise<number[][]> => {
      const all: number[][] = [];
      for (const column of ['before', 'after', '-after', 'record']) all.push(await order(column));
      return all;
    };
    const before = await orders();
    await service.sql`update vitrine_history set
      after = replace(after, 'MELANCHOLY', 'AAA'), before = replace(before, 'MELANCHOLY', 'ZZZ'),
      record = replace(record, 'BEARER', '!')`;
    assert.deepEqual(await orders(), before);
    await service.sql`update vitrine_history set
      after = replace(after, 'AAA', 'MELANCHOLY'), before = replace(before, 'ZZZ', 'MELANCHOLY'),
      record = replace(record, '!', 'BEARER')`;
  });

  test('offers to add a deleted record again without its hidden values', async () => {
    const page = await ada.get(`/admin/patient/${gone}/history/`);
    const link = /href="(\/admin\/patient\/-\/add\/[^"]*)"/.exec(page.text)?.[1] ?? '';
    assert.match(link, /name=Gone/);
    assert.doesNotMatch(link, /diagnosis=|pin=/);
    assert.doesNotMatch((await ada.get(link.replaceAll('&amp;', '&'))).text, HIDDEN);
  });

  test('shows users and actions of a hidden model, and only generated keys of its records', async () => {
    const list = readable(await ada.get(`${HISTORY}?model=token`));
    assert.match(list, /2 records/);
    assert.match(list, /ada API added token/);
    const linesOf = async (model: string): Promise<unknown[]> => {
      const { text } = await ada.get(`${HISTORY}-/export.json?model=${model}`);
      const lines = JSON.parse(text) as Record<string, unknown>[];
      return lines.map(({ record, before: old, after: now }) => [record, old, now]);
    };
    assert.deepEqual(await linesOf('token'), [
      ['', null, null],
      ['', null, null],
    ]);
    assert.deepEqual(await linesOf('ward'), [['1', null, '{}']]);
  });

  test('shows values that PostgreSQL cannot store as text', async () => {
    const values = String.raw`{"name":"\\u0000","notes":["\u0000","\\\ud800"],"diagnosis":"\u0000"}`;
    const [row] = await service.sql<{ id: string }[]>`
      insert into vitrine_history (door, action, model, record, before, after)
      values ('api', 'delete', 'patient', '77', ${values}, null) returning id::text`;
    const { text } = await ada.get(`${HISTORY}-/export.json?record=77`);
    const [line] = JSON.parse(text) as { before: string }[];
    assert.equal(line?.before, String.raw`{"name":"\\u0000","notes":["\u0000","\\\ud800"]}`);
    assert.equal((await ada.get(`${HISTORY}${row?.id}/`)).status, 200);
    assert.equal((await ada.get(`${HISTORY}?_search=u0000`)).status, 200);
  });
});
