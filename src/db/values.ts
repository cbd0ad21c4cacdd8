import type { Facts, Parsed } from './column-type.ts';

/** How deep a JSON value may nest, and one that is there already: PostgreSQL's own parser gives up at some thousands. */
const MAX_DEPTH = 512;
const MAX_KEPT_DEPTH = 5000;
const TOO_DEEP = `must not nest deeper than ${MAX_DEPTH}`;
/** The digits that numeric holds before and after the point. */
const NUMERIC_WHOLE = 131_072;
const NUMERIC_FRACTION = 16_383;

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
  if (text.includes('\0')) return 'must not contain a NUL character';
  if (!text.isWellFormed()) return 'must not contain half of a surrogate pair';
  return undefined;
}

/** Characters as PostgreSQL counts them: code points, so a surrogate pair is one. */
const countCharacters = (text: string): number => text.length - (text.match(/[\uD800-\uDBFF]/g)?.length ?? 0);

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

const NUMBER = /^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i;

/** A floating-point number; one that is too small to be told from zero is zero, as JavaScript has it. */
export function float(text: string, { castType }: Facts): Parsed {
  if (FLOATS.has(text)) return { value: text };
  if (!NUMBER.test(text)) return { fault: 'must be a number' };
  const number = Number(text);
  const stored = castType === 'float4' ? Math.fround(number) : number;
  if (!Number.isFinite(stored)) return { fault: 'is too large' };
  if (stored === 0) return { value: text.startsWith('-') ? '-0' : '0' };
  return { value: String(number) };
}

/** An exact number that its column stores without rounding. */
export function decimal(text: string, { precision, scale = 0 }: Omit<Facts, 'castType'>): Parsed {
  if (FLOATS.has(text)) return { value: text };
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

/** A number as a whole number times a power of ten. */
function scaled(text: string): [bigint, number] {
  const [mantissa = '', exponent = '0'] = text.toLowerCase().split('e');
  const [whole = '', fraction = ''] = mantissa.replace('+', '').split('.');
  return [BigInt(whole + fraction), Number(exponent) - fraction.length];
}

/** The digits of a JSON number that is whole however it is written (1.0, 1e3); any other text as it is. */
export function wholeText(source: string): string {
  const match = source.length < 1000 && /^-?\d+(?:\.(\d+))?(?:e([+-]?\d{1,3}))?$/i.exec(source);
  if (!match || (match[1] === undefined && match[2] === undefined)) return source;
  const [digits, power] = scaled(source);
  if (power >= 0) return (digits * 10n ** BigInt(power)).toString();
  const unit = 10n ** BigInt(-power);
  return digits % unit === 0n ? (digits / unit).toString() : source;
}

/** Compares numbers digit by digit: as JavaScript's they would lose those past the sixteenth. */
function isLess(one: string, other: string): boolean {
  const [a, aPower] = scaled(one);
  const [b, bPower] = scaled(other);
  const power = Math.min(aPower, bPower);
  return a * 10n ** BigInt(aPower - power) < b * 10n ** BigInt(bPower - power);
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

/** A JSON value that PostgreSQL can store; it is passed on as the text that was sent. */
export function checkJson(value: unknown, source: string): Parsed {
  const fault =
    jsonFault(value, 0) ??
    (hasHugeExponent(source) ? 'has a number that is too large or too small' : undefined);
  if (fault === TOO_DEEP && depthOf(source) <= MAX_KEPT_DEPTH) return { fault, value: source };
  return fault ? { fault } : { value: source };
}

/** An exponent of four digits or more, or more digits than jsonb's numbers hold; inside strings they are texts like any other. */
function hasHugeExponent(source: string): boolean {
  // Digits are counted from the first one of a run: from each of them it would take minutes.
  const huge = /e[+-]?0*[1-9]\d{3}|(?<!\d)\d{131073}|\.\d{16384}/i;
  return huge.test(source) && huge.test(withoutStrings(source));
}

const withoutStrings = (source: string): string => source.replace(/"[^"\\]*(?:\\.[^"\\]*)*"/gs, '');

/** How deep a JSON text nests, told without a call for each level. */
function depthOf(source: string): number {
  let depth = 0;
  let most = 0;
  for (const [bracket] of withoutStrings(source).matchAll(/[[\]{}]/g)) {
    depth += bracket === '[' || bracket === '{' ? 1 : -1;
    most = Math.max(most, depth);
  }
  return most;
}

function jsonFault(value: unknown, depth: number): string | undefined {
  if (typeof value === 'string') return textFault(value);
  if (typeof value !== 'object' || value === null) return undefined;
  if (depth >= MAX_DEPTH) return TOO_DEEP;
  for (const [key, item] of Object.entries(value)) {
    const fault = textFault(key) ?? jsonFault(item, depth + 1);
    if (fault) return fault;
  }
  return undefined;
}
