// Statements that explain conflicts: duplicates, referring records, faults of keys, and the constraint that a write violated.
import { EMPTY, exactText, join, quotedTable, raw, sql, value, valueList } from '../../db/fragment.ts';
import type { Fragment } from '../../db/fragment.ts';
import { booleans, createStatement, isTrue, json, oneCell, text, type Statement } from '../../db/rows.ts';
import { reference, typed, type Column, type Model } from '../../db/schema/model.ts';
import type { RowVisibility } from '../plan.ts';
import { allRows, source } from '../source.ts';
import { assertWrittenSql, assigned } from './check-statements.ts';
import type { Change } from './write-plan.ts';

/** Asks which conditions hold for any row `r` that the caller may read. @returns the answers in the order of the conditions */
const anyRow = (
  conditions: readonly { model: Model; condition: Fragment }[],
  visibility: RowVisibility,
): Statement<boolean[]> => {
  const each = conditions.map(
    ({ model, condition }) => sql`exists (select from ${source(model, 'r', visibility)} where ${condition})`,
  );
  return createStatement(sql`select array[${join(each, ', ')}]::bool[]`, oneCell(booleans));
};

const isOther = ({ primaryKey }: Model, id: string): Fragment =>
  sql` and ${reference('r', primaryKey)} <> ${typed(id, primaryKey)}`;

/** Asks which of these foreign keys refer to the record from another row. A record that refers to itself can be deleted. */
export const referrersStatement = (
  foreignKeys: readonly { model: Model; column: Column }[],
  id: string,
  visibility: RowVisibility,
): Statement<boolean[]> =>
  anyRow(
    foreignKeys.map(({ model, column }) => {
      const other = model === column.references ? isOther(model, id) : EMPTY;
      return { model, condition: sql`${reference('r', column)} = ${typed(id, column)}${other}` };
    }),
    visibility,
  );

/** The defaults in SQL of a table's columns, other than those that are sent. @param table quoted */
export const defaultsStatement = (table: string, sent: readonly string[]): Statement<string[]> =>
  createStatement(
    sql`select coalesce(json_agg(pg_get_expr(d.adbin, d.adrelid)), '[]') from pg_attrdef d join pg_attribute a on a.attrelid = d.adrelid and a.attnum = d.adnum where d.adrelid = to_regclass(${value(table)}) and a.attgenerated = '' and a.attname::text <> all(${valueList(sent)})`,
    oneCell(json<string[]>),
  );

/** Makes the values of defaults, and undoes it. It always throws: an error for which `isRolledBack` is true if none of them fails. */
export const trialOfDefaults = (defaults: readonly string[]): Statement<unknown> =>
  createStatement(
    sql`with made as materialized (select ${join(defaults.map(raw), ', ')}) select ${assertWrittenSql(raw('count(*) = 0'))} from made`,
    () => undefined,
  );

/** Asks whether a record is there, and which of these values it has already. */
export function hasValuesStatement(
  model: Model,
  id: string,
  changes: readonly Change[],
  visibility: RowVisibility,
): Statement<boolean[]> {
  const isRow = sql`${reference('r', model.primaryKey)} = ${typed(id, model.primaryKey)}`;
  const same = changes.map(
    ({ column, value: newValue }) =>
      sql`${exactText(reference('r', column))} is not distinct from ${exactText(assigned(typed(newValue, column), column, 'r'))}`,
  );
  return anyRow(
    [isRow, ...same.map((one) => sql`${isRow} and ${one}`)].map((condition) => ({ model, condition })),
    visibility,
  );
}

/** Asks which of these values are equal in the type of their column, such as 1.5 and 1.50. */
export const equalValuesStatement = (
  pairs: readonly { readonly column: Column; readonly one: string; readonly other: string }[],
): Statement<boolean[]> => {
  const each = pairs.map(({ column, one, other }) => sql`${typed(one, column)} = ${typed(other, column)}`);
  return createStatement(sql`select array[${join(each, ', ')}]::bool[]`, oneCell(booleans));
};

/** Asks whether a row lacks the key, and whether two rows have the same key. NULL is not the same as NULL. */
export const keyFaultsStatement = (model: Model): Statement<KeyFaults> => {
  const key = reference('r', model.primaryKey);
  const rows = sql`from ${allRows(model, 'r')}`;
  return createStatement(
    sql`select exists (select ${rows} where not (${key} is not null)), exists (select ${rows} where ${key} is not null group by ${key} having count(*) > 1)`,
    ([row]) => ({ isNull: isTrue(row?.[0]), isDuplicate: isTrue(row?.[1]) }),
  );
};

export interface KeyFaults {
  readonly isNull: boolean;
  readonly isDuplicate: boolean;
}

/** Where PostgreSQL reports a violation. */
export interface ConstraintPlace {
  readonly schema: string;
  readonly table: string;
  readonly name: string;
}

/**
 * Finds the unique index, foreign key or check constraint of the partitioned table from which a partition inherited a violated one.
 * @returns undefined if the place is no partition of this table
 */
export function ownConstraintStatement(
  model: Model,
  { schema, table: name, name: constraint }: ConstraintPlace,
): Statement<string | undefined> {
  const root = sql`to_regclass(${value(quotedTable(model.table))})`;
  const query = sql`with recursive
    place as (select c.oid from pg_class c join pg_namespace n on n.oid = c.relnamespace where n.nspname = ${value(schema)} and c.relname = ${value(name)}),
    indexes (oid) as (
      select i.indexrelid from place join pg_index i on i.indrelid = place.oid join pg_class c on c.oid = i.indexrelid where c.relname = ${value(constraint)}
      union all select h.inhparent from indexes join pg_inherits h on h.inhrelid = indexes.oid),
    keys (oid) as (
      select o.oid from place join pg_constraint o on o.conrelid = place.oid where o.contype = 'f' and o.conname = ${value(constraint)}
      union all select o.conparentid from keys join pg_constraint o on o.oid = keys.oid where o.conparentid <> 0)
    select c.relname::text from indexes join pg_index i on i.indexrelid = indexes.oid join pg_class c on c.oid = i.indexrelid where i.indrelid = ${root}
    union all select o.conname::text from keys join pg_constraint o on o.oid = keys.oid where o.conrelid = ${root}
    union all select o.conname::text from place join pg_constraint o on o.conrelid = ${root} and o.contype = 'c' and o.conname = ${value(constraint)}
      where ${root} in (select relid from pg_partition_ancestors(place.oid))`;
  return createStatement(query, ([row]) => text(row?.[0] ?? null) ?? undefined);
}
