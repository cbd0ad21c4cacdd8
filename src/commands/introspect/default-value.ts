import type { ColumnType } from '../../db/types/column-type.ts';
import type { TypeName } from '../../db/types/column-types.ts';

/** A value of the file to be printed: plain data. */
export type Printed =
  string | number | boolean | null | readonly Printed[] | { readonly [key: string]: Printed };

const NUMBER = /^\(?(-?\d+(?:\.\d+)?)\)?(?:::[\w ]+(?:\([\d,]+\))?)?$/;
const QUOTED = /^'((?:[^']|'')*)'(?:::[^']+)?$/;
const CAST = String.raw`::[\w ]+(?:\(\d\))?(?: with(?:out)? time zone)?`;
/** The present moment, and nothing added to it. */
const NOW = new RegExp(
  String.raw`^\(*(?:(?:now|transaction_timestamp|statement_timestamp|clock_timestamp)\(\)|(?:current_timestamp|localtimestamp|current_date|current_time|localtime)(?:\(\d\))?)(?:\)|${CAST}| at time zone '(?:utc|etc/utc|gmt)'(?:${CAST})?)*$`,
  'i',
);

/** A number as JavaScript has it, or its digits where that would lose some, or might as far as the registry's check can tell. */
function number(digits: string, { input }: ColumnType): number | string {
  const value = Number(digits);
  const isSafe = input.json === 'number' || Math.abs(value) <= Number.MAX_SAFE_INTEGER;
  return isSafe && Number.isFinite(value) && String(value) === digits ? value : digits;
}

function parseJson(text: string): Printed | undefined {
  try {
    return JSON.parse(text) as Printed;
  } catch {
    return undefined;
  }
}

/**
 * The default of a column as a registry says it, where it is a plain value and no computation: the database computes those
 * anyway, whatever the registry says.
 * @param expression as PostgreSQL prints it
 */
export function defaultOf(
  expression: string | null,
  name: TypeName | 'foreignKey',
  type: ColumnType,
): Printed | undefined {
  if (expression === null) return undefined;
  if (type.now !== undefined && NOW.test(expression)) return 'now';
  if (name === 'boolean') return expression === 'true' ? true : expression === 'false' ? false : undefined;
  const [, quoted] = QUOTED.exec(expression) ?? [];
  const text = quoted?.replaceAll("''", "'");
  if (name === 'json') return text === undefined ? undefined : (parseJson(text) ?? undefined);
  if (type.input.control !== 'number') return text;
  const [, digits] = NUMBER.exec(text ?? expression) ?? [];
  return digits === undefined ? undefined : number(digits, type);
}
