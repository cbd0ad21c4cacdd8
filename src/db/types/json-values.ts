// Validates the texts, numbers and JSON values of filters and bodies, so that PostgreSQL can store them.
import type { Facts, Parsed } from './column-type.ts';
import { addedDigits, MAX_WRITTEN, writtenDigits } from './exponents.ts';
import { NUMERIC_FRACTION, NUMERIC_WHOLE, jsonErrorAt, scanJson, type JsonFacts } from './json-scanner.ts';
import { linearPattern } from './linear-pattern.ts';
import { messageOf, type Message } from '../../messages.ts';

/** Maximum nesting of a new JSON value, and of one that a record already has. PostgreSQL's parser fails at some thousands. */
const MAX_DEPTH = 512;
const MAX_KEPT_DEPTH = 5000;
/** Maximum length of a number in characters: the digits of numeric, a sign, a point and an exponent. */
const MAX_NUMBER = NUMERIC_WHOLE + NUMERIC_FRACTION + 12;

/** The minimum and maximum of each integer type. */
export const INTEGERS: Readonly<Record<string, readonly [bigint, bigint]>> = {
  int2: [-(2n ** 15n), 2n ** 15n - 1n],
  int4: [-(2n ** 31n), 2n ** 31n - 1n],
  int8: [-(2n ** 63n), 2n ** 63n - 1n],
};

/** The numbers that JSON cannot express, as PostgreSQL outputs them. */
export const NON_FINITE: ReadonlySet<string> = new Set(['NaN', 'Infinity', '-Infinity']);

/** Why PostgreSQL cannot store a text; undefined if it can. */
function textFault(text: string): Message | undefined {
  if (text.includes('\0')) return messageOf('nulCharacter');
  if (!text.isWellFormed()) return messageOf('loneSurrogate');
  return undefined;
}

/** The length in code points, as PostgreSQL counts: a surrogate pair is one character. */
function countCharacters(text: string): number {
  let count = text.length;
  for (let at = 0; at < text.length; at += 1) if ((text.charCodeAt(at) & 0xfc00) === 0xd800) count -= 1;
  return count;
}

/** Validates a string: its length, its pattern, and for an enum its label. */
export function checkText(value: unknown, { maxLength, labels, pattern }: Omit<Facts, 'castType'>): Parsed {
  if (typeof value !== 'string') return { fault: messageOf('notString') };
  const fault = textFault(value);
  if (fault) return { fault };
  if (labels && !labels.includes(value))
    return { fault: messageOf('notLabel', { names: labels.join(', ') }) };
  // A text has at most as many characters as UTF-16 units, so most texts need no count.
  const length = maxLength === undefined || value.length <= maxLength ? 0 : countCharacters(value);
  if (length > (maxLength ?? 0))
    return { fault: messageOf('tooLong', { max: maxLength ?? 0, got: length }), value };
  return pattern === undefined || linearPattern(pattern).test(value)
    ? { value }
    : { fault: messageOf('notMatching', { pattern }), value };
}

/** Parses a whole number and checks the range of the column's type. */
export function integer(text: string, { castType }: Facts): Parsed {
  if (!/^-?\d{1,1000}$/.test(text)) return { fault: messageOf('notWhole') };
  const number = BigInt(text);
  const [min, max] = INTEGERS[castType] ?? INTEGERS['int8']!;
  return number >= min && number <= max
    ? { value: number.toString() }
    : { fault: messageOf('notInRange', { min, max }) };
}

// Unambiguous, so that matching is linear. With `\d+\.?\d*` a run of digits could be split in many ways.
const NUMBER = /^[+-]?(\d+(?:\.\d*)?|\.\d+)(e[+-]?\d+)?$/i;

/** Checks the length before the pattern runs. */
const isNumber = (text: string): boolean => text.length <= MAX_NUMBER && NUMBER.test(text);

/** Parses a floating-point number. One that is too small for JavaScript becomes zero. */
export function float(text: string, { castType }: Facts): Parsed {
  if (NON_FINITE.has(text)) return { value: text };
  if (!isNumber(text)) return { fault: messageOf('notNumber') };
  const number = Number(text);
  const stored = castType === 'float4' ? Math.fround(number) : number;
  if (!Number.isFinite(stored)) return { fault: messageOf('tooLargeNumber') };
  if (stored === 0) return { value: text.startsWith('-') ? '-0' : '0' };
  return { value: String(number) };
}

/** Parses a decimal number that the column can store without rounding. */
export function decimal(text: string, { precision, scale = 0 }: Omit<Facts, 'castType'>): Parsed {
  if (NON_FINITE.has(text)) return { value: text };
  if (text.length > MAX_NUMBER) return { fault: messageOf('tooLong', { max: MAX_NUMBER, got: text.length }) };
  const match = NUMBER.exec(text);
  if (!match) return { fault: messageOf('notDecimal') };
  const exponent = Number(match[2]?.slice(1) ?? 0);
  const [whole = '', fraction = ''] = (match[1] ?? '').split('.');
  const digits = whole + fraction;
  const first = digits.search(/[1-9]/);
  const point = whole.length + exponent;
  if (Math.abs(exponent) > NUMERIC_WHOLE) return { fault: messageOf('outOfRange') };
  if (first < 0 && point - digits.length < -NUMERIC_FRACTION) return { fault: messageOf('outOfRange') };
  const [maxBefore, maxAfter] =
    precision === undefined ? [NUMERIC_WHOLE, NUMERIC_FRACTION] : [precision - scale, scale];
  if (first >= 0 && point - first > maxBefore) {
    const fault = maxBefore > 0 ? messageOf('digitsBefore', { max: maxBefore }) : messageOf('tooLargeNumber');
    return { fault };
  }
  if (first >= 0 && lengthWithoutZeros(digits) - point > maxAfter) {
    const fault = maxAfter >= 0 ? messageOf('digitsAfter', { max: maxAfter }) : messageOf('digitsInAll');
    return { fault };
  }
  if (match[2] === undefined) return { value: text };
  const written = writtenDigits(whole.length, fraction.length, exponent);
  if (written > MAX_WRITTEN)
    return {
      fault: messageOf('digitsWritten', { max: MAX_WRITTEN, got: written }),
    };
  return withDigits(text, addedDigits(written, text.length));
}

