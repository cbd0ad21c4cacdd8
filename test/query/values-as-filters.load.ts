import assert from 'node:assert/strict';
import fc from 'fast-check';
import { anyCharacter } from '../characters.ts';
import type { Resource } from '../../src/index.ts';
import { startService, type TestService } from '../support.ts';
import { idsOf, insert, scalars } from './samples.ts';
import { after, before, describe, test } from 'node:test';

/** Types that Vitrine does not create, but serves in an existing table. */
const OLD_TABLE = `
  create type mood as enum ('sad', 'ok', 'very, "happy"');
  create table old (
    id bigint primary key,
    fixed char(6), mood mood, small smallint, short real, exact numeric, plain json,
    micro timestamp, zoned timestamptz, milli timestamp(3), clock time, day date
  );
  insert into old values
    (1, 'ab', 'sad', -32768, 0.1, 12345678901234567890.12345678901234567890, '{"a": 1}',
      '2024-01-31 10:00:00.25', '2024-01-31 10:00:00.999999+02', '2024-01-31 10:00:00.5', '10:00:00.75', '2024-01-31'),
    (2, '', 'ok', 32767, 3.4028235e38, 1e-30, '[1, 2]',
      '2024-01-31 10:00:00', '1969-12-31 23:59:59.5+00', '1969-12-31 23:59:59.999', '23:59:59.999999', '0044-03-15 BC'),
    (3, 'a,"b', 'very, "happy"', 0, 1e-45, 'NaN', '"x"',
      '0044-03-15 10:00:00.5 BC', '12024-01-31 10:00:00.5+00', '9999-12-31 23:59:59.999', '00:00:00', '12024-02-29'),
    (4, ' x', 'ok', 1, 'NaN', 'Infinity', 'true', 'infinity', '-infinity', '-infinity', '24:00:00', 'infinity'),
    (5, 'é', 'ok', 1, '-Infinity', 0.0, '0.10', '294276-12-31 23:59:59.999999', '4712-01-01 00:00:00+00 BC',
      '2024-01-31 10:00:00', '12:00:00', '5874897-12-31'),
    (6, null, null, null, null, null, null, null, null, null, null, null)`;

const resources = [
  {
    model: 'item',
    columns: { ...scalars(true), parent: { type: 'foreignKey', references: 'item', null: true } },
  },
  { model: 'big', primaryKey: { type: 'bigint' }, columns: { name: { type: 'string' } } },
  {
    model: 'coded',
    primaryKey: { type: 'uuid' },
    columns: {
      code: { type: 'foreignKey', references: 'coded', null: true },
      large: { type: 'foreignKey', references: 'big', null: true },
    },
  },
  {
    model: 'old',
    primaryKey: { type: 'bigint' },
    columns: {
      fixed: { type: 'string', null: true },
      mood: { type: 'string', null: true },
      small: { type: 'integer', null: true },
      short: { type: 'float', null: true },
      exact: { type: 'decimal', null: true },
      plain: { type: 'json', null: true },
      micro: { type: 'datetime', null: true },
      zoned: { type: 'datetime', null: true },
      milli: { type: 'datetime', null: true },
      clock: { type: 'time', null: true },
      day: { type: 'date', null: true },
    },
  },
] as const satisfies readonly Resource[];

const storable = (text: string): boolean => text.isWellFormed() && !text.includes('\0');
const text = fc.string({ unit: anyCharacter, maxLength: 12 }).filter(storable);
const json = fc
  .jsonValue({ maxDepth: 3, stringUnit: anyCharacter })
  .filter((value) => !/\\u0000|\\ud[89a-f]/i.test(JSON.stringify(value)));
const date = fc
  .date({ min: new Date('0001-01-01T00:00:00Z'), max: new Date('9999-12-31T23:59:59Z'), noInvalidDate: true })
  .map((moment) => moment.toISOString().slice(0, 19).replace('T', ' '));
const big = fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n }).map(String);

const row = fc.record({
  string: fc.option(text),
  text: fc.option(text),
  integer: fc.option(fc.integer()),
  bigint: fc.option(big),
  float: fc.option(fc.oneof(fc.double({ noNaN: true, noDefaultInfinity: true }), fc.constantFrom('NaN', 'Infinity', '-Infinity'))), // prettier-ignore
  decimal: fc.option(
    fc.integer({ min: -(10 ** 11), max: 10 ** 11 }).map((number) => (number / 1e4).toFixed(4)),
  ),
  boolean: fc.option(fc.boolean()),
  datetime: fc.option(date),
  date: fc.option(date.map((moment) => moment.slice(0, 10))),
  time: fc.option(date.map((moment) => moment.slice(11))),
  uuid: fc.option(fc.uuid()),
  json: fc.option(json),
  password: fc.option(text),
  parent_id: fc.option(fc.constantFrom(1, 2, 3)),
});

