import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Shapes } from '../../src/db/statement-shapes.ts';

test('a canceled statement does not lower the cost of its shape', () => {
  const shapes = new Shapes();
  const shape = shapes.use('select');
  shapes.measure(shape, 1_000, true);
  for (let time = 0; time < 50; time += 1) shapes.measure(shape, 30, false);
  assert.equal(shape.cost, 1_000);
});

test('shapes that were used once make room for others, and shapes of the program never do', () => {
  const shapes = new Shapes();
  const known = [shapes.use('used twice'), shapes.use('used twice'), shapes.use('of the program', true)];
  for (let index = 0; index < 2_000; index += 1) shapes.use(`never run ${index}`);
  assert.deepEqual(
    known.map(({ isForgotten }) => isForgotten),
    [false, false, false],
  );
  assert.ok(shapes.use('never run 0').uses === 1, 'it was forgotten');
});

test('statements are prepared from their second use on, and the least recently used make room', () => {
  const shapes = new Shapes();
  const isPrepared = (text: string): boolean => shapes.prepare(shapes.use(text));
  assert.deepEqual([isPrepared('hot'), isPrepared('hot'), isPrepared('hot')], [false, true, true]);
  for (let index = 0; index < 1_000; index += 1) {
    assert.equal(isPrepared(`varied ${index}`), false);
    assert.equal(isPrepared(`varied ${index}`), true);
    if (index % 100 === 0) assert.equal(isPrepared('hot'), true, 'a statement in constant use stays');
  }
  assert.equal(isPrepared('varied 10'), false, 'a statement that was not used for long is forgotten');
});

test('a long text is not prepared, because PostgreSQL would keep its long plan', () => {
  const shapes = new Shapes();
  const text = `select ${'1 + '.repeat(2_500)}1`;
  for (let times = 0; times < 3; times += 1) assert.equal(shapes.prepare(shapes.use(text)), false);
});