const withDigits = (value: string, added: number): Parsed =>
  added > 0 ? { value, addedDigits: added } : { value };

/** The length without trailing zeros. A loop, because a pattern would not be linear. */
function lengthWithoutZeros(digits: string): number {
  let length = digits.length;
  while (digits[length - 1] === '0') length -= 1;
  return length;
}

/** A number as 0.DIGITS times a power of ten. The digits have no leading or trailing zeros. */
interface Digits {
  readonly sign: -1 | 0 | 1;
  readonly digits: string;
  readonly power: number;
}

function digitsOf(text: string): Digits {
  const [mantissa = '', exponent = '0'] = text.toLowerCase().split('e', 2);
  const [whole = '', fraction = ''] = mantissa.replace(/^[+-]/, '').split('.', 2);
  const all = whole + fraction;
  const length = lengthWithoutZeros(all);
  let first = 0;
  while (first < length && all[first] === '0') first += 1;
  const digits = all.slice(first, length);
  const power = whole.length - first + Number(exponent);
  return { sign: digits === '' ? 0 : mantissa.startsWith('-') ? -1 : 1, digits, power };
}

/** Rewrites a JSON number with a whole value (1.0, 1e3) as plain digits. Returns other texts unchanged. */
export function wholeText(source: string): string {
  const match = source.length < 1000 && /^-?\d+(?:\.(\d+))?(?:e([+-]?\d{1,3}))?$/i.exec(source);
  if (!match || (match[1] === undefined && match[2] === undefined)) return source;
  const { sign, digits, power } = digitsOf(source);
  if (sign === 0) return '0';
  return digits.length > power ? source : `${sign < 0 ? '-' : ''}${digits.padEnd(power, '0')}`;
}

/** Compares numbers by their digits: JavaScript numbers lose digits, and parsing a long BigInt is not linear. */
function isLess(one: string, other: string): boolean {
  const [a, b] = [digitsOf(one), digitsOf(other)];
  if (a.sign !== b.sign || a.sign === 0) return a.sign < b.sign;
  const [small, large] = a.sign > 0 ? [a, b] : [b, a];
  return small.power === large.power ? small.digits < large.digits : small.power < large.power;
}

/** A text that is the same for numbers with the same value, such as 1.5 and 1.50. */
export function numberKey(text: string): string {
  if (NON_FINITE.has(text)) return text;
  const { sign, digits, power } = digitsOf(text);
  return sign === 0 ? '0' : `${sign}e${power}:${digits}`;
}

/** A fault for a value that a record may keep, but not get. */
export const notFinite = (value: string): Parsed => ({ fault: messageOf('notFinite'), value });

/** Checks a parsed number against `min` and `max`. */
export function checkNumber(parsed: Parsed, { min, max }: Facts): Parsed {
  if (parsed.fault !== undefined) return parsed;
  const { value } = parsed;
  if (NON_FINITE.has(value)) return notFinite(value);
  if (min !== undefined && isLess(value, String(min)))
    return { ...parsed, fault: messageOf('belowMin', { min }) };
  if (max !== undefined && isLess(String(max), value))
    return { ...parsed, fault: messageOf('aboveMax', { max }) };
  return parsed;
}

/** Represents an array or object whose text was already scanned. */
export class ScannedJson {
  readonly facts: JsonFacts;

  constructor(facts: JsonFacts) {
    this.facts = facts;
  }
}

/** Why PostgreSQL cannot store a text as `jsonb`; undefined if it can. */
function jsonbFault(
  { hasNul, hasLoneSurrogate, hasHugeNumber }: JsonFacts,
  source: string,
): Message | undefined {
  if (hasNul) return messageOf('nulCharacter');
  if (hasLoneSurrogate || !source.isWellFormed()) return messageOf('loneSurrogate');
  return hasHugeNumber ? messageOf('hugeNumber', { max: MAX_WRITTEN }) : undefined;
}

/**
 * Checks that PostgreSQL can store a JSON value as `jsonb`. The result is the text that the client sent. A column of PostgreSQL's type
 * `json` may hold others from other programs.
 */
export function checkJson(value: unknown, source: string, { castType }: Partial<Facts> = {}): Parsed {
  const facts = value instanceof ScannedJson ? value.facts : scanJson(source);
  if (typeof facts === 'number')
    return { fault: messageOf('notJson', { reason: jsonErrorAt(source, facts) }) };
  const fault = jsonbFault(facts, source);
  if (fault !== undefined) return castType === 'json' ? { fault, value: source, isText: true } : { fault };
  if (facts.depth > MAX_DEPTH) {
    const tooDeep = messageOf('tooDeepJson', { max: MAX_DEPTH });
    return facts.depth <= MAX_KEPT_DEPTH ? { fault: tooDeep, value: source } : { fault: tooDeep };
  }
  return withDigits(source, facts.addedDigits);
}
