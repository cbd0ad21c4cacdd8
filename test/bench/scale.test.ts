// The plots and tables of `npm run bench:scale`.
import assert from 'node:assert/strict';
import type { Axis, Findings, Point } from '../../bench/scale/axis.ts';
import { plotSvg, spread, ticksOf } from '../../bench/scale/plot.ts';
import { costTable, filesOf, section } from '../../bench/scale/report.ts';
import { markdown, median, whole } from '../../bench/tables.ts';
import { describe, test } from 'node:test';

const point = (x: number, request: string, p50: number): Point => ({
  x,
  request,
  rate: 1234.5,
  p50,
  p99: 2 * p50,
  cpu: 50,
  databaseCpu: NaN,
});

const POINTS = [point(1, 'by id', 0.5), point(1000, 'by id', 5), point(1, 'POST', 1), point(1000, 'POST', 2)];

const axis = (findings: Findings): Axis => ({
  name: 'models',
  title: 'Models',
  unit: 'models',
  text: 'Some models.',
  run: () => Promise.resolve(findings),
});

/** The points of each line as they are drawn. */
const drawn = (svg: string): number[][][] =>
  [...svg.matchAll(/<path class="l\d" d="M([^"]+)"/g)].map(([, path = '']) =>
    path.split('L').map((place) => place.split(' ').map(Number)),
  );

describe('a plot', () => {
  test('equal factors are equal distances on both axes', () => {
    const points = [[1, 1], [10, 10], [100, 100]] as const; // prettier-ignore
    const svg = plotSvg({ name: 'a', title: 'a', xLabel: 'a', lines: [{ name: 'a', points }] }) ?? '';
    const [[first, second, third] = []] = drawn(svg);
    assert.ok(first && second && third);
    for (const n of [0, 1]) {
      const [one = NaN, two = NaN, three = NaN] = [first[n], second[n], third[n]];
      assert.ok(Math.abs(three - two - (two - one)) < 0.2);
    }
    assert.ok((third[0] ?? 0) > (first[0] ?? 0));
    assert.ok((third[1] ?? 0) < (first[1] ?? 0)); // larger values are further up
  });

  test('points without a positive value are left out, and a plot without points is none', () => {
    const lines = [{ name: 'a', points: [[1, NaN], [2, 0], [4, 7]] as const }]; // prettier-ignore
    const svg = plotSvg({ name: 'a', title: 'a', xLabel: 'a', lines }) ?? '';
    assert.deepEqual(drawn(svg).map((line) => line.length), [1]); // prettier-ignore
    assert.doesNotMatch(svg, /NaN|Infinity/);
    const none = [{ name: 'a', points: [[1, NaN]] as const }];
    assert.equal(plotSvg({ name: 'a', title: 'a', xLabel: 'a', lines: none }), undefined);
  });

  test('names are escaped, and keep a distance from each other', () => {
    const lines = ['a < b', 'c & d'].map((name) => ({ name, points: [[1, 1], [2, 2]] as const })); // prettier-ignore
    const svg = plotSvg({ name: 'a', title: 'a', xLabel: 'a', lines }) ?? '';
    assert.match(svg, />a &lt; b</);
    assert.match(svg, />c &amp; d</);
    assert.deepEqual(spread([30, 10, 12], 15), [40, 10, 25]);
  });

  test('ticks begin at or below the least value and end at or above the largest', () => {
    assert.deepEqual(ticksOf(0.3, 4), [0.2, 0.5, 1, 2, 5]);
    assert.deepEqual(ticksOf(1, 1000).at(0), 1);
    assert.deepEqual(ticksOf(1, 1000).at(-1), 1000);
    assert.deepEqual(ticksOf(3, 70_000), [2, 10, 100, 1000, 10_000, 100_000]);
    assert.deepEqual(ticksOf(7, 7), [5, 10]);
  });
});

describe('the report of an axis', () => {
  test('the table has a line for each request and place', () => {
    assert.equal(
      costTable('models', POINTS),
      `
| request | models | requests/s | p50 ms | p99 ms | server µs | PostgreSQL µs |
| ------- | -----: | ---------: | -----: | -----: | --------: | ------------: |
| by id   |      1 |      1,235 |   0.50 |   1.00 |        50 |               |
| by id   |  1,000 |      1,235 |   5.00 |  10.00 |        50 |               |
| POST    |      1 |      1,235 |   1.00 |   2.00 |        50 |               |
| POST    |  1,000 |      1,235 |   2.00 |   4.00 |        50 |               |`.trim(),
    );
  });

  test('each plot with points is a file that the section shows', () => {
    const findings = { points: POINTS, notes: ['Left out: something.'] };
    const result = { axis: axis(findings), findings };
    const names = filesOf(result).map(([name]) => name);
    assert.deepEqual(names, ['scale-models-latency.svg', 'scale-models-server.svg']);
    const text = section(result);
    for (const name of names) assert.ok(text.includes(`(images/${name})`));
    assert.match(text, /^## Models\n\nSome models\.\n\nLeft out: something\.\n\n!\[/);
  });

  test('an axis that fails says why', () => {
    assert.match(
      section({ axis: axis({ points: [] }), fault: 'no disk space' }),
      /Not measured: no disk space\./,
    );
  });
});

describe('numbers', () => {
  test('the median of an even count is between the two in the middle', () => {
    assert.equal(median([4, 1, 3]), 3);
    assert.equal(median([4, 1, 3, 2]), 2.5);
    assert.ok(Number.isNaN(median([])));
  });

  test('columns of numbers align to the right', () => {
    assert.equal(whole(NaN), '');
    assert.equal(markdown(['a', 'n'], [['b', whole(12_345.6)]], 1), '| a   |      n |\n| --- | -----: |\n| b   | 12,346 |'); // prettier-ignore
  });
});
