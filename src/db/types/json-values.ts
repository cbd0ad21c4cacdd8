import type { Facts, Parsed } from './column-type.ts';
import { NUMERIC_FRACTION, NUMERIC_WHOLE, scanJson, type JsonFacts } from './json-scanner.ts';

/** How deep a JSON value may nest, and one that is there already: PostgreSQL's own parser gives up at some thousands. */
const MAX_DEPTH = 512;
const MAX_KEPT_DEPTH = 5000;
const TOO_DEEP = `must not nest deeper than ${MAX_DEPTH}`;
const NUL_FAULT = 'must not contain a NUL character';
const SURROGATE_FAULT = 'must not contain half of a surrogate pair';
/** The most characters of a number: what numeric holds, a sign, a point and an exponent. */
const MAX_NUMBER = NUMERIC_WHOLE + NUMERIC_FRACTION + 12;

/** The range of each whole-number type. */
export const INTEGERS: Readonly<Record<string, readonly [bigint, bigint]>> = {
  int2: [-(2n ** 15n), 2n ** 15n - 1n],
  int4: [-(2n ** 31n), 2n ** 31n - 1n],
  int8: [-(2n ** 63n), 2n ** 63n - 1n],
};

/** The numbers that JSON cannot write, as PostgreSQL outputs them. */
export const FLOATS: ReadonlySet<string> = new Set(['NaN', 'Infinity', '-Infinity']);

/** What PostgreSQL cannot store in a text, or undefined. */
function textFault(text: string): string | undefined {
  if (text.includes('\0')) return NUL_FAULT;
  if (!text.isWellFormed()) return SURROGATE_FAULT;
  return undefined;
}

/** Characters as PostgreSQL counts them: code points, so a surrogate pair is one. */
function countCharacters(text: string): number {
  let count = text.length;
  for (let at = 0; at < text.length; at += 1) if ((text.charCodeAt(at) & 0xfc00) === 0xd800) count -= 1;
  return count;
}

/** A text within its length, and one of the labels where the column is an enum. */
export function checkText(value: unknown, { maxLength, labels }: Omit<Facts, 'castType'>): Parsed {
  if (typeof value !== 'string') return { fault: 'must be a string' };
  const fault = textFault(value);
  if (fault) return { fault };
  if (labels && !labels.includes(value)) return { fault: `must be one of ${labels.join(', ')}` };
  if (maxLength !== undefined && value.length > maxLength && countCharacters(value) > maxLength) {
    return { fault: `must have at most ${maxLength} characters`, value };
  }
  return { value };
}

/** A whole number within the range of its column's type. */
export function integer(text: string, { castType }: Facts): Parsed {
  if (!/^-?\d{1,1000}$/.test(text)) return { fault: 'must be a whole number' };
  const number = BigInt(text);
  const [least, most] = INTEGERS[castType] ?? INTEGERS['int8']!;
  return number >= least && number <= most
    ? { value: number.toString() }
    : { fault: `must be from ${least} to ${most}` };
}

// Each character fits one place only: with `\d+\.?\d*` a run of digits could be split in as many ways as it is long.
const NUMBER = /^[+-]?(\d+(?:\.\d*)?|\.\d+)(e[+-]?\d+)?$/i;

/** Checks the length before any pattern runs. */
const isNumber = (text: string): boolean => text.length <= MAX_NUMBER && NUMBER.test(text);

/** A floating-point number; one that is too small to be told from zero is zero, as JavaScript has it. */
export function float(text: string, { castType }: Facts): Parsed {
  if (FLOATS.has(text)) return { value: text };
  if (!isNumber(text)) return { fault: 'must be a number' };
  const number = Number(text);
  const stored = castType === 'float4' ? Math.fround(number) : number;
  if (!Number.isFinite(stored)) return { fault: 'is too large' };
  if (stored === 0) return { value: text.startsWith('-') ? '-0' : '0' };
  return { value: String(number) };
}

/** An exact number that its column stores without rounding. */
export function decimal(text: string, { precision, scale = 0 }: Omit<Facts, 'castType'>): Parsed {
  if (FLOATS.has(text)) return { value: text };
  if (text.length > MAX_NUMBER) return { fault: `must be at most ${MAX_NUMBER} characters long` };
  const match = NUMBER.exec(text);
  if (!match) return { fault: 'must be a decimal number' };
  const exponent = Number(match[2]?.slice(1) ?? 0);
  const [whole = '', fraction = ''] = (match[1] ?? '').split('.');
  const digits = whole + fraction;
  const first = digits.search(/[1-9]/);
  const point = whole.length + exponent;
  if (Math.abs(exponent) > NUMERIC_WHOLE) return { fault: 'is out of range' };
  if (first < 0)
    return point - digits.length < -NUMERIC_FRACTION ? { fault: 'is out of range' } : { value: text };
  const [mostBefore, mostAfter] =
    precision === undefined ? [NUMERIC_WHOLE, NUMERIC_FRACTION] : [precision - scale, scale];
  if (point - first > mostBefore) {
    return {
      fault: mostBefore > 0 ? `must have at most ${mostBefore} digits before the point` : 'is too large',
    };
  }
  if (significant(digits) - point > mostAfter) {
    const rule =
      mostAfter >= 0 ? `must have at most ${mostAfter} digits after the point` : 'has too many digits';
    return { fault: rule };
  }
  return { value: text };
}

