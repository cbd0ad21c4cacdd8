// The choices of a column by its check constraints. Other constraints are left to PostgreSQL.
import type { ColumnType } from '../../db/types/column-type.ts';

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
