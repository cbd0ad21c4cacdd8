import assert from 'node:assert/strict';
import fc from 'fast-check';
import { chart } from '../../src/admin/dashboard/chart.ts';
import type { PanelSeries } from '../../src/index.ts';
import { describe, test } from 'node:test';

describe('a chart', () => {
  const seriesOf = (values: readonly number[], label = 'x'): PanelSeries['series'] =>
    values.map((value, index) => ({ label: `${label}${index}`, value }));
  const render = (content: PanelSeries): string => chart(content, 'Title', 'c').toString();
  /** The top and the height of each bar. */
  const barsOf = (svg: string): [y: number, height: number][] =>
    [...svg.matchAll(/<rect [^>]* y="([^"]*)" width="[^"]*" height="([^"]*)"/g)].map(([, y, height]) => [
      Number(y),
      Number(height),
    ]);
  /** The labels of the axis, from the bottom. */
  const ticksOf = (svg: string): string[] =>
    [...svg.matchAll(/text-anchor="end"[^>]*>([^<]*)</g)].map(([, text = '']) => text.trim());

  test('of any numbers stays within its bounds and has one bar or point for each', () => {
    const value = fc.oneof(
      fc.double({ noNaN: true, noDefaultInfinity: true }),
      fc.integer({ min: -1000, max: 1000 }),
      fc.constantFrom(0, -0, 5e-324, Number.MAX_VALUE, -Number.MAX_VALUE, 1, 1 + Number.EPSILON, 1e15, 0.1 + 0.2),
    ); // prettier-ignore
    const values = fc.array(value, { minLength: 1, maxLength: 100 });
    fc.assert(
      fc.property(values, fc.constantFrom('bar' as const, 'line' as const), (numbers, kind) => {
        const svg = render({ series: seriesOf(numbers), kind });
        assert.doesNotMatch(svg, /="[^"]*(NaN|Infinity|undefined|null)/);
        const [, width, height] = /viewBox="0 0 (\d+) (\d+)"/.exec(svg) ?? [];
        for (const [, name = '', text = ''] of svg.matchAll(/ (x|x1|x2|cx|y|y1|y2|cy)="([^"]*)"/g)) {
          const position = Number(text);
          const limit = Number(name.includes('x') ? width : height);
          assert.ok(position >= 0 && position <= limit, `${name}=${text}`);
        }
        const marks = svg.match(kind === 'bar' ? /<rect class="bar"/g : /<circle class="point"/g);
        assert.equal(marks?.length, numbers.length);
        const ticks = ticksOf(svg);
        assert.ok(ticks.length >= 2 && ticks.length <= 12, ticks.join(' '));
        assert.equal(new Set(ticks).size, ticks.length, ticks.join(' '));
        assert.ok(ticks.every((tick) => tick.length <= 20), ticks.join(' ')); // prettier-ignore
      }),
    );
  });

  const axes: [readonly number[], 'bar' | 'line', string[]][] = [
    [[1, 2, 3, 4], 'bar', ['0', '1', '2', '3', '4']],
    [[449.46, 481.45, 469.58, 477.53, 450.58], 'bar', ['0', '100', '200', '300', '400', '500']],
    [[-20, 10], 'bar', ['-20', '-10', '0', '10']],
    [[0, 0], 'bar', ['0', '0.2', '0.4', '0.6', '0.8', '1']],
    [[7, 7], 'line', ['0', '2', '4', '6', '8']],
    [[-7], 'line', ['-8', '-6', '-4', '-2', '0']],
    [[1_000_000, 3_500_000], 'bar', ['0', '1M', '2M', '3M', '4M']],
    [[100_020, 100_080], 'line', ['100.02K', '100.04K', '100.06K', '100.08K']],
  ];
  for (const [values, kind, expected] of axes) {
    test(`of ${values.join(', ')} as a ${kind} has an axis with ${expected.join(', ')}`, () => {
      assert.deepEqual(ticksOf(render({ series: seriesOf(values), kind })), expected);
    });
  }

  test('has bars on both sides of zero, and an empty one for zero', () => {
    const [up, zero, down] = barsOf(render({ series: seriesOf([10, 0, -5]) }));
    assert.ok(up && zero && down);
    const base = up[0] + up[1];
    assert.equal(zero[1], 0);
    assert.ok(Math.abs(down[0] - base) < 0.1);
    assert.ok(Math.abs(up[1] - 2 * down[1]) < 0.1);
  });

  test('shortens long labels, has the full label as a title, and omits labels that do not fit', () => {
    const label = 'A very long label 🦉 of a point ';
    const svg = render({ series: seriesOf(Array<number>(30).fill(1), label) });
    assert.ok(svg.includes(`A very long…<title>${label}0</title>`), svg);
    assert.ok((svg.match(/A very long…/g)?.length ?? 0) < 6);
    assert.equal(svg.match(/<th scope="row" data-label="Label">/g)?.length, 30);
  });

  test('has no inline styles, because the content security policy forbids them', () => {
    for (const kind of ['bar', 'line'] as const)
      assert.doesNotMatch(render({ series: seriesOf([1, 2]), kind, unit: 'EUR' }), / style=|<style| on\w+=/);
  });
});
