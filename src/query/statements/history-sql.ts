// The part of a writing statement that records the change in the history.
import { EMPTY, exactText, join, literal, raw, sql, value, type Fragment } from '../../db/fragment.ts';
import type { Edge } from '../../db/schema/cascades.ts';
import {
  foreignReference,
  output,
  partsOf,
  reference,
  type Column,
  type Model,
} from '../../db/schema/model.ts';
import { allRows, writtenTable } from '../source.ts';
import { DELETED, deletedKeyOf, typedDeletedKey } from './dependent-statements.ts';
import { jsonField, recordJson } from './record-json.ts';
import type { Action, RequestKey } from './system-statements.ts';

/** Where a change comes from, for the history. */
export interface Origin {
  /** The network of the client. */
  readonly address?: string;
  /** The id of the request, as in the log. */
  readonly request?: string;
  /** The same in all changes of one operation. */
  readonly batch?: string;
}

/** Who writes. */
export interface Author {
  readonly id: string;
  readonly name: string;
  readonly admin?: boolean;
  readonly roles?: readonly string[];
  readonly origin?: Origin;
  /** SQL condition: the user has not changed since an earlier request. Undefined if this request has read the user. */
  readonly precondition?: Fragment;
  /** What keeps the request from being carried out twice: a write of records by their keys stores it. */
  readonly key?: RequestKey | undefined;
}

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

/**
 * A foreign key along which the database changes rows when it deletes those that they refer to: it deletes them (`cascade`), or sets
 * the key to NULL (`setNull`).
 */
export interface Cascade extends Edge {
  /** What is recorded of the changed rows; undefined for nothing. */
  readonly recording: Recording | undefined;
}

/** The columns of the history about the author of a change, who is null for a command. */
const AUTHOR: Readonly<Record<string, (author: Author | null) => string | null | undefined>> = {
  user_key: (author) => author?.id,
  user_name: (author) => author?.name,
  roles: (author) => [...(author?.admin ? ['admin'] : []), ...(author?.roles ?? [])].join() || null,
  address: (author) => author?.origin?.address,
  request: (author) => author?.origin?.request,
  batch: (author) => author?.origin?.batch,
};

const hasColumn = ({ columns }: Model, name: string): boolean => columns.some((one) => one.name === name);

const known = new WeakMap<Model, readonly string[]>();

/** The names of those that the history has. */
function authorColumns(history: Model): readonly string[] {
  const names = known.get(history) ?? Object.keys(AUTHOR).filter((name) => hasColumn(history, name));
  known.set(history, names);
  return names;
}

/** The values of `authorColumns`. */
export const authorSql = (history: Model, author: Author | null): Fragment =>
  join(
    authorColumns(history).map((name) => value(AUTHOR[name]?.(author) ?? null)),
    ', ',
  );

/** Whether the history can say that a change comes from a cascade. One from an earlier version cannot. */
export const recordsCascades = (history: Model): boolean => hasColumn(history, 'cause');

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

/** `insert into` the history. `Recording.source` is in the column `door`. */
const intoHistory = (history: Model, more = ''): Fragment =>
  sql`insert into ${writtenTable(history)} (${raw(authorColumns(history).join(', '))}, door, action, model, record, before, after${raw(more)})`;

/** What an entry says of the change, as literals: constants, and a model name that the registry's check limits to letters, digits and underscores. */
const whatSql = ({ source, model }: Recording, action: Action): Fragment =>
  raw(`'${source}', '${action}', '${model}'`);

/**
 * `, logged as (insert …)`: one entry of the history for each row of a CTE.
 * @param author see `authorSql`
 * @param rows the name of the CTE
 * @param after the column of the CTE that replaces "vitrine after"
 */
export const historyInsert = (
  recording: Recording,
  author: Fragment,
  action: Action,
  rows: string,
  after: Fragment = AFTER,
): Fragment =>
  sql`, logged as (${intoHistory(recording.history)} select ${author}, ${whatSql(recording, action)}, ${KEY}, ${BEFORE}, ${after} from ${raw(rows)})`;

/** Maximum rows of cascades that are recorded for one deletion, and of each foreign key that is set to NULL. */
const MAX_CASCADED = raw('10000');

/** The key of a deleted row, see `deletedKeyOf`. */
const DELETED_KEY = raw('"vitrine deleted key"');
/** The CTE of the deleted rows, with those that the database deletes with them. */
const GONE = raw('"vitrine gone"');

/** What is deleted, and what the history records of it. */
export interface RecordedDeletion {
  readonly model: Model;
  readonly recording: Recording | undefined;
  readonly cascades: readonly Cascade[];
}

/** The history's part of the `returning` clause of a deletion. */
export function returningDeleted(alias: string, { model, recording, cascades }: RecordedDeletion): Fragment {
  const own = recording
    ? returningHistory(alias, model.primaryKey, wholeRow(alias, recording), raw('null'))
    : EMPTY;
  if (cascades.length === 0) return own;
  const key = recording ? EMPTY : sql`, ${output(alias, model.primaryKey)}::text as ${KEY}`;
  return sql`${own}${key}, ${deletedKeyOf(alias, model)} as ${DELETED_KEY}`;
}

