// PUT with `If-None-Match: *`: the record that it creates is the one at its address.
import assert from 'node:assert/strict';
import type { Resource } from '../../src/index.ts';
import { startWith, type WritableService } from './helpers.ts';
import { after, before, describe, test } from 'node:test';

const DDL = `
  create table reading (at timestamptz, code varchar(8), amount numeric(10,2), v integer, primary key (at, code, amount));
  create table moment (at timestamp primary key, v integer);
  create table whole (at timestamp(0) primary key, v integer);
  create table seen (id integer primary key, moment_at timestamp references moment, whole_at timestamp(0) references whole);
  create table coarse (at timestamp(3), whole timestamp(0), clock time, v integer, primary key (at, whole, clock));
  create table flag (is_on boolean, number integer, v integer, primary key (is_on, number))`;

const v = { type: 'integer', null: true } as const;
const at = { type: 'datetime' } as const;
const RESOURCES: Resource[] = [
  {
    model: 'reading',
    primaryKey: { columns: ['at', 'code', 'amount'] },
    columns: { at, code: { type: 'string' }, amount: { type: 'decimal', precision: 10, scale: 2 }, v },
    access: 'user',
  },
  { model: 'moment', primaryKey: { columns: ['at'] }, columns: { at, v }, access: 'user' },
  { model: 'whole', primaryKey: { columns: ['at'] }, columns: { at, v }, access: 'user' },
  {
    model: 'seen',
    primaryKey: { type: 'integer' },
    columns: { moment_at: { ...at, null: true }, whole_at: { ...at, null: true } },
    foreignKeys: {
      moment: { columns: ['moment_at'], references: 'moment' },
      whole: { columns: ['whole_at'], references: 'whole' },
    },
  },
  {
    model: 'coarse',
    primaryKey: { columns: ['at', 'whole', 'clock'] },
    columns: { at, whole: at, clock: { type: 'time' }, v },
    access: 'user',
  },
  {
    model: 'flag',
    primaryKey: { columns: ['is_on', 'number'] },
    columns: { is_on: { type: 'boolean' }, number: { type: 'integer' }, v },
    access: 'user',
  },
];

describe('a PUT that creates', () => {
  let service: WritableService;
  before(async () => {
    service = await startWith(RESOURCES, DDL);
  });
  after(() => service.close());

  const put = (path: string, body: unknown = { v: 1 }) =>
    service.send('PUT', `/api/${path}/`, body, { 'If-None-Match': '*' });

  const addresses: [path: string, id: string][] = [
    ['reading/2026-02-02T00:00:00.25Z,b,1.5', '2026-02-02%2000%3A00%3A00.25,b,1.50'],
    ['reading/2026-02-02T02:00:00.250001+02:00,b,1.5', '2026-02-02%2000%3A00%3A00.250001,b,1.50'],
    ['reading/2026-02-02,b,1.5', '2026-02-02%2000%3A00%3A00,b,1.50'],
    ['moment/2026-02-02T10:00:00.75', '2026-02-02 10:00:00.75'],
    ['coarse/2026-02-02T10:00:00.1230,2026-01-01,10:11:12.5', '2026-02-02%2010%3A00%3A00.123,2026-01-01%2000%3A00%3A00,10%3A11%3A12.5'], // prettier-ignore
    ['flag/yes,1', 'true,1'],
    ['flag/0,1', 'false,1'],
  ];
  for (const [path, id] of addresses)
    test(`stores the record of /api/${path}/`, async () => {
      const made = await put(path);
      assert.equal(made.status, 201, made.text);
      assert.equal(made.json.id, id);
      const located = await service.request(made.headers.get('location') ?? '');
      assert.deepEqual(located.json, made.json);
      const read = await service.request(`/api/${path}/`);
      assert.deepEqual([read.status, read.json], [200, made.json], read.text);
      assert.equal((await put(path)).status, 412);
    });

  test('takes the columns of the key as the output shows them', async () => {
    const path = 'reading/2026-03-03T00:00:00.5,b,1.50';
    const made = await put(path, { at: '2026-03-03 00:00:00', code: 'b', amount: '1.50', v: 2 });
    assert.equal(made.status, 201, made.text);
    assert.deepEqual((await service.request(`/api/${path}/`)).json, made.json);
    const other = await put(path, { at: '2026-03-03 00:00:01' });
    assert.deepEqual(other.json.errors, { at: ['must equal the value in the address'] });
  });

  test('is linked on a page only where the output is the whole key', async () => {
    await service.sql`insert into moment values ('2026-05-05 10:00:00.5'), ('2026-05-05 10:00:00')`;
    await service.sql`insert into whole values ('2026-05-05 10:00:00')`;
    await service.sql`insert into seen values (1, '2026-05-05 10:00:00.5', '2026-05-05 10:00:00')`;
    const { text } = await service.request('/api/seen/1/', { headers: { accept: 'text/html' } });
    assert.match(text, /href="\/api\/whole\/2026-05-05[^"]*"/);
    assert.doesNotMatch(text, /href="\/api\/moment\/2026/);
  });

  for (const [path, column, most, got] of [
    ['coarse/2026-02-02T10:00:00.1234,2026-01-01,10:11:12', 'at', 3, 4],
    ['coarse/2026-02-02T10:00:00,2026-01-01 10:00:00.5,10:11:12', 'whole', 0, 1],
    ['coarse/2026-02-02T10:00:00,2026-01-01,10:11:12.1234567', 'clock', 6, 7],
    ['reading/2026-02-02T02:00:00.1234567%2B02:00,b,1.5', 'at', 6, 7],
    ['moment/2026-02-02T10:00:00.0000001', 'at', 6, 7],
  ] as const)
    test(`refuses /api/${path}/, which the column ${column} would round`, async () => {
      const answer = await put(path);
      assert.equal(answer.status, 400, answer.text);
      const fault = `must have at most ${most} decimal places of seconds (got ${got})`;
      assert.deepEqual(answer.json.errors, { [column]: [fault] });
    });
});
