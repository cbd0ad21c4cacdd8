// Building blocks of column types: operator sets, parsers and SQL output expressions.
import type { Facts, Operator, Parsed } from './column-type.ts';
import { raw, sql, type Fragment } from '../fragment.ts';
import { checkNumber, notFinite } from './json-values.ts';
import { messageOf } from '../../messages.ts';

export const EQUALITY: readonly Operator[] = ['eq', 'ne', 'in', 'is'];
const ORDER: readonly Operator[] = ['lt', 'lte', 'gt', 'gte'];
export const operators = (...groups: (readonly Operator[])[]): ReadonlySet<Operator> =>
  new Set(groups.flat());
export const ORDERED = operators(EQUALITY, ORDER);
export const TEXTUAL = operators(EQUALITY, ORDER, ['like', 'ilike']);

export const asItIs = (column: Fragment): Fragment => column;
export const asText = (column: Fragment): Fragment => sql`${column}::text`;
/** Strips the padding of `char(n)`, as every cast to text does. */
export const withoutPadding = (column: Fragment, { castType }: Facts): Fragment =>
  castType === 'bpchar' ? asText(column) : column;

/** Parses a JSON string with the parser for filters. */
export const fromString =
  (parse: (text: string, facts: Facts) => Parsed) =>
  (value: unknown, _source: string, facts: Facts): Parsed =>
    typeof value === 'string' ? parse(value, facts) : { fault: messageOf('notString') };

/** Parses a JSON string or number with the parser for filters. A number keeps the digits that the client sent. */
export const fromDigits =
  (parse: (text: string, facts: Facts) => Parsed) =>
  (value: unknown, source: string, facts: Facts): Parsed => {
    if (typeof value !== 'number' && typeof value !== 'string') return { fault: messageOf('notDigits') };
    return checkNumber(parse(typeof value === 'number' ? source : value, facts), facts);
  };

/** Keeps fractions of a second, which the output hides, when a client sends the shown value back. */
export const keepHidden =
  (output: (column: Fragment, facts: Facts) => Fragment) =>
  (value: Fragment, present: Fragment, facts: Facts): Fragment =>
    facts.fractionalSecondDigits
      ? sql`case when ${output(present, facts)} = ${output(value, { ...facts, fractionalSecondDigits: 6 })} then ${present} else ${value} end`
      : value;

const isInfinite = (text: string): boolean => /^-?infinity$/.test(text);
/** Also accepts `infinity` and `-infinity`, as filters do. */
export const allowInfinity = (parse: (text: string) => Parsed) => (text: string) =>
  isInfinite(text) ? { value: text } : parse(text);
/** For bodies: rejects values that YYYY-MM-DD cannot express. A record may keep such a value, so the fault carries it. */
export const requirePlainDate =
  (parse: (text: string) => Parsed) =>
  (text: string): Parsed => {
    if (isInfinite(text)) return notFinite(text);
    const parsed = parse(text);
    const isOutside = parsed.fault === undefined && /^\d{5}|BC$/.test(parsed.value);
    return isOutside ? { fault: messageOf('notYear'), value: parsed.value } : parsed;
  };

export const dateTimeOutput = (column: Fragment, { castType, fractionalSecondDigits }: Facts): Fragment => {
  const utc = castType === 'timestamptz' ? sql`(${column} at time zone 'UTC')` : column;
  return fractionalSecondDigits ? sql`date_trunc('second', ${utc})::text` : sql`${utc}::text`;
};
/** The same moment as `dateTimeOutput` in ISO 8601. Values that ISO 8601 has no text for stay as they are. */
export const isoDateTimeOutput = (column: Fragment, facts: Facts): Fragment => {
  const plain = dateTimeOutput(column, facts);
  const isPlain = sql`isfinite(${column}) and ${column} >= '0001-01-01'`;
  return sql`case when ${isPlain} then replace(${plain}, ' ', 'T') || 'Z' else ${plain} end`;
};
export const timeOutput = (column: Fragment, { fractionalSecondDigits }: Facts): Fragment =>
  fractionalSecondDigits ? sql`to_char(${column}, 'HH24:MI:SS')` : asText(column);

/** The JSON of an array whose elements are JSON strings. */
export const arrayOfTexts = (array: Fragment): Fragment => sql`to_json(${array}::text[])`;

/** The JSON or the text of an array of times without fractions of a second. Works for any dimensions. */
const withoutFractions = (text: Fragment): Fragment => sql`regexp_replace(${text}, '\\.[0-9]+', '', 'g')`;

export const dateTimesOutput = (array: Fragment, { castType, fractionalSecondDigits }: Facts): Fragment => {
  // The time zone of every session is UTC.
  const shown = arrayOfTexts(castType === 'timestamptz' ? sql`${array}::timestamp[]` : array);
  return fractionalSecondDigits ? withoutFractions(sql`${shown}::text`) : sql`${shown}::text`;
};
/** The same moments in ISO 8601. Values that ISO 8601 has no text for stay as they are. */
export const isoDateTimesOutput = (array: Fragment, facts: Facts): Fragment =>
  sql`regexp_replace(${dateTimesOutput(array, facts)}, '"([0-9-]+) ([0-9:]+)"', '"\\1T\\2Z"', 'g')`;
export const timesOutput = (array: Fragment, { fractionalSecondDigits }: Facts): Fragment =>
  fractionalSecondDigits ? withoutFractions(sql`${arrayOfTexts(array)}::text`) : arrayOfTexts(array);
/** An array of times as filters compare it: without the fractions that the output hides. */
export const timesInSeconds = (array: Fragment, { castType, fractionalSecondDigits }: Facts): Fragment =>
  fractionalSecondDigits ? sql`${withoutFractions(sql`${array}::text`)}::${raw(`${castType}[]`)}` : array;

/** A JSON value as a body has it: `json` keeps outer whitespace. */
export const jsonText = (column: Fragment): Fragment => sql`btrim(${column}::text, E' \\t\\n\\r')`;

/** Parses a UUID in its canonical form and converts it to lower case. */
export function uuid(text: string): Parsed {
  const canonical = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i;
  return canonical.test(text) ? { value: text.toLowerCase() } : { fault: messageOf('notUuid') };
}