/** The filter for a value of the output. */
function filterFor(key: string, value: unknown, isJson: boolean): string {
  if (value === null) return `${key}__is=null`;
  const written = isJson || typeof value !== 'string' ? JSON.stringify(value) : value;
  return `${key}=${encodeURIComponent(written)}`;
}

describe('each value of the output, used as a filter, finds its record', () => {
  let service: TestService;
  before(async () => {
    service = await startService(resources, { prepare: (sql) => sql.unsafe(OLD_TABLE) });
  });
  after(() => service.close());

  async function assertAllFindable(model: string, jsonColumn: string): Promise<number> {
    const { json: page } = await service.request(`/api/${model}/?limit=1000`);
    const missing: string[] = [];
    for (const record of page.objects as Record<string, unknown>[]) {
      // One after the other: an anonymous client with many costly queries at once gets 429 on a busy machine.
      for (const [key, value] of Object.entries(record)) {
        const filter = filterFor(key, value, key === jsonColumn);
        const answer = await service.request(`/api/${model}/?${filter}`);
        if (answer.status !== 200 || !(idsOf(answer) as unknown[]).includes(record['id'])) {
          missing.push(`${String(record['id'])}: ${filter} ${answer.status}`);
        }
      }
    }
    assert.deepEqual(missing, []);
    return page.objects.length;
  }

  test('in columns of every type', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(row, { minLength: 3, maxLength: 6 }), async (list) => {
        await service.sql`truncate item`;
        await insert(service.sql, 'item', list.map((values, index) => ({ ...values, id: index + 1 }))); // prettier-ignore
        assert.equal(await assertAllFindable('item', 'json'), list.length);
      }),
      { numRuns: 12 },
    );
  });

  test('in keys and foreign keys of every type', async () => {
    const [one, other] = ['0f0e0d0c-0000-4000-8000-00000000000a', 'ffffffff-ffff-4fff-bfff-ffffffffffff'];
    await insert(service.sql, 'big', [{ id: 1, name: 'a' }, { id: 9007199254740991, name: 'b' }]); // prettier-ignore
    await insert(service.sql, 'coded', [
      { id: one, code_id: other, large_id: 9007199254740991 },
      { id: other, code_id: null, large_id: 1 },
    ]);
    assert.equal(await assertAllFindable('big', ''), 2);
    assert.equal(await assertAllFindable('coded', ''), 2);
  });

  test('in types of an existing table, also fractions of a second, eras and infinities', async () => {
    assert.equal(await assertAllFindable('old', 'plain'), 6);
  });

  test('a long list of times finds the same records as each of its values', async () => {
    const { json: page } = await service.request('/api/old/');
    for (const key of ['micro', 'zoned', 'milli', 'clock']) {
      const values = (page.objects as Record<string, unknown>[]).flatMap((record) => record[key] ?? []);
      const known = values.map((value) => `%22${encodeURIComponent(String(value as string))}%22`);
      for (const operator of ['in', '-in']) {
        for (const chosen of known) {
          const find = async (count: number): Promise<unknown> => {
            const query = `${operator.startsWith('-') ? '-' : ''}${key}__in=${Array(count).fill(chosen).join()}`;
            const answer = await service.request(`/api/old/?${query}`);
            assert.equal(answer.status, 200, query);
            return idsOf(answer);
          };
          assert.deepEqual(await find(9), await find(1), `${operator} ${key} ${chosen}`);
        }
      }
      const all = await service.request(`/api/old/?${key}__in=${[...known, ...known].join()}`);
      assert.equal((idsOf(all) as unknown[]).length, known.length, key);
    }
  });

  test('every operator works on types of an existing table', async () => {
    const { json: page } = await service.request('/api/old/');
    const failed: string[] = [];
    for (const [key, value] of Object.entries(page.objects[0] as Record<string, unknown>)) {
      const written = encodeURIComponent(
        key !== 'plain' && typeof value === 'string' ? value : JSON.stringify(value),
      );
      for (const operator of ['eq', 'ne', 'lt', 'lte', 'gt', 'gte', 'in', 'like', 'ilike']) {
        const quoted = operator === 'in' ? `%22${written.replaceAll('%22', '%22%22')}%22` : written;
        const once = `${key}__${operator}=${quoted}`;
        for (const query of [once, `-${once}`, `${once}&${once}`, `-${once}&-${once}`]) {
          const { status, json } = await service.request(`/api/old/?${query}`);
          if (status === 400)
            assert.match(json.errors[query.split('=')[0] ?? ''][0], /does not support the operator/, query);
          else if (status !== 200) failed.push(query);
        }
      }
    }
    assert.deepEqual(failed, []);
  });
});
