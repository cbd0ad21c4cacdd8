// Checks of a body that only the database can make, such as whether a related record exists.
import { EMPTY, join, raw, sql, table, value } from '../../db/fragment.ts';
import type { Fragment } from '../../db/fragment.ts';
import { booleans, createStatement, oneCell, type Statement } from '../../db/rows.ts';
import { output, reference, typed, type Column, type Model } from '../../db/schema/model.ts';
import { cast } from '../../db/types/column-types.ts';

/** A check of a body's field that only the database can make. The statement that writes makes it too. */
export interface Check {
  readonly column: Column;
  /** The value of the field; its salted digest for `unchanged` of a password. */
  readonly value: string;
  /**
   * - `reference`: the related record exists
   * - `unchanged`: the column has this value already; as a new value it is not allowed
   * - `key`: the value is the record's key as in the output, or `asked` if there is no record
   */
  readonly kind: 'reference' | 'unchanged' | 'key';
  /** The key in the request's URL. */
  readonly asked?: string;
  /** The name of the field. */
  readonly key: string;
  /** The error message if the check fails. */
  readonly fault: string;
}

/** The alias of the row that a statement has found and locked. Its additional columns have names that no table has. */
export const FOUND = 'f';

/** A check whose values are parameters. */
export interface BoundCheck extends Pick<Check, 'column' | 'kind'> {
  readonly values: readonly Fragment[];
}

/** @param add turns a value into a parameter */
export function bindCheck(
  { column, kind, value: text, asked }: Check,
  add: (text: string | null) => Fragment,
): BoundCheck {
  const texts: readonly (string | null)[] =
    kind === 'key' ? [text, asked ?? null] : column.isPassword ? text.split(':') : [text];
  return { column, kind, values: texts.map(add) };
}

/** Whether the column holds the text of this salt and digest: see `saltedDigest` in resources/passwords/password-hashing.ts. */
export const matchesDigest = (
  present: Fragment,
  [salt = EMPTY, digest = EMPTY]: readonly Fragment[],
): Fragment =>
  sql`coalesce(encode(sha256(convert_to(${salt} || ${present}, 'UTF8')), 'hex') = ${digest}, false)`;

function checkSql({ kind, column, values }: BoundCheck): Fragment {
  const [given = EMPTY, asked = EMPTY] = values;
  const cell = cast(given, column);
  if (kind === 'key') {
    const shown = column.type.output(cell, column);
    return sql`coalesce(${output(FOUND, column)}::text, ${asked}) = ${shown}::text`;
  }
  if (kind === 'unchanged') {
    const present = reference(FOUND, column);
    if (column.isPassword) return matchesDigest(present, values);
    const shown = (one: Fragment): Fragment =>
      column.type.comparable?.(one) ?? sql`${column.type.output(one, column)}::text`;
    return sql`coalesce(${shown(present)} = ${shown(cell)}, false)`;
  }
  if (!column.references) return sql`${cell} is not null`;
  const { table: target, primaryKey } = column.references;
  return sql`exists (select from ${table(target)} r where ${reference('r', primaryKey)} = ${cell})`;
}

/** The results of the checks as an array, in their order. The row to check has the alias FOUND. */
export const checksSql = (checks: readonly BoundCheck[]): Fragment =>
  sql`array[${join(checks.map(checkSql), ', ')}]::bool[]`;

/**
 * Makes the checks without writing. A body with other errors needs it, so that one response reports all of them.
 * @param id the record that would be changed, if any
 * @returns the results in the order of the checks
 */
export function checkStatement(
  model: Model,
  id: string | undefined,
  checks: readonly Check[],
): Statement<boolean[]> {
  const key =
    id === undefined
      ? raw('false')
      : sql`${reference(FOUND, model.primaryKey)} = ${typed(id, model.primaryKey)}`;
  const row = sql`(select) one left join ${table(model.table)} ${raw(FOUND)} on ${key}`;
  const results = checksSql(checks.map((check) => bindCheck(check, value)));
  return createStatement(sql`select ${results} from ${row}`, oneCell(booleans));
}