/**
 * The CTEs that record the rows of the CTE `deleted`, and those that the database changes because of them, as it finds them at the
 * beginning of the statement. They are a part of `with recursive` where there are cascades.
 */
export function deletionHistory(
  { model, recording, cascades }: RecordedDeletion,
  author: Fragment,
): Fragment {
  if (cascades.length === 0) return recording ? historyInsert(recording, author, 'delete', 'deleted') : EMPTY;
  const deleting = cascades.filter(({ column }) => column.onDelete === 'cascade');
  const nulling = cascades.filter(({ column }) => column.onDelete === 'setNull');
  const models = [...new Set([model, ...deleting.map((one) => one.model)])];
  const indexOf = (one: Model): Fragment => raw(String(models.indexOf(one)));
  // The texts of a recursive query need one collation, and those of columns have different ones.
  const C = raw('collate "C"');
  const keyOf = (one: Model): Fragment => sql`${output('d', one.primaryKey)}::text ${C}`;
  /** The deleted record that a row `d` refers to, as `model/key`. */
  const causeOf = (target: Model): Fragment => sql`concat(${literal(`${target.name}/`)}, g.record) ${C}`;
  const refersToDeleted = ({ column, target }: Cascade): Fragment =>
    sql`${foreignReference('d', column)} = ${typedDeletedKey(target, models.indexOf(target))}`;
  const steps = deleting.map(
    (one) =>
      sql`select ${indexOf(one.model)}, ${deletedKeyOf('d', one.model)}, ${keyOf(one.model)}, ${causeOf(one.target)} from ${allRows(one.model, 'd')} where ${refersToDeleted(one)}`,
  );
  const further =
    steps.length > 0
      ? sql` union select e.* from ${DELETED} g cross join lateral (${join(steps, ' union all ')}) e`
      : EMPTY;
  const all = sql`${DELETED} (model_index, key, record, cause) as (select ${indexOf(model)}, ${DELETED_KEY}, ${KEY} ${C}, null::text ${C} from deleted${further})`;
  // The limit ends the recursion, which finds the deleted rows themselves first.
  const first = sql`select * from ${DELETED} limit (select count(*) + ${MAX_CASCADED} from deleted)`;
  const gone = sql`${GONE} as materialized (select distinct on (model_index, key) * from (${first}) g order by model_index, key, cause nulls first)`;

  const ofDeleted = models.flatMap((one): Fragment[] => {
    const own = deleting.find((cascade) => cascade.model === one)?.recording;
    if (!own) return [];
    const isRow = sql`${reference('d', one.primaryKey)} = ${typedDeletedKey(one, models.indexOf(one))}`;
    return [
      sql`select ${author}, ${whatSql(own, 'delete')}, g.record, ${wholeRow('d', own)}, null, g.cause from ${GONE} g join ${allRows(one, 'd')} on ${isRow} where g.model_index = ${indexOf(one)} and g.cause is not null`,
    ];
  });
  const ofNulled = nulling.flatMap((one): Fragment[] => {
    const { recording: own, model: changed, column, target } = one;
    if (!own) return [];
    const parts = partsOf(column).filter((part) => part.nullable && own.columns.includes(part));
    const [before, after] = [
      object(parts.map((part) => jsonField('d', part))),
      object(parts.map((part) => literal(`"${part.key}":null`))),
    ];
    // PostgreSQL hashes the list, and would compare each row with each other one for `not exists`.
    const isKept = models.includes(changed)
      ? sql` and ${deletedKeyOf('d', changed)} not in (select o.key from ${GONE} o where o.model_index = ${indexOf(changed)})`
      : EMPTY;
    return [
      sql`(select ${author}, ${whatSql(own, 'update')}, ${keyOf(changed)}, ${before}, ${after}, ${causeOf(target)} from ${GONE} g join ${allRows(changed, 'd')} on ${refersToDeleted(one)} where g.model_index = ${indexOf(target)}${isKept} limit ${MAX_CASCADED})`,
    ];
  });
  const ofOwn = recording
    ? [sql`select ${author}, ${whatSql(recording, 'delete')}, ${KEY}, ${BEFORE}, null, null from deleted`]
    : [];
  const history = recording?.history ?? cascades.find((one) => one.recording)?.recording?.history;
  // In this order the entries of records come after those of the records that they refer to.
  const entries = join([...ofOwn, ...ofDeleted, ...ofNulled], ' union all ');
  return history ? sql`, ${all}, ${gone}, logged as (${intoHistory(history, ', cause')} ${entries})` : EMPTY;
}

/** Whether the history records the same columns as the output has, so that it can reuse the output's JSON. */
export const recordsSameColumns = (output: readonly Column[], { columns }: Recording): boolean =>
  output.length === columns.length && output.every((column, index) => column === columns[index]);
