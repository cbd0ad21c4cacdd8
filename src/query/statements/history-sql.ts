// The part of a writing statement that records the change in the history.
import { exactText, join, raw, sql, value, type Fragment } from '../../db/fragment.ts';
import { output, reference, type Column, type Model } from '../../db/schema/model.ts';
import { writtenTable } from '../source.ts';
import { jsonField, recordJson } from './record-json.ts';

/** What a writing statement records in the history. */
export interface Recording {
  /** The history's model: see `HISTORY` in resources/definition/system-tables.ts. */
  readonly history: Model;
  /** The columns whose values are recorded. For a password, the history only records that it changed. */
  readonly columns: readonly Column[];
  /** The name of the changed record's model. */
  readonly model: string;
  /** Where the change comes from: `api`, `admin` or `command`. */
  readonly source: string;
}

/** The user who makes a change, for the history; null for a command. */
export const authorSql = (author: { readonly id: string; readonly name: string } | null): Fragment =>
  sql`${value(author?.id ?? null)}, ${value(author?.name ?? null)}`;

export type Action = 'create' | 'update' | 'delete';

/** The columns that `returning` provides for the history. */
const BEFORE = raw('"vitrine before"');
const AFTER = raw('"vitrine after"');
const KEY = raw('"vitrine key"');

/** The history's part of a `returning` clause: `, … as "vitrine before"` and so on. */
export function returningHistory(alias: string, key: Column, before: Fragment, after: Fragment): Fragment {
  return sql`, ${output(alias, key)}::text as ${KEY}, ${before} as ${BEFORE}, ${after} as ${AFTER}`;
}

/** All recorded values of a row, for creating and deleting. */
export const wholeRow = (alias: string, { columns }: Recording): Fragment => recordJson(alias, columns);

const object = (fields: readonly Fragment[]): Fragment => {
  const [only] = fields;
  if (!only) return raw("'{}'");
  // One of several fields may be NULL, which `array_to_string` leaves out. A single one is never NULL.
  return fields.length === 1
    ? sql`'{' || ${only} || '}'`
    : sql`concat('{', array_to_string(array[${join(fields, ', ')}], ','), '}')`;
};

/**
 * The JSON of those changed columns whose values differ between two states of a row. With a single column no comparison is
 * needed, because the statement only touches rows in which it differs.
 */
export function changedValues(
  alias: string,
  changes: readonly { readonly column: Column }[],
  { columns }: Recording,
  states: readonly [before: string, after: string],
): Fragment {
  const [before, after] = states;
  const fields = changes.flatMap(({ column }) => {
    if (!column.isPassword && !columns.includes(column)) return [];
    const text = column.isPassword ? raw(`'"${column.key}":${alias === after}'`) : jsonField(alias, column);
    if (changes.length === 1) return [text];
    const differs = sql`${exactText(reference(before, column))} is distinct from ${exactText(reference(after, column))}`;
    return [sql`case when ${differs} then ${text} end`];
  });
  return object(fields);
}

/** The columns of the history. `Recording.source` is in the column `door`. */
const NAMES = raw('user_key, user_name, door, action, model, record, before, after');

/**
 * `, logged as (insert …)`: one entry of the history for each row of a CTE.
 * @param author see `authorSql`
 * @param rows the name of the CTE
 * @param after the column of the CTE that replaces "vitrine after"
 */
export function historyInsert(
  { history, model, source }: Recording,
  author: Fragment,
  action: Action,
  rows: string,
  after: Fragment = AFTER,
): Fragment {
  // Safe as literals: constants, and a model name that the registry's check limits to letters, digits and underscores.
  const what = raw(`'${source}', '${action}', '${model}'`);
  return sql`, logged as (insert into ${writtenTable(history)} (${NAMES}) select ${author}, ${what}, ${KEY}, ${BEFORE}, ${after} from ${raw(rows)})`;
}

/** Whether the history records the same columns as the output has, so that it can reuse the output's JSON. */
export const recordsSameColumns = (output: readonly Column[], { columns }: Recording): boolean =>
  output.length === columns.length && output.every((column, index) => column === columns[index]);
