// QR codes, read back by another implementation.
import assert from 'node:assert/strict';
import fc from 'fast-check';
import { qrCode, qrModules, type Modules } from '../../src/admin/web/qr-code.ts';
import { describe, test } from 'node:test';

/**
 * From the tables of the standard, for level M and from version 7 on: corrections of a block, data codewords of the short blocks,
 * short blocks and long blocks.
 */
const LAYOUT = [
  [18, 31, 4, 0], [22, 38, 2, 2], [22, 36, 3, 2], [26, 43, 4, 1], [30, 50, 1, 4], [22, 36, 6, 2],
] as const; // prettier-ignore
const ALIGNMENTS = [[6, 22, 38], [6, 24, 42], [6, 26, 46], [6, 28, 50], [6, 30, 54], [6, 32, 58]]; // prettier-ignore
/** Format bits by mask, and version bits. */
const FORMATS = [0x5412, 0x5125, 0x5e7c, 0x5b4b, 0x45f9, 0x40ce, 0x4f97, 0x4aa0];
const VERSIONS = [0x07c94, 0x085bc, 0x09a99, 0x0a4d3, 0x0bbf6, 0x0c762];

const isInverted = (mask: number, i: number, j: number): boolean =>
  [
    (i + j) % 2,
    i % 2,
    j % 3,
    (i + j) % 3,
    (Math.floor(i / 2) + Math.floor(j / 3)) % 2,
    ((i * j) % 2) + ((i * j) % 3),
    (((i * j) % 2) + ((i * j) % 3)) % 2,
    (((i + j) % 2) + ((i * j) % 3)) % 2,
  ][mask] === 0;

const EXPONENTS = [1];
for (let at = 1; at < 255; at += 1) {
  const next = (EXPONENTS[at - 1] ?? 0) * 2;
  EXPONENTS.push(next > 255 ? next ^ 0x11d : next);
}
const times = (one: number, power: number): number =>
  one === 0 ? 0 : (EXPONENTS[(EXPONENTS.indexOf(one) + power) % 255] ?? 0);

