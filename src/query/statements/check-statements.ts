// Checks of a body that only the database can make, such as whether a related record exists.
import {
  createStatement,
  join,
  raw,
  sql,
  table,
  value,
  type Fragment,
  type Statement,
} from '../../db/fragment.ts';
import { booleans, oneCell } from '../../db/rows.ts';
import { output, reference, typed, type Column, type Model } from '../../db/schema/model.ts';

/** A check of a body's field that only the database can make. The statement that writes makes it too. */
export interface Check {
  readonly column: Column;
  /** The value of the field; its salted digest for `unchanged` of a password. */
  readonly value: string;
  /**
   * `reference`: the related record exists. `unchanged`: the column already has this value, which is otherwise not allowed.
   * `key`: this is the record's key as in the output, or `asked` if there is no record.
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

/** Whether the column holds the text of this digest: see `saltedDigest` in resources/passwords/password-hashing.ts. */
export function matchesDigest(present: Fragment, saltedDigest: string): Fragment {
  const [salt = '', digest = ''] = saltedDigest.split(':');
  return sql`coalesce(encode(sha256(convert_to(${value(salt)} || ${present}, 'UTF8')), 'hex') = ${value(digest)}, false)`;
}

function checkSql({ kind, column, value: text, asked }: Check): Fragment {
  if (kind === 'key') {
    const shown = column.type.output(typed(text, column), column);
    return sql`coalesce(${output(FOUND, column)}::text, ${value(asked ?? null)}) = ${shown}::text`;
  }
  if (kind === 'unchanged') {
    const present = reference(FOUND, column);
    if (column.isPassword) return matchesDigest(present, text);
    const shown = (one: Fragment): Fragment =>
      column.type.comparable?.(one) ?? sql`${column.type.output(one, column)}::text`;
    return sql`coalesce(${shown(present)} = ${shown(typed(text, column))}, false)`;
  }
  if (!column.references) return raw('true');
  const { table: target, primaryKey } = column.references;
  return sql`exists (select from ${table(target)} r where ${reference('r', primaryKey)} = ${typed(text, column)})`;
}

/** The results of the checks as an array, in their order. The row to check has the alias FOUND. */
export const checksSql = (checks: readonly Check[]): Fragment =>
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
  return createStatement(sql`select ${checksSql(checks)} from ${row}`, oneCell(booleans));
}
