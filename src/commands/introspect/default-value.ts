// Column defaults: from PostgreSQL's expression to the value in a registry.
import type { ColumnType } from '../../db/types/column-type.ts';
import type { TypeName } from '../../db/types/column-types.ts';

/** A value in the printed registry file. */
export type Printed =
  string | number | boolean | null | readonly Printed[] | { readonly [key: string]: Printed };

const NUMBER = /^\(?(-?\d+(?:\.\d+)?)\)?(?:::[\w ]+(?:\([\d,]+\))?)?$/;
const QUOTED = /^'((?:[^']|'')*)'(?:::[^']+)?$/;
const CAST = String.raw`::[\w ]+(?:\(\d\))?(?: with(?:out)? time zone)?`;
/** Expressions for the current time, without further arithmetic. */
const NOW = new RegExp(
  String.raw`^\(*(?:(?:now|transaction_timestamp|statement_timestamp|clock_timestamp)\(\)|(?:current_timestamp|localtimestamp|current_date|current_time|localtime)(?:\(\d\))?)(?:\)|${CAST}| at time zone '(?:utc|etc/utc|gmt)'(?:${CAST})?)*$`,
  'i',
);

/**
 * A number, or its digits as a string when a number would lose some or the registry check would suspect that. Columns whose JSON
 * is a number take no string, and store no more digits than a number has.
 */
function parseNumber(digits: string, { input }: ColumnType): number | string {
  const value = Number(digits);
  if (input.json === 'number') return value;
  return Math.abs(value) <= Number.MAX_SAFE_INTEGER && String(value) === digits ? value : digits;
}

function parseJson(text: string): Printed | undefined {
  try {
    return JSON.parse(text) as Printed;
  } catch {
    return undefined;
  }
}

/**
 * The default of a column in a registry. Undefined for computed defaults: the database applies those in any case.
 * @param expression as PostgreSQL prints it
 */
export function defaultOf(
  expression: string | null,
  name: TypeName | 'array' | 'foreignKey',
  type: ColumnType,
): Printed | undefined {
  if (expression === null) return undefined;
  if (type.now !== undefined && NOW.test(expression)) return 'now';
  if (name === 'boolean') return expression === 'true' ? true : expression === 'false' ? false : undefined;
  const [, quoted] = QUOTED.exec(expression) ?? [];
  const text = quoted?.replaceAll("''", "'");
  if (name === 'array') return text === '{}' ? [] : undefined;
  if (name === 'json') return text === undefined ? undefined : (parseJson(text) ?? undefined);
  if (type.input.control !== 'number') return text;
  const [, digits] = NUMBER.exec(text ?? expression) ?? [];
  return digits === undefined ? undefined : parseNumber(digits, type);
}
