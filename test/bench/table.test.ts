// The tables of the programs in bench.
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { markdown, median, quantile, short, whole } from '../../bench/table.ts';

describe('numbers', () => {
  test('the median of an even count is between the two in the middle', () => {
    assert.equal(median([4, 1, 3]), 3);
    assert.equal(median([4, 1, 3, 2]), 2.5);
    assert.ok(Number.isNaN(median([])));
    assert.equal(quantile([4, 1, 3, 2], 1), 4);
  });

  test('columns of numbers align to the right', () => {
    assert.equal(whole(NaN), '');
    assert.deepEqual([1234.5, 12.345, 1.2345, 0].map(short), ['1,235', '12.3', '1.23', '0']);
    assert.equal(
      markdown(['a', 'n'], [['b', whole(12_345.6)]], 1),
      '| a   |      n |\n| --- | -----: |\n| b   | 12,346 |',
    );
  });
});
