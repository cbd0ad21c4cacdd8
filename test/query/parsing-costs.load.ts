// The cost of parsing the largest bodies, as ratios, because times depend on the machine.
import assert from 'node:assert/strict';
import { ARRAY_TYPES } from '../../src/db/types/array-types.ts';
import { COLUMN_TYPES } from '../../src/db/types/column-types.ts';
import { decodeField } from '../../src/query/parse/grammar.ts';
import { parseJsonFields, parseJsonFieldsInTurns } from '../../src/resources/records/json-fields.ts';
import { parseLabeledRecords } from '../../src/resources/records/labeled-record.ts';
import { cpuOf, longestTurnOf } from '../http/expect.ts';
import { describe, test } from 'node:test';
import { countTurns } from '../turns.ts';

const BYTES = 1_048_576;

describe('the cost of the largest body', () => {
  test('a nested JSON value is scanned once, and not again for its column', () => {
    const text = `{"data":[${'1,'.repeat(BYTES / 2 - 10)}1]}`;
    const parsed = parseJsonFields(text).get('data');
    assert.ok(parsed);
    const { value, source } = parsed;
    const check = (): unknown => COLUMN_TYPES.json.fromJson(value, source);
    assert.deepEqual(check(), { value: source });
    const [scanning, checking] = [cpuOf(() => parseJsonFields(text)), cpuOf(check)];
    assert.ok(checking < scanning / 2, `${checking} of ${scanning} microseconds`);
  });

  test('a value that cannot be stored is found at any position', () => {
    const deep = `${'['.repeat(513)}${']'.repeat(513)}`;
    const kinds = { good: '[1]', nul: '["\\u0000"]', half: '["\\ud800"]', huge: '[1e9999]', deep };
    const entries = Object.entries(kinds);
    for (const order of [entries, entries.toReversed()]) {
      const fields = parseJsonFields(`{${order.map(([key, text]) => `"${key}":${text}`).join(',')}}`);
      for (const [key, { value, source }] of fields) {
        const isGood = COLUMN_TYPES.json.fromJson(value, source).fault === undefined;
        assert.equal(isGood, key === 'good', key);
      }
    }
  });

  test('an array with many choices costs little more than one with two, whatever its elements are', () => {
    const numbers = Array.from({ length: 64 }, (_, index) => index * 2);
    const labels = Array.from({ length: 2_000 }, (_, index) => `label${index}`);
    for (const [of, element, few, many] of [
      ['integer', '10', { choices: [10, 2] }, { choices: numbers }],
      ['integer', '11', { choices: [0, 2] }, { choices: Array.from({ length: 1_000 }, (_, n) => n * 2) }],
      ['decimal', '2.0', { choices: [0, 2] }, { choices: numbers }],
      ['string', '"x"', { labels: labels.slice(0, 2) }, { labels }],
    ] as const) {
      const source = `[${Array(10_000).fill(element).join(',')}]`;
      const costOf = (facts: object): number => {
        const { castType } = COLUMN_TYPES[of];
        const column = { castType: `${castType}[]`, elementFacts: { castType, nullable: false, ...facts } };
        return cpuOf(() => ARRAY_TYPES[of].fromJson(undefined, source, column), 8);
      };
      const [least, most] = [costOf(few), costOf(many)];
      assert.ok(most < 3 * least + 5000, `${source.slice(0, 20)}: ${most} and ${least} microseconds`);
    }
  });

  test('a field is found at any position and in any encoding of its name', () => {
    const values = (form: string): unknown[] => decodeField(form, 'data', 2).map(({ value }) => value);
    assert.deepEqual(values('data=1&a=data&xdata=2&%64%61t%61=3&data=4'), ['1', '3']);
    assert.deepEqual(values('&&dat=0&data'), ['']);
    assert.deepEqual(values('data2=1&%data=2&=data&data%3D=1'), []);
    assert.deepEqual(values('data=%&datA=1'), [undefined]);
  });
});

test('a body of thousands of long keys is parsed in many turns', async () => {
  const keys = Array.from({ length: 9_990 }, (_, index) => `"${String(index).padStart(100, 'k')}":1`);
  const [, turns] = await countTurns(async () => parseJsonFieldsInTurns(`{${keys.join()}}`));
  assert.ok(turns > 15, `${turns} turns`);
});

test('a body that begins with a megabyte of spaces costs little more than one that does not', () => {
  const body = `{"a":${JSON.stringify('b'.repeat(1_000))}}`;
  const costOf = (text: string): number => cpuOf(() => parseJsonFields(text));
  assert.ok(costOf(' '.repeat(1e6) + body) < costOf(`{"a":"${'b'.repeat(1e6)}"}`) + 5_000);
});

describe('the cost of a large page of the admin area', () => {
  for (const [name, records, length] of [
    ['records of 60 KB', 100, 60_000],
    ['records of 2 KB', 3_000, 2_000],
  ] as const) {
    test(`${name} are parsed in short turns of the event loop`, async () => {
      const fields = '"a":"b\\n",'.repeat(length / 10);
      const page = Array.from({ length: records }, (_, id) => `{"label":"x","labels":{},"record":{${fields}"id":${id}}}`).join(','); // prettier-ignore
      assert.equal((await parseLabeledRecords(page)).at(-1)?.id, String(records - 1));
      const longest = await longestTurnOf(() => parseLabeledRecords(page), 40_000);
      assert.ok(longest < 40_000, `${longest} microseconds`);
    });
  }
});
