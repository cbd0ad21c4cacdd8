// Draws a text as a QR code (ISO/IEC 18004) in SVG: byte mode, error correction level M, versions 7 to 12.
import { html, type Html } from './html.ts';

/** Smaller versions have other layouts, and are too small for the address of a secret. */
const FIRST_VERSION = 7;
/** By version from the first one on: error correction codewords of a block, and blocks. */
const BLOCKS = [[18, 4], [22, 4], [22, 5], [26, 5], [30, 5], [22, 8]] as const; // prettier-ignore

/** Light modules around the code. */
const MARGIN = 4;

/** The modules of a code, by row and column. True is dark. */
export type Modules = readonly (readonly boolean[])[];

interface Version {
  readonly number: number;
  /** Modules on each side. */
  readonly size: number;
  /** Error correction codewords of a block. */
  readonly corrections: number;
  readonly blocks: number;
  /** Codewords of data. */
  readonly capacity: number;
  /** Bits of the length of the text. */
  readonly lengthBits: number;
}

const VERSIONS = BLOCKS.map(([corrections, blocks], index): Version => {
  const number = index + FIRST_VERSION;
  // All modules but corners, lines, alignment patterns, and the bits of the format and the version.
  const modules = (16 * number + 128) * number - 112;
  return {
    ...{ number, size: 4 * number + 17, corrections, blocks },
    ...{ capacity: (modules >> 3) - corrections * blocks, lengthBits: number < 10 ? 8 : 16 },
  };
});

/** The product in the field GF(2^8) with the polynomial 0x11D. */
function multiply(one: number, other: number): number {
  let product = 0;
  for (let bit = 7; bit >= 0; bit -= 1)
    product = (product << 1) ^ ((product >> 7) * 0x11d) ^ (((other >> bit) & 1) * one);
  return product;
}

/** The error correction codewords of Reed and Solomon: the remainder of the data divided by the generator polynomial. */
function correctionsOf(data: readonly number[], count: number): number[] {
  let divisor = [...Array<number>(count - 1).fill(0), 1];
  for (let root = 1, step = 0; step < count; step += 1, root = multiply(root, 2))
    divisor = divisor.map((factor, at) => multiply(factor, root) ^ (divisor[at + 1] ?? 0));
  let remainder = Array<number>(count).fill(0);
  for (const byte of data) {
    const factor = byte ^ (remainder[0] ?? 0);
    remainder = divisor.map((by, at) => (remainder[at + 1] ?? 0) ^ multiply(by, factor));
  }
  return remainder;
}

const bitsOf = (value: number, length: number): string => value.toString(2).padStart(length, '0');

/** The codewords of a text in the order in which they are drawn: blocks interleaved, then their corrections. */
function codewordsOf(bytes: Buffer, { corrections, blocks, capacity, lengthBits }: Version): number[] {
  const text = [...bytes].map((byte) => bitsOf(byte, 8)).join('');
  const stream = `0100${bitsOf(bytes.length, lengthBits)}${text}0000`; // byte mode, and the end
  const data = (stream.match(/.{8}/g) ?? []).slice(0, capacity).map((byte) => Number.parseInt(byte, 2));
  for (let filler = 0xec; data.length < capacity; filler ^= 0xec ^ 0x11) data.push(filler);
  const short = Math.floor(capacity / blocks);
  const parts = Array.from({ length: blocks }, (_, at) =>
    // The last blocks have one codeword more.
    data.splice(0, short + (at >= blocks - (capacity % blocks) ? 1 : 0)),
  );
  const interleave = (all: readonly (readonly number[])[]): number[] =>
    (all.at(-1) ?? []).flatMap((_, at) => all.flatMap((one) => one[at] ?? []));
  return [...interleave(parts), ...interleave(parts.map((part) => correctionsOf(part, corrections)))];
}

/** Appends the remainder of a division by a polynomial, for the format and the version. */
function withCheckBits(value: number, count: number, polynomial: number): number {
  let rest = value;
  for (let step = 0; step < count; step += 1) rest = (rest << 1) ^ ((rest >> (count - 1)) * polynomial);
  return (value << count) | rest;
}

/** Whether a mask inverts the module of a row and column. */
const MASKS: readonly ((y: number, x: number) => boolean)[] = [
  (y, x) => (y + x) % 2 === 0,
  (y) => y % 2 === 0,
  (_, x) => x % 3 === 0,
  (y, x) => (y + x) % 3 === 0,
  (y, x) => (Math.floor(y / 2) + Math.floor(x / 3)) % 2 === 0,
  (y, x) => ((y * x) % 2) + ((y * x) % 3) === 0,
  (y, x) => (((y * x) % 2) + ((y * x) % 3)) % 2 === 0,
  (y, x) => (((y + x) % 2) + ((y * x) % 3)) % 2 === 0,
];

