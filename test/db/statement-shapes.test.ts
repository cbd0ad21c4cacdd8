import assert from 'node:assert/strict';
import { Shapes } from '../../src/db/statement-shapes.ts';
import { test } from 'node:test';

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

test('long texts make room for others before they take 8 MiB together, the least recently used first', () => {
  const shapes = new Shapes();
  const texts = (count: number, length: number, name: string): string[] =>
    Array.from({ length: count }, (_, index) => `${name} ${index}`.padEnd(length, '.'));
  const ofProgram = shapes.use('of the program', true);
  const short = texts(10, 100, 'short').map((text) => shapes.use(text));
  const long = texts(100, 150_000, 'long').map((text) => shapes.use(text));
  const kept = long.filter(({ isForgotten }) => !isForgotten);
  assert.equal(kept.length, Math.floor((8 * 1024 * 1024) / 150_000));
  assert.deepEqual(kept, long.slice(-kept.length));
  assert.ok(!ofProgram.isForgotten && short.every(({ isForgotten }) => isForgotten));
  // What was evicted no longer counts: as many short texts as before fit.
  const others = texts(499, 100, 'other').map((text) => shapes.use(text));
  assert.ok(!ofProgram.isForgotten && others.every(({ isForgotten }) => !isForgotten));
});

test('a text that has no room beside those of the program is run all the same', () => {
  const shapes = new Shapes();
  const ofProgram = shapes.use('x'.repeat(9 * 1024 * 1024), true);
  const other = shapes.use('select');
  assert.deepEqual([ofProgram.isForgotten, other.isForgotten, other.uses], [false, false, 1]);
});
