import { join, raw, sql, table, value, type Fragment } from '../../db/fragment.ts';
import { reference, type Column, type Model } from '../../db/schema/model.ts';
import type { Change } from './change.ts';
import { member, record } from './record-json.ts';

/** What is written down beside a change, in the same statement. */
export interface Recording {
  /** The log itself; its columns are those of `resources/own.ts`. */
  readonly log: Model;
  /** The columns whose values are written down; of passwords only that they changed, of others nothing. */
  readonly columns: readonly Column[];
  readonly model: string;
  readonly door: string;
  /** Who makes the change; null for a command. */
  readonly caller: { readonly id: string; readonly name: string } | null;
}

export type Action = 'create' | 'update' | 'delete';

/** The names of what `returning` gives for the log. */
export const BEFORE = raw('"vitrine before"');
export const AFTER = raw('"vitrine after"');
const KEY = raw('"vitrine key"');

/** What the log wants of the rows of a statement that writes, for its `returning`: `, … as "vitrine before"` and so on. */
export function returningLog(alias: string, key: Column, before: Fragment, after: Fragment): Fragment {
  return sql`, ${reference(alias, key)}::text as ${KEY}, ${before} as ${BEFORE}, ${after} as ${AFTER}`;
}

/** All values of a row, for a record that begins or ends. */
export const wholeRow = (alias: string, { columns }: Recording): Fragment => record(alias, columns);

const object = (members: readonly Fragment[]): Fragment => {
  const [only] = members;
  if (!only) return raw("'{}'");
  // One member is not put together as several are, which may each be left out.
  return members.length === 1
    ? sql`'{' || ${only} || '}'`
    : sql`concat('{', array_to_string(array[${join(members, ', ')}], ','), '}')`;
};

/**
 * The values of those changed columns that really differ between two states of a row. A statement that changes one column only
 * touches rows in which it differs.
 */
export function changedValues(
  shown: string,
  changes: readonly Change[],
  { columns }: Recording,
  states: readonly [before: string, after: string],
): Fragment {
  const [before, after] = states;
  const members = changes.flatMap(({ column }) => {
    if (!column.isPassword && !columns.includes(column)) return [];
    const text = column.isPassword ? raw(`'"${column.key}":${shown === after}'`) : member(shown, column);
    if (changes.length === 1) return [text];
    const differs = sql`${reference(before, column)}::text is distinct from ${reference(after, column)}::text`;
    return [sql`case when ${differs} then ${text} end`];
  });
  return object(members);
}

const NAMES = raw('user_key, user_name, door, action, model, record, before, after');

/**
 * `, logged as (insert …)`: one row for each row of a part of the statement.
 * @param rows the name of that part, and a condition where not all of its rows count
 * @param after what the rows have in place of "vitrine after", where that is there already
 */
export function logged(
  { log, model, door, caller }: Recording,
  action: Action,
  rows: string,
  after: Fragment = AFTER,
): Fragment {
  const who = sql`${value(caller?.id ?? null)}, ${value(caller?.name ?? null)}`;
  // Words of the program, and a name that the registry's check has held to letters, digits and underscores.
  const what = raw(`'${door}', '${action}', '${model}'`);
  return sql`, logged as (insert into ${table(log.table)} (${NAMES}) select ${who}, ${what}, ${KEY}, ${BEFORE}, ${after} from ${raw(rows)})`;
}

/** Whether the record's JSON, as the output has it, is what the log wants of a new record. */
export const isRecorded = (output: readonly Column[], { columns }: Recording): boolean =>
  output.length === columns.length && output.every((column, index) => column === columns[index]);
