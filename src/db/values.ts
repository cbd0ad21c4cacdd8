import type { Facts, Parsed } from './column-types.ts';

/** How deep a JSON value may nest: PostgreSQL's own parser gives up at some thousands. */
const MAX_DEPTH = 512;
/** numeric holds 131,072 digits; nobody means that many. */
const MAX_DIGITS = 1000;

/** The range of each whole-number type. */
export const INTEGERS: Readonly<Record<string, readonly [bigint, bigint]>> = {
  int2: [-(2n ** 15n), 2n ** 15n - 1n],
  int4: [-(2n ** 31n), 2n ** 31n - 1n],
  int8: [-(2n ** 63n), 2n ** 63n - 1n],
};

/** The numbers that JSON cannot write, as PostgreSQL outputs them. */
export const FLOATS: ReadonlySet<string> = new Set(['NaN', 'Infinity', '-Infinity']);

/** What PostgreSQL cannot store in a text, or undefined. */
export function textFault(text: string): string | undefined {
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
    return { fault: `must have at most ${maxLength} characters` };
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
  if (FLOATS.has(text)) return { value: text, special: true };
  if (!NUMBER.test(text)) return { fault: 'must be a number' };
  const number = Number(text);
  const stored = castType === 'float4' ? Math.fround(number) : number;
  if (!Number.isFinite(stored)) return { fault: 'is too large' };
  return { value: stored === 0 ? '0' : String(number) };
}

/** An exact number that its column stores without rounding. */
export function decimal(text: string, { precision, scale }: Omit<Facts, 'castType'>): Parsed {
  if (FLOATS.has(text)) return { value: text, special: true };
  const match = NUMBER.exec(text);
  if (!match || text.length > MAX_DIGITS) return { fault: 'must be a decimal number' };
  const exponent = Number(match[2]?.slice(1) ?? 0);
  if (Math.abs(exponent) > MAX_DIGITS) return { fault: 'is out of range' };
  if (precision === undefined) return { value: text };
  const [whole = '', fraction = ''] = (match[1] ?? '').split('.');
  const digits = whole + fraction;
  const point = whole.length + exponent;
  const before =
    digits.slice(0, Math.max(0, point)).replace(/^0+/, '').length + Math.max(0, point - digits.length);
  const after = digits.replace(/0+$/, '').length - point;
  if (/[1-9]/.test(digits)) {
    if (before > precision - (scale ?? 0))
      return { fault: `must have at most ${precision - (scale ?? 0)} digits before the point` };
    if (after > (scale ?? 0)) return { fault: `must have at most ${scale ?? 0} digits after the point` };
  }
  return { value: text };
}

/** Holds a number to `min` and `max`. */
export function checkNumber(parsed: Parsed, { min, max }: Facts): Parsed {
  if ('fault' in parsed || parsed.special) return parsed;
  if (min !== undefined && Number(parsed.value) < min) return { fault: `must be at least ${min}` };
  if (max !== undefined && Number(parsed.value) > max) return { fault: `must be at most ${max}` };
  return parsed;
}

/** A JSON value that PostgreSQL can store; it is passed on as the text that was sent. */
export function checkJson(value: unknown, source: string): Parsed {
  const fault =
    jsonFault(value, 0) ??
    (hasHugeExponent(source) ? 'has a number that is too large or too small' : undefined);
  return fault ? { fault } : { value: source };
}

/** An exponent of four digits or more, past what jsonb's numbers hold; inside strings it is a text like any other. */
function hasHugeExponent(source: string): boolean {
  const huge = /e[+-]?0*[1-9]\d{3}/i;
  return huge.test(source) && huge.test(source.replace(/"[^"\\]*(?:\\.[^"\\]*)*"/gs, ''));
}

function jsonFault(value: unknown, depth: number): string | undefined {
  if (typeof value === 'string') return textFault(value);
  if (typeof value === 'number') return Number.isFinite(value) ? undefined : 'has a number that is too large';
  if (typeof value !== 'object' || value === null) return undefined;
  if (depth >= MAX_DEPTH) return `must not nest deeper than ${MAX_DEPTH}`;
  for (const [key, item] of Object.entries(value)) {
    const fault = textFault(key) ?? jsonFault(item, depth + 1);
    if (fault) return fault;
  }
  return undefined;
}