/** Reads a QR code, and checks all of its fixed patterns and its corrections. */
function decode(modules: Modules): string {
  const size = modules.length;
  const version = (size - 17) / 4;
  const [corrections = 0, short = 0, shortBlocks = 0, longBlocks = 0] = LAYOUT[version - 7] ?? [];
  const dark = (y: number, x: number): boolean => modules[y]?.[x] === true;
  const isFunction = Array.from({ length: size }, () => Array<boolean>(size).fill(false));
  const expect = (y: number, x: number, isDark: boolean): void => {
    if (y < 0 || x < 0 || y >= size || x >= size) return;
    assert.equal(dark(y, x), isDark, `module ${y}, ${x} of version ${version}`);
    (isFunction[y] ?? [])[x] = true;
  };
  const ring = (y: number, x: number, dy: number, dx: number): number => Math.max(Math.abs(y - dy), Math.abs(x - dx)); // prettier-ignore
  for (const [cy, cx] of [[3, 3], [3, size - 4], [size - 4, 3]] as const)
    for (let y = cy - 4; y <= cy + 4; y += 1)
      for (let x = cx - 4; x <= cx + 4; x += 1) expect(y, x, [0, 1, 3].includes(ring(y, x, cy, cx))); // prettier-ignore
  for (let at = 8; at < size - 8; at += 1) {
    expect(6, at, at % 2 === 0);
    expect(at, 6, at % 2 === 0);
  }
  const centers = ALIGNMENTS[version - 7] ?? [];
  for (const cy of centers)
    for (const cx of centers) {
      if ([cy, cx].filter((one) => one === 6).length === 2) continue;
      if ((cy === 6 && cx === size - 7) || (cx === 6 && cy === size - 7)) continue;
      for (let y = cy - 2; y <= cy + 2; y += 1)
        for (let x = cx - 2; x <= cx + 2; x += 1) expect(y, x, ring(y, x, cy, cx) !== 1);
    }
  expect(size - 8, 8, true);
  for (let bit = 0; bit < 18; bit += 1) {
    const isDark = (((VERSIONS[version - 7] ?? 0) >> bit) & 1) === 1;
    expect(size - 11 + (bit % 3), Math.floor(bit / 3), isDark);
    expect(Math.floor(bit / 3), size - 11 + (bit % 3), isDark);
  }
  // Both copies of the format, from its first bit on.
  const first = [[8, 0], [8, 1], [8, 2], [8, 3], [8, 4], [8, 5], [8, 7], [8, 8], [7, 8], [5, 8], [4, 8], [3, 8], [2, 8], [1, 8], [0, 8]] as const; // prettier-ignore
  const second = first.map((_, at) => (at < 7 ? ([size - 1 - at, 8] as const) : ([8, size - 15 + at] as const))); // prettier-ignore
  const read = (places: readonly (readonly [number, number])[]): number =>
    places.reduce((bits, [y, x]) => (bits << 1) | Number(dark(y, x)), 0);
  const mask = FORMATS.indexOf(read(first));
  assert.ok(mask >= 0, 'the format is that of level M');
  assert.equal(read(second), FORMATS[mask]);
  for (const [y, x] of [...first, ...second]) (isFunction[y] ?? [])[x] = true;

  let stream = '';
  const columns = Array.from({ length: size }, (_, x) => size - 1 - x).filter((x) => x !== 6);
  for (let pair = 0; pair < columns.length; pair += 2)
    for (let step = 0; step < size; step += 1) {
      const y = pair % 4 === 0 ? size - 1 - step : step;
      for (const x of columns.slice(pair, pair + 2))
        if (!isFunction[y]?.[x]) stream += dark(y, x) === isInverted(mask, y, x) ? '0' : '1';
    }
  const codewords = (stream.match(/.{8}/g) ?? []).map((byte) => Number.parseInt(byte, 2));
  const lengths = [...Array<number>(shortBlocks).fill(short), ...Array<number>(longBlocks).fill(short + 1)];
  const blocks = lengths.map((): number[] => []);
  for (let row = 0; row <= short; row += 1)
    blocks.forEach((block, at) => {
      if (row < (lengths[at] ?? 0)) block.push(codewords.shift() ?? 0);
    });
  const data = blocks.map((block) => [...block]);
  for (let row = 0; row < corrections; row += 1)
    for (const block of blocks) block.push(codewords.shift() ?? 0);
  assert.equal(codewords.length, 0);
  // A block with its corrections has the roots of the generator polynomial.
  for (const block of blocks)
    for (let root = 0; root < corrections; root += 1)
      assert.equal(
        block.reduce((sum, codeword) => times(sum, root) ^ codeword, 0),
        0,
      );
  const bits = data
    .flat()
    .map((byte) => byte.toString(2).padStart(8, '0'))
    .join('');
  assert.equal(bits.slice(0, 4), '0100');
  const start = version < 10 ? 12 : 20;
  const length = Number.parseInt(bits.slice(4, start), 2);
  const bytes = bits.slice(start, start + 8 * length).match(/.{8}/g) ?? [];
  const rest = bits.slice(start + 8 * length).replace(/^0{0,4}/, '');
  assert.match(rest, /^0*(1110110000010001)*(11101100)?$/);
  return Buffer.from(bytes.map((byte) => Number.parseInt(byte, 2))).toString();
}

describe('a QR code', () => {
  test('of any text of up to 287 bytes is read back, and its patterns and corrections are right', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary', maxLength: 71 }), (text) => {
        const longer = text.repeat(Math.floor(287 / Math.max(1, Buffer.byteLength(text))));
        for (const one of [text, longer]) assert.equal(decode(qrModules(one)), one);
      }),
      { numRuns: 20 },
    );
  });

  test('has the smallest version from the 7th to the 12th', () => {
    const most = [122, 152, 180, 213, 251, 287];
    most.forEach((bytes, at) => {
      assert.equal(qrModules('x'.repeat(bytes)).length, 4 * (at + 7) + 17);
      assert.equal(decode(qrModules('x'.repeat(bytes))), 'x'.repeat(bytes));
    });
    assert.throws(() => qrModules('x'.repeat(288)), /288 bytes/);
  });

  test('is drawn as paths of the modules, with a light margin', () => {
    const modules = qrModules('HELLO');
    const markup = qrCode('HELLO', 'A "code"').toString();
    assert.match(markup, /aria-label="A &quot;code&quot;"/);
    assert.doesNotMatch(markup, /style=/);
    const drawn = modules.map((row) => row.map(() => false));
    for (const [, x, y, length] of markup.matchAll(/M(\d+) (\d+)h(\d+)v1h-\d+z/g))
      for (let at = 0; at < Number(length); at += 1) (drawn[Number(y) - 4] ?? [])[Number(x) - 4 + at] = true;
    assert.deepEqual(drawn, modules);
  });
});
