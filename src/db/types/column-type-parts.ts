// What column types are put together from: which operators fit, how values are read, how they are shown.
import type { Facts, Operator, Parsed } from './column-type.ts';
import { sql, type Fragment } from '../fragment.ts';
import { checkNumber, notFinite } from './json-values.ts';

export const EQUALITY: readonly Operator[] = ['eq', 'ne', 'in', 'is'];
const ORDER: readonly Operator[] = ['lt', 'lte', 'gt', 'gte'];
export const operators = (...groups: (readonly Operator[])[]): ReadonlySet<Operator> =>
  new Set(groups.flat());
export const ORDERED = operators(EQUALITY, ORDER);
export const TEXTUAL = operators(EQUALITY, ORDER, ['like', 'ilike']);

export const asItIs = (column: Fragment): Fragment => column;
export const asText = (column: Fragment): Fragment => sql`${column}::text`;
export const padded = (column: Fragment, { castType }: Facts): Fragment =>
  castType === 'bpchar' ? asText(column) : column;

/** Reads a string of a body with the parser of filters. */
export const fromString =
  (parse: (text: string, facts: Facts) => Parsed) =>
  (value: unknown, _source: string, facts: Facts): Parsed =>
    typeof value === 'string' ? parse(value, facts) : { fault: 'must be a string' };

/** Reads a string or a number of a body with the parser of filters; a number by its digits as they were sent. */
export const fromDigits =
  (parse: (text: string, facts: Facts) => Parsed) =>
  (value: unknown, source: string, facts: Facts): Parsed => {
    if (typeof value !== 'number' && typeof value !== 'string')
      return { fault: 'must be a number or a string of digits' };
    return checkNumber(parse(typeof value === 'number' ? source : value, facts), facts);
  };

/** Keeps what the output hides (fractions of a second) when a value comes back as it was shown. */
export const keepHidden =
  (output: (column: Fragment, facts: Facts) => Fragment) =>
  (value: Fragment, present: Fragment, facts: Facts): Fragment =>
    facts.fractional
      ? sql`case when ${output(present, facts)} = ${output(value, { ...facts, fractional: true })} then ${present} else ${value} end`
      : value;

const isInfinite = (text: string): boolean => /^-?infinity$/.test(text);
export const infinite = (parse: (text: string) => Parsed) => (text: string) =>
  isInfinite(text) ? { value: text } : parse(text);
/** For bodies: what the output could not show as YYYY-MM-DD may stay where it is, and is not written anew. */
export const finite =
  (parse: (text: string) => Parsed) =>
  (text: string): Parsed => {
    if (isInfinite(text)) return notFinite(text);
    const parsed = parse(text);
    const isOutside = parsed.fault === undefined && /^\d{5}|BC$/.test(parsed.value);
    return isOutside ? { fault: 'must be of a year from 1 to 9999', value: parsed.value } : parsed;
  };

export const dateTimeOutput = (column: Fragment, { castType, fractional }: Facts): Fragment => {
  const utc = castType === 'timestamptz' ? sql`(${column} at time zone 'UTC')` : column;
  return fractional ? sql`date_trunc('second', ${utc})::text` : sql`${utc}::text`;
};
export const timeOutput = (column: Fragment, { fractional }: Facts): Fragment =>
  fractional ? sql`to_char(${column}, 'HH24:MI:SS')` : asText(column);

/** A UUID in its usual form, in lower case. */
export function uuid(text: string): Parsed {
  const canonical = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i;
  return canonical.test(text) ? { value: text.toLowerCase() } : { fault: 'must be a UUID' };
}