/** How hard a code is to scan: long runs, blocks, patterns like the corners, too much of one color. */
function penaltyOf(modules: Modules): number {
  const size = modules.length;
  const rows = modules.map((row) => row.map(Number).join(''));
  const columns = modules.map((_, x) => rows.map((row) => row[x]).join(''));
  const lines = [...rows, ...columns].join(' ');
  const runs = [...lines.matchAll(/0{5,}|1{5,}/g)].reduce((sum, [run]) => sum + run.length - 2, 0);
  const pairs = rows.flatMap((row, y) => [...row].map((_, x) => row.slice(x, x + 2) + (rows[y + 1]?.slice(x, x + 2) ?? ''))); // prettier-ignore
  const blocks = pairs.filter((pair) => /^(0000|1111)$/.test(pair)).length;
  const corners = [...lines.matchAll(/(?=00001011101|10111010000)/g)].length;
  const dark = rows.join('').replaceAll('0', '').length;
  const balance = Math.floor(Math.abs((dark / size ** 2) * 20 - 10));
  return runs + 3 * blocks + 40 * corners + 10 * balance;
}

/** The code of a text with one mask. */
function draw({ number, size }: Version, codewords: readonly number[], mask: number): Modules {
  const modules = Array.from({ length: size }, () => Array<boolean | undefined>(size).fill(undefined));
  const set = (y: number, x: number, isDark: boolean): void => {
    const row = modules[y];
    if (row && x >= 0 && x < size) row[x] = isDark;
  };
  /** Rings around a center: the light ones are at these distances. */
  const rings = (y: number, x: number, radius: number, light: readonly number[]): void => {
    for (let dy = -radius; dy <= radius; dy += 1)
      for (let dx = -radius; dx <= radius; dx += 1)
        set(y + dy, x + dx, !light.includes(Math.max(Math.abs(dy), Math.abs(dx))));
  };

  for (let at = 0; at < size; at += 1) {
    set(6, at, at % 2 === 0);
    set(at, 6, at % 2 === 0);
  }
  const [middle, last] = [(size - 1) / 2, size - 7];
  for (const [y, x] of [[6, middle], [middle, 6], [middle, middle], [middle, last], [last, middle], [last, last]] as const) rings(y, x, 2, [1]); // prettier-ignore
  for (const [y, x] of [[3, 3], [3, size - 4], [size - 4, 3]] as const) rings(y, x, 4, [2, 4]); // prettier-ignore
  const format = withCheckBits(mask, 10, 0x537) ^ 0x5412; // level M is 00
  for (let bit = 0; bit < 15; bit += 1) {
    const isDark = ((format >> bit) & 1) === 1;
    const near = bit < 6 ? bit : bit < 8 ? bit + 1 : bit === 8 ? 7 : 14 - bit;
    set(bit < 8 ? near : 8, bit < 8 ? 8 : near, isDark);
    set(bit < 8 ? 8 : size - 15 + bit, bit < 8 ? size - 1 - bit : 8, isDark);
  }
  set(size - 8, 8, true);
  const version = withCheckBits(number, 12, 0x1f25);
  for (let bit = 0; bit < 18; bit += 1) {
    const [near, far] = [Math.floor(bit / 3), size - 11 + (bit % 3)];
    set(near, far, ((version >> bit) & 1) === 1);
    set(far, near, ((version >> bit) & 1) === 1);
  }

  // Two columns at a time from the right, up and down in turns, without the vertical line.
  const stream = codewords.map((codeword) => bitsOf(codeword, 8)).join('');
  const columns = modules.map((_, at) => size - 1 - at).filter((x) => x !== 6);
  let bit = 0;
  for (let pair = 0; pair < columns.length; pair += 2)
    for (let step = 0; step < size; step += 1) {
      const y = pair % 4 === 0 ? size - 1 - step : step;
      for (const x of columns.slice(pair, pair + 2)) {
        if (modules[y]?.[x] !== undefined) continue;
        set(y, x, (stream[bit] === '1') !== MASKS[mask]?.(y, x));
        bit += 1;
      }
    }
  return modules.map((row) => row.map((isDark) => isDark === true));
}

/** The modules of the code of a text, in the smallest version and with the best mask. @throws Error for more than 287 bytes */
export function qrModules(text: string): Modules {
  const bytes = Buffer.from(text);
  const version = VERSIONS.find(
    ({ capacity, lengthBits }) => 8 * capacity >= 4 + lengthBits + 8 * bytes.length,
  );
  if (!version) throw new Error(`${bytes.length} bytes are too many for a QR code`);
  const codewords = codewordsOf(bytes, version);
  const drawn = MASKS.map((_, mask) => draw(version, codewords, mask));
  const penalties = drawn.map(penaltyOf);
  return drawn[penalties.indexOf(Math.min(...penalties))] ?? [];
}

/** A QR code as an image in the page. Its colors do not follow the theme: scanners need dark on light. */
export function qrCode(text: string, label: string): Html {
  const modules = qrModules(text);
  const size = modules.length + 2 * MARGIN;
  const runsOf = (row: readonly boolean[]) => [...row.map(Number).join('').matchAll(/1+/g)];
  const path = modules.flatMap((row, y) =>
    runsOf(row).map(({ 0: run, index: x }) => `M${x + MARGIN} ${y + MARGIN}h${run.length}v1h-${run.length}z`),
  );
  return html`<svg
    class="qr"
    role="img"
    aria-label="${label}"
    viewBox="0 0 ${size} ${size}"
    width="${4 * size}"
  >
    <rect width="${size}" height="${size}" fill="#fff" />
    <path d="${path.join('')}" fill="#000" shape-rendering="crispEdges" />
  </svg>`;
}
