// What a column of the database is in a registry: its type, its default, and its choices by a check constraint.
import type { CatalogColumn } from '../../db/schema/catalog.ts';
import { ARRAY_TYPES, type ElementTypeName } from '../../db/types/array-types.ts';
import { COLUMN_TYPES, type TypeName } from '../../db/types/column-types.ts';
import type { ColumnType } from '../../db/types/column-type.ts';

/** A value in the printed registry file. */
export type Printed =
  string | number | boolean | null | readonly Printed[] | { readonly [key: string]: Printed };

/** The column types of the registry; `accepts` lists the PostgreSQL types of each. */
const TYPES = Object.entries(COLUMN_TYPES).filter(([name]) => name !== 'password') as [
  TypeName,
  ColumnType,
][];
const ARRAYS = Object.entries(ARRAY_TYPES) as [ElementTypeName, ColumnType][];

/** A column type of a registry: its name, and for an array that of its elements. */
export interface NamedType {
  readonly name: TypeName | 'array' | 'foreignKey';
  readonly of?: ElementTypeName;
  readonly type: ColumnType;
}

/** The simplest column type for a stored column; undefined when no type accepts it. */
export function typeFor({ type }: CatalogColumn): NamedType | undefined {
  if (type === 'text') return { name: 'text', type: COLUMN_TYPES.text };
  if (type === 'text[]') return { name: 'array', of: 'text', type: ARRAY_TYPES.text };
  const found = TYPES.find(([, { accepts }]) => accepts.includes(type));
  if (found) return { name: found[0], type: found[1] };
  const array = ARRAYS.find(([, { accepts }]) => accepts.includes(type));
  return array && { name: 'array', of: array[0], type: array[1] };
}

const NUMBER_DEFAULT = /^\(?(-?\d+(?:\.\d+)?)\)?(?:::[\w ]+(?:\([\d,]+\))?)?$/;
const QUOTED_DEFAULT = /^'((?:[^']|'')*)'(?:::[^']+)?$/;
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
  const [, quoted] = QUOTED_DEFAULT.exec(expression) ?? [];
  const text = quoted?.replaceAll("''", "'");
  if (name === 'array') return text === '{}' ? [] : undefined;
  if (name === 'json') return text === undefined ? undefined : (parseJson(text) ?? undefined);
  if (type.input.control !== 'number') return text;
  const [, digits] = NUMBER_DEFAULT.exec(text ?? expression) ?? [];
  return digits === undefined ? undefined : parseNumber(digits, type);
}

/** `x in ('a', 'b')` as PostgreSQL prints it. The column, which is VALUE in the check of a domain, may be cast. */
const LIST = /^\(\(?(?:"(?:[^"]|"")*"|\w+)\)?(?:::[\w ]+)? = ANY \(\(?ARRAY\[(.*)\](?:\)::[\w ]+\[\])?\)\)$/s;
const VALUE = /(?:'((?:[^']|'')*)'(?:::[\w ]+)?|(\d+))(?:, |$)/gy;

/** The values of a list; undefined for another expression. */
function valuesIn(check: string): string[] | undefined {
  const [, list] = LIST.exec(check) ?? [];
  if (list === undefined) return undefined;
  const found = [...list.matchAll(VALUE)];
  const isWhole = found.map(([text]) => text).join('') === list;
  return isWhole
    ? found.map(([, quoted, number]) => quoted?.replaceAll("''", "'") ?? number ?? '')
    : undefined;
}

/** What the check constraints of a column say in a registry. */
interface Checks {
  readonly choices?: readonly (string | number)[];
  /** The expressions of the others. */
  readonly others: readonly string[];
}

/** @param checks the expressions of the constraints */
export function readChecks(checks: readonly string[], { input: { json, control } }: ColumnType): Checks {
  const isNumber = control === 'number' && json === 'number';
  const isListed = isNumber || control === 'text' || control === 'textarea';
  const list = isListed ? checks.find((check) => valuesIn(check)) : undefined;
  if (list === undefined) return { others: checks };
  const values = [...new Set(valuesIn(list))];
  return {
    choices: isNumber ? values.map(Number) : values,
    others: checks.filter((check) => check !== list),
  };
}