/** How many digits there are before the zeros at the end. A pattern would look at each run of zeros again and again. */
function significant(digits: string): number {
  let length = digits.length;
  while (digits[length - 1] === '0') length -= 1;
  return length;
}

/** A number as 0.DIGITS times a power of ten, without zeros at either end of the digits. */
interface Digits {
  readonly sign: -1 | 0 | 1;
  readonly digits: string;
  readonly power: number;
}

function digitsOf(text: string): Digits {
  const [mantissa = '', exponent = '0'] = text.toLowerCase().split('e', 2);
  const [whole = '', fraction = ''] = mantissa.replace(/^[+-]/, '').split('.', 2);
  const all = whole + fraction;
  const length = significant(all);
  let first = 0;
  while (first < length && all[first] === '0') first += 1;
  const digits = all.slice(first, length);
  const power = whole.length - first + Number(exponent);
  return { sign: digits === '' ? 0 : mantissa.startsWith('-') ? -1 : 1, digits, power };
}

/** The digits of a JSON number that is whole however it is written (1.0, 1e3); any other text as it is. */
export function wholeText(source: string): string {
  const match = source.length < 1000 && /^-?\d+(?:\.(\d+))?(?:e([+-]?\d{1,3}))?$/i.exec(source);
  if (!match || (match[1] === undefined && match[2] === undefined)) return source;
  const { sign, digits, power } = digitsOf(source);
  if (sign === 0) return '0';
  return digits.length > power ? source : `${sign < 0 ? '-' : ''}${digits.padEnd(power, '0')}`;
}

/** Compares numbers by their digits: JavaScript's numbers lose digits, and making BigInts of long texts is not linear. */
function isLess(one: string, other: string): boolean {
  const [a, b] = [digitsOf(one), digitsOf(other)];
  if (a.sign !== b.sign || a.sign === 0) return a.sign < b.sign;
  const [small, large] = a.sign > 0 ? [a, b] : [b, a];
  return small.power === large.power ? small.digits < large.digits : small.power < large.power;
}

export const isSameNumber = (one: string, other: string): boolean =>
  !isLess(one, other) && !isLess(other, one);

/** A value that a column may hold already, but that none may write. */
export const notFinite = (value: string): Parsed => ({ fault: 'must be a finite value', value });

/** Holds a number to `min` and `max`. */
export function checkNumber(parsed: Parsed, { min, max }: Facts): Parsed {
  if (parsed.fault !== undefined) return parsed;
  const { value } = parsed;
  if (FLOATS.has(value)) return notFinite(value);
  if (min !== undefined && isLess(value, String(min))) return { fault: `must be at least ${min}`, value };
  if (max !== undefined && isLess(String(max), value)) return { fault: `must be at most ${max}`, value };
  return parsed;
}

/** Stands for an array or object whose text was scanned already, and can be stored. */
export const STORABLE = Object.freeze({});

/** Whether PostgreSQL can store what has these facts. */
export const isStorable = ({ depth, hasNul, hasLoneSurrogate, hasHugeNumber }: JsonFacts): boolean =>
  depth <= MAX_DEPTH && !hasNul && !hasLoneSurrogate && !hasHugeNumber;

/** A JSON value that PostgreSQL can store, as the text that was sent. */
export function checkJson(value: unknown, source: string): Parsed {
  if (value === STORABLE && source.isWellFormed()) return { value: source };
  const facts = scanJson(source);
  if (!facts) return { fault: 'must be JSON' };
  if (facts.hasNul) return { fault: NUL_FAULT };
  if (facts.hasLoneSurrogate || !source.isWellFormed()) return { fault: SURROGATE_FAULT };
  if (facts.depth > MAX_DEPTH)
    return facts.depth <= MAX_KEPT_DEPTH ? { fault: TOO_DEEP, value: source } : { fault: TOO_DEEP };
  return facts.hasHugeNumber ? { fault: 'has a number that is too large or too small' } : { value: source };
}
