// Parsing a long CSV file lets other requests run meanwhile.
import assert from 'node:assert/strict';
import { setImmediate } from 'node:timers/promises';
import { parseCsv, parseCsvInTurns } from '../../src/query/csv/csv-parser.ts';
import { describe, test } from 'node:test';
import { countTurns } from '../turns.ts';

describe('a CSV file of 5 MB', () => {
  const bytes = 5_000_000;
  const rest = (): Promise<void> => setImmediate();
  const texts = {
    commas: ','.repeat(bytes),
    'empty lines': '\n'.repeat(bytes),
    'doubled quotes': `"${'""'.repeat(bytes / 2)}"`,
    'short cells': 'a,"b"\n'.repeat(bytes / 6),
  };
  for (const [content, text] of Object.entries(texts)) {
    test(`of ${content} is parsed in many turns of the event loop, with the same result`, async () => {
      const [rows, turns] = await countTurns(() =>
        parseCsvInTurns(text, { rows: Infinity, cells: Infinity }, rest),
      );
      assert.ok(turns > 50, `${turns} turns`);
      // deepEqual takes seconds for millions of cells.
      assert.ok(JSON.stringify(rows) === JSON.stringify(parseCsv(text)));
    });
  }

  test('is not parsed beyond the maximum number of rows', async () => {
    const rows = await parseCsvInTurns(`${'a\n'.repeat(100_000)}"`, { rows: 10_002, cells: Infinity }, rest);
    assert.ok(Array.isArray(rows));
    assert.equal(rows.length, 10_002);
  });
});
